"""Build and run the C of a plan on one target, this machine or an emulated core; `compare` and profiles share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..ir import Graph
from ..kernels.table import foreign
from ..ops import initial_state
from ..planning import Plan
from ..planning.fuse.row_access import row_bytes
from . import emulated, host
from .run import Dump, Inference, Round, touched

HOST = "host"
Caches = Mapping[str, tuple[int, int, int]]  # `code`, `data` or `unified` -> (bytes, bytes of a line, ways)
Progress = Callable[[int], None]  # called with the index of the next sample


@dataclass(frozen=True, eq=False)
class Build:
    """The C of a plan, built for one target."""

    plan: Plan
    folder: Path  # of the C files
    name: str  # prefix of the model's C functions
    target: str  # HOST, or the name of a core
    traced: bool  # whether the C calls a hook after each step, so that memory can be read between steps
    program: host.Program | emulated.Firmware

    @property
    def compiler(self) -> str:
        """Return the compiler and its flags."""
        return self.program.compiler

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of `weights`, `tables`, `code` and `static` data of a build for a core (`Firmware.sizes`)."""
        assert isinstance(self.program, emulated.Firmware)
        return self.program.sizes


@dataclass(frozen=True, eq=False)
class Run:
    """The results of running a build on all samples, in sequence and, with state, again after a reset."""

    build: Build
    outputs: list[list[bytes]]  # [sample][network output]
    sample: Sequence[bytes]  # the first sample
    first: Inference  # inference on the first sample, on memory of its own
    touched: Mapping[str, int]  # memory -> highest arena byte written, plus one


def build(plan: Plan, folder: Path, name: str, target: str, *, traced: bool = False) -> Build:
    """Compile the C of a plan for HOST or a core; kernels with instructions that it lacks are compiled as plain C."""
    if target == HOST:
        return Build(plan, folder, name, target, traced, host.build(folder, name, trace=traced))
    firmware = emulated.build(folder, name, target, trace=traced, plain=bool(foreign(plan.variants, target)))
    return Build(plan, folder, name, target, traced, firmware)


def with_trace(built: Build) -> Build:
    """Return a build with a hook after each step; totals are measured without it, since users build without it."""
    return build(built.plan, built.folder, built.name, built.target, traced=True)


def run(built: Build, samples: Sequence[Sequence[bytes]], *, caches: Caches | None = None, tell: Progress | None = None) -> Run:
    """Run every sample on memories that are filled with noise before.

    Each sample runs on fresh memories, or, with state, all in sequence and again after a reset. The first, or the sequence,
    runs once more on complementary noise, to find the arena bytes that were written. `caches` of the emulated core count their
    misses for the first sample; None simulates none.
    """
    tell = tell or (lambda index: None)
    tell(0)
    first = invoke(built, samples[0]) if caches is None else invoke(built, samples[0], caches=caches)
    if initial_state(built.plan.graph):
        whole, second = (invoke(built, samples[-1], fill=n, earlier=[*samples, None, *samples[:-1]]) for n in (0, 1))
        return Run(built, [*whole.earlier, whole.outputs], samples[0], first, touched(whole, second))
    used = touched(first, invoke(built, samples[0], fill=1))
    outputs = [first.outputs]
    for index, sample in enumerate(samples[1:], 1):
        tell(index)
        outputs.append(invoke(built, sample).outputs)
    return Run(built, outputs, samples[0], first, used)


def invoke(
    built: Build,
    sample: Sequence[bytes],
    *,
    fill: int = 0,
    earlier: Sequence[Round] = (),
    dump: Sequence[Dump] = (),
    **measured: Any,
) -> Inference:
    """Run one inference after those in `earlier`; the arguments are those of `emulated.invoke` or `host.invoke`."""
    plan, program = built.plan, built.program
    options: dict[str, Any] = {"fill": fill, "earlier": earlier, "dump": dump, **_by_rows(plan), **measured}
    if isinstance(program, host.Program):
        return host.invoke(program, plan.arena, sample, output_bytes(plan.graph), **options)
    return emulated.invoke(program, plan.arena, sample, output_bytes(plan.graph), **options)


def output_bytes(graph: Graph) -> list[int]:
    """Return the number of bytes of each network output."""
    return [graph.tensors[name].bytes for name in graph.outputs]


def _by_rows(plan: Plan) -> dict[str, dict[int, int]]:
    """Return `streamed_inputs` and `streamed_outputs` of `emulated.invoke`: index -> bytes of a row."""
    graph = plan.graph
    streams = {
        "streamed_inputs": (graph.inputs, plan.streamed_inputs),
        "streamed_outputs": (graph.outputs, plan.streamed_outputs),
    }
    return {
        key: {index: row_bytes(graph.tensors[name]) for index, name in enumerate(names) if name in chosen}
        for key, (names, chosen) in streams.items()
    }
