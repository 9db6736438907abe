"""Files and symbols that comments and docstrings name exist.

A reader follows a name into the code. No other test detects names that a rename left behind.

Files: `folder/name.py`, name.c and the like. Symbols: identifiers in backticks, with or without a module before them; `name` of
file.py; in C all words that begin with tw_. A docstring or comment may name an identifier of its own function, class or file,
of a header that its file includes, and anything that a file of the package defines.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from test_imports import PACKAGES

import tinyweave
from tinyweave.cli.commands import app

ROOT = Path(tinyweave.__file__).parent
TOP = ROOT.parent
FILE = re.compile(r"(?<![\w./*<{>}`-])`?((?:[\w-]+/)*\w+\.(?:py|c|h|js|toml))\b(?!\w|\.\w|\()")
SYMBOL = re.compile(r"`(?!\w+\.(?:py|c|h|js|toml)`)([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\([\w, ]*\))?`")
OF_FILE = re.compile(r"`(\w[\w ]*)`,? (?:of|in) `?((?:\w+/)*\w+\.py)|`?((?:\w+/)*\w+\.py)`?: `(\w+)`")
OF_C = re.compile(r"\btw_\w*[a-z0-9]\b")
WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = re.compile(r"/\*.*?\*/|(?<![:\"'])//[^\n]*", re.DOTALL)
MEMBERS = set("in out kernel stride pad scale offset dilation".split())  # in.c is a member in C, the channels of an input

# files of TFLite, PyTorch, Python and compilers, and a user's file
FOREIGN = set(
    """
    importlib/util.py torch/_export/serde/schema.py arm_acle.h tinyweave.toml add.h arg_min_max.h conv.h depthwise_conv.h
    depthwiseconv_uint8.h dequantize.h div.h fixedpoint.h fully_connected.h gather.h hard_swish.h internal/common.h mul.h
    pooling.h prelu.h reduce.h reference/batch_matmul.h reference/gelu.h reference/comparisons.h reference/leaky_relu.h
    l2normalization.h logistic.h tanh.h reference/maximum_minimum.h reference/reduce.h reference/requantize.h
    reference/select.h reference/softmax.h reference/svdf.h reference_integer_ops/log_softmax.h resize_bilinear.h
    resize_nearest_neighbor.h transpose_conv.h
    """.split()
)
FOREIGN_SYMBOLS = {"islow"}  # of libjpeg


class Text(NamedTuple):
    """A comment or docstring, and the identifiers of the code around it."""

    path: Path
    line: int
    text: str
    known: frozenset[str]


def python_texts(path: Path, source: str) -> Iterator[Text]:
    """Yield the docstrings and comments of a Python file."""
    tree = ast.parse(source)
    scopes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module))]
    names = {scope: frozenset(identifiers(scope)) for scope in scopes}
    for scope in scopes:
        if text := ast.get_docstring(scope):
            line = scope.body[0].lineno
            around = [
                names[each]
                for each in scopes
                if not isinstance(each, ast.Module) and each.lineno <= line <= (each.end_lineno or line)
            ]
            yield Text(path, line, text, frozenset().union(*around) if around else names[tree])
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(path, token.start[0], token.string, names[tree])


def identifiers(scope: ast.AST) -> Iterator[str]:
    """Yield the identifiers of a function, class or module."""
    for node in ast.walk(scope):
        for field in ("id", "arg", "attr", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield from name.split(".")


def c_texts(path: Path, source: str) -> Iterator[Text]:
    """Yield the comments of a C or JavaScript file."""
    known = frozenset(WORD.findall(code_of(path)))
    for match in COMMENT.finditer(source):
        yield Text(path, source.count("\n", 0, match.start()) + 1, match[0], known)


@cache
def code_of(path: Path) -> str:
    """Return a file of C without its comments, after the headers of the package that it includes."""
    code = COMMENT.sub(" ", path.read_text())
    included = [
        TOP / name[1:] for each in re.findall(r'#include "([^"]+)"', code) for name in files() if name.endswith(f"/{each}")
    ]
    return "\n".join([*(code_of(header) for header in included if header != path), code])


def sources(*suffixes: str) -> list[Path]:
    return sorted(path for name in PACKAGES for path in (TOP / name).rglob("*") if path.suffix in suffixes)


@cache
def texts() -> list[Text]:
    """Return all docstrings and comments of the package."""
    python = [text for path in sources(".py") for text in python_texts(path, path.read_text())]
    return python + [text for path in sources(".c", ".h", ".js") for text in c_texts(path, path.read_text())]


@cache
def defined() -> frozenset[str]:
    """Return the package's names: modules, functions, classes, fields, constants, C functions, types, commands."""
    app.find()
    found = {*PACKAGES, *typer.main.get_command(app).commands}  # type: ignore[attr-defined]
    for path in sources(".py"):
        found |= {path.stem, path.parent.name}
        for scope in ast.walk(ast.parse(path.read_text())):
            if isinstance(scope, (ast.FunctionDef, ast.ClassDef)):
                found.add(scope.name)
            for node in scope.body if isinstance(scope, (ast.Module, ast.ClassDef)) else ():
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
                found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    for path in sources(".c", ".h"):
        code = COMMENT.sub(" ", path.read_text())
        found |= {path.stem, *re.findall(r"\btw_\w+|\b[A-Z][A-Z_0-9]{2,}\b", code)}
        found |= {*re.findall(r"^(?:\w+[ *]+)+(\w+)\(", code, re.MULTILINE), *re.findall(r"^\} (\w+);", code, re.MULTILINE)}
    return frozenset(found)


@cache
def values() -> frozenset[str]:
    """Return the strings of the package that are one word: options, JSON keys, kinds of op, prefixes of C names."""
    nodes = (node for path in sources(".py") for node in ast.walk(ast.parse(path.read_text())))
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(each for each in strings if each.isidentifier())


@cache
def files() -> list[str]:
    """Return the paths of the project's files, each with a slash before it."""
    tops = (*PACKAGES, "tests", "bench", "examples")
    return [f"/{path.relative_to(TOP)}" for top in tops for path in (TOP / top).rglob("*.*")] + ["/pyproject.toml"]


def missing(each: Text) -> Iterator[str]:
    """Yield the files and symbols that a text names and that do not exist."""
    is_c = each.path.suffix != ".py"
    for name in FILE.findall(each.text):
        is_member = is_c and name[:-2] in MEMBERS
        if not is_member and name not in FOREIGN and not any(file.endswith(f"/{name}") for file in files()):
            yield name
    known = (each.known, defined(), FOREIGN_SYMBOLS, keyword.kwlist)
    for name in SYMBOL.findall(each.text):
        exists = all(any(part in names for names in known) for part in name.split("."))
        if not exists and (is_c or name not in values()):
            yield f"`{name}`"
    for symbol, file, other_file, other in OF_FILE.findall(each.text):
        name, wanted = symbol or other, file or other_file
        homes = [TOP / path[1:] for path in files() if path.endswith(f"/{wanted}")]
        if homes and not any(name in WORD.findall(home.read_text()) for home in homes):
            yield f"`{name}` of {wanted}"
    if is_c:
        yield from (name for name in OF_C.findall(each.text) if not any(name in names for names in known))


def test_files_and_symbols_named_in_comments_and_docstrings_exist() -> None:
    every = texts()
    assert len(every) > 4000 and sum(len(FILE.findall(each.text)) + len(SYMBOL.findall(each.text)) for each in every) > 600
    found = [f"{each.path.relative_to(TOP)}:{each.line}: {name}" for each in every for name in missing(each)]
    assert not found, "\n".join(["rename or delete what is named and does not exist:", *found])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see gone.py and ir.py.", ["gone.py"]),
        ("see `planning/gone.c`, planning/search/stage_growth.c", ["planning/gone.c"]),
        ("`vanished` and `load` and `width`", ["`vanished`"]),
        ("`ops.SPECS` and `ops.GONE`", ["`ops.GONE`"]),
        (
            "`Tables` of stage_growth.py and `growing` of stage_growth.py, stage_growth.py: `gone`",
            ["`Tables` of stage_growth.py", "`gone` of stage_growth.py"],
        ),
    ],
)
def test_a_name_that_does_not_exist_is_found(text: str, wrong: list[str]) -> None:
    (each, *_) = python_texts(ROOT / "ir.py", f'def of(width, Tables):\n    """{text}"""\n')
    assert list(missing(each)) == wrong


def test_a_name_in_c_that_does_not_exist_is_found() -> None:
    (comment,) = c_texts(ROOT / "kernels" / "dsp" / "tw_dsp.h", "/* tw_gone, tw_smlad of tw.h and tw_gone.c */")
    assert list(missing(comment)) == ["tw_gone.c", "tw_gone", "tw_gone"]


def test_every_allowed_foreign_name_is_used() -> None:
    named = "\n".join(each.text for each in texts())
    assert {name for name in FOREIGN | FOREIGN_SYMBOLS if name not in named} == set()
