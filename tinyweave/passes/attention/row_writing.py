"""Write the ops that compute row maps: which channels each op computes, and in which order the ops run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, count

import numpy as np

from ...ir import Op, Tensor
from ...ops import SPECS
from .row_maps import Operand, Part, RowMap, RowMaps, computed, shape_of

Span = tuple[int, int]  # the first channel of a range, and the channel after the last
Node = Part | Operand  # what one step of `RowWriting.write` computes: channels of a row map, or a matrix


def computed_spans(maps: RowMaps, wanted: Iterable[Operand]) -> list[list[Span]]:
    """Return for each row map the ranges of channels that an op of their own computes.

    Dense layers and elementwise ops compute just the channels that other ops read together; others compute all. `wanted` are
    needed as tensors of the graph.
    """
    spans: list[list[Span]] = [[] for _ in maps.maps]
    for part in (part for operand in wanted for part in operand.parts):
        spans[part.number].append((part.begin, part.end))
    for number in reversed(range(len(maps.maps))):
        row_map = maps.maps[number]
        if spans[number]:
            spans[number] = _merged(spans[number]) if _is_divisible(row_map) else [(0, row_map.channels)]
        for span in spans[number]:
            for part in (part for operand in _operands(row_map, span) for part in operand.parts):
                spans[part.number].append((part.begin, part.end))
    return spans


def _is_divisible(row_map: RowMap) -> bool:
    return row_map.op is not None and (row_map.elementwise or SPECS[row_map.op.kind].weights is not None)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged = list[Span]()
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _operands(row_map: RowMap, span: Span) -> list[Operand]:
    """Return the row maps that an op reads to compute a range of channels of its row map."""
    if not row_map.elementwise:
        return computed(row_map)
    return [Operand(tuple(_within(part, row_map, span) for part in operand.parts)) for operand in computed(row_map)]


def _within(part: Part, row_map: RowMap, span: Span) -> Part:
    """Return the part of an elementwise op's operand that a range of its channels reads; a single channel is broadcast."""
    if part.channels < row_map.channels:
        return part
    return part._replace(begin=part.begin + span[0], end=part.begin + span[1])


def _constant(row_map: RowMap, tensor: Tensor, span: Span) -> Tensor:
    """Return the part of a constant operand for a range of channels; a table or a single number is the same for all."""
    begin, end = span
    is_weights = not row_map.elementwise
    axis = 0 if is_weights else -1
    assert tensor.data is not None and row_map.op is not None
    is_for_all = SPECS[row_map.op.kind].family == "unary" or tensor.elements == 1
    if end - begin == row_map.channels or is_for_all or tensor.shape[axis] != row_map.channels:
        return tensor
    data, quant = (tensor.data[begin:end] if is_weights else tensor.data[..., begin:end]), tensor.quant
    if quant is not None and quant.axis == 0 and is_weights:
        quant = replace(quant, scale=quant.scale[begin:end], zero_point=quant.zero_point[begin:end])
    return replace(tensor, data=data, shape=data.shape, quant=quant)


def _integers(name: str, values: tuple[int, ...]) -> Tensor:
    data = np.array(values, np.int32)
    return Tensor(name, data.shape, "int32", data=data, role="constant")


def _numbered(name: str, separator: str) -> Iterator[str]:
    """Yield the name, then the name with the numbers 2, 3, ... after a separator."""
    return chain((name,), (f"{name}{separator}{number}" for number in count(2)))


@dataclass
class RowWriting:
    """A graph that is being written: row maps -> ops in execution order.

    `tensors` are those of the old and the new graph, `taken` the op names in use, `spans` is from `computed_spans`, and `names`
    maps what was written to its tensor.
    """

    maps: RowMaps
    tensors: dict[str, Tensor]
    taken: set[str]
    ops: list[Op] = field(default_factory=list)
    spans: list[list[Span]] = field(default_factory=list)
    names: dict[Node, str] = field(default_factory=dict)

    def write(self, operand: Operand) -> str:
        """Write the ops that compute an operand, matrices first, unless they are written; return the operand's tensor."""
        order, done = list[Node](), set[Node]()
        waiting: list[tuple[Node, bool]] = [(part, False) for part in reversed(self._sources(operand))]
        while waiting:
            node, is_ready = waiting.pop()
            if node in done or node in self.names:
                continue
            if is_ready:
                done.add(node)
                order.append(node)
            else:
                waiting += [(node, True), *((each, False) for each in reversed(self._needs(node)))]
        for node in sorted(order, key=lambda node: isinstance(node, Operand) or self.maps.maps[node.number].op is not None):
            self.names[node] = self._matrix(node) if isinstance(node, Operand) else self._map(node)
        return self.joined(operand)

    def _span(self, part: Part) -> Part:
        """Return the channels that one op computes, among them those of `part`."""
        spans = self.spans[part.number]
        return next(Part(part.number, *span) for span in spans if span[0] <= part.begin and part.end <= span[1])

    def _sources(self, operand: Operand) -> list[Part]:
        return [self._span(part) for part in operand.parts]

    def _needs(self, node: Node) -> list[Node]:
        if isinstance(node, Operand):
            return list(self._sources(node))
        operands = _operands(self.maps.maps[node.number], (node.begin, node.end))
        matrices = [operand for operand in operands if operand.is_matrix]
        return [*matrices, *(part for operand in operands if not operand.is_matrix for part in self._sources(operand))]

    def _map(self, part: Part) -> str:
        """Write the op that computes some channels of a row map, whose operands are written; return its output."""
        row_map, span = self.maps.maps[part.number], (part.begin, part.end)
        shape = shape_of(row_map.rows, part.channels)
        if row_map.op is None:
            return self.reshape(row_map.like.name, row_map.like, shape)
        operands, names = iter(_operands(row_map, span)), list[str]()
        for operand in row_map.operands:
            if isinstance(operand, Tensor):
                tensor = _constant(row_map, operand, span)
                names.append(operand.name if tensor is self.tensors.get(operand.name) else self.constant(tensor))
            else:
                own = next(operands)
                names.append(self.names[own] if own.is_matrix else self.joined(own))
        return self.add(replace(row_map.op, inputs=tuple(names)), row_map.like, shape)

    def _matrix(self, operand: Operand) -> str:
        first = self.maps.maps[operand.parts[0].number]
        source = self.joined(operand._replace(is_matrix=False))
        shape = shape_of(first.rows, self.tensors[source].shape[-1], is_matrix=True)
        return self.reshape(source, first.like, shape)

    def joined(self, operand: Operand) -> str:
        """Return the tensor that holds all parts of an operand, side by side; write a concatenation if there are several."""
        if len(operand.parts) == 1:
            return self._sliced(operand.parts[0])
        if operand not in self.names:
            first = self.maps.maps[operand.parts[0].number]
            names = tuple(self._sliced(part) for part in operand.parts)
            shape = shape_of(first.rows, sum(part.channels for part in operand.parts))
            op = Op("heads", "concatenation", names, (), {"axis": 3, "activation": "none"})
            self.names[operand] = self.add(op, first.like, shape)
        return self.names[operand]

    def _sliced(self, part: Part) -> str:
        """Return the tensor that holds some channels of a row map; write a slice if an op computes more channels."""
        if part not in self.names:
            whole, row_map = self._span(part), self.maps.maps[part.number]
            begin = self.constant(_integers("begin", (0, 0, 0, part.begin - whole.begin)))
            shape = shape_of(row_map.rows, part.channels)
            op = Op("channels", "slice", (self.names[whole], begin, self.constant(_integers("size", shape))), (), {})
            self.names[part] = self.add(op, row_map.like, shape)
        return self.names[part]

    def add(self, op: Op, like: Tensor, shape: tuple[int, ...], name: str = "") -> str:
        """Add an op with one output of this shape; return the output's name: `name`, or a new one like that of `like`."""
        out = name or self._unused(like.name)
        self.tensors[out] = Tensor(out, shape, like.dtype, like.quant)
        own = next(each for each in _numbered(op.name, "_") if each not in self.taken)
        self.taken.add(own)
        self.ops.append(replace(op, name=own, outputs=(out,)))
        return out

    def reshape(self, source: str, like: Tensor, shape: tuple[int, ...], name: str = "") -> str:
        """Add a reshape of the tensor `source`, unless it has the shape and any name will do."""
        if not name and self.tensors[source].shape == shape:
            return source
        return self.add(Op("rows", "reshape", (source,), (), {"new_shape": None}), like, shape, name)

    def constant(self, tensor: Tensor) -> str:
        """Add a constant and return its name, a new one."""
        name = self._unused(tensor.name)
        self.tensors[name] = replace(tensor, name=name)
        return name

    def _unused(self, name: str) -> str:
        return next(each for each in _numbered(name, ".") if each not in self.tensors)
