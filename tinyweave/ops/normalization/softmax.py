"""softmax over the last axis of an int8 tensor, to int8 or int16, in fixed point; of an int16 tensor by `int16_tables`.

Exponentials are in Q31 (31 fractional bits), their sum is in Q12.19. Source: TFLite reference/softmax.h.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ..constraints import arity, input_is_int8_or_int16, per_tensor
from ..fixed_point import exp_on_negative_values, high_mul, quantize_multiplier, reciprocal, rounding_shift, wrap32
from ..float32 import real_operand, real_outputs
from ..int16_tables import reference_softmax
from ..spec import PROBABILITY, Arrays, OpSpec, OptionalArrays, infer_same, on_integers, operand, windows_one_to_one

SCALED_DIFFERENCE_BITS = 5  # integer bits of a scaled difference: Q5.26
SUM_BITS = 12  # integer bits of a sum of exponentials: Q12.19
LEAST_SCALE = 2.0**-24  # of the input


class Parameters(NamedTuple):
    """The fixed-point factors of a softmax."""

    multiplier: int  # with left_shift, rescales x - max(x) to beta times that in Q5.26
    left_shift: int
    difference_min: int  # the probability of an element with a smaller x - max(x) is 0


def parameters(graph: Graph, op: Op) -> Parameters:
    """Return the fixed-point factors of a softmax for its beta and input scale."""
    return of_differences(float(np.float32(op.attrs["beta"])) * graph.input(op).scale)


def of_differences(scale: float) -> Parameters:
    """Return the fixed-point factors of a softmax for integer differences x - max(x) in units of `scale`."""
    multiplier, left_shift = quantize_multiplier(scale * (1 << (31 - SCALED_DIFFERENCE_BITS)))
    radius = ((1 << SCALED_DIFFERENCE_BITS) - 1) * (1 << (31 - SCALED_DIFFERENCE_BITS)) >> left_shift
    return Parameters(multiplier, left_shift, -radius)


def counted(p: Parameters) -> NDArray[np.int64]:
    """Return the differences x - max(x) with exponentials: 0, -1, ... down to `difference_min` or -255; others have 0."""
    return np.arange(0, max(p.difference_min, -255) - 1, -1)


def exponentials(p: Parameters, difference: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute exp(scale * difference) in Q31 for integers x - max(x), which the caller limits to `difference_min`."""
    return exp_on_negative_values(high_mul(wrap32(difference << p.left_shift), p.multiplier))


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    if graph.input(op).dtype == "int16":
        return reference_softmax(graph, op, arrays)
    x, p = operand(arrays), parameters(graph, op)
    difference = x.astype(np.int64) - x.max(axis=-1, keepdims=True)
    counts = difference >= p.difference_min
    exponential = exponentials(p, np.where(counts, difference, 0))
    total = np.where(counts, rounding_shift(exponential, SUM_BITS), 0).sum(axis=-1, keepdims=True)
    scale, bits = reciprocal(total, SUM_BITS)
    info = np.iinfo(graph.output(op).dtype)
    result = rounding_shift(high_mul(scale, exponential), bits + 31 - info.bits) + info.min
    return [np.where(counts, np.clip(result, info.min, info.max), info.min).astype(info.dtype)]


def has_elements(graph: Graph, op: Op) -> bool:
    """the input must have one to four axes, and a last axis of 1 to 4095 elements"""
    shape = graph.input(op).shape
    return 1 <= len(shape) <= 4 and min(shape) > 0 and shape[-1] < 1 << SUM_BITS


@on_integers
def scale_is_in_range(graph: Graph, op: Op) -> bool:
    """beta * input scale must be between 2^-26 and 2^4, for int16 below 2"""
    most = 2.0 if graph.input(op).dtype == "int16" else 16 - 1e-6
    return bool(2.0**-26 < float(np.float32(op.attrs["beta"])) * graph.input(op).scale < most)


@on_integers
def output_is_a_probability(graph: Graph, op: Op) -> bool:
    """the output must have scale 1/256 (int8) or 1/65536 (int16) and the lowest zero point; for int16 inputs 1/32768 and 0"""
    out = graph.output(op)
    types = {("int8", "int8"): (2.0**8, -128), ("int8", "int16"): (2.0**16, -(1 << 15)), ("int16", "int16"): (2.0**15, 0)}
    right = types.get((graph.input(op).dtype, out.dtype))
    return right is not None and per_tensor(out) and abs(out.scale * right[0] - 1) <= 1e-3 and out.zero_point == right[1]


CONSTRAINTS = (arity(1), input_is_int8_or_int16, has_elements, scale_is_in_range, output_is_a_probability)


def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = real_operand(arrays)
    exponential = np.exp((x - x.max(axis=-1, keepdims=True)) * np.float32(op.attrs["beta"]))
    return real_outputs(exponential / exponential.sum(axis=-1, keepdims=True))


SPECS = (
    OpSpec(
        "softmax",
        infer_same,
        reference,
        CONSTRAINTS,
        windows=windows_one_to_one,
        family="softmax",
        batched=True,
        uint8="same",
        scale=PROBABILITY,
        least_scale=LEAST_SCALE,
        real=real,
    ),
)
