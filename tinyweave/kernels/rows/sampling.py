"""Kernels of pooling and bilinear resizing."""

from __future__ import annotations

from functools import partial

from ...ir import Graph, Op
from ...ops import resize
from ..cycle_features import vectors
from ..requirements import Check, has_4_output_channels
from ..variant import S16, Variant


def input_was_uint8(graph: Graph, op: Op) -> Check:
    """The layer was uint8 in the model file, which LiteRT resizes in float32."""
    return Check(resize.is_unsigned(op), "it was int8")


def input_was_int8(graph: Graph, op: Op) -> Check:
    """The layer was int8 in the model file, which LiteRT resizes in integers."""
    return Check(not resize.is_unsigned(op), "it was uint8")


def window_has_at_most_2048_pixels(graph: Graph, op: Op) -> Check:
    """The window has at most 2,048 pixels."""
    rows, columns = op.attrs["kernel"]
    return Check(rows * columns <= 2048, f"it is {rows}x{columns}")


def window_has_at_most_255_pixels(graph: Graph, op: Op) -> Check:
    """The window has at most 255 pixels, so that products with the reciprocal of their number give exact quotients."""
    rows, columns = op.attrs["kernel"]
    return Check(rows * columns <= 255, f"it is {rows}x{columns}")


average_pool = partial(Variant, kinds=("average_pool_2d",), params="tw_pool")
max_pool = partial(Variant, kinds=("max_pool_2d",), params="tw_pool")
resize_bilinear = partial(Variant, kinds=("resize_bilinear",))

ROWS: tuple[Variant, ...] = (
    average_pool("tw_average_pool_2d_s8_compact", compact=True),
    average_pool(
        "tw_average_pool_2d_s8_mve",
        isa="mve",
        has_rows=True,
        applies=(has_4_output_channels, window_has_at_most_2048_pixels),
        features=vectors,
    ),
    average_pool("tw_average_pool_2d_s8_dsp", isa="dsp", has_rows=True, applies=(has_4_output_channels,)),
    average_pool("tw_average_pool_2d_s8", has_rows=True),
    max_pool("tw_max_pool_2d_s8_mve", isa="mve", applies=(has_4_output_channels,), features=vectors),
    max_pool("tw_max_pool_2d_s8_dsp", isa="dsp", applies=(has_4_output_channels,)),
    max_pool("tw_max_pool_2d_s8_m3", isa="m3", applies=(has_4_output_channels,)),
    max_pool("tw_max_pool_2d_s8"),
    resize_bilinear(
        "tw_resize_bilinear_s8_float", params="tw_resize_bilinear_float", applies=(input_was_uint8,), computes_in_float=True
    ),
    resize_bilinear("tw_resize_bilinear_s8", params="tw_resize_bilinear", applies=(input_was_int8,)),
    resize_bilinear(
        "tw_resize_bilinear_s16", params="tw_resize_bilinear", types=S16, has_part=False, timed_as="tw_resize_bilinear_s8"
    ),
    average_pool("tw_average_pool_2d_s16_mve", types=S16, isa="mve", has_part=False, applies=(window_has_at_most_255_pixels,)),
    average_pool("tw_average_pool_2d_s16", types=S16, has_part=False),
    max_pool("tw_max_pool_2d_s16_mve", types=S16, isa="mve", has_part=False),
    max_pool("tw_max_pool_2d_s16_dsp", types=S16, isa="dsp", has_part=False, applies=(has_4_output_channels,)),
    max_pool("tw_max_pool_2d_s16", types=S16, has_part=False),
)
