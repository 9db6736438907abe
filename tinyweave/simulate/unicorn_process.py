"""The separate process that runs Unicorn; emulated.py sends it requests through its stdin.

A machine (an engine with a program) is kept for further requests with the same program: its translated code is reused, its
memory and registers are reset. A C hook (hook.c) counts basic blocks; Python runs only at a block's first execution, at traced
steps, in row callbacks and at faults. Unicorn is GPL: it is imported only here, and this process shares only bytes.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
import unicorn
from numpy.typing import NDArray
from unicorn import arm_const, riscv_const


def beside(name: str, *wanted: str) -> Any:
    """Run another file of this folder, and return the definitions named `wanted`: this process cannot import tinyweave."""
    return itemgetter(*wanted)(runpy.run_path(str(Path(__file__).with_name(name))))


encode, decode = beside("messages.py", "encode", "decode")
describe, named = beside("disassembly.py", "describe", "named")
Rows, Stopped, blocks, run_calls = beside("model_calls.py", "Rows", "Stopped", "blocks", "run")

# addresses: struct of memories (struct of callbacks IO bytes after it), return address of functions, callbacks; unmapped bytes
# follow READ_WEIGHTS, so that a read of an array from the callback's address on is a fault
STRUCT, RETURN, READ_ROWS, WRITE_ROWS = 0x28000000, 0x10000000, 0x10001000, 0x10002000
READ_WEIGHTS, START_WEIGHTS, WAIT_FOR_WEIGHTS = WEIGHTS = 0x10005FFE, 0x10003000, 0x10004000
IO = 0x100
PAGE = 0x1000
MACHINES = 2  # number of machines kept: one for a build, one for the same build with trace or caches
OF_ONE_RUN = ("rounds", "dump", "file")  # keys in which requests to one machine may differ; contents of memory may, too
LOWERS_STACK, SETS_STACK, IS_TRACE = 1, 2, 4
ACCESS = {
    unicorn.UC_MEM_READ_UNMAPPED: "read of",
    unicorn.UC_MEM_READ_PROT: "read of",
    unicorn.UC_MEM_WRITE_UNMAPPED: "write to",
    unicorn.UC_MEM_WRITE_PROT: "write to",
    unicorn.UC_MEM_FETCH_UNMAPPED: "jump to",
    unicorn.UC_MEM_FETCH_PROT: "jump to",
}
DESCRIBE = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint32)
TRACE = ctypes.CFUNCTYPE(None)


@dataclass(frozen=True)
class Isa:
    """An instruction set: Unicorn's constants for it, its registers by Unicorn's numbers, and some machine code."""

    engine: tuple[int, int]  # Unicorn's architecture and mode
    names: ModuleType  # Unicorn's module with the constants of its cores
    arguments: tuple[int, ...]  # registers of the first arguments of a call
    result: int  # register of the result
    stack: int  # stack pointer
    link: int  # register of the return address
    pc: int
    status: int  # status register, 0 for none
    mark: int  # lowest bit of code addresses in registers: 1 for Thumb, else 0
    endless: bytes  # code of a jump to itself, to which functions return
    back: bytes  # code of a return from a function


class BlockCounter(ctypes.Structure):
    """Struct tw_block of hook.c; `dip` is the lowest stack pointer relative to the start, 0 or negative bytes."""

    _fields_ = [
        ("executions", ctypes.c_uint64),
        ("taken", ctypes.c_uint64),
        ("bytes", ctypes.c_uint32),
        ("instructions", ctypes.c_uint32),
        ("dip", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    ]


COUNTS = np.dtype(BlockCounter)


class CacheState(ctypes.Structure):
    """Struct tw_cache of hook.c: a set-associative cache in front of Flash."""

    _fields_ = [
        ("line_bits", ctypes.c_uint32),
        ("sets", ctypes.c_uint32),
        ("ways", ctypes.c_uint32),
        ("lines", ctypes.c_void_p),
    ]


class LayerCounter(ctypes.Structure):
    """Struct tw_layer of hook.c: block counts and cache misses of a layer whose parameters are at [begin, end)."""

    _fields_ = [
        ("begin", ctypes.c_uint32),
        ("end", ctypes.c_uint32),
        ("blocks", ctypes.c_void_p),
        ("code", ctypes.c_uint64 * 2),
        ("data", ctypes.c_uint64 * 2),
    ]


class Counter(ctypes.Structure):
    """Struct tw_counter of hook.c: the state of the hook that counts basic blocks; hook.c explains the fields."""

    _fields_ = [
        ("first", ctypes.c_uint32),
        ("slots", ctypes.c_uint32),
        ("layers", ctypes.POINTER(LayerCounter)),
        ("layer", ctypes.POINTER(LayerCounter)),
        ("layer_count", ctypes.c_uint32),
        ("invoke", ctypes.c_uint32),
        ("invoke_bytes", ctypes.c_uint32),
        ("in_invoke", ctypes.c_uint32),
        ("last", ctypes.c_void_p),
        ("end", ctypes.c_uint64),
        ("instructions", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("lowest_stack", ctypes.c_uint32),
        ("look_at_stack", ctypes.c_uint32),
        ("unaligned", ctypes.c_uint32),
        ("stack_register", ctypes.c_int),
        ("argument_register", ctypes.c_int),
        ("read_register", ctypes.c_void_p),
        ("write_register", ctypes.c_void_p),
        ("status_register", ctypes.c_int),
        ("stop", ctypes.c_void_p),
        ("describe", DESCRIBE),
        ("trace", TRACE),
        ("code", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("fetched", ctypes.c_uint32),
    ]


ISAS = {
    "arm": Isa(
        engine=(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS),
        names=arm_const,
        arguments=tuple(getattr(arm_const, f"UC_ARM_REG_R{i}") for i in range(4)),
        result=arm_const.UC_ARM_REG_R0,
        stack=arm_const.UC_ARM_REG_SP,
        link=arm_const.UC_ARM_REG_LR,
        pc=arm_const.UC_ARM_REG_PC,
        status=arm_const.UC_ARM_REG_XPSR,
        mark=1,
        endless=bytes.fromhex("fee7"),
        back=bytes.fromhex("7047"),
    ),
    "riscv": Isa(
        engine=(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32),
        names=riscv_const,
        arguments=tuple(getattr(riscv_const, f"UC_RISCV_REG_A{i}") for i in range(5)),
        result=riscv_const.UC_RISCV_REG_A0,
        stack=riscv_const.UC_RISCV_REG_SP,
        link=riscv_const.UC_RISCV_REG_RA,
        pc=riscv_const.UC_RISCV_REG_PC,
        status=0,
        mark=0,
        endless=bytes.fromhex("01a0"),
        back=bytes.fromhex("8280"),
    ),
}


@contextmanager
def pointing() -> Iterator[None]:
    """Raise Stopped if Unicorn rejects an access in the `with` block, because the model returned a bad pointer."""
    try:
        yield
    except unicorn.UcError as error:
        raise Stopped(f"gave a bad pointer ({error})") from error


class UnicornMachine:
    """A Unicorn engine with program and memories, a Machine of model_calls.py; `start` before each request resets it."""

    struct, io = STRUCT, STRUCT + IO

    def __init__(self, request: dict[str, Any]):
        """Map the code and memories of a request and install the hooks."""
        self.request = request
        self.isa = ISAS[request["isa"]]
        self.engine = unicorn.Uc(*self.isa.engine)
        self.engine.ctl_set_cpu_model(getattr(self.isa.names, request["cpu"]))
        self.caches: dict[str, tuple[CacheState, Any]] = {}  # "code", "data" or "unified" -> the cache and its lines
        read, write, execute = unicorn.UC_PROT_READ, unicorn.UC_PROT_WRITE, unicorn.UC_PROT_EXEC
        self.place(request["flash"], read | execute)
        self.place(request["ram"], read | write)
        self.place((RETURN, self.isa.endless), read | execute)
        self.place(request["stack"], read | write)
        self.stack_top = request["stack"][0] + len(request["stack"][1])
        self.starts = [start + base for start, base, *_ in request["memories"]]
        for start, *_, image in request["memories"]:
            self.place((start, image), read | write)
        pointers = b"".join(struct.pack("<2I", *each) for each in blocks(request, *(at | self.isa.mark for at in WEIGHTS)))
        callbacks = READ_ROWS, WRITE_ROWS
        pointers = pointers.ljust(IO, b"\0") + struct.pack("<3I", 0, *(at | self.isa.mark for at in callbacks))
        self.place((STRUCT, pointers), read)
        for at in callbacks if request["streamed_inputs"] or request["streamed_outputs"] else ():
            self.place((at, self.isa.back), read | execute)
            self.engine.hook_add(unicorn.UC_HOOK_BLOCK, self.on_rows, begin=at, end=at)
        for at in WEIGHTS if request["file"] is not None else ():
            self.place((at // PAGE * PAGE, self.isa.back.rjust(at % PAGE + len(self.isa.back), b"\0")), read | execute)
            self.engine.hook_add(unicorn.UC_HOOK_BLOCK, self.on_weights, begin=at, end=at)
        self.engine.hook_add(unicorn.UC_HOOK_MEM_INVALID, self.on_invalid)
        self.count_blocks()
        self.registers = self.engine.context_save()

    def start(self, request: dict[str, Any]) -> None:
        """Reset the registers, and set memories, static data, stack and overwritten Flash to the contents in `request`."""
        self.request = request
        self.fault: tuple[int, int] | None = None
        self.failure: Exception | None = None
        self.begin(Rows(request))
        self.engine.context_restore(self.registers)
        images = [(at, image) for at, *_, image in request["memories"]] + [request["flash"]] * bool(request["copied"])
        for at, data in (request["ram"], request["stack"], *images):
            if data:
                self.engine.mem_write(at, data)
        self.counter.lowest_stack, self.counter.unaligned = self.stack_top, 0

    def begin(self, rows: Any) -> None:
        """Start a new inference, whose callbacks use `rows`, and clear the step counts and dumps of the previous one."""
        self.rows, self.step = rows, -1
        self.step_counts: dict[int, NDArray[np.uint64]] = {}
        self.step_misses: dict[int, dict[str, list[int]]] = {}
        self.dumps: dict[int, bytes] = {}

    def place(self, contents: tuple[int, bytes], rights: int) -> None:
        """Map memory with the access rights `rights`, and write `contents` to it, a pair (address, bytes)."""
        address, data = contents
        if data:
            self.engine.mem_map(address, -(-len(data) // PAGE) * PAGE, rights)
            self.engine.mem_write(address, data)

    @property
    def instructions(self) -> int:
        """Return the number of instructions that the last call executed."""
        return int(self.counter.instructions)

    def read(self, address: int, count: int) -> bytes:
        """Return `count` bytes of the emulated memory."""
        with pointing():
            return bytes(self.engine.mem_read(address, count))

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to the emulated memory."""
        with pointing():
            self.engine.mem_write(address, data)

    def add_caches(self) -> None:
        """Add the caches of the request to the counter: in front of Flash, for code, for data, or for both (unified)."""
        for what, (bytes_, line, ways) in self.request["caches"].items():
            sets = bytes_ // line // ways
            lines = (ctypes.c_uint32 * (sets * ways))()
            cache = CacheState(line.bit_length() - 1, sets, ways, ctypes.addressof(lines))
            self.caches[what] = cache, lines
            for part in ("code", "data") if what == "unified" else (what,):
                setattr(self.counter, part, ctypes.addressof(cache))

    def count_blocks(self) -> None:
        """Install hook.c, which counts block executions and cache misses, and finds the first unaligned access."""
        library = ctypes.CDLL(unicorn.unicorn_py3.unicorn.uclib._name)
        hook = ctypes.CDLL(self.request["hook"])
        (first, end), (invoke, invoke_end) = self.request["code"], self.request["invoke"]
        places = [(0, 0), *((begin, end) for _, begin, end in self.request["layers"].values())]
        self.layers = (LayerCounter * len(places))(
            *(LayerCounter(*place) for place in places)
        )  # the first counts what is outside layers
        self.counter = Counter(
            first=first,
            slots=(end - first + 1) // 2,
            layers=self.layers,
            layer=self.layers,
            layer_count=len(places),
            invoke=invoke,
            invoke_bytes=invoke_end - invoke if len(places) > 1 else 0,
            argument_register=self.isa.arguments[0],
            limit=self.request["limit_instructions"],
            lowest_stack=self.stack_top,
            stack_register=self.isa.stack,
            read_register=ctypes.cast(library.uc_reg_read, ctypes.c_void_p),
            write_register=ctypes.cast(library.uc_reg_write, ctypes.c_void_p),
            status_register=self.isa.status,
            stop=ctypes.cast(library.uc_emu_stop, ctypes.c_void_p),
            describe=DESCRIBE(self.on_new_block),
            trace=TRACE(self.on_trace),
        )
        library.uc_hook_add.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64,
        ]  # fmt: skip
        self.add_caches()
        everywhere, flash = (1, 0), (self.request["flash"][0], self.request["flash"][0] + len(self.request["flash"][1]) - 1)
        hooks = [(unicorn.UC_HOOK_BLOCK, hook.tw_on_block, everywhere)]
        if self.request["aligned"]:
            hooks.append((unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, hook.tw_on_access, everywhere))
        if self.counter.data:
            hooks.append((unicorn.UC_HOOK_MEM_READ, hook.tw_on_constant, flash))
        for kind, function, (begin, last) in hooks:
            error = library.uc_hook_add(
                self.engine._uch, ctypes.byref(ctypes.c_size_t()), kind,
                ctypes.cast(function, ctypes.c_void_p), ctypes.addressof(self.counter), begin, last,
            )  # fmt: skip
            if error:
                raise unicorn.UcError(error)

    def on_rows(self, _: unicorn.Uc, address: int, *rest: object) -> None:
        """Serve read_rows or write_rows, which the model calls; Unicorn calls this when the core reaches its address."""
        with self.failing():
            arguments = [self.engine.reg_read(register) for register in self.isa.arguments]
            if len(arguments) == 4:
                arguments += struct.unpack("<I", self.engine.mem_read(self.engine.reg_read(self.isa.stack), 4))
            self.rows.move(self, address == READ_ROWS, arguments[1:])
            self.engine.reg_write(self.isa.result, 0)

    def on_weights(self, _: unicorn.Uc, address: int, *rest: object) -> None:
        """Serve a callback that reads the file of weights, which the model calls."""
        with self.failing():
            if address == WAIT_FOR_WEIGHTS:
                result = self.rows.wait_for_weights(self)
            else:
                wanted = [self.engine.reg_read(register) for register in self.isa.arguments[1:4]]
                result = self.rows.read_weights(self, wanted, address == START_WEIGHTS)
            self.engine.reg_write(self.isa.result, result)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Stop the emulation if the `with` block raises, and keep the exception, which cannot pass through Unicorn's C code."""
        try:
            yield
        except Exception as error:
            self.failure = error
            self.engine.emu_stop()

    def on_invalid(self, engine: unicorn.Uc, access: int, address: int, *rest: object) -> bool:
        """Record the kind and address of an access to unmapped or protected memory; False makes Unicorn stop."""
        self.fault = (access, address & 0xFFFFFFFF)
        return False

    def on_new_block(self, address: int, size: int) -> None:
        """Fill in the BlockCounter of a block, at its first execution in each layer that is counted separately."""
        with self.failing():
            instructions, dip, computed = describe(self.request["isa"], self.read(address, size))
            block = BlockCounter.from_address(
                self.counter.layer[0].blocks + (address - self.counter.first) // 2 * ctypes.sizeof(BlockCounter)
            )
            if block.bytes:
                raise ValueError(f"the block at 0x{address:08x} has changed its length")
            block.bytes, block.instructions, block.dip = size, instructions, dip
            block.flags = (LOWERS_STACK if dip else 0) | (SETS_STACK if computed else 0)
            if address == self.request["trace"]:  # the hook is not part of the model and is not counted
                block.instructions, block.dip, block.flags = 0, 0, IS_TRACE

    def on_trace(self) -> None:
        """Add the counts since the previous step to the step that has just ended, and read its requested dumps."""
        with self.failing():
            self.step = self.engine.reg_read(self.isa.arguments[0])
            self.credit(self.step)
            for index, (step, memory, offset, count) in enumerate(self.request["dump"]):
                if step == self.step:
                    self.dumps[index] = self.read(self.starts[memory] + offset, count)

    def begin_counts(self) -> None:
        """Reset the counts of blocks, instructions and cache misses."""
        self.tables = [np.zeros(self.counter.slots, COUNTS) for _ in self.layers]
        for layer, table in zip(self.layers, self.tables, strict=True):
            layer.blocks, layer.code[:], layer.data[:] = table.ctypes.data, (0, 0), (0, 0)
        self.counter.layer, self.counter.last = self.layers, None
        self.counter.instructions = self.counter.look_at_stack = self.counter.in_invoke = self.counter.fetched = 0
        for _, lines in self.caches.values():
            ctypes.memset(lines, 0, ctypes.sizeof(lines))

    def credit(self, step: int) -> None:
        """Add the counts of blocks outside separately counted layers to a step, and reset these counts to 0."""
        table, rest = self.tables[0], self.layers[0]
        self.step_counts[step] = self.step_counts.get(step, 0) + np.stack([table["executions"], table["taken"]])
        table["executions"] = table["taken"] = 0
        before = self.step_misses.get(step, {})
        missed = self.missed(rest).items()
        self.step_misses[step] = {what: [a + b for a, b in zip(n, before.get(what, [0, 0]), strict=True)] for what, n in missed}
        rest.code[:] = rest.data[:] = 0, 0

    def missed(self, layer: LayerCounter) -> dict[str, list[int]]:
        """Return `code` and `data`, if a cache for them is simulated -> lines missed in a layer, those of them in sequence."""
        return {what: list(getattr(layer, what)) for what in ("code", "data") if getattr(self.counter, what)}

    def spent(self, table: NDArray[Any], executions: NDArray[Any], taken: NDArray[Any]) -> NDArray[np.int64]:
        """Return an array [blocks that ran, 5] with a block's address, bytes, instructions, executions, taken branches.

        `executions` and `taken` replace the counts in `table`, which holds a BlockCounter per 2 bytes of code.
        """
        ran = np.flatnonzero((executions > 0) & (table["flags"] & IS_TRACE == 0))
        columns = (self.counter.first + 2 * ran, table["bytes"][ran], table["instructions"][ran], executions[ran], taken[ran])
        return np.stack([column.astype(np.int64) for column in columns], axis=1)

    def report(self) -> dict[str, Any]:
        """Return `seconds`, and `blocks` (as `spent`) and `misses` (as `missed`) of (step, layer, "" outside layers)."""
        self.credit(self.step)
        rest, *tables = self.tables
        blocks = {(step, ""): self.spent(rest, *counts) for step, counts in self.step_counts.items()}
        misses = {(step, ""): missed for step, missed in self.step_misses.items()}
        for (name, (step, *_)), layer, table in zip(self.request["layers"].items(), self.layers[1:], tables, strict=True):
            if len(ran := self.spent(table, table["executions"], table["taken"])):
                blocks[step, name], misses[step, name] = ran, self.missed(layer)
        return {"seconds": self.seconds, "blocks": blocks, "misses": misses}

    def remains(self) -> dict[str, Any]:
        """Return what all calls left: `images` (contents of each memory), `stack_image`, and `stack`, the most bytes used."""
        stack, image = self.request["stack"]
        return {
            "images": [self.read(start, len(image)) for start, *_, image in self.request["memories"]],
            "stack": self.stack_top - self.counter.lowest_stack,
            "stack_image": self.read(stack, len(image)),
        }

    def call(self, function: str, *arguments: int) -> int:
        """Reset the counts, run a function of the model and return its result; raise Stopped if it does something forbidden."""
        write, read, isa = self.engine.reg_write, self.engine.reg_read, self.isa
        for register, value in zip(isa.arguments, arguments, strict=False):
            write(register, value)
        write(isa.stack, self.stack_top)
        write(isa.link, RETURN | isa.mark)
        self.begin_counts()
        begun = time.process_time()
        try:
            self.engine.emu_start(self.request["functions"][function] | isa.mark, RETURN)
        except unicorn.UcError as error:
            if self.fault:
                raise Stopped(ACCESS.get(self.fault[0], "access to"), read(isa.pc), self.fault[1]) from error
            raise Stopped(f"stopped ({error})", read(isa.pc)) from error
        self.seconds = time.process_time() - begun
        if self.failure:
            raise Stopped(str(self.failure), read(isa.pc)) from self.failure
        if self.counter.unaligned:
            raise Stopped("unaligned access to", read(isa.pc), self.counter.unaligned)
        if read(isa.pc) & ~1 != RETURN:
            raise Stopped(f"did not end within {self.counter.limit} instructions", read(isa.pc))
        return int(read(isa.result))


machines: dict[bytes, UnicornMachine] = {}  # by program and sizes of memories, least recently used first


def machine_for(request: dict[str, Any]) -> UnicornMachine:
    """Return a machine reset for a request: of the MACHINES last ones, or a new one for another program or memories."""
    built = {key: value for key, value in request.items() if key not in OF_ONE_RUN}
    stack, *memories = ((*place, len(image)) for *place, image in (request["stack"], *request["memories"]))
    key = encode(built | {"stack": stack, "memories": memories})
    machine = machines.pop(key, None) or UnicornMachine(request)
    machines[key] = machine
    while len(machines) > MACHINES:
        del machines[next(iter(machines))]
    machine.start(request)
    return machine


def run(request: dict[str, Any]) -> Any:
    """Run the calls of a request on a machine and return the answer."""
    return run_calls(machine_for(request), request)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests to disassemble blocks or to run a program, until `requests` ends."""
    while True:
        try:
            request = decode(requests.read)
        except EOFError:
            return
        if "disassemble" in request:
            answer = [named(request["isa"], code) for code in request["disassemble"]]
        else:
            answer = run(request)
        answers.write(encode(answer))
        answers.flush()


if __name__ == "__main__":
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep what libraries print out of the answers
    serve(sys.stdin.buffer, pipe)
