"""Let dense layers read the map in front of a flattening reshape, so that they can take its rows as they are computed."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Graph, Op, Tensor
from ..ops import SPECS
from .rewrite import each_op, exchange, maker
from .tensor_map import TensorMap


def flattened_maps(graph: Graph) -> tuple[Graph, TensorMap]:
    """Remove the view between a map [1, h, w, c] of several rows and a dense layer with h * w * c inputs."""
    return each_op(graph, _without_view), {}


def _without_view(graph: Graph, op: Op) -> Graph:
    if SPECS[op.kind].family != "dense":
        return graph
    view = maker(graph, graph.input(op))
    if view is None or not SPECS[view.kind].view or not _is_map(x := graph.input(view), graph.input(op, 1).shape[1]):
        return graph
    if len(graph.output(op).shape) != 2 or x.dtype == "int4":  # an odd number of int4 channels is padded to whole bytes
        return graph
    direct = replace(op, inputs=(x.name, *op.inputs[1:]), attrs={**op.attrs, "keep_num_dims": False})
    return exchange(graph, [direct])


def _is_map(x: Tensor, elements: int) -> bool:
    """Return whether a tensor is a map [1, h, w, c] of several rows with `elements` elements."""
    return len(x.shape) == 4 and x.shape[0] == 1 < x.shape[1] and x.elements == elements
