"""Drop ops and tensors on which neither an output nor a state depends.

The graph's inputs stay even if no op reads them. State tensors stay, and so do the ops that change them.
"""

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
