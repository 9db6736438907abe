"""Experiments of the MCUNet thesis in small: what a search finds beside scaled networks, other spaces, and 4-bit weights.

In: a fifth of CIFAR-10 (--shared), minutes, names of experiments (--only). Out: a line of JSON per measurement in the file
RESULTS of a folder (-o). When the file has all of an experiment's measurements, `evidence_page.py` writes its table into
docs/EVIDENCE.md.

Supernets only rank networks. Each compared network is then trained from random weights, all by the recipe of `tinyweave search`
and for equally many epochs, and tested on samples that no choice has seen. First the predicted CPU time is printed. After
--minutes the script ends; the same command continues it, but begins a training that was interrupted again.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import platform
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import evidence_jobs as measure
from evidence_jobs import FAMILIES, Limits, Record

from tinynas.arch import Arch, macs
from tinynas.budget import Budget, machine_factor
from tinynas.evolution import Evolution
from tinynas.halving import DATA, batch_of, load_data, save_data
from tinynas.journal import append, entries
from tinynas.one_shot import PLANNING, PLANS, SupernetBudget, needed_seconds, predicted_seconds
from tinynas.prepare import task_of
from tinynas.settings import Preparation
from tinynas.space import SearchSpace, arch_of, sample, small_images, smallest
from tinynas.stage_one import Setting
from tinynas.tasks.dataset import Dataset
from tinynas.workers import Workers, pool
from tinyweave.ir import CompileError

KIB, CLASSES, SEEDS = 1024, 10, 3
SHARED = Path(os.environ.get("TINYWEAVE_SHARED", "../shared"))
RESULTS = "results.jsonl"
IMAGES = replace(
    small_images((12, 16, 20)),
    name="joint_images",
    widths=(0.5, 0.75, 1.0, 1.25),
    joint=True,
    by_group=True,
    poolings=("mean",),  # as in the thesis
)
LIMITS = Limits("streamed", 8 * KIB, 128 * KIB)  # with less Flash no scaled ProxylessNAS fits
NARROW = 32 * KIB  # bytes of Flash in which 4 bits are compared with 8
MILLISECONDS = (60.0, 30.0)
COMPARED = ("mobilenet_v2", "plain")  # families that are compared under limits of time
MACS = (300_000, 600_000, 1_200_000)  # limits of the joint search of image size and width
SPACES = 8  # of stage one, from best to worst, that are searched
SAMPLED, MIN_SHARE = 100, 0.1  # networks that stage one samples in a space, and the share of them that must fit
# of each network; of the training for int8 and 4-bit weights that follows. A sampled network had 60.0 % after 40 epochs and
# 62.5 % after 80 (3,464 images), so 56 do not converge: the experiment `doubled` shows what is missing
EPOCHS, QAT_EPOCHS = 56, 10
SUPERNET = SupernetBudget(10, 30, Evolution(24, 5, 12, 12, generations=4))
RANDOM = Evolution(SUPERNET.evolution.evaluations, generations=0)
SETTINGS = {"epochs": EPOCHS, "qat_epochs": QAT_EPOCHS, "supernet": [SUPERNET.warm_up, SUPERNET.epochs], "seeds": SEEDS}
TYPICAL = 64  # networks that are sampled to predict the time of trainings
MACS_PER_MS = 32_000  # of a network on the nRF52840, to predict the time of trainings
QAT_SLOWDOWN = 3  # of a training step with fake quantisation


class Kind(NamedTuple):
    """The networks of one row of a table, one per seed: how they are found, within which limits, and in which space."""

    name: str
    how: str = "evolution"  # or "random", "scaled" (a network of evolution, scaled down), or one of FAMILIES
    limits: Limits = LIMITS
    space: SearchSpace = IMAGES
    supernet: str = "images"  # folder of the supernet with whose weights the space is searched
    shared: SearchSpace = IMAGES  # space of this supernet


class Experiment(NamedTuple):
    """A table: the limit that differs between groups of rows, the groups by label, with Kinds by label; steps and seeds."""

    limit: str
    groups: dict[str, dict[str, Kind]]
    step: str = "train"  # "tune": and trained for quantisation; "double": for twice as many epochs; "search": not trained
    seeds: int = SEEDS


class Job(NamedTuple):
    """A measurement: a function that returns a Record, and the keys of the measurements that it needs.

    The function is called with the Records of the first `reads` of these.
    """

    key: str
    function: Callable[..., Record]
    predict: Callable[[Budget], float]  # CPU seconds on the reference core
    needs: tuple[str, ...] = ()
    reads: int = 0


def key(*words: object) -> str:
    """Return the name of a measurement: its words with spaces between them."""
    return " ".join(map(str, words))


@lru_cache(maxsize=1)
def experiments() -> dict[str, Experiment]:
    """Return the experiments by the number of the table or figure of the thesis, the most valuable first."""
    evolution = Kind("evolution")
    by_layer = Kind("evolution layers", limits=LIMITS._replace(engine="layers"))
    sampled, rivals = Kind("random", "random"), {each: Kind(each, each) for each in FAMILIES}
    timed = {"none": {"evolution": evolution, **{each: rivals[each] for each in COMPARED}}}
    for ms in MILLISECONDS:
        kinds = (Kind(key(how, ms, "ms"), how, LIMITS._replace(ms=ms)) for how in ("evolution", *COMPARED))
        timed[f"{ms:g} ms"] = {each.how: each for each in kinds}
    curves = {"evolution": evolution, "random search": sampled, "evolution layer by layer": by_layer}
    narrow = {
        f"{bits} bits": Kind(key("evolution", bits, "bits"), limits=LIMITS._replace(flash=NARROW, bits=bits)) for bits in (8, 4)
    }
    ram = f"{LIMITS.ram // KIB} KiB"
    return {
        "5.1": Experiment("RAM", {ram: {**curves, **rivals}}),
        "5-6": Experiment("RAM", {ram: curves}, "search"),
        "doubled": Experiment("RAM", {ram: {"evolution": evolution, "plain": rivals["plain"]}}, "double", 1),
        "5.2": Experiment("limit of time", timed),
        "5.8": Experiment("MACs", {f"{most / 1e6:g} M": joint(most) for most in MACS}),
        "5.3": Experiment("Flash", {f"{NARROW // KIB} KiB": narrow}, "tune"),
        "5.6": Experiment("RAM", {ram: {**{label(each): own(each) for each in spaces()}, "all sizes and widths": evolution}}),
    }


def joint(most: int) -> dict[str, Kind]:
    """Return the rows of table 5.8 for a limit of multiply-accumulates: what is searched beside the network."""
    limits, one = LIMITS._replace(macs=most), settings(most)[0]
    fixed = replace(IMAGES, sizes=(sides(one),), widths=(one.width,))
    return {
        "size and a width per group": Kind(key("flexible", most), limits=limits),
        "size and one width": Kind(key("uniform", most), limits=limits, space=replace(IMAGES, by_group=False)),
        "one size and width": Kind(key("fixed", most), limits=limits, space=fixed),
        "no limit, then scaled down": Kind(key("scaled", most), "scaled", limits),
    }


@lru_cache(maxsize=8)
def settings(most: int | None = None) -> list[Setting]:
    """Return the pairs of image size and width of which MIN_SHARE fits, ranked by the 80th percentile of MACs (stage one).

    Networks with more than `most` multiply-accumulates do not fit.
    """
    limits, found = LIMITS._replace(macs=most), list[Setting]()
    for size, width in product(IMAGES.sizes, IMAGES.widths):
        rng = random.Random(f"{size} {width}")
        drawn = [arch_of(IMAGES, sample(IMAGES, rng, size, width), CLASSES) for _ in range(SAMPLED)]
        found.append(Setting(size, width, tuple(sorted(map(macs, filter(limits.fit, drawn)))), SAMPLED))
    return sorted((each for each in found if each.share >= MIN_SHARE), key=lambda each: -each.p80)


def spaces() -> list[Setting]:
    """Return SPACES of the settings, at equal distances from the best to the worst."""
    ranked = settings()
    return [ranked[round(number * (len(ranked) - 1) / (SPACES - 1))] for number in range(SPACES)]


def sides(setting: Setting) -> tuple[int, int]:
    """Return the image size of a setting, which has one."""
    assert setting.size is not None
    return setting.size


def label(setting: Setting) -> str:
    """Return the name of a setting in tables."""
    return f"{sides(setting)[0]} px, width {setting.width:g}"


def own(setting: Setting) -> Kind:
    """Return the Kind that searches the space of a setting by a supernet of its own."""
    name = f"space-{sides(setting)[0]}-{setting.width:g}"
    space = replace(IMAGES, name=name, sizes=(sides(setting),), widths=(setting.width,), joint=False, by_group=False)
    return Kind(name, space=space, supernet=name, shared=space)


def jobs(folder: Path, names: Sequence[str]) -> list[Job]:
    """Return the measurements of some experiments, in the order in which to run them, each once."""
    every = dict[str, Job]()
    for experiment in map(experiments().__getitem__, names):
        for kinds, seed in product(experiment.groups.values(), range(experiment.seeds)):
            every |= {job.key: job for kind in kinds.values() for job in jobs_of(folder, kind, seed, experiment.step)}
    return list(every.values())


def jobs_of(folder: Path, kind: Kind, seed: int, step: str) -> Iterator[Job]:
    """Yield the measurements that give the network of a Kind with a seed, up to a step of an Experiment."""
    limits, (search, train) = kind.limits, (key(each, kind.name, seed) for each in ("search", "train"))
    if kind.how in ("evolution", "random", "scaled"):
        if kind.how == "scaled":
            search = key("search evolution", seed)
            yield from jobs_of(folder, Kind("evolution"), seed, "search")
        else:
            place = key("supernet", kind.supernet)
            yield Job(
                place,
                partial(measure.supernet, folder / kind.supernet, kind.shared, SUPERNET, 0),
                partial(supernet_seconds, kind.shared),
            )
            evolution, spaces = SUPERNET.evolution if kind.how == "evolution" else RANDOM, (kind.shared, kind.space)
            run = partial(measure.searched, folder / kind.supernet, spaces, limits, evolution, seed)
            yield Job(search, run, partial(search_seconds, kind), (place,))
    if step == "search":
        return
    settled, seconds = {"folder": folder, "epochs": EPOCHS, "seed": seed}, partial(train_seconds, kind)
    winner = partial(measure.trained_winner, ram=limits.ram, **settled)
    if kind.how == "scaled":
        yield Job(train, partial(measure.trained_scaled, limits=limits, **settled), seconds, (search,), 1)
    elif kind.how in FAMILIES and not seed:  # with other seeds the best network of seed 0 is trained again
        run = partial(measure.trained_family, limits=limits, of=(kind.how, kind.space), **settled)
        yield Job(train, run, partial(seconds, times=measure.TRIED))
    else:
        yield Job(train, winner, seconds, (key("train", kind.name, 0) if kind.how in FAMILIES else search,), 1)
    if step == "tune":
        run = partial(measure.tuned, folder=folder, epochs=QAT_EPOCHS, seed=seed, bits=limits.bits)
        yield Job(key(step, kind.name, seed), run, partial(seconds, times=QAT_SLOWDOWN * QAT_EPOCHS / EPOCHS), (train,), 1)
    if step == "double":
        run = partial(winner, epochs=2 * EPOCHS)
        yield Job(key(step, kind.name, seed), run, partial(seconds, times=2), (train,), 1)


def supernet_seconds(space: SearchSpace, limit: Budget) -> float:
    """Predict the CPU seconds of the training of a supernet on the reference core."""
    costs = predicted_seconds(space, CLASSES, limit, 1)
    return needed_seconds(replace(SUPERNET, evolution=Evolution(0, generations=0)), costs, 1)


def search_seconds(kind: Kind, limit: Budget) -> float:
    """Predict the CPU seconds of a search on the reference core; only a limit of time needs plans of networks."""
    each = predicted_seconds(kind.space, CLASSES, limit, 1)["evolution"]
    return RANDOM.evaluations * (each if kind.limits.ms else each - PLANS * PLANNING)


def train_seconds(kind: Kind, limit: Budget, times: float = 1.0) -> float:
    """Predict the CPU seconds of `times` trainings of a network of a Kind on the reference core."""
    return times * EPOCHS * limit.steps_per_epoch * fmean(map(limit.step, typical(kind)))


@lru_cache(maxsize=256)
def typical(kind: Kind) -> list[Arch]:
    """Return networks that take as long to train as the networks of a Kind: searches find networks with many MACs."""
    limits, rng = kind.limits, random.Random(0)
    if limits.ms is not None:
        limits = limits._replace(ms=None, macs=round(MACS_PER_MS * limits.ms))
    if kind.how in FAMILIES:
        drawn = measure.family(kind.how, kind.space, CLASSES, limits)
    else:
        drawn = [arch_of(kind.space, sample(kind.space, rng), CLASSES) for _ in range(TYPICAL)]
    fitting = sorted(filter(limits.fit, drawn), key=macs)
    return fitting[2 * len(fitting) // 3 :] or [arch_of(kind.space, smallest(kind.space), CLASSES)]


def write_samples(folder: Path, shared: Path) -> Dataset:
    """Write the samples into a folder, unless they are there, and return them."""
    if not (folder / DATA / "data.json").is_file():
        data, _ = task_of("images", shared / "data" / "cifar10_fifth" / "train", Preparation(max(IMAGES.sizes)))
        save_data(data, folder / DATA)
    return load_data(folder / DATA)


def executed(function: Callable[..., Record], records: Sequence[Record]) -> Record:
    """Call a function in a worker, and return its Record as `result`, with the time that it has taken."""
    used, clock = time.process_time(), time.perf_counter()
    result = function(*records)
    return {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - used, "result": result}


def run(all_jobs: Sequence[Job], workers: Workers, folder: Path, deadline: float) -> None:
    """Run measurements until the deadline, a value of time.perf_counter(), and record them in the file RESULTS."""
    known, running, failed, device = results(folder), dict[Future[Record], Job](), set[str](), device_name()
    total = len(known) + sum(job.key not in known for job in all_jobs)
    while (left := deadline - time.perf_counter()) > 0:
        busy = {job.key for job in running.values()}
        for job in [job for job in all_jobs if job.key not in {*known, *failed, *busy} and known.keys() >= {*job.needs}]:
            if len(running) < workers.count:
                records = [known[each] for each in job.needs[: job.reads]]
                running[workers.submit(executed, job.function, records)] = job
        if not running:
            break
        for done in wait(running, min(1.0, left), FIRST_COMPLETED).done:
            job = running.pop(done)
            if (error := done.exception()) is not None:
                failed.add(job.key)
                append(folder / RESULTS, {"key": job.key, "failed": f"{type(error).__name__}: {error}"[:300]})
                print(f"{job.key}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                continue
            line = {"key": job.key, **done.result(), "device": device}
            known[job.key] = line["result"]
            append(folder / RESULTS, line)
            shown = {name: value for name, value in line["result"].items() if isinstance(value, int | float)}
            print(f"{len(known)} of {total}: {job.key}, {line['cpu_seconds']:.1f} CPU s, {shown}", flush=True)


def results(folder: Path) -> dict[str, Record]:
    """Return the Record of each measurement in the file RESULTS of a folder by its key; failed ones are left out."""
    return {line["key"]: line["result"] for line in entries(folder / RESULTS) if "result" in line}


def device_name() -> str:
    """Return the number and the name of the processors."""
    file = Path("/proc/cpuinfo")  # of Linux
    models = re.findall(r"^model name\s*: (.*)", file.read_text() if file.is_file() else "", re.MULTILINE)
    return f"{os.cpu_count()} processors ({models[0] if models else platform.machine()})"


def begin(folder: Path, data: Dataset) -> None:
    """Write the header into the file RESULTS of a folder; raise CompileError if the file has another."""
    header = {"settings": SETTINGS, "samples": data.counts()}
    headers = [line for line in entries(folder / RESULTS) if "settings" in line]
    if not headers:
        append(folder / RESULTS, header)
    elif headers != [header]:
        raise CompileError(f"'{folder}' has measurements with other settings", "give another folder")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(experiments())
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which the script ends; by default it completes")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="+", default=names, choices=names, help=f"of {', '.join(names)}")
    args = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # CPU seconds are counted
    deadline = time.perf_counter() + 60 * args.minutes
    args.out.mkdir(parents=True, exist_ok=True)
    data = write_samples(args.out, args.shared)
    begin(args.out, data)
    counts, seen, hours = data.counts(), {*results(args.out)}, 0.0
    with pool(args.processes) as workers:
        limit = Budget(0, 1, machine_factor(workers), counts["train"], batch_of(data), validation=counts["validation"])
        for name in args.only:
            missing = [job for job in jobs(args.out, [name]) if job.key not in seen]
            seen |= {job.key for job in missing}
            hours += (each := sum(job.predict(limit) for job in missing) / 3600)
            print(f"{name}: {len(missing)} measurements to make, about {each:.2f} CPU hours (predicted)", flush=True)
        print(f"together: about {hours:.1f} CPU hours (predicted), on {args.processes} processes", flush=True)
        run(jobs(args.out, args.only), workers, args.out, deadline)
        for process in multiprocessing.active_children():
            process.terminate()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
