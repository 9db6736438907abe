"""The verbs `search` and `train`: a folder of samples in, a trained network on a device out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..lazy import lazy
from . import steps
from .commands import app
from .options import DIFFERS, DOES_NOT_FIT, Json, Options, Overhead, StreamInputs, target_options, with_options

if TYPE_CHECKING:
    from .. import files, ir
    from ..nas import arch, costs, halving, searching, space
    from ..report import search as reports
    from ..report import text
    from ..tasks import images, sensors, sounds
else:
    files, ir, text, reports = map(lazy, ("files", "ir", "report.text", "report.search"))
    arch, costs, halving, searching, space = (
        lazy(f"nas.{name}") for name in ("arch", "costs", "halving", "searching", "space")
    )
    images, sensors, sounds = (lazy(f"tasks.{name}") for name in ("images", "sensors", "sounds"))

TASKS = ("images", "keywords", "sensors")
CARD, RECORD = "card.md", "result.json"
MAX_ARCH = 1 << 20  # bytes of a file

Task = Annotated[str, typer.Option("--task", metavar="|".join(TASKS), help="What the samples are.")]
Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="A folder with a folder of files for each class.")]
Folder = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the run, the network and its C go.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed and numbers give the same network.")]
Processes = Annotated[int, typer.Option("--processes", min=1, max=256, help="Networks trained at a time.")]
Size = Annotated[str, typer.Option("--size", metavar="N|RxC", help="Images: a side, or rows and columns, as 120x160.")]
Channels = Annotated[int, typer.Option("--channels", help="Images: 3, or 1 for grey.")]
Seconds = Annotated[float, typer.Option("--seconds", help="Keywords: how long a recording is heard.")]
Bands = Annotated[int, typer.Option("--bands", help="Keywords: log-mel features of a frame.")]
BySpeaker = Annotated[
    bool, typer.Option("--by-speaker", help="Keywords: nobody who is heard in the test is heard in training.")
]
Window = Annotated[int, typer.Option("--window", min=4, help="Sensors: rows of a window.")]


@app.command()
@with_options(target_options)
def search(
    *,
    task: Task,
    data: Data,
    out: Folder,
    chosen: Options,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="About how long to train.")] = 20,
    stream_inputs: StreamInputs = False,
    max_mac_overhead: Overhead = None,
    size: Size = "32",
    channels: Channels = 3,
    seconds: Seconds = 1.0,
    bands: Bands = 40,
    by_speaker: BySpeaker = False,
    window: Window = 128,
    seed: Seed = 0,
    processes: Processes = 2,
    as_json: Json = False,
) -> int:
    """Find a network for your samples that fits a device.

    Networks that do not fit are left out before any training; the best of the rest are found by training many a little and few
    for long; the winner becomes int8 and is written as C, proved byte by byte. The same command goes on where it was stopped.

    Example: tinyweave search --task keywords --data words --device stm32f412 --ram 24k --latency-ms 100 -o found
    """
    prepare = {
        "size": size,
        "channels": channels,
        "seconds": seconds,
        "bands": bands,
        "by_speaker": by_speaker,
        "window": window,
    }
    target = _target(chosen, stream_inputs=stream_inputs, max_mac_overhead=max_mac_overhead)
    with steps.progress_bar() as report:
        samples, searched = _task(task, data, out, prepare, report)
        found = searching.search(
            samples, searched, target, out, minutes=minutes, seed=seed, processes=processes, progress=report
        )
    return _told(found, as_json=as_json)


@app.command()
@with_options(target_options)
def train(
    network: Annotated[Path, typer.Argument(metavar="ARCH", help="A network of a few numbers, as `search` writes it: .json.")],
    *,
    task: Task,
    data: Data,
    out: Folder,
    chosen: Options,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="How often each sample is seen.")] = 100,
    stream_inputs: StreamInputs = False,
    max_mac_overhead: Overhead = None,
    channels: Channels = 3,
    seconds: Seconds = 1.0,
    bands: Bands = 40,
    by_speaker: BySpeaker = False,
    window: Window = 128,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """Train one network on your samples, make it int8, and write its C.

    What `search` does with its winner, for a network that is given. The same command goes on where it was stopped.

    Example: tinyweave train net.json --task images --data photos --epochs 50 --device stm32f746 -o trained
    """
    given = arch.from_json(
        files.read_file(network, MAX_ARCH, "give a file that 'tinyweave search' wrote").decode(errors="replace")
    )
    rows, columns, _ = given.image
    prepare = {"size": f"{rows}x{columns}", "channels": channels, "seconds": seconds, "bands": bands, "by_speaker": by_speaker}
    target = _target(chosen, stream_inputs=stream_inputs, max_mac_overhead=max_mac_overhead)
    with steps.progress_bar() as report:
        samples, searched = _task(task, data, out, prepare | {"window": window}, report)
        _check(given, samples)
        found = searching.search(
            samples,
            searched,
            target,
            out,
            seed=seed,
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
    if given.classes != classes:
        raise ir.CompileError(f"the network has {given.classes} classes, the samples have {classes}", "give it as many")


def _target(chosen: Options, *, stream_inputs: bool, max_mac_overhead: float | None) -> costs.Target:
    board, limits = steps.target_of(chosen)
    return costs.Target(board, limits, stream_inputs, max_mac_overhead)


def _task(
    task: str, folder: Path, out: Path, prepare: dict[str, Any], report: Callable[[str, int, int], None]
) -> tuple[Any, space.SearchSpace]:
    """Return the samples of a task, and the space for them."""
    match task:
        case "images":
            size = _sizes(prepare["size"])
            samples = images.read_images(folder, size, prepare["channels"], report)
            rows = size[0]
            return samples, space.small_images((rows,), prepare["channels"]) if rows <= 64 else _mobile(
                size, prepare["channels"]
            )
        case "keywords":
            by_speaker = prepare["by_speaker"]
            samples = sounds.read_sounds(folder, prepare["seconds"], prepare["bands"], by_speaker=by_speaker, progress=report)
            return samples, space.keywords(samples.values.shape[1:3])
        case "sensors":
            samples = sensors.read_sensors(folder, prepare["window"], progress=report)
            return samples, space.sensors(*samples.values.shape[2:])
    raise ir.CompileError(f"--task {task} is unknown", f"it is one of {', '.join(TASKS)}")


def _sizes(given: str) -> tuple[int, int]:
    sides = given.split("x")
    if not all(side.isdigit() for side in sides) or not 1 <= len(sides) <= 2 or not all(8 <= int(s) <= 512 for s in sides):
        raise ir.CompileError(f"--size {given} is no size", "give a side as 32, or rows x columns as 120x160, of 8 to 512")
    return int(sides[0]), int(sides[-1])


def _mobile(size: tuple[int, int], channels: int) -> space.SearchSpace:
    from dataclasses import replace

    return replace(space.MOBILE, sizes=(size,), channels=channels)


def _told(found: searching.SearchResult, *, as_json: bool) -> int:
    run = json.loads((found.folder / searching.RUN).read_text())
    record = reports.search_record(found, run)
    contents = {CARD: reports.card(record), RECORD: json.dumps(record, indent=2) + "\n", "arch.json": record["arch"] + "\n"}
    files.write_files({found.folder / name: content for name, content in contents.items()})
    if as_json:
        steps.print_json(record)
    else:
        reports.show_search(text.console(), record)
    return DIFFERS if not record["verified"] else 0 if found.fits else DOES_NOT_FIT
