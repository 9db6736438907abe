"""Factors of tw_add_s8_linear_dsp: the sum of two int8 maps as one linear function, and when that function is exact.

TFLite rescales both operands, then their sum, and rounds after each step. The kernel computes
`(a * a_factor >> 8) + (b * b_factor >> 8) + constant >> SHIFT` instead. All 65,536 pairs of operands are compared here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...ir import Graph, Op
from ...ops import elementwise
from ...ops.fixed_point import INT32_MAX, Rescale, requantize
from ...ops.spec import activation_range
from ..requirements import Check

SHIFT = 20  # TW_ADD_LINEAR_SHIFT
LEFT_SHIFT = elementwise.ADD_LEFT_SHIFT["int8"]
INPUTS = np.arange(-128, 128)
# Factors are tried as they are, then enlarged or reduced by these shares. TFLite rounds negative halves away from zero, as
# slightly larger factors do.
SHARES = (0.0, *(sign * 2.0**-power for power in range(24, 17, -1) for sign in (1, -1)))


class Sum(NamedTuple):
    """An add or sub of int8 values, as TFLite computes it."""

    a: Rescale
    b: Rescale
    output: Rescale
    zeros: tuple[int, int, int]  # zero points of both operands and the output
    b_sign: int  # 1: a + b, -1: a - b
    clamp: tuple[int, int]  # the fused activation's


class LinearSum(NamedTuple):
    """The parameters of `(a * a_factor >> 8) + (b * b_factor >> 8) + constant >> SHIFT`, which replaces an int8 add or sub."""

    a_factor: int
    b_factor: int
    constant: int


def sum_of(graph: Graph, op: Op) -> Sum:
    """Return the integer parameters of an int8 add or sub: rescales, zero points, sign of operand b and clamp limits."""
    a, b, out = graph.input(op), graph.input(op, 1), graph.output(op)
    zeros, sign = (a.zero_point, b.zero_point, out.zero_point), -1 if op.kind == "sub" else 1
    return Sum(*elementwise.add_rescales(graph, op), zeros, sign, activation_range(op.attrs["activation"], out))


@lru_cache(maxsize=1024)
def line(given: Sum) -> LinearSum | None:
    """Search for a linear function that gives the same outputs as a quantised add or sub for all pairs of int8 operands.

    TFLite rounds after rescaling each operand, and again after rescaling their sum, so the op itself is not linear. The
    outputs are compared after the clamp of the fused activation. Return the factors and the constant of the function, or None
    if the search finds none.
    """
    (low, high), (a_zero, b_zero, zero) = given.clamp, given.zeros
    a, b = requantize((INPUTS - a_zero) << LEFT_SHIFT, *given.a), requantize((INPUTS - b_zero) << LEFT_SHIFT, *given.b)
    outputs = np.clip(requantize(a[:, None] + given.b_sign * b, *given.output) + zero, low, high)
    unit = 2.0 ** (LEFT_SHIFT + SHIFT + 8) * given.output.real
    for share in SHARES:
        a_factor, b_factor = (round(unit * (1 + share) * slope) for slope in (given.a.real, given.b_sign * given.b.real))
        if max(abs(a_factor), abs(b_factor)) > INT32_MAX:
            return None
        sums = (INPUTS * a_factor >> 8)[:, None] + (INPUTS * b_factor >> 8)
        # the constants that lift each sum to its output at least, and not above
        least = ((outputs << SHIFT) - sums)[outputs > low].max(initial=-INT32_MAX)
        most = (((outputs + 1) << SHIFT) - 1 - sums)[outputs < high].min(initial=INT32_MAX)
        constant = int(least + most) // 2
        if least <= most and np.abs(sums).max() + abs(constant) <= INT32_MAX:
            return LinearSum(a_factor, b_factor, constant)
    return None


def sum_is_linear(graph: Graph, op: Op) -> Check:
    """A linear function with factors of 32 bits equals the sum for all pairs of int8 operands."""
    scales = (tensor.scale for tensor in (graph.input(op), graph.input(op, 1), graph.output(op)))
    met = line(sum_of(graph, op)) is not None
    return Check(met, "none is found for the scales {:g}, {:g} and {:g}".format(*scales))
