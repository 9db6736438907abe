"""Do estimated cycles agree with boards? Engines whose code is public were measured on them; their instructions can be counted.

In: a folder of .tflite files (--models). Out: per board and network the cycles per instruction that an engine with CMSIS-NN's
kernels, or TinyEngine, took there, and those that are estimated of our C for the same board, fewest to most. Their code is not
at hand: the boards ran versions of 2022 and 2023, the instructions are those of 2026, which are likely to be fewer, so that
what was measured per instruction is rather less. The mix of instructions differs, too: this shows whether the estimates are of
the right size, not whether they are right. Exit code 1 where what was measured is more than a fourth outside of the estimate.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from models import lcg_samples
from speed import RECORDS, TINYENGINE

from tinyweave import api
from tinyweave.devices import find

ROOT = Path(__file__).resolve().parents[1]
OFF = 1.25
VWW, RESNET, KWS, AD = (
    f"mlcommons__tiny__{name}" for name in ("vww_96_int8", "pretrainedResnet_quant", "kws_ref_model", "ad01_int8")
)
TINYENGINE_VWW = "mit-han-lab__tinyengine__vww"


class Measured(NamedTuple):
    """milliseconds of an inference on a board by an engine, which needs so many instructions for it on the emulated core."""

    board: str
    model: str
    engine: str
    ms: float
    instructions: int


def cmsis_nn(board: str, per_second: tuple[float, ...]) -> list[Measured]:
    """Return rows of MLPerf Tiny v1.1, closed division, Krai: microTVM with CMSIS-NN, inferences per second."""
    models = (VWW, RESNET, KWS, AD)
    return [
        Measured(board, name, "CMSIS-NN", 1000 / rate, RECORDS[name][0][0])
        for name, rate in zip(models, per_second, strict=True)
    ]


MEASURED = [
    *cmsis_nn("stm32l4r5", (3.324, 2.567, 10.019, 116.212)),
    *cmsis_nn("nrf5340", (4.286, 3.146, 13.074, 159.020)),
    # MCUNetV2's authors on an STM32H743 at 480 MHz, the network vww1: CMSIS-NN and their own engine
    Measured("stm32h743", TINYENGINE_VWW, "CMSIS-NN", 97, RECORDS[TINYENGINE_VWW][0][1]),
    Measured("stm32h743", TINYENGINE_VWW, "TinyEngine", 51, TINYENGINE[TINYENGINE_VWW]),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    options = parser.parse_args()
    print("| board | network | engine | measured, ms | instructions | cycles per instruction | of our C, estimated |")
    print("|---|---|---|---:|---:|---:|---:|")
    missed = 0
    for row in MEASURED:
        board = find(row.board)
        model = api.load(options.models / f"{row.model}.tflite", io="model")
        plan = api.plan(model, board.core, optimize="speed")
        profile = api.profile_plan(model, plan, board.core, lcg_samples(model.graph, 1)[0], device=board)
        assert board.clock_hz is not None and profile.cycles is not None
        theirs = row.ms / 1000 * board.clock_hz / row.instructions
        fewest, likely, most = (count / profile.instructions for count in profile.cycles)
        missed += not fewest / OFF <= theirs <= most * OFF
        print(
            f"| {board.name} | {row.model.rpartition('__')[2]} | {row.engine} | {row.ms:.1f} | {row.instructions:,}"
            f" | {theirs:.2f} | {likely:.2f} ({fewest:.2f} to {most:.2f}) |",
            flush=True,
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
