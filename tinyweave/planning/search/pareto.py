"""The Pareto front of all paths in bytes and cycles, and the best path by an objective.

A path splits an order of the ops into stages. Both are found by queries for the fastest path within a byte limit, over several
path searches. The set of paths does not depend on the limit, so a larger limit never gives a worse path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf, log
from typing import Literal, NamedTuple

from .path_search import Path, PathSearch
from .problem import NEVER

Objective = Literal["size", "balanced", "speed"]
"""What to minimise: bytes, then cycles; bytes times cycles; cycles, then bytes."""
MOST_QUERIES = 200  # per choice; a count rather than a time, so that every machine makes the same plan


class Solution(NamedTuple):
    """A path (split of the ops into stages) and the number of the path search that found it."""

    space: int
    path: Path


class ParetoSearch:
    """Queries over several path searches, with a cache of the paths found.

    Attributes:
        spaces: each path search, with the multiply-accumulates that its paths may recompute.
        known: (number of a path search, byte limit) -> its fastest path.
        caps: number of a path search -> byte limit for its paths, which a caller may set.
    """

    def __init__(self, spaces: Sequence[tuple[PathSearch, int]]) -> None:
        """Start with an empty cache and no byte limits of single path searches (caps)."""
        self.spaces = spaces
        self.known: dict[tuple[int, int], Path | None] = {}
        self.caps = dict[int, int]()

    def fastest(self, byte_limit: int) -> Solution | None:
        """Return the fastest path within a byte limit and the caps, the smaller of equally fast ones; None if there is none."""
        found = [
            Solution(number, path)
            for number in range(len(self.spaces))
            if (path := self.path(number, min(byte_limit, self.caps.get(number, NEVER)))) is not None
        ]
        return min(found, key=_speed, default=None)

    def path(self, number: int, byte_limit: int) -> Path | None:
        """Return the fastest path of path search `number` within a byte limit, None if there is none. Cached; ignores caps."""
        if (number, byte_limit) not in self.known:
            space, budget = self.spaces[number]
            self.known[number, byte_limit] = space.fastest(byte_limit, budget)
        return self.known[number, byte_limit]

    def least_bytes(self, byte_limit: int = NEVER, cycles: int = NEVER) -> Solution | None:
        """Return the path with the least RAM, found by bisection; None if no path is within the limits.

        The limits are `byte_limit` bytes and `cycles` cycles. Ties are broken by cycles.
        """
        best = self.fastest(byte_limit)
        if best is None or best.path.cycles > cycles:
            return None
        low = 0  # no path needs so few bytes
        while best.path.bytes - low > 1:
            middle = (low + best.path.bytes) // 2
            found = self.fastest(middle)
            if found is None or found.path.cycles > cycles:
                low = middle
            else:
                best = found
        return best

    def best(self, objective: Objective, byte_limit: int = NEVER, cycles: int = NEVER) -> Solution | None:
        """Return the best path by an objective within `byte_limit` bytes and `cycles` cycles; None if there is none."""
        fastest = self.fastest(byte_limit)
        if fastest is None or fastest.path.cycles > cycles:
            return None
        if objective == "speed":
            return self.least_bytes(byte_limit, fastest.path.cycles)
        least = self.least_bytes(byte_limit, cycles)
        assert least is not None, "the fastest path is within the limits"
        return least if objective == "size" else self._least_product(least, fastest)

    def _least_product(self, least: Solution, fastest: Solution) -> Solution:
        best, waiting = min(least, fastest, key=_product), [(least.path.bytes, fastest)]
        for _ in range(MOST_QUERIES):
            if not waiting:
                break
            low, high = waiting.pop()  # look for paths of more than `low` and fewer than `high` bytes
            if high.path.bytes - low > 1 and (low + 1) * high.path.cycles < _product(best)[0]:
                middle, found = self._between(low, high)
                best = min(best, found, key=_product)
                waiting += [(low, found), (middle, high)] if found.path.cycles > high.path.cycles else [(low, found)]
        return best

    def front(self) -> list[Solution]:
        """Return Pareto-optimal paths, the fewest cycles first.

        Each query halves the widest gap in bytes between two known paths, until no gap is left or after MOST_QUERIES.
        """
        fastest = self.best("speed")
        least = self.least_bytes()
        if fastest is None or least is None:
            return []
        found, waiting = {fastest.path.cycles: fastest, least.path.cycles: least}, [(0, least.path.bytes, fastest)]
        for _ in range(MOST_QUERIES):
            if not waiting:
                break
            _, low, high = heappop(waiting)
            middle, between = self._between(low, high)
            known = found.get(between.path.cycles)
            if known is None or between.path.bytes < known.path.bytes:
                found[between.path.cycles] = between
            gaps = [(low, between), (middle, high)] if between.path.cycles > high.path.cycles else [(low, between)]
            for begin, end in gaps:
                if end.path.bytes - begin > 1 and end.path.cycles < least.path.cycles:
                    heappush(waiting, (begin - end.path.bytes, begin, end))
        return sorted(found.values(), key=_speed)

    def _between(self, low: int, high: Solution) -> tuple[int, Solution]:
        """Return the limit halfway between `low` bytes and the bytes of `high`, and the fastest path within this limit."""
        middle = (low + high.path.bytes) // 2
        found = self.fastest(middle)
        assert found is not None, "the limit is above the least bytes"
        return middle, found


def most_distinct(front: Sequence[Solution], most: int) -> list[Solution]:
    """Return at most `most` paths of a Pareto front, among them the best one by each objective.

    The path whose two neighbours on the front are most alike is removed repeatedly.
    """
    kept, balanced = list(front), min(front, key=_product)
    while len(kept) > max(most, len(COSTS)):
        between = zip(kept, kept[1:], kept[2:], strict=False)
        gaps = [inf if each is balanced else _gap(before, after) for before, each, after in between]
        del kept[gaps.index(min(gaps)) + 1]
    return kept


def _gap(one: Solution, other: Solution) -> float:
    """Return how far apart two paths on the front are: log(ratio of bytes) * log(ratio of cycles)."""
    return log(one.path.bytes / other.path.bytes) * log(other.path.cycles / one.path.cycles)


def _size(found: Solution) -> tuple[int, int]:
    return found.path.bytes, found.path.cycles


def _product(found: Solution) -> tuple[int, int]:
    return found.path.bytes * found.path.cycles, found.path.bytes


def _speed(found: Solution) -> tuple[int, int]:
    return found.path.cycles, found.path.bytes


COSTS: Mapping[Objective, Callable[[Solution], tuple[int, int]]] = {"size": _size, "balanced": _product, "speed": _speed}
