"""Run a model on a board that QEMU emulates, for cores that Unicorn lacks. Requests and answers are as in unicorn_process.py.

QEMU is stopped through its gdb port at the end of each call and at each traced step. With -icount, its monitor reports the
number of instructions; a plugin (count_blocks.c) counts basic blocks, if this QEMU supports plugins. Stray writes to the noise
on either side of memories are detected after the run, stray reads are not. Stack use is measured to 8 bytes.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError
from ..support import toolchain
from . import model_calls
from .model_calls import Rows, Stopped, blocks
from .run import Fault
from .worker import guarded

PROGRAM = "qemu-system-arm"
# in the DDR of an MPS3 board, like the Flash of firmware.ld
MEMORY_START, MEMORY_STEP, STACK_START = 0x78000000, 0x02000000, 0x77FE0000
MARGIN = 4096  # bytes of noise before and after a memory
# in the ITCM: structs of memories and callbacks, return address of calls, code that stores a word, callbacks, vector table;
# READ_WEIGHTS is in its last bytes, so that a read of an array from the callback's address on is a fault
STRUCT, IO, RETURN, FAULT, STORE, READ_ROWS, WRITE_ROWS, READ_WEIGHTS, VECTORS, START_WEIGHTS, WAIT_FOR_WEIGHTS = (
    0x10000000 + at for at in (0, 0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x7FFFE, 0x400, 0x480, 0x500)
)
WEIGHTS = READ_WEIGHTS, START_WEIGHTS, WAIT_FOR_WEIGHTS
VTOR, CPACR, CFSR, MMFAR, BFAR = 0xE000ED08, 0xE000ED88, 0xE000ED28, 0xE000ED34, 0xE000ED38
FLOATS_ON = 0x00F00000
SP, LR, PC, XPSR = 13, 14, 15, 25
THUMB = 0x01000000
PACKET_BYTES = 1900  # of data per gdb packet, in twice as many hexadecimal digits
COUNTER = Path(__file__).with_name("count_blocks.c")
FIELDS, MOST_BLOCKS = 5, 1 << 16  # of the plugin's file: 64-bit fields per block, and blocks that fit
GRANULE = 8  # bytes of stack compared at a time; a written granule equals the noise with a probability below 2^-32


class _Board:
    """A stopped board in QEMU: its memory and registers can be read and written, and functions on it can be called.

    `gdb` and `monitor` are sockets to QEMU's gdb server and its monitor (QMP); after `deadline` (time.monotonic()) answers are
    not waited for.
    """

    def __init__(self, gdb: socket.socket, monitor: socket.socket, deadline: float):
        self.gdb, self.monitor, self.deadline = gdb, monitor, deadline
        self.answers, self.said = gdb.makefile("rb"), monitor.makefile("rb")
        self.said.readline()
        self.ask_monitor("qmp_capabilities")
        self.ask("qXfer:features:read:target.xml:0,fff")  # QEMU lets single registers be set only after this

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
                raise Stopped("gave a bad pointer to", None, address)
            parts.append(bytes.fromhex(answer))
        return b"".join(parts)

    def word(self, address: int) -> int:
        return int(struct.unpack("<I", self.read(address, 4))[0])

    def set_register(self, number: int, value: int) -> None:
        self.ask(f"P{number:x}={struct.pack('<I', value).hex()}")

    def register(self, number: int) -> int:
        return int(struct.unpack("<I", bytes.fromhex(self.ask(f"p{number:x}")))[0])

    def run(self, function: int, stack_top: int, *arguments: int) -> Iterator[int]:
        """Run a function until it returns to address RETURN; yield the pc at each breakpoint. Raise Stopped at a fault."""
        for number, value in (*enumerate(arguments), (SP, stack_top), (LR, RETURN | 1), (XPSR, THUMB), (PC, function)):
            self.set_register(number, value)
        self.ask("c")
        while (pc := self.register(PC)) != RETURN:
            if pc == FAULT:
                status, frame = self.word(CFSR), self.register(SP)
                address = self.word(BFAR) if status & 0x8000 else self.word(MMFAR) if status & 0x80 else None
                what = "access to" if address is not None else f"stopped (fault status 0x{status:08x})"
                raise Stopped(what, self.word(frame + 24), address)
            yield pc
            self.ask("c")


def run(request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
    """Start QEMU, run a request on it, and return an answer with the keys that unicorn_process.py uses.

    `cpu` is QEMU's name of the board. The answer has no cache misses, and counts no layers separately. Without plugins, or a C
    compiler for this machine, it counts the instructions of each step, not blocks. Raises Fault if QEMU fails or is too slow.
    """
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name:
        folder = Path(name)
        plugin = _plugin()
        counts = folder / "counts" if plugin else None
        command = [
            program(),
            "-M",
            request["cpu"],
            *"-icount shift=0,sleep=off -S -display none -nodefaults".split(),
            *(word for port in ("gdb", "qmp") for word in (f"-{port}", f"unix:{folder / port},server=on,wait=off")),
        ]
        if counts:
            counts.write_bytes(bytes(8 * (1 + FIELDS * MOST_BLOCKS)))
            command += ["-plugin", f"file={plugin},counts={counts}"]
        with guarded(command) as (words, stdin):
            with (folder / "errors").open("wb") as errors:
                process = subprocess.Popen(words, stdin=stdin, stdout=errors, stderr=errors, cwd=folder)
            try:
                deadline = time.monotonic() + limit_s
                with _connect(folder / "gdb", deadline) as gdb, _connect(folder / "qmp", deadline) as monitor:
                    return model_calls.run(_Machine(request, _Board(gdb, monitor, deadline), counts), request)
            except TimeoutError as error:
                raise Fault(f"the generated code did not finish within {limit_s:g} s") from error
            except OSError as error:
                process.kill()
                process.wait()
                lines = (folder / "errors").read_text(errors="replace").splitlines()
                said = [line for line in lines if line.strip() and "warning" not in line]
                raise Fault(f"QEMU stopped: {said[0] if said else error}") from error
            finally:
                process.kill()
                process.wait()


def program() -> str:
    """Return the path of qemu-system-arm; raises CompileError if it is not in PATH."""
    path = toolchain.which(PROGRAM)
    if path is None:
        raise CompileError(f"{PROGRAM} cannot be run: it is not in PATH", "install QEMU (version 7 or later)")
    return path


@lru_cache
def has_plugins(path: str) -> bool:
    """Return whether the QEMU at a path was built with support for plugins."""
    asked = subprocess.run([path, "-help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return "\n-plugin " in asked.stdout


def _plugin() -> Path | None:
    """Return the plugin that counts blocks, built for this machine; None if QEMU cannot use it or no compiler can build it."""
    try:
        return toolchain.library_file(toolchain.host(), COUNTER) if has_plugins(program()) else None
    except CompileError:
        return None


def joined(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Join blocks that QEMU has split, and return them, sorted by address.

    QEMU ends a translation block at a page's end, and after one instruction in a page with a breakpoint. A second part is only
    reached from blocks that end where it begins and always continue there; it may have several such blocks, as at a loop's
    start. It is joined to each, and its executions that ended with a jump are divided in proportion to executions. A block is
    [FIELDS]: address, bytes, instructions, executions, and executions that ended with a jump.
    """
    rows = [block.copy() for block in blocks[np.lexsort((blocks[:, 1], blocks[:, 0]))]]
    ending: dict[int, list[NDArray[np.int64]]] = {}  # address -> the blocks that end there
    for row in rows:
        ending.setdefault(int(row[0] + row[1]), []).append(row)
    starts = Counter(int(row[0]) for row in rows)
    found: list[NDArray[np.int64]] = []
    for row in reversed(rows):  # what is behind a second part has been joined to it before
        address, _, _, executions, jumps = map(int, row)
        firsts = ending.get(address, [])
        if (
            starts[address] == 1
            and firsts
            and sum(first[3] for first in firsts) == executions
            and not any(f[4] for f in firsts)
        ):
            ends = np.cumsum([first[3] for first in firsts]) * jumps // max(1, executions)
            for first, share in zip(firsts, np.diff(ends, prepend=0), strict=True):
                first[1:3] += row[1:3]
                first[4] = share
        else:
            found.append(row)
    return np.array(found[::-1], np.int64).reshape(-1, FIELDS)


def _connect(path: Path, deadline: float) -> socket.socket:
    while True:
        connection = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            connection.connect(str(path))
            return connection
        connection.close()
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


class _Machine:
    """A board with program and memories, a Machine of model_calls.py; `counts` is the plugin's file, or None."""

    struct, io = STRUCT, IO

    def __init__(self, request: Mapping[str, Any], board: _Board, counts: Path | None):
        self.request, self.board, self.read, self.write, self.counts = request, board, board.read, board.write, counts
        self.stack_start, self.stack = request["stack"]
        self.stack_top, self.instructions, self.seconds = self.stack_start + len(self.stack), 0, 0.0
        self.memories = [(start, image) for start, *_, image in request["memories"]]
        margin = bytes(i * 151 % 251 for i in range(MARGIN))
        self.margins = [(at, margin) for start, image in self.memories for at in (start - MARGIN, start + len(image))]
        self.starts = [start + base for start, base, *_ in request["memories"]]
        self.begin(Rows(request))
        board.write(VECTORS, struct.pack("<16I", self.stack_top, *[FAULT | 1] * 15))
        board.write(STORE, bytes.fromhex("01607047"))  # str r1, [r0]; bx lr: gdb cannot write the core's own registers
        board.write(STRUCT, b"".join(struct.pack("<2I", *each) for each in blocks(request, *(at | 1 for at in WEIGHTS))))
        board.write(IO, struct.pack("<3I", 0, READ_ROWS | 1, WRITE_ROWS | 1))
        for start, data in (request["flash"], request["ram"], request["stack"], *self.margins, *self.memories):
            board.write(start, data)
        for address in (RETURN, FAULT, READ_ROWS, WRITE_ROWS, *WEIGHTS, request["trace"]):
            if address is not None and board.ask(f"Z0,{address:x},2") != "OK":
                raise ConnectionError("QEMU rejects a breakpoint")
        for register, value in ((VTOR, VECTORS), (CPACR, FLOATS_ON)):
            for _ in board.run(STORE, self.stack_top, register, value):
                raise ConnectionError("QEMU stopped while the board was being set up")

    def begin(self, rows: Rows) -> None:
        self.rows, self.step = rows, -1
        self.steps: dict[int, int] = {}
        self.blocks: dict[int, NDArray[np.int64]] = {}  # step -> blocks, as in `joined`
        self.dumps: dict[int, bytes] = {}

    def call(self, function: str, *arguments: int) -> int:
        """Run a function of the model and return its result; serve its callbacks, and count the instructions of each step."""
        board, begun = self.board, time.monotonic()
        before = self.credited = board.instructions
        self.counted = self.blocks_so_far()
        for pc in board.run(self.request["functions"][function], self.stack_top, *arguments):
            if pc in (READ_ROWS, WRITE_ROWS):
                rows = [board.register(number) for number in range(1, 4)]
                self.rows.move(self, pc == READ_ROWS, [*rows, board.word(board.register(SP))])
                board.set_register(0, 0)
            elif pc == WAIT_FOR_WEIGHTS:
                board.set_register(0, self.rows.wait_for_weights(self))
            elif pc in WEIGHTS:
                wanted = [board.register(number) for number in range(1, 4)]
                board.set_register(0, self.rows.read_weights(self, wanted, pc == START_WEIGHTS))
            else:
                self.step = board.register(0)
                self.credit()
                for index, (wanted, memory, offset, count) in enumerate(self.request["dump"]):
                    if wanted == self.step:
                        self.dumps[index] = board.read(self.starts[memory] + offset, count)
            board.set_register(PC, board.register(LR) & ~1)
        if function == "invoke":
            self.credit()
        self.instructions, self.seconds = board.instructions - before, time.monotonic() - begun
        return board.register(0)

    def credit(self) -> None:
        """Add the instructions and blocks since the last call of this, or the beginning of `call`, to the current step."""
        now = self.board.instructions
        self.steps[self.step] = self.steps.get(self.step, 0) + now - self.credited
        self.credited = now
        if self.counts:
            ran, counted = self.blocks_so_far(), self.counted
            self.counted = ran.copy()
            ran[: len(counted), 3:] -= counted[:, 3:]
            self.blocks[self.step] = _added(self.blocks.get(self.step), ran)

    def blocks_so_far(self) -> NDArray[np.int64]:
        """Return the blocks that the board has executed, as the plugin has counted them; none without a plugin."""
        if self.counts is None:
            return np.zeros((0, FIELDS), np.int64)
        used, *_ = np.fromfile(self.counts, np.int64, 1)
        if used > MOST_BLOCKS:
            raise Fault(f"the program has more than {MOST_BLOCKS} basic blocks, which cannot be counted")
        return np.fromfile(self.counts, np.int64, used * FIELDS, offset=8).reshape(-1, FIELDS)

    def report(self) -> dict[str, Any]:
        if self.counts is None:
            return {"seconds": self.seconds, "steps": self.steps, "blocks": {}, "misses": {}}
        begin, end = self.request["code"]
        blocks = {}
        for step, ran in self.blocks.items():
            ran = ran[(ran[:, 3] > 0) & (ran[:, 0] >= begin) & (ran[:, 0] < end)]
            ran[:, 4] = np.minimum(ran[:, 3], ran[:, 4])  # a block's last jump may have been counted in the next step
            blocks[step, ""] = joined(ran)
        return {"seconds": self.seconds, "blocks": blocks, "misses": {part: {} for part in blocks}}

    def remains(self) -> dict[str, Any]:
        for start, data in self.margins:
            after = self.read(start, len(data))
            if after != data:
                first = next(i for i, (a, b) in enumerate(zip(data, after, strict=True)) if a != b)
                raise Stopped("write to", None, start + first)
        after = self.read(self.stack_start, len(self.stack))
        granules = range(0, len(after), GRANULE)
        lowest = next((at for at in granules if after[at : at + GRANULE] != self.stack[at : at + GRANULE]), len(after))
        images = [self.read(start, len(image)) for start, image in self.memories]
        return {"images": images, "stack_image": after, "stack": len(after) - lowest}


def _added(before: NDArray[np.int64] | None, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add a step's earlier block counts in place to the later ones, which begin with the same blocks; return these."""
    if before is not None:
        blocks[: len(before), 3:] += before[:, 3:]
    return blocks
