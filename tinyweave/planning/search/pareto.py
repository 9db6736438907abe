"""The Pareto front of all solutions in bytes and cycles, and the best solution by an objective.

A solution splits an order of the ops into stages. The front and the best solution are found by queries, to one or several path
searches, for the fastest solution within a byte limit. The set of solutions does not depend on the limit, so a larger limit
never gives a worse solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf, log
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar

from ..plan import Plan
from .path_search import PathSearch, Solution
from .problem import NEVER, Problem

PathObjective = Literal["size", "balanced", "speed"]
"""What to minimise: bytes, then cycles; bytes times cycles; cycles, then bytes."""
MOST_QUERIES = 200  # per choice; a count rather than a time, so that every machine makes the same plan
NO_CAPS: Mapping[int, int] = MappingProxyType({})

Query = tuple[Literal[PathObjective, "fastest"], int, int]
"""Which solution to find: an objective, and limits of bytes and cycles. `fastest` minimises cycles, `speed` then bytes."""
Fastest = Callable[[int], Solution | None]
"""Return the fastest solution within a byte limit, the smaller of equally fast ones; None if no solution fits."""


def solve(problem: Problem, query: Query) -> Solution | None:
    """Return the solution of a problem that a query asks for, as every search of a plan does; None if none is within it."""
    return best(PathSearch(problem).fastest, *query)


class Candidate(NamedTuple):
    """An unchecked plan, with its RAM in bytes and its estimated cycles, by which it is compared with others."""

    plan: Plan
    bytes: int
    cycles: int


Either = TypeVar("Either", Solution, Candidate)


def fastest_of(searches: Sequence[PathSearch], byte_limit: int, caps: Mapping[int, int] = NO_CAPS) -> Solution | None:
    """Return the fastest, then smallest solution of path searches within `byte_limit` and their own `caps`, or None."""
    found = list[Solution]()
    for number, search in enumerate(searches):
        solution = search.fastest(min(byte_limit, caps.get(number, NEVER)))
        if solution is not None:
            found.append(solution._replace(space=number))
    return min(found, key=_speed, default=None)


def least_bytes(fastest: Fastest, byte_limit: int = NEVER, cycles: int = NEVER) -> Solution | None:
    """Return the solution with the least RAM, then cycles, within the limits, by bisection; None if there is none."""
    least = fastest(byte_limit)
    if least is None or least.cycles > cycles:
        return None
    low = 0  # no solution needs so few bytes
    while least.bytes - low > 1:
        middle = (low + least.bytes) // 2
        found = fastest(middle)
        if found is None or found.cycles > cycles:
            low = middle
        else:
            least = found
    return least


def best(
    fastest: Fastest, objective: Literal[PathObjective, "fastest"], byte_limit: int = NEVER, cycles: int = NEVER
) -> Solution | None:
    """Return the best solution by an objective within `byte_limit` bytes and `cycles` cycles; None if no solution fits."""
    found = fastest(byte_limit)
    if found is None or found.cycles > cycles:
        return None
    if objective == "fastest":
        return found
    least = least_bytes(fastest, byte_limit, found.cycles if objective == "speed" else cycles)
    assert least is not None, "the fastest solution is within the limits"
    return _least_product(fastest, least, found) if objective == "balanced" else least


def _least_product(fastest: Fastest, least: Solution, most: Solution) -> Solution:
    """Return the solution with the least product of bytes and cycles, from the smallest (`least`) to the fastest (`most`)."""
    balanced, waiting = min(least, most, key=_product), [(least.bytes, most)]
    for _ in range(MOST_QUERIES):
        if not waiting:
            break
        low, high = waiting.pop()  # look for solutions of more than `low` and fewer than `high` bytes
        if high.bytes - low > 1 and (low + 1) * high.cycles < _product(balanced)[0]:
            middle, found = _between(fastest, low, high)
            balanced = min(balanced, found, key=_product)
            waiting += [(low, found), (middle, high)] if found.cycles > high.cycles else [(low, found)]
    return balanced


def front(fastest: Fastest) -> list[Solution]:
    """Return Pareto-optimal solutions, the fewest cycles first, by at most MOST_QUERIES that halve the widest gap in bytes."""
    quickest, least = best(fastest, "speed"), least_bytes(fastest)
    if quickest is None or least is None:
        return []
    found, waiting = {quickest.cycles: quickest, least.cycles: least}, [(0, least.bytes, quickest)]
    for _ in range(MOST_QUERIES):
        if not waiting:
            break
        _, low, high = heappop(waiting)
        middle, between = _between(fastest, low, high)
        known = found.get(between.cycles)
        if known is None or between.bytes < known.bytes:
            found[between.cycles] = between
        gaps = [(low, between), (middle, high)] if between.cycles > high.cycles else [(low, between)]
        for begin, end in gaps:
            if end.bytes - begin > 1 and end.cycles < least.cycles:
                heappush(waiting, (begin - end.bytes, begin, end))
    return sorted(found.values(), key=_speed)


def _between(fastest: Fastest, low: int, high: Solution) -> tuple[int, Solution]:
    """Return a byte limit halfway between `low` and the bytes of solution `high`, and the fastest solution within it."""
    middle = (low + high.bytes) // 2
    found = fastest(middle)
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
