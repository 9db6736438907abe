"""Importer functions of ONNX ops: OPS maps each op name to a function that adds TFLite ops to a Builder.

A function takes a Builder, the op's inputs in order, with None for an absent one, and its attributes. An input is a Map if the
network computes it, else a numpy array. If all inputs are constant, numpy computes the output, with the functions of FOLDED.
Source: ONNX operator schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from ..aten import attention, axes, elementwise, norms, selecting
from ..channels_last import Builder, Map
from ..quantised_constants import Array, dequantised
from ..unsupported import Unsupported
from . import maps, places
from .folded import FOLDED, checked_size
from .quantised import MICROSOFT, QUANTISED
from .resizing import resize
from .runtime import FLOAT_OPS, ML_OPS

Function = Callable[..., Any]
NOT_ONNX = {  # functions that ONNX lacks
    *("erfc", "exp2", "expm1", "frac", "log10", "log1p", "log2", "log_sigmoid", "sinc", "square", "trunc")
}
BINARY = {"Add": "add", "And": "logical_and", "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal"}
BINARY |= {"Less": "less", "LessOrEqual": "less_equal", "Mul": "mul", "Or": "logical_or", "Sub": "sub"}
UNARY = {"HardSwish": "hard_swish", "Relu": "relu", "Sigmoid": "logistic"}
MAPPED: Mapping[str, Function] = {
    **{
        kind.title(): maps.ignoring_attributes(function)
        for kind, function in elementwise.FUNCTIONS.items()
        if kind not in NOT_ONNX
    },
    **{op: elementwise.binary(kind) for op, kind in BINARY.items()},
    **{op: maps.ignoring_attributes(elementwise.unary(kind)) for op, kind in UNARY.items()},
    **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization"), maps.rms_norm),
    "ArgMax": maps.argmax("arg_max"),
    "ArgMin": maps.argmax("arg_min"),
    "AveragePool": maps.pool(maps.average_pool),
    "BatchNormalization": maps.batch_norm,
    "Cast": maps.cast,
    "CastLike": maps.cast_like,
    "Celu": lambda b, x, *, alpha=1.0: elementwise.elu(b, x, alpha, 1, 1 / alpha),
    "Clip": elementwise.clamp,
    "Concat": maps.concat,
    "Conv": maps.convolution,
    "ConvTranspose": maps.transposed_convolution,
    "CumSum": maps.cumsum,
    "DepthToSpace": maps.blocks(selecting.depth_to_space, selecting.pixel_shuffle),
    "Div": elementwise.division,
    "Dropout": maps.dropout,
    "Expand": maps.expand,
    "Flatten": maps.flatten,
    "GRU": maps.recurrent("gru", (1, 0, 2), ("Sigmoid", "Tanh")),
    "Gather": maps.gather,
    "GatherElements": places.gathering("GatherElements"),
    "GatherND": places.gathering("GatherND"),
    "Einsum": lambda b, *operands, equation: attention.einsum(b, equation, operands),
    "Elu": lambda b, x, *, alpha=1.0: elementwise.elu(b, x, alpha),
    "Gelu": elementwise.gelu,
    "Gemm": maps.gemm,
    "GlobalAveragePool": maps.global_reduction("mean"),
    "GlobalMaxPool": maps.global_reduction("reduce_max"),
    "GroupNormalization": maps.group_norm,
    "HardSigmoid": elementwise.hard_sigmoid,
    "Identity": axes.identity,
    "InstanceNormalization": lambda b, x, scale, bias, *, epsilon=1e-5: norms.instance_norm(b, x, scale, bias, eps=epsilon),
    "LRN": norms.local_response_norm,
    "LSTM": maps.recurrent("lstm", (0, 2, 3, 1), ("Sigmoid", "Tanh", "Tanh")),
    "LayerNormalization": maps.layer_norm,
    "LeakyRelu": lambda b, x, *, alpha=0.01: elementwise.leaky_relu(b, x, alpha),
    "LpNormalization": norms.normalised,
    "LogSoftmax": maps.softmax("log_softmax"),
    "MatMul": attention.matmul,
    "Max": maps.variadic("maximum"),
    "MaxPool": maps.pool(maps.max_pool),
    "Mean": lambda b, *inputs: elementwise.binary("mul")(b, maps.variadic("add")(b, *inputs), np.float32(1 / len(inputs))),
    "MeanVarianceNormalization": maps.mean_variance_norm,
    "Min": maps.variadic("minimum"),
    "Neg": lambda b, x: elementwise.binary("mul")(b, x, -1.0),
    "Not": elementwise.unary("logical_not"),
    "OneHot": maps.one_hot,
    "PRelu": maps.prelu,
    "Pad": maps.pad,
    "Pow": elementwise.power,
    "RNN": maps.recurrent("rnn", (0,), ("Tanh",)),
    "ReduceL1": maps.reduction(lambda b, x, *how: norms.norm(b, x, 1, *how)),
    "ReduceL2": maps.reduction(lambda b, x, *how: norms.norm(b, x, 2, *how)),
    "ReduceLogSumExp": maps.reduction(axes.logsumexp),
    "ReduceMax": maps.reduction(axes.reduce("reduce_max")),
    "ReduceMean": maps.reduction(axes.mean),
    "ReduceMin": maps.reduction(axes.reduce("reduce_min")),
    "ReduceProd": maps.reduction(axes.product),
    "ReduceSum": maps.reduction(axes.sum_),
    "ReduceSumSquare": maps.reduction(norms.sum_of_squares),
    "Reshape": maps.reshape,
    "Resize": resize,
    "ScatterElements": places.scattering("ScatterElements"),
    "ScatterND": places.scattering("ScatterND"),
    "Selu": lambda b, x, *, alpha=elementwise.SELU[0], gamma=elementwise.SELU[1]: elementwise.elu(b, x, alpha, gamma),
    "Shrink": lambda b, x, *, lambd=0.5, bias=0.0: elementwise.shrink(b, x, lambd, bias),
    "Slice": maps.slice_,
    "Softmax": maps.softmax("softmax"),
    "Softplus": maps.ignoring_attributes(elementwise.softplus),
    "SpaceToDepth": maps.blocks(selecting.space_to_depth, selecting.pixel_unshuffle),
    "Split": maps.split,
    "Squeeze": lambda b, x, given=None: axes.squeeze(b, x, None if given is None else maps.constant_integers(given, "axes")),
    "Sum": maps.variadic("add"),
    "ThresholdedRelu": lambda b, x, *, alpha=1.0: elementwise.threshold(b, x, alpha, 0),
    "Tile": lambda b, x, repeats: selecting.repeat(b, x, maps.constant_integers(repeats, "repeats")),
    "TopK": maps.top,
    "Transpose": lambda b, x, *, perm=None: axes.permute(b, x, range(len(x.axes))[::-1] if perm is None else perm),
    "Unsqueeze": maps.unsqueeze,
    "Where": elementwise.where,
}
ALWAYS: Mapping[str, Function] = {
    "Constant": maps.constant,
    "If": maps.branch,
    "Shape": maps.shape_of,
    "Size": lambda b, x: np.array(prod(x.shape), np.int64),
}  # shapes are static
# ops that move elements only: they keep a quantised constant quantised
MOVING = frozenset("Concat Expand Flatten Gather Identity Reshape Slice Squeeze Transpose Unsqueeze".split())


def _function(op: str) -> Function:
    """Return the importer of the ONNX op `op`: its function in MAPPED if an input is a map, else in FOLDED."""

    def apply(b: Builder, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        if op == "Split" and outputs > 1:
            attributes.setdefault("num_outputs", outputs)
        if any(isinstance(each, Map) for each in inputs):
            if op not in MAPPED:
                raise Unsupported("it is imported only if all its inputs are constant; 'tinyweave docs onnx' lists the others")
            return _first_of_one(MAPPED[op])(b, *inputs, outputs=outputs, **attributes)
        if op not in FOLDED:
            raise Unsupported("all of its inputs are constant, and tinyweave cannot compute it at import; fold constants first")
        given = [dequantised(each) if isinstance(each, np.ndarray) and op not in MOVING else each for each in inputs]
        result = FOLDED[op](*given, **attributes)
        folded = [_checked(np.asarray(each)) for each in (result if isinstance(result, list) else [result])]
        return folded if outputs > 1 else folded[0]

    return apply


def _first_of_one(function: Function) -> Function:
    """Wrap an importer function: of a list of outputs it returns the first one, if the node has only one output."""

    def apply(b: Builder, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        result = function(b, *inputs, **attributes)
        return result[0] if isinstance(result, list) and outputs == 1 else result

    return apply


def _checked(folded: Array) -> Array:
    """Return a folded constant, as float32 if it is float64; raise Unsupported if it is too large."""
    checked_size(folded.shape, folded.itemsize)
    return folded.astype(np.float32) if folded.dtype == np.float64 else folded


OPS: dict[str, Function] = {
    **{op: _function(op) for op in sorted({*MAPPED, *FOLDED})},
    **QUANTISED,
    **{MICROSOFT + op: _first_of_one(function) for op, function in FLOAT_OPS.items()},
    **{f"ai.onnx.ml.{op}": _first_of_one(function) for op, function in ML_OPS.items()},
    **ALWAYS,
}
