"""Derive the rows that each output row reads from the computation of ops that resize maps, instead of their windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import Graph, Op
from ...ops import resize, transpose_conv
from ...ops.resize import nearest_neighbours


def _bilinear_rows(graph: Graph, op: Op) -> Sequence[range]:
    """Return, for each output row of a resize_bilinear, the range of input rows that it reads: its two neighbours."""
    (low, high), _ = resize.neighbours(graph, op)
    return [range(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)]


def _nearest_rows(graph: Graph, op: Op) -> Sequence[range]:
    """Return, for each output row of a resize_nearest_neighbor, the range of input rows that it reads: one row."""
    rows, _ = nearest_neighbours(graph, op)
    return [range(row, row + 1) for row in rows.tolist()]


def _transposed_rows(graph: Graph, op: Op) -> Sequence[range]:
    """Return the input rows per output row: input row y is added to `kernel` output rows from y * stride - padding on."""
    (stride, _), ((pad, _), _) = op.attrs["stride"], op.attrs["padding"]
    kernel, height = graph.input(op, 1).shape[1], graph.input(op, transpose_conv.DATA).shape[1]
    rows_of: list[list[int]] = [[] for _ in range(graph.output(op).shape[1])]
    for y in range(height):
        for row in range(y * stride - pad, y * stride - pad + kernel):
            if 0 <= row < len(rows_of):
                rows_of[row].append(y)
    return [range(rows[0], rows[-1] + 1) if rows else range(0) for rows in rows_of]


RESAMPLED: dict[str, Callable[[Graph, Op], Sequence[range]]] = {
    "resize_nearest_neighbor": _nearest_rows,
    "resize_bilinear": _bilinear_rows,
    "transpose_conv": _transposed_rows,
}
