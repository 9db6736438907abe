"""Ops that compare values: minimum, maximum, equal, reduce_max, arg_max, topk_v2 and the like; and ops on bools.

minimum, maximum and the reductions compare the stored integers, whatever their scales; comparisons compare multiples of 1/256,
or, on int16 and except for equal and not_equal, the stored integers. Source: TFLite reference/maximum_minimum.h,
reference/comparisons.h, reference/select.h, reduce.h, arg_min_max.h; topk_v2.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from ..ir import Graph, Op
from .constraints import (
    arity,
    inputs_are_int8_or_int16,
    operands_are_constant,
    output_is_an_index,
    same_quantisation,
    same_type,
)
from .elementwise import shapes_broadcast, windows_binary
from .fixed_point import Rescale, quantize_multiplier, requantize
from .float32 import real_operand
from .reduce import axes_exist, over_axes
from .reduce import infer as infer_reduce
from .spec import (
    Arrays,
    OpSpec,
    OptionalArrays,
    Reference,
    Shape,
    broadcast,
    centred,
    constant,
    infer_broadcast,
    infer_same,
    on_integers,
    operand,
    windows_one_to_one,
)

Function = Callable[..., Any]
COMPARE_LEFT_SHIFT = 8  # comparisons compare multiples of 2^-8
COMPARISONS: dict[str, Function] = {
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "not_equal": np.not_equal,
}
CLAMPS = ("minimum", "maximum")  # with a constant operand, an op of these kinds clamps the other operand
CHOOSING = ("max_pool_2d", "reduce_max", "reduce_min")  # ops whose outputs are elements of their input, chosen by their order


def arg_axis(graph: Graph, op: Op) -> int:
    """Return the axis of an arg_max, counted from the first axis (not negative)."""
    return int(constant(graph, op, 1).ravel()[0]) % len(graph.input(op).shape)


def takes_larger(op: Op) -> bool:
    """Return whether an op selects the larger of its operands, or of the reduced elements; True is larger than False."""
    return op.kind in ("maximum", "logical_or", "reduce_max", "reduce_any")


def compares_integers(graph: Graph, op: Op) -> bool:
    """Return whether LiteRT compares the stored integers, as it does on int16 except for equal and not_equal."""
    return graph.input(op).dtype == "int16" and op.kind not in ("equal", "not_equal")


def compare_rescales(graph: Graph, op: Op) -> tuple[Rescale, Rescale]:
    """Return the factors from a comparison's operands to multiples of 1/256; 1 if LiteRT compares the stored integers."""
    if compares_integers(graph, op):
        return Rescale(1 << 30, 1), Rescale(1 << 30, 1)
    first, second = (quantize_multiplier(graph.input(op, index).scale) for index in (0, 1))
    return first, second


def reference_select(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [np.where(operand(arrays), operand(arrays, 1), operand(arrays, 2))]


def infer_arg_max(graph: Graph, op: Op) -> list[Shape]:
    shape, axis = graph.input(op).shape, arg_axis(graph, op)
    return [(*shape[:axis], *shape[axis + 1 :])]


def reference_arg_max(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, axis = operand(arrays), arg_axis(graph, op)
    return [np.asarray(x.argmin(axis=axis) if op.kind == "arg_min" else x.argmax(axis=axis), graph.output(op).dtype)]


def count_of(graph: Graph, op: Op) -> int:
    """Return how many elements a topk_v2 selects along the last axis."""
    return int(constant(graph, op, 1).ravel()[0])


def reference_top(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = operand(arrays)
    order = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[..., : count_of(graph, op)]
    return [np.take_along_axis(x, order, -1), order.astype(np.int32)]


def inputs_have_one_type(graph: Graph, op: Op) -> bool:
    """both inputs and the output must have the same type"""
    return graph.input(op).dtype == graph.input(op, 1).dtype == graph.output(op).dtype


def output_is_bool(graph: Graph, op: Op) -> bool:
    """the output must be bool"""
    return graph.output(op).dtype == "bool"


def inputs_are_bool(graph: Graph, op: Op) -> bool:
    """the input must be bool, and so must the second operand of logical_and and logical_or"""
    operands = graph.inputs_of(op)[: 2 if op.kind in ("logical_and", "logical_or") else 1]
    return all(tensor is not None and tensor.dtype == "bool" for tensor in operands)


@on_integers
def scales_are_small(graph: Graph, op: Op) -> bool:
    """both scales must be below 1, as LiteRT compares multiples of 1/256; int16 inputs must share one, except for equality"""
    a, b = graph.input(op), graph.input(op, 1)
    return a.quant == b.quant if compares_integers(graph, op) else a.scale < 1 and b.scale < 1


def values_are_alike(graph: Graph, op: Op) -> bool:
    """both values and the output must have the same type and, unless they are float32 or bool, scale and zero point"""
    first, second, out = graph.input(op, 1), graph.input(op, 2), graph.output(op)
    same = first.dtype == second.dtype == out.dtype
    return same and (first.dtype in ("float32", "bool") or first.quant == second.quant == out.quant)


def shapes_broadcast_in_4_axes(graph: Graph, op: Op) -> bool:
    """the condition and both values must be broadcastable, with at most four axes"""
    shapes = [graph.input(op, index).shape for index in range(3)]
    return max(map(len, shapes)) <= 4 and all(broadcast(a, b) for a, b in combinations(shapes, 2))


def axis_exists(graph: Graph, op: Op) -> bool:
    """the axis must be one number within the input's rank, and the input must not be empty"""
    axis, rank = constant(graph, op, 1), len(graph.input(op).shape)
    return axis.size == 1 and -rank <= int(axis.ravel()[0]) < rank and graph.input(op).elements > 0


def outputs_are_values_and_indices(graph: Graph, op: Op) -> bool:
    """must have 2 inputs and 2 outputs: values with the input's type, scale and zero point, and int32 indices"""
    if len(op.inputs) != 2 or len(op.outputs) != 2:
        return False
    x, (values, indices) = graph.input(op), graph.outputs_of(op)
    return (values.dtype, values.quant) == (x.dtype, x.quant) and indices.dtype == "int32"


def count_is_within_the_axis(graph: Graph, op: Op) -> bool:
    """k must be one number from 1 to the extent of the last axis, and the input must not be empty"""
    k, x = constant(graph, op, 1), graph.input(op)
    return k.size == 1 and len(x.shape) > 0 and 1 <= int(k.ravel()[0]) <= x.shape[-1] and x.elements > 0


PAIR = (arity(2), inputs_have_one_type, shapes_broadcast)
REDUCE = (arity(2), same_type, same_quantisation, operands_are_constant, axes_exist)
BOOLS = (arity(2), inputs_are_bool, output_is_bool)
_extremum = partial(OpSpec, channelwise=True, uint8="same", scale="shared")
_pair = partial(_extremum, infer=infer_broadcast, constraints=PAIR, windows=windows_binary, family="binary")
_reduced = partial(_extremum, infer=infer_reduce, constraints=REDUCE, family="reduction")


def _of_two(function: Function) -> Reference:
    return lambda graph, op, arrays: [function(operand(arrays), operand(arrays, 1))]


def _over_axes(function: Function) -> Reference:
    return lambda graph, op, arrays: [over_axes(function, graph, op, operand(arrays))]


_elementwise = partial(OpSpec, family="comparison", channelwise=True, scale="own")


def _comparison(kind: str, function: Function) -> OpSpec:
    def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        shifted = (centred(arrays, index, graph, op) << COMPARE_LEFT_SHIFT for index in (0, 1))
        scaled = [requantize(x, *rescale) for x, rescale in zip(shifted, compare_rescales(graph, op), strict=True)]
        return [function(*scaled)]

    def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        return [function(real_operand(arrays), real_operand(arrays, 1))]

    constraints = (arity(2), inputs_are_int8_or_int16, output_is_bool, shapes_broadcast, scales_are_small)
    row = partial(_elementwise, kind, infer_broadcast, reference, constraints, windows=windows_binary)
    return row(rescale=compare_rescales, uint8="same", real=real)


_logical = partial(_elementwise, infer=infer_broadcast, windows=windows_binary, constraints=(*BOOLS, shapes_broadcast))
_reduced_bools = partial(
    OpSpec,
    infer=infer_reduce,
    constraints=(*BOOLS, operands_are_constant, axes_exist),
    family="reduction",
    channelwise=True,
    scale="own",
)


def reference_not(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [np.logical_not(operand(arrays))]


SPECS = (
    *(_comparison(kind, function) for kind, function in COMPARISONS.items()),
    _logical("logical_and", reference=_of_two(np.logical_and)),
    _logical("logical_or", reference=_of_two(np.logical_or)),
    _elementwise(
        "logical_not", infer_same, reference_not, (arity(1), inputs_are_bool, output_is_bool), windows=windows_one_to_one
    ),
    _reduced_bools("reduce_all", reference=_over_axes(np.all)),
    _reduced_bools("reduce_any", reference=_over_axes(np.any)),
    OpSpec(
        "select_v2",
        lambda graph, op: [np.broadcast_shapes(*(x.shape for x in graph.inputs_of(op) if x is not None))],
        reference_select,
        (arity(3), inputs_are_bool, values_are_alike, shapes_broadcast_in_4_axes),
        family="selection",
        data=1,
        uint8="same",
        scale="shared",
        real=reference_select,
    ),
    _pair("minimum", reference=_of_two(np.minimum)),
    _pair("maximum", reference=_of_two(np.maximum)),
    _reduced("reduce_max", reference=_over_axes(np.max)),
    _reduced("reduce_min", reference=_over_axes(np.min)),
    *(
        OpSpec(
            kind,
            infer_arg_max,
            reference_arg_max,
            (arity(2), operands_are_constant, axis_exists, output_is_an_index),
            family="index",
            uint8="same",
            scale="own",
        )
        for kind in ("arg_max", "arg_min")
    ),
    OpSpec(
        "topk_v2",
        lambda graph, op: [(*graph.input(op).shape[:-1], count_of(graph, op))] * 2,
        reference_top,
        (outputs_are_values_and_indices, operands_are_constant, count_is_within_the_axis),
        family="index",
        uint8="same",
        scale="shared",
    ),
)
