"""The supported op kinds: `SPECS` has one row per kind, `check` validates a graph, `run` executes it in numpy.

On integer tensors `run` gives the same bytes as LiteRT's reference kernels; on float32 tensors results differ by a few units in
the last place.
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
    detection,
    elementwise,
    extrema,
    fully_connected,
    functions,
    layout,
    pool,
    quantization,
    reduce,
    resize,
    state,
    transpose_conv,
)
from .constraints import INDEX_TYPES
from .float32 import float_form
from .normalization import l2_normalization, log_softmax, softmax
from .recurrent import lstm, sequence, svdf
from .spec import OpSpec, activation_range, check_constraints, hwc, infer_same
from .state import initial_state

FAMILIES = (
    activations,
    batch_matmul,
    conv,
    data_movement,
    detection,
    elementwise,
    functions,
    extrema,
    fully_connected,
    l2_normalization,
    layout,
    log_softmax,
    pool,
    quantization,
    reduce,
    resize,
    softmax,
    state,
    lstm,
    sequence,
    svdf,
    transpose_conv,
)
INDICES = ("view", "cast")  # families of the ops through which indices pass unchanged
UNKNOWN = OpSpec("", infer_same, lambda graph, op, arrays: [], family="unknown")
SPECS: dict[str, OpSpec] = {spec.kind: spec for family in FAMILIES for spec in family.SPECS}
FLOAT32 = {kind: form for kind, spec in SPECS.items() if (form := float_form(spec)) is not None}
ON_INDICES = {kind: form for kind, spec in SPECS.items() if (form := elementwise.index_form(spec)) is not None}
FORMS = {"float32": FLOAT32} | dict.fromkeys(INDEX_TYPES, ON_INDICES)


def spec_of(op: Op) -> OpSpec:
    """Return the OpSpec of an op's kind, or one of the family `unknown` if the kind is not supported."""
    return SPECS.get(op.kind, UNKNOWN)


def spec_for(graph: Graph, op: Op) -> OpSpec:
    """Return the OpSpec of a supported op: its form for float32 or for int32 and int64, if its input has such a type."""
    spec = SPECS[op.kind]
    x = graph.optional_input(op, spec.data)
    return spec if x is None else FORMS.get(x.dtype, {}).get(op.kind, spec)


def computed_operand(graph: Graph, op: Op) -> int | None:
    """Return the index of the only operand of an op that is not constant; None if the network computes none or several."""
    computed = [index for index, x in enumerate(graph.inputs_of(op)) if x is not None and x.data is None]
    return computed[0] if len(computed) == 1 else None


def mapped(graph: Graph, op: Op, values: NDArray[Any]) -> NDArray[Any]:
    """Return the outputs of an elementwise op for `values` [n] of its computed operand; others are constants of one element."""
    operands, index = graph.inputs_of(op), computed_operand(graph, op)
    arrays = [values if place == index else None if x is None else x.data for place, x in enumerate(operands)]
    return np.ravel(spec_for(graph, op).reference(graph, op, arrays)[0])


def data(graph: Graph, op: Op) -> Tensor:
    """Return the input tensor that `op` processes, as opposed to parameters such as weights, axes and shapes."""
    return graph.input(op, SPECS[op.kind].data)


def macs_per_op(graph: Graph, clipped: bool) -> tuple[int, ...]:
    """Return the MACs of each op, in the order of `graph.ops`, 0 for an unknown kind; without those of padding if `clipped`."""
    return tuple(SPECS[op.kind].macs(graph, op, clipped) if op.kind in SPECS else 0 for op in graph.ops)


def macs(graph: Graph) -> int:
    """Return the multiply-accumulates of a graph, without multiplications with padding."""
    return sum(macs_per_op(graph, clipped=True))


def macs_original(graph: Graph) -> int:
    """Return the MACs of a graph, with padding, as papers count them; passes remove ops, so call this before any pass."""
    return sum(macs_per_op(graph, clipped=False))


def fixed_inputs(graph: Graph) -> dict[str, NDArray[Any]]:
    """Return the only valid value, by name, of each network input that holds the output shape of a transpose_conv."""
    shaped = [op for op in graph.ops if spec_of(op).family == "transposed" and op.inputs[0] in graph.inputs]
    return {graph.input(op).name: np.array(graph.output(op).shape, graph.input(op).dtype) for op in shaped}


def index_extents(graph: Graph) -> dict[str, int]:
    """Return network input -> smallest number of valid indices, for inputs whose values select slices (gather_nd)."""
    extents: dict[str, int] = {}
    for op in graph.ops:
        if op.kind == "gather_nd":
            data, indices = graph.input(op).shape, graph.input(op, 1)
            while (position := graph.producer.get(indices.name)) is not None and spec_of(graph.ops[position]).family in INDICES:
                indices = graph.input(graph.ops[position])
            if indices.name in graph.inputs:
                least = min(data[: graph.input(op, 1).shape[-1]])
                extents[indices.name] = min(least, extents.get(indices.name, least))
    return extents


def check(graph: Graph) -> Graph:
    """Return `graph`, or raise CompileError if an op is not supported, breaks a constraint, or has a wrong output shape."""
    for op in (*graph.init, *graph.ops):
        if op.kind not in SPECS:
            raise CompileError(f"{op.kind} is not supported", f"supported kinds: {', '.join(sorted(SPECS))}", op=op)
        spec = spec_for(graph, op)
        for index, tensor in enumerate(graph.inputs_of(op)):
            if tensor is not None and tensor.role == "state" and index not in spec.state:
                raise CompileError(
                    "is a variable that the op reads directly", "read it with read_variable", op=op, tensor=tensor
                )
        check_constraints(spec, graph, op)
        for tensor, shape in zip(graph.outputs_of(op), spec.infer(graph, op), strict=True):
            if tensor.shape != shape:
                raise CompileError(f"has the shape {tensor.shape}, its op computes {shape}", op=op, tensor=tensor)
    initial_state(graph)
    return graph


def defined(graph: Graph, outputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return `outputs` (of `graph.outputs`) of LiteRT with 0 for the elements that LiteRT's kernels leave undefined."""
    values = dict(zip(graph.outputs, outputs, strict=True))
    for op in graph.ops:
        if op.outputs and values.keys() >= {*op.outputs}:
            values |= zip(op.outputs, spec_of(op).defined(graph, op, [values[name] for name in op.outputs]), strict=True)
    return [values[name] for name in graph.outputs]


def run(
    graph: Graph, inputs: Mapping[str, NDArray[Any]], keep: bool = False, state: dict[str, NDArray[Any]] | None = None
) -> dict[str, NDArray[Any]]:
    """Execute a graph that has passed `check`, and return its outputs by name.

    `keep` returns the values of all tensors that are not constant. `state` has the values of the state tensors by name, which
    are updated in place; None: start with their initial values.
    """
    values: dict[str, NDArray[Any]] = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    state = initial_state(graph) if state is None else state
    values |= state
    for name in graph.inputs:
        tensor = graph.tensors[name]
        value = inputs.get(name)
        if value is None or value.shape != tensor.shape or value.dtype != array_type(tensor.dtype):
            received = "nothing" if value is None else f"{value.dtype}{list(value.shape)}"
            raise CompileError(f"must be {tensor.dtype}{list(tensor.shape)}, not {received}", tensor=tensor)
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
