"""Constants of a quantised model: integers that keep their scales on the way into the graph.

An array of STEPS is such a constant; views and permutations move it like any other array, and arithmetic on it fails. Unsigned
steps are shifted by 128, and their zero point with them, which changes no real number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Quant, Tensor
from ..quantize.convert import along

Array = NDArray[Any]


class Unsupported(Exception):  # noqa: N818
    """Says why an op of the network cannot be expressed."""


# per element: real = scale * (step - zero); bits of its type
STEPS = np.dtype([("step", np.int32), ("scale", np.float32), ("zero", np.int32), ("bits", np.int8)])
SHIFT = 128  # from unsigned to signed
MOST_STEPS = 1 << 24  # of a constant: each takes 13 bytes


def steps(values: Array, scale: Any, zero: Any, axis: int | None = None) -> Array:
    """Return integers as STEPS; scale and zero are one number, or one each along an axis."""
    if values.dtype not in (np.int8, np.uint8, np.int32):
        raise Unsupported(f"it makes real numbers of {values.dtype}; int8, uint8 and int32 are supported")
    if values.size > MOST_STEPS:
        raise Unsupported(f"a constant of {values.size:,} integers is more than any microcontroller has room for")
    shift = SHIFT if values.dtype == np.uint8 else 0
    made = np.zeros(values.shape, STEPS)
    made["step"] = values.astype(np.int32) - shift
    made["bits"] = 8 * values.dtype.itemsize
    for field, numbers in (("scale", _along(scale, values, axis)), ("zero", _along(zero, values, axis) - shift)):
        made[field] = numbers
    if made.size and not (np.isfinite(made["scale"]).all() and made["scale"].min() > 0):
        raise Unsupported("a scale of it is not a positive number")
    return made


def _along(numbers: Any, values: Array, axis: int | None) -> Array:
    """Return numbers in a shape that broadcasts to the values."""
    flat = np.asarray(numbers, np.float64).ravel()
    if flat.size == 1:
        return flat[0]
    if axis is None or not -values.ndim <= axis < values.ndim or flat.size != values.shape[axis]:
        raise Unsupported(f"it has {flat.size} scales or zero points for a constant of shape {list(values.shape)}")
    return along(flat, axis % values.ndim, values.ndim)


def real(values: Array) -> Array:
    """Return a constant as numbers without a scale."""
    if values.dtype != STEPS:
        return values
    return ((values["step"].astype(np.float64) - values["zero"]) * values["scale"]).astype(np.float32)


def as_tensor(name: str, values: Array) -> Tensor:
    """Return STEPS as a constant tensor; its scales lie along one axis at most."""
    shape, dtype = values.shape, "int32" if values.size and values["bits"].flat[0] == 32 else "int8"
    pairs = np.stack([values["scale"].astype(np.float64), values["zero"].astype(np.float64)])
    differing = [a for a in range(len(shape)) if (pairs != pairs.take([0], a + 1)).any()] if values.size else []
    if len(differing) > 1:
        raise Unsupported("its scales differ along several axes")
    axis = differing[0] if differing else None
    chosen = pairs.reshape(2, -1)[:, :1]
    if axis is not None:
        chosen = np.moveaxis(pairs, axis + 1, 1).reshape(2, shape[axis], -1)[:, :, 0]
    quant = Quant(tuple(map(float, chosen[0])) or (1.0,), tuple(map(int, chosen[1])) or (0,), axis)
    return Tensor(name, shape, dtype, quant, np.asarray(values["step"], dtype, order="C"), "constant")
