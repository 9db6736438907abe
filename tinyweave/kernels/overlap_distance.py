"""How far the writes of a kernel must trail its reads: what makes it safe to let the output overlap a dying input.

In: an op, and what its kernel reads and writes in which order. Out: per input the overlap distance in bytes: an output that
begins at least this far below the input never overwrites an element that is still to be read. Inputs without one must not
overlap. A distance is the smallest, or 0, for its kernel's real order of reads and writes
(tests/kernels/test_overlap_distance.py runs them at it and one element below it); only copies that could write an element over
itself leave that aside.
Source: vMCU (arXiv 2406.06542) and TFLite Micro's memory planners know special cases of it; the derivation is ours.
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
Distances = dict[int, int]
"""Input of the op, by its number -> bytes by which the output must begin below it when both overlap."""
NEVER = 1 << 40  # reads no element


def none(graph: Graph, op: Op) -> Distances:
    """The kernel may read any of its inputs after any write."""
    return {}


def moved(graph: Graph, op: Op) -> Distances:
    """tw_move: all bytes arrive whichever way the two overlap."""
    return {0: 0}


def trailing(read: Numbers, written: Numbers) -> int:
    """Return the distance of steps that first read from byte `read` on and then have written at most all below `written`."""
    later = np.minimum.accumulate(read[::-1])[::-1]
    return int((written[:-1] - later[1:]).max(initial=0))


def _numbered(tensor: Tensor) -> Numbers:
    """The tensor with each element's own number in it."""
    return np.arange(tensor.elements).reshape(tensor.shape)


def elementwise(graph: Graph, op: Op) -> Distances:
    """Element by element, in order: all that an output element is computed from is read before it is written.

    Operands that broadcast are read again and again. Stores of one type may be moved over loads of another by a C compiler,
    unless either is a byte.
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
    """Return the distance of an operand that broadcasts; sizes of an element in bytes."""
    read = np.broadcast_to(np.arange(prod(shape)).reshape(shape), out_shape).ravel()
    return trailing(read * size, np.arange(1, len(read) + 1) * out_size)


def _two_by_two(x: Tensor, out: Tensor) -> int:
    """int4: two channels of a pixel are read before they are written."""
    channel = np.arange(0, out.shape[-1], 2)
    pixels = np.arange(x.elements // x.shape[-1]).reshape(*x.shape[:-1], 1) * x.pixel_bytes
    read = pixels + np.minimum(channel, x.shape[-1] - 1) // _per_byte(x)
    begun = np.arange(out.elements // out.shape[-1])[:, None] * out.pixel_bytes
    written = begun + np.minimum(channel // _per_byte(out) + 2 // _per_byte(out), out.pixel_bytes)
    return trailing(np.broadcast_to(read, (*out.shape[:-1], len(channel))).ravel(), written.ravel())


def _per_byte(tensor: Tensor) -> int:
    """Values of an int4 or int8 tensor that share a byte."""
    return 2 if tensor.dtype == "int4" else 1


def of_windows(distance: Callable[[Graph, Op, Windows], int]) -> Callable[[Graph, Op], Distances]:
    """Make the distances of an op on one map of the distance by its windows; none on several maps."""

    @wraps(distance)
    def distances(graph: Graph, op: Op) -> Distances:
        windows = SPECS[op.kind].windows(graph, op)
        return {} if windows is None else {0: distance(graph, op, windows)}

    return distances


@of_windows
def by_channel(graph: Graph, op: Op, windows: Windows) -> int:
    """Pools: an output channel, of int4 maps two, is written when its input channel of the window has been read."""
    return _by_some_channels(graph, op, windows, _per_byte(graph.output(op)))


@of_windows
def by_four_channels(graph: Graph, op: Op, windows: Windows) -> int:
    """Depthwise convolutions: four output channels are written when what they read of the window has been read."""
    return _by_some_channels(graph, op, windows, 4)


def _by_some_channels(graph: Graph, op: Op, windows: Windows, at_once: int) -> int:
    x, out, dilation = graph.input(op), graph.output(op), op.attrs.get("dilation", (1, 1))
    channels = {"depth": x.shape[3], "units": out.shape[3], "at_once": at_once, "share": _per_byte(x)}
    return windowed(x.shape[1:3], out.shape[1:3], windows, dilation, **channels)


def resized(graph: Graph, op: Op) -> Distances:
    """resize_bilinear: channel by channel of the four pixels around a place."""
    x = graph.input(op)
    if x.shape[0] != 1:
        return {}
    (rows, _), (cols, _) = resize.neighbours(graph, op)
    return {0: _channels((rows[:, None] * x.shape[2] + cols).ravel(), x.shape[3], x.shape[3])}


def shown(graph: Graph, op: Op) -> Distances:
    """resize_nearest_neighbor: pixel by pixel."""
    x = graph.input(op)
    if x.shape[0] != 1:
        return {}
    rows, cols = resize.nearest_neighbours(graph, op)
    first = (rows[:, None] * x.shape[2] + cols).ravel()
    return {0: trailing(first * x.pixel_bytes, (np.arange(len(first)) + 1) * x.pixel_bytes)}


def _channels(first: Numbers, channels: int, out_channels: int, at_once: int = 1, share: int = 1) -> int:
    """Pixel t, `at_once` of its channels after the other, reads their channels of pixel first[t] and later ones; `share` of
    them share a byte."""
    pixel, begun = -(-channels // share), np.arange(len(first)) * -(-out_channels // share)
    done = np.arange(0, out_channels, at_once)  # channels of pixel t: bytes written, less those it no longer has to read
    own = begun - first * pixel + (done // share - done * channels // out_channels // share).max()
    later = begun - np.minimum.accumulate(first[::-1])[::-1] * pixel
    return int(np.maximum(own, later).max(initial=0))


@of_windows
def by_pixel(graph: Graph, op: Op, windows: Windows) -> int:
    """Dense convolutions: all channels of the window are read for every four output channels, then for each of the rest."""
    x, out = graph.input(op), graph.output(op)
    shapes, size = (x.shape[1:3], out.shape[1:3]), itemsize(x.dtype)
    dense = {"groups": x.shape[3] // graph.input(op, 1).shape[3], "at_once": 4 if size == 1 else 1, "share": _per_byte(x)}
    return size * windowed(*shapes, windows, op.attrs["dilation"], depth=x.shape[3], units=out.shape[3], **dense)


@of_windows
def by_pixel_of_fours(graph: Graph, op: Op, windows: Windows) -> int:
    """Dense convolutions: all channels of the window are read for every four output channels, then for the rest."""
    return _some_of_each(firsts_of(graph, op, windows) * graph.input(op).shape[3], graph.output(op).shape[3], 4)


@of_windows
def by_two_pixels(graph: Graph, op: Op, windows: Windows) -> int:
    """Dense convolutions that read the windows of two pixels, one after the other, before they write both."""
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
    """Return the distance of steps, as in `trailing`, of which two each first read and then both write."""
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
    """Return the distance over one map in elements, or bytes that `share` of them share: of dense groups, or channel by channel
    when there are none."""
    first = first_pixels(size, out_size, windows, dilation)
    if groups:
        return _dense(first, depth, units, groups, at_once, share=share)
    return _channels(first, depth, units, at_once, share)


def by_row(graph: Graph, op: Op) -> Distances:
    """fully_connected: like a dense convolution whose pixels are the batch entries."""
    units, depth = graph.input(op, 1).shape
    x = graph.input(op)
    return {0: of_rows(x.elements // depth, depth, units, _per_byte(x))}


def of_rows(count: int, depth: int, units: int, share: int = 1) -> int:
    """The same for so many batch entries."""
    return _dense(np.arange(count), depth, units, share=share)


def by_row_for_some(graph: Graph, op: Op, at_once: int) -> Distances:
    """fully_connected that reads a row for every `at_once` of its outputs, then for the rest."""
    units, depth = graph.input(op, 1).shape
    return {0: _some_of_each(np.arange(graph.input(op).elements // depth) * depth, units, at_once)}


def _some_of_each(read: Numbers, units: int, at_once: int) -> int:
    """Return the distance where output t has `units` channels and all from byte read[t] on is read for every `at_once`."""
    written = np.arange(len(read))[:, None] * units + [(units - 1) // at_once * at_once, units]
    return trailing(read.repeat(2), written.ravel())


def by_time(graph: Graph, op: Op) -> Distances:
    """unidirectional_sequence_lstm: each cell reads all of the step's input."""
    extents, (cells, depth) = graph.input(op).shape, graph.input(op, lstm.WEIGHTS).shape
    time, batch = lstm.time_and_batch(graph, op)
    if extents[batch] != 1:
        return {}
    return {0: _dense(np.arange(extents[time]), depth, cells, at_once=1)}


def by_meeting(graph: Graph, op: Op) -> Distances:
    """transpose_conv: an output pixel reads those that meet its window, all channels for every four of its own."""
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
    """Per output along an axis the first input that adds to it: the lowest i with i * stride - pad + kernel > output."""
    at = np.arange(out) + pad
    first = np.maximum(-(-(at - kernel + 1) // stride), 0)
    return np.where(first <= np.minimum(at // stride, size - 1), first, NEVER)


def _dense(first: Numbers, depth: int, units: int, groups: int = 1, at_once: int = 4, *, share: int = 1) -> int:
    """Pixel t from first[t] on is read for every `at_once` of a group's output channels, then for each of the rest; `share`
    channels share a byte."""
    each, group = units // groups, np.arange(groups)
    last = each - (at_once if each % at_once == 0 else 1)
    read = first[:, None] * -(-depth // share) + group * (depth // groups) // share
    done = group[:, None] * each + [last, each]  # channels when the last of a group's sums are computed, and when written
    steps = np.arange(len(first))[:, None, None] * -(-units // share) + -(-done // share)
    return trailing(read.repeat(2), steps.ravel())


def firsts_of(graph: Graph, op: Op, windows: Windows) -> Numbers:
    """[pixels of the output of a convolution]: the number of the first input pixel that its window reads."""
    return first_pixels(graph.input(op).shape[1:3], graph.output(op).shape[1:3], windows, op.attrs["dilation"])


def first_pixels(size: tuple[int, ...], out_size: tuple[int, ...], windows: Windows, dilation: tuple[int, int]) -> Numbers:
    """[pixels of the output]: the number of the first input pixel that its window reads."""
    rows, cols = (
        first_inside(np.arange(count) * window.stride - window.pad, step, extent)
        for extent, count, window, step in zip(size, out_size, windows, dilation, strict=True)
    )
    return np.minimum(rows[:, None] * size[1] + cols, NEVER).ravel()


def first_inside(begin: Numbers, step: int, size: int) -> Numbers:
    """The first of begin, begin + step, ... that is not negative."""
    first = begin + -(np.minimum(begin, 0) // step) * step
    return np.where(first < size, first, NEVER)


def reduced(graph: Graph, op: Op) -> Distances:
    """mean and the like: an output element is written when all that it is computed from has been read."""
    x, out = graph.input(op), graph.output(op)
    over = (extrema.arg_axis(graph, op),) if op.kind == "arg_max" else reduce.axes(graph, op)
    read = _numbered(x).min(axis=over).ravel()
    return {0: trailing(read * itemsize(x.dtype), np.arange(1, read.size + 1) * itemsize(out.dtype))}


def multiplied(graph: Graph, op: Op) -> Distances:
    """batch_matmul: a row of one operand and a column of the other for each element."""
    a, b = (_numbered(graph.input(op, index)) for index in (0, 1))
    rows = (a.swapaxes(-1, -2) if op.attrs["adj_x"] else a).min(axis=-1)[..., :, None]
    cols = (b.swapaxes(-1, -2) if op.attrs["adj_y"] else b).min(axis=-2)[..., None, :]
    shape = batch_matmul.infer(graph, op)[0]
    written = np.arange(1, prod(shape) + 1)
    return {index: trailing(np.broadcast_to(read, shape).ravel(), written) for index, read in enumerate((rows, cols))}


# copies: a run of bytes that lies together is read whole before it is written, by memmove


def gathered(graph: Graph, op: Op) -> Distances:
    """Runs from all over the input, in equal steps."""
    pieces = copies.moved(graph, op)
    assert pieces is not None
    return _copied(op, ((piece.run, piece.start + _added(*map(_multiples, piece.size, piece.stride))) for piece in pieces))


def looked_up(graph: Graph, op: Op) -> Distances:
    """Runs from places in tables, or padding."""
    found = []
    for piece in copies.listed(graph, op):
        rows, cols = (np.where(axis < 0, NEVER, axis) for axis in (piece.rows, piece.cols))
        found.append((piece.run, np.minimum(_added(_multiples(piece.count, piece.step), rows, cols), NEVER)))
    return _copied(op, found)


def _multiples(count: int, step: int) -> Numbers:
    return np.arange(count) * step


def _added(*axes: Numbers) -> Numbers:
    """The sums of one number of each axis, the last axis fastest."""
    return np.asarray(sum(np.ix_(*axes))).ravel()


def _copied(op: Op, pieces: Iterable[tuple[int, Numbers]]) -> Distances:
    """Return the distance of the input of which runs of so many bytes are copied, from these on."""
    sizes, read = zip(*((np.full(begins.size, run), begins) for run, begins in pieces), strict=True)
    return {SPECS[op.kind].data: trailing(np.concatenate(read), np.concatenate(sizes).cumsum())}


def padded(graph: Graph, op: Op) -> Distances:
    """Rows, or pixels where channels are padded; the padding before one is written before it is read."""
    out, block = graph.output(op), copies.padded(graph, op)
    assert block is not None
    begins, count = _chunks(block)
    read = np.append(NEVER, np.arange(begins.size) * count)
    return {0: itemsize(out.dtype) * trailing(read, np.append(begins, out.elements))}


def joined(graph: Graph, op: Op) -> Distances:
    """Rows, or pixels where channels are joined, one input after the other."""
    found, size, before = {}, itemsize(graph.output(op).dtype), 0
    for index, block in copies.joined(graph, op):
        begins, count = _chunks(block)
        own = trailing(np.arange(begins.size) * count, begins + count)
        found[index] = max(own, before) * size
        before = max(before, int((begins + count).max(initial=0)))
    return found


def _chunks(block: copies.Box) -> tuple[Numbers, int]:
    """Where in the outer tensor the runs begin that the kernel copies at once, and the elements of a run."""
    inner, outer, before = block
    together = inner[3] == outer[3]
    extents = (*inner[:2], 1 if together else inner[2])
    at: Numbers = np.zeros(1, np.int64)
    for extent, whole, begin in zip(extents, outer[:3], before[:3], strict=True):
        at = (at[:, None] * whole + begin + np.arange(extent)).ravel()
    return at * outer[3] + before[3], inner[3] * (inner[2] if together else 1)
