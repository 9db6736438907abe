"""Rewrite attention so that a fused stage can compute it row by row, and its score matrix is never whole.

All ops connected with an attention head (a product of two computed matrices) get maps [1, rows, 1, channels], of which a stage
computes one row after another. Softmaxes and dense layers are split by head; slices, transposes and concatenations between them
vanish. Keys and values are computed first, then head by head, so that heads share bytes. The scores then need the bytes of one
row, as in FlashAttention (arXiv 2205.14135) with blocks of one query; the softmax is of whole rows, so no byte changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ...ir import Graph, rebuild
from ...ops import SPECS
from ..tensor_map import TensorMap
from .row_maps import Addresses, Operand, RowMaps, computed
from .row_writing import RowWriting, computed_spans
from .trace_rows import Trace, trace


def attention_rows(graph: Graph) -> tuple[Graph, TensorMap]:
    """Give the ops around int8 attention heads maps of rows; the TensorMap is empty, as such a map is no range of channels."""
    products = (op for op in graph.ops if SPECS[op.kind].family == "matmul")
    if not any(all(x is not None and x.data is None for x in graph.inputs_of(op)) for op in products):
        return graph, {}
    opaque = set[str]()
    while True:
        traced = trace(graph, opaque)
        strangers = _without_attention(traced) | _staying(traced)
        if not strangers:
            return (graph if not any(each.op for each in traced.maps.maps) else _rewritten(traced)), {}
        opaque |= strangers


def _without_attention(traced: Trace) -> set[str]:
    """Return the names of the ops whose row maps are not connected with an attention head through other row maps."""
    maps = traced.maps.maps
    group = list(range(len(maps)))  # the first map of a connected set

    def first(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    for number, row_map in enumerate(maps):
        for part in (part for operand in computed(row_map) for part in operand.parts if maps[part.number].op):
            one, other = sorted((first(part.number), first(number)))
            group[other] = one
    heads = {first(n) for n, row_map in enumerate(maps) if any(operand.is_matrix for operand in computed(row_map))}
    return {row_map.op.name for number, row_map in enumerate(maps) if row_map.op and first(number) not in heads}


def _wanted(traced: Trace) -> list[str]:
    """Return the tensors that consist of row maps and that the network returns, or that an op which stays as it is reads."""
    graph = traced.graph
    stay = [op for op in graph.ops if op.outputs[0] not in traced.at]
    names = [name for op in stay for name in op.inputs if name is not None]
    return [name for name in dict.fromkeys((*names, *graph.outputs)) if name in traced.at]


def _as_rows(maps: RowMaps, addresses: Addresses) -> Operand | None:
    """Return the operand whose rows, one after another, are the elements of a tensor; None if there is none."""
    shape = addresses.shape
    for axis in range(len(shape) - 1, 0, -1):
        operand = maps.operand(addresses.reshape(-1, prod(shape[axis:])))
        if operand is not None:
            return operand
    return None


def _staying(traced: Trace) -> set[str]:
    """Return the ops that must stay because an op that is not rewritten reads their outputs, which are no rows side by side."""
    graph, maps = traced.graph, traced.maps
    operands = {name: _as_rows(maps, traced.at[name]) for name in _wanted(traced)}
    names = [name for name, x in operands.items() if x is None or not any(maps.maps[part.number].op for part in x.parts)]
    return {graph.ops[graph.producer[name]].name for name in names}


def _rewritten(traced: Trace) -> Graph:
    graph = traced.graph
    wanted = {name: operand for name in _wanted(traced) if (operand := _as_rows(traced.maps, traced.at[name]))}
    stay = [op for op in graph.ops if op.outputs[0] not in traced.at]
    writing = RowWriting(traced.maps, dict(graph.tensors), {op.name for op in stay})
    writing.spans = computed_spans(traced.maps, wanted.values())
    for op in stay:
        _provide(writing, graph, op.inputs, wanted)
        writing.ops.append(op)
    _provide(writing, graph, graph.outputs, wanted)
    return rebuild(graph, tensors=writing.tensors, ops=tuple(writing.ops))


def _provide(writing: RowWriting, graph: Graph, names: Iterable[str | None], wanted: dict[str, Operand]) -> None:
    """Write the ops that compute those of the tensors `names` that are in `wanted`, and remove these from `wanted`."""
    for name in dict.fromkeys(names):
        if name is not None and name in wanted:
            source = writing.write(wanted.pop(name))
            writing.reshape(source, graph.tensors[name], graph.tensors[name].shape, name)
