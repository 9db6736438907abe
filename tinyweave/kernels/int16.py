"""Requirements and constants of the convolutions of int16 maps whose sums are int32 (tw_conv_s16_word)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from ..ops import conv
from ..ops.fixed_point import reduced_multiplier
from .requirements import Check, EachFilter

INPUT = 1 << 15  # largest magnitude of an input
MOST = 1 << 31  # bound of a sum that is an int32
SHIFTS = (-17, -1)  # with which multiplier * 2^(17 + shift) is an int32, exactly


def bias_is_int64(graph: Graph, op: Op) -> Check:
    """The bias, if there is one, is int64, so that sums are rounded once."""
    return Check(conv.sums_are_wide(graph, op), "it is int32")


def biases(graph: Graph, op: Op) -> NDArray[np.int64]:
    """Return the bias of each filter, 0 if the op has none."""
    bias = graph.optional_input(op, 2)
    return np.zeros(graph.output(op).shape[3], np.int64) if bias is None or bias.data is None else bias.data.astype(np.int64)


def largest(weights: NDArray[np.int8], bias: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each filter a bound on its sums' magnitudes; weights: [filter, ...]."""
    products = INPUT * np.abs(weights.reshape(len(weights), -1).astype(np.int64)).sum(axis=1)
    return np.asarray(products + np.abs(bias.astype(np.int64)))


def sums_fit(graph: Graph, op: Op) -> Check:
    """No sum of a filter's products, with or without its bias, exceeds an int32."""
    weights = graph.input(op, 1).data
    assert weights is not None
    most = largest(weights, biases(graph, op))
    return EachFilter(most < MOST, "sum of largest magnitude", most).check()


def shifts_fit(graph: Graph, op: Op) -> Check:
    """Every filter's rescale shift is between -17 and -1."""
    _, shift = conv.requant(graph, op)
    return EachFilter((shift >= SHIFTS[0]) & (shift <= SHIFTS[1]), "rescale shift", shift).check()


def has_a_filter_per_channel(graph: Graph, op: Op) -> Check:
    """There are several input channels, and each has one filter of its own."""
    channels, groups, filters = graph.input(op).shape[3], conv.groups(graph, op), graph.output(op).shape[3]
    return Check(1 < channels == groups == filters, f"there are {channels} channels, {groups} groups and {filters} filters")


def by_tap(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the weights [filter, row, column, 1] in the order of depthwise convolutions: [row, column, filter]."""
    return np.ascontiguousarray(weights[..., 0].transpose(1, 2, 0))


WORD_SUMS = (bias_is_int64, sums_fit, shifts_fit)


def factors(graph: Graph, op: Op) -> NDArray[np.int32]:
    """Return for each filter the factor by which 2^32 times its outputs are multiples of its sums."""
    multiplier, shift = conv.requant(graph, op)
    return np.asarray(reduced_multiplier(multiplier) << (shift.astype(np.int64) - SHIFTS[0]), np.int32)
