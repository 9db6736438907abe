"""How far the writes of a kernel must trail its reads: what makes it safe to let the output overlap a dying input.

In: an op, and what its kernel reads and writes in which order. Out: the lag in bytes: an output that begins at least this far
below its input never overwrites an element that is still to be read; None: they must not overlap. A lag is the smallest, or 0,
for its kernel's real order of reads and writes (tests/kernels/test_lag.py runs them at the lag and one byte below it).
Source: vMCU (arXiv 2406.06542) and TFLite Micro's memory planners know special cases of it; the derivation is ours.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Op, itemsize
from ..ops import SPECS
from ..ops.spec import Window


def none(graph: Graph, op: Op) -> None:
    """The kernel may read any of its input after any write."""


def in_place(graph: Graph, op: Op) -> int | None:
    """Each element is read before its place is written, so an operand of the output's shape may share its first byte."""
    out = graph.output(op)
    operands = [t for t in graph.inputs_of(op) if t is not None and t.data is None]
    return 0 if all(t.shape == out.shape and itemsize(t.dtype) >= itemsize(out.dtype) for t in operands) else None


def widening(graph: Graph, op: Op) -> int | None:
    """The write of element i, wider than the input's, must not reach the input's element i + 1."""
    x, out = graph.input(op), graph.output(op)
    return max(x.elements - 1, 0) * (itemsize(out.dtype) - itemsize(x.dtype))


def by_channel(graph: Graph, op: Op) -> int | None:
    """Depthwise convolutions and pools: an output channel is written when its input channel of the window has been read.

    While pixel t is written, the oldest pixel that is needed is first[t], whose channels below the current one are free.
    """
    x, out = graph.input(op), graph.output(op)
    window = _window(graph, op)
    if window is None:
        return None
    first = oldest_pixels(x.shape[1:3], out.shape[1:3], window)
    multiplied = out.shape[3] - x.shape[3]
    return int((np.arange(len(first)) * out.shape[3] - first * x.shape[3]).max()) + multiplied


def by_pixel(graph: Graph, op: Op) -> int | None:
    """Dense convolutions: all channels of the window are read for every four output channels, then for each of the rest.

    Until the last of these groups is written the window of pixel t is needed; after it, that of pixel t + 1.
    """
    x, out = graph.input(op), graph.output(op)
    window = _window(graph, op)
    if window is None:
        return None
    groups = x.shape[3] // graph.input(op, 1).shape[3]
    return _dense(oldest_pixels(x.shape[1:3], out.shape[1:3], window), x.shape[3], out.shape[3], groups)


def by_row(graph: Graph, op: Op) -> int | None:
    """fully_connected: like a dense convolution whose pixels are the batch entries."""
    units, depth = graph.input(op, 1).shape
    return _dense(np.arange(graph.input(op).elements // depth), depth, units, 1)


def _dense(first: np.ndarray, depth: int, units: int, groups: int) -> int:
    """With several groups of channels all of them count as read to the end: safe, but not the smallest."""
    last_group = units - (4 if units // groups % 4 == 0 else 1)
    written = np.arange(len(first)) * units
    lag = int((written + last_group - first * depth).max())
    if len(first) > 1:
        lag = max(lag, int((written[1:] - first[1:] * depth).max()))
    return lag


def _window(graph: Graph, op: Op) -> Window | None:
    return SPECS[op.kind].window(graph, op) if graph.input(op).shape[0] == 1 else None


def oldest_pixels(size: tuple[int, ...], out_size: tuple[int, ...], window: Window) -> np.ndarray:
    """[pixels of the output]: the number of the first input pixel that is still needed when that output pixel is computed.

    It is the first of its own window, or, where the next row of windows begins in the same input row (both reach into the
    padding above), the first of that row.
    """
    rows, cols = (np.maximum(np.arange(out_size[a]) * window.stride[a] - window.pad[a], 0) for a in (0, 1))
    rows, cols = np.minimum(rows, size[0] - 1), np.minimum(cols, size[1] - 1)
    own = rows[:, None] * size[1] + cols[None, :]
    if len(rows) > 1:
        again = rows[1:] == rows[:-1]
        own[:-1][again] = rows[:-1][again, None] * size[1] + cols.min()
    return own.reshape(-1)
