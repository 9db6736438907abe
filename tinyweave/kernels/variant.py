"""`Variant`, a row of the kernel table (a kernel and all facts about it), and the constants that rows are written with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, packed
from ..ops import SPECS, spec_of
from ..ops.reduce import axes
from . import cycle_features, geometry
from .cycle_features import Features
from .requirements import Requirement

# C files and headers by file name; an emitted project has them in one folder
FILES = dict(sorted((path.name, path) for path in Path(__file__).parent.rglob("*.[ch]")))

# types of the input and the output; ANY: the kernel works on all types
S8, S16, BOOL, ANY = (2 * (dtype,) for dtype in ("int8", "int16", "bool", "any"))
VIEWS = tuple(kind for kind, spec in SPECS.items() if spec.family == "view")
TABLE_BYTES = 256  # of a function of one byte
RESCALE_BYTES = 5  # a multiplier (int32) and a shift (int8) per output channel

Isa = Literal[
    "",  # portable C
    "scalar",  # plain C for cores with a multiplier; on cores with DSP for layers that their own kernels do not suit
    "registers",  # one multiplication for two pixels, for cores without DSP: plain C, on a Cortex-M3 in assembly
    "m3",  # Thumb-2 without DSP, in assembly
    "dsp",  # the Arm DSP extension
    "m7",  # the Arm DSP extension, scheduled for the two pipelines of a Cortex-M7
    "mve",  # the Arm MVE extension (Helium)
]
RV32M = ("rv32imc", "rv32imac", "sifive-e31", "rv32imc-esp")
SCALAR = (*RV32M, "cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33")
DSP = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85")
MVE = ("cortex-m55", "cortex-m85")  # these have the DSP extension, too
M7 = ("cortex-m7",)
M3 = ("cortex-m3",)
DSP_FORMS: tuple[Isa, ...] = ("m7", "dsp")  # of a kernel in both forms, in the order tried: faster first
VECTOR_FORMS: tuple[Isa, ...] = ("mve", "dsp")  # of a kernel in these forms: a core with MVE has DSP, too
CORES_WITH: dict[Isa, tuple[str, ...]] = {"": (), "scalar": SCALAR, "m3": M3, "dsp": DSP, "m7": M7, "mve": MVE}
CORES_WITH["registers"] = tuple(core for core in SCALAR if core not in DSP)

ASKED_FOR = ("flash_heavy", "lean", "copying", "compact")  # fields that mark kernels that run only if the planner asks for them


def constant_bytes(graph: Graph, op: Op) -> int:
    """Return the bytes of an op's constant operands, and with weights those of a multiplier and shift per channel."""
    constants = sum(x.bytes for x in graph.inputs_of(op) if x is not None and x.data is not None)
    return constants + RESCALE_BYTES * graph.output(op).shape[-1] if spec_of(op).weights is not None else constants


def packed_by_tap(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Pack int4 weights two to a byte, as the C kernels read them. Each run along the last axis begins a new byte."""
    return packed(weights).view(np.int8)


def packed_by_filter(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Pack int4 weights two to a byte, as the C kernels read them. Each filter (entry of the first axis) begins a new byte."""
    return packed_by_tap(weights.reshape(len(weights), -1))


@dataclass(frozen=True)
class Variant:
    """A kernel: a C function, and all facts about it that the planner and code generator need. No code depends on its name."""

    name: str
    kinds: tuple[str, ...]  # op kinds
    params: str  # the C type of its parameter struct; the function's name if it takes no struct
    types: tuple[str, str] = S8  # types of the input and the output
    isa: Isa = ""  # the instruction set that the kernel needs
    has_part: bool = True  # has a C function that computes a range of the output, from and to ring buffers of rows
    has_rows: bool = False  # has C functions that take the input row by row and accumulate it (see `sums`)
    row_grain: int = 1  # of a dense layer with `has_rows`: the elements of an input row must be a multiple of this number
    applies: tuple[Requirement, ...] = ()  # conditions on the op, checked in this order: one may rely on earlier ones

    scratch: Callable[[Graph, Op], int] = lambda graph, op: 0  # bytes of RAM that a call uses beside input and output
    flash: Callable[[Graph, Op], int] = constant_bytes  # bytes of constants in Flash
    # words that hold weights, biases and multipliers in the order in which the kernel reads them
    stream: Callable[[Graph, Op], NDArray[np.uint32]] | None = None  # builds the weight stream; None if the kernel has none
    layout: str = ""  # the header that describes the weight stream
    # the result is words (uint32) if the kernel reads them as words
    weights: Callable[[NDArray[np.int8]], NDArray[Any]] = lambda weights: weights  # reorders them, if there is no stream

    features: Callable[[Graph, Op], Features] = cycle_features.plain  # loop counts from which cycles are estimated
    loop_bytes: int = 0  # bytes of code of the inner loop; 0: fits into a small cache
    timed_as: str = ""  # name of the kernel whose fitted constants estimate the cycles; "": this kernel has its own
    computes_in_float: bool = False  # uses float32 arithmetic, though its types are integers

    # a kernel with one of these flags is returned by `variant_for` only if the planner asks for such kernels
    flash_heavy: bool = False  # has many more bytes of constants, and is not always faster
    lean: bool = False  # needs less scratch; a kernel of the same core with more scratch is faster on whole maps
    copying: bool = False  # first copies its weight stream to scratch (RAM), which pays only if Flash has wait states
    compact: bool = False  # has less code than the usual portable kernel, and is slower

    @property
    def cores(self) -> tuple[str, ...]:
        """The cores that have the kernel's instruction set; empty for portable C, which runs on all cores."""
        return CORES_WITH[self.isa]

    @property
    def files(self) -> tuple[str, ...]:
        """The kernel's C file, as a tuple of one name; empty for a function of the C library, such as memcpy."""
        return tuple(file for file in (f"{self.name}.c",) if file in FILES)

    @cached_property
    def header(self) -> str:
        """The header that declares the kernel: the first one that its C file includes; "" for a function of the C library."""
        found = [re.search(r'^#include "(\w+\.h)"', FILES[file].read_text(), re.MULTILINE) for file in self.files]
        return found[0][1] if found and found[0] else ""

    def sums(self, graph: Graph, op: Op) -> int:
        """Return the bytes of the accumulators if the kernel can take the input of `op` row by row, else 0.

        The kernel must have C functions that take rows one after another (`has_rows`). The op must be a mean or sum of one map
        over its rows, or over rows and columns, a pool of the whole map, or a dense layer that reads a map of several rows as
        one vector. The accumulators are one int32 per output.
        """
        x = graph.input(op)
        if not self.has_rows or len(x.shape) != 4 or x.shape[0] != 1:
            return 0
        _, h, w, c = x.shape
        if spec_of(op).family == "dense":
            units, depth = graph.input(op, 1).shape
            return 4 * units if h > 1 and depth == x.elements and w * c % self.row_grain == 0 else 0
        if spec_of(op).family == "reduction":
            over_rows, over_map = geometry.Reduction((1, w * c, 1), (h, 1)), geometry.Reduction((1, c, 1), (h * w, 1))
            found = geometry.reduction(x.shape, axes(graph, op))
            return 4 * found.kept[1] if found in (over_rows, over_map) else 0
        (top, _), (left, _) = op.attrs["padding"]
        (rows, cols), out = op.attrs["kernel"], graph.output(op).shape[1:3]
        return 4 * c if out == (1, 1) and rows - top >= h and cols - left >= w else 0
