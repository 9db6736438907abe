"""Enumerate every plan of a small network from layouts and row schedules alone, without the planner's search.

A point is (bytes, cycles, recomputed MACs) of a path of unfused ops and fused stages, with tiles of any size and any kernels.
`Network.points` returns the Pareto-optimal points of all paths, or of the planner's space described in docs/ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple

from tinyweave.ir import Graph
from tinyweave.kernels.layer_cycles import layer_cycles
from tinyweave.kernels.table import BY_NAME, variant_for
from tinyweave.ops import macs_per_op
from tinyweave.planning import Tile, check
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.assemble import lay_out, place_layout, unfused_stages
from tinyweave.planning.fuse.row_access import StreamedIO
from tinyweave.planning.fuse.row_schedule import plan_macs
from tinyweave.planning.kernel_choice import PORTABLE, KernelRule, variants_in
from tinyweave.planning.kernels.cycles import kernel_calls
from tinyweave.planning.place.place import place
from tinyweave.planning.plan import tiles_name

HEIGHTS = (1, 2, 4, 8)  # tile heights in rows
LONGEST_TILE = 6  # in ops
WORD = 4  # bytes; tiles are word-aligned
NEVER = 1 << 60
ALSO = ("", "flash_heavy", "lean", "copying")  # kernels that the search may use beside portable ones

Point = tuple[int, int, int]


class Segment(NamedTuple):
    """A fused stage or an unfused op, with a choice of tiles."""

    untiled_bytes: int  # RAM of its step without tile buffer and scratch
    tile_bytes: int
    recomputed_macs: int
    calls: list[tuple[int, tuple[int, int] | None, int]]  # (op, part of its output, number of calls)


class Option(NamedTuple):
    """A stage that ends at the step `end`, with tiles and kernels. is_in_space: whether the planner considers it."""

    end: int
    bytes: int
    cycles: int
    recomputed_macs: int
    is_in_space: bool


@dataclass(frozen=True)
class Network:
    """A graph in an order of its ops, and the core whose kernels are tried besides the portable ones."""

    graph: Graph
    order: tuple[int, ...]
    core: str
    streamed_inputs: tuple[str, ...] = ()

    def points(self, *, all_of_them: bool) -> set[Point]:
        """Return the Pareto-optimal points of all paths, or of those that the planner considers."""
        reached: list[set[Point]] = [{(0, 0, 0)}, *(set() for _ in self.order)]
        for begin, options in enumerate(self._options()):
            able = [option for option in options if all_of_them or option.is_in_space]
            for (most, cycles, macs), option in product(_best(reached[begin]), able):
                reached[option.end].add((max(most, option.bytes), cycles + option.cycles, macs + option.recomputed_macs))
        return _best(reached[-1])

    def _options(self) -> list[list[Option]]:
        """Return, for each step, the fused stages that begin there and the unfused op."""
        steps, options = len(self.order), list[list[Option]]()
        singles = [list(self._singles(step)) for step in range(steps)]
        alone = [min((single.bytes for single in of_step), default=NEVER) for of_step in singles]
        for begin in range(steps):
            options.append(singles[begin])
            for end in range(begin + 2, steps + 1):
                options[-1] += self._stages(begin, end, max(alone[begin:end]))
        return options

    def _singles(self, step: int) -> Iterator[Option]:
        """Yield an unfused op with each of its kernels; nothing if it would have to read a streamed input."""
        index = self.order[step]
        for name, kernels in self._kernels(index).items():
            segment = self._segment(step, step + 1, kernels=kernels)
            if segment is not None:
                yield Option(
                    step + 1,
                    segment.untiled_bytes + self._scratch(index, name),
                    self._cycles(index, name, segment),
                    0,
                    is_in_space=True,
                )

    def _stages(self, begin: int, end: int, alone: int) -> Iterator[Option]:
        """Yield a fused stage with all tilings and kernels. alone: RAM of its largest step unfused."""
        plain = self._segment(begin, end)
        if plain is None:
            return
        ops = self.order[begin:end]
        kernels = [
            [name for name, each in self._kernels(index).items() if _is_alike(self._segment(begin, end, kernels=each), plain)]
            for index in ops
        ]
        segments = {
            tiles: found for tiles in self._tilings(begin, end) if (found := self._segment(begin, end, tiles)) is not None
        }
        narrow = {tiles: found for tiles, found in segments.items() if _is_narrow(tiles, segments)}
        unbeaten = {tiles for tiles, one in narrow.items() if not any(_beats(x, one) for x in narrow.values() if x is not one)}
        for tiles, segment in segments.items():
            narrowest = tuple(replace(tile, cols=1) for tile in tiles)
            saves = narrowest in unbeaten and narrow[narrowest].untiled_bytes + narrow[narrowest].tile_bytes < alone
            for names in product(*kernels):
                needs = segment.untiled_bytes + segment.tile_bytes + max(map(self._scratch, ops, names))
                cycles = sum(self._cycles(index, name, segment) for index, name in zip(ops, names, strict=True))
                yield Option(end, needs, cycles, segment.recomputed_macs, is_in_space=saves and self._doubles(tiles))

    def _tilings(self, begin: int, end: int) -> Iterator[tuple[Tile, ...]]:
        """Yield all sets of disjoint tiles of a stage."""
        if begin >= end - 1:
            yield ()
            return
        yield from self._tilings(begin + 1, end)
        for after in range(begin + 2, min(begin + LONGEST_TILE, end) + 1):
            run = self.order[begin:after]
            shape = self.graph.output(self.graph.ops[run[-1]]).shape
            if len(shape) == 4:
                for cols, rows in product(range(1, shape[2] + 1), HEIGHTS):
                    yield from ((Tile(run, cols, rows), *others) for others in self._tilings(after, end))

    def _doubles(self, tiles: Sequence[Tile]) -> bool:
        """Return whether all tiles are 1, 2, 4, ... columns or the whole row wide."""
        widths = {tile: self.graph.output(self.graph.ops[tile.ops[-1]]).shape[2] for tile in tiles}
        return all(tile.cols in (1 << tile.cols.bit_length() - 1, width) for tile, width in widths.items())

    def _segment(self, begin: int, end: int, tiles: tuple[Tile, ...] = (), kernels: KernelRule = PORTABLE) -> Segment | None:
        """Return the segment of the steps [begin, end) with some tiles, or None if they cannot be fused."""
        order, shared = self.order, shared_in(self.graph, self.order, parts=False)
        stages = [*unfused_stages(order[:begin]), tuple(order[begin:end]), *unfused_stages(order[end:])]
        try:
            streams = StreamedIO(self.streamed_inputs)
            layout = lay_out(self.graph, stages, shared, streams=streams, tiles=tiles, kernels=kernels)
        except ValueError:
            return None
        alive = {buffer.name: buffer for buffer in layout.buffers if buffer.start <= begin < buffer.end}
        rules = {pair: least for pair, least in layout.rules.items() if alive.keys() >= set(pair)}
        tiled = alive.get(tiles_name(self.graph.ops[order[end - 1]].name))
        area = tiled.bytes if tiled else 0
        words = -(-area // WORD) * WORD
        scratch = max(self._scratch(index, layout.row_graph.variants[index]) for index in order[begin:end])
        plan = check(place_layout(layout, moves=False, tries=0)[0])
        done, usual = plan_macs(plan), macs_per_op(self.graph, clipped=True)
        macs = sum(done[index] - usual[index] for index in order[begin:end]) if tiles else 0
        calls = [call for call in kernel_calls(plan) if call[0] in order[begin:end]]
        return Segment(place(list(alive.values()), rules, tries=0).lower_bound - scratch - area, words, macs, calls)

    def _kernels(self, index: int) -> dict[str, KernelRule]:
        """Return kernel of an op -> the kernel set that gives this kernel to this op and portable ones to the others."""
        op, shared = self.graph.ops[index], shared_in(self.graph, self.order, parts=False)
        others = frozenset((other.name, "") for other in self.graph.ops if other is not op)
        rows = (variant_for(self.graph, op, self.core, also) for also in ALSO)
        each = (PORTABLE, *(KernelRule(self.core, others | {(op.name, row.name)}) for row in rows))
        return {variants_in(self.graph, shared, kernels)[index]: kernels for kernels in reversed(each)}

    def _scratch(self, index: int, name: str) -> int:
        return BY_NAME[name].scratch(self.graph, self.graph.ops[index]) if name else 0

    def _cycles(self, index: int, name: str, segment: Segment) -> int:
        op = self.graph.ops[index]
        calls = [(part, count) for called, part, count in segment.calls if called == index]
        return sum(count * round(layer_cycles(self.graph, op, name, self.core, part) or 0) for part, count in calls)


def _is_alike(one: Segment | None, other: Segment) -> bool:
    """Return whether a stage needs the same bytes and recomputation with both kernel choices."""
    return one is not None and one[:3] == other[:3]


def _is_narrow(tiles: Sequence[Tile], segments: Mapping[tuple[Tile, ...], Segment]) -> bool:
    """Return whether tiles are one column wide, and taller than a row only if each doubling of height saves recomputation."""
    for tile in tiles:
        heights = [segments.get((replace(tile, rows=rows),)) for rows in HEIGHTS[: HEIGHTS.index(tile.rows) + 1]]
        work = [NEVER if segment is None else segment.recomputed_macs for segment in heights]
        if tile.cols > 1 or any(more >= before for before, more in pairwise(work)):
            return False
    return True


def _beats(one: Segment, other: Segment) -> bool:
    """Return whether a tiling is at least as good as another in untiled bytes, tile buffer and recomputation."""
    return (
        one.untiled_bytes <= other.untiled_bytes
        and one.tile_bytes <= other.tile_bytes
        and one.recomputed_macs <= other.recomputed_macs
    )


def _best(points: set[Point]) -> set[Point]:
    """Return the Pareto-optimal points."""
    kept = list[Point]()
    for point in sorted(points):
        if not any(cycles <= point[1] and macs <= point[2] for _, cycles, macs in kept):
            kept.append(point)
    return set(kept)
