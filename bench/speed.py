"""How fast are the real models on emulated cores?

In: a folder of .tflite files (--models). Out: per model and core, the Cortex-M55 where QEMU is, instructions of one invoke, per
MAC of the original network, those of TFLite Micro with CMSIS-NN and of TinyEngine, the goal, the estimated milliseconds (fewest
to most) on a board with that core, the best record that was measured on that board, the arena with the kernels for the core and
with those for all cores. Exit code 1 when a byte differs from the reference, the arena touched is not the one claimed, or a
goal is not reached.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from models import lcg_samples, number, per_mac

from tinyweave import api
from tinyweave.devices import find
from tinyweave.ops import macs_original
from tinyweave.planning import Limits
from tinyweave.simulate import emulated
from tinyweave.simulate.instruction_timing import milliseconds

ROOT = Path(__file__).resolve().parents[1]
CORES = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")  # of TFLite Micro nothing was measured on the last two

# TFLite Micro + CMSIS-NN of August 2026, arm-none-eabi-gcc 12.2, its own flags: instructions on the emulated cores; and our
# goal on the first, in millions
RECORDS: dict[str, tuple[tuple[int, ...], float | None]] = {
    "mlcommons__tiny__vww_96_int8": ((24_101_960, 24_025_600), 5.8),
    "mlcommons__tiny__kws_ref_model": ((7_699_880, 7_645_720), 3.2),
    "mlcommons__tiny__pretrainedResnet_quant": ((29_863_360, 30_026_200), 12.5),
    "mlcommons__tiny__ad01_int8": ((582_920, 583_240), 0.30),
    "mlcommons__tiny__pretrainedResnet_large_int8": ((), None),
    "mlcommons__tiny__str_ww_ref_model": ((2_227_080, 2_188_200), 1.1),
    "mit-han-lab__tinyengine__vww": ((48_626_760, 47_796_240), 16),
    "mit-han-lab__tinyengine__mcunetv2_large": ((861_750_120, 834_790_760), 260),
    "tensorflow__tflite-micro__mobilenet_v2_quantized_1x3x224x224": ((798_472_080, 789_749_280), 330),
}
# TinyEngine (47bb283, -Ofast) on the first, which refuses the others; its outputs are wrong by up to 7
TINYENGINE = {
    "mlcommons__tiny__ad01_int8": 771_920,
    "mit-han-lab__tinyengine__vww": 34_747_680,
    "mit-han-lab__tinyengine__mcunetv2_large": 515_405_880,
}
# the boards of the records below, and the best of MLPerf Tiny's closed division on them, v0.5 to v1.3, in milliseconds
BOARDS = {"cortex-m4": "stm32l4r5", "cortex-m7": "stm32h7a3", "cortex-m33": "stm32u575"}
MEASURED_MS = {
    "mlcommons__tiny__vww_96_int8": (88.9, 23.8, 59.3),
    "mlcommons__tiny__pretrainedResnet_quant": (165.1, 40.8, 104.3),
    "mlcommons__tiny__kws_ref_model": (43.2, 11.3, 29.0),
    "mlcommons__tiny__ad01_int8": (4.05, 1.08, 3.09),
}
COLUMNS = (
    *("model", "core", "equal", "instructions", "per MAC", "TFLM", "TinyEngine", "times fewer", "goal"),
    *("board", "ms, estimated", "record ms", "arena", "of all cores"),
)


def rows(path: Path, optimize: str, cores: Sequence[str]) -> list[list[object]]:
    """A row for each of the cores that can be emulated here."""
    model = api.load(path)
    sample = lcg_samples(model.outside, 1)
    macs, (theirs, goal) = macs_original(model.original), RECORDS[path.stem]
    portable = sum(api.plan(model, optimize="size").arena.values())
    found: list[list[object]] = []
    others = list(zip_longest(CORES, theirs, MEASURED_MS.get(path.stem, ())))
    for core, other, record in (row for row in others if row[0] in cores and emulated.missing(row[0]) is None):
        board = find(BOARDS[core]) if core in BOARDS else None
        limits = Limits(reads=api.flash_reads(board) if board else None)
        plan = api.make_plan(model, api.Request(objective=optimize, limits=limits, core=core))
        equal = api.verify_plan(model, plan, api.ProofOptions(sample, count=1), core=core).ok
        profile = api.profile_plan(model, plan, core, sample[0], device=board)
        measured, cycles = profile.instructions, profile.cycles
        ms = None
        if board and cycles:
            likely, *bounds = (f"{milliseconds(n, board.clock_hz):,.2f}" for n in (cycles.likely, cycles.fewest, cycles.most))
            ms = f"{likely} ({' to '.join(bounds)})"
        wanted = round(goal * 1_000_000) if goal and core == CORES[0] else None
        arenas = sum(plan.arena.values()), portable
        engine = TINYENGINE.get(path.stem) if core == CORES[0] else None
        counts = [measured, per_mac(measured, macs), other, engine, f"{other / measured:.2f}" if other else None, wanted]
        found.append([path.stem, core, equal, *counts, board.name if board else None, ms, record, *arenas])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--optimize", default="speed", help="speed, balanced, or size for the kernels of all cores")
    parser.add_argument("--cores", default=",".join(CORES), help="comma-separated")
    options = parser.parse_args()
    chosen = [name for name in RECORDS if not options.names or any(part in name for part in options.names)]
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    missed = 0
    for name in chosen:
        for row in rows(options.models / f"{name}.tflite", options.optimize, options.cores.split(",")):
            print(f"| {' | '.join(number(cell) if type(cell) is int else str(cell or '-') for cell in row)} |", flush=True)
            equal, measured, goal = row[2], row[3], row[8]
            missed += not equal or (goal is not None and measured > goal)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
