"""Ops that copy all of their input in order become reshapes, which need neither code nor memory.

A split into one part, a transpose that moves only axes of extent 1, a tile by 1, a pad by nothing, and the like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from .. import ops
from ..ir import Graph, Op, rebuild
from ..ops.data_movement import PIECES, pieces
from .tensor_map import TensorMap


def copies_to_views(graph: Graph) -> tuple[Graph, TensorMap]:
    return rebuild(graph, ops=tuple(_view(graph, op) if copies_all(graph, op) else op for op in graph.ops)), {}


def _view(graph: Graph, op: Op) -> Op:
    return replace(op, kind="reshape", inputs=(ops.data(graph, op).name,), attrs={"new_shape": None})


def copies_all(graph: Graph, op: Op) -> bool:
    """Return whether the output holds the elements of the input, all of them, in their order."""
    keeps_all = len(op.outputs) == 1 and graph.output(op).elements == ops.data(graph, op).elements
    return keeps_all and op.kind in KEEPS_ORDER and KEEPS_ORDER[op.kind](graph, op)


def _one_piece_in_order(graph: Graph, op: Op) -> bool:
    axes, *more = pieces(graph, op)
    later = [prod(axis.size for axis in axes[index + 1 :]) for index in range(len(axes))]
    return not more and all(np.array_equal(a, np.arange(a.size) * step) for a, step in zip(axes, later, strict=True))


KEEPS_ORDER: dict[str, Callable[[Graph, Op], bool]] = {
    **dict.fromkeys(PIECES, _one_piece_in_order),
    **dict.fromkeys(("pad", "padv2"), lambda graph, op: True),
    **dict.fromkeys(("concatenation", "pack"), lambda graph, op: len(op.inputs) == 1),
}
