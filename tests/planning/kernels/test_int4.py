"""Networks with int4 maps: every strategy gives the numpy reference's bytes in half the arena.

LiteRT has no kernels for int4 maps, so the numpy reference is the only one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.mobile import narrow_mobilenet
from cases.ops import narrowed

from tinynas.arch import Arch, Block, Group, blocks
from tinynas.network import to_graph
from tinyweave.codegen import Origin, emit
from tinyweave.ir import Graph, Op, Tensor, verify
from tinyweave.ops import check
from tinyweave.passes import run_passes
from tinyweave.planning import Request, plan
from tinyweave.simulate import compare

EVEN = blocks(
    Arch((24, 24, 3), 8, (Group(8, 1, (3, 3), (2, 2)), Group(16, 2, (3, 5), (4, 4))), 32)
)  # channels fill whole words
ODD = narrow_mobilenet(32)[:6]


def int8_network(found: list[Block]) -> Graph:
    """Return a MobileNet with ten classes and an average_pool_2d."""
    graph, _ = run_passes(to_graph("twin", found, classes=10), float_io=True)
    mean = next(op for op in graph.ops if op.kind == "mean")
    x, out = graph.input(mean), graph.output(mean)
    attrs = {"kernel": x.shape[1:3], "stride": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
    pooled = replace(out, shape=(1, 1, 1, x.shape[3]))
    pool = Op(mean.name, "average_pool_2d", (x.name,), mean.outputs, attrs)
    tensors = {**graph.tensors, out.name: pooled}
    return check(verify(replace(graph, tensors=tensors, ops=tuple(pool if op is mean else op for op in graph.ops))))


def int4_twin(graph: Graph) -> Graph:
    """Return the graph with int4 maps and weights."""
    tensors = {name: narrowed(tensor) if tensor.quant else tensor for name, tensor in graph.tensors.items()}
    return check(verify(replace(graph, tensors=tensors)))


def with_int8_ends(graph: Graph) -> Graph:
    """Return the graph with int8 input and output, converted by quantize ops."""
    (x,), (y,) = graph.inputs, graph.outputs
    quants = [graph.tensors[name].quant for name in (x, y)]
    ends = [
        Tensor(name, graph.tensors[inner].shape, "int8", quant and replace(quant, scale=(quant.scale[0] / 16,)))
        for name, inner, quant in zip(("int8_in", "int8_out"), (x, y), quants, strict=True)
    ]
    first, last = Op("first", "quantize", ("int8_in",), (x,)), Op("last", "quantize", (y,), ("int8_out",))
    tensors = {**graph.tensors, **{tensor.name: tensor for tensor in ends}}
    return check(verify(Graph("int4", tensors, (first, *graph.ops, last), ("int8_in",), ("int8_out",))))


@pytest.mark.emulator
@pytest.mark.parametrize("found", [EVEN, ODD], ids=["even", "odd"])
@pytest.mark.parametrize(("schedule", "core"), [("layer", ""), ("best", ""), ("msf", ""), ("patch", ""), ("best", "cortex-m4")])
def test_every_strategy_gives_the_bytes_of_the_reference_with_int4_maps(
    schedule: str, core: str, found: list[Block], tmp_path: Path
) -> None:
    graph = with_int8_ends(int4_twin(int8_network(found)))
    made = plan(graph, Request(schedule, core=core))
    assert ("tw_conv_2d_s4_dsp" in made.variants) == (core != "")
    assert schedule != "msf" or any(stage.tiles for stage in made.stages)
    for file, text in emit(made, graph.name, Origin("int4.tflite", "0" * 64)).files.items():
        (tmp_path / file).write_text(text)
    result = compare.verify(made, tmp_path, graph.name, compare.samples(graph, 5, 0), cores=["cortex-m4"])
    assert result.ok, result.first_difference
    assert result.reference == compare.NUMPY
    assert all(used == made.arena for used in result.touched.values())
    image = np.random.default_rng(1).integers(-128, 128, graph.tensors["int8_in"].shape, np.int8)
    values = compare.ops.run(graph, {"int8_in": image}, keep=True)
    assert all(len(np.unique(values[op.outputs[0]])) > 3 for op in graph.ops)


@pytest.mark.parametrize("schedule", ["layer", "best", "msf"])
def test_the_arena_with_int4_maps_is_half_of_that_with_int8(schedule: str) -> None:
    wide = int8_network(EVEN)
    whole, half = (plan(graph, Request(schedule)).arena["sram"] for graph in (wide, int4_twin(wide)))
    assert 2 * half == whole
