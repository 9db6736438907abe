"""Fused stages: ops that run together, row by row, so that what one passes on to another lies in a ring of a few rows.

In: a Graph as rows and which of its ops. Out: at which tick each of them computes a row, and how many rows each ring needs.

One tick is the time of the most frequent row. Row r of an op falls due at tick first + r * every, as late as all rows of its
window need: with a stride s a row of the output takes s times as long as one of the input, and it waits for k - 1 - p more rows
of the input, for a window of k rows of which p lie above the map. An operand that comes earlier than the others, a skip, waits
in its ring. Nothing is computed twice but in tiles: ops that run together for some columns of a row at a time, so that of what
they pass on, often the widest maps of all, only a few columns of the rows that this row needs are there; the next row computes
them anew. Generalises the line buffers of MCUNetV2 (arXiv 2110.15352) and of multi-stage fusion (msf-CNN, arXiv 2505.11483:
H-cache with one output element) to any convex part of the graph with one last op.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ..ops import SPECS
from .overlap import lags as lags_of_ops
from .overlap import rules
from .place import Rule
from .plan import Plan, Stage
from .rows import Read, Rows, joined, macs_again, row_bytes, tile_sizes


class Pace(NamedTuple):
    """When an op of a stage computes its rows: row r of `rows` at tick first + r * every."""

    first: int
    every: int
    rows: int

    def done(self, tick: int) -> int:
        """Rows computed when all of a tick is over."""
        return min(max((tick - self.first) // self.every + 1, 0), self.rows)


Node = int | str
"""What computes rows in a stage: an op or a tile, by the number of its (last) op, or the caller who brings those of a streamed
network input."""


@dataclass(frozen=True)
class Streaming:
    """How a stage runs. paces: by node, in the order in which they run at a tick. reads: what a row of each op or tile reads.
    rings: tensor that only this stage sees -> rows of its ring. tiles: tensor inside a tile -> (rows, columns) kept."""

    paces: Mapping[Node, Pace]
    reads: Mapping[int, Sequence[Read]]
    rings: Mapping[str, int]
    tiles: Mapping[str, tuple[int, int]]

    @property
    def ticks(self) -> int:
        """How many there are."""
        return max(pace.first + (pace.rows - 1) * pace.every for pace in self.paces.values()) + 1


def streaming(net: Rows, ops: Sequence[int]) -> Streaming | None:
    """How `ops`, in the order in which they run, do so row by row, those of a tile together; None when they cannot."""
    found = paced(net, ops)
    if found is None:
        return None
    readers: dict[str, list[tuple[int, int]]] = {}
    for index, reads in found.reads.items():
        for read in reads:
            readers.setdefault(read.tensor, []).append((index, read.pad))
    made = {node if isinstance(node, str) else net.graph.ops[node].outputs[0]: node for node in found.paces}
    inner = {name: node for name, node in made.items() if net.users[name] <= set(ops) and node != ops[-1]}
    rings = {name: _ring(readers[name], found.paces, node) for name, node in inner.items()}
    tiles = [tile_sizes(net, tile.ops, tile.cols) for tile in net.tiles if tile.ops[-1] in found.reads]
    return replace(found, rings=rings, tiles={name: size for sizes in tiles for name, size in sizes.items()})


def paced(net: Rows, ops: Sequence[int]) -> Streaming | None:
    """The same, but for the sizes of rings and tiles."""
    runs = _runs(net, ops)
    if runs is None:
        return None
    reads = {run[-1]: found for run in runs if (found := joined(net, run)) is not None}
    if len(reads) < len(runs) or any(net.sums[index] for index in ops[:-1]):
        return None
    users, last = set(ops), ops[-1]
    brought = dict.fromkeys(read.tensor for found in reads.values() for read in found if read.tensor in net.streamed)
    if any(not net.users[name] <= users for name in brought):
        return None
    nodes: list[Node] = [*brought, *reads]
    made: dict[str, Node] = {name: name for name in brought} | {net.graph.ops[index].outputs[0]: index for index in reads}
    inner = {name for name, node in made.items() if net.users[name] <= users and node != last}
    strides = [max(read.stride for read in found) for found in reads.values()]
    every: dict[Node, int] = {last: prod(strides)}  # what all strides divide
    for index in reversed(list(reads)):
        if index not in every:
            return None  # nothing here reads what it makes
        for x, stride, _, _ in reads[index]:
            source, step = made.get(x), every[index] // stride
            if source is not None and every.setdefault(source, step) != step:
                return None  # two ways of different strides lead to it
    rows = rows_needed(net, reads, made, inner)
    if min(rows.values()) < 1:
        return None
    paces = _paces(nodes, reads, made, every, rows)
    return Streaming(paces, reads, {}, {})


def _runs(net: Rows, ops: Sequence[int]) -> list[tuple[int, ...]] | None:
    """The ops of a stage, those of a tile together; None where a tile is not there as a whole."""
    if not net.tiles:
        return [(index,) for index in ops]
    first = {tile.ops[0]: tile.ops for tile in net.tiles}
    runs, at = [], 0
    while at < len(ops):
        runs.append(first.get(ops[at], (ops[at],)))
        at += len(runs[-1])
    return runs if [index for run in runs for index in run] == list(ops) else None


def rows_needed(
    net: Rows, reads: Mapping[int, Sequence[Read]], made: Mapping[str, Node], inner: Collection[str]
) -> dict[Node, int]:
    """Rows that each node of a stage computes: all where others read them, or those that the nodes after it read."""
    rows, last = {node: 0 if name in inner else net.height.get(name, 1) for name, node in made.items()}, list(reads)[-1]
    rows[last] = net.steps[last]
    for index in reversed(list(reads)):
        for x, stride, extent, pad in reads[index]:
            if (source := made.get(x)) is not None:
                rows[source] = max(rows[source], min(net.height[x], (rows[index] - 1) * stride - pad + extent))
    return rows


def _paces(
    nodes: Sequence[Node],
    reads: Mapping[int, Sequence[Read]],
    made: Mapping[str, Node],
    every: Mapping[Node, int],
    rows: Mapping[Node, int],
) -> dict[Node, Pace]:
    divisor = gcd(*(every[node] for node in nodes))
    step = {node: every[node] // divisor for node in nodes}
    first = dict.fromkeys(nodes, 0)
    waits: dict[Node, list[tuple[int, int]]] = {node: [] for node in nodes}  # (who reads it, the ticks that that one waits)
    leads = []  # nodes that wait for no other
    for node in nodes:
        needed = [read for read in reads.get(node, ()) if read.tensor in made] if isinstance(node, int) else []
        for x, _, extent, pad in needed:
            source = made[x]
            assert isinstance(node, int)
            waits[source].append((node, step[source] * (extent - 1 - pad)))
        first[node] = max((first[made[x]] + step[made[x]] * (extent - 1 - pad) for x, _, extent, pad in needed), default=0)
        if not needed:
            leads.append(node)
    for node in leads:
        first[node] = min((first[reader] - ticks for reader, ticks in waits[node]), default=0)  # no earlier than it is needed
    begin = min(first.values())
    return {node: Pace(first[node] - begin, step[node], rows[node]) for node in nodes}


def _ring(readers: Sequence[tuple[int, int]], paces: Mapping[Node, Pace], source: Node) -> int:
    """Rows of an inner tensor that are kept: when a reader runs, from the oldest that it reads to the newest written.

    readers: (node, rows of its window that lie above the map).
    """
    made = paces[source]
    kept = max((paces[index].first - made.first) // made.every + pad + 1 for index, pad in readers)
    return min(max(kept, 1), made.rows)


def lags(net: Rows, stream: Streaming, ops: Sequence[int], owner: Mapping[str, str]) -> dict[str, int]:
    """Owner of bytes that other ops made -> how far below them the last op's output must begin to overlap them, if they die."""
    made = {net.graph.ops[index].outputs[0] for index in ops}
    names = {read.tensor for found in stream.reads.values() for read in found} - made - set(net.streamed)
    found: dict[str, int] = {}
    for name in sorted(names):
        found[owner[name]] = max(found.get(owner[name], 0), _lag(net, stream, ops, name))
    return found


def _lag(net: Rows, stream: Streaming, ops: Sequence[int], x: str) -> int:
    out, size, last = net.graph.output(net.graph.ops[ops[-1]]), row_bytes(net.graph.tensors[x]), stream.paces[ops[-1]]
    if net.sums[ops[-1]]:  # written all at once, with the last row
        rows, written = np.array([last.rows - 1]), np.array([out.bytes])
    else:
        rows = np.arange(last.rows)
        written = (rows + 1) * row_bytes(out)
    distance = 0
    readers = [(index, read) for index, found in stream.reads.items() for read in found if read.tensor == x]
    for index, read in readers:
        pace = stream.paces[index]
        if index == ops[-1]:  # the row itself has been read where the kernel reads each byte before it writes the same one
            in_place = x in net.in_place[index] and all(index not in tile.ops for tile in net.tiles)
            done = rows + (in_place and bool(written[0] == size))
        else:
            done = np.minimum(np.maximum((last.first + rows * last.every - pace.first) // pace.every + 1, 0), pace.rows)
        oldest = np.clip(done * read.stride - read.pad, 0, net.height[x])
        distance = max(distance, int(np.where(done < pace.rows, written - oldest * size, 0).max()))
    return distance


def is_fused(net: Rows, ops: Sequence[int]) -> bool:
    """Whether a stage of these ops runs row by row."""
    return len(ops) > 1 or any(name in net.streamed for name in net.graph.ops[ops[0]].inputs)


def streamings(net: Rows, stages: Sequence[Sequence[int]]) -> list[Streaming | None]:
    """Per stage how it runs row by row; None where it is one op that runs on whole tensors."""
    found = [streaming(net, ops) if is_fused(net, ops) else None for ops in stages]
    for ops, stream in zip(stages, found, strict=True):
        assert stream is not None or not is_fused(net, ops), f"{net.graph.ops[ops[0]].name} and those after it cannot be fused"
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
    return Rows(plan.graph, plan.variants, plan.streamed, [tile for stage in plan.stages for tile in stage.tiles or ()])


def plan_macs(plan: Plan) -> tuple[int, ...]:
    """Multiply-accumulates that each op of a plan executes: rows as often as they are computed, padding left out."""
    graph, net = plan.graph, rows_of(plan)
    found = [SPECS[op.kind].macs(graph, op, True) for op in graph.ops]
    for stage in (stage for stage in plan.stages if stage.tiles is not None):
        runs = {tile.ops[-1]: tile.ops for tile in stage.tiles or ()}
        stream = streaming_of(plan, stage)
        for node in stream.reads:
            if not net.sums[node]:
                for index, macs in macs_again(net, runs.get(node, (node,)), stream.paces[node].rows).items():
                    found[index] += macs
    return tuple(found)


def rules_of(plan: Plan) -> list[Rule]:
    """How the buffers of a plan may overlap."""
    owner = {name: place.buffer for name, place in plan.places.items()}
    offset = {name: place.offset for name, place in plan.places.items()}
    stages, net = [stage.ops for stage in plan.stages], rows_of(plan)
    alone = lags_of_ops(plan.graph, plan.variants, owner, offset=offset)
    return rules(plan.graph, stages, owner, lags_by_stage(net, stages, streamings(net, stages), alone, owner), plan.buffers)


def streaming_of(plan: Plan, stage: Stage) -> Streaming:
    """How a fused stage of a plan runs."""
    found = streaming(rows_of(plan), stage.ops)
    assert found is not None, f"stage {stage} cannot run row by row"
    return found
