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
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...kernels.layer_cycles import FlashReads
from ...ops import macs_per_op
from ..fuse.access import RowGraph, joined, recomputed_macs, tile_words
from ..fuse.possible import Question, Span, Stages, as_arrays, possible_stages
from ..fuse.schedule import is_fused
from ..fuse.stages import (
    NEVER,
    Partition,
    StageMap,
    TileCandidate,
    TileChoice,
    dying_in,
    growing,
    saved_by,
    shared_in_stage,
    stage_memory,
    tile_candidates,
)
from ..liveness import lifetimes
from ..plan import Tile
from .shortest_path import Cuts
from .stage_cycles import ByLevel, Cycles, Kernel, StageCycles

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


class Space:
    """The stages of an order of the ops, with the kernels that each may have.

    kernels: per op, the portable one first. budget: multiply-accumulates that may be done again in all. fuses: whether there
    are stages of several ops; blocks: each of these is one tile. partition: the only stages that there are, with tiles that
    stay as wide as they are.
    """

    def __init__(
        self,
        row_graph: RowGraph,
        order: Sequence[int],
        owner: Mapping[str, str],
        kernels: Sequence[Sequence[Kernel]],
        core: str,
        *,
        reads: FlashReads | None = None,
        budget: int,
        fuses: bool = True,
        blocks: bool = False,
        partition: Partition | None = None,
    ) -> None:
        self.row_graph, self.order, self.owner, self.kernels = row_graph, tuple(order), owner, kernels
        self.widens = partition is None
        self.cycles_of = StageCycles(row_graph, kernels, core, reads)
        self.lives = lifetimes(row_graph.graph, [(index,) for index in order], owner, by_rows=row_graph.streamed_outputs)
        self._words: dict[Tile, int] = {}
        self.trades: dict[int, list[_Trade]] = {}  # of stages that are worked out: what more bytes than their least give
        taken = {index for ops in partition.stages if is_fused(row_graph, ops) for index in ops} if partition else set[int]()
        self.singles = [single for step in range(len(order)) if self.order[step] not in taken for single in self._singles(step)]
        self.tiles = list[Tile]()  # those that stages may have, as narrow as they can be
        if partition is not None:
            self.stages = self._given(partition)
        else:
            self.stages = self._possible(budget, blocks=blocks) if fuses else as_arrays((), self.order, ())
        self._tabulate()

    def fastest(self, byte_limit: int, budget: int) -> Path | None:
        """Return the path with the fewest cycles within so many bytes and multiply-accumulates done again, if one is."""
        # the most scratch that each stage has room for
        level = np.searchsorted(self.cycles_of.levels, byte_limit - self.low, side="right") - 1
        cost = self.least_cycles[np.arange(len(level)), level] * TIES + self.ties
        cost[(level < 0) | (self.again > budget)] = NEVER
        for number in self.trades:
            if cost[number] < NEVER:
                cost[number] = self._cost(number, byte_limit)
        while True:
            path = self.cuts.shortest(cost, budget)
            if path is None:
                return None
            unsure = [number for number in path if number < len(self.stages.span) and number not in self.trades]
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

    def _possible(self, budget: int, *, blocks: bool) -> Stages:
        """Return the stages that need less than their steps one by one, as far as is known before their output is laid over
        what dies."""
        row_graph, order = self.row_graph, self.order
        alone = [NEVER] * len(order)
        for single in self.singles:
            alone[single.step] = min(alone[single.step], single.bytes)
        begun = (row_graph.graph.tensors[name].bytes for name, life in self.lives.items() if life.begin < 0)
        brought = (row_graph.graph.tensors[name].bytes for name in row_graph.streamed_inputs)
        unfused = (alone[step] for step, index in enumerate(order) if row_graph.accesses[index] is None)
        floor = max([sum(begun) - sum(brought), *unfused])  # no path needs less, so no tiles where that is enough
        work = sum(macs_per_op(row_graph.graph, clipped=True))
        # the same tiles for all amounts of work up to twice the network's: more of it never leads to another choice of them
        candidates = tile_candidates(row_graph, order, max(budget, work) if budget else 0, blocks=blocks)
        self.tiles = [each.tile for ending in candidates for each in ending]
        self._words = {each.tile: each.bytes for ending in candidates for each in ending}
        return possible_stages(Question(row_graph, order, self.lives, alone, candidates, -1 if blocks else floor, blocks))

    def _given(self, partition: Partition) -> Stages:
        """Return the fused stages of a partition."""
        row_graph, begin, spans = self.row_graph, 0, list[Span]()
        by_last = {tile.ops[-1]: tile for tile in partition.tiles}
        for ops, end in zip(partition.stages, accumulate(map(len, partition.stages)), strict=True):
            if is_fused(row_graph, ops):
                choice, maps = TileChoice(0, 0, 0), dict[str, StageMap]()
                for upto, _, maps in growing(row_graph, self.order[:end], begin):
                    choice = choice.longer()
                    tile = by_last.get(self.order[upto - 1])
                    if tile is not None:
                        again = sum(recomputed_macs(row_graph, tile).values())
                        reads = joined(row_graph, tile.ops, tile.rows) or ()
                        candidate = TileCandidate(upto - len(tile.ops), tile, self._words_of(tile), again, reads)
                        choice = choice.with_tile(candidate, *saved_by(row_graph, candidate, maps))
                memory = stage_memory(row_graph, self.order, self.lives, maps, (begin, end))
                assert memory is not None, "its planner has seen to streamed inputs"
                spans.append(Span(begin, end, memory, [choice]))
            begin = end
        self.tiles = list(partition.tiles)
        return as_arrays(spans, self.order, self.tiles)

    def _tabulate(self) -> None:
        """Set the arrays over all stages and, after them, the ops by themselves: low, the least bytes that each may need;
        least_cycles, those that it may take with so much scratch as each level has; again; ties."""
        stages, singles, count = self.stages, self.singles, len(self.stages.span)
        begin, end = stages.begin[stages.span], stages.end[stages.span]
        steps = np.array([single.step for single in singles], np.int64)
        alone = np.array([single.bytes for single in singles], np.int64)
        low = stages.total[stages.span] - stages.saved + stages.tile - stages.most_shared[stages.span]
        self.low = np.concatenate([low, alone])
        self.again = np.concatenate([stages.again, np.zeros(len(singles), np.int64)])
        self.cuts = Cuts(np.concatenate([begin, steps]), np.concatenate([end, steps + 1]), self.again, len(self.order))
        none = np.zeros(len(self.cycles_of.levels), np.int64)
        by_rows = (self.cycles_of.untiled(i) if self.row_graph.accesses[i] is not None else none for i in self.order)
        upto = np.cumsum([none, *by_rows], axis=0)
        self.least_cycles = np.zeros((len(self.low), len(none)), np.int64)
        self.least_cycles[:count] = (upto[stages.end] - upto[stages.begin] + self._less_of_rows())[stages.span]
        self.least_cycles[count:] = np.array([single.cycles for single in singles], np.int64)[:, None]
        more, kinds = self._more_of_tiles()
        for level in range(len(none)):
            self.least_cycles[:count, level] += _sums(more[kinds, level], stages.tiles_at)
        self.ties = np.zeros(len(self.low), np.int64)
        sizes = np.array([len(tile.ops) for tile in self.tiles] or [0], np.int64)
        self.ties[:count] = end - begin + TIE_OF_TILED * _sums(sizes[stages.tiles], stages.tiles_at)

    def _less_of_rows(self) -> NDArray[np.int64]:
        """Return [span, level]: cycles that rows which are not needed would take, as negative numbers."""
        stages = self.stages
        less = np.zeros((len(stages.begin), len(self.cycles_of.levels)), np.int64)
        for span in np.flatnonzero(np.diff(stages.fewer_at)).tolist():
            for step, rows in stages.fewer(span).items():
                less[span] += self.cycles_of.untiled(self.order[step], rows) - self.cycles_of.untiled(self.order[step])
        return less

    def _more_of_tiles(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return [kind, level]: cycles that a tile of the best width takes more than its ops by rows, and the kind of each of
        the stages' tiles: kinds are tiles of which as many rows are needed."""
        stages, known = self.stages, dict[tuple[int, tuple[tuple[int, int], ...]], int]()
        more = list[ByLevel]()
        spans = np.repeat(stages.span, np.diff(stages.tiles_at))
        spans[np.diff(stages.fewer_at)[spans] == 0] = -1
        each, kinds = np.unique(stages.tiles * (len(stages.begin) + 1) + spans + 1, return_inverse=True)
        of = list[int]()
        for code in each.tolist():
            number, span = code // (len(stages.begin) + 1), code % (len(stages.begin) + 1) - 1
            tile = self.tiles[number]
            fewer = {self.order[step]: rows for step, rows in stages.fewer(span).items()} if span >= 0 else {}
            key = number, tuple((index, fewer[index]) for index in tile.ops if index in fewer)
            if key not in known:
                known[key] = len(more)
                wide = np.min([self.cycles_of.tiled(each, fewer.get(tile.ops[-1])) for each in self._widths(tile)], axis=0)
                more.append(wide - np.sum([self.cycles_of.untiled(index, fewer.get(index)) for index in tile.ops], axis=0))
            of.append(known[key])
        return np.array(more, np.int64).reshape(-1, len(self.cycles_of.levels)), np.array(of, np.int64)[kinds]

    def _widths(self, tile: Tile) -> list[Tile]:
        """Return a tile with as many columns as it has, twice as many, and so on, if it may be wider."""
        width = self.row_graph.graph.output(self.row_graph.graph.ops[tile.ops[-1]]).shape[2]
        widths = [tile]
        while self.cycles_of.core and self.widens and widths[-1].cols < width:
            widths.append(Tile(tile.ops, min(2 * widths[-1].cols, width), tile.rows, tile.cached))
        return widths

    def _words_of(self, tile: Tile) -> int:
        if tile not in self._words:
            self._words[tile] = tile_words(self.row_graph, tile)
        return self._words[tile]

    def _work_out(self, number: int) -> None:
        """Set what a stage needs, and what more bytes give: scratch for its kernels, wider tiles."""
        cycles_of, (begin, end), tiles, fewer = self.cycles_of, self._span(number), self._tiles(number), self._fewer(number)
        ops, size = self.order[begin:end], int(self.stages.tile[number])
        shared = shared_in_stage(self.row_graph, ops, self.owner, dying_in(self.row_graph, self.lives, (begin, end)), tiles)
        least_scratch = max(min(kernel.scratch for kernel in cycles_of.usable[index]) for index in ops)
        self.low[number] += int(self.stages.most_shared[self.stages.span[number]]) - shared + least_scratch
        tiled = {index for tile in tiles for index in tile.ops}
        scratch = np.unique([kernel.scratch for index in ops for kernel in cycles_of.usable[index]])
        scratch = scratch[scratch >= least_scratch]
        at = np.searchsorted(cycles_of.levels, scratch)
        by_width = [(self._widths(tile), fewer.get(tile.ops[-1])) for tile in tiles]
        sizes = np.array(
            sorted({max(size, self._words_of(wide)) for widths, _ in by_width for wide in widths} or {0}), np.int64
        )
        cycles = np.zeros((len(sizes), len(scratch)), np.int64)
        for index in ops:
            if index not in tiled:
                cycles += cycles_of.untiled(index, fewer.get(index))[at]
        for widths, rows in by_width:
            words = np.array([self._words_of(wide) for wide in widths], np.int64)  # they rise with the width
            fewest = np.minimum.accumulate([cycles_of.tiled(wide, rows)[at] for wide in widths], axis=0)
            cycles += fewest[np.searchsorted(words, sizes, side="right") - 1]
        self.trades[number] = _worth_it(
            [
                _Trade(words - size + area - least_scratch, int(cycles[x, y]), area, words)
                for x, words in enumerate(sizes.tolist())
                for y, area in enumerate(scratch.tolist())
            ]
        )

    def _span(self, number: int) -> tuple[int, int]:
        span = self.stages.span[number]
        return int(self.stages.begin[span]), int(self.stages.end[span])

    def _tiles(self, number: int) -> list[Tile]:
        return [self.tiles[each] for each in self.stages.tiles_of(number)]

    def _fewer(self, number: int) -> dict[int, int]:
        """Return op of a stage -> its rows that are needed, where these are not all."""
        return {self.order[step]: rows for step, rows in self.stages.fewer(int(self.stages.span[number])).items()}

    def _trade(self, number: int, byte_limit: int) -> _Trade:
        """Return the fastest trade of a stage within so many bytes, which are at least its least."""
        trades = self.trades[number]
        return trades[bisect_right(trades, byte_limit - int(self.low[number]), key=lambda trade: trade.bytes) - 1]

    def _cost(self, number: int, byte_limit: int) -> int:
        if self.low[number] > byte_limit:
            return NEVER
        return self._trade(number, byte_limit).cycles * TIES + int(self.ties[number])

    def _chosen(self, number: int, byte_limit: int) -> ChosenStage:
        """Return a stage with the tiles and kernels of its fastest trade, or an op by itself."""
        if number >= len(self.stages.span):
            single = self.singles[number - len(self.stages.span)]
            return ChosenStage((self.order[single.step],), (), (single.kernel,), single.bytes, single.cycles)
        trade, cycles_of = self._trade(number, byte_limit), self.cycles_of
        (begin, end), fewer = self._span(number), self._fewer(number)
        ops = self.order[begin:end]
        level = int(np.searchsorted(cycles_of.levels, trade.scratch))
        cycles, tiles = dict[int, Cycles](), list[Tile]()
        for tile in self._tiles(number):
            rows = fewer.get(tile.ops[-1])
            able = [wide for wide in self._widths(tile) if self._words_of(wide) <= trade.tile]
            tiles.append(min(able, key=lambda wide: (int(cycles_of.tiled(wide, rows)[level]), -wide.cols)))
            cycles |= cycles_of.in_tile(tiles[-1], rows)
        cycles |= {index: cycles_of.by_rows(index, fewer.get(index)) for index in ops if index not in cycles}
        names = tuple(cycles_of.fastest(index, cycles[index], trade.scratch) for index in ops)
        bytes_ = int(self.low[number]) + trade.bytes
        return ChosenStage(ops, tuple(tiles), names, bytes_, trade.cycles)


def _sums(values: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums of values[at[k] : at[k + 1]] for all k."""
    upto = np.concatenate(([0], np.cumsum(values)))
    sums: NDArray[np.int64] = upto[at[1:]] - upto[at[:-1]]
    return sums


def _worth_it(options: Sequence[T]) -> list[T]:
    """Return the options of which no other needs as little of bytes and cycles, the fewest bytes first."""
    kept = list[T]()
    for option in sorted(options):
        if not kept or option.cycles < kept[-1].cycles:
            kept.append(option)
    return kept
