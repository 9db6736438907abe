"""Read the tensors and buffers of a .tflite file, within limits on what an untrusted file may ask for."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import inf, prod
from typing import Any

import numpy as np
import tflite

from ..ir import CompileError, Quant, Tensor, array_type, itemsize, limits, run_bytes, unpacked
from ..tflite_schema import MAX_RANK, TYPES, names_of
from .tflite_constants import dense

# Limits on what a file may ask for, each several times what the largest of a hundred real networks needs.
MAX_COUNT = 1 << 16  # number of tensors, and of operands of all ops together
MAX_OPS = 1 << 11  # ops; the time of some passes grows with their square
MAX_BYTES = 1 << 24  # bytes of one tensor, and of all state together; more than any microcontroller has
MAX_TOTAL = 1 << 27  # bytes of all tensors together; the passes visit every element
# TFLite type that no op supports -> supported type of the same size, so that the tensor's bytes are counted right; float16
# becomes float32
AS_LARGE = {"FLOAT16": "float32", "BFLOAT16": "int16", "UINT16": "int16", "UINT32": "int32", "UINT64": "int64"}
AS_LARGE |= {"FLOAT64": "int64", "COMPLEX64": "int64"}
TYPE_NAMES = names_of(tflite.TensorType)
DTYPES = {code: name for name, code in TYPES.items()}


class DamagedError(ValueError):
    """An inconsistency of a file, as the end of the sentence "not a readable .tflite file: ..."."""


class File:
    """A .tflite file, with counters that limit the bytes read from it and the bytes of its tensors.

    Vectors of a valid file do not overlap, so at most twice its size is read. Call `claim` before a tensor is created: a small
    file can declare gigabytes.
    """

    def __init__(self, data: bytes, model: tflite.Model, *, tolerant: bool = False):
        """Wrap the file; if `tolerant` is set, ops of unknown kinds are no error."""
        self.data, self.model, self.tolerant = data, model, tolerant
        self._left = 2 * len(data)
        self._tensors = self._state = self._decompositions = 0
        self._buffers: dict[tuple[int, str], np.ndarray[Any, Any]] = {}

    def _spend(self, count: int) -> None:
        """Count bytes as read; raise DamagedError if more than twice the file has been read."""
        self._left -= count
        if self._left < 0:
            raise DamagedError("its parts overlap")

    def claim(self, count: int, is_state: bool, name: str) -> None:
        """Count the bytes of the tensor `name`; raise CompileError if all tensors, or all state tensors, exceed their limit."""
        self._tensors += count
        self._state += count if is_state else 0
        for what, total, limit in (("tensors", self._tensors, MAX_TOTAL), ("variables", self._state, MAX_BYTES)):
            if total > limit:
                raise CompileError(f"brings all {what} to {total:,} bytes", f"at most {limit:,} are supported", tensor=name)

    def claim_decomposition(self) -> None:
        """Count a decomposition that is read; raise CompileError if there are more than MAX_OPS."""
        self._decompositions += 1
        if self._decompositions > MAX_OPS:
            raise CompileError("the file has too many composites", f"at most {MAX_OPS} are supported")

    def vector(self, table: Any, field: str) -> np.ndarray[Any, Any]:
        """Return the vector `field` of a flatbuffer table as an array, empty if the file lacks it."""
        if getattr(table, f"{field}Length")() == 0:
            return np.zeros(0, np.int32)
        values: np.ndarray[Any, Any] = getattr(table, f"{field}AsNumpy")()
        self._spend(values.nbytes)
        return values

    def text(self, value: bytes | None) -> str:
        """Decode a string of the file; None, an absent string, becomes ""."""
        self._spend(len(value or b""))
        return (value or b"").decode(errors="replace")

    def buffer(self, index: int, dtype: str) -> np.ndarray[Any, Any] | None:
        """Return the buffer as a shared read-only array of `dtype`, int4 values packed, or None if it is empty."""
        if not 0 <= index < self.model.BuffersLength():
            raise DamagedError(f"buffer {index} of {self.model.BuffersLength()}")
        if (index, dtype) not in self._buffers:
            table = self.model.Buffers(index)
            if table.Offset() > 1:  # data after the flatbuffer; the offset counts from the start of the file
                raw = np.frombuffer(self.data, np.uint8, table.Size(), table.Offset())
                self._spend(raw.nbytes)
            else:
                raw = self.vector(table, "Data")
            if raw.nbytes == 0:
                return None
            if raw.nbytes % itemsize(dtype):
                raise DamagedError(f"buffer {index} has {raw.nbytes:,} bytes, not a multiple of the size of {dtype}")
            values = raw != 0 if dtype == "bool" else raw.view(array_type(dtype).newbyteorder("<")).astype(array_type(dtype))
            values.setflags(write=False)
            self._buffers[index, dtype] = values
        return self._buffers[index, dtype]


def indices(values: Iterable[Any], lower_bound: int, count: int) -> list[int]:
    """Return tensor indices as ints; raise DamagedError if one is outside [lower_bound, count)."""
    indices = [int(value) for value in values]
    for index in indices:
        if not lower_bound <= index < count:
            raise DamagedError(f"tensor {index} of {count}")
    return indices


def unique(name: str, index: int, taken: Container[str]) -> str:
    """Return `name`, with `index` and underscores appended if `taken` contains it."""
    if name in taken:
        name = f"{name}_{index}"
    while name in taken:
        name += "_"
    return name


def claimed(file: File, table: tflite.Tensor, name: str) -> tuple[str, tuple[int, ...]]:
    """Count the tensor's bytes against the file's limits; return its shape and dtype (of equal size if unsupported)."""
    if table.ShapeLength() > MAX_RANK:
        raise CompileError(f"has {table.ShapeLength()} axes", f"at most {MAX_RANK} are supported", tensor=name)
    dtype = DTYPES.get(table.Type(), AS_LARGE.get(TYPE_NAMES.get(table.Type(), ""), "int8"))
    shape = tuple(map(int, file.vector(table, "Shape")))
    if any(extent < 0 for extent in shape):
        raise CompileError(f"has the shape {shape}", "export the model with fixed shapes", tensor=name)
    # an axis of extent 0 makes the tensor empty, but its other axes are limited too
    if (size := prod(max(extent, 1) for extent in shape) * itemsize(dtype)) > MAX_BYTES:
        raise CompileError(f"has {size:,} bytes", f"at most {MAX_BYTES:,} are supported", tensor=name)
    file.claim(prod(shape) * itemsize(dtype), table.IsVariable(), name)
    return dtype, shape


def tensor_of(
    file: File, table: tflite.Tensor, name: str, written: bool, *, is_edge: bool = False, dtype: str, shape: tuple[int, ...]
) -> Tensor:
    """Convert the flatbuffer `table` to a Tensor, or raise CompileError if its type, scales or data are not supported.

    `written` tensors are computed, or inputs. Only inputs and outputs of the network (`is_edge`) may stay float16.
    """
    is_half = table.Type() == tflite.TensorType.FLOAT16 and not is_edge and not table.IsVariable()
    if table.Type() not in DTYPES and not is_half:
        raise CompileError(
            f"has the type {TYPE_NAMES.get(table.Type(), f'number {table.Type()}')}",
            f"supported types: {', '.join(TYPES)}",
            tensor=name,
        )
    size = prod(shape) * itemsize(dtype)
    quant = quant_of(file, table.Quantization(), name, len(shape))
    if quant and dtype in ("int4", "int8", "uint8", "int16"):
        low, high = limits(dtype)
        wrong = [zero for zero in quant.zero_point if not low <= zero <= high]
        if wrong:
            raise CompileError(
                f"has the zero point {wrong[0]}, which {dtype} cannot hold", "the file may be damaged", tensor=name
            )
    values = file.buffer(table.Buffer(), "float16" if is_half else dtype)
    if is_half and values is not None:
        values = values.astype(np.float32)
    if dtype == "int4" and values is None:
        raise CompileError("is an int4 activation", "only constants may be int4; quantise activations to int8", tensor=name)
    if table.IsVariable():
        if values is not None or written:
            raise CompileError("is a variable, but an op writes it or it has data", "the file may be damaged", tensor=name)
        return Tensor(name, shape, dtype, quant, role="state")
    if values is None:
        if written:
            return Tensor(name, shape, dtype, quant)
        if size:
            raise CompileError("has no data and no op computes it", "export the model with its weights", tensor=name)
        values = np.zeros(0, dtype)
    if (sparsity := table.Sparsity()) is not None:
        if dtype == "int4":
            raise CompileError("is int4 and stored sparse", "export the model with dense weights", tensor=name)
        values = dense(sparsity, values, shape, file.vector, name)
    needed = run_bytes(prod(shape), dtype)
    if values.nbytes != needed:
        raise CompileError(
            f"needs {needed:,} bytes but its buffer has {values.nbytes:,}", "the file may be damaged", tensor=name
        )
    if dtype == "int4":
        values = unpacked(values, size)
        values.setflags(write=False)
    return Tensor(name, shape, dtype, quant, values.reshape(shape), "constant")


def quant_of(file: File, table: tflite.QuantizationParameters | None, name: str, rank: int) -> Quant | None:
    """Return the quantisation of the tensor `name`, with `rank` axes, or None if it has no scale or only scales of 0."""
    if table is None:
        return None
    if table.DetailsType() != tflite.QuantizationDetails.NONE:
        raise CompileError("has a custom quantisation", "use scales and zero points", tensor=name)
    if table.ScaleLength() > MAX_COUNT:
        raise CompileError(f"has {table.ScaleLength()} scales", f"at most {MAX_COUNT} are supported", tensor=name)
    scale = tuple(map(float, file.vector(table, "Scale")))
    if not any(scale):
        return None
    if not all(0 < s < inf for s in scale):
        raise CompileError("has a quantisation scale that is not a positive number", "export the model again", tensor=name)
    zero_point = tuple(map(int, file.vector(table, "ZeroPoint")))
    axis = table.QuantizedDimension() if len(scale) > 1 else None
    if axis is not None and rank == 1:
        axis = 0  # old converters give a bias the axis of its depthwise filters, 3
    return Quant(scale, zero_point, axis)
