"""Kernels of convolutions and transposed convolutions."""

from __future__ import annotations

from functools import partial

from .. import cycle_features, int16
from ..cycle_features import pairs, pixels, pixels_by_fours, tiles
from ..dsp import dense, dense_w4, winograd
from ..mve import weights as mve
from ..requirements import COMPACT, has_4_output_channels, weights_are_int4, weights_have_a_zero_point
from ..scalar import convolution as scalar
from ..variant import DSP_FORMS, S16, VECTOR_FORMS, Variant, constant_bytes, packed_by_filter

# kernels with the parameters of tw_conv.h: the window of a pixel is read once per four output channels
by_pixel = partial(Variant, kinds=("conv_2d",), params="tw_conv", features=pixels)
# kernels of tw_conv_2d.h
by_pixel_and_fours = partial(by_pixel, features=pixels_by_fours)
# kernels of tw_conv_pairs.h: im2col of two output pixels at a time
by_pair = partial(
    Variant,
    kinds=("conv_2d",),
    params="tw_conv_dsp",
    isa="dsp",
    applies=dense.PAIRED,
    scratch=dense.scratch,
    flash=dense.flash,
    stream=dense.of_rows(dense.stream),
    layout="tw_conv_dsp.h",
    features=pairs,
)
# kernels of tw_conv_scalar.h: two pixels in a word
by_words = partial(
    by_pixel,
    params="tw_conv_scalar",
    isa="registers",
    flash=scalar.flash,
    stream=dense.of_filters(scalar.stream),
    layout="tw_conv_scalar.h",
    features=cycle_features.packed_pairs,
)
by_pixel_s16 = partial(by_pixel, params="tw_conv_s16_word", types=S16, has_part=False)
transposed = partial(Variant, kinds=("transpose_conv",))

ROWS: tuple[Variant, ...] = (
    by_pixel(
        "tw_conv_2d_s8_mve",
        params="tw_conv_mve",
        isa="mve",
        applies=mve.DENSE,
        scratch=mve.scratch,
        stream=dense.of_filters(mve.stream),
        layout="tw_mve_pair.h",
    ),
    by_pixel("tw_conv_2d_s8_compact", applies=COMPACT, compact=True),
    by_pair(
        "tw_conv_2d_s8_w4_dsp",
        applies=dense_w4.FOURS,
        flash=constant_bytes,
        stream=dense.of_rows(dense_w4.stream),
        layout="tw_pair_w4.h",
        timed_as="tw_conv_2d_s8_dsp",
    ),
    by_pair(
        "tw_conv_2d_s8_winograd_dsp",
        applies=winograd.REQUIREMENTS,
        scratch=winograd.scratch,
        flash=winograd.flash,
        flash_heavy=True,
        stream=dense.of_filters(winograd.stream),
        layout="tw_winograd.h",
        features=tiles,
    ),
    Variant(
        "tw_conv_2d_s8_lean_dsp",
        ("conv_2d",),
        "tw_conv_lean_dsp",
        isa="dsp",
        applies=(dense.has_short_list_of_parts, *dense.PAIRED),
        flash=dense.lean_flash,
        stream=dense.lean_stream,
        layout="tw_conv_dsp.h",
        features=cycle_features.windows,
        lean=True,
    ),
    *(
        by_pair(
            f"tw_conv_2d_s8_copying_{isa}",
            isa=isa,
            has_part=False,
            scratch=dense.copying_scratch,
            timed_as=f"tw_conv_2d_s8_{isa}",
            copying=True,
        )
        for isa in DSP_FORMS
    ),
    *(by_pair(f"tw_conv_2d_s8_{isa}", isa=isa) for isa in DSP_FORMS),
    by_pair(
        "tw_conv_2d_s8_outliers_dsp",
        applies=dense.WITH_OUTLIERS,
        flash=dense.flash_with_outliers,
        stream=dense.of_rows(dense.stream_with_outliers),
        features=cycle_features.pairs_and_outliers,
        timed_as="tw_conv_2d_s8_dsp",
    ),
    by_pixel_and_fours("tw_conv_2d_s8_offset", params="tw_conv_offset", applies=(weights_have_a_zero_point,)),
    by_pixel_and_fours("tw_conv_2d_s8_w4", applies=(weights_are_int4,), weights=packed_by_filter, timed_as="tw_conv_2d_s8"),
    by_words("tw_conv_2d_s8_lean_scalar", applies=scalar.LEAN, scratch=scalar.lean_scratch, lean=True),
    by_words("tw_conv_2d_s8_scalar", applies=scalar.DENSE, scratch=scalar.scratch),
    by_pixel_and_fours("tw_conv_2d_s8", applies=COMPACT),
    transposed("tw_transpose_conv_s8", params="tw_conv", features=cycle_features.meetings),
    *(
        by_pixel_s16(
            f"tw_conv_2d_s16_channels_{isa}",
            isa=isa,
            applies=(int16.has_a_filter_per_channel, *([has_4_output_channels] * (isa == "dsp")), *int16.WORD_SUMS),
            weights=int16.by_tap,
        )
        for isa in VECTOR_FORMS
    ),
    *(by_pixel_s16(f"tw_conv_2d_s16_{isa}", isa=isa, applies=int16.WORD_SUMS) for isa in VECTOR_FORMS),
    by_pixel("tw_conv_2d_s16", params="tw_conv_s16", types=S16, has_part=False),
    transposed("tw_transpose_conv_s16", params="tw_conv_s16", types=S16, has_part=False, features=cycle_features.meetings),
)
