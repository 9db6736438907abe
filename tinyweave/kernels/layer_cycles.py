"""Cycles of a layer from its shape alone, for who has no time to build and run it: the planner, a search.

In: a graph, one of its ops, the kernel that runs it, a core, and which part of the output one call computes. Out: cycles,
estimated: the sum of what the kernel does, each so often as its loops say, times constants that bench/fit_cycles.py has fitted
to what emulated runs of real networks took (layer_cycles.json, by core and kernel). Flash answers at once. bench/fit_cycles.py
also says how far off they are.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path

from ..ir import Graph, Op
from ..ops import SPECS
from ..ops.conv import kernel_size
from .dsp import depthwise, winograd

CONSTANTS = Path(__file__).with_name("layer_cycles.json")
Part = tuple[int, int] | None  # rows and columns of the output; None: all of it
Counts = tuple[str, tuple[float, ...]]  # which constants, and how often what each of them stands for is done


def layer_cycles(graph: Graph, op: Op, variant: str, core: str, part: Part = None) -> float | None:
    """Of one call of the kernel called `variant`, "" for none; None where that has no constants for `core`."""
    if not variant:
        return 0.0
    key, counted = counts(*cut(graph, op, part), variant)
    constants = _constants().get(core, {}).get(like_int8(key))
    return None if constants is None else sum(a * b for a, b in zip(constants, counted, strict=True))


def like_int8(key: str) -> str:
    """Nothing was fitted for int4 values: their kernels count as those of int8, whose cycles are up to a third fewer, see
    bench/int4.py."""
    return key.replace("_s8_w4", "_s8").replace("_s4", "_s8")


def cut(graph: Graph, op: Op, part: Part) -> tuple[Graph, Op]:
    """The op on maps that are no larger than a part of its output needs, without padding along an axis that is cut."""
    out, window = graph.output(op), SPECS[op.kind].window(graph, op)
    if part is None or window is None or part == out.shape[1:3]:
        return graph, op
    tensors = {tensor.name: tensor for tensor in (*graph.inputs_of(op), out) if tensor is not None}
    padding = list(op.attrs.get("padding", ()))
    for axis, size in enumerate(part):
        if size == out.shape[1 + axis]:
            continue
        seen = (size - 1) * window.stride[axis] + window.extent[axis]
        for name, tensor in tensors.items():
            if tensor.data is None:
                shape = list(tensor.shape)
                shape[1 + axis] = size if name == out.name else min(shape[1 + axis], seen)
                tensors[name] = replace(tensor, shape=tuple(shape))
        if padding:
            padding[axis] = (0, 0)
    attrs = {**op.attrs, "padding": tuple(padding)} if padding else op.attrs
    return Graph(graph.name, tensors, (alone := replace(op, attrs=attrs),), (), ()), alone


@cache
def _constants() -> dict[str, dict[str, list[float]]]:
    return dict(json.loads(CONSTANTS.read_text()))


def counts(graph: Graph, op: Op, variant: str) -> Counts:
    """How often a kernel does what it does for an op, and under which name the constants of that stand."""
    if op.kind == "conv_2d":
        return _tiles(graph, op, variant) if "winograd" in variant else _conv(graph, op, variant)
    if op.kind == "depthwise_conv_2d":
        return _lines(graph, op, variant) if variant.endswith("_dsp") else _depthwise(graph, op, variant)
    x, out = graph.input(op), graph.output(op)
    if op.kind in ("add", "sub", "mul") and graph.input(op, 1).shape != x.shape:
        variant += ", broadcast"
    macs = SPECS[op.kind].macs(graph, op, True)
    window = prod(op.attrs.get("kernel", (1,)))
    return variant, (macs or out.elements * window, out.elements, x.elements, out.elements // max(1, out.shape[-1]), 1.0)


def _conv(graph: Graph, op: Op, variant: str) -> Counts:
    """Two pixels times four filters at a time, or all one by one."""
    (rows, cols), out, depth = kernel_size(graph, op), graph.output(op), graph.input(op, 1).shape[3]
    *pixels, filters = out.shape
    count = prod(pixels)
    if not variant.endswith("_dsp"):
        macs = SPECS[op.kind].macs(graph, op, True)
        return variant, (macs, out.elements * rows, out.elements, count * rows, count, 1.0)
    pairs, fours, words = -(-count // 2), -(-filters // 4), rows * -(-cols * depth // 4)
    gathered = "pixels" if rows == cols == 1 else "words" if depth % 4 == 0 else "bytes"
    gathered = "nines" if rows == cols == depth == 3 else gathered
    outside = count - prod(_inside(*axis) for axis in zip(*_axes(graph, op), strict=True))
    did = (pairs * fours * words, pairs * fours, pairs * words, pairs * rows, count, outside * words, 1.0)
    return f"{variant}, {gathered}", did


def _tiles(graph: Graph, op: Op, variant: str) -> Counts:
    """Two tiles times four filters at a time, position by position."""
    (_, h, w, filters), depth = graph.output(op).shape, graph.input(op).shape[3]
    tiles, words = -(-h // winograd.TILE) * -(-w // winograd.TILE), depth // 2
    groups = -(-tiles // 2) * -(-filters // 4)
    return variant, (groups * words, groups, tiles * words, tiles, 1.0)


def _axes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    """(h, w) each: sizes of input, output, kernel, stride and the padding before."""
    starts = tuple(before for before, _ in op.attrs["padding"])
    return graph.input(op).shape[1:3], graph.output(op).shape[1:3], kernel_size(graph, op), op.attrs["stride"], starts


def _inside(size: int, steps: int, kernel: int, stride: int, pad: int) -> int:
    """How many of the windows along an axis see no padding."""
    return sum(step * stride - pad >= 0 and step * stride - pad + kernel <= size for step in range(steps))


def _depthwise(graph: Graph, op: Op, variant: str) -> Counts:
    """Tap by tap; with a multiplier the loop over the output's channels is another."""
    x, out, (rows, _) = graph.input(op), graph.output(op), kernel_size(graph, op)
    several = "" if x.shape[3] == out.shape[3] else ", multiplied"
    macs, pixels = SPECS[op.kind].macs(graph, op, True), out.elements // out.shape[3]
    return variant + several, (macs, macs // out.shape[3], out.elements, pixels * rows, pixels, 1.0)


def _lines(graph: Graph, op: Op, variant: str) -> Counts:
    """Four channels of a block of columns and a strip of rows at a time, line after line of the kernel."""
    shape, channels = depthwise.plane(graph, op), -(-graph.input(op).shape[3] // depthwise.PLANES)
    (height, width), (rows, cols), columns = shape.out, shape.kernel, depthwise.columns_at_a_time(graph, op)
    at_once = depthwise.rows_at_a_time(graph, op)
    strips = [min(at_once, height - begin) for begin in range(0, height, at_once)]
    each = [min(columns, width - begin) for begin in range(0, width, columns)]
    sums = height * channels * depthwise.PLANES * sum(-(-count // depthwise.AT_ONCE) * depthwise.AT_ONCE for count in each)
    words = channels * sum(min(columns, count) * shape.stride[1] + cols - 1 for count in each)
    gathered = words * sum((count - 1) * shape.stride[0] + rows for count in strips)
    key = f"{variant}, {depthwise.function(rows, cols, shape.stride[1])}"
    taps, blocks = (depthwise.taps(cols) + 1) // 2, len(each)
    did = (sums * rows * taps, sums, gathered, height * channels * blocks, len(strips) * channels * blocks, channels, 1.0)
    return key, did
