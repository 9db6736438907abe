"""Ranges of activations: histograms of bounded memory, and four ways to choose [low, high] from one.

In: the values of a tensor, batch after batch. Out: a Histogram; candidates for its range; the error that a range leaves.
Sources: minimum and maximum as in TFLite's converter; entropy as in TensorRT's calibrator (Migacz, GTC 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Quant
from .convert import affine, interval

BINS = 1 << 14  # over [-limit, limit]: at least 4,096 of them hold values, 16 or more to a step of int8
COARSE = 1 << 11  # for entropy, to which a bin without values says something
FLOAT32_BINS = (1e-30, 1e30)  # limits between which float32 can say in which bin a value lies
PERCENTILE = 99.99
MOST_OUTSIDE = 0.01  # of all values, for entropy: of few values any two bins tell as much as they would in a range of two
FACTORS = np.geomspace(1.0, 0.01, 57)  # of the least and the greatest value, where a range is searched for
CLOSE = np.linspace(0.92, 1.08, 17)  # of a range that is nearly the best
Range = tuple[float, float]


class Histogram:
    """How often which values occur, in bins of equal width around 0 that become twice as wide when a value lies outside."""

    def __init__(self, counts: NDArray[np.int64] | None = None, limit: float = 0.0, low: float = 0.0, high: float = 0.0):
        self.counts = np.zeros(BINS, np.int64) if counts is None else counts
        self.limit, self.low, self.high = limit, low, high

    def add(self, values: NDArray[Any]) -> None:
        """Count values, which must be finite."""
        if values.size == 0:
            return
        low, high = float(values.min()), float(values.max())
        largest = max(-low, high)
        if self.limit == 0.0 and largest > 0:
            self.limit = float(2.0 ** np.ceil(np.log2(largest)))
        while largest > self.limit:
            self._widen()
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.limit == 0.0:  # nothing but zeros so far
            self.counts[BINS // 2] += values.size
            return
        if not FLOAT32_BINS[0] < self.limit < FLOAT32_BINS[1]:
            values = values.astype(np.float64)
        places = ((values.ravel() + self.limit) * (BINS / 2 / self.limit)).astype(np.int64)
        self.counts += np.bincount(np.minimum(places, BINS - 1), minlength=BINS)

    def _widen(self) -> None:
        pairs = self.counts.reshape(-1, 2).sum(axis=1)
        self.counts = np.zeros(BINS, np.int64)
        self.counts[BINS // 4 : BINS // 4 * 3] = pairs
        self.limit *= 2

    def joined(self, other: Histogram) -> Histogram:
        """Return the histogram of what both have counted."""
        a, b = (Histogram(h.counts.copy(), h.limit, h.low, h.high) for h in (self, other))
        for one, two in ((a, b), (b, a)):
            if one.limit == 0.0:
                one.limit = two.limit
            while one.limit < two.limit:
                one._widen()
        return Histogram(a.counts + b.counts, a.limit, min(a.low, b.low), max(a.high, b.high))

    def occupied(self, bins: int = BINS) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the centres of the bins that hold values, and how many they hold; with fewer bins, which divide `BINS`."""
        counts = self.counts.reshape(bins, -1).sum(axis=1)
        places = np.flatnonzero(counts)
        centres = (places + 0.5) * (2 * self.limit / bins) - self.limit
        return np.clip(centres, self.low, self.high), counts[places].astype(np.float64)


def error(histogram: Histogram, quant: Quant) -> float:
    """Return the mean square of what quantising the counted values to int8 changes."""
    centres, counts = histogram.occupied()
    low, high = interval(quant)
    nearest = np.rint(np.clip(centres, low, high) / quant.scale[0]) * quant.scale[0]
    return float((counts * (centres - nearest) ** 2).sum() / max(counts.sum(), 1))


def min_max(histogram: Histogram) -> Range:
    return histogram.low, histogram.high


def percentile(histogram: Histogram, percent: float = PERCENTILE) -> Range:
    """Return the range that leaves out (100 - percent) % of the values at either end."""
    centres, counts = histogram.occupied()
    if not len(centres):
        return min_max(histogram)
    below = np.cumsum(counts) / counts.sum()
    ends = np.searchsorted(below, (1 - percent / 100, percent / 100))
    low, high = centres[np.minimum(ends, len(centres) - 1)]
    return float(max(histogram.low, min(low, 0.0))), float(min(histogram.high, max(high, 0.0)))


def least_error(histogram: Histogram) -> Range:
    """Return the range of least mean square error: either end shrinks in turn, by the best of `FACTORS`, then of `CLOSE`."""
    low, high = min_max(histogram)
    for factors in (FACTORS, FACTORS, CLOSE):
        if histogram.low < 0:
            ends = (low if factors is CLOSE else histogram.low) * factors
            low = min(np.maximum(ends, histogram.low), key=lambda end: error(histogram, affine(end, high)))
        if histogram.high > 0:
            ends = (high if factors is CLOSE else histogram.high) * factors
            high = min(np.minimum(ends, histogram.high), key=lambda end: error(histogram, affine(low, end)))
    return float(low), float(high)


def entropy(histogram: Histogram) -> Range:
    """Return the range whose 256 levels tell least else than the values do: least Kullback-Leibler divergence.

    What lies outside, at most `MOST_OUTSIDE`, counts as the outermost level; within a level the mass is spread over the bins
    that hold values.
    """
    centres, counts = histogram.occupied(COARSE)
    if len(centres) < 2:
        return min_max(histogram)

    def divergence(factor: float) -> float:
        quant = affine(histogram.low * factor, histogram.high * factor)
        low, high = interval(quant)
        levels = np.rint(np.clip(centres, low, high) / quant.scale[0]).astype(np.int64)
        levels -= levels.min()
        inside = (centres >= low - quant.scale[0] / 2) & (centres <= high + quant.scale[0] / 2)
        if inside.sum() < 2 or counts[~inside].sum() > MOST_OUTSIDE * counts.sum():
            return np.inf
        first, last = np.flatnonzero(inside)[[0, -1]]
        p = np.where(inside, counts, 0.0)
        p[first] += counts[:first].sum()
        p[last] += counts[last + 1 :].sum()
        within, bins = np.bincount(levels[inside], counts[inside]), np.bincount(levels[inside])
        q = (within / np.maximum(bins, 1))[levels[inside]]
        p = p[inside] / p.sum()
        return float((p * np.log(p / (q / q.sum()))).sum())

    factor = min(FACTORS, key=divergence)
    return histogram.low * float(factor), histogram.high * float(factor)


METHODS: dict[str, Callable[[Histogram], Range]] = {
    "minmax": min_max,
    "percentile": percentile,
    "mse": least_error,
    "entropy": entropy,
}


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Raise CompileError where an activation is not a finite number."""
    if not np.isfinite(values).all():
        raise CompileError(
            "becomes infinite or NaN on a calibration sample", "look at the samples and at the float model", tensor=name
        )
