"""Visual wake words: does an image show a person? In: a VOC or COCO folder with boxes. Out: a Dataset of two classes.

An image shows a class if one of its boxes of the class, clipped to the image, has at least 0.5 % of the image's area (arXiv
1906.05721, section 3). Crowds and difficult boxes count.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.media import image_size, read_resized
from tinyweave.support.progress import Progress, silent

from .annotations import Annotated, read_annotations
from .dataset import Dataset, LabelledFile, Survey, dataset, survey, with_all_parts
from .detection import check_size, clipped, sizes_of
from .images import as_int8, preparation

MIN_AREA = 0.005  # share of the image's area
DEFAULT_LABEL = "person"


def read_visual_wake_words(
    folder: Path, size: tuple[int, int], channels: int = 3, *, label: str = DEFAULT_LABEL, progress: Progress = silent
) -> Dataset:
    """Read the images of a VOC or COCO folder and label each by whether it shows an object of class `label`.

    Images are resized to `size` (rows, columns), with the values pixel - 128. The classes are LABEL and "no LABEL". Raise
    CompileError if no box has the label, or the folder is faulty.
    """
    images = read_annotations(folder)
    files, sizes = _labelled(folder, images, label), {image.path: image.size for image in images}

    def read(path: Path) -> NDArray[np.int8]:
        pixels, own = read_resized(path, *size, channels)
        check_size(path, sizes[path], own)
        return as_int8(pixels)

    return dataset("images", files, read, preparation("visual-wake-words", size), progress)


def survey_visual_wake_words(folder: Path, label: str = DEFAULT_LABEL) -> Survey:
    """Return the number of samples and the median size of the images that `read_visual_wake_words` would read."""
    images = read_annotations(folder)
    return survey(_labelled(folder, images, label), sizes_of(images))


def _labelled(folder: Path, images: Sequence[Annotated], label: str) -> list[LabelledFile]:
    """Label images by whether they show the class `label`; raise CompileError if no box has it."""
    if not any(box.label == label for image in images for box in image.boxes):
        labels = sorted({box.label for image in images for box in image.boxes})
        raise CompileError(f"no box has the class '{label}'", f"give one of {', '.join(labels)[:200] or 'none'}")
    files = [
        LabelledFile(
            image.path, label if shows(image, label) else f"no {label}", image.path.relative_to(folder).as_posix(), image.part
        )
        for image in images
    ]
    return with_all_parts(files)


def shows(image: Annotated, label: str) -> bool:
    """Return whether a box with the label, clipped to its image, has at least MIN_AREA (0.5 %) of the image's area."""
    boxes = [box for box in image.boxes if box.label == label]
    if not boxes:
        return False
    rows, columns = image.size or image_size(image.path, str(image.path))
    edges = np.array([clipped(image.path, box, (rows, columns)) for box in boxes])
    areas = (edges[:, 2:] - edges[:, :2]).prod(axis=1)
    return bool((areas >= MIN_AREA * rows * columns).any())
