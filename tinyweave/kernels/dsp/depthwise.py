"""Work out for tw_depthwise_conv_2d_s8_dsp its stream of weights, blocks of columns, scratch and overlap distance.

In: a depthwise convolution without depth multiplier. Out: as the header of the kernel has it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...ir import Graph, Op
from ...ops.conv import kernel_size, weights_zero
from ...ops.window import Windows
from .. import overlap_distance as distance
from . import dense

LINE_WORDS = 16  # TW_LINE_WORDS
PLANES = 4  # channels at a time
AT_ONCE = 4  # sums at a time
ITS_OWN = (3, 5, 7)  # widths of kernels that have a function for each stride; others, of stride 1, share one
MOST_TAPS = 7  # TW_LINE_MOST_TAPS: rows of kernels that those functions take
WIDEST = 17
COLUMN_BLOCK = 4  # outputs of a column at a time: more would need as many more bytes between output and input


class Plane(NamedTuple):
    """Sizes, (h, w) each; a map of one column, whose bytes lie as those of a row do, is taken for one."""

    size: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]


def is_column(graph: Graph, op: Op) -> bool:
    """Whether all lies in one column."""
    return graph.input(op).shape[2] == graph.output(op).shape[2] == kernel_size(graph, op)[1] == 1


def whole(graph: Graph, op: Op) -> Plane:
    """The map as it is."""
    x, out, ((top, _), (left, _)) = graph.input(op), graph.output(op), op.attrs["padding"]
    return Plane(x.shape[1:3], out.shape[1:3], kernel_size(graph, op), op.attrs["stride"], (top, left))


def plane(graph: Graph, op: Op) -> Plane:
    """The map as the kernel takes it."""
    found = whole(graph, op)
    return Plane(*((w, h) for h, w in found)) if is_column(graph, op) else found


def taps(width: int) -> int:
    """The width of a kernel with the zeros that make it odd and at least 3."""
    return max(width | 1, ITS_OWN[0])


def applies(graph: Graph, op: Op) -> bool:
    """Whether the kernel computes the op, and exactly."""
    x, out, shape = graph.input(op), graph.output(op), plane(graph, op)
    plain = tuple(op.attrs["dilation"]) == (1, 1) and x.shape[3] == out.shape[3] >= PLANES and weights_zero(graph, op) == 0
    return plain and fits(*shape.kernel, shape.stride[1]) and dense.rescales_exactly(dense.filters(graph, op))


def fits(rows: int, width: int, stride: int) -> bool:
    """Whether there is a function for such lines."""
    return width <= WIDEST if stride == 1 else stride == 2 and _has_its_own(rows, width)


def _has_its_own(rows: int, width: int) -> bool:
    return rows <= MOST_TAPS and taps(width) in ITS_OWN


def is_column_for_it(graph: Graph, op: Op) -> bool:
    return is_column(graph, op) and applies(graph, op)


def is_three_by_three(graph: Graph, op: Op) -> bool:
    """Whether the kernel computes the op, and its windows have three rows and columns."""
    return kernel_size(graph, op) == (3, 3) and applies(graph, op)


def _words(count: int, width: int, stride: int) -> int:
    """Words of a line from which `count` sums are computed, some at a time."""
    return ((-(-count // AT_ONCE) * AT_ONCE - 1) * stride + taps(width) + 1) // 2


def block(columns: int, width: int, stride: int) -> int:
    """Output columns at a time: as many as a line allows, the same for all but the last."""
    most = next(n for n in range(2 * LINE_WORDS, 0, -AT_ONCE) if _words(n, width, stride) <= LINE_WORDS)
    return -(-columns // -(-columns // most))


def columns_at_a_time(graph: Graph, op: Op) -> int:
    """The block of an op."""
    shape = plane(graph, op)
    found = block(shape.out[1], shape.kernel[1], shape.stride[1])
    return min(found, COLUMN_BLOCK) if is_column(graph, op) else found


def rows_at_a_time(graph: Graph, op: Op) -> int:
    """Output rows at a time, the same for all but the last: of those that need twice the lines of one as many as there are."""
    shape = plane(graph, op)
    most = shape.kernel[0] // shape.stride[0] + 1
    return -(-shape.out[0] // -(-shape.out[0] // most))


def scratch(graph: Graph, op: Op) -> int:
    """Bytes of the kernel's working memory."""
    shape = plane(graph, op)
    return scratch_of(shape.kernel, shape.stride, columns_at_a_time(graph, op), rows_at_a_time(graph, op))


def scratch_of(kernel: tuple[int, int], stride: tuple[int, int], columns: int, rows: int) -> int:
    """Bytes: four lines for each row of the input that a strip needs, but what the last one leaves over."""
    lines = (rows - 1) * stride[0] + kernel[0]
    return 4 * ((lines * PLANES - 1) * LINE_WORDS + _words(columns, kernel[1], stride[1]))


def function(rows: int, width: int, stride: int) -> str:
    """The C function that computes a line."""
    odd = taps(width)
    if not _has_its_own(rows, width):
        return "tw_line_any_1"
    name = f"tw_line_{odd}_{stride}"
    return f"{name}_rows_3" if (rows, odd) == (3, 3) else name


def stream(given: dense.Filters, rows: int, stride: int) -> dense.Words:
    """The words of tw_line.h."""
    count = len(given.bias)
    weights = 2 * given.weights.reshape(count, rows, -1)
    width = weights.shape[2]
    weights = np.pad(weights, ((0, 0), (0, 0), (0, taps(width) + 1 - width)))
    first, second = weights[..., :-1], weights[..., 1:]
    lanes = (first & 0xFFFF) | (second & 0xFFFF) << 16
    words = lanes[..., :-1] if stride == 1 else lanes[..., ::2]
    return dense.joined(count, 2 * given.bias, words, np.stack((given.multiplier, given.powers()), axis=1))


def words(graph: Graph, op: Op) -> dense.Words:
    """The stream of an op."""
    shape = plane(graph, op)
    return stream(dense.filters(graph, op), shape.kernel[0], shape.stride[1])


def flash(graph: Graph, op: Op) -> int:
    """Bytes of these words."""
    shape, channels = plane(graph, op), graph.input(op).shape[3]
    width = taps(shape.kernel[1])
    return 4 * channels * (3 + shape.kernel[0] * (width - 1 if shape.stride[1] == 1 else (width + 1) // 2))


@distance.of_windows
def distances(graph: Graph, op: Op, windows: Windows) -> int:
    """Strip by strip, block by block, four channels are read before they are written; the last four begin at c - 4."""
    (h, w), (out_h, out_w), _, stride, pad = plane(graph, op)
    c, columns, rows = graph.input(op).shape[3], columns_at_a_time(graph, op), rows_at_a_time(graph, op)
    tops, begins = np.arange(0, out_h, rows), np.arange(0, out_w, columns)
    channel = np.minimum(np.arange(0, c, PLANES), c - PLANES)
    first = distance.first_inside(tops * stride[0] - pad[0], 1, h)[:, None] * w + np.maximum(begins * stride[1] - pad[1], 0)
    last = np.minimum(tops + rows, out_h)[:, None] * out_w - out_w + np.minimum(begins + columns, out_w) - 1
    read, written = (pixel[..., None] * c + channel for pixel in (first, last))
    return distance.trailing(read.ravel(), np.maximum.accumulate(written.ravel() + PLANES))
