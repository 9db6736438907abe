"""A float graph and the scales of its activations as an int8 graph, in TFLite's scheme.

In: a Graph that keeps `rules.RULES`, a Quant per activation. Out: a checked Graph with int8 inputs and outputs. Weights lie in
[-127, 127], or are int4, with a scale per output channel; biases are int32 with the scale of their sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Quant, Tensor, array_type, limits, rebuild, verify
from ..ops import SPECS, check, lstm
from ..ops.fixed_point import round_half_away
from .rules import LEAST_SCALE, RULES, Groups, check_rules, is_number

CLIPPED = np.linspace(1.0, 0.4, 31)  # parts of the range of 4-bit weights that are tried
MOST_BIAS = 1 << 30  # steps: sums, of which the bias is a part, stay far from 2^31


def affine(low: float, high: float, dtype: str = "int8", least_scale: float = LEAST_SCALE) -> Quant:
    """Return the scale and zero point of [low, high], widened to hold 0, which they represent exactly."""
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    if low == high:
        return Quant((1.0,), (0,))  # always 0
    least, most = limits(dtype)
    scale = float(np.float32(max((high - low) / (most - least), least_scale)))
    return Quant((scale,), (int(np.clip(round(least - low / scale), least, most)),))


def interval(quant: Quant, dtype: str = "int8") -> tuple[float, float]:
    """Return the least and the greatest real number that a tensor of one scale holds."""
    least, most = ((level - quant.zero_point[0]) * quant.scale[0] for level in limits(dtype))
    return least, most


def quantised(values: NDArray[Any], quant: Quant, dtype: str = "int8") -> NDArray[Any]:
    """Return real numbers as integers; those outside the range become its ends."""
    least, most = limits(dtype)
    scale, zero = broadcast(quant, values.ndim)
    steps = round_half_away(values.astype(np.float64) / scale) + zero
    return np.clip(steps, least, most).astype(array_type(dtype))


def dequantised(values: NDArray[Any], quant: Quant) -> NDArray[np.float32]:
    """Return the real numbers that integers stand for."""
    scale, zero = broadcast(quant, values.ndim)
    return ((values.astype(np.float64) - zero) * scale).astype(np.float32)


def as_real(tensor: Tensor, values: NDArray[Any]) -> NDArray[Any]:
    """Return the real numbers that a tensor's values stand for."""
    return values if tensor.quant is None else dequantised(values, tensor.quant)


def as_integers(tensor: Tensor, values: NDArray[Any]) -> NDArray[Any]:
    """Return real numbers as a tensor holds them."""
    return values if tensor.quant is None else quantised(values, tensor.quant, tensor.dtype)


def integer_constant(tensor: Tensor, quant: Quant, dtype: str = "int8") -> Tensor:
    """Return a constant as integers; raise CompileError where one of its values is no finite number."""
    return replace(tensor, dtype=dtype, quant=quant, data=quantised(finite(tensor), quant, dtype))


def broadcast(quant: Quant, rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scales and zero points in a shape that broadcasts to a tensor of this rank."""
    return along(np.array(quant.scale), quant.axis, rank), along(np.array(quant.zero_point, np.float64), quant.axis, rank)


def along(values: NDArray[Any], axis: int | None, rank: int) -> NDArray[Any]:
    """Return one value, or one per channel, in a shape that broadcasts along an axis."""
    return values.reshape([-1 if a == axis else 1 for a in range(rank)])


@dataclass(frozen=True)
class WeightForm:
    """How an op's weights are kept: dtype, int8 or int4; a scale per channel, chosen from the weights if none are given."""

    dtype: str = "int8"
    scales: NDArray[np.float64] | None = None


INT8 = WeightForm()


def to_int8(
    graph: Graph,
    found: Groups,
    quants: Mapping[str, Quant],
    name: str | None = None,
    *,
    weights: Mapping[str, WeightForm] = MappingProxyType({}),
) -> Graph:
    """Return the int8 graph of a float one; `quants` has the scale of each group of `found`.

    weights: the form of the weights of an op, by its name; int8 where there is none. Raise CompileError where an op has no
    rule, or would break a constraint of its int8 kernel.
    """
    check_rules(graph)
    tensors = {t.name: t for t in graph.tensors.values() if not is_number(t) or t.role == "constant"}
    of = {tensor: quants[found.group(tensor)] for tensor in found.of}
    for key in (key for key in of if key in graph.tensors):
        tensors[key] = replace(graph.tensors[key], dtype="int16" if key in found.cells else "int8", quant=of[key])
    ops: list[Op] = []
    for op in graph.ops:
        inputs = list(op.inputs)
        for index, tensor in enumerate(graph.inputs_of(op)):
            if (op.name, index) in found.requantised and tensor is not None:
                inputs[index] = copy = found.requantised[op.name, index]
                tensors[copy] = replace(tensor, name=copy, dtype="int8", quant=of[copy])
                ops.append(Op(f"quantize_for_{op.name}_{index}", "quantize", (tensor.name,), (copy,)))
        form = weights.get(op.name, INT8)
        ops.append(_with_constants(graph, replace(op, inputs=tuple(inputs)), of, tensors, form))
    init = tuple(_first_value(graph, op, tensors) for op in graph.init)
    return check(verify(rebuild(graph, name=name or graph.name, tensors=tensors, ops=tuple(ops), init=init)))


def _first_value(graph: Graph, op: Op, tensors: dict[str, Tensor]) -> Op:
    """Return the op that gives a state its first value, on integers."""
    state = tensors[op.outputs[0]]
    assert state.quant is not None
    return replace(op, inputs=(_put(tensors, op, integer_constant(graph.input(op), state.quant, state.dtype)),))


def _with_constants(graph: Graph, op: Op, of: Mapping[str, Quant], tensors: dict[str, Tensor], form: WeightForm) -> Op:
    """Return the op on int8 constants, which are put among `tensors` under names of their own."""
    rule, inputs = RULES[op.kind], list(op.inputs)
    if rule.recurrent:
        return _with_gates(graph, op, of[op.inputs[0] or ""].scale[0], tensors)
    weighted = {1, rule.bias} if rule.weights is not None else set()
    for index, name in enumerate(op.inputs):
        tensor = None if name is None or index in weighted else graph.tensors.get(name)
        if tensor is None or tensor.data is None or not is_number(tensor):
            continue
        data = finite(tensor)
        fits = rule.tied or not data.any()  # nothing but 0 fits any scale
        quant = of[op.outputs[0]] if fits and op.outputs[0] in of else affine(data.min(initial=0), data.max(initial=0))
        inputs[index] = _put(tensors, op, integer_constant(tensor, quant))
    if rule.weights is not None:
        x, weights = of[op.inputs[SPECS[op.kind].data] or ""], graph.input(op, 1)
        if weights.data is None:
            raise CompileError("must be constant", "export the model with its weights", op=op, tensor=weights)
        bias = graph.optional_input(op, rule.bias)
        channels = weights.shape[rule.weights]
        real = np.zeros(channels, np.float32) if bias is None else finite(bias)
        scales = weight_scales(finite(weights), rule.weights, real, x.scale[0], form)
        inputs += [None] * (rule.bias + 1 - len(inputs))
        quant = Quant(tuple(map(float, scales)), (0,) * channels, rule.weights)
        inputs[1] = _put(tensors, op, integer_constant(weights, quant, form.dtype))
        name = bias.name if bias else f"{op.name}.bias"
        inputs[rule.bias] = _put(tensors, op, constant_bias(name, real, x.scale[0], scales))
    return replace(op, inputs=tuple(inputs))


def _with_gates(graph: Graph, op: Op, x_scale: float, tensors: dict[str, Tensor]) -> Op:
    """Return an LSTM on int8 weights, one scale for each gate's, and int32 biases."""
    inputs = list(op.inputs)
    for gate in range(lstm.GATES):
        for index in (lstm.WEIGHTS + gate, lstm.RECURRENT + gate):
            weights = graph.input(op, index)
            quant = Quant((max(float(np.float32(np.abs(finite(weights)).max(initial=0) / 127)), LEAST_SCALE),), (0,))
            inputs[index] = _put(tensors, op, integer_constant(weights, quant))
        bias, scale = graph.input(op, lstm.BIAS + gate), tensors[inputs[lstm.WEIGHTS + gate] or ""].scale
        product = Quant((float(np.float32(x_scale * scale)),), (0,))
        steps = np.clip(round_half_away(finite(bias).astype(np.float64) / (x_scale * scale)), -MOST_BIAS, MOST_BIAS)
        inputs[lstm.BIAS + gate] = _put(tensors, op, replace(bias, dtype="int32", quant=product, data=steps.astype(np.int32)))
    return replace(op, inputs=tuple(inputs))


def weight_scales(
    weights: NDArray[Any], axis: int, bias: NDArray[Any], x_scale: float, form: WeightForm = INT8
) -> NDArray[np.float64]:
    """Return a scale per output channel: the given ones, or those that fit the weights; all let int32 hold the bias.

    int8 holds the greatest weight; 4 bits have the scale of least square error, beyond which weights are clipped.
    """
    scales = form.scales
    if scales is None:
        channels = np.moveaxis(weights.astype(np.float64), axis, 0).reshape(weights.shape[axis], -1)
        scales = np.abs(channels).max(axis=1, initial=0) / limits(form.dtype)[1]
        if form.dtype == "int4":
            scales = _least_error(channels, scales)
        scales[scales == 0] = scales.max(initial=0) or 1 / 127  # a channel without weights: any scale that its bias bears
    scales = np.maximum(scales, np.abs(bias.astype(np.float64)) / (x_scale * MOST_BIAS))
    return np.asarray(np.maximum(scales, LEAST_SCALE).astype(np.float32), np.float64)


def _least_error(channels: NDArray[np.float64], largest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each row the scale of int4 with the least square error, a part of the one that holds all values."""
    least, most = limits("int4")
    best, error = largest.copy(), np.full(len(channels), np.inf)
    for factor in CLIPPED:
        scales = np.where(largest > 0, largest * factor, 1.0)[:, None]
        lost = ((np.clip(round_half_away(channels / scales), least, most) * scales - channels) ** 2).sum(axis=1)
        best, error = np.where(lost < error, largest * factor, best), np.minimum(lost, error)
    return np.asarray(best)


def constant_bias(name: str, bias: NDArray[Any], x_scale: float, scales: NDArray[np.float64], dtype: str = "int32") -> Tensor:
    """Return a bias as int32, or as int64 for int16 activations, of which 46 bits are used."""
    quant = Quant(tuple(map(float, (x_scale * scales).astype(np.float32))), (0,) * len(scales), 0)
    least, most = (-(2**31), 2**31 - 1) if dtype == "int32" else (1 - 2**46, 2**46 - 1)
    steps = round_half_away(bias.astype(np.float64) / (x_scale * scales))
    return Tensor(name, bias.shape, dtype, quant, np.clip(steps, least, most).astype(array_type(dtype)), "constant")


def finite(tensor: Tensor) -> NDArray[Any]:
    """Return a constant's values; raise CompileError where one of them is no finite number."""
    assert tensor.data is not None
    if not np.isfinite(tensor.data).all():
        raise CompileError("holds values that are not finite numbers", "train or export the model again", tensor=tensor)
    return tensor.data


def _put(tensors: dict[str, Tensor], op: Op, tensor: Tensor) -> str:
    """Add a constant under its name, or one of its own where another op has that one with other values."""
    present = tensors.get(tensor.name)
    same = present is not None and present.quant == tensor.quant and np.array_equal(present.data, tensor.data)  # type: ignore[arg-type]
    if present is not None and present.dtype != "float32" and not same:
        tensor = replace(tensor, name=f"{tensor.name}.of_{op.name}")
    tensors[tensor.name] = tensor
    return tensor.name
