"""The ops of torchao's pt2e-quantised programs: `torch.ops.quantized_decomposed`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..channels_last import Builder, Map
from ..scales import known, scaled
from ..steps import STEPS, Unsupported, steps


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
