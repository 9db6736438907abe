"""Runs the calls of a request on any emulator, and serves the row callbacks of the model.

In: a machine, and a request of emulated.py. Out: the answer: what the calls computed and what they cost.
unicorn_process.py, a process of its own, loads this file by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol


class Stopped(Exception):  # noqa: N818 - an outcome, not an error of this program
    """The program did something forbidden at address `pc`, accessing `address`; None if unknown."""

    def __init__(self, what: str, pc: int | None = None, address: int | None = None):
        """Describe what the program did, and where."""
        super().__init__(what)
        self.pc, self.address = pc, address


class Rows:
    """The streamed inputs of one inference, and the rows of its streamed outputs received so far."""

    def __init__(self, request: Mapping[str, Any], inputs: Sequence[bytes] = ()):
        """Start an inference with its streamed inputs; no output row has been received yet."""
        self.request, self.inputs = request, inputs
        self.come: dict[int, bytearray] = {index: bytearray() for index in request["streamed_outputs"]}

    def bring(self, index: int, first: int, count: int) -> bytes:
        """Return the rows that a call read_rows(user, input, first, count, destination) asks for."""
        row = self.request["streamed_inputs"][index]
        data = self.inputs[index][first * row : (first + count) * row]
        if len(data) != count * row:
            raise Stopped(f"called read_rows for rows {first} to {first + count} of input {index}, which do not exist")
        return data

    def take(self, index: int, first: int, count: int, read: Callable[[int], bytes]) -> None:
        """Store the rows of a call write_rows(user, output, first, count, source); `read(n)` returns n bytes of the source."""
        row, come = self.request["streamed_outputs"][index], self.come[index]
        if (first + count) * row > self.request["outputs"][index]:
            raise Stopped(f"called write_rows for rows {first} to {first + count} of output {index}, which do not exist")
        if first * row != len(come):
            raise Stopped(f"called write_rows out of order: row {first} of output {index}, but row {len(come) // row} is next")
        come += read(count * row)

    def move(self, machine: Machine, to_model: bool, wanted: Sequence[int]) -> None:
        """Perform a callback of the model: read_rows if `to_model`, else write_rows.

        `wanted` holds the callback's arguments without the first one.
        """
        index, first, count, address = wanted
        if to_model:
            machine.write(address, self.bring(index, first, count))
        else:
            self.take(index, first, count, partial(machine.read, address))


class Machine(Protocol):
    """A core with a program."""

    struct: int  # address of the model's struct of memories
    io: int  # address of the model's struct of callbacks
    step: int  # last traced step of the inference, -1 before the first
    dumps: dict[int, bytes]  # index of a requested dump -> its bytes

    @property
    def instructions(self) -> int:
        """Return the instructions of the last call."""

    def call(self, function: str, *arguments: int) -> int:
        """Run a function of the model and return its result."""

    def read(self, address: int, count: int) -> bytes:
        """Return bytes of memory."""

    def write(self, address: int, data: bytes) -> None:
        """Set bytes of memory."""

    def begin(self, rows: Rows) -> None:
        """Start a new inference, whose callbacks use `rows`, and forget the steps of the last one."""

    def report(self) -> dict[str, Any]:
        """Return the further costs of the last call."""

    def remains(self) -> dict[str, Any]:
        """Return the memories and the stack use after all calls."""


def run(machine: Machine, request: Mapping[str, Any]) -> dict[str, Any]:
    """Make the calls of a request and return the answer."""
    answer: dict[str, Any] = {"status": 0, "outputs": []}
    function = "init"

    def call(name: str, *arguments: int) -> int:
        nonlocal function
        function = name
        return machine.call(name, machine.struct, *arguments)

    try:
        answer |= {"status": call("init"), "init_instructions": machine.instructions}
        for inputs in request["rounds"]:
            if inputs is None:
                call("reset")
                continue
            for index, data in enumerate(inputs):
                to = call("input", index)
                if (to == 0) != (index in request["streamed_inputs"]):
                    raise Stopped("streams other inputs than the caller declared")
                if to:
                    machine.write(to, data)
            machine.begin(rows := Rows(request, inputs))
            if not answer["status"]:
                answer |= {"status": call("invoke", machine.io), "instructions": machine.instructions, **machine.report()}
            outputs = []
            for index, count in enumerate(request["outputs"]):
                at = call("output", index)
                if (at == 0) != (index in request["streamed_outputs"]):
                    raise Stopped("streams other outputs than the caller declared")
                outputs.append(machine.read(at, count) if at else bytes(rows.come[index]))
                if len(outputs[-1]) != count and not answer["status"]:
                    raise Stopped(f"did not pass on all rows of output {index}")
            answer["outputs"].append(outputs)
        function = "invoke"
        answer |= machine.remains()
    except Stopped as stopped:
        answer["stopped"] = {"what": str(stopped), "pc": stopped.pc, "address": stopped.address, "function": function}
    return answer | {"step": machine.step, "dumps": machine.dumps}
