"""Read untrusted images, recordings, NumPy files and tables of numbers. In: a path. Out: arrays, or a CompileError of one line.

File sizes are limited, both compressed and decompressed; nothing in a file is executed.
"""

from __future__ import annotations

import re
import tokenize
import wave
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Tensor
from .files import named, read_file
from .installing import install

Array = NDArray[Any]
MAX_SAMPLE = 1 << 27  # bytes of one image or recording
MAX_ARRAYS = 1 << 30  # bytes of a NumPy file, both compressed and decompressed
IMAGES = (".png", ".jpg", ".jpeg", ".bmp")
RECORDINGS = (".wav",)
TABLES = (".csv", ".tsv")
ARRAYS = (".npy", ".npz", *TABLES)
ENCRYPTED = 1  # flag bit of a file in a zip archive
MEND = "leave it out, or repair it"
DAMAGED = (  # errors of NumPy and zipfile for damaged, encrypted or otherwise compressed files
    *(OSError, ValueError, TypeError, EOFError, MemoryError, KeyError, SyntaxError, RuntimeError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
WAV_TYPES: dict[int, Any] = {1: np.uint8, 2: np.dtype("<i2"), 4: np.dtype("<i4")}  # bytes per sample -> numpy type


def read_image(path: Path, rows: int, columns: int, channels: int) -> NDArray[np.uint8]:
    """Return an image [rows, columns, channels], resized with bilinear interpolation; 1 channel is grey, 3 channels are RGB."""
    return read_resized(path, rows, columns, channels)[0]


def read_resized(path: Path, rows: int, columns: int, channels: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    """Read and resize an image as `read_image` does; return it, and the (rows, columns) that it has in the file."""
    return _read(path, channels, lambda own: (rows, columns))


def read_fitted(path: Path, rows: int, columns: int, channels: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    """Return an image fitted into rows x columns, smaller along one axis, and the (rows, columns) that it had before."""

    def fitted(own: tuple[int, int]) -> tuple[int, int]:
        factor = min(rows / own[0], columns / own[1])
        return min(rows, max(1, round(own[0] * factor))), min(columns, max(1, round(own[1] * factor)))

    return _read(path, channels, fitted)


def _read(
    path: Path, channels: int, size: Callable[[tuple[int, int]], tuple[int, int]]
) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    """Return an image resized to the result of `size` for its (rows, columns), and its (rows, columns) in the file."""
    return _decoded(read_file(path, MAX_SAMPLE, MEND), str(path), channels, size)


def image_of_bytes(raw: bytes, name: str, rows: int, columns: int, channels: int) -> NDArray[np.uint8]:
    """Decode the bytes of an image file to [rows, columns, channels], resized as by `read_image`; `name` is for messages."""
    return _decoded(raw, name, channels, lambda own: (rows, columns))[0]


def image_size(source: Path | bytes, name: str) -> tuple[int, int]:
    """Return the (rows, columns) of an image file, given its path or its bytes, from its header; `name` is for messages."""
    pillow = _pillow()
    try:
        with pillow.open(BytesIO(source) if isinstance(source, bytes) else source) as image:
            return image.height, image.width
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        raise CompileError(f"'{name}' cannot be read as an image: {error}", MEND) from error


def image_of_array(values: NDArray[np.uint8], rows: int, columns: int, channels: int) -> NDArray[np.uint8]:
    """Return pixels [rows, columns] or [rows, columns, 1 or 3], resized and converted as in `read_image`."""
    pixels = values[..., None] if values.ndim == 2 else values
    if pixels.shape == (rows, columns, channels):
        return pixels
    return _resized(_pillow().fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels), rows, columns, channels)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise CompileError("reading images needs Pillow", f"{install('images')}, or give an .npy file") from error
    return Image


def _decoded(
    raw: bytes, name: str, channels: int, size: Callable[[tuple[int, int]], tuple[int, int]]
) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    """Decode and resize an image file's bytes as `_read` does; `name` is for error messages."""
    pillow = _pillow()
    try:
        with pillow.open(BytesIO(raw)) as image:
            own = image.height, image.width
            shown = pillow.fromarray(_high_bytes(np.asarray(image))) if image.mode.startswith("I") else image
            return _resized(shown, *size(own), channels), own
    except (OSError, ValueError, SyntaxError, MemoryError, pillow.DecompressionBombError, EOFError) as error:
        raise CompileError(f"'{name}' cannot be read as an image: {error}", MEND) from error


def _resized(image: Any, rows: int, columns: int, channels: int) -> NDArray[np.uint8]:
    """Return a Pillow image as an array [rows, columns, channels], resized with bilinear interpolation."""
    seen = image.convert("L" if channels == 1 else "RGB").resize((columns, rows), _pillow().Resampling.BILINEAR)
    return np.asarray(seen).reshape(rows, columns, channels)


def _high_bytes(values: Array) -> NDArray[np.uint8]:
    """Convert a 16-bit image to 8 bits by its high bytes; Pillow's own conversion would clip all values above 255."""
    return np.asarray(np.clip(values.astype(np.int64) >> 8, 0, 255), np.uint8)


def read_recording(path: Path) -> tuple[int, NDArray[np.float64]]:
    """Return the sample rate of a wav file in Hz, and its samples in [-1, 1), the mean of all channels."""
    return recording_of_bytes(read_file(path, MAX_SAMPLE, MEND), str(path))


def recording_of_bytes(raw: bytes, name: str) -> tuple[int, NDArray[np.float64]]:
    """Decode a wav file: return the rate in Hz and the samples in [-1, 1), the mean of channels; `name` is for messages."""
    try:
        with wave.open(BytesIO(raw)) as recording:
            width, channels, rate = recording.getsampwidth(), recording.getnchannels(), recording.getframerate()
            frames = recording.readframes(recording.getnframes())
        kind = WAV_TYPES.get(width)
        if kind is None:
            raise ValueError(f"samples of {8 * width} bits are not supported")
        values = np.frombuffer(frames, kind).astype(np.float64).reshape(-1, channels).mean(axis=1)
        if not len(values):
            raise ValueError("it holds no samples")
    except (wave.Error, ValueError, EOFError, OSError, RuntimeError, OverflowError) as error:
        why = str(error) or "it is cut short or damaged"
        raise CompileError(f"'{name}' cannot be read as a wav file: {why}", MEND) from error
    if kind is np.uint8:
        values = values - 128
    return rate, values / 2.0 ** (8 * np.dtype(kind).itemsize - 1)


def write_recording(path: Path, rate: int, samples: NDArray[np.int16]) -> None:
    """Write samples as a wav file with one channel; `rate` is in Hz."""
    with named(path), wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.astype("<i2").tobytes())


def read_arrays(path: Path, limit: int, what_to_do: str) -> dict[str, Array]:
    """Return the arrays of an .npz file by name, or the array of an .npy file or a table under the name ""."""
    raw = read_file(path, limit, what_to_do)
    if path.suffix.lower() in TABLES:
        return {"": _numbers(raw, path)}
    try:
        if path.suffix.lower() == ".npz":
            with zipfile.ZipFile(BytesIO(raw)) as archive:
                members = archive.infolist()
            kinds = {(member.compress_type, member.flag_bits & ENCRYPTED) for member in members}
            if kinds - {(zipfile.ZIP_STORED, 0), (zipfile.ZIP_DEFLATED, 0)}:
                raise ValueError("it is encrypted, or compressed in a way that NumPy does not use")
            unpacked = sum(member.file_size for member in members)
            if unpacked > limit:
                raise ValueError(f"it has {unpacked:,} bytes decompressed, at most {limit:,} are supported")
            with np.load(BytesIO(raw), allow_pickle=False) as arrays:  # np.load returns members that are not arrays as bytes
                return {key: array for key, array in arrays.items() if isinstance(array, np.ndarray)}
        if not raw.startswith((np.lib.format.MAGIC_PREFIX, b"PK")):
            raise ValueError("it does not begin as such a file does")  # NumPy takes it for a pickle, and says how to load it
        array = np.load(BytesIO(raw), allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it is an archive; its name must end with .npz")
        return {"": array}
    except DAMAGED as error:
        said = " ".join(str(error).split())
        if "pickle" in said:
            raise CompileError(f"'{path}' holds Python objects, which may run code", "save arrays of numbers") from error
        raise CompileError(f"'{path}' is not a NumPy file: {said}", "save it with numpy.save or numpy.savez") from error


def _numbers(raw: bytes, path: Path) -> NDArray[np.float64]:
    """Return the numbers [rows, columns] of a table; its first line may be a header."""
    lines = [re.split("[,;\t]", line) for line in raw.decode("utf-8-sig", "replace").splitlines() if line.strip()]
    rows = list[list[float]]()
    for number, cells in enumerate(lines):
        try:
            rows.append(list(map(float, cells)))
        except ValueError as error:
            if number:
                raise CompileError(f"'{path}': row {number + 1} has a cell that is no number: {error}", MEND) from error
    if len({*map(len, rows)}) > 1:
        raise CompileError(f"the rows of '{path}' have {', '.join(map(str, sorted({*map(len, rows)})))} numbers", MEND)
    return np.array(rows, np.float64)


def by_input(
    arrays: Mapping[str, Array], tensors: Sequence[Tensor], what: str, *, in_frames: bool = False
) -> list[list[Array]]:
    """Split arrays into samples, and return for each sample a list with one array per network input.

    `arrays` have samples along the leading axis, or a single sample; they are matched by name if all inputs are named, else by
    order. `what` is their source in messages. If `in_frames`, an array may be a recording of any length, cut into samples.
    """
    names = [tensor.name for tensor in tensors]
    matched = [arrays[name] for name in names] if set(names) <= set(arrays) else list(arrays.values())
    if len(matched) != len(tensors):
        raise CompileError(
            f"{what} holds {len(matched)} arrays, the model has {len(tensors)} inputs", "give one array per input"
        )
    columns = [_split(array, tensor, what, in_frames) for array, tensor in zip(matched, tensors, strict=True)]
    if len(set(map(len, columns))) != 1:
        raise CompileError(f"{what} holds {[len(c) for c in columns]} samples of the inputs", "give equally many of each")
    return [list(sample) for sample in zip(*columns, strict=True)]


def check_finite(values: Array, what: str, tensor: Tensor) -> None:
    """Raise CompileError if values of an input tensor are NaN or infinite; `what` names their source."""
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        index = [int(axis) for axis in np.argwhere(~finite)[0]]
        raise CompileError(f"{what} holds {values[tuple(index)]} at {index}", MEND, tensor=tensor)


def shape_advice(tensor: Tensor) -> str:
    """Return what to do about samples of another shape than the input `tensor`."""
    count = tensor.shape[0] if len(tensor.shape) > 1 else 1
    batch = f"; it takes {count} samples in one call: export the network with a batch of 1 to give single samples"
    return f"give that shape, or several along a leading axis{batch if count > 1 else ''}"


def _split(array: Array, tensor: Tensor, what: str, in_frames: bool) -> list[Array]:
    """Split an array into samples, none if empty; raise CompileError if it is neither a sample nor a stack of samples."""
    if array.size == 0:
        return []
    if in_frames and array.size % max(tensor.elements, 1) == 0:
        return list(array.reshape(-1, *tensor.shape))
    if array.ndim and array.size == array.shape[0] * tensor.elements:
        return list(array)
    if array.size == tensor.elements:
        return [array]
    kind = "" if tensor.dtype == "float32" else tensor.dtype
    raise CompileError(
        f"{what} holds {array.dtype}{list(array.shape)}, the input is {kind}{list(tensor.shape)}",
        shape_advice(tensor),
        tensor=tensor,
    )
