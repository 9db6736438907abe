"""How many channels of each map to keep and how many to rematerialise, for the smallest arena within a budget of recomputation.

A rematerialised channel is computed twice, so that it need not be kept in between. The search bisects the arena size. For a
given size, keep as many channels of each map as the ops around it have room for. Then search for a solution, with tiles
that use what is left of the budget, to see whether the whole network fits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

from ...ir import Graph, rebuild
from ...ops import macs
from ..alias.overlap import shared_in
from ..fuse.rematerialise import candidates, with_channels_once
from ..fuse.row_access import StreamedIO
from ..liveness import lifetimes
from ..order.order_search import file_order, without_views
from .of_graph import problem_of
from .orders import stage_cycles_of
from .pareto import least_bytes
from .path_search import PathSearch
from .problem import NEVER

STEPS = 16  # numbers of channels to try per map, evenly spaced
ALIGNED = 4  # channels that kernels compute at a time
PRECISE = 1 / 128  # of the arena: where the bisection ends


# results of `best_channels_once` for a graph: (map, channels computed once) -> (bytes around the map, MACs recomputed), and
# budgets -> (channels for the last budget, RAM)
Known = tuple[dict[tuple[str, int], tuple[int, int]], dict[tuple[int, ...], tuple[Mapping[str, int], int]]]


def best_channels_once(
    graph: Graph, streamed_inputs: Collection[str], budgets: Sequence[int], known: Known | None = None
) -> list[Mapping[str, int]]:
    """Return, for each budget, how many channels of each map to compute once (map -> channels); all others are computed twice.

    Maps of which no channel is computed twice are left out.

    Args:
        budgets: multiply-accumulates that may be recomputed, also by tiles, in rising order.
    """
    costs, results = known or ({}, {})
    parts = _ops_around_maps(graph, streamed_inputs) if any(budgets) else {}
    if not parts:
        return [{} for _ in budgets]

    def cost(name: str, once: int) -> tuple[int, int]:
        """Return (RAM of the ops around a map, MACs recomputed) if all but `once` of its channels are computed twice."""
        if (name, once) not in costs:
            part = parts[name]
            rematerialised = with_channels_once(part, _rematerialised(part, {name: once}))
            costs[name, once] = _stage_bytes(rematerialised, (), 0), macs(rematerialised) - macs(part)
        return costs[name, once]

    def fitting(name: str, byte_limit: int) -> int:
        """Return how many channels of a map can be computed once, if the ops around it may need `byte_limit` bytes of RAM.

        All other channels are computed twice, which usually needs less RAM. If even computing all channels twice exceeds the
        limit, return 0 or all, whichever needs less RAM.
        """
        counts = _channel_counts(parts[name], name)
        if cost(name, counts[-1])[0] <= max(byte_limit, cost(name, 0)[0]):
            return counts[-1]
        return counts[max(bisect_right(counts, byte_limit, key=lambda once: cost(name, once)[0]) - 1, 0)]

    def needed(once: Mapping[str, int], budget: int, byte_limit: int = NEVER) -> int:
        """Return the RAM of the whole graph; NEVER if it exceeds `byte_limit`, or the recomputed MACs exceed `budget`.

        `once` is map -> number of channels computed once; all other channels of these maps are computed twice.
        """
        left = budget - sum(cost(name, count)[1] for name, count in once.items())
        return NEVER if left < 0 else _stage_bytes(with_channels_once(graph, once), streamed_inputs, left, byte_limit)

    best: Mapping[str, int] = {}
    high, every = NEVER, list[Mapping[str, int]]()
    for number, budget in enumerate(budgets, 1):
        if (done := tuple(budgets[:number])) in results:
            best, high = results[done]
            every.append(best)
            continue
        low, high = 0, high if every else needed({}, budget)
        while high - low > max(1, high * PRECISE):
            byte_limit = (low + high) // 2
            once, left = dict[str, int](), budget
            for name in parts:
                if left >= 0:
                    once[name] = fitting(name, byte_limit)
                    left -= cost(name, once[name])[1]
            once = _rematerialised(graph, once)
            size = needed(once, budget, byte_limit)
            if size <= byte_limit:
                best, high = once, size
            else:
                low = byte_limit
        for name in list(best):  # drop rematerialisations that save nothing
            without = {other: count for other, count in best.items() if other != name}
            best = without if needed(without, budget, high) <= high else best
        results[done] = best, high
        every.append(best)
    return every


def _rematerialised(graph: Graph, once: Mapping[str, int]) -> dict[str, int]:
    """Return the entries of `once` (map -> channels to compute once) whose map has more channels, which are computed twice."""
    return {name: count for name, count in once.items() if count < graph.tensors[name].shape[-1]}


def _channel_counts(graph: Graph, name: str) -> list[int]:
    """Return how many channels of map `name` to compute once instead of twice: the numbers to try, rising from 0 to all."""
    channels = graph.tensors[name].shape[-1]
    return [*sorted({channels * step // STEPS // ALIGNED * ALIGNED for step in range(STEPS)}), channels]


def _stage_bytes(graph: Graph, streamed_inputs: Collection[str], budget: int, byte_limit: int = NEVER) -> int:
    """Return the least peak RAM of all splits of a network, in the file's order and with portable kernels."""
    order = file_order(graph)
    streams = StreamedIO(tuple(streamed_inputs))
    shared = shared_in(graph, order, parts=False)
    cycles_of = stage_cycles_of(graph, order, shared, streams=streams, has_cycles=False)
    problem = problem_of(cycles_of, order, shared.owner, budget=budget)
    found = least_bytes(PathSearch(problem).fastest, byte_limit)
    return NEVER if found is None else found.bytes


def _ops_around_maps(graph: Graph, streamed_inputs: Collection[str]) -> dict[str, Graph]:
    """Return, for each map that may be rematerialised, the graph of the ops around it.

    Each graph begins with the first op that computes the map. It ends after the map's last reader and before the next such map,
    at the step with the fewest live bytes. Maps computed from a streamed input are left out: the input would have to arrive
    twice.
    """
    parts, by_map = {}, candidates(graph)
    lives = lifetimes(graph, [(index,) for index in file_order(graph)], without_views(graph))
    lives = {name: life for name, life in lives.items() if graph.tensors[name].role != "state"}  # each part has its own state
    firsts = [min(candidate.makers) for candidate in by_map.values()]
    for name, candidate in by_map.items():
        begin, past = min(candidate.makers), max(*graph.consumers[name], *candidate.summing) + 1
        next_one = min((first for first in firsts if first >= past), default=len(graph.ops))
        alive = {
            step: [x for x, life in lives.items() if life.begin < step and (step < life.end or life.persistent)]
            for step in (begin, *range(past, next_one + 1))
        }  # tensors alive between two steps
        end = min(range(past, next_one + 1), key=lambda step: sum(graph.tensors[x].bytes for x in alive[step]))
        ops = graph.ops[begin:end]
        if not any(x in streamed_inputs for op in ops for x in op.inputs):
            parts[name] = rebuild(graph, ops=ops, inputs=tuple(alive[begin]), outputs=tuple(alive[end]), init=())
    return parts
