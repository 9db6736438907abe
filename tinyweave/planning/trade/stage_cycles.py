"""The fewest cycles of ops in a stage, by the scratch that their kernels may have.

In: a graph as rows, the kernels that each op may have, a core. Out: arrays over the levels of scratch, which are all sizes that
some kernel needs: the cycles of an op row by row, or of a tile, where each op has its fastest kernel of no more scratch. The
kernels of a stage share one area of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...kernels.layer_cycles import Extent, cut, layer_cycles
from ...kernels.table import BY_NAME
from ..fuse.access import RowGraph, accesses, parts
from ..kernels.cycles import lengths
from ..plan import Tile

ByLevel = NDArray[np.int64]
TOO_MANY = 1 << 40  # cycles, where an op has no kernel with so little scratch


class Kernel(NamedTuple):
    """A kernel that an op may have. alone: bytes of the op's step where it runs by itself with it, its scratch among them."""

    name: str
    scratch: int
    alone: int


class StageCycles:
    """Cycles, whole numbers, of the ops of a graph; what was worked out is kept. kernels: per op, the portable one first. core:
    the one whose cycles are counted; "" for none, where all take 0."""

    def __init__(self, row_graph: RowGraph, kernels: Sequence[Sequence[Kernel]], core: str) -> None:
        self.row_graph, self.kernels, self.core = row_graph, kernels, core
        self.levels = np.array(sorted({0, *(kernel.scratch for of_op in kernels for kernel in of_op)}), np.int64)
        self._calls: dict[tuple[int, str, Extent], int] = {}
        self._parts: dict[tuple[int, Extent], tuple[Graph, Op]] = {}
        self._lengths: dict[Any, dict[int, list[tuple[int, int]]]] = {}
        self._untiled: dict[tuple[int, int | None], ByLevel] = {}
        self._tiles: dict[tuple[Tile, int | None], ByLevel] = {}

    def once(self, index: int, name: str, part: Extent = None) -> int:
        """Return the cycles of one call of an op's kernel for a part of its output; 0 where they are not known."""
        if not self.core:
            return 0
        known = self._calls.get((index, name, part))
        if known is None:
            if (index, part) not in self._parts:
                self._parts[index, part] = cut(self.row_graph.graph, self.row_graph.graph.ops[index], part)
            known = round(layer_cycles(*self._parts[index, part], name, self.core) or 0)
            self._calls[index, name, part] = known
        return known

    @cached_property
    def usable(self) -> list[list[Kernel]]:
        """Return per op the kernels that read and write in a stage as the portable one does; none where no stage takes it."""
        row_graph, usable = self.row_graph, list[list[Kernel]]()
        for index, reads in enumerate(row_graph.accesses):
            op = row_graph.graph.ops[index]
            last = op.outputs[0] in row_graph.streamed_outputs
            usable.append(
                [
                    kernel
                    for number, kernel in enumerate(self.kernels[index])
                    if number == 0
                    or (
                        accesses(row_graph.graph, op, kernel.name, last=last) == reads
                        and BY_NAME[kernel.name].sums(row_graph.graph, op) == row_graph.sums[index]
                    )
                ]
                if reads is not None
                else []
            )
        return usable

    def by_rows(self, index: int, rows: int | None = None) -> dict[str, int]:
        """Return the cycles of an op that runs row by row, by kernel. rows: those that are needed, if not all."""
        row_graph = self.row_graph
        if row_graph.sums[index]:
            return {kernel.name: self.once(index, kernel.name) for kernel in self.usable[index]}
        count, cols = rows or row_graph.steps[index], row_graph.graph.output(row_graph.graph.ops[index]).shape[2]
        return {kernel.name: count * self.once(index, kernel.name, (1, cols)) for kernel in self.usable[index]}

    def in_tile(self, tile: Tile, rows: int | None = None) -> dict[int, dict[str, int]]:
        """Return per op of a tile its cycles by kernel. rows: those of the last op that are needed, if not all."""
        down = self._lengths_of(tile, 0, tile.rows, rows)
        across = self._lengths_of(tile, 1, tile.cols, None)
        calls = {
            index: [
                ((height, width), iterations * blocks) for height, iterations in down[index] for width, blocks in across[index]
            ]
            for index in tile.ops
        }
        return {
            index: {
                kernel.name: sum(count * self.once(index, kernel.name, part) for part, count in of_op)
                for kernel in self.usable[index]
            }
            for index, of_op in calls.items()
        }

    def _lengths_of(self, tile: Tile, axis: int, step: int, rows: int | None) -> dict[int, list[tuple[int, int]]]:
        """Return per op of a tile how many rows (or columns) its calls compute, and how many compute so many."""
        key = tile.ops, axis, step, rows, tile.cached
        if key not in self._lengths:
            self._lengths[key] = {index: lengths(spans) for index, spans in parts(self.row_graph, tile, axis, rows)[0].items()}
        return self._lengths[key]

    def untiled(self, index: int, rows: int | None = None) -> ByLevel:
        """Return the fewest cycles of an op that runs row by row, per level. rows: as of `by_rows`."""
        if (index, rows) not in self._untiled:
            self._untiled[index, rows] = self._per_level(index, self.by_rows(index, rows))
        return self._untiled[index, rows]

    def tiled(self, tile: Tile, rows: int | None = None) -> ByLevel:
        """Return the fewest cycles of all ops of a tile, per level."""
        if not self.core:
            return np.zeros(len(self.levels), np.int64)
        if (tile, rows) not in self._tiles:
            of_ops = (self._per_level(index, cycles) for index, cycles in self.in_tile(tile, rows).items())
            self._tiles[tile, rows] = sum(of_ops, start=np.zeros(len(self.levels), np.int64))
        return self._tiles[tile, rows]

    def _per_level(self, index: int, cycles: Mapping[str, int]) -> ByLevel:
        kernels = sorted(self.usable[index], key=lambda kernel: kernel.scratch)
        fewest = np.minimum.accumulate([TOO_MANY, *(cycles[kernel.name] for kernel in kernels)])
        per_level: ByLevel = fewest[np.searchsorted([kernel.scratch for kernel in kernels], self.levels, side="right")]
        return per_level

    def fastest(self, index: int, cycles: Mapping[str, int], scratch: int) -> str:
        """Return the name of an op's fastest kernel with no more scratch, of equally fast ones that with least."""
        usable = (kernel for kernel in self.usable[index] if kernel.scratch <= scratch)
        return min(usable, key=lambda kernel: (cycles[kernel.name], kernel.scratch)).name
