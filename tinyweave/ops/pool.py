"""average_pool_2d and max_pool_2d on int8 maps.

The average divides by the number of positions inside the map, halves rounded away from 0, or with the attribute `unsigned`
(the op was uint8) away from -128. Input and output share their quantisation. Source: TFLite reference_integer_ops pooling.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .constraints import (
    activation_is_known,
    arity,
    bounds_fit,
    input_is_int8_or_int4,
    output_has_input_type,
    rank_is_4,
    same_quantisation,
)
from .spec import Arrays, OpSpec, OptionalArrays, Shape, activation_range, operand
from .window import Window, Windows, output_size, positions, taps, window_is_moderate, window_is_valid


def infer(graph: Graph, op: Op) -> list[Shape]:
    x = graph.input(op)
    kernel, stride, padding = op.attrs["kernel"], op.attrs["stride"], op.attrs["padding"]
    h, w = (output_size(x.shape[1 + a], kernel[a], stride[a], 1, padding[a]) for a in (0, 1))
    return [(x.shape[0], h, w, x.shape[3])]


def reference_max(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = operand(arrays)
    highest = np.full(infer(graph, op)[0], -128, np.int8)
    for _, _, seen in taps(x, kernel=op.attrs["kernel"], stride=op.attrs["stride"], padding=op.attrs["padding"], fill=-128):
        np.maximum(highest, seen, out=highest)
    return [_clamp(graph, op, highest)]


def away_from(op: Op) -> int:
    """Return the value away from which an average rounds its halves."""
    return -128 if op.attrs.get("unsigned") else 0


def reference_average(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = operand(arrays)
    shape, kernel, stride, padding = infer(graph, op)[0], op.attrs["kernel"], op.attrs["stride"], op.attrs["padding"]
    total = np.zeros(shape, np.int64)
    offset = away_from(op)
    for _, _, seen in taps(x.astype(np.int64) - offset, kernel=kernel, stride=stride, padding=padding, fill=0):
        total += seen
    rows, columns = (
        positions(x.shape[1 + a], shape[1 + a], kernel=kernel[a], stride=stride[a], before=padding[a][0]).sum(axis=1)
        for a in (0, 1)
    )
    count = (rows[:, None] * columns[None, :])[None, :, :, None]
    return [_clamp(graph, op, np.sign(total) * ((np.abs(total) + count // 2) // count) + offset)]


def _clamp(graph: Graph, op: Op, values: NDArray[Any]) -> NDArray[np.int8]:
    low, high = activation_range(op.attrs["activation"], graph.output(op))
    return np.asarray(np.clip(values, low, high), np.int8)


def windows(graph: Graph, op: Op) -> Windows | None:
    if graph.input(op).shape[0] != 1:
        return None
    rows, cols = map(Window, op.attrs["kernel"], op.attrs["stride"], (before for before, _ in op.attrs["padding"]))
    return rows, cols


def window_fits(graph: Graph, op: Op) -> bool:
    """kernel and strides must be at least 1, and every window must hold a part of the input"""
    x, kernel, padding = graph.input(op), op.attrs["kernel"], op.attrs["padding"]
    return window_is_valid(x.shape, kernel, op.attrs) and all(max(padding[a]) < kernel[a] for a in (0, 1))


def window_is_bounded(graph: Graph, op: Op) -> bool:
    """the padded input must have at most 2^25 elements, and along each axis windows times taps must be at most 2^24"""
    return window_is_moderate(graph.input(op).shape, op.attrs["kernel"], infer(graph, op)[0], op.attrs["padding"])


CONSTRAINTS = (
    arity(1),
    input_is_int8_or_int4,
    output_has_input_type,
    rank_is_4,
    same_quantisation,
    window_fits,
    window_is_bounded,
    activation_is_known,
    bounds_fit,
)

SPECS = (
    OpSpec("average_pool_2d", infer, reference_average, CONSTRAINTS, windows=windows, int4=True),
    OpSpec("max_pool_2d", infer, reference_max, CONSTRAINTS, windows=windows, int4=True),
)
