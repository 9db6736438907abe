"""Searches on small data sets, beside simple classifiers and a network made by hand that is trained for as many CPU seconds.

In: names of sets, a time limit. Out: a line per set: accuracy of the search in int8, of the best simple classifier and of the
network by hand (the plain network that fills the limits, in float), and 95 % intervals of the paired differences. The sets are
images of scikit-learn, drawn shapes, four classes of CIFAR-10, series of the package aeon, and spoken digits of speakers who
are not in training.

With --jobs several sets are searched at the same time, each on two processors of its own. After all searches, each network by
hand is trained for as many CPU seconds, with one or two threads, whichever is faster. A GPU is not used, because CPU seconds
are compared. If a set fails, the others go on. The results are kept in the folder -o, so the same command continues an
interrupted run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, as_completed
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
from tinyweave import api
from tinyweave.devices import find
from tinyweave.files import write_file
from tinyweave.ir import CompileError
from tinyweave.nas.arch import Arch, from_json, to_json
from tinyweave.nas.budget import machine_factor
from tinyweave.nas.candidates import first_network
from tinyweave.nas.costs import Target, with_measured_overhead
from tinyweave.nas.halving import DATA, augmentations_of, batch_of, load_data, train_one
from tinyweave.nas.prepare import Preparation, task_of
from tinyweave.nas.searching import SearchOptions, search
from tinyweave.nas.workers import pool, process_pool
from tinyweave.parent import end_with_parent
from tinyweave.tasks.dataset import Dataset
from tinyweave.tasks.evaluation.baselines import compare
from tinyweave.tasks.evaluation.intervals import paired_interval

SHARED = Path(os.environ.get("TINYWEAVE_SHARED", "../shared")) / "data"
SERIES = ("JapaneseVowels", "BasicMotions", "ItalyPowerDemand", "GunPoint", "ArrowHead", "OSULeaf")
CIFAR = {"cifar-a": ("cat", "dog", "ship", "truck"), "cifar-b": ("airplane", "automobile", "bird", "frog")}
SETS = (*CIFAR, "spoken-digits", "digits", "shapes", *SERIES)  # those that take longest first
LIMITS = {  # of RAM, Flash and milliseconds, on an nRF52840
    "images": ("20k", "60k", 150.0),
    "keywords": ("10k", "40k", 20.0),
    "sensors": ("3k", "40k", 10.0),
}
SEARCHED, LINE = "searched-{}.json", "line-{}.json"  # file names in a set's folder; the number is the seed
THREADS = 2  # processors of a search, and most threads of the training by hand
STEPS = 20  # of a training that is timed
Line = dict[str, Any]
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # CPU seconds are compared


def digits(folder: Path) -> Path:
    """Write the 1,797 digits of scikit-learn, 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    np.savez(folder / "digits.npz", x=np.round(found.images * 255 / 16).astype(np.uint8)[..., None], y=found.target)
    return folder / "digits.npz"


def shapes(folder: Path) -> Path:
    """Draw 60 circles, 60 squares and 60 triangles of random size, place and colours, with noise."""
    from PIL import Image, ImageDraw

    rng, side, kinds = np.random.default_rng(1), 32, ("circle", "square", "triangle")
    images = list[np.ndarray]()
    for kind in kinds:
        for _ in range(60):
            back, front = (tuple(map(int, rng.integers(0, 256, 3))) for _ in range(2))
            image, radius = Image.new("RGB", (side, side), back), int(rng.integers(5, 12))
            x, y = map(int, rng.integers(radius + 1, side - radius - 1, 2))
            box, draw = (x - radius, y - radius, x + radius, y + radius), ImageDraw.Draw(image)
            match kind:
                case "circle":
                    draw.ellipse(box, fill=front)
                case "square":
                    draw.rectangle(box, fill=front)
                case _:
                    draw.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=front)
            images.append(np.clip(np.array(image) + rng.normal(0, 12, (side, side, 3)), 0, 255).astype(np.uint8))
    np.savez(folder / "shapes.npz", x=np.stack(images), y=np.repeat(kinds, 60))
    return folder / "shapes.npz"


def samples(name: str, folder: Path) -> tuple[str, Path, Preparation]:
    """Return (task, file or folder, preparation) of a data set; what must be made first is written into `folder`."""
    if name in ("digits", "shapes"):
        makers: dict[str, Callable[[Path], Path]] = {"digits": digits, "shapes": shapes}
        side, channels = (8, 1) if name == "digits" else (32, 3)
        return "images", makers[name](folder), Preparation((side, side), channels)
    if name in CIFAR:
        for label in CIFAR[name]:
            copytree(SHARED / "cifar10_fifth" / "train" / label, folder / "photos" / label, dirs_exist_ok=True)
        return "images", folder / "photos", Preparation((28, 28))
    if name == "spoken-digits":
        return "keywords", SHARED / "fsdd" / "recordings", Preparation(by_speaker=True)
    spec = find_spec("aeon")
    if spec is None or spec.origin is None:
        raise CompileError("the series are files of the package aeon, which is not installed", "pip install aeon")
    return "sensors", Path(spec.origin).parent / "datasets" / "data" / name / f"{name}_TRAIN.ts", Preparation()


def searched(name: str, folder: Path, minutes: float, seed: int) -> None:
    """Search a network for a data set, and write the result and the network by hand to the file SEARCHED in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    task, path, prepared = samples(name, folder)
    data, space = task_of(task, path, prepared)
    board, place = find("nrf52840"), folder / f"search-{seed}"
    target, resumed = Target(board, api.limits_of(board, *LIMITS[task])), place.exists()
    begin, before = time.perf_counter(), cpu_seconds()
    found = search(data, space, target, place, SearchOptions("halving", minutes, seed))
    took, used = time.perf_counter() - begin, cpu_seconds() - before
    groups, labels = data.groups_of("test"), data.part("test")[1]
    assert found.predicted is not None, "it is a classifier"
    correct = found.predicted == labels
    baseline = compare(correct, found.baselines, groups)
    hand = first_network(space, with_measured_overhead(target, space, len(data.classes)), len(data.classes))
    if hand is None:
        raise CompileError("no plain network fits", "leave the set out")
    used = 2 * 60 * minutes if resumed else used  # the CPU time before the interruption is not known
    seconds, threads = min((seconds_of_epoch(hand[0], data, threads), threads) for threads in range(1, THREADS + 1))
    line = {
        "set": name,
        "minutes": minutes,
        "seed": seed,
        "test": len(labels),
        "search": float(correct.mean()),
        "float": found.accuracy["test"],
        "interval": found.interval,
        "fits": found.fits,
        "baseline": baseline.baseline.name,
        "baseline_accuracy": baseline.baseline.accuracy,
        "baseline_interval": baseline.interval,
        "seconds": took,
        "cpu_seconds": used,
        "correct": correct.tolist(),
        "hand": json.loads(to_json(hand[0])),
        "hand_threads": threads,
        "hand_epochs": max(1, int(used / threads / seconds)),
    }
    write_file(folder / SEARCHED.format(seed), json.dumps(line))


def trained_by_hand(folder: Path, seed: int) -> None:
    """Train the network by hand for as many CPU seconds as the search took, and write the line of the set to the file LINE."""
    import torch

    from tinyweave.nas.learning.module import module_of
    from tinyweave.nas.learning.train import scores, thread_count

    line = json.loads((folder / SEARCHED.format(seed)).read_text())
    arch, place = from_json(json.dumps(line.pop("hand"))), folder / f"search-{seed}"
    end, before = place / "by-hand.pt", cpu_seconds()
    with thread_count(line["hand_threads"]):
        train_one(to_json(arch), str(place / DATA), line["hand_epochs"], 0, start=None, end=str(end))
    module, data = module_of(arch), load_data(place / DATA)
    module.load_state_dict(torch.load(end, weights_only=True))
    values, labels = data.part("test")
    hand, correct = scores(module, values).argmax(axis=1) == labels, np.array(line.pop("correct"))
    line |= {
        "by_hand": float(hand.mean()),
        "by_hand_interval": paired_interval(correct, hand, data.groups_of("test")),
        "by_hand_cpu_seconds": cpu_seconds() - before,
    }
    write_file(folder / LINE.format(seed), json.dumps(line))


def seconds_of_epoch(arch: Arch, data: Dataset, threads: int) -> float:
    """Return how long an epoch of a network's training takes with some threads: the CPU time of a few steps, by thread."""
    from tinyweave.nas.learning.module import module_of
    from tinyweave.nas.learning.train import Recipe, fit, thread_count

    (values, labels), batch = data.part("train"), batch_of(data)
    recipe, count = Recipe(1, batch=batch, augmentation=augmentations_of(data)[0]), min(len(values), STEPS * batch)
    with thread_count(threads):
        fit(module_of(arch), values[:count], labels[:count], recipe)  # the first call loads libraries
        before = time.process_time()
        fit(module_of(arch), values[:count], labels[:count], recipe)
    return (time.process_time() - before) / threads * len(values) / count


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def pinned(processors: SimpleQueue[set[int]]) -> None:
    """Set up a process: it ends with its parent, and it and its children run on the next set of processors of a queue."""
    end_with_parent()
    os.sched_setaffinity(0, processors.get())


def span(pair: tuple[float, float]) -> str:
    return f"{100 * pair[0]:+.1f} to {100 * pair[1]:+.1f}"


def row(line: Line) -> str:
    def percent(share: float) -> str:
        return f"{100 * share:.1f}"

    low, high = line["interval"]
    cells = [
        line["set"],
        str(line["test"]),
        f"**{percent(line['search'])}** [{percent(low)}, {percent(high)}]",
        f"{line['baseline']} {percent(line['baseline_accuracy'])}",
        span(line["baseline_interval"]),
        percent(line["by_hand"]),
        span(line["by_hand_interval"]),
        f"{line['seconds']:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS, metavar="SET", help=f"of {', '.join(SETS)}; by default all")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="searches at the same time, each on two processors")
    args = parser.parse_args()
    if unknown := set(args.sets) - set(SETS):
        raise CompileError(f"the set '{sorted(unknown)[0]}' is unknown", f"give one of {', '.join(SETS)}")
    free = sorted(os.sched_getaffinity(0))
    if not 1 <= args.jobs <= len(free) // THREADS:
        raise CompileError(f"--jobs {args.jobs} is out of range", f"give 1 to {len(free) // THREADS}, half of the processors")
    processors = get_context("spawn").SimpleQueue()
    for job in range(args.jobs):
        processors.put(set(free[THREADS * job : THREADS * (job + 1)]))
    folders = {name: args.out / name for name in args.sets}
    with pool(THREADS * args.jobs) as workers:
        machine_factor(workers)  # measured once, while all processors are busy as later
    with process_pool(args.jobs, partial(pinned, processors)) as executor:
        run_missing(
            executor,
            {
                folder / SEARCHED.format(args.seed): partial(searched, name, folder, args.minutes, args.seed)
                for name, folder in folders.items()
            },
        )
        run_missing(
            executor,
            {
                folder / LINE.format(args.seed): partial(trained_by_hand, folder, args.seed)
                for folder in folders.values()
                if (folder / SEARCHED.format(args.seed)).is_file()
            },
        )
    done = [file for folder in folders.values() if (file := folder / LINE.format(args.seed)).is_file()]
    if not done:
        return 1
    lines = [json.loads(file.read_text()) for file in done]
    print("| set | test samples | search, % | best baseline, % | difference | by hand, % | difference | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for line in lines:
        print(row(line))
    lost = [line["set"] for line in lines if line["baseline_interval"][1] < 0]
    gain = np.mean([line["search"] - line["by_hand"] for line in lines])
    half = np.linalg.norm([np.subtract(*line["by_hand_interval"]) / 2 for line in lines]) / len(lines)
    print(f"below the best baseline: {', '.join(lost) or 'none'}")
    print(f"in the mean {100 * gain:+.1f} points from the network by hand, 95 % interval {span((gain - half, gain + half))}")
    return 1 if lost or len(done) < len(folders) or not all(line["fits"] for line in lines) else 0


def run_missing(executor: Executor, calls: dict[Path, Callable[[], None]]) -> None:
    """Run the calls whose files are missing. Print the path of each file when it is there, or why its call failed."""
    jobs = {executor.submit(call): path for path, call in calls.items() if not path.is_file()}
    for job in as_completed(jobs):
        error = job.exception()
        print(jobs[job] if error is None else f"{jobs[job]}: failed: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
