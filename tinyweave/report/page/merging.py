"""Merge results, and records of --json, into one page entry per plan, with the front and quantisation of its model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir import CompileError
from ...support.files import write_file
from .. import record, schema
from . import Entry, page

if TYPE_CHECKING:
    from ...api.results import Deployment

MERGED = ("front", "quantisation")  # kinds of records (see schema.KINDS) that are merged with the plan of the same model


def report(*sources: Deployment | str | Path, file: str | Path = "report.html") -> Path:
    """Write an HTML page of plans, their memory and layers, side by side.

    Args:
        sources: results of `deploy`, and paths of records: a report.json, or what a command printed with --json.
        file: path of the page.

    Returns:
        The path of the page.

    Raises:
        CompileError: there are no sources, a record is damaged, or a record has no plan and no source of the same model has
            one.
    """
    if not sources:
        raise CompileError("a report needs a plan", "give a result of deploy, or the path of a report.json")
    found = [
        schema.read(Path(each)) if isinstance(each, (str, Path)) else Entry(each.record or record.deployment_record(each))
        for each in sources
    ]
    write_file(Path(file), page(entries_of(found)))
    return Path(file)


def entries_of(found: Sequence[Entry | tuple[str, dict[str, Any]]]) -> list[Entry]:
    """Return one page entry per plan, in order; other records, given as (kind, record), are merged into it."""
    entries, others = list[Entry](), list[tuple[str, dict[str, Any]]]()
    for each in found:
        if isinstance(each, Entry):
            entries.append(each)
        elif each[0] == "record":
            entries.append(Entry(each[1]))
        else:
            others.append(each)
    for entry in entries:
        if entry.record["buffers"] is None:
            raise CompileError(f"the record of '{entry.record['model']['name']}' has no plan", "give one of plan or deploy")
    for kind, value in others:
        if kind not in MERGED:
            raise CompileError(f"a record of kind {kind} has no plan", "give one of plan or deploy")
        model = value["model"]
        same = [
            index
            for index, entry in enumerate(entries)
            if entry.record["model"]["sha256"] == model["sha256"]
            and (kind != "front" or value["device"] == (entry.record["device"] or {}).get("name"))
        ]
        if not same:
            also = " for the same device" if kind == "front" else ""
            why = f"the {kind} of '{model['name']}' has no plan of the same model{also}"
            raise CompileError(why, "give a record of plan or deploy, too")
        for index in same:
            entries[index] = entries[index]._replace(**{kind: value})
    return entries
