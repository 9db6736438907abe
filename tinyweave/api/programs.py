"""Programs: firmware that reads a file as it comes, built and run on a board that QEMU plays.

In: a Package with a program, a file. Out: what it printed, and the RAM that it took.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..ir import CompileError
from ..kernels.table import foreign
from ..packages import Package, cascade, firmware_files, listening, looking
from ..simulate import firmware
from ..simulate.run import Fault
from .second_emulator import LIMIT_S, board_for

__all__ = ["Played", "cascade", "listening", "looking", "play"]

STACK = re.compile(r"\bstack (\d+)\n\Z")


@dataclass(frozen=True)
class Played:
    """What a program printed. ram: bytes of each variable by name, and of `stack`, as deep as it went. compiler: with flags."""

    printed: str
    ram: dict[str, int]
    compiler: str

    @property
    def total(self) -> int:
        return sum(self.ram.values())


def play(package: Package, file: Path) -> Played:
    """Run a package's program on its board, which QEMU must play, until the file ends.

    Raise CompileError where QEMU or a compiler is missing, Fault where the program does not end as it should.
    """
    if not package.program or package.device is None:
        raise CompileError("the package has no program for a board", "give it one, and a board that QEMU plays")
    board = board_for(package.device)
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name:
        folder = Path(name)
        plain = any(foreign(model.plan.variants, board.core) for model in package.models)
        program, said = firmware.build(firmware_files(package), folder, board.core, plain=plain)
        ram = firmware.variables(program)
        (folder / "input").write_bytes(file.read_bytes())  # a name that QEMU's options can hold
        printed = firmware.run(program, board.name, LIMIT_S, folder / "input")
    deepest = STACK.search(printed)
    if deepest is None:
        raise Fault(f"the firmware on {board.name} ended early: it said {(printed.splitlines() or ['nothing'])[-1][:200]}")
    return Played(printed, ram | {"stack": int(deepest[1])}, said)
