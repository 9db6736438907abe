"""The measurements of `evidence.py`: accuracies by seed, differences with their intervals, costs. In: a file. Out: Results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev, variance
from typing import NamedTuple

import numpy as np
from evidence import key
from evidence_jobs import FAMILIES, Record, unpacked
from holm import p_value, verdict
from numpy.typing import NDArray
from page_text import table

from tinynas.journal import entries
from tinynas.tasks.evaluation.intervals import Z_95, student_t

CORE_WATTS = 10  # of a busy processor core
KG_PER_KWH = 0.475  # CO2 of electricity, mean of the world in 2018 (IEA, Global Energy & CO2 Status Report)


class Results(NamedTuple):
    """All measurements of a file."""

    lines: dict[str, Record]  # by key
    header: Record  # empty if nothing was measured

    def record(self, *words: object) -> Record:
        """Return the Record of a measurement by the words of its key; empty if it was not measured, or nothing fits."""
        line = self.lines.get(key(*words))
        return line["result"] if line else {}


def read(file: Path) -> Results:
    """Read the measurements of a file; without a file there are none."""
    lines = list(entries(file))
    measured = {line["key"]: line for line in lines if "result" in line}
    return Results(measured, next((line for line in lines if "settings" in line), {}))


class Spread(NamedTuple):
    """The spread of accuracy over seeds, pooled over many kinds of networks."""

    variance: float  # of the accuracy of one kind of networks, in points squared
    freedom: int  # degrees of freedom; 0 if each kind has a single seed


def spread_of(results: Results, *, rivals: bool) -> Spread:
    """Return the spread over seeds of the trained networks: of FAMILIES, or of searched networks.

    A family has one architecture for all seeds, a search finds another with each seed. Equal networks of several searches count
    once.
    """
    kinds = dict[str, dict[str, tuple[str, float]]]()
    for name, line in results.lines.items():
        step, kind, *_ = name.split()
        if step == "train" and (kind in FAMILIES) == rivals and "correct" in line["result"]:
            label, seed = name.rsplit(" ", 1)
            kinds.setdefault(label, {})[seed] = (line["result"]["arch"], 100 * line["result"]["test"])
    different = {frozenset(by_seed.items()): [value for _, value in by_seed.values()] for by_seed in kinds.values()}
    freedom = sum(len(values) - 1 for values in different.values())
    squares = sum((len(values) - 1) * variance(values) for values in different.values() if len(values) > 1)
    return Spread(squares / max(1, freedom), freedom)


class Tested(NamedTuple):
    """Networks of one kind, one per seed: whether each test sample is classified right."""

    records: dict[int, Record]  # by seed
    correct: dict[int, NDArray[np.bool_]]
    spread: Spread  # over seeds

    def __bool__(self) -> bool:
        """Return whether there is any network."""
        return bool(self.records)

    @property
    def percent(self) -> list[float]:
        """Return the accuracy of each network in percent."""
        return [100 * float(each.mean()) for each in self.correct.values()]

    def average(self, name: str) -> float:
        """Return the mean of a number of the Records."""
        return mean(float(record[name]) for record in self.records.values())


def ranged(values: Sequence[float]) -> str:
    """Return the mean of values, with the smallest and the largest in brackets if there are several."""
    return f"{mean(values):.1f}" + (f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else "")


def outcomes(results: Results, step: str, kind: str, seeds: int) -> Tested:
    """Return the networks whose keys are a step, the name of a Kind and a seed."""
    found = {seed: results.record(step, kind, seed) for seed in range(seeds)}
    records = {seed: record for seed, record in found.items() if "correct" in record}
    correct = {seed: unpacked(each["correct"], results.header["samples"]["test"]) for seed, each in records.items()}
    return Tested(records, correct, spread_of(results, rivals=kind.split(maxsplit=1)[0] in FAMILIES))


class Difference(NamedTuple):
    """The difference in accuracy of two kinds of networks, in points, with its 95 % interval."""

    middle: float
    low: float
    high: float
    p: float = 1.0  # its p-value; 1 if the interval does not contain the spread over seeds

    def verdict(self, limit: float) -> str:
        """Return the verdict, given the largest p-value that survives (`holm.cutoff`)."""
        return verdict((self.low, self.high), self.p, limit)


class Table(NamedTuple):
    """A table of the page; its cells are texts, numbers, Differences, and None for an empty cell."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]

    def differences(self) -> list[Difference]:
        """Return the comparisons of the table."""
        return [cell for row in self.rows for cell in row if isinstance(cell, Difference)]

    def text(self, limit: float) -> str:
        """Return the table in Markdown; `limit` is the largest p-value of a verdict."""
        return table(self.heads, [[shown(cell, limit) for cell in row] for row in self.rows])


def difference(first: Tested, second: Tested) -> Difference | None:
    """Return the difference in accuracy, first minus second; None if no seed has both.

    Only seeds that both have are compared. The half-width of the interval is the root of the sum of squares of two half-widths:
    over the test samples, paired, and over the seeds, from the two pooled spreads.
    """
    seeds = sorted(set(first.correct) & set(second.correct))
    if not seeds:
        return None
    if all(first.records[seed] == second.records[seed] for seed in seeds):
        return Difference(0.0, 0.0, 0.0)
    by_sample = np.mean([100 * (first.correct[seed].astype(float) - second.correct[seed]) for seed in seeds], axis=0)
    middle, error = float(by_sample.mean()), float(by_sample.std(ddof=1)) / math.sqrt(len(by_sample))
    known = [each for each in (first.spread, second.spread) if each.freedom]
    if not known or len(seeds) == 1:
        return Difference(middle, middle - Z_95 * error, middle + Z_95 * error)
    freedom, over_seeds = min(each.freedom for each in known), math.sqrt(2 * mean(each.variance for each in known) / len(seeds))
    half = math.hypot(Z_95 * error, student_t(freedom) * over_seeds)
    return Difference(middle, middle - half, middle + half, p_value(middle, error, over_seeds, freedom))


def mean_of(by_seed: Sequence[float]) -> Difference:
    """Return the mean of at least two differences and its 95 % interval (Student's t)."""
    middle, error, freedom = mean(by_seed), stdev(by_seed) / math.sqrt(len(by_seed)), len(by_seed) - 1
    half = student_t(freedom) * error
    return Difference(middle, middle - half, middle + half, p_value(middle, 0.0, error, freedom))


def shown(cell: object, limit: float) -> str:
    """Return a cell of a table as text: of a Difference also its interval and its verdict, of None nothing."""
    if not isinstance(cell, Difference):
        return "" if cell is None else str(cell)
    said = cell.verdict(limit)
    return f"{cell.middle:+.1f} [{cell.low:+.1f}, {cell.high:+.1f}]" + (f" **{said}**" if said else "")


class Cost(NamedTuple):
    """What measurements have taken."""

    measurements: int
    cpu: float  # core-seconds

    def __str__(self) -> str:
        """Return the cost in words."""
        grams = 1000 * KG_PER_KWH * self.cpu * CORE_WATTS / 3.6e6
        return f"{self.measurements} measurements, {self.cpu / 3600:.2f} core-hours, {grams:.1f} g CO2"


def cost_of(lines: Iterable[Record]) -> Cost:
    """Return the cost of measurements."""
    seconds = [line["cpu_seconds"] for line in lines]
    return Cost(len(seconds), sum(seconds))
