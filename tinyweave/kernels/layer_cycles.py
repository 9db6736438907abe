"""Estimates of a layer's cycles from its shape alone, for the planner and the architecture search.

The estimate is the sum of the counts of `cycle_features.py` times constants that bench/fit_cycles.py fitted to emulated runs
with zero wait states (layer_cycles.json, by core and kernel). `FlashReads` adds the wait states of a device. Kernels for int4
values are estimated as those for int8 (`timed_as`), up to a third too low (bench/int4.py).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..ir import Graph, Op, Tensor
from ..ops import SPECS
from .table import BY_NAME
from .variant import DSP, MVE, RV32M

CONSTANTS = Path(__file__).with_name("layer_cycles.json")
# fetches of code, from emulated cores with the caches of real boards (bench/flash_reads.py)
LOOP_BYTES = 256  # code of a kernel's inner loop, unless the kernel states its own: a smaller cache does not hold it
BYTES_PER_CYCLE = 2
SMALL_CACHE = 1024  # bytes; holds about one kernel
RUN_BYTES = 800  # fetched per call of a kernel, and per pass of a kernel with a stream through its weights
COPIED_WORD = 4  # cycles to copy a word of a stream, 4.0 to 4.3 on three networks
Extent = tuple[int, int] | None  # rows and columns of the output; None: all of it


class FlashReads(NamedTuple):
    """The wait states of a device's Flash, and its caches of constants and of code."""

    waits: int  # cycles per line that is not in a cache
    line: int  # bytes
    cache: int  # bytes
    code_line: int
    code_cache: int

    def of_constants(self, count: int, passes: int, *, alone: bool) -> float:
        """Return the cycles that a call waits for `count` bytes of constants, which it reads `passes` times.

        A cache smaller than `count` misses each line in each pass. A larger one holds them from the last call, unless this call
        is `alone`.
        """
        times = passes if count > self.cache else int(alone)
        return times * count / self.line * self.waits

    def of_code(self, cycles: float, runs: int, loop: int = 0) -> float:
        """Return the cycles that a call waits for code.

        `cycles` are those with zero wait states. `runs` is how often the call runs through about `RUN_BYTES` of code. `loop` is
        the bytes of the inner loop, if more than `LOOP_BYTES`.
        """
        if self.code_cache < max(LOOP_BYTES, loop):
            return cycles * BYTES_PER_CYCLE / self.code_line * self.waits
        return runs * RUN_BYTES / self.code_line * self.waits if self.code_cache <= SMALL_CACHE else 0.0


def layer_cycles(
    graph: Graph, op: Op, variant: str, core: str, part: Extent = None, *, reads: FlashReads | None = None
) -> float | None:
    """Estimate the cycles of one call of the kernel `variant`; None if it has no constants for `core`.

    `variant` is "" for an op without code. `part` is the rows and columns of the output that the call computes. `reads` is
    None for zero wait states.
    """
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
    """Return the op on maps that are as small as `part` of its output needs, without padding along axes that are cut."""
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
    for name, shape in shapes.items():  # not `replace`, which takes four times as long
        whole = tensors[name]
        tensors[name] = Tensor(name, tuple(shape), whole.dtype, whole.quant, None, whole.role)
    attrs = {**op.attrs, "padding": tuple(padding)} if padding else op.attrs
    return Graph(graph.name, tensors, (alone := Op(op.name, op.kind, op.inputs, op.outputs, attrs),), (), ()), alone


def cost_model_core(core: str) -> str:
    """Return the core whose constants estimate cycles on `core`: itself, or one that runs the same kernels."""
    if core in _constants():
        return core
    others = ((MVE, "cortex-m55"), (DSP, "cortex-m4"), (RV32M, "rv32imc"))
    return next((other for cores, other in others if core in cores), "cortex-m3")


@cache
def _constants() -> dict[str, dict[str, list[float]]]:
    return dict(json.loads(CONSTANTS.read_text()))


def counts(graph: Graph, op: Op, variant: str) -> tuple[str, tuple[float, ...]]:
    """Return the key of a kernel's constants in layer_cycles.json for an op, and the counts to multiply them by."""
    case, counted, _ = BY_NAME[variant].features(graph, op)
    return variant + case, counted
