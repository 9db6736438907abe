"""The row schedule of a fused stage: when each op computes its rows, and how many rows each line buffer holds.

Time is counted in ticks, the passes of the stage's loop. Row r of an op is computed at tick first + r * every:

- An op of stride s computes one row while its input gets s new rows. An op that upsamples by u / s computes u rows meanwhile.
- An op waits until the rows that its first window reads exist, k - 1 - p rows after the first one for a window of k rows with p
  rows of padding.
- A residual input that is computed early waits in its line buffer until the op that adds it runs.

Only tiles recompute rows. This generalises the line buffers of MCUNetV2 (arXiv 2110.15352) and of multi-stage fusion (msf-CNN,
arXiv 2505.11483: H-cache with one output element) to any convex part of the graph with one output.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ...ops import macs_per_op
from ...ops.window import Window
from ..alias.overlap import ANY_DISTANCE, rules
from ..alias.overlap import distances as distances_of_ops
from ..place.place import Rules
from ..plan import Node, Plan, RowSchedule, RowTiming, Stage, Tile
from .row_access import Access, RowGraph, recomputed_macs, row_bytes, tile_accesses, tile_sizes


class StageRows(NamedTuple):
    """The rows that the nodes of a fused stage read and compute. A node is a tile (given by its last op) or another op."""

    # node -> the rows that it reads per iteration; the nodes are in the order in which they run
    reads: Mapping[int, Sequence[Access]]
    makes: Mapping[int, str]  # node -> the tensor that it computes
    rows_per_iteration: Mapping[int, int]  # tile -> rows that it computes per iteration; other nodes compute one
    streamed: Collection[str]  # the streamed inputs that the stage reads
    inner: Collection[str]  # the tensors that only this stage reads, without its output
    height: Mapping[str, int]  # tensor -> its rows; tensors of one row may be absent
    last_rows: int  # output rows of the last node; if it accumulates row by row, its input rows
    # of the output:
    bytes: int
    row_bytes: int
    is_streamed: bool
    is_accumulated: bool


Operand = tuple[str, int, int, bool]
"""A tensor from outside a fused stage: the owner of its memory, its rows, the bytes of a row, and whether it is in place.

It is in place if the stage's last op runs outside tiles and reads each byte before it writes the byte at the same offset.
"""


def schedule_stage(row_graph: RowGraph, ops: Sequence[int]) -> RowSchedule | None:
    """Return the row schedule of a fused stage of `ops`, in this order, or None if they cannot form a stage."""
    stage = stage_rows(row_graph, ops)
    timings = None if stage is None else row_timings(stage)
    if stage is None or timings is None:
        return None
    readers: dict[str, list[tuple[int, Window]]] = {}
    for index, reads in stage.reads.items():
        for x, window in reads:
            readers.setdefault(x, []).append((index, window))
    inner = [(name, node) for node in timings if (name := node if isinstance(node, str) else stage.makes[node]) in stage.inner]
    line_buffers = {name: _line_buffer_rows(readers[name], timings, node) for name, node in inner}
    if (out := stage.makes[ops[-1]]) in row_graph.streamed_outputs:
        line_buffers[out] = timings[ops[-1]].largest_iteration
    tiles = [tile_sizes(row_graph, tile) for tile in row_graph.tiles if tile.ops[-1] in stage.reads]
    sizes = {name: size for of_tile in tiles for name, size in of_tile.items()}
    return RowSchedule(timings, line_buffers, sizes)


def stage_rows(row_graph: RowGraph, ops: Sequence[int]) -> StageRows | None:
    """Return the rows that a fused stage of `ops`, in this order, reads and computes; None if they cannot form a stage."""
    reads = stage_accesses(row_graph, ops)
    if not reads or any(row_graph.accumulator_bytes[index] for index in ops[:-1]):
        return None
    users, makes = set(ops), {index: row_graph.graph.ops[index].outputs[0] for index in reads}
    streamed = dict.fromkeys(x for accesses in reads.values() for x, _ in accesses if x in row_graph.streamed_inputs)
    if any(not row_graph.readers[name] <= users for name in streamed):
        return None
    inner = {name for name in (*streamed, *makes.values()) if row_graph.readers[name] <= users and name != makes[ops[-1]]}
    tile_rows = {tile.ops[-1]: tile.rows for tile in row_graph.tiles if tile.ops[0] in users}
    out, last = row_graph.graph.output(row_graph.graph.ops[ops[-1]]), ops[-1]
    of_output = out.bytes, row_bytes(out) if out.name in row_graph.height else 0, out.name in row_graph.streamed_outputs
    sums = row_graph.accumulator_bytes[last] > 0
    return StageRows(reads, makes, tile_rows, streamed, inner, row_graph.height, row_graph.rows[last], *of_output, sums)


def stage_accesses(row_graph: RowGraph, ops: Sequence[int]) -> dict[int, tuple[Access, ...]]:
    """Return which rows each node of a stage reads. A node is a tile, listed by its last op, or an op outside all tiles.

    Empty if an op cannot be fused, or if a tile is not completely in `ops`.
    """
    first, accesses, at = {tile.ops[0]: tile for tile in row_graph.tiles}, dict[int, tuple[Access, ...]](), 0
    while at < len(ops):
        tile = first.get(ops[at]) or single_op(ops[at])
        reads = tile_accesses(row_graph, tile.ops, tile.rows)
        if reads is None or tile.ops != tuple(ops[at : at + len(tile.ops)]):
            return {}
        accesses[tile.ops[-1]] = reads
        at += len(tile.ops)
    return accesses


def row_timings(stage: StageRows) -> dict[Node, RowTiming] | None:
    """Return when each op, tile and streamed input of a stage computes (or receives) its rows; None if it cannot be a stage.

    Ops and tiles are listed by their (last) op's index, streamed inputs by name.
    """
    reads, last = stage.reads, list(stage.reads)[-1]
    nodes: list[Node] = [*stage.streamed, *reads]
    rows_per_iteration = {node: stage.rows_per_iteration.get(node, 1) if isinstance(node, int) else 1 for node in nodes}
    node_of: dict[str, Node] = {name: name for name in stage.streamed} | {name: node for node, name in stage.makes.items()}
    strides = [max(window.stride for _, window in accesses) for accesses in reads.values()]
    every: dict[Node, int] = {last: prod(strides)}  # a multiple of all strides, so that all divisions below are exact
    for index in reversed(list(reads)):
        if index not in every:
            return None  # no op of the stage reads its output
        for x, window in reads[index]:
            source = node_of.get(x)
            if source is None:
                continue
            if not window.stride:
                return None  # the op needs the whole source before its first row
            ticks = every[index] // window.stride * window.up * rows_per_iteration[source]
            if every.setdefault(source, ticks) != ticks:
                return None  # two paths of different strides lead to the source
    rows = rows_needed(stage, node_of, rows_per_iteration)
    if min(rows.values()) < 1:
        return None
    timings = {node: RowTiming(0, every[node], rows[node], rows_per_iteration[node]) for node in nodes}
    return _with_first_ticks(timings, reads, node_of)


def single_op(index: int) -> Tile:
    """Return a tile that consists of one op and whole rows, to represent an op outside all tiles."""
    return Tile((index,), 0)


def rows_needed(stage: StageRows, node_of: Mapping[str, Node], rows_per_iteration: Mapping[Node, int]) -> dict[Node, int]:
    """Return how many rows each node (op, tile or streamed input) of a stage must compute.

    The last node computes all its rows, and so do nodes whose tensor another stage reads. All other nodes compute only the rows
    that the stage itself reads. `node_of` is tensor -> the node that computes it.
    """
    rows = {node: 0 if name in stage.inner else stage.height.get(name, 1) for name, node in node_of.items()}
    rows[list(stage.reads)[-1]] = stage.last_rows
    for index in reversed(list(stage.reads)):
        more = rows_per_iteration[index] - 1
        for x, window in stage.reads[index]:
            if (source := node_of.get(x)) is not None:
                by_row = window._replace(stride=window.stride // (more + 1))  # `window` is that of an iteration of several rows
                last_row = by_row.first(rows[index] - 1 - more) + window.extent
                rows[source] = max(rows[source], min(stage.height[x], last_row))
    return rows


def _with_first_ticks(
    timings: Mapping[Node, RowTiming], reads: Mapping[int, Sequence[Access]], node_of: Mapping[str, Node]
) -> dict[Node, RowTiming]:
    """Return the timings with `first` set: the tick at which each node (op, tile or streamed input) first computes rows.

    A node begins as soon as its sources, the nodes whose rows it reads, allow; a node without sources, as late as its readers
    allow. Iteration i of a reader of stride s waits for source row i * s + e, where e is the last row that its first window
    reads. If a source computes n rows per iteration, that row is the last of an iteration, or up to n - 1 rows before it, which
    varies with i in steps of gcd(s, n).
    """
    divisor = gcd(*(timing.ticks_per_row for timing in timings.values()))
    step = {node: timing.ticks_per_row // divisor for node, timing in timings.items()}
    first = dict.fromkeys(timings, 0)
    waits: dict[Node, list[tuple[int, int]]] = {node: [] for node in timings}  # source -> (reader, ticks it waits)
    sources = []  # nodes that wait for no other node
    for node in timings:
        needed = [read for read in reads.get(node, ()) if read[0] in node_of] if isinstance(node, int) else []
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
            sources.append(node)
    for node in sources:
        first[node] = min((first[reader] - ticks for reader, ticks in waits[node]), default=0)  # as late as possible
    begin = min(first.values())
    return {node: timing._replace(first=first[node] - begin, every=timing.every // divisor) for node, timing in timings.items()}


def _line_buffer_rows(readers: Sequence[tuple[int, Window]], timings: Mapping[Node, RowTiming], source: Node) -> int:
    """Return the rows of a tensor's line buffer: at each read, from the oldest row read to the newest row computed.

    `readers` are the nodes that read the tensor, with their windows; `source` is the node that computes it.
    """
    timing, rows = timings[source], 1
    for index, window in readers:
        waited = timings[index].first - timing.first
        if window.up == 1:  # the newest row is the last one of an iteration
            waited -= waited % (
                timing.ticks_per_row * gcd(timings[index].every // timing.ticks_per_row, timing.rows_per_iteration)
            )
        rows = max(rows, window.kept(timing.ticks_per_row, waited) + timing.rows_per_iteration - 1)
    return min(rows, timing.rows)


def distances(
    row_graph: RowGraph, timings: Mapping[Node, RowTiming], ops: Sequence[int], owner: Mapping[str, str]
) -> dict[str, int]:
    """Return by how many bytes a stage's output must start below each input of the stage to overwrite only rows already read.

    The keys are the owners of the inputs' memory. The output may overlap an input only if this stage is the input's last use.
    """
    graph, stage, last = row_graph.graph, stage_rows(row_graph, ops), ops[-1]
    assert stage is not None, "the stage has timings"
    inner = {graph.ops[index].outputs[0] for index in ops}.union(row_graph.streamed_inputs)
    names = {x for accesses in stage.reads.values() for x, _ in accesses} - inner
    is_tiled = any(last in tile.ops for tile in row_graph.tiles)
    in_place = {x for x, _ in stage.reads[last]} & row_graph.in_place[last] if names and not is_tiled else ()
    operands = {x: (owner[x], row_graph.height[x], row_bytes(graph.tensors[x]), x in in_place) for x in names}
    return distances_to(stage, timings, operands)


def distances_to(stage: StageRows, timings: Mapping[Node, RowTiming], operands: Mapping[str, Operand]) -> dict[str, int]:
    """Return the overlap distances of a stage's output to some operands, by name: owner of an operand's memory -> bytes."""
    by_owner = dict[str, int]()
    for name, operand in sorted(operands.items()):
        readers = [(node, window) for node, reads in stage.reads.items() for x, window in reads if x == name]
        by_owner[operand[0]] = max(by_owner.get(operand[0], 0), _distance(stage, timings, operand, readers))
    return by_owner


def output_bytes(stage: StageRows, timing: RowTiming) -> int:
    """Return the buffer bytes of a stage's output: the whole tensor, or the rows of an iteration if it is streamed."""
    return timing.largest_iteration * stage.row_bytes if stage.is_streamed else stage.bytes


def _distance(
    stage: StageRows, timings: Mapping[Node, RowTiming], operand: Operand, readers: Sequence[tuple[int, Window]]
) -> int:
    """Return the bytes by which a stage's output must start below an operand to overwrite only rows that were read.

    `readers` are (node, window) for each node of the stage that reads the operand.
    """
    last, (_, rows, size, is_in_place) = list(stage.reads)[-1], operand
    timing_of_last = timings[last]
    if stage.is_accumulated:  # written all at once, with the last row
        iterations, written = np.array([timing_of_last.iterations - 1]), np.array([stage.bytes])
    elif stage.is_streamed:  # each iteration may write the whole line buffer
        iterations = np.arange(timing_of_last.iterations)
        written = np.full(timing_of_last.iterations, output_bytes(stage, timing_of_last))
    else:
        iterations = np.arange(timing_of_last.iterations)
        written = np.minimum((iterations + 1) * timing_of_last.rows_per_iteration, timing_of_last.rows) * stage.row_bytes
    distance = 0
    for index, window in readers:
        timing = timings[index]
        if index == last:  # an in-place kernel has read the input row when it writes the output row
            done = iterations + (is_in_place and bool(written[0] == size))
        else:
            begun = (timing_of_last.first + iterations * timing_of_last.every - timing.first) // timing.every + 1
            done = np.minimum(np.maximum(begun, 0), timing.iterations)
        oldest = np.clip(window.first(done), 0, rows)
        distance = max(distance, int(np.where(done < timing.iterations, written - oldest * size, 0).max()))
    return distance


def is_fused(row_graph: RowGraph, ops: Sequence[int]) -> bool:
    """Return whether a stage of these ops is fused: it has several ops, or a streamed input or output."""
    op = row_graph.graph.ops[ops[0]]
    return (
        len(ops) > 1
        or any(name in row_graph.streamed_inputs for name in op.inputs)
        or any(name in row_graph.streamed_outputs for name in op.outputs)
    )


def schedule_stages(row_graph: RowGraph, stages: Sequence[Sequence[int]]) -> tuple[Stage, ...]:
    """Return the stages of a plan, with tiles and row schedules; raise ValueError if ops of a stage cannot be fused."""
    scheduled = list[Stage]()
    for ops in map(tuple, stages):
        tiles, schedule = None, None
        if is_fused(row_graph, ops):
            tiles, schedule = tuple(tile for tile in row_graph.tiles if tile.ops[0] in ops), schedule_stage(row_graph, ops)
            if schedule is None:
                raise ValueError(f"{row_graph.graph.ops[ops[0]].name} and the ops after it cannot be fused")
        scheduled.append(Stage(ops, tiles, schedule))
    return tuple(scheduled)


def distances_by_stage(
    row_graph: RowGraph,
    stages: Sequence[Stage],
    owner: Mapping[str, str],
    offset: Mapping[str, int] | None = None,
    max_distance: int = ANY_DISTANCE,
) -> list[Mapping[str, int]]:
    """Return, for each stage, the overlap distance of its output to each input: owner of the input's memory -> bytes."""
    by_op = distances_of_ops(row_graph.graph, row_graph.variants, owner, max_distance, offset)
    return [
        by_op[stage.ops[0]] if stage.schedule is None else distances(row_graph, stage.schedule.timings, stage.ops, owner)
        for stage in stages
    ]


@lru_cache(maxsize=8)
def row_graph_of(plan: Plan) -> RowGraph:
    """Return a plan's graph with the input rows that each op reads, given the plan's kernels, tiles and streams. Cached."""
    tiles = [tile for stage in plan.stages for tile in stage.tiles or ()]
    return RowGraph(plan.graph, plan.variants, plan.streamed_inputs, tiles, plan.streamed_outputs)


def plan_macs(plan: Plan) -> tuple[int, ...]:
    """Return the multiply-accumulates that each op of a plan executes, counting recomputation but not products with padding."""
    graph, row_graph = plan.graph, row_graph_of(plan)
    executed = list(macs_per_op(graph, clipped=True))
    for stage in plan.stages:
        runs = {tile.ops[-1]: tile for tile in stage.tiles or ()}
        for node, timing in stage.schedule.timings.items() if stage.schedule else ():
            if isinstance(node, int) and not row_graph.accumulator_bytes[node]:
                for index, macs in recomputed_macs(row_graph, runs.get(node) or single_op(node), timing.rows).items():
                    executed[index] += macs
    return tuple(executed)


def rules_of(plan: Plan) -> Rules:
    """Return the rules by which buffers of a plan may overlap although both are alive."""
    owner = {name: place.buffer for name, place in plan.places.items()}
    offset = {name: place.offset for name, place in plan.places.items()}
    distance = distances_by_stage(row_graph_of(plan), plan.stages, owner, offset)
    return rules(plan.graph, [stage.ops for stage in plan.stages], owner, distance, plan.buffers)
