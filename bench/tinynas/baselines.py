"""Published networks scaled to a device, as baselines for a search. In: sizes, a Target. Out: Archs that fit.

MobileNetV2 and ProxylessNAS are scaled in width and image size together (compound scaling, arXiv 1905.11946), including the
last convolution. Both have five strides of 2. For small images some of them become 1, so that the last map is at least 4 x 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from math import prod
from typing import Literal

from tinynas.arch import MOBILENET_V2, Arch, Group, rounded, verify
from tinynas.costs import Target, quick_costs
from tinynas.published.mobile import LAST, PROXYLESS_MOBILE, STEM
from tinyweave.ops.window import Size

MIN_SIDE = 4  # rows and columns of the last map, unless the image is smaller
WIDTHS = tuple(step / 20 for step in range(2, 41))
Kept = Literal["early", "late"]  # the strides that stay 2 if some become 1
KEPT: tuple[Kept, ...] = ("early", "late")
TABLES = {
    "mobilenet_v2": tuple((c, s, (3,) * depth, (expansion,) * depth) for expansion, c, depth, s in MOBILENET_V2),
    "proxyless": PROXYLESS_MOBILE,
}


def scaled(name: str, image: tuple[int, int, int], width: float, classes: int, kept: Kept = "early") -> Arch:
    """Return a network of TABLES for an image [rows, columns, channels], with all channels times the width.

    `kept` says which strides stay 2 if some become 1: early strides need less RAM, late strides keep more detail and compute
    more.
    """
    table = TABLES[name]
    strides = kept_strides((2, *(stride for _, stride, *_ in table)), min(image[:2]), kept)
    groups = tuple(
        Group(rounded(channels * width), stride, kernels, expansions)
        for (channels, _, kernels, expansions), stride in zip(table, strides[1:], strict=True)
    )
    return verify(Arch(image, rounded(STEM * width), groups, rounded(LAST * width), classes, stem_stride=(strides[0],) * 2))


def kept_strides(strides: Sequence[int], side: int, kept: Kept = "early") -> tuple[int, ...]:
    """Replace strides by 1 until an image of `side` rows ends with at least min(MIN_SIDE, side) rows."""
    reduced = list(strides)
    order = [index for index, stride in enumerate(strides) if stride > 1]
    for index in reversed(order) if kept == "early" else order:
        if -(-side // prod(reduced)) >= min(MIN_SIDE, side):
            break
        reduced[index] = 1
    return tuple(reduced)


def best_scaled(
    name: str,
    sizes: Sequence[Size],
    channels: int,
    classes: int,
    target: Target,
    *,
    widths: Sequence[float] = WIDTHS,
    fits: Callable[[Arch], bool] | None = None,
) -> list[Arch]:
    """Return the scaled networks that fit and are Pareto-optimal in image size and width, the largest image first.

    Networks with other strides are compared separately. `fits` replaces the planner as the test of whether a network fits.
    """
    is_fit = fits or partial(_fits, target)
    front = list[Arch]()
    for kept in KEPT:
        widest = 0.0
        for size in sorted(set(sizes), key=lambda size: (-size[0] * size[1], size)):
            for width in sorted((each for each in widths if each > widest), reverse=True):
                arch = scaled(name, (*size, channels), width, classes, kept)
                if is_fit(arch):
                    widest = width
                    if arch not in front:
                        front.append(arch)
                    break
    return sorted(front, key=lambda arch: -arch.image[0] * arch.image[1])


def ds_cnn(size: Size, channels: int, classes: int) -> Arch:
    """Return a DS-CNN (arXiv 1711.07128) with `channels` channels for sound features of `size` (frames, bands).

    Its four separable convolutions are bottlenecks without expansion: unlike the original, projections have no activation and
    blocks have residuals. The first kernel is 9 x 5 instead of 10 x 4, because kernels of an Arch are odd.
    """
    group = Group(rounded(channels), 1, (3,) * 4, (1,) * 4)
    return verify(Arch((*size, 1), rounded(channels), (group,), 0, classes, (9, 5), (2, 2 if size[1] >= 24 else 1)))


def best_ds_cnn(size: Size, classes: int, target: Target, *, fits: Callable[[Arch], bool] | None = None) -> list[Arch]:
    """Return a list with the widest DS-CNN that fits, or an empty list."""
    is_fit = fits or partial(_fits, target)
    return list(islice(filter(is_fit, (ds_cnn(size, channels, classes) for channels in range(512, 7, -8))), 1))


def _fits(target: Target, arch: Arch) -> bool:
    cost = quick_costs(target, arch)
    return cost is not None and cost.fit
