"""A second opinion: the C of a plan as complete firmware on a board that QEMU plays, where nothing of Unicorn's has a part.

In: a model, its plan, samples and the right outputs. Out: what is different, and with what it was built.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..devices import Device, find
from ..ir import CompileError
from ..kernels.table import foreign
from ..packages import BOARDS, firmware_files
from ..planning import Plan
from ..results import Model
from ..simulate import compare, firmware
from ..simulate.run import Fault
from .exports import packaged
from .runs import emulated_core

LIMIT_S = 600.0
OUTPUT = re.compile(r"^tw-output (\w+) (\d+) (\d+) ([0-9a-f]*)$", re.MULTILINE | re.ASCII)


def board_for(device: Device | None) -> Device:
    """Return the board that QEMU plays with the core of a device.

    Raise CompileError where there is none, or where QEMU or a compiler is missing.
    """
    core = emulated_core(device)
    boards = {board.core: board for board in map(find, BOARDS)}
    if core not in boards:
        raise CompileError(f"no second emulator has a {core}, but {', '.join(boards)}", "leave out --second-emulator")
    if not firmware.is_qemu_there():
        raise CompileError("a second emulator needs qemu-system-arm, which is not installed", "apt-get install qemu-system-arm")
    return boards[core]


def second_emulator(
    model: Model, plan: Plan, device: Device | None, cases: Sequence[Sequence[np.ndarray]], right: compare.Truth
) -> tuple[str, str, str | None]:
    """Return the board, compiler and flags, and the first difference from the right outputs in words, None if all are equal."""
    board = board_for(device)
    trials = [
        (compare.pack(model.graph, case), compare.pack_outputs(model.graph, outputs))
        for case, outputs in zip(cases, right.outputs, strict=True)
    ]
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        files, plain = firmware_files(packaged(model, plan, trials, board)), bool(foreign(plan.variants, board.core))
        program, said = firmware.build(files, Path(folder), board.core, plain=plain)
        printed = firmware.run(program, board.name, LIMIT_S)
    found = {(int(sample), int(output)): bytes.fromhex(digits) for _, sample, output, digits in OUTPUT.findall(printed)}
    for sample, (_, outputs) in enumerate(trials):
        for output, wanted in enumerate(outputs):
            have = found.get((sample, output))
            if have is None:
                last = next((line for line in reversed(printed.splitlines()) if not line.startswith("tw-output")), "nothing")
                why = f"ended before output {output} of sample {sample}"
                raise Fault(f"the firmware on {board.name} {why}: it said {last[:200]}")
            if have != wanted:
                at = next(i for i, (a, b) in enumerate(zip(have, wanted, strict=True)) if a != b)
                where = f"byte {at} of output {output} of sample {sample}"
                return board.name, said, f"the firmware on QEMU's {board.name}: {where} is {have[at]}, expected {wanted[at]}"
    return board.name, said, None
