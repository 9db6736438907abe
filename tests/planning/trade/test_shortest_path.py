"""Shortest paths against all paths of small random cuts."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from tinyweave import toolchain
from tinyweave.planning.trade.shortest_path import NEVER, SOURCE, Cuts


def paths(edges: list[tuple[int, int]], last: int, at: int = 0) -> Iterator[tuple[int, ...]]:
    """Yield every path from a cut to the last, as edges."""
    if at == last:
        yield ()
    for number, (begin, end) in enumerate(edges):
        if begin == at:
            yield from ((number, *rest) for rest in paths(edges, last, end))


@pytest.mark.parametrize("seed", range(200))
def test_the_path_costs_least_of_all_that_weigh_no_more(seed: int) -> None:
    rng = random.Random(seed)
    last = rng.randint(1, 7)
    edges = [tuple(sorted(rng.sample(range(last + 1), 2))) for _ in range(rng.randint(1, 16))]
    weight = np.array([rng.choice((0, 0, rng.randint(1, 9))) for _ in edges], np.int64)
    cost = np.array([rng.choice((NEVER, *[rng.randint(0, 20)] * 6)) for _ in edges], np.int64)
    begin, end = np.array(edges, np.int64).T
    cuts = Cuts(begin, end, weight, last)
    every = [list(path) for path in paths(edges, last) if all(cost[path] < NEVER for path in path)]
    for limit in (0, 3, 8, NEVER):
        able = [path for path in every if weight[path].sum() <= limit]
        found = cuts.shortest(cost, limit)
        assert (found is None) == (not able)
        if found is not None:
            assert found in able and cost[found].sum() == min(cost[path].sum() for path in able)
            library = toolchain.library(SOURCE)
            assert library is None or cuts.within_in_c(library, cost, limit) == cuts.within(cost, limit)
