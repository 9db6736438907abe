"""How far off are the cycles that plans foresee on boards whose Flash waits?

In: a folder of .tflite files (--models), names of boards. Out: per network, board and kind of plan the estimated milliseconds
of an emulated run whose reads of Flash go through a model of the board's caches, and what is foreseen from shapes, in parts of
that: as if Flash answered at once, and as plans foresee it. Exit code 1 when the latter is more than 15 % off on a board whose
caches hold the loops of kernels.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from models import lcg_samples

from tinyweave import api
from tinyweave.devices import find
from tinyweave.kernels.layer_cycles import LOOP_BYTES
from tinyweave.planning.kernels.cycles import plan_cycles
from tinyweave.simulate.instruction_timing import milliseconds

ROOT = Path(__file__).resolve().parents[1]
BOARDS = ("stm32l4r5", "stm32l476", "stm32f412", "stm32f746", "stm32h7a3", "stm32u575", "stm32f103", "samd21g18")
NAMES = ("kws_ref_model", "vww_96_int8", "pretrainedResnet_quant", "ad01_int8")
PLANS = (("unfused", "speed"), ("best", "size"))
GOAL = 0.15


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boards", nargs="*", default=BOARDS, help="device, part or board names")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    options = parser.parse_args()
    missed = False
    print("| network | board | schedule | optimize | ms, run | at once | foreseen |")
    print("|---|---|---|---|---:|---:|---:|")
    for name in NAMES:
        model = api.load(options.models / f"mlcommons__tiny__{name}.tflite")
        sample = lcg_samples(model.graph, 1)
        for board in map(find, options.boards):
            limits = replace(api.limits_of(board), ram=None, maps=())
            for schedule, optimize in PLANS:
                plan = api.make_plan(model, api.Request(schedule, objective=optimize, limits=limits, core=board.core))
                cycles = api.profile_plan(model, plan, board.core, sample[0], device=board).cycles
                foreseen = [plan_cycles(plan, board.core, reads).cycles for reads in (None, limits.reads)]
                if cycles is None or None in foreseen or board.clock_hz is None:
                    continue
                at_once, waiting = (each / cycles.likely for each in foreseen if each is not None)
                ms = milliseconds(cycles.likely, board.clock_hz)
                what = f"{name} | {board.name} | {schedule} | {optimize}"
                print(f"| {what} | {ms:.2f} | {at_once:.3f} | {waiting:.3f} |", flush=True)
                holds_loops = limits.reads is None or limits.reads.code_cache >= LOOP_BYTES
                missed |= holds_loops and abs(waiting - 1) > GOAL
    return missed


if __name__ == "__main__":
    sys.exit(main())
