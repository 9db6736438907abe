"""The verb `guard`: limits that a project's models must keep, for its CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import steps
from .commands import app
from .modules import files, guard_report, guarding, text
from .options import DOES_NOT_FIT, Json


@app.command()
def guard(
    config: Annotated[
        Path, typer.Argument(metavar="FILE", help="The models and their limits; docs/GUARD.md shows one.")
    ] = Path("tinyweave.toml"),
    *,
    update: Annotated[
        bool, typer.Option("--update", help="Record how the models stand in tinyweave.lock.json beside the file.")
    ] = False,
    summary: Annotated[
        Path | None, typer.Option("--summary", metavar="FILE", help="Append the table as Markdown to this file.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Hold a project's models against limits, and show what changed.

    Deploys each model that the file lists: every byte is proved, RAM, Flash and instructions are measured. Exits with 1 when a
    limit is exceeded or a byte differs.

    Example: tinyweave guard --summary "$GITHUB_STEP_SUMMARY"
    """
    with steps.progress_bar() as report:
        results = guarding.guard(config, report)
    record = guard_report.guard_record(results)
    if update:
        guarding.write_lock(config.with_name(guarding.LOCK), results)
    if summary is not None:
        with files.told(summary), summary.open("a", encoding="utf-8") as out:
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
