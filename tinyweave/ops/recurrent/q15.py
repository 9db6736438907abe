"""logistic and tanh in 16-bit fixed point on numpy arrays, as in gemmlowp's fixedpoint.h.

Inputs are int64 arrays of int16 values with `integer_bits` integer bits and 15 - integer_bits fractional bits. Results are in
Q0.15 (units of 2^-15). tw_q15.h has the same functions in C.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..fixed_point import Int64, exp_around_minus_eighth

MAX = (1 << 15) - 1
POWERS = (25520, 19875, 12055, 4435, 600, 11, 0)  # exp(-2^k) for k = -2 .. 4


def multiply(a: ArrayLike, b: ArrayLike) -> Int64:
    """Return the product a * b / 2^15 of two numbers in Q0.15, rounded half up."""
    return np.asarray((np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 14)) >> 15)


def saturate(x: ArrayLike) -> Int64:
    return np.asarray(np.clip(np.asarray(x, np.int64), -MAX - 1, MAX))


def exp_on_negative_values(x: ArrayLike, integer_bits: int) -> Int64:
    """Return exp(x) in Q0.15 for x <= 0 with `integer_bits` integer bits."""
    x = np.asarray(x, np.int64)
    fraction_bits = 15 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    fraction = (x & (quarter - 1)) - quarter  # in [-1/4, 0)
    result = saturate(exp_around_minus_eighth(fraction << integer_bits, 1 << 12, 28918, 10923, multiply))
    remainder = fraction - x  # a multiple of 1/4
    for exponent, power in enumerate(POWERS, start=-2):
        if exponent < integer_bits:
            result = np.where(remainder & (1 << (fraction_bits + exponent)), multiply(result, power), result)
    if integer_bits > 5:
        result = np.where(x < -(32 << fraction_bits), 0, result)
    return np.where(x == 0, MAX, result)


def _reciprocal(a: Int64) -> Int64:
    """Return 2 / (1 + a) in Q2.13 for 0 <= a < 1 in Q0.15, by three Newton steps."""
    half_denominator = (a + MAX + 1) >> 1
    x = 23130 + multiply(half_denominator, -15420)  # 48/17 - 32/17 d
    for _ in range(3):
        x = x + saturate(multiply(x, (1 << 13) - multiply(half_denominator, x)) << 2)
    return x


def logistic(x: ArrayLike, integer_bits: int = 3) -> Int64:
    """Return 1 / (1 + exp(-x)) in Q0.15 for int16 x with `integer_bits` integer bits."""
    x = np.asarray(x, np.int64)
    positive = saturate(_reciprocal(exp_on_negative_values(-np.abs(x), integer_bits)) << 1)
    return np.where(x == 0, 1 << 14, np.where(x > 0, positive, MAX - positive))


def tanh(x: ArrayLike, integer_bits: int) -> Int64:
    """Return tanh(x) in Q0.15 for int16 x with `integer_bits` integer bits."""
    x = np.asarray(x, np.int64)
    # with one more integer bit the same bits stand for 2 |x|
    positive = saturate((_reciprocal(exp_on_negative_values(-np.abs(x), integer_bits + 1)) - (1 << 13)) << 2)
    return np.where(x == 0, 0, np.where(x > 0, positive, -positive))
