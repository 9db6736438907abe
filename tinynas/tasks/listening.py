"""Streaming keyword spotting: features at each hop, detection of words by smoothed scores, and the C of both.

In: samples, scores. Out: windows of features as in training, detections. Scores are averaged over the last steps (Chen, Parada
and Heigold 2014).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .c_tables import texts
from .features import LogMel

SILENCE = -128  # scores before the first step


def windows(setting: LogMel, samples: NDArray[np.int16], frames: int) -> NDArray[np.int8]:
    """Return the window [n, frames, per_frame] that ends with each frame of a recording; silence precedes it."""
    features = setting.of(samples)
    padded = np.concatenate([np.tile(setting.silence.astype(np.int8), (frames - 1, 1)), features])
    return np.stack([padded[at : at + frames] for at in range(len(features))])


def detections(scores: NDArray[np.int8], steps: int, threshold: int, pause: int) -> list[int]:
    """Return the class detected at each step of int8 scores [n, classes], or -1.

    Its mean of the last `steps` scores is the largest and at least `threshold`. Then nothing is detected for `pause` steps.
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
    """Return the text of the C examples: per frame its best class and score, and the detected class, -1 for none."""
    return "".join(
        f"frame {frame}: class {row.argmax()}, score {row.max()}{f', heard {word}' if word >= 0 else ''}\n"
        for frame, row, word in zip(frames, scores, words, strict=True)
    )


def c_files() -> dict[str, str]:
    """Return C files of the ring buffer of features (needs `LogMel.c_files`) and of smoothing: file name -> text."""
    return texts("log_mel_ring.c", "log_mel_ring.h", "smoothing.c", "smoothing.h")


def wav_files() -> dict[str, str]:
    """Return the C files that read the header of a wav file: file name -> text."""
    return texts("wav.c", "wav.h")
