"""Conversions at the edges are dropped, so that the network takes and gives int8.

An input that only a quantize reads becomes that quantize's int8 output; an output that a dequantize or quantize makes of
an int8 tensor becomes that tensor. Scales and zero points stay on the tensors: the caller converts, or feeds int8 at once.
"""

from __future__ import annotations

from ..ir import Graph, Op
from .rewrite import stripped
from .tensor_map import TensorMap

OUTSIDE = ("float32", "uint8")  # what an int8 network is fed with, or read as


def strip_edges(graph: Graph) -> tuple[Graph, TensorMap]:
    return stripped(graph, _opens, _closes), {}


def _opens(graph: Graph, op: Op) -> bool:
    return op.kind == "quantize" and graph.input(op).dtype in OUTSIDE and graph.output(op).dtype == "int8"


def _closes(graph: Graph, op: Op) -> bool:
    return op.kind in ("dequantize", "quantize") and graph.input(op).dtype == "int8" and graph.output(op).dtype in OUTSIDE
