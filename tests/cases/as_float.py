"""The generated cases in float32, with the dequantised values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from cases.ops import Case

from tinyweave.ir import Tensor, verify


def real(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """Return dequantised values; values without a scale are unchanged."""
    if tensor.quant is None:
        return values
    if tensor.quant.axis is None:
        return (tensor.scale * (values.astype(np.float64) - tensor.zero_point)).astype(np.float32)
    shape = [-1 if axis == tensor.quant.axis else 1 for axis in range(len(tensor.shape))]
    return (np.array(tensor.quant.scale).reshape(shape) * values).astype(np.float32)


def float_case(case: Case) -> Case:
    tensors = {}
    for tensor in case.graph.tensors.values():
        data = tensor.data if tensor.data is None or tensor.quant is None else real(tensor, tensor.data)
        dtype = "float32" if tensor.quant is not None else tensor.dtype
        tensors[tensor.name] = replace(tensor, dtype=dtype, data=data, quant=None)
    inputs = [
        [real(case.graph.tensors[n], x) for n, x in zip(case.graph.inputs, sample, strict=True)] for sample in case.inputs
    ]
    return Case(case.id, verify(replace(case.graph, tensors=tensors)), inputs)
