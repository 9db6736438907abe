"""The Pareto front of all solutions in bytes and cycles, and the best solution by an objective.

A solution splits an order of the ops into stages. The front and the best solution are found by queries, over several path
searches, for the fastest solution within a byte limit. The set of solutions does not depend on the limit, so a larger limit
never gives a worse solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf, log
from typing import Literal, NamedTuple, TypeVar

from ..plan import Plan
from .path_search import PathSearch, Solution
from .problem import NEVER, Problem

PathObjective = Literal["size", "balanced", "speed"]
"""What to minimise: bytes, then cycles; bytes times cycles; cycles, then bytes."""
MOST_QUERIES = 200  # per choice; a count rather than a time, so that every machine makes the same plan


Query = tuple[Literal[PathObjective, "fastest"], int, int]
"""Which solution to find: an objective, and limits of bytes and cycles. `fastest` minimises cycles, `speed` then bytes."""


def solve(problem: Problem, query: Query) -> Solution | None:
    """Return the solution of a problem that a query asks for; None if no solution is within its limits.

    This is the search of every plan. Equal problems and queries have equal solutions.
    """
    return ParetoSearch([PathSearch(problem)]).best(*query)


class Candidate(NamedTuple):
    """An unchecked plan, with its RAM in bytes and its estimated cycles, by which it is compared with others."""

    plan: Plan
    bytes: int
    cycles: int


Either = TypeVar("Either", Solution, Candidate)


class ParetoSearch:
    """Queries over several path searches, with a cache of the solutions found.

    Attributes:
        searches: the path searches, one per plan space.
        known: for each path search, (low, high, solution): its fastest solution within any byte limit from low to high.
        caps: number of a path search -> byte limit for its solutions, which a caller may set. All queries but `fastest_of` obey
            these limits.
    """

    def __init__(self, searches: Sequence[PathSearch]) -> None:
        """Start with an empty cache and no byte limits of single path searches (caps)."""
        self.searches = searches
        self.known: list[list[tuple[int, int, Solution | None]]] = [[] for _ in searches]
        self.caps = dict[int, int]()

    def fastest(self, byte_limit: int) -> Solution | None:
        """Return the fastest solution of all path searches, the smaller of equally fast solutions; None if none fits.

        A solution must fit `byte_limit` and, if `caps` has a byte limit for its path search, also that limit.
        """
        numbers = range(len(self.searches))
        found = [self.fastest_of(number, min(byte_limit, self.caps.get(number, NEVER))) for number in numbers]
        return min((each for each in found if each is not None), key=_speed, default=None)

    def fastest_of(self, number: int, byte_limit: int) -> Solution | None:
        """Return the fastest solution of path search `number` within a byte limit, None if no solution fits.

        The solution is cached. The byte limit of the path search in `caps` does not apply.
        """
        for low, high, solution in self.known[number]:
            if low <= byte_limit <= high:
                return solution
        found = self.searches[number].fastest(byte_limit)
        found = found and found._replace(space=number)
        self.known[number].append((found.bytes if found else 0, byte_limit, found))
        return found

    def least_bytes(self, byte_limit: int = NEVER, cycles: int = NEVER) -> Solution | None:
        """Return the solution with the least RAM, found by bisection; None if no solution is within the limits.

        The limits are `byte_limit` bytes and `cycles` cycles. Ties are broken by cycles.
        """
        best = self.fastest(byte_limit)
        if best is None or best.cycles > cycles:
            return None
        low = 0  # no solution needs so few bytes
        while best.bytes - low > 1:
            middle = (low + best.bytes) // 2
            found = self.fastest(middle)
            if found is None or found.cycles > cycles:
                low = middle
            else:
                best = found
        return best

    def best(
        self, objective: Literal[PathObjective, "fastest"], byte_limit: int = NEVER, cycles: int = NEVER
    ) -> Solution | None:
        """Return the best solution by an objective within `byte_limit` bytes and `cycles` cycles; None if no solution fits."""
        fastest = self.fastest(byte_limit)
        if fastest is None or fastest.cycles > cycles:
            return None
        if objective == "fastest":
            return fastest
        if objective == "speed":
            return self.least_bytes(byte_limit, fastest.cycles)
        least = self.least_bytes(byte_limit, cycles)
        assert least is not None, "the fastest solution is within the limits"
        return least if objective == "size" else self._least_product(least, fastest)

    def _least_product(self, least: Solution, fastest: Solution) -> Solution:
        best, waiting = min(least, fastest, key=_product), [(least.bytes, fastest)]
        for _ in range(MOST_QUERIES):
            if not waiting:
                break
            low, high = waiting.pop()  # look for solutions of more than `low` and fewer than `high` bytes
            if high.bytes - low > 1 and (low + 1) * high.cycles < _product(best)[0]:
                middle, found = self._between(low, high)
                best = min(best, found, key=_product)
                waiting += [(low, found), (middle, high)] if found.cycles > high.cycles else [(low, found)]
        return best

    def front(self) -> list[Solution]:
        """Return Pareto-optimal solutions, the fewest cycles first.

        Each query halves the widest gap in bytes between two known solutions, until no gap is left or after MOST_QUERIES.
        """
        fastest = self.best("speed")
        least = self.least_bytes()
        if fastest is None or least is None:
            return []
        found, waiting = {fastest.cycles: fastest, least.cycles: least}, [(0, least.bytes, fastest)]
        for _ in range(MOST_QUERIES):
            if not waiting:
                break
            _, low, high = heappop(waiting)
            middle, between = self._between(low, high)
            known = found.get(between.cycles)
            if known is None or between.bytes < known.bytes:
                found[between.cycles] = between
            gaps = [(low, between), (middle, high)] if between.cycles > high.cycles else [(low, between)]
            for begin, end in gaps:
                if end.bytes - begin > 1 and end.cycles < least.cycles:
                    heappush(waiting, (begin - end.bytes, begin, end))
        return sorted(found.values(), key=_speed)

    def _between(self, low: int, high: Solution) -> tuple[int, Solution]:
        """Return a byte limit halfway between `low` and the bytes of solution `high`, and the fastest solution within it."""
        middle = (low + high.bytes) // 2
        found = self.fastest(middle)
        assert found is not None, "the limit is above the least bytes"
        return middle, found


def most_distinct(front: Sequence[Either], most: int) -> list[Either]:
    """Return at most `most` solutions or candidates of a Pareto front, among them the best one by each objective.

    While there are too many, the item whose two neighbours on the front are closest to each other is removed.
    """
    kept, balanced = list(front), min(front, key=_product)
    while len(kept) > max(most, len(COSTS)):
        between = zip(kept, kept[1:], kept[2:], strict=False)
        gaps = [inf if each is balanced else _gap(before, after) for before, each, after in between]
        del kept[gaps.index(min(gaps)) + 1]
    return kept


def _gap(one: Either, other: Either) -> float:
    """Return how far apart two points on the front are: log(ratio of bytes) * log(ratio of cycles)."""
    return log(one.bytes / other.bytes) * log(other.cycles / one.cycles)


def _size(found: Solution | Candidate) -> tuple[int, int]:
    return found.bytes, found.cycles


def _product(found: Solution | Candidate) -> tuple[int, int]:
    return found.bytes * found.cycles, found.bytes


def _speed(found: Solution | Candidate) -> tuple[int, int]:
    return found.cycles, found.bytes


Cost = Callable[[Solution | Candidate], tuple[int, int]]
COSTS: Mapping[PathObjective, Cost] = {"size": _size, "balanced": _product, "speed": _speed}
