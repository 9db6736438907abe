"""List the networks that the explorer has by itself, its presets, and the memory of other machines.

In: a name, a resolution, a width. Out: blocks. Weights are random: RAM and time do not depend on them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from ..nas.arch import Arch, Block, blocks, mobilenet_v2, rounded
from ..nas.published import mnasnet_b1, proxyless_mobile
from ..nas.space import MOBILE, arch_of, sampled
from ..papers.chain import square

IMAGENET = 1000  # classes
FIVE_LAYERS = ((1, 16, 2), (16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2))  # channels in and out, stride


class BuiltIn(NamedTuple):
    """A network. title: for people. arch: returns it at a resolution and a width; None for one that is no Arch."""

    title: str
    arch: Callable[[int, float], Arch] | None
    resolution: int
    width: float


def of_space(side: int, width: float) -> Arch:
    """Return one network of the space, the same at every resolution and width but for its channels."""
    return arch_of(MOBILE, sampled(MOBILE, random.Random(0), (side, side), width), IMAGENET)


NETWORKS = {
    "five_layers": BuiltIn("The lecture's five layers", None, 96, 1.0),
    "mobilenet_v2": BuiltIn("MobileNetV2", lambda side, width: mobilenet_v2(side, width, IMAGENET), 224, 1.0),
    "proxyless": BuiltIn("ProxylessNAS, for phones", proxyless_mobile, 176, 0.3),
    "mnasnet": BuiltIn("MnasNet-B1", mnasnet_b1, 96, 0.35),
    "tinynas": BuiltIn("A network of TinyNAS' mobile space", of_space, 144, 0.5),
}
RESOLUTIONS = (32, 256)  # least and most, in steps of 16
WIDTHS = (0.1, 1.5)
PRESETS = tuple(
    {"title": title, "network": network, "resolution": resolution, "width": width, "schedule": schedule, "ram": ram}  # KiB
    for title, network, resolution, width, schedule, ram in (
        ("MobileNetV2, as for phones", "mobilenet_v2", 224, 1.0, "layer", 320),
        ("MCUNet: made small", "tinynas", 128, 0.5, "layer", 320),
        ("MCUNetV2: by patches", "tinynas", 144, 0.5, "patch", 80),
        ("The same by the best plan", "tinynas", 144, 0.5, "best", 80),
    )
)
# bytes for activations, and for weights; the MCUNet thesis, table 1.1
LADDER = (
    {"name": "cloud: NVIDIA V100", "ram": 16 << 30, "storage": 10**12},
    {"name": "phone: iPhone 11", "ram": 4 << 30, "storage": 64 * 10**9},
    {"name": "microcontroller: STM32F746", "ram": 320 << 10, "storage": 1 << 20},
    {"name": "microcontroller: STM32F412", "ram": 256 << 10, "storage": 1 << 20},
)


def blocks_of(name: str, resolution: int, width: float) -> tuple[list[Block], int | None]:
    """Return the blocks of a network, and its classes, None for no classifier."""
    make = NETWORKS[name].arch
    if make is not None:
        arch = make(resolution, width)
        return blocks(arch), arch.classes
    found: list[Block] = []
    for c_in, c_out, stride in FIVE_LAYERS:
        side, channels = (found[-1].layers[-1].h_out, found[-1].layers[-1].c_out) if found else (resolution, c_in)
        found.append(Block((square(side, channels, rounded(c_out * width), 3, stride),)))
    return found, None
