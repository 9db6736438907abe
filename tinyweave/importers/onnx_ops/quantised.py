"""ONNX's quantised ops, as ONNX Runtime and PyTorch write them: ops on real numbers, and scales of what they read and make.

QLinear... ops have a scale and a zero point behind each tensor; those of the domain com.microsoft are ONNX Runtime's own.
Source: ONNX operator schemas; ONNX Runtime's ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...quantize.convert import along
from ..aten import axes, elementwise
from ..aten.attention import matmul
from ..aten.quantised import known, scaled
from ..channels_last import Builder, Map
from ..steps import Unsupported, real, steps
from .maps import average_pool, convolution, gemm, over_axes, pool, softmax, whole

Array = NDArray[Any]
Function = Callable[..., Any]
MICROSOFT = "com.microsoft."


def quantize(b: Builder, x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, **more: Any) -> Any:
    if block_size or more.get("output_dtype", UINT8) not in TYPES:
        raise Unsupported("it has blocks of scales, or makes another type than int8 and uint8")
    signed = zero.dtype == np.int8 if isinstance(zero, np.ndarray) else more.get("output_dtype", UINT8) == INT8
    zero = np.array(0) if zero is None else zero
    _check_type(zero)
    if isinstance(x, Map):
        return scaled(b, x, scale, zero, unsigned=not signed)
    dtype = np.int8 if signed else np.uint8
    numbers = [elementwise.constant(number, what) for number, what in ((scale, "scale"), (zero, "zero point"))]
    each = [n if n.size == 1 else along(n, axis % x.ndim, x.ndim) for n in numbers]
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(np.rint(real(x) / each[0].astype(np.float32)) + each[1], limits.min, limits.max), dtype)


UINT8, INT8 = 2, 3  # in TensorProto.DataType
TYPES = (0, UINT8, INT8)


def dequantize(b: Builder, x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, **_: Any) -> Any:
    if block_size:
        raise Unsupported("it has blocks of scales")
    if isinstance(x, Map):
        return _map(b, x, scale, zero)
    return steps(x, scale, 0 if zero is None else zero, axis if x.ndim else None)


def _check_type(zero: Any) -> None:
    if zero.dtype not in (np.int8, np.uint8, np.int64):
        raise Unsupported(f"its integers are {zero.dtype}; int8 and uint8 are supported")


def _is_unsigned(zero: Any) -> bool:
    if zero is None:
        return True  # as QuantizeLinear has it
    _check_type(elementwise.constant(zero, "zero point"))
    return bool(zero.dtype != np.int8)


def _map(b: Builder, x: Any, scale: Any, zero: Any) -> Map:
    """Return a map of integers as the real numbers that it stands for."""
    return known(b, x, elementwise.constant(scale, "scale"), 0 if zero is None else zero, unsigned=_is_unsigned(zero))


def _operand(b: Builder, x: Any, scale: Any, zero: Any, axis: int | None = None) -> Any:
    """Return an input, a map or a constant, as real numbers."""
    return _map(b, x, scale, zero) if isinstance(x, Map) else steps(x, scale, 0 if zero is None else zero, axis)


def _rounded(b: Builder, y: Any, scale: Any, zero: Any) -> Map:
    """Return what an op makes with its scale."""
    return scaled(b, y, elementwise.constant(scale, "scale"), 0 if zero is None else zero, unsigned=_is_unsigned(zero))


def _bias(bias: Any, x_scale: Any, weight: Array) -> Any:
    """Return an int32 bias, whose scale is that of the sums; weight: STEPS, output channels first."""
    if bias is None:
        return None
    scales = np.broadcast_to(weight["scale"].reshape(len(weight), -1)[:, 0], bias.shape)
    return steps(bias, np.float32(np.asarray(x_scale).ravel()[0]) * scales, 0, 0)


def _convolution(
    b: Builder, x: Any, xs: Any, xz: Any, w: Any, ws: Any, wz: Any, ys: Any, yz: Any, bias: Any = None, **attributes: Any
) -> Map:
    weight = steps(elementwise.constant(w, "weight"), ws, wz, 0)
    made = convolution(b, _map(b, x, xs, xz), weight, _bias(bias, xs, weight), **attributes)
    return _rounded(b, made, ys, yz)


def _product(b: Builder, x: Any, xs: Any, xz: Any, w: Any, ws: Any, wz: Any, ys: Any, yz: Any) -> Map:
    return _rounded(b, matmul(b, _operand(b, x, xs, xz, -1), _operand(b, w, ws, wz, -1)), ys, yz)


def _gemm(
    b: Builder,
    x: Any,
    xs: Any,
    xz: Any,
    w: Any,
    ws: Any,
    wz: Any,
    bias: Any = None,
    ys: Any = None,
    yz: Any = None,
    **attrs: Any,
) -> Map:
    if ys is None:
        raise Unsupported("its output is left in float32; give it a scale")
    if attrs.get("alpha", 1) != 1:
        raise Unsupported("it multiplies by a factor of its own")
    by_output = attrs.get("transB", 0)
    weight = steps(elementwise.constant(w, "weight"), ws, wz, 0 if by_output else 1)
    made = gemm(b, _map(b, x, xs, xz), weight, _bias(bias, xs, weight if by_output else weight.T), **attrs)
    return _rounded(b, made, ys, yz)


def _binary(kind: str) -> Function:
    def apply(b: Builder, x: Any, xs: Any, xz: Any, y: Any, ys: Any, yz: Any, zs: Any, zz: Any = None) -> Map:
        return _rounded(b, elementwise.binary(kind)(b, _operand(b, x, xs, xz), _operand(b, y, ys, yz)), zs, zz)

    return apply


def _unary(function: Function) -> Function:
    """Return an op on one map with its scales; attributes stay."""

    def apply(b: Builder, x: Any, xs: Any, xz: Any, ys: Any, yz: Any = None, **attributes: Any) -> Any:
        made = function(b, _map(b, x, xs, xz), **attributes)
        return _rounded(b, made[0] if isinstance(made, list) else made, ys, yz)

    return apply


def _channels_first(function: Function) -> Function:
    def apply(b: Builder, x: Map, *, channels_last: int = 0, **attributes: Any) -> Any:
        if channels_last:
            raise Unsupported("its channels come last; write the model before ONNX Runtime has optimised it")
        return function(b, x, **attributes)

    return apply


def _concatenation(b: Builder, ys: Any, yz: Any, *parts: Any, axis: int) -> Map:
    if len(parts) % 3:
        raise Unsupported("it needs a scale and a zero point for each part")
    maps = [_operand(b, *parts[at : at + 3]) for at in range(0, len(parts), 3)]
    return _rounded(b, axes.concatenation(b, maps, axis), ys, yz)


def _softmax(b: Builder, x: Map, *, axis: int = -1, opset: int = 13) -> Map:
    return softmax("softmax")(b, x, axis=axis)


QUANTISED: Mapping[str, Function] = {
    "DequantizeLinear": dequantize,
    "QLinearConv": _convolution,
    "QLinearMatMul": _product,
    "QuantizeLinear": quantize,
    **{
        MICROSOFT + op: function
        for op, function in {
            "DequantizeLinear": dequantize,
            "QGemm": _gemm,
            "QLinearAdd": _binary("add"),
            "QLinearAveragePool": _unary(_channels_first(pool(average_pool))),
            "QLinearConcat": _concatenation,
            "QLinearGlobalAveragePool": _unary(_channels_first(whole("mean"))),
            "QLinearLeakyRelu": _unary(lambda b, x, *, alpha=0.01: elementwise.leaky_relu(b, x, alpha)),
            "QLinearMul": _binary("mul"),
            "QLinearReduceMean": _unary(over_axes("mean")),
            "QLinearSigmoid": _unary(elementwise.unary("logistic")),
            "QLinearSoftmax": _unary(_softmax),
            "QuantizeLinear": quantize,
        }.items()
    },
}
