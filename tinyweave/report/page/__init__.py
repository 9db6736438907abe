"""Make a report one HTML file that needs no network: `page` fills page.html with page.css, the scripts and the records.

In: records, as `plan`, `profile` and `deploy` print them, with what else is known of their models. Out: HTML. The script draws;
the sentences are those of the terminal, and are put beside each record here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from ..columns import clean
from ..front import proved_lines
from ..record import Record
from ..words import advice_lines, proof_lines, verdict_lines

PARTS = Path(__file__).parent
DRAW = "report(document.getElementById('page'), data.entries);"


class Entry(NamedTuple):
    """Records of one plan and its model: the plan, the Pareto front, the quantisation loss, the search that found it."""

    record: Record
    front: Record | None = None
    quantisation: Record | None = None
    search: Record | None = None


def page(entries: Sequence[Entry]) -> str:
    """Return the page of one plan, or of several side by side."""
    titles = _titles([entry.record for entry in entries])
    data = {"entries": [told(entry, title) for entry, title in zip(entries, titles, strict=True)]}
    return filled(f"{' and '.join(titles)} - tinyweave", DRAW, data)


def filled(title: str, script: str, data: Record, connect: str = "'none'") -> str:
    """Return an HTML page that runs `script` after draw.js and page.js, with `data`. connect: allowed origins of requests."""
    parts = {
        "CONNECT": connect,
        "TITLE": escape(title),
        "CSS": (PARTS / "page.css").read_text(encoding="utf-8"),
        "SCRIPT": "".join((PARTS / name).read_text(encoding="utf-8") for name in ("draw.js", "budget.js", "page.js")) + script,
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),  # no name ends the script
    }
    before, *rest = (PARTS / "page.html").read_text(encoding="utf-8").split("@")
    return before + "".join(parts.get(part, part) for part in rest)


def _titles(records: Sequence[Record]) -> list[str]:
    names = [
        clean(record["model"]["name"]) + (f" on {clean(record['device']['name'])}" if record["device"] else "")
        for record in records
    ]
    return [f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name for index, name in enumerate(names)]


def told(entry: Entry, title: str) -> Record:
    """Return the data of an entry for page.js, with its title and the sentences that the terminal shows."""
    short = entry.record | {"peak": None, "boards": None}  # the page shows both by themselves
    front = proved_lines(entry.front) if entry.front else []
    says = {
        "verdict": verdict_lines(short),
        "proof": proof_lines(entry.record),
        "front": front,
        "advice": advice_lines(entry.record),
    }
    return {"title": title, **entry._asdict(), "says": says}
