"""The intermediate representation: graphs of ops and tensors, and the rules that a graph obeys.

In: nothing. Out: frozen dataclasses, and functions on them. A pass never changes a graph, it returns a new one. `verify` checks
the rules.
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
        """Store the parts of the message: what is wrong (`why`), the advice, and the op or tensor concerned (str: a name)."""
        self.why, self.what_to_do, self.op = why, what_to_do, op
        self.tensor = tensor.name if isinstance(tensor, Tensor) else tensor
        super().__init__(str(self))

    def __str__(self) -> str:
        """Return the message in one line of printable characters."""
        where = f"op {self.op.name} ({self.op.kind}): " if self.op else ""
        where += f"tensor '{shortened(self.tensor)}': " if self.tensor else ""
        text = where + self.why + (f"; {self.what_to_do}" if self.what_to_do else "")
        return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Replace unprintable characters by `?`, because text from a file may contain terminal control codes."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def shortened(name: str, limit: int = 200) -> str:
    """Return a name of at most `limit` letters: the middle of a longer name, as in a damaged file, is replaced by `...`."""
    return name if len(name) <= limit else f"{name[: limit - 12]}...{name[-9:]}"


@dataclass(frozen=True)
class Quant:
    """The quantisation of a tensor: real = scale * (q - zero_point).

    There is one scale and one zero point for the whole tensor, or one of each per index along `axis` (per channel).
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    @property
    def per_channel(self) -> bool:
        """Return whether there is one scale per index along an axis."""
        return self.axis is not None


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named array. It is a constant if it has `data`. Activations are NHWC, conv filters OHWI, depthwise filters 1HWC.

    In numpy each int4 value is an int8 in -8 .. 7. In memory two int4 values share a byte, the first in its low half, as in
    TFLite. Unlike in TFLite, each pixel, the elements along the last axis, starts at a new byte; an unused half byte is 0.
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
        """Return the size in memory in bytes."""
        return math.prod(self.shape[:-1]) * self.pixel_bytes

    @cached_property
    def pixel_bytes(self) -> int:
        """Return the bytes of one pixel, the elements along the last axis."""
        return run_bytes(self.shape[-1] if self.shape else 1, self.dtype)

    @property
    def scale(self) -> float:
        """Return the scale of a tensor with one scale; raise CompileError if it has none or several."""
        return self._only_quant.scale[0]

    @property
    def zero_point(self) -> int:
        """Return the zero point of a tensor with one zero point; raise CompileError if it has none or several."""
        return self._only_quant.zero_point[0]

    @property
    def _only_quant(self) -> Quant:
        if self.quant is None or len(self.quant.scale) != 1 or len(self.quant.zero_point) != 1:
            raise CompileError("has no single scale and zero point", "quantise it per tensor", tensor=self)
        return self.quant


@dataclass(frozen=True, eq=False)
class Op:
    """One operation. `kind` is a key of `ops.SPECS`. Inputs and outputs are tensor names; None is an absent optional input."""

    name: str
    kind: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


UNSUPPORTED = "unsupported"


def opaque(op: Op) -> Op:
    """Return a copy of `op` that can only be inspected: of the kind UNSUPPORTED, with the kind as an attribute."""
    return replace(op, kind=UNSUPPORTED, attrs={"kind": op.kind})


@dataclass(frozen=True, eq=False)
class Graph:
    """Ops in execution order on named tensors. The ops of `init` run once, before the first inference, and initialise state.

    A tensor with the role `state` keeps its value from one inference to the next. Each op that changes it has it as an output,
    so several ops may write the same state. The ops that read or write a state must keep their order.
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
        """Return, for each tensor that an op writes, the index of this op (the last one, if several write a state)."""
        return {name: index for index, op in enumerate(self.ops) for name in op.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[int, ...]]:
        """Return, for each tensor that ops read, the indices of these ops in execution order, each once."""
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
        """Return input number `index` of an op; raise CompileError if it is None, an absent optional input."""
        name = op.inputs[index]
        if name is None:
            raise CompileError(f"lacks its input {index}", op=op)
        return self.tensors[name]

    def optional_input(self, op: Op, index: int) -> Tensor | None:
        """Return input number `index` of an op, or None if it is absent or the op has fewer inputs."""
        name = op.inputs[index] if index < len(op.inputs) else None
        return None if name is None else self.tensors[name]

    def output(self, op: Op, index: int = 0) -> Tensor:
        """Return output number `index` of an op."""
        return self.tensors[op.outputs[index]]


def array_type(dtype: str) -> np.dtype[Any]:
    """Return the numpy type that holds values of a tensor type: int8 for int4, the type of the same name for others."""
    return np.dtype("int8" if dtype == "int4" else dtype)


def itemsize(dtype: str) -> int:
    """Return the bytes of one element of this tensor type; 1 for int4, although two elements share a byte."""
    return array_type(dtype).itemsize


def run_bytes(elements: int, dtype: str) -> int:
    """Return the bytes of `elements` contiguous elements; an odd number of int4 elements leaves half of a byte unused."""
    return (elements + 1) // 2 if dtype == "int4" else elements * itemsize(dtype)


def packed(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Pack int4 values (int8 arrays) two to a byte along the last axis, the first in the low half; pad an odd length with 0."""
    values = np.atleast_1d(values)
    halves = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, values.shape[-1] % 2)]).astype(np.uint8) & 15
    return np.asarray(halves[..., ::2] | halves[..., 1::2] << 4)


def unpacked(pairs: NDArray[Any], count: int) -> NDArray[np.int8]:
    """Unpack bytes of two int4 values each, along the last axis, to int8, and return the first `count` values of that axis."""
    halves = np.stack((pairs << 4, pairs), axis=-1).astype(np.int8)  # the shift of an int8 extends the sign
    return np.asarray(halves.reshape(*pairs.shape[:-1], -1)[..., :count] >> 4)


def limits(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    return (-8, 7) if dtype == "int4" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def is_constant(tensor: Tensor) -> bool:
    """Return whether a tensor has constant data."""
    return tensor.data is not None


def channels_last(values: NDArray[Any], tensor: Tensor) -> NDArray[Any] | None:
    """Reshape a sample, also a flat one or one with channels first, to the shape of `tensor`; None if it has another."""
    shape, own = tuple(e for e in tensor.shape if e != 1), tuple(e for e in values.shape if e != 1)
    if own == shape or (values.ndim == 1 and values.size == tensor.elements):
        return values.reshape(tensor.shape)
    if len(tensor.shape) == 4:
        first = tensor.shape[0], tensor.shape[3], *tensor.shape[1:3]
        if own == tuple(e for e in first if e != 1):
            return np.moveaxis(values.reshape(first), 1, -1).reshape(tensor.shape)
    return None


def rebuild(graph: Graph, **changes: Any) -> Graph:
    """Return a copy of `graph` with the fields `changes` replaced, and without tensors that no op, input or output uses."""
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
    """Return a SHA-256, in hexadecimal, of a graph's ops, attributes, tensor names, constants, inputs and outputs."""
    return hashlib.sha256("".join(f"{line}\n" for line in _content(graph)).encode()).hexdigest()


def diff(a: Graph, b: Graph) -> list[str]:
    """Return the differences of two graphs, a line for each op or tensor: `-` if only `a` has it, `+` if only `b` has it.

    If only the order of the ops differs, there is one line that says so.
    """
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
