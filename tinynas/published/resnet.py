"""ResNets, which Arch cannot describe: their layers, and int8 graphs with random weights. In: depth, image size, width.

Source: arXiv 1512.03385. ResNet-50 is version 1.5, which all published weights use: the 3x3 convolution has the stride.
"""

from __future__ import annotations

from tinyweave.ir import Graph, verify
from tinyweave.ops.window import ChainLayer, output_size

from ..arch import convolution, rounded
from ..network import RELU6_QUANT, GraphBuilder

CLASSES, STEM, EXPANSION = 1000, 64, 4
GROUPS = ((64, 1), (128, 2), (256, 2), (512, 2))  # per group: channels inside a block, stride of the first block
DEPTHS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}  # blocks of each group
POOL_PADDING = (1, 1)


# a residual block: its convolutions, and the projection of its skip connection, None for the identity
Residual = tuple[list[ChainLayer], ChainLayer | None]


def resnet_layers(depth: int, resolution: int = 224, width: float = 1.0) -> list[ChainLayer]:
    """Return all convolutions of ResNet-18 or ResNet-50 (`depth` 18 or 50), with all but the image's channels times `width`."""
    stem, blocks = _blocks(depth, resolution, width)
    return [stem, *(layer for inner, shortcut in blocks for layer in (*inner, shortcut) if layer)]


def resnet(depth: int, resolution: int = 224, width: float = 1.0) -> Graph:
    """Return an int8 graph of ResNet-18 or ResNet-50 (`depth` 18 or 50), with inner channels times `width`."""
    stem, blocks = _blocks(depth, resolution, width)
    g = GraphBuilder((1, resolution, resolution, 3), seed=0)
    x = g.layer("image", stem, "relu")
    first = blocks[0][0][0]
    attrs = {"kernel": (3, 3), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "activation": "none"}
    pad = g.pad(x, (POOL_PADDING, POOL_PADDING))
    x = g.op("max_pool_2d", [pad], (1, first.h, first.w, first.c_in), g.tensors[x].quant, **attrs)
    for inner, shortcut in blocks:
        y = x
        for layer in inner[:-1]:
            y = g.layer(y, layer, "relu")
        y = g.layer(y, inner[-1], "none")
        skip = g.layer(x, shortcut, "none") if shortcut else x
        x = g.op("add", (skip, y), g.tensors[y].shape, RELU6_QUANT, activation="relu")
    x = g.classifier(x, CLASSES)
    return verify(Graph(f"resnet{depth}", g.tensors, tuple(g.ops), ("image",), (x,)))


def _blocks(depth: int, resolution: int, width: float) -> tuple[ChainLayer, list[Residual]]:
    stem = convolution((resolution, resolution), 3, rounded(STEM * width), (7, 7), (2, 2))
    side, channels = output_size(stem.h_out, 3, 2, 1, POOL_PADDING), stem.c_out
    blocks = list[Residual]()
    for (inner, first), count in zip(GROUPS, DEPTHS[depth], strict=True):
        for stride in (first, *(1,) * (count - 1)):
            blocks.append(_block(depth, side, channels, rounded(inner * width), stride))
            last = blocks[-1][0][-1]
            side, channels = last.h_out, last.c_out
    return stem, blocks


def _block(depth: int, side: int, channels: int, inner: int, stride: int) -> Residual:
    """Return a basic block (depth 18) or a bottleneck block (depth 50), and the projection of its skip connection."""
    c_out = inner if depth == 18 else EXPANSION * inner
    shape = [(inner, 3, stride), (c_out, 3, 1)] if depth == 18 else [(inner, 1, 1), (inner, 3, stride), (c_out, 1, 1)]
    layers = list[ChainLayer]()
    at, c_in = side, channels
    for c, kernel, step in shape:
        layers.append(convolution((at, at), c_in, c, (kernel, kernel), (step, step)))
        at, c_in = layers[-1].h_out, c
    is_same = stride == 1 and channels == c_out
    return layers, None if is_same else convolution((side, side), channels, c_out, (1, 1), (stride, stride))
