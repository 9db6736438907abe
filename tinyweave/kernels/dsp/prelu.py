"""Factors of tw_prelu_s8_dsp: prelu as two linear functions per channel, and when these are exact.

TFLite rounds a product to a few fractional bits, then to an integer. That equals one rounding whose threshold is not exactly
1/2. The kernel computes `(x - in_zero) * factor + constant >> shift`. The factors follow from the outputs for all 256 inputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...ops import activations
from ...ops.fixed_point import Rescale, requantize
from ..requirements import Check

Numbers = NDArray[np.int64]
LINE_BYTES = 8  # of a channel: a factor and a constant
LARGEST = 255  # magnitude of an input less its zero point
MOST = 1 << 30  # magnitude of a product that the kernel computes


class Prelu(NamedTuple):
    """A prelu of int8 values, as TFLite computes it."""

    zeros: tuple[int, int]  # zero points of the input and the output
    slopes: Numbers  # of each channel, minus their zero point
    rescales: activations.Slopes  # of inputs at or above the zero point; of products with a slope


class Lines(NamedTuple):
    """Functions `(x - in_zero) * factor + constant >> shift` of a prelu: one from the zero point up, one per channel below."""

    shift: int
    positive: Numbers  # factor, constant
    negative: Numbers  # [channel]: factor, constant


def prelu_of(graph: Graph, op: Op) -> Prelu:
    """Return the zero points, slopes (one per channel) and rescales of an int8 prelu whose slopes are constant."""
    x, slope, out = graph.input(op), graph.input(op, 1), graph.output(op)
    assert slope.data is not None
    slopes = np.broadcast_to(slope.data.astype(np.int64).ravel() - slope.zero_point, x.shape[-1])
    return Prelu((x.zero_point, out.zero_point), slopes, activations.prelu_slopes(graph, op))


def lines(given: Prelu) -> Lines | None:
    """Return linear functions that give a prelu's outputs for all int8 inputs, or None if the search finds none."""
    (in_zero, zero), (positive, negative) = given.zeros, given.rescales
    x, slopes = np.arange(-128, 128) - in_zero, given.slopes
    steepest = max(positive.real, negative.real * int(np.abs(slopes).max()))
    shift = int(np.log2(MOST / (LARGEST * steepest + 256)))  # products and constants stay below MOST
    if shift < 1:
        return None
    above = _lines(x[x > 0], np.ones(1, np.int64), positive, zero, shift)
    below = _lines(x[x < 0], slopes, negative, zero, shift)
    return None if above is None or below is None else Lines(shift, above[0], below)


def _lines(x: Numbers, slopes: Numbers, rescale: Rescale, zero: int, shift: int) -> Numbers | None:
    """Return an array with a row (factor, constant) per slope, or None if a slope has no exact factor and constant.

    Each output limits the product of its input and the factor, and so the factor, from both sides. The inputs `x`, less their
    zero point, are all positive or all negative; `shift` is the number of fractional bits of the factors.
    """
    outputs = np.clip(requantize(x * slopes[:, None], *rescale) + zero, -128, 127)
    # products are first rounded to -rescale.shift bits: half a step of these moves the threshold towards 0
    moved = 1 << max(shift + rescale.shift - 1, 0) if rescale.shift < 0 else 0
    rising = bool((x > 0).any())
    constants = (zero << shift) + (1 << (shift - 1)) + np.where((slopes > 0) == rising, moved, -moved)
    least = np.where(outputs == -128, -MOST, (outputs << shift) - constants[:, None])
    most = np.where(outputs == 127, MOST, ((outputs + 1) << shift) - constants[:, None] - 1)
    first, last = (least, most) if rising else (most, least)
    lowest = (-(-first // x)).max(axis=1, initial=-MOST)
    highest = (last // x).min(axis=1, initial=MOST)
    return np.stack(((lowest + highest) // 2, constants), axis=1) if (lowest <= highest).all() else None


def slopes_are_constant(graph: Graph, op: Op) -> Check:
    """There is one constant slope, or one for each channel."""
    x, slope = graph.input(op), graph.input(op, 1)
    met = slope.data is not None and slope.elements in (1, x.shape[-1]) and slope.shape[-1:] in ((), (slope.elements,))
    return Check(met, f"the slopes' shape is {slope.shape}" if slope.data is not None else "they are computed")


def prelu_is_linear(graph: Graph, op: Op) -> Check:
    """Linear functions with 32-bit factors, one for each channel and sign of the input, give the outputs of all int8 inputs."""
    met = lines(prelu_of(graph, op)) is not None
    return Check(met, "a channel has none")
