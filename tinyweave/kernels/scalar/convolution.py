"""Requirements and weight streams of the convolutions for cores without DSP instructions (tw_conv_scalar.h)."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Graph, Op
from ...ops.conv import requant
from ..dsp.dense import Filters, Numbers, Words, joined
from ..requirements import (
    Check,
    EachFilter,
    depth_multiplier_is_1,
    dilation_is_1,
    has_one_group,
    has_weights,
    horizontal_stride_is_1_or_2,
    weights_are_int8,
    weights_have_no_zero_point,
    window_is_3x3,
)

FILTERS = 2  # output channels at a time
UNITS = 4  # of a dense layer at a time
CHANNELS = 8  # of a depthwise convolution at a time
MOST = 255  # of two weights together, times 128 less than 2^15
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


def rescales_are_normal(graph: Graph, op: Op) -> Check:
    """Every filter's rescale shift is negative, and its multiplier is at least 2^30 or 0."""
    multiplier, shift = requant(graph, op)
    return EachFilter((multiplier == 0) | (multiplier >= 1 << 30) & (shift < 0), "rescale shift", shift).check()


def has_8_channels(graph: Graph, op: Op) -> Check:
    """The layer has at least 8 channels."""
    channels = graph.output(op).shape[3]
    return Check(channels >= CHANNELS, f"it has {channels}")


def stream(given: Filters) -> Words:
    """Return the weight stream of tw_conv_scalar.h: one row per group of two filters, padded with a filter of 0."""
    count = -(-len(given.bias) // FILTERS) * FILTERS
    normal = _normal(given.padded(count))
    twos = _in_twos(normal.weights).reshape(count // FILTERS, FILTERS, -1, 2).swapaxes(1, 2)
    return _rows(normal._replace(weights=twos), FILTERS)


def _normal(given: Filters) -> Filters:
    """Return filters with the same outputs whose multipliers are not 0: instead, their sums are."""
    live = given.multiplier != 0
    multiplier, shift = np.where(live, given.multiplier, 1 << 30), np.where(live, given.shift, -1)
    return Filters(given.weights * live[:, None], given.bias * live, multiplier, shift)


def _in_twos(weights: Numbers) -> Numbers:
    """Return the weights of each filter two by two: [filter][number of the two][first or second]; a last one has a 0."""
    return np.pad(weights, ((0, 0), (0, weights.shape[1] % 2))).reshape(len(weights), -1, 2)


def largest_of_twos(weights: Numbers) -> Numbers:
    """Return the largest sum of absolute values of two weights that are read together, of each filter."""
    return np.asarray(np.abs(_in_twos(weights.astype(np.int64))).sum(axis=2).max(axis=1, initial=0))


def two_weights_fit(graph: Graph, op: Op) -> Check:
    """Each two weights of a filter, in the order in which they are read, have at most 255 in absolute values together."""
    weights = graph.input(op, 1).data
    assert weights is not None
    largest = largest_of_twos(weights.reshape(len(weights), -1))
    return EachFilter(largest <= MOST, "largest sum of two weights", largest).check()


def fours(given: Filters) -> Words:
    """Return the weight stream of tw_fully_connected_s8_scalar: one row per group of four filters, padded with filters of 0."""
    count = -(-len(given.bias) // UNITS) * UNITS
    quads = np.pad(given.padded(count).weights, ((0, 0), (0, -given.weights.shape[1] % 4))) + 128
    words = np.ascontiguousarray(quads, np.uint8).view("<u4").reshape(count // UNITS, UNITS, -1).swapaxes(1, 2)
    return joined(count // UNITS, given.padded(count).bias, words)


def has_4_outputs(graph: Graph, op: Op) -> Check:
    """There are at least 4 output channels: the portable kernel, which packs no inputs, takes fewer cycles for one to three."""
    units = graph.output(op).shape[-1]
    return Check(units > 3, f"there are {units}")


def quads_fit(graph: Graph, op: Op) -> Check:
    """The weights k and k + 2 of each four of a filter have at most 255 in absolute values together."""
    weights = graph.input(op, 1).data
    assert weights is not None
    return EachFilter(
        (largest := largest_of_quads(weights)) <= MOST, "largest sum of the weights k and k + 2 of four", largest
    ).check()


def largest_of_quads(weights: Numbers) -> Numbers:
    """Return the largest sum of absolute values of the weights k and k + 2 of four, of each filter."""
    quads = np.pad(np.abs(weights.astype(np.int64)), ((0, 0), (0, -weights.shape[1] % 4))).reshape(len(weights), -1, 2, 2)
    return np.asarray(quads.sum(axis=2).max(axis=(1, 2), initial=0))


def flash_of_fours(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of a dense layer."""
    units, depth = graph.input(op, 1).shape
    return 4 * -(-units // UNITS) * UNITS * (1 + -(-depth // 4))


def scratch_of_fours(graph: Graph, op: Op) -> int:
    """Return the bytes of the packed inputs of a dense layer."""
    return 16 * -(-graph.input(op, 1).shape[1] // 4)


def eights(given: Filters) -> Words:
    """Return the weight stream of a depthwise kernel: one row per group of eight channels, the last of the last eight."""
    count = len(given.bias)
    begins = np.minimum(np.arange(0, count, CHANNELS), count - CHANNELS)
    channels = (begins[:, None] + np.arange(CHANNELS)).ravel()
    chosen = Filters(*(part[channels] for part in _normal(given)))
    by_tap = chosen.weights.reshape(len(begins), CHANNELS, -1).swapaxes(1, 2)
    return _rows(chosen._replace(weights=by_tap), CHANNELS)


def _rows(given: Filters, size: int) -> Words:
    """Return a row of words per `size` filters: initial sums, weights, multipliers, and exponents less 1 up to a word."""
    groups = len(given.bias) // size
    less = np.pad(~given.shift.reshape(groups, size), ((0, 0), (0, -size % 4)))
    weights, exponents = (np.ascontiguousarray(x, np.int8).reshape(groups, -1).view("<u4") for x in (given.weights, less))
    return joined(groups, given.bias, weights, 2 * given.multiplier, exponents)


def flash(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of a convolution."""
    count, *window = graph.input(op, 1).shape
    return 4 * -(-count // FILTERS) * (5 + -(-prod(window) // 2))


def scratch(graph: Graph, op: Op) -> int:
    """Return the bytes of the packed windows of two pixels."""
    return 8 * -(-prod(graph.input(op, 1).shape[1:]) // 2)


def has_even_depth(graph: Graph, op: Op) -> Check:
    """The number of input channels is even."""
    depth = graph.input(op).shape[3]
    return Check(depth % 2 == 0, f"it is {depth}")


def lean_scratch(graph: Graph, op: Op) -> int:
    """Return the bytes of the list of runs of two windows, and of a pixel of zero points."""
    x, out, (_, rows, cols, depth) = graph.input(op).shape, graph.output(op).shape, graph.input(op, 1).shape
    axes = zip(x[1:3], out[1:3], (rows, cols), op.attrs["stride"], op.attrs["padding"], strict=True)
    inside = all(not pad[0] and (count - 1) * stride + size <= extent for extent, count, size, stride, pad in axes)
    return 8 * rows if inside else 8 * rows * cols + depth


def flash_of_eights(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of a depthwise convolution."""
    _, *window, count = graph.input(op, 1).shape
    return 8 * -(-count // CHANNELS) * (9 + prod(window))


PLAIN = (weights_are_int8, weights_have_no_zero_point, dilation_is_1)
FULLY_CONNECTED = (has_weights, weights_are_int8, weights_have_no_zero_point, has_4_outputs, quads_fit)
DENSE = (has_one_group, *PLAIN, rescales_are_normal, two_weights_fit)
LEAN = (has_even_depth, *DENSE)
EIGHTS = (depth_multiplier_is_1, has_8_channels, *PLAIN, rescales_are_normal)
NARROW = (window_is_3x3, horizontal_stride_is_1_or_2, output_is_more_than_3_wide)
DEPTHWISE = (depth_multiplier_is_1, *NARROW, *PLAIN, shifts_go_right)
