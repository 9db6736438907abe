"""Search spaces: which architectures a search may choose from. In: a SearchSpace, a seeded generator. Out: Choices, Archs.

A space fixes the groups and their strides; image, width, depth, kernels and expansions vary.
Sources: TinyNAS (arXiv 2007.10319) for `mobile`; MobileNetV3 (arXiv 1905.02244) with the elastic blocks of once-for-all (arXiv
1908.09791) and the joint image and width of MCUNetV2 (arXiv 2110.15352); the others are of TinyNAS' form, for smaller inputs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from ..ops.window import Size
from .arch import ACTIVATIONS, Arch, Group, PlanGene, rounded, verify

HEAD = 8  # times smaller than the image are the maps with which the head ends
KERNEL = 3  # of a block of the head that has a stride: a smaller window would not see all of its input


@dataclass(frozen=True)
class ElasticGroup:
    """A group of bottlenecks: channels at width 1, stride of the first one, and what each of the rest may be.

    squeeze, activation: as of `arch.Group`.
    """

    width: int
    stride: int
    depths: tuple[int, ...]
    kernels: tuple[int, ...]
    expansions: tuple[int, ...]
    squeeze: int = 0
    activation: str = ACTIVATIONS[0]


@dataclass(frozen=True)
class SearchSpace:
    """sizes: rows and columns that the image may have. widths: factors of all channels but the image's. anchors: of a detector.

    stem, last: channels of the first and last convolution at width 1. The last one is not made narrower than that, but in a
    joint space; 0: none. activation: of both. joint: a supernet holds all widths, as MCUNetV2's; else one, chosen before it is
    trained, as TinyNAS'. by_group: each group has a width of its own, the stem and the last one that of the Choice. plans: how
    networks may be planned, from the one that takes most RAM to the one that takes least; (): as is asked. heads: windows may
    be taken out of the head, the blocks up to maps an 8th of the image.
    """

    name: str
    sizes: tuple[Size, ...]
    channels: int
    widths: tuple[float, ...]
    stem: int
    groups: tuple[ElasticGroup, ...]
    last: int = 0
    stem_kernel: Size = (3, 3)
    stem_stride: Size = (2, 2)
    anchors: int = 0
    activation: str = ACTIVATIONS[0]
    joint: bool = False
    by_group: bool = False
    plans: tuple[PlanGene, ...] = ()
    heads: bool = False


class Choice(NamedTuple):
    """A network of a space. blocks: per group, per bottleneck, its kernel and its expansion. widths: of groups; (): `width`.

    plan: how it is planned, one of the space's. redistributed: in the head a block has kernel 1, or 3 where it has a stride.
    """

    size: Size
    width: float
    blocks: tuple[tuple[tuple[int, int], ...], ...]
    widths: tuple[float, ...] = ()
    plan: PlanGene | None = None
    redistributed: bool = False


def planned(space: SearchSpace, *, stream_inputs: bool, max_mac_overhead: float | None) -> SearchSpace:
    """Return a space in which the plan is searched, too: layer by layer, the best one that computes nothing twice, with the
    image by rows if `stream_inputs` allows it, with work done again if `max_mac_overhead` does; and windows in the head."""
    plans = [PlanGene("unfused"), PlanGene("best")]
    plans += [PlanGene("best", True)] if stream_inputs else []
    plans += [PlanGene("best", stream_inputs, max_mac_overhead)] if max_mac_overhead and max_mac_overhead > 1 else []
    return replace(space, name=f"{space.name}_planned", plans=tuple(plans), heads=True)


def arch_of(space: SearchSpace, choice: Choice, classes: int) -> Arch:
    """Return the architecture of a choice, with a classifier of so many classes."""
    groups, widths, shrunk = [], choice.widths or (choice.width,) * len(space.groups), max(space.stem_stride)
    for group, width, chosen in zip(space.groups, widths, choice.blocks, strict=True):
        kernels, expansions = zip(*chosen, strict=True)
        if choice.redistributed:
            kernels = tuple(_in_head(group, kernel, index, shrunk) for index, kernel in enumerate(kernels))
        shrunk *= group.stride
        groups.append(Group(rounded(group.width * width), group.stride, kernels, expansions, group.squeeze, group.activation))
    least = 0.0 if space.joint else 1.0
    stem, last = rounded(space.stem * choice.width), rounded(space.last * max(choice.width, least)) if space.last else 0
    image, windows = (*choice.size, space.channels), (space.stem_kernel, space.stem_stride)
    return verify(Arch(image, stem, tuple(groups), last, classes, *windows, space.anchors, space.activation, choice.plan))


def _in_head(group: ElasticGroup, kernel: int, index: int, shrunk: int) -> int:
    """Return the kernel of a block where windows were moved out of the head. shrunk: the image's rows per row of the group's
    input."""
    if shrunk >= HEAD or (index and shrunk * group.stride >= HEAD):
        return kernel
    return 1 if index or group.stride == 1 else KERNEL


def sampled(space: SearchSpace, rng: random.Random, size: Size | None = None, width: float | None = None) -> Choice:
    """Return a network drawn uniformly by group and block, of the given image and width, or of any."""
    groups = tuple(tuple(_block(group, rng) for _ in range(rng.choice(group.depths))) for group in space.groups)
    drawn = Choice(size or rng.choice(space.sizes), width or rng.choice(space.widths), groups)
    if space.by_group:
        drawn = drawn._replace(widths=tuple(width or rng.choice(space.widths) for _ in space.groups))
    return _with_plan(space, drawn, 1, rng)


def _with_plan(space: SearchSpace, choice: Choice, rate: float, rng: random.Random) -> Choice:
    """Return a choice whose plan, and whether it is redistributed, are drawn anew with the probability `rate`."""
    if space.plans and rng.random() < rate:
        choice = choice._replace(plan=rng.choice(space.plans))
    if space.heads and rng.random() < rate:
        choice = choice._replace(redistributed=rng.random() < 1 / 2)
    return choice


def _extreme(space: SearchSpace, of: Callable[[Sequence[int]], int], size: Size, width: float) -> Choice:
    """Return a network with the most or the least blocks, kernels and expansions, planned so that it takes least RAM."""
    groups = tuple(((of(s.kernels), of(s.expansions)),) * of(s.depths) for s in space.groups)
    widths = (width,) * len(space.groups) if space.by_group else ()
    return Choice(size, width, groups, widths, space.plans[-1] if space.plans else None)


def largest(space: SearchSpace, size: Size | None = None, width: float | None = None) -> Choice:
    """Return the network with the most of everything."""
    return _extreme(space, max, size or max(space.sizes), width or max(space.widths))


def smallest(space: SearchSpace) -> Choice:
    """Return the network with the least of everything."""
    return _extreme(space, min, min(space.sizes), min(space.widths))


def mutated(space: SearchSpace, choice: Choice, rate: float, rng: random.Random) -> Choice:
    """Return a choice in which each gene is drawn anew with the probability `rate`.

    Genes are the image, the width, per group its depth, its width where it has one, each block's kernel and expansion, and,
    where the space has them, the plan and whether windows are taken out of the head.
    """
    groups = []
    for group, blocks in zip(space.groups, choice.blocks, strict=True):
        depth = rng.choice(group.depths) if rng.random() < rate else len(blocks)
        grown = [*blocks, *(_block(group, rng) for _ in range(depth - len(blocks)))]
        groups.append(
            tuple(
                (
                    rng.choice(group.kernels) if rng.random() < rate else kernel,
                    rng.choice(group.expansions) if rng.random() < rate else expansion,
                )
                for kernel, expansion in grown[:depth]
            )
        )
    size = rng.choice(space.sizes) if rng.random() < rate else choice.size
    width = rng.choice(space.widths) if rng.random() < rate else choice.width
    widths = tuple(rng.choice(space.widths) if rng.random() < rate else own for own in choice.widths)
    return _with_plan(space, choice._replace(size=size, width=width, blocks=tuple(groups), widths=widths), rate, rng)


def crossed(first: Choice, second: Choice, rng: random.Random) -> Choice:
    """Return a child of two choices: each gene is one parent's, where both have it."""
    groups = []
    for ours, theirs in zip(first.blocks, second.blocks, strict=True):
        shared = [(rng.choice((a[0], b[0])), rng.choice((a[1], b[1]))) for a, b in zip(ours, theirs, strict=False)]
        longer = max(ours, theirs, key=len)
        groups.append(tuple([*shared, *longer[len(shared) :]][: rng.choice((len(ours), len(theirs)))]))
    size, width = rng.choice((first.size, second.size)), rng.choice((first.width, second.width))
    widths = tuple(map(rng.choice, zip(first.widths, second.widths, strict=True)))
    plan, redistributed = (
        ours if ours == theirs else rng.choice((ours, theirs))
        for ours, theirs in ((first.plan, second.plan), (first.redistributed, second.redistributed))
    )
    return Choice(size, width, tuple(groups), widths, plan, redistributed)


def networks_in(space: SearchSpace) -> int:
    """Return how many networks a space holds."""
    plans = max(1, len(space.plans)) * (1 + space.heads)
    per_group = (sum((len(s.kernels) * len(s.expansions)) ** depth for depth in s.depths) for s in space.groups)
    return plans * len(space.sizes) * len(space.widths) ** (1 + len(space.groups) * space.by_group) * prod(per_group)


def _block(group: ElasticGroup, rng: random.Random) -> tuple[int, int]:
    return rng.choice(group.kernels), rng.choice(group.expansions)


def _squares(sides: Sequence[int]) -> tuple[Size, ...]:
    return tuple((side, side) for side in sides)


def _mobile_group(width: int, stride: int, squeeze: int = 0, activation: str = ACTIVATIONS[0]) -> ElasticGroup:
    return ElasticGroup(width, stride, (2, 3, 4), (3, 5, 7), (3, 4, 6), squeeze, activation)


MOBILE = SearchSpace(
    "mobile",
    sizes=_squares(range(48, 225, 16)),
    channels=3,
    widths=tuple(tenths / 10 for tenths in range(2, 11)),
    stem=32,
    groups=(
        ElasticGroup(16, 1, (1,), (3,), (1,)),
        *(_mobile_group(*group) for group in ((24, 2), (40, 2), (80, 2), (96, 1), (192, 2))),
        ElasticGroup(320, 1, (1,), (3, 5, 7), (3, 4, 6)),
    ),
)
MOBILE_1280 = replace(MOBILE, name="mobile_1280", last=1280)

V3_SIZES = _squares(range(128, 257, 16))


def mobilenet_v3(sizes: tuple[Size, ...] = V3_SIZES, channels: int = 3, *, by_group: bool = False) -> SearchSpace:
    """Return a space of MobileNetV3-like networks, which a supernet holds with all images and widths; by_group: each group of
    blocks has a width of its own. The dense layer of 1280 behind the mean is left out, as `mobile` leaves out its last 1280."""
    soft, hard = ACTIVATIONS
    return SearchSpace(
        "mobilenet_v3_by_group" if by_group else "mobilenet_v3",
        sizes,
        channels,
        widths=(0.5, 0.75, 1.0),
        stem=16,
        groups=(
            ElasticGroup(16, 1, (1,), (3,), (1,)),
            _mobile_group(24, 2, 0, soft),
            _mobile_group(40, 2, 4, soft),
            _mobile_group(80, 2, 0, hard),
            _mobile_group(112, 1, 4, hard),
            _mobile_group(160, 2, 4, hard),
        ),
        last=960,
        activation=hard,
        joint=True,
        by_group=by_group,
    )


def detectors(size: Size, channels: int = 3, anchors: int = 5) -> SearchSpace:
    """Return a space for heads on a map of a 16th of the image's rows and columns: `mobile` up to there."""
    return replace(MOBILE, name="detectors", sizes=(size,), channels=channels, groups=MOBILE.groups[:5], anchors=anchors)


def small_images(sides: Sequence[int] = (32,), channels: int = 3) -> SearchSpace:
    """Return a space for images of 24 to 64 pixels, which the stem keeps as large as they are."""
    return SearchSpace(
        "small_images",
        _squares(sides),
        channels,
        widths=(0.5, 0.75, 1.0, 1.25, 1.5, 2.0),
        stem=16,
        groups=(
            ElasticGroup(24, 2, (1, 2, 3), (3, 5, 7), (2, 3, 4, 6)),
            ElasticGroup(40, 2, (1, 2, 3), (3, 5, 7), (2, 3, 4, 6)),
            ElasticGroup(80, 2, (1, 2, 3), (3, 5), (2, 3, 4, 6)),
        ),
        stem_stride=(1, 1),
    )


def keywords(size: Size = (49, 10)) -> SearchSpace:
    """Return a space for features of sound: rows are frames, columns are bands."""
    return SearchSpace(
        "keywords",
        (size,),
        1,
        widths=(0.5, 0.75, 1.0, 1.5, 2.0, 2.5),
        stem=24,
        groups=(
            ElasticGroup(24, 2 if size[1] >= 24 else 1, (1, 2), (3, 5, 7), (1, 2, 3)),
            ElasticGroup(32, 2, (1, 2, 3), (3, 5, 7), (2, 3, 4)),
            ElasticGroup(48, 1, (1, 2, 3), (3, 5), (2, 3, 4)),
        ),
        stem_kernel=(5, 5),
        stem_stride=(2, 2 if size[1] >= 24 else 1),
    )


def sensors(window: int, channels: int) -> SearchSpace:
    """Return a space for windows of a sensor's values, as one row."""
    return SearchSpace(
        "sensors",
        ((1, window),),
        channels,
        widths=(0.5, 1.0, 1.5, 2.0, 3.0),
        stem=16,
        groups=(
            ElasticGroup(16, 2, (1, 2), (3, 5, 7, 9), (1, 2, 3)),
            ElasticGroup(24, 2, (1, 2, 3), (3, 5, 7, 9), (2, 3, 4)),
            ElasticGroup(32, 2, (1, 2), (3, 5, 7), (2, 3, 4)),
        ),
        stem_kernel=(1, 5),
    )
