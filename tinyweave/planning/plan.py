"""What a plan is: which stages run in which order with which kernels, and where every byte lies.

In: a Graph and the planner's decisions. Out: a frozen value. Step i is stage i; intervals are half-open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import NamedTuple

from ..ir import Graph
from ..notebook import table


@dataclass(frozen=True)
class Tile:
    """Ops of a fused stage that run one after the other for `cols` columns of `rows` rows of the last one's output at a time.

    What one passes on to others of them is kept no longer than these rows: rows that the next ones need too are computed again,
    columns that the next columns need are not if `cached`, else it is a patch.
    """

    ops: tuple[int, ...]
    cols: int
    rows: int = 1
    cached: bool = True


class RowTiming(NamedTuple):
    """When an op of a stage computes its rows, some in an iteration: iteration i at tick first + i * every."""

    first: int
    every: int
    rows: int
    rows_per_iteration: int = 1

    @property
    def iterations(self) -> int:
        """Return how many iterations all rows take."""
        return -(-self.rows // self.rows_per_iteration)

    @property
    def largest_iteration(self) -> int:
        """Return the rows that the largest iteration computes."""
        return min(self.rows_per_iteration, self.rows)

    @property
    def ticks_per_row(self) -> int:
        """Return the ticks for a row."""
        return self.every // self.rows_per_iteration


Node = int | str
"""What computes rows in a stage: an op or a tile, by the number of its (last) op, or the caller who brings those of a streamed
network input."""


@dataclass(frozen=True)
class RowSchedule:
    """When each op of a fused stage computes its rows, and how many rows of each map are kept.

    timings: by node, in the order in which they run at a tick. rings: tensor that only this stage sees, or hands out by rows ->
    rows of its ring. tiles: tensor inside a tile -> (rows, columns) kept.
    """

    timings: Mapping[Node, RowTiming]
    rings: Mapping[str, int]
    tiles: Mapping[str, tuple[int, int]]

    @property
    def ticks(self) -> int:
        """Return how many ticks the stage takes."""
        return max(timing.first + (timing.iterations - 1) * timing.every for timing in self.timings.values()) + 1


@dataclass(frozen=True)
class Stage:
    """Indices of the graph's ops that run together: one layer on whole tensors (tiles and schedule None), or a fused block.

    A fused block runs row by row as its schedule says, each op by itself, but for those in `tiles`.
    """

    ops: tuple[int, ...]
    tiles: tuple[Tile, ...] | None = None
    schedule: RowSchedule | None = None


@dataclass(frozen=True)
class Buffer:
    """Bytes that must lie somewhere in `memory` during steps [start, end), at a multiple of `align`."""

    name: str
    bytes: int
    start: int
    end: int
    align: int = 4
    memory: str = "sram"


@dataclass(frozen=True)
class Place:
    """Where a tensor lies: `offset` bytes into a buffer (views share their source's buffer)."""

    buffer: str
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Plan:
    """Which stages run in which order with which kernels, and where every byte lies.

    variants: kernel name per op, "" where no code runs. places: per activation. offsets: per buffer, in its memory. arena:
    bytes per memory. scratch: the largest working memory of one call. lower_bound: no arena of any placement of these buffers
    is smaller; where outputs overlap operands it is the busiest step's own need, which no moves lower. Where tensors move,
    graph is the one with the moves, its ops in the order in which they run. streamed_inputs, streamed_outputs: network inputs
    and outputs that come and go by rows and are never whole. channels_once: map -> how many of its channels, the first ones,
    are computed once; the others are computed twice, and graph is the one that says so.
    """

    graph: Graph
    stages: tuple[Stage, ...]
    variants: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    places: Mapping[str, Place]
    offsets: Mapping[str, int]
    arena: Mapping[str, int]
    scratch: int
    lower_bound: int
    streamed_inputs: tuple[str, ...] = ()
    streamed_outputs: tuple[str, ...] = ()
    channels_once: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        arena = ", ".join(f"{size:,} B of {memory}" for memory, size in self.arena.items())
        return f"<Plan of '{self.graph.name}': {arena}, {len(self.stages)} steps>"

    def _repr_html_(self) -> str:
        rows = []
        for buffer in sorted(self.buffers, key=lambda buffer: (buffer.memory, self.offsets[buffer.name], buffer.start)):
            begin, steps = self.offsets[buffer.name], f"{buffer.start + 1} to {buffer.end}"
            rows.append((buffer.memory, f"{begin:,}", f"{begin + buffer.bytes:,}", f"{buffer.bytes:,}", steps, buffer.name))
        return f"<p>{escape(repr(self)[1:-1])}</p>{table(('memory', 'from', 'to', 'bytes', 'steps', 'buffer'), rows)}"

    @property
    def gap(self) -> int:
        """Return the bytes between the arenas and what is proved of them; 0: no placement of these buffers is smaller."""
        return sum(self.arena.values()) - self.lower_bound

    @property
    def optimal(self) -> bool | None:
        """Return True where no placement of these buffers is smaller, None where that is not known."""
        return True if self.gap == 0 else None

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    def alive(self, step: int) -> list[Buffer]:
        """Return the buffers that hold something in a step, by offset."""
        buffers = [buffer for buffer in self.buffers if buffer.start <= step < buffer.end]
        return sorted(buffers, key=lambda b: (b.memory, self.offsets[b.name], -b.bytes))

    def live(self, step: int) -> int:
        """Return the bytes that a step needs: those of all buffers alive in it, once where they overlap."""
        total, memory, top = 0, "", 0
        for buffer in self.alive(step):
            begin, end = self.offsets[buffer.name], self.offsets[buffer.name] + buffer.bytes
            top = begin if buffer.memory != memory else max(begin, top)
            total, memory, top = total + max(0, end - top), buffer.memory, max(end, top)
        return total

    def offset(self, tensor: str) -> int:
        """Return the tensor's first byte in its memory."""
        place = self.places[tensor]
        return self.offsets[place.buffer] + place.offset

    def scratch_of(self, index: int) -> str:
        """Return the buffer that holds the scratch of an op: one for all ops of a stage, named after the first."""
        stage = next(stage for stage in self.stages if index in stage.ops)
        return scratch_name(self.graph.ops[stage.ops[0]].name)

    def memory(self, tensor: str) -> str:
        """Return the memory in which a tensor lies."""
        return self.buffer(self.places[tensor].buffer).memory


def scratch_name(op_name: str) -> str:
    """Return the name of the buffer that holds an op's scratch."""
    return f"{op_name}.scratch"


def tiles_name(op_name: str) -> str:
    """Return the name of the buffer that holds what the tiles of the fused stage pass on that ends with an op."""
    return f"{op_name}.tiles"
