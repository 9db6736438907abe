"""Functions that emitters share: calls, and members (the initialisers of a struct, name -> value) that several structs have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ... import ir, ops
from ...kernels import geometry
from ...ops import SPECS
from ...ops.conv import kernel_size
from ...ops.spec import activation_range, hwc
from ..layer import Code, Layer

Members = Mapping[str, object]
Emitter = Callable[[Layer], Code]


def call(function: str, *arguments: str) -> str:
    """Return a C call, with its arguments wrapped over lines."""
    text, line = "", f"{function}("
    indent = " " * len(line)
    for position, argument in enumerate(arguments):
        piece = argument + (", " if position + 1 < len(arguments) else ");")
        if len(line) + len(piece) > 110 and line.strip() and position:
            text, line = f"{text}{line.rstrip()}\n", indent
        line += piece
    return text + line


def plain_call(layer: Layer, params: str = "", inputs: Sequence[int] = (0,), shapes: str = "") -> str:
    """Return the call of the layer's kernel on whole tensors or, if the layer is fused, on the current rows.

    Args:
        params: The C name of the parameter struct; "" for the layer's name.
        inputs: The indices of the inputs that the kernel takes.
        shapes: The C name of the struct that has the operands' extents; "" for `params`.
    """
    if layer.maps is not None:
        return row_call(layer, params or layer.name, inputs, shapes)
    sources = [layer.address(layer.input(index)) for index in inputs]
    return call(layer.row.name, f"&{params or layer.name}", *sources, layer.address(layer.output), *layer.scratch)


def plain_code(layer: Layer, *members: Members, inputs: Sequence[int] = (0,), note: str = "") -> Code:
    """Return a parameter struct with these members, and the call of the layer's kernel on whole tensors or the current rows."""
    return Code(layer.struct(*members), plain_call(layer, inputs=inputs), note)


def image_code(layer: Layer, *members: Members, note: str = "") -> Code:
    """Return a parameter struct with these members, and the call of a kernel that takes one image of a batch."""
    return Code(layer.struct(*members), image_calls(layer), note)


def row_call(layer: Layer, params: str, inputs: Sequence[int], shapes: str = "") -> str:
    """Return the call of a fused layer's kernel on the current rows or on a part of them."""
    assert layer.maps is not None
    sources = []
    for index in inputs:
        tensor = layer.input(index)
        extents = f"{shapes or params}.{'in' if len(inputs) == 1 else 'ab'[index]}"
        constant = f"tw_whole({layer.address(tensor)}, tw_fold({extents}))" if tensor.data is not None else ""
        sources.append(constant or layer.maps[tensor.name])
    if layer.row.sums(layer.graph, layer.op):  # through void *, or -Wcast-align warns
        to, sums = f"{layer.maps[layer.output.name]}.data", f"(int32_t *)(void *)({layer.sums})"
        return call(f"{layer.row.name}_rows", f"&{params}", *sources, to, layer.range, sums)
    return call(f"{layer.row.name}_part", f"&{params}", *sources, layer.maps[layer.output.name], layer.range, *layer.scratch)


def image_calls(layer: Layer) -> str:
    """Return the call of a kernel that takes one image; in a C loop if the batch has several images."""
    if layer.maps is not None:
        return row_call(layer, layer.name, (SPECS[layer.op.kind].data,))
    source, target, images = ops.data(layer.graph, layer.op), layer.output, layer.output.shape[0]
    inner, outer = layer.address(source), layer.address(target)
    if images == 1:
        return call(layer.row.name, f"&{layer.name}", inner, outer, *layer.scratch)
    steps = (f" + i * {tensor.bytes // images}" for tensor in (source, target))
    return loop(images, call(layer.row.name, f"&{layer.name}", inner + next(steps), outer + next(steps), *layer.scratch))


def loop(count: int, body: str) -> str:
    """Return a C loop that runs the statements `body` `count` times; its counter is i."""
    inside = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"for (int32_t i = 0; i < {count}; ++i) {{\n{inside}\n}}"


def clamp(layer: Layer, activation: str) -> Members:
    """Return the struct members out_min and out_max: the limits of a fused activation in the output's quantisation."""
    low, high = activation_range(activation, layer.output)
    return {"out_min": low, "out_max": high}


def window_note(layer: Layer) -> str:
    """Return the window and the fused activation for comments: "3x3/2 relu" is a 3x3 kernel with stride 2 and a relu."""
    kernel, stride = kernel_size(layer.graph, layer.op), layer.op.attrs["stride"]
    dilation = tuple(layer.op.attrs.get("dilation", (1, 1)))
    step = f"{stride[0]}" if stride[0] == stride[1] else f"{stride[0]}x{stride[1]}"
    spread = "" if dilation == (1, 1) else f" dilated {dilation[0]}x{dilation[1]}"
    return f"{kernel[0]}x{kernel[1]}/{step}{spread} {fused_activation(layer)}".rstrip()


def types_note(layer: Layer) -> str:
    """Return the types of input and output as comments print them, such as "int8 to float32"."""
    return f"{layer.input().dtype} to {layer.output.dtype}"


def type_limits(layer: Layer) -> Members:
    """Return the struct members out_min and out_max: the limits of the output's type."""
    return dict(zip(("out_min", "out_max"), ir.limits(layer.output.dtype), strict=True))


def image_shapes(layer: Layer) -> dict[str, tuple[int, int, int]]:
    """Return the struct members in and out: the extents (h, w, c) of one image of the data input and of the output."""
    return {"in": hwc(ops.data(layer.graph, layer.op).shape[1:]), "out": hwc(layer.output.shape[1:])}


def shape(layer: Layer) -> Members:
    """Return the struct member shape: the extents of the input, as (h, w, c)."""
    return {"shape": hwc(layer.input().shape)}


def zeros(layer: Layer) -> Members:
    """Return the struct members in_zero and out_zero: the zero points of the data input and of the output."""
    return {"in_zero": ops.data(layer.graph, layer.op).zero_point, "out_zero": layer.output.zero_point}


def fused_activation(layer: Layer) -> str:
    """Return the op's fused activation as comments print it; "" if it has none."""
    return str(layer.op.attrs.get("activation", "none")).removeprefix("none")


def operand_members(layer: Layer) -> tuple[Members, Members]:
    """Return the extents a, b and out of an op on operands a and b, and the zero points of those that are quantised."""
    tensors = dict(zip(("a", "b", "out"), (layer.input(), layer.input(1), layer.output), strict=True))
    shapes = geometry.broadcast(layer.input().shape, layer.input(1).shape)
    assert shapes is not None
    return dict(zip(tensors, shapes, strict=True)), {
        f"{name}_zero": tensor.zero_point for name, tensor in tensors.items() if tensor.quant
    }
