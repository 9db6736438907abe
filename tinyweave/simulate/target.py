"""A plan's C on one target, this machine or an emulated core: built once, run once, read by `compare` and by profiles.

In: a plan, its emitted folder, samples as bytes. Out: a Build, and a Run of it, which holds all that is known of what it did.
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
from ..planning.fuse.access import row_bytes
from . import emulated, host
from .run import Dump, Inference, Round, touched

HOST = "host"
Caches = Mapping[str, tuple[int, int, int]]
Progress = Callable[[int], None]  # the sample that is next


@dataclass(frozen=True, eq=False)
class Build:
    """The C of a plan, built for a target: HOST or the name of a core. traced: its steps can be watched."""

    plan: Plan
    folder: Path
    name: str
    target: str
    traced: bool
    program: host.Program | emulated.Firmware

    @property
    def compiler(self) -> str:
        return self.program.compiler

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return bytes of weights, tables, code and static data, see Firmware; only of a core."""
        assert isinstance(self.program, emulated.Firmware)
        return self.program.sizes


@dataclass(frozen=True, eq=False)
class Run:
    """What a build did with samples. outputs: per sample; with state: of all in sequence, then of all again after a reset.

    sample, first: the first sample, and the inference on it, on memory of its own. touched: memory -> highest arena byte
    written, plus one.
    """

    build: Build
    outputs: list[list[bytes]]
    sample: Sequence[bytes]
    first: Inference
    touched: Mapping[str, int]


def build(plan: Plan, folder: Path, name: str, target: str, *, traced: bool = False) -> Build:
    """Build the C in `folder`; for a core in plain C where its kernels are for another one."""
    if target == HOST:
        return Build(plan, folder, name, target, traced, host.build(folder, name, trace=traced))
    firmware = emulated.build(folder, name, target, trace=traced, plain=bool(foreign(plan.variants, target)))
    return Build(plan, folder, name, target, traced, firmware)


def with_trace(built: Build) -> Build:
    """Return the build with the trace hook of the same C; totals come from the one that ships, which has none."""
    return build(built.plan, built.folder, built.name, built.target, traced=True)


def run(built: Build, samples: Sequence[Sequence[bytes]], *, caches: Caches | None = None, tell: Progress | None = None) -> Run:
    """Run every sample once on noise: each on memory of its own, or with state in sequence, and again after a reset.

    The first sample, or the sequence, runs a second time over the complementary noise, since one run cannot show what was
    touched: only a byte that was written agrees afterwards, and an output that depends on one that nobody wrote differs.
    caches: of a core, those whose misses are counted in the first sample's run.
    """
    tell = tell or (lambda index: None)
    tell(0)
    first = invoke(built, samples[0], **({} if caches is None else {"caches": caches}))
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
    """Run one inference on a target after `earlier` ones; `measured` is for cores, see `emulated.invoke`."""
    plan, program = built.plan, built.program
    options: dict[str, Any] = {"fill": fill, "earlier": earlier, "dump": dump, **_by_rows(plan), **measured}
    one = host.invoke if isinstance(program, host.Program) else emulated.invoke
    return one(program, plan.arena, sample, output_bytes(plan.graph), **options)


def output_bytes(graph: Graph) -> list[int]:
    return [graph.tensors[name].bytes for name in graph.outputs]


def _by_rows(plan: Plan) -> dict[str, dict[int, int]]:
    """`invoke`'s arguments of these names: input that comes by rows, or output that is handed out so -> bytes of a row."""
    graph = plan.graph
    streams = {
        "streamed_inputs": (graph.inputs, plan.streamed_inputs),
        "streamed_outputs": (graph.outputs, plan.streamed_outputs),
    }
    return {
        key: {index: row_bytes(graph.tensors[name]) for index, name in enumerate(names) if name in chosen}
        for key, (names, chosen) in streams.items()
    }
