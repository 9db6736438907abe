"""Kernels of recurrent ops, and of reads and writes of variables."""

from __future__ import annotations

from functools import partial

from ...ir import Graph, Op
from ...ops.recurrent import sequence as layers
from .. import cycle_features
from .. import overlap_distance as distance
from ..variant import ANY, Variant, constant_bytes


def with_factors(graph: Graph, op: Op) -> int:
    """Return the bytes of a recurrent layer's constants: `constant_bytes`, and two int32 factors per row of the weights."""
    return constant_bytes(graph, op) + 8 * graph.input(op, layers.WEIGHTS).shape[0]


def gru_bytes(graph: Graph, op: Op) -> int:
    """Return the scratch bytes of a gru: 3 per cell, or 4 without `reset_after`.

    These are the int16 state, the int8 hidden state and, without `reset_after`, the product of hidden state and reset gate.
    """
    return graph.output(op).shape[-1] * (3 if op.attrs["reset_after"] else 4)


def hidden_bytes(graph: Graph, op: Op) -> int:
    """Return the scratch bytes of a recurrent layer: its int8 hidden state, one byte per cell."""
    return graph.output(op).shape[-1]


lstm = partial(Variant, kinds=("unidirectional_sequence_lstm",), params="tw_lstm", has_part=False, distance=distance.by_time)
sequence = partial(
    Variant, params="tw_sequence", has_part=False, distance=distance.by_step, flash=with_factors, features=cycle_features.steps
)
gru = partial(sequence, kinds=("gru",), scratch=gru_bytes)
rnn = partial(sequence, kinds=("simple_rnn",), scratch=hidden_bytes)
stateless = partial(sequence, kinds=("stateless_lstm",), scratch=hidden_bytes)
svdf = partial(Variant, kinds=("svdf",), params="tw_svdf", has_part=False)

ROWS: tuple[Variant, ...] = (
    lstm("tw_unidirectional_sequence_lstm_s8_dsp", isa="dsp"),
    lstm("tw_unidirectional_sequence_lstm_s8"),
    gru("tw_gru_s8_dsp", isa="dsp"),
    gru("tw_gru_s8"),
    rnn("tw_simple_rnn_s8_dsp", isa="dsp"),
    rnn("tw_simple_rnn_s8"),
    stateless("tw_stateless_lstm_s8_dsp", isa="dsp"),
    stateless("tw_stateless_lstm_s8"),
    svdf("tw_svdf_s8_dsp", isa="dsp"),
    svdf("tw_svdf_s8"),
    Variant("memcpy", ("read_variable", "assign_variable"), "memcpy", ANY, has_part=False),
)
