"""The fastest path within so many bytes, against all paths of small networks with everything worked out."""

from __future__ import annotations

import random
from itertools import product

import pytest
from fuzz.generate import BY_ROW, random_network

from tinyweave.ir import Graph
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.fuse.stages import NEVER
from tinyweave.planning.kernel_choice import FOR_ALL, Kernels
from tinyweave.planning.schedules import Spaces
from tinyweave.planning.trade.space import Space
from tinyweave.planning.trade.spaces import WHOLE, space_of

SEEDS = range(30)
CORE = Kernels("cortex-m4")


def random_space(seed: int, budget: int) -> tuple[Graph, Space]:
    graph = random_network(seed, random.Random(seed).randint(3, 7), growers=BY_ROW, live=2)
    sources = Spaces(graph, "sram", WHOLE, [FOR_ALL, CORE], fast=False).of("best", None)
    order = sources[-1].space.order
    shared = shared_in(graph, order, parts=False)
    made = space_of(graph, order, shared, kernels=[FOR_ALL, CORE], budget=budget)
    return graph, made


def all_paths(space: Space) -> list[tuple[int, int, int]]:
    """Return (bytes, cycles, work done again) of every path: each stage with each of its trades, each op with each kernel."""
    stages, options = space.stages, dict[int, list[tuple[int, int, int, int]]]()
    for number, span in enumerate(stages.span.tolist()):
        space._work_out(number)
        for trade in space.trades[number]:
            bytes_, again = int(space.low[number]) + trade.bytes, int(stages.again[number])
            options.setdefault(int(stages.begin[span]), []).append((int(stages.end[span]), bytes_, trade.cycles, again))
    for single in space.singles:
        options.setdefault(single.step, []).append((single.step + 1, single.bytes, single.cycles, 0))
    reached = {0: {(0, 0, 0)}}
    for step in range(len(space.order)):
        for (most, cycles, again), (end, bytes_, more, work) in product(reached.get(step, ()), options.get(step, ())):
            reached.setdefault(end, set()).add((max(most, bytes_), cycles + more, again + work))
    return sorted(reached[len(space.order)])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("budget", [0, 2000, 20_000])
def test_no_path_is_faster_within_as_many_bytes(seed: int, budget: int) -> None:
    """Asked of a space of which nothing is worked out yet, from the most bytes down and from the fewest up."""
    _, known = random_space(seed, budget)
    every = [path for path in all_paths(known) if path[2] <= budget]
    limits = sorted({bytes_ for bytes_, _, _ in every})
    limits = [limits[0] - 1, *limits[:: max(len(limits) // 12, 1)], NEVER]
    for order in (limits, limits[::-1]):
        _, space = random_space(seed, budget)
        for limit in order:
            within = [cycles for bytes_, cycles, _ in every if bytes_ <= limit]
            found = space.fastest(limit, budget)
            assert (found is None) == (not within)
            if found is not None:
                assert found.bytes <= limit and found.cycles == min(within)


@pytest.mark.parametrize("seed", SEEDS[::3])
def test_of_equally_fast_paths_the_one_that_fuses_least_is_taken(seed: int) -> None:
    """Without a core all take as long; where there is room for all maps, nothing runs in stages."""
    graph, known = random_space(seed, 0)
    shared = shared_in(graph, known.order, parts=False)
    path = space_of(graph, known.order, shared, budget=0, has_cycles=False).fastest(NEVER, 0)
    assert path is not None and all(len(stage.ops) == 1 and not stage.tiles for stage in path.stages)
