"""Merge constants of equal type, shape, quantisation and values."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Graph, rebuild
from .tensor_map import TensorMap


def share_constants(graph: Graph) -> tuple[Graph, TensorMap]:
    """Merge constants of equal type, shape, quantisation and values, so that the Flash holds them once."""
    first: dict[tuple[object, ...], str] = {}
    names: dict[str | None, str] = {}
    for name, tensor in graph.tensors.items():
        if tensor.data is not None and name not in graph.outputs:
            names[name] = first.setdefault((tensor.dtype, tensor.shape, tensor.quant, tensor.data.tobytes()), name)
    ops = tuple(replace(op, inputs=tuple(names.get(name, name) for name in op.inputs)) for op in graph.ops)
    return rebuild(graph, ops=ops), {}
