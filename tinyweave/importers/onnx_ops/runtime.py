"""Import the float ops of ONNX Runtime's domain com.microsoft, which ONNX Runtime writes when it saves an optimised model.

Most of them are an ONNX op with an activation, a transpose, or a sum fused into it. Source: ONNX Runtime's ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..aten import attention, axes, elementwise, norms
from ..channels_last import Builder, Map, Unavailable
from ..unsupported import Unsupported
from . import maps

Function = Callable[..., Any]
add, mul = elementwise.binary("add"), elementwise.binary("mul")
# fused activation -> its importer function; further arguments are the numbers of the node
FUSED: Mapping[str, Function] = {
    "": lambda b, x: x,
    "Clip": elementwise.clamp,
    "HardSigmoid": lambda b, x, alpha=0.2, beta=0.5: elementwise.hard_sigmoid(b, x, alpha=alpha, beta=beta),
    "HardSwish": elementwise.unary("hard_swish"),
    "LeakyRelu": elementwise.leaky_relu,
    "Relu": elementwise.unary("relu"),
    "Sigmoid": elementwise.unary("logistic"),
    "Tanh": elementwise.unary("tanh"),
}


def _activated(b: Builder, x: Map, activation: str, numbers: Sequence[float]) -> Map:
    """Return the fused activation of a layer's output; `numbers` are its parameters."""
    if activation not in FUSED:
        raise Unsupported(f"its activation {activation} is unknown; {', '.join(filter(None, FUSED))} are supported")
    result: Map = FUSED[activation](b, x, *numbers)
    return result


def _convolution(
    b: Builder,
    x: Map,
    weight: Any,
    bias: Any = None,
    more: Any = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **window: Any,
) -> Map:
    """Import FusedConv: a convolution, a sum with the map `more`, and an activation."""
    y = maps.convolution(b, x, weight, bias, **window)
    return _activated(b, y if more is None else add(b, y, more), activation, activation_params)


def _gemm(b: Builder, *inputs: Any, activation: str = "", **given: Any) -> Map:
    """Import FusedGemm: Gemm and an activation, whose parameters are activation_alpha, activation_beta and activation_gamma."""
    named = [given.pop(f"activation_{name}", None) for name in ("alpha", "beta", "gamma")]
    numbers = [number for number in named if number is not None]
    return _activated(b, maps.gemm(b, *inputs, **given), activation, numbers if activation in PARAMETERS else ())


PARAMETERS = ("Clip", "HardSigmoid", "LeakyRelu")  # activations with parameters; other nodes may have parameters without a use


def _matmul(
    b: Builder,
    x: Any,
    y: Any,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Map:
    """Import FusedMatMul: a product of two operands, of which the last two axes may be swapped, times alpha."""
    if transBatchA or transBatchB:
        raise Unsupported("it moves a batch axis (transBatchA or transBatchB); save the model with less optimisation")
    x, y = (_swapped(b, each) if swaps else each for each, swaps in ((x, transA), (y, transB)))
    product = attention.matmul(b, x, y)
    return product if alpha == 1 else mul(b, product, alpha)


def _swapped(b: Builder, x: Any) -> Any:
    """Return a map or a constant with the last two axes swapped; a vector is returned unchanged."""
    if not isinstance(x, Map):
        return x.swapaxes(-2, -1) if x.ndim > 1 else x
    order = list(range(len(x.axes)))
    return axes.permute(b, x, [*order[:-2], *order[:-3:-1]])


def _gelu(approximate: str) -> Function:
    """Return a function that imports the GELU of a sum with a bias, which may be absent."""
    return lambda b, x, bias=None: elementwise.gelu(b, x if bias is None else add(b, x, bias), approximate)


def _skipping(is_simple: bool) -> Function:
    """Return an importer of Skip(Simplified)LayerNormalization; its fourth output is the sum that is normalised."""

    def apply(b: Builder, x: Map, skip: Any, scale: Any, *more: Any, epsilon: float = 1e-12) -> list[Any]:
        offset, bias = (None, *more, None)[:2] if is_simple else (*more, None, None)[:2]
        total = add(b, x, skip) if isinstance(x, Map) else add(b, skip, x)
        total = total if bias is None else add(b, total, bias)
        unread = Unavailable("its mean or inverse deviation is read; only its output and its sum are supported")
        shape = total.shape[-1:]
        if is_simple:
            return [norms.rms_norm(b, total, shape, scale, epsilon), unread, unread, total]
        return [norms.layer_norm(b, total, shape, scale, offset, epsilon), unread, unread, total]

    return apply


FLOAT_OPS: Mapping[str, Function] = {
    "BiasGelu": _gelu("none"),
    "FastGelu": _gelu("tanh"),
    "FusedConv": _convolution,
    "FusedGemm": _gemm,
    "FusedMatMul": _matmul,
    "Gelu": _gelu("none"),
    "QuickGelu": lambda b, x, *, alpha=1.702: mul(b, x, b.like("logistic", x if alpha == 1 else mul(b, x, alpha))),
    "SkipLayerNormalization": _skipping(is_simple=False),
    "SkipSimplifiedLayerNormalization": _skipping(is_simple=True),
    "TransposeMatMul": _matmul,
}


def _linear(
    b: Builder,
    x: Map,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    post_transform: str = "NONE",
    **_: Any,
) -> Map:
    """Import ai.onnx.ml's LinearRegressor: a dense layer and the function `post_transform` of its outputs."""
    weight = np.asarray(coefficients, np.float32).reshape(-1, x.shape[-1])
    y = axes.linear(b, x, weight, np.asarray(intercepts, np.float32) if len(intercepts) else None)
    if post_transform not in AFTER:
        raise Unsupported(f"its post_transform {post_transform} is not supported; {', '.join(AFTER)} are")
    result: Map = AFTER[post_transform](b, y)
    return result


AFTER: Mapping[str, Function] = {
    "NONE": lambda b, y: y,
    "LOGISTIC": elementwise.unary("logistic"),
    "SOFTMAX": lambda b, y: axes.softmax(b, y, -1),
}


def _classifier(b: Builder, x: Map, **attributes: Any) -> list[Any]:
    """Import ai.onnx.ml's LinearClassifier: the scores of the classes. Its labels are a placeholder."""
    scores = _linear(b, x, **attributes)
    if scores.shape[-1] < len(attributes.get("classlabels_ints") or attributes.get("classlabels_strings") or ()):
        raise Unsupported("it has fewer scores than classes; export it with a score per class")
    return [Unavailable("its labels are read; take the class of the largest score in the program around the network"), scores]


def _scaler(b: Builder, x: Map, *, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)) -> Map:
    """Import ai.onnx.ml's Scaler, (x - offset) * scale, with one number or one per feature."""
    factor = np.asarray(scale, np.float64)
    return mul(b, elementwise.binary("sub")(b, x, np.asarray(offset, np.float32)), factor.astype(np.float32))


def _normalizer(b: Builder, x: Map, *, norm: str = "MAX") -> Map:
    sizes: Mapping[str, Function] = {
        "L1": lambda: norms.norm(b, x, 1, [-1], True),
        "L2": lambda: norms.norm(b, x, 2, [-1], True),
        "MAX": lambda: axes.reduce("reduce_max")(b, x, [-1], True),
    }
    if norm not in sizes:
        raise Unsupported(f"its norm {norm} is not supported; {', '.join(sizes)} are")
    return elementwise.division(b, x, sizes[norm]())


ML_OPS: Mapping[str, Function] = {
    "LinearClassifier": _classifier,
    "LinearRegressor": _linear,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
    "ZipMap": lambda b, scores, **_: scores,
}
