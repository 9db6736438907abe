"""What an emitter works with: one op of a plan, where its operands lie, and the constants that the model's tables hold.

In: a Plan and an op. Out: C expressions; constants are collected once per content, whoever asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .. import ops
from ..ir import Graph, Op, Tensor, is_constant, packed
from ..kernels.table import BY_NAME, Variant
from ..planning import Plan, scratch_name
from ..planning.fuse.rematerialise import is_rematerialised
from . import c

CTYPES = {f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
CTYPES |= {"float32": "float", "bool": "uint8_t", "int4": "uint8_t"}  # two int4 to a byte


def stored(tensor: Tensor) -> np.ndarray:
    """Return the values of a constant as elements of its C type."""
    assert tensor.data is not None
    if tensor.dtype == "int4":
        return packed(tensor.data)
    return tensor.data.view(np.uint8) if tensor.dtype == "bool" else tensor.data


@dataclass
class Constants:
    """The arrays of <m>_weights.h, in the order in which they were first asked for."""

    arrays: dict[tuple[str, bytes], tuple[str, np.ndarray]] = field(default_factory=dict)

    def add(self, name: str, values: np.ndarray, ctype: str) -> str:
        """Return the C name of an array with these values: `name`, or that of an equal array already there."""
        values = values if values.size else np.zeros(1)  # C has no empty arrays
        values = values.astype("float32" if ctype == "float" else ctype.removesuffix("_t"))  # equal bytes are equal arrays
        key = (ctype, values.tobytes())
        return self.arrays.setdefault(key, (name, values))[0]

    @property
    def texts(self) -> list[str]:
        return [c.array(ctype, name, values) for (ctype, _), (name, values) in self.arrays.items()]

    @property
    def bytes(self) -> int:
        return sum(len(content) for _, content in self.arrays)


@dataclass(frozen=True)
class Code:
    """What an emitter returns: its parameter struct, its call, and what the layer's comment says of its geometry."""

    params: str
    call: str
    note: str = ""


@dataclass(frozen=True)
class Layer:
    """One op of `plan`; `at` gives the C expression of an activation's address, in a fused stage `maps` that of its view, and
    `range` that of the rows and columns to compute."""

    plan: Plan
    op: Op
    at: Mapping[str, str]
    constants: Constants
    maps: Mapping[str, str] | None = None
    range: str = ""

    @property
    def graph(self) -> Graph:
        return self.plan.graph

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def row(self) -> Variant:
        """Return the row of its kernel in the table."""
        return BY_NAME[self.plan.variants[self.graph.ops.index(self.op)]]

    def input(self, index: int = 0) -> Tensor:
        return self.graph.input(self.op, index)

    def optional_input(self, index: int) -> Tensor | None:
        return self.graph.optional_input(self.op, index)

    @property
    def output(self) -> Tensor:
        return self.graph.output(self.op)

    def table(self, suffix: str, values: np.ndarray, ctype: str = "int32_t") -> str:
        """Return the C name of a constant array of this op."""
        return self.constants.add(f"{self.name}_{suffix}", values, ctype)

    def address(self, tensor: Tensor) -> str:
        """Return the C expression of a tensor's first byte, constant or not."""
        if not is_constant(tensor):
            return self.at[tensor.name]
        index = [name for name in self.op.inputs if name is not None].index(tensor.name)
        suffix = "weights" if index < 2 else f"weights_{index}"
        return self.table(suffix, stored(tensor), CTYPES[tensor.dtype])

    @property
    def sums(self) -> str:
        """Return the C expression of where it collects its output in a fused stage."""
        return self.at[scratch_name(self.name)]

    @property
    def scratch(self) -> tuple[str, ...]:
        """Return the last argument of a kernel that needs scratch; none of one that does not."""
        if not self.row.scratch(self.graph, self.op):
            return ()
        return (self.at[self.plan.scratch_of(self.graph.ops.index(self.op))],)

    def struct(self, *members: Mapping[str, object]) -> str:
        """Return C that defines the parameters of its kernel."""
        return c.struct(self.row.params, self.name, members)


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as comments print it: the batch of 1 left out."""
    trimmed = shape[1:] if tuple(shape[:1]) == (1,) else shape
    return "x".join(map(str, trimmed)) or "1"


def macs_text(macs: int) -> str:
    """Return a count of multiply-accumulates in thousands or millions, empty for none."""
    if macs == 0:
        return ""
    for unit, scale in (("M", 1_000_000), ("k", 1_000)):
        if macs >= scale:
            return f"{macs / scale:.1f} {unit}MAC"
    return f"{macs} MAC"


def layer_note(graph: Graph, op: Op, geometry: str) -> str:
    """Return one line on what a layer computes: name, kind, geometry, shapes, MACs executed."""
    sources = " + ".join(shape_text(t.shape) for t in graph.inputs_of(op) if t is not None and not is_constant(t))
    target = ", ".join(shape_text(t.shape) for t in graph.outputs_of(op))
    kind = f"{op.kind} {geometry}".strip()
    macs = macs_text(ops.SPECS[op.kind].macs(graph, op, True))
    recomputed = ", the second time" if is_rematerialised(op) else ""
    return f"{op.name}: {kind}, {sources} -> {target}" + (f", {macs}" if macs else "") + recomputed


@dataclass(frozen=True)
class Traced:
    """A layer as the hooks of the C tell it apart. index: of its op where it is part of a stage, None where it is the step."""

    step: int
    index: int | None
    name: str


def traced(plan: Plan) -> list[Traced]:
    """Return what TW_TRACE and TW_LAYER tell apart: all layers, in the order of the steps."""
    return [
        Traced(step, index if stage.schedule else None, plan.graph.ops[index].name)
        for step, stage in enumerate(plan.stages)
        for index in stage.ops
    ]
