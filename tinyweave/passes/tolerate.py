"""Run the first passes on a graph that cannot be compiled, so that it can be inspected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import ops
from ..ir import UNSUPPORTED, CompileError, Graph, opaque, verify
from .rewrite import Pass, exchange

ROUNDS = 20  # each round finds one op that a pass cannot rewrite


def tolerate(graph: Graph, passes: Sequence[Pass], problems: list[CompileError]) -> Graph:
    """Return the graph after `passes`, with ops that cannot be compiled as UNSUPPORTED; add their errors to `problems`."""
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
    ops.check(replace(rewritten, ops=()))  # the ops of `init`
    broken = []
    for op in rewritten.ops:
        try:
            if op.kind != UNSUPPORTED:
                ops.check(replace(rewritten, ops=(op,)))
        except CompileError as error:
            problems.append(CompileError(error.why, error.what_to_do, op=op, tensor=error.tensor))
            broken.append(opaque(op))
    return exchange(rewritten, broken)
