"""Exact placement by branch and bound: whether buffers fit within a capacity.

In: a PlacementProblem, an order of its buffers, a capacity and a limit on tries. Out: offsets, or a proof that there are none.

Buffers are placed in order of rising offset, each as low as the placed buffers allow. A section is a maximal set of buffers
that are alive together. A partial placement is rejected if a section needs more than the capacity. Parts of the problem that
share no unplaced buffer are solved independently. Source: MiniMalloc (Moffitt, ASPLOS 2024). branch_and_bound.c is the same
algorithm in C, for long searches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from math import gcd
from pathlib import Path
from typing import Any

from ...support import toolchain
from ..plan import Buffer

SHORT = 20_000  # (buffers + their sections) times tries up to which the Python version runs: about 4 ms
NEVER = 2**63 - 1
SOURCE = Path(__file__).with_name("branch_and_bound.c")


@dataclass(frozen=True)
class PlacementProblem:
    """Buffers to be placed, by index, and how they may be placed relative to each other.

    A section is a maximal set of buffers that are alive together; sections are numbered in the order of time.
    """

    buffers: Sequence[Buffer]
    sections: Sequence[Sequence[int]]
    conflicts: Sequence[Sequence[tuple[int, int, int]]]  # per buffer x, (y, up, down): offset y >= x + up, or x >= y + down
    overlaps: Sequence[Sequence[tuple[int, int]]]  # per buffer x, (y, up): y may start `up` bytes above x, inside of x

    @cached_property
    def grain(self) -> int:
        """Return the greatest common divisor of the buffers' alignments: every offset is a multiple of it."""
        return gcd(*{b.align for b in self.buffers if b.bytes})

    @cached_property
    def weights(self) -> list[list[int]]:
        """Return, for each buffer of each section, the least bytes from its start to the start of the buffer above it."""
        by_section = list[list[int]]()
        for section in self.sections:
            inside = set(section)
            ups = [min([self.buffers[x].bytes, *(up for y, up in self.overlaps[x] if y in inside)]) for x in section]
            by_section.append([-(-up // self.grain) * self.grain for up in ups])
        return by_section

    def load(self, section: Sequence[int], weights: Sequence[int]) -> int:
        """Return a lower bound on the bytes that `section`, buffers that are alive together, takes as one stack.

        A buffer's weight is the least bytes from its start to the start of the buffer above it. The bound is the sum of all
        weights, but with the full size of the topmost buffer: the buffer for which this adds least.
        """
        return sum(weights) + min(self.buffers[x].bytes - weight for x, weight in zip(section, weights, strict=True))

    @cached_property
    def loads(self) -> list[int]:
        """Return, for each section (buffers that are alive together), a lower bound on the bytes that it takes."""
        return [self.load(section, weights) for section, weights in zip(self.sections, self.weights, strict=True)]

    def by_buffer(self) -> tuple[list[int], list[int], list[list[int]]]:
        """Return three lists with an entry per buffer: its first section, one past its last, and its weight in each section.

        A section is a set of buffers that are alive together. A weight is the least bytes from the start of a buffer to the
        start of the buffer above it.
        """
        first, end = [0] * len(self.buffers), [0] * len(self.buffers)
        weights: list[list[int]] = [[] for _ in self.buffers]
        for number, (section, of_section) in enumerate(zip(self.sections, self.weights, strict=True)):
            for x, weight in zip(section, of_section, strict=True):
                if not weights[x]:
                    first[x] = number
                end[x] = number + 1
                weights[x].append(weight)
        return first, end, weights


Result = tuple[list[int] | None, int, int]
"""The outcome of a search: the offsets if the buffers fit; a lower bound in bytes if they do not, else 0; the tries made.

If the tries ran out, there is neither. A try is the placement of one buffer.
"""
Search = Callable[[Sequence[int], bool, int, int], Result]  # order, reorder, capacity, tries


def searcher(problem: PlacementProblem) -> Search:
    """Return a function that searches for a placement within a capacity, in C if the search may be long.

    The function takes an order of the buffers, `reorder`, the capacity in bytes and the limit on tries. Among buffers that fit
    equally low, the search first tries the buffer whose sections (sets of buffers alive together) have the largest load, the
    least bytes that a section takes. Ties are broken by the order. With `reorder`, loads are computed again, for the unplaced
    buffers, when the search splits into independent parts.
    """
    cells, spent = len(problem.buffers) + sum(map(len, problem.sections)), 0

    @lru_cache
    def in_c() -> Search | None:
        return _search_in_c(problem)

    def search(order: Sequence[int], reorder: bool, capacity: int, tries: int) -> Result:
        nonlocal spent
        run = in_c() if spent + tries * cells > SHORT else None
        result = run(order, reorder, capacity, tries) if run else search_in_python(problem, order, reorder, capacity, tries)
        spent += result[2] * cells
        return result

    return search


def search_in_python(problem: PlacementProblem, order: Sequence[int], reorder: bool, capacity: int, tries: int) -> Result:
    """Search for a placement within `capacity` bytes, with at most `tries` placements of one buffer, as tw_search does."""
    size, align = [b.bytes for b in problem.buffers], [b.align for b in problem.buffers]
    first, end, weights = problem.by_buffer()
    offsets = [0] * len(size)
    lowest = [0] * len(size)  # per buffer the lowest offset that the placed ones allow
    placed = [False] * len(size)
    remaining = list(problem.loads)  # per section the bytes that its unplaced buffers add at least
    crossing = [0] * len(problem.sections)  # per section the unplaced buffers that are alive in it and in the next one
    for begin, stop in zip(first, end, strict=True):
        for s in range(begin, stop - 1):
            crossing[s] += 1
    rank_of = {x: k for k, x in enumerate(order)}
    may_coincide = _may_coincide(problem)
    left, next_bound = tries, NEVER

    def place(x: int) -> tuple[list[tuple[int, int]], bool]:
        """Place buffer x at its lowest offset.

        Returns:
            (buffer, lowest offset before) for each unplaced buffer that must now start higher. Then whether the remaining
            search may split into independent parts.
        """
        offsets[x] = lowest[x]
        placed[x] = True
        raised = []
        for y, gap, _ in problem.conflicts[x]:
            up = -(-(offsets[x] + gap) // align[y]) * align[y]
            if not placed[y] and lowest[y] < up:
                raised.append((y, lowest[y]))
                lowest[y] = up
        split = False
        for s, weight in enumerate(weights[x], first[x]):
            remaining[s] -= weight
            if s + 1 < end[x]:
                crossing[s] -= 1
                split |= not crossing[s]
        return raised, split

    def undo(x: int, raised: list[tuple[int, int]]) -> None:
        """Take buffer x back and restore the lowest offsets that its placement raised."""
        for s, weight in enumerate(weights[x], first[x]):
            remaining[s] += weight
            crossing[s] += s + 1 < end[x]
        for y, before in raised:
            lowest[y] = before
        placed[x] = False

    def may_fit(part: list[int], sections: range, at: int) -> bool:
        """Return False if the unplaced buffers of `part` surely do not fit, because a section exceeds the capacity; else True.

        All buffers still to be placed start at offset `at` or above. In each section, they also start at or above the least of
        their own lowest offsets.
        """
        nonlocal next_bound
        begin = sections.start
        floor = [NEVER] * len(sections)
        for x in part:
            if not placed[x]:
                for s in range(first[x] - begin, end[x] - begin):
                    floor[s] = min(floor[s], lowest[x])
        for s, low in enumerate(floor, begin):
            needed = max(low, at) + remaining[s]
            if low < NEVER and needed > capacity:
                next_bound = min(next_bound, needed)
                return False
        return True

    def solve_parts(part: Sequence[int], sections: range, low: int, x: int, split: bool) -> bool | None:
        """Divide the sections into parts that no unplaced buffer links, and place the buffers of each part at `low` or above.

        `part` are the buffers that are alive in `sections`. x is the buffer that was placed last, -1 for none. If not `split`,
        the sections are one part. Return whether all buffers fit, or None if the tries ran out.
        """
        begin = sections.start
        for s in sections:
            if s + 1 < sections.stop and (not split or crossing[s]):
                continue
            inside = [y for y in part if not placed[y] and begin <= first[y] <= s]
            first_at_low = 0
            if x < 0 or (split and reorder):
                inside.sort(key=lambda y: (-max(remaining[first[y] : end[y]]), rank_of[y]))
            else:  # the first of them not tried before x
                first_at_low = sum(1 for y in part[: part.index(x)] if begin <= first[y] <= s)
            solved = solve(inside, range(begin, s + 1), low, first_at_low) if inside else True
            if not solved:
                return solved
            begin = s + 1
        return True

    def solve(part: list[int], sections: range, low: int, first_at_low: int) -> bool | None:
        """Place all buffers of `part` at offset `low` or above; return whether all fit, or None if the tries ran out.

        `part` is in the order in which to try buffers of equal offsets; `sections` are all sections in which they are alive. At
        `low` itself only buffers from index `first_at_low` on are tried, since earlier ones have been tried there.
        """
        nonlocal left, next_bound
        # a buffer above this offset leaves a hole in which another whole buffer fits
        ceiling = min(lowest[x] + size[x] for x in part)
        candidates = [
            x
            for k, x in enumerate(part)
            if low <= lowest[x] < ceiling and (lowest[x] > low or k >= first_at_low or may_coincide[x])
        ]
        for x in sorted(candidates, key=lowest.__getitem__):
            if left <= 0:
                left -= 1
                return None
            left -= 1
            at = lowest[x]
            if at + size[x] > capacity:
                next_bound = min(next_bound, at + size[x])
                continue
            raised, split = place(x)
            solved = solve_parts(part, sections, at, x, split) if may_fit(part, sections, at) else False
            undo(x, raised)
            if solved is not False:
                return solved
        return False

    try:
        solved = solve_parts(order, range(len(problem.sections)), 0, -1, True)
    except RecursionError:  # about a thousand buffers
        solved = None
    return _result(solved, offsets, next_bound, tries - left)


def _may_coincide(problem: PlacementProblem) -> list[bool]:
    """Return, for each buffer, whether the rules let it start at the same offset as a buffer that is alive at the same time."""
    may_coincide = [False] * len(problem.buffers)
    for y, gap, _ in chain.from_iterable(problem.conflicts):
        may_coincide[y] |= gap == 0
    return may_coincide


def _result(solved: bool | None, offsets: list[int], next_bound: int, tries: int) -> Result:
    if solved:
        return offsets, 0, tries
    return None, next_bound if solved is False else 0, tries


def _search_in_c(problem: PlacementProblem) -> Search | None:
    """Return a function that runs branch_and_bound.c on this problem, or None if no C compiler is found."""
    library = toolchain.library(SOURCE)
    if library is None:
        return None
    function = library.tw_search
    first, end, weights = problem.by_buffer()
    pairs = list(chain.from_iterable(problem.conflicts))
    lists: tuple[Sequence[int], ...] = (
        *([b.bytes for b in problem.buffers], [b.align for b in problem.buffers], first, end),
        *(_starts(problem.conflicts), [y for y, _, _ in pairs], [gap for _, gap, _ in pairs]),
        *(_starts(weights), list(chain.from_iterable(weights))),
        *(problem.loads, _may_coincide(problem)),
    )
    tables = (ctypes.c_int64(len(problem.buffers)), ctypes.c_int64(len(problem.sections)), *map(_table, lists))

    def run(order: Sequence[int], reorder: bool, capacity: int, tries: int) -> Result:
        left, next_bound, offsets = ctypes.c_int64(tries), ctypes.c_int64(NEVER), _table([0] * len(problem.buffers))
        code = function(
            *(*tables, _table(order), *map(ctypes.c_int64, (len(order), reorder, capacity))),
            *(ctypes.byref(left), ctypes.byref(next_bound), offsets),
        )
        return _result({1: True, 0: False}.get(code), list(offsets), next_bound.value, tries - left.value)

    return run


def _starts(lists: Sequence[Sequence[Any]]) -> list[int]:
    return [0, *accumulate(map(len, lists))]


def _table(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)
