"""Replace ops that copy their whole input in unchanged order by reshapes, which need neither code nor memory.

Examples: a split into one part, a transpose of axes of extent 1, a tile by 1, a pad by 0, and a clamp to all values of the
type, which is left of a float clamp if the scale is chosen for the clamped values.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from .. import ops
from ..ir import Graph, Op, Tensor, limits
from ..ops.data_movement import PIECES, pieces
from ..ops.extrema import CLAMPS, takes_larger
from .rewrite import exchange, of_each_op


@of_each_op
def copies_to_views(graph: Graph, op: Op) -> Graph:
    """Replace each op that copies its whole input in unchanged order by a reshape."""
    if not copies_all(graph, op):
        return graph
    return exchange(graph, [replace(op, kind="reshape", inputs=(_source(graph, op).name,), attrs={"new_shape": None})])


def _source(graph: Graph, op: Op) -> Tensor:
    """Return the operand that `op` may copy: its data operand or, of a clamp, the operand that is not constant."""
    computed = [t for t in graph.inputs_of(op) if t is not None and t.data is None] if op.kind in CLAMPS else []
    return computed[0] if computed else ops.data(graph, op)


def copies_all(graph: Graph, op: Op) -> bool:
    """Return whether `op` has one output, which holds all elements of its input in the same order."""
    keeps_all = len(op.outputs) == 1 and graph.output(op).elements == _source(graph, op).elements
    if not keeps_all:
        return False
    family = ops.SPECS[op.kind].family
    if op.kind in CLAMPS:
        return _clamps_nothing(graph, op)
    if family == "reduction":  # of single elements, which stay as they are unless their quantisation changes
        return graph.output(op).quant == graph.input(op).quant
    is_single = family == "pad" or (family == "join" and len(op.inputs) == 1)
    return is_single or (op.kind in PIECES and _one_piece_in_order(graph, op))


def _clamps_nothing(graph: Graph, op: Op) -> bool:
    """Return whether the constant operand of a maximum (minimum) of integers is the least (largest) integer of their type."""
    ends, quant = [t.data for t in graph.inputs_of(op) if t is not None and t.data is not None], graph.output(op).quant
    if quant is None or len(ends) != 1:
        return False
    least, most = limits(graph.output(op).dtype)
    return bool((ends[0] == (least if takes_larger(op) else most)).all())


def _one_piece_in_order(graph: Graph, op: Op) -> bool:
    axes, *more = pieces(graph, op)
    later = [prod(axis.size for axis in axes[index + 1 :]) for index in range(len(axes))]
    return not more and all(np.array_equal(a, np.arange(a.size) * step) for a, step in zip(axes, later, strict=True))
