"""The measurements of `evidence.py`: accuracies by seed, differences with their intervals, costs. In: a file. Out: Results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from statistics import mean, stdev, variance
from typing import NamedTuple

import numpy as np
from evidence import CURVES, Plan, key
from evidence_jobs import Record, unpacked
from holm import p_value, verdict
from numpy.typing import NDArray
from page_text import table

from tinynas.journal import entries
from tinynas.tasks.evaluation.intervals import Z_95, student_t

GPU_WATTS, CORE_WATTS = 700, 10  # of an H100 at most (its TDP), and of a busy processor core
KG_PER_KWH = 0.475  # CO2 of electricity, mean of the world in 2018 (IEA, Global Energy & CO2 Status Report)


class Results(NamedTuple):
    """All measurements of a file."""

    lines: dict[str, Record]  # by key
    failed: dict[str, str]  # key -> why
    header: Record  # of the last command

    def record(self, *words: object) -> Record:
        """Return the Record of a measurement by the words of its key; empty if it was not measured, or nothing fits."""
        line = self.lines.get(key(*words))
        return line["result"] if line else {}

    @property
    def plan(self) -> Plan:
        """Return the lengths of trainings and searches."""
        return Plan(**self.header["plan"])


def read(file: Path) -> Results:
    """Read the measurements of a file."""
    lines, failed, header = dict[str, Record](), dict[str, str](), list[Record]()
    for line in entries(file):
        if "plan" in line:
            header.append(line)
        elif "failed" in line:
            failed[line["key"]] = line["failed"]
        else:
            lines[line["key"]] = line
    return Results(lines, {name: why for name, why in failed.items() if name not in lines}, header[-1])


class Spread(NamedTuple):
    """The spread of accuracy over seeds, pooled over many kinds of networks."""

    variance: float  # of the accuracy of one kind of networks, in points squared
    freedom: int  # degrees of freedom; 0 if each kind has a single seed


def spread_of(results: Results, task: str, *, rivals: bool) -> Spread:
    """Return the spread over seeds of the trained networks of a task: of its rivals, or of searched networks.

    A rival has one architecture for all seeds, a search finds another with each seed. Equal networks of several searches count
    once. Quantised networks are left out, since they have the weights of others.
    """
    kinds = dict[str, dict[str, tuple[str, float]]]()
    for name, line in results.lines.items():
        if f" {task} " in name and ("rival" in name) == rivals and "quantise" not in name and "correct" in line["result"]:
            label, seed = name.rsplit(" ", 1)
            kinds.setdefault(label, {})[seed] = (line["result"]["arch"], 100 * line["result"]["test"])
    different = {frozenset(by_seed.items()): [value for _, value in by_seed.values()] for by_seed in kinds.values()}
    freedom = sum(len(values) - 1 for values in different.values())
    squares = sum((len(values) - 1) * variance(values) for values in different.values() if len(values) > 1)
    return Spread(squares / max(1, freedom), freedom)


class Tested(NamedTuple):
    """Networks of one kind, a network per seed or rotation: whether each test sample is classified right."""

    records: dict[int, Record]  # by seed
    measured: bool  # whether any seed was measured
    correct: dict[int, NDArray[np.bool_]]
    spread: Spread | None  # over seeds, of the networks of images; None for keywords

    def __bool__(self) -> bool:
        """Return whether there is any network."""
        return bool(self.records)

    def accuracy(self) -> str:
        """Return the mean accuracy in percent over the seeds, with the smallest and the largest if there are several."""
        if not self.records:
            return "none fits" if self.measured else "not measured"
        values = [100 * float(each.mean()) for each in self.correct.values()]
        return f"{mean(values):.1f}" + (f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else "")

    def average(self, name: str) -> float:
        """Return the mean of a number of the Records."""
        return mean(float(record[name]) for record in self.records.values())


def outcomes(results: Results, task: str, *words: object) -> Tested:
    """Return the networks whose keys are `words` and a seed; in the words, `{place}` is the folder of the samples."""
    records, measured, correct = dict[int, Record](), False, dict[int, NDArray[np.bool_]]()
    for seed in range(CURVES):
        place = task if task == "images" else f"{task}-{seed}"
        name = key(*words).format(place=place)
        record, measured = results.record(name, seed), measured or key(name, seed) in results.lines
        if "correct" in record:
            records[seed], correct[seed] = record, unpacked(record["correct"], results.header["samples"][place]["test"])
    spread = spread_of(results, task, rivals="rival" in key(*words)) if task == "images" else None
    return Tested(records, measured, correct, spread)


class Difference(NamedTuple):
    """The difference in accuracy of two kinds of networks, in points, with its 95 % interval."""

    middle: float
    low: float
    high: float
    p: float = 1.0  # its p-value; 1 if the interval does not contain the spread over seeds or rotations

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

    Only seeds that both have are compared. For images the half-width of the interval is the root of the sum of squares of two
    half-widths: over the test samples, paired, and over the seeds, from the two pooled spreads. For keywords, whose rotations
    have other speakers and other networks, it is Student's t over the rotations.
    """
    seeds = sorted(set(first.correct) & set(second.correct))
    if not seeds:
        return None
    if all(first.records[seed] == second.records[seed] for seed in seeds):
        return Difference(0.0, 0.0, 0.0)
    values = [100 * (first.correct[seed].astype(float) - second.correct[seed]) for seed in seeds]
    if first.spread is None and len(seeds) > 1:
        return mean_of([float(each.mean()) for each in values])
    by_sample = np.mean(values, axis=0)
    middle, error = float(by_sample.mean()), float(by_sample.std(ddof=1)) / math.sqrt(len(by_sample))
    known = [each for each in (first.spread, second.spread) if each and each.freedom]
    if not known:
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
    gpu: float  # seconds of the GPU

    def __str__(self) -> str:
        """Return the cost in words."""
        kwh = (self.cpu * CORE_WATTS + self.gpu * GPU_WATTS) / 3.6e6
        hours = f"{self.cpu / 3600:.2f} core-hours{f', {self.gpu:.0f} GPU seconds' if self.gpu else ''}"
        return f"{self.measurements} measurements, {hours}, {1000 * KG_PER_KWH * kwh:.1f} g CO2"


def gpu_seconds(results: Results) -> dict[str, float]:
    """Return by key the share of a measurement in the time of the GPU: while several run, they share it equally."""
    events = sorted(
        chain.from_iterable(
            ((line["begin"], name, True), (line["begin"] + line["seconds"], name, False))
            for name, line in results.lines.items()
            if "NVIDIA" in line["device"]
        )
    )
    shares, active = dict.fromkeys(results.lines, 0.0), set[str]()
    for (at, name, begins), (after, *_) in zip(events, [*events[1:], events[-1]] if events else [], strict=True):
        active = active | {name} if begins else active - {name}
        for each in active:
            shares[each] += (after - at) / len(active)
    return shares
