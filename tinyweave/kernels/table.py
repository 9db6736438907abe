"""The table of kernels: which kernel runs an op, why, and which C files it needs. The rows of the table are in `rows/`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

from ..ir import CompileError, Graph, Op
from ..ops import SPECS, data
from .requirements import STORAGE, Check, Requirement, padding_is_a_repeated_byte
from .rows import VARIANTS
from .variant import ANY, ASKED_FOR, DSP, FILES, MVE, VIEWS, Variant, constant_bytes

__all__ = [
    "ANY",
    "ASKED_FOR",
    "BY_NAME",
    "CODE_BYTES",
    "DSP",
    "FILES",
    "MVE",
    "ONLY_KERNEL",
    "STACK_BYTES",
    "VARIANTS",
    "VIEWS",
    "Variant",
    "code_bytes",
    "constant_bytes",
    "explain_kernel",
    "foreign",
    "kernels_for",
    "misfit",
    "sources",
    "stack_of_kernels",
    "variant_for",
    "without_kernel",
]

CODE_BYTES = Path(__file__).with_name("code_bytes.json")  # code size of each C file on a Cortex-M4; bench/code_size.py
ONLY_KERNEL = "the only kernel for it"  # the reason for a kernel if the core has no other for the kind of op
STACK_BYTES = Path(__file__).with_name("stack_bytes.json")  # stack of each kernel by core; bench/planning/stack_bytes.py
SETS = ("tw_line.c",)  # files with one function per window size and stride, of which a network uses few

BY_NAME = {row.name: row for row in VARIANTS}
BY_KIND = {
    kind: tuple(row for row in VARIANTS if kind in row.kinds) for kind in {kind for row in VARIANTS for kind in row.kinds}
}
# caches, since a requirement may read all weights and the planner asks often: (requirement, op) -> its result;
# (op, core, also) -> the kernel that `variant_for` returns, None if there is none
_CHECKS: WeakKeyDictionary[Graph, dict[tuple[Requirement, Op], Check]] = WeakKeyDictionary()
_CHOSEN: WeakKeyDictionary[Graph, dict[tuple[Op, str, str], Variant | None]] = WeakKeyDictionary()


def variant_for(graph: Graph, op: Op, core: str = "", also: str = "") -> Variant:
    """Return the kernel that runs `op`: the first row of the table for its kind, types and core whose requirements it meets.

    The core is such as "cortex-m4", or "" for portable C only. Kernels that the table marks with a name of ASKED_FOR are only
    returned if `also` is that name. Raise CompileError if no kernel runs the op.
    """
    chosen, key = _CHOSEN.setdefault(graph, {}), (op, core, also)
    if key not in chosen:
        rows = (
            row for row in _candidates(graph, op, core) if not any(getattr(row, which) for which in ASKED_FOR if which != also)
        )
        chosen[key] = next((row for row in rows if _first_failed(graph, op, row) is None), None)
    row = chosen[key]
    if row is None:
        raise _no_kernel(graph, op, core)
    return row


def kernels_for(graph: Graph, op: Op, core: str = "") -> tuple[Variant, ...]:
    """Return the rows of the table that can run `op` on a core, fastest first, with those that ASKED_FOR marks."""
    return tuple(row for row in _candidates(graph, op, core) if _first_failed(graph, op, row) is None)


def _candidates(graph: Graph, op: Op, core: str) -> Iterator[Variant]:
    """Yield the kernels for the op's kind, its input and output types and the core, in the order in which they are tried."""
    types = data(graph, op).dtype, graph.output(op).dtype
    for row in BY_KIND.get(op.kind, ()):
        if row.types in (types, ANY) and (not row.isa or core in row.cores):
            yield row


def _first_failed(graph: Graph, op: Op, row: Variant) -> Requirement | None:
    """Return the first requirement of the kernel `row` that the op does not meet, or None if it meets all."""
    return next((requirement for requirement in row.applies if not _check(graph, op, requirement).met), None)


def _check(graph: Graph, op: Op, requirement: Requirement) -> Check:
    """Return the result of a requirement, from the cache if the requirement was checked before."""
    known = _CHECKS.setdefault(graph, {})
    if (requirement, op) not in known:
        known[requirement, op] = requirement(graph, op)
    return known[requirement, op]


def _no_kernel(graph: Graph, op: Op, core: str) -> CompileError:
    """Return the error for an op that no kernel runs: it names the types or shapes that kernels would take."""
    source, target = data(graph, op).dtype, graph.output(op).dtype
    if any(_candidates(graph, op, core)):
        if SPECS[op.kind].family == "pad" and not _check(graph, op, padding_is_a_repeated_byte).met:
            return CompileError(
                f"no kernel pads {source} with other values than 0", "pad with 0, or quantise it to int8", op=op
            )
        return CompileError("no kernel runs it with its shape, which needs more than four axes", "reshape around it", op=op)
    rows = [row for row in BY_KIND.get(op.kind, ()) if not row.isa or core in row.cores]
    taken = ", ".join(f"{a} -> {b}" for a, b in dict.fromkeys(row.types for row in rows)) or "none"
    hint = "; quantise the model to int8 first" if (source, target) == ("float32", "float32") else ""
    return CompileError(f"no kernel runs it on {source} -> {target}", f"types with a kernel: {taken}{hint}", op=op)


def explain_kernel(graph: Graph, op: Op, core: str) -> list[tuple[str, str]]:
    """Return (kernel, reason) for each faster kernel that `op` cannot use on `core`, then for the kernel that runs it.

    The reason against a faster kernel is the first requirement that the op fails. If the op meets all requirements, but the
    kernel has more constants, the reason is the number of additional bytes. The last reason says why the kernel was chosen.
    """
    chosen, passed = variant_for(graph, op, core), list[tuple[str, str]]()
    for row in _candidates(graph, op, core):
        if row is chosen:
            break
        failed = _first_failed(graph, op, row)
        if row.lean or row.copying or not row.isa or failed in STORAGE:
            continue  # not faster, or for another storage of weights
        if failed is None:
            more = row.flash(graph, op) - chosen.flash(graph, op)
            passed.append((row.name, f"could run it, with {more:,} B more of constants in Flash"))
        else:
            passed.append((row.name, _unmet(graph, op, failed)))
    others = any(core in row.cores for row in BY_KIND[op.kind])
    reason = "the first kernel whose requirements the layer meets" if others else ONLY_KERNEL
    return [*passed, (chosen.name, reason)]


def misfit(graph: Graph, op: Op, kernel: str) -> str:
    """Return why a kernel cannot run `op`, as the end of a sentence that begins with the kernel, or "" if it can.

    The rows of the table are asked alone, in no order: a row states all that its kernel requires.
    """
    types = data(graph, op).dtype, graph.output(op).dtype
    rows = [row for row in BY_KIND.get(op.kind, ()) if row.name == kernel and row.types in (types, ANY)]
    failed = [_first_failed(graph, op, row) for row in rows]
    if None in failed:
        return ""
    return _unmet(graph, op, failed[0]) if failed and failed[0] else f"does not run {op.kind} on {' -> '.join(types)}"


def _unmet(graph: Graph, op: Op, requirement: Requirement) -> str:
    """Return a requirement that an op does not meet, and why, as "requires that the stride is 1, but it is 2x2"."""
    text = (requirement.__doc__ or "").removesuffix(".")
    return f"requires that {text[:1].lower()}{text[1:]}, but {_check(graph, op, requirement).found}"


def without_kernel(graph: Graph) -> list[CompileError]:
    """Return an error for each op that no portable kernel runs. Views, which need no code, are left out."""
    reasons = []
    for op in graph.ops:
        try:
            if op.kind in SPECS and not SPECS[op.kind].view:
                variant_for(graph, op)
        except CompileError as error:
            reasons.append(error)
    return reasons


def foreign(names: Iterable[str], core: str) -> list[str]:
    """Return the kernels among `names` that need instructions that `core` lacks, sorted. Empty names are ignored."""
    return sorted({name for name in names if name and (cores := BY_NAME[name].cores) and core not in cores})


def sources(names: Iterable[str], more: Iterable[str] = ()) -> list[Path]:
    """Return the C files and headers that kernels need, and `more` C files, sorted by name.

    If a file includes a header, the C file of the same name is needed too.
    """
    return [FILES[file] for file in sorted(_needed_by(names).union(*map(_needed_with, more)))]


def _needed_by(names: Iterable[str]) -> frozenset[str]:
    """Return the names of the C files and headers that kernels need."""
    return frozenset[str]().union(*(_needed_with(file) for name in names for file in BY_NAME[name].files))


@cache
def _needed_with(file: str) -> frozenset[str]:
    """Return a C file or header, and all other files of kernels that it needs; empty if it is not a file of the kernels."""
    found, waiting = set[str](), [file]
    while waiting:
        file = waiting.pop()
        if file not in found and file in FILES:
            found.add(file)
            waiting += [f"{header}.{suffix}" for header in _included(file) for suffix in "hc"]
    return frozenset(found)


@cache
def _included(file: str) -> list[str]:
    """Return the headers, without their suffix, that a C file or header of the kernels includes."""
    return re.findall(r'^#include "(\w+)\.h"', FILES[file].read_text(), re.MULTILINE)


def code_bytes(names: Iterable[str], *, of_sets: bool = False) -> int:
    """Return the bytes of code of the kernels `names` on a Cortex-M4, before a linker drops unused functions.

    With `of_sets`, count only the files that have one function per window size and stride.
    """
    files = _needed_by(names)
    return sum(_file_bytes()[file] for file in (files.intersection(SETS) if of_sets else files) if file.endswith(".c"))


@cache
def _file_bytes() -> dict[str, int]:
    """Return the code bytes of each C file."""
    return dict(json.loads(CODE_BYTES.read_text()))


def stack_of_kernels(core: str) -> dict[str, list[float]]:
    """Return the stack bytes of each kernel on a core, [on whole maps, on parts of maps]."""
    return _stacks()[core]


@cache
def _stacks() -> dict[str, dict[str, list[float]]]:
    return dict(json.loads(STACK_BYTES.read_text()))
