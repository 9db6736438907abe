"""Histograms agree with the values that they count, and each method chooses the range that it documents."""

from __future__ import annotations

import numpy as np
import pytest

from tinyweave.quantize.convert import affine, dequantised, quantised
from tinyweave.quantize.ranges import BINS, METHODS, Histogram, error, least_error, min_max, percentile

RNG = np.random.default_rng(1)
OUTLIERS = np.concatenate([RNG.normal(size=100_000), [400.0, -30.0]]).astype(np.float32)


def counted(*batches: np.ndarray) -> Histogram:
    histogram = Histogram()
    for batch in batches:
        histogram.add(np.asarray(batch, np.float32))
    return histogram


def measured(values: np.ndarray, low: float, high: float) -> float:
    quant = affine(low, high)
    return float(np.mean((values.astype(np.float64) - dequantised(quantised(values, quant), quant)) ** 2))


def test_batches_of_growing_values_give_the_histogram_of_a_single_batch() -> None:
    """Bins are merged in pairs, so no value is lost or leaves its bin."""
    batches = [RNG.normal(size=1000) * factor for factor in (0, 1e-3, 1, 300, 2)]
    grown, whole = counted(*batches), counted(np.concatenate(batches[::-1]))
    assert grown.counts.sum() == 5000 and len(grown.counts) == BINS
    assert (grown.low, grown.high, grown.limit) == (whole.low, whole.high, whole.limit)
    shifted = np.abs(np.cumsum(grown.counts) - np.cumsum(whole.counts))
    assert shifted.max() <= 1000  # only the zeros are between two bins
    joined = counted(batches[1]).joined(counted(batches[3]))
    assert np.array_equal(joined.counts, counted(batches[1], batches[3]).counts)


@pytest.mark.parametrize("factor", [1e-44, 1e-38, 1e-30, 1e30, 1e38])
def test_values_near_the_ends_of_float32_are_counted(factor: float) -> None:
    values = (RNG.uniform(-3, 3, 1000) * factor).astype(np.float32)
    histogram = counted(values)
    assert histogram.counts.sum() == 1000 and np.count_nonzero(histogram.counts) > (10 if factor < 1e-40 else 900)
    assert min_max(histogram) == (values.min(), values.max())


@pytest.mark.parametrize("values", [OUTLIERS, np.abs(OUTLIERS), RNG.uniform(-3, -1, 10_000).astype(np.float32)])
def test_the_error_of_a_histogram_is_close_to_that_of_its_values(values: np.ndarray) -> None:
    histogram = counted(values)
    for low, high in ((values.min(), values.max()), (-3.0, 3.0), (-20.0, 100.0)):
        assert error(histogram, affine(low, high)) == pytest.approx(measured(values, low, high), rel=0.03, abs=1e-6)


def test_each_method_chooses_the_range_that_it_documents() -> None:
    histogram = counted(OUTLIERS)
    assert min_max(histogram) == (-30.0, 400.0)
    low, high = percentile(histogram, 99.0)
    assert low == pytest.approx(np.percentile(OUTLIERS, 1), abs=0.1) and high == pytest.approx(
        np.percentile(OUTLIERS, 99), abs=0.1
    )
    best = measured(OUTLIERS, *least_error(histogram))
    assert best <= 1.01 * min(measured(OUTLIERS, *choose(histogram)) for choose in METHODS.values())
    assert best <= 1.02 * min(
        measured(OUTLIERS, a * -30, b * 400) for a in (1, 0.5, 0.2, 0.1) for b in (1, 0.2, 0.05, 0.02, 0.01)
    )


@pytest.mark.parametrize("method", sorted(METHODS))
def test_ranges_are_within_the_values_also_for_degenerate_histograms(method: str) -> None:
    for values in ([0.0], [0.0, 0.0], [5.0], [-5.0, -5.0], [1e-30], [1.0, 2.0], OUTLIERS):
        histogram = counted(values)
        low, high = METHODS[method](histogram)
        assert histogram.low <= low <= 0 <= high <= histogram.high


def test_entropy_clips_single_outliers() -> None:
    low, high = METHODS["entropy"](counted(OUTLIERS))
    assert high < 100 and low < 0


@pytest.mark.parametrize("count", [20, 100, 1000])
def test_entropy_clips_at_most_2_percent_of_few_values(count: int) -> None:
    for seed in range(20):
        values = np.random.default_rng(seed).normal(size=count).astype(np.float32)
        low, high = METHODS["entropy"](counted(values))
        assert np.mean((values < 1.01 * low) | (values > 1.01 * high)) <= 0.02
