"""Print the size of the tree beside budget.toml, and end with exit code 1 if a row is above its budget.

    python bench/budget.py

A commit that needs more deletes as much elsewhere, or raises the row in budget.toml and says there why.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PACKAGES = [name for name in ("tinyweave", "tinynas", "tinylesson") if (ROOT / name).is_dir()]
ASSEMBLY = re.compile(r'\\n"|__asm__')  # a line of inline assembly
LONG, MANY = 60, 8  # lines and parameters of a function
# parameters as elsewhere
SCHEMA_MIRRORS = tuple("tinyweave/cli/ tinynas/commands.py tinyweave/importers/aten/ tinyweave/importers/onnx_ops/".split())


def files(folder: str, *suffixes: str) -> Iterator[Path]:
    return (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes)


def lines(folder: str, *suffixes: str) -> int:
    return sum(path.read_text().count("\n") for path in files(folder, *suffixes))


def options() -> dict[str, set[str]]:
    """Return the long names of each command's options, without --help."""
    from typer.main import get_command

    from tinyweave.cli.commands import app

    app.find()
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    return {name: {p.opts[-1] for p in each.params if p.param_type_name == "option"} for name, each in commands.items()}


def measured() -> dict[str, int]:
    """Return name of a row -> its size today."""
    python = {path.relative_to(ROOT).as_posix(): path.read_text() for name in PACKAGES for path in files(name, ".py")}
    nodes = [(name, node) for name, text in python.items() for node in ast.walk(ast.parse(text))]
    functions = [(name, node) for name, node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    docstrings = [
        node.body[0]
        for _, node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False)
    ]
    c = [path.read_text() for name in PACKAGES for path in files(name, ".c", ".cpp", ".h")]
    return {
        **{
            f"Python of {name}": sum(t.count("\n") for path, t in python.items() if path.startswith(f"{name}/"))
            for name in PACKAGES
        },
        "of these docstrings": sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in docstrings),
        "C, C++ and headers": sum(text.count("\n") for text in c),
        "of these inline assembly": sum(bool(ASSEMBLY.search(line)) for text in c for line in text.splitlines()),
        "classes of the planner": sum(
            isinstance(node, ast.ClassDef) for name, node in nodes if name.startswith("tinyweave/planning/")
        ),
        f"functions of more than {LONG} lines": sum((node.end_lineno or 0) - node.lineno >= LONG for _, node in functions),
        f"functions of more than {MANY} parameters": sum(
            len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) > MANY
            for name, node in functions
            if not name.startswith(SCHEMA_MIRRORS)
        ),
        "options": len(set[str]().union(*options().values())),
        "options of search": len(options()["search"]),
        "tests": lines("tests", ".py", ".c", ".cc", ".h", ".js"),
        "bench": lines("bench", ".py", ".c", ".h"),
    }


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    budget = tomllib.loads((ROOT / "budget.toml").read_text())["lines"]
    sizes = measured()
    if sizes.keys() != budget.keys():
        print(f"budget.toml has other rows than {__file__}: {', '.join(sizes.keys() ^ budget.keys())}")
        return 1
    for name, size in sizes.items():
        print(f"{name:36} {size:7,} of {budget[name]:7,}{'   too many' if size > budget[name] else ''}")
    return int(any(size > budget[name] for name, size in sizes.items()))


if __name__ == "__main__":
    sys.exit(main())
