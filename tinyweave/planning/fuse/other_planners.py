"""The fused stages of other planners, in our terms, to compare with.

- patch: the first layers compute n x n patches of a map, one patch after the other, and recompute the pixels that two patches
  need. The other layers run unfused. MCUNetV2 (arXiv 2110.15352).
- msf: any stages, each of which computes one output element at a time, keeps columns and recomputes rows (H-cache). msf-CNN
  (arXiv 2505.11483). This needs no function here: it is a path search with `one_tile_per_stage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir import CompileError
from ..plan import Stage, Tile
from .row_access import Access, RowGraph, recomputed_macs, row_bytes, tile_accesses, tile_buffer_bytes


def patches(
    row_graph: RowGraph, order: Sequence[int], step_bytes: Sequence[int], *, budget: int, grid: int = 0, layers: int = 0
) -> list[Stage]:
    """Return stages of which the first, fused, runs in patches and all others are single unfused ops; empty if it cannot.

    The numbers of patches and layers are chosen for the least RAM. `budget` is the most multiply-accumulates that patches may
    recompute. `grid` is n for n x n patches, `layers` how many layers run in patches; 0 tries all. Raise CompileError if one is
    given, but the first layers cannot run in patches.
    """
    best: tuple[int, int, Tile] | None = None
    for count in range(2, len(order) + 1) if not layers else (layers,):
        run = tuple(order[:count])
        if (
            count > len(order)
            or tile_accesses(row_graph, run) is None
            or not all(row_graph.readers[name].issubset(run) for name in row_graph.streamed_inputs)
        ):
            continue
        _, h, w, _ = row_graph.graph.output(row_graph.graph.ops[run[-1]]).shape
        for rows, cols in _sides(h, w, grid):
            tile = Tile(run, cols, rows, cached=False)
            recomputed = sum(recomputed_macs(row_graph, tile).values())
            if recomputed <= budget:
                size = max(_bytes(row_graph, tile, tile_accesses(row_graph, run, rows) or ()), *step_bytes[count:], 0)
                if best is None or (size, recomputed) < best[:2]:
                    best = size, recomputed, tile
    if best is None and (grid or layers):
        what = f"the first {layers} layers" if layers else "the first layers"
        hint = "no other layer may read what they pass on; see --max-mac-overhead too"
        raise CompileError(f"{what} cannot run by patches", hint)
    return [] if best is None else [Stage(best[2].ops, (best[2],)), *(Stage((index,)) for index in order[len(best[2].ops) :])]


def _sides(h: int, w: int, grid: int) -> Iterator[tuple[int, int]]:
    """Yield the (rows, columns) of a patch for `grid` x `grid` patches of an h x w map, or for all grids if `grid` is 0.

    The largest patches come first.
    """
    sides = {(-(-h // n), -(-w // n)) for n in ((grid,) if grid else range(2, max(h, w) + 1))}
    yield from sorted(sides, reverse=True)


def _bytes(row_graph: RowGraph, tile: Tile, reads: Sequence[Access]) -> int:
    """Return the RAM of a stage that runs in patches: its inputs (whole, or some rows if streamed), output and tile buffer.

    `reads` are the input rows that an iteration reads.
    """
    graph = row_graph.graph
    heights, streamed_inputs = row_graph.height, row_graph.streamed_inputs
    rows = {x: min(window.extent, heights[x]) if x in streamed_inputs else heights[x] for x, window in reads}
    around = sum(count * row_bytes(graph.tensors[name]) for name, count in rows.items())
    return around + graph.output(graph.ops[tile.ops[-1]]).bytes + tile_buffer_bytes(row_graph, tile)
