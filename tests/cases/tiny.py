"""Four tiny networks whose emitted C is kept as golden files: a chain, a residual block, float edges, a stream with state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyweave.ir import Graph, Op, Quant, Tensor, verify


def activation(name: str, shape: tuple[int, ...], scale: float = 0.05, zero_point: int = 0, dtype: str = "int8") -> Tensor:
    quant = None if dtype == "float32" else Quant((float(np.float32(scale)),), (zero_point,))
    return Tensor(name, shape, dtype, quant)


def constant(name: str, data: np.ndarray, scales: tuple[float, ...] = (), axis: int | None = None) -> Tensor:
    quant = Quant(tuple(float(np.float32(s)) for s in scales), (0,) * len(scales), axis) if scales else None
    return Tensor(name, data.shape, str(data.dtype), quant, data, "constant")


def ramp(shape: tuple[int, ...], step: int = 37) -> np.ndarray:
    """Return weights that look random and are the same on every machine."""
    count = int(np.prod(shape))
    return ((np.arange(count) * step + 11) % 255 - 127).astype(np.int8).reshape(shape)


def graph(
    name: str,
    tensors: list[Tensor],
    ops: list[Op],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    *,
    init: tuple[Op, ...] = (),
) -> Graph:
    return verify(Graph(name, {t.name: t for t in tensors}, tuple(ops), inputs, outputs, init))


def chain() -> Graph:
    """Return conv_2d, depthwise_conv_2d, mean, fully_connected, softmax on an 8x8 image."""
    tensors = [
        activation("image", (1, 8, 8, 1), 0.02, -128),
        constant("conv.weights", ramp((4, 3, 3, 1)), (0.01, 0.02, 0.015, 0.005), 0),
        constant("conv.bias", np.array([100, -50, 0, 7], np.int32), (0.0002, 0.0004, 0.0003, 0.0001), 0),
        activation("conv", (1, 4, 4, 4), 0.03, -128),
        constant("dw.weights", ramp((1, 3, 3, 4), 29), (0.02,)),
        activation("dw", (1, 4, 4, 4), 0.04, -10),
        constant("axes", np.array([1, 2], np.int32)),
        activation("features", (1, 4), 0.04, -10),
        constant("fc.weights", ramp((3, 4), 53), (0.01,)),
        constant("fc.bias", np.array([1, 2, -3], np.int32), (0.0004,)),
        activation("logits", (1, 3), 0.1, 5),
        activation("scores", (1, 3), 1 / 256, -128),
    ]
    window = {"dilation": (1, 1), "activation": "relu"}
    ops = [
        Op(
            "conv_2d_0",
            "conv_2d",
            ("image", "conv.weights", "conv.bias"),
            ("conv",),
            window | {"stride": (2, 2), "padding": ((0, 1), (0, 1))},
        ),
        Op(
            "depthwise_conv_2d_1",
            "depthwise_conv_2d",
            ("conv", "dw.weights", None),
            ("dw",),
            window | {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "activation": "relu6"},
        ),
        Op("mean_2", "mean", ("dw", "axes"), ("features",), {"keep_dims": False}),
        Op(
            "fully_connected_3",
            "fully_connected",
            ("features", "fc.weights", "fc.bias"),
            ("logits",),
            {"activation": "none", "keep_num_dims": False},
        ),
        Op("softmax_4", "softmax", ("logits",), ("scores",), {"beta": 1.0}),
    ]
    return graph("chain", tensors, ops, ("image",), ("scores",))


def residual() -> Graph:
    """Return a 1x1 conv_2d added to its input, pooled in two ways and concatenated; it has two inputs and two outputs."""
    tensors = [
        activation("x", (1, 6, 5, 4), 0.05, 3),
        constant("weights", ramp((4, 1, 1, 4)), (0.02,)),
        activation("branch", (1, 6, 5, 4), 0.06, -4),
        activation("sum", (1, 6, 5, 4), 0.08, 1),
        activation("largest", (1, 3, 2, 4), 0.08, 1),
        activation("average", (1, 3, 2, 4), 0.08, 1),
        activation("both", (1, 3, 2, 8), 0.08, 1),
        constant("shape", np.array([1, 48], np.int32)),
        activation("flat", (1, 48), 0.08, 1),
    ]
    pool = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "activation": "none"}
    ops = [
        Op(
            "conv_2d_0",
            "conv_2d",
            ("x", "weights", None),
            ("branch",),
            {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"},
        ),
        Op("add_1", "add", ("x", "branch"), ("sum",), {"activation": "relu"}),
        Op("max_pool_2d_2", "max_pool_2d", ("sum",), ("largest",), pool),
        Op("average_pool_2d_3", "average_pool_2d", ("sum",), ("average",), pool),
        Op("concatenation_4", "concatenation", ("largest", "average"), ("both",), {"axis": 3, "activation": "none"}),
        Op("reshape_5", "reshape", ("both", "shape"), ("flat",), {"new_shape": (1, 48)}),
    ]
    return graph("residual", tensors, ops, ("x",), ("flat", "average"))


def edges() -> Graph:
    """Return quantize, fully_connected, dequantize: float input and output."""
    tensors = [
        activation("x", (1, 5), dtype="float32"),
        activation("q", (1, 5), 0.01, 4),
        constant("weights", ramp((2, 5)), (0.01, 0.02), 0),
        activation("y", (1, 2), 0.05, -7),
        activation("out", (1, 2), dtype="float32"),
    ]
    ops = [
        Op("quantize_0", "quantize", ("x",), ("q",)),
        Op(
            "fully_connected_1",
            "fully_connected",
            ("q", "weights", None),
            ("y",),
            {"activation": "none", "keep_num_dims": False},
        ),
        Op("dequantize_2", "dequantize", ("y",), ("out",)),
    ]
    return graph("edges", tensors, ops, ("x",), ("out",))


def stream() -> Graph:
    """Return a conv_2d on the last three inputs, two of which are kept as state; a second state counts the calls."""
    rows = activation("rows", (1, 3, 1, 4), 0.05, -128)
    kept = replace(rows, name="kept", shape=(1, 2, 1, 4))
    count = activation("count", (1, 1), 1.0, 0)
    tensors = [
        replace(rows, name="x", shape=(1, 1, 1, 4)),
        replace(kept, name="past", role="state"),
        Tensor("past.initial", kept.shape, "int8", kept.quant, np.full(kept.shape, -128, np.int8), "constant"),
        replace(kept, name="before"),
        rows,
        *(constant(name, np.array(values, np.int32)) for name, values in (("begin", (0, 1, 0, 0)), ("end", (1, 3, 1, 4)))),
        constant("steps", np.ones(4, np.int32)),
        kept,
        constant("weights", ramp((2, 3, 1, 4)), (0.02,)),
        activation("y", (1, 1, 1, 2), 0.1, 3),
        replace(count, name="calls", role="state"),
        Tensor("calls.initial", (1, 1), "int8", count.quant, np.full((1, 1), 5, np.int8), "constant"),
        replace(count, name="calls_before"),
        constant("one", np.ones((1, 1), np.int8), (1.0,)),
        count,
    ]
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    window = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
    ops = [
        Op("read_variable_0", "read_variable", ("past",), ("before",)),
        Op("concatenation_1", "concatenation", ("before", "x"), ("rows",), {"axis": 1, "activation": "none"}),
        Op("strided_slice_2", "strided_slice", ("rows", "begin", "end", "steps"), ("kept",), masks | {"offset": False}),
        Op("assign_variable_3", "assign_variable", ("kept",), ("past",)),
        Op("conv_2d_4", "conv_2d", ("rows", "weights", None), ("y",), window),
        Op("read_variable_5", "read_variable", ("calls",), ("calls_before",)),
        Op("add_6", "add", ("calls_before", "one"), ("count",), {"activation": "none"}),
        Op("assign_variable_7", "assign_variable", ("count",), ("calls",)),
    ]
    init = (
        Op("init_past", "assign_variable", ("past.initial",), ("past",)),
        Op("init_calls", "assign_variable", ("calls.initial",), ("calls",)),
    )
    return graph("stream", tensors, ops, ("x",), ("y", "count"), init=init)


NETWORKS = {"chain": chain, "residual": residual, "edges": edges, "stream": stream}
