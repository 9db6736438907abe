"""Generated graphs of one op with inputs, many per kind, on which all implementations of an op are compared.

`cases(kind)` yields the same cases on every call: attributes, shapes, scales and values are seeded by the kind's name.
Each list of arrays in `Case.inputs` is one inference; with state, consecutive ones.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyweave.ir import Graph, Quant, Tensor, verify
from tinyweave.ops import check, run
from tinyweave.ops.extrema import COMPARISONS
from tinyweave.tflite_schema import OPS

from . import copies, elementwise, states, weighted
from .draw import Array, Rng, single_op


@dataclass(frozen=True)
class Case:
    id: str
    graph: Graph
    inputs: list[list[Array]]


def cases(kind: str) -> Iterator[Case]:
    """Yield the cases of one kind, named `<kind>-<number>-<description>`."""
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    for number, (about, *drawn) in enumerate(GENERATORS[kind](rng)):
        graph = drawn[0] if len(drawn) == 1 else single_op(kind, *drawn)
        styles = ("any", "extreme", "any", "extreme") if graph.init else ("any", "extreme")
        inputs = [_values(graph, rng, style) for style in styles]
        nearby = np.random.default_rng(number)  # of its own, so that the cases do not depend on it
        inputs[1] = [
            _with_rows_near_zero(graph.tensors[name], x, nearby) for name, x in zip(graph.inputs, inputs[1], strict=True)
        ]
        yield Case(f"{kind}-{number}-{about}", graph, inputs)


INT16 = "int16_"  # prefix of a kind: its cases on int8 maps, with int16 maps of the same real numbers

INT16_KINDS = ("relu", "relu6", "relu_n1_to_1", *COMPARISONS, "minimum", "maximum", "prelu", "batch_matmul", "resize_bilinear")

UINT8 = "uint8_"  # prefix of a kind: its cases after `shift_uint8`, with a zero point of weights

UINT8_KINDS = ("conv_2d", "depthwise_conv_2d", "fully_connected", "average_pool_2d", "resize_bilinear")

ZERO_POINTS = (-3, 5, -20, 1, 40, -128, 127)


def all_cases(kind: str) -> Iterator[Case]:
    """Return the cases of a kind; with a prefix, of int16 or uint8; no LiteRT file can hold the latter."""
    if kind.startswith(INT16):
        return int16_cases(kind.removeprefix(INT16))
    return uint8_cases(kind.removeprefix(UINT8)) if kind.startswith(UINT8) else cases(kind)


def int16_cases(kind: str) -> Iterator[Case]:
    """Yield the cases on int8 maps with int16 maps and constants of about the same real numbers, as far as they are allowed."""
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    for case in cases(kind):
        slopes = {case.graph.ops[0].inputs[1]} if kind == "prelu" else set()  # int8 beside int16
        tensors = case.graph.tensors | {
            n: widened(t, rng) for n, t in case.graph.tensors.items() if t.dtype == "int8" and n not in slopes
        }
        if kind in COMPARISONS and kind not in ("equal", "not_equal"):  # the stored integers are compared
            tensors = {n: replace(t, quant=t.quant and tensors[case.graph.inputs[0]].quant) for n, t in tensors.items()}
        wide = replace(case.graph, tensors=tensors)
        if len(wide.inputs) == 2 or wide.input(wide.ops[0]).dtype == "int16":
            yield Case(f"{INT16}{case.id}", check(verify(wide)), [_values(wide, rng, style) for style in ("any", "extreme")])


def widened(tensor: Tensor, rng: Rng) -> Tensor:
    """Return an int8 tensor as int16: zero point 0, the scale of the highest byte 256 times as large, other bytes random."""
    assert tensor.quant is not None
    quant = Quant((float(np.float32(tensor.quant.scale[0] / 256)),), (0,))
    data = tensor.data
    if data is not None:
        data = (data.astype(np.int16) << 8) + rng.integers(0, 256, data.shape, np.int16)
    return replace(tensor, dtype="int16", quant=quant, data=data)


def uint8_cases(kind: str) -> Iterator[Case]:
    """Yield every third case with int8 maps and weights as an op converted from uint8."""
    signed = (case for case in cases(kind) if {x.dtype for x in case.graph.tensors.values()} <= {"int8", "int32"})
    for number, case in enumerate(itertools.islice(signed, 0, None, 3)):
        (op,), tensors = case.graph.ops, dict(case.graph.tensors)
        weights = tensors.get("weights")
        if weights is not None and weights.quant is not None:
            zero = ZERO_POINTS[number % len(ZERO_POINTS)]
            tensors["weights"] = replace(weights, quant=Quant((max(weights.quant.scale),), (zero,)))
        graph = replace(case.graph, tensors=tensors, ops=(replace(op, attrs={**op.attrs, "unsigned": True}),))
        graph = graph if weights is None else fitted(graph)
        yield Case(f"{UINT8}{case.id}", check(verify(graph)), case.inputs)


def fitted(graph: Graph) -> Graph:
    """Return the graph with an output scale and zero point fitted to some inputs, so that the output takes many values."""
    (name,), (op,), rng = graph.outputs, graph.ops, np.random.default_rng(0)
    out = graph.tensors[name]
    inputs = [{n: rng.integers(-128, 128, graph.tensors[n].shape, np.int8) for n in graph.inputs} for _ in range(4)]
    plain = replace(graph, ops=(replace(op, attrs={**op.attrs, "activation": "none"}),))
    for factor in (1, 8, 64, 512, 4096):
        coarse = replace(out, quant=Quant((float(np.float32(out.scale * factor)),), (0,)))
        wide = replace(plain, tensors={**graph.tensors, name: coarse})
        values = np.stack([run(wide, arrays)[name] for arrays in inputs]).astype(int)
        if values.min() > -128 and values.max() < 127:
            break
    low, high = min(values.min(), 0), max(values.max(), 0)
    step = float(np.float32(coarse.scale * (high - low + 1) / 200))
    zero = int(np.clip(-100 - low * coarse.scale / step, -128, 127))
    return replace(graph, tensors={**graph.tensors, name: replace(out, quant=Quant((step,), (zero,)))})


def _with_rows_near_zero(tensor: Tensor, x: Array, rng: Rng) -> Array:
    """Return quantised values with a quarter of the rows near the zero point: small sums, quotients and differences."""
    if tensor.quant is None or x.dtype.kind != "i":
        return x
    info = np.iinfo(x.dtype)
    near = np.clip(tensor.zero_point + rng.integers(-1, 2, x.shape), info.min, info.max).astype(x.dtype)
    return np.where(rng.integers(4, size=(*x.shape[:-1], 1)) == 0, near, x).astype(x.dtype)


def _values(graph: Graph, rng: Rng, style: str) -> list[Array]:
    """Return one array per graph input: any values of the type, or only values at the ends of its range."""
    arrays = []
    for tensor in (graph.tensors[name] for name in graph.inputs):
        if tensor.dtype == "float32":
            out = graph.tensors[graph.outputs[0]]
            step = (out.scale if out.quant else 1.0) * (1e6 if style == "extreme" else 1)
            steps = rng.uniform(-300, 300, tensor.shape)
            # every other element is halfway between two quantised values
            halves = np.where(np.arange(tensor.elements).reshape(tensor.shape) % 2, np.floor(steps) + 0.5, steps)
            arrays.append(np.float32(step) * halves.astype(np.float32))
            continue
        if tensor.dtype == "bool":
            arrays.append(rng.integers(0, 2, tensor.shape).astype(bool))
            continue
        info = np.iinfo(tensor.dtype)
        if tensor.name == "indices":
            arrays.append(rng.integers(0, 2, tensor.shape, tensor.dtype))
        elif style == "any":
            arrays.append(rng.integers(info.min, info.max, tensor.shape, tensor.dtype, endpoint=True))
        else:
            arrays.append(rng.choice(np.array([info.min, info.max], tensor.dtype), tensor.shape))
    return arrays


# kinds that LiteRT's reference kernels lack on int8 (its optimised ones have elu), div (LiteRT refuses to divide by 0), sum
# (LiteRT reads int8 as uint8), and custom ops of a file
NOT_IN_LITERT = {"ceil", "cos", "div", "elu", "floor", "round", "sign", "sin", "square", "sum"}
NOT_IN_LITERT |= {kind for kind, options in OPS.items() if options.numbers is not None}

GENERATORS: dict[str, Callable[[Rng], Iterator[Any]]] = {
    **elementwise.GENERATORS,
    **copies.GENERATORS,
    **states.GENERATORS,
    **weighted.GENERATORS,
}
