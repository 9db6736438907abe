"""Unicorn's process that records every memory access of a model: `python core_trace.py LIBRARY`.

Its protocol is that of unicorn_process.py. LIBRARY is trace.c as a shared library. `watch` in a request holds the tables of
traces.py; `watch` in the answer holds the filled tables.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import numpy as np
import unicorn
from kernels.traces import Part, Trace

from tinyweave.simulate import unicorn_process

COUNTERS = ("strays", "stray", "outside")


class UnicornMachine(unicorn_process.UnicornMachine):
    """A core whose memory accesses are recorded."""

    def count_blocks(self) -> None:
        super().count_blocks()
        watch = self.request["watch"]
        self.owner, self.written = np.frombuffer(watch["owner"], np.int32), np.zeros(watch["ops"], np.int32)
        self.parts = (Part * (len(watch["parts"]) // ctypes.sizeof(Part))).from_buffer_copy(watch["parts"])
        engine = ctypes.CDLL(unicorn.unicorn_py3.unicorn.uclib._name)
        self.watched = Trace(
            arena=self.starts[0],
            bytes=len(self.owner),
            owner=self.owner.ctypes.data,
            parts=ctypes.addressof(self.parts),
            written=self.written.ctypes.data,
            stack_low=self.request["stack"][0],
            stack_high=self.stack_top,
            read_register=ctypes.cast(engine.uc_reg_read, ctypes.c_void_p),
            write_register=ctypes.cast(engine.uc_reg_write, ctypes.c_void_p),
            status_register=self.isa.status,
        )
        hook = ctypes.cast(ctypes.CDLL(sys.argv[1]).tw_trace_hook, ctypes.c_void_p)
        engine.uc_hook_add.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int] + [ctypes.c_void_p] * 2 + [ctypes.c_uint64] * 2
        kinds, everywhere = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, (1, 0)
        number, state = ctypes.byref(ctypes.c_size_t()), ctypes.addressof(self.watched)
        if error := engine.uc_hook_add(self.engine._uch, number, kinds, hook, state, *everywhere):
            raise unicorn.UcError(error)


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run a request; return the emulator's answer, with the tables and counters of the trace under `watch`."""
    machines: list[UnicornMachine] = []

    def machine_for(request: dict[str, Any]) -> UnicornMachine:
        machines.append(UnicornMachine(request))
        return machines[-1]

    unicorn_process.UnicornMachine = machine_for  # type: ignore[assignment, misc]
    answer = run_unwatched(request)
    machine = machines[-1]
    tables = {"parts": bytes(machine.parts), "written": machine.written.tobytes()}
    return answer | {"watch": tables | {name: getattr(machine.watched, name) for name in COUNTERS}}


if __name__ == "__main__":
    run_unwatched, unicorn_process.run = unicorn_process.run, run
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # text that a library prints must not mix with the answers
    unicorn_process.serve(sys.stdin.buffer, pipe)
