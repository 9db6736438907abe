"""Training of a detector: augmentation moves boxes with their pixels, slots get boxes, and a small network learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch", reason="needs torch")

from tinynas.arch import Arch, Group  # noqa: E402
from tinynas.learning import detection  # noqa: E402
from tinynas.learning.module import module_of  # noqa: E402
from tinynas.learning.train import Recipe, fit, scores  # noqa: E402
from tinynas.tasks.annotations import COUNTED, CROWD  # noqa: E402
from tinynas.tasks.boxes import TERMS, Head  # noqa: E402
from tinynas.tasks.detection import shape_overlaps  # noqa: E402
from tinynas.training_run import TrainingRun  # noqa: E402

HEAD = Head((32, 32), 8, ((4.0, 4.0), (10.0, 10.0), (6.0, 20.0)), 2)


def squares(count: int, seed: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return images of bright and dark squares (class 0 and 1) on noise and their boxes; the last row of boxes is empty."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 8, (count, 32, 32, 3))
    labels = np.full((count, 3, 6), -1, np.float32)
    for image in range(count):
        for number, column in enumerate((0, 16)):
            kind, side = rng.integers(0, 2), rng.integers(5, 13)
            top, left = rng.integers(0, 32 - side), column + rng.integers(0, 17 - side)
            values[image, top : top + side, left : left + side] += (100, -100)[kind]
            labels[image, number] = kind, top, left, top + side, left + side, COUNTED
    return np.clip(values, -128, 127).astype(np.int8), labels


def test_augmentation_moves_boxes_with_their_pixels() -> None:
    generator = torch.Generator().manual_seed(1)
    boxes = torch.full((200, 3, 6), -1.0)
    boxes[:, 0] = torch.tensor([1.0, 16, 24, 40, 56, COUNTED])
    boxes[:, 1] = torch.tensor([0.0, 0, 0, 64, 5, COUNTED])
    x = torch.full((200, 3, 64, 96), -0.5)
    x[:, :, 16:40, 24:56] = 0.5
    moved, own = detection.augment(x, boxes, generator)
    assert moved.shape == x.shape and moved.abs().max() <= 1 and (own[:, 2, 0] == -1).all()
    sizes = set()
    for image, box in zip(moved, own[:, 0], strict=True):
        assert box[0] == 1 and box[5] == COUNTED, "no crop leaves less of a box in the middle"
        level = image.mean(0)
        bright = level > level.max() - 0.3
        rows, columns = torch.nonzero(bright, as_tuple=True)
        found = torch.tensor([rows.min(), columns.min(), rows.max() + 1, columns.max() + 1])
        assert (found - box[1:5]).abs().max() <= 1.0
        sizes.add(round(float(box[3] - box[1])))
    assert min(sizes) <= 18 and max(sizes) >= 34, "some become smaller, some larger"
    edge = own[:, 1]
    assert {CROWD, COUNTED} <= set(edge[edge[:, 0] >= 0, 5].tolist()) and (edge[:, 0] == -1).any()
    assert (own[..., 1:5][own[..., 0] >= 0].min() >= 0) and own[..., 4].max() <= 96 and own[..., 3].max() <= 64
    again, _ = detection.augment(x, boxes, torch.Generator().manual_seed(1))
    assert torch.equal(moved, again) and not torch.equal(moved, detection.augment(x, boxes, generator)[0])


def assigned_in_loops(predicted: NDArray[np.float64], boxes: NDArray[np.float64]) -> tuple[dict[int, int], set[int]]:
    """Assign boxes to slots in loops: return slot -> box, and the slots that are background."""
    rows, columns, _ = HEAD.shape
    learnt, background = dict[int, int](), set[int]()
    for image in range(len(boxes)):
        for number, (label, top, left, bottom, right, flag) in enumerate(boxes[image].tolist()):
            if label < 0 or flag == CROWD:
                continue
            cell = int((top + bottom) / 2 // HEAD.stride), int((left + right) / 2 // HEAD.stride)
            near = shape_overlaps(np.array([[bottom - top, right - left]]), np.array(HEAD.anchors))[0]
            for anchor, overlap in enumerate(near):
                if anchor == near.argmax() or overlap > detection.ANCHOR_IOU:
                    slot = ((image * rows + cell[0]) * columns + cell[1]) * len(HEAD.anchors) + anchor
                    learnt.setdefault(slot, image * len(boxes[image]) + number)
        for index, (top, left, bottom, right) in enumerate(predicted[image].reshape(-1, 4).tolist()):
            best = 0.0
            for label, t, le, b, r, flag in boxes[image].tolist():
                inside = max(0, min(b, bottom) - max(t, top)) * max(0, min(r, right) - max(le, left))
                own = (bottom - top) * (right - left)
                best = max(best, inside / (own if flag == CROWD else own + (b - t) * (r - le) - inside) if label >= 0 else 0)
            if best < detection.BACKGROUND_IOU:
                background.add(image * rows * columns * len(HEAD.anchors) + index)
    return learnt, background


def test_assignment_of_boxes_to_slots_equals_the_rule_in_loops() -> None:
    rng = np.random.default_rng(5)
    corner = rng.uniform(0, 24, (30, 6, 2))
    boxes = np.concatenate((rng.integers(-1, 2, (30, 6, 1)), corner, corner + rng.uniform(2, 8, (30, 6, 2))), axis=2)
    boxes = np.concatenate((boxes, rng.choice([COUNTED, COUNTED, CROWD], (30, 6, 1))), axis=2)
    cells = torch.from_numpy(rng.normal(0, 1, (30, 4, 4, 3, TERMS + 2)))
    predicted = detection.decoded(cells, HEAD)
    slots, which, background = detection.targets(predicted, torch.from_numpy(boxes), HEAD)
    learnt, empty = assigned_in_loops(predicted.numpy(), boxes)
    assert dict(zip(slots.tolist(), which.tolist(), strict=True)) == learnt and len(learnt) > 60
    assert set(torch.nonzero(background.reshape(-1))[:, 0].tolist()) == empty and 0 < len(empty) < background.numel()


def test_decoded_boxes_are_those_that_the_device_computes() -> None:
    values = np.random.default_rng(2).normal(0, 1.5, (4, 4, 3, TERMS + 2)).astype(np.float32)
    ours = detection.decoded(torch.from_numpy(values)[None], HEAD)[0].reshape(-1, 4).clamp(0, 32).numpy()
    for box in HEAD.detected_real(values.reshape(HEAD.shape), 0.3):
        assert np.abs(ours - box[1:5]).max(axis=1).min() < 1e-4


def test_the_complete_iou_of_equal_boxes_is_1() -> None:
    a = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 10], [0, 0, 10, 10]])
    b = torch.tensor([[0.0, 0, 10, 10], [0, 20, 10, 30], [0, 0, 5, 20]])
    same, apart, other = detection.complete_overlap(a, b).tolist()
    assert same == pytest.approx(1) and apart == pytest.approx(-400 / 1000), "centres 20 apart, in a box of 10 x 30"
    shape = 4 / np.pi**2 * (np.arctan(1) - np.arctan2(20, 5)) ** 2
    assert other == pytest.approx(1 / 3 - (2.5**2 + 5**2) / 500 - shape**2 / (1 - 1 / 3 + shape), abs=1e-5)


def test_images_without_boxes_have_gradients_only_in_the_confidence() -> None:
    output = torch.zeros(2, HEAD.shape[2], 4, 4, requires_grad=True)
    value = detection.loss(output, torch.full((2, 3, 6), -1.0), HEAD)
    value.backward()
    assert value.item() == pytest.approx(2 * 48 * np.log(2), rel=1e-5)
    gradient = output.grad.reshape(2, 3, TERMS + 2, 4, 4)
    assert (gradient[:, :, 4] == 0.5).all() and gradient.abs().sum() == gradient[:, :, 4].abs().sum()


def test_an_untrained_head_detects_nothing_and_overlapping_slots_are_no_background() -> None:
    arch = Arch((32, 32, 3), 8, (Group(8, 2, (3,), (1,)), Group(8, 2, (3,), (1,))), classes=2, anchors=3)
    values = scores(module_of(arch).eval(), squares(2, 0)[0]).reshape(2, 3, TERMS + 2, 4, 4)
    assert values[:, :, 4].max() < -3 and np.abs(values[:, :, :4]).max() < 1
    boxes = torch.tensor([[[0.0, 8, 8, 16, 16, COUNTED]]])
    output = torch.zeros(1, HEAD.shape[2], 4, 4)
    output[0].view(3, TERMS + 2, 4, 4)[0, 2:4] = np.log(2)  # boxes of the first anchor are 8 x 8; one of them matches already
    near = output.clone().requires_grad_()
    detection.loss(near, boxes, HEAD).backward()
    slots, _, background = detection.targets(detection.decoded(_cells(output), HEAD), boxes, HEAD)
    assert not background.reshape(-1)[slots].all() and len(slots), "what is found well is no background, but is learnt"
    assert (_cells(near.grad)[..., 4].reshape(-1)[slots] < 0).all()


def _cells(output: torch.Tensor) -> torch.Tensor:
    return output.permute(0, 2, 3, 1).reshape(len(output), 4, 4, 3, -1)


def test_a_small_detector_learns_to_find_squares(tmp_path: Path) -> None:
    groups = (Group(16, 2, (3,), (2,)), Group(32, 2, (3, 3), (2, 2)))
    arch = Arch((32, 32, 3), 16, groups, classes=2, anchors=3)
    recipe = Recipe(10, batch=16, head=HEAD)
    module, unseen = module_of(arch), squares(40, 1)
    before = detection.mean_precision(scores(module, unseen[0]), unseen[1], HEAD)
    fit(module, *squares(160, 0), recipe, TrainingRun(checkpoint=tmp_path / "state"))
    after = detection.mean_precision(scores(module, unseen[0]), unseen[1], HEAD)
    assert before < 0.05 and after > 0.4, (before, after)
