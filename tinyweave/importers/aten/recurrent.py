"""Import PyTorch's LSTM as TFLite's LSTM, and its GRU as one group of ops per time step (unrolled).

TFLite's LSTM keeps its state from one inference to the next. If each inference is a sequence of its own, the application must
reset the state. The unrolled GRU starts each inference with the state 0, as torch does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops import lstm as tflite_lstm
from ..channels_last import Axes, Builder, Map, Unavailable, extents
from ..unsupported import Unsupported
from .axes import linear, split_sizes
from .elementwise import binary, constant

LSTM_OPERANDS = 24  # inputs of TFLite's unidirectional_sequence_lstm, absent ones included


def _checked(x: Map, states: Any, batch_first: bool, bidirectional: bool, dropout: float, train: bool) -> tuple[Axes, Axes]:
    """Return the time axis and the feature axis of a sequence, each as a group of Axis units (see `channels_last`).

    `states` are the initial states, which must be 0. Raise Unsupported for options that TFLite's ops do not have.
    """
    if bidirectional:
        raise Unsupported("it is bidirectional; only one direction is supported")
    if dropout and train:
        raise Unsupported("it is in training mode; call eval() first")
    given = states if isinstance(states, list) else [states]
    if any(isinstance(state, Map) for state in given):
        raise Unsupported("its initial state is computed by the network; only 0 is supported")
    if any(map(np.any, given)):
        raise Unsupported("its initial state is not 0; only 0 is supported")
    batch, time = (0, 1) if batch_first else (1, 0)
    if len(x.axes) < 3:
        return x.axes[0], x.axes[-1]
    if x.axes[batch]:
        raise Unsupported(f"its batch is {x.shape[batch]}; export it with a batch of 1")
    return x.axes[time], x.axes[-1]


def _layers(parameters: Sequence[np.ndarray], layers: int) -> list[list[np.ndarray]]:
    """Split the parameters into one list per layer: weights, recurrent weights, bias, recurrent bias. Missing biases are 0."""
    if layers < 1 or len(parameters) < 2 * layers or any(not isinstance(part, np.ndarray) for part in parameters):
        raise Unsupported("its weights are not constant or do not match its layers")
    each = len(parameters) // layers
    found = []
    for layer in range(layers):
        weights, recurrent, *biases = parameters[layer * each : (layer + 1) * each]
        if len(biases) not in (0, 2):
            raise Unsupported("it has a projection; leave proj_size at 0")
        found.append([weights, recurrent, *(biases or [np.zeros(len(weights))] * 2)])
    return found


def _recurrent(what: str, layer: Callable[..., str], *others: Unavailable) -> Callable[..., list[Any]]:
    """Return a function that imports a recurrent op of one or several layers, called `what` in messages.

    `layer` adds one layer and returns the name of its output [1, time, cells]. The returned function returns the outputs of the
    op: the sequence, the final hidden state, and `others`, which are outputs that no op may read. The final hidden state is
    itself a function, which adds a slice when an op reads the state, so that an unread state costs nothing.
    """

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
        out, is_flat = b.new_axis(cells), len(x.axes) == 2

        def last() -> Map:
            """Add a slice of the last time step, and return it: it is the final hidden state."""
            name = y
            if steps > 1:
                begin, size = b.integers((0, steps - 1, 0), "begin"), b.integers((1, 1, cells), "size")
                (name,) = b.op("slice", (y, begin, size), [(1, 1, cells)], {}, "last")
            return Map(name, ((), out) if is_flat else ((), (), out), ((), (), out))

        axes = (time, out) if is_flat else ((), time, out) if batch_first else (time, (), out)
        unread = Unavailable(f"its final state is read; of {what} with several layers only the output is supported")
        return [Map(y, axes, ((), time, out)), last if layers == 1 else unread, *others]

    return apply


def _lstm_layer(
    b: Builder, x: str, steps: int, weights: np.ndarray, recurrent: np.ndarray, bias: np.ndarray, recurrent_bias: np.ndarray
) -> str:
    """Add one LSTM layer on the sequence `x`, [1, steps, features], and return the name of its output [1, steps, cells].

    Args:
        b: the graph under construction.
        x: the name of the sequence.
        steps: the number of time steps.
        weights: input weights, [4 * cells, features].
        recurrent: recurrent weights, [4 * cells, cells].
        bias: the bias of the input weights, [4 * cells].
        recurrent_bias: the bias of the recurrent weights, [4 * cells]. The sum of both biases is stored.
    """
    cells = recurrent.shape[1]
    operands: list[str | None] = [None] * LSTM_OPERANDS
    operands[0] = x
    for first, whole, what in (
        (tflite_lstm.WEIGHTS, weights, "weight"),
        (tflite_lstm.RECURRENT, recurrent, "recurrent"),
        (tflite_lstm.BIAS, bias + recurrent_bias, "bias"),
    ):
        for gate, part in enumerate(np.split(whole, tflite_lstm.GATES)):
            operands[first + gate] = b.constant(part, f"{what}_{gate}")
    states = [b.state((1, cells), name) for name in ("hidden", "cell")]
    operands[tflite_lstm.HIDDEN], operands[tflite_lstm.CELL] = states
    attrs = {"activation": "tanh", "cell_clip": 0.0, "time_major": False}
    return b.op("unidirectional_sequence_lstm", operands, [(1, steps, cells)], attrs, states=states)[0]


def _gru_layer(
    b: Builder, x: str, steps: int, weights: np.ndarray, recurrent: np.ndarray, bias: np.ndarray, recurrent_bias: np.ndarray
) -> str:
    """Add one GRU layer on the sequence `x`, unrolled into ops for each time step, and return the name of its output.

    A step computes h = n + z * (h - n). One fully_connected op multiplies the inputs of all steps by the weights.

    Args:
        b: the graph under construction.
        x: the name of the sequence [1, steps, features].
        steps: the number of time steps.
        weights: input weights, [3 * cells, features], with the gates in the order r (reset), z (update), n (new).
        recurrent: recurrent weights, [3 * cells, cells].
        bias: the bias of the input weights, [3 * cells].
        recurrent_bias: the bias of the recurrent weights, [3 * cells].
    """
    cells = recurrent.shape[1]
    plain: dict[str, Any] = {"activation": "none"}

    def op(kind: str, *operands: str, shape: tuple[int, ...] = (1, cells), **attrs: Any) -> str:
        return b.op(kind, operands, [shape], attrs, "step")[0]

    # for the gates r and z both biases are added up; the recurrent bias of n is multiplied by r and stays separate
    input_bias = np.concatenate([bias[: 2 * cells] + recurrent_bias[: 2 * cells], bias[2 * cells :]])
    separate_bias = np.concatenate([np.zeros(2 * cells), recurrent_bias[2 * cells :]])
    operands = x, b.constant(weights, "weight"), b.constant(input_bias, "bias")
    inputs = b.op("fully_connected", operands, [(1, steps, 3 * cells)], plain | {"keep_num_dims": True}, "inputs")[0]
    rows = b.op("unpack", (inputs,), [(1, 3 * cells)] * steps, {"axis": 1}, "input")
    matrix, matrix_bias = b.constant(recurrent, "recurrent"), b.constant(separate_bias, "recurrent_bias")
    sizes, axis = b.integers((2 * cells, cells), "sizes"), b.integers(1, "axis")
    state, outputs = "", []
    for row in rows:
        gates, new_in = b.op("split_v", (row, sizes, axis), [(1, 2 * cells), (1, cells)], {}, "step")
        if state:
            product = op("fully_connected", state, matrix, matrix_bias, shape=(1, 3 * cells), keep_num_dims=False, **plain)
            gates_h, new_h = b.op("split_v", (product, sizes, axis), [(1, 2 * cells), (1, cells)], {}, "step")
            gates = op("add", gates, gates_h, shape=(1, 2 * cells), **plain)
        else:
            new_h = b.constant(recurrent_bias[None, 2 * cells :], "recurrent_bias")
        gates = op("logistic", gates, shape=(1, 2 * cells))
        reset, update = b.op("split", (axis, gates), [(1, cells)] * 2, {}, "step")
        new = op("tanh", op("add", new_in, op("mul", reset, new_h, **plain), **plain))
        change = op("mul", update, op("sub", state, new, **plain) if state else new, **plain)
        state = op("add" if state else "sub", new, change, **plain)
        outputs.append(state)
    return b.op("pack", outputs, [(1, steps, cells)], {"axis": 1})[0]


def gru_cell(b: Builder, x: Map, state: Any, weights: Any, recurrent: Any, bias: Any = None, recurrent_bias: Any = None) -> Map:
    """Import aten.gru_cell, one GRU step, h = n + z * (h - n).

    The state h is a map, or a constant before the first step of a loop. Weights have the gates in the order r, z, n.
    """
    cells = constant(recurrent, "recurrent weight").shape[1]
    add, multiply = binary("add"), binary("mul")
    gates, new_in = _cell_gates(b, x, weights, bias, cells)
    gates_h, new_h = _cell_gates(b, state, recurrent, recurrent_bias, cells)
    reset, update = split_sizes(b, b.like("logistic", add(b, gates, gates_h)), (cells, cells), 1)
    new = b.like("tanh", add(b, new_in, multiply(b, reset, new_h)))
    return add(b, new, multiply(b, update, binary("sub")(b, state, new)))


def _cell_gates(b: Builder, x: Any, weights: Any, bias: Any, cells: int) -> list[Any]:
    """Multiply the input or the state of a GRU cell by its weights, and add the bias.

    Returns:
        The sums of the gates r and z together, [1, 2 * cells], and the sums of n, [1, cells]: maps if `x` is a map, else
        arrays.
    """
    if isinstance(x, Map):
        if len(x.axes) != 2:
            raise Unsupported("its input must be [1, features], a batch of 1")
        return split_sizes(b, linear(b, x, weights, bias), (2 * cells, cells), 1)
    product = constant(x, "input") @ constant(weights, "weight").T + (0 if bias is None else constant(bias, "bias"))
    return [product[:, : 2 * cells], product[:, 2 * cells :]]


lstm = _recurrent("an LSTM", _lstm_layer, Unavailable("its cell state is read; only its output is supported"))
gru = _recurrent("a GRU", _gru_layer)
RECURRENT: dict[str, Callable[..., Any]] = {"gru": gru, "gru_cell": gru_cell, "lstm": lstm}
