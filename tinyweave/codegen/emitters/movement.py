"""Emitters of kernels that copy elements: resize, pad, concatenation, slices, copies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import ops
from ...ir import itemsize
from ...kernels import copies
from ...ops import data_movement, layout, resize
from ...planning.place.relocation_ops import is_move
from .. import c
from ..layer import Code, Layer
from .calls import Emitter, Members, call, image_code, image_shapes, loop, plain_call, plain_code


def _resize_nearest(layer: Layer) -> Code:
    size, images = itemsize(layer.output.dtype), {"in": layer.input().shape[1:], "out": layer.output.shape[1:]}
    shapes = {key: (h, w, c * size) for key, (h, w, c) in images.items()}
    tables = zip(("row", "col"), resize.nearest_neighbours(layer.graph, layer.op), strict=True)
    return image_code(layer, shapes, {name: layer.table(name, numbers) for name, numbers in tables})


def _resize_bilinear(layer: Layer) -> Code:
    """Emit the C of resize_bilinear in integer arithmetic."""
    (h_scale, h_offset), (w_scale, w_offset) = resize.lines(layer.graph, layer.op)
    return image_code(layer, image_shapes(layer), {"scale": (h_scale, w_scale), "offset": (h_offset, w_offset)})


def _resize_bilinear_float(layer: Layer) -> Code:
    """Emit the C of resize_bilinear in float arithmetic, as LiteRT computes it on uint8."""
    (h_scale, first), (w_scale, _) = resize.float_lines(layer.graph, layer.op)
    return image_code(layer, image_shapes(layer), {"scale_h": h_scale, "scale_w": w_scale, "first": first}, note="as uint8")


def _pad(layer: Layer) -> Code:
    block = copies.padded(layer.graph, layer.op)
    assert block is not None
    return plain_code(
        layer,
        block_members(block, layer),
        {"value": data_movement.pad_value(layer.graph, layer.op)},
        note="by " + ", ".join(f"{a}+{b}" for a, b in layout.paddings(layer.graph, layer.op)),
    )


def block_members(block: copies.Box, layer: Layer) -> Members:
    """Return the struct members in, out and before: the extents of a tensor, of the larger tensor around it, and its position.

    Each has four values (n, h, w, c), the last in bytes. Axes are merged unless the layer is fused, which needs its rows.
    """
    size = itemsize(layer.output.dtype)
    block = copies.in_runs(block) if layer.maps is None else block
    named = {"in": block.inner, "out": block.outer, "before": block.before}
    return {key: (n, h, w, c * size) for key, (n, h, w, c) in named.items()}


def _concatenation(layer: Layer) -> Code:
    """Emit the C of concatenation and pack: a call per input copies it to its place in the output."""
    name, axis = layer.name, layer.op.attrs["axis"] % len(layer.output.shape)
    order, blocks = zip(*copies.joined(layer.graph, layer.op), strict=True)
    params = c.structs(layer.row.params, name, [block_members(block, layer) for block in blocks])
    calls = [plain_call(layer, f"{name}[{number}]", (index,)) for number, index in enumerate(order)]
    return Code(params, "\n".join(calls), f"along axis {axis}")


def _strided_copy(layer: Layer) -> Code:
    """Emit the C of an op that copies runs of bytes which are one stride apart along each axis."""
    pieces = copies.moved(layer.graph, layer.op)
    assert pieces is not None
    entries = [
        ({"size": s.size, "start": s.start}, {"stride": s.stride, "out_stride": s.out_stride, "run": s.run}) for s in pieces
    ]
    permuted = layer.op.kind == "transpose"
    order = ", ".join(map(str, data_movement.permutation(layer.graph, layer.op))) if permuted else ""
    return piece_code(layer, entries, f"to axes {order}" if permuted else "")


def _table_copy(layer: Layer) -> Code:
    """Emit the C of an op that copies runs of bytes from offsets that are listed in tables."""
    entries = [
        (
            {"count": table.repeats, "step": table.step, "rows": table.rows.size, "cols": table.cols.size},
            {"row": layer.table(f"row_{index}", table.rows), "col": layer.table(f"col_{index}", table.cols)},
            {"run": table.run, "value": data_movement.pad_value(layer.graph, layer.op)},
        )
        for index, table in enumerate(copies.listed(layer.graph, layer.op))
    ]
    return piece_code(layer, entries)


def _gather_nd(layer: Layer) -> Code:
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
    """Return the C of an op that copies its outputs in pieces: one kernel call per piece.

    Each output is one piece, or the only output consists of pieces of equal size, one after the other.

    Args:
        entries: The members of the parameter struct of each piece.
        note: The geometry for the layer's comment.
    """
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


def _memcpy(layer: Layer) -> Code:
    """Emit the C of assign_variable, and of read_variable if its output does not share the variable's bytes, as a memcpy."""
    return Code("", call("memcpy", layer.address(layer.output), layer.address(layer.input()), str(layer.output.bytes)))


def _move(layer: Layer) -> Code:
    """Emit a copy of whole tensors: a relocation, which the planner added, or a view whose output has bytes of its own."""
    source, target = layer.address(layer.input()), layer.address(layer.output)
    note = "(relocation)" if is_move(layer.op) else "(copy)"
    return Code("", call(layer.row.name, source, target, str(layer.output.bytes)), note)


EMITTERS: dict[str, Emitter] = {
    "tw_resize_nearest": _resize_nearest,
    "tw_resize_bilinear": _resize_bilinear,
    "tw_resize_bilinear_float": _resize_bilinear_float,
    "tw_pad": _pad,
    "tw_concatenation": _concatenation,
    "tw_strides": _strided_copy,
    "tw_tables": _table_copy,
    "tw_slices": _gather_nd,
    "tw_move": _move,
    "memcpy": _memcpy,
}
