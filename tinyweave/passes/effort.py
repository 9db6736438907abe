"""Estimate the cost of running an op's numpy reference, so that passes that run references stay within a limit."""

from __future__ import annotations

from math import prod

from ..ir import Graph, Op
from ..ops import SPECS

ELEMENT = 8  # multiply-accumulates per element of an operand or result; copying by indices takes this long
CALL = 1024  # multiply-accumulates per numpy call


def effort(graph: Graph, op: Op) -> int:
    """Return the multiply-accumulates that take as long as the numpy reference of `op`, the same number on every machine."""
    elements = sum(t.elements for t in (*graph.inputs_of(op), *graph.outputs_of(op)) if t is not None)
    work = ELEMENT * elements + SPECS[op.kind].macs(graph, op, False)
    if "kernel" in op.attrs:
        taps: int = prod(op.attrs["kernel"])
        return work + taps * (CALL + graph.output(op).elements)
    return work + (prod(graph.input(op, 1).shape[1:3]) * CALL if "stride" in op.attrs else 0)
