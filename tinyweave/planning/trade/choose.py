"""Which point of the trade of bytes for cycles is wanted. In: spaces of plans, limits, what to choose by. Out: a path of one.

Every answer is a question of one kind: which path needs fewest cycles within so many bytes. The spaces do not depend on the
limits, so that a looser limit never gives a worse path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf, log
from typing import Literal, NamedTuple

from ..fuse.stages import NEVER
from .space import Path, Space

Aim = Literal["size", "balanced", "speed"]
"""The fewest bytes, then cycles; the least bytes x cycles; the fewest cycles, then bytes."""
MOST_QUESTIONS = 200  # for one choice: a count, so that the same network gives the same plan everywhere


class Found(NamedTuple):
    """A path and the number of its space."""

    space: int
    path: Path


class Trade:
    """Spaces of which each has its own allowance of multiply-accumulates that are done again; what they answered so far."""

    def __init__(self, spaces: Sequence[tuple[Space, int]]) -> None:
        self.spaces = spaces
        self.known: dict[tuple[int, int], Path | None] = {}
        self.caps = dict[int, int]()  # of spaces: the most bytes that a path of theirs may need

    def fastest(self, byte_limit: int) -> Found | None:
        """Return the path with fewest cycles within so many bytes, of equally fast ones that with fewest bytes."""
        found = [
            Found(number, path)
            for number in range(len(self.spaces))
            if (path := self.path(number, min(byte_limit, self.caps.get(number, NEVER)))) is not None
        ]
        return min(found, key=_speed, default=None)

    def path(self, number: int, byte_limit: int) -> Path | None:
        """Return the path of a space with fewest cycles within so many bytes."""
        if (number, byte_limit) not in self.known:
            space, budget = self.spaces[number]
            self.known[number, byte_limit] = space.fastest(byte_limit, budget)
        return self.known[number, byte_limit]

    def least_bytes(self, byte_limit: int = NEVER, cycles: int = NEVER) -> Found | None:
        """Return the path with the fewest bytes of those with at most so many cycles, of these the fastest."""
        best = self.fastest(byte_limit)
        if best is None or best.path.cycles > cycles:
            return None
        low = 0  # no path needs so little
        while best.path.bytes - low > 1:
            middle = (low + best.path.bytes) // 2
            found = self.fastest(middle)
            if found is None or found.path.cycles > cycles:
                low = middle
            else:
                best = found
        return best

    def best(self, aim: Aim, byte_limit: int = NEVER, cycles: int = NEVER) -> Found | None:
        """Return the path that an aim chooses within limits; None where none is."""
        fastest = self.fastest(byte_limit)
        if fastest is None or fastest.path.cycles > cycles:
            return None
        if aim == "speed":
            return self.least_bytes(byte_limit, fastest.path.cycles)
        least = self.least_bytes(byte_limit, cycles)
        assert least is not None, "the fastest is within the limits"
        return least if aim == "size" else self._least_product(least, fastest)

    def _least_product(self, least: Found, fastest: Found) -> Found:
        best, waiting = min(least, fastest, key=_product), [(least.path.bytes, fastest)]
        for _ in range(MOST_QUESTIONS):
            if not waiting:
                break
            low, high = waiting.pop()  # of paths with more than `low` bytes and fewer than `high` has
            if high.path.bytes - low > 1 and (low + 1) * high.path.cycles < _product(best)[0]:
                middle, found = self._between(low, high)
                best = min(best, found, key=_product)
                waiting += [(low, found), (middle, high)] if found.path.cycles > high.path.cycles else [(low, found)]
        return best

    def front(self) -> list[Found]:
        """Return paths of which none needs as few bytes and cycles as another, the fewest cycles first.

        The widest gaps between them are looked into first, until none is left or enough was asked.
        """
        fastest = self.best("speed")
        least = self.least_bytes()
        if fastest is None or least is None:
            return []
        found, waiting = {fastest.path.cycles: fastest, least.path.cycles: least}, [(0, least.path.bytes, fastest)]
        for _ in range(MOST_QUESTIONS):
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

    def _between(self, low: int, high: Found) -> tuple[int, Found]:
        """Return a number of bytes between, and the fastest path within it."""
        middle = (low + high.path.bytes) // 2
        found = self.fastest(middle)
        assert found is not None, "more bytes than the least are enough"
        return middle, found


def most_distinct(front: Sequence[Found], most: int) -> list[Found]:
    """Return at most so many of the paths of a front, what each aim chooses among them: without those between whose neighbours
    bytes and cycles differ least."""
    kept, balanced = list(front), min(front, key=_product)
    while len(kept) > max(most, len(COSTS)):
        between = zip(kept, kept[1:], kept[2:], strict=False)
        gaps = [inf if each is balanced else _gap(before, after) for before, each, after in between]
        del kept[gaps.index(min(gaps)) + 1]
    return kept


def _gap(one: Found, other: Found) -> float:
    """Return by how much two paths differ in bytes and in cycles, as a product of shares."""
    return log(one.path.bytes / other.path.bytes) * log(other.path.cycles / one.path.cycles)


def _size(found: Found) -> tuple[int, int]:
    return found.path.bytes, found.path.cycles


def _product(found: Found) -> tuple[int, int]:
    return found.path.bytes * found.path.cycles, found.path.bytes


def _speed(found: Found) -> tuple[int, int]:
    return found.path.cycles, found.path.bytes


COSTS: Mapping[Aim, Callable[[Found], tuple[int, int]]] = {"size": _size, "balanced": _product, "speed": _speed}
