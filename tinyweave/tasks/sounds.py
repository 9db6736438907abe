"""Recordings of words, as log-mel features or MFCC. In: wav files, a folder for each class, or names that begin with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError
from ..media import RECORDINGS, read_recording
from ..progress import Progress, silent
from .dataset import SCALE, Dataset, LabelledFile, by_folder, dataset, files_of, listed
from .features import LogMel, log_mel

LISTS = {"validation_list.txt": "validation", "testing_list.txt": "test"}  # of Speech Commands
MAX_SECONDS = 60  # of a recording: what is longer is a stream, of which a network sees a window
SPEAKER = "_nohash_"  # what follows the speaker in Speech Commands' names
NAMES = "give a folder for each class, or names as LABEL_SPEAKER_TAKE.wav"


def read_sounds(
    folder: Path,
    seconds: float = 1.0,
    bands: int = 40,
    *,
    coefficients: int = 0,
    by_speaker: bool = False,
    progress: Progress = silent,
) -> Dataset:
    """Return the recordings of a folder as log-mel features [frames, bands, 1]; with `coefficients`, so many MFCC of the bands.

    A recording is cut, or filled with silence, at both ends to `seconds`. by_speaker: take the speaker from the names in a flat
    folder, so that nobody is heard in two parts; names as in Speech Commands always say it. Raise CompileError where the rate
    is not the same in all, where a class lacks samples in a part, and for files or settings that cannot be.
    """
    files = labelled_sounds(folder, by_speaker=by_speaker)
    rate, _ = read_recording(files[0].path)
    features = features_of(rate, bands, coefficients)
    if not abs(seconds) <= MAX_SECONDS:
        raise CompileError(f"recordings of {seconds:g} s are not supported", f"give at most {MAX_SECONDS} s")
    wanted = round(seconds * rate)
    if features.frames(wanted) < 1:
        raise CompileError(f"{seconds:g} s hold no frame", f"give at least {features.frame / rate:.3f} s")

    def read(path: Path) -> NDArray[np.int8]:
        own, values = read_recording(path)
        if own != rate:
            raise CompileError(f"'{path}' has {own} samples a second, '{files[0].path}' has {rate}", "give one rate for all")
        return features.of(fitted(as_int16(values), wanted))[..., None]

    prepared = {"source": "sounds", "seconds": seconds, "scale": SCALE, "offset": 0.0, "features": features.record()}
    return dataset("sounds", files, read, prepared, progress)


def features_of(rate: int, bands: int, coefficients: int = 0) -> LogMel:
    """Return the features for a sample rate in Hz; raise CompileError for settings that are not supported."""
    if not 4000 <= rate <= 48000:
        raise CompileError(f"{rate} samples a second are not supported", "give 4,000 to 48,000: 16,000 are usual")
    if not 1 <= bands <= 128:
        raise CompileError(f"{bands} bands are not supported", "give 1 to 128: 40 are usual")
    if not 0 <= coefficients <= bands:
        raise CompileError(f"{coefficients} MFCC of {bands} bands are not supported", f"give 1 to {bands}: 10 are usual")
    return log_mel(rate, bands, coefficients=coefficients)


def as_int16(values: NDArray[np.float64]) -> NDArray[np.int16]:
    """Return samples of -1 .. 1 as a microphone gives them, in 16 bits."""
    return np.asarray(np.clip(np.round(values * 2**15), -(2**15), 2**15 - 1), np.int16)


def fitted(samples: NDArray[np.int16], count: int) -> NDArray[np.int16]:
    """Return `count` samples: the middle of more, or all of fewer with silence around them."""
    first = max(0, (len(samples) - count) // 2)
    middle = samples[first : first + count]
    before = (count - len(middle)) // 2
    return np.pad(middle, (before, count - len(middle) - before))


def labelled_sounds(folder: Path, *, by_speaker: bool) -> list[LabelledFile]:
    """Return the recordings of a folder with their classes, and their parts where folders or lists say them."""
    paths = files_of(folder, RECORDINGS)
    if all(path.parent == folder for path in paths):
        return [_named(path, by_speaker=by_speaker) for path in paths]
    words = [file for file in by_folder(folder, RECORDINGS, _speaker) if not file.label.startswith("_")]  # _background_noise_
    if not words:
        raise CompileError(f"'{folder}' holds no recordings of words", NAMES)
    parts = listed(folder, LISTS)
    if not parts:
        return words
    return [replace(file, part=parts.get(file.path.relative_to(folder).as_posix(), "train")) for file in words]


def _speaker(path: str) -> str:
    """Return the speaker of a recording, as Speech Commands names them; the path where its name does not say one."""
    speaker, says_speaker, _ = path.rpartition("/")[2].partition(SPEAKER)
    return speaker if says_speaker else path


def _named(path: Path, *, by_speaker: bool) -> LabelledFile:
    """Return a recording of a flat folder; raise CompileError where its name does not say its class, or who speaks."""
    label, says_label, rest = path.stem.partition("_")
    speaker, says_speaker, _ = rest.partition("_")
    if not label or not says_label or (by_speaker and not says_speaker):
        raise CompileError(f"'{path.name}' does not say its class{' and speaker' if by_speaker else ''}", NAMES)
    return LabelledFile(path, label, speaker if by_speaker else path.name)
