"""Fixed-point arithmetic equals results computed by hand, exact fractions, and is close to real exponentials."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from cases.draw import activation, constant, single_op
from cases.ops import cases

from tinyweave.ir import CompileError, Quant
from tinyweave.ops import fixed_point as fp
from tinyweave.ops import fully_connected


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (1.0, (1 << 30, 1)),
        (0.5, (1 << 30, 0)),
        (0.75, (3 << 29, 0)),
        (1 - 2.0**-40, (1 << 30, 1)),  # rounds up to the next power of two
        (0.0, (0, 0)),
        (2.0**-32, (1 << 30, -31)),
        (2.0**-33, (0, 0)),
        (3.0, (3 << 29, 2)),
    ],
)
def test_quantize_multiplier_gives_mantissa_and_shift(scale: float, expected: tuple[int, int]) -> None:
    assert fp.quantize_multiplier(scale) == expected


def test_quantize_multipliers_equals_quantize_multiplier_of_each_scale() -> None:
    rng = np.random.default_rng(5)
    scales = [0.0, 1 - 2.0**-40, 2.0**-33, *np.exp2(rng.uniform(-40, 30, 2000)), *(1 - np.exp2(rng.uniform(-60, -20, 100)))]
    multipliers, shifts = fp.quantize_multipliers(scales)
    assert list(zip(multipliers.tolist(), shifts.tolist(), strict=True)) == [fp.quantize_multiplier(s) for s in scales]
    with pytest.raises(CompileError, match=r"a scale of 4\.29497e\+09 is too large"):
        fp.quantize_multipliers([0.5, 2.0**32])


def test_high_mul_rounds_half_up_and_saturates() -> None:
    half = 1 << 30
    assert fp.high_mul([1, -1, 3, -3], half).tolist() == [1, 0, 2, -1]
    assert fp.high_mul(fp.INT32_MIN, fp.INT32_MIN) == fp.INT32_MAX


def test_rounding_shift_rounds_halves_away_from_zero() -> None:
    assert fp.rounding_shift([5, -5, 6, -6, 7, -7, 2, -2], 2).tolist() == [1, -1, 2, -2, 2, -2, 1, -1]
    assert fp.rounding_shift([5, -5], 0).tolist() == [5, -5]
    assert fp.rounding_shift(fp.INT32_MIN, 31) == -1


def test_requantize_rounds_twice() -> None:
    # 5 * 0.3 is slightly below 1.5. high_mul rounds 0.6 * 5 to 3, and 3 / 2 rounds to 2; a single rounding gives 1
    assert fp.requantize(5, *fp.quantize_multiplier(0.3 - 1e-9)) == 2
    assert fp.requantize_once(5, *fp.exact_multiplier(0.3 - 1e-9)) == 1


def test_requantize_shifts_left_modulo_2_to_the_32() -> None:
    assert fp.requantize(1 << 30, 1 << 30, 2) == 0


def test_round_half_away_rounds_halves_away_from_zero() -> None:
    below_half = np.nextafter(0.5, 0)
    assert fp.round_half_away([0.5, -0.5, 1.5, -2.5, below_half, -below_half]).tolist() == [1, -1, 2, -3, 0, 0]


def test_requantize_once_is_exact() -> None:
    rng = np.random.default_rng(5)
    for scale in (*np.exp(rng.uniform(-20, 4, 40)), 0.5, 0.25, 1.5):
        multiplier, shift = fp.exact_multiplier(scale)
        x = rng.integers(-(1 << 24), 1 << 24, 200)
        got = fp.requantize_once(x, multiplier, shift)
        for value, rounded in zip(x.tolist(), got.tolist(), strict=True):
            exact = abs(value) * Fraction(scale)
            away = int(exact + Fraction(1, 2))
            assert rounded == (away if value >= 0 else -away)


def test_exp_on_negative_values_is_as_exact_as_its_series() -> None:
    x = np.concatenate([-np.arange(0, 1 << 31, 9_999_991), [-1, -(1 << 24), -(1 << 31)]])
    expected = np.exp(x / 2.0**26)
    next_term = 2.0**-15 / 120  # first term that the series leaves out: (1/8)^5 / 5!
    assert np.abs(fp.exp_on_negative_values(x) / 2.0**31 - expected).max() < next_term
    assert fp.exp_on_negative_values(0) == fp.INT32_MAX


def test_reciprocal_has_a_relative_error_below_1e_7() -> None:
    x = np.array([1 << 19, 3 << 18, (1 << 31) - 1, 12345678])
    r, bits = fp.reciprocal(x, 12)
    assert np.allclose(r / 2.0**31 / 2.0**bits, 2.0**19 / x, rtol=1e-7)


def test_fully_connected_integers_equal_float64() -> None:
    for case in cases("fully_connected"):
        graph, op = case.graph, case.graph.ops[0]
        multiplier, shift = fully_connected.requant(graph, op)
        sums = np.random.default_rng(1).integers(-(1 << 20), 1 << 20, (1000, 1))
        low, high = -256, 256  # beyond the range of outputs
        expected = np.clip(fp.round_half_away(sums * fully_connected.scales(graph, op)), low, high)
        assert np.array_equal(np.clip(fp.requantize_once(sums, multiplier, shift), low, high), expected), case.id


@pytest.mark.parametrize("divisor", [3, 5, 6, 7, 10, 48, 100, 1000])
def test_fully_connected_equals_float64_that_rounds_up_to_a_half(divisor: int) -> None:
    x = activation("input", (1, 1), np.random.default_rng(0), quant=Quant((1.0,), (0,)))
    weights = constant("weights", np.array([[1]], np.int8), Quant((1.0,), (0,)))
    out = activation("output", (), np.random.default_rng(0), quant=Quant((float(divisor),), (0,)))
    graph = single_op("fully_connected", [x, weights], out, {"activation": "none", "keep_num_dims": False})
    multiplier, shift = fully_connected.requant(graph, graph.ops[0])
    sums = np.arange(-255 * divisor, 255 * divisor)
    assert np.array_equal(fp.requantize_once(sums, multiplier, shift), fp.round_half_away(sums * (1 / divisor)))


def test_fully_connected_ties_round_away_from_zero() -> None:
    x = activation("input", (1, 1), np.random.default_rng(0), quant=Quant((1.0,), (0,)))
    weights = constant("weights", np.array([[1], [-1]], np.int8), Quant((1.0,), (0,)))
    out = activation("output", (), np.random.default_rng(0), quant=Quant((2.0,), (0,)))
    graph = single_op("fully_connected", [x, weights], out, {"activation": "none", "keep_num_dims": False})
    multiplier, shift = fully_connected.requant(graph, graph.ops[0])
    assert fp.requantize_once([3, -3, 1, -1], multiplier[0], shift[0]).tolist() == [2, -2, 1, -1]
