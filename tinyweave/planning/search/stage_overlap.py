"""Bytes of a fused stage's output that may reuse the memory of tensors whose last use is in the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..alias.overlap import shared_bytes
from ..fuse.row_access import RowGraph
from ..fuse.row_schedule import distances, output_bytes, row_timings
from ..liveness import Life
from ..plan import Tile


def dying_in(row_graph: RowGraph, lives: Mapping[str, Life], begin: int, end: int) -> dict[str, int]:
    """Return the tensors that exist before the steps [begin, end) and whose last use is in them: name -> bytes."""
    return {
        name: row_graph.graph.tensors[name].bytes
        for name, life in lives.items()
        if life.begin < begin < life.end <= end and not life.persistent and name not in row_graph.streamed_inputs
    }


def overlap_in_stage(
    row_graph: RowGraph, ops: Sequence[int], owner: Mapping[str, str], dying: Mapping[str, int], tiles: Sequence[Tile] = ()
) -> int:
    """Return how many bytes of a stage's output may reuse the memory of tensors whose last use is in the stage.

    With tiles, the figure is never larger than without, since a tile reads several rows before it writes.

    Args:
        ops: the ops of the stage.
        owner: tensor -> the tensor that owns its memory.
        dying: the tensors whose last use is in the stage: name -> bytes.
        tiles: the tiles of the stage.
    """
    out = row_graph.graph.ops[ops[-1]].outputs[0]
    if not dying or owner[out] != out:  # an output inside state overlaps nothing else
        return 0
    row_graph = row_graph.with_tiles(tiles) if tiles else row_graph
    timings = row_timings(row_graph, ops)
    if timings is None:
        return 0
    below = distances(row_graph, timings, ops, owner).items()
    return shared_bytes(
        output_bytes(row_graph, timings, ops[-1]), [(distance, dying[x]) for x, distance in below if x in dying]
    )
