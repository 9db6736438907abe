"""Mean average precision equals that of pycocotools on random boxes, and that of the VOC development kit."""

from __future__ import annotations

import math
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pytest
from numpy.typing import NDArray

from tinynas.tasks.annotations import COUNTED, CROWD, DIFFICULT
from tinynas.tasks.average_precision import VOC_POINTS, average_precision, coco, interval, match_voc, means, voc

Floats = NDArray[np.float64]
CLASSES = 3


def scene(
    seed: int, images: int = 14, *, flags: tuple[int, ...] = (COUNTED,), most: int = 12
) -> tuple[list[Floats], list[Floats]]:
    """Return detected and true boxes on whole pixels with few distinct scores, so that overlaps and scores have ties."""
    rng = np.random.default_rng(seed)
    found, true = list[Floats](), list[Floats]()
    for _ in range(images):
        sets = []
        for boxes in range(2):
            count = int(rng.integers(0, most))
            corner = rng.integers(0, 8, (count, 2)) * 4
            edges = np.concatenate((corner, corner + rng.integers(1, 5, (count, 2)) * 4), axis=1)
            last = rng.integers(1, 6, count) / 8 if boxes else rng.choice(flags, count)
            sets.append(np.column_stack((rng.integers(0, CLASSES, count), edges, last)).astype(float))
        near = sets[0][rng.random(len(sets[0])) < 0.7].copy()  # most true boxes are detected, roughly
        near[:, 1:5] += rng.integers(-1, 2, (len(near), 4))
        near[:, 5] = rng.integers(2, 9, len(near)) / 8
        true.append(sets[0])
        found.append(rng.permutation(np.concatenate((near, sets[1]))))
    return found, true


def pycocotools(found: list[Floats], true: list[Floats]) -> Floats:
    """Return the precision [overlaps, points, classes] of the published evaluator; -1 means undefined."""
    api, evaluation = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
    truth = api.COCO()

    def entry(image: int, row: Floats, number: int) -> dict[str, object]:
        label, top, left, bottom, right, last = row.tolist()
        area = (bottom - top) * (right - left)
        one = {"id": number, "image_id": image, "category_id": int(label), "bbox": [left, top, right - left, bottom - top]}
        return one | {"area": area, "iscrowd": int(last == CROWD), "score": last}

    rows = [[(image, row) for image, boxes in enumerate(boxes_of) for row in boxes] for boxes_of in (true, found)]
    annotations = [[entry(*pair, number + 1) for number, pair in enumerate(each)] for each in rows]
    about = {"images": [{"id": n} for n in range(len(true))], "categories": [{"id": n} for n in range(CLASSES)]}
    with redirect_stdout(StringIO()):
        truth.dataset = {**about, "annotations": annotations[0]}
        truth.createIndex()
        results = api.COCO()
        results.dataset = {**about, "annotations": annotations[1]}
        results.createIndex()
        scorer = evaluation.COCOeval(truth, results, "bbox")
        scorer.evaluate()
        scorer.accumulate()
    return np.asarray(scorer.eval["precision"][:, :, :, 0, -1])


@pytest.mark.parametrize("seed", range(7))
def test_coco_precision_equals_that_of_pycocotools(seed: int) -> None:
    """The scenes have crowds, ties, images and classes without boxes, and more than 100 boxes of a class."""
    images, most = (14, 12) if seed < 6 else (2, 900)
    found, true = scene(seed, images, flags=(COUNTED, COUNTED, CROWD) if seed % 2 else (COUNTED,), most=most)
    if seed == 2:
        true = [boxes[boxes[:, 0] != 1] for boxes in true]
    if seed == 4:
        found = [boxes[boxes[:, 0] != 1] for boxes in found]
    precision = pycocotools(found, true)
    ours = coco(found, true, CLASSES)
    for label in range(CLASSES):
        theirs = precision[:, :, label]
        assert (theirs == -1).all() == bool(np.isnan(ours[label]))
        if not np.isnan(ours[label]):
            assert ours[label] == pytest.approx(theirs.mean(), abs=1e-12) and 0 <= ours[label] < 1
    assert (seed == 2) == bool(np.isnan(ours).any())


def voc_kit_precision(found: list[Floats], true: list[Floats], label: int, points: bool) -> float:
    """Return VOC's average precision as its kit computes it: one list of all detections, one pass, one curve."""
    rows = [(image, row) for image, boxes in enumerate(found) for row in boxes.tolist() if row[0] == label]
    rows.sort(key=lambda pair: -pair[1][5])
    truth = [[row for row in boxes.tolist() if row[0] == label] for boxes in true]
    positives, used = sum(row[5] == COUNTED for rows_of in truth for row in rows_of), set()
    curve, right, wrong = [], 0, 0
    for image, (_, top, left, bottom, right_edge, _) in rows:
        best, which = -math.inf, -1
        for number, (_, *other, _) in enumerate(truth[image]):
            t, le, b, r = other
            inside = max(0.0, min(bottom, b) - max(top, t)) * max(0.0, min(right_edge, r) - max(left, le))
            shared = inside / ((bottom - top) * (right_edge - left) + (b - t) * (r - le) - inside)
            if shared > best:
                best, which = shared, number
        if best >= 0.5 and truth[image][which][5] != COUNTED:
            continue
        hit = best >= 0.5 and (image, which) not in used
        used.add((image, which)) if hit else None
        right, wrong = right + hit, wrong + (not hit)
        curve.append((right / positives, right / (right + wrong)))
    if points:
        return sum(max((p for r, p in curve if r >= t / 10), default=0.0) for t in range(11)) / 11
    area, before = 0.0, 0.0
    for index, (recall, _) in enumerate(curve):
        area += (recall - before) * max(p for _, p in curve[index:])
        before = recall
    return area


@pytest.mark.parametrize("seed", range(6))
def test_voc_precision_equals_that_of_the_development_kit(seed: int) -> None:
    found, true = scene(seed, flags=(COUNTED, DIFFICULT) if seed % 2 else (COUNTED,))
    for label in range(CLASSES):
        for points in (VOC_POINTS, None):
            wanted = voc_kit_precision(found, true, label, points is not None)
            assert voc(found, true, CLASSES, points)[label] == pytest.approx(wanted, abs=1e-12) and 0 < wanted < 1


def test_average_precision_equals_the_value_computed_by_hand() -> None:
    """Detections are right, wrong, right of three boxes. Precision is 1 up to recall 1/3, 2/3 up to 2/3, then 0."""
    true = np.array([[0, 0, 0, 10, 10, 0], [0, 20, 20, 30, 30, 0], [0, 40, 40, 50, 50, 0]], float)
    found = np.array([[0, 0, 0, 10, 10, 0.9], [0, 0, 0, 10, 10, 0.8], [0, 20, 20, 30, 30, 0.7]], float)
    match = match_voc(found, true, 0.5)
    assert match.kinds.tolist() == [1, 0, 1]
    assert average_precision([match], None) == pytest.approx(1 / 3 + 2 / 9)
    assert average_precision([match], VOC_POINTS) == pytest.approx((4 * 1 + 3 * 2 / 3) / 11)
    difficult = true * [1, 1, 1, 1, 1, 0] + [0, 0, 0, 0, 0, DIFFICULT]
    assert match_voc(found, difficult, 0.5).kinds.tolist() == [-1, -1, -1]
    assert math.isnan(average_precision([match_voc(found, difficult, 0.5)], VOC_POINTS))
    assert means([found], [true], 2)["voc"] == pytest.approx(5 / 9), "a class without boxes is left out of the mean"
    assert means([found[:0]], [true], 1) == {"voc": 0.0, "voc_11": 0.0, "coco": 0.0}


def test_the_interval_contains_the_mean_and_narrows_with_images() -> None:
    widths = []
    for images in (20, 320):
        found, true = scene(1, images)
        low, high = interval(found, true, CLASSES)
        assert 0 < low < means(found, true, CLASSES)["voc"] < high < 1
        widths.append(high - low)
    assert widths[1] < widths[0] / 2
