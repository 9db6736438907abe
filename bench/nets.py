"""The four networks of the MCUNet thesis' appendix, in int8 with random weights. In: nothing. Out: graphs by name.

SmallCifar is as the text has it. Of the three for ImageNet it gives the image and the width alone. Here: MobileNetV2 as
published; ProxylessNAS' network for phones; MnasNet-B1, which has no squeeze-and-excitation; all channels times the width,
those of the last convolution too, whose classifier of 1000 classes would not fit the thesis' boards otherwise.
Sources: MCUNet thesis, appendix A; arXiv 1801.04381, 1812.00332, 1807.11626; of the last two the code of their models.
"""

from __future__ import annotations

from dataclasses import replace

from tinylesson.papers.chain import square
from tinynas.arch import Arch, blocks, mobilenet_v2, rounded
from tinynas.network import GraphBuilder, to_graph
from tinynas.published.mobile import LAST, mnasnet_b1, proxyless_mobile
from tinyweave.ir import Graph, verify

CIFAR_CHANNELS, CIFAR_KERNEL, CIFAR_CLASSES = (32, 32, 64), 5, 10


def small_cifar() -> Graph:
    """Three convolutions, each followed by a maximum of 2x2, and a classifier of all that is left."""
    side, c_in = 32, 3
    g, x = GraphBuilder((1, side, side, c_in), seed=0), "image"
    for channels in CIFAR_CHANNELS:
        x = g.layer(x, square(side, c_in, channels, CIFAR_KERNEL), "relu6")
        side, c_in = side // 2, channels
        attrs = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "activation": "none"}
        x = g.op("max_pool_2d", (x,), (1, side, side, channels), g.tensors[x].quant, **attrs)
    attrs = {"activation": "none", "keep_num_dims": False}
    x = g.weighted("fully_connected", x, (CIFAR_CLASSES, side * side * c_in), (1, CIFAR_CLASSES), g.quant(), **attrs)
    return verify(Graph("SmallCifar", g.tensors, tuple(g.ops), ("image",), (x,)))


def mobilenet_v2_scaled(side: int, width: float) -> Graph:
    """MobileNetV2 for square images, with the channels of its last convolution times the width too."""
    return from_arch(f"MobileNetV2-{width}-{side}", replace(mobilenet_v2(side, width), last=rounded(LAST * width)))


def from_arch(name: str, arch: Arch) -> Graph:
    return to_graph(name, blocks(arch), arch.classes)


def appendix() -> dict[str, Graph]:
    archs = {
        "ProxylessNAS-0.3-64": proxyless_mobile(64, 0.3),
        "MnasNet-0.2-96": mnasnet_b1(96, 0.2),
    }
    mobilenet = mobilenet_v2_scaled(64, 0.35)
    others = {name: from_arch(name, arch) for name, arch in archs.items()}
    return {"SmallCifar": small_cifar(), mobilenet.name: mobilenet, **others}
