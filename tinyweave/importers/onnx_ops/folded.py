"""Constant folding of ONNX ops: FOLDED maps an op name to a numpy function. A result over MAX_FOLDED bytes is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce as accumulated
from math import ceil, erf, prod
from typing import Any

import numpy as np

from ...quantize.convert import along
from ..quantised_constants import Array
from ..unsupported import Unsupported, normalised_axis

Function = Callable[..., Any]
ERF = np.vectorize(erf, otypes=[np.float64])
MAX_FOLDED = 1 << 26  # bytes of one folded constant
DTYPES = {  # TensorProto.DataType -> numpy type; float16, bfloat16 and float64 become float32
    **{1: "float32", 10: "float32", 11: "float32", 16: "float32"},
    **{2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 12: "uint32", 13: "uint64"},
}


def checked_size(shape: Iterable[Any], itemsize: int = 8) -> tuple[int, ...]:
    """Return a shape as ints; raise Unsupported if its elements, of `itemsize` bytes, exceed MAX_FOLDED bytes."""
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


def _range(*given: Any) -> Array:
    start, limit, delta = (np.ravel(each)[0] for each in given)
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
    """Return the folding function of a reduction, whose axes are an attribute or, in later opsets, the second input."""

    def apply(
        x: Array, given: Array | None = None, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Array:
        chosen = tuple(map(int, next((each for each in (given, axes) if each is not None), ())))
        if not x.size and function in (np.max, np.min):
            raise Unsupported("it reduces a constant without elements")
        return np.asarray(function(x, axis=chosen if chosen or noop_with_empty_axes else None, keepdims=bool(keepdims)))

    return apply


def _reshape(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    """Reshape; an extent of 0 in `shape` means the input's extent, unless `allowzero` is set."""
    return x.reshape([x.shape[i] if extent == 0 and not allowzero else int(extent) for i, extent in enumerate(shape)])


def _flatten(x: Array, *, axis: int = 1) -> Array:
    return x.reshape(prod(x.shape[: axis if axis == x.ndim else normalised_axis(x.ndim, axis)]), -1)


def _cast(x: Array, *, to: int, **_: Any) -> Array:
    """Convert to the type with the number `to` of TensorProto.DataType."""
    if to not in DTYPES:
        raise Unsupported(f"it casts to the type number {to} of ONNX, which NumPy lacks")
    return x.astype(DTYPES[to])


def _clip(x: Array, low: Any = None, high: Any = None) -> Array:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _softmax(x: Array, *, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def _matmul(x: Array, y: Array) -> Array:
    rows, columns = x.shape[:-1] or (1,), y.shape[-1:] if y.ndim > 1 else (1,)
    checked_size([*np.broadcast_shapes(rows[:-1], y.shape[:-2]), rows[-1], *columns], x.itemsize)
    return np.asarray(np.matmul(x, y))


def _cumsum(x: Array, along: Any, *, exclusive: int = 0, reverse: int = 0) -> Array:
    axis = int(np.asarray(along).ravel()[0])
    turned = np.flip(x, axis) if reverse else x
    sums = turned.cumsum(axis, dtype=x.dtype) - (turned if exclusive else 0)
    return np.flip(sums, axis) if reverse else sums


def _gather_nd(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    checked_size([*indices.shape[:-1], *x.shape[batch_dims + indices.shape[-1] :]], x.itemsize)
    batch = [along(np.arange(extent), axis, indices.ndim - 1) for axis, extent in enumerate(x.shape[:batch_dims])]
    return np.asarray(x[tuple(batch + list(np.moveaxis(indices, -1, 0)))])


def _scatter_elements(x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none") -> Array:
    if reduction != "none":
        raise Unsupported(f"its reduction is {reduction}; only none is supported")
    changed: Array = x.copy()
    # with extents below those of `x` along other axes, the first elements are written
    part = changed[tuple(slice(None if at == axis % x.ndim else extent) for at, extent in enumerate(indices.shape))]
    np.put_along_axis(part, indices, updates, axis)
    return changed


def _gather_elements(x: Array, indices: Array, *, axis: int = 0) -> Array:
    part = x[tuple(slice(None if at == axis % x.ndim else extent) for at, extent in enumerate(indices.shape))]
    return np.take_along_axis(part, indices, axis)


def _scatter_nd(x: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    if reduction != "none":
        raise Unsupported(f"its reduction is {reduction}; only none is supported")
    changed: Array = x.copy()
    changed[tuple(np.moveaxis(indices, -1, 0))] = updates
    return changed


def _split(x: Array, sizes: Array | None = None, *, axis: int = 0, num_outputs: int = 1) -> list[Array]:
    """Cut into parts of the given sizes, or into `num_outputs` parts of which the last one may be smaller."""
    each = -(-x.shape[axis] // num_outputs)
    ends = [each * (index + 1) for index in range(num_outputs)] if sizes is None else [int(end) for end in np.cumsum(sizes)]
    return np.split(x, ends[:-1], axis)


UNARY = "abs ceil cos cosh exp floor log reciprocal sign sin sinh sqrt tan tanh".split()  # named alike in NumPy
FOLDED: Mapping[str, Function] = {
    **{name.title(): getattr(np, name) for name in UNARY},
    **{f"A{name}".title(): getattr(np, f"arc{name}") for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    "Add": _broadcast(np.add),
    "And": _broadcast(np.logical_and),
    "Cast": _cast,
    "CastLike": lambda x, like, **_: x.astype(like.dtype),
    "Clip": _clip,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "CumSum": _cumsum,
    "Div": _broadcast(_divide),
    "Equal": _broadcast(np.equal),
    "Erf": lambda x: ERF(x).astype(x.dtype),
    "Expand": lambda x, shape: np.broadcast_to(x, checked_size(np.broadcast_shapes(x.shape, tuple(map(int, shape))))),
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Greater": _broadcast(np.greater),
    "GreaterOrEqual": _broadcast(np.greater_equal),
    "Identity": lambda x: x,
    "Less": _broadcast(np.less),
    "LessOrEqual": _broadcast(np.less_equal),
    "MatMul": _matmul,
    "Max": _broadcast(lambda *parts: accumulated(np.maximum, parts)),
    "Mean": _broadcast(lambda *parts: accumulated(np.add, parts) / np.float32(len(parts))),
    "Min": _broadcast(lambda *parts: accumulated(np.minimum, parts)),
    "Mod": _broadcast(lambda x, y, *, fmod=0: np.fmod(x, y) if fmod else np.mod(x, y)),
    "Mul": _broadcast(np.multiply),
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": _broadcast(np.logical_or),
    "Pow": _broadcast(lambda x, y: np.power(x, y).astype(x.dtype)),
    "Range": _range,
    "ReduceL1": _reduction(lambda x, **how: np.abs(x).sum(**how)),
    "ReduceL2": _reduction(lambda x, **how: np.sqrt(np.square(x).sum(**how))),
    "ReduceMax": _reduction(np.max),
    "ReduceMean": _reduction(np.mean),
    "ReduceMin": _reduction(np.min),
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "ReduceSumSquare": _reduction(lambda x, **how: np.square(x).sum(**how)),
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": _reshape,
    "Round": np.rint,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Slice": _slice,
    "Softmax": _softmax,
    "Softplus": lambda x: np.logaddexp(x, x.dtype.type(0)),
    "Split": _split,
    "Squeeze": lambda x, given=None: np.squeeze(x, None if given is None else tuple(map(int, np.ravel(given)))),
    "Sub": _broadcast(np.subtract),
    "Sum": _broadcast(lambda *parts: accumulated(np.add, parts)),
    "Tile": _tile,
    "Transpose": lambda x, *, perm=None: np.transpose(x, perm),
    "Trilu": lambda x, diagonal=0, *, upper=1: (np.triu if upper else np.tril)(x, int(np.ravel(diagonal)[0])),
    "Unsqueeze": lambda x, given: np.expand_dims(x, tuple(map(int, np.ravel(given)))),
    "Where": _broadcast(np.where),
    "Xor": _broadcast(np.logical_xor),
}
