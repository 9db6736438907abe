"""Kinds that compute, on float32: what a float network gives before it is quantised. No kernel runs it.

`SPECS` has the int8 row's shapes, MACs and windows with other references and constraints. Sums are taken in float64 and
rounded once, so that they lie within a few units of float32 of LiteRT's, whose order of summation differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from . import (
    activations,
    batch_matmul,
    constraints,
    conv,
    elementwise,
    fully_connected,
    log_softmax,
    lstm,
    pool,
    reduce,
    resize,
    softmax,
)
from . import transpose_conv as transposed
from .spec import ACTIVATIONS, Arrays, OpSpec, OptionalArrays, biased, operand

Float = NDArray[np.float64]
LIMITS = ACTIVATIONS  # which clamp what `given` floats round to, too
ONE_SCALE = frozenset(  # what only integers need
    (
        constraints.input_is_int8,
        constraints.inputs_are_int8,
        constraints.input_is_int8_or_int4,
        constraints.input_is_narrow,
        constraints.inputs_are_narrow,
        constraints.output_is_int8,
        constraints.output_has_input_type,
        constraints.weights_are_symmetric_int8,
        constraints.bias_is_constant_int32,
        constraints.bias_is_constant,
        constraints.bounds_fit,
        conv.sums_fit_int16,
        activations.types_are_int8_or_int16,
        activations.output_step_is_large,
        activations.scales_are_alike,
        elementwise.input_is_not_negative,
        elementwise.inverse_root_is_large,
        elementwise.output_scale_is_large,
        elementwise.square_scale_is_large,
        elementwise.logistic_output_is_256th,
        fully_connected.scale_is_small,
        log_softmax.output_is_in_16ths,
        log_softmax.scale_is_in_range,
        lstm.states_are_quantised,
        lstm.weights_are_int8,
        resize.places_are_inside,
        softmax.scale_is_in_range,
        softmax.output_is_a_probability,
        transposed.bias_is_constant,
        transposed.input_is_int8_or_int16,
        transposed.output_has_input_type,
        transposed.sums_fit_int16,
    )
)


def _operand(arrays: OptionalArrays, index: int = 0) -> Float:
    return operand(arrays, index).astype(np.float64)


@np.errstate(over="ignore")
def _finish(values: NDArray[Any], activation: str = "none") -> Arrays:
    return [np.clip(values, *ACTIVATIONS[activation]).astype(np.float32)]


def _biased(op: Op, total: Float, arrays: OptionalArrays) -> Arrays:
    return _finish(biased(total, arrays), op.attrs["activation"])


def _convolution(sums: Callable[[Graph, Op, Float, Float], Float]) -> Callable[[Graph, Op, OptionalArrays], Arrays]:
    return lambda graph, op, arrays: _biased(op, sums(graph, op, _operand(arrays), _operand(arrays, 1)), arrays)


def _fully_connected(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    weights, (shape,) = _operand(arrays, 1), fully_connected.infer(graph, op)
    return _biased(op, (_operand(arrays).reshape(-1, weights.shape[1]) @ weights.T).reshape(shape), arrays)


def _average_pool_2d(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    total, count = pool.sums(graph, op, _operand(arrays))
    return _finish(total / count, op.attrs["activation"])


def _binary(compute: Callable[[Float, Float], Float]) -> Callable[[Graph, Op, OptionalArrays], Arrays]:
    return lambda graph, op, arrays: _finish(compute(_operand(arrays), _operand(arrays, 1)), op.attrs.get("activation", "none"))


def _unary(compute: Callable[[Float], Float]) -> Callable[[Graph, Op, OptionalArrays], Arrays]:
    return lambda graph, op, arrays: _finish(compute(_operand(arrays)))


@np.errstate(over="ignore")
def _logistic(x: Float) -> Float:
    return np.asarray(1 / (1 + np.exp(-x)))


def _leaky_relu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = _operand(arrays)
    return _finish(np.where(x > 0, x, x * np.float32(op.attrs["alpha"])))


def _gelu(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = _operand(arrays)
    if op.attrs["approximate"]:
        return _finish(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))
    return _finish(0.5 * x * elementwise.erfc(-x * np.sqrt(0.5)))


@np.errstate(divide="ignore", invalid="ignore")
def _rsqrt(x: Float) -> Float:
    return np.asarray(1 / np.sqrt(x))


def _softmax(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = _operand(arrays)
    exponential = np.exp((x - x.max(axis=-1, keepdims=True)) * np.float32(op.attrs["beta"]))
    return _finish(exponential / exponential.sum(axis=-1, keepdims=True))


def _log_softmax(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = _operand(arrays)
    below = x - x.max(axis=-1, keepdims=True)
    return _finish(below - np.log(np.exp(below).sum(axis=-1, keepdims=True)))


def _transpose_conv(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    sums = transposed.sums(graph, op, _operand(arrays, transposed.DATA), _operand(arrays, 1))
    return _finish(biased(sums, arrays, transposed.BIAS), op.attrs["activation"])


def _lstm(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, hidden, cell = (_operand(arrays, index) for index in (0, lstm.HIDDEN, lstm.CELL))
    weights, recurrent, biases = (
        [_operand(arrays, first + gate).T for gate in range(lstm.GATES)] for first in (lstm.WEIGHTS, lstm.RECURRENT, lstm.BIAS)
    )
    time_axis, clip, outputs = lstm.time_and_batch(graph, op)[0], op.attrs["cell_clip"] or np.inf, []
    for row in np.moveaxis(x, time_axis, 0):
        sums = [row @ w + hidden @ r + bias for w, r, bias in zip(weights, recurrent, biases, strict=True)]
        enter, forget, leave = (_logistic(sums[gate]) for gate in range(lstm.GATES) if gate != lstm.CANDIDATE)
        cell = np.clip(forget * cell + enter * np.tanh(sums[lstm.CANDIDATE]), -clip, clip)
        hidden = leave * np.tanh(cell)
        outputs.append(hidden)
    return [array.astype(np.float32) for array in (np.stack(outputs, time_axis), hidden, cell)]


def tensors_are_float32(graph: Graph, op: Op) -> bool:
    """all tensors must be float32 where the input is (a dynamic-range model has int8 weights: quantise its activations too)"""
    first = {"mean": 1, "resize_bilinear": 1, "transpose_conv": 0}.get(op.kind)  # the input that is integers
    inputs = [t for index, t in enumerate(graph.inputs_of(op)) if t is not None and index != first]
    return all(t.dtype == "float32" for t in (*inputs, *graph.outputs_of(op)))


REFERENCES: dict[str, Callable[[Graph, Op, OptionalArrays], Arrays]] = {
    "add": _binary(np.add),
    "average_pool_2d": _average_pool_2d,
    "batch_matmul": lambda graph, op, arrays: _finish(batch_matmul.product(op, _operand(arrays), _operand(arrays, 1))),
    "conv_2d": _convolution(conv.dense_sums),
    "depthwise_conv_2d": _convolution(conv.depthwise_sums),
    "elu": _unary(lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x)),
    "fully_connected": _fully_connected,
    "gelu": _gelu,
    "hard_swish": _unary(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "leaky_relu": _leaky_relu,
    "log_softmax": _log_softmax,
    "logistic": _unary(_logistic),
    "max_pool_2d": lambda graph, op, arrays: _finish(
        pool.highest(graph, op, _operand(arrays), float(np.finfo(np.float32).min)), op.attrs["activation"]
    ),
    "mean": lambda graph, op, arrays: _finish(reduce.over_axes(np.mean, graph, op, _operand(arrays))),
    "mul": _binary(np.multiply),
    "prelu": _binary(lambda x, alpha: np.where(x >= 0, x, x * alpha)),
    "relu": _unary(lambda x: np.maximum(x, 0)),
    "relu6": _unary(lambda x: np.clip(x, 0, 6)),
    "relu_n1_to_1": _unary(lambda x: np.clip(x, -1, 1)),
    "resize_bilinear": lambda graph, op, arrays: _finish(resize.mixed_floats(graph, op, operand(arrays))),
    "rsqrt": _unary(_rsqrt),
    "softmax": _softmax,
    "squared_difference": _binary(lambda a, b: (a - b) ** 2),
    "sub": _binary(np.subtract),
    "tanh": _unary(np.tanh),
    "transpose_conv": _transpose_conv,
    "unidirectional_sequence_lstm": _lstm,
}


def specs(rows: dict[str, OpSpec]) -> dict[str, OpSpec]:
    """Return the float32 rows, made from the int8 ones."""
    shared = {kind: [rule for rule in rows[kind].constraints if rule not in ONE_SCALE] for kind in REFERENCES}
    return {
        kind: replace(rows[kind], reference=reference, constraints=(*shared[kind], tensors_are_float32), rescale=OpSpec.rescale)
        for kind, reference in REFERENCES.items()
    }
