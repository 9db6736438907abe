"""Record what kernels read and write, and in which order, on the host and on an emulated core.

Takes cases of one op, each with the kernel that runs it. Returns per case the actual overlap distance of its output and each
input, and the touched bytes of its scratch; accesses elsewhere raise. All cases are ops of one network with disjoint operands,
which runs once, because the accesses of these kernels do not depend on values. On the host the kernels are compiled as for
ThreadSanitizer, with the run-time functions of trace.c; on the core the emulator calls the same functions.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from cases.ops import Case
from cases.rows import union
from codegen.emitted import emitted

from tinyweave.ir import CompileError, Graph
from tinyweave.kernels.table import Variant
from tinyweave.planning import Buffer, Place, Plan, Stage, scratch_name
from tinyweave.simulate import compare, emulated
from tinyweave.simulate.messages import decode, encode
from tinyweave.simulate.worker import worker
from tinyweave.support import toolchain

GAP, ALIGN = 64, 16
INPUT, OUTPUT, SCRATCH, STATE = range(4)  # roles of trace.c
RENAMED = tuple(f"-D{name}=tw_traced_{name}" for name in ("memcpy", "memmove", "memset"))
UNSANITIZED = "-fno-sanitize=undefined"  # zig sanitizes by default
WATCHED = ("-std=c99", "-DTW_PLAIN_C", "-fPIC", "-fsanitize=thread", *RENAMED)
SCALAR = {  # flags by compiler that keep each access of the source
    "gcc": ("-O1", "-fno-tree-vectorize", "-fno-tree-loop-distribute-patterns"),
    "clang": ("-O1", "-fno-vectorize", "-fno-slp-vectorize", UNSANITIZED),
}


class Part(ctypes.Structure):
    """The struct tw_part of trace.c."""

    _fields_ = [(name, ctypes.c_int32) for name in ("op", "role", "begin", "distance", "first", "end")]


class Trace(ctypes.Structure):
    """The struct tw_trace of trace.c."""

    _fields_ = [
        ("arena", ctypes.c_uint64),
        ("bytes", ctypes.c_int32),
        ("owner", ctypes.c_void_p),
        ("parts", ctypes.c_void_p),
        ("written", ctypes.c_void_p),
        ("strays", ctypes.c_int32),
        ("stray", ctypes.c_int32),
        ("outside", ctypes.c_int32),
        ("stack_low", ctypes.c_uint64),
        ("stack_high", ctypes.c_uint64),
        ("read_register", ctypes.c_void_p),
        ("write_register", ctypes.c_void_p),
        ("status_register", ctypes.c_int),
    ]


class Chosen(NamedTuple):
    """A case of one op and the row of the kernel that runs it."""

    case: Case
    row: Variant


@dataclass(frozen=True)
class Seen:
    """Recorded accesses of a kernel. distances: index of an input that it read -> overlap distance in bytes."""

    distances: dict[int, int] = field(default_factory=dict)
    scratch: tuple[int, int] | None = None  # the first byte touched, and the last one plus 1
    written: int = 0  # the last byte written of the output, plus 1


def apart(name: str, chosen: Sequence[Chosen]) -> Plan:
    """Return an unchecked plan of all cases side by side in which no buffers overlap or adjoin."""
    graph = union(name, [case for case, _ in chosen])
    assert len(graph.ops) == len(chosen)
    sizes, offsets, begin = {}, {}, GAP
    for (_, row), op in zip(chosen, graph.ops, strict=True):
        operands = [x for x in (*op.inputs, *op.outputs) if x is not None and graph.tensors[x].data is None]
        sizes |= {x: graph.tensors[x].bytes for x in operands}
        if scratch := row.scratch(graph, op):
            sizes[scratch_name(op.name)] = scratch
        for tensor in (tensor for tensor in sizes if tensor not in offsets):
            offsets[tensor] = begin
            begin = -(-(begin + sizes[tensor] + GAP) // ALIGN) * ALIGN
    return Plan(
        graph=graph,
        stages=tuple(Stage((index,)) for index in range(len(graph.ops))),
        variants=tuple(row.name for _, row in chosen),
        buffers=tuple(Buffer(name, size, 0, len(graph.ops), 1) for name, size in sizes.items()),
        places={name: Place(name) for name in sizes if name in graph.tensors},
        offsets=offsets,
        arena={"sram": begin},
        scratch=0,
        lower_bound=0,
    )


class Watch:
    """The tables of a trace of a plan, which a run fills."""

    def __init__(self, plan: Plan):
        self.plan, graph = plan, plan.graph
        size = plan.arena["sram"]
        self.names = list(plan.offsets)
        self.owner = np.full(size, -1, np.int32)
        self.parts = (Part * len(self.names))()
        self.written = np.zeros(len(graph.ops), np.int32)
        ops = {name: index for index, op in enumerate(graph.ops) for name in (*op.inputs, *op.outputs, scratch_name(op.name))}
        for number, name in enumerate(self.names):
            begin = plan.offsets[name]
            self.owner[begin : begin + plan.buffer(name).bytes] = number
            role = SCRATCH if name not in graph.tensors else self._role(graph, name)
            self.parts[number] = Part(ops[name], role, begin, 0, 1 << 30, 0)
        self.trace = Trace(bytes=size, owner=self.owner.ctypes.data, parts=ctypes.addressof(self.parts))
        self.trace.written = self.written.ctypes.data

    @staticmethod
    def _role(graph: Graph, name: str) -> int:
        if graph.tensors[name].role == "state":
            return STATE
        return OUTPUT if name in graph.producer else INPUT

    def seen(self) -> list[Seen]:
        """Return the accesses of each op; raise AssertionError if an op touched a buffer that is not its own."""
        graph, trace = self.plan.graph, self.trace
        assert not trace.strays, f"{trace.strays} accesses to what is no operand, the first {self._near(trace.stray)}"
        assert not trace.outside, f"{trace.outside} writes to what is neither arena nor stack"
        found = [Seen(written=int(end)) for end in self.written]
        for name, part in zip(self.names, self.parts, strict=True):
            was_touched = part.end > part.first
            if part.role == INPUT and was_touched:
                index = graph.ops[part.op].inputs.index(name)
                found[part.op].distances[index] = max(part.distance, 0)
            if part.role == SCRATCH and was_touched:
                found[part.op] = Seen(found[part.op].distances, (part.first, part.end), found[part.op].written)
        return found

    def _near(self, at: int) -> str:
        begins = [(self.plan.offsets[name], name) for name in self.names]
        begin, name = max(begin for begin in begins if begin[0] <= at)
        return f"{at - begin} bytes behind the start of '{name}', which has {self.plan.buffer(name).bytes}"


def library(plan: Plan, folder: Path) -> ctypes.CDLL:
    """Build the model of a plan with recorded kernels."""
    compiler, files = toolchain.host(), sorted(emitted(plan, folder).glob("*.[ch]"))
    watched = [*WATCHED, *SCALAR["gcc" if compiler.name == "gcc" else "clang"]]
    kernels = toolchain.objects(compiler, watched, [path for path in files if path.name.startswith("tw_")])
    model, trace = folder / f"{plan.graph.name}.c", Path(__file__).with_name("trace.c")
    target = folder / f"{plan.graph.name}.so"  # a unique name, because a library is loaded only once per name
    plain = ["-std=c99", "-DTW_PLAIN_C", "-fPIC", "-O0", UNSANITIZED, *RENAMED]
    toolchain.compile_c(compiler, [*plain, "-c", "-I", folder, model, "-o", folder / "model.o"])
    toolchain.compile_c(compiler, ["-std=c99", "-fPIC", "-O2", UNSANITIZED, "-c", trace, "-o", folder / "trace.o"])
    toolchain.compile_c(compiler, ["-shared", UNSANITIZED, folder / "model.o", folder / "trace.o", *kernels, "-o", target])
    return ctypes.CDLL(str(target))


def trace_library() -> Path:
    """Build trace.c alone, as an emulator loads it."""
    compiler, source, flags = toolchain.host(), Path(__file__).with_name("trace.c"), ["-std=c99", "-fPIC", "-O2", "-shared"]

    def build(path: Path) -> None:
        toolchain.compile_c(compiler, [*flags, source, "-o", path])

    return toolchain.cached("trace.so", compiler, flags, [source], build)


def on_core(name: str, chosen: Sequence[Chosen], core: str, folder: Path) -> list[Seen]:
    """Return the accesses of the cases' kernels on an emulated core."""
    plan = apart(name, chosen)
    emitted(plan, folder)
    firmware, watch = emulated.build(folder, name, core), Watch(plan)
    tests = Path(__file__).parents[1]
    command = (sys.executable, str(tests / "kernels" / "core_trace.py"), str(trace_library()))

    def watched(request: Mapping[str, Any], limit_s: float) -> Any:
        tables = {"owner": watch.owner.tobytes(), "parts": bytes(watch.parts), "ops": len(watch.written)}
        with worker(command, {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)])}).session(limit_s) as child:
            child.send(encode({**request, "watch": tables}))
            answer = decode(child.receive)
        result = answer.pop("watch")
        ctypes.memmove(watch.parts, result.pop("parts"), ctypes.sizeof(watch.parts))
        watch.written[:] = np.frombuffer(result.pop("written"), np.int32)
        for counter, value in result.items():
            setattr(watch.trace, counter, value)
        return answer

    arrays = [array for case, _ in chosen for array in case.inputs[0]]
    with mock.patch.object(emulated, "_unicorn", watched):
        emulated.invoke(firmware, plan.arena, compare.pack(arrays), compare.output_bytes(plan.graph))
    return watch.seen()


def on_host(name: str, chosen: Sequence[Chosen], folder: Path) -> list[Seen]:
    """Return the accesses of the cases' kernels on the host."""
    plan = apart(name, chosen)
    loaded, watch = library(plan, folder), Watch(plan)
    size = plan.arena["sram"]
    block = np.random.default_rng(0).integers(0, 256, size + 64, dtype=np.uint8)
    begin = block.ctypes.data + -block.ctypes.data % 64
    memory = (ctypes.c_size_t * 2)(begin, size)  # its address and size
    watch.trace.arena = begin
    assert loaded[f"{name}_init"](memory) == 0
    invoke = ctypes.cast(loaded[f"{name}_invoke"], ctypes.c_void_p)
    if loaded.tw_trace_invoke(ctypes.byref(watch.trace), invoke, memory):
        raise CompileError(f"{name} returned an error")
    return watch.seen()
