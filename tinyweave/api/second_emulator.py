"""Run the C of a plan as complete firmware on a board that QEMU emulates, as a check independent of the Unicorn emulator."""

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
from .code import emulated_core
from .exports import packaged
from .results import Model

LIMIT_S = 600.0  # seconds that a firmware may run
# lines that the firmware prints: the most bytes of stack, and (model, sample, output, hexadecimal bytes)
STACK = re.compile(r"\bstack (\d+)\n\Z")
OUTPUT = re.compile(r"^tw-output (\w+) (\d+) (\d+) ([0-9a-f]*)$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class ProgramRun:
    """The result of running a program on an emulated board.

    Attributes:
        printed: the text that the program printed.
        ram: variable -> bytes of RAM; `stack` is the most stack that was used.
        compiler: the compiler with its flags.
    """

    printed: str
    ram: dict[str, int]
    compiler: str

    @property
    def total(self) -> int:
        """Return the bytes of RAM of all variables and the stack."""
        return sum(self.ram.values())


def qemu_board(device: Device | None) -> Device:
    """Return the board with a device's core (or the nearest core) that QEMU emulates.

    Raises:
        CompileError: QEMU emulates no such board, or QEMU is not installed.
    """
    core = emulated_core(device)
    boards = {board.core: board for board in map(find, BOARDS)}
    if core not in boards:
        raise CompileError(f"QEMU emulates no {core}, only {', '.join(boards)}", "leave out --second-emulator")
    if not firmware.is_qemu_there():
        raise CompileError("--second-emulator needs qemu-system-arm, which is not installed", "apt-get install qemu-system-arm")
    return boards[core]


def run_firmware(package: Package, board: Device, file: Path | None = None) -> tuple[str, dict[str, int], str]:
    """Build the firmware of a package and run it on a board that QEMU emulates.

    Args:
        board: a board that QEMU emulates.
        file: file that the firmware reads as its input; None for no input.

    Returns:
        The text that the firmware printed, variable -> bytes of RAM, and the compiler with its flags.
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
    """Run a plan's firmware on a board that QEMU emulates, and compare every output byte with the reference.

    Args:
        device: the device; QEMU emulates a board with its core or the nearest one. None for the default core.
        cases: samples, each with one array per network input.
        right: the reference outputs of these samples.

    Returns:
        The name of the board, the compiler with its flags, and a description of the first wrong byte, or None if all are right.

    Raises:
        CompileError: QEMU emulates no such board, or is not installed.
        Fault: the firmware ended before the last output.
    """
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
    """Run the program of a package on its board, emulated by QEMU, with the contents of `file` as its input.

    Raises:
        CompileError: the package has no program or no board, or QEMU or a compiler is missing.
        Fault: the program ended before it printed its stack use.
    """
    if not package.program or package.device is None:
        raise CompileError("the package has no program for a board", "add a program, and a board that QEMU emulates")
    board = qemu_board(package.device)
    printed, ram, said = run_firmware(package, board, file)
    deepest = STACK.search(printed)
    if deepest is None:
        raise Fault(f"the firmware on {board.name} ended early: it said {(printed.splitlines() or ['nothing'])[-1][:200]}")
    return ProgramRun(printed, ram | {"stack": int(deepest[1])}, said)
