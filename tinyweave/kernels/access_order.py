"""The order in which each kind of kernel reads its inputs and writes its output, as a list of steps.

Each step reads, then writes. Each public function returns a dict from the index of an input to its `Steps`. Inputs whose order
is not defined are left out, for example if the batch is above 1. Steps may be left out that read nothing below what the step
after them reads, and write nothing that it does not. `access.py` maps kernels to these functions and derives overlap distances.
tests/kernels/test_access.py compares these with the addresses that the C reads and writes as it runs.

In arguments, `at_once` is the number of outputs that a step computes. `lowest` is an array of shape (output rows, output
columns): the index of the first input pixel in the window of each output pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, itemsize
from ..ops import SPECS, extrema, reduce, resize, transpose_conv
from ..ops.conv import kernel_size
from ..ops.data_movement import pieces
from ..ops.recurrent import lstm
from ..ops.window import positions
from . import copies, geometry
from .dsp import depthwise
from .dsp import taps as taps_dsp
from .mve import weights as mve

Numbers = NDArray[np.int64]

Pair = tuple[int, int]  # (rows, columns)

NOTHING = 1 << 40  # stands for the position read if a step reads nothing; beyond all tensors


class Steps(NamedTuple):
    """The order in which a kernel reads one input and writes the output: element i of both arrays belongs to step i."""

    reads: Numbers  # offset of the lowest input byte that each step reads
    writes: Numbers  # offset after the highest output byte that each step writes; 0 if the step writes nothing


Order = Callable[[Graph, Op], dict[int, Steps]]


# sliding windows


@lru_cache(maxsize=1 << 12)
def first_pixels(size: Pair, out: Pair, kernel: Pair, stride: Pair, *, dilation: Pair = (1, 1), pad: Pair) -> Numbers:
    """Return the index of the first input pixel in the window of each output pixel; `NOTHING` if the window holds only padding.

    All arguments have a value for rows and one for columns. An index is row * columns + column.
    """
    rows, cols = (
        np.where(
            positions(size[a], out[a], kernel=kernel[a], stride=stride[a], dilation=dilation[a], before=pad[a]),
            np.arange(out[a])[:, None] * stride[a] - pad[a] + np.arange(kernel[a]) * dilation[a],
            NOTHING,
        ).min(axis=1)
        for a in (0, 1)
    )
    return np.asarray(np.minimum(rows[:, None] * size[1] + cols, NOTHING))


def _windows(graph: Graph, op: Op) -> Numbers | None:
    """Return the first pixel of each output pixel's window, [output rows, output columns]; None if the batch is not 1."""
    x, out, attrs = graph.input(op), graph.output(op), op.attrs
    if x.shape[0] != 1:
        return None
    kernel = tuple(attrs["kernel"]) if "kernel" in attrs else kernel_size(graph, op)
    (top, _), (left, _) = attrs["padding"]
    dilation = tuple(attrs.get("dilation", (1, 1)))
    return first_pixels(_hw(x), _hw(out), kernel, tuple(attrs["stride"]), dilation=dilation, pad=(top, left))


def of_windows(steps: Callable[..., Steps]) -> Callable[..., dict[int, Steps]]:
    """Decorate a function `steps` to take only (graph, op) and keywords, and to return its `Steps` by input index.

    `steps` also takes an array: the index of the first input pixel in the window of each output pixel. The decorated function
    returns {0: the steps of input 0}, or {} if the batch is not 1.
    """

    def order(graph: Graph, op: Op, **how: int) -> dict[int, Steps]:
        lowest = _windows(graph, op)
        return {} if lowest is None else {0: steps(graph, op, lowest, **how)}

    return order


def _hw(tensor: Tensor) -> Pair:
    """Return the rows and columns of an NHWC tensor."""
    return tensor.shape[1], tensor.shape[2]


def _in_turns(count: int, at_once: int, *, rest_at_once: bool) -> list[int]:
    """Return for each step of a pixel how many of its `count` outputs are complete when the step ends.

    Each step writes `at_once` outputs. If fewer remain, the last step writes all of them (`rest_at_once`), or one step writes
    each.
    """
    whole = count // at_once * at_once
    rest = [count] if rest_at_once else range(whole + 1, count + 1)
    return [*range(at_once, whole + 1, at_once), *(rest if whole < count else ())]


def _filters(lowest: Numbers, x: Tensor, out: Tensor, ends: Sequence[int], groups: int = 1) -> Steps:
    """Return the steps of a convolution that reads a whole window before each write.

    `lowest` has the index of the first input pixel in the window of each output pixel. For each step of a pixel and group,
    `ends` says how many output channels of the group are complete when the step ends.
    """
    units, depth, ends = out.shape[-1] // groups, x.shape[-1] // groups, ends[-2:]  # of equal reads the last two writes suffice
    group = np.arange(groups)
    of_group = (group * depth * itemsize(x.dtype))[:, None]
    reads = lowest.reshape(-1, 1, 1) * x.pixel_bytes + of_group + np.zeros(len(ends), np.int64)
    begun = np.arange(lowest.size).reshape(-1, 1, 1) * out.pixel_bytes
    writes = begun + (group[:, None] * units + np.array(ends)) * itemsize(out.dtype)
    return Steps(np.minimum(reads, NOTHING).ravel(), writes.ravel())


@of_windows
def dense(graph: Graph, op: Op, lowest: Numbers, *, at_once: int, rest_at_once: bool = False) -> Steps:
    """List the reads and writes of conv_2d kernels that read one window per `at_once` output channels.

    With `rest_at_once`, the channels that remain are written in one step, else one per step.
    """
    x, out = graph.input(op), graph.output(op)
    groups = x.shape[3] // graph.input(op, 1).shape[3]
    return _filters(lowest, x, out, _in_turns(out.shape[3] // groups, at_once, rest_at_once=rest_at_once), groups)


@of_windows
def two_pixels(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """List the reads and writes of conv_2d kernels that read two successive output pixels' windows, then write both pixels.

    The two pixels may be in different rows. `lowest` is the index of the first input pixel in each output pixel's window.
    """
    return _in_batches(lowest, 2, graph.input(op), graph.output(op))


@of_windows
def two_pixels_by_filters(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """List the reads and writes of tw_conv_2d_s8_lean_scalar, which reads two successive windows per two output channels.

    `lowest` is as for `two_pixels`.
    """
    x, out = graph.input(op), graph.output(op)
    ends = np.array(_in_turns(out.shape[3], 2, rest_at_once=True))
    return _in_blocks(lowest, np.arange(0, lowest.size, 2), x, out, first=0 * ends, end=ends)


def _in_batches(lowest: Numbers, pixels: int, x: Tensor, out: Tensor) -> Steps:
    """Return the steps of a kernel that reads the windows of `pixels` successive output pixels, then writes these pixels.

    `lowest` has one entry per output pixel: the index of the first input pixel in its window.
    """
    begins = np.arange(0, lowest.size, pixels)
    return _in_blocks(lowest, begins, x, out, first=np.array([0]), end=np.array([out.pixel_bytes]))


def _in_blocks(lowest: Numbers, begins: Numbers, x: Tensor, out: Tensor, *, first: Numbers, end: Numbers) -> Steps:
    """Return the steps of a kernel that computes blocks of successive output pixels, each from one of `begins` to the next.

    A step i of a block reads the windows of its pixels, from byte first[i] of a pixel on, and writes up to byte end[i] of each
    of its pixels.
    """
    reads = np.minimum.reduceat(lowest.ravel(), begins)[:, None] * x.pixel_bytes + first
    writes = (np.append(begins[1:], lowest.size) - 1)[:, None] * out.pixel_bytes + end
    return Steps(np.minimum(reads, NOTHING).ravel(), writes.ravel())


def _blocks_of_rows(out: Tensor, pixels: int) -> Numbers:
    """Return the first pixel of each block of `pixels` neighbours of a row; the last block of a row may have fewer."""
    return (np.arange(out.shape[1])[:, None] * out.shape[2] + np.arange(0, out.shape[2], pixels)).ravel()


def _fours(channels: int) -> Numbers:
    """Return the first of each four channels; the last four may overlap the four before."""
    return np.minimum(np.arange(0, channels, 4), channels - 4)


def first_inputs(size: int, out: int, kernel: int, stride: int, pad: int) -> Numbers:
    """Return for each output of a transposed convolution along an axis the first input that reaches it; `NOTHING` if none."""
    reached = (np.arange(size) * stride - pad)[:, None] + np.arange(kernel)
    meets = (reached[None] == np.arange(out)[:, None, None]).any(axis=2)
    return np.asarray(np.where(meets, np.arange(size), NOTHING).min(axis=1))


def transposed(graph: Graph, op: Op, *, at_once: int) -> dict[int, Steps]:
    """List, by input index, the reads and writes of transpose_conv.

    Each step reads an output pixel's inputs and writes `at_once` channels. If fewer than `at_once` output channels remain, one
    step writes each.
    """
    x, weights, out = graph.input(op, transpose_conv.DATA), graph.input(op, 1), graph.output(op)
    if x.shape[0] != 1:
        return {}
    rows, cols = (
        first_inputs(x.shape[a], out.shape[a], weights.shape[a], op.attrs["stride"][a - 1], op.attrs["padding"][a - 1][0])
        for a in (1, 2)
    )
    lowest = np.minimum(rows[:, None] * x.shape[2] + cols, NOTHING)
    return {transpose_conv.DATA: _filters(lowest, x, out, _in_turns(out.shape[3], at_once, rest_at_once=False))}


def rows(graph: Graph, op: Op, *, at_once: int, rest_at_once: bool = False) -> dict[int, Steps]:
    """List, by input index, the reads and writes of fully_connected kernels that read one input row per `at_once` outputs.

    If fewer than `at_once` outputs remain, one step writes all of them (`rest_at_once`), or one step writes each.
    """
    x, (units, depth) = graph.input(op), graph.input(op, 1).shape
    count = x.elements // depth
    row, result = (Tensor("", (count, elements), x.dtype) for elements in (depth, units))
    return {0: _filters(np.arange(count), row, result, _in_turns(units, at_once, rest_at_once=rest_at_once))}


@of_windows
def channels(graph: Graph, op: Op, lowest: Numbers, *, at_once: int, overlapping: bool = False) -> Steps:
    """List the reads and writes of pools and depthwise convolutions: a step computes `at_once` channels of an output pixel.

    A step reads only the input channels that its output channels depend on. With `overlapping`, the last step of a pixel
    computes the last `at_once` channels, some again.
    """
    return _by_channels(lowest, graph.input(op), graph.output(op), at_once, overlapping=overlapping)


def _by_channels(lowest: Numbers, x: Tensor, out: Tensor, at_once: int, *, overlapping: bool = False) -> Steps:
    """Return the steps of a kernel that reads a window's channels for `at_once` output channels of a pixel, then writes these.

    `lowest` has one entry per output pixel: the index of the first input pixel in its window.
    """
    depth, units = x.shape[3], out.shape[3]
    begins = np.arange(0, units, at_once)
    if depth == units and len(begins) > 4:  # reads and writes advance alike between the first channels and the last
        begins = begins[[0, 1, -2, -1]]
    begins = np.minimum(begins, units - at_once) if overlapping else begins
    first = begins // (units // depth) * itemsize(x.dtype)
    end = np.minimum(begins + at_once, units) * itemsize(out.dtype)
    return _in_blocks(lowest, np.arange(lowest.size), x, out, first=first, end=end)


def winograd(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of the Winograd convolution.

    The kernel computes tiles of 2x2 outputs, row by row of tiles. A tile reads the right half of its 4x4 window; the first tile
    of a row also reads the left half. A step reads the windows of two successive tiles, then writes both tiles. The two tiles
    may be in different rows of tiles.
    """
    x, out = graph.input(op), graph.output(op)
    if x.shape[0] != 1:
        return {}
    (h, w), (out_h, out_w), ((top, _), (left, _)) = _hw(x), _hw(out), op.attrs["padding"]
    tiles = -(-out_h // 2), -(-out_w // 2)
    whole = first_pixels((h, w), tiles, (4, 4), (2, 2), pad=(top, left))
    right = first_pixels((h, w), tiles, (4, 2), (2, 2), pad=(top, left - 2))
    reads = np.concatenate([whole[:, :1], right[:, 1:]], axis=1)
    last_row, last_col = (np.minimum(np.arange(0, n, 2) + 1, n - 1) for n in (out_h, out_w))
    writes = (last_row[:, None] * out_w + last_col + 1) * out.pixel_bytes
    pairs = np.arange(0, reads.size, 2)
    reads, writes = np.minimum.reduceat(reads.ravel(), pairs), np.maximum.reduceat(writes.ravel(), pairs)
    return {0: Steps(np.minimum(reads * x.pixel_bytes, NOTHING), writes)}


def strips(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of the depthwise convolutions of tw_line.h.

    The kernels copy input rows to lines of 16-bit values. A step computes four channels of a block of columns and a strip of
    rows. The last four channels may overlap the four channels before. After all channels of a block, a step that reads nothing
    clamps the outputs of the block.
    """
    x = graph.input(op)
    if x.shape[0] != 1:
        return {}
    (h, w), (out_h, out_w), kernel, stride, pad = depthwise.whole(graph, op)
    c, rows_, cols = x.shape[3], depthwise.rows_at_a_time(graph, op), depthwise.columns_at_a_time(graph, op)
    tops, lefts = np.arange(0, out_h, rows_), np.arange(0, out_w, cols)
    lowest = first_pixels((h, w), (out_h, out_w), kernel, stride, pad=pad)
    lowest = np.minimum.reduceat(np.minimum.reduceat(lowest, tops, axis=0), lefts, axis=1)
    last = (np.minimum(tops + rows_, out_h)[:, None] - 1) * out_w + np.minimum(lefts + cols, out_w) - 1
    begins = _fours(c)
    reads = lowest[..., None] * c + np.append(begins, NOTHING)
    writes = last[..., None] * c + np.append(begins + 4, c)
    return {0: Steps(np.minimum(reads, NOTHING).ravel(), writes.ravel())}


@of_windows
def two_of_a_row(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """List the reads and writes of depthwise convolutions that compute two neighbouring outputs of a row, tap by tap.

    A step computes four channels of both outputs; the last four channels may overlap the four channels before. If the row has
    an odd number of outputs, its last output is computed alone. `lowest` is the index of the first input pixel in the window of
    each output pixel.
    """
    x, out, fours = graph.input(op), graph.output(op), _fours(graph.input(op).shape[3])
    return _in_blocks(lowest, _blocks_of_rows(out, 2), x, out, first=fours, end=fours + 4)


@of_windows
def column(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """List the reads and writes of the kernels for maps of one column: a step computes four channels of one or two outputs.

    The last four channels may overlap the four channels before. `lowest` is the index of the first input pixel in the window of
    each output pixel.
    """
    x, out, fours = graph.input(op), graph.output(op), _fours(graph.input(op).shape[3])
    return _in_blocks(lowest, taps_dsp.column_begins(graph, op), x, out, first=fours, end=fours + 4)


@of_windows
def runs_of_a_row(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """List the reads and writes of tw_depthwise_3x3_s8_scalar: a step computes one channel of up to 24 outputs of a row.

    `lowest` is the index of the first input pixel in the window of each output pixel.
    """
    x, out, channels = graph.input(op), graph.output(op), np.arange(graph.input(op).shape[3])
    return _in_blocks(lowest, _blocks_of_rows(out, 24), x, out, first=channels, end=channels + 1)


LANES, FILTERS, HELD = 16, 4, 64  # bytes of a vector (TW_MVE_LANES); FILTERS and HELD of tw_mve_pair.c


# kernels with the vector instructions (MVE) of Cortex-M55 and M85


@of_windows
def vectors(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """List the reads and writes of tw_conv_2d_s8_mve, which copies several windows to scratch before it writes their outputs.

    1x1 windows without padding are read in place instead, two pixels per four output channels. Only the last pixels are copied
    if a 16-byte vector load would reach beyond the input. `lowest` is the index of the first input pixel in the window of each
    output pixel.
    """
    x, out = graph.input(op), graph.output(op)
    kernel, stride, pads = kernel_size(graph, op), op.attrs["stride"], op.attrs["padding"]
    depth, units, at_once = x.shape[3], out.shape[3], mve.windows_at_once(*kernel, x.shape[3])
    fits = all((n - 1) * step < size for n, step, size in zip(_hw(out), stride, _hw(x), strict=True))
    if kernel != (1, 1) or pads[0][0] or pads[1][0] or not fits:
        return _in_batches(lowest, at_once, x, out)
    is_column = x.shape[2] == out.shape[2] == kernel[1] == 1 and out.shape[1] > 1  # which the kernel turns into a row
    runs = lowest.reshape(1, -1) if tuple(stride) == (1, 1) or is_column else lowest
    count, step = runs.shape[1], stride[0 if is_column else 1] * depth
    spare = (count - 1) * step + depth - -(-depth // LANES) * LANES
    direct = min(spare // step + 1, count) if spare >= 0 else 0
    direct -= direct % 2 if direct < count else 0
    direct = count if mve.reads_all_first(count, units, depth) else direct
    together, reads, writes = mve.reads_all_first(direct, units, depth), [], []
    for number, run in enumerate(runs * depth):
        own = (
            Steps(run[:direct].min(keepdims=True), np.array([direct * units]))
            if together
            else _pairs_of_pixels(run[:direct], units, held=mve.last_filters_first(direct, units, depth))
        )
        gathered = _in_batches(run[direct:] // depth, at_once, x, out) if direct < count else Steps(run[:0], run[:0])
        reads += [own.reads, gathered.reads]
        writes += [own.writes + number * count * units, gathered.writes + (number * count + direct) * units]
    return Steps(np.concatenate(reads), np.concatenate(writes))


def _pairs_of_pixels(begins: Numbers, units: int, *, held: bool) -> Steps:
    """Return the steps of a 1x1 convolution that reads two pixels at a time, for four output channels per step.

    `begins` has the offset of each pixel's first input byte. With `held`, the last one to three channels of many pixels,
    where no four are left, are computed before the other channels of these pixels, and written after them.
    """
    rest, steps, at = units % FILTERS, list[tuple[int, int]](), 0
    ends = list(range(FILTERS, units + 1, FILTERS)) + ([units] if rest and not held else [])
    while at < len(begins):
        pixels = min(len(begins) - at, HELD // rest if held else len(begins))
        if held:
            steps.append((int(begins[at : at + pixels].min()), 0))
        for first in range(at, at + pixels, 2):
            last = min(first + 1, at + pixels - 1)
            steps += [(int(begins[first]), last * units + end) for end in ends]
        at += pixels
        if held:
            steps.append((NOTHING, at * units))
    return Steps(*np.array(steps, np.int64).reshape(-1, 2).T)


@of_windows
def taps(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """List the reads and writes of tw_depthwise_conv_2d_s8_mve, which computes sixteen channels of a pixel per step.

    If sixteen channels are several whole pixels, the kernel computes these pixels together. They are listed one by one here,
    which permits the same overlap of input and output: each pixel reads and writes one pixel further than the pixel before.
    `lowest` is the index of the first input pixel in the window of each output pixel.
    """
    return _by_channels(lowest, graph.input(op), graph.output(op), LANES)


# element by element


def elements(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of elementwise ops.

    Each step reads the operands of one output element, then writes it. Constant operands
    are left out, and operands whose reads a C compiler may move behind writes (`_is_ordered`).
    """
    out = graph.output(op)
    operands = {i: x for i, x in enumerate(graph.inputs_of(op)) if x is not None and x.data is None and _is_ordered(x, out)}
    whole = np.arange(out.elements)
    ends = whole if out.elements < 4 else whole[[0, 1, -2, -1]]  # an operand of as many elements advances evenly
    steps = {
        index: (ends, ends) if x.elements == out.elements else (np.broadcast_to(_numbered(x), out.shape).ravel(), whole)
        for index, x in operands.items()
    }
    sizes = {index: itemsize(x.dtype) for index, x in operands.items()}
    return {index: Steps(read * sizes[index], (write + 1) * itemsize(out.dtype)) for index, (read, write) in steps.items()}


def _is_ordered(x: Tensor, out: Tensor) -> bool:
    """Return whether a C compiler must keep reads of `x` before later writes of `out`.

    C's aliasing rules demand this if both have the same type, or if the elements of one of them are bytes.
    """
    return x.dtype == out.dtype or 1 in (itemsize(x.dtype), itemsize(out.dtype))


def _numbered(tensor: Tensor) -> Numbers:
    """Return the index of each element of a tensor, in the tensor's shape."""
    return np.arange(tensor.elements).reshape(tensor.shape)


def exponentials(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of softmax and log_softmax.

    The kernels read a whole pixel, then each element before its output.
    """
    x, out = graph.input(op), graph.output(op)
    pixels = np.arange(prod(x.shape[:-1]))[:, None]
    channel, size = np.arange(x.shape[-1]), itemsize(out.dtype)
    reads = pixels * len(channel) + np.append(0, channel)
    writes = (pixels * len(channel) + np.append(0, channel + 1)) * size
    writes[:, 0] = 0
    return {0: Steps(reads.ravel() * itemsize(x.dtype), writes.ravel())}


def places(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of resize_bilinear.

    A step reads four input pixels and writes a channel of an output pixel.
    """
    x, out = graph.input(op), graph.output(op)
    if x.shape[0] != 1:
        return {}
    lowest = []
    if resize.is_unsigned(op):
        for size, count, at in zip(_hw(x), _hw(out), resize.float_lines(graph, op), strict=True):
            place = (np.arange(count, dtype=np.float32) + at.first) * at.scale - at.first
            lowest.append(np.minimum(np.maximum(np.floor(place), 0), size - 1).astype(np.int64))
    else:
        for size, count, line in zip(_hw(x), _hw(out), resize.lines(graph, op), strict=True):
            where = np.arange(count) * line.scale + line.offset
            lowest.append(np.minimum(np.maximum(where, 0) // resize.ONE, size - 1))
    return {0: _by_channels(lowest[0][:, None] * x.shape[2] + lowest[1], x, out, 1)}


def reductions(graph: Graph, op: Op, *, at_once: int) -> dict[int, Steps]:
    """List, by input index, the reads and writes of reductions.

    A step reads all inputs of `at_once` neighbouring outputs, then writes these.
    """
    x, out = graph.input(op), graph.output(op)
    over = (extrema.arg_axis(graph, op),) if op.kind in ("arg_max", "arg_min") else reduce.axes(graph, op)
    lowest, run = _numbered(x).min(axis=over).ravel(), 1
    if at_once > 1 and (extents := geometry.reduction(x.shape, over)) is not None:
        run = extents.kept[1] if extents.reduced[1] == 1 == extents.kept[2] else extents.kept[2]
    begins = (np.arange(0, lowest.size, run)[:, None] + np.arange(0, run, at_once)).ravel()
    ends = np.append(begins[1:], lowest.size)
    return {0: Steps(np.minimum.reduceat(lowest, begins) * itemsize(x.dtype), ends * itemsize(out.dtype))}


def matrices(graph: Graph, op: Op, *, rest_at_once: bool = False) -> dict[int, Steps]:
    """List, by input index, the reads and writes of batch_matmul.

    Each step reads a row and four columns, then writes their outputs. If fewer than four columns remain, one step reads all of
    them (`rest_at_once`), or one step reads each.
    """
    a, b, shape = _numbered(graph.input(op, 0)), _numbered(graph.input(op, 1)), graph.output(op).shape
    row = (a.swapaxes(-1, -2) if op.attrs["adj_x"] else a)[..., :, :1]
    col = (b.swapaxes(-1, -2) if op.attrs["adj_y"] else b)[..., :1, :]
    ends = _in_turns(shape[-1], 4, rest_at_once=rest_at_once)
    steps, begins = (*shape[:-1], len(ends)), [0, *ends[:-1]]
    writes = np.arange(prod(shape[:-1]))[:, None] * shape[-1] + ends
    firsts = row, col[..., begins]
    return {index: Steps(np.broadcast_to(first, steps).ravel(), writes.ravel()) for index, first in enumerate(firsts)}


def cells(graph: Graph, op: Op, *, at_once: int) -> dict[int, Steps]:
    """List, by input index, the reads and writes of the LSTM.

    Each step reads all inputs of a time step and writes the outputs of at most `at_once` cells. Return {} if the batch is not
    1.
    """
    x, (count, depth) = graph.input(op), graph.input(op, lstm.WEIGHTS).shape
    time, batch = (x.shape[axis] for axis in lstm.time_and_batch(graph, op))
    ends = _in_turns(count, at_once, rest_at_once=True)
    reads = (np.arange(time) * depth).repeat(len(ends))
    return {} if batch != 1 else {0: Steps(reads, (np.arange(time)[:, None] * count + ends).ravel())}


def steps_in_time(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of a gru or simple_rnn.

    A step reads the inputs of a time step and writes four cells' outputs. If fewer than four cells remain, a step writes the
    output of one. Return {} if the layer runs from the last time step to the first, or if its output is only the last state:
    then each time step overwrites the output of the step before.
    """
    if op.attrs["reverse"] or op.attrs["last"]:
        return {}
    (_, time, depth), cells = graph.input(op).shape, graph.output(op).shape[-1]
    ends = _in_turns(cells, 4, rest_at_once=False)
    reads = (np.arange(time) * depth).repeat(len(ends))
    return {0: Steps(reads, (np.arange(time)[:, None] * cells + ends).ravel())}


# copies: each step copies a run (contiguous bytes), which is read before it is written, as by memmove


def _runs(begins: Iterable[Numbers], lengths: Iterable[int]) -> Steps:
    """Return the steps of copies that write runs (contiguous bytes) one after the other, piece by piece of the output.

    For each piece, `begins` has the input offset of each run, in bytes, or `NOTHING` for padding; `lengths` the bytes of a
    run.
    """
    reads = [each.ravel() for each in begins]
    sizes = [np.full(each.size, length, np.int64) for each, length in zip(reads, lengths, strict=True)]
    return Steps(np.concatenate(reads), np.concatenate(sizes).cumsum())


def strided(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of tw_strided_copy.

    The kernel copies runs of bytes that are one stride apart along each axis.
    """
    pieces = copies.moved(graph, op)
    assert pieces is not None
    reads, writes, done = [], [], 0
    for piece in pieces:
        i, j, k, m = np.indices(piece.size)
        a, b, c, d = piece.stride
        reads.append((piece.start + i * a + j * b + k * c + m * d).ravel())
        begins = (i * piece.size[1] + j) * prod(piece.size[2:]) * piece.run + k * piece.out_stride[0] + m * piece.out_stride[1]
        writes.append(done + begins.ravel() + piece.run)
        done += prod(piece.size) * piece.run
    return {SPECS[op.kind].data: Steps(np.concatenate(reads), np.concatenate(writes))}


def listed(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of tw_table_copy.

    The kernel copies runs of bytes from offsets that are stored in tables.
    """
    pieces = copies.listed(graph, op)
    begins = []
    for piece in pieces:
        at = np.arange(piece.repeats)[:, None, None] * piece.step + piece.rows[:, None] + piece.cols
        begins.append(np.where((piece.rows[:, None] < 0) | (piece.cols < 0), NOTHING, at))
    return {SPECS[op.kind].data: _runs(begins, [piece.run for piece in pieces])}


def pixels(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of resize_nearest_neighbor: each step copies one whole pixel."""
    (images, rows, cols, channels), size = pieces(graph, op)[0], graph.output(op).pixel_bytes
    if len(images) != 1:
        return {}
    reads = (rows[:, None] + cols).ravel() // len(channels) * size
    return {0: Steps(reads, np.arange(1, len(reads) + 1) * size)}


def framed(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of tw_pad.

    Each step writes padding, then copies a run (contiguous bytes of input and output).
    """
    block, size = copies.padded(graph, op), itemsize(graph.output(op).dtype)
    assert block is not None
    begins, length = _run_begins(block)
    reads = np.stack([np.full(begins.size, NOTHING), np.arange(begins.size) * length * size], axis=1)
    return {0: Steps(reads.ravel(), np.stack([begins, begins + length], axis=1).ravel() * size)}


def joined(graph: Graph, op: Op) -> dict[int, Steps]:
    """List, by input index, the reads and writes of tw_concatenation.

    The kernel copies one input after the other, run by run. Before an input is read, the steps of all inputs
    copied earlier write without reading it.
    """
    size, writes, steps = itemsize(graph.output(op).dtype), np.zeros(0, np.int64), dict[int, Steps]()
    for index, block in copies.joined(graph, op):
        begins, length = _run_begins(block)
        reads = np.append(np.full(writes.size, NOTHING), np.arange(begins.size) * length * size)
        writes = np.append(writes, (begins + length) * size)
        steps[index] = Steps(reads, writes)
    return steps


def _run_begins(block: copies.Box) -> tuple[Numbers, int]:
    """Return where each run of contiguous elements begins in the larger tensor, and the elements of a run."""
    (n, h, w, c), (_, outer_h, outer_w, outer_c), before = copies.in_runs(block)
    i, y, x = np.ix_(np.arange(n), np.arange(h), np.arange(w))
    begins = (((i + before[0]) * outer_h + y + before[1]) * outer_w + x + before[2]) * outer_c + before[3]
    return np.asarray(begins.ravel()), c


def any_way(graph: Graph, op: Op) -> dict[int, Steps]:
    """Return the order of tw_move, which copies correctly however its input and output overlap.

    It is a single step at offset 0 for input 0, from which the overlap distance 0 is derived.
    """
    return {0: Steps(np.zeros(1, np.int64), np.zeros(1, np.int64))}
