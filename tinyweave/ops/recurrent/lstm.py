"""unidirectional_sequence_lstm on int8 sequences with an int16 cell state (TFLite's integer LSTM 8x8_16).

At each time step gates = logistic or tanh of Q3.12 sums, cell = forget * cell + input * candidate, and
hidden = output * tanh(cell). Hidden and cell state are variable tensors. Source: TFLite lstm_eval.cc, portable_tensor_utils.cc.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ..constraints import input_is_int8, output_is_int8, per_tensor
from ..fixed_point import Rescale, quantize_multiplier, requantize, rounding_shift, wrap32
from ..float32 import logistic, real_operand
from ..spec import Arrays, OpSpec, OptionalArrays, Shape, on_integers, operand
from . import q15

# indices of the op's inputs
WEIGHTS, RECURRENT, BIAS = 1, 5, 12  # of the first of the gates input, forget, cell, output, which follow each other
PEEPHOLE, PROJECTION, NORMS = (9, 10, 11), (16, 17), (20, 21, 22, 23)
HIDDEN, CELL = 18, 19
GATES = 4
CANDIDATE = 2  # index of the cell gate, the only one with tanh
GATE_BITS = 12  # fractional bits of the gates' sums


class Parameters(NamedTuple):
    """The fixed-point factors of an LSTM."""

    input_scales: tuple[Rescale, ...]  # per gate: from input times weights to Q3.12
    recurrent_scales: tuple[Rescale, ...]  # per gate: from hidden state times recurrent weights to Q3.12
    hidden_scale: Rescale  # from output gate times tanh(cell) to the hidden state
    cell_bits: int  # integer bits of the cell state
    cell_clip: int  # limit of the magnitude of the cell state; 0: none


@np.errstate(over="ignore")  # the cell clip may overflow; it is limited below
def parameters(graph: Graph, op: Op) -> Parameters:
    """Return the fixed-point factors of an LSTM; scales are multiplied in float32, as in TFLite."""
    x, hidden, cell = graph.input(op), graph.input(op, HIDDEN), graph.input(op, CELL)

    def scales(first: int, source: float) -> tuple[Rescale, ...]:
        weights = (graph.input(op, first + gate).scale for gate in range(GATES))
        products = [np.float32(scale) * np.float32(source) * np.float32(2.0**GATE_BITS) for scale in weights]
        return tuple(quantize_multiplier(float(product)) for product in products)

    q = np.float32(2.0**-15)
    return Parameters(
        input_scales=scales(WEIGHTS, x.scale),
        recurrent_scales=scales(RECURRENT, hidden.scale),
        hidden_scale=quantize_multiplier(float(q / np.float32(hidden.scale) * q)),
        cell_bits=15 + round(math.log2(cell.scale)),
        cell_clip=int(min(float(np.float32(op.attrs["cell_clip"]) / np.float32(cell.scale)), q15.MAX)),
    )


def time_and_batch(graph: Graph, op: Op) -> tuple[int, int]:
    """Return the index of the time axis and the index of the batch axis of input and output."""
    return (0, 1) if op.attrs["time_major"] else (1, 0)


def by_cell(graph: Graph, op: Op, first: int) -> NDArray[Any]:
    """Return the operands `first` .. `first` + 3, one per gate: biases as [cell][gate], weights as [cell][gate][input]."""
    gates = [graph.input(op, first + gate).data for gate in range(GATES)]
    return np.stack([data for data in gates if data is not None], axis=1)


def infer(graph: Graph, op: Op) -> list[Shape]:
    x, hidden, cell = graph.input(op), graph.input(op, HIDDEN), graph.input(op, CELL)
    return [(*x.shape[:2], hidden.shape[1]), hidden.shape, cell.shape]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, hidden, cell = (operand(arrays, index).astype(np.int64) for index in (0, HIDDEN, CELL))
    p, time_axis = parameters(graph, op), time_and_batch(graph, op)[0]
    weights, recurrent, biases = (
        [operand(arrays, first + gate).astype(np.int64).T for gate in range(GATES)] for first in (WEIGHTS, RECURRENT, BIAS)
    )
    in_zero, out_zero = graph.input(op).zero_point, graph.input(op, HIDDEN).zero_point
    outputs = []
    for row in np.moveaxis(x, time_axis, 0):
        gates = []
        for gate in range(GATES):
            total = q15.saturate(requantize(wrap32((row - in_zero) @ weights[gate] + biases[gate]), *p.input_scales[gate]))
            recurrence = requantize(wrap32((hidden - out_zero) @ recurrent[gate]), *p.recurrent_scales[gate])
            activate = q15.tanh if gate == CANDIDATE else q15.logistic
            gates.append(activate(q15.saturate(total + recurrence), 15 - GATE_BITS))
        added = gates[0] * gates[CANDIDATE]
        cell = q15.saturate(rounding_shift(gates[1] * cell, 15) + rounding_shift(added, 15 + p.cell_bits))
        if p.cell_clip:
            cell = np.clip(cell, -p.cell_clip, p.cell_clip)
        hidden = np.clip(requantize(gates[3] * q15.tanh(cell, p.cell_bits), *p.hidden_scale) + out_zero, -128, 127)
        outputs.append(hidden)
    return [np.stack(outputs, time_axis).astype(np.int8), hidden.astype(np.int8), cell.astype(np.int16)]


def macs(graph: Graph, op: Op, clipped: bool) -> int:
    steps, (cells, depth) = graph.input(op).elements // graph.input(op).shape[2], graph.input(op, WEIGHTS).shape
    return steps * GATES * cells * (depth + cells)


def has_no_extras(graph: Graph, op: Op) -> bool:
    """must be a plain LSTM with four biases: no peephole, projection, layer normalisation or coupled gates"""
    needed = {*range(PEEPHOLE[0]), *range(BIAS, BIAS + GATES), HIDDEN, CELL}
    present = {index for index, name in enumerate(op.inputs) if name is not None}
    fits = len(op.inputs) in (20, 24) and len(op.outputs) == 3
    return fits and needed <= present and present.isdisjoint(PEEPHOLE + PROJECTION + NORMS)


def shapes_match(graph: Graph, op: Op) -> bool:
    """must have input [batch, time, depth], weights [cells, depth] and [cells, cells], biases [cells], states [batch, cells]"""
    x, weights = graph.input(op), graph.input(op, WEIGHTS)
    if len(x.shape) != 3 or len(weights.shape) != 2 or x.elements == 0 or weights.elements == 0:
        return False
    cells, depth = weights.shape
    expected: dict[int, Shape] = dict.fromkeys(range(WEIGHTS, WEIGHTS + GATES), (cells, depth))
    expected |= dict.fromkeys(range(RECURRENT, RECURRENT + GATES), (cells, cells))
    expected |= dict.fromkeys(range(BIAS, BIAS + GATES), (cells,))
    expected |= dict.fromkeys((HIDDEN, CELL), (x.shape[time_and_batch(graph, op)[1]], cells))
    return x.shape[2] == depth and all(graph.input(op, index).shape == shape for index, shape in expected.items())


@on_integers
def weights_are_int8(graph: Graph, op: Op) -> bool:
    """the weights must be constant int8 with one scale and zero point 0, the biases constant int32"""
    weights = [graph.input(op, first + gate) for first in (WEIGHTS, RECURRENT) for gate in range(GATES)]
    biases = [graph.input(op, BIAS + gate) for gate in range(GATES)]
    right = all(t.data is not None and t.dtype == "int8" and per_tensor(t) and t.zero_point == 0 for t in weights)
    return right and all(t.data is not None and t.dtype == "int32" for t in biases)


@on_integers
def states_are_quantised(graph: Graph, op: Op) -> bool:
    """the states must be variables: hidden int8, quantised like the output; cell int16, zero point 0, scale 2^-15 to 2^-9"""
    hidden, cell = graph.input(op, HIDDEN), graph.input(op, CELL)
    right = (hidden.role, hidden.dtype, cell.role, cell.dtype) == ("state", "int8", "state", "int16")
    right &= op.outputs[1:] == (hidden.name, cell.name) and hidden.quant == graph.output(op).quant
    return right and per_tensor(cell) and cell.zero_point == 0 and cell.scale in {2.0**-n for n in range(9, 16)}


def attributes_are_plain(graph: Graph, op: Op) -> bool:
    """the activation must be tanh, and the cell clip not negative"""
    return bool(op.attrs["activation"] == "tanh" and op.attrs["cell_clip"] >= 0)


CONSTRAINTS = (
    has_no_extras,
    input_is_int8,
    output_is_int8,
    shapes_match,
    weights_are_int8,
    states_are_quantised,
    attributes_are_plain,
)


def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute a float32 LSTM: return its outputs, and its hidden and cell state after the last step."""
    x, hidden, cell = (real_operand(arrays, index) for index in (0, HIDDEN, CELL))
    weights, recurrent, biases = (
        [real_operand(arrays, first + gate).T for gate in range(GATES)] for first in (WEIGHTS, RECURRENT, BIAS)
    )
    time_axis, clip, outputs = time_and_batch(graph, op)[0], op.attrs["cell_clip"] or np.inf, []
    for row in np.moveaxis(x, time_axis, 0):
        sums = [row @ w + hidden @ r + bias for w, r, bias in zip(weights, recurrent, biases, strict=True)]
        enter, forget, leave = (logistic(sums[gate]) for gate in range(GATES) if gate != CANDIDATE)
        cell = np.clip(forget * cell + enter * np.tanh(sums[CANDIDATE]), -clip, clip)
        hidden = leave * np.tanh(cell)
        outputs.append(hidden)
    return [array.astype(np.float32) for array in (np.stack(outputs, time_axis), hidden, cell)]


SPECS = (
    OpSpec(
        "unidirectional_sequence_lstm",
        infer,
        reference,
        CONSTRAINTS,
        macs,
        family="recurrent",
        rescale=parameters,
        state=(HIDDEN, CELL),
        scale="own",
        real=real,
    ),
)
