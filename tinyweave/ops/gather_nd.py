"""gather_nd: each vector of indices names a slice of the data, which is copied. The indices may be computed by the network.

Any type; input and output share their quantisation. An index outside of the data counts as the nearest inside; LiteRT stops
there. Source: TFLite gather_nd.cc.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Op
from .constraints import arity, same_quantisation, same_type
from .spec import Arrays, OpSpec, OptionalArrays, Shape

MAX_DEPTH = 4  # axes that indices name


def infer(graph: Graph, op: Op) -> list[Shape]:
    data, indices = graph.input(op).shape, graph.input(op, 1).shape
    return [(*indices[:-1], *data[indices[-1] :])]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    data, indices = arrays
    assert data is not None and indices is not None
    named = np.array(data.shape[: indices.shape[-1]])
    inside = np.clip(indices, 0, named - 1)
    return [np.array(data[tuple(np.moveaxis(inside, -1, 0))])]


def indices_fit(graph: Graph, op: Op) -> bool:
    """the indices must be int32 vectors of one to four numbers, no more than the data has axes, none of which is empty"""
    data, indices = graph.input(op), graph.input(op, 1)
    if indices.dtype != "int32" or not indices.shape or not 1 <= indices.shape[-1] <= min(len(data.shape), MAX_DEPTH):
        return False
    return data.elements > 0


def constant_indices_are_inside(graph: Graph, op: Op) -> bool:
    """constant indices must lie within the data"""
    values, shape = graph.input(op, 1).data, graph.input(op).shape
    return values is None or bool(((values >= 0) & (values < np.array(shape[: values.shape[-1]]))).all())


CONSTRAINTS = (arity(2), same_type, same_quantisation, indices_fit, constant_indices_are_inside)

SPECS = (OpSpec("gather_nd", infer, reference, CONSTRAINTS),)
