"""The MCUNet thesis' tables in small: what a search finds beside scaled networks, other engines, other spaces, 4-bit weights.

In: a fifth of CIFAR-10 and the recordings of spoken digits (--shared), minutes. Out: a line of JSON per measurement in the file
RESULTS of a folder (-o), from which `evidence_page.py` writes docs/EVIDENCE.md.

Supernets only rank networks. Each compared network is then trained from random weights, all by one recipe and for equally many
epochs, and tested on samples that no choice has seen. The tests of keywords are on speakers that are not in the training: each
of three rotations leaves out two other speakers, and has a supernet of its own. All searches of images share one supernet.

Measurements run in parallel, the most valuable first. Without --epochs and --supernet-epochs the speed of the machine is
measured once, and decides how many epochs there are. After --minutes the script ends; the same command continues it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import evidence_jobs as measure
import numpy as np
from baselines import TABLES, best_ds_cnn, best_scaled
from evidence_jobs import ENGINES, Limits, Record, Training

from tinynas.arch import macs, to_json
from tinynas.evolution import Evolution
from tinynas.halving import DATA, load_data, save_data
from tinynas.journal import append, entries
from tinynas.prepare import task_of
from tinynas.settings import Preparation
from tinynas.space import SearchSpace, arch_of, keywords, plain, small_images
from tinynas.stage_one import Setting, StageLimits, stage_one
from tinynas.tasks.dataset import PARTS, Dataset
from tinyweave.ir import CompileError
from tinyweave.support.parent import end_with_parent

KIB = 1024
SHARED = Path(os.environ.get("TINYWEAVE_SHARED", "../shared"))
RESULTS, PLAN = "results.jsonl", "plan.json"
UNRECORDED = ("-o", "--out", "--shared", "--minutes", "--processes", "--only")  # options that change no measurement
ROTATIONS = 3  # of the speakers of the keywords
SPEAKERS = 6
IMAGES = replace(small_images((20, 24, 28, 32)), name="joint_images", widths=(0.5, 0.75, 1.0, 1.25), joint=True, by_group=True)
KEYWORDS = replace(keywords((40, 40)), name="joint_keywords", widths=(0.5, 0.75, 1.0, 1.5), joint=True)
IMAGES, KEYWORDS = (replace(space, poolings=("mean",)) for space in (IMAGES, KEYWORDS))  # as in the thesis
SPACES = {"images": IMAGES, "keywords": KEYWORDS}
# KiB of the arena -> KiB of weights, eight times as many, as boards have more Flash than RAM
LIMITS = {"images": {8: 64, 16: 128, 32: 256}, "keywords": {6: 48, 10: 80, 16: 128}}
MIDDLE = 16  # KiB of the arena: the limit of the images at which spaces, engines and proxies are compared
BATCHES = {"images": 128, "keywords": 64}
TIMES = {"images": 1, "keywords": 4}  # epochs of a network per epoch of the plan: there are fewer recordings than images
SUPERNET_BATCHES = {"images": 256, "keywords": 64}
SECONDS = 0.82  # of a recording: 40 frames, and as many bands
CLASSES = 10
BEST_ENGINE = "streamed"
RIVALS = {"images": (*TABLES, "plain"), "keywords": ("ds_cnn", "plain")}
PLAIN_WIDTHS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
TRIED = 2  # scaled networks of a family that are trained
MACS = (1_000_000, 2_000_000, 4_000_000)  # limits of the joint search of resolution and width
NARROW_FLASH = (24, 48)  # KiB of weights, where 4 bits are compared with 8
SETTINGS, SETTINGS_TRIED, SAMPLED = 10, 4, 100  # best settings, of which some are searched; networks sampled in each
LONGER = 3  # times as many epochs, to see whether a family only trains more slowly
MIN_SHARE = 0.5  # of the networks of a space must fit; few spaces reach the 0.8 of stage one here
CURVES = 5  # seeds of evolution and of random search
COMPANY = 3  # other measurements that run while supernets train
SHARES = {"supernets": 0.25, "trainings": 0.35}  # of the time; "trainings" are the trainings in the most valuable measurements
TRAININGS = {"images": 9, "keywords": 7}  # of the most valuable measurements, per limit and seed, about
STEPS = 50  # of an epoch of images, about
MAX_EPOCHS, MAX_SUPERNET_EPOCHS = 80, 200


class Plan(NamedTuple):
    """Lengths of trainings and searches, equal for all networks."""

    epochs: int  # of each network for images
    supernet_epochs: int
    warm_up: int  # epochs of a supernet's largest network alone
    population: int
    generations: int

    @property
    def evolution(self) -> Evolution:
        """Return the settings of evolution."""
        half = self.population // 2
        return Evolution(self.population, max(2, self.population // 5), half, half, generations=self.generations)

    @property
    def random_search(self) -> Evolution:
        """Return the settings of a random search that evaluates the same number of networks as evolution."""
        return Evolution(self.evolution.evaluations, generations=0)


class Job(NamedTuple):
    """A measurement: a function that returns a Record, and the keys of the measurements that it needs.

    The function is called with the Records of the first `reads` of these.
    """

    key: str
    function: Callable[..., Record]
    needs: tuple[str, ...] = ()
    reads: int = 0


def key(*words: object) -> str:
    """Return the name of a measurement: its words with spaces between them."""
    return " ".join(map(str, words))


def limits_of(task: str, engine: str, ram: int) -> Limits:
    """Return the limits of a task for an engine and a limit of RAM in KiB."""
    return Limits(engine, ram * KIB, LIMITS[task][ram] * KIB)


def rival_archs(task: str, name: str, limits: Limits) -> list[str]:
    """Return the largest networks of a family that fit, at most TRIED, as JSON; name is one of RIVALS."""
    space = SPACES[task]
    if name == "ds_cnn":
        archs = best_ds_cnn(space.sizes[0], CLASSES, measure.FREE, fits=limits.fit)
    elif name == "plain":
        uniform = replace(space, by_group=False, widths=PLAIN_WIDTHS)
        choices = [
            plain(uniform, width, depth)._replace(size=size)
            for size, width, depth in product(space.sizes, PLAIN_WIDTHS, (1, 2, 3))
        ]
        archs = [arch for choice in choices if limits.fit(arch := arch_of(uniform, choice, CLASSES))]
    else:
        archs = best_scaled(name, space.sizes, space.channels, CLASSES, measure.FREE, fits=limits.fit)
    return [to_json(arch) for arch in sorted(set(archs), key=macs, reverse=True)[:TRIED]]


class Jobs:
    """The list of all measurements, the most valuable first, with methods that add to it."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Create an empty list."""
        self.folder, self.plan, self.list = folder, plan, list[Job]()

    def training(self, task: str, place: str, *, part: int = 1) -> Training:
        """Return the recipe of a task, whose samples are in the folder `place`; epochs are divided by `part`."""
        return Training(self.folder / place, max(1, TIMES[task] * self.plan.epochs // part), BATCHES[task])

    def supernet(self, task: str, place: str, space: SearchSpace, seed: int = 0) -> None:
        """Add the training of a supernet in the folder `place`."""
        training = Training(self.folder / place, self.plan.supernet_epochs, SUPERNET_BATCHES[task])
        self.list.append(Job(key("supernet", place), partial(measure.supernet, training, space, self.plan.warm_up, seed)))

    def search(
        self, how: str, place: str, limits: Limits, label: str, seed: int, *, space: SearchSpace, shared: SearchSpace
    ) -> str:
        """Add a search with the weights of the supernet in `place`; return its key. `how` is "evolution" or "random"."""
        name, evolution = key(how, place, label, seed), self.plan.evolution if how == "evolution" else self.plan.random_search
        search = partial(measure.searched, self.folder / place, (shared, space), limits, evolution, seed)
        if all(job.key != name for job in self.list):
            self.list.append(Job(name, search, (key("supernet", place),)))
        return name

    def train(
        self, found: str, function: Callable[..., Record], label: str = "train", name: str = "", **arguments: Any
    ) -> None:
        """Add a training of a network that the measurement `found` has found: the function reads its Record first.

        Without `name`, the key is `label`, then `found`. The keyword arguments are passed to the function.
        """
        self.list.append(Job(name or key(label, found), partial(function, **arguments), (found,), 1))


def jobs(folder: Path, plan: Plan, seeds: int) -> list[Job]:
    """Return all measurements, the most valuable first: all tables with one seed, then with the next."""
    all_jobs = Jobs(folder, plan)
    settings = best_settings(MIDDLE)
    own = replace(IMAGES, sizes=(settings[0].size or IMAGES.sizes[0],), widths=(settings[0].width,))
    all_jobs.supernet("images", "images", IMAGES)
    for rotation in range(ROTATIONS):
        all_jobs.supernet("keywords", f"keywords-{rotation}", KEYWORDS, rotation)
    for seed in range(seeds):
        engines_and_rivals(all_jobs, "images", "images", seed, tuple(ENGINES))
        if seed == 0:
            for rotation in range(ROTATIONS):
                engines_and_rivals(all_jobs, "keywords", f"keywords-{rotation}", rotation, ("layers", BEST_ENGINE))
        remedies(all_jobs, seed)
        longer(all_jobs, seed)
        bits(all_jobs, seed)
        joint(all_jobs, seed)
        spaces(all_jobs, settings, seed)
        for name, ram in product(RIVALS["images"], LIMITS["images"]):
            rival(all_jobs, "images", "images", name=name, engine="layers", ram=ram, seed=seed)
        if seed == 0:
            curves(all_jobs, seeds)
            all_jobs.supernet("images", "images-own", own)
        own_supernet(all_jobs, own, seed)
    return all_jobs.list


def engines_and_rivals(all_jobs: Jobs, task: str, place: str, seed: int, engines: Sequence[str]) -> None:
    """Add searches with several engines, random search, and scaled networks, and train the networks that they find."""
    space, training = SPACES[task], all_jobs.training(task, place)
    searches = [("evolution", engine) for engine in engines] + [("random", BEST_ENGINE)]
    for ram, (how, engine) in product(LIMITS[task], searches):
        label = key(engine, ram)
        name = all_jobs.search(how, place, limits_of(task, engine, ram), label, seed, space=space, shared=space)
        all_jobs.train(name, measure.trained_winner, training=training, seed=seed)
    for name, ram in product(RIVALS[task], LIMITS[task]):
        rival(all_jobs, task, place, name=name, engine=BEST_ENGINE, ram=ram, seed=seed)


def rival(all_jobs: Jobs, task: str, place: str, *, name: str, engine: str, ram: int, seed: int) -> None:
    """Add trainings of a family of networks.

    With seed 0 at most TRIED networks are trained, and the best on the validation part is kept; with another seed this network
    is trained again. Each rotation of the speakers has other samples, so there all of the TRIED networks are trained.
    """
    training, label = all_jobs.training(task, place), key("rival", place, name, engine, ram)
    if seed == 0 or task == "keywords":
        job = partial(measure.best_trained, training, rival_archs(task, name, limits_of(task, engine, ram)), seed)
        all_jobs.list.append(Job(key(label, seed), job))
    else:
        all_jobs.train(key(label, 0), measure.trained_winner, name=key(label, seed), training=training, seed=seed)


def longer(all_jobs: Jobs, seed: int) -> None:
    """Add trainings that are LONGER times as long, of searched networks and of their rivals at the middle limit of RAM."""
    training = all_jobs.training("images", "images")
    training = training._replace(epochs=LONGER * training.epochs)
    found = [
        key("evolution images", BEST_ENGINE, MIDDLE, seed),
        *(key("rival images", name, BEST_ENGINE, MIDDLE, 0) for name in RIVALS["images"]),
    ]
    for name in found:
        words, _ = name.rsplit(" ", 1)
        all_jobs.train(name, measure.trained_winner, name=key("longer", words, seed), training=training, seed=seed)


def curves(all_jobs: Jobs, seeds: int) -> None:
    """Add evolution with two engines and random search with more seeds, at the middle limit of RAM."""
    for seed in range(seeds, CURVES):
        for how, engine in (("evolution", "layers"), ("evolution", BEST_ENGINE), ("random", BEST_ENGINE)):
            limits = limits_of("images", engine, MIDDLE)
            all_jobs.search(how, "images", limits, key(engine, MIDDLE), seed, space=IMAGES, shared=IMAGES)


def remedies(all_jobs: Jobs, seed: int) -> None:
    """Add what may help a search that does not win: other choices among the networks that it has evaluated."""
    training = all_jobs.training("images", "images")
    for ram in LIMITS["images"]:
        found = key("evolution images", BEST_ENGINE, ram, seed)
        all_jobs.train(found, measure.trained_largest, "largest", training=training, seed=seed)
        all_jobs.train(found, measure.tuned_winner, "tuned", training=training, shared=IMAGES, seed=seed)
        finalists = partial(measure.trained_finalists, training=training, seed=seed)
        all_jobs.list.append(Job(key("finalists", found), finalists, (found, key("train", found)), 2))


@lru_cache(maxsize=8)
def best_settings(ram: int, most: int | None = None) -> list[Setting]:
    """Return the best pairs of image size and width within limits, by stage one; the best first.

    The limits are the RAM (KiB) with its Flash, and at most `most` multiply-accumulates.
    """
    stage = StageLimits(ram * KIB, LIMITS["images"][ram] * KIB, *ENGINES[BEST_ENGINE])
    found = stage_one(replace(IMAGES, by_group=False), stage, CLASSES, SAMPLED)
    if most is not None:
        found = [replace(each, macs=tuple(count for count in each.macs if count <= most)) for each in found]
    ranked = sorted(found, key=lambda each: -each.p80)
    feasible = [each for each in ranked if each.share >= MIN_SHARE]
    return [*feasible, *(each for each in ranked if each not in feasible)][:SETTINGS]


def own_supernet(all_jobs: Jobs, own: SearchSpace, seed: int) -> None:
    """Add a search in the best space, `own`, with a supernet of its own."""
    limits = limits_of("images", BEST_ENGINE, MIDDLE)
    name = all_jobs.search("evolution", "images-own", limits, "own", seed, space=own, shared=own)
    all_jobs.train(name, measure.trained_winner, training=all_jobs.training("images", "images"), seed=seed)


def spaces(all_jobs: Jobs, settings: Sequence[Setting], seed: int) -> None:
    """Add searches in the best space and in random ones of the best ten, all with the common supernet."""
    training, limits = all_jobs.training("images", "images"), limits_of("images", BEST_ENGINE, MIDDLE)
    others = random.Random(0).sample(list(settings[1:]), min(SETTINGS_TRIED, len(settings) - 1))
    for setting in (settings[0], *others):
        assert setting.size is not None
        space = replace(IMAGES, sizes=(setting.size,), widths=(setting.width,))
        label = key("space", setting.size[0], setting.width)
        name = all_jobs.search("evolution", "images", limits, label, seed, space=space, shared=IMAGES)
        all_jobs.train(name, measure.trained_winner, training=training, seed=seed)


def joint(all_jobs: Jobs, seed: int) -> None:
    """Add searches within limits of multiply-accumulates: one size and width, one width per network, one per group.

    The one size and width are those that stage one chooses within the same limits.
    """
    ram = max(LIMITS["images"])
    kinds = {"fixed": IMAGES, "uniform": replace(IMAGES, by_group=False), "flexible": IMAGES}
    for most, (kind, space) in product(MACS, kinds.items()):
        if kind == "fixed":
            (setting, *_) = best_settings(ram, most)
            assert setting.size is not None
            space = replace(space, sizes=(setting.size,), widths=(setting.width,))
        limits = limits_of("images", BEST_ENGINE, ram)._replace(macs=most)
        name = all_jobs.search("evolution", "images", limits, key(kind, most), seed, space=space, shared=IMAGES)
        all_jobs.train(name, measure.trained_winner, training=all_jobs.training("images", "images"), seed=seed)


def bits(all_jobs: Jobs, seed: int) -> None:
    """Add searches for networks with weights of 8 and of 4 bits that have equally many bytes; quantise what they find."""
    training = all_jobs.training("images", "images")
    for flash, each in product(NARROW_FLASH, (8, 4)):
        limits = Limits(BEST_ENGINE, MIDDLE * KIB, flash * KIB, bits=each)
        name = all_jobs.search("evolution", "images", limits, key("bits", each, flash), seed, space=IMAGES, shared=IMAGES)
        file = training.folder / "weights" / f"bits-{each}-{flash}-{seed}.pt"
        all_jobs.train(name, measure.trained_winner, training=training, seed=seed, end=file)
        all_jobs.train(key("train", name), measure.quantised, "quantise", training=training, file=file, bits=each)


def chosen(all_jobs: Sequence[Job], patterns: Sequence[str]) -> list[Job]:
    """Return the measurements whose keys match one of the patterns, such as "train *", and the measurements that these need."""
    needed = set[str]()
    for job in reversed(all_jobs):  # what a measurement needs is before it
        if job.key in needed or any(fnmatchcase(job.key, pattern) for pattern in patterns):
            needed |= {job.key, *job.needs}
    return [job for job in all_jobs if job.key in needed]


def without(command: Sequence[str], options: Collection[str]) -> Iterator[str]:
    """Yield the words of a command without some options and their values."""
    is_left_out = False
    for word in command:
        is_left_out = word in options if word.startswith("-") else is_left_out
        if not is_left_out:
            yield word


def write_samples(folder: Path, shared: Path) -> None:
    """Write the samples of both tasks into subfolders of `folder`, unless they are there."""
    if not (folder / "images" / DATA / "data.json").is_file():
        data, _ = task_of("images", shared / "data" / "cifar10_fifth" / "train", Preparation((32, 32)))
        save_data(data, folder / "images" / DATA)
    missing = [each for each in range(ROTATIONS) if not (folder / f"keywords-{each}" / DATA / "data.json").is_file()]
    if missing:
        prepared = Preparation(seconds=SECONDS, by_speaker=True)
        data, _ = task_of("keywords", shared / "data" / "fsdd" / "recordings", prepared)
        for each in missing:
            save_data(rotated(data, each), folder / f"keywords-{each}" / DATA)
    link = folder / "images-own" / DATA
    link.parent.mkdir(exist_ok=True)
    if not link.exists():
        link.symlink_to(Path("..") / "images" / DATA)


def counted(folder: Path) -> dict[str, Record]:
    """Return by subfolder the number of samples in each part."""
    names = ("images", *(f"keywords-{each}" for each in range(ROTATIONS)))
    return {name: load_data(folder / name / DATA).counts() for name in names}


def rotated(data: Dataset, rotation: int) -> Dataset:
    """Return the samples with two speakers in the test part, another in the validation part, and three in training."""
    assert data.groups is not None
    order = np.unique(data.groups)
    assert len(order) == SPEAKERS
    parts = np.full(len(data.parts), PARTS.index("train"), np.uint8)
    parts[np.isin(data.groups, order[2 * rotation : 2 * rotation + 2])] = PARTS.index("test")
    parts[data.groups == order[(2 * rotation + 2) % SPEAKERS]] = PARTS.index("validation")
    return replace(data, parts=parts)


def planned(folder: Path, executor: ProcessPoolExecutor, seconds: float, args: argparse.Namespace) -> Plan:
    """Return the lengths of trainings and searches, from the folder's file, or else by this machine's speed and the options."""
    file = folder / PLAN
    if file.is_file():
        return Plan(**json.loads(file.read_text())["plan"])
    rate, supernet_rate, begin = 0.0, 0.0, time.perf_counter()
    if args.epochs is None or args.supernet_epochs is None:
        middle = arch_of(IMAGES, plain(IMAGES, 1.0, 2), CLASSES)
        training = Training(folder / "images", 1, BATCHES["images"])

        def speeds(count: int, space: SearchSpace | None = None) -> list[float]:
            ended = [executor.submit(measure.measured, training, middle, space) for _ in range(count)]
            return [each.result()["steps"] for each in ended]

        rate = sum(speeds(args.processes))
        supernet_rate = min(speeds(min(args.processes, 2 + ROTATIONS + COMPANY), IMAGES))
        seconds -= time.perf_counter() - begin
    trainings = sum(args.seeds * len(LIMITS[task]) * count for task, count in TRAININGS.items())
    epochs = int(SHARES["trainings"] * seconds * rate / (STEPS * trainings))
    at_once = min(1.0, args.processes / (2 + ROTATIONS))  # how many of the supernets train at the same time
    supernet_epochs = int(SHARES["supernets"] * seconds * supernet_rate * at_once / STEPS)
    longer = min(MAX_SUPERNET_EPOCHS, max(2, args.supernet_epochs or supernet_epochs))
    plan = Plan(min(MAX_EPOCHS, max(2, args.epochs or epochs)), longer, max(1, longer // 3), args.population, args.generations)
    speed = {"steps_per_second": rate, "supernet_steps_per_second": supernet_rate}
    file.write_text(json.dumps({"plan": plan._asdict(), **speed}))
    return plan


def executed(function: Callable[..., Record], records: Sequence[Record]) -> Record:
    """Call a function in a worker, and return its Record as `result`, with the time that it has taken."""
    begin, used, clock = time.time(), time.process_time(), time.perf_counter()
    result = function(*records)
    return {
        "begin": begin,
        "seconds": time.perf_counter() - clock,
        "cpu_seconds": time.process_time() - used,
        "result": result,
    }


def start_worker() -> None:
    """Set up a worker: it ends with its parent, and uses one PyTorch thread."""
    end_with_parent()
    import torch

    torch.set_num_threads(1)


def run(all_jobs: Sequence[Job], executor: ProcessPoolExecutor, folder: Path, processes: int, deadline: float) -> None:
    """Run the measurements that the file RESULTS lacks until the deadline, a value of time.perf_counter(), and record them.

    While supernets train, only COMPANY others run, because all searches wait for supernets.
    """
    known, running, failed = dict(results(folder)), dict[Future[Record], Job](), set[str]()
    total, device = len(all_jobs), device_name()
    while (left := deadline - time.perf_counter()) > 0:
        busy = {job.key for job in running.values()}
        supernets = sum(name.startswith("supernet") for name in busy)
        free = min(processes, supernets + COMPANY) if supernets else processes
        for job in [job for job in all_jobs if job.key not in known and job.key not in failed]:
            if len(busy) >= free and not job.key.startswith("supernet"):
                break
            if len(busy) < processes and job.key not in busy and all(each in known for each in job.needs):
                records = [known[each] for each in job.needs[: job.reads]]
                running[executor.submit(executed, job.function, records)] = job
                busy.add(job.key)
                free = min(processes, free + job.key.startswith("supernet"))
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
            print(f"{len(known)} of {total}: {job.key}, {line['seconds']:.1f} s, {shown}", flush=True)


def results(folder: Path) -> Iterator[tuple[str, Record]]:
    """Yield (key, Record) of each measurement in the file RESULTS of a folder; failed ones are left out."""
    for line in entries(folder / RESULTS):
        if "result" in line:
            yield line["key"], line["result"]


def device_name() -> str:
    """Return the name of the GPU, or the number and the name of the processors if there is no GPU."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    file = Path("/proc/cpuinfo")  # of Linux
    models = re.findall(r"^model name\s*: (.*)", file.read_text() if file.is_file() else "", re.MULTILINE)
    return f"{os.cpu_count()} processors ({models[0] if models else platform.machine()})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="of each network; by default as many as there is time for")
    parser.add_argument("--supernet-epochs", type=int, help="of each supernet; by default as many as there is time for")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of names of measurements, such as 'proxies *'")
    parser.add_argument("--population", type=int, default=32)
    parser.add_argument("--generations", type=int, default=4)
    args = parser.parse_args()
    begin = time.perf_counter()
    if args.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    if args.device == "cuda" and not torch.cuda.is_available():
        raise CompileError("PyTorch finds no GPU", "give --device cpu")
    args.out.mkdir(parents=True, exist_ok=True)
    deadline = begin + 60 * args.minutes
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(args.processes, context, start_worker)
    try:
        write_samples(args.out, args.shared)
        plan = planned(args.out, executor, deadline - time.perf_counter(), args)
        all_jobs = jobs(args.out, plan, args.seeds)
        header = {
            "command": list(without(sys.argv[1:], UNRECORDED)),
            "plan": plan._asdict(),
            "device": device_name(),
            "samples": counted(args.out),
            "measurements": len(all_jobs),
        }
        headers = [line for line in entries(args.out / RESULTS) if "plan" in line]
        if headers[-1:] != [header]:
            append(args.out / RESULTS, header)
        print(plan, flush=True)
        run(chosen(all_jobs, args.only), executor, args.out, args.processes, deadline)
    finally:
        for process in multiprocessing.active_children():
            process.terminate()
        executor.shutdown(wait=False, cancel_futures=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
