"""Can these buffers lie within `capacity` bytes? In: a Problem, an order, a number of tries. Out: offsets, a proof that they
cannot, or neither when the tries ran out.

Buffers are placed by rising offset, each as low as the placed ones let it: some smallest arena is reached so. What the rest
must need in some section of time prunes; buffers that no longer meet in time are searched apart. Ideas: Moffitt, MiniMalloc,
ASPLOS 2024. branch_and_bound.c is the same in C, for long searches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

from ... import toolchain

SHORT = 20_000  # buffers times sections times tries of a problem for which Python is quick enough: about 4 ms
NEVER = 2**63 - 1
SOURCE = Path(__file__).with_name("branch_and_bound.c")


class Problem(NamedTuple):
    """Buffers by index; time as sections, the moments at which most buffers are alive together.

    near[x]: pairs (y, gap): y conflicts with x, and lies at least `gap` bytes above x's offset when it lies above x.
    weights[x]: what x adds to each of its sections [first, end) at least; load: their sum per section, with what the
    highest buffer may add or save.
    """

    size: Sequence[int]
    align: Sequence[int]
    first: Sequence[int]
    end: Sequence[int]
    near: Sequence[Sequence[tuple[int, int]]]
    weights: Sequence[Sequence[int]]
    load: Sequence[int]


class Answer(NamedTuple):
    """offsets: None when not found. low: 0, or after a complete search in vain: no arena is smaller. tries: those used."""

    offsets: list[int] | None
    low: int
    tries: int


Search = Callable[[Sequence[int], bool, int, int], Answer]  # order, reorder, capacity, tries


def searcher(problem: Problem) -> Search:
    """Return a function that looks for a placement within `capacity` bytes, with at most `tries` placements of one buffer.

    Of several that could go equally low the one in the busiest section is tried first, then the first in `order`; `reorder`:
    busy by what is still to be placed whenever the search falls into parts, not by what was at the beginning.
    """
    cells, spent = len(problem.size) + sum(map(len, problem.weights)), 0

    @lru_cache
    def in_c() -> Search | None:
        return _search_in_c(problem)

    def search(order: Sequence[int], reorder: bool, capacity: int, tries: int) -> Answer:
        nonlocal spent
        run = in_c() if spent + tries * cells > SHORT else None
        answer = run(order, reorder, capacity, tries) if run else search_in_python(problem, order, reorder, capacity, tries)
        spent += answer.tries * cells
        return answer

    return search


def search_in_python(problem: Problem, order: Sequence[int], reorder: bool, capacity: int, tries: int) -> Answer:
    """Search for a placement; the C does the same."""
    size, align, first, end, near, weights, load = problem
    offsets = [0] * len(size)
    lowest = [0] * len(size)  # the offset that the placed buffers leave to each
    placed = [False] * len(size)
    rest = list(load)  # per section what the buffers that are not placed need at least
    crossing = [0] * len(load)  # how many of them are alive in a section and in the next
    for begin, stop in zip(first, end, strict=True):
        for s in range(begin, stop - 1):
            crossing[s] += 1
    standing = {x: k for k, x in enumerate(order)}
    unranked = _unranked(problem)
    left, beyond = tries, NEVER

    def put(x: int) -> tuple[list[tuple[int, int]], bool]:
        """Place x; what that raised, and whether it cut a section from the next."""
        offsets[x] = lowest[x]
        placed[x] = True
        raised = []
        for y, gap in near[x]:
            up = -(-(offsets[x] + gap) // align[y]) * align[y]
            if not placed[y] and lowest[y] < up:
                raised.append((y, lowest[y]))
                lowest[y] = up
        cut = False
        for s, weight in enumerate(weights[x], first[x]):
            rest[s] -= weight
            if s + 1 < end[x]:
                crossing[s] -= 1
                cut |= not crossing[s]
        return raised, cut

    def take_back(x: int, raised: list[tuple[int, int]]) -> None:
        for s, weight in enumerate(weights[x], first[x]):
            rest[s] += weight
            crossing[s] += s + 1 < end[x]
        for y, before in raised:
            lowest[y] = before
        placed[x] = False

    def may_fit(part: list[int], sections: range, at: int) -> bool:
        """Say whether the rest fits above, where nothing more goes below `at`, nor in a section below the lowest of its
        buffers."""
        nonlocal beyond
        begin = sections.start
        floor = [NEVER] * len(sections)
        for x in part:
            if not placed[x]:
                for s in range(first[x] - begin, end[x] - begin):
                    floor[s] = min(floor[s], lowest[x])
        for s, low in enumerate(floor, begin):
            needed = max(low, at) + rest[s]
            if low < NEVER and needed > capacity:
                beyond = min(beyond, needed)
                return False
        return True

    def fill_parts(part: Sequence[int], sections: range, low: int, x: int, cut: bool) -> bool | None:
        """Fill each stretch of sections that no buffer links to the others."""
        begin = sections.start
        for s in sections:
            if s + 1 < sections.stop and (not cut or crossing[s]):
                continue
            inside = [y for y in part if not placed[y] and begin <= first[y] <= s]
            position = 0
            if x < 0 or (cut and reorder):
                inside.sort(key=lambda y: (-max(rest[first[y] : end[y]]), standing[y]))
            else:  # how many of them come before x
                position = sum(1 for y in part[: part.index(x)] if begin <= first[y] <= s)
            filled = fill(inside, range(begin, s + 1), low, position) if inside else True
            if not filled:
                return filled
            begin = s + 1
        return True

    def fill(part: list[int], sections: range, low: int, position: int) -> bool | None:
        """Place all of `part` at `low` or above, at `low` only those from `position` on; None when the tries ran out."""
        nonlocal left, beyond
        # what goes above a whole buffer that would fit below it leaves a hole for nothing
        ceiling = min(lowest[x] + size[x] for x in part)
        candidates = [
            x for k, x in enumerate(part) if low <= lowest[x] < ceiling and (lowest[x] > low or k >= position or unranked[x])
        ]
        for x in sorted(candidates, key=lowest.__getitem__):
            if left <= 0:
                left -= 1
                return None
            left -= 1
            at = lowest[x]
            if at + size[x] > capacity:
                beyond = min(beyond, at + size[x])
                continue
            raised, cut = put(x)
            filled = fill_parts(part, sections, at, x, cut) if may_fit(part, sections, at) else False
            take_back(x, raised)
            if filled is not False:
                return filled
        return False

    try:
        filled = fill_parts(order, range(len(load)), 0, -1, True)
    except RecursionError:  # a thousand buffers deep
        filled = None
    return _answer(filled, offsets, beyond, tries - left)


def _unranked(problem: Problem) -> list[bool]:
    """Return which buffers may start where a buffer starts that they conflict with: those come after it, whatever their
    rank."""
    unranked = [False] * len(problem.size)
    for y, gap in chain.from_iterable(problem.near):
        unranked[y] |= gap == 0
    return unranked


def _answer(filled: bool | None, offsets: list[int], beyond: int, tries: int) -> Answer:
    if filled:
        return Answer(offsets, 0, tries)
    return Answer(None, beyond if filled is False else 0, tries)


def _search_in_c(problem: Problem) -> Search | None:
    """Return the search in C with the problem's tables, or None where nothing can build it."""
    library = toolchain.library(SOURCE)
    if library is None:
        return None
    function = library.tw_search
    size, align, first, end, near, weights, load = problem
    pairs = list(chain.from_iterable(near))
    lists = (
        *(size, align, first, end),
        *(_starts(near), [y for y, _ in pairs], [gap for _, gap in pairs]),
        *(_starts(weights), list(chain.from_iterable(weights))),
        *(load, _unranked(problem)),
    )
    tables = (ctypes.c_int64(len(size)), ctypes.c_int64(len(load)), *map(_table, lists))

    def run(order: Sequence[int], reorder: bool, capacity: int, tries: int) -> Answer:
        left, beyond, offsets = ctypes.c_int64(tries), ctypes.c_int64(NEVER), _table([0] * len(size))
        code = function(
            *(*tables, _table(order), *map(ctypes.c_int64, (len(order), reorder, capacity))),
            *(ctypes.byref(left), ctypes.byref(beyond), offsets),
        )
        return _answer({1: True, 0: False}.get(code), list(offsets), beyond.value, tries - left.value)

    return run


def _starts(lists: Sequence[Sequence[Any]]) -> list[int]:
    return [0, *accumulate(map(len, lists))]


def _table(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)
