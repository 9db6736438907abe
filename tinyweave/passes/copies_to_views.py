"""Replace ops that copy their whole input in unchanged order by reshapes, which need neither code nor memory.

Examples are a split into one part, a transpose that moves only axes of extent 1, a tile by 1, a pad by 0 and a reduction of
single elements.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from .. import ops
from ..ir import Graph, Op, rebuild
from ..ops.data_movement import PIECES, pieces
from .tensor_map import TensorMap


def copies_to_views(graph: Graph) -> tuple[Graph, TensorMap]:
    """Replace each op that copies its whole input in unchanged order by a reshape.

    Return the new graph and an empty TensorMap, since each remaining tensor holds the same values as in `graph`.
    """
    return rebuild(graph, ops=tuple(_view(graph, op) if copies_all(graph, op) else op for op in graph.ops)), {}


def _view(graph: Graph, op: Op) -> Op:
    return replace(op, kind="reshape", inputs=(ops.data(graph, op).name,), attrs={"new_shape": None})


def copies_all(graph: Graph, op: Op) -> bool:
    """Return whether `op` has one output, which holds all elements of its input in the same order."""
    keeps_all = len(op.outputs) == 1 and graph.output(op).elements == ops.data(graph, op).elements
    if not keeps_all:
        return False
    family = ops.SPECS[op.kind].family
    if family == "reduction":  # of single elements, which stay as they are unless their quantisation changes
        return graph.output(op).quant == graph.input(op).quant
    is_single = family == "pad" or (family == "join" and len(op.inputs) == 1)
    return is_single or (op.kind in PIECES and _one_piece_in_order(graph, op))


def _one_piece_in_order(graph: Graph, op: Op) -> bool:
    axes, *more = pieces(graph, op)
    later = [prod(axis.size for axis in axes[index + 1 :]) for index in range(len(axes))]
    return not more and all(np.array_equal(a, np.arange(a.size) * step) for a, step in zip(axes, later, strict=True))
