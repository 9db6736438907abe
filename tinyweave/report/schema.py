"""Check records (the dicts of `--json`) from untrusted files against schema.json before they are drawn."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from ..ir import CompileError
from ..support.files import read_file

SCHEMA = Path(__file__).with_name("schema.json")
VERSION = 3  # of schema.json
MAX_BYTES = 1 << 26  # of a file
KINDS = {  # a key that only one kind of record has -> the name of its definition in schema.json
    "points": "front",
    "sqnr_db": "quantisation",
    "orders": "reordering",
    "guarded": "guard",
    "models": "several",
    "candidates": "search",
    "folder": "cache",
}


def read(path: Path, wanted: str = "what 'tinyweave deploy --json' or the like prints") -> tuple[str, dict[str, Any]]:
    """Read a record of a JSON file: return the name of its definition, and the record; raise CompileError if it breaks it."""
    try:
        value = json.loads(read_file(path, MAX_BYTES, f"give {wanted}"))
    except (ValueError, RecursionError) as error:
        raise CompileError(f"'{path}' is not JSON: {error}", f"give {wanted}") from error
    kind = kind_of(value)
    version = value.get("schema") if isinstance(value, dict) else VERSION
    if version != VERSION and isinstance(version, int):
        why = f"it has version {version} of the keys, and this tinyweave reads version {VERSION}"
        raise CompileError(f"'{path}' is no record of this version: {why}", "print it again with this tinyweave")
    if fault := faults(value, kind):
        raise CompileError(f"'{path}' is no record of this version: {fault}", f"give {wanted}")
    return kind, value


def kind_of(value: Any) -> str:
    """Return the name of the definition in schema.json that applies to a value, judged by its keys."""
    if isinstance(value, list):
        return "devices"
    return next((kind for key, kind in KINDS.items() if isinstance(value, dict) and key in value), "record")


def faults(value: Any, kind: str) -> str:
    """Return the first fault of a value against the definition `kind`, or of a model's record against itself; "" if none."""
    import fastjsonschema

    try:
        _validator(kind)(value)
    except fastjsonschema.JsonSchemaValueException as error:
        return f"{error.name} {error.message.removeprefix(error.name or '').strip()}"[:400]
    return _contradiction(value) if kind == "record" else ""


@cache
def _validator(kind: str) -> Any:
    """Return a compiled function that raises JsonSchemaValueException if a value violates a definition of schema.json."""
    import fastjsonschema

    definitions = json.loads(SCHEMA.read_text(encoding="utf-8"))["definitions"]
    return fastjsonschema.compile({"definitions": definitions, "$ref": f"#/definitions/{kind}"}, use_formats=False)


def _contradiction(record: dict[str, Any]) -> str:
    """Return the first contradiction between parts of a record, such as a buffer outside the arena, or "" if there is none."""
    steps = record["plan"]["steps"]
    buffers, stages, sizes = record["buffers"], record["stages"], record["ram"]["memories"]
    if steps is None:
        return "it has buffers, but no steps" if buffers is not None else ""
    if any(value is None for value in (buffers, stages, sizes)):
        return "it has steps, but not all of their plan"
    if {layer["step"] for layer in record["layers"]} != set(range(steps)):
        return f"its layers do not lie in {steps:,} steps"
    if any(not buffer["begin"] < buffer["end"] <= steps for buffer in buffers) or any(each["step"] >= steps for each in stages):
        return "a buffer or a stage lies in no step"
    if any(buffer["offset"] + buffer["bytes"] > sizes.get(buffer["memory"], 0) for buffer in buffers):
        return "a buffer lies outside the arena"
    layers = {layer["name"] for layer in record["layers"]}
    if not layers.issuperset(name for step in record["steps"] or () for name in step["layers"]):
        return "a step has layers that are not there"
    return ""
