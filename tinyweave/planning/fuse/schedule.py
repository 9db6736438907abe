"""Fused stages: ops that run together, row by row, so that what one passes on to another lies in a ring of a few rows.

In: a Graph as rows and which of its ops. Out: at which tick each of them computes a row, and how many rows each ring needs.

One tick is the time of the most frequent row. Row r of an op falls due at tick first + r * every, as late as all rows of its
window need: with a stride s a row of the output takes s times as long as one of the input, and it waits for k - 1 - p more rows
of the input, for a window of k rows of which p lie above the map. An operand that comes earlier than the others, a skip, waits
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
from ..alias.overlap import lags as lags_of_ops
from ..alias.overlap import rules
from ..place.place import Rule
from ..plan import Node, Pace, Plan, RowSchedule, Tile
from .access import Access, Rows, joined, macs_again, row_bytes, tile_sizes


@dataclass(frozen=True)
class Streaming:
    """How a stage runs. paces: by node, in the order in which they run at a tick. reads: what a row of each op or tile reads.
    rings: tensor that only this stage sees, or hands out by rows -> rows of its ring. tiles: tensor inside a tile -> (rows,
    columns) kept."""

    paces: Mapping[Node, Pace]
    reads: Mapping[int, Sequence[Access]]
    rings: Mapping[str, int]
    tiles: Mapping[str, tuple[int, int]]

    @property
    def schedule(self) -> RowSchedule:
        """What a plan holds of it."""
        return RowSchedule(self.paces, self.rings, self.tiles)


def streaming(net: Rows, ops: Sequence[int]) -> Streaming | None:
    """How `ops`, in the order in which they run, do so row by row, those of a tile together; None when they cannot."""
    found = paced(net, ops)
    if found is None:
        return None
    readers: dict[str, list[tuple[int, int]]] = {}
    for index, reads in found.reads.items():
        for read in reads:
            readers.setdefault(read.tensor, []).append((index, read.window.pad))
    made = {node if isinstance(node, str) else net.graph.ops[node].outputs[0]: node for node in found.paces}
    inner = {name: node for name, node in made.items() if net.users[name] <= set(ops) and node != ops[-1]}
    rings = {name: _ring(readers[name], found.paces, node) for name, node in inner.items()}
    if (out := net.graph.ops[ops[-1]].outputs[0]) in net.handed:
        rings[out] = found.paces[ops[-1]].most
    tiles = [tile_sizes(net, tile) for tile in net.tiles if tile.ops[-1] in found.reads]
    return replace(found, rings=rings, tiles={name: size for sizes in tiles for name, size in sizes.items()})


def paced(net: Rows, ops: Sequence[int]) -> Streaming | None:
    """The same, but for the sizes of rings and tiles."""
    runs = _runs(net, ops)
    if runs is None:
        return None
    reads = {run.ops[-1]: found for run in runs if (found := joined(net, run.ops, run.rows)) is not None}
    if len(reads) < len(runs) or any(net.sums[index] for index in ops[:-1]):
        return None
    users, last = set(ops), ops[-1]
    brought = dict.fromkeys(read.tensor for found in reads.values() for read in found if read.tensor in net.streamed)
    if any(not net.users[name] <= users for name in brought):
        return None
    nodes: list[Node] = [*brought, *reads]
    at_once: dict[Node, int] = dict.fromkeys(nodes, 1) | {run.ops[-1]: run.rows for run in runs}
    made: dict[str, Node] = {name: name for name in brought} | {net.graph.ops[index].outputs[0]: index for index in reads}
    inner = {name for name, node in made.items() if net.users[name] <= users and node != last}
    strides = [max(read.window.stride for read in found) for found in reads.values()]
    every: dict[Node, int] = {last: prod(strides)}  # what all strides divide
    for index in reversed(list(reads)):
        if index not in every:
            return None  # nothing here reads what it makes
        for x, (_, stride, _) in reads[index]:
            source = made.get(x)
            if source is None:
                continue
            if not stride:
                return None  # no row of it may come before all of the source
            turn = every[index] // stride * at_once[source]
            if every.setdefault(source, turn) != turn:
                return None  # two ways of different strides lead to it
    rows = rows_needed(net, reads, made, inner, at_once)
    if min(rows.values()) < 1:
        return None
    paces = _paces(nodes, reads, made, {node: Pace(0, every[node], rows[node], at_once[node]) for node in nodes})
    return Streaming(paces, reads, {}, {})


def _runs(net: Rows, ops: Sequence[int]) -> list[Tile] | None:
    """The ops of a stage, each by itself but those of a tile; None where a tile is not there as a whole."""
    first = {tile.ops[0]: tile for tile in net.tiles}
    runs, at = [], 0
    while at < len(ops):
        runs.append(first.get(ops[at]) or alone(ops[at]))
        at += len(runs[-1].ops)
    return runs if [index for run in runs for index in run.ops] == list(ops) else None


def alone(index: int) -> Tile:
    """An op that runs by itself, whole rows at a time."""
    return Tile((index,), 0)


def rows_needed(
    net: Rows,
    reads: Mapping[int, Sequence[Access]],
    made: Mapping[str, Node],
    inner: Collection[str],
    at_once: Mapping[Node, int] = MappingProxyType({}),
) -> dict[Node, int]:
    """Rows that each node of a stage computes: all where others read them, or those that the nodes after it read."""
    rows, last = {node: 0 if name in inner else net.height.get(name, 1) for name, node in made.items()}, list(reads)[-1]
    rows[last] = net.steps[last]
    for index in reversed(list(reads)):
        more = at_once.get(index, 1) - 1
        for x, (extent, stride, pad) in reads[index]:
            if (source := made.get(x)) is not None:
                step = stride // (more + 1)  # from a row to the next
                last_row = (rows[index] - 1) * step - pad + extent - more * step
                rows[source] = max(rows[source], min(net.height[x], last_row))
    return rows


def _paces(
    nodes: Sequence[Node], reads: Mapping[int, Sequence[Access]], made: Mapping[str, Node], paces: Mapping[Node, Pace]
) -> dict[Node, Pace]:
    """The paces with their first ticks.

    Of a source that computes n rows in a turn, turn i of a reader, which reads from row i * s on, waits for the turn that
    computes row i * s + e: the last rows of the source's turns fall on it or up to n - 1 rows before it, and how far varies
    with i in steps of gcd(s, n).
    """
    divisor = gcd(*(paces[node].step for node in nodes))
    step = {node: paces[node].step // divisor for node in nodes}
    first = dict.fromkeys(nodes, 0)
    waits: dict[Node, list[tuple[int, int]]] = {node: [] for node in nodes}  # (who reads it, the ticks that that one waits)
    leads = []  # nodes that wait for no other
    for node in nodes:
        needed = [read for read in reads.get(node, ()) if read.tensor in made] if isinstance(node, int) else []
        begins = []
        for x, (extent, stride, pad) in needed:
            source, row = made[x], extent - 1 - pad
            assert isinstance(node, int)
            ticks = step[source] * (row - row % gcd(stride, paces[source].at_once))
            waits[source].append((node, ticks))
            begins.append(first[source] + ticks)
        first[node] = max(begins, default=0)
        if not needed:
            leads.append(node)
    for node in leads:
        first[node] = min((first[reader] - ticks for reader, ticks in waits[node]), default=0)  # no earlier than it is needed
    begin = min(first.values())
    return {node: paces[node]._replace(first=first[node] - begin, every=paces[node].every // divisor) for node in nodes}


def _ring(readers: Sequence[tuple[int, int]], paces: Mapping[Node, Pace], source: Node) -> int:
    """Rows of an inner tensor that are kept: when a reader runs, from the oldest that it reads to the newest written.

    readers: (node, rows of its window that lie above the map).
    """
    made, kept = paces[source], 1
    for index, pad in readers:
        ahead = (paces[index].first - made.first) // made.step
        kept = max(kept, ahead - ahead % gcd(paces[index].every // made.step, made.at_once) + made.at_once + pad)
    return min(kept, made.rows)


def lags(net: Rows, stream: Streaming, ops: Sequence[int], owner: Mapping[str, str]) -> dict[str, int]:
    """Owner of bytes that other ops made -> how far below them the last op's output must begin to overlap them, if they die."""
    made = {net.graph.ops[index].outputs[0] for index in ops}
    names = {read.tensor for found in stream.reads.values() for read in found} - made - set(net.streamed)
    found: dict[str, int] = {}
    for name in sorted(names):
        found[owner[name]] = max(found.get(owner[name], 0), _lag(net, stream, ops, name))
    return found


def bytes_written(net: Rows, stream: Streaming, last: int) -> int:
    """Bytes that the output of a stage's last op lies in: all of it, or the rows of a turn if it is handed out."""
    out = net.graph.output(net.graph.ops[last])
    return stream.paces[last].most * row_bytes(out) if out.name in net.handed else out.bytes


def _lag(net: Rows, stream: Streaming, ops: Sequence[int], x: str) -> int:
    out, size, last = net.graph.output(net.graph.ops[ops[-1]]), row_bytes(net.graph.tensors[x]), stream.paces[ops[-1]]
    if net.sums[ops[-1]]:  # written all at once, with the last row
        turns, written = np.array([last.turns - 1]), np.array([out.bytes])
    elif out.name in net.handed:  # each turn may write all of its ring
        turns = np.arange(last.turns)
        written = np.full(last.turns, bytes_written(net, stream, ops[-1]))
    else:
        turns = np.arange(last.turns)
        written = np.minimum((turns + 1) * last.at_once, last.rows) * row_bytes(out)
    distance = 0
    readers = [(index, read) for index, found in stream.reads.items() for read in found if read.tensor == x]
    for index, read in readers:
        pace = stream.paces[index]
        if index == ops[-1]:  # the row itself has been read where the kernel reads each byte before it writes the same one
            in_place = x in net.in_place[index] and all(index not in tile.ops for tile in net.tiles)
            done = turns + (in_place and bool(written[0] == size))
        else:
            done = np.minimum(np.maximum((last.first + turns * last.every - pace.first) // pace.every + 1, 0), pace.turns)
        oldest = np.clip(done * read.window.stride - read.window.pad, 0, net.height[x])
        distance = max(distance, int(np.where(done < pace.turns, written - oldest * size, 0).max()))
    return distance


def is_fused(net: Rows, ops: Sequence[int]) -> bool:
    """Whether a stage of these ops runs row by row."""
    op = net.graph.ops[ops[0]]
    return len(ops) > 1 or any(name in net.streamed for name in op.inputs) or any(name in net.handed for name in op.outputs)


def streamings(net: Rows, stages: Sequence[Sequence[int]]) -> list[Streaming | None]:
    """Per stage how it runs row by row; None where it is one op that runs on whole tensors."""
    found = [streaming(net, ops) if is_fused(net, ops) else None for ops in stages]
    for ops, stream in zip(stages, found, strict=True):
        if stream is None and is_fused(net, ops):
            raise ValueError(f"{net.graph.ops[ops[0]].name} and the ops after it cannot be fused")
    return found


def lags_by_stage(
    net: Rows,
    stages: Sequence[Sequence[int]],
    streams: Sequence[Streaming | None],
    alone: Sequence[Mapping[str, int]],
    owner: Mapping[str, str],
) -> list[Mapping[str, int]]:
    """Per stage, how far below each operand its last op's output must begin to overlap it; streams: of `streamings`; alone: the
    same per op by itself."""
    return [
        alone[ops[0]] if stream is None else lags(net, stream, ops, owner) for ops, stream in zip(stages, streams, strict=True)
    ]


@lru_cache(maxsize=8)
def rows_of(plan: Plan) -> Rows:
    """The graph of a plan as rows."""
    tiles = [tile for stage in plan.stages for tile in stage.tiles or ()]
    return Rows(plan.graph, plan.variants, plan.streamed, tiles, plan.handed)


def plan_macs(plan: Plan) -> tuple[int, ...]:
    """Multiply-accumulates that each op of a plan executes: rows as often as they are computed, padding left out."""
    graph, net = plan.graph, rows_of(plan)
    found = list(macs_per_op(graph, clipped=True))
    for stage in plan.stages:
        runs = {tile.ops[-1]: tile for tile in stage.tiles or ()}
        for node, pace in stage.schedule.paces.items() if stage.schedule else ():
            if isinstance(node, int) and not net.sums[node]:
                for index, macs in macs_again(net, runs.get(node) or alone(node), pace.rows).items():
                    found[index] += macs
    return tuple(found)


def rules_of(plan: Plan) -> list[Rule]:
    """How the buffers of a plan may overlap."""
    owner = {name: place.buffer for name, place in plan.places.items()}
    offset = {name: place.offset for name, place in plan.places.items()}
    stages, net = [stage.ops for stage in plan.stages], rows_of(plan)
    alone = lags_of_ops(plan.graph, plan.variants, owner, offset=offset)
    return rules(plan.graph, stages, owner, lags_by_stage(net, stages, streamings(net, stages), alone, owner), plan.buffers)
