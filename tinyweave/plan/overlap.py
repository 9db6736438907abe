"""Which tensors may share bytes. In: a Graph. Out: per activation, the tensor whose bytes it is a view of."""

from __future__ import annotations

from ..ir import Graph, is_constant
from ..ops import SPECS


def views(graph: Graph) -> dict[str, str]:
    """Activation -> the tensor that owns its bytes: itself, or the source of a chain of reshape-like ops."""
    owner = {name: name for name, tensor in graph.tensors.items() if not is_constant(tensor)}
    for op in graph.ops:
        if SPECS[op.kind].view and op.inputs[0] in owner:
            owner[op.outputs[0]] = owner[op.inputs[0]]
    return owner
