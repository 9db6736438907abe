"""Conversions: quantize (float32 to integers, or integers of one scale to another scale), dequantize (to float32), cast.

quantize saturates floats beyond 2^31 steps and maps NaN to the lowest value; TFLite's C leaves both undefined. cast ignores
scales: integers keep their low bits, floats are truncated and saturate, and NaN becomes the highest integer. Source: TFLite
quantize.cc, reference/requantize.h, dequantize.h, cast.cc.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, array_type, limits
from .constraints import arity, per_tensor
from .fixed_point import Rescale, quantize_multiplier, requantize, round_half_away
from .spec import Arrays, OpSpec, OptionalArrays, infer_same, operand, windows_one_to_one

INTEGERS = ("int8", "uint8", "int16")
QUANTIZE_PAIRS = {("float32", t) for t in INTEGERS} | {(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")}
QUANTIZE_PAIRS |= {("int16", "int8"), ("int16", "int16"), ("int16", "int32"), ("int32", "int8"), ("int32", "int16")}
QUANTIZE_PAIRS |= {("int8", "int16")}


def requant(graph: Graph, op: Op) -> Rescale:
    """Return the factor that rescales an integer input minus its zero point to the output scale."""
    return quantize_multiplier(graph.input(op).scale / graph.output(op).scale)


def reference_quantize(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, out = operand(arrays), graph.output(op)
    if x.dtype == np.float32:
        return [quantized(x, out)]
    scaled = requantize(x.astype(np.int64) - graph.input(op).zero_point, *requant(graph, op)).astype(np.float64)
    return [_integers(scaled, out)]


@np.errstate(over="ignore")
def quantized(reals: NDArray[np.float32], tensor: Tensor) -> NDArray[Any]:
    """Return real numbers as integers of a tensor's quantisation, rounded as TFLite does."""
    return _integers(round_half_away(np.nan_to_num(reals / np.float32(tensor.scale), nan=-1e30)).astype(np.float64), tensor)


def _integers(scaled: NDArray[np.float64], tensor: Tensor) -> NDArray[Any]:
    """Add the zero point of a tensor to whole multiples of its scale, and clamp the sums to the range of its type."""
    return np.clip(scaled + tensor.zero_point, *limits(tensor.dtype)).astype(array_type(tensor.dtype))


def add_floats(graph: Graph, like: Graph) -> Graph:
    """Return `graph` with conversions from and to float32 at the inputs and outputs that are float32 in `like`."""
    tensors, first, last = dict(graph.tensors), list[Op](), list[Op]()
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    for names, reals, ops in ((inputs, like.inputs, first), (outputs, like.outputs, last)):
        for position, (name, real) in enumerate(zip(names, reals, strict=True)):
            if like.tensors[real].dtype == "float32" != tensors[name].dtype:
                kind, ends = ("quantize", (real, name)) if ops is first else ("dequantize", (name, real))
                ops.append(Op(f"{kind} {real}", kind, ends[:1], ends[1:]))
                tensors[real], names[position] = Tensor(real, tensors[name].shape, "float32"), real
    return replace(graph, tensors=tensors, ops=(*first, *graph.ops, *last), inputs=tuple(inputs), outputs=tuple(outputs))


def each_byte(graph: Graph, op: Op) -> NDArray[np.uint8]:
    """Return the output byte of a quantize between one-byte types for each input byte 0 .. 255."""
    values = np.arange(256, dtype=np.uint8).view(array_type(graph.input(op).dtype))
    (found,) = reference_quantize(graph, op, [values])
    return found.view(np.uint8)


def reference_dequantize(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, values = graph.input(op), operand(arrays).astype(np.int32)
    return [np.float32(x.scale) * (values - x.zero_point).astype(np.float32)]


def reference_cast(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, target = operand(arrays), np.dtype(graph.output(op).dtype)
    if x.dtype != np.float32 or target.kind in "fb":
        return [x.astype(target)]
    info = np.iinfo(target)
    low, high = np.float32(info.min), np.float32(info.max)
    inside = (x < high) & (x > low)
    return [np.where(inside, np.where(inside, x, 0).astype(target), np.where(x <= low, info.min, info.max).astype(target))]


def quantize_types_are_supported(graph: Graph, op: Op) -> bool:
    """must convert float32 to int8, uint8, int16; int8 to or from uint8, int16; int16 to or from int32; int32 to int8"""
    return (graph.input(op).dtype, graph.output(op).dtype) in QUANTIZE_PAIRS


def dequantize_types_are_supported(graph: Graph, op: Op) -> bool:
    """must convert int8, uint8 or int16 to float32"""
    return graph.input(op).dtype in INTEGERS and graph.output(op).dtype == "float32"


def integers_are_per_tensor(graph: Graph, op: Op) -> bool:
    """integer tensors must be quantised with one scale and zero point"""
    return all(per_tensor(t) for t in (graph.input(op), graph.output(op)) if t.dtype != "float32")


def shape_is_kept(graph: Graph, op: Op) -> bool:
    """input and output must have the same shape"""
    return graph.input(op).shape == graph.output(op).shape


conversion = partial(OpSpec, infer=infer_same, windows=windows_one_to_one)
SPECS = (
    conversion(
        "quantize",
        family="conversion",
        reference=reference_quantize,
        constraints=(arity(1), quantize_types_are_supported, integers_are_per_tensor),
        channelwise=True,
        rescale=lambda graph, op: graph.input(op).dtype == "float32" or requant(graph, op),
    ),
    conversion(
        "dequantize",
        family="conversion",
        reference=reference_dequantize,
        constraints=(arity(1), dequantize_types_are_supported, integers_are_per_tensor),
        channelwise=True,
        scale="own",
    ),
    conversion("cast", family="cast", reference=reference_cast, constraints=(arity(1), shape_is_kept)),
)
