"""What ONNX's ops are in TFLite's: OPS has a function per op.

Each function takes a Builder, the op's inputs in their order, None for one left out, and its attributes: a Map for a tensor
that the network computes, an array for a constant. Where all inputs are constant, numpy computes the output (FOLDED). Source:
ONNX operator schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..aten import attention, axes, elementwise
from ..channels_last import Builder, Map
from ..steps import Unsupported, real
from .folded import FOLDED, bounded
from .maps import (
    average,
    average_pool,
    cast,
    clip,
    constant,
    convolution,
    depth_to_space,
    dropout,
    expand,
    flatten,
    gather,
    gemm,
    layer_normalised,
    max_pool,
    normalised,
    over_axes,
    pad,
    plain,
    pool,
    power,
    prelu,
    recurrent,
    reshape,
    rms_normalised,
    shape_of,
    size_of,
    slice_,
    softmax,
    space_to_depth,
    split,
    squeeze,
    tile,
    transpose,
    transposed_convolution,
    unsqueeze,
    variadic,
    whole,
)
from .quantised import QUANTISED
from .resizing import resize

Function = Callable[..., Any]
MAPPED: Mapping[str, Function] = {
    "Add": elementwise.binary("add"),
    "AveragePool": pool(average_pool),
    "BatchNormalization": normalised,
    "Cast": cast,
    "Clip": clip,
    "Concat": lambda b, *parts, axis: axes.concatenation(b, parts, axis),
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "DepthToSpace": depth_to_space,
    "Div": elementwise.division,
    "Dropout": dropout,
    "Expand": expand,
    "Flatten": flatten,
    "GRU": recurrent("gru", (1, 0, 2), ("Sigmoid", "Tanh")),
    "Gather": gather,
    "Elu": lambda b, x, *, alpha=1.0: elementwise.elu(b, x, alpha),
    "Gelu": elementwise.gelu,
    "Gemm": gemm,
    "GlobalAveragePool": whole("mean"),
    "GlobalMaxPool": whole("reduce_max"),
    "HardSigmoid": elementwise.hard_sigmoid,
    "HardSwish": plain(elementwise.unary("hard_swish")),
    "Identity": axes.same,
    "LSTM": recurrent("lstm", (0, 2, 3, 1), ("Sigmoid", "Tanh", "Tanh")),
    "LayerNormalization": layer_normalised,
    "LeakyRelu": lambda b, x, *, alpha=0.01: elementwise.leaky_relu(b, x, alpha),
    "LogSoftmax": softmax("log_softmax"),
    "MatMul": attention.matmul,
    "Max": variadic("maximum"),
    "MaxPool": pool(max_pool),
    "Mean": average,
    "Min": variadic("minimum"),
    "Mul": elementwise.binary("mul"),
    "Neg": lambda b, x: elementwise.binary("mul")(b, x, -1.0),
    "PRelu": prelu,
    "Pad": pad,
    "Pow": power,
    "RMSNormalization": rms_normalised,
    "ReduceMax": over_axes("reduce_max"),
    "ReduceMean": over_axes("mean"),
    "ReduceMin": over_axes("reduce_min"),
    "ReduceSum": over_axes("sum"),
    "Relu": plain(elementwise.unary("relu")),
    "Reshape": reshape,
    "Resize": resize,
    "Sigmoid": plain(elementwise.unary("logistic")),
    "Slice": slice_,
    "Softmax": softmax("softmax"),
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Sub": elementwise.binary("sub"),
    "Sum": variadic("add"),
    "Tanh": plain(elementwise.unary("tanh")),
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
ALWAYS: Mapping[str, Function] = {"Constant": constant, "Shape": shape_of, "Size": size_of}  # known as soon as shapes are
DYNAMIC = "ConvInteger DynamicQuantizeLinear MatMulInteger com.microsoft.DynamicQuantizeMatMul".split()
# what moves the elements of a constant: their scales, too
MOVING = frozenset("Concat Expand Flatten Gather Identity Reshape Slice Squeeze Transpose Unsqueeze".split())


def _function(op: str) -> Function:
    """Return the function of an op: numpy's where all inputs are constant, else that of the network's maps."""

    def apply(b: Builder, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        if op == "Split" and outputs > 1:
            attributes.setdefault("num_outputs", outputs)
        if any(isinstance(each, Map) for each in inputs):
            if op not in MAPPED:
                raise Unsupported("TFLite has no op for it here")
            made = MAPPED[op](b, *inputs, **attributes)
            return made[0] if isinstance(made, list) and outputs == 1 else made
        if op not in FOLDED:
            raise Unsupported("all of its inputs are constant")
        given = [real(each) if isinstance(each, np.ndarray) and op not in MOVING else each for each in inputs]
        made = np.asarray(FOLDED[op](*given, **attributes))
        bounded(made.shape, made.itemsize)
        return made.astype(np.float32) if made.dtype == np.float64 else made

    return apply


def _dynamic(b: Builder, *_: Any, **__: Any) -> Any:
    raise Unsupported("it finds its scales while it runs; quantise the model statically, or give the float one")


OPS: dict[str, Function] = {
    **{op: _function(op) for op in sorted({*MAPPED, *FOLDED})},
    **QUANTISED,
    **dict.fromkeys(DYNAMIC, _dynamic),
    **ALWAYS,
}
