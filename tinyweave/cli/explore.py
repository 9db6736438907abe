"""The verb `explore`: a local page on which one turns a network's knobs and sees what it needs."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from .commands import app
from .modules import server


@app.command()
def explore(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="[MODEL...]", help="Models of your own, beside the networks that are there.")
    ] = None,
    *,
    port: Annotated[
        int, typer.Option(metavar="N", min=1, max=65535, help="Port of the page, which this machine alone can reach.")
    ] = 8040,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> int:
    """Serve a page that plans while one turns knobs.

    Resolution, width, schedule, SRAM budget: the fast form answers at once, the planner's plan takes its place. Models can be
    dropped on the page; nothing leaves this machine. Ctrl-C ends it.

    Example: tinyweave explore kws.tflite --open
    """

    def ready(address: str) -> None:
        print(f"{address}  (Ctrl-C ends it)", flush=True)
        if show:
            webbrowser.open(address)

    server.serve(models or [], port, ready)
    return 0
