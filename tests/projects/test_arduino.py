"""The Arduino library follows the specification of libraries, and its sketch runs on a stub of Arduino's header."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from projects.export import STUBS, compile_for_arm, export, model, needs, run, samples

import tinyweave as tw

REQUIRED = ("name", "version", "author", "maintainer", "sentence", "paragraph", "category", "architectures")
CATEGORIES = {"Display", "Communication", "Signal Input/Output", "Sensors", "Device Control", "Timing", "Data Storage"}
CATEGORIES |= {"Data Processing", "Other"}
KINDS = {"KEYWORD1", "KEYWORD2", "KEYWORD3", "LITERAL1", "LITERAL2"}
FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def faults(properties: str, keywords: str, headers: set[str]) -> list[str]:
    """Return which of the specification's rules a library breaks."""
    said = dict(line.split("=", 1) for line in properties.splitlines() if line and not line.startswith("#"))
    rows = [line.split("\t") for line in keywords.splitlines() if line and not line.startswith("#")]
    name, version = said.get("name", ""), said.get("version", "")
    rules = {
        "a field is missing": all(said.get(field) for field in REQUIRED),
        "name": bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\- ]{0,62}", name)) and not name.lower().startswith("arduino"),
        "version": bool(re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", version)),
        "category": said.get("category") in CATEGORIES,
        "includes": set(said.get("includes", "").split(",")) <= headers,
        "sentence": said.get("sentence", "").endswith(".")
        and not said.get("paragraph", "").startswith(said.get("sentence", "x")),
        "keywords": all(len(row) == 2 and re.fullmatch(r"\w+", row[0]) and row[1] in KINDS for row in rows) and bool(rows),
    }
    return [rule for rule, is_kept in rules.items() if not is_kept]


def test_the_arduino_library_follows_the_specification(tmp_path: Path) -> None:
    folder = export(tmp_path / "chain", "arduino", device="nrf52840")
    properties, keywords = (folder / "library.properties").read_text(), (folder / "keywords.txt").read_text()
    headers = {path.name for path in (folder / "src").glob("*.h")}
    assert faults(properties, keywords, headers) == []
    for old, new, rule in (
        ("name=chain", "name=Arduino chain", "name"),
        ("version=1.0.0", "version=1.0", "version"),
        ("category=Data Processing", "category=Networks", "category"),
        ("maintainer=tinyweave", "", "a field is missing"),
        ("includes=chain.h", "includes=other.h", "includes"),
    ):
        assert old in properties and faults(properties.replace(old, new), keywords, headers) == [rule]
    assert faults(properties, keywords.replace("\t", " "), headers) == ["keywords"]
    sketches = list((folder / "examples").rglob("*.ino"))
    assert [path.stem for path in sketches] == [path.parent.name for path in sketches] == ["chain"]
    assert all(FOLDER.fullmatch(path.name) for path in folder.rglob("*"))
    assert not (folder / "utility").exists() and not (folder / "src" / "src").exists()
    compile_for_arm(folder / "src", "nrf52840")


def test_the_arduino_sketch_builds_and_runs(tmp_path: Path) -> None:
    needs("cc", "c++")
    folder = export(tmp_path / "chain", "arduino", device="cortex-m0", inputs=samples("chain", 2))
    sketch = folder / "examples" / "chain"
    include = ["-I", STUBS / "arduino", "-I", folder / "src", "-Wall", "-Wextra", "-Werror"]
    run("cc", *include, "-c", *sorted((folder / "src").glob("*.c")), *sorted(sketch.glob("*.c")), cwd=tmp_path)
    main = STUBS / "arduino" / "main.cpp"
    objects = sorted(tmp_path.glob("*.o"))
    run("c++", *include, f'-DSKETCH="{sketch / "chain.ino"}"', main, *objects, "-o", "sketch", cwd=tmp_path)
    printed = run(tmp_path / "sketch")
    assert printed.count("chain sample") == 2 and printed.endswith("every output is the reference's, byte for byte\n")


def test_a_library_name_that_arduino_reserves_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tw.CompileError, match="must not begin with Arduino; give another package"):
        tw.export(model("chain"), out=tmp_path / "a", format="arduino", package="arduino_chain")
    assert not (tmp_path / "a").exists()
