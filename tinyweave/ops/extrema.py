"""Ops that compare values: minimum and maximum (with broadcasting), reduce_max, reduce_min, arg_max.

The stored integers are compared, whatever their scales. Source: TFLite reference/maximum_minimum.h, reduce.h, arg_min_max.h.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..ir import Graph, Op
from .constraints import arity, operands_are_constant, output_is_an_index, same_quantisation, same_type
from .elementwise import shapes_broadcast, windows_binary
from .reduce import axes_exist, over_axes
from .reduce import infer as infer_reduce
from .spec import Arrays, OpSpec, OptionalArrays, Shape, constant, infer_broadcast, operand

Function = Callable[..., Any]


def arg_axis(graph: Graph, op: Op) -> int:
    """Return the axis of an arg_max, counted from the first axis (not negative)."""
    return int(constant(graph, op, 1).ravel()[0]) % len(graph.input(op).shape)


def infer_arg_max(graph: Graph, op: Op) -> list[Shape]:
    shape, axis = graph.input(op).shape, arg_axis(graph, op)
    return [(*shape[:axis], *shape[axis + 1 :])]


def reference_arg_max(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [np.asarray(operand(arrays).argmax(axis=arg_axis(graph, op)), graph.output(op).dtype)]


def inputs_have_one_type(graph: Graph, op: Op) -> bool:
    """both inputs and the output must have the same type"""
    return graph.input(op).dtype == graph.input(op, 1).dtype == graph.output(op).dtype


def axis_exists(graph: Graph, op: Op) -> bool:
    """the axis must be one number within the input's rank, and the input must not be empty"""
    axis, rank = constant(graph, op, 1), len(graph.input(op).shape)
    return axis.size == 1 and -rank <= int(axis.ravel()[0]) < rank and graph.input(op).elements > 0


PAIR = (arity(2), inputs_have_one_type, shapes_broadcast)
REDUCE = (arity(2), same_type, same_quantisation, operands_are_constant, axes_exist)
_extremum = partial(OpSpec, channelwise=True, uint8="same", scale="shared")


def _pair(kind: str, function: Function) -> OpSpec:
    def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        return [function(operand(arrays), operand(arrays, 1))]

    return _extremum(kind, infer_broadcast, reference, PAIR, windows=windows_binary, family="binary")


def _reduced(kind: str, function: Function) -> OpSpec:
    def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        return [over_axes(function, graph, op, operand(arrays))]

    return _extremum(kind, infer_reduce, reference, REDUCE, family="reduction")


SPECS = (
    _pair("minimum", np.minimum),
    _pair("maximum", np.maximum),
    _reduced("reduce_max", np.max),
    _reduced("reduce_min", np.min),
    OpSpec(
        "arg_max",
        infer_arg_max,
        reference_arg_max,
        (arity(2), operands_are_constant, axis_exists, output_is_an_index),
        family="index",
        uint8="same",
        scale="own",
    ),
)
