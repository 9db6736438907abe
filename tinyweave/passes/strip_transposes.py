"""Transposes at the edges are dropped, so that the network takes and gives maps with their channels last, as cameras do.

An input [n, c, h, w] that only a transpose to [n, h, w, c] reads becomes that transpose's output; an output that a transpose
makes of such a map becomes the map. Networks that come from PyTorch have them.
"""

from __future__ import annotations

from functools import partial

from ..ir import Graph, Op
from ..ops.data_movement import permutation
from .rewrite import stripped
from .tensor_map import TensorMap

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def strip_transposes(graph: Graph) -> tuple[Graph, TensorMap]:
    return stripped(graph, partial(_turns, order=TO_LAST), partial(_turns, order=TO_FIRST)), {}


def _turns(graph: Graph, op: Op, order: tuple[int, ...]) -> bool:
    return op.kind == "transpose" and len(graph.input(op).shape) == 4 and permutation(graph, op) == order
