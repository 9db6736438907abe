"""Layouts step by step: a placement in which buffers may move between steps, so that the busiest step's need is enough.

In: buffers, rules, a capacity. Out: which buffers move before which steps, and offsets. Sliding all live buffers to the ends of
the arena joins its holes, so a capacity that each step by itself can do with is enough for all of them. A beam search over the
steps keeps the layouts until which the fewest bytes were moved; often none are.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..plan import Buffer
from .place import Rule

WORK = 50_000_000  # what a search may do: steps times layouts times the cube of the live buffers; else there is none
WIDEST, NARROWEST = 64, 4  # layouts kept per step
MOST_MOVES = 3  # before one step, one by one; more only as a slide of all buffers
CALL = 64  # what the call of a move costs, in bytes moved

Layout = tuple[tuple[int, int], ...]  # (offset, buffer's index) of the live buffers, by offset
Movable = Callable[[str, int], bool]  # whether a buffer may move before a step


class Relocation(NamedTuple):
    """moved: (step, buffer), in this order. offsets: of each buffer, first and after each of its moves. bytes: the arena."""

    moved: list[tuple[int, str]]
    offsets: dict[str, list[int]]
    bytes: int


class _State(NamedTuple):
    """A layout, the bytes that were moved until it, and the way to it: (the way before, step, buffer, offset)."""

    cost: int
    layout: Layout
    way: Any


class _Space(NamedTuple):
    """over[x]: what x may overlap, and how far below it, or above it, x must begin at least."""

    buffers: Sequence[Buffer]
    over: Sequence[dict[int, tuple[int, int]]]
    movable: Movable
    capacity: int
    width: int


def find_relocation(
    buffers: Sequence[Buffer],
    rules: Iterable[Rule],
    capacity: int,
    present: Sequence[Collection[str]],
    movable: Movable,
) -> Relocation | None:
    """Return layouts within `capacity` bytes and the moves between them, few and of few bytes; None where none were found.

    `present`: the buffers that are there before the first step, first those that stay for ever, which lie at the bottom, out of
    the way of all others, then the rest.
    """
    index = {buffer.name: x for x, buffer in enumerate(buffers)}
    over: list[dict[int, tuple[int, int]]] = [{} for _ in buffers]
    for low, high, distance in ((index[rule.lower], index[rule.upper], rule.distance) for rule in rules):
        sizes = buffers[low].bytes, buffers[high].bytes
        below, above = over[low].get(high, sizes)
        over[low][high] = min(below, distance), above
        over[high][low] = above, min(below, distance)
    steps = max((b.end for b in buffers), default=0)
    busiest = max((sum(b.start <= s < b.end for b in buffers) for s in range(steps)), default=0)
    width = min(WIDEST, WORK // max(1, steps * busiest**3))
    if width < NARROWEST:
        return None
    space = _Space(buffers, over, movable, capacity, width)

    by_size = sorted((x for x, b in enumerate(buffers) if b.bytes), key=lambda x: (-buffers[x].bytes, buffers[x].name))
    staying, leaving = ([x for x in by_size if buffers[x].name in names] for names in present)
    states = [_State(0, (), None)]
    for x in staying:
        states = [_put(state, state.layout, -1, (p, x)) for state in states for p in _starts(space, state.layout, x)[:1]]
    states = _fit(space, states, -1, leaving)
    for step in range(steps):
        states = _best(space, [state._replace(layout=_alive(space, state.layout, step)) for state in states])
        news = [x for x in by_size if buffers[x].start == step and x not in staying and x not in leaving]
        states = _step(space, states, step, news) if news else states
    return _told(buffers, min(states, key=lambda s: (s.cost, s.layout))) if states else None


def _alive(space: _Space, layout: Layout, step: int) -> Layout:
    return tuple(item for item in layout if space.buffers[item[1]].end > step)


def _step(space: _Space, states: list[_State], step: int, news: list[int]) -> list[_State]:
    """Return the layouts with the buffers that begin in this step, after moves where they need room, or of what they may lie
    over."""
    fitting: list[_State] = []
    moved: list[_State] = []
    operands = {other for x in news for other in space.over[x]}
    for state in states:
        fitted = _fit(space, [state], step, news)
        fitting += fitted
        moved += _moves(space, state, step, operands if fitted else None)
    for _ in range(MOST_MOVES):
        moved = _best(space, moved)
        fitting += _fit(space, moved, step, news)
        if fitting:
            break
        moved = [after for state in moved for after in _moves(space, state, step)]
    if not fitting:
        fitting = _fit(space, [slid for state in states[:NARROWEST] for slid in _slides(space, state, step)], step, news)
    return _best(space, fitting)


def _fit(space: _Space, states: list[_State], step: int, news: Iterable[int]) -> list[_State]:
    """Return the layouts with the new buffers, each at one of the ends of the holes that it fits in."""
    for x in news:
        layouts = [_put(state, state.layout, step, (p, x)) for state in states for p in _starts(space, state.layout, x)]
        states = _best(space, layouts)
    return states


def _put(state: _State, others: Layout, step: int, item: tuple[int, int], cost: int = 0) -> _State:
    """Return the layout of the others and this one."""
    at = bisect(others, item)
    return _State(state.cost + cost, (*others[:at], item, *others[at:]), (state.way, step, *reversed(item)))


def _moves(space: _Space, state: _State, step: int, only: Collection[int] | None = None) -> Iterator[_State]:
    """Yield the layouts after one move, of one of `only` if that is given."""
    for at, (here, x) in enumerate(state.layout):
        if (only is None or x in only) and space.movable(space.buffers[x].name, step):
            others, cost = state.layout[:at] + state.layout[at + 1 :], space.buffers[x].bytes + CALL
            for there in _starts(space, others, x):
                if there != here:
                    yield _put(state, others, step, (there, x), cost)


def _slides(space: _Space, state: _State, step: int) -> Iterator[_State]:
    """Yield the layouts with one hole between the lowest buffers, slid down, and the others, slid up."""
    for count in range(len(state.layout) + 1):
        slid, low, high = state, 0, space.capacity
        for offset, x in (*state.layout[:count], *reversed(state.layout[count:])):
            buffer = space.buffers[x]
            down = (offset, x) in state.layout[:count]
            at = -(-low // buffer.align) * buffer.align if down else (high - buffer.bytes) // buffer.align * buffer.align
            if not space.movable(buffer.name, step):
                at = offset
            if at != offset:
                others = tuple(item for item in slid.layout if item[1] != x)
                slid = _put(slid, others, step, (at, x), buffer.bytes + CALL)
            low, high = (at + buffer.bytes, high) if down else (low, at)
        yield slid


def _starts(space: _Space, layout: Layout, x: int) -> list[int]:
    """Return the lowest and the highest offset of x in each hole that it fits in."""
    buffers, over, size, align = space.buffers, space.over[x], space.buffers[x].bytes, space.buffers[x].align
    closed = []  # open intervals where it cannot start
    for offset, y in layout:
        up, down = over[y] if y in over else (size, buffers[y].bytes)
        closed.append((offset - up, offset + down))
    if over:
        closed.sort()
    highest = (space.capacity - size) // align * align
    offsets = []
    low = 0
    for begin, end in (*closed, (highest, space.capacity + 1)):
        if low <= begin:
            high = min(begin // align * align, highest)
            if low <= high:
                offsets += [low] if low == high else [low, high]
        if end > low:
            low = -(-end // align) * align
    return offsets


def _best(space: _Space, states: Iterable[_State]) -> list[_State]:
    """Return the cheapest layouts, each once."""
    cheapest: dict[Layout, _State] = {}
    for state in states:
        known = cheapest.get(state.layout)
        if known is None or state.cost < known.cost:
            cheapest[state.layout] = state
    return sorted(cheapest.values(), key=lambda state: (state.cost, state.layout))[: space.width]


def _told(buffers: Sequence[Buffer], state: _State) -> Relocation:
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
