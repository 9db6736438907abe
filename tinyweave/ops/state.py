"""State that lives from one inference to the next: read_variable copies it out, assign_variable replaces it.

State is a tensor with the role `state` (TFLite: a resource variable, or a variable tensor). It is an input of an op only where
the op's row says so, and an output of every op that changes it.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op
from .constraints import arity, same_quantisation, same_type
from .spec import Arrays, OpSpec, OptionalArrays, infer_same, operand, windows_one_to_one


def initial_state(graph: Graph) -> dict[str, NDArray[Any]]:
    """State tensor -> the value that `graph.init` gives it, in that order."""
    values = {}
    for op in graph.init:
        value = graph.input(op).data if op.inputs else None
        if op.kind != "assign_variable" or value is None:
            raise CompileError("sets up state", "only assign_variable with a constant can do that", op=op)
        values[op.outputs[0]] = value
    return values


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [operand(arrays)]


def reads_state(graph: Graph, op: Op) -> bool:
    """must read a variable that has an initial value"""
    return graph.input(op).role == "state"


def writes_state(graph: Graph, op: Op) -> bool:
    """must assign to a variable that has an initial value"""
    return graph.output(op).role == "state"


MOVES = (arity(1), same_type, same_quantisation)

SPECS = (
    OpSpec("read_variable", infer_same, reference, (*MOVES, reads_state), windows=windows_one_to_one, view=True, state=(0,)),
    OpSpec("assign_variable", infer_same, reference, (*MOVES, writes_state), windows=windows_one_to_one, view=True),
)
