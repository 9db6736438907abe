"""Emitters of kernels that move elements: resize, pad, concatenation, slices, copies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import ops
from ...ir import itemsize
from ...kernels import copies
from ...ops import (
    data_movement,
    layout,
    resize,
)
from .. import c
from ..layer import Code, Layer
from .calls import Members, call, image_calls, image_code, image_shapes, loop, plain_call, plain_code


def emit_resize_nearest(layer: Layer) -> Code:
    size = itemsize(layer.output.dtype)
    shapes = {key: (h, w, c * size) for key, (h, w, c) in image_shapes(layer).items()}
    tables = zip(("row", "col"), resize.nearest_neighbours(layer.graph, layer.op), strict=True)
    return Code(layer.struct(shapes, {name: layer.table(name, numbers) for name, numbers in tables}), image_calls(layer))


def emit_resize_bilinear(layer: Layer) -> Code:
    (h_scale, h_offset), (w_scale, w_offset) = resize.lines(layer.graph, layer.op)
    return image_code(layer, image_shapes(layer), {"scale": (h_scale, w_scale), "offset": (h_offset, w_offset)})


def emit_resize_bilinear_float(layer: Layer) -> Code:
    (h_scale, first), (w_scale, _) = resize.float_lines(layer.graph, layer.op)
    return image_code(layer, image_shapes(layer), {"scale_h": h_scale, "scale_w": w_scale, "first": first}, note="as uint8")


def emit_pad(layer: Layer) -> Code:
    block = copies.padded(layer.graph, layer.op)
    assert block is not None
    return plain_code(
        layer,
        block_members(block, layer),
        {"value": data_movement.pad_value(layer.graph, layer.op)},
        note="by " + ", ".join(f"{a}+{b}" for a, b in layout.paddings(layer.graph, layer.op)),
    )


def block_members(block: copies.Box, layer: Layer) -> Members:
    """Return the members of a tensor inside a larger one; the last axis counts bytes."""
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
    pieces = copies.moved(layer.graph, layer.op)
    assert pieces is not None
    entries = [({"size": s.size, "start": s.start}, {"stride": s.stride, "run": s.run}) for s in pieces]
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


def emit_gather_nd(layer: Layer) -> Code:
    data, indices = layer.input(), layer.input(1)
    depth = indices.shape[-1]
    steps = [math.prod(data.shape[axis + 1 :]) * itemsize(data.dtype) for axis in range(depth)]
    return plain_code(
        layer,
        {"count": indices.elements // depth, "depth": depth},
        {"extent": data.shape[:depth], "step": steps},
        {"run": steps[-1]},
        inputs=(0, 1),
    )


def piece_code(layer: Layer, entries: Sequence[tuple[Members, ...]], note: str = "") -> Code:
    """Return one call per piece; the pieces follow each other in the outputs."""
    source, name = layer.address(ops.data(layer.graph, layer.op)), layer.name
    outputs = [layer.address(tensor) for tensor in layer.graph.outputs_of(layer.op)]
    if len(entries) == 1:
        return Code(layer.struct(*entries[0]), call(layer.row.name, f"&{name}", source, outputs[0]), note)
    params = c.structs(layer.row.params, name, [{k: v for line in entry for k, v in line.items()} for entry in entries])
    if len(outputs) == len(entries):
        calls = [call(layer.row.name, f"&{name}[{index}]", source, target) for index, target in enumerate(outputs)]
        return Code(params, "\n".join(calls), note)
    step = layer.output.bytes // len(entries)
    return Code(params, loop(len(entries), call(layer.row.name, f"&{name}[i]", source, f"{outputs[0]} + i * {step}")), note)


def emit_memcpy(layer: Layer) -> Code:
    """read_variable, where it is no view, and assign_variable."""
    return Code("", call("memcpy", layer.address(layer.output), layer.address(layer.input()), str(layer.output.bytes)))


def emit_move(layer: Layer) -> Code:
    """Return a reshape or the like, where its output has a place of its own."""
    source, target = layer.address(layer.input()), layer.address(layer.output)
    return Code("", call(layer.row.name, source, target, str(layer.output.bytes)), "to another place")
