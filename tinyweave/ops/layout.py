"""Views (reshape, squeeze, expand_dims); pad, concatenation and pack; shape; gather_nd.

A view has the bytes of its input. Tensors have any type. An index of gather_nd that the network computes is clamped if it is
out of range, while LiteRT stops with an error. Source: TFLite reshape.cc, pad.cc, concatenation.cc, gather_nd.cc and the like.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..ir import Graph, Op
from .constraints import INDEX_TYPES, MANY, arity, operands_are_constant, output_is_an_index, same_quantisation, same_type
from .data_movement import pad_value
from .spec import Arrays, Constraint, OpSpec, OptionalArrays, Shape, constant, operand
from .window import ONE_TO_ONE, Window, Windows

MAX_DEPTH = 4  # numbers per index of gather_nd


def infer_reshape(graph: Graph, op: Op) -> list[Shape]:
    """Return the shape operand or the attribute `new_shape`, with -1 computed; if neither is known, the output's shape."""
    x, extents = graph.input(op), graph.optional_input(op, 1)
    if extents is not None and extents.data is not None:
        wanted = tuple(int(extent) for extent in extents.data.ravel())
    elif extents is None and op.attrs["new_shape"] is not None:
        wanted = tuple(op.attrs["new_shape"])
    else:
        return [graph.output(op).shape]
    known = int(np.prod([extent for extent in wanted if extent != -1], dtype=np.int64))
    return [tuple(x.elements // max(known, 1) if extent == -1 else extent for extent in wanted)]


def infer_squeeze(graph: Graph, op: Op) -> list[Shape]:
    shape = graph.input(op).shape
    named = {axis % len(shape) for axis in op.attrs["axes"]} if shape else set()
    return [tuple(e for axis, e in enumerate(shape) if e != 1 or (named and axis not in named))]


def infer_expand_dims(graph: Graph, op: Op) -> list[Shape]:
    shape, axis = list(graph.input(op).shape), int(constant(graph, op, 1).ravel()[0])
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 1)
    return [tuple(shape)]


def reference_view(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [operand(arrays).reshape(graph.output(op).shape)]


def paddings(graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
    """Return the padding (before, after) of each axis of a pad."""
    return tuple((int(before), int(after)) for before, after in constant(graph, op, 1))


def infer_pad(graph: Graph, op: Op) -> list[Shape]:
    return [tuple(e + sum(p) for e, p in zip(graph.input(op).shape, paddings(graph, op), strict=True))]


def reference_pad(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [np.pad(operand(arrays), paddings(graph, op), constant_values=pad_value(graph, op))]


def windows_pad(graph: Graph, op: Op) -> Windows | None:
    padding = paddings(graph, op)
    if len(padding) != 4 or padding[0] != (0, 0):
        return None
    return Window(pad=padding[1][0]), Window(pad=padding[2][0])


def concatenation_axis(graph: Graph, op: Op) -> int:
    """Return the axis along which inputs are concatenated, counted from the first axis (not negative)."""
    return int(op.attrs["axis"]) % len(graph.input(op).shape)


def infer_concatenation(graph: Graph, op: Op) -> list[Shape]:
    shapes = [t.shape for t in graph.inputs_of(op) if t is not None]
    axis = concatenation_axis(graph, op)
    return [(*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])]


def reference_concatenation(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [np.concatenate([operand(arrays, i) for i in range(len(arrays))], axis=concatenation_axis(graph, op))]


def windows_concatenation(graph: Graph, op: Op) -> Windows | None:
    """Return 1x1 windows if the inputs are concatenated along channels, else None."""
    return ONE_TO_ONE if concatenation_axis(graph, op) == len(graph.input(op).shape) - 1 else None


def infer_pack(graph: Graph, op: Op) -> list[Shape]:
    shape = list(graph.input(op).shape)
    shape.insert(int(op.attrs["axis"]) % (len(shape) + 1), len(op.inputs))
    return [tuple(shape)]


def reference_pack(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [np.stack([operand(arrays, i) for i in range(len(arrays))], axis=int(op.attrs["axis"]))]


def infer_shape(graph: Graph, op: Op) -> list[Shape]:
    return [(len(graph.input(op).shape),)]


def reference_shape(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [np.array(graph.input(op).shape, graph.output(op).dtype)]


def elements_are_kept(graph: Graph, op: Op) -> bool:
    """input and output must have the same number of elements"""
    return graph.input(op).elements == graph.output(op).elements


def shape_holds_integers(graph: Graph, op: Op) -> bool:
    """a shape operand must be int32 or int64"""
    extents = graph.optional_input(op, 1)
    return extents is None or extents.dtype in INDEX_TYPES


def squeezed_axes_are_one(graph: Graph, op: Op) -> bool:
    """squeezed axes must exist and have extent 1"""
    shape = graph.input(op).shape
    return all(-len(shape) <= axis < len(shape) and shape[axis] == 1 for axis in op.attrs["axes"])


def new_axis_is_in_range(graph: Graph, op: Op) -> bool:
    """the new axis must be one number within the output's rank"""
    axis, rank = constant(graph, op, 1), len(graph.input(op).shape)
    return axis.size == 1 and -rank - 1 <= int(axis.ravel()[0]) <= rank


def paddings_match(graph: Graph, op: Op) -> bool:
    """the paddings must be one pair per axis, not negative"""
    padding = constant(graph, op, 1)
    return padding.shape == (len(graph.input(op).shape), 2) and bool((padding >= 0).all())


def fill_is_constant(graph: Graph, op: Op) -> bool:
    """the padding value must be one constant with the output's type and quantisation, and the paddings constant integers"""
    out, value, amounts = graph.output(op), graph.input(op, 2), graph.input(op, 1)
    same = value.dtype == out.dtype and (out.dtype not in ("int8", "uint8", "int16") or value.quant == out.quant)
    return same and value.elements == 1 and value.data is not None and amounts.data is not None and amounts.dtype in INDEX_TYPES


def inputs_match(graph: Graph, op: Op) -> bool:
    """all inputs must have the output's type, rank, and extents on all axes but the concatenated one"""
    out, rank = graph.output(op), len(graph.output(op).shape)
    if not -rank <= op.attrs["axis"] < rank or any(t is None or len(t.shape) != rank for t in graph.inputs_of(op)):
        return False
    axis = op.attrs["axis"] % rank
    return len({(t.dtype, t.shape[:axis], t.shape[axis + 1 :]) for t in (*graph.inputs_of(op), out) if t is not None}) == 1


def quantisation_is_shared(graph: Graph, op: Op) -> bool:
    """all inputs and the output must have the same scale and zero point"""
    return all(t is not None and t.quant == graph.output(op).quant for t in graph.inputs_of(op))


def activation_is_none(graph: Graph, op: Op) -> bool:
    """must have no fused activation"""
    return bool(op.attrs["activation"] == "none")


def packed_inputs_match(graph: Graph, op: Op) -> bool:
    """all inputs must have the same type and shape, and the axis must be within the output's rank"""
    first, rank = graph.input(op), len(graph.input(op).shape) + 1
    same = all(t is not None and (t.dtype, t.shape) == (first.dtype, first.shape) for t in graph.inputs_of(op))
    return same and graph.output(op).dtype == first.dtype and -rank <= int(op.attrs["axis"]) < rank


def infer_gather_nd(graph: Graph, op: Op) -> list[Shape]:
    data, indices = graph.input(op).shape, graph.input(op, 1).shape
    return [(*indices[:-1], *data[indices[-1] :])]


def reference_gather_nd(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    data, indices = operand(arrays), operand(arrays, 1)
    inside = np.clip(indices, 0, np.array(data.shape[: indices.shape[-1]]) - 1)
    return [np.array(data[tuple(np.moveaxis(inside, -1, 0))])]


def indices_fit(graph: Graph, op: Op) -> bool:
    """the indices must be int32 vectors of one to four numbers, at most the data's rank, and the data must not be empty"""
    data, indices = graph.input(op), graph.input(op, 1)
    depth = indices.shape[-1] if indices.shape else 0
    return indices.dtype == "int32" and 1 <= depth <= min(len(data.shape), MAX_DEPTH) and data.elements > 0


def constant_indices_are_inside(graph: Graph, op: Op) -> bool:
    """constant indices must be within the data"""
    values, shape = graph.input(op, 1).data, graph.input(op).shape
    return values is None or bool(((values >= 0) & (values < np.array(shape[: values.shape[-1]]))).all())


MOVES: tuple[Constraint, ...] = (same_type, same_quantisation)
RESHAPE = (arity(1, 2), *MOVES, elements_are_kept, shape_holds_integers)

view = partial(OpSpec, reference=reference_view, family="view", view=True, int16=True, scale="shared")
pad = partial(
    OpSpec, infer=infer_pad, reference=reference_pad, windows=windows_pad, family="pad", channelwise=True, scale="shared"
)
join = partial(OpSpec, family="join", int16=True, scale="shared")
SPECS = (
    view("reshape", infer=infer_reshape, constraints=RESHAPE),
    view("squeeze", infer=infer_squeeze, constraints=(arity(1), *MOVES, squeezed_axes_are_one)),
    view("expand_dims", infer=infer_expand_dims, constraints=(arity(2), *MOVES, operands_are_constant, new_axis_is_in_range)),
    pad("pad", constraints=(arity(2), *MOVES, operands_are_constant, paddings_match)),
    pad("padv2", constraints=(arity(3), *MOVES, fill_is_constant, paddings_match)),
    join(
        "concatenation",
        infer=infer_concatenation,
        reference=reference_concatenation,
        constraints=(arity(1, MANY), inputs_match, quantisation_is_shared, activation_is_none),
        windows=windows_concatenation,
    ),
    join("pack", infer=infer_pack, reference=reference_pack, constraints=(arity(1, MANY), *MOVES, packed_inputs_match)),
    OpSpec("shape", infer_shape, reference_shape, (arity(1), output_is_an_index), family="index", uint8="same", scale="own"),
    OpSpec(
        "gather_nd",
        infer_gather_nd,
        reference_gather_nd,
        (arity(2), *MOVES, indices_fit, constant_indices_are_inside),
        family="copy",
        scale="shared",
    ),
)
