"""The float32 forms of op kinds, which float networks use before quantisation. No C kernel computes them.

Sums are computed in float64 and rounded once. LiteRT adds float32 numbers in another order, so its results differ by a few
units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .spec import ACTIVATIONS, ON_INTEGERS, Arrays, OpSpec, OptionalArrays, Reference, biased, operand

Float = NDArray[np.float64]


def real_operand(arrays: OptionalArrays, index: int = 0) -> Float:
    """Return the array of the input `index` as float64."""
    return operand(arrays, index).astype(np.float64)


@np.errstate(over="ignore")
def real_outputs(values: NDArray[Any], activation: str = "none") -> Arrays:
    """Return the only output of an op: `values`, clamped by the fused activation and rounded to float32."""
    return [np.clip(values, *ACTIVATIONS[activation]).astype(np.float32)]


def real_unary(compute: Callable[..., Float], *numbers: str) -> Reference:
    """Return the float32 reference of an elementwise kind from a float64 function of operand and attributes `numbers`."""

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        return real_outputs(np.asarray(compute(real_operand(arrays), *(op.attrs[name] for name in numbers))))

    return real


def real_binary(compute: Callable[[Float, Float], Float]) -> Reference:
    """Return the float32 reference of an elementwise kind with two operands that broadcast, from a float64 function."""

    @np.errstate(divide="ignore", invalid="ignore")
    def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        values = compute(real_operand(arrays), real_operand(arrays, 1))
        return real_outputs(values, op.attrs.get("activation", "none"))

    return real


def real_layer(sums: Callable[[Graph, Op, Float, Float], Float]) -> Reference:
    """Return the float32 reference of a layer: `sums` of graph, op, input and weights, plus bias, then the activation."""

    def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
        total = sums(graph, op, real_operand(arrays), real_operand(arrays, 1))
        return real_outputs(biased(total, arrays), op.attrs["activation"])

    return real


@np.errstate(over="ignore")
def logistic(x: Float) -> Float:
    return np.asarray(1 / (1 + np.exp(-x)))


def tensors_are_float32(graph: Graph, op: Op) -> bool:
    """all tensors must be float32 if the input is"""
    # index of the integer input
    first = {"mean": 1, "reduce_prod": 1, "resize_bilinear": 1, "sum": 1, "transpose_conv": 0}.get(op.kind)
    inputs = [t for index, t in enumerate(graph.inputs_of(op)) if t is not None and index != first]
    return all(t.dtype in ("float32", "bool") for t in (*inputs, *graph.outputs_of(op)))


def float_form(spec: OpSpec) -> OpSpec | None:
    """Return the OpSpec of a kind for float32 tensors instead of integers, or None if `spec` has no `real` function."""
    if spec.real is None:
        return None
    constraints = (*(each for each in spec.constraints if each not in ON_INTEGERS), tensors_are_float32)
    return replace(spec, reference=spec.real, constraints=constraints, rescale=OpSpec.rescale)
