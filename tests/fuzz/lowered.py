"""Generators of ops of a .tflite file that the importer rewrites as ops of other kinds; each yields (description, graph).

`LITERT` has the generators of ops that LiteRT's reference kernels run, `NUMPY` the generators of ops that they refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from math import prod
from typing import Any

import numpy as np
from cases import weighted
from cases.draw import ACTIVATIONS, Rng, activation, constant, integers, rescaled, scale, text

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.ops import SPECS

CASES = 12


def graph_of(kind: str, operands: list[Tensor | None], out: Tensor, attrs: dict[str, Any]) -> Graph:
    """Return a graph of one op that is written to a file as it is; operands without data are inputs."""
    tensors = {t.name: t for t in (*operands, out) if t is not None}
    op = Op("op", kind, tuple(t and t.name for t in operands), (out.name,), attrs)
    inputs = tuple(t.name for t in tensors.values() if t.data is None and t is not out)
    return verify(Graph("net", tensors, (op,), inputs, (out.name,)))


def _shape(rng: Rng, rank: int) -> tuple[int, ...]:
    return tuple(int(extent) for extent in rng.choice([1, 2, 3, 5, 6], rank))


def _table(rng: Rng, shape: tuple[int, ...]) -> Tensor:
    return constant("table", rng.integers(-128, 128, shape, np.int8), activation("table", shape, rng).quant)


def gather(rng: Rng) -> Iterator[tuple[str, Graph]]:
    """Draw tokens along the first axis that is longer than 1."""
    for number in range(CASES):
        axis, dtype = int(rng.integers(2)), ("int32", "int64")[number % 2]
        table = _table(rng, (1,) * axis + (int(rng.integers(2, 20)), *_shape(rng, 1)))
        tokens = Tensor("indices", _shape(rng, int(rng.integers(1, 3))), dtype)
        out = Tensor("output", (*table.shape[:axis], *tokens.shape, *table.shape[axis + 1 :]), "int8", table.quant)
        attrs = {"axis": axis - int(rng.integers(2)) * len(table.shape), "batch_dims": 0}
        yield f"{dtype}-{text(tokens.shape)}-{axis}", graph_of("gather", [table, tokens], out, attrs)


def embedding_lookup(rng: Rng) -> Iterator[tuple[str, Graph]]:
    for _ in range(CASES):
        table, tokens = _table(rng, (int(rng.integers(1, 20)), *_shape(rng, 1))), Tensor("indices", _shape(rng, 1), "int32")
        out = Tensor("output", (*tokens.shape, *table.shape[1:]), "int8", table.quant)
        yield text(table.shape), graph_of("embedding_lookup", [tokens, table], out, {})


def one_hot(rng: Rng) -> Iterator[tuple[str, Graph]]:
    """Draw matrices of two values along the last axis."""
    for number in range(CASES):
        indices, depth = Tensor("indices", _shape(rng, int(rng.integers(1, 4))), "int32"), int(rng.integers(1, 9))
        out = activation("output", (*indices.shape, depth), rng)
        on, off = (constant(name, np.int8(rng.integers(-128, 128)), out.quant) for name in ("on", "off"))
        attrs = {"axis": (-1, len(indices.shape))[number % 2]}
        yield text(out.shape), graph_of("one_hot", [indices, constant("depth", np.int32(depth)), on, off], out, attrs)


def reverse_v2(rng: Rng) -> Iterator[tuple[str, Graph]]:
    """Reverse axes that follow one another, which LiteRT demands."""
    for number in range(CASES):
        dtype, shape = ("int8", "int8", "uint8", "int16", "float32")[number % 5], _shape(rng, int(rng.integers(1, 5)))
        x, first = activation("input", shape, rng, dtype=dtype), int(rng.integers(len(shape)))
        axes = [axis - len(shape) * int(rng.integers(2)) for axis in range(first, int(rng.integers(first, len(shape))) + 1)]
        out = Tensor("output", shape, dtype, x.quant)
        yield f"{dtype}-{text(shape)}-{axes}", graph_of("reverse_v2", [x, integers("axes", *axes)], out, {})


def reverse_sequence(rng: Rng) -> Iterator[tuple[str, Graph]]:
    """Reverse int16 sequences, since LiteRT lacks the op on int8."""
    for _ in range(CASES):
        shape = _shape(rng, int(rng.integers(2, 5)))
        sequence, batch = (int(axis) for axis in rng.choice(len(shape), 2, replace=False))
        x = activation("input", shape, rng, dtype="int16")
        lengths = constant("lengths", rng.integers(0, shape[sequence], shape[batch], np.int32, endpoint=True))
        attrs = {"seq_dim": sequence, "batch_dim": batch}
        out = Tensor("output", shape, "int16", x.quant)
        yield f"{text(shape)}-{sequence}-{batch}", graph_of("reverse_sequence", [x, lengths], out, attrs)


def select(rng: Rng) -> Iterator[tuple[str, Graph]]:
    for number in range(CASES):
        shape = _shape(rng, int(rng.integers(1, 5)))
        condition = Tensor("condition", shape[: 1 if number % 2 else None], "bool")
        x = activation("x", shape, rng)
        operands = [condition, x, Tensor("y", shape, "int8", x.quant)]
        out = Tensor("output", shape, "int8", x.quant)
        yield f"{text(condition.shape)}-of-{text(shape)}", graph_of("select", operands, out, {})


def _computed(kind: str) -> Callable[[Rng], Iterator[tuple[str, Graph]]]:
    """Return the generator of fill or zeros_like, whose constant output is where a slice begins."""

    def draw(rng: Rng) -> Iterator[tuple[str, Graph]]:
        for _ in range(CASES):
            shape = _shape(rng, int(rng.integers(1, 4)))
            x = activation("input", shape, rng)
            begin, like = Tensor("begin", (len(shape),), "int32"), constant("like", np.ones(len(shape), np.int32))
            operands = {"fill": [integers("count", len(shape)), constant("value", np.int32(0))], "zeros_like": [like]}[kind]
            made = Op("made", kind, tuple(t.name for t in operands), ("begin",))
            size = tuple(int(rng.integers(1, extent, endpoint=True)) for extent in shape)
            cut = Op("cut", "slice", ("input", "begin", "size"), ("output",))
            tensors = [x, begin, *operands, integers("size", *size), Tensor("output", size, "int8", x.quant)]
            yield text(shape), verify(Graph("net", {t.name: t for t in tensors}, (made, cut), ("input",), ("output",)))

    return draw


def fully_connected(rng: Rng) -> Iterator[tuple[str, Graph]]:
    """Multiply with computed weights."""
    for number in range(CASES):
        depth, units = int(rng.choice([1, 3, 8, 17])), int(rng.choice([1, 2, 5, 8]))
        x, weights = activation("input", (*_shape(rng, 1), depth), rng), activation("weights", (units, depth), rng)
        weights = Tensor("weights", weights.shape, "int8", Quant((scale(rng),), (0,)))
        out = rescaled(activation("output", (x.shape[0], units), rng), x.scale * weights.scale * 90 * depth**0.5)
        attrs = {"activation": ACTIVATIONS[number % 4], "keep_num_dims": False}
        yield f"{text(x.shape)}-to-{units}", graph_of("fully_connected", [x, weights], out, attrs)


def depthwise_conv_2d(rng: Rng) -> Iterator[tuple[str, Graph]]:
    """Draw layers on int16 maps."""
    for about, (given, weights, *_), _, attrs in islice(weighted.depthwise_conv_2d(rng), 3 * CASES):
        assert given is not None and weights is not None
        x = activation("input", given.shape, rng, dtype="int16")
        operands, out = weighted.weighted_int16(rng, x, weights, weights.shape[3], prod(weights.shape[1:3]), biases=["int64"])
        graph = graph_of("depthwise_conv_2d", operands, out, attrs)
        (shape,) = SPECS["depthwise_conv_2d"].infer(graph, graph.ops[0])
        yield about, replace(graph, tensors={**graph.tensors, out.name: replace(out, shape=shape)})


def cumsum(rng: Rng) -> Iterator[tuple[str, Graph]]:
    for number in range(CASES):
        shape = _shape(rng, int(rng.integers(1, 5)))
        x, axis = activation("input", shape, rng), int(rng.integers(-len(shape), len(shape)))
        out = rescaled(activation("output", shape, rng), x.scale * rng.uniform(1, 3))
        attrs = {"exclusive": bool(number % 2), "reverse": bool(number // 2 % 2)}
        yield f"{text(shape)}-{axis}", graph_of("cumsum", [x, constant("axis", np.int32(axis))], out, attrs)


def concatenation(rng: Rng) -> Iterator[tuple[str, Graph]]:
    """Join maps of several scales, with a fused activation."""
    for number in range(CASES):
        shape = _shape(rng, int(rng.integers(1, 5)))
        parts = [activation(name, shape, rng) for name in "abc"[: int(rng.integers(2, 4))]]
        axis = int(rng.integers(len(shape)))
        joined = tuple(extent * len(parts) if at == axis else extent for at, extent in enumerate(shape))
        out = rescaled(activation("output", joined, rng), max(part.scale for part in parts) * rng.uniform(0.7, 1.5))
        attrs = {"axis": axis, "activation": ACTIVATIONS[number % 4]}
        yield f"{len(parts)}-of-{text(shape)}", graph_of("concatenation", list(parts), out, attrs)


def logistic(rng: Rng) -> Iterator[tuple[str, Graph]]:
    for _ in range(CASES):
        shape = _shape(rng, int(rng.integers(1, 5)))
        x, out = activation("input", shape, rng), rescaled(activation("output", shape, rng), rng.uniform(0.003, 0.02))
        yield text(shape), graph_of("logistic", [x], out, {})


Generators = dict[str, Callable[[Rng], Iterator[tuple[str, Graph]]]]
LITERT: Generators = {
    "depthwise_conv_2d": depthwise_conv_2d,
    "gather": gather,
    "embedding_lookup": embedding_lookup,
    "fill": _computed("fill"),
    "fully_connected": fully_connected,
    "one_hot": one_hot,
    "reverse_sequence": reverse_sequence,
    "reverse_v2": reverse_v2,
    "select": select,
    "zeros_like": _computed("zeros_like"),
}
NUMPY: Generators = {"concatenation": concatenation, "cumsum": cumsum, "logistic": logistic}
