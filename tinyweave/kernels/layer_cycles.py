"""Cycles of a layer from its shape alone, for who has no time to build and run it: the planner, a search.

In: a graph, one of its ops, the kernel that runs it, a core, and which part of the output one call computes. Out: cycles,
estimated: the sum of what the kernel does, each so often as its loops say, times constants that bench/fit_cycles.py has fitted
to what emulated runs of real networks took (layer_cycles.json, by core and kernel), where Flash answers at once.
bench/fit_cycles.py also says how far off they are. FlashReads adds how long the Flash of a device waits. Nothing was fitted for
int4 values: their kernels count as those of int8 (`timed_as`), whose cycles are up to a third fewer, see bench/int4.py.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..ir import Graph, Op, Tensor
from ..ops import SPECS
from .table import BY_NAME, DSP, MVE, RV32M

CONSTANTS = Path(__file__).with_name("layer_cycles.json")
# of code, measured on emulated cores with the caches of real boards, see bench/flash_reads.py
LOOP_BYTES = 256  # a cache of fewer has no loop of a kernel whole, unless the kernel says how long its loop is
BYTES_PER_CYCLE = 2
SMALL_CACHE = 1024  # holds about one kernel
RUN_BYTES = 800  # that a call of a kernel has to fetch anew, and so does each pass of a fast one through its weights
COPIED_WORD = 4  # cycles to copy a word of a stream: measured on three networks, 4.0 to 4.3 where they are many
Extent = tuple[int, int] | None  # rows and columns of the output; None: all of it


class FlashReads(NamedTuple):
    """How a device reads its Flash: each line waits so many cycles unless its cache has it, of constants and of code apart."""

    waits: int
    line: int
    cache: int
    code_line: int
    code_cache: int

    def of_constants(self, count: int, passes: int, *, alone: bool) -> float:
        """Return cycles that a call waits for so many bytes, which it reads so often from beginning to end.

        A cache that is too small for them has lost each line when its turn comes again. One that is large enough has them from
        the call before, if the call is not `alone`.
        """
        times = passes if count > self.cache else int(alone)
        return times * count / self.line * self.waits

    def of_code(self, cycles: float, runs: int, loop: int = 0) -> float:
        """Return cycles that a call waits for code: one that takes `cycles` otherwise and `runs` through as much code as a
        small cache holds. loop: bytes of its inner loop, if these are more than usual."""
        if self.code_cache < max(LOOP_BYTES, loop):
            return cycles * BYTES_PER_CYCLE / self.code_line * self.waits
        return runs * RUN_BYTES / self.code_line * self.waits if self.code_cache <= SMALL_CACHE else 0.0


def layer_cycles(
    graph: Graph, op: Op, variant: str, core: str, part: Extent = None, *, reads: FlashReads | None = None
) -> float | None:
    """Of one call of the kernel called `variant`, "" for none; None where that has no constants for `core`. reads: how Flash is
    read; None: it answers at once."""
    if not variant:
        return 0.0
    row = BY_NAME[variant]
    graph, op = cut(graph, op, part)
    case, counted, passes = row.features(graph, op)
    constants = _constants().get(core, {}).get((row.timed_as or row.name) + case)
    if constants is None:
        return None
    cycles = sum(a * b for a, b in zip(constants, counted, strict=True))
    cycles += COPIED_WORD * row.flash(graph, op) / 4 if row.copying else 0
    if reads is None:
        return cycles
    code = reads.of_code(cycles, 1 + passes if row.stream is not None else 1, row.loop_bytes)
    return cycles + code + reads.of_constants(row.flash(graph, op), 1 if row.copying else passes, alone=part is None)


def cut(graph: Graph, op: Op, part: Extent) -> tuple[Graph, Op]:
    """The op on maps that are no larger than a part of its output needs, without padding along an axis that is cut."""
    if part is None:
        return graph, op
    out, windows = graph.output(op), SPECS[op.kind].windows(graph, op)
    if windows is None or part == out.shape[1:3]:
        return graph, op
    tensors = {tensor.name: tensor for tensor in (*graph.inputs_of(op), out) if tensor is not None}
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items() if tensor.data is None}
    padding = list(op.attrs.get("padding", ()))
    for axis, (size, window) in enumerate(zip(part, windows, strict=True)):
        if size == out.shape[1 + axis]:
            continue
        seen = -(-(size - 1) * window.stride // window.up) + window.extent
        for name, shape in shapes.items():
            shape[1 + axis] = size if name == out.name else min(shape[1 + axis], seen)
        if padding:
            padding[axis] = (0, 0)
    for name, shape in shapes.items():  # by its constructor: `replace` takes four times as long, and a search asks often
        whole = tensors[name]
        tensors[name] = Tensor(name, tuple(shape), whole.dtype, whole.quant, None, whole.role)
    attrs = {**op.attrs, "padding": tuple(padding)} if padding else op.attrs
    return Graph(graph.name, tensors, (alone := Op(op.name, op.kind, op.inputs, op.outputs, attrs),), (), ()), alone


def cost_model_core(core: str) -> str:
    """Return the core whose cycles plans for `core` are compared by: its own, else one with the same kernels."""
    if core in _constants():
        return core
    others = ((MVE, "cortex-m55"), (DSP, "cortex-m4"), (RV32M, "rv32imc"))
    return next((other for cores, other in others if core in cores), "cortex-m3")


@cache
def _constants() -> dict[str, dict[str, list[float]]]:
    return dict(json.loads(CONSTANTS.read_text()))


def counts(graph: Graph, op: Op, variant: str) -> tuple[str, tuple[float, ...]]:
    """Return under which name the constants of a kernel stand for an op, and how often what each of them stands for is done."""
    case, counted, _ = BY_NAME[variant].features(graph, op)
    return variant + case, counted
