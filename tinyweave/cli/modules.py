"""The modules that commands use. Each is imported when its first attribute is read, so that `--help` imports none of them."""

# ruff: noqa: F401 (they are this module's names)
from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .. import api, devices, ir, planning
    from ..api import guarding, results
    from ..report import (
        columns,
        deployment,
        figure,
        front,
        front_figure,
        measured,
        page,
        proposals,
        quantisation,
        schema,
        tables,
        text,
        viewers,
    )
    from ..report import guard as guard_report
    from ..report import record as records
    from ..support import files, manifest, toolchain
    from . import samples as sample_files
else:
    NAMES = {
        "api": "guarding results",
        "report": "columns deployment figure front front_figure measured page proposals quantisation schema tables text "
        "viewers",
        "support": "files manifest toolchain",
    }
    globals().update({name: lazy(f"tinyweave.{name}") for name in "api devices ir planning".split()})
    globals().update({name: lazy(f"tinyweave.{package}.{name}") for package, names in NAMES.items() for name in names.split()})
    guard_report, records = lazy("tinyweave.report.guard"), lazy("tinyweave.report.record")
    sample_files = lazy("tinyweave.cli.samples")
