"""GELU as exporters without an op for it write it: x / 2 times 1 + erf(x / sqrt(2)), in whichever order, as one op again.

In: the nodes of a program, ONNX's or ATen's. Out: the nodes with one `Gelu` or `gelu` in place of such a chain, of which
nothing else may be read. What an erf ends in is computed at some numbers, and compared. `Erf` by itself has no op in TFLite and
is refused as before.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .program import Exported, Node, Ref, refs

Array = NDArray[np.float64]
GELU = {"Erf": "Gelu", "erf": "gelu"}
ERF = np.frompyfunc(math.erf, 1, 1)
FUNCTIONS = {"Add": np.add, "Div": np.divide, "Erf": ERF, "Mul": np.multiply}
FUNCTIONS |= {op.lower(): function for op, function in FUNCTIONS.items()}
AT = np.linspace(-4, 4, 65)  # places at which a chain is computed, to see whether it is a GELU
WANTED = AT / 2 * (1 + ERF(AT * math.sqrt(0.5)).astype(np.float64))
NEAR = 1e-3  # relative: constants of half precision are such
MOST_NODES = 8  # of a chain


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

    def value(given: Any, x: Ref, seen: list[str]) -> Array:
        """Return an argument at the places `AT` of x, NaN if it is made of something else; `seen` gets the nodes between."""
        if given == x:
            return AT
        node = maker.get(given.name) if isinstance(given, Ref) else None
        if node is None or node.op == "Constant":
            return np.full_like(AT, number(given))
        seen.append(node.name)
        is_known = node.op in FUNCTIONS and len(node.args) == FUNCTIONS[node.op].nin and not node.kwargs
        if not is_known or len(seen) > MOST_NODES:
            return np.full_like(AT, math.nan)
        with np.errstate(all="ignore"):
            return np.asarray(FUNCTIONS[node.op](*[value(each, x, seen) for each in node.args]), np.float64)

    before = maker.get(erf.args[0].name) if erf.args and isinstance(erf.args[0], Ref) else None
    varying = [arg for arg in before.args if isinstance(arg, Ref) and math.isnan(number(arg))] if before else []
    if len(varying) != 1:
        return None
    (x,), last = varying, erf
    while len(readers[last.name]) == 1 and last.name not in outputs:
        (last,), seen, gone = readers[last.name], list[str](), set[str]()
        found = value(Ref(last.name), x, seen)
        if np.isnan(found).any():
            return None
        if np.allclose(found, WANTED, NEAR, NEAR / 4):
            for name in seen[1:]:  # what reads a node comes before it
                if name not in outputs and {reader.name for reader in readers[name]} <= gone | {last.name}:
                    gone.add(name)
            return x, last, gone
    return None
