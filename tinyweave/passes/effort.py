"""What running an op's numpy reference costs, so that passes which do so can keep within a bound.

In: an op that has passed `ops.check`. Out: a count, the same everywhere.
"""

from __future__ import annotations

from math import prod

from ..ir import Graph, Op
from ..ops import SPECS

ELEMENT = 8  # of an operand or result, in multiply-accumulates: indices of pieces take this long
CALL = 1024  # of numpy, in the same


def effort(graph: Graph, op: Op) -> int:
    """Return about how many multiply-accumulates take as long as the reference of `op`, which loops over a window's taps."""
    elements = sum(t.elements for t in (*graph.inputs_of(op), *graph.outputs_of(op)) if t is not None)
    work = ELEMENT * elements + SPECS[op.kind].macs(graph, op, False)
    if "kernel" in op.attrs:
        return work + prod(op.attrs["kernel"]) * (CALL + graph.output(op).elements)
    return work + (prod(graph.input(op, 1).shape[1:3]) * CALL if "stride" in op.attrs else 0)
