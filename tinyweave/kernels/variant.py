"""`Variant`: a row of the kernel table, and the names that rows are written in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, packed
from ..ops import SPECS, spec_of
from ..ops.reduce import axes
from . import cycle_features, geometry
from . import overlap_distance as distance
from .cycle_features import Features
from .overlap_distance import Distances
from .requirements import Requirement

# C files and headers by name; an emitted project has them in one folder
FILES = dict(sorted((path.name, path) for path in Path(__file__).parent.rglob("*.[ch]")))

# types of an input and an output; ANY: the kernel works on any
S4, S8, S16, ANY = ("int4", "int4"), ("int8", "int8"), ("int16", "int16"), ("any", "any")
VIEWS = tuple(kind for kind, spec in SPECS.items() if spec.family == "view")
TABLE_BYTES = 256  # of a function of one byte
RESCALE_BYTES = 5  # a multiplier and a shift

Isa = Literal[
    "",  # portable C
    "scalar",  # a multiplier; on cores with DSP for layers that their own kernels do not suit
    "rv32m",  # RISC-V with its many registers
    "dsp",  # the Arm DSP extension
    "m7",  # the Arm DSP extension, scheduled for the two pipelines of a Cortex-M7
    "mve",  # Helium
]
RV32M = ("rv32imc", "rv32imac", "sifive-e31")
SCALAR = (*RV32M, "cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33")
DSP = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85")
MVE = ("cortex-m55", "cortex-m85")  # these have DSP too
M7 = ("cortex-m7",)
DSP_FORMS: tuple[Isa, ...] = ("m7", "dsp")  # a kernel that has both: the faster one first
CORES_WITH: dict[Isa, tuple[str, ...]] = {"": (), "scalar": SCALAR, "rv32m": RV32M, "dsp": DSP, "m7": M7, "mve": MVE}

ASKED_FOR = ("flash_heavy", "lean", "copying")  # fields that mark kernels which the planner must ask for


def constant_bytes(graph: Graph, op: Op) -> int:
    """Return the bytes of an op's constant operands, and of a layer's rescaling multipliers and shifts per output channel."""
    constants = sum(x.bytes for x in graph.inputs_of(op) if x is not None and x.data is not None)
    return constants + RESCALE_BYTES * graph.output(op).shape[-1] if spec_of(op).weights is not None else constants


def packed_by_tap(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return int4 weights two to a byte. Each run along the last axis begins a new byte."""
    return packed(weights).view(np.int8)


def packed_by_filter(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return int4 weights two to a byte. Each filter begins a new byte."""
    return packed_by_tap(weights.reshape(len(weights), -1))


@dataclass(frozen=True)
class Variant:
    """A kernel: one C function in a C file of its name, and all facts about it. No code depends on its name."""

    name: str
    kinds: tuple[str, ...]  # op kinds
    params: str  # the C type of its parameters, or its own name if it has none
    types: tuple[str, str] = S8  # of the input and the output
    isa: Isa = ""  # the instruction set that it needs
    has_part: bool = True  # has a form for a range of the output, with ring buffers of rows
    has_rows: bool = False  # has a form that accumulates the rows of its input one by one
    applies: tuple[Requirement, ...] = ()  # what the op must meet, in this order: a requirement may rely on earlier ones

    scratch: Callable[[Graph, Op], int] = lambda graph, op: 0  # bytes
    distance: Callable[[Graph, Op], Distances] = distance.none  # overlap distance of each input that may overlap the output
    flash: Callable[[Graph, Op], int] = constant_bytes  # bytes of constants
    stream: Callable[[Graph, Op], NDArray[np.uint32]] | None = None  # words that replace weights, biases and multipliers
    weights: Callable[[NDArray[np.int8]], NDArray[np.int8]] = lambda weights: weights  # their layout, if there is no stream

    features: Callable[[Graph, Op], Features] = cycle_features.plain  # counts that its cycles depend on
    loop_bytes: int = 0  # code of its inner loop, if a small cache may not hold it
    timed_as: str = ""  # the kernel whose fitted constants estimate its cycles; "" for its own
    computes_in_float: bool = False  # float32 arithmetic between integer types

    # kernels that `variant_for` returns only if the planner asks for them
    flash_heavy: bool = False  # keeps many more constants, and is not always faster
    lean: bool = False  # needs no scratch; another kernel of the core does and is faster on whole maps
    copying: bool = False  # copies its stream to scratch, which pays only if Flash has wait states

    @property
    def cores(self) -> tuple[str, ...]:
        """Cores that have its instruction set; empty for portable C."""
        return CORES_WITH[self.isa]

    @property
    def files(self) -> tuple[str, ...]:
        """Its C file, without the files that it includes; empty for a function of the C library."""
        return tuple(file for file in (f"{self.name}.c",) if file in FILES)

    @cached_property
    def header(self) -> str:
        """The header that declares it: the first that its C file includes; "" for a function of the C library."""
        found = [re.search(r'^#include "(\w+\.h)"', FILES[file].read_text(), re.MULTILINE) for file in self.files]
        return found[0][1] if found and found[0] else ""

    def sums(self, graph: Graph, op: Op) -> int:
        """Return the bytes of the accumulators of its form for single input rows; 0 if it has no such form for the op."""
        x = graph.input(op)
        if not self.has_rows or len(x.shape) != 4 or x.shape[0] != 1:
            return 0
        _, h, w, c = x.shape
        if op.kind == "mean":
            one = geometry.reduction(x.shape, axes(graph, op)) == geometry.Reduction((1, c, 1), (h * w, 1))
        else:
            (top, _), (left, _) = op.attrs["padding"]
            (rows, cols), out = op.attrs["kernel"], graph.output(op).shape[1:3]
            one = out == (1, 1) and rows - top >= h and cols - left >= w
        return 4 * c if one else 0
