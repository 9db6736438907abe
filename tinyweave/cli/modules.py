"""The modules that commands use. Each is imported when its first attribute is read, so that `--help` imports none of them."""

# ruff: noqa: F401 (they are this module's names)
from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .. import api, devices, files, ir, manifest, planning, toolchain
    from ..api import guarding, results
    from ..explorer import server
    from ..nas import arch, costs, halving, prepare, search_options, searching
    from ..nas import space as spaces
    from ..report import (
        columns,
        figure,
        front,
        front_figure,
        markdown,
        measured,
        page,
        quantisation,
        schema,
        tables,
        text,
        viewers,
        words,
    )
    from ..report import guard as guard_report
    from ..report import record as records
    from ..report import search as search_report
    from . import samples as sample_files
else:
    NAMES = {
        "api": "guarding results",
        "explorer": "server",
        "nas": "arch costs halving prepare search_options searching",
        "report": "columns figure front front_figure markdown measured page quantisation schema tables text viewers words",
    }
    globals().update({name: lazy(name) for name in "api devices files ir manifest planning toolchain".split()})
    globals().update({name: lazy(f"{package}.{name}") for package, names in NAMES.items() for name in names.split()})
    guard_report, records, search_report = (lazy(f"report.{name}") for name in ("guard", "record", "search"))
    sample_files, spaces = lazy("cli.samples"), lazy("nas.space")
