"""Functions of one int8 element, such as exp, which kernels compute by tables of 256 bytes; logistic and tanh also on int16.

abs, neg, sqrt and rsqrt are rounded in ways of their own, as LiteRT does it; the others are tables of float32 arithmetic. sqrt
rounds down, as LiteRT was measured to do. Source: TFLite activations.cc; reference/gelu.h; elementwise.cc (abs, rsqrt, log);
neg.cc; exp.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Quant
from . import int16_tables
from .constraints import arity, input_is_int8, input_is_int8_or_int16, output_has_input_type, output_is_int8
from .elementwise import UNARY, relu_rescale
from .fixed_point import INT32_MAX, Rescale, inverse_square_root, quantize_multiplier, requantize, round_half_away
from .float32 import Float, logistic, real_operand, real_outputs, real_unary
from .spec import (
    PROBABILITY,
    Arrays,
    Constraint,
    OpSpec,
    OptionalArrays,
    Reference,
    centred,
    finish,
    on_integers,
    operand,
    unary,
)

Real = NDArray[np.float32]

RSQRT_BITS = 20  # fractional bits of an inverse square root


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


def reference_table(function: Callable[[Op, Real], Real]) -> Reference:
    """Return the reference of an int8 kind: it looks each input up in a table of 256 results of a float32 function."""

    def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        return [table(graph, op, function)[operand(arrays).astype(np.int64) + 128]]

    return reference


def _logistic(op: Op, x: Real) -> Real:
    return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-x.astype(np.float64)).astype(np.float32)))


def _gelu(op: Op, x: Real) -> Real:
    """Return x * Phi(x), where Phi is the normal distribution function: by erfc or, if `approximate` is set, by tanh."""
    if op.attrs["approximate"]:
        inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
        return np.asarray(np.float32(0.5) * x * (np.float32(1) + np.tanh(inner.astype(np.float64)).astype(np.float32)))
    return np.asarray(np.float32(0.5) * x * erfc((x * np.float32(-np.sqrt(0.5))).astype(np.float64)).astype(np.float32))


erfc = np.vectorize(math.erfc, otypes=[np.float64])


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


@on_integers
def negates_values(graph: Graph, op: Op) -> bool:
    """the scales must be equal and the zero points opposite: LiteRT negates the stored int8 values, whatever they stand for"""
    x, out = graph.input(op), graph.output(op)
    return x.scale == out.scale and x.zero_point == -out.zero_point


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
    """Return the OpSpec of a kind that applies `function` to each element and to the attributes named `numbers`.

    Without a `reference`, int8 results are float64 results rounded to float32 and quantised, as in LiteRT. `image` is the
    interval of results.
    """

    def on_float32(op: Op, x: Real) -> Real:
        return np.asarray(function(x.astype(np.float64), *(op.attrs[name] for name in numbers)), np.float32)

    real = real_unary(function, *numbers)
    return _unary(kind, reference or reference_table(on_float32), real=real, image=image, numbers=numbers, **facts)


def _sigmoid(spec: OpSpec) -> OpSpec:
    """Return a copy of the OpSpec of logistic or tanh, which supports only int8, with TFLite's computation on int16 added."""

    def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        return (int16_tables.reference_sigmoid if graph.input(op).dtype == "int16" else spec.reference)(graph, op, arrays)

    own = (constraint for constraint in spec.constraints if constraint not in UNARY)
    wide = (arity(1), input_is_int8_or_int16, output_has_input_type, *own, int16_scales_fit)
    return replace(spec, reference=reference, constraints=wide)


def _softplus(x: Float, beta: float = 1, threshold: float = inf) -> Float:
    """Return log(1 + exp(beta * x)) / beta, or x if beta * x exceeds the threshold."""
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


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
    _function(
        "scaled_elu",
        lambda x, alpha, scale, input_scale: scale * np.where(x < 0, alpha * np.expm1(np.minimum(input_scale * x, 0)), x),
        *("alpha", "scale", "input_scale"),
    ),
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
        "lookup",
        # the first entry of the table is the output for -128
        reference=lambda graph, op, arrays: [operand(arrays, 1)[operand(arrays).astype(np.int64) + 128]],
        constraints=(arity(2), input_is_int8, output_is_int8, table_has_int8),
        scale=None,
        uint8="same",
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
