"""Search by a supernet: all networks of a space are trained at once, then bred by what each reaches with its weights of it.

In: a data set in a folder, a SearchSpace, a Target. Out: the best networks, fine-tuned. All of a run lies in its folder; one
that is interrupted goes on to the same end. Sources: TinyNAS (arXiv 2007.10319), once-for-all (arXiv 1908.09791).
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, islice
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import CompileError
from ..progress import Progress, silent
from ..tasks.dataset import Dataset, sized
from . import arch as archs
from . import halving
from .arch import Arch
from .costs import Costs, Target
from .evolution import Evaluated, Evolution, Ledger, best_of, check_feasible, evolve, priced, unplanned
from .halving import Rung
from .logs import Log, unlogged
from .space import SearchSpace, arch_of, largest, sampled
from .workers import Workers

if TYPE_CHECKING:
    from .learning.supernet import Supernet
    from .learning.team import Team

SUPERNET, MEMORY = "supernet.pt", "evolution.jsonl"
STATES = "largest.epoch", "supernet.epoch"  # of both trainings of a supernet, while they last
RATE = 0.05  # for 256 samples at once
PAPER = {"images": 150, "sounds": 100}  # epochs of the largest network, twice as many of all
OTHERS = 100  # the same, of samples of other kinds
FINE_TUNED = 100  # epochs, at most
FINALISTS = 4
MOST = 4  # processes that share a supernet: one for each network of a step
SHARES = {"warm_up": 0.15, "epochs": 0.3, "evolution": 0.15, "rungs": 0.4}  # of the time
PER_WIDTH = 16  # networks of each width, of which those that fit say which width is the best
PERCENTILE = 80


@dataclass(frozen=True)
class OneShot:
    """warm_up: epochs of the largest network by itself. epochs: of the supernet. rungs: how the best are fine-tuned."""

    warm_up: int
    epochs: int
    evolution: Evolution
    rungs: tuple[Rung, ...]

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"rungs": [astuple(rung) for rung in self.rungs]}


def from_record(record: dict[str, Any]) -> OneShot:
    """Return what `OneShot.record` gave, after JSON."""
    evolution = Evolution(**{**record["evolution"], "against": tuple(record["evolution"]["against"])})
    return OneShot(record["warm_up"], record["epochs"], evolution, tuple(Rung(*pair) for pair in record["rungs"]))


def paper_sized(kind: str) -> OneShot:
    """Return the numbers of the paper, for samples of a kind."""
    epochs = PAPER.get(kind, OTHERS)
    return OneShot(epochs, 2 * epochs, Evolution(), (Rung(FINALISTS, FINE_TUNED // 4), Rung(1, FINE_TUNED)))


def numbers_for(seconds: float, costs: dict[str, float], kind: str, processes: int) -> OneShot:
    """Return what fits into so many seconds, never more than the paper's numbers.

    costs: seconds of an epoch of the largest network (`warm_up`) and of the supernet (`epochs`); in one process of several, of
    an epoch of a network (`rungs`) and of a measurement (`evolution`).
    """
    paper = paper_sized(kind)
    counts = {name: share * seconds / max(costs[name], 1e-6) for name, share in SHARES.items()}
    measured = processes * counts["evolution"]
    population = int(min(paper.evolution.population, max(4, sqrt(measured * paper.evolution.population / 31))))
    generations = int(min(paper.evolution.generations, max(1, measured / population - 1)))
    half = max(1, population // 2)
    evolution = Evolution(population, max(2, population // 5), half, half, generations=generations)
    short = int(min(FINE_TUNED / 2, max(1, processes * counts["rungs"] / (2 * FINALISTS))))
    return OneShot(
        min(paper.warm_up, max(1, round(counts["warm_up"]))),
        min(paper.epochs, max(1, round(counts["epochs"]))),
        evolution,
        (Rung(FINALISTS, short), Rung(2, 2 * short)),
    )


def narrowed(space: SearchSpace, target: Target, classes: int, workers: Workers, progress: Progress = silent) -> SearchSpace:
    """Return the space of the one width whose networks that fit have the most multiply-accumulates: stage one of TinyNAS.

    Compared are 80th percentiles, as the lecture has it. A supernet of all widths would learn mostly networks that do not fit.
    A joint space stays as it is: its supernet holds all widths.
    """
    check_feasible(space, target, classes)
    if space.joint:
        return space
    found = dict[float, float]()
    for number, width in enumerate(space.widths):
        progress("choosing the width", number, len(space.widths))
        rng = random.Random(f"{space.name} {width}")
        drawn = [arch_of(space, sampled(space, rng, width=width), classes) for _ in range(PER_WIDTH)]
        costs = workers.each(priced, [(target, arch) for arch in drawn])
        fit = [cost.macs for cost in costs if cost is not None and cost.fit]
        found[width] = float(np.percentile(fit, PERCENTILE)) if fit else 0.0
    best = max(found, key=lambda width: (found[width], -width))  # of none that fits, the narrowest
    return replace(space, widths=(best,))


def train_supernet(
    data: Dataset,
    space: SearchSpace,
    numbers: OneShot,
    folder: Path,
    *,
    seed: int,
    count: int,
    team: Team | None = None,
    log: Log = unlogged,
    progress: Progress,
) -> Path:
    """Train the supernet of a space with `count` threads, and return the file of its weights.

    team: its other processes are in `help_train`; those of a machine share the threads. log: of both trainings, as of `fit`.
    """
    from .learning.module import module_of
    from .learning.supernet import Supernet, fit_supernet
    from .learning.train import Recipe, fit, save, threads

    path, values = folder / SUPERNET, data.part("train")
    is_done = path.is_file()
    if team is not None:
        share = max(1, count // int(os.environ.get("LOCAL_WORLD_SIZE", team.size)))
        team.shared(None if is_done else (space, numbers, seed, share, digest(data)))
    if is_done:
        return path
    recipe = Recipe(numbers.warm_up, batch=halving.batch_of(data), rate=RATE, kind=data.kind)
    states = [folder / name for name in STATES]
    supernet = Supernet(space, len(data.classes), seed=seed)
    with threads(count):
        first = module_of(supernet.largest, seed)
        fit(
            first,
            *values,
            recipe,
            seed,
            checkpoint=states[0],
            log=_below("largest", log),
            progress=_named("training the largest network", progress),
        )
        supernet.load(first)
        supernet.sort()
    with threads(count if team is None else share):
        fit_supernet(
            supernet,
            *values,
            replace(recipe, epochs=numbers.epochs),
            seed,
            checkpoint=states[1],
            team=team,
            log=_below("supernet", log),
            progress=_named("training the supernet", progress),
        )
    save({name: value.cpu() for name, value in supernet.state_dict().items()}, path)
    for state in states:
        state.unlink(missing_ok=True)
    return path


def help_train(data: Dataset, team: Team) -> None:
    """Train a share of the supernet that the first process of a team is training."""
    from .learning.supernet import Supernet, fit_supernet
    from .learning.train import Recipe, threads

    asked = team.shared()
    if asked is None:
        return
    space, numbers, seed, count, samples = asked
    if digest(data) != samples:
        raise CompileError(f"process {team.rank} of torchrun has other samples than the first", "give all the same folder")
    recipe = Recipe(numbers.epochs, batch=halving.batch_of(data), rate=RATE, kind=data.kind)
    with threads(count):
        fit_supernet(Supernet(space, len(data.classes), seed=seed), *data.part("train"), recipe, seed, team=team)


def digest(data: Dataset) -> str:
    """Return what two processes compare to know whether they have the same samples."""
    total = hashlib.sha256(repr((data.kind, data.classes)).encode())
    for array in (data.values, data.labels, data.parts):
        total.update(np.ascontiguousarray(array))
    return total.hexdigest()


def _below(title: str, log: Log) -> Log:
    return log if log is unlogged else lambda name, value, at: log(f"{title}/{name}", value, at)


def _named(title: str, progress: Progress) -> Progress:
    return lambda _, done, total: progress(title, done, total)


@lru_cache(maxsize=1)
def _loaded(space: SearchSpace, folder: str) -> tuple[Supernet, Dataset]:
    """Return what a process needs to measure networks, read once."""
    import torch

    from .learning.supernet import Supernet

    data = halving.load_data(Path(folder) / halving.DATA)
    supernet = Supernet(space, len(data.classes))
    supernet.load_state_dict(torch.load(Path(folder) / SUPERNET, weights_only=True))
    return supernet, data


_sized = lru_cache(maxsize=4)(sized)


def accuracy_of(arch: str, space: SearchSpace, folder: str, end: str | None = None) -> float:
    """Return the accuracy on the validation part that a network has with its weights of the supernet, its norms calibrated on
    samples of the training part; write the weights to `end`."""
    from .learning.supernet import recalibrate
    from .learning.train import accuracy, device, save

    supernet, data = _loaded(space, folder)
    given = archs.from_json(arch)
    data = _sized(data, given.image[:2])
    module = recalibrate(supernet.extract(given).to(device()), data.part("train")[0])
    if end is not None:
        save({name: value.cpu() for name, value in module.state_dict().items()}, Path(end))
    return accuracy(module, *data.part("validation"))


def fine_tuned(
    space: SearchSpace,
    target: Target,
    classes: int,
    numbers: OneShot,
    folder: Path,
    *,
    workers: Workers,
    fits: Callable[[Arch], bool] = lambda _: True,
    seed: int = 0,
    log: Log = unlogged,
    progress: Progress = silent,
) -> tuple[list[tuple[Arch, Costs]], list[dict[str, Any]]]:
    """Return the networks that evolution measured, those that were fine-tuned first, and a record per training.

    fits: asked before a network is fine-tuned. The records are those of `halving.halve`; rung 0 is what networks reach with the
    supernet's weights, which have no file.
    """
    place = str(folder.resolve())
    measured = evolve(
        space,
        target,
        classes,
        numbers.evolution,
        lambda each: workers.as_they_end([partial(accuracy_of, archs.to_json(arch), space, place) for arch in each]),
        file=folder / MEMORY,
        seed=seed,
        price=lambda each: workers.each(priced, [(target, arch) for arch in each]),
        progress=progress,
    )
    reached = (value for (_, kind), value in Ledger(folder / MEMORY).known.items() if kind == "accuracy")
    for number, best_so_far in enumerate(accumulate(reached, max), 1):
        log("evolution/best accuracy", best_so_far, number)
    count, against = numbers.rungs[0].candidates, numbers.evolution.against
    best = best_of(measured, count, against)
    order = [*best, *(each for each in best_of(measured, len(measured), against) if each not in best)]
    first = {unplanned(each.arch): each for each in reversed(order)}  # others differ from it in their plan alone
    finalists = list(islice((each for each in order if each is first[unplanned(each.arch)] and fits(each.arch)), count)) or best
    chosen = {each.arch for each in finalists}
    ordered: list[Evaluated] = [*finalists, *[each for each in measured if each.arch not in chosen]]
    (folder / halving.WEIGHTS).mkdir(parents=True, exist_ok=True)
    starts = [folder / halving.WEIGHTS / f"start-{number}.pt" for number in range(len(finalists))]
    missing = [(each.arch, str(start.resolve())) for each, start in zip(finalists, starts, strict=True) if not start.is_file()]
    workers.each(accuracy_of, [(archs.to_json(arch), space, place, start) for arch, start in missing])
    told = [{"rung": 0, "candidate": number, "accuracy": each.accuracy} for number, each in enumerate(ordered)]
    trained = halving.halve(
        [each.arch for each in finalists],
        numbers.rungs,
        folder,
        workers,
        starts=starts,
        seed=seed,
        progress=progress,
    )
    told += [{**record, "rung": record["rung"] + 1} for record in trained]
    return [(each.arch, each.costs) for each in ordered], told


def seconds_of(
    data: Dataset,
    space: SearchSpace,
    arch: Arch,
    folder: Path,
    workers: Workers,
    *,
    count: int,
    size: int = 1,
    progress: Progress,
) -> dict[str, float]:
    """Return what `numbers_for` needs to know, measured in a few steps each.

    arch: a network that is likely to be fine-tuned. count: threads of this machine, size: processes that train the supernet.
    """
    from .learning.module import module_of
    from .learning.supernet import BATCH, BATCHES, PER_BATCH, Supernet, fit_supernet
    from .learning.train import Recipe, accuracy, fit, threads

    progress("measuring how fast it trains", 0, 1)
    batch, (values, labels) = halving.batch_of(data), data.part("train")
    few = min(len(values), 6 * batch)
    recipe = Recipe(1, batch=batch, rate=RATE, kind=data.kind)
    supernet = Supernet(space, len(data.classes))

    def timed(work: Callable[[int], object], number: int) -> float:
        work(min(batch, number))  # caches
        begin = time.perf_counter()
        work(number)
        return (time.perf_counter() - begin) / number

    with threads(count):
        whole = arch_of(space, largest(space), len(data.classes))
        warm_up = timed(lambda n: fit(module_of(whole), values[:n], labels[:n], recipe), few)
    with threads(max(1, count // int(os.environ.get("LOCAL_WORLD_SIZE", size)))):
        epochs = timed(lambda n: fit_supernet(supernet, values[:n], labels[:n], recipe, per_batch=-(-PER_BATCH // size)), few)
    calibrated, unseen = min(BATCH * BATCHES, len(values)), len(data.part("validation")[0])
    with threads(1):
        one = module_of(arch)
        evaluated = timed(lambda n: accuracy(one, values[:n], labels[:n]), few) * (calibrated + unseen)
    rungs, _ = halving.seconds_of_training(arch, folder / halving.DATA, workers, progress)
    return {"warm_up": warm_up * len(values), "epochs": epochs * len(values), "evolution": 1.2 * evaluated, "rungs": rungs}
