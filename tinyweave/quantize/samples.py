"""Calibration samples: from arrays, a NumPy file, or a folder of images, wav files or .npy files.

In: what the user gives, which nobody vouches for. Out: Samples, which are read when they are used. What is done to a file's
values before the network sees them is stated once, as Preprocessing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import read_file
from ..ir import CompileError, Graph, Quant, Tensor
from ..media import (
    ARRAYS,
    IMAGES,
    MAX_ARRAYS,
    MAX_SAMPLE,
    MEND,
    RECORDINGS,
    Array,
    by_input,
    read_arrays,
    read_image,
    read_recording,
)

MAX_FILES = 1 << 20
WHOLE = 1e-4  # how far from a whole number an offset in steps may be, which came from decimals
SOURCES = {**dict.fromkeys(IMAGES, "images"), **dict.fromkeys(RECORDINGS, "waveforms")}
LABELS = "y"  # the array of an .npz that holds them, if no input has that name
FOLDERS = "folders"  # in place of labels: the folders in which the samples lie


@dataclass(frozen=True)
class Preprocessing:
    """What the network is given: values * scale + offset, one number each, or one per channel.

    source: "images", resized to the input's rows and columns by bilinear interpolation; "waveforms", in [-1, 1), cut or filled
    with 0 to the input's length; "arrays", as they are.
    """

    source: str = "arrays"
    scale: tuple[float, ...] = (1.0,)
    offset: tuple[float, ...] = (0.0,)

    def apply(self, values: Array) -> NDArray[np.float32]:
        return np.asarray(values.astype(np.float64) * np.array(self.scale) + np.array(self.offset), np.float32)

    def record(self, tensor: Tensor) -> dict[str, Any]:
        """Return what the file's metadata says, for the input `tensor`."""
        return {"version": 1, "input": tensor.name, "shape": list(tensor.shape), **asdict(self)}

    def text(self) -> str:
        scale, offset = (", ".join(f"{number:.9g}" for number in numbers) for numbers in (self.scale, self.offset))
        return f"{self.source}: value * {scale} + {offset}" if (scale, offset) != ("1", "0") else f"{self.source} as they are"


class Samples:
    """Samples of a network's inputs. `read(i)` returns those of sample i, one array per input; labels has a class each."""

    def __init__(
        self,
        tensors: Sequence[Tensor],
        sources: Sequence[Any],
        preprocessing: Preprocessing,
        labels: Array | None = None,
    ):
        self.tensors, self.sources, self.preprocessing, self.labels = tensors, sources, preprocessing, labels

    def __len__(self) -> int:
        return len(self.sources)

    def only(self, indices: Sequence[int]) -> Samples:
        """Return some of the samples, with their labels."""
        labels = None if self.labels is None else self.labels[list(indices)]
        return Samples(self.tensors, [self.sources[index] for index in indices], self.preprocessing, labels)

    def batch(self, indices: Iterable[int]) -> dict[str, Array]:
        """Return some samples stacked, by the name of the input."""
        columns = zip(*map(self.read, indices), strict=True)
        return {t.name: np.stack(column) for t, column in zip(self.tensors, columns, strict=True)}

    def own_steps(self) -> dict[str, Quant]:
        """Return the scales of inputs whose samples are 8-bit integers, scaled alike in all channels: their int8 values are the
        integers themselves, or these - 128, and firmware has nothing to compute."""
        (factor, *more), (offset, *others), steps = self.preprocessing.scale, self.preprocessing.offset, dict[str, Quant]()
        if more or others or factor <= 0 or not self.sources:
            return steps
        for tensor, values in zip(self.tensors, self._raw(0), strict=False):
            kind = _array(values).dtype
            zero_point = -offset / factor - 128 * (kind == np.uint8)
            near = round(zero_point)
            if kind in (np.uint8, np.int8) and abs(zero_point - near) < WHOLE and -128 <= near <= 127 and is_float(tensor):
                steps[tensor.name] = Quant((float(np.float32(factor)),), (near,))
        return steps

    def _raw(self, index: int) -> Sequence[Any]:
        """Return what a file, or the caller, holds of a sample."""
        source = self.sources[index]
        return [_from_file(source, self.tensors[0])] if isinstance(source, Path) else source

    def read(self, index: int) -> list[Array]:
        source, raw = self.sources[index], self._raw(index)
        what = f"'{source}'" if isinstance(source, Path) else f"sample {index}"
        if len(raw) != len(self.tensors):
            raise CompileError(f"{what} has {len(raw)} arrays, the model has {len(self.tensors)} inputs", "give one per input")
        return [self._checked(_array(values), t, what) for values, t in zip(raw, self.tensors, strict=True)]

    def _checked(self, values: Array, tensor: Tensor, what: str) -> Array:
        if values.dtype.kind not in "fiub":
            raise CompileError(f"{what} holds {values.dtype}, which are no numbers", "give floats or integers", tensor=tensor)
        values = _channels_last(values, tensor, what)
        if not np.isfinite(values).all():
            raise CompileError(f"{what} holds NaN or infinite values", "leave it out, or mend it", tensor=tensor)
        if not is_float(tensor):
            return np.asarray(values, tensor.dtype)
        try:
            return self.preprocessing.apply(values)
        except ValueError as error:
            channels = tensor.shape[-1] if tensor.shape else 1
            counts = len(self.preprocessing.scale), len(self.preprocessing.offset)
            raise CompileError(
                f"{counts[0]} factors and {counts[1]} offsets do not fit {channels} channels",
                "give one of each, or one per channel",
            ) from error


def is_float(tensor: Tensor) -> bool:
    return tensor.dtype == "float32"


def _channels_last(values: Array, tensor: Tensor, what: str) -> Array:
    """Return a sample in the input's shape: as it is, turned if its channels come first, or filled in if it is flat."""
    shape, given = tuple(e for e in tensor.shape if e != 1), tuple(e for e in values.shape if e != 1)
    if given == shape or (values.ndim == 1 and values.size == tensor.elements):
        return values.reshape(tensor.shape)
    if len(tensor.shape) == 4 and tensor.shape[0] == 1:  # a map of rows and columns, or of steps, which has one row
        first = tensor.shape[3], *tensor.shape[1:3]
        if given == tuple(e for e in first if e != 1):
            return np.moveaxis(values.reshape(first), 0, -1).reshape(tensor.shape)
    raise CompileError(
        f"{what} has the shape {list(values.shape)}, the input is {list(tensor.shape)}",
        "give that shape, or several along a leading axis",
        tensor=tensor,
    )


def open_samples(
    given: Any, graph: Graph, scale: Sequence[float] | None = None, offset: Sequence[float] = (0.0,), labels: Any = None
) -> Samples:
    """Return the samples of a path, an array [samples, *shape], or an iterable of samples, each an array or one per input.

    scale: factor of the values; it must be given for images, and may be left out otherwise. labels: a class per sample: a
    sequence, a path (.npy, or text with a number per line), or "folders": each image's folder, in alphabetical order.
    Raise CompileError for whatever is wrong with them.
    """
    tensors = [graph.tensors[name] for name in graph.inputs]
    by_folder = isinstance(labels, str) and labels == FOLDERS
    found = None if by_folder or labels is None else _values_of(labels)
    path = Path(given) if isinstance(given, (str, Path)) else None
    if by_folder and not (path and path.is_dir()):
        raise CompileError("the samples are in no folders that could be their classes", "give labels as a file, or as numbers")
    _check_factors(scale, offset)
    listed: Sequence[Any]
    source = "arrays"
    if path is None:
        listed = _arrays(given, tensors)
    elif path.is_dir():
        listed = sources = _folder(path)
        kinds = {SOURCES.get(file.suffix.lower(), "arrays") for file in sources}
        if len(kinds) > 1:
            raise CompileError(f"'{path}' holds several kinds of samples: {', '.join(sorted(kinds))}", "give one kind")
        (source,) = kinds
        _check_source(source, tensors, scale)
        if by_folder:
            classes = sorted({file.parent.name for file in sources})
            if len(classes) < 2:
                raise CompileError(
                    f"all samples of '{path}' lie in one folder", "put those of each class in a folder of its own"
                )
            found = np.array([classes.index(file.parent.name) for file in sources])
    else:
        listed, own = _numpy_file(path, tensors)
        found = own if found is None else found
    if not listed:
        raise CompileError("there are no calibration samples", "give at least one; a hundred or two are usual")
    if found is not None and len(found) != len(listed):
        raise CompileError(f"there are {len(listed)} samples and {len(found)} labels", "give a label per sample")
    preprocessing = Preprocessing(source, tuple(scale or (1.0,)), tuple(offset or (0.0,)))
    return Samples(tensors, listed, preprocessing, found)


def _check_factors(scale: Sequence[float] | None, offset: Sequence[float]) -> None:
    """Raise CompileError for factors that are 0, and for what is no number."""
    for number in (*(scale or ()), *offset):
        if not np.isfinite(number):
            raise CompileError(f"a factor or an offset of the samples is {number}", "give finite numbers")
    if scale and not all(scale):
        raise CompileError("a factor of the samples is 0, which leaves nothing of them", "give 1/255 or the like")


def _check_source(source: str, tensors: Sequence[Tensor], scale: Sequence[float] | None) -> None:
    if source == "arrays":
        return
    if len(tensors) != 1:
        raise CompileError(f"the model has {len(tensors)} inputs, and {source} are one", "give an .npz with an array per input")
    (tensor,) = tensors
    if source == "images" and (len(tensor.shape) != 4 or tensor.shape[0] != 1 or tensor.shape[3] not in (1, 3)):
        raise CompileError(f"is {list(tensor.shape)}, which is no image [1, h, w, 1 or 3]", "give an .npy file", tensor=tensor)
    if source == "images" and scale is None:
        raise CompileError(
            "images hold 0 .. 255", "say what the network was trained on: --scale 1/255 for 0 .. 1, --scale 1 for 0 .. 255"
        )
    if source == "waveforms" and tensor.elements != max(tensor.shape, default=1):
        raise CompileError(
            f"is {list(tensor.shape)}, which is no waveform", "compute its features and give them as .npy", tensor=tensor
        )


def _folder(path: Path) -> list[Path]:
    """Return the samples of a folder and the folders in it, in the order of their names."""
    known = (*SOURCES, ".npy")
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in known and file.is_file())
    if not files:
        raise CompileError(f"'{path}' holds no samples", f"put files of one kind there: {', '.join(known)}")
    if len(files) > MAX_FILES:
        raise CompileError(f"'{path}' holds {len(files):,} samples", f"at most {MAX_FILES:,} are supported")
    return files


def _from_file(path: Path, tensor: Tensor) -> Array:
    source = SOURCES.get(path.suffix.lower())
    if source == "images":
        return read_image(path, *tensor.shape[1:])
    if source == "waveforms":
        values = read_recording(path)[1][: tensor.elements]
        return np.pad(values, (0, tensor.elements - len(values)))
    return read_arrays(path, MAX_SAMPLE, MEND)[""]


def _numpy_file(path: Path, tensors: Sequence[Tensor]) -> tuple[list[list[Array]], Array | None]:
    """Return the samples of a file, and its labels: an .npz may have an array `y` besides those of the inputs."""
    what_to_do = "give a folder, or a .npy or .npz file"
    if path.suffix.lower() not in ARRAYS and path.is_file():
        raise CompileError(f"'{path}' holds no samples", what_to_do)
    arrays = read_arrays(path, MAX_ARRAYS, what_to_do)
    labels = None if LABELS in {t.name for t in tensors} else arrays.pop(LABELS, None)
    return by_input(arrays, tensors, f"'{path}'"), None if labels is None else _checked_labels(labels)


def _arrays(given: Any, tensors: Sequence[Tensor]) -> list[list[Array]]:
    if isinstance(given, np.ndarray):
        if len(tensors) != 1:
            raise CompileError(f"one array is given, the model has {len(tensors)} inputs", "give a tuple of arrays per sample")
        return by_input({"": given}, tensors, "the array")
    if isinstance(given, Mapping):
        return by_input({name: _array(values) for name, values in given.items()}, tensors, "the mapping")
    if not isinstance(given, Iterable):
        raise CompileError(f"{type(given).__name__} holds no samples", "give a path, an array, or an iterable of arrays")
    return [list(sample) if isinstance(sample, (tuple, list)) else [_array(sample)] for sample in given]


def _array(values: Any) -> Array:
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CompileError(f"a {type(values).__name__} is no array: {error}", "give NumPy arrays of numbers") from error


def _values_of(labels: Any) -> Array:
    if isinstance(labels, (str, Path)):
        path = Path(labels)
        what_to_do = "give a .npy file, or text with a number per line"
        if path.suffix.lower() == ".npy":
            return _checked_labels(read_arrays(path, MAX_ARRAYS, what_to_do)[""])
        try:
            return _checked_labels(np.array([int(line) for line in read_file(path, MAX_ARRAYS, what_to_do).decode().split()]))
        except ValueError as error:
            raise CompileError(f"'{path}' holds no labels: {error}", "give a number per line, or a .npy file") from error
    return _checked_labels(_array(labels))


def _checked_labels(labels: Array) -> Array:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise CompileError(f"labels are {labels.dtype}{list(labels.shape)}", "give the number of a class per sample")
    return labels


def check_labels(labels: Array, count: int) -> None:
    """Raise CompileError where a label is none of so many classes."""
    for label in map(int, (labels.min(), labels.max())):
        if not 0 <= label < count:
            raise CompileError(
                f"the label {label} is no class of the network", f"it has {count}: give numbers from 0 to {count - 1}"
            )
