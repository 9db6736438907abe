"""Compare the cycles that a board measured with the estimate, for `profile --compare`.

In: the log that an exported example prints when its profile is on, and the record of `profile`. Out: table rows. The log is
untrusted: lines of other programs are skipped, and a missing or unknown layer is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median_low
from typing import Any

from ..codegen.layer import Traced, traced
from ..ir import CompileError
from ..planning import Plan
from .columns import count_text

Record = dict[str, Any]
LINE = re.compile(r"tw-profile (\w{1,100}) (\d{1,6})/(\d{1,6}) (\w{1,300}) (\d{1,10})$", re.ASCII)
# hints for an incomplete log, and for a log of another plan
BUILD = "build the export with its profile on, and save all that its example prints"
SAME = "give the options and the device with which the export was written"


def read_log(text: str, model: str, rows: Sequence[Traced]) -> list[int]:
    """Return the median cycles of each layer over the inferences of `model` (or the only one) in a log."""
    lines = [match.groups() for line in text.splitlines() if (match := LINE.search(line.strip()))]
    names = sorted({name for name, *_ in lines})
    if model not in names and len(names) != 1:  # the only model of a log may have been exported with another --name
        said = f", but of {', '.join(names[:5])}" if names else ""
        raise CompileError(f"the log has no line 'tw-profile {model} ...'{said}", BUILD)
    wanted, steps = model if model in names else names[0], max((row.step + 1 for row in rows), default=0)
    counts: dict[tuple[int, str], list[int]] = {(row.step, row.name): [] for row in rows}
    for step, count, layer, cycles in (rest for name, *rest in lines if name == wanted):
        if int(count) != steps:
            raise CompileError(f"the log is of {count} steps, and the plan has {steps}", SAME)
        if (int(step) - 1, layer) not in counts:
            raise CompileError(f"step {step} of the log has {layer}, which the plan does not have there", SAME)
        counts[int(step) - 1, layer].append(int(cycles))
    inferences = max(map(len, counts.values()), default=0)
    for (step, layer), found in counts.items():
        if len(found) != inferences:
            raise CompileError(f"the log has {len(found)} of {inferences} lines of {layer} in step {step + 1}", BUILD)
    if not any(map(any, counts.values())):
        why = "the board's counter stands still: see 'tinyweave docs export'"
        raise CompileError("the log has 0 cycles for every layer", why)
    return [median_low(found) for found in counts.values()]


def measured_records(record: Record, plan: Plan, text: str) -> list[Record]:
    """Return, for each layer, its estimated cycles, the cycles that a board measured, and their ratio (None if unknown)."""
    rows, estimates = traced(plan), {layer["name"]: layer["cycles"] for layer in record["layers"]}
    found = read_log(text, record["model"]["name"], rows)
    return [
        {
            "step": row.step,
            "name": row.name,
            "estimated": estimates[row.name],
            "measured": cycles,
            "ratio": cycles / estimates[row.name] if estimates[row.name] else None,
        }
        for row, cycles in zip(rows, found, strict=True)
    ]


def measured_rows(entries: Sequence[Record], estimated: int | None) -> list[tuple[str, str, str, str]]:
    """Return table cells: a header, a row per layer, and a row for all layers, whose estimate is `estimated`."""
    rows = [("layer", "estimated", "measured", "ratio")]
    total = sum(entry["measured"] for entry in entries)
    whole = {"name": "all", "estimated": estimated, "measured": total, "ratio": total / estimated if estimated else None}
    for entry in (*entries, whole):
        ratio = "-" if entry["ratio"] is None else f"{entry['ratio']:.2f}"
        rows.append((entry["name"], count_text(entry["estimated"]), f"{entry['measured']:,}", ratio))
    return rows
