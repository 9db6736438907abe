"""Make a trained network int8, and test it on samples that nothing has seen. In: an Arch, weights, a Dataset. Out: accuracy."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from .. import api
from ..ir import CompileError
from ..tasks.boxes import head_of
from ..tasks.dataset import SCALE, Dataset, sized
from .arch import Arch
from .costs import NAME
from .precision import precision

FEW = (4, 12)  # samples of the test, by which the time of all is measured
DEVIATES = 1.96  # standard deviations either side of a 95 % interval


def quantised(arch: Arch, weights_file: Path, data: Dataset) -> tuple[Any, dict[str, float], tuple[float, float]]:
    """Return a trained network as an int8 model, its accuracy on the test part in float and in int8, and the latter's interval.

    The int8 input is what the data set holds, images in the network's size: the values themselves.
    """
    import torch

    from .learning.module import module_of

    module = module_of(arch)
    module.load_state_dict(torch.load(weights_file, weights_only=True))
    data = sized(data, arch.image[:2])
    done = int8_form(module.eval(), data)
    return done.model, *_judged(module, done, data, *data.part("test"))


def int8_form(module: Any, data: Dataset) -> Any:
    """Return the Quantisation of a trained module, its ranges chosen from samples of the training part."""
    import torch

    from ..quantize.calibrate import evenly
    from ..quantize.ptq import CALIBRATION

    values, _ = data.part("train")
    rows, columns, channels = values.shape[1:]
    loaded = api.load_module(module, torch.zeros(1, channels, rows, columns), name=NAME)
    return api.quantize(loaded, values[evenly(CALIBRATION, len(values))], scale=(SCALE,))


def _judged(module: Any, done: Any, data: Dataset, unseen: Any, labels: Any) -> tuple[dict[str, float], tuple[float, float]]:
    from ..quantize.ptq import fidelity
    from ..quantize.samples import open_samples
    from .learning.train import scores

    if (head := head_of(data)) is not None:
        return precision(scores(module, unseen), done.model, unseen, labels, head)
    near = fidelity(done.real, done.model.original, open_samples(unseen, done.real, (SCALE,), labels=labels))
    if near.accuracy is None:
        raise CompileError("the network tells no classes apart", "give data of two classes or more")
    return {"test": near.accuracy[0], "test_int8": near.accuracy[1]}, wilson(near.accuracy[1], len(labels))


def rehearsed(arch: Arch, data: Dataset) -> float:
    """Return the seconds that it takes to make a network int8 and to test it, from a few samples."""
    from .learning.module import module_of

    data = sized(data, arch.image[:2])
    begin, (unseen, labels) = time.perf_counter(), data.part("test")
    module = module_of(arch).eval()
    done, times = int8_form(module, data), [time.perf_counter() - begin]
    few = [min(count, len(unseen)) for count in FEW]
    for count in few:
        begin = time.perf_counter()
        _judged(module, done, data, unseen[:count], labels[:count])
        times.append(time.perf_counter() - begin)
    converted, short, long = times
    return converted + short + max(0.0, long - short) * (len(unseen) - few[0]) / max(1, few[1] - few[0])


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of so many trials (Wilson's score interval)."""
    z = DEVIATES**2 / count
    middle, half = share + z / 2, math.sqrt(share * (1 - share) * z + z * z / 4)
    return (middle - half) / (1 + z), (middle + half) / (1 + z)
