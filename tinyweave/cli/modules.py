"""The modules that verbs use: each is imported when something of it is first asked for, so that `--help` imports none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .. import api, codegen, devices, files, guarding, ir, manifest, planning, results, toolchain
    from ..explorer import server
    from ..report import (
        columns,
        counts,
        figure,
        front,
        front_figure,
        markdown,
        measured,
        page,
        schema,
        tables,
        text,
        viewers,
        words,
    )
    from ..report import guard as guard_report
    from ..report import record as records
    from . import samples as sample_files
else:
    api, codegen, devices, files, guarding = map(lazy, ("api", "codegen", "devices", "files", "guarding"))
    ir, manifest, planning, results, toolchain = map(lazy, ("ir", "manifest", "planning", "results", "toolchain"))
    columns, counts, figure, front, front_figure, guard_report, markdown, measured = (
        lazy(f"report.{name}")
        for name in ("columns", "counts", "figure", "front", "front_figure", "guard", "markdown", "measured")
    )
    page, records, schema, tables, text, viewers, words = (
        lazy(f"report.{name}") for name in ("page", "record", "schema", "tables", "text", "viewers", "words")
    )
    sample_files, server = lazy("cli.samples"), lazy("explorer.server")
