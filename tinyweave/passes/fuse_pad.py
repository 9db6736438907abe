"""Fuse a pad op into the convolutions or max pools that read it, if their own padding then has the same effect.

A convolution pads with the zero point, so the pad op must add this value. A max pool ignores its padding, so the pad op must
add the lowest int8 value, or repeat values that the same windows contain. Only rows and columns can be fused, and every window
must still contain part of the map.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Graph, Op, limits
from ..ops import SPECS, spec_of
from ..ops.data_movement import pad_value
from ..ops.layout import paddings
from .rewrite import exchange, of_each_op


@of_each_op
def fuse_pad(graph: Graph, op: Op) -> Graph:
    """Remove each pad op on int8 that all its readers can replace by padding of their own."""
    pads = spec_of(op).family == "pad" or op.kind == "mirror_pad"
    if not pads or graph.input(op).dtype != "int8" or op.outputs[0] in graph.outputs:
        return graph
    padded = [_padded(graph, graph.ops[index], op) for index in graph.consumers.get(op.outputs[0], ())]
    fused = [reader for reader in padded if reader is not None]
    return exchange(graph, fused, gone=op.name) if len(fused) == len(padded) > 0 else graph


def _padded(graph: Graph, reader: Op, pad: Op) -> Op | None:
    """Return `reader`, the op after a pad, with that padding added to its own, or None if results would differ."""
    added = paddings(graph, pad)
    if len(added) != 4 or added[0] != (0, 0) or added[3] != (0, 0) or not _is_alike(graph, reader, pad):
        return None
    own = reader.attrs["padding"]
    total = tuple((own[axis][0] + added[1 + axis][0], own[axis][1] + added[1 + axis][1]) for axis in (0, 1))
    windows = SPECS[reader.kind].windows(graph, reader)
    if windows is None or any(max(sizes) >= window.extent for sizes, window in zip(total, windows, strict=True)):
        return None
    return replace(reader, inputs=(pad.inputs[0], *reader.inputs[1:]), attrs={**reader.attrs, "padding": total})


def _is_alike(graph: Graph, reader: Op, pad: Op) -> bool:
    """Return whether padding by `reader` itself gives the same result as the pad op before it."""
    if pad.kind == "mirror_pad":
        if reader.kind != "max_pool_2d" or pad.attrs["mode"] != "symmetric" or any(map(any, reader.attrs["padding"])):
            return False
        return all(2 * max(paddings(graph, pad)[1 + axis]) <= reader.attrs["kernel"][axis] for axis in (0, 1))
    value = pad_value(graph, pad)
    if reader.kind == "max_pool_2d":
        return value == limits("int8")[0]
    return SPECS[reader.kind].family == "convolution" and value == graph.output(pad).zero_point
