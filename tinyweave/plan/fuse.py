"""Fused stages: ops that run together, row by row, so that what one passes on to another lies in a ring of a few rows.

In: a Graph and which of its ops. Out: at which tick each of them computes a row, and how many rows each ring needs.

One tick is the time of the most frequent row. Row r of an op falls due at tick first + r * every, as late as all rows of its
window need: with a stride s a row of the output takes s times as long as one of the input, and it waits for k - 1 - p more rows
of the input, for a window of k rows of which p lie above the map. An operand that comes earlier than the others, a skip, waits
in its ring. Nothing is computed twice but in tiles: ops that run together for some columns of a row at a time, so that of what
they pass on, often the widest maps of all, only a few columns of the rows that this row needs are there; the next row computes
them anew. Generalises the line buffers of MCUNetV2 (arXiv 2110.15352) and of multi-stage fusion (msf-CNN, arXiv 2505.11483:
H-cache with one output element) to any convex part of the graph with one last op.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import gcd, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Tensor, itemsize
from ..kernels.table import BY_NAME
from ..ops import SPECS
from .overlap import lags as lags_of_ops
from .overlap import rules, shared_bytes
from .place import Rule
from .plan import Plan, Stage, Tile

NEVER = 1 << 60
SHORT = 6  # ops of a stage
LONGEST_TILE = 4  # ops that run together
NARROWEST = 4  # columns of a tile
MOST_CHOICES = 16  # of tiles in a stage, followed at a time


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


class Read(NamedTuple):
    """The rows of an operand that row r reads: [r * stride - pad, r * stride - pad + extent), those inside the map."""

    tensor: str
    stride: int
    extent: int
    pad: int


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


def row_bytes(tensor: Tensor) -> int:
    """Bytes of a row of an NHWC map."""
    return tensor.shape[2] * tensor.shape[3] * itemsize(tensor.dtype)


def reads(graph: Graph, op: Op, variant: str) -> tuple[Read, ...] | None:
    """What an op reads row by row; None when it cannot run so."""
    window = SPECS[op.kind].window(graph, op)
    if not variant or len(op.outputs) != 1:
        return None
    if BY_NAME[variant].sums(graph, op):
        return (Read(graph.input(op).name, 1, 1, 0),) if graph.input(op).data is None else None
    if not BY_NAME[variant].ranged or window is None:
        return None
    maps = [graph.output(op), *(t for t in graph.inputs_of(op) if t is not None and t.data is None)]
    if len(maps) < 2 or any(len(t.shape) != 4 or t.shape[0] != 1 or t.role == "state" for t in maps):
        return None
    names = dict.fromkeys(tensor.name for tensor in maps[1:])
    return tuple(Read(name, window.stride[0], window.extent[0], window.pad[0]) for name in names)


@dataclass(frozen=True, eq=False)
class Rows:
    """A graph as rows, with the kernel's name per op, network inputs that come by rows, and ops that run together."""

    graph: Graph
    variants: Sequence[str]
    streamed: Collection[str] = ()
    tiles: Collection[Tile] = ()

    def with_tiles(self, tiles: Collection[Tile]) -> Rows:
        """The same graph with these tiles; what is known of its ops stays known."""
        found = copy(self)
        object.__setattr__(found, "tiles", tiles)
        return found

    @cached_property
    def reads(self) -> list[tuple[Read, ...] | None]:
        """Per op what it reads row by row; None where it cannot be fused."""
        return [reads(self.graph, op, variant) for op, variant in zip(self.graph.ops, self.variants, strict=True)]

    @cached_property
    def sums(self) -> list[int]:
        """Per op the bytes that it takes to sum up the rows of its input as they come; 0 where it does not do that."""
        ops = zip(self.graph.ops, self.variants, self.reads, strict=True)
        return [BY_NAME[variant].sums(self.graph, op) if found else 0 for op, variant, found in ops]

    @cached_property
    def steps(self) -> list[int]:
        """Per op the rows that it computes, or those of its input where it only sums them up."""
        ops = zip(self.graph.ops, self.sums, strict=True)
        return [self.height.get((op.inputs[0] or "") if sums else op.outputs[0], 1) for op, sums in ops]

    @cached_property
    def in_place(self) -> list[set[str]]:
        """Per op the operands of which it reads each byte before it writes the same byte of its output."""
        ops = zip(self.graph.ops, self.variants, self.reads, strict=True)
        lag = [BY_NAME[variant].lag(self.graph, op) if _is_elementwise(found) else {} for op, variant, found in ops]
        return [{op.inputs[i] or "" for i, by in of.items() if by == 0} for op, of in zip(self.graph.ops, lag, strict=True)]

    @cached_property
    def users(self) -> dict[str, set[int]]:
        """Per tensor the ops that read it; a network output has one more that is no op."""
        found: dict[str, set[int]] = {name: set() for name in self.graph.tensors}
        for index, op in enumerate(self.graph.ops):
            for name in filter(None, op.inputs):
                found[name].add(index)
        for name in self.graph.outputs:
            found[name].add(-1)
        return found

    @cached_property
    def height(self) -> dict[str, int]:
        """The rows of each map."""
        return {name: tensor.shape[1] for name, tensor in self.graph.tensors.items() if len(tensor.shape) == 4}


def _is_elementwise(found: tuple[Read, ...] | None) -> bool:
    return found is not None and all(read[1:] == (1, 1, 0) for read in found)


def streaming(net: Rows, ops: Sequence[int]) -> Streaming | None:
    """How `ops`, in the order in which they run, do so row by row, those of a tile together; None when they cannot."""
    found = _without_tiles(net, ops)
    if found is None or not net.tiles:
        return found
    tiles = [tile_sizes(net, tile.ops, tile.cols) for tile in net.tiles if tile.ops[-1] in found.reads]
    return replace(found, tiles={name: size for sizes in tiles for name, size in sizes.items()})


def _without_tiles(net: Rows, ops: Sequence[int]) -> Streaming | None:
    """The same, but for the sizes of tiles."""
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
    rows = _rows_needed(net, reads, made, inner)
    if min(rows.values()) < 1:
        return None
    paces = _paces(nodes, reads, made, every, rows)
    rings = {name: _ring(reads, paces, name, made[name]) for name in made if name in inner}
    return Streaming(paces, reads, rings, {})


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


def joined(net: Rows, run: Sequence[int]) -> tuple[Read, ...] | None:
    """What a row of the output of ops that run together reads of what others make; None where they cannot run so.

    In a tile all but the last op's output must be read by the next op and no other.
    """
    if len(run) == 1:
        return net.reads[run[0]]
    names = [net.graph.ops[index].outputs[0] for index in run]
    found: dict[str, Read] = {}
    needed = Read("", 1, 1, 0)  # of what an op writes, the rows that a row of the last one needs
    for position in reversed(range(len(run))):
        reads = net.reads[run[position]]
        if reads is None or net.sums[run[position]] or (position and net.users[names[position - 1]] != {run[position]}):
            return None
        outer = needed
        for read in reads:
            extent, pad = (outer.extent - 1) * read.stride + read.extent, outer.pad * read.stride + read.pad
            through = Read(read.tensor, outer.stride * read.stride, extent, pad)
            if position and read.tensor == names[position - 1]:
                needed = through
            elif (other := found.setdefault(read.tensor, through)) != through:
                if other.stride != through.stride:
                    return None
                pad = max(pad, other.pad)
                found[read.tensor] = other._replace(extent=pad + max(extent - through.pad, other.extent - other.pad), pad=pad)
    return tuple(found.values())


def tile_sizes(net: Rows, run: Sequence[int], cols: int) -> dict[str, tuple[int, int]]:
    """Tensor that ops which run together for `cols` columns pass on -> the most rows and columns that are there of it."""
    width = net.graph.output(net.graph.ops[run[-1]]).shape[2]
    starts = range(0, width, cols)
    parts = [(begin, min(begin + cols, width)) for begin in starts]  # columns that each op computes, block by block
    sizes: dict[str, tuple[int, int]] = {}
    for (before, index), (begin, end) in zip(reversed(list(pairwise(run))), _rows_of_run(net, run), strict=True):
        window = SPECS[net.graph.ops[index].kind].window(net.graph, net.graph.ops[index])
        tensor = net.graph.output(net.graph.ops[before])
        assert window is not None
        most = there = 0  # columns held at a time; those before `there` have been computed
        for position, (first, last) in enumerate(parts):
            start = min(max(first * window.stride[1] - window.pad[1], 0), tensor.shape[2])
            stop = min(max((last - 1) * window.stride[1] - window.pad[1] + window.extent[1], start), tensor.shape[2])
            stop = max(stop if first < last else start, there)
            most = max(most, stop - start)
            parts[position] = max(start, there), stop
            there = stop
        sizes[tensor.name] = int((end - begin).max()), most
    return sizes


def tile_bytes(net: Rows, run: Sequence[int], cols: int) -> dict[str, int]:
    """The same in bytes."""
    tensors = net.graph.tensors
    sizes = tile_sizes(net, run, cols)
    return {x: rows * width * tensors[x].shape[3] * itemsize(tensors[x].dtype) for x, (rows, width) in sizes.items()}


def _rows_of_run(
    net: Rows, run: Sequence[int], rows: int | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Per tensor that ops which run together pass on, the last first: the rows [begin, end) that each output row needs.

    rows: of the output that are computed; all if left out.
    """
    count = net.height[net.graph.ops[run[-1]].outputs[0]] if rows is None else rows
    begin, end = np.arange(count), np.arange(1, count + 1)
    for before, index in reversed(list(pairwise(run))):
        name = net.graph.ops[before].outputs[0]
        read = next(read for read in net.reads[index] or () if read.tensor == name)
        empty = begin >= end
        begin = np.clip(begin * read.stride - read.pad, 0, net.height[name])
        end = np.maximum(np.clip((end - 1) * read.stride - read.pad + read.extent, 0, net.height[name]), begin)
        end = np.where(empty, begin, end)
        yield begin, end


def macs_again(net: Rows, run: Sequence[int], rows: int | None = None) -> dict[int, int]:
    """Op of those that run together -> multiply-accumulates of rows that it computes again, less those of rows that none needs.

    rows: of the output that are computed; all if left out.
    """
    found = {}
    if rows is not None:
        found[run[-1]] = _macs_of_rows(net, run[-1], (np.arange(net.steps[run[-1]]) < rows) - np.int64(1))
    for before, (begin, end) in zip(reversed(run[:-1]), _rows_of_run(net, run, rows), strict=True):
        height = net.height[net.graph.ops[before].outputs[0]]
        times = np.cumsum(np.bincount(begin, minlength=height + 1) - np.bincount(end, minlength=height + 1))[:-1]
        found[before] = _macs_of_rows(net, before, times - 1)
    return found


def _macs_of_rows(net: Rows, index: int, times: NDArray[np.int64]) -> int:
    """Multiply-accumulates of an op that computes each row of its output so many times, those outside the map left out."""
    op, total = net.graph.ops[index], SPECS[net.graph.ops[index].kind].macs(net.graph, net.graph.ops[index], True)
    if not total:
        return 0
    rows, read = np.arange(len(times)), (net.reads[index] or ())[0]
    dilation = op.attrs.get("dilation", (1, 1))[0]
    taps = (rows * read.stride - read.pad)[:, None] + np.arange(0, read.extent, dilation)
    inside = ((taps >= 0) & (taps < net.height[read.tensor])).sum(axis=1)
    return total * int((inside * times).sum()) // int(inside.sum())


def _rows_needed(
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


def _ring(reads: Mapping[int, Sequence[Read]], paces: Mapping[Node, Pace], name: str, source: Node) -> int:
    """Rows of an inner tensor that are kept: when a reader runs, from the oldest that it reads to the newest written."""
    made = paces[source]
    readers = [(index, read.pad) for index, found in reads.items() for read in found if read.tensor == name]
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


class _Choice(NamedTuple):
    """Tiles of a stage. saved: bytes of rings that they spare. tile: bytes of the largest. macs: what they compute again."""

    saved: int
    tile: int
    macs: int
    tiles: tuple[Tile, ...] = ()


class _Edge(NamedTuple):
    """A stage up to the step `end`: its bytes, how many ops it fuses and how many of them run in tiles, and its tiles."""

    end: int
    bytes: int
    fused: int
    choice: _Choice = _Choice(0, 0, 0)

    @property
    def cost(self) -> tuple[int, int, int]:
        """Least multiply-accumulates first, then fewest ops in tiles, then fewest fused."""
        return self.choice.macs, sum(len(tile.ops) for tile in self.choice.tiles), self.fused


def best_stages(
    net: Rows,
    order: Sequence[int],
    owner: Mapping[str, str],
    alone: Sequence[int],
    *,
    budget: int = 0,
    most: int = NEVER,
) -> tuple[list[tuple[int, ...]], tuple[Tile, ...]]:
    """The ops in `order`, cut into stages, and their tiles, so that the busiest stage needs least and no more than `budget`
    multiply-accumulates are done again; of such cuts one that does fewest again, has fewest ops in tiles and fuses fewest.

    owner: activation -> the tensor that owns its bytes. alone: bytes that each step needs by itself. Empty when more than
    `most` bytes are needed. Exact by dynamic programming over the cuts, memory being a maximum over stages and work a sum, but
    for tiles: of a stage's choices only those that spare most are followed, as if each had the same overlap of its output with
    what dies.
    """
    edges = _edges(net, order, owner, alone, budget=budget, spend=budget, most=most)
    worst = _least_worst(edges, budget)
    if most < worst:
        return [], ()
    return _cut(net, order, _cheapest(edges, worst) or [], worst)


def stage_front(
    net: Rows, order: Sequence[int], owner: Mapping[str, str], alone: Sequence[int], *, budget: int
) -> list[tuple[list[tuple[int, ...]], tuple[Tile, ...]]]:
    """What `best_stages` finds for each budget up to this one with which less memory is needed, the least budget first."""
    edges = _edges(net, order, owner, alone, budget=budget, spend=0, most=NEVER)
    sizes = sorted({edge.bytes for found in edges for edge in found})
    sizes = sizes[sizes.index(_least_worst(edges, budget)) : sizes.index(_least_worst(edges, 0)) + 1]
    paths = {at: _cheapest(edges, sizes[at]) or [] for at in (0, len(sizes) - 1)}
    spent = {at: sum(edge.choice.macs for edge in path) for at, path in paths.items()}
    waiting = [(0, len(sizes) - 1)]
    while waiting:
        low, high = waiting.pop()
        if high - low > 1 and spent[low] != spent[high]:
            middle = (low + high) // 2
            paths[middle] = _cheapest(edges, sizes[middle]) or []
            spent[middle] = sum(edge.choice.macs for edge in paths[middle])
            waiting += [(low, middle), (middle, high)]
    least = {macs: at for at, macs in sorted(spent.items(), reverse=True)}
    return [_cut(net, order, paths[at], sizes[at]) for _, at in sorted(least.items())]


def _cut(net: Rows, order: Sequence[int], path: Sequence[_Edge], worst: int) -> tuple[list[tuple[int, ...]], tuple[Tile, ...]]:
    """The stages and tiles of a path, these as wide as `worst` bytes allow."""
    stages, tiles, begin = list[tuple[int, ...]](), list[Tile](), 0
    for edge in path:
        stages.append(tuple(order[begin : edge.end]))
        spare = worst - edge.bytes + edge.choice.tile
        tiles += [_widened(net, tile, spare) for tile in edge.choice.tiles]
        begin = edge.end
    return stages, tuple(tiles)


def _edges(
    net: Rows,
    order: Sequence[int],
    owner: Mapping[str, str],
    alone: Sequence[int],
    *,
    budget: int,
    spend: int,
    most: int,
) -> list[list[_Edge]]:
    """Per step the stages that begin there, of no more bytes than are needed when no more than `spend` of the budget is done
    again."""
    steps, single = len(order), list(alone)
    lives = _lifetimes(net, order, owner)
    for name in net.streamed:
        for step in range(max(lives[name].begin, 0), lives[name].end):
            single[step] -= lives[name].bytes
    readers = [not set(net.streamed).isdisjoint(filter(None, net.graph.ops[index].inputs)) for index in order]
    candidates = _candidates(net, order, budget)
    begun = sum(life.bytes for name, life in lives.items() if life.begin < 0 and name not in net.streamed)
    floor = max(begun, *(single[step] for step, index in enumerate(order) if net.reads[index] is None), 0)  # no less will do
    most = most if net.streamed else min(most, max(alone))
    for longest in (SHORT, steps):  # what short stages reach spares a look at most of the long ones
        edges: list[list[_Edge]] = []  # by the step where a stage begins
        least = [0] + [NEVER] * steps  # bytes to get to a step, however much is done again
        for begin in range(steps):
            edges.append([] if readers[begin] else [_Edge(begin + 1, single[begin], 0)])
            if least[begin] > most:
                continue
            fronts = [[_Choice(0, 0, 0)]]
            for end, is_stage, stage in _growing(net, order[: begin + longest], begin):
                fronts.append(_front(net, fronts, candidates[end - 1], stage, begin))
                if is_stage and (end > begin + 1 or readers[begin]):
                    needs = _needs(
                        net, order, lives, owner, stage=stage, span=(begin, end), front=fronts[-1], floor=floor, most=most
                    )
                    edges[-1] += [_Edge(end, size, end - begin, choice) for choice, size in needs]
            for edge in edges[-1]:
                least[edge.end] = min(least[edge.end], max(least[begin], edge.bytes))
        most = min(most, _least_worst(edges, spend))
    if most == NEVER:
        op = next(net.graph.ops[order[step]] for step in range(steps) if readers[step])
        raise CompileError("cannot take a network input row by row", "plan without streamed inputs", op=op)
    return edges


def _least_worst(edges: Sequence[Sequence[_Edge]], budget: int) -> int:
    """The least bytes with which some path over the edges computes no more than `budget` again."""
    sizes = sorted({edge.bytes for found in edges for edge in found})
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        path = _cheapest(edges, sizes[middle])
        if path is not None and sum(edge.choice.macs for edge in path) <= budget:
            high = middle
        else:
            low = middle + 1
    return sizes[low] if low < len(sizes) else NEVER


def _cheapest(edges: Sequence[Sequence[_Edge]], most: int) -> list[_Edge] | None:
    """Of the paths over edges of at most so many bytes the one that costs least."""
    best: list[tuple[tuple[int, int, int], int, _Edge] | None] = [None] * (len(edges) + 1)  # (cost, begin, last edge)
    for begin, found in enumerate(edges):
        before = best[begin]
        if begin and before is None:
            continue
        a, b, c = (0, 0, 0) if before is None else before[0]
        for edge in found:
            if edge.bytes <= most:
                x, y, z = edge.cost
                known = best[edge.end]
                if known is None or (a + x, b + y, c + z) < known[0]:
                    best[edge.end] = (a + x, b + y, c + z), begin, edge
    path, end = list[_Edge](), len(edges)
    while end:
        last = best[end]
        if last is None:
            return None
        path.append(last[2])
        end = last[1]
    return path[::-1]


class _Candidate(NamedTuple):
    """Ops that could run together, from the step `begin` on. bytes: of the tile. macs: what it computes again."""

    begin: int
    tile: Tile
    bytes: int
    macs: int
    reads: tuple[Read, ...]


def _candidates(net: Rows, order: Sequence[int], budget: int) -> list[list[_Candidate]]:
    """The tiles that end with each step, the narrowest; and compute no more again than they may."""
    found: list[list[_Candidate]] = []
    for end in range(1, len(order) + 1):
        found.append([])
        for begin in range(end - 2, max(end - LONGEST_TILE, 0) - 1, -1):
            run = tuple(order[begin:end])
            reads = joined(net, run)
            if reads is None:
                break
            macs = sum(macs_again(net, run).values())
            if macs <= budget:
                size = sum(-(-size // 4) * 4 for size in tile_bytes(net, run, NARROWEST).values())
                found[-1].append(_Candidate(begin, Tile(run, NARROWEST), size, macs, reads))
    return found


def _front(
    net: Rows, fronts: Sequence[Sequence[_Choice]], candidates: Iterable[_Candidate], stage: Mapping[str, _Made], first: int
) -> list[_Choice]:
    """The choices of tiles in a stage that has grown by an op, of which no other saves more with less; fronts: those before."""
    found = list(fronts[-1])
    for candidate in candidates:
        if candidate.begin >= first:
            saved = _saved(net, candidate, stage)
            if saved > 0:
                for choice in fronts[candidate.begin - first]:
                    tiles = (*choice.tiles, candidate.tile)
                    tile, macs = max(choice.tile, candidate.bytes), choice.macs + candidate.macs
                    found.append(_Choice(choice.saved + saved, tile, macs, tiles))
    kept: list[_Choice] = []
    for choice in sorted(found, key=lambda c: (-c.saved + c.tile, c.macs, c.tile, len(c.tiles))):
        if not any(c.saved >= choice.saved and c.tile <= choice.tile and c.macs <= choice.macs for c in kept):
            kept.append(choice)
        if len(kept) == MOST_CHOICES:
            break
    return kept if any(not choice.tiles for choice in kept) else [*kept, _Choice(0, 0, 0)]


def _saved(net: Rows, candidate: _Candidate, stage: Mapping[str, _Made]) -> int:
    """Bytes that the rings of a stage need less when ops run together."""
    graph, saved = net.graph, 0
    for index in candidate.tile.ops[:-1]:
        tensor = graph.output(graph.ops[index])
        saved += min(stage[tensor.name].kept, tensor.shape[1]) * row_bytes(tensor)
    for read in candidate.reads:
        if (made := stage.get(read.tensor)) is not None:
            height = net.height[read.tensor]
            saved -= (min(max(made.kept, read.extent), height) - min(made.kept, height)) * row_bytes(graph.tensors[read.tensor])
    return saved


def _widened(net: Rows, tile: Tile, most: int) -> Tile:
    """The tile with as many columns as so many bytes hold: the fewer calls."""
    width = net.graph.output(net.graph.ops[tile.ops[-1]]).shape[2]
    cols = tile.cols
    while cols < width:
        wider = min(2 * cols, width)
        if sum(-(-size // 4) * 4 for size in tile_bytes(net, tile.ops, wider).values()) > most:
            break
        cols = wider
    return Tile(tile.ops, cols)


class _Made(NamedTuple):
    """A tensor that a growing stage makes: ticks from one row to the next, the tick of the first row, rows its ring keeps. How
    long a tick is differs between groups of tensors that nothing joins yet."""

    every: int
    first: int
    lead: bool
    kept: int = 1


def _growing(net: Rows, order: Sequence[int], begin: int) -> Iterator[tuple[int, bool, dict[str, _Made]]]:
    """Stages that begin at a step and grow by one op: (end, whether it has one last op and so can be one, what it makes)."""
    made: dict[str, _Made] = {}
    group: dict[str, str] = {}  # tensors whose ticks are known relative to each other
    waits: dict[str, list[tuple[str, int, int]]] = {}  # lead -> (reader's output, rows that it waits, rows above its window)
    unread: set[str] = set()
    for end in range(begin + 1, len(order) + 1):
        found = net.reads[order[end - 1]]
        if found is None:
            return
        out, inside = net.graph.ops[order[end - 1]].outputs[0], []
        for read in found:
            if read.tensor in net.streamed and read.tensor not in made:
                made[read.tensor] = _Made(1, 0, True)
                group[read.tensor] = read.tensor
            if read.tensor in made:
                inside.append(read)
        for read in inside[1:]:
            own, other = made[inside[0].tensor].every * inside[0].stride, made[read.tensor].every * read.stride
            kept, joined = group[inside[0].tensor], group[read.tensor]
            if kept == joined and own != other:
                return  # two ways of different strides lead to the same rows
            if kept != joined:
                ticks = {kept: other // gcd(own, other), joined: own // gcd(own, other)}
                for name in [name for name, number in group.items() if number in ticks]:
                    factor, group[name] = ticks[group[name]], kept
                    made[name] = made[name]._replace(every=made[name].every * factor, first=made[name].first * factor)
        at = [made[read.tensor].first + made[read.tensor].every * (read.extent - 1 - read.pad) for read in inside]
        every = made[inside[0].tensor].every * inside[0].stride if inside else 1
        made[out] = _Made(every, max(at, default=0), not inside)
        group[out] = group[inside[0].tensor] if inside else out
        for read in inside:
            source = made[read.tensor]
            unread.discard(read.tensor)
            if source.lead:
                waits.setdefault(read.tensor, []).append((out, read.extent - 1 - read.pad, read.pad))
            else:
                rows = (made[out].first - source.first) // source.every + read.pad + 1
                made[read.tensor] = source._replace(kept=max(source.kept, rows))
        for name, readers in waits.items():  # a lead runs no earlier than it is needed
            step = made[name].every
            first = min(made[reader].first - waited * step for reader, waited, _ in readers)
            rows = max((made[reader].first - first) // step + pad + 1 for reader, _, pad in readers)
            made[name] = made[name]._replace(kept=rows)
        yield end, not unread, made
        if net.sums[order[end - 1]]:
            return
        unread.add(out)


class Life(NamedTuple):
    """Bytes that are alive in the steps [begin, end), which inputs and state are from -1 on; kept: beyond the last."""

    bytes: int
    begin: int
    end: int
    kept: bool


def _needs(
    net: Rows,
    order: Sequence[int],
    lives: Mapping[str, Life],
    owner: Mapping[str, str],
    *,
    stage: Mapping[str, _Made],
    span: tuple[int, int],
    front: Sequence[_Choice],
    floor: int,
    most: int,
) -> Iterator[tuple[_Choice, int]]:
    """Bytes that the steps of a span need as one stage, for each choice of tiles with which that is no more than `most`.

    No tiles where `floor` bytes are enough without. None when a streamed input has readers outside.
    """
    begin, end = span
    ops, total, dying = order[begin:end], 0, dict[str, int]()
    inner = {name for name in stage if net.users[name].issubset(ops)}
    reads = {index: net.reads[index] or () for index in ops}
    rows = _rows_needed(net, reads, {name: net.graph.producer.get(name, name) for name in stage}, inner)
    for name, life in lives.items():
        if life.begin >= end or life.end <= begin:
            continue
        if name in net.streamed:
            if name not in stage:
                continue
            if not net.users[name] <= set(ops):
                return
            total += min(stage[name].kept, rows[name]) * row_bytes(net.graph.tensors[name])
        elif life.begin >= begin and life.end <= end and not life.kept:
            total += min(stage[name].kept, rows[net.graph.producer[name]]) * row_bytes(net.graph.tensors[name])
        else:
            total += life.bytes
            if life.begin < begin and life.end <= end and not life.kept:
                dying[name] = life.bytes
    out, total = net.graph.output(net.graph.ops[order[end - 1]]).bytes, total + net.sums[order[end - 1]]

    def shared(net: Rows) -> int:
        """Bytes of the last op's output that lie over what dies."""
        stream = _without_tiles(net, ops)
        distances = lags(net, stream, ops, owner) if stream is not None else {}
        return shared_bytes(out, [(lag, dying[name]) for name, lag in distances.items() if name in dying])

    if not any(total - choice.saved + choice.tile - min(sum(dying.values()), out) <= most for choice in front):
        return
    least = total - shared(net) if dying else total  # tiles read more rows at a time, so that with them no more is shared
    if least <= floor:
        front = [choice for choice in front if not choice.tiles]
    for choice in front:
        size = least - choice.saved + choice.tile
        if dying and choice.tiles and size <= most:
            size += total - least - shared(net.with_tiles(choice.tiles))
        if size <= most:
            yield choice, size


def _lifetimes(net: Rows, order: Sequence[int], owner: Mapping[str, str]) -> dict[str, Life]:
    """Per owner of bytes when it is alive."""
    graph = net.graph
    lasting = [name for name, tensor in graph.tensors.items() if tensor.role == "state"]
    begin = {**dict.fromkeys((owner[name] for name in graph.inputs), -1), **dict.fromkeys(lasting, -1)}
    end = dict.fromkeys(begin, 1)
    for step, index in enumerate(order):
        for name in filter(None, (*graph.ops[index].inputs, *graph.ops[index].outputs)):
            if name in owner:
                begin.setdefault(owner[name], step)
                end[owner[name]] = step + 1
    kept = {*lasting, *(owner[name] for name in graph.outputs if name in owner)}
    end |= dict.fromkeys(kept, len(order))
    return {name: Life(graph.tensors[name].bytes, begin[name], end[name], name in kept) for name in begin}
