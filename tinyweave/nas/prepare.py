"""Read the samples of a task, and say which networks are searched for them. In: a folder. Out: a Dataset, a SearchSpace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..ir import CompileError
from ..progress import Progress, silent
from ..tasks.dataset import Dataset
from ..tasks.detection import read_detection
from ..tasks.images import read_images
from ..tasks.sensors import read_sensors
from ..tasks.sounds import read_sounds
from ..tasks.visual_wake_words import WANTED, read_visual_wake_words
from .space import MOBILE, SearchSpace, detectors, keywords, mobilenet_v3, sensors, small_images

TASKS = ("images", "visual-wake-words", "keywords", "sensors", "detection")
SPACES = ("auto", "mobilenet_v3", "mobilenet_v3_by_group")  # of images
EIGHTHS = range(4, 9)  # of the size that images are read in, of a joint space
LEAST = 32  # rows and columns there
SMALL = 64  # rows or columns up to which an image is a small one
SIDES = range(8, 513)


@dataclass(frozen=True)
class Preparation:
    """What is done to samples. size, channels: of images, rows and columns. seconds, bands, coefficients, by_speaker: see
    `read_sounds`. window: rows of a sensor's values. classes, anchors, stride: of detection, see `read_detection`; of visual
    wake words one class. space: of SPACES, of images."""

    size: tuple[int, int] = (32, 32)
    channels: int = 3
    seconds: float = 1.0
    bands: int = 40
    by_speaker: bool = False
    window: int = 128
    classes: tuple[str, ...] = ()
    anchors: int = 5
    stride: int = 16
    space: str = SPACES[0]
    coefficients: int = 0


def task_of(task: str, folder: Path, prepared: Preparation, progress: Progress = silent) -> tuple[Dataset, SearchSpace]:
    """Return the samples of a folder, and the space that is searched for them."""
    if task not in TASKS:
        raise CompileError(f"--task {task} is unknown", f"it is one of {', '.join(TASKS)}")
    if prepared.space not in SPACES:
        raise CompileError(f"--space {prepared.space} is unknown", f"it is one of {', '.join(SPACES)}")
    if prepared.space != SPACES[0] and task not in ("images", "visual-wake-words"):
        raise CompileError(f"--space {prepared.space} is one of images", f"leave it out for {task}")
    size, channels = prepared.size, prepared.channels
    if task not in ("keywords", "sensors") and (not set(size) <= set(SIDES) or channels not in (1, 3)):
        raise CompileError(f"images of {size[0]} x {size[1]} x {channels} are not supported", "8 to 512, 1 or 3 channels")
    space = _space(size, channels, prepared.space)  # refuses a size before thousands of images are read
    match task:
        case "images":
            return read_images(folder, size, channels, progress), space
        case "visual-wake-words":
            if len(prepared.classes) > 1:
                raise CompileError("visual wake words are of one class", "give --classes one, as person")
            (wanted,) = prepared.classes or (WANTED,)
            data = read_visual_wake_words(folder, size, channels, wanted=wanted, progress=progress)
            return data, space
        case "keywords":
            data = read_sounds(
                folder,
                prepared.seconds,
                prepared.bands,
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


def _space(size: tuple[int, int], channels: int, name: str) -> SearchSpace:
    """Return the space that is searched for images that are read in this size: a joint one has smaller ones, too."""
    if name != SPACES[0]:
        sizes = tuple((size[0] * part // 8, size[1] * part // 8) for part in EIGHTHS)
        if min(sizes[0]) < LEAST:
            raise CompileError(f"--space {name} is for larger images", f"give --size {2 * LEAST} or more")
        return mobilenet_v3(sizes, channels, by_group=name == SPACES[2])
    space = small_images(channels=channels) if max(size) <= SMALL else replace(MOBILE, channels=channels)
    return replace(space, sizes=(size,))
