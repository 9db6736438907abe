"""Mean average precision of a detector: as PASCAL VOC counts it, by all points of recall or by 11, and as COCO does. In: boxes.

Found boxes are [n, 6]: label, edges, score; true boxes are [m, 6]: label, edges, flag. Edges are real numbers, without the
pixel that VOC's kit adds to both sides.
- VOC: a found box belongs to the true box that it overlaps most, if they share at least half of their union. A second found box
  of the same true box is wrong. One that belongs to a difficult box is ignored. VOC has no crowds: they are taken as difficult.
- COCO: for each overlap of 0.5, 0.55 .. 0.95 a found box takes the true box that it overlaps most, of those that are free, and
  first of those that count. At most 100 found boxes of an image and class count. The overlap with a crowd is the share of the
  found box that lies in it; any number of found boxes may take it, and are ignored. COCO has no difficult boxes: one found box
  may take each, and is ignored.
Sources: the development kit of VOC 2012; pycocotools 2.0.11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .annotations import COUNTED, CROWD

Floats = NDArray[np.float64]
RIGHT, WRONG, IGNORED = 1, 0, -1
COCO_OVERLAPS = tuple(0.5 + 0.05 * step for step in range(10))
COCO_POINTS, VOC_POINTS = np.linspace(0, 1, 101), np.arange(11) / 10  # of recall
COCO_MOST = 100  # found boxes of an image and class
RESAMPLED = 200  # sets of images, drawn to tell how far chance goes


@dataclass(frozen=True, eq=False)
class Match:
    """Found boxes of one image and class, by falling scores. kinds: RIGHT, WRONG, IGNORED. positives: true boxes counted."""

    scores: Floats
    kinds: NDArray[np.int64]
    positives: int


Rule = Callable[[Floats, Floats, float], Match]


def overlaps(found: Floats, true: Floats) -> Floats:
    """Return [n, m]: the intersection of found and true boxes over their union, with a crowd over the found box alone."""
    top_left = np.maximum(found[:, None, 1:3], true[None, :, 1:3])
    inside = np.maximum(np.minimum(found[:, None, 3:5], true[None, :, 3:5]) - top_left, 0).prod(axis=2)
    areas = [(boxes[:, 3:5] - boxes[:, 1:3]).prod(axis=1) for boxes in (found, true)]
    union = np.where(true[:, 5] == CROWD, areas[0][:, None], areas[0][:, None] + areas[1][None] - inside)
    return np.divide(inside, union, out=np.zeros_like(inside), where=inside > 0)


def match_voc(found: Floats, true: Floats, least: float) -> Match:
    """Match the boxes of one class in one image as VOC does; least: the overlap from which a found box is right."""
    found = _by_score(found)
    shared = overlaps(found, np.where(np.arange(6) == 5, COUNTED, true))
    kinds, taken = np.zeros(len(found), np.int64), set[int]()
    for index in np.flatnonzero((shared >= least).any(axis=1)):
        best = int(shared[index].argmax())
        if true[best, 5] != COUNTED:
            kinds[index] = IGNORED
        elif best not in taken:
            kinds[index] = RIGHT
            taken.add(best)
    return Match(found[:, 5], kinds, int((true[:, 5] == COUNTED).sum()))


def match_coco(found: Floats, true: Floats, least: float) -> Match:
    """Match the boxes of one class in one image as COCO does; least: the overlap from which a found box is right."""
    found, true = _by_score(found)[:COCO_MOST], true[np.argsort(true[:, 5] != COUNTED, kind="stable")]
    shared, counted = overlaps(found, true), int((true[:, 5] == COUNTED).sum())
    kinds, free = np.zeros(len(found), np.int64), np.ones(len(true), bool)
    for index, row in enumerate(shared):
        for first, end in ((0, counted), (counted, len(true))):
            open_row = np.where(free[first:end], row[first:end], -1.0)
            if len(open_row) and open_row.max() >= min(least, 1 - 1e-10):
                taken = end - 1 - int(open_row[::-1].argmax())  # of equals the last one, as its loop has it
                kinds[index] = RIGHT if taken < counted else IGNORED
                free[taken] = true[taken, 5] == CROWD
                break
    return Match(found[:, 5], kinds, counted)


def average_precision(matches: Sequence[Match], points: Floats | None) -> float:
    """Return the average precision of one class over images, NaN if no box of it counts.

    points: the recalls at which precision is read; None: all, which gives the area below the curve.
    """
    positives = sum(match.positives for match in matches)
    if not positives:
        return float("nan")
    scores = np.concatenate([match.scores for match in matches])
    kinds = np.concatenate([match.kinds for match in matches])[np.argsort(-scores, kind="stable")]
    right, wrong = np.cumsum(kinds == RIGHT), np.cumsum(kinds == WRONG)
    recall, precision = right / positives, right / np.maximum(right + wrong, 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]  # at this recall or a higher one
    if points is None:
        return float((np.diff(recall, prepend=0.0) * best).sum())
    places = np.searchsorted(recall, points, side="left")
    return float(np.append(best, 0.0)[np.minimum(places, len(best))].mean())


def voc(found: Sequence[Floats], true: Sequence[Floats], classes: int, points: Floats | None = None) -> Floats:
    """Return the average precision [classes] as VOC counts it: since 2010 by all points, before by VOC_POINTS."""
    return _classes(matched(found, true, classes, match_voc, (0.5,))[0], points)


def coco(found: Sequence[Floats], true: Sequence[Floats], classes: int) -> Floats:
    """Return the average precision [classes] as COCO counts it, the mean over COCO_OVERLAPS."""
    by_overlap = matched(found, true, classes, match_coco, COCO_OVERLAPS)
    return np.asarray(np.mean([_classes(matches, COCO_POINTS) for matches in by_overlap], axis=0))


def matched(
    found: Sequence[Floats], true: Sequence[Floats], classes: int, rule: Rule, least: Sequence[float]
) -> list[list[list[Match]]]:
    """Return the matches by overlap, class and image."""
    split = [[(f[f[:, 0] == label], t[t[:, 0] == label]) for f, t in zip(found, true, strict=True)] for label in range(classes)]
    return [[[rule(*pair, overlap) for pair in pairs] for pairs in split] for overlap in least]


def means(found: Sequence[Floats], true: Sequence[Floats], classes: int) -> dict[str, float]:
    """Return the means over the classes that have boxes: `voc` by all points, `voc_11`, `coco`."""
    matches = matched(found, true, classes, match_voc, (0.5,))[0]
    by_voc = {name: mean(_classes(matches, points)) for name, points in (("voc", None), ("voc_11", VOC_POINTS))}
    return by_voc | {"coco": mean(coco(found, true, classes))}


def mean(values: Iterable[float]) -> float:
    """Return the mean of values without NaN, which stands for a class without boxes; 0 if no other is there."""
    there = [value for value in values if not np.isnan(value)]
    return float(np.mean(there)) if there else 0.0


def interval(found: Sequence[Floats], true: Sequence[Floats], classes: int) -> tuple[float, float]:
    """Return the 95 % interval of VOC's mean by all points, from images drawn again with replacement (the bootstrap)."""
    matches = matched(found, true, classes, match_voc, (0.5,))[0]
    drawn = np.random.default_rng(0).integers(0, len(found), (RESAMPLED, len(found)))
    values = [mean(average_precision([own[image] for image in images], None) for own in matches) for images in drawn]
    low, high = np.percentile(values, (2.5, 97.5))
    return float(low), float(high)


def _classes(matches: Sequence[Sequence[Match]], points: Floats | None) -> Floats:
    return np.array([average_precision(images, points) for images in matches])


def _by_score(found: Floats) -> Floats:
    return np.asarray(found[np.argsort(-found[:, 5], kind="stable")])
