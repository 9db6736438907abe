"""Activations that TFLite computes with integer arithmetic of their own: leaky_relu, prelu, hard_swish.

Source: TFLite reference/leaky_relu.h, prelu.h, hard_swish.h and the Prepare functions of activations.cc.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import ArrayLike

from ..ir import Graph, Op
from .constraints import arity, input_is_int8, input_is_int8_or_int16, output_has_input_type, output_is_int8, per_tensor
from .fixed_point import Int64, Rescale, quantize_multiplier, requantize, rounding_shift
from .float32 import real_binary, real_unary
from .spec import Arrays, OpSpec, OptionalArrays, centred, finish, infer_broadcast, on_integers, unary, windows_one_to_one

Slopes = tuple[Rescale, Rescale]  # factors for inputs at or above the zero point, and for inputs below it


@np.errstate(over="ignore")  # quantize_multiplier refuses infinity
def leaky_relu_slopes(graph: Graph, op: Op) -> Slopes:
    """Return the factors to the output scale for inputs at or above the zero point, and for those below; from float32."""
    x, out, alpha = np.float32(graph.input(op).scale), np.float32(graph.output(op).scale), np.float32(op.attrs["alpha"])
    multiplier, shift = quantize_multiplier(float(np.abs(x * alpha / out)))
    return quantize_multiplier(float(x / out)), Rescale(multiplier if alpha >= 0 else -multiplier, shift)


def prelu_slopes(graph: Graph, op: Op) -> Slopes:
    """Return the factors to the output scale for inputs at or above the zero point, and for products below it with slopes."""
    x, alpha, out = (np.float32(t.scale) for t in (graph.input(op), graph.input(op, 1), graph.output(op)))
    return quantize_multiplier(float(x / out)), quantize_multiplier(float(x * alpha / out))


def reference_leaky_relu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, (positive, (multiplier, shift)) = centred(arrays, 0, graph, op), leaky_relu_slopes(graph, op)
    below = np.sign(multiplier) * requantize(x, abs(multiplier), shift)  # rounded as for the positive slope
    return finish(graph, op, np.where(x >= 0, requantize(x, *positive), below))


def reference_prelu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, alpha = centred(arrays, 0, graph, op), centred(arrays, 1, graph, op)
    positive, negative = prelu_slopes(graph, op)
    return finish(graph, op, np.where(x >= 0, requantize(x, *positive), requantize(x * alpha, *negative)))


def reference_hard_swish(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute x * relu6(x + 3) / 6 in int16: relu6(x + 3) / 6 in Q0.15, times x in units of 1/128 of the input scale."""
    (output, output_exponent), (gate, gate_exponent) = hard_swish_multipliers(graph, op)
    x = centred(arrays, 0, graph, op) << 7
    opening = _high_mul16(_saturate16(x << max(gate_exponent - 1, 0)), gate)
    if gate_exponent > 0:
        opening = _saturate16(opening << 1)
    elif gate_exponent < 0:
        opening = rounding_shift(opening, -gate_exponent)
    product = ((opening + (1 << 15)) >> 1) * _high_mul16(x, output)
    return finish(graph, op, rounding_shift(np.sign(product) * (np.abs(product) >> 15), -output_exponent))  # C's division


def hard_swish_multipliers(graph: Graph, op: Op) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return two (multiplier, exponent) pairs that rescale 1/128 of the input scale to the output scale, and to 3 / 2^15."""
    fine = np.float32(graph.input(op).scale) * np.float32(1 / 128)
    gate = _int16_multiplier(float(fine / (np.float32(3) / np.float32(32768))))
    return _int16_multiplier(float(fine / np.float32(graph.output(op).scale))), gate


def _int16_multiplier(scale: float) -> tuple[int, int]:
    """Return a real factor as an int16 multiplier and an exponent: multiplier * 2^(exponent - 15)."""
    multiplier, shift = quantize_multiplier(scale)
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), shift


def _saturate16(x: ArrayLike) -> Int64:
    return np.asarray(np.clip(np.asarray(x, np.int64), -(1 << 15), (1 << 15) - 1))


def _high_mul16(a: Int64, b: int) -> Int64:
    """Return a * b / 2^15, rounded and saturated to int16 (gemmlowp SaturatingRoundingDoublingHighMul of int16)."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return _saturate16(np.sign(nudged) * (np.abs(nudged) >> 15))


@on_integers
def types_are_int8_or_int16(graph: Graph, op: Op) -> bool:
    """input and output must be both int8 or both int16, quantised with one scale and zero point"""
    x, out = graph.input(op), graph.output(op)
    return x.dtype == out.dtype and x.dtype in ("int8", "int16") and per_tensor(x) and per_tensor(out)


@on_integers
def slope_is_int8(graph: Graph, op: Op) -> bool:
    """the slope must be int8, quantised with one scale and zero point, also for int16 inputs"""
    return graph.input(op, 1).dtype == "int8" and per_tensor(graph.input(op, 1))


def slope_broadcasts(graph: Graph, op: Op) -> bool:
    """the slope must be broadcastable to the input's shape, which must have at most four axes"""
    x, alpha = graph.input(op).shape, graph.input(op, 1).shape
    return len(alpha) <= len(x) <= 4 and all(b in (a, 1) for a, b in zip(reversed(x), reversed(alpha), strict=False))


@on_integers
def output_step_is_large(graph: Graph, op: Op) -> bool:
    """the output scale must be more than 1/128 of the input scale"""
    return bool(np.float32(graph.input(op).scale) * np.float32(1 / 128) < np.float32(graph.output(op).scale))


@on_integers
def scales_are_alike(graph: Graph, op: Op) -> bool:
    """the input scale must be at least 3 * 2^-24, and the output scale at most 2^9 times the input scale"""
    # a right shift of int16 by more than 15 gives 1 or -1 instead of 0 in LiteRT
    return all(exponent >= -15 for _, exponent in hard_swish_multipliers(graph, op))


SPECS = (
    unary(
        "leaky_relu",
        reference=reference_leaky_relu,
        constraints=(arity(1), types_are_int8_or_int16),
        rescale=leaky_relu_slopes,
        int16=True,
        uint8="same",
        real=real_unary(lambda x, alpha: np.where(x > 0, x, x * np.float32(alpha)), "alpha"),
    ),
    OpSpec(
        "prelu",
        infer_broadcast,
        reference_prelu,
        (arity(2), input_is_int8_or_int16, slope_is_int8, output_has_input_type, slope_broadcasts),
        windows=windows_one_to_one,
        family="binary",
        channelwise=True,
        uint8="same",
        scale="own",
        rescale=prelu_slopes,
        real=real_binary(lambda x, alpha: np.where(x >= 0, x, x * alpha)),
    ),
    unary(
        "hard_swish",
        reference=reference_hard_swish,
        constraints=(arity(1), input_is_int8, output_is_int8, output_step_is_large, scales_are_alike),
        uint8="same",
        least_scale=2.0**-21,
        real=real_unary(lambda x: x * np.clip(x + 3, 0, 6) / 6),
        image=(-0.375, inf),
        useful=lambda low, high: (-3.0, max(high, 3.0)),
    ),
)
