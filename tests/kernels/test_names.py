"""No code inspects a kernel's name: the properties of a kernel are in its row of the table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest
from test_imports import modules, name_of

from tinyweave.kernels.table import BY_NAME

PARTS_OF_STRINGS = {"startswith", "endswith", "removeprefix", "removesuffix", "replace", "find", "index", "split", "partition"}
PARTS_OF_STRINGS |= {"rfind", "rindex", "rsplit", "rpartition", "count", "strip", "lstrip", "rstrip"}
PRINTS = {"tinyweave/report/kernel_shares.py"}  # it shortens names in a table


def name_inspections(source: str) -> Iterator[int]:
    """Yield the lines in which an expression searches a kernel's name for a piece, or compares it with a whole name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PARTS_OF_STRINGS:
            if _speaks_of_kernels(node.func.value) or any(map(_is_piece, _strings(node.args))):
                yield node.lineno
        elif isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            within = isinstance(node.ops[0], (ast.In, ast.NotIn)) and _speaks_of_kernels(operands[1])
            if any(text in BY_NAME for text in _strings(operands)) or (within and _strings([node.left])):
                yield node.lineno
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and _speaks_of_kernels(node.value):
            yield node.lineno


def _strings(nodes: list[ast.expr]) -> list[str]:
    """Yield the constant strings of nodes, also those in tuples and lists."""
    inner = [n for node in nodes for n in (node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node])]
    return [node.value for node in inner if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@cache
def _is_piece(text: str) -> bool:
    """Return whether a text is a piece of a kernel's name, such as _dsp, _s8_w4 or tw_."""
    parts = set(text.split("_")) - {""}
    return "_" in text and bool(parts) and any(parts <= set(name.split("_")) for name in BY_NAME)


def _speaks_of_kernels(node: ast.expr) -> bool:
    """Return whether an expression is a kernel's name, such as `kernel`, `layer.kernel`, `variant` or `row.name`."""
    if isinstance(node, ast.Attribute):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        return node.attr in ("kernel", "variant") or (node.attr == "name" and owner in ("row", "variant", "kernel"))
    return isinstance(node, ast.Name) and node.id in ("kernel", "variant")


def test_no_code_inspects_the_name_of_a_kernel() -> None:
    found = {name_of(path): list(name_inspections(path.read_text())) for path in modules() if name_of(path) not in PRINTS}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    "line",
    [
        "variant.endswith('_dsp')",
        "layer.kernel.endswith(('_w4', '_s16'))",
        "name.removesuffix('_mve')",
        "key.replace('_s8_w4', '_s8')",
        "'float' in variant.name",
        "'winograd' in variant",
        "kernel == 'tw_conv_2d_s8_w4'",
        "kernel in ('tw_mul_s8_dsp', 'tw_mul_s8_mve')",
        "kernel[-4:] == suffix",
        "kernel.split(separator)",
    ],
)
def test_code_that_inspects_a_kernel_name_is_found(line: str) -> None:
    assert list(name_inspections(line)) == [1]


@pytest.mark.parametrize("line", ["BY_NAME[kernel].isa == 'dsp'", "variant in known", "path.endswith('.c')", "'pad' in attrs"])
def test_code_that_inspects_other_names_is_not_found(line: str) -> None:
    assert not list(name_inspections(line))
