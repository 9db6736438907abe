"""Relocation: placements in which buffers are copied to another offset between steps.

In: buffers, rules, a capacity. Out: which buffers are relocated before which steps, and their offsets. Compacting the live
buffers towards both ends of the arena joins the free bytes, so a capacity that suffices for each step alone suffices for all. A
beam search over the steps keeps the layouts reached with the fewest copied bytes; often no relocation is needed.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from ..plan import Buffer
from .place import Rules

WORK = 50_000_000  # limit on steps times layouts times the cube of the live buffers; a larger search is not attempted
WIDEST, NARROWEST = 64, 4  # beam width: layouts kept per step
MOST_MOVES = 3  # single relocations tried before one step; beyond that all buffers are compacted
CALL = 64  # cost of one call of the copy kernel, in bytes copied

Offsets = tuple[tuple[int, int], ...]  # (offset, buffer's index) of the live buffers, by offset
Movable = Callable[[str, int], bool]  # (name of a buffer, step) -> whether it may be relocated before the step


class Relocation(NamedTuple):
    """A placement with relocations: which buffers are copied before which step, all offsets, and the bytes of the arena."""

    moved: list[tuple[int, str]]  # (step, buffer) in the order in which they run
    offsets: dict[str, list[int]]  # per buffer: the first offset, then the offset after each relocation
    bytes: int


class _State(NamedTuple):
    """A state of the beam search: the offsets of the live buffers, and the cost and steps by which they were reached."""

    cost: int  # bytes copied to reach it, plus CALL bytes per copy
    layout: Offsets
    way: Any  # how it was reached: None, or (the way before, step, buffer, offset) with the last buffer placed


class _Search(NamedTuple):
    """The inputs of the beam search for relocations: buffers, how far they may overlap, capacity and beam width."""

    buffers: Sequence[Buffer]
    overlaps: Sequence[
        dict[int, tuple[int, int]]
    ]  # per buffer x: buffer y -> least bytes by which x must start (below, above) y
    movable: Movable
    capacity: int  # bytes of the arena
    width: int  # layouts kept per step


def find_relocation(
    buffers: Sequence[Buffer], rules: Rules, capacity: int, present: Sequence[Collection[str]], movable: Movable
) -> Relocation | None:
    """Return an offset for each buffer within `capacity` bytes with few, small relocations, or None if the search fails.

    `present` are the buffers that are alive before the first step: state, which is placed at the bottom, and inputs. `movable`
    says whether a buffer (by name) may be relocated before a step.
    """
    index = {buffer.name: x for x, buffer in enumerate(buffers)}
    overlaps: list[dict[int, tuple[int, int]]] = [{} for _ in buffers]
    for (lower, upper), distance in rules.items():
        low, high = index[lower], index[upper]
        sizes = buffers[low].bytes, buffers[high].bytes
        below, above = overlaps[low].get(high, sizes)
        overlaps[low][high] = min(below, distance), above
        overlaps[high][low] = above, min(below, distance)
    steps = max((b.end for b in buffers), default=0)
    busiest = max((sum(b.start <= s < b.end for b in buffers) for s in range(steps)), default=0)
    width = min(WIDEST, WORK // max(1, steps * busiest**3))
    if width < NARROWEST:
        return None
    search = _Search(buffers, overlaps, movable, capacity, width)

    by_size = sorted((x for x, b in enumerate(buffers) if b.bytes), key=lambda x: (-buffers[x].bytes, buffers[x].name))
    staying, leaving = ([x for x in by_size if buffers[x].name in names] for names in present)
    states = [_State(0, (), None)]
    for x in staying:
        states = [_put(state, state.layout, -1, (p, x)) for state in states for p in _starts(search, state.layout, x)[:1]]
    states = _best(search, _fit(search, states, -1, leaving))
    for step in range(steps):
        states = _best(search, [_State(state.cost, _alive(search, state.layout, step), state.way) for state in states])
        starting = [x for x in by_size if buffers[x].start == step and x not in staying and x not in leaving]
        states = _step(search, states, step, starting) if starting else states
    return _relocation(buffers, min(states, key=lambda s: (s.cost, s.layout))) if states else None


def _alive(search: _Search, layout: Offsets, step: int) -> Offsets:
    return tuple(item for item in layout if search.buffers[item[1]].end > step)


def _step(search: _Search, states: list[_State], step: int, starting: list[int]) -> list[_State]:
    """Return the states in which the buffers `starting`, new in this step, are placed, after relocations that free space.

    If they fit without a relocation, relocations of buffers that a starting buffer may overlap are tried as well.
    """
    fits = [_fit(search, [state], step, starting) for state in states]
    fitting = _best(search, [state for of_state in fits for state in of_state])
    most = fitting[-1].cost if len(fitting) == search.width else inf  # a state that costs more would not be kept
    operands = {other for x in starting for other in search.overlaps[x]}
    moved = [
        after
        for state, fitted in zip(states, fits, strict=True)
        for after in _moves(search, state, step, operands if fitted else None, most)
    ]
    for _ in range(MOST_MOVES):
        moved = _best(search, moved)
        fitting += _fit(search, moved, step, starting)
        if fitting:
            break
        moved = [after for state in moved for after in _moves(search, state, step)]
    if not fitting:
        fitting = _fit(search, [slid for state in states[:NARROWEST] for slid in _slides(search, state, step)], step, starting)
    return _best(search, fitting)


def _fit(search: _Search, states: list[_State], step: int, starting: Sequence[int]) -> list[_State]:
    """Return the states that follow `states` if the buffers `starting` are placed too, each at either end of a free hole.

    Before each buffer but the first, all but the cheapest states are dropped.
    """
    for number, x in enumerate(starting):
        states = _best(search, states) if number else states
        states = [_put(state, state.layout, step, (p, x)) for state in states for p in _starts(search, state.layout, x)]
    return states


def _put(state: _State, others: Offsets, step: int, item: tuple[int, int], cost: int = 0) -> _State:
    """Return the state that follows `state` if one more buffer is placed before step `step`."""
    at = bisect(others, item)
    return _State(state.cost + cost, (*others[:at], item, *others[at:]), (state.way, step, *reversed(item)))


def _moves(
    search: _Search, state: _State, step: int, only: Collection[int] | None = None, most: float = inf
) -> Iterator[_State]:
    """Yield the states, of at most `most` cost, after one live buffer (of `only`; None: all) is relocated before `step`."""
    for at, (here, x) in enumerate(state.layout):
        cost = search.buffers[x].bytes + CALL
        if (only is None or x in only) and state.cost + cost <= most and search.movable(search.buffers[x].name, step):
            others = state.layout[:at] + state.layout[at + 1 :]
            for there in _starts(search, others, x):
                if there != here:
                    yield _put(state, others, step, (there, x), cost)


def _slides(search: _Search, state: _State, step: int) -> Iterator[_State]:
    """Yield states in which the live buffers are compacted: the lowest ones moved down, all others up, with one hole between.

    There is a state for each number of buffers that move down. Buffers that may not be relocated stay.
    """
    for count in range(len(state.layout) + 1):
        slid, low, high = state, 0, search.capacity
        for offset, x in (*state.layout[:count], *reversed(state.layout[count:])):
            buffer = search.buffers[x]
            down = (offset, x) in state.layout[:count]
            at = -(-low // buffer.align) * buffer.align if down else (high - buffer.bytes) // buffer.align * buffer.align
            if not search.movable(buffer.name, step):
                at = offset
            if at != offset:
                others = tuple(item for item in slid.layout if item[1] != x)
                slid = _put(slid, others, step, (at, x), buffer.bytes + CALL)
            low, high = (at + buffer.bytes, high) if down else (low, at)
        yield slid


def _starts(search: _Search, layout: Offsets, x: int) -> list[int]:
    """Return the lowest and the highest offset of buffer x in each hole of the layout that it fits in."""
    buffers, overlaps, size, align = search.buffers, search.overlaps[x], search.buffers[x].bytes, search.buffers[x].align
    closed = []  # open intervals in which x cannot start
    for offset, y in layout:
        up, down = overlaps[y] if y in overlaps else (size, buffers[y].bytes)
        closed.append((offset - up, offset + down))
    if overlaps:
        closed.sort()
    highest = (search.capacity - size) // align * align
    offsets = []
    low = 0
    for begin, end in (*closed, (highest, search.capacity + 1)):
        if low <= begin:
            high = min(begin // align * align, highest)
            if low <= high:
                offsets += [low] if low == high else [low, high]
        if end > low:
            low = -(-end // align) * align
    return offsets


def _best(search: _Search, states: Iterable[_State]) -> list[_State]:
    """Return the cheapest states of a beam search, one per layout, at most as many as the beam is wide."""
    cheapest: dict[Offsets, _State] = {}
    for state in states:
        known = cheapest.get(state.layout)
        if known is None or state.cost < known.cost:
            cheapest[state.layout] = state
    return sorted(cheapest.values())[: search.width]  # by cost, then by layout; no two layouts are equal


def _relocation(buffers: Sequence[Buffer], state: _State) -> Relocation:
    """Follow the steps by which a final state was reached, and return their relocations and offsets."""
    moved: list[tuple[int, str]] = []
    offsets: dict[str, list[int]] = {b.name: [] for b in buffers}
    events = []
    way = state.way
    while way is not None:
        way, step, x, offset = way
        events.append((step, buffers[x].name, offset))
    for step, name, offset in reversed(events):
        if offsets[name]:
            moved.append((step, name))
        offsets[name].append(offset)
    for buffer in buffers:
        if not buffer.bytes:
            offsets[buffer.name] = [0]
    return Relocation(moved, offsets, max((at + b.bytes for b in buffers for at in offsets[b.name]), default=0))
