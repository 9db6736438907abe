"""The commands `search` and `train`, which search for a network for samples, or train a given one, and write its C."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tinyweave.api.options import LIMITS, PlanOptions
from tinyweave.cli import steps
from tinyweave.cli.commands import app
from tinyweave.cli.modules import columns, files, page, records
from tinyweave.cli.options import (
    DIFFERS,
    DOES_NOT_FIT,
    Json,
    Options,
    Overhead,
    StreamInputs,
    option,
    target_options,
    with_options,
)
from tinyweave.lazy import lazy

from .settings import TASKS, Preparation, pairs, parsed, settings_help

if TYPE_CHECKING:
    from . import one_shot, search_options, search_report, searching, verbs
else:
    one_shot, search_options, search_report, searching, verbs = (
        lazy(f"{__package__}.{name}") for name in "one_shot search_options search_report searching verbs".split()
    )

CARD, RECORD = "card.md", "result.json"


def sample_options(
    *,
    task: Annotated[str, option(f"--task {'|'.join(TASKS)}", "Kind of task.")],
    data: Annotated[
        Path,
        option(
            "--data PATH",
            "Samples: a folder per class, or a file; for detection, a dataset as VOC or COCO.",
        ),
    ],
    out: Annotated[Path, option("-o --out DIR", "Folder for the run, network and C.")],
    settings: Annotated[
        list[str] | None, option("--set NAME=VALUE", "Settings of the task and of experiments; several with commas. See below.")
    ] = None,
    stream_inputs: StreamInputs = False,
    max_mac_overhead: Overhead = None,
    energy_mj: Annotated[
        float | None, option("--energy-mj X", "Energy limit of one inference in mJ, estimated from the device's current.")
    ] = None,
    seed: Annotated[
        int, option("--seed N", "Seed of the search and training; equal seeds and options give equal networks.", min=0)
    ] = 0,
) -> None:
    """Declare the options of task, samples and planning that `search` and `train` share; see `with_options`."""


@app.command(rich_help_panel="Make", epilog=settings_help())
@with_options(sample_options, target_options)
def search(
    *,
    chosen: Options,
    minutes: Annotated[
        float | None,
        option(
            "--minutes X",
            "Limit of wall-clock time on this machine while idle: by default 20 minutes, or for a supernet on a GPU as in the "
            "TinyNAS paper. The search says how much it needs.",
            min=0.1,
        ),
    ] = None,
    processes: Annotated[int, option("--processes N", "Number of networks trained in parallel.", min=1, max=256)] = 2,
    as_json: Json = False,
) -> int:
    """Find a network for your samples that fits a device.

    Excludes networks that do not fit the device. Trains the others by successive halving or as a supernet, makes the best
    network int8, writes its C and verifies every output byte. If the run is interrupted, the same command resumes it.

    Example: tinyweave search --task keywords --data words --device stm32f412 --ram 24k --latency-ms 100 -o found
    """
    prepared, more = parsed(chosen["settings"] or (), chosen["task"])
    with _says_how_to_continue(chosen["out"]), nullcontext(lambda *_: None) if _is_beside() else steps.progress_bar() as report:

        def progress(what: str, done: int, total: int) -> None:
            for begin, said in search_options.PRINTED.items():
                if what.startswith(begin):
                    print(f"tinyweave: the search {said.format(what)}", file=sys.stderr)
            report(what, done, total)

        given = {**_given(chosen, prepared), **more}
        found = verbs.search(chosen["data"], minutes=minutes, processes=processes, progress=progress, **given)
    code = _finish(found, as_json=as_json)
    if (found.folder / one_shot.SUPERNET).is_file():
        print(f"tinyweave: for another device: {_with_supernet(chosen, found.folder)}", file=sys.stderr)
    return code


def _with_supernet(chosen: Options, folder: Path) -> str:
    """Return the command that searches for another device with the supernet in a folder, on the same samples."""
    settings = [f"{name}={value}" for name, value in pairs(chosen["settings"] or ()) if name not in ("supernet", "strategy")]
    words = ["search", "--task", chosen["task"], "--data", str(chosen["data"])]
    words += [word for each in [*settings, f"supernet={folder}"] for word in ("--set", each)]
    return f"tinyweave {columns.clean(shlex.join(words), 2000)} --device DEVICE -o FOLDER"


@app.command(rich_help_panel="Make", epilog=settings_help(trains=True))
@with_options(sample_options, target_options)
def train(
    network: Annotated[
        Path, typer.Argument(metavar="ARCH", help="A .json file of an architecture, such as a search's arch.json.")
    ],
    *,
    chosen: Options,
    epochs: Annotated[int, option("--epochs N", "Number of epochs.", min=1)] = 100,
    as_json: Json = False,
) -> int:
    """Train a given network on your samples and write its C.

    Trains and quantises the network, writes its C and verifies every output byte. If the run is interrupted, the same command
    resumes it.

    Example: tinyweave train net.json --task images --data photos -o trained
    """
    prepared, _ = parsed(chosen["settings"] or (), chosen["task"], trains=True)
    with _says_how_to_continue(chosen["out"]), steps.progress_bar() as report:
        found = verbs.train(network, data=chosen["data"], epochs=epochs, progress=report, **_given(chosen, prepared))
    return _finish(found, as_json=as_json)


def _given(chosen: Options, prepared: Preparation) -> dict[str, Any]:
    """Return the arguments that `tw.search` and `tw.train` share, from the options."""
    planning = {name: chosen[name] for name in ("stream_inputs", "max_mac_overhead", *LIMITS)}
    shared = {name: chosen[name] for name in ("device", "task", "seed", "energy_mj")}
    out = os.path.join(".", chosen["out"])  # -o may be a device's name
    return {**shared, "out": out, "options": PlanOptions(**planning), "prepared": prepared}


@contextmanager
def _says_how_to_continue(out: Path) -> Iterator[None]:
    """Print how to continue the run in the folder `out` if a signal, such as that of Ctrl-C, ends it."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            print(f"tinyweave: the same command continues the run in '{columns.clean(str(out), 400)}'", file=sys.stderr)
        raise


def _is_beside() -> bool:
    """Return whether torchrun started this process as one of several, but not as the first; only the first shows progress."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0"


def _finish(found: searching.SearchResult, *, as_json: bool) -> int:
    """Write the reports of a finished search into its folder, print the result, and return the exit code."""
    run = json.loads((found.folder / search_options.RUN).read_text())
    record = search_report.search_record(found, run)
    contents = {
        CARD: search_report.card(record),
        RECORD: json.dumps(record, indent=2) + "\n",
        "arch.json": record["arch"] + "\n",
    }
    shown = page.Entry(records.deployment_record(found.deployment), search=search_report.for_page(record))
    contents["report.html"] = page.page([shown])
    files.write_files({found.folder / name: content for name, content in contents.items()})
    steps.show(record, lambda: [search_report.show_search], as_json=as_json)
    return DIFFERS if not record["verified"] else 0 if found.fits else DOES_NOT_FIT
