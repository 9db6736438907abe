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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op, Tensor
from ...kernels.table import BY_NAME
from ...ops import SPECS, macs_per_op, transpose_conv
from ...ops.window import ONE_TO_ONE, Spans, Window, Windows, positions
from ..plan import Tile


class Access(NamedTuple):
    """Which rows of an operand a row of an op's output reads. A stride of 0: every row reads the same pixel, which must be
    there before them."""

    tensor: str
    window: Window


def row_bytes(tensor: Tensor) -> int:
    """Return bytes of a row of an NHWC map."""
    return tensor.shape[2] * tensor.pixel_bytes


RESAMPLERS = (
    "resize_nearest_neighbor",
    "resize_bilinear",
    "transpose_conv",
)  # where they have no window, their rows may read any row


def accesses(graph: Graph, op: Op, variant: str, *, last: bool = False) -> tuple[Access, ...] | None:
    """Return what an op reads row by row; None when it cannot run so.

    last: it hands out its output by rows, and so may wait for all of an operand.
    """
    windows = SPECS[op.kind].windows(graph, op)
    if not variant or len(op.outputs) != 1:
        return None
    if BY_NAME[variant].sums(graph, op):
        return (Access(graph.input(op).name, Window()),) if graph.input(op).data is None else None
    waits = last and op.kind in RESAMPLERS
    if not BY_NAME[variant].has_part or (windows is None and not waits):
        return None
    maps = [graph.output(op), *(t for t in graph.inputs_of(op) if t is not None and t.data is None)]
    if len(maps) < 2 or any(len(t.shape) != 4 or t.shape[0] != 1 or t.role == "state" for t in maps):
        return None
    out, *operands = {tensor.name: tensor for tensor in maps}.values()
    if windows is None:  # one that reaches from any row of the output over all of the operand
        above = out.shape[1] - 1
        return tuple(Access(x.name, Window(above + x.shape[1], 1, above)) for x in operands)
    goes_with = any(x.shape == out.shape for x in operands)  # else a pixel is a map of one, as for pad
    repeats = [goes_with and windows == ONE_TO_ONE and x.shape[1:3] == (1, 1) != out.shape[1:3] for x in operands]
    by_operand = (Window(stride=0) if repeated else windows[0] for repeated in repeats)
    return tuple(Access(x.name, window) for x, window in zip(operands, by_operand, strict=True))


@dataclass(frozen=True, eq=False)
class RowGraph:
    """A graph as rows, with the kernel's name per op, network inputs that come by rows, ops that run together, and network
    outputs that are handed out by rows."""

    graph: Graph
    variants: Sequence[str]
    streamed_inputs: Collection[str] = ()
    tiles: Collection[Tile] = ()
    streamed_outputs: Collection[str] = ()

    def with_tiles(self, tiles: Collection[Tile]) -> RowGraph:
        """Return the same graph with these tiles; what is known of its ops stays known."""
        _ = self.in_place, self.known_parts, self.taps_upto  # known before it is copied
        tiled = copy(self)
        object.__setattr__(tiled, "tiles", tiles)
        return tiled

    @cached_property
    def accesses(self) -> list[tuple[Access, ...] | None]:
        """Return per op what it reads row by row; None where it cannot be fused."""
        ops = zip(self.graph.ops, self.variants, strict=True)
        return [accesses(self.graph, op, variant, last=op.outputs[0] in self.streamed_outputs) for op, variant in ops]

    @cached_property
    def windows(self) -> list[Windows | None]:
        """Return per op the windows that it reads; None where it has none."""
        return [SPECS[op.kind].windows(self.graph, op) for op in self.graph.ops]

    @cached_property
    def macs(self) -> list[int]:
        """Return per op its multiply-accumulates, those outside the map left out."""
        return list(macs_per_op(self.graph, clipped=True))

    @cached_property
    def taps_upto(self) -> list[tuple[NDArray[np.int64], ...]]:
        """Return per op and axis how many taps of the windows before each row (or column) lie inside the map; nothing for ops
        without windows or products."""
        return [
            tuple(_taps_upto(self.graph, op, windows, axis) for axis in (0, 1)) if macs and windows is not None else ()
            for op, macs, windows in zip(self.graph.ops, self.macs, self.windows, strict=True)
        ]

    @cached_property
    def sums(self) -> list[int]:
        """Return per op the bytes that it takes to sum up the rows of its input as they come; 0 where it does not do that."""
        ops = zip(self.graph.ops, self.variants, self.accesses, strict=True)
        return [BY_NAME[variant].sums(self.graph, op) if reads else 0 for op, variant, reads in ops]

    @cached_property
    def steps(self) -> list[int]:
        """Return per op the rows that it computes, or those of its input where it only sums them up."""
        ops = zip(self.graph.ops, self.sums, strict=True)
        return [self.height.get((op.inputs[0] or "") if sums else op.outputs[0], 1) for op, sums in ops]

    @cached_property
    def in_place(self) -> list[set[str]]:
        """Return per op the operands of which it reads each byte before it writes the same byte of its output."""
        ops = zip(self.graph.ops, self.variants, self.accesses, strict=True)
        distance = [BY_NAME[variant].distance(self.graph, op) if _is_elementwise(reads) else {} for op, variant, reads in ops]
        return [
            {op.inputs[i] or "" for i, by in of.items() if by == 0} for op, of in zip(self.graph.ops, distance, strict=True)
        ]

    @cached_property
    def known_parts(self) -> dict[Any, tuple[dict[int, Spans], dict[str, int]]]:
        """Return what `parts` has found so far."""
        return {}

    @cached_property
    def users(self) -> dict[str, set[int]]:
        """Return per tensor the ops that read it; a network output has one more that is no op."""
        users: dict[str, set[int]] = {name: set() for name in self.graph.tensors}
        for index, op in enumerate(self.graph.ops):
            for name in filter(None, op.inputs):
                users[name].add(index)
        for name in self.graph.outputs:
            users[name].add(-1)
        return users

    @cached_property
    def height(self) -> dict[str, int]:
        """Return the rows of each map."""
        return {name: tensor.shape[1] for name, tensor in self.graph.tensors.items() if len(tensor.shape) == 4}


def streamable_outputs(row_graph: RowGraph) -> tuple[str, ...]:
    """Return the network outputs that can be handed out by rows: maps of some rows that an op computes so and that nothing
    reads."""
    graph = row_graph.graph
    names = [name for name in graph.outputs if row_graph.height.get(name, 1) > 1 and row_graph.users[name] == {-1}]
    makers = {name: graph.producer[name] for name in names if name in graph.producer and graph.outputs.count(name) == 1}
    return tuple(
        name for name, i in makers.items() if accesses(graph, graph.ops[i], row_graph.variants[i], last=True) is not None
    )


def _is_elementwise(accesses: tuple[Access, ...] | None) -> bool:
    return accesses is not None and all(access.window in (Window(), Window(stride=0)) for access in accesses)


def joined(row_graph: RowGraph, run: Sequence[int], rows: int = 1) -> tuple[Access, ...] | None:
    """Return what so many rows of the output of ops that run together read of what others make; None where they cannot run so.

    In a tile only ops of it may read what all but the last one make, and none makes a map larger.
    """
    if len(run) == 1:
        return row_graph.accesses[run[0]]
    within = {row_graph.graph.ops[index].outputs[0] for index in run[:-1]}
    windows = {row_graph.graph.ops[run[-1]].outputs[0]: Window(rows, rows)}  # by map, the rows that those of the last one need
    for index in reversed(run):
        accesses, name = row_graph.accesses[index], row_graph.graph.ops[index].outputs[0]
        if (
            accesses is None
            or row_graph.sums[index]
            or (windows_of := row_graph.windows[index]) is None
            or any(window.up > 1 for window in windows_of)
            or (name in within and not row_graph.users[name].issubset(run))
        ):
            return None
        outer = windows.pop(name)
        for x, window in accesses:
            through = outer.compose(window)
            if not window.stride and x in within:
                return None
            if (other := windows.setdefault(x, through)) is not through:
                if other.stride != through.stride:
                    return None
                windows[x] = other.joined(through)
    return tuple(Access(*item) for item in windows.items())


def parts(row_graph: RowGraph, tile: Tile, axis: int, rows: int | None = None) -> tuple[dict[int, Spans], dict[str, int]]:
    """Return per op of a tile the rows (axis 0) that it computes in each iteration, or the columns (axis 1) in each block of an
    iteration; and per tensor that they pass on the most that is there of it at a time.

    rows: those that the last one computes in all; the whole map's if left out.
    """
    graph, ops, step, slides = row_graph.graph, tile.ops, (tile.rows, tile.cols)[axis], axis and tile.cached
    known = row_graph.known_parts
    if (ops, axis, step, rows, slides) in known:
        return known[ops, axis, step, rows, slides]
    # ops that run before others change nothing of what those compute
    last = next((at for at in range(1, len(ops)) if (ops[at:], axis, step, rows, slides) in known), len(ops) - 1)
    if (ops[last:], axis, step, rows, slides) in known:
        computed, largest = known[ops[last:], axis, step, rows, slides]
    else:
        count = graph.output(graph.ops[ops[-1]]).shape[1 + axis] if rows is None else rows
        begin = np.arange(0, count, step)
        computed, largest = {ops[-1]: (begin, np.minimum(begin + step, count))}, {}
    for at in range(last - 1, -1, -1):
        name = graph.ops[ops[at]].outputs[0]
        readers = [index for index in ops[at + 1 :] if index in row_graph.users[name]]
        spans = [_read(row_graph, reader, name, axis, computed[reader]) for reader in readers]
        begin, end = spans[0]
        for other in spans[1:]:
            begin, end = np.minimum(begin, other[0]), np.maximum(end, other[1])
        needed, most = slid((begin, end)) if slides else ((begin, end), int((end - begin).max()))
        computed, largest = computed | {ops[at]: needed}, largest | {name: most}
    known[ops, axis, step, rows, slides] = computed, largest
    return computed, largest


def _read(row_graph: RowGraph, reader: int, name: str, axis: int, spans: Spans) -> Spans:
    """Return what spans of rows or columns of an op's output read of an operand."""
    windows = row_graph.windows[reader]
    assert windows is not None
    return windows[axis].read(spans, row_graph.graph.tensors[name].shape[1 + axis])


def slid(spans: Spans) -> tuple[Spans, int]:
    """Return what is computed of needed columns, block by block, where those there stay; and the most that are there at a
    time."""
    begin, end = spans
    stop = np.maximum.accumulate(end)  # of all blocks so far
    there = np.concatenate((begin[:1], stop[:-1]))
    return (np.maximum(begin, there), stop), int((stop - begin).max())


def tile_sizes(row_graph: RowGraph, tile: Tile) -> dict[str, tuple[int, int]]:
    """Return tensor that the ops of a tile pass on -> the most rows and columns that are there of it."""
    rows, cols = (parts(row_graph, tile, axis)[1] for axis in (0, 1))
    return {name: (rows[name], cols[name]) for name in rows}


def tile_bytes(row_graph: RowGraph, tile: Tile) -> dict[str, int]:
    """Return tensor that the ops of a tile pass on -> its bytes in the tile."""
    tensors = row_graph.graph.tensors
    sizes = tile_sizes(row_graph, tile)
    return {x: rows * width * tensors[x].pixel_bytes for x, (rows, width) in sizes.items()}


def tile_words(row_graph: RowGraph, tile: Tile) -> int:
    """Return the bytes of all that the ops of a tile pass on, each in whole words."""
    return sum(-(-size // 4) * 4 for size in tile_bytes(row_graph, tile).values())


def recomputed_macs(row_graph: RowGraph, tile: Tile, rows: int | None = None) -> dict[int, int]:
    """Return op of a tile -> multiply-accumulates that it does again, less those of rows that none needs.

    rows: those of the last one that are computed in all; the whole map's if left out.
    """
    across = parts(row_graph, tile, 1)[0] if len(tile.ops) > 1 and not tile.cached else {}
    down = dict(parts(row_graph, tile, 0, rows)[0])
    if rows is None:
        del down[tile.ops[-1]]
    return {index: _recomputed_macs(row_graph, index, spans, across.get(index)) for index, spans in down.items()}


def _recomputed_macs(row_graph: RowGraph, index: int, rows: Spans, cols: Spans | None) -> int:
    """Return the multiply-accumulates of an op that computes these rows and columns of its output, beyond computing each once;
    those outside the map are left out."""
    total = row_graph.macs[index]
    if not total or row_graph.windows[index] is None:  # without one it runs by itself, each row once
        return 0
    once = done = 1
    for axis, spans in ((0, rows), (1, cols)):
        if spans is not None:
            upto = row_graph.taps_upto[index][axis]
            once, done = once * int(upto[-1]), done * int((upto[spans[1]] - upto[spans[0]]).sum())
    return total * done // once - total


def _taps_upto(graph: Graph, op: Op, windows: Windows, axis: int) -> NDArray[np.int64]:
    """Return how many taps of the windows of the rows (or columns) before each one of an op's output lie inside the map."""
    if op.kind == "transpose_conv":
        return np.append(0, np.cumsum(transpose_conv.taps_inside(graph, op, axis)))
    extent, stride, pad, *_ = windows[axis]
    size, out = graph.input(op).shape[1 + axis], graph.output(op).shape[1 + axis]
    dilation = op.attrs.get("dilation", (1, 1))[axis]
    kernel = (extent - 1) // dilation + 1
    taps = positions(size, out, kernel=kernel, stride=stride, dilation=dilation, before=pad)
    return np.concatenate(([0], np.cumsum(taps.sum(axis=1, dtype=np.int64))))
