"""PyTorch's LSTM as TFLite's, and its GRU step by step: both begin each sequence at 0.

TFLite's LSTM keeps its state from one inference to the next; where each is a sequence of its own, the state must be reset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops import lstm as tflite_lstm
from ..channels_last import Axes, Builder, Map, Unread, Unsupported, extents
from .axes import linear, split_sizes
from .elementwise import binary, constant

LSTM_OPERANDS = 24


def _checked(x: Map, states: Any, batch_first: bool, bidirectional: bool, dropout: float, train: bool) -> tuple[Axes, Axes]:
    """Return the axes (time, depth) of a sequence."""
    if bidirectional:
        raise Unsupported("it runs in both directions")
    if dropout and train:
        raise Unsupported("it is in training mode; call eval() first")
    if any(isinstance(state, Map) or np.any(state) for state in (states if isinstance(states, list) else [states])):
        raise Unsupported("its first state is not 0")
    batch, time = (0, 1) if batch_first else (1, 0)
    if len(x.axes) < 3:
        return x.axes[0], x.axes[-1]
    if x.axes[batch]:
        raise Unsupported(f"its batch is {x.shape[batch]}; export it with a batch of 1")
    return x.axes[time], x.axes[-1]


def _layers(parameters: Sequence[np.ndarray], layers: int) -> list[list[np.ndarray]]:
    """Return per layer its weights, recurrent weights and two biases, which may be missing."""
    if layers < 1 or len(parameters) < 2 * layers or any(not isinstance(part, np.ndarray) for part in parameters):
        raise Unsupported("its weights are not constant, or of no layer")
    each = len(parameters) // layers
    found = []
    for layer in range(layers):
        weights, recurrent, *biases = parameters[layer * each : (layer + 1) * each]
        if len(biases) not in (0, 2):
            raise Unsupported("it has a projection")
        found.append([weights, recurrent, *(biases or [np.zeros(len(weights))] * 2)])
    return found


def _recurrent(what: str, layer: Callable[..., str], *others: Unread) -> Callable[..., list[Any]]:
    """Return the function of a recurrent op, of one or several layers; `others`: what it gives besides, which is not read."""

    def apply(
        b: Builder,
        x: Map,
        states: Any,
        parameters: Sequence[np.ndarray],
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool = False,
    ) -> list[Any]:
        time, depth = _checked(x, states, batch_first, bidirectional, dropout, train)
        (steps,), y = extents((time,)), b.tensor(x, ((), time, depth))
        for parts in _layers(parameters, layers):
            y, cells = layer(b, y, steps, *parts), parts[1].shape[1]
        out, is_flat = b.fresh(cells), len(x.axes) == 2

        def last() -> Map:
            name = y
            if steps > 1:
                begin, size = b.integers((0, steps - 1, 0), "begin"), b.integers((1, 1, cells), "size")
                (name,) = b.op("slice", (y, begin, size), [(1, 1, cells)], {}, "last")
            return Map(name, ((), out) if is_flat else ((), (), out), ((), (), out))

        axes = (time, out) if is_flat else ((), time, out) if batch_first else (time, (), out)
        unread = Unread(f"only the output of {what} of several layers is supported")
        return [Map(y, axes, ((), time, out)), last if layers == 1 else unread, *others]

    return apply


def _lstm_layer(
    b: Builder, x: str, steps: int, weights: np.ndarray, recurrent: np.ndarray, one: np.ndarray, two: np.ndarray
) -> str:
    cells = recurrent.shape[1]
    operands: list[str | None] = [None] * LSTM_OPERANDS
    operands[0] = x
    for first, whole, what in (
        (tflite_lstm.WEIGHTS, weights, "weight"),
        (tflite_lstm.RECURRENT, recurrent, "recurrent"),
        (tflite_lstm.BIAS, one + two, "bias"),
    ):
        for gate, part in enumerate(np.split(whole, tflite_lstm.GATES)):
            operands[first + gate] = b.constant(part, f"{what}_{gate}")
    kept = [b.state((1, cells), name) for name in ("hidden", "cell")]
    operands[tflite_lstm.HIDDEN], operands[tflite_lstm.CELL] = kept
    attrs = {"activation": "tanh", "cell_clip": 0.0, "time_major": False}
    return b.op("unidirectional_sequence_lstm", operands, [(1, steps, cells)], attrs, states=kept)[0]


def _gru_layer(
    b: Builder, x: str, steps: int, weights: np.ndarray, recurrent: np.ndarray, one: np.ndarray, two: np.ndarray
) -> str:
    """Unrolled: h = n + z * (h - n); the products with the input are one op for all steps."""
    cells = recurrent.shape[1]
    plain = {"activation": "none"}

    def op(kind: str, *operands: str, shape: tuple[int, ...] = (1, cells), **attrs: Any) -> str:
        return b.op(kind, operands, [shape], attrs, "step")[0]

    # the biases of the gates r and z stand beside each other, those of n are apart by a product with r
    joint = np.concatenate([one[: 2 * cells] + two[: 2 * cells], one[2 * cells :]])
    apart = np.concatenate([np.zeros(2 * cells), two[2 * cells :]])
    operands = x, b.constant(weights, "weight"), b.constant(joint, "bias")
    inputs = b.op("fully_connected", operands, [(1, steps, 3 * cells)], plain | {"keep_num_dims": True}, "inputs")[0]
    rows = b.op("unpack", (inputs,), [(1, 3 * cells)] * steps, {"axis": 1}, "input")
    matrix, bias = b.constant(recurrent, "recurrent"), b.constant(apart, "recurrent_bias")
    sizes, axis = b.integers((2 * cells, cells), "sizes"), b.integers(1, "axis")
    state, outputs = "", []
    for row in rows:
        gates, new_in = b.op("split_v", (row, sizes, axis), [(1, 2 * cells), (1, cells)], {}, "step")
        if state:
            product = op("fully_connected", state, matrix, bias, shape=(1, 3 * cells), keep_num_dims=False, **plain)
            gates_h, new_h = b.op("split_v", (product, sizes, axis), [(1, 2 * cells), (1, cells)], {}, "step")
            gates = op("add", gates, gates_h, shape=(1, 2 * cells), **plain)
        else:
            new_h = b.constant(two[None, 2 * cells :], "recurrent_bias")
        gates = op("logistic", gates, shape=(1, 2 * cells))
        reset, update = b.op("split", (axis, gates), [(1, cells)] * 2, {}, "step")
        new = op("tanh", op("add", new_in, op("mul", reset, new_h, **plain), **plain))
        change = op("mul", update, op("sub", state, new, **plain) if state else new, **plain)
        state = op("add" if state else "sub", new, change, **plain)
        outputs.append(state)
    return b.op("pack", outputs, [(1, steps, cells)], {"axis": 1})[0]


def gru_cell(b: Builder, x: Map, state: Any, weights: Any, recurrent: Any, one: Any = None, two: Any = None) -> Map:
    """One step of a GRU: h = n + z * (h - n); its state is a map, or constant before the first step."""
    cells = constant(recurrent, "recurrent weight").shape[1]
    add, multiply = binary("add"), binary("mul")
    gates, new_in = _cell_gates(b, x, weights, one, cells)
    gates_h, new_h = _cell_gates(b, state, recurrent, two, cells)
    reset, update = split_sizes(b, b.like("logistic", add(b, gates, gates_h)), (cells, cells), 1)
    new = b.like("tanh", add(b, new_in, multiply(b, reset, new_h)))
    return add(b, new, multiply(b, update, binary("sub")(b, state, new)))


def _cell_gates(b: Builder, x: Any, weights: Any, bias: Any, cells: int) -> list[Any]:
    """Return what one input gives the gates r and z beside each other, and n."""
    if isinstance(x, Map):
        if len(x.axes) != 2:
            raise Unsupported("a step takes a batch of 1: [1, features]")
        return split_sizes(b, linear(b, x, weights, bias), (2 * cells, cells), 1)
    product = constant(x, "input") @ constant(weights, "weight").T + (0 if bias is None else constant(bias, "bias"))
    return [product[:, : 2 * cells], product[:, 2 * cells :]]


lstm = _recurrent("an LSTM", _lstm_layer, Unread("its cell state is read"))
gru = _recurrent("a GRU", _gru_layer)
RECURRENT: dict[str, Callable[..., Any]] = {"gru": gru, "gru_cell": gru_cell, "lstm": lstm}
