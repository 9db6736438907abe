"""Ops along axes: views, which cost nothing, what joins or cuts maps, and what reduces or normalises along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..channels_last import Axes, Builder, Map, Unread, Unsupported, arranged, extents, flat, slots, viewed
from .elementwise import binary, with_steps

MASKS = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0) | {"offset": False}


def linear(b: Builder, x: Map, weight: Any, bias: Any = None) -> Map:
    """fully_connected; the columns of its weights follow the order in which the last axis lies."""
    weight = with_steps(weight, "weight")
    bias = np.zeros(len(weight)) if bias is None else with_steps(bias, "bias")
    lead, last = x.axes[:-1], x.axes[-1]
    inner = slots(x, (*lead, last))[-1]
    if inner != last:
        places = np.arange(weight.shape[1]).reshape([axis.extent for axis in last])
        weight = weight[:, places.transpose([last.index(axis) for axis in inner]).ravel()]
    out = b.fresh(len(weight))
    attrs = {"activation": "none", "keep_num_dims": len(lead) > 1}
    operands = (b.tensor(x, (*lead, inner)), b.constant(weight, "weight"), b.constant(bias, "bias"))
    return b.map("fully_connected", operands, (*lead, out), (*lead, out) if lead else ((), out), attrs)


def softmax(b: Builder, x: Map, dim: int, dtype: Any = None, *, kind: str = "softmax") -> Map:
    dim %= len(x.axes)
    attrs = {"beta": 1.0} if kind == "softmax" else {}
    if dim == len(x.axes) - 1 and flat(x.axes) == x.order:  # as it is; with one channel also channels last
        return b.map(kind, (b.tensor(x, x.axes),), x.axes, x.axes, attrs)
    order, name, dims = _along(b, x)
    if order[-1] != dim:
        raise Unsupported("TFLite's softmax runs along the channels of a map, or the last axis of a list")
    return b.map(kind, (name,), x.axes, dims, attrs)


def _along(b: Builder, x: Map) -> tuple[tuple[int, ...], str, list[Axes]]:
    """Return the order of the logical axes in memory, a usual one if possible, and the tensor with an axis for each."""
    try:
        order = arranged(x)
    except Unsupported:
        order = as_they_lie(x)
    dims = [x.axes[axis] for axis in order]
    return order, b.tensor(x, dims), dims


def as_they_lie(x: Map) -> tuple[int, ...]:
    """Return the logical axes, the outermost in memory first."""
    return tuple(sorted(range(len(x.axes)), key=lambda axis: x.order.index(x.axes[axis][0]) if x.axes[axis] else -1))


def _replaced(axes: Sequence[Axes], at: int, by: Axes) -> tuple[Axes, ...]:
    return (*axes[:at], by, *axes[at + 1 :])


def _chosen(x: Map, dim: Any) -> set[int]:
    """Return the axes of an argument that is one, several, or None for all."""
    chosen = range(len(x.axes)) if dim is None else (dim,) if isinstance(dim, int) else dim
    return {axis % len(x.axes) for axis in chosen}


def reduce(kind: str) -> Callable[..., Map]:
    """Return the function of an op over some axes."""

    if kind == "sum":
        return total

    def apply(b: Builder, x: Map, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Map:
        order, name, dims = _along(b, x)
        gone = _chosen(x, dim) or set(range(len(x.axes)))
        where = b.integers(sorted(order.index(axis) for axis in gone), "axes")

        def kept(axes: Sequence[Axes], numbers: Sequence[int]) -> list[Axes]:
            return [() if n in gone else group for group, n in zip(axes, numbers, strict=True) if keepdim or n not in gone]

        axes = kept(x.axes, range(len(x.axes)))
        return b.map(kind, (name, where), axes, kept(dims, order), {"keep_dims": keepdim})

    return apply


mean = reduce("mean")


def total(b: Builder, x: Map, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Map:
    """A sum as a mean times the count of what is summed; TFLite's own op for it is not among those here."""
    count = prod(x.shape[axis] for axis in _chosen(x, dim) or range(len(x.axes)))
    return binary("mul")(b, mean(b, x, dim, keepdim), float(count))


def extreme(kind: str, pair: str) -> Callable[..., Any]:
    """Return the function of max or min: over all axes, over one with the places beside it, or of two maps."""

    def apply(b: Builder, x: Map, other: Any = None, keepdim: bool = False) -> Any:
        if other is None or isinstance(other, int):
            found = reduce(kind)(b, x, other, keepdim)
            return found if other is None else [found, Unread("the places of its extremes are read")]
        return binary(pair)(b, x, other)

    return apply


def concatenation(b: Builder, parts: Sequence[Any], dim: int = 0) -> Map:
    """Return maps, and constants between them such as a class token, one behind the other."""
    maps = [x for x in parts if isinstance(x, Map)]
    dim %= len(maps[0].axes)
    order = arranged(*maps)
    shape = maps[0].shape
    for x in parts:
        if len(x.shape) != len(shape) or any(x.shape[a] != extent for a, extent in enumerate(shape) if a != dim):
            raise Unsupported(f"its part of shape {list(x.shape)} does not fit to {list(shape)}")
    names = [
        b.tensor(x, [x.axes[axis] for axis in order]) if isinstance(x, Map) else b.constant(x.transpose(order), "part")
        for x in parts
    ]
    axes = _replaced(maps[0].axes, dim, b.fresh(sum(x.shape[dim] for x in parts)))
    attrs = {"axis": order.index(dim), "activation": "none"}
    return b.map("concatenation", names, axes, [axes[a] for a in order], attrs)


def stack(b: Builder, parts: Sequence[Any], dim: int = 0) -> Map:
    """Return maps, and constants between them, one behind the other along an axis of their own."""
    at = dim % (len(parts[0].shape) + 1)
    return concatenation(b, [unsqueeze(b, x, at) if isinstance(x, Map) else np.expand_dims(x, at) for x in parts], at)


def unbind(b: Builder, x: Map, dim: int = 0) -> list[Map]:
    return [select(b, x, dim, index) for index in range(x.shape[dim])]


def split_sizes(b: Builder, x: Map, sizes: Sequence[int], dim: int = 0) -> list[Map]:
    dim %= len(x.axes)
    order, name, _ = _along(b, x)
    at = order.index(dim)
    parts = [_replaced(x.axes, dim, b.fresh(size)) for size in sizes]
    if len(parts) == 1:
        return [x]
    shapes = [extents([axes[a] for a in order]) for axes in parts]
    if len(set(sizes)) == 1:
        names = b.op("split", (b.integers(at, "axis"), name), shapes, {}, "part")
    else:
        names = b.op("split_v", (name, b.integers(sizes, "sizes"), b.integers(at, "axis")), shapes, {}, "part")
    return [Map(n, axes, tuple(axes[a] for a in order)) for n, axes in zip(names, parts, strict=True)]


def split(b: Builder, x: Map, size: int, dim: int = 0) -> list[Map]:
    return split_sizes(b, x, [min(size, x.shape[dim] - begin) for begin in range(0, x.shape[dim], size)], dim)


def chunk(b: Builder, x: Map, chunks: int, dim: int = 0) -> list[Map]:
    return split(b, x, -(-x.shape[dim] // chunks), dim)


def slice_(b: Builder, x: Map, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Map:
    dim %= len(x.axes)
    begin, stop, step = slice(start, end, step).indices(x.shape[dim])
    count = len(range(begin, stop, step))
    if count < 1:
        raise Unsupported("its slice is empty")
    if count == x.shape[dim]:
        return x
    order, name, dims = _along(b, x)
    at, shape, rank = order.index(dim), b.tensors[name].shape, len(dims)
    axes = _replaced(x.axes, dim, b.fresh(count))
    if step == 1:
        kind, attrs, operands = "slice", {}, {"begin": (begin, [0] * rank), "size": (count, shape)}
    else:
        kind, attrs = "strided_slice", MASKS
        operands = {"begin": (begin, [0] * rank), "end": (stop, shape), "steps": (step, [1] * rank)}
    wholes = {role: [along if a == at else other for a, other in enumerate(rest)] for role, (along, rest) in operands.items()}
    names = [b.integers(values, role) for role, values in wholes.items()]
    return b.map(kind, (name, *names), axes, [axes[a] for a in order], attrs)


def select(b: Builder, x: Map, dim: int, index: int) -> Map:
    index %= x.shape[dim]
    return squeeze(b, slice_(b, x, dim, index, index + 1), dim)


def pad(b: Builder, x: Map, pads: Sequence[int], mode: str = "constant", value: float | None = None) -> Map:
    order, name, _ = _along(b, x)
    pairs = list(zip(pads[::2], pads[1::2], strict=True))[::-1]  # the last axis comes first
    amounts = [(0, 0)] * (len(x.axes) - len(pairs)) + pairs
    if min(pads) < 0:
        raise Unsupported("it crops by a negative padding; slice instead")
    replicates_one = mode == "replicate" and max(pads) <= 1
    if mode not in ("constant", "reflect") and not replicates_one:
        raise Unsupported(f"TFLite has no padding '{mode}' of this size")
    kind = "mirror_pad" if mode != "constant" else "padv2" if value else "pad"
    axes = tuple(b.fresh(s + sum(a)) if any(a) else g for s, g, a in zip(x.shape, x.axes, amounts, strict=True))
    operands = [name, b.integers([amounts[a] for a in order], "pads")]
    operands += [b.constant([value], "value")] if kind == "padv2" else []
    attrs = {"mode": "symmetric" if replicates_one else "reflect"} if kind == "mirror_pad" else {}
    return b.map(kind, operands, axes, [axes[a] for a in order], attrs)


# views


def flatten(b: Builder, x: Map, start: int = 0, end: int = -1) -> Map:
    start, end = start % max(len(x.axes), 1), end % max(len(x.axes), 1)
    return Map(x.tensor, (*x.axes[:start], flat(x.axes[start : end + 1]), *x.axes[end + 1 :]), x.dims)


def unflatten(b: Builder, x: Map, dim: int, sizes: Sequence[int]) -> Map:
    dim %= len(x.axes)
    return viewed(b, x, (*x.shape[:dim], *_sizes(x.shape[dim], sizes), *x.shape[dim + 1 :]))


def _sizes(extent: int, sizes: Sequence[int]) -> list[int]:
    """Return the extents that one is split into, of which one may be left open as -1."""
    known = prod(size for size in sizes if size != -1)
    found = [extent // known if size == -1 else size for size in sizes] if known > 0 else []
    if min(found, default=0) < 1 or prod(found) != extent:
        raise Unsupported(f"{extent} cannot be split into {list(sizes)}")
    return found


def permute(b: Builder, x: Map, dims: Sequence[int]) -> Map:
    return Map(x.tensor, tuple(x.axes[dim] for dim in dims), x.dims)


def transpose(b: Builder, x: Map, one: int, two: int) -> Map:
    axes = list(x.axes)
    axes[one], axes[two] = axes[two], axes[one]
    return Map(x.tensor, tuple(axes), x.dims)


def squeeze(b: Builder, x: Map, dim: Any = None) -> Map:
    gone = _chosen(x, dim)
    return Map(x.tensor, tuple(group for d, group in enumerate(x.axes) if d not in gone or group), x.dims)


def unsqueeze(b: Builder, x: Map, dim: int) -> Map:
    at = dim % (len(x.axes) + 1)
    return Map(x.tensor, (*x.axes[:at], (), *x.axes[at:]), x.dims)


def channel_shuffle(b: Builder, x: Map, groups: int) -> Map:
    n, c, *rest = x.shape
    parts = viewed(b, x, (n, groups, c // groups, *rest))
    return viewed(b, transpose(b, parts, 1, 2), (n, c, *rest))


def same(b: Builder, x: Map, *_: Any, **__: Any) -> Map:
    return x


SAME = """None True False cpu torch.float32 torch.strided torch.contiguous_format torch.preserve_format
torch.channels_last""".split()


def to(b: Builder, x: Map, *where: Any, **more: Any) -> Map:
    """All maps are float32: what would be of another type is refused, another place or layout changes nothing."""
    if not {str(each) for each in (*where, *more.values())} <= {*SAME}:
        raise Unsupported("it makes a map of another type")
    return x


def dropout(b: Builder, x: Map, p: float, train: bool) -> Map:
    if train:
        raise Unsupported("it is in training mode; call eval() first")
    return x
