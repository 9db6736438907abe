"""Networks that others have published, as architectures of any image and width, with random weights to come.

Here: ProxylessNAS' network for phones and MnasNet-B1, which has no squeeze-and-excitation. All channels are multiplied by the
width, those of the last convolution too. MobileNetV2 is in `arch`.
Sources: arXiv 1812.00332, 1807.11626, and the code of their models.
"""

from __future__ import annotations

from .arch import Arch, Group, rounded

CLASSES, STEM, LAST = 1000, 32, 1280
# per group: channels, stride of the first block, kernel and expansion of each block
PROXYLESS_MOBILE = (
    (16, 1, (3,), (1,)),
    (32, 2, (5, 3), (3, 3)),
    (40, 2, (7, 3, 5, 5), (3, 3, 3, 3)),
    (80, 2, (7, 5, 5, 5), (6, 3, 3, 3)),
    (96, 1, (5, 5, 5, 5), (6, 3, 3, 3)),
    (192, 2, (7, 7, 7, 7), (6, 6, 3, 3)),
    (320, 1, (7,), (6,)),
)
MNASNET_B1 = (
    (16, 1, (3,), (1,)),
    (24, 2, (3, 3, 3), (3, 3, 3)),
    (40, 2, (5, 5, 5), (3, 3, 3)),
    (80, 2, (5, 5, 5), (6, 6, 6)),
    (96, 1, (3, 3), (6, 6)),
    (192, 2, (5, 5, 5, 5), (6, 6, 6, 6)),
    (320, 1, (3,), (6,)),
)


def proxyless_mobile(resolution: int = 224, width: float = 1.0) -> Arch:
    """Return ProxylessNAS' network for phones."""
    return _scaled(PROXYLESS_MOBILE, resolution, width)


def mnasnet_b1(resolution: int = 224, width: float = 1.0) -> Arch:
    """Return MnasNet-B1."""
    return _scaled(MNASNET_B1, resolution, width)


def _scaled(table: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...], resolution: int, width: float) -> Arch:
    groups = tuple(Group(rounded(channels * width), *rest) for channels, *rest in table)
    return Arch((resolution, resolution, 3), rounded(STEM * width), groups, rounded(LAST * width), CLASSES)
