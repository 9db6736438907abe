"""Requirements and overlap distances of the convolutions for cores without DSP instructions (tw_conv_scalar.h).

They read their weights in the same layout as the portable kernels.
"""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Op
from ...ops.conv import requant
from ...ops.window import Windows
from .. import overlap_distance as distance
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


@distance.of_windows
def by_pixels(graph: Graph, op: Op, windows: Windows) -> int:
    """Return how many bytes below its input the output of tw_conv_2d_s8_scalar must begin to overwrite no unread byte.

    The kernel reads one or two windows per four output channels: two windows that are neighbours in a row if neither reaches
    into the padding to the left or right.
    """
    x, out = graph.input(op), graph.output(op)
    (size, units), (rows, cols) = (x.shape[2], out.shape[3]), out.shape[1:3]
    begins, at = [0], 0
    while at < cols:
        left = at * windows[1].stride - windows[1].pad
        both = left >= 0 and left + windows[1].stride + windows[1].extent <= size and at + 1 < cols
        at += 2 if both else 1
        begins.append(at)
    first = distance.firsts_of(graph, op, windows).reshape(rows, cols)
    read = np.minimum.reduceat(first, begins[:-1], axis=1) * x.shape[3]
    ends = np.minimum(np.arange(FILTERS, units + FILTERS, FILTERS), units)
    written = (np.arange(rows)[:, None] * cols + begins[1:] - 1)[..., None] * units + ends
    return distance.trailing(read.repeat(len(ends)), np.maximum.accumulate(written.ravel()))


@distance.of_windows
def by_runs(graph: Graph, op: Op, windows: Windows) -> int:
    """Return how many bytes below its input the output of tw_depthwise_3x3_s8_scalar must begin to overwrite no unread byte.

    The kernel computes one channel of up to `RUN` outputs of a row at a time.
    """
    depth, (rows, cols) = graph.input(op).shape[3], graph.output(op).shape[1:3]
    begins, channel = np.arange(0, cols, RUN), np.arange(depth)
    first = distance.firsts_of(graph, op, windows).reshape(rows, cols)
    read = np.minimum.reduceat(first, begins, axis=1)[..., None] * depth + channel
    last = np.arange(rows)[:, None] * cols + np.minimum(begins + RUN, cols) - 1
    written = last[..., None] * depth + channel + 1
    return distance.trailing(read.ravel(), np.maximum.accumulate(written.ravel()))
