"""Networks whose outputs are maps, such as for segmentation."""

from __future__ import annotations

import numpy as np
from cases.tiny import activation, constant, graph, ramp

from tinyweave.ir import Graph, Op

CONV = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
SAME = CONV | {"padding": ((1, 1), (1, 1))}
HALF = CONV | {"stride": (2, 2), "padding": ((0, 1), (0, 1))}


def segmentation(stride: int = 1, head: str = "conv_2d") -> Graph:
    """Return a residual block and a classifier per pixel, whose output is the largest map.

    With a stride, the head (`resize_bilinear` or `transpose_conv`) enlarges the map again.
    """
    side = 12 // stride
    tensors = [
        activation("image", (1, 12, 12, 3), 0.02, -128),
        constant("stem.weights", ramp((4, 3, 3, 3)), (0.004,)),
        activation("stem", (1, side, side, 4), 0.03, -100),
        constant("deep.weights", ramp((1, 3, 3, 4), 29), (0.02,)),
        activation("deep", (1, side, side, 4), 0.04, -10),
        constant("thin.weights", ramp((4, 1, 1, 4), 53), (0.01,)),
        activation("thin", (1, side, side, 4), 0.05, 4),
        activation("sum", (1, side, side, 4), 0.06, 2),
        constant("head.weights", ramp((6, 3, 3, 4), 41), (0.01,)),
    ]
    ops = [
        Op("conv_2d_0", "conv_2d", ("image", "stem.weights", None), ("stem",), SAME if stride == 1 else HALF),
        Op("depthwise_conv_2d_1", "depthwise_conv_2d", ("stem", "deep.weights", None), ("deep",), SAME),
        Op("conv_2d_2", "conv_2d", ("deep", "thin.weights", None), ("thin",), CONV),
        Op("add_3", "add", ("stem", "thin"), ("sum",), {"activation": "relu"}),
    ]
    if head == "transpose_conv":
        tensors += [constant("size", np.array([1, 12, 12, 6], np.int32)), activation("classes", (1, 12, 12, 6), 0.2, 0)]
        attrs = {"stride": (2, 2), "padding": ((0, 1), (0, 1)), "activation": "none"}
        ops.append(Op("transpose_conv_4", head, ("size", "head.weights", "sum", None), ("classes",), attrs))
    elif head == "resize_bilinear":
        tensors += [activation("small", (1, side, side, 6), 0.2, 0), constant("size", np.array([12, 12], np.int32))]
        tensors.append(activation("classes", (1, 12, 12, 6), 0.2, 0))
        ops.append(Op("conv_2d_4", "conv_2d", ("sum", "head.weights", None), ("small",), SAME))
        attrs = {"align_corners": False, "half_pixel_centers": True}
        ops.append(Op("resize_bilinear_5", head, ("small", "size"), ("classes",), attrs))
    else:
        tensors.append(activation("classes", (1, 12, 12, 6), 0.2, 0))
        ops.append(Op("conv_2d_4", head, ("sum", "head.weights", None), ("classes",), SAME))
    return graph("segmentation", tensors, ops, ("image",), ("classes",))


UP = ("resize_nearest_neighbor", "resize_bilinear", "transpose_conv")


def neck(kind: str, side: int = 16, channels: int = 8) -> Graph:
    """Return a network that twice reduces a map, enlarges it by an op kind of UP, and joins it with the skip, as in a U-Net."""
    tensors = [activation("image", (1, side, side, 3), 0.02, -128)]
    ops: list[Op] = []

    def add(kind: str, inputs: tuple[str | None, ...], shape: tuple[int, ...], attrs: dict, quant: tuple[float, int]) -> str:
        name = f"{kind}_{len(ops)}"
        tensors.append(activation(f"{name}_out", shape, *quant))
        ops.append(Op(name, kind, inputs, (f"{name}_out",), attrs))
        return f"{name}_out"

    def conv(x: str, count: int, attrs: dict) -> str:
        _, h, w, depth = next(tensor for tensor in tensors if tensor.name == x).shape
        tensors.append(constant(weights := f"weights_{len(ops)}", ramp((count, 3, 3, depth), 29 + len(ops)), (0.004,)))
        step = attrs["stride"][0]
        return add("conv_2d", (x, weights, None), (1, h // step, w // step, count), attrs, (0.05, -20))

    def larger(x: str) -> str:
        h, quant = next((tensor.shape[1], tensor.quant) for tensor in tensors if tensor.name == x)
        shape, (scale,), (zero,) = (1, 2 * h, 2 * h, channels), quant.scale, quant.zero_point
        if kind == "transpose_conv":
            weights, wanted = f"weights_{len(ops)}", f"shape_{len(ops)}"
            tensors.extend(
                (constant(weights, ramp((channels, 3, 3, channels), 41), (0.01,)), constant(wanted, np.int32(shape)))
            )
            attrs = {"stride": (2, 2), "padding": ((0, 1), (0, 1)), "activation": "none"}
            return add(kind, (wanted, weights, x, None), shape, attrs, (0.1, 3))
        tensors.append(constant(wanted := f"size_{len(ops)}", np.array(shape[1:3], np.int32)))
        attrs = {"align_corners": False, "half_pixel_centers": kind == "resize_bilinear"}
        return add(kind, (x, wanted), shape, attrs, (scale, zero))

    stem = conv("image", channels, SAME)
    small = conv(stem, channels, HALF)
    least = conv(conv(small, channels, HALF), channels, SAME)
    skip = next(tensor.shape for tensor in tensors if tensor.name == small)
    sum_ = add("add", (small, larger(least)), skip, {"activation": "relu"}, (0.1, -30))
    body = conv(larger(conv(sum_, channels, SAME)), channels, SAME)
    sum_ = add("add", (stem, body), (1, side, side, channels), {"activation": "none"}, (0.1, 5))
    out = conv(sum_, 2, SAME)
    return graph("neck", tensors, ops, ("image",), (out,))


def heads() -> Graph:
    """Return a network whose outputs are two maps (one is read), a view of a map, and a vector; only `wide` can be streamed."""
    tensors = [
        activation("image", (1, 9, 10, 4), 0.05, 3),
        constant("weights", ramp((8, 3, 3, 4)), (0.01,)),
        activation("body", (1, 9, 10, 8), 0.06, -4),
        activation("wide", (1, 9, 10, 8), 1 / 256, -128),
        constant("axes", np.array([1, 2], np.int32)),
        activation("vector", (1, 8), 0.06, -4),
        constant("shape", np.array([1, 90, 8], np.int32)),
        activation("flat", (1, 90, 8), 0.06, -4),
    ]
    ops = [
        Op("conv_2d_0", "conv_2d", ("image", "weights", None), ("body",), SAME),
        Op("logistic_1", "logistic", ("body",), ("wide",)),
        Op("mean_2", "mean", ("body", "axes"), ("vector",), {"keep_dims": False}),
        Op("reshape_3", "reshape", ("body", "shape"), ("flat",), {"new_shape": (1, 90, 8)}),
    ]
    return graph("heads", tensors, ops, ("image",), ("body", "wide", "vector", "flat"))


def block(height: int = 9, width: int = 12) -> Graph:
    """Return an inverted bottleneck without its skip, then one more layer."""
    shapes = {"x": 4, "wide": 16, "deep": 16, "thin": 4, "last": 4}
    tensors = [activation(name, (1, height, width, channels)) for name, channels in shapes.items()]
    tensors += [constant("w0", ramp((16, 1, 1, 4)), (0.01,)), constant("w1", ramp((1, 3, 3, 16)), (0.01,))]
    tensors += [constant("w2", ramp((4, 1, 1, 16)), (0.01,))]
    ops = [
        Op("conv_2d_0", "conv_2d", ("x", "w0", None), ("wide",), CONV),
        Op("depthwise_conv_2d_1", "depthwise_conv_2d", ("wide", "w1", None), ("deep",), SAME),
        Op("conv_2d_2", "conv_2d", ("deep", "w2", None), ("thin",), CONV),
        Op("relu_3", "relu", ("thin",), ("last",)),
    ]
    return graph("block", tensors, ops, ("x",), ("last",))
