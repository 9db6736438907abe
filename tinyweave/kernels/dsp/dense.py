"""The stream of weights that tw_pair_s8 reads: two filters in one word, and when the sums and outputs of that are exact.

In: the filters of a convolution. Out: its weights, biases and multipliers in the order of tw_pair_s8.h, and whether a network
may use them. SMMULR and SMMLAR round as gemmlowp does within the bounds that are checked here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...ops import conv, fully_connected
from ...ops.spec import activation_range

Numbers = NDArray[np.int64]
Words = NDArray[np.uint32]
ONCE_MOST_SHIFT = -2  # of a sum that is rescaled with a single rounding: the product's low word is rounded away
EXPONENTS = range(2, 32)  # of the rounding shift, as SMMLAR's factor 2^(32 - exponent)
LEAN_DEPTH = 4  # channels of a pixel, or a multiple, for the kernel without scratch
LEAN_ROWS = 7  # TW_CONV_LEAN_MOST_ROWS
MOST_DOUBLED = 1 << 30  # a sum must be less, so that twice the sum is an int32
MOST_HIGH = 1 << 23  # the sum of a second filter must be less, so that 256 times it is an int32
WORD = 0xFFFFFFFF


class Filters(NamedTuple):
    """[filter][weight]; per filter the bias less the input's zero point times the weights, and how sums are rescaled."""

    weights: Numbers
    bias: Numbers
    multiplier: Numbers
    shift: Numbers

    def bounds(self) -> tuple[Numbers, Numbers]:
        """Per filter the least and the largest sum of any int8 inputs."""
        positive, negative = np.maximum(self.weights, 0).sum(axis=1), np.minimum(self.weights, 0).sum(axis=1)
        return self.bias - 128 * positive + 127 * negative, self.bias + 127 * positive - 128 * negative

    def powers(self) -> Numbers:
        """Per filter 2^(32 - exponent)."""
        return np.int64(1) << (32 - np.where(self.multiplier != 0, -self.shift, EXPONENTS[0]))

    def padded(self, count: int) -> Filters:
        """With filters of 0 up to `count`."""
        return Filters(*(np.concatenate([part, np.zeros((count - len(part), *part.shape[1:]), np.int64)]) for part in self))


def filters(graph: Graph, op: Op) -> Filters:
    """Those of a conv_2d without groups, of a depthwise_conv_2d, or of a fully_connected, whose shifts are for 64 bits."""
    x, weights, bias = graph.input(op), graph.input(op, 1).data, graph.optional_input(op, 2)
    assert weights is not None
    flat = weights.reshape(-1, weights.shape[3]).T if op.kind == "depthwise_conv_2d" else weights.reshape(len(weights), -1)
    flat = flat.astype(np.int64)
    offset = np.zeros(len(flat), np.int64) if bias is None or bias.data is None else bias.data.astype(np.int64)
    rescales = fully_connected.requant(graph, op) if op.kind == "fully_connected" else conv.requant(graph, op)
    multiplier, shift = (np.broadcast_to(part.astype(np.int64), len(flat)) for part in rescales)
    return Filters(flat, offset - x.zero_point * flat.sum(axis=1), multiplier, shift)


def needs_sign(graph: Graph, op: Op) -> bool:
    """Whether it shows how the rescaling rounds negative halves: not where all that is negative is clamped."""
    out = graph.output(op)
    return activation_range(op.attrs["activation"], out)[0] < out.zero_point


def rescales_exactly(given: Filters) -> bool:
    """Whether SMMULR and SMMLAR give the outputs of all sums."""
    (low, high), used = given.bounds(), given.multiplier != 0
    fits = (low > -MOST_DOUBLED) & (high < MOST_DOUBLED)
    return bool(fits.all() and np.isin(-given.shift[used], EXPONENTS).all())


def rescales_once(given: Filters) -> bool:
    """Whether one rounding of each product's high word gives the outputs of a dense layer."""
    return bool((given.shift <= ONCE_MOST_SHIFT).all())


def sums_exactly(given: Filters) -> bool:
    """Whether sums of two filters in one give those of both, for any inputs."""
    first, second = given.weights[0::2], given.weights[1::2]
    low, high = (bound[1::2] for bound in given.bounds())
    packs = not ((second == -128) & (first[: len(second)] < 0)).any()
    return bool(given.weights.size and packs and ((low >= -MOST_HIGH) & (high < MOST_HIGH)).all())


def is_exact(given: Filters) -> bool:
    """Whether the stream gives the outputs of any inputs."""
    return sums_exactly(given) and rescales_exactly(given)


def eight_at_a_time(given: Filters) -> Words:
    """The words of tw_fully_connected_dsp.h; what is missing of the last eight filters, or of four weights, is 0."""
    given = given.padded(-(-len(given.bias) // 8) * 8)
    count, taps = given.weights.shape
    groups, quads = count // 8, -(-taps // 4)
    return joined(groups, _begins(given.bias), _both(given.weights, quads).reshape(groups, 4, 2 * quads).transpose(0, 2, 1))


def flash_of_eights(graph: Graph, op: Op) -> int:
    """Bytes of these words."""
    count, taps = graph.input(op, 1).shape
    return 32 * -(-count // 8) * (1 + -(-taps // 4))


def _both(weights: Numbers, quads: int) -> Numbers:
    """[pair of filters][2 * quads]: the lanes (k, k + 2) and (k + 1, k + 3) of w0 + 256 * w1, as words."""
    count, taps = weights.shape
    lanes = np.pad(weights, ((0, 0), (0, 4 * quads - taps))).reshape(count, quads, 4)[..., [0, 2, 1, 3]]
    lanes = lanes.reshape(count, 2 * quads, 2)
    both = (lanes[0::2] + 256 * lanes[1::2]) & 0xFFFF
    return both[..., 0] | both[..., 1] << 16


def _begins(bias: Numbers) -> Numbers:
    """Where the sums begin: that of a second filter with 256 times its own bias and the first's."""
    begins = bias.copy()
    begins[1::2] = bias[0::2] + 256 * bias[1::2]
    return begins


def is_padded(graph: Graph, op: Op) -> bool:
    """Whether a window of a convolution meets padding."""
    sizes, kernel = (graph.input(op).shape[1:3], graph.output(op).shape[1:3]), conv.kernel_size(graph, op)
    axes = zip(*sizes, kernel, op.attrs["stride"], op.attrs["padding"], strict=True)
    return any(pad > 0 or (steps - 1) * step - pad + extent > size for size, steps, extent, step, (pad, _) in axes)


def scratch(graph: Graph, op: Op) -> int:
    """Bytes of the working memory of tw_conv_pairs."""
    return scratch_of(*conv.kernel_size(graph, op), graph.input(op).shape[3], padded=is_padded(graph, op))


def copying_scratch(graph: Graph, op: Op) -> int:
    """Bytes of that and of the stream."""
    return flash(graph, op) + scratch(graph, op)


def scratch_of(rows: int, cols: int, depth: int, *, padded: bool) -> int:
    """Bytes: two windows of 16 bits each; what is left over of both; a row with padding where pixels are no whole words."""
    run = cols * depth
    left = -(-rows * (run % 4) // 4)
    row = -(-run // 4) if depth % 4 and padded else 0
    return 16 * (rows * (run // 4) + left) + 4 * (row + 2 * left)


def of_filters(stream: Callable[[Filters], Words]) -> Callable[[Graph, Op], Words]:
    """Make the stream of an op of that of its filters."""
    return lambda graph, op: stream(filters(graph, op))


def of_rows(stream: Callable[[Filters], Words]) -> Callable[[Graph, Op], Words]:
    """Make the stream of a convolution whose filters are read row by row of its kernel."""
    return lambda graph, op: stream(by_rows(filters(graph, op), conv.kernel_size(graph, op)[0]))


def by_rows(given: Filters, rows: int) -> Filters:
    """With the weights in the order of tw_conv_pairs.h: of each row of the kernel the fours, then what is left over."""
    weights = given.weights.reshape(len(given.bias), rows, -1)
    whole = weights.shape[2] // 4 * 4
    parts = (part.reshape(len(weights), -1) for part in (weights[..., :whole], weights[..., whole:]))
    return given._replace(weights=np.concatenate(list(parts), axis=1))


def flash(graph: Graph, op: Op) -> int:
    """Bytes of these words."""
    count, *window = graph.input(op, 1).shape
    return 16 * -(-count // 4) * (3 + -(-prod(window) // 4))


def padding(graph: Graph, op: Op) -> int:
    """Bytes of the input's zero point, a row of a window, that tw_conv_2d_s8_lean_dsp reads as padding; 0: there is none."""
    return conv.kernel_size(graph, op)[1] * graph.input(op).shape[3] if is_padded(graph, op) else 0


def lean_flash(graph: Graph, op: Op) -> int:
    """Bytes of the same words and of the padding."""
    return flash(graph, op) + padding(graph, op)


def stream(given: Filters) -> Words:
    """The words of tw_pair_s8.h; what is missing of the last four filters, or of four weights, is 0."""
    given = given.padded(-(-len(given.bias) // 4) * 4)
    count, taps = given.weights.shape
    groups, quads = count // 4, -(-taps // 4)
    words = _both(given.weights, quads).reshape(groups, 2, 2 * quads).transpose(0, 2, 1)
    return joined(groups, _begins(given.bias), words, rescales(given, 2))


def rescales(given: Filters, period: int) -> Numbers:
    """[filter][multiplier, power]; the multiplier doubled of each first of `period` filters, both 0 where there is none."""
    # sum + sum * (2 * multiplier - 2^32) / 2^32
    doubled = given.multiplier * np.where(np.arange(len(given.bias)) % period, 1, 2)
    return np.stack((doubled, np.where(given.multiplier != 0, given.powers(), 0)), axis=1)


def joined(groups: int, *parts: Numbers) -> Words:
    """The words of all groups, each part of which follows the one before, modulo 2^32."""
    return (np.concatenate([part.reshape(groups, -1) for part in parts], axis=1) & WORD).astype(np.uint32)
