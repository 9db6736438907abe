"""ResNets, which no Arch describes: their layers, and int8 graphs of random weights. In: a depth, an image, a width.

Sources: arXiv 1512.03385; of 50 layers the version whose stride is in the 3x3 convolution, which everybody publishes.
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir import Graph, verify
from ...ops.window import output_size
from ...papers.chain import ChainLayer
from ..arch import convolution, rounded
from ..network import SIX, Growth

CLASSES, STEM, EXPANSION = 1000, 64, 4
GROUPS = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels inside a block, stride of the first
DEPTHS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}  # blocks of each group
AROUND = (1, 1)  # padding of the pooling


class Residual(NamedTuple):
    """Layers whose output is added to their input; shortcut: what brings the input to the output's shape, None for nothing."""

    layers: tuple[ChainLayer, ...]
    shortcut: ChainLayer | None


def resnet_layers(depth: int, resolution: int = 224, width: float = 1.0) -> list[ChainLayer]:
    """Return all convolutions of ResNet-18 or -50."""
    stem, blocks = _blocks(depth, resolution, width)
    return [stem, *(layer for block in blocks for layer in (*block.layers, *filter(None, (block.shortcut,))))]


def resnet(depth: int, resolution: int = 224, width: float = 1.0) -> Graph:
    """Return ResNet-18 or -50."""
    stem, blocks = _blocks(depth, resolution, width)
    g = Growth((1, resolution, resolution, 3), seed=0)
    x = g.layer("image", stem, "relu")
    first = blocks[0].layers[0]
    attrs = {"kernel": (3, 3), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "activation": "none"}
    padded = g.padded(x, (AROUND, AROUND))
    x = g.op("max_pool_2d", [padded], (1, first.h, first.w, first.c_in), g.tensors[x].quant, **attrs)
    for *inner, last, shortcut in ((*block.layers, block.shortcut) for block in blocks):
        made = x
        for layer in inner:
            made = g.layer(made, layer, "relu")
        made = g.layer(made, last, "none")
        skip = g.layer(x, shortcut, "none") if shortcut else x
        x = g.op("add", (skip, made), g.tensors[made].shape, SIX, activation="relu")
    x = g.classified(x, CLASSES)
    return verify(Graph(f"resnet{depth}", g.tensors, tuple(g.ops), ("image",), (x,)))


def _blocks(depth: int, resolution: int, width: float) -> tuple[ChainLayer, list[Residual]]:
    """Return the first convolution, and the blocks after the pooling."""
    stem = convolution((resolution, resolution), 3, rounded(STEM * width), (7, 7), (2, 2))
    side, channels = output_size(stem.h_out, 3, 2, 1, AROUND), stem.c_out
    blocks = list[Residual]()
    for (inner, first), count in zip(GROUPS, DEPTHS[depth], strict=True):
        for stride in (first, *(1,) * (count - 1)):
            blocks.append(_block(depth, side, channels, rounded(inner * width), stride))
            side, channels = blocks[-1].layers[-1].h_out, blocks[-1].layers[-1].c_out
    return stem, blocks


def _block(depth: int, side: int, channels: int, inner: int, stride: int) -> Residual:
    """Return two 3x3 convolutions, or in deep networks one between 1x1 ones."""
    c_out = inner if depth == 18 else EXPANSION * inner
    shape = [(inner, 3, stride), (c_out, 3, 1)] if depth == 18 else [(inner, 1, 1), (inner, 3, stride), (c_out, 1, 1)]
    layers = list[ChainLayer]()
    at, c_in = side, channels
    for c, kernel, step in shape:
        layers.append(convolution((at, at), c_in, c, (kernel, kernel), (step, step)))
        at, c_in = layers[-1].h_out, c
    is_same = stride == 1 and channels == c_out
    return Residual(tuple(layers), None if is_same else convolution((side, side), channels, c_out, (1, 1), (stride, stride)))
