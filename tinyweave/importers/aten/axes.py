"""Import ATen's ops along axes: views (which need no op), concatenations, splits, slices, pads, reductions, linear, softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ..channels_last import (
    Axes,
    Builder,
    Map,
    Unavailable,
    check_elements,
    common_order,
    current_groups,
    extents,
    fits,
    flattened,
    view,
)
from ..unsupported import Unsupported, normalised_axis
from .elementwise import as_floats, binary, stored_constant

INDICES_READ = Unavailable("its indices are read; only its values are supported")
MASKS = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0) | {"offset": False}


def linear(b: Builder, x: Map, weight: Any, bias: Any = None) -> Map:
    """Import aten.linear as fully_connected; `weight`, [outputs, inputs], is permuted to the memory order of the last axis."""
    weight = stored_constant(weight, "weight")
    bias = np.zeros(len(weight)) if bias is None else stored_constant(bias, "bias")
    lead, last = x.axes[:-1], x.axes[-1]
    inner = current_groups(x, (*lead, last))[-1] if fits(x, (*lead, last)) else last
    if inner != last:
        columns = np.arange(weight.shape[1]).reshape([axis.extent for axis in last])
        weight = weight[:, columns.transpose([last.index(axis) for axis in inner]).ravel()]
    out = b.new_axis(len(weight))
    attrs = {"activation": "none", "keep_num_dims": len(lead) > 1}
    operands = (b.tensor(x, (*lead, inner)), b.constant(weight, "weight"), b.constant(bias, "bias"))
    return b.map("fully_connected", operands, (*lead, out), (*lead, out) if lead else ((), out), attrs)


def softmax(b: Builder, x: Map, dim: int, dtype: Any = None, *, kind: str = "softmax") -> Map:
    """Import aten.softmax or aten.log_softmax (`kind`) along the axis `dim`."""
    return along_axis(b, kind, x, dim, {"beta": 1.0} if kind == "softmax" else {})


def along_axis(b: Builder, kind: str, x: Map, dim: int, attrs: dict[str, Any]) -> Map:
    """Add an op of TFLite along the innermost axis, such as softmax, for the axis `dim`; transpose if `dim` is another."""
    dim = normalised_axis(len(x.axes), dim)
    if (
        dim == len(x.axes) - 1 and flattened(x.axes) == x.order
    ):  # x lies in logical order, which for one channel is also channels last
        return b.map(kind, (b.tensor(x, x.axes),), x.axes, x.axes, attrs)
    order, name, dims = ordered_tensor(b, x)
    if order[-1] == dim:
        return b.map(kind, (name,), x.axes, dims, attrs)
    last = [*(x.axes[axis] for axis in order if axis != dim), x.axes[dim]]
    y = b.map(kind, (b.tensor(x, last),), x.axes, last, attrs)
    return Map(b.tensor(y, dims), x.axes, tuple(dims))


def ordered_tensor(b: Builder, x: Map) -> tuple[tuple[int, ...], str, list[Axes]]:
    """Find or add a tensor that holds `x` with one tensor axis per logical axis, channels last or in logical order if possible.

    Return the logical axes in the order of the tensor's axes, the tensor's name, and its axes as tuples of Axis units.
    """
    try:
        order = common_order(x)
    except Unsupported:
        order = axes_by_memory(x)
    dims = [x.axes[axis] for axis in order]
    return order, b.tensor(x, dims), dims


def axes_by_memory(x: Map) -> tuple[int, ...]:
    """Return the indices of the logical axes, sorted by their place in memory, outermost first. Axes of extent 1 come first."""
    return tuple(sorted(range(len(x.axes)), key=lambda axis: x.order.index(x.axes[axis][0]) if x.axes[axis] else -1))


def with_axis(axes: Sequence[Axes], at: int, by: Axes) -> tuple[Axes, ...]:
    """Return a copy of a map's axes, each a tuple of Axis units, with the axis at index `at` replaced by `by`."""
    return (*axes[:at], by, *axes[at + 1 :])


def axis_set(x: Map, dim: Any) -> set[int]:
    """Return the axes that `dim` names (one axis, several, or None for all) as non-negative numbers."""
    chosen = range(len(x.axes)) if dim is None else (dim,) if isinstance(dim, int) else dim
    return {normalised_axis(len(x.axes), axis) for axis in chosen}


def reduce(kind: str) -> Callable[..., Map]:
    """Return a function that imports a reduction, of TFLite kind `kind` or "sum", over some axes of a map, by default all."""
    if kind == "sum":
        return sum_

    def apply(b: Builder, x: Map, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Map:
        order, name, dims = ordered_tensor(b, x)
        gone = axis_set(x, dim) or set(range(len(x.axes)))
        where = b.integers(sorted(order.index(axis) for axis in gone), "axes")

        def kept(axes: Sequence[Axes], numbers: Sequence[int]) -> list[Axes]:
            return [() if n in gone else group for group, n in zip(axes, numbers, strict=True) if keepdim or n not in gone]

        axes = kept(x.axes, range(len(x.axes)))
        return b.map(kind, (name, where), axes, kept(dims, order), {"keep_dims": keepdim})

    return apply


mean = reduce("mean")
MOST_FACTORS = 16  # of one product of elements: each factor but the first is an op, which rounds


def product(b: Builder, x: Map, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Map:
    """Import aten.prod over the axes `dim`, by default all, as a tree of products of two elements (op mul)."""
    chosen = sorted(axis_set(x, dim))
    if (count := prod(x.shape[axis] for axis in chosen)) > MOST_FACTORS:
        raise Unsupported(f"it multiplies {count} elements; at most {MOST_FACTORS} are supported: sum their logarithms")
    for axis in chosen:
        factors = [slice_(b, x, axis, index, index + 1) for index in range(x.shape[axis])]
        while len(factors) > 1:
            rest = factors[len(factors) // 2 * 2 :]
            factors = [*map(partial(binary("mul"), b), factors[::2], factors[1::2]), *rest]
        (x,) = factors
    return x if keepdim else squeeze(b, x, chosen)


def of_bools(kind: str) -> Callable[..., Map]:
    """Return a function that imports aten.any ("reduce_max") or aten.all ("reduce_min") as a reduction of 0 and 1."""

    def apply(b: Builder, x: Map, dim: Any = None, keepdim: bool = False) -> Map:
        return binary("greater")(b, reduce(kind)(b, as_floats(b, x), dim, keepdim), 0.5)

    return apply


def sum_(b: Builder, x: Map, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Map:
    """Import aten.sum as a mean times the number of summed elements."""
    count = prod(x.shape[axis] for axis in axis_set(x, dim) or range(len(x.axes)))
    return binary("mul")(b, mean(b, x, dim, keepdim), float(count))


def argmax(b: Builder, x: Map, dim: int | None = None, keepdim: bool = False, *, kind: str = "arg_max") -> Map:
    """Import aten.argmax or argmin as arg_max or arg_min, with int32 indices along the axis `dim`, or of the flattened map."""
    if dim is None:
        return view(b, argmax(b, flatten(b, x), 0, kind=kind), (1,) * len(x.axes) if keepdim else ())
    dim = normalised_axis(len(x.axes), dim)
    order, name, dims = ordered_tensor(b, x)
    at = order.index(dim)
    rest = [*dims[:at], *dims[at + 1 :]]
    (made,) = b.op(kind, (name, b.integers(at, "axis")), [extents(rest)], {}, "index", dtype="int32")
    axes = with_axis(x.axes, dim, ())
    return Map(made, axes if keepdim else (*axes[:dim], *axes[dim + 1 :]), tuple(rest))


def cumsum(b: Builder, x: Map, dim: int, *, dtype: Any = None, exclusive: bool = False, reverse: bool = False) -> Map:
    """Import aten.cumsum as a product with a triangular matrix; with `exclusive`, sum i does not contain element i."""
    ones = np.tri(x.shape[dim], k=-int(exclusive), dtype=np.float32)
    return mixed(b, x, dim, ones.T if reverse else ones)


def logsumexp(b: Builder, x: Map, dim: Any = None, keepdim: bool = False) -> Map:
    """Import aten.logsumexp over the axes `dim`, one after the other, each as max(x) - max(log_softmax(x))."""
    chosen = axis_set(x, dim)
    greatest = reduce("reduce_max")
    for axis in chosen:
        logarithms = softmax(b, x, axis, kind="log_softmax")
        x = binary("sub")(b, greatest(b, x, axis, True), greatest(b, logarithms, axis, True))
    return x if keepdim else squeeze(b, x, list(chosen))


def glu(b: Builder, x: Map, dim: int = -1) -> Map:
    """Import aten.glu: the first half of the axis `dim` times the sigmoid of the second half."""
    if x.shape[normalised_axis(len(x.axes), dim)] % 2:
        raise Unsupported("its axis has an odd extent")
    value, gate = chunk(b, x, 2, dim)
    return binary("mul")(b, value, b.like("logistic", gate))


def top(b: Builder, x: Map, k: Any, dim: int = -1, largest: bool = True, sort: bool = True) -> Any:
    """Import aten.topk: return the `k` largest (or smallest) elements along `dim`, and their indices."""
    dim = normalised_axis(len(x.axes), dim)
    if k == 1:
        pair: Any = max_or_min("reduce_max", "maximum") if largest else max_or_min("reduce_min", "minimum")
        return pair(b, x, dim, True)
    if not 1 <= k <= x.shape[dim]:
        raise Unsupported(f"its k is {k}, but its axis has {x.shape[dim]} elements")
    if not largest:
        negated = binary("mul")(b, x, -1.0)
        values, indices = top(b, negated, k, dim)
        return [binary("mul")(b, values, -1.0), indices]
    order, out = ordered_tensor(b, x)[0], b.new_axis(k)
    rest = [x.axes[axis] for axis in order if axis != dim]
    operands, dims = (b.tensor(x, (*rest, x.axes[dim])), b.constant(k, "k", "int32")), (*rest, out)
    names = b.op("topk_v2", operands, [extents(dims)] * 2, {}, "top")
    b.tensors[names[1]] = replace(b.tensors[names[1]], dtype="int32")
    return [Map(name, with_axis(x.axes, dim, out), dims) for name in names]


def max_or_min(kind: str, pair: str) -> Callable[..., Any]:
    """Return an importer of aten.max or aten.min: of one map the reduction `kind`, with indices; of two maps the op `pair`."""

    def apply(b: Builder, x: Map, other: Any = None, keepdim: bool = False) -> Any:
        if other is None or isinstance(other, int):
            found = reduce(kind)(b, x, other, keepdim)
            indices = partial(argmax, b, x, other, keepdim, kind="arg_max" if kind == "reduce_max" else "arg_min")
            return found if other is None else [found, indices]
        return binary(pair)(b, x, other)

    return apply


def concatenation(b: Builder, parts: Sequence[Any], dim: int = 0) -> Map:
    """Import aten.cat of maps and constants, such as the class token of a vision transformer."""
    maps = [x for x in parts if isinstance(x, Map)]
    dim = normalised_axis(len(maps[0].axes), dim)
    order = b.common_order(*maps)
    shape = maps[0].shape
    for x in parts:
        if len(x.shape) != len(shape) or any(x.shape[a] != extent for a, extent in enumerate(shape) if a != dim):
            raise Unsupported(f"its input of shape {list(x.shape)} does not fit to {list(shape)}")
    names = [
        b.tensor(x, [x.axes[axis] for axis in order]) if isinstance(x, Map) else b.constant(x.transpose(order), "part")
        for x in parts
    ]
    axes = with_axis(maps[0].axes, dim, b.new_axis(sum(x.shape[dim] for x in parts)))
    attrs = {"axis": order.index(dim), "activation": "none"}
    return b.map("concatenation", names, axes, [axes[a] for a in order], attrs)


def stack(b: Builder, parts: Sequence[Any], dim: int = 0) -> Map:
    """Import aten.stack: join maps and constants along a new axis `dim`."""
    at = normalised_axis(len(parts[0].shape) + 1, dim)
    return concatenation(b, [unsqueeze(b, x, at) if isinstance(x, Map) else np.expand_dims(x, at) for x in parts], at)


def unbind(b: Builder, x: Map, dim: int = 0) -> list[Map]:
    """Import aten.unbind: return one map per index of the axis `dim`, without this axis."""
    return [select(b, x, dim, index) for index in range(x.shape[normalised_axis(len(x.axes), dim)])]


def split_sizes(b: Builder, x: Map, sizes: Sequence[int], dim: int = 0) -> list[Map]:
    """Import aten.split_with_sizes as split, or as split_v if the sizes differ; one part per entry of `sizes`."""
    dim = normalised_axis(len(x.axes), dim)
    if min(sizes, default=0) < 1 or sum(sizes) != x.shape[dim]:
        raise Unsupported(f"its sizes {list(sizes)} do not add up to {x.shape[dim]}")
    order, name, _ = ordered_tensor(b, x)
    at = order.index(dim)
    parts = [with_axis(x.axes, dim, b.new_axis(size)) for size in sizes]
    if len(parts) == 1:
        return [x]
    shapes = [extents([axes[a] for a in order]) for axes in parts]
    if len(set(sizes)) == 1:
        names = b.op("split", (b.integers(at, "axis"), name), shapes, {}, "part")
    else:
        names = b.op("split_v", (name, b.integers(sizes, "sizes"), b.integers(at, "axis")), shapes, {}, "part")
    return [Map(n, axes, tuple(axes[a] for a in order)) for n, axes in zip(names, parts, strict=True)]


def split(b: Builder, x: Map, size: int, dim: int = 0) -> list[Map]:
    """Import aten.split into parts of extent `size` along `dim`; the last part may be smaller."""
    dim = normalised_axis(len(x.axes), dim)
    return split_sizes(b, x, [min(size, x.shape[dim] - begin) for begin in range(0, x.shape[dim], size)], dim)


def chunk(b: Builder, x: Map, chunks: int, dim: int = 0) -> list[Map]:
    """Import aten.chunk: split into parts of equal extent, at most `chunks` of them; the last part may be smaller."""
    dim = normalised_axis(len(x.axes), dim)
    return split(b, x, -(-x.shape[dim] // chunks), dim)


def slice_(b: Builder, x: Map, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Map:
    """Import aten.slice along one axis as slice, or as strided_slice if the step is not 1; an empty slice is refused."""
    dim = normalised_axis(len(x.axes), dim)
    begin, stop, step = slice(start, end, step).indices(x.shape[dim])
    count = len(range(begin, stop, step))
    if count < 1:
        raise Unsupported("its slice is empty")
    if count == x.shape[dim]:
        return x
    order, name, dims = ordered_tensor(b, x)
    at, shape, rank = order.index(dim), b.tensors[name].shape, len(dims)
    axes = with_axis(x.axes, dim, b.new_axis(count))
    if step == 1:
        kind, attrs, operands = "slice", {}, {"begin": (begin, [0] * rank), "size": (count, shape)}
    else:
        kind, attrs = "strided_slice", MASKS
        operands = {"begin": (begin, [0] * rank), "end": (stop, shape), "steps": (step, [1] * rank)}
    wholes = {role: [along if a == at else other for a, other in enumerate(rest)] for role, (along, rest) in operands.items()}
    names = [b.integers(values, role) for role, values in wholes.items()]
    return b.map(kind, (name, *names), axes, [axes[a] for a in order], attrs)


def take(b: Builder, x: Map, dim: int, indices: Any) -> Map:
    """Return the elements of `x` at constant `indices` along the axis `dim`, as a slice if they are evenly spaced."""
    dim = normalised_axis(len(x.axes), dim)
    extent, at = x.shape[dim], [int(index) for index in indices]
    if not at:
        raise Unsupported("it selects nothing")
    if not -extent <= min(at) <= max(at) < extent:
        raise Unsupported(f"its indices are out of range for {extent}; the file may be damaged")
    at = [index % extent for index in at]
    steps = {after - before for before, after in pairwise(at)} or {1}
    if len(steps) == 1 and min(steps) > 0:
        return slice_(b, x, dim, at[0], at[-1] + 1, min(steps))
    order, name, _ = ordered_tensor(b, x)
    axes = with_axis(x.axes, dim, b.new_axis(len(at)))
    operands = (name, b.integers(at, "indices"))
    return b.map("gather", operands, axes, [axes[a] for a in order], {"axis": order.index(dim), "batch_dims": 0})


def lookup(b: Builder, table: Any, dim: int, indices: Map) -> Map:
    """Return the slices of `table` at computed indices, clipped, along `dim`, which the axes of `indices` replace."""
    dim = normalised_axis(len(table.shape), dim)
    if b.tensors[indices.tensor].dtype != "int32":
        raise Unsupported("its indices are not integers; give them as int32 or int64")
    rest = [axis for axis in range(len(table.shape)) if axis != dim]
    if isinstance(table, Map):
        left = [table.axes[axis] for axis in rest]
        data = b.tensor(table, (table.axes[dim], *left))
    else:
        left = [b.new_axis(table.shape[axis]) for axis in rest]
        data = b.constant(np.moveaxis(table, dim, 0), "table")
    vectors = b.reshape(indices.tensor, (*extents(indices.dims), 1))
    axes, rank = (*indices.axes, *left), len(indices.axes)
    found = b.map("gather_nd", (data, vectors), axes, (*indices.dims, *left))
    return permute(b, found, [*range(rank, rank + dim), *range(rank), *range(rank + dim, len(axes))])


def one_hot(b: Builder, indices: Map, classes: int = -1) -> Map:
    """Import aten.one_hot as a lookup in an identity matrix, in float32; all indices must be below `classes`."""
    if classes < 1:
        raise Unsupported("its number of classes depends on the values; give num_classes")
    check_elements(classes, classes)
    return lookup(b, np.eye(classes, dtype=np.float32), 0, indices)


def take_all(b: Builder, x: Any, dim: int, indices: Any) -> Map:
    """Return the elements at constant or computed indices along the axis `dim`, which the axes of `indices` replace."""
    if isinstance(indices, Map):
        return lookup(b, x, dim, indices)
    dim = normalised_axis(len(x.axes), dim)
    if indices.ndim == 0:
        return select(b, x, dim, int(indices))
    y = take(b, x, dim, indices.ravel())
    return y if indices.ndim == 1 else view(b, y, (*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :]))


def mixed(b: Builder, x: Map, dim: int, weights: np.ndarray) -> Map:
    """Multiply the elements along the axis `dim` with a constant matrix `weights`, [outputs, inputs]."""
    dim = normalised_axis(len(x.axes), dim)
    order, _, dims = ordered_tensor(b, x)
    at = order.index(dim)
    if at == len(order) - 1:
        return permute(b, linear(b, permute(b, x, order), weights), np.argsort(order).tolist())
    axes = with_axis(x.axes, dim, b.new_axis(len(weights)))
    outer, inner = flattened(dims[:at]), flattened(dims[at + 1 :])
    operands = (b.constant(weights[None], "weight"), b.tensor(x, (outer, dims[at], inner)))
    return b.map("batch_matmul", operands, axes, (outer, axes[dim], inner), {"adj_x": False, "adj_y": False})


def slice_scatter(
    b: Builder, x: Any, source: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Map:
    """Import aten.slice_scatter: replace the slice [start, end) of the axis `dim` of `x` by `source`; steps become a gather."""
    extent = x.shape[normalised_axis(len(x.shape), dim)]
    begin, stop, _ = slice(start, end).indices(extent)
    if step != 1:
        places = np.arange(extent)
        places[begin:stop:step] = range(extent, extent + source.shape[dim])
        return take(b, concatenation(b, [x, source], dim), dim, places)

    def part(first: int, last: int) -> list[Any]:
        whole = slice_(b, x, dim, first, last) if isinstance(x, Map) and first < last else x
        return [whole if isinstance(whole, Map) else whole.take(range(first, last), dim)] if first < last else []

    return concatenation(b, [*part(0, begin), source, *part(stop, extent)], dim)


def select_scatter(b: Builder, x: Any, source: Any, dim: int, index: int) -> Map:
    """Import aten.select_scatter: replace the elements of `x` at `index` of the axis `dim` by `source`, without this axis."""
    at = normalised_axis(x.shape[dim], index, "index")
    joined = unsqueeze(b, source, dim) if isinstance(source, Map) else np.expand_dims(source, dim)
    return slice_scatter(b, x, joined, dim, at, at + 1)


def select(b: Builder, x: Map, dim: int, index: int) -> Map:
    """Import aten.select: return the elements at `index` of the axis `dim`, without this axis."""
    dim = normalised_axis(len(x.axes), dim)
    index = normalised_axis(x.shape[dim], index, "index")
    return squeeze(b, slice_(b, x, dim, index, index + 1), dim)


# padding mode -> function of the indices beyond an axis and of its extent that returns the indices that are copied
REPEATS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "replicate": lambda at, extent: np.clip(at, 0, extent - 1),
    "circular": lambda at, extent: at % extent,
}


def pad(b: Builder, x: Map, pads: Sequence[int], mode: str = "constant", value: float | None = None) -> Map:
    """Import aten.pad as pad, padv2, mirror_pad or gathers; `pads` is (before, after) from the last axis on, and may crop."""
    pairs = list(zip(pads[::2], pads[1::2], strict=True))[::-1]  # ATen lists the last axis first
    amounts = [(0, 0)] * (len(x.axes) - len(pairs)) + pairs
    for dim, (before, after) in enumerate(amounts):
        x = slice_(b, x, dim, max(-before, 0), max(x.shape[dim] + min(after, 0), 0))
    amounts = [(max(before, 0), max(after, 0)) for before, after in amounts]
    most = max(map(max, amounts), default=0)
    if most == 0:
        return x
    replicates_one = mode == "replicate" and most <= 1
    if mode in REPEATS and not replicates_one:
        for dim, (before, after) in enumerate(amounts):
            extent = x.shape[dim]
            check_elements(before + extent + after)
            x = take(b, x, dim, REPEATS[mode](np.arange(-before, extent + after), extent))
        return x
    if mode not in ("constant", "reflect", *REPEATS):
        raise Unsupported(f"its padding mode '{mode}' is unknown; use constant, reflect, replicate or circular")
    order, name, _ = ordered_tensor(b, x)
    kind = "mirror_pad" if mode != "constant" else "padv2" if value else "pad"
    axes = tuple(b.new_axis(s + sum(a)) if any(a) else g for s, g, a in zip(x.shape, x.axes, amounts, strict=True))
    operands = [name, b.integers([amounts[a] for a in order], "pads")]
    operands += [b.constant([value], "value")] if kind == "padv2" else []
    attrs = {"mode": "symmetric" if replicates_one else "reflect"} if kind == "mirror_pad" else {}
    return b.map(kind, operands, axes, [axes[a] for a in order], attrs)


def flatten(b: Builder, x: Map, start: int = 0, end: int = -1) -> Map:
    """Import aten.flatten of the axes start to end, inclusive, into one logical axis. It adds no op."""
    rank = max(len(x.axes), 1)
    start, end = normalised_axis(rank, start), normalised_axis(rank, end)
    return Map(x.tensor, (*x.axes[:start], flattened(x.axes[start : end + 1]), *x.axes[end + 1 :]), x.dims)


def unflatten(b: Builder, x: Map, dim: int, sizes: Sequence[int]) -> Map:
    """Import aten.unflatten: split the axis `dim` into axes of the extents `sizes`, of which one may be -1."""
    dim = normalised_axis(len(x.axes), dim)
    return view(b, x, (*x.shape[:dim], *_sizes(x.shape[dim], sizes), *x.shape[dim + 1 :]))


def _sizes(extent: int, sizes: Sequence[int]) -> list[int]:
    """Return the extents into which an axis of `extent` is split; an entry of -1 in `sizes` is inferred."""
    known = prod(size for size in sizes if size != -1)
    found = [extent // known if size == -1 else size for size in sizes] if known > 0 else []
    if min(found, default=0) < 1 or prod(found) != extent:
        raise Unsupported(f"{extent} cannot be split into {list(sizes)}")
    return found


def permute(b: Builder, x: Map, dims: Sequence[int]) -> Map:
    """Import aten.permute by reordering the logical axes. It adds no op."""
    dims = [normalised_axis(len(x.axes), dim) for dim in dims]
    if sorted(dims) != list(range(len(x.axes))):
        raise Unsupported(f"its axes {dims} are not a permutation of {len(x.axes)} axes; the file may be damaged")
    return Map(x.tensor, tuple(x.axes[dim] for dim in dims), x.dims)


def transpose(b: Builder, x: Map, one: int, two: int) -> Map:
    """Import aten.transpose by swapping two logical axes. It adds no op."""
    axes = list(x.axes)
    one, two = normalised_axis(len(axes), one), normalised_axis(len(axes), two)
    axes[one], axes[two] = axes[two], axes[one]
    return Map(x.tensor, tuple(axes), x.dims)


def movedim(b: Builder, x: Map, source: Any, destination: Any) -> Map:
    """Import aten.movedim: move each axis in `source` to its place in `destination`; the others keep their order."""
    rank = len(x.axes)
    places, moved = ([normalised_axis(rank, axis) for axis in np.atleast_1d(each)] for each in (destination, source))
    left, taken = iter(axis for axis in range(rank) if axis not in moved), dict(zip(places, moved, strict=True))
    return permute(b, x, [taken[axis] if axis in taken else next(left) for axis in range(rank)])


def squeeze(b: Builder, x: Map, dim: Any = None) -> Map:
    """Import aten.squeeze: remove logical axes of extent 1, by default all. Other axes in `dim` stay. It adds no op."""
    gone = axis_set(x, dim)
    return Map(x.tensor, tuple(group for d, group in enumerate(x.axes) if d not in gone or group), x.dims)


def unsqueeze(b: Builder, x: Map, dim: int) -> Map:
    """Import aten.unsqueeze: add a logical axis of extent 1 at `dim`. It adds no op."""
    at = normalised_axis(len(x.axes) + 1, dim)
    return Map(x.tensor, (*x.axes[:at], (), *x.axes[at:]), x.dims)


def channel_shuffle(b: Builder, x: Map, groups: int) -> Map:
    """Import aten.channel_shuffle by reordering logical axes. The next op that reads the map adds a gather."""
    n, c, *rest = x.shape
    parts = view(b, x, (n, groups, c // groups, *rest))
    return view(b, transpose(b, parts, 1, 2), (n, c, *rest))


def identity(b: Builder, x: Map, *_: Any, **__: Any) -> Map:
    """Import an op that returns its first input unchanged, such as aten.contiguous; other arguments are ignored."""
    return x


SAME = """None True False cpu torch.float32 torch.strided torch.contiguous_format torch.preserve_format
torch.channels_last""".split()
INTEGERS = ("torch.int32", "torch.int64")  # types of indices


def to(b: Builder, x: Map, *where: Any, **more: Any) -> Map:
    """Import aten.to as the identity, for a device, a memory format, or int32 to int64; other dtypes are refused."""
    integers = INTEGERS if b.tensors[x.tensor].dtype == "int32" else ()
    if not {str(each) for each in (*where, *more.values())} <= {*SAME, *integers}:
        raise Unsupported("it converts to another dtype; only float32 is supported")
    return as_floats(b, x)


def dropout(b: Builder, x: Map, p: float, train: bool) -> Map:
    """Import aten.dropout in evaluation mode as the identity."""
    if train:
        raise Unsupported("it is in training mode; call eval() first")
    return x
