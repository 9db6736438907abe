"""Build and run the C of a plan on one target, this machine or an emulated core; `compare` and profiles share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..ir import Graph, Op
from ..kernels.table import foreign
from ..ops import SPECS
from ..ops.quantization import add_floats
from ..planning import Plan, copy_name, fetches
from ..planning.fuse.row_access import row_bytes
from . import emulated, host
from .run import Dump, Exchange, Inference, Part, Round, WeightsFile

HOST = "host"
Caches = Mapping[str, tuple[int, int, int]]  # `code`, `data` or `unified` -> (bytes, bytes of a line, ways)


@dataclass(frozen=True, eq=False)
class Build:
    """The C of a plan, built for one target."""

    plan: Plan
    outside: Graph  # the network with the conversions of float32 inputs and outputs that write_input and read_output compute
    folder: Path  # of the C files
    name: str  # prefix of the model's C functions
    target: str  # HOST, or the name of a core
    program: host.Program | emulated.Firmware
    weights: bytes = b""  # the file of weights beside the C; empty if there is none

    @property
    def compiler(self) -> str:
        """Return the compiler and its flags."""
        return self.program.compiler

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of `weights`, `tables`, `code` and `static` data of a build for a core (`Firmware.sizes`)."""
        assert isinstance(self.program, emulated.Firmware)
        in_flash = b"" if self.plan.fetches else self.weights
        return {**self.program.sizes, "weights": self.program.sizes["weights"] + len(in_flash)}


@dataclass(frozen=True, eq=False)
class Run:
    """The results of running a build on all samples, in sequence and, with state, again after a reset."""

    build: Build
    outputs: list[list[bytes]]  # [sample][network output]
    sample: Sequence[bytes]  # the first sample
    first: Inference  # inference on the first sample, on memory of its own
    touched: Mapping[str, int]  # memory -> highest arena byte written, plus one


def build(plan: Plan, folder: Path, name: str, target: str, *, outside: Graph | None = None, traced: bool = False) -> Build:
    """Compile the C of a plan for HOST or a core; kernels with instructions that it lacks are compiled as plain C.

    Inputs and outputs that are float32 in `outside` but not in the plan are exchanged by write_input and read_output.
    """
    outside = add_floats(plan.graph, outside or plan.graph)
    floats = any(_conversions(plan, outside))
    weights = (folder / f"{name}.weights").read_bytes() if plan.weights_file else b""
    if target == HOST:
        program = host.build(folder, name, trace=traced, floats=floats)
        return Build(plan, outside, folder, name, target, program, weights)
    plain = bool(foreign(plan.variants, target))
    firmware = emulated.build(folder, name, target, trace=traced, plain=plain, floats=floats)
    return Build(plan, outside, folder, name, target, firmware, weights)


def with_trace(built: Build) -> Build:
    """Return a build with a hook after each step; totals are measured without it, since users build without it."""
    return build(built.plan, built.folder, built.name, built.target, outside=built.outside, traced=True)


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
    plan, program, outside, graph = built.plan, built.program, built.outside, built.plan.graph
    inputs, outputs = _conversions(plan, outside)
    rows_in, rows_out = (
        {index: row_bytes(graph.tensors[name]) for index, name in enumerate(names) if name in streamed}
        for names, streamed in ((graph.inputs, plan.streamed_inputs), (graph.outputs, plan.streamed_outputs))
    )
    exchange = Exchange(rows_in, rows_out, list(inputs.keys() - rows_in), list(outputs.keys() - rows_out))
    # callbacks of streamed rows exchange integers
    inputs, outputs = ({i: ops[i] for i in rows if i in ops} for ops, rows in ((inputs, rows_in), (outputs, rows_out)))
    rounds = [None if arrays is None else _converted(outside, inputs, arrays) for arrays in earlier]
    weights = WeightsFile(built.weights, plan.fetches, spoiled(plan))
    options: dict[str, Any] = {"weights": weights, "fill": fill, "earlier": rounds, "dump": dump, "exchange": exchange}
    sizes = output_bytes(outside)
    for index, op in outputs.items():
        sizes[index] = outside.input(op).bytes
    given = _converted(outside, inputs, sample)
    if isinstance(program, host.Program):
        ran = host.invoke(program, plan.arena, given, sizes, **options, **measured)
    else:
        ran = emulated.invoke(program, plan.arena, given, sizes, copied=plan.copies, **options, **measured)
    last, *others = (_converted(outside, outputs, each) for each in (ran.outputs, *ran.earlier))
    return replace(ran, outputs=last, earlier=others)


def spoiled(plan: Plan) -> dict[int, list[Part]]:
    """Return the constants to overwrite before each read of a step's constants: those needed last, and not in use."""
    copies, found, before = set(map(copy_name, plan.copies)), dict[int, list[Part]](), 0
    for read in (reads[0] for step, reads in fetches(plan).items() if step >= 0):
        alive, parts = plan.alive(read.start), list[Part]()
        for buffer in plan.buffers:
            if buffer.name in copies and (not found or before < buffer.end <= read.start):
                at, end = plan.offsets[buffer.name], plan.offsets[buffer.name] + buffer.bytes
                for other in (other for other in alive if other.memory == buffer.memory):  # sorted by offset
                    begin = plan.offsets[other.name]
                    parts += [(buffer.memory, at, min(begin, end) - at)] if at < min(begin, end) else []
                    at = max(at, begin + other.bytes)
                parts += [(buffer.memory, at, end - at)] if at < end else []
        found[read.offset], before = parts, read.start
    return found


def output_bytes(graph: Graph) -> list[int]:
    """Return the number of bytes of each network output."""
    return [graph.tensors[name].bytes for name in graph.outputs]


def _conversions(plan: Plan, outside: Graph) -> tuple[dict[int, Op], dict[int, Op]]:
    """Return the ops of `outside` that convert network inputs, and those that convert outputs, by the index of the end."""
    inputs, outputs = (
        [(index, name) for index, (own, name) in enumerate(zip(*names, strict=True)) if own != name]
        for names in ((plan.graph.inputs, outside.inputs), (plan.graph.outputs, outside.outputs))
    )
    return (
        {index: outside.ops[outside.consumers[name][0]] for index, name in inputs},
        {index: outside.ops[outside.producer[name]] for index, name in outputs},
    )


def _converted(outside: Graph, conversions: Mapping[int, Op], arrays: Sequence[bytes]) -> list[bytes]:
    """Return the bytes of all inputs or outputs, after the ops `conversions` (index -> op)."""
    found = list(arrays)
    for index, op in conversions.items():
        x = outside.input(op)
        (array,) = SPECS[op.kind].reference(outside, op, [np.frombuffer(arrays[index], x.dtype).reshape(x.shape)])
        found[index] = array.tobytes()
    return found
