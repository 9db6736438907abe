"""Networks by hand that a search has to beat, scaled as well as they can be. In: sizes, a Target. Out: Archs that fit.

MobileNetV2 and ProxylessNAS are scaled by width and image together (arXiv 1905.11946), the last convolution too. Both halve the
map five times: of a small image nothing would be left, so they keep as many strides as leave a last map of 4 x 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from math import prod
from typing import Literal

from ..ops.window import Size
from .arch import MOBILENET_V2, Arch, Group, rounded, verify
from .costs import Target, costs, too_large
from .published.mobile import LAST, PROXYLESS_MOBILE, STEM

LEAST = 4  # rows and columns of the last map, of an image that has them
WIDTHS = tuple(step / 20 for step in range(2, 41))
Kept = Literal["early", "late"]  # which strides stay where not all can
KEPT: tuple[Kept, ...] = ("early", "late")
TABLES = {
    "mobilenet_v2": tuple((c, s, (3,) * depth, (expansion,) * depth) for expansion, c, depth, s in MOBILENET_V2),
    "proxyless": PROXYLESS_MOBILE,
}


def scaled(name: str, image: tuple[int, int, int], width: float, classes: int, kept: Kept = "early") -> Arch:
    """Return a network of TABLES for an image [rows, columns, channels], all its channels times the width.

    kept: early strides make maps small at once and need less RAM; late ones compute more and see more.
    """
    table = TABLES[name]
    strides = kept_strides((2, *(stride for _, stride, *_ in table)), min(image[:2]), kept)
    groups = tuple(
        Group(rounded(channels * width), stride, kernels, expansions)
        for (channels, _, kernels, expansions), stride in zip(table, strides[1:], strict=True)
    )
    return verify(Arch(image, rounded(STEM * width), groups, rounded(LAST * width), classes, stem_stride=(strides[0],) * 2))


def kept_strides(strides: Sequence[int], side: int, kept: Kept = "early") -> tuple[int, ...]:
    """Return the strides with some of them 1, so that of `side` rows at least LEAST are left, if there are so many."""
    made = list(strides)
    order = [index for index, stride in enumerate(strides) if stride > 1]
    for index in reversed(order) if kept == "early" else order:
        if -(-side // prod(made)) >= min(LEAST, side):
            break
        made[index] = 1
    return tuple(made)


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
    """Return the scaled networks that fit and of which no other of the same strides has as large an image and as many channels.

    The largest image comes first. fits: asks something else than the planner. Which of them is right most often, training says.
    """
    is_fit = fits or (lambda arch: not too_large(arch, target) and costs(arch, target).fit)
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
    """Return a DS-CNN of so many channels (arXiv 1711.07128) for features [frames, bands], in the form of our blocks.

    Its four separable convolutions are bottlenecks without expansion: a projection has no activation, and its block a residual.
    The first kernel, 10 x 4 there, has odd sides here: 9 x 5.
    """
    group = Group(rounded(channels), 1, (3,) * 4, (1,) * 4)
    return verify(Arch((*size, 1), rounded(channels), (group,), 0, classes, (9, 5), (2, 2 if size[1] >= 24 else 1)))


def best_ds_cnn(size: Size, classes: int, target: Target, *, fits: Callable[[Arch], bool] | None = None) -> list[Arch]:
    """Return the DS-CNN with the most channels that fits, in a list; an empty one where none does."""
    is_fit = fits or (lambda arch: not too_large(arch, target) and costs(arch, target).fit)
    return list(islice(filter(is_fit, (ds_cnn(size, channels, classes) for channels in range(512, 7, -8))), 1))
