"""A pad before convolutions, or before max pools, becomes their padding, which costs neither memory nor time.

A convolution fills with the zero point, so must the pad. A max pool does not look at its padding: the pad must hold the least
value, or repeat what the same windows see. Only rows and columns, and only as many as leave every window a part of the map.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Graph, Op, limits
from ..ops import SPECS
from ..ops.data_movement import pad_value
from ..ops.layout import paddings
from .rewrite import each_op, exchange
from .tensor_map import TensorMap

CONVOLUTIONS = ("conv_2d", "depthwise_conv_2d")


def fuse_pad(graph: Graph) -> tuple[Graph, TensorMap]:
    return each_op(graph, _fused), {}


def _fused(graph: Graph, op: Op) -> Graph:
    if op.kind not in ("pad", "padv2", "mirror_pad") or graph.input(op).dtype != "int8" or op.outputs[0] in graph.outputs:
        return graph
    padded = [_padded(graph, graph.ops[index], op) for index in graph.consumers.get(op.outputs[0], ())]
    fused = [reader for reader in padded if reader is not None]
    return exchange(graph, fused, gone=op.name) if len(fused) == len(padded) > 0 else graph


def _padded(graph: Graph, reader: Op, pad: Op) -> Op | None:
    """Return the reader on what the pad reads, None where it cannot pad by itself."""
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
    """Return whether the reader's own padding gives what it computes from the pad."""
    if pad.kind == "mirror_pad":
        if reader.kind != "max_pool_2d" or pad.attrs["mode"] != "symmetric" or any(map(any, reader.attrs["padding"])):
            return False
        return all(2 * max(paddings(graph, pad)[1 + axis]) <= reader.attrs["kernel"][axis] for axis in (0, 1))
    value = pad_value(graph, pad)
    if reader.kind == "max_pool_2d":
        return value == limits("int8")[0]
    return reader.kind in CONVOLUTIONS and value == graph.output(pad).zero_point
