"""The linear functions of tw_prelu_s8_dsp equal prelu for all int8 inputs."""

from __future__ import annotations

import numpy as np
import pytest

from tinyweave.kernels.dsp.prelu import Lines, Prelu, lines
from tinyweave.ops.fixed_point import Rescale, quantize_multiplier, requantize

COUNT = 200


def drawn(rng: np.random.Generator) -> Prelu:
    """Return a prelu of up to 40 channels whose outputs are from a fifth to three times as large as its inputs."""
    zeros = int(rng.integers(-128, 128)), int(rng.integers(-128, 128))
    rescales = tuple(quantize_multiplier(float(rng.uniform(low, high))) for low, high in ((0.2, 3), (0.0005, 0.015)))
    return Prelu(zeros, rng.integers(-255, 256, int(rng.integers(1, 40))), (rescales[0], rescales[1]))


def outputs(given: Prelu, found: Lines) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of each channel for the inputs -128 .. 127: of TFLite's arithmetic, and of the linear functions."""
    (in_zero, zero), (positive, negative) = given.zeros, given.rescales
    x = np.arange(-128, 128) - in_zero
    scaled = np.where(x >= 0, requantize(x, *positive), requantize(x * given.slopes[:, None], *negative))
    factor, constant = (np.where(x >= 0, found.positive[part], found.negative[:, part, None]) for part in (0, 1))
    sums = x * factor + constant
    assert np.abs(sums).max() < 1 << 31
    return np.clip(scaled + zero, -128, 127), np.clip(sums >> found.shift, -128, 127)


def test_lines_equal_prelu_for_all_inputs() -> None:
    without = 0
    for number in range(COUNT):
        given = drawn(np.random.default_rng(number))
        found = lines(given)
        without += found is None
        if found is not None:
            assert np.array_equal(*outputs(given, found)), number
    assert without <= COUNT // 50


@pytest.mark.parametrize("zero", [-128, 0, 127])
def test_outputs_that_are_clamped_do_not_limit_a_factor(zero: int) -> None:
    """If the output's zero point is 127, all positive inputs give 127."""
    given = Prelu((zero, 127), np.array([-255, 0, 255]), (quantize_multiplier(1.7), quantize_multiplier(0.01)))
    found = lines(given)
    assert found is not None and np.array_equal(*outputs(given, found))


def test_a_prelu_that_is_too_steep_has_no_lines() -> None:
    """The factor needs at least one fractional bit beside the product of the largest input."""
    assert lines(Prelu((0, 0), np.array([1]), (Rescale(1 << 30, 23), Rescale(1 << 30, 0)))) is None
