"""Dense layers on flattened maps add the products of each row as a fused stage computes it, to the bytes of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from cases import tiny
from cases.draw import activation, constant, integers, rescaled
from cases.sweeps import rest_in_sweeps
from codegen.emitted import emitted
from planning.stages import plan_in_stages

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.kernels.table import variant_for
from tinyweave.ops import check
from tinyweave.passes import run_passes
from tinyweave.planning import Plan, Request, plan
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.planning.kernels.cycles import cycles_per_op
from tinyweave.planning.request import Objective
from tinyweave.simulate import compare, emulated, host, target

CORES = ("", "cortex-m4", "cortex-m7", "cortex-m55")
BUILDS = [*(("int8", core) for core in CORES), ("int4", "cortex-m4"), ("offset", "cortex-m55")]  # weights, core
BUILDS += [("int4", core) for core in ("", "cortex-m7", "cortex-m55")] + [("offset", core) for core in CORES[:3]]


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
    rng, tensors, layers = np.random.default_rng(seed), list[Tensor](), list[Op]()
    for number, ((h, w, c), units, most) in enumerate(heads):
        x = activation(f"x{number}", (1, h, 2 * w, c), rng, quant=Quant((0.05,), (int(rng.integers(-128, 128)),)))
        half = replace(x, name=f"half{number}", shape=(1, h, w, c))
        filters, bias, out = (replace(t, name=f"{t.name}{number}") for t in dense_on_map(rng, half, units, most, weights))
        window = {"kernel": (1, 2), "stride": (1, 2), "padding": ((0, 0), (0, 0)), "activation": "none"}
        layers.append(Op(f"half_{number}", "max_pool_2d", (x.name,), (half.name,), window))
        attrs = {"activation": "none" if number % 3 else "relu", "keep_num_dims": False, "unsigned": weights == "offset"}
        has_bias = number % 5 < 4
        layers.append(
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
    return check(verify(Graph("dense", {t.name: t for t in tensors}, tuple(layers), inputs, outputs)))


def same_bytes(made: Plan, folder: Path, core: str, seed: int) -> str:
    """Assert that the C computes the bytes of the reference, and return it.

    It runs on the host, there also under sanitizers, and on the emulated core.
    """
    emitted(made, folder, "dense")
    emulable = [core] if core and emulated.missing(core) is None else []
    builds = [target.build(made, folder, "dense", name) for name in (target.HOST, *emulable)]
    builds.append(replace(builds[0], program=host.build(folder, "dense", sanitize=True, optimize="-O0")))
    samples = compare.samples(made.graph, 4, seed)
    right = compare.truth(made.graph, samples)
    result = compare.verdict(right, samples, [compare.run_samples(built, samples) for built in builds])
    assert result.ok, result.first_difference
    return (folder / "dense.c").read_text()


def kernels_for(graph: Graph, core: str) -> KernelRule:
    """Return the rule by which each op has its kernel for the core, or a portable one if that one takes no rows."""
    rows = {op.name: variant_for(graph, op, core) for op in graph.ops}
    slow = (op.name for op in graph.ops if op.kind == "fully_connected" and not rows[op.name].sums(graph, op))
    return KernelRule(core, frozenset((name, "") for name in slow))


@pytest.mark.emulator
@pytest.mark.parametrize(("weights", "core"), rest_in_sweeps(BUILDS, 6))
def test_row_wise_products_equal_the_reference(weights: str, core: str, tmp_path: Path) -> None:
    graph = network(HEADS, weights, seed=len(core))
    stages = [(2 * n, 2 * n + 1) for n in range(len(HEADS))]
    made = plan_in_stages(graph, stages, kernels=kernels_for(graph, core))
    text = same_bytes(made, tmp_path, core, 1)
    assert all(f"{made.variants[dense]}_rows(" in text for _, dense in stages)


@pytest.mark.emulator
def test_the_compact_kernel_takes_rows(tmp_path: Path) -> None:
    graph = network(HEADS, "int8", 3)
    compact = KernelRule(named=frozenset((op.name, variant_for(graph, op, also="compact").name) for op in graph.ops))
    made = plan_in_stages(graph, [(2 * n, 2 * n + 1) for n in range(len(HEADS))], kernels=compact)
    assert same_bytes(made, tmp_path, "", 2).count("tw_fully_connected_s8_compact_rows(") == len(HEADS)


def image_head(mean_over: int | None = None) -> Graph:
    """Return a 3x3 convolution of an image, a mean over axis `mean_over` if it is given, a flattening and a dense layer."""
    shape, units = (1, 16, 16, 32), 10
    left = tuple(size for axis, size in enumerate(shape) if axis != mean_over)
    inputs = int(np.prod(left))
    tensors = [
        tiny.activation("image", (1, 16, 16, 3), 0.02, -3),
        tiny.constant("conv.weights", tiny.ramp((32, 3, 3, 3)), (0.004,)),
        tiny.activation("map", shape, 0.03, -20),
        *([integers("axes", mean_over), tiny.activation("means", left, 0.01, 5)] if mean_over else []),
        tiny.activation("flat", (1, inputs), 0.01 if mean_over else 0.03, 5 if mean_over else -20),
        tiny.constant("dense.weights", tiny.ramp((units, inputs), 53), (0.01,)),
        tiny.constant("dense.bias", np.arange(units, dtype=np.int32) * 999 - 4000, (0.0001 if mean_over else 0.0003,)),
        tiny.activation("scores", (1, units), 0.5, 9),
    ]
    window = {"stride": (1, 1), "dilation": (1, 1), "padding": ((1, 1), (1, 1)), "activation": "none"}
    layers = [
        Op("conv_0", "conv_2d", ("image", "conv.weights", None), ("map",), window),
        *([Op("mean_1", "mean", ("map", "axes"), ("means",), {"keep_dims": False})] if mean_over else []),
        Op("flatten", "reshape", ("means" if mean_over else "map",), ("flat",), {"new_shape": None}),
        Op("dense", "fully_connected", ("flat", "dense.weights", "dense.bias"), ("scores",), DENSE),
    ]
    return tiny.graph("head", tensors, layers, ("image",), ("scores",))


DENSE = {"activation": "none", "keep_num_dims": False}


@pytest.mark.emulator
@pytest.mark.parametrize(("objective", "core"), [("size", "cortex-m4"), ("balanced", "cortex-m33"), ("balanced", "cortex-m55")])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_dense_layer_on_a_map_of_8192_bytes_needs_few_bytes(
    objective: Objective, streamed: bool, core: str, tmp_path: Path
) -> None:
    """The limit does not count the sums, 4 bytes per output, nor an input that is not streamed."""
    graph, _ = run_passes(image_head(), io="int8")
    made = plan(graph, Request(objective=objective, core=core, stream_inputs=streamed))
    assert graph.tensors["map"].bytes == 8192
    assert sum(made.arena.values()) <= 1500 + 40 + (0 if streamed else graph.tensors["image"].bytes)
    assert f"{made.variants[-1]}_rows(" in same_bytes(made, tmp_path, core, 3)


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize(("axis", "most"), [(1, 3_500), (2, 1_500)], ids=["over rows", "over columns"])
def test_a_dense_layer_after_a_mean_over_one_axis_keeps_no_map(axis: int, most: int, core: str, tmp_path: Path) -> None:
    """A mean over the rows has 4 bytes of sums for each of 512 outputs; the map has 8,192 bytes."""
    graph, _ = run_passes(image_head(axis), io="int8")
    made = plan(graph, Request(objective="size", core=core, stream_inputs=True))
    assert sum(made.arena.values()) <= most
    assert "_rows(" in same_bytes(made, tmp_path, core, 4)


@pytest.mark.emulator
def test_a_dense_layer_takes_rows_of_a_streamed_input(tmp_path: Path) -> None:
    """The input, 7,840 bytes, is never whole: a row of it, the sums and the outputs are."""
    x = tiny.activation("x", (1, 28, 28, 10), 0.02, -3)
    tensors = [x, tiny.constant("w", tiny.ramp((7, x.elements), 53), (0.01,)), tiny.activation("y", (1, 7), 0.6, 2)]
    graph = tiny.graph("rows", tensors, [Op("dense", "fully_connected", ("x", "w", None), ("y",), DENSE)], ("x",), ("y",))
    made = plan(graph, Request(core="cortex-m4", stream_inputs=True))
    assert sum(made.arena.values()) <= 280 + 4 * 7 + 8
    assert f"{made.variants[0]}_rows(" in same_bytes(made, tmp_path, "cortex-m4", 5)


@pytest.mark.emulator
@pytest.mark.parametrize("head", [Head((25, 20, 8), 4), Head((16, 16, 32), 64), Head((14, 1, 16), 16), Head((4, 4, 128), 10)])
def test_cycles_of_a_dense_layer_that_takes_rows_are_predicted_within_25_percent(head: Head, tmp_path: Path) -> None:
    graph = network([head], "int8", 1)
    made = plan_in_stages(graph, [(0, 1)], kernels=kernels_for(graph, "cortex-m4"))
    emitted(made, tmp_path, "dense")
    firmware, sample = emulated.build(tmp_path, "dense", "cortex-m4", trace=True), compare.samples(graph, 4, 1)[-1]
    packed, layer = compare.pack(sample), "dense_0"
    run = emulated.invoke(firmware, made.arena, packed, compare.output_bytes(graph), layers={layer: 0})
    measured = emulated.cycles("cortex-m4", run)[0, layer].likely
    assert cycles_per_op(made, "cortex-m4")[1] == pytest.approx(measured, rel=0.25)
