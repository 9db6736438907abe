"""Mean average precision of a detector, as PASCAL VOC (all points, or 11) and COCO define it. In: boxes. Out: precisions.

Detections are [n, 6]: label, edges, score. True boxes are [m, 6]: label, edges, flag. Edges are real numbers, without the extra
pixel of VOC's kit. Sources: the kit of VOC 2012; pycocotools 2.0.11.

- VOC: a detection is matched to the true box with the largest IoU, if that is at least 0.5. A second detection of it is a false
  positive; one of a difficult box (or crowd) is ignored.
- COCO: for each IoU threshold 0.5, 0.55 .. 0.95, a detection is matched to the unmatched true box with the largest IoU, COUNTED
  boxes first. At most 100 detections per image and class count. The overlap with a crowd is the share of the detection inside
  it; any number may match it, and one may match a difficult box, and they are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .annotations import COUNTED, CROWD

Floats = NDArray[np.float64]
TRUE_POSITIVE, FALSE_POSITIVE, IGNORED = 1, 0, -1
COCO_OVERLAPS = tuple(0.5 + 0.05 * step for step in range(10))
COCO_POINTS, VOC_POINTS = np.linspace(0, 1, 101), np.arange(11) / 10  # recalls
COCO_MAX_DETECTIONS = 100  # per image and class
RESAMPLED = 200  # bootstrap samples


@dataclass(frozen=True, eq=False)
class Match:
    """Detections of one image and class, by falling score, after they are matched to true boxes."""

    scores: Floats
    kinds: NDArray[np.int64]  # TRUE_POSITIVE, FALSE_POSITIVE or IGNORED per detection
    positives: int  # number of true boxes that count


Rule = Callable[[Floats, Floats, float], Match]


def overlaps(detections: Floats, true: Floats) -> Floats:
    """Return the IoU [n, m] of detections and true boxes; for crowds, the intersection over the area of the detection."""
    top_left = np.maximum(detections[:, None, 1:3], true[None, :, 1:3])
    inside = np.maximum(np.minimum(detections[:, None, 3:5], true[None, :, 3:5]) - top_left, 0).prod(axis=2)
    areas = [(boxes[:, 3:5] - boxes[:, 1:3]).prod(axis=1) for boxes in (detections, true)]
    union = np.where(true[:, 5] == CROWD, areas[0][:, None], areas[0][:, None] + areas[1][None] - inside)
    return np.asarray(np.divide(inside, union, out=np.zeros_like(inside), where=inside > 0))


def match_voc(detections: Floats, true: Floats, least: float) -> Match:
    """Match detections [n, 6] and true boxes [m, 6] of one class in one image by VOC's rules, from the IoU `least` on."""
    detections = _by_score(detections)
    shared = overlaps(detections, np.where(np.arange(6) == 5, COUNTED, true))
    kinds, taken = np.zeros(len(detections), np.int64), set[int]()
    for index in np.flatnonzero((shared >= least).any(axis=1)):
        best = int(shared[index].argmax())
        if true[best, 5] != COUNTED:
            kinds[index] = IGNORED
        elif best not in taken:
            kinds[index] = TRUE_POSITIVE
            taken.add(best)
    return Match(detections[:, 5], kinds, int((true[:, 5] == COUNTED).sum()))


def match_coco(detections: Floats, true: Floats, least: float) -> Match:
    """Match detections [n, 6] and true boxes [m, 6] of one class in one image by COCO's rules, from the IoU `least` on."""
    detections, true = _by_score(detections)[:COCO_MAX_DETECTIONS], true[np.argsort(true[:, 5] != COUNTED, kind="stable")]
    shared, counted = overlaps(detections, true), int((true[:, 5] == COUNTED).sum())
    kinds, free = np.zeros(len(detections), np.int64), np.ones(len(true), bool)
    for index, row in enumerate(shared):
        for first, end in ((0, counted), (counted, len(true))):
            open_row = np.where(free[first:end], row[first:end], -1.0)
            if len(open_row) and open_row.max() >= min(least, 1 - 1e-10):
                taken = end - 1 - int(open_row[::-1].argmax())  # ties go to the last box, as in pycocotools
                kinds[index] = TRUE_POSITIVE if taken < counted else IGNORED
                free[taken] = true[taken, 5] == CROWD
                break
    return Match(detections[:, 5], kinds, counted)


def average_precision(matches: Sequence[Match], points: Floats | None) -> float:
    """Return the average precision of one class at the recalls `points` (None: area under the curve); NaN without a box."""
    positives = sum(match.positives for match in matches)
    if not positives:
        return float("nan")
    scores = np.concatenate([match.scores for match in matches])
    kinds = np.concatenate([match.kinds for match in matches])[np.argsort(-scores, kind="stable")]
    right, wrong = np.cumsum(kinds == TRUE_POSITIVE), np.cumsum(kinds == FALSE_POSITIVE)
    recall, precision = right / positives, right / np.maximum(right + wrong, 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]  # the best precision at this recall or above
    if points is None:
        return float((np.diff(recall, prepend=0.0) * best).sum())
    places = np.searchsorted(recall, points, side="left")
    return float(np.append(best, 0.0)[np.minimum(places, len(best))].mean())


def voc(detections: Sequence[Floats], true: Sequence[Floats], classes: int, points: Floats | None = None) -> Floats:
    """Return VOC's average precision of each class; `points` is None, or VOC_POINTS for the definition before 2010."""
    return _classes(matched(detections, true, classes, match_voc, (0.5,))[0], points)


def coco(detections: Sequence[Floats], true: Sequence[Floats], classes: int) -> Floats:
    """Return COCO's average precision of each class: the mean over the IoU thresholds COCO_OVERLAPS."""
    by_overlap = matched(detections, true, classes, match_coco, COCO_OVERLAPS)
    return np.asarray(np.mean([_classes(matches, COCO_POINTS) for matches in by_overlap], axis=0))


def matched(
    detections: Sequence[Floats], true: Sequence[Floats], classes: int, rule: Rule, least: Sequence[float]
) -> list[list[list[Match]]]:
    """Match boxes [n, 6] of each image by `rule`; return matches by [IoU threshold of `least`][class][image]."""
    split = [
        [(f[f[:, 0] == label], t[t[:, 0] == label]) for f, t in zip(detections, true, strict=True)] for label in range(classes)
    ]
    return [[[rule(*pair, overlap) for pair in pairs] for pairs in split] for overlap in least]


def means(detections: Sequence[Floats], true: Sequence[Floats], classes: int) -> dict[str, float]:
    """Return the mean average precision over all classes: `voc` (all points), `voc_11` and `coco`."""
    matches = matched(detections, true, classes, match_voc, (0.5,))[0]
    by_voc = {name: mean(_classes(matches, points)) for name, points in (("voc", None), ("voc_11", VOC_POINTS))}
    return by_voc | {"coco": mean(coco(detections, true, classes))}


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN (classes without boxes), or 0 if all are NaN."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else 0.0


def interval(detections: Sequence[Floats], true: Sequence[Floats], classes: int) -> tuple[float, float]:
    """Return the 95 % confidence interval (low, high) of VOC's mean average precision, by bootstrapping the images."""
    matches = matched(detections, true, classes, match_voc, (0.5,))[0]
    resampled = np.random.default_rng(0).integers(0, len(detections), (RESAMPLED, len(detections)))
    values = [mean(average_precision([own[image] for image in images], None) for own in matches) for images in resampled]
    low, high = np.percentile(values, (2.5, 97.5))
    return float(low), float(high)


def _classes(matches: Sequence[Sequence[Match]], points: Floats | None) -> Floats:
    return np.array([average_precision(images, points) for images in matches])


def _by_score(detections: Floats) -> Floats:
    return np.asarray(detections[np.argsort(-detections[:, 5], kind="stable")])
