"""Weight streams of the int8 convolutions and dense layers for the Arm DSP extension, and when their results are exact.

A weight stream holds initial sums, weights and rescaling factors as 32-bit words in the order in which a kernel reads them. A
word has two lanes of 16 bits; a lane holds the weights of two filters for one input (tw_conv_dsp.h). A quad is four
neighbouring inputs. SMMULR and SMMLAR round as gemmlowp does within the bounds checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...ops import conv, fully_connected
from ...ops.fixed_point import requantize
from ...ops.spec import activation_range
from ..requirements import (
    Check,
    EachFilter,
    Mask,
    Requirement,
    dilation_is_1,
    has_at_most_4_outputs,
    has_one_group,
    has_weights,
    weights_are_int8,
)

Numbers = NDArray[np.int64]
Words = NDArray[np.uint32]
EXPONENTS = range(2, 32)  # right shifts that SMMLAR can apply, by the factor 2^(32 - exponent)
LEAN_PARTS = 16  # TW_CONV_LEAN_MOST_PARTS
LEAN_COPIED = 168  # TW_CONV_LEAN_MOST_COPIED
PART_BYTES = 12  # of a window_part of tw_conv_2d_s8_lean_dsp on a 32-bit core
IN_LANES = (0, 2, 1, 3)  # order of four inputs or weights, two to a word
MOST_DOUBLED = 1 << 30  # bound of a sum, since twice the sum must be an int32
INT32 = 1 << 31  # bound of a sum that is an int32
M7_OFFSET = 128  # added to each weight of an even filter for tw_fully_connected_s8_m7: its LANE_OFFSET
MOST_HIGH = 1 << 23  # bound of an odd filter's sum, since 256 times the sum must be an int32
WORD = 0xFFFFFFFF
_OUTLIERS: WeakKeyDictionary[Graph, dict[Op, int]] = WeakKeyDictionary()  # planning asks often; counting reads all weights


class Filters(NamedTuple):
    """The filters of a layer, with the bias and the rescaling of each filter's sum."""

    weights: Numbers  # [filter][weight], minus the weights' zero point
    bias: Numbers  # of each filter, minus the input's zero point times the sum of the filter's weights
    multiplier: Numbers  # a sum is rescaled by multiplier / 2^31 * 2^shift
    shift: Numbers  # negative: to the right

    def bounds(self) -> tuple[Numbers, Numbers]:
        """Return the smallest and the largest sum of each filter over all int8 inputs."""
        positive, negative = np.maximum(self.weights, 0).sum(axis=1), np.minimum(self.weights, 0).sum(axis=1)
        return self.bias - 128 * positive + 127 * negative, self.bias + 127 * positive - 128 * negative

    def powers(self) -> Numbers:
        """Return for each filter the factor 2^(32 + shift), by which SMMLAR shifts right; all shifts must be negative."""
        return np.asarray(np.int64(1) << (32 - np.where(self.multiplier != 0, -self.shift, EXPONENTS[0])))

    def padded(self, count: int) -> Filters:
        """Return the filters followed by filters of zeros, `count` filters in total."""
        return Filters(*(np.concatenate([part, np.zeros((count - len(part), *part.shape[1:]), np.int64)]) for part in self))


class ConvolutionAxis(NamedTuple):
    """The sizes of a convolution along one axis of its map."""

    size: int  # input positions
    steps: int  # output positions
    extent: int  # positions of a window
    stride: int  # input positions between two windows
    pad: int  # positions of padding before the input


_FILTERS: WeakKeyDictionary[Graph, dict[Op, Filters]] = WeakKeyDictionary()  # cache of `filters`


def filters(graph: Graph, op: Op) -> Filters:
    """Return the filters of a conv_2d with one group, a depthwise_conv_2d or a fully_connected, which callers must not change.

    The rescaling of a fully_connected rounds once, as TFLite does there: its shifts apply to the 64-bit product.
    """
    known = _FILTERS.setdefault(graph, {})
    if op not in known:
        known[op] = _filters(graph, op)
    return known[op]


def _filters(graph: Graph, op: Op) -> Filters:
    x, weights, bias = graph.input(op), graph.input(op, 1).data, graph.optional_input(op, 2)
    assert weights is not None
    flat = weights.reshape(-1, weights.shape[3]).T if op.kind == "depthwise_conv_2d" else weights.reshape(len(weights), -1)
    flat = flat.astype(np.int64) - conv.weights_zero(graph, op)
    offset = np.zeros(len(flat), np.int64) if bias is None or bias.data is None else bias.data.astype(np.int64)
    rescales = fully_connected.requant(graph, op) if op.kind == "fully_connected" else conv.requant(graph, op)
    multiplier, shift = (np.broadcast_to(part.astype(np.int64), len(flat)) for part in rescales)
    given = Filters(flat, offset - x.zero_point * flat.sum(axis=1), multiplier, shift)
    if op.kind == "fully_connected":
        return given
    out = graph.output(op)
    low, high = activation_range(op.attrs["activation"], out)
    return with_constants(given, (low - out.zero_point, high - out.zero_point))


def _in_range(exponents: Numbers) -> Mask:
    """Return for each exponent whether it is one of EXPONENTS; numpy.isin takes longer."""
    return np.asarray((exponents >= EXPONENTS[0]) & (exponents <= EXPONENTS[-1]))


def with_constants(given: Filters, limits: tuple[int, int]) -> Filters:
    """Replace filters of extreme numbers whose output does not depend on the input by filters of zeros with the same output.

    Channels that training switched off have tiny scales. Biases of up to 2^30 in magnitude then decide the output, but exceed
    the range of the fast arithmetic. The filters are those of a convolution, whose sums are rounded twice; `limits` are the
    smallest and the largest output, less the output's zero point.
    """
    extreme = (np.abs(given.bias) >= MOST_HIGH // 2) | ~_in_range(-given.shift)
    if not extreme.any():
        return given
    bounds = given.bounds()
    extreme &= (bounds[0] > -INT32) & (bounds[1] < INT32) & (given.shift <= 0)
    # the output rises or falls with the sum, so that the outputs of the smallest and the largest sum enclose all others
    least, most = (np.clip(requantize(bound, given.multiplier, given.shift), *limits) for bound in bounds)
    same = extreme & (least == most)
    return Filters(
        np.where(same[:, None], 0, given.weights),
        np.where(same, least << 3, given.bias),
        np.where(same, 1 << 30, given.multiplier),  # one half, and a right shift by 2: exact for multiples of 8
        np.where(same, -2, given.shift),
    )


def needs_sign(graph: Graph, op: Op) -> bool:
    """Return whether outputs can be below the zero point, so that the rounding of negative halves matters.

    Outputs cannot be below the zero point if the activation, such as ReLU, clamps them to at least the zero point.
    """
    out = graph.output(op)
    return activation_range(op.attrs["activation"], out)[0] < out.zero_point


def sums_fit(given: Filters) -> EachFilter:
    """Every filter's sum is less than 2^30 in magnitude, so that twice the sum is an int32."""
    low, high = given.bounds()
    return check_sums(low, high, (low > -MOST_DOUBLED) & (high < MOST_DOUBLED))


def shifts_fit(given: Filters) -> EachFilter:
    """Every filter's rescale shift is between -31 and -2."""
    return EachFilter((given.multiplier == 0) | _in_range(-given.shift), "rescale shift", given.shift)


def shifts_round_once(given: Filters) -> EachFilter:
    """Every filter's rescale shift is at most -2, so that rounding the 64-bit sum * multiplier needs only its high word."""
    return EachFilter(given.shift <= -2, "rescale shift", given.shift)


def weights_fit(given: Filters) -> EachFilter:
    """Every filter's weights, less their zero point, are int8."""
    low, high = given.weights.min(axis=1, initial=0), given.weights.max(axis=1, initial=0)
    return EachFilter((low >= -128) & (high <= 127), "weight of largest magnitude", np.where(-low > high, low, high))


def weights_pack_in_pairs(given: Filters) -> EachFilter:
    """No weight of an odd filter is -128 if the even filter before it has a negative weight there."""
    first, second = given.weights[0::2], given.weights[1::2]
    met = np.ones(len(given.weights), np.bool_)
    met[1::2] = ~((second == -128) & (first[: len(second)] < 0)).any(axis=1)
    return EachFilter(met, "smallest weight", given.weights.min(axis=1, initial=127))


def packed_sums_fit(given: Filters) -> EachFilter:
    """Every odd filter's sum is between -2^23 and 2^23, so that 256 times the sum is an int32."""
    low, high = given.bounds()
    met = (low >= -MOST_HIGH) & (high < MOST_HIGH)
    met[0::2] = True
    return check_sums(low, high, met)


def check_sums(low: Numbers, high: Numbers, met: Mask) -> EachFilter:
    """Return a condition that only the filters in `met` meet, and that quotes, for a filter, its sum of largest magnitude.

    `low` and `high` are the smallest and the largest sum of each filter.
    """
    return EachFilter(met, "sum of largest magnitude", np.where(-low > high, low, high))


FilterRequirement = Callable[[Filters], EachFilter]
RESCALES_EXACTLY: tuple[FilterRequirement, ...] = (sums_fit, shifts_fit)  # then SMMULR and SMMLAR rescale each sum exactly
# then one word holds two sums
SUMS_EXACTLY: tuple[FilterRequirement, ...] = (weights_fit, weights_pack_in_pairs, packed_sums_fit)
PAIRS_EXACTLY = (*SUMS_EXACTLY, *RESCALES_EXACTLY)


@cache  # so that equal arguments give the same object: `table.py` caches results by requirement
def of_op(requirement: FilterRequirement, reorder: Callable[[Filters], Filters] = lambda given: given) -> Requirement:
    """Turn a requirement on filters into a requirement on an op.

    Args:
        requirement: The requirement on filters; its docstring becomes the new requirement's.
        reorder: Applied to the op's filters first.

    """

    def on_filters(graph: Graph, op: Op) -> Check:
        """Check the requirement for the filters of an op."""
        return requirement(reorder(filters(graph, op))).check()

    on_filters.__doc__ = requirement.__doc__
    return on_filters


def is_copied(rows: int, cols: int, depth: int) -> bool:
    """Return whether tw_conv_2d_s8_lean_dsp copies a window to the stack before it multiplies, or reads the window in place.

    The kernel copies a window if its `depth` input channels are not a multiple of 4, and it has at most LEAN_COPIED bytes.
    """
    run = cols * depth
    return depth % 4 != 0 and 4 * -(-rows * run // 4) <= LEAN_COPIED


def lean_stack(rows: int, cols: int, depth: int, sides: int) -> int:
    """Return an upper bound on the stack bytes that tw_conv_2d_s8_lean_dsp needs for a window that it reads in place.

    The stack holds a list of the window's parts (runs of bytes). It also holds copies of two kinds of quads: those that are
    partly padding, and those made of the incomplete quads at the ends of rows. `sides` is how many sides, left and right, of
    the window may reach into the padding at once.
    """
    run = cols * depth
    has_rest, rests = run % 4 > 0, 4 * -(-rows * (run % 4) // 4)
    mixed = sides if depth % 4 else 0  # quads of a row that are partly padding
    return PART_BYTES * (rows * (1 + sides + mixed) + has_rest + 1) + 4 * rows * mixed + rests


def fits_lean(rows: int, depth: int, across: ConvolutionAxis) -> bool:
    """Return whether tw_conv_2d_s8_lean_dsp has stack for all windows of a convolution; `across`: its sizes along a row."""
    size, steps, cols, stride, pad = across
    sides = max((left < 0) + (left + cols > size) for left in range(-pad, steps * stride - pad, stride))
    return is_copied(rows, cols, depth) or lean_stack(rows, cols, depth, sides) <= LEAN_PARTS * PART_BYTES


def has_short_list_of_parts(graph: Graph, op: Op) -> Check:
    """The window is small or has few rows, so that the stack has space for the list of its parts (runs of bytes)."""
    (rows, cols), depth, axes = conv.kernel_size(graph, op), graph.input(op).shape[3], _axes(graph, op)
    return Check(fits_lean(rows, depth, axes[1]), f"it has {rows} rows of {cols * depth} bytes")


def are_outliers(given: Filters, exact: tuple[FilterRequirement, ...]) -> Mask:
    """Return for each filter whether it is an outlier: whether it fails a requirement (`exact`) of the fast arithmetic."""
    return np.asarray(~np.all([requirement(given).met for requirement in exact], axis=0))


def outlier_count(graph: Graph, op: Op) -> int:
    """Return how many filters of a conv_2d or depthwise_conv_2d are outliers, for which the fast arithmetic is not exact."""
    known = _OUTLIERS.setdefault(graph, {})
    if op not in known:
        exact = RESCALES_EXACTLY if op.kind == "depthwise_conv_2d" else PAIRS_EXACTLY
        known[op] = int(np.count_nonzero(are_outliers(filters(graph, op), exact)))
    return known[op]


RESCALED = tuple(map(of_op, RESCALES_EXACTLY))
# requirements of the kernels with the weight stream of tw_conv_dsp.h
PAIRED = (has_one_group, dilation_is_1, has_weights, *map(of_op, PAIRS_EXACTLY))
WITH_OUTLIERS = (weights_are_int8, has_one_group, dilation_is_1, has_weights)
# requirements of the kernels of tw_fully_connected_dsp.h
EIGHTS = (has_weights, *map(of_op, (*SUMS_EXACTLY, shifts_round_once)))
FEW = (weights_are_int8, has_weights, has_at_most_4_outputs, of_op(shifts_round_once))
SEGMENTS = (weights_are_int8, has_weights, *map(of_op, (weights_fit, weights_pack_in_pairs, shifts_round_once)))


def eight_at_a_time(given: Filters, *, packed: bool = True, offset: int = 0) -> Words:
    """Return the weight stream of tw_fully_connected_dsp.h: one row per group of eight filters, padded with filters of 0.

    A row has the initial sums and the weights, as words in the order in which the kernel reads them.

    Args:
        packed: Whether initial sums of two filters are packed as b0 + 256 * b1, like their weights, or are plain biases.
        offset: LANE_OFFSET of tw_fully_connected_dsp_loop.h, which is added to each weight of an even filter.

    """
    given = given.padded(-(-len(given.bias) // 8) * 8)
    count, taps = given.weights.shape
    groups, quads = count // 8, -(-taps // 4)
    return joined(
        groups,
        _begins(given.bias) if packed else given.bias,
        _both(given.weights, quads, offset).reshape(groups, 4, 2 * quads).transpose(0, 2, 1),
    )


def four_at_a_time(weights: NDArray[np.int8]) -> Words:
    """Return int8 weights [gate][filter][input] in the order of tw_dot4_dsp and tw_dot1_dsp, as words [gate][word].

    In each gate, every four filters are packed for tw_dot4_dsp; the weights of the last one to three filters follow as bytes
    [filter][input], then up to three bytes of 0.
    """
    gates, count, taps = weights.shape
    quads, rest, groups = taps // 4, taps % 4, gates * (count // 4)
    fours = weights[:, : count // 4 * 4].reshape(groups, 4, taps)
    words = _both(fours[..., : 4 * quads].reshape(4 * groups, 4 * quads).astype(np.int64), quads)
    in_order = words.reshape(groups, 2, 2 * quads).transpose(0, 2, 1).reshape(groups, 4 * quads)
    ends = fours[..., 4 * quads :].transpose(0, 2, 1).reshape(groups, 4 * rest)
    packed = np.concatenate([in_order.astype(np.uint32).view(np.int8), ends], axis=1)
    others = weights[:, count // 4 * 4 :]
    parts = packed.reshape(gates, count // 4 * 4 * taps), others.reshape(gates, count % 4 * taps)
    return in_words(np.concatenate(parts, axis=1)).view(np.uint32)


def in_words(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return int8 weights of a recurrent layer, [gate][...], as [gate][byte], each gate padded with zeros to whole words."""
    flat = weights.reshape(len(weights), -1)
    return np.ascontiguousarray(np.pad(flat, ((0, 0), (0, -flat.shape[1] % 4))))


def lanes_fit(weights: NDArray[np.int8]) -> bool:
    """Return whether `four_at_a_time` can pack weights [gate][filter][input]: w0 + 256 * w1 of two filters must be an int16."""
    whole = weights.shape[1] // 4 * 4
    return not ((weights[:, 1:whole:2] == -128) & (weights[:, 0:whole:2] < 0)).any()


def few(given: Filters) -> Words:
    """Return the weight stream of tw_fully_connected_s8_few_dsp: the initial sums, then the weights, four inputs at a time.

    Each four inputs have two words per filter, with one weight in each lane of 16 bits. If the number of inputs is not a
    multiple of 4, the last four inputs overlap the four inputs before; the weights of the shared inputs are 0 there.
    """
    count, taps = given.weights.shape
    zeros = np.zeros((count, -taps % 4), np.int64)
    padded = np.concatenate([given.weights[:, : taps // 4 * 4], zeros, given.weights[:, taps // 4 * 4 :]], axis=1)
    lanes = padded.reshape(count, -1, 4)[..., IN_LANES] & 0xFFFF
    words = lanes[..., 0::2] | lanes[..., 1::2] << 16
    return joined(1, given.bias, words.transpose(1, 0, 2))


def segments(given: Filters) -> Words:
    """Return the weight stream of tw_fully_connected_s8_segments_dsp, for rows whose sums exceed a packed accumulator.

    The stream begins with the number of quads (four neighbouring inputs) of a segment. After each segment, the kernel unpacks
    the packed sums and adds them to full accumulators. Groups of eight filters follow.
    """
    return np.concatenate([np.array([segment(given)], np.uint32), eight_at_a_time(given, packed=False).ravel()])


def segment(given: Filters) -> int:
    """Return the length of a segment of a fully_connected's input rows, in quads (four neighbouring inputs).

    A row is split into as few segments of equal length as possible (the last may be shorter), such that the sums over each
    segment fit packed accumulators, each of which holds the sums of two filters. The sums include no bias. Segments of up to
    127 quads always fit.
    """
    quads = -(-given.weights.shape[1] // 4)
    magnitudes = np.pad(np.abs(given.weights), ((0, 0), (0, 4 * quads - given.weights.shape[1])))
    so_far = np.cumsum(128 * magnitudes.reshape(len(magnitudes), quads, 4).sum(axis=2), axis=1)
    for count in range(1, quads + 1):
        size = -(-quads // count)
        ends = so_far[:, [*range(size - 1, quads - 1, size), quads - 1]]
        if np.diff(ends, axis=1, prepend=0).max() < MOST_HIGH:
            return int(size)
    raise AssertionError("a segment of four inputs overflows")


def flash_of_eights(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of `eight_at_a_time` for a fully_connected."""
    count, taps = graph.input(op, 1).shape
    return 32 * -(-count // 8) * (1 + -(-taps // 4))


def flash_of_few(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of tw_fully_connected_s8_few_dsp."""
    count, taps = graph.input(op, 1).shape
    return 4 * count * (1 + 2 * -(-taps // 4))


def flash_of_segments(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of tw_fully_connected_s8_segments_dsp."""
    return flash_of_eights(graph, op) + 4


def _both(weights: Numbers, quads: int, offset: int = 0) -> Numbers:
    """Pack the weights w0, w1 of each pair of filters as w0 + offset + 256 * w1, in lanes of 16 bits.

    Returns:
        Words of shape [pair of filters][word]. Each quad of inputs k .. k + 3 has the word of lanes (k, k + 2), then the word
        of lanes (k + 1, k + 3).

    """
    count, taps = weights.shape
    lanes = np.pad(weights, ((0, 0), (0, 4 * quads - taps))).reshape(count, quads, 4)[..., IN_LANES]
    lanes = lanes.reshape(count, 2 * quads, 2)
    both = (lanes[0::2] + offset + 256 * lanes[1::2]) & 0xFFFF
    return np.asarray(both[..., 0] | both[..., 1] << 16)


def _begins(bias: Numbers) -> Numbers:
    """Return the initial sums: for even filters the bias, for odd filters 256 * bias plus the bias of the filter before."""
    begins = bias.copy()
    begins[1::2] = bias[0::2] + 256 * bias[1::2]
    return np.asarray(begins)


def is_padded(graph: Graph, op: Op) -> bool:
    """Return whether some window of a convolution reaches into the padding."""
    return any(pad > 0 or (steps - 1) * step - pad + extent > size for size, steps, extent, step, pad in _axes(graph, op))


def _axes(graph: Graph, op: Op) -> list[ConvolutionAxis]:
    """Return the sizes of a convolution down the map and along a row."""
    sizes, kernel = (graph.input(op).shape[1:3], graph.output(op).shape[1:3]), conv.kernel_size(graph, op)
    pads = (before for before, _ in op.attrs["padding"])
    return [ConvolutionAxis(*sizes) for sizes in zip(*sizes, kernel, op.attrs["stride"], pads, strict=True)]


def scratch(graph: Graph, op: Op) -> int:
    """Return the scratch memory of the kernels of tw_conv_pairs.h, in bytes."""
    return scratch_of(*conv.kernel_size(graph, op), graph.input(op).shape[3], padded=is_padded(graph, op))


def copying_scratch(graph: Graph, op: Op) -> int:
    """Return the scratch memory of the kernels that first copy their weight stream to it, in bytes.

    It holds the weight stream, then the windows and rows of the kernels that read the stream from Flash (`scratch`).
    """
    return flash(graph, op) + scratch(graph, op)


def scratch_of(rows: int, cols: int, depth: int, *, padded: bool) -> int:
    """Return the scratch memory of the kernels of tw_conv_pairs.h, in bytes, for a window of `depth` input channels.

    It holds two windows of 16-bit values, the incomplete quads (groups of up to three inputs) at the ends of their rows, and
    a row with padding if pixels are not whole words and some window is `padded`: it reaches into the padding.
    """
    run = cols * depth
    left = -(-rows * (run % 4) // 4)
    row = -(-run // 4) if depth % 4 and padded else 0
    return 16 * (rows * (run // 4) + left) + 4 * (row + 2 * left)


def of_filters(stream: Callable[[Filters], Words]) -> Callable[[Graph, Op], Words]:
    """Turn a function that builds a weight stream from filters into a function of a graph and an op."""
    return lambda graph, op: stream(filters(graph, op))


def of_rows(stream: Callable[[Filters], Words]) -> Callable[[Graph, Op], Words]:
    """Turn a function that builds a weight stream from filters into a function of a graph and a convolution.

    The weights of each filter are first reordered by `by_rows`.
    """
    return lambda graph, op: stream(by_rows(filters(graph, op), conv.kernel_size(graph, op)[0]))


def by_rows(given: Filters, rows: int) -> Filters:
    """Reorder the weights of each filter, which has `rows` rows, as tw_conv_pairs.h reads inputs.

    First come the whole quads (four neighbouring inputs) of each row of the window, then the incomplete quads of all rows.
    """
    weights = given.weights.reshape(len(given.bias), rows, -1)
    whole = weights.shape[2] // 4 * 4
    parts = (part.reshape(len(weights), -1) for part in (weights[..., :whole], weights[..., whole:]))
    return given._replace(weights=np.concatenate(list(parts), axis=1))


def lean_stream(graph: Graph, op: Op) -> Words:
    """Return the weight stream of tw_conv_2d_s8_lean_dsp for a convolution."""
    return lean_words(filters(graph, op), *conv.kernel_size(graph, op), graph.input(op).shape[3])


def lean_words(given: Filters, rows: int, cols: int, depth: int) -> Words:
    """Return the weight stream of tw_conv_2d_s8_lean_dsp.

    If windows are read in place, weights have the order of `by_rows`. If windows are copied, they keep their order.
    """
    return stream(given if is_copied(rows, cols, depth) else by_rows(given, rows))


def flash(graph: Graph, op: Op) -> int:
    """Return the bytes of a convolution's weight stream: weights, biases and rescaling, without the table of outliers."""
    count, *window = graph.input(op, 1).shape
    return 16 * -(-count // 4) * (3 + -(-prod(window) // 4))


def flash_with_outliers(graph: Graph, op: Op) -> int:
    """Return the bytes of a convolution's weight stream and of the table that follows it, of filters computed by slow code."""
    return flash(graph, op) + outlier_bytes(graph, op)


def padding(graph: Graph, op: Op) -> int:
    """Return the bytes of the constant row of zero points that tw_conv_2d_s8_lean_dsp reads in place of padding, or 0.

    The row is as long as a row of the kernel's window: its columns times the input channels. It is left out if no window
    reaches into the padding.
    """
    return conv.kernel_size(graph, op)[1] * graph.input(op).shape[3] if is_padded(graph, op) else 0


def lean_flash(graph: Graph, op: Op) -> int:
    """Return the bytes of the constants of tw_conv_2d_s8_lean_dsp: the weight stream and the row of zero points."""
    return flash(graph, op) + padding(graph, op)


def stream(given: Filters) -> Words:
    """Return the weight stream of tw_conv_dsp.h: one row per group of four filters, padded with filters and weights of 0.

    A row has the initial sums, the weights and the rescaling factors, as words in the order in which the kernel reads them.
    """
    given = given.padded(-(-len(given.bias) // 4) * 4)
    count, taps = given.weights.shape
    groups, quads = count // 4, -(-taps // 4)
    words = _both(given.weights, quads).reshape(groups, 2, 2 * quads).transpose(0, 2, 1)
    return joined(groups, _begins(given.bias), words, rescales(given, 2))


def stream_with_outliers(given: Filters) -> Words:
    """Return the weight stream of tw_conv_dsp.h with zeros in place of outliers, followed by the table of outliers.

    An outlier is a filter that fails a requirement of the fast arithmetic; the kernel computes it from the table.
    """
    return followed_by_outliers(given, PAIRS_EXACTLY, stream, IN_LANES)


def followed_by_outliers(
    given: Filters, exact: tuple[FilterRequirement, ...], stream: Callable[[Filters], Words], order: Sequence[int]
) -> Words:
    """Return a weight stream with zeros in place of outliers, followed by the table of outliers of tw_outliers.h.

    The table holds the number of outliers, then the channel, bias, multiplier, shift and weights of each outlier.

    Args:
        exact: The requirements of the fast arithmetic; a filter that fails one is an outlier.
        stream: The function that builds the weight stream.
        order: The order in which each four weights of an outlier fill the four lanes of two words.

    """
    mask = are_outliers(given, exact)
    regular = Filters(given.weights * ~mask[:, None], given.bias * ~mask, given.multiplier * ~mask, given.shift)
    (channels,) = np.nonzero(mask)
    bias, multiplier, shift = (part[channels, None] for part in given[1:])
    count, quads = channels.size, -(-given.weights.shape[1] // 4)
    weights = np.pad(given.weights[channels], ((0, 0), (0, -given.weights.shape[1] % 4))).reshape(count, quads, 4)
    lanes = weights[..., order] & 0xFFFF
    words = (lanes[..., 0::2] | lanes[..., 1::2] << 16).reshape(count, 2 * quads)
    each = np.concatenate([channels[:, None], bias, multiplier, shift, words], axis=1)
    return np.concatenate([stream(regular).ravel(), joined(1, np.array([count]), each).ravel()])


def outlier_bytes(graph: Graph, op: Op) -> int:
    """Return the bytes of the table of outliers, the filters for which the fast arithmetic of a convolution is not exact."""
    weights = graph.input(op, 1)
    return 4 + outlier_count(graph, op) * (16 + 8 * -(-weights.elements // graph.output(op).shape[3] // 4))


def rescales(given: Filters, period: int) -> Numbers:
    """Return an array with a row (multiplier, power 2^(32 + shift)) per filter; both are 0 for a multiplier of 0.

    Every `period`-th filter, from the first on, has twice its multiplier instead. The kernel computes the product as sum + sum
    * (2 * multiplier - 2^32) / 2^32 for such a filter.
    """
    doubled = given.multiplier * np.where(np.arange(len(given.bias)) % period, 1, 2)
    return np.stack((doubled, np.where(given.multiplier != 0, given.powers(), 0)), axis=1)


def joined(groups: int, *parts: Numbers) -> Words:
    """Concatenate the words of each group of filters to one row per group, modulo 2^32.

    Each of `parts` is divided evenly among the groups; a row holds its shares in the order of the parts.
    """
    return (np.concatenate([part.reshape(groups, -1) for part in parts], axis=1) & WORD).astype(np.uint32)
