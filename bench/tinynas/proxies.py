"""Rank correlation of zero-cost proxies with accuracy after a short training.

In: a folder of labelled samples (--task, --data). Out: per proxy Kendall's and Spearman's rank correlation with the accuracy on
the validation part of networks that were drawn at random and trained for a few epochs each, and the seconds that it takes. What
was trained lies in a folder (-o) and is not trained again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import numpy as np

from tinynas.arch import Arch, to_json
from tinynas.halving import augmentations_of, batch_of
from tinynas.prepare import TASKS, Preparation, task_of
from tinynas.proxies import PROXIES, first_batch, score
from tinynas.space import arch_of, sample
from tinynas.tasks.dataset import PARTS, Dataset


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="keywords")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--networks", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--samples", type=int, default=0, help="of the training part, the first so many; 0: all")
    parser.add_argument("--width", type=float, help="of all networks; any of the space's if left out")
    args = parser.parse_args()
    data, space = task_of(args.task, args.data, Preparation((args.side, args.side)))
    data, rng = _fewer(data, args.samples), random.Random(0)
    archs = [arch_of(space, sample(space, rng, width=args.width), len(data.classes)) for _ in range(args.networks)]
    reached = [trained(arch, data, args.epochs, args.out) for arch in archs]
    print(
        f"{len(archs)} networks, {args.epochs} epochs of {data.counts()['train']} samples: accuracy {np.ptp(reached):.3f} wide"
    )
    print(f"from {min(reached):.3f} to {max(reached):.3f}, one sample of validation is {1 / data.counts()['validation']:.3f}")
    batches = [first_batch(data, arch) for arch in archs]
    for name in PROXIES:
        begin = time.process_time()
        values = [score(name, arch, batch) for arch, batch in zip(archs, batches, strict=True)]
        seconds = (time.process_time() - begin) / len(archs)
        ranks = f"Kendall {kendall(values, reached):+.2f}  Spearman {spearman(values, reached):+.2f}"
        print(f"{name:14} {ranks}  {seconds:.3f} s each")
    return 0


def _fewer(data: Dataset, count: int) -> Dataset:
    train = np.flatnonzero(data.parts == PARTS.index("train"))
    left = np.sort(np.random.default_rng(0).permutation(train)[: count or len(train)])
    kept = np.union1d(left, np.flatnonzero(data.parts != PARTS.index("train")))
    groups = None if data.groups is None else data.groups[kept]
    return replace(data, values=data.values[kept], labels=data.labels[kept], parts=data.parts[kept], groups=groups)


def trained(arch: Arch, data: Dataset, epochs: int, folder: Path) -> float:
    """Return a network's accuracy on the validation part, trained once."""
    from tinynas.learning.module import module_of
    from tinynas.learning.train import Recipe, accuracy, fit, thread_count

    folder.mkdir(parents=True, exist_ok=True)
    file, key = folder / "trained.jsonl", [to_json(arch), epochs, data.counts()["train"]]
    for line in file.read_text().splitlines() if file.is_file() else ():
        *known, value = json.loads(line)
        if known == key:
            return float(value)
    with thread_count(1):
        module = module_of(arch)
        fit(module, *data.part("train"), Recipe(epochs, batch=batch_of(data), augmentation=augmentations_of(data)[0]))
        reached = accuracy(module, *data.part("validation"))
    with file.open("a") as out:
        out.write(json.dumps([*key, reached]) + "\n")
    return reached


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Kendall's tau-b: pairs in the same order less those in the other, ties counted as neither."""
    a, b = (np.sign(np.subtract.outer(values, values)) for values in (first, second))
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the correlation of ranks, of equal values the mean of theirs."""
    ranks = [
        np.array([(np.less(v, x).sum() + np.less_equal(v, x).sum()) / 2 for x in v]) for v in map(np.asarray, (first, second))
    ]
    return float(np.corrcoef(*ranks)[0, 1])


if __name__ == "__main__":
    raise SystemExit(main())
