"""Merge ops that only move elements: two in a row become one, and an op that keeps the order becomes a reshape or vanishes.

A pad between two transposes that undo each other, as converters write it, becomes a pad of the untransposed tensor. A dense
layer reads a map itself, without the reshape that flattens it, so that a fused stage can pass the map's rows to the layer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .. import ops
from ..ir import Graph, Op, Tensor
from ..ops import SPECS
from ..ops.data_movement import permutation
from ..ops.layout import paddings
from .copies_to_views import copies_all
from .rewrite import exchange, integers, is_only_for, maker, of_each_op, part, same_kind, without


@of_each_op
def merge_moves(graph: Graph, op: Op) -> Graph:
    """Merge transposes, reshapes and copies that follow each other."""
    graph, op = _transposed_once(*_never_transposed(graph, op))
    if not _keeps_order(graph, op):
        return graph
    x, out = ops.data(graph, op), graph.output(op)
    before = maker(graph, x)
    if before is not None and SPECS[before.kind].view and graph.input(before).role == "activation" and not same_kind(x, out):
        x = graph.input(before)
    if same_kind(x, out):
        return without(graph, op, x.name)
    if SPECS[op.kind].view and x.name == op.inputs[0]:
        return graph
    return exchange(graph, [replace(op, kind="reshape", inputs=(x.name,), attrs={"new_shape": None})])


def _never_transposed(graph: Graph, op: Op) -> tuple[Graph, Op]:
    """Replace two transposes that undo each other around a pad, the second being `op`, by one pad; return graph and op."""
    pad = maker(graph, graph.input(op)) if op.kind == "transpose" else None
    first = maker(graph, graph.input(pad)) if pad is not None and pad.kind == "pad" else None
    if pad is None or first is None or first.kind != "transpose" or not is_only_for(graph, graph.input(op), op):
        return graph, op
    there, back = permutation(graph, first), permutation(graph, op)
    if [there[axis] for axis in back] != list(range(len(back))):
        return graph, op
    operand = integers(graph, op, "paddings", [paddings(graph, pad)[axis] for axis in back])
    direct = replace(pad, inputs=(first.inputs[0], operand.name), outputs=op.outputs)
    return exchange(graph, [direct], [operand], gone=op.name), direct


def _transposed_once(graph: Graph, op: Op) -> tuple[Graph, Op]:
    """Merge `op` and a transpose before it, if that has no other reader or is undone; return the graph and the op."""
    before = maker(graph, graph.input(op)) if op.kind == "transpose" else None
    if before is None or before.kind != "transpose":
        return graph, op
    first, then = permutation(graph, before), permutation(graph, op)
    operand = integers(graph, op, "permutation", [first[axis] for axis in then])
    once = replace(op, inputs=(before.inputs[0], operand.name))
    merged = exchange(graph, [once], [operand])
    return (merged, once) if is_only_for(graph, graph.input(op), op) or _keeps_order(merged, once) else (graph, op)


def _keeps_order(graph: Graph, op: Op) -> bool:
    return SPECS[op.kind].view or copies_all(graph, op)


@of_each_op
def flatten_in_dense(graph: Graph, op: Op) -> Graph:
    """Remove the reshape between a map [1, h, w, c] of several rows and a dense layer with h * w * c inputs.

    Reorder the weights if the map is transposed first (channels first). Let a mean over the columns of a map keep the axis.
    """
    view = maker(graph, graph.input(op)) if SPECS[op.kind].family == "dense" else None
    if view is None or SPECS[view.kind].family != "view" or len(graph.output(op).shape) != 2:
        return graph
    x, weights = graph.input(view), graph.input(op, 1)
    before = maker(graph, x) if is_only_for(graph, x, view) and is_only_for(graph, graph.input(op), op) else None
    direct = replace(op, inputs=(x.name, *op.inputs[1:]), attrs={**op.attrs, "keep_num_dims": False})
    if before is not None and before.kind == "transpose" and weights.data is not None:
        x = graph.input(before)
        order = np.arange(x.elements).reshape(x.shape).transpose(permutation(graph, before)).ravel()
        if _is_flattened(x, weights):
            reordered = part(graph, op, "weights", weights, weights.data[:, np.argsort(order)])
            return exchange(graph, [replace(direct, inputs=(x.name, reordered.name, *op.inputs[2:]))], [reordered])
        return graph
    if before is not None and "keep_dims" in before.attrs:
        before = replace(before, attrs={**before.attrs, "keep_dims": True})
        x = replace(x, shape=SPECS[before.kind].infer(graph, before)[0])
        return exchange(graph, [before, direct], [x]) if _is_flattened(x, weights) else graph
    return exchange(graph, [direct]) if _is_flattened(x, weights) else graph


def _is_flattened(x: Tensor, weights: Tensor) -> bool:
    """Return whether a dense layer reads a map [1, h, w, c] of several rows as one vector."""
    is_map = len(x.shape) == 4 and x.shape[0] == 1 < x.shape[1]
    return is_map and x.elements == weights.shape[1]
