"""Streams, blocks, scratch and overlap distance of the depthwise kernels with lines of columns (tw_line.h)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...ir import Graph, Op
from ...ops.conv import kernel_size
from ...ops.window import Windows
from .. import overlap_distance as distance
from ..requirements import (
    Check,
    depth_multiplier_is_1,
    dilation_is_1,
    has_4_output_channels,
    window_is_3x3,
)
from . import dense

LINE_WORDS = 16  # TW_LINE_WORDS
PLANES = 4  # channels at a time
AT_ONCE = 4  # sums at a time
ITS_OWN = (3, 5, 7)  # window widths with a C function per stride; all others share one at stride 1
MOST_TAPS = 7  # TW_LINE_MOST_TAPS: rows of a window that those functions take
WIDEST = 17
MOST_OUTLIERS = 8  # one filter in so many: an outlier takes up to three times as long as a filter of the portable kernel
COLUMN_BLOCK = 4  # outputs of a column at a time: the overlap distance grows with it


class Plane(NamedTuple):
    """Sizes of a depthwise convolution as (h, w) pairs."""

    size: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]


def is_column(graph: Graph, op: Op) -> bool:
    """Return whether input, output and window are one column wide."""
    return graph.input(op).shape[2] == graph.output(op).shape[2] == kernel_size(graph, op)[1] == 1


def whole(graph: Graph, op: Op) -> Plane:
    """Return the sizes of a depthwise convolution as the graph states them."""
    x, out, ((top, _), (left, _)) = graph.input(op), graph.output(op), op.attrs["padding"]
    return Plane(
        (x.shape[1], x.shape[2]), (out.shape[1], out.shape[2]), kernel_size(graph, op), op.attrs["stride"], (top, left)
    )


def plane(graph: Graph, op: Op) -> Plane:
    """Return the sizes as the kernel sees them: a map of one column is a row, which has the same bytes."""
    found = whole(graph, op)
    return Plane(*((w, h) for h, w in found)) if is_column(graph, op) else found


def taps(width: int) -> int:
    """Return the width of a window, padded with zeros to be odd and at least 3."""
    return max(width | 1, ITS_OWN[0])


def fits(rows: int, width: int, stride: int) -> bool:
    """Return whether there is a C function for windows of this size and stride."""
    return width <= WIDEST if stride == 1 else stride == 2 and _has_its_own(rows, width)


def _has_its_own(rows: int, width: int) -> bool:
    return rows <= MOST_TAPS and taps(width) in ITS_OWN


def has_function_for_window(graph: Graph, op: Op) -> Check:
    """The window is at most 17 wide at stride 1, or at most 7x7 at a horizontal stride of 2."""
    shape = plane(graph, op)
    (rows, width), stride = shape.kernel, shape.stride[1]
    return Check(fits(rows, width, stride), f"it is {rows}x{width} at stride {stride}")


def map_is_a_column(graph: Graph, op: Op) -> Check:
    """Input, output and window are one column wide."""
    widths = graph.input(op).shape[2], graph.output(op).shape[2], kernel_size(graph, op)[1]
    return Check(is_column(graph, op), "their widths are {}, {} and {}".format(*widths))


def has_few_outliers(graph: Graph, op: Op) -> Check:
    """At most one filter in eight has a rescale shift outside of -31 to -2, or a sum of 2^30 or more in magnitude."""
    count, filters = dense.outlier_count(graph, op), graph.output(op).shape[3]
    return Check(MOST_OUTLIERS * count <= filters, f"{count} of {filters} filters have one")


PLAIN = (dilation_is_1, depth_multiplier_is_1, has_4_output_channels)
LINES = (*PLAIN, has_function_for_window, *dense.RESCALED)
WITH_OUTLIERS = (*PLAIN, has_function_for_window, has_few_outliers)
COLUMN = (map_is_a_column, *LINES)
THREE_BY_THREE = (window_is_3x3, *LINES)


def _words(count: int, width: int, stride: int) -> int:
    """Return the words of a line that `count` sums need, rounded up to whole fours of sums."""
    return ((-(-count // AT_ONCE) * AT_ONCE - 1) * stride + taps(width) + 1) // 2


def block(columns: int, width: int, stride: int) -> int:
    """Return the output columns computed at a time, called a block: as many as fit a line, the last block may have fewer."""
    most = next(n for n in range(2 * LINE_WORDS, 0, -AT_ONCE) if _words(n, width, stride) <= LINE_WORDS)
    return -(-columns // -(-columns // most))


def columns_at_a_time(graph: Graph, op: Op) -> int:
    """Return the output columns of a block of an op."""
    shape = plane(graph, op)
    found = block(shape.out[1], shape.kernel[1], shape.stride[1])
    return min(found, COLUMN_BLOCK) if is_column(graph, op) else found


def rows_at_a_time(graph: Graph, op: Op) -> int:
    """Return the output rows computed at a time, called a strip: the same for all strips but the last.

    A strip needs at most about twice the lines of a single output row.
    """
    shape = plane(graph, op)
    most = shape.kernel[0] // shape.stride[0] + 1
    return -(-shape.out[0] // -(-shape.out[0] // most))


def scratch(graph: Graph, op: Op) -> int:
    """Return the bytes of the kernel's scratch."""
    shape = plane(graph, op)
    return scratch_of(shape.kernel, shape.stride, columns_at_a_time(graph, op), rows_at_a_time(graph, op))


def scratch_of(kernel: tuple[int, int], stride: tuple[int, int], columns: int, rows: int) -> int:
    """Return the bytes of four lines per input row of a strip; of the last line only the words that are read."""
    lines = (rows - 1) * stride[0] + kernel[0]
    return 4 * ((lines * PLANES - 1) * LINE_WORDS + _words(columns, kernel[1], stride[1]))


def function(rows: int, width: int, stride: int) -> str:
    """Return the name of the C function that computes a line."""
    odd = taps(width)
    if not _has_its_own(rows, width):
        return "tw_line_any_1"
    name = f"tw_line_{odd}_{stride}"
    return f"{name}_rows_3" if (rows, odd) == (3, 3) else name


def stream(given: dense.Filters, rows: int, stride: int) -> dense.Words:
    """Return the weight stream of tw_line.h, a row per channel, for windows of `rows` rows and a horizontal stride."""
    count = len(given.bias)
    weights = 2 * given.weights.reshape(count, rows, -1)
    width = weights.shape[2]
    weights = np.pad(weights, ((0, 0), (0, 0), (0, taps(width) + 1 - width)))
    first, second = weights[..., :-1], weights[..., 1:]
    lanes = (first & 0xFFFF) | (second & 0xFFFF) << 16
    words = lanes[..., :-1] if stride == 1 else lanes[..., ::2]
    return dense.joined(count, 2 * given.bias, words, np.stack((given.multiplier, given.powers()), axis=1))


def words(graph: Graph, op: Op) -> dense.Words:
    """Return the weight stream of a depthwise convolution."""
    shape = plane(graph, op)
    return stream(dense.filters(graph, op), shape.kernel[0], shape.stride[1])


def flash(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream of a depthwise convolution."""
    shape, channels = plane(graph, op), graph.input(op).shape[3]
    width = taps(shape.kernel[1])
    words = 3 + shape.kernel[0] * (width - 1 if shape.stride[1] == 1 else (width + 1) // 2)
    return 4 * channels * words


def words_with_outliers(graph: Graph, op: Op) -> dense.Words:
    """Return the weight stream of a depthwise convolution, in which outliers are zeros, and their table."""
    shape = plane(graph, op)
    return stream_with_outliers(dense.filters(graph, op), shape.kernel[0], shape.stride[1])


def stream_with_outliers(given: dense.Filters, rows: int, across: int) -> dense.Words:
    """Return the weight stream of tw_line.h, in which outliers are zeros, and their table. `across`: horizontal stride."""
    return dense.followed_by_outliers(given, dense.RESCALES_EXACTLY, lambda regular: stream(regular, rows, across), range(4))


def flash_with_outliers(graph: Graph, op: Op) -> int:
    """Return the bytes of the weight stream and of the outliers of a depthwise convolution."""
    return flash(graph, op) + dense.outlier_bytes(graph, op)


@distance.of_windows
def distances(graph: Graph, op: Op, windows: Windows) -> int:
    """Return the overlap distance in bytes. Four channels of a strip of rows and a block of columns are read, then written."""
    (h, w), (out_h, out_w), _, stride, pad = plane(graph, op)
    c, columns, rows = graph.input(op).shape[3], columns_at_a_time(graph, op), rows_at_a_time(graph, op)
    tops, begins = np.arange(0, out_h, rows), np.arange(0, out_w, columns)
    channel = np.minimum(np.arange(0, c, PLANES), c - PLANES)
    first = distance.first_inside(tops * stride[0] - pad[0], 1, h)[:, None] * w + np.maximum(begins * stride[1] - pad[1], 0)
    last = np.minimum(tops + rows, out_h)[:, None] * out_w - out_w + np.minimum(begins + columns, out_w) - 1
    read, written = (pixel[..., None] * c + channel for pixel in (first, last))
    return distance.trailing(read.ravel(), np.maximum.accumulate(written.ravel() + PLANES))
