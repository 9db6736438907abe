"""Merge element-wise int8 ops with one operand, such as quantize and relu, that follow each other.

An op that changes no value is dropped. A clamp is fused into the preceding op. Two ops in a row become one op if it gives the
same bytes. Two rescalings are in general not equal to one, so each merger is proved by trying every value that can occur.
Ops that turn integers into floats themselves read the integers.
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
    """Merge element-wise int8 ops with one operand that follow each other, if the bytes of the result stay the same."""
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


def read_integers(graph: Graph) -> tuple[Graph, TensorMap]:
    """Let ops of the family `detection` read int8 or uint8 tensors in place of the floats that a dequantize makes of them."""
    return each_op(graph, _reading_integers), {}


def _reading_integers(graph: Graph, op: Op) -> Graph:
    if spec_of(op).family != "detection":
        return graph
    makers = (None if tensor is None else maker(graph, tensor) for tensor in graph.inputs_of(op))
    sources = (
        made.inputs[0]
        if made is not None and made.kind == "dequantize" and graph.input(made).dtype in ("int8", "uint8")
        else name
        for name, made in zip(op.inputs, makers, strict=True)
    )
    return exchange(graph, [replace(op, inputs=tuple(sources))])


def _is_unary(op: Op) -> bool:
    """Return whether an op computes each output element from one input element, by the same function for all elements."""
    return spec_of(op).family in ("unary", "conversion")


def _values(known: Range, tensor: Tensor) -> Values:
    """Return all integers between the least and the greatest value that the tensor can hold, as an array of its type."""
    return np.arange(int(known.low.min()), int(known.high.max()) + 1).astype(tensor.dtype)


def _through(graph: Graph, ops: tuple[Op, ...], values: Values) -> Values:
    """Return `values` after the element-wise `ops` are applied to them in turn."""
    for op in ops:
        (values,) = SPECS[op.kind].reference(graph, op, [values])
    return values


def _singles(graph: Graph, before: Op, op: Op) -> Iterator[Op]:
    """Yield candidates for one op that computes the same as `before` and `op` in turn; the results must still be compared."""
    for like in (op, before):
        single = replace(op, kind=like.kind, inputs=before.inputs, attrs=like.attrs)
        try:
            check_constraints(SPECS[single.kind], graph, single)
        except CompileError:
            continue
        yield single


def _clamped(graph: Graph, before: Op, op: Op) -> Graph:
    """Fuse the clamp `op` into `before` as its activation, and return the graph.

    The graph is unchanged if no activation gives the same bytes for every sum that `before` can compute.
    """
    x, out = graph.input(op), graph.output(op)
    low, high = limits(x.dtype)
    sums = np.arange(low - 1, high + 2)  # sums beyond these are clamped like the first and the last
    wanted = _through(graph, (op,), np.clip(sums, *activation_range(before.attrs["activation"], x)).astype(x.dtype))
    for activation in ACTIVATIONS:
        if np.array_equal(np.clip(sums, *activation_range(activation, out)), wanted):
            fused = replace(before, outputs=op.outputs, attrs={**before.attrs, "activation": activation})
            return exchange(graph, [fused], gone=op.name)
    return graph
