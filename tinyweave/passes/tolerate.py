"""The first passes on a graph that cannot be compiled, so that it can be looked at: no rewrite of a graph that can.

In: a graph, some ops of which may be of the kind UNSUPPORTED. Out: the graph as `check_ops` would see it, where all ops that
break a rule are of that kind, and the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from .. import ops
from ..ir import UNSUPPORTED, CompileError, Graph, opaque, verify
from .rewrite import exchange
from .tensor_map import TensorMap

ROUNDS = 20  # each finds one op that a pass cannot rewrite
Pass = Callable[[Graph], tuple[Graph, TensorMap]]


def tolerate(graph: Graph, passes: Sequence[Pass], problems: list[CompileError]) -> Graph:
    """Return the graph after `passes`, with what cannot be compiled opaque; each reason names an op and goes to `problems`."""
    for _ in range(ROUNDS):
        try:
            rewritten = graph
            for rewrite in passes:
                rewritten = verify(rewrite(rewritten)[0])
            break
        except CompileError as error:
            bad = [op for op in graph.ops if error.op and op.name == error.op.name and op.kind != UNSUPPORTED]
            if not bad:
                raise
            problems.append(error)
            graph = exchange(graph, map(opaque, bad))
    else:
        raise problems[-1]
    ops.check(replace(rewritten, ops=()))  # what sets up the state
    broken = []
    for op in rewritten.ops:
        try:
            if op.kind != UNSUPPORTED:
                ops.check(replace(rewritten, ops=(op,)))
        except CompileError as error:
            problems.append(CompileError(error.why, error.what_to_do, op=op, tensor=error.tensor))
            broken.append(opaque(op))
    return exchange(rewritten, broken)
