"""Kernels of depthwise convolutions."""

from __future__ import annotations

from functools import partial

from .. import cycle_features
from ..cycle_features import lines, lines_in_pairs, pixels, taps
from ..dsp import dense, depthwise
from ..dsp import taps as taps_dsp
from ..mve import weights as mve
from ..requirements import COMPACT, weights_are_int4, weights_have_a_zero_point
from ..scalar import convolution as scalar
from ..variant import DSP_FORMS, Variant, packed_by_tap

KIND = ("depthwise_conv_2d",)
by_taps = partial(Variant, kinds=KIND, params="tw_conv", features=taps)
# kernels of tw_depthwise_lean_dsp.h: they read the taps in place and need no scratch
TAPS = dense.of_filters(taps_dsp.stream)
in_place = partial(Variant, kinds=KIND, isa="dsp", flash=taps_dsp.flash, stream=TAPS, layout="tw_depthwise_lean_dsp.h")
in_column = partial(in_place, params="tw_conv_dsp", flash=taps_dsp.stream_bytes, features=cycle_features.column)
# kernels of tw_line.h: they first transpose four channels of a block of columns to lines of 16-bit values
by_lines = partial(
    Variant,
    kinds=KIND,
    params="tw_depthwise_dsp",
    scratch=depthwise.scratch,
    flash=depthwise.flash,
    stream=depthwise.words,
    layout="tw_line.h",
    features=lines_in_pairs,
)
ROWS: tuple[Variant, ...] = (
    by_taps("tw_depthwise_conv_2d_s8_compact", applies=COMPACT, features=pixels, compact=True),
    by_taps(
        "tw_depthwise_conv_2d_s8_mve",
        params="tw_depthwise_mve",
        isa="mve",
        applies=mve.TAPS,
        scratch=mve.taps_scratch,
        stream=mve.words_of_taps,
        layout="tw_mve_taps.h",
    ),
    *(
        in_place(
            f"tw_depthwise_{size}x{size}_s8_lean_{isa}",
            params="tw_depthwise_lean_dsp",
            isa=isa,
            applies=taps_dsp.of_size(size),
            features=cycle_features.outputs,
            loop_bytes=taps_dsp.LOOP_BYTES[size],
            lean=True,
        )
        for isa in DSP_FORMS
        for size in taps_dsp.SIZES
    ),
    in_column("tw_depthwise_pixel_s8_dsp", applies=taps_dsp.PIXEL, features=cycle_features.pixel, has_part=False),
    in_column("tw_depthwise_column_s8_dsp", applies=taps_dsp.COLUMN),
    by_lines("tw_depthwise_3x3_s8_m7", isa="m7", applies=depthwise.THREE_BY_THREE, features=lines),
    by_lines("tw_depthwise_conv_2d_s8_dsp", isa="dsp", applies=depthwise.LINES),
    by_lines(
        "tw_depthwise_conv_2d_s8_outliers_dsp",
        isa="dsp",
        applies=depthwise.WITH_OUTLIERS,
        flash=depthwise.flash_with_outliers,
        stream=depthwise.words_with_outliers,
        timed_as="tw_depthwise_conv_2d_s8_dsp",
    ),
    by_taps("tw_depthwise_conv_2d_s8_offset", params="tw_conv_offset", applies=(weights_have_a_zero_point,)),
    by_taps(
        "tw_depthwise_conv_2d_s8_w4", applies=(weights_are_int4,), weights=packed_by_tap, timed_as="tw_depthwise_conv_2d_s8"
    ),
    by_taps(
        "tw_depthwise_conv_2d_s8_m3",
        params="tw_conv_scalar",
        isa="m3",
        applies=scalar.EIGHTS,
        flash=scalar.flash_of_eights,
        stream=dense.of_filters(scalar.eights),
        layout="tw_conv_scalar.h",
    ),
    by_taps("tw_depthwise_3x3_s8_scalar", isa="scalar", applies=scalar.DEPTHWISE, features=cycle_features.channel_runs),
    by_taps("tw_depthwise_conv_2d_s8", applies=COMPACT),
)
