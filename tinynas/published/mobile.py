"""Mobile networks of papers as Archs of any image size and width: ProxylessNAS, MnasNet-B1, MCUNet.

MnasNet-B1 has no squeeze and excitation. The width multiplies all channels, including the last convolution's. Sources: arXiv
1812.00332, 1807.11626, 2007.10319, and the authors' code.
"""

from __future__ import annotations

from ..arch import Arch, Group, rounded

CLASSES, STEM, LAST = 1000, 32, 1280
Table = tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...]  # per group: the first four fields of `Group`
PROXYLESS_MOBILE: Table = (
    (16, 1, (3,), (1,)),
    (32, 2, (5, 3), (3, 3)),
    (40, 2, (7, 3, 5, 5), (3, 3, 3, 3)),
    (80, 2, (7, 5, 5, 5), (6, 3, 3, 3)),
    (96, 1, (5, 5, 5, 5), (6, 3, 3, 3)),
    (192, 2, (7, 7, 7, 7), (6, 6, 3, 3)),
    (320, 1, (7,), (6,)),
)
MNASNET_B1: Table = (
    (16, 1, (3,), (1,)),
    (24, 2, (3, 3, 3), (3, 3, 3)),
    (40, 2, (5, 5, 5), (3, 3, 3)),
    (80, 2, (5, 5, 5), (6, 6, 6)),
    (96, 1, (3, 3), (6, 6)),
    (192, 2, (5, 5, 5, 5), (6, 6, 6, 6)),
    (320, 1, (3,), (6,)),
)
MCUNET_320KB: Table = (
    (8, 1, (3,), (1,)),
    (16, 2, (7, 3, 7, 5), (3, 5, 5, 4)),
    (24, 2, (5, 5, 5), (5, 5, 5)),
    (40, 2, (3, 7, 5), (5, 6, 4)),
    (48, 1, (5, 7, 3), (5, 5, 5)),
    (96, 2, (3, 7, 3), (6, 5, 4)),
    (160, 1, (7,), (5,)),
)
MCUNET_512KB: Table = (
    (16, 1, (3,), (1,)),
    (24, 2, (7, 3, 5), (3, 5, 4)),
    (40, 2, (7, 3, 7), (5, 4, 4)),
    (80, 2, (7, 3, 7), (3, 3, 3)),
    (96, 1, (3, 5, 5), (4, 3, 3)),
    (192, 2, (7, 7, 5), (4, 3, 3)),
    (320, 1, (5,), (4,)),
)


def proxyless_mobile(resolution: int = 224, width: float = 1.0) -> Arch:
    """Return ProxylessNAS-Mobile for square images, with all channels multiplied by `width`."""
    return _scaled(PROXYLESS_MOBILE, resolution, width)


def mnasnet_b1(resolution: int = 224, width: float = 1.0) -> Arch:
    """Return MnasNet-B1 for square images, with all channels multiplied by `width`."""
    return _scaled(MNASNET_B1, resolution, width)


def mcunet_320kb(resolution: int = 176, width: float = 1.0) -> Arch:
    """Return the MCUNet for 320 kB of SRAM and 1 MB of Flash, without a 1x1 convolution before the global mean."""
    return _scaled(MCUNET_320KB, resolution, width, stem=16, last=0)


def mcunet_512kb(resolution: int = 160, width: float = 1.0) -> Arch:
    """Return the MCUNet for 512 kB of SRAM and 2 MB of Flash, without a 1x1 convolution before the global mean."""
    return _scaled(MCUNET_512KB, resolution, width, stem=32, last=0)


def _scaled(table: Table, resolution: int, width: float, *, stem: int = STEM, last: int = LAST) -> Arch:
    groups = tuple(
        Group(rounded(channels * width), stride, kernels, expansions) for channels, stride, kernels, expansions in table
    )
    return Arch((resolution, resolution, 3), rounded(stem * width), groups, rounded(last * width) if last else 0, CLASSES)
