"""The networks that a search by successive halving trains. In: a SearchSpace, a Target. Out: Archs that fit, with their costs.

`first_network` is what an engineer would try first: a plain network of a family, as wide as fits, such as 3x3 bottlenecks;
`flat_networks` are the first layers of one and a classifier of the whole map. `fitted_networks` need no training.
`sample_fitting` draws others at random and ranks them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from tinyweave.ir import CompileError
from tinyweave.support.progress import Progress

from .arch import Arch, linear, macs, nearest, weights
from .costs import Costs, Target, costs, quick_costs
from .evolution import BATCH, CostFunction, without_plan
from .search_options import FEW_FIT
from .space import (
    PLAIN,
    Choice,
    Family,
    PlainSize,
    SearchSpace,
    arch_of,
    is_of_signals,
    mutate,
    plain_network,
    plain_sizes,
    sample,
    smallest,
)
from .tasks.dataset import Dataset
from .tasks.evaluation.baselines import features_size

MAX_SAMPLES = 5_000  # networks sampled to find candidates that fit
MAX_SAMPLES_IF_INFEASIBLE = 200  # the same if the smallest network does not fit
UNIFORM, MUTATION_RATE = 0.25, 0.2  # share of uniform samples; the others mutate networks that fit, at this rate per gene
NARROWER = (1.0, 15 / 16, 14 / 16)  # factors on the width of the first network, tried until it fits as built
LEAST_SHARE = 0.1  # of a space's networks; if fewer fit, the search says so
FLAT_SIDE = 16  # samples with more rows and more columns are not classified without pooling
SAMPLES_PER_CANDIDATE = 4  # networks that fit, per candidate that is trained
MAX_STORED = 512  # samples of each class in a nearest-neighbour network, so that planning and k-means take seconds

Candidate = tuple[Arch, Costs]


class Sampling(NamedTuple):
    """Settings of `sample_fitting`: how it draws networks, and computes their costs."""

    seed: int = 0
    tries: int = MAX_SAMPLES  # maximum number of networks to draw
    costs_of: CostFunction | None = None  # plans networks, for example in parallel; None: one by one
    is_trainable: Callable[[Arch], bool] = lambda _: True  # whether a network can be trained in the time that there is


DEFAULTS = Sampling()


def always(_: Arch) -> bool:
    """Return True: any network can be trained, or fits."""
    return True


def first_network(
    space: SearchSpace,
    target: Target,
    classes: int,
    is_trainable: Callable[[Arch], bool] = always,
    family: Family = PLAIN,
    *,
    built: Callable[[Arch, Target], Costs] | None = None,
) -> Candidate | None:
    """Return the plain network of a family with the most multiply-accumulates that fits the target, with its costs, or None.

    Plain networks (`space.plain_network`) have 1 to 3 blocks per group; of signals the widest with 1 that fits is taken, if
    there is one. `built` returns the measured costs of a network that fits by estimate, such as `costs.built_costs`; if it
    does not fit as built, narrower ones (NARROWER) are tried. `is_trainable` says whether there is time to train it.
    """
    sizes = {plain_network(space, size, classes, family): size for size in plain_sizes(space)}
    is_wide_first = is_of_signals(space)
    for arch in sorted(sizes, key=lambda arch: (sizes[arch].depth * is_wide_first, -macs(arch), arch.groups[0].width)):
        if is_trainable(arch) and (cost := quick_costs(target, arch)) is not None and cost.fit:
            size = sizes[arch]
            for factor in NARROWER:
                less = plain_network(space, size._replace(width=factor * size.width), classes, family)
                cost = quick_costs(target, less)
                if cost is not None and cost.fit and (built is None or (cost := built(less, target)).fit):
                    return less, cost
    return None


def flat_networks(
    space: SearchSpace, target: Target, classes: int, is_trainable: Callable[[Arch], bool] = always
) -> Iterator[Candidate]:
    """Yield plain networks without pooling that fit the target, and their costs; nothing for detectors and large samples.

    Their classifier knows where in the map a value lies, such as the hour of a day, or a stroke of a digit of 8 x 8 pixels. In
    a photograph the object lies anywhere. They have the stem and 0, 1, ... groups of one bottleneck, each the widest that fits,
    up to width 1. `is_trainable` says whether there is time to train a network.
    """
    is_large = min(max(space.sizes)) > FLAT_SIDE
    for depth in range(0 if space.anchors or is_large else len(space.groups) + 1):
        for width in sorted((width for width in space.widths if width <= 1), reverse=True):
            arch = replace(plain_network(space, PlainSize(width), classes, Family(groups=depth)), last=0, pooling="none")
            if is_trainable(arch) and (cost := quick_costs(target, arch)) is not None and cost.fit:
                yield arch, cost
                break


def fitted_networks(data: Dataset, target: Target) -> list[Candidate]:
    """Return the linear network and the nearest-neighbour network for a data set that fit the target, with their costs.

    The nearest-neighbour network stores all samples but those for test, at most MAX_STORED of each class, or else the largest
    power of two that fits. Images are read as the baselines do (`baselines.features_size`). There are none for detectors, nor
    for sounds or sensor data with more than MAX_FEATURES values, which the baselines average.
    """
    rows, columns, channels = data.values.shape[1:]
    size, classes = features_size(rows, columns, channels), len(data.classes)
    if data.kind == "detection" or (data.kind != "images" and size != (rows, columns)):
        return []
    image = (*size, channels)
    most = min(int(np.bincount(data.part("train", "validation")[1]).max()), MAX_STORED)
    counts = [most, *(1 << power for power in reversed(range((most - 1).bit_length())))]
    kinds = [[linear(image, classes)], [nearest(image, classes, count) for count in counts]]
    found = list[Candidate]()
    for archs in kinds:
        costs_of = ((arch, quick_costs(target, arch)) for arch in archs)
        found += islice(((arch, cost) for arch, cost in costs_of if cost is not None and cost.fit), 1)
    return found


def sample_fitting(
    space: SearchSpace,
    target: Target,
    classes: int,
    count: int,
    sampling: Sampling = DEFAULTS,
    *,
    progress: Progress,
) -> list[Candidate]:
    """Sample networks that fit a target, rank them, and return the best `count` with their costs.

    SAMPLES_PER_CANDIDATE * `count` networks are ranked, or fewer if few fit.

    Raises:
        CompileError: Neither a sampled network nor the smallest network of the space fits.
    """
    costs_of = sampling.costs_of or (lambda archs: list(map(partial(quick_costs, target), archs)))
    rng, fitting, uniform = random.Random(sampling.seed), list[Candidate](), set[Arch]()
    seen, trainable = set[Arch](), set[Arch]()  # `trainable`: networks that fit, without plans, which do not affect training
    parents = [smallest(space)]  # if few networks fit, mutations of a network that fits are more likely to fit
    least = costs(arch_of(space, parents[0], classes), target)
    tries = sampling.tries if least.fit else min(sampling.tries, MAX_SAMPLES_IF_INFEASIBLE)
    wanted, number = SAMPLES_PER_CANDIDATE * count, 0
    while number < tries and len(fitting) < wanted:
        batch = dict[Arch, Choice]()
        for _ in range(BATCH):
            is_uniform = number < UNIFORM * tries
            choice = sample(space, rng) if is_uniform else mutate(space, rng.choice(parents), MUTATION_RATE, rng)
            number += 1
            arch = arch_of(space, choice, classes)
            if arch not in seen and sampling.is_trainable(arch):
                batch[arch] = choice
                if is_uniform:
                    uniform.add(arch)
            seen.add(arch)
        for (arch, choice), cost in zip(batch.items(), costs_of(list(batch)), strict=True):
            if cost is not None and cost.fit and without_plan(arch) not in trainable:
                fitting.append((arch, cost))
                trainable.add(without_plan(arch))
                parents.append(choice)
        progress("sampling networks that fit", min(len(fitting), wanted), wanted)
    fit = len(uniform & {arch for arch, _ in fitting})
    if least.fit and fit < LEAST_SHARE * len(uniform):
        progress(f"{FEW_FIT}: {fit} of {len(uniform)} networks sampled from the space fit", 1, 1)
    if not fitting and least.fit:
        return [(arch_of(space, parents[0], classes), least)]
    if not fitting:
        why = f"none of {len(seen):,} networks sampled from the space '{space.name}' fits"
        raise CompileError(why, f"its smallest network needs {least.needs()}: raise the limits to that, or give another space")
    fitting = fitting[:wanted]
    return [fitting[index] for index in ranked([arch for arch, _ in fitting])[:count]]


def ranked(archs: Sequence[Arch]) -> list[int]:
    """Return the indices of networks, best first: by the sum of their ranks by MACs and by weights (arXiv 2007.10319)."""
    ranks = sum(np.argsort(np.argsort(list(map(size, archs)), kind="stable"), kind="stable") for size in (macs, weights))
    return [int(index) for index in np.argsort(-ranks, kind="stable")]
