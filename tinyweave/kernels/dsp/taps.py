"""Weight streams, requirements and overlap distance of the depthwise kernels without scratch (tw_depthwise_lean_dsp.h).

The kernels for maps of one column take windows one column wide of any height, at any vertical stride.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...ops.conv import kernel_size
from ..requirements import Check, Requirement, horizontal_stride_is_1_or_2
from . import dense, depthwise

CHANNELS = 4  # computed at a time
OUTPUTS = 2  # of a row, computed at a time
SIZES = (3, 5, 7)  # of square windows; each size has a kernel, with a C function for strides 1 and 2
LOOP_BYTES = {3: 0, 5: 1600, 7: 2900}  # bytes of code per two outputs, counted in an emulated run; 0: fits a small cache


@cache
def window_is_square(size: int) -> Requirement:
    """Return the requirement that the window has `size` rows and columns."""

    def is_square(graph: Graph, op: Op) -> Check:
        """Check the size of the window."""
        rows, columns = kernel_size(graph, op)
        return Check(rows == columns == size, f"it is {rows}x{columns}")

    is_square.__doc__ = f"The window is {size}x{size}."
    return is_square


def map_is_a_column(graph: Graph, op: Op) -> Check:
    """Input, output and window are one column wide."""
    widths = graph.input(op).shape[2], graph.output(op).shape[2], kernel_size(graph, op)[1]
    return Check(widths == (1, 1, 1), "their widths are {}, {} and {}".format(*widths))


def output_is_one_pixel(graph: Graph, op: Op) -> Check:
    """The output has one row, and no window reaches into the padding."""
    rows, padding = graph.output(op).shape[1], op.attrs["padding"]
    return Check(rows == 1 and not dense.is_padded(graph, op), f"the output has {rows} rows, and the padding is {padding}")


def of_size(size: int) -> tuple[Requirement, ...]:
    """Return the requirements of the kernel for windows of `size` x `size`."""
    return (*depthwise.PLAIN, window_is_square(size), horizontal_stride_is_1_or_2, *dense.RESCALED)


COLUMN = (*depthwise.PLAIN, map_is_a_column, *dense.RESCALED)
PIXEL = (*COLUMN, output_is_one_pixel)


def function(graph: Graph, op: Op) -> str:
    """Return the name of the C function that computes a row of outputs for the op's window size and stride."""
    return f"tw_taps_{kernel_size(graph, op)[0]}_{op.attrs['stride'][1]}"


def begins(channels: int) -> NDArray[np.int64]:
    """Return the first channel of each block of four channels. The last block ends at the last channel, so it may overlap."""
    return np.minimum(np.arange(0, channels, CHANNELS), channels - CHANNELS)


def stream(given: dense.Filters) -> dense.Words:
    """Return the weight stream of tw_depthwise_lean_dsp.h: biases, weights and factors per block of four channels."""
    of_fours = begins(len(given.bias))[:, None] + np.arange(CHANNELS)
    doubled = (2 * given.weights[of_fours]).transpose(0, 2, 1)
    lanes = (doubled[..., :2] & 0xFFFF) | (doubled[..., 2:] & 0xFFFF) << 16
    rescales = np.stack((given.multiplier, given.powers()), axis=1)[of_fours]
    return dense.joined(len(of_fours), 2 * given.bias[of_fours], lanes, rescales)


def runs(size: int, out_size: int, kernel: int, stride: int, pad: int, *, is_inside: bool) -> int:
    """Count how often tw_depthwise_lean_dsp.h computes the addresses of window taps in a row of outputs.

    The addresses are computed once for all successive pairs of outputs whose windows are inside the map, once for each other
    pair, and once for a single last output. Sizes are those along the row; `is_inside` says whether all rows of the windows
    are inside the map.
    """
    count, at = 0, 0
    while at < out_size:
        left, pairs, both = at * stride - pad, 1, at + 1 < out_size
        if both and is_inside and left >= 0:
            pairs = max(1, min((size - kernel - stride - left) // (2 * stride) + 1, (out_size - at) // OUTPUTS))
        at += OUTPUTS * pairs if both else 1
        count += 1
    return count


def padding(graph: Graph, op: Op) -> int:
    """Return the bytes of a pixel of zero points that the kernels read in place of padding, 0 if no window needs it."""
    return graph.input(op).shape[3] if dense.is_padded(graph, op) else 0


def stream_bytes(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of tw_depthwise_lean_dsp.h for a depthwise convolution."""
    channels, (rows, cols) = graph.input(op).shape[3], kernel_size(graph, op)
    return 4 * -(-channels // CHANNELS) * (3 * CHANNELS + 2 * rows * cols)


def flash(graph: Graph, op: Op) -> int:
    """Return the bytes of a kernel's constants: its weight stream, and a pixel of zero points to read as padding."""
    return stream_bytes(graph, op) + padding(graph, op)


def column_begins(graph: Graph, op: Op) -> NDArray[np.int64]:
    """Return the first output of each step of the kernel for maps of one column.

    At a vertical stride of 1, a step computes two outputs whose windows are inside the map. All other steps compute one output.
    """
    (height, _), (rows, _), (taps, _), (stride, _), (above, _) = depthwise.whole(graph, op)
    tops = np.arange(rows) * stride - above
    inside = np.flatnonzero((tops >= 0) & (tops + taps <= height))
    second = inside[1 : 2 * (len(inside) // 2) : 2] if stride == 1 else inside[:0]
    return np.setdiff1d(np.arange(rows), second)
