"""Searches on small data sets, beside simple classifiers and a network made by hand that is trained for as many CPU seconds.

In: names of sets, a time limit. Out: a line per set: accuracy of the search in int8, of the best simple classifier and of the
network by hand (the plain network that fills the limits, in float), and 95 % intervals of the paired differences. The sets are
images of scikit-learn, drawn shapes, four classes of CIFAR-10, series of the package aeon, and spoken digits of speakers who
are not in training. What is in the folder -o is not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.nas.arch import to_json
from tinyweave.nas.budget import Budget, machine_factor
from tinyweave.nas.candidates import first_network
from tinyweave.nas.costs import Target, with_measured_overhead
from tinyweave.nas.halving import DATA, TRAIN, batch_of, train_one
from tinyweave.nas.prepare import Preparation, task_of
from tinyweave.nas.searching import SearchOptions, SearchResult, search
from tinyweave.nas.workers import pool
from tinyweave.tasks.evaluation.baselines import compare
from tinyweave.tasks.evaluation.intervals import paired_interval

SHARED = Path(os.environ.get("TINYWEAVE_SHARED", "../shared")) / "data"
SERIES = ("JapaneseVowels", "BasicMotions", "ItalyPowerDemand", "GunPoint", "ArrowHead", "OSULeaf", "ACSF1")
CIFAR = {"cifar-a": ("cat", "dog", "ship", "truck"), "cifar-b": ("airplane", "automobile", "bird", "frog")}
SETS = ("digits", "shapes", *CIFAR, *SERIES, "spoken-digits")
LIMITS = {  # of RAM, Flash and milliseconds, on an nRF52840
    "images": ("20k", "60k", 150.0),
    "keywords": ("10k", "40k", 20.0),
    "sensors": ("3k", "40k", 10.0),
}
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


def samples(name: str, folder: Path) -> tuple[str, Path, Preparation]:
    """Return (task, file or folder, preparation) of a data set; what must be made first is written into `folder`."""
    if name in ("digits", "shapes"):
        makers: dict[str, Callable[[Path], Path]] = {"digits": digits, "shapes": shapes}
        side, channels = (8, 1) if name == "digits" else (32, 3)
        return "images", makers[name](folder), Preparation((side, side), channels)
    if name in CIFAR:
        for label in CIFAR[name]:
            target = folder / "photos" / label
            target.parent.mkdir(exist_ok=True)
            if not target.exists():
                target.symlink_to((SHARED / "cifar10_fifth" / "train" / label).resolve())
        return "images", folder / "photos", Preparation((28, 28))
    if name == "spoken-digits":
        return "keywords", SHARED / "fsdd" / "recordings", Preparation(by_speaker=True)
    spec = find_spec("aeon")
    if spec is None or spec.origin is None:
        raise CompileError("the series are files of the package aeon, which is not installed", "pip install aeon")
    return "sensors", Path(spec.origin).parent / "datasets" / "data" / name / f"{name}_TRAIN.ts", Preparation()


def by_hand(found: SearchResult, target: Target, space: Any, seconds: float) -> np.ndarray:
    """Train the plain network that fills the limits for `seconds` of CPU time; return which test samples it has right."""
    import torch

    from tinyweave.nas.learning.module import module_of
    from tinyweave.nas.learning.train import scores

    data = found.data
    first = first_network(space, with_measured_overhead(target, space, len(data.classes)), len(data.classes))
    if first is None:
        raise CompileError("no plain network fits", "leave the set out")
    with pool(1) as workers:
        budget = Budget(seconds, 1, machine_factor(workers), data.counts()["train"], batch_of(data))
    epochs = max(1, int(seconds / (budget.step(first[0]) * budget.steps_per_epoch)))
    end = found.folder / "by-hand.pt"
    train_one(to_json(first[0]), str(found.folder / DATA), epochs, 0, start=None, end=str(end), parts=TRAIN)
    module = module_of(first[0])
    module.load_state_dict(torch.load(end, weights_only=True))
    values, labels = data.part("test")
    return np.asarray(scores(module, values).argmax(axis=1) == labels)


def measured(name: str, folder: Path, minutes: float, seed: int) -> Line:
    """Search a network for a data set, train one by hand, and return the figures of the set's line."""
    folder.mkdir(parents=True, exist_ok=True)
    task, path, prepared = samples(name, folder)
    data, space = task_of(task, path, prepared)
    board = find("nrf52840")
    target, begin = Target(board, api.limits_of(board, *LIMITS[task])), time.perf_counter()
    found = search(data, space, target, folder / f"search-{seed}", SearchOptions(minutes=minutes, seed=seed))
    took = time.perf_counter() - begin
    groups, labels = data.groups_of("test"), data.part("test")[1]
    correct = np.equal(labels, found.predicted if found.predicted is not None else -1)
    baseline, hand = compare(correct, found.baselines, groups), by_hand(found, target, space, 2 * 60 * minutes)
    return {
        "set": name,
        "minutes": minutes,
        "seed": seed,
        "test": len(labels),
        "search": float(correct.mean()),
        "interval": found.interval,
        "fits": found.fits,
        "baseline": baseline.baseline.name,
        "baseline_accuracy": baseline.baseline.accuracy,
        "baseline_interval": baseline.interval,
        "by_hand": float(hand.mean()),
        "by_hand_interval": paired_interval(correct, hand, groups),
        "seconds": took,
    }


def row(line: Line) -> str:
    def percent(share: float) -> str:
        return f"{100 * share:.1f}"

    def span(pair: tuple[float, float]) -> str:
        return f"{100 * pair[0]:+.1f} to {100 * pair[1]:+.1f}"

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
    args = parser.parse_args()
    if unknown := set(args.sets) - set(SETS):
        raise CompileError(f"the set '{sorted(unknown)[0]}' is unknown", f"give one of {', '.join(SETS)}")
    print("| set | test samples | search, % | best baseline, % | difference | by hand, % | difference | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    lines = list[Line]()
    for name in args.sets:
        file = args.out / name / f"line-{args.seed}.json"
        if not file.is_file():
            line = measured(name, args.out / name, args.minutes, args.seed)
            file.write_text(json.dumps(line))
        lines.append(json.loads(file.read_text()))
        print(row(lines[-1]), flush=True)
    lost = [line["set"] for line in lines if line["baseline_interval"][1] < 0]
    gain = np.mean([line["search"] - line["by_hand"] for line in lines])
    print(
        f"below the best baseline: {', '.join(lost) or 'none'}; in the mean {100 * gain:+.1f} points from the network by hand"
    )
    return 1 if lost or not all(line["fits"] for line in lines) else 0


if __name__ == "__main__":
    raise SystemExit(main())
