"""Drop ops and tensors on which neither an output nor a state depends; the graph's inputs and states stay."""

from __future__ import annotations

from ..ir import Graph, Op, rebuild
from .tensor_map import TensorMap


def drop_unused(graph: Graph) -> tuple[Graph, TensorMap]:
    """Drop ops and tensors on which neither an output nor a state depends."""
    needed = {*graph.outputs, *(name for name, tensor in graph.tensors.items() if tensor.role == "state")}
    ops: list[Op] = []
    for op in reversed(graph.ops):
        if not needed.isdisjoint(op.outputs):
            ops.append(op)
            needed.update(name for name in op.inputs if name is not None)
    return rebuild(graph, ops=tuple(reversed(ops))), {}
