"""Rungs of successive halving for a time limit: searches with a simulated clock keep to the limit."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import pytest

from tinyweave.nas.arch import Arch, macs
from tinyweave.nas.budget import TIMED, Timings, choose_rungs, measure_seconds, rungs_within, seconds_needed
from tinyweave.nas.halving import Rung, rungs_for
from tinyweave.nas.space import arch_of, sample, small_images

SPACE, WORKERS = small_images(), 2


class Clock:
    """A clock that advances only when a test advances it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


class Played:
    """A simulated search that advances a clock by the seconds of each phase, in the order of a real search."""

    finding, training, building, converting = 0.8, 1.5, 4.0, 30.0

    def __init__(self, seed: int, speed: float) -> None:
        self.clock, self.rng, self.speed, self.begin = Clock(), random.Random(seed), speed, Clock.now
        self.found = list[Arch]()

    def find(self, count: int) -> Sequence[Arch]:
        while len(self.found) < 4 * count:
            self.clock.passes(self.finding / 4)
            self.found.append(arch_of(SPACE, sample(SPACE, self.rng), 10))
        return sorted(self.found[: 4 * count], key=macs)[-count:]

    def epoch(self, arch: Arch) -> float:
        return 0.3 + macs(arch) / self.speed

    def train(self, arch: Arch) -> tuple[float, float]:
        self.clock.passes(2.0)
        return self.epoch(arch), self.training

    def build(self, arch: Arch) -> None:
        self.clock.passes(self.building)

    def finish(self, arch: Arch) -> float:
        self.clock.passes(self.converting / 3)
        return self.converting

    def measured(self) -> Timings:
        self.clock.passes(8.0)  # a search's preparation
        about = {"sample": self.find, "train": self.train, "build": self.build, "finish": self.finish}
        return measure_seconds(self.begin, self.clock, **about)

    def runs(self, rungs: Sequence[Rung]) -> float:
        """Run the rungs and return the minutes taken; larger networks are usually the better ones."""
        alive = list(self.find(rungs[0].candidates))
        for number, rung in enumerate(rungs):
            alive = alive[: rung.candidates]
            if number == 1:
                self.clock.passes(self.building * len(alive))
            free = [self.clock.now] * WORKERS
            for arch in alive:
                heapq.heapreplace(free, free[0] + rung.epochs * self.epoch(arch) + self.training)
            self.clock.now = max(free)
            alive.sort(key=lambda arch: -macs(arch) * self.rng.uniform(0.4, 1))
        self.clock.passes(self.converting + 1.5 * self.building)
        return (self.clock.now - self.begin) / 60


@pytest.mark.parametrize("minutes", [10, 20, 60, pytest.param(300, marks=pytest.mark.sweep)])
def test_a_search_ends_at_its_time_limit(minutes: float) -> None:
    taken = list[float]()
    for seed in range(12):
        played = Played(seed, speed=10.0 ** random.Random(seed).uniform(6.3, 7.3))
        rungs = choose_rungs(60 * minutes, played.measured(), WORKERS, played.find)
        taken.append(played.runs(rungs) / minutes)
    assert sum(taken) / len(taken) > 0.84 and max(taken) < 1.05, taken


def test_seconds_of_each_phase_are_measured() -> None:
    played = Played(0, speed=1e7)
    seconds = played.measured()
    assert seconds.sampling == pytest.approx(0.8) and seconds.sampled == TIMED
    assert (seconds.step, seconds.mac) == (pytest.approx(0.3), pytest.approx(1e-7))
    assert seconds.epoch(2e6) == pytest.approx(0.5)
    assert (seconds.training, seconds.building, seconds.finishing) == (1.5, 4.0, 30 + 1.5 * 4)
    assert seconds.spent == played.clock() - 1000 == pytest.approx(8 + 6 * 0.8 + 2 * 2 + 4 + 10)


def test_seconds_needed_equal_those_computed_by_hand() -> None:
    seconds = Timings(spent=5, sampling=2, sampled=6, step=1, mac=0.1, training=0.5, building=10, finishing=20)
    first, second, third = 1 + 0.1 * 20, 1 + 0.1 * 30, 1 + 0.1 * 35  # each halfway to the largest, 40
    three = 4 * (2 * first + 0.5) + 2 * (4 * second + 0.5) + 1 * (10 * third + 0.5)
    rungs = [Rung(8, 2), Rung(3, 4), Rung(2, 10)]
    assert seconds_needed(rungs, [10, 10, 40], seconds, 2) == 5 + (8 - 6) * 2 + 3 * 10 + 20 + three
    assert seconds_needed([Rung(1, 7)], [0], seconds, 4) == 5 + 10 + 20 + 7.5, "found already"


def test_the_most_epochs_within_a_time_limit() -> None:
    seconds = Timings(spent=10, sampling=1, sampled=6, step=1, mac=0.1, training=1, building=5, finishing=20)
    for total in (100, 1200, 7200):
        rungs = rungs_within(total, [10, 20], seconds, 2)
        assert 0.97 * total < seconds_needed(rungs, [10, 20], seconds, 2) <= total
    assert rungs_within(0, [10], seconds, 2) == rungs_within(20, [10], seconds, 2) == rungs_for(1)


def test_a_noisy_measurement_gives_no_negative_seconds() -> None:
    """The largest network may seem the fastest, and networks of equal size give no slope."""
    for faster in (0.5, 1.0, 50.0):
        played = Played(0, speed=1e7)
        epochs = iter((1.0, faster))
        played.epoch = lambda arch: next(epochs)  # type: ignore[method-assign] # noqa: B023
        seconds = played.measured()
        size = sorted(map(macs, played.find(TIMED)))[TIMED // 2]
        assert seconds.step >= 0 and seconds.mac >= 0 and seconds.epoch(size) == pytest.approx(1.0)
