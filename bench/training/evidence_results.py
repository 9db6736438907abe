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
from numpy.typing import NDArray

from tinyweave.nas.journal import entries
from tinyweave.tasks.evaluation.intervals import Z_95, Interval, paired_interval, student_t

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
    """The spread of accuracy over seeds, pooled over all kinds of networks."""

    deviation: float  # standard deviation of the accuracy of one kind of networks, in points
    freedom: int  # degrees of freedom; 0 if all kinds have one seed

    def half(self, seeds: int) -> float:
        """Return the half-width, in points, of the 95 % interval of a difference of two means over `seeds` seeds each."""
        return student_t(self.freedom) * self.deviation * math.sqrt(2 / seeds) if self.freedom else 0.0


def spread_of(results: Results, task: str) -> Spread:
    """Return the spread over seeds of the trained networks of a task."""
    kinds = dict[str, list[float]]()
    for name, line in results.lines.items():
        if "correct" in line["result"] and f" {task} " in name:
            kinds.setdefault(name.rsplit(" ", 1)[0], []).append(100 * line["result"]["test"])
    freedom = sum(len(values) - 1 for values in kinds.values())
    squares = sum((len(values) - 1) * variance(values) for values in kinds.values() if len(values) > 1)
    return Spread(math.sqrt(squares / max(1, freedom)), freedom)


class Tested(NamedTuple):
    """Networks of one kind, a network per seed or rotation: whether each test sample is classified right."""

    records: dict[int, Record]  # by seed
    measured: bool  # whether any seed was measured
    correct: dict[int, NDArray[np.bool_]]
    groups: dict[int, NDArray[np.int64]]  # speaker of each test sample; empty for images
    spread: Spread  # over seeds, of all networks of the task

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
    records, measured = dict[int, Record](), False
    correct, groups = dict[int, NDArray[np.bool_]](), dict[int, NDArray[np.int64]]()
    for seed in range(CURVES):
        place = task if task == "images" else f"{task}-{seed}"
        name = key(*words).format(place=place)
        record, measured = results.record(name, seed), measured or key(name, seed) in results.lines
        if "correct" in record:
            counts = results.header["samples"][place]
            records[seed], correct[seed] = record, unpacked(record["correct"], counts["test"])
            if counts["speakers"]:
                groups[seed] = np.array(list(map(int, counts["speakers"])))
    return Tested(records, measured, correct, groups, spread_of(results, task))


def difference(first: Tested, second: Tested) -> tuple[float, Interval] | None:
    """Return the mean difference in accuracy, first minus second, and its 95 % interval, both in points; None without seeds.

    Only seeds that both have are compared. For images the half-width of the interval is the root of the sum of squares of two
    half-widths: over the test samples, paired, and over the seeds (`Spread.half`). For keywords, whose rotations have different
    test samples, it is the interval of `paired_interval`, which resamples speakers.
    """
    seeds = sorted(set(first.correct) & set(second.correct))
    if not seeds:
        return None
    if first.groups:
        pairs = [np.concatenate([each.correct[seed] for seed in seeds]) for each in (first, second)]
        low, high = paired_interval(pairs[0], pairs[1], np.concatenate([first.groups[seed] for seed in seeds]))
        return 100 * float(pairs[0].mean() - pairs[1].mean()), (100 * low, 100 * high)
    values = np.array([first.correct[seed].astype(float) - second.correct[seed] for seed in seeds])
    items = Z_95 * values.mean(axis=0).std(ddof=1) / math.sqrt(values.shape[1])
    middle, half = 100 * float(values.mean()), math.hypot(100 * items, first.spread.half(len(seeds)))
    return middle, (middle - half, middle + half)


def mean_of(by_seed: Sequence[float]) -> tuple[float, Interval]:
    """Return the mean of at least two values and its 95 % interval (Student's t)."""
    middle, half = mean(by_seed), student_t(len(by_seed) - 1) * stdev(by_seed) / math.sqrt(len(by_seed))
    return middle, (middle - half, middle + half)


def shown(found: tuple[float, Interval] | None) -> str:
    """Return a difference with its interval and, if the interval excludes 0, the word "better" or "worse"."""
    if found is None:
        return ""
    middle, (low, high) = found
    verdict = " **better**" if low > 0 else " **worse**" if high < 0 else ""
    return f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]{verdict}"


class Cost(NamedTuple):
    """What measurements have taken."""

    measurements: int
    cpu: float  # core-seconds
    gpu: float  # seconds of the GPU

    def __str__(self) -> str:
        """Return the cost in words."""
        kwh = (self.cpu * CORE_WATTS + self.gpu * GPU_WATTS) / 3.6e6
        hours = f"{self.cpu / 3600:.2f} core-hours{f', {self.gpu:.0f} GPU seconds' if self.gpu else ''}"
        return f"{self.measurements} measurements, {hours}, {KG_PER_KWH * kwh:.3f} kg CO2"


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
