"""Predict how many CPU seconds training and planning take on this machine, without training. In: an Arch. Out: seconds.

A search divides its time limit by these predictions, not by its own measurements. Therefore equal searches on one machine train
equal networks, even if the machine is busy with other work.

The prediction is that of a reference core (the constants below, from `bench/training/training_cost.py`) times the speed of this
machine, which is measured once and kept in the user's cache folder.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress

from ..files import write_file
from ..toolchain import cache_folder
from .arch import Arch, blocks
from .space import Choice, arch_of, small_images
from .workers import Workers

# CPU seconds of one training step on the reference core: a Xeon with AVX-512, one thread, PyTorch 2.13
PER_LAYER = 0.38e-3  # for each layer, whatever its size
PER_ELEMENT = 6.0e-9  # for each element of a layer's output, for each sample
PER_DEPTHWISE_MAC = 0.7e-9  # for each multiply-accumulate of a depthwise layer, for each sample
MOST_FACTOR = 1e3  # no machine is that slow
PLANNING = 0.2  # CPU seconds to plan a network on the reference core
FILE = "training_speed.json"  # in the cache folder
SAMPLES, STEPS, REPEATS = 64, 3, 5  # of the training that measures the machine; the fastest of the repeats counts


def step_seconds(arch: Arch, batch: int) -> float:
    """Predict the CPU seconds of one training step of a network on the reference core, for a batch of samples."""
    layers = [layer for block in blocks(arch) for layer in block.layers]
    elements = sum(layer.h_out * layer.w_out * layer.c_out for layer in layers)
    depthwise = sum(
        layer.h_out * layer.w_out * layer.c_out * layer.kernel[0] * layer.kernel[1] for layer in layers if layer.depthwise
    )
    return PER_LAYER * len(layers) + batch * (PER_ELEMENT * elements + PER_DEPTHWISE_MAC * depthwise)


def machine_factor(workers: Workers) -> float:
    """Return how many times as long as the reference core a core of this machine takes while all workers are busy.

    The first call trains a small network for a few seconds. Its result is kept in the cache folder and returned from then on.
    """
    path = cache_folder() / FILE
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = float(json.loads(path.read_text())["factor"])
        if 0 < known < MOST_FACTOR:
            return known
    factor: float = min(workers.each(_measured_factor, [()] * workers.count))
    with suppress(OSError):
        write_file(path, json.dumps({"factor": factor}))
    return factor


def _measured_factor() -> float:
    """Train a network of a known prediction for a few steps; return its CPU seconds divided by the prediction."""
    import numpy as np

    from .learning.module import module_of
    from .learning.train import Recipe, fit, thread_count

    space = small_images()
    arch = arch_of(space, Choice(space.sizes[0], 1.0, tuple((((3, 2),) * 2) for _ in space.groups)), 10)
    rng = np.random.default_rng(0)
    values = rng.integers(-128, 128, (SAMPLES * STEPS, *arch.image), dtype=np.int8)
    labels, module, times = rng.integers(0, 10, len(values)), module_of(arch), list[float]()
    with thread_count(1):
        for _ in range(REPEATS):
            begin = time.process_time()
            fit(module, values, labels, Recipe(1, batch=SAMPLES))
            times.append(time.process_time() - begin)
    return round(min(times) / (STEPS * step_seconds(arch, SAMPLES)), 3)
