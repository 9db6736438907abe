"""Multiply-accumulates of a graph. In: a Graph. Out: counts, from the rows of `ops`; where the rule for a kind is, is there."""

from __future__ import annotations

from ..ir import Graph
from ..ops import macs
from ..ops import macs_per_op as per_op

__all__ = ["macs", "macs_original", "per_op"]


def macs_original(graph: Graph) -> int:
    """The count that papers print, padding included; of the imported graph, before any pass."""
    return sum(per_op(graph, clipped=False))
