"""The command `guard`, which checks a project's models against limits in CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import steps
from .commands import app
from .modules import api, files, guard_report, guarding, text
from .options import DOES_NOT_FIT, Json, option


@app.command()
def guard(
    config: Annotated[Path, typer.Argument(metavar="FILE", help="Models and their limits; see `tinyweave docs guard`.")] = Path(
        "tinyweave.toml"
    ),
    *,
    update: Annotated[
        bool, option("--update", "Record the measurements in tinyweave.lock.json beside FILE, for later comparisons.")
    ] = False,
    summary: Annotated[Path | None, option("--summary FILE", "Append the table as Markdown to this file.")] = None,
    as_json: Json = False,
) -> int:
    """Check a project's models against limits and recorded values.

    Deploys each model of FILE: compares every output byte with the reference and measures RAM, Flash and instructions. Exits
    with 1 if a limit is exceeded or a byte differs.

    Example: tinyweave guard --summary "$GITHUB_STEP_SUMMARY"
    """
    with steps.progress_bar() as report:
        results = api.guard(config, update=update, progress=report)
    record = guard_report.guard_record(results)
    if summary is not None:
        with files.write_errors(summary), summary.open("a", encoding="utf-8") as out:
            out.write(guard_report.guard_markdown(record))
    if as_json:
        steps.print_json(record)
    else:
        guard_report.show_guard(text.console(), record)
        if update:
            print(f"recorded in {config.with_name(guarding.LOCK)}")
        elif any(each["before"] is None for each in record["guarded"]):
            print("not recorded yet: tinyweave guard --update")
    return 0 if record["ok"] else DOES_NOT_FIT
