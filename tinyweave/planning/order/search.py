"""The order in which ops run. In: a Graph and who shares bytes with whom. Out: the order with the least peak, and a proof.

Live bytes depend only on the set of ops that have run, so an order is a path through such sets. For a limit, best-first
search finds a path or proves that there is none, which raises the lower bound. Live bytes are submodular in the set: what
leads to a set with no more of them loses nothing, and all other sets are dropped. Extends the problem of algorithm 1 of
operator reordering (Liberis and Lane, arXiv 1910.05110) by views, scratch, bytes that input and output share, and state.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

from ...ir import Graph
from ..liveness import alive, lifetimes
from .op_sets import Network, OpSequence, Saved, bits, effect_of, least_step_bytes, live_after, network_of, run_of, runs_of

MOST_SETS = 150_000  # looked at in one to two seconds
FIRST_BUDGET = 500  # sets of ops looked at before another limit or direction is tried
SETS_PER_WIDTH = 50  # the beam's width is the budget by this
MOVES_PER_SET = 16  # moves that a beam weighs count as one more set
INTERVAL_CAP = 400  # sets looked at to confirm a shortcut
CONFIRM_ATTEMPTS = 25
NEVER = 1 << 62


@dataclass(frozen=True)
class Order:
    """Indices of the graph's ops; no order has a lower peak than lower_bound. states: sets of ops that were looked at."""

    ops: tuple[int, ...]
    peak: int
    lower_bound: int
    states: int = 0

    @property
    def gap(self) -> int:
        """Return the bytes between the peak and the bound: 0 means that no order is better."""
        return self.peak - self.lower_bound


def file_order(graph: Graph) -> tuple[int, ...]:
    """Return the order of the imported file, which `ir.verify` has proved to be executable."""
    return tuple(range(len(graph.ops)))


def each_its_own(graph: Graph) -> dict[str, str]:
    """Return each activation as the owner of its bytes: the `working_set` count of the reordering paper, which knows no
    views."""
    return {name: name for name, tensor in graph.tensors.items() if tensor.data is None}


def live_owners(graph: Graph, order: Sequence[int], owner: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return per step the owners of bytes that are alive in it: inputs, outputs, and what later steps or the caller read."""
    return alive(lifetimes(graph, [(index,) for index in order], owner), len(order))


def live_bytes(
    graph: Graph,
    order: Sequence[int],
    owner: Mapping[str, str],
    scratch: Sequence[int] = (),
    saved: Saved | None = None,
) -> list[int]:
    """Return per step the bytes that it needs: all that is alive in it and its scratch, less what its output shares."""
    live = live_owners(graph, order, owner)
    size = {name: graph.tensors[name].bytes for name in owner.values()}
    step_bytes = [sum(map(size.__getitem__, names)) for names in live]
    persistent = {name for name in owner.values() if graph.tensors[name].role == "state"}.union(
        owner.get(n, n) for n in graph.outputs
    )
    for step, index in enumerate(order):
        dying = frozenset(live[step]).difference(live[step + 1] if step + 1 < len(order) else persistent)
        step_bytes[step] += (scratch[index] if scratch else 0) - (saved(index, dying) if saved else 0)
    return step_bytes


def best_order(
    graph: Graph,
    owner: Mapping[str, str],
    scratch: Sequence[int] = (),
    saved: Saved | None = None,
    *,
    sets: int = MOST_SETS,
    seconds: float = math.inf,
) -> Order:
    """Return the order with the least peak of `live_bytes`, or the best one that `sets` sets of ops lead to.

    `owner` as `overlap.views` gives it; `scratch` per op. Ops that touch one state keep their order; parts of the network
    that do not hold the peak keep the file's. The same graph gives the same order, unless `seconds` end the search.
    """
    if not graph.ops:
        return Order((), *[max(live_bytes(graph, (), owner), default=0)] * 2)
    net = network_of(graph, owner, scratch, saved)
    net.state_limit, net.deadline = sets, time.monotonic() + seconds
    step_bytes, lower_bounds = live_bytes(graph, file_order(graph), owner, scratch, saved), least_step_bytes(net)
    bound = max(lower_bounds)
    if max(step_bytes) == bound:
        return Order(file_order(graph), bound, bound)
    net.runs = runs_of(net)
    parts = _parts(net, step_bytes, lower_bounds)
    while (worst := max(parts, key=lambda p: p.peak)).peak > bound:
        if worst.lower == worst.peak or _spent(net):
            break
        _improve(net, worst, bound)
        bound = max(part.lower for part in parts)
    ops = tuple(index for part in parts for index in part.order)
    peaks = {order: max(live_bytes(graph, order, owner, scratch, saved)) for order in (file_order(graph), ops)}
    ops = min(peaks, key=lambda order: peaks[order])
    return Order(ops, peaks[ops], min(bound, peaks[ops]), net.states)


@dataclass(eq=False)
class _Section:
    """The ops between two sets that every order passes through: the best order known, and the bound of all orders."""

    start: int
    goal: int
    order: tuple[int, ...]
    peak: int
    lower: int
    budget: int


def _parts(net: Network, step_bytes: list[int], lower_bounds: list[int]) -> list[_Section]:
    """Return the network between its cuts, in the file's order; lower_bounds: bytes that each op needs in every order."""
    parts = []
    for start, goal in pairwise(net.cuts):
        order = tuple(bits(goal & ~start))
        peak = max(step_bytes[step] for step in range(start.bit_count(), goal.bit_count()))
        parts.append(_Section(start, goal, order, peak, max(lower_bounds[index] for index in order), FIRST_BUDGET))
    return parts


def _peak(net: Network, done: int, order: Sequence[int]) -> int:
    live = live_after(net, done)
    peak = live
    for index in order:
        need, change = effect_of(net, run_of(net, (index,), 0, 0), done)
        peak, live, done = max(peak, live + need), live + change, done | 1 << index
    return peak


def _spent(net: Network) -> bool:
    return net.states >= net.state_limit or time.monotonic() > net.deadline


def _improve(net: Network, part: _Section, bound: int) -> None:
    """Raise the part's bound or find a better order of it; its budget doubles when neither is done."""
    lowest = max(part.lower, bound)
    for attempt in range(3):
        limit = (lowest, (lowest + part.peak) // 2, part.peak - 1)[attempt]
        order, exceeded = _order_within(net, part, limit)
        if order is None and exceeded is None and attempt == 0:
            # neither found nor refuted: a beam gives the searches that follow a lower peak to beat
            order = min((_beam(net, part, lowest, way) for way in (False, True)), key=lambda o: _peak(net, part.start, o))
        if order is not None and (peak := _peak(net, part.start, order)) < part.peak:
            part.order, part.peak = order, peak
            if peak <= lowest:
                return
        if exceeded is not None:
            part.lower = min(exceeded, part.peak)
            return
        if _spent(net):
            return
    part.budget *= 2


_Way = tuple[OpSequence, Any] | None  # the last run and the way before it
_Next = tuple[tuple[int, ...], int]  # the runs that could come before a step, and the one that did, or START
START = -1


def _beam(net: Network, part: _Section, lowest: int, backward: bool) -> tuple[int, ...]:
    """Return an order of the part, step by step from those with the lowest peaks, then the fewest live bytes, until then."""
    walk = _Walk(net, part.start, part.goal, backward=backward)
    live = live_after(net, part.goal if backward else part.start)
    beam: dict[int, tuple[int, int, _Next, _Way]] = {walk.done: (lowest, live, (walk.ready(), START), None)}
    ended: list[tuple[int, _Way]] = []
    while beam:
        longer: dict[int, tuple[int, int, _Next, _Way]] = {}
        for done, (peak, live, before, way) in beam.items():
            net.states += 1
            if done == walk.target:
                ended.append((peak, way))
            ready = walk.ready_after(done, before)
            moves: list[tuple[int, int, int]] = []
            for position in ready:
                need, change = walk.effect(position, done)
                if change <= 0 and live + need <= peak:  # costs nothing, so that it loses nothing to go first
                    moves = [(position, need, change)]
                    break
                moves.append((position, need, change))
            net.states += len(moves) // MOVES_PER_SET
            for position, need, change in moves:
                run = net.runs[position]
                after, height, now = done | run.mask, max(peak, live + need), live + change
                if after not in longer or longer[after][:2] > (height, now):
                    longer[after] = (height, now, (ready, position), (run, way))
        persistent = sorted(longer.items(), key=lambda item: item[1][:2])[: max(4, part.budget // SETS_PER_WIDTH)]
        beam = dict(persistent)
    way, runs = min(ended, key=lambda item: item[0])[1], []
    while way is not None:
        runs.append(way[0])
        way = way[1]
    return tuple(index for run in (runs if backward else reversed(runs)) for index in run.ops)


def _order_within(net: Network, part: _Section, limit: int) -> tuple[tuple[int, ...] | None, int | None]:
    """Return an order of the part that needs at most `limit`; or None and the least limit that may be enough; or None, None.

    Searches from both ends in turns, each from where the other was left, as long as they move.
    """
    start, goal = part.start, part.goal
    head: list[OpSequence] = []
    tail: list[OpSequence] = []
    exceeded = NEVER
    stuck = 0
    backward = False
    while stuck < 2:
        result = _search(net, start, goal, limit, budget=part.budget, backward=backward)
        exceeded = min(exceeded, result.exceeded)
        if backward:
            tail = result.path[::-1] + tail
        else:
            head = head + result.path
        if result.arrived:
            return tuple(index for run in head + tail for index in run.ops), None
        if result.exhausted:
            return None, exceeded
        stuck = 0 if result.path else stuck + 1
        start, goal = (start, result.anchor) if backward else (result.anchor, goal)
        backward = not backward and net.steady
    return None, None


@dataclass(eq=False)
class _SearchResult:
    """arrived: `path` leads to the goal. exhausted: nothing does. Else it leads to `anchor`, and nothing is lost by it."""

    anchor: int
    path: list[OpSequence]
    exceeded: int
    arrived: bool = False
    exhausted: bool = False


def _search(net: Network, start: int, goal: int, limit: int, *, budget: int, backward: bool) -> _SearchResult:
    """Look for a path from `start` to `goal`, or back, on which no step needs more than `limit`.

    Whenever a set is reached with no more live bytes than the anchor has and than all sets between the two, it becomes
    the anchor: adding its ops to any later set of any path leaves no more bytes alive there, so a path from it exists if
    there is one at all. The same holds for a single run that lowers memory, from any set.
    """
    walk = _Walk(net, start, goal, backward=backward)
    anchor, path = walk.done, list[OpSequence]()
    anchor_live = live_after(net, goal if backward else start)
    exceeded, looked, attempts = NEVER, 0, 0
    parent: dict[int, tuple[int, OpSequence | None]] = {}
    heap: list[tuple[int, int, int, int, int, _Next]] = []
    lowest: dict[int, int] = {}

    def restart(done: int, live: int) -> None:
        heap.clear()
        parent.clear()
        lowest.clear()
        parent[done] = (done, None)
        lowest[done] = live

    def way(done: int) -> list[OpSequence]:
        runs = []
        while (step := parent[done])[1] is not None:
            runs.append(step[1])
            done = step[0]
        return runs[::-1]

    def result(**outcome: bool) -> _SearchResult:
        end = net.everything & ~anchor if backward else anchor
        return _SearchResult(end, path, exceeded, **outcome)

    restart(anchor, anchor_live)
    heap.append((anchor_live, 0, 0, anchor, anchor_live, (walk.ready(), START)))
    count = 0
    while heap:
        highest, _, _, done, live, before = heappop(heap)
        if lowest[done] < highest:
            continue
        if done == walk.target:
            path += way(done)
            anchor = done
            return result(arrived=True)
        if done != anchor and (live <= anchor_live and attempts < CONFIRM_ATTEMPTS):
            attempts += 1
            if walk.lowest_between(anchor, anchor_live, done, live):
                path += way(done)
                anchor, anchor_live, attempts, looked = done, live, 0, 0
                restart(done, live)
                highest = live
        looked += 1
        net.states += 1
        if looked > budget or (looked % 64 == 0 and _spent(net)):
            return result()
        ready = walk.ready_after(done, before)
        children, beyond = walk.within(limit - live, done, ready)
        exceeded = min(exceeded, live + beyond)
        for position, change in children:
            run = net.runs[position]
            after = done | run.mask
            now = live + change
            height = max(highest, now)
            if lowest.get(after, NEVER) <= height:
                continue
            lowest[after] = height
            parent[after] = (done, run)
            count += 1
            heappush(heap, (height, -after.bit_count(), -count, after, now, (ready, position)))
    return result(exhausted=True)


class _Walk:
    """From one set of ops to another, `done` to `target`, forward or backward: a backward set holds the ops taken back.

    required: per run what must be in the set before it. next: per run those that may follow it.
    """

    def __init__(self, net: Network, start: int, goal: int, *, backward: bool) -> None:
        self.net, self.backward = net, backward
        self.done, self.target = (net.everything & ~goal, net.everything & ~start) if backward else (start, goal)
        home = {index: position for position, run in enumerate(net.runs) for index in run.ops}
        self.required = [run.after if backward else run.before for run in net.runs]
        followers = [sorted({home[index] for index in bits(run.before if backward else run.after)}) for run in net.runs]
        self.next = [
            [(p, self.required[p]) for p in following if not net.runs[p].mask & ~self.target] for following in followers
        ]
        self.known = [(run.relevant, run.undone if backward else run.effects) for run in net.runs]

    def effect(self, position: int, done: int) -> tuple[int, int]:
        """Return what a run needs after `done` beyond the bytes alive before it, and by how much it changes them."""
        run = self.net.runs[position]
        if not self.backward:
            return effect_of(self.net, run, done)
        if (known := run.undone.get(done & run.relevant)) is not None:
            return known
        need, change = effect_of(self.net, run, self.net.everything & ~done & ~run.mask)
        run.undone[done & run.relevant] = need - change, -change
        return need - change, -change

    def within(self, byte_limit: int, done: int, ready: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
        """Return the runs of `ready` that need at most `byte_limit` bytes more, or only the first of them that lowers memory,
        with how they change it; and the least need of those before that need more."""
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
        """Return the runs that may come first."""
        return tuple(
            position
            for position, run in enumerate(self.net.runs)
            if not run.mask & self.done and not run.mask & ~self.target and not self.required[position] & ~self.done
        )

    def ready_after(self, done: int, step: _Next) -> tuple[int, ...]:
        """Return the runs that may come after the step that has led to `done`."""
        ready, position = step
        if position == START:
            return ready
        at, missing = ready.index(position), ~done
        return (*ready[:at], *ready[at + 1 :], *[p for p, required in self.next[position] if not required & missing])

    def lowest_between(self, low: int, low_live: int, high: int, high_live: int) -> bool:
        """Whether no set between two has fewer live bytes than the higher one; False also when that takes too long."""
        inside = [(position, run) for position, run in enumerate(self.net.runs) if not run.mask & ~(high & ~low)]
        seen = {low}
        stack = [(low, low_live)]
        while stack:
            done, live = stack.pop()
            if live < high_live or len(seen) > INTERVAL_CAP:
                return False
            children = []
            for position, run in inside:
                if run.mask & done or self.required[position] & ~done:
                    continue
                change = self.effect(position, done)[1]
                children.append((done | run.mask, live + change))
                if change <= 0:
                    children = children[-1:]
                    break
            for child in children:
                if child[0] not in seen:
                    seen.add(child[0])
                    stack.append(child)
        return True
