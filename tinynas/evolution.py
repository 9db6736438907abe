"""Evolutionary search: stage two of TinyNAS. In: a SearchSpace, a Target, an Evaluator. Out: evaluated networks, best first.

Parents of the next generation, by mutation and crossover (`space`), are the best so far. Costs come before accuracy, which is
computed only of networks that fit. The result depends only on the seed, also if the run is interrupted (`journal`). Sources:
TinyNAS (arXiv 2007.10319, section 3.2); with several objectives NSGA-II (10.1109/4235.996017).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.progress import Progress, silent

from .arch import Arch
from .costs import Costs, Target, costs, quick_costs
from .journal import Ledger
from .space import Choice, SearchSpace, arch_of, crossover, mutate, sample, smallest

TRIES = 10  # maximum samples per requested network
OBJECTIVES = ("ram", "flash", "macs", "ms", "mj")  # besides accuracy
BATCH = 16  # networks whose costs are computed in one call
CostFunction = Callable[[Sequence[Arch]], Sequence[Costs | None]]
"""Returns the costs of each of several networks; None if lower bounds exclude the network."""


class Evaluator(NamedTuple):
    """The functions that evaluate networks: one for accuracies, one for costs."""

    accuracies: Callable[[Sequence[Arch]], Iterable[tuple[int, float]]]  # yields (index of a network, accuracy) in any order
    costs: CostFunction | None = None  # None: plan the networks in this process


@dataclass(frozen=True)
class Evolution:
    """Settings of an evolutionary search; the defaults are those of the TinyNAS paper."""

    population: int = 100  # networks of the first generation
    parents: int = 20  # best networks so far, from which each generation is bred
    crossovers: int = 50  # children of two parents, per generation
    mutations: int = 50  # mutated copies of one parent, per generation
    rate: float = 0.1  # mutation probability of each gene
    generations: int = 30
    against: tuple[str, ...] = ()  # costs minimised along with the error: any of OBJECTIVES

    @property
    def evaluations(self) -> int:
        """Return the maximum number of networks that the search evaluates."""
        return self.population + self.generations * (self.crossovers + self.mutations)


Priced = tuple[Choice, Arch, Costs]  # a network whose accuracy is not known yet


class Evaluated(NamedTuple):
    """A network that fits, its costs, and its accuracy (0 to 1)."""

    choice: Choice
    arch: Arch
    costs: Costs
    accuracy: float


def without_plan(arch: Arch) -> Arch:
    """Return an architecture without its PlanGene; networks that differ only in their plan have the same accuracy."""
    return replace(arch, plan=None)


def evolve(
    space: SearchSpace,
    target: Target,
    classes: int,
    settings: Evolution,
    evaluator: Evaluator,
    *,
    file: Path | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> list[Evaluated]:
    """Run an evolutionary search and return all evaluated networks, most accurate first.

    `file` records costs and accuracies, which are looked up before they are computed.

    Raises:
        CompileError: No network of the space fits.
    """
    check_feasible(space, target, classes)
    rng, ledger, seen, evaluated = random.Random(seed), Ledger(file), set[Arch](), list[Evaluated]()
    costs_of = _recorded(evaluator.costs or (lambda archs: [quick_costs(target, arch) for arch in archs]), ledger)
    fitting = partial(_sample_fitting, space=space, classes=classes, seen=seen, costs_of=costs_of, progress=progress)

    def evaluate(networks: Sequence[Priced], title: str) -> None:
        accuracies = {without_plan(arch): ledger(without_plan(arch), "accuracy") for _, arch, _ in networks}
        missing = [arch for arch, accuracy in accuracies.items() if accuracy is None]
        for done, (number, accuracy) in enumerate(evaluator.accuracies(missing) if missing else (), 1):
            ledger.add(missing[number], "accuracy", accuracy)
            accuracies[missing[number]] = accuracy
            best = max([accuracy, *(each.accuracy for each in evaluated)])
            progress(f"{title}, best {100 * best:.1f} %", len(evaluated) + done, settings.evaluations)
        evaluated.extend(Evaluated(choice, arch, cost, accuracies[without_plan(arch)]) for choice, arch, cost in networks)

    first = fitting(lambda: sample(space, rng), settings.population)
    if len(first) < settings.population:  # few networks fit: mutations of a network that fits are more likely to fit
        fit = [choice for choice, _, _ in first] or [smallest(space)]
        first += fitting(lambda: mutate(space, rng.choice(fit), 2 * settings.rate, rng), settings.population - len(first))
    evaluate(first or [_smallest_fitting(space, target, classes)], "first generation")
    for number in range(settings.generations):
        parents = [each.choice for each in best_of(evaluated, settings.parents, settings.against)]
        breeders: tuple[tuple[Callable[[], Choice], int], ...] = (
            (lambda: crossover(rng.choice(parents), rng.choice(parents), rng), settings.crossovers),  # noqa: B023
            (lambda: mutate(space, rng.choice(parents), settings.rate, rng), settings.mutations),  # noqa: B023
        )
        children = [child for breed, count in breeders for child in fitting(breed, count)]
        evaluate(children, f"generation {number + 1} of {settings.generations}")
    return sorted(evaluated, key=lambda each: -each.accuracy)


def check_feasible(space: SearchSpace, target: Target, classes: int) -> None:
    """Raise CompileError if the smallest network of a space exceeds a limit of the target; the message names the amounts."""
    *_, least = _smallest_fitting(space, target, classes)
    if not least.fit:
        over = ", ".join(f"{name} by {value:,.6g}" for name, value in least.excess.items())
        why = f"the smallest network of the space '{space.name}' does not fit: it exceeds {over}"
        raise CompileError(why, f"it needs {least.needs()}: raise the limits to that, or give another space")


def _smallest_fitting(space: SearchSpace, target: Target, classes: int) -> Priced:
    """Return the smallest network of a space with its first plan, from least RAM, that fits, else with that of least RAM."""
    choice = smallest(space)
    choices = [choice, *(choice._replace(plan=plan) for plan in space.plans[-2::-1])]
    priced = [(each, arch := arch_of(space, each, classes), costs(arch, target)) for each in choices]
    return next((each for each in priced if each[2].fit), priced[0])


def _recorded(costs_of: CostFunction, ledger: Ledger) -> CostFunction:
    """Return a function like `costs_of` that looks up costs in the ledger first, and records there the costs it computes."""

    def look_up(archs: Sequence[Arch]) -> list[Costs | None]:
        missing = [arch for arch in archs if ledger(arch, "costs") is None]
        for arch, cost in zip(missing, costs_of(missing) if missing else (), strict=True):
            ledger.add(arch, "costs", cost.record() if cost else False)
        return [Costs(**record) if (record := ledger(arch, "costs")) else None for arch in archs]

    return look_up


def _sample_fitting(
    draw: Callable[[], Choice],
    count: int,
    space: SearchSpace,
    classes: int,
    *,
    seen: set[Arch],
    costs_of: CostFunction,
    progress: Progress,
) -> list[Priced]:
    """Draw up to TRIES * `count` networks; return up to `count` that fit and are not in `seen`, which grows."""
    fitting, tries = list[Priced](), TRIES * count
    while len(fitting) < count and tries > 0:
        batch = list[tuple[Choice, Arch]]()
        for _ in range(BATCH):
            choice = draw()
            arch = arch_of(space, choice, classes)
            if arch not in seen:
                seen.add(arch)
                batch.append((choice, arch))
        tries -= BATCH
        priced = zip(batch, costs_of([arch for _, arch in batch]), strict=True)
        fitting += [(choice, arch, cost) for (choice, arch), cost in priced if cost is not None and cost.fit]
        progress("sampling networks that fit", min(len(fitting), count), count)
    seen.difference_update(arch for _, arch, _ in fitting[count:])  # they may be sampled again
    return fitting[:count]


def objectives(each: Evaluated, against: Sequence[str]) -> tuple[float, ...]:
    """Return a network's error (1 - accuracy) and the costs named in `against`; raise CompileError for an unknown cost."""
    values = [getattr(each.costs, name) if name in OBJECTIVES else None for name in against]
    if None in values:
        raise CompileError(
            f"the objective '{against[values.index(None)]}' is not known for this network",
            "give ram, flash or macs; ms with a device; mj with a device whose current is known",
        )
    return (1 - each.accuracy, *(float(value) for value in values if value is not None))


def fronts(evaluated: Sequence[Evaluated], against: Sequence[str]) -> Iterator[list[Evaluated]]:
    """Yield the Pareto front of error and the costs `against`, then that of the rest, and so on, sorted by error."""
    left = sorted(((objectives(each, against), each) for each in evaluated), key=lambda pair: pair[0])

    def dominates(point: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return point != other and all(a <= b for a, b in zip(point, other, strict=True))

    while left:
        front, dominated = list[tuple[tuple[float, ...], Evaluated]](), list[tuple[tuple[float, ...], Evaluated]]()
        for pair in left:  # a dominating network has no larger error, so it comes earlier
            (dominated if any(dominates(point, pair[0]) for point, _ in front) else front).append(pair)
        yield [each for _, each in front]
        left = dominated


def best_of(evaluated: Sequence[Evaluated], count: int, against: Sequence[str]) -> list[Evaluated]:
    """Return the best `count` networks by accuracy, then `Costs.product`; with `against`, by Pareto front (NSGA-II).

    Of a front that is taken in part, those with the largest crowding distance are taken.
    """
    if not against:
        return sorted(evaluated, key=lambda each: (-each.accuracy, each.costs.product))[:count]
    best = list[Evaluated]()
    for front in fronts(evaluated, against):
        if len(best) + len(front) > count:
            distances = _crowding(np.array([objectives(each, against) for each in front]))
            return best + [front[index] for index in np.argsort(-distances, kind="stable")[: count - len(best)]]
        best += front
    return best


def _crowding(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the crowding distance (NSGA-II) of each point of a front [points, objectives]; infinite at the front's ends."""
    distances = np.zeros(len(points))
    for order, values in zip(np.argsort(points, axis=0, kind="stable").T, np.sort(points, axis=0).T, strict=True):
        distances[order[1:-1]] += (values[2:] - values[:-2]) / (values[-1] - values[0] or 1.0)
        distances[order[[0, -1]]] = np.inf
    return distances
