"""Tile candidates: which consecutive ops may run together, a few rows and columns at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..fuse.row_access import Access, RowGraph, recomputed_macs, tile_accesses, tile_buffer_bytes
from ..plan import Tile
from .problem import RowRead, TileCandidate

LONGEST_TILE = 6  # ops
NARROWEST = 1  # columns
TILE_ROWS = (1, 2, 4, 8)  # heights


def tensor_numbers(row_graph: RowGraph) -> dict[str, int]:
    """Return a mapping from the name of each activation to its number in a `Problem`."""
    names = (name for name, tensor in row_graph.graph.tensors.items() if tensor.data is None)
    return {name: number for number, name in enumerate(names)}


def numbered(reads: Sequence[Access], numbers: Mapping[str, int]) -> tuple[RowRead, ...]:
    """Return row accesses as (number of the tensor, window of rows), for a `Problem`; `numbers` is tensor name -> number."""
    return tuple((numbers[read.tensor], read.window) for read in reads)


def tile_candidates(
    row_graph: RowGraph, order: Sequence[int], mac_budget: int, *, any_length: bool = False
) -> list[list[TileCandidate]]:
    """Return, for each step, the tiles whose last op is in this step, each one column wide: the fewest ops first, then rows.

    A tile is a group of at least two consecutive ops that compute a few rows at a time. A taller tile of the same ops is listed
    only if it recomputes less, since it needs more line-buffer bytes. `add_tiles` in tinynas/ram/chain.c does the same for
    chains of ops.

    Args:
        mac_budget: multiply-accumulates that a tile may recompute.
        any_length: whether tiles may have any number of ops, instead of at most LONGEST_TILE. Then all are one row high.
    """
    known: dict[Any, list[list[TileCandidate]]] = row_graph.known_candidates
    key = tuple(order), mac_budget, any_length
    if key not in known:
        known[key] = _tile_candidates(row_graph, order, mac_budget, any_length=any_length)
    return known[key]


def _tile_candidates(
    row_graph: RowGraph, order: Sequence[int], mac_budget: int, *, any_length: bool
) -> list[list[TileCandidate]]:
    by_end, numbers = list[list[TileCandidate]](), tensor_numbers(row_graph)
    longest = len(order) if any_length else LONGEST_TILE
    for end in range(1, len(order) + 1):
        by_end.append([])
        out = row_graph.graph.ops[order[end - 1]].outputs[0]
        heights = TILE_ROWS[:1] if any_length else TILE_ROWS if mac_budget else _heights_for_free(row_graph.height.get(out, 1))
        for begin in range(end - 2, max(end - longest, 0) - 1, -1):
            ops = tuple(order[begin:end])
            reads, least_macs = tile_accesses(row_graph, ops), None
            if reads is None:
                break
            for rows in heights:
                tile = Tile(ops, NARROWEST, rows)
                reads = tile_accesses(row_graph, ops, rows) if rows > 1 else reads
                macs = sum(recomputed_macs(row_graph, tile).values())
                if reads is None or (least_macs is not None and macs >= least_macs):
                    break
                least_macs = macs
                if macs <= mac_budget:
                    buffer = tile_buffer_bytes(row_graph, tile)
                    by_end[-1].append(TileCandidate(begin, rows, buffer, macs, numbered(reads, numbers)))
    return by_end


def _heights_for_free(rows: int) -> tuple[int, ...]:
    """Return the tile heights that can avoid recomputation: 1, and the lowest of TILE_ROWS, if any, that covers `rows` rows."""
    return TILE_ROWS[:1] + tuple(height for height in TILE_ROWS[1:] if height // 2 < rows <= height)
