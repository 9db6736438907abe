"""The commands `search` and `train`, which search for a network for samples, or train a given one, and write its C."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyweave.api.options import LIMITS, PlanOptions
from tinyweave.cli import steps
from tinyweave.cli.commands import app
from tinyweave.cli.modules import columns, files, ir, page, records
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

if TYPE_CHECKING:
    from . import arch, costs, halving, prepare, search_options, search_report, searching, space, verbs
else:
    arch, costs, halving, prepare, search_options, search_report, searching, space, verbs = (
        lazy(f"{__package__}.{name}")
        for name in "arch costs halving prepare search_options search_report searching space verbs".split()
    )

CARD, RECORD = "card.md", "result.json"
FEATURES = ("log-mel", "mfcc")


def sample_options(
    *,
    task: Annotated[str, option("--task images|visual-wake-words|keywords|sensors|detection", "Kind of task.")],
    data: Annotated[
        Path,
        option(
            "--data PATH",
            "Samples: a folder per class, or a file; for detection, a dataset as VOC or COCO.",
        ),
    ],
    out: Annotated[Path, option("-o --out DIR", "Folder for the run, network and C.")],
    stream_inputs: StreamInputs = False,
    max_mac_overhead: Overhead = None,
    energy_mj: Annotated[
        float | None, option("--energy-mj X", "Energy limit of one inference in mJ, estimated from the device's current.")
    ] = None,
    seconds: Annotated[float, option("--seconds X", "Keywords: length of a recording in seconds.")] = 1.0,
    features: Annotated[
        str, option("--features log-mel|mfcc", "Keywords: input of the network, log-mel bands or MFCC.")
    ] = "log-mel",
    hop: Annotated[
        float | None,
        option(
            "--hop X",
            "Keywords: milliseconds from one frame to the next; by default `search` chooses it and `train` takes it from ARCH.",
            min=1,
        ),
    ] = None,
    by_speaker: Annotated[
        bool,
        option(
            "--by-speaker",
            "Keywords: split the samples by speaker, so that the test has only speakers who are not in training.",
        ),
    ] = False,
    classes: Annotated[
        str | None,
        option("--classes A,B", "Classes to detect. Detection: by default all classes; visual wake words: by default person."),
    ] = None,
    seed: Annotated[
        int, option("--seed N", "Seed of the search and training; equal seeds and options give equal networks.", min=0)
    ] = 0,
) -> None:
    """Declare the options of task, samples and planning that `search` and `train` share; see `with_options`."""


@app.command(rich_help_panel="Make")
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
    strategy: Annotated[
        str,
        option(
            "--strategy auto|halving|supernet",
            "halving trains many networks briefly and the best of them longer; supernet trains all networks at once with "
            "shared weights and searches by evolution; auto is halving, or supernet with --against or under torchrun.",
        ),
    ] = "auto",
    against: Annotated[
        list[str] | None, option("--against ram|flash|macs|ms|mj", "Supernet: find the Pareto front of accuracy and this cost.")
    ] = None,
    space_name: Annotated[
        str,
        option(
            "--space auto|mobilenet_v3|mobilenet_v3_by_group",
            "Images: search space; mobilenet_v3 has squeeze and excitation, and varies image size and width.",
        ),
    ] = "auto",
    search_plan: Annotated[
        bool,
        option(
            "--search-plan",
            "Also search for each network the schedule, the use of --stream-inputs and --max-mac-overhead, and smaller kernels "
            "in the first blocks.",
        ),
    ] = False,
    feasible: Annotated[
        float,
        option(
            "--feasible X",
            "Least share of the networks of an input size, or of a supernet's width, that must fit the device, so that the "
            "search may choose it.",
        ),
    ] = 0.8,
    tensorboard: Annotated[
        bool, option("--tensorboard", "Supernet: write a TensorBoard log of its training to OUT/tensorboard.")
    ] = False,
    size: Annotated[
        str | None,
        option(
            "--size N|RxC",
            "Images, detection: size of the input image in pixels, as 96 (square) or 120x160 (rows x columns); by default the "
            "search chooses it.",
        ),
    ] = None,
    channels: Annotated[
        int, option("--channels N", "Images, detection: channels of the input image, 3 (RGB) or 1 (grey).")
    ] = 3,
    bands: Annotated[
        int | None, option("--bands N", "Keywords: number of log-mel bands; by default the search chooses it, of MFCC 40.")
    ] = None,
    coefficients: Annotated[int, option("--coefficients N", "Keywords: number of MFCC per frame.", min=1)] = 10,
    window: Annotated[int, option("--window N", "Sensors: rows (moments) in an input of the network.", min=4)] = 128,
    processes: Annotated[int, option("--processes N", "Number of networks trained in parallel.", min=1, max=256)] = 2,
    ray: Annotated[
        bool, option("--ray", "Train on the Ray cluster that RAY_ADDRESS names, or else on a local Ray cluster.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Find a network for your samples that fits a device.

    Excludes networks that do not fit the device. Trains the others by successive halving or as a supernet, makes the best
    network int8, writes its C and verifies every output byte. If the run is interrupted, the same command resumes it.

    Example: tinyweave search --task keywords --data words --device stm32f412 --ram 24k --latency-ms 100 -o found
    """
    prepared = prepare.Preparation(
        size=None if size is None else _size(size),
        channels=channels,
        seconds=chosen["seconds"],
        bands=bands,
        hop_ms=chosen["hop"],
        by_speaker=chosen["by_speaker"],
        window=window,
        classes=_names(chosen["classes"] or ""),
        space=space_name,
        coefficients=coefficients if _is_mfcc(chosen) else 0,
    )
    target = _target(chosen)
    with _says_how_to_continue(chosen["out"]), nullcontext(lambda *_: None) if _is_beside() else steps.progress_bar() as report:
        given = search_options.SearchOptions(
            strategy=strategy,
            minutes=minutes,
            seed=chosen["seed"],
            processes=processes,
            ray=ray,
            against=against or (),
            feasible=feasible,
            tensorboard=tensorboard,
        )
        samples, searched, left = prepare.task_within(
            chosen["task"], chosen["data"], prepared, target, chosen["out"], options=given, progress=report
        )

        def progress(what: str, done: int, total: int) -> None:
            if what.startswith(searching.NEEDS):
                print(f"tinyweave: the search {what} of wall-clock time, if no other program runs", file=sys.stderr)
            report(what, done, total)

        if search_plan:
            searched = space.with_plan_genes(
                searched, stream_inputs=chosen["stream_inputs"], max_mac_overhead=chosen["max_mac_overhead"]
            )
        found = searching.search(samples, searched, target, chosen["out"], left, progress=progress)
    return _finish(found, as_json=as_json)


@app.command(rich_help_panel="Make")
@with_options(sample_options, target_options)
def train(
    network: Annotated[
        Path, typer.Argument(metavar="ARCH", help="A .json file of an architecture, such as a search's arch.json.")
    ],
    *,
    chosen: Options,
    epochs: Annotated[int, option("--epochs N", "Number of epochs.", min=1)] = 100,
    bands: Annotated[int, option("--bands N", "Keywords: number of log-mel bands, from which MFCC are computed.")] = 40,
    as_json: Json = False,
) -> int:
    """Train a given network on your samples and write its C.

    Trains and quantises the network, writes its C and verifies every output byte. If the run is interrupted, the same command
    resumes it.

    Example: tinyweave train net.json --task images --data photos --epochs 50 --device stm32f746 -o trained
    """
    given = arch.read_arch(network)
    settings = prepare.Preparation(
        seconds=chosen["seconds"],
        bands=bands,
        hop_ms=chosen["hop"],
        by_speaker=chosen["by_speaker"],
        classes=_names(chosen["classes"] or ""),
        coefficients=int(_is_mfcc(chosen)),
    )
    prepared = prepare.prepared_for(given, settings)
    target = _target(chosen)
    with _says_how_to_continue(chosen["out"]), steps.progress_bar() as report:
        samples, searched = prepare.task_of(chosen["task"], chosen["data"], prepared, report)
        prepare.check_network(given, samples)
        found = searching.search(
            samples,
            searched,
            target,
            chosen["out"],
            search_options.SearchOptions(seed=chosen["seed"], processes=1, rungs=[halving.Rung(1, epochs)], archs=[given]),
            progress=report,
        )
    return _finish(found, as_json=as_json)


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


def _names(given: str) -> tuple[str, ...]:
    """Split text at commas, and return the names without spaces around them."""
    return tuple(filter(None, map(str.strip, given.split(","))))


def _target(chosen: Options) -> costs.Target:
    """Return the device, limits and planner options for which networks are searched."""
    options = {name: chosen[name] for name in ("stream_inputs", "max_mac_overhead", *LIMITS)}
    return verbs.target_of(chosen["device"], PlanOptions(**options), chosen["energy_mj"])


def _is_mfcc(chosen: Options) -> bool:
    """Return whether --features is mfcc; raise CompileError if it is unknown."""
    if (name := chosen["features"]) not in FEATURES:
        raise ir.CompileError(f"--features {name} is unknown", f"it is one of {', '.join(FEATURES)}")
    return str(name) == FEATURES[1]


def _size(given: str) -> tuple[int, int]:
    """Parse --size into (rows, columns): one side, such as 32, or rows and columns, such as 120x160."""
    sides = given.split("x")
    if not all(side.isdecimal() and len(side) < 6 for side in sides) or len(sides) > 2:
        raise ir.CompileError(f"--size {given} is no size", "give a side such as 32, or rows and columns such as 120x160")
    return int(sides[0]), int(sides[-1])


def _finish(found: searching.SearchResult, *, as_json: bool) -> int:
    """Write the reports of a finished search into its folder, print the result, and return the exit code."""
    run = json.loads((found.folder / search_options.RUN).read_text())
    record = search_report.search_record(found, run)
    contents = {
        CARD: search_report.card(record),
        RECORD: json.dumps(record, indent=2) + "\n",
        "arch.json": record["arch"] + "\n",
    }
    contents["report.html"] = page.page([page.Entry(records.deployment_record(found.deployment), search=record)])
    files.write_files({found.folder / name: content for name, content in contents.items()})
    steps.show(record, lambda: [search_report.show_search], as_json=as_json)
    return DIFFERS if not record["verified"] else 0 if found.fits else DOES_NOT_FIT
