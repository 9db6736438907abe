"""Weight streams, requirements, scratch and overlap distances of the kernels for the Arm MVE extension (Helium).

A weight stream holds biases, weights and rescaling factors as words in the order in which a kernel reads them. Sums wrap modulo
2^32 as in the portable kernels, so results are exact for all inputs, weights and biases. Layers with shifts above 0 are left to
the portable kernels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...ops.conv import kernel_size
from ..dsp import dense
from ..requirements import Check, EachFilter, depth_multiplier_is_1, dilation_is_1, has_one_group, weights_have_no_zero_point

LANES = 16  # bytes of a vector: TW_MVE_LANES
FILTERS = 4  # that tw_mve_pair computes at a time
ORDER = np.arange(LANES).reshape(4, 4).T[[0, 2, 1, 3]].ravel()  # order of channels in the stream of tw_mve_taps.h
WINDOWS_BYTES, MOST_WINDOWS = 512, 16
FEW_OUTPUTS, MOST_WORK = 16, 800  # TW_MVE_FEW_OUTPUTS, and FEW_GROUPS of tw_mve_pair.c
TWO_PIXELS, TWO_BYTES = (
    16,
    64,
)  # least pixels, and bytes of a window, for which tw_mve_pair.c computes two filters by themselves
SHIFTS = range(-31, 0)  # that VRSHL takes; rounding half away from zero needs a shift other than 0


def up(count: int) -> int:
    """Round a number of bytes up to whole vectors of 16 bytes."""
    return -(-count // LANES) * LANES


def shifts_fit(given: dense.Filters) -> EachFilter:
    """Every filter's rescale shift is between -31 and -1."""
    return EachFilter((given.multiplier == 0) | np.isin(given.shift, SHIFTS), "rescale shift", given.shift)


def unsigned_shifts_fit(given: dense.Filters) -> EachFilter:
    """Every filter's rescale shift is between -31 and 0."""
    return EachFilter((given.multiplier == 0) | np.isin(given.shift, (*SHIFTS, 0)), "rescale shift", given.shift)


def shifts_round_exactly(graph: Graph, op: Op) -> Check:
    """Every filter's rescale shift is between -31 and -1, or 0 if the clamp removes negative outputs."""
    requirement = shifts_fit if dense.needs_sign(graph, op) else unsigned_shifts_fit
    return requirement(dense.filters(graph, op)).check()


def products_add_in_16_bits(given: dense.Filters) -> EachFilter:
    """Of the taps 2n and 2n + 1, at most one has the weight -128, so that their products add in 16 bits."""
    filters, taps = given.weights.shape
    pairs = np.pad(given.weights, ((0, 0), (0, taps % 2))).reshape(filters, -1, 2)
    larger = pairs.max(axis=2, initial=-128).min(axis=1, initial=127)  # of each pair; the least of them
    return EachFilter(larger > -128, "larger weight of two taps", larger)


DENSE = (has_one_group, dilation_is_1, weights_have_no_zero_point, shifts_round_exactly)
TAPS = (depth_multiplier_is_1, weights_have_no_zero_point, dense.of_op(products_add_in_16_bits), shifts_round_exactly)
FULLY_CONNECTED = (weights_have_no_zero_point, dense.of_op(dense.shifts_round_once))


def wrapped(values: dense.Numbers) -> NDArray[np.int32]:
    """Return values modulo 2^32, as int32."""
    return (values & dense.WORD).astype(np.uint32).view(np.int32)


def less_zero(bias: dense.Numbers | int, weights: NDArray[np.int8], zero: int) -> NDArray[np.int32]:
    """Subtract the zero point of the inputs times the sum of each filter's weights from the biases, modulo 2^32.

    `bias` has an int64 per filter, or is 0. The last axis of `weights` is the inputs of a filter.
    """
    return wrapped(np.asarray(bias - zero * weights.sum(axis=-1, dtype=np.int64)))


def scratch(graph: Graph, op: Op) -> int:
    """Return the scratch memory of tw_conv_2d_s8_mve, in bytes."""
    return scratch_of(*kernel_size(graph, op), graph.input(op).shape[3])


def scratch_of(rows: int, cols: int, depth: int) -> int:
    """Return the scratch memory of tw_conv_2d_s8_mve, in bytes: the windows copied at a time, each in whole vectors."""
    return windows_at_once(rows, cols, depth) * up(rows * cols * depth)


def windows_at_once(rows: int, cols: int, depth: int) -> int:
    """Return how many windows tw_conv_2d_s8_mve copies to scratch per call of its inner loop: an even number from 2 to 16.

    Small windows are copied in larger numbers. 1x1 windows are copied in twos.
    """
    return 2 if rows == cols == 1 else min(max(WINDOWS_BYTES // up(rows * cols * depth) & ~1, 2), MOST_WINDOWS)


def reads_all_first(pixels: int, units: int, depth: int) -> bool:
    """Return whether tw_mve_few_products computes these pixels of a 1x1 convolution.

    It reads the inputs of all of these pixels before it writes their outputs.
    """
    work = pixels * -(-units // FILTERS) * (up(depth) + 144)  # FEW_GROUPS of tw_mve_pair.c
    return 0 < pixels * units <= FEW_OUTPUTS and (pixels == 1 or work <= MOST_WORK)


def last_filters_first(pixels: int, units: int, depth: int) -> bool:
    """Return whether tw_mve_pair_products computes these pixels of a 1x1 convolution by by_filters.

    It computes the last one or two output channels, where no four are left, before all others, and writes them after them.
    """
    rest = units % FILTERS
    return (rest == 1 and pixels > 2) or (rest == 2 and pixels >= TWO_PIXELS and up(depth) >= TWO_BYTES)


def stream(given: dense.Filters) -> NDArray[np.uint32]:
    """Return the weight stream of tw_mve_pair.h: one row per group of four filters, padded with filters of 0.

    A row has the biases, the weights and the rescaling factors, as words in the order in which the kernel reads them.
    """
    given = given.padded(-(-len(given.bias) // FILTERS) * FILTERS)
    count, taps = given.weights.shape
    fours = count // FILTERS
    weights = np.pad(given.weights, ((0, 0), (0, up(taps) - taps))).astype(np.int8)
    chunks = weights.reshape(fours, FILTERS, -1, LANES).swapaxes(1, 2).copy().view("<u4").reshape(fours, -1)
    shift = np.where(given.multiplier != 0, given.shift, 0)
    words = [wrapped(part).view(np.uint32).reshape(fours, -1) for part in (given.bias, given.multiplier, shift)]
    return np.concatenate([words[0], chunks, *words[1:]], axis=1)


def taps_scratch(graph: Graph, op: Op) -> int:
    """Return the scratch memory of tw_depthwise_conv_2d_s8_mve, in bytes."""
    return taps_scratch_of(*kernel_size(graph, op), graph.input(op).shape[3])


def taps_scratch_of(rows: int, cols: int, channels: int) -> int:
    """Return the scratch memory of tw_depthwise_conv_2d_s8_mve, in bytes, for a window of `rows` x `cols`.

    It holds a pixel of zero points, and an offset per tap; three words more let vectors write the last offsets.
    """
    return up(channels) + 4 * (rows * cols + 3)


def pixels_at_once(channels: int, stride: int) -> int:
    """Return how many neighbouring pixels tw_depthwise_conv_2d_s8_mve computes as one vector of 16 channels.

    That is 1 unless the horizontal stride is 1 and 16 channels are several whole pixels.
    """
    return LANES // channels if stride == 1 and LANES % channels == 0 else 1


def taps_stream(given: dense.Filters, stride: int) -> NDArray[np.uint32]:
    """Return the weight stream of tw_mve_taps.h: one row per block of 16 channels, padded with channels of 0.

    A row has the biases, the weights and the rescaling factors, as words in the order in which the kernel reads them. If the
    kernel computes several pixels as one vector, the filters are repeated for each pixel. `stride` is the horizontal stride.
    """
    again = pixels_at_once(len(given.bias), stride)
    repeated = dense.Filters(*(np.concatenate([part] * again) for part in given))
    padded = repeated.padded(up(len(repeated.bias)))
    blocks = len(padded.bias) // LANES
    weights = padded.weights.reshape(blocks, LANES, -1).swapaxes(1, 2).astype(np.int8).copy()
    shift = np.where(padded.multiplier != 0, padded.shift, 0)
    parts = (padded.bias, padded.multiplier, shift)
    words = [wrapped(part).view(np.uint32).reshape(blocks, LANES)[:, ORDER] for part in parts]
    return np.concatenate([words[0], weights.view("<u4").reshape(blocks, -1), *words[1:]], axis=1)


def words_of_taps(graph: Graph, op: Op) -> NDArray[np.uint32]:
    """Return the weight stream of tw_mve_taps.h for a depthwise convolution."""
    return taps_stream(dense.filters(graph, op), op.attrs["stride"][1])
