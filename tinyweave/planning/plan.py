"""The plan: the stages in the order in which they run, their kernels, and the place of every byte.

In: a Graph and the planner's decisions. Out: a frozen value. Step i runs stage i; intervals are half-open.
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
    """Ops of a fused stage that run together on a tile of `rows` rows and `cols` columns of the last op's output.

    The tensors between these ops exist only as tiles. Overlapping rows of the next tile are recomputed. Overlapping columns
    are kept if `cached`; otherwise they are recomputed too, and the tile is a patch.
    """

    ops: tuple[int, ...]
    cols: int
    rows: int = 1
    cached: bool = True


class RowTiming(NamedTuple):
    """When an op of a fused stage computes its rows: iteration i runs at tick first + i * every."""

    first: int  # tick
    every: int  # ticks
    rows: int  # in all iterations
    rows_per_iteration: int = 1  # the last iteration may compute fewer

    @property
    def iterations(self) -> int:
        """Return the number of iterations that compute all rows."""
        return -(-self.rows // self.rows_per_iteration)

    @property
    def largest_iteration(self) -> int:
        """Return the most rows that one iteration computes."""
        return min(self.rows_per_iteration, self.rows)

    @property
    def ticks_per_row(self) -> int:
        """Return the number of ticks per row."""
        return self.every // self.rows_per_iteration


Node = int | str
"""A source of rows in a stage: an op or a tile, by the index of its (last) op, or a streamed network input, by name."""


@dataclass(frozen=True)
class RowSchedule:
    """When each op of a fused stage computes its rows, and how many rows of each tensor are kept."""

    timings: Mapping[Node, RowTiming]  # nodes that are due at the same tick run in this order
    line_buffers: Mapping[str, int]  # tensor that no other stage uses, or a streamed output -> rows kept
    tiles: Mapping[str, tuple[int, int]]  # tensor inside a tile -> (rows, columns) kept

    @property
    def ticks(self) -> int:
        """Return the number of ticks that the stage takes."""
        return max(timing.first + (timing.iterations - 1) * timing.every for timing in self.timings.values()) + 1


@dataclass(frozen=True)
class Stage:
    """Ops that run together, by index: one op on whole tensors, or a fused stage that runs row by row as its schedule says.

    `tiles` and `schedule` are None if the stage is not fused.
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
    """Where a tensor is: `offset` bytes into a buffer. A view has the buffer of its source."""

    buffer: str
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Plan:
    """Which stages run in which order with which kernels, and the place of every byte.

    If tensors are relocated or rematerialised, `graph` holds these ops too, in the order in which they run. Streamed inputs
    arrive, and streamed outputs leave, row by row; they are never whole in RAM.
    """

    graph: Graph
    stages: tuple[Stage, ...]
    variants: tuple[str, ...]  # name of each op's kernel, "" if no code runs
    buffers: tuple[Buffer, ...]
    places: Mapping[str, Place]  # by activation
    offsets: Mapping[str, int]  # buffer -> its offset in its memory
    arena: Mapping[str, int]  # memory -> bytes used
    scratch: int  # the most scratch bytes that one kernel call uses
    lower_bound: int  # bytes; of any placement of these buffers, or if outputs overlap operands of the largest step
    streamed_inputs: tuple[str, ...] = ()
    streamed_outputs: tuple[str, ...] = ()
    channels_once: Mapping[str, int] = field(default_factory=dict)  # tensor -> leading channels computed once, others twice

    def __repr__(self) -> str:
        """Return one line with the arena's bytes and the number of steps."""
        arena = ", ".join(f"{size:,} B of {memory}" for memory, size in self.arena.items())
        return f"<Plan of '{self.graph.name}': {arena}, {len(self.stages)} steps>"

    def _repr_html_(self) -> str:
        """Return the table of buffers that a notebook shows."""
        rows = []
        for buffer in sorted(self.buffers, key=lambda buffer: (buffer.memory, self.offsets[buffer.name], buffer.start)):
            begin, steps = self.offsets[buffer.name], f"{buffer.start + 1} to {buffer.end}"
            rows.append((buffer.memory, f"{begin:,}", f"{begin + buffer.bytes:,}", f"{buffer.bytes:,}", steps, buffer.name))
        return f"<p>{escape(repr(self)[1:-1])}</p>{table(('memory', 'from', 'to', 'bytes', 'steps', 'buffer'), rows)}"

    @property
    def gap(self) -> int:
        """Return the bytes between the arenas and their lower bound; 0 means that the placement is optimal."""
        return sum(self.arena.values()) - self.lower_bound

    @property
    def optimal(self) -> bool | None:
        """Return True if no placement of these buffers is smaller, None if that is not known."""
        return True if self.gap == 0 else None

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    def alive(self, step: int) -> list[Buffer]:
        """Return the buffers that are alive in a step, by memory and offset."""
        buffers = [buffer for buffer in self.buffers if buffer.start <= step < buffer.end]
        return sorted(buffers, key=lambda b: (b.memory, self.offsets[b.name], -b.bytes))

    def live(self, step: int) -> int:
        """Return the bytes in use in a step; bytes where buffers overlap count once."""
        total, memory, top = 0, "", 0
        for buffer in self.alive(step):
            begin, end = self.offsets[buffer.name], self.offsets[buffer.name] + buffer.bytes
            top = begin if buffer.memory != memory else max(begin, top)
            total, memory, top = total + max(0, end - top), buffer.memory, max(end, top)
        return total

    def offset(self, tensor: str) -> int:
        """Return the offset of a tensor in its memory."""
        place = self.places[tensor]
        return self.offsets[place.buffer] + place.offset

    def scratch_of(self, index: int) -> str:
        """Return the name of the scratch buffer of an op, which all ops of its stage share."""
        stage = next(stage for stage in self.stages if index in stage.ops)
        return scratch_name(self.graph.ops[stage.ops[0]].name)

    def memory(self, tensor: str) -> str:
        """Return the name of the memory that holds a tensor."""
        return self.buffer(self.places[tensor].buffer).memory


def scratch_name(op_name: str) -> str:
    """Return the name of the scratch buffer of the stage that starts with an op."""
    return f"{op_name}.scratch"


def tiles_name(op_name: str) -> str:
    """Return the name of the tile buffer of the fused stage that ends with an op."""
    return f"{op_name}.tiles"
