"""Scales that a model brings with it for its maps, and the ops of torchao's pt2e that say them (quantized_decomposed).

A map that is quantised stays the float map that it is, and its tensor says with which scale: `quantize.given` makes integers of
all of them at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...ir import Quant
from ..channels_last import Builder, Map
from ..steps import SHIFT, STEPS, Unsupported, steps


def scaled(b: Builder, x: Any, scale: Any, zero: Any, *, unsigned: bool) -> Any:
    """Return a map that is rounded with one scale, by another name of its elements where it has another one already."""
    if not isinstance(x, Map):
        raise Unsupported("only maps and integer constants have scales")
    quant = _one(scale, zero, unsigned)
    tensor = b.tensors[x.tensor]
    if tensor.quant is None:
        b.tensors[x.tensor] = replace(tensor, quant=quant)
    if tensor.quant in (None, quant):
        return x
    attrs = {"new_shape": tensor.shape}
    (name,) = b.op("reshape", (x.tensor, b.integers(tensor.shape, "shape")), [tensor.shape], attrs, "rescaled")
    b.tensors[name] = replace(b.tensors[name], quant=quant)
    return Map(name, x.axes, x.dims)


def known(b: Builder, x: Any, scale: Any, zero: Any, *, unsigned: bool) -> Any:
    """Return integers as the real numbers that they stand for: what quantised a map said the same of it."""
    if not isinstance(x, Map):
        raise Unsupported("only maps and integer constants have scales")
    quant, tensor = _one(scale, zero, unsigned), b.tensors[x.tensor]
    if tensor.quant is None:
        b.tensors[x.tensor] = replace(tensor, quant=quant)
    elif tensor.quant != quant:
        raise Unsupported("its scale or zero point is not the one that its input was quantised with")
    return x


def _one(scale: Any, zero: Any, unsigned: bool) -> Quant:
    """Return one scale and zero point, of int8."""
    numbers = [np.asarray(number).ravel() for number in (scale, zero)]
    if any(number.size != 1 for number in numbers):
        raise Unsupported("its map has several scales; TFLite's have one")
    factor, point = float(np.float32(numbers[0][0])), int(numbers[1][0]) - (SHIFT if unsigned else 0)
    if not 0 < factor < float("inf") or not -128 <= point <= 127:
        raise Unsupported(f"its scale {factor} or its zero point {int(numbers[1][0])} is out of range")
    return Quant((factor,), (point,))


def _is_unsigned(low: int, high: int) -> bool:
    """Return whether steps do not fit int8 as they are; those of a reduced range do, and stay clipped at its end."""
    if not -128 <= low < high <= 255 or (low < 0 and high > 127):
        raise Unsupported(f"its steps lie in [{low}, {high}]; int8 and uint8 are supported")
    return high > 127


def quantize(b: Builder, x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any = None, **_: Any) -> Any:
    return scaled(b, x, scale, zero, unsigned=_is_unsigned(low, high))


def dequantize(b: Builder, x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any = None, **_: Any) -> Any:
    if isinstance(x, Map):
        return known(b, x, scale, zero, unsigned=_is_unsigned(low, high))
    return steps(_integers(x), scale, zero)


def dequantize_channels(
    b: Builder, x: Any, scale: Any, zero: Any, axis: int, low: int, high: int, dtype: Any = None, **_: Any
) -> Any:
    if isinstance(x, Map):
        raise Unsupported("its map has several scales; TFLite's have one")
    return steps(_integers(x), scale, 0 if zero is None else zero, axis)


def _integers(x: Any) -> Any:
    if not isinstance(x, np.ndarray) or x.dtype == STEPS:
        raise Unsupported("it makes real numbers of what has a scale already")
    return x


QUANTISED: dict[str, Callable[..., Any]] = {
    "dequantize_per_channel": dequantize_channels,
    "dequantize_per_tensor": dequantize,
    "quantize_per_tensor": quantize,
}
