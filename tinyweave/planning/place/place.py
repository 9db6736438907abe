"""Placement: an offset for every buffer, so that buffers alive in the same step share no byte, or only as a rule allows.

In: buffers of one memory, rules. Out: offsets. For searches `greedy`: one buffer after the other at the lowest offset that
fits (Pisarchyk and Lee, arXiv 2001.03288, algorithm 3), in several orders. For final plans `place`: an arena that is proved
to be the smallest, or the gap to what is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd
from typing import Any, NamedTuple

from ..plan import Buffer
from .branch_and_bound import Problem, searcher

TRIES = 1_000_000  # a count, not a time: the same model gives the same plan everywhere; well under a second in C
FIRST_TRIES = 400  # of the first searches; the next ones get twice as many each

ORDERS: tuple[Callable[[Buffer], Any], ...] = (
    lambda b: (-b.bytes, b.start, b.name),
    lambda b: (-b.bytes * (b.end - b.start), b.start, b.name),
    lambda b: (b.start - b.end, -b.bytes, b.name),
    lambda b: (b.start, -b.bytes, b.name),
    lambda b: (-b.end, -b.bytes, b.name),
)
# of several buffers that could go equally low: the longest-lived first, or the largest (the search tries the busiest before)
SEARCH_ORDERS: tuple[Callable[[Buffer], Any], ...] = (
    lambda b: (b.start - b.end, -b.bytes, b.start, b.name),
    lambda b: (-b.bytes * (b.end - b.start), b.start - b.end, b.start, b.name),
)


class Rule(NamedTuple):
    """Buffer `lower` may overlap `upper` although both are alive: when it starts at least `distance` >= 0 bytes before it.

    So a kernel whose writes trail its reads by `distance` bytes has its output `lower`, its input `upper`; 0 is in place.
    Two rules that swap the buffers allow either. No rule follows from others, and none run in a circle of three or more.
    """

    lower: str
    upper: str
    distance: int


class Placement(NamedTuple):
    """offsets: by buffer name. bytes: the arena. lower_bound: proved of all placements of these buffers by these rules."""

    offsets: dict[str, int]
    bytes: int
    lower_bound: int

    @property
    def optimal(self) -> bool:
        return self.bytes == self.lower_bound


def lower_bound(buffers: Sequence[Buffer], rules: Sequence[Rule] = ()) -> int:
    """Return the bytes that the busiest step needs: no placement of these buffers needs less."""
    return _bound(buffers, _meetings(buffers, rules))


def arena_bytes(buffers: Iterable[Buffer], offsets: Mapping[str, int]) -> int:
    """Return one past the highest byte in use."""
    return max((offsets[b.name] + b.bytes for b in buffers), default=0)


def greedy(buffers: Sequence[Buffer], rules: Sequence[Rule] = ()) -> dict[str, int]:
    """Return buffer name -> offset, the best of several greedy orders."""
    meetings = _meetings(buffers, rules)
    return _names(buffers, _greedy(buffers, meetings, _bound(buffers, meetings)))


def place(
    buffers: Sequence[Buffer],
    rules: Sequence[Rule] = (),
    tries: int = TRIES,
    enough: int = 0,
    known: Mapping[str, int] | None = None,
) -> Placement:
    """Return the smallest arena that `tries` placements of one buffer find, and what is proved of smaller ones.

    An arena of at most `enough` bytes ends the search: for those who ask whether something fits, not how well. `known`
    offsets are the result where nothing better is found.
    """
    meetings = _meetings(buffers, rules)
    low = _bound(buffers, meetings)
    best = _greedy(buffers, meetings, low)
    high = _height(buffers, best)
    if known is not None and arena_bytes(buffers, known) < high:
        best = [known[b.name] for b in buffers]
        high = _height(buffers, best)
    if high <= max(low, enough) or not tries:
        return Placement(_names(buffers, best), high, low)
    search = searcher(_problem(buffers, meetings))
    orders = [[x for x in _sorted(buffers, key) if buffers[x].bytes] for key in SEARCH_ORDERS]
    ways = [(order, reorder) for reorder in (False, True) for order in orders]

    def decide(capacity: int, limit: int) -> bool:
        """Search within `capacity` in all ways; whether `best` or `low` is better now."""
        nonlocal best, high, low, tries
        for order, reorder in ways:
            if tries <= 0:
                return False
            answer = search(order, reorder, capacity, min(limit, tries))
            tries -= answer.tries
            if answer.offsets:
                best, high = answer.offsets, _height(buffers, answer.offsets)
                return True
            if answer.low:
                low = min(high, answer.low)
                return True
        return False

    limit = FIRST_TRIES
    while (wanted := max(low, enough)) < high and tries > 0:
        if not decide(wanted, limit):  # mostly the bound can be had; else look between it and the best
            step = (high - wanted) // 2
            while step > (high - wanted) // 64 and not decide(high - step, limit // 4):
                step //= 2
            limit *= 2
    return Placement(_names(buffers, best), high, low)


class _Meetings(NamedTuple):
    """near[x]: (y, up, down) of every y alive with x: either offset(y) >= offset(x) + up, or offset(x) >= offset(y) + down.

    sections: which buffers are alive together, without the sets that are part of another. over[x]: (y, up)
    of every y above which x may begin less than all its bytes below.
    """

    near: list[list[tuple[int, int, int]]]
    sections: list[list[int]]
    over: list[list[tuple[int, int]]]


def _meetings(buffers: Sequence[Buffer], rules: Sequence[Rule]) -> _Meetings:
    allowed = {(rule.lower, rule.upper): rule.distance for rule in rules}
    if min(allowed.values(), default=0) < 0:
        raise ValueError("a rule has a negative distance")
    meetings = _Meetings([[] for _ in buffers], [], [[] for _ in buffers])
    near, over = meetings.near, meetings.over
    alive: list[int] = []
    for start, x in sorted((b.start, x) for x, b in enumerate(buffers) if b.bytes):  # an empty one meets nobody
        a = buffers[x]
        staying = [y for y in alive if buffers[y].end > start]
        if len(staying) < len(alive):
            meetings.sections.append(alive)
        for y in staying:
            b = buffers[y]
            up, down = a.bytes, b.bytes
            if allowed:
                up = min(up, allowed.get((a.name, b.name), up))
                down = min(down, allowed.get((b.name, a.name), down))
            near[x].append((y, up, down))
            near[y].append((x, down, up))
            if up < a.bytes:
                over[x].append((y, up))
            if down < b.bytes:
                over[y].append((x, down))
        alive = [*staying, x]
    if alive:
        meetings.sections.append(alive)
    return meetings


def _weights(buffers: Sequence[Buffer], meetings: _Meetings, section: Sequence[int], grain: int) -> list[int]:
    """Return for each buffer of a section how far above it the next one starts at least."""
    inside, over = set(section), meetings.over
    ups = [min([buffers[x].bytes, *(up for y, up in over[x] if y in inside)]) for x in section]
    return [-(-up // grain) * grain for up in ups]


def _load(buffers: Sequence[Buffer], section: Sequence[int], weights: Sequence[int]) -> int:
    """Return what a section needs at least: all weights, but of the highest buffer all its bytes."""
    return sum(weights) + min(buffers[x].bytes - weight for x, weight in zip(section, weights, strict=True))


def _grain(buffers: Sequence[Buffer]) -> int:
    """Return the number of which all offsets are multiples."""
    return gcd(*{b.align for b in buffers if b.bytes})


def _bound(buffers: Sequence[Buffer], meetings: _Meetings) -> int:
    grain = _grain(buffers)
    bound = 0
    for section in meetings.sections:
        bound = max(bound, _load(buffers, section, _weights(buffers, meetings, section, grain)))
        over = {y for x in section for y, _ in meetings.over[x]}
        if over:  # without those that may lie over another one, all bytes count
            apart = [x for x in section if x not in over]
            if apart:
                bound = max(bound, _load(buffers, apart, [-(-buffers[x].bytes // grain) * grain for x in apart]))
            bound = max(bound, _overlapped(buffers, meetings, section, grain))
    return bound


def _overlapped(buffers: Sequence[Buffer], meetings: _Meetings, section: Sequence[int], grain: int) -> int:
    """Return what a section needs where one output may lie over others, or two buffers either way; 0 for other rules.

    The operands above the output are best stacked in the order of their distances; the highest buffer needs no rounding.
    """

    def whole(count: int) -> int:
        return -(-count // grain) * grain

    sizes = {x: whole(buffers[x].bytes) for x in section}
    above: dict[int, list[tuple[int, int]]] = {}  # output -> (distance, operand)
    for low in section:
        pairs = [(whole(gap), high) for high, gap in meetings.over[low] if high in sizes]
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


def _problem(buffers: Sequence[Buffer], meetings: _Meetings) -> Problem:
    grain = _grain(buffers)
    sections = meetings.sections
    first, end = [0] * len(buffers), [0] * len(buffers)
    weights: list[list[int]] = [[] for _ in buffers]
    load = []
    for index, section in enumerate(sections):
        here = _weights(buffers, meetings, section, grain)
        load.append(_load(buffers, section, here))
        for x, weight in zip(section, here, strict=True):
            if not weights[x]:
                first[x] = index
            end[x] = index + 1
            weights[x].append(weight)
    near = [[(y, up) for y, up, _ in pairs] for pairs in meetings.near]
    return Problem([b.bytes for b in buffers], [b.align for b in buffers], first, end, near, weights, load)


def _greedy(buffers: Sequence[Buffer], meetings: _Meetings, bound: int) -> list[int]:
    best: list[int] = []
    height = sum(b.bytes + b.align for b in buffers) + 1
    for key in ORDERS:
        better = _first_fit(buffers, meetings, _sorted(buffers, key), height)
        if better:
            best, height = better, _height(buffers, better)
            if height == bound:
                break
    return best


def _sorted(buffers: Sequence[Buffer], key: Callable[[Buffer], Any]) -> list[int]:
    return sorted(range(len(buffers)), key=lambda x: key(buffers[x]))


def _first_fit(buffers: Sequence[Buffer], meetings: _Meetings, order: Iterable[int], limit: int) -> list[int]:
    """Return each buffer at the lowest offset that the ones before it leave; empty when the arena is not below `limit`."""
    offsets = [0] * len(buffers)
    taken: list[list[tuple[int, int]]] = [[] for _ in buffers]  # per buffer the open intervals where it cannot start
    for x in order:
        buffer = buffers[x]
        align = buffer.align
        offset = 0
        for begin, end in sorted(taken[x]):
            if offset <= begin:
                break
            if end > offset:
                offset = -(-end // align) * align
        if offset + buffer.bytes >= limit:
            return []
        offsets[x] = offset
        for y, up, down in meetings.near[x]:
            taken[y].append((offset - down, offset + up))
    return offsets


def _height(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    return max((offset + b.bytes for offset, b in zip(offsets, buffers, strict=True)), default=0)


def _names(buffers: Sequence[Buffer], offsets: Sequence[int]) -> dict[str, int]:
    return {b.name: offset for offset, b in zip(offsets, buffers, strict=True)}
