"""Images of classes, resized to the network's input. In: a folder with a subfolder of images per class. Out: a Dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..media import IMAGES, read_image
from ..progress import Progress, silent
from .dataset import SCALE, Dataset, by_folder, dataset

ZERO = 128  # the pixel value that is 0 in the network's input


def read_images(folder: Path, size: tuple[int, int], channels: int = 3, progress: Progress = silent) -> Dataset:
    """Read the images of a folder that has a subfolder per class.

    They are resized to `size` (rows, columns) without keeping their aspect ratio. The values are pixel - 128.
    """

    def read(path: Path) -> NDArray[np.int8]:
        return (read_image(path, *size, channels).astype(np.int16) - ZERO).astype(np.int8)

    prepared = {"source": "images", "size": list(size), "resize": "bilinear", "scale": SCALE, "offset": -1.0}
    return dataset("images", by_folder(folder, IMAGES), read, prepared, progress)
