"""Graphs of a pad op before a convolution or max pool."""

from __future__ import annotations

import random

import numpy as np

from tests.cases.tiny import activation, constant, graph, ramp
from tinyweave.ir import Graph, Op
from tinyweave.ops.window import Padding, Size, output_size

KINDS = ("conv_2d", "depthwise_conv_2d", "max_pool_2d")


def padded_layer(
    kind: str,
    amounts: Padding,
    size: Size = (8, 8),
    kernel: Size = (3, 3),
    stride: Size = (2, 2),
    *,
    dilation: Size = (1, 1),
) -> Graph:
    """Return a pad of an int8 map with four channels by `amounts`, ((top, bottom), (left, right)), then a layer."""
    padded = [extent + sum(each) for extent, each in zip(size, amounts, strict=True)]
    out = [output_size(padded[axis], kernel[axis], stride[axis], dilation[axis], (0, 0)) for axis in (0, 1)]
    zero = -128 if kind == "max_pool_2d" else 3
    tensors = [
        activation("x", (1, *size, 4), 0.05, zero),
        constant("amounts", np.array(((0, 0), *amounts, (0, 0)), np.int32)),
        activation("padded", (1, *padded, 4), 0.05, zero),
        activation("y", (1, *out, 4), 0.05 if kind == "max_pool_2d" else 0.2, zero),
    ]
    window = {"stride": stride, "padding": ((0, 0), (0, 0)), "activation": "none"}
    pad = Op("pad_0", "pad", ("x", "amounts"), ("padded",))
    if kind == "max_pool_2d":
        layer = Op("layer_1", kind, ("padded",), ("y",), window | {"kernel": kernel})
    else:
        scales = tuple(0.01 * (1 + channel) for channel in range(4))
        shape = (1, *kernel, 4) if kind == "depthwise_conv_2d" else (4, *kernel, 4)
        tensors += [
            constant("weights", ramp(shape), scales, 3 if kind == "depthwise_conv_2d" else 0),
            constant("bias", np.array([100, -50, 0, 7], np.int32), tuple(0.05 * scale for scale in scales), 0),
        ]
        layer = Op("layer_1", kind, ("padded", "weights", "bias"), ("y",), window | {"dilation": dilation})
    return graph("padded", tensors, [pad, layer], ("x",), ("y",))


def random_padded_layer(seed: int) -> Graph:
    """Return a random padded layer, whose padding is often that of Keras or PyTorch."""
    draw = random.Random(seed)
    kind = draw.choice(KINDS)
    while True:
        size = tuple(draw.randint(4, 9) for _ in (0, 1))
        kernel = (draw.choice((1, 2, 3, 3, 5)),) * 2 if draw.random() < 0.7 else (draw.randint(1, 5), draw.randint(1, 5))
        stride = (draw.choice((1, 2, 2, 3)),) * 2 if draw.random() < 0.8 else (draw.randint(1, 3), draw.randint(1, 3))
        dilation = (1, 1) if kind == "max_pool_2d" or max(stride) > 1 or draw.random() < 0.7 else (2, 2)
        half = [extent // 2 * step for extent, step in zip(kernel, dilation, strict=True)]
        usual = (tuple((each, each) for each in half), tuple((0, each) for each in half), ((0, 1), (0, 1)), ((1, 0), (2, 0)))
        amounts = draw.choice(usual)
        fits = all(s + sum(a) >= (k - 1) * d + 1 for s, a, k, d in zip(size, amounts, kernel, dilation, strict=True))
        if fits and any(map(any, amounts)):
            return padded_layer(kind, amounts, (size[0], size[1]), kernel, stride, dilation=dilation)
