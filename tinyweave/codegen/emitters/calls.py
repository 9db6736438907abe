"""Write what emitters share: calls of a kernel on whole tensors, rows or images, and members that several structs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ... import ir, ops
from ...kernels import geometry
from ...ops import (
    SPECS,
)
from ...ops.spec import activation_range, hwc
from ..layer import Code, Layer

Members = Mapping[str, object]


def call(function: str, *arguments: str) -> str:
    """Return a call, its arguments broken over lines that fit."""
    text, line = "", f"{function}("
    indent = " " * len(line)
    for position, argument in enumerate(arguments):
        piece = argument + (", " if position + 1 < len(arguments) else ");")
        if len(line) + len(piece) > 110 and line.strip() and position:
            text, line = f"{text}{line.rstrip()}\n", indent
        line += piece
    return text + line


def plain_call(layer: Layer, params: str = "", inputs: Sequence[int] = (0,), shapes: str = "") -> str:
    """Return the call of the layer's kernel on whole tensors.

    params: name of its parameter struct where that is not the layer's; shapes: of the one that has the operands' extents where
    that is not the same.
    """
    if layer.maps is not None:
        return row_call(layer, params or layer.name, inputs, shapes)
    sources = [layer.address(layer.input(index)) for index in inputs]
    return call(layer.row.name, f"&{params or layer.name}", *sources, layer.address(layer.output), *layer.scratch)


def plain_code(layer: Layer, *members: Members, inputs: Sequence[int] = (0,), note: str = "") -> Code:
    """Return a parameter struct with these members, and the call of the layer's kernel on whole tensors."""
    return Code(layer.struct(*members), plain_call(layer, inputs=inputs), note)


def image_code(layer: Layer, *members: Members, note: str = "") -> Code:
    """Return a parameter struct with these members, and the calls of a kernel that takes one image."""
    return Code(layer.struct(*members), image_calls(layer), note)


def row_call(layer: Layer, params: str, inputs: Sequence[int], shapes: str = "") -> str:
    """Return the call of the layer's kernel in a fused stage, on the row that is due or a part of it, as `plain_call`."""
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
        return call(f"{layer.row.name}_rows", f"&{params}", *sources, to, layer.range, sums)
    return call(f"{layer.row.name}_part", f"&{params}", *sources, layer.maps[layer.output.name], layer.range, *layer.scratch)


def image_calls(layer: Layer) -> str:
    """Return the call of a kernel that takes one image, for each image of the batch."""
    if layer.maps is not None:
        return row_call(layer, layer.name, (SPECS[layer.op.kind].data,))
    source, target, images = ops.data(layer.graph, layer.op), layer.output, layer.output.shape[0]
    inner, outer = layer.address(source), layer.address(target)
    if images == 1:
        return call(layer.row.name, f"&{layer.name}", inner, outer, *layer.scratch)
    steps = (f" + i * {tensor.bytes // images}" for tensor in (source, target))
    return loop(images, call(layer.row.name, f"&{layer.name}", inner + next(steps), outer + next(steps), *layer.scratch))


def loop(count: int, body: str) -> str:
    """Return C that runs `body` for i from 0 to `count`."""
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


def activation_note(activation: str) -> str:
    return "" if activation == "none" else f" {activation}"


def types_note(layer: Layer) -> str:
    return f"{layer.input().dtype} to {layer.output.dtype}"


def type_limits(layer: Layer) -> Members:
    return dict(zip(("out_min", "out_max"), ir.limits(layer.output.dtype), strict=True))


def image_shapes(layer: Layer) -> Members:
    return {"in": hwc(layer.input().shape[1:]), "out": hwc(layer.output.shape[1:])}


def operand_members(layer: Layer) -> tuple[Members, Members]:
    """Return extents and zero points of two operands and the output."""
    tensors = dict(zip(("a", "b", "out"), (layer.input(), layer.input(1), layer.output), strict=True))
    shapes = geometry.broadcast(layer.input().shape, layer.input(1).shape)
    assert shapes is not None
    return dict(zip(tensors, shapes, strict=True)), {
        f"{name}_zero": tensor.zero_point for name, tensor in tensors.items() if tensor.quant
    }
