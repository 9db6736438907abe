"""Calls of a library's kernels by ctypes: their structures, views into rings, and the comparison with a whole map."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np

from tinyweave.kernels.table import BY_NAME, FILES

Rng = np.random.Generator

Shape = tuple[int, int, int]

GUARD = 64

SCALARS = {"int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "float": ctypes.c_float}
SCALARS |= {"int16_t": ctypes.c_int16, "uint16_t": ctypes.c_uint16, "int64_t": ctypes.c_int64}


def structures() -> dict[str, Any]:
    """Struct name -> ctypes class, for every struct in the kernels' headers."""
    types: dict[str, Any] = dict(SCALARS)
    texts = {p.name: re.sub(r"/\*.*?\*/", "", p.read_text(), flags=re.DOTALL) for p in FILES.values() if p.suffix == ".h"}
    numbers = {name: number for text in texts.values() for name, number in re.findall(r"#define (\w+) (\d+)\b", text)}
    includes = {name: [file for file in re.findall(r'#include "(.*?)"', text) if file in texts] for name, text in texts.items()}
    for text in map(texts.__getitem__, TopologicalSorter(includes).static_order()):
        for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", text, re.DOTALL):
            fields: list[tuple[str, Any]] = []
            for line in filter(None, map(str.strip, body.split(";"))):
                if function := re.match(r"void \(\*(\w+)\)", line):
                    fields.append((function[1], ctypes.c_void_p))
                    continue
                kind, names = re.fullmatch(r"(?:const )?(\w+)\s+(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
                for item in names.split(","):
                    member, count = re.fullmatch(r"\s*(\*?\w+)(?:\[(\w+)\])?\s*", item).groups()  # type: ignore[union-attr]
                    element = ctypes.c_void_p if member[0] == "*" else types[kind]
                    fields.append((member.lstrip("*"), element * int(numbers.get(count, count)) if count else element))
            types[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return types


TYPES = structures()

View, Range = TYPES["tw_view"], TYPES["tw_range"]


@dataclass(frozen=True)
class Span:
    """A rectangle of rows [top, bottom) and columns [left, right)."""

    top: int
    bottom: int
    left: int
    right: int


@dataclass(frozen=True)
class Operand:
    """A map of (h, w, bytes of a pixel); `reads` returns the part of the map that a range of the output needs."""

    shape: Shape
    data: np.ndarray
    reads: Callable[[Span], Span]


@dataclass(frozen=True)
class Call:
    """A call kernel_part(params, views of the inputs with these indices, view of the output, range, scratch if needed).

    A kernel without a form for rows is called with its parameters, inputs and output, which must be whole maps.
    """

    kernel: str
    params: ctypes.Structure
    inputs: tuple[int, ...]
    scratch: int = 0
    functions: tuple[tuple[str, str], ...] = ()  # members that point to functions of the library
    whole: bool = False  # whether the parameters are for whole maps only

    @property
    def has_part(self) -> bool:
        """Whether the call can compute a range of the output."""
        return BY_NAME[self.kernel].has_part and not self.whole


@dataclass(frozen=True)
class Trial:
    """Calls that together write the whole range of an output of (h, w, bytes of a pixel)."""

    calls: list[Call]
    inputs: list[Operand]
    out: Shape
    keep: tuple[Any, ...] = ()  # arrays that params point to
    states: tuple[int, ...] = ()  # indices of the inputs that the kernel replaces


@dataclass
class Ring:
    """A line buffer of `height` rows of columns [left, right), between random bytes."""

    shape: Shape
    height: int
    left: int
    right: int
    memory: np.ndarray
    slack: int

    @classmethod
    def make(cls, shape: Shape, height: int, left: int, right: int, rng: Rng) -> Ring:
        slack = int(rng.integers(3)) * 4
        stride = (right - left) * shape[2] + slack
        memory = rng.integers(0, 256, 2 * GUARD + max(height * stride - slack, 0), dtype=np.uint8)
        return cls(shape, height, left, right, memory, slack)

    @property
    def stride(self) -> int:
        return (self.right - self.left) * self.shape[2] + self.slack

    def row(self, row: int) -> np.ndarray:
        begin = GUARD + row % self.height * self.stride
        return self.memory[begin : begin + self.stride - self.slack]

    def hold(self, data: np.ndarray, rows: range) -> None:
        """Copy these rows of a map into their slots."""
        for row in rows:
            self.row(row)[:] = data[row, self.left : self.right].reshape(-1)

    def view(self, first: int, rng: Rng) -> Any:
        """Return the view for rows from `first` on; slot 0 is named by either of the two legal rows."""
        slot0 = first // self.height * self.height
        if first % self.height and rng.integers(2):
            slot0 += self.height
        return View(self.memory.ctypes.data + GUARD, self.stride, self.height, slot0, self.left)


def whole(shape: Shape, data: np.ndarray, rng: Rng) -> Ring:
    ring = Ring.make(shape, shape[0], 0, shape[1], rng)
    ring.hold(data, range(shape[0]))
    return ring


def run(library: ctypes.CDLL, trial: Trial, views: list[Any], out: Any, span: Span, *, parts: bool = True) -> None:
    """Make the calls of a trial for a part of the output; without `parts` by the forms for whole maps, which take no views."""
    for call in trial.calls:
        arguments = [views[index] for index in call.inputs]
        for member, name in call.functions:
            setattr(call.params, member, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
        has_part = parts and call.has_part
        function = getattr(library, f"{call.kernel}_part" if has_part else call.kernel)
        function.restype = None
        noise = np.random.default_rng(span.top).integers(0, 256, call.scratch + GUARD, np.uint8)
        after = noise[call.scratch :].copy()
        rest = [ctypes.c_void_p(noise.ctypes.data)] if call.scratch else []
        operands = (*arguments, out)
        maps = operands if has_part else [ctypes.c_void_p(view.data) for view in operands]
        ranges = [Range(span.top, span.bottom, span.left, span.right)] if has_part else []
        function(ctypes.byref(call.params), *maps, *ranges, *rest)
        assert np.array_equal(noise[call.scratch :], after), f"{call.kernel} writes past its scratch"


def pieces(count: int, rng: Rng) -> list[tuple[int, int]]:
    """Return random consecutive ranges that cover [0, count)."""
    cuts = sorted({0, count, *rng.integers(0, count + 1, int(rng.integers(0, 4))).tolist()})
    return list(pairwise(cuts))


def check(library: ctypes.CDLL, trial: Trial, rng: Rng, about: str) -> None:
    h, w, pixel = trial.out
    blank = np.zeros((h, w, pixel), np.uint8)
    target = whole(trial.out, blank, rng)
    sources = [whole(operand.shape, operand.data, rng) for operand in trial.inputs]
    run(library, trial, [ring.view(0, rng) for ring in sources], target.view(0, rng), Span(0, h, 0, w))
    expected = np.stack([target.row(row).reshape(w, pixel) for row in range(h)])

    for left, right in pieces(w, rng):
        chunks = [Span(top, bottom, left, right) for top, bottom in pieces(h, rng)]
        needs = [[operand.reads(chunk) for chunk in chunks] for operand in trial.inputs]
        rings = []
        for operand, spans in zip(trial.inputs, needs, strict=True):
            rows = max(1, *(span.bottom - span.top for span in spans))
            columns = [edge for span in spans if span.bottom > span.top for edge in (span.left, span.right)] or [0, 0]
            rings.append(Ring.make(operand.shape, rows, min(columns), max(columns), rng))
        result = Ring.make(trial.out, max(chunk.bottom - chunk.top for chunk in chunks), left, right, rng)
        for index, chunk in enumerate(chunks):
            for operand, ring, spans in zip(trial.inputs, rings, needs, strict=True):
                ring.memory[:] = rng.integers(0, 256, ring.memory.size, dtype=np.uint8)
                ring.hold(operand.data, range(spans[index].top, spans[index].bottom))
            images = [ring.memory.copy() for ring in rings]
            before = result.memory.copy()
            views = [ring.view(spans[index].top, rng) for ring, spans in zip(rings, needs, strict=True)]
            run(library, trial, views, result.view(chunk.top, rng), chunk)
            after = result.memory.copy()
            result.memory[:] = before
            result.hold(expected, range(chunk.top, chunk.bottom))
            assert np.array_equal(after, result.memory), (about, chunk, "rings differ from whole maps, or too much is written")
            for ring, image in zip(rings, images, strict=True):
                assert np.array_equal(ring.memory, image), (about, chunk, "an input is written to")


def build(struct: str, **members: Any) -> Any:
    """Build a parameter struct: tuples fill nested structs and arrays, arrays become pointers."""
    params = TYPES[struct]()
    for name, kind in params._fields_:
        value = members.pop(name)
        if isinstance(value, np.ndarray):
            value = value.ctypes.data
        setattr(params, name, kind(*value) if isinstance(value, tuple) else value)
    assert not members, members
    return params


def conv(groups: int, tables: dict[str, np.ndarray | None], **shape: Any) -> Any:
    """Build a tw_conv of the members of its tw_conv_shape, and of its tables."""
    return build("tw_conv", shape=build("tw_conv_shape", **shape), groups=groups, **tables)


def values(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)
