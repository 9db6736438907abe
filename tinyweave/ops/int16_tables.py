"""logistic, tanh and softmax on int16, which interpolate tables. The kernels in C read the same tables.

Source: TFLite reference_integer_ops logistic.h and tanh.h (their table of 256 numbers is computed here), reference/softmax.h,
LUTPopulate of internal/common.h, and the Prepare functions of activations.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .fixed_point import Int64, Rescale, quantize_multiplier, requantize, round_half_away
from .spec import Arrays, OptionalArrays, operand

Curve = Callable[[NDArray[Any]], NDArray[Any]]
STEPS_PER_1 = 24  # steps of the table of logistic per unit of its argument
FRACTION_BITS = {"logistic": 9, "tanh": 8}  # of an argument, in steps of the table: tanh(x) = 2 logistic(2 x) - 1
EXP_RANGE = 10.0  # exp(-10) and less count as exp(-10)
TABLE_STEPS = 512


class Scaling(NamedTuple):
    """Fixed-point factor from int16 inputs to the argument of the table: multiplier * 2^-shift, rounded half up."""

    multiplier: int
    shift: int


@cache
def logistic_table() -> NDArray[np.uint16]:
    """Return a table of 256 numbers: logistic(i / 24) * 2^16 less half the interpolation error for i = 0 .. 254, then 65535."""
    at = np.arange(256) / STEPS_PER_1
    values, middle = (65536 / (1 + np.exp(-x)) for x in (at, at[:-1] + 0.5 / STEPS_PER_1))
    error = (values[:-1] + values[1:]) / 2 - middle
    return np.append(np.floor(values[:-1] - error / 2 + 0.5), 65535).astype(np.uint16)


def _table(curve: Curve, low: float, high: float) -> NDArray[np.int16]:
    """Return a curve in Q15 at 513 points from `low` to `high`, less half the error that interpolation makes."""
    steps, step = np.arange(TABLE_STEPS + 1), (high - low) / TABLE_STEPS
    exact, middle = (curve(low + x * step) * 32768 for x in (steps, steps[:-1] + 0.5))
    values = round_half_away(exact)
    chord = round_half_away((exact[1:] + values[:-1]) / 2)
    values[:-1] -= round_half_away((chord - round_half_away(middle)) / 2)
    return np.asarray(np.clip(values, -32768, 32767), np.int16)


@cache
def exp_table() -> NDArray[np.int16]:
    """Return exp(x) in Q15 at 513 points x from -10 to 0."""
    return _table(np.exp, -EXP_RANGE, 0.0)


@cache
def reciprocal_table() -> NDArray[np.int16]:
    """Return 1 / (1 + x) in Q15 at 513 points x from 0 to 1."""
    return _table(lambda x: 1 / (1 + x), 0.0, 1.0)


def scaling(graph: Graph, op: Op) -> Scaling:
    """Return the factor from the input of a logistic or tanh to multiples of 1 / (3 * 2^12), as TFLite's Prepare does."""
    scale, octaves = graph.input(op).scale, round(log2(graph.input(op).scale))
    left = octaves + 12
    if abs(log2(scale) - octaves) < 1e-3 and left in ((0, 1) if op.kind == "tanh" else (0,)):
        return Scaling(3 << left, 0)
    multiplier, shift = scale * 4096.0 * 3.0, 0
    while multiplier <= 32767 / 2 and shift <= 30:
        multiplier, shift = 2 * multiplier, shift + 1
    return Scaling(int(multiplier), shift)


def reference_sigmoid(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Return the outputs of logistic or tanh on int16."""
    (multiplier, shift), bits = scaling(graph, op), FRACTION_BITS[op.kind]
    argument = (operand(arrays).astype(np.int64) * multiplier + ((1 << shift) >> 1)) >> shift
    magnitude, table = np.abs(argument), logistic_table().astype(np.int64)
    index = np.minimum(magnitude >> bits, 254)
    between = (table[index] << bits) + (magnitude & ((1 << bits) - 1)) * (table[index + 1] - table[index])
    if op.kind == "logistic":
        value = np.where(magnitude >> bits > 254, 65534 << bits, between)
        return [(np.where(argument >= 0, value + 512, (1 << 25) - value + 511) >> 10).astype(np.int16)]
    value = np.where(magnitude >> bits > 254, 65535 << bits, between) - (1 << 23)
    return [(np.where(argument >= 0, value + 128, 127 - value) >> 8).astype(np.int16)]


def softmax_rescale(graph: Graph, op: Op) -> Rescale:
    """Return the factor from integer differences x - max(x) to the units of the exponents of softmax, which are 10 / 65535."""
    beta = float(np.float32(op.attrs["beta"]))
    return quantize_multiplier(graph.input(op).scale * beta / (EXP_RANGE / 65535))


def _looked_up(table: NDArray[np.int16], x: Int64) -> Int64:
    """Interpolate a table of 513 points at int16 values `x`; the first point is for x = -2^15, the last for x = 2^15."""
    index, values = 256 + (x >> 7), table.astype(np.int64)
    return np.asarray(values[index] + (((values[index + 1] - values[index]) * (x & 127) + 64) >> 7))


def reference_softmax(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Return the outputs of softmax on int16: exponentials in Q15 times the reciprocal of their sum."""
    x = operand(arrays).astype(np.int64)
    exponents = requantize(x - x.max(axis=-1, keepdims=True), *softmax_rescale(graph, op)) + 32767
    exponentials = _looked_up(exp_table(), np.clip(exponents, -32768, 32767))
    total = exponentials.sum(axis=-1, keepdims=True)
    bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)  # total is in [2^(bits - 1), 2^bits)
    fraction = ((total << (31 - bits)) + (1 << 13)) >> 14  # total / 2^(bits - 1) in Q16
    inverse = _looked_up(reciprocal_table(), np.minimum(fraction - (1 << 15) - (1 << 16), 32767))
    shares = (exponentials * inverse + (np.int64(1) << (bits - 2))) >> (bits - 1)
    return [np.clip(shares, 0, 32767).astype(np.int16)]
