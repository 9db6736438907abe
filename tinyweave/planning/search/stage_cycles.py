"""The kernels that each op of a graph may use, and their estimated cycles: if the op runs unfused, by rows, or in a tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from ...ir import Graph, Op
from ...kernels.layer_cycles import NEXT_ROW, Extent, FlashReads, cut, layer_cycles
from ...kernels.table import BY_NAME
from ..fuse.row_access import RowGraph, tile_buffer_bytes, tile_spans
from ..kernels.cycles import accumulating_calls, lengths
from ..plan import Tile
from .problem import CostKey, Cycles, Kernel, TileCost

Lengths = tuple[tuple[int, int], ...]  # (rows or columns per call, number of such calls)
# graph -> (core, Flash) -> (op, kernel, part of its output) -> cycles of a call; shared by all path searches of a graph
_KNOWN: WeakKeyDictionary[Graph, dict[tuple[str, FlashReads | None], dict[tuple[int, str, Extent], int]]] = WeakKeyDictionary()


class StageCycles:
    """The kernels that each op of a graph may use, and their estimated cycles on a core, cached."""

    def __init__(
        self, row_graph: RowGraph, kernels: Sequence[Sequence[Kernel]], core: str, reads: FlashReads | None = None
    ) -> None:
        """Share the cached cycles of instances for the same graph and core."""
        self.row_graph, self.kernels, self.core, self.reads = row_graph, kernels, core, reads
        self._known = _KNOWN.setdefault(row_graph.graph, {}).setdefault((core, reads), {})
        self._cut: dict[tuple[int, Extent], tuple[Graph, Op]] = {}
        self._once: dict[tuple[int, Extent], Cycles] = {}
        self._within: dict[tuple[int, Lengths, Lengths], Cycles] = {}

    def once(self, index: int, name: str, part: Extent = None) -> int:
        """Return the cycles of one call of kernel `name` for `part` of an op's output, None for all of it; 0 if unknown."""
        if not self.core:
            return 0
        known = self._known.get((index, name, part))
        if known is None:
            if (index, part) not in self._cut:
                self._cut[index, part] = cut(self.row_graph.graph, self.row_graph.graph.ops[index], part)
            left = part if part == NEXT_ROW else None  # other parts have been cut out
            known = round(layer_cycles(*self._cut[index, part], name, self.core, left, reads=self.reads) or 0)
            self._known[index, name, part] = known
        return known

    def _calls(self, index: int, calls: Iterable[tuple[Extent, int]]) -> Cycles:
        """Return the total cycles of (part of the output, number of calls) of an op, for each of its usable kernels."""
        total, alike = [0] * len(self.usable[index]), self._alike[index]
        for part, count in calls:
            if (alike, part) not in self._once:
                self._once[alike, part] = tuple(self.once(alike, kernel.name, part) for kernel in self.usable[index])
            total = [sum_ + count * cycles for sum_, cycles in zip(total, self._once[alike, part], strict=True)]
        return tuple(total)

    @cached_property
    def _alike(self) -> list[int]:
        """Return, for each op, the first op of equal kind, attributes, shapes and kernels, which takes as many cycles.

        The cycles of the whole op differ if the constants decide how long a kernel takes, such as filters that are outliers.
        """
        graph, first, alike = self.row_graph.graph, dict[Any, int](), list[int]()
        for index, (op, usable) in enumerate(zip(graph.ops, self.usable, strict=True)):
            tensors = [t and (t.shape, t.dtype, t.data is None) for t in (*graph.inputs_of(op), *graph.outputs_of(op))]
            kernels = [(kernel.name, kernel.scratch, self.once(index, kernel.name)) for kernel in usable]
            alike.append(first.setdefault(repr((op.kind, sorted(op.attrs.items()), tensors, kernels)), index))
        return alike

    @cached_property
    def usable(self) -> list[list[Kernel]]:
        """Return, for each op, the kernels that read the same rows as the portable one; empty if it cannot be fused."""
        row_graph, usable = self.row_graph, list[list[Kernel]]()
        for index, reads in enumerate(row_graph.accesses):
            op, sums = row_graph.graph.ops[index], row_graph.accumulator_bytes[index]
            alike = [
                kernel
                for number, kernel in enumerate(self.kernels[index])
                if reads is not None and (number == 0 or self._reads_alike(op, kernel, sums))
            ]
            usable.append(alike)
        return usable

    def _reads_alike(self, op: Op, kernel: Kernel, sums: int) -> bool:
        """Return whether a kernel reads the same rows as the op's portable kernel, which has `sums` accumulator bytes."""
        row = BY_NAME[kernel.name]
        return row.sums(self.row_graph.graph, op) == sums and (sums > 0 or row.has_part)

    def by_rows(self, index: int) -> Cycles:
        """Return the cycles of a row of an untiled op, of all rows if it accumulates them, for each usable kernel."""
        row_graph = self.row_graph
        if row_graph.accumulator_bytes[index]:
            return self._calls(index, accumulating_calls(row_graph, index))
        return self._calls(index, [((1, row_graph.graph.output(row_graph.graph.ops[index]).shape[2]), 1)])

    def tile_cost(self, tiles: Sequence[Tile], sizes: Sequence[int], key: CostKey) -> TileCost:
        """Return the cost of a tile candidate. `tiles` are all candidates, `sizes` the bytes of their buffers."""
        number, cols, rows = key
        tile, size = tiles[number], sizes[number]
        if cols != tile.cols:
            tile = replace(tile, cols=cols)
            size = tile_buffer_bytes(self.row_graph, tile)
        down, across = self._lengths_of(tile, 0, tile.rows, None if rows < 0 else rows), self._lengths_of(tile, 1, cols, None)
        cycles = list[Cycles]()
        for index in tile.ops:  # tiles that share their last ops share these
            part = self._alike[index], down[index], across[index]
            if part not in self._within:
                self._within[part] = self._calls(index, _calls_of(down[index], across[index]))
            cycles.append(self._within[part])
        return size, tuple(cycles)

    def _lengths_of(self, tile: Tile, axis: int, step: int, rows: int | None) -> dict[int, Lengths]:
        known: dict[Any, dict[int, Lengths]] = self.row_graph.known_lengths
        key = tile.ops, axis, step, rows, tile.cached
        if key not in known:
            spans = tile_spans(self.row_graph, tile, axis, rows)[0]
            known[key] = {index: tuple(lengths(of_op)) for index, of_op in spans.items()}
        return known[key]


def _calls_of(down: Lengths, across: Lengths) -> Iterator[tuple[Extent, int]]:
    return (((height, width), iterations * blocks) for height, iterations in down for width, blocks in across)
