"""Cycles that a board counted, beside those that were estimated: what `profile --measured` shows.

In: what the example of an export printed with its profile on, and the record of a profile. Out: rows of a table. The log is
somebody's file: a line that is none of ours is passed over, a step that is missing or unknown is one clear error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median_low
from typing import Any

from ..codegen.layer import step_name
from ..ir import CompileError

Record = dict[str, Any]
LINE = re.compile(r"tw-profile (\w{1,100}) (\d{1,6})/(\d{1,6}) ([\w.]{1,300}) (\d{1,10})$", re.ASCII)
BUILD = "build the export with its profile on, and save all that its example prints"
SAME = "give the options and the device with which the export was written"


def read_log(text: str, model: str, steps: Sequence[str]) -> list[int]:
    """Return the cycles of each step: the median over the inferences of the log.

    steps: the names of the plan's steps.
    """
    lines = [match.groups() for line in text.splitlines() if (match := LINE.search(line.strip()))]
    names = sorted({name for name, *_ in lines})
    if model not in names and len(names) != 1:  # the only model of a log may have been exported with another --name
        said = f", but of {', '.join(names[:5])}" if names else ""
        raise CompileError(f"the log has no line 'tw-profile {model} ...'{said}", BUILD)
    wanted = model if model in names else names[0]
    own = [(int(step), int(count), layer, int(cycles)) for name, step, count, layer, cycles in lines if name == wanted]
    counts: dict[int, list[int]] = {}
    for step, count, layer, cycles in own:
        if count != len(steps):
            raise CompileError(f"the log is of {count} steps, and the plan has {len(steps)}", SAME)
        if not 1 <= step <= count or steps[step - 1] != layer:
            raise CompileError(f"step {step} of the log is {layer}, which the plan does not have there", SAME)
        counts.setdefault(step, []).append(cycles)
    inferences = max(map(len, counts.values()))
    for number, layer in enumerate(steps, 1):
        if len(counts.get(number, ())) != inferences:
            raise CompileError(f"the log lacks a line of step {number}, {layer}, of {inferences} inferences", BUILD)
    if not any(map(any, counts.values())):
        raise CompileError("the log has 0 cycles for every step", "the board's counter stands still: see docs/EXPORT.md")
    return [median_low(counts[number]) for number in range(1, len(steps) + 1)]


def measured_records(record: Record, text: str) -> list[Record]:
    """Return for each step what was estimated and measured, in cycles, and measured / estimated; None where not known."""
    names = [step_name(step["layers"]) for step in record["steps"]]
    found = read_log(text, record["model"]["name"], names)
    return [
        {
            "step": step["step"],
            "name": name,
            "estimated": step["cycles"],
            "measured": cycles,
            "ratio": cycles / step["cycles"] if step["cycles"] else None,
        }
        for step, name, cycles in zip(record["steps"], names, found, strict=True)
    ]


def measured_rows(entries: Sequence[Record]) -> list[tuple[str, str, str, str]]:
    """Return the table: a row for each step, and one for all."""
    rows = [("step", "estimated", "measured", "ratio")]
    known = [entry["estimated"] for entry in entries]
    estimated = sum(known) if None not in known else None
    total = sum(entry["measured"] for entry in entries)
    whole = {"name": "all", "estimated": estimated, "measured": total, "ratio": total / estimated if estimated else None}
    for entry in (*entries, whole):
        shown = "-" if entry["estimated"] is None else f"{entry['estimated']:,}"
        rows.append(
            (entry["name"], shown, f"{entry['measured']:,}", "-" if entry["ratio"] is None else f"{entry['ratio']:.2f}")
        )
    return rows
