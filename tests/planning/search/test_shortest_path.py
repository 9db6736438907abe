"""Shortest paths under a weight limit compared with all paths of small random graphs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from tinyweave.planning.search import shortest_path as search
from tinyweave.planning.search.shortest_path import NEVER, SOURCE, edges_of
from tinyweave.support import toolchain


def paths(edges: list[tuple[int, int]], last: int, at: int = 0) -> Iterator[tuple[int, ...]]:
    """Yield every path from a node to the last one, as edges."""
    if at == last:
        yield ()
    for number, (begin, end) in enumerate(edges):
        if begin == at:
            yield from ((number, *rest) for rest in paths(edges, last, end))


@pytest.mark.parametrize("seed", range(80))
def test_the_path_has_the_least_cost_among_all_within_the_weight(seed: int) -> None:
    rng = random.Random(seed)
    last = rng.randint(1, 7)
    edges = [tuple(sorted(rng.sample(range(last + 1), 2))) for _ in range(rng.randint(1, 16))]
    weight = np.array([rng.choice((0, 0, rng.randint(1, 9))) for _ in edges], np.int64)
    cost = np.array([rng.choice((NEVER, *[rng.randint(0, 20)] * 6)) for _ in edges], np.int64)
    begin, end = np.array(edges, np.int64).T
    graph = edges_of(begin, end, weight, last)
    every = [list(path) for path in paths(edges, last) if all(cost[path] < NEVER for path in path)]
    for limit in (0, 3, 8, NEVER):
        able = [path for path in every if weight[path].sum() <= limit]
        found = search.shortest(graph, cost, limit)
        assert (found is None) == (not able)
        if found is not None:
            assert found in able and cost[found].sum() == min(cost[path].sum() for path in able)
            library, within = toolchain.library(SOURCE), search.shortest_within(graph, cost, limit)
            assert library is None or search.shortest_within_in_c(library, graph, cost, limit) == within


def test_both_searches_equal_brute_force_on_all_small_graphs() -> None:
    """The graphs have four edges between three nodes with all costs and weights, including forbidden edges and no path."""
    edges = [(0, 1), (0, 1), (0, 2), (1, 2)]
    begin, end = np.array(edges, np.int64).T
    every, library = [list(path) for path in paths(edges, 2)], toolchain.library(SOURCE)
    for numbers in itertools.product((0, 1, NEVER), (0, 1), repeat=len(edges)):
        cost, weight = np.array(numbers, np.int64).reshape(-1, 2).T
        graph = edges_of(begin, end, weight, 2)
        for limit in (0, 1):
            able = [path for path in every if max(cost[path]) < NEVER and weight[path].sum() <= limit]
            found = search.shortest_within(graph, cost, limit)
            assert found in able if able else found is None
            assert found is None or cost[found].sum() == min(cost[path].sum() for path in able)
            assert library is None or search.shortest_within_in_c(library, graph, cost, limit) == found
