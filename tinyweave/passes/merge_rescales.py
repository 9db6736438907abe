"""Merge element-wise int8 ops, such as quantize and relu, that follow each other.

An op that changes nothing is dropped. A clamp is fused into the preceding op. Two ops in a row become one if one op gives the
same bytes. Rescalings do not compose in general, so every merger is proved by trying every value that can occur.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Tensor, limits
from ..ops import SPECS, activation_range, check_constraints, spec_of
from ..ops.spec import ACTIVATIONS
from .rewrite import each_op, exchange, is_only_for, maker, same_kind, without
from .tensor_map import TensorMap
from .value_ranges import BYTES, Range, value_ranges

Values = NDArray[np.generic]


def merge_rescales(graph: Graph) -> tuple[Graph, TensorMap]:
    """Merge element-wise int8 ops that follow each other."""
    return each_op(graph, partial(_merged, known=value_ranges(graph))), {}


def _merged(graph: Graph, op: Op, known: Mapping[str, Range]) -> Graph:
    if not _is_unary(op) or graph.input(op).data is not None:
        return graph
    x, out = graph.input(op), graph.output(op)
    before = maker(graph, x)
    if x.dtype in BYTES:
        values = _values(known[x.name], x)
        if same_kind(x, out) and np.array_equal(_through(graph, (op,), values), values):
            return without(graph, op, x.name)
        alike = (x.dtype, x.quant) == (out.dtype, out.quant)
        if before is not None and SPECS[before.kind].fuses_activation and alike and is_only_for(graph, x, op):
            return _clamped(graph, before, op)
    if before is None or not _is_unary(before) or graph.input(before).dtype not in BYTES:
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


def _is_unary(op: Op) -> bool:
    """Return whether an op applies the same function of one input element to all elements."""
    return spec_of(op).family in ("unary", "conversion")


def _values(known: Range, tensor: Tensor) -> Values:
    """Return every value that the tensor can hold."""
    return np.arange(int(known.low.min()), int(known.high.max()) + 1).astype(tensor.dtype)


def _through(graph: Graph, ops: tuple[Op, ...], values: Values) -> Values:
    """Return the values after these ops in a row."""
    for op in ops:
        (values,) = SPECS[op.kind].reference(graph, op, [values])
    return values


def _singles(graph: Graph, before: Op, op: Op) -> Iterator[Op]:
    """Yield single ops that might compute the same as `before` and `op` together."""
    for like in (op, before):
        single = replace(op, kind=like.kind, inputs=before.inputs, attrs=like.attrs)
        try:
            check_constraints(SPECS[single.kind], graph, single)
        except CompileError:
            continue
        yield single


def _clamped(graph: Graph, before: Op, op: Op) -> Graph:
    """Return the graph with the clamp `op` fused into `before` if an activation clamps every sum alike, else unchanged."""
    x, out = graph.input(op), graph.output(op)
    low, high = limits(x.dtype)
    sums = np.arange(low - 1, high + 2)  # all values further out are clamped like these ends
    wanted = _through(graph, (op,), np.clip(sums, *activation_range(before.attrs["activation"], x)).astype(x.dtype))
    for activation in ACTIVATIONS:
        if np.array_equal(np.clip(sums, *activation_range(activation, out)), wanted):
            fused = replace(before, outputs=op.outputs, attrs={**before.attrs, "activation": activation})
            return exchange(graph, [fused], gone=op.name)
    return graph
