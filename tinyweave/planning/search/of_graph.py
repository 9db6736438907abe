"""The planning problem of a graph: everything that the search reads of the graph, in one order of its ops, as integers.

This includes the tile candidates: which consecutive ops may run together, a few rows and columns at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from ...ops import macs_per_op
from ..fuse.row_access import Access, RowGraph, recomputed_macs, row_bytes, tile_accesses, tile_buffer_bytes
from ..fuse.row_schedule import is_fused
from ..liveness import Life, lifetimes
from ..plan import Stage, Tile
from .problem import NEVER, Problem, ProblemOp, ProblemTensor, RowRead, TileCandidate
from .stage_cycles import StageCycles

LONGEST_TILE = 6  # ops
NARROWEST = 1  # columns
TILE_ROWS = (1, 2, 4, 8)  # heights


def problem_of(
    cycles_of: StageCycles,
    order: Sequence[int],
    owner: Mapping[str, str],
    *,
    budget: int = 0,
    fuses: bool = True,
    one_tile_per_stage: bool = False,
    partition: Sequence[Stage] | None = None,
) -> Problem:
    """Return the problem of a graph whose ops run in `order`.

    `cycles_of` has the kernels that each op may use. `owner` is tensor -> the tensor that owns its memory. If not `fuses`, no
    ops are fused. `partition` has all ops in stages, the only fused stages allowed. For `budget` and `one_tile_per_stage`, see
    `Problem`.
    """
    row_graph, order = cycles_of.row_graph, tuple(order)
    lives = lifetimes(row_graph.graph, [(index,) for index in order], owner, by_rows=row_graph.streamed_outputs)
    ops = tuple(_ops(cycles_of, order, lives, fuses=fuses))
    if partition is None and fuses:
        # up to twice the network's work, tiles do not depend on the budget: a larger budget never leads to other tiles
        mac_limit = max(budget, sum(macs_per_op(row_graph.graph, clipped=True))) if budget else 0
        candidates = tile_candidates(row_graph, order, mac_limit, any_length=one_tile_per_stage)
        tiles = [Tile(order[each.first : end], NARROWEST, each.rows) for end, of in enumerate(candidates, 1) for each in of]
    else:
        tiles = [tile for stage in partition or () for tile in stage.tiles or ()]
        candidates = _given(row_graph, order, tiles)
    is_free = one_tile_per_stage or partition is not None
    return Problem(
        tuple(_tensors(row_graph, order, lives, owner)),
        ops,
        tuple(map(tuple, candidates)),
        -1 if is_free else _floor(row_graph, lives, ops),
        one_tile_per_stage,
        budget,
        bool(cycles_of.core),
        None if partition is None else tuple(accumulate(len(stage.ops) for stage in partition)),
        {},
        partial(cycles_of.tile_cost, tiles, [each.bytes for of in candidates for each in of]),
    )


def _tensors(
    row_graph: RowGraph, order: Sequence[int], lives: Mapping[str, Life], owner: Mapping[str, str]
) -> Iterator[ProblemTensor]:
    numbers, step_of = tensor_numbers(row_graph), {index: step for step, index in enumerate(order)}
    for name in numbers:
        tensor, life = row_graph.graph.tensors[name], lives.get(name, Life(0, 0, False))
        readers = [step_of.get(index, NEVER) for index in row_graph.readers[name]]
        rows, size, cols = (tensor.shape[1], row_bytes(tensor), tensor.shape[2]) if name in row_graph.height else (1, 0, 1)
        alive = *life, min(readers, default=NEVER), max(readers, default=-1)
        streams = name in row_graph.streamed_inputs, name in row_graph.streamed_outputs
        yield ProblemTensor(name, tensor.bytes, rows, size, *alive, *streams, cols, numbers.get(owner.get(name, ""), -1))


def _ops(cycles_of: StageCycles, order: Sequence[int], lives: Mapping[str, Life], *, fuses: bool) -> Iterator[ProblemOp]:
    row_graph, numbers = cycles_of.row_graph, tensor_numbers(cycles_of.row_graph)
    streamed = (*row_graph.streamed_inputs, *row_graph.streamed_outputs)  # never whole in RAM
    for step, index in enumerate(order):
        op, reads = row_graph.graph.ops[index], row_graph.accesses[index] if fuses else None
        alive = [name for name in streamed if max(lives[name].begin, 0) <= step < lives[name].end]
        less = NEVER if is_fused(row_graph, (index,)) else -sum(row_graph.graph.tensors[name].bytes for name in alive)
        usable = [] if reads is None else cycles_of.usable[index]
        by_rows = dict(zip(usable, cycles_of.by_rows(index) if usable else (), strict=True))
        kernels = tuple(
            kernel._replace(
                unfused_bytes=min(kernel.unfused_bytes + less, NEVER),
                cycles=cycles_of.once(index, kernel.name) if less < NEVER else 0,
                is_by_rows=kernel in by_rows,
                row_cycles=by_rows.get(kernel, 0),
            )
            for kernel in cycles_of.kernels[index]
        )
        in_place = () if reads is None else tuple(sorted(numbers[name] for name in row_graph.in_place[index]))
        by_rows_of, out = None if reads is None else numbered(reads, numbers), numbers[op.outputs[0]]
        rows, sums = row_graph.rows[index], row_graph.accumulator_bytes[index]
        yield ProblemOp(op.name, index, out, rows, sums, by_rows_of, in_place, kernels)


def _floor(row_graph: RowGraph, lives: Mapping[str, Life], ops: Sequence[ProblemOp]) -> int:
    """Return a lower bound in bytes on the arena of every plan: the network's inputs, or an op that cannot be fused."""
    tensors, whole = row_graph.graph.tensors, [name for name, life in lives.items() if life.begin < 0]
    inputs = sum(tensors[name].bytes for name in whole) - sum(tensors[name].bytes for name in row_graph.streamed_inputs)
    return max([inputs, *(op.unfused_bytes for op in ops if op.reads is None)])


def _given(row_graph: RowGraph, order: Sequence[int], tiles: Sequence[Tile]) -> list[list[TileCandidate]]:
    """Return, for each step, the tile of `tiles` that ends with it, as the only candidate."""
    candidates: list[list[TileCandidate]] = [[] for _ in order]
    by_last, numbers = {tile.ops[-1]: tile for tile in tiles}, tensor_numbers(row_graph)
    for step, tile in ((step, by_last[index]) for step, index in enumerate(order) if index in by_last):
        macs, reads = sum(recomputed_macs(row_graph, tile).values()), tile_accesses(row_graph, tile.ops, tile.rows) or ()
        first, size, by_rows = step + 1 - len(tile.ops), tile_buffer_bytes(row_graph, tile), numbered(reads, numbers)
        candidates[step].append(TileCandidate(first, tile.rows, size, macs, by_rows, tile.cols, tile.cached))
    return candidates


def tensor_numbers(row_graph: RowGraph) -> dict[str, int]:
    """Return a mapping from the name of each activation to its number in a `Problem`."""
    names = (name for name, tensor in row_graph.graph.tensors.items() if tensor.data is None)
    return {name: number for number, name in enumerate(names)}


def numbered(reads: Sequence[Access], numbers: Mapping[str, int]) -> tuple[RowRead, ...]:
    """Return row accesses as (number of the tensor, window of rows), for a `Problem`; `numbers` is tensor name -> number."""
    return tuple((numbers[x], window) for x, window in reads)


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
