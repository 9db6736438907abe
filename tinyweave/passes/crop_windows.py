"""Crop filter rows and columns that only multiply padding, or whose weights are 0, and reduce the padding accordingly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import Graph, Op
from ..ops import spec_of
from ..ops.window import Size
from .rewrite import exchange, of_each_op, part
from .value_ranges import taps


@of_each_op
def crop_windows(graph: Graph, op: Op) -> Graph:
    """Crop outer rows and columns of int8 and int4 filters that only multiply padding or are 0, as far as padding allows."""
    if spec_of(op).family != "convolution" or graph.input(op, 1).dtype not in ("int8", "int4"):
        return graph
    weights, (products, _, _, never) = graph.input(op, 1), taps(graph, op)
    assert weights.data is not None
    used = ~never & (products != 0).any(axis=(0, 3))
    padding, dilation = op.attrs["padding"], op.attrs["dilation"]
    cuts = [_cut(used.any(axis=1 - axis), padding[axis], dilation[axis]) for axis in (0, 1)]
    if cuts == [(0, 0), (0, 0)]:
        return graph
    rows, columns = (slice(before, size - after) for (before, after), size in zip(cuts, used.shape, strict=True))
    operand = part(graph, op, "weights", weights, weights.data[:, rows, columns, :])
    rest = tuple(
        tuple(have - cut * step for have, cut in zip(padding[axis], cuts[axis], strict=True))
        for axis, step in enumerate(dilation)
    )
    inputs = (op.inputs[0], operand.name, *op.inputs[2:])
    return exchange(graph, [replace(op, inputs=inputs, attrs={**op.attrs, "padding": rest})], [operand])


def _cut(used: np.ndarray, padding: Size, dilation: int) -> Size:
    """Return how many rows to crop at the start and the end of a filter, which takes `dilation` rows of padding each."""
    where = np.flatnonzero(used)
    if not len(where):
        return 0, 0
    before, after = int(where[0]), len(used) - 1 - int(where[-1])
    return min(before, padding[0] // dilation), min(after, padding[1] // dilation)
