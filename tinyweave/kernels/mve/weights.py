"""What the kernels with the Arm MVE extension work with: their streams of weights, which networks they run, their scratch.

In: a convolution, a depthwise one, or a dense layer. Out: tables in the order of tw_mve_pair.h and of the kernels' headers.
Sums wrap as those of the portable kernels do, so all inputs, weights and biases are exact; shifts to the left are left to
those.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...ops.conv import groups, kernel_size, weights_zero
from ...ops.window import Windows
from .. import overlap_distance as distance
from ..dsp import dense

LANES = 16  # TW_MVE_LANES
FILTERS = 4  # of tw_mve_pair, at a time
ORDER = np.arange(LANES).reshape(4, 4).T[[0, 2, 1, 3]].ravel()  # of channels in tw_mve_taps.h
WINDOWS_BYTES, MOST_WINDOWS = 512, 16
SHIFTS = range(-31, 0)  # as VRSHL takes them; half away from zero needs one that is not 0


def up(count: int) -> int:
    """To whole vectors."""
    return -(-count // LANES) * LANES


def rescales_exactly(given: dense.Filters) -> bool:
    """Whether VQRDMULH and VRSHL give the outputs of all sums."""
    return bool(np.isin(given.shift[given.multiplier != 0], SHIFTS).all())


def wrapped(values: dense.Numbers) -> NDArray[np.int32]:
    """Modulo 2^32."""
    return (values & dense.WORD).astype(np.uint32).view(np.int32)


def multiplies(graph: Graph, op: Op) -> bool:
    """Whether the kernel for dense convolutions computes the op."""
    plain = groups(graph, op) == 1 and tuple(op.attrs["dilation"]) == (1, 1) and weights_zero(graph, op) == 0
    return plain and rescales_exactly(dense.filters(graph, op))


def scratch(graph: Graph, op: Op) -> int:
    """Bytes of the working memory of tw_conv_2d_s8_mve."""
    return scratch_of(*kernel_size(graph, op), graph.input(op).shape[3])


def scratch_of(rows: int, cols: int, depth: int) -> int:
    """Bytes: some windows."""
    return windows_at_once(rows, cols, depth) * up(rows * cols * depth)


def windows_at_once(rows: int, cols: int, depth: int) -> int:
    """How many windows are gathered before they are multiplied: of those that are small some, since a call has its costs."""
    return 2 if rows == cols == 1 else min(max(WINDOWS_BYTES // up(rows * cols * depth) & ~1, 2), MOST_WINDOWS)


@distance.of_windows
def distances(graph: Graph, op: Op, windows: Windows) -> int:
    """Some windows are gathered before any of their outputs is written. Those that are pixels are read again, two at a time,
    for every four outputs of both, in rows if the stride is not 1, but for the last ones whose vectors reach beyond them."""
    x, out, first = graph.input(op), graph.output(op), distance.firsts_of(graph, op, windows)
    (rows, cols), depth, units, stride = kernel_size(graph, op), x.shape[3], out.shape[3], tuple(op.attrs["stride"])
    inside = all((steps - 1) * step < size for steps, step, size in zip(out.shape[1:3], stride, x.shape[1:3], strict=True))
    are_pixels = rows == cols == 1 and all(window.pad == 0 for window in windows) and inside
    at_once, run = windows_at_once(rows, cols, depth), out.shape[2] if are_pixels and stride != (1, 1) else len(first)
    begins = (np.arange(0, len(first), run)[:, None] + np.arange(0, run, at_once)).ravel()
    ends = np.append(begins[1:], len(first)) * units
    read = np.minimum.reduceat(first, begins) * depth
    if are_pixels and units >= 2 * FILTERS:  # fewer are computed at once
        step = stride[1] * depth
        vectors_fit = ((run - 1) * step + depth - up(depth)) // step + 1
        again = read if vectors_fit >= run else np.where(begins % run < max(vectors_fit, 0) // 2 * 2, read, distance.NEVER)
        read, ends = np.stack((read, again), axis=1).ravel(), np.stack((ends - units % FILTERS - FILTERS, ends), axis=1).ravel()
    return distance.trailing(read, ends)


def stream(given: dense.Filters) -> NDArray[np.uint32]:
    """The words of tw_mve_pair.h; what is missing of the last four filters is 0."""
    given = given.padded(-(-len(given.bias) // FILTERS) * FILTERS)
    count, taps = given.weights.shape
    fours = count // FILTERS
    weights = np.pad(given.weights, ((0, 0), (0, up(taps) - taps))).astype(np.int8)
    chunks = weights.reshape(fours, FILTERS, -1, LANES).swapaxes(1, 2).copy().view("<u4").reshape(fours, -1)
    shift = np.where(given.multiplier != 0, given.shift, 0)
    words = [wrapped(part).view(np.uint32).reshape(fours, -1) for part in (given.bias, given.multiplier, shift)]
    return np.concatenate([words[0], chunks, *words[1:]], axis=1)


def takes_taps(graph: Graph, op: Op) -> bool:
    """Whether the kernel for depthwise convolutions computes the op."""
    if graph.input(op).shape[3] != graph.output(op).shape[3] or weights_zero(graph, op) != 0:
        return False
    given = dense.filters(graph, op)
    return adds_in_16_bits(given) and rescales_exactly(given)


def adds_in_16_bits(given: dense.Filters) -> bool:
    """Whether two products of any inputs add up in 16 bits."""
    return bool((given.weights > -128).all())


def taps_scratch(graph: Graph, op: Op) -> int:
    """Bytes of the working memory of tw_depthwise_conv_2d_s8_mve."""
    return taps_scratch_of(*kernel_size(graph, op), graph.input(op).shape[3])


def taps_scratch_of(rows: int, cols: int, channels: int) -> int:
    """Bytes: where the taps lie; zero points; a window of sixteen channels."""
    return (4 + LANES) * rows * cols + up(channels)


def pixels_at_once(channels: int, stride: int) -> int:
    """How many neighbouring pixels are sixteen channels."""
    return LANES // channels if stride == 1 and LANES % channels == 0 else 1


def taps_stream(given: dense.Filters, stride: int) -> NDArray[np.uint32]:
    """The words of tw_mve_taps.h; what is missing of the last sixteen channels is 0."""
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
    """The stream of a depthwise convolution."""
    return taps_stream(dense.filters(graph, op), op.attrs["stride"][1])


@distance.of_windows
def taps_distances(graph: Graph, op: Op, windows: Windows) -> int:
    """Sixteen channels of a pixel, or of some whole pixels, are read before they are written."""
    x, (h, w), first = graph.input(op), graph.output(op).shape[1:3], distance.firsts_of(graph, op, windows)
    c = x.shape[3]
    at_once = pixels_at_once(c, op.attrs["stride"][1])
    if at_once == 1:
        begins = np.arange(0, c, LANES)
        read = np.minimum(first[:, None] * c + begins, distance.NEVER)
        return distance.trailing(read.ravel(), (np.arange(len(first))[:, None] * c + np.minimum(begins + LANES, c)).ravel())
    # some pixels at once where all of their windows are inside
    extent, pad = windows[1].extent, windows[1].pad
    end = min(w, x.shape[2] - extent + pad + 1)
    together = range(pad, end - at_once + 1, at_once)
    cols = [*range(min(pad, w)), *together, *range(max(pad, pad + len(together) * at_once), w)]
    begins = (np.arange(0, h * w, w)[:, None] + cols).ravel()
    read = np.minimum(np.minimum.reduceat(first, begins) * c, distance.NEVER)
    return distance.trailing(read, np.append(begins[1:], h * w) * c)


def rescales_once(graph: Graph, op: Op) -> bool:
    """Whether the kernel for dense layers computes the op: the product's low word is rounded away."""
    return weights_zero(graph, op) == 0 and dense.rescales_once(dense.filters(graph, op))
