"""The common parts of runs on the host and on emulators: the memory around an arena, its noise, and the result.

Memory regions end with the arena and are filled with noise; pattern `fill` 2n + 1 is the bitwise complement of 2n. The same
inference runs on both. A byte that differs afterwards was never written; one that is equal was, provided that the program
depends on nothing else.
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
ALIGN = 16  # alignment of an arena, that of malloc, and of a file of weights
WEIGHTS = "weights"  # name of the region of a file of weights; no memory has it


# (step, memory, offset, bytes): a request to read `bytes` bytes of a memory's arena after a step of the plan
Dump = tuple[int, str, int, int]

Part = tuple[str, int, int]  # (memory, offset, bytes) of an arena

# the inputs of an inference, or None for a reset
Round = Sequence[bytes] | None

# a part of invoke that is counted separately: (step of the plan, -1 in a build without trace; layer, "" for the step without
# the layers that are counted separately)
StepPart = tuple[int, str]


class Fault(CompileError):  # noqa: N818 - processors call it a fault
    """Raised if generated code does something forbidden: an access outside its memory, undefined behaviour, an endless loop."""


@dataclass(frozen=True)
class Region:
    """A mapped memory: guard bytes [0, base), then the arena, then guard bytes if the arena's size is no multiple of ALIGN."""

    name: str
    bytes: int  # size of the arena
    size: int  # size of the region
    base: int  # offset of the arena in the region

    @property
    def end(self) -> int:
        """Return the offset, in the region, after the last byte of the arena."""
        return self.base + self.bytes


@dataclass(frozen=True, eq=False)
class Exchange:
    """Inputs and outputs, by index, that are not exchanged as whole arrays of their own type."""

    streamed_inputs: Mapping[int, int] = field(default_factory=dict)  # index -> bytes of a row
    streamed_outputs: Mapping[int, int] = field(default_factory=dict)
    float_inputs: Sequence[int] = ()  # written as floats by write_input, in a build with `floats`
    float_outputs: Sequence[int] = ()  # read as floats by read_output


WHOLE = Exchange()


@dataclass(frozen=True, eq=False)
class WeightsFile:
    """A model's file of weights: behind the program in Flash, or in no memory if the model reads it by a callback."""

    content: bytes = b""  # empty if the model has no file
    by_read: bool = False
    # offset in the file -> constants to overwrite before the callback reads there
    spoiled: Mapping[int, Sequence[Part]] = field(default_factory=dict)


NO_FILE = WeightsFile()


class BasicBlock(NamedTuple):
    """A basic block (machine code that runs from first to last instruction without a jump), and how often it ran."""

    code: bytes
    instructions: int  # in one execution
    executions: int  # how often it ran
    taken: int  # executions that ended with a taken branch


@dataclass(frozen=True, eq=False)
class Inference:
    """The result of one inference. The fields from `reads` on are measured on emulators only.

    A part of invoke is a step of the plan or a layer that is counted separately (StepPart). `per_step` has instructions before
    the first step in the first, those after the last in the last. QEMU counts no cache misses and no layers; without plugins
    `functions` and `blocks` are empty.
    """

    outputs: list[bytes]  # one per network output
    fill: int  # number of the noise pattern that filled the memories
    regions: list[Region]  # the mapped memories
    images: list[bytes]  # contents of each region after the run
    dumps: list[bytes] = field(default_factory=list)  # the bytes of each requested Dump
    earlier: list[list[bytes]] = field(default_factory=list)  # outputs of the inferences before this one on the same memory
    reads: list[tuple[int, int]] = field(default_factory=list)  # (offset, bytes) that invoke read of its file by the callback
    instructions: int | None = None  # executed by invoke
    init_instructions: int | None = None  # executed by init
    per_step: list[int] = field(default_factory=list)  # instructions of invoke per step of the plan, in a traced build
    functions: dict[str, int] = field(default_factory=dict)  # instructions of invoke per C function
    blocks: dict[StepPart, list[BasicBlock]] = field(default_factory=dict)  # executed by each part of invoke
    # part -> `code` or `data` -> lines fetched from Flash, and how many of them directly followed the line fetched before
    misses: dict[StepPart, dict[str, tuple[int, int]]] = field(default_factory=dict)
    stack: int | None = None  # most bytes of stack that any of the model's functions used
    seconds: float | None = None  # time to emulate invoke: CPU time of Unicorn, wall time of QEMU

    @property
    def per_part(self) -> dict[StepPart, int]:
        """Return (step, layer, "" outside counted layers) -> instructions; {} if no basic blocks were counted."""
        return {part: sum(block.instructions * block.executions for block in ran) for part, ran in self.blocks.items()}

    def memory(self, name: str) -> bytes:
        """Return the contents of a memory's arena after the run."""
        index = [region.name for region in self.regions].index(name)
        return self.images[index][self.regions[index].base : self.regions[index].end]


def names_of(model: str) -> list[str]:
    """Return the flags that name a model and its header, for C that calls the functions of any model."""
    return [f"-DTW_MODEL={model}", f'-DTW_MODEL_HEADER="{model}.h"']


def layout(memories: Mapping[str, int], page: int) -> list[Region]:
    """Return a region per memory: whole pages, with the arena, rounded up to ALIGN, at the end before an unmapped page."""
    regions = []
    for name, count in memories.items():
        aligned = -(-count // ALIGN) * ALIGN
        size = max(-(-aligned // page), 1) * page
        regions.append(Region(name, count, size, size - aligned))
    return regions


def filled(memories: Mapping[str, int], page: int, fill: int, weights: bytes = b"") -> tuple[list[Region], list[bytes]]:
    """Return a region per memory and its contents, noise; the last region holds the file of weights, if there is one."""
    regions = layout({**memories, WEIGHTS: len(weights)} if weights else memories, page)
    images = [noise(region.size, fill, index) for index, region in enumerate(regions)]
    if weights:
        images[-1] = images[-1][: regions[-1].base] + weights + images[-1][regions[-1].end :]
    return regions, images


def noise(count: int, fill: int, stream: int) -> bytes:
    """Return `count` bytes of reproducible noise for memory number `stream`; `fill` 2n + 1 is the complement of 2n."""
    pattern = np.frombuffer(np.random.default_rng((fill >> 1, stream)).bytes(count), np.uint8)
    return (~pattern if fill & 1 else pattern).tobytes()


def arena_part(regions: Sequence[Region], memory: str, offset: int, count: int) -> tuple[int, int, int]:
    """Return (index of the memory, offset, count); raise ValueError if these bytes are not in its arena."""
    for index, region in enumerate(regions):
        if region.name == memory and 0 <= offset <= offset + count <= region.bytes:
            return index, offset, count
    raise ValueError(f"{memory} + {offset} .. {offset + count} is not in {[(r.name, r.bytes) for r in regions]}")


def in_order(dump: Sequence[Dump], taken: Mapping[int, bytes]) -> list[bytes]:
    """Return the bytes of each dump by the index in `taken`; raise ValueError if one is missing, as its step never ran."""
    missing = [wanted[0] for index, wanted in enumerate(dump) if index not in taken]
    if missing:
        raise ValueError(f"step {missing[0]} did not run: the model has no such step, or was built without trace=True")
    return [taken[index] for index in range(len(dump))]


def check_end(model: str, status: int, regions: Sequence[Region], before: Sequence[bytes], after: Sequence[bytes]) -> None:
    """Raise Fault if a run returned an error code, or changed a guard byte of its regions or its file of weights."""
    if status:
        raise Fault(f"{model} returned the error {status}")
    for region, old, new in zip(regions, before, after, strict=True):
        if region.name == WEIGHTS and old != new:
            raise Fault(f"{model} wrote into its file of weights")
        _check_guards(region, np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8), f"{model} ")


def _check_guards(region: Region, written: NDArray[np.bool_], who: str = "") -> None:
    at = np.flatnonzero(written)
    outside = at[(at < region.base) | (at >= region.end)]
    if outside.size:
        raise Fault(f"{who}wrote outside of its memory: {outside.size} bytes, the first at {place(region, int(outside[0]))}")


def place(region: Region, offset: int) -> str:
    """Describe the position of the byte at `offset` in a region relative to the arena, such as "4 bytes before sram"."""
    if offset < region.base:
        return f"{region.base - offset} bytes before {region.name}"
    if offset >= region.end:
        return f"{offset - region.end} bytes past the end of {region.name} ({region.bytes} bytes)"
    return f"{region.name} + {offset - region.base}"


def touched(a: Inference, b: Inference) -> dict[str, int]:
    """Return memory -> highest arena byte written, plus one, from runs on complementary noise; raise Fault if these differ."""
    if a.fill ^ b.fill != 1:
        raise ValueError(f"fills {a.fill} and {b.fill} are not complementary (2n and 2n + 1)")
    for index, (left, right) in enumerate(zip(a.outputs, b.outputs, strict=True)):
        if left != right:
            first = next(i for i, (x, y) in enumerate(zip(left, right, strict=True)) if x != y)
            raise Fault(
                f"output {index} depends on memory that was never written: byte {first} changes with its initial contents"
            )
    highest = {}
    for region, left, right in zip(a.regions, a.images, b.images, strict=True):
        written = np.frombuffer(left, np.uint8) == np.frombuffer(right, np.uint8)
        _check_guards(region, written)
        highest[region.name] = int(np.flatnonzero(written)[-1]) + 1 - region.base if written.any() else 0
    return highest
