"""Fused stages: ops that run together, row by row, so that what one passes on to another lies in a ring of a few rows.

In: a Graph and which of its ops. Out: at which tick each of them computes a row, and how many rows each ring needs.

One tick is the time of the most frequent row. Row r of an op falls due at tick first + r * every, as late as all rows of its
window need: with a stride s a row of the output takes s times as long as one of the input, and it waits for k - 1 - p more rows
of the input, for a window of k rows of which p lie above the map. An operand that comes earlier than the others, a skip, waits
in its ring. Nothing is computed twice. Generalises the line buffers of MCUNetV2 (arXiv 2110.15352) and of multi-stage fusion
(msf-CNN, arXiv 2505.11483: H-cache with one output element) to any convex part of the graph with one last op.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from ..ir import CompileError, Graph, Op, Tensor, itemsize
from ..kernels.table import BY_NAME
from ..ops import SPECS
from .plan import Plan, Stage

NEVER = 1 << 60


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
    if not variant or not BY_NAME[variant].ranged or window is None or len(op.outputs) != 1:
        return None
    if BY_NAME[variant].scratch(graph, op):
        return None
    maps = [graph.output(op), *(t for t in graph.inputs_of(op) if t is not None and t.data is None)]
    if len(maps) < 2 or any(len(t.shape) != 4 or t.shape[0] != 1 or t.role == "state" for t in maps):
        return None
    names = dict.fromkeys(tensor.name for tensor in maps[1:])
    return tuple(Read(name, window.stride[0], window.extent[0], window.pad[0]) for name in names)


@dataclass(frozen=True)
class Rows:
    """A graph as rows. reads: per op, None where it cannot be fused. users: per tensor the ops that read it; a network output
    has one more that is no op. streamed: network inputs that come by rows."""

    graph: Graph
    reads: Sequence[tuple[Read, ...] | None]
    users: Mapping[str, set[int]]
    height: Mapping[str, int]
    streamed: Collection[str] = ()

    @classmethod
    def of(cls, graph: Graph, variants: Sequence[str], streamed: Collection[str] = ()) -> Rows:
        users: dict[str, set[int]] = {name: set() for name in graph.tensors}
        for index, op in enumerate(graph.ops):
            for name in filter(None, op.inputs):
                users[name].add(index)
        for name in graph.outputs:
            users[name].add(-1)
        each = [reads(graph, op, variant) for op, variant in zip(graph.ops, variants, strict=True)]
        height = {name: tensor.shape[1] for name, tensor in graph.tensors.items() if len(tensor.shape) == 4}
        return cls(graph, each, users, height, streamed)


def streaming(net: Rows, ops: Sequence[int]) -> Streaming | None:
    """How `ops`, in the order in which they run, do so row by row; None when they cannot."""
    reads = {index: found for index in ops if (found := net.reads[index]) is not None}
    if len(reads) < len(ops):
        return None
    users, last = set(ops), ops[-1]
    brought = dict.fromkeys(read.tensor for found in reads.values() for read in found if read.tensor in net.streamed)
    if any(not net.users[name] <= users for name in brought):
        return None
    nodes: list[Node] = [*brought, *ops]
    made: dict[str, Node] = {name: name for name in brought} | {net.graph.ops[index].outputs[0]: index for index in ops}
    inner = {name for name, node in made.items() if net.users[name] <= users and node != last}
    every: dict[Node, Fraction] = {last: Fraction(1)}
    rows = {node: 0 if name in inner else net.height[name] for name, node in made.items()}
    for index in reversed(ops):
        if index not in every:
            return None  # nothing here reads what it makes
        for x, stride, extent, pad in reads[index]:
            if (source := made.get(x)) is not None:
                if every.setdefault(source, every[index] / stride) != every[index] / stride:
                    return None  # two ways of different strides lead to it
                rows[source] = max(rows[source], min(net.height[x], (rows[index] - 1) * stride - pad + extent))
    if min(rows.values()) < 1:
        return None
    paces = _paces(nodes, reads, made, every, rows)
    return Streaming(paces, {name: _ring(reads, paces, name, made[name]) for name in made if name in inner})


def _paces(
    nodes: Sequence[Node],
    reads: Mapping[int, Sequence[Read]],
    made: Mapping[str, Node],
    every: Mapping[Node, Fraction],
    rows: Mapping[Node, int],
) -> dict[Node, Pace]:
    unit = lcm(*(every[node].denominator for node in nodes))
    divisor = gcd(*(int(every[node] * unit) for node in nodes))
    step = {node: int(every[node] * unit) // divisor for node in nodes}
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


def lags(net: Rows, stream: Streaming, ops: Sequence[int], variant: str) -> dict[str, int]:
    """Operand that other ops made -> how many bytes below it the last op's output must begin to overlap it, if it dies here.

    variant: the last op's kernel.
    """
    made = {net.graph.ops[index].outputs[0] for index in ops}
    last = net.graph.ops[ops[-1]]
    in_place = {name for index, name in enumerate(last.inputs) if BY_NAME[variant].lag(net.graph, last).get(index) == 0}
    names = {read.tensor for index in ops for read in net.reads[index] or ()} - made - set(net.streamed)
    return {name: _lag(net, stream, ops, name, in_place=name in in_place) for name in sorted(names)}


def _lag(net: Rows, stream: Streaming, ops: Sequence[int], x: str, *, in_place: bool) -> int:
    """in_place: the last op reads each byte of an operand before it writes the same byte of its output."""
    out = net.graph.output(net.graph.ops[ops[-1]])
    written, read = row_bytes(out), row_bytes(net.graph.tensors[x])
    last = stream.paces[ops[-1]]
    distance = 0
    for row in range(last.rows):
        tick = last.first + row * last.every
        for index in ops:
            for name, stride, _, pad in net.reads[index] or ():
                if name != x:
                    continue
                pace = stream.paces[index]
                done = pace.done(tick) if index != ops[-1] or (in_place and read == written) else row
                if done < pace.rows:
                    oldest = min(max(done * stride - pad, 0), net.height[x])
                    distance = max(distance, (row + 1) * written - oldest * read)
    return distance


Need = Callable[[int, int], int]
"""(i, j) -> bytes that the steps i to j need when they are one stage; negative when they cannot be."""


def cheapest_cuts(steps: int, alone: Sequence[int], fused: Need) -> tuple[list[tuple[int, int]], int]:
    """Half-open intervals of steps, each a stage, with the least peak, and of those the fewest fused ops; and that peak.

    alone: per step what it needs by itself. Exact by dynamic programming over the cuts: memory is a maximum over stages.
    """
    edges: list[list[tuple[int, int, int]]] = [[] for _ in range(steps)]  # by begin: (end, need, ops fused)
    for begin in range(steps):
        edges[begin].append((begin + 1, alone[begin], 0))
        for end in range(begin + 2, steps + 1):
            need = fused(begin, end)
            if need == -1:
                break
            if need >= 0:
                edges[begin].append((end, need, end - begin))
    worst = [0] + [NEVER] * steps
    for begin in range(steps):
        for end, need, _ in edges[begin]:
            worst[end] = min(worst[end], max(worst[begin], need))
    best: list[tuple[int, int]] = [(0, 0)] + [(NEVER, 0)] * steps  # (ops fused, where the last stage begins)
    for begin in range(steps):
        for end, need, count in edges[begin]:
            if need <= worst[steps]:
                best[end] = min(best[end], (best[begin][0] + count, begin))
    cuts, end = [], steps
    while end:
        begin = best[end][1]
        cuts.append((begin, end))
        end = begin
    return cuts[::-1], worst[steps]


def streaming_of(plan: Plan, stage: Stage) -> Streaming:
    """How a fused stage of a plan runs."""
    found = streaming(Rows.of(plan.graph, plan.variants, plan.streamed), stage.ops)
    assert found is not None, f"stage {stage} cannot run row by row"
    return found


def best_stages(
    net: Rows, order: Sequence[int], owner: Mapping[str, str], variants: Sequence[str], alone: Sequence[int]
) -> list[tuple[int, ...]]:
    """The ops in `order`, cut into stages so that the busiest stage needs least; `alone`: what each step needs by itself.

    `owner`: activation -> the tensor that owns its bytes.
    """
    graph = net.graph
    begin, end = _lifetimes(graph, order, owner)
    kept = {owner[name] for name in graph.outputs if name in owner}
    kept |= {name for name, tensor in graph.tensors.items() if tensor.role == "state"}
    size = {name: graph.tensors[name].bytes for name in begin}
    brought = [name for name in begin if name in net.streamed]
    single = list(alone)
    for step in range(len(order)):
        single[step] -= sum(size[name] for name in brought if begin[name] <= step < end[name])
    most = max(alone)

    def fused(first: int, last: int) -> int:
        ops = order[first:last]
        if net.reads[ops[0]] is None or net.reads[ops[-1]] is None:
            return -1
        alive = [name for name in begin if begin[name] < last and end[name] > first and name not in net.streamed]
        whole = [name for name in alive if begin[name] < first or end[name] > last]
        total = sum(size[name] for name in whole)
        if total - max((size[name] for name in whole), default=0) >= most:
            return -2
        stream = streaming(net, ops)
        if stream is None:
            return -2
        total += sum(rows * row_bytes(graph.tensors[name]) for name, rows in stream.rings.items())
        dying = {name for name in whole if begin[name] < first and end[name] == last} - kept
        out = graph.output(graph.ops[ops[-1]]).bytes
        pairs = [(size[name], lag) for name, lag in lags(net, stream, ops, variants[ops[-1]]).items() if name in dying]
        return total - max((a + out - max(lag + a, out) for a, lag in pairs), default=0)

    for step, index in enumerate(order):
        if net.streamed and not set(net.streamed).isdisjoint(filter(None, graph.ops[index].inputs)):
            need = fused(step, step + 1)
            single[step] = need if need >= 0 else NEVER
    cuts, most = cheapest_cuts(len(order), single, fused)
    if most >= NEVER:
        op = next(graph.ops[index] for step, index in enumerate(order) if single[step] >= NEVER)
        raise CompileError("cannot take a network input row by row", "plan without streamed inputs", op=op)
    return [tuple(order[first:last]) for first, last in cuts]


def _lifetimes(graph: Graph, order: Sequence[int], owner: Mapping[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """Per owner of bytes the steps [begin, end) in which it is alive; inputs and state begin at -1."""
    begin = {owner[name]: -1 for name in graph.inputs}
    begin |= {name: -1 for name, tensor in graph.tensors.items() if tensor.role == "state"}
    end = dict.fromkeys(begin, 1)
    for step, index in enumerate(order):
        for name in (*graph.ops[index].inputs, *graph.ops[index].outputs):
            if name in owner:
                begin.setdefault(owner[name], step)
                end[owner[name]] = step + 1
    lasting = [owner[name] for name in graph.outputs if name in owner]
    lasting += [name for name, tensor in graph.tensors.items() if tensor.role == "state"]
    return begin, end | dict.fromkeys(lasting, len(order))
