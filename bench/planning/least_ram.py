"""Estimate the cycles of plans within the least arena. In: a folder of .tflite files (--models), a board. No C is built.

Out: a row per model. First the smallest plan's arena. Then cycles, F and ratio of the fastest plan within this arena. F is the
multiply-accumulates of the plan, divided by the network's: more than 1 only with --max-mac-overhead, less if a fused stage
leaves out rows that no op reads. The ratio is the plan's cycles, divided by F times the cycles of the fastest unfused plan,
which may need any RAM. Then arena and ratio of the default plan, `balanced`. Cycles are estimates. Last, how many ratios are at
most 1.10, their median and the largest. Exit 1: a plan within the least arena needs more RAM, or more cycles than the smallest
plan.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tinyweave import api
from tinyweave.devices import Device, find
from tinyweave.ir import CompileError
from tinyweave.ops import macs
from tinyweave.planning import Limits, Request
from tinyweave.planning.fuse.row_schedule import plan_macs
from tinyweave.planning.kernels.cycles import cycles_to_compare

ROOT = Path(__file__).resolve().parents[2]
GOAL = 1.10  # cycles of a plan, divided by F times the unfused plan's
COLUMNS = ("model", "least arena", "cycles", "F", "of F x unfused", "`balanced`: arena", "of F x unfused")


class Row(NamedTuple):
    """A model: its smallest arena, the fastest plan within it, and the default plan. Cycles are estimates."""

    arena: int
    cycles: float
    factor: float
    ratio: float
    balanced_arena: int
    balanced_ratio: float
    is_right: bool

    def cells(self) -> list[str]:
        wrong = "" if self.is_right else " WRONG"
        figures = [f"{self.arena:,}{wrong}", f"{self.cycles:,.0f}", f"{self.factor:.3f}", f"{self.ratio:.2f}"]
        return [*figures, f"{self.balanced_arena:,}", f"{self.balanced_ratio:.2f}"]


def row(path: Path, device: Device, overhead: float | None) -> Row:
    """Plan a model four times; raise CompileError if it cannot be compiled."""
    model, board = api.load(path, io="model"), api.device_limits(device)
    known: dict[Any, Any] = {}  # what these plans share

    def costs(objective: api.Objective, limits: Limits = board, **changes: Any) -> tuple[int, float, float]:
        """Return the arena, cycles and F of a plan."""
        request = Request(objective=objective, limits=limits, core=device.core, max_mac_overhead=overhead)
        plan = api.make_plan(model, replace(request, **changes), known=known)
        factor = sum(plan_macs(plan)) / max(1, macs(model.graph)) or 1.0
        return sum(plan.arena.values()), cycles_to_compare(plan, device.core, board.reads), factor

    def ratio(cycles: float, factor: float) -> float:
        return cycles / (factor * unfused) if unfused else 1.0

    _, unfused, _ = costs("speed", replace(board, ram=None, maps=()), strategy="unfused", max_mac_overhead=None)
    least, cycles_of_smallest, _ = costs("size")
    arena, cycles, factor = costs("speed", replace(board, ram=least, maps=()))
    balanced_arena, *balanced = costs("balanced")
    is_right = arena <= least and cycles <= cycles_of_smallest
    return Row(least, cycles, factor, ratio(cycles, factor), balanced_arena, ratio(*balanced), is_right)


def summary(rows: list[Row]) -> str:
    """Return how many ratios reach the goal, and their median and largest, at the least arena and of `balanced`."""

    def said(ratios: list[float]) -> str:
        near = sum(ratio <= GOAL for ratio in ratios)
        return f"{near} of {len(ratios)} at most {GOAL:.2f}, median {median(ratios):.2f}, largest {max(ratios):.2f}"

    more = median(each.balanced_arena / each.arena for each in rows)
    balanced = said([each.balanced_ratio for each in rows])
    return (
        f"least arena: {said([each.ratio for each in rows])}\n`balanced`: {balanced}; its arena: median {more:.3f} of the least"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--device", default="stm32f412")
    parser.add_argument("--max-mac-overhead", type=float, metavar="F", help="multiply-accumulates, divided by the network's")
    options = parser.parse_args()
    files = [f for f in sorted(options.models.glob("*.tflite")) if not options.names or any(n in f.stem for n in options.names)]
    rows, device = list[Row](), find(options.device)
    print(f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}", flush=True)
    for file in files:
        try:
            rows.append(row(file, device, options.max_mac_overhead))
            print(f"| {file.stem} | {' | '.join(rows[-1].cells())} |", flush=True)
        except CompileError as error:
            print(f"| {file.stem} | refused: {' '.join(str(error).split())} |{' |' * (len(COLUMNS) - 2)}", flush=True)
    if rows:
        print(f"\n{summary(rows)}")
    return 0 if rows and all(each.is_right for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
