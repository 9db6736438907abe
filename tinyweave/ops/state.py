"""State between inferences: read_variable copies a state tensor to an activation, assign_variable copies the other way.

A state tensor has the role `state`; in TFLite it is a resource variable or a variable tensor. Only inputs listed in
`OpSpec.state` may be state tensors. Every op that changes a state tensor has it among its outputs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op
from .constraints import arity, same_quantisation, same_type
from .spec import Arrays, OpSpec, OptionalArrays, infer_same, operand, windows_one_to_one


def initial_state(graph: Graph) -> dict[str, NDArray[Any]]:
    """Return name -> initial value in the order of `graph.init`; raise CompileError for other ops than constant assigns."""
    values = {}
    for op in graph.init:
        value = graph.input(op).data if op.inputs else None
        if op.kind != "assign_variable" or value is None:
            raise CompileError("initialises state", "only assign_variable with a constant may do so", op=op)
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

variable = partial(
    OpSpec, infer=infer_same, reference=reference, windows=windows_one_to_one, family="state", view=True, scale="shared"
)
SPECS = (
    variable("read_variable", constraints=(*MOVES, reads_state), state=(0,)),
    variable("assign_variable", constraints=(*MOVES, writes_state)),
)
