"""How much of each map is kept, where the rest may be computed twice: what makes the arena smallest within a budget.

In: a graph, and how many multiply-accumulates may be done again. Out: map -> its channels that are kept, as `rematerialise`
takes them. Bisects the arena: with so many bytes, as much is kept of each map as the ops around it leave room for; then all
ops are cut into stages, with tiles for what is left of the budget, to see whether they need no more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from ...ir import Graph, rebuild
from ...ops import macs
from ..alias.overlap import shared_in
from ..fuse.rematerialise import candidates, with_channels_once
from ..fuse.stages import NEVER
from ..liveness import lifetimes
from ..order.search import each_its_own, file_order
from .choose import Trade
from .spaces import StreamedIO, space_of

NOTCHES = 16  # of a map's channels
ALIGNED = 4  # channels, which kernels take at a time
PRECISE = 1 / 128  # of the arena


def best_channels_once(graph: Graph, streamed_inputs: Collection[str], budgets: Sequence[int]) -> list[Mapping[str, int]]:
    """Return per budget, the least first: map -> channels that are computed once, where computing the rest twice saves memory.

    The copies, and the tiles that are planned for what is left, do no more than the budget's multiply-accumulates again.
    """
    parts = _parts(graph, streamed_inputs) if any(budgets) else {}
    if not parts:
        return [{} for _ in budgets]

    @cache
    def cost(name: str, once: int) -> tuple[int, int]:
        """Return bytes that the part of the graph around a map needs, and multiply-accumulates that are done again."""
        part = parts[name]
        rematerialised = with_channels_once(part, _less(part, {name: once}))
        return _stage_bytes(rematerialised, (), 0), macs(rematerialised) - macs(part)

    def fitting(name: str, byte_limit: int) -> int:
        """Return how many channels can be computed once within so many bytes; where not even none can, all or none."""
        notches = _notches(parts[name], name)
        if cost(name, notches[-1])[0] <= max(byte_limit, cost(name, 0)[0]):
            return notches[-1]
        return notches[max(bisect_right(notches, byte_limit, key=lambda once: cost(name, once)[0]) - 1, 0)]

    def needed(once: Mapping[str, int], budget: int, byte_limit: int = NEVER) -> int:
        """Return the bytes that the whole graph needs; NEVER where more is done again than may be."""
        left = budget - sum(cost(name, count)[1] for name, count in once.items())
        return NEVER if left < 0 else _stage_bytes(with_channels_once(graph, once), streamed_inputs, left, byte_limit)

    best, high, every = dict[str, int](), needed({}, budgets[0]), list[Mapping[str, int]]()
    for budget in budgets:
        low = 0
        while high - low > max(1, high * PRECISE):
            byte_limit = (low + high) // 2
            once, left = dict[str, int](), budget
            for name in parts:
                if left >= 0:
                    once[name] = fitting(name, byte_limit)
                    left -= cost(name, once[name])[1]
            once = _less(graph, once)
            size = needed(once, budget, byte_limit)
            if size <= byte_limit:
                best, high = once, size
            else:
                low = byte_limit
        for name in list(best):  # what need not be done again after all
            without = {other: count for other, count in best.items() if other != name}
            best = without if needed(without, budget, high) <= high else best
        every.append(best)
    return every


def _less(graph: Graph, once: Mapping[str, int]) -> dict[str, int]:
    """Return the maps that are partly or wholly rematerialised."""
    return {name: count for name, count in once.items() if count < graph.tensors[name].shape[-1]}


def _notches(graph: Graph, name: str) -> list[int]:
    """Return how many channels may be computed once, from none to all."""
    channels = graph.tensors[name].shape[-1]
    return [*sorted({channels * notch // NOTCHES // ALIGNED * ALIGNED for notch in range(NOTCHES)}), channels]


def _stage_bytes(graph: Graph, streamed_inputs: Collection[str], budget: int, byte_limit: int = NEVER) -> int:
    """Return the bytes of the busiest stage in the file's order with portable kernels; NEVER if none fits in `byte_limit`."""
    order = file_order(graph)
    streams = StreamedIO(tuple(streamed_inputs))
    shared = shared_in(graph, order, parts=False)
    space = space_of(graph, order, shared, streams=streams, budget=budget, has_cycles=False)
    found = Trade([(space, budget)]).least_bytes(byte_limit)
    return NEVER if found is None else found.path.bytes


def _parts(graph: Graph, streamed_inputs: Collection[str]) -> dict[str, Graph]:
    """Return map that may be computed twice -> the ops around it, from its first maker up to where least is alive before the
    next such map; without maps that read what comes by rows, which would have to come twice."""
    parts, by_map = {}, candidates(graph)
    lives = lifetimes(graph, [(index,) for index in file_order(graph)], each_its_own(graph))
    lives = {name: life for name, life in lives.items() if graph.tensors[name].role != "state"}  # each part has its own
    firsts = [min(candidate.makers) for candidate in by_map.values()]
    for name, candidate in by_map.items():
        begin, past = min(candidate.makers), max(*graph.consumers[name], *candidate.summing) + 1
        next_one = min((first for first in firsts if first >= past), default=len(graph.ops))
        alive = {
            step: [x for x, life in lives.items() if life.begin < step and (step < life.end or life.persistent)]
            for step in (begin, *range(past, next_one + 1))
        }  # what is there before a step and needed from it on
        end = min(range(past, next_one + 1), key=lambda step: sum(graph.tensors[x].bytes for x in alive[step]))
        ops = graph.ops[begin:end]
        if not any(x in streamed_inputs for op in ops for x in op.inputs):
            parts[name] = rebuild(graph, ops=ops, inputs=tuple(alive[begin]), outputs=tuple(alive[end]), init=())
    return parts
