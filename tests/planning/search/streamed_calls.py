"""The least arena of one call of a streamed network: the least of all orders of its ops, stages and shared memory.

It takes nothing from the planner but the kernels, their scratch, the row schedule of a fused stage and the bytes of one step.
A search over sets of ops that have run visits all orders. It knows which values are alive from the readers that have yet to
run. Values that share bytes, such as cached rows, are followed one by one: no op may overwrite a value that is still needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import product
from typing import NamedTuple

from tinyweave.ir import Graph, Op
from tinyweave.kernels.access import overlap_distances
from tinyweave.kernels.table import BY_NAME
from tinyweave.ops import SPECS
from tinyweave.planning.fuse.row_access import RowGraph, row_bytes, tile_offsets
from tinyweave.planning.fuse.row_schedule import distances, schedule_stage
from tinyweave.planning.kernel_choice import PORTABLE
from tinyweave.planning.place.place import place
from tinyweave.planning.plan import Buffer, RowSchedule, Tile

WORD = 4  # bytes
LONGEST_TILE = 6  # in ops
NEVER = 1 << 60  # bytes


class Home(NamedTuple):
    """Where a value lies: a buffer, named after one of its tensors, and the bytes before it in this buffer."""

    buffer: str
    offset: int


def least_arena(graph: Graph, *, fuses: bool, order: Sequence[int] = ()) -> int:
    """Return the least bytes of the largest step of a call: of all stages, and of all orders or one.

    Args:
        graph: the network of one call.
        fuses: whether ops may run in fused stages.
        order: the only order, as indices of the ops; empty for all orders.
    """
    least = NEVER
    for homes in all_homes(graph):
        least = min(least, Call(graph, homes, order).least_bytes(least, fuses=fuses))
    return least


def all_homes(graph: Graph) -> Iterator[dict[str, Home]]:
    """Yield all ways to share memory.

    A view has the bytes of its input. The output of a read_variable has the bytes of the state. Three things are chosen: the
    input of each assign_variable is computed in the state or copied there, the output of each slice is a part of its input or a
    copy, and the inputs of each concatenation are computed in its output or copied there.
    """
    kinds = ("assign_variable", "slice", "concatenation")
    chosen = [op for kind in kinds for op in (graph.ops if kind != "concatenation" else graph.ops[::-1]) if op.kind == kind]
    seen = list[dict[str, Home]]()
    for choice in product((True, False), repeat=len(chosen)):
        homes = {name: Home(name, 0) for name, tensor in graph.tensors.items() if tensor.data is None}
        for op in graph.ops:
            if SPECS[op.kind].view and op.kind != "assign_variable":
                homes[op.outputs[0]] = homes[op.inputs[0] or ""]
        shared = [op for op, is_shared in zip(chosen, choice, strict=True) if is_shared]
        if all(_share(graph, homes, op) for op in shared) and homes not in seen:
            seen.append(homes)
            yield homes


def _share(graph: Graph, homes: dict[str, Home], op: Op) -> bool:
    """Let inputs and output of an op share memory, so that it need not copy; return whether that is possible."""
    x, out = graph.input(op), graph.output(op)
    if op.kind == "assign_variable":
        return _move(graph, homes, x.name, Home(op.outputs[0], 0))
    if op.kind == "slice":
        begin = graph.input(op, 1).data
        assert begin is not None
        axis = next((axis for axis, (a, b) in enumerate(zip(x.shape, out.shape, strict=True)) if a != b), 0)
        if any(size > 1 for size in x.shape[:axis]) or graph.tensors[homes[x.name].buffer].role == "state":
            return False
        start = homes[x.name].offset + int(begin[axis]) * x.bytes // x.shape[axis]
        return start % WORD == 0 and _move(graph, homes, out.name, Home(homes[x.name].buffer, start))
    if any(size > 1 for size in out.shape[: op.attrs["axis"] % len(out.shape)]):
        return False
    start = homes[out.name].offset
    for part in graph.inputs_of(op):
        assert part is not None
        whole = (
            homes[part.name] == Home(homes[part.name].buffer, 0) and graph.tensors[homes[part.name].buffer].bytes == part.bytes
        )
        if start % WORD or not whole or not _move(graph, homes, part.name, Home(homes[out.name].buffer, start)):
            return False
        start += part.bytes
    return True


def _move(graph: Graph, homes: dict[str, Home], name: str, to: Home) -> bool:
    """Move the buffer of a tensor into another one; return whether it may move, as inputs and state may not."""
    buffer = homes[name].buffer
    if buffer == to.buffer or buffer in graph.inputs or graph.tensors[buffer].role == "state":
        return False
    inside = {each: Home(to.buffer, to.offset + home.offset) for each, home in homes.items() if home.buffer == buffer}
    homes.update(inside)
    return True


def bits(ops: Iterable[int]) -> int:
    """Return a set of ops as an int."""
    return sum(1 << index for index in ops)


@dataclass(frozen=True)
class Call:
    """A network of one call, where its values lie, and its order or (). A set of ops is an int with a bit for each op."""

    graph: Graph
    homes: Mapping[str, Home]
    order: Sequence[int] = ()

    def least_bytes(self, limit: int, *, fuses: bool) -> int:
        """Return the least bytes of the largest step, of all orders and stages; NEVER if it is not below `limit`."""
        goal, reached, heap = (1 << len(self.graph.ops)) - 1, set[int](), [(0, 0)]
        while heap:
            most, done = heappop(heap)
            if done == goal:
                return most
            if done in reached:
                continue
            reached.add(done)
            for ops in self._stages(done, fuses=fuses):
                if (needs := self._step_bytes(done, ops)) is not None and needs < limit:
                    heappush(heap, (max(most, needs), done | bits(ops)))
        return NEVER

    def _stages(self, done: int, *, fuses: bool) -> Iterator[tuple[int, ...]]:
        """Yield the ops that can run next, and the sets of ops that can run next as a fused stage."""
        ready = [(index,) for index in self._ready(done)]
        yield from ready
        stages = {ops for ops in ready if self.row_graph.accesses[ops[0]] is not None} if fuses else set()
        while stages:
            stages = {
                tuple(sorted((*ops, index), key=self.order.index if self.order else None))
                for ops in stages
                for index in self._ready(done | bits(ops))
                if self.row_graph.accesses[index] is not None
            }
            yield from sorted(stages)

    def _ready(self, done: int) -> list[int]:
        return [i for i, before in enumerate(self._before) if not done >> i & 1 and not before & ~done]

    @cached_property
    def _before(self) -> list[int]:
        """Return, for each op, the ops that must run before it."""
        if self.order:
            return [bits(self.order[: self.order.index(index)]) for index in range(len(self.order))]
        makers = {
            name: 1 << index for index, op in enumerate(self.graph.ops) for name in op.outputs if not self._is_state(name)
        }
        return [sum(makers.get(name or "", 0) for name in set(op.inputs)) for op in self.graph.ops]

    @cached_property
    def _needed_by(self) -> dict[str, int]:
        """Return the ops that read each value; outputs and state are also read by an op that never runs."""
        graph, end = self.graph, 1 << len(self.graph.ops)
        kept = {*graph.outputs, *(name for name in self.homes if self._is_state(name))}
        return {
            name: bits(i for i, op in enumerate(graph.ops) if name in op.inputs) + end * (name in kept) for name in self.homes
        }

    def _is_state(self, name: str) -> bool:
        return self.graph.tensors[name].role == "state"

    @cached_property
    def _is_free(self) -> list[bool]:
        """Return which ops need no code, because all their values are where they shall be."""
        return [op.kind == "read_variable" or self._is_in_place(op) for op in self.graph.ops]

    def _is_in_place(self, op: Op) -> bool:
        graph, out = self.graph, self.homes[op.outputs[0]]
        if SPECS[op.kind].view:
            return self.homes[op.inputs[0] or ""] == out
        if op.kind == "slice":
            return self.homes[op.inputs[0] or ""].buffer == out.buffer and not self._is_state(out.buffer)
        ends = [out.offset]
        for x in graph.inputs_of(op) if op.kind == "concatenation" else ():
            assert x is not None
            if self.homes[x.name] != Home(out.buffer, ends[-1]):
                return False
            ends.append(ends[-1] + x.bytes)
        return len(ends) > 1

    @cached_property
    def row_graph(self) -> RowGraph:
        names = [
            "" if is_free else PORTABLE.name(self.graph, op) for op, is_free in zip(self.graph.ops, self._is_free, strict=True)
        ]
        return RowGraph(self.graph, names)

    def _step_bytes(self, done: int, ops: Sequence[int]) -> int | None:
        """Return the least bytes of a step that runs `ops` after the ops `done`; None if it cannot run.

        The result is the least of all tilings.
        """
        if len(ops) == 1:
            return self._tiled_bytes(done, ops, ())
        found = [self._tiled_bytes(done, ops, tiles) for tiles in _tilings(ops)]
        return min((needs for needs in found if needs is not None), default=None)

    def _tiled_bytes(self, done: int, ops: Sequence[int], tiles: Sequence[Tile]) -> int | None:
        """Return the bytes of a step with some tiles; None if it cannot run, or if it overwrites a value that is needed."""
        graph, homes = self.graph, self.homes
        after, last = done | bits(ops), graph.ops[ops[-1]]
        row_graph = replace(self.row_graph, tiles=tiles)
        schedule = schedule_stage(row_graph, ops) if len(ops) > 1 else None
        if len(ops) > 1 and schedule is None:
            return None
        tiled = {graph.ops[index].outputs[0] for tile in tiles for index in tile.ops[:-1]}
        rings = {name for name in (schedule.line_buffers if schedule else ()) if name != last.outputs[0]} | tiled
        written = [name for index in ops for name in graph.ops[index].outputs]
        if any(homes[name] != Home(name, 0) or name not in self._lone for name in rings):
            return None  # a line buffer is no part of another buffer
        before = [name for name in homes if self._exists(name, done) and self._needed_by[name] & ~done]
        if not self._is_free[ops[0]] and any(self._overwrites(ops, name, other, after) for name in written for other in before):
            return None
        alive = {homes[name].buffer for name in (*before, *written)}
        sizes = {name: graph.tensors[name].bytes for name in alive}
        sizes |= {name: schedule.line_buffers[name] * row_bytes(graph.tensors[name]) for name in rings - tiled if schedule}
        sizes |= dict.fromkeys(tiled, 0) | {"tiles": max([0, *(tile_offsets(row_graph, tile)[1] for tile in tiles)])}
        names = [self.row_graph.variants[index] for index in ops]
        scratch = [BY_NAME[name].scratch(graph, graph.ops[i]) if name else 0 for i, name in zip(ops, names, strict=True)]
        sizes["scratch"] = max(scratch)
        sizes["sums"] = self.row_graph.accumulator_bytes[ops[-1]] if schedule else 0
        needed = {homes[name].buffer for name in (*before, *written) if self._needed_by[name] & ~after}
        born = homes[last.outputs[0]].buffer not in {homes[name].buffer for name in before}
        dying = alive - needed - rings - {homes[name].buffer for name in written}
        found = self._distances(ops, row_graph, schedule) if born else {}
        rules = {(homes[last.outputs[0]].buffer, name): distance for name, distance in found.items() if name in dying}
        buffers = [Buffer(name, size, 0, 1, WORD) for name, size in sizes.items() if size]
        return place(buffers, rules).bytes

    @cached_property
    def _lone(self) -> set[str]:
        """Return the tensors that share their buffer with no other."""
        buffers = [home.buffer for home in self.homes.values()]
        return {name for name in self.homes if buffers.count(name) == 1}

    def _exists(self, name: str, done: int) -> bool:
        """Return whether a tensor has a value after the ops `done`."""
        maker = self.graph.producer.get(name)
        return maker is None or self._is_state(name) or bool(done >> maker & 1)

    def _overwrites(self, ops: Sequence[int], name: str, other: str, after: int) -> bool:
        """Return whether writing the tensor `name` in a stage would overwrite bytes of `other` that are still needed.

        `other` has a value that an op of the stage or a later op reads. The state's old value is needed until it is read.
        """
        graph, (buffer, begin), (home, start) = self.graph, self.homes[name], self.homes[other]
        if home != buffer or begin >= start + graph.tensors[other].bytes or start >= begin + graph.tensors[name].bytes:
            return False
        needed = self._needed_by[other]
        if self._is_state(other):
            stored = [i for i, op in enumerate(graph.ops) if other in op.outputs and after >> i & 1]
            needed = needed if any(i not in ops for i in stored) else needed & ~(1 << len(graph.ops))
        if needed & ~after:
            return True
        readers = [index for index in ops if needed >> index & 1]
        if not readers:
            return False
        distance = self._distances(ops, self.row_graph, None).get(buffer) if len(ops) == 1 else None
        return distance is None or start - begin < distance

    def _distances(self, ops: Sequence[int], row_graph: RowGraph, schedule: RowSchedule | None) -> dict[str, int]:
        """Return how many bytes below each buffer that a stage reads its output's buffer must begin to overwrite it."""
        graph, homes = self.graph, self.homes
        if schedule is not None:
            owner = {name: home.buffer for name, home in homes.items()}
            return distances(row_graph, schedule.timings, ops, owner)
        op, found = graph.ops[ops[0]], dict[str, int | None]()
        by_input = overlap_distances(graph, op, self.row_graph.variants[ops[0]]) if not self._is_free[ops[0]] else {}
        for number, name in enumerate(op.inputs):
            if name in homes:
                moved = homes[op.outputs[0]].offset - homes[name].offset
                distance = by_input[number] + moved if number in by_input else None
                known = found.get(homes[name].buffer, 0)
                found[homes[name].buffer] = None if distance is None or known is None else max(known, distance)
        return {name: distance for name, distance in found.items() if distance is not None}


def _tilings(ops: Sequence[int]) -> Iterator[tuple[Tile, ...]]:
    """Yield all sets of disjoint tiles of a stage, each of one row and one column, as wide as all maps of attention are."""
    if len(ops) < 2:
        yield ()
        return
    yield from _tilings(ops[1:])
    for size in range(2, min(len(ops), LONGEST_TILE) + 1):
        yield from ((Tile(tuple(ops[:size]), 1), *others) for others in _tilings(ops[size:]))
