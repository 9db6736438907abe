"""From channels first to channels last without transposes: where the elements of a map lie, and a graph that grows op by op.

In: ops of a framework that works on maps [n, c, h, w]. Out: ops of TFLite, which work on [n, h, w, c]. A Map says of which Axes
each logical axis is made and in which order these lie in memory, so views, permutations and flattening cost nothing. An op asks
for the order that it needs; what lies in another one is put right in constants, by a reshape, or, within one axis (a channel
shuffle), by a gather. What only a transpose could put right is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..ir import Graph, Op, Tensor
from .steps import STEPS, Unsupported, as_tensor

# Bounds on what a damaged file can ask for, each several times what real networks need.
MOST_ELEMENTS = 1 << 26  # of a tensor
MOST_OUTPUTS = 1 << 11  # of an op


class Unread(NamedTuple):
    """Stands for a result that TFLite's op does not give: why."""

    why: str


class Axis(NamedTuple):
    """What is never torn apart: a run of elements with even steps. Extents of 1 have none."""

    number: int
    extent: int


Axes = tuple[Axis, ...]


@dataclass(frozen=True, eq=False)
class Map:
    """A tensor of the graph. axes: what each logical axis is made of, outermost first; dims: what each of the tensor's is."""

    tensor: str
    axes: tuple[Axes, ...]
    dims: tuple[Axes, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the logical shape, that of the frame."""
        return extents(self.axes)

    @property
    def order(self) -> Axes:
        return flat(self.dims)


def extents(groups: Iterable[Axes]) -> tuple[int, ...]:
    return tuple(prod(axis.extent for axis in group) for group in groups)


def flat(groups: Iterable[Axes]) -> Axes:
    return tuple(axis for group in groups for axis in group)


def orders(rank: int) -> list[tuple[int, ...]]:
    """Return the orders in which logical axes may lie, the usual one first: channels last, or as they are."""
    natural = tuple(range(rank))
    return [natural] if rank < 3 else [(0, *range(2, rank), 1), natural]


@dataclass
class Builder:
    """A graph that grows op by op. `where` is what the tensors are called after."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    init: list[Op] = field(default_factory=list)
    where: str = ""
    _moved: dict[tuple[str, tuple[Axes, ...]], str] = field(default_factory=dict)
    _axes: int = 0

    def fresh(self, extent: int) -> Axes:
        """Return the Axes of a new axis."""
        self._axes += 1
        return (Axis(self._axes, extent),) if extent != 1 else ()

    def name(self, suffix: str = "") -> str:
        base = f"{self.where}.{suffix}" if suffix else self.where
        names = itertools.chain([base], (f"{base}_{count}" for count in itertools.count(2)))
        return next(name for name in names if name not in self.tensors)

    def add(self, tensor: Tensor) -> str:
        if tensor.elements > MOST_ELEMENTS:
            raise Unsupported(f"a tensor of {tensor.elements:,} elements is more than any microcontroller has room for")
        self.tensors[tensor.name] = tensor
        return tensor.name

    def constant(self, values: Any, suffix: str = "constant", dtype: str = "float32") -> str:
        if getattr(values, "dtype", None) == STEPS:
            return self.add(as_tensor(self.name(suffix), values))
        data = np.asarray(values, dtype, order="C")
        return self.add(Tensor(self.name(suffix), data.shape, dtype, None, data, "constant"))

    def integers(self, values: Any, suffix: str) -> str:
        return self.constant(np.atleast_1d(values), suffix, "int32")

    def state(self, shape: tuple[int, ...], suffix: str) -> str:
        """Return a tensor that keeps its value, at first 0."""
        name = self.add(Tensor(self.name(suffix), shape, "float32", role="state"))
        first = self.constant(np.zeros(shape), f"{suffix}.initial")
        self.init.append(Op(f"init_{name}", "assign_variable", (first,), (name,)))
        return name

    def op(
        self,
        kind: str,
        inputs: Sequence[str | None],
        shapes: Sequence[tuple[int, ...]],
        attrs: Mapping[str, Any],
        suffix: str = "",
        *,
        states: Sequence[str] = (),
    ) -> list[str]:
        """Add an op, which also changes `states`; return the names of its outputs."""
        if len(shapes) > MOST_OUTPUTS:
            raise Unsupported(f"it has {len(shapes):,} parts or steps; at most {MOST_OUTPUTS:,} are supported")
        outputs = [self.add(Tensor(self.name(suffix), shape, "float32")) for shape in shapes]
        self.ops.append(Op(f"{kind}_{len(self.ops)}", kind, tuple(inputs), (*outputs, *states), dict(attrs)))
        return outputs

    def map(
        self,
        kind: str,
        inputs: Sequence[str | None],
        axes: Sequence[Axes],
        dims: Sequence[Axes],
        attrs: Mapping[str, Any] | None = None,
        *,
        suffix: str = "",
    ) -> Map:
        """Add an op with one output, made of these Axes."""
        (name,) = self.op(kind, inputs, [extents(dims)], attrs or {}, suffix)
        return Map(name, tuple(axes), tuple(dims))

    def like(self, kind: str, x: Map, *more: str, **attrs: Any) -> Map:
        """Add an op on a map whose output lies as the map does."""
        return self.map(kind, (x.tensor, *more), x.axes, x.dims, attrs)

    def tensor(self, x: Map, dims: Sequence[Axes]) -> str:
        """Return the map as a tensor whose axes are `dims`; raise Unsupported where that takes a transpose."""
        dims = tuple(dims)
        if dims == x.dims:
            return x.tensor
        if (x.tensor, dims) not in self._moved:
            self._moved[x.tensor, dims] = self._shaped(x, dims)
        return self._moved[x.tensor, dims]

    def _shaped(self, x: Map, dims: tuple[Axes, ...]) -> str:
        name = x.tensor
        for index, (slot, group) in enumerate(zip(slots(x, dims), dims, strict=True)):
            if slot != group:
                shape = extents(dims)
                name = self.reshaped(name, shape)
                here = np.arange(shape[index]).reshape([axis.extent for axis in slot])
                places = self.integers(here.transpose([slot.index(axis) for axis in group]).ravel(), "places")
                (name,) = self.op("gather", (name, places), [shape], {"axis": index, "batch_dims": 0}, "shuffled")
        return self.reshaped(name, extents(dims))

    def reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        if self.tensors[name].shape == shape:
            return name
        (name,) = self.op("reshape", (name, self.integers(shape, "shape")), [shape], {"new_shape": shape}, "reshaped")
        return name

    def graph(self, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        return Graph(name, self.tensors, tuple(self.ops), tuple(inputs), tuple(outputs), tuple(self.init))


def slots(x: Map, dims: Sequence[Axes]) -> list[Axes]:
    """Return the Axes that lie in memory where those of `dims` are wanted: the same per group, maybe in another order."""
    order = iter(x.order)
    found = [tuple(itertools.islice(order, len(group))) for group in dims]
    if any(set(slot) != set(group) for slot, group in zip(found, dims, strict=True)):
        raise Unsupported("its input lies in another order: it would need a transpose inside of the network")
    return found


def arranged(*maps: Map) -> tuple[int, ...]:
    """Return an order of the logical axes in which all maps lie, at best as they are; Unsupported if there is none."""
    possible = orders(len(maps[0].axes))
    for order in possible:
        if all(flat(x.axes[axis] for axis in order) == x.order for x in maps):
            return order
    for order in possible:
        with suppress(Unsupported):
            for x in maps:
                slots(x, [x.axes[axis] for axis in order])
            return order
    raise Unsupported("its inputs lie in different orders: it would need a transpose inside of the network")


def alike(a: Map, b: Map) -> bool:
    """Return whether two maps of one logical shape lie in the same way, whatever their Axes are called."""

    def pattern(x: Map) -> list[list[list[tuple[int, int]]]]:
        place = {axis: (index, axis.extent) for index, axis in enumerate(x.order)}
        return [[[place[axis] for axis in group] for group in groups] for groups in (x.axes, x.dims)]

    return pattern(a) == pattern(b)


def viewed(b: Builder, x: Map, shape: Sequence[int]) -> Map:
    """Return the map with another logical shape; no op is needed unless the tensor's own axes must be joined."""
    known = prod(extent for extent in shape if extent != -1)
    shape = [prod(x.shape) // max(known, 1) if extent == -1 else extent for extent in shape]
    if min(shape, default=1) < 0 or prod(shape) != prod(x.shape):
        raise Unsupported(f"its shape {shape} has not as many elements as the map {list(x.shape)}")
    for same in (lambda: x, lambda: _joined(b, x), lambda: _straightened(b, x)):
        if (split := _regrouped(b, same(), shape)) is not None:
            return split
    raise Unsupported(f"a view {list(x.shape)} -> {shape} of what lies in another order would need a transpose")


def _regrouped(b: Builder, x: Map, shape: Sequence[int]) -> Map | None:
    """Return the map with its Axes split where the shape wants it; None where the shape joins parts of them."""
    left, groups = list(flat(x.axes)), []
    splits: dict[Axis, Axes] = {}
    for extent in shape:
        group: list[Axis] = []
        while extent > 1:
            axis = left.pop(0)
            if axis.extent > extent and axis.extent % extent == 0:
                outer, inner = *b.fresh(extent), *b.fresh(axis.extent // extent)
                splits[axis] = (outer, inner)
                left.insert(0, inner)
                axis = outer
            elif extent % axis.extent:
                return None
            group.append(axis)
            extent //= axis.extent
        groups.append(tuple(group))

    def parts(axis: Axis) -> Axes:
        return flat(parts(part) for part in splits[axis]) if axis in splits else (axis,)

    return Map(x.tensor, tuple(groups), tuple(flat(map(parts, dim)) for dim in x.dims))


def _joined(b: Builder, x: Map) -> Map:
    """Return the map with neighbours that are neighbours in memory, too, as one Axis each, and these as the tensor's axes."""
    order, runs = x.order, list[list[Axis]]()
    follows = set(itertools.pairwise(order))
    for axis in flat(x.axes):
        if runs and (runs[-1][-1], axis) in follows:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    joined = {run[0]: b.fresh(prod(axis.extent for axis in run)) for run in runs}
    dims = tuple(joined[axis] for axis in order if axis in joined)
    return Map(b.reshaped(x.tensor, extents(dims)), tuple(joined[run[0]] for run in runs), dims)


def _straightened(b: Builder, x: Map) -> Map:
    """Return the map with one Axis per logical axis."""
    order, axes = arranged(x), tuple(map(b.fresh, x.shape))
    return Map(b.tensor(x, [x.axes[axis] for axis in order]), axes, tuple(axes[axis] for axis in order))


def placed(x: Map, values: np.ndarray) -> np.ndarray:
    """Return a constant that is broadcast to the map, as it lies beside the map's tensor; leading ones are left out."""
    values = values.reshape((1,) * (len(x.axes) - values.ndim) + values.shape)
    split = [axis.extent if extent != 1 else 1 for extent, group in zip(values.shape, x.axes, strict=True) for axis in group]
    logical = flat(x.axes)
    moved = values.reshape(split).transpose([logical.index(axis) for axis in x.order])
    left = iter(moved.shape)
    parts = [tuple(itertools.islice(left, len(dim))) for dim in x.dims]
    # an axis of which some is broadcast is written out whole
    wholes = [part if set(part) <= {1} else tuple(axis.extent for axis in dim) for part, dim in zip(parts, x.dims, strict=True)]
    shape = list(itertools.dropwhile(lambda extent: extent == 1, map(prod, wholes)))
    return np.broadcast_to(moved, [extent for whole in wholes for extent in whole]).reshape(shape or (1,) * bool(x.dims))
