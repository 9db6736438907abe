"""Parameters of the ops that only copy elements: strides, tables of offsets, or boxes inside a larger tensor.

An op's output consists of pieces, which follow each other in memory (split has one piece per output, most ops one in all). A
piece is copied in runs, which are contiguous bytes of the input: the runs are one stride apart along each axis (`Strides`), or
at listed offsets (`Tables`). pad and concatenation copy whole inputs into the output (`Box`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, itemsize
from ..ops import data
from ..ops.data_movement import Positions, pieces
from ..ops.layout import paddings
from .geometry import Extents, Shape, extents


class Strides(NamedTuple):
    """A piece of an output, copied in runs (contiguous bytes) one stride apart along each axis, as in tw_strided_copy.c.

    Run (a, b, c, d) begins at byte start + a * stride[0] + ... + d * stride[3] of the input. Runs of equal (a, b) form a block
    of the output, in which run (c, d) begins at byte c * out_stride[0] + d * out_stride[1]. Blocks follow each other.
    """

    size: Extents  # runs along each axis
    start: int
    stride: Extents
    out_stride: tuple[int, int]
    run: int


class Tables(NamedTuple):
    """A piece of an output, copied in runs (contiguous bytes) from offsets in tables, as in tw_table_copy.c.

    For each repeat, row and column, a run begins at byte repeat * step + row + col of the input. A negative row or column means
    that the run is padding.
    """

    repeats: int  # how often the tables are applied
    step: int
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    run: int


class Box(NamedTuple):
    """A tensor as part of a larger one: the extents of both (n, h, w, c), and the elements before it along each axis."""

    inner: Extents
    outer: Extents
    before: Extents


def moved(graph: Graph, op: Op) -> list[Strides] | None:
    """Return the strides of each piece of a copying op's output; None if a piece has more than four axes or uneven steps."""
    size = itemsize(data(graph, op).dtype)
    found = [_progressions(piece, size) for piece in pieces(graph, op)]
    known = [strides for strides in found if strides is not None]
    return known if len(known) == len(found) else None


def listed(graph: Graph, op: Op) -> list[Tables]:
    """Return for each piece (part) of a copying op's output the tables of input offsets from which it is copied."""
    return [_tables(piece, itemsize(graph.output(op).dtype)) for piece in pieces(graph, op)]


def padded(graph: Graph, op: Op) -> Box | None:
    """Return where a pad's input is placed inside its output, or None if that takes more than four axes."""
    axes = [(extent, *padding) for extent, padding in zip(graph.input(op).shape, paddings(graph, op), strict=True)]
    merged = _merged(axes, most=4)
    return _box(merged) if len(merged) <= 4 else None


def in_runs(box: Box) -> Box:
    """Return the same box with the fewest axes, so that its runs (contiguous elements) are as long as possible."""
    axes = [(size, before, whole - size - before) for size, whole, before in zip(*box, strict=True)]
    merged = _merged(axes, most=1)
    while len(merged) > 1 and merged[0] == (1, 0, 0):
        del merged[0]
    return _box(merged)


def _merged(axes: Sequence[tuple[int, int, int]], most: int) -> list[tuple[int, int, int]]:
    """Merge `axes` (extent, padding before, padding after) until at most `most` remain, or each but the first is padded."""
    axes = list(axes)
    while len(axes) > most:
        # an axis and the axis after it become one if the latter is not padded
        plain = [i for i, _ in enumerate(axes[1:]) if axes[i + 1][1:] == (0, 0)]
        if not plain:
            break
        i, (extent, before, after) = plain[0], axes[plain[0]]
        count = axes[i + 1][0]
        axes[i : i + 2] = [(extent * count, before * count, after * count)]
    return axes


def _box(axes: Sequence[tuple[int, int, int]]) -> Box:
    """Return a box of at most four axes, given the extent and the padding before and after along each."""
    inner = extents([extent for extent, _, _ in axes])
    outer = extents([sum(axis) for axis in axes])
    first = (0,) * (4 - len(axes)) + tuple(before for _, before, _ in axes)
    return Box(inner, outer, (first[0], first[1], first[2], first[3]))


def joined(graph: Graph, op: Op) -> list[tuple[int, Box]]:
    """Return (input index, its place in the output) for a concatenation or pack, in the order in which inputs are copied.

    If the output interleaves the inputs, the largest is copied first, since only the input copied first can share memory with
    the output. Otherwise each input is contiguous in the output, and all inputs can share its memory.
    """
    axis = op.attrs["axis"] % len(graph.output(op).shape)
    shapes = [tensor.shape for tensor in graph.inputs_of(op) if tensor is not None]
    if op.kind == "pack":
        shapes = [(*shape[:axis], 1, *shape[axis:]) for shape in shapes]
    blocks = list(enumerate(_joined(shapes, axis)))
    if any(extent > 1 for extent in shapes[0][:axis]):
        blocks.sort(key=lambda block: -shapes[block[0]][axis])
    return blocks


def _progressions(positions: Positions, itemsize: int) -> Strides | None:
    """Return a piece as strides, or None if its input `positions` along some axis are not equally far apart."""
    start, axes = 0, []
    for axis in positions:
        if axis.size == 0:
            return _runs(0, [(0, 0)], itemsize)
        step = _step(axis)
        if step is None:
            return None
        start += int(axis[0]) * itemsize
        axes.append((axis.size, step * itemsize))
    return _runs(start, axes, itemsize)


def _step(axis: NDArray[np.int64]) -> int | None:
    """Return the distance between neighbouring input positions along an axis; None if it varies, or for padding."""
    steps = np.diff(axis)
    if axis.min() < 0 or (steps != steps[:1]).any():
        return None
    return int(steps[0]) if steps.size else 0


def _runs(start: int, steps: Sequence[tuple[int, int]], itemsize: int) -> Strides | None:
    """Merge contiguous axes and return a piece (part of an output) as strides, or None if more than four axes remain.

    `start` is the input offset of the first run, in bytes; `steps` are the (extent, stride in bytes) of each axis. If the
    last two axes are transposed, the longer one is the last.
    """
    if any(size == 0 for size, _ in steps):
        return Strides((0, 0, 0, 0), 0, (0, 0, 0, 0), (0, 0), itemsize)
    axes: list[tuple[int, int]] = []
    for size, step in steps:
        if size == 1:
            continue
        if axes and axes[-1][1] == size * step:
            axes[-1] = (axes[-1][0] * size, step)
        else:
            axes.append((size, step))
    run = itemsize
    if axes and axes[-1][1] == run:
        run *= axes.pop()[0]
    if len(axes) > 4:
        return None
    (a, i), (b, j), (c, k), (d, m) = [(1, 0)] * (4 - len(axes)) + axes
    last = ((c, k, d * run), (d, m, run))  # (size, input stride, output stride)
    if d < c and 0 < k < m:
        # The longer axis becomes the inner loop of the kernel. This reads the input in its order, so the overlap distance of a
        # transpose does not increase.
        last = last[1], last[0]
    (c, k, outer), (d, m, inner) = last
    return Strides((a, b, c, d), start, (i, j, k, m), (outer, inner), run)


def _tables(positions: Positions, itemsize: int) -> Tables:
    """Return a piece as tables: an offset per row, and an offset per column of a row."""
    padded = any(axis.size == 1 and axis[0] < 0 for axis in positions)
    start = itemsize * sum(int(axis[0]) for axis in positions if axis.size == 1)
    axes = [np.where(axis < 0, -1, axis * itemsize) for axis in positions if axis.size != 1]
    run = itemsize
    while axes and np.array_equal(axes[-1], np.arange(axes[-1].size) * run):
        run *= axes.pop().size
    cols = axes.pop() if axes else np.zeros(1, np.int64)
    count, step = 1, 0
    if axes and axes[0].size and (even := _step(axes[0])) is not None:
        first = axes.pop(0)
        count, step, start = first.size, even, start + int(first[0])
    rows = np.full(1, -1 if padded else start)
    for axis in axes:
        rows = np.where((rows[:, None] < 0) | (axis < 0), -1, rows[:, None] + axis).ravel()
    return Tables(count, step, rows, cols, run)


def _joined(shapes: Sequence[Shape], axis: int) -> list[Box]:
    """Return where each input is placed in the output of a concatenation along `axis`, which is not negative."""
    rank, total = len(shapes[0]), sum(shape[axis] for shape in shapes)
    blocks, begin = [], 0
    for shape in shapes:
        inner, outer, at = (prod(shape[:axis]), 1, shape[axis], prod(shape[axis + 1 :])), total, 2
        if rank <= 4:
            inner, at = extents(shape), axis + 4 - rank
        whole, before = list(inner), [0, 0, 0, 0]
        whole[at], before[at] = outer, begin
        blocks.append(Box(inner, extents(whole), (before[0], before[1], before[2], before[3])))
        begin += shape[axis]
    return blocks
