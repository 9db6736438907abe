"""Runs firmware on a board that QEMU plays, for the cores that Unicorn lacks; takes and gives what emulator.py does.

In: a request (code, memories, calls to make). Out: what the calls left, and what they cost. QEMU is stopped at the end of each
call, and at each traced step, through its gdb port; under -icount its monitor says how many instructions ran. Memories lie in
the board's RAM with noise on either side, so that stray writes are found afterwards; stray reads are not. The stack is the
deepest of it that was written.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import toolchain
from ..ir import CompileError
from .run import Fault

PROGRAM = "qemu-system-arm"
# in the DDR of an MPS3 board, as firmware.ld's Flash
MEMORY_START, MEMORY_STEP, STACK_START = 0x78000000, 0x02000000, 0x77FE0000
MARGIN = 4096  # bytes of noise before and after a memory
# in the ITCM: the pointers to memories and to callbacks, where calls end, and what stands for the callbacks
STRUCT, IO, RETURN, FAULT, STORE, READ_ROWS, WRITE_ROWS, VECTORS = (
    0x10000000 + at for at in (0, 0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x400)
)
VTOR, CPACR, CFSR, MMFAR, BFAR = 0xE000ED08, 0xE000ED88, 0xE000ED28, 0xE000ED34, 0xE000ED38
FLOATS_ON = 0x00F00000
SP, LR, PC, XPSR = 13, 14, 15, 25
THUMB = 0x01000000
PACKET_BYTES = 1900  # of data, written as twice as many digits
GRANULE = 8  # of the stack: a written granule equals the noise that was there in 1 of 2^32 cases or fewer


class _Ended(Exception):  # noqa: N818 - an outcome, not an error
    """The program did what it must not do."""

    def __init__(self, what: str, pc: int | None, address: int | None):
        super().__init__(what)
        self.pc, self.address = pc, address


class _Board:
    """A stopped board whose memory and registers can be set, and its functions called."""

    def __init__(self, gdb: socket.socket, monitor: socket.socket, deadline: float):
        self.gdb, self.monitor, self.deadline = gdb, monitor, deadline
        self.answers, self.said = gdb.makefile("rb"), monitor.makefile("rb")
        self.said.readline()
        self.ask_monitor("qmp_capabilities")
        self.ask("qXfer:features:read:target.xml:0,fff")  # without it, registers cannot be set one by one

    def ask(self, command: str) -> str:
        data = command.encode()
        self.gdb.settimeout(max(0.01, self.deadline - time.monotonic()))
        self.gdb.sendall(b"$%s#%02x" % (data, sum(data) & 0xFF))
        while (letter := self.answers.read(1)) != b"$":
            if not letter:
                raise ConnectionError("QEMU ended")
        answer = bytearray()
        while (letter := self.answers.read(1)) != b"#":
            answer += letter
        self.answers.read(2)
        self.gdb.sendall(b"+")
        return answer.decode()

    def ask_monitor(self, command: str, **arguments: object) -> Any:
        self.monitor.settimeout(max(0.01, self.deadline - time.monotonic()))
        self.monitor.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while line := self.said.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise ConnectionError(answer["error"]["desc"])
        raise ConnectionError("QEMU ended")

    @property
    def instructions(self) -> int:
        return int(self.ask_monitor("query-replay")["icount"])

    def write(self, address: int, data: bytes) -> None:
        for at in range(0, len(data), PACKET_BYTES):
            part = data[at : at + PACKET_BYTES]
            if self.ask(f"M{address + at:x},{len(part):x}:{part.hex()}") != "OK":
                raise ConnectionError(f"QEMU has no memory at 0x{address + at:08x}")

    def read(self, address: int, count: int) -> bytes:
        parts = []
        for at in range(0, count, PACKET_BYTES):
            answer = self.ask(f"m{address + at:x},{min(PACKET_BYTES, count - at):x}")
            if answer.startswith("E"):
                raise _Ended("gave a bad pointer to", None, address)
            parts.append(bytes.fromhex(answer))
        return b"".join(parts)

    def word(self, address: int) -> int:
        return int(struct.unpack("<I", self.read(address, 4))[0])

    def set_register(self, number: int, value: int) -> None:
        self.ask(f"P{number:x}={struct.pack('<I', value).hex()}")

    def register(self, number: int) -> int:
        return int(struct.unpack("<I", bytes.fromhex(self.ask(f"p{number:x}")))[0])

    def call(self, function: int, stack_top: int, *arguments: int) -> Iterator[int]:
        """Run a function; yields pc at each breakpoint on the way to RETURN, where it ends."""
        for number, value in enumerate(arguments):
            self.set_register(number, value)
        for number, value in ((SP, stack_top), (LR, RETURN | 1), (XPSR, THUMB), (PC, function)):
            self.set_register(number, value)
        while True:
            self.ask("c")
            pc = self.register(PC)
            if pc == RETURN:
                return
            if pc == FAULT:
                status, frame = self.word(CFSR), self.register(SP)
                address = self.word(BFAR) if status & 0x8000 else self.word(MMFAR) if status & 0x80 else None
                what = "access to" if address is not None else f"stopped (fault status 0x{status:08x})"
                raise _Ended(what, self.word(frame + 24), address)
            yield pc


def run(request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
    """emulator.py's answer to the same request; `cpu` is QEMU's name of the board."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name:
        folder = Path(name)
        ports = [word for port in ("gdb", "qmp") for word in (f"-{port}", f"unix:{folder / port},server=on,wait=off")]
        command = [
            toolchain.which(PROGRAM) or PROGRAM,
            "-M",
            request["cpu"],
            "-icount",
            "shift=0,sleep=off",
            "-S",
            "-display",
            "none",
            "-nodefaults",
            *ports,
        ]
        try:
            with (folder / "errors").open("wb") as errors:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd=folder)
        except OSError as error:
            raise CompileError(f"{PROGRAM} cannot be run: {error.strerror}", "install QEMU") from error
        try:
            deadline = time.monotonic() + limit_s
            with _connect(folder / "gdb", deadline) as gdb, _connect(folder / "qmp", deadline) as monitor:
                return _run(request, _Board(gdb, monitor, deadline))
        except TimeoutError as error:
            raise Fault(f"the generated code did not finish within {limit_s:g} s") from error
        except (ConnectionError, OSError) as error:
            process.kill()
            process.wait()
            lines = (folder / "errors").read_text(errors="replace").splitlines()
            said = [line for line in lines if line.strip() and "warning" not in line]
            raise Fault(f"QEMU stopped: {said[0] if said else error}") from error
        finally:
            process.kill()
            process.wait()


def _connect(path: Path, deadline: float) -> socket.socket:
    """The socket that QEMU opens some time after its start."""
    while True:
        found = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            found.connect(str(path))
            return found
        found.close()
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


def _run(request: Mapping[str, Any], board: _Board) -> dict[str, Any]:
    stack_start, stack = request["stack"]
    stack_top = stack_start + len(stack)
    starts = [start + base for start, base, _, _ in request["memories"]]
    pointers = [struct.pack("<2I", at, count) for at, (_, _, count, _) in zip(starts, request["memories"], strict=True)]
    board.write(VECTORS, struct.pack("<16I", stack_top, *[FAULT | 1] * 15))
    board.write(STORE, bytes.fromhex("01607047"))  # str r1, [r0]; bx lr: the core's own registers are not gdb's to write
    board.write(STRUCT, b"".join(pointers))
    board.write(IO, struct.pack("<3I", 0, READ_ROWS | 1, WRITE_ROWS | 1))
    for start, data in (request["flash"], request["ram"], request["stack"]):
        board.write(start, data)
    margin = bytes(i * 151 % 251 for i in range(MARGIN))
    margins = [(at, margin) for start, *_, image in request["memories"] for at in (start - MARGIN, start + len(image))]
    for start, data in (*margins, *((start, image) for start, *_, image in request["memories"])):
        board.write(start, data)
    for address in (RETURN, FAULT, READ_ROWS, WRITE_ROWS, request["trace"]):
        if address is not None and board.ask(f"Z0,{address:x},2") != "OK":
            raise ConnectionError("QEMU sets no breakpoint")

    for register, value in ((VTOR, VECTORS), (CPACR, FLOATS_ON)):
        for _ in board.call(STORE, stack_top, register, value):
            raise ConnectionError("QEMU does not let the board be set up")

    answer: dict[str, Any] = {"status": 0, "outputs": [], "step": -1, "steps": {}, "dumps": {}, "blocks": {}, "misses": {}}
    function, fed, streamed_outputs = "init", list[bytes](), dict[int, bytearray]()

    def bring_rows() -> None:
        """read_rows(user, input, first, count, destination)"""
        _, index, first, count = (board.register(number) for number in range(4))
        row = request["streamed_inputs"][index]
        data = fed[index][first * row : (first + count) * row]
        if len(data) != count * row:
            raise _Ended("was asked for rows that its input does not have", None, None)
        board.write(board.word(board.register(SP)), data)

    def take_rows() -> None:
        """write_rows(user, output, first, count, source)"""
        _, index, first, count = (board.register(number) for number in range(4))
        row, come = request["streamed_outputs"][index], streamed_outputs[index]
        if (first + count) * row > request["outputs"][index]:
            raise _Ended("was given rows that the output does not have", None, None)
        if first * row != len(come):
            raise _Ended("was not given each row once and in order", None, None)
        come += board.read(board.word(board.register(SP)), count * row)

    def call(name: str, *arguments: int) -> tuple[int, int]:
        """(result, instructions) of a call; steps are credited on the way."""
        before = since = board.instructions
        for pc in board.call(request["functions"][name], stack_top, *arguments):
            if pc in (READ_ROWS, WRITE_ROWS):
                (bring_rows if pc == READ_ROWS else take_rows)()
                board.set_register(0, 0)
                board.set_register(PC, board.register(LR) & ~1)
                continue
            answer["step"] = step = board.register(0)
            now = board.instructions
            answer["steps"][step] = answer["steps"].get(step, 0) + now - since
            since = now
            for index, (wanted, memory, offset, count) in enumerate(request["dump"]):
                if wanted == step:
                    answer["dumps"][index] = board.read(starts[memory] + offset, count)
            board.set_register(PC, board.register(LR) & ~1)
        spent = board.instructions - before
        if answer["step"] >= 0 and name == "invoke":
            answer["steps"][answer["step"]] += board.instructions - since
        return board.register(0), spent

    try:
        answer["status"], answer["init_instructions"] = call(function, STRUCT)
        for inputs in request["rounds"]:
            if inputs is None:
                function = "reset"
                call(function, STRUCT)
                continue
            fed, streamed_outputs = inputs, {index: bytearray() for index in request["streamed_outputs"]}
            for index, data in enumerate(inputs):
                function = "input"
                to = call(function, STRUCT, index)[0]
                if (to == 0) != (index in request["streamed_inputs"]):
                    raise _Ended("streams other inputs than the caller said", None, None)
                if to:
                    board.write(to, data)
            answer |= {"step": -1, "steps": {}, "dumps": {}}
            function, begun = "invoke", time.monotonic()
            if not answer["status"]:
                answer["status"], answer["instructions"] = call(function, STRUCT, IO)
            answer["seconds"] = time.monotonic() - begun
            function = "output"
            places = [call(function, STRUCT, index)[0] for index in range(len(request["outputs"]))]
            if {index for index, at in enumerate(places) if not at} != set(streamed_outputs):
                raise _Ended("hands out other outputs by rows than the caller said", None, None)
            sizes = zip(places, request["outputs"], strict=True)
            found = [board.read(at, count) if at else bytes(streamed_outputs[i]) for i, (at, count) in enumerate(sizes)]
            if not answer["status"] and list(map(len, found)) != list(request["outputs"]):
                raise _Ended("did not hand out all rows of an output", None, None)
            answer["outputs"].append(found)
        for start, data in margins:
            after = board.read(start, len(data))
            if after != data:
                first = next(i for i, (a, b) in enumerate(zip(data, after, strict=True)) if a != b)
                function = "invoke"
                raise _Ended("write to", None, start + first)
    except _Ended as ended:
        answer["stopped"] = {"what": str(ended), "pc": ended.pc, "address": ended.address, "function": function}
        return answer
    answer["images"] = [board.read(start, len(image)) for start, *_, image in request["memories"]]
    answer["stack_image"] = after = board.read(stack_start, len(stack))
    granules = range(0, len(stack), GRANULE)
    lowest = next((at for at in granules if after[at : at + GRANULE] != stack[at : at + GRANULE]), len(stack))
    answer["stack"] = len(stack) - lowest
    return answer
