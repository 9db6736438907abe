"""Ops and tensors that no output and no state needs are dropped; the graph's inputs stay, they are its interface."""

from __future__ import annotations

from ..ir import Graph, Op, rebuild
from .tensor_map import TensorMap


def drop_unused(graph: Graph) -> tuple[Graph, TensorMap]:
    needed = {*graph.outputs, *(name for name, tensor in graph.tensors.items() if tensor.role == "state")}
    kept: list[Op] = []
    for op in reversed(graph.ops):
        reads = [name for name in op.inputs if name is not None]
        touches_state = any(graph.tensors[name].role == "state" for name in reads)
        if touches_state or not needed.isdisjoint(op.outputs):
            kept.append(op)
            needed.update(reads)
    return rebuild(graph, ops=tuple(reversed(kept))), {}
