"""When the bytes of each tensor are alive. In: a graph, its stages, who owns whose bytes. Out: per owner the steps.

Whatever plans or counts live bytes takes them from here. Inputs and state are there before the first step; outputs and state
stay after the last one. What is written and never read is alive in the step that writes it, an unread input in the first one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..ir import Graph

BEFORE = -1  # the step in which inputs and state begin


class Life(NamedTuple):
    """Bytes that are alive in the steps [begin, end), and after the last step if they are `persistent`."""

    begin: int
    end: int
    persistent: bool


def lifetimes(
    graph: Graph, stages: Iterable[Sequence[int]], owner: Mapping[str, str], *, by_rows: Collection[str] = ()
) -> dict[str, Life]:
    """Return owner of bytes -> its life, where each step runs the ops of a stage; in the order in which they are touched.

    owner: tensor -> the tensor that owns its bytes; tensors that are not in it have none. by_rows: inputs and outputs that come
    and go while the steps run that touch them: they are neither there before nor kept after.
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
    """Return per step the owners of bytes that are alive in it; of no steps those that one would have."""
    names: list[list[str]] = [[] for _ in range(max(1, steps))]
    for name, life in lives.items():
        for step in range(max(life.begin, 0), life.end):
            names[step].append(name)
    return [tuple(each) for each in names]
