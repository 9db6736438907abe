"""Merge element-wise int8 ops with one operand, such as quantize and relu, that follow each other.

A clamp is fused into the preceding op. Two ops become one if it gives the same bytes, which is proved by trying every value
that can occur: two rescalings are in general not one. `fold_tables` later folds ops that are left into tables of 256 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Tensor, limits
from ..ops import SPECS, activation_range, check_constraints, computed_operand, mapped, spec_of
from ..ops.spec import ACTIVATIONS
from .rewrite import constant, each_op, exchange, is_only_for, maker, of_each_op, same_kind, without
from .tensor_map import TensorMap
from .value_ranges import BYTES, Range, value_ranges

Values = NDArray[np.generic]
ELEMENTWISE = ("unary", "binary", "comparison", "selection", "conversion")  # families: an output reads an element per operand
MOST_FOLDED = 32  # ops that are looked at for one table, so that long networks without tables stay fast


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


@of_each_op
def read_integers(graph: Graph, op: Op) -> Graph:
    """Let ops of the family `detection` read int8 or uint8 tensors in place of the floats that a dequantize makes of them."""
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


def _through(graph: Graph, ops: Sequence[Op], values: Values) -> Values:
    for op in ops:
        values = mapped(graph, op, values)
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
    """Fuse the clamp `op` into `before` as an activation that gives the same bytes for every sum, if there is one."""
    x, out = graph.input(op), graph.output(op)
    low, high = limits(x.dtype)
    sums = np.arange(low - 1, high + 2)  # sums beyond these are clamped like the first and the last
    wanted = _through(graph, (op,), np.clip(sums, *activation_range(before.attrs["activation"], x)).astype(x.dtype))
    for activation in ACTIVATIONS:
        if np.array_equal(np.clip(sums, *activation_range(activation, out)), wanted):
            fused = replace(before, outputs=op.outputs, attrs={**before.attrs, "activation": activation})
            return exchange(graph, [fused], gone=op.name)
    return graph


@of_each_op
def fold_tables(graph: Graph, op: Op) -> Graph:
    """Fold chains of two or more functions of one int8 element, if one needs a table anyway, into a `lookup` op."""
    row = _row(graph, op)
    while row and _computed(graph, row[0]).dtype != "int8":
        del row[0]
    if len(row) < 2 or graph.output(op).dtype != "int8" or not any(spec_of(each).is_table for each in row):
        return graph
    table = constant(graph, op, "table", _through(graph, row, np.arange(-128, 128).astype(np.int8)))
    one = Op(op.name, "lookup", (_computed(graph, row[0]).name, table.name), op.outputs)
    for each in row[:-1]:
        graph = exchange(graph, [one], [table], gone=each.name)
    return graph


def _row(graph: Graph, op: Op) -> list[Op]:
    """Return the chain of at most MOST_FOLDED functions, each read by the next only, that ends with `op`, first op first."""
    row = [op] if _is_function(graph, op) else []
    while 0 < len(row) < MOST_FOLDED:
        x = _computed(graph, row[0])
        before = maker(graph, x)
        if before is None or not is_only_for(graph, x, row[0]) or not _is_function(graph, before):
            break
        row.insert(0, before)
    return row


def _computed(graph: Graph, op: Op) -> Tensor:
    index = computed_operand(graph, op)
    assert index is not None
    return graph.input(op, index)


def _is_function(graph: Graph, op: Op) -> bool:
    """Return whether an op applies a function of one variable to its one computed operand; others are single constants."""
    index = computed_operand(graph, op)
    if index is None or spec_of(op).family not in ELEMENTWISE or graph.input(op, index).shape != graph.output(op).shape:
        return False
    constants = [x for place, x in enumerate(graph.inputs_of(op)) if x is not None and place != index]
    return spec_of(op).family == "unary" or all(x.elements == 1 for x in constants)
