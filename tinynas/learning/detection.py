"""Training of detectors: augmentation of images with their boxes, and the loss.

Boxes are [batch, boxes, 6], with the columns `BOX` of tasks/detection.py; a cell of the output predicts one box per anchor. The
loss adds the cross-entropies of objects and classes and the complete IoU loss (CIoU, arXiv 1911.08287). A true box is assigned
to the cell of its centre and the anchor of most similar shape (YOLO9000, arXiv 1612.08242), and all others of similar shape.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..tasks.annotations import CROWD
from ..tasks.average_precision import mean, voc
from ..tasks.boxes import LARGEST, TERMS, Head
from ..tasks.detection import boxes_of

MAX_ZOOM = 1.5  # largest zoom factor, in and out
MAX_SHIFT = 0.2  # largest shift, as a share of an image's side
MIN_VISIBLE = 0.3  # the loss ignores a box if a smaller share of its area stays in the image
MAX_BRIGHTNESS, MAX_CONTRAST, MAX_SATURATION = 0.15, 0.3, 0.5
ANCHOR_IOU = 0.4  # IoU of the shapes of a box and a further anchor, above which the box is assigned to this anchor, too
BACKGROUND_IOU = 0.6  # a prediction is background if its IoU with each box is below this
BOX_WEIGHT = 2.0
THRESHOLD = 0.01  # least score of a box that counts for precision


def augment(x: Tensor, boxes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Flip, scale and shift images and their boxes at random; change brightness, contrast and saturation of the images.

    `x` is [batch, channels, rows, columns], `boxes` [batch, boxes, 6]. A box with less than MIN_VISIBLE of its area left
    becomes a crowd, which the loss ignores; one with (nearly) nothing left gets the label -1, no box.
    """
    count, sides = len(x), x.new_tensor(x.shape[2:])
    flip = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    zoom = torch.exp((2 * torch.rand(count, generator=generator) - 1) * math.log(MAX_ZOOM))
    shift = (2 * torch.rand(count, 2, generator=generator) - 1) * 2 * MAX_SHIFT  # right and down, of half a side
    inverse = torch.zeros(count, 2, 3)
    inverse[:, 0, 0], inverse[:, 1, 1] = flip / zoom, 1 / zoom
    inverse[:, 0, 2], inverse[:, 1, 2] = -shift[:, 0] * flip / zoom, -shift[:, 1] / zoom
    grid = functional.affine_grid(inverse.to(x.device), list(x.shape), align_corners=False)
    x = functional.grid_sample(x, grid, padding_mode="zeros", align_corners=False)
    flip, zoom, shift = flip.to(x.device), zoom.to(x.device), shift.to(x.device)
    moved = boxes.clone()
    for axis, first in enumerate((1, 2)):
        half = sides[axis] / 2
        sign = flip[:, None] if axis else torch.ones_like(flip)[:, None]
        edges = [
            ((boxes[..., edge] - half) * sign * zoom[:, None] + half * (1 + shift[:, 1 - axis, None]))
            for edge in (first, first + 2)
        ]
        moved[..., first], moved[..., first + 2] = torch.minimum(*edges), torch.maximum(*edges)
    whole = _areas(moved[..., 1:5])
    moved[..., 1:5] = torch.minimum(moved[..., 1:5].clamp(min=0), sides.repeat(2))
    left = _areas(moved[..., 1:5]) / whole.clamp(min=1e-6)
    moved[..., 0] = torch.where(left > 0.02, moved[..., 0], -1.0)
    moved[..., 5] = torch.where(left < MIN_VISIBLE, float(CROWD), moved[..., 5])
    return _coloured(x, generator), moved


def _coloured(x: Tensor, generator: torch.Generator) -> Tensor:
    """Change the contrast, saturation and brightness of each image by random amounts."""
    contrast, colour, brightness = (
        (2 * torch.rand(len(x), 1, 1, 1, generator=generator).to(x.device) - 1) * most
        for most in (MAX_CONTRAST, MAX_SATURATION, MAX_BRIGHTNESS)
    )
    grey = x.mean(1, keepdim=True)
    return ((grey + (x - grey) * (1 + colour)) * (1 + contrast) + brightness).clamp(-1, 1)


def loss(output: Tensor, boxes: Tensor, head: Head) -> Tensor:
    """Return the loss of an output [batch, channels, rows, columns] for boxes [batch, boxes, 6], per assigned box."""
    cells = output.permute(0, 2, 3, 1).reshape(len(output), *head.shape[:2], len(head.anchors), TERMS + head.scores)
    predicted = decoded(cells, head)
    slots, which, background = targets(predicted.detach(), boxes, head)
    objects = cells[..., 4].reshape(-1)
    labels = torch.zeros_like(objects)
    labels[slots] = 1.0
    learnt = background.reshape(-1)
    learnt[slots] = True
    total = functional.binary_cross_entropy_with_logits(objects[learnt], labels[learnt], reduction="sum")
    true = boxes.reshape(-1, boxes.shape[2])[which]
    total = total + BOX_WEIGHT * (1 - complete_overlap(predicted.reshape(-1, 4)[slots], true[:, 1:5])).sum()
    if head.scores:
        kinds = functional.one_hot(true[:, 0].long(), head.scores).to(output.dtype)
        own = cells[..., TERMS:].reshape(-1, head.scores)[slots]
        total = total + functional.binary_cross_entropy_with_logits(own, kinds, reduction="sum")
    return total / max(1, len(slots))


def decoded(cells: Tensor, head: Head) -> Tensor:
    """Decode `cells` [batch, rows, columns, anchors, terms] to boxes (top, left, bottom, right) in pixels, not clipped.

    The first four terms are the centre before the sigmoid, and the logarithms of the sides relative to the anchor's.
    """
    rows, columns = cells.shape[1:3]
    places = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), dim=-1)[:, :, None].to(cells)
    centre = (places + cells[..., :2].sigmoid()) * head.stride
    sides = cells.new_tensor(head.anchors) * cells[..., 2:4].clamp(max=math.log(LARGEST)).exp()
    return torch.cat((centre - sides / 2, centre + sides / 2), dim=-1)


def targets(predicted: Tensor, boxes: Tensor, head: Head) -> tuple[Tensor, Tensor, Tensor]:
    """Assign true boxes [batch, boxes, 6] to slots: anchors of cells. If several boxes match a slot, the first wins.

    Return indices [n] of the slots with a box and of their boxes, numbered over the whole batch, and a mask [batch, slots] of
    the background: slots whose box in `predicted` (`decoded`) has an IoU below BACKGROUND_IOU with each true box, and less than
    this fraction of its area inside each crowd.
    """
    there = boxes[..., 0] >= 0
    single = there & (boxes[..., 5] != CROWD)
    flat = predicted.reshape(len(predicted), -1, 4)
    shared = _shared(flat[:, :, None], boxes[:, None, :, 1:5])
    areas = _areas(flat)[:, :, None], _areas(boxes[..., 1:5])[:, None]
    union = torch.where(single[:, None], areas[0] + areas[1] - shared, areas[0])
    near = torch.where(there[:, None], shared / union.clamp(min=1e-6), torch.zeros_like(shared))
    background = near.amax(dim=2) < BACKGROUND_IOU if boxes.shape[1] else there.new_ones(flat.shape[:2])
    sides, anchors = boxes[..., 3:5] - boxes[..., 1:3], boxes.new_tensor(head.anchors)
    inside = torch.minimum(sides[:, :, None], anchors).prod(dim=3)
    shapes = inside / (sides.prod(dim=2)[:, :, None] + anchors.prod(dim=1) - inside).clamp(min=1e-6)
    chosen = (shapes > ANCHOR_IOU) | functional.one_hot(shapes.argmax(dim=2), len(head.anchors)).bool()
    image, box, anchor = torch.nonzero(chosen & single[:, :, None], as_tuple=True)
    rows, columns, _ = head.shape
    centre = ((boxes[image, box, 1:3] + boxes[image, box, 3:5]) / 2 / head.stride).long()
    row, column = centre[:, 0].clamp(0, rows - 1), centre[:, 1].clamp(0, columns - 1)
    slots, order = (((image * rows + row) * columns + column) * len(head.anchors) + anchor).sort(stable=True)
    first = torch.ones_like(slots, dtype=torch.bool)
    first[1:] = slots[1:] != slots[:-1]
    return slots[first], (image * boxes.shape[1] + box)[order[first]], background


def complete_overlap(a: Tensor, b: Tensor) -> Tensor:
    """Return the CIoU [n] of pairs of boxes [n, 4]: the IoU minus penalties for differences in centre and aspect ratio."""
    shared = _shared(a, b)
    overlap = shared / (_areas(a) + _areas(b) - shared).clamp(min=1e-6)
    around = torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])
    apart = ((a[:, :2] + a[:, 2:] - b[:, :2] - b[:, 2:]) / 2).square().sum(1) / around.square().sum(1).clamp(min=1e-6)
    angles = [torch.atan2(each[:, 3] - each[:, 1], (each[:, 2] - each[:, 0]).clamp(min=1e-6)) for each in (a, b)]
    shape = 4 / math.pi**2 * (angles[0] - angles[1]).square()
    with torch.no_grad():
        weight = shape / (1 - overlap + shape).clamp(min=1e-6)
    return overlap - apart - weight * shape


def mean_precision(heads: NDArray[np.float32], labels: NDArray[np.float32], head: Head) -> float:
    """Return VOC's mean average precision in 0 .. 1 of outputs [n, channels, rows, columns], for boxes [n, boxes, 6]."""
    detections = [head.detected_real(each, THRESHOLD) for each in heads.transpose(0, 2, 3, 1)]
    return mean(voc(detections, [boxes_of(each) for each in labels], head.classes))


def _areas(edges: Tensor) -> Tensor:
    return (edges[..., 2:] - edges[..., :2]).clamp(min=0).prod(dim=-1)


def _shared(a: Tensor, b: Tensor) -> Tensor:
    """Return the areas of the intersections of the boxes `a` and `b`, [.., 4], which are broadcast against each other."""
    sides = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    return sides.clamp(min=0).prod(dim=-1)
