"""Asserts of the package only narrow types for the type checker, because python -O removes them."""

from __future__ import annotations

import ast

from test_imports import modules, name_of


def narrows_a_type(test: ast.expr) -> bool:
    """Return whether an assert's test only excludes None or checks a type."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and all(map(narrows_a_type, test.values))
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.IsNot) and isinstance(test.comparators[0], ast.Constant)
    called = isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance"
    return called or isinstance(test, (ast.Name, ast.Attribute))


def test_asserts_only_narrow_types() -> None:
    texts = {path: text for path in modules() if "assert " in (text := path.read_text())}
    asserts = [(path, node) for path, text in texts.items() for node in ast.walk(ast.parse(text))]
    asserts = [(path, node) for path, node in asserts if isinstance(node, ast.Assert) and not narrows_a_type(node.test)]
    assert not [f"{name_of(path)}:{node.lineno}: {ast.unparse(node)}" for path, node in asserts]
