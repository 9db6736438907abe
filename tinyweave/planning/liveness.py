"""Lifetimes: in which steps the memory of each tensor is in use.

Several tensors may share the memory of one tensor, their owner, for example a reshape's output that of its input. In: a graph,
its stages, and the owner of each tensor's memory. Out: the lifetime of each owner. Inputs and state are alive before the first
step; outputs and state stay alive after the last step. A tensor that no op reads is alive in the step that writes it, an unread
input in the first step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..ir import Graph

BEFORE = -1  # the first step of inputs and state


class Life(NamedTuple):
    """The steps [begin, end) in which memory is in use; if `persistent`, it stays in use after the last step.

    `begin` is BEFORE (-1) for state and for inputs that are not streamed, which exist before the first step.
    """

    begin: int
    end: int
    persistent: bool


def lifetimes(
    graph: Graph, stages: Iterable[Sequence[int]], owner: Mapping[str, str], *, by_rows: Collection[str] = ()
) -> dict[str, Life]:
    """Return the lifetime of each tensor that owns memory, in the order of their first use.

    Streamed inputs and outputs, `by_rows`, are alive only in the steps that read or write them.
    """
    whole = [name for name in (*graph.inputs, *graph.outputs) if name in owner and name not in by_rows]
    state = [name for name, tensor in graph.tensors.items() if tensor.role == "state" and name in owner]
    begin = {owner[name]: BEFORE for name in whole if name in graph.inputs}
    end, steps = dict.fromkeys(begin, 1), 1
    for step, ops in enumerate(stages):
        steps = step + 1
        for name in (name for index in ops for name in (*graph.ops[index].inputs, *graph.ops[index].outputs)):
            if name is not None and name in owner:
                begin.setdefault(owner[name], step)
                end[owner[name]] = step + 1
    begin |= dict.fromkeys((owner[name] for name in state), BEFORE)
    persistent = {owner[name] for name in (*state, *(name for name in whole if name in graph.outputs))}
    end |= dict.fromkeys(persistent, steps)
    return {name: Life(begin[name], end[name], name in persistent) for name in begin}


def alive(lives: Mapping[str, Life], steps: int) -> list[tuple[str, ...]]:
    """Return, for each of `steps` steps, the names in `lives` that are alive in it; 0 steps count as one step."""
    names: list[list[str]] = [[] for _ in range(max(1, steps))]
    for name, life in lives.items():
        for step in range(max(life.begin, 0), life.end):
            names[step].append(name)
    return [tuple(each) for each in names]
