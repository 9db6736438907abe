"""Emitters of elementwise kernels, pooling, reductions, softmax and type conversions."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import array_type, itemsize
from ...kernels import geometry
from ...kernels.dsp import dense, prelu, sums
from ...ops import (
    activations,
    computed_operand,
    elementwise,
    extrema,
    int16_tables,
    log_softmax,
    mapped,
    pool,
    quantization,
    reduce,
    softmax,
    spec_of,
)
from ...ops.spec import hwc
from ..layer import Code, Layer
from .calls import (
    Emitter,
    Members,
    call,
    clamp,
    fused_activation,
    image_code,
    image_shapes,
    operand_members,
    plain_call,
    plain_code,
    shape,
    type_limits,
    types_note,
    window_note,
    zeros,
)


def _pool(layer: Layer) -> Code:
    attrs = layer.op.attrs
    return image_code(
        layer,
        image_shapes(layer),
        {"kernel": attrs["kernel"], "stride": attrs["stride"], "pad": tuple(before for before, _ in attrs["padding"])},
        {"away_from": pool.away_from(layer.op)},
        clamp(layer, attrs["activation"]),
        note=window_note(layer),
    )


def binary_members(layer: Layer) -> tuple[Members, Members]:
    """Return two groups of struct members of an op with two operands: the extents, and the zero points with the clamp."""
    shapes, zero_points = operand_members(layer)
    return shapes, {**zero_points, **clamp(layer, layer.op.attrs.get("activation", "none"))}


def _add(layer: Layer) -> Code:
    """Emit the C of add, sub and squared_difference, which rescale both operands to one scale."""
    first, second, output = elementwise.add_rescales(layer.graph, layer.op)
    sign = {"add": 1, "sub": -1}.get(layer.op.kind, 0)  # squared_difference does not read it
    return plain_code(
        layer,
        *binary_members(layer),
        {"left_shift": elementwise.add_left_shift(layer.graph, layer.op)},
        {"a_multiplier": first.multiplier, "a_shift": first.shift},
        {"b_multiplier": second.multiplier, "b_shift": second.shift, "b_sign": sign},
        {"out_multiplier": output.multiplier, "out_shift": output.shift},
        inputs=(0, 1),
        note=fused_activation(layer),
    )


def _add_linear(layer: Layer) -> Code:
    """Emit the C of add and sub for kernels that compute the output as one linear function of both operands."""
    found = sums.line(sums.sum_of(layer.graph, layer.op))
    assert found is not None
    n, h, w, c = geometry.extents(layer.output.shape)
    shapes = operand_members(layer)[0] if layer.row.params == "tw_add_broadcast_dsp" else {"shape": (n * h, w, c)}
    line = {"line": (found._asdict(), clamp(layer, layer.op.attrs["activation"]))}
    return plain_code(layer, shapes, line, inputs=(0, 1), note=fused_activation(layer))


def _mul_dsp(layer: Layer) -> Code:
    """Emit the C of mul for the DSP kernel, whose parameter struct contains a tw_mul."""
    graph, op = layer.graph, layer.op
    power = 1 << (32 + elementwise.mul_rescale(graph, op).shift)
    own = {"power": power, "sign": -int(dense.needs_sign(graph, op))}
    called = plain_call(layer, inputs=(0, 1), shapes=f"{layer.name}.mul")
    return Code(layer.struct({"mul": mul_members(layer)}, own), called, fused_activation(layer))


def mul_members(layer: Layer) -> list[Members]:
    """Return the members of the parameter struct tw_mul, in groups, each of which becomes one line of initialisers."""
    return [*binary_members(layer), elementwise.mul_rescale(layer.graph, layer.op)._asdict()]


def slope_members(slopes: activations.Slopes) -> tuple[Members, Members]:
    """Return multiplier and shift of two factors as members: for inputs at or above the zero point, and for inputs below it."""
    (positive, positive_shift), (negative, negative_shift) = slopes
    return (
        {"positive_multiplier": positive, "positive_shift": positive_shift},
        {"negative_multiplier": negative, "negative_shift": negative_shift},
    )


def _prelu(layer: Layer) -> Code:
    slopes = slope_members(activations.prelu_slopes(layer.graph, layer.op))
    return plain_code(layer, *operand_members(layer), *slopes, inputs=(0, 1))


def _prelu_dsp(layer: Layer) -> Code:
    """Emit the C of prelu for the DSP kernel, which takes linear functions of the input in place of multipliers and shifts.

    There is one function for inputs at or above the zero point, and a table of functions for inputs below it.
    """
    found = prelu.lines(prelu.prelu_of(layer.graph, layer.op))
    assert found is not None
    table = {"negative": layer.table("negative", found.negative.ravel(), "int32_t")}
    scale = {"in_zero": layer.input().zero_point, "shift": found.shift}
    return plain_code(layer, shape(layer), scale, {"positive": tuple(found.positive.tolist())}, table)


def _leaky_relu(layer: Layer) -> Code:
    return plain_code(layer, shape(layer), zeros(layer), *slope_members(activations.leaky_relu_slopes(layer.graph, layer.op)))


def _extremum(layer: Layer) -> Code:
    """Emit the C of maximum and minimum, which are logical_or and logical_and of bools."""
    larger = {"larger": int(extrema.takes_larger(layer.op))}
    return plain_code(layer, operand_members(layer)[0], larger, inputs=(0, 1))


def _compare(layer: Layer) -> Code:
    first, second = extrema.compare_rescales(layer.graph, layer.op)
    compare = extrema.COMPARISONS[layer.op.kind]
    return plain_code(
        layer,
        *operand_members(layer),
        {"left_shift": extrema.COMPARE_LEFT_SHIFT},
        {"a_multiplier": first.multiplier, "a_shift": first.shift},
        {"b_multiplier": second.multiplier, "b_shift": second.shift},
        {"holds": sum(1 << index for index, sign in enumerate((-1, 0, 1)) if compare(sign, 0))},
        inputs=(0, 1),
    )


def _select(layer: Layer) -> Code:
    operands = {name: geometry.extents(layer.input(index).shape) for index, name in enumerate(("condition", "a", "b"))}
    members = {**operands, "out": geometry.extents(layer.output.shape)}
    return plain_code(layer, members, {"bytes": itemsize(layer.output.dtype)}, inputs=(0, 1, 2))


def _reduction_code(layer: Layer, *members: Members) -> Code:
    """Return the C of a reduction: a parameter struct with the kept and reduced extents and `members`, and the call."""
    axes = reduce.axes(layer.graph, layer.op)
    groups = geometry.reduction(layer.input().shape, axes)
    assert groups is not None
    return plain_code(layer, groups._asdict(), *members, note=f"over axes {', '.join(map(str, axes))}")


def _arg_max(layer: Layer) -> Code:
    extents, axis = layer.input().shape, extrema.arg_axis(layer.graph, layer.op)
    members = {"outer": prod(extents[:axis]), "depth": extents[axis], "inner": prod(extents[axis + 1 :])}
    members["flip"] = -int(layer.op.kind == "arg_min")
    return plain_code(layer, members, note=f"along axis {axis}")


def _topk(layer: Layer) -> Code:
    x, k = layer.input(), extrema.count_of(layer.graph, layer.op)
    struct = layer.struct({"rows": x.elements // x.shape[-1], "depth": x.shape[-1], "k": k})
    addresses = [layer.address(tensor) for tensor in (x, *layer.graph.outputs_of(layer.op))]
    return Code(struct, call(layer.row.name, f"&{layer.name}", *addresses))


def _requantize(layer: Layer) -> Code:
    """Emit the C of quantize between integers of 8 or 4 bits, and of activations of the relu family that change the scale."""
    members, note = _requantization(layer)
    return plain_code(layer, *members, note=note)


def _requantization(layer: Layer) -> tuple[list[Members], str]:
    """Return the members of a tw_requantization, and the note on types of a quantize."""
    if spec_of(layer.op).family == "conversion":
        rescale, limits, note = quantization.requant(layer.graph, layer.op), type_limits(layer), types_note(layer)
    else:
        rescale, limits, note = elementwise.relu_rescale(layer.graph, layer.op), clamp(layer, layer.op.kind), ""
    return [shape(layer), {**zeros(layer), **limits}, rescale._asdict()], note


def _lookup(layer: Layer) -> Code:
    """Emit the C of an op that maps each byte of its one activation input to a byte, as a table [256] of the op's values.

    The table starts with the value of byte 128 (-128 as int8), since the index is byte - 128 modulo 256. Constant operands of
    the op are included in the values.
    """
    index = computed_operand(layer.graph, layer.op)
    assert index is not None
    inputs = np.arange(-128, 128).astype(np.int8).view(array_type(layer.input(index).dtype))
    values = mapped(layer.graph, layer.op, inputs)
    table = {"table": layer.table("table", values.view(np.int8), "int8_t")}
    return plain_code(layer, {"shape": hwc(layer.output.shape)}, table, inputs=(index,))


def _quantization(layer: Layer) -> Code:
    """Emit the C of quantize from float32, and of dequantize."""
    quantised = layer.output if layer.input().dtype == "float32" else layer.input()
    scale = {"scale": quantised.scale, "zero": quantised.zero_point}
    return plain_code(layer, shape(layer), scale, note=types_note(layer))


def _requantization_any(layer: Layer) -> Code:
    """Emit the C of quantize between integers of any width, and of activations of the relu family on int16."""
    members, note = _requantization(layer)
    return plain_code(
        layer,
        {"scale": {name: value for each in members for name, value in each.items()}},
        {"in_bytes": itemsize(layer.input().dtype), "out_bytes": itemsize(layer.output.dtype)},
        note=note,
    )


def _softmax_table(layer: Layer) -> Code:
    """Emit the C of softmax for the kernel with a table of exponentials, whose parameter struct contains a tw_softmax."""
    p = softmax.parameters(layer.graph, layer.op)
    exponentials = softmax.exponentials(p, softmax.counted(p))
    table = {"exponentials": layer.table("exponentials", exponentials, "int32_t")}
    called = plain_call(layer, shapes=f"{layer.name}.softmax")
    return Code(layer.struct({"softmax": [shape(layer), p._asdict()]}, table), called, "")


def _softmax(layer: Layer) -> Code:
    module = log_softmax if layer.row.params == "tw_log_softmax" else softmax
    return plain_code(layer, shape(layer), module.parameters(layer.graph, layer.op)._asdict())


def _softmax_s16(layer: Layer) -> Code:
    tables = {"exp": int16_tables.exp_table(), "reciprocal": int16_tables.reciprocal_table()}
    arrays = {name: layer.table(name, table, "int16_t") for name, table in tables.items()}
    return plain_code(layer, shape(layer), int16_tables.softmax_rescale(layer.graph, layer.op)._asdict(), arrays)


def _sigmoid_s16(layer: Layer) -> Code:
    table = layer.table("table", int16_tables.logistic_table(), "uint16_t")
    return plain_code(layer, shape(layer), int16_tables.scaling(layer.graph, layer.op)._asdict(), {"table": table})


CASTS = {"int8": "S8", "uint8": "U8", "int16": "S16", "int32": "S32", "int64": "S64", "float32": "F32", "bool": "BOOL"}


def _cast(layer: Layer) -> Code:
    types = {"from": f"TW_{CASTS[layer.input().dtype]}", "to": f"TW_{CASTS[layer.output.dtype]}"}
    return plain_code(layer, {"count": layer.input().elements}, types, note=types_note(layer))


EMITTERS: dict[str, Emitter] = {
    "tw_pool": _pool,
    "tw_add": _add,
    "tw_add_linear_dsp": _add_linear,
    "tw_add_broadcast_dsp": _add_linear,
    "tw_mul": lambda layer: plain_code(layer, *mul_members(layer), inputs=(0, 1), note=fused_activation(layer)),
    "tw_mul_dsp": _mul_dsp,
    "tw_extremum": _extremum,
    "tw_compare": _compare,
    "tw_select": _select,
    "tw_prelu": _prelu,
    "tw_prelu_dsp": _prelu_dsp,
    "tw_leaky_relu": _leaky_relu,
    "tw_lookup": _lookup,
    "tw_flip": lambda layer: plain_code(layer, shape(layer), note=types_note(layer)),
    "tw_softmax": _softmax,
    "tw_softmax_table_dsp": _softmax_table,
    "tw_log_softmax": _softmax,
    "tw_l2_normalization": lambda layer: plain_code(layer, shape(layer), {"in_zero": layer.input().zero_point}),
    "tw_softmax_s16_tables": _softmax_s16,
    "tw_sigmoid_s16": _sigmoid_s16,
    "tw_requantization": _requantize,
    "tw_requantization_any": _requantization_any,
    "tw_quantization": _quantization,
    "tw_casting": _cast,
    "tw_mean": lambda layer: _reduction_code(layer, zeros(layer), reduce.requant(layer.graph, layer.op)._asdict()),
    "tw_reduce_prod": lambda layer: _reduction_code(
        layer, zeros(layer), reduce.product_requant(layer.graph, layer.op)._asdict()
    ),
    "tw_reduce_extremum": lambda layer: _reduction_code(layer, {"larger": int(extrema.takes_larger(layer.op))}),
    "tw_arg_max": _arg_max,
    "tw_topk_v2": _topk,
}
