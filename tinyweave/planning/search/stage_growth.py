"""The fused stages that a network can have, and the tiles that save most line-buffer bytes in each.

A stage begins with one op and grows by one op at a time:

- `add_op` gives the op's output a clock: row r is computed at tick first_tick + r * row_ticks, as soon as the rows that it
  reads exist. A line buffer (a ring buffer of rows) holds a row from the tick that computes it to the tick of its last read.
- `extend_tilings` tries each tile that ends with the op, on top of each tiling (choice of tiles) of the ops before the tile,
  and keeps the best.
- `emit_stage` emits the stage with the tilings that may need less RAM than its ops do unfused.

The line buffers of MCUNetV2 (arXiv 2110.15352) and of multi-stage fusion (msf-CNN, arXiv 2505.11483) are special cases.

This is the specification of stage_growth.c, whose functions have the same names. Tests hold both to the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd, lcm
from typing import NamedTuple

from .problem import NEVER, Problem, ProblemTensor, RowRead, TileCandidate

SHORT = 6  # ops that a stage may have in an order of any length
MOST_GROWN = 50_000  # times that stages grow by an op: only orders of up to 316 ops get stages of any length
MOST_TILINGS = 16  # kept per stage with recomputation, and as many without
MOST_TICKS = 1 << 50  # of a row; no feature map has so many rows


class Tiling(NamedTuple):
    """A choice of tiles for a fused stage, and what they save and cost."""

    saved: int = 0  # line-buffer bytes that the tiles save
    tile_bytes: int = 0
    recomputed_macs: int = 0  # multiply-accumulates that the tiles recompute
    # by how many bytes `saved` shrinks if the stage continues after a tile: then the tile's output needs a line buffer of
    # several rows
    output_buffer: int = 0
    tiles: tuple[int, ...] = ()

    def with_tile(self, number: int, tile: TileCandidate, saved: int, output_buffer: int) -> Tiling:
        """Return this tiling plus a tile at the end of the stage.

        Args:
            output_buffer: by how many bytes `saved` shrinks if the stage continues after the tile.
        """
        return Tiling(
            self.saved - self.output_buffer + saved,
            max(self.tile_bytes, tile.bytes),
            self.recomputed_macs + tile.recomputed_macs,
            output_buffer,
            (*self.tiles, number),
        )

    def continued(self) -> Tiling:
        """Return the same tiles for the stage extended by an op outside all tiles; `saved` then shrinks by `output_buffer`."""
        return self._replace(saved=self.saved - self.output_buffer, output_buffer=0)


class FusedStage(NamedTuple):
    """The steps [begin, end) as a fused stage, with its RAM and its possible tilings."""

    begin: int
    end: int
    bytes: int  # RAM of all tensors that are alive in the stage, without tiles
    most_overlap: int  # upper bound on the output bytes that reuse the memory of tensors whose last use is in the stage
    fewer_rows: dict[int, int]  # step -> rows to compute, for ops whose output is read only in part
    tilings: tuple[Tiling, ...] = ()


def longest_stage(ops: int) -> int:
    """Return the most ops that a fused stage may have in a network of `ops` ops; the limit bounds the time of the search."""
    return ops if ops * ops <= 2 * MOST_GROWN else max(SHORT, MOST_GROWN // ops)


@dataclass
class StageTensor:
    """A tensor that a growing stage computes or streams in, and when its rows are computed, in ticks.

    Ticks count the passes of the stage's loop. Row r is computed at tick first_tick + r * row_ticks of the tensor's clock.
    Only ticks of one clock can be compared; two tensors have different clocks until an op depends on both. A source is a tensor
    that waits for no other tensor of the stage. Its rows may be delayed: row 0 is computed at start_tick, not at first_tick.
    """

    row_ticks: int
    first_tick: int
    start_tick: int
    is_source: bool
    clock: int
    buffer_rows: int = 1  # of its line buffer
    readers: list[RowRead] = field(default_factory=list)  # of a source: the outputs of the ops that read it, and their windows


@dataclass
class GrowingStage:
    """A stage that begins at step `begin` and grows by one op at a time."""

    problem: Problem
    begin: int
    tensors: dict[int, StageTensor] = field(default_factory=dict)  # that the stage computes or streams in, by number
    # tensors that earlier ops of the stage compute and no op of it reads yet. The stage may end only if there are none besides
    # its last output
    unread: set[int] = field(default_factory=set)
    tilings: list[list[Tiling]] = field(default_factory=lambda: [[Tiling()]])  # [n]: the best of the first n ops


def slow_down(growth: GrowingStage, factors: dict[int, int]) -> bool:
    """Multiply the ticks of all tensors by a factor per clock, in place; return False if they exceed MOST_TICKS."""
    for tensor in growth.tensors.values():
        factor = factors.get(tensor.clock, 1)
        tensor.row_ticks *= factor
        tensor.first_tick *= factor
        tensor.start_tick *= factor
        if factor > 1 and max(tensor.row_ticks, tensor.first_tick) > MOST_TICKS:
            return False
    return True


def join_clocks(growth: GrowingStage, one: RowRead, other: RowRead) -> bool:
    """Give two inputs, (tensor, window), of an op a common clock; return False if their rows cannot keep pace."""
    x, y = growth.tensors[one[0]], growth.tensors[other[0]]
    ticks_x, ticks_y = (t.row_ticks // window.up * window.stride for t, (_, window) in ((x, one), (y, other)))
    if x.clock == y.clock:
        return ticks_x == ticks_y  # unequal if two paths of different strides lead from one tensor to the op
    divisor, joined = gcd(ticks_x, ticks_y), y.clock
    if not slow_down(growth, {x.clock: ticks_y // divisor, joined: ticks_x // divisor}):
        return False
    for tensor in growth.tensors.values():
        tensor.clock = x.clock if tensor.clock == joined else tensor.clock
    return True


def delay_source(growth: GrowingStage, x: int) -> None:
    """Start source x, which waits for no tensor of the stage, as late as its readers allow; set its line buffer's rows."""
    source = growth.tensors[x]
    reads = [(window, growth.tensors[reader].first_tick) for reader, window in source.readers]
    source.start_tick = min(tick - window.wait(source.row_ticks) for window, tick in reads)
    source.buffer_rows = max(window.kept(source.row_ticks, tick - source.start_tick) for window, tick in reads)


def refine_clock(growth: GrowingStage, reads: Sequence[RowRead]) -> bool:
    """Slow down the clocks of an op's inputs, so that each output row of an upsampling op gets a tick of its own.

    The ticks of all tensors on these clocks are multiplied, in place, by the least common multiple of the windows' upsampling
    factors `up`; it is 1 if no window upsamples. Return False if the ticks exceed MOST_TICKS.
    """
    up = lcm(*(window.up for _, window in reads))
    return slow_down(growth, {growth.tensors[x].clock: up for x, _ in reads})


def add_op(growth: GrowingStage, step: int) -> bool:
    """Extend the stage by the op of a step; return False if the op cannot run in the stage."""
    problem, tensors = growth.problem, growth.tensors
    op = problem.ops[step]
    if op.reads is None:
        return False
    for x, _ in op.reads:
        if problem.tensors[x].is_streamed_input and x not in tensors:
            tensors[x] = StageTensor(1, 0, 0, is_source=True, clock=x)
    reads = [(x, window) for x, window in op.reads if x in tensors]
    if any(not window.stride for _, window in reads) or not refine_clock(growth, reads):
        return False  # stride 0: all output rows read the same row, so the op needs the whole tensor first
    if not all(join_clocks(growth, reads[0], read) for read in reads[1:]):
        return False
    row_ticks, first_tick, clock = 1, 0, op.output
    if reads:
        x, window = reads[0]
        row_ticks, clock = tensors[x].row_ticks // window.up * window.stride, tensors[x].clock
        first_tick = max(tensors[x].first_tick + window.wait(tensors[x].row_ticks) for x, window in reads)
    if max(row_ticks, first_tick) > MOST_TICKS:
        return False
    tensors[op.output] = StageTensor(row_ticks, first_tick, first_tick, is_source=not reads, clock=clock)
    for x, window in reads:
        growth.unread.discard(x)
        if tensors[x].is_source:
            tensors[x].readers.append((op.output, window))
        else:
            rows = window.kept(tensors[x].row_ticks, first_tick - tensors[x].first_tick)
            tensors[x].buffer_rows = max(tensors[x].buffer_rows, rows)
    for x, _ in reads:
        if tensors[x].is_source:
            delay_source(growth, x)
    return True


def added_buffer_bytes(tensor: ProblemTensor, rows: int, more_rows: int) -> int:
    """Return the bytes added if a line buffer grows from `rows` to `more_rows` rows; it holds at most the whole tensor."""
    return (min(more_rows, tensor.rows) - min(rows, tensor.rows)) * tensor.row_bytes


def bytes_saved_by_tile(growth: GrowingStage, tile: TileCandidate, end: int) -> tuple[int, int]:
    """Return the line-buffer bytes that a tile at the end of the stage saves, as two numbers.

    The maps inside the tile need no line buffers. Taller tiles need more rows of their inputs and output. `end` is the step
    after the tile.

    Returns:
        The bytes saved if the stage ends with the tile, and by how many bytes this shrinks if the stage continues.
    """
    problem, saved, last = growth.problem, 0, growth.problem.ops[end - 1].output
    for step in range(tile.first, end - 1):
        x = problem.ops[step].output
        saved += min(growth.tensors[x].buffer_rows, problem.tensors[x].rows) * problem.tensors[x].row_bytes
    reads = [(x, window, growth.tensors[x]) for x, window in tile.reads if x in growth.tensors]
    tick = max((source.start_tick + window.wait(source.row_ticks) for _, window, source in reads), default=0)
    for x, window, source in reads:
        rows = window.kept(source.row_ticks, tick - source.start_tick)
        saved -= added_buffer_bytes(problem.tensors[x], source.buffer_rows, max(source.buffer_rows, rows))
    rows = growth.tensors[last].buffer_rows
    taller = added_buffer_bytes(problem.tensors[last], rows, rows + tile.rows - 1)
    return (saved - taller, 0) if problem.tensors[last].is_streamed_output else (saved, taller)


def compare_tilings(tiling: Tiling) -> tuple[int, int, int, int]:
    """Return the sort key of a tiling: fewer bytes first, then less recomputation, a smaller tile buffer, fewer tiles."""
    return tiling.tile_bytes - tiling.saved, tiling.recomputed_macs, tiling.tile_bytes, len(tiling.tiles)


def dominates(one: Tiling, other: Tiling) -> bool:
    """Return whether `one` is at least as good as `other` in saved bytes, tile buffer and recomputation.

    The result is True only if this holds both if the stage ends here and if it continues.
    """
    saved = one.saved - max(one.output_buffer - other.output_buffer, 0)
    return saved >= other.saved and one.tile_bytes <= other.tile_bytes and one.recomputed_macs <= other.recomputed_macs


def keep_best_tilings(options: Iterable[Tiling], kept: Sequence[Tiling], most: int) -> list[Tiling]:
    """Return `kept` plus the best `options`, at most `most` of these, without options that a returned tiling dominates.

    A tiling is a choice of tiles; it dominates another one if it is at least as good in all respects.
    """
    front = list(kept)
    for option in sorted(options, key=compare_tilings):
        if len(front) - len(kept) < most and not any(dominates(each, option) for each in front):
            front.append(option)
    return front


def extend_tilings(growth: GrowingStage, end: int) -> None:
    """Append to the growing stage the best tilings (choices of tiles) of its ops up to the step `end` (exclusive)."""
    problem, begin, options = growth.problem, growth.begin, list[Tiling]()
    if not problem.one_tile_per_stage:
        options += [tiling.continued() for tiling in growth.tilings[-1]]
    for number, tile in enumerate(problem.tiles[end - 1], problem.tile_at[end - 1]):
        if tile.first < begin or (problem.one_tile_per_stage and tile.first > begin):
            continue
        saved, output_buffer = bytes_saved_by_tile(growth, tile, end)
        if saved > 0 or problem.one_tile_per_stage:
            options += [each.with_tile(number, tile, saved, output_buffer) for each in growth.tilings[tile.first - begin]]
    if problem.one_tile_per_stage:
        growth.tilings.append([*options, *([Tiling()] if end == begin + 1 else [])])
        return
    kept = keep_best_tilings([each for each in options if not each.recomputed_macs], (), MOST_TILINGS)
    kept = keep_best_tilings([each for each in options if each.recomputed_macs], kept, MOST_TILINGS)
    growth.tilings.append(kept if any(not each.tiles for each in kept) else [*kept, Tiling()])


def is_internal(tensor: ProblemTensor, begin: int, end: int) -> bool:
    """Return whether only the steps [begin, end) read a tensor."""
    return tensor.first_reader >= begin and tensor.last_reader < end


def rows_needed(growth: GrowingStage, begin: int, end: int) -> dict[int, int]:
    """Return tensor -> rows to compute in the stage [begin, end): all if output or read later, else those it reads."""
    problem = growth.problem
    needed = {x: 0 if is_internal(problem.tensors[x], begin, end) else problem.tensors[x].rows for x in growth.tensors}
    needed[problem.ops[end - 1].output] = problem.ops[end - 1].rows
    for op in reversed(problem.ops[begin:end]):
        for x, window in op.reads or ():
            if x in needed:
                last = window.first(needed[op.output] - 1) + window.extent
                needed[x] = max(needed[x], min(problem.tensors[x].rows, last))
    return needed


def stage_memory(growth: GrowingStage, begin: int, end: int) -> FusedStage | None:
    """Return the steps [begin, end) as an untiled stage with its RAM; None if others read its streamed input."""
    problem, dying = growth.problem, 0
    total, needed = problem.ops[end - 1].accumulator_bytes, rows_needed(growth, begin, end)
    for x, tensor in enumerate(problem.tensors):
        if tensor.born >= end or tensor.dies <= begin or not tensor.dies:
            continue
        if tensor.is_streamed_input:
            if x in growth.tensors:
                if not is_internal(tensor, begin, end):
                    return None
                total += min(growth.tensors[x].buffer_rows, needed[x]) * tensor.row_bytes
        elif tensor.born >= begin and tensor.dies <= end and not tensor.is_persistent:
            total += min(growth.tensors[x].buffer_rows, needed[x]) * tensor.row_bytes
        else:
            total += tensor.bytes
            if tensor.born < begin and tensor.dies <= end and not tensor.is_persistent:
                dying += tensor.bytes
    ops = [(step, problem.ops[step]) for step in range(begin, end)]
    fewer = {step: needed[op.output] for step, op in ops if needed[op.output] < op.rows}
    return FusedStage(begin, end, total, min(dying, problem.tensors[problem.ops[end - 1].output].bytes), fewer)


def emit_stage(growth: GrowingStage, begin: int, end: int, unfused_peak: int) -> FusedStage | None:
    """Return the stage with all tilings that may need less than `unfused_peak` bytes of RAM; None if there is no such tiling.

    `unfused_peak` is the RAM of the largest of these steps if they run unfused. If the stage fits into `arena_floor`, which
    every plan needs anyway, it gets no tiles, except tiles that save work because they compute no unread rows.
    """
    stage = stage_memory(growth, begin, end)
    if stage is None:
        return None
    tilings = tuple(
        each
        for each in growth.tilings[end - begin]
        if stage.bytes - each.saved + each.tile_bytes - stage.most_overlap < unfused_peak
        and not (each.tiles and each.recomputed_macs >= 0 and stage.bytes <= growth.problem.arena_floor)
    )
    return stage._replace(tilings=tilings) if tilings else None


def growing(problem: Problem, begin: int, end: int) -> Iterator[tuple[int, bool, GrowingStage]]:
    """Grow a stage from step `begin` to at most `end`, by one op at a time.

    Yields:
        After each op: where the stage ends (exclusive), whether it may end there, and its state, which later steps change. A
        stage may end if all its outputs but the last are read inside it.
    """
    growth = GrowingStage(problem, begin)
    for step in range(begin, end):
        if not add_op(growth, step):
            return
        yield step + 1, not growth.unread, growth
        if problem.ops[step].accumulator_bytes:
            return  # the output of row-wise accumulation exists only after all input rows
        growth.unread.add(problem.ops[step].output)


def grow_stages_from(problem: Problem, begin: int) -> Iterator[FusedStage]:
    """Yield the stages that begin at step `begin` and may need less RAM than their ops do unfused."""
    unfused_peak, longest = problem.ops[begin].unfused_bytes, longest_stage(len(problem.ops))
    for end, may_end, growth in growing(problem, begin, min(len(problem.ops), begin + longest)):
        unfused_peak = max(unfused_peak, problem.ops[end - 1].unfused_bytes)
        extend_tilings(growth, end)
        if may_end and (end > begin + 1 or problem.ops[begin].unfused_bytes >= NEVER):
            stage = emit_stage(growth, begin, end, unfused_peak)
            if stage is not None:
                yield stage


def grow_stages_in_python(problem: Problem) -> list[FusedStage]:
    """Return all stages that may need less RAM than the largest of their ops does unfused."""
    stages, is_reached = list[FusedStage](), [True] + [False] * len(problem.ops)
    for begin, op in enumerate(problem.ops):
        if is_reached[begin]:  # a path of stages and unfused ops leads to `begin`
            is_reached[begin + 1] |= op.unfused_bytes < NEVER
            for stage in grow_stages_from(problem, begin):
                is_reached[stage.end] = True
                stages.append(stage)
    return stages
