"""Shapes with at most four axes, as the parameter structs in C hold them. A function returns None if it needs more axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ..ops.elementwise import MAX_AXES, merged_axes

Shape = Sequence[int]

Extents = tuple[int, int, int, int]


class Reduction(NamedTuple):
    """The extents of a reduction's input, with neighbouring axes merged to [kept][reduced][kept][reduced][kept]."""

    kept: tuple[int, int, int]  # first, third and fifth extent
    reduced: tuple[int, int]  # second and fourth extent


def extents(shape: Shape) -> Extents:
    """Return a shape as (n, h, w, c). Missing leading axes are 1; all axes before the last three are multiplied to n."""
    n, h, w, c = (1, 1, 1, 1, *shape)[-4:]
    return prod(shape[:-4]) * n, h, w, c


def broadcast(a: Shape, b: Shape) -> tuple[Extents, Extents, Extents] | None:
    """Return the extents of two operands and of their result, merged to at most four axes, or None if they need more."""
    axes = merged_axes(a, b)
    if len(axes) > MAX_AXES:
        return None
    first, second = (extents([axis[side] for axis in axes]) for side in (0, 1))
    return first, second, extents([x if y == 1 else y for x, y in axes])


def repeated(batch: Shape, size: int) -> tuple[int, int, int]:
    """Return the strides, in elements, along the last three batch axes; missing leading axes count as extent 1.

    `batch` are the extents of at most three batch axes. An axis of extent 1 broadcasts, so its stride is 0. `size` is the
    number of elements of an item, for example of a matrix.
    """
    whole = (1,) * (3 - len(batch)) + tuple(batch)
    h, w, c = (0 if extent == 1 else size * prod(whole[axis + 1 :]) for axis, extent in enumerate(whole))
    return h, w, c


def reduction(shape: Shape, axes: Sequence[int]) -> Reduction | None:
    """Merge neighbouring axes of a reduction's input; None if more than two runs of axes are reduced, or three are kept.

    The reduced `axes` are not negative.
    """
    sizes, position = [1, 1, 1, 1, 1], 0  # kept at even positions, reduced at odd ones
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        position += (axis in axes) != position % 2
        if position > 4:
            return None
        sizes[position] *= extent
    return Reduction((sizes[0], sizes[2], sizes[4]), (sizes[1], sizes[3]))
