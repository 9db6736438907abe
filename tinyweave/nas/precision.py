"""Mean average precision of a detector on unseen images, in float and in int8.

In: outputs of the float network, the int8 network, images and their true boxes. Out: precisions and a confidence interval.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import api
from ..api.results import Model
from ..ir import Graph, Quant
from ..quantize.evaluate import chunks, outputs
from ..tasks.average_precision import interval, means
from ..tasks.boxes import Head, as_rows
from ..tasks.detection import boxes_of

THRESHOLD = 0.01  # least score of a box: low, because the precision-recall curve needs its end


def precision(
    heads: NDArray[np.float32], small: Model, values: NDArray[np.int8], labels: NDArray[np.float32], head: Head
) -> tuple[dict[str, float], tuple[float, float]]:
    """Return the mean average precisions of a detector in float and int8, and the 95 % confidence interval of `test_int8`.

    The precisions have the names `test` (VOC, all points), `voc_11` and `coco`, and the suffix `_int8` for the int8 network.

    Args:
        heads: Outputs [n, channels, rows, columns] of the float network.
        small: The int8 network, which this function runs; its outputs are decoded with integers, as on the device.
        values: Samples [n, rows, columns, channels].
        labels: True boxes [n, boxes, 6].
        head: Decodes outputs to boxes.
    """
    graph = api.with_io(small, "int8", "nhwc").graph
    real = [head.detected_real(each, THRESHOLD) for each in heads.transpose(0, 2, 3, 1)]
    quant = quant_of(graph)
    detections = [as_rows(head.detected(each, quant, THRESHOLD)) for each in int8_outputs(graph, values)]
    true = [boxes_of(each) for each in labels]
    named = {
        f"{'test' if name == 'voc' else name}{form}": value
        for boxes, form in ((real, ""), (detections, "_int8"))
        for name, value in means(boxes, true, head.classes).items()
    }
    return named, interval(detections, true, head.classes)


def quant_of(graph: Graph) -> Quant:
    """Return the scale and the zero point of a graph's first output."""
    out = graph.tensors[graph.outputs[0]]
    return Quant((out.scale,), (out.zero_point,))


def int8_outputs(graph: Graph, values: NDArray[np.int8]) -> NDArray[Any]:
    """Run an int8 graph on samples [n, ...] and return its first output for each sample, [n, ...].

    The graph must have one input and batch size 1. Samples have the layout of its input, results the layout of its output.
    """
    (name,) = graph.inputs
    parts = [values[part][:, None].reshape(-1, *graph.tensors[name].shape) for part in chunks(graph, len(values))]
    return np.concatenate([outputs(graph, {name: part}, graph.outputs)[0] for part in parts])[:, 0]
