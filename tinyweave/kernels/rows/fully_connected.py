"""Kernels of dense layers and matrix products."""

from __future__ import annotations

from functools import partial

from ...ir import Graph, Op
from ...ops import batch_matmul
from ..dsp import dense, dense_w4
from ..mve import weights as mve
from ..requirements import COMPACT, Check, weights_are_int4, weights_have_a_zero_point
from ..scalar import convolution as scalar
from ..variant import DSP_FORMS, S16, VECTOR_FORMS, Variant, packed_by_tap

MOST_PRODUCTS = 1 << 14  # of a sum below 2^30; each is at most 255 * 255

row = partial(Variant, kinds=("fully_connected",), params="tw_fully_connected")
by_map_rows = partial(row, has_rows=True)
by_row_words = partial(by_map_rows, row_grain=4)
by_eights = partial(by_row_words, params="tw_fully_connected_dsp", layout="tw_fully_connected_dsp.h")
matmul = partial(Variant, kinds=("batch_matmul",), params="tw_batch_matmul")


def rows_are_contiguous(graph: Graph, op: Op) -> Check:
    """The first operand is not transposed."""
    return Check(not op.attrs["adj_x"], "it is")


def sums_are_rounded_twice(graph: Graph, op: Op) -> Check:
    """Sums are rounded twice, as in LiteRT's batch_matmul."""
    return Check(not op.attrs.get("once"), "they are rounded once, as in a dense layer")


def shift_is_in_range(graph: Graph, op: Op) -> Check:
    """The rescale shift is between -31 and -2."""
    shift = batch_matmul.rescale(graph, op).shift
    return Check(-shift in dense.EXPONENTS, f"it is {shift}")


def sums_are_in_range(graph: Graph, op: Op) -> Check:
    """A row has at most 16,384 elements, so that twice the sum of their products is an int32."""
    depth = batch_matmul.matrices(graph, op)[0][-1]
    return Check(depth <= MOST_PRODUCTS, f"it has {depth:,}")


ROWS: tuple[Variant, ...] = (
    by_map_rows("tw_fully_connected_s8_compact", applies=COMPACT, compact=True),
    by_map_rows("tw_fully_connected_s8_mve", isa="mve", applies=mve.FULLY_CONNECTED),
    by_eights(
        "tw_fully_connected_s8_w4_dsp",
        isa="dsp",
        applies=dense_w4.EIGHTS,
        stream=dense.of_filters(dense_w4.eight_at_a_time),
        timed_as="tw_fully_connected_s8_dsp",
    ),
    by_eights(
        "tw_fully_connected_s8_few_dsp",
        isa="dsp",
        applies=dense.FEW,
        flash=dense.flash_of_few,
        stream=dense.of_filters(dense.few),
    ),
    *(
        by_eights(
            f"tw_fully_connected_s8_{isa}",
            isa=isa,
            applies=dense.EIGHTS,
            flash=dense.flash_of_eights,
            stream=dense.of_filters(partial(dense.eight_at_a_time, offset=offset)),
        )
        for isa, offset in zip(DSP_FORMS, (dense.M7_OFFSET, 0), strict=True)
    ),
    by_eights(
        "tw_fully_connected_s8_segments_dsp",
        isa="dsp",
        applies=dense.SEGMENTS,
        flash=dense.flash_of_segments,
        stream=dense.of_filters(dense.segments),
        timed_as="tw_fully_connected_s8_dsp",
    ),
    by_map_rows("tw_fully_connected_s8_raw_dsp", isa="dsp", applies=COMPACT),
    by_map_rows(
        "tw_fully_connected_s8_offset",
        params="tw_fully_connected_offset",
        applies=(weights_have_a_zero_point,),
        timed_as="tw_fully_connected_s8",
    ),
    by_map_rows(
        "tw_fully_connected_s8_w4", applies=(weights_are_int4,), weights=packed_by_tap, timed_as="tw_fully_connected_s8"
    ),
    row(
        "tw_fully_connected_s8_scalar",
        params="tw_fully_connected_dsp",
        layout="tw_fully_connected_dsp.h",
        isa="registers",
        applies=scalar.FULLY_CONNECTED,
        scratch=scalar.scratch_of_fours,
        flash=scalar.flash_of_fours,
        stream=dense.of_filters(scalar.fours),
    ),
    by_map_rows("tw_fully_connected_s8", applies=COMPACT),
    matmul(
        "tw_batch_matmul_s8_dsp",
        isa="dsp",
        applies=(rows_are_contiguous, sums_are_rounded_twice, shift_is_in_range, sums_are_in_range),
    ),
    matmul("tw_batch_matmul_s8"),
    matmul("tw_batch_matmul_s16", types=S16, has_part=False),
    *(row(f"tw_fully_connected_s16_{isa}", types=S16, isa=isa, has_part=False) for isa in VECTOR_FORMS),
    row("tw_fully_connected_s16", types=S16, has_part=False),
)
