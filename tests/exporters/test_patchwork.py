"""Ops that are computed patch by patch: the boundary tensor has the same bytes, in numpy and in LiteRT, on any grid."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from exporters.spans import is_as_foreseen
from passes.layers import random_inputs

import tinyweave as tw
from tests.cases.tiny import activation, constant, graph, ramp
from tinyweave import api, ops
from tinyweave.api.patchwork import MODES, patched, regions
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Op, Tensor, verify
from tinyweave.ops.window import output_size, same_padding
from tinyweave.planning.order.order_search import best_order, without_views
from tinyweave.simulate import compare, litert

GRIDS = ((1, 2), (2, 1), (2, 2), (3, 2), (1, 4), (4, 3))


KINDS = ("conv_2d", "conv_2d", "depthwise_conv_2d", "max_pool_2d", "average_pool_2d", "add", "relu")


def random_region(seed: int, extra: Sequence[str] = ()) -> Graph:
    """Return a network of two to six ops on a map with four channels, some of them residual, whose output is their last."""
    draw = random.Random(seed)
    tensors = [activation("x", (1, draw.randint(9, 26), draw.randint(9, 26), 4), 0.05, 3)]
    made = list[Op]()
    for number in range(draw.randint(2, 6)):
        name, x = f"t{number}", tensors[-1] if tensors[-1].data is None else next(t for t in tensors[::-1] if t.data is None)
        kind = draw.choice((*KINDS, *extra))
        others = [t for t in tensors if t.data is None and t.shape == x.shape]
        if kind == "branch":  # a second window on a map, and the sum of both paths
            made.append(_windowed(draw, "conv_2d", draw.choice(others), f"{name}.side", tensors, same=True))
            others, kind = [tensors[-1]], "add"
        if kind == "add":
            made.append(Op(f"op_{number}", kind, (x.name, draw.choice(others).name), (name,), {"activation": "none"}))
            tensors.append(replace(x, name=name))
        elif kind == "pad":
            sides = [(draw.randint(0, 2), draw.randint(0, 2)) for _ in range(2)]
            amounts = constant(f"{name}.amounts", np.array([(0, 0), *sides, (0, 0)], np.int32), ())
            made.append(Op(f"op_{number}", kind, (x.name, amounts.name), (name,)))
            shape = (1, *(size + sum(side) for size, side in zip(x.shape[1:3], sides, strict=True)), 4)
            tensors += [amounts, replace(x, name=name, shape=shape)]
        elif kind == "relu":
            made.append(Op(f"op_{number}", kind, (x.name,), (name,)))
            tensors.append(replace(x, name=name))
        else:
            made.append(_windowed(draw, kind, x, name, tensors))
    return graph("region", tensors, made, ("x",), (made[-1].outputs[0],))


def _windowed(draw: random.Random, kind: str, x: Tensor, name: str, tensors: list[Tensor], *, same: bool = False) -> Op:
    kernel, stride = (
        draw.choice(((1, 1), (2, 2), (3, 3), (3, 3), (5, 5), (3, 1))),
        (1, 1) if same else draw.choice(((1, 1), (1, 1), (2, 2), (2, 1))),
    )
    dilation = (2, 2) if kind == "conv_2d" and stride == (1, 1) and draw.random() < 0.2 else (1, 1)
    size, is_same = x.shape[1:3], same or draw.random() < 0.7
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    is_same = is_same or any(s > extent for s, extent in zip(span, size, strict=True))
    padding = tuple(same_padding(size[a], kernel[a], stride[a], dilation[a]) if is_same else (0, 0) for a in (0, 1))
    out = [output_size(size[a], kernel[a], stride[a], dilation[a], padding[a]) for a in (0, 1)]
    attrs = {"stride": stride, "padding": padding, "activation": "none"}
    if kind in ("max_pool_2d", "average_pool_2d"):
        tensors.append(replace(x, name=name, shape=(1, *out, 4)))
        return Op(f"op_{name}", kind, (x.name,), (name,), attrs | {"kernel": kernel})
    shape = (1, *kernel, 4) if kind == "depthwise_conv_2d" else (4, *kernel, 4)
    weights = constant(f"{name}.weights", ramp(shape, draw.choice((29, 37, 53))), (0.01,))
    bias = constant(f"{name}.bias", np.array([100, -50, 0, 7], np.int32), (0.01 * x.scale,))
    tensors += [weights, bias, activation(name, (1, *out, 4), 0.1, -5)]
    return Op(f"op_{name}", kind, (x.name, weights.name, bias.name), (name,), attrs | {"dilation": dilation})


@pytest.mark.parametrize("mode", MODES)
def test_the_boundary_has_the_same_bytes_on_every_grid(mode: str) -> None:
    """Wrong values at inner borders rarely reach the scores of a network, so the test compares the boundary itself."""
    done = refused = varied = 0
    for seed in range(150):
        before = random_region(seed, ("branch", "branch", "pad")[: 3 if mode == "exact" else 2])
        for region in regions(before, 14):
            inputs = random_inputs(before, seed)
            expected = ops.run(before, inputs, keep=True)[region.out]
            for grid in GRIDS:
                after = patched(before, region, grid, mode)
                if after is None:
                    refused += 1
                    continue
                done += 1
                assert np.array_equal(ops.run(ops.check(verify(after)), inputs, keep=True)[region.out], expected), (seed, grid)
                varied += len(np.unique(expected)) > 20
    assert done > 1000 and refused > 0 and varied > done / 2, (done, refused, varied)


@pytest.mark.parametrize("grid", [(1, 2), (2, 1), (2, 2)])
def test_paths_that_give_a_slice_other_lengths_wait_for_a_slice_on_which_they_agree(grid: tuple[int, int]) -> None:
    """A bottleneck of ResNet-D: 13 columns give 7 by a 1x1 kernel with stride 2, and 6 by a pool of 2x2 without padding."""
    x, attrs = activation("x", (1, 24, 24, 4), 0.05, 3), {"activation": "none", "dilation": (1, 1)}
    tensors, made = [x, replace(x, name="pool", shape=(1, 12, 12, 4))], list[Op]()
    for name, source, kernel, stride, scale in (("one", "x", 1, 2, 0.05), ("three", "one", 3, 1, 0.1)):
        weights = constant(f"{name}.weights", ramp((4, kernel, kernel, 4), 29), (0.01,))
        bias = constant(f"{name}.bias", np.array([100, -50, 0, 7], np.int32), (0.01 * scale,))
        tensors += [weights, bias, activation(name, (1, 12, 12, 4), 0.1, -5)]
        own = {"stride": (stride, stride), "padding": ((kernel // 2, kernel // 2),) * 2}
        made.append(Op(name, "conv_2d", (source, weights.name, bias.name), (name,), attrs | own))
    pool = {"stride": (2, 2), "padding": ((0, 0), (0, 0)), "kernel": (2, 2), "activation": "none"}
    made += [Op("pool", "average_pool_2d", ("x",), ("pool",), pool)]
    made += [Op("sum", "add", ("three", "pool"), ("sum",), {"activation": "none"})]
    before = verify(graph("region", [*tensors, replace(tensors[-1], name="sum")], made, ("x",), ("sum",)))
    after = patched(before, list(regions(before, 14))[-1], grid, "same")
    inputs = random_inputs(before, 0)
    assert after is not None
    expected, found = (ops.run(ops.check(verify(each)), inputs, keep=True)["sum"] for each in (before, after))
    assert np.array_equal(found, expected)


def test_patches_run_one_after_the_other_and_share_constants() -> None:
    before = random_region(4)
    region = list(regions(before, 14))[-1]
    after = patched(before, region, (2, 2))
    assert after is not None
    suffixes = [op.name.partition(".")[2].partition(".cut")[0] for op in after.ops if op.kind not in ("slice", "concatenation")]
    assert suffixes == sorted(suffixes) and len(set(suffixes)) == 4
    weights = {op.inputs[1] for op in before.ops if len(op.inputs) == 3}
    assert {op.inputs[1] for op in after.ops if op.kind in ("conv_2d", "depthwise_conv_2d")} == weights


def test_a_region_ends_where_another_tensor_is_read_later() -> None:
    before = random_region(4)
    outs = [region.out for region in regions(before, 14)]
    shown = replace(before, outputs=(*before.outputs, before.ops[1].outputs[0]))
    assert before.ops[1].outputs[0] in outs and [region.out for region in regions(shown, 14)] == [before.ops[1].outputs[0]]
    assert [len(region.ops) for region in regions(before, 2)] == [2]


def test_a_region_ends_before_a_constant_of_a_whole_map() -> None:
    before = random_region(4)
    last = before.tensors[before.outputs[0]]
    for shape, more in (((1, 1, 1, 4), 1), (last.shape, 0)):
        shift, total = constant("shift", ramp(shape), (0.05,)), replace(last, name="total")
        add = Op("add", "add", (last.name, "shift"), ("total",), {"activation": "none"})
        tensors = {**before.tensors, "shift": shift, "total": total}
        after = verify(replace(before, tensors=tensors, ops=(*before.ops, add), outputs=("total",)))
        assert len([*regions(after, 14)]) == len([*regions(before, 14)]) + more


def test_a_graph_that_has_the_names_of_patches_stays() -> None:
    before = random_region(4)
    first = before.ops[0].outputs[0]
    taken = {name: f"{first}.0_0" if name == before.outputs[0] else name for name in before.tensors}
    tensors = {taken[name]: replace(tensor, name=taken[name]) for name, tensor in before.tensors.items()}
    made = tuple(replace(op, outputs=(taken[op.outputs[0]],)) for op in before.ops)
    named = verify(replace(before, tensors=tensors, ops=made, outputs=(taken[before.outputs[0]],)))
    region = list(regions(before, 14))[-1]
    assert patched(before, region, (2, 1)) is not None
    assert patched(named, list(regions(named, 14))[-1], (2, 1)) is None


@pytest.mark.litert
@pytest.mark.parametrize("seed", range(8))
def test_litert_computes_the_same_boundary(seed: int) -> None:
    before = random_region(seed)
    region = list(regions(before, 14))[-1]
    after = next(new for grid in GRIDS[2:] + GRIDS if (new := patched(before, region, grid)) is not None)
    inputs = compare.samples(before, 4, seed)
    for a, b in zip(litert.run(to_tflite(before), inputs), litert.run(to_tflite(after), inputs), strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))


@pytest.mark.litert
@pytest.mark.parametrize("seed", [2, 58, 60, 71, 82, 91, 104])
def test_litert_needs_the_foreseen_bytes(seed: int) -> None:
    """These regions have no add, whose output LiteRT may place on an operand."""
    before = random_region(seed)
    region, done = list(regions(before, 14))[-1], 0
    for grid, mode in product(GRIDS, MODES):
        after = patched(before, region, grid, mode)
        if after is not None:
            done += 1
            assert is_as_foreseen(to_tflite(after), after), (grid, mode)
    assert done and is_as_foreseen(to_tflite(before), before)


@pytest.mark.parametrize("most", [1.04, 1.1])
def test_patches_are_within_the_macs_and_in_the_best_order(most: float) -> None:
    done = tw.reorder(
        Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite", engine="tflm", max_mac_overhead=most
    )
    assert done.engine is not None and done.engine.tiled and done.engine.macs <= most
    assert done.best.peak == done.best.lower_bound == best_order(done.graph, without_views(done.graph)).peak


@pytest.mark.litert
@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "most"),
    [("google__CFU-Playground__model_mobilenetv2_160_035", 166_400), ("mlcommons__tiny__vww_96_int8", 43_600)],
)
def test_real_models_need_less_in_patches_within_the_macs(name: str, most: int, shared: Path) -> None:
    path = shared / "models" / f"{name}.tflite"
    plain, done = tw.reorder(path, engine="tflm"), tw.reorder(path, engine="tflm", max_mac_overhead=1.06)
    assert plain.engine is not None and plain.engine.tiled == 0 and plain.engine.grid == (1, 1)
    assert done.engine is not None and done.engine.after <= most < plain.engine.after and 1 < done.engine.macs <= 1.06
    boundary = next(op.outputs[0] for op in reversed(done.graph.ops) if op.kind == "concatenation")
    inputs = compare.samples(api.read(path).original, 5, 0)[-2:]  # random ones
    for a, b in zip(litert.run(path.read_bytes(), inputs, keep=True), litert.run(done.file, inputs, keep=True), strict=True):
        assert np.array_equal(a.layers[boundary], b.layers[boundary]) and len(np.unique(a.layers[boundary])) > 20
        assert all(np.array_equal(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))
