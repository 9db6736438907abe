"""A graph as rows of its maps: what each op reads per row of its output, alone or together with others in a tile.

In: a Graph and its kernels. Out: windows of rows; for ops that run together, some columns of a row at a time, the few rows and
columns that are there of what they pass on, and the multiply-accumulates that this costs: rows that the next row needs too are
computed again, columns are not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op, Tensor
from ...kernels.table import BY_NAME
from ...ops import SPECS, Window
from ...ops.window import positions
from ..plan import Tile


class Read(NamedTuple):
    """The rows of an operand that row r reads: [r * stride - pad, r * stride - pad + extent), those inside the map.

    A stride of 0 is that of a pixel that every row reads, so that it must be there before them.
    """

    tensor: str
    stride: int
    extent: int
    pad: int


def row_bytes(tensor: Tensor) -> int:
    """Bytes of a row of an NHWC map."""
    return tensor.shape[2] * tensor.pixel_bytes


RESAMPLERS = ("resize_bilinear", "transpose_conv")  # without a window: their rows may read any row


def reads(graph: Graph, op: Op, variant: str, *, last: bool = False) -> tuple[Read, ...] | None:
    """What an op reads row by row; None when it cannot run so.

    last: it hands out its output by rows, and so may wait for all of an operand.
    """
    window = SPECS[op.kind].window(graph, op)
    if not variant or len(op.outputs) != 1:
        return None
    if BY_NAME[variant].sums(graph, op):
        return (Read(graph.input(op).name, 1, 1, 0),) if graph.input(op).data is None else None
    waits = last and op.kind in RESAMPLERS
    if not BY_NAME[variant].has_part or (window is None and not waits):
        return None
    maps = [graph.output(op), *(t for t in graph.inputs_of(op) if t is not None and t.data is None)]
    if len(maps) < 2 or any(len(t.shape) != 4 or t.shape[0] != 1 or t.role == "state" for t in maps):
        return None
    out, *operands = {tensor.name: tensor for tensor in maps}.values()
    if window is None:  # one that reaches from any row of the output over all of the operand
        above = out.shape[1] - 1
        return tuple(Read(x.name, 1, above + x.shape[1], above) for x in operands)
    by_row, repeated = Read("", window.stride[0], window.extent[0], window.pad[0]), Read("", 0, 1, 0)
    goes_with = any(x.shape == out.shape for x in operands)  # else a pixel is a map of one, as for pad
    repeats = [goes_with and window == Window() and x.shape[1:3] == (1, 1) != out.shape[1:3] for x in operands]
    return tuple((repeated if r else by_row)._replace(tensor=x.name) for x, r in zip(operands, repeats, strict=True))


@dataclass(frozen=True, eq=False)
class Rows:
    """A graph as rows, with the kernel's name per op, network inputs that come by rows, ops that run together, and network
    outputs that are handed out by rows."""

    graph: Graph
    variants: Sequence[str]
    streamed: Collection[str] = ()
    tiles: Collection[Tile] = ()
    handed: Collection[str] = ()

    def with_tiles(self, tiles: Collection[Tile]) -> Rows:
        """The same graph with these tiles; what is known of its ops stays known."""
        _ = self.in_place  # known before it is copied
        found = copy(self)
        object.__setattr__(found, "tiles", tiles)
        return found

    @cached_property
    def reads(self) -> list[tuple[Read, ...] | None]:
        """Per op what it reads row by row; None where it cannot be fused."""
        ops = zip(self.graph.ops, self.variants, strict=True)
        return [reads(self.graph, op, variant, last=op.outputs[0] in self.handed) for op, variant in ops]

    @cached_property
    def windows(self) -> list[Window | None]:
        """Per op the window that it reads; None where it has none."""
        return [SPECS[op.kind].window(self.graph, op) for op in self.graph.ops]

    @cached_property
    def sums(self) -> list[int]:
        """Per op the bytes that it takes to sum up the rows of its input as they come; 0 where it does not do that."""
        ops = zip(self.graph.ops, self.variants, self.reads, strict=True)
        return [BY_NAME[variant].sums(self.graph, op) if found else 0 for op, variant, found in ops]

    @cached_property
    def steps(self) -> list[int]:
        """Per op the rows that it computes, or those of its input where it only sums them up."""
        ops = zip(self.graph.ops, self.sums, strict=True)
        return [self.height.get((op.inputs[0] or "") if sums else op.outputs[0], 1) for op, sums in ops]

    @cached_property
    def in_place(self) -> list[set[str]]:
        """Per op the operands of which it reads each byte before it writes the same byte of its output."""
        ops = zip(self.graph.ops, self.variants, self.reads, strict=True)
        lag = [BY_NAME[variant].lag(self.graph, op) if _is_elementwise(found) else {} for op, variant, found in ops]
        return [{op.inputs[i] or "" for i, by in of.items() if by == 0} for op, of in zip(self.graph.ops, lag, strict=True)]

    @cached_property
    def users(self) -> dict[str, set[int]]:
        """Per tensor the ops that read it; a network output has one more that is no op."""
        found: dict[str, set[int]] = {name: set() for name in self.graph.tensors}
        for index, op in enumerate(self.graph.ops):
            for name in filter(None, op.inputs):
                found[name].add(index)
        for name in self.graph.outputs:
            found[name].add(-1)
        return found

    @cached_property
    def height(self) -> dict[str, int]:
        """The rows of each map."""
        return {name: tensor.shape[1] for name, tensor in self.graph.tensors.items() if len(tensor.shape) == 4}


def can_be_handed(net: Rows) -> tuple[str, ...]:
    """The network outputs that can be handed out by rows: maps of some rows that an op computes so and that nothing reads."""
    graph = net.graph
    found = [name for name in graph.outputs if net.height.get(name, 1) > 1 and net.users[name] == {-1}]
    makers = {name: graph.producer[name] for name in found if name in graph.producer and graph.outputs.count(name) == 1}
    return tuple(name for name, i in makers.items() if reads(graph, graph.ops[i], net.variants[i], last=True) is not None)


def _is_elementwise(found: tuple[Read, ...] | None) -> bool:
    return found is not None and all(read[1:] in ((1, 1, 0), (0, 1, 0)) for read in found)


def joined(net: Rows, run: Sequence[int], rows: int = 1) -> tuple[Read, ...] | None:
    """What so many rows of the output of ops that run together read of what others make; None where they cannot run so.

    In a tile only ops of it may read what all but the last one make.
    """
    if len(run) == 1:
        return net.reads[run[0]]
    within = {net.graph.ops[index].outputs[0] for index in run[:-1]}
    found = {net.graph.ops[run[-1]].outputs[0]: Read("", rows, rows, 0)}  # by map, the rows that those of the last one need
    for index in reversed(run):
        reads, name = net.reads[index], net.graph.ops[index].outputs[0]
        if (
            reads is None
            or net.sums[index]
            or net.windows[index] is None
            or (name in within and not net.users[name].issubset(run))
        ):
            return None
        outer = found.pop(name)
        for read in reads:
            extent, pad = (outer.extent - 1) * read.stride + read.extent, outer.pad * read.stride + read.pad
            through = Read(read.tensor, outer.stride * read.stride, extent, pad)
            if not read.stride and read.tensor in within:
                return None
            if (other := found.setdefault(read.tensor, through)) != through:
                if other.stride != through.stride:
                    return None
                pad = max(pad, other.pad)
                found[read.tensor] = other._replace(extent=pad + max(extent - through.pad, other.extent - other.pad), pad=pad)
    return tuple(found.values())


Spans = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where spans of rows or columns begin and end, one after the other."""


def parts(net: Rows, tile: Tile, axis: int, rows: int | None = None) -> tuple[dict[int, Spans], dict[str, int]]:
    """Per op of a tile the rows (axis 0) that it computes turn by turn, or the columns (axis 1) block by block of a turn; and
    per tensor that they pass on the most that is there of it at a time.

    rows: those that the last one computes in all; the whole map's if left out.
    """
    graph, last = net.graph, tile.ops[-1]
    count, step = graph.output(graph.ops[last]).shape[1 + axis], (tile.rows, tile.cols)[axis]
    begin = np.arange(0, count if rows is None else rows, step)
    found, most = {last: (begin, np.minimum(begin + step, count if rows is None else rows))}, dict[str, int]()
    for index in reversed(tile.ops[:-1]):
        name = graph.ops[index].outputs[0]
        spans = [needed(_axis(net, reader, name, axis), found[reader]) for reader in found if reader in net.users[name]]
        begin, end = spans[0]
        for other in spans[1:]:
            begin, end = np.minimum(begin, other[0]), np.maximum(end, other[1])
        found[index], most[name] = slid((begin, end)) if axis == 1 and tile.cached else ((begin, end), int((end - begin).max()))
    return found, most


class Axis(NamedTuple):
    """What position i along an axis of `size` positions reads: [i * stride - pad, i * stride - pad + extent) inside it."""

    stride: int
    extent: int
    pad: int
    size: int


def _axis(net: Rows, reader: int, name: str, axis: int) -> Axis:
    window = net.windows[reader]
    assert window is not None
    return Axis(window.stride[axis], window.extent[axis], window.pad[axis], net.graph.tensors[name].shape[1 + axis])


def needed(axis: Axis, spans: Spans) -> Spans:
    """What spans of positions read."""
    stride, extent, pad, size = axis
    begin, end = spans
    first = np.clip(begin * stride - pad, 0, size)
    after = np.maximum(np.clip((end - 1) * stride - pad + extent, 0, size), first)
    return first, np.where(begin < end, after, first)


def slid(spans: Spans) -> tuple[Spans, int]:
    """What is computed of needed columns, block by block, where those there stay; the most that are there at a time."""
    begin, end = spans
    stop = np.maximum.accumulate(end)  # of all blocks so far
    there = np.concatenate((begin[:1], stop[:-1]))
    return (np.maximum(begin, there), stop), int((stop - begin).max())


def tile_sizes(net: Rows, tile: Tile) -> dict[str, tuple[int, int]]:
    """Tensor that the ops of a tile pass on -> the most rows and columns that are there of it."""
    rows, cols = (parts(net, tile, axis)[1] for axis in (0, 1))
    return {name: (rows[name], cols[name]) for name in rows}


def tile_bytes(net: Rows, tile: Tile) -> dict[str, int]:
    """The same in bytes."""
    tensors = net.graph.tensors
    sizes = tile_sizes(net, tile)
    return {x: rows * width * tensors[x].pixel_bytes for x, (rows, width) in sizes.items()}


def tile_words(net: Rows, tile: Tile) -> int:
    """Bytes of all of them, each in whole words."""
    return sum(-(-size // 4) * 4 for size in tile_bytes(net, tile).values())


def macs_again(net: Rows, tile: Tile, rows: int | None = None) -> dict[int, int]:
    """Op of those that run together -> multiply-accumulates that it does again, less those of rows that none needs.

    rows: those of the last one that are computed in all; the whole map's if left out.
    """
    across = parts(net, tile, 1)[0] if len(tile.ops) > 1 and not tile.cached else {}
    down = parts(net, tile, 0, rows)[0]
    if rows is None:
        del down[tile.ops[-1]]
    return {index: _macs_again(net, index, spans, across.get(index)) for index, spans in down.items()}


def _macs_again(net: Rows, index: int, rows: Spans, cols: Spans | None) -> int:
    """Multiply-accumulates of an op that computes these rows of its output, and of them these columns, beyond computing each
    once; those outside the map are left out."""
    total = SPECS[net.graph.ops[index].kind].macs(net.graph, net.graph.ops[index], True)
    if not total or net.windows[index] is None:  # without one it runs by itself, each row once
        return 0
    once = done = 1
    for axis, spans in ((0, rows), (1, cols)):
        if spans is not None:
            inside = _taps_inside(net, index, axis)
            upto = np.concatenate(([0], np.cumsum(inside)))
            once, done = once * int(upto[-1]), done * int((upto[spans[1]] - upto[spans[0]]).sum())
    return total * done // once - total


def _taps_inside(net: Rows, index: int, axis: int) -> NDArray[np.int64]:
    """Per row or column of an op's output how many taps of its window lie inside the map."""
    op, window = net.graph.ops[index], net.windows[index]
    assert window is not None
    size, out = net.graph.input(op).shape[1 + axis], net.graph.output(op).shape[1 + axis]
    dilation = op.attrs.get("dilation", (1, 1))[axis]
    kernel, stride = (window.extent[axis] - 1) // dilation + 1, window.stride[axis]
    taps = positions(size, out, kernel=kernel, stride=stride, dilation=dilation, before=window.pad[axis])
    inside: NDArray[np.int64] = taps.sum(axis=1, dtype=np.int64)
    return inside
