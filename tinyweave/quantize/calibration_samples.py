"""Read calibration samples: arrays, a NumPy file, or a folder of images, wav files or .npy files; and their labels.

The contents are untrusted. A file of a folder is read when its sample is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Quant, Tensor, channels_last, limits
from ..support import media
from ..support.files import check_inside, read_file
from ..support.media import Array
from .scale_groups import is_float

MAX_FILES = 1 << 20
TOLERANCE = 1e-4  # largest distance of a zero point from an integer; scales and offsets are rounded decimals
SOURCES = {**dict.fromkeys(media.IMAGES, "images"), **dict.fromkeys(media.RECORDINGS, "waveforms")}
LABELS = "y"  # name of the array of labels in an .npz file, unless an input has this name
FOLDERS = "folders"  # value of the option `labels`: the name of a sample's folder is its class


@dataclass(frozen=True)
class Preprocessing:
    """The conversion of "arrays", "images" or "waveforms" to an input: value * scale + offset, for all or per channel."""

    # the kind of file. "images" are first resized to the input by bilinear interpolation. "waveforms", in [-1, 1), are first
    # cut or padded with 0 to the input's length. "arrays" have the input's shape already
    source: str = "arrays"
    scale: tuple[float, ...] = (1.0,)
    offset: tuple[float, ...] = (0.0,)

    def apply(self, values: Array) -> NDArray[np.float32]:
        """Return values * scale + offset in float32; channels count along the last axis."""
        return np.asarray(values.astype(np.float64) * np.array(self.scale) + np.array(self.offset), np.float32)

    def record(self, tensor: Tensor) -> dict[str, Any]:
        """Return the preprocessing of the input `tensor` as the JSON object that is stored in a model file's metadata."""
        return {"version": 1, "input": tensor.name, "shape": list(tensor.shape), **asdict(self)}


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of a network's inputs, which are read and preprocessed when they are used."""

    tensors: Sequence[Tensor]  # the inputs of the network
    sources: Sequence[Any]  # for each sample, the path of its file, or a list with one array per input
    preprocessing: Preprocessing
    labels: Array | None = None  # the number of the class of each sample

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.sources)

    def batch(self, indices: Iterable[int]) -> dict[str, Array]:
        """Read the samples with these indices; return one array [samples, *shape] per input, by input name."""
        columns = zip(*map(self.read, indices), strict=True)
        return {t.name: np.stack(column) for t, column in zip(self.tensors, columns, strict=True)}

    def integer_scales(self) -> dict[str, Quant]:
        """Return input name -> scale and zero point with which 8-bit samples can be fed to the int8 network as they are.

        Firmware then uses int8 samples unchanged, uint8 samples minus 128. Inputs of other types, or whose zero point would not
        be int8, are left out, and all inputs if the preprocessing is per channel.
        """
        (factor, *more), (offset, *others), quants = self.preprocessing.scale, self.preprocessing.offset, dict[str, Quant]()
        if more or others or factor <= 0 or not self.sources:
            return quants
        for tensor, values in zip(self.tensors, self._raw(0), strict=False):
            dtype = _array(values).dtype
            zero_point = -offset / factor - 128 * (dtype == np.uint8)
            nearest = round(zero_point)
            is_exact = abs(zero_point - nearest) < TOLERANCE and -128 <= nearest <= 127
            if dtype in (np.uint8, np.int8) and is_exact and is_float(tensor):
                quants[tensor.name] = Quant((float(np.float32(factor)),), (nearest,))
        return quants

    def _raw(self, index: int) -> Sequence[Any]:
        """Return the arrays of a sample, one per input, before preprocessing."""
        source = self.sources[index]
        return [_from_file(source, self.tensors[0])] if isinstance(source, Path) else source

    def read(self, index: int) -> list[Array]:
        """Return a preprocessed sample, a list of one array per input; raise CompileError if it does not fit the inputs."""
        source, raw = self.sources[index], self._raw(index)
        what = f"'{source}'" if isinstance(source, Path) else f"sample {index}"
        if len(raw) != len(self.tensors):
            raise CompileError(f"{what} has {len(raw)} arrays, the model has {len(self.tensors)} inputs", "give one per input")
        return [self._checked(_array(values), t, what) for values, t in zip(raw, self.tensors, strict=True)]

    def _checked(self, values: Array, tensor: Tensor, what: str) -> Array:
        if values.dtype.kind not in "fiub":
            raise CompileError(
                f"{what} holds {values.dtype}, which is not a type of number", "give floats or integers", tensor=tensor
            )
        values = _reshaped(values, tensor, what)
        media.check_finite(values, what, tensor)
        if not is_float(tensor):
            return _integers(values, tensor, what)
        try:
            return self.preprocessing.apply(values)
        except ValueError as error:
            channels = tensor.shape[-1] if tensor.shape else 1
            counts = len(self.preprocessing.scale), len(self.preprocessing.offset)
            why = f"{counts[0]} factors and {counts[1]} offsets do not fit {channels} channels"
            raise CompileError(why, "give one of each, or one per channel") from error


def _integers(values: Array, tensor: Tensor, what: str) -> Array:
    """Return a sample of an integer input in the type of the input; raise CompileError if the type cannot hold its values."""
    least, most = limits(tensor.dtype)
    if values.size and not (least <= values.min() and values.max() <= most and (values == np.rint(values)).all()):
        why = f"{what} holds other values than integers from {least} to {most}"
        raise CompileError(why, f"give the {tensor.dtype} values themselves; the network converts them", tensor=tensor)
    return np.asarray(values, tensor.dtype)


def _reshaped(values: Array, tensor: Tensor, what: str) -> Array:
    """Reshape a sample as `ir.channels_last` does; raise CompileError for other shapes. `what` names the sample in messages."""
    if (sample := channels_last(values, tensor)) is not None:
        return sample
    why = f"{what} has the shape {list(values.shape)}, the input is {list(tensor.shape)}"
    one = channels_last(values, replace(tensor, shape=(1, *tensor.shape[1:]))) if len(tensor.shape) > 1 else None
    batch = f"the model takes a batch of {tensor.shape[0]}: import it with an example of a batch of 1"
    raise CompileError(why, media.shape_advice(tensor) if one is None else batch, tensor=tensor)


def open_samples(
    data: Any, graph: Graph, scale: Sequence[float] | None = None, offset: Sequence[float] = (0.0,), labels: Any = None
) -> Samples:
    """Return the samples for the inputs of a graph; raise CompileError if they are unusable.

    `data` is a path of a folder or file, an array [samples, *shape], a mapping of such arrays by input name, or an iterable of
    samples, each an array or a tuple of one array per input. `scale` (images require it) and `offset` are Preprocessing's.
    `labels` is a class number per sample, as a sequence or a path (.npy, or text with a number per line), or "folders", whose
    alphabetical order numbers the classes; None means the labels of an .npz file, or none.
    """
    tensors = [graph.tensors[name] for name in graph.inputs]
    by_folder = isinstance(labels, str) and labels == FOLDERS
    classes = None if by_folder or labels is None else _read_labels(labels)
    path = Path(data) if isinstance(data, (str, Path)) else None
    if by_folder and not (path and path.is_dir()):
        raise CompileError(
            "the samples are not in folders, so folders cannot be their classes", "give labels as a file, or as numbers"
        )
    _check_factors(scale, offset)
    if path and not path.exists():
        raise CompileError(f"there is no '{path}'", "give a folder, or a .npy, .npz, .csv, .wav or image file")
    sources: Sequence[Any]
    source = "arrays"
    if path is None:
        sources = _arrays(data, tensors)
    elif path.is_dir() or path.suffix.lower() in SOURCES:
        sources = files = _files(path) if path.is_dir() else [path]
        kinds = {SOURCES.get(file.suffix.lower(), "arrays") for file in files}
        if len(kinds) > 1:
            raise CompileError(f"'{path}' holds several kinds of samples: {', '.join(sorted(kinds))}", "give one kind")
        (source,) = kinds
        _check_source(source, tensors, scale)
        if by_folder:
            names = sorted({file.parent.name for file in files})
            if len(names) < 2:
                hint = "put those of each class in a folder of its own"
                raise CompileError(f"all samples of '{path}' lie in one folder", hint)
            classes = np.array([names.index(file.parent.name) for file in files])
    else:
        sources, own = _numpy_file(path, tensors)
        classes = own if classes is None else classes
    if not sources:
        raise CompileError("there are no calibration samples", "give at least one; a hundred or two are usual")
    if classes is not None and len(classes) != len(sources):
        raise CompileError(f"there are {len(sources)} samples and {len(classes)} labels", "give a label per sample")
    return Samples(tensors, sources, Preprocessing(source, tuple(scale or (1.0,)), tuple(offset or (0.0,))), classes)


def check_samples_differ(inputs: Mapping[str, Array]) -> None:
    """Raise CompileError if all samples, [samples, *shape] by name, are equal, or all values of the only one."""
    count = len(next(iter(inputs.values())))
    if all((values == values[:1]).all() for values in inputs.values()) and (
        count > 1 or all((values == values.flat[0]).all() for values in inputs.values() if values.size)
    ):
        what = f"all {count} samples are equal" if count > 1 else "all values of the only sample are equal"
        raise CompileError(what, "give samples of real data: they choose the ranges of int8")


def _check_factors(scale: Sequence[float] | None, offset: Sequence[float]) -> None:
    for number in (*(scale or ()), *offset):
        if not np.isfinite(number):
            raise CompileError(f"a factor or an offset of the samples is {number}", "give finite numbers")
    if scale and not all(scale):
        raise CompileError("a factor of the samples is 0, which makes all values equal", "give, for example, 1/255")


def _check_source(source: str, tensors: Sequence[Tensor], scale: Sequence[float] | None) -> None:
    """Raise CompileError if images or waveforms do not fit the inputs `tensors`, or if images have no `scale`."""
    if source == "arrays":
        return
    if len(tensors) != 1:
        raise CompileError(f"the model has {len(tensors)} inputs, and {source} are one", "give an .npz with an array per input")
    (tensor,) = tensors
    shape = list(tensor.shape)
    if source == "images" and (len(shape) != 4 or shape[0] != 1 or shape[3] not in (1, 3)):
        raise CompileError(f"is {shape}, which is not an image [1, h, w, 1 or 3]", "give an .npy file", tensor=tensor)
    if source == "images" and scale is None and is_float(tensor):
        hint = "say what the network was trained on: --scale 1/255 for 0 .. 1, --scale 1 for 0 .. 255"
        raise CompileError("images hold 0 .. 255", hint)
    if source == "waveforms" and tensor.elements != max(shape, default=1):
        hint = "compute its features and give them as .npy"
        raise CompileError(f"is {shape}, which is not a waveform", hint, tensor=tensor)


def _files(path: Path) -> list[Path]:
    known = (*SOURCES, ".npy")
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in known and file.is_file())
    if not files:
        raise CompileError(f"'{path}' holds no samples", f"put files of one kind there: {', '.join(known)}")
    if len(files) > MAX_FILES:
        raise CompileError(f"'{path}' holds {len(files):,} samples", f"at most {MAX_FILES:,} are supported")
    check_inside(path, files)
    return files


def _from_file(path: Path, tensor: Tensor) -> Array:
    source = SOURCES.get(path.suffix.lower())
    if source == "images":
        return media.read_image(path, *tensor.shape[1:])
    if source == "waveforms":
        values = media.read_recording(path)[1][: tensor.elements]
        return np.pad(values, (0, tensor.elements - len(values)))
    return media.read_arrays(path, media.MAX_SAMPLE, media.MEND)[""]


def _numpy_file(path: Path, tensors: Sequence[Tensor]) -> tuple[list[list[Array]], Array | None]:
    """Return the samples of a .npy, .npz or .csv file, a list of one array per input, and the labels of an .npz or None."""
    hint = "give a folder, or a .npy, .npz or .csv file"
    if path.suffix.lower() not in media.ARRAYS and path.is_file():
        raise CompileError(f"'{path}' holds no samples", hint)
    arrays = media.read_arrays(path, media.MAX_ARRAYS, hint)
    labels = None if LABELS in {t.name for t in tensors} else arrays.pop(LABELS, None)
    return media.by_input(arrays, tensors, f"'{path}'"), None if labels is None else _checked_labels(labels)


def _arrays(data: Any, tensors: Sequence[Tensor]) -> list[list[Array]]:
    if isinstance(data, np.ndarray):
        if len(tensors) != 1:
            raise CompileError(f"one array is given, the model has {len(tensors)} inputs", "give a tuple of arrays per sample")
        return media.by_input({"": data}, tensors, "the array")
    if isinstance(data, Mapping):
        return media.by_input({name: _array(values) for name, values in data.items()}, tensors, "the mapping")
    if not isinstance(data, Iterable):
        raise CompileError(f"{type(data).__name__} holds no samples", "give a path, an array, or an iterable of arrays")
    return [list(sample) if isinstance(sample, (tuple, list)) else [_array(sample)] for sample in data]


def _array(values: Any) -> Array:
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CompileError(f"a {type(values).__name__} is not an array: {error}", "give NumPy arrays of numbers") from error


def _read_labels(labels: Any) -> Array:
    if not isinstance(labels, (str, Path)):
        return _checked_labels(_array(labels))
    path, hint = Path(labels), "give a .npy file, or text with a number per line"
    if path.suffix.lower() == ".npy":
        return _checked_labels(media.read_arrays(path, media.MAX_ARRAYS, hint)[""])
    try:
        return _checked_labels(np.array([int(line) for line in read_file(path, media.MAX_ARRAYS, hint).decode().split()]))
    except ValueError as error:
        raise CompileError(f"'{path}' holds no labels: {error}", "give a number per line, or a .npy file") from error


def _checked_labels(labels: Array) -> Array:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise CompileError(f"labels are {labels.dtype}{list(labels.shape)}", "give the number of a class per sample")
    return labels


def check_labels(labels: Array, count: int) -> None:
    """Raise CompileError if a label is not a class number in [0, count)."""
    for label in map(int, (labels.min(), labels.max())):
        if not 0 <= label < count:
            hint = f"it has {count}: give numbers from 0 to {count - 1}"
            raise CompileError(f"the label {label} is not a class of the network", hint)
