"""Build and run the C of a plan on one target: this machine, or an emulated core.

In: a plan, the folder of its C, samples as bytes. Out: a Build, and a Run with all measurements. `compare` and profiles share
these two values, so that nothing is built or run twice.
"""

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
    """The results of running a build on all samples.

    If the network has state, `outputs` holds the outputs of all samples in sequence, then of all samples again after a reset.
    """

    build: Build
    outputs: list[list[bytes]]  # [sample][network output]
    sample: Sequence[bytes]  # the first sample
    first: Inference  # inference on the first sample, on memory of its own
    touched: Mapping[str, int]  # memory -> highest arena byte written, plus one


def build(plan: Plan, folder: Path, name: str, target: str, *, traced: bool = False) -> Build:
    """Compile the C of a plan for a target; kernels with instructions that the target lacks are compiled as plain C.

    Args:
        name: The model's name, the prefix of its C functions.
        target: HOST, or the name of a core.
        traced: Whether the C calls a hook after each step, so that memory can be read between steps.
    """
    if target == HOST:
        return Build(plan, folder, name, target, traced, host.build(folder, name, trace=traced))
    firmware = emulated.build(folder, name, target, trace=traced, plain=bool(foreign(plan.variants, target)))
    return Build(plan, folder, name, target, traced, firmware)


def with_trace(built: Build) -> Build:
    """Return a build of the same C that calls a hook after each step of the plan.

    Totals are measured without the hook, since users build the C without it.
    """
    return build(built.plan, built.folder, built.name, built.target, traced=True)


def run(built: Build, samples: Sequence[Sequence[bytes]], *, caches: Caches | None = None, tell: Progress | None = None) -> Run:
    """Run every sample on memories that are filled with noise before.

    Each sample runs on fresh memories. If the network has state, all samples run in sequence on the same memories instead, and
    again after a reset. The first sample, or the sequence, runs once more on complementary noise, to find the arena bytes that
    were written.

    Args:
        samples: The bytes of each network input, per sample.
        caches: Caches of the emulated core, whose misses are counted for the first sample; None simulates no caches.
        tell: Called with the index of the next sample.
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
    """Run one inference on the target of a build, after the inferences and resets in `earlier`.

    Args:
        sample: The bytes of each network input.
        fill: Number of the noise pattern in the memories before; 2n + 1 is the complement of 2n.
        earlier: Inferences (their inputs) and resets (None) to run first.
        dump: Arena bytes to read after a step of a traced build: (step, memory, offset, bytes).
        measured: More arguments of `emulated.invoke` or `host.invoke`, such as `caches`.
    """
    plan, program = built.plan, built.program
    options: dict[str, Any] = {"fill": fill, "earlier": earlier, "dump": dump, **_by_rows(plan), **measured}
    if isinstance(program, host.Program):
        return host.invoke(program, plan.arena, sample, output_bytes(plan.graph), **options)
    return emulated.invoke(program, plan.arena, sample, output_bytes(plan.graph), **options)


def output_bytes(graph: Graph) -> list[int]:
    """Return the number of bytes of each network output."""
    return [graph.tensors[name].bytes for name in graph.outputs]


def _by_rows(plan: Plan) -> dict[str, dict[int, int]]:
    """Return the arguments `streamed_inputs` and `streamed_outputs` of `emulated.invoke`, by name.

    Each maps the index of a streamed input or output to the bytes of a row.
    """
    graph = plan.graph
    streams = {
        "streamed_inputs": (graph.inputs, plan.streamed_inputs),
        "streamed_outputs": (graph.outputs, plan.streamed_outputs),
    }
    return {
        key: {index: row_bytes(graph.tensors[name]) for index, name in enumerate(names) if name in chosen}
        for key, (names, chosen) in streams.items()
    }
