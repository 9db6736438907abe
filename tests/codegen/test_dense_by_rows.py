"""Dense layers on flattened maps add the products of each row as a fused stage computes it, to the bytes of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from cases.draw import activation, constant, rescaled

from tinyweave.codegen import Origin, emit
from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.kernels.table import variant_for
from tinyweave.ops import check
from tinyweave.planning import Plan, plan_in_stages
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.simulate import compare, emulated

CORES = ("", "cortex-m4", "cortex-m7", "cortex-m55")
WEIGHTS = ("int8", "int4", "offset")


class Head(NamedTuple):
    """A dense layer on a map: the map's shape, the outputs, and the largest weight magnitude."""

    shape: tuple[int, int, int]
    units: int
    most: int = 127


# rows of 4 n and of other numbers of elements; groups of eight, four and single outputs; sums beyond a packed accumulator
HEADS = (
    *(Head((5, 3, 4), units) for units in (1, 2, 3, 4, 5, 8, 11, 20)),
    *(Head((2, 1, c), 7) for c in (1, 3, 6, 16)),
    *(Head((9, 4, 5), units, most) for units in (4, 9) for most in (3, 127)),
    Head((12, 10, 20), 10),
    Head((12, 10, 20), 9, 8),
    Head((3, 333, 4), 2),
)


def dense_on_map(rng: np.random.Generator, x: Tensor, units: int, most: int, weights: str) -> list[Tensor]:
    """Return weights, bias and output of a dense layer on the flattened map `x`; `most` is the largest weight magnitude."""
    limit = 7 if weights == "int4" else most
    data = rng.integers(-limit, limit + 1, (units, x.elements)).astype(np.int8)
    quant = Quant((0.01,), (int(rng.integers(-20, 21)) if weights == "offset" else 0,))
    filters = Tensor("w", data.shape, "int4" if weights == "int4" else "int8", quant, data, "constant")
    spread = x.elements**0.5 * 75 * limit
    bias = constant("b", rng.integers(int(-spread), int(spread) + 1, units).astype(np.int32), Quant((x.scale * 0.01,), (0,)))
    out = rescaled(activation("out", (1, units), rng), float(x.scale * 0.01 * spread / 60))
    return [filters, bias, out]


def network(heads: Sequence[Head], weights: str, seed: int) -> Graph:
    """Return a pool of 1 x 2 windows and a dense layer on its flattened output for each head, each with its own input."""
    rng, tensors, ops = np.random.default_rng(seed), list[Tensor](), list[Op]()
    for number, ((h, w, c), units, most) in enumerate(heads):
        x = activation(f"x{number}", (1, h, 2 * w, c), rng, quant=Quant((0.05,), (int(rng.integers(-128, 128)),)))
        half = replace(x, name=f"half{number}", shape=(1, h, w, c))
        filters, bias, out = (replace(t, name=f"{t.name}{number}") for t in dense_on_map(rng, half, units, most, weights))
        window = {"kernel": (1, 2), "stride": (1, 2), "padding": ((0, 0), (0, 0)), "activation": "none"}
        ops.append(Op(f"half_{number}", "max_pool_2d", (x.name,), (half.name,), window))
        attrs = {"activation": "none" if number % 3 else "relu", "keep_num_dims": False, "unsigned": weights == "offset"}
        has_bias = number % 5 < 4
        ops.append(
            Op(
                f"dense_{number}",
                "fully_connected",
                (half.name, filters.name, bias.name * has_bias or None),
                (out.name,),
                attrs,
            )
        )
        tensors += [x, half, filters, out, *[bias] * has_bias]
    inputs, outputs = (tuple(f"{name}{number}" for number in range(len(heads))) for name in ("x", "out"))
    return check(verify(Graph("dense", {t.name: t for t in tensors}, tuple(ops), inputs, outputs)))


def same_bytes(made: Plan, folder: Path, core: str, seed: int) -> str:
    """Assert that host and emulated core compute the bytes of the reference, and return the C of the model."""
    for file, text in emit(made, "dense", Origin("dense.tflite", "0" * 64)).files.items():
        (folder / file).write_text(text)
    cores = (core,) if core and emulated.missing(core) is None else ()
    result = compare.verify(made, folder, "dense", compare.samples(made.graph, 4, seed), cores=cores)
    assert result.ok, result.first_difference
    return (folder / "dense.c").read_text()


def kernels_for(graph: Graph, core: str) -> KernelRule:
    """Return the rule by which each op has its kernel for the core, or a portable one if that one takes no rows."""
    rows = {op.name: variant_for(graph, op, core) for op in graph.ops}
    slow = (op.name for op in graph.ops if op.kind == "fully_connected" and not rows[op.name].sums(graph, op))
    return KernelRule(core, portable_ops=frozenset(slow))


@pytest.mark.emulator
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_row_wise_products_equal_the_reference(weights: str, core: str, tmp_path: Path) -> None:
    graph = network(HEADS, weights, seed=len(core))
    stages = [(2 * n, 2 * n + 1) for n in range(len(HEADS))]
    made = plan_in_stages(graph, stages, kernels=kernels_for(graph, core))
    text = same_bytes(made, tmp_path, core, 1)
    assert all(f"{made.variants[dense]}_rows(" in text for _, dense in stages)


@pytest.mark.emulator
def test_the_compact_kernel_takes_rows(tmp_path: Path) -> None:
    graph = network(HEADS, "int8", 3)
    compact = KernelRule(compact=frozenset(op.name for op in graph.ops))
    made = plan_in_stages(graph, [(2 * n, 2 * n + 1) for n in range(len(HEADS))], kernels=compact)
    assert same_bytes(made, tmp_path, "", 2).count("tw_fully_connected_s8_compact_rows(") == len(HEADS)
