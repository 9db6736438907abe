"""Replace ops whose inputs are all constant, and `shape`, by constants, computed by the numpy reference."""

from __future__ import annotations

from dataclasses import replace

from .. import ops
from ..ir import Graph, Op, is_constant, rebuild
from .effort import effort
from .tensor_map import TensorMap

MAX_BYTES = 1 << 23  # total size of all results: no microcontroller has the Flash for more
MAX_EFFORT = 1 << 28  # multiply-accumulates; a file of a few bytes may ask for hours of folding


def fold_constants(graph: Graph) -> tuple[Graph, TensorMap]:
    """Replace ops known at compile time by constants of at most MAX_BYTES together, at a cost of at most MAX_EFFORT."""
    tensors = dict(graph.tensors)
    known = replace(graph, tensors=tensors)  # a view that includes the constants folded so far
    unfolded: list[Op] = []
    room, left = MAX_BYTES, MAX_EFFORT
    for op in graph.ops:
        if not _is_known(known, op):
            unfolded.append(op)
            continue
        ops.check(replace(known, ops=(op,)))
        size, work = sum(tensor.bytes for tensor in known.outputs_of(op)), effort(known, op)
        if size > room or work > left:
            unfolded.append(op)
            continue
        room, left = room - size, left - work
        arrays = [None if tensor is None else tensor.data for tensor in known.inputs_of(op)]
        for tensor, data in zip(known.outputs_of(op), ops.spec_for(known, op).reference(known, op, arrays), strict=True):
            tensors[tensor.name] = replace(tensor, data=data, role="constant")
    return rebuild(graph, tensors=tensors, ops=tuple(unfolded)), {}


def _is_known(graph: Graph, op: Op) -> bool:
    inputs = [tensor for tensor in graph.inputs_of(op) if tensor is not None]
    writes_state = any(tensor.role == "state" for tensor in graph.outputs_of(op))
    return not writes_state and op.kind in ops.SPECS and (op.kind == "shape" or all(map(is_constant, inputs)))
