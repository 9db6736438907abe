"""A network as papers count it: a chain of convolutions. In: figures, or a Graph that is a chain. Out: Layers.

Sizes are (h, w), an element is a byte. What such a chain leaves out, the papers leave out too: skips, pools, the classifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..ir import CompileError, Graph
from ..ops.window import Padding, Size, output_size

KINDS = ("conv_2d", "depthwise_conv_2d")


class Layer(NamedTuple):
    """A convolution of a map of h x w x c_in; depthwise: an output channel reads one input channel."""

    h: int
    w: int
    c_in: int
    c_out: int
    kernel: Size = (1, 1)
    stride: Size = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    depthwise: bool = False

    @property
    def h_out(self) -> int:
        return output_size(self.h, self.kernel[0], self.stride[0], 1, self.padding[0])

    @property
    def w_out(self) -> int:
        return output_size(self.w, self.kernel[1], self.stride[1], 1, self.padding[1])

    @property
    def in_bytes(self) -> int:
        return self.h * self.w * self.c_in

    @property
    def out_bytes(self) -> int:
        return self.h_out * self.w_out * self.c_out

    @property
    def macs_per_pixel(self) -> int:
        """Multiply-accumulates of all channels of one position of the output, padding included."""
        return self.kernel[0] * self.kernel[1] * (1 if self.depthwise else self.c_in) * self.c_out

    @property
    def macs(self) -> int:
        return self.h_out * self.w_out * self.macs_per_pixel


def square(side: int, c_in: int, c_out: int, kernel: int = 1, stride: int = 1, *, depthwise: bool = False) -> Layer:
    """A layer on a square map, padded alike on all sides so that with stride 1 the map keeps its size."""
    pad = kernel // 2, kernel // 2
    return Layer(side, side, c_in, c_out, (kernel, kernel), (stride, stride), (pad, pad), depthwise)


def macs(layers: Sequence[Layer]) -> int:
    """What a layer-by-layer run executes, padding included."""
    return sum(layer.macs for layer in layers)


def layers_of(graph: Graph) -> list[Layer]:
    """The layers of a graph in which each op is a convolution of what the op before it made."""
    found, last = list[Layer](), graph.inputs[0]
    for op in graph.ops:
        if op.kind not in KINDS or op.attrs.get("dilation", (1, 1)) != (1, 1) or op.inputs[0] != last:
            raise CompileError("is no convolution of what the op before it made", "this count knows chains of them only", op=op)
        _, h, w, c_in = graph.input(op).shape
        weights, last = graph.input(op, 1), op.outputs[0]
        depthwise = op.kind == "depthwise_conv_2d"
        if not depthwise and weights.shape[3] != c_in:
            raise CompileError("has groups of channels", "this count knows dense and depthwise convolutions only", op=op)
        c_out, kernel = graph.tensors[last].shape[3], (weights.shape[1], weights.shape[2])
        found.append(Layer(h, w, c_in, c_out, kernel, op.attrs["stride"], op.attrs["padding"], depthwise))
    return found
