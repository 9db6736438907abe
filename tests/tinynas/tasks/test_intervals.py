"""Confidence intervals: of independent samples against their equations, of groups against what they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinynas.tasks.evaluation.intervals import (
    FEW_GROUPS,
    MIN_GROUPS,
    Z_95,
    accuracy_interval,
    paired_interval,
    student_t,
    too_few_groups,
    wilson,
)


@pytest.mark.parametrize("share, count", [(0.0, 10), (0.5, 10), (0.9, 50), (1.0, 200)])
def test_the_ends_are_as_many_deviations_from_the_share_as_said(share: float, count: int) -> None:
    low, high = wilson(share, count)
    assert -1e-9 <= low <= share <= high <= 1 + 1e-9 and low < high
    for end in (low, high):
        assert (share - end) ** 2 == pytest.approx(Z_95**2 * end * (1 - end) / count, abs=1e-9)


def test_the_interval_of_independent_samples_is_wilsons() -> None:
    correct = np.arange(50) < 45
    assert accuracy_interval(correct) == wilson(0.9, 50)
    assert accuracy_interval(correct, np.zeros(50, np.int64)) == wilson(0.9, 50), "one group cannot be resampled"


def test_the_paired_interval_is_agresti_and_mins() -> None:
    """Of 100 samples the first has 9 right that the second has wrong, and 2 the other way: 0.0686, standard error 0.0334."""
    first, second = np.ones(100, bool), np.ones(100, bool)
    second[:9] = first[9:11] = False
    middle, error = 7 / 102, math.sqrt(12 - 49 / 102) / 102
    assert paired_interval(first, second) == pytest.approx((middle - 1.96 * error, middle + 1.96 * error))
    assert paired_interval(second, first) == pytest.approx((-middle - 1.96 * error, -middle + 1.96 * error))
    low, high = paired_interval(first, first)
    assert low == -high < 0, "equal classifiers differ by nothing, within what so many samples can tell"


def test_groups_widen_an_interval_and_never_narrow_it() -> None:
    groups = np.repeat(np.arange(8), 25)
    by_group = np.repeat([True, True, True, True, True, True, False, False], 25)
    low, high = accuracy_interval(by_group, groups)
    assert low < 0.4 and high == 1.0 and accuracy_interval(by_group)[0] > 0.6
    order = np.random.default_rng(1).permutation(200)
    assert accuracy_interval(by_group[order], groups[order]) == (low, high), "the order of samples does not matter"
    right = np.ones(200, bool)
    assert accuracy_interval(right, groups) == accuracy_interval(right)
    low, high = paired_interval(right, by_group, groups)
    assert low == 0 < paired_interval(right, by_group)[0] and high > 0.6, "two of eight groups may be chance"


@pytest.mark.parametrize(("count", "least", "most"), [(MIN_GROUPS, 0.87, 0.93), (10, 0.93, 0.97), (FEW_GROUPS, 0.93, 0.97)])
def test_intervals_of_groups_hold_the_truth_about_as_often_as_they_say(count: int, least: float, most: float) -> None:
    """The accuracy of each of `count` groups is drawn from a beta distribution with mean 0.8, 400 times."""
    rng, groups = np.random.default_rng(3), np.repeat(np.arange(count), 40)
    held = naive = 0
    for _ in range(400):
        correct = rng.random(40 * count) < np.repeat(rng.beta(8, 2, count), 40)
        low, high = accuracy_interval(correct, groups)
        held += low <= 0.8 <= high
        low, high = accuracy_interval(correct)
        naive += low <= 0.8 <= high
    assert least <= held / 400 <= most and naive / 400 < 0.75


def test_an_interval_of_ten_groups_is_that_of_students_distribution() -> None:
    """The mean of ten groups has 9 degrees of freedom; each group has another number of its 999 samples right."""
    right = np.random.default_rng(6).integers(300, 700, 10)
    groups, correct = np.repeat(np.arange(10), 999), (np.arange(999) < right[:, None]).ravel()
    half = 2.262 * np.std(right / 999, ddof=1) / math.sqrt(10)
    low, high = accuracy_interval(correct, groups)
    assert (high - low) / 2 == pytest.approx(half, rel=0.05)


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 2.776), (9, 2.262), (30, 2.042)])
def test_quantiles_of_students_distribution(freedom: int, quantile: float) -> None:
    assert student_t(freedom) == pytest.approx(quantile, abs=0.01)


def test_an_interval_of_few_groups_is_not_to_be_trusted() -> None:
    assert too_few_groups(None) is None and too_few_groups(np.arange(FEW_GROUPS)) is None
    for few in (MIN_GROUPS, FEW_GROUPS - 1):
        said = f"come from {few} groups: with fewer than 15, a 95 % interval is too narrow, and with 5 it holds"
        assert said in str(too_few_groups(np.arange(few)))
    assert "from 4 groups, so the interval cannot be trusted: test on at least 5 groups" in str(
        too_few_groups(np.arange(40) % 4)
    )
    assert "from 1 group," in str(too_few_groups(np.zeros(9, np.int64)))
