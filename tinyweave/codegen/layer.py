"""The input of an emitter (one op of a plan with the C expressions of its operands), its output, and the constant arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import ops
from ..ir import Graph, Op, Tensor, is_constant, packed
from ..kernels.table import BY_NAME, Variant
from ..planning import Plan, scratch_name
from ..planning.fuse.rematerialise import is_rematerialised
from . import c

CTYPES = {f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
CTYPES |= {"float32": "float", "bool": "uint8_t", "int4": "uint8_t"}  # two int4 per byte
# members of parameter structs that change if the network is trained again: they are read from a file of weights
QUANTISATION = re.compile(r"(\w+_)?(zero|min|max|multiplier|shift|left|factor|constant|sign|power|positive|value|least)")
NUMBERS = {"int32_t": "numbers", "float": "reals"}  # C type -> name of a layer's array of such members


def stored(tensor: Tensor) -> np.ndarray:
    """Return the values of a constant tensor as the C array stores them: two int4 values per byte, a bool as a byte."""
    assert tensor.data is not None
    if tensor.dtype == "int4":
        return packed(tensor.data)
    return tensor.data.view(np.uint8) if tensor.dtype == "bool" else tensor.data


@dataclass
class Constants:
    """The constant arrays of a model, which become <m>_weights.h; equal arrays are stored once."""

    # (C type, content) -> (C name, values, header with the layout or ""), in the order in which the arrays were added
    arrays: dict[tuple[str, bytes], tuple[str, np.ndarray, str]] = field(default_factory=dict)
    # C name -> the ops whose kernels read the array; "" stands for functions besides `invoke`
    readers: dict[str, dict[str, None]] = field(default_factory=dict)
    in_file: bool = False  # whether the arrays are in <m>.weights, where each name has an array of its own
    copies: Mapping[str, str] = field(default_factory=dict)  # C name of an array copied to RAM -> C expression of its address

    def add(self, name: str, values: np.ndarray, ctype: str, layout: str = "", *, op: str = "") -> str:
        """Add an array that an op reads and return its C name: `name`, or the name of an equal array that was added before."""
        values = values if values.size else np.zeros(1)  # C has no empty arrays
        # converted to the C type, so that equal bytes mean equal arrays
        values = values.astype("float32" if ctype == "float" else ctype.removesuffix("_t"))
        key = (ctype, name.encode() if self.in_file else values.tobytes())
        name, same, _ = self.arrays.setdefault(key, (name, values, layout))
        if same.tobytes() != values.tobytes():
            raise ValueError(f"two arrays are called {name}")
        self.readers.setdefault(name, {})[op] = None
        return name

    def address(self, name: str, ctype: str) -> str:
        """Return the C expression of the address of an array, by its C name: in Flash, in a file of weights, or of its copy."""
        place = self.copies.get(name, f"weights + AT_{name.upper()}" if self.in_file else "")
        return f"(const {ctype} *)(const void *)({place})" if place else name

    @property
    def texts(self) -> list[str]:
        """Return the C definition of each array."""
        return [c.array(ctype, *array) for (ctype, _), array in self.arrays.items()]

    @property
    def bytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(values.nbytes for _, values, _ in self.arrays.values())


@dataclass(frozen=True)
class Code:
    """The C of a layer: definitions of constants such as the parameter struct, the kernel's call, and a note about it."""

    params: str
    call: str
    note: str = ""

    @property
    def in_ram(self) -> list[str]:
        """Return the lines of `params` as variables if they have addresses that are known when `invoke` runs; else []."""
        return self.params.replace("static const ", "const ").rstrip().split("\n") if " + AT_" in self.params else []


@dataclass(frozen=True)
class Layer:
    """One op of a plan, with the C expressions of its operands: the input of an emitter."""

    plan: Plan
    op: Op
    at: Mapping[str, str]  # name of an activation or a scratch buffer -> C expression of its address
    constants: Constants  # the model's arrays, to which emitters add
    maps: Mapping[str, str] | None = None  # activation -> C expression of its tw_view (rows in memory); None if not fused
    range: str = ""  # C expression of the rows and columns to compute; "" if the op is not fused

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
        """Return the op's kernel: its row in the table of kernels."""
        return BY_NAME[self.plan.variants[self.graph.ops.index(self.op)]]

    def input(self, index: int = 0) -> Tensor:
        """Return the input `index` of the op."""
        return self.graph.input(self.op, index)

    def optional_input(self, index: int) -> Tensor | None:
        """Return the input `index` of the op, or None if it is absent."""
        return self.graph.optional_input(self.op, index)

    @property
    def output(self) -> Tensor:
        """Return the output of the op."""
        return self.graph.output(self.op)

    def table(self, suffix: str, values: np.ndarray, ctype: str = "int32_t") -> str:
        """Add a constant array for this op and return its address; its C name ends in `suffix` unless an equal array exists."""
        return self._array(suffix, values, ctype)

    def stream(self) -> str:
        """Add the kernel's weight stream and return its address."""
        assert self.row.stream is not None
        return self._array("weights", self.row.stream(self.graph, self.op), "uint32_t", self.row.layout)

    def _array(self, suffix: str, values: np.ndarray, ctype: str, layout: str = "") -> str:
        """Add a constant array and return the C expression of its address."""
        return self.constants.address(self.constants.add(f"{self.name}_{suffix}", values, ctype, layout, op=self.name), ctype)

    def address(self, tensor: Tensor) -> str:
        """Return the C expression of a tensor's address. The array of a constant is added to `constants`."""
        if not is_constant(tensor):
            return self.at[tensor.name]
        names = [name for name in self.op.inputs if name is not None]
        index = names.index(tensor.name)
        is_only = index == 1 or (index == 0 and not (names[1:] and is_constant(self.graph.tensors[names[1]])))
        suffix = "weights" if is_only else f"weights_{index}"
        return self.table(suffix, stored(tensor), CTYPES[tensor.dtype])

    @property
    def sums(self) -> str:
        """Return the C expression of the address of the accumulators with which a fused op adds up its input row by row."""
        return self.at[scratch_name(self.name)]

    @property
    def scratch(self) -> tuple[str, ...]:
        """Return the scratch buffer as a tuple of one C argument, or () if the kernel needs no scratch."""
        if not self.row.scratch(self.graph, self.op):
            return ()
        return (self.at[self.plan.scratch_of(self.graph.ops.index(self.op))],)

    def struct(self, *members: Mapping[str, object]) -> str:
        """Return the definition of the kernel's parameter struct; each argument becomes one line of initialisers.

        With a file of weights, numbers that depend on the quantisation are read from arrays of this file.
        """
        arrays = dict[str, list[object]]()
        if self.constants.in_file:
            members = tuple(self._read(line, arrays, "") for line in members)
        defined = ""
        for ctype, values in arrays.items():
            address = self.table(NUMBERS[ctype], np.array(values, ctype.removesuffix("_t")), ctype)
            defined += f"const {ctype} *const {self.name}_{NUMBERS[ctype]} = {address};\n"
        return defined + c.struct(f"static const {self.row.params}", self.name, members)

    def _read(self, item: Any, arrays: dict[str, list[object]], key: str) -> Any:
        """Return a struct's member `key`, its numbers replaced by elements of `arrays` (C type -> numbers)."""
        if isinstance(item, Mapping):
            return {name: self._read(entry, arrays, name) for name, entry in item.items()}
        if isinstance(item, Sequence) and not isinstance(item, str):
            return [self._read(entry, arrays, key) for entry in item]
        is_float = isinstance(item, (float, np.floating))
        if isinstance(item, str) or not (is_float or QUANTISATION.fullmatch(key)):
            return item
        array = arrays.setdefault(ctype := "float" if is_float else "int32_t", [])
        array.append(item)
        return f"{self.name}_{NUMBERS[ctype]}[{len(array) - 1}]"


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as comments print it, such as "32x32x3", without a batch of 1."""
    trimmed = shape[1:] if tuple(shape[:1]) == (1,) else shape
    return "x".join(map(str, trimmed)) or "1"


def macs_text(macs: int) -> str:
    """Return a number of multiply-accumulates with a unit, such as "1.2 MMAC"; "" for 0."""
    if macs == 0:
        return ""
    for unit, scale in (("M", 1_000_000), ("k", 1_000)):
        if macs >= scale:
            return f"{macs / scale:.1f} {unit}MAC"
    return f"{macs} MAC"


def layer_note(graph: Graph, op: Op, geometry: str) -> str:
    """Return one line that describes a layer: name, kind, geometry (such as "3x3/2 relu"), shapes and MACs."""
    sources = " + ".join(shape_text(t.shape) for t in graph.inputs_of(op) if t is not None and not is_constant(t))
    target = ", ".join(shape_text(t.shape) for t in graph.outputs_of(op))
    kind = f"{op.kind} {geometry}".strip()
    macs = macs_text(ops.SPECS[op.kind].macs(graph, op, True))
    recomputed = ", recomputed" if is_rematerialised(op) else ""
    return f"{op.name}: {kind}, {sources} -> {target}" + (f", {macs}" if macs else "") + recomputed


@dataclass(frozen=True)
class Traced:
    """A layer as the trace hook TW_TRACE identifies it: by its step, and in a fused stage by the index of its op."""

    step: int
    index: int | None  # index of the op, if it is in a fused stage; None if the op is a step of its own
    name: str


def traced(plan: Plan) -> list[Traced]:
    """Return all layers that the trace hook identifies, in the order of the steps."""
    return [
        Traced(step, index if stage.schedule else None, plan.graph.ops[index].name)
        for step, stage in enumerate(plan.stages)
        for index in stage.ops
    ]
