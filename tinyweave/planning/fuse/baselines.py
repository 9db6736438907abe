"""The schedules of others, as points of the same space. In: a Graph as rows, an order, a budget. Out: stages and tiles.

patch: the first layers run patch by patch, n x n patches of the map that the last of them makes, each from all that it needs of
the image; the others one by one. MCUNetV2 (arXiv 2110.15352).
stream2d: the first layers run so that nothing is computed twice, for what patches share is kept in both directions; here that
is a stage of whole rows. StreamNet (NeurIPS 2023), its 2D form.
msf: blocks of layers anywhere, each of which computes an element of its output at a time and keeps of each map within it the
columns of a window (H-cache); rows are computed again. msf-CNN (arXiv 2505.11483). Its space is that of `Space` with `blocks`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...ir import CompileError
from ..plan import Tile
from .access import Access, RowGraph, joined, recomputed_macs, row_bytes, tile_words
from .schedule import schedule_stage
from .stages import Partition


def patches(
    row_graph: RowGraph,
    order: Sequence[int],
    step_bytes: Sequence[int],
    *,
    budget: int,
    grid: int = 0,
    layers: int = 0,
) -> Partition:
    """Return the first layers in patches, as many of either as need least memory within `budget` multiply-accumulates done
    again.

    grid: n of n x n patches; layers: how many of the first ones run by patches; each searched if 0. step_bytes: bytes that
    each step needs by itself. Empty where no patches can be: what comes by rows must be read by them alone.
    """
    best: tuple[int, int, Tile] | None = None
    for count in range(2, len(order) + 1) if not layers else (layers,):
        run = tuple(order[:count])
        if (
            count > len(order)
            or joined(row_graph, run) is None
            or not all(row_graph.users[name].issubset(run) for name in row_graph.streamed_inputs)
        ):
            continue
        _, h, w, _ = row_graph.graph.output(row_graph.graph.ops[run[-1]]).shape
        for rows, cols in _sides(h, w, grid):
            tile = Tile(run, cols, rows, cached=False)
            recomputed = sum(recomputed_macs(row_graph, tile).values())
            if recomputed <= budget:
                size = max(_bytes(row_graph, tile, joined(row_graph, run, rows) or ()), *step_bytes[count:], 0)
                if best is None or (size, recomputed) < best[:2]:
                    best = size, recomputed, tile
    if best is None and (grid or layers):
        what = f"the first {layers} layers" if layers else "the first layers"
        hint = "no other layer may read what they pass on; see --max-mac-overhead too"
        raise CompileError(f"{what} cannot run by patches", hint)
    if best is None:
        return Partition([])
    run = best[2].ops
    return Partition([run, *((index,) for index in order[len(run) :])], (best[2],))


def _sides(h: int, w: int, grid: int) -> Iterator[tuple[int, int]]:
    """Return rows and columns of a patch."""
    sides = {(-(-h // n), -(-w // n)) for n in ((grid,) if grid else range(2, max(h, w) + 1))}
    yield from sorted(sides, reverse=True)


def _bytes(row_graph: RowGraph, tile: Tile, reads: Sequence[Access]) -> int:
    """Return what the layers of a tile need together, the image by rows if it is streamed."""
    graph = row_graph.graph
    heights, streamed_inputs = row_graph.height, row_graph.streamed_inputs
    rows = {x: min(window.extent, heights[x]) if x in streamed_inputs else heights[x] for x, window in reads}
    around = sum(count * row_bytes(graph.tensors[name]) for name, count in rows.items())
    return around + graph.output(graph.ops[tile.ops[-1]]).bytes + tile_words(row_graph, tile)


def first_rows(row_graph: RowGraph, order: Sequence[int], owner: Collection[str], step_bytes: Sequence[int]) -> Partition:
    """Return the first layers in one stage that runs row by row, as many as need least memory; arguments as for `patches`.

    What comes by rows comes once: all its readers are in the stage, or it has one, which may be a stage by itself.
    """
    best: tuple[int, int] | None = None
    for count in range(1 if row_graph.streamed_inputs else 2, len(order) + 1):
        scheduled = schedule_stage(row_graph, order[:count])
        users = [row_graph.users[name] for name in row_graph.streamed_inputs]
        if scheduled is None or any(len(readers) > 1 and not readers.issubset(order[:count]) for readers in users):
            continue
        tensors, ops = row_graph.graph.tensors, [row_graph.graph.ops[index] for index in order[:count]]
        held = {name for op in ops for name in (*op.inputs, *op.outputs) if name is not None and name in owner}
        rings = scheduled.schedule.rings
        size = sum(rings[x] * row_bytes(tensors[x]) if x in rings else tensors[x].bytes for x in held)
        size = max(size + row_graph.sums[order[count - 1]], *step_bytes[count:], 0)
        if best is None or size < best[0]:
            best = size, count
    if best is None:
        return Partition([])
    return Partition([tuple(order[: best[1]]), *((index,) for index in order[best[1] :])])
