"""Ops from byte to byte, such as quantize and relu: those that change nothing go, clamps go into the op before, and two in a
row become one where one gives the same bytes. Rescalings do not compose in general, so each merger is proved by trying every
value that can occur.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Tensor, limits
from ..ops import SPECS, activation_range, check_constraints
from ..ops.spec import ACTIVATIONS
from .ranges import BYTES, Range, ranges
from .rewrite import each_op, exchange, is_only_for, maker, same_kind, without
from .tensor_map import TensorMap

Values = NDArray[np.generic]
UNARY = ("relu", "relu6", "logistic", "tanh", "quantize", "dequantize")
CLAMPED = (
    "conv_2d",
    "depthwise_conv_2d",
    "fully_connected",
    "add",
    "sub",
    "mul",
    "average_pool_2d",
    "max_pool_2d",
)


def merge_rescales(graph: Graph) -> tuple[Graph, TensorMap]:
    return each_op(graph, partial(_merged, known=ranges(graph))), {}


def _merged(graph: Graph, op: Op, known: Mapping[str, Range]) -> Graph:
    if op.kind not in UNARY or graph.input(op).data is not None:
        return graph
    x, out = graph.input(op), graph.output(op)
    before = maker(graph, x)
    if x.dtype in BYTES:
        values = _values(known[x.name], x)
        if same_kind(x, out) and np.array_equal(_through(graph, (op,), values), values):
            return without(graph, op, x.name)
        alike = (x.dtype, x.quant) == (out.dtype, out.quant)
        if before is not None and before.kind in CLAMPED and alike and is_only_for(graph, x, op):
            return _clamped(graph, before, op)
    if before is None or before.kind not in UNARY or graph.input(before).dtype not in BYTES:
        return graph
    first = graph.input(before)
    values = _values(known[first.name], first)
    wanted = _through(graph, (before, op), values)
    if same_kind(first, out) and np.array_equal(wanted, values):
        return without(graph, op, first.name)
    if is_only_for(graph, x, op):
        for single in _singles(graph, before, op):
            if np.array_equal(_through(graph, (single,), values), wanted):
                return exchange(graph, [single])
    return graph


def _values(known: Range, tensor: Tensor) -> Values:
    """Return every value that the tensor can hold."""
    return np.arange(int(known.low.min()), int(known.high.max()) + 1).astype(tensor.dtype)


def _through(graph: Graph, ops: tuple[Op, ...], values: Values) -> Values:
    """Return what ops in a row make of values."""
    for op in ops:
        (values,) = SPECS[op.kind].reference(graph, op, [values])
    return values


def _singles(graph: Graph, before: Op, op: Op) -> Iterator[Op]:
    """Yield the ops that might do what both do."""
    for like in (op, before):
        single = replace(op, kind=like.kind, inputs=before.inputs, attrs=like.attrs)
        try:
            check_constraints(SPECS[single.kind], graph, single)
        except CompileError:
            continue
        yield single


def _clamped(graph: Graph, before: Op, op: Op) -> Graph:
    """Return the clamp of `op` as the activation of `before`, where there is one that clamps every sum alike."""
    x, out = graph.input(op), graph.output(op)
    low, high = limits(x.dtype)
    sums = np.arange(low - 1, high + 2)  # what lies further out is clamped like these ends
    wanted = _through(graph, (op,), np.clip(sums, *activation_range(before.attrs["activation"], x)).astype(x.dtype))
    for activation in ACTIVATIONS:
        if np.array_equal(np.clip(sums, *activation_range(activation, out)), wanted):
            fused = replace(before, outputs=op.outputs, attrs={**before.attrs, "activation": activation})
            return exchange(graph, [fused], gone=op.name)
    return graph
