"""Shapes as the numbers of the C parameter structs: at most four axes, whatever the graph's tensors have.

In: shapes and axes of the graph. Out: extents (n, h, w, c) and the like, named as the structs' members. None: no such kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

Shape = Sequence[int]
Extents = tuple[int, int, int, int]


class Block(NamedTuple):
    """A tensor inside a larger one: extents of both, and where it begins."""

    inner: Extents
    outer: Extents
    before: Extents


class Reduction(NamedTuple):
    """A tensor as [kept[0]][reduced[0]][kept[1]][reduced[1]][kept[2]]."""

    kept: tuple[int, int, int]
    reduced: tuple[int, int]


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


def extents(shape: Shape) -> Extents:
    """(n, h, w, c): missing leading axes are 1, axes before the last four fold into n."""
    n, h, w, c = (1, 1, 1, 1, *shape)[-4:]
    return prod(shape[:-4]) * n, h, w, c


def broadcast(a: Shape, b: Shape) -> tuple[Extents, Extents, Extents] | None:
    """Extents of two operands and of what they broadcast to."""
    rank = max(len(a), len(b), 4)
    axes = [(x, y) for x, y in zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True)]
    while len(axes) > 4:
        # neighbours that broadcast alike are one axis; the leading ones first, so that rows and columns stay
        cost_model_core = [i for i, (p, q) in enumerate(pairwise(axes)) if (1, 1) in (p, q) or _repeats(p) == _repeats(q)]
        if not cost_model_core:
            return None
        i = cost_model_core[0]
        axes[i : i + 2] = [(axes[i][0] * axes[i + 1][0], axes[i][1] * axes[i + 1][1])]
    first, second = (extents([axis[side] for axis in axes]) for side in (0, 1))
    return first, second, extents([x if y == 1 else y for x, y in axes])


def _repeats(axis: tuple[int, int]) -> tuple[bool, bool]:
    """Which operand repeats along an axis, of which the extents in both are given."""
    return axis[0] < axis[1], axis[1] < axis[0]


def repeated(batch: Shape, size: int) -> tuple[int, int, int]:
    """How far the things of `size` bytes, `batch` of them, lie apart along up to three axes; 0 along one of extent 1."""
    whole = (1,) * (3 - len(batch)) + tuple(batch)
    h, w, c = (0 if extent == 1 else size * prod(whole[axis + 1 :]) for axis, extent in enumerate(whole))
    return h, w, c


def padded(shape: Shape, paddings: Sequence[tuple[int, int]]) -> Block | None:
    """A tensor with (before, after) elements added to each axis."""
    axes = [(extent, *padding) for extent, padding in zip(shape, paddings, strict=True)]
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
    return Block(inner, outer, (first[0], first[1], first[2], first[3]))


def joined(shapes: Sequence[Shape], axis: int) -> list[Block]:
    """Each input of a concatenation along `axis` (not negative) in its place."""
    rank, total = len(shapes[0]), sum(shape[axis] for shape in shapes)
    blocks, begin = [], 0
    for shape in shapes:
        inner, outer, at = (prod(shape[:axis]), 1, shape[axis], prod(shape[axis + 1 :])), total, 2
        if rank <= 4:
            inner, at = extents(shape), axis + 4 - rank
        whole, before = list(inner), [0, 0, 0, 0]
        whole[at], before[at] = outer, begin
        blocks.append(Block(inner, extents(whole), (before[0], before[1], before[2], before[3])))
        begin += shape[axis]
    return blocks


def reduction(shape: Shape, axes: Sequence[int]) -> Reduction | None:
    """A tensor whose `axes` (not negative) are reduced."""
    sizes, position = [1, 1, 1, 1, 1], 0  # kept at even positions, reduced at odd ones
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        position += (axis in axes) != position % 2
        if position > 4:
            return None
        sizes[position] *= extent
    return Reduction((sizes[0], sizes[2], sizes[4]), (sizes[1], sizes[3]))


def strided(shape: Shape, itemsize: int, select: Callable[[np.ndarray], np.ndarray]) -> Strides | None:
    """What `select`, any chain of numpy transpositions and basic slices, takes of an array, as runs of bytes."""
    steps = [itemsize * prod(shape[axis + 1 :]) for axis in range(len(shape))]
    whole = as_strided(np.zeros(1, np.int8), shape, steps, writeable=False)  # only its geometry is used, never its elements
    part = select(whole)
    start = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return _runs(start, list(zip(part.shape, part.strides, strict=True)), itemsize)


def progressions(positions: Sequence[NDArray[np.int64]], itemsize: int) -> Strides | None:
    """A piece of `ops.pieces` as runs of bytes, where each axis goes forth in equal steps."""
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


def tables(positions: Sequence[NDArray[np.int64]], itemsize: int) -> Tables:
    """A piece of `ops.pieces` as runs of bytes whose places are listed: per row, and per column of a row."""
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
