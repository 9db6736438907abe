"""Strategies of the search beside each other: halving, supernet, stage one with a supernet of its own, random networks.

In: names of sets, seeds. Out: a row per set and strategy: int8 accuracy on the test part over the seeds, RAM, Flash and time of
the networks, CPU seconds, and the difference to halving with its 95 % interval. All strategies of a set have the same time
limit and one processor, so that each trains for as many predicted CPU seconds; samples and limits are the same, too.

- `halving` and `supernet` are those of `tinyweave search`; the input has a given size;
- `stage one` chooses the input's size before the supernet (images and sound);
- `random` is halving among sampled networks only: no plain, linear or nearest-neighbour networks.

With --boards it measures what one supernet costs for several boards: the first trains it on spoken digits, the others take it,
in two thirds of the minutes; beside each stands a search with a supernet of its own.

Each search leaves a line of JSON in the folder -o, so the same command continues an interrupted run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import mean, variance
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
from by_hand import vibration
from evidence_jobs import packed, unpacked
from evidence_results import Difference, Spread, Table, cost_of
from holm import LEVEL, p_value
from page_text import filled
from small_sets import LIMITS, SHARED, cpu_seconds

from tinynas import searching
from tinynas.arch import Arch, from_json, is_fitted, to_json
from tinynas.costs import Target
from tinynas.halving import start_file
from tinynas.prepare import task_of, task_within
from tinynas.search_options import RUN, TOO_SHORT
from tinynas.settings import Preparation, SearchOptions
from tinynas.tasks.evaluation.intervals import Z_95, accuracy_interval, student_t
from tinyweave import api
from tinyweave.devices import find
from tinyweave.support.files import write_file

RESULTS = "strategies.jsonl"
STRATEGIES = ("halving", "supernet", "stage one", "random")
WORDS = """## Strategies of the search beside each other

Four strategies had the same samples, limits, minutes and one processor, so each trained for as many predicted CPU seconds:
halving and a supernet, as `tinyweave search` runs them on inputs of one given size; stage one, which chooses the input's size
before its own supernet (images and sound); and halving among sampled networks only, without plain, linear and
nearest-neighbour networks ("random"). Images are a fifth of CIFAR-10 (28 pixels, {cifar:g} minutes), sound is spoken digits
({spoken:g} minutes), series are vibration of the section above ({vibration:g} minutes). Networks are int8, and within the
limits of the first section. Intervals combine the error over the test samples (paired; samples of a machine err together)
with the error over the seeds (Student's t, spread pooled over the strategies of a set).
"""
BOARD_WORDS = """## One supernet for several boards

A search by supernet of spoken digits for the first board kept its supernet (3 minutes). For the other boards, the search was
repeated with this supernet (`--set supernet=FOLDER`, 2 minutes), and with one of its own (3 minutes). One seed.
"""
Line = dict[str, Any]


class Set(NamedTuple):
    """A data set, and how it is searched."""

    task: str
    prepared: Preparation
    minutes: float


SETS = {
    "cifar": Set("images", Preparation((28, 28)), 4),
    "spoken-digits": Set("keywords", Preparation(), 3),
    "vibration": Set("sensors", Preparation(), 2),
}


class Place(NamedTuple):
    """What a search runs for: a board, limits of RAM, Flash and milliseconds, and the folder of a search with a supernet."""

    board: str = "nrf52840"
    limits: tuple[str, str, float] | None = None  # None: those of the task in small_sets.py
    supernet: str = ""


NRF52840 = Place()
BOARDS = {  # of four cores: Cortex-M4, M7, M3 and M0+
    "nrf52840": LIMITS["keywords"],
    "stm32f746": ("16k", "64k", 10.0),
    "stm32f103": ("8k", "40k", 60.0),
    "stm32g0b1": ("12k", "40k", 200.0),
}
SHARED_SUPERNET, SHARE = "supernet of the first board", 2 / 3  # a supernet takes a third of the minutes


def path_of(name: str, folder: Path) -> Path:
    """Return the file or folder of the samples of a set; what must be made is written into `folder`."""
    if name == "vibration":
        folder.mkdir(parents=True, exist_ok=True)
        return vibration(folder)
    return SHARED / ("cifar10_fifth/train" if name == "cifar" else "fsdd/recordings")


def searched(name: str, strategy: str, seed: int, folder: Path, place: Place = NRF52840) -> Line:
    """Search a network for a set, the run in `folder`, and return what was found as JSON values."""
    task, prepared, minutes = SETS[name]
    board, path, said = find(place.board), path_of(name, folder / "samples"), list[str]()
    target, run = Target(board, api.limits_of(board, *(place.limits or LIMITS[task]))), folder / "run"
    kind = "halving" if strategy == "random" else "supernet" if strategy == "stage one" else strategy
    minutes *= SHARE if place.supernet else 1
    options = SearchOptions(kind, minutes=minutes, seed=seed, processes=1, supernet=place.supernet)
    begin, before = time.perf_counter(), cpu_seconds()
    with ExitStack() as stack:
        if strategy == "random":
            for each in ("flat_networks", "fitted_networks"):
                stack.enter_context(patch.object(searching, each, lambda *_: []))
            stack.enter_context(patch.object(searching, "_plain_networks", without_plain(searching._plain_networks)))
        if strategy == "stage one":
            data, space, options = task_within(task, path, Preparation(), target, run, options=options)
        else:
            data, space = task_of(task, path, prepared)
        found = searching.search(data, space, target, run, options, progress=lambda what, *_: said.append(what))
    labels, groups = data.part("test")[1], data.groups_of("test")
    assert found.predicted is not None, "it is a classifier"
    profile = found.deployment.profile
    assert profile is not None, "it was run on the emulated core"
    return {
        "set": name,
        "board": place.board,
        "limits": place.limits,
        "strategy": SHARED_SUPERNET if place.supernet else strategy,
        "seed": seed,
        "minutes": minutes,
        "test": len(labels),
        "correct": packed(found.predicted == labels),
        "groups": None if groups is None else np.unique(groups, return_inverse=True)[1].tolist(),
        "fits": found.fits and found.deployment.verification.ok,
        "needs": [profile.ram, profile.flash, profile.latency_ms(board)],
        "network": json.loads(to_json(found.arch)),
        "kind": kind_of(found.arch, run),
        "too_short": any(each.startswith(TOO_SHORT) for each in said),
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": cpu_seconds() - before,
    }


def without_plain(plain_networks: Any) -> Any:
    """Return `_plain_networks` without its networks, but with its function that says what is trainable."""
    return lambda *args: ([], plain_networks(*args)[1])


def kind_of(arch: Arch, run: Path) -> str:
    """Return which kind of candidate a search has returned: fitted (linear, nearest neighbours), plain, evolved, sampled."""
    if is_fitted(arch):
        return "fitted"
    record = json.loads((run / RUN).read_text())
    number = next(i for i, each in enumerate(record["candidates"]) if from_json(json.dumps(each["arch"])) == arch)
    if (run / start_file(number)).is_file():
        return "evolved"
    return "sampled" if number >= record["rungs"][0][0] - record["sampled"] else "plain"


def difference(first: Sequence[Line], second: Sequence[Line], spread: Spread) -> Difference:
    """Return the difference in accuracy of two strategies on a set, in points, with its 95 % interval.

    The half-width is the root of the sum of squares of two: over the test samples, paired and averaged over the seeds (samples
    of a group err together), and over the seeds, from the pooled spread of all strategies.
    """
    seeds = len(first)
    correct = [np.mean([unpacked(each["correct"], each["test"]) for each in lines], axis=0) for lines in (first, second)]
    values = 100 * (correct[0] - correct[1])
    of = np.arange(len(values)) if first[0]["groups"] is None else np.array(first[0]["groups"])
    sums = np.bincount(of, values - values.mean())
    error = math.sqrt((sums**2).sum() * len(sums) / max(1, len(sums) - 1)) / len(values)
    by_seed, middle = math.sqrt(2 * spread.variance / seeds), float(values.mean())
    if not spread.freedom:  # a seed alone gives no verdict
        return Difference(middle, middle - Z_95 * error, middle + Z_95 * error)
    half = math.hypot(Z_95 * error, student_t(spread.freedom) * by_seed)
    return Difference(middle, middle - half, middle + half, p_value(middle, error, by_seed, spread.freedom))


def rows_of(name: str, lines: Sequence[Line]) -> list[list[object]]:
    """Return a row per strategy of a set, whose lines these are."""
    kinds = {each: [line for line in lines if line["strategy"] == each] for each in STRATEGIES}
    kinds = {strategy: own for strategy, own in kinds.items() if own}
    accuracies = {each: [100 * accuracy(line) for line in own] for each, own in kinds.items()}
    several = [each for each in accuracies.values() if len(each) > 1]
    spread = Spread(mean(map(variance, several)) if several else 0.0, sum(len(each) - 1 for each in several))
    rows = list[list[object]]()
    for strategy, own in kinds.items():
        values, (ram, flash, ms) = (
            accuracies[strategy],
            (mean(each) for each in zip(*(line["needs"] for line in own), strict=True)),
        )
        row = [name, strategy, f"{mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"]
        against = None if strategy == STRATEGIES[0] else difference(own, kinds[STRATEGIES[0]], spread)
        networks = ", ".join(line["kind"] for line in own)
        cpu = mean(line["cpu_seconds"] for line in own)
        rows.append([*row, against, networks, f"{ram:,.0f}", f"{flash:,.0f}", f"{ms:.1f}", f"{cpu:.0f}"])
    return rows


def accuracy(line: Line) -> float:
    """Return the share of the test samples that are classified right."""
    return float(unpacked(line["correct"], line["test"]).mean())


def table(lines: Sequence[Line]) -> Table:
    """Return the table of all sets."""
    heads = [
        "set",
        "strategy",
        "test accuracy, %",
        "minus halving, points",
        "networks found",
        "RAM, B",
        "Flash, B",
        "ms",
        "CPU s",
    ]
    return Table(heads, [row for name in SETS for row in rows_of(name, [each for each in lines if each["set"] == name])])


def p_values(lines: Sequence[Line]) -> list[float]:
    """Return the p-values of all comparisons of the section."""
    return [each.p for each in table([line for line in lines if not line["limits"]]).differences()]


def section(lines: Sequence[Line], limit: float) -> str:
    """Return the section of docs/EVIDENCE.md; `limit` is the largest p-value of a verdict."""
    minutes = {name.split("-")[0]: own.minutes for name, own in SETS.items()}
    boards = [line for line in lines if line["limits"]]  # the lines of --boards
    lines = [line for line in lines if not line["limits"]]
    short = " and ".join(dict.fromkeys(f"on {each['set']}" for each in lines if each["too_short"]))
    command = f"Command: `bench/tinynas/strategies.py -o DIR --seeds {1 + max(line['seed'] for line in lines)}`."
    warned = f"Before it began, the search said that the time does not suffice for a supernet: {short or 'never'}."
    parts = [filled(WORDS.format(**minutes)), table(lines).text(limit), filled(warned)]
    parts.append(filled(f"{command} Cost: {cost_of(lines)}."))
    if boards:
        costs = f"Command: `bench/tinynas/strategies.py -o DIR --boards`. Cost: {cost_of(boards)}."
        parts += [filled(BOARD_WORDS), boards_table(boards).text(limit), filled(costs)]
    return "\n".join(parts)


def on_boards(folder: Path) -> list[Line]:
    """Search a network of spoken digits for each board by the supernet of the first, and by its own; return what was found."""
    name, lines, first = "spoken-digits", list[Line](), next(iter(BOARDS))
    for board, limits in BOARDS.items():
        for kind in ("own", "shared") if board != first else ("own",):
            supernet = str(folder / first / "own" / "run") if kind == "shared" else ""
            place = Place(board, limits, supernet)
            lines.append(remembered(folder / board / kind, lambda at: searched(name, "supernet", 0, at, place)))  # noqa: B023
    return lines


def boards_table(lines: Sequence[Line]) -> Table:
    """Return the table of the boards."""
    rows = list[list[object]]()
    for line in sorted(lines, key=lambda line: [*BOARDS].index(line["board"])):
        correct, groups = unpacked(line["correct"], line["test"]), line["groups"]
        low, high = accuracy_interval(correct, None if groups is None else np.array(groups))
        ram, flash, ms = line["needs"]
        limits = "{}, {}, {:g} ms".format(*line["limits"])
        said = f"{100 * accuracy(line):.1f} ({100 * low:.1f} to {100 * high:.1f})"
        cost = f"{ram:,} | {flash:,} | {ms:.1f}".split(" | ")
        own = line["strategy"] == "supernet"
        rows.append(
            [
                line["board"],
                limits,
                "its own" if own else "of the first board",
                said,
                line["kind"],
                *cost,
                f"{line['cpu_seconds']:.0f}",
            ]
        )
    return Table(
        ["board", "limits", "supernet", "test accuracy, %", "network found", "RAM, B", "Flash, B", "ms", "CPU s"], rows
    )


def remembered(folder: Path, measure: Callable[[Path], Line]) -> Line:
    """Return the line of JSON in a folder, which `measure` makes if it is not there."""
    file = folder / "line.json"
    if not file.is_file():
        write_file(file, json.dumps(measure(folder)))
    line: Line = json.loads(file.read_text())
    words = f"{line['strategy']} {line['seed']}: {100 * accuracy(line):.1f} % {line['kind']}, {line['cpu_seconds']:.0f} CPU s"
    print(line["set"], line["board"], words, flush=True)
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []], metavar="SET", help=f"of {', '.join(SETS)}; all if left out")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--boards", action="store_true", help="one supernet for several boards, instead of the strategies")
    args = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # CPU seconds are compared
    found = on_boards(args.out) if args.boards else list[Line]()
    for seed, name, strategy in product(range(args.seeds), () if args.boards else args.sets or SETS, STRATEGIES):
        if strategy == "stage one" and SETS[name].task == "sensors":
            continue  # the samples of a series are not resized
        folder = args.out / name / f"{strategy.replace(' ', '-')}-{seed}"
        found.append(remembered(folder, lambda at: searched(name, strategy, seed, at)))  # noqa: B023
    every = (json.loads(file.read_text()) for file in sorted(args.out.glob("*/*/line.json")))
    write_file(args.out / RESULTS, "".join(f"{json.dumps(line)}\n" for line in every))
    if args.boards or args.seeds > 1:
        print((boards_table if args.boards else table)(found).text(LEVEL))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
