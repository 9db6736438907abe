"""What ONNX's ops on constants are in numpy: functions of arrays, by op, none of which makes more than MOST_FOLDED bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce as accumulated
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..channels_last import Unsupported

Array = NDArray[Any]
Function = Callable[..., Any]
MOST_FOLDED = 1 << 26  # bytes of what a constant op makes
DTYPES = {1: "float32", 6: "int32", 7: "int64", 9: "bool", 10: "float32", 11: "float32"}  # by number in TensorProto.DataType


def bounded(shape: Sequence[int], itemsize: int = 8) -> tuple[int, ...]:
    """Return a shape that is not too large to be made."""
    extents = tuple(map(int, shape))
    if prod(extents) * itemsize > MOST_FOLDED:
        raise Unsupported(f"a constant of shape {list(extents)} takes more than {MOST_FOLDED:,} bytes")
    return extents


def _filled(shape: Array, *, value: Any = None) -> Array:
    filling = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return np.full(bounded(shape), filling.ravel()[0], filling.dtype)


def _repeated(x: Array, repeats: Array) -> Array:
    bounded([extent * int(count) for extent, count in zip(x.shape, repeats, strict=True)])
    return np.tile(x, [int(count) for count in repeats])


def _range(start: Array, limit: Array, delta: Array) -> Array:
    bounded([max(0, ceil((float(limit) - float(start)) / float(delta)))])
    return np.arange(start, limit, delta, start.dtype)


def _sliced(x: Array, starts: Array, ends: Array, along: Array | None = None, steps: Array | None = None) -> Array:
    where = [slice(None)] * x.ndim
    for index, axis in enumerate(range(len(starts)) if along is None else along):
        where[int(axis)] = slice(int(starts[index]), int(ends[index]), 1 if steps is None else int(steps[index]))
    return x[tuple(where)]


def _divided(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    if not np.all(y):
        raise Unsupported("it divides by 0")
    return np.asarray(np.sign(x) * np.sign(y) * (abs(x) // abs(y)), x.dtype)


def _broadcast(function: Function) -> Function:
    """Return a function of arrays, element by element, that makes no large array of small ones."""

    def apply(*arrays: Array, **attributes: Any) -> Array:
        bounded(np.broadcast_shapes(*map(np.shape, arrays)), max(array.itemsize for array in arrays))
        return np.asarray(function(*arrays, **attributes))

    return apply


def _joined(*parts: Array, axis: int) -> Array:
    bounded([sum(part.size for part in parts)], max(part.itemsize for part in parts))
    return np.concatenate(parts, axis)


def _taken(x: Array, indices: Array, *, axis: int = 0) -> Array:
    bounded([x.size // max(x.shape[axis], 1), np.size(indices)], x.itemsize)
    return np.take(x, indices, axis)


def _reduced(function: Callable[..., Any]) -> Function:
    def apply(x: Array, given: Array | None = None, *, axes: Any = None, keepdims: int = 1, **_: Any) -> Array:
        chosen = axes if given is None else given
        return np.asarray(
            function(x, axis=tuple(int(a) for a in chosen) if chosen is not None else None, keepdims=bool(keepdims))
        )

    return apply


def _reshaped(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    return x.reshape([x.shape[i] if extent == 0 and not allowzero else int(extent) for i, extent in enumerate(shape)])


FOLDED: Mapping[str, Function] = {
    "Abs": np.abs,
    "Add": _broadcast(np.add),
    "And": _broadcast(np.logical_and),
    "Cast": lambda x, *, to, **_: x.astype(DTYPES[to]),
    "Ceil": np.ceil,
    "Concat": _joined,
    "ConstantOfShape": _filled,
    "Div": _broadcast(_divided),
    "Equal": _broadcast(np.equal),
    "Exp": np.exp,
    "Expand": lambda x, shape: np.broadcast_to(x, bounded(np.broadcast_shapes(x.shape, tuple(map(int, shape))))),
    "Flatten": lambda x, *, axis=1: x.reshape(prod(x.shape[:axis]), -1),
    "Floor": np.floor,
    "Gather": _taken,
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
    "ReduceMax": _reduced(np.max),
    "ReduceMean": _reduced(np.mean),
    "ReduceMin": _reduced(np.min),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "Reshape": _reshaped,
    "Slice": _sliced,
    "Sqrt": np.sqrt,
    "Squeeze": lambda x, given=None: np.squeeze(x, None if given is None else tuple(int(a) for a in given)),
    "Sub": _broadcast(np.subtract),
    "Tile": _repeated,
    "Transpose": lambda x, *, perm=None: np.transpose(x, perm),
    "Unsqueeze": lambda x, given: np.expand_dims(x, tuple(map(int, given))),
    "Where": _broadcast(np.where),
}
