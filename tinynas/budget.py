"""Divide the time limit of a search by successive halving. In: a time limit, the samples, networks. Out: counts and epochs.

SHARES and others divide the time. With little time fewer networks are tried, so that each candidate beyond FINALISTS has
about MIN_STEPS steps in the first rung; with several folds candidates are trained nearly as long as the best. Times are
predictions for a reference core, times the speed of this machine, measured once and rounded, so equal searches on one machine
train equal networks, even if it is busy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, log, prod
from statistics import fmean

from tinyweave.support.files import write_file
from tinyweave.support.toolchain import cache_folder

from .arch import Arch, blocks
from .halving import Rung
from .space import PlainSize, families_of, plain_network, sensors, small_images
from .workers import Workers

FIXED = 25.0  # seconds on the reference core that no limit changes: measuring the overhead, quantising, building, verifying
SHARES = {"planning": 0.05, "trial": 0.12, "halving": 0.38, "final": 0.45}  # of the other seconds
FOLDED_SHARES = {"planning": 0.04, "trial": 0.14, "halving": 0.5, "final": 0.32}  # with several folds
FEWEST_SAMPLED, MOST_SAMPLED = 24, 5_000  # networks that are planned
MIN_STEPS = 200  # training steps of a candidate in the first rung: with fewer, accuracies are close to chance
MIN_FOLDED_STEPS = 500  # the same with several folds: after fewer steps, networks that learn fast look better than they are
MIN_TRIAL_STEPS = 300  # training steps of a recipe's trial: after fewer, weak augmentations look better than they are
MAX_TRIAL_STEPS, MAX_RUNG_STEPS, MAX_FINAL_STEPS = 2_500, 10_000, 20_000  # of each training of this kind
MIN_FINAL_STEPS = 1_300  # training steps of the final training; networks that are too large for them are no candidates
KEPT = 1 / 3  # share of the candidates of a rung that enter the next
MOST_CANDIDATES, FINALISTS = 48, 2
FOLDED_FINALISTS = 4  # with several folds: few samples make nearly equal networks of good and bad ones

# CPU seconds of one training step on the reference core, a Xeon; least squares of the relative errors of 104 trainings on an
# EPYC with AVX-512 (images, sensors, sound; batches of 16 to 128), one thread, PyTorch 2.13: 80 % are off by at most 1.18 times
PER_STEP = 3.4e-3  # whatever the network: augmentation, loss, optimiser
PER_LAYER = 0.85e-3  # for each layer, whatever its size
PER_ELEMENT = 5.9e-9  # for each element of a layer's output, for each sample
PER_DEPTHWISE_MAC = 0.94e-9  # for each multiply-accumulate of a depthwise layer, for each sample
PER_MAC = 0.127e-9  # for each multiply-accumulate of another layer, for each sample
PER_INPUT = 51e-9  # for each element of the network's input, for each sample: its augmentation
MOST_FACTOR = 1e3  # no machine is that slow
PLANNING = 0.2  # CPU seconds to plan a network on the reference core
FILE = "training_speed.json"  # in the cache folder
ROUNDING = 1.2  # the speed is a power of it, 10 % off at most: other busy programs seldom change the power, or the plan
SAMPLES, STEPS, REPEATS = 64, 6, 4  # of the training that measures the machine; the fastest of the repeats counts


@dataclass(frozen=True)
class Budget:
    """The time limit of a search, with the numbers that determine how many networks and epochs fit into it."""

    seconds: float  # time limit of the search
    workers: int  # trainings that run in parallel
    slowdown: float  # CPU seconds on this machine per second on the reference core
    samples: int  # for training
    batch: int  # samples per step
    folds: int = 1  # trainings of a candidate, see `halving.folds_of`
    validation: int = 0  # samples for validation, which only the final training sees, too

    def share(self, name: str) -> float:
        """Return how many seconds of the time limit are for the part `name` of the search, a key of SHARES."""
        shares = FOLDED_SHARES if self.folds > 1 else SHARES
        return shares[name] * max(self.seconds - FIXED * self.slowdown, 0.3 * self.seconds)

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of training steps per epoch."""
        return max(1, self.samples // self.batch)

    def step(self, arch: Arch) -> float:
        """Predict the seconds of one training step of a network, on one worker."""
        return self.slowdown * step_seconds(arch, self.batch)

    @property
    def sampled(self) -> int:
        """Return how many sampled networks to plan, in order to find candidates that fit the device."""
        count = int(self.share("planning") * self.workers / (self.slowdown * PLANNING))
        return min(max(FEWEST_SAMPLED, count), MOST_SAMPLED)

    def is_trainable(self, arch: Arch) -> bool:
        """Return whether there is time for MIN_FINAL_STEPS final steps, and for a trial of three recipes."""
        trial = ceil(3 / self.workers) * self.steps_per_epoch * self.step(arch)
        return self.share("final") / self.step(arch) >= MIN_FINAL_STEPS and trial <= 1.5 * self.share("trial")

    def trial(self, arch: Arch, trials: int) -> tuple[int, int]:
        """Return the epochs and the folds of each training in `trials` trials of `arch`, which compare recipes.

        There is one fold if the time suffices for fewer than MIN_TRIAL_STEPS steps with all.
        """
        steps = self.share("trial") * self.workers / (ceil(trials / self.workers) * self.workers) / self.step(arch)
        folds = self.folds if steps >= self.folds * MIN_TRIAL_STEPS else 1
        return self._epochs(min(steps / folds, MAX_TRIAL_STEPS)), folds

    def rungs(self, archs: Sequence[Arch]) -> tuple[Rung, ...]:
        """Return the rungs of successive halving for candidates `archs`, in order of preference.

        Their epochs are those of the first candidate; the others train for equal times. In the first rung, of at most
        MOST_CANDIDATES, there is time for MIN_STEPS (MIN_FOLDED_STEPS) steps on average. Rungs take the same time, up to
        MAX_RUNG_STEPS. The last has FINALISTS candidates; with several folds and enough time it has FOLDED_FINALISTS.
        """
        seconds, steps = self.share("halving") / self.folds, list(map(self.step, archs))
        least, last = (MIN_STEPS, FINALISTS) if self.folds == 1 else (MIN_FOLDED_STEPS, FOLDED_FINALISTS)
        for first in range(min(MOST_CANDIDATES, len(archs)), FINALISTS, -1):
            counts = [first]
            while counts[-1] > last:
                counts.append(max(last, ceil(counts[-1] * KEPT)))
            times = [seconds / len(counts) / ceil(count / self.workers) for count in counts]  # of each candidate
            if times[0] >= least * fmean(steps[:first]):
                break
        else:
            counts, times = [FINALISTS], [seconds / ceil(FINALISTS / self.workers)]
        epochs = [self._epochs(min(each / steps[0], MAX_RUNG_STEPS)) for each in times]
        return tuple(map(Rung, counts, epochs))

    def final_epochs(self, arch: Arch) -> int:
        """Return the epochs of the final training of a network."""
        return self._epochs(min(self.share("final") / self.step(arch), MAX_FINAL_STEPS), self.samples + self.validation)

    def needed(
        self, archs: Sequence[Arch], trials: int, trial: tuple[int, int], rungs: Sequence[Rung], final_epochs: Sequence[int]
    ) -> float:
        """Predict the seconds of wall-clock time of a search with the candidates `archs` on this machine while idle.

        `trials` trainings of networks like the first compare recipes; `trial` has the epochs and the folds of each. The first
        network is trained finally; the `final_epochs` of each say how its epochs in the rungs differ from those of the first.
        """
        steps = list(map(self.step, archs))
        comparing = ceil(trials / self.workers) * prod(trial) * self.steps_per_epoch * steps[0]
        longest = max(n * step / final_epochs[0] for n, step in zip(final_epochs, steps[: rungs[0].candidates], strict=False))
        training = self.steps_per_epoch * longest * sum(rung.epochs * ceil(rung.candidates / self.workers) for rung in rungs)
        final = final_epochs[0] * max(1, (self.samples + self.validation) // self.batch) * steps[0]
        fixed = self.slowdown * (FIXED + self.sampled * PLANNING / self.workers)
        return fixed + comparing + self.folds * training + final

    def _epochs(self, steps: float, samples: int | None = None) -> int:
        """Return the number of epochs that have `steps` steps; an epoch sees `samples` samples, None for the training part."""
        per_epoch = self.steps_per_epoch if samples is None else max(1, samples // self.batch)
        return max(1, int(steps / per_epoch))


def step_seconds(arch: Arch, batch: int) -> float:
    """Predict the CPU seconds of one training step of a network on the reference core, for a batch of samples."""
    layers = [layer for block in blocks(arch) for layer in block.layers]
    elements, all_macs = sum(layer.out_bytes for layer in layers), sum(layer.macs for layer in layers)
    depthwise = sum(layer.macs for layer in layers if layer.depthwise)
    per_sample = PER_ELEMENT * elements + PER_DEPTHWISE_MAC * depthwise + PER_MAC * (all_macs - depthwise)
    return PER_STEP + PER_LAYER * len(layers) + batch * (per_sample + PER_INPUT * prod(arch.image))


def machine_factor(workers: Workers) -> float:
    """Return the training time on a core of this machine, all workers busy, relative to the reference core: rounded, cached."""
    path = cache_folder() / FILE
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = float(json.loads(path.read_text())["factor"])
        if 0 < known < MOST_FACTOR:
            return known
    measured = fmean(workers.each(_measured_factor, [()] * workers.count))
    factor = round(ROUNDING ** round(log(measured, ROUNDING)), 3)
    with suppress(OSError):
        write_file(path, json.dumps({"factor": factor}))
    return factor


def _measured_factor() -> float:
    """Train a plain network of images and one of signals for a few steps; return their CPU seconds / `step_seconds`."""
    import numpy as np

    from .learning.module import module_of
    from .learning.train import Recipe, fit, thread_count

    rng, seconds, predicted = np.random.default_rng(0), 0.0, 0.0
    with thread_count(1):
        for space, augmentation in ((small_images(), "images"), (sensors(256, 3), "sensors_shifted")):
            arch = plain_network(space, PlainSize(1.0), 10, families_of(space)[0])
            values = rng.integers(-128, 128, (SAMPLES * STEPS, *arch.image), dtype=np.int8)
            labels, module, times = rng.integers(0, 10, len(values)), module_of(arch), list[float]()
            for _ in range(REPEATS):
                begin = time.process_time()
                fit(module, values, labels, Recipe(1, batch=SAMPLES, adam=True, augmentation=augmentation))
                times.append(time.process_time() - begin)
            seconds, predicted = seconds + min(times), predicted + STEPS * step_seconds(arch, SAMPLES)
    return seconds / predicted
