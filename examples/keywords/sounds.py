"""Recordings of digits as log-mel features, and which of them are held out; training and the command share it.

In: wav files named DIGIT_SPEAKER_TAKE.wav. Out: int8 [49, 32, 1], those of `tinynas.tasks.features`, whose C is emitted.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tinynas.tasks.features import log_mel
from tinynas.tasks.sounds import as_int16, fitted
from tinyweave.ir import CompileError
from tinyweave.support.media import read_recording

HERE = Path(__file__).parent
RECORDINGS = HERE.parents[2] / "shared" / "data" / "fsdd" / "recordings"
RATE, SECOND, BANDS, DIGITS = 8000, 8000, 32, 10
FEATURES = log_mel(RATE, BANDS)
FRAMES = FEATURES.frames(SECOND)
HELD_OUT_TAKES = range(5)
NAME = re.compile(r"(\d)_(\w+)_(\d+)")
SCALE, OFFSET = 1 / 256, 0.5  # what a feature is to the network: from 0, the quietest, up to just below 1


def read_digit(path: Path) -> NDArray[np.int16]:
    """Return the samples of a recording; raise CompileError where its rate is not RATE."""
    rate, values = read_recording(path)
    if rate != RATE:
        raise CompileError(f"'{path}' has {rate:,} samples a second", f"give recordings of {RATE:,}")
    return as_int16(values)


def features(samples: NDArray[np.int16]) -> NDArray[np.int8]:
    """Return the features [frames, bands, 1] of the second in a recording's middle; silence around a shorter one."""
    return FEATURES.of(fitted(samples, SECOND))[..., None]


def named(path: Path) -> tuple[int, str, int]:
    """Return digit, speaker and take, as a file's name says; raise CompileError where it does not."""
    said = NAME.fullmatch(path.stem)
    if said is None:
        raise CompileError(f"'{path.name}' does not say what it is", "name it DIGIT_SPEAKER_TAKE.wav")
    return int(said[1]), said[2], int(said[3])


def recordings(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the recordings to train on and those that are held out: takes 0 to 4 of every speaker and digit.

    Raise CompileError where there is no wav file, a name does not say what it is, or none is held out.
    """
    paths = sorted(folder.glob("*.wav"))
    if not paths:
        raise CompileError(f"there are no wav files in '{folder}'", "give the data set's folder with --data")
    is_held_out = [named(path)[2] in HELD_OUT_TAKES for path in paths]
    sides = [[path for path, held in zip(paths, is_held_out, strict=True) if held is side] for side in (False, True)]
    if not sides[1]:
        raise CompileError(f"'{folder}' has no takes 0 to 4, which are held out", "add some of each digit")
    return sides[0], sides[1]
