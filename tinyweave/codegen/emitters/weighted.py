"""Emitters of kernels with weights: convolutions, dense layers, products of matrices, LSTM and SVDF."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ... import ops
from ...ir import Tensor, itemsize
from ...kernels import geometry
from ...kernels.dsp import dense, depthwise, taps
from ...kernels.mve import weights as mve
from ...ops import (
    batch_matmul,
    conv,
    fully_connected,
    lstm,
    svdf,
    transpose_conv,
)
from ...ops.fixed_point import reduced_multiplier
from ...ops.spec import hwc
from ..layer import CTYPES, Code, Layer
from .calls import Members, activation_note, clamp, image_calls, image_code, plain_call, plain_code, window_note


def emit_conv(layer: Layer) -> Code:
    """Return a call of a kernel that takes tw_conv, on int16 maps tw_conv_s16."""
    graph, op = layer.graph, layer.op
    if op.kind == "transpose_conv":
        return convolution(layer, layer.optional_input(transpose_conv.BIAS), 1, transpose_conv.requant(graph, op))
    groups = layer.input().shape[3] if op.kind == "depthwise_conv_2d" else conv.groups(graph, op)
    return convolution(layer, layer.optional_input(2), groups, conv.requant(graph, op))


def emit_streamed_conv(layer: Layer) -> Code:
    """Return a call of a kernel that takes tw_conv_dsp, or a struct with no more members than that."""
    return image_code(layer, *streamed_members(layer, depthwise.whole(layer.graph, layer.op)), note=streamed_note(layer))


def emit_conv_mve(layer: Layer) -> Code:
    graph, op = layer.graph, layer.op
    own = {"windows": mve.windows_at_once(*conv.kernel_size(graph, op), layer.input().shape[3])}
    return image_code(layer, *streamed_members(layer, depthwise.whole(graph, op)), own, note=streamed_note(layer))


def emit_depthwise_dsp(layer: Layer) -> Code:
    """Return the parameters and the call; a map of one column is taken for a row."""
    graph, op = layer.graph, layer.op
    plane = depthwise.plane(graph, op)
    line = depthwise.function(*plane.kernel, plane.stride[1]) + of_isa(layer)
    at_a_time = {"block": depthwise.columns_at_a_time(graph, op), "rows": depthwise.rows_at_a_time(graph, op)}
    return image_code(layer, *base_members(layer, plane), {"line": line, **at_a_time}, note=streamed_note(layer))


def of_isa(layer: Layer) -> str:
    """Return the end of the names of functions that are there for the kernel's instruction set besides DSP."""
    return "" if layer.row.isa == "dsp" else f"_{layer.row.isa}"


def emit_lean(layer: Layer) -> Code:
    """Return the parameters and the call of a kernel that reads windows where they lie, and padding from a table."""
    graph, op, zero = layer.graph, layer.op, layer.input().zero_point
    is_depthwise = op.kind == "depthwise_conv_2d"
    count = (taps if is_depthwise else dense).padding(graph, op)
    table = layer.table("padding", np.full(count, zero, np.int8), "int8_t") if count else "NULL"
    own: Members = {"taps": taps.function(graph, op) + of_isa(layer)} if is_depthwise else {}
    return image_code(
        layer, *base_members(layer, depthwise.whole(graph, op)), {**own, "padding": table}, note=streamed_note(layer)
    )


def base_members(layer: Layer, plane: depthwise.Plane) -> list[Members]:
    """Return the members of a struct whose first one, `base`, is a tw_conv_dsp."""
    return [{f"base.{key}": value for key, value in members.items()} for members in streamed_members(layer, plane)]


def streamed_members(layer: Layer, plane: depthwise.Plane) -> list[Members]:
    """Return the members of tw_conv_dsp, with which the structs of other kernels that read a stream begin."""
    graph, op, channels, stream = layer.graph, layer.op, layer.input().shape[3], layer.row.stream
    assert stream is not None
    geometry_and_clamp: tuple[Members, ...] = (
        {"in": (*plane.size, channels), "out": (*plane.out, layer.output.shape[3])},
        {"kernel": plane.kernel, "stride": plane.stride, "dilation": op.attrs["dilation"]},
        {"pad": plane.pad, "groups": channels if op.kind == "depthwise_conv_2d" else 1},
        {"in_zero": layer.input().zero_point, "out_zero": layer.output.zero_point, **clamp(layer, op.attrs["activation"])},
    )
    table = layer.table("weights", stream(graph, op), "uint32_t")
    conv_members: list[Members] = [{f"conv.{key}": value for key, value in line.items()} for line in geometry_and_clamp]
    return [*conv_members, {"stream": table, "sign": -int(dense.needs_sign(graph, op))}]


def streamed_note(layer: Layer) -> str:
    attrs, kernel = layer.op.attrs, conv.kernel_size(layer.graph, layer.op)
    return window_note(kernel, attrs["stride"]) + activation_note(attrs["activation"])


def convolution(layer: Layer, bias: Tensor | None, groups: int, rescale: tuple[NDArray[np.int32], NDArray[np.int8]]) -> Code:
    """Return a call of it, given the bias; rescale: (multiplier, shift) per output channel."""
    source, weights, attrs = ops.data(layer.graph, layer.op), layer.input(1).data, layer.op.attrs
    assert weights is not None
    kernel, dilation, (multiplier, shift) = weights.shape[1:3], attrs.get("dilation", (1, 1)), rescale
    wide = layer.output.dtype == "int16"
    zeros = {} if wide else {"in_zero": source.zero_point, "out_zero": layer.output.zero_point}
    factors = (reduced_multiplier(multiplier), "int16_t") if wide else (multiplier, "int32_t")
    members: tuple[Members, ...] = (
        {"in": hwc(source.shape[1:]), "out": hwc(layer.output.shape[1:])},
        {"kernel": kernel, "stride": attrs["stride"], "dilation": dilation},
        {"pad": tuple(before for before, _ in attrs["padding"]), "groups": groups},
        {**zeros, **clamp(layer, attrs["activation"])},
        {
            "weights": weights_table(layer),
            "bias": "NULL" if bias is None or bias.data is None else layer.table("bias", bias.data, CTYPES[bias.dtype]),
        },
        {"multiplier": layer.table("multiplier", *factors), "shift": layer.table("shift", shift, "int8_t")},
    )
    params = weighted(layer, "conv", members)
    note = window_note(kernel, attrs["stride"], dilation) + activation_note(attrs["activation"])
    return Code(params, image_calls(layer), note)


def weights_table(layer: Layer) -> str:
    """Return the C name of the weights, which lie as the kernel reads them."""
    weights = layer.input(1).data
    assert weights is not None
    return layer.table("weights", layer.row.weights(weights), "int8_t")


def weighted(layer: Layer, inner: str, members: Sequence[Members]) -> str:
    """Return the parameters of an op with weights; where these have a zero point, as member `inner` of a struct with both."""
    zero = conv.weights_zero(layer.graph, layer.op)
    if zero == 0:
        return layer.struct(*members)
    return layer.struct(*({f"{inner}.{key}": v for key, v in m.items()} for m in members), {"weights_zero": zero})


def emit_fully_connected(layer: Layer) -> Code:
    in_zero, tables = layer.input().zero_point, {"weights": weights_table(layer)}
    if layer.row.isa == "mve":  # its bias holds what the input's zero point adds
        in_zero = 0
        tables["bias"] = layer.table("bias", mve.wrapped(dense.filters(layer.graph, layer.op).bias))
    else:
        bias = layer.optional_input(2)
        tables["bias"] = "NULL" if bias is None or bias.data is None else layer.table("bias", bias.data)
    params = weighted(layer, "dense", fully_connected_members(layer, in_zero, tables))
    return Code(params, plain_call(layer), activation_note(layer.op.attrs["activation"]).strip())


def emit_fully_connected_dsp(layer: Layer) -> Code:
    members, stream = fully_connected_members(layer, layer.input().zero_point, {}), layer.row.stream
    assert stream is not None
    table = layer.table("weights", stream(layer.graph, layer.op), "uint32_t")
    return plain_code(
        layer,
        *({f"dense.{key}": v for key, v in line.items()} for line in members),
        {"stream": table},
        note=activation_note(layer.op.attrs["activation"]).strip(),
    )


def fully_connected_members(layer: Layer, in_zero: int, tables: Members) -> tuple[Members, ...]:
    units, depth = layer.input(1).shape
    batch, (multiplier, shift) = layer.input().elements // depth, fully_connected.requant(layer.graph, layer.op)
    return (
        {"in": (1, batch, depth), "out": (1, batch, units)},
        {"in_zero": in_zero, "out_zero": layer.output.zero_point, **clamp(layer, layer.op.attrs["activation"])},
        tables,
        {
            "multiplier": layer.table("multiplier", multiplier, "int64_t"),
            "shift": layer.table("shift", shift, "int8_t"),
            "per_channel": int(len(multiplier) > 1),
        },
    )


def emit_batch_matmul(layer: Layer) -> Code:
    (a, b), attrs = batch_matmul.matrices(layer.graph, layer.op), layer.op.attrs
    (rows, depth), columns = a[-2:], b[-1]
    batch = np.broadcast_shapes(a[:-2], b[:-2], (1, 1, 1))
    rescale = batch_matmul.rescale(layer.graph, layer.op)
    return plain_code(
        layer,
        {"rows": rows, "cols": columns, "depth": depth},
        {
            "batch": batch,
            "a_batch": geometry.repeated(a[:-2], rows * depth),
            "b_batch": geometry.repeated(b[:-2], depth * columns),
        },
        dict(zip(("a_row", "a_step"), (1, rows) if attrs["adj_x"] else (depth, 1), strict=True)),
        dict(zip(("b_col", "b_step"), (depth, 1) if attrs["adj_y"] else (1, columns), strict=True)),
        {"a_zero": layer.input().zero_point, "b_zero": layer.input(1).zero_point, "out_zero": layer.output.zero_point},
        {"multiplier": rescale.multiplier, "shift": rescale.shift},
        inputs=(0, 1),
    )


def emit_lstm(layer: Layer) -> Code:
    """Return the parameters and the call; the weights of a cell's four gates lie together, since they share each input."""
    graph, op = layer.graph, layer.op
    p, (time, batch) = lstm.parameters(graph, op), lstm.time_and_batch(graph, op)
    extents, (cells, depth) = layer.input().shape, layer.input(lstm.WEIGHTS).shape
    steps = {time: 1 if time else extents[1], batch: 1 if batch else extents[1]}

    def together(first: int) -> np.ndarray:
        gates = [layer.input(first + gate).data for gate in range(lstm.GATES)]
        return np.stack([data for data in gates if data is not None], axis=1)

    def scales(pairs: Sequence[tuple[int, int]]) -> Members:
        return dict(zip(("multiplier", "shift"), zip(*pairs, strict=True), strict=True))

    return plain_code(
        layer,
        {"batch": extents[batch], "time": extents[time], "depth": depth, "cells": cells},
        {"batch_step": steps[batch], "time_step": steps[time]},
        {"in_zero": layer.input().zero_point, "out_zero": layer.output.zero_point},
        {"cell_bits": p.cell_bits, "cell_clip": p.cell_clip},
        {"in": scales(p.input_scales)},
        {"recurrent": scales(p.recurrent_scales)},
        {"multiplier": p.hidden_scale[0], "shift": p.hidden_scale[1]},
        {"weights": layer.table("weights", together(lstm.WEIGHTS), "int8_t")},
        {"recurrent_weights": layer.table("recurrent_weights", together(lstm.RECURRENT), "int8_t")},
        {"bias": layer.table("bias", together(lstm.BIAS))},
        inputs=(0, lstm.HIDDEN, lstm.CELL),
        note=f"{extents[time]} steps",
    )


def emit_svdf(layer: Layer) -> Code:
    graph, op = layer.graph, layer.op
    p, time, bias = svdf.parameters(graph, op), layer.input(svdf.TIME_WEIGHTS), layer.optional_input(svdf.BIAS)
    weights, state = layer.input(svdf.WEIGHTS), layer.input(svdf.STATE)
    assert weights.data is not None and time.data is not None
    batch, units = layer.output.shape
    return plain_code(
        layer,
        {"batch": batch, "depth": weights.shape[1], "units": units, "rank": op.attrs["rank"]},
        {"steps": time.shape[1], "state_bytes": itemsize(state.dtype)},
        {"in_zero": layer.input().zero_point, "state_zero": state.zero_point, "out_zero": layer.output.zero_point},
        {"state_multiplier": p.to_memory[0], "state_shift": p.to_memory[1]},
        {"multiplier": p.to_output[0], "shift": p.to_output[1]},
        {"weights": layer.table("weights", weights.data, "int8_t")},
        {"time_weights": layer.table("time_weights", time.data, f"{time.dtype}_t")},
        {"bias": "NULL" if bias is None or bias.data is None else layer.table("bias", bias.data)},
        inputs=(0, svdf.STATE),
        note=f"{time.shape[1]} steps kept",
    )
