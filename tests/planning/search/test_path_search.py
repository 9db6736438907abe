"""The fastest path within a byte limit compared with all paths of small networks."""

from __future__ import annotations

import random
from itertools import product

import pytest
from fuzz.generate import BY_ROW, random_network

from tinyweave.ir import Graph
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.fuse.row_access import WHOLE
from tinyweave.planning.kernel_choice import PORTABLE, KernelRule
from tinyweave.planning.search.of_graph import problem_of
from tinyweave.planning.search.orders import stage_cycles_of
from tinyweave.planning.search.path_search import PathSearch
from tinyweave.planning.search.problem import NEVER
from tinyweave.planning.strategies import PlanSpaces

SEEDS = range(30)
CORE = KernelRule("cortex-m4")


def random_space(seed: int, budget: int) -> tuple[Graph, PathSearch]:
    graph = random_network(seed, random.Random(seed).randint(3, 7), growers=BY_ROW, live=2)
    order = PlanSpaces(graph, WHOLE).orders[-1]
    shared = shared_in(graph, order, parts=False)
    cycles_of = stage_cycles_of(graph, order, shared, kernels=[PORTABLE, CORE])
    return graph, PathSearch(problem_of(cycles_of, order, shared.owner, budget=budget))


def all_paths(space: PathSearch) -> list[tuple[int, int, int]]:
    """Return (bytes, cycles, recomputed MACs) of every path: each stage with each option, each unfused op with each kernel."""
    stages, options = space.stages, dict[int, list[tuple[int, int, int, int]]]()
    for number, span in enumerate(stages.stage.tolist()):
        space._compute_exactly(number)
        for more, cycles, *_ in space.options[number]:
            bytes_, macs = int(space.min_bytes[number]) + more, int(stages.recomputed_macs[number])
            options.setdefault(int(stages.begin[span]), []).append((int(stages.end[span]), bytes_, cycles, macs))
    for single in space.unfused:
        step = space.order.index(single.ops[0])
        options.setdefault(step, []).append((step + 1, single.bytes, single.cycles, 0))
    reached = {0: {(0, 0, 0)}}
    for step in range(len(space.order)):
        for (most, cycles, macs), (end, bytes_, more, more_macs) in product(reached.get(step, ()), options.get(step, ())):
            reached.setdefault(end, set()).add((max(most, bytes_), cycles + more, macs + more_macs))
    return sorted(reached[len(space.order)])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("budget", [0, 2000, 20_000])
def test_no_path_is_faster_within_as_many_bytes(seed: int, budget: int) -> None:
    """Fresh path searches are queried with increasing and with decreasing limits."""
    _, known = random_space(seed, budget)
    every = [path for path in all_paths(known) if path[2] <= budget]
    limits = sorted({bytes_ for bytes_, _, _ in every})
    limits = [limits[0] - 1, *limits[:: max(len(limits) // 12, 1)], NEVER]
    for order in (limits, limits[::-1]):
        _, space = random_space(seed, budget)
        for limit in order:
            within = [cycles for bytes_, cycles, _ in every if bytes_ <= limit]
            found = space.fastest(limit)
            assert (found is None) == (not within)
            if found is not None:
                assert found.bytes <= limit and found.cycles == min(within)


@pytest.mark.parametrize("seed", SEEDS[::3])
def test_ties_of_cycles_are_broken_by_the_least_fusion(seed: int) -> None:
    """Without a core all paths take 0 cycles; without a byte limit nothing is fused."""
    graph, known = random_space(seed, 0)
    shared = shared_in(graph, known.order, parts=False)
    cycles_of = stage_cycles_of(graph, known.order, shared, has_cycles=False)
    solution = PathSearch(problem_of(cycles_of, known.order, shared.owner)).fastest(NEVER)
    assert solution is not None and all(len(stage.ops) == 1 and not stage.tiles for stage in solution.stages)
