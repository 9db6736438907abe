"""Estimates of a layer's cycles from its shape alone, for the planner and the architecture search.

An estimate is the sum of the counts of `cycle_features.py`, each times a constant. bench/fit_cycles.py fitted the constants to
emulated runs with zero wait states (layer_cycles.json, by core and kernel). `FlashReads` adds the wait states of a device.
Kernels for int4 weights are estimated with the constants of kernels for int8 (`timed_as`), which is up to a third too low.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ..ir import Graph, Op, Tensor
from ..ops import SPECS
from .table import BY_NAME, code_bytes
from .variant import DSP, MVE, RV32M

CONSTANTS = Path(__file__).with_name("layer_cycles.json")
# constants of the wait states of code, from emulated cores with the caches of real boards (bench/flash_reads.py)
LOOP_BYTES = 256  # code of an inner loop whose kernel has no `loop_bytes`; a smaller cache does not hold it
BYTES_PER_CYCLE = 2  # of code, fetched if the cache does not hold the inner loop
SMALL_CACHE = 1024  # bytes; a cache of this size holds the code of about one kernel
RUN_BYTES = 800  # of code, fetched per call of a kernel, and again per pass through a weight stream
EXECUTED = (0.0, 0.6, 1.0)  # of the code of a kernel's files: for the fewest, the likely and the most conflicts with constants
COPIED_WORD = 4  # cycles to copy a word of a weight stream to RAM; 4.0 to 4.3 were measured on three networks
# core whose constants a kernel for the DSP instructions has on a core with MVE, where only layers without a twin in MVE take
# it: with 238 parts of two networks, the estimate was 1.0 to 1.2 times the cycles of a Cortex-M55, in the median of each kernel
DSP_CONSTANTS = "cortex-m33"
Extent = tuple[int, int] | None  # rows and columns of the output that a call computes; None: all of them
# instead of an extent: a further call of a dense layer that takes a map row by row, without its MACs and inputs
NEXT_ROW: Extent = (1, 0)
ROW_SHARE = 1 / 3  # of the cycles per output and per call, in a further row; a Cortex-M4 takes 0.2 to 0.7 of them


class FlashReads(NamedTuple):
    """The cycles for which a core waits for its Flash, and the sizes of its caches for constants and for code."""

    waits: int  # cycles per line that is not in a cache
    line: int  # bytes of a line of the cache for constants
    cache: int  # bytes of the cache for constants
    code_line: int
    code_cache: int
    # of a slow Flash beside the chip, else 0:
    apart: int = 0  # cycles per line of constants that does not follow the line before; `waits` are those of one that does
    cold: int = 0  # cycles per line of code, which each layer fetches once
    ways: int = 1  # of the cache for constants
    executed: float = 0  # part of the code of kernels' files that takes lines of the same cache; 0 if code has its own

    def evicted(self, constants: float, variants: Iterable[str] = ()) -> float:
        """Return the share of the lines of `constants` bytes that are evicted before they are read again.

        All constants, and the code of the kernels `variants` if it has no cache of its own, are used in turns. Both have
        consecutive addresses, so each set of the cache gets an equal number of their lines, or one more. If it has fewer ways,
        all its lines miss. The distance of code and constants is unknown: the share is the mean over all distances.
        """
        code = self.executed and self.executed * _code(frozenset(variants))
        if constants + code <= self.cache * (1 - 1 / self.ways):
            return 0.0
        lines = [size * self.ways / self.cache if self.cache else math.inf for size in (constants, code)]
        if max(lines) >= self.ways + 1:
            return 1.0
        lost = 0.0
        for a, b in product((0, 1), repeat=2):
            count = int(lines[0]) + a + int(lines[1]) + b
            chance = abs(1 - a - lines[0] % 1) * abs(1 - b - lines[1] % 1)
            lost += chance * count * (count > self.ways)
        return lost / sum(lines)

    def of_constants(self, count: int, passes: int, *, alone: float, variant: str = "", in_order: bool = True) -> float:
        """Return the wait cycles of one call of a kernel for its constants.

        The lines that are `evicted` between two passes are fetched again in each pass and call, the others only by a call that
        is `alone`.

        Args:
            count: The bytes of the constants.
            passes: How often the call reads all of them.
            alone: Whether the kernel is called once per inference, so that other layers have evicted its constants; or the
                share of its calls before which they have.
            variant: The kernel, whose code evicts constants if it has no cache of its own.
            in_order: Whether the kernel reads them by ascending addresses, not several filters at a time.

        """
        again = self.evicted(count, [variant] if variant else ())
        times = max(alone, again) + (passes - 1) * again
        return times * count / self.line * (self.waits if in_order or not self.apart else self.apart)

    def of_code(self, cycles: float, runs: int, loop: int = 0, *, alone: float = 0) -> float:
        """Return the wait cycles of one call of a kernel for its code.

        Args:
            cycles: The cycles of the call with zero wait states.
            runs: How often the call executes about `RUN_BYTES` of code that a small cache no longer holds.
            loop: The bytes of the inner loop; 0 for a loop of at most `LOOP_BYTES`.
            alone: Whether the kernel is called once per inference, so that its code may be in no cache; or the share of its
                calls before which it is in none.

        """
        if self.code_cache < max(LOOP_BYTES, loop):
            return cycles * BYTES_PER_CYCLE / self.code_line * self.waits
        if self.code_cache <= SMALL_CACHE:
            return runs * RUN_BYTES / self.code_line * self.waits
        return alone * RUN_BYTES / self.code_line * self.cold


def cycles_to_copy(sizes: Collection[int], reads: FlashReads | None) -> float:
    """Estimate the cycles to copy arrays from Flash to RAM, by their sizes; without `reads`, from Flash without wait states."""
    waits = sum(reads.of_constants(size, 1, alone=1) for size in sizes) if reads else 0
    return waits + COPIED_WORD * sum(sizes) / 4


def layer_cycles(
    graph: Graph,
    op: Op,
    variant: str,
    core: str,
    part: Extent = None,
    *,
    reads: FlashReads | None = None,
    evicted: tuple[float, float] = (0, 0),
    copied: int = 0,
) -> float | None:
    """Estimate the cycles of one call of a kernel, or return None if the kernel has no fitted constants for `core`.

    Args:
        variant: The name of the kernel; "" for an op without code, which takes 0 cycles.
        core: A core that has constants, as `cost_model_core` returns it.
        part: The rows and columns of the output that the call computes; None for the whole output; NEXT_ROW for a further row
            of a dense layer's input.
        reads: The wait states of the Flash; None for zero wait states.
        evicted: The share of calls before which constants, and code, of the kernel are in no cache of a slow Flash.
        copied: The bytes of constants that the kernel reads from RAM, because they were copied there before.

    """
    if not variant:
        return 0.0
    row = BY_NAME[variant]
    graph, op = cut(graph, op, part)
    case, counted, passes = row.features(graph, op)
    if part == NEXT_ROW:
        _, outputs, _, pixels, calls = counted
        counted = 0.0, ROW_SHARE * outputs, 0.0, ROW_SHARE * pixels, ROW_SHARE * calls
    key = (row.timed_as or row.name) + case
    constants = _constants().get(core, {}).get(key) or (_constants()[DSP_CONSTANTS].get(key) if core in MVE else None)
    if constants is None:
        return None
    cycles = sum(a * b for a, b in zip(constants, counted, strict=True))
    cycles += COPIED_WORD * row.flash(graph, op) / 4 if row.copying else 0
    if reads is None:
        return cycles
    if part == NEXT_ROW:
        return cycles + reads.of_code(cycles, 1, row.loop_bytes)
    code = reads.of_code(cycles, 1 + passes if row.stream is not None else 1, row.loop_bytes, alone=evicted[1] if part else 1)
    count, times = max(0, row.flash(graph, op) - copied), 1 if row.copying else passes
    alone = evicted[0] if part else 1
    return cycles + code + reads.of_constants(count, times, alone=alone, variant=variant, in_order=row.stream is not None)


def cut(graph: Graph, op: Op, part: Extent) -> tuple[Graph, Op]:
    """Return a graph of one op that computes only `part` of the output, and this op.

    The input maps are cut to the rows and columns that the part needs. An axis that is cut has no padding. If `part` is None or
    the whole output, or the op has no windows, return `graph` and `op` unchanged.
    """
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
    """Return the core whose fitted constants estimate cycles on `core`: `core` itself, or one that runs the same kernels."""
    if core in _constants():
        return core
    others = ((MVE, "cortex-m55"), (DSP, "cortex-m4"), (RV32M, "rv32imc"))
    return next((other for cores, other in others if core in cores), "cortex-m3")


@cache
def _code(variants: frozenset[str]) -> int:
    """Return `code_bytes`, cached."""
    return code_bytes(variants)


@cache
def _constants() -> dict[str, dict[str, list[float]]]:
    """Return the fitted constants by core and by kernel name."""
    return dict(json.loads(CONSTANTS.read_text()))


def counts(graph: Graph, op: Op, variant: str) -> tuple[str, tuple[float, ...]]:
    """Return the key of a kernel's constants in layer_cycles.json, and the loop counts of an op to multiply them by."""
    case, counted, _ = BY_NAME[variant].features(graph, op)
    return variant + case, counted
