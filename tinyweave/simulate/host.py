"""Emitted C on this machine: build a program from it and run it, optionally step by step.

In: the folder of an emitted model and its name. Out: a Program, and Inferences. The program is a child process that serves many
runs. Memories are mapped between inaccessible pages, so that a stray access raises a Fault that says where.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..ir import CompileError
from ..support import toolchain
from .run import (
    FOLDER,
    NO_FILE,
    WHOLE,
    Dump,
    Exchange,
    Inference,
    Round,
    WeightsFile,
    arena_part,
    check_end,
    filled,
    in_order,
    names_of,
)
from .worker import worker

# no leak check: emitted code has no heap
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0:allow_user_segv_handler=1:handle_segv=1", "UBSAN_OPTIONS": "print_stacktrace=0"}
LIMIT_S = 300.0


@dataclass(frozen=True)
class Program:
    """An executable that runs a model on this machine."""

    path: Path
    model: str  # prefix of the model's C functions
    compiler: str  # version and flags


def build(
    folder: Path, model: str, *, sanitize: bool = False, trace: bool = False, floats: bool = False, optimize: str = "-O2"
) -> Program:
    """Compile the model in `folder` to a cached program; if `sanitize`, undefined behaviour and stray accesses are Faults."""
    compiler = toolchain.host()
    ours = [FOLDER / name for name in ("host_model.c", "host_model.h", "host.c")]
    files = toolchain.sources(Path(folder), model)
    flags = ["-std=c99", optimize, "-DTW_PLAIN_C", *(_sanitizer(compiler) if sanitize else ("-fno-sanitize=all",))]
    flags += ["-DTW_TRACE=tw_trace_all"] if trace else []
    lines = ["-g"] if sanitize else []  # so that sanitizers report lines
    model_flags = [*flags, *lines, *names_of(model), *(["-DTW_FLOATS"] if floats else [])]
    objects = toolchain.objects(compiler, [*flags, *lines], [*files, *ours[1:]])
    words: list[str | Path] = [*model_flags, "-I", folder, ours[0], *objects, "-o"]
    path = toolchain.cached(
        model, compiler, model_flags, [*files, *ours], lambda path: toolchain.compile_c(compiler, [*words, path])
    )
    return Program(path, model, f"{compiler.version}: {' '.join(flags)}")


@lru_cache
def _sanitizer(compiler: toolchain.Toolchain) -> tuple[str, ...]:
    """Return the strictest sanitizer flags that this compiler can link, found by compiling an empty program."""
    undefined = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    if compiler.name == "zig":
        return ("-fsanitize=undefined", "-fsanitize-trap=undefined")
    for flags in (("-fsanitize=address", *undefined), undefined):

        def probe(path: Path, flags: Sequence[str] = flags) -> None:
            source = path.with_suffix(".c")
            source.write_text("int main(void) { return 0; }\n")
            toolchain.compile_c(compiler, [*flags, source, "-o", path])

        with contextlib.suppress(CompileError):
            toolchain.cached("probe", compiler, flags, (), probe)
            return flags
    return "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"


def invoke(
    program: Program,
    memories: Mapping[str, int],
    inputs: Sequence[bytes],
    output_bytes: Sequence[int],
    *,
    fill: int = 0,
    earlier: Sequence[Round] = (),
    dump: Sequence[Dump] = (),
    weights: WeightsFile = NO_FILE,
    exchange: Exchange = WHOLE,
    limit_s: float = LIMIT_S,
) -> Inference:
    """Run init, write the inputs, run invoke and read the outputs, as `emulated.invoke` does, for `limit_s` seconds."""
    regions, images = filled(memories, mmap.PAGESIZE, fill, weights.content)
    request = [_numbers(len(regions), weights.by_read)]
    for region, image in zip(regions, images, strict=True):
        request += [region.name.encode()[:63].ljust(64, b"\0"), _numbers(region.size, region.base, region.bytes), image]
    ends = (
        (list(map(len, inputs)), exchange.streamed_inputs, exchange.float_inputs),
        (list(output_bytes), exchange.streamed_outputs, exchange.float_outputs),
    )
    for sizes, rows, floats in ends:
        request += [_numbers(len(sizes), *sizes), _numbers(*(rows.get(index, 0) for index in range(len(sizes))))]
        request += [_numbers(*(index in floats for index in range(len(sizes))))]
    request.append(_numbers(len(rounds := [*earlier, inputs])))
    for arrays in rounds:
        if arrays is not None and (given := list(map(len, arrays))) != (last := list(map(len, inputs))):
            raise ValueError(f"an earlier run has inputs of {given} bytes, the last run of {last}")
        request += [_numbers(0)] if arrays is None else [_numbers(1), *arrays]
    request.append(_numbers(bool(dump)))
    dumps: dict[int, bytes] = {}
    with worker((str(program.path),), ENVIRONMENT).session(limit_s) as child:

        def read(memory: str, offset: int, count: int) -> bytes:
            child.send(b"R" + _numbers(*arena_part(regions, memory, offset, count)))
            return child.receive(count)

        child.send(b"".join(request))
        while child.receive(1) == b"S":
            (step,) = struct.unpack("=q", child.receive(8))
            dumps |= {index: read(*wanted[1:]) for index, wanted in enumerate(dump) if wanted[0] == step}
            child.send(b"C")
        (status,) = struct.unpack("=q", child.receive(8))
        done = [] if status else [arrays for arrays in rounds if arrays is not None]
        outputs = [[child.receive(count) for count in output_bytes] for _ in done]
        finals = [child.receive(region.size) for region in regions]
    check_end(program.model, status, regions, images, finals)
    return Inference(outputs[-1], fill, regions[: len(memories)], finals[: len(memories)], in_order(dump, dumps), outputs[:-1])


def _numbers(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}q", *numbers)
