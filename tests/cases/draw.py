"""Random tensors and graphs of one op, for the generators of cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.ops import SPECS, check

Rng = np.random.Generator
Array = np.ndarray
Drawn = tuple[str, list[Tensor | None], "Tensor | list[Tensor]", dict[str, Any]]
DrawnGraph = tuple[str, Graph]
ACTIVATIONS = ("none", "relu", "relu6", "relu_n1_to_1")


def single_op(kind: str, operands: list[Tensor | None], output: Tensor | list[Tensor], attrs: dict[str, Any]) -> Graph:
    """Return a checked graph of one op. Output shapes are inferred, operands without data are inputs, state starts as 0."""
    outputs = output if isinstance(output, list) else [output]
    names = tuple(t.name for t in outputs)
    present = [t for t in operands if t is not None]
    state = [t for t in present if t.role == "state"]
    initial = [constant(f"{t.name}.initial", np.full(t.shape, t.quant and t.zero_point, t.dtype), t.quant) for t in state]
    init = tuple(Op(f"init_{t.name}", "assign_variable", (c.name,), (t.name,)) for t, c in zip(state, initial, strict=True))
    op = Op(f"{kind}_0", kind, tuple(t and t.name for t in operands), (*names, *(t.name for t in state)), attrs)
    tensors = {t.name: t for t in (*present, *initial, *outputs)}
    inputs = tuple(dict.fromkeys(t.name for t in present if t.data is None and t.role != "state"))
    graph = Graph(kind, tensors, (op,), inputs, names, init)
    shapes = [tuple(int(extent) for extent in shape) for shape in SPECS[kind].infer(graph, op)]
    shaped = {t.name: replace(t, shape=shape) for t, shape in zip((*outputs, *state), shapes, strict=True)}
    return check(verify(replace(graph, tensors=tensors | shaped)))


def scale(rng: Rng, low: float = 1e-3, high: float = 0.5) -> float:
    """Return a log-uniform float32 number; one in eight is a power of two, for which products are halves."""
    value = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return float(np.float32(2.0 ** np.round(np.log2(value)) if rng.integers(8) == 0 else value))


def activation(name: str, shape: tuple[int, ...], rng: Rng, *, dtype: str = "int8", quant: Quant | None = None) -> Tensor:
    """Return a tensor without data; integers get a random scale and zero point by default."""
    if quant is None and dtype != "float32":
        info = np.iinfo(dtype)
        zero_points = (int(info.min), 0, int(info.max), int(rng.integers(info.min, info.max)))
        quant = Quant((scale(rng),), (0 if dtype in ("int16", "int32") else zero_points[rng.integers(4)],))
    return Tensor(name, shape, dtype, quant)


def rescaled(tensor: Tensor, value: float) -> Tensor:
    """Return the tensor with another scale per tensor, rounded to float32."""
    assert tensor.quant is not None
    return replace(tensor, quant=Quant((float(np.float32(value)),), tensor.quant.zero_point[:1]))


def constant(name: str, data: Array, quant: Quant | None = None) -> Tensor:
    return Tensor(name, data.shape, str(data.dtype), quant, data, "constant")


def integers(name: str, *values: Any) -> Tensor:
    return constant(name, np.array(values, np.int32))


def text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
