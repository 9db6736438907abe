"""Run the C of a plan as complete firmware on a board that QEMU emulates, independently of the Unicorn emulator."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..devices import Device, find
from ..files import named
from ..ir import CompileError
from ..kernels.table import foreign
from ..packages import BOARDS, Package, firmware_files
from ..planning import Plan
from ..simulate import compare, firmware
from ..simulate.run import Fault
from .exports import packaged
from .results import Model
from .runs import emulated_core

LIMIT_S = 600.0
STACK = re.compile(r"\bstack (\d+)\n\Z")
OUTPUT = re.compile(r"^tw-output (\w+) (\d+) (\d+) ([0-9a-f]*)$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class ProgramRun:
    """The output of a program, its RAM in bytes per variable (`stack` at its deepest), and compiler with flags."""

    printed: str
    ram: dict[str, int]
    compiler: str

    @property
    def total(self) -> int:
        """Return the bytes of RAM."""
        return sum(self.ram.values())


def qemu_board(device: Device | None) -> Device:
    """Return the board that QEMU emulates with the core of a device.

    Raise CompileError if there is none, or if QEMU is missing.
    """
    core = emulated_core(device)
    boards = {board.core: board for board in map(find, BOARDS)}
    if core not in boards:
        raise CompileError(f"QEMU emulates no {core}, only {', '.join(boards)}", "leave out --second-emulator")
    if not firmware.is_qemu_there():
        raise CompileError("--second-emulator needs qemu-system-arm, which is not installed", "apt-get install qemu-system-arm")
    return boards[core]


def run_firmware(package: Package, board: Device, file: Path | None = None) -> tuple[str, dict[str, int], str]:
    """Build a package's firmware and run it on a board that QEMU emulates, with the contents of `file` as its input.

    Return its output, the bytes of each variable, and the compiler with its flags.
    """
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name, named(name):
        folder, fed = Path(name), None
        plain = any(foreign(model.plan.variants, board.core) for model in package.models)
        program, compiler = firmware.build(firmware_files(package), folder, board.core, plain=plain)
        if file is not None:
            fed = folder / "input"  # a name that QEMU's options can hold
            fed.write_bytes(file.read_bytes())
        return firmware.run(program, board.name, LIMIT_S, fed), firmware.variables(program), compiler


def second_emulator(
    model: Model, plan: Plan, device: Device | None, cases: Sequence[Sequence[np.ndarray]], right: compare.Truth
) -> tuple[str, str, str | None]:
    """Return the board, the compiler with flags, and a text about the first wrong byte, or None if all bytes are right."""
    board = qemu_board(device)
    trials = [
        (compare.pack(model.graph, case), compare.pack_outputs(model.graph, outputs))
        for case, outputs in zip(cases, right.outputs, strict=True)
    ]
    printed, _, said = run_firmware(packaged(model, plan, trials, board), board)
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


def run_program(package: Package, file: Path) -> ProgramRun:
    """Run a package's program on its board, emulated by QEMU, until the file ends.

    Raise CompileError if QEMU or a compiler is missing, and Fault if the program fails.
    """
    if not package.program or package.device is None:
        raise CompileError("the package has no program for a board", "add a program, and a board that QEMU emulates")
    board = qemu_board(package.device)
    printed, ram, said = run_firmware(package, board, file)
    deepest = STACK.search(printed)
    if deepest is None:
        raise Fault(f"the firmware on {board.name} ended early: it said {(printed.splitlines() or ['nothing'])[-1][:200]}")
    return ProgramRun(printed, ram | {"stack": int(deepest[1])}, said)
