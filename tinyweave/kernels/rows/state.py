"""Kernels of recurrent ops, and of reads and writes of variables."""

from __future__ import annotations

from .. import overlap_distance as distance
from ..variant import ANY, Variant

ROWS: tuple[Variant, ...] = (
    Variant(
        "tw_unidirectional_sequence_lstm_s8",
        ("unidirectional_sequence_lstm",),
        "tw_lstm",
        has_part=False,
        distance=distance.by_time,
    ),
    Variant("tw_svdf_s8", ("svdf",), "tw_svdf", has_part=False),
    Variant("memcpy", ("read_variable", "assign_variable"), "memcpy", ANY, has_part=False),
)
