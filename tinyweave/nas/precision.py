"""How right a detector is on images that it did not see, in float and in int8. In: heads, boxes. Out: means, an interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import api
from ..ir import Graph, Quant
from ..quantize.evaluate import chunks, outputs
from ..results import Model
from ..tasks.average_precision import interval, means
from ..tasks.boxes import Head, as_rows
from ..tasks.detection import boxes_of

THRESHOLD = 0.01  # of the scores of boxes that are counted: the curve needs its end, too


def precision(
    heads: NDArray[np.float32], small: Model, values: NDArray[np.int8], labels: NDArray[np.float32], head: Head
) -> tuple[dict[str, float], tuple[float, float]]:
    """Return the mean average precisions of a detector, and the 95 % interval of `test_int8`.

    heads: [n, channels, rows, columns] of the float network. Those of int8 are decoded in integers, as the device does.
    """
    graph = api.with_edges(small, "int8", "nhwc").graph
    real = [head.detected_real(each, THRESHOLD) for each in heads.transpose(0, 2, 3, 1)]
    quant = quant_of(graph)
    found = [as_rows(head.detected(each, quant, THRESHOLD)) for each in int8_outputs(graph, values)]
    true = [boxes_of(each) for each in labels]
    named = {
        f"{'test' if name == 'voc' else name}{form}": value
        for boxes, form in ((real, ""), (found, "_int8"))
        for name, value in means(boxes, true, head.classes).items()
    }
    return named, interval(found, true, head.classes)


def quant_of(graph: Graph) -> Quant:
    """Return the scale and the zero point of what a graph puts out."""
    out = graph.tensors[graph.outputs[0]]
    return Quant((out.scale,), (out.zero_point,))


def int8_outputs(graph: Graph, values: NDArray[np.int8]) -> NDArray[Any]:
    """Return what an int8 graph, channels last at its edges, makes of samples: heads, or scores, [n, ...]."""
    (name,) = graph.inputs
    parts = [values[part][:, None].reshape(-1, *graph.tensors[name].shape) for part in chunks(graph, len(values))]
    made = [outputs(graph, {name: part}, graph.outputs)[0] for part in parts]
    return np.concatenate(made)[:, 0]
