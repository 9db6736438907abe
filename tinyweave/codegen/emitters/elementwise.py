"""Emitters of kernels that compute from elements: sums, products, pools, means, lookups, conversions of types."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import itemsize
from ...kernels import geometry
from ...kernels.dsp import dense
from ...ops import (
    SPECS,
    activations,
    elementwise,
    extrema,
    log_softmax,
    pool,
    quantization,
    reduce,
    softmax,
)
from ...ops.spec import hwc
from ..layer import Code, Layer
from .calls import (
    Members,
    activation_note,
    clamp,
    image_code,
    operand_members,
    plain_call,
    plain_code,
    type_limits,
    types_note,
    window_note,
)


def emit_pool(layer: Layer) -> Code:
    attrs = layer.op.attrs
    return image_code(
        layer,
        {"in": hwc(layer.input().shape[1:]), "out": hwc(layer.output.shape[1:])},
        {"kernel": attrs["kernel"], "stride": attrs["stride"], "pad": tuple(before for before, _ in attrs["padding"])},
        {"away_from": pool.away_from(layer.op)} if pool.away_from(layer.op) else {},
        clamp(layer, attrs["activation"]),
        note=window_note(attrs["kernel"], attrs["stride"]) + activation_note(attrs["activation"]),
    )


def binary_members(layer: Layer) -> tuple[Members, Members]:
    shapes, zeros = operand_members(layer)
    return shapes, {**zeros, **clamp(layer, layer.op.attrs.get("activation", "none"))}


def emit_add(layer: Layer) -> Code:
    """add, sub and squared_difference, which rescale both operands to one scale."""
    first, second, output = elementwise.add_rescales(layer.graph, layer.op)
    sign = {"add": {"b_sign": 1}, "sub": {"b_sign": -1}}.get(layer.op.kind, {})
    return plain_code(
        layer,
        *binary_members(layer),
        {"left_shift": elementwise.add_left_shift(layer.graph, layer.op)},
        {"a_multiplier": first.multiplier, "a_shift": first.shift},
        {"b_multiplier": second.multiplier, "b_shift": second.shift, **sign},
        {"out_multiplier": output.multiplier, "out_shift": output.shift},
        inputs=(0, 1),
        note=activation_note(layer.op.attrs.get("activation", "none")).strip(),
    )


def emit_add_halved(layer: Layer) -> Code:
    """add and sub with DSP or MVE: the operand that is only halved is the first, the other one is rescaled."""
    plain = elementwise.halved(layer.graph, layer.op)
    assert plain is not None
    *operands, output = elementwise.add_rescales(layer.graph, layer.op)
    scaled, activation = operands[1 - plain], layer.op.attrs["activation"]
    multiplier = -scaled.multiplier if layer.op.kind == "sub" else scaled.multiplier
    n, h, w, c = geometry.extents(layer.output.shape)
    zeros = {"plain_zero": layer.input(plain).zero_point, "scaled_zero": layer.input(1 - plain).zero_point}
    own: tuple[Members, ...] = ({"shift": scaled.shift}, {"out_shift": output.shift})
    if layer.row.isa == "dsp":
        sign = -int(dense.needs_sign(layer.graph, layer.op))
        own = ({"exponent": -scaled.shift}, {"out_power": 1 << (32 + output.shift)}, {"sign": sign})
    return plain_code(
        layer,
        {"shape": (n * h, w, c)},
        {**zeros, "out_zero": layer.output.zero_point, **clamp(layer, activation)},
        {"multiplier": multiplier, **own[0]},
        {"out_multiplier": output.multiplier, **own[1]},
        *own[2:],
        inputs=(plain, 1 - plain),
        note=activation_note(activation).strip(),
    )


def emit_mul(layer: Layer) -> Code:
    return plain_code(layer, *mul_members(layer), inputs=(0, 1), note=activation_note(layer.op.attrs["activation"]).strip())


def emit_mul_dsp(layer: Layer) -> Code:
    graph, op = layer.graph, layer.op
    base = ({f"mul.{key}": value for key, value in line.items()} for line in mul_members(layer))
    power = 1 << (32 + elementwise.mul_rescale(graph, op).shift)
    params = layer.struct(*base, {"power": power, "sign": -int(dense.needs_sign(graph, op))})
    called = plain_call(layer, inputs=(0, 1), shapes=f"{layer.name}.mul")
    return Code(params, called, activation_note(op.attrs["activation"]).strip())


def mul_members(layer: Layer) -> list[Members]:
    rescale = elementwise.mul_rescale(layer.graph, layer.op)
    return [*binary_members(layer), {"multiplier": rescale.multiplier, "shift": rescale.shift}]


def slope_members(slopes: activations.Slopes) -> tuple[Members, Members]:
    (positive, positive_shift), (negative, negative_shift) = slopes
    return (
        {"positive_multiplier": positive, "positive_shift": positive_shift},
        {"negative_multiplier": negative, "negative_shift": negative_shift},
    )


def emit_prelu(layer: Layer) -> Code:
    slopes = slope_members(activations.prelu_slopes(layer.graph, layer.op))
    return Code(layer.struct(*operand_members(layer), *slopes), plain_call(layer, inputs=(0, 1)))


def emit_leaky_relu(layer: Layer) -> Code:
    return plain_code(
        layer,
        {"shape": hwc(layer.input().shape)},
        {"in_zero": layer.input().zero_point, "out_zero": layer.output.zero_point},
        *slope_members(activations.leaky_relu_slopes(layer.graph, layer.op)),
    )


def emit_extremum(layer: Layer) -> Code:
    larger = {"larger": int(layer.op.kind == "maximum")}
    return Code(layer.struct(operand_members(layer)[0], larger), plain_call(layer, inputs=(0, 1)))


def emit_reduce_extremum(layer: Layer) -> Code:
    groups = geometry.reduction(layer.input().shape, reduce.axes(layer.graph, layer.op))
    assert groups is not None
    larger = {"larger": int(layer.op.kind == "reduce_max")}
    axes = ", ".join(map(str, reduce.axes(layer.graph, layer.op)))
    return Code(layer.struct(groups._asdict(), larger), plain_call(layer), f"over axes {axes}")


def emit_arg_max(layer: Layer) -> Code:
    shape, axis = layer.input().shape, extrema.arg_axis(layer.graph, layer.op)
    extents = {"outer": prod(shape[:axis]), "depth": shape[axis], "inner": prod(shape[axis + 1 :])}
    return Code(layer.struct(extents), plain_call(layer), f"along axis {axis}")


def emit_requantization(layer: Layer) -> Code:
    """quantize, and relu and its like to another scale."""
    if layer.op.kind == "quantize":
        (multiplier, shift), limits = quantization.requant(layer.graph, layer.op), type_limits(layer)
    else:
        rescale = elementwise.relu_rescale(layer.graph, layer.op)
        multiplier, shift, limits = rescale.multiplier, rescale.shift, clamp(layer, layer.op.kind)
    return plain_code(
        layer,
        {"shape": hwc(layer.input().shape)},
        {"in_zero": layer.input().zero_point, "out_zero": layer.output.zero_point, **limits},
        {"multiplier": multiplier, "shift": shift},
        note=types_note(layer) if layer.op.kind == "quantize" else "",
    )


def emit_lookup(layer: Layer) -> Code:
    (values,) = SPECS[layer.op.kind].reference(layer.graph, layer.op, [np.arange(-128, 128, dtype=np.int8)])
    table = layer.table("table", values, "int8_t")
    return plain_code(layer, {"shape": hwc(layer.input().shape)}, {"table": table})


def emit_quantization(layer: Layer) -> Code:
    """quantize from float32, and dequantize."""
    whole_number = layer.output if layer.input().dtype == "float32" else layer.input()
    scale = {"scale": whole_number.scale, "zero": whole_number.zero_point}
    return Code(layer.struct({"shape": hwc(layer.input().shape)}, scale), plain_call(layer), types_note(layer))


def emit_requantization_any(layer: Layer) -> Code:
    source, target = layer.input(), layer.output
    multiplier, shift = quantization.requant(layer.graph, layer.op)
    scale = {"shape": hwc(source.shape), "in_zero": source.zero_point, "out_zero": target.zero_point}
    return plain_code(
        layer,
        {"scale": {**scale, **type_limits(layer), "multiplier": multiplier, "shift": shift}},
        {"in_bytes": itemsize(source.dtype), "out_bytes": itemsize(target.dtype)},
        note=types_note(layer),
    )


def emit_mean(layer: Layer) -> Code:
    multiplier, shift = reduce.requant(layer.graph, layer.op)
    groups = geometry.reduction(layer.input().shape, reduce.axes(layer.graph, layer.op))
    assert groups is not None
    axes = ", ".join(map(str, reduce.axes(layer.graph, layer.op)))
    return plain_code(
        layer,
        groups._asdict(),
        {"in_zero": layer.input().zero_point, "out_zero": layer.output.zero_point},
        {"multiplier": multiplier, "shift": shift},
        note=f"over axes {axes}",
    )


def emit_softmax(layer: Layer) -> Code:
    return plain_code(layer, {"shape": hwc(layer.input().shape)}, softmax.parameters(layer.graph, layer.op)._asdict())


def emit_log_softmax(layer: Layer) -> Code:
    return plain_code(layer, {"shape": hwc(layer.input().shape)}, log_softmax.parameters(layer.graph, layer.op)._asdict())


CASTS = {"int8": "S8", "uint8": "U8", "int16": "S16", "int32": "S32", "int64": "S64", "float32": "F32", "bool": "BOOL"}


def emit_cast(layer: Layer) -> Code:
    source, target = layer.input(), layer.output
    types = {"from": f"TW_{CASTS[source.dtype]}", "to": f"TW_{CASTS[target.dtype]}"}
    return plain_code(layer, {"count": source.elements}, types, note=f"{source.dtype} to {target.dtype}")
