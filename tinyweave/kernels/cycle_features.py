"""Counts that the cycles of a layer depend on: how often its kernel executes each part of its loops.

`layer_cycles.py` multiplies the counts by fitted constants. Each row of the kernel table names the function for its kernel.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ..ir import Graph, Op, itemsize
from ..ops import SPECS
from ..ops.conv import groups, kernel_size
from ..ops.recurrent import svdf
from ..ops.reduce import axes
from . import copies, geometry
from .dsp import dense, depthwise, winograd
from .dsp import taps as taps_dsp
from .mve import weights as mve
from .scalar import convolution as scalar

# An outlier (a filter that the fast arithmetic cannot hold) takes half of the time of four other filters: 12 instructions per
# four inputs of two pixels instead of 24.
OUTLIER = 0.5
# A portable convolution loads and widens each input once for four filters, but once for each of the last one to three filters.
# A Cortex-M4 takes 4.5 cycles per MAC of four filters and 8.9 per MAC of a single filter.
SINGLE = 2.0


class Features(NamedTuple):
    """How often a kernel executes each part of its loops in one layer."""

    case: str  # suffix of the kernel's name in layer_cycles.json; "" if the kernel has only one set of constants
    counts: tuple[float, ...]  # one count per fitted constant
    passes: int = 1  # how often a call of the kernel reads all weights of the layer


def plain(graph: Graph, op: Op) -> Features:
    """Return the counts of MACs (or of elements of windows), outputs, inputs, pixels and calls: the default of kernels."""
    x, out, macs = graph.input(op), graph.output(op), SPECS[op.kind].macs(graph, op, True)
    window = prod(op.attrs.get("kernel", (1,)))
    weights = sum(t.elements for t in graph.inputs_of(op)[1:2] if t is not None and t.data is not None)
    passes = max(1, macs // weights) if weights else 1
    did = (macs or out.elements * window, out.elements, x.elements, out.elements // prod(out.shape[-1:]), 1.0)
    return Features("", did, passes)


def channel_runs(graph: Graph, op: Op) -> Features:
    """Return the counts of tw_depthwise_3x3_s8_scalar, which computes a channel of a run of outputs of a row at a time.

    They are, in this order: outputs; runs, once per channel; outputs whose windows are partly outside the map's columns; calls.
    """
    (n, h, w, c), (stride, (before, _)) = graph.output(op).shape, (op.attrs["stride"][1], op.attrs["padding"][1])
    begins = range(-before, stride * w - before, stride)
    outside = sum(not 0 <= begin <= graph.input(op).shape[2] - 3 for begin in begins)
    passes = n * h * -(-w // scalar.RUN)
    return Features("", (n * h * w * c, passes * c, n * h * outside * c, 1.0), passes)


def meetings(graph: Graph, op: Op) -> Features:
    """Return the counts of a transposed convolution: MACs, dot products along the channels, outputs, pixels, and calls (1)."""
    out, depth, macs = graph.output(op), graph.input(op, 1).shape[3], SPECS[op.kind].macs(graph, op, True)
    return Features("", (macs, macs // depth, out.elements, prod(out.shape[:3]), 1.0), prod(out.shape[:3]))


def steps(graph: Graph, op: Op) -> Features:
    """Return the counts of a recurrent layer: MACs, cells times time steps, time steps, and calls (1)."""
    time, cells = graph.input(op).shape[1], graph.output(op).shape[-1]
    return Features("", (SPECS[op.kind].macs(graph, op, True), time * cells, time, 1.0), time)


def steps_in_vectors(graph: Graph, op: Op) -> Features:
    """Return the counts of the MVE kernels of gru, simple_rnn and stateless_lstm, which compute four cells at a time.

    The last one to three cells are groups of their own. The counts are, in this order, all times time steps except the last:
    vectors of 16 inputs or hidden states, once per group; groups; cells; calls (1).
    """
    time, vectors, cells = _vectors_of_step(graph, op)
    groups = cells // 4 + cells % 4
    return Features("", (time * groups * vectors, time * groups, time * cells, 1.0), time)


def cells_in_vectors(graph: Graph, op: Op) -> Features:
    """Return the counts of tw_unidirectional_sequence_lstm_s8_mve, which computes the four gates of a cell at a time.

    They are, in this order, all times time steps except the last: vectors of 16 inputs or hidden states, once per cell; cells;
    groups of eight cells; calls (1).
    """
    time, vectors, cells = _vectors_of_step(graph, op)
    return Features("", (time * cells * vectors, time * cells, time * -(-cells // 8), 1.0), time)


def _vectors_of_step(graph: Graph, op: Op) -> tuple[int, int, int]:
    """Return a recurrent layer's time steps (of all batch entries), vectors of inputs and hidden states per step, and cells."""
    x, cells = graph.input(op), graph.output(op).shape[-1]
    depth = x.shape[-1]
    return x.elements // depth, (mve.up(depth) + mve.up(cells)) // mve.LANES, cells


def filters_over_time(graph: Graph, op: Op) -> Features:
    """Return the counts of tw_svdf_s8_mve, which computes four filters, then two units, at a time.

    They are, in this order: vectors of 16 inputs, once per group of filters; groups of filters; vectors of 16 bytes of the
    state, once per pair of units; pairs of units; calls (1).
    """
    (batch, depth), (filters, steps) = graph.input(op).shape, graph.input(op, svdf.TIME_WEIGHTS).shape
    units = graph.output(op).shape[1]
    length = filters // units * steps * itemsize(graph.input(op, svdf.STATE).dtype)
    fours, twos = batch * -(-filters // 4), batch * -(-units // 2)
    did = (fours * mve.up(depth) // mve.LANES, fours, twos * mve.up(length) // mve.LANES, twos, 1.0)
    return Features("", did, batch)


def broadcast(graph: Graph, op: Op) -> Features:
    """Return the counts of `plain`; if the operands differ in shape, `case` selects constants of their own.

    Then the kernel computes one run of elements per row of the output, not per pixel, if no operand repeats within a row.
    """
    counted = plain(graph, op)
    shapes = graph.input(op).shape, graph.input(op, 1).shape
    if shapes[0] == shapes[1]:
        return counted
    (n, h, *row), runs = geometry.extents(graph.output(op).shape), counted.counts[3]
    if all(geometry.extents(shape)[2:] == tuple(row) for shape in shapes):
        runs = n * h
    return counted._replace(case=", broadcast", counts=(*counted.counts[:3], runs, 1.0))


def runs(graph: Graph, op: Op) -> Features:
    """Return the loop counts of pads and concatenations, which copy runs (contiguous bytes) into a larger tensor.

    They are, in this order: bytes copied; bytes of padding; runs of more than one byte; words and bytes after the last 16 bytes
    of each run; calls, one per input.
    """
    block = copies.padded(graph, op) if op.kind in ("pad", "padv2") else None
    blocks = [block] if block is not None else [block for _, block in copies.joined(graph, op)]
    size, copied, count, rest = itemsize(graph.output(op).dtype), 0, 0, 0
    for n, h, w, c in (copies.in_runs(block).inner for block in blocks):
        copied += n * h * w * c * size
        count += n * h * w * (c * size > 1)
        rest += n * h * w * (c * size % 16 // 4 + c * size % 4)
    return Features("", (copied, graph.output(op).bytes - copied, count, rest, len(blocks)))


def strides(graph: Graph, op: Op) -> Features:
    """Return the loop counts of copies of runs (contiguous bytes) that are one stride apart.

    They are, in this order: runs of one byte; longer runs; bytes of these; passes of the innermost loop; calls, one per piece
    of the output.
    """
    pieces = copies.moved(graph, op)
    assert pieces is not None
    single = sum(prod(piece.size) for piece in pieces if piece.run == 1)
    longer = [(prod(piece.size), piece.run) for piece in pieces if piece.run > 1]
    loops = sum(prod(piece.size[:3]) for piece in pieces)
    counts = single, sum(count for count, _ in longer), sum(count * run for count, run in longer), loops, len(pieces)
    return Features("", tuple(map(float, counts)))


def tables(graph: Graph, op: Op) -> Features:
    """Return the loop counts of copies of runs (contiguous bytes) from offsets in tables.

    They are, in this order: runs of one byte; longer runs; bytes of these; rows; calls, one per piece of the output.
    """
    single = longer = copied = rows = 0
    pieces = copies.listed(graph, op)
    for piece in pieces:
        count = piece.repeats * piece.rows.size
        runs, rows = count * piece.cols.size, rows + count
        single += runs if piece.run == 1 else 0
        longer += runs if piece.run > 1 else 0
        copied += runs * piece.run if piece.run > 1 else 0
    return Features("", (single, longer, copied, rows, len(pieces)))


def selections(graph: Graph, op: Op) -> Features:
    """Return the loop counts of a topk_v2, which searches a row of the input once for each element that it selects.

    They are, in this order: elements compared; elements selected; rows; calls (1).
    """
    x, selected = graph.input(op), graph.output(op).elements
    depth = x.shape[-1]
    return Features("", (selected * depth, selected, x.elements // depth, 1.0))


def vectors(graph: Graph, op: Op) -> Features:
    """Return the loop counts of pools that compute one vector of channels at a time.

    They are, in this order: vectors times pixels of the window; vectors times rows of the window; vectors; output pixels;
    calls (1). A vector has 16 channels of an output pixel; the last one of a pixel may have fewer.
    """
    out, (rows, cols) = graph.output(op), op.attrs["kernel"]
    count = prod(out.shape[:3])
    each = count * (mve.up(out.shape[3]) // mve.LANES)
    return Features("", (each * rows * cols, each * rows, each, count, 1.0))


def sums(graph: Graph, op: Op, *, at_once: int) -> Features:
    """Return the loop counts of means, which compute `at_once` neighbouring outputs at a time: a group.

    If the reduced elements of an output are neighbours, groups of these are added up instead. The counts are, in this order:
    groups of outputs times reduced elements; groups of outputs; groups of reduced neighbours; outputs of these; calls (1).
    """
    reduction = geometry.reduction(graph.input(op).shape, axes(graph, op))
    assert reduction is not None
    (outer, middle, inner), (rows, cols) = reduction
    count = outer * middle
    if cols == inner == 1:
        count, rows, cols, inner = outer, 1, rows, middle
    if inner == 1:
        return Features("", (0.0, 0.0, count * rows * -(-cols // at_once), count, 1.0))
    groups = count * -(-inner // at_once)
    return Features("", (groups * rows * cols, groups, 0.0, 0.0, 1.0))


def pixels(graph: Graph, op: Op) -> Features:
    """Return the loop counts of convolutions that compute one output pixel at a time.

    They are, in this order: MACs; output elements times rows of the window; output elements; output pixels times rows of the
    window; output pixels; calls (1).
    """
    out, rows = graph.output(op), kernel_size(graph, op)[0]
    macs, count = SPECS[op.kind].macs(graph, op, True), prod(out.shape[:3])
    return Features("", (macs, out.elements * rows, out.elements, count * rows, count, 1.0), count)


def pixels_by_fours(graph: Graph, op: Op) -> Features:
    """Return the loop counts of `pixels` for kernels that multiply a pixel's window with four filters of a group at a time.

    The MACs of the filters that remain in each group, at most three, are counted `SINGLE` times.
    """
    plain, filters = pixels(graph, op), graph.output(op).shape[3] // groups(graph, op)
    more = 1 + (SINGLE - 1) * (filters % 4) / filters
    return plain._replace(counts=(plain.counts[0] * more, *plain.counts[1:]))


def pairs(graph: Graph, op: Op) -> Features:
    """Return the loop counts of conv_2d kernels that multiply two windows, copied to scratch, with four filters at a time.

    They are, in this order: pairs of pixels times groups of four filters, times words of the window; the same without words;
    pairs of pixels times words; pairs times rows of the window; pixels; rows, then words, of windows that reach into the
    padding; calls (1).
    """
    (rows, cols), out, depth = kernel_size(graph, op), graph.output(op), graph.input(op, 1).shape[3]
    filters, count = out.shape[3], prod(out.shape[:3])
    twos, fours, words = -(-count // 2), -(-filters // 4), rows * -(-cols * depth // 4)
    gathered = "pixels" if rows == cols == 1 else "words" if depth % 4 == 0 else "bytes"
    gathered = "nines" if rows == cols == depth == 3 else gathered
    outside = count - prod(_inside(*axis) for axis in zip(*_axes(graph, op), strict=True))
    did = (twos * fours * words, twos * fours, twos * words, twos * rows, count, outside * rows, outside * words, 1.0)
    return Features(f", {gathered}", did, twos)


def packed_pairs(graph: Graph, op: Op) -> Features:
    """Return the loop counts of tw_conv_2d_s8_scalar, which packs two windows and multiplies them with two filters at a time.

    They are, in this order: pairs of pixels times pairs of filters times pairs of inputs; pairs of pixels times pairs of
    filters; inputs of all pairs of pixels; rows of their windows; output pixels; inputs of windows that reach into the padding;
    calls (1).
    """
    (rows, _), out, inputs = kernel_size(graph, op), graph.output(op), prod(graph.input(op, 1).shape[1:])
    count = prod(out.shape[:3])
    twos, groups = -(-count // 2), -(-out.shape[3] // 2)
    outside = count - prod(_inside(*axis) for axis in zip(*_axes(graph, op), strict=True))
    did = (twos * groups * -(-inputs // 2), twos * groups, twos * inputs, twos * rows, count, outside * inputs, 1.0)
    return Features("", did, twos)


def pairs_and_outliers(graph: Graph, op: Op) -> Features:
    """Return the loop counts of `pairs`, increased by `OUTLIER` times the work of four filters for each outlier.

    An outlier is a filter that the fast arithmetic cannot hold.
    """
    plain, fours = pairs(graph, op), -(-graph.output(op).shape[3] // 4)
    more = 1 + OUTLIER * dense.outlier_count(graph, op) / fours
    return plain._replace(counts=(plain.counts[0] * more, plain.counts[1] * more, *plain.counts[2:]))


def windows(graph: Graph, op: Op) -> Features:
    """Return the loop counts of tw_conv_2d_s8_lean_dsp, which multiplies one window with four filters at a time.

    A window is read as parts, which are runs of quads (four neighbouring inputs). If the kernel copies windows, the whole
    window is one part. Otherwise each row of the window is a part; the incomplete quads at the ends of rows form one more part.
    A group is four filters. The counts, in this order:

    1. quads, once per group;
    2. parts, once per group (left out if windows are copied);
    3. output pixels, once per group;
    4. rows of all windows;
    5. output pixels;
    6. only if windows are copied: words copied, or bytes copied if a row of the window has fewer than four;
    7. only if windows are copied: all inputs of those windows that reach into the padding;
    8. calls, which is 1.

    There are three sets of constants, selected by `case`: for copied windows, for rows with an incomplete quad, for others.
    """
    (rows, cols), out, depth = kernel_size(graph, op), graph.output(op), graph.input(op, 1).shape[3]
    fours, count, run = -(-out.shape[3] // 4), prod(out.shape[:3]), cols * depth
    if dense.is_copied(rows, cols, depth):
        outside = count - prod(_inside(*axis) for axis in zip(*_axes(graph, op), strict=True))
        copied = count * rows * (run if run < 4 else -(-run // 4)), float(outside * rows * run)
        did = (count * fours * -(-rows * run // 4), count * fours, count * rows, count, *copied, 1.0)
        return Features(", copied", did, count)
    quads, parts = rows * (run // 4) + -(-rows * (run % 4) // 4), rows + (run % 4 > 0)
    in_place = (count * fours * quads, count * fours * parts, count * fours, count * rows, count, 1.0)
    return Features(", rests" if run % 4 else "", in_place, count)


def tiles(graph: Graph, op: Op) -> Features:
    """Return the loop counts of the Winograd kernel, which computes two tiles of 2x2 outputs for four filters at a time."""
    (_, h, w, filters), depth = graph.output(op).shape, graph.input(op).shape[3]
    count, words = -(-h // winograd.TILE) * -(-w // winograd.TILE), depth // 2
    groups = -(-count // 2) * -(-filters // 4)
    return Features("", (groups * words, groups, count * words, count, 1.0), -(-count // 2))


def _axes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    """Return five (h, w) pairs of a convolution: sizes of input, output and window, the stride, and the padding before."""
    starts = tuple(before for before, _ in op.attrs["padding"])
    return graph.input(op).shape[1:3], graph.output(op).shape[1:3], kernel_size(graph, op), op.attrs["stride"], starts


def _inside(size: int, steps: int, kernel: int, stride: int, pad: int) -> int:
    """Count the windows along an axis that do not reach into the padding; `steps` is the number of output positions."""
    return sum(step * stride - pad >= 0 and step * stride - pad + kernel <= size for step in range(steps))


def taps(graph: Graph, op: Op) -> Features:
    """Return the loop counts of depthwise kernels that add tap by tap; `case` is set for a depth multiplier above 1."""
    x, out, (rows, _) = graph.input(op), graph.output(op), kernel_size(graph, op)
    several = "" if x.shape[3] == out.shape[3] else ", multiplied"
    macs, count = SPECS[op.kind].macs(graph, op, True), out.elements // out.shape[3]
    return Features(several, (macs, macs // out.shape[3], out.elements, count * rows, count, 1.0), count)


def outputs(graph: Graph, op: Op) -> Features:
    """Return the loop counts of the depthwise kernels without scratch, which compute four channels of two outputs at a time."""
    size, (height, width), kernel, stride, pad = depthwise.whole(graph, op)
    fours, runs = -(-graph.input(op).shape[3] // taps_dsp.CHANNELS), 0
    inside = _inside(*(axis[0] for axis in (size, (height, width), kernel, stride, pad)))
    for rows, is_inside in ((inside, True), (height - inside, False)):
        runs += rows * taps_dsp.runs(size[1], width, kernel[1], stride[1], pad[1], is_inside=is_inside)
    twos, ones = height * (width // taps_dsp.OUTPUTS), height * (width % taps_dsp.OUTPUTS)
    did = (twos * fours, ones * fours, twos + ones, runs, height, 1.0)
    return Features(f", {taps_dsp.function(graph, op)}", did, twos + ones)


def column(graph: Graph, op: Op) -> Features:
    """Return the loop counts of tw_depthwise_column_s8_dsp, which computes four channels of one or two outputs, tap by tap."""
    fours, rows = -(-graph.input(op).shape[3] // taps_dsp.CHANNELS), kernel_size(graph, op)[0]
    steps = len(taps_dsp.column_begins(graph, op))
    twos = graph.output(op).shape[1] - steps
    ones = steps - twos
    did = (twos * fours * rows, twos * fours, ones * fours * rows, ones * fours, steps, 1.0)
    return Features("", did, steps)


def pixel(graph: Graph, op: Op) -> Features:
    """Return the loop counts of tw_depthwise_pixel_s8_dsp, which computes four channels of one output at a time, tap by tap."""
    fours = -(-graph.input(op).shape[3] // taps_dsp.CHANNELS)
    return Features("", (fours * kernel_size(graph, op)[0], fours, 1.0))


def lines(graph: Graph, op: Op) -> Features:
    """Return the loop counts of the depthwise kernels of tw_line.h: four channels of a block of rows and columns at a time."""
    shape, channels = depthwise.whole(graph, op), -(-graph.input(op).shape[3] // depthwise.PLANES)
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


def lines_in_pairs(graph: Graph, op: Op) -> Features:
    """Return the loop counts of `lines`; if pairs of output rows are computed together, `case` selects other constants."""
    found = lines(graph, op)
    return found._replace(case=f"{found.case}, pairs") if depthwise.rows_in_pairs(graph, op) else found
