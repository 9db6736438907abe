"""Cycle features equal counts from walking through the kernel's loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest
from cases import weighted
from cases.draw import integers, single_op
from cases.tiny import activation
from cases.tiny import graph as tiny

from tinyweave.ir import Graph, Op, Quant, Tensor
from tinyweave.kernels import cycle_features
from tinyweave.kernels.dsp import depthwise, taps, winograd
from tinyweave.kernels.layer_cycles import layer_cycles
from tinyweave.kernels.table import variant_for
from tinyweave.ops import SPECS

SHAPES = [  # height, width, channels, filters, kernel, stride, padding of each axis
    (7, 9, 4, 8, (3, 3), (1, 1), ((1, 1), (1, 1))),
    (8, 5, 3, 5, (3, 3), (2, 2), ((0, 1), (1, 0))),
    (6, 6, 6, 3, (1, 1), (1, 1), ((0, 0), (0, 0))),
    (9, 4, 2, 7, (5, 2), (1, 2), ((2, 2), (0, 1))),
    (5, 5, 1, 4, (3, 3), (2, 1), ((1, 1), (0, 0))),
    (12, 21, 8, 8, (3, 3), (1, 1), ((1, 1), (1, 1))),
    (12, 21, 8, 8, (5, 5), (2, 2), ((2, 2), (1, 2))),
]


def layer(shape: tuple, kind: str) -> tuple[Graph, Op]:
    h, w, depth, filters, kernel, stride, padding = shape
    sizes = [(n + sum(p) - k) // s + 1 for n, k, s, p in zip((h, w), kernel, stride, padding, strict=True)]
    deep = kind == "depthwise_conv_2d"
    weights = np.ones((1, *kernel, depth) if deep else (filters, *kernel, depth), np.int8)
    out = activation("y", (1, *sizes, depth if deep else filters))
    constant = Tensor("w", weights.shape, "int8", Quant((0.5,), (0,)), weights, "constant")
    attrs = {"stride": stride, "dilation": (1, 1), "padding": padding, "activation": "none"}
    graph = tiny(
        "layer",
        [activation("x", (1, h, w, depth)), constant, out],
        [Op("conv", kind, ("x", "w", None), ("y",), attrs)],
        ("x",),
        ("y",),
    )
    return graph, graph.ops[0]


def sees_padding(shape: tuple, row: int, col: int) -> bool:
    (h, w, _, _, kernel, stride, padding) = shape
    tops = [at * s - p[0] for at, s, p in zip((row, col), stride, padding, strict=True)]
    return any(top < 0 or top + k > n for top, k, n in zip(tops, kernel, (h, w), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_features_of_the_dense_kernel_of_2_pixels_times_4_filters(shape: tuple) -> None:
    graph, op = layer(shape, "conv_2d")
    (_, height, width, filters), (rows, cols), depth = graph.output(op).shape, shape[4], shape[2]
    inner = blocks = streamed_inputs = gathered_rows = pixels = padded_rows = padded = 0
    words = rows * -(-cols * depth // 4)
    places = [(row, col) for row in range(height) for col in range(width)]
    for _ in range(0, len(places), 2):
        streamed_inputs += words
        gathered_rows += rows
        for _ in range(0, filters, 4):
            blocks += 1
            inner += words
    for row, col in places:
        pixels += 1
        padded_rows += rows if sees_padding(shape, row, col) else 0
        padded += words if sees_padding(shape, row, col) else 0
    case, counted, passes = cycle_features.pairs(graph, op)
    assert passes == -(-len(places) // 2)
    assert counted == (inner, blocks, streamed_inputs, gathered_rows, pixels, padded_rows, padded, 1.0)
    wanted = (
        "pixels"
        if (rows, cols) == (1, 1)
        else "words"
        if depth % 4 == 0
        else "nines"
        if (rows, cols, depth) == (3, 3, 3)
        else "bytes"
    )
    assert case == f", {wanted}"


@pytest.mark.parametrize("shape", SHAPES)
def test_features_of_the_portable_kernels(shape: tuple) -> None:
    graph, op = layer(shape, "conv_2d")
    _, height, width, filters = graph.output(op).shape
    macs, count = SPECS["conv_2d"].macs(graph, op, True), height * width
    counted = (macs, count * filters * shape[4][0], count * filters, count * shape[4][0], count, 1.0)
    assert cycle_features.pixels(graph, op) == ("", counted, count)
    singles = macs // filters * (filters % 4)
    by_fours = cycle_features.pixels_by_fours(graph, op).counts
    assert by_fours == pytest.approx((macs + (cycle_features.SINGLE - 1) * singles, *counted[1:]))
    graph, op = layer(shape, "depthwise_conv_2d")
    macs = SPECS["depthwise_conv_2d"].macs(graph, op, True)
    channels = shape[2]
    counted = (macs, macs // channels, count * channels, count * shape[4][0], count, 1.0)
    assert cycle_features.taps(graph, op) == ("", counted, count)


@pytest.mark.parametrize("shape", SHAPES)
def test_features_of_the_winograd_kernel(shape: tuple) -> None:
    graph, op = layer(shape, "conv_2d")
    _, height, width, filters = graph.output(op).shape
    corners = [(row, col) for row in range(0, height, winograd.TILE) for col in range(0, width, winograd.TILE)]
    words, inner, groups = shape[2] // 2, 0, 0
    for _ in range(0, len(corners), 2):
        for _ in range(0, filters, 4):
            groups += 1
            inner += words
    passes = -(-len(corners) // 2)
    assert cycle_features.tiles(graph, op) == ("", (inner, groups, len(corners) * words, len(corners), 1.0), passes)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[4] in ((3, 3), (5, 5))])
def test_features_of_the_depthwise_kernel(shape: tuple) -> None:
    graph, op = layer(shape, "depthwise_conv_2d")
    _, height, width, channels = graph.output(op).shape
    rows, cols = shape[4]
    wide, high = depthwise.columns_at_a_time(graph, op), depthwise.rows_at_a_time(graph, op)
    products = sums = gathered = lines = strips = planes = 0
    for _ in range(0, channels, depthwise.PLANES):
        planes += 1
        for left in range(0, width, wide):
            columns = min(wide, width - left)
            computed = -(-columns // depthwise.AT_ONCE) * depthwise.AT_ONCE
            for top in range(0, height, high):
                count = min(high, height - top)
                strips += 1
                words = columns * shape[5][1] + cols - 1
                gathered += words * ((count - 1) * shape[5][0] + rows)
                for _ in range(count):
                    lines += 1
                    sums += computed * depthwise.PLANES
                    products += computed * depthwise.PLANES * rows * ((depthwise.taps(cols) + 1) // 2)
    features = cycle_features.lines(graph, op)
    assert features.counts == (products, sums, gathered, lines, strips, planes, 1.0)
    assert features.passes * planes == strips


@pytest.mark.parametrize("shape", SHAPES)
def test_passes_over_the_weights_of_kernels_without_scratch(shape: tuple) -> None:
    graph, op = layer(shape, "conv_2d")
    _, height, width, _ = graph.output(op).shape
    assert cycle_features.windows(graph, op).passes == height * width, "for each pixel"
    if shape[4] in ((3, 3), (5, 5)) and shape[5][1] in (1, 2):
        graph, op = layer(shape, "depthwise_conv_2d")
        _, height, width, _ = graph.output(op).shape
        assert cycle_features.outputs(graph, op).passes == height * len(range(0, width, taps.OUTPUTS)), "for two of a row"


@pytest.mark.parametrize("height", [1, 3, 6])
@pytest.mark.parametrize("pad", [0, 1])
def test_depthwise_kernels_without_scratch_compute_addresses_once_for_rows_inside(height: int, pad: int) -> None:
    """No row of outputs is inside the map, some are, or all are."""
    shape = (height + 2 - 2 * pad, 9, 6, 6, (3, 3), (1, 1), ((pad, pad), (pad, pad)))
    graph, op = layer(shape, "depthwise_conv_2d")
    width = graph.output(op).shape[2]
    addresses = 0
    for row in range(height):
        is_inside = row - pad >= 0 and row - pad + 3 <= shape[0]
        addresses += taps.runs(9, width, 3, 1, pad, is_inside=is_inside)
    pairs, singles, fours = height * (width // 2), height * (width % 2), 2
    counts = cycle_features.outputs(graph, op).counts
    assert counts == (pairs * fours, singles * fours, pairs + singles, addresses, height, 1.0)


def test_features_of_a_transposed_convolution() -> None:
    """An output adds the taps whose input exists; the kernel reads the weights for each output pixel."""
    rng = np.random.default_rng(0)
    for about, operands, drawn, attrs in islice(weighted.transpose_conv(rng), 20):
        out = replace(drawn, shape=tuple(map(int, operands[0].data)))
        names = tuple(each and each.name for each in operands)
        op = Op("up", "transpose_conv", names, (out.name,), attrs)
        graph = tiny("up", [*filter(None, operands), out], [op], ("input",), (out.name,))
        x, kernel, dots = operands[2], operands[1].shape[1:3], out.shape[0] * out.shape[3]
        stride, padding = attrs["stride"], attrs["padding"]
        for axis in (0, 1):
            ends = np.arange(out.shape[1 + axis])[:, None] + padding[axis][0] - np.arange(kernel[axis])
            dots *= int(((ends % stride[axis] == 0) & (ends >= 0) & (ends // stride[axis] < x.shape[1 + axis])).sum())
        pixels = out.shape[0] * out.shape[1] * out.shape[2]
        features = cycle_features.meetings(graph, graph.ops[0])
        assert features.counts == (dots * x.shape[3], dots, out.elements, pixels, 1.0) and features.passes == pixels, about


def test_a_dense_layer_reads_its_weights_once_per_row() -> None:
    tensors = [activation("x", (3, 8)), Tensor("w", (5, 8), "int8", Quant((0.5,), (0,)), np.ones((5, 8), np.int8), "constant")]
    graph = tiny(
        "dense", [*tensors, activation("y", (3, 5))], [Op("d", "fully_connected", ("x", "w", None), ("y",))], ("x",), ("y",)
    )
    assert cycle_features.plain(graph, graph.ops[0]).passes == 3
    alone = tiny("add", [activation(n, (1, 4)) for n in "abc"], [Op("a", "add", ("a", "b"), ("c",))], ("a", "b"), ("c",))
    assert cycle_features.plain(alone, alone.ops[0]).passes == 1


def test_strips_of_an_even_number_of_rows_have_their_own_cycle_constants() -> None:
    """With 3x3 windows at stride 1, two rows are computed together. A map of three rows is one strip."""
    rows = {}
    for height in (1, 2, 3, 4, 5, 6, 7, 9, 12):
        graph, op = layer((height, 20, 8, 8, (3, 3), (1, 1), ((1, 1), (1, 1))), "depthwise_conv_2d")
        rows[height] = depthwise.rows_at_a_time(graph, op)
        assert cycle_features.lines_in_pairs(graph, op).case.endswith(", pairs") == (rows[height] % 2 == 0)
    assert rows == {1: 1, 2: 2, 3: 3, 4: 4, 5: 4, 6: 4, 7: 4, 9: 4, 12: 4}
    graph, op = layer((12, 20, 8, 8, (3, 3), (2, 1), ((1, 1), (1, 1))), "depthwise_conv_2d")
    assert not depthwise.rows_in_pairs(graph, op)


@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m7", "cortex-m33"])
def test_depthwise_windows_of_every_size_have_cycle_constants(core: str) -> None:
    """These include windows of one row or column, which sensor networks have."""
    sizes = [(rows, cols) for rows in (1, 2, 3, 5) for cols in range(1, depthwise.WIDEST + 1)]
    sizes += [(rows, 1) for rows in range(1, depthwise.WIDEST + 1)]
    tried = 0
    for (rows, cols), stride in product(sizes, (1, 2)):
        shape = (20, 1) if cols == 1 else (6, 20)
        along = (stride, 1) if cols == 1 else (1, stride)
        padding = tuple((0, max(n - 1, 0)) for n in (rows, cols))
        graph, op = layer((*shape, 8, 8, (rows, cols), along, padding), "depthwise_conv_2d")
        weights = replace(graph.tensors["w"], quant=Quant((2.0**-9,), (0,)))  # the smallest that fast kernels support
        graph = replace(graph, tensors=graph.tensors | {"w": weights})
        row = variant_for(graph, op, core)
        assert layer_cycles(graph, op, row.name, core) is not None, (row.name, rows, cols, stride)
        tried += row.isa != ""
    assert tried > 80


@pytest.mark.parametrize(
    "a, b, runs",
    [
        ((2, 4, 5, 3), (1, 1, 5, 3), 8),  # a run per row, for no operand repeats within it
        ((2, 4, 5, 3), (1, 1, 1, 3), 40),
        ((2, 4, 5, 3), (2, 4, 5, 1), 40),
        ((5, 3), (1, 1, 5, 3), 1),
    ],
)
def test_features_of_operands_that_broadcast_count_the_runs_of_the_kernel(
    a: tuple[int, ...], b: tuple[int, ...], runs: int
) -> None:
    out = np.broadcast_shapes(a, b)
    op = Op("mul", "mul", ("a", "b"), ("y",), {"activation": "none"})
    graph = tiny("mul", [activation("a", a), activation("b", b), activation("y", out)], [op], ("a", "b"), ("y",))
    case, counted, _ = cycle_features.broadcast(graph, op)
    assert case == ", broadcast"
    assert counted[3:] == (runs, 1.0)


def test_the_portable_mean_adds_up_four_outputs_at_a_time() -> None:
    graph = single_op(
        "mean", [activation("x", (1, 3, 2, 8)), integers("axes", 1, 2)], activation("y", (1, 8)), {"keep_dims": False}
    )
    assert variant_for(graph, graph.ops[0], "").features(graph, graph.ops[0]).counts == (2 * 3 * 2, 2, 0, 0, 1)


def test_features_of_topk_count_the_elements_that_are_compared() -> None:
    k = Tensor("k", (), "int32", None, np.array(2, np.int32), "constant")
    indices = Tensor("i", (3, 4, 2), "int32", None)
    op = Op("top", "topk_v2", ("x", "k"), ("y", "i"), {})
    graph = tiny("top", [activation("x", (3, 4, 7)), k, activation("y", (3, 4, 2)), indices], [op], ("x",), ("y", "i"))
    compared = sum(1 for _row in range(3 * 4) for _selected in range(2) for _element in range(7))
    assert cycle_features.selections(graph, op).counts == (compared, 24, 12, 1.0)


@pytest.mark.parametrize(("axis", "counts"), [(2, (0, 2 * 3 * 4, 2 * 3 * 4 * 7, 6)), (3, (2 * 3 * 5 * 4, 0, 0, 30))])
def test_features_of_copies_by_tables_count_the_runs_of_each_row(axis: int, counts: tuple[int, ...]) -> None:
    """Four indices along the columns copy runs of seven channels; along the channels, single bytes."""
    chosen, shape = Tensor("k", (4,), "int32", None, np.array([3, 0, 0, 2], np.int32), "constant"), (2, 3, 5, 7)
    out = (*shape[:axis], 4, *shape[axis + 1 :])
    op = Op("gather", "gather", ("x", "k"), ("y",), {"axis": axis, "batch_dims": 0})
    graph = tiny("gather", [activation("x", shape), chosen, activation("y", out)], [op], ("x",), ("y",))
    assert cycle_features.tables(graph, op).counts == (*counts, 1)
