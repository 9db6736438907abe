"""What each op kind is: `SPECS`, one row per kind; `check` a graph against them, or `run` it in numpy.

`run` computes bit for bit what LiteRT's reference kernels compute on integers; everything else is measured against that. On
float32 it comes close.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Tensor, array_type
from . import (
    activations,
    batch_matmul,
    conv,
    data_movement,
    elementwise,
    extrema,
    float32,
    fully_connected,
    layout,
    log_softmax,
    lstm,
    pool,
    quantization,
    reduce,
    resize,
    softmax,
    state,
    svdf,
    transpose_conv,
)
from .spec import OpSpec, activation_range, check_constraints, hwc
from .state import initial_state

__all__ = [
    "SPECS",
    "OpSpec",
    "activation_range",
    "check",
    "check_constraints",
    "data",
    "fixed_inputs",
    "hwc",
    "initial_state",
    "run",
    "spec_for",
]

FAMILIES = (
    activations,
    batch_matmul,
    conv,
    data_movement,
    elementwise,
    extrema,
    fully_connected,
    layout,
    log_softmax,
    lstm,
    pool,
    quantization,
    reduce,
    resize,
    softmax,
    state,
    svdf,
    transpose_conv,
)
SPECS: dict[str, OpSpec] = {spec.kind: spec for family in FAMILIES for spec in family.SPECS}
FLOAT32 = float32.specs(SPECS)


def spec_for(graph: Graph, op: Op) -> OpSpec:
    """Return the row of an op of a known kind: its float32 form where its input is float32."""
    spec = SPECS[op.kind]
    x = graph.optional_input(op, spec.data)
    return FLOAT32[op.kind] if op.kind in FLOAT32 and x is not None and x.dtype == "float32" else spec


def data(graph: Graph, op: Op) -> Tensor:
    """Return the input that `op` works on."""
    return graph.input(op, SPECS[op.kind].data)


def macs_per_op(graph: Graph, clipped: bool) -> tuple[int, ...]:
    """Return multiply-accumulates of each op, 0 of one that is not supported.

    `clipped` leaves out the window positions that fall into the padding.
    """
    return tuple(SPECS[op.kind].macs(graph, op, clipped) if op.kind in SPECS else 0 for op in graph.ops)


def macs(graph: Graph) -> int:
    """Return what a layer-by-layer run of the graph executes, borders clipped."""
    return sum(macs_per_op(graph, clipped=True))


def macs_original(graph: Graph) -> int:
    """Return the count that papers print, padding included; of the imported graph, before any pass."""
    return sum(macs_per_op(graph, clipped=False))


def fixed_inputs(graph: Graph) -> dict[str, NDArray[Any]]:
    """Network input -> the one value that it may have: the shape of a transpose_conv, which the graph already knows."""
    shaped = [op for op in graph.ops if op.kind == "transpose_conv" and op.inputs[0] in graph.inputs]
    return {graph.input(op).name: np.array(graph.output(op).shape, graph.input(op).dtype) for op in shaped}


def check(graph: Graph) -> Graph:
    """Return `graph` when every op is of a known kind, keeps its constraints and has outputs of the right shape."""
    for op in (*graph.init, *graph.ops):
        if op.kind not in SPECS:
            raise CompileError(f"{op.kind} is not supported", f"supported kinds: {', '.join(sorted(SPECS))}", op=op)
        spec = spec_for(graph, op)
        for index, tensor in enumerate(graph.inputs_of(op)):
            if tensor is not None and tensor.role == "state" and index not in spec.state:
                raise CompileError("is a variable that the op reads directly", "read it by read_variable", op=op, tensor=tensor)
        check_constraints(spec, graph, op)
        for tensor, shape in zip(graph.outputs_of(op), spec.infer(graph, op), strict=True):
            if tensor.shape != shape:
                raise CompileError(f"has the shape {tensor.shape}, its op computes {shape}", op=op, tensor=tensor)
    initial_state(graph)
    return graph


def run(
    graph: Graph, inputs: Mapping[str, NDArray[Any]], keep: bool = False, state: dict[str, NDArray[Any]] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the outputs by name, or with `keep` every activation. The graph must have passed `check`.

    `state` is what the inference before left, an `initial_state` (or None) at first, and becomes what this one leaves.
    """
    values: dict[str, NDArray[Any]] = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    state = initial_state(graph) if state is None else state
    values |= state
    for name in graph.inputs:
        tensor = graph.tensors[name]
        value = inputs.get(name)
        if value is None or value.shape != tensor.shape or value.dtype != array_type(tensor.dtype):
            received = "nothing" if value is None else f"{value.dtype}{list(value.shape)}"
            raise CompileError(f"wants {tensor.dtype}{list(tensor.shape)}, given {received}", tensor=tensor)
        values[name] = value
    for op in graph.ops:
        arrays = [None if name is None else values[name] for name in op.inputs]
        for tensor, array in zip(graph.outputs_of(op), spec_for(graph, op).reference(graph, op, arrays), strict=True):
            if array.shape != tensor.shape or array.dtype != array_type(tensor.dtype):
                raise ValueError(f"{op.name} gives {array.dtype}{list(array.shape)} for {tensor.dtype}{list(tensor.shape)}")
            values[tensor.name] = array
    state.update({name: values[name] for name in state})
    if keep:
        return {name: value for name, value in values.items() if graph.tensors[name].data is None}
    return {name: values[name] for name in graph.outputs}
