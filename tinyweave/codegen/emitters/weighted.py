"""Emitters of kernels with weights: convolutions, dense layers, matrix products, LSTM and SVDF."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import ops
from ...ir import itemsize
from ...kernels import geometry, int16
from ...kernels.dsp import dense, depthwise, taps
from ...kernels.mve import weights as mve
from ...ops import batch_matmul, conv, fully_connected, spec_of
from ...ops.fixed_point import reduced_multiplier
from ...ops.recurrent import lstm, sequence, svdf
from ..layer import CTYPES, Code, Layer
from .calls import (
    Emitter,
    Members,
    call,
    clamp,
    fused_activation,
    image_calls,
    image_code,
    image_shapes,
    plain_call,
    plain_code,
    window_note,
    zeros,
)


def _conv(layer: Layer) -> Code:
    """Emit the C of a convolution whose kernel takes the struct tw_conv."""
    spec, (multiplier, shift) = spec_of(layer.op), conv.requant(layer.graph, layer.op)
    assert spec.weights is not None
    groups, weights, *shape = conv_members(layer)
    members: tuple[Members, ...] = (
        {"shape": (*shape[:-1], {**zeros(layer), **shape[-1]})},
        {**groups, **weights, "bias": bias_table(layer, spec.weights.bias)},
        {"multiplier": layer.table("multiplier", multiplier, "int32_t"), "shift": layer.table("shift", shift, "int8_t")},
    )
    return Code(weighted(layer, "conv", members), image_calls(layer), window_note(layer))


def _conv_s16(layer: Layer) -> Code:
    """Emit the C of a convolution of int16 maps, whose sums are rescaled in 64 bits unless its bias is int32."""
    spec, (multiplier, shift) = spec_of(layer.op), conv.requant(layer.graph, layer.op)
    assert spec.weights is not None
    wide = conv.sums_are_wide(layer.graph, layer.op)
    factors = reduced_multiplier(multiplier) if wide else multiplier
    table = layer.table("multiplier", factors, "int16_t" if wide else "int32_t")
    used = {"bias": bias_table(layer, spec.weights.bias), "multiplier": table}
    unused = dict.fromkeys(used, "NULL")
    usual, narrow = (used, unused) if wide else (unused, used)
    members: tuple[Members, ...] = (
        base_s16(layer),
        {**usual, "shift": layer.table("shift", shift, "int8_t")},
        {f"narrow_{name}": value for name, value in narrow.items()},
    )
    return image_code(layer, *members, note=window_note(layer))


def _conv_s16_word(layer: Layer) -> Code:
    """Emit the C of a convolution of int16 maps for the kernels with int32 sums."""
    arrays: Members = {
        "bias": layer.table("bias", int16.biases(layer.graph, layer.op), "int32_t"),
        "factor": layer.table("factor", int16.factors(layer.graph, layer.op), "int32_t"),
    }
    return image_code(layer, base_s16(layer), arrays, note=window_note(layer))


def base_s16(layer: Layer) -> Members:
    """Return the member `base` of the parameter structs of convolutions of int16 maps."""
    groups, weights, *shape = conv_members(layer)
    return {"base": (*shape, {**groups, **weights})}


def conv_members(layer: Layer) -> list[Members]:
    """Return struct members of a convolution: its groups, its weights, then its sizes and its clamp."""
    source, filters, attrs = ops.data(layer.graph, layer.op), layer.input(1), layer.op.attrs
    # 1 of a transposed convolution
    groups = source.shape[3] if spec_of(layer.op).channelwise else source.shape[3] // filters.shape[3]
    return [
        {"groups": groups},
        {"weights": weights_table(layer, filters.data)},
        image_shapes(layer),
        {"kernel": filters.shape[1:3], "stride": attrs["stride"], "dilation": attrs.get("dilation", (1, 1))}
        | {"pad": [before for before, _ in attrs["padding"]]},
        clamp(layer, attrs["activation"]),
    ]


def bias_table(layer: Layer, index: int, suffix: str = "bias") -> str:
    """Add the array of the bias, which is the op's input `index`, and return its C name; "NULL" if the op has no bias."""
    bias = layer.optional_input(index)
    return "NULL" if bias is None or bias.data is None else layer.table(suffix, bias.data, CTYPES[bias.dtype])


def less_zero_table(
    layer: Layer, bias: int | None, weights: int, zero: int, suffix: str = "bias", *, rows: int | None = None
) -> str:
    """Add an array of biases less the zero point times the sums of weights, which MVE kernels need, and return its C name.

    `bias` and `weights` are indices of the op's inputs; without a bias (None) the biases are 0. There are as many `rows` of
    weights as biases; None for the first axis of the weights.
    """
    given, values = None if bias is None else layer.optional_input(bias), layer.input(weights).data
    assert values is not None
    biases = 0 if given is None or given.data is None else given.data.astype(np.int64)
    return layer.table(suffix, mve.less_zero(biases, values.reshape(rows or len(values), -1), zero))


def _streamed_conv(layer: Layer) -> Code:
    """Emit the C of a convolution whose kernel reads its weights as one stream, by tw_conv_dsp or tw_depthwise_mve."""
    return image_code(layer, *streamed_members(layer, depthwise.whole(layer.graph, layer.op)), note=window_note(layer))


def _conv_scalar(layer: Layer) -> Code:
    """Emit the C of a convolution whose parameter struct has no more than its sizes and a weight stream."""
    sizes, streamed = streamed_members(layer, depthwise.whole(layer.graph, layer.op))
    return image_code(layer, sizes, {"stream": streamed["stream"]}, note=window_note(layer))


def _conv_mve(layer: Layer) -> Code:
    """Emit the C of a convolution for the MVE kernel, whose parameters also say how many windows it computes at once."""
    graph, op = layer.graph, layer.op
    own = {"windows": mve.windows_at_once(*conv.kernel_size(graph, op), layer.input().shape[3])}
    return image_code(layer, *streamed_members(layer, depthwise.whole(graph, op)), own, note=window_note(layer))


def _depthwise_dsp(layer: Layer) -> Code:
    """Emit the C of a depthwise convolution for the DSP kernels of tw_line.h."""
    graph, op = layer.graph, layer.op
    plane = depthwise.whole(graph, op)
    line = depthwise.function(*plane.kernel, plane.stride[1]) + of_isa(layer)
    at_a_time = {"block": depthwise.columns_at_a_time(graph, op), "rows": depthwise.rows_at_a_time(graph, op)}
    return image_code(layer, base_members(layer, plane), {"line": line, **at_a_time}, note=window_note(layer))


def of_isa(layer: Layer) -> str:
    """Return the suffix of the C functions for the kernel's instruction set: "" for DSP, else "_" and the set's name."""
    return "" if layer.row.isa == "dsp" else f"_{layer.row.isa}"


def _lean(layer: Layer) -> Code:
    """Emit the C of a convolution whose kernel needs no scratch: it reads windows in place, and padding from an array."""
    graph, op, zero = layer.graph, layer.op, layer.input().zero_point
    is_depthwise = spec_of(op).channelwise
    count = (taps if is_depthwise else dense).padding(graph, op)
    table = layer.table("padding", np.full(count, zero, np.int8), "int8_t") if count else "NULL"
    own: Members = {"taps": taps.function(graph, op) + of_isa(layer)} if is_depthwise else {}
    return image_code(
        layer, base_members(layer, depthwise.whole(graph, op)), {**own, "padding": table}, note=window_note(layer)
    )


def base_members(layer: Layer, plane: depthwise.Plane) -> Members:
    """Return the member `base` of a parameter struct: a struct tw_conv_dsp, with the sizes `plane` and the weight stream."""
    return {"base": streamed_members(layer, plane)}


def streamed_members(layer: Layer, plane: depthwise.Plane) -> list[Members]:
    """Return the members of the struct tw_conv_dsp, with which all parameter structs with a weight stream begin."""
    op, channels = layer.op, layer.input().shape[3]
    shape: tuple[Members, ...] = (
        {"in": (*plane.size, channels), "out": (*plane.out, layer.output.shape[3])},
        {"kernel": plane.kernel, "stride": plane.stride, "dilation": op.attrs["dilation"], "pad": plane.pad},
        {**zeros(layer), **clamp(layer, op.attrs["activation"])},
    )
    return [{"conv": shape}, {"stream": layer.stream(), "sign": -int(dense.needs_sign(layer.graph, op))}]


def weights_table(layer: Layer, weights: np.ndarray | None, suffix: str = "weights") -> str:
    """Add the array of an op's weights, in the layout of the kernel, and return its C name; `weights` must not be None."""
    assert weights is not None
    values = layer.row.weights(weights)
    return layer.table(suffix, values, f"{values.dtype}_t")


def weighted(layer: Layer, inner: str, members: Sequence[Members]) -> str:
    """Return the C definition of the layer's constant parameter struct, initialised with `members`.

    If the weights have a zero point, `members` initialise a nested struct instead, which is the member named `inner`; a second
    member, `weights_zero`, is the zero point.
    """
    zero = conv.weights_zero(layer.graph, layer.op)
    return layer.struct({inner: members}, {"weights_zero": zero}) if zero else layer.struct(*members)


def _fully_connected(layer: Layer) -> Code:
    in_zero, tables = layer.input().zero_point, {"weights": weights_table(layer, layer.input(1).data)}
    if layer.row.isa == "mve":  # its bias includes the contribution of the input's zero point
        in_zero = 0
        tables["bias"] = layer.table("bias", mve.wrapped(dense.filters(layer.graph, layer.op).bias))
    else:
        bias = layer.optional_input(2)
        tables["bias"] = "NULL" if bias is None or bias.data is None else layer.table("bias", bias.data.astype(np.int32))
    params = weighted(layer, "dense", ({"layer": dense_members(layer, in_zero)}, tables))
    return Code(params, plain_call(layer), fused_activation(layer))


def _fully_connected_dsp(layer: Layer) -> Code:
    """Emit the C of fully_connected for the DSP kernels, which read a weight stream."""
    members = dense_members(layer, layer.input().zero_point)
    return plain_code(layer, {"dense": members}, {"stream": layer.stream()}, note=fused_activation(layer))


def dense_members(layer: Layer, in_zero: int) -> tuple[Members, ...]:
    """Return the members of the struct tw_dense; `in_zero` is the zero point of the input that the kernel subtracts."""
    units, depth = layer.input(1).shape
    batch, (multiplier, shift) = layer.input().elements // depth, fully_connected.requant(layer.graph, layer.op)
    return (
        {"in": (1, batch, depth), "out": (1, batch, units)},
        {"in_zero": in_zero, "out_zero": layer.output.zero_point, **clamp(layer, layer.op.attrs["activation"])},
        {"per_channel": int(len(multiplier) > 1)},
        {"multiplier": layer.table("multiplier", multiplier, "int64_t"), "shift": layer.table("shift", shift, "int8_t")},
    )


def _batch_matmul(layer: Layer) -> Code:
    (a, b), attrs = batch_matmul.matrices(layer.graph, layer.op), layer.op.attrs
    (rows, depth), columns = a[-2:], b[-1]
    batch = np.broadcast_shapes(a[:-2], b[:-2], (1, 1, 1))
    twice, once = (of(layer.graph, layer.op) for of in (batch_matmul.rescale, batch_matmul.rescale_once))
    size = itemsize(layer.output.dtype)
    steps = {"a": (1, rows) if attrs["adj_x"] else (depth, 1), "b": (depth, 1) if attrs["adj_y"] else (1, columns)}
    (a_row, a_step), (b_col, b_step) = ([size * step for step in each] for each in steps.values())
    multiplier = twice.multiplier if size == 1 else int(reduced_multiplier(twice.multiplier))
    return plain_code(
        layer,
        {"rows": rows, "cols": columns, "depth": depth},
        {
            "batch": batch,
            "a_batch": geometry.repeated(a[:-2], rows * depth * size),
            "b_batch": geometry.repeated(b[:-2], depth * columns * size),
        },
        {"a_row": a_row, "a_step": a_step},
        {"b_col": b_col, "b_step": b_step},
        {"a_zero": layer.input().zero_point, "b_zero": layer.input(1).zero_point, "out_zero": layer.output.zero_point},
        {"multiplier": multiplier, "shift": once.shift if once.multiplier else twice.shift, "once": once.multiplier},
        inputs=(0, 1),
    )


def _lstm(layer: Layer) -> Code:
    return lstm_code(layer, *lstm_members(layer, lstm.by_cell(layer.graph, layer.op, lstm.BIAS)))


def _lstm_mve(layer: Layer) -> Code:
    """Emit the C of unidirectional_sequence_lstm for the MVE kernel, whose biases include the part of the zero points."""
    bias, weights, again = (lstm.by_cell(layer.graph, layer.op, first) for first in (lstm.BIAS, lstm.WEIGHTS, lstm.RECURRENT))
    members = lstm_members(layer, mve.less_zero(bias.astype(np.int64), weights, layer.input().zero_point))
    recurrent = layer.table("recurrent_bias", mve.less_zero(0, again, layer.output.zero_point))
    return lstm_code(layer, {"lstm": members}, {"recurrent_bias": recurrent})


def lstm_code(layer: Layer, *members: Members) -> Code:
    """Return a parameter struct with these members, and the call of the layer's kernel."""
    steps = layer.input().shape[lstm.time_and_batch(layer.graph, layer.op)[0]]
    return plain_code(layer, *members, inputs=(0, lstm.HIDDEN, lstm.CELL), note=f"{steps} steps")


def lstm_members(layer: Layer, bias: np.ndarray) -> list[Members]:
    """Return the members of the struct tw_lstm; `bias` are the biases [cell][gate] of the products with the input.

    The weights of a cell's four gates are stored side by side, since the gates share each input.
    """
    graph, op = layer.graph, layer.op
    p, (time, batch) = lstm.parameters(graph, op), lstm.time_and_batch(graph, op)
    extents, (cells, depth) = layer.input().shape, layer.input(lstm.WEIGHTS).shape
    steps = {time: 1 if time else extents[1], batch: 1 if batch else extents[1]}

    def scales(pairs: Sequence[tuple[int, int]]) -> Members:
        return dict(zip(("multiplier", "shift"), zip(*pairs, strict=True), strict=True))

    return [
        {"batch": extents[batch], "time": extents[time], "depth": depth, "cells": cells},
        {"batch_step": steps[batch], "time_step": steps[time]},
        zeros(layer),
        {"cell_bits": p.cell_bits, "cell_clip": p.cell_clip},
        {"in": scales(p.input_scales)},
        {"recurrent": scales(p.recurrent_scales)},
        p.hidden_scale._asdict(),
        {"weights": weights_table(layer, lstm.by_cell(graph, op, lstm.WEIGHTS))},
        {"recurrent_weights": weights_table(layer, lstm.by_cell(graph, op, lstm.RECURRENT), "recurrent_weights")},
        {"bias": layer.table("bias", bias)},
    ]


def _sequence(layer: Layer) -> Code:
    graph, op = layer.graph, layer.op
    p, (_, time, depth) = sequence.parameters(graph, op), layer.input().shape
    flags = {name: int(op.attrs[name]) for name in sequence.NUMBERS[op.kind]}
    variant = sequence.cell_bits(graph, op) if sequence.has_cell(op) else flags["reset_after" if op.kind == "gru" else "relu"]
    params = layer.struct(
        {"time": time, "depth": depth, "cells": layer.output.shape[-1]},
        {"reverse": flags["reverse"], "last": flags["last"]},
        {"variant": variant},
        zeros(layer),
        {"in_left": p.inputs.left, "recurrent_left": p.recurrence.left, "multiplier": p.activation},
        {"weights": weights_table(layer, sequence.by_gate(graph, op, sequence.WEIGHTS))},
        {"recurrent_weights": weights_table(layer, sequence.by_gate(graph, op, sequence.RECURRENT), "recurrent_weights")},
        sequence_biases(layer),
        {"in_multiplier": layer.table("in_multiplier", p.inputs.multiplier)},
        {"recurrent_multiplier": layer.table("recurrent_multiplier", p.recurrence.multiplier)},
    )
    indices = (sequence.STATE, sequence.CELL) if sequence.has_cell(op) else (sequence.STATE,)
    states = ("NULL" if t is None else layer.address(t) for t in (layer.optional_input(index) for index in indices))
    outputs = (layer.address(t) for t in graph.outputs_of(op))
    arguments = (f"&{layer.name}", layer.address(layer.input()), *states, *outputs, *layer.scratch)
    return Code(params, call(layer.row.name, *arguments), f"{time} steps")


def sequence_biases(layer: Layer) -> Members:
    """Return the biases of the struct tw_sequence. For the MVE kernels they include the part of the zero points."""
    if layer.row.isa != "mve":
        return {
            "bias": bias_table(layer, sequence.BIAS),
            "recurrent_bias": bias_table(layer, sequence.RECURRENT_BIAS, "recurrent_bias"),
        }
    return {
        "bias": less_zero_table(layer, sequence.BIAS, sequence.WEIGHTS, layer.input().zero_point),
        "recurrent_bias": less_zero_table(
            layer, sequence.RECURRENT_BIAS, sequence.RECURRENT, layer.output.zero_point, "recurrent_bias"
        ),
    }


def _svdf(layer: Layer) -> Code:
    return svdf_code(layer, *svdf_members(layer, bias_table(layer, svdf.BIAS)))


def _svdf_mve(layer: Layer) -> Code:
    """Emit the C of svdf for the MVE kernel, whose biases include the part of the zero points."""
    zero, units = layer.input(svdf.STATE).zero_point, layer.output.shape[1]
    of_units = less_zero_table(layer, svdf.BIAS, svdf.TIME_WEIGHTS, zero, rows=units)
    of_products = less_zero_table(layer, None, svdf.WEIGHTS, layer.input().zero_point, "product_bias")
    return svdf_code(layer, {"svdf": svdf_members(layer, of_units)}, {"product_bias": of_products})


def svdf_code(layer: Layer, *members: Members) -> Code:
    """Return a parameter struct with these members, and the call of the layer's kernel."""
    steps = layer.input(svdf.TIME_WEIGHTS).shape[1]
    return plain_code(layer, *members, inputs=(0, svdf.STATE), note=f"{steps} steps kept")


def svdf_members(layer: Layer, bias: str) -> list[Members]:
    """Return the members of the struct tw_svdf; `bias` is the C name of the array of biases, or "NULL"."""
    graph, op = layer.graph, layer.op
    (to_state, to_output), time = svdf.parameters(graph, op), layer.input(svdf.TIME_WEIGHTS)
    weights, state = layer.input(svdf.WEIGHTS), layer.input(svdf.STATE)
    assert weights.data is not None and time.data is not None
    batch, units = layer.output.shape
    return [
        {"batch": batch, "depth": weights.shape[1], "units": units, "rank": op.attrs["rank"]},
        {"steps": time.shape[1], "state_bytes": itemsize(state.dtype)},
        {"in_zero": layer.input().zero_point, "state_zero": state.zero_point, "out_zero": layer.output.zero_point},
        {"state_multiplier": to_state.multiplier, "state_shift": to_state.shift},
        to_output._asdict(),
        {"weights": layer.table("weights", weights.data, "int8_t")},
        {"time_weights": layer.table("time_weights", time.data, f"{time.dtype}_t")},
        {"bias": bias},
    ]


EMITTERS: dict[str, Emitter] = {
    "tw_conv": _conv,
    "tw_conv_offset": _conv,
    "tw_conv_s16": _conv_s16,
    "tw_conv_s16_word": _conv_s16_word,
    "tw_conv_dsp": _streamed_conv,
    "tw_conv_scalar": _conv_scalar,
    "tw_conv_mve": _conv_mve,
    "tw_conv_lean_dsp": _lean,
    "tw_depthwise_lean_dsp": _lean,
    "tw_depthwise_dsp": _depthwise_dsp,
    "tw_depthwise_mve": _streamed_conv,
    "tw_fully_connected": _fully_connected,
    "tw_fully_connected_offset": _fully_connected,
    "tw_fully_connected_dsp": _fully_connected_dsp,
    "tw_batch_matmul": _batch_matmul,
    "tw_lstm": _lstm,
    "tw_lstm_mve": _lstm_mve,
    "tw_sequence": _sequence,
    "tw_svdf": _svdf,
    "tw_svdf_mve": _svdf_mve,
}
