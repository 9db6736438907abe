"""Random networks over windows of frames for tests of streaming in time, small enough for numpy to run hundreds."""

from __future__ import annotations

import random
from math import prod

import numpy as np
from cases.tiny import activation, constant, graph

from tinyweave.ir import Graph, Op, Tensor
from tinyweave.ops.window import output_size, same_padding

Shape = tuple[int, ...]


class Frames:
    """A network under construction; methods that add layers take and return tensor names."""

    def __init__(self, seed: int, shape: Shape, *, dtype: str = "int8", name: str = "frames") -> None:
        self.rng, self.name = np.random.default_rng(seed), name
        self.tensors: list[Tensor] = [activation("frames", shape, 0.05, -3, dtype)]
        self.ops: list[Op] = []

    def shape(self, name: str) -> Shape:
        return next(tensor.shape for tensor in self.tensors if tensor.name == name)

    def op(self, kind: str, inputs: tuple[str | None, ...], shape: Shape, scale: float = 0.05, **attrs: object) -> str:
        """Add an op; those that copy values keep the quantisation of their input."""
        name = f"{kind}_{len(self.ops)}"
        self.tensors.append(activation(name, shape, scale, -128 if kind == "softmax" else -3))
        self.ops.append(Op(name, kind, inputs, (name,), attrs))
        return name

    def constant(self, data: np.ndarray, scales: tuple[float, ...] = ()) -> str:
        name = f"constant_{len(self.tensors)}"
        self.tensors.append(constant(name, data, scales))
        return name

    def windowed(
        self,
        kind: str,
        x: str,
        kernel: Shape,
        stride: Shape = (1, 1),
        *,
        padding: str = "valid",
        channels: int = 0,
        dilation: Shape = (1, 1),
    ) -> str:
        """Add a convolution or a pool, VALID or SAME."""
        shape = self.shape(x)
        pads = tuple(
            same_padding(shape[1 + a], kernel[a], stride[a], dilation[a]) if padding == "same" else (0, 0) for a in (0, 1)
        )
        out = [output_size(shape[1 + a], kernel[a], stride[a], dilation[a], pads[a]) for a in (0, 1)]
        attrs: dict[str, object] = {"stride": stride, "padding": pads}
        if "pool" in kind:
            return self.op(kind, (x,), (1, *out, shape[3]), kernel=kernel, activation="none", **attrs)
        channels = channels if kind == "conv_2d" else shape[3]
        filters = (channels, *kernel, shape[3]) if kind == "conv_2d" else (1, *kernel, channels)
        taps = prod(filters) // channels
        weights = self.constant(self.rng.integers(-127, 128, filters).astype(np.int8), (1 / 64 / taps**0.5,))
        bias = self.constant(self.rng.integers(-2000, 2000, channels).astype(np.int32), (0.05 / 64 / taps**0.5,))
        return self.op(kind, (x, weights, bias), (1, *out, channels), activation="relu", dilation=dilation, **attrs)

    def dense(self, x: str, units: int) -> str:
        """Add a dense layer on a whole map."""
        count = prod(self.shape(x))
        weights = self.constant(self.rng.integers(-127, 128, (units, count)).astype(np.int8), (1 / 64 / count**0.5,))
        return self.op("fully_connected", (x, weights, None), (1, units), activation="none", keep_num_dims=False)

    def graph(self, *outputs: str) -> Graph:
        used = {name for op in self.ops for name in (*op.inputs, *op.outputs)} | {"frames"}
        return graph(self.name, [t for t in self.tensors if t.name in used], self.ops, ("frames",), outputs)


def wake_word(*, dtype: str = "int8") -> Graph:
    """Return a network of VALID windows with stride 1 in time, like MLPerf Tiny's wake word; a step needs 10 % of the MACs."""
    net = Frames(0, (1, 16, 1, 8), dtype=dtype, name="wake")
    x = "frames"
    if dtype == "float32":
        x = net.op("quantize", (x,), (1, 16, 1, 8))
    for height in (3, 5, 10):
        x = net.windowed("depthwise_conv_2d", x, (height, 1))
        x = net.windowed("conv_2d", x, (1, 1), channels=12)
    return net.graph(net.op("softmax", (net.dense(x, 3),), (1, 3), 1 / 256, beta=1.0))


def keywords() -> Graph:
    """Return a network with SAME padding and stride 2 in time, then layers with 3 x 3 windows and a mean."""
    net = Frames(1, (1, 41, 6, 1), name="keywords")
    x = net.windowed("conv_2d", "frames", (8, 4), (2, 2), padding="same", channels=6)
    for _ in range(2):
        x = net.windowed("depthwise_conv_2d", x, (3, 3), padding="same")
        x = net.windowed("conv_2d", x, (1, 1), channels=6)
    x = net.windowed("average_pool_2d", x, net.shape(x)[1:3], net.shape(x)[1:3])
    return net.graph(net.dense(x, 3))


def random_network(seed: int) -> Graph:
    """Return a network of layers that step through time, some with branches, and a head."""
    draw = random.Random(seed)
    frames, width, channels = draw.randint(12, 40), draw.choice((1, 1, 4, 5)), draw.choice((1, 3, 4))
    flat = draw.random() < 0.2
    shape: Shape = (1, frames, width, channels)
    net = Frames(seed, (1, prod(shape)) if flat else (1, 1, frames, channels) if draw.random() < 0.2 else shape)
    x = "frames"
    across = not flat and net.shape(x)[1] == 1 and net.shape(x)[2] == frames
    if flat:
        x = net.op("reshape", (x, net.constant(np.array(shape, np.int32))), shape, new_shape=None)
    for _ in range(draw.randint(1, 5)):
        x = _layer(net, draw, x, across=across)
    return net.graph(*_head(net, draw, x, across=across))


def _layer(net: Frames, draw: random.Random, x: str, *, across: bool) -> str:
    """Add a layer, or two layers whose outputs are joined. across: time is the axis of columns."""
    shape, axis = net.shape(x), 2 if across else 1
    rows, width = shape[axis], shape[3 - axis]

    def window(tall: int, wide: int) -> Shape:
        return (wide, tall) if across else (tall, wide)

    kind = draw.choice(("conv_2d", "depthwise_conv_2d", "max_pool_2d", "average_pool_2d", "relu", "branch", "scale", "pad"))
    tall, wide = draw.randint(1, min(rows, 5)), draw.randint(1, min(width, 3))
    stride = window(draw.choice((1, 1, 1, 2, 3)) if rows > 6 else 1, 1)
    padding = draw.choice(("valid", "valid", "same"))
    if kind == "relu":
        return net.op("relu", (x,), shape)
    if kind == "pad":
        amounts = np.array([[0, 0], *([draw.randint(0, 3), draw.randint(0, 3)] for _ in (1, 2)), [0, 0]], np.int32)
        padded = [extent + sum(pair) for extent, pair in zip(shape, amounts.tolist(), strict=True)]
        return net.op("pad", (x, net.constant(amounts)), tuple(padded))
    if kind == "scale":
        factors = net.constant(net.rng.integers(20, 127, (1, 1, 1, shape[3])).astype(np.int8), (1 / 64,))
        return net.op("mul", (x, factors), shape, activation="none")
    if kind == "branch":
        first = net.windowed("depthwise_conv_2d", x, window(tall, wide), padding="same")
        if draw.random() < 0.5:
            return net.op("add", (x, first) if draw.random() < 0.5 else (first, x), shape, activation="none")
        return net.op("concatenation", (first, x), (*shape[:3], 2 * shape[3]), axis=3, activation="none")
    return net.windowed(kind, x, window(tall, wide), stride, padding=padding, channels=draw.choice((2, 4, 5)))


def _head(net: Frames, draw: random.Random, x: str, *, across: bool) -> list[str]:
    shape, outputs = net.shape(x), [x] if draw.random() < 0.2 else []
    match draw.choice(("dense", "mean", "pool", "map", "rows", "gate")):
        case "dense":
            flat = net.op("reshape", (x, net.constant(np.array([1, prod(shape)], np.int32))), (1, prod(shape)), new_shape=None)
            return [*outputs, net.op("softmax", (net.dense(flat, 3),), (1, 3), 1 / 256, beta=1.0)]
        case "mean":
            mean = net.op("mean", (x, net.constant(np.array([1, 2], np.int32))), (1, shape[3]), keep_dims=False)
            return [*outputs, net.dense(mean, 2)]
        case "pool":
            return [*outputs, net.dense(net.windowed("average_pool_2d", x, shape[1:3], shape[1:3]), 2)]
        case "rows":
            axis = 1 if across else 2
            kept = shape[:axis] + shape[axis + 1 :]
            return [*outputs, net.op("mean", (x, net.constant(np.array([axis], np.int32))), kept, keep_dims=False)]
        case "gate":
            mean = net.op("mean", (x, net.constant(np.array([1, 2], np.int32))), (1, 1, 1, shape[3]), keep_dims=True)
            return [*outputs, net.op("mul", (x, mean), shape, activation="none")]
    return [net.op("relu", (x,), shape)]
