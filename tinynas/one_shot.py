"""One-shot search: train a supernet, evolve networks with its weights, fine-tune the best. Stage two of TinyNAS.

In: a data set in a folder, a SearchSpace, a Target. Out: the best networks, fine-tuned. The folder holds all state, so an
interrupted run resumes to the same result. Sources: TinyNAS (arXiv 2007.10319, section 3.2), once-for-all (arXiv 1908.09791).
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, islice
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyweave.ir import CompileError
from tinyweave.support.progress import Progress, silent

from . import arch as archs
from . import halving
from .arch import Arch
from .costs import Costs, Target, quick_costs
from .costs import costs as costs_of
from .evolution import Evaluated, Evaluator, Evolution, best_of, check_feasible, evolve, without_plan
from .halving import Rung
from .journal import Ledger
from .space import SearchSpace, arch_of, largest, sample
from .stage_one import FEASIBLE, Setting, best_setting, limits_for_share, most_feasible
from .tasks.dataset import Dataset, sized
from .training_run import UNSAVED, TrainingRun, unlogged
from .workers import POLL_S, Workers

if TYPE_CHECKING:
    from torch import Tensor

    from .learning.supernet import Supernet
    from .learning.team import Team
    from .learning.train import Recipe

SUPERNET, MEASUREMENTS = "supernet.pt", "evolution.jsonl"  # files in the folder of the run
CHECKPOINTS = "largest.epoch", "supernet.epoch"  # of the two trainings, deleted at the end
LEARNING_RATE = 0.05  # learning rate for a batch of 256
# epochs of the largest network in the paper, for images and for other samples; the supernet trains twice as many
IMAGE_EPOCHS, OTHER_EPOCHS = 150, 100
MAX_FINE_TUNING = 100  # epochs
FINALISTS = 4  # networks that are fine-tuned
MAX_PROCESSES = 4  # processes that share a supernet: at most one per network of a training step
SHARES = {"warm_up": 0.15, "epochs": 0.3, "evolution": 0.15, "rungs": 0.4}  # of the time limit, by phase
EXTRACTION = 1.2  # ratio of the time to extract and evaluate a network to the time to evaluate it
SAMPLES_PER_WIDTH = 16  # networks sampled per width to choose the width


@dataclass(frozen=True)
class SupernetBudget:
    """The extent of each phase of a one-shot search: epochs of training, and generations of evolution."""

    warm_up: int  # epochs of the largest network alone
    epochs: int  # of the supernet
    evolution: Evolution
    rungs: tuple[Rung, ...]  # of successive halving, to fine-tune the best networks

    def record(self) -> dict[str, Any]:
        """Return the budget as a dict of JSON values, which `from_record` reads."""
        return asdict(self) | {"rungs": [astuple(rung) for rung in self.rungs]}


def from_record(record: dict[str, Any]) -> SupernetBudget:
    """Return the budget from the JSON values of `SupernetBudget.record`."""
    evolution = Evolution(**{**record["evolution"], "against": tuple(record["evolution"]["against"])})
    return SupernetBudget(record["warm_up"], record["epochs"], evolution, tuple(Rung(*pair) for pair in record["rungs"]))


def paper_budget(kind: str) -> SupernetBudget:
    """Return the budget of the TinyNAS paper for a kind of samples (`Dataset.kind`): it trains longer on images."""
    epochs = IMAGE_EPOCHS if kind == "images" else OTHER_EPOCHS
    return SupernetBudget(epochs, 2 * epochs, Evolution(), (Rung(FINALISTS, MAX_FINE_TUNING // 4), Rung(1, MAX_FINE_TUNING)))


def budget_within(seconds: float, costs: dict[str, float], kind: str, processes: int) -> SupernetBudget:
    """Return a budget of about `seconds`, at most that of the TinyNAS paper, from the times of `supernet_seconds`."""
    paper = paper_budget(kind)
    counts = {name: share * seconds / max(costs[name], 1e-6) for name, share in SHARES.items()}
    evaluations = processes * counts["evolution"]
    ratio = paper.evolution.population / (paper.evolution.generations + 1)  # is kept, unless it exceeds the paper's numbers
    population = int(min(paper.evolution.population, max(4, sqrt(evaluations * ratio))))
    generations = int(min(paper.evolution.generations, max(1, evaluations / population - 1)))
    half = max(1, population // 2)
    evolution = Evolution(population, max(2, population // 5), half, half, generations=generations)
    short = int(min(MAX_FINE_TUNING / 2, max(1, processes * counts["rungs"] / (2 * FINALISTS))))
    return SupernetBudget(
        min(paper.warm_up, max(1, round(counts["warm_up"]))),
        min(paper.epochs, max(1, round(counts["epochs"]))),
        evolution,
        (Rung(FINALISTS, short), Rung(2, 2 * short)),
    )


def needed_seconds(budget: SupernetBudget, costs: Mapping[str, float], processes: int) -> float:
    """Predict the seconds that a supernet and its evolution take with this budget, from the times of `supernet_seconds`."""
    parallel = budget.evolution.evaluations * costs["evolution"] + halving.total_epochs(budget.rungs) * costs["rungs"]
    return budget.warm_up * costs["warm_up"] + budget.epochs * costs["epochs"] + parallel / processes


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
    data: Dataset, space: SearchSpace, budget: SupernetBudget, folder: Path, run: TrainingRun, *, threads: int
) -> None:
    """Train the supernet of a space, and write its weights to the file SUPERNET of a run's folder, unless it exists.

    First the largest network is trained alone, then the supernet starts from its weights. Only this second part is shared with
    the other processes of a team, which call `join_training`. `threads` are per machine.
    """
    from .learning.module import module_of
    from .learning.supernet import Supernet, fit_supernet
    from .learning.train import fit, on_cpu, save, thread_count

    team, seed = run.team, run.seed
    path, samples = folder / SUPERNET, data.part("train")
    is_done = path.is_file()
    if team is not None:
        share = threads_of_process(threads, team.size)
        team.broadcast(None if is_done else (space, budget, seed, share, data_hash(data)))
    if is_done:
        return
    recipe = recipe_of(data, budget.warm_up)
    states = [folder / name for name in CHECKPOINTS]
    supernet = Supernet(space, len(data.classes), seed=seed)
    with thread_count(threads):
        alone = module_of(supernet.largest, seed)
        fit(alone, *samples, recipe, _phase(run, "largest", "training the largest network", states[0], budget.warm_up))
        supernet.load(alone)
        supernet.sort()
    with thread_count(threads if team is None else share):
        fit_supernet(
            supernet,
            *samples,
            replace(recipe, epochs=budget.epochs),
            replace(_phase(run, "supernet", "training the supernet", states[1], budget.epochs), team=team),
        )
    save(on_cpu(supernet), path)
    for state in states:
        state.unlink(missing_ok=True)


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
    from .learning.supernet import Supernet, fit_supernet
    from .learning.train import thread_count

    task = team.broadcast()
    if task is None:
        return
    space, budget, seed, count, expected_hash = task
    if data_hash(data) != expected_hash:
        raise CompileError(
            f"process {team.rank} of torchrun has other samples than process 0", "give all processes the same folder"
        )
    supernet, recipe = Supernet(space, len(data.classes), seed=seed), recipe_of(data, budget.epochs)
    with thread_count(count):
        fit_supernet(supernet, *data.part("train"), recipe, TrainingRun(seed, team=team))


def data_hash(data: Dataset) -> str:
    """Return the SHA-256 of a data set, with which processes check that they have the same samples."""
    total = hashlib.sha256(repr((data.kind, data.classes)).encode())
    for array in (data.values, data.labels, data.parts):
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def _phase(run: TrainingRun, log_prefix: str, title: str, checkpoint: Path, epochs: int) -> TrainingRun:
    """Return `run` for one phase: without a team, with its own checkpoint, and prefixed logs.

    Progress, `title` and the loss of the last step, is sent after each epoch and at most twice per second.
    """
    loss_text, due = "", 0.0

    def after_step(done: int, loss: Tensor) -> None:
        nonlocal loss_text, due
        if (now := time.monotonic()) >= due:
            loss_text, due = f": loss {float(loss):.3f}", now + POLL_S
            run.progress(title + loss_text, done, epochs)

    return TrainingRun(
        run.seed,
        checkpoint,
        log=run.log if run.log is unlogged else lambda name, value, at: run.log(f"{log_prefix}/{name}", value, at),
        progress=lambda _, done, total: run.progress(title + loss_text, done, total),
        after_step=after_step,
    )


@lru_cache(maxsize=1)
def _loaded(space: SearchSpace, folder: str) -> tuple[Supernet, Dataset]:
    """Read the supernet and the data set of a run's folder; the last result is cached, so a worker reads them once."""
    import torch

    from .learning.supernet import Supernet

    data = halving.load_data(Path(folder) / halving.DATA)
    supernet = Supernet(space, len(data.classes))
    supernet.load_state_dict(torch.load(Path(folder) / SUPERNET, weights_only=True))
    return supernet, data


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


def evolve_and_fine_tune(
    space: SearchSpace,
    target: Target,
    classes: int,
    budget: SupernetBudget,
    folder: Path,
    *,
    workers: Workers,
    fits: Callable[[Arch], bool] = lambda _: True,
    run: TrainingRun = UNSAVED,
) -> tuple[list[tuple[Arch, Costs]], list[dict[str, Any]]]:
    """Evolve networks with the weights of a supernet, and fine-tune the best of them by successive halving.

    Networks that do not fit (`fits`) are fine-tuned only if none fits. Of several that differ only in their plan, the best is.

    Return all evaluated networks with their costs, fine-tuned ones first, and the records of all trainings: of rung 0 the
    accuracy with the supernet's weights, then those of `halving.successive_halving`.
    """
    place, seed, progress = str(folder.resolve()), run.seed, run.progress
    evaluated = evolve(
        space,
        target,
        classes,
        budget.evolution,
        Evaluator(
            lambda each: workers.as_they_end([partial(accuracy_of, archs.to_json(arch), space, place) for arch in each]),
            lambda each: workers.each(quick_costs, [(target, arch) for arch in each]),
        ),
        file=folder / MEASUREMENTS,
        seed=seed,
        progress=progress,
    )
    accuracies = (value for (_, kind), value in Ledger(folder / MEASUREMENTS).known.items() if kind == "accuracy")
    for number, best_so_far in enumerate(accumulate(accuracies, max), 1):
        run.log("evolution/best accuracy", best_so_far, number)
    count, against = budget.rungs[0].candidates, budget.evolution.against
    best = best_of(evaluated, count, against)
    order = [*best, *(each for each in best_of(evaluated, len(evaluated), against) if each not in best)]
    best_plan = {without_plan(each.arch): each for each in reversed(order)}
    fitting = (each for each in order if each is best_plan[without_plan(each.arch)] and fits(each.arch))
    finalists = list(islice(fitting, count)) or best
    finalist_archs = {each.arch for each in finalists}
    ordered: list[Evaluated] = [*finalists, *[each for each in evaluated if each.arch not in finalist_archs]]
    (folder / halving.WEIGHTS).mkdir(parents=True, exist_ok=True)
    starts = [folder / halving.WEIGHTS / f"start-{number}.pt" for number in range(len(finalists))]
    missing = [(each.arch, str(start.resolve())) for each, start in zip(finalists, starts, strict=True) if not start.is_file()]
    workers.each(write_weights, [(archs.to_json(arch), space, place, start) for arch, start in missing])
    records = [{"rung": 0, "candidate": number, "accuracy": each.accuracy} for number, each in enumerate(ordered)]
    recipe = halving.recipes_of(halving.load_data(folder / halving.DATA))[-1]  # SGD, as the supernet
    trainings = halving.Trainings(folder, workers, seed, recipe, progress=progress)
    expenses = [each.costs.product for each in finalists]
    trained = halving.successive_halving(
        [each.arch for each in finalists], budget.rungs, trainings, starts=starts, expenses=expenses
    )
    records += [{**record, "rung": record["rung"] + 1} for record in trained]
    return [(each.arch, each.costs) for each in ordered], records


def supernet_seconds(
    data: Dataset,
    space: SearchSpace,
    arch: Arch,
    folder: Path,
    workers: Workers,
    *,
    threads: int,
    size: int = 1,
    progress: Progress,
) -> dict[str, float]:
    """Measure how long each phase of a one-shot search takes, in a few training steps.

    `arch` should be a typical network to fine-tune; `size` processes train the supernet, with `threads` per machine. Return
    seconds: `warm_up` and `epochs`, per epoch of the largest network and of the supernet; `evolution`, per network on one
    thread; `rungs`, per epoch of fine-tuning one network while all workers are busy.
    """
    from .learning.module import module_of
    from .learning.supernet import CALIBRATION_BATCH, CALIBRATION_BATCHES, NETWORKS_PER_STEP, Supernet, fit_supernet
    from .learning.train import accuracy, fit, thread_count

    progress("measuring how fast it trains", 0, 1)
    batch, (values, labels) = halving.batch_of(data), data.part("train")
    some = min(len(values), 6 * batch)
    recipe = recipe_of(data, 1)
    supernet = Supernet(space, len(data.classes))

    def timed(work: Callable[[int], object], number: int) -> float:
        work(min(batch, number))  # fills caches
        begin = time.perf_counter()
        work(number)
        return (time.perf_counter() - begin) / number

    with thread_count(threads):
        whole = arch_of(space, largest(space), len(data.classes))
        warm_up = timed(lambda n: fit(module_of(whole), values[:n], labels[:n], recipe), some)
    with thread_count(threads_of_process(threads, size)):
        per_step = -(-NETWORKS_PER_STEP // size)
        epochs = timed(lambda n: fit_supernet(supernet, values[:n], labels[:n], recipe, networks_per_step=per_step), some)
    calibrated, unseen = min(CALIBRATION_BATCH * CALIBRATION_BATCHES, len(values)), len(data.part("validation")[0])
    with thread_count(1):
        one = module_of(arch)
        evaluated = timed(lambda n: accuracy(one, values[:n], labels[:n]), some) * (calibrated + unseen)
    rungs = halving.seconds_of_epoch(arch, folder / halving.DATA, workers, progress)
    return {
        "warm_up": warm_up * len(values),
        "epochs": epochs * len(values),
        "evolution": EXTRACTION * evaluated,
        "rungs": rungs,
    }
