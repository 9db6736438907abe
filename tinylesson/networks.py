"""List the built-in networks of the explorer, its presets, and the "memory ladder": networks and machines by memory.

Weights are random, since RAM and time do not depend on them. `python -m tinylesson.networks NAME RESOLUTION WIDTH FILE` writes
a network as a .tflite file.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tinynas.arch import Arch, Block, blocks, convolution, layers, mobilenet_v2, rounded
from tinynas.network import GraphBuilder, to_graph
from tinynas.published.mobile import mcunet_320kb, mcunet_512kb, mnasnet_b1, proxyless_mobile
from tinynas.published.resnet import CLASSES, resnet, resnet_layers
from tinynas.space import MOBILE, arch_of, sample
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, verify
from tinyweave.ops.window import ChainLayer
from tinyweave.support.files import write_file

from .papers.chain import square

IMAGENET = 1000  # classes
BOXES = 3 * (4 + 1 + 1)  # channels of a detector's head: 3 anchors, each with 4 for the box, 1 for the object, 1 per class
FIVE_LAYERS = ((1, 16, 2), (16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2))  # channels in and out, stride
Blocks = tuple[list[Block], int | None]  # blocks, and number of classes (None without a classifier)


class BuiltIn(NamedTuple):
    """A built-in network. Its functions take a resolution in pixels and a width (channel multiplier).

    `blocks` returns the blocks and the number of classes or None; it is None if the network is no chain, and then `layers`
    returns the convolutions, `graph` the graph, and `classes` is their number (0 without a classifier).
    """

    title: str
    resolution: int
    width: float
    blocks: Callable[[int, float], Blocks] | None = None
    layers: Callable[[int, float], list[ChainLayer]] | None = None
    graph: Callable[[int, float], Graph] | None = None
    classes: int = 0


class LadderNetwork(NamedTuple):
    """A network of the "memory ladder"; `printed` are RAM and weights of the MCUNet thesis in int8 (float32 / 4), or None."""

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


class TwoScales(NamedTuple):
    """A detector that finds objects in two maps: a fine map at 1/16 of the image's sides, and a coarse map at 1/32.

    The coarse map is reduced to the channels of the fine map, enlarged, and concatenated with it. `heads` are 1x1 convolutions:
    head of the coarse map, reduction of the coarse map, head of the fine map.
    """

    fine: list[Block]
    coarse: list[Block]
    heads: tuple[ChainLayer, ChainLayer, ChainLayer]


def two_scales(side: int, width: float) -> TwoScales:
    """Return a detector of two scales on MobileNetV2 without its last convolution, for images with `side` rows and columns."""
    trunk = blocks(replace(mobilenet_v2(side, width, 0), last=0))
    rows = trunk[-1].layers[-1].h_out  # of the coarse map
    at = next(index for index, block in enumerate(trunk) if block.layers[-1].h_out == rows)
    fine, coarse = trunk[at - 1].layers[-1], trunk[-1].layers[-1]
    heads = (
        convolution((coarse.h_out, coarse.w_out), coarse.c_out, BOXES),
        convolution((coarse.h_out, coarse.w_out), coarse.c_out, fine.c_out),
        convolution((fine.h_out, fine.w_out), 2 * fine.c_out, BOXES),
    )
    return TwoScales(trunk[:at], trunk[at:], heads)


def _two_scales_layers(side: int, width: float) -> list[ChainLayer]:
    """Return all convolutions of the detector that `two_scales` returns, in one list."""
    fine, coarse, heads = two_scales(side, width)
    return [*layers([*fine, *coarse]), *heads]


def _two_scales_graph(side: int, width: float) -> Graph:
    """Return `two_scales` as an int8 graph with random weights; its outputs are the heads of the coarse and of the fine map."""
    first, second, (coarse_head, reduction, fine_head) = two_scales(side, width)
    g = GraphBuilder((1, side, side, 3), 0)
    fine = g.blocks("image", first)
    coarse = g.blocks(fine, second)
    small = g.layer(coarse, reduction, "none")
    g.tensors[small] = replace(g.tensors[small], quant=g.tensors[fine].quant)  # a concatenation needs equal quantisations
    shape, quant = g.tensors[fine].shape, g.tensors[fine].quant
    size = g.constant("size", np.array(shape[1:3], np.int32))
    nearest = {"align_corners": False, "half_pixel_centers": False}
    large = g.op("resize_nearest_neighbor", (small, size), shape, quant, **nearest)
    both = g.op("concatenation", (fine, large), (*shape[:3], 2 * shape[3]), quant, axis=3, activation="none")
    heads = g.layer(coarse, coarse_head, "none"), g.layer(both, fine_head, "none")
    return verify(Graph("two_scales", g.tensors, tuple(g.ops), ("image",), heads))


NETWORKS = {
    "five_layers": BuiltIn("The lecture's five layers", 96, 1.0, five_layers),
    "mobilenet_v2": BuiltIn("MobileNetV2", 224, 1.0, _blocks_of(lambda side, width: mobilenet_v2(side, width, IMAGENET))),
    "proxyless": BuiltIn("ProxylessNAS, for phones", 176, 0.3, _blocks_of(proxyless_mobile)),
    "mnasnet": BuiltIn("MnasNet-B1", 96, 0.35, _blocks_of(mnasnet_b1)),
    "mcunet_320kb": BuiltIn("MCUNet, for 320 kB", 176, 1.0, _blocks_of(mcunet_320kb)),
    "mcunet_512kb": BuiltIn("MCUNet, for 512 kB", 160, 1.0, _blocks_of(mcunet_512kb)),
    "tinynas": BuiltIn("A network of TinyNAS' mobile space", 144, 0.5, _blocks_of(_of_space)),
    "two_scales": BuiltIn("A detector of two scales", 160, 0.35, layers=_two_scales_layers, graph=_two_scales_graph),
} | {
    f"resnet{depth}": BuiltIn(
        f"ResNet-{depth}", 224, 1.0, layers=partial(resnet_layers, depth), graph=partial(resnet, depth), classes=CLASSES
    )
    for depth in (18, 50)
}
RESOLUTIONS = (32, 256)  # smallest and largest side of the image, in steps of 16
WIDTHS = (0.1, 1.5)  # smallest and largest channel multiplier


class Preset(NamedTuple):
    """A setting of the explorer that a button of the page chooses.

    `grid` is the number of patches along a side of the image; 0 lets the planner choose. `ram` is the SRAM budget in KiB.
    `says` is what MIT's lecture on MCUNet says of this setting, and what to look at.
    """

    title: str
    network: str
    resolution: int
    width: float
    schedule: str
    grid: int
    ram: int
    says: str


PRESETS = (
    Preset("MobileNetV2: 224 px", "mobilenet_v2", 224, 1.0, "layer", 0, 256,
        "The lecture: 1,372 KB of peak SRAM, 5.4 times 256 KB. Its formula gives these 1,372 KiB. The plan layer by layer "
        "needs more, because no depthwise layer of it writes over its input."),
    Preset("MCUNet: 128 px, half the width", "mobilenet_v2", 128, 0.5, "layer", 0, 256,
        "The lecture: about 113 KB, fits with room to spare. Its own formula gives 224 KiB: it fits, with little room."),
    Preset("MCUNetV2: 144 px, 2 x 2 patches", "mobilenet_v2", 144, 0.5, "patch", 2, 256,
        "The lecture: about 30 KB, 8.6 times less than 256 KB. Layer by layer this network needs over 256 KiB. In 2 x 2 "
        "patches it fits, with more than 30 KB: the rule divides the peak alone; layers behind the patches need RAM too."),
    Preset("The same by the best plan", "mobilenet_v2", 144, 0.5, "best", 0, 256,
        "Not in the lecture: the same network row by row, without recomputation. If also its input is streamed by rows, it "
        "needs 35 KiB, about what the lecture says of patches."),
    Preset("The five layers", "five_layers", 96, 1.0, "layer", 0, 256, "The lecture: 108 KB, by two layers alike."),
    Preset("A detector of two scales", "two_scales", 160, 0.35, "best", 0, 256,
        "Not in the lecture: two heads read two maps. The fine map must wait until the coarse map is computed from it."),
)  # fmt: skip


class LadderMachine(NamedTuple):
    """A machine of the "memory ladder", with bytes of `ram`, least and most of `storage`, and what the source says."""

    name: str
    ram: float
    storage: tuple[float, float]
    says: tuple[str, str]
    source: str


THESIS = "MCUNet thesis, table 1.1"
LADDER = (
    LadderMachine("NVIDIA V100, cloud", 16e9, (1e12, 1e15), ("16 GB", "TB to PB"), THESIS),
    LadderMachine("iPhone 11, phone", 4e9, (64e9, 64e9), ("4 GB", ">64 GB"), THESIS),
    LadderMachine("STM32F746", 320 << 10, (1 << 20, 1 << 20), ("320 kB", "1 MB"), THESIS),
    LadderMachine("STM32F412", 256 << 10, (1 << 20, 1 << 20), ("256 kB", "1 MB"), "MCUNet thesis, table 5.3"),
    LadderMachine("Arduino Nano 33 BLE Sense", 256 << 10, (1 << 20, 1 << 20), ("256 KB", "1 MB"), "the lecture, chapter 0"),
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
    """Return the blocks and the number of classes (None without a classifier); None for a network that is no chain."""
    make = NETWORKS[name].blocks
    return make(resolution, width) if make else None


def layers_of(name: str, resolution: int, width: float) -> tuple[list[ChainLayer], int]:
    """Return the convolutions of a network, and its number of classes (0 without a classifier)."""
    found, built = blocks_of(name, resolution, width), NETWORKS[name]
    if found:
        return layers(found[0]), found[1] or 0
    assert built.layers
    return built.layers(resolution, width), built.classes


def graph_of(name: str, resolution: int, width: float) -> Graph:
    """Return a network as an int8 graph with random weights."""
    found, built = blocks_of(name, resolution, width), NETWORKS[name]
    if found:
        return to_graph(name, *found)
    assert built.graph
    return built.graph(resolution, width)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a built-in network into a .tflite file, as the command-line arguments say, and return exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m tinylesson.networks", description="Write a network as a .tflite file.")
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
