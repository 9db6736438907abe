"""Requirements and weight streams of the convolutions for cores without DSP instructions (tw_conv_scalar.h)."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Graph, Op
from ...ops.conv import requant
from ..dsp.dense import Filters, Words, joined
from ..requirements import (
    Check,
    EachFilter,
    depth_multiplier_is_1,
    dilation_is_1,
    has_one_group,
    horizontal_stride_is_1_or_2,
    weights_are_int8,
    weights_have_no_zero_point,
    window_is_3x3,
)

FILTERS = 4  # output channels at a time
CHANNELS = 8  # of a depthwise convolution at a time
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


def multipliers_are_normal(graph: Graph, op: Op) -> Check:
    """Every filter's multiplier is at least 2^30."""
    multiplier, _ = requant(graph, op)
    return EachFilter(multiplier >= 1 << 30, "multiplier", multiplier).check()


def has_8_channels(graph: Graph, op: Op) -> Check:
    """The layer has at least 8 channels."""
    channels = graph.output(op).shape[3]
    return Check(channels >= CHANNELS, f"it has {channels}")


def stream(given: Filters) -> Words:
    """Return the weight stream of tw_conv_scalar.h: one row per group of four filters, padded with filters of 0."""
    count = -(-len(given.bias) // FILTERS) * FILTERS
    shift = np.pad(given.shift, (0, count - len(given.shift)), constant_values=-1)
    return _grouped(given.padded(count)._replace(shift=shift), FILTERS)


def eights(given: Filters) -> Words:
    """Return the weight stream of a depthwise kernel: one row per group of eight channels, the last of the last eight."""
    count = len(given.bias)
    begins = np.minimum(np.arange(0, count, CHANNELS), count - CHANNELS)
    channels = (begins[:, None] + np.arange(CHANNELS)).ravel()
    return _grouped(Filters(*(part[channels] for part in given)), CHANNELS)


def _grouped(given: Filters, size: int) -> Words:
    """Return a row of words per group of `size` filters.

    A row has the initial sums, the weights [input][filter], the multipliers and the exponents less 1.
    """
    weights = given.weights.reshape(-1, size, given.weights.shape[1]).transpose(0, 2, 1)
    bytes_ = (np.ascontiguousarray(part, np.int8) for part in (weights, ~given.shift.reshape(-1, size)))
    words, less = (part.view(np.uint32).astype(np.int64) for part in bytes_)
    return joined(len(given.bias) // size, given.bias, words, 2 * given.multiplier, less)


def flash(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of a convolution."""
    count, *window = graph.input(op, 1).shape
    return 4 * -(-count // FILTERS) * (9 + prod(window))


def flash_of_eights(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of a depthwise convolution."""
    _, *window, count = graph.input(op, 1).shape
    return 8 * -(-count // CHANNELS) * (9 + prod(window))


PLAIN = (weights_are_int8, weights_have_no_zero_point, dilation_is_1, shifts_go_right)
DENSE = (has_one_group, *PLAIN, multipliers_are_normal)
EIGHTS = (depth_multiplier_is_1, has_8_channels, *PLAIN, multipliers_are_normal)
DEPTHWISE = (depth_multiplier_is_1, window_is_3x3, horizontal_stride_is_1_or_2, output_is_more_than_3_wide, *PLAIN)
