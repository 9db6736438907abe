"""Import PyTorch's GRU, RNN and LSTM as one op for each layer, direction and sample of the batch.

An LSTM that goes forward from the states 0 becomes TFLite's LSTM, which keeps its state from one inference to the next. If each
inference is a sequence of its own, the application must reset the state. All other layers start each inference from their
initial state, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...ops import lstm as tflite_lstm
from ..channels_last import Axes, Builder, Map, Unavailable, extents
from ..unsupported import Unsupported
from . import axes
from .elementwise import constant

LSTM = "stateless_lstm"
LSTM_OPERANDS = 24  # inputs of TFLite's unidirectional_sequence_lstm, absent ones included


class Layers(NamedTuple):
    """The arguments of aten.lstm, aten.gru and aten.rnn_tanh behind the states."""

    parameters: Sequence[np.ndarray]
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool = False


def _sequence_of(b: Builder, x: Map, batch_first: bool) -> Map:
    """Return a sequence of one sample as the map [1, time, features]."""
    if len(x.axes) == 2:
        return axes.unsqueeze(b, x, 0)
    return x if batch_first else axes.transpose(b, x, 0, 1)


def _output_of(b: Builder, y: Map, batch_first: bool, is_flat: bool) -> Map:
    """Return the map [1, time, cells] as [time, cells] if `is_flat`, else as [time, 1, cells] unless `batch_first`."""
    if is_flat:
        return axes.squeeze(b, y, 0)
    return y if batch_first else axes.transpose(b, y, 0, 1)


def _layers(
    parameters: Sequence[np.ndarray], layers: int, is_computed: bool
) -> list[tuple[list[np.ndarray], np.ndarray | None]]:
    """Split parameters into ((weights, recurrent weights, bias, recurrent bias), projection) per layer; absent biases are 0.

    The op keeps the hidden state before an LSTM's projection (or None), so the recurrent weights are multiplied by the
    projection. Raise Unsupported if there is a projection, and the initial states are not 0 (`is_computed`).
    """
    if layers < 1 or len(parameters) < 2 * layers or any(not isinstance(part, np.ndarray) for part in parameters):
        raise Unsupported("its weights are not constant or do not match its layers")
    each = len(parameters) // layers
    found = []
    for layer in range(layers):
        weights, recurrent, *biases = parameters[layer * each : (layer + 1) * each]
        projection = biases.pop() if len(biases) % 2 else None
        if projection is not None and is_computed:
            raise Unsupported("it has a projection and an initial state; start from the state 0, or leave proj_size at 0")
        recurrent = recurrent if projection is None else recurrent @ projection
        found.append(([weights, recurrent, *(biases or [np.zeros(len(weights))] * 2)], projection))
    return found


def recurrent(kind: str, **numbers: float) -> Callable[..., list[Any]]:
    """Return a function that imports a recurrent layer or several as ops `kind`, one per direction, with attributes `numbers`.

    The function returns the output, the final hidden states and, of an LSTM, the final cell states. States are functions that
    add ops when an op reads them. `reverses` says for each direction whether time is reversed (default: by `bidirectional`).
    Layers of an LSTM that run forward from states of 0 become TFLite's LSTM, whose cell states no op may read.
    """

    def apply(b: Builder, x: Map, states: Any, given: Layers, *, reverses: Sequence[bool] = ()) -> list[Any]:
        y, is_flat = _sequence_of(b, x, given.batch_first), len(x.axes) == 2
        reverses = reverses or (False, True)[: 1 + given.bidirectional]
        first_states = states if kind == LSTM else [states]
        is_computed = any(isinstance(state, Map) or np.any(state) for state in first_states)
        keeps_state = kind == LSTM and not any(reverses) and not is_computed
        all_parts = _layers(given.parameters, given.layers * len(reverses), is_computed)
        final, cells = list[tuple[Map, int]](), list[Map]()
        for first in range(0, len(all_parts), len(reverses)):
            ways = []
            for index, reverse in enumerate(reverses, first):
                parts, projection = all_parts[index]
                if keeps_state:
                    output = _keeping_lstm(b, y, *parts)
                else:
                    initial = [_initial_state(b, each, index, is_flat) for each in first_states]
                    output, *cell = _layer(b, kind, y, initial, parts, reverse=float(reverse), **numbers)
                    cells += cell
                ways.append(output if projection is None else axes.linear(b, output, projection))
                final.append((ways[-1], 0 if reverse else -1))
            y = axes.concatenation(b, ways, 2) if len(ways) > 1 else ways[0]

        unread = Unavailable("its cell state is read; pass it its initial states as inputs, or do not read it")
        outputs: list[Any] = [
            _output_of(b, y, given.batch_first, is_flat),
            lambda: _gathered(b, [axes.select(b, output, 1, step) for output, step in final], is_flat),
            unread if keeps_state else lambda: _gathered(b, cells, is_flat),
        ]
        return outputs if kind == LSTM else outputs[:2]

    return apply


def _gathered(b: Builder, states: Sequence[Map], is_flat: bool) -> Map:
    """Add the ops that stack several states, each [1, cells]; return [count, cells] if `is_flat`, else [count, 1, cells]."""
    together = axes.stack(b, list(states))
    return axes.squeeze(b, together, 1) if is_flat else together


def _initial_state(b: Builder, states: Any, index: int, is_flat: bool) -> str | None:
    """Return the initial state `index` of `states`, [count(, 1), cells], as a tensor [1, cells]; None if it is all 0."""
    if not isinstance(states, Map):
        values = constant(states, "initial state")
        return b.constant(np.reshape(values[index], (1, -1)), "state") if values.any() else None
    state = axes.select(b, states, 0, index)
    state = state if is_flat else axes.squeeze(b, state, 0)
    return b.tensor(state, ((), state.axes[0]))


def _layer(
    b: Builder, kind: str, x: Map, states: Sequence[str | None], parts: Sequence[np.ndarray], **numbers: float
) -> list[Map]:
    """Add one layer in one direction on `x`, [1, steps, features]; its output is [1, steps, cells], a cell state [1, cells].

    `states` are the initial states, None for zeros. `parts` are the weights, [gates * cells, features], the recurrent weights,
    and the biases of both. The gates of a GRU are reset, update, new.
    """
    weights, recurrent, bias, recurrent_bias = parts
    (_, time, depth), out = x.axes, b.new_axis(recurrent.shape[1])
    again = None
    if numbers.get("reset_after"):  # the reset gate multiplies the recurrent bias of the new gate
        again = b.constant(recurrent_bias, "recurrent_bias")
    else:
        bias = bias + recurrent_bias
    operands = b.tensor(x, ((), time, depth)), b.constant(weights, "weight"), b.constant(recurrent, "recurrent")
    all_dims: list[tuple[Axes, ...]] = [((), time, out), ((), out)][: 2 if kind == LSTM else 1]
    inputs = (*operands, b.constant(bias, "bias"), again, *states)
    names = b.op(kind, inputs, [extents(dims) for dims in all_dims], {**numbers, "last": 0.0})
    return [Map(name, dims, dims) for name, dims in zip(names, all_dims, strict=True)]


def _keeping_lstm(
    b: Builder, x: Map, weights: np.ndarray, recurrent: np.ndarray, bias: np.ndarray, recurrent_bias: np.ndarray
) -> Map:
    """Add TFLite's LSTM on `x`, [1, steps, features], which stores the sum of both biases; return its output."""
    (_, time, depth), out = x.axes, b.new_axis(recurrent.shape[1])
    cells = recurrent.shape[1]
    operands: list[str | None] = [None] * LSTM_OPERANDS
    operands[0] = b.tensor(x, ((), time, depth))
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
    dims: tuple[Axes, ...] = ((), time, out)
    (name,) = b.op("unidirectional_sequence_lstm", operands, [extents(dims)], attrs, states=states)
    return Map(name, dims, dims)


def cell(kind: str, **numbers: float) -> Callable[..., Any]:
    """Return a function that imports a step of a layer, such as aten.gru_cell, and returns its state(s) [1, cells]."""

    def apply(b: Builder, x: Map, states: Any, weights: Any, again: Any, bias: Any = None, again_bias: Any = None) -> Any:
        if not isinstance(x, Map) or x.axes[:-1] not in ((), ((),)):
            raise Unsupported("its input must be [1, features], a batch of 1")
        parts = [constant(part, "weight") for part in (weights, again)]
        parts += [np.zeros(len(parts[0])) if part is None else constant(part, "bias") for part in (bias, again_bias)]
        is_flat, given = len(x.axes) == 1, states if kind == LSTM else [states]
        initial = [
            _initial_state(b, axes.unsqueeze(b, each, 0) if isinstance(each, Map) else np.reshape(each, (1, 1, -1)), 0, is_flat)
            for each in given
        ]
        step = _sequence_of(b, axes.unsqueeze(b, x, 0) if is_flat else x, False)
        output, *cells = _layer(b, kind, step, initial, parts, reverse=0.0, **numbers)
        found = [axes.squeeze(b, output, 0), *cells]
        found = [axes.squeeze(b, each, 0) for each in found] if is_flat else found
        return found if kind == LSTM else found[0]

    return apply


def by_sample(function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return a function that calls `function`, the importer of a recurrent layer, for each sample, and joins the outputs."""

    def apply(b: Builder, x: Map, states: Any, *options: Any, reverses: Sequence[bool] = ()) -> list[Any]:
        given = Layers(*options)
        if given.dropout and given.train:
            raise Unsupported("it is in training mode; call eval() first")
        at = 0 if given.batch_first else 1
        if len(x.axes) < 3 or x.shape[at] == 1:
            return function(b, x, states, given, reverses=reverses)
        if x.shape[at] > MAX_BATCH:
            raise Unsupported(f"its batch is {x.shape[at]}; at most {MAX_BATCH} samples are supported")

        def sample(value: Any, axis: int, index: int) -> Any:
            if isinstance(value, Map):
                return axes.slice_(b, value, axis, index, index + 1)
            return value[:, index : index + 1] if np.ndim(value) == 3 else value

        found = []
        for index in range(x.shape[at]):
            is_list = isinstance(states, (list, tuple))
            first = [sample(state, 1, index) for state in states] if is_list else sample(states, 1, index)
            found.append(function(b, sample(x, at, index), first, given, reverses=reverses))

        def joined(place: int, axis: int) -> Map:
            parts = [each[place]() if callable(each[place]) else each[place] for each in found]
            return axes.concatenation(b, parts, axis)

        last = [each if isinstance(each, Unavailable) else partial(joined, place, 1) for place, each in enumerate(found[0])]
        return [joined(0, at), *last[1:]]

    return apply


MAX_BATCH = 256  # each sample becomes an op of its own
TANH = {"relu": 0.0}
RELU = {"relu": 1.0}
AFTER = {"reset_after": 1.0}  # the hidden state is multiplied by the recurrent weights, then by the reset gate
GRU_BEFORE = by_sample(recurrent("gru", reset_after=0.0))  # ONNX's default: the reset gate multiplies the hidden state first
RECURRENT: dict[str, Callable[..., Any]] = {
    "gru": by_sample(recurrent("gru", **AFTER)),
    "gru_cell": cell("gru", **AFTER),
    "lstm": by_sample(recurrent(LSTM)),
    "lstm_cell": cell(LSTM),
    "rnn_relu": by_sample(recurrent("simple_rnn", **RELU)),
    "rnn_relu_cell": cell("simple_rnn", **RELU),
    "rnn_tanh": by_sample(recurrent("simple_rnn", **TANH)),
    "rnn_tanh_cell": cell("simple_rnn", **TANH),
}
