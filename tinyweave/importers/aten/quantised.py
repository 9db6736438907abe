"""Import torchao's quantize and dequantize ops (quantized_decomposed): record each scale at the map that it applies to.

A quantised map stays a float32 tensor, but its `quant` holds the scale and zero point. `quantize.prequantised` converts the
whole graph to int8 at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...ir import Quant, Tensor
from ..channels_last import Builder, Map
from ..quantised_constants import QUANTISED_DTYPE, SHIFT, quantised_constant
from ..unsupported import Unsupported
from .elementwise import as_floats


def quantise_map(b: Builder, x: Any, scale: Any, zero: Any, *, unsigned: bool) -> Map:
    """Import a quantize op: record its scale at the map or, if the map has another scale, at a reshape to the same shape."""
    m, quant, tensor = _recorded(b, x, scale, zero, unsigned)
    if tensor.quant in (None, quant):
        return m
    attrs = {"new_shape": tensor.shape}
    (name,) = b.op("reshape", (x.tensor, b.integers(tensor.shape, "shape")), [tensor.shape], attrs, "rescaled")
    b.tensors[name] = replace(b.tensors[name], quant=quant)
    return Map(name, x.axes, x.dims)


def dequantise_map(b: Builder, x: Any, scale: Any, zero: Any, *, unsigned: bool) -> Map:
    """Import a dequantize op: record its scale at the map, which must have none or the same; convert an 8-bit input first."""
    if isinstance(x, Map) and b.is_byte(x.tensor):
        if unsigned != (b.tensors[x.tensor].dtype == "uint8"):
            raise Unsupported(f"its input is {b.tensors[x.tensor].dtype}, its zero point is not; the file may be damaged")
        quant = _per_tensor(scale, zero, unsigned)
        x = as_floats(b, x, quant.scale[0], quant.zero_point[0] + SHIFT * unsigned)
    m, quant, tensor = _recorded(b, x, scale, zero, unsigned)
    if tensor.quant not in (None, quant):
        raise Unsupported("its scale or zero point differs from those that its input was quantised with; make them equal")
    return m


def _recorded(b: Builder, x: Any, scale: Any, zero: Any, unsigned: bool) -> tuple[Map, Quant, Tensor]:
    """Record the quantisation (uint8 if `unsigned`) of `x` if it has none; return `x`, the Quant, and the tensor as it was."""
    if not isinstance(x, Map):
        raise Unsupported("its input is neither computed by the network nor an integer constant")
    quant, tensor = _per_tensor(scale, zero, unsigned), b.tensors[x.tensor]
    if tensor.quant is None:
        b.tensors[x.tensor] = replace(tensor, quant=quant)
    return x, quant, tensor


def _per_tensor(scale: Any, zero: Any, unsigned: bool) -> Quant:
    """Return an int8 Quant (`zero` is uint8 if `unsigned`); raise Unsupported if it is per channel or out of range."""
    numbers = [np.asarray(number).ravel() for number in (scale, zero)]
    if any(number.size != 1 for number in numbers):
        raise Unsupported("its input has per-channel scales; TFLite supports them for constants only")
    factor, point = float(np.float32(numbers[0][0])), int(numbers[1][0]) - (SHIFT if unsigned else 0)
    if not 0 < factor < float("inf") or not -128 <= point <= 127:
        raise Unsupported(f"its scale {factor} or its zero point {int(numbers[1][0])} is out of range")
    return Quant((factor,), (point,))


def _is_unsigned(low: int, high: int) -> bool:
    """Return whether integers in [low, high] are uint8, not int8 (as [0, 127] is); raise Unsupported if neither fits."""
    if not -128 <= low < high <= 255 or (low < 0 and high > 127):
        raise Unsupported(f"its integers lie in [{low}, {high}]; int8 and uint8 are supported")
    return high > 127


def quantize(b: Builder, x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any = None, **_: Any) -> Any:
    """Import quantize_per_tensor of a computed tensor or of float weights, to integers from `low` to `high`."""
    if isinstance(x, np.ndarray) and x.dtype == np.float32:
        return _rounded(x, scale, zero, low, high)
    return quantise_map(b, x, scale, zero, unsigned=_is_unsigned(low, high))


def dequantize(b: Builder, x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any = None, **_: Any) -> Any:
    """Import dequantize_per_tensor of a computed tensor or an integer constant, with integers from `low` to `high`."""
    if isinstance(x, Map):
        return dequantise_map(b, x, scale, zero, unsigned=_is_unsigned(low, high))
    return quantised_constant(_integers(x), scale, zero)


def dequantize_channels(
    b: Builder, x: Any, scale: Any, zero: Any, axis: int, low: int, high: int, dtype: Any = None, **_: Any
) -> Any:
    """Import dequantize_per_channel of an integer constant; `scale` and `zero` have one entry per index along `axis`."""
    if isinstance(x, Map):
        raise Unsupported("its input has per-channel scales; TFLite supports them for constants only")
    return quantised_constant(_integers(x), scale, 0 if zero is None else zero, axis)


def _integers(x: Any) -> Any:
    """Return `x`, a constant of plain integers; raise Unsupported if it is computed, or a constant dequantised before."""
    if not isinstance(x, np.ndarray) or x.dtype == QUANTISED_DTYPE:
        raise Unsupported("it dequantises a constant that is dequantised already")
    return x


def quantize_channels(
    b: Builder, x: Any, scale: Any, zero: Any, axis: int, low: int, high: int, dtype: Any = None, **_: Any
) -> Any:
    """Compute quantize_per_channel of float weights, as convert_pt2e with fold_quantize=False leaves it."""
    if isinstance(x, Map):
        raise Unsupported("its input has per-channel scales; TFLite supports them for constants only")
    shape = [-1 if index == axis % x.ndim else 1 for index in range(x.ndim)]
    return _rounded(x, np.reshape(scale, shape), 0 if zero is None else np.reshape(zero, shape), low, high)


def _rounded(x: Any, scale: Any, zero: Any, low: int, high: int) -> Any:
    """Return a float constant as integers, computed as torchao does: in float32, rounded half to even."""
    inverse = np.float32(1) / np.asarray(scale, np.float32)
    steps = np.round(np.asarray(x, np.float32) * inverse) + np.asarray(zero)
    return np.clip(steps, low, high).astype(np.uint8 if _is_unsigned(low, high) else np.int8)


QUANTISED: dict[str, Callable[..., Any]] = {
    "dequantize_per_channel": dequantize_channels,
    "dequantize_per_tensor": dequantize,
    "quantize_per_channel": quantize_channels,
    "quantize_per_tensor": quantize,
}
