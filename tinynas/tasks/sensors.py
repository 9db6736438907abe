"""Windows of sensor values, or whole series. In: recordings in a folder per class, or labelled files. Out: a Dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.files import read_file
from tinyweave.support.media import MAX_SAMPLE, MEND, read_arrays
from tinyweave.support.progress import Progress, silent

from .dataset import (
    MAX_BYTES,
    PARTS,
    Dataset,
    LabelledFile,
    by_folder,
    check_classes,
    group_indices,
    parts_of,
    sorted_classes,
)
from .formats.reading import read_samples, sample_files
from .formats.sample import Sample, as_series, fault_of, is_number

Floats = NDArray[np.float64]
FILES = (".csv", ".npy")  # recordings in the folder of their class
TABLES = (".csv", ".tsv", ".npz", ".ts", ".parquet")  # files of many labelled recordings or series
MAX_VALUES = MAX_BYTES // 8  # of all windows, which are float64 before they are scaled
RANGE = (0.1, 99.9)  # percentiles of a channel that map to the ends of the int8 range; values beyond are clipped


class Recording(NamedTuple):
    """A recording, or a series that is one sample, and a function that returns its values [rows, channels]."""

    file: LabelledFile
    read: Callable[[], Floats]


def read_sensors(path: Path, window: int = 128, progress: Progress = silent) -> Dataset:
    """Cut recordings into samples [1, window, channels] that overlap by half, or read whole series as samples.

    All samples of a recording (a row per time step, a column per channel) are in the same part. `path` is a folder of
    recordings per class, or a file (or folder of files) of labelled recordings or series. Series are filled up to the longest
    with their last row; tables' recordings shorter than `window` rows are skipped.

    Raises:
        CompileError: a file or all recordings of a class are shorter than a window, a file has another number of columns, text
            or NaN, or a part has too few samples of a class.
    """
    if window < 1:
        raise CompileError(f"windows of {window} rows are out of range", "give a whole number above 0")
    if found := sample_files(path, TABLES):
        recordings, rows = _from_files(path, read_samples(found), window)
    else:
        recordings, rows = [Recording(file, partial(read_rows, file.path)) for file in by_folder(path, FILES)], None
    window, stride = (window, max(1, window // 2)) if rows is None else (rows, rows)
    files = [recording.file for recording in recordings]
    windows, labels, parts, groups, total = list[Floats](), list[str](), list[str](), list[str](), 0
    for index, ((file, read), part) in enumerate(zip(recordings, parts_of(files), strict=True)):
        values = read()
        total += max(0, (len(values) - window) // stride + 1) * window * values.shape[1]
        if total > MAX_VALUES:
            raise CompileError(f"the windows of '{path}' have more than {MAX_VALUES:,} values", "give fewer, or shorter ones")
        cut = windows_of(values, window, stride)
        if not len(cut):
            raise CompileError(
                f"'{file.path}' has fewer rows than a window, {window}", "leave it out, or give a shorter window"
            )
        if windows and cut.shape[2] != windows[0].shape[2]:
            raise CompileError(
                f"'{file.path}' has {cut.shape[2]} columns, '{files[0].path}' has {windows[0].shape[2]}",
                "give all files the same number",
            )
        windows.append(cut)
        labels += [file.label] * len(cut)
        parts += [part] * len(cut)
        groups += [file.group] * len(cut)
        progress("reading sensors", index + 1, len(files))
    classes = sorted_classes(labels)
    check_classes(classes, labels, parts)
    values = np.concatenate(windows)
    of_part = np.array([PARTS.index(part) for part in parts], np.uint8)
    scale, offset = scaling(values[of_part == 0])
    steps = np.clip(np.round(values * scale + offset), -128, 127).astype(np.int8)
    prepared = {"source": "sensors", "window": window, "scale": scale.tolist(), "offset": offset.tolist()}
    numbers = np.array(list(map(classes.index, labels)))
    return Dataset("sensors", classes, steps[:, None], numbers, of_part, prepared, group_indices(groups))


def _from_files(path: Path, samples: dict[LabelledFile, Sample], window: int) -> tuple[list[Recording], int | None]:
    """Return (recordings of at least `window` rows, None), or (series, padded by their last row, longest length).

    Raise CompileError if a class has no such recording.
    """
    series = {file: as_series(sample.value, sample.place) for file, sample in samples.items()}
    longest = max(map(len, series.values()))
    if not any(sample.is_recording for sample in samples.values()):
        return [Recording(file, partial(_filled, own, longest)) for file, own in series.items()], longest
    long = [Recording(file, partial(np.asarray, own)) for file, own in series.items() if len(own) >= window]
    lost = {file.label for file in series} - {recording.file.label for recording in long}
    if lost:
        raise CompileError(
            f"'{path}' has no {window} successive rows of one recording of the class '{min(lost)}'",
            f"give a shorter window; the longest recording has {longest} rows",
        )
    return long, None


def _filled(series: Floats, rows: int) -> Floats:
    """Return a series with `rows` rows: its last row is repeated."""
    return np.pad(series, ((0, rows - len(series)), (0, 0)), "edge")


def scaling(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return factor and offset [channels] that map percentiles RANGE of values [n, window, channels] to -128 and 127."""
    low, high = np.percentile(values, RANGE, axis=(0, 1))
    factor = 255 / np.maximum(high - low, 1e-12)
    return factor, -128 - low * factor


def windows_of(rows: NDArray[np.float64], window: int, stride: int) -> NDArray[np.float64]:
    """Return the windows [count, window, channels] of a recording [rows, channels]; one starts every `stride` rows."""
    if len(rows) < window:
        return rows[:0, None]
    starts = np.arange(0, len(rows) - window + 1, stride)
    return np.asarray(rows[starts[:, None] + np.arange(window)])


def read_rows(path: Path) -> NDArray[np.float64]:
    """Read a recording [rows, channels] from an .npy file, or from a .csv file, whose first line may hold names."""
    if path.suffix.lower() == ".npy":
        array = read_arrays(path, MAX_SAMPLE, MEND)[""]
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
            raise CompileError(f"'{path}' holds {array.dtype}{list(array.shape)}", "give numbers [rows, channels]")
        values = array.astype(np.float64).reshape(len(array), *(array.shape[1:] or (1,)))
    else:
        text = read_file(path, MAX_SAMPLE, MEND).decode("utf-8-sig", errors="replace")
        lines = [(number, line.split(",")) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if lines and not any(map(is_number, lines[0][1])):
            lines = lines[1:]
        values = np.array([_numbers(path, number, cells, len(lines[0][1])) for number, cells in lines])
    if fault := fault_of(values) if values.size else "no rows":
        raise CompileError(f"'{path}' holds {fault}", MEND)
    return values


def _numbers(path: Path, number: int, cells: Sequence[str], columns: int) -> list[float]:
    if len(cells) != columns or not all(map(is_number, cells)):
        raise CompileError(f"'{path}', line {number} is not a row of {columns} numbers: {','.join(cells)[:40]}", MEND)
    return [float(cell) for cell in cells]
