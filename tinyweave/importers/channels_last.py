"""Convert channels-first networks to channels last without transposes.

In: ops of a framework whose feature maps are [n, c, h, w]. Out: ops of TFLite, whose maps are [n, h, w, c]. A Map records
which Axes each logical axis consists of and in which order they lie in memory. Views, permutations and flattening therefore
need no op. If an op needs another memory layout, constants are permuted, or a reshape is inserted, or a gather within one axis
(a channel shuffle). A layout that only a transpose could give is refused.
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
from .quantised_constants import QUANTISED_DTYPE, as_tensor
from .unsupported import Unsupported

# Limits on what a damaged file can ask for, each several times what real networks need.
MAX_ELEMENTS = 1 << 26  # per tensor
MAX_OUTPUTS = 1 << 11  # per op


class Unavailable(NamedTuple):
    """Placeholder for an op output that the TFLite op does not compute. `why` is the refusal if a later op reads it."""

    why: str


class Axis(NamedTuple):
    """A run of `extent` elements with constant stride in memory, all or part of a logical axis; `number` identifies it.

    A logical axis has one or more of them, or none if its extent is 1.
    """

    number: int
    extent: int


Axes = tuple[Axis, ...]
Names = Sequence[str | None]  # of input tensors; None: an optional input that is absent
Attrs = Mapping[str, Any] | None
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Map:
    """A tensor of the graph with its logical shape in the framework; an axis of extent 1 consists of no Axis."""

    tensor: str  # its name in the graph
    axes: tuple[Axes, ...]  # for each logical axis, the Axes that it consists of, outermost first
    dims: tuple[Axes, ...]  # the same for each axis of the tensor in the graph

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape, as the framework sees it."""
        return extents(self.axes)

    @property
    def order(self) -> Axes:
        """All Axes in memory order, outermost first."""
        return flattened(self.dims)


def extents(groups: Iterable[Axes]) -> tuple[int, ...]:
    """Return the shape whose axes consist of these groups of Axes."""
    return tuple(prod(axis.extent for axis in group) for group in groups)


def flattened(groups: Iterable[Axes]) -> Axes:
    """Return all Axes of several groups in one tuple."""
    return tuple(axis for group in groups for axis in group)


def memory_orders(rank: int) -> list[tuple[int, ...]]:
    """Return the memory orders to try for logical axes [n, c, ...]: channels last first, then the axes as they are."""
    natural = tuple(range(rank))
    return [natural] if rank < 3 else [(0, *range(2, rank), 1), natural]


@dataclass
class Builder:
    """A graph under construction."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    init: list[Op] = field(default_factory=list)
    where: str = ""  # the module or node that is being imported; new tensors are named after it
    _moved: dict[tuple[str, tuple[Axes, ...]], str] = field(default_factory=dict)
    _axes: int = 0

    def new_axis(self, extent: int) -> Axes:
        """Return a new Axis of this extent as a group, or an empty group if the extent is 1."""
        self._axes += 1
        return (Axis(self._axes, extent),) if extent != 1 else ()

    def name(self, suffix: str = "") -> str:
        """Return a tensor name that is not in use, made of `where` and the suffix."""
        base = f"{self.where}.{suffix}" if suffix else self.where
        names = itertools.chain([base], (f"{base}_{count}" for count in itertools.count(2)))
        return next(name for name in names if name not in self.tensors)

    def add(self, tensor: Tensor) -> str:
        """Add a tensor to the graph and return its name; raise Unsupported if it has more than MAX_ELEMENTS elements."""
        if tensor.elements > MAX_ELEMENTS:
            raise Unsupported(f"it needs a tensor of {tensor.elements:,} elements; at most {MAX_ELEMENTS:,} are supported")
        self.tensors[tensor.name] = tensor
        return tensor.name

    def constant(self, values: Any, suffix: str = "constant", dtype: str = "float32") -> str:
        """Add a constant tensor and return its name. A quantised constant keeps its integers, scales and zero points."""
        if getattr(values, "dtype", None) == QUANTISED_DTYPE:
            return self.add(as_tensor(self.name(suffix), values))
        data = np.asarray(values, dtype, order="C")
        return self.add(Tensor(self.name(suffix), data.shape, dtype, None, data, "constant"))

    def integers(self, values: Any, suffix: str) -> str:
        """Add an int32 constant, such as a shape or a list of axes, and return its name."""
        return self.constant(np.atleast_1d(values), suffix, "int32")

    def state(self, shape: tuple[int, ...], suffix: str) -> str:
        """Add a state tensor that is initialised with zeros, and return its name."""
        name = self.add(Tensor(self.name(suffix), shape, "float32", role="state"))
        first = self.constant(np.zeros(shape), f"{suffix}.initial")
        self.init.append(Op(f"init_{name}", "assign_variable", (first,), (name,)))
        return name

    def op(
        self, kind: str, inputs: Names, shapes: Sequence[Shape], attrs: Attrs, suffix: str = "", *, states: Sequence[str] = ()
    ) -> list[str]:
        """Add an op with one output per shape and return the outputs' names; `states` are state tensors that it changes."""
        if len(shapes) > MAX_OUTPUTS:
            raise Unsupported(f"it has {len(shapes):,} outputs or time steps; at most {MAX_OUTPUTS:,} are supported")
        outputs = [self.add(Tensor(self.name(suffix), shape, "float32")) for shape in shapes]
        self.ops.append(Op(f"{kind}_{len(self.ops)}", kind, tuple(inputs), (*outputs, *states), dict(attrs or {})))
        return outputs

    def map(
        self, kind: str, inputs: Names, axes: Sequence[Axes], dims: Sequence[Axes], attrs: Attrs = None, *, suffix: str = ""
    ) -> Map:
        """Add an op with one output and return the output as a Map with these logical axes and tensor axes."""
        (name,) = self.op(kind, inputs, [extents(dims)], attrs, suffix)
        return Map(name, tuple(axes), tuple(dims))

    def like(self, kind: str, x: Map, *more: str, **attrs: Any) -> Map:
        """Add an op whose output has the shape and the memory layout of `x`; `more` are further input tensors."""
        return self.map(kind, (x.tensor, *more), x.axes, x.dims, attrs)

    def tensor(self, x: Map, dims: Sequence[Axes]) -> str:
        """Return the name of a tensor with the elements of `x` and the axes `dims`; add a reshape or gather if needed.

        Raise Unsupported if only a transpose could give this layout.
        """
        dims = tuple(dims)
        if dims == x.dims:
            return x.tensor
        if (x.tensor, dims) not in self._moved:
            self._moved[x.tensor, dims] = self._reordered(x, dims)
        return self._moved[x.tensor, dims]

    def _reordered(self, x: Map, dims: tuple[Axes, ...]) -> str:
        name = x.tensor
        for index, (slot, group) in enumerate(zip(current_groups(x, dims), dims, strict=True)):
            if slot != group:
                shape = extents(dims)
                name = self.reshape(name, shape)
                positions = np.arange(shape[index]).reshape([axis.extent for axis in slot])
                indices = self.integers(positions.transpose([slot.index(axis) for axis in group]).ravel(), "places")
                (name,) = self.op("gather", (name, indices), [shape], {"axis": index, "batch_dims": 0}, "shuffled")
        return self.reshape(name, extents(dims))

    def reshape(self, name: str, shape: tuple[int, ...]) -> str:
        """Reshape a tensor if its shape is another one, and return the name of the result."""
        if self.tensors[name].shape == shape:
            return name
        (name,) = self.op("reshape", (name, self.integers(shape, "shape")), [shape], {"new_shape": shape}, "reshaped")
        return name

    def graph(self, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """Return the finished graph."""
        return Graph(name, self.tensors, tuple(self.ops), tuple(inputs), tuple(outputs), tuple(self.init))


def current_groups(x: Map, dims: Sequence[Axes]) -> list[Axes]:
    """Return for each group in `dims` its Axes in memory order; raise Unsupported if the groups are in another order."""
    order = iter(x.order)
    current = [tuple(itertools.islice(order, len(group))) for group in dims]
    if any(set(slot) != set(group) for slot, group in zip(current, dims, strict=True)):
        raise Unsupported("its input has another memory layout: it would need a transpose inside the network")
    return current


def common_order(*maps: Map) -> tuple[int, ...]:
    """Return an order of the logical axes in which all maps can be read without a transpose, or raise Unsupported.

    The memory order of all maps is preferred to an order that needs a gather.
    """
    possible = memory_orders(len(maps[0].axes))
    for order in possible:
        if all(flattened(x.axes[axis] for axis in order) == x.order for x in maps):
            return order
    for order in possible:
        with suppress(Unsupported):
            for x in maps:
                current_groups(x, [x.axes[axis] for axis in order])
            return order
    one = "its input is neither channels last nor in axis order"
    why = one if len(maps) == 1 else "its inputs have different memory layouts"
    raise Unsupported(f"{why}: it would need a transpose inside the network")


def same_layout(a: Map, b: Map) -> bool:
    """Return whether two maps of equal logical shape also have equal memory layouts."""

    def pattern(x: Map) -> list[list[list[tuple[int, int]]]]:
        place = {axis: (index, axis.extent) for index, axis in enumerate(x.order)}
        return [[[place[axis] for axis in group] for group in groups] for groups in (x.axes, x.dims)]

    return pattern(a) == pattern(b)


def view(b: Builder, x: Map, shape: Sequence[int]) -> Map:
    """Return the map with another logical shape, of which one extent may be -1; raise Unsupported if it needs a transpose.

    An op is added only if axes of the tensor must be merged.
    """
    known = prod(extent for extent in shape if extent != -1)
    shape = [prod(x.shape) // max(known, 1) if extent == -1 else extent for extent in shape]
    if min(shape, default=1) < 0 or prod(shape) != prod(x.shape):
        raise Unsupported(f"its shape {shape} and the map {list(x.shape)} differ in their number of elements")
    for prepare in (lambda b, x: x, _merge_adjacent, _one_axis_each):
        if (result := _split_axes(b, prepare(b, x), shape)) is not None:
            return result
    raise Unsupported(f"a view {list(x.shape)} -> {shape} would need a transpose inside the network")


def _split_axes(b: Builder, x: Map, shape: Sequence[int]) -> Map | None:
    """Split Axes of the map to match the shape; return None if an extent of the shape would need a part of several Axes."""
    left, groups = list(flattened(x.axes)), []
    splits: dict[Axis, Axes] = {}
    for extent in shape:
        group: list[Axis] = []
        while extent > 1:
            axis = left.pop(0)
            if axis.extent > extent and axis.extent % extent == 0:
                outer, inner = *b.new_axis(extent), *b.new_axis(axis.extent // extent)
                splits[axis] = (outer, inner)
                left.insert(0, inner)
                axis = outer
            elif extent % axis.extent:
                return None
            group.append(axis)
            extent //= axis.extent
        groups.append(tuple(group))

    def parts(axis: Axis) -> Axes:
        return flattened(parts(part) for part in splits[axis]) if axis in splits else (axis,)

    return Map(x.tensor, tuple(groups), tuple(flattened(map(parts, dim)) for dim in x.dims))


def _merge_adjacent(b: Builder, x: Map) -> Map:
    """Merge Axes that are adjacent both logically and in memory."""
    order, runs = x.order, list[list[Axis]]()
    follows = set(itertools.pairwise(order))
    for axis in flattened(x.axes):
        if runs and (runs[-1][-1], axis) in follows:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    joined = {run[0]: b.new_axis(prod(axis.extent for axis in run)) for run in runs}
    dims = tuple(joined[axis] for axis in order if axis in joined)
    return Map(b.reshape(x.tensor, extents(dims)), tuple(joined[run[0]] for run in runs), dims)


def _one_axis_each(b: Builder, x: Map) -> Map:
    """Rearrange the map so that each logical axis consists of one Axis."""
    order, axes = common_order(x), tuple(map(b.new_axis, x.shape))
    return Map(b.tensor(x, [x.axes[axis] for axis in order]), axes, tuple(axes[axis] for axis in order))


def in_layout(x: Map, values: np.ndarray) -> np.ndarray:
    """Permute a constant that broadcasts to the map to the map's memory layout, without leading axes of extent 1."""
    logical_shape: tuple[int, ...] = (1,) * (len(x.axes) - values.ndim) + values.shape
    split = [axis.extent if extent != 1 else 1 for extent, group in zip(logical_shape, x.axes, strict=True) for axis in group]
    logical = flattened(x.axes)
    moved = values.reshape(split).transpose([logical.index(axis) for axis in x.order])
    left = iter(moved.shape)
    parts = [tuple(itertools.islice(left, len(dim))) for dim in x.dims]
    # an axis that is broadcast only in part is written out in full
    wholes: list[tuple[int, ...]] = [
        part if set(part) <= {1} else tuple(axis.extent for axis in dim) for part, dim in zip(parts, x.dims, strict=True)
    ]
    shape = [prod(whole) for whole in wholes]
    while shape and shape[0] == 1:
        shape = shape[1:]
    return np.broadcast_to(moved, [extent for whole in wholes for extent in whole]).reshape(shape or (1,) * bool(x.dims))
