"""Find the attention heads of a network on a sliding window of frames, and the rows that each row of a head attends to.

A mask hides a score if the softmax is 0 there, whatever the scores are, which is computed for each of the 256 int8 scores.
Hidden keys and values change no byte of a row, so a call that computes the newest row needs only the rows that it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...ops import SPECS, computed_operand
from ...ops.normalization import softmax
from ..rewrite import maker

SCORES = np.arange(-128, 128, dtype=np.int8)[:, None]  # all scores


class Band(NamedTuple):
    """Rows that a row of a head sees: `before` it, itself, and `ahead`; if `is_steady`, the mask depends on distance only."""

    before: int
    ahead: int
    is_steady: bool

    def columns(self, first: int, after: int, rows: int) -> tuple[int, int]:
        """Return the range (first, after) of the rows that the rows [first, after) of a map of `rows` rows can see."""
        return max(first - self.before, 0), min(after + self.ahead, rows)


def attention_bands(graph: Graph) -> dict[str, Band]:
    """Return op -> Band for the products, softmax and elementwise ops of heads with scores [1, rows, 1, rows]."""
    found = dict[str, Band]()
    for op in graph.ops:
        if SPECS[op.kind].family == "softmax" and graph.output(op).dtype == graph.input(op).dtype == "int8":
            names, band = _head(graph, op)
            found |= {} if band is None or found.keys() & names else dict.fromkeys(names, band)
    return found


def _head(graph: Graph, op: Op) -> tuple[list[str], Band | None]:
    """Return (names of the ops, Band) of the attention head that has the softmax `op`; ([], None) if `op` is in no head."""
    chain, x = list[Op](), graph.input(op)
    while (before := maker(graph, x)) is not None and SPECS[before.kind].family in ("binary", "conversion", "unary"):
        index = computed_operand(graph, before)
        if index is None:
            return [], None
        chain.insert(0, before)
        x = graph.input(before, index)
    is_head = before is not None and SPECS[before.kind].family == "matmul" and graph.output(op).shape == x.shape
    if not is_head or x.dtype != "int8" or len(x.shape) != 4 or x.shape != (1, x.shape[1], 1, x.shape[1]):
        return [], None
    assert before is not None
    readers = [
        graph.ops[index] for index in graph.consumers.get(op.outputs[0], ()) if graph.ops[index].inputs[0] == op.outputs[0]
    ]
    products = [each.name for each in readers if SPECS[each.kind].family == "matmul"]
    return [before.name, *(each.name for each in chain), op.name, *products], _band(graph, chain, op)


def _band(graph: Graph, chain: Sequence[Op], op: Op) -> Band:
    """Return the Band of a head whose scores pass through the elementwise ops `chain` to the softmax `op`."""
    rows = graph.input(op).shape[1]
    masks = [x.data for each in chain for x in graph.inputs_of(each) if x is not None and x.data is not None and _is_mask(each)]
    spread = [np.broadcast_to(mask, (1, rows, 1, rows)).ravel() for mask in masks] or [np.zeros(rows * rows, np.int8)]
    kinds, numbers = np.unique(np.stack(spread), axis=1, return_inverse=True)
    kind = numbers.reshape(rows, rows)  # the pairs of a query row and a key row that have the same masks have the same number
    values, rest = SCORES, list(kinds)
    for each in chain:
        arrays = [
            values if x is None or x.data is None else rest.pop(0) if _is_mask(each) else x.data for x in graph.inputs_of(each)
        ]
        values = SPECS[each.kind].reference(graph, each, arrays)[0]
    # a row's largest score is at least `least`: the greatest of the lower bounds of its scores
    low, high = (np.broadcast_to(edge, kinds.shape[1]).astype(np.int64)[kind] for edge in (values.min(0), values.max(0)))
    least = low.max(axis=1, keepdims=True)
    seen = high - least >= softmax.parameters(graph, op).difference_min
    distance = np.subtract.outer(np.arange(rows), np.arange(rows))
    before, ahead = (max(int(edge), 0) for edge in (distance[seen].max(), -distance[seen].min()))
    return Band(before, ahead, _is_steady(kind, distance, before, ahead))


def _is_mask(op: Op) -> bool:
    """Return whether the constant operand of an elementwise op is broadcast to its output. The table of a lookup is not."""
    return SPECS[op.kind].family == "binary"


def _is_steady(kind: NDArray[np.int64], distance: NDArray[np.int64], before: int, ahead: int) -> bool:
    """Return whether the mask, `kind` [rows, rows] (equal where all masks are), is the same along each diagonal of the band."""
    is_inside = (distance <= before) & (distance >= -ahead)
    return bool((kind[1:, 1:] == kind[:-1, :-1])[is_inside[1:, 1:]].all())
