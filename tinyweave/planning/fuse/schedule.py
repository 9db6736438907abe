"""Fused stages: ops that run together, row by row, so that what one passes on to another lies in a ring of a few rows.

In: a Graph as rows and which of its ops. Out: at which tick each of them computes a row, and how many rows each ring needs.

One tick is the time of the most frequent row. Row r of an op falls due at tick first + r * every, as late as all rows of its
window need: with a stride s a row of the output takes s times as long as one of the input, and it waits for k - 1 - p more rows
of the input, for a window of k rows of which p lie above the map. Where the output has more rows than the input, u for every
s, a row of the input takes u / s times as long as one of it. An operand that comes earlier than the others, a skip, waits
in its ring. Nothing is computed twice but in tiles: ops that run together for some columns of a row at a time, so that of what
they pass on, often the widest maps of all, only a few columns of the rows that this row needs are there; the next row computes
them anew, or the next few rows do. Generalises the line buffers of MCUNetV2 (arXiv 2110.15352) and of multi-stage fusion
(msf-CNN, arXiv 2505.11483: H-cache with one output element) to any convex part of the graph with one last op.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from types import MappingProxyType

import numpy as np

from ...ops import macs_per_op
from ...ops.window import Window
from ..alias.overlap import distances as distances_of_ops
from ..alias.overlap import rules
from ..place.place import Rule
from ..plan import Node, Plan, RowSchedule, RowTiming, Tile
from .access import Access, RowGraph, joined, recomputed_macs, row_bytes, tile_sizes


@dataclass(frozen=True)
class ScheduledStage:
    """The row schedule of a stage, which a plan holds, and what a row of each of its ops or tiles reads."""

    schedule: RowSchedule
    accesses: Mapping[int, Sequence[Access]]


def schedule_stage(row_graph: RowGraph, ops: Sequence[int]) -> ScheduledStage | None:
    """Return how `ops`, in the order in which they run, do so row by row, those of a tile together; None when they cannot."""
    scheduled = schedule_rows(row_graph, ops)
    if scheduled is None:
        return None
    readers: dict[str, list[tuple[int, Window]]] = {}
    for index, reads in scheduled.accesses.items():
        for read in reads:
            readers.setdefault(read.tensor, []).append((index, read.window))
    timings = scheduled.schedule.timings
    node_of = {node if isinstance(node, str) else row_graph.graph.ops[node].outputs[0]: node for node in timings}
    inner = {name: node for name, node in node_of.items() if row_graph.users[name] <= set(ops) and node != ops[-1]}
    rings = {name: _ring(readers[name], timings, node) for name, node in inner.items()}
    if (out := row_graph.graph.ops[ops[-1]].outputs[0]) in row_graph.streamed_outputs:
        rings[out] = timings[ops[-1]].largest_iteration
    tiles = [tile_sizes(row_graph, tile) for tile in row_graph.tiles if tile.ops[-1] in scheduled.accesses]
    sizes = {name: size for of_tile in tiles for name, size in of_tile.items()}
    return replace(scheduled, schedule=RowSchedule(timings, rings, sizes))


def schedule_rows(row_graph: RowGraph, ops: Sequence[int]) -> ScheduledStage | None:
    """Return the same as `schedule_stage`, but for the sizes of rings and tiles."""
    runs = _runs(row_graph, ops)
    if runs is None:
        return None
    reads = {run.ops[-1]: accesses for run in runs if (accesses := joined(row_graph, run.ops, run.rows)) is not None}
    if len(reads) < len(runs) or any(row_graph.sums[index] for index in ops[:-1]):
        return None
    users, last = set(ops), ops[-1]
    brought = dict.fromkeys(
        read.tensor for accesses in reads.values() for read in accesses if read.tensor in row_graph.streamed_inputs
    )
    if any(not row_graph.users[name] <= users for name in brought):
        return None
    nodes: list[Node] = [*brought, *reads]
    rows_per_iteration: dict[Node, int] = dict.fromkeys(nodes, 1) | {run.ops[-1]: run.rows for run in runs}
    node_of: dict[str, Node] = {name: name for name in brought} | {
        row_graph.graph.ops[index].outputs[0]: index for index in reads
    }
    inner = {name for name, node in node_of.items() if row_graph.users[name] <= users and node != last}
    strides = [max(read.window.stride for read in accesses) for accesses in reads.values()]
    every: dict[Node, int] = {last: prod(strides)}  # what all strides divide
    for index in reversed(list(reads)):
        if index not in every:
            return None  # nothing here reads what it makes
        for x, window in reads[index]:
            source = node_of.get(x)
            if source is None:
                continue
            if not window.stride:
                return None  # no row of it may come before all of the source
            ticks = every[index] // window.stride * window.up * rows_per_iteration[source]
            if every.setdefault(source, ticks) != ticks:
                return None  # two ways of different strides lead to it
    rows = rows_needed(row_graph, reads, node_of, inner, rows_per_iteration)
    if min(rows.values()) < 1:
        return None
    timings = _timings(
        nodes, reads, node_of, {node: RowTiming(0, every[node], rows[node], rows_per_iteration[node]) for node in nodes}
    )
    return ScheduledStage(RowSchedule(timings, {}, {}), reads)


def _runs(row_graph: RowGraph, ops: Sequence[int]) -> list[Tile] | None:
    """Return the ops of a stage, each by itself but those of a tile; None where a tile is not there as a whole."""
    first = {tile.ops[0]: tile for tile in row_graph.tiles}
    runs, at = [], 0
    while at < len(ops):
        runs.append(first.get(ops[at]) or single_op(ops[at]))
        at += len(runs[-1].ops)
    return runs if [index for run in runs for index in run.ops] == list(ops) else None


def single_op(index: int) -> Tile:
    """Return an op that runs by itself, whole rows at a time."""
    return Tile((index,), 0)


def rows_needed(
    row_graph: RowGraph,
    reads: Mapping[int, Sequence[Access]],
    node_of: Mapping[str, Node],
    inner: Collection[str],
    rows_per_iteration: Mapping[Node, int] = MappingProxyType({}),
) -> dict[Node, int]:
    """Return rows that each node of a stage computes: all where others read them, or those that the nodes after it read."""
    rows = {node: 0 if name in inner else row_graph.height.get(name, 1) for name, node in node_of.items()}
    last = list(reads)[-1]
    rows[last] = row_graph.steps[last]
    for index in reversed(list(reads)):
        more = rows_per_iteration.get(index, 1) - 1
        for x, window in reads[index]:
            if (source := node_of.get(x)) is not None:
                by_row = window._replace(stride=window.stride // (more + 1))  # the window is that of all rows of an iteration
                last_row = by_row.first(rows[index] - 1 - more) + window.extent
                rows[source] = max(rows[source], min(row_graph.height[x], last_row))
    return rows


def _timings(
    nodes: Sequence[Node],
    reads: Mapping[int, Sequence[Access]],
    node_of: Mapping[str, Node],
    timings: Mapping[Node, RowTiming],
) -> dict[Node, RowTiming]:
    """Return the timings with their first ticks.

    A source computes n rows in an iteration. Iteration i of a reader, which reads from row i * s on, waits for the one that
    computes row i * s + e: the last rows of the source's iterations fall on it or up to n - 1 rows before it, and how far
    varies with i in steps of gcd(s, n).
    """
    divisor = gcd(*(timings[node].ticks_per_row for node in nodes))
    step = {node: timings[node].ticks_per_row // divisor for node in nodes}
    first = dict.fromkeys(nodes, 0)
    waits: dict[Node, list[tuple[int, int]]] = {node: [] for node in nodes}  # (who reads it, the ticks that that one waits)
    leads = []  # nodes that wait for no other
    for node in nodes:
        needed = [read for read in reads.get(node, ()) if read.tensor in node_of] if isinstance(node, int) else []
        begins = []
        for x, window in needed:
            source = node_of[x]
            assert isinstance(node, int)
            early = window.reach % gcd(window.stride, timings[source].rows_per_iteration) if window.up == 1 else 0
            ticks = window.wait(step[source]) - step[source] * early
            waits[source].append((node, ticks))
            begins.append(first[source] + ticks)
        first[node] = max(begins, default=0)
        if not needed:
            leads.append(node)
    for node in leads:
        first[node] = min((first[reader] - ticks for reader, ticks in waits[node]), default=0)  # no earlier than it is needed
    begin = min(first.values())
    return {node: timings[node]._replace(first=first[node] - begin, every=timings[node].every // divisor) for node in nodes}


def _ring(readers: Sequence[tuple[int, Window]], timings: Mapping[Node, RowTiming], source: Node) -> int:
    """Return how many rows of an inner tensor are kept: when a reader runs, from the oldest read to the newest written.

    readers: (node, its window).
    """
    timing, rows = timings[source], 1
    for index, window in readers:
        waited = timings[index].first - timing.first
        if window.up == 1:  # the newest is the last of an iteration
            waited -= waited % (
                timing.ticks_per_row * gcd(timings[index].every // timing.ticks_per_row, timing.rows_per_iteration)
            )
        rows = max(rows, window.kept(timing.ticks_per_row, waited) + timing.rows_per_iteration - 1)
    return min(rows, timing.rows)


def distances(row_graph: RowGraph, scheduled: ScheduledStage, ops: Sequence[int], owner: Mapping[str, str]) -> dict[str, int]:
    """Return owner of bytes from before a stage -> how far below them its output must begin to overlap them, if they die."""
    inner = {row_graph.graph.ops[index].outputs[0] for index in ops}.union(row_graph.streamed_inputs)
    names = {read.tensor for accesses in scheduled.accesses.values() for read in accesses} - inner
    by_owner: dict[str, int] = {}
    for name in sorted(names):
        by_owner[owner[name]] = max(by_owner.get(owner[name], 0), _distance(row_graph, scheduled, ops, name))
    return by_owner


def bytes_written(row_graph: RowGraph, scheduled: ScheduledStage, last: int) -> int:
    """Return bytes that the output of a stage's last op lies in: all of it, or the rows of an iteration if it is handed out."""
    out = row_graph.graph.output(row_graph.graph.ops[last])
    is_streamed, timings = out.name in row_graph.streamed_outputs, scheduled.schedule.timings
    return timings[last].largest_iteration * row_bytes(out) if is_streamed else out.bytes


def _distance(row_graph: RowGraph, scheduled: ScheduledStage, ops: Sequence[int], x: str) -> int:
    graph, timings = row_graph.graph, scheduled.schedule.timings
    out, size, last = graph.output(graph.ops[ops[-1]]), row_bytes(graph.tensors[x]), timings[ops[-1]]
    if row_graph.sums[ops[-1]]:  # written all at once, with the last row
        iterations, written = np.array([last.iterations - 1]), np.array([out.bytes])
    elif out.name in row_graph.streamed_outputs:  # each iteration may write all of its ring
        iterations = np.arange(last.iterations)
        written = np.full(last.iterations, bytes_written(row_graph, scheduled, ops[-1]))
    else:
        iterations = np.arange(last.iterations)
        written = np.minimum((iterations + 1) * last.rows_per_iteration, last.rows) * row_bytes(out)
    distance = 0
    readers = [(index, read) for index, accesses in scheduled.accesses.items() for read in accesses if read.tensor == x]
    for index, read in readers:
        timing = timings[index]
        if index == ops[-1]:  # the row itself has been read where the kernel reads each byte before it writes the same one
            in_place = x in row_graph.in_place[index] and all(index not in tile.ops for tile in row_graph.tiles)
            done = iterations + (in_place and bool(written[0] == size))
        else:
            begun = (last.first + iterations * last.every - timing.first) // timing.every + 1
            done = np.minimum(np.maximum(begun, 0), timing.iterations)
        oldest = np.clip(read.window.first(done), 0, row_graph.height[x])
        distance = max(distance, int(np.where(done < timing.iterations, written - oldest * size, 0).max()))
    return distance


def is_fused(row_graph: RowGraph, ops: Sequence[int]) -> bool:
    """Whether a stage of these ops runs row by row."""
    op = row_graph.graph.ops[ops[0]]
    return (
        len(ops) > 1
        or any(name in row_graph.streamed_inputs for name in op.inputs)
        or any(name in row_graph.streamed_outputs for name in op.outputs)
    )


def schedule_stages(row_graph: RowGraph, stages: Sequence[Sequence[int]]) -> list[ScheduledStage | None]:
    """Return per stage how it runs row by row; None where it is one op that runs on whole tensors."""
    schedules = [schedule_stage(row_graph, ops) if is_fused(row_graph, ops) else None for ops in stages]
    for ops, scheduled in zip(stages, schedules, strict=True):
        if scheduled is None and is_fused(row_graph, ops):
            raise ValueError(f"{row_graph.graph.ops[ops[0]].name} and the ops after it cannot be fused")
    return schedules


def distances_by_stage(
    row_graph: RowGraph,
    stages: Sequence[Sequence[int]],
    schedules: Sequence[ScheduledStage | None],
    by_op: Sequence[Mapping[str, int]],
    owner: Mapping[str, str],
) -> list[Mapping[str, int]]:
    """Return per stage how far below each operand its last op's output must begin to overlap it.

    schedules: of `schedule_stages`. by_op: the same for each op by itself.
    """
    return [
        by_op[ops[0]] if scheduled is None else distances(row_graph, scheduled, ops, owner)
        for ops, scheduled in zip(stages, schedules, strict=True)
    ]


@lru_cache(maxsize=8)
def row_graph_of(plan: Plan) -> RowGraph:
    """Return the graph of a plan as rows."""
    tiles = [tile for stage in plan.stages for tile in stage.tiles or ()]
    return RowGraph(plan.graph, plan.variants, plan.streamed_inputs, tiles, plan.streamed_outputs)


def plan_macs(plan: Plan) -> tuple[int, ...]:
    """Return multiply-accumulates that each op of a plan executes: rows as often as they are computed, padding left out."""
    graph, row_graph = plan.graph, row_graph_of(plan)
    executed = list(macs_per_op(graph, clipped=True))
    for stage in plan.stages:
        runs = {tile.ops[-1]: tile for tile in stage.tiles or ()}
        for node, timing in stage.schedule.timings.items() if stage.schedule else ():
            if isinstance(node, int) and not row_graph.sums[node]:
                for index, macs in recomputed_macs(row_graph, runs.get(node) or single_op(node), timing.rows).items():
                    executed[index] += macs
    return tuple(executed)


def rules_of(plan: Plan) -> list[Rule]:
    """Return how the buffers of a plan may overlap."""
    owner = {name: place.buffer for name, place in plan.places.items()}
    offset = {name: place.offset for name, place in plan.places.items()}
    stages, row_graph = [stage.ops for stage in plan.stages], row_graph_of(plan)
    by_op = distances_of_ops(plan.graph, plan.variants, owner, offset=offset)
    return rules(
        plan.graph,
        stages,
        owner,
        distances_by_stage(row_graph, stages, schedule_stages(row_graph, stages), by_op, owner),
        plan.buffers,
    )
