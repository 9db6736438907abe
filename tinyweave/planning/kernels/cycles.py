"""Cycles of a plan, estimated from the shapes that its kernel calls compute. In: a Plan, a core. Out: calls, cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...kernels.layer_cycles import NEXT_ROW, Extent, FlashReads, layer_cycles
from ...kernels.table import BY_NAME
from ...ops import SPECS
from ...ops.window import Spans
from ..fuse.row_access import RowGraph, tile_spans
from ..fuse.row_schedule import row_graph_of
from ..plan import Plan, RowSchedule, Stage

Call = tuple[int, Extent, int]
"""The index of an op, (rows, columns) of its output that one call computes, and the number of such calls.

None in place of rows and columns means all; NEXT_ROW means a further row that a dense layer adds to its sums.
"""


class CycleEstimate(NamedTuple):
    """Cycles of one inference, estimated from shapes with the fitted constants of each kernel."""

    at_least: int | None  # of the ops whose kernels have fitted constants; None if no kernel has any
    missing: tuple[str, ...]  # kinds of the ops whose kernels have none

    @property
    def cycles(self) -> int | None:
        """Return the cycles of the whole inference; None if the cycles of some ops are unknown."""
        return None if self.missing else self.at_least


def plan_cycles(plan: Plan, core: str, reads: FlashReads | None = None) -> CycleEstimate:
    """Estimate the cycles of one inference on `core`; `reads` are the wait states of Flash, None for zero wait states."""
    parts = list(_per_part(plan, core, reads))
    known = [cycles for _, cycles in parts if cycles is not None]
    missing = dict.fromkeys(plan.graph.ops[index].kind for index, cycles in parts if cycles is None)
    return CycleEstimate(round(sum(known)) if any(known) or not missing else None, tuple(missing))


def cycles_per_op(
    plan: Plan, core: str, reads: FlashReads | None = None, copied: Mapping[int, int] | None = None
) -> dict[int, float | None]:
    """Estimate the cycles of each op, by index: 0 for ops without code, None if the kernel has no fitted constants.

    `copied` is the bytes of constants that each op reads from RAM, by index; None for the plan's copies.
    """
    cycles: dict[int, float | None] = {}
    for index, part in _per_part(plan, core, reads, copied):
        before = cycles.get(index, 0.0)
        cycles[index] = None if part is None or before is None else before + part
    return cycles


def cycles_to_compare(plan: Plan, core: str, reads: FlashReads | None = None) -> float:
    """Estimate the cycles by which plans of one graph are compared; kernels without fitted constants count as 0."""
    return sum(cycles for _, cycles in _per_part(plan, core, reads) if cycles is not None)


def _per_part(
    plan: Plan, core: str, reads: FlashReads | None, copied: Mapping[int, int] | None = None
) -> Iterator[tuple[int, float | None]]:
    """Yield (index of an op, cycles of all its kernel calls of one output size); the cycles are None if they are unknown."""
    copied, calls = plan.copied if copied is None else copied, [*kernel_calls(plan)]
    evicted = _evicted(plan, reads, copied, calls) if reads is not None and reads.apart else {}
    for index, part, count in calls:
        op, variant, slow = plan.graph.ops[index], plan.variants[index], evicted.get(index, (0, 0))
        once = layer_cycles(plan.graph, op, variant, core, part, reads=reads, evicted=slow, copied=copied.get(index, 0))
        yield index, None if once is None else count * once


def _evicted(plan: Plan, reads: FlashReads, copied: Mapping[int, int], calls: Iterable[Call]) -> dict[int, tuple[float, float]]:
    """Return, for ops of fused stages, the share of calls before which constants, and code, of their kernels are in no cache.

    Before the first call they are not. Between two calls, other ops evict some: the ops of a tile, and from one row to the next
    all ops of the stage. A dense layer that accumulates reads a part of its constants per row of its input. A cache for code
    alone is assumed to hold the code of a stage.
    """
    graph, shares, number = plan.graph, dict[int, tuple[float, float]](), Counter[int]()
    for index, _, count in calls:
        number[index] += count

    def evicted(ops: Sequence[int]) -> float:
        rows = row_graph_of(plan)
        parts = {index: rows.rows[index] if rows.accumulator_bytes[index] else 1 for index in ops if plan.variants[index]}
        sizes = {i: max(0, BY_NAME[plan.variants[i]].flash(graph, graph.ops[i]) - copied.get(i, 0)) / parts[i] for i in parts}
        return reads.evicted(sum(sizes.values()), [plan.variants[index] for index in sizes])

    for stage in plan.stages:
        if stage.schedule is None:
            continue
        in_stage, blocks, in_tile = evicted(stage.ops), dict.fromkeys(stage.ops, 1), dict.fromkeys(stage.ops, 0.0)
        for tile in stage.tiles or ():
            across = -(-graph.output(graph.ops[tile.ops[-1]]).shape[2] // tile.cols)
            blocks.update(dict.fromkeys(tile.ops, across))
            in_tile.update(dict.fromkeys(tile.ops, evicted(tile.ops) if across > 1 else 0.0))
        for index, once in ((index, 1 / number[index]) for index in stage.ops):
            in_row = 1 / blocks[index]
            share = once + (in_row - once) * in_stage + (1 - in_row) * in_tile[index]
            shares[index] = share, share if reads.executed else once
    return shares


def kernel_calls(plan: Plan) -> Iterator[Call]:
    """Yield the kernel calls of each op: its index, the (rows, columns) that one call computes, and the number of such calls.

    An op that runs on whole tensors, or that accumulates row by row, counts as one call, with None for (rows, columns). So does
    an op without code. Each further row of a dense layer that accumulates counts as a call with NEXT_ROW.
    """
    for stage in plan.stages:
        if stage.schedule is None:
            yield from ((index, None, 1) for index in stage.ops)
        else:
            yield from _in_stage(plan, stage, stage.schedule)


def _in_stage(plan: Plan, stage: Stage, schedule: RowSchedule) -> Iterator[Call]:
    row_graph, timings = row_graph_of(plan), schedule.timings
    tiles = {index: tile for tile in stage.tiles or () for index in tile.ops}
    for index in stage.ops:
        tile = tiles.get(index)
        if row_graph.accumulator_bytes[index]:
            yield from ((index, part, count) for part, count in accumulating_calls(row_graph, index))
        elif tile is None:
            timing, cols = timings[index], plan.graph.output(plan.graph.ops[index]).shape[2]
            yield index, (1, cols), timing.rows
        else:
            down, across = tile_spans(row_graph, tile, 0, timings[tile.ops[-1]].rows)[0], tile_spans(row_graph, tile, 1)[0]
            for height, iterations in lengths(down[index]):
                yield from ((index, (height, width), iterations * blocks) for width, blocks in lengths(across[index]))


def accumulating_calls(row_graph: RowGraph, index: int) -> list[tuple[Extent, int]]:
    """Return the calls of an op that accumulates row by row, as (part, number of calls).

    A call for all of the op stands for the work that does not depend on the number of rows. What a row of a mean or pool takes
    beside that is not counted.
    """
    has_weights = SPECS[row_graph.graph.ops[index].kind].weights is not None
    return [(None, 1), *([(NEXT_ROW, row_graph.rows[index] - 1)] if has_weights else [])]


def lengths(spans: Spans) -> list[tuple[int, int]]:
    """Return how many spans (begin, end) of rows or columns have each length above 0, as (length, number of spans)."""
    begin, end = spans
    counts = np.bincount(np.maximum(end - begin, 0), minlength=1)
    counts[0] = 0
    return [(length, int(counts[length])) for length in np.flatnonzero(counts).tolist()]
