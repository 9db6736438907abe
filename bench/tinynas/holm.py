"""Verdicts on many comparisons, by Holm's correction. In: what their 95 % intervals are made of. Out: p-values, verdicts."""

from __future__ import annotations

from collections.abc import Collection
from math import hypot

from scipy.special import ndtri, stdtrit

from tinynas.tasks.evaluation.intervals import Z_95, Interval

LEVEL = 0.05  # chance of at least one false verdict


def p_value(middle: float, error: float, by_seed: float = 0.0, freedom: int = 1) -> float:
    """Return the p-value of a difference `middle`: 1 minus the highest confidence at which its interval excludes 0.

    Its half-width is the root of the sum of two squares: of `error` times the quantile of a normal distribution, and of
    `by_seed` times the quantile of Student's t with `freedom` degrees.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        half = hypot(error * ndtri(p / 2), by_seed * stdtrit(freedom, p / 2))
        low, high = (low, p) if half < abs(middle) else (p, high)
    return high


def p_of(interval: Interval) -> float:
    """Return the p-value of a 95 % interval of which only the ends are known, with the quantiles of a normal distribution."""
    low, high = interval
    return p_value((low + high) / 2, (high - low) / 2 / Z_95)


def cutoff(p_values: Collection[float]) -> float:
    """Return the largest p-value that survives Holm's step-down procedure; -1 if none does.

    In rising order each is compared with LEVEL / (number of p-values from it on). Those before the first larger one survive.
    """
    survives = -1.0
    for rank, p in enumerate(sorted(p_values)):
        if p > LEVEL / (len(p_values) - rank):
            break
        survives = p
    return survives


def verdict_of(interval: Interval, limit: float) -> str:
    """Return the `verdict` on a 95 % interval of which only the ends are known."""
    return verdict(interval, p_of(interval), limit)


def verdict(interval: Interval, p: float, limit: float) -> str:
    """Return "better" or "worse" if p is at most `limit`, else "not shown" if the interval excludes 0, else an empty text."""
    low, high = interval
    if p <= limit:
        return "better" if low + high > 0 else "worse"
    return "not shown" if low > 0 or high < 0 else ""
