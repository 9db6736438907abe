"""Work out for the depthwise kernels without scratch their stream of weights and overlap distance.

In: a depthwise convolution without depth multiplier. Out: as tw_depthwise_lean_dsp.h and tw_taps.h have it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...ops.conv import kernel_size, weights_zero
from ...ops.window import Windows
from .. import overlap_distance as distance
from . import dense, depthwise

CHANNELS = 4  # at a time
OUTPUTS = 2  # of a row at a time
SIZES = (3, 5, 7)  # of windows, each with a kernel of its own and a function for each of STRIDES
LOOP_BYTES = {3: 0, 5: 1600, 7: 2900}  # of code for two outputs of a row, counted in an emulated run; 0: a small cache holds it
STRIDES = (1, 2)


def applies(graph: Graph, op: Op, size: int) -> bool:
    """Whether the kernel for windows of this size computes the op, and exactly."""
    x, out, (rows, cols) = graph.input(op), graph.output(op), kernel_size(graph, op)
    plain = tuple(op.attrs["dilation"]) == (1, 1) and x.shape[3] == out.shape[3] >= CHANNELS and weights_zero(graph, op) == 0
    fits = rows == cols == size and op.attrs["stride"][1] in STRIDES
    return plain and fits and dense.rescales_exactly(dense.filters(graph, op))


def is_for_a_pixel(graph: Graph, op: Op) -> bool:
    """Whether the kernel from a column to one pixel computes the op, and exactly."""
    x, out = graph.input(op), graph.output(op)
    plain = tuple(op.attrs["dilation"]) == (1, 1) and x.shape[3] == out.shape[3] >= CHANNELS and weights_zero(graph, op) == 0
    is_one = depthwise.is_column(graph, op) and (x.shape[0], out.shape[1]) == (1, 1) and not dense.is_padded(graph, op)
    return plain and is_one and dense.rescales_exactly(dense.filters(graph, op))


def function(graph: Graph, op: Op) -> str:
    """The C function that computes outputs of a row."""
    return f"tw_taps_{kernel_size(graph, op)[0]}_{op.attrs['stride'][1]}"


def begins(channels: int) -> NDArray[np.int64]:
    """Where each four channels begin, the last of them at the fourth from the end."""
    return np.minimum(np.arange(0, channels, CHANNELS), channels - CHANNELS)


def stream(given: dense.Filters) -> dense.Words:
    """The words of tw_taps.h, a row for each four channels."""
    of_fours = begins(len(given.bias))[:, None] + np.arange(CHANNELS)
    doubled = (2 * given.weights[of_fours]).transpose(0, 2, 1)
    lanes = (doubled[..., :2] & 0xFFFF) | (doubled[..., 2:] & 0xFFFF) << 16
    rescales = np.stack((given.multiplier, given.powers()), axis=1)[of_fours]
    return dense.joined(len(of_fours), 2 * given.bias[of_fours], lanes, rescales)


def runs(size: int, out_size: int, kernel: int, stride: int, pad: int, *, is_inside: bool) -> int:
    """How often addresses of taps are worked out for a row of outputs: once for all pairs whose windows lie inside the map,
    else for each pair. is_inside: whether the rows of the windows are inside."""
    count, at = 0, 0
    while at < out_size:
        left, pairs, both = at * stride - pad, 1, at + 1 < out_size
        if both and is_inside and left >= 0:
            pairs = max(1, min((size - kernel - stride - left) // (2 * stride) + 1, (out_size - at) // OUTPUTS))
        at += OUTPUTS * pairs if both else 1
        count += 1
    return count


def padding(graph: Graph, op: Op) -> int:
    """Bytes of the input's zero point that windows outside the map read instead of it; 0 where there are none."""
    return graph.input(op).shape[3] if dense.is_padded(graph, op) else 0


def flash(graph: Graph, op: Op) -> int:
    """Bytes of these words and of the padding."""
    channels, (rows, cols) = graph.input(op).shape[3], kernel_size(graph, op)
    return 4 * -(-channels // CHANNELS) * (3 * CHANNELS + 2 * rows * cols) + padding(graph, op)


@distance.of_windows
def distances(graph: Graph, op: Op, windows: Windows) -> int:
    """Of two outputs of a row, or of the one of a pixel, four channels are read before they are written."""
    (h, w), (out_h, out_w), _, (down, across), (top, left) = depthwise.whole(graph, op)
    c = graph.input(op).shape[3]
    channel = begins(c)
    cols = np.arange(0, out_w, OUTPUTS)
    first = distance.first_inside(np.arange(out_h) * down - top, 1, h)[:, None] * w + np.maximum(cols * across - left, 0)
    last = np.arange(out_h)[:, None] * out_w + np.minimum(cols + OUTPUTS, out_w) - 1
    read, written = (pixel[..., None] * c + channel for pixel in (first, last))
    return distance.trailing(read.ravel(), np.maximum.accumulate(written.ravel() + CHANNELS))
