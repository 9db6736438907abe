"""The solution with the fewest cycles within a byte limit, for one order of the ops.

A solution runs all ops as a sequence of unfused ops and fused stages. Its bytes are the maximum over these, its cycles the sum.
So the fastest solution within a byte limit is a shortest path in a graph. The nodes are the cuts, which are positions between
ops. The edges are the fused stages (with each tiling) and then the unfused ops (with each kernel), numbered in this order.

Each stage starts with lower bounds of its bytes and cycles. `fastest` computes the exact values of the stages on the shortest
path and searches again, until all stages on the path are exact.

The search is exact over these choices: the stages and tilings of `grow_stages`; tiles of 1, 2, 4, ... columns; one scratch
buffer per stage, of any size that one of its kernels needs; for each op, the fastest kernel that this scratch allows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...ops import macs_per_op
from ..fuse.row_access import recomputed_macs, tile_accesses, tile_buffer_bytes
from ..fuse.row_schedule import is_fused
from ..liveness import lifetimes
from ..plan import Stage, Tile
from .problem import NEVER, TileCandidate, numbered, problem_of, tensor_numbers
from .shortest_path import CutGraph
from .stage_cycles import Cycles, PerScratchSize, StageCycles
from .stage_growth import FusedStage, Tiling, bytes_saved_by_tile, growing, stage_memory
from .stage_overlap import dying_in, overlap_in_stage
from .stages import Stages, as_columns, grow_stages
from .tiles import NARROWEST, tile_candidates

TIES = 1 << 14  # an edge costs cycles * TIES + ties; TIES is larger than the sum of `ties` on any path
TIE_OF_TILED = 8  # ties of a tiled op; a fused one has 1: equally fast paths should fuse and tile little


class ChosenStage(NamedTuple):
    """One stage of a solution, fused or a single op: its RAM, estimated cycles, ops, tiles, and the name of each kernel."""

    bytes: int
    cycles: int
    ops: tuple[int, ...]
    tiles: tuple[Tile, ...]
    kernels: tuple[str, ...]


class Solution(NamedTuple):
    """A split of all ops into stages, in order, with their tiles and kernels, but without addresses."""

    stages: tuple[ChosenStage, ...]
    bytes: int  # RAM of the largest stage
    cycles: int  # of all stages together
    space: int = 0  # the number of its plan space, if several are searched


class _Option(NamedTuple):
    """A choice of scratch size and largest tile buffer of a stage, both in bytes, and the stage's cycles with this choice.

    `bytes` is how much more RAM the stage needs with this option than with its smallest option.
    """

    bytes: int
    cycles: int
    scratch: int
    tile: int


T = TypeVar("T", ChosenStage, _Option)


class PathSearch:
    """The search for the fastest split of one order of the ops into stages within any byte limit.

    The edges of the graph that it searches are fused stages and unfused ops. The columns min_bytes, min_cycles, recomputed_macs
    and ties have an entry per edge.

    Args:
        cycles_of: the network, and the kernels that each op may use, with their cycles.
        order: indices of the ops.
        owner: tensor -> the tensor that owns its memory.
        budget: multiply-accumulates that a solution may recompute.
        fuses: whether ops may be fused.
        one_tile_per_stage: whether each fused stage is a single tile, as strategy `msf` demands.
        partition: all ops in stages: the only fused stages allowed, whose tiles keep their width; None for any.
    """

    def __init__(
        self,
        cycles_of: StageCycles,
        order: Sequence[int],
        owner: Mapping[str, str],
        *,
        budget: int = 0,
        fuses: bool = True,
        one_tile_per_stage: bool = False,
        partition: Sequence[Stage] | None = None,
    ) -> None:
        """List the unfused ops and the fused stages: the edges of a graph whose paths are splits of the ops into stages."""
        self.cycles_of, self.order, self.owner, self.budget = cycles_of, tuple(order), owner, budget
        self.row_graph, self.may_widen = cycles_of.row_graph, partition is None
        self.lives = lifetimes(
            self.row_graph.graph, [(index,) for index in order], owner, by_rows=self.row_graph.streamed_outputs
        )
        self._known_bytes: dict[Tile, int] = {}  # of tiles' buffers
        self.options: dict[int, list[_Option]] = {}  # of exact stages: Pareto-optimal, fewest bytes first
        fused = {index for stage in partition or () if is_fused(self.row_graph, stage.ops) for index in stage.ops}
        self.unfused = [op for step, index in enumerate(order) if index not in fused for op in self._unfused_ops(step)]
        self.tiles = list[Tile]()  # by their number in the problem, at their smallest width
        if partition is not None:
            self.stages = self._stages_of(partition)
        else:
            self.stages = self._grown(one_tile_per_stage=one_tile_per_stage) if fuses else as_columns(())
        self._set_lower_bounds()

    def fastest(self, byte_limit: int) -> Solution | None:
        """Return the fastest solution that needs at most `byte_limit` bytes, or None if no solution fits."""
        # per edge, the index of the largest scratch size within the limit
        level = np.searchsorted(self.cycles_of.scratch_sizes, byte_limit - self.min_bytes, side="right") - 1
        cost = self.min_cycles[np.arange(len(level)), level] * TIES + self.ties
        cost[(level < 0) | (self.recomputed_macs > self.budget)] = NEVER
        for edge in self.options:
            if cost[edge] < NEVER:
                cost[edge] = self._cost(edge, byte_limit)
        while True:
            path = self.graph.shortest(cost, self.budget)
            if path is None:
                return None
            inexact = [edge for edge in path if edge < len(self.stages.stage) and edge not in self.options]
            if not inexact:
                stages = tuple(self._chosen(edge, byte_limit) for edge in path)
                return Solution(stages, max(stage.bytes for stage in stages), sum(stage.cycles for stage in stages))
            for edge in inexact:
                self._compute_exactly(edge)
                cost[edge] = self._cost(edge, byte_limit)

    def _unfused_ops(self, step: int) -> list[ChosenStage]:
        """Return the unfused op of a step with each of its Pareto-optimal kernels; empty if the op must be fused.

        An op must be fused if it reads a streamed input or writes a streamed output.
        """
        index, less = self.order[step], 0
        if is_fused(self.row_graph, (index,)):
            return []
        for name in (*self.row_graph.streamed_inputs, *self.row_graph.streamed_outputs):  # never whole in RAM
            if max(self.lives[name].begin, 0) <= step < self.lives[name].end:
                less += self.row_graph.graph.tensors[name].bytes
        kernels, cycles = self.cycles_of.kernels[index], self.cycles_of.once
        return _pareto_front(
            [ChosenStage(k.unfused_bytes - less, cycles(index, k.name), (index,), (), (k.name,)) for k in kernels]
        )

    def _grown(self, *, one_tile_per_stage: bool) -> Stages:
        """Return the fused stages that may need less RAM than the largest of their ops does unfused.

        Append all tile candidates to `self.tiles`. With `one_tile_per_stage`, all ops of a stage form a single tile. Otherwise,
        a stage may have several tiles or none, and the ops outside tiles exchange rows through line buffers.
        """
        row_graph, order, tensors = self.row_graph, self.order, self.row_graph.graph.tensors
        least = dict[int, int]()  # op -> bytes of its smallest kernel
        for each in self.unfused:
            least[each.ops[0]] = min(each.bytes, least.get(each.ops[0], NEVER))
        unfused_bytes = [least.get(index, NEVER) for index in order]
        inputs = sum(tensors[name].bytes for name, life in self.lives.items() if life.begin < 0)
        inputs -= sum(tensors[name].bytes for name in row_graph.streamed_inputs)
        never_fused = [size for size, index in zip(unfused_bytes, order, strict=True) if row_graph.accesses[index] is None]
        # up to twice the network's work, tiles do not depend on the budget: a larger budget never leads to other tiles
        mac_limit = max(self.budget, sum(macs_per_op(row_graph.graph, clipped=True))) if self.budget else 0
        candidates = tile_candidates(row_graph, order, mac_limit, any_length=one_tile_per_stage)
        for end, ending in enumerate(candidates, 1):
            for each_tile in ending:
                self.tiles.append(Tile(order[each_tile.first : end], NARROWEST, each_tile.rows))
                self._known_bytes[self.tiles[-1]] = each_tile.bytes
        floor = -1 if one_tile_per_stage else max([inputs, *never_fused])  # lower bound on the bytes of every solution
        return grow_stages(
            problem_of(
                row_graph,
                order,
                self.lives,
                unfused_bytes,
                candidates,
                arena_floor=floor,
                one_tile_per_stage=one_tile_per_stage,
            )
        )

    def _stages_of(self, partition: Sequence[Stage]) -> Stages:
        """Return the fused stages of `partition` (all ops in stages), each with a single choice of tiles: its own."""
        row_graph, stages, begin = self.row_graph, list[FusedStage](), 0
        by_last = {tile.ops[-1]: tile for stage in partition for tile in stage.tiles or ()}
        numbers = tensor_numbers(row_graph)
        candidates: list[list[TileCandidate]] = [[] for _ in self.order]
        for step, tile in ((step, by_last[index]) for step, index in enumerate(self.order) if index in by_last):
            macs, reads = sum(recomputed_macs(row_graph, tile).values()), tile_accesses(row_graph, tile.ops, tile.rows) or ()
            first, by_rows = step + 1 - len(tile.ops), numbered(reads, numbers)
            candidates[step].append(TileCandidate(first, tile.rows, self._buffer_bytes(tile), macs, by_rows))
        problem = problem_of(row_graph, self.order, self.lives, [NEVER] * len(self.order), candidates)
        for ops in (stage.ops for stage in partition):
            end = begin + len(ops)
            if is_fused(row_graph, ops):
                grown, tiling = None, Tiling()
                for upto, _, growth in growing(problem, begin, end):
                    tiling = tiling.continued()
                    for number, tile_of in enumerate(problem.tiles[upto - 1], problem.tile_at[upto - 1]):
                        tiling = tiling.with_tile(number, tile_of, *bytes_saved_by_tile(growth, tile_of, upto))
                    grown = stage_memory(growth, begin, end) if upto == end else None
                assert grown is not None, "a partition has all readers of a streamed input in one stage"
                stages.append(grown._replace(tilings=(tiling,)))
            begin = end
        self.tiles = [by_last[index] for index in self.order if index in by_last]
        return as_columns(stages)

    def _set_lower_bounds(self) -> None:
        """Set the arrays min_bytes, min_cycles, recomputed_macs and ties, and the graph whose paths are searched.

        The arrays have an entry per edge; an edge is a fused stage with one choice of tiles, or an unfused op. min_bytes and
        min_cycles are lower bounds; min_cycles has the shape [edge, scratch size]. ties decides between equally fast paths.
        """
        stages, unfused, count = self.stages, self.unfused, len(self.stages.stage)
        begin, end = stages.begin[stages.stage], stages.end[stages.stage]
        step_of = {index: step for step, index in enumerate(self.order)}
        steps = np.array([step_of[each.ops[0]] for each in unfused], np.int64)
        fused_bytes = stages.bytes[stages.stage] - stages.saved + stages.tile_bytes - stages.most_overlap[stages.stage]
        self.min_bytes = np.concatenate([fused_bytes, np.array([each.bytes for each in unfused], np.int64)])
        self.recomputed_macs = np.concatenate([stages.recomputed_macs, np.zeros(len(unfused), np.int64)])
        self.graph = CutGraph(
            np.concatenate([begin, steps]), np.concatenate([end, steps + 1]), self.recomputed_macs, len(self.order)
        )
        zeros = np.zeros(len(self.cycles_of.scratch_sizes), np.int64)
        by_rows = (self.cycles_of.untiled(i) if self.row_graph.accesses[i] is not None else zeros for i in self.order)
        before = np.cumsum([zeros, *by_rows], axis=0)  # prefix sums over the steps
        self.min_cycles = np.zeros((len(self.min_bytes), len(zeros)), np.int64)
        untiled = before[stages.end] - before[stages.begin] - self._cycles_of_unread_rows()
        self.min_cycles[:count] = untiled[stages.stage]
        self.min_cycles[count:] = np.array([each.cycles for each in unfused], np.int64)[:, None]
        added, kinds = self._cycles_added_by_tiles()
        for level in range(len(zeros)):
            self.min_cycles[:count, level] += _sums(added[kinds, level], stages.tiles_at)
        self.ties = np.zeros(len(self.min_bytes), np.int64)
        sizes = np.array([len(tile.ops) for tile in self.tiles] or [0], np.int64)
        self.ties[:count] = end - begin + TIE_OF_TILED * _sums(sizes[stages.tiles], stages.tiles_at)

    def _cycles_of_unread_rows(self) -> NDArray[np.int64]:
        """Return the cycles that each stage saves by not computing rows that no op reads, as an array [stage, scratch size]."""
        stages, untiled = self.stages, self.cycles_of.untiled
        saved = np.zeros((len(stages.begin), len(self.cycles_of.scratch_sizes)), np.int64)
        for stage in np.flatnonzero(np.diff(stages.fewer_at)).tolist():
            for step, rows in stages.fewer(stage).items():
                saved[stage] += untiled(self.order[step]) - untiled(self.order[step], rows)
        return saved

    def _cycles_added_by_tiles(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Compute how many more cycles tiles take than their ops untiled.

        Tiles are grouped in kinds: tiles of one kind have the same ops and compute the same rows.

        Returns:
            The additional cycles of each kind at its best width, as an array [kind, scratch size], and the kind of each entry
            of `stages.tiles`.
        """
        stages, known, added = self.stages, dict[tuple[int, tuple[int | None, ...]], int](), list[PerScratchSize]()
        stage_of_tile = np.repeat(stages.stage, np.diff(stages.tiles_at))
        stage_of_tile[np.diff(stages.fewer_at)[stage_of_tile] == 0] = -1  # all stages that compute all rows count as one
        base = len(stages.begin) + 1
        codes, inverse = np.unique(stages.tiles * base + stage_of_tile + 1, return_inverse=True)  # of (tile, stage) pairs
        kinds = list[int]()
        for number, stage in (divmod(code, base) for code in codes.tolist()):
            tile, fewer = self.tiles[number], stages.fewer(stage - 1) if stage else {}
            by_op = {self.order[step]: rows for step, rows in fewer.items()}
            key = number, tuple(by_op.get(index) for index in tile.ops)
            if key not in known:
                known[key] = len(added)
                tiled = np.min([self.cycles_of.tiled(wide, by_op.get(tile.ops[-1])) for wide in self._widths(tile)], axis=0)
                added.append(tiled - np.sum([self.cycles_of.untiled(index, by_op.get(index)) for index in tile.ops], axis=0))
            kinds.append(known[key])
        shape = -1, len(self.cycles_of.scratch_sizes)
        return np.array(added, np.int64).reshape(shape), np.array(kinds, np.int64)[inverse]

    def _widths(self, tile: Tile) -> list[Tile]:
        """Return the tile and, if tiles may be widened, tiles of 2, 4, ... times as many columns, up to the whole width."""
        width = self.row_graph.graph.output(self.row_graph.graph.ops[tile.ops[-1]]).shape[2]
        widths = [tile]
        while self.cycles_of.core and self.may_widen and widths[-1].cols < width:
            widths.append(Tile(tile.ops, min(2 * widths[-1].cols, width), tile.rows, tile.cached))
        return widths

    def _buffer_bytes(self, tile: Tile) -> int:
        if tile not in self._known_bytes:
            self._known_bytes[tile] = tile_buffer_bytes(self.row_graph, tile)
        return self._known_bytes[tile]

    def _compute_exactly(self, edge: int) -> None:
        """Replace the lower bounds of the stage of an edge by its exact RAM, and list its Pareto-optimal options.

        An option is a choice of scratch size and tile widths. More scratch or wider tiles let the stage run faster in more RAM.
        """
        cycles_of, (begin, end), tiles, fewer = self.cycles_of, self._span(edge), self._tiles(edge), self._fewer(edge)
        ops, size = self.order[begin:end], int(self.stages.tile_bytes[edge])
        shared = overlap_in_stage(self.row_graph, ops, self.owner, dying_in(self.row_graph, self.lives, begin, end), tiles)
        least_scratch = max(min(kernel.scratch for kernel in cycles_of.usable[index]) for index in ops)
        self.min_bytes[edge] += int(self.stages.most_overlap[self.stages.stage[edge]]) - shared + least_scratch
        tiled = {index for tile in tiles for index in tile.ops}
        scratch_sizes = np.unique([kernel.scratch for index in ops for kernel in cycles_of.usable[index]])
        scratch_sizes = scratch_sizes[scratch_sizes >= least_scratch]
        levels = np.searchsorted(cycles_of.scratch_sizes, scratch_sizes)
        widths = [(self._widths(tile), fewer.get(tile.ops[-1])) for tile in tiles]
        tile_sizes = sorted({max(size, self._buffer_bytes(wide)) for of_tile, _ in widths for wide in of_tile} or {0})
        cycles = np.zeros((len(tile_sizes), len(scratch_sizes)), np.int64)
        for index in ops:
            if index not in tiled:
                cycles += cycles_of.untiled(index, fewer.get(index))[levels]
        for of_tile, rows in widths:
            buffer_bytes = [self._buffer_bytes(wide) for wide in of_tile]  # rise with the width
            fewest = np.minimum.accumulate([cycles_of.tiled(wide, rows)[levels] for wide in of_tile], axis=0)
            cycles += fewest[np.searchsorted(buffer_bytes, tile_sizes, side="right") - 1]
        self.options[edge] = _pareto_front(
            [
                _Option(tile_size - size + scratch - least_scratch, int(cycles[x, y]), scratch, tile_size)
                for x, tile_size in enumerate(tile_sizes)
                for y, scratch in enumerate(scratch_sizes.tolist())
            ]
        )

    def _span(self, edge: int) -> tuple[int, int]:
        stage = self.stages.stage[edge]
        return int(self.stages.begin[stage]), int(self.stages.end[stage])

    def _tiles(self, edge: int) -> list[Tile]:
        return [self.tiles[each] for each in self.stages.tiles_of(edge)]

    def _fewer(self, edge: int) -> dict[int, int]:
        """Return the ops that compute only some rows of their output, in the fused stage that `edge` stands for.

        Returns:
            Op index -> number of rows to compute, for each op whose output is read only in part within the stage.
        """
        return {self.order[step]: rows for step, rows in self.stages.fewer(int(self.stages.stage[edge])).items()}

    def _option(self, edge: int, byte_limit: int) -> _Option:
        """Return the fastest option (scratch size and tile widths) of the fused stage of `edge` within `byte_limit` bytes.

        `_compute_exactly` must have computed the stage's options. The limit must be at least the stage's min_bytes.
        """
        options = self.options[edge]
        return options[bisect_right(options, byte_limit - int(self.min_bytes[edge]), key=lambda option: option.bytes) - 1]

    def _cost(self, edge: int, byte_limit: int) -> int:
        if self.min_bytes[edge] > byte_limit:
            return NEVER
        return self._option(edge, byte_limit).cycles * TIES + int(self.ties[edge])

    def _chosen(self, edge: int, byte_limit: int) -> ChosenStage:
        """Return the stage or unfused op of an edge, with the tiles and kernels that are fastest within `byte_limit` bytes."""
        if edge >= len(self.stages.stage):
            return self.unfused[edge - len(self.stages.stage)]
        option, cycles_of = self._option(edge, byte_limit), self.cycles_of
        (begin, end), fewer = self._span(edge), self._fewer(edge)
        ops = self.order[begin:end]
        level = int(np.searchsorted(cycles_of.scratch_sizes, option.scratch))
        cycles, tiles = dict[int, Cycles](), list[Tile]()
        for tile in self._tiles(edge):
            rows = fewer.get(tile.ops[-1])
            able = [wide for wide in self._widths(tile) if self._buffer_bytes(wide) <= option.tile]
            tiles.append(min(able, key=lambda wide: (int(cycles_of.tiled(wide, rows)[level]), -wide.cols)))
            cycles |= cycles_of.in_tile(tiles[-1], rows)
        cycles |= {index: cycles_of.by_rows(index, fewer.get(index)) for index in ops if index not in cycles}
        names = tuple(cycles_of.fastest(index, cycles[index], option.scratch) for index in ops)
        return ChosenStage(int(self.min_bytes[edge]) + option.bytes, option.cycles, ops, tuple(tiles), names)


def _sums(values: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of values[at[k] : at[k + 1]] for each k, as an array; 0 for an empty range."""
    before = np.concatenate(([0], np.cumsum(values)))
    sums: NDArray[np.int64] = before[at[1:]] - before[at[:-1]]
    return sums


def _pareto_front(options: Sequence[T]) -> list[T]:
    """Return the options that are Pareto-optimal in bytes and cycles, the fewest bytes first."""
    kept = list[T]()
    for option in sorted(options):
        if not kept or option.cycles < kept[-1].cycles:
            kept.append(option)
    return kept
