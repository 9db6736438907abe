"""Replace depthwise convolutions on one input channel by ordinary convolutions of the same sums, with faster kernels."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Graph, Op
from .rewrite import exchange, of_each_op, part


@of_each_op
def depthwise_to_conv(graph: Graph, op: Op) -> Graph:
    """Replace each int8 depthwise convolution that has one input channel and several filters by a conv_2d."""
    if op.kind != "depthwise_conv_2d":
        return graph
    x, weights = graph.input(op), graph.input(op, 1)
    if x.dtype != "int8" or x.shape[3] != 1 or weights.shape[3] == 1 or weights.data is None:
        return graph
    filters = part(graph, op, "filters", weights, weights.data.transpose(3, 1, 2, 0))
    if weights.quant is not None and weights.quant.per_channel:
        filters = replace(filters, quant=replace(weights.quant, axis=0))
    return exchange(graph, [replace(op, kind="conv_2d", inputs=(op.inputs[0], filters.name, *op.inputs[2:]))], [filters])
