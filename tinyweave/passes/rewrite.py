"""Shared helpers of the passes: make a pass of a rewrite of one op, replace ops, remove ops, add constants."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Quant, Tensor, rebuild
from .tensor_map import TensorMap

Rewrite = Callable[[Graph, Op], Graph]
Pass = Callable[[Graph], tuple[Graph, TensorMap]]


def each_op(graph: Graph, rewrite: Rewrite) -> Graph:
    """Call `rewrite(graph, op)` on the graph so far for each op in execution order that is left; return the final graph."""
    for name in [op.name for op in graph.ops]:
        op = next((op for op in graph.ops if op.name == name), None)
        if op is not None:
            graph = rewrite(graph, op)
    return graph


def of_each_op(rewrite: Rewrite) -> Pass:
    """Decorate a rewrite of one op, `rewrite(graph, op)`, so that it is a pass, which rewrites each op."""

    @wraps(rewrite)
    def run(graph: Graph) -> tuple[Graph, TensorMap]:
        return each_op(graph, rewrite), {}

    return run


def exchange(graph: Graph, ops: Iterable[Op], constants: Iterable[Tensor] = (), gone: str = "") -> Graph:
    """Return the graph with ops replaced by `ops` of the same names, `constants` added, and the op `gone` removed."""
    new = {op.name: op for op in ops}
    tensors = {**graph.tensors, **{tensor.name: tensor for tensor in constants}}
    return rebuild(graph, tensors=tensors, ops=tuple(new.get(op.name, op) for op in graph.ops if op.name != gone))


def without(graph: Graph, op: Op, equal: str) -> Graph:
    """Return the graph without `op`, whose output equals the tensor `equal`; unchanged if both names must stay."""
    out = op.outputs[0]
    stays, goes = (out, equal) if out in graph.outputs else (equal, out)
    if goes in (*graph.inputs, *graph.outputs) or any(graph.tensors[name].role != "activation" for name in (equal, out)):
        return graph

    def renamed(names: Iterable[str | None]) -> tuple[str | None, ...]:
        return tuple(stays if name == goes else name for name in names)

    # ops that do not use the name are reused, not copied: long chains of removals stay fast
    ops = (
        replace(o, inputs=renamed(o.inputs), outputs=tuple(n for n in renamed(o.outputs) if n))
        if goes in o.inputs or goes in o.outputs
        else o
        for o in graph.ops
        if o.name != op.name
    )
    return rebuild(graph, ops=tuple(ops))


def same_kind(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors agree in shape, type and quantisation."""
    return (a.shape, a.dtype, a.quant) == (b.shape, b.dtype, b.quant)


def maker(graph: Graph, tensor: Tensor) -> Op | None:
    """Return the op that computes a tensor, or None for graph inputs, constants and state."""
    return graph.ops[graph.producer[tensor.name]] if tensor.name in graph.producer and tensor.role == "activation" else None


def is_only_for(graph: Graph, tensor: Tensor, op: Op) -> bool:
    """Return whether `op` is the only op that reads a tensor, and the tensor is no output of the graph."""
    readers = graph.consumers.get(tensor.name, ())
    return tensor.name not in graph.outputs and [graph.ops[reader].name for reader in readers] == [op.name]


def integers(graph: Graph, op: Op, role: str, values: object) -> Tensor:
    """Return a new int32 constant with these values, called `<op>.<role>`; it is not yet in the graph."""
    return constant(graph, op, role, np.array(values, np.int32))


def constant(graph: Graph, op: Op, role: str, data: NDArray[Any], quant: Quant | None = None) -> Tensor:
    """Return a new constant with the values `data`, called `<op>.<role>` or similar if taken; it is not yet in the graph."""
    name = unused(f"{op.name}.{role}", graph.tensors)
    return Tensor(name, data.shape, str(data.dtype), quant, np.ascontiguousarray(data), "constant")


def unused(name: str, tensors: Container[str]) -> str:
    """Return `name`, with underscores appended if `tensors` has this name."""
    while name in tensors:
        name += "_"
    return name


def part(graph: Graph, op: Op, role: str, tensor: Tensor, data: NDArray[Any]) -> Tensor:
    """Return a new constant, called `<op>.<role>`, with the values `data` and the type and quantisation of `tensor`."""
    return replace(constant(graph, op, role, data, tensor.quant), dtype=tensor.dtype)
