"""Fused stages: ops that run together, row by row, so that what one passes on to another lies in a ring of a few rows.

In: a Graph and which of its ops. Out: at which tick each of them computes a row, and how many rows each ring needs.

One tick is the time of the most frequent row. Row r of an op falls due at tick first + r * every, as late as all rows of its
window need: with a stride s a row of the output takes s times as long as one of the input, and it waits for k - 1 - p more rows
of the input, for a window of k rows of which p lie above the map. An operand that comes earlier than the others, a skip, waits
in its ring. Nothing is computed twice. Generalises the line buffers of MCUNetV2 (arXiv 2110.15352) and of multi-stage fusion
(msf-CNN, arXiv 2505.11483: H-cache with one output element) to any convex part of the graph with one last op.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ..ir import CompileError, Graph, Op, Tensor, itemsize
from ..kernels.table import BY_NAME
from ..ops import SPECS
from .overlap import lags as lags_of_ops
from .overlap import rules, shared_bytes
from .place import Rule
from .plan import Plan, Stage

NEVER = 1 << 60
SHORT = 6  # ops of a stage


class Pace(NamedTuple):
    """When an op of a stage computes its rows: row r of `rows` at tick first + r * every."""

    first: int
    every: int
    rows: int

    def done(self, tick: int) -> int:
        """Rows computed when all of a tick is over."""
        return min(max((tick - self.first) // self.every + 1, 0), self.rows)


Node = int | str
"""What computes rows in a stage: an op, by its number, or the caller that brings those of a streamed network input."""


@dataclass(frozen=True)
class Streaming:
    """paces: by node, in the order in which they run at a tick. rings: tensor that only this stage sees -> rows of its ring."""

    paces: Mapping[Node, Pace]
    rings: Mapping[str, int]

    @property
    def ticks(self) -> int:
        """How many there are."""
        return max(pace.first + (pace.rows - 1) * pace.every for pace in self.paces.values()) + 1


class Read(NamedTuple):
    """The rows of an operand that row r reads: [r * stride - pad, r * stride - pad + extent), those inside the map."""

    tensor: str
    stride: int
    extent: int
    pad: int


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
    """A graph as rows, with the kernel's name per op. streamed: network inputs that come by rows."""

    graph: Graph
    variants: Sequence[str]
    streamed: Collection[str] = ()

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
    """How `ops`, in the order in which they run, do so row by row; None when they cannot."""
    reads = {index: found for index in ops if (found := net.reads[index]) is not None}
    if len(reads) < len(ops) or any(net.sums[index] for index in ops[:-1]):
        return None
    users, last = set(ops), ops[-1]
    brought = dict.fromkeys(read.tensor for found in reads.values() for read in found if read.tensor in net.streamed)
    if any(not net.users[name] <= users for name in brought):
        return None
    nodes: list[Node] = [*brought, *ops]
    made: dict[str, Node] = {name: name for name in brought} | {net.graph.ops[index].outputs[0]: index for index in ops}
    inner = {name for name, node in made.items() if net.users[name] <= users and node != last}
    every: dict[Node, int] = {last: prod(found[0].stride for found in reads.values())}  # what all strides divide
    for index in reversed(ops):
        if index not in every:
            return None  # nothing here reads what it makes
        for x, stride, _, _ in reads[index]:
            source, step = made.get(x), every[index] // stride
            if source is not None and every.setdefault(source, step) != step:
                return None  # two ways of different strides lead to it
    rows = _rows_needed(net, ops, made, inner)
    if min(rows.values()) < 1:
        return None
    paces = _paces(nodes, reads, made, every, rows)
    return Streaming(paces, {name: _ring(net, paces, name, made[name]) for name in made if name in inner})


def _rows_needed(net: Rows, ops: Sequence[int], made: Mapping[str, Node], inner: Collection[str]) -> dict[Node, int]:
    """Rows that each node of a stage computes: all where others read them, or those that the nodes after it read."""
    rows = {node: 0 if name in inner else net.height.get(name, 1) for name, node in made.items()}
    rows[ops[-1]] = net.steps[ops[-1]]
    for index in reversed(ops):
        for x, stride, extent, pad in net.reads[index] or ():
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


def _ring(net: Rows, paces: Mapping[Node, Pace], name: str, source: Node) -> int:
    """Rows of an inner tensor that are kept: when a reader runs, from the oldest that it reads to the newest written."""
    made = paces[source]
    readers = [(index, read.pad) for index in net.users[name] for read in net.reads[index] or () if read.tensor == name]
    kept = max((paces[index].first - made.first) // made.every + pad + 1 for index, pad in readers)
    return min(max(kept, 1), made.rows)


def lags(net: Rows, stream: Streaming, ops: Sequence[int], owner: Mapping[str, str]) -> dict[str, int]:
    """Owner of bytes that other ops made -> how far below them the last op's output must begin to overlap them, if they die."""
    made = {net.graph.ops[index].outputs[0] for index in ops}
    names = {read.tensor for index in ops for read in net.reads[index] or ()} - made - set(net.streamed)
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
    readers = [(index, read) for index in ops for read in net.reads[index] or () if read.tensor == x]
    for index, read in readers:
        pace = stream.paces[index]
        if index == ops[-1]:  # the row itself has been read where the kernel reads each byte before it writes the same one
            done = rows + (x in net.in_place[index] and bool(written[0] == size))
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
    return Rows(plan.graph, plan.variants, plan.streamed)


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


def best_stages(
    net: Rows, order: Sequence[int], owner: Mapping[str, str], alone: Sequence[int], most: int = NEVER
) -> list[tuple[int, ...]]:
    """The ops in `order`, cut into stages so that the busiest stage needs least, and of such cuts those that fuse fewest.

    owner: activation -> the tensor that owns its bytes. alone: bytes that each step needs by itself. Empty when more than
    `most` bytes are needed. Exact by dynamic programming over the cuts: memory is a maximum over stages.
    """
    steps, single = len(order), list(alone)
    lives = _lifetimes(net, order, owner)
    for name in net.streamed:
        for step in range(max(lives[name].begin, 0), lives[name].end):
            single[step] -= lives[name].bytes
    readers = [not set(net.streamed).isdisjoint(filter(None, net.graph.ops[index].inputs)) for index in order]
    limit = most
    most = most if net.streamed else min(most, max(alone))
    for longest in (SHORT, steps):  # what short stages reach spares a look at most of the long ones
        edges: list[list[tuple[int, int, int]]] = []  # by the step where a stage begins: (end, bytes, ops fused)
        worst = [0] + [NEVER] * steps
        for begin in range(steps):
            edges.append([] if readers[begin] else [(begin + 1, single[begin], 0)])
            if worst[begin] > most:
                continue
            for end, stage in _growing(net, order[: begin + longest], begin):
                if end > begin + 1 or readers[begin]:
                    need = _need(net, order, lives, owner, stage=stage, span=(begin, end), most=most)
                    edges[-1] += [(end, need, end - begin)] if need is not None else []
            for end, need, _ in edges[-1]:
                worst[end] = min(worst[end], max(worst[begin], need))
        most = min(most, worst[steps])
    if worst[steps] > limit:
        return []
    if worst[steps] == NEVER:
        op = next(net.graph.ops[order[step]] for step in range(steps) if readers[step])
        raise CompileError("cannot take a network input row by row", "plan without streamed inputs", op=op)
    best: list[tuple[int, int]] = [(0, 0)] + [(NEVER, 0)] * steps  # (ops fused, where the last stage begins)
    for begin in range(steps):
        for end, need, count in edges[begin]:
            if need <= worst[steps]:
                best[end] = min(best[end], (best[begin][0] + count, begin))
    stages, end = [], steps
    while end:
        begin = best[end][1]
        stages.append(tuple(order[begin:end]))
        end = begin
    return stages[::-1]


class _Made(NamedTuple):
    """A tensor that a growing stage makes: ticks from one row to the next, the tick of the first row, rows its ring keeps. How
    long a tick is differs between groups of tensors that nothing joins yet."""

    every: int
    first: int
    lead: bool
    kept: int = 1


def _growing(net: Rows, order: Sequence[int], begin: int) -> Iterator[tuple[int, dict[str, _Made]]]:
    """Stages that begin at a step and grow by one op: (end, what they make); those with several last ops are left out."""
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
        if not unread:
            yield end, made
        if net.sums[order[end - 1]]:
            return
        unread.add(out)


class Life(NamedTuple):
    """Bytes that are alive in the steps [begin, end), which inputs and state are from -1 on; kept: beyond the last."""

    bytes: int
    begin: int
    end: int
    kept: bool


def _need(
    net: Rows,
    order: Sequence[int],
    lives: Mapping[str, Life],
    owner: Mapping[str, str],
    *,
    stage: Mapping[str, _Made],
    span: tuple[int, int],
    most: int,
) -> int | None:
    """Bytes that the steps of a span need as one stage; None when that is more than `most`, or a streamed input has readers
    outside."""
    begin, end = span
    ops, total, dying = order[begin:end], 0, dict[str, int]()
    inner = {name for name in stage if net.users[name].issubset(ops)}
    rows = _rows_needed(net, ops, {name: net.graph.producer.get(name, name) for name in stage}, inner)
    for name, life in lives.items():
        if life.begin >= end or life.end <= begin:
            continue
        if name in net.streamed:
            if name not in stage:
                continue
            if not net.users[name] <= set(ops):
                return None
            total += min(stage[name].kept, rows[name]) * row_bytes(net.graph.tensors[name])
        elif life.begin >= begin and life.end <= end and not life.kept:
            total += min(stage[name].kept, rows[net.graph.producer[name]]) * row_bytes(net.graph.tensors[name])
        else:
            total += life.bytes
            if life.begin < begin and life.end <= end and not life.kept:
                dying[name] = life.bytes
    out, total = net.graph.output(net.graph.ops[order[end - 1]]).bytes, total + net.sums[order[end - 1]]
    if total - min(sum(dying.values()), out) > most:
        return None
    stream = streaming(net, ops) if dying else None
    distances = lags(net, stream, ops, owner) if stream is not None else {}
    return total - shared_bytes(out, [(lag, dying[name]) for name, lag in distances.items() if name in dying])


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
