"""The path of least cost from the first cut of an order to the last, within a limit of total weight.

A cut is a position between two ops. An edge leads from a cut to a later one, and has a cost and a weight (here cycles and
recomputed multiply-accumulates). This is the resource-constrained shortest path problem (Joksch 1966): each cut keeps the
Pareto-optimal (cost, weight) labels of the paths to it, except those that cannot reach the last cut within the limit.
shortest_path.c does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL, c_int64, c_void_p
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...support import toolchain
from .problem import NEVER

Numbers = NDArray[np.int64]
SOURCE = Path(__file__).with_name("shortest_path.c")
Edges = tuple[Numbers, Sequence[Numbers], Numbers]
"""The cut from which each edge leads to a later one; the edges that end at each cut; the weight of each edge."""


def edges_of(begin: Numbers, end: Numbers, weight: Numbers, last: int) -> Edges:
    """Return the edges of a graph of the cuts 0 to `last`; the arrays have an entry per edge."""
    by_end = np.argsort(end, kind="stable")
    bounds = np.searchsorted(end[by_end], np.arange(last + 2))
    return begin, [by_end[low:high] for low, high in pairwise(bounds)], weight


def shortest(graph: Edges, cost: Numbers, limit: int) -> list[int] | None:
    """Return the edges of the cheapest path (cost NEVER: not allowed) of a weight of at most `limit`; None if none."""
    begin, arriving, weight = graph
    last = len(arriving) - 1
    reach = np.full(last + 1, NEVER, np.int64)
    reach[0] = 0
    taken = [0] * (last + 1)
    for cut in range(1, last + 1):
        edges = arriving[cut]
        if len(edges):
            sums = reach[begin[edges]] + cost[edges]
            best = int(sums.argmin())
            reach[cut], taken[cut] = min(int(sums[best]), NEVER), int(edges[best])
    if reach[-1] >= NEVER:
        return None
    path, cut = list[int](), last
    while cut:
        path.append(taken[cut])
        cut = int(begin[taken[cut]])
    if int(weight[path].sum()) <= limit:
        return path[::-1]
    library = toolchain.library(SOURCE)
    return shortest_within(graph, cost, limit) if library is None else shortest_within_in_c(library, graph, cost, limit)


def shortest_within_in_c(library: CDLL, graph: Edges, cost: Numbers, limit: int) -> list[int] | None:
    """Return the same path as `shortest_within`, computed by shortest_path.c."""
    begin, arriving, weight = graph
    by_end, last = np.concatenate(arriving), len(arriving) - 1
    bounds, path = np.cumsum([0, *map(len, arriving)], dtype=np.int64), np.zeros(last, np.int64)
    tables = bounds, begin[by_end], weight[by_end], cost[by_end]
    pointers = [c_void_p(table.ctypes.data) for table in tables]
    edges = library.tw_shortest(c_int64(last), *pointers, c_int64(limit), c_void_p(path.ctypes.data))
    if edges < 0:
        raise MemoryError
    return by_end[path[:edges][::-1]].tolist() if edges else None


def shortest_within(graph: Edges, cost: Numbers, limit: int) -> list[int] | None:
    """Return the same path as `shortest`, found by labels: the Pareto-optimal (cost, weight) of the paths to each cut.

    This is slower. `shortest` uses it only if the cheapest path without a limit is too heavy, and no C compiler is found.
    """
    begin, arriving, weight = graph
    left, last = _least_weights(graph, cost), len(arriving) - 1
    if left[0] > limit:
        return None
    none = np.zeros(0, np.int64)
    labels = [(np.zeros(1, np.int64),) * 4]  # per cut: costs, weights, last edges, indices of the labels before these edges
    for cut in range(1, last + 1):
        columns: list[tuple[Numbers, ...]] = []
        for edge in arriving[cut].tolist():
            costs, weights, _, _ = labels[int(begin[edge])]
            if cost[edge] < NEVER and len(costs):
                count = len(costs)
                columns.append((costs + cost[edge], weights + weight[edge], np.full(count, edge, np.int64), np.arange(count)))
        if not columns:
            labels.append((none,) * 4)
            continue
        costs, weights, edges, before = (np.concatenate(column) for column in zip(*columns, strict=True))
        able = np.flatnonzero(weights + left[cut] <= limit)
        able = able[np.lexsort((weights[able], costs[able]))]
        lightest = np.minimum.accumulate(weights[able]) if len(able) else none
        kept = able[np.append(True, weights[able][1:] < lightest[:-1])] if len(able) else able
        labels.append((costs[kept], weights[kept], edges[kept], before[kept]))
    path, cut, label = list[int](), last, 0  # labels are sorted by cost
    while cut:
        _, _, edges, before = labels[cut]
        path.append(int(edges[label]))
        cut, label = int(begin[edges[label]]), int(before[label])
    return path[::-1]


def _least_weights(graph: Edges, cost: Numbers) -> Numbers:
    """Return, for each cut, the least weight of a path from it to the last cut; NEVER if no allowed edges lead there."""
    begin, arriving, weight = graph
    left = np.full(len(arriving), NEVER, np.int64)
    left[-1] = 0
    for cut in range(len(arriving) - 1, 0, -1):
        edges = arriving[cut]
        edges = edges[cost[edges] < NEVER]
        if left[cut] < NEVER:
            np.minimum.at(left, begin[edges], left[cut] + weight[edges])
    return left
