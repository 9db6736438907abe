"""The data of a plan: its stages in execution order, the kernel of each op, and the memory offset of every buffer.

A stage is one op, or several ops that are fused. Step i is the time in which stage i runs. Intervals are half-open: the steps
[start, end) do not include `end`. The planner returns a `Plan` as a frozen value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..ir import Graph
from ..support.notebook import table

ONE_MEMORY = "sram"  # the name of the memory, until the buffers are distributed over several


@dataclass(frozen=True)
class Tile:
    """Consecutive ops of a fused stage that compute a block of `rows` x `cols` pixels of the last op's output at a time.

    Of the tensors between these ops, only the pixels that the current block needs are in memory. Rows that the next block down
    needs too are recomputed. Columns that the next block to the right needs too are kept if `cached`; otherwise they are
    recomputed, and the tile is a patch as in MCUNetV2. `ops` are indices of the graph's ops.
    """

    ops: tuple[int, ...]
    cols: int
    rows: int = 1
    cached: bool = True


class RowTiming(NamedTuple):
    """When an op of a fused stage computes its output rows: iteration i runs at tick `first + i * every`.

    Ticks count the passes of the stage's loop. Each iteration computes `rows_per_iteration` rows of `rows` in total; the last
    one may compute fewer.
    """

    first: int  # tick
    every: int  # ticks
    rows: int  # that all iterations compute together
    rows_per_iteration: int = 1  # the last iteration may compute fewer

    @property
    def iterations(self) -> int:
        """Return the number of iterations in which the op computes all its rows."""
        return -(-self.rows // self.rows_per_iteration)

    @property
    def largest_iteration(self) -> int:
        """Return the most rows that one iteration computes."""
        return min(self.rows_per_iteration, self.rows)

    @property
    def ticks_per_row(self) -> int:
        """Return the ticks (passes of the stage's loop) between two rows, averaged over an iteration."""
        return self.every // self.rows_per_iteration


Node = int | str
"""A source of rows in a stage: an op or a tile, by the index of its (last) op, or a streamed network input, by name."""


@dataclass(frozen=True)
class RowSchedule:
    """When each op of a fused stage computes its rows, and how many rows of each tensor inside the stage are kept in memory."""

    timings: Mapping[Node, RowTiming]  # in the order in which nodes run that are due at the same tick
    line_buffers: Mapping[str, int]  # tensor that no other stage uses, or a streamed output -> rows kept
    tiles: Mapping[str, tuple[int, int]]  # tensor inside a tile -> (rows, columns) kept

    @property
    def ticks(self) -> int:
        """Return the number of ticks (passes of the stage's loop) in which the stage computes all its rows."""
        return max(timing.first + (timing.iterations - 1) * timing.every for timing in self.timings.values()) + 1


@dataclass(frozen=True)
class Stage:
    """One step of a plan: an op on whole tensors (no `tiles` and `schedule`), or fused ops that run row by row."""

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
    memory: str = ONE_MEMORY


@dataclass(frozen=True)
class Place:
    """Where a tensor is: `offset` bytes after the start of a buffer, which views share."""

    buffer: str
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Plan:
    """A complete plan: the stages in execution order, the kernel of each op, and the memory offset of every buffer.

    If the plan relocates tensors (copies them to another offset between two steps) or rematerialises them (computes them
    twice), `graph` contains the added ops. Streamed inputs arrive and streamed outputs leave row by row; they are never whole
    in RAM.
    """

    graph: Graph
    stages: tuple[Stage, ...]
    variants: tuple[str, ...]  # name of each op's kernel, "" if no code runs
    buffers: tuple[Buffer, ...]
    places: Mapping[str, Place]  # activation -> where it is in its buffer
    offsets: Mapping[str, int]  # buffer -> its offset in its memory
    arena: Mapping[str, int]  # memory -> bytes used
    scratch: int  # the most scratch bytes that one kernel call uses
    lower_bound: int  # bytes; on every placement of these buffers
    streamed_inputs: tuple[str, ...] = ()
    streamed_outputs: tuple[str, ...] = ()
    channels_once: Mapping[str, int] = field(default_factory=dict)  # tensor -> leading channels computed once, others twice
    pieces: Mapping[str, int] = field(default_factory=dict)  # tensor -> channels that an op computes, with constants of its own
    # array of constants with a copy in RAM -> names of the ops whose kernels read it; the others are read from Flash
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # whether all constants are in a file beside the C, whose address `init` takes; with copies, a callback reads it
    weights_file: bool = False
    objective: str = ""  # that the planner minimised; "" if unknown. Files of plans do not have it

    def __repr__(self) -> str:
        """Return one line with the bytes used of each memory and the number of steps."""
        arena = ", ".join(f"{size:,} B of {memory}" for memory, size in self.arena.items())
        return f"<Plan of '{self.graph.name}': {arena}, {len(self.stages)} steps>"

    def _repr_html_(self) -> str:
        """Return a table of the buffers by address, as HTML for notebooks."""
        at = self.offsets
        rows = [
            (b.memory, f"{at[b.name]:,}", f"{at[b.name] + b.bytes:,}", f"{b.bytes:,}", f"{b.start + 1} to {b.end}", b.name)
            for b in sorted(self.buffers, key=lambda b: (b.memory, at[b.name], b.start))
        ]
        return table(("memory", "from", "to", "bytes", "steps", "buffer"), rows)

    def kind(self, buffer: Buffer) -> str:
        """Return the kind of a buffer: state, ring (line buffer), output, input, scratch, tile or map.

        Copies of constants count as state, because they are kept between calls; those that a callback reads count as scratch.
        """
        graph, ops = self.graph, [op.name for op in self.graph.ops]
        tensors = [name for name, place in self.places.items() if place.buffer == buffer.name]
        if any(graph.tensors[name].role == "state" for name in tensors):
            return "state"
        if buffer.name in map(copy_name, self.copies):
            return "scratch" if self.fetches else "state"
        if buffer.name in graph.tensors and buffer.bytes < graph.tensors[buffer.name].bytes:
            return "ring"
        if set(tensors).intersection(graph.outputs):
            return "output"
        if set(tensors).intersection(graph.inputs):
            return "input"
        if buffer.name in map(scratch_name, ops):
            return "scratch"
        return "tile" if buffer.name in map(tiles_name, ops) else "map"

    @property
    def gap(self) -> int:
        """Return by how many bytes all arenas together exceed `lower_bound`; 0 means that the placement is optimal."""
        return sum(self.arena.values()) - self.lower_bound

    @property
    def optimal(self) -> bool | None:
        """Return True if `lower_bound` proves that no placement of these buffers is smaller, else None (unknown)."""
        return True if self.gap == 0 else None

    def buffer(self, name: str) -> Buffer:
        """Return the buffer with this name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    @property
    def fetches(self) -> bool:
        """Return whether a callback reads the constants from a file: those of a step before it, all others in `init`."""
        return self.weights_file and bool(self.copies)

    @property
    def keeps_state(self) -> bool:
        """Return whether the arena holds state or copies of constants between calls, so that models cannot share it."""
        return bool(self.copies) or any(tensor.role == "state" for tensor in self.graph.tensors.values())

    @property
    def copy_bytes(self) -> dict[str, int]:
        """Return array -> bytes of its copy in RAM."""
        return {name: self.buffer(copy_name(name)).bytes for name in self.copies}

    @cached_property
    def copied(self) -> dict[int, int]:
        """Return the bytes of constants that each op reads from RAM, by the op's index; ops that read none are left out."""
        bytes_of = {op: 0 for readers in self.copies.values() for op in readers}
        for name, count in self.copy_bytes.items():
            for op in self.copies[name]:
                bytes_of[op] += count
        return {index: bytes_of[op.name] for index, op in enumerate(self.graph.ops) if op.name in bytes_of}

    def alive(self, step: int) -> list[Buffer]:
        """Return the buffers that are alive in a step, sorted by memory, then by offset."""
        buffers = [buffer for buffer in self.buffers if buffer.start <= step < buffer.end]
        return sorted(buffers, key=lambda b: (b.memory, self.offsets[b.name], -b.bytes))

    def live(self, step: int) -> int:
        """Return the bytes of all memories that live buffers occupy in a step; bytes that several buffers share count once."""
        total, memory, top = 0, "", 0
        for buffer in self.alive(step):
            begin, end = self.offsets[buffer.name], self.offsets[buffer.name] + buffer.bytes
            top = begin if buffer.memory != memory else max(begin, top)
            total, memory, top = total + max(0, end - top), buffer.memory, max(end, top)
        return total

    def offset(self, tensor: str) -> int:
        """Return the offset of a tensor in its memory, in bytes."""
        place = self.places[tensor]
        return self.offsets[place.buffer] + place.offset

    def scratch_of(self, index: int) -> str:
        """Return the name of the scratch buffer of the stage that runs op `index`; all ops of a stage share one scratch buffer.

        The plan has no buffer of this name if no kernel of the stage needs scratch.
        """
        stage = next(stage for stage in self.stages if index in stage.ops)
        return scratch_name(self.graph.ops[stage.ops[0]].name)

    def memory(self, tensor: str) -> str:
        """Return the name of the memory that holds a tensor."""
        return self.buffer(self.places[tensor].buffer).memory


def scratch_name(op_name: str) -> str:
    """Return the name of the scratch buffer of the stage that begins with an op, or of an op's row accumulators."""
    return f"{op_name}.scratch"


def copy_name(array: str) -> str:
    """Return the name of the buffer that holds a copy of an array of constants."""
    return f"{array}.copy"


def tiles_name(op_name: str) -> str:
    """Return the name of the buffer for the tensors inside the tiles of a fused stage. `op_name`: the stage's last op."""
    return f"{op_name}.tiles"
