"""Requirements and overlap distances of the convolutions for cores without DSP instructions (tw_conv_scalar.h).

They read their weights in the same layout as the portable kernels.
"""

from __future__ import annotations

from ...ir import Graph, Op
from ...ops.conv import requant
from ..requirements import (
    Check,
    EachFilter,
    depth_multiplier_is_1,
    dilation_is_1,
    has_4_output_channels,
    has_one_group,
    horizontal_stride_is_1_or_2,
    weights_are_int8,
    weights_have_no_zero_point,
    window_is_3x3,
)

FILTERS = 4  # output channels at a time
RUN = 24  # outputs of a row at a time: TW_DEPTHWISE_RUN
SIDE = 3  # rows and columns of the depthwise window


def shifts_go_right(graph: Graph, op: Op) -> Check:
    """Every filter's rescale shift is negative, and no multiplier is."""
    multiplier, shift = requant(graph, op)
    return EachFilter((multiplier >= 0) & (shift < 0), "rescale shift", shift).check()


def output_is_more_than_3_wide(graph: Graph, op: Op) -> Check:
    """The output has more than 3 columns: shorter rows are faster on the portable kernel."""
    columns = graph.output(op).shape[2]
    return Check(columns > SIDE, f"it has {columns}")


PLAIN = (weights_are_int8, weights_have_no_zero_point, dilation_is_1, shifts_go_right)
DENSE = (has_one_group, has_4_output_channels, *PLAIN)
DEPTHWISE = (depth_multiplier_is_1, window_is_3x3, horizontal_stride_is_1_or_2, output_is_more_than_3_wide, *PLAIN)
