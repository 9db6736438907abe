"""What tw_depthwise_conv_2d_s8_dsp works with: its stream of weights, its blocks of columns, its scratch, and its lag.

In: a depthwise convolution without depth multiplier. Out: as the header of the kernel has it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from ..ops import SPECS
from ..ops.conv import kernel_size
from . import lag, pairs

LINE_WORDS = 16  # TW_LINE_WORDS
PLANES = 4  # channels at a time
AT_ONCE = 4  # sums at a time
WIDTHS, STRIDES = (3, 5, 7), (1, 2)  # of the kernels that have a function


def applies(graph: Graph, op: Op) -> bool:
    """Whether the kernel computes the op, and exactly."""
    x, out, width, stride = graph.input(op), graph.output(op), kernel_size(graph, op)[1], op.attrs["stride"][1]
    plain = tuple(op.attrs["dilation"]) == (1, 1) and x.shape[3] == out.shape[3] >= PLANES
    return plain and width in WIDTHS and stride in STRIDES and pairs.rescales_exactly(pairs.filters(graph, op))


def _words(count: int, width: int, stride: int) -> int:
    """Words of a line from which `count` sums are computed, some at a time."""
    return ((-(-count // AT_ONCE) * AT_ONCE - 1) * stride + width + 1) // 2


def block(columns: int, width: int, stride: int) -> int:
    """Output columns at a time: as many as a line allows, the same for all but the last."""
    most = next(n for n in range(2 * LINE_WORDS, 0, -AT_ONCE) if _words(n, width, stride) <= LINE_WORDS)
    return -(-columns // -(-columns // most))


def scratch(graph: Graph, op: Op) -> int:
    """Bytes of the kernel's working memory."""
    (rows, width), stride = kernel_size(graph, op), op.attrs["stride"][1]
    return scratch_of(rows, width, stride, block(graph.output(op).shape[2], width, stride))


def scratch_of(rows: int, width: int, stride: int, columns: int) -> int:
    """Bytes: four lines for each row of the kernel but what the last one leaves over."""
    return 4 * ((rows * PLANES - 1) * LINE_WORDS + _words(columns, width, stride))


def function(rows: int, width: int, stride: int) -> str:
    """The C function that computes a line."""
    name = f"tw_line_{width}_{stride}"
    return f"{name}_rows_3" if (rows, width) == (3, 3) else name


def stream(given: pairs.Filters, rows: int, stride: int) -> NDArray[np.uint32]:
    """The words of tw_depthwise_dsp."""
    count = len(given.bias)
    weights = 2 * np.pad(given.weights.reshape(count, rows, -1), ((0, 0), (0, 0), (0, 1)))
    first, second = weights[..., :-1], weights[..., 1:]
    lanes = (first & 0xFFFF) | (second & 0xFFFF) << 16
    words = lanes[..., :-1] if stride == 1 else lanes[..., ::2]
    rest = np.stack((2 * given.bias, given.multiplier, given.powers()), axis=1)
    return (np.concatenate([words.reshape(count, -1), rest], axis=1) & pairs.WORD).astype(np.uint32)


def lags(graph: Graph, op: Op) -> lag.Lags:
    """Row by row, block by block, four channels of a block are read before they are written; the last four begin at c - 4."""
    x, out, window = graph.input(op), graph.output(op), SPECS[op.kind].window(graph, op)
    if window is None:
        return {}
    (_, _, w, c), (_, out_h, out_w, _), stride = x.shape, out.shape, window.stride
    columns = block(out_w, window.extent[1], stride[1])
    begins = np.arange(0, out_w, columns)
    channel = np.minimum(np.arange(0, c, PLANES), c - PLANES)
    rows = lag.first_inside(np.arange(out_h) * stride[0] - window.pad[0], 1, x.shape[1])
    first = rows[:, None] * w + np.maximum(begins * stride[1] - window.pad[1], 0)
    last = np.arange(out_h)[:, None] * out_w + np.minimum(begins + columns, out_w) - 1
    read, written = (pixel[..., None] * c + channel for pixel in (first, last))
    return {0: lag.trailing(read.ravel(), np.maximum.accumulate(written.ravel() + PLANES))}
