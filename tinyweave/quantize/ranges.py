"""Choose the range [low, high] of an activation from a histogram of its values, by one of four methods.

Sources: minimum and maximum as in TFLite's converter; entropy as in TensorRT's calibrator (Migacz, GTC 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Quant
from .convert import affine, interval

BINS = 1 << 14  # bins over [-limit, limit]; the values span at least 4,096 of them, 16 per int8 step
ENTROPY_BINS = 1 << 11  # fewer bins than BINS, so that few bins between values are empty
FLOAT32_BINS = (1e-30, 1e30)  # limits between which bin indices can be computed in float32
PERCENTILE = 99.99
MOST_CLIPPED = 0.01  # largest fraction of values that entropy may clip; with few values the divergence is no guide
FACTORS = np.geomspace(1.0, 0.01, 57)  # coarse search: candidate ends as multiples of the minimum and maximum
FINE_FACTORS = np.linspace(0.92, 1.08, 17)  # fine search: candidate ends as multiples of the best ends so far
Range = tuple[float, float]


@dataclass(eq=False)
class Histogram:
    """Counts of values in BINS equal bins over [-limit, limit]; the limit doubles, and bins merge, for a value outside."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    limit: float = 0.0  # a power of two, or 0 as long as all values are 0
    low: float = 0.0  # minimum of all values and 0
    high: float = 0.0  # maximum of all values and 0

    def add(self, values: NDArray[Any]) -> None:
        """Add values, which must be finite, to the counts."""
        if values.size == 0:
            return
        low, high = float(values.min()), float(values.max())
        largest = max(-low, high)
        if self.limit == 0.0 and largest > 0:
            self.limit = float(2.0 ** np.ceil(np.log2(largest)))
        while largest > self.limit:
            self._widen()
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.limit == 0.0:  # only zeros so far
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
        """Return a histogram of the values of both histograms."""
        a, b = (Histogram(h.counts.copy(), h.limit, h.low, h.high) for h in (self, other))
        for one, two in ((a, b), (b, a)):
            if one.limit == 0.0:
                one.limit = two.limit
            while one.limit < two.limit:
                one._widen()
        return Histogram(a.counts + b.counts, a.limit, min(a.low, b.low), max(a.high, b.high))

    def occupied(self, bins: int = BINS) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the centres and the counts of all non-empty bins, first merged to `bins`, a divisor of BINS."""
        counts = self.counts.reshape(bins, -1).sum(axis=1)
        places = np.flatnonzero(counts)
        centres = (places + 0.5) * (2 * self.limit / bins) - self.limit
        return np.clip(centres, self.low, self.high), counts[places].astype(np.float64)


def error(histogram: Histogram, quant: Quant) -> float:
    """Return the mean square error of quantising the values of a histogram to int8 with the scale `quant`."""
    centres, counts = histogram.occupied()
    low, high = interval(quant)
    nearest = np.rint(np.clip(centres, low, high) / quant.scale[0]) * quant.scale[0]
    return float((counts * (centres - nearest) ** 2).sum() / max(counts.sum(), 1))


def min_max(histogram: Histogram) -> Range:
    """Return the range that clips no value."""
    return histogram.low, histogram.high


def percentile(histogram: Histogram, percent: float = PERCENTILE) -> Range:
    """Return the range that clips (100 - percent) % of the values at each end. It always contains 0."""
    centres, counts = histogram.occupied()
    if not len(centres):
        return min_max(histogram)
    below = np.cumsum(counts) / counts.sum()
    ends = np.searchsorted(below, (1 - percent / 100, percent / 100))
    low, high = centres[np.minimum(ends, len(centres) - 1)]
    return float(max(histogram.low, min(low, 0.0))), float(min(histogram.high, max(high, 0.0)))


def least_error(histogram: Histogram) -> Range:
    """Return the range of least mean square error after quantisation to int8, by a search of both ends in turn."""
    low, high = min_max(histogram)
    for factors in (FACTORS, FACTORS, FINE_FACTORS):
        if histogram.low < 0:
            ends = (low if factors is FINE_FACTORS else histogram.low) * factors
            low = min(np.maximum(ends, histogram.low), key=lambda end: error(histogram, affine(end, high)))
        if histogram.high > 0:
            ends = (high if factors is FINE_FACTORS else histogram.high) * factors
            high = min(np.minimum(ends, histogram.high), key=lambda end: error(histogram, affine(low, end)))
    return float(low), float(high)


def entropy(histogram: Histogram) -> Range:
    """Return the range of least Kullback-Leibler divergence of the values' distribution and their int8 form's."""
    centres, counts = histogram.occupied(ENTROPY_BINS)
    if len(centres) < 2:
        return min_max(histogram)

    def divergence(factor: float) -> float:
        quant = affine(histogram.low * factor, histogram.high * factor)
        low, high = interval(quant)
        levels = np.rint(np.clip(centres, low, high) / quant.scale[0]).astype(np.int64)
        levels -= levels.min()
        inside = (centres >= low - quant.scale[0] / 2) & (centres <= high + quant.scale[0] / 2)
        if inside.sum() < 2 or counts[~inside].sum() > MOST_CLIPPED * counts.sum():
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
