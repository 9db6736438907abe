"""Relocations as ops: each copies a tensor to another offset, where all later ops read it.

In: a graph and its stages. Out: which tensors may be relocated before which steps; the graph with the relocations added. A
relocation is a reshape to the same shape whose output is no view. Its attribute `moves` is the tensor's original name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...ir import CompileError, Graph, Op, Tensor
from ..liveness import lifetimes


def is_move(op: Op) -> bool:
    """Return whether an op is a relocation, which copies a tensor to another offset."""
    return "moves" in op.attrs


def lone_tensors(graph: Graph, stages: Sequence[Sequence[int]], owner: Mapping[str, str]) -> dict[tuple[str, int], str]:
    """Return (buffer, step) -> tensor, for each buffer that may be relocated before a step by copying this tensor alone.

    From that step on, no other tensor of the buffer is needed, and this tensor fills the buffer. State is never relocated, nor
    a tensor that is both input and output of the network. `owner` maps each tensor to its buffer.
    """
    needed: dict[tuple[str, int], list[str]] = {}
    for name, life in lifetimes(graph, stages, {name: name for name in owner}).items():
        is_read = name in graph.consumers or name in graph.outputs
        if is_read and graph.tensors[owner[name]].role != "state":
            for step in range(life.begin + 1, life.end):
                needed.setdefault((owner[name], step), []).append(name)
    both = set(graph.inputs).intersection(graph.outputs)
    return {
        (buffer, step): names[0]
        for (buffer, step), names in needed.items()
        if len(names) == 1 and names[0] not in both and graph.tensors[names[0]].bytes == graph.tensors[buffer].bytes
    }


def with_moves(graph: Graph, steps: Sequence[int | str]) -> tuple[Graph, dict[str, list[str]]]:
    """Add relocations (ops that copy a tensor to another offset) to a graph, and return the names of each relocated tensor.

    `steps` are the ops in order: indices of ops, and names of tensors to relocate. The names are of the tensor before its first
    relocation, then after each. A network output has its original name after the last one, every other tensor before the first.
    Raise CompileError if a name in `steps` is no activation.
    """
    counts = {name: steps.count(name) for name in steps if isinstance(name, str)}
    names = {}
    for name, count in counts.items():
        if name not in graph.tensors or graph.tensors[name].data is not None:
            raise CompileError("cannot move: it is no activation of the graph", tensor=name)
        more = [f"{name}:moved_{number}" for number in range(1, count + 1)]
        names[name] = [*more, name] if name in graph.outputs else [name, *more]
    now = {name: pieces[0] for name, pieces in names.items()}
    tensors: dict[str, Tensor] = dict(graph.tensors)
    tensors |= {piece: replace(graph.tensors[name], name=piece) for name, pieces in names.items() for piece in pieces}
    ops: list[Op] = []
    for number, step in enumerate(steps):
        if isinstance(step, str):
            target = names[step][names[step].index(now[step]) + 1]
            ops.append(Op(f"move_{number}", "reshape", (now[step],), (target,), {"new_shape": None, "moves": step}))
            now[step] = target
        else:
            op = graph.ops[step]
            inputs = tuple(None if name is None else now.get(name, name) for name in op.inputs)
            ops.append(replace(op, inputs=inputs, outputs=tuple(now.get(name, name) for name in op.outputs)))
    return replace(graph, tensors=tensors, ops=tuple(ops)), names
