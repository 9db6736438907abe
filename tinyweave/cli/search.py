"""The verbs `search` and `train`: a folder of samples in, a trained network on a device out."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..lazy import lazy
from . import steps
from .commands import app
from .options import DIFFERS, DOES_NOT_FIT, Json, Options, Overhead, StreamInputs, target_options, with_options

if TYPE_CHECKING:
    from .. import files, ir
    from ..nas import arch, costs, halving, prepare, searching
    from ..nas import space as spaces
    from ..report import page, text
    from ..report import record as records
    from ..report import search as reports
else:
    files, ir = map(lazy, ("files", "ir"))
    page, records, reports, text = map(lazy, (f"report.{name}" for name in ("page", "record", "search", "text")))
    arch, costs, halving, prepare, searching, spaces = (
        lazy(f"nas.{name}") for name in ("arch", "costs", "halving", "prepare", "searching", "space")
    )

CARD, RECORD = "card.md", "result.json"
FEATURES = ("log-mel", "mfcc")
MAX_ARCH = 1 << 20  # bytes of a file


def sample_options(
    *,
    task: Annotated[
        str,
        typer.Option("--task", metavar="images|visual-wake-words|keywords|sensors|detection", help="What the samples are."),
    ],
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="DIR", help="A folder with a folder of files for each class; of detection VOC's or COCO's."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the run, the network and its C go.")],
    stream_inputs: StreamInputs = False,
    max_mac_overhead: Overhead = None,
    energy_mj: Annotated[
        float | None,
        typer.Option("--energy-mj", metavar="X", help="What one inference may take from the supply, by the device's current."),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Keywords: how long a recording is heard.")] = 1.0,
    features: Annotated[
        str,
        typer.Option(
            "--features", metavar="log-mel|mfcc", help="Keywords: what the network is fed: the bands, or MFCC of them."
        ),
    ] = "log-mel",
    by_speaker: Annotated[
        bool, typer.Option("--by-speaker", help="Keywords: nobody who is heard in the test is heard in training.")
    ] = False,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes", metavar="A,B", help="Detection: what to find; else all that boxes are. Visual wake words: person."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="The same seed and numbers give the same network.")
    ] = 0,
) -> None:
    """List the options that say what a network is trained on, and how it is planned."""


@app.command()
@with_options(sample_options, target_options)
def search(
    *,
    chosen: Options,
    minutes: Annotated[
        float | None, typer.Option("--minutes", metavar="X", min=0.1, help="About how long to train: 20 by default.")
    ] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="auto|halving|supernet", help="auto: supernet with a GPU or 3 hours.")
    ] = "auto",
    against: Annotated[
        list[str] | None, typer.Option("--against", metavar="ram|flash|macs|ms|mj", help="Supernet: make this small, too.")
    ] = None,
    space: Annotated[
        str,
        typer.Option(
            "--space",
            metavar="auto|mobilenet_v3|mobilenet_v3_by_group",
            help="Images: networks with squeeze and excitation, whose image and width are searched, too.",
        ),
    ] = "auto",
    search_plan: Annotated[
        bool,
        typer.Option(
            "--search-plan",
            help="Search the plan, too: the schedule, within --stream-inputs and --max-mac-overhead, and windows in the head.",
        ),
    ] = False,
    predicted: Annotated[
        int,
        typer.Option("--predicted", help="Supernet: children for each that is measured; a predictor of accuracy says which."),
    ] = 1,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Supernet: log its training into OUT/tensorboard.")
    ] = False,
    vote: Annotated[
        str,
        typer.Option(
            "--proxies",
            metavar="A,B",
            help="Halving: who votes for what is trained: parameters, macs, ram, synflow, naswot, zen, ...",
        ),
    ] = "macs,parameters",
    size: Annotated[
        str, typer.Option("--size", metavar="N|RxC", help="Images, detection: a side, or rows and columns, as 120x160.")
    ] = "32",
    channels: Annotated[int, typer.Option("--channels", help="Images, detection: 3, or 1 for grey.")] = 3,
    bands: Annotated[int, typer.Option("--bands", help="Keywords: log-mel bands of a frame.")] = 40,
    coefficients: Annotated[int, typer.Option("--coefficients", metavar="N", min=1, help="Keywords: MFCC of a frame.")] = 10,
    window: Annotated[int, typer.Option("--window", metavar="N", min=4, help="Sensors: rows of a window.")] = 128,
    processes: Annotated[int, typer.Option("--processes", metavar="N", min=1, max=256, help="Networks trained at a time.")] = 2,
    ray: Annotated[bool, typer.Option("--ray", help="Train on a Ray cluster: RAY_ADDRESS's, or one started here.")] = False,
    as_json: Json = False,
) -> int:
    """Find a network for your samples that fits a device.

    Networks that do not fit are left out before any training. The best of the rest are found by training many a little and few
    for long (halving), or by training all at once and breeding the best (supernet). The winner becomes int8 and is written as
    C, proved byte by byte. The same command goes on where it was stopped.

    Example: tinyweave search --task keywords --data words --device stm32f412 --ram 24k --latency-ms 100 -o found
    """
    prepared = prepare.Preparation(
        size=_size(size),
        channels=channels,
        seconds=chosen["seconds"],
        bands=bands,
        by_speaker=chosen["by_speaker"],
        window=window,
        classes=_names(chosen["classes"] or ""),
        space=space,
        coefficients=coefficients if _is_mfcc(chosen) else 0,
    )
    target = _target(chosen)
    with nullcontext(lambda *_: None) if _is_beside() else steps.progress_bar() as report:
        samples, searched = prepare.task_of(chosen["task"], chosen["data"], prepared, report)
        if search_plan:
            searched = spaces.planned(
                searched, stream_inputs=chosen["stream_inputs"], max_mac_overhead=chosen["max_mac_overhead"]
            )
        found = searching.search(
            samples,
            searched,
            target,
            chosen["out"],
            strategy=strategy,
            minutes=minutes,
            seed=chosen["seed"],
            processes=processes,
            ray=ray,
            against=against or (),
            predicted=predicted,
            tensorboard=tensorboard,
            proxies=_names(vote),
            progress=report,
        )
    return _told(found, as_json=as_json)


@app.command()
@with_options(sample_options, target_options)
def train(
    network: Annotated[Path, typer.Argument(metavar="ARCH", help="A network of a few numbers, as `search` writes it: .json.")],
    *,
    chosen: Options,
    epochs: Annotated[int, typer.Option("--epochs", metavar="N", min=1, help="How often each sample is seen.")] = 100,
    bands: Annotated[int, typer.Option("--bands", help="Keywords: log-mel bands of a frame, of which MFCC are made.")] = 40,
    as_json: Json = False,
) -> int:
    """Train one network on your samples, make it int8 and C of it.

    What `search` does with its winner, for a network that is given. The same command goes on where it was stopped.

    Example: tinyweave train net.json --task images --data photos --epochs 50 --device stm32f746 -o trained
    """
    given = arch.from_json(
        files.read_file(network, MAX_ARCH, "give a file that 'tinyweave search' wrote").decode(errors="replace")
    )
    rows, columns, channels = given.image
    is_mfcc = _is_mfcc(chosen)
    prepared = prepare.Preparation(
        size=(rows, columns),
        channels=channels,
        seconds=chosen["seconds"],
        bands=bands if is_mfcc else columns,
        by_speaker=chosen["by_speaker"],
        window=columns,
        classes=_names(chosen["classes"] or ""),
        coefficients=columns if is_mfcc else 0,
        anchors=given.anchors or 1,
        stride=arch.stride(given),
    )
    target = _target(chosen)
    with steps.progress_bar() as report:
        samples, searched = prepare.task_of(chosen["task"], chosen["data"], prepared, report)
        _check(given, samples)
        found = searching.search(
            samples,
            searched,
            target,
            chosen["out"],
            seed=chosen["seed"],
            processes=1,
            rungs=[halving.Rung(1, epochs)],
            archs=[given],
            progress=report,
        )
    return _told(found, as_json=as_json)


def _check(given: arch.Arch, samples: Any) -> None:
    """Raise CompileError where a network is for other samples."""
    shape, classes = samples.values.shape[1:], len(samples.classes)
    if given.image != shape:
        wanted, have = ("x".join(map(str, sides)) for sides in (given.image, shape))
        raise ir.CompileError(f"the network is for samples of {wanted}, these are {have}", "give the samples' own sizes")
    anchors = len(samples.preparation.get("anchors", ()))
    if given.anchors != anchors:
        raise ir.CompileError(f"the network has {given.anchors} anchors, the samples are for {anchors}", "0: a classifier")
    if given.classes != classes:
        raise ir.CompileError(f"the network has {given.classes} classes, the samples have {classes}", "give it as many")


def _is_beside() -> bool:
    """Return whether torchrun started this process beside the one that tells how far the search is."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0"


def _names(given: str) -> tuple[str, ...]:
    """Return names that are typed with commas between them."""
    return tuple(filter(None, map(str.strip, given.split(","))))


def _target(chosen: Options) -> costs.Target:
    board, limits = steps.target_of(chosen)
    return costs.Target(board, limits, chosen["stream_inputs"], chosen["max_mac_overhead"], energy_mj=chosen["energy_mj"])


def _is_mfcc(chosen: Options) -> bool:
    """Return whether --features asks for MFCC."""
    if (name := chosen["features"]) not in FEATURES:
        raise ir.CompileError(f"--features {name} is unknown", f"it is one of {', '.join(FEATURES)}")
    return str(name) == FEATURES[1]


def _size(given: str) -> tuple[int, int]:
    sides = given.split("x")
    if not all(side.isdecimal() and len(side) < 6 for side in sides) or len(sides) > 2:
        raise ir.CompileError(f"--size {given} is no size", "give a side as 32, or rows and columns as 120x160")
    return int(sides[0]), int(sides[-1])


def _told(found: searching.SearchResult, *, as_json: bool) -> int:
    run = json.loads((found.folder / searching.RUN).read_text())
    record = reports.search_record(found, run)
    contents = {CARD: reports.card(record), RECORD: json.dumps(record, indent=2) + "\n", "arch.json": record["arch"] + "\n"}
    contents["report.html"] = page.page([page.Entry(records.deployment_record(found.deployment), search=record)])
    files.write_files({found.folder / name: content for name, content in contents.items()})
    if as_json:
        steps.print_json(record)
    else:
        reports.show_search(text.console(), record)
    return DIFFERS if not record["verified"] else 0 if found.fits else DOES_NOT_FIT
