"""The input of an emitter: one op of a plan, the C expressions of its operands, and the model's constant tables."""

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
CTYPES |= {"float32": "float", "bool": "uint8_t", "int4": "uint8_t"}  # two int4 per byte


def stored(tensor: Tensor) -> np.ndarray:
    """Return the values of a constant tensor as elements of its C type."""
    assert tensor.data is not None
    if tensor.dtype == "int4":
        return packed(tensor.data)
    return tensor.data.view(np.uint8) if tensor.dtype == "bool" else tensor.data


@dataclass
class Constants:
    """The arrays of <m>_weights.h, in order of first use; equal arrays are stored once."""

    arrays: dict[tuple[str, bytes], tuple[str, np.ndarray]] = field(default_factory=dict)

    def add(self, name: str, values: np.ndarray, ctype: str) -> str:
        """Return the C name of an array with these values: `name`, or the name of an equal array already stored."""
        values = values if values.size else np.zeros(1)  # C has no empty arrays
        # of the C type, so that equal bytes mean equal arrays
        values = values.astype("float32" if ctype == "float" else ctype.removesuffix("_t"))
        key = (ctype, values.tobytes())
        return self.arrays.setdefault(key, (name, values))[0]

    @property
    def texts(self) -> list[str]:
        """Return the C definition of each array."""
        return [c.array(ctype, name, values) for (ctype, _), (name, values) in self.arrays.items()]

    @property
    def bytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(len(content) for _, content in self.arrays)


@dataclass(frozen=True)
class Code:
    """The C of one layer: its parameter struct, its call, and the geometry for the layer's comment."""

    params: str
    call: str
    note: str = ""


@dataclass(frozen=True)
class Layer:
    """One op of a plan, with the C expressions of its operands."""

    plan: Plan
    op: Op
    at: Mapping[str, str]  # activation or scratch buffer -> C expression of its address
    constants: Constants  # of the model
    maps: Mapping[str, str] | None = None  # in a fused stage, activation -> C expression of its view
    range: str = ""  # in a fused stage, C expression of the rows and columns to compute

    @property
    def graph(self) -> Graph:
        """Return the plan's graph."""
        return self.plan.graph

    @property
    def name(self) -> str:
        """Return the name of the op."""
        return self.op.name

    @property
    def row(self) -> Variant:
        """Return the row of the op's kernel in the table of kernels."""
        return BY_NAME[self.plan.variants[self.graph.ops.index(self.op)]]

    def input(self, index: int = 0) -> Tensor:
        """Return an input of the op."""
        return self.graph.input(self.op, index)

    def optional_input(self, index: int) -> Tensor | None:
        """Return an input of the op, or None if it is absent."""
        return self.graph.optional_input(self.op, index)

    @property
    def output(self) -> Tensor:
        """Return the output of the op."""
        return self.graph.output(self.op)

    def table(self, suffix: str, values: np.ndarray, ctype: str = "int32_t") -> str:
        """Return the C name of a constant array of this op with these values."""
        return self.constants.add(f"{self.name}_{suffix}", values, ctype)

    def address(self, tensor: Tensor) -> str:
        """Return the C expression of the address of a tensor, constant or not."""
        if not is_constant(tensor):
            return self.at[tensor.name]
        index = [name for name in self.op.inputs if name is not None].index(tensor.name)
        suffix = "weights" if index < 2 else f"weights_{index}"
        return self.table(suffix, stored(tensor), CTYPES[tensor.dtype])

    @property
    def sums(self) -> str:
        """Return the C expression of the address of the op's row-wise sums in a fused stage."""
        return self.at[scratch_name(self.name)]

    @property
    def scratch(self) -> tuple[str, ...]:
        """Return the scratch argument of the kernel's call, or () if the kernel needs no scratch."""
        if not self.row.scratch(self.graph, self.op):
            return ()
        return (self.at[self.plan.scratch_of(self.graph.ops.index(self.op))],)

    def struct(self, *members: Mapping[str, object]) -> str:
        """Return the definition of the kernel's parameter struct."""
        return c.struct(self.row.params, self.name, members)


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as comments print it, without a batch of 1."""
    trimmed = shape[1:] if tuple(shape[:1]) == (1,) else shape
    return "x".join(map(str, trimmed)) or "1"


def macs_text(macs: int) -> str:
    """Return a count of multiply-accumulates with a unit, such as "1.2 MMAC"; "" for 0."""
    if macs == 0:
        return ""
    for unit, scale in (("M", 1_000_000), ("k", 1_000)):
        if macs >= scale:
            return f"{macs / scale:.1f} {unit}MAC"
    return f"{macs} MAC"


def layer_note(graph: Graph, op: Op, geometry: str) -> str:
    """Return one line that describes a layer: name, kind, geometry, shapes and MACs."""
    sources = " + ".join(shape_text(t.shape) for t in graph.inputs_of(op) if t is not None and not is_constant(t))
    target = ", ".join(shape_text(t.shape) for t in graph.outputs_of(op))
    kind = f"{op.kind} {geometry}".strip()
    macs = macs_text(ops.SPECS[op.kind].macs(graph, op, True))
    recomputed = ", recomputed" if is_rematerialised(op) else ""
    return f"{op.name}: {kind}, {sources} -> {target}" + (f", {macs}" if macs else "") + recomputed


@dataclass(frozen=True)
class Traced:
    """A layer as the trace hooks of the C identify it."""

    step: int
    index: int | None  # of the op in a fused stage; None if the op is a whole step
    name: str


def traced(plan: Plan) -> list[Traced]:
    """Return all layers that TW_TRACE and TW_LAYER identify, in the order of the steps."""
    return [
        Traced(step, index if stage.schedule else None, plan.graph.ops[index].name)
        for step, stage in enumerate(plan.stages)
        for index in stage.ops
    ]
