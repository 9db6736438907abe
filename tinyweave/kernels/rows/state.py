"""Kernels of recurrent ops, and of reads and writes of variables."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...ir import Graph, Op
from ...ops.recurrent import lstm as lstm_layer
from ...ops.recurrent import sequence as layers
from ...ops.recurrent import svdf as svdf_layer
from .. import cycle_features
from ..dsp import dense
from ..requirements import Check
from ..variant import ANY, Variant, constant_bytes


def with_factors(graph: Graph, op: Op) -> int:
    """Return the bytes of the constants of a recurrent layer's kernel, which pads weights and stores two factors per row.

    These are the constant operands (`constant_bytes`), two int32 factors per row of the weights, and zeros that pad the weights
    of each gate to whole words.
    """
    gates, weights = layers.GATES[op.kind], [graph.input(op, index) for index in (layers.WEIGHTS, layers.RECURRENT)]
    padding = sum(gates * (-(tensor.elements // gates) % 4) for tensor in weights)
    return constant_bytes(graph, op) + 8 * weights[0].shape[0] + padding


def with_both_biases(graph: Graph, op: Op) -> int:
    """Return the bytes of the constants of an MVE kernel: `with_factors`, and a recurrent bias if the layer has none."""
    missing = graph.optional_input(op, layers.RECURRENT_BIAS) is None
    return with_factors(graph, op) + (4 * graph.input(op, layers.WEIGHTS).shape[0] if missing else 0)


def packable(graph: Graph, op: Op) -> Check:
    """No weight of -128 is packed with a negative weight into the same 16-bit lane, as tw_dot_dsp.c needs."""
    if op.kind == "unidirectional_sequence_lstm":
        weights = [lstm_layer.by_cell(graph, op, first) for first in (lstm_layer.WEIGHTS, lstm_layer.RECURRENT)]
    else:
        weights = [layers.by_gate(graph, op, index) for index in (layers.WEIGHTS, layers.RECURRENT)]
    return Check(all(map(dense.lanes_fit, weights)), "one does")


def with_recurrent_bias(graph: Graph, op: Op) -> int:
    """Return the bytes of the constants of tw_unidirectional_sequence_lstm_s8_mve.

    It has a second bias per cell and gate (int32), for the zero point of the hidden state.
    """
    return constant_bytes(graph, op) + 4 * lstm_layer.GATES * graph.output(op).shape[-1]


def with_product_bias(graph: Graph, op: Op) -> int:
    """Return the bytes of the constants of tw_svdf_s8_mve, which has a bias (int32) per filter and always one per unit."""
    filters, units = graph.input(op, svdf_layer.WEIGHTS).shape[0], graph.output(op).shape[-1]
    added = 0 if graph.optional_input(op, svdf_layer.BIAS) else 4 * units
    return constant_bytes(graph, op) + 4 * filters + added


def gru_bytes(graph: Graph, op: Op) -> int:
    """Return the scratch bytes of a gru: 3 per cell, or 4 without `reset_after`.

    These are the int16 state, the int8 hidden state and, without `reset_after`, the product of hidden state and reset gate.
    """
    return graph.output(op).shape[-1] * (3 if op.attrs["reset_after"] else 4)


def hidden_bytes(graph: Graph, op: Op) -> int:
    """Return the scratch bytes of a recurrent layer: its int8 hidden state, one byte per cell."""
    return graph.output(op).shape[-1]


lstm = partial(Variant, kinds=("unidirectional_sequence_lstm",), params="tw_lstm", has_part=False)
sequence = partial(
    Variant, params="tw_sequence", has_part=False, weights=dense.in_words, flash=with_factors, features=cycle_features.steps
)
gru = partial(sequence, kinds=("gru",), scratch=gru_bytes)
rnn = partial(sequence, kinds=("simple_rnn",), scratch=hidden_bytes)
stateless = partial(sequence, kinds=("stateless_lstm",), scratch=hidden_bytes)
packed: dict[str, Any] = {"isa": "dsp", "applies": (packable,), "weights": dense.four_at_a_time}
vectors: dict[str, Any] = {"isa": "mve", "flash": with_both_biases, "features": cycle_features.steps_in_vectors}
svdf = partial(Variant, kinds=("svdf",), params="tw_svdf", has_part=False)

ROWS: tuple[Variant, ...] = (
    lstm(
        "tw_unidirectional_sequence_lstm_s8_mve",
        isa="mve",
        params="tw_lstm_mve",
        flash=with_recurrent_bias,
        features=cycle_features.cells_in_vectors,
    ),
    lstm("tw_unidirectional_sequence_lstm_s8_dsp", **packed),
    lstm("tw_unidirectional_sequence_lstm_s8"),
    gru("tw_gru_s8_mve", **vectors),
    gru("tw_gru_s8_dsp", **packed),
    gru("tw_gru_s8"),
    rnn("tw_simple_rnn_s8_mve", **vectors),
    rnn("tw_simple_rnn_s8_dsp", **packed),
    rnn("tw_simple_rnn_s8"),
    stateless("tw_stateless_lstm_s8_mve", **vectors),
    stateless("tw_stateless_lstm_s8_dsp", **packed),
    stateless("tw_stateless_lstm_s8"),
    svdf("tw_svdf_s8_mve", isa="mve", params="tw_svdf_mve", flash=with_product_bias, features=cycle_features.filters_over_time),
    svdf("tw_svdf_s8_dsp", isa="dsp"),
    svdf("tw_svdf_s8"),
    Variant("memcpy", ("read_variable", "assign_variable"), "memcpy", ANY, has_part=False),
)
