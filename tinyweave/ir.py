"""The intermediate representation: graphs of ops and tensors, and the rules that a graph obeys.

In: nothing. Out: frozen dataclasses and functions over them. A pass never changes a graph, it returns a new one. `verify`
checks the rules.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = ("int4", "int8", "uint8", "int16", "int32", "int64", "float32", "bool")
ROLES = ("activation", "constant", "state")


class CompileError(Exception):
    """An error for the user in one line: what is wrong, where, and what to do about it."""

    def __init__(self, why: str, what_to_do: str = "", *, op: Op | None = None, tensor: Tensor | str | None = None):
        """Keep the parts of the message; `op` and `tensor` say where the error is."""
        self.why, self.what_to_do, self.op = why, what_to_do, op
        self.tensor = tensor.name if isinstance(tensor, Tensor) else tensor
        super().__init__(str(self))

    def __str__(self) -> str:
        """Return the message."""
        where = f"op {self.op.name} ({self.op.kind}): " if self.op else ""
        where += f"tensor '{shortened(self.tensor)}': " if self.tensor else ""
        text = where + self.why + (f"; {self.what_to_do}" if self.what_to_do else "")
        return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Return text with `?` for each unprintable character, since text from a file may hold terminal codes."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def shortened(name: str, limit: int = 200) -> str:
    """Return a name with its middle left out if it has more than `limit` letters, as in a damaged file."""
    return name if len(name) <= limit else f"{name[: limit - 12]}...{name[-9:]}"


@dataclass(frozen=True)
class Quant:
    """Quantisation: real = scale * (q - zero_point), with one pair for the tensor or one per index along `axis`."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    @property
    def per_channel(self) -> bool:
        """Return whether there is one scale per index along an axis."""
        return self.axis is not None


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named array; with `data` it is a constant. Activations are NHWC, conv filters OHWI, depthwise filters 1HWC.

    In numpy each int4 value is an int8 in -8 .. 7. In memory two int4 values share a byte, the first in its low half, as in
    TFLite. Unlike in TFLite, each pixel (run along the last axis) starts at a new byte; an unused half byte is 0.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: Quant | None = None
    data: np.ndarray | None = None
    role: str = "activation"

    @cached_property
    def elements(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @cached_property
    def bytes(self) -> int:
        """Return the bytes in memory."""
        return math.prod(self.shape[:-1]) * self.pixel_bytes

    @cached_property
    def pixel_bytes(self) -> int:
        """Return the bytes of one run along the last axis."""
        return run_bytes(self.shape[-1] if self.shape else 1, self.dtype)

    @property
    def scale(self) -> float:
        """Return the one scale of a per-tensor quantised tensor."""
        return self._only_quant.scale[0]

    @property
    def zero_point(self) -> int:
        """Return the one zero point of a per-tensor quantised tensor."""
        return self._only_quant.zero_point[0]

    @property
    def _only_quant(self) -> Quant:
        if self.quant is None or len(self.quant.scale) != 1 or len(self.quant.zero_point) != 1:
            raise CompileError("has no single scale and zero point", "quantise it per tensor", tensor=self)
        return self.quant


@dataclass(frozen=True, eq=False)
class Op:
    """One operation; `kind` is a key of `ops.SPECS`, and None stands for an optional input that is absent."""

    name: str
    kind: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


UNSUPPORTED = "unsupported"


def opaque(op: Op) -> Op:
    """Return an op of kind UNSUPPORTED with the tensors of `op`, and its kind as attribute."""
    return replace(op, kind=UNSUPPORTED, attrs={"kind": op.kind})


@dataclass(frozen=True, eq=False)
class Graph:
    """Ops in execution order over named tensors; `init` holds the ops that run once to set up state.

    A tensor with the role `state` keeps its value from one inference to the next. Every op that changes it has it as an output,
    so state may be written many times. The ops that read or write one state must keep their order.
    """

    name: str
    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    init: tuple[Op, ...] = ()

    def __repr__(self) -> str:
        """Return one line with the numbers of ops and tensors."""
        return f"<Graph '{self.name}': {len(self.ops)} ops, {len(self.tensors)} tensors>"

    @cached_property
    def producer(self) -> dict[str, int]:
        """Return tensor name -> index of the op that writes it."""
        return {name: index for index, op in enumerate(self.ops) for name in op.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[int, ...]]:
        """Return tensor name -> indices of the ops that read it, in order, each once."""
        readers: dict[str, list[int]] = {}
        for index, op in enumerate(self.ops):
            for name in dict.fromkeys(n for n in op.inputs if n is not None):
                readers.setdefault(name, []).append(index)
        return {name: tuple(indices) for name, indices in readers.items()}

    def inputs_of(self, op: Op) -> list[Tensor | None]:
        """Return the input tensors of an op, None for absent ones."""
        return [None if name is None else self.tensors[name] for name in op.inputs]

    def outputs_of(self, op: Op) -> list[Tensor]:
        """Return the output tensors of an op."""
        return [self.tensors[name] for name in op.outputs]

    def input(self, op: Op, index: int = 0) -> Tensor:
        """Return an input tensor; raise CompileError if it is absent."""
        name = op.inputs[index]
        if name is None:
            raise CompileError(f"lacks its input {index}", op=op)
        return self.tensors[name]

    def optional_input(self, op: Op, index: int) -> Tensor | None:
        """Return an input tensor, None if it is absent."""
        name = op.inputs[index] if index < len(op.inputs) else None
        return None if name is None else self.tensors[name]

    def output(self, op: Op, index: int = 0) -> Tensor:
        """Return an output tensor."""
        return self.tensors[op.outputs[index]]


def array_type(dtype: str) -> np.dtype[Any]:
    """Return the numpy type of a tensor type; int8 for int4."""
    return np.dtype("int8" if dtype == "int4" else dtype)


def itemsize(dtype: str) -> int:
    """Return the bytes of one element, of two elements for int4."""
    return array_type(dtype).itemsize


def run_bytes(elements: int, dtype: str) -> int:
    """Return the bytes of contiguous elements."""
    return (elements + 1) // 2 if dtype == "int4" else elements * itemsize(dtype)


def packed(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Pack int4 values, two to a byte along the last axis."""
    values = np.atleast_1d(values)
    halves = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, values.shape[-1] % 2)]).astype(np.uint8) & 15
    return np.asarray(halves[..., ::2] | halves[..., 1::2] << 4)


def unpacked(pairs: NDArray[Any], count: int) -> NDArray[np.int8]:
    """Unpack int4 values, two to a byte along the last axis, and return the first `count` along this axis."""
    halves = np.stack((pairs << 4, pairs), axis=-1).astype(np.int8)  # of int8, so that signs are kept
    return np.asarray(halves.reshape(*pairs.shape[:-1], -1)[..., :count] >> 4)


def limits(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    return (-8, 7) if dtype == "int4" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def is_constant(tensor: Tensor) -> bool:
    """Return whether a tensor has constant data."""
    return tensor.data is not None


def rebuild(graph: Graph, **changes: Any) -> Graph:
    """Return a copy of `graph` with fields replaced, without tensors that are no longer used."""
    changed = replace(graph, **changes)
    named = (name for op in (*changed.init, *changed.ops) for name in (*op.inputs, *op.outputs))
    used = {*changed.inputs, *changed.outputs, *named}
    return replace(changed, tensors={n: t for n, t in changed.tensors.items() if n in used})


def verify(graph: Graph) -> Graph:
    """Return `graph` if it obeys every rule of the IR, else raise CompileError that names the first rule it breaks."""
    for key, tensor in graph.tensors.items():
        _verify_tensor(key, tensor)
    if not graph.outputs:
        raise CompileError(f"graph '{graph.name}' has no outputs", "a network must compute something")
    repeated = [n for n, c in Counter(graph.inputs).items() if c > 1]
    if repeated:
        raise CompileError("is listed twice among the inputs", tensor=repeated[0])
    for name, count in Counter(op.name for op in (*graph.init, *graph.ops)).items():
        if count > 1:
            raise CompileError(f"op name '{name}' is used {count} times", "op names must be unique")
    written = set(graph.inputs)
    for name in graph.inputs:
        if _lookup(graph, name).data is not None:
            raise CompileError("is a graph input and has constant data", tensor=name)
    state = {n for n, t in graph.tensors.items() if t.role == "state"}
    for name in sorted(state.difference(*(op.outputs for op in graph.init))):
        raise CompileError("is state that nothing gives an initial value", "assign it in the init ops", tensor=name)
    for op in (*graph.init, *graph.ops):
        if not op.outputs:
            raise CompileError("has no outputs", op=op)
        for name in filter(None, op.inputs):
            tensor = _lookup(graph, name, op)
            if tensor.data is None and name not in written and name not in state:
                raise CompileError("is read before any op writes it", "the ops must be in execution order", op=op, tensor=name)
        for name in op.outputs:
            tensor = _lookup(graph, name, op)
            if tensor.data is not None or (name in written and name not in state):
                raise CompileError("is written twice or is a constant", op=op, tensor=name)
            written.add(name)
    for name in graph.outputs:
        if _lookup(graph, name).data is None and name not in written:
            raise CompileError("is a graph output that no op writes", tensor=name)
    for name in (*graph.inputs, *graph.outputs):
        if name in state:
            raise CompileError("is state and an input or output of the graph", "read or assign it by an op", tensor=name)
    return graph


def _lookup(graph: Graph, name: str, op: Op | None = None) -> Tensor:
    if name not in graph.tensors:
        raise CompileError("does not exist", op=op, tensor=name)
    return graph.tensors[name]


def _verify_tensor(key: str, tensor: Tensor) -> None:
    if key != tensor.name:
        raise CompileError(f"is stored under the key '{key}'", tensor=tensor)
    if tensor.dtype not in DTYPES:
        raise CompileError(f"has the unknown type {tensor.dtype}", f"known types: {', '.join(DTYPES)}", tensor=tensor)
    if tensor.role not in ROLES or (tensor.role == "constant") != (tensor.data is not None):
        raise CompileError(f"has the role {tensor.role} and {'some' if tensor.data is not None else 'no'} data", tensor=tensor)
    if any(extent < 0 for extent in tensor.shape):
        raise CompileError(f"has the shape {tensor.shape}", "every extent must be known", tensor=tensor)
    if tensor.data is not None and (tensor.data.shape != tensor.shape or tensor.data.dtype != array_type(tensor.dtype)):
        raise CompileError(
            f"says {tensor.dtype}{list(tensor.shape)} but holds {tensor.data.dtype}{list(tensor.data.shape)}", tensor=tensor
        )
    quant = tensor.quant
    if quant is None:
        return
    expected = 1 if quant.axis is None else -1
    if quant.axis is not None and 0 <= quant.axis < len(tensor.shape):
        expected = tensor.shape[quant.axis]
    if not len(quant.scale) == len(quant.zero_point) == expected:
        raise CompileError(
            f"has {len(quant.scale)} scales and {len(quant.zero_point)} zero points for axis {quant.axis} of {tensor.shape}",
            tensor=tensor,
        )
    if not all(0 < s < math.inf for s in quant.scale):
        raise CompileError("has a quantisation scale that is not a positive number", tensor=tensor)


def _digest(tensor: Tensor) -> str:
    header = f"{tensor.shape}{tensor.dtype}{tensor.quant}{tensor.role}".encode()
    payload = b"" if tensor.data is None else np.ascontiguousarray(tensor.data).tobytes()
    return hashlib.sha256(header + payload).hexdigest()


def fingerprint(graph: Graph) -> str:
    """Return a SHA-256 of a graph's ops, attributes, tensor names and constants."""
    return hashlib.sha256("".join(f"{line}\n" for line in _content(graph)).encode()).hexdigest()


def diff(a: Graph, b: Graph) -> list[str]:
    """Return the differences of two graphs, a line for each: `-` for lines of `a`, `+` for lines of `b`."""
    left, right = Counter(_content(a)), Counter(_content(b))
    lines = [f"- {line}" for line in (left - right).elements()] + [f"+ {line}" for line in (right - left).elements()]
    if not lines and fingerprint(a) != fingerprint(b):
        lines.append("the same ops in another order")
    return lines


def _content(graph: Graph) -> Iterable[str]:
    yield f"inputs {graph.inputs}"
    yield f"outputs {graph.outputs}"
    for name in sorted(graph.tensors):
        yield f"tensor {name} {_digest(graph.tensors[name])}"
    for section, ops in (("init", graph.init), ("op", graph.ops)):
        for op in ops:
            yield f"{section} {op.name} {op.kind} {op.inputs} {op.outputs} {sorted(op.attrs.items())}"
