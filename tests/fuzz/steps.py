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

    `x` has real numbers, or int8 or uint8 integers. A uint8 integer is 128 more than the int8 integer of the graph.
    """
    (source,), (target,) = ((graph.tensors[name] for name in names) for names in (graph.inputs, graph.outputs))
    assert {tensor.dtype for tensor in graph.tensors.values()} <= {"int8", "int32"}
    assert source.quant and target.quant
    given = last(x).astype(np.int16) - 128 * (x.dtype == np.uint8) if x.dtype.kind in "iu" else quantised(last(x), source.quant)
    found = ops.run(graph, {source.name: given.astype(np.int8)})[target.name]
    wanted = quantised(last(y), target.quant).reshape(found.shape)
    return np.abs(found.astype(np.int32) - wanted)
