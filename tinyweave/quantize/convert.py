"""Convert a float graph to int8 in TFLite's scheme, given the scales of its activations.

Weights are int8 in [-127, 127], or int4, with a scale per output channel; int32 biases have the product of both scales.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Quant, Tensor, array_type, limits, rebuild, verify
from ..ops import SPECS, check
from ..ops.fixed_point import round_half_away
from ..ops.recurrent import lstm, sequence
from ..ops.spec import LEAST_SCALE
from .scale_groups import ScaleGroups, check_quantisable, is_float

INT4_CLIPPING = np.linspace(1.0, 0.4, 31)  # ranges of 4-bit weights to try, relative to the largest magnitude
MOST_BIAS = 1 << 30  # largest quantised bias: the accumulator, which starts with the bias, stays far from 2^31


def affine(low: float, high: float, dtype: str = "int8", least_scale: float = LEAST_SCALE) -> Quant:
    """Return the Quant that maps [low, high], widened to include 0, to all integers of `dtype`; [0, 0] has the scale 1."""
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    if low == high:
        return Quant((1.0,), (0,))  # always 0
    least, most = limits(dtype)
    scale = float(np.float32(max((high - low) / (most - least), least_scale)))
    return Quant((scale,), (int(np.clip(round(least - low / scale), least, most)),))


def interval(quant: Quant, dtype: str = "int8") -> tuple[float, float]:
    """Return the least and the greatest real number that integers of `dtype` represent with a per-tensor `quant`."""
    least, most = ((level - quant.zero_point[0]) * quant.scale[0] for level in limits(dtype))
    return least, most


def quantised(values: NDArray[Any], quant: Quant, dtype: str = "int8") -> NDArray[Any]:
    """Return real numbers as integers of `dtype`, rounded half away from 0 and saturated."""
    least, most = limits(dtype)
    scale, zero = broadcast(quant, values.ndim)
    steps = round_half_away(values.astype(np.float64) / scale) + zero
    return np.clip(steps, least, most).astype(array_type(dtype))


def dequantised(values: NDArray[Any], quant: Quant) -> NDArray[np.float32]:
    """Return the real numbers that integers represent, scale * (value - zero point), in float32."""
    scale, zero = broadcast(quant, values.ndim)
    return ((values.astype(np.float64) - zero) * scale).astype(np.float32)


def as_real(tensor: Tensor, values: NDArray[Any]) -> NDArray[Any]:
    """Dequantise values of a tensor by the tensor's scale; return them unchanged if it has none."""
    return values if tensor.quant is None else dequantised(values, tensor.quant)


def as_integers(tensor: Tensor, values: NDArray[Any]) -> NDArray[Any]:
    """Quantise real numbers to the type and scale of a tensor; return integers, or numbers for which it has no scale."""
    return values if tensor.quant is None or values.dtype == tensor.dtype else quantised(values, tensor.quant, tensor.dtype)


def quantised_constant(tensor: Tensor, quant: Quant, dtype: str = "int8") -> Tensor:
    """Return a float constant quantised to `dtype` with the scale `quant`; raise CompileError if it holds NaN or infinity."""
    return replace(tensor, dtype=dtype, quant=quant, data=quantised(finite_data(tensor), quant, dtype))


def broadcast(quant: Quant, rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scales and the zero points of `quant`, each in a shape that broadcasts against a tensor of this rank."""
    scale, zero_point = np.array(quant.scale), np.array(quant.zero_point, np.float64)
    return along(scale, quant.axis, rank), along(zero_point, quant.axis, rank)


def along(values: NDArray[Any], axis: int | None, rank: int) -> NDArray[Any]:
    """Reshape a vector to broadcast along one axis of a tensor of this rank; the axis None is only for one element."""
    return values.reshape([-1 if a == axis else 1 for a in range(rank)])


@dataclass(frozen=True)
class WeightFormat:
    """The type of an op's weights, "int8" or "int4", and their scale per output channel; None chooses it from the weights."""

    dtype: str = "int8"
    scales: NDArray[np.float64] | None = None


INT8 = WeightFormat()


def to_int8(
    graph: Graph,
    groups: ScaleGroups,
    quants: Mapping[str, Quant],
    *,
    weights: Mapping[str, WeightFormat] = MappingProxyType({}),
) -> Graph:
    """Convert a float graph from `simplify_float` to int8; raise CompileError if an op has no int8 form.

    `quants` maps scale group to scale, `weights` op name to the format of weights that are not int8.
    """
    check_quantisable(graph)
    tensors = {t.name: t for t in graph.tensors.values() if not is_float(t) or t.role == "constant"}
    of = {tensor: quants[groups.group(tensor)] for tensor in groups.parent}
    for key in (key for key in of if key in graph.tensors):
        tensors[key] = replace(graph.tensors[key], dtype=groups.dtype(key), quant=of[key])
    ops: list[Op] = []
    for op in graph.ops:
        inputs = list(op.inputs)
        for index, tensor in enumerate(graph.inputs_of(op)):
            if (op.name, index) in groups.requantised and tensor is not None:
                inputs[index] = copy = groups.requantised[op.name, index]
                tensors[copy] = replace(tensor, name=copy, dtype=groups.dtype(copy), quant=of[copy])
                ops.append(Op(f"quantize_for_{op.name}_{index}", "quantize", (tensor.name,), (copy,)))
        # the integers of a dequantize op, such as an image of bytes, are converted to the scale that the int8 ops read
        own = replace(op, kind="quantize" if op.kind == "dequantize" else op.kind, inputs=tuple(inputs))
        ops.append(_with_integer_constants(graph, own, of, tensors, weights.get(op.name, INT8)))
    init = tuple(_initial_state(graph, op, tensors) for op in graph.init)
    return check(verify(rebuild(graph, tensors=tensors, ops=tuple(ops), init=init)))


def _initial_state(graph: Graph, op: Op, tensors: dict[str, Tensor]) -> Op:
    """Return the op that initialises a state, with its constant quantised; the constant is added to `tensors`."""
    state = tensors[op.outputs[0]]
    assert state.quant is not None
    return replace(op, inputs=(_add(tensors, op, quantised_constant(graph.input(op), state.quant, state.dtype)),))


def _with_integer_constants(
    graph: Graph, op: Op, of: Mapping[str, Quant], tensors: dict[str, Tensor], form: WeightFormat
) -> Op:
    """Return the op with its float constants quantised, and added to `tensors`; `of` has the activations' scales."""
    spec, inputs = SPECS[op.kind], list(op.inputs)
    if spec.family == "recurrent":
        return _with_integer_gates(graph, op, of[op.inputs[0] or ""].scale[0], tensors)
    if spec.family == "sequence":
        return _with_integer_rows(graph, op, of, tensors)
    weighted = {1, spec.weights.bias} if spec.weights is not None else set()
    for index, name in enumerate(op.inputs):
        tensor = None if name is None or index in weighted else graph.tensors.get(name)
        if tensor is None or tensor.data is None or not is_float(tensor):
            continue
        data = finite_data(tensor)
        takes_any = spec.shares_scale or not data.any()  # 0 is exact on every scale
        quant = affine(data.min(initial=0), data.max(initial=0))
        if takes_any and op.outputs[0] in of:
            quant = of[op.outputs[0]]
        elif spec.family == "comparison":
            quant = _with_same_scale(data, of[op.inputs[1 - index] or ""], quant)
        inputs[index] = _add(tensors, op, quantised_constant(tensor, quant))
    if spec.weights is not None:
        axis, place = spec.weights.axis, spec.weights.bias
        x, weights = of[op.inputs[spec.data] or ""], graph.input(op, 1)
        if weights.data is None:
            raise CompileError("must be constant", "export the model with its weights", op=op, tensor=weights)
        bias, channels = graph.optional_input(op, place), weights.shape[axis]
        real = np.zeros(channels, np.float32) if bias is None else finite_data(bias)
        scales = weight_scales(finite_data(weights), axis, real, x.scale[0], form)
        inputs += [None] * (place + 1 - len(inputs))
        quant = Quant(tuple(map(float, scales)), (0,) * channels, axis)
        inputs[1] = _add(tensors, op, quantised_constant(weights, quant, form.dtype))
        name = bias.name if bias else f"{op.name}.bias"
        inputs[place] = _add(tensors, op, quantised_bias(name, real, x.scale[0], scales))
    return replace(op, inputs=tuple(inputs))


def _with_same_scale(data: NDArray[Any], other: Quant, own: Quant) -> Quant:
    """Return the scale for a constant operand of a comparison: `other`, the other operand's, if `data` is in its range."""
    low, high = interval(other)
    return other if low <= data.min(initial=low) and data.max(initial=high) <= high else own


def _with_integer_gates(graph: Graph, op: Op, x_scale: float, tensors: dict[str, Tensor]) -> Op:
    """Return an LSTM with int8 weights and int32 biases, one scale per gate and matrix; constants are added to `tensors`."""
    inputs = list(op.inputs)
    for gate in range(lstm.GATES):
        for index in (lstm.WEIGHTS + gate, lstm.RECURRENT + gate):
            weights = graph.input(op, index)
            largest = np.abs(finite_data(weights)).max(initial=0)
            quant = Quant((max(float(np.float32(largest / 127)), LEAST_SCALE),), (0,))
            inputs[index] = _add(tensors, op, quantised_constant(weights, quant))
        bias, scale = graph.input(op, lstm.BIAS + gate), tensors[inputs[lstm.WEIGHTS + gate] or ""].scale
        product = Quant((float(np.float32(x_scale * scale)),), (0,))
        steps = np.clip(round_half_away(finite_data(bias).astype(np.float64) / (x_scale * scale)), -MOST_BIAS, MOST_BIAS)
        inputs[lstm.BIAS + gate] = _add(tensors, op, replace(bias, dtype="int32", quant=product, data=steps.astype(np.int32)))
    return replace(op, inputs=tuple(inputs))


def _with_integer_rows(graph: Graph, op: Op, of: Mapping[str, Quant], tensors: dict[str, Tensor]) -> Op:
    """Return an op of the family "sequence" with int8 weights, one scale per row, int32 biases and integer initial states."""
    inputs, hidden = list(op.inputs), of[op.outputs[0]]
    for index, bias_index, source in (
        (sequence.WEIGHTS, sequence.BIAS, of[op.inputs[0] or ""]),
        (sequence.RECURRENT, sequence.RECURRENT_BIAS, hidden),
    ):
        weights, bias = graph.input(op, index), graph.optional_input(op, bias_index)
        rows = len(finite_data(weights))
        real = np.zeros(rows, np.float32) if bias is None else finite_data(bias)
        scales = weight_scales(finite_data(weights), 0, real, source.scale[0])
        inputs[index] = _add(tensors, op, quantised_constant(weights, Quant(tuple(map(float, scales)), (0,) * rows, 0)))
        if bias is not None:
            inputs[bias_index] = _add(tensors, op, quantised_bias(bias.name, real, source.scale[0], scales))
    for index, output in zip((sequence.STATE, sequence.CELL), op.outputs, strict=False):
        state = graph.tensors.get(inputs[index] or "") if index < len(inputs) else None  # None for a requantised copy
        if state is not None and state.data is not None:
            dtype = "int16" if index == sequence.CELL else "int8"
            inputs[index] = _add(tensors, op, quantised_constant(state, of[output], dtype))
    return replace(op, inputs=tuple(inputs))


def weight_scales(
    weights: NDArray[Any], axis: int, bias: NDArray[Any], x_scale: float, form: WeightFormat = INT8
) -> NDArray[np.float64]:
    """Return the scale of the weights per output channel (along `axis`), large enough that the quantised bias fits int32.

    If `form` has no scales, int8 weights get the scale that clips nothing, and int4 weights the scale of least square error.
    """
    scales = form.scales
    if scales is None:
        channels = np.moveaxis(weights.astype(np.float64), axis, 0).reshape(weights.shape[axis], -1)
        scales = np.abs(channels).max(axis=1, initial=0) / limits(form.dtype)[1]
        if form.dtype == "int4":
            scales = _least_error(channels, scales)
        scales[scales == 0] = scales.max(initial=0) or 1 / 127  # all weights of the channel are 0: any scale is exact
    scales = np.maximum(scales, np.abs(bias.astype(np.float64)) / (x_scale * MOST_BIAS))
    return np.asarray(np.maximum(scales, LEAST_SCALE).astype(np.float32), np.float64)


def _least_error(channels: NDArray[np.float64], unclipped: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each row the int4 scale of least square error, of INT4_CLIPPING times `unclipped`, which clips nothing."""
    least, most = limits("int4")
    best, error = unclipped.copy(), np.full(len(channels), np.inf)
    for factor in INT4_CLIPPING:
        scales = np.where(unclipped > 0, unclipped * factor, 1.0)[:, None]
        lost = ((np.clip(round_half_away(channels / scales), least, most) * scales - channels) ** 2).sum(axis=1)
        best, error = np.where(lost < error, unclipped * factor, best), np.minimum(lost, error)
    return np.asarray(best)


def quantised_bias(name: str, bias: NDArray[Any], x_scale: float, scales: NDArray[np.float64], dtype: str = "int32") -> Tensor:
    """Return a bias of scale x_scale * scales[i] for channel i: int32, or int64 beside int16 activations, then below 2^46."""
    quant = Quant(tuple(map(float, (x_scale * scales).astype(np.float32))), (0,) * len(scales), 0)
    least, most = (-(2**31), 2**31 - 1) if dtype == "int32" else (1 - 2**46, 2**46 - 1)
    steps = round_half_away(bias.astype(np.float64) / (x_scale * scales))
    return Tensor(name, bias.shape, dtype, quant, np.clip(steps, least, most).astype(array_type(dtype)), "constant")


def finite_data(tensor: Tensor) -> NDArray[Any]:
    """Return the values of a constant; raise CompileError if it holds NaN or infinity."""
    assert tensor.data is not None
    if not np.isfinite(tensor.data).all():
        raise CompileError("holds values that are not finite numbers", "train or export the model again", tensor=tensor)
    return tensor.data


def _add(tensors: dict[str, Tensor], op: Op, tensor: Tensor) -> str:
    """Add a constant of `op` to `tensors` and return its name, with `.of_<op>` if another op quantised it differently."""
    present = tensors.get(tensor.name)
    same = present is not None and present.quant == tensor.quant and np.array_equal(present.data, tensor.data)  # type: ignore[arg-type]
    if present is not None and present.dtype != "float32" and not same:
        tensor = replace(tensor, name=f"{tensor.name}.of_{op.name}")
    tensors[tensor.name] = tensor
    return tensor.name
