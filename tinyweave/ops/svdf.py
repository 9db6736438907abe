"""svdf on int8 vectors: per filter a product with the input is kept for some steps, and weighted over time.

The memory is a variable tensor, int16, or int8 as in TFLite Micro (LiteRT has the int16 form only). The arithmetic is the
same; an int8 memory wraps around, since its zero point is added after the clamp.
Source: TFLite reference/svdf.h, TFLite Micro svdf_common.cc.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..ir import Graph, Op
from .constraints import input_is_int8, output_is_int8, per_tensor
from .fixed_point import quantize_multiplier, requantize, wrap32
from .spec import Arrays, OpSpec, OptionalArrays, Shape, biased, operand

WEIGHTS, TIME_WEIGHTS, BIAS, STATE = 1, 2, 3, 4


class Parameters(NamedTuple):
    """(multiplier, shift) from products to the memory, and from sums over time to the output."""

    to_memory: tuple[int, int]
    to_output: tuple[int, int]


def parameters(graph: Graph, op: Op) -> Parameters:
    """Return the multipliers and shifts; scales are multiplied in float32."""
    x, weights, time, state = (np.float32(graph.input(op, i).scale) for i in (0, WEIGHTS, TIME_WEIGHTS, STATE))
    out = np.float32(graph.output(op).scale)
    return Parameters(quantize_multiplier(float(x * weights / state)), quantize_multiplier(float(state * time / out)))


def infer(graph: Graph, op: Op) -> list[Shape]:
    units = graph.input(op, WEIGHTS).shape[0] // op.attrs["rank"]
    return [(graph.input(op).shape[0], units), graph.input(op, STATE).shape]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, weights, time, state = (operand(arrays, index).astype(np.int64) for index in (0, WEIGHTS, TIME_WEIGHTS, STATE))
    p, out, memory = parameters(graph, op), graph.output(op), graph.input(op, STATE)
    info, (filters, steps) = np.iinfo(memory.dtype), time.shape
    products = requantize(wrap32((x - graph.input(op).zero_point) @ weights.T), *p.to_memory)
    # the zero point is added after the clamp: an int8 memory wraps around
    now = (np.clip(products, info.min, info.max) + memory.zero_point).astype(memory.dtype).astype(np.int64)
    history = np.concatenate([state.reshape(-1, filters, steps)[:, :, 1:], now[:, :, None]], axis=2)
    sums = ((history - memory.zero_point) * time).sum(axis=2).reshape(len(x), -1, op.attrs["rank"]).sum(axis=2)
    scaled = requantize(wrap32(biased(sums, arrays, BIAS)), *p.to_output) + out.zero_point
    return [np.clip(scaled, -128, 127).astype(np.int8), history.reshape(state.shape).astype(memory.dtype)]


def macs(graph: Graph, op: Op, clipped: bool) -> int:
    return graph.input(op).shape[0] * (graph.input(op, WEIGHTS).elements + graph.input(op, TIME_WEIGHTS).elements)


def operands_are_complete(graph: Graph, op: Op) -> bool:
    """must have an input, weights, weights over time, a bias or none, and a variable; and an output"""
    return len(op.inputs) == 5 and None not in (*op.inputs[:BIAS], op.inputs[STATE]) and op.outputs[1:] == op.inputs[STATE:]


def shapes_match(graph: Graph, op: Op) -> bool:
    """must have input [batch, depth], weights [filters, depth], [filters, steps], bias [units], state [batch, all]"""
    shapes = [graph.input(op, index).shape for index in (0, WEIGHTS, TIME_WEIGHTS, STATE)]
    if any(len(shape) != 2 or min(shape) < 1 for shape in shapes) or op.attrs["rank"] < 1:
        return False
    (batch, depth), (filters, columns), (rows, steps), state = shapes
    units, rest = divmod(filters, op.attrs["rank"])
    bias = graph.optional_input(op, BIAS)
    right = columns == depth and rows == filters and rest == 0 and (bias is None or bias.shape == (units,))
    return right and state == (batch, filters * steps)


def weights_are_constant(graph: Graph, op: Op) -> bool:
    """the weights must be constant with zero point 0: int8 of the input, int8 or int16 over time; the bias constant int32"""
    weights, time, bias = graph.input(op, WEIGHTS), graph.input(op, TIME_WEIGHTS), graph.optional_input(op, BIAS)
    right = weights.dtype == "int8" and time.dtype in ("int8", "int16")
    right &= bias is None or (bias.data is not None and bias.dtype == "int32")
    return right and all(t.data is not None and per_tensor(t) and t.zero_point == 0 for t in (weights, time))


def state_is_quantised(graph: Graph, op: Op) -> bool:
    """the variable must have the type of the weights over time, with one scale and zero point, 0 when int16"""
    state = graph.input(op, STATE)
    right = state.role == "state" and state.dtype == graph.input(op, TIME_WEIGHTS).dtype and per_tensor(state)
    return right and (state.dtype == "int8" or state.zero_point == 0)


def activation_is_relu(graph: Graph, op: Op) -> bool:
    """the fused activation must be relu, which TFLite demands of integers and then leaves to the output's zero point"""
    return bool(op.attrs["activation"] == "relu")


CONSTRAINTS = (operands_are_complete, input_is_int8, output_is_int8, shapes_match, weights_are_constant, state_is_quantised)

SPECS = (OpSpec("svdf", infer, reference, (*CONSTRAINTS, activation_is_relu), macs, state=(STATE,), rescale=parameters),)
