"""Convert inputs of the rewritten network to inputs of the file, before stripped quantize, dequantize and transposes."""

from __future__ import annotations

import numpy as np

from ..ir import Graph
from ..ops import SPECS
from ..ops.data_movement import permutation
from .tensor_map import TensorMap, source


def as_other_sign(values: np.ndarray, dtype: str) -> np.ndarray:
    """Convert int8 values to uint8 (+ 128) or uint8 values to int8 (- 128), if they are not floats or of type `dtype`."""
    if values.dtype in (np.dtype(dtype), np.float32):
        return values
    return np.asarray(np.bitwise_xor(values.view(np.uint8), np.uint8(128)).view(dtype))


def as_in_file(original: Graph, tensors: TensorMap, name: str, values: np.ndarray) -> np.ndarray | None:
    """Return the values of the file's input that the stripped ops convert to exactly these `values`; None if none do."""
    home = source(tensors, name)[0]
    if home in original.inputs:
        return as_other_sign(values, original.tensors[home].dtype)
    op = original.ops[original.producer[home]]
    outer, inner = original.input(op), original.output(op)
    if op.kind == "transpose":
        fed = np.ascontiguousarray(as_other_sign(values, outer.dtype).transpose(np.argsort(permutation(original, op))))
        return fed if outer.name in original.inputs else as_in_file(original, {}, outer.name, fed)
    if values.dtype == np.float32:  # write_input computes the conversion
        return values.reshape(outer.shape)
    values = as_other_sign(values, inner.dtype)
    real = np.float32(inner.scale) * (values.astype(np.int32) - inner.zero_point).astype(np.float32)
    wanted = real if outer.dtype == "float32" else np.clip(np.round(real / outer.scale) + outer.zero_point, 0, 255)
    fed = wanted.astype(outer.dtype).reshape(outer.shape)
    return fed if np.array_equal(SPECS[op.kind].reference(original, op, [fed])[0], values) else None
