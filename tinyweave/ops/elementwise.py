"""Elementwise kinds on int8; add, sub and mul also on int16.

Kinds with two operands that broadcast: add, sub, mul, div, squared_difference. Kinds with one operand: relu, relu6,
relu_n1_to_1, abs, neg, sqrt and rsqrt, which LiteRT rounds in ways of their own, and other FUNCTIONS, logistic, elu and gelu:
tables of 256 results of float32 arithmetic. Source: TFLite reference_integer_ops add.h, mul.h; reference div.h;
squared_difference.cc; activations.cc; reference/gelu.h; elementwise.cc (abs, rsqrt, log); neg.cc; exp.cc. sqrt rounds down, as
LiteRT was measured to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Quant
from . import int16_tables
from .constraints import (
    activation_is_known,
    arity,
    bounds_fit,
    input_is_int8,
    input_is_int8_or_int16,
    inputs_are_int8,
    inputs_are_narrow,
    inputs_are_wide,
    output_has_input_type,
    output_is_int8,
)
from .fixed_point import (
    INT32_MAX,
    Rescale,
    high_mul,
    inverse_square_root,
    quantize_multiplier,
    reciprocal,
    requantize,
    round_half_away,
)
from .float32 import Float, logistic, real_binary, real_operand, real_outputs, real_unary
from .spec import (
    ACTIVATIONS,
    PROBABILITY,
    Arrays,
    Constraint,
    OpSpec,
    OptionalArrays,
    Reference,
    broadcast,
    centred,
    finish,
    infer_broadcast,
    is_pixel,
    on_integers,
    operand,
    unary,
)
from .window import ONE_TO_ONE, Windows

Real = NDArray[np.float32]

MAX_AXES = 4  # of the kernels on two operands
ADD_LEFT_SHIFT = {"int4": 20, "int8": 20, "int16": 15}
SQUARE_LEFT_SHIFT = 7  # the square of the largest difference stays below 2^30
RSQRT_BITS = 20  # fractional bits of an inverse square root


def add_rescales(graph: Graph, op: Op) -> tuple[Rescale, Rescale, Rescale]:
    """Return the fixed-point factors of the first input, the second input and the output of add, sub or squared_difference.

    Each input minus its zero point, times 2^`add_left_shift`, is rescaled to twice the larger input scale. The sum, the
    difference or the square of the difference is then rescaled to the output scale.
    """
    a, b = graph.input(op), graph.input(op, 1)
    common = 2 * max(a.scale, b.scale)
    first, second = (quantize_multiplier(x.scale / common) for x in (a, b))
    return first, second, quantize_multiplier(output_ratio(graph, op))


def output_ratio(graph: Graph, op: Op) -> float:
    """Return the scale of the integer sum, difference or squared difference that is computed, divided by the output scale."""
    common, power = 2 * max(graph.input(op).scale, graph.input(op, 1).scale), 2 if op.kind == "squared_difference" else 1
    return common**power / ((1 << power * add_left_shift(graph, op)) * graph.output(op).scale)


def halved(graph: Graph, op: Op) -> int | None:
    """Return the index of an operand of add or sub that `add_rescales` multiplies by exactly 1/2, or None.

    It is the operand with the larger scale (the first one if scales are equal). None: a sub subtracts this operand.
    """
    operands = add_rescales(graph, op)[: 1 if op.kind == "sub" else 2]
    return next((index for index, rescale in enumerate(operands) if rescale == (1 << 30, 0)), None)


def negates_exactly(graph: Graph, op: Op) -> bool:
    """Return whether adding with a negative multiplier equals subtracting, for all int8 values of a sub's second operand.

    Halves are rounded up, so the results differ if a value is halfway between two integers. True for an add.
    """
    (multiplier, shift), x = add_rescales(graph, op)[1], (np.arange(-128, 128) - graph.input(op, 1).zero_point)
    shifted = x << add_left_shift(graph, op)
    return op.kind != "sub" or bool((requantize(shifted, -multiplier, shift) == -requantize(shifted, multiplier, shift)).all())


def add_left_shift(graph: Graph, op: Op) -> int:
    """Return the bits by which the operands of add, sub or squared_difference are shifted left before they are rescaled."""
    return SQUARE_LEFT_SHIFT if op.kind == "squared_difference" else ADD_LEFT_SHIFT[graph.output(op).dtype]


def mul_rescale(graph: Graph, op: Op) -> Rescale:
    """Return the factor that rescales the integer product of a mul, or quotient of a div, to the output scale.

    Scales are multiplied and divided in float32.
    """
    a, b, out = (np.float32(t.scale) for t in (graph.input(op), graph.input(op, 1), graph.output(op)))
    return quantize_multiplier(float(a / (b * out) if op.kind == "div" else a * b / out))


def relu_rescale(graph: Graph, op: Op) -> Rescale:
    """Return the factor that rescales the integer input of a relu to the output scale; float32 arithmetic, as in TFLite."""
    return quantize_multiplier(float(np.float32(graph.input(op).scale) / np.float32(graph.output(op).scale)))


def rsqrt_rescale(graph: Graph, op: Op) -> Rescale:
    """Return the factor that rescales the inverse square root of the integer input to the output scale; float32 arithmetic."""
    root = np.sqrt(np.float32(graph.input(op).scale)) * np.float32(graph.output(op).scale)
    return quantize_multiplier(1 / float(root))


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def table(graph: Graph, op: Op, function: Callable[[Op, Real], Real]) -> NDArray[np.int8]:
    """Return the int8 outputs of a float32 function for the int8 inputs -128, -127, ..., 127."""
    x, out = graph.input(op), graph.output(op)
    real = np.float32(x.scale) * (np.arange(-128, 128) - x.zero_point).astype(np.float32)
    steps = function(op, real) * (np.float32(1) / np.float32(out.scale))
    rounded = round_half_away(np.nan_to_num(np.clip(steps, -1e9, 1e9), nan=-1e9))  # infinity saturates, NaN is the minimum
    return np.asarray(np.clip(rounded + np.float32(out.zero_point), -128, 127), np.int8)


def table_has_int8(graph: Graph, op: Op) -> bool:
    """the table must be constant, with an int8 output for each of the 256 int8 values"""
    given = graph.input(op, 1)
    return given.data is not None and (given.dtype, given.shape) == ("int8", (256,))


def reference_lookup(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Look each int8 value up in the table of input 1, whose first entry is the output for -128."""
    return [operand(arrays, 1)[operand(arrays).astype(np.int64) + 128]]


def reference_table(function: Callable[[Op, Real], Real]) -> Reference:
    """Return the int8 reference of a kind that looks a float32 function up in a table."""

    def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        return [table(graph, op, function)[operand(arrays).astype(np.int64) + 128]]

    return reference


# the C library's float32 functions are computed here as float64 functions, rounded to float32


def _tanh(x: Real) -> Real:
    return np.tanh(x.astype(np.float64)).astype(np.float32)


def _logistic(op: Op, x: Real) -> Real:
    return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-x.astype(np.float64)).astype(np.float32)))


def _gelu(op: Op, x: Real) -> Real:
    """Return x * Phi(x), where Phi is the normal distribution function: by erfc or, if `approximate` is set, by tanh."""
    if op.attrs["approximate"]:
        inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
        return np.asarray(np.float32(0.5) * x * (np.float32(1) + _tanh(inner)))
    return np.asarray(np.float32(0.5) * x * erfc((x * np.float32(-np.sqrt(0.5))).astype(np.float64)).astype(np.float32))


erfc = np.vectorize(math.erfc, otypes=[np.float64])


def reference_add(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    first, second, output = add_rescales(graph, op)
    a, b = (
        requantize(centred(arrays, i, graph, op) << add_left_shift(graph, op), *rescale)
        for i, rescale in enumerate((first, second))
    )
    combined = {"add": a + b, "sub": a - b}.get(op.kind, (a - b) ** 2)
    return finish(graph, op, requantize(combined, *output))


def reference_mul(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    a, b = (centred(arrays, index, graph, op) for index in (0, 1))
    return finish(graph, op, requantize(a * b, *mul_rescale(graph, op)))


def reference_div(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute x / y as x times the reciprocal of y, shifted right, as LiteRT does.

    If the shift exceeds 31 bits, which is undefined in LiteRT's C++, the quotient is 0. LiteRT refuses y = 0; here the output
    saturates then, or is 0 if x is 0, too.
    """
    x, y = (centred(arrays, index, graph, op) for index in (0, 1))
    magnitude, signed = np.abs(y), np.where(y < 0, -x, x)
    inverse, bits = reciprocal(np.maximum(magnitude, 1), 31)
    headroom = 31 - np.frexp(np.where(signed < 0, ~signed, signed).astype(np.float64))[1].astype(np.int64)
    multiplier, shift = mul_rescale(graph, op)
    right = bits + headroom - shift
    scaled = requantize(high_mul(signed << headroom, inverse), multiplier, -np.minimum(right, 31))
    return finish(graph, op, np.where(magnitude == 0, np.sign(x) * INT32_MAX, np.where(right > 31, 0, scaled)))


def misread_div(graph: Graph, op: Op) -> str | None:
    """Return text that says that LiteRT may shift a quotient by over 31 bits, which C does not define; None if it cannot.

    The shift is largest for 0 divided by a number of 8 bits.
    """
    shifts = 31 + 7 - mul_rescale(graph, op).shift
    return f"shifts small quotients right by up to {shifts} bits, which is wrong above 31" if shifts > 31 else None


def reference_relu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return finish(graph, op, requantize(centred(arrays, 0, graph, op), *relu_rescale(graph, op)))


def reference_abs(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return finish(graph, op, requantize(np.abs(centred(arrays, 0, graph, op)), *relu_rescale(graph, op)))


def reference_neg(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [-operand(arrays)]  # of -128 it is -128, as in LiteRT


@np.errstate(invalid="ignore")
def reference_sqrt(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute the square root in float32 and round it down. A negative number has the lowest output; LiteRT refuses it."""
    real = np.float32(graph.input(op).scale) * centred(arrays, 0, graph, op).astype(np.float32)
    steps = np.floor(np.sqrt(real) / np.float32(graph.output(op).scale))
    return finish(graph, op, np.minimum(np.nan_to_num(steps, nan=-256), 256).astype(np.int64))


def reference_rsqrt(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute 1 / sqrt(x) with 20 fractional bits, then rescale; x = 0 gives the largest int32."""
    x = centred(arrays, 0, graph, op)
    multiplier, shift = inverse_square_root(np.maximum(x, 1))
    fine = requantize(1, multiplier, shift + RSQRT_BITS)
    scaled, down = rsqrt_rescale(graph, op)
    return finish(graph, op, np.where(x == 0, INT32_MAX, requantize(fine, scaled, down - RSQRT_BITS)))


def windows_binary(graph: Graph, op: Op) -> Windows | None:
    """Return 1x1 windows if an operand with the output's shape is computed and the others can be read at any row; else None.

    An operand can be read at any row if it has the output's shape, is constant, or is a single pixel that broadcasts.
    """
    shape, operands = graph.output(op).shape, (graph.input(op), graph.input(op, 1))
    by_row = any(x.shape == shape and x.data is None for x in operands)
    return ONE_TO_ONE if by_row and all(x.shape == shape or x.data is not None or is_pixel(x) for x in operands) else None


def merged_axes(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Return the extents (of a, of b) along each axis of the broadcast result, brought to MAX_AXES axes.

    Missing leading axes are (1, 1). If there are more than MAX_AXES axes, neighbours that broadcast in the same way are
    merged, leading axes first. If this is not enough, the result has more axes.
    """
    rank = max(len(a), len(b), MAX_AXES)
    axes = [(x, y) for x, y in zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True)]
    while len(axes) > MAX_AXES:
        alike = [i for i, (p, q) in enumerate(pairwise(axes)) if (1, 1) in (p, q) or _repeats(p) == _repeats(q)]
        if not alike:
            break
        i = alike[0]
        axes[i : i + 2] = [(axes[i][0] * axes[i + 1][0], axes[i][1] * axes[i + 1][1])]
    return axes


def _repeats(axis: tuple[int, int]) -> tuple[bool, bool]:
    """Return for each of two operands whether it repeats along an axis; `axis` holds the extents of both."""
    return axis[0] < axis[1], axis[1] < axis[0]


def shapes_broadcast(graph: Graph, op: Op) -> bool:
    """both shapes must be equal or broadcast, with at most six axes"""
    a, b = graph.input(op).shape, graph.input(op, 1).shape
    return max(len(a), len(b)) <= 6 and broadcast(a, b)


@on_integers
def output_scale_is_large(graph: Graph, op: Op) -> bool:
    """the output scale must be more than 2^-19 times the larger input scale (2^-14 times for int16)"""
    return output_ratio(graph, op) < 1


@on_integers
def square_scale_is_large(graph: Graph, op: Op) -> bool:
    """the output scale must be more than 2^-12 times the square of the larger input scale"""
    return output_ratio(graph, op) < 1 - 2.0**-32  # larger ratios are rounded to 1


@on_integers
def quotient_scale_is_small(graph: Graph, op: Op) -> bool:
    """the first input's scale must be less than 2^22 times the product of the second input's and the output's scale"""
    return mul_rescale(graph, op).shift <= 22


@on_integers
def logistic_output_is_256th(graph: Graph, op: Op) -> bool:
    """the output scale must be 1/256, so that int8 covers the range [0, 1) of a logistic, or 1/32768 for int16"""
    return graph.output(op).dtype == "int16" or graph.output(op).scale == 1 / 256


@on_integers
def int16_scales_fit(graph: Graph, op: Op) -> bool:
    """for int16, the input scale must be below 2, and the output scale 1/32768"""
    scales = graph.input(op).scale, graph.output(op).scale
    return graph.output(op).dtype != "int16" or (scales[0] < 2 and abs(scales[1] * 2**15 - 1) <= 5e-4)


@on_integers
def input_is_not_negative(graph: Graph, op: Op) -> bool:
    """the input's zero point must be -128, so that no input is negative: negative numbers have no square root"""
    return graph.input(op).zero_point == -128


@on_integers
def inverse_root_is_large(graph: Graph, op: Op) -> bool:
    """the square root of the input scale, times the output scale, must be at most 2^12"""
    return rsqrt_rescale(graph, op).shift - RSQRT_BITS >= -31


# arithmetic on int32 and int64, such as on shapes, which is computed when compiling; no C kernel has it
ON_INDICES: dict[str, Callable[..., NDArray[np.integer]]] = {
    "add": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mul": np.multiply,
    "sub": np.subtract,
}


def operands_are_known(graph: Graph, op: Op) -> bool:
    """int32 and int64 operands must be known when compiling, as shapes are"""
    return all(t is not None and t.data is not None for t in graph.inputs_of(op))


@np.errstate(over="ignore")
def reference_on_indices(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [np.asarray(ON_INDICES[op.kind](operand(arrays), operand(arrays, 1)), graph.output(op).dtype)]


def index_form(spec: OpSpec) -> OpSpec | None:
    """Return the row of a kind for int32 and int64 tensors, or None if it has no such form."""
    if spec.kind not in ON_INDICES:
        return None
    constraints = (arity(2), shapes_broadcast, operands_are_known)
    return replace(spec, reference=reference_on_indices, constraints=constraints, rescale=OpSpec.rescale)


BINARY = (arity(2), inputs_are_int8, output_is_int8, shapes_broadcast, activation_is_known, bounds_fit)
PRODUCTS = (arity(2), inputs_are_wide, output_has_input_type, shapes_broadcast, activation_is_known, bounds_fit)
SUMS = (
    arity(2),
    inputs_are_narrow,
    output_has_input_type,
    shapes_broadcast,
    activation_is_known,
    bounds_fit,
    output_scale_is_large,
)


@on_integers
def negates_values(graph: Graph, op: Op) -> bool:
    """the scales must be equal and the zero points opposite: LiteRT negates the stored int8 values, whatever they stand for"""
    x, out = graph.input(op), graph.output(op)
    return x.scale == out.scale and x.zero_point == -out.zero_point


UNARY = (arity(1), input_is_int8, output_is_int8)


def real_gelu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute GELU on float32 tensors: by erfc or, if `approximate` is set, by tanh."""
    x = real_operand(arrays)
    if op.attrs["approximate"]:
        return real_outputs(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))
    return real_outputs(0.5 * x * erfc(-x * np.sqrt(0.5)))


def _unary(kind: str, reference: Reference, *constraints: Constraint, **facts: Any) -> OpSpec:
    return unary(kind, reference=reference, constraints=(*UNARY, *constraints), **facts)


def _function(
    kind: str,
    function: Callable[..., Any],
    *numbers: str,
    image: tuple[float, float] = (-inf, inf),
    reference: Reference | None = None,
    **facts: Any,
) -> OpSpec:
    """Return the row of an op kind that applies `function` to each element and to the attributes named `numbers`.

    Without a `reference`, int8 results are float64 results of `function` rounded to float32 and quantised, as in LiteRT.
    `image` is the interval of all results. `facts` are further fields of the row.
    """

    def on_float32(op: Op, x: Real) -> Real:
        return np.asarray(function(x.astype(np.float64), *(op.attrs[name] for name in numbers)), np.float32)

    real = real_unary(function, *numbers)
    return _unary(kind, reference or reference_table(on_float32), real=real, image=image, numbers=numbers, **facts)


def _sigmoid(spec: OpSpec) -> OpSpec:
    """Extend a row of logistic or tanh, which supports only int8, by TFLite's computation on int16, and return the new row."""

    def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        return (int16_tables.reference_sigmoid if graph.input(op).dtype == "int16" else spec.reference)(graph, op, arrays)

    own = (constraint for constraint in spec.constraints if constraint not in UNARY)
    wide = (arity(1), input_is_int8_or_int16, output_has_input_type, *own, int16_scales_fit)
    return replace(spec, reference=reference, constraints=wide)


def _clamp(kind: str, *constraints: Constraint, **facts: Any) -> OpSpec:
    low, high = ACTIVATIONS[kind]
    real = real_unary(lambda x: np.clip(x, low, high))
    return _unary(kind, reference_relu, *constraints, rescale=relu_rescale, uint8="same", real=real, image=(low, high), **facts)


_binary = partial(OpSpec, infer=infer_broadcast, windows=windows_binary, family="binary", channelwise=True, scale="own")
_sum = partial(
    _binary,
    reference=reference_add,
    constraints=SUMS,
    int4=True,
    int16=True,
    fuses_activation=True,
    uint8="same",
    arithmetic="sum",
)


def _softplus(x: Float, beta: float = 1, threshold: float = inf) -> Float:
    """Return log(1 + exp(beta * x)) / beta, or x if beta * x exceeds the threshold."""
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


def _scaled_elu(x: Float, alpha: float, scale: float, input_scale: float) -> Float:
    return scale * np.where(x < 0, alpha * np.expm1(np.minimum(input_scale * x, 0)), x)


# functions named alike in PyTorch and, if they have no attributes, (capitalised) in ONNX; a kind that TFLite has needs a row in
# `tflite_schema`, the others are custom ops of a .tflite file
FUNCTIONS = (
    _function("abs", np.abs, image=(0.0, inf), reference=reference_abs, rescale=relu_rescale),
    _function("acos", np.arccos, image=(0.0, 3.1416)),
    _function("acosh", np.arccosh, image=(0.0, inf)),
    _function("asin", np.arcsin, image=(-1.5708, 1.5708)),
    _function("asinh", np.arcsinh),
    _function("atan", np.arctan, image=(-1.5708, 1.5708)),
    _function("atanh", np.arctanh),
    _function("ceil", np.ceil),
    _function("cos", np.cos, image=(-1.0, 1.0)),
    _function("cosh", np.cosh, image=(1.0, inf)),
    _function("erf", np.vectorize(math.erf, otypes=[np.float64]), image=(-1.0, 1.0)),
    _function("erfc", erfc, image=(0.0, 2.0)),
    _function("exp", np.exp, image=(0.0, inf)),
    _function("exp2", np.exp2, image=(0.0, inf)),
    _function("expm1", np.expm1, image=(-1.0, inf)),
    _function("floor", np.floor),
    _function("frac", lambda x: x - np.trunc(x), image=(-1.0, 1.0)),
    _function("log", np.log),
    _function("log10", np.log10),
    _function("log1p", np.log1p),
    _function("log2", np.log2),
    _function("log_sigmoid", lambda x: -np.logaddexp(0, -x), image=(-inf, 0.0)),
    _function("mish", lambda x: x * np.tanh(_softplus(x)), image=(-0.309, inf)),
    _function("power", np.power, "exponent"),
    _function("reciprocal", np.reciprocal),
    _function("round", np.round),
    _function("scaled_elu", _scaled_elu, "alpha", "scale", "input_scale"),
    _function("shrink", lambda x, lambd, bias: np.where(abs(x) > lambd, x - bias * np.sign(x), 0), "lambd", "bias"),
    _function("sign", np.sign, image=(-1.0, 1.0)),
    _function("sin", np.sin, image=(-1.0, 1.0)),
    _function("sinc", np.sinc, image=(-0.2173, 1.0)),
    _function("sinh", np.sinh),
    _function("softplus", _softplus, "beta", "threshold"),
    _function("softsign", lambda x: x / (1 + abs(x)), image=(-1.0, 1.0)),
    _function("sqrt", np.sqrt, image=(0.0, inf), reference=reference_sqrt),
    _function("square", np.square, image=(0.0, inf)),
    _function("tan", np.tan),
    _sigmoid(
        _function(
            "tanh",
            np.tanh,
            uint8="same",
            scale=Quant((1 / 128,), (0,)),
            image=(-1.0, 1.0),
            useful=lambda low, high: (-3.5, 3.5),
        )
    ),
    _function("threshold", lambda x, threshold, value: np.where(x > threshold, x, value), "threshold", "value"),
    _function("trunc", np.trunc),
)
SPECS = (
    *FUNCTIONS,
    _sum("add", real=real_binary(np.add)),
    _sum("sub", real=real_binary(np.subtract)),
    _binary(
        "mul",
        reference=reference_mul,
        constraints=PRODUCTS,
        rescale=mul_rescale,
        int16=True,
        fuses_activation=True,
        uint8="same",
        arithmetic="product",
        real=real_binary(np.multiply),
        rounds_twice=True,
    ),
    _binary(
        "div",
        reference=reference_div,
        constraints=(*BINARY, quotient_scale_is_small),
        rescale=mul_rescale,
        fuses_activation=True,
        misread=misread_div,
        real=real_binary(np.divide),
        rounds_twice=True,
    ),
    _binary(
        "squared_difference",
        reference=reference_add,
        constraints=(arity(2), inputs_are_int8, output_is_int8, shapes_broadcast, square_scale_is_large),
        real=real_binary(lambda a, b: (a - b) ** 2),
    ),
    _clamp("relu", useful=lambda low, high: (0.0, high)),
    _clamp("relu6", bounds_fit, least_scale=2.0**-26, useful=lambda low, high: (0.0, min(high, 6.0))),
    _clamp("relu_n1_to_1", bounds_fit, least_scale=2.0**-29, useful=lambda low, high: (max(low, -1.0), min(high, 1.0))),
    _sigmoid(
        _unary(
            "logistic",
            reference_table(_logistic),
            logistic_output_is_256th,
            uint8="same",
            scale=PROBABILITY,
            real=real_unary(logistic),
            image=(0.0, 1.0),
            useful=lambda low, high: (-6.25, 6.25),
        )
    ),
    _function("elu", lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x), image=(-1.0, inf)),
    _unary("gelu", reference_table(_gelu), real=real_gelu, image=(-0.1701, inf)),
    # what passes make of several functions in a row
    unary(
        "lookup", reference=reference_lookup, constraints=(arity(2), input_is_int8, output_is_int8, table_has_int8), scale=None
    ),
    _unary("neg", reference_neg, negates_values, real=real_unary(np.negative), image=(-inf, inf), scale=None),
    _unary(
        "rsqrt",
        reference_rsqrt,
        input_is_not_negative,
        inverse_root_is_large,
        real=real_unary(lambda x: 1 / np.sqrt(x)),
        image=(0.0, inf),
    ),
)
