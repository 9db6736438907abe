"""Import ONNX's GatherND, GatherElements, ScatterND and ScatterElements with constant places.

Each output element is an element of the data, or, if it is written, of the updates. numpy computes once which one: the function
of FOLDED runs on the numbers 0, 1, 2, ... of all elements. From this follow slices, a selection by a mask, or a gather.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..aten import axes, elementwise
from ..channels_last import Builder, Map, check_elements, extents, in_layout, memory_orders, view
from ..quantised_constants import Array
from ..unsupported import Unsupported
from .folded import FOLDED

Function = Callable[..., Any]


def gathering(op: str) -> Function:
    """Return a function that imports GatherND or GatherElements."""

    def apply(b: Builder, x: Any, indices: Any, **attributes: Any) -> Map:
        at = _constant(indices)
        return _selected(b, [x], FOLDED[op](_numbers(x.shape), at, **attributes))

    return apply


def scattering(op: str) -> Function:
    """Return a function that imports ScatterND or ScatterElements."""

    def apply(b: Builder, x: Any, indices: Any, updates: Any, **attributes: Any) -> Map:
        at = _constant(indices)
        places = FOLDED[op](_numbers(x.shape), at, _numbers(updates.shape) + prod(x.shape), **attributes)
        return _written(b, x, updates, places)

    return apply


def _constant(places: Any) -> Array:
    if isinstance(places, Map):
        why = "its places are computed by the network; only constant places are supported"
        raise Unsupported(f"{why}: select with where and a constant mask, or gather along one axis")
    return np.asarray(places)


def _numbers(shape: Sequence[int]) -> Array:
    check_elements(*shape)
    return np.arange(prod(shape)).reshape(shape)


def _written(b: Builder, x: Any, updates: Any, places: Array) -> Map:
    """Return `x` with some elements replaced: output element i is element places[i] of `x` followed by `updates`."""
    count = prod(x.shape)
    is_written = places >= count
    if not is_written.any():
        return x if isinstance(x, Map) else _selected(b, [x], places)
    if not isinstance(updates, Map):
        values = np.asarray(elementwise.constant(updates, "updates"), np.float32).ravel()
        full = np.where(is_written, values[np.where(is_written, places - count, 0)], np.float32(0))
        varying = full if len({*values.tolist()}) > 1 else values[0]
        return elementwise.where(b, _without_repeats(is_written), varying, x)
    corner = [(int(at.min()), int(at.max()) + 1) for at in np.nonzero(is_written)]
    box = tuple(slice(*ends) for ends in corner)
    whole = count + np.arange(prod(updates.shape))
    if isinstance(x, Map) and np.array_equal(places[box].ravel(), whole):
        return _with_box(b, x, view(b, updates, places[box].shape), corner)
    return _selected(b, [x, updates], places)


def _without_repeats(mask: Array) -> Array:
    """Return a mask with extent 1 along each axis along which all elements are equal; it broadcasts to the same mask."""
    for axis in range(mask.ndim):
        first = mask.take([0], axis)
        mask = first if (mask == first).all() else mask
    return mask


def _with_box(b: Builder, x: Map, inner: Map, corner: Sequence[tuple[int, int]], axis: int = 0) -> Map:
    """Return `x` with `inner` in place of the box [begin, end) of each axis in `corner`, by slices and concatenations."""
    if axis == len(corner):
        return inner
    (begin, end), extent = corner[axis], x.shape[axis]
    middle = x if end - begin == extent else axes.slice_(b, x, axis, begin, end)
    made = _with_box(b, middle, inner, corner, axis + 1)
    parts = [axes.slice_(b, x, axis, *ends) for ends in ((0, begin),) if begin]
    parts += [made, *(axes.slice_(b, x, axis, *ends) for ends in ((end, extent),) if end < extent)]
    return parts[0] if len(parts) == 1 else axes.concatenation(b, parts, axis)


def _selected(b: Builder, sources: Sequence[Any], places: Array) -> Map:
    """Return the elements numbered `places` of the sources, which are maps or constants and are counted one after another."""
    x = sources[0]
    if len(sources) == 1 and isinstance(x, Map) and places.size:
        along = _along_axes(x.shape, places)
        if along is not None:
            for axis, indices in enumerate(along):
                x = x if np.array_equal(indices, np.arange(x.shape[axis])) else axes.take(b, x, axis, indices)
            return view(b, x, places.shape)
    check_elements(*places.shape)
    if not places.size:
        raise Unsupported("it selects nothing")
    names, stored, count = [], [], 0
    for each in sources:
        total = prod(each.shape)
        numbers = np.arange(count, count + total).reshape(each.shape)
        is_map = isinstance(each, Map)
        names.append(b.reshape(each.tensor, (total,)) if is_map else b.constant(each.ravel(), "part"))
        stored.append(in_layout(each, numbers).ravel() if is_map else numbers.ravel())
        count += total
    (name,) = names if len(names) == 1 else b.op("concatenation", names, [(count,)], {"axis": 0, "activation": "none"})
    position = np.argsort(np.concatenate(stored))  # number of an element -> its place in memory
    groups = tuple(map(b.new_axis, places.shape))
    order = memory_orders(places.ndim)[0]
    dims = tuple(groups[axis] for axis in order)
    chosen = b.integers(position[places].transpose(order).ravel(), "places")
    (made,) = b.op("gather", (name, chosen), [(places.size,)], {"axis": 0, "batch_dims": 0})
    return Map(b.reshape(made, extents(dims)), groups, dims)


def _along_axes(shape: Sequence[int], places: Array) -> list[Array] | None:
    """Return the indices along each axis of `shape` whose outer product is `places`, apart from its shape; None if none are."""
    at = np.unravel_index(places.ravel(), shape)
    found, stride = list[Array](), 1
    for axis in reversed(range(len(shape))):
        outer = [each[::stride] for each in at[:axis]]
        is_first = np.logical_and.reduce([each == each[0] for each in outer] or [np.ones(-(-places.size // stride), bool)])
        count = int(np.argmin(np.append(is_first, False)))  # elements before the first one of another outer index
        found.insert(0, at[axis][::stride][:count])
        stride *= count
    if stride != places.size:
        return None
    grid = np.ravel_multi_index(np.ix_(*found), tuple(shape))
    return found if np.array_equal(grid.ravel(), places.ravel()) else None
