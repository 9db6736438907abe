"""docs/ARCHITECTURE.md says what is there: its files and functions exist, and its table is the law of imports."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from test_imports import MAY_IMPORT, PLANNER

import tinyweave
from tinyweave.report.schema import SCHEMA

ROOT = Path(tinyweave.__file__).parent
TEXT = (ROOT.parent / "docs" / "ARCHITECTURE.md").read_text()
SUMMED_UP = {"api", "report", "cli"}  # rooms that import so many others that the table names only some


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table below a title."""
    part = TEXT.split(f"\n{title}\n")[1].split("\n#")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in part.splitlines() if line.startswith("|")][2:]


def test_every_file_and_function_that_is_named_is_there() -> None:
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`(?:: `(\w+)`)?", TEXT)
    assert len(named) > 30
    for file, function in named:
        path = ROOT.parent / file if file.startswith(("tests/", "bench/")) else ROOT / file
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


def test_the_table_of_rooms_is_the_law() -> None:
    written = {row[0].strip("`"): row[3] for row in rows("## The rooms")}
    assert set(written) == set(MAY_IMPORT) - {"__main__"}
    for room in set(written) - SUMMED_UP:
        assert set(re.findall(r"`(\w+)`", written[room])) == MAY_IMPORT[room] - {"version"}, room


def test_the_rooms_of_the_planner_stand_in_their_order() -> None:
    written = [tuple(re.findall(r"`(\w+)`", row[0])) for row in rows("### Inside planning")]
    assert [set(names) for names in written] == [set(names) - {"__init__"} for names in PLANNER]


def test_a_class_name_means_one_thing() -> None:
    """No public name is given to two classes; that of the numbers of an op's kind is each module's own."""
    homes: dict[str, list[str]] = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name for name, files in homes.items() if len(files) > 1} <= {"Parameters"}, homes


def code_files() -> list[Path]:
    paths = [path for folder in ("tinyweave", "tests", "bench", "examples") for path in (ROOT.parent / folder).rglob("*.*")]
    return [path for path in paths if path.suffix in (".py", ".c", ".h", ".js")]


# words of public names that mean here what they mean anywhere, units, other projects' names, and forms of words of TERMS.md
PLAIN = set(
    """
    11 95 abs accuracy accused address after against alone arch at before begin best bias bits boards by caches calibrated calls
    changes chosen classes clock coco code cols command compare compared compile compiler compilers convert correct count
    cumulated db deploy deployed diff digests drop dtype end epochs equalize error estimate every example exceeded external
    fidelities file firmware float folder format full gained gains helps hint hz inputs int8 interval io kept label labels least
    left line litert load lost ma made max measure measured memories method methods min minutes missing mj module ms name
    nearest needs new note now of offset offsets ok on optimize options orders original out output outputs owner parameters per
    pixels places planned planning prefix preparation prepare prepared processes producers proxies prune pruned published
    quantize ram range rate ray read real reason reorder run saved schema sha256 shape shapes shares stride test timings
    tinyweave tool top total train trained unsupported until up used validation verified verify version voc volts warm ways why
    without written
    """.split()
)


def public_names() -> Iterator[str]:
    """Yield what `tinyweave` offers, its parameters and fields, and the keys of what `--json` prints."""
    for name in tinyweave.__all__:
        offered = getattr(tinyweave, name)
        yield name
        if inspect.isfunction(offered):
            yield from inspect.signature(offered).parameters
        if is_dataclass(offered):
            yield from (field.name for field in fields(offered))
    yield from keys(json.loads(SCHEMA.read_text()))


def keys(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from keys(inner)


def forms(word: str) -> Iterator[str]:
    yield word
    yield from (word.removesuffix(end) for end in ("s", "es", "ed", "d", "ing", "r"))
    yield from (word + end for end in ("s", "es", "ed", "d"))


def test_every_word_of_a_public_name_is_a_term_or_plain_english() -> None:
    terms = {word for row in rows_of_terms() for word in re.findall(r"[a-z0-9]+", row[0].lower())}
    used = {word.lower() for name in public_names() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)}
    unknown = {word for word in used if terms.isdisjoint(forms(word))}
    assert unknown <= PLAIN, unknown - PLAIN


TABLES = {"tinyweave/kernels/table.py"}  # rows of one kind, which are read one at a time


def test_no_file_of_code_has_more_than_500_lines_but_tables() -> None:
    lengths = {str(path.relative_to(ROOT.parent)): path.read_text().count("\n") for path in code_files()}
    assert len(lengths) > 500
    assert {name for name, length in lengths.items() if length > 500} == TABLES


def test_no_folder_of_code_shows_more_than_25_files() -> None:
    folders = [
        path for top in ("tinyweave", "tests", "bench") for path in [ROOT.parent / top, *(ROOT.parent / top).rglob("*/")]
    ]
    code = [path for path in folders if any(file.suffix in (".py", ".c", ".js") for file in path.iterdir())]
    counts = {str(path.relative_to(ROOT.parent)): sum(file.is_file() for file in path.iterdir()) for path in code}
    assert len(counts) > 50
    assert {name: count for name, count in counts.items() if count > 25} == {}


def test_the_words_are_sorted_and_each_stands_once() -> None:
    words = [row[0].strip("`").lower() for row in rows_of_terms() if not row[0].startswith("`")]
    assert words == sorted(set(words))


def rows_of_terms() -> list[list[str]]:
    text = (ROOT.parent / "docs" / "TERMS.md").read_text()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")][2:]
