"""Element by element on int8: add, sub, mul, squared_difference (with broadcasting), relu, relu6, relu_n1_to_1, logistic,
tanh, elu, gelu, rsqrt.

Source: TFLite reference_integer_ops add.h, mul.h; squared_difference.cc; activations.cc, where logistic to gelu are tables of
256 results of float32 arithmetic; reference/gelu.h; elementwise.cc (rsqrt).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .constraints import (
    activation_is_known,
    arity,
    bounds_fit,
    input_is_int8,
    inputs_are_int8,
    inputs_are_narrow,
    output_has_input_type,
    output_is_int8,
)
from .fixed_point import INT32_MAX, inverse_square_root, quantize_multiplier, requantize, round_half_away
from .spec import (
    Arrays,
    Constraint,
    OpSpec,
    OptionalArrays,
    broadcast,
    centred,
    finish,
    infer_broadcast,
    infer_same,
    is_pixel,
    operand,
    windows_one_to_one,
)
from .window import ONE_TO_ONE, Windows

Real = NDArray[np.float32]

ADD_LEFT_SHIFT = {"int4": 20, "int8": 20, "int16": 15}
SQUARE_LEFT_SHIFT = 7  # of a squared_difference: the square of the largest difference is below 2^30
RSQRT_BITS = 20


class Rescale(NamedTuple):
    """x * multiplier * 2^(shift - 31), see `fixed_point.requantize`."""

    multiplier: int
    shift: int


def add_rescales(graph: Graph, op: Op) -> tuple[Rescale, Rescale, Rescale]:
    """Return the rescales of both inputs and of the output of an add, a sub or a squared_difference.

    Each input, less its zero point and times 2^`add_left_shift`, is rescaled to twice the larger input scale; the sum, the
    difference, or its square, is rescaled to the output.
    """
    a, b = graph.input(op), graph.input(op, 1)
    common = 2 * max(a.scale, b.scale)
    first, second = Rescale(*quantize_multiplier(a.scale / common)), Rescale(*quantize_multiplier(b.scale / common))
    return first, second, Rescale(*quantize_multiplier(computed_ratio(graph, op)))


def computed_ratio(graph: Graph, op: Op) -> float:
    """Return the scale in which a sum, or the square of a difference, is computed, over the output's."""
    common, power = 2 * max(graph.input(op).scale, graph.input(op, 1).scale), 2 if op.kind == "squared_difference" else 1
    return common**power / ((1 << power * add_left_shift(graph, op)) * graph.output(op).scale)


def halved(graph: Graph, op: Op) -> int | None:
    """Return which operand of an add or sub is rescaled by exactly 1/2: that of the larger scale, unless a sub subtracts it."""
    operands = add_rescales(graph, op)[: 1 if op.kind == "sub" else 2]
    return next((index for index, rescale in enumerate(operands) if rescale == (1 << 30, 0)), None)


def negates_exactly(graph: Graph, op: Op) -> bool:
    """Return whether a sub may rescale its second int8 operand by the negative multiplier and add: halves are rounded up, so
    that this is not what is subtracted where some value falls in the middle between two."""
    (multiplier, shift), x = add_rescales(graph, op)[1], (np.arange(-128, 128) - graph.input(op, 1).zero_point)
    shifted = x << add_left_shift(graph, op)
    return op.kind != "sub" or bool((requantize(shifted, -multiplier, shift) == -requantize(shifted, multiplier, shift)).all())


def add_left_shift(graph: Graph, op: Op) -> int:
    return SQUARE_LEFT_SHIFT if op.kind == "squared_difference" else ADD_LEFT_SHIFT[graph.output(op).dtype]


def mul_rescale(graph: Graph, op: Op) -> Rescale:
    """From the product of both inputs, less their zero points, to the output; the scales are multiplied in float32."""
    a, b, out = (np.float32(t.scale) for t in (graph.input(op), graph.input(op, 1), graph.output(op)))
    return Rescale(*quantize_multiplier(float(a * b / out)))


def relu_rescale(graph: Graph, op: Op) -> Rescale:
    """From the input, less its zero point, to the output; the scales are divided in float32."""
    return Rescale(*quantize_multiplier(float(np.float32(graph.input(op).scale) / np.float32(graph.output(op).scale))))


def rsqrt_rescale(graph: Graph, op: Op) -> Rescale:
    """From the inverse root of the input, less its zero point, to the output; root and product are float32."""
    root = np.sqrt(np.float32(graph.input(op).scale)) * np.float32(graph.output(op).scale)
    return Rescale(*quantize_multiplier(1 / float(root)))


@np.errstate(over="ignore")
def table(graph: Graph, op: Op) -> NDArray[np.int8]:
    """Return what a logistic, tanh, elu or gelu gives for the inputs -128 .. 127, in this order."""
    x, out = graph.input(op), graph.output(op)
    real = np.float32(x.scale) * (np.arange(-128, 128) - x.zero_point).astype(np.float32)
    scaled = round_half_away(TABLES[op.kind](op, real) * (np.float32(1) / np.float32(out.scale))) + np.float32(out.zero_point)
    return np.asarray(np.clip(scaled, -128, 127), np.int8)


# the C library's float32 results are the float64 ones, rounded


def _tanh(op: Op, x: Real) -> Real:
    return np.tanh(x.astype(np.float64)).astype(np.float32)


def _gelu(op: Op, x: Real) -> Real:
    """Return x times the part of a normal distribution below x, by erfc or, if `approximate`, by tanh."""
    if op.attrs["approximate"]:
        inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
        return np.asarray(np.float32(0.5) * x * (np.float32(1) + _tanh(op, inner)))
    return np.asarray(np.float32(0.5) * x * erfc((x * np.float32(-np.sqrt(0.5))).astype(np.float64)).astype(np.float32))


erfc = np.vectorize(math.erfc, otypes=[np.float64])
TABLES: dict[str, Callable[[Op, Real], Real]] = {
    "elu": lambda op, x: np.where(x < 0, np.expm1(x.astype(np.float64)).astype(np.float32), x),
    "gelu": _gelu,
    "logistic": lambda op, x: np.float32(1) / (np.float32(1) + np.exp(-x.astype(np.float64)).astype(np.float32)),
    "tanh": _tanh,
}


def reference_add(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    first, second, output = add_rescales(graph, op)
    a, b = (
        requantize(centred(arrays, i, graph, op) << add_left_shift(graph, op), *rescale)
        for i, rescale in enumerate((first, second))
    )
    joined = {"add": a + b, "sub": a - b}.get(op.kind, (a - b) ** 2)
    return finish(graph, op, requantize(joined, *output))


def reference_mul(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    a, b = (centred(arrays, index, graph, op) for index in (0, 1))
    return finish(graph, op, requantize(a * b, *mul_rescale(graph, op)))


def reference_relu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return finish(graph, op, requantize(centred(arrays, 0, graph, op), *relu_rescale(graph, op)))


def reference_table(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [table(graph, op)[operand(arrays).astype(np.int64) + 128]]


def reference_rsqrt(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """1 / sqrt(x) with 20 bits after the point, rescaled; what is 0 gives the greatest number."""
    x = centred(arrays, 0, graph, op)
    multiplier, shift = inverse_square_root(np.maximum(x, 1))
    fine = requantize(1, multiplier, shift + RSQRT_BITS)
    scaled, down = rsqrt_rescale(graph, op)
    return finish(graph, op, np.where(x == 0, INT32_MAX, requantize(fine, scaled, down - RSQRT_BITS)))


def windows_binary(graph: Graph, op: Op) -> Windows | None:
    """Of the operands that have the output's shape; the other one may be constant, or a pixel that repeats."""
    shape, operands = graph.output(op).shape, (graph.input(op), graph.input(op, 1))
    by_row = any(x.shape == shape and x.data is None for x in operands)
    return ONE_TO_ONE if by_row and all(x.shape == shape or x.data is not None or is_pixel(x) for x in operands) else None


def shapes_broadcast(graph: Graph, op: Op) -> bool:
    """the shapes of both inputs must be equal or broadcast, and have at most six axes"""
    a, b = graph.input(op).shape, graph.input(op, 1).shape
    return max(len(a), len(b)) <= 6 and broadcast(a, b)


def output_scale_is_large(graph: Graph, op: Op) -> bool:
    """twice the larger input scale must be below 2^20 times the output scale, 2^15 times for int16"""
    return computed_ratio(graph, op) < 1


def square_scale_is_large(graph: Graph, op: Op) -> bool:
    """the larger input scale, squared, must be below 2^12 times the output scale"""
    return computed_ratio(graph, op) < 1 - 2.0**-32  # what is rounded to 1 is 1


def logistic_output_is_256th(graph: Graph, op: Op) -> bool:
    """the output's scale must be 1/256 (the whole range of a logistic)"""
    return graph.output(op).scale == 1 / 256


def input_is_not_negative(graph: Graph, op: Op) -> bool:
    """the input's zero point must be -128: what is negative has no square root"""
    return graph.input(op).zero_point == -128


def inverse_root_is_large(graph: Graph, op: Op) -> bool:
    """the root of the input scale times the output scale must be at most 2^12"""
    return rsqrt_rescale(graph, op).shift - RSQRT_BITS >= -31


BINARY = (arity(2), inputs_are_int8, output_is_int8, shapes_broadcast, activation_is_known, bounds_fit)
SUMS = (
    arity(2),
    inputs_are_narrow,
    output_has_input_type,
    shapes_broadcast,
    activation_is_known,
    bounds_fit,
    output_scale_is_large,
)
UNARY = (arity(1), input_is_int8, output_is_int8)


def _unary(
    kind: str,
    reference: Callable[[Graph, Op, OptionalArrays], Arrays],
    *more: Constraint,
    rescale: Callable[[Graph, Op], object] = OpSpec.rescale,
) -> OpSpec:
    return OpSpec(kind, infer_same, reference, (*UNARY, *more), windows=windows_one_to_one, rescale=rescale)


SPECS = (
    OpSpec("add", infer_broadcast, reference_add, SUMS, windows=windows_binary, int4=True),
    OpSpec("sub", infer_broadcast, reference_add, SUMS, windows=windows_binary, int4=True),
    OpSpec("mul", infer_broadcast, reference_mul, BINARY, windows=windows_binary, rescale=mul_rescale),
    OpSpec(
        "squared_difference",
        infer_broadcast,
        reference_add,
        (arity(2), inputs_are_int8, output_is_int8, shapes_broadcast, square_scale_is_large),
        windows=windows_binary,
    ),
    _unary("relu", reference_relu, rescale=relu_rescale),
    _unary("relu6", reference_relu, bounds_fit, rescale=relu_rescale),
    _unary("relu_n1_to_1", reference_relu, bounds_fit, rescale=relu_rescale),
    _unary("logistic", reference_table, logistic_output_is_256th),
    _unary("tanh", reference_table),
    _unary("elu", reference_table),
    _unary("gelu", reference_table),
    _unary("rsqrt", reference_rsqrt, input_is_not_negative, inverse_root_is_large),
)
