"""Visual wake words: is there a person in the picture? In: a VOC or COCO folder with boxes. Out: a Dataset of two classes.

A picture shows a thing if one of its boxes, clipped to the picture, has at least 0.5 % of the picture's area (arXiv 1906.05721,
section 3). Crowds and difficult boxes count like any others.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError
from ..media import read_fitted, read_resized
from ..progress import Progress, silent
from .annotations import Annotated, read_annotations
from .dataset import SCALE, Dataset, LabelledFile, dataset, with_all_parts
from .detection import check_size, clipped
from .images import ZERO

SHARE = 0.005  # of the picture's area
WANTED = "person"


def read_visual_wake_words(
    folder: Path, size: tuple[int, int], channels: int = 3, *, wanted: str = WANTED, progress: Progress = silent
) -> Dataset:
    """Return the images of a folder, resized to `size` (rows, columns), as pixel - 128; classes: `no WANTED` and WANTED.

    Raise CompileError where no box has the label `wanted`, and for a wrong folder.
    """
    images = read_annotations(folder)
    if not any(box.label == wanted for image in images for box in image.boxes):
        labels = sorted({box.label for image in images for box in image.boxes})
        raise CompileError(f"no box is a '{wanted}'", f"classes are {', '.join(labels)[:200] or 'none'}")
    files = [
        LabelledFile(
            image.path,
            wanted if shows(image, wanted) else f"no {wanted}",
            image.path.relative_to(folder).as_posix(),
            image.part,
        )
        for image in images
    ]

    said = {image.path: image.size for image in images}

    def read(path: Path) -> NDArray[np.int8]:
        pixels, own = read_resized(path, *size, channels)
        check_size(path, said[path], own)
        return (pixels.astype(np.int16) - ZERO).astype(np.int8)

    prepared = {"source": "visual-wake-words", "size": list(size), "resize": "bilinear", "scale": SCALE, "offset": -1.0}
    return dataset("images", with_all_parts(files), read, prepared, progress)


def shows(image: Annotated, wanted: str) -> bool:
    """Return whether one of an image's boxes with the label `wanted` has at least SHARE of its area."""
    boxes = [box for box in image.boxes if box.label == wanted]
    if not boxes:
        return False
    rows, columns = image.size or read_fitted(image.path, 1, 1, 1)[1]
    edges = np.array([clipped(image.path, box, (rows, columns)) for box in boxes])
    areas = (edges[:, 2:] - edges[:, :2]).prod(axis=1)
    return bool((areas >= SHARE * rows * columns).any())
