"""What the ops that only copy elements copy from where to where: shared by the table, the overlap distances and the emitters.

In: a graph and one of its ops. Out: runs and blocks of `geometry`.
"""

from __future__ import annotations

from ..ir import Graph, Op, itemsize
from ..ops import data
from ..ops.layout import permutation, slice_index
from ..ops.pieces import PIECES, pieces
from . import geometry


def moved(graph: Graph, op: Op) -> list[geometry.Strides] | None:
    """What a transpose, strided_slice or an op of `ops.pieces` gathers from its input, piece by piece."""
    x = data(graph, op)
    size = itemsize(x.dtype)
    if op.kind in PIECES:
        found = [geometry.progressions(piece, size) for piece in pieces(graph, op)]
    elif op.kind == "transpose":
        found = [geometry.strided(x.shape, size, lambda whole: whole.transpose(permutation(graph, op)))]
    else:
        found = [geometry.strided(x.shape, size, lambda whole: whole[slice_index(graph, op)])]
    known = [strides for strides in found if strides is not None]
    return known if len(known) == len(found) else None


def listed(graph: Graph, op: Op) -> list[geometry.Tables]:
    """What an op of `ops.pieces` gathers from places in tables, piece by piece."""
    return [geometry.tables(piece, itemsize(graph.output(op).dtype)) for piece in pieces(graph, op)]


def joined(graph: Graph, op: Op) -> list[tuple[int, geometry.Block]]:
    """(input, its place in the output) of a concatenation or pack, in the order in which they are copied.

    Only the input that is copied first can lie in the output where its elements are apart there: so the largest is. Where
    each goes in one piece, all can lie in their places, copied in their own order.
    """
    axis = op.attrs["axis"] % len(graph.output(op).shape)
    shapes = [tensor.shape for tensor in graph.inputs_of(op) if tensor is not None]
    if op.kind == "pack":
        shapes = [(*shape[:axis], 1, *shape[axis:]) for shape in shapes]
    blocks = list(enumerate(geometry.joined(shapes, axis)))
    if any(extent > 1 for extent in shapes[0][:axis]):
        blocks.sort(key=lambda block: -shapes[block[0]][axis])
    return blocks
