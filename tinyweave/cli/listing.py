"""The commands that need no model: `devices` lists the known boards, `doctor` what is installed, `cache` the built programs."""

from __future__ import annotations

import platform
from typing import Annotated

import typer

from .. import __version__
from . import steps
from .commands import app
from .modules import columns, devices, doctor, records, text, toolchain
from .options import Json, option


@app.command(name="devices")
def list_devices(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Device to show, with its memories and sources.")] = None,
    *,
    as_json: Json = False,
) -> int:
    """List the known boards, or show one device.

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
    *, clear: Annotated[bool, option("--clear", "Delete all files in the cache folder.")] = False, as_json: Json = False
) -> int:
    """Show or empty the cache of built programs.

    Example: tinyweave cache --clear
    """
    folder, size, limit = toolchain.cache(clear=clear)
    if as_json:
        return steps.print_json({"folder": str(folder), "bytes": size, "limit": limit})
    print(f"{columns.clean(str(folder), 400)}: {size:,} B, kept below about {limit:,} B")
    return 0


@app.command(name="doctor")
def show_findings(*, as_json: Json = False) -> int:
    """Show which compilers and packages were found here.

    Of each that is missing it says what needs it and how to get it.

    Example: tinyweave doctor
    """
    found = doctor.findings()
    if as_json:
        return steps.print_json([each._asdict() for each in found])
    print(f"tinyweave {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    out = text.console()
    text.show_lines(out, columns.hanging([(each.part, each.name, str(each)) for each in found], frozenset(), out.width))
    return 0
