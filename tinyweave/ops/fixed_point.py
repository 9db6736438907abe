"""Fixed-point arithmetic of TFLite's reference kernels on numpy arrays.

Arrays are int64 and hold int32 values. In the format Qm.n an integer x stands for the number x / 2^n; Q31 is Q0.31. Scales are
float64. Source: TFLite's quantization_util.cc and common.cc, gemmlowp's fixedpoint.h. tw.h has the same functions in C.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..ir import CompileError

Int64 = NDArray[np.int64]

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


class Rescale(NamedTuple):
    """A real factor as `requantize` takes it: multiplier * 2^(shift - 31), with multiplier in [2^30, 2^31) or 0."""

    multiplier: int
    shift: int

    @property
    def real(self) -> float:
        """Return the real factor that is applied."""
        return self.multiplier * 2.0 ** (self.shift - 31)


def quantize_multiplier(scale: float) -> Rescale:
    """Return the `Rescale` nearest to a real factor; 0 for factors below 2^-32 (TFLite QuantizeMultiplier)."""
    multiplier, shift = quantize_multipliers(scale)
    return Rescale(int(multiplier), int(shift))


def quantize_multipliers(scales: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Apply `quantize_multiplier` to each scale; return the multipliers and the shifts in the types that C kernels read."""
    scales = np.asarray(scales, np.float64)
    if (too_large := scales[~(scales < 2.0**30 * (1 - 2.0**-32))]).size:  # rounded to 2^30 or more, or not finite
        raise CompileError(f"a scale of {too_large[0]:g} is too large for fixed point", "give the op's output a larger scale")
    mantissa, shift = np.frexp(scales)
    multiplier, shift = np.floor(mantissa * (1 << 31) + 0.5).astype(np.int64), shift.astype(np.int64)
    is_whole = multiplier == 1 << 31
    multiplier, shift = np.where(is_whole, multiplier // 2, multiplier), shift + is_whole
    is_none = (scales == 0.0) | (shift < -31)
    return np.where(is_none, 0, multiplier).astype(np.int32), np.where(is_none, 0, shift).astype(np.int8)


def wrap32(x: ArrayLike) -> Int64:
    """Return x modulo 2^32 in the range of int32, as a two's complement overflow does."""
    return np.asarray(x, np.int64).astype(np.int32).astype(np.int64)


def high_mul(a: ArrayLike, b: ArrayLike) -> Int64:
    """Return a * b / 2^31, rounded half up, saturated (gemmlowp SaturatingRoundingDoublingHighMul)."""
    return np.asarray(np.minimum((np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 30)) >> 31, INT32_MAX))


def rounding_shift(x: ArrayLike, exponent: ArrayLike) -> Int64:
    """Return x / 2^exponent, rounded half away from zero (gemmlowp RoundingDivideByPOT)."""
    x, exponent = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    mask = (np.int64(1) << exponent) - 1
    return np.asarray((x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0)))


def saturating_shift_left(x: ArrayLike, exponent: int) -> Int64:
    """Return x * 2^exponent, clamped to int32 (gemmlowp SaturatingRoundingMultiplyByPOT with a positive exponent)."""
    return np.asarray(np.clip(np.asarray(x, np.int64) << exponent, INT32_MIN, INT32_MAX))


def requantize(x: ArrayLike, multiplier: ArrayLike, shift: ArrayLike) -> Int64:
    """Return x * multiplier * 2^(shift - 31), rounded twice (TFLite MultiplyByQuantizedMultiplier)."""
    x, shift = np.asarray(x, np.int64), np.asarray(shift, np.int64)
    return rounding_shift(high_mul(wrap32(x << np.maximum(shift, 0)), multiplier), np.maximum(-shift, 0))


def reduced_multiplier(multiplier: ArrayLike) -> Int64:
    """Return a Q31 multiplier rounded to Q15 (15 fractional bits), with which TFLite rescales 64-bit sums."""
    return np.asarray(np.minimum((np.asarray(multiplier, np.int64) + (1 << 15)) >> 16, 0x7FFF))


def requantize_wide(x: ArrayLike, multiplier: ArrayLike, shift: ArrayLike) -> Int64:
    """Rescale 64-bit sums by multiplier * 2^(shift - 31) as TFLite: the multiplier in Q15, rounded once, halves up."""
    right = 15 - np.asarray(shift, np.int64)
    return wrap32((np.asarray(x, np.int64) * reduced_multiplier(multiplier) + (np.int64(1) << (right - 1))) >> right)


def round_half_away(x: ArrayLike) -> NDArray[Any]:
    """Round to the nearest integer, halves away from zero, as C's round does; the dtype is kept."""
    x = np.asarray(x)
    whole = np.trunc(x)
    return np.asarray(whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), np.zeros((), x.dtype)))


def requantize_once(x: ArrayLike, multiplier: ArrayLike, shift: ArrayLike) -> Int64:
    """Return x * multiplier * 2^(shift - 63), rounded once, halves away from zero.

    `x` has at most 32 bits, `multiplier` is in [2^62, 2^63), `shift` at most 30. As in C, only the high word of the product
    with the multiplier's low 32 bits is added.
    """
    x, shift = np.asarray(x, np.int64), np.asarray(shift, np.int64)
    multiplier = np.asarray(multiplier, np.int64).astype(np.uint64)
    magnitude = np.abs(x).astype(np.uint64)
    high, low = multiplier >> np.uint64(32), multiplier & np.uint64(0xFFFFFFFF)
    product = magnitude * high + ((magnitude * low) >> np.uint64(32))
    right = (31 - shift).astype(np.uint64)
    rounded = ((product + (np.uint64(1) << (right - np.uint64(1)))) >> right).astype(np.int64)
    return np.asarray(np.where(x < 0, -rounded, rounded))


def exact_multiplier(scale: float) -> tuple[int, int]:
    """Return (multiplier, shift) for `requantize_once`: exactly scale = multiplier * 2^(shift - 63); (0, 0) below 2^-33."""
    mantissa, shift = math.frexp(scale)
    return (0, 0) if shift < -32 else (int(mantissa * (1 << 53)) << 10, shift)


def exp_on_negative_values(x: ArrayLike) -> Int64:
    """Return exp(x) in Q31 for x <= 0 in Q5.26, that is in units of 2^-26 (gemmlowp exp_on_negative_values)."""
    x = np.asarray(x, np.int64)
    one_quarter = 1 << 24
    fraction = (x & (one_quarter - 1)) - one_quarter  # in [-1/4, 0)
    result = exp_around_minus_eighth(saturating_shift_left(fraction, 5), 1 << 28, 1895147668, 715827883, high_mul)
    remainder = fraction - x  # a multiple of 1/4
    # exp(-2^k) in Q31, for k = -2 .. 4
    for bit, factor in enumerate((1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242), start=24):
        result = np.where(remainder & (1 << bit), high_mul(result, factor), result)
    return np.where(x == 0, INT32_MAX, result)


def exp_around_minus_eighth(
    a: Int64, one_eighth: int, exp_minus_one_eighth: int, one_third: int, multiply: Callable[[ArrayLike, ArrayLike], Int64]
) -> Int64:
    """Return exp(a) for -1/4 <= a < 0 by a Taylor series around -1/8; all numbers have the fixed-point format of `a`."""
    x = a + one_eighth
    x2 = multiply(x, x)
    x4_over_4 = rounding_shift(multiply(x2, x2), 2)
    higher_terms = rounding_shift(multiply(x4_over_4 + multiply(x2, x), one_third) + x2, 1)
    return exp_minus_one_eighth + multiply(exp_minus_one_eighth, x + higher_terms)


def reciprocal(x: ArrayLike, integer_bits: int) -> tuple[Int64, Int64]:
    """Return (r, bits) so that 1 / x is about r / 2^(31 + bits), for positive x of `integer_bits` (TFLite GetReciprocal)."""
    x = np.asarray(x, np.int64)
    headroom = 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)
    return one_over_one_plus((x << headroom) - (1 << 31)), integer_bits - headroom


def inverse_square_root(x: ArrayLike) -> tuple[Int64, Int64]:
    """Return (r, shift) with 1 / sqrt(x) about r * 2^(shift - 31), 1 <= x < 2^29 (TFLite GetInvSqrtQuantizedMultiplierExp)."""
    x = np.asarray(x, np.int64)
    pairs = (31 - np.frexp(x.astype(np.float64))[1].astype(np.int64)) // 2 - 1
    scaled = x << (2 * pairs)  # in [2^27, 2^29)
    half = rounding_shift(scaled >> 1, 1)
    root = np.full_like(scaled, 1 << 28)  # Q3.28, as all values below
    for _ in range(5):
        cube = saturating_shift_left(high_mul(high_mul(root, root), root), 6)
        root = saturating_shift_left(high_mul((1 << 28) + (1 << 27), root) - high_mul(half, cube), 3)
    root, shift = high_mul(root, 1518500250), pairs - 11  # sqrt(1/2)
    return np.where(x <= 1, INT32_MAX, root << np.maximum(shift, 0)), np.where(x <= 1, 0, np.minimum(shift, 0))


def one_over_one_plus(a: Int64) -> Int64:
    """Return 1 / (1 + a) for 0 <= a < 1, both in Q31, by three Newton steps in Q2.29."""
    half_denominator = (a + INT32_MAX + 1) >> 1  # (a + 1) / 2, rounded half up
    x = 1515870810 + high_mul(half_denominator, -1010580540)  # 48/17 - 32/17 d
    for _ in range(3):
        x = x + saturating_shift_left(high_mul(x, (1 << 29) - high_mul(half_denominator, x)), 2)
    return saturating_shift_left(x, 1)
