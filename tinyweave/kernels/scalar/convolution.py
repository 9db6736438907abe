"""Work out which convolutions the scalar kernels compute, and how far their writes trail their reads.

In: a convolution. Out: as tw_conv_scalar.h has it. Weights, biases and multipliers lie as the portable kernels have them.
"""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Op
from ...ops.conv import groups, kernel_size, requant, weights_zero
from ...ops.window import Windows
from .. import overlap_distance as distance

FILTERS = 4  # at a time
RUN = 24  # TW_DEPTHWISE_RUN
SIDE = 3  # of the windows of the depthwise kernel
STRIDES = (1, 2)  # across, of the depthwise kernel


def rescales_down(graph: Graph, op: Op) -> bool:
    """Whether tw_rescale_down gives the outputs: no multiplier is negative, all shifts go right."""
    multiplier, shift = requant(graph, op)
    return bool((multiplier >= 0).all() and (shift < 0).all())


def _is_plain(graph: Graph, op: Op) -> bool:
    is_int8 = graph.input(op, 1).dtype == "int8" and weights_zero(graph, op) == 0
    return is_int8 and tuple(op.attrs["dilation"]) == (1, 1) and rescales_down(graph, op)


def is_dense(graph: Graph, op: Op) -> bool:
    """Whether the dense kernel computes the op."""
    return groups(graph, op) == 1 and graph.output(op).shape[3] >= FILTERS and _is_plain(graph, op)


def is_depthwise(graph: Graph, op: Op) -> bool:
    """Whether the depthwise kernel computes the op, and faster than the portable one: rows of few outputs do not pay."""
    alike = graph.input(op).shape[3] == graph.output(op).shape[3]
    fits = kernel_size(graph, op) == (SIDE, SIDE) and op.attrs["stride"][1] in STRIDES
    return alike and fits and graph.output(op).shape[2] > SIDE and _is_plain(graph, op)


@distance.of_windows
def by_pixels(graph: Graph, op: Op, windows: Windows) -> int:
    """The windows of two pixels of a row, where they lie between the map's edges, else of one, are read for every four outputs,
    then for the last four."""
    x, out = graph.input(op), graph.output(op)
    (size, units), (rows, cols) = (x.shape[2], out.shape[3]), out.shape[1:3]
    begins, at = [0], 0
    while at < cols:
        left = at * windows[1].stride - windows[1].pad
        both = left >= 0 and left + windows[1].stride + windows[1].extent <= size and at + 1 < cols
        at += 2 if both else 1
        begins.append(at)
    first = distance.firsts_of(graph, op, windows).reshape(rows, cols)
    read = np.minimum.reduceat(first, begins[:-1], axis=1) * x.shape[3]
    ends = np.minimum(np.arange(FILTERS, units + FILTERS, FILTERS), units)
    written = (np.arange(rows)[:, None] * cols + begins[1:] - 1)[..., None] * units + ends
    return distance.trailing(read.repeat(len(ends)), np.maximum.accumulate(written.ravel()))


@distance.of_windows
def by_runs(graph: Graph, op: Op, windows: Windows) -> int:
    """Of RUN outputs of a row a channel is read before it is written."""
    depth, (rows, cols) = graph.input(op).shape[3], graph.output(op).shape[1:3]
    begins, channel = np.arange(0, cols, RUN), np.arange(depth)
    first = distance.firsts_of(graph, op, windows).reshape(rows, cols)
    read = np.minimum.reduceat(first, begins, axis=1)[..., None] * depth + channel
    last = np.arange(rows)[:, None] * cols + np.minimum(begins + RUN, cols) - 1
    written = last[..., None] * depth + channel + 1
    return distance.trailing(read.ravel(), np.maximum.accumulate(written.ravel()))
