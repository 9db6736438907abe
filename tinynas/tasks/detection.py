"""Data sets of detectors: letterboxed photographs with boxes, and anchors that fit the boxes. In: a folder. Out: a Dataset.

Boxes are clipped to their image. An empty box, a box outside its image, and a class without a box in a part are errors. Anchors
are chosen as in YOLO9000 (arXiv 1612.08242, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.media import MEND, image_size, read_fitted
from tinyweave.support.progress import Progress, silent

from .annotations import CROWD, Annotated, LabelledBox, read_annotations
from .dataset import (
    MAX_BYTES,
    PARTS,
    Dataset,
    LabelledFile,
    Survey,
    check_counts,
    part_of,
    survey,
    with_all_parts,
)
from .images import as_int8, preparation

Floats = NDArray[np.float64]
BOX = ("label", "top", "left", "bottom", "right", "flag")  # columns of labels; label -1: padding
MOST_BOXES = 512  # per image
ROUNDS = 100  # iterations of k-means at most
SMALLEST = 1 / 16  # least side of an anchor in pixels: boxes of an anchor of size 0 would have size 0


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
    """Read a VOC or COCO folder: images letterboxed to `size`, with the values pixel - 128, and their boxes.

    `channels` is 1 for grey, 3 for RGB. The `classes` are learnt in this order; by default all, sorted. There are up to
    `anchors` typical box sizes; `stride` is the side in pixels of a cell of the output grid. Raise CompileError if the folder
    is faulty, or the size is no multiple of the stride.
    """
    if anchors < 1 or stride < 1:
        raise CompileError(f"{anchors} anchors with a stride of {stride} pixels are out of range", "give whole numbers above 0")
    if any(side % stride for side in size):
        raise CompileError(
            f"images of {size[0]} x {size[1]} are no multiple of the stride, {stride} pixels", f"give multiples of {stride}"
        )
    images = read_annotations(folder)
    names = _classes(folder, images, classes)
    parts = [file.part or part_of(file.group) for file in _files(folder, images)]
    boxes_by_image = [[box for box in image.boxes if box.label in names] for image in images]
    counted = [(box.label, part) for boxes, part in zip(boxes_by_image, parts, strict=True) for box in boxes if not box.flag]
    check_counts(names, [label for label, _ in counted], [part for _, part in counted], "box")
    most = max(map(len, boxes_by_image))
    if most > MOST_BOXES:
        raise CompileError(f"an image of '{folder}' has {most} boxes", f"at most {MOST_BOXES} are supported")
    if size[0] * size[1] * channels * len(images) > MAX_BYTES:
        raise CompileError(f"{len(images):,} images of {size[0]} x {size[1]} are too many", "give fewer, or smaller ones")
    values = np.zeros((len(images), *size, channels), np.int8)
    labels = np.full((len(images), most, len(BOX)), -1, np.float32)
    for index, (image, boxes) in enumerate(zip(images, boxes_by_image, strict=True)):
        pixels, own = read_fitted(image.path, *size, channels)
        check_size(image.path, image.size, own)
        top, left = ((side - inner) // 2 for side, inner in zip(size, pixels.shape, strict=False))
        rows, columns = pixels.shape[:2]
        values[index, top : top + rows, left : left + columns] = as_int8(pixels)
        scale = np.array([rows / own[0], columns / own[1]] * 2)
        for number, box in enumerate(boxes):
            edges = clipped(image.path, box, own) * scale + (top, left, top, left)
            labels[index, number] = (names.index(box.label), *edges, box.flag)
        progress("reading images", index + 1, len(images))
    numbers = np.array([PARTS.index(part) for part in parts], np.uint8)
    prepared = preparation("detection", size, "letterbox") | {
        "stride": stride,
        "anchors": [
            [round(max(float(side), SMALLEST), 2) for side in anchor]
            for anchor in k_means(_sides(labels[numbers == 0]), anchors)
        ],
    }
    return Dataset("detection", tuple(names), values, labels, numbers, prepared)


def survey_detection(folder: Path, classes: Sequence[str] = ()) -> Survey:
    """Return classes, images per part (approximate in a small folder), and median size of a VOC or COCO folder."""
    images = read_annotations(folder)
    return survey(_files(folder, images), sizes_of(images), len(_classes(folder, images, classes)))


def _files(folder: Path, images: Sequence[Annotated]) -> list[LabelledFile]:
    """Return the annotated images of a folder as files without a label, with their parts."""
    return with_all_parts(
        [LabelledFile(image.path, "", image.path.relative_to(folder).as_posix(), image.part) for image in images]
    )


def sizes_of(images: Sequence[Annotated]) -> Callable[[Path], tuple[int, int]]:
    """Return a function from the path of an annotated image to its rows and columns, stated by its annotation or its file."""
    stated = {image.path: image.size for image in images}
    return lambda path: stated[path] or image_size(path, str(path))


def _classes(folder: Path, images: Sequence[Annotated], wanted: Sequence[str]) -> list[str]:
    """Return the classes to learn: `wanted`, or all if it is empty; raise CompileError for a class without boxes."""
    there = sorted({box.label for image in images for box in image.boxes})
    if "" in there or not there:
        raise CompileError(f"'{folder}' has {'a box without a name' if there else 'no box'}", MEND)
    for name in wanted:
        if name not in there:
            raise CompileError(f"no box has the class '{name}'", f"give some of {', '.join(there)[:200]}")
    if len(set(wanted)) < len(wanted):
        raise CompileError("classes names a class twice", "name each class once")
    return list(wanted) or there


def check_size(path: Path, stated: tuple[int, int] | None, own: tuple[int, int]) -> None:
    """Raise CompileError if an annotation states another size (rows, columns; None: unstated) than its image has."""
    if stated not in (None, own):
        size = " x ".join(map(str, stated or ()))
        raise CompileError(f"'{path}' is {own[0]} x {own[1]}, its annotation says {size}", MEND)


def clipped(path: Path, box: LabelledBox, own: tuple[int, int]) -> Floats:
    """Return edges (top, left, bottom, right) in pixels, clipped to the image; raise CompileError if nothing is left."""
    edges = np.array(box[1:5])
    if edges[2] <= edges[0] or edges[3] <= edges[1]:
        raise CompileError(f"'{path}' has an empty box: {_text(box)}", MEND)
    inside = np.clip(edges, 0, (*own, *own))
    if inside[2] <= inside[0] or inside[3] <= inside[1]:
        raise CompileError(f"'{path}' has a box outside its {own[0]} rows and {own[1]} columns: {_text(box)}", MEND)
    return np.asarray(inside, np.float64)


def _text(box: LabelledBox) -> str:
    return f"{box.label[:40]}, rows {box.top:g} to {box.bottom:g}, columns {box.left:g} to {box.right:g}"


def boxes_of(labels: NDArray[np.float32]) -> Floats:
    """Return the boxes [count, 6] of one image's labels [boxes, 6], without the rows of padding. Columns are as in BOX."""
    return np.asarray(labels[labels[:, 0] >= 0], np.float64)


def _sides(labels: NDArray[np.float32]) -> Floats:
    """Return the height and width [count, 2] in pixels of all boxes except crowds. Columns of labels are as in BOX."""
    boxes = boxes_of(labels.reshape(-1, len(BOX)))
    boxes = boxes[boxes[:, 5] != CROWD]
    return np.asarray(boxes[:, 3:5] - boxes[:, 1:3])


def shape_overlaps(sides: Floats, others: Floats) -> Floats:
    """Return the IoU [n, m] of boxes of the sizes [n, 2] and [m, 2] (rows, columns) with the same centre."""
    inside = np.minimum(sides[:, None], others[None]).prod(axis=2)
    return np.asarray(inside / (sides.prod(axis=1)[:, None] + others.prod(axis=1)[None] - inside))


def k_means(sides: Floats, count: int) -> Floats:
    """Return up to `count` anchors (rows, columns), smallest first, by k-means with the distance 1 - IoU; deterministic."""
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
