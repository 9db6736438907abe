"""Photographs with boxes, letterboxed: the data set of a detector, and the anchors that fit its boxes. In: a folder.

A box that reaches beyond its image is clipped to it. An empty box, one that lies outside, and a class that a part of the data
lacks are refused. Anchors are from YOLO9000 (arXiv 1612.08242, section 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError
from ..media import MEND, read_fitted
from ..progress import Progress, silent
from .annotations import CROWD, Annotated, LabelledBox, read_annotations
from .dataset import MAX_BYTES, PARTS, SCALE, Dataset, LabelledFile, check_counts, part_of, with_all_parts
from .images import ZERO

Floats = NDArray[np.float64]
BOX = ("label", "top", "left", "bottom", "right", "flag")  # of a row of labels; label -1: no box
MOST_BOXES = 512  # of an image
ROUNDS = 100  # of k-means, at most
SMALLEST = 1 / 16  # pixels of an anchor's side, the unit of boxes.c: one of 0 could not grow


def read_detection(
    folder: Path,
    size: tuple[int, int],
    channels: int = 3,
    *,
    classes: Sequence[str] = (),
    anchors: int = 5,
    stride: int = 16,
    progress: Progress = silent,
) -> Dataset:
    """Return the images of a VOC or COCO folder, each fitted into `size` (rows, columns) on grey, as pixel - 128, with boxes.

    classes: the classes to learn, in this order; all of them, by name, if empty. anchors: how many the head has at most.
    stride: pixels from one cell of the head to the next. Raise CompileError for a wrong folder, or a size of no whole cells.
    """
    if anchors < 1 or stride < 1:
        raise CompileError(f"{anchors} anchors on cells of {stride} pixels find nothing", "give whole numbers above 0")
    if any(side % stride for side in size):
        raise CompileError(
            f"images of {size[0]} x {size[1]} are no whole cells of {stride} pixels", f"give multiples of {stride}"
        )
    images = read_annotations(folder)
    names = _classes(folder, images, classes)
    files = [LabelledFile(image.path, "", image.path.relative_to(folder).as_posix(), image.part) for image in images]
    parts = [file.part or part_of(file.group) for file in with_all_parts(files)]
    wanted = [[box for box in image.boxes if box.label in names] for image in images]
    counted = [(box.label, part) for boxes, part in zip(wanted, parts, strict=True) for box in boxes if not box.flag]
    check_counts(names, [label for label, _ in counted], [part for _, part in counted], "box")
    most = max(map(len, wanted))
    if most > MOST_BOXES:
        raise CompileError(f"an image of '{folder}' has {most} boxes", f"at most {MOST_BOXES} are supported")
    if size[0] * size[1] * channels * len(images) > MAX_BYTES:
        raise CompileError(f"{len(images):,} images of {size[0]} x {size[1]} are too many", "give fewer, or smaller ones")
    values = np.zeros((len(images), *size, channels), np.int8)
    labels = np.full((len(images), most, len(BOX)), -1, np.float32)
    for index, (image, boxes) in enumerate(zip(images, wanted, strict=True)):
        pixels, own = read_fitted(image.path, *size, channels)
        check_size(image.path, image.size, own)
        top, left = ((side - inner) // 2 for side, inner in zip(size, pixels.shape, strict=False))
        rows, columns = pixels.shape[:2]
        values[index, top : top + rows, left : left + columns] = (pixels.astype(np.int16) - ZERO).astype(np.int8)
        scale = np.array([rows / own[0], columns / own[1]] * 2)
        for number, box in enumerate(boxes):
            edges = clipped(image.path, box, own) * scale + (top, left, top, left)
            labels[index, number] = (names.index(box.label), *edges, box.flag)
        progress("reading images", index + 1, len(images))
    numbers = np.array([PARTS.index(part) for part in parts], np.uint8)
    prepared = {
        "source": "detection",
        "size": list(size),
        "resize": "letterbox",
        "scale": SCALE,
        "offset": -1.0,
        "stride": stride,
        "anchors": [
            [round(max(float(side), SMALLEST), 2) for side in anchor]
            for anchor in k_means(_sides(labels[numbers == 0]), anchors)
        ],
    }
    return Dataset("detection", tuple(names), values, labels, numbers, prepared)


def _classes(folder: Path, images: Sequence[Annotated], wanted: Sequence[str]) -> list[str]:
    there = sorted({box.label for image in images for box in image.boxes})
    if "" in there or not there:
        raise CompileError(f"'{folder}' has {'a box without a name' if there else 'no box'}", MEND)
    for name in wanted:
        if name not in there:
            raise CompileError(f"no box is a '{name}'", f"classes are {', '.join(there)[:200]}")
    if len(set(wanted)) < len(wanted):
        raise CompileError("a class is named twice", "name each once")
    return list(wanted) or there


def check_size(path: Path, said: tuple[int, int] | None, own: tuple[int, int]) -> None:
    """Raise CompileError where an annotation says another size, rows and columns, than its image has: own."""
    if said not in (None, own):
        told = " x ".join(map(str, said or ()))
        raise CompileError(f"'{path}' is {own[0]} x {own[1]}, its annotation is for {told}", MEND)


def clipped(path: Path, box: LabelledBox, own: tuple[int, int]) -> Floats:
    """Return the edges [4] of a box, clipped to its image of `own` rows and columns; raise CompileError if nothing is left."""
    edges = np.array(box[1:5])
    if edges[2] <= edges[0] or edges[3] <= edges[1]:
        raise CompileError(f"'{path}' has an empty box: {_told(box)}", MEND)
    inside = np.clip(edges, 0, (*own, *own))
    if inside[2] <= inside[0] or inside[3] <= inside[1]:
        raise CompileError(f"'{path}' has a box outside its {own[0]} rows and {own[1]} columns: {_told(box)}", MEND)
    return inside


def _told(box: LabelledBox) -> str:
    return f"{box.label[:40]}, rows {box.top:g} to {box.bottom:g}, columns {box.left:g} to {box.right:g}"


def boxes_of(labels: NDArray[np.float32]) -> Floats:
    """Return the boxes [count, 6] of one image's labels [most, 6], without the rows that fill them up."""
    return np.asarray(labels[labels[:, 0] >= 0], np.float64)


def _sides(labels: NDArray[np.float32]) -> Floats:
    """Return rows and columns [count, 2] of all boxes of one thing; a crowd is none."""
    boxes = boxes_of(labels.reshape(-1, len(BOX)))
    boxes = boxes[boxes[:, 5] != CROWD]
    return boxes[:, 3:5] - boxes[:, 1:3]


def shape_overlaps(sides: Floats, others: Floats) -> Floats:
    """Return [n, m]: intersection over union of boxes [n, 2] and [m, 2] (rows, columns), all with the same centre."""
    inside = np.minimum(sides[:, None], others[None]).prod(axis=2)
    return np.asarray(inside / (sides.prod(axis=1)[:, None] + others.prod(axis=1)[None] - inside))


def k_means(sides: Floats, count: int) -> Floats:
    """Return up to `count` anchors [n, 2], rows and columns, the smallest first, by k-means whose distance is 1 - overlap.

    The first centres are boxes evenly spread by area, not random ones, so that the same boxes give the same anchors.
    """
    different = np.unique(sides, axis=0)
    by_area = different[np.argsort(different.prod(axis=1), kind="stable")]
    count = min(count, len(by_area))
    centres = by_area[((np.arange(count) + 0.5) * len(by_area) / count).astype(int)]
    nearest = np.full(len(sides), -1)
    for _ in range(ROUNDS):
        own = shape_overlaps(sides, centres).argmax(axis=1)
        if (own == nearest).all():
            break
        nearest = own
        centres = np.array([sides[own == k].mean(axis=0) if (own == k).any() else centres[k] for k in range(count)])
    return np.asarray(centres[np.argsort(centres.prod(axis=1), kind="stable")])
