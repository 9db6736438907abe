"""Shapes as the C parameter structs hold them, with at most four axes. None: no kernel takes the shape."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

Shape = Sequence[int]
Extents = tuple[int, int, int, int]


class Reduction(NamedTuple):
    """Extents of a reduction's input, viewed as [kept[0]][reduced[0]][kept[1]][reduced[1]][kept[2]]."""

    kept: tuple[int, int, int]
    reduced: tuple[int, int]


def extents(shape: Shape) -> Extents:
    """Return a shape as (n, h, w, c); missing leading axes are 1, axes before the last four are folded into n."""
    n, h, w, c = (1, 1, 1, 1, *shape)[-4:]
    return prod(shape[:-4]) * n, h, w, c


def broadcast(a: Shape, b: Shape) -> tuple[Extents, Extents, Extents] | None:
    """Return the extents of two operands and of their broadcast result, or None if these need more than four axes."""
    rank = max(len(a), len(b), 4)
    axes = [(x, y) for x, y in zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True)]
    while len(axes) > 4:
        # merge neighbouring axes that broadcast in the same way, leading axes first, so that rows and columns remain
        alike = [i for i, (p, q) in enumerate(pairwise(axes)) if (1, 1) in (p, q) or _repeats(p) == _repeats(q)]
        if not alike:
            return None
        i = alike[0]
        axes[i : i + 2] = [(axes[i][0] * axes[i + 1][0], axes[i][1] * axes[i + 1][1])]
    first, second = (extents([axis[side] for axis in axes]) for side in (0, 1))
    return first, second, extents([x if y == 1 else y for x, y in axes])


def _repeats(axis: tuple[int, int]) -> tuple[bool, bool]:
    """Return which of the two operands repeats along an axis, given its extents in both."""
    return axis[0] < axis[1], axis[1] < axis[0]


def repeated(batch: Shape, size: int) -> tuple[int, int, int]:
    """Return the strides of at most three batch axes for items of `size` bytes; 0 for an axis of extent 1."""
    whole = (1,) * (3 - len(batch)) + tuple(batch)
    h, w, c = (0 if extent == 1 else size * prod(whole[axis + 1 :]) for axis, extent in enumerate(whole))
    return h, w, c


def reduction(shape: Shape, axes: Sequence[int]) -> Reduction | None:
    """Return the view of a tensor whose `axes`, not negative, are reduced; None if they alternate too often."""
    sizes, position = [1, 1, 1, 1, 1], 0  # kept at even positions, reduced at odd ones
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        position += (axis in axes) != position % 2
        if position > 4:
            return None
        sizes[position] *= extent
    return Reduction((sizes[0], sizes[2], sizes[4]), (sizes[1], sizes[3]))
