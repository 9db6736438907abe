"""Recordings of words as log-mel features or MFCC. In: wav files, by class in folders or names, or .parquet. Out: a Dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.media import RECORDINGS, read_recording, recording_of_bytes
from tinyweave.support.progress import Progress, silent

from .dataset import Dataset, LabelledFile, Survey, by_folder, dataset, files_of, listed, survey, with_all_parts
from .features import HOP_MS, LogMel, log_mel
from .formats.reading import read_samples, sample_files

LISTS = {"validation_list.txt": "validation", "testing_list.txt": "test"}  # as in Speech Commands
MAX_SECONDS = 60  # of a recording
SPEAKER = "_nohash_"  # separates speaker and take in file names of Speech Commands
FILES = (".parquet",)
NAMES = "give a folder for each class, or names as LABEL_SPEAKER_TAKE.wav"


def read_sounds(
    path: Path,
    seconds: float = 1.0,
    bands: int = 40,
    *,
    hop_ms: float = HOP_MS,
    coefficients: int = 0,
    by_speaker: bool = False,
    progress: Progress = silent,
) -> Dataset:
    """Read the recordings of a folder as log-mel features [frames, bands, 1], or as MFCC if `coefficients` is not 0.

    Recordings are cropped, or padded with silence, at both ends. If neither folders nor lists set the parts, all recordings of
    a speaker are in the same part, by file names as in Speech Commands, or with `by_speaker` LABEL_SPEAKER_TAKE.wav in a flat
    folder. `path` may also be a .parquet file of wav files, or a folder of such files.

    Raises:
        CompileError: sample rates differ, a class has too few samples in a part, or a setting is out of range.
    """
    files, hear = _found(path, by_speaker=by_speaker)
    rate, _ = hear(files[0].path)
    features = features_of(rate, bands, coefficients, hop_ms)
    if not abs(seconds) <= MAX_SECONDS:
        raise CompileError(f"recordings of {seconds:g} s are not supported", f"give at most {MAX_SECONDS} s")
    length = round(seconds * rate)
    if features.frames(length) < 1:
        raise CompileError(f"{seconds:g} s are shorter than a frame", f"give at least {features.frame / rate:.3f} s")

    def read(path: Path) -> NDArray[np.int8]:
        own, values = hear(path)
        if own != rate:
            raise CompileError(f"'{path}' has {own} samples a second, '{files[0].path}' has {rate}", "give one rate for all")
        return features.of(fitted(as_int16(values), length))[..., None]

    prepared = {"source": "sounds", "seconds": seconds, "features": features.record()}
    return dataset("sounds", files, read, prepared, progress)


def survey_sounds(path: Path, *, by_speaker: bool = False) -> Survey:
    """Return the number of classes and recordings, and the sample rate, that `read_sounds` would read."""
    files, hear = _found(path, by_speaker=by_speaker)
    return replace(survey(files), rate=hear(files[0].path)[0])


Hear = Callable[[Path], tuple[int, NDArray[np.float64]]]


def _found(path: Path, *, by_speaker: bool) -> tuple[list[LabelledFile], Hear]:
    """Return the recordings at a path, and the only function that reads one: its rate in Hz, and its samples."""
    samples = read_samples(found) if (found := sample_files(path, FILES)) else {}
    inside = {file.path: sample for file, sample in samples.items()}

    def hear(path: Path) -> tuple[int, NDArray[np.float64]]:
        if (sample := inside.get(path)) is None:
            return read_recording(path)
        if not isinstance(sample.value, bytes):
            raise CompileError(f"'{sample.place}' holds numbers, not the bytes of a wav file", "give a column of recordings")
        return recording_of_bytes(sample.value, sample.place)

    return list(samples) or labelled_sounds(path, by_speaker=by_speaker), hear


def features_of(rate: int, bands: int, coefficients: int = 0, hop_ms: float = HOP_MS) -> LogMel:
    """Return log-mel features of samples at `rate` Hz, or MFCC if `coefficients` > 0; raise CompileError if unsupported."""
    if not 4000 <= rate <= 48000:
        raise CompileError(f"{rate} samples a second are not supported", "give 4,000 to 48,000, for example 16,000")
    if not 1 <= bands <= 128:
        raise CompileError(f"{bands} bands are not supported", "give 1 to 128, for example 40")
    if not 0 <= coefficients <= bands:
        raise CompileError(f"{coefficients} MFCC of {bands} bands are not supported", f"give 1 to {bands}, for example 10")
    if not 1 <= hop_ms <= 1000:
        raise CompileError(f"a hop of {hop_ms:g} ms is not supported", "give 1 to 1,000, for example 20")
    return log_mel(rate, bands, hop_ms=hop_ms, coefficients=coefficients)


def as_int16(values: NDArray[np.float64]) -> NDArray[np.int16]:
    """Convert samples of -1 .. 1 to 16-bit integers."""
    return np.asarray(np.clip(np.round(values * 2**15), -(2**15), 2**15 - 1), np.int16)


def fitted(samples: NDArray[np.int16], count: int) -> NDArray[np.int16]:
    """Crop a recording to its middle `count` samples, or pad it with silence on both sides."""
    first = max(0, (len(samples) - count) // 2)
    middle = samples[first : first + count]
    before = (count - len(middle)) // 2
    return np.pad(middle, (before, count - len(middle) - before))


def labelled_sounds(folder: Path, *, by_speaker: bool) -> list[LabelledFile]:
    """List recordings with classes, and parts if set; names in a flat folder say the class and, `by_speaker`, the speaker."""
    paths = files_of(folder, RECORDINGS)
    if all(path.parent == folder for path in paths):
        return [_named(path, by_speaker=by_speaker) for path in paths]
    words = [file for file in by_folder(folder, RECORDINGS, _speaker) if not file.label.startswith("_")]  # _background_noise_
    if not words:
        raise CompileError(f"'{folder}' holds no recordings of words", NAMES)
    parts = listed(folder, LISTS, lambda line: PurePosixPath(line.strip()).as_posix())
    if not parts:
        return words
    names = [file.path.relative_to(folder).as_posix() for file in words]
    if not set(parts) & set(names):
        what = f"the lists of parts in '{folder}' name no recording of it, for example '{next(iter(parts))}'"
        raise CompileError(what, f"give paths such as {names[0]}, or delete {' and '.join(LISTS)}")
    return with_all_parts([replace(file, part=parts.get(name, "train")) for file, name in zip(words, names, strict=True)])


def _speaker(path: str) -> str:
    """Return the speaker in a file name such as SPEAKER_nohash_0.wav (Speech Commands); the whole path for other names."""
    speaker, separator, _ = path.rpartition("/")[2].partition(SPEAKER)
    return speaker if separator else path


def _named(path: Path, *, by_speaker: bool) -> LabelledFile:
    """Label a recording of a flat folder by its file name; raise CompileError if the name lacks the class or the speaker."""
    label, after_label, others = path.stem.partition("_")
    speaker, after_speaker, _ = others.partition("_")
    if not label or not after_label or (by_speaker and not after_speaker):
        raise CompileError(f"'{path.name}' does not say its class{' and speaker' if by_speaker else ''}", NAMES)
    return LabelledFile(path, label, speaker if by_speaker else path.name)
