"""Draw how well a network recognises sounds as an SVG: a confusion matrix, and its scores and words over a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

WIDTH, TOP, LEFT, RIGHT, HEAD = 1120, 44, 88, 16, 34  # pixels: of the picture, its margins, the height of a heading
FAINT = -96  # int8 scores up to this value are not drawn
CELL, WAVE, ROW = 32, 110, 13  # pixels: side of a cell of the matrix, height of the waveform, height of a class's scores
RIGHT_ANSWER, WRONG, VOICE, HEARD = "#4878a8", "#c03028", "#6a9f58", "#c03028"


@dataclass(frozen=True, eq=False)
class Heard:
    """A recording, the int8 scores of every inference on it, at `moments` in seconds, and the detected words, or -1."""

    samples: NDArray[np.int16]
    rate: int
    moments: Sequence[float]
    scores: NDArray[np.int8]
    words: Sequence[int]


def confusion(labels: NDArray[np.int64], answers: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return the confusion matrix: the number of samples, by [true class, predicted class]."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, answers), 1)
    return counts


def recognised_svg(title: str, classes: Sequence[str], counts: NDArray[np.int64], heard: Heard | None = None) -> str:
    """Return an SVG of a confusion matrix ([true class, predicted class]), and of a recording if `heard` is not None."""
    second = TOP + HEAD + CELL * len(classes) + HEAD
    recording = [] if heard is None else _recording(classes, heard, second + HEAD)
    size = f'width="{WIDTH}" height="{second + (4 * HEAD + WAVE + ROW * len(classes) if recording else 0)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        f'<rect {size} fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{escape(title)}</text>',
    ]
    return "\n".join([*lines, *_matrix(classes, counts, TOP + HEAD), *recording, "</svg>"]) + "\n"


def _matrix(classes: Sequence[str], counts: NDArray[np.int64], top: int) -> list[str]:
    lines = [f'<text x="{LEFT}" y="{top - 20}" font-size="13">true class downwards, answer to the right</text>']
    for row, name in enumerate(classes):
        middle = row * CELL + CELL / 2
        lines += [
            f'<text x="{LEFT - 6}" y="{top + middle + 4:g}" text-anchor="end">{escape(name)}</text>',
            f'<text x="{LEFT + middle:g}" y="{top - 6}" text-anchor="middle">{escape(name)}</text>',
        ]
        for column in range(len(classes)):
            count, x, y = int(counts[row, column]), LEFT + column * CELL, top + row * CELL
            share = count / max(1, int(counts[row].sum()))
            fill = RIGHT_ANSWER if row == column else WRONG
            lines.append(
                f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" fill="{fill}" fill-opacity="{share:.3f}"'
                ' stroke="#d0d0d0"/>'
            )
            if count:
                ink = "white" if share > 0.5 else "black"
                lines.append(f'<text x="{x + CELL / 2:g}" y="{y + 20}" text-anchor="middle" fill="{ink}">{count}</text>')
    return lines


def _recording(classes: Sequence[str], heard: Heard, top: int) -> list[str]:
    samples, moments = heard.samples, heard.moments
    across = WIDTH - LEFT - RIGHT
    seconds = len(samples) / heard.rate
    edges = np.linspace(0, len(samples), across + 1).astype(int)
    loudest = max(1, int(np.abs(samples.astype(np.int32)).max()))
    middle, below = top + HEAD + WAVE / 2, top + HEAD + WAVE + HEAD
    path = []
    for x, (first, last) in enumerate(pairwise(edges)):
        part = samples[first : max(first + 1, last)].astype(np.int32) * WAVE / (2 * loudest)
        path.append(f"M{LEFT + x} {middle - part.max():.1f}V{middle - part.min() + 0.5:.1f}")
    lines = [
        f'<text x="{LEFT}" y="{top + 14}" font-size="13">a recording of {seconds:.1f} s: its waveform, what was heard'
        " in it, and the score of each class</text>",
        f'<path d="{"".join(path)}" stroke="{VOICE}"/>',
    ]
    wide = across * (moments[1] - moments[0]) / seconds if len(moments) > 1 else 4.0
    for row, name in enumerate(classes):
        y = below + row * ROW
        lines.append(f'<text x="{LEFT - 6}" y="{y + 10}" text-anchor="end">{escape(name)}</text>')
        lines += [
            f'<rect x="{LEFT + across * moment / seconds - wide:.1f}" y="{y}" width="{wide:.1f}" height="{ROW - 1}"'
            f' fill="black" fill-opacity="{(int(score) + 128) / 255:.2f}"/>'
            for moment, score in zip(moments, heard.scores[:, row], strict=True)
            if score > FAINT
        ]
    for moment, word in zip(moments, heard.words, strict=True):
        if word >= 0:
            at = LEFT + across * moment / seconds
            lines += [
                f'<path d="M{at:.1f} {top + HEAD}V{below + ROW * len(classes)}" stroke="{HEARD}"/>',
                f'<text x="{at + 3:.1f}" y="{top + HEAD + 10}" font-size="13" fill="{HEARD}">{escape(classes[word])}</text>',
            ]
    return lines
