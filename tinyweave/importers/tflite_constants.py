"""Constants of a .tflite file as dense arrays: float16 and integers as float32, and sparse tensors with their zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import tflite
from numpy.typing import NDArray

from ..ir import CompileError, Op, Tensor
from ..ops import SPECS

Numbers = NDArray[np.int64]
Vector = Callable[[Any, str], NDArray[Any]]  # reads the vector of a flatbuffer table by its field's name
# kinds with float32 outputs whose LiteRT kernels read the stored integers of a quantised constant, as all kinds that move do
TAKES_INTEGERS = (
    "cast",
    "dequantize",
    "detection_postprocess",
    "one_hot",
    *(kind for kind, spec in SPECS.items() if spec.moves),
)
HYBRID = ("int4", "int8", "uint8")  # types of weights that LiteRT's kernels of float32 activations read
# tables that hold the integers of a sparse axis
INDEX_TABLES = {
    tflite.SparseIndexVector.Int32Vector: tflite.Int32Vector,
    tflite.SparseIndexVector.Uint16Vector: tflite.Uint16Vector,
    tflite.SparseIndexVector.Uint8Vector: tflite.Uint8Vector,
}
DAMAGED = "the file may be damaged"


def real_values(tensor: Tensor) -> NDArray[np.float32]:
    """Return the real numbers of a quantised constant; its scales are per tensor or per channel."""
    quant, values = tensor.quant, tensor.data
    assert quant is not None and values is not None
    scale, zero = (np.array(numbers, np.float64) for numbers in (quant.scale, quant.zero_point))
    if quant.axis is not None:
        if not (0 <= quant.axis < values.ndim and scale.size == zero.size == values.shape[quant.axis]):
            why = f"has {scale.size} scales and {zero.size} zero points for axis {quant.axis} of {values.shape}"
            raise CompileError(why, DAMAGED, tensor=tensor)
        scale, zero = (numbers.reshape(-1, *(1,) * (values.ndim - 1 - quant.axis)) for numbers in (scale, zero))
    return np.asarray(scale * (values - zero), np.float32)


def real_weights(op: Op, tensors: dict[str, Tensor], claim: Callable[[int, bool, str], None]) -> Op:
    """Return a float32 op with quantised constants as float32 constants, added to `tensors`; `claim` counts their bytes."""
    if op.kind in TAKES_INTEGERS or not op.outputs or tensors[op.outputs[0]].dtype != "float32":
        return op
    names = list(op.inputs)
    for index, name in enumerate(names):
        tensor = tensors[name] if name is not None else None
        if tensor is None or tensor.data is None or tensor.quant is None or tensor.dtype not in HYBRID:
            continue
        real = f"{name}.real"
        if real not in tensors:
            claim(4 * tensor.elements, False, real)
            tensors[real] = replace(tensor, name=real, dtype="float32", quant=None, data=real_values(tensor))
        names[index] = real
    return replace(op, inputs=tuple(names))


def dense(
    table: tflite.SparsityParameters, values: NDArray[Any], shape: Sequence[int], vector: Vector, name: str
) -> NDArray[Any]:
    """Return a sparse tensor as an array of its `shape`, with 0 for the elements that the file leaves out.

    The file stores a tree: the axes in an order that it states, then the axes of blocks. A level has all indices of its axis,
    or those of a compressed row. Every number is checked, since the file may be damaged. `vector` reads a vector of a table.
    """
    order, blocked = (vector(table, field).tolist() for field in ("TraversalOrder", "BlockMap"))
    rank, levels = len(shape), len(order)
    is_possible = sorted(order[:rank]) == list(range(rank)) and sorted(order[rank:]) == list(range(rank, levels))
    is_possible &= levels == rank + len(blocked) == table.DimMetadataLength() and len(set(blocked)) == len(blocked)
    if not is_possible or not all(0 <= axis < rank for axis in blocked):
        raise _damaged("its axes and blocks do not match", name)
    rows = [table.DimMetadata(level) for level in range(levels)]
    sizes = {order[level]: rows[level].DenseSize() for level in range(rank, levels)}
    extents = list(shape) + [sizes[rank + block] for block in range(len(blocked))]
    for block, axis in enumerate(blocked):
        size = extents[rank + block]
        if size < 1 or extents[axis] % size:
            raise _damaged(f"blocks of {size} do not divide axis {axis} of {tuple(shape)}", name)
        extents[axis] //= size
    place, at, most = np.zeros(1, np.int64), np.zeros((1, levels), np.int64), prod(shape)
    for row, axis in zip(rows, order, strict=True):
        if row.Format() == tflite.DimensionType.DENSE and (
            row.DenseSize() != extents[axis] or len(place) * extents[axis] > most
        ):
            raise _damaged(f"it has a dense axis of {row.DenseSize()} where {extents[axis]} are needed", name)
        parent, index, place = _entries(row, place, extents[axis], vector, name)
        if index.size > most:
            raise _damaged("it has more elements than its shape", name)
        at = at[parent]
        at[:, axis] = index
    if len(at) != values.size:
        raise _damaged(f"it has {values.size:,} values for {len(at):,} elements", name)
    for block, axis in enumerate(blocked):
        at[:, axis] = at[:, axis] * extents[rank + block] + at[:, rank + block]
    whole = np.zeros(tuple(shape), values.dtype)
    whole[tuple(at[:, :rank].T)] = values
    return whole


def _entries(row: tflite.DimensionMetadata, place: Numbers, extent: int, vector: Vector, name: str) -> tuple[Numbers, ...]:
    """Return (parents, indices, places) of the elements of a level with `extent` indices; `place` has the parents' places."""
    if row.Format() == tflite.DimensionType.DENSE:
        parent, index = np.repeat(np.arange(len(place)), extent), np.tile(np.arange(extent), len(place))
        return parent, index, place[parent] * extent + index
    ends = _integers(row.ArraySegmentsType(), row.ArraySegments(), vector, name)
    indices = _integers(row.ArrayIndicesType(), row.ArrayIndices(), vector, name)
    is_ordered = ends.size > 0 and ends[0] == 0 and ends[-1] == indices.size and bool((np.diff(ends) >= 0).all())
    if not is_ordered or place.max(initial=-1) + 1 >= ends.size or bool(((indices < 0) | (indices >= extent)).any()):
        raise _damaged("its indices are outside an axis", name)
    counts = ends[place + 1] - ends[place]
    if counts.sum() > indices.size:
        raise _damaged("its elements repeat", name)
    parent = np.repeat(np.arange(len(place)), counts)
    inside = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = ends[place][parent] + inside
    return parent, indices[chosen], chosen


def _integers(kind: int, union: Any, vector: Vector, name: str) -> Numbers:
    if kind not in INDEX_TABLES or union is None:
        raise _damaged("it lacks the indices of an axis", name)
    table = INDEX_TABLES[kind]()
    table.Init(union.Bytes, union.Pos)
    return vector(table, "Values").astype(np.int64)


def _damaged(why: str, name: str) -> CompileError:
    return CompileError(f"is stored sparse in a form that cannot be read: {why}", DAMAGED, tensor=name)
