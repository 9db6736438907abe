"""The command `explore`, which serves a local web page that plans networks while the user adjusts their parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyweave.cli.commands import app
from tinyweave.cli.options import option
from tinyweave.lazy import lazy

if TYPE_CHECKING:
    from . import server
else:
    server = lazy(f"{__package__}.server")


@app.command(rich_help_panel="Look")
def explore(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="[MODEL...]", help="Your models, in addition to the networks of the lesson.")
    ] = None,
    *,
    out: Annotated[Path | None, option("-o --out FILE", "Write the page to this file instead of serving it.")] = None,
    port: Annotated[int, option("--port N", "Port of the server, which only this machine can reach.", min=1, max=65535)] = 8040,
    show: Annotated[bool, option("--open", "Open the page in the browser.")] = False,
) -> int:
    """Serve a lesson that plans networks as you adjust them.

    The page has knobs for resolution, width, schedule and SRAM. It shows a fast estimate first, then the plan. You can drop
    your own models on the page; no data leaves this machine. Ctrl-C stops the server. With -o the page is written to one
    file that needs no server, but shows only formulas and stored plans.

    Example: tinyweave explore kws.tflite --open
    """
    server.explore(*(models or []), out=out, port=port, show=show)
    return 0
