"""Placement: an offset for every buffer of one memory.

Two buffers that are alive in the same step share no byte, unless Rules let them overlap. First a greedy placement puts one
buffer after the other at the lowest offset that fits, in several orders (Pisarchyk and Lee, arXiv 2001.03288, algorithm 3).
Then an exact search (branch_and_bound.py) looks for a smaller arena, or proves a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ..plan import Buffer
from .branch_and_bound import PlacementProblem, searcher

TRIES = 1_000_000  # not a time, so that plans do not depend on the machine; well under a second in C
FIRST_TRIES = 400  # of the first search; each following search gets twice as many

ORDERS: tuple[Callable[[Buffer], Any], ...] = (
    lambda b: (-b.bytes, b.start, b.name),
    lambda b: (-b.bytes * (b.end - b.start), b.start, b.name),
    lambda b: (b.start - b.end, -b.bytes, b.name),
    lambda b: (b.start, -b.bytes, b.name),
    lambda b: (-b.end, -b.bytes, b.name),
)
# tie-breaking orders among buffers with the same lowest offset and the same load: longest lifetime first, or largest area first
SEARCH_ORDERS: tuple[Callable[[Buffer], Any], ...] = (
    lambda b: (b.start - b.end, -b.bytes, b.start, b.name),
    lambda b: (-b.bytes * (b.end - b.start), b.start - b.end, b.start, b.name),
)


Rules = Mapping[tuple[str, str], int]
"""Which buffers may overlap while both are alive: (lower, upper) -> the least bytes, at least 0, from `lower` up to `upper`.

For a kernel, `lower` is its output and `upper` its input, and the distance is the most bytes by which its writes, as offsets in
the output, get ahead of the reads that are still to come, as offsets in the input; at 0 it may run in place. Two rules with the
buffers swapped allow either order. Rules are not transitive, and no three or more of them form a cycle.
"""
NO_RULES: Rules = MappingProxyType({})


class Placement(NamedTuple):
    """The offset of each buffer, the bytes of the arena, and a lower bound on the arena of every placement."""

    offsets: dict[str, int]
    bytes: int
    lower_bound: int


def arena_bytes(buffers: Iterable[Buffer], offsets: Mapping[str, int]) -> int:
    """Return the size of the arena: one past the highest byte that a buffer uses."""
    return max((offsets[b.name] + b.bytes for b in buffers), default=0)


def in_order(buffers: Sequence[Buffer], order: Iterable[int]) -> dict[str, int]:
    """Return the offsets of buffers (indices in `order`) that are placed one after the other at the lowest free offset."""
    return _names(buffers, _first_fit(placement_problem(buffers, NO_RULES), order, sum(b.bytes + b.align for b in buffers) + 1))


def place(
    buffers: Sequence[Buffer],
    rules: Rules = NO_RULES,
    tries: int = TRIES,
    enough: int = 0,
    known: Mapping[str, int] | None = None,
) -> Placement:
    """Return the smallest placement found, and a lower bound.

    `tries` limits the exact search, in placements of one buffer; 0 for a greedy placement only. The search ends at an arena of
    `enough` bytes. `known` offsets are returned if no better ones are found.
    """
    problem = placement_problem(buffers, rules)
    low = _bound(problem)
    best = _greedy(problem, low)
    high = _height(buffers, best)
    if known is not None and arena_bytes(buffers, known) < high:
        best = [known[b.name] for b in buffers]
        high = _height(buffers, best)
    if high <= max(low, enough) or not tries:
        return Placement(_names(buffers, best), high, low)
    search = searcher(problem)
    orders = [[x for x in _sorted(buffers, key) if buffers[x].bytes] for key in SEARCH_ORDERS]
    settings = [(order, reorder) for reorder in (False, True) for order in orders]

    def decide(capacity: int, limit: int) -> bool:
        """Search for a placement within `capacity` bytes with each order of buffers, until a search finds or proves something.

        A placement that is found becomes `best`. A higher lower bound on the arena becomes `low`. Return whether there was
        either. Each search makes at most `limit` tries.
        """
        nonlocal best, high, low, tries
        for order, reorder in settings:
            if tries <= 0:
                return False
            offsets, bound, tried = search(order, reorder, capacity, min(limit, tries))
            tries -= tried
            if offsets:
                best, high = offsets, _height(buffers, offsets)
                return True
            if bound:
                low = min(high, bound)
                return True
        return False

    limit = FIRST_TRIES
    while (target := max(low, enough)) < high and tries > 0:
        if not decide(target, limit):  # the bound is usually reached; if not, search between it and the best known
            step = (high - target) // 2
            while step > (high - target) // 64 and not decide(high - step, limit // 4):
                step //= 2
            limit *= 2
    return Placement(_names(buffers, best), high, low)


def placement_problem(buffers: Sequence[Buffer], rules: Rules) -> PlacementProblem:
    """Return the problem of placing these buffers, which overlap only as the rules allow."""
    if min(rules.values(), default=0) < 0:
        raise ValueError("a rule has a negative distance")
    sections, alive = list[list[int]](), list[int]()
    conflicts: list[list[tuple[int, int, int]]] = [[] for _ in buffers]
    overlaps: list[list[tuple[int, int]]] = [[] for _ in buffers]
    for start, x in sorted((b.start, x) for x, b in enumerate(buffers) if b.bytes):  # an empty buffer conflicts with none
        a = buffers[x]
        staying = [y for y in alive if buffers[y].end > start]
        if len(staying) < len(alive):
            sections.append(alive)
        for y in staying:
            b = buffers[y]
            up, down = a.bytes, b.bytes
            if rules:
                up = min(up, rules.get((a.name, b.name), up))
                down = min(down, rules.get((b.name, a.name), down))
            conflicts[x].append((y, up, down))
            conflicts[y].append((x, down, up))
            if up < a.bytes:
                overlaps[x].append((y, up))
            if down < b.bytes:
                overlaps[y].append((x, down))
        alive = [*staying, x]
    if alive:
        sections.append(alive)
    return PlacementProblem(buffers, sections, conflicts, overlaps)


def _bound(problem: PlacementProblem) -> int:
    bound, grain = max(problem.loads, default=0), problem.grain
    for section in problem.sections:
        overlaps = {y for x in section for y, _ in problem.overlaps[x]}
        if overlaps:  # buffers that overlap no other one count in full
            apart = [x for x in section if x not in overlaps]
            if apart:
                bound = max(bound, problem.load(apart, [-(-problem.buffers[x].bytes // grain) * grain for x in apart]))
            bound = max(bound, _overlap_bound(problem, section))
    return bound


def _overlap_bound(problem: PlacementProblem, section: Sequence[int]) -> int:
    """Return a tighter lower bound on the bytes of a section (buffers alive together) with simple overlaps, else 0.

    Simple means that only one output may overlap operands, or only two buffers each other. The operands above an output are
    best stacked in the order of their distances. The topmost buffer needs no rounding to the grain of all offsets.
    """
    buffers, grain = problem.buffers, problem.grain

    def whole(count: int) -> int:
        return -(-count // grain) * grain

    sizes = {x: whole(buffers[x].bytes) for x in section}
    above: dict[int, list[tuple[int, int]]] = {}  # output -> (distance, operand)
    for low in section:
        pairs = [(whole(gap), high) for high, gap in problem.overlaps[low] if high in sizes]
        if pairs:
            above[low] = sorted(pairs)
    joined = set(above).union(high for pairs in above.values() for _, high in pairs)
    if len(above) != 1 and len(joined) != 2:
        return 0
    extents = []
    for low, pairs in above.items():
        end = 0
        for distance, high in pairs:
            end = max(end, distance) + sizes[high]
        extents.append(max(end, sizes[low]))
    unjoined = sum(size for x, size in sizes.items() if x not in joined)
    return unjoined + min(extents) - max(size - buffers[x].bytes for x, size in sizes.items())


def _greedy(problem: PlacementProblem, bound: int) -> list[int]:
    buffers, best = problem.buffers, list[int]()
    height = sum(b.bytes + b.align for b in buffers) + 1
    for key in ORDERS:
        better = _first_fit(problem, _sorted(buffers, key), height)
        if better:
            best, height = better, _height(buffers, better)
            if height == bound:
                break
    return best


def _sorted(buffers: Sequence[Buffer], key: Callable[[Buffer], Any]) -> list[int]:
    return sorted(range(len(buffers)), key=lambda x: key(buffers[x]))


def _first_fit(problem: PlacementProblem, order: Iterable[int], limit: int) -> list[int]:
    """Place each buffer at the lowest offset that those before it in `order` leave free; return [] at `limit` bytes."""
    offsets = [0] * len(problem.buffers)
    taken: list[list[tuple[int, int]]] = [[] for _ in offsets]  # per buffer: open intervals in which it cannot start
    for x in order:
        buffer = problem.buffers[x]
        offset = 0
        for begin, end in sorted(taken[x]):
            if offset <= begin:
                break
            if end > offset:
                offset = -(-end // buffer.align) * buffer.align
        if offset + buffer.bytes >= limit:
            return []
        offsets[x] = offset
        for y, up, down in problem.conflicts[x]:
            taken[y].append((offset - down, offset + up))
    return offsets


def _height(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    return max((offset + b.bytes for offset, b in zip(offsets, buffers, strict=True)), default=0)


def _names(buffers: Sequence[Buffer], offsets: Sequence[int]) -> dict[str, int]:
    return {b.name: offset for offset, b in zip(offsets, buffers, strict=True)}
