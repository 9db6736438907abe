"""Quantise a trained network to int8 and test it. In: an Arch, a file of weights, a Dataset. Out: an int8 model, accuracies."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinyweave import api
from tinyweave.api.results import Model
from tinyweave.ir import CompileError, Graph, Quant
from tinyweave.quantize.evaluate import chunks, outputs

from .arch import Arch
from .costs import NAME
from .tasks import average_precision
from .tasks.boxes import Head, as_rows, head_of
from .tasks.dataset import SCALE, Dataset, sized
from .tasks.detection import boxes_of
from .tasks.evaluation.intervals import Interval, accuracy_interval

THRESHOLD = 0.01  # least score of a box that is counted: low, because the precision-recall curve needs its end
MANY = 10  # least classes for a top-5 accuracy


class Evaluation(NamedTuple):
    """An int8 network and its results on the test samples."""

    model: Any  # the int8 model, `api.results.Model`
    accuracy: dict[str, float]  # `test` (float), `test_int8`, from MANY classes on `top_5_int8`; detectors: average precisions
    interval: Interval  # 95 % confidence interval of `test_int8`; it resamples groups if samples come in groups
    predicted: NDArray[np.int64] | None  # class of each test sample by the int8 network; None for a detector


def evaluate_int8(arch: Arch, weights_file: Path, data: Dataset) -> Evaluation:
    """Quantise a trained network to int8 on training samples, and evaluate it on test samples, scaled to its image size."""
    import torch

    from tinyweave.quantize.calibration_samples import open_samples
    from tinyweave.quantize.fidelity import fidelity

    from .learning.module import module_of
    from .learning.train import scores

    module = module_of(arch)
    module.load_state_dict(torch.load(weights_file, weights_only=True))
    data = sized(data, arch.image[:2])
    done, (unseen, labels) = quantise(module.eval(), data), data.part("test")
    if (head := head_of(data)) is not None:
        return Evaluation(done.model, *precision(scores(module, unseen), done.model, unseen, labels, head), None)
    agreement = fidelity(done.real, done.model.original, open_samples(unseen, done.real, (SCALE,), labels=labels))
    if agreement.accuracy is None or agreement.best is None:
        raise CompileError("the network has a single class", "give samples of at least two classes")
    right, accuracy = agreement.best == labels[:, None], dict(zip(("test", "test_int8"), agreement.accuracy, strict=True))
    if len(data.classes) >= MANY:
        accuracy["top_5_int8"] = float(right.any(axis=1).mean())
    interval = accuracy_interval(right[:, 0], data.groups_of("test"))
    return Evaluation(done.model, accuracy, interval, agreement.best[:, 0])


def quantise(module: Any, data: Dataset) -> Any:
    """Quantise a PyTorch module on training samples; return `model` (int8) and `real` (float) of `api.quantize_model`."""
    import torch

    from tinyweave.quantize.calibrate import evenly_spaced
    from tinyweave.quantize.ptq import CALIBRATION

    values, _ = data.part("train")
    rows, columns, channels = values.shape[1:]
    loaded = api.load_module(module, torch.zeros(1, channels, rows, columns), name=NAME)
    return api.quantize_model(loaded, values[evenly_spaced(CALIBRATION, len(values))], api.SampleOptions((SCALE,)))


def precision(
    heads: NDArray[np.float32], small: Model, values: NDArray[np.int8], labels: NDArray[np.float32], head: Head
) -> tuple[dict[str, float], tuple[float, float]]:
    """Return the mean average precisions of a detector in float and int8, and the 95 % confidence interval of `test_int8`.

    The precisions are `test` (VOC, all points), `voc_11` and `coco`, with the suffix `_int8` for the int8 network.

    Args:
        heads: Outputs [n, channels, rows, columns] of the float network.
        small: The int8 network, which this function runs; its outputs are decoded with integers, as on the device.
        values: Samples [n, rows, columns, channels].
        labels: True boxes [n, boxes, 6].
    """
    graph = api.with_io(small, "int8", "nhwc").graph
    real = [head.detected_real(each, THRESHOLD) for each in heads.transpose(0, 2, 3, 1)]
    quant = quant_of(graph)
    detections = [as_rows(head.detected(each, quant, THRESHOLD)) for each in int8_outputs(graph, values)]
    true = [boxes_of(each) for each in labels]
    named = {
        f"{'test' if name == 'voc' else name}{form}": value
        for boxes, form in ((real, ""), (detections, "_int8"))
        for name, value in average_precision.means(boxes, true, head.classes).items()
    }
    return named, average_precision.interval(detections, true, head.classes)


def quant_of(graph: Graph) -> Quant:
    """Return the scale and the zero point of a graph's first output."""
    out = graph.tensors[graph.outputs[0]]
    return Quant((out.scale,), (out.zero_point,))


def int8_outputs(graph: Graph, values: NDArray[np.int8]) -> NDArray[Any]:
    """Return the first output [n, ...] of an int8 graph of one input and batch size 1 for samples [n, ...]."""
    (name,) = graph.inputs
    parts = [values[part][:, None].reshape(-1, *graph.tensors[name].shape) for part in chunks(graph, len(values))]
    return np.concatenate([outputs(graph, {name: part}, graph.outputs)[0] for part in parts])[:, 0]
