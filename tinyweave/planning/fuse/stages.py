"""How fused stages grow, and which ops of a stage run together in tiles.

In: a Graph as rows, an order. Out: per span of steps whether it can be a stage, what it needs, and the tiles that save most.
stages.c does the same in C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd, lcm
from typing import NamedTuple

from ...ir import CompileError, Tensor
from ...ops.window import Window
from ..alias.overlap import shared_bytes
from ..liveness import Life
from ..plan import Tile
from .access import Access, RowGraph, joined, recomputed_macs, row_bytes, tile_words
from .schedule import bytes_written, distances, rows_needed, schedule_rows

NEVER = 1 << 60
SHORT = 6  # ops of a stage
MOST_GROWN = 50_000  # times that a stage grows by an op: with more than 316 ops none can have them all
LONGEST_TILE = 6  # ops that run together
NARROWEST = 1  # columns of a tile
TILE_ROWS = (1, 2, 4, 8)  # rows of a tile
MOST_CHOICES = 16  # of tiles in a stage, followed at a time
MOST_TICKS = 1 << 50  # of a row: beyond it no map has so many rows


class TileChoice(NamedTuple):
    """Tiles of a stage. saved: bytes of rings that they spare. tile: bytes of the largest. macs: what they compute again.
    if_read: bytes that they spare less where the output of the last one, which ends the stage, is read in it: then it is a ring
    as well."""

    saved: int
    tile: int
    macs: int
    tiles: tuple[Tile, ...] = ()
    if_read: int = 0

    def with_tile(self, candidate: TileCandidate, saved: int, if_read: int = 0) -> TileChoice:
        """Return the choice of a longer stage with one more tile, which saves so many bytes of rings."""
        tile, macs = max(self.tile, candidate.bytes), self.macs + candidate.macs
        return TileChoice(self.saved - self.if_read + saved, tile, macs, (*self.tiles, candidate.tile), if_read)

    def longer(self) -> TileChoice:
        """Return the choice of a stage that goes on."""
        return self._replace(saved=self.saved - self.if_read, if_read=0) if self.if_read else self


class Partition(NamedTuple):
    """An order of ops as stages, some of the ops in tiles."""

    stages: list[tuple[int, ...]]
    tiles: tuple[Tile, ...] = ()


def not_by_rows(row_graph: RowGraph, order: Sequence[int]) -> CompileError:
    """Return the error that says which op cannot take a network input by rows."""
    streamed = set(row_graph.streamed_inputs)
    op = next(row_graph.graph.ops[index] for index in order if not streamed.isdisjoint(row_graph.graph.ops[index].inputs))
    other = "put channels last with --layout nhwc, or plan" if op.kind == "transpose" else "plan"
    return CompileError("cannot take a network input row by row", f"{other} without streamed inputs", op=op)


class TileCandidate(NamedTuple):
    """Ops that could run together, from the step `begin` on. bytes: of the tile. macs: what it computes again."""

    begin: int
    tile: Tile
    bytes: int
    macs: int
    reads: tuple[Access, ...]


def tile_candidates(
    row_graph: RowGraph, order: Sequence[int], budget: int, *, blocks: bool = False
) -> list[list[TileCandidate]]:
    """Return the tiles that end with each step, of so many columns, that stay within `budget`. blocks: of a row, with any
    number of ops."""
    by_end: list[list[TileCandidate]] = []
    longest = len(order) if blocks else LONGEST_TILE
    for end in range(1, len(order) + 1):
        by_end.append([])
        out = row_graph.graph.ops[order[end - 1]].outputs[0]
        heights = TILE_ROWS[:1] if blocks else TILE_ROWS if budget else _free_heights(row_graph.height.get(out, 1))
        for begin in range(end - 2, max(end - longest, 0) - 1, -1):
            run = tuple(order[begin:end])
            reads, least_macs = joined(row_graph, run), None
            if reads is None:
                break
            for rows in heights:
                tile = Tile(run, NARROWEST, rows)
                reads = joined(row_graph, run, rows) if rows > 1 else reads
                macs = sum(recomputed_macs(row_graph, tile).values())
                if reads is None or (least_macs is not None and macs >= least_macs):
                    break
                least_macs = macs
                if macs <= budget:
                    by_end[-1].append(TileCandidate(begin, tile, tile_words(row_graph, tile), macs, reads))
    return by_end


def _free_heights(rows: int) -> tuple[int, ...]:
    """Return the heights of tiles that may compute nothing again: a row, and where windows reach over several, all of a map."""
    return TILE_ROWS[:1] + tuple(height for height in TILE_ROWS[1:] if height // 2 < rows <= height)


def grow_choices(
    row_graph: RowGraph,
    fronts: Sequence[Sequence[TileChoice]],
    candidates: Iterable[TileCandidate],
    stage: Mapping[str, StageMap],
    first: int,
    *,
    choices: int,
) -> list[TileChoice]:
    """Return the choices of tiles in a stage that has grown by an op, of which no other saves more with less; fronts: those
    before."""
    options = [choice.longer() for choice in fronts[-1]]
    for candidate in candidates:
        if candidate.begin >= first:
            saved, if_read = saved_by(row_graph, candidate, stage)
            if saved > 0:
                options += [choice.with_tile(candidate, saved, if_read) for choice in fronts[candidate.begin - first]]
    front = _most_saving([choice for choice in options if not choice.macs], (), choices)
    front += _most_saving([choice for choice in options if choice.macs], front, choices)
    return front if any(not choice.tiles for choice in front) else [*front, TileChoice(0, 0, 0)]


def _most_saving(options: Iterable[TileChoice], others: Sequence[TileChoice], most: int) -> list[TileChoice]:
    """Return so many of the choices that save most; none needs as much of everything as another, or as one of the others."""
    front: list[TileChoice] = []
    for choice in sorted(options, key=lambda c: (-c.saved + c.tile, c.macs, c.tile, len(c.tiles))):
        if len(front) == most:
            break
        beaten = (
            c.saved - max(c.if_read - choice.if_read, 0) >= choice.saved and c.tile <= choice.tile and c.macs <= choice.macs
            for c in (*others, *front)
        )
        if not any(beaten):
            front.append(choice)
    return front


def grow_block(
    row_graph: RowGraph, candidates: Iterable[TileCandidate], stage: Mapping[str, StageMap], first: int, *, is_op: bool
) -> list[TileChoice]:
    """Return the choice of a stage that is one tile, or one op."""
    whole = [each for each in candidates if each.begin == first]
    options = [TileChoice(0, 0, 0).with_tile(each, *saved_by(row_graph, each, stage)) for each in whole]
    return [TileChoice(0, 0, 0)] if is_op else options


def saved_by(row_graph: RowGraph, candidate: TileCandidate, stage: Mapping[str, StageMap]) -> tuple[int, int]:
    """Return bytes that the rings of a stage need less when its last ops run together, and how many less where it goes on."""
    graph, saved = row_graph.graph, 0
    for index in candidate.tile.ops[:-1]:
        tensor = graph.output(graph.ops[index])
        saved += min(stage[tensor.name].ring_rows, tensor.shape[1]) * row_bytes(tensor)
    inside = [(read, source) for read in candidate.reads if (source := stage.get(read.tensor)) is not None]
    tick = max((source.start + read.window.wait(source.every) for read, source in inside), default=0)  # its first row's
    for read, source in inside:
        rows = read.window.kept(source.every, tick - source.start)
        saved -= _grown(graph.tensors[read.tensor], source.ring_rows, max(source.ring_rows, rows))
    out = graph.output(graph.ops[candidate.tile.ops[-1]])
    taller = _grown(out, stage[out.name].ring_rows, stage[out.name].ring_rows + candidate.tile.rows - 1)
    return (saved - taller, 0) if out.name in row_graph.streamed_outputs else (saved, taller)


def _grown(tensor: Tensor, rows: int, more: int) -> int:
    """Return the bytes by which a ring of `rows` rows grows to `more`; it has no more than the map."""
    return (min(more, tensor.shape[1]) - min(rows, tensor.shape[1])) * row_bytes(tensor)


class StageMap(NamedTuple):
    """A tensor that a growing stage makes: ticks from one row to the next, the tick of the first row, rows its ring keeps. How
    long a tick is differs between groups of tensors that nothing joins yet. start: the tick to which a lead is put off."""

    every: int
    first: int
    lead: bool
    start: int
    ring_rows: int = 1


def growing(row_graph: RowGraph, order: Sequence[int], begin: int) -> Iterator[tuple[int, bool, dict[str, StageMap]]]:
    """Yield stages that begin at a step and grow by one op: (end, whether it has one last op and so can be one, what it
    makes)."""
    maps: dict[str, StageMap] = {}
    group: dict[str, str] = {}  # tensors whose ticks are known relative to each other
    waits: dict[str, list[tuple[str, Window]]] = {}  # lead -> (reader's output, its window)
    unread: set[str] = set()
    for end in range(begin + 1, len(order) + 1):
        reads = row_graph.accesses[order[end - 1]]
        if reads is None:
            return
        out, inside = row_graph.graph.ops[order[end - 1]].outputs[0], []
        for read in reads:
            if read.tensor in row_graph.streamed_inputs and read.tensor not in maps:
                maps[read.tensor] = StageMap(1, 0, True, 0)
                group[read.tensor] = read.tensor
            if read.tensor in maps:
                inside.append(read)
        if any(not read.window.stride for read in inside):
            return
        if (up := lcm(*(read.window.up for read in inside))) > 1:  # ticks that rows of a larger output can share out
            finer = {group[read.tensor] for read in inside}
            for name in [name for name, number in group.items() if number in finer]:
                every, first, start = (up * tick for tick in (maps[name].every, maps[name].first, maps[name].start))
                if max(every, first) > MOST_TICKS:
                    return
                maps[name] = maps[name]._replace(every=every, first=first, start=start)
        for read in inside[1:]:
            own, other = (maps[x].every // window.up * window.stride for x, window in (inside[0], read))
            lead, joined = group[inside[0].tensor], group[read.tensor]
            if lead == joined and own != other:
                return  # two ways of different strides lead to the same rows
            if lead != joined:
                ticks = {lead: other // gcd(own, other), joined: own // gcd(own, other)}
                for name in [name for name, number in group.items() if number in ticks]:
                    factor, group[name] = ticks[group[name]], lead
                    every, first, start = (factor * tick for tick in (maps[name].every, maps[name].first, maps[name].start))
                    if max(every, first) > MOST_TICKS:
                        return
                    maps[name] = maps[name]._replace(every=every, first=first, start=start)
        at = [maps[read.tensor].first + read.window.wait(maps[read.tensor].every) for read in inside]
        every = maps[inside[0].tensor].every // inside[0].window.up * inside[0].window.stride if inside else 1
        first = max(at, default=0)
        if max(every, first) > MOST_TICKS:
            return
        maps[out] = StageMap(every, first, not inside, first)
        group[out] = group[inside[0].tensor] if inside else out
        for read in inside:
            source = maps[read.tensor]
            unread.discard(read.tensor)
            if source.lead:
                waits.setdefault(read.tensor, []).append((out, read.window))
            else:
                rows = read.window.kept(source.every, maps[out].first - source.first)
                maps[read.tensor] = source._replace(ring_rows=max(source.ring_rows, rows))
        for name in {read.tensor for read in inside if maps[read.tensor].lead}:  # a lead runs no earlier than it is needed
            step, readers = maps[name].every, waits[name]
            first = min(maps[reader].first - window.wait(step) for reader, window in readers)
            rows = max(window.kept(step, maps[reader].first - first) for reader, window in readers)
            maps[name] = maps[name]._replace(ring_rows=rows, start=first)
        yield end, not unread, maps
        if row_graph.sums[order[end - 1]]:
            return
        unread.add(out)


class StageMemory(NamedTuple):
    """What a span of steps needs as a stage, tiles apart. total: bytes of all that is alive in it. most_shared: the most that
    its output may share with what dies. fewer: ops of which not all rows are needed, and how many are."""

    total: int
    most_shared: int
    fewer: Mapping[int, int]


def stage_memory(
    row_graph: RowGraph,
    order: Sequence[int],
    lives: Mapping[str, Life],
    maps: Mapping[str, StageMap],
    span: tuple[int, int],
) -> StageMemory | None:
    """Return what a span of steps needs as a stage that makes these maps; None when a streamed input has readers outside."""
    graph, (begin, end) = row_graph.graph, span
    ops, total = order[begin:end], 0
    inner = {name for name in maps if row_graph.users[name].issubset(ops)}
    reads = {index: row_graph.accesses[index] or () for index in ops}
    rows = rows_needed(row_graph, reads, {name: graph.producer.get(name, name) for name in maps}, inner)
    for name, life in lives.items():
        if life.begin >= end or life.end <= begin:
            continue
        if name in row_graph.streamed_inputs:
            if name not in maps:
                continue
            if not row_graph.users[name].issubset(ops):
                return None
            total += min(maps[name].ring_rows, rows[name]) * row_bytes(graph.tensors[name])
        elif life.begin >= begin and life.end <= end and not life.persistent:
            total += min(maps[name].ring_rows, rows[graph.producer[name]]) * row_bytes(graph.tensors[name])
        else:
            total += graph.tensors[name].bytes
    total += row_graph.sums[ops[-1]]
    fewer = {index: rows[index] for index in ops if rows[index] < row_graph.steps[index]}
    shared = min(sum(dying_in(row_graph, lives, span).values()), graph.output(graph.ops[ops[-1]]).bytes)
    return StageMemory(total, shared, fewer)


def dying_in(row_graph: RowGraph, lives: Mapping[str, Life], span: tuple[int, int]) -> dict[str, int]:
    """Return owner of bytes that are there before a span of steps and that nothing needs after it -> its bytes."""
    begin, end = span
    return {
        name: row_graph.graph.tensors[name].bytes
        for name, life in lives.items()
        if life.begin < begin < life.end <= end and not life.persistent and name not in row_graph.streamed_inputs
    }


def shared_in_stage(
    row_graph: RowGraph, ops: Sequence[int], owner: Mapping[str, str], dying: Mapping[str, int], tiles: Sequence[Tile] = ()
) -> int:
    """Return bytes of a stage's output that lie over what dies in it. Tiles read more rows at a time, so that with them no more
    is shared than without."""
    if not dying:
        return 0
    row_graph = row_graph.with_tiles(tiles) if tiles else row_graph
    scheduled = schedule_rows(row_graph, ops)
    if scheduled is None:
        return 0
    below = distances(row_graph, scheduled, ops, owner).items()
    return shared_bytes(
        bytes_written(row_graph, scheduled, ops[-1]), [(distance, dying[x]) for x, distance in below if x in dying]
    )
