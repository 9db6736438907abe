"""Search a network for a data set and a device. In: a Dataset, a SearchSpace, a Target. Out: a SearchResult, and firmware.

Networks of the space that do not fit the device go before anything is trained. Of the others the best are found by successive
halving (`halving`), or by a supernet and evolution (`one_shot`); the winner becomes int8, and is deployed. Everything lies in
the run's folder: the same command goes on with a run that was interrupted, and comes to the result that it would have come to.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import api
from ..files import write_file
from ..ir import CompileError
from ..progress import Progress, silent
from ..results import Deployment
from ..tasks.dataset import Dataset, sized
from . import halving, one_shot
from .arch import Arch, from_json, to_json
from .budget import DEPLOYING, chosen_rungs, measure
from .costs import Beside, Costs, Target, beside, between, built_costs, costs, planned
from .evolution import OBJECTIVES, Ledger, check_predicted, priced, unplanned
from .halving import Rung
from .int8 import quantised, rehearsed
from .logs import check_tensorboard, logged
from .one_shot import OneShot
from .proxies import DEFAULT, check_proxies, first_batch, ranked
from .space import Choice, SearchSpace, arch_of, mutated, networks_in, sampled, smallest
from .trained import companion_bytes, deployed
from .workers import Workers, pool

if TYPE_CHECKING:
    from .learning.team import Team

STRATEGIES = ("auto", "halving", "supernet")
MINUTES = 20  # where nothing else is said
HOURS = 3  # from which on a supernet pays without a GPU
DRAWN = 5_000  # networks, at most, of which those that fit are sought
UNIFORM, CHANGED = 500, 0.2  # so many of them are drawn from the whole space, then with this share of genes drawn anew
IN_DOUBT = 200  # where not even the smallest one fits
POOL = 4  # networks that fit, per candidate that is trained
RUN, BUILT, LOGS = "search.json", "built.jsonl", "tensorboard"
TRAINED = (halving.RESULTS, halving.WEIGHTS, one_shot.MEMORY, one_shot.SUPERNET, *one_shot.STATES)  # of a search with a RUN
REST = 1024  # bytes of stack and static data where they cannot be measured
VERSION = 5


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The network that a search found.

    costs: as it was built with random weights, before it was with the trained ones; of candidates code and stack are estimates.
    accuracy: on the validation part, by which it was chosen, and on the test part, which the search did not see, in float
    (`test`) and in int8 (`test_int8`); interval: 95 %, of the latter. Of a detector these are mean average precisions.
    companions: bytes of `ram` and `flash` of the C beside the network, see `companion_bytes`; None where there is none.
    candidates: what was trained, or measured with weights of a supernet, with its costs. trained: a record per training, see
    `halving.halve` and `one_shot.fine_tuned`.
    """

    arch: Arch
    costs: Costs
    accuracy: dict[str, float]
    interval: tuple[float, float]
    deployment: Deployment
    companions: dict[str, int] | None
    candidates: tuple[tuple[Arch, Costs], ...]
    trained: tuple[dict[str, Any], ...]
    folder: Path

    @property
    def fits(self) -> bool:
        """Return whether the network fits as it was measured."""
        return self.deployment.fits


def search(
    data: Dataset,
    space: SearchSpace,
    target: Target,
    folder: Path,
    *,
    strategy: str = "auto",
    minutes: float | None = None,
    seed: int = 0,
    processes: int = 2,
    ray: bool = False,
    tensorboard: bool = False,
    predicted: int = 1,
    rungs: Sequence[Rung] | None = None,
    numbers: OneShot | None = None,
    against: Sequence[str] = (),
    proxies: Sequence[str] = DEFAULT,
    archs: Sequence[Arch] = (),
    progress: Progress = silent,
) -> SearchResult:
    """Return the best network found within about so many minutes of training, deployed into `folder`/firmware.

    strategy: "halving", "supernet", or "auto", which is the latter with a GPU or HOURS. minutes: MINUTES if not given; for a
    supernet on a GPU the numbers of the paper. rungs, numbers: how much is trained, by halving or with a supernet, instead of
    what `minutes` turn into by a measurement. against: costs, of OBJECTIVES, that a supernet's evolution makes small, too.
    proxies: names of PROXIES, whose votes say which networks of those that fit halving trains. predicted: as of Evolution,
    where minutes turn into numbers. tensorboard: log a supernet's training into `folder`/LOGS. archs: train these, whether they
    fit or not, and draw none. ray: networks are trained and measured on a Ray cluster, see `workers.pool`. Under torchrun all
    processes train the supernet; those beside the first end there (SystemExit). Raise
    CompileError where nothing of the space fits, or where the folder holds another search.
    """
    if find_spec("torch") is None:
        raise CompileError("training needs PyTorch, which is not installed", "pip install 'tinyweave[search]'")
    check_proxies(proxies, data.kind)
    check_predicted(predicted)
    if minutes is not None and not 0 < minutes < inf:
        raise CompileError(f"--minutes {minutes:g} is no time", f"give minutes above 0, for example {MINUTES}")
    if tensorboard:
        check_tensorboard()
    from .learning.team import is_launched, joined

    with ExitStack() as stack:
        team = stack.enter_context(joined()) if is_launched() else None
        if team is not None and team.rank:
            one_shot.help_train(data, team)
            raise SystemExit(0)
        workers = stack.enter_context(pool(processes, ray=ray))
        begin, classes = time.perf_counter(), len(data.classes)
        strategy = "halving" if rungs or archs else "supernet" if numbers else strategy
        if data.kind == "detection" and strategy == "supernet":
            raise CompileError("a supernet tells classes apart and finds no boxes", "leave out --strategy, or take halving")
        strategy = "halving" if data.kind == "detection" and strategy == "auto" else strategy
        strategy = _strategy(strategy, minutes, against, folder, team)
        budget: Any = minutes if rungs is None else [astuple(rung) for rung in rungs]
        asked = _asked(data, space, target) | {
            "seed": seed,
            "budget": numbers.record() if numbers else budget,
            "archs": [json.loads(to_json(arch)) for arch in archs],
            "strategy": strategy,
            "against": list(against),
            **({"predicted": predicted} if predicted != 1 else {}),
            **({"proxies": list(proxies)} if tuple(proxies) != DEFAULT else {}),
        }
        run = _read_run(folder, asked)
        if run is None:
            halving.save_data(data, folder / halving.DATA)
            target = measured(target, space, classes)
            run = asked | {"networks": networks_in(space), "beside": target.beside._asdict()}
            if strategy == "supernet":
                run |= _numbers(
                    data,
                    space,
                    target,
                    folder,
                    workers,
                    numbers=numbers,
                    minutes=minutes,
                    threads=processes,
                    size=team.size if team else 1,
                    begin=begin,
                    progress=progress,
                )
                run["numbers"]["evolution"] |= {"against": list(against)} | ({} if numbers else {"predicted": predicted})
            else:
                rank = partial(ranked, names=proxies, batch_of=partial(first_batch, data))
                find = partial(drawn, space, target, classes, seed=seed, known={}, rank=rank, progress=progress)
                if rungs is None:

                    def found(count: int) -> list[Arch]:
                        return [arch for arch, _ in find(count)]

                    seconds = measure(
                        begin,
                        time.perf_counter,
                        find=found,
                        train=lambda arch: halving.seconds_of_training(arch, folder / halving.DATA, workers, progress),
                        build=_built(target, folder),
                        finish=lambda arch: rehearsed(arch, data),
                    )
                    rungs = chosen_rungs(60 * (MINUTES if minutes is None else minutes), seconds, workers.count, found)
                candidates = [(arch, costs(arch, target)) for arch in archs] or find(rungs[0].candidates)
                told = [{"arch": json.loads(to_json(arch)), "costs": cost.record()} for arch, cost in candidates]
                run |= {"rungs": [astuple(rung) for rung in rungs], "candidates": told}
            write_file(folder / RUN, json.dumps(run, indent=2))
        target = replace(target, beside=Beside(**run["beside"]))
        built = _built(target, folder)
        if strategy == "supernet":
            numbers, narrow = one_shot.from_record(run["numbers"]), replace(space, widths=tuple(run["widths"]))
            log = stack.enter_context(logged(folder / LOGS if tensorboard else None))
            one_shot.train_supernet(
                data, narrow, numbers, folder, seed=seed, count=processes, team=team, log=log, progress=progress
            )
            candidates, trained = one_shot.fine_tuned(
                narrow,
                target,
                classes,
                numbers,
                folder,
                workers=workers,
                fits=lambda arch: built(arch).fit,
                seed=seed,
                log=log,
                progress=progress,
            )
        else:
            rungs = [Rung(*pair) for pair in run["rungs"]]
            candidates = [(from_json(json.dumps(each["arch"])), Costs(**each["costs"])) for each in run["candidates"]]
            fits = None if archs else lambda number: built(candidates[number][0]).fit
            architectures = [arch for arch, _ in candidates]
            trained = halving.halve(architectures, rungs, folder, workers, fits=fits, seed=seed, progress=progress)
        for best in best_first(trained):
            arch, _ = candidates[best["candidate"]]
            progress("making the best one int8", 0, 1)
            own = sized(data, arch.image[:2])
            cost, (small, accuracy, interval) = built(arch), quantised(arch, folder / best["weights"], own)
            deployment = deployed(small, target.planned_as(arch.plan), own, folder, progress)
            if deployment.fits:  # as measured: code and stack are estimates until a network is built
                break
        return SearchResult(
            arch,
            cost,
            accuracy | {"validation": best["accuracy"]},
            interval,
            deployment,
            companion_bytes(own, deployment.model, target.device),
            tuple(candidates),
            tuple(trained),
            folder,
        )


def _built(target: Target, folder: Path) -> Callable[[Arch], Costs]:
    """Return what networks cost once they are built, with random weights; each is built once, and recorded."""
    ledger = Ledger(folder / BUILT)

    def built(arch: Arch) -> Costs:
        if ledger(arch, "built") is None:
            ledger.add(arch, "built", built_costs(arch, target).record())
        return Costs(**ledger(arch, "built"))

    return built


def best_first(trained: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last record of each candidate that has weights, those that were trained longest first, of these the best."""
    last = {record["candidate"]: record for record in trained if "weights" in record}
    return sorted(last.values(), key=lambda record: (-record["rung"], -record["accuracy"], record["candidate"]))


def drawn(
    space: SearchSpace,
    target: Target,
    classes: int,
    count: int,
    *,
    seed: int,
    known: dict[Arch, Costs | None] | None = None,
    rank: Callable[[Sequence[Arch]], list[int]] = ranked,
    progress: Progress,
) -> list[tuple[Arch, Costs]]:
    """Return up to `count` different networks that fit, those that `rank` puts first of POOL times as many.

    known: what networks cost (None: too much), as an earlier call with the same seed left it.
    """
    known = {} if known is None else known
    rng, seen, fitting = random.Random(seed), set[Arch](), list[tuple[Arch, Costs]]()
    found = set[Arch]()  # without their plans, on which training does not depend
    near = [smallest(space)]  # where few fit, others that do are likely to be near one that does
    is_feasible = costs(arch_of(space, near[0], classes), target).fit
    for number in range(DRAWN if is_feasible else min(DRAWN, IN_DOUBT)):
        choice = sampled(space, rng) if number < UNIFORM else mutated(space, rng.choice(near), CHANGED, rng)
        arch = arch_of(space, choice, classes)
        if arch in seen or unplanned(arch) in found:
            continue
        seen.add(arch)
        if arch not in known:
            known[arch] = priced(target, arch)
        if (cost := known[arch]) is not None and cost.fit:
            fitting.append((arch, cost))
            found.add(unplanned(arch))
            near.append(choice)
            progress("drawing networks that fit", len(fitting), POOL * count)
            if len(fitting) == POOL * count:
                break
    if not fitting:  # what the smallest network needs is the nearest that a limit can be met
        least = costs(arch_of(space, smallest(space), classes), target)
        needs = f"{least.ram:,} B of RAM, {least.flash:,} B of Flash" + ("" if least.ms is None else f", {least.ms:.3g} ms")
        why = f"none of {len(seen):,} networks of the space '{space.name}' fits"
        raise CompileError(why, f"its smallest one needs {needs}: give at least that, or another space")
    return [fitting[index] for index in rank([arch for arch, _ in fitting])[:count]]


def measured(target: Target, space: SearchSpace, classes: int) -> Target:
    """Return the target with what a network of the space takes besides its arena and constants, measured on an emulated core.

    It is built twice: with the kernels with the fewest constants, which any network can have, and with those that it has where
    Flash has no limit. Where nothing can be built and run here it is estimated.
    """
    arch = arch_of(space, _varied(space), classes)
    plans = [planned(arch, replace(target, limits=replace(target.limits, flash=flash))) for flash in (0, None)]
    try:
        small, large = (
            target.measured(plan, api.profile(model, plan, api.emulated_core(target.device))) for model, plan in plans
        )
    except CompileError:
        plan = plans[0][1]
        need = api.flash_need(plan, target.device)
        return replace(target, beside=beside(plan, REST, need.upper_bound - need.constants))
    return replace(target, beside=between(small.beside, large.beside))


def _varied(space: SearchSpace) -> Choice:
    """Return a narrow network with blocks of all kinds, which needs the code of nearly any other."""
    blocks = tuple(
        tuple((group.kernels[i % len(group.kernels)], group.expansions[-1]) for i in range(max(group.depths)))
        for group in space.groups
    )
    return smallest(space)._replace(blocks=blocks)


def _strategy(strategy: str, minutes: float | None, against: Sequence[str], folder: Path, team: Team | None = None) -> str:
    """Return "halving" or "supernet": what is asked for, else what the folder's search is, else what pays here."""
    if strategy not in STRATEGIES:
        raise CompileError(f"--strategy {strategy} is unknown", f"it is one of {', '.join(STRATEGIES)}")
    if unknown := set(against) - set(OBJECTIVES):
        raise CompileError(f"--against {sorted(unknown)[0]} is unknown", f"it is one of {', '.join(OBJECTIVES)}")
    if against and strategy == "halving":
        raise CompileError("halving has one objective, accuracy", "leave out --against, or take --strategy supernet")
    if team is not None:
        if strategy == "halving":
            raise CompileError("torchrun trains supernets only", "take --strategy supernet, or start without torchrun")
        if team.size > one_shot.MOST:
            raise CompileError(f"torchrun starts {team.size} processes", f"at most {one_shot.MOST} share a supernet")
        return "supernet"
    if strategy != "auto":
        return strategy
    if (folder / RUN).is_file():
        with suppress(ValueError, OSError, AttributeError):  # `_read_run` says what is wrong with it
            return str(json.loads((folder / RUN).read_text()).get("strategy", "halving"))
    return "supernet" if against or has_gpu() or (minutes or 0) >= 60 * HOURS else "halving"


def has_gpu() -> bool:
    """Return whether there is a GPU that trains."""
    import torch

    return bool(torch.cuda.is_available())


def _numbers(
    data: Dataset,
    space: SearchSpace,
    target: Target,
    folder: Path,
    workers: Workers,
    *,
    numbers: OneShot | None,
    minutes: float | None,
    threads: int,
    size: int,
    begin: float,
    progress: Progress,
) -> dict[str, Any]:
    """Return the width that is searched, and a supernet's numbers: given, the paper's, or what fits into so many minutes."""
    narrow = one_shot.narrowed(space, target, len(data.classes), workers, progress)
    if numbers is None and minutes is None and has_gpu():
        numbers = one_shot.paper_sized(data.kind)
    elif numbers is None:
        (arch, _), *_ = drawn(narrow, target, len(data.classes), 1, seed=0, progress=progress)
        seconds = one_shot.seconds_of(data, narrow, arch, folder, workers, count=threads, size=size, progress=progress)
        start, finishing = time.perf_counter(), rehearsed(arch, data)
        _built(target, folder)(arch)
        building = time.perf_counter() - start - finishing
        left = 60 * (MINUTES if minutes is None else minutes) - (time.perf_counter() - begin)
        left -= finishing + (one_shot.FINALISTS + DEPLOYING) * max(0.0, building)
        numbers = one_shot.numbers_for(max(0.0, left), seconds, data.kind, workers.count)
    return {"widths": list(narrow.widths), "numbers": numbers.record(), "rungs": numbers.record()["rungs"], "candidates": []}


def _asked(data: Dataset, space: SearchSpace, target: Target) -> dict[str, Any]:
    """Return what decides the result of a search, as JSON has it, of its samples, its space and its target."""
    limits = target.limits
    return {
        "version": VERSION,
        "data": {"kind": data.kind, "classes": list(data.classes), **data.counts(), "preparation": dict(data.preparation)},
        "space": space.name,
        "sizes": list(map(list, space.sizes)),
        "device": target.device.name if target.device else None,
        "limits": {"ram": limits.ram, "flash": limits.flash, "latency_ms": limits.latency_ms, "energy_mj": target.energy_mj},
        "planning": {key: target.planning[key] for key in ("stream_inputs", "max_mac_overhead")},
    }


def _read_run(folder: Path, asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the folder holds of this search; None where nothing. CompileError where it holds another one, or its rest."""
    path = folder / RUN
    if not path.is_file():
        if rest := [name for name in TRAINED if (folder / name).exists()]:
            raise CompileError(f"'{folder}' holds {rest[0]} of a search, but no {RUN}", "give another folder, or take it away")
        (folder / BUILT).unlink(missing_ok=True)  # of a search that came no further, perhaps for another device
        return None
    try:
        run = json.loads(path.read_text())
        other = next((key for key in asked if run.get(key) != json.loads(json.dumps(asked[key]))), None)
    except (ValueError, OSError, AttributeError) as error:
        raise CompileError(f"'{path}' cannot be read: {error}", "give another folder, or take it away") from error
    if other:
        raise CompileError(f"'{folder}' holds a search with another {other}", "give another folder, or the same command")
    return dict(run)
