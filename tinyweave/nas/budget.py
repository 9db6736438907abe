"""Choose the rungs of successive halving so that a search takes about as long as its time limit.

In: a time limit and measured times in seconds. Out: Rungs (rounds of training, with a number of candidates and epochs each). A
search measures once, before it trains, and records the rungs, so that a resumed run trains the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from .arch import Arch, macs
from .halving import Rung, rungs_for

TIMED = 6  # candidates that are sampled to measure times
DEPLOYING = 1.5  # ratio of the time to deploy a network to the time to build it: deploying verifies it, too
ROUNDS = 4  # maximum repetitions of choosing rungs and sampling their candidates
SHRINK = 0.97  # factor on the epochs while the rungs exceed the time limit


@dataclass(frozen=True)
class Timings:
    """Measured times of the parts of a search, in seconds; trainings are measured while all workers are busy."""

    spent: float  # since the search began
    sampling: float  # to sample one candidate that fits
    sampled: int  # number of candidates sampled so far
    step: float  # of one epoch of any network: the constant part
    mac: float  # of one epoch, for each multiply-accumulate of the network
    training: float  # of one training, besides its epochs
    building: float  # to build one network with random weights and measure it
    finishing: float  # to quantise, test and deploy the best network

    def epoch(self, size: float) -> float:
        """Return the estimated seconds of an epoch of a network with `size` multiply-accumulates."""
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
    """Measure how long each part of a search takes, on a few candidates.

    Args:
        begin: Time of `clock` at which the search began.
        clock: Returns the time in seconds.
        sample: Returns at most the given number of candidates.
        train: Returns (seconds of one epoch, fixed seconds of one training) of a network.
        build: Builds a network; this call is timed.
        finish: Returns the seconds to quantise and test a network.
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

    Large networks are usually more accurate, so survivors grow: with each rung, the difference between their mean size and the
    largest size is assumed to halve.

    Args:
        rungs: Numbers of candidates and epochs.
        sizes: Multiply-accumulates of some candidates.
        seconds: Measured times.
        workers: Number of trainings that run in parallel.
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
    """Return the rungs with the most epochs whose search takes at most `total` seconds, or the smallest rungs if none do.

    The epochs of the last rung are then raised as far as the time limit allows, at most to twice as many. The other arguments
    are those of `seconds_needed`.
    """
    epochs = max(1.0, total * workers / max(seconds.epoch(min(sizes)), 1e-3))
    while epochs > 1 and seconds_needed(rungs_for(epochs), sizes, seconds, workers) > total:
        epochs = max(1.0, epochs * SHRINK)
    *others, last = rungs_for(epochs)
    more = (replace(last, epochs=each) for each in range(2 * last.epochs, last.epochs, -1))
    return (*others, next((rung for rung in more if seconds_needed([*others, rung], sizes, seconds, workers) <= total), last))


def choose_rungs(total: float, seconds: Timings, workers: int, sample: Callable[[int], Sequence[Arch]]) -> tuple[Rung, ...]:
    """Choose rungs whose search takes at most `total` seconds.

    The choice depends on the sizes of the candidates, and the number of candidates on the choice. Therefore choose rungs,
    sample their candidates, and estimate again, up to ROUNDS times. `sample` returns at most the given number of candidates.
    """
    sizes = list(map(macs, sample(TIMED)))
    for _ in range(ROUNDS):
        rungs = rungs_within(total, sizes, seconds, workers)
        sizes = list(map(macs, sample(rungs[0].candidates)))
        if seconds_needed(rungs, sizes, seconds, workers) <= total:
            break
    return rungs
