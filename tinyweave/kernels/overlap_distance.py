"""Overlap distances: how many bytes below a dying input an output must begin to overwrite it safely.

At this distance or more, a kernel never overwrites an element that it still reads. Each function derives the smallest distance
of one kind of kernel from its order of reads and writes. Inputs without a distance must not overlap the output.
tests/kernels/test_overlap_distance.py runs kernels at the distance and one element below it.
Source: vMCU (arXiv 2406.06542) and TFLite Micro's memory planners have special cases; the general derivation is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, itemsize
from ..ops import SPECS, batch_matmul, extrema, lstm, reduce, resize, transpose_conv
from ..ops.window import Windows
from . import copies

Numbers = NDArray[np.int64]
Distances = dict[int, int]  # index of an input -> its overlap distance in bytes
NEVER = 1 << 40  # the position read by a step that reads nothing


def none(graph: Graph, op: Op) -> Distances:
    """Return no distance, since the kernel may read any input after any write."""
    return {}


def moved(graph: Graph, op: Op) -> Distances:
    """Return distance 0 for tw_move, which copies correctly however input and output overlap."""
    return {0: 0}


def trailing(read: Numbers, written: Numbers) -> int:
    """Return the overlap distance of a sequence of steps.

    Args:
        read: The lowest byte of the input that each step reads, before it writes.
        written: The end of the bytes of the output that are written after each step.

    """
    later = np.minimum.accumulate(read[::-1])[::-1]
    return int((written[:-1] - later[1:]).max(initial=0))


def _numbered(tensor: Tensor) -> Numbers:
    return np.arange(tensor.elements).reshape(tensor.shape)


def elementwise(graph: Graph, op: Op) -> Distances:
    """Return the overlap distances of elementwise ops, which read the operands of an output element before they write it.

    Operands that broadcast are read several times. If the types differ and neither is a byte, the operand has no distance: a C
    compiler may move the loads behind the stores.
    """
    out = graph.output(op)
    if "int4" in (out.dtype, graph.input(op).dtype):
        return {i: _two_by_two(x, out) for i, x in enumerate(graph.inputs_of(op)) if x is not None and x.data is None}
    size = itemsize(out.dtype)
    found = {}
    for index, x in enumerate(graph.inputs_of(op)):
        if x is None or x.data is not None or (x.dtype != out.dtype and 1 not in (itemsize(x.dtype), size)):
            continue
        if x.elements == out.elements:
            found[index] = max(out.elements - 1, 0) * max(size - itemsize(x.dtype), 0)
        else:
            found[index] = _repeated(x.shape, out.shape, itemsize(x.dtype), size)
    return found


@lru_cache(maxsize=1024)
def _repeated(shape: tuple[int, ...], out_shape: tuple[int, ...], size: int, out_size: int) -> int:
    read = np.broadcast_to(np.arange(prod(shape)).reshape(shape), out_shape).ravel()
    return trailing(read * size, np.arange(1, len(read) + 1) * out_size)


def _two_by_two(x: Tensor, out: Tensor) -> int:
    """Return the overlap distance of an int4 operand; two channels of a pixel are read before they are written."""
    channel = np.arange(0, out.shape[-1], 2)
    pixels = np.arange(x.elements // x.shape[-1]).reshape(*x.shape[:-1], 1) * x.pixel_bytes
    read = pixels + np.minimum(channel, x.shape[-1] - 1) // _per_byte(x)
    begun = np.arange(out.elements // out.shape[-1])[:, None] * out.pixel_bytes
    written = begun + np.minimum(channel // _per_byte(out) + 2 // _per_byte(out), out.pixel_bytes)
    return trailing(np.broadcast_to(read, (*out.shape[:-1], len(channel))).ravel(), written.ravel())


def _per_byte(tensor: Tensor) -> int:
    return 2 if tensor.dtype == "int4" else 1


def of_windows(distance: Callable[[Graph, Op, Windows], int]) -> Callable[[Graph, Op], Distances]:
    """Decorate a function of an op's sliding windows to return `Distances`: of input 0, or none if the batch is not 1."""

    @wraps(distance)
    def distances(graph: Graph, op: Op) -> Distances:
        windows = SPECS[op.kind].windows(graph, op)
        return {} if windows is None else {0: distance(graph, op, windows)}

    return distances


@of_windows
def by_channel(graph: Graph, op: Op, windows: Windows) -> int:
    """Return how many bytes below its input the output of a pool or depthwise convolution must begin.

    The kernel reads a window for one output channel at a time, or for two if the output is int4.
    """
    return _by_some_channels(graph, op, windows, _per_byte(graph.output(op)))


@of_windows
def by_four_channels(graph: Graph, op: Op, windows: Windows) -> int:
    """Return the overlap distance of depthwise convolutions that read a window for four output channels at a time."""
    return _by_some_channels(graph, op, windows, 4)


def _by_some_channels(graph: Graph, op: Op, windows: Windows, at_once: int) -> int:
    x, out, dilation = graph.input(op), graph.output(op), op.attrs.get("dilation", (1, 1))
    channels = {"depth": x.shape[3], "units": out.shape[3], "at_once": at_once, "share": _per_byte(x)}
    return windowed(x.shape[1:3], out.shape[1:3], windows, dilation, **channels)


def resized(graph: Graph, op: Op) -> Distances:
    """Return the overlap distance of resize_bilinear, which reads four pixels for each channel of an output pixel."""
    x = graph.input(op)
    if x.shape[0] != 1:
        return {}
    (rows, _), (cols, _) = resize.neighbours(graph, op)
    return {0: _channels((rows[:, None] * x.shape[2] + cols).ravel(), x.shape[3], x.shape[3])}


def shown(graph: Graph, op: Op) -> Distances:
    """Return the overlap distance of resize_nearest_neighbor, which copies pixel by pixel."""
    x = graph.input(op)
    if x.shape[0] != 1:
        return {}
    rows, cols = resize.nearest_neighbours(graph, op)
    first = (rows[:, None] * x.shape[2] + cols).ravel()
    return {0: trailing(first * x.pixel_bytes, (np.arange(len(first)) + 1) * x.pixel_bytes)}


def _channels(first: Numbers, channels: int, out_channels: int, at_once: int = 1, share: int = 1) -> int:
    """Return the overlap distance of a kernel that computes `at_once` channels of a pixel at a time.

    Output pixel t reads input pixels from first[t] on. `share` channels are packed into a byte.
    """
    pixel, begun = -(-channels // share), np.arange(len(first)) * -(-out_channels // share)
    done = np.arange(0, out_channels, at_once)  # channels of pixel t: bytes written, less those it no longer has to read
    own = begun - first * pixel + (done // share - done * channels // out_channels // share).max()
    later = begun - np.minimum.accumulate(first[::-1])[::-1] * pixel
    return int(np.maximum(own, later).max(initial=0))


@of_windows
def by_pixel(graph: Graph, op: Op, windows: Windows) -> int:
    """Return the overlap distance of conv_2d that reads a window per four output channels, then per remaining channel."""
    return _by_filters(graph, op, windows, 4 if itemsize(graph.input(op).dtype) == 1 else 1)


@of_windows
def by_filter(graph: Graph, op: Op, windows: Windows) -> int:
    """Return the overlap distance of conv_2d that reads a window per output channel."""
    return _by_filters(graph, op, windows, 1)


def _by_filters(graph: Graph, op: Op, windows: Windows, at_once: int) -> int:
    x, out = graph.input(op), graph.output(op)
    shapes, size = (x.shape[1:3], out.shape[1:3]), itemsize(x.dtype)
    dense = {"groups": x.shape[3] // graph.input(op, 1).shape[3], "at_once": at_once, "share": _per_byte(x)}
    return size * windowed(*shapes, windows, op.attrs["dilation"], depth=x.shape[3], units=out.shape[3], **dense)


@of_windows
def by_pixel_of_fours(graph: Graph, op: Op, windows: Windows) -> int:
    """Return the overlap distance of conv_2d that reads a window per four output channels, then once for the tail."""
    return _some_of_each(firsts_of(graph, op, windows) * graph.input(op).shape[3], graph.output(op).shape[3], 4)


@of_windows
def by_two_pixels(graph: Graph, op: Op, windows: Windows) -> int:
    """Return the overlap distance of conv_2d that reads the windows of two output pixels before it writes both."""
    x, out = graph.input(op), graph.output(op)
    pixels = {"depth": x.pixel_bytes, "units": out.pixel_bytes}
    return _two_pixels(x.shape[1:3], out.shape[1:3], windows, op.attrs["dilation"], **pixels)


@lru_cache(maxsize=1 << 12)
def _two_pixels(
    size: tuple[int, ...], out_size: tuple[int, ...], windows: Windows, dilation: tuple[int, int], *, depth: int, units: int
) -> int:
    first = first_pixels(size, out_size, windows, dilation)
    return in_twos(first * depth, np.arange(1, len(first) + 1) * units)


def in_twos(read: Numbers, written: Numbers) -> int:
    """Return the overlap distance of a sequence of steps that run in pairs: both steps read before either writes.

    It is how many bytes below its dying input an output must begin. `read` and `written` are as in `trailing`.
    """
    both = np.minimum(read[0::2], np.append(read, NEVER)[1::2])
    return trailing(both, np.maximum(written[0::2], np.append(written, 0)[1::2]))


@lru_cache(maxsize=1 << 12)  # networks repeat their shapes, searches for networks even more so
def windowed(
    size: tuple[int, ...],
    out_size: tuple[int, ...],
    windows: Windows,
    dilation: tuple[int, int],
    *,
    depth: int,
    units: int,
    groups: int = 0,
    at_once: int = 1,
    share: int = 1,
) -> int:
    """Return the overlap distance of a convolution or pool on one map, in elements, or in bytes of `share` elements each.

    With `groups`, each window is read once per `at_once` output channels of a group. With 0 groups, output channels read their
    own input channels only, `at_once` at a time. `depth` and `units` are the input and output channels.
    """
    first = first_pixels(size, out_size, windows, dilation)
    if groups:
        return _dense(first, depth, units, groups, at_once, share=share)
    return _channels(first, depth, units, at_once, share)


def by_row(graph: Graph, op: Op) -> Distances:
    """Return the overlap distance of fully_connected that reads a row once per four outputs, then once per remaining output."""
    units, depth = graph.input(op, 1).shape
    x = graph.input(op)
    return {0: of_rows(x.elements // depth, depth, units, _per_byte(x))}


def of_rows(count: int, depth: int, units: int, share: int = 1) -> int:
    """Return the distance of `by_row` for `count` rows of `depth` inputs and `units` outputs; `share` values share a byte."""
    return _dense(np.arange(count), depth, units, share=share)


def by_row_for_some(graph: Graph, op: Op, at_once: int) -> Distances:
    """Return the overlap distance of fully_connected that reads a row per `at_once` outputs, then once for the tail."""
    units, depth = graph.input(op, 1).shape
    return {0: _some_of_each(np.arange(graph.input(op).elements // depth) * depth, units, at_once)}


def _some_of_each(read: Numbers, units: int, at_once: int) -> int:
    """Return the distance if pixel t reads from byte read[t] on, once per `at_once` of its `units` output channels."""
    written = np.arange(len(read))[:, None] * units + np.array([(units - 1) // at_once * at_once, units])
    return trailing(read.repeat(2), written.ravel())


def by_time(graph: Graph, op: Op) -> Distances:
    """Return the overlap distance of unidirectional_sequence_lstm, whose cells each read all inputs of a time step."""
    extents, (cells, depth) = graph.input(op).shape, graph.input(op, lstm.WEIGHTS).shape
    time, batch = lstm.time_and_batch(graph, op)
    if extents[batch] != 1:
        return {}
    return {0: _dense(np.arange(extents[time]), depth, cells, at_once=1)}


def by_meeting(graph: Graph, op: Op) -> Distances:
    """Return the overlap distance of transpose_conv, which reads a pixel's inputs once per four output channels."""
    x, weights, out = graph.input(op, transpose_conv.DATA), graph.input(op, 1), graph.output(op)
    if x.shape[0] != 1:
        return {}
    rows, cols = (
        _first_meeting(x.shape[1 + a], out.shape[1 + a], weights.shape[1 + a], op.attrs["stride"][a], op.attrs["padding"][a][0])
        for a in (0, 1)
    )
    first = np.minimum(rows[:, None] * x.shape[2] + cols, NEVER).ravel()
    size = itemsize(x.dtype)
    return {transpose_conv.DATA: size * _dense(first, x.shape[3], out.shape[3], at_once=4 if size == 1 else 1)}


def _first_meeting(size: int, out: int, kernel: int, stride: int, pad: int) -> Numbers:
    """Return for each output position along an axis the first input position i with i * stride - pad + kernel > output."""
    at = np.arange(out) + pad
    first = np.maximum(-(-(at - kernel + 1) // stride), 0)
    return np.where(first <= np.minimum(at // stride, size - 1), first, NEVER)


def _dense(first: Numbers, depth: int, units: int, groups: int = 1, at_once: int = 4, *, share: int = 1) -> int:
    """Return the overlap distance of a kernel that reads a whole window per `at_once` output channels of a group.

    It reads the window once more per remaining channel. Output pixel t reads input pixels from first[t] on. `share` channels
    are packed into a byte.
    """
    each, group = units // groups, np.arange(groups)
    last = each - (at_once if each % at_once == 0 else 1)
    read = first[:, None] * -(-depth // share) + group * (depth // groups) // share
    done = group[:, None] * each + np.array([last, each])  # channels before and after the last sums of a group
    steps = np.arange(len(first))[:, None, None] * -(-units // share) + -(-done // share)
    return trailing(read.repeat(2), steps.ravel())


def firsts_of(graph: Graph, op: Op, windows: Windows) -> Numbers:
    """Return for each output pixel of a convolution the index of the first input pixel in its window."""
    return first_pixels(graph.input(op).shape[1:3], graph.output(op).shape[1:3], windows, op.attrs["dilation"])


def first_pixels(size: tuple[int, ...], out_size: tuple[int, ...], windows: Windows, dilation: tuple[int, int]) -> Numbers:
    """Return for each output pixel the index of the first input pixel in its window; `NEVER` if there is none."""
    rows, cols = (
        first_inside(np.arange(count) * window.stride - window.pad, step, extent)
        for extent, count, window, step in zip(size, out_size, windows, dilation, strict=True)
    )
    return np.asarray(np.minimum(rows[:, None] * size[1] + cols, NEVER).ravel())


def first_inside(begin: Numbers, step: int, size: int) -> Numbers:
    """Return the first of begin, begin + step, ... in [0, size), or `NEVER`."""
    first = begin + -(np.minimum(begin, 0) // step) * step
    return np.where(first < size, first, NEVER)


def reduced(graph: Graph, op: Op) -> Distances:
    """Return the overlap distance of reductions, which read all inputs of an output element before they write it."""
    x, out = graph.input(op), graph.output(op)
    over = (extrema.arg_axis(graph, op),) if op.kind == "arg_max" else reduce.axes(graph, op)
    read = _numbered(x).min(axis=over).ravel()
    return {0: trailing(read * itemsize(x.dtype), np.arange(1, read.size + 1) * itemsize(out.dtype))}


def multiplied(graph: Graph, op: Op) -> Distances:
    """Return the overlap distances of batch_matmul, which reads a row and a column for each output element."""
    a, b = (_numbered(graph.input(op, index)) for index in (0, 1))
    rows = (a.swapaxes(-1, -2) if op.attrs["adj_x"] else a).min(axis=-1)[..., :, None]
    cols = (b.swapaxes(-1, -2) if op.attrs["adj_y"] else b).min(axis=-2)[..., None, :]
    shape = batch_matmul.infer(graph, op)[0]
    written = np.arange(1, prod(shape) + 1)
    return {index: trailing(np.broadcast_to(read, shape).ravel(), written) for index, read in enumerate((rows, cols))}


# copies: a run of bytes that lies together is read whole before it is written, by memmove


def gathered(graph: Graph, op: Op) -> Distances:
    """Return the overlap distance of tw_strided_copy."""
    pieces = copies.moved(graph, op)
    assert pieces is not None
    return _copied(op, ((piece.run, piece.start + _added(*map(_multiples, piece.size, piece.stride))) for piece in pieces))


def looked_up(graph: Graph, op: Op) -> Distances:
    """Return the overlap distance of tw_table_copy."""
    found = []
    for piece in copies.listed(graph, op):
        rows, cols = (np.where(axis < 0, NEVER, axis) for axis in (piece.rows, piece.cols))
        found.append((piece.run, np.minimum(_added(_multiples(piece.repeats, piece.step), rows, cols), NEVER)))
    return _copied(op, found)


def _multiples(count: int, step: int) -> Numbers:
    return np.arange(count) * step


def _added(*axes: Numbers) -> Numbers:
    """Return the sums of all combinations of one number per axis, the last axis fastest."""
    return np.asarray(sum(np.ix_(*axes))).ravel()


def _copied(op: Op, pieces: Iterable[tuple[int, Numbers]]) -> Distances:
    """Return the overlap distance of copies; a piece is the bytes of its runs and where each begins in the input."""
    sizes, read = zip(*((np.full(begins.size, run), begins) for run, begins in pieces), strict=True)
    return {SPECS[op.kind].data: trailing(np.concatenate(read), np.concatenate(sizes).cumsum())}


def padded(graph: Graph, op: Op) -> Distances:
    """Return the overlap distance of tw_pad, which writes padding, then copies a row, or a pixel if channels are padded."""
    out, block = graph.output(op), copies.padded(graph, op)
    assert block is not None
    begins, count = _chunks(block)
    read = np.append(NEVER, np.arange(begins.size) * count)
    return {0: itemsize(out.dtype) * trailing(read, np.append(begins, out.elements))}


def joined(graph: Graph, op: Op) -> Distances:
    """Return the overlap distances of tw_concatenation, which copies input after input, row by row or pixel by pixel."""
    found, size, before = {}, itemsize(graph.output(op).dtype), 0
    for index, block in copies.joined(graph, op):
        begins, count = _chunks(block)
        own = trailing(np.arange(begins.size) * count, begins + count)
        found[index] = max(own, before) * size
        before = max(before, int((begins + count).max(initial=0)))
    return found


def _chunks(block: copies.Box) -> tuple[Numbers, int]:
    """Return where the runs that are copied at once begin in the outer tensor, and the elements of a run."""
    inner, outer, before = block
    together = inner[3] == outer[3]
    extents = (*inner[:2], 1 if together else inner[2])
    at: Numbers = np.zeros(1, np.int64)
    for extent, whole, begin in zip(extents, outer[:3], before[:3], strict=True):
        at = (at[:, None] * whole + begin + np.arange(extent)).ravel()
    return at * outer[3] + before[3], inner[3] * (inner[2] if together else 1)
