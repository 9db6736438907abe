"""Emitter of detection_postprocess."""

from __future__ import annotations

import numpy as np

from ...ops import detection
from ..layer import Code, Layer
from .calls import Emitter, call


def _detection(layer: Layer) -> Code:
    """Emit the C of detection_postprocess, with the anchors as floats, and a table each of half heights and half widths."""
    graph, op, attrs = layer.graph, layer.op, layer.op.attrs
    boxes, scores, most = layer.input(), layer.input(1), int(attrs["max_detections"])
    values = detection.real_numbers(boxes, np.arange(-128, 128))
    tables = (layer.table(name, detection.half_sizes(values, attrs[name]), "double") for name in ("h_scale", "w_scale"))
    first, classes = detection.scores_of(graph, op)
    of_class = min(most, int(attrs["detections_per_class"])) if attrs["use_regular_nms"] else 0
    struct = layer.struct(
        {"anchors": boxes.shape[1], "coordinates": boxes.shape[2]},
        {"columns": scores.shape[2], "first": first, "classes": classes},
        {"most": most, "most_of_class": of_class},
        {"least": detection.least_score(graph, op), "overlap": float(attrs["nms_iou_threshold"])},
        {"box_zero": boxes.zero_point, "score_zero": scores.zero_point},
        {"box_scale": boxes.scale, "score_scale": scores.scale},
        {"centre_scale": [attrs["y_scale"], attrs["x_scale"]], "half_size": list(tables)},
        {"at": layer.table("anchors", detection.anchors(graph, op), "float")},
    )
    outputs = (layer.address(tensor) for tensor in graph.outputs_of(op))
    addresses = layer.address(boxes), layer.address(scores), *outputs
    return Code(struct, call(layer.row.name, f"&{layer.name}", *addresses, *layer.scratch))


EMITTERS: dict[str, Emitter] = {
    "tw_detection": _detection,
}
