"""Placement: an offset for every buffer of one memory.

Two buffers that are alive in the same step share no byte, unless a Rule lets them overlap. First a greedy placement puts one
buffer after the other at the lowest offset that fits, in several orders (Pisarchyk and Lee, arXiv 2001.03288, algorithm 3).
Then an exact search (branch_and_bound.py) looks for a smaller arena, or proves a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd
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


class Rule(NamedTuple):
    """Permission for buffer `lower` to overlap `upper` while both are alive.

    `lower` must start at least `distance` >= 0 bytes before `upper`. If the writes of a kernel trail its reads by `distance`
    bytes, its output is `lower` and its input is `upper`; distance 0 is an in-place operation. Two rules with the buffers
    swapped allow either order. Rules are not transitive, and no three or more of them form a cycle.
    """

    lower: str
    upper: str
    distance: int


class Placement(NamedTuple):
    """The offset of each buffer, the bytes of the arena, and a lower bound on the arena of every placement."""

    offsets: dict[str, int]
    bytes: int
    lower_bound: int

    @property
    def optimal(self) -> bool:
        """Return whether the arena is proved to be the smallest."""
        return self.bytes == self.lower_bound


def lower_bound(buffers: Sequence[Buffer], rules: Sequence[Rule] = ()) -> int:
    """Return a lower bound in bytes on the arena of every placement: the need of the step with the most live bytes."""
    return _bound(buffers, _conflicts(buffers, rules))


def arena_bytes(buffers: Iterable[Buffer], offsets: Mapping[str, int]) -> int:
    """Return the size of the arena: one past the highest byte that a buffer uses."""
    return max((offsets[b.name] + b.bytes for b in buffers), default=0)


def greedy(buffers: Sequence[Buffer], rules: Sequence[Rule] = ()) -> dict[str, int]:
    """Return the offsets of the smallest of several greedy placements."""
    conflicts = _conflicts(buffers, rules)
    return _names(buffers, _greedy(buffers, conflicts, _bound(buffers, conflicts)))


def place(
    buffers: Sequence[Buffer],
    rules: Sequence[Rule] = (),
    tries: int = TRIES,
    enough: int = 0,
    known: Mapping[str, int] | None = None,
) -> Placement:
    """Return the smallest placement found, and a lower bound.

    Args:
        buffers: buffers of one memory.
        rules: which of them may overlap although both are alive.
        tries: limit of the exact search, counted in placements of one buffer; 0 for a greedy placement only.
        enough: arena size in bytes at which the search ends.
        known: offsets of a known placement, returned if no better one is found.
    """
    conflicts = _conflicts(buffers, rules)
    low = _bound(buffers, conflicts)
    best = _greedy(buffers, conflicts, low)
    high = _height(buffers, best)
    if known is not None and arena_bytes(buffers, known) < high:
        best = [known[b.name] for b in buffers]
        high = _height(buffers, best)
    if high <= max(low, enough) or not tries:
        return Placement(_names(buffers, best), high, low)
    search = searcher(_problem(buffers, conflicts))
    orders = [[x for x in _sorted(buffers, key) if buffers[x].bytes] for key in SEARCH_ORDERS]
    settings = [(order, reorder) for reorder in (False, True) for order in orders]

    def decide(capacity: int, limit: int) -> bool:
        """Search for a placement within `capacity` with each order of buffers; return whether `best` or `low` was improved.

        Each search makes at most `limit` tries.
        """
        nonlocal best, high, low, tries
        for order, reorder in settings:
            if tries <= 0:
                return False
            result = search(order, reorder, capacity, min(limit, tries))
            tries -= result.tries
            if result.offsets:
                best, high = result.offsets, _height(buffers, result.offsets)
                return True
            if result.lower_bound:
                low = min(high, result.lower_bound)
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


class _Conflicts(NamedTuple):
    """Which buffers are alive together, and how they may be placed relative to each other; buffers are given by index."""

    pairs: list[list[tuple[int, int, int]]]  # per buffer x, (y, up, down): offset y >= x + up, or offset x >= y + down
    sections: list[list[int]]  # the maximal sets of buffers that are alive together
    overlaps: list[list[tuple[int, int]]]  # per buffer x, (y, up): y may start `up` bytes above x, inside of x


def _conflicts(buffers: Sequence[Buffer], rules: Sequence[Rule]) -> _Conflicts:
    allowed = {(rule.lower, rule.upper): rule.distance for rule in rules}
    if min(allowed.values(), default=0) < 0:
        raise ValueError("a rule has a negative distance")
    conflicts = _Conflicts([[] for _ in buffers], [], [[] for _ in buffers])
    pairs, overlaps = conflicts.pairs, conflicts.overlaps
    alive: list[int] = []
    for start, x in sorted((b.start, x) for x, b in enumerate(buffers) if b.bytes):  # an empty buffer conflicts with none
        a = buffers[x]
        staying = [y for y in alive if buffers[y].end > start]
        if len(staying) < len(alive):
            conflicts.sections.append(alive)
        for y in staying:
            b = buffers[y]
            up, down = a.bytes, b.bytes
            if allowed:
                up = min(up, allowed.get((a.name, b.name), up))
                down = min(down, allowed.get((b.name, a.name), down))
            pairs[x].append((y, up, down))
            pairs[y].append((x, down, up))
            if up < a.bytes:
                overlaps[x].append((y, up))
            if down < b.bytes:
                overlaps[y].append((x, down))
        alive = [*staying, x]
    if alive:
        conflicts.sections.append(alive)
    return conflicts


def _weights(buffers: Sequence[Buffer], conflicts: _Conflicts, section: Sequence[int], grain: int) -> list[int]:
    """Return, for each buffer of a section, the least bytes from its start to the start of the buffer above it.

    A section is a maximal set of buffers that are alive together. Offsets are multiples of `grain`.
    """
    inside, overlaps = set(section), conflicts.overlaps
    ups = [min([buffers[x].bytes, *(up for y, up in overlaps[x] if y in inside)]) for x in section]
    return [-(-up // grain) * grain for up in ups]


def _load(buffers: Sequence[Buffer], section: Sequence[int], weights: Sequence[int]) -> int:
    """Return a lower bound on the bytes of a section (buffers alive together): all weights, with the topmost buffer in full.

    The weight of a buffer is the least bytes from its start to the start of the buffer above it.
    """
    return sum(weights) + min(buffers[x].bytes - weight for x, weight in zip(section, weights, strict=True))


def _grain(buffers: Sequence[Buffer]) -> int:
    """Return the greatest common divisor of the alignments: every offset is a multiple of it."""
    return gcd(*{b.align for b in buffers if b.bytes})


def _bound(buffers: Sequence[Buffer], conflicts: _Conflicts) -> int:
    grain = _grain(buffers)
    bound = 0
    for section in conflicts.sections:
        bound = max(bound, _load(buffers, section, _weights(buffers, conflicts, section, grain)))
        overlaps = {y for x in section for y, _ in conflicts.overlaps[x]}
        if overlaps:  # buffers that overlap no other one count in full
            apart = [x for x in section if x not in overlaps]
            if apart:
                bound = max(bound, _load(buffers, apart, [-(-buffers[x].bytes // grain) * grain for x in apart]))
            bound = max(bound, _overlap_bound(buffers, conflicts, section, grain))
    return bound


def _overlap_bound(buffers: Sequence[Buffer], conflicts: _Conflicts, section: Sequence[int], grain: int) -> int:
    """Return a tighter lower bound on the bytes of a section (buffers alive together) with simple overlaps, else 0.

    Simple means that only one output may overlap operands, or only two buffers each other. The operands above an output are
    best stacked in the order of their distances. The topmost buffer needs no rounding to `grain` bytes.
    """

    def whole(count: int) -> int:
        return -(-count // grain) * grain

    sizes = {x: whole(buffers[x].bytes) for x in section}
    above: dict[int, list[tuple[int, int]]] = {}  # output -> (distance, operand)
    for low in section:
        pairs = [(whole(gap), high) for high, gap in conflicts.overlaps[low] if high in sizes]
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


def _problem(buffers: Sequence[Buffer], conflicts: _Conflicts) -> PlacementProblem:
    grain = _grain(buffers)
    sections = conflicts.sections
    first, end = [0] * len(buffers), [0] * len(buffers)
    weights: list[list[int]] = [[] for _ in buffers]
    load = []
    for index, section in enumerate(sections):
        here = _weights(buffers, conflicts, section, grain)
        load.append(_load(buffers, section, here))
        for x, weight in zip(section, here, strict=True):
            if not weights[x]:
                first[x] = index
            end[x] = index + 1
            weights[x].append(weight)
    gaps = [[(y, up) for y, up, _ in pairs] for pairs in conflicts.pairs]
    return PlacementProblem([b.bytes for b in buffers], [b.align for b in buffers], first, end, gaps, weights, load)


def _greedy(buffers: Sequence[Buffer], conflicts: _Conflicts, bound: int) -> list[int]:
    best: list[int] = []
    height = sum(b.bytes + b.align for b in buffers) + 1
    for key in ORDERS:
        better = _first_fit(buffers, conflicts, _sorted(buffers, key), height)
        if better:
            best, height = better, _height(buffers, better)
            if height == bound:
                break
    return best


def _sorted(buffers: Sequence[Buffer], key: Callable[[Buffer], Any]) -> list[int]:
    return sorted(range(len(buffers)), key=lambda x: key(buffers[x]))


def _first_fit(buffers: Sequence[Buffer], conflicts: _Conflicts, order: Iterable[int], limit: int) -> list[int]:
    """Place each buffer at the lowest offset that the buffers before it in `order` leave free; return all offsets.

    Return [] if the arena reaches `limit` bytes.
    """
    offsets = [0] * len(buffers)
    taken: list[list[tuple[int, int]]] = [[] for _ in buffers]  # per buffer: open intervals in which it cannot start
    for x in order:
        buffer = buffers[x]
        offset = 0
        for begin, end in sorted(taken[x]):
            if offset <= begin:
                break
            if end > offset:
                offset = -(-end // buffer.align) * buffer.align
        if offset + buffer.bytes >= limit:
            return []
        offsets[x] = offset
        for y, up, down in conflicts.pairs[x]:
            taken[y].append((offset - down, offset + up))
    return offsets


def _height(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    return max((offset + b.bytes for offset, b in zip(offsets, buffers, strict=True)), default=0)


def _names(buffers: Sequence[Buffer], offsets: Sequence[int]) -> dict[str, int]:
    return {b.name: offset for offset, b in zip(offsets, buffers, strict=True)}
