"""What a run on the host and on the emulator have in common: the memory around an arena, its noise, and the result.

In: bytes per memory. Out: mapped regions whose last bytes are the arena's, filled with noise that depends on `fill`; `fill`
2n + 1 is the complement of `fill` 2n. A byte that nobody wrote then differs between the two runs, and one that was written
agrees as long as the program depends on nothing else: what was touched is found exactly and at no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError

FOLDER = Path(__file__).parent
ALIGN = 16  # of an arena's first byte, as malloc gives


# (step, memory, offset, bytes): arena bytes wanted as they are after a step
Dump = tuple[int, str, int, int]

# what happens to the memory: an inference on these inputs, or with None a reset
Round = Sequence[bytes] | None

# of invoke: a traced step, -1 if not traced, and a layer in it that is counted by itself, or "" for the rest of the step
StepPart = tuple[int, str]


class Fault(CompileError):  # noqa: N818 - the processor's word for it
    """The generated code did what it must not do: an access outside its memory, undefined behaviour, an endless loop."""


@dataclass(frozen=True)
class Region:
    """Mapped bytes of a memory: guards [0, base), the arena, and guards up to `size` where it is no multiple of ALIGN."""

    name: str
    bytes: int
    size: int
    base: int

    @property
    def end(self) -> int:
        return self.base + self.bytes


class BasicBlock(NamedTuple):
    """Instructions that run one after the other: their code, how many they are, how often they ran, and after how many of
    these runs something else followed than what lies behind them."""

    code: bytes
    instructions: int
    executions: int
    taken: int


@dataclass(frozen=True, eq=False)
class Inference:
    """One inference. earlier: the outputs of those before it on the same memory. regions, images: every memory with its guards,
    as the run left it. dumps: as asked for, in order.

    The rest is measured on the emulator only. instructions: of invoke alone. init_instructions: of init. per_step: of invoke,
    per traced step; what comes before the first step belongs to it, what follows the last one to the last. functions: of
    invoke, per C function. blocks: per part of invoke what of the code ran; misses: likewise, per cache how many of its lines
    were read from Flash; both are empty on QEMU. stack: the most bytes of it that any of the
    model's functions used. seconds: of processor time that emulating invoke took.
    """

    outputs: list[bytes]
    fill: int
    regions: list[Region]
    images: list[bytes]
    dumps: list[bytes] = field(default_factory=list)
    earlier: list[list[bytes]] = field(default_factory=list)
    instructions: int | None = None
    init_instructions: int | None = None
    per_step: list[int] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)
    blocks: dict[StepPart, list[BasicBlock]] = field(default_factory=dict)
    misses: dict[StepPart, dict[str, int]] = field(default_factory=dict)
    stack: int | None = None
    seconds: float | None = None

    @property
    def per_part(self) -> dict[StepPart, int]:
        """Return instructions of each part of invoke."""
        return {part: sum(block.instructions * block.executions for block in ran) for part, ran in self.blocks.items()}

    def memory(self, name: str) -> bytes:
        """Return the final bytes of an arena."""
        index = [region.name for region in self.regions].index(name)
        return self.images[index][self.regions[index].base : self.regions[index].end]


def layout(memories: Mapping[str, int], page: int) -> list[Region]:
    """Return a region per memory whose arena ends where the mapped pages end, up to alignment."""
    regions = []
    for name, count in memories.items():
        aligned = -(-count // ALIGN) * ALIGN
        size = max(-(-aligned // page), 1) * page
        regions.append(Region(name, count, size, size - aligned))
    return regions


def noise(count: int, fill: int, stream: int) -> bytes:
    """Return bytes that depend on the number of the run and of the memory; an odd `fill` complements the even one before it."""
    pattern = np.frombuffer(np.random.default_rng((fill >> 1, stream)).bytes(count), np.uint8)
    return (~pattern if fill & 1 else pattern).tobytes()


def arena_part(regions: Sequence[Region], memory: str, offset: int, count: int) -> tuple[int, int, int]:
    """(index of the memory, offset, count) of arena bytes that exist."""
    for index, region in enumerate(regions):
        if region.name == memory and 0 <= offset <= offset + count <= region.bytes:
            return index, offset, count
    raise ValueError(f"{memory} + {offset} .. {offset + count} is no part of {[(r.name, r.bytes) for r in regions]}")


def in_order(dump: Sequence[Dump], taken: Mapping[int, bytes]) -> list[bytes]:
    """Return the dumps taken, by index, as a list; a step that never ran is the caller's mistake."""
    missing = [wanted[0] for index, wanted in enumerate(dump) if index not in taken]
    if missing:
        raise ValueError(f"step {missing[0]} did not run: the model has no such step, or was built without trace=True")
    return [taken[index] for index in range(len(dump))]


def check_end(model: str, status: int, regions: Sequence[Region], before: Sequence[bytes], after: Sequence[bytes]) -> None:
    """Raise Fault when a run of a model returned an error or changed a guard byte."""
    if status:
        raise Fault(f"{model} returned the error {status}")
    for region, old, new in zip(regions, before, after, strict=True):
        _check_guards(region, np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8), f"{model} ")


def _check_guards(region: Region, written: NDArray[np.bool_], who: str = "") -> None:
    at = np.flatnonzero(written)
    outside = at[(at < region.base) | (at >= region.end)]
    if outside.size:
        raise Fault(f"{who}wrote outside of its memory: {outside.size} bytes, the first at {place(region, int(outside[0]))}")


def place(region: Region, offset: int) -> str:
    """In words, where a byte of a region (or beside it) lies, seen from the arena."""
    if offset < region.base:
        return f"{region.base - offset} bytes before {region.name}"
    if offset >= region.end:
        return f"{offset - region.end} bytes past the end of {region.name} ({region.bytes} bytes)"
    return f"{region.name} + {offset - region.base}"


def touched(a: Inference, b: Inference) -> dict[str, int]:
    """Return per memory the highest arena byte written (inputs too), plus one, from two runs on complementary fills.

    Raises Fault when the outputs differ, since they then depend on bytes that nobody wrote, and when a guard byte was written.
    """
    if a.fill ^ b.fill != 1:
        raise ValueError(f"fills {a.fill} and {b.fill} are not complementary (2n and 2n + 1)")
    for index, (left, right) in enumerate(zip(a.outputs, b.outputs, strict=True)):
        if left != right:
            first = next(i for i, (x, y) in enumerate(zip(left, right, strict=True)) if x != y)
            raise Fault(f"output {index} depends on memory that nobody wrote: its byte {first} changes with the arena's fill")
    highest = {}
    for region, left, right in zip(a.regions, a.images, b.images, strict=True):
        written = np.frombuffer(left, np.uint8) == np.frombuffer(right, np.uint8)
        _check_guards(region, written)
        highest[region.name] = int(np.flatnonzero(written)[-1]) + 1 - region.base if written.any() else 0
    return highest
