"""One-shot search: train a supernet, evolve networks with its weights. Stage two of TinyNAS.

In: a data set in a folder, a SearchSpace, a Target. Out: evaluated networks, and weights from which `halving` trains the best.
The folder holds all state, so an interrupted run resumes to the same result. Sources: TinyNAS (arXiv 2007.10319, section 3.2),
once-for-all (arXiv 1908.09791).
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from math import ceil, sqrt
from pathlib import Path
from pickle import UnpicklingError
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyweave.ir import CompileError
from tinyweave.support.progress import Progress, silent

from . import arch as archs
from . import halving
from .arch import Arch
from .budget import PLANNING, Budget, step_seconds
from .costs import Target, quick_costs
from .costs import costs as costs_of
from .evolution import Evaluated, Evaluator, Evolution, best_of, check_feasible, evolve, without_plan
from .space import SearchSpace, arch_of, largest, sample
from .stage_one import FEASIBLE, Setting, best_setting, limits_for_share, most_feasible
from .tasks.dataset import Dataset, sized
from .training_run import TrainingRun
from .workers import Workers

if TYPE_CHECKING:
    from .learning.supernet import Supernet
    from .learning.team import Team
    from .learning.train import Recipe

SUPERNET, MEASUREMENTS = "supernet.pt", "evolution.jsonl"  # in the folder of the run
TITLE = "training the supernet"
CHECKPOINTS = "largest.epoch", "supernet.epoch"  # of the two trainings, deleted at the end
LEARNING_RATE = 0.05  # learning rate for a batch of 256
# epochs of the largest network in the paper, for images and for other samples; the supernet trains twice as many
IMAGE_EPOCHS, OTHER_EPOCHS = 150, 100
LEAST = 0.1  # share of the paper's epochs; with fewer, halving is better
FINALISTS = 4  # evolved networks that are trained further
MAX_PROCESSES = 4  # processes that share a supernet: at most one per network of a training step
SHARE = 1 / 3  # of the time limit, for the supernet and the evolution; the rest is divided as in a search by halving
SHARES = {"warm_up": 0.25, "epochs": 0.5, "evolution": 0.25}  # of this time
SAMPLES_PER_WIDTH = 16  # networks sampled per width to choose the width

# a network in a step of the supernet takes as long as in a training of its own (0.8 to 1.1 times by earlier constants)
FORWARD = 0.25  # ratio of the time to evaluate samples to the time to train on them
EXTRACTION = 0.01  # seconds to copy the weights of a network out of the supernet
PLANS = 1.25  # networks that are planned per network that fits and is evaluated
TYPICAL = 64  # networks sampled to predict the mean time of a training step of a network of the supernet


@dataclass(frozen=True)
class SupernetBudget:
    """The extent of each phase of a one-shot search: epochs of training, and generations of evolution."""

    warm_up: int  # epochs of the largest network alone
    epochs: int  # of the supernet
    evolution: Evolution


def from_record(record: dict[str, Any]) -> SupernetBudget:
    """Return the budget from its fields as JSON values."""
    evolution = {**record["evolution"], "against": tuple(record["evolution"]["against"])}
    return SupernetBudget(record["warm_up"], record["epochs"], Evolution(**evolution))


def paper_budget(kind: str) -> SupernetBudget:
    """Return the budget of the TinyNAS paper for a kind of samples (`Dataset.kind`): it trains longer on images."""
    epochs = IMAGE_EPOCHS if kind == "images" else OTHER_EPOCHS
    return SupernetBudget(epochs, 2 * epochs, Evolution())


def predicted_seconds(space: SearchSpace, classes: int, limit: Budget, processes: int) -> dict[str, float]:
    """Predict how long each phase of a one-shot search takes on this machine while idle; `processes` train the supernet.

    Return seconds: `warm_up` and `epochs`, per epoch of the largest network and of the supernet; `evolution`, per network on
    one worker. They depend on the measured speed of the machine (`Budget.slowdown`) and on no clock.
    """
    from .learning.supernet import CALIBRATION_BATCH, CALIBRATION_BATCHES, NETWORKS_PER_STEP

    rng = random.Random(space.name)
    archs = [arch_of(space, sample(space, rng), classes) for _ in range(TYPICAL)]
    train, small = (fmean(step_seconds(arch, batch) for arch in archs) for batch in (limit.batch, CALIBRATION_BATCH))
    samples = min(CALIBRATION_BATCH * CALIBRATION_BATCHES, limit.samples) + limit.validation
    evaluation = FORWARD * small * samples / CALIBRATION_BATCH + EXTRACTION + PLANS * PLANNING
    return {
        "warm_up": limit.steps_per_epoch * limit.step(arch_of(space, largest(space), classes)),
        "epochs": limit.steps_per_epoch * limit.slowdown * ceil(NETWORKS_PER_STEP / processes) * train,
        "evolution": limit.slowdown * evaluation,
    }


def budget_within(seconds: float, costs: Mapping[str, float], kind: str, workers: int) -> SupernetBudget:
    """Return a budget of about `seconds`, at most `paper_budget`, from the times of `predicted_seconds`."""
    paper = paper_budget(kind)
    counts = {name: share * seconds / max(costs[name], 1e-6) for name, share in SHARES.items()}
    evaluations = workers * counts["evolution"]
    ratio = paper.evolution.population / (paper.evolution.generations + 1)  # is kept, unless it exceeds the paper's numbers
    population = int(min(paper.evolution.population, max(4, sqrt(evaluations * ratio))))
    generations = int(min(paper.evolution.generations, max(1, evaluations / population - 1)))
    half = max(1, population // 2)
    evolution = Evolution(population, max(2, population // 5), half, half, generations=generations)
    return SupernetBudget(
        min(paper.warm_up, max(1, round(counts["warm_up"]))), min(paper.epochs, max(1, round(counts["epochs"]))), evolution
    )


def needed_seconds(budget: SupernetBudget, costs: Mapping[str, float], workers: int) -> float:
    """Predict the seconds that a supernet and its evolution take with this budget, from the times of `predicted_seconds`."""
    evolution = budget.evolution.evaluations * costs["evolution"] / workers
    return budget.warm_up * costs["warm_up"] + budget.epochs * costs["epochs"] + evolution


def too_short(budget: SupernetBudget, costs: Mapping[str, float], kind: str, fixed: float) -> str:
    """Return why a supernet's budget is too small, and how many minutes are enough; "" if it is large enough.

    It must have LEAST of the epochs of the TinyNAS paper. `fixed` is the number of seconds that no time limit changes.
    """
    epochs = paper_budget(kind).epochs
    least = ceil(LEAST * epochs)
    if budget.epochs >= least:
        return ""
    minutes = ceil((fixed + least * costs["epochs"] / (SHARE * SHARES["epochs"])) / 60)
    said = f"the supernet is trained for {budget.epochs} of {epochs} epochs, and needs at least {least}"
    return f"{said}; give --minutes {minutes}, or leave out the supernet: halving is better in less time"


def choose_width(
    space: SearchSpace,
    target: Target,
    classes: int,
    workers: Workers,
    progress: Progress = silent,
    *,
    feasible: float = FEASIBLE,
) -> tuple[SearchSpace, dict[str, Any]]:
    """Restrict a space to one width, a factor on all channels, as stage one of TinyNAS does (`stage_one.best_setting`).

    A width is feasible if at least the share `feasible` of its networks fits; if none is, that with the largest share is
    chosen. A supernet of all widths would mostly train networks that do not fit. A joint space is not restricted.

    Return the space and a record: `widths`; `share` of the sampled networks that fit (None: joint); `enough`, the limits with
    which the width would be feasible (None if it is). Raise CompileError if the smallest network does not fit.
    """
    check_feasible(space, target, classes)
    if space.joint:
        return _chosen(space, space.widths)
    settings, sampled = list[Setting](), dict[float, list[Arch]]()
    for number, width in enumerate(sorted(space.widths)):  # the narrowest wins a tie
        progress("choosing the width", number, len(space.widths))
        rng = random.Random(f"{space.name} {width}")
        sampled[width] = [arch_of(space, sample(space, rng, width=width), classes) for _ in range(SAMPLES_PER_WIDTH)]
        costs = workers.each(quick_costs, [(target, arch) for arch in sampled[width]])
        macs = tuple(sorted(cost.macs for cost in costs if cost is not None and cost.fit))
        settings.append(Setting(None, width, macs, SAMPLES_PER_WIDTH))
    best = best_setting(settings, share=feasible)
    if best is not None:
        return _chosen(space, (best.width,), best.share)
    best = most_feasible(settings)
    limits = {name: limit for name, limit in target.limits_by_name().items() if limit is not None}
    all_costs = workers.each(costs_of, [(arch, target) for arch in sampled[best.width]])
    needs = [{name: limit + cost.excess.get(name, 0) for name, limit in limits.items()} for cost in all_costs]
    return _chosen(space, (best.width,), best.share, limits_for_share(needs, limits, feasible))


def _chosen(
    space: SearchSpace, widths: tuple[float, ...], share: float | None = None, enough: dict[str, float] | None = None
) -> tuple[SearchSpace, dict[str, Any]]:
    return replace(space, widths=widths), {"widths": list(widths), "share": share, "enough": enough}


def train_supernet(
    data: Dataset, space: SearchSpace, budget: SupernetBudget, folder: Path, run: TrainingRun, *, workers: Workers, threads: int
) -> None:
    """Train the supernet of a space, and write its weights to the file SUPERNET of a run's folder, unless it exists.

    First the largest network is trained alone, then the supernet starts from its weights. One worker does both; or under
    torchrun, the processes of the run's team share the second, with `threads` per machine. The others call `join_training`.
    """
    from .learning.train import thread_count

    team, is_done = run.team, (folder / SUPERNET).is_file()
    if team is not None:
        share = threads_of_process(threads, team.size)
        team.broadcast(None if is_done else (space, budget, run.seed, share, data_hash(data)))
    if is_done:
        return
    epochs, done = budget.warm_up + budget.epochs, 0

    def report(running: int, loss: str = "") -> None:
        run.progress(f"{TITLE}{loss}", done + running, epochs)

    report(0)
    if team is not None:
        with thread_count(share):
            _train(data, space, budget, folder, replace(run, progress=lambda _, running, __: report(running)))
        return
    call: Callable[[], Any] = partial(train_in_worker, space, budget, str(folder.resolve()), run.seed)
    for _ in halving.Trainings(folder, workers).as_they_end([call], [SUPERNET], report):
        done = epochs


def train_in_worker(space: SearchSpace, budget: SupernetBudget, folder: str, seed: int) -> None:
    """Train the supernet of a run's folder in one process, and write the file SUPERNET; see `train_supernet`."""
    place = Path(folder)
    run = TrainingRun(seed, after_step=halving.noting(halving.state_file(place / SUPERNET)))
    _train(halving.load_data(place / halving.DATA), space, budget, place, run)


def _train(data: Dataset, space: SearchSpace, budget: SupernetBudget, folder: Path, run: TrainingRun) -> None:
    """Train the largest network of a space, then the supernet; the first process of a team does the first and writes both."""
    from .learning.module import module_of
    from .learning.supernet import Supernet, fit_supernet
    from .learning.train import fit, on_cpu, save

    recipe, samples, is_first = recipe_of(data, budget.warm_up), data.part("train"), run.team is None or not run.team.rank
    states = [folder / name for name in CHECKPOINTS]
    supernet = Supernet(space, len(data.classes), seed=run.seed)
    if is_first:
        alone = module_of(supernet.largest, run.seed)
        fit(alone, *samples, recipe, replace(_phase(run, states[0], 0), team=None))
        supernet.load(alone)
        supernet.sort()
    fit_supernet(supernet, *samples, replace(recipe, epochs=budget.epochs), _phase(run, states[1], budget.warm_up))
    if is_first:
        save(on_cpu(supernet), folder / SUPERNET)
        for state in states:
            state.unlink(missing_ok=True)


def load_supernet(space: SearchSpace, classes: int, folder: Path) -> Supernet:
    """Return the supernet of a run's folder; raise CompileError if its file is damaged or of another space."""
    import torch

    from .learning.supernet import Supernet

    supernet = Supernet(space, classes)
    try:
        supernet.load_state_dict(torch.load(folder / SUPERNET, weights_only=True))
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError, EOFError, UnpicklingError) as error:
        why = f"'{folder / SUPERNET}' is damaged, or the supernet of another space"
        raise CompileError(why, "delete it, or give another folder") from error
    return supernet


def recipe_of(data: Dataset, epochs: int) -> Recipe:
    """Return the hyperparameters with which a supernet, or its largest network, is trained for some epochs."""
    from .learning.train import Recipe

    return Recipe(epochs, batch=halving.batch_of(data), rate=LEARNING_RATE, augmentation=halving.AUGMENTATIONS[data.kind][0])


def threads_of_process(threads: int, size: int) -> int:
    """Return the threads of each process, of the LOCAL_WORLD_SIZE (torchrun), or else `size`, processes on the machine."""
    return max(1, threads // int(os.environ.get("LOCAL_WORLD_SIZE", size)))


def join_training(data: Dataset, team: Team) -> None:
    """Take part in a team's supernet training, in a process other than the first, unless it exists.

    Raise CompileError if this process has other samples than the first.
    """
    from .learning.train import thread_count

    task = team.broadcast()
    if task is None:
        return
    space, budget, seed, count, expected_hash = task
    if data_hash(data) != expected_hash:
        raise CompileError(
            f"process {team.rank} of torchrun has other samples than process 0", "give all processes the same folder"
        )
    with thread_count(count):
        _train(data, space, budget, Path(), TrainingRun(seed, team=team))


def data_hash(data: Dataset) -> str:
    """Return the SHA-256 of a data set, with which processes check that they have the same samples."""
    total = hashlib.sha256(repr((data.kind, data.classes)).encode())
    for array in (data.values, data.labels, data.parts):
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def _phase(run: TrainingRun, checkpoint: Path, before: int) -> TrainingRun:
    """Return `run` for one phase, after `before` epochs of others, with its own checkpoint."""
    note = run.after_step
    return replace(
        run,
        checkpoint=checkpoint,
        progress=lambda what, done, total: run.progress(what, before + done, total),
        after_step=note and (lambda done, loss: note(before + done, loss)),
    )


@lru_cache(maxsize=1)
def _loaded(space: SearchSpace, folder: str) -> tuple[Supernet, Dataset]:
    """Read the supernet and the data set of a run's folder; the last result is cached, so a worker reads them once."""
    data = halving.load_data(Path(folder) / halving.DATA)
    return load_supernet(space, len(data.classes), Path(folder)), data


_sized = lru_cache(maxsize=4)(sized)


def accuracy_of(arch: str, space: SearchSpace, folder: str) -> float:
    """Return the accuracy on the validation samples of a network (as JSON) with the supernet's weights; see `extracted`."""
    from .learning.train import accuracy

    module, data = extracted(arch, space, folder)
    return accuracy(module, *data.part("validation"))


def write_weights(arch: str, space: SearchSpace, folder: str, end: str) -> None:
    """Write the supernet's weights for a network (as JSON) to the file `end`; see `extracted`."""
    from .learning.train import on_cpu, save

    module, _ = extracted(arch, space, folder)
    save(on_cpu(module), Path(end))


def extracted(arch: str, space: SearchSpace, folder: str) -> tuple[Any, Dataset]:
    """Return the network `arch` (JSON) with the supernet's weights, recalibrated, and the data set in its image size."""
    from .learning.supernet import recalibrate
    from .learning.train import device

    supernet, data = _loaded(space, folder)
    architecture = archs.from_json(arch)
    data = _sized(data, architecture.image[:2])
    return recalibrate(supernet.extract(architecture).to(device()), data.part("train")[0]), data


def evolve_with_weights(
    space: SearchSpace, target: Target, classes: int, evolution: Evolution, folder: Path, *, workers: Workers, run: TrainingRun
) -> list[Evaluated]:
    """Evolve networks with the weights of the supernet of a run's folder; return all evaluated networks, the best first."""
    place = str(folder.resolve())
    return evolve(
        space,
        target,
        classes,
        evolution,
        Evaluator(
            lambda each: workers.as_they_end([partial(accuracy_of, archs.to_json(arch), space, place) for arch in each]),
            lambda each: workers.each(quick_costs, [(target, arch) for arch in each]),
        ),
        file=folder / MEASUREMENTS,
        seed=run.seed,
        progress=run.progress,
    )


def finalists_of(
    evaluated: Sequence[Evaluated], count: int, against: Sequence[str], fits: Callable[[Arch], bool]
) -> list[Evaluated]:
    """Return the best `count` evaluated networks that fit (`fits`), or if none fits, the best `count`.

    Of several that differ only in their plan, the best is returned.
    """
    best = best_of(evaluated, count, against)
    order = [*best, *(each for each in best_of(evaluated, len(evaluated), against) if each not in best)]
    best_plan = {without_plan(each.arch): each for each in reversed(order)}
    fitting = (each for each in order if each is best_plan[without_plan(each.arch)] and fits(each.arch))
    return list(islice(fitting, count)) or best


def write_starts(starts: Mapping[Path, Arch], space: SearchSpace, folder: Path, workers: Workers) -> None:
    """Write the weights that the supernet of a run's folder has for networks, each to a file, unless it exists."""
    (folder / halving.WEIGHTS).mkdir(parents=True, exist_ok=True)
    missing = [(archs.to_json(arch), str(start.resolve())) for start, arch in starts.items() if not start.is_file()]
    workers.each(write_weights, [(arch, space, str(folder.resolve()), start) for arch, start in missing])
