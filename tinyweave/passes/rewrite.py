"""What passes that change one op at a time share: to visit the ops, to exchange one, to remove one that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Quant, Tensor, rebuild


def each_op(graph: Graph, rewrite: Callable[[Graph, Op], Graph]) -> Graph:
    """Let `rewrite` change the graph at each op in turn, in execution order; it sees what it made of the ops before."""
    for name in [op.name for op in graph.ops]:
        op = next((op for op in graph.ops if op.name == name), None)
        if op is not None:
            graph = rewrite(graph, op)
    return graph


def exchange(graph: Graph, ops: Iterable[Op], constants: Iterable[Tensor] = (), gone: str = "") -> Graph:
    """Return the graph with these ops in place of those of the same names, without the op named `gone`, with more constants."""
    new = {op.name: op for op in ops}
    tensors = {**graph.tensors, **{tensor.name: tensor for tensor in constants}}
    return rebuild(graph, tensors=tensors, ops=tuple(new.get(op.name, op) for op in graph.ops if op.name != gone))


def without(graph: Graph, op: Op, equal: str) -> Graph:
    """Return the graph without `op`, whose only output always equals the tensor `equal`; as it is where both names must stay.

    An output of the network keeps its name, else the op's output loses its.
    """
    out = op.outputs[0]
    stays, goes = (out, equal) if out in graph.outputs else (equal, out)
    if goes in (*graph.inputs, *graph.outputs) or any(graph.tensors[name].role != "activation" for name in (equal, out)):
        return graph

    def renamed(names: Iterable[str | None]) -> tuple[str | None, ...]:
        return tuple(stays if name == goes else name for name in names)

    # most ops know nothing of the name: to leave them as they are is what keeps long chains fast
    ops = (
        replace(o, inputs=renamed(o.inputs), outputs=tuple(n for n in renamed(o.outputs) if n))
        if goes in o.inputs or goes in o.outputs
        else o
        for o in graph.ops
        if o.name != op.name
    )
    return rebuild(graph, ops=tuple(ops))


def stripped(graph: Graph, opens: Callable[[Graph, Op], bool], closes: Callable[[Graph, Op], bool]) -> Graph:
    """Return the graph without ops at its edges.

    Where one that `opens` alone reads an input, what it makes becomes the input; where one that `closes` makes an output, what
    it reads becomes the output. Edges that have another use as well stay.
    """
    inputs, outputs, dropped = list(graph.inputs), list(graph.outputs), set[int]()
    for position, name in enumerate(graph.inputs):
        readers = graph.consumers.get(name, ())
        op = graph.ops[readers[0]] if len(readers) == 1 and name not in graph.outputs else None
        if op is not None and opens(graph, op) and op.outputs[0] not in graph.outputs:
            dropped.add(readers[0])
            inputs[position] = op.outputs[0]
    for position, name in enumerate(graph.outputs):
        op = graph.ops[graph.producer[name]] if name in graph.producer and name not in graph.consumers else None
        if op is None or not closes(graph, op) or graph.outputs.count(name) > 1:
            continue
        source = graph.input(op).name
        if source in graph.producer and source not in (*inputs, *graph.outputs):
            dropped.add(graph.producer[name])
            outputs[position] = source
    ops = tuple(op for index, op in enumerate(graph.ops) if index not in dropped)
    return rebuild(graph, ops=ops, inputs=tuple(inputs), outputs=tuple(outputs))


def same_kind(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors that hold the same bytes mean the same."""
    return (a.shape, a.dtype, a.quant) == (b.shape, b.dtype, b.quant)


def maker(graph: Graph, tensor: Tensor) -> Op | None:
    """Return the op that makes a tensor, None for inputs, constants and state."""
    return graph.ops[graph.producer[tensor.name]] if tensor.name in graph.producer and tensor.role == "activation" else None


def is_only_for(graph: Graph, tensor: Tensor, op: Op) -> bool:
    """Return whether nothing but `op` needs the tensor."""
    readers = graph.consumers.get(tensor.name, ())
    return tensor.name not in graph.outputs and [graph.ops[reader].name for reader in readers] == [op.name]


def integers(graph: Graph, op: Op, role: str, values: object) -> Tensor:
    """Return a new int32 constant for `op`."""
    return constant(graph, op, role, np.array(values, np.int32))


def constant(graph: Graph, op: Op, role: str, data: NDArray[Any], quant: Quant | None = None) -> Tensor:
    """Return a new constant for `op`, under a name that the graph does not have."""
    name = unused(f"{op.name}.{role}", graph.tensors)
    return Tensor(name, data.shape, str(data.dtype), quant, np.ascontiguousarray(data), "constant")


def unused(name: str, tensors: Container[str]) -> str:
    """Return a name that no tensor has: this one, or a longer one."""
    while name in tensors:
        name += "_"
    return name


def part(graph: Graph, op: Op, role: str, tensor: Tensor, data: NDArray[Any]) -> Tensor:
    """Return a new constant for `op` with a part of the values of `tensor`."""
    return replace(constant(graph, op, role, data, tensor.quant), dtype=tensor.dtype)
