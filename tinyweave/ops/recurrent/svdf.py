"""svdf on int8 vectors: each filter's product with the input is kept for some time steps, then weighted over time.

The products are kept in the state, a variable tensor of int16, or of int8 as in TFLite Micro (LiteRT supports int16 only). An
int8 state wraps around, since its zero point is added after the clamp. Source: TFLite reference/svdf.h, TFLite Micro
svdf_common.cc.
"""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Op
from ..constraints import input_is_int8, output_is_int8, per_tensor
from ..fixed_point import Rescale, quantize_multiplier, requantize, wrap32
from ..spec import Arrays, OpSpec, OptionalArrays, Shape, biased, operand

WEIGHTS, TIME_WEIGHTS, BIAS, STATE = 1, 2, 3, 4


def parameters(graph: Graph, op: Op) -> tuple[Rescale, Rescale]:
    """Return two fixed-point factors: from products to the state, and from sums over time to the output; float32 arithmetic."""
    x, weights, time, state = (np.float32(graph.input(op, i).scale) for i in (0, WEIGHTS, TIME_WEIGHTS, STATE))
    out = np.float32(graph.output(op).scale)
    return quantize_multiplier(float(x * weights / state)), quantize_multiplier(float(state * time / out))


def infer(graph: Graph, op: Op) -> list[Shape]:
    units = graph.input(op, WEIGHTS).shape[0] // op.attrs["rank"]
    return [(graph.input(op).shape[0], units), graph.input(op, STATE).shape]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, weights, time, state = (operand(arrays, index).astype(np.int64) for index in (0, WEIGHTS, TIME_WEIGHTS, STATE))
    (to_state, to_output), out, kept = parameters(graph, op), graph.output(op), graph.input(op, STATE)
    info, (filters, steps) = np.iinfo(kept.dtype), time.shape
    products = requantize(wrap32((x - graph.input(op).zero_point) @ weights.T), *to_state)
    # the zero point is added after the clamp, so an int8 state wraps around
    now = (np.clip(products, info.min, info.max) + kept.zero_point).astype(kept.dtype).astype(np.int64)
    history = np.concatenate([state.reshape(-1, filters, steps)[:, :, 1:], now[:, :, None]], axis=2)
    sums = ((history - kept.zero_point) * time).sum(axis=2).reshape(len(x), -1, op.attrs["rank"]).sum(axis=2)
    scaled = requantize(wrap32(biased(sums, arrays, BIAS)), *to_output) + out.zero_point
    return [np.clip(scaled, -128, 127).astype(np.int8), history.reshape(state.shape).astype(kept.dtype)]


def macs(graph: Graph, op: Op, clipped: bool) -> int:
    return graph.input(op).shape[0] * (graph.input(op, WEIGHTS).elements + graph.input(op, TIME_WEIGHTS).elements)


def operands_are_complete(graph: Graph, op: Op) -> bool:
    """must have five inputs (input, weights, time weights, bias or none, variable) and one output"""
    return len(op.inputs) == 5 and None not in (*op.inputs[:BIAS], op.inputs[STATE]) and op.outputs[1:] == op.inputs[STATE:]


def shapes_match(graph: Graph, op: Op) -> bool:
    """must have input [batch, depth], weights [filters, depth], [filters, steps], bias [units], state [batch, filters*steps]"""
    shapes = [graph.input(op, index).shape for index in (0, WEIGHTS, TIME_WEIGHTS, STATE)]
    if any(len(shape) != 2 or min(shape) < 1 for shape in shapes) or op.attrs["rank"] < 1:
        return False
    (batch, depth), (filters, columns), (rows, steps), state = shapes
    units, rest = divmod(filters, op.attrs["rank"])
    bias = graph.optional_input(op, BIAS)
    right = columns == depth and rows == filters and rest == 0 and (bias is None or bias.shape == (units,))
    return right and state == (batch, filters * steps)


def weights_are_constant(graph: Graph, op: Op) -> bool:
    """the weights must be constant int8, the time weights int8 or int16, all with zero point 0; the bias constant int32"""
    weights, time, bias = graph.input(op, WEIGHTS), graph.input(op, TIME_WEIGHTS), graph.optional_input(op, BIAS)
    right = weights.dtype == "int8" and time.dtype in ("int8", "int16")
    right &= bias is None or (bias.data is not None and bias.dtype == "int32")
    return right and all(t.data is not None and per_tensor(t) and t.zero_point == 0 for t in (weights, time))


def state_is_quantised(graph: Graph, op: Op) -> bool:
    """the variable must have the time weights' type, with one scale and zero point (0 if int16)"""
    state = graph.input(op, STATE)
    right = state.role == "state" and state.dtype == graph.input(op, TIME_WEIGHTS).dtype and per_tensor(state)
    return right and (state.dtype == "int8" or state.zero_point == 0)


def activation_is_relu(graph: Graph, op: Op) -> bool:
    """the fused activation must be relu, as TFLite requires for integers; the output's zero point decides what it clamps"""
    return bool(op.attrs["activation"] == "relu")


CONSTRAINTS = (operands_are_complete, input_is_int8, output_is_int8, shapes_match, weights_are_constant, state_is_quantised)

SPECS = (
    OpSpec(
        "svdf",
        infer,
        reference,
        (*CONSTRAINTS, activation_is_relu),
        macs,
        family="recurrent",
        rescale=parameters,
        state=(STATE,),
    ),
)
