"""Which rows ops read that make maps larger or smaller by any factor, from what each op computes and not from its window.

In: a graph and one of its ops. Out: per row of the output the rows of the input, in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import Graph, Op
from ...ops import resize, transpose_conv
from ...ops.resize import nearest_neighbours


def _mixed(graph: Graph, op: Op) -> Sequence[range]:
    """resize_bilinear: the neighbours of each place."""
    (low, high), _ = resize.neighbours(graph, op)
    return [range(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)]


def _shown(graph: Graph, op: Op) -> Sequence[range]:
    """resize_nearest_neighbor: one row."""
    rows, _ = nearest_neighbours(graph, op)
    return [range(row, row + 1) for row in rows.tolist()]


def _met(graph: Graph, op: Op) -> Sequence[range]:
    """transpose_conv: row y of the input adds to `kernel` rows of the output, from y * stride - padding on."""
    (stride, _), ((pad, _), _) = op.attrs["stride"], op.attrs["padding"]
    kernel, height = graph.input(op, 1).shape[1], graph.input(op, transpose_conv.DATA).shape[1]
    met: list[list[int]] = [[] for _ in range(graph.output(op).shape[1])]
    for y in range(height):
        for row in range(y * stride - pad, y * stride - pad + kernel):
            if 0 <= row < len(met):
                met[row].append(y)
    return [range(rows[0], rows[-1] + 1) if rows else range(0) for rows in met]


RESAMPLED: dict[str, Callable[[Graph, Op], Sequence[range]]] = {
    "resize_nearest_neighbor": _shown,
    "resize_bilinear": _mixed,
    "transpose_conv": _met,
}
