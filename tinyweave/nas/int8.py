"""Quantise a trained network to int8 and test it. In: an Arch, a file of weights, a Dataset. Out: an int8 model, accuracies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import api
from ..ir import CompileError
from ..tasks.boxes import head_of
from ..tasks.dataset import SCALE, Dataset, sized
from ..tasks.evaluation.intervals import Groups, Interval, accuracy_interval
from .arch import Arch
from .costs import NAME
from .precision import precision

TIMED = (4, 12)  # test samples whose evaluation is timed; the time of all samples is extrapolated


class Evaluation(NamedTuple):
    """An int8 network and its results on the test samples."""

    model: Any  # the int8 model, `api.results.Model`
    accuracy: dict[str, float]  # `test` (float) and `test_int8`; of detectors, average precisions
    interval: Interval  # 95 % confidence interval of `test_int8`; it resamples groups if samples come in groups
    predicted: NDArray[np.int64] | None  # class of each test sample by the int8 network; None for a detector


def evaluate_int8(arch: Arch, weights_file: Path, data: Dataset) -> Evaluation:
    """Quantise a trained network to int8 and evaluate it on the test samples, which are scaled to the network's image size.

    Args:
        arch: The network.
        weights_file: File of its trained weights.
        data: The data set; training samples calibrate the quantisation.
    """
    import torch

    from .learning.module import module_of

    module = module_of(arch)
    module.load_state_dict(torch.load(weights_file, weights_only=True))
    data = sized(data, arch.image[:2])
    done = quantise(module.eval(), data)
    return Evaluation(done.model, *_evaluate(module, done, data, *data.part("test"), groups=data.groups_of("test")))


def quantise(module: Any, data: Dataset) -> Any:
    """Quantise a trained PyTorch module to int8, with activation ranges calibrated on training samples.

    Return the result of `api.quantize_model`: its `model` is the int8 network, its `real` the float network.
    """
    import torch

    from ..quantize.calibrate import evenly_spaced
    from ..quantize.ptq import CALIBRATION

    values, _ = data.part("train")
    rows, columns, channels = values.shape[1:]
    loaded = api.load_module(module, torch.zeros(1, channels, rows, columns), name=NAME)
    return api.quantize_model(loaded, values[evenly_spaced(CALIBRATION, len(values))], api.SampleOptions((SCALE,)))


def _evaluate(
    module: Any, done: Any, data: Dataset, unseen: Any, labels: Any, *, groups: Groups = None
) -> tuple[dict[str, float], Interval, NDArray[np.int64] | None]:
    """Return (accuracy, interval, predicted) of `Evaluation`, for the samples `unseen` and their `labels` and `groups`.

    `module` is the float network, `done` the result of `quantise`.
    """
    from ..quantize.calibration_samples import open_samples
    from ..quantize.fidelity import fidelity
    from .learning.train import scores

    if (head := head_of(data)) is not None:
        return *precision(scores(module, unseen), done.model, unseen, labels, head), None
    agreement = fidelity(done.real, done.model.original, open_samples(unseen, done.real, (SCALE,), labels=labels))
    if agreement.accuracy is None or agreement.predicted is None:
        raise CompileError("the network has a single class", "give samples of at least two classes")
    interval = accuracy_interval(agreement.predicted == labels, groups)
    return {"test": agreement.accuracy[0], "test_int8": agreement.accuracy[1]}, interval, agreement.predicted


def quantisation_seconds(arch: Arch, data: Dataset) -> float:
    """Estimate the seconds to quantise a network and test it on all test samples, by testing it on a few of them."""
    from .learning.module import module_of

    data = sized(data, arch.image[:2])
    begin, (unseen, labels) = time.perf_counter(), data.part("test")
    module = module_of(arch).eval()
    done, times = quantise(module, data), [time.perf_counter() - begin]
    counts = [min(count, len(unseen)) for count in TIMED]
    for count in counts:
        begin = time.perf_counter()
        _evaluate(module, done, data, unseen[:count], labels[:count])
        times.append(time.perf_counter() - begin)
    converted, short, long = times
    return converted + short + max(0.0, long - short) * (len(unseen) - counts[0]) / max(1, counts[1] - counts[0])
