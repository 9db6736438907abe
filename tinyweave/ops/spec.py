"""What an op kind is: one row of functions per kind, and the helpers that all families share.

Every function of a row takes `(graph, op)`. `reference` also takes the input arrays and returns the output arrays,
bit for bit what LiteRT's reference kernels compute; the C kernels, the planner and the docs all follow these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Tensor, array_type, limits
from .window import ONE_TO_ONE, Windows

Arrays = list[np.ndarray]
OptionalArrays = list[np.ndarray | None]
Shape = tuple[int, ...]
Constraint = Callable[[Graph, Op], bool]
# fused activation -> its real bounds
ACTIVATIONS = {"none": (-inf, inf), "relu": (0.0, inf), "relu6": (0.0, 6.0), "relu_n1_to_1": (-1.0, 1.0)}


@dataclass(frozen=True)
class OpSpec:
    """One op kind.

    infer: shapes of the outputs. reference: the outputs' values. macs: (graph, op, clipped) -> multiply-accumulates,
    window positions in the padding counted unless clipped. windows: the rows and the columns that an output element reads, or
    None when every output may read all of the input, or there are several images. constraints: predicates; the docstring of one
    is its error text and its line in the documentation. view: the outputs hold the first input's bytes unchanged. data: the
    input that it works on; the others are its parameters. state: which inputs are state. int4: whether it takes int4 maps.
    rescale: its multipliers, of which a scale may be too large.
    """

    kind: str
    infer: Callable[[Graph, Op], list[Shape]]
    reference: Callable[[Graph, Op, OptionalArrays], Arrays]
    constraints: tuple[Constraint, ...] = ()
    macs: Callable[[Graph, Op, bool], int] = lambda graph, op, clipped: 0
    windows: Callable[[Graph, Op], Windows | None] = lambda graph, op: None
    view: bool = False
    data: int = 0
    state: tuple[int, ...] = ()
    int4: bool = False
    rescale: Callable[[Graph, Op], object] = lambda graph, op: None


def check_constraints(spec: OpSpec, graph: Graph, op: Op) -> None:
    """Raise CompileError for the first constraint of its kind that `op` breaks."""
    try:
        for constraint in spec.constraints:
            if not constraint(graph, op):
                raise CompileError(constraint.__doc__ or constraint.__name__)
        spec.rescale(graph, op)
    except CompileError as error:
        raise CompileError(error.why, error.what_to_do, op=op, tensor=error.tensor) from error
    for tensor in (*graph.inputs_of(op), *graph.outputs_of(op)):
        if tensor is not None and tensor.dtype == "int4" and not spec.int4:
            raise CompileError("is int4, which this op does not take", "quantize it to int8 before", op=op, tensor=tensor)


def constant(graph: Graph, op: Op, index: int) -> np.ndarray[Any, Any]:
    """Return the value of an input that must be constant."""
    tensor = graph.input(op, index)
    if tensor.data is None:
        raise CompileError("must be constant", "export the model with static shapes", op=op, tensor=tensor)
    return tensor.data


def operand(arrays: OptionalArrays, index: int = 0) -> np.ndarray:
    """Return the value of an input that is not left out."""
    array = arrays[index]
    assert array is not None
    return array


def biased(total: NDArray[Any], arrays: OptionalArrays, index: int = 2) -> NDArray[Any]:
    """Return sums, of a type that holds them, with the bias, which the op may lack."""
    bias = arrays[index] if len(arrays) > index else None
    return total if bias is None else total + bias


def centred(arrays: OptionalArrays, index: int, graph: Graph, op: Op) -> NDArray[np.int64]:
    """Return the value of an input less its zero point."""
    return operand(arrays, index).astype(np.int64) - graph.input(op, index).zero_point


def infer_same(graph: Graph, op: Op) -> list[Shape]:
    """Return the shape of the input as the output's."""
    return [graph.input(op).shape]


def broadcast(a: Shape, b: Shape) -> bool:
    """Return whether two shapes broadcast to one."""
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def infer_broadcast(graph: Graph, op: Op) -> list[Shape]:
    """Return the shape that both inputs broadcast to."""
    return [np.broadcast_shapes(graph.input(op).shape, graph.input(op, 1).shape)]


def windows_one_to_one(graph: Graph, op: Op) -> Windows:
    """Return windows of one element: each output is made of the input in its place."""
    return ONE_TO_ONE


def is_pixel(tensor: Tensor) -> bool:
    """Return whether a tensor has channels only."""
    return tensor.shape[-1:] == (tensor.elements,)


def hwc(shape: Shape) -> tuple[int, int, int]:
    """Any shape as (h, w, c): missing leading axes are 1, axes before the last three fold into h."""
    padded = (1, 1, 1, *shape)
    return prod(padded[:-2]), padded[-2], padded[-1]


def activation_range(activation: str, output: Tensor) -> tuple[int, int]:
    """Return the clamp (minimum, maximum) of a fused activation in output values (TFLite CalculateActivationRangeQuantized)."""
    if activation not in ACTIVATIONS:
        raise CompileError(f"unknown fused activation {activation}", tensor=output)
    (low, high), (least, most) = limits(output.dtype), ACTIVATIONS[activation]

    def quantized(real: float) -> int:
        # float32 arithmetic, rounded half away from zero, as TFLite's QuantizedValue does it
        ratio = np.float32(real) / np.float32(output.scale)
        return output.zero_point + int(np.copysign(np.floor(np.abs(np.float64(ratio)) + 0.5), ratio))

    return low if least == -inf else max(low, quantized(least)), high if most == inf else min(high, quantized(most))


def finish(graph: Graph, op: Op, scaled: NDArray[Any]) -> Arrays:
    """Return the output of an op of numbers on the output's scale: its zero point is added, then they are clamped."""
    out, activation = graph.output(op), op.attrs.get("activation", op.kind if op.kind in ACTIVATIONS else "none")
    return [np.clip(scaled + out.zero_point, *activation_range(activation, out)).astype(array_type(out.dtype))]
