"""Trace which ops of a graph can work row by row on row maps, and where each element of their outputs then is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op, Tensor
from ...ops import SPECS, computed_operand
from ...ops.reduce import axes
from ...ops.spec import windows_one_to_one
from ..rewrite import integers, part
from .row_maps import Addresses, Operand, Part, RowMap, RowMaps, shape_of

MOST_ELEMENTS = 1 << 22  # of a tensor whose elements are traced
PADDING = 1 << 40  # above all addresses; the value of padding is below


@dataclass
class Trace:
    """A graph under trace; `at` and `sources` (of other ops' outputs and inputs) map tensors to addresses of their elements."""

    graph: Graph
    maps: RowMaps = field(default_factory=RowMaps)
    at: dict[str, Addresses] = field(default_factory=dict)
    sources: dict[str, Addresses] = field(default_factory=dict)

    def addresses(self, name: str) -> Addresses | None:
        """Return the addresses of a tensor's elements; a tensor of another op becomes a row map if it is a sequence of rows."""
        if name in self.at:
            return self.at[name]
        tensor = self.graph.tensors[name]
        shape = tensor.shape
        is_sequence = len(shape) in (2, 3) or (len(shape) == 4 and 1 in shape[1:3])
        if tensor.role != "activation" or not is_sequence or not 0 < tensor.elements <= MOST_ELEMENTS:
            return None
        if name not in self.sources:
            self.sources[name] = self.maps.add(RowMap(tensor.elements // shape[-1], shape[-1], tensor)).reshape(shape)
        return self.sources[name]


def trace(graph: Graph, opaque: Collection[str]) -> Trace:
    """Trace a graph. The ops whose names are in `opaque` stay as they are."""
    traced = Trace(graph)
    for op in graph.ops:
        rule = RULES.get(SPECS[op.kind].family)
        is_int8 = all(tensor.dtype == "int8" and tensor.role == "activation" for tensor in graph.outputs_of(op))
        if op.name in opaque or rule is None or not is_int8 or max(t.elements for t in graph.outputs_of(op)) > MOST_ELEMENTS:
            continue
        outputs = rule(traced, op)
        if outputs is not None:
            shaped = zip(op.outputs, outputs, strict=True)
            traced.at |= {name: found.reshape(graph.tensors[name].shape) for name, found in shaped}
    return traced


Outputs = list[Addresses] | None
Size = tuple[int, int]  # rows and channels of a row map


def _moved(traced: Trace, op: Op) -> Outputs:
    """Rearrange the addresses of the input as the op rearranges elements; return None if it pads."""
    graph, index = traced.graph, SPECS[op.kind].data
    x, out = graph.input(op, index), graph.output(op)
    keeps_rows = SPECS[op.kind].view and x.data is None and x.shape[-1:] == out.shape[-1:]
    addresses = traced.addresses(x.name) if keeps_rows else traced.at.get(x.name)
    if addresses is None:
        return None
    arrays = [None if tensor is None else tensor.data for tensor in graph.inputs_of(op)]
    arrays[index] = addresses + PADDING
    outputs = SPECS[op.kind].reference(graph, op, arrays)
    return None if any((each < PADDING).any() for each in outputs) else [each - PADDING for each in outputs]


def _joined(traced: Trace, op: Op) -> Outputs:
    """Join the addresses of the inputs, of which none may be constant, as the op joins elements."""
    graph = traced.graph
    inputs, quant = [x for x in graph.inputs_of(op) if x is not None], graph.output(op).quant
    arrays = [traced.addresses(x.name) if x.data is None and x.quant == quant else None for x in inputs]
    return None if any(array is None for array in arrays) else SPECS[op.kind].reference(graph, op, list(arrays))


def _add(
    traced: Trace, op: Op, size: Size, operands: Sequence[Operand | Tensor], *, elementwise: bool = False, **attrs: bool
) -> Addresses | None:
    """Add the row map of `size` (rows, channels) that an op with changed `attrs` computes; return its addresses if by rows."""
    changed = replace(op, attrs={**op.attrs, **attrs})
    row_map = RowMap(*size, traced.graph.output(op), changed, tuple(operands), elementwise)
    draft, alone = _drafted(traced.maps, row_map)
    spec = SPECS[op.kind]
    is_by_rows = size[0] > 1 and spec.windows(draft, alone) is not None and spec.infer(draft, alone) == [shape_of(*size)]
    return traced.maps.add(row_map) if is_by_rows else None


def _drafted(maps: RowMaps, row_map: RowMap) -> tuple[Graph, Op]:
    """Return a graph of the op alone that computes a row map, and the op."""
    assert row_map.op is not None
    tensors, names = dict[str, Tensor](), list[str]()
    for index, operand in enumerate(row_map.operands):
        if isinstance(operand, Operand):
            first = maps.maps[operand.parts[0].number]
            shape = shape_of(first.rows, sum(part.channels for part in operand.parts), operand.is_matrix)
            tensor = Tensor(f"operand_{index}", shape, first.like.dtype, first.like.quant)
        else:
            tensor = operand
        tensors[tensor.name] = tensor
        names.append(tensor.name)
    out = Tensor("out", shape_of(row_map.rows, row_map.channels), row_map.like.dtype, row_map.like.quant)
    op = replace(row_map.op, inputs=tuple(names), outputs=("out",))
    return Graph("draft", {**tensors, "out": out}, (op,), (), ("out",)), op


def _by_rows(traced: Trace, op: Op, channels: int, others: Sequence[Tensor] = (), **attrs: bool) -> Outputs:
    """Add row maps for an op that computes each output row of `channels` elements from one row of its input."""
    x = traced.graph.input(op)
    addresses = traced.addresses(x.name)
    if addresses is None:
        return None
    block = addresses.reshape(-1, x.shape[-1])
    out = np.empty((len(block), channels), np.int64)
    for rows, operand in traced.maps.grouped(block):
        made = None if operand is None else _add(traced, op, (len(rows), channels), (operand, *others), **attrs)
        if made is None:
            return None
        out[rows] = made
    return [out]


def _dense(traced: Trace, op: Op) -> Outputs:
    graph = traced.graph
    weights, bias = graph.input(op, 1), graph.optional_input(op, 2)
    if weights.data is None or (bias is not None and bias.data is None) or graph.input(op).shape[-1] != weights.shape[1]:
        return None
    others = (weights,) if bias is None else (weights, bias)
    return _by_rows(traced, op, weights.shape[0], others, keep_num_dims=True)


def _reduced(traced: Trace, op: Op) -> Outputs:
    graph = traced.graph
    if axes(graph, op) != (len(graph.input(op).shape) - 1,):
        return None
    return _by_rows(traced, op, 1, (integers(graph, op, "axis", [3]),), keep_dims=True)


class Own(NamedTuple):
    """The output elements of an elementwise op that one row map holds: a mask of the output, and the place of each element."""

    mask: NDArray[np.bool_]
    row: Addresses
    channel: Addresses


def _mapped(traced: Trace, op: Op) -> Outputs:
    """Add a row map for each row map that contains elements of an elementwise op's only computed operand."""
    graph, index = traced.graph, computed_operand(traced.graph, op)
    addresses = None if index is None else traced.addresses(op.inputs[index] or "")
    if addresses is None:
        return None
    places = traced.maps.locate(np.broadcast_to(addresses, graph.output(op).shape))
    out = np.empty(places.number.shape, np.int64)
    for number in np.unique(places.number).tolist():
        mask = places.number == number
        channels = places.channel[mask]
        begin, end = int(channels.min()), int(channels.max()) + 1
        own, size = Own(mask, places.row[mask], channels - begin), (traced.maps.maps[number].rows, end - begin)
        operands = [
            Operand((Part(number, begin, end),)) if x.data is None else _constant(graph, op, x, own, size)
            for x in graph.inputs_of(op)
            if x is not None
        ]
        complete = [each for each in operands if each is not None]
        made = _add(traced, op, size, complete, elementwise=True) if len(complete) == len(operands) else None
        if made is None:
            return None
        out[mask] = made[own.row, own.channel]
    return [out]


def _constant(graph: Graph, op: Op, operand: Tensor, own: Own, size: Size) -> Tensor | None:
    """Return a constant of an elementwise op in the shape of a row map (`own`); None if an element meets several."""
    if operand.elements == 1 or SPECS[op.kind].family == "unary" or operand.data is None:
        return operand
    values, counts = np.zeros(size, operand.data.dtype), np.zeros(size, np.int64)
    values[own.row, own.channel] = np.broadcast_to(operand.data, own.mask.shape)[own.mask]
    np.add.at(counts, (own.row, own.channel), 1)
    if (counts != 1).any():
        return None
    is_same = bool((values == values[0]).all())
    return part(graph, op, "operand", operand, values[0] if is_same else values.reshape(shape_of(*size)))


def _binary(traced: Trace, op: Op) -> Outputs:
    """Add a row map per pair of row maps of the two computed operands, of equal channels up to a shift, or of one channel."""
    graph = traced.graph
    if computed_operand(graph, op) is not None:
        return _mapped(traced, op)
    shape, operands = graph.output(op).shape, [traced.addresses(name or "") for name in op.inputs]
    located = [traced.maps.locate(np.broadcast_to(each, shape)) for each in operands if each is not None]
    if len(located) != 2 or not np.array_equal(located[0].row, located[1].row):
        return None
    out = np.empty(shape, np.int64)
    pairs = np.unique(np.stack([each.number.ravel() for each in located]), axis=1).T
    for numbers in pairs.tolist():
        mask = (located[0].number == numbers[0]) & (located[1].number == numbers[1])
        channels = [each.channel[mask] for each in located]
        parts = [Part(number, int(each.min()), int(each.max()) + 1) for number, each in zip(numbers, channels, strict=True)]
        wide, narrow = (0, 1) if parts[0].channels >= parts[1].channels else (1, 0)
        shift = channels[narrow] - channels[wide]
        rows = {traced.maps.maps[number].rows for number in numbers}
        if len(rows) > 1 or (parts[narrow].channels > 1 and (shift != shift[0]).any()):
            return None
        size = rows.pop(), parts[wide].channels
        made = _add(traced, op, size, [Operand((each,)) for each in parts], elementwise=True)
        if made is None:
            return None
        out[mask] = made[located[0].row[mask], channels[wide] - parts[wide].begin]
    return [out]


def _product(traced: Trace, op: Op) -> Outputs:
    """Add row maps for products of matrices: a map for each head, or one in which each row is the product of two vectors."""
    graph = traced.graph
    operands = [None if x is None or x.data is not None else traced.addresses(x.name) for x in graph.inputs_of(op)]
    flags = op.attrs["adj_x"], op.attrs["adj_y"]
    turned = [x.swapaxes(-1, -2) if flag else x for x, flag in zip(operands, flags, strict=True) if x is not None]
    if len(turned) < 2:
        return None
    *batch, rows, columns = graph.output(op).shape
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in turned)
    if rows == columns == 1:
        return _dot_products(traced, op, a[:, 0], b[:, :, 0])
    out = np.empty((len(a), rows, columns), np.int64)
    for index in range(len(a)):
        row, as_stored, transposed = (traced.maps.operand(x) for x in (a[index], b[index], b[index].T))
        matrix = as_stored or transposed
        if row is None or matrix is None:
            return None
        both = row, matrix._replace(is_matrix=True)
        made = _add(traced, op, (rows, columns), both, adj_x=False, adj_y=as_stored is None)
        if made is None:
            return None
        out[index] = made
    return [out]


def _dot_products(traced: Trace, op: Op, a: Addresses, b: Addresses) -> Outputs:
    """Add row maps for the dot products of each row of `a` with the same row of `b`, such as squares in a layer norm."""
    out = np.empty((len(a), 1), np.int64)
    for rows, left in traced.maps.grouped(a):
        right = traced.maps.operand(b[rows])
        if left is None or right is None:
            return None
        made = _add(traced, op, (len(rows), 1), (left, right), adj_x=False, adj_y=True)
        if made is None:
            return None
        out[rows] = made
    return [out]


def _elementwise(traced: Trace, op: Op) -> Outputs:
    """Add row maps for an op that computes each output element from the input element at its place."""
    return _mapped(traced, op) if SPECS[op.kind].windows is windows_one_to_one else None


# family of ops -> function that adds the row maps of an op and returns the addresses of its outputs, None if it cannot
RULES: dict[str, Callable[[Trace, Op], Outputs]] = {
    "view": _moved,
    "copy": _moved,
    "join": _joined,
    "unary": _elementwise,
    "conversion": _elementwise,
    "binary": _binary,
    "dense": _dense,
    "softmax": lambda traced, op: _by_rows(traced, op, traced.graph.input(op).shape[-1]),
    "reduction": _reduced,
    "matmul": _product,
}
