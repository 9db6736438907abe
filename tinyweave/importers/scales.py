"""Scales that a model brings with it for its maps.

A map that is quantised stays the float map that it is, and its tensor says with which scale: `quantize.given` makes integers of
all of them at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..ir import Quant
from .channels_last import Builder, Map
from .steps import SHIFT, Unsupported


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
