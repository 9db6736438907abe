"""Search spaces of architectures, with sampling, mutation and crossover.

In: a SearchSpace, a random number generator. Out: Choices (the genes of networks: image size, width, depth, kernels,
expansions), Archs. A space fixes the groups and strides. Sources: TinyNAS (arXiv 2007.10319) for `mobile`, and for the form of
others; `mobilenet_v3`: layers of arXiv 1905.02244, elastic blocks of once-for-all (arXiv 1908.09791), joint size and width of
MCUNetV2 (arXiv 2110.15352).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product, starmap
from math import prod
from typing import NamedTuple

from tinyweave.ops.window import Size

from .arch import ACTIVATIONS, POOLINGS, Arch, Group, PlanGene, rounded, verify
from .published.redistribute import KERNEL

PATCH_STRIDE = 8  # total stride at which the first blocks, which may run by patches, end
POOLED = ("mean", "max", "both")  # possible poolings in the spaces for small inputs; a supernet holds the last
PLAIN_KERNEL = 3  # of plain networks, as in MobileNetV1


@dataclass(frozen=True)
class ElasticGroup:
    """A group of bottlenecks in a search space: the possible depths, and the possible kernels and expansions of each block."""

    width: int  # output channels at width factor 1
    stride: int  # of the first bottleneck
    depths: tuple[int, ...]  # possible numbers of bottlenecks
    kernels: tuple[int, ...]  # possible kernel sizes of a bottleneck
    expansions: tuple[int, ...]  # possible expansion factors of a bottleneck
    squeeze: int = 0  # as in `Group`
    activation: str = ACTIVATIONS[0]


@dataclass(frozen=True)
class SearchSpace:
    """A set of architectures: the fixed properties of its networks, and the possible values of the others (the genes)."""

    name: str
    sizes: tuple[Size, ...]  # possible rows and columns of the image
    channels: int  # of the image
    widths: tuple[float, ...]  # possible factors on all channels except those of the image
    stem: int  # channels of the first convolution at width 1
    groups: tuple[ElasticGroup, ...]
    last: int = 0  # channels of the last convolution at width 1; narrower only in a joint space; 0 for none
    stem_kernel: Size = (3, 3)
    stem_stride: Size = (2, 2)
    anchors: int = 0  # boxes per cell of a detector; 0 for a classifier
    activation: str = ACTIVATIONS[0]  # of the first and the last convolution
    joint: bool = False  # one supernet holds all widths, as in MCUNetV2; else the width is chosen first, as in TinyNAS
    by_group: bool = False  # each group has a width of its own
    plans: tuple[PlanGene, ...] = ()  # possible plans, from most to least RAM; empty: the planner options of the search
    poolings: tuple[str, ...] = POOLINGS[:1]  # possible poolings (`arch.POOLINGS`): one, or POOLED
    redistributable: bool = False  # the first blocks may have small kernels, see `Choice.redistributed`


class Choice(NamedTuple):
    """A network of a search space, described by the values of its genes (the properties that differ between the networks)."""

    size: Size  # rows and columns of the image
    width: float  # factor on all channels
    blocks: tuple[tuple[tuple[int, int], ...], ...]  # kernel and expansion per bottleneck, per group
    widths: tuple[float, ...] = ()  # per group; empty if all groups have `width`
    plan: PlanGene | None = None  # None: the planner options of the search
    redistributed: bool = False  # whether the first blocks have small kernels, see `redistribute`
    pooling: str = POOLINGS[0]  # between the last map and the classifier


def with_plan_genes(space: SearchSpace, *, stream_inputs: bool, max_mac_overhead: float | None) -> SearchSpace:
    """Return the space with two more genes: the plan of a network, and whether its first blocks have smaller kernels.

    The first blocks are those up to total stride PATCH_STRIDE; their kernels become 1, or KERNEL at stride 2. The plans, from
    most to least RAM, are: `unfused`; the best without recomputation; with `stream_inputs`, the same with a streamed image;
    and, if `max_mac_overhead` is above 1, the best with recomputation.
    """
    plans = [PlanGene("unfused"), PlanGene("best")]
    plans += [PlanGene("best", True)] if stream_inputs else []
    plans += [PlanGene("best", stream_inputs, max_mac_overhead)] if max_mac_overhead and max_mac_overhead > 1 else []
    return replace(space, name=f"{space.name}_planned", plans=tuple(plans), redistributable=True)


def arch_of(space: SearchSpace, choice: Choice, classes: int) -> Arch:
    """Return the architecture of a network, given its search space, its genes, and the number of classes."""
    groups, widths, shrunk = [], choice.widths or (choice.width,) * len(space.groups), max(space.stem_stride)
    for group, width, chosen in zip(space.groups, widths, choice.blocks, strict=True):
        kernels, expansions = zip(*chosen, strict=True)
        if choice.redistributed:
            kernels = tuple(_redistributed(group, kernel, index, shrunk) for index, kernel in enumerate(kernels))
        shrunk *= group.stride
        groups.append(Group(rounded(group.width * width), group.stride, kernels, expansions, group.squeeze, group.activation))
    least = 0.0 if space.joint else 1.0
    stem, last = rounded(space.stem * choice.width), rounded(space.last * max(choice.width, least)) if space.last else 0
    image, windows = (*choice.size, space.channels), (space.stem_kernel, space.stem_stride)
    arch = Arch(
        image, stem, tuple(groups), last, classes, *windows, space.anchors, space.activation, choice.plan, choice.pooling
    )
    return verify(arch)


def _redistributed(group: ElasticGroup, kernel: int, index: int, shrunk: int) -> int:
    """Return the kernel size of a block: 1, or KERNEL at stride 2, up to total stride PATCH_STRIDE, else its own.

    `index` is that of the block in its group, `shrunk` the total stride before the group.
    """
    if shrunk >= PATCH_STRIDE or (index and shrunk * group.stride >= PATCH_STRIDE):
        return kernel
    return 1 if index or group.stride == 1 else KERNEL


def sample(space: SearchSpace, rng: random.Random, size: Size | None = None, width: float | None = None) -> Choice:
    """Return a random network of a space, each gene drawn uniformly, except the image size and the width if they are given."""
    groups = tuple(tuple(_block(group, rng) for _ in range(rng.choice(group.depths))) for group in space.groups)
    choice = Choice(size or rng.choice(space.sizes), width or rng.choice(space.widths), groups)
    if space.by_group:
        choice = choice._replace(widths=tuple(width or rng.choice(space.widths) for _ in space.groups))
    return _redrawn(space, choice, 1, rng)


def _redrawn(space: SearchSpace, choice: Choice, rate: float, rng: random.Random) -> Choice:
    """Redraw the genes `plan`, `redistributed` and `pooling` of a network, each with probability `rate`, if they vary."""
    if space.plans and rng.random() < rate:
        choice = choice._replace(plan=rng.choice(space.plans))
    if space.redistributable and rng.random() < rate:
        choice = choice._replace(redistributed=rng.random() < 1 / 2)
    if len(space.poolings) > 1 and rng.random() < rate:
        choice = choice._replace(pooling=rng.choice(space.poolings))
    return choice


def _extreme(space: SearchSpace, of: Callable[[Sequence[int]], int], size: Size, width: float) -> Choice:
    """Return the largest or smallest (`of` is max or min) blocks, kernels and expansions, with the plan of least RAM."""
    groups = tuple(((of(s.kernels), of(s.expansions)),) * of(s.depths) for s in space.groups)
    widths = (width,) * len(space.groups) if space.by_group else ()
    pooling = space.poolings[-1 if of is max else 0]
    return Choice(size, width, groups, widths, space.plans[-1] if space.plans else None, pooling=pooling)


def largest(space: SearchSpace, size: Size | None = None, width: float | None = None) -> Choice:
    """Return the network with the most blocks, largest kernels and expansions, and by default the largest size and width."""
    return _extreme(space, max, size or max(space.sizes), width or max(space.widths))


def smallest(space: SearchSpace) -> Choice:
    """Return the network with the fewest blocks and the smallest kernels and expansions, at the smallest size and width."""
    return _extreme(space, min, min(space.sizes), min(space.widths))


class Family(NamedTuple):
    """What plain networks of one family share: the networks that an engineer writes first."""

    full: bool = False  # full convolutions; False: bottlenecks of the smallest expansion (1, as in MobileNetV1, for signals)
    kernels: str = "short"  # PLAIN_KERNEL, or the "middle" or the largest ("long") kernels of the space
    pooling: str = POOLINGS[0]
    groups: int | None = None  # the first groups of the space, of one convolution each; None: all groups, of 1 to 3 each


PLAIN = Family()
IMAGE_FAMILIES = PLAIN, Family(True, pooling="both"), Family(pooling="both"), Family(True)  # of maps with several rows
SIGNAL_FAMILIES = (  # of maps with one row
    Family(True, "long", "both"),
    Family(True, "middle", "max", 2),
    PLAIN,
    Family(False, "long", "both"),
    Family(True, "short", "max"),
    Family(True, "long", "max"),
    Family(pooling="both"),
)


def families_of(space: SearchSpace) -> tuple[Family, ...]:
    """Return the families of plain networks of a space, in the order in which to try them: the first trains fast."""
    if space.anchors:
        return (PLAIN,)
    families: tuple[Family, ...] = SIGNAL_FAMILIES if is_of_signals(space) else IMAGE_FAMILIES
    if max(space.stem_stride) == 1:  # on maps as large as the image, bottlenecks train half as fast
        families = (families[1], families[0], *families[2:])
    return tuple(each for each in families if each.pooling in space.poolings)


def is_of_signals(space: SearchSpace) -> bool:
    """Return whether the inputs of a space are signals: maps of one row."""
    return max(rows for rows, _ in space.sizes) == 1


class PlainSize(NamedTuple):
    """The size of a plain network."""

    width: float  # factor on all channels
    depth: int = 1  # convolutions or bottlenecks per group, as far as the space has them
    stem: float = 1.0  # factor on the channels of the first convolution, in addition to `width`


def plain_sizes(space: SearchSpace) -> Iterator[PlainSize]:
    """Return the sizes of plain networks to try.

    Signals are short: most of their networks are deeper than they need to be, and a first convolution as wide as the groups
    takes much of the time. So their widths have steps of a quarter, and the first convolution may have half of its channels.
    """
    widths: tuple[float, ...] = space.widths
    stems: tuple[float, ...] = (1.0,)
    if is_of_signals(space):
        quarters = range(round(4 * min(space.widths)), round(4 * max(space.widths)) + 1)
        widths, stems = tuple(quarter / 4 for quarter in quarters), (1.0, 0.5)
    return starmap(PlainSize, product(widths, (1, 2, 3), stems))


def plain_network(space: SearchSpace, size: PlainSize, classes: int, family: Family = PLAIN) -> Arch:
    """Return the network of a family and size; its groups have one block each if the family has not all groups."""
    arch = arch_of(space, plain(space, size.width, size.depth if family.groups is None else 1, family), classes)
    return replace(arch, stem=rounded(space.stem * size.width * size.stem), groups=arch.groups[: family.groups])


def plain(space: SearchSpace, width: float, depth: int, family: Family = PLAIN) -> Choice:
    """Return the choice of `plain_network` with all groups; it has the largest image."""
    groups, least = [], 1 if is_of_signals(space) else 0
    for each in space.groups:
        sizes = sorted(each.kernels)
        short = PLAIN_KERNEL if PLAIN_KERNEL in sizes else sizes[-1]
        kernels = {"short": short, "middle": sizes[(len(sizes) - 1) // 2], "long": sizes[-1]}
        block = kernels[family.kernels], 0 if family.full else least or min(each.expansions)
        groups.append((block,) * min(max(depth, min(each.depths)), max(each.depths)))
    widths = (width,) * len(space.groups) if space.by_group else ()
    plan = space.plans[-1] if space.plans else None
    return Choice(max(space.sizes), width, tuple(groups), widths, plan, pooling=family.pooling)


def mutate(space: SearchSpace, choice: Choice, rate: float, rng: random.Random) -> Choice:
    """Return a mutated copy of a network: each gene is redrawn, uniformly from its possible values, with probability `rate`."""
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
    return _redrawn(space, choice._replace(size=size, width=width, blocks=tuple(groups), widths=widths), rate, rng)


def crossover(first: Choice, second: Choice, rng: random.Random) -> Choice:
    """Return a child that takes each gene, and each block that both have, from one of two parents at random."""
    groups = []
    for ours, theirs in zip(first.blocks, second.blocks, strict=True):
        shared = [(rng.choice((a[0], b[0])), rng.choice((a[1], b[1]))) for a, b in zip(ours, theirs, strict=False)]
        longer = max(ours, theirs, key=len)
        groups.append(tuple([*shared, *longer[len(shared) :]][: rng.choice((len(ours), len(theirs)))]))
    size, width = rng.choice((first.size, second.size)), rng.choice((first.width, second.width))
    widths = tuple(map(rng.choice, zip(first.widths, second.widths, strict=True)))
    plan = first.plan if first.plan == second.plan else rng.choice((first.plan, second.plan))
    differ = first.redistributed != second.redistributed
    redistributed = rng.choice((first.redistributed, second.redistributed)) if differ else first.redistributed
    pooling = first.pooling if first.pooling == second.pooling else rng.choice((first.pooling, second.pooling))
    return Choice(size, width, tuple(groups), widths, plan, redistributed, pooling)


def networks_in(space: SearchSpace) -> int:
    """Return the number of Choices in a space, the product over all genes; different Choices may give equal networks."""
    plans = max(1, len(space.plans)) * (1 + space.redistributable)
    per_group = (sum((len(s.kernels) * len(s.expansions)) ** depth for depth in s.depths) for s in space.groups)
    widths: int = len(space.widths) ** (1 + len(space.groups) * space.by_group)
    blocks: int = prod(per_group) * len(space.poolings)
    return plans * len(space.sizes) * widths * blocks


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
    """Return a space of networks like MobileNetV3, in which networks of all widths share one supernet.

    They lack its dense layer of 1280 outputs. With `by_group`, each group has its own width.
    """
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
    """Return detectors of the first five groups of `mobile`: a cell per 16 x 16 pixels with `anchors` boxes."""
    return replace(MOBILE, name="detectors", sizes=(size,), channels=channels, groups=MOBILE.groups[:5], anchors=anchors)


def small_images(sides: Sequence[int] = (32,), channels: int = 3) -> SearchSpace:
    """Return a space for square images with the side lengths `sides`, best 24 to 64; the stem has stride 1."""
    return SearchSpace(
        "small_images",
        _squares(sides),
        channels,
        widths=(0.5, 0.75, 1.0, 1.25, 1.5, 2.0),
        stem=16,
        groups=(
            ElasticGroup(24, 2, (1, 2, 3), (3, 5, 7), (1, 2, 3, 4, 6)),
            ElasticGroup(40, 2, (1, 2, 3), (3, 5, 7), (1, 2, 3, 4, 6)),
            ElasticGroup(80, 2, (1, 2, 3), (3, 5), (1, 2, 3, 4, 6)),
        ),
        stem_stride=(1, 1),
        poolings=POOLED,
    )


def keywords(size: Size = (49, 10)) -> SearchSpace:
    """Return a space for sound features: maps of `size` (frames, frequency bands) with one channel."""
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
        poolings=POOLED,
    )


def sensors(window: int, channels: int) -> SearchSpace:
    """Return a space for sensor values: maps [1, window, channels] of one row, with `window` points in time as columns."""
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
        poolings=POOLED,
    )
