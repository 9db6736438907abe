"""Read the samples of a task and choose a search space for them. In: a folder. Out: a Dataset, a SearchSpace."""

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
from ..tasks.visual_wake_words import DEFAULT_LABEL, read_visual_wake_words
from .arch import Arch, stride
from .space import MOBILE, SearchSpace, detectors, keywords, mobilenet_v3, sensors, small_images

TASKS = ("images", "visual-wake-words", "keywords", "sensors", "detection")
SPACES = ("auto", "mobilenet_v3", "mobilenet_v3_by_group")  # search spaces for images
EIGHTHS = range(4, 9)  # image sizes of a joint space, in eighths of the given size
MIN_JOINT_SIDE = 32  # rows and columns of the smallest images of a joint space
MAX_SMALL_SIDE = 64  # rows and columns up to which the space for small images is used
SIDES = range(8, 513)


@dataclass(frozen=True)
class Preparation:
    """Settings for reading the samples of a task; each task uses the fields that apply to it."""

    size: tuple[int, int] = (32, 32)  # rows and columns of images
    channels: int = 3  # of images
    seconds: float = 1.0  # length of recordings, see `read_sounds`
    bands: int = 40  # log-mel bands of sounds
    by_speaker: bool = False  # put all recordings of a speaker into the same part
    window: int = 128  # rows of sensor values per sample
    classes: tuple[str, ...] = ()  # of detection; of visual wake words, the one class to find
    anchors: int = 5  # boxes per cell of a detector, see `read_detection`
    stride: int = 16  # rows of the image per cell of a detector
    space: str = SPACES[0]  # one of SPACES, for images
    coefficients: int = 0  # MFCC of sounds; 0 for log-mel bands


def prepared_for(network: Arch, prepared: Preparation) -> Preparation:
    """Return the settings `prepared` with all sizes replaced by those that a network expects, from its input shape.

    For sounds, the columns of the input are MFCC coefficients if `prepared.coefficients` is not 0, else log-mel bands.
    """
    rows, columns, channels = network.image
    is_mfcc = prepared.coefficients > 0
    return replace(
        prepared,
        size=(rows, columns),
        channels=channels,
        bands=prepared.bands if is_mfcc else columns,
        window=columns,
        coefficients=columns if is_mfcc else 0,
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


def task_of(task: str, folder: Path, prepared: Preparation, progress: Progress = silent) -> tuple[Dataset, SearchSpace]:
    """Read the samples of a task, one of TASKS, from a folder, with the settings `prepared`.

    Return the data set, and the search space of networks for it.
    """
    if task not in TASKS:
        raise CompileError(f"--task {task} is unknown", f"give one of {', '.join(TASKS)}")
    if prepared.space not in SPACES:
        raise CompileError(f"--space {prepared.space} is unknown", f"give one of {', '.join(SPACES)}")
    if prepared.space != SPACES[0] and task not in ("images", "visual-wake-words"):
        raise CompileError(f"--space {prepared.space} is for images only", f"leave it out for {task}")
    size, channels = prepared.size, prepared.channels
    if task not in ("keywords", "sensors") and (not set(size) <= set(SIDES) or channels not in (1, 3)):
        raise CompileError(
            f"images of {size[0]} x {size[1]} x {channels} are not supported", "give 8 to 512 rows and columns, 1 or 3 channels"
        )
    space = _space(size, channels, prepared.space)  # checks the size before thousands of images are read
    match task:
        case "images":
            return read_images(folder, size, channels, progress), space
        case "visual-wake-words":
            if len(prepared.classes) > 1:
                raise CompileError(
                    f"visual wake words has one class, not {len(prepared.classes)}", "give one, for example --classes person"
                )
            (label,) = prepared.classes or (DEFAULT_LABEL,)
            data = read_visual_wake_words(folder, size, channels, label=label, progress=progress)
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
    """Return the search space for images of a size; `name` is one of SPACES.

    "auto" selects a space by the image size. The other spaces also contain smaller image sizes, down to half the size.
    """
    if name != SPACES[0]:
        sizes = tuple((size[0] * part // 8, size[1] * part // 8) for part in EIGHTHS)
        if min(sizes[0]) < MIN_JOINT_SIDE:
            raise CompileError(f"--space {name} needs larger images", f"give --size {2 * MIN_JOINT_SIDE} or more")
        return mobilenet_v3(sizes, channels, by_group=name == SPACES[2])
    space = small_images(channels=channels) if max(size) <= MAX_SMALL_SIDE else replace(MOBILE, channels=channels)
    return replace(space, sizes=(size,))
