"""The calls that a request asks for, whichever emulator makes them, and the rows that come and go meanwhile.

In: a machine, and a request of emulated.py. Out: the answer to it: what the calls left, and what they cost.
unicorn_process.py, which is a process of its own, loads this one by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol


class Stopped(Exception):  # noqa: N818 - an outcome, not an error of this program
    """The program did what it must not do; the text says what, `pc` and `address` where, None if that is not known."""

    def __init__(self, what: str, pc: int | None = None, address: int | None = None):
        super().__init__(what)
        self.pc, self.address = pc, address


class Rows:
    """Of one inference the inputs that are asked for by rows, and what has come of the outputs that are handed out so."""

    def __init__(self, request: Mapping[str, Any], inputs: Sequence[bytes] = ()):
        self.request, self.inputs = request, inputs
        self.come: dict[int, bytearray] = {index: bytearray() for index in request["streamed_outputs"]}

    def bring(self, index: int, first: int, count: int) -> bytes:
        """Return what read_rows(user, input, first, count, destination) asks for."""
        row = self.request["streamed_inputs"][index]
        data = self.inputs[index][first * row : (first + count) * row]
        if len(data) != count * row:
            raise Stopped(f"read_rows was asked for rows {first} to {first + count} of input {index}, which it does not have")
        return data

    def take(self, index: int, first: int, count: int, read: Callable[[int], bytes]) -> None:
        """Take what write_rows(user, output, first, count, source) hands out; `read` gives so many bytes of the source."""
        row, come = self.request["streamed_outputs"][index], self.come[index]
        if (first + count) * row > self.request["outputs"][index]:
            raise Stopped(f"write_rows was given rows that the output does not have, {first} to {first + count}")
        if first * row != len(come):
            raise Stopped(f"write_rows was not given each row once and in order: {first} after {len(come) // row}")
        come += read(count * row)

    def move(self, machine: Machine, to_model: bool, wanted: Sequence[int]) -> None:
        """Do what a callback of the model asks for by its arguments but the first: bring rows to a place, or take them."""
        *rows, place = wanted
        if to_model:
            machine.write(place, self.bring(*rows))
        else:
            self.take(*rows, partial(machine.read, place))


class Machine(Protocol):
    """A core with a program in it. struct, io: the addresses of the model's memories and of its callbacks. step: the last
    traced step of the inference, -1 before the first; dumps: what was taken after steps."""

    struct: int
    io: int
    step: int
    dumps: dict[int, bytes]

    @property
    def instructions(self) -> int:
        """Return how many the last call took."""

    def call(self, function: str, *arguments: int) -> int:
        """Run a function of the model to its end and return its result."""

    def read(self, address: int, count: int) -> bytes:
        """Return bytes of memory."""

    def write(self, address: int, data: bytes) -> None:
        """Change bytes of memory."""

    def begin(self, rows: Rows) -> None:
        """Forget the steps of the inference before; the next one's callbacks bring and take `rows`."""

    def report(self) -> dict[str, Any]:
        """Return what else the last call cost."""

    def remains(self) -> dict[str, Any]:
        """Return the memories, and what of the stack was used, as the calls left them."""


def run(machine: Machine, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
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
                    raise Stopped("streams other inputs than the caller said")
                if to:
                    machine.write(to, data)
            machine.begin(rows := Rows(request, inputs))
            if not answer["status"]:
                answer |= {"status": call("invoke", machine.io), "instructions": machine.instructions, **machine.report()}
            outputs = []
            for index, count in enumerate(request["outputs"]):
                at = call("output", index)
                if (at == 0) != (index in request["streamed_outputs"]):
                    raise Stopped("hands out other outputs by rows than the caller said")
                outputs.append(machine.read(at, count) if at else bytes(rows.come[index]))
                if len(outputs[-1]) != count and not answer["status"]:
                    raise Stopped(f"did not hand out all rows of output {index}")
            answer["outputs"].append(outputs)
        function = "invoke"
        answer |= machine.remains()
    except Stopped as stopped:
        answer["stopped"] = {"what": str(stopped), "pc": stopped.pc, "address": stopped.address, "function": function}
    return answer | {"step": machine.step, "dumps": machine.dumps}
