"""Searches on small data sets, beside simple classifiers and a network made by hand that is trained for as many CPU seconds.

In: names of sets, a time limit. Out: a row per set: int8 accuracy of the search's network and of the network by hand (the plain
network that fills the limits), accuracy of the best simple classifier, and 95 % intervals of the paired differences (in
points). The best simple classifier is the best on the test samples, so the search is compared with the highest of three
numbers. The file RESULTS in the folder -o has a line of JSON per set; its `train` counts training and validation samples.

The sets are of three kinds:

- images: digits of scikit-learn, drawn shapes, faces with and without a mask, four classes of CIFAR-10;
- sensors: series of the package aeon. Four of its series are left out: no network takes the 1,460 steps of ACSF1 in 10 ms,
  PickupGestureWiimoteZ has too few samples of each class, Covid3Month has no classes, and JapaneseVowels_eq is JapaneseVowels;
- sound: spoken digits, of speakers who are not in training or of speakers who are. Speech Commands in small is left out: it
  has ten recordings of each word, too few for a training, a validation and a test part.

Three stages follow each other; `--only` runs one of them. `data` reads the sets into the folder -o. `searches` searches the
networks, and measures how many epochs of the network by hand take as many CPU seconds as the search took. `hands` trains the
networks by hand for these epochs, on one thread each. So the last stage gives the same networks on another machine.

With --jobs several sets are searched at the same time, each on two processors of its own. A GPU is not used, because CPU
seconds are compared. If a set fails, the others go on. The results are kept in the folder -o, so the same command continues an
interrupted run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from multiprocessing import active_children, get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
from holm import LEVEL, verdict_of
from page_text import table

from tinynas.arch import Arch, from_json, to_json
from tinynas.budget import machine_factor
from tinynas.candidates import first_network
from tinynas.costs import Target, with_measured_overhead
from tinynas.halving import DATA, FINAL, SEEN, recipe_of, recipes_of, save_data, train_one
from tinynas.int8 import evaluate_int8
from tinynas.prepare import task_of
from tinynas.search_options import LATE
from tinynas.searching import SearchResult, search
from tinynas.settings import Preparation, SearchOptions
from tinynas.space import SearchSpace
from tinynas.tasks.annotations import read_annotations
from tinynas.tasks.dataset import Dataset
from tinynas.tasks.evaluation.baselines import compare
from tinynas.tasks.evaluation.intervals import Interval, paired_interval, student_t
from tinynas.workers import pool, process_pool
from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.support.files import write_file
from tinyweave.support.parent import end_with_parent

SHARED = Path(os.environ.get("TINYWEAVE_SHARED", "../shared")) / "data"
SERIES = ("JapaneseVowels", "BasicMotions", "ItalyPowerDemand", "GunPoint", "ArrowHead", "OSULeaf")
CIFAR = {
    "cifar-a": ("cat", "dog", "ship", "truck"),
    "cifar-b": ("airplane", "automobile", "bird", "frog"),
    "cifar-c": ("deer", "dog", "frog", "horse"),
}
SPOKEN = ("spoken-digits", "spoken-digits-known")  # of speakers who are not in training, and of those who are
SIDES = {"digits": (8, 1), "shapes": (32, 3), "faces": (32, 3)}  # rows (and columns) and channels of images in .npz files
SETS = ("cifar-a", "cifar-b", *SPOKEN, "digits", "faces", "shapes", *SERIES)  # those that take longest first
DRAWN = 5  # sets that --draw chooses
POOL = (*SETS, "cifar-c", "Covid3Month_disc", "UnitTest")  # from which --draw chooses
LIMITS = {  # of RAM, Flash and milliseconds, on an nRF52840
    "images": ("20k", "60k", 150.0),
    "keywords": ("10k", "40k", 20.0),
    "sensors": ("3k", "40k", 10.0),
}
HAND_RECIPE = {  # of the network by hand, where an engineer would not take the strongest one of the task
    "digits": "images_unflipped",
    "ItalyPowerDemand": "sensors",  # without shifts, since the hour of the day matters
}
STAGES = ("data", "searches", "hands")
SET, SEARCHED, LINE = "set.pickle", "searched-{}.json", "line-{}.json"  # file names in a set's folder; the number is the seed
RESULTS = "small_sets.jsonl"  # file with a line per set, in the folder -o
THREADS = 2  # processors of a search
TIMED_S = 10.0  # CPU seconds of the training that is timed
TRAINING = ("recipes", "rung", "final training")  # what the search's progress begins with while networks train
Line = dict[str, Any]


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


def faces(folder: Path) -> Path:
    """Cut faces of at least 20 pixels out of photographs: all without a mask, and as many with one. A photograph is a group."""
    from PIL import Image

    side, _ = SIDES["faces"]
    boxes = [
        (box.label, image.path, (box.left, box.top, box.right, box.bottom))
        for image in read_annotations(SHARED / "face_mask_voc")
        for box in image.boxes
        if min(box.right - box.left, box.bottom - box.top) >= 20
    ]
    without = [box for box in boxes if box[0] == "sin_mascarilla"]
    chosen = without + random.Random(1).sample([box for box in boxes if box[0] == "con_mascarilla"], len(without))
    images = [np.array(Image.open(path).convert("RGB").crop(box).resize((side, side))) for _, path, box in chosen]
    labels, groups = zip(*((label, path.stem) for label, path, _ in chosen), strict=True)
    np.savez(folder / "faces.npz", x=np.stack(images), y=np.array(labels), groups=np.array(groups))
    return folder / "faces.npz"


def samples(name: str, folder: Path) -> tuple[str, Path, Preparation]:
    """Return (task, file or folder, preparation) of a data set; what must be made first is written into `folder`."""
    if name in SIDES:
        makers: dict[str, Callable[[Path], Path]] = {"digits": digits, "shapes": shapes, "faces": faces}
        side, channels = SIDES[name]
        return "images", makers[name](folder), Preparation((side, side), channels)
    if name in CIFAR:
        for label in CIFAR[name]:
            copytree(SHARED / "cifar10_fifth" / "train" / label, folder / "photos" / label, dirs_exist_ok=True)
        return "images", folder / "photos", Preparation((28, 28))
    if name in SPOKEN:
        return "keywords", SHARED / "fsdd" / "recordings", Preparation(by_speaker=name == SPOKEN[0])
    spec = find_spec("aeon")
    if spec is None or spec.origin is None:
        raise CompileError("the series are files of the package aeon, which is not installed", "pip install aeon")
    return "sensors", Path(spec.origin).parent / "datasets" / "data" / name / f"{name}_TRAIN.ts", Preparation()


def read(name: str, folder: Path) -> None:
    """Read a data set, and write its task, the Dataset and the search space to the file SET in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    task, path, prepared = samples(name, folder)
    write_file(folder / SET, pickle.dumps((task, *task_of(task, path, prepared))))


def load(folder: Path) -> tuple[str, Dataset, SearchSpace]:
    """Return what `read` wrote: the task, the data set and the search space."""
    task, data, space = pickle.loads((folder / SET).read_bytes())
    return task, data, space


class TrainingClock:
    """A function for progress that sums the CPU seconds of worker processes while the search trains networks."""

    def __init__(self) -> None:
        self.seconds, self._is_training, self._before = 0.0, False, 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = sum(seconds_of(child.pid) for child in active_children() if child.pid)
        if self._is_training:
            self.seconds += max(0.0, now - self._before)
        self._is_training, self._before = what.startswith(TRAINING), now


def seconds_of(process: int) -> float:
    """Return the CPU seconds of a running process, given its id; 0 if it has ended."""
    with suppress(OSError):
        *_, fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")  # the command before ")" may hold spaces
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def searched(folder: Path, minutes: float, seed: int) -> None:
    """Search a network for the data set in `folder`, and write the result and the network by hand to the file SEARCHED."""
    task, data, space = load(folder)
    board, place = find("nrf52840"), folder / f"search-{seed}"
    target, resumed = Target(board, api.limits_of(board, *LIMITS[task])), place.exists()
    clock, begin, before = TrainingClock(), time.perf_counter(), cpu_seconds()
    found = search(data, space, target, place, SearchOptions("halving", minutes=minutes, seed=seed), progress=clock)
    took, used = time.perf_counter() - begin, cpu_seconds() - before
    hand = first_network(space, with_measured_overhead(target, space, len(data.classes)), len(data.classes))
    if hand is None:
        raise CompileError("no plain network fits", "leave the set out")
    compared = 2 * 60 * minutes if resumed else used  # the CPU time before the interruption is not known
    line = {
        "set": folder.name,
        "minutes": minutes,
        "seed": seed,
        **result(found),
        "limits": target.limits_by_name(),
        "resumed": resumed,
        "seconds": took,
        "cpu_seconds": used,
        "training_share": clock.seconds / used,
        "in_time": None if resumed else took <= LATE * 60 * minutes,
        "hand": json.loads(to_json(hand[0])),
        "hand_epochs": max(1, round(compared / seconds_of_epoch(hand[0], data, recipe_by_hand(folder.name, data)))),
    }
    write_file(folder / SEARCHED.format(seed), json.dumps(line))


def result(found: SearchResult) -> Line:
    """Return accuracies, intervals and measured needs of a search's network as JSON values."""
    groups, labels, profile = found.data.groups_of("test"), found.data.part("test")[1], found.deployment.profile
    assert found.predicted is not None, "it is a classifier"
    correct = found.predicted == labels
    best = compare(correct, found.baselines, groups)
    counts = found.data.counts()
    return {
        "train": counts["train"] + counts["validation"],
        "test": len(labels),
        "search": float(correct.mean()),
        "float": found.accuracy["test"],
        "interval": found.interval,
        "network": json.loads(to_json(found.arch)),
        "fits": found.fits,
        "needs": {"ram": profile.ram, "flash": profile.flash, "latency_ms": profile.latency_ms(found.deployment.device)},
        "bytes_equal": found.deployment.verification.ok,
        "baselines": {each.name: each.accuracy for each in found.baselines},
        "baseline": best.baseline.name,
        "baseline_accuracy": best.baseline.accuracy,
        "baseline_interval": best.interval,
        "correct": correct.tolist(),
    }


def trained_by_hand(folder: Path, seed: int) -> None:
    """Train the network by hand for the epochs in the file SEARCHED, and write the line of the set to the file LINE.

    It is trained on the training and the validation part, as the network of the search is in the end.
    """
    from tinynas.learning.train import thread_count

    line, (_, data, _) = json.loads((folder / SEARCHED.format(seed)).read_text()), load(folder)
    arch, place = from_json(json.dumps(line["hand"])), folder / f"by-hand-{seed}"
    end, before, resumed = place / "weights.pt", cpu_seconds(), place.exists()
    save_data(data, place / DATA)
    train = partial(train_one, to_json(arch), str(place / DATA), line["hand_epochs"], seed)
    with thread_count(1):
        train(start=None, end=str(end), recipe=recipe_by_hand(line["set"], data), folds=FINAL)
    evaluation, (_, labels) = evaluate_int8(arch, end, data), data.part("test")
    assert evaluation.predicted is not None, "it is a classifier"
    hand, correct = evaluation.predicted == labels, np.array(line.pop("correct"))
    line |= {
        "by_hand": float(hand.mean()),
        "by_hand_float": evaluation.accuracy["test"],
        "by_hand_interval": paired_interval(correct, hand, data.groups_of("test")),
        "by_hand_cpu_seconds": None if resumed else cpu_seconds() - before,
    }
    write_file(folder / LINE.format(seed), json.dumps(line))


def recipe_by_hand(name: str, data: Dataset) -> str:
    """Return the name of the recipe with which the network by hand is trained on the set `name`."""
    return HAND_RECIPE.get(name, recipes_of(data)[0])


def seconds_of_epoch(arch: Arch, data: Dataset, recipe: str) -> float:
    """Measure the CPU seconds of an epoch of the training by hand while all processors of the search train it.

    A CPU second of one busy processor is worth more than one of several, which share caches and memory. The search used the
    latter.
    """
    with pool(THREADS) as workers:
        return float(np.mean(workers.each(timed_epoch, [(arch, data, recipe)] * THREADS)))


def timed_epoch(arch: Arch, data: Dataset, recipe: str) -> float:
    """Return the CPU seconds of an epoch of the training by hand on one thread, measured for about TIMED_S seconds."""
    from tinynas.learning.module import module_of
    from tinynas.learning.train import fit, thread_count

    (values, labels), epochs = data.part(*SEEN), 1
    with thread_count(1):
        while True:  # the first call loads libraries
            before = time.process_time()
            fit(module_of(arch), values, labels, recipe_of(data, epochs, len(values), recipe))
            each = (time.process_time() - before) / epochs
            if epochs * each >= TIMED_S / 2:
                return each
            epochs = max(epochs + 1, int(TIMED_S / each))


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def pinned(processors: SimpleQueue[set[int]]) -> None:
    """Set up a process: it ends with its parent, and it and its children run on the next set of processors of a queue."""
    end_with_parent()
    os.sched_setaffinity(0, processors.get())


def span(pair: tuple[float, float]) -> str:
    return f"{100 * pair[0]:+.1f} to {100 * pair[1]:+.1f}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def judged(interval: Interval, limit: float) -> str:
    """Return an interval as text, with its verdict; `limit` is the largest p-value of a verdict."""
    said = verdict_of(interval, limit)
    return span(interval) + (f" **{said}**" if said else "")


def those(lines: Sequence[Line], key: str, said: str, limit: float) -> list[str]:
    """Return the names of the sets with the verdict `said` on the interval `key`."""
    return [line["set"] for line in lines if key in line and verdict_of(line[key], limit) == said]


def accuracies(line: Line, limit: float) -> list[str]:
    """Return the cells of a set in the table of accuracies."""
    low, high = line["interval"]
    by_hand = (percent(line["by_hand"]), judged(line["by_hand_interval"], limit)) if "by_hand" in line else ("", "")
    return [
        line["set"],
        f"{line['train']:,}",
        f"{line['test']:,}",
        f"**{percent(line['search'])}** [{percent(low)}, {percent(high)}]",
        f"{line['baseline']} {percent(line['baseline_accuracy'])}",
        judged(line["baseline_interval"], limit),
        *by_hand,
    ]


def kind_of(line: Line) -> str:
    """Return what kind of candidate the search of a set returned."""
    network, hand = line["network"], line["hand"]
    if network == hand:
        return "hand-made"
    if network.get("stored"):
        return "nearest neighbours"
    if network.get("pooling") == "none":
        return "without pooling" if network["stem"] else "linear"
    return "with maxima" if network == hand | {"pooling": "both"} else "sampled"


def needs(line: Line) -> list[str]:
    """Return the cells of a set in the table of what the networks and the searches need."""
    return [
        line["set"],
        kind_of(line),
        *(f"{line['needs'][name]:,} of {line['limits'][name]:,}" for name in ("ram", "flash")),
        f"{line['needs']['latency_ms']:.3g} of {line['limits']['latency_ms']:g}",
        f"{line['seconds']:.0f}",
        f"{100 * line['training_share']:.0f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(POOL)}; by default {len(SETS)} of them")
    parser.add_argument("--draw", type=int, metavar="SEED", help=f"{DRAWN} sets, drawn at random with this seed")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="searches at the same time, each on two processors")
    parser.add_argument("--only", choices=STAGES, help="the stage to run; by default all")
    args = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # CPU seconds are compared
    if args.draw is not None and args.sets:
        raise CompileError("--draw chooses the sets", "leave out the names or --draw")
    sets = args.sets or (SETS if args.draw is None else random.Random(args.draw).sample(POOL, DRAWN))
    if unknown := set(sets) - set(POOL):
        raise CompileError(f"the set '{sorted(unknown)[0]}' is unknown", f"give one of {', '.join(POOL)}")
    free = sorted(os.sched_getaffinity(0))
    if not 1 <= args.jobs <= len(free) // THREADS:
        raise CompileError(f"--jobs {args.jobs} is out of range", f"give 1 to {len(free) // THREADS}, half of the processors")
    folders, stages = [args.out / name for name in sets], STAGES if args.only is None else (args.only,)
    used = free[: THREADS * args.jobs]
    if "data" in stages:
        run_missing(used, THREADS, {folder / SET: partial(read, folder.name, folder) for folder in folders})
    if "searches" in stages:
        with pool(len(used)) as workers:
            machine_factor(workers)  # measured once, while all processors are busy as later
        run_missing(
            used,
            THREADS,
            {
                folder / SEARCHED.format(args.seed): partial(searched, folder, args.minutes, args.seed)
                for folder in folders
                if (folder / SET).is_file()
            },
        )
    if "hands" in stages:
        run_missing(
            used,
            1,
            {
                folder / LINE.format(args.seed): partial(trained_by_hand, folder, args.seed)
                for folder in folders
                if (folder / SEARCHED.format(args.seed)).is_file()
            },
        )
    files = [[folder / name.format(args.seed) for name in (LINE, SEARCHED)] for folder in folders]
    lines = [
        json.loads(next(file for file in own if file.is_file()).read_text()) for own in files if any(map(Path.is_file, own))
    ]
    if args.only == "data":
        return 0
    if not lines:
        raise CompileError(f"no set in '{args.out}' has a result", "leave out --only, so that the stages before it run, too")
    write_file(args.out / RESULTS, "".join(f"{json.dumps(line)}\n" for line in lines))
    print("\n".join(report(lines)))
    return 1 if those(lines, "baseline_interval", "worse", LEVEL) or wrong(lines) or len(lines) < len(sets) else 0


def report(lines: Sequence[Line], limit: float = LEVEL) -> Iterator[str]:
    """Yield the lines of two tables in Markdown, with a row per set, and of a list that sums them up.

    `limit` is the largest p-value of a verdict: by default it is not corrected for the number of sets.
    """
    counts, found = ("training samples", "test samples"), ("search, %", "best baseline, %", "search minus baseline, points")
    heads = ["set", *counts, *found, "hand-made, %", "search minus hand-made, points"]
    yield table(heads, (accuracies(line, limit) for line in lines), left=1)
    heads = ["set", "network found", "RAM, B", "Flash, B", "inference (estimated), ms", "search, s"]
    yield table([*heads, "training, % of the search's CPU time"], map(needs, lines))
    late = [line["set"] for line in lines if line["in_time"] is False]
    yield f"- Worse than the best baseline: {', '.join(those(lines, 'baseline_interval', 'worse', limit)) or 'none'}."
    yield f"- Searches longer than {LATE} times `--minutes`: {', '.join(late) or 'none'}."
    faults = ", ".join(wrong(lines)) or "none"
    yield f"- RAM, Flash or time above its limit, or a byte of the C not equal to the reference: {faults}."
    if rivals := [line for line in lines if "by_hand" in line]:
        gains = [line["search"] - line["by_hand"] for line in rivals]
        gain, halves = np.mean(gains), [np.subtract(*line["by_hand_interval"]) / 2 for line in rivals]
        half = np.linalg.norm(halves) / len(rivals)
        means = [f"{span((gain - half, gain + half))} for other test samples of these sets"]
        if len(rivals) > 2:  # it includes the chance of a training
            half = student_t(len(rivals) - 1) * np.std(gains, ddof=1) / math.sqrt(len(rivals))
            means.append(f"{span((gain - half, gain + half))} for other sets, if these were a random sample of sets")
        middle = f"mean {100 * gain:+.1f} points, median {100 * np.median(gains):+.1f}"
        yield f"- Search minus hand-made network, {len(rivals)} sets: {middle}. 95 % interval of the mean: {'; '.join(means)}."
        better, worse = (", ".join(those(rivals, "by_hand_interval", said, limit)) or "none" for said in ("better", "worse"))
        yield f"- Compared with the hand-made network, the search is better on {better} and worse on {worse}."


def wrong(lines: Sequence[Line]) -> list[str]:
    """Return the names of the sets whose network exceeds a limit or gives other bytes than the reference."""
    return [line["set"] for line in lines if not (line["fits"] and line["bytes_equal"])]


def run_missing(used: list[int], each: int, calls: dict[Path, Callable[[], None]]) -> None:
    """Run the calls whose files are missing, in parallel. Print the path of each file when it is there, or why its call failed.

    `used` are the numbers of the processors to run on; each call gets `each` of them.
    """
    processors, count = get_context("spawn").SimpleQueue(), len(used) // each
    for first in range(0, count * each, each):
        processors.put(set(used[first : first + each]))
    with process_pool(count, partial(pinned, processors)) as executor:
        jobs = {executor.submit(call): path for path, call in calls.items() if not path.is_file()}
        for job in as_completed(jobs):
            error = job.exception()
            print(jobs[job] if error is None else f"{jobs[job]}: failed: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
