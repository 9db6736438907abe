"""The path of least cost from the first cut of an order to the last, within a limit of total weight.

A cut is a position between two ops. An edge leads from a cut to a later one, and has a cost and a weight (here cycles and
recomputed multiply-accumulates). This is the resource-constrained shortest path problem (Joksch 1966): each cut keeps the
Pareto-optimal (cost, weight) labels of the paths to it, except those that cannot reach the last cut within the limit.
shortest_path.c does the same.
"""

from __future__ import annotations

from ctypes import CDLL, c_int64, c_void_p
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...support import toolchain
from .problem import NEVER

Numbers = NDArray[np.int64]
SOURCE = Path(__file__).with_name("shortest_path.c")


class CutGraph:
    """A graph of the cuts 0 to `last` (positions between ops). Each edge leads from a cut `begin` to a later cut `end`.

    Edges have a weight. Their costs are an argument of the searches; an edge of cost NEVER is not allowed.
    """

    def __init__(self, begin: Numbers, end: Numbers, weight: Numbers, last: int) -> None:
        """Sort the edges by the cut at which they end; the arrays have an entry per edge."""
        self.begin, self.end, self.weight, self.last = begin, end, weight, last
        by_end = np.argsort(end, kind="stable")
        self.by_end, self.bounds = by_end, np.searchsorted(end[by_end], np.arange(last + 2)).astype(np.int64)
        self.arriving = [by_end[low:high] for low, high in pairwise(self.bounds)]  # per cut
        self.sorted = begin[by_end], weight[by_end]

    def shortest(self, cost: Numbers, limit: int) -> list[int] | None:
        """Return the edges of the cheapest path from cut 0 to the last with a total weight of at most `limit`, in order.

        None if there is no such path. `cost` has an entry per edge.
        """
        reach = np.full(self.last + 1, NEVER, np.int64)
        reach[0] = 0
        taken = [0] * (self.last + 1)
        for cut in range(1, self.last + 1):
            edges = self.arriving[cut]
            if len(edges):
                sums = reach[self.begin[edges]] + cost[edges]
                best = int(sums.argmin())
                reach[cut], taken[cut] = min(int(sums[best]), NEVER), int(edges[best])
        if reach[-1] >= NEVER:
            return None
        path, cut = list[int](), self.last
        while cut:
            path.append(taken[cut])
            cut = int(self.begin[taken[cut]])
        weight = int(self.weight[path].sum())
        if weight <= limit:
            return path[::-1]
        library = toolchain.library(SOURCE)
        return self.within(cost, limit) if library is None else self.within_in_c(library, cost, limit)

    def within_in_c(self, library: CDLL, cost: Numbers, limit: int) -> list[int] | None:
        """Return the same path as `within`, computed by shortest_path.c."""
        cost, path = cost[self.by_end], np.zeros(self.last, np.int64)
        tables = (self.bounds, *self.sorted, cost)
        pointers = [c_void_p(table.ctypes.data) for table in tables]
        edges = library.tw_shortest(c_int64(self.last), *pointers, c_int64(limit), c_void_p(path.ctypes.data))
        if edges < 0:
            raise MemoryError
        return self.by_end[path[:edges][::-1]].tolist() if edges else None

    def within(self, cost: Numbers, limit: int) -> list[int] | None:
        """Return the same path as `shortest`, found by labels: the Pareto-optimal (cost, weight) of the paths to each cut.

        This is slower. `shortest` uses it only if the cheapest path without a limit is too heavy, and no C compiler is found.
        """
        left = self._least_weights(cost)
        if left[0] > limit:
            return None
        none = np.zeros(0, np.int64)
        labels = [(np.zeros(1, np.int64),) * 4]  # per cut: costs, weights, last edges, indices of the labels before these edges
        for cut in range(1, self.last + 1):
            columns: list[tuple[Numbers, ...]] = []
            for edge in self.arriving[cut].tolist():
                costs, weights, _, _ = labels[int(self.begin[edge])]
                if cost[edge] < NEVER and len(costs):
                    count = len(costs)
                    columns.append(
                        (costs + cost[edge], weights + self.weight[edge], np.full(count, edge, np.int64), np.arange(count))
                    )
            if not columns:
                labels.append((none,) * 4)
                continue
            costs, weights, edges, before = (np.concatenate(column) for column in zip(*columns, strict=True))
            able = np.flatnonzero(weights + left[cut] <= limit)
            able = able[np.lexsort((weights[able], costs[able]))]
            lightest = np.minimum.accumulate(weights[able]) if len(able) else none
            kept = able[np.append(True, weights[able][1:] < lightest[:-1])] if len(able) else able
            labels.append((costs[kept], weights[kept], edges[kept], before[kept]))
        path, cut, label = list[int](), self.last, 0  # labels are sorted by cost
        while cut:
            _, _, edges, before = labels[cut]
            path.append(int(edges[label]))
            cut, label = int(self.begin[edges[label]]), int(before[label])
        return path[::-1]

    def _least_weights(self, cost: Numbers) -> Numbers:
        """Return, for each cut, the least weight of a path from it to the last cut; NEVER if no allowed edges lead there."""
        left = np.full(self.last + 1, NEVER, np.int64)
        left[-1] = 0
        for cut in range(self.last, 0, -1):
            edges = self.arriving[cut]
            edges = edges[cost[edges] < NEVER]
            if left[cut] < NEVER:
                np.minimum.at(left, self.begin[edges], left[cut] + self.weight[edges])
        return left
