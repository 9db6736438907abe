"""Write the call of each kernel in C: a function per type of its parameters, from a Layer to that struct and the call.

In: a Layer. Out: Code. Every number comes from the same function of `ops` that the reference uses; numbers at a call site
have names, since they are members of the struct.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from .. import ir, ops
from ..ir import Tensor, itemsize
from ..kernels import copies, geometry
from ..kernels.dsp import dense, depthwise
from ..kernels.mve import weights as mve
from ..ops import (
    SPECS,
    activations,
    batch_matmul,
    conv,
    data_movement,
    elementwise,
    extrema,
    fully_connected,
    layout,
    log_softmax,
    lstm,
    pool,
    quantization,
    reduce,
    resize,
    softmax,
    svdf,
    transpose_conv,
)
from ..ops.fixed_point import reduced_multiplier
from ..ops.spec import activation_range, hwc
from . import c
from .layer import CTYPES, Code, Layer

Members = Mapping[str, object]


def call(function: str, *arguments: str) -> str:
    """A call, its arguments broken over lines that fit."""
    text, line = "", f"{function}("
    indent = " " * len(line)
    for position, argument in enumerate(arguments):
        piece = argument + (", " if position + 1 < len(arguments) else ");")
        if len(line) + len(piece) > 110 and line.strip() and position:
            text, line = f"{text}{line.rstrip()}\n", indent
        line += piece
    return text + line


def plain_call(layer: Layer, params: str = "", inputs: Sequence[int] = (0,), shapes: str = "") -> str:
    """The call of the layer's kernel on whole tensors; `params` names its parameter struct where that is not the layer's,
    `shapes` the one that has the operands' extents where that is not the same."""
    if layer.maps is not None:
        return row_call(layer, params or layer.name, inputs, shapes)
    sources = [layer.address(layer.input(index)) for index in inputs]
    return call(layer.kernel, f"&{params or layer.name}", *sources, layer.address(layer.output), *layer.scratch)


def row_call(layer: Layer, params: str, inputs: Sequence[int], shapes: str = "") -> str:
    """The call of the layer's kernel in a fused stage, on the row that is due or a part of it, as `plain_call`."""
    assert layer.maps is not None
    sources = []
    for index in inputs:
        tensor = layer.input(index)
        extents = f"{shapes or params}.{'in' if len(inputs) == 1 else 'ab'[index]}"
        view = "tw_whole_s4" if tensor.dtype == "int4" else "tw_whole"
        constant = f"{view}({layer.address(tensor)}, tw_fold({extents}))" if tensor.data is not None else ""
        sources.append(constant or layer.maps[tensor.name])
    if layer.row.sums(layer.graph, layer.op):
        to, sums = f"{layer.maps[layer.output.name]}.data", f"(int32_t *)({layer.sums})"
        return call(f"{layer.kernel}_rows", f"&{params}", *sources, to, layer.range, sums)
    return call(f"{layer.kernel}_part", f"&{params}", *sources, layer.maps[layer.output.name], layer.range, *layer.scratch)


def image_calls(layer: Layer) -> str:
    """The call of a kernel that takes one image, for each image of the batch."""
    if layer.maps is not None:
        return row_call(layer, layer.name, (SPECS[layer.op.kind].data,))
    source, target, images = ops.data(layer.graph, layer.op), layer.output, layer.output.shape[0]
    inner, outer = layer.address(source), layer.address(target)
    if images == 1:
        return call(layer.kernel, f"&{layer.name}", inner, outer, *layer.scratch)
    steps = (f" + i * {tensor.bytes // images}" for tensor in (source, target))
    return loop(images, call(layer.kernel, f"&{layer.name}", inner + next(steps), outer + next(steps), *layer.scratch))


def loop(count: int, body: str) -> str:
    """C that runs `body` for i from 0 to `count`."""
    inside = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"for (int32_t i = 0; i < {count}; ++i) {{\n{inside}\n}}"


def clamp(layer: Layer, activation: str) -> Members:
    low, high = activation_range(activation, layer.output)
    return {"out_min": low, "out_max": high}


def window_note(kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int] = (1, 1)) -> str:
    """3x3/2 reads: a 3x3 kernel, stride 2; unequal strides and dilations are written out."""
    step = f"{stride[0]}" if stride[0] == stride[1] else f"{stride[0]}x{stride[1]}"
    spread = "" if tuple(dilation) == (1, 1) else f" dilated {dilation[0]}x{dilation[1]}"
    return f"{kernel[0]}x{kernel[1]}/{step}{spread}"


def emit_conv(layer: Layer) -> Code:
    """A call of a kernel that takes tw_conv, on int16 maps tw_conv_s16."""
    graph, op = layer.graph, layer.op
    if op.kind == "transpose_conv":
        return convolution(layer, layer.optional_input(transpose_conv.BIAS), 1, transpose_conv.requant(graph, op))
    groups = layer.input().shape[3] if op.kind == "depthwise_conv_2d" else conv.groups(graph, op)
    return convolution(layer, layer.optional_input(2), groups, conv.requant(graph, op))


def emit_streamed_conv(layer: Layer) -> Code:
    """A call of a kernel that takes tw_conv_dsp, or a struct with no more members than that."""
    params = layer.struct(*streamed_members(layer, depthwise.whole(layer.graph, layer.op)))
    return Code(params, image_calls(layer), streamed_note(layer))


def emit_conv_mve(layer: Layer) -> Code:
    graph, op = layer.graph, layer.op
    own = {"windows": mve.windows_at_once(*conv.kernel_size(graph, op), layer.input().shape[3])}
    params = layer.struct(*streamed_members(layer, depthwise.whole(graph, op)), own)
    return Code(params, image_calls(layer), streamed_note(layer))


def emit_depthwise_dsp(layer: Layer) -> Code:
    """A map of one column is taken for a row."""
    graph, op = layer.graph, layer.op
    plane = depthwise.plane(graph, op)
    base = ({f"base.{key}": value for key, value in members.items()} for members in streamed_members(layer, plane))
    at_a_time = {"block": depthwise.columns_at_a_time(graph, op), "rows": depthwise.rows_at_a_time(graph, op)}
    params = layer.struct(*base, {"line": depthwise.function(*plane.kernel, plane.stride[1]), **at_a_time})
    return Code(params, image_calls(layer), streamed_note(layer))


def streamed_members(layer: Layer, plane: depthwise.Plane) -> list[Members]:
    """The members of tw_conv_dsp, with which the structs of other kernels that read a stream begin."""
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
    """A call of it, given the bias; rescale: (multiplier, shift) per output channel."""
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
    """The C name of the weights, which lie as the kernel reads them."""
    weights = layer.input(1).data
    assert weights is not None
    return layer.table("weights", layer.row.weights(weights), "int8_t")


def weighted(layer: Layer, inner: str, members: Sequence[Members]) -> str:
    """The parameters of an op with weights; those with a zero point are the member `inner` of a struct that has it too."""
    zero = conv.weights_zero(layer.graph, layer.op)
    if zero == 0:
        return layer.struct(*members)
    return layer.struct(*({f"{inner}.{key}": v for key, v in m.items()} for m in members), {"weights_zero": zero})


def activation_note(activation: str) -> str:
    return "" if activation == "none" else f" {activation}"


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
    params = layer.struct(*({f"dense.{key}": v for key, v in line.items()} for line in members), {"stream": table})
    return Code(params, plain_call(layer), activation_note(layer.op.attrs["activation"]).strip())


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


def emit_pool(layer: Layer) -> Code:
    attrs = layer.op.attrs
    params = layer.struct(
        {"in": hwc(layer.input().shape[1:]), "out": hwc(layer.output.shape[1:])},
        {"kernel": attrs["kernel"], "stride": attrs["stride"], "pad": tuple(before for before, _ in attrs["padding"])},
        {"away_from": pool.away_from(layer.op)} if pool.away_from(layer.op) else {},
        clamp(layer, attrs["activation"]),
    )
    return Code(
        params, image_calls(layer), window_note(attrs["kernel"], attrs["stride"]) + activation_note(attrs["activation"])
    )


def emit_batch_matmul(layer: Layer) -> Code:
    (a, b), attrs = batch_matmul.matrices(layer.graph, layer.op), layer.op.attrs
    (rows, depth), columns = a[-2:], b[-1]
    batch = np.broadcast_shapes(a[:-2], b[:-2], (1, 1, 1))
    rescale = batch_matmul.rescale(layer.graph, layer.op)
    params = layer.struct(
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
    )
    return Code(params, plain_call(layer, inputs=(0, 1)))


def emit_resize_bilinear(layer: Layer) -> Code:
    (h_scale, h_offset), (w_scale, w_offset) = resize.lines(layer.graph, layer.op)
    params = layer.struct(image_shapes(layer), {"scale": (h_scale, w_scale), "offset": (h_offset, w_offset)})
    return Code(params, image_calls(layer))


def emit_resize_bilinear_float(layer: Layer) -> Code:
    (h_scale, first), (w_scale, _) = resize.float_lines(layer.graph, layer.op)
    params = layer.struct(image_shapes(layer), {"scale_h": h_scale, "scale_w": w_scale, "first": first})
    return Code(params, image_calls(layer), "as uint8")


def image_shapes(layer: Layer) -> Members:
    return {"in": hwc(layer.input().shape[1:]), "out": hwc(layer.output.shape[1:])}


def operand_members(layer: Layer) -> tuple[Members, Members]:
    """Extents and zero points of two operands and the output."""
    tensors = dict(zip(("a", "b", "out"), (layer.input(), layer.input(1), layer.output), strict=True))
    shapes = geometry.broadcast(layer.input().shape, layer.input(1).shape)
    assert shapes is not None
    return dict(zip(tensors, shapes, strict=True)), {
        f"{name}_zero": tensor.zero_point for name, tensor in tensors.items() if tensor.quant
    }


def binary_members(layer: Layer) -> tuple[Members, Members]:
    shapes, zeros = operand_members(layer)
    return shapes, {**zeros, **clamp(layer, layer.op.attrs["activation"])}


def emit_add(layer: Layer) -> Code:
    first, second, output = elementwise.add_rescales(layer.graph, layer.op)
    params = layer.struct(
        *binary_members(layer),
        {"left_shift": elementwise.add_left_shift(layer.graph, layer.op)},
        {"a_multiplier": first.multiplier, "a_shift": first.shift},
        {"b_multiplier": second.multiplier, "b_shift": second.shift},
        {"out_multiplier": output.multiplier, "out_shift": output.shift},
    )
    return Code(params, plain_call(layer, inputs=(0, 1)), activation_note(layer.op.attrs["activation"]).strip())


def emit_add_dsp(layer: Layer) -> Code:
    _, scaled, output = halved_first(layer)
    return add_of_halved(
        layer,
        {"multiplier": scaled.multiplier, "exponent": -scaled.shift},
        {"out_multiplier": output.multiplier, "out_power": 1 << (32 + output.shift)},
        {"sign": -int(dense.needs_sign(layer.graph, layer.op))},
    )


def emit_add_mve(layer: Layer) -> Code:
    _, scaled, output = halved_first(layer)
    return add_of_halved(
        layer,
        {"multiplier": scaled.multiplier, "shift": scaled.shift},
        {"out_multiplier": output.multiplier, "out_shift": output.shift},
    )


def halved_first(layer: Layer) -> tuple[int, elementwise.Rescale, elementwise.Rescale]:
    """The operand that is only halved, and how the other one and the output are rescaled."""
    plain = elementwise.halved(layer.graph, layer.op)
    assert plain is not None
    *operands, output = elementwise.add_rescales(layer.graph, layer.op)
    return plain, operands[1 - plain], output


def add_of_halved(layer: Layer, *rescales: Members) -> Code:
    """The operand that is halved comes first."""
    (plain, _, _), activation = halved_first(layer), layer.op.attrs["activation"]
    n, h, w, c = geometry.extents(layer.output.shape)
    zeros = {"plain_zero": layer.input(plain).zero_point, "scaled_zero": layer.input(1 - plain).zero_point}
    limits = {"out_zero": layer.output.zero_point, **clamp(layer, activation)}
    params = layer.struct({"shape": (n * h, w, c)}, {**zeros, **limits}, *rescales)
    return Code(params, plain_call(layer, inputs=(plain, 1 - plain)), activation_note(activation).strip())


def emit_mul(layer: Layer) -> Code:
    note = activation_note(layer.op.attrs["activation"]).strip()
    return Code(layer.struct(*mul_members(layer)), plain_call(layer, inputs=(0, 1)), note)


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
    params = layer.struct(
        {"shape": hwc(layer.input().shape)},
        {"in_zero": layer.input().zero_point, "out_zero": layer.output.zero_point},
        *slope_members(activations.leaky_relu_slopes(layer.graph, layer.op)),
    )
    return Code(params, plain_call(layer))


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
    params = layer.struct(
        {"shape": hwc(layer.input().shape)},
        {"in_zero": layer.input().zero_point, "out_zero": layer.output.zero_point, **limits},
        {"multiplier": multiplier, "shift": shift},
    )
    return Code(params, plain_call(layer), types_note(layer) if layer.op.kind == "quantize" else "")


def emit_lookup(layer: Layer) -> Code:
    (values,) = SPECS[layer.op.kind].reference(layer.graph, layer.op, [np.arange(-128, 128, dtype=np.int8)])
    table = layer.table("table", values, "int8_t")
    params = layer.struct({"shape": hwc(layer.input().shape)}, {"table": table})
    return Code(params, plain_call(layer))


def types_note(layer: Layer) -> str:
    return f"{layer.input().dtype} to {layer.output.dtype}"


def type_limits(layer: Layer) -> Members:
    return dict(zip(("out_min", "out_max"), ir.limits(layer.output.dtype), strict=True))


def emit_quantization(layer: Layer) -> Code:
    """quantize from float32, and dequantize."""
    whole_number = layer.output if layer.input().dtype == "float32" else layer.input()
    scale = {"scale": whole_number.scale, "zero": whole_number.zero_point}
    return Code(layer.struct({"shape": hwc(layer.input().shape)}, scale), plain_call(layer), types_note(layer))


def emit_requantization_any(layer: Layer) -> Code:
    source, target = layer.input(), layer.output
    multiplier, shift = quantization.requant(layer.graph, layer.op)
    scale = {"shape": hwc(source.shape), "in_zero": source.zero_point, "out_zero": target.zero_point}
    params = layer.struct(
        {"scale": {**scale, **type_limits(layer), "multiplier": multiplier, "shift": shift}},
        {"in_bytes": itemsize(source.dtype), "out_bytes": itemsize(target.dtype)},
    )
    return Code(params, plain_call(layer), types_note(layer))


def emit_mean(layer: Layer) -> Code:
    multiplier, shift = reduce.requant(layer.graph, layer.op)
    groups = geometry.reduction(layer.input().shape, reduce.axes(layer.graph, layer.op))
    assert groups is not None
    params = layer.struct(
        groups._asdict(),
        {"in_zero": layer.input().zero_point, "out_zero": layer.output.zero_point},
        {"multiplier": multiplier, "shift": shift},
    )
    axes = ", ".join(map(str, reduce.axes(layer.graph, layer.op)))
    return Code(params, plain_call(layer), f"over axes {axes}")


def emit_softmax(layer: Layer) -> Code:
    parameters = softmax.parameters(layer.graph, layer.op)
    params = layer.struct({"shape": hwc(layer.input().shape)}, parameters._asdict())
    return Code(params, plain_call(layer))


def emit_log_softmax(layer: Layer) -> Code:
    parameters = log_softmax.parameters(layer.graph, layer.op)
    params = layer.struct({"shape": hwc(layer.input().shape)}, parameters._asdict())
    return Code(params, plain_call(layer))


def emit_pad(layer: Layer) -> Code:
    block = copies.padded(layer.graph, layer.op)
    assert block is not None
    params = layer.struct(block_members(block, layer), {"value": data_movement.pad_value(layer.graph, layer.op)})
    return Code(params, plain_call(layer), "by " + ", ".join(f"{a}+{b}" for a, b in layout.paddings(layer.graph, layer.op)))


def block_members(block: copies.Block, layer: Layer) -> Members:
    """The members of a tensor inside a larger one; the last axis counts bytes."""
    size = itemsize(layer.output.dtype)
    named = {"in": block.inner, "out": block.outer, "before": block.before}
    return {key: (n, h, w, c * size) for key, (n, h, w, c) in named.items()}


def emit_concatenation(layer: Layer) -> Code:
    """concatenation and pack: each input is copied to where it begins in the output."""
    name, axis = layer.name, layer.op.attrs["axis"] % len(layer.output.shape)
    order, blocks = zip(*copies.joined(layer.graph, layer.op), strict=True)
    params = c.structs(layer.row.params, name, [block_members(block, layer) for block in blocks])
    calls = [plain_call(layer, f"{name}[{number}]", (index,)) for number, index in enumerate(order)]
    return Code(params, "\n".join(calls), f"along axis {axis}")


def emit_strided_copy(layer: Layer) -> Code:
    """Runs of bytes gathered from all over the input, in equal steps."""
    found = copies.moved(layer.graph, layer.op)
    assert found is not None
    entries = [({"size": s.size, "start": s.start}, {"stride": s.stride, "run": s.run}) for s in found]
    permuted = layer.op.kind == "transpose"
    order = ", ".join(map(str, data_movement.permutation(layer.graph, layer.op))) if permuted else ""
    return piece_code(layer, entries, f"to axes {order}" if permuted else "")


def emit_table_copy(layer: Layer) -> Code:
    """Runs of bytes gathered from places in tables."""
    entries: list[tuple[Members, ...]] = []
    for index, table in enumerate(copies.listed(layer.graph, layer.op)):
        entries.append((
            {"count": table.count, "step": table.step, "rows": table.rows.size, "cols": table.cols.size},
            {"row": layer.table(f"row_{index}", table.rows), "col": layer.table(f"col_{index}", table.cols)},
            {"run": table.run, "value": data_movement.pad_value(layer.graph, layer.op)},
        ))  # fmt: skip
    return piece_code(layer, entries)


CASTS = {"int8": "S8", "uint8": "U8", "int16": "S16", "int32": "S32", "int64": "S64", "float32": "F32", "bool": "BOOL"}


def emit_cast(layer: Layer) -> Code:
    source, target = layer.input(), layer.output
    types = {"from": f"TW_{CASTS[source.dtype]}", "to": f"TW_{CASTS[target.dtype]}"}
    params = layer.struct({"count": source.elements}, types)
    return Code(params, plain_call(layer), f"{source.dtype} to {target.dtype}")


def emit_gather_nd(layer: Layer) -> Code:
    data, indices = layer.input(), layer.input(1)
    depth = indices.shape[-1]
    steps = [math.prod(data.shape[axis + 1 :]) * itemsize(data.dtype) for axis in range(depth)]
    params = layer.struct(
        {"count": indices.elements // depth, "depth": depth},
        {"extent": data.shape[:depth], "step": steps},
        {"run": steps[-1]},
    )
    return Code(params, plain_call(layer, inputs=(0, 1)))


def piece_code(layer: Layer, entries: Sequence[tuple[Members, ...]], note: str = "") -> Code:
    """One call per piece; the pieces follow each other in the outputs."""
    source, name = layer.address(ops.data(layer.graph, layer.op)), layer.name
    outputs = [layer.address(tensor) for tensor in layer.graph.outputs_of(layer.op)]
    if len(entries) == 1:
        return Code(layer.struct(*entries[0]), call(layer.kernel, f"&{name}", source, outputs[0]), note)
    params = c.structs(layer.row.params, name, [{k: v for line in entry for k, v in line.items()} for entry in entries])
    if len(outputs) == len(entries):
        calls = [call(layer.kernel, f"&{name}[{index}]", source, target) for index, target in enumerate(outputs)]
        return Code(params, "\n".join(calls), note)
    step = layer.output.bytes // len(entries)
    return Code(params, loop(len(entries), call(layer.kernel, f"&{name}[i]", source, f"{outputs[0]} + i * {step}")), note)


def emit_lstm(layer: Layer) -> Code:
    """The weights of a cell's four gates lie together, since they share each input."""
    graph, op = layer.graph, layer.op
    p, (time, batch) = lstm.parameters(graph, op), lstm.time_and_batch(graph, op)
    extents, (cells, depth) = layer.input().shape, layer.input(lstm.WEIGHTS).shape
    steps = {time: 1 if time else extents[1], batch: 1 if batch else extents[1]}

    def together(first: int) -> np.ndarray:
        gates = [layer.input(first + gate).data for gate in range(lstm.GATES)]
        return np.stack([data for data in gates if data is not None], axis=1)

    def scales(pairs: Sequence[tuple[int, int]]) -> Members:
        return dict(zip(("multiplier", "shift"), zip(*pairs, strict=True), strict=True))

    params = layer.struct(
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
    )
    return Code(params, plain_call(layer, inputs=(0, lstm.HIDDEN, lstm.CELL)), f"{extents[time]} steps")


def emit_svdf(layer: Layer) -> Code:
    graph, op = layer.graph, layer.op
    p, time, bias = svdf.parameters(graph, op), layer.input(svdf.TIME_WEIGHTS), layer.optional_input(svdf.BIAS)
    weights, state = layer.input(svdf.WEIGHTS), layer.input(svdf.STATE)
    assert weights.data is not None and time.data is not None
    batch, units = layer.output.shape
    params = layer.struct(
        {"batch": batch, "depth": weights.shape[1], "units": units, "rank": op.attrs["rank"]},
        {"steps": time.shape[1], "state_bytes": itemsize(state.dtype)},
        {"in_zero": layer.input().zero_point, "state_zero": state.zero_point, "out_zero": layer.output.zero_point},
        {"state_multiplier": p.to_memory[0], "state_shift": p.to_memory[1]},
        {"multiplier": p.to_output[0], "shift": p.to_output[1]},
        {"weights": layer.table("weights", weights.data, "int8_t")},
        {"time_weights": layer.table("time_weights", time.data, f"{time.dtype}_t")},
        {"bias": "NULL" if bias is None or bias.data is None else layer.table("bias", bias.data)},
    )
    return Code(params, plain_call(layer, inputs=(0, svdf.STATE)), f"{time.shape[1]} steps kept")


def emit_memcpy(layer: Layer) -> Code:
    """read_variable, where it is no view, and assign_variable."""
    return Code("", call("memcpy", layer.address(layer.output), layer.address(layer.input()), str(layer.output.bytes)))


def emit_move(layer: Layer) -> Code:
    """A reshape or the like, where its output has a place of its own."""
    source, target = layer.address(layer.input()), layer.address(layer.output)
    return Code("", call(layer.kernel, source, target, str(layer.output.bytes)), "to another place")


# by the parameters that a kernel takes
EMITTERS: dict[str, Callable[[Layer], Code]] = {
    "tw_conv": emit_conv,
    "tw_conv_offset": emit_conv,
    "tw_conv_s16": emit_conv,
    "tw_conv_dsp": emit_streamed_conv,
    "tw_conv_mve": emit_conv_mve,
    "tw_depthwise_dsp": emit_depthwise_dsp,
    "tw_depthwise_mve": emit_streamed_conv,
    "tw_fully_connected": emit_fully_connected,
    "tw_fully_connected_offset": emit_fully_connected,
    "tw_fully_connected_dsp": emit_fully_connected_dsp,
    "tw_batch_matmul": emit_batch_matmul,
    "tw_pool": emit_pool,
    "tw_add": emit_add,
    "tw_add_dsp": emit_add_dsp,
    "tw_add_mve": emit_add_mve,
    "tw_mul": emit_mul,
    "tw_mul_dsp": emit_mul_dsp,
    "tw_extremum": emit_extremum,
    "tw_prelu": emit_prelu,
    "tw_leaky_relu": emit_leaky_relu,
    "tw_lookup": emit_lookup,
    "tw_softmax": emit_softmax,
    "tw_log_softmax": emit_log_softmax,
    "tw_requantization": emit_requantization,
    "tw_requantization_any": emit_requantization_any,
    "tw_quantization": emit_quantization,
    "tw_casting": emit_cast,
    "tw_mean": emit_mean,
    "tw_reduce_extremum": emit_reduce_extremum,
    "tw_arg_max": emit_arg_max,
    "tw_resize_bilinear": emit_resize_bilinear,
    "tw_resize_bilinear_float": emit_resize_bilinear_float,
    "tw_pad": emit_pad,
    "tw_concatenation": emit_concatenation,
    "tw_strides": emit_strided_copy,
    "tw_tables": emit_table_copy,
    "tw_slices": emit_gather_nd,
    "tw_lstm": emit_lstm,
    "tw_svdf": emit_svdf,
    "tw_move": emit_move,
    "memcpy": emit_memcpy,
}
