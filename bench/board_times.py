"""Do estimates agree with the times of other engines on boards, whose Flash is on the chip or beside it?

In: a table of published times (--times), a folder of .tflite files (--models). For the last column, also a folder of static
libraries of CMSIS-NN, CORE.a, and its headers (--library, --include); neither is part of this project. Out, per row of a
network in the folder: the time on the board; the estimate for tinyweave's C, and of it the reads of Flash beside the chip; the
estimate for the same kernels, by one call of the library per layer, with the same model of the Flash. Other rows are counted
with the reason. Exit code 1: a time with the library's kernels is outside of the estimated range.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).with_name("peers")))
from cmsis_calls import call, has_function
from models import lcg_samples
from peers import computing, only, shared_graph

from tinyweave import api
from tinyweave.api.runs import flash_caches, flash_waits
from tinyweave.devices import Device, find
from tinyweave.simulate import emulated
from tinyweave.simulate.instruction_timing import Cycles

SHARED = Path(__file__).resolve().parents[2] / "shared"
NETWORKS = {"ad": "mlcommons__tiny__ad01_int8", "ds_cnn": "mlcommons__tiny__kws_ref_model"}
BOARDS = {"nucleo_f446re": "stm32f446", "nucleo_h753zi": "stm32h743", "pico2_rp2350": "rp2350"}
LEFT_OUT = {
    "ts": "its network is not published as a file",
    "mbv2_a35_r224": "the engine computes overlapping tiles anew, and no other engine ran this network",
}
OTHER_KERNELS = {("tflm", "ds_cnn")}  # computes the mean of each channel (MEAN) by portable C of its own
COLUMNS = ("board", "network", "engine", "measured, ms", "tinyweave's C, ms (range)", "of these reads of Flash, ms (range)")


class Row(NamedTuple):
    """A published time. kernels: `cmsis_nn`, or `s8_ref` for portable C of that engine."""

    engine: str
    kernels: str
    model: str
    board: str
    ms: float


def published(path: Path) -> list[Row]:
    lines = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")][1:]
    return [
        Row(engine, kernels, model.removesuffix("_matched"), board, float(ms))
        for engine, kernels, model, board, _, ms, *_ in lines
    ]


def shown(cycles: Cycles | None, device: Device) -> str:
    """Return cycles as likely milliseconds and their range, "-" for None."""
    if cycles is None or device.clock_hz is None:
        return "-"
    fewest, likely, most = (f"{1e3 * count / device.clock_hz:,.2f}" for count in cycles)
    return f"{likely} ({fewest} to {most})"


@cache
def ours(path: Path, device: Device) -> tuple[Cycles | None, Cycles | None]:
    """Return the cycles of tinyweave's C with the fastest plan, and of these the cycles of reads of Flash beside the chip."""
    model = api.load(path, io="model")
    plan = api.make_plan(model, api.Request(objective="speed", limits=api.limits_of(device), core=device.core))
    profile = api.profile_plan(model, plan, device.core, lcg_samples(model.graph, 1)[0], device=device, by_step=False)
    return profile.cycles, profile.reading.cycles if profile.reading else None


@cache
def of_library(path: Path, device: Device, library: Path, include: tuple[Path, ...]) -> Cycles:
    """Return the cycles of one call of the library per layer, with the caches of the board, empty at each call."""
    graph, total = shared_graph(api.load(path, io="model")), Cycles(0, 0, 0)
    for op in computing(graph):
        alone = only(graph, op)
        if has_function(alone):
            caches = flash_caches(device.core, device)
            done = call(alone, device.core, lcg_samples(alone, 1)[0], library, include, caches=caches)
            for part in emulated.cycles(device.core, done, flash_waits(device.core, device)).values():
                total = total.plus(*part)
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=Path, default=SHARED / "BOARD_TIMES.tsv")
    parser.add_argument("--models", type=Path, default=SHARED / "models")
    parser.add_argument("--library", type=Path, help="folder of CMSIS-NN as static libraries, CORE.a")
    parser.add_argument("--include", type=Path, nargs="+", default=[], help="folders of headers: Include of CMSIS-NN")
    options = parser.parse_args(arguments)
    columns = (*COLUMNS, *(["the same kernels, ms (range)"] if options.library else []))
    print(f"| {' | '.join(columns)} |\n|---|---|---{'|---:' * (len(columns) - 3)}|")
    missed, without = False, dict[str, int]()
    for row in sorted(published(options.times), key=lambda row: (row.board, row.model, row.kernels)):
        path = options.models / f"{NETWORKS.get(row.model, row.model)}.tflite"
        if row.model in LEFT_OUT or not path.exists():
            without[row.model] = without.get(row.model, 0) + 1
            continue
        device, theirs = find(BOARDS[row.board]), None
        library = options.library / f"{device.core}.a" if options.library else None
        is_same = row.kernels == "cmsis_nn" and (row.engine, row.model) not in OTHER_KERNELS
        if is_same and library and library.exists():
            theirs = of_library(path, device, library, tuple(options.include))
            missed |= not theirs.fewest <= row.ms / 1e3 * (device.clock_hz or 0) <= theirs.most
        cycles, reads = ours(path, device)
        engine = f"{row.engine}, {row.kernels}"
        counts = " | ".join(shown(each, device) for each in (cycles, reads, theirs)[: len(columns) - 4])
        print(f"| {device.name} | {row.model} | {engine} | {row.ms:.2f} | {counts} |", flush=True)
    for name, count in without.items():
        print(f"\n{name}: {count} rows left out: {LEFT_OUT.get(name, 'its file is not in the folder')}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
