"""mean, sum and reduce_prod over axes of an int8 tensor, mean also of an int16 tensor.

A mean or sum is the int32 sum of x - zero_point, rescaled once; the multiplier of a mean includes 1/count. LiteRT computes a
sum of int8 as if the bytes were uint8, so TFLite Micro's kernel is the reference. A product is rescaled after each
multiplication and once more at the end, each time by the count-th root of the whole factor. Source: TFLite reference/reduce.h,
QuantizedMeanOrSum and QuantizedReduceProd.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .constraints import (
    arity,
    input_is_int8,
    input_is_int8_or_int16,
    operands_are_constant,
    output_has_input_type,
    output_is_int8,
)
from .fixed_point import Rescale, quantize_multiplier, reduced_multiplier, requantize, requantize_wide, wrap32
from .float32 import real_operand, real_outputs
from .spec import Arrays, OpSpec, OptionalArrays, Shape, centred, constant, finish, on_integers, operand
from .window import ONE_TO_ONE, Window, Windows


def axes(graph: Graph, op: Op) -> tuple[int, ...]:
    """Return the reduced axes in ascending order, each once, counted from the first axis (not negative)."""
    return tuple(sorted({int(axis) % len(graph.input(op).shape) for axis in constant(graph, op, 1).ravel()}))


def count(graph: Graph, op: Op) -> int:
    """Return the number of input elements that are reduced to one output element."""
    return int(np.prod([graph.input(op).shape[axis] for axis in axes(graph, op)], dtype=np.int64))


def requant(graph: Graph, op: Op) -> Rescale:
    """Return the factor from a sum of (x - zero_point) to the output scale; for a mean it includes 1/count."""
    multiplier, shift = quantize_multiplier(graph.input(op).scale / graph.output(op).scale)
    if op.kind == "sum":
        return Rescale(multiplier, shift)
    elements = count(graph, op)
    bits = min(elements.bit_length() - 1, 32, 31 + shift)
    return Rescale((multiplier << bits) // elements, shift - bits)


def infer(graph: Graph, op: Op) -> list[Shape]:
    reduced, shape = axes(graph, op), graph.input(op).shape
    if op.attrs["keep_dims"]:
        return [tuple(1 if axis in reduced else extent for axis, extent in enumerate(shape))]
    return [tuple(extent for axis, extent in enumerate(shape) if axis not in reduced)]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    total = over_axes(np.sum, graph, op, centred(arrays, 0, graph, op))
    return finish(graph, op, requantize(wrap32(total), *requant(graph, op)))


def product_rescale(graph: Graph, op: Op) -> Rescale:
    """Return the factor of a reduce_prod after each of `count` multiplications: input scale / output scale^(1/count)."""
    return quantize_multiplier(graph.input(op).scale / graph.output(op).scale ** (1 / count(graph, op)))


def product_requant(graph: Graph, op: Op) -> Rescale:
    """Return the factor after each multiplication of a reduce_prod, as the kernel takes it: with the multiplier in Q15."""
    multiplier, shift = product_rescale(graph, op)
    return Rescale(int(reduced_multiplier(multiplier)), shift)


def reference_prod(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    factor = product_rescale(graph, op)
    product, *others = _factors(graph, op, centred(arrays, 0, graph, op))
    for each in others:
        product = requantize_wide(product * each, *factor)
    return finish(graph, op, requantize_wide(product, *factor).reshape(infer(graph, op)[0]))


def _factors(graph: Graph, op: Op, x: NDArray[Any]) -> NDArray[Any]:
    """Return the elements that a reduce_prod multiplies: the reduced axes become one first axis, in the order of the input."""
    over = axes(graph, op)
    factors = np.moveaxis(x, over, range(len(over)))
    return factors.reshape(-1, *factors.shape[len(over) :])


def over_axes(summarise: Callable[..., Any], graph: Graph, op: Op, x: NDArray[Any]) -> NDArray[Any]:
    """Apply a numpy reduction such as np.sum to the op's reduced axes; return the result in the shape of the output."""
    return np.asarray(summarise(x, axis=axes(graph, op)), x.dtype).reshape(infer(graph, op)[0])


def windows(graph: Graph, op: Op) -> Windows | None:
    """Return the windows, whole rows, of a mean of [1, h, w, c] over columns or, if w is 1, channels; else None."""
    x, over = graph.input(op), axes(graph, op)
    if len(x.shape) != 4 or x.shape[0] != 1:
        return None
    if x.shape[2] == 1:
        return ONE_TO_ONE if over == (3,) else None
    return (Window(), Window(x.shape[2], x.shape[2])) if over == (2,) else None


def axes_exist(graph: Graph, op: Op) -> bool:
    """the axes must be within the input's rank, and the input must not be empty"""
    shape = graph.input(op).shape
    within = all(-len(shape) <= int(axis) < len(shape) for axis in constant(graph, op, 1).ravel())
    return within and graph.input(op).elements > 0 and len(shape) > 0


@on_integers
def product_factor_is_small(graph: Graph, op: Op) -> bool:
    """the input scale divided by the n-th root of the output scale, for n factors, must be below 2^7"""
    return product_rescale(graph, op).shift < 8


CONSTRAINTS = (arity(2), input_is_int8, output_is_int8, operands_are_constant, axes_exist)
ALSO_INT16 = (arity(2), input_is_int8_or_int16, output_has_input_type, operands_are_constant, axes_exist)


def real_sum(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return real_outputs(over_axes(np.sum, graph, op, real_operand(arrays)))


def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return real_outputs(over_axes(np.mean, graph, op, real_operand(arrays)))


@np.errstate(over="ignore", invalid="ignore")
def real_prod(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    product, *others = _factors(graph, op, operand(arrays))  # in float32, which overflows where LiteRT's does
    for each in others:
        product = product * each
    return real_outputs(product.reshape(infer(graph, op)[0]))


# of mean and sum, which have one kernel
total = partial(
    OpSpec,
    infer=infer,
    reference=reference,
    constraints=CONSTRAINTS,
    windows=windows,
    family="reduction",
    rescale=requant,
    channelwise=True,
    scale="own",
    rounds_twice=True,
)

SPECS = (
    total("mean", constraints=ALSO_INT16, uint8="same", real=real),
    total("sum", real=real_sum),
    OpSpec(
        "reduce_prod",
        infer,
        reference_prod,
        (*CONSTRAINTS, product_factor_is_small),
        family="reduction",
        rescale=product_rescale,
        channelwise=True,
        real=real_prod,
    ),
)
