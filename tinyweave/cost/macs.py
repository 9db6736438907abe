"""Multiply-accumulates of a graph. In: a Graph. Out: counts, from the rows of `ops`; where the rule for a kind is, is there."""

from __future__ import annotations

from ..ir import Graph
from ..ops import SPECS


def per_op(graph: Graph, clipped: bool) -> tuple[int, ...]:
    """One count per op; `clipped` leaves out the window positions that fall into the padding."""
    return tuple(SPECS[op.kind].macs(graph, op, clipped) for op in graph.ops)


def macs(graph: Graph) -> int:
    """What a layer-by-layer run of the graph executes, borders clipped."""
    return sum(per_op(graph, clipped=True))


def macs_original(graph: Graph) -> int:
    """The count that papers print, padding included; of the imported graph, before any pass."""
    return sum(per_op(graph, clipped=False))
