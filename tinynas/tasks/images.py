"""Images of classes, resized to the network's input. In: folders of images, .npz or .parquet files. Out: a Dataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.media import IMAGES, image_of_array, image_of_bytes, image_size, read_image
from tinyweave.support.progress import Progress, silent

from .dataset import Dataset, LabelledFile, Survey, by_folder, dataset, survey
from .formats.reading import read_samples, sample_files
from .formats.sample import Sample

ZERO = 128  # the pixel value that is 0 in the network's input
FILES = (".npz", ".parquet")


def read_images(path: Path, size: tuple[int, int], channels: int = 3, progress: Progress = silent) -> Dataset:
    """Read images of a folder per class or of large files, resized to (rows, columns), with values pixel - 128."""
    found = sample_files(path, FILES)
    samples = read_samples(found) if found else {}
    files, read_pixels = _from_files(samples, size, channels) if found else _from_folders(path, size, channels)

    return dataset("images", files, lambda file: as_int8(read_pixels(file)), preparation("images", size), progress)


def as_int8(pixels: NDArray[np.uint8]) -> NDArray[np.int8]:
    """Return pixels as the network's input: pixel - 128."""
    return (pixels.astype(np.int16) - ZERO).astype(np.int8)


def preparation(source: str, size: tuple[int, int], resize: str = "bilinear") -> dict[str, Any]:
    """Return how image files become samples, as JSON values for `Dataset.preparation`; `source` is the name of the task."""
    return {"source": source, "size": list(size), "resize": resize, "scale": 1, "offset": -ZERO}


def survey_images(path: Path) -> Survey:
    """Return the number of classes and samples, and the median size of the images, that `read_images` would read."""
    found = sample_files(path, FILES)
    samples = read_samples(found) if found else {}
    values = {file.path: sample.value for file, sample in samples.items()}

    def size_of(file: Path) -> tuple[int, int]:
        value = values.get(file, file)
        if isinstance(value, Path | bytes):
            return image_size(value, str(file))
        shape = np.shape(value)
        return (shape[0], shape[1]) if len(shape) > 1 else (1, 1)  # `read_images` rejects other arrays

    return survey(list(samples) or by_folder(path, IMAGES), size_of)


Found = tuple[list[LabelledFile], Callable[[Path], NDArray[np.uint8]]]


def _from_folders(folder: Path, size: tuple[int, int], channels: int) -> Found:
    """Return the files of a folder per class, and a function that reads one resized to (rows, columns)."""
    return by_folder(folder, IMAGES), lambda path: read_image(path, *size, channels)


def _from_files(samples: dict[LabelledFile, Sample], size: tuple[int, int], channels: int) -> Found:
    """Return labelled files, whose paths only the returned function can read, resized to (rows, columns)."""
    values = {file.path: sample for file, sample in samples.items()}

    def read(path: Path) -> NDArray[np.uint8]:
        sample = values[path]
        if isinstance(sample.value, bytes):
            return image_of_bytes(sample.value, sample.place, *size, channels)
        pixels = np.asarray(sample.value)
        fits = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (1, 3))
        if not fits or not pixels.size or pixels.dtype.kind not in "iu" or pixels.min() < 0 or pixels.max() > 255:
            raise CompileError(
                f"'{sample.place}' holds {pixels.dtype}{list(pixels.shape)}, no image",
                "give whole numbers from 0 to 255, [rows, columns] or [rows, columns, 1 or 3]",
            )
        return image_of_array(pixels.astype(np.uint8), *size, channels)

    return list(samples), read
