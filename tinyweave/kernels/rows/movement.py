"""Kernels that copy elements without computing."""

from __future__ import annotations

from functools import partial

from ...ops.data_movement import PIECES
from .. import cycle_features
from ..requirements import copies_in_equal_steps, padding_is_a_repeated_byte, padding_is_in_4_axes
from ..variant import ANY, VIEWS, Variant

row = partial(Variant, types=ANY)

ROWS: tuple[Variant, ...] = (
    row(
        "tw_pad_s8",
        ("pad", "padv2"),
        "tw_pad",
        applies=(padding_is_a_repeated_byte, padding_is_in_4_axes),
        features=cycle_features.runs,
    ),
    row("tw_concatenation_s8", ("concatenation", "pack"), "tw_concatenation", features=cycle_features.runs),
    row("tw_resize_nearest_neighbor_s8", ("resize_nearest_neighbor",), "tw_resize_nearest"),
    row(
        "tw_strided_copy",
        tuple(PIECES),
        "tw_strides",
        has_part=False,
        applies=(copies_in_equal_steps,),
        features=cycle_features.strides,
    ),
    row("tw_move", VIEWS, "tw_move", has_part=False),  # the output may also begin above its input
    row("tw_gather_nd", ("gather_nd",), "tw_slices", has_part=False),
    row(
        "tw_table_copy",
        tuple(PIECES),
        "tw_tables",
        has_part=False,
        applies=(padding_is_a_repeated_byte,),
        features=cycle_features.tables,
    ),
)
