"""Quantised constants: arrays in which each element stores an integer together with its scale and zero point.

Views, permutations and slices of an array of QUANTISED_DTYPE keep each scale with its integer, so the per-channel axis need not
be tracked. Arithmetic on such an array raises TypeError. uint8 values and zero points are stored as int8, 128 lower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Quant, Tensor
from ..quantize.convert import along
from .unsupported import Unsupported, normalised_axis

Array = NDArray[Any]


# an element stands for the real number scale * (value - zero); `bits` is the width of the integer type
QUANTISED_DTYPE = np.dtype([("value", np.int32), ("scale", np.float32), ("zero", np.int32), ("bits", np.int8)])
SHIFT = 128  # the difference between a uint8 value and the int8 value that replaces it
MAX_QUANTISED = 1 << 24  # elements of one constant; an element takes 13 bytes


def quantised_constant(values: Array, scale: Any, zero: Any, axis: int | None = None) -> Array:
    """Return integers with scales and zero points, one or one per index along `axis`, as an array of QUANTISED_DTYPE."""
    if values.dtype not in (np.int8, np.uint8, np.int32):
        raise Unsupported(f"it dequantises {values.dtype}; int8, uint8 and int32 are supported")
    if values.size > MAX_QUANTISED:
        raise Unsupported(f"its constant has {values.size:,} elements; at most {MAX_QUANTISED:,} are supported")
    shift = SHIFT if values.dtype == np.uint8 else 0
    quantised = np.zeros(values.shape, QUANTISED_DTYPE)
    quantised["value"] = values.astype(np.int32) - shift
    quantised["bits"] = 8 * values.dtype.itemsize
    quantised["scale"] = _broadcastable(scale, values, axis)
    quantised["zero"] = _broadcastable(zero, values, axis) - shift
    if quantised.size and not (np.isfinite(quantised["scale"]).all() and quantised["scale"].min() > 0):
        raise Unsupported("one of its scales is not a positive number")
    return quantised


def _broadcastable(numbers: Any, values: Array, axis: int | None) -> Array:
    """Return scales or zero points in a shape that broadcasts to `values`: a scalar, or a vector along `axis`."""
    flat = np.asarray(numbers, np.float64).ravel()
    if flat.size == 1:
        return flat[:1].reshape(())
    if axis is None or not -values.ndim <= axis < values.ndim or flat.size != values.shape[axis]:
        raise Unsupported(f"it has {flat.size} scales or zero points for a constant of shape {list(values.shape)}")
    return along(flat, normalised_axis(values.ndim, axis), values.ndim)


def dequantised(values: Array) -> Array:
    """Return the real numbers of a quantised constant as float32; return other arrays unchanged."""
    if values.dtype != QUANTISED_DTYPE:
        return values
    return np.asarray((values["value"].astype(np.float64) - values["zero"]) * values["scale"], np.float32)


def as_tensor(name: str, values: Array) -> Tensor:
    """Return an array of QUANTISED_DTYPE as a Tensor, per tensor or channel; raise Unsupported if more axes have scales."""
    shape, dtype = values.shape, "int32" if values.size and values["bits"].flat[0] == 32 else "int8"
    pairs = np.stack([values["scale"].astype(np.float64), values["zero"].astype(np.float64)])
    differing = [a for a in range(len(shape)) if (pairs != pairs.take([0], a + 1)).any()] if values.size else []
    if len(differing) > 1:
        raise Unsupported("its scales differ along several axes; TFLite has scales per tensor or along one axis")
    axis = differing[0] if differing else None
    chosen = pairs.reshape(2, -1)[:, :1]
    if axis is not None:
        chosen = np.moveaxis(pairs, axis + 1, 1).reshape(2, shape[axis], -1)[:, :, 0]
    quant = Quant(tuple(map(float, chosen[0])) or (1.0,), tuple(map(int, chosen[1])) or (0,), axis)
    return Tensor(name, shape, dtype, quant, np.asarray(values["value"], dtype, order="C"), "constant")
