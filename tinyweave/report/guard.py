"""Report the result of `guard`: as a record (a dict for `--json`), as a table on the terminal, and as Markdown."""

from __future__ import annotations

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
                "sha256": each.sha256,
                "device": each.config.device,
                "verified": each.verified,
                "limits": dict(each.config.limits),
                "now": dict(each.now),
                "before": None if each.before is None else dict(each.before),
                "exceeded": each.exceeded,
            }
            for each in results
        ],
    }


def guard_rows(record: Record) -> list[tuple[str, ...]]:
    """Return table cells: a header, then a row per model and measurement.

    Each row has the limit, the value now, the value in tinyweave.lock.json, the change, and "ok" or "TOO MUCH". A model with a
    wrong output byte has a further row, "DIFFERS".
    """
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
    """Return a number as text; "-" for None."""
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
    out.print(Text(guard_verdict(record)))


def guard_verdict(record: Record) -> str:
    """Return a sentence: that all limits hold and all bytes are right, or which models fail."""
    wrong = [clean(each["name"], 40) for each in record["guarded"] if each["exceeded"] or not each["verified"]]
    if not wrong:
        return f"all limits hold, every byte is right: {len(record['guarded'])} of {len(record['guarded'])}"
    return f"not as it must be: {', '.join(wrong)}"


def guard_markdown(record: Record) -> str:
    """Return verdict and table as Markdown, for a pull request or the summary of a CI run."""
    head, *rows = guard_rows(record)
    lines = [f"| {' | '.join(head)} |", "|---|---|---:|---:|---:|---:|---|"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join([f"**tinyweave guard**: {guard_verdict(record).replace('|', '/')}", "", *lines]) + "\n"
