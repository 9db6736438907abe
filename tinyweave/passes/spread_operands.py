"""Repeat an operand that broadcasts along too many alternating axes for a kernel, with a broadcast_to before the op."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..ir import Graph, Op, rebuild
from ..ops import spec_of
from ..ops.elementwise import MAX_AXES, merged_axes
from .rewrite import integers, of_each_op, unused


@of_each_op
def spread_operands(graph: Graph, op: Op) -> Graph:
    """Insert a broadcast_to before elementwise ops whose operands broadcast along more than MAX_AXES merged axes."""
    if spec_of(op).family not in ("binary", "comparison") or len(op.inputs) != 2:
        return graph
    shapes, out = [graph.input(op, index).shape for index in (0, 1)], graph.output(op).shape
    for index in sorted((0, 1), key=lambda index: prod(shapes[index])):
        if len(merged_axes(*shapes)) > MAX_AXES:
            shapes[index] = out
            graph = _repeated(graph, next(each for each in graph.ops if each.name == op.name), index)
    return graph


def _repeated(graph: Graph, op: Op, index: int) -> Graph:
    """Return the graph in which a broadcast_to before `op` repeats its input `index` to the shape of the op's output."""
    x, shape = graph.input(op, index), graph.output(op).shape
    extents = integers(graph, op, f"shape{index}", shape)
    made = replace(x, name=unused(f"{op.name}.operand{index}", graph.tensors), shape=shape, data=None, role="activation")
    spread = Op(f"{op.name}_operand{index}", "broadcast_to", (x.name, extents.name), (made.name,))
    reads = replace(op, inputs=tuple(made.name if at == index else name for at, name in enumerate(op.inputs)))
    ops = [part for each in graph.ops for part in ((spread, reads) if each.name == op.name else (each,))]
    return rebuild(graph, tensors={**graph.tensors, extents.name: extents, made.name: made}, ops=tuple(ops))
