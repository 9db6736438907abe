"""Weight stream, requirements, scratch and overlap distance of tw_conv_2d_s8_winograd_dsp: 3x3 convolutions of stride 1.

A tile is 2x2 outputs. The stream holds 16 numbers of 16 bits per filter and input channel instead of 9 weights of 8 bits: fewer
multiplications, more Flash. Source: Winograd's F(2x2, 3x3) (arXiv 1509.09308), in integers as tw_winograd.h describes.
"""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Op
from ..requirements import (
    EachFilter,
    dilation_is_1,
    has_one_group,
    input_channels_are_a_multiple_of_4,
    stride_is_1,
    window_is_3x3,
)
from . import dense

KERNEL, TILE, WINDOW = 3, 2, 4
POSITIONS = WINDOW * WINDOW
SUMS = 64  # that the kernel keeps for two tiles and four filters: eight each
ORDER = [1, 2, 0, 3]  # in which rows and columns of the 4x4 positions are stored
G = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])  # twice Winograd's G, so that all entries are integers
TIMES = 4  # factor of the sums, since G doubles both rows and columns
MOST = (1 << 31) // TIMES  # bound of a sum, since TIMES the sum must be an int32
LANES = [0, 2, 1, 3]  # order of four channels in two words of two lanes


def fourfold_sums_fit(given: dense.Filters) -> EachFilter:
    """Every filter's sum is less than 2^29 in magnitude, so that 4 times the sum is an int32."""
    low, high = given.bounds()  # products and partial sums may wrap
    return dense.check_sums(low, high, (low > -MOST) & (high < MOST))


EXACT: tuple[dense.FilterRequirement, ...] = (fourfold_sums_fit, *dense.RESCALES_EXACTLY)
SHAPE = (window_is_3x3, stride_is_1, dilation_is_1, has_one_group)
REQUIREMENTS = (*SHAPE, input_channels_are_a_multiple_of_4, *map(dense.of_op, EXACT))


def stream(given: dense.Filters) -> dense.Words:
    """Return the weight stream of tw_winograd.h: biases, transformed weights, factors per four filters, padded with zeros."""
    given = given.padded(-(-len(given.bias) // 4) * 4)
    groups = len(given.bias) // 4
    weights = given.weights.reshape(len(given.bias), KERNEL, KERNEL, -1)
    transformed = np.einsum("ia,fabc,jb->fijc", G, weights, G)[:, ORDER][:, :, ORDER]
    quads = transformed.reshape(groups, 4, POSITIONS, -1, len(LANES))[..., LANES]
    lanes = quads.reshape(groups, 4, POSITIONS, -1, 2).transpose(0, 2, 3, 1, 4) & 0xFFFF  # at most 9 * 255 each
    words = lanes[..., 0] | lanes[..., 1] << 16
    # sums are four times, not twice, an output's sum, hence half of the power
    rescales = np.stack((given.multiplier, np.where(given.multiplier != 0, given.powers() // 2, 0)), axis=1)
    return dense.joined(groups, TIMES * given.bias, words, rescales)


def flash(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of the Winograd kernel."""
    filters, _, _, depth = graph.input(op, 1).shape
    return 4 * -(-filters // 4) * (4 + 4 * POSITIONS * depth // 2 + 2 * 4)


def scratch(graph: Graph, op: Op) -> int:
    """Return the scratch memory of the Winograd kernel, in bytes."""
    return scratch_of(graph.input(op).shape[3], graph.output(op).shape[3])


def scratch_of(depth: int, units: int) -> int:
    """Return the scratch memory of the Winograd kernel, in bytes, for `depth` input and `units` output channels.

    It holds the transformed windows of two tiles, half-transformed columns or sums, outputs outside the computed range, and two
    pixels of padding.
    """
    half = max(2 * WINDOW * 2 * depth, 4 * SUMS)
    return 2 * POSITIONS * 2 * depth + 2 * half + -(-units // 4) * 4 + 2 * depth
