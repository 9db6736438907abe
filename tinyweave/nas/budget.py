"""Choose rungs of successive halving that take about as long as a time limit. In: measured times, seconds. Out: Rungs.

A search measures once, before it trains, and stores the rungs, so that a resumed run trains the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from .arch import Arch, macs
from .halving import Rung, rungs_for

TIMED = 6  # candidates that are sampled to measure times
DEPLOYING = 1.5  # ratio of the time to deploy a network to the time to build it: deploying verifies it, too
ROUNDS = 4  # of choosing rungs and sampling the candidates for them
SHRINK = 0.97  # factor on the epochs while the rungs exceed the time limit


@dataclass(frozen=True)
class Timings:
    """Measured times of a search, in seconds; trainings are measured while all workers are busy."""

    spent: float  # since the search began
    sampling: float  # per candidate that fits
    sampled: int  # number of candidates sampled so far
    step: float  # part of an epoch that does not depend on the network
    mac: float  # part of an epoch per multiply-accumulate of the network
    training: float  # fixed part of a training, besides its epochs
    building: float  # to build a network with random weights and measure it
    finishing: float  # to quantise, test and deploy the best network

    def epoch(self, size: float) -> float:
        """Return the seconds of an epoch of a network with `size` multiply-accumulates."""
        return self.step + self.mac * size


def measure_seconds(
    begin: float,
    clock: Callable[[], float],
    *,
    sample: Callable[[int], Sequence[Arch]],
    train: Callable[[Arch], tuple[float, float]],
    build: Callable[[Arch], object],
    finish: Callable[[Arch], float],
) -> Timings:
    """Measure how long each step of a search takes, on a few candidates.

    `begin` is the time at which the search began. `sample` returns at most the given number of candidates. `train` returns the
    seconds of an epoch and the fixed seconds of a training. `build` builds a network. `finish` returns the seconds to quantise
    and test a network.
    """
    start = clock()
    candidates = sorted(sample(TIMED), key=macs)
    sampling = (clock() - start) / len(candidates)
    middle, largest = candidates[len(candidates) // 2], candidates[-1]
    (epoch, training), (longest, _) = train(middle), train(largest)
    more = macs(largest) - macs(middle)
    mac = min(max(0.0, longest - epoch) / more, epoch / macs(middle)) if more else epoch / macs(middle)
    start = clock()
    build(middle)
    building = clock() - start
    finishing = finish(middle) + DEPLOYING * building
    step = max(0.0, epoch - mac * macs(middle))
    return Timings(clock() - begin, sampling, len(candidates), step, mac, training, building, finishing)


def seconds_needed(rungs: Sequence[Rung], sizes: Sequence[int], seconds: Timings, workers: int) -> float:
    """Estimate the total seconds of a search by successive halving.

    `sizes` are the multiply-accumulates of some candidates. Large networks are usually more accurate: with each rung, the mean
    size of the survivors is assumed to come closer to the largest size by half.
    """
    first, *others = rungs
    total = seconds.spent + seconds.sampling * max(0, first.candidates - seconds.sampled) + seconds.finishing
    total += seconds.building * (others[0].candidates if others else 1)
    mean = sum(sizes) / len(sizes)
    for number, rung in enumerate(rungs):
        epoch = seconds.epoch(max(sizes) - (max(sizes) - mean) / 2**number)
        total += ceil(rung.candidates / workers) * (rung.epochs * epoch + seconds.training)
    return total


def rungs_within(total: float, sizes: Sequence[int], seconds: Timings, workers: int) -> tuple[Rung, ...]:
    """Return the rungs with the most epochs that take at most `total` seconds, or the smallest rungs if none do.

    The epochs of the last rung then grow to the time limit, up to twice as many.
    """
    epochs = max(1.0, total * workers / max(seconds.epoch(min(sizes)), 1e-3))
    while epochs > 1 and seconds_needed(rungs_for(epochs), sizes, seconds, workers) > total:
        epochs = max(1.0, epochs * SHRINK)
    *others, last = rungs_for(epochs)
    more = (replace(last, epochs=each) for each in range(2 * last.epochs, last.epochs, -1))
    return (*others, next((rung for rung in more if seconds_needed([*others, rung], sizes, seconds, workers) <= total), last))


def choose_rungs(total: float, seconds: Timings, workers: int, sample: Callable[[int], Sequence[Arch]]) -> tuple[Rung, ...]:
    """Choose rungs that take at most `total` seconds, and sample their candidates to check it, up to ROUNDS times."""
    sizes = list(map(macs, sample(TIMED)))
    for _ in range(ROUNDS):
        rungs = rungs_within(total, sizes, seconds, workers)
        sizes = list(map(macs, sample(rungs[0].candidates)))
        if seconds_needed(rungs, sizes, seconds, workers) <= total:
            break
    return rungs
