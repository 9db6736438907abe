"""Linear functions for adds are exact for all pairs of operands, or not used."""

from __future__ import annotations

import numpy as np
import pytest

from tinyweave.kernels.dsp import sums
from tinyweave.ops.fixed_point import quantize_multiplier, requantize

VALUES = np.arange(-128, 128)
CLAMPS = ((-128, 127), (-100, 90), (-7, -7))


def drawn(scales: tuple[float, float, float], zeros: tuple[int, int, int], clamp: tuple[int, int], sign: int = 1) -> sums.Sum:
    a, b, out = scales
    rescales = (quantize_multiplier(scale) for scale in (a / (2 * max(a, b)), b / (2 * max(a, b)), max(a, b) / (2**19 * out)))
    return sums.Sum(*rescales, zeros, sign, clamp)


def test_the_linear_function_of_an_add_is_exact_for_all_operands() -> None:
    """Nearly all adds with random scales have one; each gives the outputs of TFLite's three rescalings."""
    rng, found = np.random.default_rng(1), 0
    for number in range(100):
        a, b = 2.0 ** rng.uniform(-7, -3, 2)
        out, sign = max(a, b) * 2.0 ** rng.uniform(-1, 1.5), int(rng.choice([-1, 1]))
        zeros = tuple(int(zero) for zero in rng.integers(-128, 128, 3))
        given = drawn((a, b, out), zeros, CLAMPS[number % len(CLAMPS)], sign)
        if (line := sums.line(given)) is None:
            continue
        found += 1
        terms = [requantize((VALUES - zero) << 20, *rescale) for zero, rescale in zip(zeros, given[:2], strict=False)]
        expected = np.clip(requantize(terms[0][:, None] + sign * terms[1], *given.output) + zeros[2], *given.clamp)
        total = (VALUES * line.a_factor >> 8)[:, None] + (VALUES * line.b_factor >> 8) + line.constant
        assert np.abs(total).max() < 1 << 31
        assert np.array_equal(np.clip(total >> 20, *given.clamp), expected), given
    assert found > 95


@pytest.mark.parametrize(
    ("scales", "zeros"),
    [
        (
            (2.0**-5, float(np.float32(0.021)), float(np.float32(6 / 255))),
            (-3, 7, -128),
        ),  # sums halfway between two outputs, which TFLite rounds both ways
        ((0.5, 0.5, 0.001), (0, 0, 0)),  # factors exceed int32
        ((0.5, 0.5, 0.08), (-128, -128, 0)),  # sums exceed int32
    ],
)
def test_an_add_that_no_linear_function_equals_has_none(
    scales: tuple[float, float, float], zeros: tuple[int, int, int]
) -> None:
    assert sums.line(drawn(scales, zeros, (-128, 127))) is None
