"""Random architectures, of TinyNAS' spaces and with all options of blocks, and their graphs after the passes."""

from __future__ import annotations

import random

from tinynas.arch import Arch, Group, blocks, rounded, verify
from tinynas.ram import arena
from tinyweave.ir import Graph

WIDTHS, STRIDES = (24, 40, 80, 96, 192, 320), (2, 2, 2, 1, 2, 1)


def of_space(rng: random.Random, tenths: int | None = None, resolution: int | None = None) -> Arch:
    """Return a sub-network of about 70 ops of a space of TinyNAS (arXiv 2007.10319), by default a random one of its 108."""
    width = (tenths or rng.choice(range(2, 11))) / 10
    groups = [Group(rounded(16 * width), 1, (3,), (1,))]
    for channels, stride in zip(WIDTHS, STRIDES, strict=True):
        depth = 1 if channels == WIDTHS[-1] else rng.choice((2, 3, 4))
        kernels, expansions = rng.choices((3, 5, 7), k=depth), rng.choices((3, 4, 6), k=depth)
        groups.append(Group(rounded(channels * width), stride, tuple(kernels), tuple(expansions)))
    last, classes = rng.choice((0, rounded(1280 * max(width, 1.0)))), rng.choice((0, 2, 10, 100, 1000))
    side = resolution or rng.choice(range(48, 225, 16))
    return verify(Arch((side, side, 3), rounded(32 * width), tuple(groups), last, classes))


def any_arch(rng: random.Random, resolutions: tuple[int, int] = (32, 224), most_groups: int = 5) -> Arch:
    """Return an architecture of up to 5 groups with any kernels, expansions, widths (in steps of 4), last layer, classifier."""
    groups = []
    for _ in range(rng.randint(0, most_groups)):
        depth, stride = rng.randint(1, 3), rng.choice((1, 2))
        kernels = [rng.choice((3, 5, 7) if index < stride - 1 else (1, 3, 3, 5, 7)) for index in range(depth)]
        groups.append(Group(_width(rng), stride, tuple(kernels), tuple(rng.choices((1, 2, 3, 4, 6), k=depth))))
    last, classes = rng.choice((0, _width(rng))), rng.choice((0, rng.randint(1, 300)))
    side, channels = rng.randint(*resolutions), rng.choice((1, 3, 3, 4))
    stem, kernel, stride = _width(rng), rng.choice((1, 3, 3, 5)), rng.choice((1, 2, 2))
    return verify(Arch((side, side, channels), stem, tuple(groups), last, classes, (kernel, kernel), (stride, stride)))


def small_arch(rng: random.Random) -> Arch:
    """Return an architecture for small images, whose last maps are one pixel."""
    return any_arch(rng, (1, 32), 4)


def _width(rng: random.Random) -> int:
    return 4 * rng.randint(1, 12)


def graph_of(arch: Arch) -> Graph:
    """Return the graph after the passes, but with all channels."""
    return arena.graph_of(blocks(arch), arch.classes)
