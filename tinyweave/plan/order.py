"""The order in which ops run. In: a Graph and who shares bytes with whom. Out: the order with the least peak, and a proof.

Live bytes depend only on the set of ops that have run, so an order is a path through such sets. For a limit, best-first
search finds a path or proves that there is none, which raises the lower bound. Live bytes are submodular in the set: what
leads to a set with no more of them loses nothing, and all other sets are dropped. Extends the problem of algorithm 1 of
operator reordering (Liberis and Lane, arXiv 1910.05110) by views, scratch, bytes that input and output share, and state.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

from ..ir import Graph

Saved = Callable[[int, frozenset[str]], int]
"""(op, owners of bytes that are dead after it) -> bytes that its step needs less than its live buffers and scratch together,
since its output overlaps inputs; never less when more of them die."""

MOST_SETS = 150_000  # some seconds
FIRST_BUDGET = 500  # sets of ops looked at before another limit or direction is tried
SETS_PER_WIDTH = 50  # the beam's width is the budget by this
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
        """Bytes between the peak and the bound: 0 means that no order is better."""
        return self.peak - self.lower_bound


def file_order(graph: Graph) -> tuple[int, ...]:
    """The order of the imported file, which `ir.verify` has proved to be executable."""
    return tuple(range(len(graph.ops)))


def each_its_own(graph: Graph) -> dict[str, str]:
    """Every activation owns its bytes: the `working_set` count of the reordering paper, which knows no views."""
    return {name: name for name, tensor in graph.tensors.items() if tensor.data is None}


def _owners(graph: Graph, index: int, owner: Mapping[str, str]) -> list[str]:
    """The owners of the bytes that an op reads and writes."""
    names = (*graph.ops[index].inputs, *graph.ops[index].outputs)
    return list(dict.fromkeys(owner[name] for name in names if name is not None and name in owner))


def live_owners(graph: Graph, order: Sequence[int], owner: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Per step the owners of bytes that are alive in it: inputs, outputs, and what later steps or the caller read."""
    steps = max(1, len(order))
    state = [name for name in owner if graph.tensors[owner[name]].role == "state"]
    first = {owner[name]: 0 for name in (*graph.inputs, *state)}
    last = dict.fromkeys(first, 0)
    for step, index in enumerate(order):
        for name in _owners(graph, index, owner):
            first.setdefault(name, step)
            last[name] = step
    last |= {owner[name]: steps - 1 for name in (*graph.outputs, *state) if name in owner}
    alive: list[list[str]] = [[] for _ in range(steps)]
    for name, begin in first.items():
        for step in range(begin, last[name] + 1):
            alive[step].append(name)
    return [tuple(names) for names in alive]


def live_bytes(
    graph: Graph,
    order: Sequence[int],
    owner: Mapping[str, str],
    scratch: Sequence[int] = (),
    saved: Saved | None = None,
) -> list[int]:
    """Per step the bytes that it needs: all that is alive in it and its scratch, less what its output shares."""
    alive = live_owners(graph, order, owner)
    needs = [sum(graph.tensors[name].bytes for name in names) for names in alive]
    kept = {name for name in owner.values() if graph.tensors[name].role == "state"}.union(
        owner.get(n, n) for n in graph.outputs
    )
    for step, index in enumerate(order):
        dying = frozenset(alive[step]).difference(alive[step + 1] if step + 1 < len(order) else kept)
        needs[step] += (scratch[index] if scratch else 0) - (saved(index, dying) if saved else 0)
    return needs


def best_order(
    graph: Graph,
    owner: Mapping[str, str],
    scratch: Sequence[int] = (),
    saved: Saved | None = None,
    *,
    sets: int = MOST_SETS,
    seconds: float = math.inf,
) -> Order:
    """The order with the least peak of `live_bytes`, or the best one found when looking at `sets` sets of ops proves none.

    `owner` as `overlap.views` gives it; `scratch` per op. Ops that touch one state keep their order; parts of the network
    that do not hold the peak keep the file's. The same graph gives the same order, unless `seconds` end the search.
    """
    if not graph.ops:
        return Order((), *[max(live_bytes(graph, (), owner), default=0)] * 2)
    net = _network(graph, owner, scratch, saved)
    net.most, net.deadline = sets, time.monotonic() + seconds
    needs, least = live_bytes(graph, file_order(graph), owner, scratch, saved), _least_needs(net)
    bound = max(least)
    if max(needs) == bound:
        return Order(file_order(graph), bound, bound)
    net.runs = _runs(net)
    parts = _parts(net, needs, least)
    while (worst := max(parts, key=lambda p: p.peak)).peak > bound:
        if worst.lower == worst.peak or _spent(net):
            break
        _improve(net, worst, bound)
        bound = max(part.lower for part in parts)
    ops = tuple(index for part in parts for index in part.order)
    peaks = {order: max(live_bytes(graph, order, owner, scratch, saved)) for order in (file_order(graph), ops)}
    ops = min(peaks, key=lambda order: peaks[order])
    return Order(ops, peaks[ops], min(bound, peaks[ops]), net.states)


# ---- the network as sets of ops; a set is an int with a bit per op


@dataclass(frozen=True, eq=False)
class _Run:
    """Ops that run one after the other: `mask` of them, and what must have run before (or, backwards, after) them."""

    ops: tuple[int, ...]
    mask: int
    before: int
    after: int
    relevant: int  # the other ops that share bytes' owners with them: only these change what the run needs
    effects: dict[int, tuple[int, int]] = field(default_factory=dict)
    undone: dict[int, tuple[int, int]] = field(default_factory=dict)  # the same of taking them back, by what has been


@dataclass(eq=False)
class _Network:
    """touched: owner -> mask of the ops that touch it. before, after: op -> masks of the ops that must run before and after it,
    of which above and below hold all, not only the next."""

    owners: list[list[str]]  # per op
    size: dict[str, int]
    touched: dict[str, int]
    inputs: frozenset[str]
    outputs: frozenset[str]
    scratch: Sequence[int]
    saved: Saved | None
    always: int  # bytes of state and of network inputs that are outputs too
    before: list[int]
    after: list[int]
    above: list[int]
    below: list[int]
    steady: bool = True  # what ops save does not depend on the order
    cuts: list[int] = field(default_factory=list)  # sets that every order passes through
    runs: list[_Run] = field(default_factory=list)
    states: int = 0
    most: int = MOST_SETS
    deadline: float = math.inf

    @property
    def everything(self) -> int:
        return (1 << len(self.owners)) - 1


@dataclass(eq=False)
class _Part:
    """The ops between two sets that every order passes through: the best order known, and the bound of all orders."""

    start: int
    goal: int
    order: tuple[int, ...]
    peak: int
    lower: int
    budget: int


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _network(graph: Graph, owner: Mapping[str, str], scratch: Sequence[int], saved: Saved | None) -> _Network:
    count = len(graph.ops)
    constant_size = {name for name in owner.values() if graph.tensors[name].role == "state"}
    owners: list[list[str]] = []
    touched: dict[str, int] = {}
    before = [0] * count
    last_of_state: dict[str, int] = {}
    for index, op in enumerate(graph.ops):
        names = _owners(graph, index, owner)
        for name in filter(None, op.inputs):
            if name in graph.producer and graph.tensors[name].role != "state":
                before[index] |= 1 << graph.producer[name]
        for name in constant_size.intersection(names):
            if name in last_of_state:
                before[index] |= 1 << last_of_state[name]
            last_of_state[name] = index
        owners.append([n for n in names if n not in constant_size])
        for name in owners[-1]:
            touched[name] = touched.get(name, 0) | 1 << index
    above, below, after = [0] * count, [0] * count, [0] * count
    for index in range(count):
        for other in _bits(before[index]):
            above[index] |= above[other] | 1 << other
            after[other] |= 1 << index
    for index in reversed(range(count)):
        for other in _bits(after[index]):
            below[index] |= below[other] | 1 << other
    for name in {owner[n] for n in graph.inputs} - constant_size - set(touched):
        touched[name] = 0
    net = _Network(
        owners,
        {name: graph.tensors[name].bytes for name in touched},
        touched,
        frozenset(owner[n] for n in graph.inputs) - constant_size,
        frozenset(owner[n] for n in graph.outputs if n in owner) - constant_size,
        scratch or [0] * count,
        saved,
        sum(graph.tensors[name].bytes for name in constant_size),
        before,
        after,
        above,
        below,
    )
    if saved:
        net.steady = all(_saved(net, index, above[index]) == _most_saved(net, index) for index in range(count))
    net.cuts = _cuts(net)
    return net


def _saved(net: _Network, index: int, done: int) -> int:
    """Bytes that the step of an op saves when exactly `done` has run before it."""
    if net.saved is None:
        return 0
    done |= 1 << index
    return net.saved(index, frozenset(n for n in net.owners[index] if n not in net.outputs and not net.touched[n] & ~done))


def _most_saved(net: _Network, index: int) -> int:
    return _saved(net, index, net.everything & ~net.below[index])


def _cuts(net: _Network) -> list[int]:
    """Sets that every order passes through: before and after each op that precedes or follows all others."""
    cuts = {0, net.everything}
    for index, (above, below) in enumerate(zip(net.above, net.below, strict=True)):
        if above.bit_count() + below.bit_count() + 1 == len(net.owners):
            cuts |= {above, above | 1 << index}
    return sorted(cuts, key=int.bit_count)


def _live(net: _Network, done: int) -> int:
    """Bytes alive when exactly the ops in `done` have run."""
    total = net.always
    for name, mask in net.touched.items():
        if (name in net.inputs or mask & done) and (name in net.outputs or mask & ~done):
            total += net.size[name]
    return total


def _effect(net: _Network, run: _Run, done: int) -> tuple[int, int]:
    """What running `run` after `done` needs beyond the bytes alive before it, and by how much it changes them."""
    key = done & run.relevant
    if (known := run.effects.get(key)) is not None:
        return known
    need, change = 0, 0
    for index in run.ops:
        bit = 1 << index
        born = freed = 0
        for name in net.owners[index]:
            mask = net.touched[name]
            if name not in net.inputs and not mask & done:
                born += net.size[name]
            if name not in net.outputs and not mask & ~(done | bit):
                freed += net.size[name]
        need = max(need, change + born + net.scratch[index] - _saved(net, index, done))
        change += born - freed
        done |= bit
    run.effects[key] = need, change
    return need, change


def _run_of(net: _Network, ops: tuple[int, ...], before: int, after: int) -> _Run:
    mask = sum(1 << index for index in ops)
    relevant = 0
    for index in ops:
        for name in net.owners[index]:
            relevant |= net.touched[name]
    return _Run(ops, mask, before, after, relevant & ~mask)


def _runs(net: _Network) -> list[_Run]:
    """The ops, joined where an order never gains from running others between them."""
    runs = {index: _run_of(net, (index,), net.before[index], net.after[index]) for index in range(len(net.owners))}
    part = {i: number for number, (low, high) in enumerate(pairwise(net.cuts)) for i in _bits(high & ~low)}
    home = list(runs)  # op -> key of its run
    work = list(reversed(runs))
    while work:
        key = work.pop()
        if key not in runs:
            continue
        first = runs[key]
        for other in sorted({home[index] for index in _bits(first.after)}):
            second = runs[other]
            if part[first.ops[0]] != part[second.ops[0]] or not _joins(net, first, second):
                continue
            mask = first.mask | second.mask
            joined = _run_of(
                net, first.ops + second.ops, (first.before | second.before) & ~mask, (first.after | second.after) & ~mask
            )
            del runs[other]
            runs[key] = joined
            for index in second.ops:
                home[index] = key
            work += [key, *{home[index] for index in _bits(joined.before)}]
            break
    return sorted(runs.values(), key=lambda run: run.ops[0])


def _joins(net: _Network, first: _Run, second: _Run) -> bool:
    """Whether `second` may always follow `first` at once: it only lowers memory then, or `first` is best delayed until it.

    Needs and changes fall when more has run before: the least and the most that can have run give their limits.
    """
    above, above_second = _all(net.above, first), _all(net.above, second) & ~second.mask
    others = net.everything & ~_all(net.below, first) & ~first.mask
    most_need, most_change = _effect(net, first, above & ~first.mask)
    least_need, least_change = _effect(net, first, others)
    if not above_second & ~(above | first.mask):
        need, change = _effect(net, second, above_second)
        if change <= 0 and most_change + need <= least_need:
            return True
    if first.after & ~second.mask or least_change < 0:
        return False
    if not net.steady and first.relevant & ~above & ~_all(net.below, second) & ~second.mask:
        return False  # delaying `first` would keep bytes from others that overlap them
    later = net.everything & ~_all(net.below, second) & ~second.mask
    return most_need <= least_change + _effect(net, second, later)[0]


def _all(relation: list[int], run: _Run) -> int:
    found = 0
    for index in run.ops:
        found |= relation[index]
    return found


def _parts(net: _Network, needs: list[int], least: list[int]) -> list[_Part]:
    """The network between its cuts, in the file's order, which needs `needs` bytes per step and at least `least` per op."""
    parts = []
    for start, goal in pairwise(net.cuts):
        order = tuple(_bits(goal & ~start))
        peak = max(needs[step] for step in range(start.bit_count(), goal.bit_count()))
        parts.append(_Part(start, goal, order, peak, max(least[index] for index in order), FIRST_BUDGET))
    return parts


def _least_needs(net: _Network) -> list[int]:
    """Per op the bytes that its step needs in every order: of owners that ops before it begin and ops after it touch."""
    needs = [net.always + bytes_ for bytes_ in net.scratch]
    for name, mask in net.touched.items():
        begun = net.everything if name in net.inputs else mask
        wanted = net.everything if name in net.outputs else mask
        for index in _bits(mask):
            begun |= net.below[index]
            wanted |= net.above[index]
        for index in _bits(begun & wanted):
            needs[index] += net.size[name]
    return [need - _most_saved(net, index) for index, need in enumerate(needs)]


def _peak(net: _Network, done: int, order: Sequence[int]) -> int:
    live = _live(net, done)
    peak = live
    for index in order:
        need, change = _effect(net, _run_of(net, (index,), 0, 0), done)
        peak, live, done = max(peak, live + need), live + change, done | 1 << index
    return peak


# ---- the search


def _spent(net: _Network) -> bool:
    return net.states >= net.most or time.monotonic() > net.deadline


def _improve(net: _Network, part: _Part, bound: int) -> None:
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


_Way = tuple[_Run, Any] | None  # the last run and the way before it
_Next = tuple[tuple[int, ...], int]  # the runs that could come before a step, and the one that did, or START
START = -1


def _beam(net: _Network, part: _Part, lowest: int, backward: bool) -> tuple[int, ...]:
    """An order of the part, step by step from those that had the lowest peaks, then the fewest live bytes, until then."""
    walk = _Walk(net, part.start, part.goal, backward=backward)
    live = _live(net, part.goal if backward else part.start)
    beam: dict[int, tuple[int, int, _Next, _Way]] = {walk.done: (lowest, live, (walk.ready(), START), None)}
    ended: list[tuple[int, _Way]] = []
    while beam:
        longer: dict[int, tuple[int, int, _Next, _Way]] = {}
        for done, (peak, live, before, way) in beam.items():
            net.states += 1
            if done == walk.target:
                ended.append((peak, way))
            ready = walk.ready_after(done, before)
            moves = [(position, net.runs[position], *walk.effect(position, done)) for position in ready]
            free = next((move for move in moves if move[3] <= 0 and live + move[2] <= peak), None)
            for position, run, need, change in [free] if free else moves:
                after, height, now = done | run.mask, max(peak, live + need), live + change
                if after not in longer or longer[after][:2] > (height, now):
                    longer[after] = (height, now, (ready, position), (run, way))
        kept = sorted(longer.items(), key=lambda item: item[1][:2])[: max(4, part.budget // SETS_PER_WIDTH)]
        beam = dict(kept)
    way, runs = min(ended, key=lambda item: item[0])[1], []
    while way is not None:
        runs.append(way[0])
        way = way[1]
    return tuple(index for run in (runs if backward else reversed(runs)) for index in run.ops)


def _order_within(net: _Network, part: _Part, limit: int) -> tuple[tuple[int, ...] | None, int | None]:
    """An order of the part that needs at most `limit`; or None and the least limit that may be enough; or None, None.

    Searches from both ends in turns, each from where the other was left, as long as they move.
    """
    start, goal = part.start, part.goal
    head: list[_Run] = []
    tail: list[_Run] = []
    exceeded = NEVER
    stuck = 0
    backward = False
    while stuck < 2:
        found = _search(net, start, goal, limit, budget=part.budget, backward=backward)
        exceeded = min(exceeded, found.exceeded)
        if backward:
            tail = found.path[::-1] + tail
        else:
            head = head + found.path
        if found.arrived:
            return tuple(index for run in head + tail for index in run.ops), None
        if found.exhausted:
            return None, exceeded
        stuck = 0 if found.path else stuck + 1
        start, goal = (start, found.anchor) if backward else (found.anchor, goal)
        backward = not backward and net.steady
    return None, None


@dataclass(eq=False)
class _Found:
    """arrived: `path` leads to the goal. exhausted: nothing does. Else it leads to `anchor`, and nothing is lost by it."""

    anchor: int
    path: list[_Run]
    exceeded: int
    arrived: bool = False
    exhausted: bool = False


def _search(net: _Network, start: int, goal: int, limit: int, *, budget: int, backward: bool) -> _Found:
    """Look for a path from `start` to `goal`, or back, on which no step needs more than `limit`.

    Whenever a set is reached with no more live bytes than the anchor has and than all sets between the two, it becomes
    the anchor: adding its ops to any later set of any path leaves no more bytes alive there, so a path from it exists if
    there is one at all. The same holds for a single run that lowers memory, from any set.
    """
    walk = _Walk(net, start, goal, backward=backward)
    anchor, path = walk.done, list[_Run]()
    anchor_live = _live(net, goal if backward else start)
    exceeded, looked, attempts = NEVER, 0, 0
    parent: dict[int, tuple[int, _Run | None]] = {}
    heap: list[tuple[int, int, int, int, int, _Next]] = []
    best: dict[int, int] = {}

    def restart(done: int, live: int) -> None:
        heap.clear()
        parent.clear()
        best.clear()
        parent[done] = (done, None)
        best[done] = live

    def way(done: int) -> list[_Run]:
        runs = []
        while (step := parent[done])[1] is not None:
            runs.append(step[1])
            done = step[0]
        return runs[::-1]

    def found(**outcome: bool) -> _Found:
        end = net.everything & ~anchor if backward else anchor
        return _Found(end, path, exceeded, **outcome)

    restart(anchor, anchor_live)
    heap.append((anchor_live, 0, 0, anchor, anchor_live, (walk.ready(), START)))
    count = 0
    while heap:
        highest, _, _, done, live, before = heappop(heap)
        if best[done] < highest:
            continue
        if done == walk.target:
            path += way(done)
            anchor = done
            return found(arrived=True)
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
            return found()
        children = []
        ready = walk.ready_after(done, before)
        for position in ready:
            run = net.runs[position]
            need, change = walk.effect(position, done)
            if live + need > limit:
                exceeded = min(exceeded, live + need)
                continue
            children.append((position, run, change))
            if change <= 0:
                children = children[-1:]
                break
        for position, run, change in children:
            after = done | run.mask
            now = live + change
            height = max(highest, now)
            if best.get(after, NEVER) <= height:
                continue
            best[after] = height
            parent[after] = (done, run)
            count += 1
            heappush(heap, (height, -after.bit_count(), -count, after, now, (ready, position)))
    return found(exhausted=True)


class _Walk:
    """From one set of ops to another, `done` to `target`, forward or backward: a backward set holds the ops taken back.

    needs: per run what must be in the set before it. next: per run those that may follow it.
    """

    def __init__(self, net: _Network, start: int, goal: int, *, backward: bool) -> None:
        self.net, self.backward = net, backward
        self.done, self.target = (net.everything & ~goal, net.everything & ~start) if backward else (start, goal)
        home = {index: position for position, run in enumerate(net.runs) for index in run.ops}
        self.needs = [run.after if backward else run.before for run in net.runs]
        followers = [sorted({home[index] for index in _bits(run.before if backward else run.after)}) for run in net.runs]
        self.next = [[(p, self.needs[p]) for p in found if not net.runs[p].mask & ~self.target] for found in followers]
        self.effects = [run.undone if backward else run.effects for run in net.runs]

    def effect(self, position: int, done: int) -> tuple[int, int]:
        """What a run needs after `done` beyond the bytes alive before it, and by how much it changes them."""
        run = self.net.runs[position]
        found = self.effects[position].get(done & run.relevant)
        if found is not None:
            return found
        if not self.backward:
            return _effect(self.net, run, done)
        need, change = _effect(self.net, run, self.net.everything & ~done & ~run.mask)
        self.effects[position][done & run.relevant] = need - change, -change
        return need - change, -change

    def ready(self) -> tuple[int, ...]:
        """The runs that may come first."""
        return tuple(
            position
            for position, run in enumerate(self.net.runs)
            if not run.mask & self.done and not run.mask & ~self.target and not self.needs[position] & ~self.done
        )

    def ready_after(self, done: int, step: _Next) -> tuple[int, ...]:
        """The runs that may come after the step that has led to `done`."""
        ready, position = step
        if position == START:
            return ready
        at, missing = ready.index(position), ~done
        return (*ready[:at], *ready[at + 1 :], *[p for p, needs in self.next[position] if not needs & missing])

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
                if run.mask & done or self.needs[position] & ~done:
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
