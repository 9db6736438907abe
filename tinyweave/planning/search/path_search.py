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
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..plan import Tile
from .problem import NEVER, Cycles, Kernel, Problem
from .shortest_path import edges_of, shortest
from .stage_growth import FusedStage, Tiling, bytes_saved_by_tile, growing, stage_memory
from .stage_overlap import overlap_in_stage
from .stages import Stages, as_columns, grow_stages

PerScratchSize = NDArray[np.int64]
"""An entry per scratch size: the cycles of an op if it has its fastest kernel that needs no more scratch."""
UNUSABLE = 1 << 40  # cycles if no kernel of the op needs so little scratch
TIES = 1 << 14  # an edge costs cycles * TIES + ties; TIES is larger than the sum of `ties` on any path
ALL = -1  # rows of an op, if it computes all
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


Option = tuple[int, int, int, int]
"""A choice of scratch size and largest tile buffer of a stage: (more bytes than with its smallest option, the stage's cycles,
bytes of scratch, bytes of the tile buffer)."""
Item = TypeVar("Item")
BYTES_AND_CYCLES: Any = itemgetter(0, 1)  # of a ChosenStage or an Option


class PathSearch:
    """The search for the fastest split of one order of the ops into stages within any byte limit.

    The edges of the graph that it searches are fused stages and unfused ops. The columns min_bytes, min_cycles, recomputed_macs
    and ties have an entry per edge. All kernels of a stage share one scratch buffer, so the more scratch a stage has, the
    faster kernels its ops may use: `scratch_sizes` are the sizes that some kernel needs.
    """

    def __init__(self, problem: Problem) -> None:
        """List the unfused ops and the fused stages: the edges of a graph whose paths are splits of the ops into stages."""
        self.problem, self.order = problem, tuple(op.op_index for op in problem.ops)
        self.tiles = problem.all_tiles
        self.last_step = [step for step, ending in enumerate(problem.tiles) for _ in ending]  # of each tile
        self.usable = [[kernel for kernel in op.kernels if kernel.is_by_rows] for op in problem.ops]
        sizes = sorted({0, *(kernel.scratch for op in problem.ops for kernel in op.kernels)})
        self.scratch_sizes = np.array(sizes, np.int64)
        by_scratch = [sorted(range(len(of)), key=[kernel.scratch for kernel in of].__getitem__) for of in self.usable]
        self._by_scratch = [  # for each op, its usable kernels sorted by scratch, and how many of them fit in each scratch size
            (numbers, np.searchsorted([of[number].scratch for number in numbers], self.scratch_sizes, side="right"))
            for numbers, of in zip(by_scratch, self.usable, strict=True)
        ]
        self._known: dict[tuple[int, Cycles], PerScratchSize] = {}
        self._found: list[tuple[int, int, Solution | None]] = []  # (low, high, the fastest within any limit from low to high)
        self.options: dict[int, list[Option]] = {}  # of exact stages: Pareto-optimal, fewest bytes first
        ends = problem.partition or ()
        given = [span for span in zip((0, *ends), ends, strict=False) if self._is_fused(*span)]
        fused = {step for span in given for step in range(*span)}
        self.unfused = [op for step in range(len(problem.ops)) if step not in fused for op in self._unfused_ops(step)]
        self.stages = grow_stages(problem) if problem.partition is None else self._given_stages(given)
        self._set_lower_bounds()

    def fastest(self, byte_limit: int) -> Solution | None:
        """Return the fastest solution that needs at most `byte_limit` bytes, or None if no solution fits. It is cached."""
        for low, high, solution in self._found:
            if low <= byte_limit <= high:
                return solution
        found = self._fastest(byte_limit)
        self._found.append((found.bytes if found else 0, byte_limit, found))
        return found

    def _fastest(self, byte_limit: int) -> Solution | None:
        # per edge, the index of the largest scratch size within the limit
        level = np.searchsorted(self.scratch_sizes, byte_limit - self.min_bytes, side="right") - 1
        cost = self.min_cycles[np.arange(len(level)), level] * TIES + self.ties
        cost[(level < 0) | (self.recomputed_macs > self.problem.budget)] = NEVER
        for edge in self.options:
            if cost[edge] < NEVER:
                cost[edge] = self._cost(edge, byte_limit)
        while True:
            path = shortest(self.edges, cost, self.problem.budget)
            if path is None:
                return None
            inexact = [edge for edge in path if edge < len(self.stages.stage) and edge not in self.options]
            if not inexact:
                stages = tuple(self._chosen(edge, byte_limit) for edge in path)
                return Solution(stages, max(stage.bytes for stage in stages), sum(stage.cycles for stage in stages))
            for edge in inexact:
                self._compute_exactly(edge)
                cost[edge] = self._cost(edge, byte_limit)

    def _is_fused(self, begin: int, end: int) -> bool:
        """Return whether a stage of the steps [begin, end) is fused: it has several ops, or one that must be fused."""
        return end > begin + 1 or self.problem.ops[begin].unfused_bytes >= NEVER

    def _unfused_ops(self, step: int) -> list[ChosenStage]:
        """Return the unfused op of a step with each Pareto-optimal kernel; empty if it streams, so that it must be fused."""
        kernels, index = self.problem.ops[step].kernels, (self.order[step],)
        able = [ChosenStage(k.unfused_bytes, k.cycles, index, (), (k.name,)) for k in kernels if k.unfused_bytes < NEVER]
        return pareto_front(sorted(able))

    def _given_stages(self, spans: Sequence[tuple[int, int]]) -> Stages:
        """Return fused stages by their steps [begin, end), each with a single choice of tiles: those of the problem."""
        problem, stages = self.problem, list[FusedStage]()
        for begin, end in spans:
            grown, tiling = None, Tiling()
            for upto, _, growth in growing(problem, begin, end):
                tiling = tiling.continued()
                for number, tile_of in enumerate(problem.tiles[upto - 1], problem.tile_at[upto - 1]):
                    tiling = tiling.with_tile(number, tile_of, *bytes_saved_by_tile(growth, tile_of, upto))
                grown = stage_memory(growth, begin, end) if upto == end else None
            assert grown is not None, "a partition has all readers of a streamed input in one stage"
            stages.append(grown._replace(tilings=(tiling,)))
        return as_columns(stages)

    def _per_scratch_size(self, step: int, cycles: Cycles) -> PerScratchSize:
        """Return the fewest cycles of an op for each scratch size; `cycles` has an entry per usable kernel."""
        if (step, cycles) not in self._known:
            by_scratch, at = self._by_scratch[step]
            self._known[step, cycles] = np.minimum.accumulate([UNUSABLE, *(cycles[number] for number in by_scratch)])[at]
        return self._known[step, cycles]

    def _row_cycles(self, step: int, rows: int = ALL) -> Cycles:
        """Return the cycles of an op that runs row by row outside all tiles, for each of its usable kernels."""
        op = self.problem.ops[step]
        times = 1 if op.accumulator_bytes else op.rows if rows == ALL else rows
        return tuple(times * kernel.row_cycles for kernel in self.usable[step])

    def _untiled(self, step: int, rows: int = ALL) -> PerScratchSize:
        """Return the fewest cycles of an op that runs row by row outside all tiles, for each scratch size."""
        return self._per_scratch_size(step, self._row_cycles(step, rows))

    def _tiled(self, number: int, cols: int, rows: int = ALL) -> PerScratchSize:
        """Return the fewest cycles of all ops of a tile for `rows` output rows, for each scratch size."""
        total = np.zeros(len(self.scratch_sizes), np.int64)
        for step, cycles in enumerate(self.problem.cost(number, cols, rows)[1], self.tiles[number].first):
            total += self._per_scratch_size(step, cycles)
        return total

    def _set_lower_bounds(self) -> None:
        """Set the arrays min_bytes, min_cycles, recomputed_macs and ties, and the edges of the graph to search.

        The arrays have an entry per edge; an edge is a fused stage with one choice of tiles, or an unfused op. min_bytes and
        min_cycles are lower bounds; min_cycles has the shape [edge, scratch size]. ties decides between equally fast paths.
        """
        stages, unfused, count = self.stages, self.unfused, len(self.stages.stage)
        begin, end = stages.begin[stages.stage], stages.end[stages.stage]
        step_of, count_of_ops = {index: step for step, index in enumerate(self.order)}, len(self.order)
        steps = np.array([step_of[each.ops[0]] for each in unfused], np.int64)
        fused_bytes = stages.bytes[stages.stage] - stages.saved + stages.tile_bytes - stages.most_overlap[stages.stage]
        self.min_bytes = np.concatenate([fused_bytes, np.array([each.bytes for each in unfused], np.int64)])
        self.recomputed_macs = np.concatenate([stages.recomputed_macs, np.zeros(len(unfused), np.int64)])
        ends = np.concatenate([end, steps + 1])
        self.edges = edges_of(np.concatenate([begin, steps]), ends, self.recomputed_macs, count_of_ops)
        zeros = np.zeros(len(self.scratch_sizes), np.int64)
        by_rows = (self._untiled(step) if self.usable[step] else zeros for step in range(count_of_ops))
        before = np.cumsum([zeros, *by_rows], axis=0)  # prefix sums over the steps
        self.min_cycles = np.zeros((len(self.min_bytes), len(zeros)), np.int64)
        untiled = before[stages.end] - before[stages.begin] - self._cycles_of_unread_rows()
        self.min_cycles[:count] = untiled[stages.stage]
        self.min_cycles[count:] = np.array([each.cycles for each in unfused], np.int64)[:, None]
        added, kinds = self._cycles_added_by_tiles()
        for level in range(len(zeros)):
            self.min_cycles[:count, level] += _sums(added[kinds, level], stages.tiles_at)
        self.ties = np.zeros(len(self.min_bytes), np.int64)
        sizes = np.array(
            [last + 1 - tile.first for tile, last in zip(self.tiles, self.last_step, strict=True)] or [0], np.int64
        )
        self.ties[:count] = end - begin + TIE_OF_TILED * _sums(sizes[stages.tiles], stages.tiles_at)

    def _cycles_of_unread_rows(self) -> NDArray[np.int64]:
        """Return the cycles that each stage saves by not computing rows that no op reads, as an array [stage, scratch size]."""
        stages = self.stages
        saved = np.zeros((len(stages.begin), len(self.scratch_sizes)), np.int64)
        for stage in np.flatnonzero(np.diff(stages.fewer_at)).tolist():
            for step, rows in stages.fewer(stage).items():
                saved[stage] += self._untiled(step) - self._untiled(step, rows)
        return saved

    def _cycles_added_by_tiles(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Compute how many more cycles tiles take than their ops untiled.

        Tiles are grouped in kinds: tiles of one kind have the same ops and compute the same rows.

        Returns:
            The additional cycles of each kind at its best width, as an array [kind, scratch size], and the kind of each entry
            of `stages.tiles`.
        """
        stages, known, added = self.stages, dict[tuple[int, tuple[int, ...]], int](), list[PerScratchSize]()
        stage_of_tile = np.repeat(stages.stage, np.diff(stages.tiles_at))
        stage_of_tile[np.diff(stages.fewer_at)[stage_of_tile] == 0] = -1  # all stages that compute all rows count as one
        base = len(stages.begin) + 1
        codes, inverse = np.unique(stages.tiles * base + stage_of_tile + 1, return_inverse=True)  # of (tile, stage) pairs
        kinds = list[int]()
        for number, stage in (divmod(code, base) for code in codes.tolist()):
            last, fewer = self.last_step[number], stages.fewer(stage - 1) if stage else {}
            steps = range(self.tiles[number].first, last + 1)
            key = number, tuple(fewer.get(step, ALL) for step in steps)
            if key not in known:
                known[key] = len(added)
                tiled = np.min([self._tiled(number, cols, fewer.get(last, ALL)) for cols in self._widths(number)], axis=0)
                added.append(tiled - np.sum([self._untiled(step, fewer.get(step, ALL)) for step in steps], axis=0))
            kinds.append(known[key])
        shape = -1, len(self.scratch_sizes)
        return np.array(added, np.int64).reshape(shape), np.array(kinds, np.int64)[inverse]

    def _widths(self, number: int) -> list[int]:
        """Return the columns of a tile and, if tiles may be widened, 2, 4, ... times as many, up to the whole width."""
        problem, widths = self.problem, [self.tiles[number].cols]
        width = problem.tensors[problem.ops[self.last_step[number]].output].cols
        while problem.has_cycles and problem.partition is None and widths[-1] < width:
            widths.append(min(2 * widths[-1], width))
        return widths

    def _compute_exactly(self, edge: int) -> None:
        """Replace the bounds of an edge's stage by its exact RAM, and list Pareto-optimal options: scratch and tile widths."""
        begin, end, fewer = self._stage(edge)
        tiles, size = self.stages.tiles_of(edge), int(self.stages.tile_bytes[edge])
        shared = overlap_in_stage(self.problem, begin, end, {self.last_step[number]: self.tiles[number] for number in tiles})
        least_scratch = max(min(kernel.scratch for kernel in self.usable[step]) for step in range(begin, end))
        self.min_bytes[edge] += int(self.stages.most_overlap[self.stages.stage[edge]]) - shared + least_scratch
        tiled = {step for number in tiles for step in range(self.tiles[number].first, self.last_step[number] + 1)}
        scratch_sizes = np.unique([kernel.scratch for step in range(begin, end) for kernel in self.usable[step]])
        scratch_sizes = scratch_sizes[scratch_sizes >= least_scratch]
        levels = np.searchsorted(self.scratch_sizes, scratch_sizes)
        widths = [[(number, cols, fewer.get(self.last_step[number], ALL)) for cols in self._widths(number)] for number in tiles]
        tile_sizes = sorted({max(size, self.problem.cost(*key)[0]) for of_tile in widths for key in of_tile} or {0})
        cycles = np.zeros((len(tile_sizes), len(scratch_sizes)), np.int64)
        for step in range(begin, end):
            if step not in tiled:
                cycles += self._untiled(step, fewer.get(step, ALL))[levels]
        for of_tile in widths:
            buffer_bytes = [self.problem.cost(*key)[0] for key in of_tile]  # rise with the width
            fewest = np.minimum.accumulate([self._tiled(*key)[levels] for key in of_tile], axis=0)
            cycles += fewest[np.searchsorted(buffer_bytes, tile_sizes, side="right") - 1]
        self.options[edge] = pareto_front(
            (tile_size - size + scratch - least_scratch, int(cycles[x, y]), scratch, tile_size)
            for y, scratch in enumerate(scratch_sizes.tolist())
            for x, tile_size in enumerate(tile_sizes)
        )

    def _stage(self, edge: int) -> tuple[int, int, dict[int, int]]:
        """Return the fused stage of an edge: its steps [begin, end), and step -> rows to compute, if these are not all."""
        stage = int(self.stages.stage[edge])
        return int(self.stages.begin[stage]), int(self.stages.end[stage]), self.stages.fewer(stage)

    def _option(self, edge: int, byte_limit: int) -> Option:
        """Return the fastest option (scratch size, tile widths) within `byte_limit` of a stage whose options are computed."""
        options = self.options[edge]
        return options[bisect_right(options, byte_limit - int(self.min_bytes[edge]), key=lambda option: option[0]) - 1]

    def _cost(self, edge: int, byte_limit: int) -> int:
        if self.min_bytes[edge] > byte_limit:
            return NEVER
        return self._option(edge, byte_limit)[1] * TIES + int(self.ties[edge])

    def _chosen(self, edge: int, byte_limit: int) -> ChosenStage:
        """Return the stage or unfused op of an edge, with the tiles and kernels that are fastest within `byte_limit` bytes."""
        if edge >= len(self.stages.stage):
            return self.unfused[edge - len(self.stages.stage)]
        more_bytes, stage_cycles, scratch, tile_bytes = self._option(edge, byte_limit)
        begin, end, fewer = self._stage(edge)
        level = int(np.searchsorted(self.scratch_sizes, scratch))
        cycles, tiles = dict[int, Cycles](), list[Tile]()
        for number in self.stages.tiles_of(edge):
            tile, last = self.tiles[number], self.last_step[number]
            rows = fewer.get(last, ALL)
            able = [cols for cols in self._widths(number) if self.problem.cost(number, cols, rows)[0] <= tile_bytes]
            width = min(able, key=lambda cols: (int(self._tiled(number, cols, rows)[level]), -cols))
            tiles.append(Tile(self.order[tile.first : last + 1], width, tile.rows, tile.is_cached))
            of_ops = self.problem.cost(number, width, rows)[1] or [
                (0,) * len(self.usable[step]) for step in range(tile.first, end)
            ]
            cycles |= dict(zip(range(tile.first, last + 1), of_ops, strict=False))
        cycles |= {step: self._row_cycles(step, fewer.get(step, ALL)) for step in range(begin, end) if step not in cycles}
        names = tuple(_fastest_kernel(self.usable[step], cycles[step], scratch) for step in range(begin, end))
        return ChosenStage(int(self.min_bytes[edge]) + more_bytes, stage_cycles, self.order[begin:end], tuple(tiles), names)


def _fastest_kernel(kernels: Sequence[Kernel], cycles: Cycles, scratch: int) -> str:
    """Return the name of the fastest kernel that needs at most `scratch` bytes; ties are broken by less scratch."""
    pairs = zip(kernels, cycles, strict=True)
    return min((taken, kernel.scratch, kernel.name) for kernel, taken in pairs if kernel.scratch <= scratch)[2]


def _sums(values: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of values[at[k] : at[k + 1]] for each k, as an array; 0 for an empty range."""
    before = np.concatenate(([0], np.cumsum(values)))
    sums: NDArray[np.int64] = before[at[1:]] - before[at[:-1]]
    return sums


def pareto_front(items: Iterable[Item], costs: Callable[[Item], tuple[int, int]] = BYTES_AND_CYCLES) -> list[Item]:
    """Return the items that are Pareto-optimal in two costs, by default the first fields, sorted; of equal ones the first."""
    front, least = list[Item](), NEVER
    for item in sorted(items, key=costs):
        if (second := costs(item)[1]) < least:
            front.append(item)
            least = second
    return front
