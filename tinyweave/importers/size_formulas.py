"""Evaluate the formulas of dynamic sizes in a .pt2 file, which are SymPy expressions as text, without SymPy."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor, prod, trunc
from typing import Any

SYMBOL = re.compile(r"Symbol\('(\w+)'[^()]*\)")
MOST_LETTERS = 4096  # of a formula
MOST_BITS = 64  # of a number in it
FORMULAS: dict[str, Callable[..., Any]] = {  # SymPy's and torch's functions of sizes
    "Add": lambda *parts: sum(parts),
    "CeilToInt": ceil,
    "CleanDiv": lambda x, y: x // y,
    "Float": lambda text, **_: float(text),
    "FloatTrueDiv": lambda x, y: x / y,
    "FloorDiv": lambda x, y: x // y,
    "FloorToInt": floor,
    "IntTrueDiv": lambda x, y: x / y,
    "Integer": int,
    "Max": max,
    "Min": min,
    "Mod": lambda x, y: x % y,
    "ModularIndexing": lambda x, divisor, modulus: x // divisor % modulus,
    "Mul": lambda *parts: prod(parts),
    "Pow": lambda x, y: x**y,
    "PowByNatural": lambda x, y: x**y,
    "PythonMod": lambda x, y: x % y,
    "Rational": Fraction,
    "RoundToInt": round,
    "ToFloat": float,
    "TruncToInt": trunc,
}


def symbol_or_formula(formula: str) -> str:
    """Return the name of the symbol that a formula consists of, or else the formula."""
    only = SYMBOL.fullmatch(formula)
    return only[1] if only else formula


def size_of(formula: str, sizes: Mapping[str, int]) -> Any:
    """Return the value of a formula such as "Mul(Integer(2), Symbol('s0'))"; None if a symbol is not in `sizes`."""
    if len(formula) > MOST_LETTERS:
        raise ValueError("a formula of sizes is too long")
    if formula.isidentifier():
        return sizes.get(formula)
    if not {*SYMBOL.findall(formula)} <= sizes.keys():
        return None
    try:
        found = _value(ast.parse(formula, mode="eval").body, sizes)
    except (SyntaxError, RecursionError) as error:
        raise ValueError("a formula of sizes is malformed") from error
    return int(found) if isinstance(found, Fraction) and found.denominator == 1 else found


def _value(node: ast.AST, sizes: Mapping[str, int]) -> Any:
    """Return the value of a part of a formula: a number, a symbol, or a function of FORMULAS."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return ast.literal_eval(node)  # ValueError if the node is no literal
    if node.func.id == "Symbol":
        return sizes[ast.literal_eval(node.args[0])]
    parts = [_value(part, sizes) for part in node.args]
    is_huge = any(isinstance(part, int) and abs(part) >> MOST_BITS for part in parts)
    if is_huge or (node.func.id.startswith("Pow") and abs(parts[1]) > MOST_BITS):
        raise ValueError("a number in a formula of sizes is too large")
    return FORMULAS[node.func.id](*parts)
