"""A classification task that small networks learn in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tinynas.costs import Target
from tinynas.evolution import Evolution
from tinynas.halving import Rung
from tinynas.one_shot import SupernetBudget
from tinynas.space import ElasticGroup, SearchSpace
from tinynas.tasks.dataset import Dataset
from tinyweave import api
from tinyweave.devices import find

BOARD = find("stm32f412")
TARGET = Target(BOARD, api.limits_of(BOARD, ram="3k", flash="64k", latency_ms=30))
GROUPS = ElasticGroup(16, 2, (1, 2), (3, 5), (1, 2)), ElasticGroup(24, 2, (1, 2), (3, 5, 7), (2, 3))
SPACE = SearchSpace("tiny", ((1, 24),), 2, (0.5, 1.0), 16, GROUPS, stem_kernel=(1, 5))
NUMBERS, RUNGS = SupernetBudget(1, 2, Evolution(4, 2, 2, 2, 0.2, 1)), (Rung(2, 1), Rung(1, 2))  # of a short search


def waves(count: int = 900) -> Dataset:
    """Return slow and fast waves in two channels with noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, count)
    phase = rng.uniform(0, 6, (count, 1, 1)) + np.arange(24)[None, :, None] * np.where(labels, 1.6, 0.4)[:, None, None]
    values = 70 * np.sin(phase + np.array([0, 1])) + rng.normal(0, 15, (count, 24, 2))
    parts = np.arange(count) % 5
    of_part = np.where(parts == 0, 2, np.where(parts == 1, 1, 0)).astype(np.uint8)
    return Dataset("sensors", ("slow", "fast"), np.round(values).astype(np.int8)[:, None], labels, of_part, {"window": 24})


def wave_files(folder: Path, count: int = 60) -> None:
    """Write the waves as csv files, in a folder per class."""
    rng = np.random.default_rng(4)
    for label, speed in (("slow", 0.4), ("fast", 1.6)):
        (folder / label).mkdir(parents=True)
        for take in range(count):
            wave = np.sin(rng.uniform(0, 6) + speed * np.arange(64)) + rng.normal(0, 0.2, 64)
            np.savetxt(folder / label / f"{take}.csv", np.stack([wave, -wave], axis=1), delimiter=",")
