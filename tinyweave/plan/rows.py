"""A graph as rows of its maps: what each op reads per row of its output, alone or together with others in a tile.

In: a Graph and its kernels. Out: windows of rows; for ops that run together, some columns of a row at a time, the few rows and
columns that are there of what they pass on, and the multiply-accumulates that this costs: rows that the next row needs too are
computed again, columns are not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, itemsize
from ..kernels.table import BY_NAME
from ..ops import SPECS
from .plan import Tile


class Read(NamedTuple):
    """The rows of an operand that row r reads: [r * stride - pad, r * stride - pad + extent), those inside the map."""

    tensor: str
    stride: int
    extent: int
    pad: int


def row_bytes(tensor: Tensor) -> int:
    """Bytes of a row of an NHWC map."""
    return tensor.shape[2] * tensor.shape[3] * itemsize(tensor.dtype)


def reads(graph: Graph, op: Op, variant: str) -> tuple[Read, ...] | None:
    """What an op reads row by row; None when it cannot run so."""
    window = SPECS[op.kind].window(graph, op)
    if not variant or len(op.outputs) != 1:
        return None
    if BY_NAME[variant].sums(graph, op):
        return (Read(graph.input(op).name, 1, 1, 0),) if graph.input(op).data is None else None
    if not BY_NAME[variant].ranged or window is None:
        return None
    maps = [graph.output(op), *(t for t in graph.inputs_of(op) if t is not None and t.data is None)]
    if len(maps) < 2 or any(len(t.shape) != 4 or t.shape[0] != 1 or t.role == "state" for t in maps):
        return None
    names = dict.fromkeys(tensor.name for tensor in maps[1:])
    return tuple(Read(name, window.stride[0], window.extent[0], window.pad[0]) for name in names)


@dataclass(frozen=True, eq=False)
class Rows:
    """A graph as rows, with the kernel's name per op, network inputs that come by rows, and ops that run together."""

    graph: Graph
    variants: Sequence[str]
    streamed: Collection[str] = ()
    tiles: Collection[Tile] = ()

    def with_tiles(self, tiles: Collection[Tile]) -> Rows:
        """The same graph with these tiles; what is known of its ops stays known."""
        found = copy(self)
        object.__setattr__(found, "tiles", tiles)
        return found

    @cached_property
    def reads(self) -> list[tuple[Read, ...] | None]:
        """Per op what it reads row by row; None where it cannot be fused."""
        return [reads(self.graph, op, variant) for op, variant in zip(self.graph.ops, self.variants, strict=True)]

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


def _is_elementwise(found: tuple[Read, ...] | None) -> bool:
    return found is not None and all(read[1:] == (1, 1, 0) for read in found)


def joined(net: Rows, run: Sequence[int], rows: int = 1) -> tuple[Read, ...] | None:
    """What so many rows of the output of ops that run together read of what others make; None where they cannot run so.

    In a tile all but the last op's output must be read by the next op and no other.
    """
    if len(run) == 1:
        return net.reads[run[0]]
    names = [net.graph.ops[index].outputs[0] for index in run]
    found: dict[str, Read] = {}
    needed = Read("", rows, rows, 0)  # of what an op writes, the rows that those of the last one need
    for position in reversed(range(len(run))):
        reads = net.reads[run[position]]
        if reads is None or net.sums[run[position]] or (position and net.users[names[position - 1]] != {run[position]}):
            return None
        outer = needed
        for read in reads:
            extent, pad = (outer.extent - 1) * read.stride + read.extent, outer.pad * read.stride + read.pad
            through = Read(read.tensor, outer.stride * read.stride, extent, pad)
            if position and read.tensor == names[position - 1]:
                needed = through
            elif (other := found.setdefault(read.tensor, through)) != through:
                if other.stride != through.stride:
                    return None
                pad = max(pad, other.pad)
                found[read.tensor] = other._replace(extent=pad + max(extent - through.pad, other.extent - other.pad), pad=pad)
    return tuple(found.values())


def tile_sizes(net: Rows, tile: Tile) -> dict[str, tuple[int, int]]:
    """Tensor that the ops of a tile pass on -> the most rows and columns that are there of it."""
    run, width = tile.ops, net.graph.output(net.graph.ops[tile.ops[-1]]).shape[2]
    tensors, windows = [], list[Axis]()
    for before, index in reversed(list(pairwise(run))):
        window = SPECS[net.graph.ops[index].kind].window(net.graph, net.graph.ops[index])
        assert window is not None
        tensors.append(net.graph.output(net.graph.ops[before]))
        windows.append(Axis(window.stride[1], window.extent[1], window.pad[1], tensors[-1].shape[2]))
    rows = [int((end - begin).max()) for begin, end in _rows_of_run(net, run, tile.rows)]
    sizes = zip(rows, columns_held(windows, width, tile.cols), strict=True)
    return {tensor.name: size for tensor, size in zip(tensors, sizes, strict=True)}


class Axis(NamedTuple):
    """What position i along an axis of `size` positions reads: [i * stride - pad, i * stride - pad + extent) inside it."""

    stride: int
    extent: int
    pad: int
    size: int


def columns_held(windows: Iterable[Axis], width: int, cols: int) -> Iterator[int]:
    """The most columns that a tile keeps of what each of these windows reads, when it makes `cols` of `width` at a time.

    windows: of ops that run together, the last first, but that of the first op.
    """
    parts = [(begin, min(begin + cols, width)) for begin in range(0, width, cols)]  # columns that each op computes
    for stride, extent, pad, size in windows:
        most = there = 0  # columns held at a time; those before `there` have been computed
        for position, (first, last) in enumerate(parts):
            start = min(max(first * stride - pad, 0), size)
            stop = min(max((last - 1) * stride - pad + extent, start), size)
            stop = max(stop if first < last else start, there)
            most = max(most, stop - start)
            parts[position] = max(start, there), stop
            there = stop
        yield most


def tile_bytes(net: Rows, tile: Tile) -> dict[str, int]:
    """The same in bytes."""
    tensors = net.graph.tensors
    sizes = tile_sizes(net, tile)
    return {x: rows * width * tensors[x].shape[3] * itemsize(tensors[x].dtype) for x, (rows, width) in sizes.items()}


def _rows_of_run(
    net: Rows, run: Sequence[int], at_once: int, rows: int | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Per tensor that ops which run together pass on, the last first: the rows [begin, end) that each turn needs.

    at_once: rows of the output that a turn computes. rows: those that are computed in all; the whole map's if left out.
    """
    windows = []
    for before, index in reversed(list(pairwise(run))):
        name = net.graph.ops[before].outputs[0]
        read = next(read for read in net.reads[index] or () if read.tensor == name)
        windows.append(Axis(read.stride, read.extent, read.pad, net.height[name]))
    return rows_held(windows, net.height[net.graph.ops[run[-1]].outputs[0]] if rows is None else rows, at_once)


def rows_held(windows: Iterable[Axis], count: int, at_once: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The rows [begin, end) of what each of these windows reads, the last first, that each turn of `at_once` rows of `count`
    needs."""
    begin = np.arange(0, count, at_once)
    end = np.minimum(begin + at_once, count)
    for stride, extent, pad, size in windows:
        empty = begin >= end
        begin = np.clip(begin * stride - pad, 0, size)
        end = np.maximum(np.clip((end - 1) * stride - pad + extent, 0, size), begin)
        end = np.where(empty, begin, end)
        yield begin, end


def times_computed(begin: NDArray[np.int64], end: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """How often turns that each need the rows [begin, end) need each row."""
    return np.cumsum(np.bincount(begin, minlength=height + 1) - np.bincount(end, minlength=height + 1))[:-1]


def macs_again(net: Rows, run: Sequence[int], at_once: int = 1, rows: int | None = None) -> dict[int, int]:
    """Op of those that run together -> multiply-accumulates of rows that it computes again, less those of rows that none needs.

    at_once: rows of the output that they compute in one turn. rows: those that are computed in all; the whole map's if left
    out.
    """
    found = {}
    if rows is not None:
        found[run[-1]] = _macs_of_rows(net, run[-1], (np.arange(net.steps[run[-1]]) < rows) - np.int64(1))
    for before, (begin, end) in zip(reversed(run[:-1]), _rows_of_run(net, run, at_once, rows), strict=True):
        height = net.height[net.graph.ops[before].outputs[0]]
        found[before] = _macs_of_rows(net, before, times_computed(begin, end, height) - 1)
    return found


def _macs_of_rows(net: Rows, index: int, times: NDArray[np.int64]) -> int:
    """Multiply-accumulates of an op that computes each row of its output so many times, those outside the map left out."""
    op, total = net.graph.ops[index], SPECS[net.graph.ops[index].kind].macs(net.graph, net.graph.ops[index], True)
    if not total:
        return 0
    rows, read = np.arange(len(times)), (net.reads[index] or ())[0]
    dilation = op.attrs.get("dilation", (1, 1))[0]
    taps = (rows * read.stride - read.pad)[:, None] + np.arange(0, read.extent, dilation)
    inside = ((taps >= 0) & (taps < net.height[read.tensor])).sum(axis=1)
    return total * int((inside * times).sum()) // int(inside.sum())
