"""Turn minutes into numbers: how many networks are trained for how many epochs. In: what work takes, measured. Out: Rungs.

A search measures once, before it trains, and stores the numbers: a run that goes on comes to the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from .arch import Arch, macs
from .halving import Rung, rungs_for

SAMPLE = 6  # candidates that are found to be measured
DEPLOYING = 1.5  # as long as building it takes a network to be deployed: it is compared, too
ROUNDS = 4  # in each more is known of the candidates
FINER = 0.97  # of the epochs that were tried before


@dataclass(frozen=True)
class Seconds:
    """What work takes. spent: since the search began. finding: a candidate that fits, found of them so far.

    step, mac: of an epoch by one worker of several, and what each multiply-accumulate adds. training: beside its
    epochs. building: a network, to measure it. finishing: the best one made int8, tested and deployed.
    """

    spent: float
    finding: float
    found: int
    step: float
    mac: float
    training: float
    building: float
    finishing: float

    def epoch(self, size: float) -> float:
        """Return the seconds of an epoch of a network of so many multiply-accumulates."""
        return self.step + self.mac * size


def measure(
    begin: float,
    clock: Callable[[], float],
    *,
    find: Callable[[int], Sequence[Arch]],
    train: Callable[[Arch], tuple[float, float]],
    build: Callable[[Arch], object],
    finish: Callable[[Arch], float],
) -> Seconds:
    """Return what the work of a search takes, by a few candidates.

    begin: when the search began. find: returns so many candidates at most. train: the seconds of an epoch, and of a training
    beside its epochs, of the middle one and the largest. finish: the seconds until a network is int8 and tested.
    """
    start = clock()
    candidates = sorted(find(SAMPLE), key=macs)
    finding = (clock() - start) / len(candidates)
    middle, largest = candidates[len(candidates) // 2], candidates[-1]
    (epoch, training), (longest, _) = train(middle), train(largest)
    more = macs(largest) - macs(middle)
    mac = min(max(0.0, longest - epoch) / more, epoch / macs(middle)) if more else epoch / macs(middle)
    start = clock()
    build(middle)
    building = clock() - start
    finishing = finish(middle) + DEPLOYING * building
    step = max(0.0, epoch - mac * macs(middle))
    return Seconds(clock() - begin, finding, len(candidates), step, mac, training, building, finishing)


def needed(rungs: Sequence[Rung], sizes: Sequence[int], seconds: Seconds, workers: int) -> float:
    """Return the seconds that a search by halving takes in all.

    sizes: multiply-accumulates of candidates, more or fewer than there will be. Those that go on are larger than the others: on
    average halfway from these to the largest.
    """
    first, *others = rungs
    total = seconds.spent + seconds.finding * max(0, first.candidates - seconds.found) + seconds.finishing
    total += seconds.building * (others[0].candidates if others else 1)
    mean = sum(sizes) / len(sizes)
    for number, rung in enumerate(rungs):
        epoch = seconds.epoch(max(sizes) - (max(sizes) - mean) / 2**number)
        total += ceil(rung.candidates / workers) * (rung.epochs * epoch + seconds.training)
    return total


def rungs_within(total: float, sizes: Sequence[int], seconds: Seconds, workers: int) -> tuple[Rung, ...]:
    """Return the most that is trained within so many seconds; where nothing is, the least that there is.

    What few candidates leave of the time is for the last rung.
    """
    epochs = max(1.0, total * workers / max(seconds.epoch(min(sizes)), 1e-3))
    while epochs > 1 and needed(rungs_for(epochs), sizes, seconds, workers) > total:
        epochs = max(1.0, epochs * FINER)
    *others, last = rungs_for(epochs)
    more = (replace(last, epochs=each) for each in range(2 * last.epochs, last.epochs, -1))
    return (*others, next((rung for rung in more if needed([*others, rung], sizes, seconds, workers) <= total), last))


def chosen_rungs(total: float, seconds: Seconds, workers: int, find: Callable[[int], Sequence[Arch]]) -> tuple[Rung, ...]:
    """Return the most that is trained within so many seconds, by the sizes of the candidates that will be trained."""
    sizes = list(map(macs, find(SAMPLE)))
    for _ in range(ROUNDS):
        rungs = rungs_within(total, sizes, seconds, workers)
        sizes = list(map(macs, find(rungs[0].candidates)))
        if needed(rungs, sizes, seconds, workers) <= total:
            break
    return rungs
