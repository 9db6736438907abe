"""Weight streams, scratch and overlap distance of the depthwise kernels of tw_line.h.

A line holds up to 32 neighbouring columns of one channel and row as 16-bit values. The kernels copy the input to lines, then
compute four channels of a block (some output columns) and a strip (some output rows) at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...ir import Graph, Op
from ...ops.conv import kernel_size
from ..requirements import Check, depth_multiplier_is_1, dilation_is_1, has_4_output_channels, window_is_3x3
from . import dense

LINE_WORDS = 16  # TW_LINE_WORDS
PLANES = 4  # channels computed at a time
AT_ONCE = 4  # sums of a row computed at a time
ITS_OWN = (3, 5, 7)  # window widths that have a C function per stride; all others share a function for stride 1
MOST_TAPS = 7  # most rows of a window that the functions of a width take: TW_LINE_MOST_TAPS
WIDEST = 17  # columns of a window
MOST_OUTLIERS = 8  # at most 1 filter in 8: an outlier takes up to three times as long as a filter of the portable kernel
IN_PAIRS = "tw_line_3_1_rows_3"  # the C function that computes two output rows at a time at a vertical stride of 1


class Plane(NamedTuple):
    """The sizes of a convolution, depthwise or not, as (h, w) pairs."""

    size: tuple[int, int]  # of the input
    out: tuple[int, int]  # of the output
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]  # above and to the left


def whole(graph: Graph, op: Op) -> Plane:
    """Return the sizes of a whole convolution, depthwise or not, as the graph states them."""
    x, out, ((top, _), (left, _)) = graph.input(op), graph.output(op), op.attrs["padding"]
    return Plane(
        (x.shape[1], x.shape[2]), (out.shape[1], out.shape[2]), kernel_size(graph, op), op.attrs["stride"], (top, left)
    )


def taps(width: int) -> int:
    """Return the width of a window, padded with zeros to be odd and at least 3."""
    return max(width | 1, ITS_OWN[0])


def fits(rows: int, width: int, stride: int) -> bool:
    """Return whether there is a C function for windows of `rows` x `width` at a horizontal stride."""
    return width <= WIDEST if stride == 1 else stride == 2 and _has_its_own(rows, width)


def _has_its_own(rows: int, width: int) -> bool:
    """Return whether windows of `rows` x `width` have a C function for their width; others share a function for any width."""
    return rows <= MOST_TAPS and taps(width) in ITS_OWN


def has_function_for_window(graph: Graph, op: Op) -> Check:
    """The window is at most 17 wide at stride 1, or at most 7x7 at a horizontal stride of 2."""
    shape = whole(graph, op)
    (rows, width), stride = shape.kernel, shape.stride[1]
    return Check(fits(rows, width, stride), f"it is {rows}x{width} at stride {stride}")


def has_few_outliers(graph: Graph, op: Op) -> Check:
    """At most one filter in eight has a rescale shift outside of -31 to -2, or a sum, with bias, that can reach +-2^30."""
    count, filters = dense.outlier_count(graph, op), graph.output(op).shape[3]
    return Check(MOST_OUTLIERS * count <= filters, f"{count} of {filters} filters have one")


PLAIN = (dilation_is_1, depth_multiplier_is_1, has_4_output_channels)
LINES = (*PLAIN, has_function_for_window, *dense.RESCALED)
WITH_OUTLIERS = (*PLAIN, has_function_for_window, has_few_outliers)
THREE_BY_THREE = (window_is_3x3, *LINES)


def _words(count: int, width: int, stride: int) -> int:
    """Return how many words of a line (16-bit copy of an input row) hold the inputs of `count` outputs, two columns per word.

    `count` is rounded up to a multiple of four.
    """
    return ((-(-count // AT_ONCE) * AT_ONCE - 1) * stride + taps(width) + 1) // 2


def block(columns: int, width: int, stride: int) -> int:
    """Return the output columns that are computed at a time (a block); the last block of a row may have fewer.

    The number of blocks is the smallest for which a block fits into a line of LINE_WORDS words. The columns are evenly
    distributed over the blocks, rounded up to multiples of four columns, or of two columns for windows of three columns.
    """
    most = next(n for n in range(2 * LINE_WORDS, 0, -AT_ONCE) if _words(n, width, stride) <= LINE_WORDS)
    even, at_once = -(-columns // -(-columns // most)), AT_ONCE if taps(width) > ITS_OWN[0] else AT_ONCE // 2
    return min(columns, -(-even // at_once) * at_once)


def columns_at_a_time(graph: Graph, op: Op) -> int:
    """Return how many output columns of a row the kernels of tw_line.h compute at a time (a block) for this convolution."""
    shape = whole(graph, op)
    return block(shape.out[1], shape.kernel[1], shape.stride[1])


def rows_at_a_time(graph: Graph, op: Op) -> int:
    """Return the output rows that are computed at a time (a strip); the last strip may have fewer.

    A strip of input rows is first copied to lines of 16-bit values in scratch. It needs at most about twice as many lines as
    one output row would. If two output rows are computed at a time, strips have an even number of rows.
    """
    shape = whole(graph, op)
    most, height = shape.kernel[0] // shape.stride[0] + 1, shape.out[0]
    rows = -(-height // -(-height // most))
    return rows + rows % 2 if _takes_pairs(shape) and rows < height else rows


def rows_in_pairs(graph: Graph, op: Op) -> bool:
    """Return whether the kernel computes output rows in pairs, in all strips (groups of rows) but perhaps the last."""
    return _takes_pairs(whole(graph, op)) and rows_at_a_time(graph, op) % 2 == 0


def _takes_pairs(shape: Plane) -> bool:
    return shape.stride[0] == 1 and function(*shape.kernel, shape.stride[1]) == IN_PAIRS


def scratch(graph: Graph, op: Op) -> int:
    """Return the scratch memory of the depthwise kernels of tw_line.h, in bytes."""
    shape = whole(graph, op)
    return scratch_of(shape.kernel, shape.stride, columns_at_a_time(graph, op), rows_at_a_time(graph, op))


def scratch_of(kernel: tuple[int, int], stride: tuple[int, int], columns: int, rows: int) -> int:
    """Return the scratch memory of the depthwise kernels of tw_line.h, in bytes: four lines per input row of a strip.

    A line is a row of one channel as 16-bit values. Of the last line, only the words that are read are counted. `columns` and
    `rows` are those of the output that are computed at a time.
    """
    lines = (rows - 1) * stride[0] + kernel[0]
    return 4 * ((lines * PLANES - 1) * LINE_WORDS + _words(columns, kernel[1], stride[1]))


def function(rows: int, width: int, stride: int) -> str:
    """Return the name of the C function for a block of outputs, for windows of `rows` x `width` at a horizontal `stride`."""
    odd = taps(width)
    if not _has_its_own(rows, width):
        return "tw_line_any_1"
    name = f"tw_line_{odd}_{stride}"
    return f"{name}_rows_3" if (rows, odd) == (3, 3) else name


def stream(given: dense.Filters, rows: int, stride: int) -> dense.Words:
    """Return the weight stream of tw_line.h, one row per channel, for a window of `rows` rows and a horizontal stride.

    A row has the bias, the weights and the rescaling factors, as words in the order in which the kernel reads them.
    """
    count = len(given.bias)
    weights = 2 * given.weights.reshape(count, rows, -1)
    width = weights.shape[2]
    weights = np.pad(weights, ((0, 0), (0, 0), (0, taps(width) + 1 - width)))
    first, second = weights[..., :-1], weights[..., 1:]
    lanes = (first & 0xFFFF) | (second & 0xFFFF) << 16
    words = lanes[..., :-1] if stride == 1 else lanes[..., ::2]
    return dense.joined(count, 2 * given.bias, words, np.stack((given.multiplier, given.powers()), axis=1))


def words(graph: Graph, op: Op) -> dense.Words:
    """Return the weight stream of tw_line.h for a depthwise convolution."""
    shape = whole(graph, op)
    return stream(dense.filters(graph, op), shape.kernel[0], shape.stride[1])


def flash(graph: Graph, op: Op) -> int:
    """Return the bytes of a depthwise convolution's weight stream: weights, biases and rescaling, without the outliers."""
    shape, channels = whole(graph, op), graph.input(op).shape[3]
    width = taps(shape.kernel[1])
    words = 3 + shape.kernel[0] * (width - 1 if shape.stride[1] == 1 else (width + 1) // 2)
    return 4 * channels * words


def words_with_outliers(graph: Graph, op: Op) -> dense.Words:
    """Return the weight stream of a depthwise convolution with zeros in place of outliers, then the table of outliers.

    An outlier is a filter that the fast arithmetic cannot compute exactly; the kernel computes it from the table.
    """
    shape = whole(graph, op)
    return stream_with_outliers(dense.filters(graph, op), shape.kernel[0], shape.stride[1])


def stream_with_outliers(given: dense.Filters, rows: int, across: int) -> dense.Words:
    """Return the weight stream of tw_line.h with zeros in place of outliers, followed by the table of outliers.

    An outlier is a filter that fails a requirement of the fast arithmetic. `across` is the horizontal stride.
    """
    return dense.followed_by_outliers(given, dense.RESCALES_EXACTLY, lambda regular: stream(regular, rows, across), range(4))


def flash_with_outliers(graph: Graph, op: Op) -> int:
    """Return the bytes of a depthwise convolution's weight stream, and of the table of filters computed by slow code."""
    return flash(graph, op) + dense.outlier_bytes(graph, op)
