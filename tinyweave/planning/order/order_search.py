"""The order of ops with the least peak RAM. In: a Graph and the owner of each tensor's memory. Out: an order and a lower bound.

Live bytes depend only on the set of ops that have run, so an order is a path through such sets. For a limit on the peak,
best-first search finds a path or proves that there is none, which raises the lower bound. Live bytes are submodular in the set.
So if a path reaches a set with no more live bytes than any set before it, all other paths can be dropped. This extends
algorithm 1 of operator reordering (Liberis and Lane, arXiv 1910.05110) by views, scratch, overlaps of inputs and outputs, and
state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

from ...ir import Graph
from ..liveness import alive, lifetimes
from .op_sets import (
    OpSequence,
    OrderProblem,
    Saved,
    bits,
    effect_of,
    least_step_bytes,
    live_after,
    merged_sequences,
    order_problem,
    sequence_of,
)
from .twins import twins_of

MOST_SETS = 150_000  # sets visited by default; one to two seconds
FIRST_BUDGET = 500  # sets visited before another limit or direction is tried
SETS_PER_WIDTH = 50  # the beam's width is the budget divided by this
MOVES_PER_SET = 16  # moves compared in a beam search that count as one visited set
INTERVAL_CAP = 400  # sets visited to confirm a shortcut
CONFIRM_ATTEMPTS = 25
NEVER = 1 << 62


@dataclass(frozen=True)
class Order:
    """An order of ops, by index, with its peak in bytes and a lower bound on the peak of all orders."""

    ops: tuple[int, ...]
    peak: int
    lower_bound: int
    states: int = 0  # sets of ops visited by the search


def file_order(graph: Graph) -> tuple[int, ...]:
    """Return the indices of the ops in the order of the imported file."""
    return tuple(range(len(graph.ops)))


def without_views(graph: Graph) -> dict[str, str]:
    """Return activation -> itself, as the owner of its memory: no tensor shares memory, and a view such as a reshape is a copy.

    The paper on operator reordering (Liberis and Lane) counts RAM in this way.
    """
    return {name: name for name, tensor in graph.tensors.items() if tensor.data is None}


def live_owners(graph: Graph, order: Sequence[int], owner: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return, for each step of an order, the tensors that own the memory in use."""
    return alive(lifetimes(graph, [(index,) for index in order], owner), len(order))


def live_bytes(
    graph: Graph, order: Sequence[int], owner: Mapping[str, str], scratch: Sequence[int] = (), saved: Saved | None = None
) -> list[int]:
    """Return the RAM of each step of an order in bytes: live tensors and scratch, minus the bytes saved by overlaps."""
    live = live_owners(graph, order, owner)
    size = {name: graph.tensors[name].bytes for name in owner.values()}
    step_bytes = [sum(map(size.__getitem__, names)) for names in live]
    persistent = {name for name in owner.values() if graph.tensors[name].role == "state"}.union(
        owner.get(n, n) for n in graph.outputs
    )
    for step, index in enumerate(order):
        last_used = frozenset(live[step]).difference(live[step + 1] if step + 1 < len(order) else persistent)
        step_bytes[step] += (scratch[index] if scratch else 0) - (saved(index, last_used) if saved else 0)
    return step_bytes


def best_order(
    graph: Graph, owner: Mapping[str, str], scratch: Sequence[int] = (), saved: Saved | None = None, *, sets: int = MOST_SETS
) -> Order:
    """Return the order of ops with the least peak RAM, or the best one that a limited search finds.

    Ops that use the same state keep their order; sections of the network without the peak keep the file's order.

    Args:
        sets: how many sets of ops the search visits at most.
    """
    if not graph.ops:
        return Order((), *[max(live_bytes(graph, (), owner), default=0)] * 2)
    problem = order_problem(graph, owner, scratch, saved)
    problem.state_limit = sets
    step_bytes, lower_bounds = live_bytes(graph, file_order(graph), owner, scratch, saved), least_step_bytes(problem)
    bound = max(lower_bounds)
    if max(step_bytes) == bound:
        return Order(file_order(graph), bound, bound)
    problem.sequences = merged_sequences(problem)
    problem.twins = twins_of(problem)
    sections = _sections(problem, step_bytes, lower_bounds)
    while (worst := max(sections, key=lambda section: section.peak)).peak > bound:
        if worst.lower == worst.peak or _out_of_budget(problem):
            break
        _improve(problem, worst, bound)
        bound = max(section.lower for section in sections)
    ops = tuple(index for section in sections for index in section.order)
    peaks = {order: max(live_bytes(graph, order, owner, scratch, saved)) for order in (file_order(graph), ops)}
    ops = min(peaks, key=lambda order: peaks[order])
    return Order(ops, peaks[ops], min(bound, peaks[ops]), problem.states)


@dataclass(eq=False)
class _Section:
    """A part of the network that can be ordered independently, with the best order known.

    It has the ops between the sets of ops `start` and `goal` (bit masks), both of which every order passes through.
    """

    start: int
    goal: int
    order: tuple[int, ...]
    peak: int  # bytes of the best order
    lower: int  # lower bound on the peak of all orders, in bytes
    budget: int  # sets to visit in the next search


def _sections(problem: OrderProblem, step_bytes: list[int], lower_bounds: list[int]) -> list[_Section]:
    """Return the sections of the network, which can be ordered independently of each other, each in the file's order.

    A section has the ops between two sets of executed ops that every order passes through. `step_bytes` are the bytes of each
    step in the file's order; `lower_bounds` the bytes that each op needs in any order.
    """
    sections = []
    for start, goal in pairwise(problem.cuts):
        order = tuple(bits(goal & ~start))
        peak = max(step_bytes[step] for step in range(start.bit_count(), goal.bit_count()))
        sections.append(_Section(start, goal, order, peak, max(lower_bounds[index] for index in order), FIRST_BUDGET))
    return sections


def _peak(problem: OrderProblem, done: int, order: Sequence[int]) -> int:
    live = live_after(problem, done)
    peak = live
    for index in order:
        need, change = effect_of(problem, sequence_of(problem, (index,), 0, 0), done)
        peak, live, done = max(peak, live + need), live + change, done | 1 << index
    return peak


def _out_of_budget(problem: OrderProblem) -> bool:
    return problem.states >= problem.state_limit


def _improve(problem: OrderProblem, section: _Section, bound: int) -> None:
    """Raise the lower bound of a section (part of the network), or replace its order by a better one; else double its budget.

    The section is changed in place. Its budget is the number of sets of ops that a search may visit. `bound` is a lower bound
    on the peak of the whole network, so an order of the section with this peak is good enough.
    """
    lowest = max(section.lower, bound)
    for attempt in range(3):
        limit = (lowest, (lowest + section.peak) // 2, section.peak - 1)[attempt]
        order, exceeded = _order_within(problem, section, limit)
        if order is None and exceeded is None and attempt == 0:
            # neither found nor refuted: a beam search gives the next attempts a lower peak to beat
            orders = [_beam(problem, section, lowest, backward) for backward in (False, True)]
            order = min(orders, key=lambda order: _peak(problem, section.start, order))
        if order is not None and (peak := _peak(problem, section.start, order)) < section.peak:
            section.order, section.peak = order, peak
            if peak <= lowest:
                return
        if exceeded is not None:
            section.lower = min(exceeded, section.peak)
            return
        if _out_of_budget(problem):
            return
    section.budget *= 2


_Way = tuple[OpSequence, Any] | None  # a linked list: the last sequence and the list before it
_Next = tuple[tuple[int, ...], int]  # the sequences that were ready before a step, and the sequence of the step, or START
START = -1


def _beam(problem: OrderProblem, section: _Section, lowest: int, backward: bool) -> tuple[int, ...]:
    """Return an order of the section by beam search.

    The beam keeps the sets of executed ops with the lowest peak RAM (below `lowest` bytes all are equal), then with the fewest
    live bytes. With `backward`, the search begins at the section's end.
    """
    traversal = _Traversal(problem, section.start, section.goal, backward=backward)
    live = live_after(problem, section.goal if backward else section.start)
    beam: list[tuple[int, int, int, _Next, _Way]] = [(lowest, live, traversal.done, (traversal.ready(), START), None)]
    ended: list[tuple[int, _Way]] = []
    while beam:
        longer: dict[int, tuple[int, int, int, _Next, _Way]] = {}
        for peak, live, done, before, way in beam:
            problem.states += 1
            if done == traversal.target:
                ended.append((peak, way))
            ready = traversal.ready_after(done, before)
            moves: list[tuple[int, int, int]] = []
            for position in ready:
                need, change = traversal.effect(position, done)
                if change <= 0 and live + need <= peak:  # lowers memory without a higher peak
                    moves = [(position, need, change)]
                    break
                moves.append((position, need, change))
            problem.states += len(moves) // MOVES_PER_SET
            for position, need, change in moves:
                sequence = problem.sequences[position]
                after, height, now = done | sequence.mask, max(peak, live + need), live + change
                key = traversal.canonical(after)
                if key not in longer or longer[key][:2] > (height, now):
                    longer[key] = (height, now, after, (ready, position), (sequence, way))
        beam = sorted(longer.values(), key=lambda item: item[:2])[: max(4, section.budget // SETS_PER_WIDTH)]
    way, sequences = min(ended, key=lambda item: item[0])[1], []
    while way is not None:
        sequences.append(way[0])
        way = way[1]
    return tuple(index for sequence in (sequences if backward else reversed(sequences)) for index in sequence.ops)


def _order_within(problem: OrderProblem, section: _Section, limit: int) -> tuple[tuple[int, ...] | None, int | None]:
    """Search for an order of a section in which no step needs more than `limit` bytes.

    Return the order and None; or None and the smallest limit that could suffice, if there is no order; or None twice, if the
    budget ran out. The search alternates between the start and the end of the section, each time towards the set that it has
    reached from the other end.
    """
    start, goal = section.start, section.goal
    head: list[OpSequence] = []
    tail: list[OpSequence] = []
    exceeded = NEVER
    stuck = 0
    backward = False
    while stuck < 2:
        traversal = _Traversal(problem, start, goal, backward=backward)
        arrived = traversal.search(limit, section.budget)
        exceeded = min(exceeded, traversal.exceeded)
        if backward:
            tail = traversal.path[::-1] + tail
        else:
            head = head + traversal.path
        if arrived:
            return tuple(index for sequence in head + tail for index in sequence.ops), None
        if arrived is False:
            return None, exceeded
        stuck = 0 if traversal.path else stuck + 1
        start, goal = (start, problem.everything & ~traversal.anchor) if backward else (traversal.anchor, goal)
        backward = not backward and problem.fixed_savings
    return None, None


class _Traversal:
    """One direction of a search from the set of ops `done` to the set `target`: which sequences may follow, and their effects.

    Forward, a set holds the ops that have run. Backward, the search begins at the end, and a set holds the ops undone so far.
    Sequences are given by their position in `problem.sequences`.

    Attributes:
        path: the sequences that `search` has chosen, up to the set `anchor`, which some best path contains.
        exceeded: the smallest need above the limit of `search`, in bytes.
    """

    def __init__(self, problem: OrderProblem, start: int, goal: int, *, backward: bool) -> None:
        self.problem, self.backward = problem, backward
        self.done, self.target = (problem.everything & ~goal, problem.everything & ~start) if backward else (start, goal)
        self.anchor, self.path, self.exceeded = self.done, list[OpSequence](), NEVER
        home = {index: position for position, sequence in enumerate(problem.sequences) for index in sequence.ops}
        self.required = [sequence.successors if backward else sequence.predecessors for sequence in problem.sequences]
        followers = [
            sorted({home[index] for index in bits(sequence.predecessors if backward else sequence.successors)})
            for sequence in problem.sequences
        ]
        self.next = [
            [(p, self.required[p]) for p in following if not problem.sequences[p].mask & ~self.target]
            for following in followers
        ]
        self.known = [(sequence.relevant, sequence.undone if backward else sequence.effects) for sequence in problem.sequences]
        inside = (each.within(goal & ~start) for each in problem.twins)
        self.twins = [each for each in inside if len(each.shifts) > 1]

    def effect(self, position: int, done: int) -> tuple[int, int]:
        """Return how a sequence of ops changes the live bytes: (peak, change), relative to the live bytes after the set `done`.

        Forward, the sequence runs after `done`; the peak is the need of its largest step. Backward, `done` are the ops undone
        so far, and the sequence is undone next.
        """
        sequence = self.problem.sequences[position]
        if not self.backward:
            return effect_of(self.problem, sequence, done)
        if (known := sequence.undone.get(done & sequence.relevant)) is not None:
            return known
        need, change = effect_of(self.problem, sequence, self.problem.everything & ~done & ~sequence.mask)
        sequence.undone[done & sequence.relevant] = need - change, -change
        return need - change, -change

    def canonical(self, done: int) -> int:
        """Return the representative of all sets of ops that differ from `done` only by an exchange of branches."""
        for twins in self.twins:
            done = twins.canonical(done)
        return done

    def within(self, byte_limit: int, done: int, ready: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
        """Return which of the `ready` sequences need at most `byte_limit` more bytes after the set `done`.

        Returns:
            A list of (sequence, change of live bytes), and the least need above the limit, in bytes. If one of these sequences
            does not raise the live bytes, the list has only this sequence.
        """
        children, beyond = [], [NEVER]
        for position in ready:
            relevant, known = self.known[position]
            need, change = known.get(done & relevant) or self.effect(position, done)
            if need > byte_limit:
                beyond.append(need)
            elif change <= 0:
                return [(position, change)], min(beyond)
            else:
                children.append((position, change))
        return children, min(beyond)

    def ready(self) -> tuple[int, ...]:
        """Return the positions of the sequences that may run first: all ops that must precede them are done."""
        return tuple(
            position
            for position, sequence in enumerate(self.problem.sequences)
            if not sequence.mask & self.done and not sequence.mask & ~self.target and not self.required[position] & ~self.done
        )

    def ready_after(self, done: int, step: _Next) -> tuple[int, ...]:
        """Return the positions of the sequences that may run next after the set `done`.

        `step` is (positions of the sequences that were ready one step earlier, position of the one that then ran, or START).
        """
        ready, position = step
        if position == START:
            return ready
        at, missing = ready.index(position), ~done
        return (*ready[:at], *ready[at + 1 :], *[p for p, required in self.next[position] if not required & missing])

    def lowest_between(self, low: int, low_live: int, high: int, high_live: int) -> bool:
        """Return whether all sets between `low` and `high` have at least the live bytes of `high`; False if that is unknown.

        A set is between if it contains `low` and is part of `high`. `low_live` and `high_live` are the live bytes of the two.
        """
        inside = [
            (position, sequence)
            for position, sequence in enumerate(self.problem.sequences)
            if not sequence.mask & ~(high & ~low)
        ]
        seen = {low}
        stack = [(low, low_live)]
        while stack:
            done, live = stack.pop()
            if live < high_live or len(seen) > INTERVAL_CAP:
                return False
            children = []
            for position, sequence in inside:
                if sequence.mask & done or self.required[position] & ~done:
                    continue
                change = self.effect(position, done)[1]
                children.append((done | sequence.mask, live + change))
                if change <= 0:
                    children = children[-1:]
                    break
            for child in children:
                if child[0] not in seen:
                    seen.add(child[0])
                    stack.append(child)
        return True

    def search(self, limit: int, budget: int) -> bool | None:
        """Search for a path to the target on which no step needs more than `limit` bytes; return whether there is one.

        Return None if the search gave up after `budget` sets. A path is a sequence of growing sets of ops. The anchor is the
        set from which the search goes on. A set with no more live bytes than the anchor and than all sets between becomes the
        new anchor, and the search drops all other sets. This loses no solution: if any path leads to the target, one through
        this set does too, because its ops can be added to each later set without more live bytes. For the same reason, if a
        sequence does not raise the live bytes after a set, the search tries no other sequence there.
        """
        problem = self.problem
        anchor_live = live_after(problem, problem.everything & ~self.done if self.backward else self.done)
        looked = attempts = count = 0
        parent: dict[int, tuple[int, OpSequence]] = {}  # since the anchor: set -> the set before it, and the sequence between
        lowest = {self.canonical(self.anchor): anchor_live}
        heap: list[tuple[int, int, int, int, int, _Next]] = [
            (anchor_live, 0, 0, self.anchor, anchor_live, (self.ready(), START))
        ]

        def advance(done: int) -> None:
            """Go on from the set of ops `done` (a bit mask), the new anchor.

            Append the sequences of ops that lead from the old anchor to it to `self.path`.
            """
            sequences, self.anchor = [], done
            while done in parent:
                done, sequence = parent[done]
                sequences.append(sequence)
            self.path += sequences[::-1]

        while heap:
            highest, _, _, done, live, before = heappop(heap)
            if lowest[self.canonical(done)] < highest:
                continue
            if done == self.target:
                advance(done)
                return True
            if done != self.anchor and (live <= anchor_live and attempts < CONFIRM_ATTEMPTS):
                attempts += 1
                if self.lowest_between(self.anchor, anchor_live, done, live):
                    advance(done)
                    anchor_live, attempts, looked, highest = live, 0, 0, live
                    heap.clear()
                    parent.clear()
                    lowest = {self.canonical(done): live}
            looked += 1
            problem.states += 1
            if looked > budget or (looked % 64 == 0 and _out_of_budget(problem)):
                return None
            ready = self.ready_after(done, before)
            children, beyond = self.within(limit - live, done, ready)
            self.exceeded = min(self.exceeded, live + beyond)
            for position, change in children:
                sequence = problem.sequences[position]
                after, now, height = done | sequence.mask, live + change, max(highest, live + change)
                if lowest.get(key := self.canonical(after), NEVER) <= height:
                    continue
                lowest[key], parent[after] = height, (done, sequence)
                count += 1
                heappush(heap, (height, -after.bit_count(), -count, after, now, (ready, position)))
        return False
