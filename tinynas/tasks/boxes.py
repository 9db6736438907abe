"""Decode the head of a detector into boxes in integers, and emit C that computes the same bytes. In: int8 values. Out: boxes.

Per cell and anchor, the head predicts centre and size (rows, columns), an object score, and a score per class if there are
several. The centre is a logistic function, the size the anchor's times an exponential (YOLO9000, arXiv 1612.08242); both are
tables of 256 values. Non-maximum suppression drops boxes that overlap a better one of the same class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError, Quant

from .c_tables import header, texts
from .dataset import Dataset

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Array = NDArray[Any]
UNIT_BITS = 4  # coordinates are 16ths of a pixel
PROBABILITY_BITS, GROWTH_BITS, OVERLAP_BITS = 15, 12, 8
LARGEST = 16.0  # largest ratio of a box side to its anchor
MOST = 128  # candidates before non-maximum suppression
OVERLAP = 0.45  # IoU threshold of non-maximum suppression
TERMS = 5  # values of an anchor before its class scores: centre, size, object score
BOX = np.dtype([("top", "<i2"), ("left", "<i2"), ("bottom", "<i2"), ("right", "<i2"), ("score", "<u2"), ("label", "<u2")])


@dataclass(frozen=True)
class Head:
    """The output of a detector: its grid of cells and anchors, and how it is decoded into boxes."""

    size: tuple[int, int]  # rows and columns of the image
    stride: int  # rows and columns of a cell in pixels
    anchors: tuple[tuple[float, float], ...]  # rows and columns of each anchor in pixels
    classes: int

    @property
    def scores(self) -> int:
        """Return the number of class scores per anchor; 0 for a single class, because its score is the object score."""
        return self.classes if self.classes > 1 else 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the rows, columns and channels of the detector's output."""
        rows, columns = (side // self.stride for side in self.size)
        return rows, columns, len(self.anchors) * (TERMS + self.scores)

    @property
    def units(self) -> Ints:
        """Return the height and width [n, 2] of the anchors in units of 1 / 2^UNIT_BITS pixels."""
        return np.asarray(np.round(np.array(self.anchors) * 2**UNIT_BITS), np.int64)

    def detected(self, values: NDArray[np.int8], quant: Quant, threshold: float) -> NDArray[np.void]:
        """Decode the int8 output into boxes (dtype BOX) by falling score, with the same bytes as boxes.c.

        Boxes of equal score are in the order of rows, columns, anchors. Raise CompileError for a threshold of the score out of
        (0, 1].
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
        """Decode the float output into boxes [n, 6]: label, edges (top, left, bottom, right) in pixels, score (0 to 1)."""
        cells: Floats = self._cells(values).astype(np.float64)
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
        """Return tables [256] of logistic (PROBABILITY_BITS fractional) and exp (GROWTH_BITS) for int8 values -128 .. 127."""
        real: Floats = np.asarray((np.arange(-128, 128) - quant.zero_point[0]) * quant.scale[0], np.float64)
        probability = np.asarray(np.round(_logistic(real) * 2**PROBABILITY_BITS), np.int64)
        growth = np.asarray(np.round(np.exp(np.minimum(real, np.log(LARGEST))) * 2**GROWTH_BITS), np.int64)
        return probability, growth

    def c_files(self, quant: Quant) -> dict[str, str]:
        """Return the C files that decode a network's output of quantisation `quant`: file name -> text."""
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
        """Return a score threshold with PROBABILITY_BITS fractional bits; raise CompileError if it is out of range."""
        if not 0 < threshold <= 1:
            raise CompileError(f"the threshold {threshold:g} is out of range", "give a number above 0, at most 1")
        return max(1, round(threshold * (1 << PROBABILITY_BITS)))

    def _cells(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        rows, columns, _ = self.shape
        return values.reshape(rows, columns, len(self.anchors), TERMS + self.scores)

    def _best(self, cells: Array, score: Array, threshold: float) -> tuple[Array, tuple[Ints, ...], Ints, Array]:
        """Return the up to MOST anchors by falling `score` [rows, columns, anchors]: values, places, labels and scores.

        Places are three arrays [n]: rows, columns, anchors. `cells` are [rows, columns, anchors, values].
        """
        order = np.argsort(-score.reshape(-1), kind="stable")[:MOST]
        places = np.unravel_index(order[score.reshape(-1)[order] >= threshold], score.shape)
        cell = cells[places]
        labels = cell[:, TERMS:].argmax(axis=1) if self.scores else np.zeros(len(cell), np.int64)
        return cell, places, labels, score[places]


def head_of(data: Dataset) -> Head | None:
    """Return the Head that decodes a detector's output for this data set, or None if the data set is not for detection."""
    prepared = data.preparation
    if data.kind != "detection":
        return None
    anchors = tuple((float(rows), float(columns)) for rows, columns in prepared["anchors"])
    return Head((prepared["size"][0], prepared["size"][1]), prepared["stride"], anchors, len(data.classes))


def as_text(boxes: NDArray[np.void]) -> str:
    """Return boxes as the text that the C examples print: a line per box, then the number of boxes."""
    lines = [
        f"class {box['label']}, score {box['score']}: rows {box['top']} to {box['bottom']}, "
        f"columns {box['left']} to {box['right']}\n"
        for box in boxes
    ]
    return "".join([*lines, f"boxes {len(boxes)}"])


def as_rows(boxes: NDArray[np.void]) -> Floats:
    """Convert boxes of dtype BOX to [n, 6]: label, edges (top, left, bottom, right) in pixels, score."""
    edges = np.stack([boxes[name] for name in ("top", "left", "bottom", "right")], axis=1) / 2**UNIT_BITS
    return np.column_stack((boxes["label"], edges, boxes["score"] / 2**PROBABILITY_BITS)).astype(np.float64)


def suppressed(edges: Array, labels: Ints, limit: float) -> list[int]:
    """Return the boxes left by non-maximum suppression (IoU `limit`); edges [n, 4], labels [n] are by falling score."""
    sides = edges[:, 2:] - edges[:, :2]
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
