"""Elementwise kinds on int8: add, sub, mul, div, squared_difference and clamps such as relu; all but two also on int16.

Other kinds with one operand are in functions.py. Source: TFLite reference_integer_ops add.h, mul.h; reference div.h;
squared_difference.cc; activations.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .constraints import (
    activation_is_known,
    arity,
    bounds_fit,
    input_is_int8_or_int16,
    inputs_are_int8,
    inputs_are_int8_or_int16,
    output_has_input_type,
    output_is_int8,
)
from .fixed_point import INT32_MAX, Rescale, high_mul, quantize_multiplier, reciprocal, requantize
from .float32 import real_binary, real_unary
from .spec import (
    ACTIVATIONS,
    Arrays,
    Constraint,
    OpSpec,
    OptionalArrays,
    broadcast,
    centred,
    finish,
    infer_broadcast,
    is_pixel,
    on_integers,
    operand,
    unary,
)
from .window import ONE_TO_ONE, Windows

Real = NDArray[np.float32]

MAX_AXES = 4  # of the kernels on two operands
ADD_LEFT_SHIFT = {"int8": 20, "int16": 15}
SQUARE_LEFT_SHIFT = 7  # the square of the largest difference stays below 2^30


def add_rescales(graph: Graph, op: Op) -> tuple[Rescale, Rescale, Rescale]:
    """Return the fixed-point factors of the first input, the second input and the output of add, sub or squared_difference.

    Each input minus its zero point, times 2^`add_left_shift`, is rescaled to twice the larger input scale; the result of the op
    to the output scale.
    """
    a, b = graph.input(op), graph.input(op, 1)
    common = 2 * max(a.scale, b.scale)
    first, second = (quantize_multiplier(x.scale / common) for x in (a, b))
    return first, second, quantize_multiplier(output_ratio(graph, op))


def output_ratio(graph: Graph, op: Op) -> float:
    """Return the scale of the integer sum, difference or squared difference that is computed, divided by the output scale."""
    common, power = 2 * max(graph.input(op).scale, graph.input(op, 1).scale), 2 if op.kind == "squared_difference" else 1
    return common**power / ((1 << power * add_left_shift(graph, op)) * graph.output(op).scale)


def add_left_shift(graph: Graph, op: Op) -> int:
    """Return the bits by which the operands of add, sub or squared_difference are shifted left before they are rescaled."""
    return SQUARE_LEFT_SHIFT if op.kind == "squared_difference" else ADD_LEFT_SHIFT[graph.output(op).dtype]


def mul_rescale(graph: Graph, op: Op) -> Rescale:
    """Return the factor from a mul's integer product, or a div's quotient, to the output scale; scales are in float32."""
    a, b, out = (np.float32(t.scale) for t in (graph.input(op), graph.input(op, 1), graph.output(op)))
    return quantize_multiplier(float(a / (b * out) if op.kind == "div" else a * b / out))


def relu_rescale(graph: Graph, op: Op) -> Rescale:
    """Return the factor that rescales the integer input of a relu to the output scale; float32 arithmetic, as in TFLite."""
    return quantize_multiplier(float(np.float32(graph.input(op).scale) / np.float32(graph.output(op).scale)))


# the C library's float32 functions are computed here as float64 functions, rounded to float32


def reference_add(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    first, second, output = add_rescales(graph, op)
    a, b = (
        requantize(centred(arrays, i, graph, op) << add_left_shift(graph, op), *rescale)
        for i, rescale in enumerate((first, second))
    )
    combined = {"add": a + b, "sub": a - b}.get(op.kind, (a - b) ** 2)
    return finish(graph, op, requantize(combined, *output))


def reference_mul(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    a, b = (centred(arrays, index, graph, op) for index in (0, 1))
    return finish(graph, op, requantize(a * b, *mul_rescale(graph, op)))


def reference_div(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    """Compute x / y as x times the reciprocal of y, as LiteRT; where LiteRT is undefined, 0 or saturated."""
    x, y = (centred(arrays, index, graph, op) for index in (0, 1))
    magnitude, signed = np.abs(y), np.where(y < 0, -x, x)
    inverse, bits = reciprocal(np.maximum(magnitude, 1), 31)
    headroom = 31 - np.frexp(np.where(signed < 0, ~signed, signed).astype(np.float64))[1].astype(np.int64)
    multiplier, shift = mul_rescale(graph, op)
    right = bits + headroom - shift
    scaled = requantize(high_mul(signed << headroom, inverse), multiplier, -np.minimum(right, 31))
    return finish(graph, op, np.where(magnitude == 0, np.sign(x) * INT32_MAX, np.where(right > 31, 0, scaled)))


def reference_relu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return finish(graph, op, requantize(centred(arrays, 0, graph, op), *relu_rescale(graph, op)))


def windows_binary(graph: Graph, op: Op) -> Windows | None:
    """Return 1x1 windows if an operand of the output's shape is computed and the others can be read at any row, else None."""
    shape, operands = graph.output(op).shape, (graph.input(op), graph.input(op, 1))
    by_row = any(x.shape == shape and x.data is None for x in operands)
    others = (x.shape[:-1] == shape[:-1] or x.data is not None or is_pixel(x) for x in operands)
    return ONE_TO_ONE if by_row and all(others) else None


def merged_axes(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Return (extent of a, extent of b) along each axis of the broadcast; neighbours that broadcast alike are merged."""
    rank = max(len(a), len(b), MAX_AXES)
    axes = [(x, y) for x, y in zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True)]
    while len(axes) > MAX_AXES:
        alike = [i for i, (p, q) in enumerate(pairwise(axes)) if (1, 1) in (p, q) or _repeats(p) == _repeats(q)]
        if not alike:
            break
        i = alike[0]
        axes[i : i + 2] = [(axes[i][0] * axes[i + 1][0], axes[i][1] * axes[i + 1][1])]
    return axes


def _repeats(axis: tuple[int, int]) -> tuple[bool, bool]:
    """Return for each of two operands whether it is repeated along an axis by broadcasting; `axis` is the extents of both."""
    return axis[0] < axis[1], axis[1] < axis[0]


def shapes_broadcast(graph: Graph, op: Op) -> bool:
    """both shapes must be equal or broadcast, with at most six axes"""
    a, b = graph.input(op).shape, graph.input(op, 1).shape
    return max(len(a), len(b)) <= 6 and broadcast(a, b)


@on_integers
def output_scale_is_large(graph: Graph, op: Op) -> bool:
    """the output scale must be more than 2^-19 times the larger input scale (2^-14 times for int16)"""
    return output_ratio(graph, op) < 1


@on_integers
def square_scale_is_large(graph: Graph, op: Op) -> bool:
    """the output scale must be more than 2^-12 times the square of the larger input scale"""
    return output_ratio(graph, op) < 1 - 2.0**-32  # larger ratios are rounded to 1


@on_integers
def quotient_scale_is_small(graph: Graph, op: Op) -> bool:
    """the first input's scale must be less than 2^22 times the product of the second input's and the output's scale"""
    return mul_rescale(graph, op).shift <= 22


# arithmetic on int32 and int64, such as on shapes, which is computed when compiling; no C kernel has it
ON_INDICES: dict[str, Callable[..., NDArray[np.integer]]] = {
    "add": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mul": np.multiply,
    "sub": np.subtract,
}


def operands_are_known(graph: Graph, op: Op) -> bool:
    """int32 and int64 operands must be known when compiling, as shapes are"""
    return all(t is not None and t.data is not None for t in graph.inputs_of(op))


@np.errstate(over="ignore")
def reference_on_indices(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [np.asarray(ON_INDICES[op.kind](operand(arrays), operand(arrays, 1)), graph.output(op).dtype)]


def index_form(spec: OpSpec) -> OpSpec | None:
    """Return the OpSpec of a kind for int32 and int64 tensors, or None if the kind does not take them."""
    if spec.kind not in ON_INDICES:
        return None
    constraints = (arity(2), shapes_broadcast, operands_are_known)
    return replace(spec, reference=reference_on_indices, constraints=constraints, rescale=OpSpec.rescale)


UNARY = (arity(1), input_is_int8_or_int16, output_has_input_type)
BINARY = (arity(2), inputs_are_int8, output_is_int8, shapes_broadcast, activation_is_known, bounds_fit)
PRODUCTS = (arity(2), inputs_are_int8_or_int16, output_has_input_type, shapes_broadcast, activation_is_known, bounds_fit)
SUMS = (
    arity(2),
    inputs_are_int8_or_int16,
    output_has_input_type,
    shapes_broadcast,
    activation_is_known,
    bounds_fit,
    output_scale_is_large,
)


def _clamp(kind: str, *constraints: Constraint, **facts: Any) -> OpSpec:
    low, high = ACTIVATIONS[kind]
    real = real_unary(lambda x: np.clip(x, low, high))
    facts |= {"rescale": relu_rescale, "uint8": "same", "real": real, "image": (low, high)}
    return unary(kind, reference=reference_relu, constraints=(*UNARY, *constraints), **facts)


_binary = partial(OpSpec, infer=infer_broadcast, windows=windows_binary, family="binary", channelwise=True, scale="own")
_sum = partial(
    _binary, reference=reference_add, constraints=SUMS, int16=True, fuses_activation=True, uint8="same", arithmetic="sum"
)


SPECS = (
    _sum("add", real=real_binary(np.add)),
    _sum("sub", real=real_binary(np.subtract)),
    _binary(
        "mul",
        reference=reference_mul,
        constraints=PRODUCTS,
        rescale=mul_rescale,
        int16=True,
        fuses_activation=True,
        uint8="same",
        arithmetic="product",
        real=real_binary(np.multiply),
        rounds_twice=True,
    ),
    _binary(
        "div",
        reference=reference_div,
        constraints=(*BINARY, quotient_scale_is_small),
        rescale=mul_rescale,
        fuses_activation=True,
        real=real_binary(np.divide),
        rounds_twice=True,
    ),
    _binary(
        "squared_difference",
        reference=reference_add,
        constraints=(arity(2), inputs_are_int8, output_is_int8, shapes_broadcast, square_scale_is_large),
        real=real_binary(lambda a, b: (a - b) ** 2),
    ),
    _clamp("relu", useful=lambda low, high: (0.0, high)),
    _clamp("relu6", bounds_fit, least_scale=2.0**-26, useful=lambda low, high: (0.0, min(high, 6.0))),
    _clamp("relu_n1_to_1", bounds_fit, least_scale=2.0**-29, useful=lambda low, high: (max(low, -1.0), min(high, 1.0))),
)
