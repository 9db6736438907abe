"""Transposes at the edges are dropped, so that the network takes and gives maps with their channels last, as cameras do.

An input [n, c, h, w] that only a transpose to [n, h, w, c] reads becomes that transpose's output; an output that a transpose
makes of such a map becomes the map. Networks that come from PyTorch have them.
"""

from __future__ import annotations

from ..ir import Graph, Op, rebuild
from ..ops.data_movement import permutation
from .tensor_map import TensorMap

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def strip_transposes(graph: Graph) -> tuple[Graph, TensorMap]:
    dropped: set[int] = set()
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    for position, name in enumerate(graph.inputs):
        readers = graph.consumers.get(name, ())
        op = graph.ops[readers[0]] if len(readers) == 1 and name not in graph.outputs else None
        if op is not None and _turns(graph, op, TO_LAST) and op.outputs[0] not in graph.outputs:
            dropped.add(readers[0])
            inputs[position] = op.outputs[0]
    for position, name in enumerate(graph.outputs):
        op = graph.ops[graph.producer[name]] if name in graph.producer and name not in graph.consumers else None
        if op is None or not _turns(graph, op, TO_FIRST) or graph.outputs.count(name) > 1:
            continue
        source = op.inputs[0]
        if source in graph.producer and source not in (*inputs, *graph.outputs):
            dropped.add(graph.producer[name])
            outputs[position] = source
    ops = tuple(op for index, op in enumerate(graph.ops) if index not in dropped)
    return rebuild(graph, ops=ops, inputs=tuple(inputs), outputs=tuple(outputs)), {}


def _turns(graph: Graph, op: Op, order: tuple[int, ...]) -> bool:
    return op.kind == "transpose" and len(graph.input(op).shape) == 4 and permutation(graph, op) == order
