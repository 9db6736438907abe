"""Import ONNX's quantised ops: QDQ pairs (QuantizeLinear, DequantizeLinear) and QLinear ops.

A QLinear op takes, for each operand, a tensor, its scale and its zero point, and then the scale and zero point of the output.
It is imported as the float op on dequantised operands, and the scales are recorded on the maps. Ops of the domain com.microsoft
are ONNX Runtime's own. Source: ONNX operator schemas; ONNX Runtime's ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...quantize.convert import along
from ..aten import axes, elementwise
from ..aten.attention import matmul
from ..aten.quantised import dequantise_map, quantise_map
from ..channels_last import Builder, Map
from ..quantised_constants import Array, dequantised, quantised_constant
from ..unsupported import Unsupported, normalised_axis
from .maps import average_pool, convolution, gemm, global_reduction, max_pool, pool, reduction

Function = Callable[..., Any]
MICROSOFT = "com.microsoft."  # the domain of ONNX Runtime's own ops
UINT8, INT8 = 2, 3  # values of TensorProto.DataType
TYPES = (0, UINT8, INT8)  # supported values of the attribute output_dtype; 0 means unset


def quantize(b: Builder, x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, **more: Any) -> Any:
    """Import QuantizeLinear: record the scale of a computed tensor, or quantise a constant; `axis` is the per-channel axis."""
    if block_size or more.get("output_dtype", UINT8) not in TYPES:
        raise Unsupported("it has block-wise scales, or an output type other than int8 and uint8")
    zero = None if zero is None else elementwise.constant(zero, "zero point")
    signed = zero.dtype == np.int8 if isinstance(zero, np.ndarray) else more.get("output_dtype", UINT8) == INT8
    zero = np.array(0) if zero is None else zero
    _check_type(zero)
    if isinstance(x, Map):
        return quantise_map(b, x, scale, zero, unsigned=not signed)
    dtype = np.int8 if signed else np.uint8
    numbers = [elementwise.constant(number, what) for number, what in ((scale, "scale"), (zero, "zero point"))]
    each = [n if n.size == 1 else along(n, normalised_axis(x.ndim, axis), x.ndim) for n in numbers]
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(np.rint(dequantised(x) / each[0].astype(np.float32)) + each[1], limits.min, limits.max), dtype)


def dequantize(b: Builder, x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, **_: Any) -> Any:
    """Import DequantizeLinear: record the scale of a computed tensor, or of a constant; `axis` is the per-channel axis."""
    if block_size:
        raise Unsupported("it has block-wise scales; only per-tensor and per-channel scales are supported")
    if isinstance(x, Map):
        return _dequantised_map(b, x, scale, zero)
    return quantised_constant(x, scale, 0 if zero is None else zero, axis if x.ndim else None)


def _check_type(zero: Any) -> None:
    """Raise Unsupported if a zero point is neither int8 nor uint8. int64 is accepted, too: the default 0 has this type."""
    if zero.dtype not in (np.int8, np.uint8, np.int64):
        raise Unsupported(f"its integers are {zero.dtype}; int8 and uint8 are supported")


def _is_unsigned(zero: Any) -> bool:
    """Return whether a zero point is uint8, which is also the default if it is absent (None)."""
    if zero is None:
        return True
    _check_type(elementwise.constant(zero, "zero point"))
    return bool(zero.dtype != np.int8)


def _constants(scale: Any, zero: Any) -> tuple[Array, Any]:
    """Return a scale, which must be constant, and a zero point, 0 if it is absent (None)."""
    return elementwise.constant(scale, "scale"), 0 if zero is None else zero


def _dequantised_map(b: Builder, x: Any, scale: Any, zero: Any) -> Map:
    """Return the computed tensor `x` after recording its scale; raise Unsupported if it has a different one already."""
    return dequantise_map(b, x, *_constants(scale, zero), unsigned=_is_unsigned(zero))


def _dequantised_input(b: Builder, x: Any, scale: Any, zero: Any, axis: int | None = None) -> Any:
    """Return an operand of a QLinear op after recording its scale: a Map, or an array of QUANTISED_DTYPE."""
    if isinstance(x, Map):
        return _dequantised_map(b, x, scale, zero)
    return quantised_constant(x, scale, 0 if zero is None else zero, axis)


def _requantised(b: Builder, y: Any, scale: Any, zero: Any) -> Map:
    """Record the scale and zero point of the output `y` of a QLinear op, and return the output."""
    return quantise_map(b, y, *_constants(scale, zero), unsigned=_is_unsigned(zero))


def _bias(bias: Any, x_scale: Any, weight: Array) -> Any:
    """Return an int32 bias (or None) with the scales `x_scale` times those of `weight`, output channels first."""
    if bias is None:
        return None
    scales = np.broadcast_to(weight["scale"].reshape(len(weight), -1)[:, 0], bias.shape)
    return quantised_constant(bias, np.float32(np.asarray(x_scale).ravel()[0]) * scales, 0, 0)


def _convolution(b: Builder, *inputs: Any, **attributes: Any) -> Map:
    """Import ONNX's QLinearConv; inputs are x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero and perhaps a bias."""
    x, w, y, bias = inputs[:3], inputs[3:6], inputs[6:8], inputs[8] if len(inputs) > 8 else None
    weight = quantised_constant(elementwise.constant(w[0], "weight"), w[1], w[2], 0)
    return _requantised(b, convolution(b, _dequantised_map(b, *x), weight, _bias(bias, x[1], weight), **attributes), *y)


def _gemm(b: Builder, *inputs: Any, **attrs: Any) -> Map:
    """Import ONNX Runtime's QGemm; inputs are x, x_scale, x_zero, w, w_scale, w_zero, bias, y_scale and perhaps y_zero."""
    x, w, (bias, y_scale, y_zero) = inputs[:3], inputs[3:6], (*inputs[6:], None, None, None)[:3]
    if y_scale is None:
        raise Unsupported("its output has no scale, so it stays float32; give it a scale")
    if attrs.get("alpha", 1) != 1:
        raise Unsupported("its alpha is not 1; only 1 is supported")
    weight = quantised_constant(elementwise.constant(w[0], "weight"), w[1], w[2], 0 if attrs.get("transB", 0) else 1)
    rows = weight if attrs.get("transB", 0) else weight.T
    return _requantised(b, gemm(b, _dequantised_map(b, *x), weight, _bias(bias, x[1], rows), **attrs), y_scale, y_zero)


def _binary(function: Function, axis: int | None = None) -> Function:
    """Return a function that imports a QLinear op with two operands, whose float op `function` imports."""

    def apply(b: Builder, *inputs: Any) -> Map:
        x, y = (_dequantised_input(b, inputs[at], inputs[at + 1], inputs[at + 2], axis) for at in (0, 3))
        scale, zero = (*inputs[6:], None)[:2]
        return _requantised(b, function(b, x, y), scale, zero)

    return apply


def _unary(function: Function) -> Function:
    """Return a function that imports a QLinear op with one operand; `function` imports the float op."""

    def apply(b: Builder, x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, **attributes: Any) -> Any:
        output = function(b, _dequantised_map(b, x, x_scale, x_zero), **attributes)
        return _requantised(b, output[0] if isinstance(output, list) else output, y_scale, y_zero)

    return apply


def _either_layout(function: Function, default: int = 0) -> Function:
    """Wrap an importer of a map [n, c, ...]: with the attribute channels_last, map and result are [n, ..., c]."""

    def apply(b: Builder, x: Map, *inputs: Any, channels_last: int = default, **attributes: Any) -> Any:
        if not channels_last:
            return function(b, x, *inputs, **attributes)
        rank = len(x.axes)
        result = function(b, axes.permute(b, x, (0, rank - 1, *range(1, rank - 1))), *inputs, **attributes)
        return axes.permute(b, result[0] if isinstance(result, list) else result, (0, *range(2, rank), 1))

    return apply


def _concatenation(b: Builder, y_scale: Any, y_zero: Any, *parts: Any, axis: int) -> Map:
    """Import ONNX Runtime's QLinearConcat; `parts` are, for each operand, a tensor, its scale and its zero point."""
    if len(parts) % 3:
        raise Unsupported("it needs a scale and a zero point for each input")
    maps = [_dequantised_input(b, *parts[at : at + 3]) for at in range(0, len(parts), 3)]
    return _requantised(b, axes.concatenation(b, maps, axis), y_scale, y_zero)


RUNTIME_OPS: Mapping[str, Function] = {
    "DequantizeLinear": dequantize,
    "NhwcMaxPool": _either_layout(pool(max_pool), default=1),
    "QGemm": _gemm,
    "QLinearAdd": _binary(elementwise.binary("add")),
    "QLinearAveragePool": _either_layout(_unary(pool(average_pool))),
    "QLinearConcat": _concatenation,
    "QLinearConv": _either_layout(_convolution),
    "QLinearGlobalAveragePool": _either_layout(_unary(global_reduction("mean"))),
    "QLinearLeakyRelu": _unary(lambda b, x, *, alpha=0.01: elementwise.leaky_relu(b, x, alpha)),
    "QLinearMul": _binary(elementwise.binary("mul")),
    "QLinearReduceMean": _unary(reduction(axes.mean)),
    "QLinearSigmoid": _unary(elementwise.unary("logistic")),
    "QLinearSoftmax": _unary(lambda b, x, *, axis=-1, opset=13: axes.softmax(b, x, axis)),
    "QuantizeLinear": quantize,
}
QUANTISED: Mapping[str, Function] = {
    "DequantizeLinear": dequantize,
    "QLinearConv": _convolution,
    "QLinearMatMul": _binary(matmul, -1),
    "QuantizeLinear": quantize,
    **{MICROSOFT + op: function for op, function in RUNTIME_OPS.items()},
}
