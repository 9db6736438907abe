"""The stream of int4 weights for the Arm DSP extension: four filters in a lane, and when their sums are exact.

In: the filters of a convolution or dense layer. Out: its weights, biases and multipliers in the order of tw_pair_w4.h or
tw_fully_connected_dsp.h, two weights to a byte, and whether a network may use them. The lanes are those of tw_lanes_w4.h.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Graph, Op
from .dense import Filters, Numbers, Words, filters, joined, rescales, rescales_exactly

MOST = 1 << np.array([31, 27, 23, 19])  # the sum of each of four filters must be less, so that its multiple is an int32
AT_ONCE = 4


def sums_exactly(given: Filters) -> bool:
    """Whether the sums of four filters in one give those of all, for any inputs."""
    least, most = -np.resize(MOST, len(given.bias)), np.resize(MOST, len(given.bias))
    low, high = given.bounds()
    return bool(given.weights.size and ((low >= least) & (high < most)).all())


def is_exact(given: Filters) -> bool:
    """Whether the stream gives the outputs of any inputs of a convolution."""
    return sums_exactly(given) and rescales_exactly(given)


def stream(given: Filters) -> Words:
    """The words of tw_pair_w4.h; what is missing of the last four filters, or of four weights, is 0."""
    given = given.padded(-(-len(given.bias) // AT_ONCE) * AT_ONCE)
    return _joined(given, AT_ONCE, rescales(given, AT_ONCE))


def of_int4(given: Filters) -> Filters:
    """For inputs plus 8, in the order of tw_conv_dsp.h, of channels in multiples of 8."""
    weights = given.weights.reshape(len(given.bias), -1, 8)[..., [0, 1, 4, 5, 2, 3, 6, 7]].reshape(given.weights.shape)
    return given._replace(weights=weights, bias=given.bias - 8 * weights.sum(axis=1))


def scratch(graph: Graph, op: Op) -> int:
    """Bytes of the working memory of tw_conv_2d_s4_dsp."""
    return scratch_of(prod(graph.input(op, 1).shape[1:]), graph.output(op).shape[3])


def scratch_of(inputs: int, filters: int) -> int:
    """Bytes: two windows of so many inputs, 16 bits each; two pixels of outputs."""
    return 4 * inputs + 2 * (-(-filters // 4) * 4)


def eight_at_a_time(given: Filters) -> Words:
    """The words of tw_fully_connected_dsp.h; what is missing of the last eight filters, or of four weights, is 0."""
    return _joined(given.padded(-(-len(given.bias) // 8) * 8), 8)


def words_of_int4(graph: Graph, op: Op) -> Words:
    """The stream of a convolution of int4 maps."""
    return stream(of_int4(filters(graph, op)))


def _joined(given: Filters, at_once: int, *after: Numbers) -> Words:
    """Where sums begin, words of weights, and what comes after them, of so many filters at once."""
    groups = len(given.bias) // at_once
    lanes = _words(given.weights).reshape(groups, at_once // AT_ONCE, -1).transpose(0, 2, 1)
    return joined(groups, _begins(given.bias), lanes, *after)


def _words(weights: Numbers) -> Numbers:
    """[four filters][word]: per four weights the lanes (k, k + 2), then (k + 1, k + 3)."""
    count, taps = weights.shape
    padded = np.pad(weights, ((0, 0), (0, -taps % 4))).reshape(count // AT_ONCE, AT_ONCE, -1, 4)
    halves = (padded + np.array([8, 8, 8, 0])[:, None, None]) & 15
    lanes = (halves << (4 * np.arange(AT_ONCE))[:, None, None]).sum(axis=1)
    return np.stack((lanes[..., 0] | lanes[..., 2] << 16, lanes[..., 1] | lanes[..., 3] << 16), axis=-1).reshape(len(lanes), -1)


def _begins(bias: Numbers) -> Numbers:
    """The biases of each four filters as the sums combine them."""
    a, b, c, d = bias.reshape(-1, AT_ONCE).T
    second, third = a + 16 * b, 256 * c
    return np.stack((a, second, third, second + third + 4096 * d), axis=1)
