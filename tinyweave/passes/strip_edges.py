"""Conversions at the edges are dropped, so that the network takes and gives int8.

An input that only a quantize reads becomes that quantize's int8 output; an output that a dequantize or quantize makes of
an int8 tensor becomes that tensor. Scales and zero points stay on the tensors: the caller converts, or feeds int8 at once.
"""

from __future__ import annotations

from ..ir import Graph, rebuild
from .tensor_map import TensorMap

OUTSIDE = ("float32", "uint8")  # what an int8 network is fed with, or read as


def strip_edges(graph: Graph) -> tuple[Graph, TensorMap]:
    dropped: set[int] = set()
    inputs = []
    for name in graph.inputs:
        inner = _inner_input(graph, name)
        if inner is not None:
            dropped.add(graph.consumers[name][0])
        inputs.append(inner or name)
    outputs = []
    for name in graph.outputs:
        inner = _inner_output(graph, name, inputs)
        if inner is not None:
            dropped.add(graph.producer[name])
        outputs.append(inner or name)
    ops = tuple(op for index, op in enumerate(graph.ops) if index not in dropped)
    return rebuild(graph, ops=ops, inputs=tuple(inputs), outputs=tuple(outputs)), {}


def _inner_input(graph: Graph, name: str) -> str | None:
    """Return the int8 tensor that takes over from the input `name`, if one can."""
    readers = graph.consumers.get(name, ())
    if graph.tensors[name].dtype not in OUTSIDE or len(readers) != 1 or name in graph.outputs:
        return None
    op = graph.ops[readers[0]]
    if op.kind != "quantize" or graph.output(op).dtype != "int8" or op.outputs[0] in graph.outputs:
        return None
    return op.outputs[0]


def _inner_output(graph: Graph, name: str, inputs: list[str]) -> str | None:
    """Return the int8 tensor that takes over from the output `name`, if one can."""
    if graph.tensors[name].dtype not in OUTSIDE or name not in graph.producer or name in graph.consumers:
        return None
    op = graph.ops[graph.producer[name]]
    source = graph.input(op)
    if op.kind not in ("dequantize", "quantize") or source.dtype != "int8":
        return None
    if source.name not in graph.producer or source.name in (*inputs, *graph.outputs) or graph.outputs.count(name) > 1:
        return None
    return source.name
