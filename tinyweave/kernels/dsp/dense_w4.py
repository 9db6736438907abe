"""Weight streams with int4 weights for the Arm DSP extension, four filters in a lane, and when their results are exact.

The lanes are those of tw_lanes_w4.h, the streams those of tw_pair_w4.h and tw_fully_connected_dsp.h.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Graph, Op
from ..requirements import (
    EachFilter,
    dilation_is_1,
    has_one_group,
    has_weights,
    input_channels_are_a_multiple_of_8,
    weights_are_int4,
)
from .dense import (
    RESCALES_EXACTLY,
    FilterRequirement,
    Filters,
    Numbers,
    Words,
    check_sums,
    filters,
    joined,
    of_op,
    rescales,
    shifts_round_once,
)

MOST = 1 << np.array([31, 27, 23, 19])  # bounds of the sums of four filters, whose multiples must be an int32
AT_ONCE = 4


def packed_sums_fit(given: Filters) -> EachFilter:
    """Every filter's sum fits its share of an int32: of each four filters 31, 27, 23 and 19 bits and a sign."""
    most = np.resize(MOST, len(given.bias))
    low, high = given.bounds()
    return check_sums(low, high, (low >= -most) & (high < most))


def of_int4(given: Filters) -> Filters:
    """Return the filters for inputs plus 8, with weights in the order of tw_conv_dsp.h; channels are a multiple of 8."""
    weights = given.weights.reshape(len(given.bias), -1, 8)[..., [0, 1, 4, 5, 2, 3, 6, 7]].reshape(given.weights.shape)
    return given._replace(weights=weights, bias=given.bias - 8 * weights.sum(axis=1))


EXACT: tuple[FilterRequirement, ...] = (packed_sums_fit, *RESCALES_EXACTLY)
# of tw_conv_2d_s8_w4_dsp, tw_fully_connected_s8_w4_dsp and tw_conv_2d_s4_dsp
FOURS = (weights_are_int4, has_one_group, dilation_is_1, has_weights, *map(of_op, EXACT))
EIGHTS = (weights_are_int4, has_weights, *map(of_op, (packed_sums_fit, shifts_round_once)))
INT4_MAPS = (
    has_one_group,
    dilation_is_1,
    input_channels_are_a_multiple_of_8,
    has_weights,
    *(of_op(each, of_int4) for each in EXACT),
)


def stream(given: Filters) -> Words:
    """Return the weight stream of tw_pair_w4.h, a row per group of four filters; missing filters and weights are 0."""
    given = given.padded(-(-len(given.bias) // AT_ONCE) * AT_ONCE)
    return _joined(given, AT_ONCE, rescales(given, AT_ONCE))


def scratch(graph: Graph, op: Op) -> int:
    """Return the bytes of scratch of tw_conv_2d_s4_dsp."""
    return scratch_of(prod(graph.input(op, 1).shape[1:]), graph.output(op).shape[3])


def scratch_of(inputs: int, filters: int) -> int:
    """Return the bytes of two windows of `inputs` 16-bit values and of two output pixels."""
    return 4 * inputs + 2 * (-(-filters // 4) * 4)


def eight_at_a_time(given: Filters) -> Words:
    """Return the int4 weight stream of tw_fully_connected_dsp.h, a row per group of eight filters; missing filters are 0."""
    return _joined(given.padded(-(-len(given.bias) // 8) * 8), 8)


def words_of_int4(graph: Graph, op: Op) -> Words:
    """Return the weight stream of a convolution of int4 maps."""
    return stream(of_int4(filters(graph, op)))


def _joined(given: Filters, at_once: int, *after: Numbers) -> Words:
    """Return the initial sums, the weights and the parts of `after` for each group of `at_once` filters, as rows of words."""
    groups = len(given.bias) // at_once
    lanes = _words(given.weights).reshape(groups, at_once // AT_ONCE, -1).transpose(0, 2, 1)
    return joined(groups, _begins(given.bias), lanes, *after)


def _words(weights: Numbers) -> Numbers:
    """Return the words of each four filters: per quad the lanes (k, k + 2), then (k + 1, k + 3)."""
    count, taps = weights.shape
    padded = np.pad(weights, ((0, 0), (0, -taps % 4))).reshape(count // AT_ONCE, AT_ONCE, -1, 4)
    halves = (padded + np.array([8, 8, 8, 0])[:, None, None]) & 15
    lanes = (halves << (4 * np.arange(AT_ONCE))[:, None, None]).sum(axis=1)
    return np.stack((lanes[..., 0] | lanes[..., 2] << 16, lanes[..., 1] | lanes[..., 3] << 16), axis=-1).reshape(len(lanes), -1)


def _begins(bias: Numbers) -> Numbers:
    """Return the initial sums of each four filters, as tw_lanes_w4.h combines their biases."""
    a, b, c, d = bias.reshape(-1, AT_ONCE).T
    second, third = a + 16 * b, 256 * c
    return np.stack((a, second, third, second + third + 4096 * d), axis=1)
