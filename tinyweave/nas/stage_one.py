"""Stage one of TinyNAS: which image and width leave the most room for good networks. In: a space, limits. Out: a Setting each.

Of each image and width networks are drawn; those that fit RAM and Flash are kept. The more multiply-accumulates these have, the
better the networks to be found among them. Source: arXiv 2007.10319, section 3.1; the MCUNet thesis chooses by the mean, its
lecture by the 80th percentile.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from ..ops.window import Size
from ..papers.patches import head_bytes, patched_macs, peak_bytes
from ..papers.patches import layer_bytes as bytes_of
from ..progress import Progress, silent
from .arch import Arch, blocks, layers, macs, weights
from .arena import arena
from .space import SearchSpace, arch_of, sampled

Schedule = Literal["layer", "patch", "best"]
By = Literal["mean", "p80"]
PERCENTILE = 80
EXCITED = 6  # bytes per channel: sums, and a mean or a gate on either side of a layer


@dataclass(frozen=True)
class StageLimits:
    """ram: bytes of the arena. flash: bytes of weights. schedule: `layer`, each layer by itself, and `patch`, the first layers
    patch by patch, as the thesis counts both; or `best`, the planner's best plan that computes nothing twice. stream_inputs:
    with `best`, the image comes by rows. max_mac_overhead: with `patch`, times the network's multiply-accumulates."""

    ram: int
    flash: int
    schedule: Schedule = "best"
    stream_inputs: bool = False
    max_mac_overhead: float = 1.15  # the thesis' MobileNetV2 does 12.7 % again


@dataclass(frozen=True)
class Setting:
    """An image and a width. macs: of the networks that fit, in rising order; drawn: how many there were in all."""

    size: Size
    width: float
    macs: tuple[int, ...]
    drawn: int

    @property
    def share(self) -> float:
        """Return the share of networks that fit."""
        return len(self.macs) / self.drawn

    @property
    def mean(self) -> float:
        return float(np.mean(self.macs)) if self.macs else 0.0

    @property
    def p80(self) -> float:
        """Return what a fifth of the networks that fit have more of."""
        return float(np.percentile(self.macs, PERCENTILE)) if self.macs else 0.0


def layer_bytes(arch: Arch) -> int:
    """Return what the largest layer needs of RAM by itself: its input and output, of a depthwise one the larger of the two.

    The thesis counts so; skips are left out.
    """
    return peak_bytes(layers(blocks(arch)))


def fits(arch: Arch, limits: StageLimits) -> bool:
    """Return whether a network fits; what costs least to know is asked first."""
    if weights(arch) > limits.flash:
        return False
    if limits.schedule != "best":
        return layer_bytes(arch) <= limits.ram or (limits.schedule == "patch" and fits_by_patches(arch, limits))
    return unfused_bytes(arch) <= limits.ram or arena(arch, stream_inputs=limits.stream_inputs) <= limits.ram


def fits_by_patches(arch: Arch, limits: StageLimits) -> bool:
    """Return whether a network fits whose first layers run patch by patch, square patches of any size of any of its maps.

    Every layer that is too large by itself must be among them. The smaller the patches, the less RAM and the more work.
    """
    every = layers(blocks(arch))
    too_large = [number for number, layer in enumerate(every) if bytes_of(layer) > limits.ram]
    work = limits.max_mac_overhead * macs(arch)
    for head in range(max(too_large, default=0) + 1, len(every) + 1):
        side = every[head - 1].h_out
        patches = sorted({-(-side // count) for count in range(2, side + 1)})
        fitting = bisect_right(patches, limits.ram, key=lambda patch: head_bytes(every[:head], patch))
        if fitting and patched_macs(every, head, patches[fitting - 1], clipped=True) <= work:
            return True
    return False


def unfused_bytes(arch: Arch) -> int:
    """Return RAM that is enough for any network whose layers run one by one, its skips kept: no plan need be worse.

    Squeeze and excitation keeps the map that it scales beside its means, their sums of 4 bytes, and its two layers.
    """
    largest = 0
    for block in blocks(arch):
        skip = block.layers[0].in_bytes if block.residual else 0
        by_layer = (skip + layer.in_bytes + layer.out_bytes for layer in block.layers)
        largest = max(largest, skip + 2 * block.layers[-1].out_bytes, *by_layer)
        if block.squeezed:
            largest = max(largest, skip + block.layers[-1].in_bytes + EXCITED * block.layers[-1].c_in)
    last = block.layers[-1]
    return max(largest, last.out_bytes + 5 * last.c_out, last.c_out + arch.classes)  # a mean and its sums, the classifier


def stage_one(
    space: SearchSpace,
    limits: StageLimits,
    classes: int,
    count: int = 1000,
    *,
    seed: int = 0,
    processes: int = 1,
    progress: Progress = silent,
) -> list[Setting]:
    """Return a Setting for each image and width of a space, from `count` networks of each."""
    jobs = [(space, size, width, limits, classes, count, seed) for size, width in product(space.sizes, space.widths)]
    found = list[Setting]()
    with ExitStack() as stack:
        calls = map if processes == 1 else stack.enter_context(ProcessPoolExecutor(processes)).map
        for setting in calls(_setting, jobs):
            found.append(setting)
            progress("drawing networks", len(found), len(jobs))
    return found


def chosen(settings: Sequence[Setting], by: By = "p80") -> Setting:
    """Return the setting whose networks that fit have the most multiply-accumulates; of equals the first."""
    return max(settings, key=lambda setting: setting.p80 if by == "p80" else setting.mean)


def _setting(job: tuple[SearchSpace, Size, float, StageLimits, int, int, int]) -> Setting:
    space, size, width, limits, classes, count, seed = job
    rng = random.Random(f"{seed} {size} {width}")
    archs = (arch_of(space, sampled(space, rng, size, width), classes) for _ in range(count))
    return Setting(size, width, tuple(sorted(macs(arch) for arch in archs if fits(arch, limits))), count)
