"""Constant folding of ONNX ops: FOLDED maps an op name to a numpy function. A result over MAX_FOLDED bytes is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce as accumulated
from math import ceil, prod
from typing import Any

import numpy as np

from ..quantised_constants import Array
from ..unsupported import Unsupported, normalised_axis

Function = Callable[..., Any]
MAX_FOLDED = 1 << 26  # bytes of one folded constant
DTYPES = {1: "float32", 6: "int32", 7: "int64", 9: "bool", 10: "float32", 11: "float32"}  # TensorProto.DataType -> numpy type


def checked_size(shape: Iterable[Any], itemsize: int = 8) -> tuple[int, ...]:
    """Return a shape as a tuple of ints; raise Unsupported if an array of this shape exceeds MAX_FOLDED bytes.

    `itemsize` is the size of an element in bytes.
    """
    extents = tuple(map(int, shape))
    if prod(extents) * itemsize > MAX_FOLDED:
        raise Unsupported(f"a constant of shape {list(extents)} takes more than {MAX_FOLDED:,} bytes")
    return extents


def _filled(shape: Array, *, value: Any = None) -> Array:
    filling = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return np.full(checked_size(shape), filling.ravel()[0], filling.dtype)


def _tile(x: Array, repeats: Array) -> Array:
    checked_size([extent * int(count) for extent, count in zip(x.shape, repeats, strict=True)])
    return np.tile(x, [int(count) for count in repeats])


def _range(start: Any, limit: Any, delta: Any) -> Array:
    checked_size([max(0, ceil((float(limit) - float(start)) / float(delta)))])
    return np.asarray(np.arange(start, limit, delta, dtype=start.dtype))


def _slice(x: Array, starts: Array, ends: Array, along: Array | None = None, steps: Array | None = None) -> Array:
    where = [slice(None)] * x.ndim
    for index, axis in enumerate(range(len(starts)) if along is None else along):
        where[int(axis)] = slice(int(starts[index]), int(ends[index]), 1 if steps is None else int(steps[index]))
    return x[tuple(where)]


def _divide(x: Array, y: Array) -> Array:
    """Divide as ONNX does: integer quotients are rounded towards 0, and an integer division by 0 raises Unsupported."""
    if x.dtype.kind == "f":
        return x / y
    if not np.all(y):
        raise Unsupported("it divides by 0")
    return np.asarray(np.sign(x) * np.sign(y) * (abs(x) // abs(y)), x.dtype)


def _broadcast(function: Function) -> Function:
    """Wrap an element-wise function: check the size of the broadcast output before the output is computed."""

    def apply(*arrays: Array, **attributes: Any) -> Array:
        checked_size(np.broadcast_shapes(*map(np.shape, arrays)), max(array.itemsize for array in arrays))
        return np.asarray(function(*arrays, **attributes))

    return apply


def _concat(*parts: Array, axis: int) -> Array:
    checked_size([sum(part.size for part in parts)], max(part.itemsize for part in parts))
    return np.concatenate(parts, axis)


def _gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    checked_size([x.size // max(x.shape[axis], 1), np.size(indices)], x.itemsize)
    return np.take(x, indices, axis)


def _reduction(function: Callable[..., Any]) -> Function:
    """Return the folding function of a reduction.

    The reduced axes are an attribute or, in later opsets, the second input; None means all axes.
    """

    def apply(x: Array, given: Array | None = None, *, axes: Any = None, keepdims: int = 1, **_: Any) -> Array:
        chosen = axes if given is None else given
        return np.asarray(function(x, axis=None if chosen is None else tuple(map(int, chosen)), keepdims=bool(keepdims)))

    return apply


def _reshape(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    """Reshape; an extent of 0 in `shape` means the input's extent, unless `allowzero` is set."""
    return x.reshape([x.shape[i] if extent == 0 and not allowzero else int(extent) for i, extent in enumerate(shape)])


def _flatten(x: Array, *, axis: int = 1) -> Array:
    return x.reshape(prod(x.shape[: axis if axis == x.ndim else normalised_axis(x.ndim, axis)]), -1)


FOLDED: Mapping[str, Function] = {
    "Abs": np.abs,
    "Add": _broadcast(np.add),
    "And": _broadcast(np.logical_and),
    "Cast": lambda x, *, to, **_: x.astype(DTYPES[to]),
    "Ceil": np.ceil,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Div": _broadcast(_divide),
    "Equal": _broadcast(np.equal),
    "Exp": np.exp,
    "Expand": lambda x, shape: np.broadcast_to(x, checked_size(np.broadcast_shapes(x.shape, tuple(map(int, shape))))),
    "Flatten": _flatten,
    "Floor": np.floor,
    "Gather": _gather,
    "Greater": _broadcast(np.greater),
    "Identity": lambda x: x,
    "Less": _broadcast(np.less),
    "Max": _broadcast(lambda *parts: accumulated(np.maximum, parts)),
    "Min": _broadcast(lambda *parts: accumulated(np.minimum, parts)),
    "Mod": _broadcast(lambda x, y, **_: np.fmod(x, y) if x.dtype.kind == "f" else np.mod(x, y)),
    "Mul": _broadcast(np.multiply),
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": _broadcast(np.logical_or),
    "Pow": _broadcast(lambda x, y: np.power(x, y).astype(x.dtype)),
    "Range": _range,
    "Reciprocal": np.reciprocal,
    "ReduceMax": _reduction(np.max),
    "ReduceMean": _reduction(np.mean),
    "ReduceMin": _reduction(np.min),
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "Reshape": _reshape,
    "Slice": _slice,
    "Sqrt": np.sqrt,
    "Squeeze": lambda x, given=None: np.squeeze(x, None if given is None else tuple(int(a) for a in given)),
    "Sub": _broadcast(np.subtract),
    "Tile": _tile,
    "Transpose": lambda x, *, perm=None: np.transpose(x, perm),
    "Unsqueeze": lambda x, given: np.expand_dims(x, tuple(map(int, given))),
    "Where": _broadcast(np.where),
}
