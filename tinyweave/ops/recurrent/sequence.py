"""gru, simple_rnn and stateless_lstm on int8 sequences: layers of PyTorch and ONNX that start from an initial state.

TFLite has no such ops, so the references here are their definition. A gate's sum is that of the products with the input and the
int8 hidden state (quantised like the output), each rescaled to fixed point. The state of a GRU has STATE_BITS more fractional
bits. tanh is a table with linear interpolation. Rounding is half up.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import CompileError, Graph, Op, Tensor
from ..constraints import input_is_int8, output_is_int8, per_tensor
from ..fixed_point import INT32_MAX, Int64, wrap32
from ..float32 import Float, real_operand
from ..float32 import logistic as real_logistic
from ..spec import Arrays, Constraint, OpSpec, OptionalArrays, Shape, biased, centred, on_integers, operand
from . import q15

WEIGHTS, RECURRENT, BIAS, RECURRENT_BIAS, STATE, CELL = 1, 2, 3, 4, 5, 6  # indices of the op's inputs; CELL: of an LSTM only
GATES = {"gru": 3, "simple_rnn": 1, "stateless_lstm": 4}
GATE_BITS = 12  # fractional bits of the gates' sums
NEW_LIMIT = (1 << 16) - 1  # limit on the magnitude of the product that the reset gate multiplies: 16 in units of 2^-12
TANH = np.minimum(np.round(np.tanh(np.arange(257) / 32) * 2**15), 2**15 - 1).astype(np.int64)  # tanh(i / 32) in Q0.15
MOST_LEFT = 20  # bits by which sums may be shifted left
STATE_BITS = 7  # fractional bits of the state beyond those of the output


class Factors(NamedTuple):
    """The factors that rescale int32 sums of products to the gates' pre-activations: 2^left * multiplier / 2^32."""

    left: int
    multiplier: NDArray[np.int32]  # [gates * cells]


class Parameters(NamedTuple):
    """The fixed-point factors of a recurrent layer."""

    inputs: Factors  # from input times weights to the gates' sums
    recurrence: Factors  # from hidden state times recurrent weights to the gates' sums
    activation: int  # from an activation in Q0.15 to the state, as a multiple of 2^-16


def by_gate(graph: Graph, op: Op, index: int) -> NDArray[np.int8]:
    """Return the weights that are the op's input `index` as [gate][cell][input]."""
    weights = graph.input(op, index).data
    assert weights is not None
    return weights.reshape(GATES[op.kind], -1, weights.shape[1])


def has_cell(op: Op) -> bool:
    """Return whether the layer has a cell state: an int16 output with the state after all steps, and an optional input."""
    return op.kind == "stateless_lstm"


def cell_bits(graph: Graph, op: Op) -> int:
    """Return the integer bits of the cell state."""
    return 15 + round(math.log2(graph.outputs_of(op)[1].scale))


def parameters(graph: Graph, op: Op) -> Parameters:
    """Return the factors to GATE_BITS fractional bits, or, with relu, to the unit output scale / 2^STATE_BITS."""
    out = graph.output(op)
    step = out.scale * 2.0**-STATE_BITS
    unit = step if op.attrs.get("relu") else 2.0**-GATE_BITS

    def factors(source: Tensor, weights: int) -> Factors:
        quant = graph.input(op, weights).quant
        assert quant is not None
        ratios = np.array(quant.scale) * source.scale / unit
        left = max(0, math.frexp(ratios.max())[1] + 1)  # the multipliers are below 2^31
        return Factors(left, np.round(ratios * 2.0 ** (32 - left)).astype(np.int64).clip(0, INT32_MAX).astype(np.int32))

    found = Parameters(factors(graph.input(op), WEIGHTS), factors(out, RECURRENT), round(min(2.0 / step, INT32_MAX)))
    if max(found.inputs.left, found.recurrence.left) > MOST_LEFT or found.activation == INT32_MAX:
        raise CompileError("the scales of its operands are too far apart for fixed point", "give the weights a smaller scale")
    return found


def halved(x: Int64, exponent: int) -> Int64:
    """Return x / 2^exponent, rounded half up."""
    return np.asarray((x + (1 << (exponent - 1))) >> exponent)


def scaled(x: Int64, factors: Factors) -> Int64:
    """Rescale int32 sums of products by `factors` to the fixed-point format of the gates' pre-activations, rounded half up."""
    return halved(wrap32(x << factors.left) * factors.multiplier, 32)


def infer(graph: Graph, op: Op) -> list[Shape]:
    (batch, steps, _), cells = graph.input(op).shape, graph.input(op, RECURRENT).shape[1]
    outputs: list[Shape] = [(batch, 1 if op.attrs["last"] else steps, cells)]
    return [*outputs, (batch, cells)] if has_cell(op) else outputs


def _in_order(op: Op, steps: NDArray[Any]) -> NDArray[Any]:
    """Reverse the rows, one per time step, if the layer reads time backwards; a second call restores the order."""
    return steps[::-1] if op.attrs["reverse"] else steps


def _output(op: Op, states: list[Any], dtype: str) -> Arrays:
    """Return hidden states as [1, steps, cells] in time order, or with `last` that computed last, [1, 1, cells]."""
    rows = np.stack(states[-1:] if op.attrs["last"] else states)
    return [_in_order(op, rows)[None].astype(dtype)]


def _input_sums(graph: Graph, op: Op, arrays: OptionalArrays) -> Int64:
    """Return the gates' pre-activations from the input only, for all time steps, [steps, gates * cells]."""
    products = centred(arrays, 0, graph, op)[0] @ operand(arrays, WEIGHTS).astype(np.int64).T
    return scaled(wrap32(products + operand(arrays, BIAS)), parameters(graph, op).inputs)


def _recurrent_sums(graph: Graph, op: Op, arrays: OptionalArrays, hidden: Int64) -> Int64:
    """Return the gates' pre-activations from the int8 hidden state only (recurrent weights and bias), [gates * cells]."""
    sums = operand(arrays, RECURRENT).astype(np.int64) @ (hidden - graph.output(op).zero_point)
    return scaled(wrap32(biased(sums, arrays, RECURRENT_BIAS)), parameters(graph, op).recurrence)


def _limited(graph: Graph, op: Op, states: Int64) -> Int64:
    """Clamp states, which are in units of output scale / 2^STATE_BITS, to the range of the int8 output."""
    low, high = ((limit - graph.output(op).zero_point) << STATE_BITS for limit in (-128, 127))
    return np.asarray(np.clip(states, low, high))


def _scaled_state(graph: Graph, op: Op, activations: Int64) -> Int64:
    """Rescale activations from Q0.15 to units of output scale / 2^STATE_BITS, clamped to the range of the int8 output."""
    return _limited(graph, op, halved(activations * parameters(graph, op).activation, 16))


def _first(graph: Graph, op: Op, arrays: OptionalArrays) -> Int64:
    """Return the int8 hidden state before the first step, [cells]; without an initial state the zero point."""
    if arrays[STATE] is not None:
        return np.asarray(operand(arrays, STATE)[0], np.int64)
    return np.full(graph.output(op).shape[-1], graph.output(op).zero_point, np.int64)


def reference_gru(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute h = n + z * (h - n) with the gates reset (r), update (z), new (n); only h is limited to the output's range."""
    zero, states = graph.output(op).zero_point, []
    state = (_first(graph, op, arrays) - zero) << STATE_BITS
    for row in _in_order(op, _input_sums(graph, op, arrays)):
        in_r, in_z, in_n = np.split(row, 3)
        again_r, again_z, again_n = np.split(_recurrent_sums(graph, op, arrays, halved(state, STATE_BITS) + zero), 3)
        reset, update = logistic(in_r + again_r), logistic(in_z + again_z)
        if op.attrs["reset_after"]:
            again_n = halved(reset * np.clip(again_n, -NEW_LIMIT, NEW_LIMIT), 15)
        else:
            product = halved(halved(reset * state, 15), STATE_BITS) + zero
            again_n = np.split(_recurrent_sums(graph, op, arrays, product), 3)[2]
        new = halved(tanh(in_n + again_n) * parameters(graph, op).activation, 16)
        state = _limited(graph, op, new + halved(update * (state - new), 15))
        states.append(halved(state, STATE_BITS) + zero)
    return _output(op, states, "int8")


def tanh(x: Int64) -> Int64:
    """Return tanh, in Q0.15, of numbers with GATE_BITS fractional bits; numbers are clamped to -8 .. 8."""
    magnitude = np.minimum(np.abs(x), (1 << 15) - 1)
    low, high = TANH[magnitude >> 7], TANH[(magnitude >> 7) + 1]
    positive = low + (((high - low) * (magnitude & 127) + 64) >> 7)
    return np.asarray(np.where(x < 0, -positive, positive))


def logistic(x: Int64) -> Int64:
    """Return 1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2 of numbers with GATE_BITS fractional bits in Q0.15."""
    return ((1 << 15) + tanh(x >> 1)) >> 1


def reference_rnn(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute the hidden state h = tanh(s), or relu(s) with `relu`; s sums both products and biases."""
    zero, states = graph.output(op).zero_point, []
    hidden = _first(graph, op, arrays)
    for row in _in_order(op, _input_sums(graph, op, arrays)):
        total = row + _recurrent_sums(graph, op, arrays, hidden)
        state = _limited(graph, op, np.maximum(total, 0)) if op.attrs["relu"] else _scaled_state(graph, op, tanh(total))
        hidden = halved(state, STATE_BITS) + zero
        states.append(hidden)
    return _output(op, states, "int8")


def reference_lstm(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute c = f * c + i * g and h = o * tanh(c) with the gates input (i), forget (f), candidate (g) and output (o)."""
    zero, bits, states = graph.output(op).zero_point, cell_bits(graph, op), []
    hidden = _first(graph, op, arrays)
    cell = np.zeros(hidden.shape, np.int64) if arrays[CELL] is None else operand(arrays, CELL)[0].astype(np.int64)
    for row in _in_order(op, _input_sums(graph, op, arrays)):
        sums = np.split(row + _recurrent_sums(graph, op, arrays, hidden), 4)
        (enter, forget, leave), candidate = (logistic(sums[gate]) for gate in (0, 1, 3)), tanh(sums[2])
        cell = q15.saturate(halved(forget * cell, 15) + halved(enter * candidate, 15 + bits))
        activation = halved(leave * tanh((cell << bits) >> 3), 15)
        hidden = halved(_scaled_state(graph, op, activation), STATE_BITS) + zero
        states.append(hidden)
    return [*_output(op, states, "int8"), cell[None].astype(np.int16)]


def _real_states(op: Op, arrays: OptionalArrays, step: Any, first: Float | None = None) -> list[Float]:
    """Return the states of a float32 layer from `first` on (default: the operand, or 0); `step` computes the next state."""
    recurrent = real_operand(arrays, RECURRENT)
    state = _real_first(arrays, STATE) if first is None else first
    again = 0.0 if arrays[RECURRENT_BIAS] is None else real_operand(arrays, RECURRENT_BIAS)
    states = []
    for row in _in_order(op, real_operand(arrays)[0] @ real_operand(arrays, WEIGHTS).T + real_operand(arrays, BIAS)):
        state = step(row, recurrent, again, state)
        states.append(state)
    return states


def _real_first(arrays: OptionalArrays, index: int) -> Float:
    """Return the hidden state (STATE) or cell state (CELL) before the first step, [cells]: the input `index`, 0 if absent."""
    cells = operand(arrays, RECURRENT).shape[1]
    return np.zeros(cells) if arrays[index] is None else real_operand(arrays, index)[0]


def real_gru(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    def step(row: Float, recurrent: Float, bias: Float, state: Float) -> Float:
        (in_r, in_z, in_n), (again_r, again_z, again_n) = np.split(row, 3), np.split(recurrent @ state + bias, 3)
        reset, update = real_logistic(in_r + again_r), real_logistic(in_z + again_z)
        again_n = reset * again_n if op.attrs["reset_after"] else np.split(recurrent @ (reset * state) + bias, 3)[2]
        new = np.tanh(in_n + again_n)
        return np.asarray(new + update * (state - new))

    return _output(op, _real_states(op, arrays, step), "float32")


@np.errstate(over="ignore")
def real_rnn(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    def step(row: Float, recurrent: Float, bias: Float, state: Float) -> Float:
        total = row + recurrent @ state + bias
        return np.asarray(np.maximum(total, 0) if op.attrs["relu"] else np.tanh(total))

    return _output(op, _real_states(op, arrays, step), "float32")


def real_lstm_states(op: Op, arrays: OptionalArrays) -> list[Float]:
    """Return the hidden and the cell state of a float32 LSTM, [2, cells], after each step."""

    def step(row: Float, recurrent: Float, bias: Float, state: Float) -> Float:
        sums = np.split(row + recurrent @ state[0] + bias, 4)
        enter, forget, leave = (real_logistic(sums[gate]) for gate in (0, 1, 3))
        cell = forget * state[1] + enter * np.tanh(sums[2])
        return np.stack([leave * np.tanh(cell), cell])

    return _real_states(op, arrays, step, np.stack([_real_first(arrays, index) for index in (STATE, CELL)]))


def real_lstm(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    states = real_lstm_states(op, arrays)
    return [*_output(op, [hidden for hidden, _ in states], "float32"), states[-1][1:].astype(np.float32)]


def macs(graph: Graph, op: Op, clipped: bool) -> int:
    return graph.input(op).shape[1] * (graph.input(op, WEIGHTS).elements + graph.input(op, RECURRENT).elements)


def has_all_operands(graph: Graph, op: Op) -> bool:
    """must have the inputs x, weights, recurrent weights, bias, and perhaps recurrent bias and initial state"""
    counts = (len(op.inputs), len(op.outputs))
    return None not in op.inputs[:RECURRENT_BIAS] and counts == ((7, 2) if has_cell(op) else (6, 1))


def shapes_match(graph: Graph, op: Op) -> bool:
    """must have input [1, time, depth], weights [gates * cells, depth] and [gates * cells, cells], states [1, cells]"""
    x, recurrent = graph.input(op), graph.input(op, RECURRENT)
    if len(x.shape) != 3 or len(recurrent.shape) != 2 or x.shape[0] != 1 or 0 in (x.elements, recurrent.elements):
        return False
    rows, cells = recurrent.shape
    expected: dict[int, Shape] = {WEIGHTS: (rows, x.shape[2]), BIAS: (rows,), RECURRENT_BIAS: (rows,), STATE: (1, cells)}
    expected |= {CELL: (1, cells)} if has_cell(op) else {}
    given = {index: graph.optional_input(op, index) for index in expected}
    return rows == GATES[op.kind] * cells and all(t is None or t.shape == expected[index] for index, t in given.items())


@on_integers
def weights_are_int8(graph: Graph, op: Op) -> bool:
    """the weights must be constant int8 with zero point 0 and one scale per row, the biases constant int32"""
    weights, biases = [graph.input(op, index) for index in (WEIGHTS, RECURRENT)], [graph.optional_input(op, BIAS)]
    biases += [graph.optional_input(op, RECURRENT_BIAS)]
    right = all(t is None or (t.data is not None and t.dtype == "int32") for t in biases)
    return right and all(t.data is not None and t.dtype == "int8" and _is_per_row(t) for t in weights)


def _is_per_row(tensor: Tensor) -> bool:
    quant = tensor.quant
    return quant is not None and not quant.axis and len(quant.scale) == tensor.shape[0] and not any(quant.zero_point)


@on_integers
def state_is_like_the_output(graph: Graph, op: Op) -> bool:
    """the initial state must be int8, quantised like the output"""
    state, out = graph.optional_input(op, STATE), graph.output(op)
    return state is None or (state.dtype == "int8" and state.quant == out.quant)


@on_integers
def cell_is_int16(graph: Graph, op: Op) -> bool:
    """the cell states must be int16, zero point 0, and have the same scale, 2^-15 to 2^-9"""
    out, given = graph.outputs_of(op)[1], graph.optional_input(op, CELL)
    right = out.dtype == "int16" and per_tensor(out) and out.zero_point == 0 and out.scale in {2.0**-n for n in range(9, 16)}
    return right and (given is None or (given.dtype, given.quant) == (out.dtype, out.quant))


def numbers_are_flags(graph: Graph, op: Op) -> bool:
    """the attributes must be 0 or 1"""
    return all(op.attrs[name] in (0, 1) for name in NUMBERS[op.kind])


def float_has_all_states(graph: Graph, op: Op) -> bool:
    """a float32 layer must return all states, which calibration needs"""
    return graph.output(op).dtype != "float32" or not op.attrs["last"]


CONSTRAINTS = (
    has_all_operands,
    numbers_are_flags,
    float_has_all_states,
    input_is_int8,
    output_is_int8,
    shapes_match,
    weights_are_int8,
    state_is_like_the_output,
)
# the attributes: `reverse` reads the last step first, `last` returns only the state after all steps, `reset_after` multiplies
# the hidden state by the recurrent weights before the reset gate, `relu` is the activation in place of tanh
NUMBERS = {
    "gru": ("reverse", "last", "reset_after"),
    "simple_rnn": ("reverse", "last", "relu"),
    "stateless_lstm": ("reverse", "last"),
}


def _layer(kind: str, reference: Any, real: Any, *constraints: Constraint) -> OpSpec:
    return OpSpec(
        kind,
        infer,
        reference,
        (*CONSTRAINTS, *constraints),
        macs,
        family="sequence",
        rescale=parameters,
        scale="own",
        real=real,
        numbers=NUMBERS[kind],
    )


SPECS = (
    _layer("gru", reference_gru, real_gru),
    _layer("simple_rnn", reference_rnn, real_rnn),
    _layer("stateless_lstm", reference_lstm, real_lstm, cell_is_int16),
)
