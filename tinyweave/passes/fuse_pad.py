"""A pad before convolutions becomes their padding, which costs neither memory nor time.

A convolution fills with the zero point, so must the pad. Only rows and columns, and only as many as leave every window a part
of the map.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Graph, Op
from ..ops import SPECS
from ..ops.data_movement import pad_value
from ..ops.layout import paddings
from .rewrite import each_op, exchange
from .tensor_map import TensorMap

CONVOLUTIONS = ("conv_2d", "depthwise_conv_2d")


def fuse_pad(graph: Graph) -> tuple[Graph, TensorMap]:
    return each_op(graph, _fused), {}


def _fused(graph: Graph, op: Op) -> Graph:
    if op.kind not in ("pad", "padv2") or graph.input(op).dtype != "int8" or op.outputs[0] in graph.outputs:
        return graph
    if pad_value(graph, op) != graph.output(op).zero_point:
        return graph
    readers = [graph.ops[index] for index in graph.consumers.get(op.outputs[0], ())]
    fused = [_padded(graph, reader, op) for reader in readers]
    if not readers or None in fused:
        return graph
    return exchange(graph, [reader for reader in fused if reader is not None], gone=op.name)


def _padded(graph: Graph, reader: Op, pad: Op) -> Op | None:
    """Return the reader on what the pad reads, None where it cannot pad by itself."""
    added = paddings(graph, pad)
    if reader.kind not in CONVOLUTIONS or len(added) != 4 or added[0] != (0, 0) or added[3] != (0, 0):
        return None
    own = reader.attrs["padding"]
    total = tuple((own[axis][0] + added[1 + axis][0], own[axis][1] + added[1 + axis][1]) for axis in (0, 1))
    windows = SPECS[reader.kind].windows(graph, reader)
    if windows is None or any(max(sizes) >= window.extent for sizes, window in zip(total, windows, strict=True)):
        return None
    return replace(reader, inputs=(pad.inputs[0], *reader.inputs[1:]), attrs={**reader.attrs, "padding": total})
