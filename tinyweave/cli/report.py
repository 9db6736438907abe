"""The command `report`, which writes an HTML page of models and of records that other commands printed with --json."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ..api.options import command_line, option_words
from . import steps
from .commands import app
from .modules import deployment, files, ir, page, schema
from .options import SHARED, Options, option, with_options


@app.command()
@with_options(*SHARED)
def report(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Models to plan, and JSON files that --json printed or `deploy` wrote (report.json)."
        ),
    ],
    *,
    chosen: Options,
    out: Annotated[Path, option("-o --out FILE", "HTML file to write.")] = Path("report.html"),
    show: Annotated[bool, option("--open", "Open the page in the browser.")] = False,
) -> int:
    """Write an HTML page of plans, their memory and layers.

    The page works offline and shows several models or versions side by side. JSON files of the same model are merged:
    measurements of `deploy`, the Pareto front of `plan --pareto`, the error of each layer of `quantize`.

    Example: tinyweave report kws.tflite --device stm32f412 --open
    """
    from ..report.page.merging import entries_of

    models = [path for path in sources if path.suffix.lower() != ".json"]
    typed = list(option_words(chosen))
    if typed and not models:
        raise ir.CompileError(f"{typed[0]} has no effect on records, whose plans exist", "leave it out, or give a model")
    read = {path: schema.read(path) for path in sources if path not in models}
    entries = entries_of([read[path] if path in read else _planned(path, chosen) for path in sources])
    files.write_file(out, page.page(entries))
    print(f"wrote {out}: open it in a browser" if not show else f"wrote {out}")
    if show:
        webbrowser.open(out.resolve().as_uri())
    return 0


def _planned(path: Path, chosen: Options) -> page.Entry:
    """Plan a model, and return the entry of the page: its record with advice, and its Pareto front."""
    with steps.progress_bar() as progress:
        _, entry = deployment.planned(*steps.target_of(path, chosen), chosen, with_front=True, progress=progress)
    entry.record["command"] = command_line("plan", [path], chosen)
    return entry
