"""fully_connected on int8 or int16 rows with int8 weights [out, in], whose scale is per tensor or per output channel.

LiteRT 2.3.0 scales the int32 sum in float64 and rounds once, half away from zero; older versions and TFLite Micro round twice
in fixed point. `requant` returns integers with which `fixed_point.requantize_once` computes the same bytes. Source: LiteRT
reference_integer_ops fully_connected.h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, array_type, limits
from .constraints import (
    activation_is_known,
    arity,
    bias_may_be_absent,
    bounds_fit,
    input_is_int8_or_int16,
    output_has_input_type,
    weights_are_constant,
    weights_are_symmetric_int8,
)
from .conv import weights_zero
from .fixed_point import exact_multiplier, requantize_once, round_half_away, wrap32
from .float32 import Float, real_layer
from .spec import Arrays, OpSpec, OptionalArrays, Shape, Weights, activation_range, biased, centred, on_integers, operand
from .window import ONE_TO_ONE, Windows


def scales(graph: Graph, op: Op) -> NDArray[np.float64]:
    """Return the real factors from sums to outputs: one for all output channels, or one per channel."""
    weights = graph.input(op, 1)
    assert weights.quant is not None
    return graph.input(op).scale * np.array(weights.quant.scale) / graph.output(op).scale


def requant(graph: Graph, op: Op) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Return multipliers and shifts, one or one per channel, with which `fixed_point.requantize_once` gives LiteRT's results.

    Only the sums at which the output changes are checked; this suffices, because both functions are odd and nondecreasing. If a
    float64 product rounds up to a half that the exact product just misses, the multiplier grows by half a unit in the last
    place of float64. Raise CompileError if no multiplier gives LiteRT's results.
    """
    factors = scales(graph, op)
    low, high = limits(graph.output(op).dtype)
    pairs = [exact_multiplier(float(factor)) for factor in factors]
    exact, shift = np.array([m for m, _ in pairs], np.int64), np.array([s for _, s in pairs], np.int8)
    steps = (np.arange(high - low + 1) + 0.5) / factors[:, None]
    sums = np.floor(np.minimum(steps, 2.0**31 - 4))[..., None].astype(np.int64) + np.arange(-1, 3)
    expected = round_half_away(sums * factors[:, None, None])

    def agrees(multiplier: NDArray[np.int64]) -> NDArray[np.bool_]:
        equal = requantize_once(sums, multiplier[:, None, None], shift[:, None, None]) == expected
        return np.asarray(equal.all(axis=(1, 2)))

    multiplier = np.where(agrees(exact), exact, exact + (1 << 9))
    if not agrees(multiplier).all():
        raise CompileError("no integer multiplier rounds as LiteRT does", "change the output scale slightly", op=op)
    return multiplier, shift


def infer(graph: Graph, op: Op) -> list[Shape]:
    x, (units, depth) = graph.input(op), graph.input(op, 1).shape
    return [(*x.shape[:-1], units) if op.attrs["keep_num_dims"] else (x.elements // depth, units)]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    weights = operand(arrays, 1).astype(np.float64) - weights_zero(graph, op)
    x = centred(arrays, 0, graph, op).reshape(-1, weights.shape[1]).astype(np.float64)
    return [finish(graph, op, biased((x @ weights.T).astype(np.int64), arrays)).reshape(infer(graph, op)[0])]


def finish(graph: Graph, op: Op, total: NDArray[np.int64]) -> NDArray[np.integer]:
    """Rescale the sums of a fully_connected, bias included, to its quantised output, add the zero point and clamp."""
    out = graph.output(op)
    scaled = round_half_away(wrap32(total) * scales(graph, op)) + out.zero_point
    return np.asarray(np.clip(scaled, *activation_range(op.attrs["activation"], out)), array_type(out.dtype))


def macs(graph: Graph, op: Op, clipped: bool) -> int:
    return graph.output(op).elements * graph.input(op, 1).shape[1]


def windows(graph: Graph, op: Op) -> Windows | None:
    """Return 1x1 windows if the layer multiplies each pixel of one NHWC map by its weights, else None."""
    shape = graph.input(op).shape
    return ONE_TO_ONE if op.attrs["keep_num_dims"] and len(shape) == 4 and shape[0] == 1 else None


def shapes_match(graph: Graph, op: Op) -> bool:
    """the weights must be [out, in]; `in` must divide the input's elements, or equal its last axis if keep_num_dims is set"""
    x, weights = graph.input(op), graph.input(op, 1)
    if len(weights.shape) != 2 or min(weights.shape) < 1 or not x.shape:
        return False
    depth = weights.shape[1]
    return x.shape[-1] == depth if op.attrs["keep_num_dims"] else x.elements % depth == 0


@on_integers
def scale_is_small(graph: Graph, op: Op) -> bool:
    """input scale * weight scale / output scale must be below 2^8"""
    return bool(np.all(scales(graph, op) < 256))


@on_integers
def sums_fit_32_bits(graph: Graph, op: Op) -> bool:
    """for int16 data, 2^15 times the sum of a unit's weight magnitudes, plus the magnitude of its bias, must be below 2^31"""
    weights, bias = graph.input(op, 1).data, graph.optional_input(op, 2)
    if graph.input(op).dtype != "int16" or weights is None:
        return True
    largest = np.abs(weights.astype(np.float64)).sum(axis=1) * 2.0**15
    biases = 0.0 if bias is None or bias.data is None else np.abs(bias.data.astype(np.float64))
    return bool((largest + biases < 2.0**31).all())


CONSTRAINTS = (
    arity(2, 3),
    input_is_int8_or_int16,
    output_has_input_type,
    weights_are_constant,
    shapes_match,
    weights_are_symmetric_int8,
    bias_may_be_absent,
    activation_is_known,
    bounds_fit,
    scale_is_small,
    sums_fit_32_bits,
)


def real_sums(graph: Graph, op: Op, x: Float, weights: Float) -> Float:
    """Return the sums of products of a float32 layer before the bias is added, in the shape of the output."""
    (shape,) = infer(graph, op)
    return np.asarray((x.reshape(-1, weights.shape[1]) @ weights.T).reshape(shape))


SPECS = (
    OpSpec(
        "fully_connected",
        infer,
        reference,
        CONSTRAINTS,
        macs,
        windows,
        family="dense",
        weights=Weights(0),
        int16=True,
        fuses_activation=True,
        uint8="unsigned",
        scale="own",
        real=real_layer(real_sums),
    ),
)
