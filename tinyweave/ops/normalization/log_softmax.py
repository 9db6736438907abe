"""log_softmax over the last axis of an int8 tensor, in fixed point.

Exponentials are summed in Q12.19 (19 fractional bits); the logarithm of the sum is in Q5.26. Source: TFLite
reference_integer_ops/log_softmax.h, internal/common.h (log_x_for_x_greater_than_or_equal_to_1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...ir import Graph, Op, Quant
from ..constraints import arity, input_is_int8, output_is_int8
from ..fixed_point import (
    INT32_MIN,
    Int64,
    exp_on_negative_values,
    high_mul,
    one_over_one_plus,
    quantize_multiplier,
    requantize,
    rounding_shift,
    saturating_shift_left,
)
from ..float32 import real_operand, real_outputs
from ..spec import Arrays, OpSpec, OptionalArrays, infer_same, on_integers, operand, windows_one_to_one
from .softmax import LEAST_SCALE, SCALED_DIFFERENCE_BITS, SUM_BITS, has_elements, of_differences

OUTPUT_BITS = 4  # integer bits of the output, whose scale is 1/16


class Parameters(NamedTuple):
    """The fixed-point factors of a log_softmax."""

    multiplier: int  # with left_shift, rescales x - max(x) to Q5.26
    left_shift: int
    reverse_multiplier: int  # with reverse_shift, rescales Q5.26 to the units of x - max(x)
    reverse_shift: int
    difference_min: int  # exponentials of smaller differences are 0


def parameters(graph: Graph, op: Op) -> Parameters:
    multiplier, left_shift, difference_min = of_differences(graph.input(op).scale)
    return Parameters(multiplier, left_shift, *quantize_multiplier(2.0 ** (31 - left_shift) / multiplier), difference_min)


def logarithm(x: Int64) -> Int64:
    """Return ln(x) in Q5.26 for x >= 1 in Q12.19: x = 2^k * r with r near 2^(-1/4), whose ln is a rational function."""
    log_2, sqrt_sqrt_half, sqrt_half = 1488522236, 1805811301, 1518500250
    alpha_n, alpha_d, alpha_i, alpha_f = 117049297, 127690142, 1057819769, 638450708
    quarter = 1 << 23  # in Q6.25
    zeros_a = 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)
    r_a = saturating_shift_left(high_mul(x << (zeros_a - 1), sqrt_half), 1)
    power_a = ((SUM_BITS - zeros_a) << 25) + quarter
    headroom_b = 31 - np.frexp(high_mul(x, sqrt_half).astype(np.float64))[1].astype(np.int64)
    r_b = np.clip(x << headroom_b, INT32_MIN, -INT32_MIN - 1)
    power_b = ((SUM_BITS - headroom_b) << 25) - quarter
    r, power = np.minimum(r_a, r_b), np.maximum(power_a, power_b)

    total = r + sqrt_sqrt_half
    p = (total + np.where(total >= 0, 1, -1)) // 2
    q = 2 * (r - sqrt_sqrt_half)
    squared = high_mul(q, q)
    numerator = high_mul(q, r) + high_mul(high_mul(q, squared), alpha_n)
    denominator = high_mul(p, alpha_i + q + high_mul(alpha_d, squared)) + high_mul(alpha_f, q)
    fraction = high_mul(rounding_shift(numerator, 6), one_over_one_plus(denominator))
    return saturating_shift_left(high_mul(power, log_2) + fraction, 1)


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, p = operand(arrays), parameters(graph, op)
    difference = x.astype(np.int64) - x.max(axis=-1, keepdims=True)
    counts = difference >= p.difference_min
    scaled = requantize(np.where(counts, difference, 0), p.multiplier, p.left_shift)
    exponential = rounding_shift(exp_on_negative_values(scaled), SUM_BITS)
    log_sum = logarithm(np.where(counts, exponential, 0).sum(axis=-1, keepdims=True))
    lower_bound = np.maximum(p.difference_min - 1, requantize(log_sum + INT32_MIN, p.reverse_multiplier, p.reverse_shift))
    result = rounding_shift(scaled - log_sum, 31 - SCALED_DIFFERENCE_BITS - OUTPUT_BITS) + 127
    return [np.where(difference > lower_bound, np.clip(result, -128, 127), -128).astype(np.int8)]


@on_integers
def scale_is_in_range(graph: Graph, op: Op) -> bool:
    """the input scale must be between 2^-26 and 2^4"""
    return bool(2.0**-26 < graph.input(op).scale < 16 - 1e-6)


@on_integers
def output_is_in_16ths(graph: Graph, op: Op) -> bool:
    """the output must have the scale 1/16 and the zero point 127"""
    return graph.output(op).scale == 1 / 16 and graph.output(op).zero_point == 127


CONSTRAINTS = (arity(1), input_is_int8, output_is_int8, has_elements, scale_is_in_range, output_is_in_16ths)


def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = real_operand(arrays)
    below = x - x.max(axis=-1, keepdims=True)
    return real_outputs(below - np.log(np.exp(below).sum(axis=-1, keepdims=True)))


SPECS = (
    OpSpec(
        "log_softmax",
        infer_same,
        reference,
        CONSTRAINTS,
        windows=windows_one_to_one,
        family="softmax",
        scale=Quant((16 / 256,), (127,)),
        least_scale=LEAST_SCALE,
        real=real,
    ),
)
