"""Activations whose reference is integer arithmetic of its own: leaky_relu, prelu, hard_swish.

Source: TFLite reference/leaky_relu.h, prelu.h, hard_swish.h and the Prepare functions of activations.cc.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..ir import Graph, Op
from .constraints import arity, input_is_int8, inputs_are_int8, output_is_int8, per_tensor
from .fixed_point import Int64, quantize_multiplier, requantize, rounding_shift
from .spec import Arrays, OpSpec, OptionalArrays, centred, finish, infer_broadcast, infer_same, windows_one_to_one


class Slopes(NamedTuple):
    """(multiplier, shift) of `fixed_point.requantize`, for inputs from the zero point on and for those below it."""

    positive: tuple[int, int]
    negative: tuple[int, int]


def leaky_relu_slopes(graph: Graph, op: Op) -> Slopes:
    """From the input, less its zero point, to the output; the scales are combined in float32."""
    x, out, alpha = np.float32(graph.input(op).scale), np.float32(graph.output(op).scale), np.float32(op.attrs["alpha"])
    multiplier, shift = quantize_multiplier(float(np.abs(x * alpha / out)))
    return Slopes(quantize_multiplier(float(x / out)), (multiplier if alpha >= 0 else -multiplier, shift))


def prelu_slopes(graph: Graph, op: Op) -> Slopes:
    """From the input, and from its product with the slope, each less its zero point, to the output."""
    x, alpha, out = (np.float32(t.scale) for t in (graph.input(op), graph.input(op, 1), graph.output(op)))
    return Slopes(quantize_multiplier(float(x / out)), quantize_multiplier(float(x * alpha / out)))


def reference_leaky_relu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, (positive, (multiplier, shift)) = centred(arrays, 0, graph, op), leaky_relu_slopes(graph, op)
    below = np.sign(multiplier) * requantize(x, abs(multiplier), shift)  # a slope below 0 is rounded as the one above it
    return finish(graph, op, np.where(x >= 0, requantize(x, *positive), below))


def reference_prelu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, alpha = centred(arrays, 0, graph, op), centred(arrays, 1, graph, op)
    positive, negative = prelu_slopes(graph, op)
    return finish(graph, op, np.where(x >= 0, requantize(x, *positive), requantize(x * alpha, *negative)))


def reference_hard_swish(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """x * relu6(x + 3) / 6 in int16: the relu6 as a number in [0, 1), Q0.15, times x at a 128th of its step."""
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
    """(multiplier, exponent) from a 128th of the input's step to the output's, and to the step of Q0.15 times 3."""
    fine = np.float32(graph.input(op).scale) * np.float32(1 / 128)
    gate = _int16_multiplier(float(fine / (np.float32(3) / np.float32(32768))))
    return _int16_multiplier(float(fine / np.float32(graph.output(op).scale))), gate


def _int16_multiplier(scale: float) -> tuple[int, int]:
    """`quantize_multiplier` with 15 bits."""
    multiplier, shift = quantize_multiplier(scale)
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), shift


def _saturate16(x: ArrayLike) -> Int64:
    return np.asarray(np.clip(np.asarray(x, np.int64), -(1 << 15), (1 << 15) - 1))


def _high_mul16(a: Int64, b: int) -> Int64:
    """a * b / 2^15, rounded half away from zero on the positive side (gemmlowp, int16)."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return _saturate16(np.sign(nudged) * (np.abs(nudged) >> 15))


def types_are_int8_or_int16(graph: Graph, op: Op) -> bool:
    """input and output must be both int8 or both int16, quantised with one scale and zero point"""
    x, out = graph.input(op), graph.output(op)
    return x.dtype == out.dtype and x.dtype in ("int8", "int16") and per_tensor(x) and per_tensor(out)


def slope_broadcasts(graph: Graph, op: Op) -> bool:
    """the slope must broadcast to the input's shape, which must have at most four axes"""
    x, alpha = graph.input(op).shape, graph.input(op, 1).shape
    return len(alpha) <= len(x) <= 4 and all(b in (a, 1) for a, b in zip(reversed(x), reversed(alpha), strict=False))


def output_step_is_large(graph: Graph, op: Op) -> bool:
    """the output's scale must be more than a 128th of the input's"""
    return bool(np.float32(graph.input(op).scale) * np.float32(1 / 128) < np.float32(graph.output(op).scale))


def scales_are_alike(graph: Graph, op: Op) -> bool:
    """the input's scale must be at least 3 * 2^-24, and the output's at most 2^9 times as large"""
    # int16 numbers are shifted right by at most 15; LiteRT's shift by more gives 1 and -1 for 0
    return all(exponent >= -15 for _, exponent in hard_swish_multipliers(graph, op))


SPECS = (
    OpSpec(
        "leaky_relu",
        infer_same,
        reference_leaky_relu,
        (arity(1), types_are_int8_or_int16),
        windows=windows_one_to_one,
        rescale=leaky_relu_slopes,
    ),
    OpSpec(
        "prelu",
        infer_broadcast,
        reference_prelu,
        (arity(2), inputs_are_int8, output_is_int8, slope_broadcasts),
        windows=windows_one_to_one,
        rescale=prelu_slopes,
    ),
    OpSpec(
        "hard_swish",
        infer_same,
        reference_hard_swish,
        (arity(1), input_is_int8, output_is_int8, output_step_is_large, scales_are_alike),
        windows=windows_one_to_one,
    ),
)
