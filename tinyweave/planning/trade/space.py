"""The trade of bytes for cycles: which stages, tiles and kernels need fewest cycles within so many bytes.

In: an order of a graph's ops, as rows, and the kernels that each may have. Out: for a limit of bytes and one of
multiply-accumulates done again, the path of stages with the fewest cycles. Bytes are a maximum over the stages of a path,
cycles a sum, so it is a shortest path over the cuts. What a stage needs exactly is worked out only where the path depends on
it: its bytes and cycles are lower bounds until a shortest path takes it; one of which all is exact is the best.

The space: stages that `fuse.stages` grows from each step, unless they need as much as their steps one by one; of their tiles
the choices that save most; tiles of 1, 2, 4, ... columns; one area of scratch for all kernels of a stage, of any size that one
of them needs, in which each op has its fastest kernel. In that space the answers are exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np

from ...ops import macs_per_op
from ..fuse.access import RowGraph, joined, recomputed_macs, tile_words
from ..fuse.schedule import is_fused
from ..fuse.stages import (
    MOST_CHOICES,
    MOST_GROWN,
    NEVER,
    SHORT,
    Partition,
    StageMap,
    StageMemory,
    TileCandidate,
    TileChoice,
    grow_choices,
    growing,
    saved_by,
    shared_in_stage,
    stage_memory,
    tile_candidates,
)
from ..liveness import lifetimes
from ..plan import Tile
from .shortest_path import Cuts
from .stage_cycles import ByLevel, Kernel, StageCycles

TIES = 1 << 14  # more than ops in tiles and fused ops count on any path: by these, stages of equally many cycles are chosen
TIE_OF_TILED = 8  # an op in a tile counts as so many fused ones


class ChosenStage(NamedTuple):
    """A stage of a path, or one op by itself. kernels: the name per op. bytes: what it needs. cycles: estimated."""

    ops: tuple[int, ...]
    tiles: tuple[Tile, ...]
    kernels: tuple[str, ...]
    bytes: int
    cycles: int


class Path(NamedTuple):
    """Stages from the first op to the last. bytes: of the busiest. cycles: of all."""

    stages: tuple[ChosenStage, ...]
    bytes: int
    cycles: int


class _Single(NamedTuple):
    """An op that runs by itself with one of its kernels."""

    bytes: int
    cycles: int
    step: int
    kernel: str


class _Trade(NamedTuple):
    """More bytes for fewer cycles in a stage. scratch: of its kernels; tile: bytes of the largest tile."""

    bytes: int
    cycles: int
    scratch: int
    tile: int


T = TypeVar("T", _Single, _Trade)


class _Stage:
    """A possible stage, from the step `begin` up to `end`, with a choice of tiles. trades: what more bytes than its least give,
    the fewest bytes first; None until that was worked out."""

    __slots__ = ("begin", "choice", "end", "memory", "trades")

    def __init__(self, begin: int, end: int, choice: TileChoice, memory: StageMemory) -> None:
        self.begin, self.end, self.choice, self.memory = begin, end, choice, memory
        self.trades: list[_Trade] | None = None

    @property
    def bytes(self) -> int:
        """Return what it needs with the narrowest tiles and no scratch, if its output shares all that dies."""
        return self.memory.total - self.choice.saved + self.choice.tile - self.memory.most_shared


class Space:
    """The stages of an order of the ops, with the kernels that each may have.

    kernels: per op, the portable one first. budget: multiply-accumulates that may be done again in all. fuses: whether there
    are stages of several ops. partition: the only stages that there are, with tiles that stay as wide as they are.
    """

    def __init__(
        self,
        row_graph: RowGraph,
        order: Sequence[int],
        owner: Mapping[str, str],
        kernels: Sequence[Sequence[Kernel]],
        core: str,
        *,
        budget: int,
        fuses: bool = True,
        partition: Partition | None = None,
    ) -> None:
        self.row_graph, self.order, self.owner, self.kernels = row_graph, tuple(order), owner, kernels
        self.widens = partition is None
        self.cycles_of = StageCycles(row_graph, kernels, core)
        self.lives = lifetimes(row_graph.graph, [(index,) for index in order], owner, by_rows=row_graph.streamed_outputs)
        self._words: dict[Tile, int] = {}
        self.worked_out = list[int]()  # numbers of stages
        taken = {index for ops in partition.stages if is_fused(row_graph, ops) for index in ops} if partition else set[int]()
        self.singles = [single for step in range(len(order)) if self.order[step] not in taken for single in self._singles(step)]
        if partition is not None:
            self.stages = list(self._given(partition))
        else:
            self.stages = list(self._possible(budget)) if fuses else []
        self._tabulate()

    def fastest(self, byte_limit: int, budget: int) -> Path | None:
        """Return the path with the fewest cycles within so many bytes and multiply-accumulates done again, if one is."""
        # the most scratch that each stage has room for
        level = np.searchsorted(self.cycles_of.levels, byte_limit - self.low, side="right") - 1
        cost = self.least_cycles[np.arange(len(level)), level] * TIES + self.ties
        cost[(level < 0) | (self.again > budget)] = NEVER
        for number in self.worked_out:
            if cost[number] < NEVER:
                cost[number] = self._cost(number, byte_limit)
        while True:
            path = self.cuts.shortest(cost, budget)
            if path is None:
                return None
            unsure = [number for number in path if number < len(self.stages) and self.stages[number].trades is None]
            if not unsure:
                stages = tuple(self._chosen(number, byte_limit) for number in path)
                return Path(stages, max(stage.bytes for stage in stages), sum(stage.cycles for stage in stages))
            for number in unsure:
                self._work_out(number)
                cost[number] = self._cost(number, byte_limit)

    def _singles(self, step: int) -> list[_Single]:
        """Return an op by itself with those of its kernels that are worth it; none where it takes or gives rows."""
        index, less = self.order[step], 0
        if is_fused(self.row_graph, (index,)):
            return []
        for name in (*self.row_graph.streamed_inputs, *self.row_graph.streamed_outputs):  # they are never whole
            if max(self.lives[name].begin, 0) <= step < self.lives[name].end:
                less += self.row_graph.graph.tensors[name].bytes
        once = self.cycles_of.once
        return _worth_it([_Single(k.alone - less, once(index, k.name), step, k.name) for k in self.kernels[index]])

    def _possible(self, budget: int) -> Iterator[_Stage]:
        """Yield the stages that need less than their steps one by one, as far as is known before their output is laid over what
        dies."""
        row_graph, order, steps = self.row_graph, self.order, len(self.order)
        alone = [NEVER] * steps
        for single in self.singles:
            alone[single.step] = min(alone[single.step], single.bytes)
        begun = (row_graph.graph.tensors[name].bytes for name, life in self.lives.items() if life.begin < 0)
        brought = (row_graph.graph.tensors[name].bytes for name in row_graph.streamed_inputs)
        unfused = (alone[step] for step, index in enumerate(order) if row_graph.accesses[index] is None)
        floor = max([sum(begun) - sum(brought), *unfused])  # no path needs less, so no tiles where that is enough
        work = sum(macs_per_op(row_graph.graph, clipped=True))
        # the same tiles for all amounts of work up to twice the network's: more of it never leads to another choice of them
        candidates = tile_candidates(row_graph, order, max(budget, work) if budget else 0)
        longest = steps if steps * steps <= 2 * MOST_GROWN else max(SHORT, MOST_GROWN // steps)
        reached = [True] + [False] * steps
        for begin in range(steps):
            if not reached[begin]:
                continue  # what comes by rows is taken by no stage up to here
            choices, most = [[TileChoice(0, 0, 0)]], alone[begin]
            reached[begin + 1] |= alone[begin] < NEVER
            for end, is_stage, maps in growing(row_graph, order[: begin + longest], begin):
                most = max(most, alone[end - 1])
                choices.append(grow_choices(row_graph, choices, candidates[end - 1], maps, begin, choices=MOST_CHOICES))
                if not is_stage or (end == begin + 1 and alone[begin] < NEVER):
                    continue
                memory = stage_memory(row_graph, order, self.lives, maps, (begin, end))
                if memory is None:
                    continue
                for choice in choices[-1]:
                    stage = _Stage(begin, end, choice, memory)
                    if stage.bytes < most and not (choice.tiles and memory.total <= floor):
                        reached[end] = True
                        yield stage

    def _given(self, partition: Partition) -> Iterator[_Stage]:
        """Yield the fused stages of a partition."""
        row_graph, begin = self.row_graph, 0
        by_last = {tile.ops[-1]: tile for tile in partition.tiles}
        for ops, end in zip(partition.stages, accumulate(map(len, partition.stages)), strict=True):
            if is_fused(row_graph, ops):
                choice, maps = TileChoice(0, 0, 0), dict[str, StageMap]()
                for upto, _, maps in growing(row_graph, self.order[:end], begin):
                    tile = by_last.get(self.order[upto - 1])
                    if tile is not None:
                        again = sum(recomputed_macs(row_graph, tile).values())
                        reads = joined(row_graph, tile.ops, tile.rows) or ()
                        candidate = TileCandidate(upto - len(tile.ops), tile, self._words_of(tile), again, reads)
                        choice = choice.with_tile(candidate, saved_by(row_graph, candidate, maps))
                memory = stage_memory(row_graph, self.order, self.lives, maps, (begin, end))
                assert memory is not None, "its planner has seen to streamed inputs"
                yield _Stage(begin, end, choice, memory)
            begin = end

    def _tabulate(self) -> None:
        """Set the arrays over all stages and, after them, the ops by themselves: low, the least bytes that each may need;
        least_cycles, those that it may take with so much scratch as each level has; again; ties."""
        stages, singles, count = self.stages, self.singles, len(self.stages)
        begin = np.array([*(stage.begin for stage in stages), *(single.step for single in singles)], np.int64)
        end = np.array([*(stage.end for stage in stages), *(single.step + 1 for single in singles)], np.int64)
        self.low = np.array([*(stage.bytes for stage in stages), *(single.bytes for single in singles)], np.int64)
        self.again = np.zeros(len(self.low), np.int64)
        self.again[:count] = [stage.choice.macs for stage in stages]
        self.cuts = Cuts(begin, end, self.again, len(self.order))
        self.untiled = {
            index: self.cycles_of.untiled(index) for index in self.order if self.row_graph.accesses[index] is not None
        }
        none = np.zeros(len(self.cycles_of.levels), np.int64)
        upto = np.cumsum([none, *(self.untiled.get(index, none) for index in self.order)], axis=0)
        self.least_cycles = np.zeros((len(self.low), len(none)), np.int64)
        self.least_cycles[:count] = upto[end[:count]] - upto[begin[:count]]
        self.least_cycles[count:] = np.array([single.cycles for single in singles], np.int64)[:, None]
        self.ties = np.zeros(len(self.low), np.int64)
        known: dict[tuple[Tile, int | None], ByLevel] = {}
        for number, stage in enumerate(stages):
            fewer, tiles = stage.memory.fewer, stage.choice.tiles
            tiled = [index for tile in tiles for index in tile.ops]
            self.ties[number] = stage.end - stage.begin + TIE_OF_TILED * len(tiled)
            for index in fewer.keys() - set(tiled):
                self.least_cycles[number] += self.cycles_of.untiled(index, fewer[index]) - self.untiled[index]
            for tile in tiles:
                key = tile, fewer.get(tile.ops[-1])
                if key not in known:
                    wide = np.min([self.cycles_of.tiled(each, key[1]) for each in self._widths(tile)], axis=0)
                    known[key] = wide - sum(self.untiled[index] for index in tile.ops)
                self.least_cycles[number] += known[key]

    def _widths(self, tile: Tile) -> list[Tile]:
        """Return a tile with as many columns as it has, twice as many, and so on, if it may be wider."""
        width = self.row_graph.graph.output(self.row_graph.graph.ops[tile.ops[-1]]).shape[2]
        widths = [tile]
        while self.widens and widths[-1].cols < width:
            widths.append(Tile(tile.ops, min(2 * widths[-1].cols, width), tile.rows, tile.cached))
        return widths

    def _words_of(self, tile: Tile) -> int:
        if tile not in self._words:
            self._words[tile] = tile_words(self.row_graph, tile)
        return self._words[tile]

    def _work_out(self, number: int) -> None:
        """Set what a stage needs, and what more bytes give: scratch for its kernels, wider tiles."""
        self.worked_out.append(number)
        stage, cycles_of = self.stages[number], self.cycles_of
        ops, tiles, fewer = self.order[stage.begin : stage.end], stage.choice.tiles, stage.memory.fewer
        shared = shared_in_stage(self.row_graph, ops, self.owner, stage.memory, tiles)
        least_scratch = max(min(kernel.scratch for kernel in cycles_of.usable[index]) for index in ops)
        self.low[number] = stage.bytes + stage.memory.most_shared - shared + least_scratch
        tiled = {index for tile in tiles for index in tile.ops}
        scratch = np.unique([kernel.scratch for index in ops for kernel in cycles_of.usable[index]])
        scratch = scratch[scratch >= least_scratch]
        at = np.searchsorted(cycles_of.levels, scratch)
        by_width = [(self._widths(tile), fewer.get(tile.ops[-1])) for tile in tiles]
        sizes = np.array(
            sorted({max(stage.choice.tile, self._words_of(wide)) for widths, _ in by_width for wide in widths} or {0}), np.int64
        )
        cycles = np.zeros((len(sizes), len(scratch)), np.int64)
        for index in ops:
            if index not in tiled:
                cycles += (cycles_of.untiled(index, fewer[index]) if index in fewer else self.untiled[index])[at]
        for widths, rows in by_width:
            words = np.array([self._words_of(wide) for wide in widths], np.int64)  # they rise with the width
            fewest = np.minimum.accumulate([cycles_of.tiled(wide, rows)[at] for wide in widths], axis=0)
            cycles += fewest[np.searchsorted(words, sizes, side="right") - 1]
        stage.trades = _worth_it(
            [
                _Trade(size - stage.choice.tile + area - least_scratch, int(cycles[x, y]), area, size)
                for x, size in enumerate(sizes.tolist())
                for y, area in enumerate(scratch.tolist())
            ]
        )

    def _trade(self, number: int, byte_limit: int) -> _Trade:
        """Return the fastest trade of a stage within so many bytes, which are at least its least."""
        trades = self.stages[number].trades
        assert trades is not None
        return trades[bisect_right(trades, byte_limit - int(self.low[number]), key=lambda trade: trade.bytes) - 1]

    def _cost(self, number: int, byte_limit: int) -> int:
        if self.low[number] > byte_limit:
            return NEVER
        return self._trade(number, byte_limit).cycles * TIES + int(self.ties[number])

    def _chosen(self, number: int, byte_limit: int) -> ChosenStage:
        """Return a stage with the tiles and kernels of its fastest trade, or an op by itself."""
        if number >= len(self.stages):
            single = self.singles[number - len(self.stages)]
            return ChosenStage((self.order[single.step],), (), (single.kernel,), single.bytes, single.cycles)
        stage, trade, cycles_of = self.stages[number], self._trade(number, byte_limit), self.cycles_of
        ops, fewer = self.order[stage.begin : stage.end], stage.memory.fewer
        level = int(np.searchsorted(cycles_of.levels, trade.scratch))
        cycles, tiles = dict[int, dict[str, int]](), list[Tile]()
        for tile in stage.choice.tiles:
            rows = fewer.get(tile.ops[-1])
            able = [wide for wide in self._widths(tile) if self._words_of(wide) <= trade.tile]
            tiles.append(min(able, key=lambda wide: (int(cycles_of.tiled(wide, rows)[level]), -wide.cols)))
            cycles |= cycles_of.in_tile(tiles[-1], rows)
        cycles |= {index: cycles_of.by_rows(index, fewer.get(index)) for index in ops if index not in cycles}
        names = tuple(cycles_of.fastest(index, cycles[index], trade.scratch) for index in ops)
        bytes_ = int(self.low[number]) + trade.bytes
        return ChosenStage(ops, tuple(tiles), names, bytes_, trade.cycles)


def _worth_it(options: Sequence[T]) -> list[T]:
    """Return the options of which no other needs as little of bytes and cycles, the fewest bytes first."""
    kept = list[T]()
    for option in sorted(options):
        if not kept or option.cycles < kept[-1].cycles:
            kept.append(option)
    return kept
