"""The verbs that need no model: the known boards, and the folder of built programs."""

from __future__ import annotations

from typing import Annotated

import typer

from . import steps
from .commands import app
from .modules import columns, devices, records, text, toolchain
from .options import Json


@app.command(name="devices")
def list_devices(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One of them, with its memories and sources.")] = None,
    *,
    as_json: Json = False,
) -> int:
    """List the known boards, or show one.

    Example: tinyweave devices stm32h743
    """
    chosen = [devices.find(name)] if name else list(devices.all_devices())
    if as_json:
        return steps.print_json([records.device_record(device) for device in chosen])
    if name:
        text.show_device(text.console(), chosen[0])
    else:
        text.show_devices(text.console(), chosen)
    return 0


@app.command()
def cache(
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Remove everything in it.")] = False,
    as_json: Json = False,
) -> int:
    """Show the folder of built programs and its size, or empty it.

    Example: tinyweave cache --clear
    """
    if clear:
        toolchain.clear_cache()
    folder, size, limit = toolchain.cache_folder(), toolchain.cache_bytes(), toolchain.BUILDS_BYTES + toolchain.ZIG_BYTES
    if as_json:
        return steps.print_json({"folder": str(folder), "bytes": size, "limit": limit})
    print(f"{columns.clean(str(folder), 400)}: {size:,} B, kept below about {limit:,} B")
    return 0
