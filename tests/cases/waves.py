"""A task that small networks learn in seconds."""

from __future__ import annotations

import numpy as np

from tinyweave.tasks.dataset import Dataset


def waves(count: int = 900) -> Dataset:
    """Slow and fast waves, in two channels, in noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, count)
    phase = rng.uniform(0, 6, (count, 1, 1)) + np.arange(24)[None, :, None] * np.where(labels, 1.6, 0.4)[:, None, None]
    values = 70 * np.sin(phase + np.array([0, 1])) + rng.normal(0, 15, (count, 24, 2))
    parts = np.arange(count) % 5
    of_part = np.where(parts == 0, 2, np.where(parts == 1, 1, 0)).astype(np.uint8)
    return Dataset("sensors", ("slow", "fast"), np.round(values).astype(np.int8)[:, None], labels, of_part, {"window": 24})
