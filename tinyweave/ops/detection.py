"""detection_postprocess, TFLite's custom op TFLite_Detection_PostProcess: detected objects from the output of an SSD.

Boxes are decoded relative to their anchors, and non-maximum suppression drops those that overlap a box with a higher score. The
float32 outputs are computed in TFLite's order and precision, for the same bytes. Source: TFLite detection_postprocess.cc.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Tensor
from .constraints import per_tensor
from .spec import Arrays, OpSpec, OptionalArrays, Shape, operand

CENTRES, SIZES, COORDINATES = slice(0, 2), slice(2, 4), 4  # of an encoded box and of an anchor: row and column
MAX_ANCHORS = (1 << 16) - 1  # the C keeps indices of anchors in 16 bits
MAX_EXPONENT = 64.0  # of the size of a box; e^64 anchors are more than float32 has
NUMBERS = (  # the op's attributes, as TFLite's custom options name them
    "max_detections",
    "max_classes_per_detection",
    "detections_per_class",
    "use_regular_nms",
    "nms_score_threshold",
    "nms_iou_threshold",
    "num_classes",
    "y_scale",
    "x_scale",
    "h_scale",
    "w_scale",
)
Floats = NDArray[np.float32]


class Scores(NamedTuple):
    """The `classes` columns of the scores [anchors, columns] from `first` on, which is 1 if column 0 is the background."""

    first: int
    classes: int


def infer(graph: Graph, op: Op) -> list[Shape]:
    if len(op.inputs) != 3 or None in op.inputs or len(op.outputs) != 4:
        raise CompileError("must have 3 inputs and 4 outputs", "the file may be damaged", op=op)
    most = int(op.attrs["max_detections"])
    return [(1, most, COORDINATES), (1, most), (1, most), (1,)]


def real_numbers(tensor: Tensor, values: NDArray[np.generic]) -> Floats:
    """Return the real numbers of a quantised tensor with these values, as TFLite's dequantize computes them."""
    if tensor.quant is None:
        return values.astype(np.float32)
    return np.asarray(np.float32(tensor.scale) * (values.astype(np.int32) - tensor.zero_point).astype(np.float32))


def scores_of(graph: Graph, op: Op) -> Scores:
    """Return which columns of the scores belong to classes; a background column is left out."""
    classes = int(op.attrs["num_classes"])
    return Scores(graph.input(op, 1).shape[-1] - classes, classes)


def anchors(graph: Graph, op: Op) -> Floats:
    """Return the anchors [anchors, 4] as real numbers: centre row, centre column, height, width."""
    tensor = graph.input(op, 2)
    assert tensor.data is not None
    return real_numbers(tensor, tensor.data)


def least_score(graph: Graph, op: Op) -> int:
    """Return the lowest int8 score that reaches the threshold, 128 if none does."""
    values = np.arange(-128, 128)
    enough = real_numbers(graph.input(op, 1), values) >= np.float32(op.attrs["nms_score_threshold"])
    return int(values[enough.argmax()]) if enough.any() else 128


def half_sizes(values: Floats, scale: float) -> NDArray[np.float64]:
    """Return exp(values / scale) / 2: times an anchor's height or width it is half that of the box."""
    each, inverse = np.unique(values, return_inverse=True)
    halves = [0.5 * exp(float(value) / scale) for value in each]  # by the C library, as TFLite does; numpy rounds differently
    return np.array(halves)[inverse].reshape(values.shape)


def decoded(graph: Graph, op: Op, encodings: Floats) -> Floats:
    """Return the boxes [anchors, 4] of encoded boxes: first row, first column, last row, last column."""
    at = anchors(graph, op).astype(np.float64)
    centre_scales = np.array([op.attrs["y_scale"], op.attrs["x_scale"]])
    centres = (encodings[:, CENTRES].astype(np.float64) / centre_scales * at[:, SIZES] + at[:, CENTRES]).astype(np.float32)
    sizes = [half_sizes(encodings[:, 2 + axis], op.attrs[name]) for axis, name in enumerate(("h_scale", "w_scale"))]
    halves = (np.stack(sizes, axis=1) * at[:, SIZES]).astype(np.float32)
    return np.concatenate([centres - halves, centres + halves], axis=1)


def overlap(box: Floats, others: Floats) -> Floats:
    """Return the intersection over union of a box with each of the boxes [n, 4]; it is 0 if a box is empty."""
    area, areas = (np.prod(np.moveaxis(each[..., 2:] - each[..., :2], -1, 0), axis=0) for each in (box, others))
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, np.float32(0)), axis=1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.asarray(np.where((area > 0) & (areas > 0), shared / (areas + area - shared), 0), np.float32)


def selected(op: Op, boxes: Floats, scores: Floats, most: int) -> list[int]:
    """Return at most `most` indices of `boxes` [anchors, 4] that survive, by falling score; of equals, the first."""
    threshold, overlapping = (np.float32(op.attrs[name]) for name in ("nms_score_threshold", "nms_iou_threshold"))
    kept = list[int]()
    for index in np.argsort(-scores, kind="stable"):
        if len(kept) == most or scores[index] < threshold:
            break
        if not (overlap(boxes[index], boxes[kept]) > overlapping).any():
            kept.append(int(index))
    return kept


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    encodings, scores = (real_numbers(graph.input(op, index), operand(arrays, index)[0]) for index in (0, 1))
    boxes, (first, classes), most = decoded(graph, op, encodings), scores_of(graph, op), int(op.attrs["max_detections"])
    scores = scores[:, first : first + classes]
    found: list[tuple[int, int]]  # (anchor, class) by falling score
    if op.attrs["use_regular_nms"]:  # each class for itself
        of_class = min(most, int(op.attrs["detections_per_class"]))
        each = [(index, label) for label in range(classes) for index in selected(op, boxes, scores[:, label], of_class)]
        found = sorted(each, key=lambda where: -scores[where])[:most]
    else:  # the best class of each box
        found = [(index, int(scores[index].argmax())) for index in selected(op, boxes, scores.max(axis=1), most)]
    outputs = [np.zeros(shape, np.float32) for shape in infer(graph, op)]
    for place, (index, label) in enumerate(found):
        outputs[0][0, place], outputs[1][0, place], outputs[2][0, place] = boxes[index], label, scores[index, label]
    outputs[3][0] = len(found)
    return outputs


def defined(graph: Graph, op: Op, outputs: Arrays) -> Arrays:
    """Return outputs with 0 behind the last detection, which TFLite leaves undefined without use_regular_nms."""
    *lists, count = map(np.copy, outputs)
    for each in lists:
        each[:, int(count[0]) :] = 0
    return [*lists, count]


def inputs_are_boxes_scores_and_anchors(graph: Graph, op: Op) -> bool:
    """the inputs must be int8 boxes [1, anchors, 4 or more] and scores [1, anchors, classes], constant anchors [anchors, 4]"""
    boxes, scores, at = (graph.input(op, index) for index in range(3))
    is_fit = len(boxes.shape) == len(scores.shape) == 3 and boxes.shape[:2] == scores.shape[:2] == (1, *at.shape[:1])
    kinds = boxes.dtype == scores.dtype == "int8" and per_tensor(boxes) and per_tensor(scores)
    return kinds and is_fit and boxes.shape[2] >= COORDINATES == at.shape[-1] and len(at.shape) == 2 and at.data is not None


def anchors_are_few(graph: Graph, op: Op) -> bool:
    """must have 1 to 65535 anchors, finite and with positive heights and widths, as float32 or int8"""
    at, count = graph.input(op, 2), graph.input(op, 2).shape[0]
    if not 0 < count <= MAX_ANCHORS or (at.dtype != "float32" and not (at.dtype == "int8" and per_tensor(at))):
        return False
    values = anchors(graph, op)
    return bool(np.isfinite(values).all() and (values[:, SIZES] > 0).all())


def counts_are_possible(graph: Graph, op: Op) -> bool:
    """must find 1 to 65535 detections of one class each, at least 1 per class; scores must have the classes or 1 column more"""
    counts = [op.attrs[name] for name in ("max_detections", "detections_per_class", "num_classes")]
    first, classes = scores_of(graph, op)
    at_most = all(1 <= count <= MAX_ANCHORS for count in counts)
    return at_most and op.attrs["max_classes_per_detection"] == 1 and 0 <= first <= 1 <= classes


def scales_are_positive(graph: Graph, op: Op) -> bool:
    """the scales of boxes must be positive, the sizes that boxes encode at most e^64 anchors, the overlap above 0, at most 1"""
    boxes = graph.input(op)
    least = min(op.attrs[name] for name in ("y_scale", "x_scale", "h_scale", "w_scale"))
    largest = boxes.scale * max(127 - boxes.zero_point, boxes.zero_point + 128)
    return bool(least > 0 and largest <= MAX_EXPONENT * least and 0 < op.attrs["nms_iou_threshold"] <= 1)


SPECS = (
    OpSpec(
        "detection_postprocess",
        infer,
        reference,
        (inputs_are_boxes_scores_and_anchors, anchors_are_few, counts_are_possible, scales_are_positive),
        family="detection",
        uint8="same",
        defined=defined,
        numbers=NUMBERS,
    ),
)
