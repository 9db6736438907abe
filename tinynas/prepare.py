"""Read the samples of a task and choose a search space for them. In: a folder. Out: a Dataset, a SearchSpace.

`task_of` reads samples in a given input size. Without one, `task_within` takes that of stage one (`stage_one.best_input`),
whose networks have the most MACs; if there is time, a network for it and for about half and twice as many values are trained
briefly, and the largest size that is not clearly worse than the best is chosen, and stored in the folder of the run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tinyweave.ir import CompileError
from tinyweave.ops.window import Size
from tinyweave.support.files import write_file
from tinyweave.support.progress import Progress, silent

from . import halving
from .arch import Arch, stride, to_json
from .budget import PLANNING, Budget, machine_factor
from .candidates import first_network
from .costs import Target, with_estimated_overhead
from .search_options import MINUTES, RUN, check_options, search_of, strategy_for
from .settings import SPACES, TASKS, Preparation, SearchOptions
from .space import MOBILE, SearchSpace, detectors, keywords, mobilenet_v3, sensors, small_images
from .stage_one import Aim, Setting, best_input
from .tasks.dataset import Dataset, Survey
from .tasks.detection import read_detection, survey_detection
from .tasks.features import HOP_MS
from .tasks.images import read_images, survey_images
from .tasks.sensors import read_sensors
from .tasks.sounds import features_of, read_sounds, survey_sounds
from .tasks.visual_wake_words import DEFAULT_LABEL, read_visual_wake_words, survey_visual_wake_words
from .workers import Workers, pool

EIGHTHS = range(4, 9)  # image sizes of a joint space, in eighths of the given size
MIN_JOINT_SIDE = 32  # rows and columns of the smallest images of a joint space
MAX_SMALL_SIDE = 64  # rows and columns up to which the space for small images is used
SIDES = range(8, 513)
SMALL_SIDES, LARGE_SIDES = (16, 24, 32, 40, 48, 56, 64), range(80, 225, 16)  # rows of images from which stage one chooses
DETECTOR_SIDES = range(48, 257, 16)  # the same for detection
CHOSEN_BANDS = (10, 20, 32, 40)  # the same for sounds
DEFAULT_SIDE, BANDS = 32, 40  # rows and columns of images, and log-mel bands, if nobody chooses them
HOPS_MS = (10.0, 16.0, 32.0)  # from which stage one chooses, beside HOP_MS


KINDS = {"images": "images", "visual-wake-words": "images", "keywords": "sounds", "detection": "detection"}  # with open sizes
STAGE_ONE = "stage_one.json"  # in the folder of a run: the choice of the input's size
INPUT_SHARE = 0.1  # of the time limit, to choose it: half to plan networks, half to train some briefly
FEWEST_PLANS = 20  # networks that are planned, however little time there is
TRIAL_STEPS = 100  # training steps of such a network at least, or none is trained


def prepared_for(network: Arch, prepared: Preparation) -> Preparation:
    """Return `prepared` with the sizes of a network's input; its columns are MFCC if `coefficients` is not 0, else bands."""
    rows, columns, channels = network.image
    is_mfcc = prepared.coefficients > 0
    if is_mfcc and prepared.coefficients != columns:
        why = f"coefficients={prepared.coefficients}, but the network is for {columns} features per frame"
        raise CompileError(why, f"give coefficients={columns}")
    return replace(
        prepared,
        size=(rows, columns),
        channels=channels,
        bands=prepared.bands if is_mfcc else columns,
        frames=rows,
        window=columns,
        anchors=network.anchors or 1,
        stride=stride(network),
    )


def check_network(network: Arch, data: Dataset) -> None:
    """Raise CompileError if a network's input shape, number of anchors or number of classes does not fit the samples."""
    have, need = ("x".join(map(str, sides)) for sides in (network.image, data.values.shape[1:]))
    if have != need:
        raise CompileError(f"the network is for samples of {have}, these are {need}", "give the samples' sizes")
    anchors = len(data.preparation.get("anchors", ()))
    if network.anchors != anchors:
        raise CompileError(f"the network has {network.anchors} anchors, the samples need {anchors}", "0 means a classifier")
    if network.classes != len(data.classes):
        raise CompileError(f"the network has {network.classes} classes, the samples {len(data.classes)}", "make them equal")


@dataclass(frozen=True)
class _Choice:
    """The samples, the possible sizes and the limits from which the size of a network's input is chosen."""

    task: str
    path: Path  # of the samples
    inputs: tuple[Preparation, ...]  # the possible settings, from the smallest input to the largest
    spaces: tuple[SearchSpace, ...]  # the search space of each setting; it has one size
    survey: Survey
    target: Target
    run: Path  # folder of the run
    options: SearchOptions
    progress: Progress

    @property
    def sizes(self) -> list[list[int]]:
        """Return the rows and columns of each possible input."""
        return [list(space.sizes[0]) for space in self.spaces]

    @property
    def trials(self) -> Path:
        """Return the folder of the samples and weights of short trainings."""
        return (self.run / STAGE_ONE).with_suffix("").resolve()

    @property
    def minutes(self) -> float:
        """Return the time limit of the search in minutes."""
        return MINUTES if self.options.minutes is None else self.options.minutes

    @property
    def is_timed(self) -> bool:
        """Return whether the search is one by successive halving with a time limit."""
        from .learning.team import is_launched

        strategy = "supernet" if is_launched() else strategy_for(KINDS[self.task], self.options, self.run, None)
        return strategy == "halving" and self.options.rungs is None


def task_within(
    task: str,
    path: Path,
    prepared: Preparation,
    target: Target,
    run: Path,
    *,
    options: SearchOptions,
    progress: Progress = silent,
) -> tuple[Dataset, SearchSpace, SearchOptions]:
    """Read the samples of a task as `task_of` does, for a search; first choose the sizes that `prepared` leaves open.

    If the folder `run` has the choice of an earlier call with the same arguments, it is kept. Return the data set, whose
    `preparation["stage_one"]` says how a size was chosen; the search space; and the options with the time that is left.
    """
    check_task(task, prepared)
    survey = _survey(task, path, prepared)
    inputs = _inputs(task, prepared, survey) if survey else (prepared,)
    if survey is None or len(inputs) == 1:
        return *task_of(task, path, inputs[0], progress), options
    check_options(options, KINDS[task])
    spaces = tuple(_space_of(task, each, survey) for each in inputs)
    choice = _Choice(task, path, inputs, spaces, survey, target, run, options, progress)
    if options.supernet:
        number, record = _size_of_supernet(choice), dict[str, Any]()
    else:
        number, record = _known(choice) or _choose(choice)
    text = " x ".join(map(str, choice.sizes[number]))
    progress(f"the network's input: {text}", 1, 1)
    data, space = _read_again(choice, number), spaces[number]
    if data is None:
        data, space = task_of(task, path, inputs[number], progress)
    shutil.rmtree(choice.trials, ignore_errors=True)
    if choice.is_timed:
        options = replace(options, minutes=(1 - INPUT_SHARE) * choice.minutes)
    about = {"stage_one": record} if record else {}
    return replace(data, preparation={**data.preparation, **about}), space, options


def _size_of_supernet(choice: _Choice) -> int:
    """Return the index of the size for which another search has trained the supernet that is used."""
    (size, *_) = search_of(choice.options.supernet)["sizes"] or [None]
    if size in choice.sizes:
        return choice.sizes.index(size)
    why = f"the supernet in '{choice.options.supernet}' is for inputs of size {size}, which these samples and settings exclude"
    raise CompileError(why, "give the same --data and --set as there")


def _read_again(choice: _Choice, number: int) -> Dataset | None:
    """Return the samples in the size with the index `number` if short trainings have used them; else None."""
    if not (choice.trials / f"{number}" / "data.json").is_file():
        return None
    data = halving.load_data(choice.trials / f"{number}")
    return replace(data, values=np.array(data.values))  # the file is deleted


def _survey(task: str, path: Path, prepared: Preparation) -> Survey | None:
    """Return the Survey of the samples (counts, median size, rate), without reading them all; None if no size is left open."""
    if task == "keywords":
        is_open = prepared.hop_ms is None or (prepared.bands is None and not prepared.coefficients)
        return survey_sounds(path, by_speaker=prepared.by_speaker) if is_open else None
    if task == "sensors" or prepared.size is not None:
        return None
    if task == "images":
        return survey_images(path)
    if task == "detection":
        return survey_detection(path, prepared.classes)
    return survey_visual_wake_words(path, _wake_word(prepared))


def _inputs(task: str, prepared: Preparation, survey: Survey) -> tuple[Preparation, ...]:
    """Return the settings from which stage one chooses: copies of `prepared` with every size set, smallest input first.

    Images are square, up to the shorter side of the median image (detectors: the longer, rounded up to the stride). Only one is
    returned if the named search space contains several image sizes itself.
    """
    if task == "keywords":
        bands = (prepared.bands,) if prepared.bands or prepared.coefficients else CHOSEN_BANDS
        hops = (prepared.hop_ms,) if prepared.hop_ms else (HOP_MS, *HOPS_MS)
        settings = [replace(prepared, bands=each, hop_ms=hop) for each, hop in product(bands, hops)]
        return tuple(sorted(settings, key=lambda each: prod(_features_size(each, survey.rate))))
    if task == "detection":
        largest = max(survey.size) + prepared.stride - 1
        sides = [side for side in DETECTOR_SIDES if side % prepared.stride == 0 and side <= largest]
        return tuple(
            replace(prepared, size=(side, side))
            for side in sides or [-(-DETECTOR_SIDES[0] // prepared.stride) * prepared.stride]
        )
    largest = max(SIDES[0], min(*survey.size, LARGE_SIDES[-1]))
    sides = [*(side for side in (*SMALL_SIDES, *LARGE_SIDES) if side < largest), largest]
    return tuple(replace(prepared, size=(side, side)) for side in (sides if prepared.space == SPACES[0] else sides[-1:]))


def _space_of(task: str, prepared: Preparation, survey: Survey) -> SearchSpace:
    """Return the search space of a task, given a setting with every size set (no size is None)."""
    if task == "keywords":
        return keywords(_features_size(prepared, survey.rate))
    assert prepared.size is not None
    if task == "detection":
        return detectors(prepared.size, prepared.channels, prepared.anchors)
    return _space(prepared.size, prepared.channels, prepared.space)


def _question(choice: _Choice) -> dict[str, Any]:
    """Return all settings that affect the choice of the input's size, as JSON values."""
    target, options = choice.target, choice.options
    return {
        "task": choice.task,
        "samples": dict(choice.survey.counts),
        "inputs": choice.sizes,
        "device": target.device.name if target.device else None,
        "limits": target.limits_by_name(),
        "planning": [target.stream_inputs, target.max_mac_overhead],
        "search": [options.strategy, options.minutes, options.seed, options.feasible],
    }


def _known(choice: _Choice) -> tuple[int, dict[str, Any]] | None:
    """Return (index, record) of an earlier choice, or None; raise CompileError if the folder has another search."""
    question, file = json.loads(json.dumps(_question(choice))), choice.run / STAGE_ONE
    other: str | None = "size of the input"  # a search whose user gave the size
    if file.is_file():
        try:
            found = json.loads(file.read_text())
            other = next((key for key in question if found["question"].get(key) != question[key]), None)
            if other is None:
                return found["number"], found["record"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
    if (choice.run / RUN).is_file():
        raise CompileError(f"'{choice.run}' holds a search with another {other}", "give another folder, or the same command")
    return None


def _choose(choice: _Choice) -> tuple[int, dict[str, Any]]:
    """Choose the size of the network's input; return its index, and a record for the report, with sizes as [rows, columns].

    - `input`: the chosen size; `inputs`, `smallest`, `largest`: the number of possible sizes, and the extremes;
    - `by_macs`: the size that stage one proposes; `width`: the factor on all channels that it proposes with it;
    - `share`: the fraction of the networks of this size and width that fit; `feasible`: the least fraction that is wanted;
    - `macs`: the 80th percentile of the MACs of those that fit;
    - `tried`: the sizes for which a network was trained, with epochs and accuracy on the validation part.
    """
    options, target, survey = choice.options, choice.target, choice.survey
    with pool(options.processes, ray=options.ray) as workers:
        budget = _budget(choice, workers) if choice.is_timed else None
        seconds = INPUT_SHARE / 2 * 60 * choice.minutes * workers.count
        plans = max(FEWEST_PLANS, int(seconds / (PLANNING * (budget.slowdown if budget else 1.0))))
        estimated = with_estimated_overhead(target, choice.spaces[0], survey.classes)
        aim = Aim(estimated, survey.classes, options.feasible, plans)
        if budget is not None:
            aim = aim._replace(is_trainable=budget.is_trainable)
        number, setting = best_input(choice.spaces, aim, workers, choice.progress)
        tried = _tried(choice, number, estimated, budget, workers) if budget is not None and choice.task != "detection" else []
    record = _record(choice, number, setting, tried)
    if tried:
        number = choice.sizes.index(record["input"])
    found = {"question": _question(choice), "number": number, "record": record}
    choice.run.mkdir(parents=True, exist_ok=True)
    write_file(choice.run / STAGE_ONE, json.dumps(found, indent=2))
    return number, record


def _budget(choice: _Choice, workers: Workers) -> Budget:
    """Return the training budget of the search that follows; its `is_trainable` says whether there is time for a network."""
    counts, kind = choice.survey.counts, KINDS[choice.task]
    folds = halving.FOLDS if halving.is_folded(kind, counts["validation"]) else 1
    seconds = (1 - INPUT_SHARE) * 60 * choice.minutes
    batch = halving.batch_for(kind, counts["train"])
    choice.progress("measuring how fast it trains", 0, 1)
    return Budget(seconds, workers.count, machine_factor(workers), counts["train"], batch, folds, counts["validation"])


def _record(choice: _Choice, number: int, setting: Setting, tried: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the record of `_choose`: the size `number` or, of `tried` ones, the largest not clearly worse than the best.

    Short trainings favour small inputs. `tried` begins with the smallest size.
    """
    sizes = choice.sizes
    chosen = sizes[number]
    if tried:
        best = max(each["accuracy"] for each in tried)
        least = halving.clearly_worse_below(best, choice.survey.counts["validation"])
        chosen = next(each["input"] for each in reversed(tried) if each["accuracy"] >= least)
    return {
        "input": chosen,
        "inputs": len(sizes),
        "smallest": sizes[0],
        "largest": sizes[-1],
        "by_macs": sizes[number],
        "width": setting.width,
        "share": setting.share,
        "feasible": choice.options.feasible,
        "macs": setting.p80,
        "tried": tried,
    }


def _tried(choice: _Choice, number: int, target: Target, budget: Budget, workers: Workers) -> list[dict[str, Any]]:
    """Train one network for each of at most three sizes, for equal times, and return a record for each size.

    The others have about half and twice as many values as the size `number`. Return [] if fewer than two, or not `number`, have
    a `candidates.first_network` that can be trained in the time. The samples remain in the folder `choice.trials`.
    """
    numbers = sorted({number, *_neighbours(choice.spaces, number)})
    calls = [(choice.spaces[each], target, choice.survey.classes, budget.is_trainable) for each in numbers]
    firsts = zip(numbers, workers.each(first_network, calls), strict=True)
    archs = {each: found[0] for each, found in firsts if found is not None}
    seconds = INPUT_SHARE / 2 * budget.seconds * workers.count / max(1, len(archs))
    epochs = {each: int(seconds / budget.step(arch) / budget.steps_per_epoch) for each, arch in archs.items()}
    enough = [each for each in archs if epochs[each] >= 1 and epochs[each] * budget.steps_per_epoch >= TRIAL_STEPS]
    if number not in enough or len(enough) < 2:
        return []
    trainings = list[partial[halving.Score]]()
    for each in enough:
        place, end = (choice.trials / name for name in (f"{each}", f"{each}.pt"))
        halving.save_data(task_of(choice.task, choice.path, choice.inputs[each], choice.progress)[0], place)
        given = (to_json(archs[each]), str(place), epochs[each], choice.options.seed)
        trainings.append(partial(halving.train_one, *given, start=None, end=str(end)))
    accuracies, done = dict[int, float](), 0
    choice.progress("training at several input sizes", 0, len(enough))
    for index, score in workers.as_they_end(trainings):
        accuracies[index], done = score.accuracy, done + 1
        choice.progress("training at several input sizes", done, len(enough))
    return [
        {"input": choice.sizes[each], "epochs": epochs[each], "accuracy": accuracies[index]}
        for index, each in enumerate(enough)
    ]


def _neighbours(spaces: Sequence[SearchSpace], number: int) -> list[int]:
    """Return the indices of at most two spaces, whose inputs have about half and about twice the values of space `number`."""
    counts = [prod(space.sizes[0]) for space in spaces]
    own, found = counts[number], list[int]()
    for factor, others in (
        (0.5, [n for n, c in enumerate(counts) if c <= 0.75 * own]),
        (2, [n for n, c in enumerate(counts) if c >= 1.33 * own]),
    ):
        if others:
            found.append(min(others, key=lambda each: abs(counts[each] - factor * own)))
    return found


def check_task(task: str, prepared: Preparation) -> None:
    """Raise CompileError if a task or its search space is unknown, the space is not for the task, or images are unsupported."""
    if task not in TASKS:
        raise CompileError(f"--task {task} is unknown", f"give one of {', '.join(TASKS)}")
    if prepared.space not in SPACES:
        raise CompileError(f"space={prepared.space} is unknown", f"give one of {', '.join(SPACES)}")
    if prepared.space != SPACES[0] and task not in ("images", "visual-wake-words"):
        raise CompileError(f"space={prepared.space} is for images only", f"leave it out for {task}")
    (rows, columns), channels = prepared.size or (DEFAULT_SIDE, DEFAULT_SIDE), prepared.channels
    if task not in ("keywords", "sensors") and (not {rows, columns} <= set(SIDES) or channels not in (1, 3)):
        raise CompileError(
            f"images of {rows} x {columns} x {channels} are not supported", "give 8 to 512 rows and columns, 1 or 3 channels"
        )


def task_of(task: str, folder: Path, prepared: Preparation, progress: Progress = silent) -> tuple[Dataset, SearchSpace]:
    """Read the samples of a task, one of TASKS, from a folder; return the data set and the search space for it."""
    check_task(task, prepared)
    size, channels = prepared.size or (DEFAULT_SIDE, DEFAULT_SIDE), prepared.channels
    space = _space(size, channels, prepared.space)  # checks the size before thousands of images are read
    match task:
        case "images":
            return read_images(folder, size, channels, progress), space
        case "visual-wake-words":
            data = read_visual_wake_words(folder, size, channels, label=_wake_word(prepared), progress=progress)
            return data, space
        case "keywords":
            data = read_sounds(
                folder,
                prepared.seconds,
                prepared.bands or BANDS,
                hop_ms=prepared.hop_ms or _hop_of(folder, prepared),
                coefficients=prepared.coefficients,
                by_speaker=prepared.by_speaker,
                progress=progress,
            )
            return data, keywords((data.values.shape[1], data.values.shape[2]))
        case "sensors":
            data = read_sensors(folder, prepared.window, progress=progress)
            return data, sensors(data.values.shape[2], data.values.shape[3])
        case _:  # detection
            data = read_detection(
                folder,
                size,
                channels,
                classes=prepared.classes,
                anchors=prepared.anchors,
                stride=prepared.stride,
                progress=progress,
            )
            return data, detectors(size, channels, len(data.preparation["anchors"]))


def _wake_word(prepared: Preparation) -> str:
    """Return the class of visual wake words; raise CompileError if several are given."""
    if len(prepared.classes) > 1:
        raise CompileError(
            f"visual wake words has one class, not {len(prepared.classes)}", "give one, for example classes=person"
        )
    return prepared.classes[0] if prepared.classes else DEFAULT_LABEL


def _hop_of(folder: Path, prepared: Preparation) -> float:
    """Return the hop in ms at which recordings have `prepared.frames` frames; HOP_MS if there is none, or if it is not set."""
    if not prepared.frames:
        return HOP_MS
    rate = survey_sounds(folder, by_speaker=prepared.by_speaker).rate
    hops = (hop for hop in (HOP_MS, *HOPS_MS) if _features_size(replace(prepared, hop_ms=hop), rate)[0] == prepared.frames)
    return next(hops, HOP_MS)


def _features_size(prepared: Preparation, rate: int) -> Size:
    """Return the frames and the features per frame of recordings at a rate in Hz."""
    features = features_of(rate, prepared.bands or BANDS, prepared.coefficients, prepared.hop_ms or HOP_MS)
    return features.frames(round(prepared.seconds * rate)), features.per_frame


def _space(size: tuple[int, int], channels: int, name: str) -> SearchSpace:
    """Return the space `name` of SPACES for images of a size: "auto" selects by it, others have sizes down to its half."""
    if name != SPACES[0]:
        sizes = tuple((size[0] * part // 8, size[1] * part // 8) for part in EIGHTHS)
        if min(sizes[0]) < MIN_JOINT_SIDE:
            raise CompileError(f"space={name} needs larger images", f"give size={2 * MIN_JOINT_SIDE} or more")
        return mobilenet_v3(sizes, channels, by_group=name == SPACES[2])
    space = small_images(channels=channels) if max(size) <= MAX_SMALL_SIDE else replace(MOBILE, channels=channels)
    return replace(space, sizes=(size,))
