"""List the built-in networks of the explorer, its presets, and the "memory ladder": networks compared with machines by memory.

In: a name, an image resolution, a width (channel multiplier). Out: layers, graphs. Weights are random, since RAM and time do
not depend on them. As a program, `python -m tinyweave.explorer.networks NAME RESOLUTION WIDTH FILE` writes a network as a
.tflite file.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..exporters.tflite import to_tflite
from ..files import write_file
from ..ir import CompileError, Graph
from ..nas.arch import Arch, Block, blocks, layers, mobilenet_v2, rounded
from ..nas.network import to_graph
from ..nas.published.mobile import mcunet_320kb, mcunet_512kb, mnasnet_b1, proxyless_mobile
from ..nas.published.resnet import CLASSES, resnet, resnet_layers
from ..nas.space import MOBILE, arch_of, sample
from ..ops.window import ChainLayer
from ..papers.chain import square

IMAGENET = 1000  # classes
FIVE_LAYERS = ((1, 16, 2), (16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2))  # channels in and out, stride
Blocks = tuple[list[Block], int | None]  # blocks, and number of classes (None without a classifier)


class BuiltIn(NamedTuple):
    """A built-in network.

    Attributes:
        title: title on the page.
        resolution: default side of the image in pixels.
        width: default channel multiplier.
        blocks: function of (resolution, width) that returns the blocks, and the number of classes or None; None for a ResNet,
            whose blocks have another type.
        depth: number of layers of a ResNet, such as 18; 0 for other networks.
    """

    title: str
    resolution: int
    width: float
    blocks: Callable[[int, float], Blocks] | None = None
    depth: int = 0


class LadderNetwork(NamedTuple):
    """A network of the memory ladder.

    Attributes:
        title: title on the page.
        network: name in NETWORKS.
        resolution: side of the image in pixels.
        width: channel multiplier.
        printed: bytes of RAM and of int8 weights as printed in the MCUNet thesis; None if it has no figures.
    """

    title: str
    network: str
    resolution: int
    width: float
    printed: tuple[float, float] | None = None


def _blocks_of(arch: Callable[[int, float], Arch]) -> Callable[[int, float], Blocks]:
    """Return a function of (resolution, width) that returns the blocks of the architecture `arch(resolution, width)`."""

    def found(side: int, width: float) -> Blocks:
        made = arch(side, width)
        return blocks(made), made.classes

    return found


def _of_space(side: int, width: float) -> Arch:
    """Return a fixed random network of TinyNAS' mobile space, at this image side and width."""
    return arch_of(MOBILE, sample(MOBILE, random.Random(0), (side, side), width), IMAGENET)


def five_layers(side: int = 96, width: float = 1.0) -> Blocks:
    """Return the example network of the MCUNet lecture: five 3x3 convolutions of a grey image with `side` rows and columns."""
    found: list[Block] = []
    for c_in, c_out, stride in FIVE_LAYERS:
        at, channels = (found[-1].layers[-1].h_out, found[-1].layers[-1].c_out) if found else (side, c_in)
        found.append(Block((square(at, channels, rounded(c_out * width), 3, stride),)))
    return found, None


NETWORKS = {
    "five_layers": BuiltIn("The lecture's five layers", 96, 1.0, five_layers),
    "mobilenet_v2": BuiltIn("MobileNetV2", 224, 1.0, _blocks_of(lambda side, width: mobilenet_v2(side, width, IMAGENET))),
    "proxyless": BuiltIn("ProxylessNAS, for phones", 176, 0.3, _blocks_of(proxyless_mobile)),
    "mnasnet": BuiltIn("MnasNet-B1", 96, 0.35, _blocks_of(mnasnet_b1)),
    "mcunet_320kb": BuiltIn("MCUNet, for 320 kB", 176, 1.0, _blocks_of(mcunet_320kb)),
    "mcunet_512kb": BuiltIn("MCUNet, for 512 kB", 160, 1.0, _blocks_of(mcunet_512kb)),
    "tinynas": BuiltIn("A network of TinyNAS' mobile space", 144, 0.5, _blocks_of(_of_space)),
    "resnet18": BuiltIn("ResNet-18", 224, 1.0, depth=18),
    "resnet50": BuiltIn("ResNet-50", 224, 1.0, depth=50),
}
RESOLUTIONS = (32, 256)  # smallest and largest side of the image, in steps of 16
WIDTHS = (0.1, 1.5)  # smallest and largest channel multiplier
PRESETS = tuple(
    {
        "title": title, "network": network, "resolution": resolution, "width": width, "schedule": schedule, "grid": grid,
        "ram": ram,  # KiB
    }
    for title, network, resolution, width, schedule, grid, ram in (
        ("The lecture's five layers", "five_layers", 96, 1.0, "layer", 0, 64),
        ("MobileNetV2, as for phones", "mobilenet_v2", 224, 1.0, "layer", 0, 320),
        ("MCUNet: made small", "tinynas", 128, 0.5, "layer", 0, 320),
        ("MCUNetV2: by 2 x 2 patches", "tinynas", 144, 0.5, "patch", 2, 160),
        ("The same by the best plan", "tinynas", 144, 0.5, "best", 0, 80),
    )
)  # fmt: skip
# machines with their bytes for activations and for weights, from table 1.1 of the MCUNet thesis
LADDER = (
    {"name": "NVIDIA V100, cloud", "ram": 16 << 30, "storage": 10**12},
    {"name": "iPhone 11, phone", "ram": 4 << 30, "storage": 64 * 10**9},
    {"name": "STM32F746, microcontroller", "ram": 320 << 10, "storage": 1 << 20},
    {"name": "STM32F412, microcontroller", "ram": 256 << 10, "storage": 1 << 20},
)
# networks of table 1.1, whose float32 figures are divided by 4 for int8, and of figure 5-1 of the thesis
RUNGS = (
    LadderNetwork("ResNet-50", "resnet50", 224, 1.0, (7.2e6 / 4, 102e6 / 4)),
    LadderNetwork("ResNet-18", "resnet18", 224, 1.0),
    LadderNetwork("MobileNetV2", "mobilenet_v2", 224, 1.0, (1.7e6, 3.4e6)),
    LadderNetwork("MobileNetV2 x 0.75", "mobilenet_v2", 224, 0.75),
    LadderNetwork("MCUNet, for 512 kB", "mcunet_512kb", 160, 1.0),
)


def blocks_of(name: str, resolution: int, width: float) -> Blocks | None:
    """Return the blocks of a network and its number of classes (None without a classifier).

    For a ResNet the result is None, because its blocks have another type.
    """
    make = NETWORKS[name].blocks
    return make(resolution, width) if make else None


def layers_of(name: str, resolution: int, width: float) -> tuple[list[ChainLayer], int]:
    """Return the convolutions of a network, and its number of classes (0 without a classifier)."""
    found = blocks_of(name, resolution, width)
    if found:
        return layers(found[0]), found[1] or 0
    return resnet_layers(NETWORKS[name].depth, resolution, width), CLASSES


def graph_of(name: str, resolution: int, width: float) -> Graph:
    """Return a network as an int8 graph with random weights."""
    found = blocks_of(name, resolution, width)
    return to_graph(name, *found) if found else resnet(NETWORKS[name].depth, resolution, width)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a built-in network into a .tflite file, as the command-line arguments say, and return exit code 0."""
    parser = argparse.ArgumentParser(
        prog="python -m tinyweave.explorer.networks", description="Write a network as a .tflite file."
    )
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("resolution", type=int, help=f"a side of the image: {RESOLUTIONS[0]} to {RESOLUTIONS[1]}")
    parser.add_argument("width", type=float, help=f"times the channels: {WIDTHS[0]} to {WIDTHS[1]}")
    parser.add_argument("file", type=Path)
    chosen = parser.parse_args(arguments)
    for name, (least, most) in (("resolution", RESOLUTIONS), ("width", WIDTHS)):
        if not least <= getattr(chosen, name) <= most:
            parser.error(f"{name} is to be a number from {least:g} to {most:g}")
    try:
        write_file(chosen.file, to_tflite(graph_of(chosen.network, chosen.resolution, chosen.width)))
    except CompileError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
