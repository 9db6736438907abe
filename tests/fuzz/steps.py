"""Errors of int8 graphs that another tool quantised, in quantisation steps."""

from __future__ import annotations

import numpy as np

from tinyweave import ops
from tinyweave.ir import Graph
from tinyweave.quantize.convert import quantised


def last(values: np.ndarray) -> np.ndarray:
    """Return a value [n, c, h, w] with its channels last, any other value as it is."""
    return np.moveaxis(values, 1, -1) if values.ndim == 4 else values


def steps_apart(graph: Graph, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the error of the int8 graph's output in quantisation steps; x and y are channels first.

    `x` has real numbers, or int8 or uint8 integers. A uint8 integer is 128 more than the integer of an int8 input.
    """
    (source,), (target,) = ((graph.tensors[name] for name in names) for names in (graph.inputs, graph.outputs))
    assert {tensor.dtype for tensor in graph.tensors.values()} <= {"int8", "int32", "uint8"}
    assert source.quant and target.quant
    shift = 128 * (x.dtype == np.uint8 and source.dtype == "int8")
    is_real = x.dtype.kind not in "iu"
    given = quantised(last(x), source.quant, source.dtype) if is_real else last(x).astype(np.int16) - shift
    found = ops.run(graph, {source.name: given.astype(source.dtype)})[target.name]
    wanted = quantised(last(y), target.quant, target.dtype).reshape(found.shape)
    return np.abs(found.astype(np.int32) - wanted)
