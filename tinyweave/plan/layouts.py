"""Layouts step by step: a placement in which buffers may move between steps, so that the busiest step's need is enough.

In: buffers, rules, a capacity. Out: which buffers move before which steps, and offsets. Sliding all live buffers to the ends of
the arena joins its holes, so a capacity that each step by itself can do with is enough for all of them. A beam search over the
steps keeps the layouts until which the fewest bytes were moved; often none are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .place import Rule
from .plan import Buffer

WORK = 3_000_000  # what a search may do: steps times layouts times the square of the live buffers
WIDEST, NARROWEST = 64, 4  # layouts kept per step
MOST_MOVES = 3  # before one step, one by one; more only as a slide of all buffers
CALL = 64  # what the call of a move costs, in bytes moved

Layout = tuple[tuple[int, int], ...]  # (offset, buffer's index) of the live buffers, by offset
Movable = Callable[[str, int], bool]  # whether a buffer may move before a step


class Walk(NamedTuple):
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
    buffers: Sequence[Buffer]
    apart: dict[tuple[int, int], int]  # (a, b): how far b starts above a at least where a rule says less than all of a
    movable: Movable
    capacity: int
    width: int


def find_walk(
    buffers: Sequence[Buffer],
    rules: Iterable[Rule],
    capacity: int,
    given: Sequence[Collection[str]],
    movable: Movable,
) -> Walk | None:
    """Layouts within `capacity` bytes and the moves between them, few and of few bytes; None where none were found.

    `given`: the buffers that are there before the first step, first those that stay for ever, which lie at the bottom, out of
    the way of all others, then the rest.
    """
    index = {buffer.name: x for x, buffer in enumerate(buffers)}
    apart = {(index[r.lower], index[r.upper]): r.distance for r in rules}
    steps = max((b.end for b in buffers), default=0)
    busiest = max((sum(b.start <= s < b.end for b in buffers) for s in range(steps)), default=0)
    width = max(NARROWEST, min(WIDEST, WORK // max(1, steps * busiest * busiest)))
    space = _Space(buffers, apart, movable, capacity, width)

    by_size = sorted((x for x, b in enumerate(buffers) if b.bytes), key=lambda x: (-buffers[x].bytes, buffers[x].name))
    staying, leaving = ([x for x in by_size if buffers[x].name in names] for names in given)
    states = [_State(0, (), None)]
    for x in staying:
        states = [_put(space, state, -1, x, p) for state in states for p in _starts(space, state.layout, x)[:1]]
    states = _fit(space, states, -1, leaving)
    for step in range(steps):
        states = _best(space, [state._replace(layout=_alive(space, state.layout, step)) for state in states])
        news = [x for x in by_size if buffers[x].start == step and x not in staying and x not in leaving]
        states = _step(space, states, step, news) if news else states
    return _told(buffers, min(states, key=lambda s: (s.cost, s.layout))) if states else None


def _alive(space: _Space, layout: Layout, step: int) -> Layout:
    return tuple(item for item in layout if space.buffers[item[1]].end > step)


def _step(space: _Space, states: list[_State], step: int, news: list[int]) -> list[_State]:
    """The layouts with the buffers that begin in this step, after moves where they need room, or of what they may lie over."""
    operands = {upper for lower, upper in space.apart if lower in news}
    fitted = [(state, _fit(space, [state], step, news)) for state in states]
    found = [made for _, several in fitted for made in several]
    moved = [made for state, several in fitted for made in _moves(space, state, step) if not several or made.way[2] in operands]
    for _ in range(MOST_MOVES):
        moved = _best(space, moved)
        found += _fit(space, moved, step, news)
        if found:
            break
        moved = [made for state in moved for made in _moves(space, state, step)]
    if not found:
        found = _fit(space, [slid for state in states[:NARROWEST] for slid in _slides(space, state, step)], step, news)
    return _best(space, found)


def _fit(space: _Space, states: list[_State], step: int, news: Iterable[int]) -> list[_State]:
    """The layouts with the new buffers, each at one of the ends of the holes that it fits in."""
    for x in news:
        states = _best(space, [_put(space, state, step, x, p) for state in states for p in _starts(space, state.layout, x)])
    return states


def _put(space: _Space, state: _State, step: int, x: int, offset: int) -> _State:
    """The layout with a buffer at an offset; that is a move when it lies elsewhere."""
    others = [item for item in state.layout if item[1] != x]
    cost = state.cost + (space.buffers[x].bytes + CALL if len(others) < len(state.layout) else 0)
    return _State(cost, tuple(sorted((*others, (offset, x)))), (state.way, step, x, offset))


def _moves(space: _Space, state: _State, step: int) -> Iterator[_State]:
    """The layouts after one move."""
    for here, x in state.layout:
        if space.movable(space.buffers[x].name, step):
            others = tuple(item for item in state.layout if item[1] != x)
            yield from (_put(space, state, step, x, there) for there in _starts(space, others, x) if there != here)


def _slides(space: _Space, state: _State, step: int) -> Iterator[_State]:
    """The layouts with one hole between the lowest buffers, slid down, and the others, slid up."""
    for count in range(len(state.layout) + 1):
        slid, low, high = state, 0, space.capacity
        for offset, x in (*state.layout[:count], *reversed(state.layout[count:])):
            buffer = space.buffers[x]
            down = (offset, x) in state.layout[:count]
            at = -(-low // buffer.align) * buffer.align if down else (high - buffer.bytes) // buffer.align * buffer.align
            if not space.movable(buffer.name, step):
                at = offset
            slid = slid if at == offset else _put(space, slid, step, x, at)
            low, high = (at + buffer.bytes, high) if down else (low, at)
        yield slid


def _starts(space: _Space, layout: Layout, x: int) -> list[int]:
    """The lowest and the highest offset of x in each hole that it fits in."""
    buffer = space.buffers[x]
    size, align = buffer.bytes, buffer.align
    closed = []  # open intervals where it cannot start
    for offset, y in layout:
        above, below = space.apart.get((y, x)), space.apart.get((x, y))
        other = space.buffers[y].bytes
        up = size if below is None else min(size, below)
        down = other if above is None else min(other, above)
        closed.append((offset - up, offset + down))
    found = []
    low = 0
    for begin, end in (*sorted(closed), (space.capacity - size, space.capacity + 1)):
        high = min(begin, space.capacity - size) // align * align
        if low <= high:
            found += [low] if low == high else [low, high]
        low = max(low, -(-end // align) * align)
    return found


def _best(space: _Space, states: Iterable[_State]) -> list[_State]:
    """The cheapest layouts, each once."""
    cheapest: dict[Layout, _State] = {}
    for state in states:
        known = cheapest.get(state.layout)
        if known is None or state.cost < known.cost:
            cheapest[state.layout] = state
    return sorted(cheapest.values(), key=lambda state: (state.cost, state.layout))[: space.width]


def _told(buffers: Sequence[Buffer], state: _State) -> Walk:
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
    return Walk(moved, offsets, max((at + b.bytes for b in buffers for at in offsets[b.name]), default=0))
