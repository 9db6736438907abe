"""Report the result of `guard`: as a record (a dict for `--json`), as a table on the terminal, and as Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from .. import __version__
from ..api.guarding import MEASURED, GuardResult
from .columns import align, clean, count_text, rounded
from .schema import VERSION

if TYPE_CHECKING:
    from rich.console import Console

NAMES = {  # name of a measurement -> its label with unit
    "ram": "RAM, B",
    "flash": "Flash, B",
    "latency_ms": "ms, estimated",
    "instructions": "instructions",
    "macs": "MACs",
    "accuracy": "accuracy",
    "accuracy_drop": "accuracy lost, points",
}
UNITS = {"ram": " B", "flash": " B", "latency_ms": " ms", "accuracy_drop": " points"}
OPTIONS = {"ram": "--ram", "flash": "--flash", "latency_ms": "--latency-ms"}  # limits of `deploy`
HEAD = ("model", "", "limit", "now", "recorded", "change", "")
Record = dict[str, Any]


def guard_record(results: Sequence[GuardResult]) -> Record:
    """Return the record of `guard --json`: for each model its limits, and its measurements now and in tinyweave.lock.json."""
    return {
        "tinyweave": __version__,
        "schema": VERSION,
        "ok": all(each.ok for each in results),
        "guarded": [
            {
                "name": each.config.name,
                "file": each.config.file.name,
                "path": str(each.config.file),
                "sha256": each.sha256,
                "device": each.config.device,
                "verified": each.verified,
                "limits": dict(each.config.limits),
                "now": dict(each.now),
                "before": None if each.before is None else dict(each.before),
                "limits_before": None if each.limits_before is None else dict(each.limits_before),
                "exceeded": each.exceeded,
            }
            for each in results
        ],
    }


def guard_rows(record: Record) -> list[tuple[str, ...]]:
    """Return table cells: a header, then a row per model and measurement, with limit, value now and then, and "TOO MUCH"."""
    rows: list[tuple[str, ...]] = [HEAD]
    for each in record["guarded"]:
        before = each["before"] or {}
        shown = [key for key in MEASURED if key in each["limits"] or each["now"][key] is not None]
        for number, key in enumerate(shown):
            now, old, limit = each["now"][key], before.get(key), each["limits"].get(key)
            state = "" if limit is None else "TOO MUCH" if key in each["exceeded"] else "ok"
            name = clean(each["name"], 24) if number == 0 else ""
            rows.append((name, NAMES[key], _shown(limit), _shown(now), _shown(old), _change(old, now), state))
        if not each["verified"]:
            rows.append(("", "bytes", "", "", "", "", "DIFFERS"))
    return rows


def _shown(value: float | None) -> str:
    return rounded(value) if isinstance(value, float) else count_text(value)


def _change(old: float | None, now: float | None) -> str:
    """Return the change of a value as text; "" if it is unknown or negligible."""
    if old is None or now is None or now == old or (isinstance(now, float) and abs(now - old) < 1e-4 * abs(old)):
        return ""
    return f"{'+' if now > old else '-'}{_shown(abs(now - old))}" + (f" ({now / old - 1:+.1%})" if old > 0 else "")


def show_guard(out: Console, record: Record) -> None:
    """Show the table on the terminal, with exceeded limits and wrong bytes in red, then the verdict."""
    rows = guard_rows(record)
    for row, line in zip(rows, align(rows, frozenset(range(2, 6))), strict=True):
        out.print(Text(line.rstrip(), style="dim" if row is HEAD else "red" if row[-1] in ("TOO MUCH", "DIFFERS") else ""))
    for line in [*trades(record), *guard_verdict(record)]:
        out.print(Text(line), soft_wrap=True)


def trades(record: Record) -> list[str]:
    """Return a sentence for each model whose limits changed since its values were recorded in tinyweave.lock.json."""
    sentences = []
    for each in record["guarded"]:
        now, before = each["limits"], each["limits_before"]
        if before is not None and now != before:
            changed = [key for key in MEASURED if now.get(key) != before.get(key)]
            limits = ", ".join(f"max_{key} {_shown(before.get(key))} -> {_shown(now.get(key))}" for key in changed)
            sentences.append(
                f"{clean(each['name'], 40)}: its limits were others when it was recorded ({limits}), so its plan "
                "may trade RAM, Flash and time in another way"
            )
    return sentences


def guard_verdict(record: Record) -> list[str]:
    """Return one sentence if all limits hold and all bytes are right; else a sentence for each fault, with what to do."""
    faults = [fault for each in record["guarded"] for fault in _faults(each)]
    return faults or [f"all limits hold, every output byte is right: {len(record['guarded'])} of {len(record['guarded'])}"]


def _faults(each: Record) -> list[str]:
    """Return a sentence for each limit that a model exceeds, and one if a byte is wrong."""
    name, path, device = (clean(each[key], limit) for key, limit in (("name", 40), ("path", 200), ("device", 200)))
    sentences = [] if each["verified"] else [f"{name}: a byte differs; see which: {shlex.join(['tinyweave', 'verify', path])}"]
    for key in each["exceeded"]:
        now, limit = each["now"][key], each["limits"][key]
        if now is None:
            sentences.append(f"{name}: max_{key} cannot be checked, since the value is not known for {device}; leave it out")
            continue
        advice = "quantise it with more samples"
        if key in OPTIONS:
            command = ["tinyweave", "deploy", path, "--device", device, OPTIONS[key], str(limit)]
            advice = f"see what helps: {shlex.join(command)}"
        sentences.append(f"{name} exceeds max_{key} by {_shown(now - limit)}{UNITS[key]}; raise it, or {advice}")
    return sentences


def guard_markdown(record: Record) -> str:
    """Return verdict and table as Markdown, for a pull request or the summary of a CI run."""
    head, *rows = guard_rows(record)
    lines = [f"| {' | '.join(head)} |", "|---|---|---:|---:|---:|---:|---|"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    said = [line.replace("|", "/") for line in [*guard_verdict(record), *trades(record)]]
    return "\n".join([f"**tinyweave guard**: {said[0]}", *(f"\n{line}" for line in said[1:]), "", *lines]) + "\n"
