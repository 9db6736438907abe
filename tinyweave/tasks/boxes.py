"""From a detector's head to boxes, in integers, and the C that gives the same bytes.

For each anchor a cell of the head has: the centre (down, right), the size (rows, columns), whether there is an object, and a
score for each class if there are several. A logistic function puts the centre into its cell, and the size is the anchor's times
an exponential (YOLO9000, arXiv 1612.08242). Both are tables over the 256 values of int8. A box that overlaps a better one of
its class is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Quant
from .c_tables import header, texts
from .dataset import Dataset

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Array = NDArray[Any]
UNIT_BITS = 4  # coordinates are 16ths of a pixel
PROBABILITY_BITS, GROWTH_BITS, OVERLAP_BITS = 15, 12, 8
LARGEST = 16.0  # times its anchor, that the side of a box can be
MOST = 128  # candidates: of more boxes above the threshold the best ones count
OVERLAP = 0.45  # with a better box of its class, above which a box is dropped
TERMS = 5  # centre, size and object of an anchor, before its classes
BOX = np.dtype([("top", "<i2"), ("left", "<i2"), ("bottom", "<i2"), ("right", "<i2"), ("score", "<u2"), ("label", "<u2")])


@dataclass(frozen=True)
class Head:
    """size: rows and columns of the image. stride: pixels per cell. anchors: rows and columns of each, in pixels."""

    size: tuple[int, int]
    stride: int
    anchors: tuple[tuple[float, float], ...]
    classes: int

    @property
    def scores(self) -> int:
        """Return how many scores of classes an anchor has; a single class needs none besides the object's score."""
        return self.classes if self.classes > 1 else 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the rows, columns and channels of the head's map."""
        rows, columns = (side // self.stride for side in self.size)
        return rows, columns, len(self.anchors) * (TERMS + self.scores)

    @property
    def units(self) -> Ints:
        """Return the anchors [n, 2], rows and columns, in units of 1 / 2^UNIT_BITS pixels."""
        return np.round(np.array(self.anchors) * 2**UNIT_BITS).astype(np.int64)

    def detected(self, values: NDArray[np.int8], quant: Quant, threshold: float) -> NDArray[np.void]:
        """Return the boxes of a head's int8 values (`shape`), the best first, as boxes.c does; threshold: a score of 0 .. 1.

        Of equal scores the first in the order of rows, columns, anchors is the better one.
        """
        probability, growth = self.tables(quant)
        cells = self._cells(values).astype(np.int64) + 128
        score = probability[cells[..., 4]]
        if self.scores:
            score = (score * probability[cells[..., TERMS:].max(axis=3)]) >> PROBABILITY_BITS
        cell, (rows, columns, anchors), labels, scores = self._best(cells, score, self.limit(threshold))
        step, half = self.stride << UNIT_BITS, 1 << (PROBABILITY_BITS - 1)
        centre = [(step * probability[cell[:, axis]] + half) >> PROBABILITY_BITS for axis in (0, 1)]
        half = 1 << (GROWTH_BITS - 1)
        sides = [(self.units[anchors, axis] * growth[cell[:, 2 + axis]] + half) >> GROWTH_BITS for axis in (0, 1)]
        first = [place * step + own - (side >> 1) for place, own, side in zip((rows, columns), centre, sides, strict=True)]
        last = [begin + side for begin, side in zip(first, sides, strict=True)]
        edges = np.clip(np.stack([*first, *last], axis=1), 0, [side << UNIT_BITS for side in (*self.size, *self.size)])
        kept = suppressed(edges, labels, round(OVERLAP * 2**OVERLAP_BITS) / 2**OVERLAP_BITS)
        return np.array([(*edges[index], scores[index], labels[index]) for index in kept], BOX)

    def detected_real(self, values: NDArray[np.float32], threshold: float) -> Floats:
        """Return the boxes [n, 6] (label, edges in pixels, score) of a head's real values (`shape`), without any rounding."""
        cells = self._cells(values).astype(np.float64)
        score = _logistic(cells[..., 4])
        if self.scores:
            score = score * _logistic(cells[..., TERMS:].max(axis=3))
        cell, (rows, columns, anchors), labels, scores = self._best(cells, score, threshold)
        centre = (np.stack((rows, columns), axis=1) + _logistic(cell[:, :2])) * self.stride
        sides = np.array(self.anchors)[anchors] * np.exp(np.minimum(cell[:, 2:4], np.log(LARGEST)))
        edges = np.clip(np.concatenate((centre - sides / 2, centre + sides / 2), axis=1), 0, (*self.size, *self.size))
        kept = suppressed(edges, labels, OVERLAP)
        return np.column_stack((labels[kept], edges[kept], scores[kept]))

    def tables(self, quant: Quant) -> tuple[Ints, Ints]:
        """Return two tables [256] of integers: the logistic function and the exponential of what -128 .. 127 stand for."""
        real = (np.arange(-128, 128) - quant.zero_point[0]) * quant.scale[0]
        probability = np.round(_logistic(real) * 2**PROBABILITY_BITS)
        growth = np.round(np.exp(np.minimum(real, np.log(LARGEST))) * 2**GROWTH_BITS)
        return probability.astype(np.int64), growth.astype(np.int64)

    def c_files(self, quant: Quant) -> dict[str, str]:
        """Return the C that makes boxes of the head's int8 values, by file name; quant: of these values."""
        probability, growth = self.tables(quant)
        rows, columns, _ = self.shape
        sizes = {
            "ROWS": rows,
            "COLUMNS": columns,
            "ANCHORS": len(self.anchors),
            "CLASSES": self.classes,
            "SCORES": self.scores,
            "STRIDE": self.stride,
            "UNIT_BITS": UNIT_BITS,
            "PROBABILITY_BITS": PROBABILITY_BITS,
            "GROWTH_BITS": GROWTH_BITS,
            "OVERLAP_BITS": OVERLAP_BITS,
            "OVERLAP": round(OVERLAP * 2**OVERLAP_BITS),
            "MOST": MOST,
        }
        tables = (
            ("uint16_t", "probability", probability),
            ("uint32_t", "growth", growth),
            ("uint16_t", "anchors", self.units.reshape(-1)),
        )
        about = f"{rows} x {columns} cells, {len(self.anchors)} anchors, {self.classes} class{'es' * (self.classes > 1)}"
        return texts("boxes.c", "boxes.h") | {"boxes_tables.h": header("boxes", about, sizes, tables)}

    def limit(self, threshold: float) -> int:
        """Return a threshold of 0 .. 1 as the C takes it; raise CompileError for another."""
        if not 0 < threshold <= 1:
            raise CompileError(f"{threshold:g} is no threshold of a score", "give a number above 0, at most 1")
        return max(1, round(threshold * 2**PROBABILITY_BITS))

    def _cells(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        rows, columns, _ = self.shape
        return values.reshape(rows, columns, len(self.anchors), TERMS + self.scores)

    def _best(self, cells: Array, score: Array, threshold: float) -> tuple[Array, tuple[Ints, ...], Ints, Array]:
        """Return up to MOST cells with scores of at least the threshold, the best first, of equal ones the first: their values,
        rows, columns and anchors, labels, scores."""
        order = np.argsort(-score.reshape(-1), kind="stable")[:MOST]
        places = np.unravel_index(order[score.reshape(-1)[order] >= threshold], score.shape)
        cell = cells[places]
        labels = cell[:, TERMS:].argmax(axis=1) if self.scores else np.zeros(len(cell), np.int64)
        return cell, places, labels, score[places]


def head_of(data: Dataset) -> Head | None:
    """Return the head that a data set's boxes need; None where the samples have classes only."""
    prepared = data.preparation
    if data.kind != "detection":
        return None
    anchors = tuple((float(rows), float(columns)) for rows, columns in prepared["anchors"])
    return Head((prepared["size"][0], prepared["size"][1]), prepared["stride"], anchors, len(data.classes))


def as_text(boxes: NDArray[np.void]) -> str:
    """Return boxes as the programs print them: a line each, with score and edges as integers, and last how many there are."""
    lines = [
        f"class {box['label']}, score {box['score']}: rows {box['top']} to {box['bottom']}, "
        f"columns {box['left']} to {box['right']}\n"
        for box in boxes
    ]
    return "".join([*lines, f"boxes {len(boxes)}"])


def as_rows(boxes: NDArray[np.void]) -> Floats:
    """Return boxes [n, 6] as label, edges in pixels, score."""
    edges = np.stack([boxes[name] for name in ("top", "left", "bottom", "right")], axis=1) / 2**UNIT_BITS
    return np.column_stack((boxes["label"], edges, boxes["score"] / 2**PROBABILITY_BITS)).astype(np.float64)


def suppressed(edges: NDArray[np.generic], labels: Ints, limit: float) -> list[int]:
    """Return the indices of the boxes that stay: those that no better one of their class overlaps by more than `limit`.

    edges [n, 4], labels [n]: in falling order of the scores.
    """

    sides = np.asarray(edges[:, 2:] - edges[:, :2])  # type: ignore[operator]
    areas, kept = sides[:, 0] * sides[:, 1], list[int]()
    alive = np.ones(len(edges), bool)
    for index in range(len(edges)):
        if alive[index]:
            kept.append(index)
            inside = np.minimum(edges[index, 2:], edges[:, 2:]) - np.maximum(edges[index, :2], edges[:, :2])
            shared = np.where((inside > 0).all(axis=1), inside[:, 0] * inside[:, 1], 0)
            alive &= (shared <= limit * (areas[index] + areas - shared)) | (labels != labels[index])
    return kept


def _logistic(values: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -60, 60))))
