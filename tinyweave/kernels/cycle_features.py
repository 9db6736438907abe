"""Count what the cycles of a layer depend on: how often its kernel runs each part of its loops.

In: a graph and one of its ops. Out: Features. layer_cycles.py multiplies the counts with constants; the table of kernels says
which function fits which kernel.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ..ir import Graph, Op
from ..ops import SPECS
from ..ops.conv import kernel_size
from .dsp import depthwise, winograd
from .dsp import taps as taps_dsp


class Features(NamedTuple):
    """case: of the kernel, where it has constants of its own, "" for all. counts: how often each part of its loops runs.
    passes: how often a call reads the op's weights from beginning to end, and what their sums are rescaled by."""

    case: str
    counts: tuple[float, ...]
    passes: int = 1


def plain(graph: Graph, op: Op) -> Features:
    """Count what any kernel does: products, outputs, inputs, pixels."""
    x, out, macs = graph.input(op), graph.output(op), SPECS[op.kind].macs(graph, op, True)
    window = prod(op.attrs.get("kernel", (1,)))
    weights = sum(t.elements for t in graph.inputs_of(op)[1:2] if t is not None and t.data is not None)
    passes = max(1, macs // weights) if weights else 1
    did = (macs or out.elements * window, out.elements, x.elements, out.elements // prod(out.shape[-1:]), 1.0)
    return Features("", did, passes)


def broadcast(graph: Graph, op: Op) -> Features:
    """Count as `plain` does; operands of two shapes are a case of their own."""
    return plain(graph, op)._replace(case="" if graph.input(op, 1).shape == graph.input(op).shape else ", broadcast")


def pixels(graph: Graph, op: Op) -> Features:
    """Count for convolutions that compute their outputs one by one."""
    out, rows = graph.output(op), kernel_size(graph, op)[0]
    macs, count = SPECS[op.kind].macs(graph, op, True), prod(out.shape[:3])
    return Features("", (macs, out.elements * rows, out.elements, count * rows, count, 1.0), count)


def pairs(graph: Graph, op: Op) -> Features:
    """Count for kernels that take two pixels times four filters at a time."""
    (rows, cols), out, depth = kernel_size(graph, op), graph.output(op), graph.input(op, 1).shape[3]
    filters, count = out.shape[3], prod(out.shape[:3])
    twos, fours, words = -(-count // 2), -(-filters // 4), rows * -(-cols * depth // 4)
    gathered = "pixels" if rows == cols == 1 else "words" if depth % 4 == 0 else "bytes"
    gathered = "nines" if rows == cols == depth == 3 else gathered
    outside = count - prod(_inside(*axis) for axis in zip(*_axes(graph, op), strict=True))
    did = (twos * fours * words, twos * fours, twos * words, twos * rows, count, outside * words, 1.0)
    return Features(f", {gathered}", did, twos)


def windows(graph: Graph, op: Op) -> Features:
    """Count for the dense kernel without scratch: a pixel times four filters at a time, row by row of its window."""
    (rows, cols), out, depth = kernel_size(graph, op), graph.output(op), graph.input(op, 1).shape[3]
    fours, count = -(-out.shape[3] // 4), prod(out.shape[:3])
    did = (count * fours * rows * cols * depth // 4, count * fours * rows, count * fours, count * rows, count, 1.0)
    return Features("", did, count)


def tiles(graph: Graph, op: Op) -> Features:
    """Count for Winograd: two tiles times four filters at a time, position by position."""
    (_, h, w, filters), depth = graph.output(op).shape, graph.input(op).shape[3]
    count, words = -(-h // winograd.TILE) * -(-w // winograd.TILE), depth // 2
    groups = -(-count // 2) * -(-filters // 4)
    return Features("", (groups * words, groups, count * words, count, 1.0), -(-count // 2))


def _axes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    """Return, (h, w) each, the sizes of input, output, kernel, the stride, and the padding before."""
    starts = tuple(before for before, _ in op.attrs["padding"])
    return graph.input(op).shape[1:3], graph.output(op).shape[1:3], kernel_size(graph, op), op.attrs["stride"], starts


def _inside(size: int, steps: int, kernel: int, stride: int, pad: int) -> int:
    """Count the windows along an axis that see no padding."""
    return sum(step * stride - pad >= 0 and step * stride - pad + kernel <= size for step in range(steps))


def taps(graph: Graph, op: Op) -> Features:
    """Count tap by tap; with a depth multiplier the loop over the output's channels is another one."""
    x, out, (rows, _) = graph.input(op), graph.output(op), kernel_size(graph, op)
    several = "" if x.shape[3] == out.shape[3] else ", multiplied"
    macs, count = SPECS[op.kind].macs(graph, op, True), out.elements // out.shape[3]
    return Features(several, (macs, macs // out.shape[3], out.elements, count * rows, count, 1.0), count)


def outputs(graph: Graph, op: Op) -> Features:
    """Count for the depthwise kernel without scratch: four channels of two outputs of a row at a time, or of its last."""
    size, (height, width), kernel, stride, pad = depthwise.whole(graph, op)
    fours, runs = -(-graph.input(op).shape[3] // taps_dsp.CHANNELS), 0
    inside = _inside(*(axis[0] for axis in (size, (height, width), kernel, stride, pad)))
    for rows, is_inside in ((inside, True), (height - inside, False)):
        runs += rows * taps_dsp.runs(size[1], width, kernel[1], stride[1], pad[1], is_inside=is_inside) if rows else 0
    twos, ones = height * (width // taps_dsp.OUTPUTS), height * (width % taps_dsp.OUTPUTS)
    did = (twos * fours, ones * fours, twos + ones, runs, height, 1.0)
    return Features(f", {taps_dsp.function(graph, op)}", did, twos + ones)


def pixel(graph: Graph, op: Op) -> Features:
    """Count for the depthwise kernel from a column to one pixel: four channels at a time, tap by tap."""
    fours = -(-graph.input(op).shape[3] // taps_dsp.CHANNELS)
    return Features("", (fours * kernel_size(graph, op)[0], fours, 1.0))


def lines(graph: Graph, op: Op) -> Features:
    """Count for the depthwise kernel: four channels of a block of columns and a strip of rows at a time."""
    shape, channels = depthwise.plane(graph, op), -(-graph.input(op).shape[3] // depthwise.PLANES)
    (height, width), (rows, cols), columns = shape.out, shape.kernel, depthwise.columns_at_a_time(graph, op)
    at_once = depthwise.rows_at_a_time(graph, op)
    strips = [min(at_once, height - begin) for begin in range(0, height, at_once)]
    each = [min(columns, width - begin) for begin in range(0, width, columns)]
    sums = height * channels * depthwise.PLANES * sum(-(-count // depthwise.AT_ONCE) * depthwise.AT_ONCE for count in each)
    words = channels * sum(min(columns, count) * shape.stride[1] + cols - 1 for count in each)
    gathered = words * sum((count - 1) * shape.stride[0] + rows for count in strips)
    products, blocks = (depthwise.taps(cols) + 1) // 2, len(each)
    did = (sums * rows * products, sums, gathered, height * channels * blocks, len(strips) * channels * blocks, channels, 1.0)
    return Features(f", {depthwise.function(rows, cols, shape.stride[1])}", did, len(strips) * blocks)
