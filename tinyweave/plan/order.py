"""The order in which ops run. In: a Graph. Out: indices of its ops."""

from __future__ import annotations

from ..ir import Graph


def file_order(graph: Graph) -> tuple[int, ...]:
    """The order of the imported file, which `ir.verify` has proved to be executable."""
    return tuple(range(len(graph.ops)))
