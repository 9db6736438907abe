"""Sound as it comes: the features that a network sees at each hop, the words that smoothed scores detect, and the C of both.

In: samples, scores. Out: windows of features as training has them, detections. Smoothing is that of Chen, Parada and Heigold
(2014), the mean of the last scores, without their confidence over several words.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .c_tables import texts
from .features import LogMel

SILENCE = -128  # the scores before the first step


def windows(setting: LogMel, samples: NDArray[np.int16], frames: int) -> NDArray[np.int8]:
    """Return the window of features [n, frames, per_frame] that ends with each of the n frames of a recording [samples].

    Before the recording there is silence.
    """
    features = setting.of(samples)
    padded = np.concatenate([np.tile(setting.silence.astype(np.int8), (frames - 1, 1)), features])
    return np.stack([padded[at : at + frames] for at in range(len(features))])


def detections(scores: NDArray[np.int8], steps: int, threshold: int, pause: int) -> list[int]:
    """Return the class that is detected at each step of scores [n, classes], or -1.

    steps: how many last scores the mean is of. threshold: the int8 score that the mean must reach. pause: for how many steps
    after a detection nothing is detected.
    """
    padded = np.concatenate([np.full((steps - 1, scores.shape[1]), SILENCE), scores.astype(np.int64)])
    detected, silent = list[int](), 0
    for at in range(len(scores)):
        sums = padded[at : at + steps].sum(axis=0)
        best = int(sums.argmax())
        is_heard = silent == 0 and sums[best] >= threshold * steps
        silent = pause if is_heard else max(0, silent - 1)
        detected.append(best if is_heard else -1)
    return detected


def as_text(frames: Iterable[int], scores: NDArray[np.int8], words: Iterable[int]) -> str:
    """Return what the programs print of the scores [n, classes] after so many frames, and the words detected then, or -1."""
    return "".join(
        f"frame {frame}: class {row.argmax()}, score {row.max()}{f', heard {word}' if word >= 0 else ''}\n"
        for frame, row, word in zip(frames, scores, words, strict=True)
    )


def c_files() -> dict[str, str]:
    """Return the C of the ring and of the smoothing, by file name; the ring also needs the files of `LogMel.c_files`."""
    return texts("log_mel_ring.c", "log_mel_ring.h", "smoothing.c", "smoothing.h")


def wav_files() -> dict[str, str]:
    """Return the C that reads the head of a wav file, by file name."""
    return texts("wav.c", "wav.h")
