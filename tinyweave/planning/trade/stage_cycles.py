"""The fewest cycles of ops in a stage, by the scratch that their kernels may have.

In: a graph as rows, the kernels that each op may have, a core. Out: arrays over the levels of scratch, which are all sizes that
some kernel needs: the cycles of an op row by row, or of a tile, where each op has its fastest kernel of no more scratch. The
kernels of a stage share one area of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...kernels.layer_cycles import Extent, FlashReads, cut, layer_cycles
from ...kernels.table import BY_NAME
from ..fuse.access import RowGraph, parts
from ..kernels.cycles import lengths
from ..plan import Tile

ByLevel = NDArray[np.int64]
Cycles = tuple[int, ...]  # of an op, by usable kernel
Lengths = tuple[tuple[int, int], ...]  # how many rows (or columns) some calls compute, and how many of them there are
# by graph, core and Flash the cycles of a call of an op's kernel for a part of its output: a graph's spaces ask for the same
_KNOWN: WeakKeyDictionary[Graph, dict[tuple[str, FlashReads | None], dict[tuple[int, str, Extent], int]]] = WeakKeyDictionary()
TOO_MANY = 1 << 40  # cycles, where an op has no kernel with so little scratch


class Kernel(NamedTuple):
    """A kernel that an op may have. alone: bytes of the op's step where it runs by itself with it, its scratch among them."""

    name: str
    scratch: int
    alone: int


class StageCycles:
    """Cycles, whole numbers, of the ops of a graph; what was worked out is kept. kernels: per op, the portable one first. core:
    the one whose cycles are counted; "" for none, where all take 0. reads: how its device reads Flash; None: at once."""

    def __init__(
        self, row_graph: RowGraph, kernels: Sequence[Sequence[Kernel]], core: str, reads: FlashReads | None = None
    ) -> None:
        self.row_graph, self.kernels, self.core, self.reads = row_graph, kernels, core, reads
        self.levels = np.array(sorted({0, *(kernel.scratch for of_op in kernels for kernel in of_op)}), np.int64)
        self._known = _KNOWN.setdefault(row_graph.graph, {}).setdefault((core, reads), {})
        self._cut: dict[tuple[int, Extent], tuple[Graph, Op]] = {}
        self._once: dict[tuple[int, Extent], Cycles] = {}
        self._lengths: dict[Any, dict[int, Lengths]] = {}
        self._within: dict[tuple[int, Lengths, Lengths], ByLevel] = {}
        self._untiled: dict[tuple[int, int | None], ByLevel] = {}
        self._tiles: dict[tuple[Tile, int | None], ByLevel] = {}

    def once(self, index: int, name: str, part: Extent = None) -> int:
        """Return the cycles of one call of an op's kernel for a part of its output; 0 where they are not known."""
        if not self.core:
            return 0
        known = self._known.get((index, name, part))
        if known is None:
            if (index, part) not in self._cut:
                self._cut[index, part] = cut(self.row_graph.graph, self.row_graph.graph.ops[index], part)
            known = round(layer_cycles(*self._cut[index, part], name, self.core, reads=self.reads) or 0)
            self._known[index, name, part] = known
        return known

    def _calls(self, index: int, calls: Iterable[tuple[Extent, int]]) -> Cycles:
        """Return the cycles of calls of an op for parts of its output, each so often."""
        total, alike = [0] * len(self.usable[index]), self._alike[index]
        for part, count in calls:
            if (alike, part) not in self._once:
                self._once[alike, part] = tuple(self.once(alike, kernel.name, part) for kernel in self.usable[index])
            total = [upto + count * cycles for upto, cycles in zip(total, self._once[alike, part], strict=True)]
        return tuple(total)

    @cached_property
    def _alike(self) -> list[int]:
        """Return per op the first one of the same kind, attributes, shapes and kernels, which takes as many cycles."""
        graph, first, alike = self.row_graph.graph, dict[Any, int](), list[int]()
        for index, (op, usable) in enumerate(zip(graph.ops, self.usable, strict=True)):
            tensors = [t and (t.shape, t.dtype, t.data is None) for t in (*graph.inputs_of(op), *graph.outputs_of(op))]
            kernels = [(kernel.name, kernel.scratch) for kernel in usable]
            alike.append(first.setdefault(repr((op.kind, sorted(op.attrs.items()), tensors, kernels)), index))
        return alike

    @cached_property
    def usable(self) -> list[list[Kernel]]:
        """Return per op the kernels that read and write in a stage as the portable one does; none where no stage takes it."""
        row_graph, usable = self.row_graph, list[list[Kernel]]()
        for index, reads in enumerate(row_graph.accesses):
            op, sums = row_graph.graph.ops[index], row_graph.sums[index]
            alike = [
                kernel
                for number, kernel in enumerate(self.kernels[index])
                if reads is not None and (number == 0 or self._reads_alike(op, kernel, sums))
            ]
            usable.append(alike)
        return usable

    def _reads_alike(self, op: Op, kernel: Kernel, sums: int) -> bool:
        """Whether a kernel takes rows as the portable one does, which sums them up in so many bytes: see `accesses`."""
        row = BY_NAME[kernel.name]
        return row.sums(self.row_graph.graph, op) == sums and (sums > 0 or row.has_part)

    def by_rows(self, index: int, rows: int | None = None) -> Cycles:
        """Return the cycles of an op that runs row by row. rows: those that are needed, if not all."""
        row_graph = self.row_graph
        if row_graph.sums[index]:
            return self._calls(index, [(None, 1)])
        cols = row_graph.graph.output(row_graph.graph.ops[index]).shape[2]
        return self._calls(index, [((1, cols), rows or row_graph.steps[index])])

    def in_tile(self, tile: Tile, rows: int | None = None) -> dict[int, Cycles]:
        """Return the cycles of each op of a tile. rows: those of the last op that are needed, if not all."""
        down, across = self._sizes(tile, rows)
        return {index: self._calls(index, _calls_of(down[index], across[index])) for index in tile.ops}

    def _sizes(self, tile: Tile, rows: int | None) -> tuple[dict[int, Lengths], dict[int, Lengths]]:
        """Return per op of a tile the rows of its calls, and the columns."""
        return self._lengths_of(tile, 0, tile.rows, rows), self._lengths_of(tile, 1, tile.cols, None)

    def _lengths_of(self, tile: Tile, axis: int, step: int, rows: int | None) -> dict[int, Lengths]:
        key = tile.ops, axis, step, rows, tile.cached
        if key not in self._lengths:
            spans = parts(self.row_graph, tile, axis, rows)[0]
            self._lengths[key] = {index: tuple(lengths(of_op)) for index, of_op in spans.items()}
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
            total, (down, across) = np.zeros(len(self.levels), np.int64), self._sizes(tile, rows)
            for index in tile.ops:  # tiles with the same last ops have those compute the same parts
                key = self._alike[index], down[index], across[index]
                if key not in self._within:
                    self._within[key] = self._per_level(index, self._calls(index, _calls_of(*key[1:])))
                total += self._within[key]
            self._tiles[tile, rows] = total
        return self._tiles[tile, rows]

    def _per_level(self, index: int, cycles: Cycles) -> ByLevel:
        by_scratch, at = self._by_scratch[index]
        fewest = np.minimum.accumulate([TOO_MANY, *(cycles[number] for number in by_scratch)])
        per_level: ByLevel = fewest[at]
        return per_level

    @cached_property
    def _by_scratch(self) -> list[tuple[list[int], NDArray[np.int64]]]:
        """Return per op its usable kernels by rising scratch, and per level how many of them may have theirs."""
        orders = [sorted(range(len(of_op)), key=[kernel.scratch for kernel in of_op].__getitem__) for of_op in self.usable]
        return [
            (order, np.searchsorted([of_op[number].scratch for number in order], self.levels, side="right"))
            for order, of_op in zip(orders, self.usable, strict=True)
        ]

    def fastest(self, index: int, cycles: Cycles, scratch: int) -> str:
        """Return the name of an op's fastest kernel with no more scratch, of equally fast ones that with least."""
        kernels = zip(self.usable[index], cycles, strict=True)
        return min((taken, kernel.scratch, kernel.name) for kernel, taken in kernels if kernel.scratch <= scratch)[2]


def _calls_of(down: Lengths, across: Lengths) -> Iterator[tuple[Extent, int]]:
    return (((height, width), iterations * blocks) for height, iterations in down for width, blocks in across)
