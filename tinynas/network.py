"""Int8 graphs with random weights, to plan, run and measure architectures before training. In: Blocks. Out: a Graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.ops.window import ChainLayer, Padding, same_padding

from .arch import POOLINGS, Block

RELU6_QUANT = Quant((float(np.float32(6 / 255)),), (-128,))  # of the output of relu6
GATE = 0.2  # typical gate of squeeze and excitation with random weights
RMS = 75  # assumed RMS of inputs and weights, zero points subtracted


class GraphBuilder:
    """A graph under construction, by tensor names; random weights let the outputs of layers spread over the int8 range."""

    def __init__(self, image: tuple[int, ...], seed: int) -> None:
        """Start a graph with one input named "image"; the argument `image` is its shape [1, rows, columns, channels]."""
        self.rng = np.random.default_rng(seed)
        self.tensors = {"image": Tensor("image", image, "int8", Quant((0.03125,), (-3,)))}
        self.ops: list[Op] = []

    def quant(self) -> Quant:
        """Return a random quantisation (scale and zero point) for the output of an op."""
        return Quant((float(np.float32(self.rng.uniform(0.03, 0.06))),), (int(self.rng.integers(-20, 21)),))

    def constant(self, name: str, data: np.ndarray, quant: Quant | None = None) -> str:
        """Add a constant tensor and return its name."""
        self.tensors[name] = Tensor(name, data.shape, str(data.dtype), quant, data, "constant")
        return name

    def op(self, kind: str, inputs: Sequence[str], shape: tuple[int, ...], quant: Quant | None, **attrs: Any) -> str:
        """Add an op with one int8 output of the given shape and quantisation, and return the name of the output."""
        name = f"{kind}_{len(self.ops)}"
        self.tensors[name] = Tensor(name, shape, "int8", quant)
        self.ops.append(Op(name, kind, tuple(inputs), (name,), attrs))
        return name

    def weighted(self, kind: str, x: str, filters: tuple[int, ...], shape: tuple[int, ...], quant: Quant, **attrs: Any) -> str:
        """Add a convolution or dense layer with random bias and filters of the shape `filters`; return its output's name."""
        axis = 3 if kind == "depthwise_conv_2d" else 0
        taps, c_out = int(np.prod(filters)) // filters[axis], filters[axis]
        scales = quant.scale[0] / self.tensors[x].scale / RMS / taps**0.5 * self.rng.uniform(0.5, 1.2, c_out)
        weights = Quant(tuple(float(np.float32(scale)) for scale in scales), (0,) * c_out, axis)
        bias = Quant(tuple(float(np.float32(self.tensors[x].scale * scale)) for scale in scales), (0,) * c_out, 0)
        bias_limit = round(RMS * RMS * taps**0.5 / 2)
        data = self.rng.integers(-127, 128, filters, np.int8)
        total = data.sum(axis=tuple(a for a in range(len(filters)) if a != axis), keepdims=True, dtype=np.int32)
        data = np.where(
            total < 0, -data, data
        )  # if the taps of a small filter sum to less than 0, relu6 would clamp most outputs to 0
        inputs = [
            x,
            self.constant(f"weights_{len(self.ops)}", data, weights),
            self.constant(f"bias_{len(self.ops)}", self.rng.integers(-bias_limit, bias_limit, c_out, np.int32), bias),
        ]
        return self.op(kind, inputs, shape, quant, **attrs)

    def pad(self, x: str, padding: Padding) -> str:
        """Add a pad op with `padding` ((top, bottom), (left, right)), and return the name of the padded map."""
        _, h, w, channels = self.tensors[x].shape
        amounts = np.array([(0, 0), *padding, (0, 0)], np.int32)
        whole = (1, h + sum(padding[0]), w + sum(padding[1]), channels)
        return self.op("pad", (x, self.constant(f"paddings_{len(self.ops)}", amounts)), whole, self.tensors[x].quant)

    def classifier(self, x: str, classes: int, pooling: str = POOLINGS[0], stored: int = 0) -> str:
        """Add a pooling of `arch.POOLINGS` and, unless `classes` is 0, a dense layer (`stored`: as `arch.nearest`)."""
        if pooling == "none":
            x = self.flat(x)
        else:
            quant, pools = self.tensors[x].quant, {"mean": (self.mean,), "max": (self.max,), "both": (self.mean, self.max)}
            read = [pool(x) for pool in pools[pooling]]
            shape = (1, sum(self.tensors[each].elements for each in read))
            x = read[0] if len(read) == 1 else self.op("concatenation", read, shape, quant, axis=1, activation="none")
        outputs = classes * max(1, stored)
        dense = "fully_connected", x, (outputs, self.tensors[x].elements), (1, outputs), self.quant()
        if not stored:
            return self.weighted(*dense, activation="none", keep_num_dims=False) if classes else x
        x = self.weighted(*dense, activation="relu", keep_num_dims=False)
        quant, axes, by_class = self.tensors[x].quant, self.constant("axes", np.array([1], np.int32)), (1, stored, classes)
        x = self.op(
            "reshape", (x, self.constant("by_class", np.array(by_class, np.int32))), by_class, quant, new_shape=by_class
        )
        return self.op("reduce_max", (x, axes), (1, classes), quant, keep_dims=False)

    def mean(self, x: str) -> str:
        """Add the mean of each channel of a map, and return the name of the means [1, channels]."""
        axes = self.constant(f"axes_{len(self.ops)}", np.array([1, 2], np.int32))
        return self.op("mean", (x, axes), (1, self.tensors[x].shape[-1]), self.tensors[x].quant, keep_dims=False)

    def max(self, x: str) -> str:
        """Add the maximum of each channel of a map, and return the name of the maxima [1, channels]."""
        _, h, w, channels = self.tensors[x].shape
        window = {"kernel": (h, w), "stride": (h, w), "padding": ((0, 0), (0, 0)), "activation": "none"}
        return self.flat(self.op("max_pool_2d", (x,), (1, 1, 1, channels), self.tensors[x].quant, **window))

    def flat(self, x: str) -> str:
        """Add a reshape of a tensor to [1, elements], and return the name of the result."""
        shape = (1, self.tensors[x].elements)
        constant = self.constant(f"shape_{len(self.ops)}", np.array(shape, np.int32))
        return self.op("reshape", (x, constant), shape, self.tensors[x].quant, new_shape=shape)

    def squeeze_excite(self, x: str, squeezed: int) -> str:
        """Add squeeze and excitation, whose gate is relu6(x + 3) / 6 in the ops of imported graphs; return the scaled map."""
        shape, quant = self.tensors[x].shape, self.tensors[x].quant
        channels, window = shape[3], {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0))}
        axes = self.constant(f"axes_{len(self.ops)}", np.array([1, 2], np.int32))
        gate = self.op("mean", (x, axes), (1, 1, 1, channels), quant, keep_dims=True)
        for wide, activation in ((squeezed, "relu"), (channels, "relu6")):
            c_in, out_quant = self.tensors[gate].shape[3], RELU6_QUANT if activation == "relu6" else self.quant()
            gate = self.weighted(
                "conv_2d", gate, (wide, 1, 1, c_in), (1, 1, 1, wide), out_quant, activation=activation, **window
            )
        sixth = self.constant(
            f"sixth_{len(self.ops)}", np.array([127], np.int8), Quant((float(np.float32(1 / 6 / 127)),), (0,))
        )
        gate = self.op(
            "mul", (gate, sixth), (1, 1, 1, channels), Quant((float(np.float32(1 / 255)),), (-128,)), activation="none"
        )
        scaled = Quant((float(np.float32(GATE * self.tensors[x].scale)),), (0,))
        return self.op("mul", (x, gate), shape, scaled, activation="none")

    def layer(self, x: str, layer: ChainLayer, activation: str) -> str:
        """Add a convolution with its padding and activation, and return the name of its output."""
        if activation == "hard_swish":
            x = self.layer(x, layer, "none")
            return self.op("hard_swish", (x,), self.tensors[x].shape, self.quant())
        kind = "depthwise_conv_2d" if layer.depthwise else "conv_2d"
        filters = (1, *layer.kernel, layer.c_out) if layer.depthwise else (layer.c_out, *layer.kernel, layer.c_in)
        shape, quant = (1, layer.h_out, layer.w_out, layer.c_out), RELU6_QUANT if activation == "relu6" else self.quant()
        sides = zip((layer.h, layer.w), layer.kernel, layer.stride, strict=True)
        padding = layer.padding
        if padding != tuple(same_padding(*side) for side in sides):  # .tflite supports SAME and VALID padding only
            x, padding = self.pad(x, padding), ((0, 0), (0, 0))
        attrs = {"stride": layer.stride, "dilation": (1, 1), "padding": padding, "activation": activation}
        return self.weighted(kind, x, filters, shape, quant, **attrs)

    def blocks(self, x: str, blocks: Sequence[Block]) -> str:
        """Add blocks in sequence, and return the name of the last output."""
        for block in blocks:
            skip = x
            for index, layer in enumerate(block.layers):
                is_last = index == len(block.layers) - 1
                if is_last and block.squeezed:
                    x = self.squeeze_excite(x, block.squeezed)
                x = self.layer(x, layer, "none" if block.linear and is_last else block.activation)
            if block.residual:
                x = self.op("add", (skip, x), self.tensors[x].shape, self.quant(), activation="none")
        return x


def to_graph(
    name: str,
    blocks: Sequence[Block],
    classes: int | None = None,
    seed: int = 0,
    *,
    pooling: str = POOLINGS[0],
    image: tuple[int, int, int] | None = None,
    stored: int = 0,
) -> Graph:
    """Return an int8 graph of blocks with random weights.

    If `classes` is None, the graph ends with the last block; 0 leaves out only the dense classifier after the `pooling`.
    `image`, [rows, columns, channels], is needed without blocks. `stored` is as for `arch.nearest`.
    """
    if image is None:
        first = blocks[0].layers[0]
        image = first.h, first.w, first.c_in
    g = GraphBuilder((1, *image), seed)
    x = g.blocks("image", blocks)
    if classes is not None:
        x = g.classifier(x, classes, pooling, stored)
    return verify(Graph(name, g.tensors, tuple(g.ops), ("image",), (x,)))
