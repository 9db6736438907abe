"""Write an HTML file that works without a network: page.html with page.css, draw.js (figures), a script, and its data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

PARTS = Path(__file__).parent


def filled(
    title: str,
    script: str,
    data: Mapping[str, Any],
    *,
    body: str = "",
    style: str = "",
    connect: str = "'none'",
    scripts: str = "'unsafe-inline'",
) -> str:
    """Return an HTML page that runs a script on data.

    `script` runs after draw.js, and can read `data`. `body` is there before it runs. `connect` are origins to which the page
    may send requests, `scripts` what it may run.
    """
    parts = {
        "CONNECT": connect,
        "RUN": scripts,
        "TITLE": escape(title),
        "CSS": (PARTS / "page.css").read_text(encoding="utf-8") + style,
        "BODY": body,
        "SCRIPT": (PARTS / "draw.js").read_text(encoding="utf-8") + script,
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),  # no name ends the script
    }
    before, *rest = (PARTS / "page.html").read_text(encoding="utf-8").split("@")
    return before + "".join(parts.get(part, part) for part in rest)
