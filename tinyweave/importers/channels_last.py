"""Convert channels-first networks to channels last without transposes.

In: ops of a framework whose feature maps are [n, c, h, w]. Out: ops of TFLite, whose maps are [n, h, w, c]. A Map describes a
tensor twice: by the logical axes that the framework sees, and by the axes of the stored tensor. Both are built from the same
indivisible units, called Axis. A view, a permutation or a flattening only changes the logical axes, so it needs no op.

If an op needs another memory layout, a constant is permuted, or the Builder adds a reshape, or a gather within one axis (a
channel shuffle). If only a transpose could give the layout, the op is refused, unless the Builder has `transposes`.
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
from ..ops import SPECS
from .quantised_constants import QUANTISED_DTYPE, as_tensor
from .unsupported import Unsupported

# Limits on what a damaged file can ask for, each several times what real networks need.
MAX_ELEMENTS = 1 << 26  # elements of a tensor
MAX_OUTPUTS = 1 << 11  # outputs of an op
READ_BOOLS = ("select_v2",)  # op kinds that take bools, beside comparisons and kinds that move elements
BYTES = ("int8", "uint8")  # types of network inputs, such as images, that keep their type until they are cast to float32


MAX_COMPUTED = 1 << 24  # elements of an array of indices or weights that an importer function computes


def check_elements(*extents: int) -> None:
    """Raise Unsupported if an array of these extents, which an importer function is about to compute, is too large."""
    if prod(extents) > MAX_COMPUTED:
        raise Unsupported(f"it needs an array of {prod(extents):,} elements; at most {MAX_COMPUTED:,} are supported")


class Unavailable(NamedTuple):
    """A placeholder for an output that the TFLite op does not compute; an op that reads it is refused with the reason `why`."""

    why: str


class Axis(NamedTuple):
    """An indivisible unit of a shape: `extent` elements at a constant distance in memory; `number` identifies it."""

    number: int
    extent: int


Axes = tuple[Axis, ...]
Names = Sequence[str | None]  # names of an op's input tensors; None is an absent optional input
Attrs = Mapping[str, Any] | None
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Map:
    """A tensor, with the logical axes that the framework sees and the stored axes `dims`: tuples of Axis, () for extent 1."""

    tensor: str  # its name in the graph
    axes: tuple[Axes, ...]  # a group for each logical axis; within a group the outermost Axis is first
    dims: tuple[Axes, ...]  # a group for each axis of the tensor in the graph

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape: the shape that the framework sees."""
        return extents(self.axes)

    @property
    def order(self) -> Axes:
        """All Axis units in memory order, outermost first."""
        return flattened(self.dims)


def extents(groups: Iterable[Axes]) -> tuple[int, ...]:
    """Return a shape from its groups of Axis units: one extent per group, the product of the group's extents."""
    return tuple(prod(axis.extent for axis in group) for group in groups)


def flattened(groups: Iterable[Axes]) -> Axes:
    """Concatenate groups of Axis units into one tuple."""
    return tuple(axis for group in groups for axis in group)


def memory_orders(rank: int) -> list[tuple[int, ...]]:
    """Return the orders of the axes [n, c, ...] that memory may have, as permutations; from rank 3 on channels last first."""
    natural = tuple(range(rank))
    return [natural] if rank < 3 else [(0, *range(2, rank), 1), natural]


@dataclass
class Builder:
    """A graph under construction. Its methods append tensors and ops, and return tensor names or Maps."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    init: list[Op] = field(default_factory=list)  # ops that assign the initial values of states
    where: str = ""  # the module or node that is being imported; new tensors are named after it
    transposes: bool = False  # whether a transpose is added where only a transpose can give a layout
    converted: dict[tuple[str, float, int], str] = field(default_factory=dict)  # 8-bit tensor, scale, zero point -> as float32
    _moved: dict[tuple[str, tuple[Axes, ...]], str] = field(default_factory=dict)  # (tensor, layout) -> tensor
    _axes: int = 0  # number of Axis units so far

    def new_axis(self, extent: int) -> Axes:
        """Return a group with one new Axis of this extent, or the empty group if the extent is 1."""
        self._axes += 1
        return (Axis(self._axes, extent),) if extent != 1 else ()

    def name(self, suffix: str = "") -> str:
        """Return an unused tensor name, `<where>.<suffix>`; a number is appended if that name is taken."""
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
        """Add a constant and return its name; an array of QUANTISED_DTYPE stays quantised, others become `dtype`."""
        if getattr(values, "dtype", None) == QUANTISED_DTYPE:
            return self.add(as_tensor(self.name(suffix), values))
        data = np.asarray(values, dtype, order="C")
        return self.add(Tensor(self.name(suffix), data.shape, dtype, None, data, "constant"))

    def integers(self, values: Any, suffix: str) -> str:
        """Add an int32 constant, such as a shape or a list of axes, and return its name."""
        return self.constant(np.atleast_1d(values), suffix, "int32")

    def state(self, shape: tuple[int, ...], suffix: str, values: Any = 0.0) -> str:
        """Add a state tensor that is initialised with `values`, which broadcast to `shape`, and return its name."""
        name = self.add(Tensor(self.name(suffix), shape, "float32", role="state"))
        first = self.constant(np.broadcast_to(values, shape), f"{suffix}.initial")
        self.init.append(Op(f"init_{name}", "assign_variable", (first,), (name,)))
        return name

    def op(
        self,
        kind: str,
        inputs: Names,
        shapes: Sequence[Shape],
        attrs: Attrs,
        suffix: str = "",
        *,
        states: Sequence[str] = (),
        dtype: str = "",
    ) -> list[str]:
        """Append an op with one new output per shape in `shapes`, and return the names of these outputs.

        `dtype` is their type, by default bool for comparisons, the operand's type for ops that move bools or 8-bit integers,
        else float32. `states` are existing state tensors that the op changes; they become outputs of the op, too.
        """
        if len(shapes) > MAX_OUTPUTS:
            raise Unsupported(f"it has {len(shapes):,} outputs or time steps; at most {MAX_OUTPUTS:,} are supported")
        read = [] if kind == "reshape" else [name for name in inputs[: 1 if kind == "gather_nd" else None] if name]
        if index := next(filter(self._is_index, read), None):
            source = self._origin(index)
            of, instead = (f" of the input '{source}'", ", or make it a constant") if source else ("", "")
            why = f"it computes on integers{of}, which only an embedding can read"
            raise Unsupported(f"{why}; compute on floats, or return them{instead}")
        spec = SPECS[kind]
        has_bools = any(map(self._is_bool, inputs))
        if has_bools and not (spec.moves or kind in READ_BOOLS or spec.family == "comparison"):
            raise Unsupported("it computes on bools; select by them with where, or make them floats")
        byte = next((self.tensors[name] for name in inputs if name is not None and self.is_byte(name)), None)
        if byte is not None and kind != "dequantize" and (not spec.moves or spec.family == "join"):
            raise Unsupported(f"it computes on {byte.dtype}; cast the integers to float32 first")
        moved = byte if spec.moves else None
        usual = "bool" if spec.family == "comparison" or (has_bools and spec.moves) else "float32"
        dtype, quant = (moved.dtype, moved.quant) if moved else (dtype or usual, None)
        outputs = [self.add(Tensor(self.name(suffix), shape, dtype, quant)) for shape in shapes]
        self.ops.append(Op(f"{kind}_{len(self.ops)}", kind, tuple(inputs), (*outputs, *states), dict(attrs or {})))
        return outputs

    def is_byte(self, name: str) -> bool:
        """Return whether the tensor `name` has 8-bit integers that the network takes as input, perhaps after moves."""
        return self.tensors[name].dtype in BYTES and self.tensors[name].data is None

    def _is_bool(self, name: str | None) -> bool:
        return name is not None and self.tensors[name].dtype == "bool" and self.tensors[name].data is None

    def _is_index(self, name: str) -> bool:
        """Return whether the tensor `name` has integers that the network computes or takes as input."""
        return self.tensors[name].dtype == "int32" and self.tensors[name].data is None

    def _origin(self, name: str | None) -> str | None:
        """Return the network input from which the integers of a tensor come; None if an op computes them."""
        made_by = {output: op for op in self.ops for output in op.outputs}
        while name in made_by:
            name = next((each for each in made_by[name].inputs if each and self._is_index(each)), None)
        return name

    def map(
        self, kind: str, inputs: Names, axes: Sequence[Axes], dims: Sequence[Axes], attrs: Attrs = None, *, suffix: str = ""
    ) -> Map:
        """Append an op and return its output as a Map with the logical axes `axes` and the stored axes `dims`."""
        (name,) = self.op(kind, inputs, [extents(dims)], attrs, suffix)
        return Map(name, tuple(axes), tuple(dims))

    def like(self, kind: str, x: Map, *more: str, **attrs: Any) -> Map:
        """Append an op on `x`, and input tensors `more`, whose output has the shape and memory layout of `x`; return it."""
        return self.map(kind, (x.tensor, *more), x.axes, x.dims, attrs)

    def tensor(self, x: Map, dims: Sequence[Axes]) -> str:
        """Return a tensor with the elements of `x` in the layout `dims`, one tuple of Axis units per tensor axis.

        A reshape or a gather is added at most once per layout; a transpose only with `transposes`, else Unsupported is raised.
        """
        dims = tuple(dims)
        if dims == x.dims:
            return x.tensor
        if (x.tensor, dims) not in self._moved:
            self._moved[x.tensor, dims] = self._reordered(x, dims)
        return self._moved[x.tensor, dims]

    def _reordered(self, x: Map, dims: tuple[Axes, ...]) -> str:
        """Add the ops that store `x` in the layout `dims`; return the result's name. Gathers reorder units within an axis."""
        name = x.tensor
        if self.transposes and not fits(x, dims):
            return self._transposed(x, dims)
        for index, (slot, group) in enumerate(zip(current_groups(x, dims), dims, strict=True)):
            if slot != group:
                shape = extents(dims)
                name = self.reshape(name, shape)
                positions = np.arange(shape[index]).reshape([axis.extent for axis in slot])
                indices = self.integers(positions.transpose([slot.index(axis) for axis in group]).ravel(), "places")
                (name,) = self.op("gather", (name, indices), [shape], {"axis": index, "batch_dims": 0}, "shuffled")
        return self.reshape(name, extents(dims))

    def reshape(self, name: str, shape: tuple[int, ...]) -> str:
        """Return the name of a tensor reshaped to `shape`: a new reshape op's output, or `name` itself if it has this shape."""
        if self.tensors[name].shape == shape:
            return name
        operands, dtype = (name, self.integers(shape, "shape")), self.tensors[name].dtype
        (name,) = self.op("reshape", operands, [shape], {"new_shape": shape}, "reshaped", dtype=dtype)
        return name

    def _transposed(self, x: Map, dims: tuple[Axes, ...]) -> str:
        """Add a transpose of `x` between reshapes that bring it into the layout `dims`, and return the name of the result."""
        wanted, place = flattened(dims), {axis: index for index, axis in enumerate(x.order)}
        runs: list[list[Axis]] = []  # Axis units that stay neighbours are moved as one
        for axis in wanted:
            if runs and place[axis] == place[runs[-1][-1]] + 1:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        stored = sorted(runs, key=lambda run: place[run[0]])
        name = self.reshape(x.tensor, extents(map(tuple, stored)))
        operands = (name, self.integers([stored.index(run) for run in runs], "permutation"))
        shape, dtype = extents(map(tuple, runs)), self.tensors[name].dtype
        return self.reshape(self.op("transpose", operands, [shape], {}, "transposed", dtype=dtype)[0], extents(dims))

    def common_order(self, *maps: Map) -> tuple[int, ...]:
        """Return `common_order`, or, if there is none and `transposes` is set, channels last (below rank 3, logical order)."""
        try:
            return common_order(*maps)
        except Unsupported:
            if not self.transposes:
                raise
            return memory_orders(len(maps[0].axes))[0]

    def graph(self, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """Return the finished graph, called `name`, with the tensors named `inputs` and `outputs` as its inputs and outputs."""
        return Graph(name, self.tensors, tuple(self.ops), tuple(inputs), tuple(outputs), tuple(self.init))


def current_groups(x: Map, dims: Sequence[Axes]) -> list[Axes]:
    """Return the Axis units of each axis of the layout `dims` in memory order; raise Unsupported if units must change axes."""
    order = iter(x.order)
    current = [tuple(itertools.islice(order, len(group))) for group in dims]
    if any(set(slot) != set(group) for slot, group in zip(current, dims, strict=True)):
        raise Unsupported("its input has another memory layout: it would need a transpose inside the network")
    return current


def fits(x: Map, dims: Sequence[Axes]) -> bool:
    """Return whether `x` can be stored in the layout `dims`, one tuple of Axis units per tensor axis, without a transpose."""
    with suppress(Unsupported):
        current_groups(x, dims)
        return True
    return False


def common_order(*maps: Map) -> tuple[int, ...]:
    """Return an order of the logical axes in which all maps can be stored without a transpose, if possible without gathers."""
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
    """Return a map with another logical shape, with at most one -1, or raise Unsupported if it would need a transpose."""
    known = prod(extent for extent in shape if extent != -1)
    shape = [prod(x.shape) // max(known, 1) if extent == -1 else extent for extent in shape]
    if min(shape, default=1) < 0 or prod(shape) != prod(x.shape):
        raise Unsupported(f"its shape {shape} and the map {list(x.shape)} differ in their number of elements")
    for prepare in (lambda b, x: x, _merge_adjacent, _one_axis_each, *([_in_axis_order] if b.transposes else [])):
        if (result := _split_axes(b, prepare(b, x), shape)) is not None:
            return result
    raise Unsupported(f"a view {list(x.shape)} -> {shape} would need a transpose inside the network")


def _split_axes(b: Builder, x: Map, shape: Sequence[int]) -> Map | None:
    """Return a view of `x` with Axis units grouped anew or split (12 into 3 and 4); None if a unit does not divide evenly."""
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
    """Return the map with neighbouring Axis units merged into one if they are neighbours in the logical order and in memory."""
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
    """Return the map stored with one Axis unit per logical axis, so that `view` can split it; a gather may reorder it."""
    order, axes = b.common_order(x), tuple(map(b.new_axis, x.shape))
    return Map(b.tensor(x, [x.axes[axis] for axis in order]), axes, tuple(axes[axis] for axis in order))


def _in_axis_order(b: Builder, x: Map) -> Map:
    """Return the map stored in logical order as one tensor axis; raise Unsupported if this needs a forbidden transpose."""
    return _merge_adjacent(b, Map(b.tensor(x, x.axes), x.axes, x.axes))


def in_layout(x: Map, values: np.ndarray) -> np.ndarray:
    """Permute a constant that broadcasts against the logical shape of `x` to broadcast against its stored tensor."""
    logical_shape: tuple[int, ...] = (1,) * (len(x.axes) - values.ndim) + values.shape
    split = [axis.extent if extent != 1 else 1 for extent, group in zip(logical_shape, x.axes, strict=True) for axis in group]
    logical = flattened(x.axes)
    moved = values.reshape(split).transpose([logical.index(axis) for axis in x.order])
    left = iter(moved.shape)
    parts = [tuple(itertools.islice(left, len(dim))) for dim in x.dims]
    # if only some units of a tensor axis are broadcast, the constant is repeated along the others of this axis
    wholes: list[tuple[int, ...]] = [
        part if set(part) <= {1} else tuple(axis.extent for axis in dim) for part, dim in zip(parts, x.dims, strict=True)
    ]
    shape = [prod(whole) for whole in wholes]
    while shape and shape[0] == 1:
        shape = shape[1:]
    return np.broadcast_to(moved, [extent for whole in wholes for extent in whole]).reshape(shape or (1,) * bool(x.dims))
