"""Successive halving: train many candidates a little, keep the best, train these longer (arXiv 1502.07943).

In: candidates, a folder with the data set. Out: accuracies by rung. All of a run lies in its folder: each training is recorded
when it ends, so that a run that is interrupted goes on from there, to the same result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..ir import CompileError
from ..progress import Progress, silent
from ..tasks.boxes import head_of
from ..tasks.dataset import Dataset, sized
from . import arch as archs
from .arch import Arch
from .workers import Workers

RUNGS = ((48, 4), (12, 12), (4, 36), (2, 100))  # candidates, epochs of each; about 680 epochs in all
STEPS = 8  # of a training, whose time is measured
RESULTS, WEIGHTS, DATA = "results.jsonl", "weights", "data"
ARRAYS = ("values", "labels", "parts")  # of a data set, a file each


@dataclass(frozen=True)
class Rung:
    """So many candidates, each trained for so many epochs, from the weights that the rung before left."""

    candidates: int
    epochs: int


def rungs_for(epochs: float) -> tuple[Rung, ...]:
    """Return rungs that train for about so many epochs of one network in all; fewer epochs mean fewer of both."""
    factor = (epochs / sum(count * each for count, each in RUNGS)) ** 0.5
    scaled = [Rung(max(1, round(count * factor)), max(1, round(each * factor))) for count, each in RUNGS]
    return (scaled[0], *(rung for before, rung in pairwise(scaled) if rung.candidates < before.candidates))


def total_epochs(rungs: Sequence[Rung]) -> int:
    return sum(rung.candidates * rung.epochs for rung in rungs)


def save_data(data: Dataset, folder: Path) -> None:
    """Write a data set so that every process maps the same file into its memory; CompileError where other files lie there."""
    if others := sorted({path.name for path in folder.glob("*")} - {"data.json", *(f"{name}.npy" for name in ARRAYS)}):
        why = f"'{folder}' holds '{others[0]}', and a run keeps its own samples there"
        raise CompileError(why, "give another folder for the run")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", getattr(data, name))
    about = {"kind": data.kind, "classes": data.classes, "preparation": dict(data.preparation)}
    (folder / "data.json").write_text(json.dumps(about, indent=2))  # the last: with it all of them are there


def load_data(folder: Path) -> Dataset:
    """Read what `save_data` wrote; raise CompileError where that is damaged."""
    try:
        about = json.loads((folder / "data.json").read_text())
        values, labels, parts = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS)
        return Dataset(about["kind"], tuple(about["classes"]), values, np.array(labels), np.array(parts), about["preparation"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = " ".join(f"{type(error).__name__} {error}".split())[:100]
        raise CompileError(f"'{folder}' holds no samples of a run: {said}", "run it again in another folder") from error


def train_one(arch: str, folder: str, epochs: int, seed: int, *, start: str | None, end: str) -> float:
    """Train one candidate in this process, write its weights, and return its accuracy on the validation part.

    A detector's is its mean average precision.
    """
    import torch

    from .learning import detection
    from .learning.module import module_of
    from .learning.train import Recipe, accuracy, fit, save, scores

    given = archs.from_json(arch)
    data, module = sized(load_data(Path(folder)), given.image[:2]), module_of(given, seed)
    head, (unseen, labels) = head_of(data), data.part("validation")
    if start is not None:
        module.load_state_dict(torch.load(start, weights_only=True))
    state = Path(f"{end}.epoch")
    recipe = Recipe(epochs, batch=batch_of(data), kind=data.kind, head=head)
    fit(module, *data.part("train"), recipe, seed, checkpoint=state)
    reached = (
        accuracy(module, unseen, labels) if head is None else detection.mean_precision(scores(module, unseen), labels, head)
    )
    save({name: value.cpu() for name, value in module.state_dict().items()}, Path(end))
    state.unlink(missing_ok=True)
    return reached


def batch_of(data: Dataset) -> int:
    """Return how many samples a step takes: fewer where there are few, so that an epoch has enough of them."""
    few, most, many = (16, 32, 2000) if data.kind == "detection" else (64, 128, 5000)
    return most if data.counts()["train"] >= many else few


def seconds_of_training(arch: Arch, folder: Path, workers: Workers, progress: Progress) -> tuple[float, float]:
    """Return the seconds of an epoch of a network, and of a training beside its epochs, where all workers are busy."""
    progress("measuring how fast it trains", 0, 1)
    for steps in (1, STEPS):  # the first calls import, and fill caches
        taken = workers.each(_timed, [(archs.to_json(arch), str(folder.resolve()), steps)] * workers.count)
    epoch, training = (sum(each) / len(each) for each in zip(*taken, strict=True))
    return epoch, training


def _timed(arch: str, folder: str, steps: int) -> tuple[float, float]:
    import time

    from .learning.module import module_of
    from .learning.train import Recipe, fit, scores

    begin = time.perf_counter()
    given = archs.from_json(arch)
    data, module = sized(load_data(Path(folder)), given.image[:2]), module_of(given)
    (values, labels), (unseen, _) = data.part("train"), data.part("validation")
    batch = batch_of(data)
    count, some = min(len(values), steps * batch), unseen[: steps * batch]
    recipe, start = Recipe(1, batch=batch, kind=data.kind, head=head_of(data)), time.perf_counter()
    fit(module, values[:count], labels[:count], recipe)
    trained = time.perf_counter()
    scores(module, some)
    evaluated = (time.perf_counter() - trained) * len(unseen) / len(some)
    return (trained - start) * len(values) / count, start - begin + evaluated


def halve(
    candidates: Sequence[Arch],
    rungs: Sequence[Rung],
    folder: Path,
    workers: Workers,
    *,
    starts: Sequence[Path] = (),
    fits: Callable[[int], bool] | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Return a record per training: rung, candidate, accuracy on the validation part, the file of its weights.

    The data set lies in `folder`/data. The best of a rung go on to the next one; of equals the first. starts: the files of the
    weights that candidates begin with, random ones if there are none. fits: asked of the best of the first rung before they go
    on; where it says no, the next best goes on, unless it says so of all.
    """
    (folder / WEIGHTS).mkdir(parents=True, exist_ok=True)
    done = read_results(folder)
    place, alive = folder.resolve(), list(range(min(len(candidates), rungs[0].candidates)))
    begin = {candidate: str(file.resolve()) for candidate, file in enumerate(starts)}  # what each begins the next rung with

    def tell(number: int) -> None:
        best = max((record["accuracy"] for (rung, _), record in done.items() if rung == number), default=None)
        said = "" if best is None else f", best {100 * best:.1f} %"
        progress(f"rung {number + 1} of {len(rungs)}{said}", sum(rungs[rung].epochs for rung, _ in done), total_epochs(rungs))

    for number, rung in enumerate(rungs):
        fitting = list(islice(filter(fits, alive), rung.candidates)) if fits and number == 1 else []
        alive = fitting or alive[: rung.candidates]
        missing = [candidate for candidate in alive if (number, candidate) not in done]
        weights = [f"{WEIGHTS}/{number}-{candidate}.pt" for candidate in missing]
        calls = [
            partial(
                train_one,
                archs.to_json(candidates[candidate]),
                str(place / DATA),
                rung.epochs,
                seed + candidate,
                start=begin.get(candidate),
                end=str(place / file),
            )
            for candidate, file in zip(missing, weights, strict=True)
        ]
        tell(number)
        for index, accuracy in workers.as_they_end(calls):
            record = {"rung": number, "candidate": missing[index], "accuracy": accuracy, "weights": weights[index]}
            with (folder / RESULTS).open("a") as results:
                results.write("\n" + json.dumps(record))  # a new line first: the last one may be cut off
            done[number, missing[index]] = record
            tell(number)
        alive.sort(key=lambda candidate: (-done[number, candidate]["accuracy"], candidate))
        begin = {candidate: str(place / done[number, candidate]["weights"]) for candidate in alive}
    return [done[key] for key in sorted(done)]


def read_results(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """Return what is recorded of a run, by rung and candidate; a line that was cut off is no record."""
    found = dict[tuple[int, int], dict[str, Any]]()
    if (folder / RESULTS).is_file():
        for line in (folder / RESULTS).read_text().splitlines():
            with suppress(ValueError):
                record = json.loads(line)
                if (folder / record["weights"]).is_file():
                    found[record["rung"], record["candidate"]] = record
    return found
