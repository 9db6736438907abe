"""Every plan of a small network, worked out from layouts and schedules alone, without the search that chooses among them.

In: a graph, an order, a core. Out: the points (bytes, cycles, multiply-accumulates done again) of all cuts into ops by
themselves and stages, with tiles of all sizes and all kernels; or of those that docs/ARCHITECTURE.md says that the planner
chooses from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple

from tinyweave.ir import Graph
from tinyweave.kernels.layer_cycles import layer_cycles
from tinyweave.kernels.table import BY_NAME
from tinyweave.ops import macs_per_op
from tinyweave.planning import Tile
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.assemble import draft, finish, lay_out, one_by_one
from tinyweave.planning.fuse.schedule import plan_macs
from tinyweave.planning.kernel_choice import FOR_ALL, Kernels, variants_in
from tinyweave.planning.kernels.cycles import kernel_calls
from tinyweave.planning.place.place import lower_bound
from tinyweave.planning.plan import tiles_name

HEIGHTS = (1, 2, 4, 8)  # rows of a tile
LONGEST_TILE = 6  # ops
WORD = 4  # bytes; tiles lie in whole ones
NEVER = 1 << 60

Point = tuple[int, int, int]


class Segment(NamedTuple):
    """Ops that run together as one stage, with some tiles. rest: the bytes of its step but for its tiles; area: theirs; again:
    multiply-accumulates that the tiles do again; calls: (op, part of its output, how often)."""

    rest: int
    area: int
    again: int
    calls: list[tuple[int, tuple[int, int] | None, int]]


class Option(NamedTuple):
    """The ops up to the step `end` as one stage. is_in_space: whether the planner chooses from it."""

    end: int
    bytes: int
    cycles: int
    again: int
    is_in_space: bool


@dataclass(frozen=True)
class Network:
    """A graph in an order, with the portable kernels, those of a core, and those of the core that keep more constants."""

    graph: Graph
    order: tuple[int, ...]
    core: str
    streamed_inputs: tuple[str, ...] = ()

    def points(self, *, all_of_them: bool) -> set[Point]:
        """Return the points of all paths, or of those in the space."""
        reached: list[set[Point]] = [{(0, 0, 0)}, *(set() for _ in self.order)]
        for begin, options in enumerate(self._options()):
            able = [option for option in options if all_of_them or option.is_in_space]
            for (most, cycles, again), option in product(_best(reached[begin]), able):
                reached[option.end].add((max(most, option.bytes), cycles + option.cycles, again + option.again))
        return _best(reached[-1])

    def _options(self) -> list[list[Option]]:
        """Return per step the stages that begin there, and the op by itself."""
        steps, options = len(self.order), list[list[Option]]()
        singles = [list(self._singles(step)) for step in range(steps)]
        alone = [min((single.bytes for single in of_step), default=NEVER) for of_step in singles]
        for begin in range(steps):
            options.append(singles[begin])
            for end in range(begin + 2, steps + 1):
                options[-1] += self._stages(begin, end, max(alone[begin:end]))
        return options

    def _singles(self, step: int) -> Iterator[Option]:
        """Yield an op by itself with each of its kernels; none where it cannot take what comes by rows."""
        index = self.order[step]
        for name, kernels in self._kernels(index).items():
            segment = self._segment(step, step + 1, kernels=kernels)
            if segment is not None:
                yield Option(
                    step + 1, segment.rest + self._scratch(index, name), self._cycles(index, name, segment), 0, is_in_space=True
                )

    def _stages(self, begin: int, end: int, alone: int) -> Iterator[Option]:
        """Yield one stage with all its tiles and kernels; alone: bytes of its steps one by one."""
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
            saves = narrowest in unbeaten and narrow[narrowest].rest + narrow[narrowest].area < alone
            for names in product(*kernels):
                needs = segment.rest + segment.area + max(map(self._scratch, ops, names))
                cycles = sum(self._cycles(index, name, segment) for index, name in zip(ops, names, strict=True))
                yield Option(end, needs, cycles, segment.again, is_in_space=saves and self._doubles(tiles))

    def _tilings(self, begin: int, end: int) -> Iterator[tuple[Tile, ...]]:
        """Yield all sets of tiles of the ops of a stage: none shares an op with another."""
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
        """Whether all tiles have 1, 2, 4, ... columns or all."""
        widths = {tile: self.graph.output(self.graph.ops[tile.ops[-1]]).shape[2] for tile in tiles}
        return all(tile.cols in (1 << tile.cols.bit_length() - 1, width) for tile, width in widths.items())

    def _segment(self, begin: int, end: int, tiles: tuple[Tile, ...] = (), kernels: Kernels = FOR_ALL) -> Segment | None:
        """Return what a stage needs besides its scratch, the other ops one by one; None where it cannot run so."""
        order, shared = self.order, shared_in(self.graph, self.order, parts=False)
        stages = [*one_by_one(order[:begin]), tuple(order[begin:end]), *one_by_one(order[end:])]
        try:
            layout = lay_out(
                self.graph, stages, shared, "sram", tiles=tiles, kernels=kernels, streamed_inputs=self.streamed_inputs
            )
        except ValueError:
            return None
        alive = {buffer.name: buffer for buffer in layout.buffers if buffer.start <= begin < buffer.end}
        rules = [rule for rule in layout.rules if {rule.lower, rule.upper} <= alive.keys()]
        tiled = alive.get(tiles_name(self.graph.ops[order[end - 1]].name))
        area = tiled.bytes if tiled else 0
        words = -(-area // WORD) * WORD
        scratch = max(self._scratch(index, layout.row_graph.variants[index]) for index in order[begin:end])
        plan = finish(draft(layout, moves=False, tries=0))
        done, usual = plan_macs(plan), macs_per_op(self.graph, clipped=True)
        again = sum(done[index] - usual[index] for index in order[begin:end]) if tiles else 0
        calls = [call for call in kernel_calls(plan) if call[0] in order[begin:end]]
        return Segment(lower_bound(list(alive.values()), rules) - scratch - area, words, again, calls)

    def _kernels(self, index: int) -> dict[str, Kernels]:
        """Return the kernels that an op may have, and with what only it has them."""
        op, shared = self.graph.ops[index], shared_in(self.graph, self.order, parts=False)
        others = frozenset(other.name for other in self.graph.ops if other is not op)
        alone = frozenset({op.name})
        each = (FOR_ALL, Kernels(self.core, others), Kernels(self.core, others, alone), Kernels(self.core, others, lean=alone))
        return {variants_in(self.graph, shared, kernels)[index]: kernels for kernels in reversed(each)}

    def _scratch(self, index: int, name: str) -> int:
        return BY_NAME[name].scratch(self.graph, self.graph.ops[index]) if name else 0

    def _cycles(self, index: int, name: str, segment: Segment) -> int:
        op = self.graph.ops[index]
        calls = [(part, count) for called, part, count in segment.calls if called == index]
        return sum(count * round(layer_cycles(self.graph, op, name, self.core, part) or 0) for part, count in calls)


def _is_alike(one: Segment | None, other: Segment) -> bool:
    """Whether a stage runs with another kernel as with the portable ones."""
    return one is not None and one[:3] == other[:3]


def _is_narrow(tiles: Sequence[Tile], segments: Mapping[tuple[Tile, ...], Segment]) -> bool:
    """Whether tiles are of one column, and taller only where each doubling of their rows saves work."""
    for tile in tiles:
        heights = [segments.get((replace(tile, rows=rows),)) for rows in HEIGHTS[: HEIGHTS.index(tile.rows) + 1]]
        work = [NEVER if segment is None else segment.again for segment in heights]
        if tile.cols > 1 or any(more >= before for before, more in pairwise(work)):
            return False
    return True


def _beats(one: Segment, other: Segment) -> bool:
    """Whether tiles leave no more, are no larger and work no more than others."""
    return one.rest <= other.rest and one.area <= other.area and one.again <= other.again


def _best(points: set[Point]) -> set[Point]:
    """Return the points of which no other has as little of everything."""
    kept = list[Point]()
    for point in sorted(points):
        if not any(cycles <= point[1] and again <= point[2] for _, cycles, again in kept):
            kept.append(point)
    return set(kept)
