"""Kernels of recurrent ops, and of reads and writes of variables."""

from __future__ import annotations

from functools import partial

from .. import overlap_distance as distance
from ..variant import ANY, Variant

lstm = partial(Variant, kinds=("unidirectional_sequence_lstm",), params="tw_lstm", has_part=False, distance=distance.by_time)
svdf = partial(Variant, kinds=("svdf",), params="tw_svdf", has_part=False)

ROWS: tuple[Variant, ...] = (
    lstm("tw_unidirectional_sequence_lstm_s8_dsp", isa="dsp"),
    lstm("tw_unidirectional_sequence_lstm_s8"),
    svdf("tw_svdf_s8_dsp", isa="dsp"),
    svdf("tw_svdf_s8"),
    Variant("memcpy", ("read_variable", "assign_variable"), "memcpy", ANY, has_part=False),
)
