"""Do the cycle estimates of a Cortex-M55 agree with layers that were timed on a board?

In: a static library of CMSIS-NN v7.0.0 for the Cortex-M55 (--library; the figures in docs/TIME.md are of GCC 12.2, -Ofast) and
its folder Include (--include). Neither is part of this project. Out: for layers of MobileNetV2 with
CMSIS-NN, the instructions and estimated cycles on the emulated core, beside the cycles that a board took. The board had its
maps in SRAM behind a cache and its weights in MRAM; the estimates leave the time of these memories out. Exit code 1: the board
took fewer cycles than the range, or more for a 1x1 convolution, which reads its inputs from the cache.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cmsis_calls import call

from tinyweave.ir import Graph, Op, Quant, Tensor
from tinyweave.simulate import emulated

CORE = "cortex-m55"


class Layer(NamedTuple):
    """A layer that was timed on a board; `filters` is 0 for a 3x3 depthwise convolution."""

    side: int
    channels: int
    filters: int
    stride: int
    cycles: int


# the first layers of torchvision's MobileNetV2 by ExecuTorch 1.1.0 with CMSIS-NN 7.0.0 on the Cortex-M55 HP of an Alif Ensemble
# E8: github.com/pytorch/executorch/issues/17651, comment of 3 March 2026
LAYERS = (
    Layer(112, 32, 0, 1, 13_715_766),
    Layer(112, 32, 16, 1, 4_915_937),
    Layer(112, 16, 96, 1, 24_249_462),
    Layer(112, 96, 0, 2, 10_286_711),
    Layer(56, 96, 24, 1, 2_791_555),
    Layer(56, 24, 144, 1, 10_329_014),
    Layer(56, 144, 0, 1, 15_319_785),
)


def run(layer: Layer, library: Path, include: Path) -> emulated.Inference:
    """Run a layer, its sums scaled by 2^-7, by a call of CMSIS-NN on the emulated core."""
    side, channels, filters = layer.side, layer.channels, layer.filters or layer.channels
    taps, padding = (3, (1, 1)) if layer.filters == 0 else (1, (0, 0))
    shape = (filters, 1, 1, channels) if layer.filters else (1, taps, taps, channels)
    weights = (7 * np.arange(math.prod(shape))).astype(np.int8).reshape(shape)
    tensors = (
        Tensor("x", (1, side, side, channels), "int8", Quant((1.0,), (-128,))),
        Tensor("w", shape, "int8", Quant((1.0,), (0,)), weights, "constant"),
        Tensor("b", (filters,), "int32", None, np.zeros(filters, np.int32), "constant"),
        Tensor("y", (1, side // layer.stride, side // layer.stride, filters), "int8", Quant((128.0,), (-3,))),
    )
    attrs = {"stride": (layer.stride,) * 2, "padding": (padding,) * 2, "activation": "none"}
    op = Op("layer", "conv_2d" if layer.filters else "depthwise_conv_2d", ("x", "w", "b"), ("y",), attrs)
    graph = Graph("layer", {tensor.name: tensor for tensor in tensors}, (op,), ("x",), ("y",))
    sample = (np.arange(tensors[0].elements) * 37 % 251).astype(np.int8)
    return call(graph, CORE, [sample], library, [include])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--library", type=Path, required=True, help="CMSIS-NN v7.0.0 as a static library for the Cortex-M55")
    parser.add_argument("--include", type=Path, required=True, help="the folder Include of CMSIS-NN")
    options = parser.parse_args()
    wrong = 0
    print("| layer | instructions | estimated cycles | range | the board's cycles | estimate / board |")
    print("|---|---:|---:|---|---:|---:|")
    for layer in LAYERS:
        done = run(layer, options.library, options.include)
        low, likely, high = emulated.cycles(CORE, done)[-1, ""]
        wrong += layer.cycles < low or (layer.filters > 0 and layer.cycles > high)
        kind = f"1x1 {layer.channels}->{layer.filters}" if layer.filters else f"depthwise 3x3, {layer.channels} channels"
        cells = (
            f"{kind}, {layer.side}x{layer.side}, stride {layer.stride}",
            f"{done.instructions:,}",
            f"{likely:,}",
            f"{low:,} to {high:,}",
            f"{layer.cycles:,}",
            f"{likely / layer.cycles:.2f}",
        )
        print("| " + " | ".join(cells) + " |", flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
