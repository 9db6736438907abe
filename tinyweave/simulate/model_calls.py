"""Calls the functions of a model on any emulator, and serves the callbacks that stream inputs and outputs row by row.

In: a Machine (an emulated core with the program), and the request of emulated.py: code, memories, inputs. Out: the answer, a
dict of outputs and measurements. unicorn_process.py, a separate process, loads this file by its path.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

WRONG = b"\xa5"  # overwrites constants that are not to be read
READ_ERROR = 9  # result of the callback that reads a file of weights, beyond its end
PIECE = 1000  # most floats per call of write_input or read_output: several calls test `first` and `count`


class Stopped(Exception):  # noqa: N818 - an outcome, not an error of this program
    """Raised if the emulated program did something forbidden, at `pc`, with the memory at `address`; None if unknown."""

    def __init__(self, what: str, pc: int | None = None, address: int | None = None):
        """Create the exception; `what` is the message, which says what the program did."""
        super().__init__(what)
        self.pc, self.address = pc, address


class Rows:
    """The rows that the callbacks of one inference exchange; `come` has the received bytes of each streamed output."""

    def __init__(self, request: Mapping[str, Any], inputs: Sequence[bytes] = ()):
        """Start an inference: store the bytes of all its inputs. `request` says which inputs and outputs are streamed."""
        self.request, self.inputs = request, inputs
        self.come: dict[int, bytearray] = {index: bytearray() for index in request["streamed_outputs"]}
        self.reads: list[tuple[int, int]] = []  # (offset, bytes) of the file of weights
        self.begun: list[tuple[int, bytes]] = []  # reads that wait_for_weights ends: (address, data)

    def bring(self, index: int, first: int, count: int) -> bytes:
        """Return the rows that read_rows requested of streamed input `index`; raise Stopped if it has no such rows."""
        row = self.request["streamed_inputs"][index]
        data = self.inputs[index][first * row : (first + count) * row]
        if len(data) != count * row:
            raise Stopped(f"called read_rows for rows {first} to {first + count} of input {index}, which do not exist")
        return data

    def take(self, index: int, first: int, count: int, read: Callable[[int], bytes]) -> None:
        """Append rows of streamed output `index`, at the call's source pointer; raise Stopped if they are not the next ones."""
        row, come = self.request["streamed_outputs"][index], self.come[index]
        if (first + count) * row > self.request["outputs"][index]:
            raise Stopped(f"called write_rows for rows {first} to {first + count} of output {index}, which do not exist")
        if first * row != len(come):
            raise Stopped(f"called write_rows out of order: row {first} of output {index}, but row {len(come) // row} is next")
        come += read(count * row)

    def move(self, machine: Machine, to_model: bool, wanted: Sequence[int]) -> None:
        """Perform read_rows if `to_model`, else write_rows, with the arguments `wanted`: index, first row, rows, address."""
        index, first, count, address = wanted
        if to_model:
            machine.write(address, self.bring(index, first, count))
        else:
            self.take(index, first, count, partial(machine.read, address))

    def read_weights(self, machine: Machine, wanted: Sequence[int], begins: bool = False) -> int:
        """Perform the callback that reads the file of weights; return its result. `wanted`: offset, destination, bytes.

        Before, the constants of earlier steps in `spoiled` (offset in the file -> addresses and bytes) are overwritten. A read
        that only `begins` overwrites its destination, too.
        """
        offset, address, count = wanted
        data = self.request["file"][offset : offset + count]
        if len(data) < count:
            return READ_ERROR
        for at, spoiled in self.request["spoiled"].get(offset, ()):
            machine.write(at, WRONG * spoiled)
        machine.write(address, WRONG * count if begins else data)
        self.begun += [(address, data)] if begins else []
        self.reads.append((offset, count))
        return 0

    def wait_for_weights(self, machine: Machine) -> int:
        """End all reads that have begun: write their data; raise Stopped if the model has changed a byte of a destination."""
        for address, data in self.begun:
            if machine.read(address, len(data)) != WRONG * len(data):
                raise Stopped("wrote to constants before their read had ended, which begin at", None, address)
            machine.write(address, data)
        self.begun = []
        return 0


class Machine(Protocol):
    """An emulator of a core that holds the program of a model and its memories."""

    struct: int  # address of the model's struct of memories
    io: int  # address of the model's struct of callbacks
    step: int  # last plan step that the inference has finished, in a build with trace hook; -1 before the first
    dumps: dict[int, bytes]  # index of a requested dump -> its bytes

    @property
    def instructions(self) -> int:
        """Return the number of instructions that the last call executed."""

    def call(self, function: str, *arguments: int) -> int:
        """Run a function of the model, such as "invoke", and return its result."""

    def read(self, address: int, count: int) -> bytes:
        """Return `count` bytes of the machine's memory."""

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to the machine's memory."""

    def begin(self, rows: Rows) -> None:
        """Start a new inference, whose callbacks use `rows`, and clear the step counts and dumps of the previous one."""

    def report(self) -> dict[str, Any]:
        """Return `seconds` of the last call, `blocks` and `misses` by (step, layer), or else `steps`: step -> instructions."""

    def remains(self) -> dict[str, Any]:
        """Return what all calls left: `images` (contents of each memory), `stack_image`, and `stack`, the most bytes used."""


def blocks(request: Mapping[str, Any], read: int, *others: int) -> list[tuple[int, ...]]:
    """Return (address, bytes) of each memory of a model, and of its file of weights, or the callbacks that read this file."""
    file = list(request["weights"]) if request["file"] is None else [(read, 0), others]
    return [(start + base, count) for start, base, count, _ in request["memories"]] + file


def convert(machine: Machine, request: Mapping[str, Any], call: Callable[..., int], index: int, floats: bytes) -> bytes:
    """Write the floats of an input, or read those of an output, in pieces that are passed at the lower end of the stack.

    `call(index, address)` is write_piece or read_piece of host_model.c. Return the floats behind them, which write_piece keeps.
    """
    (at, noise), found = request["stack"], b""
    for first in range(0, len(floats) // 4, PIECE):
        part = floats[4 * first : 4 * (first + PIECE)]
        machine.write(at, struct.pack("<2i", first, len(part) // 4) + part)
        if status := call(index, at):
            raise Stopped(f"returned {status} for floats from {first} on of input or output {index}")
        found += machine.read(at + 8, len(part))
    machine.write(at, noise[: 8 + 4 * PIECE])
    return found


def run(machine: Machine, request: Mapping[str, Any]) -> dict[str, Any]:
    """Call init, then the functions of each inference or reset in the request, and return the answer.

    After init, the bytes of `copied` replace constants in Flash that init has copied to RAM, where the model must read them.

    Its keys are `status` (error code of init or invoke, after which invoke is not called again; else 0), `outputs`
    ([inference][output], bytes), `reads` (as Rows.reads of the last one), `instructions`, `init_instructions`, `step`, `dumps`,
    and those of `machine.report` and `machine.remains`. If the program does something forbidden, `stopped` says what and where,
    and later keys are missing.
    """
    answer: dict[str, Any] = {"status": 0, "outputs": []}
    function = "init"

    def call(name: str, *arguments: int) -> int:
        nonlocal function
        function = name
        return machine.call(name, machine.struct, *arguments)

    try:
        answer |= {"status": call("init"), "init_instructions": machine.instructions}
        for address, data in request["copied"]:
            machine.write(address, data)
        for inputs in request["rounds"]:
            if inputs is None:
                call("reset")
                continue
            for index, data in enumerate(inputs):
                to = call("input", index)
                if (to == 0) != (index in request["streamed_inputs"]):
                    raise Stopped("streams other inputs than the caller declared")
                if index in request["float_inputs"]:
                    convert(machine, request, partial(call, "write_piece"), index, data)
                elif to:
                    machine.write(to, data)
            machine.begin(rows := Rows(request, inputs))
            if not answer["status"]:
                answer |= {"status": call("invoke", machine.io), "instructions": machine.instructions, **machine.report()}
                answer["reads"] = rows.reads
                if rows.begun:
                    raise Stopped("ended before a read of constants")
            outputs = []
            for index, count in enumerate(request["outputs"]):
                at = call("output", index)
                if (at == 0) != (index in request["streamed_outputs"]):
                    raise Stopped("streams other outputs than the caller declared")
                if index in request["float_outputs"]:
                    outputs.append(convert(machine, request, partial(call, "read_piece"), index, bytes(count)))
                    continue
                outputs.append(machine.read(at, count) if at else bytes(rows.come[index]))
                if len(outputs[-1]) != count and not answer["status"]:
                    raise Stopped(f"did not pass on all rows of output {index}")
            answer["outputs"].append(outputs)
        function = "invoke"
        answer |= machine.remains()
    except Stopped as stopped:
        answer["stopped"] = {"what": str(stopped), "pc": stopped.pc, "address": stopped.address, "function": function}
    return answer | {"step": machine.step, "dumps": machine.dumps}
