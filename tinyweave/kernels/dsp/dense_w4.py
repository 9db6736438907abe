"""Weight streams with int4 weights for the Arm DSP extension, and when their results are exact.

A lane of 16 bits holds the weights of four filters for one input (tw_lanes_w4.h). The streams are those of tw_pair_w4.h and
tw_fully_connected_dsp.h.
"""

from __future__ import annotations

import numpy as np

from ..requirements import EachFilter, dilation_is_1, has_one_group, has_weights, weights_are_int4
from .dense import (
    RESCALES_EXACTLY,
    FilterRequirement,
    Filters,
    Numbers,
    Words,
    check_sums,
    joined,
    of_op,
    rescales,
    shifts_round_once,
)

MOST = 1 << np.array([31, 27, 23, 19])  # bounds of four filters' sums: 1, 16, 256 and 4096 times them must be an int32
AT_ONCE = 4  # filters in a lane


def packed_sums_fit(given: Filters) -> EachFilter:
    """Every filter's sum fits into the bits that it has in the lanes: 31, 27, 23 and 19 bits and a sign for four filters."""
    most = np.resize(MOST, len(given.bias))
    low, high = given.bounds()
    return check_sums(low, high, (low >= -most) & (high < most))


EXACT: tuple[FilterRequirement, ...] = (packed_sums_fit, *RESCALES_EXACTLY)
# requirements of tw_conv_2d_s8_w4_dsp and tw_fully_connected_s8_w4_dsp
FOURS = (weights_are_int4, has_one_group, dilation_is_1, has_weights, *map(of_op, EXACT))
EIGHTS = (weights_are_int4, has_weights, *map(of_op, (packed_sums_fit, shifts_round_once)))


def stream(given: Filters) -> Words:
    """Return the weight stream of tw_pair_w4.h: one row per group of four filters, padded with filters and weights of 0.

    A row has the initial sums, the weights and the rescaling factors, as words in the order in which the kernel reads them.
    """
    given = given.padded(-(-len(given.bias) // AT_ONCE) * AT_ONCE)
    return _joined(given, AT_ONCE, rescales(given, AT_ONCE))


def eight_at_a_time(given: Filters) -> Words:
    """Return the int4 weight stream of tw_fully_connected_dsp.h: one row per group of eight filters, padded with filters of 0.

    A row has the initial sums and the weights, as words in the order in which the kernel reads them.
    """
    return _joined(given.padded(-(-len(given.bias) // 8) * 8), 8)


def _joined(given: Filters, at_once: int, *after: Numbers) -> Words:
    """Return one row of words per group of `at_once` filters: the initial sums, the weights, then each array of `after`."""
    groups = len(given.bias) // at_once
    lanes = _words(given.weights).reshape(groups, at_once // AT_ONCE, -1).transpose(0, 2, 1)
    return joined(groups, _begins(given.bias), lanes, *after)


def _words(weights: Numbers) -> Numbers:
    """Pack the weights of each four filters, in lanes of 16 bits.

    Returns:
        Words of shape [four filters][word]. Each quad of inputs k .. k + 3 has the word of lanes (k, k + 2), then the word of
        lanes (k + 1, k + 3).

    """
    count, taps = weights.shape
    padded = np.pad(weights, ((0, 0), (0, -taps % 4))).reshape(count // AT_ONCE, AT_ONCE, -1, 4)
    halves = (padded + np.array([8, 8, 8, 0])[:, None, None]) & 15
    lanes = (halves << (4 * np.arange(AT_ONCE))[:, None, None]).sum(axis=1)
    return np.stack((lanes[..., 0] | lanes[..., 2] << 16, lanes[..., 1] | lanes[..., 3] << 16), axis=-1).reshape(len(lanes), -1)


def _begins(bias: Numbers) -> Numbers:
    """Return the initial sums of each four filters: their biases, combined as tw_lanes_w4.h combines the filters' sums."""
    a, b, c, d = bias.reshape(-1, AT_ONCE).T
    second, third = a + 16 * b, 256 * c
    return np.stack((a, second, third, second + third + 4096 * d), axis=1)
