"""Overlap distances: how many bytes below a dying input an output must begin to overwrite it safely.

A dying input is one whose last use is this op. At the overlap distance or more, a kernel never overwrites an element that it
still reads. Each function derives the smallest such distance of one kind of kernel from its order of reads and writes. Public
functions of a graph and an op return `Distances`; inputs that are missing in them must not overlap the output.
tests/kernels/test_overlap_distance.py runs kernels at the distance and one element below it.

In arguments, `at_once` is the number of output channels that a step computes; `depth` and `units` are the numbers of input and
output channels. Source: vMCU (arXiv 2406.06542) and TFLite Micro's
memory planners have special cases; the general derivation is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, itemsize
from ..ops import SPECS, batch_matmul, extrema, reduce, resize, transpose_conv
from ..ops.recurrent import lstm
from ..ops.window import Windows
from . import copies

Numbers = NDArray[np.int64]
Distances = dict[int, int]  # index of an input -> its overlap distance in bytes
NEVER = 1 << 40  # stands for the position read if a step reads nothing; beyond all tensors


def none(graph: Graph, op: Op) -> Distances:
    """Return {}: no input may overlap the output, since the kernel may read any input after any write."""
    return {}


def moved(graph: Graph, op: Op) -> Distances:
    """Return {0: 0}: the output of tw_move may begin where input 0 does, or below it, since the copy allows any overlap."""
    return {0: 0}


def trailing(read: Numbers, written: Numbers) -> int:
    """Return the overlap distance of a sequence of steps: how many bytes below the input the output must begin.

    Each step reads, then writes. At this distance no step overwrites a byte that a later step reads.

    Args:
        read: For each step the offset of the lowest input byte that it reads.
        written: For each step the offset after the highest output byte that it writes.

    """
    later = np.minimum.accumulate(read[::-1])[::-1]
    return int((written[:-1] - later[1:]).max(initial=0))


def _numbered(tensor: Tensor) -> Numbers:
    """Return the index of each element of a tensor, in the tensor's shape."""
    return np.arange(tensor.elements).reshape(tensor.shape)


def elementwise(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: an elementwise op's output must begin N bytes below the operand to overwrite no unread byte.

    The kernel reads the operands of an output element before it writes the element. It reads each element of a broadcast
    operand several times. If an operand and the output differ in type and neither has single bytes, the operand is left out: a
    C compiler may move the loads behind the stores.
    """
    out = graph.output(op)
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
    """Return how many bytes below an operand that broadcasts the output must begin to overwrite no unread byte.

    The op is elementwise, and reads each element of the operand several times.

    Args:
        shape: The shape of the operand.
        out_shape: The shape of the output.
        size: The bytes of an element of the operand.
        out_size: The bytes of an element of the output.

    """
    read = np.broadcast_to(np.arange(prod(shape)).reshape(shape), out_shape).ravel()
    return trailing(read * size, np.arange(1, len(read) + 1) * out_size)


def of_windows(distance: Callable[[Graph, Op, Windows], int]) -> Callable[[Graph, Op], Distances]:
    """Decorate a function of (graph, op, its sliding windows) to take (graph, op) and return `Distances`.

    The result has the distance of input 0, or nothing if the batch is not 1.
    """

    @wraps(distance)
    def distances(graph: Graph, op: Op) -> Distances:
        windows = SPECS[op.kind].windows(graph, op)
        return {} if windows is None else {0: distance(graph, op, windows)}

    return distances


@of_windows
def by_channel(graph: Graph, op: Op, windows: Windows) -> int:
    """Return how many bytes below its input a pool's or depthwise convolution's output must begin to overwrite no unread byte.

    The kernel reads a window for one output channel at a time.
    """
    return _by_some_channels(graph, op, windows, 1)


@of_windows
def by_four_channels(graph: Graph, op: Op, windows: Windows) -> int:
    """Return how many bytes below its input the output of a depthwise convolution must begin to overwrite no unread byte.

    The kernel reads a window for four output channels at a time.
    """
    return _by_some_channels(graph, op, windows, 4)


def _by_some_channels(graph: Graph, op: Op, windows: Windows, at_once: int) -> int:
    """Return how many bytes below its input a pool's or depthwise convolution's output must begin to overwrite no unread byte.

    The kernel computes `at_once` channels of a pixel at a time.
    """
    x, out, dilation = graph.input(op), graph.output(op), op.attrs.get("dilation", (1, 1))
    channels = {"depth": x.shape[3], "units": out.shape[3], "at_once": at_once}
    return itemsize(x.dtype) * windowed((x.shape[1:3], out.shape[1:3]), windows, dilation, **channels)


def resized(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: the output of resize_bilinear must begin N bytes below the input to overwrite no unread byte.

    The kernel reads four input pixels for each channel of an output pixel. Return {} if the batch is not 1.
    """
    x = graph.input(op)
    if x.shape[0] != 1:
        return {}
    (rows, _), (cols, _) = resize.neighbours(graph, op)
    return {0: _channels((rows[:, None] * x.shape[2] + cols).ravel(), x.shape[3], x.shape[3])}


def shown(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: resize_nearest_neighbor's output must begin N bytes below the input to overwrite no unread byte.

    The kernel copies pixel by pixel. Return {} if the batch is not 1.
    """
    x = graph.input(op)
    if x.shape[0] != 1:
        return {}
    rows, cols = resize.nearest_neighbours(graph, op)
    first = (rows[:, None] * x.shape[2] + cols).ravel()
    return {0: trailing(first * x.pixel_bytes, (np.arange(len(first)) + 1) * x.pixel_bytes)}


def _channels(first: Numbers, channels: int, out_channels: int, at_once: int = 1) -> int:
    """Return how many bytes below its input the output must begin to overwrite no unread byte.

    The kernel computes `at_once` channels of a pixel at a time. An output channel depends only on its own input channel, as in
    pools and depthwise convolutions.

    Args:
        first: For each output pixel the index of the first input pixel that it reads; later pixels of its window follow.
        channels: The number of input channels.
        out_channels: The number of output channels, a multiple of `channels`.
        at_once: The output channels computed at a time.

    """
    begun = np.arange(len(first)) * out_channels
    done = np.arange(0, out_channels, at_once)  # output channels of a pixel that are complete at the start of each step
    own = begun - first * channels + (done - done * channels // out_channels).max()
    later = begun - np.minimum.accumulate(first[::-1])[::-1] * channels
    return int(np.maximum(own, later).max(initial=0))


@of_windows
def by_pixel(graph: Graph, op: Op, windows: Windows) -> int:
    """Return how many bytes below its input the output of conv_2d must begin to overwrite no unread byte.

    The kernel reads a window once per four output channels, then once per remaining channel; on int16 maps, once per output
    channel.
    """
    return _by_filters(graph, op, windows, 4 if itemsize(graph.input(op).dtype) == 1 else 1)


@of_windows
def by_filter(graph: Graph, op: Op, windows: Windows) -> int:
    """Return how many bytes below its input the output of conv_2d must begin to overwrite no unread byte.

    The kernel reads a window once per output channel.
    """
    return _by_filters(graph, op, windows, 1)


def _by_filters(graph: Graph, op: Op, windows: Windows, at_once: int) -> int:
    x, out = graph.input(op), graph.output(op)
    shapes, size = (x.shape[1:3], out.shape[1:3]), itemsize(x.dtype)
    dense = {"groups": x.shape[3] // graph.input(op, 1).shape[3], "at_once": at_once}
    return size * windowed(shapes, windows, op.attrs["dilation"], depth=x.shape[3], units=out.shape[3], **dense)


@of_windows
def by_pixel_of_fours(graph: Graph, op: Op, windows: Windows) -> int:
    """Return how many bytes below its input the output of conv_2d must begin to overwrite no unread byte.

    The kernel reads a window once per four output channels, then once for the last one to three channels together.
    """
    return _some_of_each(firsts_of(graph, op, windows) * graph.input(op).shape[3], graph.output(op).shape[3], 4)


@of_windows
def by_two_pixels(graph: Graph, op: Op, windows: Windows) -> int:
    """Return how many bytes below its input the output of conv_2d must begin to overwrite no unread byte.

    The kernel reads the windows of two output pixels before it writes both pixels.
    """
    x, out = graph.input(op), graph.output(op)
    pixels = {"depth": x.pixel_bytes, "units": out.pixel_bytes}
    return _two_pixels(x.shape[1:3], out.shape[1:3], windows, op.attrs["dilation"], **pixels)


@lru_cache(maxsize=1 << 12)
def _two_pixels(
    size: tuple[int, ...], out_size: tuple[int, ...], windows: Windows, dilation: tuple[int, int], *, depth: int, units: int
) -> int:
    """Return how many bytes below its input the output must begin to overwrite no unread byte.

    The kernel computes two pixels at a time. The function is the cached part of `by_two_pixels`.

    Args:
        size: Rows and columns of the input.
        out_size: Rows and columns of the output.
        windows: The vertical and the horizontal window.
        dilation: The vertical and the horizontal dilation.
        depth: The bytes of an input pixel.
        units: The bytes of an output pixel.

    """
    first = first_pixels(size, out_size, windows, dilation)
    return in_twos(first * depth, np.arange(1, len(first) + 1) * units)


def in_twos(read: Numbers, written: Numbers) -> int:
    """Return how many bytes below the input the output must begin to overwrite no unread byte.

    The steps of the kernel run in pairs: both steps of a pair read before either of them writes.

    Args:
        read: For each step the offset of the lowest input byte that it reads.
        written: For each step the offset after the highest output byte that it writes.

    """
    both = np.minimum(read[0::2], np.append(read, NEVER)[1::2])
    return trailing(both, np.maximum(written[0::2], np.append(written, 0)[1::2]))


@lru_cache(maxsize=1 << 12)  # cached: networks repeat layers of the same shape, and an architecture search even more so
def windowed(
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
    windows: Windows,
    dilation: tuple[int, int],
    *,
    depth: int,
    units: int,
    groups: int = 0,
    at_once: int = 1,
) -> int:
    """Return how far below its input a convolution's or pool's output must begin to overwrite no unread element.

    Args:
        sizes: Rows and columns of the input, rows and columns of the output.
        windows: The vertical and the horizontal window.
        dilation: The vertical and the horizontal dilation.
        depth: The number of input channels.
        units: The number of output channels.
        groups: The groups of a convolution, whose windows are read once per `at_once` output channels of a group. 0: each
            output channel depends only on its own input channel, as in pools and depthwise convolutions.
        at_once: The output channels computed at a time.

    Returns:
        The distance in elements.

    """
    first = first_pixels(*sizes, windows, dilation)
    if groups:
        return _dense(first, depth, units, groups, at_once)
    return _channels(first, depth, units, at_once)


def by_row(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: the output of fully_connected must begin N bytes below the input to overwrite no unread byte.

    The kernel reads an input row once per four outputs, then once per remaining output.
    """
    units, depth = graph.input(op, 1).shape
    x = graph.input(op)
    return {0: of_rows(x.elements // depth, depth, units)}


def of_rows(count: int, depth: int, units: int) -> int:
    """Return how many bytes below its input the output of fully_connected must begin to overwrite no unread byte.

    The kernel reads an input row once per four outputs, then once per remaining output.

    Args:
        count: The number of rows, which is the batch.
        depth: The inputs per row.
        units: The outputs per row.

    """
    return _dense(np.arange(count), depth, units)


def by_row_for_some(graph: Graph, op: Op, at_once: int) -> Distances:
    """Return {input index: N}: the output of fully_connected must begin N bytes below the input to overwrite no unread byte.

    The kernel reads an input row once per `at_once` outputs, then once for the remaining outputs together.
    """
    x, (units, depth) = graph.input(op), graph.input(op, 1).shape
    return {0: _some_of_each(np.arange(x.elements // depth) * depth, units, at_once) * itemsize(x.dtype)}


def _some_of_each(read: Numbers, units: int, at_once: int) -> int:
    """Return how many elements below its input the output must begin to overwrite no unread element.

    The kernel reads each pixel once per `at_once` output channels.

    Args:
        read: For each output pixel the offset of the lowest input element that it reads.
        units: The number of output channels.
        at_once: The output channels computed at a time; fewer remaining channels are computed together.

    """
    written = np.arange(len(read))[:, None] * units + np.array([(units - 1) // at_once * at_once, units])
    return trailing(read.repeat(2), written.ravel())


def by_time(graph: Graph, op: Op, at_once: int = 1) -> Distances:
    """Return {input index: N}: the output of an LSTM must begin N bytes below the input to overwrite no unread byte.

    At most `at_once` cells read all inputs of a time step and then write their outputs. Return {} if the batch is not 1.
    """
    extents, (cells, depth) = graph.input(op).shape, graph.input(op, lstm.WEIGHTS).shape
    time, batch = lstm.time_and_batch(graph, op)
    if extents[batch] != 1:
        return {}
    return {0: _some_of_each(np.arange(extents[time]) * depth, cells, at_once)}


def by_step(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: the output of gru or simple_rnn must begin N bytes below the input to overwrite no unread byte.

    Four cells read all inputs of a time step and then write their outputs. Return {} if the layer runs from the last time step
    to the first, or if its output is only the last state: then each time step overwrites the output of the step before.
    """
    if op.attrs["reverse"] or op.attrs["last"]:
        return {}
    _, time, depth = graph.input(op).shape
    return {0: _dense(np.arange(time), depth, graph.output(op).shape[-1])}


def by_meeting(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: the output of transpose_conv must begin N bytes below the input to overwrite no unread byte.

    The kernel reads the inputs of an output pixel once per four output channels; on int16 maps, once per output channel. Return
    {} if the batch is not 1.
    """
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
    """Return for each output position along an axis the first input position that contributes to it; `NEVER` if none does.

    Input position i contributes to the outputs [i * stride - pad, i * stride - pad + kernel).

    Args:
        size: The input positions.
        out: The output positions.
        kernel: The extent of the kernel.
        stride: The output positions between two input positions.
        pad: The output positions cut off at the beginning.

    """
    at = np.arange(out) + pad
    first = np.maximum(-(-(at - kernel + 1) // stride), 0)
    return np.where(first <= np.minimum(at // stride, size - 1), first, NEVER)


def _dense(first: Numbers, depth: int, units: int, groups: int = 1, at_once: int = 4) -> int:
    """Return how many bytes below its input the output must begin to overwrite no unread byte.

    Each step reads a whole window, then writes `at_once` output channels of a group. If fewer than `at_once` channels remain, a
    step writes one.

    Args:
        first: For each output pixel the index of the first input pixel in its window.
        depth: The number of input channels.
        units: The number of output channels.
        groups: The number of groups of the convolution.
        at_once: The output channels that a step writes.

    """
    each, group = units // groups, np.arange(groups)
    last = each - (at_once if each % at_once == 0 else 1)
    read = first[:, None] * depth + group * (depth // groups)
    done = group[:, None] * each + np.array([last, each])  # channels written before and after the last step of a group
    steps = np.arange(len(first))[:, None, None] * units + done
    return trailing(read.repeat(2), steps.ravel())


def firsts_of(graph: Graph, op: Op, windows: Windows) -> Numbers:
    """Return for each output pixel of a convolution the index of the first input pixel in its window."""
    return first_pixels(graph.input(op).shape[1:3], graph.output(op).shape[1:3], windows, op.attrs["dilation"])


def first_pixels(size: tuple[int, ...], out_size: tuple[int, ...], windows: Windows, dilation: tuple[int, int]) -> Numbers:
    """Return for each output pixel the index of the first input pixel in its window; `NEVER` if the window holds only padding.

    Args:
        size: Rows and columns of the input.
        out_size: Rows and columns of the output.
        windows: The vertical and the horizontal window.
        dilation: The vertical and the horizontal dilation.

    """
    rows, cols = (
        first_inside(np.arange(count) * window.stride - window.pad, step, extent)
        for extent, count, window, step in zip(size, out_size, windows, dilation, strict=True)
    )
    return np.asarray(np.minimum(rows[:, None] * size[1] + cols, NEVER).ravel())


def first_inside(begin: Numbers, step: int, size: int) -> Numbers:
    """Return for each begin the first of the positions begin, begin + step, ... that is in [0, size); `NEVER` if none is."""
    first = begin + -(np.minimum(begin, 0) // step) * step
    return np.where(first < size, first, NEVER)


def reduced(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: the output of a reduction must begin N bytes below the input to overwrite no unread byte.

    The kernel reads all inputs of an output element before it writes the element.
    """
    x, out = graph.input(op), graph.output(op)
    over = (extrema.arg_axis(graph, op),) if op.kind in ("arg_max", "arg_min") else reduce.axes(graph, op)
    read = _numbered(x).min(axis=over).ravel()
    return {0: trailing(read * itemsize(x.dtype), np.arange(1, read.size + 1) * itemsize(out.dtype))}


def multiplied(graph: Graph, op: Op, at_once: int = 1) -> Distances:
    """Return {input index: N}: the output of batch_matmul must begin N bytes below the operand to overwrite no unread byte.

    The kernel reads a row and `at_once` columns, then writes their outputs. It computes the remaining columns one by one.
    """
    a, b = (_numbered(graph.input(op, index)) for index in (0, 1))
    rows = (a.swapaxes(-1, -2) if op.attrs["adj_x"] else a).min(axis=-1)[..., :, None]
    cols = (b.swapaxes(-1, -2) if op.attrs["adj_y"] else b).min(axis=-2)[..., None, :]
    shape = batch_matmul.infer(graph, op)[0]
    columns = np.arange(shape[-1])
    begins = columns[(columns % at_once == 0) | (columns >= shape[-1] // at_once * at_once)]
    written = (np.arange(prod(shape[:-1]))[:, None] * shape[-1] + np.append(begins[1:], shape[-1])).ravel()
    steps = (*shape[:-1], len(begins))
    return {
        index: trailing(np.broadcast_to(read, steps).ravel(), written) for index, read in enumerate((rows, cols[..., begins]))
    }


# copies: a run (contiguous bytes) is read whole before it is written, by memmove


def gathered(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: the output of tw_strided_copy must begin N bytes below the input to overwrite no unread byte.

    The kernel copies runs of bytes that are one stride apart along each axis of the input, and of the output.
    """
    pieces = copies.moved(graph, op)
    assert pieces is not None
    read, written, begin = [], [], 0
    for size, start, stride, out_stride, run in pieces:
        block = size[2] * size[3] * run
        read.append(start + _added(*map(_multiples, size, stride)))
        written.append(begin + run + _added(*map(_multiples, size, (size[1] * block, block, *out_stride))))
        begin += size[0] * size[1] * block
    return {SPECS[op.kind].data: trailing(np.concatenate(read), np.concatenate(written))}


def looked_up(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: the output of tw_table_copy must begin N bytes below the input to overwrite no unread byte.

    The kernel copies runs of bytes from input offsets that are stored in tables.
    """
    found = []
    for piece in copies.listed(graph, op):
        rows, cols = (np.where(axis < 0, NEVER, axis) for axis in (piece.rows, piece.cols))
        found.append((piece.run, np.minimum(_added(_multiples(piece.repeats, piece.step), rows, cols), NEVER)))
    return _copied(op, found)


def _multiples(count: int, step: int) -> Numbers:
    """Return 0, step, 2 * step, ...: `count` numbers."""
    return np.arange(count) * step


def _added(*axes: Numbers) -> Numbers:
    """Return the sums of all combinations of one number per axis, the last axis fastest."""
    return np.asarray(sum(np.ix_(*axes))).ravel()


def _copied(op: Op, pieces: Iterable[tuple[int, Numbers]]) -> Distances:
    """Return {input index: N}: the output of a copying op must begin N bytes below the input to overwrite no unread byte.

    The output is written in runs (contiguous bytes), each of which is read whole before it is written.

    Args:
        pieces: For each piece (part) of the output, the bytes of a run and the input offset of each run; `NEVER` for padding.

    """
    sizes, read = zip(*((np.full(begins.size, run), begins) for run, begins in pieces), strict=True)
    return {SPECS[op.kind].data: trailing(np.concatenate(read), np.concatenate(sizes).cumsum())}


def padded(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: the output of tw_pad must begin N bytes below the input to overwrite no unread byte.

    The kernel writes padding, then copies a run (contiguous bytes of input and output).
    """
    out, block = graph.output(op), copies.padded(graph, op)
    assert block is not None
    begins, count = _chunks(block)
    read = np.append(NEVER, np.arange(begins.size) * count)
    return {0: itemsize(out.dtype) * trailing(read, np.append(begins, out.elements))}


def joined(graph: Graph, op: Op) -> Distances:
    """Return {input index: N}: the output of tw_concatenation must begin N bytes below the input to overwrite no unread byte.

    The kernel copies one input after the other, run by run.
    """
    found, size, before = {}, itemsize(graph.output(op).dtype), 0
    for index, block in copies.joined(graph, op):
        begins, count = _chunks(block)
        own = trailing(np.arange(begins.size) * count, begins + count)
        found[index] = max(own, before) * size
        before = max(before, int((begins + count).max(initial=0)))
    return found


def _chunks(block: copies.Box) -> tuple[Numbers, int]:
    """Return the runs (contiguous elements) in which a tensor is copied into a larger one.

    Returns:
        The element index in the larger tensor at which each run begins, and the elements of a run.

    """
    inner, outer, before = copies.in_runs(block)
    at: Numbers = np.zeros(1, np.int64)
    for extent, whole, begin in zip(inner[:3], outer[:3], before[:3], strict=True):
        at = (at[:, None] * whole + begin + np.arange(extent)).ravel()
    return at * outer[3] + before[3], inner[3]
