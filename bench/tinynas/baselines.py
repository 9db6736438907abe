"""Published networks scaled to limits, as baselines for a search. In: image sizes, a test of what fits. Out: Archs that fit.

MobileNetV2 and ProxylessNAS are scaled in width and image size together (compound scaling, arXiv 1905.11946), including the
last convolution. Both have five strides of 2. For small images the last of them become 1, so that the last map is at least
4 x 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tinynas.arch import MOBILENET_V2, Arch, Group, rounded, verify
from tinynas.published.mobile import LAST, PROXYLESS_MOBILE, STEM
from tinyweave.ops.window import Size

MIN_SIDE = 4  # rows and columns of the last map, unless the image is smaller
WIDTHS = tuple(step / 20 for step in range(2, 41))
TABLES = {
    "mobilenet_v2": tuple((c, s, (3,) * depth, (expansion,) * depth) for expansion, c, depth, s in MOBILENET_V2),
    "proxyless": PROXYLESS_MOBILE,
}


def scaled(name: str, image: tuple[int, int, int], width: float, classes: int) -> Arch:
    """Return a network of TABLES for an image [rows, columns, channels], with all channels times the width."""
    table = TABLES[name]
    strides = kept_strides((2, *(stride for _, stride, *_ in table)), min(image[:2]))
    groups = tuple(
        Group(rounded(channels * width), stride, kernels, expansions)
        for (channels, _, kernels, expansions), stride in zip(table, strides[1:], strict=True)
    )
    return verify(Arch(image, rounded(STEM * width), groups, rounded(LAST * width), classes, stem_stride=(strides[0],) * 2))


def kept_strides(strides: Sequence[int], side: int) -> tuple[int, ...]:
    """Replace the last strides by 1 until an image of `side` rows ends with at least min(MIN_SIDE, side) rows."""
    reduced = list(strides)
    for index in reversed([index for index, stride in enumerate(strides) if stride > 1]):
        if -(-side // prod(reduced)) >= min(MIN_SIDE, side):
            break
        reduced[index] = 1
    return tuple(reduced)


def best_scaled(name: str, sizes: Sequence[Size], channels: int, classes: int, fits: Callable[[Arch], bool]) -> list[Arch]:
    """Return the scaled networks that fit and are Pareto-optimal in image size and width, the largest image first."""
    front, widest = list[Arch](), 0.0
    for size in sorted(sizes, reverse=True):
        for width in sorted((each for each in WIDTHS if each > widest), reverse=True):
            if fits(arch := scaled(name, (*size, channels), width, classes)):
                widest = width
                front.append(arch)
                break
    return front
