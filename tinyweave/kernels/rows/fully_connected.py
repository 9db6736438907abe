"""Kernels of dense layers and matrix products."""

from __future__ import annotations

from functools import partial

from .. import overlap_distance as distance
from ..dsp import dense, dense_w4
from ..mve import weights as mve
from ..requirements import COMPACT, weights_are_int4, weights_have_a_zero_point
from ..variant import DSP_FORMS, S4, S16, Variant, packed_by_tap

row = partial(Variant, kinds=("fully_connected",), params="tw_fully_connected", distance=distance.by_row)
by_eights = partial(row, params="tw_fully_connected_dsp", distance=partial(distance.by_row_for_some, at_once=8))

ROWS: tuple[Variant, ...] = (
    row(
        "tw_fully_connected_s8_compact",
        applies=COMPACT,
        distance=partial(distance.by_row_for_some, at_once=1),
        compact=True,
    ),
    row(
        "tw_fully_connected_s8_mve",
        isa="mve",
        applies=mve.FULLY_CONNECTED,
        distance=partial(distance.by_row_for_some, at_once=4),
    ),
    by_eights(
        "tw_fully_connected_s8_w4_dsp",
        isa="dsp",
        applies=dense_w4.EIGHTS,
        stream=dense.of_filters(dense_w4.eight_at_a_time),
        timed_as="tw_fully_connected_s8_dsp",
    ),
    row(
        "tw_fully_connected_s8_few_dsp",
        params="tw_fully_connected_dsp",
        isa="dsp",
        applies=dense.FEW,
        distance=partial(distance.by_row_for_some, at_once=4),
        flash=dense.flash_of_few,
        stream=dense.of_filters(dense.few),
    ),
    *(
        by_eights(
            f"tw_fully_connected_s8_{isa}",
            isa=isa,
            applies=dense.EIGHTS,
            flash=dense.flash_of_eights,
            stream=dense.of_filters(dense.eight_at_a_time),
        )
        for isa in DSP_FORMS
    ),
    by_eights(
        "tw_fully_connected_s8_segments_dsp",
        isa="dsp",
        applies=dense.SEGMENTS,
        flash=dense.flash_of_segments,
        stream=dense.of_filters(dense.segments),
        timed_as="tw_fully_connected_s8_dsp",
    ),
    row("tw_fully_connected_s8_offset", params="tw_fully_connected_offset", applies=(weights_have_a_zero_point,)),
    row("tw_fully_connected_s8_w4", applies=(weights_are_int4,), weights=packed_by_tap, timed_as="tw_fully_connected_s8"),
    row("tw_fully_connected_s8"),
    Variant("tw_batch_matmul_s8", ("batch_matmul",), "tw_batch_matmul", has_part=False, distance=distance.multiplied),
    row(
        "tw_fully_connected_s16",
        types=S16,
        has_part=False,
        distance=partial(distance.by_row_for_some, at_once=1),
    ),
    row("tw_fully_connected_s4", types=S4, weights=packed_by_tap, timed_as="tw_fully_connected_s8"),
)
