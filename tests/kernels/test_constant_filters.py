"""Filters whose output does not depend on the input do not keep a layer from the fast kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tinyweave.kernels.dsp import dense
from tinyweave.ops.fixed_point import requantize

INPUTS = np.random.default_rng(0).integers(-128, 128, (9, 200))
INPUTS[:, :2] = -128, 127


def outputs(given: dense.Filters, limits: tuple[int, int]) -> np.ndarray:
    """Return the outputs, less the zero point, of filters for `INPUTS`: [filter][sample]."""
    sums = given.weights @ INPUTS + given.bias[:, None]
    return np.clip(requantize(sums, given.multiplier[:, None], given.shift[:, None]), *limits)


def filters(*rows: tuple[int, int, int]) -> dense.Filters:
    """Return filters with random weights and (bias, multiplier, shift) of `rows`."""
    weights = np.random.default_rng(1).integers(-127, 128, (len(rows), 9))
    return dense.Filters(weights, *(np.array(part, np.int64) for part in zip(*rows, strict=True)))


@pytest.mark.parametrize("limits", [(0, 255), (-128, 127), (-3, 90)])
def test_an_extreme_filter_with_one_output_becomes_a_filter_of_zeros(limits: tuple[int, int]) -> None:
    rows = [(-(1 << 30), 1 << 30, -25), (1 << 30, 2_000_000_000, -24), (5 << 23, 1 << 30, -1), (-(1 << 29), -(1 << 30), -23)]
    given = filters(*rows)
    found = dense.with_constants(given, limits)
    assert not found.weights.any() and not dense.are_outliers(found, dense.PAIRS_EXACTLY).any()
    assert dense.are_outliers(given, dense.PAIRS_EXACTLY).any()
    np.testing.assert_array_equal(outputs(found, limits), outputs(given, limits))


def test_other_filters_stay() -> None:
    """The first filter's output varies, the second's sums wrap, the third is not extreme, the fourth's shift goes left."""
    rows = [(1 << 28, 1 << 30, -10), ((1 << 31) - 1, 1 << 30, -25), (900, 1 << 30, -31), (9, 1 << 30, 1)]
    given = filters(*rows)
    limits = -(1 << 20), 1 << 20
    found = dense.with_constants(given, limits)
    for part, kept in zip(given, found, strict=True):
        np.testing.assert_array_equal(part, kept)
