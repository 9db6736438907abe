"""Write a report, made of the page of `support`, the scripts and the records, as one HTML file that works without a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...support.page import filled as with_script
from ..columns import clean
from ..front import proved_lines
from ..record import Record
from ..words import advice_lines, proof_lines, verdict_lines

PARTS = Path(__file__).parent
# script that draws a page of records
DRAW = "report(document.getElementById('page'), data.entries);"


class Entry(NamedTuple):
    """The records of one plan and its model that a page shows together; None leaves one out."""

    record: Record
    front: Record | None = None
    quantisation: Record | None = None
    search: Record | None = None


def page(entries: Sequence[Entry]) -> str:
    """Return an HTML page that shows one entry, or several side by side."""
    titles = _titles([entry.record for entry in entries])
    data = {"entries": [told(entry, title) for entry, title in zip(entries, titles, strict=True)]}
    return filled(f"{' and '.join(titles)} - tinyweave", DRAW, data)


def filled(title: str, script: str, data: Record, *, body: str = "", style: str = "", connect: str = "'none'") -> str:
    """Return an HTML page that runs a script, after budget.js and page.js, on data, as `page.filled` of `support` does."""
    own = "".join((PARTS / name).read_text(encoding="utf-8") for name in ("budget.js", "page.js"))
    return with_script(title, own + script, data, body=body, style=style, connect=connect)


def _titles(records: Sequence[Record]) -> list[str]:
    """Return a title per record: model and device, with a number if several records have the same title."""
    names = [
        clean(record["model"]["name"]) + (f" on {clean(record['device']['name'])}" if record["device"] else "")
        for record in records
    ]
    return [f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name for index, name in enumerate(names)]


def told(entry: Entry, title: str) -> Record:
    """Return an entry as the dict that page.js draws: its records, `title`, and under `says` the sentences to show."""
    short = entry.record | {"peak": None, "boards": None}  # the page shows both elsewhere, so the verdict leaves them out
    front = proved_lines(entry.front) if entry.front else []
    says = {
        "verdict": verdict_lines(short),
        "proof": proof_lines(entry.record),
        "front": front,
        "advice": advice_lines(entry.record),
    }
    return {"title": title, **entry._asdict(), "says": says}
