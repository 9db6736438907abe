"""Evolution of networks that fit: the best are parents of the next. In: a SearchSpace, a Target, a Measure. Out: Evaluated.

space.py mutates a network and crosses it with another.
What a network costs is known before its accuracy is measured: one that exceeds a limit is never measured. All of a run follows
from its seed and from a file in which each cost and each accuracy is recorded, so that a run that is interrupted goes on to the
same end. Sources: TinyNAS (arXiv 2007.10319); of several objectives non-dominated sorting (NSGA-II, 10.1109/4235.996017).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError
from ..progress import Progress, silent
from .arch import Arch, to_json
from .costs import Costs, Target, costs, too_large
from .predictor import predictor
from .space import Choice, SearchSpace, arch_of, crossed, mutated, sampled, smallest

TRIES = 10  # networks drawn, at most, for each that is wanted
MOST_PREDICTED = 100
OBJECTIVES = ("ram", "flash", "macs", "ms", "mj")  # besides accuracy
BATCH = 16  # networks that are priced at a time
Measure = Callable[[Sequence[Arch]], Iterable[tuple[int, float]]]
"""Called with networks: yields the number of each and its accuracy, in any order."""
Price = Callable[[Sequence[Arch]], Sequence[Costs | None]]
"""Called with networks: returns what each costs; None where it is too large to be planned."""


@dataclass(frozen=True)
class Evolution:
    """How many networks there are at first, how many become parents, and how many children of each kind a generation has.

    rate: of mutations, per gene. against: costs that are made small while accuracy is made large: of ram, flash, macs, ms, mj.
    predicted: how many children are drawn for each that is measured: a predictor of accuracy says which; 1: all are measured.
    """

    population: int = 100
    parents: int = 20
    crossovers: int = 50
    mutations: int = 50
    rate: float = 0.1
    generations: int = 30
    against: tuple[str, ...] = ()
    predicted: int = 1

    @property
    def evaluations(self) -> int:
        """Return how many networks are measured at most."""
        return self.population + self.generations * (self.crossovers + self.mutations)


def check_predicted(predicted: int) -> None:
    """Raise CompileError for a number of children per measurement that is out of range."""
    if not 1 <= predicted <= MOST_PREDICTED:
        raise CompileError(f"--predicted {predicted} is out of range", f"give 1 to {MOST_PREDICTED}: 4 are usual")


class Evaluated(NamedTuple):
    """A network that fits, what it costs, its share of right answers."""

    choice: Choice
    arch: Arch
    costs: Costs
    accuracy: float


class Ledger:
    """What a file records of networks: costs (False: too large to be planned) and accuracy, by network and kind."""

    def __init__(self, file: Path | None) -> None:
        self.file, self.known = file, dict[tuple[str, str], Any]()
        if file is not None and file.is_file():
            for line in file.read_text().splitlines():
                with suppress(ValueError, TypeError):  # a line that was cut off is no record
                    arch, kind, value = json.loads(line)
                    self.known[arch, kind] = value

    def __call__(self, arch: Arch, kind: str) -> Any:
        return self.known.get((to_json(arch), kind))

    def add(self, arch: Arch, kind: str, value: Any) -> None:
        """Record something at once."""
        self.known[to_json(arch), kind] = value
        if self.file is not None:
            with self.file.open("a") as file:
                file.write("\n" + json.dumps([to_json(arch), kind, value]))  # a new line first: the last one may be cut off


def unplanned(arch: Arch) -> Arch:
    """Return a network without its plan, on which its accuracy does not depend."""
    return replace(arch, plan=None)


def priced(target: Target, arch: Arch) -> Costs | None:
    """Return what a network costs; None where it cannot fit, as far as that is known without planning it."""
    return None if too_large(arch, target) else costs(arch, target)


def evolve(
    space: SearchSpace,
    target: Target,
    classes: int,
    settings: Evolution,
    measure: Measure,
    *,
    file: Path | None = None,
    seed: int = 0,
    price: Price | None = None,
    progress: Progress = silent,
) -> list[Evaluated]:
    """Return all networks that were measured, the best first. Raise CompileError at once where nothing fits.

    file: where costs and accuracies are recorded, and looked up. price: by whom the planner is asked, if not by this process.
    """
    check_feasible(space, target, classes)
    rng, memory, seen = random.Random(seed), Ledger(file), set[Arch]()
    price = _remembered(price or (lambda archs: [priced(target, arch) for arch in archs]), memory)
    fitting = partial(_fitting, space=space, classes=classes, seen=seen, price=price, progress=progress)
    measured = list[Evaluated]()

    def evaluate(found: Sequence[tuple[Choice, Arch, Costs]], title: str) -> None:
        new = {unplanned(arch): memory(unplanned(arch), "accuracy") for _, arch, _ in found}
        missing = [arch for arch, accuracy in new.items() if accuracy is None]
        for done, (number, accuracy) in enumerate(measure(missing) if missing else (), 1):
            memory.add(missing[number], "accuracy", accuracy)
            new[missing[number]] = accuracy
            best = max(value for value in [accuracy, *(each.accuracy for each in measured)] if value is not None)
            progress(f"{title}, best {100 * best:.1f} %", len(measured) + done, settings.evaluations)
        measured.extend(Evaluated(choice, arch, cost, new[unplanned(arch)]) for choice, arch, cost in found)

    first = fitting(lambda: sampled(space, rng), settings.population)
    if len(first) < settings.population:  # few networks fit: those near one that does are likely to
        near = [choice for choice, _, _ in first] or [smallest(space)]
        first += fitting(lambda: mutated(space, rng.choice(near), 2 * settings.rate, rng), settings.population - len(first))
    first = first or [_least(space, target, classes)]
    evaluate(first, "first generation")
    for number in range(settings.generations):
        title = f"generation {number + 1} of {settings.generations}"
        parents = [each.choice for each in best_of(measured, settings.parents, settings.against)]
        known = [each.choice for each in measured], [each.accuracy for each in measured]
        predict = predictor(space, *known) if settings.predicted > 1 else None

        def bred(draw: Callable[[], Choice], count: int) -> list[tuple[Choice, Arch, Costs]]:
            drawn = fitting(draw, settings.predicted * count)
            if predict is None:  # noqa: B023
                return drawn
            order = np.argsort(-predict([choice for choice, _, _ in drawn]), kind="stable")  # noqa: B023
            seen.difference_update(drawn[index][1] for index in order[count:])  # they may be drawn again
            return [drawn[index] for index in order[:count]]

        children = bred(lambda: crossed(rng.choice(parents), rng.choice(parents), rng), settings.crossovers)  # noqa: B023
        children += bred(lambda: mutated(space, rng.choice(parents), settings.rate, rng), settings.mutations)  # noqa: B023
        evaluate(children, title)
    return sorted(measured, key=lambda each: -each.accuracy)


def check_feasible(space: SearchSpace, target: Target, classes: int) -> None:
    """Raise CompileError where the smallest network of the space does not fit; it says what that one needs."""
    *_, least = _least(space, target, classes)
    if not least.fit:
        needs = f"{least.ram:,} B of RAM, {least.flash:,} B of Flash" + ("" if least.ms is None else f", {least.ms:.3g} ms")
        over = ", ".join(f"{name} by {value:,.6g}" for name, value in least.excess.items())
        why = f"no network of the space '{space.name}' fits: the smallest one exceeds {over}"
        raise CompileError(why, f"it needs {needs}: give at least that, or another space")


def _least(space: SearchSpace, target: Target, classes: int) -> tuple[Choice, Arch, Costs]:
    """Return the smallest network, planned so that it fits, if it does so; else so that it takes least RAM."""
    choice = smallest(space)
    choices = [choice, *(choice._replace(plan=plan) for plan in space.plans[-2::-1])]
    priced = [(each, arch := arch_of(space, each, classes), costs(arch, target)) for each in choices]
    return next((each for each in priced if each[2].fit), priced[0])


def _remembered(price: Price, memory: Ledger) -> Price:
    """Return a price that asks only for what is not recorded yet, and records it."""

    def ask(archs: Sequence[Arch]) -> list[Costs | None]:
        missing = [arch for arch in archs if memory(arch, "costs") is None]
        for arch, cost in zip(missing, price(missing) if missing else (), strict=True):
            memory.add(arch, "costs", cost.record() if cost else False)
        return [Costs(**record) if (record := memory(arch, "costs")) else None for arch in archs]

    return ask


def _fitting(
    draw: Callable[[], Choice],
    count: int,
    space: SearchSpace,
    classes: int,
    *,
    seen: set[Arch],
    price: Price,
    progress: Progress,
) -> list[tuple[Choice, Arch, Costs]]:
    """Return up to `count` networks that fit and were not seen before, and what each costs; `seen` grows by those looked at."""
    found = list[tuple[Choice, Arch, Costs]]()
    tries = TRIES * count
    while len(found) < count and tries > 0:
        batch = list[tuple[Choice, Arch]]()
        for _ in range(BATCH):
            choice = draw()
            arch = arch_of(space, choice, classes)
            if arch not in seen:
                seen.add(arch)
                batch.append((choice, arch))
        tries -= BATCH
        asked = zip(batch, price([arch for _, arch in batch]), strict=True)
        found += [(choice, arch, cost) for (choice, arch), cost in asked if cost is not None and cost.fit]
        progress("drawing networks that fit", min(len(found), count), count)
    seen.difference_update(arch for _, arch, _ in found[count:])  # they may be drawn again
    return found[:count]


def objectives(each: Evaluated, against: Sequence[str]) -> tuple[float, ...]:
    """Return what is to become small: errors, and the costs that are named; raise CompileError for a name that is none."""
    values = [getattr(each.costs, name) if name in OBJECTIVES else None for name in against]
    if None in values:
        raise CompileError(
            f"'{against[values.index(None)]}' of a network is not known",
            "compare by ram, flash or macs, by ms on a device, by mj where its current is known",
        )
    return (1 - each.accuracy, *map(float, values))


def fronts(measured: Sequence[Evaluated], against: Sequence[str]) -> Iterator[list[Evaluated]]:
    """Yield those that no other one beats in all objectives, then those that only these beat, and so on; each by errors."""
    left = sorted(measured, key=lambda each: objectives(each, against))
    points = {id(each): objectives(each, against) for each in left}

    def beats(first: Evaluated, second: Evaluated) -> bool:
        ours, theirs = points[id(first)], points[id(second)]
        return ours != theirs and all(a <= b for a, b in zip(ours, theirs, strict=True))

    while left:
        front = list[Evaluated]()
        for each in left:  # whoever beats one has no more errors, so comes before it
            if not any(beats(other, each) for other in front):
                front.append(each)
        yield front
        in_front = set(map(id, front))
        left = [each for each in left if id(each) not in in_front]


def best_of(measured: Sequence[Evaluated], count: int, against: Sequence[str]) -> list[Evaluated]:
    """Return the best networks: without other objectives the most accurate, else front by front, of the last front that has no
    place as a whole those that are farthest from their neighbours."""
    if not against:
        return sorted(measured, key=lambda each: -each.accuracy)[:count]
    chosen = list[Evaluated]()
    for front in fronts(measured, against):
        if len(chosen) + len(front) > count:
            distances = _crowding(np.array([objectives(each, against) for each in front]))
            return chosen + [front[index] for index in np.argsort(-distances, kind="stable")[: count - len(chosen)]]
        chosen += front
    return chosen


def _crowding(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far the neighbours of each point lie apart, as shares of the front's extent; its ends are infinitely far."""
    distances = np.zeros(len(points))
    for order, values in zip(np.argsort(points, axis=0, kind="stable").T, np.sort(points, axis=0).T, strict=True):
        distances[order[1:-1]] += (values[2:] - values[:-2]) / (values[-1] - values[0] or 1.0)
        distances[order[[0, -1]]] = np.inf
    return distances
