"""Ops whose result is known before the network runs become constants, computed by the numpy reference.

Known are the results of ops with constant inputs only, and of `shape`, since every shape is static.
"""

from __future__ import annotations

from dataclasses import replace

from .. import ops
from ..ir import Graph, Op, is_constant, rebuild
from .tensor_map import TensorMap

MAX_BYTES = 1 << 24  # no microcontroller has the Flash for more; bounds what a hostile file can make us compute


def fold_constants(graph: Graph) -> tuple[Graph, TensorMap]:
    tensors = dict(graph.tensors)
    known = replace(graph, tensors=tensors)  # sees the constants as they are found
    kept: list[Op] = []
    for op in graph.ops:
        if not _is_known(known, op):
            kept.append(op)
            continue
        ops.check(replace(known, ops=(op,)))
        arrays = [None if tensor is None else tensor.data for tensor in known.inputs_of(op)]
        for tensor, data in zip(known.outputs_of(op), ops.SPECS[op.kind].reference(known, op, arrays), strict=True):
            tensors[tensor.name] = replace(tensor, data=data, role="constant")
    return rebuild(graph, tensors=tensors, ops=tuple(kept)), {}


def _is_known(graph: Graph, op: Op) -> bool:
    inputs = [tensor for tensor in graph.inputs_of(op) if tensor is not None]
    outputs = graph.outputs_of(op)
    foldable = sum(tensor.bytes for tensor in outputs) <= MAX_BYTES and all(tensor.role != "state" for tensor in outputs)
    return foldable and op.kind in ops.SPECS and (op.kind == "shape" or all(map(is_constant, inputs)))
