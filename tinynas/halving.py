"""Successive halving (arXiv 1502.07943): train many candidates for a few epochs, then only the best for longer, and so on.

In: candidates, a folder with the data set. Out: a record per training, written when it ends, so an interrupted run resumes to
the same result. A network is judged by its accuracy on the validation samples or, if these are few, by the mean cross-entropy
of a cross-validation on the samples that a training has not seen: on few samples many networks have the same accuracy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import ceil, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.files import named, write_below
from tinyweave.support.progress import Progress, silent

from . import arch as archs
from . import journal
from .arch import Arch, is_fitted
from .tasks.boxes import Head, head_of
from .tasks.dataset import Dataset, sized
from .training_run import TrainingRun
from .workers import POLL_S, Workers

if TYPE_CHECKING:
    from .learning.train import Recipe

TRAIN, SEEN = ("train",), ("train", "validation")  # parts of the data set that a training sees: all but the final; the final
FINAL = 0  # value of `folds` for the final training, which sees the parts SEEN
FEW, FEW_GROUPS = 200, 5  # with fewer validation samples or groups, networks are judged by cross-validation
FOLDS = 4  # at most, of a cross-validation
RESULTS, TRIALS, WEIGHTS, DATA = "results.jsonl", "trials.jsonl", "weights", "data"
AUGMENTATIONS = {  # kind of samples -> names of augmentations that may suit them, the strongest first
    "images": ("images", "images_unflipped", "none"),
    "sounds": ("sounds", "none"),
    "sensors": ("sensors_shifted", "sensors", "none"),
}
SGD = "-sgd"  # at the end of the name of a recipe that trains by SGD; others train by AdamW
CUTMIX = 0.5  # share of the steps of a long training of an image classifier that paste parts of other images
CUTMIX_FROM = 300_000  # samples, counted in each epoch anew, that such a training sees at least
CUTMIX_DECAY = 5e-4  # weight decay of trainings with CutMix
ARRAYS = ("values", "labels", "parts", "groups")  # fields of a Dataset, one file each; the file of the groups may be empty
Samples = tuple[NDArray[np.int8], NDArray[Any]]  # values and labels


@dataclass(frozen=True)
class Rung:
    """One round of successive halving, in which some candidate networks are trained for some epochs."""

    candidates: int  # number of networks that are trained
    epochs: int  # of each candidate in this rung, times its pace (`Trainings.paces`)


def total_epochs(rungs: Sequence[Rung]) -> int:
    """Return the sum of training epochs over all candidates and rungs."""
    return sum(rung.candidates * rung.epochs for rung in rungs)


def save_data(data: Dataset, folder: Path) -> None:
    """Write a data set as .npy files that processes can map into memory; raise CompileError if the folder has other files."""
    if others := sorted({path.name for path in folder.glob("*")} - {"data.json", *(f"{name}.npy" for name in ARRAYS)}):
        why = f"'{folder}' holds '{others[0]}', but a run stores its samples there"
        raise CompileError(why, "give another folder for the run")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ARRAYS:
        with named(path := folder / f"{name}.npy"):
            np.save(path, getattr(data, name) if getattr(data, name) is not None else np.empty(0, np.int64))
    about = {"kind": data.kind, "classes": data.classes, "preparation": dict(data.preparation)}
    write_below(folder, {"data.json": json.dumps(about, indent=2)})  # written last: if it exists, the arrays are complete


def load_data(folder: Path) -> Dataset:
    """Read a data set that `save_data` wrote; raise CompileError if it is damaged."""
    try:
        about = json.loads((folder / "data.json").read_text())
        values, *others = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS)
        labels, parts, groups = map(np.array, others)
        prepared = about["preparation"]
        return Dataset(about["kind"], tuple(about["classes"]), values, labels, parts, prepared, groups if len(groups) else None)
    except (OSError, ValueError, KeyError, TypeError) as error:
        fault = " ".join(f"{type(error).__name__} {error}".split())[:100]
        raise CompileError(f"the samples in '{folder}' are damaged: {fault}", "run it again in another folder") from error


class Score(NamedTuple):
    """The score of a trained network on samples that it has not seen."""

    accuracy: float  # share of samples classified correctly, 0 to 1; of a detector, the mean average precision
    loss: float | None = None  # mean cross-entropy; None for a detector


def is_folded(kind: str, validation: int, groups: int = FEW_GROUPS) -> bool:
    """Return whether `validation` samples of some groups are too few to compare networks: cross-validation is necessary."""
    return (validation < FEW or groups < FEW_GROUPS) and kind != "detection"


def groups_for_validation(data: Dataset) -> int:
    """Return the number of groups in the validation part, or FEW_GROUPS, which is enough, if samples are independent."""
    groups = data.groups_of("validation")
    return FEW_GROUPS if groups is None else len(np.unique(groups))


def folds_of(data: Dataset) -> int:
    """Return how often a network is trained in a cross-validation: until FEW samples of FEW_GROUPS groups have judged it.

    These are 2 to all of `_divisions`. Return 1, for no cross-validation, if the validation part suffices, or a class has a
    single sample, or group.
    """
    if not is_folded(data.kind, data.counts()["validation"], groups_for_validation(data)):
        return 1
    (_, labels), groups = data.part(*SEEN), data.groups_of(*SEEN)
    divisions = _divisions(data, labels, groups)
    needed = FEW / len(labels) if groups is None else max(FEW / len(labels), FEW_GROUPS / len(np.unique(groups)))
    return min(max(2, ceil(divisions * needed)), divisions) if divisions > 1 else 1


def _divisions(data: Dataset, labels: NDArray[Any], groups: NDArray[np.int64] | None) -> int:
    """Return into how many folds samples are divided: FOLDS, or the fewest samples of a class, or groups."""
    owners = np.arange(len(labels)) if groups is None else groups
    return min(FOLDS, *(len(np.unique(owners[labels == label])) for label in range(len(data.classes))))


def splits(data: Dataset, folds: int) -> list[tuple[Samples, Samples]]:
    """Return the (values, labels) of each training and of the samples that judge it.

    With one fold these are the training part and the validation part. With more, both together are divided into folds of
    about equal classes, without a group in two; each of the first `folds` judges a training on the others. With FINAL, one
    training sees both, so validation is not fair.
    """
    if folds in (1, FINAL):
        return [(data.part(*(SEEN if folds == FINAL else TRAIN)), data.part("validation"))]
    from sklearn.model_selection import StratifiedGroupKFold

    (values, labels), groups = data.part(*SEEN), data.groups_of(*SEEN)
    divided = StratifiedGroupKFold(_divisions(data, labels, groups), shuffle=True, random_state=0).split(
        values[:, 0, 0], labels, np.arange(len(labels)) if groups is None else groups
    )
    return [((values[seen], labels[seen]), (values[unseen], labels[unseen])) for seen, unseen in islice(divided, folds)]


def train_one(
    arch: str,
    folder: str,
    epochs: int,
    seed: int,
    *,
    start: str | None,
    end: str,
    recipe: str | None = None,
    folds: int = 1,
) -> Score:
    """Train one network, write its weights to a file, and return its score on samples that it has not seen (see `splits`).

    An interrupted training resumes from its last checkpoint; an interrupted cross-validation begins again. Its trainings begin
    with the weights of the same folds in an earlier one, or else with random weights: those of `start` may have seen the
    samples that judge them. The weights of a fitted network are computed from the samples (`load_fitted`), so it needs no
    epochs, no initial weights and no recipe.

    Args:
        arch: The architecture as JSON.
        folder: Folder of the data set, as `save_data` wrote it.
        start: File of initial weights; None for random weights.
        recipe: Name of the recipe, one of `recipes_of`; None for the first.
        folds: Number of trainings; with more than one the network is cross-validated, and the weights are those of the last
            training. Or FINAL, to train once on all samples but those for test.
    """
    import torch

    from .learning.module import load_fitted, module_of
    from .learning.train import fit, on_cpu, save, scores

    architecture = archs.from_json(arch)
    data = sized(load_data(Path(folder)), architecture.image[:2])
    head, checkpoint, state = head_of(data), Path(f"{end}.epoch"), state_file(Path(end))
    outputs, targets = list[NDArray[np.float32]](), list[NDArray[Any]]()
    for fold, (seen, (values, labels)) in enumerate(splits(data, folds)):
        run = TrainingRun(seed, checkpoint=None if folds > 1 else checkpoint, after_step=noting(state, fold * epochs))
        module = module_of(architecture, seed)
        if is_fitted(architecture):
            load_fitted(module, architecture, *seen)
        else:
            begin = None if start is None else fold_file(start, fold) if folds > 1 else Path(start)
            if begin is not None and (folds <= 1 or begin.is_file()):
                module.load_state_dict(torch.load(begin, weights_only=True))
            fit(module, *seen, recipe_of(data, epochs, len(seen[0]), recipe), run)
            if folds > 1:
                save(on_cpu(module), fold_file(end, fold))
        outputs.append(scores(module, values))
        targets.append(labels)
    save(on_cpu(module), Path(end))
    checkpoint.unlink(missing_ok=True)
    return _score(np.concatenate(outputs), np.concatenate(targets), head)


def fold_file(end: str, fold: int) -> Path:
    """Return the file of the weights of one training of a cross-validation; `end` is the file of its last training."""
    return Path(end).with_suffix(f".{fold}.pt")


def state_file(end: Path) -> Path:
    """Return the file in which a training notes its state for progress bars; `end` is the file for its trained weights."""
    return end.with_name(f"{end.name}.epochs")


def noting(state: Path, before: int = 0) -> Callable[[int, Any], None]:
    """Return a function (epochs done, loss) that writes both, epochs plus `before`, to a file, at most twice a second."""
    due = time.monotonic()

    def note(done: int, loss: Any) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + POLL_S
            with suppress(OSError):  # it is only for the progress bar
                state.write_text(f"{before + done} {float(loss)}")

    return note


def _read_state(state: Path) -> tuple[int, float] | None:
    """Return the epochs that a training has done and its last loss; None if it does not run, or writes the file now."""
    with suppress(OSError, ValueError):
        done, loss = state.read_text().split()
        return int(done), float(loss)
    return None


def batch_of(data: Dataset) -> int:
    """Return the batch size: the largest power of two up to a twentieth of the training samples, 16 to 128 (32: detection)."""
    return batch_for(data.kind, data.counts()["train"])


def batch_for(kind: str, samples: int) -> int:
    """Return the batch size as `batch_of` does, given the kind of a data set and its number of training samples."""
    most = 32 if kind == "detection" else 128
    return min(most, max(16, (1 << (samples // 20).bit_length()) // 2))


def recipes_of(data: Dataset) -> tuple[str, ...]:
    """Return the names of the recipes to compare for a data set.

    They are AdamW with each augmentation (`augment.AUGMENT`), the strongest first, then SGD with the strongest. Detectors are
    trained by SGD.
    """
    names = AUGMENTATIONS.get(data.kind)
    return (*names, f"{names[0]}{SGD}") if names else (f"none{SGD}",)


def recipe_of(data: Dataset, epochs: int, samples: int, name: str | None = None) -> Recipe:
    """Return the hyperparameters of a training of which an epoch sees `samples` samples; `name` is one of `recipes_of`.

    A long training of an image classifier uses CutMix, and with SGD a larger weight decay, or it would learn the samples by
    heart. A name of None is the first.
    """
    from .learning.train import ADAM_DECAY, ADAM_RATE, Recipe

    name = name or recipes_of(data)[0]
    recipe = Recipe(epochs, batch=batch_of(data), augmentation=name.removesuffix(SGD), head=head_of(data))
    is_adam = not name.endswith(SGD)
    if is_adam:
        recipe = replace(recipe, adam=True, rate=ADAM_RATE, weight_decay=ADAM_DECAY)
    if data.kind == "images" and epochs * samples >= CUTMIX_FROM:
        return replace(recipe, cutmix=CUTMIX, weight_decay=ADAM_DECAY if is_adam else CUTMIX_DECAY)
    return recipe


class Trainings(NamedTuple):
    """The settings that all trainings of a search share."""

    folder: Path  # of the run, with the data set in its subfolder `data`
    workers: Workers  # execute the trainings
    seed: int = 0  # base of the seeds
    recipe: str | None = None  # its name; None for the first for the kind of samples
    folds: int = 1  # of a cross-validation, 1 for none; or FINAL
    paces: Sequence[float] = ()  # factors on the epochs of each candidate in a rung, for equal times; empty for equal epochs
    progress: Progress = silent  # called before and after each training, and twice per second

    def call(
        self,
        arch: Arch,
        epochs: int,
        end: str,
        *,
        start: Path | None = None,
        seed: int = 0,
    ) -> Callable[[], Score]:
        """Return a call of `train_one` with these settings, without arguments.

        `end` is relative to the folder of the run, `seed` is added to the common seed.
        """
        place = self.folder.resolve()
        return partial(
            train_one,
            archs.to_json(arch),
            str(place / DATA),
            epochs,
            self.seed + seed,
            start=None if start is None else str(start.resolve()),
            end=str(place / end),
            recipe=self.recipe,
            folds=self.folds,
        )

    def as_they_end(
        self, calls: Sequence[Callable[[], Score]], ends: Sequence[str], report: Callable[[int, str], None]
    ) -> Iterator[tuple[int, Score]]:
        """Run trainings, made by `call`, and yield (index, score) as they end; `ends` are the files of weights in the run.

        `report` is called twice per second, and after each training, with the epochs done by those that run, and text about
        their loss.
        """
        files = [state_file(self.folder / end) for end in ends]
        latest = dict[Path, tuple[int, float]]()  # epochs done and loss of each running training

        def look() -> None:
            latest.update({file: state for file in files if (state := _read_state(file)) is not None})
            losses = [loss for _, loss in latest.values()]
            report(sum(done for done, _ in latest.values()), f": loss {sum(losses) / len(losses):.3f}" if losses else "")

        for index, score in self.workers.as_they_end(calls, look):
            files[index].unlink(missing_ok=True)
            latest.pop(files[index], None)
            yield index, score
            look()

    @property
    def trained_times(self) -> int:
        """Return how often a network is trained: once, or once per fold of a cross-validation."""
        return max(1, self.folds)


def choose_recipe(network: Arch, names: Sequence[str], epochs: int, trainings: Trainings) -> str:
    """Train a network once with each recipe of `names` (`recipes_of`); return the one to use.

    The optimiser is AdamW, unless it is `clearly_worse_below` SGD with the first augmentation: SGD leads in short trainings.
    With cross-validation the augmentation is that of least loss. Otherwise it is the first that is not clearly worse than the
    best, as short trainings favour weak ones, which come later. Recorded trainings are not repeated.
    """
    folder, progress = trainings.folder, trainings.progress
    (folder / WEIGHTS).mkdir(parents=True, exist_ok=True)
    done = {each["recipe"]: each for each in journal.entries(folder / TRIALS)}
    missing = [name for name in names if name not in done or not (folder / trial_file(name)).is_file()]
    calls = [trainings._replace(recipe=name).call(network, epochs, trial_file(name)) for name in missing]
    each_epochs = epochs * trainings.trained_times

    def report(running: int, loss: str = "") -> None:
        words = f"recipes{loss}{_best(done.values())}"
        progress(words, len(done) * each_epochs + running, len(names) * each_epochs)

    report(0)
    for index, score in trainings.as_they_end(calls, list(map(trial_file, missing)), report):
        name = missing[index]
        done[name] = {"recipe": name, **score._asdict(), "epochs": each_epochs}
        journal.append(folder / TRIALS, done[name])
    augmentations = [name for name in names if not name.endswith(SGD)]
    if not augmentations:
        return names[0]
    strongest, by_sgd, data = augmentations[0], f"{augmentations[0]}{SGD}", load_data(folder / DATA)
    judges = SEEN if trainings.folds > 1 else ("validation",)
    groups, count = data.groups_of(*judges), sum(data.counts()[name] for name in judges)
    owners = count if groups is None else len(np.unique(groups))  # samples of a group err together

    def first_good(names: Sequence[str], count: int) -> str:
        least = clearly_worse_below(max(done[name]["accuracy"] for name in names), count)
        return next(name for name in names if done[name]["accuracy"] >= least)

    is_sgd = by_sgd in done and first_good((strongest, by_sgd), owners) == by_sgd
    least = min(augmentations, key=lambda name: done[name]["loss"])
    return (least if trainings.folds > 1 else first_good(augmentations, count)) + (SGD if is_sgd else "")


def _best(records: Iterable[dict[str, Any]]) -> str:
    """Return text about the highest accuracy of trainings, such as ", best 97.0 %"; "" if there are no records."""
    best = max((record["accuracy"] for record in records), default=None)
    return "" if best is None else f", best {100 * best:.1f} %"


def start_file(candidate: int) -> str:
    """Return the file of the weights that a supernet has for a candidate, relative to the run's folder."""
    return f"{WEIGHTS}/start-{candidate}.pt"


def trial_file(recipe: str) -> str:
    """Return the file of the weights of the network that was trained to try a recipe, relative to the run's folder."""
    return f"{WEIGHTS}/trial-{recipe}.pt"


def best_candidates(records: Sequence[dict[str, Any]], folds: int, expenses: Sequence[float] = ()) -> list[dict[str, Any]]:
    """Return the records of trainings in one rung, the best candidate first.

    The best is the most accurate, or with cross-validation the one of least loss; candidates without any error are equal. Of
    equal ones that of least expense (such as `Costs.product`) is the best, then the first.
    """

    def key(each: dict[str, Any]) -> tuple[float, float, int]:
        worth = -each["accuracy"] if folds <= 1 or each["accuracy"] == 1 else each["loss"]
        return worth, expenses[each["candidate"]] if expenses else 0, each["candidate"]

    return sorted(records, key=key)


def cheapest_first(records: Sequence[dict[str, Any]], expenses: Sequence[float]) -> list[dict[str, Any]]:
    """Return records, best first, with those that have the accuracy of the first ordered by the expense of their candidates."""
    equal = [each for each in records if each["accuracy"] == records[0]["accuracy"]]
    return sorted(equal, key=lambda each: expenses[each["candidate"]]) + [each for each in records if each not in equal]


def fitted_first(records: Sequence[dict[str, Any]], fitted: Collection[int], count: int) -> list[dict[str, Any]]:
    """Return records of cross-validations with the most accurate fitted network first, if it is not clearly worse than others.

    The best of many trained networks was chosen by the same `count` samples and is partly best by chance, so it must be clearly
    more accurate (`clearly_worse_below`). `records` are the finalists, best first; `fitted` are indices of candidates.
    """
    least = clearly_worse_below(max(each["accuracy"] for each in records), count)
    good = [each for each in records if each["candidate"] in fitted and each["accuracy"] >= least]
    first = [max(good, key=lambda each: each["accuracy"])] if good else []
    return [*first, *(each for each in records if each not in first)]


def successive_halving(
    candidates: Sequence[Arch],
    rungs: Sequence[Rung],
    trainings: Trainings,
    *,
    starts: Mapping[int, Path] | None = None,
    fits: Callable[[int], bool] | None = None,
    fitted: Sequence[int] = (),
    expenses: Sequence[float] = (),
) -> list[dict[str, Any]]:
    """Train candidates by successive halving, and return a record per training: rung, candidate, accuracy, epochs, weights.

    The best candidates of a rung (`best_candidates`) enter the next, with their weights except in a cross-validation. Recorded
    trainings are not repeated. If candidates make no error in a rung, they enter the last without training, and others are
    skipped.

    Args:
        candidates: The networks, in order of preference; surplus ones are not trained.
        trainings: The settings that all trainings share; a candidate's index is added to their seed.
        starts: Files of initial weights by index of the candidate; other candidates begin with random weights.
        fits: Takes the index of a candidate and returns whether it fits the device. If there are several rungs, only survivors
            that fit enter the last one; if none does, dropped candidates that fit; if none of these does, all survivors.
        fitted: The fitted networks, the last candidates. They need no epochs, so they enter only the last rung, in addition to
            its other networks, if `fits` allows it.
        expenses: The expense of each candidate, see `best_candidates`.
    """
    folder, progress = trainings.folder, trainings.progress
    (folder / WEIGHTS).mkdir(parents=True, exist_ok=True)
    done = {key: record for key, record in read_results(folder).items() if key[0] < len(rungs)}  # without a final training
    survivors = list(range(min(len(candidates) - len(fitted), rungs[0].candidates)))
    initial = dict(starts or {})  # candidate -> its latest weights

    def report(number: int, running: int = 0, loss: str = "") -> None:
        best, times = _best(record for (rung, _), record in done.items() if rung == number), trainings.trained_times
        epochs, total = sum(record["epochs"] for record in done.values()) * times + running, total_epochs(rungs) * times
        progress(f"rung {number + 1} of {len(rungs)}{loss}{best}", min(epochs, total), total)

    flawless = dict[int, dict[str, Any]]()  # candidates that made no error, best first -> their latest records
    for number, rung in enumerate(rungs):
        if flawless and number < len(rungs) - 1:
            continue
        if fits and 0 < number == len(rungs) - 1:
            first = [record for (of_rung, _), record in done.items() if of_rung == 0]
            first = best_candidates(first, trainings.folds, expenses)
            dropped = [record["candidate"] for record in first if record["candidate"] not in survivors]
            fitting = (list(islice(filter(fits, group), rung.candidates)) for group in (survivors, dropped))
            survivors = next(filter(None, fitting), survivors)
        survivors = survivors[: rung.candidates]
        if number == len(rungs) - 1:
            survivors += [candidate for candidate in fitted if fits is None or fits(candidate)]
        done |= {(number, each): {**flawless[each], "rung": number, "epochs": 0} for each in survivors if each in flawless}
        missing = [candidate for candidate in survivors if (number, candidate) not in done]
        weights = [f"{WEIGHTS}/{number}-{candidate}.pt" for candidate in missing]
        epochs = {each: max(1, round(rung.epochs * (trainings.paces[each] if trainings.paces else 1))) for each in missing}
        calls = [
            trainings.call(candidates[candidate], epochs[candidate], file, start=initial.get(candidate), seed=candidate)
            for candidate, file in zip(missing, weights, strict=True)
        ]
        report(number)
        for index, score in trainings.as_they_end(calls, weights, partial(report, number)):
            record = {"rung": number, "candidate": missing[index], **score._asdict(), "weights": weights[index]}
            record["epochs"] = 0 if missing[index] in fitted else epochs[missing[index]]
            journal.append(folder / RESULTS, record)
            done[number, missing[index]] = record
        ranking = best_candidates([done[number, candidate] for candidate in survivors], trainings.folds, expenses)
        flawless = {record["candidate"]: record for record in ranking if record["accuracy"] == 1}
        survivors = list(flawless) or [record["candidate"] for record in ranking]
        initial |= {record["candidate"]: folder / record["weights"] for record in ranking}
    return [done[key] for key in sorted(done)]


def train_finally(arch: Arch, best: dict[str, Any], epochs: int, trainings: Trainings) -> dict[str, Any]:
    """Train the network of the record `best` on training and validation samples; return a record with the accuracy before.

    It continues from the weights of the record. A recorded final training is not repeated.
    """
    folder, number, done = trainings.folder, best["rung"] + 1, 0
    known = read_results(folder).get((number, best["candidate"]))
    if known is not None:
        return known
    end = f"{WEIGHTS}/final-{best['candidate']}.pt"
    call = trainings._replace(folds=FINAL).call(arch, epochs, end, start=folder / best["weights"])

    def report(running: int, loss: str = "") -> None:
        trainings.progress(f"final training{loss}{_best([best])}", done + running, epochs)

    report(0)
    for _ in trainings.as_they_end([call], [end], report):
        done = epochs
    record = {**best, "rung": number, "weights": end, "epochs": epochs}
    journal.append(folder / RESULTS, record)
    return record


def _score(outputs: NDArray[np.float32], labels: NDArray[Any], head: Head | None) -> Score:
    """Return the score of class scores [n, classes], or of a detector's head [n, channels, rows, columns] by its boxes."""
    if head is not None:
        from .learning import detection

        return Score(detection.mean_precision(outputs, labels, head))
    shifted = outputs.astype(np.float64) - outputs.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]
    return Score(float((outputs.argmax(axis=1) == labels).mean()), float(losses.mean()))


def clearly_worse_below(accuracy: float, count: int) -> float:
    """Return the accuracy on the same `count` samples below which others are clearly worse: one standard error less."""
    share = (accuracy * count + 2) / (count + 4)  # as Agresti and Coull do, because the error of 100 % is not 0
    return accuracy - sqrt(share * (1 - share) / (count + 4))


def read_results(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the records of a run's trainings, by (rung, candidate); leave out trainings whose weights file is missing."""
    records = [record for record in journal.entries(folder / RESULTS) if (folder / record["weights"]).is_file()]
    return {(record["rung"], record["candidate"]): record for record in records}
