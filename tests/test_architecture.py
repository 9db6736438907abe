"""docs/ARCHITECTURE.md agrees with the code: its files and functions exist, its tables list the enforced imports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from test_imports import MAY_IMPORT, PACKAGES, PLANNER, modules, name_of

import tinyweave
from tinyweave.ops import SPECS

ROOT = Path(tinyweave.__file__).parent
TEXT = (ROOT.parent / "docs" / "ARCHITECTURE.md").read_text()


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table below a title."""
    part = TEXT.split(f"\n{title}\n")[1].split("\n#")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in part.splitlines() if line.startswith("|")][2:]


def test_every_file_and_function_in_architecture_md_exists() -> None:
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`(?:: `(\w+)`)?", TEXT)
    assert len(named) > 30
    for file, function in named:
        path = (ROOT.parent if file.startswith(("tests/", "bench/", *PACKAGES[1:])) else ROOT) / file
        assert path.is_file(), file
        if function:
            body = ast.parse(path.read_text()).body
            names = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
            names |= {
                target.id
                for node in body
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            names |= {node.target.id for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
            assert function in names, f"{file} has no {function}"


# kernel rows name the kinds that they run; importers map names of other frameworks; search spaces have kinds as choices
NAME_KINDS = ("ops/", "kernels/", "importers/", "tflite_schema.py")


def test_no_list_of_op_kinds_is_outside_of_ops() -> None:
    """Facts about op kinds are fields of OpSpec, so that a new kind is added in one place."""
    found = []
    for path in modules():
        if name_of(path).startswith((*(f"tinyweave/{name}" for name in NAME_KINDS), "tinynas/arch.py")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            values = node.elts if isinstance(node, (ast.List, ast.Set, ast.Tuple)) else []
            words = [value.value for value in values if isinstance(value, ast.Constant)]
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                words = node.value.split()
            if len(words) > 1 and len(words) >= len(values) and all(word in SPECS for word in words):
                found.append(f"{name_of(path)}:{node.lineno}: {' '.join(map(str, words))}")
    assert found == []


def test_the_table_of_packages_lists_the_imports_that_are_enforced() -> None:
    written = {row[0].strip("`"): row[3] for row in rows("## Packages")}
    assert set(written) == set(MAY_IMPORT) - {"__main__"}
    for package, names in written.items():
        assert set(re.findall(r"`([\w.]+)`", names)) == MAY_IMPORT[package] - {"version"}, package


def test_the_table_of_the_planner_lists_its_packages_in_import_order() -> None:
    written = [tuple(re.findall(r"`(\w+)`", row[0])) for row in rows("### Inside planning")]
    assert [set(names) for names in written] == [set(names) - {"__init__"} for names in PLANNER]


def test_class_names_are_unique() -> None:
    """No two public classes have the same name, except `Parameters` of op kinds."""
    homes: dict[str, list[str]] = {}
    for path in modules():
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE):
            homes.setdefault(name, []).append(name_of(path))
    assert {name for name, files in homes.items() if len(files) > 1} <= {"Parameters"}, homes


def code_files() -> list[Path]:
    paths = [path for folder in (*PACKAGES, "tests", "bench", "examples") for path in (ROOT.parent / folder).rglob("*.*")]
    return [path for path in paths if path.suffix in (".py", ".c", ".h", ".js")]


def docstring_lines(text: str) -> int:
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    return sum((node.body[0].end_lineno or 0) - node.body[0].lineno + 1 for node in nodes if ast.get_docstring(node))


def test_no_code_file_has_more_than_500_lines_without_docstrings() -> None:
    texts = {str(path.relative_to(ROOT.parent)): path.read_text() for path in code_files()}
    assert len(texts) > 500
    long = {name: text for name, text in texts.items() if text.count("\n") > 500}
    lengths = {name: text.count("\n") - (docstring_lines(text) if name.endswith(".py") else 0) for name, text in long.items()}
    assert {name for name, length in lengths.items() if length > 500} == set()


def test_no_code_folder_has_more_than_25_files() -> None:
    folders = [path for top in (*PACKAGES, "tests", "bench") for path in [ROOT.parent / top, *(ROOT.parent / top).rglob("*/")]]
    code = [path for path in folders if any(file.suffix in (".py", ".c", ".js") for file in path.iterdir())]
    counts = {str(path.relative_to(ROOT.parent)): sum(file.is_file() for file in path.iterdir()) for path in code}
    assert len(counts) > 50
    assert {name: count for name, count in counts.items() if count > 25} == {}


# base names of two or more modules, which have the same role in their packages
SHARED_NAMES = {
    "a command or function, and how its result is shown": {"guard", "options", "quantisation"},
    "the functions or commands of a package": {"commands", "verbs"},
    "an op or family of ops, and what each package has of it": {
        *("detection", "elementwise", "fully_connected", "movement", "quantised", "resizing", "state"),
    },
    "a file format that is read and written": {"tflite"},
}


def test_modules_of_different_roles_have_different_names() -> None:
    names = [path.stem for path in modules() if path.stem != "__init__"]
    assert {name for name in names if names.count(name) > 1} == set().union(*SHARED_NAMES.values())
