"""Replace a function of one element that is written out as several ops, in any order, by one node.

The functions are GELU, x / 2 * (1 + erf(x / sqrt(2))), and softsign, x / (1 + |x|). In: the nodes of an ImportedProgram, ONNX's
or ATen's. Out: the nodes with one node, such as `Gelu` or `gelu`, in place of each such chain. A chain is recognised by
evaluating it at sample points. An erf or abs outside such a chain stays.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .program import ImportedProgram, Node, Ref, refs

Array = NDArray[np.float64]
ERF = np.frompyfunc(math.erf, 1, 1)
FUNCTIONS = {"Abs": np.abs, "Add": np.add, "Div": np.divide, "Erf": ERF, "Mul": np.multiply}
FUNCTIONS |= {op.lower(): function for op, function in FUNCTIONS.items()}
POINTS = np.linspace(-4, 4, 65)  # the inputs at which a chain is evaluated and compared with the function
# op with which a chain is found, in lower case -> the chain's function and its values at POINTS
CHAINS = {
    "abs": ("softsign", POINTS / (1 + np.abs(POINTS))),
    "erf": ("gelu", POINTS / 2 * (1 + np.asarray(ERF(POINTS * math.sqrt(0.5)), np.float64))),
}
TOLERANCE = 1e-3  # relative difference from the function, enough for constants in half precision
MAX_NODES = 8  # nodes of a chain


def fuse_functions(program: ImportedProgram) -> ImportedProgram:
    """Return the program with each chain of nodes that computes a function of CHAINS as one node, unless an op is in-place."""
    if any(node.op.endswith("_") for node in program.nodes):
        return program
    maker, readers = {node.name: node for node in program.nodes}, defaultdict[str, list[Node]](list)
    for node in program.nodes:
        for ref in refs(node):
            readers[ref.name].append(node)
    outputs, replaced, removed = {ref.name for ref in program.outputs}, dict[str, Node](), set[str]()
    for seed in (node for node in program.nodes if node.op.lower() in CHAINS):
        chain = _chain(seed, maker, readers, program.constants, outputs)
        if chain is not None:
            x, last, others = chain
            function = CHAINS[seed.op.lower()][0]
            replaced[last.name] = Node(last.name, function.title() if seed.op.istitle() else function, (x,), {}, last.where)
            removed |= others
    return replace(program, nodes=[replaced.get(node.name, node) for node in program.nodes if node.name not in removed])


def _chain(
    seed: Node,
    maker: Mapping[str, Node],
    readers: Mapping[str, Sequence[Node]],
    constants: Mapping[str, Any],
    outputs: Collection[str],
) -> tuple[Ref, Node, set[str]] | None:
    """Find the chain around `seed` that computes its function of CHAINS; return input, last node, removable names, or None."""

    def number(value: Any) -> float:
        """Return a one-element constant as a float, or NaN if the value is computed or has more elements."""
        if isinstance(value, Ref):
            node = maker.get(value.name)
            is_constant = node is not None and node.op == "Constant"
            value = next(iter(node.kwargs.values()), None) if is_constant and node else constants.get(value.name)
        array = np.asarray(value if value is not None else math.nan)
        return float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in "fi" else math.nan

    def value(given: Any, x: Ref, seen: list[str]) -> Array:
        """Evaluate an argument at POINTS as a function of x, NaN if unknown, and append the names of its nodes to `seen`."""
        if given == x:
            return POINTS
        node = maker.get(given.name) if isinstance(given, Ref) else None
        if node is None or node.op == "Constant":
            return np.full_like(POINTS, number(given))
        seen.append(node.name)
        is_known = node.op in FUNCTIONS and len(node.args) == FUNCTIONS[node.op].nin and not node.kwargs
        if not is_known or len(seen) > MAX_NODES:
            return np.full_like(POINTS, math.nan)
        with np.errstate(all="ignore"):
            return np.asarray(FUNCTIONS[node.op](*[value(each, x, seen) for each in node.args]), np.float64)

    def chain_of(x: Ref) -> tuple[Ref, Node, set[str]] | None:
        """Return the shortest chain from the value `x` through `seed` that computes the seed's function of `x`, or None."""
        last = seed
        while len(readers[last.name]) == 1 and last.name not in outputs:
            (last,), seen, gone = readers[last.name], list[str](), set[str]()
            found = value(Ref(last.name), x, seen)
            if np.isnan(found).any():
                return None
            if np.allclose(found, CHAINS[seed.op.lower()][1], TOLERANCE, TOLERANCE / 4):
                for name in seen[1:]:  # readers are before the nodes that they read
                    if name not in outputs and {reader.name for reader in readers[name]} <= gone | {last.name}:
                        gone.add(name)
                return x, last, gone
        return None

    # x is the operand of the seed, or the only computed operand of the node before it, such as x / sqrt(2)
    given = [arg for arg in seed.args[:1] if isinstance(arg, Ref)]
    before = [maker[arg.name] for arg in given if arg.name in maker]
    varying = [arg for node in before for arg in node.args if isinstance(arg, Ref) and math.isnan(number(arg))]
    return next(filter(None, map(chain_of, given + varying * (len(varying) == 1))), None)
