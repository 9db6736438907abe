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
from .conv import map_size, window_is_bounded, window_taps, windows
from .spec import Arrays, OpSpec, OptionalArrays, Shape, activation_range, operand
from .window import positions, window_is_valid


def infer(graph: Graph, op: Op) -> list[Shape]:
    x = graph.input(op).shape
    return [(x[0], *map_size(graph, op), x[3])]


def reference_max(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [_clamp(graph, op, highest(graph, op, operand(arrays), -128))]


def highest(graph: Graph, op: Op, x: NDArray[Any], least: float) -> NDArray[Any]:
    """Return the highest value in each window, no less than `least`."""
    found = np.full(infer(graph, op)[0], least, x.dtype)
    for _, _, seen in window_taps(graph, op, x, least):
        np.maximum(found, seen, out=found)
    return found


def away_from(op: Op) -> int:
    """Return the value away from which an average rounds its halves."""
    return -128 if op.attrs.get("unsigned") else 0


def reference_average(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    offset = away_from(op)
    total, count = sums(graph, op, operand(arrays).astype(np.int64) - offset)
    return [_clamp(graph, op, np.sign(total) * ((np.abs(total) + count // 2) // count) + offset)]


def sums(graph: Graph, op: Op, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sum of each window, and of how many positions inside the map it is."""
    (shape,), kernel, stride, padding = infer(graph, op), op.attrs["kernel"], op.attrs["stride"], op.attrs["padding"]
    total = np.zeros(shape, x.dtype)
    for _, _, seen in window_taps(graph, op, x):
        total += seen
    rows, columns = (
        positions(x.shape[1 + a], shape[1 + a], kernel=kernel[a], stride=stride[a], before=padding[a][0]).sum(axis=1)
        for a in (0, 1)
    )
    return total, rows[:, None, None] * columns[:, None]


def _clamp(graph: Graph, op: Op, values: NDArray[Any]) -> NDArray[np.int8]:
    return np.asarray(np.clip(values, *activation_range(op.attrs["activation"], graph.output(op))), np.int8)


def window_fits(graph: Graph, op: Op) -> bool:
    """kernel and strides must be at least 1, and every window must hold a part of the input"""
    x, kernel, padding = graph.input(op), op.attrs["kernel"], op.attrs["padding"]
    return window_is_valid(x.shape, kernel, op.attrs) and all(max(padding[a]) < kernel[a] for a in (0, 1))


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
