"""Run the program of a package as firmware on a board that QEMU emulates. In: a Package. Out: the printed text, RAM."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..devices import Device, find
from ..ir import CompileError
from ..kernels.table import foreign
from ..projects import BOARDS, Package, firmware_files
from ..simulate import firmware
from ..simulate.run import Fault
from ..support.files import named
from .code import emulated_core

LIMIT_S = 600.0  # seconds that a firmware may run
STACK = re.compile(r"\bstack (\d+)\n\Z")  # the last line that the firmware prints: the most bytes of stack


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


def _qemu_board(device: Device) -> Device:
    """Return the board with a device's core (or the nearest core) that QEMU emulates.

    Raises:
        CompileError: QEMU emulates no such board, or QEMU is not installed.
    """
    core = emulated_core(device)
    boards = {board.core: board for board in map(find, BOARDS)}
    if core not in boards:
        raise CompileError(f"QEMU emulates no {core}, only {', '.join(boards)}", "give a board with one of these cores")
    if not firmware.is_qemu_there():
        raise CompileError("firmware runs in qemu-system-arm, which is not installed", "apt-get install qemu-system-arm")
    return boards[core]


def run_firmware(package: Package, board: Device, file: Path | None = None) -> tuple[str, dict[str, int], str]:
    """Build the firmware of a package and run it on a board that QEMU emulates.

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


def run_program(package: Package, file: Path) -> ProgramRun:
    """Run the program of a package on its board, emulated by QEMU, with the contents of `file` as its input.

    Raises:
        CompileError: the package has no program or no board, or QEMU or a compiler is missing.
        Fault: the program ended before it printed its stack use.
    """
    if not package.program or package.device is None:
        raise CompileError("the package has no program for a board", "add a program, and a board that QEMU emulates")
    board = _qemu_board(package.device)
    printed, ram, said = run_firmware(package, board, file)
    deepest = STACK.search(printed)
    if deepest is None:
        raise Fault(f"the firmware on {board.name} ended early: it said {(printed.splitlines() or ['nothing'])[-1][:200]}")
    return ProgramRun(printed, ram | {"stack": int(deepest[1])}, said)
