"""Search a network for a data set and a device. In: a Dataset, a SearchSpace, a Target. Out: a SearchResult, and firmware.

`search` runs these steps:

1. Measure the overhead of networks on the target: stack, static data and code (`costs.with_measured_overhead`).
2. Divide the time limit among the other steps (`budget`, `one_shot.budget_within`).
3. Choose networks that fit (`candidates`). Strategy "supernet": train a supernet, evolve others with its weights (`one_shot`).
4. Train them by successive halving (`halving`), then the best once more, on the training and validation samples.
5. Quantise the best network to int8, test it, deploy it and verify its C (`int8`, `trained`).

The folder of the run holds all state. The same command resumes an interrupted run, with the result of an uninterrupted one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tinyweave.api.results import Deployment
from tinyweave.ir import CompileError
from tinyweave.support.files import write_file
from tinyweave.support.notebook import table
from tinyweave.support.progress import Progress, silent

from . import halving, one_shot
from .arch import Arch, from_json, is_fitted, to_json
from .budget import FIXED, MOST_CANDIDATES, Budget, machine_factor
from .candidates import Sampling, first_network, fitted_networks, flat_networks, sample_fitting
from .costs import Costs, Overhead, Target, built_costs, costs, quick_costs, with_measured_overhead
from .evolution import Evaluated, check_feasible
from .halving import Rung
from .int8 import evaluate_int8
from .journal import Ledger
from .search_options import LATE, MINUTES, NEEDS, RUN, TOO_SHORT, TOOK, check_options, search_of, strategy_for
from .settings import DEFAULTS, SearchOptions
from .space import SearchSpace, arch_of, families_of, networks_in, smallest, with_plan_genes
from .stage_one import FEASIBLE
from .tasks.dataset import Dataset, sized
from .tasks.evaluation.baselines import Baseline, baselines
from .trained import companion_bytes, deploy
from .training_run import TrainingRun
from .workers import Workers, pool

if TYPE_CHECKING:
    from .learning.team import Team

BUILT, LOCK = "built.jsonl", "search.lock"
TRAINED = (halving.RESULTS, halving.TRIALS, halving.WEIGHTS, one_shot.MEASUREMENTS, one_shot.SUPERNET, *one_shot.CHECKPOINTS)
VERSION = 16  # of RUN

Candidates = Sequence[tuple[Arch, Costs]]
Records = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The result of a search: the best network, trained and deployed, and all candidates."""

    arch: Arch
    costs: Costs  # as built with random weights; code and stack of sampled candidates are estimates
    accuracy: dict[str, float]  # `validation`, which decided the search, `test` and `test_int8`; detectors: average precision
    interval: tuple[float, float]  # 95 % confidence interval of `test_int8`
    predicted: NDArray[np.int64] | None  # class of each test sample by the int8 network; None for a detector
    baselines: tuple[Baseline, ...]  # simple classifiers on the same samples; empty for a detector
    data: Dataset
    deployment: Deployment
    companions: dict[str, int] | None  # `ram` and `flash` bytes of the companion C (`trained.companion`); None for no such C
    candidates: tuple[tuple[Arch, Costs], ...]  # networks that were trained, or evaluated with the weights of a supernet
    trained: tuple[dict[str, Any], ...]  # a record per training, as of `halving.successive_halving`; see `_with_evaluated`
    folder: Path  # of the run

    @property
    def fits(self) -> bool:
        """Return whether the deployed network fits all limits, as measured."""
        return self.deployment.fits

    def __repr__(self) -> str:
        """Return the quality of the int8 network and its deployment as one line."""
        return f"<SearchResult: {self._measure} {100 * self.accuracy['test_int8']:.1f} % in int8, {self.deployment!r}>"

    def _repr_html_(self) -> str:
        low, high = self.interval
        tested = [(each.name, f"{100 * each.accuracy:.1f}") for each in self.baselines]
        tested.append(("this network in int8", f"{100 * self.accuracy['test_int8']:.1f} ({100 * low:.1f} to {100 * high:.1f})"))
        of_test = f"{self._measure} on {self.data.counts()['test']:,} test samples"
        return table([of_test, "% (95 % interval)"], tested) + self.deployment._repr_html_()

    @property
    def _measure(self) -> str:
        return "mAP" if self.data.kind == "detection" else "accuracy"


@dataclass(frozen=True)
class _Search:
    """The inputs of one search, and the resources that its steps share."""

    data: Dataset
    space: SearchSpace
    target: Target
    folder: Path
    options: SearchOptions
    workers: Workers
    team: Team | None
    progress: Progress
    baselines: tuple[Baseline, ...] = ()

    @property
    def classes(self) -> int:
        return len(self.data.classes)

    @property
    def seconds(self) -> float:
        """Return the time limit in seconds; the default is MINUTES minutes."""
        return 60 * (MINUTES if self.options.minutes is None else self.options.minutes)


def search(
    data: Dataset,
    space: SearchSpace,
    target: Target,
    folder: Path,
    options: SearchOptions = DEFAULTS,
    *,
    progress: Progress = silent,
) -> SearchResult:
    """Find the best network for a data set on a device, train it, and deploy it into `folder`/firmware.

    Under torchrun, all processes train the supernet. An interrupted run of the same search in the folder resumes.

    Raises:
        SystemExit: This process of torchrun is not the first. It is raised after the training of the supernet.
        CompileError: No network of the space fits, an option is wrong, the folder holds another search, or another process
            searches in it.
    """
    check_options(options, data.kind)
    begin = time.monotonic()
    if options.search_plan:
        space = with_plan_genes(space, stream_inputs=target.stream_inputs, max_mac_overhead=target.max_mac_overhead)
    from .learning.team import is_launched, joined

    with ExitStack() as stack:
        team = stack.enter_context(joined()) if is_launched() else None
        if team is not None and team.rank:
            one_shot.join_training(data, team)
            raise SystemExit(0)
        stack.enter_context(_locked(folder))
        workers = stack.enter_context(pool(options.processes, ray=options.ray))
        options = replace(options, strategy=strategy_for(data.kind, options, folder, team))
        this = _Search(data, space, target, folder, options, workers, team, progress)
        identity = _identity(this)
        run = _read_run(folder, identity) or _start_run(this, identity)
        this = replace(this, baselines=_fit_baselines(this), target=replace(target, overhead=Overhead(**run["overhead"])))
        build = _builder(this.target, folder)
        evaluated: Sequence[Evaluated] = ()
        if options.strategy == "supernet":
            run, evaluated = _evolve(this, run, build)
        candidates, records = _halve(this, run, build)
        candidates, inherited = _with_evaluated(candidates, evaluated)
        found, took = _deploy_best(this, candidates, inherited + records, build), (time.monotonic() - begin) / 60
        if took > LATE * run.get("minutes", inf):
            progress(f"{TOOK} {took:.1f} minutes, and {run['minutes']:.1f} were predicted", 1, 1)
        return found


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder, which is created if it is missing; raise CompileError if another process holds it."""
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout as error:
        raise CompileError(f"another process searches in '{folder}'", "wait until it ends, or give another folder") from error
    with lock:
        try:
            yield
        finally:
            with suppress(OSError):  # on Windows it is in use until it is released
                (folder / LOCK).unlink(missing_ok=True)


def _fit_baselines(this: _Search) -> tuple[Baseline, ...]:
    """Return the baselines of a classifier, which the network must beat, and report the accuracy of the best."""
    if this.data.kind == "detection":
        return ()
    found = baselines(this.data, this.progress)
    best = max(found, key=lambda each: each.validation)
    this.progress(f"to beat: {best.name}, {100 * best.validation:.1f} %", 1, 1)
    return tuple(found)


def _start_run(this: _Search, identity: dict[str, Any]) -> dict[str, Any]:
    """Save the data set, measure the overhead, choose budget and candidates; write and return the record of the run."""
    options = this.options
    trained = _trained_supernet(this) if options.supernet else {}  # raises its errors before anything is written
    halving.save_data(this.data, this.folder / halving.DATA)
    this = replace(this, target=with_measured_overhead(this.target, this.space, this.classes))
    run = identity | {"networks": networks_in(this.space), "overhead": this.target.overhead._asdict()}
    if options.strategy == "supernet":
        run |= _plan_supernet(this, trained)
        run["supernet"]["evolution"] |= {"against": list(options.against)}
    else:
        run |= _plan_halving(this)
    if "minutes" in run:
        this.progress(f"{NEEDS} {run['minutes']:.{int(run['minutes'] < 10)}f} minutes", 1, 1)
    write_file(this.folder / RUN, json.dumps(run, indent=2))
    return run


def _plan_halving(this: _Search) -> dict[str, Any]:
    """Return rungs and candidates as JSON: `options.rungs` with `options.archs` or samples, else `_plan_timed_halving`."""
    options, target = this.options, this.target

    def costs_of(archs: Sequence[Arch]) -> list[Costs | None]:
        return this.workers.each(quick_costs, [(target, arch) for arch in archs])

    sampling = Sampling(options.seed, costs_of=costs_of)
    if options.rungs is None:
        return _plan_timed_halving(this, sampling)
    given = [(arch, costs(arch, target)) for arch in options.archs]
    return _halving_record(options.rungs, given or _sampled(this, options.rungs[0].candidates, sampling))


def _sampled(this: _Search, count: int, sampling: Sampling) -> Candidates:
    """Return at most `count` sampled networks that fit; raise CompileError if none fits."""
    return sample_fitting(this.space, this.target, this.classes, count, sampling, progress=this.progress)


def _plan_timed_halving(this: _Search, sampling: Sampling) -> dict[str, Any]:
    """Choose rungs and candidates for the time limit; return them as JSON values for the run's record, see `_timed_record`.

    The candidates are, in this order: `_plain_networks`, `flat_networks`, sampled networks, `fitted_networks`.
    """
    target, space, classes = this.target, this.space, this.classes
    if not costs(arch_of(space, smallest(space), classes), target).fit:
        _sampled(this, 1, sampling)  # if no network fits, this raises the error before the longer steps
    budget = _time_budget(this)
    leading, is_trainable = _plain_networks(this, budget)
    leading += flat_networks(space, target, classes, is_trainable)
    known = [arch for arch, _ in leading] or [arch_of(space, smallest(space), classes)]
    most = budget.rungs([*known, *[known[0]] * MOST_CANDIDATES])[0].candidates
    candidates = list(leading)
    if most > len(leading):  # there is time for sampled networks, too
        sampling = sampling._replace(tries=budget.sampled, is_trainable=is_trainable)
        candidates += [pair for pair in _sampled(this, most - len(leading), sampling) if pair[0] not in known]
    record = _timed_record(this, budget, candidates, known)
    return record | {"minutes": _needed(budget, record) / 60}


def _time_budget(this: _Search) -> Budget:
    """Return the Budget of the time limit on this machine."""
    data, workers = this.data, this.workers
    this.progress("measuring how fast it trains", 0, 1)
    counts, batch, folds, slowdown = data.counts(), halving.batch_of(data), halving.folds_of(data), machine_factor(workers)
    return Budget(this.seconds, workers.count, slowdown, counts["train"], batch, folds, counts["validation"])


def _plain_networks(this: _Search, budget: Budget) -> tuple[list[tuple[Arch, Costs]], Callable[[Arch], bool]]:
    """Return the `first_network` of each family that fits, with its costs as built, and whether there is time to train one."""
    target, space, classes = this.target, this.space, this.classes
    is_trainable = partial(_is_trainable, budget, 2 * budget.step(arch_of(space, smallest(space), classes)))
    this.progress("choosing the first networks", 0, 1)
    calls = [(space, target, classes, is_trainable, family) for family in families_of(space)]
    firsts = [each for each in this.workers.each(partial(first_network, built=built_costs), calls) if each is not None]
    ledger = Ledger(this.folder / BUILT)
    for arch, cost in firsts:
        ledger.add(arch, "built", cost.record())
    return firsts, is_trainable


def _timed_record(this: _Search, budget: Budget, candidates: Candidates, known: Sequence[Arch]) -> dict[str, Any]:
    """Return the candidates of a search with a time limit, and the extent of their trainings, as JSON values.

    `fitted_networks` are added. Keys beside those of `_halving_record`: `sampled`, the number of candidates that are not
    `known`; `folds`, see `halving.folds_of`; `recipes` to compare first, and `trial`, the epochs (0: not compared) and folds in
    which the first candidate compares them; `final_epochs` of each candidate if it is the best.
    """
    archs, recipes = [arch for arch, _ in candidates], halving.recipes_of(this.data)
    rungs, trial = budget.rungs(archs), budget.trial(archs[0], len(recipes))
    if trial[1] < budget.folds and halving.groups_for_validation(this.data) < halving.FEW_GROUPS:
        recipes, trial = recipes[:1], (0, 1)  # one speaker or machine does not say which recipe suits others
    kept = [*candidates[: rungs[0].candidates], *fitted_networks(this.data, this.target)]
    return _halving_record(rungs, kept) | {
        "sampled": sum(arch not in known for arch in archs[: rungs[0].candidates]),
        "folds": budget.folds,
        "recipes": recipes,
        "trial": trial,
        "final_epochs": [1 if is_fitted(arch) else budget.final_epochs(arch) for arch, _ in kept],
    }


def _needed(budget: Budget, record: dict[str, Any]) -> float:
    """Predict the seconds of wall-clock time that a search by halving needs, from the dict of `_timed_record`."""
    archs = [arch for arch, _ in _candidates_of(record)]
    rungs = [Rung(*pair) for pair in record["rungs"]]
    return budget.needed(archs, len(record["recipes"]), tuple(record["trial"]), rungs, record["final_epochs"])


def _is_trainable(budget: Budget, seconds: float, arch: Arch) -> bool:
    """Return whether there is time to train a network, or a step takes at most `seconds`."""
    return budget.is_trainable(arch) or budget.step(arch) <= seconds


def _halving_record(rungs: Sequence[Rung], candidates: Candidates) -> dict[str, Any]:
    """Return rungs and candidates, with their costs, as a dict of JSON values with the keys `rungs` and `candidates`."""
    records = [{"arch": json.loads(to_json(arch)), "costs": cost.record()} for arch, cost in candidates]
    return {"rungs": [astuple(rung) for rung in rungs], "candidates": records}


def _candidates_of(run: dict[str, Any]) -> list[tuple[Arch, Costs]]:
    """Return the candidates in the dict of `_halving_record`, with their costs."""
    return [(from_json(json.dumps(each["arch"])), Costs(**each["costs"])) for each in run["candidates"]]


def _halve(this: _Search, run: dict[str, Any], build: Callable[[Arch], Costs]) -> tuple[Candidates, Records]:
    """Train the candidates of a run by successive halving; return (candidates, a record per training).

    For a time limit, recipes are compared before on the first candidate, and the best network is trained
    once more in the end. `build` returns the measured costs of a network.
    """
    rungs = [Rung(*pair) for pair in run["rungs"]]
    candidates = _candidates_of(run)
    archs, is_timed, final_epochs = [arch for arch, _ in candidates], "final_epochs" in run, list[int]()
    files = {number: halving.start_file(number) for number in range(len(archs))}
    inherited = {number: file for number, file in files.items() if (this.folder / file).is_file()}
    starts = {number: this.folder / file for number, file in inherited.items()}
    folds = run.get("folds", 1)
    trainings = halving.Trainings(this.folder, this.workers, this.options.seed, folds=folds, progress=this.progress)
    if is_timed:
        epochs, trial_folds = run["trial"]
        trials, name = trainings._replace(folds=trial_folds), run["recipes"][0]
        name = halving.choose_recipe(archs[0], run["recipes"], epochs, trials) if epochs else name
        trainings, tried = trainings._replace(recipe=name), this.folder / halving.trial_file(name)
        starts |= {0: tried} if tried.is_file() else {}
        final_epochs = run["final_epochs"]
    fits = None if this.options.archs else lambda number: build(archs[number]).fit
    fitted = [number for number, arch in enumerate(archs) if is_timed and is_fitted(arch)]
    expenses = [cost.product for _, cost in candidates]
    trainings = trainings._replace(paces=[each / final_epochs[0] for each in final_epochs])
    records = halving.successive_halving(
        archs, rungs, trainings, starts=starts if folds == 1 else None, fits=fits, fitted=fitted, expenses=expenses
    )
    if is_timed:
        good = halving.best_candidates([each for each in records if each["rung"] == len(rungs) - 1], folds, expenses)
        if folds == 1:  # of nearly equal ones the one with the most final epochs
            least = halving.clearly_worse_below(good[0]["accuracy"], this.data.counts()["validation"])
            good = [each for each in good if each["accuracy"] >= least]
            good.sort(key=lambda each: -final_epochs[each["candidate"]])
        else:
            counts = this.data.counts()
            good = halving.fitted_first(good, fitted, counts["train"] + counts["validation"])
        good = halving.cheapest_first(good, expenses)
        winner = next((each for each in good if build(archs[each["candidate"]]).fit), good[0])
        number = winner["candidate"]
        if folds > 1 and number in inherited:  # after cross-validation, no sample judges the network: it may have seen all
            winner = {**winner, "weights": inherited[number]}
        records.append(halving.train_finally(archs[number], winner, final_epochs[number], trainings))
    return candidates, records


def _evolve(this: _Search, run: dict[str, Any], build: Callable[[Arch], Costs]) -> tuple[dict[str, Any], Sequence[Evaluated]]:
    """Train the supernet of a run, evolve networks with its weights, and add the best to the run's candidates.

    They begin with the supernet's weights (`halving.start_file`). Return the record of the run, and all evaluated networks.
    """
    options, folder, budget = this.options, this.folder, one_shot.from_record(run["supernet"])
    space = replace(this.space, widths=tuple(run["widths"]))
    if options.supernet and not (folder / one_shot.SUPERNET).is_file():
        search_of(options.supernet)  # it may have been deleted since this search began
        write_file(folder / one_shot.SUPERNET, (Path(options.supernet) / one_shot.SUPERNET).read_bytes())
    training = TrainingRun(options.seed, team=this.team, progress=this.progress)
    one_shot.train_supernet(this.data, space, budget, folder, training, workers=this.workers, threads=options.processes)
    evaluated = one_shot.evolve_with_weights(
        space, this.target, this.classes, budget.evolution, folder, workers=this.workers, run=training
    )
    if run["evolved"]:
        return run, evaluated
    plain = [pair for pair in _candidates_of(run) if not is_fitted(pair[0])]
    known, count = [arch for arch, _ in plain], options.rungs[0].candidates if options.rungs else one_shot.FINALISTS
    others = [each for each in evaluated if each.arch not in known]
    best = one_shot.finalists_of(others, count, options.against, lambda arch: build(arch).fit)
    candidates = [*plain[:1], *((each.arch, each.costs) for each in best), *plain[1:]]
    if options.rungs:
        run |= _halving_record(options.rungs, candidates)
    else:
        run |= _timed_record(this, Budget(**run["limit"]), candidates, known)
    last = run["rungs"][0][0]
    starts = {folder / halving.start_file(n): each.arch for n, each in enumerate(best, len(plain[:1])) if n < last}
    one_shot.write_starts(starts, space, folder, this.workers)
    write_file(folder / RUN, json.dumps(run | {"evolved": True}, indent=2))
    return run, evaluated


def _with_evaluated(candidates: Candidates, evaluated: Sequence[Evaluated]) -> tuple[Candidates, Records]:
    """Return candidates followed by the other evaluated networks, and a record of the accuracy of each evaluated network."""
    numbers = {arch: number for number, (arch, _) in enumerate(candidates)}
    others = [(each.arch, each.costs) for each in evaluated if each.arch not in numbers]
    numbers |= {arch: number for number, (arch, _) in enumerate(others, len(numbers))}
    return [*candidates, *others], [{"candidate": numbers[each.arch], "accuracy": each.accuracy} for each in evaluated]


def _deploy_best(this: _Search, candidates: Candidates, records: Records, build: Callable[[Arch], Costs]) -> SearchResult:
    """Quantise and deploy trained candidates, best first, until one fits as measured; if none does, the best."""
    ordered = best_first(records, [cost.product for _, cost in candidates])
    for best in (*ordered, *(ordered[:1] if len(ordered) > 1 else ())):  # the first once more if none fits
        arch, _ = candidates[best["candidate"]]
        this.progress("quantising the best network", 0, 1)
        own = sized(this.data, arch.image[:2])
        cost, evaluation = build(arch), evaluate_int8(arch, this.folder / best["weights"], own)
        deployment = deploy(evaluation.model, this.target.with_plan(arch.plan), own, this.folder, this.progress)
        if deployment.fits:  # code and stack are estimates until a network is built
            break
    return SearchResult(
        arch,
        cost,
        evaluation.accuracy | {"validation": best["accuracy"]},
        evaluation.interval,
        evaluation.predicted,
        this.baselines,
        this.data,
        deployment,
        companion_bytes(own, deployment.model, this.target.device),
        tuple(candidates),
        tuple(records),
        this.folder,
    )


def _builder(target: Target, folder: Path) -> Callable[[Arch], Costs]:
    """Return a function that returns the measured costs of a network (`built_costs`), and caches them in the file BUILT."""
    ledger = Ledger(folder / BUILT)

    def build(arch: Arch) -> Costs:
        if ledger(arch, "built") is None:
            ledger.add(arch, "built", built_costs(arch, target).record())
        return Costs(**ledger(arch, "built"))

    return build


def best_first(trained: Sequence[dict[str, Any]], expenses: Sequence[float]) -> list[dict[str, Any]]:
    """Return the last record with weights of each candidate, by falling rung, falling accuracy, then rising expense."""
    last = {record["candidate"]: record for record in trained if "weights" in record}
    return sorted(last.values(), key=lambda each: (-each["rung"], -each["accuracy"], expenses[each["candidate"]]))


def _plan_supernet(this: _Search, trained: dict[str, Any]) -> dict[str, Any]:
    """Choose the width, the `SupernetBudget` and the plain candidates; return them as JSON values for the run's record.

    `trained` describes the supernet of another search (`_trained_supernet`); empty if this search trains its own. A budget in
    the options is used unchanged. Else it is `one_shot.paper_budget` on a GPU without a time limit, or fits the time limit
    (MINUTES by default). The other seconds are divided as in a search by halving: `limit`, a Budget.
    """
    from .learning.train import device

    target, options, workers, kind = this.target, this.options, this.workers, this.data.kind
    if trained:
        space, chosen = replace(this.space, widths=tuple(trained["widths"])), {"widths": trained.pop("widths")}
        check_feasible(space, target, this.classes)
    else:
        feasible = options.feasible
        space, chosen = one_shot.choose_width(this.space, target, this.classes, workers, this.progress, feasible=feasible)
    budget, run = options.supernet_budget, chosen | {"evolved": False}
    if budget is not None and options.rungs:
        return run | {"supernet": asdict(budget) | trained} | _halving_record(options.rungs, [])
    limit = _time_budget(this)
    seconds = one_shot.predicted_seconds(space, this.classes, limit, this.team.size if this.team else 1)
    fixed = FIXED * limit.slowdown
    seconds |= dict.fromkeys(trained, 0.0)
    if budget is None and options.minutes is None and device().type == "cuda":
        budget = one_shot.paper_budget(kind)
    elif budget is None:
        budget = one_shot.budget_within(one_shot.SHARE * max(0.0, this.seconds - fixed), seconds, kind, workers.count)
        if not trained and (why := one_shot.too_short(budget, seconds, kind, fixed)):
            this.progress(f"{TOO_SHORT}: {why}", 1, 1)
    before = one_shot.needed_seconds(budget, seconds, workers.count)
    left = replace(limit, seconds=max(this.seconds - before, (1 - one_shot.SHARE) * this.seconds))
    plain, _ = _plain_networks(this, left)
    plain = plain or sample_fitting(this.space, target, this.classes, 1, progress=this.progress)
    record = _timed_record(this, left, plain, [arch for arch, _ in plain])
    minutes = (before + _needed(left, record)) / 60
    return run | {"supernet": asdict(budget) | trained, "limit": asdict(left), "minutes": minutes} | record


def _trained_supernet(this: _Search) -> dict[str, Any]:
    """Return `widths`, `warm_up` and `epochs` of the supernet of another search that this one uses.

    Raise CompileError if it has other samples or another space.
    """
    folder = this.options.supernet
    other, fault = search_of(folder), ""
    spaces = [[each["version"], each["space"], each["sizes"]] for each in (other, _identity(this))]
    if spaces[0] != spaces[1] or not set(other["widths"]) <= set(this.space.widths):
        fault = "is of another search space, or another version of tinyweave"
    elif one_shot.data_hash(halving.load_data(Path(folder) / halving.DATA)) != one_shot.data_hash(this.data):
        fault = "was trained with other samples"
    if fault:
        raise CompileError(f"the supernet in '{folder}' {fault}", "give the same --task, --data and --set as there")
    one_shot.load_supernet(replace(this.space, widths=tuple(other["widths"])), this.classes, Path(folder))
    return {name: other[name] for name in ("widths", "warm_up", "epochs")}


def _identity(this: _Search) -> dict[str, Any]:
    """Return all settings that affect the result of a search, as JSON values; a run with other settings is not resumed."""
    data, space, target, options, budget = this.data, this.space, this.target, this.options, this.options.supernet_budget
    return {
        "version": VERSION,
        "data": {"kind": data.kind, "classes": list(data.classes), **data.counts(), "preparation": dict(data.preparation)},
        "space": space.name,
        "sizes": list(map(list, space.sizes)),
        "device": target.device.name if target.device else None,
        "limits": target.limits_by_name(),
        "planning": {"stream_inputs": target.stream_inputs, "max_mac_overhead": target.max_mac_overhead},
        "seed": options.seed,
        "budget": [options.minutes, options.rungs and list(map(astuple, options.rungs)), budget and asdict(budget)],
        "archs": [json.loads(to_json(arch)) for arch in options.archs],
        "strategy": options.strategy,
        "supernet folder": str(Path(options.supernet).resolve()) if options.supernet else None,
        "against": list(options.against),
        **({"feasible": options.feasible} if options.feasible != FEASIBLE else {}),
    }


def _read_run(folder: Path, identity: dict[str, Any]) -> dict[str, Any] | None:
    """Return the record of the run in a folder, or None; raise CompileError for other settings or a missing record."""
    path = folder / RUN
    if not path.is_file():
        if rest := [name for name in TRAINED if (folder / name).exists()]:
            why = f"'{folder}' holds {rest[0]} of a search, but no {RUN}"
            raise CompileError(why, f"give another folder, or delete '{folder}'")
        (folder / BUILT).unlink(missing_ok=True)  # left by a search that was interrupted early, perhaps for another device
        return None
    try:
        run = json.loads(path.read_text())
        other = next((key for key in identity if run.get(key) != json.loads(json.dumps(identity[key]))), None)
    except (ValueError, OSError, AttributeError) as error:
        raise CompileError(f"'{path}' cannot be read: {error}", f"give another folder, or delete '{folder}'") from error
    if other == "version":
        raise CompileError(f"'{folder}' holds a search of another version of tinyweave", "give another folder")
    if other:
        raise CompileError(f"'{folder}' holds a search with another {other}", "give another folder, or the same command")
    return dict(run)
