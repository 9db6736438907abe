"""In which order kernels read and write: per kernel, or kind of kernels, the steps that its C takes, each of which first reads.

Nothing here is taken from the table's distances (`overlap_distance.py`): `access.py` says which kernel takes which steps, and
how far apart they keep input and output. tests/kernels/test_access.py holds the steps against what the C does as it runs.

In: a graph and one of its ops. Out: per input, by its index, the `Steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, itemsize
from ..ops import SPECS, extrema, lstm, reduce, resize, transpose_conv
from ..ops.conv import kernel_size
from ..ops.data_movement import pieces
from ..ops.window import positions
from . import copies, geometry
from .dsp import depthwise
from .mve import weights as mve

Numbers = NDArray[np.int64]

Pair = tuple[int, int]  # of rows and columns

NOTHING = 1 << 40  # what a step reads that reads nothing


class Steps(NamedTuple):
    """Per step: the lowest byte of an input that it reads, then the byte behind the highest one of the output that it writes; 0
    when it writes nothing."""

    reads: Numbers
    writes: Numbers


Order = Callable[[Graph, Op], dict[int, Steps]]


# windows: which pixels an output pixel sees


@lru_cache(maxsize=1 << 12)
def _lowest(size: Pair, out: Pair, kernel: Pair, stride: Pair, *, dilation: Pair = (1, 1), pad: Pair) -> Numbers:
    """[output row][output column]: the number of the lowest input pixel that its window holds, NOTHING if none."""
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
    """The same for a convolution or pool; None on several images."""
    x, out, attrs = graph.input(op), graph.output(op), op.attrs
    if x.shape[0] != 1:
        return None
    kernel = tuple(attrs["kernel"]) if "kernel" in attrs else kernel_size(graph, op)
    (top, _), (left, _) = attrs["padding"]
    dilation = tuple(attrs.get("dilation", (1, 1)))
    return _lowest(_hw(x), _hw(out), kernel, tuple(attrs["stride"]), dilation=dilation, pad=(top, left))


def of_windows(steps: Callable[..., Steps]) -> Callable[..., dict[int, Steps]]:
    """Make the order of an op on one image of the steps by `_windows`, which come after the graph and the op."""

    def order(graph: Graph, op: Op, **how: int) -> dict[int, Steps]:
        lowest = _windows(graph, op)
        return {} if lowest is None else {0: steps(graph, op, lowest, **how)}

    return order


def _hw(tensor: Tensor) -> Pair:
    return tensor.shape[1], tensor.shape[2]


def _bytes(count: Numbers, tensor: Tensor) -> Numbers:
    """Bytes of so many elements that lie together."""
    return -(-count // 2) if tensor.dtype == "int4" else count * itemsize(tensor.dtype)


def _first_byte(element: Numbers, tensor: Tensor) -> Numbers:
    """The byte where an element of a pixel begins."""
    return element // 2 if tensor.dtype == "int4" else element * itemsize(tensor.dtype)


def _in_turns(count: int, at_once: int, *, rest_at_once: bool) -> list[int]:
    """Behind which output each write ends, of `count`: so many at once, and of the rest one by one or all."""
    whole = count // at_once * at_once
    rest = [count] if rest_at_once else range(whole + 1, count + 1)
    return [*range(at_once, whole + 1, at_once), *(rest if whole < count else ())]


def _filters(lowest: Numbers, x: Tensor, out: Tensor, ends: Sequence[int], groups: int = 1) -> Steps:
    """Pixel by pixel, group by group, the channels of a window once for each of the outputs that end at `ends`."""
    units, depth = out.shape[-1] // groups, x.shape[-1] // groups
    group = np.arange(groups)
    reads = lowest.reshape(-1, 1, 1) * x.pixel_bytes + _first_byte(group * depth, x)[:, None] + np.zeros(len(ends), np.int64)
    begun = np.arange(lowest.size).reshape(-1, 1, 1) * out.pixel_bytes
    writes = begun + _bytes(group[:, None] * units + np.array(ends), out)
    return Steps(np.minimum(reads, NOTHING).ravel(), writes.ravel())


@of_windows
def dense(graph: Graph, op: Op, lowest: Numbers, *, at_once: int, rest_at_once: bool = False) -> Steps:
    """conv_2d: a window is read for each `at_once` outputs of a group, then for each of the rest or for all of it."""
    x, out = graph.input(op), graph.output(op)
    groups = x.shape[3] // graph.input(op, 1).shape[3]
    return _filters(lowest, x, out, _in_turns(out.shape[3] // groups, at_once, rest_at_once=rest_at_once), groups)


@of_windows
def two_pixels(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """conv_2d: two windows are read, in rows and across their ends, then all of their outputs are written."""
    return _in_batches(lowest.ravel(), 2, graph.input(op), graph.output(op))


def _in_batches(lowest: Numbers, pixels: int, x: Tensor, out: Tensor) -> Steps:
    begins = np.arange(0, len(lowest), pixels)
    reads = np.minimum.reduceat(lowest, begins)
    return Steps(np.minimum(reads * x.pixel_bytes, NOTHING), np.append(begins[1:], len(lowest)) * out.pixel_bytes)


def transposed(graph: Graph, op: Op, *, at_once: int) -> dict[int, Steps]:
    """transpose_conv: the inputs whose windows meet an output pixel are read for each `at_once` outputs, then for each."""

    def along(size: int, out: int, kernel: int, stride: int, pad: int) -> Numbers:
        """Per output the lowest input of which some tap falls on it."""
        reached = (np.arange(size) * stride - pad)[:, None] + np.arange(kernel)
        meets = (reached[None] == np.arange(out)[:, None, None]).any(axis=2)
        return np.asarray(np.where(meets, np.arange(size), NOTHING).min(axis=1))

    x, weights, out = graph.input(op, transpose_conv.DATA), graph.input(op, 1), graph.output(op)
    if x.shape[0] != 1:
        return {}
    rows, cols = (
        along(x.shape[a], out.shape[a], weights.shape[a], op.attrs["stride"][a - 1], op.attrs["padding"][a - 1][0])
        for a in (1, 2)
    )
    lowest = np.minimum(rows[:, None] * x.shape[2] + cols, NOTHING)
    return {transpose_conv.DATA: _filters(lowest, x, out, _in_turns(out.shape[3], at_once, rest_at_once=False))}


def rows(graph: Graph, op: Op, *, at_once: int, rest_at_once: bool = False) -> dict[int, Steps]:
    """fully_connected: a row is read for each `at_once` outputs, then for each of the rest or for all of it."""
    x, (units, depth) = graph.input(op), graph.input(op, 1).shape
    count = x.elements // depth
    row, result = (Tensor("", (count, elements), x.dtype) for elements in (depth, units))
    return {0: _filters(np.arange(count), row, result, _in_turns(units, at_once, rest_at_once=rest_at_once))}


@of_windows
def channels(graph: Graph, op: Op, lowest: Numbers, *, at_once: int) -> Steps:
    """Pools and depthwise convolutions: of a pixel's window the channels that `at_once` outputs need, for all of these."""
    return _by_channels(lowest.ravel(), graph.input(op), graph.output(op), at_once)


def _by_channels(lowest: Numbers, x: Tensor, out: Tensor, at_once: int) -> Steps:
    depth, units = x.shape[3], out.shape[3]
    begins = np.arange(0, units, at_once)
    reads = lowest[:, None] * x.pixel_bytes + _first_byte(begins // (units // depth), x)
    writes = np.arange(len(lowest))[:, None] * out.pixel_bytes + _bytes(np.minimum(begins + at_once, units), out)
    return Steps(np.minimum(reads, NOTHING).ravel(), writes.ravel())


def winograd(graph: Graph, op: Op) -> dict[int, Steps]:
    """Tiles of 2 x 2 outputs, row by row: of a window of 4 x 4 the right half is read, of the first of a row the left one too;
    two tiles, which may lie in two rows of them, are written together."""
    x, out = graph.input(op), graph.output(op)
    if x.shape[0] != 1:
        return {}
    (h, w), (out_h, out_w), ((top, _), (left, _)) = _hw(x), _hw(out), op.attrs["padding"]
    tiles = -(-out_h // 2), -(-out_w // 2)
    whole = _lowest((h, w), tiles, (4, 4), (2, 2), pad=(top, left))
    right = _lowest((h, w), tiles, (4, 2), (2, 2), pad=(top, left - 2))
    reads = np.concatenate([whole[:, :1], right[:, 1:]], axis=1)
    last_row, last_col = (np.minimum(np.arange(0, n, 2) + 1, n - 1) for n in (out_h, out_w))
    writes = (last_row[:, None] * out_w + last_col + 1) * out.pixel_bytes
    pairs = np.arange(0, reads.size, 2)
    reads, writes = np.minimum.reduceat(reads.ravel(), pairs), np.maximum.reduceat(writes.ravel(), pairs)
    return {0: Steps(np.minimum(reads * x.pixel_bytes, NOTHING), writes)}


def strips(graph: Graph, op: Op) -> dict[int, Steps]:
    """Depthwise convolutions with lines: of a strip of rows and a block of columns four channels at a time, of which the last
    may have come before; then the whole block is clamped."""
    x = graph.input(op)
    if x.shape[0] != 1:
        return {}
    (h, w), (out_h, out_w), kernel, stride, pad = depthwise.plane(graph, op)
    c, rows_, cols = x.shape[3], depthwise.rows_at_a_time(graph, op), depthwise.columns_at_a_time(graph, op)
    tops, lefts = np.arange(0, out_h, rows_), np.arange(0, out_w, cols)
    lowest = _lowest((h, w), (out_h, out_w), kernel, stride, pad=pad)
    lowest = np.minimum.reduceat(np.minimum.reduceat(lowest, tops, axis=0), lefts, axis=1)
    last = (np.minimum(tops + rows_, out_h)[:, None] - 1) * out_w + np.minimum(lefts + cols, out_w) - 1
    begins = np.minimum(np.arange(0, c, 4), c - 4)
    reads = lowest[..., None] * c + np.append(begins, NOTHING)
    writes = last[..., None] * c + np.append(begins + 4, c)
    return {0: Steps(np.minimum(reads, NOTHING).ravel(), writes.ravel())}


@of_windows
def two_of_a_row(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """Depthwise convolutions tap by tap: of two outputs of a row, or its last, four channels at a time, of which the last may
    have come before."""
    x, out = graph.input(op), graph.output(op)
    c, (out_h, out_w) = x.shape[3], _hw(out)
    lefts, begins = np.arange(0, out_w, 2), np.minimum(np.arange(0, c, 4), c - 4)
    reads = np.minimum.reduceat(lowest, lefts, axis=1)[..., None] * c + begins
    last = np.arange(out_h)[:, None] * out_w + np.minimum(lefts + 1, out_w - 1)
    return Steps(np.minimum(reads, NOTHING).ravel(), (last[..., None] * c + begins + 4).ravel())


@of_windows
def pixels_of_a_row(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """conv_2d: the windows of two neighbours that lie between the left and the right edge of the map, or of one pixel, are read
    for each four of their outputs, then for the last four."""
    x, out = graph.input(op), graph.output(op)
    (out_h, out_w), units = _hw(out), out.shape[3]
    left = np.arange(out_w) * op.attrs["stride"][1] - op.attrs["padding"][1][0]
    between = (left >= 0) & (left + kernel_size(graph, op)[1] <= x.shape[2])
    begins = [0]
    while (at := begins[-1]) < out_w:
        begins.append(at + (2 if between[at : at + 2].sum() == 2 else 1))
    reads = np.minimum.reduceat(lowest, begins[:-1], axis=1)[..., None] * x.pixel_bytes + np.zeros(-(-units // 4), np.int64)
    last = np.arange(out_h)[:, None] * out_w + np.array(begins[1:]) - 1
    ends = np.array(_in_turns(units, 4, rest_at_once=True))
    return Steps(np.minimum(reads, NOTHING).ravel(), (last[..., None] * units + ends).ravel())


@of_windows
def runs_of_a_row(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """Depthwise convolutions: of 24 outputs of a row, or its last ones, one channel after the other."""
    x, out = graph.input(op), graph.output(op)
    c, (out_h, out_w) = x.shape[3], _hw(out)
    lefts = np.arange(0, out_w, 24)
    reads = np.minimum.reduceat(lowest, lefts, axis=1)[..., None] * c + np.arange(c)
    last = np.arange(out_h)[:, None] * out_w + np.append(lefts[1:], out_w) - 1
    return Steps(np.minimum(reads, NOTHING).ravel(), (last[..., None] * c + np.arange(1, c + 1)).ravel())


LANES, FILTERS, PAIRS = 16, 4, 8  # TW_MVE_LANES, FILTERS and PAIRS of tw_mve_pair.c


# with the vector instructions of Cortex-M55 and M85


@of_windows
def vectors(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """conv_2d: windows are gathered, some at a time; those that are pixels are read where they lie, two at a time for each four
    outputs, but for the last ones, whose vectors would reach beyond the map."""
    x, out = graph.input(op), graph.output(op)
    kernel, stride, pads = kernel_size(graph, op), op.attrs["stride"], op.attrs["padding"]
    depth, units, at_once = x.shape[3], out.shape[3], mve.windows_at_once(*kernel, x.shape[3])
    fits = all((n - 1) * step < size for n, step, size in zip(_hw(out), stride, _hw(x), strict=True))
    if kernel != (1, 1) or pads[0][0] or pads[1][0] or not fits:
        return _in_batches(lowest.ravel(), at_once, x, out)
    runs = lowest.reshape(1, -1) if tuple(stride) == (1, 1) else lowest
    count, step = runs.shape[1], stride[1] * depth
    spare = (count - 1) * step + depth - -(-depth // LANES) * LANES
    direct = min(spare // step + 1, count) if spare >= 0 else 0
    direct -= direct % 2 if direct < count else 0
    reads, writes = [], []
    for number, run in enumerate(runs * depth):
        own = _pairs_of_pixels(run[:direct], units)
        gathered = _in_batches(run[direct:] // depth, at_once, x, out) if direct < count else Steps(run[:0], run[:0])
        reads += [own.reads, gathered.reads]
        writes += [own.writes + number * count * units, gathered.writes + (number * count + direct) * units]
    return Steps(np.concatenate(reads), np.concatenate(writes))


def _pairs_of_pixels(begins: Numbers, units: int) -> Steps:
    """The outputs of pixels at `begins`, two at a time; of some pixels the last outputs that make no four are computed before
    the others and written after them."""
    rest, fours, steps, at = units % FILTERS, units - units % FILTERS, list[tuple[int, int]](), 0
    while (left := len(begins) - at) > 0:
        pixels = 1 if left == 1 else 2 * min(left // 2, PAIRS if rest else left)
        if rest:
            steps.append((int(begins[at : at + pixels].min()), 0))
        for first in range(at, at + pixels, 2):
            last = min(first + 1, at + pixels - 1)
            steps += [(int(begins[first]), last * units + end) for end in range(FILTERS, fours + 1, FILTERS)]
        at += pixels
        if rest:
            steps.append((NOTHING, at * units))
    return Steps(*np.array(steps, np.int64).reshape(-1, 2).T)


@of_windows
def taps(graph: Graph, op: Op, lowest: Numbers) -> Steps:
    """Depthwise convolutions: sixteen channels of a pixel at a time.

    Where sixteen are some whole pixels, the kernel computes these together if their windows lie inside the map's columns. That
    needs no other distance than one by one: each such pixel reads one pixel further than its neighbour and writes one further.
    """
    return _by_channels(lowest.ravel(), graph.input(op), graph.output(op), LANES)


# element by element


def elements(graph: Graph, op: Op) -> dict[int, Steps]:
    """An output element, of int4 pixels two, is computed from those of the operands that belong to it, and written."""
    out = graph.output(op)
    operands = {i: x for i, x in enumerate(graph.inputs_of(op)) if x is not None and x.data is None and _is_ordered(x, out)}
    if out.dtype == "int4" or any(x.dtype == "int4" for x in operands.values()):
        return {index: _pairs(x, out) for index, x in operands.items()}
    writes = np.arange(1, out.elements + 1) * itemsize(out.dtype)
    shapes = {index: x.shape if x.elements == out.elements else out.shape for index, x in operands.items()}
    reads = {index: np.broadcast_to(_numbered(x), shapes[index]).ravel() for index, x in operands.items()}
    return {index: Steps(reads[index] * itemsize(x.dtype), writes) for index, x in operands.items()}


def _is_ordered(x: Tensor, out: Tensor) -> bool:
    """Whether C compilers keep reads of x before writes of out that follow them: those of one type, or of bytes."""
    return x.dtype == out.dtype or "int4" in (x.dtype, out.dtype) or 1 in (itemsize(x.dtype), itemsize(out.dtype))


def _numbered(tensor: Tensor) -> Numbers:
    return np.arange(tensor.elements).reshape(tensor.shape)


def _pairs(x: Tensor, out: Tensor) -> Steps:
    begins = np.arange(0, out.shape[-1], 2)
    pixels = np.arange(prod(x.shape[:-1])).reshape(*x.shape[:-1], 1) * x.pixel_bytes
    reads = pixels + _first_byte(np.minimum(begins, x.shape[-1] - 1), x)
    writes = np.arange(prod(out.shape[:-1]))[:, None] * out.pixel_bytes + _bytes(np.minimum(begins + 2, out.shape[-1]), out)
    return Steps(np.broadcast_to(reads, (*out.shape[:-1], len(begins))).ravel(), writes.ravel())


def exponentials(graph: Graph, op: Op) -> dict[int, Steps]:
    """Softmax and the like: all of a pixel is read, then each of its elements once more before its output is written."""
    x, out = graph.input(op), graph.output(op)
    pixels = np.arange(prod(x.shape[:-1]))[:, None]
    channel, size = np.arange(x.shape[-1]), itemsize(out.dtype)
    reads = pixels * len(channel) + np.append(0, channel)
    writes = (pixels * len(channel) + np.append(0, channel + 1)) * size
    writes[:, 0] = 0
    return {0: Steps(reads.ravel() * itemsize(x.dtype), writes.ravel())}


def places(graph: Graph, op: Op) -> dict[int, Steps]:
    """resize_bilinear: channel by channel of the four pixels around a place."""
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
    return {0: _by_channels((lowest[0][:, None] * x.shape[2] + lowest[1]).ravel(), x, out, 1)}


def reductions(graph: Graph, op: Op, *, at_once: int) -> dict[int, Steps]:
    """Means and extrema: `at_once` neighbours of a run of outputs, or what is left of it, from all that belongs to them."""
    x, out = graph.input(op), graph.output(op)
    over = (extrema.arg_axis(graph, op),) if op.kind == "arg_max" else reduce.axes(graph, op)
    lowest, run = _numbered(x).min(axis=over).ravel(), 1
    if at_once > 1 and (extents := geometry.reduction(x.shape, over)) is not None:
        run = extents.kept[1] if extents.reduced[1] == 1 == extents.kept[2] else extents.kept[2]
    begins = (np.arange(0, lowest.size, run)[:, None] + np.arange(0, run, at_once)).ravel()
    ends = np.append(begins[1:], lowest.size)
    return {0: Steps(np.minimum.reduceat(lowest, begins) * itemsize(x.dtype), ends * itemsize(out.dtype))}


def matrices(graph: Graph, op: Op) -> dict[int, Steps]:
    """batch_matmul: each element from a row of one operand and a column of the other."""
    a, b, shape = _numbered(graph.input(op, 0)), _numbered(graph.input(op, 1)), graph.output(op).shape
    row = (a.swapaxes(-1, -2) if op.attrs["adj_x"] else a)[..., :, :1]
    col = (b.swapaxes(-1, -2) if op.attrs["adj_y"] else b)[..., :1, :]
    writes = np.arange(1, prod(shape) + 1)
    return {index: Steps(np.broadcast_to(first, shape).ravel(), writes) for index, first in enumerate((row, col))}


def cells(graph: Graph, op: Op) -> dict[int, Steps]:
    """LSTM: each cell reads the inputs of its time step, and its output is written."""
    x, (count, depth) = graph.input(op), graph.input(op, lstm.WEIGHTS).shape
    time, batch = (x.shape[axis] for axis in lstm.time_and_batch(graph, op))
    reads = (np.arange(time) * depth).repeat(count)
    return {} if batch != 1 else {0: Steps(reads, np.arange(1, time * count + 1))}


# runs of bytes that lie together are read whole before they are written, as memmove does


def _runs(begins: Iterable[Numbers], lengths: Iterable[int]) -> Steps:
    """Runs of some pieces, one after the other in the output."""
    reads = [each.ravel() for each in begins]
    sizes = [np.full(each.size, length, np.int64) for each, length in zip(reads, lengths, strict=True)]
    return Steps(np.concatenate(reads), np.concatenate(sizes).cumsum())


def strided(graph: Graph, op: Op) -> dict[int, Steps]:
    pieces = copies.moved(graph, op)
    assert pieces is not None
    begins = []
    for piece in pieces:
        steps = (np.arange(size) * stride for size, stride in zip(piece.size, piece.stride, strict=True))
        begins.append(np.asarray(piece.start + sum(np.ix_(*steps))))
    return {SPECS[op.kind].data: _runs(begins, [piece.run for piece in pieces])}


def listed(graph: Graph, op: Op) -> dict[int, Steps]:
    pieces = copies.listed(graph, op)
    begins = []
    for piece in pieces:
        at = np.arange(piece.count)[:, None, None] * piece.step + piece.rows[:, None] + piece.cols
        begins.append(np.where((piece.rows[:, None] < 0) | (piece.cols < 0), NOTHING, at))
    return {SPECS[op.kind].data: _runs(begins, [piece.run for piece in pieces])}


def pixels(graph: Graph, op: Op) -> dict[int, Steps]:
    """resize_nearest_neighbor: each pixel is read whole before it is written."""
    (images, rows, cols, channels), size = pieces(graph, op)[0], graph.output(op).pixel_bytes
    if len(images) != 1:
        return {}
    reads = (rows[:, None] + cols).ravel() // len(channels) * size
    return {0: Steps(reads, np.arange(1, len(reads) + 1) * size)}


def framed(graph: Graph, op: Op) -> dict[int, Steps]:
    """pad: of each row, or where channels are padded of each pixel, the padding before it is written, then it is copied."""
    block, size = copies.padded(graph, op), itemsize(graph.output(op).dtype)
    assert block is not None
    begins, length = _rows_of(block)
    reads = np.stack([np.full(begins.size, NOTHING), np.arange(begins.size) * length * size], axis=1)
    return {0: Steps(reads.ravel(), np.stack([begins, begins + length], axis=1).ravel() * size)}


def joined(graph: Graph, op: Op) -> dict[int, Steps]:
    """concatenation and pack: one input after the other, each row by row, or pixel by pixel where channels are joined."""
    size, writes, steps = itemsize(graph.output(op).dtype), np.zeros(0, np.int64), dict[int, Steps]()
    for index, block in copies.joined(graph, op):
        begins, length = _rows_of(block)
        reads = np.append(np.full(writes.size, NOTHING), np.arange(begins.size) * length * size)
        writes = np.append(writes, (begins + length) * size)
        steps[index] = Steps(reads, writes)
    return steps


def _rows_of(block: copies.Box) -> tuple[Numbers, int]:
    """Return where in the larger tensor the elements begin that are copied at once, and how many these are."""
    (n, h, w, c), (_, outer_h, outer_w, outer_c), before = block
    together = w if c == outer_c else 1
    i, y, x = np.ix_(np.arange(n), np.arange(h), np.arange(0, w, max(together, 1)))
    begins = (((i + before[0]) * outer_h + y + before[1]) * outer_w + x + before[2]) * outer_c + before[3]
    return np.asarray(begins.ravel()), together * c


def any_way(graph: Graph, op: Op) -> dict[int, Steps]:
    """tw_move: all bytes arrive wherever the two lie, also above each other."""
    return {0: Steps(np.zeros(1, np.int64), np.zeros(1, np.int64))}
