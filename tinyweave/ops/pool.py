"""average_pool_2d and max_pool_2d on int8 and int16 maps.

The average is over the positions of a window inside the map, without padding. It rounds halves away from 0, or away from -128
if the attribute `unsigned` is set, which means that the op was uint8 in the model file. Input and output share their
quantisation. Source: TFLite reference_integer_ops pooling.h.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, array_type, limits
from .constraints import (
    activation_is_known,
    arity,
    bounds_fit,
    input_is_int8_or_int16,
    output_has_input_type,
    rank_is_4,
    same_quantisation,
)
from .conv import map_size, window_is_bounded, window_taps, windows
from .float32 import real_operand, real_outputs
from .spec import Arrays, OpSpec, OptionalArrays, Shape, activation_range, on_integers, operand
from .window import positions, window_is_valid


def infer(graph: Graph, op: Op) -> list[Shape]:
    x = graph.input(op).shape
    return [(x[0], *map_size(graph, op), x[3])]


def reference_max(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [_clamp(graph, op, highest(graph, op, operand(arrays), limits(graph.input(op).dtype)[0]))]


def highest(graph: Graph, op: Op, x: NDArray[Any], least: float) -> NDArray[Any]:
    """Return the maximum of each window of a max pool; `least` is the value of the padding, and the smallest result."""
    maxima = np.full(infer(graph, op)[0], least, x.dtype)
    for _, _, values in window_taps(graph, op, x, least):
        np.maximum(maxima, values, out=maxima)
    return maxima


def away_from(op: Op) -> int:
    """Return the value away from which an average rounds halves: 0, or -128 if the op was uint8 in the model file."""
    return -128 if op.attrs.get("unsigned") else 0


def reference_average(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    offset = away_from(op)
    total, count = sums(graph, op, operand(arrays).astype(np.int64) - offset)
    return [_clamp(graph, op, np.sign(total) * ((np.abs(total) + count // 2) // count) + offset)]


def sums(graph: Graph, op: Op, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sum of each window, and the number of positions of each window that are inside the map."""
    (shape,), kernel, stride, padding = infer(graph, op), op.attrs["kernel"], op.attrs["stride"], op.attrs["padding"]
    total = np.zeros(shape, x.dtype)
    for _, _, values in window_taps(graph, op, x):
        total += values
    rows, columns = (
        positions(x.shape[1 + a], shape[1 + a], kernel=kernel[a], stride=stride[a], before=padding[a][0]).sum(axis=1)
        for a in (0, 1)
    )
    return total, rows[:, None, None] * columns[:, None]


def _clamp(graph: Graph, op: Op, values: NDArray[Any]) -> NDArray[Any]:
    out = graph.output(op)
    return np.asarray(np.clip(values, *activation_range(op.attrs["activation"], out)), array_type(out.dtype))


def window_fits(graph: Graph, op: Op) -> bool:
    """kernel and strides must be at least 1, and each padding smaller than the kernel, so that no window lies in the padding"""
    x, kernel, padding = graph.input(op), op.attrs["kernel"], op.attrs["padding"]
    return window_is_valid(x.shape, kernel, op.attrs) and all(max(padding[a]) < kernel[a] for a in (0, 1))


@on_integers
def sums_fit(graph: Graph, op: Op) -> bool:
    """for int16 data, the kernel must have at most 65535 positions"""
    return graph.input(op).dtype != "int16" or prod(op.attrs["kernel"]) < 1 << 16


CONSTRAINTS = (
    arity(1),
    input_is_int8_or_int16,
    output_has_input_type,
    rank_is_4,
    same_quantisation,
    window_fits,
    window_is_bounded,
    sums_fit,
    activation_is_known,
    bounds_fit,
)


def real_average(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    total, count = sums(graph, op, real_operand(arrays))
    return real_outputs(total / count, op.attrs["activation"])


def real_max(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    least = float(np.finfo(np.float32).min)
    return real_outputs(highest(graph, op, real_operand(arrays), least), op.attrs["activation"])


pool = partial(
    OpSpec,
    infer=infer,
    constraints=CONSTRAINTS,
    windows=windows,
    family="pool",
    batched=True,
    channelwise=True,
    fuses_activation=True,
    scale="shared",
)
SPECS = (
    pool("average_pool_2d", reference=reference_average, uint8="unsigned", real=real_average, averages=True),
    pool("max_pool_2d", reference=reference_max, uint8="same", real=real_max),
)
