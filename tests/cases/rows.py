"""Cases by the row of the kernel table that runs them, and networks of many cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from tinyweave.ir import CompileError, Graph, Op, verify
from tinyweave.kernels.table import ASKED_FOR, VARIANTS, Variant, variant_for

from .ops import GENERATORS, INT16, INT16_KINDS, UINT8, UINT8_KINDS, Case, all_cases


def compilable(kind: str) -> Iterator[Case]:
    """Yield the cases that have a kernel; others must raise a CompileError."""
    for case in all_cases(kind):
        op = case.graph.ops[0]
        try:
            if any(op.kind in row.kinds for row in VARIANTS):
                variant_for(case.graph, op)
        except CompileError:
            continue
        yield case


@cache
def known(kind: str) -> tuple[Case, ...]:
    """Return the cases of `compilable`, drawn once per kind."""
    return tuple(compilable(kind))


def core_of(row: Variant) -> str:
    """Return the first core of a row, "" if it is for all cores."""
    return (*row.cores, "")[0]


def flag_of(row: Variant) -> str:
    """Return which of ASKED_FOR marks a row, "" for none."""
    return next((which for which in ASKED_FOR if getattr(row, which)), "")


def cases_of(row: Variant, draw: Callable[[str], Iterable[Case]] = known) -> Iterator[Case]:
    """Yield the cases that a row runs, by kind, including int16 maps and ops converted from uint8."""
    for kind in row.kinds:
        also = [INT16 + kind] * (kind in INT16_KINDS) + [UINT8 + kind] * (kind in UINT8_KINDS)
        for case in (case for name in [kind] * (kind in GENERATORS) + also for case in draw(name)):
            if variant_for(case.graph, case.graph.ops[0], core_of(row), flag_of(row)) is row:
                yield case


def some_of(row: Variant, most: int) -> list[Case]:
    """Return about `most` of the cases that a row runs, evenly drawn."""
    drawn = list(cases_of(row))
    return drawn[:: max(len(drawn) // most, 1)]


def union(name: str, chosen: Sequence[Case]) -> Graph:
    """Return a network of all these ops, unconnected."""
    tensors, all_ops, init, inputs, outputs = {}, [], [], [], []
    for index, case in enumerate(chosen):
        graph, prefix = case.graph, f"c{index}."
        tensors |= {prefix + n: replace(t, name=prefix + n) for n, t in graph.tensors.items()}

        def renamed(op: Op, index: int = index, prefix: str = prefix) -> Op:
            operands = tuple(n and prefix + n for n in op.inputs), tuple(prefix + n for n in op.outputs)
            return Op(f"{op.name}_{index}", op.kind, *operands, op.attrs)

        all_ops += map(renamed, graph.ops)
        init += map(renamed, graph.init)
        inputs += [prefix + n for n in graph.inputs]
        outputs += [prefix + n for n in graph.outputs]
    return verify(Graph(name, tensors, tuple(all_ops), tuple(inputs), tuple(outputs), tuple(init)))
