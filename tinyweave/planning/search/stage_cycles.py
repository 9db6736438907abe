"""The fewest cycles of ops and tiles in a fused stage, as a function of the scratch size.

All kernels of a stage share one scratch buffer, so the more scratch a stage has, the faster kernels its ops may use.
`scratch_sizes` are the sizes that some kernel needs. Arrays of the type PerScratchSize have an entry per such size: the cycles
if each op has its fastest kernel that needs no more scratch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...ir import Graph, Op
from ...kernels.layer_cycles import NEXT_ROW, Extent, FlashReads, cut, layer_cycles
from ...kernels.table import BY_NAME
from ..fuse.row_access import RowGraph, tile_spans
from ..kernels.cycles import accumulating_calls, lengths
from ..plan import Tile

PerScratchSize = NDArray[np.int64]
Cycles = tuple[int, ...]  # of an op, for each usable kernel
Lengths = tuple[tuple[int, int], ...]  # (rows or columns per call, number of such calls)
# graph -> (core, Flash) -> (op, kernel, part of its output) -> cycles of a call; shared by all path searches of a graph
_KNOWN: WeakKeyDictionary[Graph, dict[tuple[str, FlashReads | None], dict[tuple[int, str, Extent], int]]] = WeakKeyDictionary()
UNUSABLE = 1 << 40  # cycles if no kernel of the op needs so little scratch


class Kernel(NamedTuple):
    """A kernel that an op may use: its name, its scratch bytes, and the RAM of the op's step if the op runs unfused."""

    name: str
    scratch: int
    unfused_bytes: int


class StageCycles:
    """The kernels that each op of a graph may use, and their estimated cycles on a core, cached.

    Args:
        row_graph: the network, with the rows that each op reads.
        kernels: the kernels that each op may use, the portable one first.
        core: the core; if "", all cycles are 0.
        reads: wait states of Flash; None for zero wait states.
    """

    def __init__(
        self, row_graph: RowGraph, kernels: Sequence[Sequence[Kernel]], core: str, reads: FlashReads | None = None
    ) -> None:
        """List the scratch sizes of all kernels, and share the cached cycles of instances for the same graph and core."""
        self.row_graph, self.kernels, self.core, self.reads = row_graph, kernels, core, reads
        self.scratch_sizes = np.array(sorted({0, *(kernel.scratch for of_op in kernels for kernel in of_op)}), np.int64)
        self._known = _KNOWN.setdefault(row_graph.graph, {}).setdefault((core, reads), {})
        self._cut: dict[tuple[int, Extent], tuple[Graph, Op]] = {}
        self._once: dict[tuple[int, Extent], Cycles] = {}
        self._within: dict[tuple[int, Lengths, Lengths], PerScratchSize] = {}
        self._untiled: dict[tuple[int, int | None], PerScratchSize] = {}
        self._tiles: dict[tuple[Tile, int | None], PerScratchSize] = {}

    def once(self, index: int, name: str, part: Extent = None) -> int:
        """Return the cycles of one call of kernel `name` that computes `part` of an op's output; 0 if unknown.

        `part` is (rows, columns), None for the whole output, or NEXT_ROW.
        """
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
        """Return the total cycles of some kernel calls of an op, for each of its usable kernels.

        `calls` are (part of the output, number of calls that compute such a part).
        """
        total, alike = [0] * len(self.usable[index]), self._alike[index]
        for part, count in calls:
            if (alike, part) not in self._once:
                self._once[alike, part] = tuple(self.once(alike, kernel.name, part) for kernel in self.usable[index])
            total = [sum_ + count * cycles for sum_, cycles in zip(total, self._once[alike, part], strict=True)]
        return tuple(total)

    @cached_property
    def _alike(self) -> list[int]:
        """Return, for each op, the first op of equal kind, attributes, shapes and kernels, which takes as many cycles."""
        graph, first, alike = self.row_graph.graph, dict[Any, int](), list[int]()
        for index, (op, usable) in enumerate(zip(graph.ops, self.usable, strict=True)):
            tensors = [t and (t.shape, t.dtype, t.data is None) for t in (*graph.inputs_of(op), *graph.outputs_of(op))]
            kernels = [(kernel.name, kernel.scratch) for kernel in usable]
            alike.append(first.setdefault(repr((op.kind, sorted(op.attrs.items()), tensors, kernels)), index))
        return alike

    @cached_property
    def usable(self) -> list[list[Kernel]]:
        """Return, for each op, the kernels that it may use in a fused stage: they read the same rows as the portable kernel.

        The list of an op that cannot be fused is empty.
        """
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
        """Return whether a kernel reads the same rows as the op's portable kernel.

        `sums` are the accumulator bytes of the portable kernel, 0 if it does not accumulate row by row.
        """
        row = BY_NAME[kernel.name]
        return row.sums(self.row_graph.graph, op) == sums and (sums > 0 or row.has_part)

    def by_rows(self, index: int, rows: int | None = None) -> Cycles:
        """Return the cycles of an op that runs row by row outside all tiles, for each of its usable kernels.

        `rows` is the number of rows to compute, None for all.
        """
        row_graph = self.row_graph
        if row_graph.accumulator_bytes[index]:
            return self._calls(index, accumulating_calls(row_graph, index))
        cols = row_graph.graph.output(row_graph.graph.ops[index]).shape[2]
        return self._calls(index, [((1, cols), rows or row_graph.rows[index])])

    def in_tile(self, tile: Tile, rows: int | None = None) -> dict[int, Cycles]:
        """Return the cycles of each op of a tile: op -> cycles for each of its usable kernels.

        `rows` is how many rows of the last op's output are computed in total, None for all.
        """
        down, across = self._sizes(tile, rows)
        return {index: self._calls(index, _calls_of(down[index], across[index])) for index in tile.ops}

    def _sizes(self, tile: Tile, rows: int | None) -> tuple[dict[int, Lengths], dict[int, Lengths]]:
        """Return the heights and the widths of the parts of its output that each op of a tile computes per kernel call.

        `rows` is how many output rows of the last op are computed in total, None for all.

        Returns:
            op -> heights, as a tuple of (rows, number of iterations); op -> widths, as a tuple of (columns, number of blocks).
        """
        return self._lengths_of(tile, 0, tile.rows, rows), self._lengths_of(tile, 1, tile.cols, None)

    def _lengths_of(self, tile: Tile, axis: int, step: int, rows: int | None) -> dict[int, Lengths]:
        known: dict[Any, dict[int, Lengths]] = self.row_graph.known_lengths
        key = tile.ops, axis, step, rows, tile.cached
        if key not in known:
            spans = tile_spans(self.row_graph, tile, axis, rows)[0]
            known[key] = {index: tuple(lengths(of_op)) for index, of_op in spans.items()}
        return known[key]

    def untiled(self, index: int, rows: int | None = None) -> PerScratchSize:
        """Return the fewest cycles of an op that runs row by row outside all tiles, for each limit on scratch bytes.

        The array has an entry per size in `scratch_sizes`; more scratch permits faster kernels. `rows` is the number of rows to
        compute, None for all.
        """
        if (index, rows) not in self._untiled:
            self._untiled[index, rows] = self._per_scratch_size(index, self.by_rows(index, rows))
        return self._untiled[index, rows]

    def tiled(self, tile: Tile, rows: int | None = None) -> PerScratchSize:
        """Return the fewest cycles of all ops of a tile together, for each limit on scratch bytes.

        The array has an entry per size in `scratch_sizes`; more scratch permits faster kernels. `rows` is how many rows of the
        last op's output are computed in total, None for all.
        """
        if not self.core:
            return np.zeros(len(self.scratch_sizes), np.int64)
        if (tile, rows) not in self._tiles:
            total, (down, across) = np.zeros(len(self.scratch_sizes), np.int64), self._sizes(tile, rows)
            for index in tile.ops:  # tiles that share their last ops share these sums
                key = self._alike[index], down[index], across[index]
                if key not in self._within:
                    self._within[key] = self._per_scratch_size(index, self._calls(index, _calls_of(*key[1:])))
                total += self._within[key]
            self._tiles[tile, rows] = total
        return self._tiles[tile, rows]

    def _per_scratch_size(self, index: int, cycles: Cycles) -> PerScratchSize:
        by_scratch, at = self._by_scratch[index]
        fewest = np.minimum.accumulate([UNUSABLE, *(cycles[number] for number in by_scratch)])
        per_level: PerScratchSize = fewest[at]
        return per_level

    @cached_property
    def _by_scratch(self) -> list[tuple[list[int], NDArray[np.int64]]]:
        """Return, for each op, its usable kernels sorted by scratch, and for each scratch size how many of them fit."""
        orders = [sorted(range(len(of_op)), key=[kernel.scratch for kernel in of_op].__getitem__) for of_op in self.usable]
        return [
            (order, np.searchsorted([of_op[number].scratch for number in order], self.scratch_sizes, side="right"))
            for order, of_op in zip(orders, self.usable, strict=True)
        ]

    def fastest(self, index: int, cycles: Cycles, scratch: int) -> str:
        """Return the name of the op's fastest kernel that needs at most `scratch` bytes; ties are broken by less scratch.

        `cycles` has an entry per usable kernel of the op.
        """
        kernels = zip(self.usable[index], cycles, strict=True)
        return min((taken, kernel.scratch, kernel.name) for kernel, taken in kernels if kernel.scratch <= scratch)[2]


def _calls_of(down: Lengths, across: Lengths) -> Iterator[tuple[Extent, int]]:
    return (((height, width), iterations * blocks) for height, iterations in down for width, blocks in across)
