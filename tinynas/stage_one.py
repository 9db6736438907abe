"""Stage one of TinyNAS: choose the image size and the width to search. In: a search space, limits. Out: Settings.

A setting is an image size and a width; it is feasible if at least 80 % of sampled networks fit. The best one's networks have
the most MACs: more computation within the limits means more capacity. `stage_one` counts RAM and Flash as the MCUNet thesis
does; `best_input` takes all limits of a device, and plans only a few networks exactly. Sources: arXiv 2007.10319, section 3.1;
MIT 6.5940, lecture 10, for the feasibility rule. The thesis compares mean MACs, the lecture 80th percentiles.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from tinyweave.ir import CompileError
from tinyweave.ops.window import Size
from tinyweave.support.progress import Progress, silent

from .arch import Arch, blocks, layers, macs, weights
from .costs import Target, costs, quick_costs, too_large
from .published.patches import bytes_by_patch, patched_macs, peak_bytes
from .published.patches import layer_bytes as bytes_of
from .ram.arena import arena
from .space import PlainSize, SearchSpace, arch_of, largest, plain_network, sample
from .workers import Workers, process_pool

Schedule = Literal["layer", "patch", "best"]
By = Literal["mean", "p80"]
PERCENTILE = 80
ESTIMATED = 24  # networks of a setting whose costs `best_input` estimates
PLANNED = 10  # networks of a setting that `best_input` plans exactly, to verify the estimate
AT_A_TIME = 5  # of these plans; the number decides the result, so it does not depend on the number of workers
PLAIN_DEPTH = 2  # of the plain network that must be trainable
FEASIBLE = 0.8  # share of a setting's networks that must fit, by default
EXCITATION_BYTES = 6  # RAM per channel of squeeze and excitation: a 4-byte sum, and the int8 input and output of a layer


@dataclass(frozen=True)
class StageLimits:
    """Limits of stage one; RAM is counted as in the thesis (schedules `layer`, `patch`), or of the best plan (`best`)."""

    ram: int  # bytes of the arena
    flash: int  # bytes of weights
    schedule: Schedule = "best"
    stream_inputs: bool = False  # with `best`: the image arrives row by row and is never in RAM as a whole
    max_mac_overhead: float = 1.15  # with `patch`: limit on the recomputation; the MobileNetV2 of the thesis recomputes 12.7 %


@dataclass(frozen=True)
class Setting:
    """An image size and a width of a search space, and the result of sampling networks with these values."""

    size: Size | None  # None if each sample has a random size of the space
    width: float  # factor on all channels
    macs: tuple[int, ...]  # of the networks that fit, in rising order
    samples: int  # number of networks sampled

    @property
    def share(self) -> float:
        """Return the share of the sampled networks that fit."""
        return len(self.macs) / self.samples

    @property
    def mean(self) -> float:
        """Return the mean multiply-accumulates of the networks that fit, or 0 if none fits."""
        return float(np.mean(self.macs)) if self.macs else 0.0

    @property
    def p80(self) -> float:
        """Return the 80th percentile of the multiply-accumulates of the networks that fit, or 0 if none fits."""
        return float(np.percentile(self.macs, PERCENTILE)) if self.macs else 0.0


def layer_bytes(arch: Arch) -> int:
    """Return the peak RAM of a layer-by-layer run in bytes, without skip connections, as the MCUNet thesis counts it."""
    return peak_bytes(layers(blocks(arch)))


@lru_cache(maxsize=1)  # the same network is compared with one limit after another
def _bytes_of(arch: Arch) -> tuple[int, int]:
    return weights(arch), layer_bytes(arch)


def fits(arch: Arch, limits: StageLimits) -> bool:
    """Return whether a network fits the RAM and Flash limits if it runs with the schedule `limits.schedule`."""
    flash, largest = _bytes_of(arch)
    if flash > limits.flash:
        return False
    if limits.schedule != "best":
        return largest <= limits.ram or (limits.schedule == "patch" and fits_by_patches(arch, limits))
    return unfused_bytes(arch) <= limits.ram or arena(arch, stream_inputs=limits.stream_inputs) <= limits.ram


def fits_by_patches(arch: Arch, limits: StageLimits) -> bool:
    """Return whether a network fits the limits of RAM and recomputation with its first layers in patches.

    They include all layers that alone exceed the RAM. Of each such number of layers, the largest patch that fits is tested:
    smaller ones recompute more.
    """
    every = layers(blocks(arch))
    too_large = [number for number, layer in enumerate(every) if bytes_of(layer) > limits.ram]
    work = limits.max_mac_overhead * macs(arch)
    for patched in range(max(too_large, default=0) + 1, len(every) + 1):
        side = every[patched - 1].h_out
        patches = sorted({-(-side // count) for count in range(2, side + 1)})
        fitting = bisect_right(patches, limits.ram, key=lambda patch: bytes_by_patch(every[:patched], patch))
        if fitting and patched_macs(every, patched, patches[fitting - 1], clipped=True) <= work:
            return True
    return False


def unfused_bytes(arch: Arch) -> int:
    """Return the peak RAM of a layer-by-layer run with skip connections in bytes, an upper bound on the best plan's."""
    largest = 0
    for block in blocks(arch):
        skip = block.layers[0].in_bytes if block.residual else 0
        by_layer = (skip + layer.in_bytes + layer.out_bytes for layer in block.layers)
        largest = max(largest, skip + 2 * block.layers[-1].out_bytes, *by_layer)
        if block.squeezed:
            largest = max(largest, skip + block.layers[-1].in_bytes + EXCITATION_BYTES * block.layers[-1].c_in)
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
    """Return for each image size and width a Setting with the MACs of those of `count` sampled networks that fit."""
    return stage_one_per_limit(space, [limits], classes, count, seed=seed, processes=processes, progress=progress)[0]


def stage_one_per_limit(
    space: SearchSpace,
    limits: Sequence[StageLimits],
    classes: int,
    count: int = 1000,
    *,
    seed: int = 0,
    processes: int = 1,
    progress: Progress = silent,
) -> list[list[Setting]]:
    """Run `stage_one` for each element of `limits`, on the same sampled networks; return its list of Settings for each."""
    pairs = list(product(space.sizes, space.widths))
    settings_of = partial(_settings, space=space, limits=limits, classes=classes, count=count, seed=seed)
    by_pair = list[list[Setting]]()
    with ExitStack() as stack:
        calls: Callable[..., Any] = map if processes == 1 else stack.enter_context(process_pool(processes)).map
        for settings in calls(settings_of, pairs):
            by_pair.append(settings)
            progress("sampling networks", len(by_pair), len(pairs))
    return [list(each) for each in zip(*by_pair, strict=True)]


def _settings(
    pair: tuple[Size, float], space: SearchSpace, limits: Sequence[StageLimits], classes: int, *, count: int, seed: int
) -> list[Setting]:
    """Sample networks of one image size and width, and return for each of `limits` the Setting of those that fit."""
    fitting: list[list[int]] = [[] for _ in limits]
    for arch in _sampled(space, *pair, classes=classes, count=count, seed=seed):
        for each, sizes in zip(limits, fitting, strict=True):
            if fits(arch, each):
                sizes.append(macs(arch))
    return [Setting(*pair, tuple(sorted(sizes)), count) for sizes in fitting]


def _sampled(space: SearchSpace, size: Size, width: float, *, classes: int, count: int, seed: int) -> list[Arch]:
    """Return random networks of a setting; all have the pooling `mean`, because others need nearly the same RAM."""
    rng = random.Random(f"{seed} {size} {width}")
    return [arch_of(space, sample(space, rng, size, width)._replace(pooling="mean"), classes) for _ in range(count)]


class Aim(NamedTuple):
    """The device and the conditions for which `best_input` chooses an input size and a width."""

    target: Target  # the device and its limits; its `overhead` holds an estimate of the code size
    classes: int
    share: float = FEASIBLE  # fraction of a setting's networks that must fit
    plans: int = 200  # no further setting is verified after this many planned networks
    is_trainable: Callable[[Arch], bool] = lambda _: True  # whether there is time to train a network


def best_input(spaces: Sequence[SearchSpace], aim: Aim, workers: Workers, progress: Progress = silent) -> tuple[int, Setting]:
    """Choose among search spaces with one image size each, as stage one of TinyNAS does, within all limits of a device.

    First the costs of ESTIMATED networks of each setting (image size, width) are estimated. Those that are feasible are
    verified, from the highest 80th percentile of MACs on, by exact plans of PLANNED networks, until one is feasible. Settings
    whose plain network there is no time to train are left out. `spaces` are ordered by image size.

    Return the index of the space, and the setting; if none is feasible, that with the largest share of networks that fit, by
    the plans if they show any, else by the estimates.
    """
    estimated, rates = list[tuple[int, Setting]](), dict[str, float]()  # name of a space -> milliseconds per MAC
    for number, space in enumerate(spaces):
        progress("estimating networks of each input size", number, len(spaces))
        if space.name not in rates:
            rates[space.name] = _ms_per_mac(space, aim)
        may_fit = partial(_may_fit, aim=aim, ms_per_mac=rates[space.name])
        (size,) = space.sizes
        for width in space.widths:
            if aim.is_trainable(plain_network(space, PlainSize(width, PLAIN_DEPTH), aim.classes)):
                drawn = _sampled(space, size, width, classes=aim.classes, count=ESTIMATED, seed=0)
                estimated.append((number, Setting(size, width, tuple(sorted(map(macs, filter(may_fit, drawn)))), ESTIMATED)))
    feasible = sorted((each for each in estimated if each[1].share >= aim.share), key=lambda each: -each[1].p80)
    verified, plans = list[tuple[int, Setting]](), 0
    for number, setting in feasible:
        progress("planning networks of the best input sizes", len(verified), len(feasible))
        verified.append((number, _verified(spaces[number], setting, aim, workers)))
        plans += verified[-1][1].samples
        if verified[-1][1].share >= aim.share:
            return verified[-1]
        if plans >= aim.plans:
            break
    fitting = [each for each in verified if each[1].macs] or estimated
    smallest_setting = 0, Setting(spaces[0].sizes[0], min(spaces[0].widths), (), ESTIMATED)
    return max(fitting, key=lambda each: each[1].share, default=smallest_setting)


def _ms_per_mac(space: SearchSpace, aim: Aim) -> float:
    """Return ms per MAC of the largest network, planned without limits; 0 without a limit on time or energy."""
    limits = aim.target.all_limits
    if limits.latency_ms is None:
        return 0.0
    free = replace(aim.target, limits=replace(limits, ram=None, flash=None, latency_ms=None), energy_mj=None)
    cost = costs(arch_of(space, largest(space), aim.classes), free)
    return (cost.ms or 0.0) / cost.macs


def _may_fit(arch: Arch, aim: Aim, ms_per_mac: float) -> bool:
    """Return False if estimates show that a network exceeds a limit of a device."""
    limits = aim.target.arena_limits
    if limits.latency_ms is not None and ms_per_mac * macs(arch) > limits.latency_ms:
        return False
    if limits.flash is not None and weights(arch) + aim.target.overhead.code > limits.flash:
        return False
    return not too_large(replace(arch, anchors=0), aim.target)  # the bound on RAM is for classifiers


def _verified(space: SearchSpace, setting: Setting, aim: Aim, workers: Workers) -> Setting:
    """Plan PLANNED networks of a setting exactly, or until it cannot be feasible; return it with those that fit."""
    assert setting.size is not None
    archs = _sampled(space, setting.size, setting.width, classes=aim.classes, count=PLANNED, seed=0)
    fitting, done = list[int](), 0
    while done < PLANNED and done - len(fitting) <= (1 - aim.share) * PLANNED + 1e-9:
        planned = workers.each(quick_costs, [(aim.target, arch) for arch in archs[done : done + AT_A_TIME]])
        fitting += [cost.macs for cost in planned if cost is not None and cost.fit]
        done += len(planned)
    return replace(setting, macs=tuple(sorted(fitting)), samples=done)


def check_share(share: float) -> None:
    """Raise CompileError unless 0 < `share` <= 1."""
    if not 0 < share <= 1:
        why = f"a share of {share:g} of the networks is out of range"
        raise CompileError(why, f"give more than 0 and at most 1: {FEASIBLE:g} is usual")


def best_setting(settings: Sequence[Setting], by: By = "p80", share: float = FEASIBLE) -> Setting | None:
    """Return the feasible setting whose fitting networks have the most multiply-accumulates, or None if no setting is feasible.

    A setting is feasible if at least the `share` of its networks fits. `by` is the mean of MACs or the 80th percentile. Break
    ties by order.
    """
    feasible = [setting for setting in settings if setting.share >= share]
    return max(feasible, key=lambda setting: setting.p80 if by == "p80" else setting.mean, default=None)


def most_feasible(settings: Sequence[Setting]) -> Setting:
    """Return the setting with the largest share of fitting networks; the first of equal ones wins."""
    return max(settings, key=lambda setting: setting.share)


def limits_for_share(
    needs: Sequence[Mapping[str, float]], limits: Mapping[str, float], share: float = FEASIBLE
) -> dict[str, float]:
    """Return the limits by name, raised so that enough of the networks described by `needs` fit.

    `needs` has for each network the amount of each limit. Limits are raised for the networks that exceed them least, by their
    largest ratio of need to limit, until the `share` fits.
    """
    by_excess = sorted(needs, key=lambda need: max(need[name] / max(1, limit) for name, limit in limits.items()))
    fitting = by_excess[: math.ceil(share * len(needs) - 1e-9)]  # 0.07 * 100 is a little more than 7
    return {name: max(limit, *(need[name] for need in fitting)) for name, limit in limits.items()}


def least_ram(arch: Arch, limits: StageLimits) -> int:
    """Return the smallest RAM limit in bytes with which a network fits; Flash is ignored, the other `limits` count."""
    if limits.schedule == "best":
        return arena(arch, stream_inputs=limits.stream_inputs)
    largest = layer_bytes(arch)
    if limits.schedule == "layer":
        return largest
    return bisect_left(range(largest), True, key=lambda ram: fits_by_patches(arch, replace(limits, ram=ram)))
