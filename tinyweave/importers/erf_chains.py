"""GELU as exporters without an op for it write it: x / 2 times 1 + erf(x / sqrt(2)), in whichever order, as one op again.

In: the nodes of a program, ONNX's or ATen's. Out: the nodes with one `Gelu` or `gelu` in place of such a chain, of which
nothing else may be read. `Erf` by itself has no op in TFLite and is refused as before.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .program import Exported, Node, Ref, refs

GELU = {"Erf": "Gelu", "erf": "gelu"}
PRODUCTS, QUOTIENTS, SUMS = ("Mul", "mul"), ("Div", "div"), ("Add", "add")
NEAR = 1e-3  # relative: constants of half precision are such


def with_gelu(program: Exported) -> Exported:
    """Return the program with each chain that is a GELU as one op; as it is where an op changes a value in place."""
    if any(node.op.endswith("_") for node in program.nodes):
        return program
    maker, readers = {node.name: node for node in program.nodes}, defaultdict[str, list[Node]](list)
    for node in program.nodes:
        for ref in refs(node):
            readers[ref.name].append(node)
    outputs, changed, gone = {ref.name for ref in program.outputs}, dict[str, Node](), set[str]()
    for erf in (node for node in program.nodes if node.op in GELU):
        found = _chain(erf, maker, readers, program.constants, outputs)
        if found is not None:
            x, last, others = found
            changed[last.name] = Node(last.name, GELU[erf.op], (x,), {}, last.where)
            gone |= others
    return replace(program, nodes=[changed.get(node.name, node) for node in program.nodes if node.name not in gone])


def _chain(
    erf: Node,
    maker: Mapping[str, Node],
    readers: Mapping[str, Sequence[Node]],
    constants: Mapping[str, Any],
    outputs: Collection[str],
) -> tuple[Ref, Node, set[str]] | None:
    """Return (x, the last node, the names of the others) of the GELU that an erf is part of; None where it is of none."""

    def number(value: Any) -> float:
        """Return a constant of one element as a number, NaN for all else."""
        if isinstance(value, Ref):
            node = maker.get(value.name)
            is_constant = node is not None and node.op == "Constant"
            value = next(iter(node.kwargs.values()), None) if is_constant and node else constants.get(value.name)
        array = np.asarray(value if value is not None else math.nan)
        return float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in "fi" else math.nan

    def scaled(node: Node | None) -> tuple[Ref, float] | None:
        """Return (what, by how much) of a node that multiplies something by a number."""
        if node is None or len(node.args) != 2 or node.kwargs:
            return None
        a, b = node.args
        for what, other in ((a, b), (b, a)) if node.op in PRODUCTS else ((a, b),) if node.op in QUOTIENTS else ():
            factor = number(other)
            if isinstance(what, Ref) and math.isfinite(factor) and factor != 0:
                return what, factor if node.op in PRODUCTS else 1 / factor
        return None

    def is_half(node: Node | None, what: Ref) -> bool:
        by = scaled(node)
        return by is not None and by[0] == what and math.isclose(by[1], 0.5, rel_tol=NEAR)

    def is_inner(name: str) -> bool:
        """Return whether a value is read once and given to nobody."""
        return len(readers[name]) == 1 and name not in outputs

    before = maker.get(erf.args[0].name) if erf.args and isinstance(erf.args[0], Ref) else None
    start, plus = scaled(before), readers[erf.name][0] if is_inner(erf.name) else None
    if before is None or start is None or not math.isclose(start[1], math.sqrt(0.5), rel_tol=NEAR):
        return None
    if plus is None or plus.op not in SUMS or plus.kwargs or not any(abs(number(each) - 1) < NEAR for each in plus.args):
        return None
    x, gone = start[0], {erf.name, plus.name, *([before.name] if is_inner(before.name) else [])}
    current, missing = plus, {"half", "x"}
    while missing:
        if not is_inner(current.name):
            return None
        (after,), found = readers[current.name], set[str]()
        if is_half(after, Ref(current.name)):
            found = {"half"}
        elif after.op in PRODUCTS and len(after.args) == 2:
            other = after.args[1] if after.args[0] == Ref(current.name) else after.args[0]
            if other == x:
                found = {"x"}
            elif isinstance(other, Ref) and is_half(maker.get(other.name), x):
                found = {"half", "x"}
                gone |= {other.name} if is_inner(other.name) else set()
        if not found or not found <= missing:
            return None
        missing -= found
        gone.add(after.name)
        current = after
    return x, current, gone - {current.name}
