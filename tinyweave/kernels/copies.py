"""Describe which elements the ops that only copy take from where to where, in the terms of the C.

In: a graph and one of its ops. Out: per piece of an output what it gathers from the input, in equal steps (Strides) or from
places in tables (Tables); or per input the Box of a larger output that it becomes.
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
    """Runs of bytes gathered with a stride per axis, see tw_strided_copy.h."""

    size: Extents
    start: int
    stride: Extents
    run: int


class Tables(NamedTuple):
    """Runs of bytes gathered from places in tables, see tw_table_copy.h."""

    count: int
    step: int
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    run: int


class Box(NamedTuple):
    """A tensor inside a larger one: extents of both, and where it begins."""

    inner: Extents
    outer: Extents
    before: Extents


def moved(graph: Graph, op: Op) -> list[Strides] | None:
    """Return what an op of `ops.data_movement` gathers in equal steps, piece by piece; None where some steps differ."""
    size = itemsize(data(graph, op).dtype)
    found = [_progressions(piece, size) for piece in pieces(graph, op)]
    known = [strides for strides in found if strides is not None]
    return known if len(known) == len(found) else None


def listed(graph: Graph, op: Op) -> list[Tables]:
    """Return what an op of `ops.data_movement` gathers from places in tables, piece by piece."""
    return [_tables(piece, itemsize(graph.output(op).dtype)) for piece in pieces(graph, op)]


def padded(graph: Graph, op: Op) -> Box | None:
    """Return the input of a pad in its place; None where that has more than four axes."""
    axes = [(extent, *padding) for extent, padding in zip(graph.input(op).shape, paddings(graph, op), strict=True)]
    while len(axes) > 4:
        # an axis whose successor is not padded counts in its elements
        plain = [i for i, _ in enumerate(axes[1:]) if axes[i + 1][1:] == (0, 0)]
        if not plain:
            return None
        i, (extent, before, after) = plain[0], axes[plain[0]]
        count = axes[i + 1][0]
        axes[i : i + 2] = [(extent * count, before * count, after * count)]
    inner = extents([extent for extent, _, _ in axes])
    outer = extents([sum(axis) for axis in axes])
    first = (0,) * (4 - len(axes)) + tuple(before for _, before, _ in axes)
    return Box(inner, outer, (first[0], first[1], first[2], first[3]))


def joined(graph: Graph, op: Op) -> list[tuple[int, Box]]:
    """(input, its place in the output) of a concatenation or pack, in the order in which they are copied.

    Only the input that is copied first can lie in the output where its elements are apart there: so the largest is. Where
    each goes in one piece, all can lie in their places, copied in their own order.
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
    """A piece of `ops.data_movement` as runs of bytes, where each axis goes forth in equal steps."""
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
    """The distance between neighbours, where all are alike and none is padding."""
    steps = np.diff(axis)
    if axis.min() < 0 or (steps != steps[:1]).any():
        return None
    return int(steps[0]) if steps.size else 0


def _runs(start: int, steps: Sequence[tuple[int, int]], itemsize: int) -> Strides | None:
    """(extent, step in bytes) per axis, neighbours that are one axis joined."""
    if any(size == 0 for size, _ in steps):
        return Strides((0, 0, 0, 0), 0, (0, 0, 0, 0), itemsize)
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
    return Strides((a, b, c, d), start, (i, j, k, m), run)


def _tables(positions: Positions, itemsize: int) -> Tables:
    """A piece of `ops.data_movement` as runs of bytes whose places are listed: per row, and per column of a row."""
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
    """Each input of a concatenation along `axis` (not negative) in its place."""
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
