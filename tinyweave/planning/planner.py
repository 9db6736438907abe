"""The planner. In: a Graph and a schedule's name. Out: a checked Plan, the best that was found of all forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from ..ir import CompileError, Graph
from ..kernels.table import BY_NAME
from ..ops import macs
from .alias.overlap import ANY_DISTANCE, distances, saved_bytes, shared_in
from .alias.subtensors import Aliases
from .assemble import NO_OVERLAP, PlacedLayout, draft, finish, lay_out, one_by_one
from .fuse.access import RowGraph, streamable_outputs
from .fuse.baselines import first_rows, patches
from .fuse.channels_once import best_channels_once
from .fuse.rematerialise import with_channels_once
from .fuse.schedule import is_fused, plan_macs
from .fuse.stages import BROAD, NEVER, Partition, best_stages, stage_front
from .kernel_choice import FOR_ALL, Kernels, calls, scratch_of, variants_in
from .kernels.flash_budget import for_constants
from .kernels.select import GRANULARITIES, Granularity, How, Progress, pick
from .memories import excess, spread
from .order.search import MOST_SETS, best_order, file_order, live_bytes
from .place.place import TRIES
from .plan import Plan

SCHEDULES = ("best", "unfused", "layer", "patch", "msf", "stream2d")
RECOMPUTING = ("patch", "msf")  # compute rows and columns again, as many as they like if no limit is given
MOST_OVERHEAD = 2.0  # of a front: beyond it little is gained
OVERHEADS = (1.05, 1.1, 1.2, 1.3, 1.5)  # of a front's plans that compute maps twice, besides the most that is allowed
ROUNDING = 1e-6  # multiply-accumulates; of a quotient of two counts
FEW_SETS = 500  # of ops, looked at for an order in a few milliseconds


def plan(
    graph: Graph,
    schedule: str = "best",
    memory: str = "sram",
    *,
    maps: Sequence[Mapping[str, int]] = (),
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    fast: bool = False,
    core: str = "",
    ram_limit: int | None = None,
    max_slowdown: float = 1.0,
    flash: int | None = None,
    other_flash: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Return the checked plan of `graph` by a schedule.

    `best` takes the order with the least peak and lets outputs overlap operands that die in the same step. It moves tensors
    between steps, fuses ops into stages that run row by row or tile by tile, and computes maps twice instead of keeping them,
    each where that makes the arena smaller. `unfused` does all of this but fuse and compute twice. `layer`, the baseline,
    keeps the file's order and every output apart from operands. `patch`, `msf` and `stream2d` are `unfused` with the stages of
    other planners (fuse/baselines.py); `patch:N:K` has N x N patches of the first K layers, and searches what is left out or 0.

    maps: memories (name -> bytes, the fastest first), as alternatives: the plan uses the first that holds it, or the one that
    is exceeded least. Without maps all lies in `memory`, and `ram_limit` is its limit in bytes.
    stream_inputs: a callback brings the network's inputs by rows; none is ever whole. stream_outputs: a callback takes those
    outputs by rows that are maps, are computed by rows, and that nothing in the network reads. Both need fused stages.
    max_mac_overhead: the plan executes at most so many times the multiply-accumulates of the graph. Left out it is 1.0, where
    nothing is done twice; `patch` and `msf` then have no limit.
    fast: a short search for the order, none for the placement, no fused stages: for those who plan thousands of networks.
    core: use its fast kernels besides the portable ones; their scratch counts in the arena. Of the plans within the limit that
    take at most `max_slowdown` times the estimated cycles of the fastest, the one with the least bytes x cycles is returned
    (planning/kernels/select.py); cycles for maps that `max_mac_overhead` lets be computed again are not held against a plan.
    flash: bytes for constants and for `other_flash`, everything else in Flash (estimated if left out). Kernels that keep more
    constants to be faster share what is left. progress: called for each plan that is compared.

    Raise CompileError where the schedule is unknown or cannot stream what it is asked to.
    """
    streams = _streamed_io(graph, schedule, stream_inputs=stream_inputs, stream_outputs=stream_outputs)
    recomputed = _recomputed(graph, schedule, max_mac_overhead)
    channels_once = (
        best_channels_once(graph, streams.streamed_inputs, [recomputed])[0] if schedule == "best" and not fast else {}
    )
    ways = cache(partial(_ways, graph, streams=streams, fast=fast))  # the forms of a plan differ in what comes after
    how = partial(
        _in_one_memory,
        graph,
        schedule,
        memory=memory,
        recomputed=recomputed,
        channels_once=channels_once,
        streams=streams,
        fast=fast,
        ways=ways,
    )
    if max_mac_overhead is not None and max_mac_overhead < 1:
        how = partial(_with_less_work, how, _work(graph, max_mac_overhead))
    limits = [sum(memories.values()) for memories in maps] or ([ram_limit] if ram_limit is not None else [])
    planned: Plan | None
    if core:
        granularities: Sequence[Granularity] = GRANULARITIES if schedule == "best" and not fast else GRANULARITIES[:1]
        granularities = [
            granularity
            for granularity in granularities
            if (granularity != "once" or recomputed) and (granularity != "ops" or not any(streams))
        ]
        allowed = max_slowdown * (max_mac_overhead or 1)
        room = NEVER if flash is None else for_constants(graph, core, flash, other_flash)
        byte_limit = max(limits, default=NEVER)
        planned = pick(
            graph, core, how, granularities, ram_limit=byte_limit, flash=room, max_slowdown=allowed, progress=progress
        )
    else:
        planned = how(FOR_ALL)
    if planned is None:
        raise _too_little_work(max_mac_overhead)
    spreads: list[Plan] = []
    for memories in maps:
        spreads.append(spread(planned, memories, overlap=schedule != "layer"))
        if not excess(spreads[-1].arena, memories):
            return spreads[-1]
    over = [excess(candidate.arena, memories) for candidate, memories in zip(spreads, maps, strict=True)]
    return spreads[over.index(min(over))] if over else planned


def smallest_plan(
    graph: Graph,
    schedule: str,
    memory: str,
    kernels: Kernels,
    *,
    stream_inputs: bool = False,
    stream_outputs: bool = False,
) -> Plan:
    """Return the plan of a schedule with these kernels that needs least memory and does no work again."""
    streams = _streamed_io(graph, schedule, stream_inputs=stream_inputs, stream_outputs=stream_outputs)
    ways = partial(_ways, graph, streams=streams, fast=False)
    planned = _in_one_memory(
        graph, schedule, kernels, memory=memory, recomputed=0, channels_once={}, streams=streams, fast=False, ways=ways
    )
    assert planned is not None
    return planned


def _with_less_work(
    how: How, max_macs: int, kernels: Kernels, granularity: Granularity = "least", below: int = NEVER
) -> Plan | None:
    """Return the plan that `how` makes, if no more than `max_macs` multiply-accumulates are left of it."""
    planned = how(kernels, granularity, below)
    return None if planned is None or sum(plan_macs(planned)) > max_macs else planned


def _in_one_memory(
    graph: Graph,
    schedule: str,
    kernels: Kernels,
    granularity: Granularity = "least",
    below: int = NEVER,
    *,
    memory: str,
    recomputed: int,
    channels_once: Mapping[str, int],
    streams: StreamedIO,
    fast: bool,
    ways: Callable[[Kernels], list[_Way]],
) -> Plan | None:
    """Return the plan of this form with these kernels, if there is one that may need less than `below` bytes."""
    if schedule == "layer":
        return finish(_by_op(graph, file_order(graph), memory, kernels, overlap=False, parts=False, fast=fast))
    kernels = _by_rows(graph, streams, kernels)
    orders, partitioner = ways(kernels), _partitioner(schedule, recomputed)
    if granularity == "ops":
        lower_bound = min(way.least_cost(order)[0] for way in orders for order in way.step_bytes)
        return finish(_best(graph, orders, memory, partitioner=None, streams=streams)) if lower_bound < below else None
    if granularity in STAGES:
        fused = _fused(graph, orders[-1], memory, streams, STAGES[granularity], below=below)
        return None if fused is None else finish(fused)
    best = _best(graph, orders, memory, partitioner=partitioner, streams=streams, fast=fast)
    if channels_once:
        rematerialised = _rematerialised(graph, channels_once, memory, kernels, streams=streams, recomputed=recomputed)
        if rematerialised is not None and rematerialised.bytes < best.bytes:
            return finish(rematerialised, channels_once)
    return finish(best)


def _rematerialised(
    graph: Graph, channels_once: Mapping[str, int], memory: str, kernels: Kernels, *, streams: StreamedIO, recomputed: int
) -> PlacedLayout | None:
    """Return the cheapest draft with fused stages in which these maps keep so many channels and the others are computed
    twice."""
    rematerialised = with_channels_once(graph, channels_once)
    way = _way(rematerialised, shared_in(rematerialised, file_order(rematerialised), parts=False), FEW_SETS, kernels, streams)
    partitioner = Partitioner(partial(best_stages, budget=recomputed - macs(rematerialised) + macs(graph)))
    return _fused(rematerialised, way, memory, streams, partitioner)


def front(
    graph: Graph,
    memory: str = "sram",
    *,
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float = MOST_OVERHEAD,
    progress: Progress | None = None,
) -> list[Plan]:
    """Return the plans of schedule `best` of which none needs less memory with as little work, the least work first.

    Up to `max_mac_overhead` times the multiply-accumulates of the graph, with the kernels for all cores, which need no scratch,
    all in one `memory`: what `plan` finds with as much work allowed, and no core. `progress` is told of each plan.
    """
    streams = _streamed_io(graph, "best", stream_inputs=stream_inputs, stream_outputs=stream_outputs)
    recomputed = _recomputed(graph, "best", max_mac_overhead)
    ways = _ways(graph, FOR_ALL, streams=streams, fast=False)
    way = ways[-1]
    drafts = [_best(graph, ways, memory, partitioner=_partitioner("best", 0), streams=streams)]
    row_graph = RowGraph(graph, way.variants, streams.streamed_inputs, streamed_outputs=streams.streamed_outputs)
    for order, step_bytes in way.step_bytes.items():
        shared = shared_in(graph, order, parts=False)
        for stages, tiles, _ in stage_front(row_graph, order, way.shared.owner, step_bytes, budget=recomputed):
            if any(is_fused(row_graph, ops) for ops in stages):
                drafts.append(draft(lay_out(graph, stages, shared, memory, tiles=tiles, **streams._asdict())))
    plans = []
    for number, each in enumerate(drafts):
        if progress:
            progress("plans of the front", number, len(drafts))
        plans.append(finish(each))
    overheads = (*(overhead for overhead in OVERHEADS if overhead < max_mac_overhead), max_mac_overhead)
    budgets = [_recomputed(graph, "best", overhead) for overhead in overheads]
    for budget, channels_once in zip(budgets, best_channels_once(graph, streams.streamed_inputs, budgets), strict=True):
        rematerialised = (
            _rematerialised(graph, channels_once, memory, FOR_ALL, streams=streams, recomputed=budget)
            if channels_once
            else None
        )
        plans += [finish(rematerialised, channels_once)] if rematerialised is not None else []
    pareto: list[Plan] = []
    for candidate in sorted(plans, key=lambda p: (sum(plan_macs(p)), p.arena[memory])):
        if sum(plan_macs(candidate)) > _work(graph, max_mac_overhead):
            break
        if not pareto or candidate.arena[memory] < pareto[-1].arena[memory]:
            pareto.append(candidate)
    if not pareto:
        raise _too_little_work(max_mac_overhead)
    return pareto


def _too_little_work(overhead: float | None) -> CompileError:
    return CompileError(f"no plan runs with {overhead:g} times its work", "give 1.0 or more, or see 'plan --pareto'")


class StreamedIO(NamedTuple):
    """Network inputs that come by rows, and outputs that are handed out by rows."""

    streamed_inputs: tuple[str, ...] = ()
    streamed_outputs: tuple[str, ...] = ()


def _named(schedule: str) -> tuple[str, int, int]:
    """Return the name of a schedule, and of patches how many a side and of how many layers, 0 where that is searched."""
    name, *numbers = schedule.split(":")
    if name not in SCHEDULES:
        raise CompileError(f"unknown schedule '{schedule}'", f"schedules are: {', '.join(SCHEDULES)}")
    if numbers and (name != "patch" or len(numbers) > 2 or not all(n.isdecimal() and int(n) != 1 for n in numbers)):
        raise CompileError(f"unknown schedule '{schedule}'", "patch:N:K is N x N patches of the first K layers, from 2 on")
    grid, layers = (*map(int, numbers), 0, 0)[:2]
    return name, grid, layers


def _streamed_io(graph: Graph, schedule: str, *, stream_inputs: bool, stream_outputs: bool) -> StreamedIO:
    """Return what comes and goes by rows; CompileError for what cannot be planned."""
    kind = _named(schedule)[0]
    for what, is_wanted in (("inputs", stream_inputs), ("outputs", stream_outputs)):
        if is_wanted and kind in ("layer", "unfused"):
            raise CompileError(f"schedule {schedule} cannot stream {what}", "use --schedule best")
    for name in graph.outputs:
        data = graph.tensors[name].data
        if data is not None and not np.isfinite(data).all():
            raise CompileError("is a constant output that is not a number", "remove it from the model", tensor=name)
    if all(tensor.data is not None for tensor in graph.tensors.values()):
        raise CompileError(f"graph '{graph.name}' computes nothing: all of it is constant", "give a network with an input")
    streamed_outputs = streamable_outputs(_plain_rows(graph)) if stream_outputs else ()
    if stream_outputs and not streamed_outputs:
        why = "none is a map of several rows that a layer computes by rows and that nothing in the network reads"
        raise CompileError(f"cannot hand out a network output row by row: {why}", "plan without streamed outputs")
    streamed_inputs = tuple(name for name in graph.inputs if name in graph.consumers)  # what some op reads
    return StreamedIO(streamed_inputs if stream_inputs else (), streamed_outputs)


def _plain_rows(graph: Graph) -> RowGraph:
    """Return the graph as rows, with the kernels for all cores."""
    return RowGraph(graph, variants_in(graph, shared_in(graph, file_order(graph), parts=False)))


def _by_rows(graph: Graph, streams: StreamedIO, kernels: Kernels) -> Kernels:
    """Return these kernels, but a portable one where only that can hand out an output by rows."""
    makers = [graph.ops[graph.producer[name]] for name in streams.streamed_outputs]
    return kernels._replace(
        portable_ops=kernels.portable_ops | {op.name for op in makers if not BY_NAME[kernels.name(graph, op)].has_part}
    )


def _recomputed(graph: Graph, schedule: str, overhead: float | None) -> int:
    """Return how many multiply-accumulates a schedule may do again."""
    if overhead is None:
        return NEVER if _named(schedule)[0] in RECOMPUTING else 0
    if not 0 < overhead < np.inf:
        raise CompileError(f"a network cannot run with {overhead:g} times its work", "give 1.0 or more, for example 1.1")
    return max(_work(graph, overhead) - macs(graph), 0)


def _work(graph: Graph, overhead: float) -> int:
    """Return so many times the multiply-accumulates of a graph, whatever the rounding of a count by another."""
    return math.floor(overhead * macs(graph) + ROUNDING)


class Partitioner(NamedTuple):
    """How a schedule cuts an order into stages. cut: (rows, order, owner, bytes per step, most) -> stages and tiles.

    is_given: no stages of others are taken instead, even if they need less.
    """

    partition: Callable[..., Partition]
    is_given: bool = False


STAGES: Mapping[Granularity, Partitioner] = {
    "once": Partitioner(best_stages),
    "broad": Partitioner(partial(best_stages, columns=BROAD)),
    "rows": Partitioner(partial(best_stages, whole_rows=True)),
}


def _partitioner(schedule: str, recomputed: int) -> Partitioner | None:
    """Return how the schedule cuts into stages, if it does, when so many multiply-accumulates may be done again."""
    name, grid, layers = _named(schedule)
    if name == "best":
        return Partitioner(partial(best_stages, budget=recomputed))
    if name == "msf":
        return Partitioner(partial(best_stages, budget=recomputed, blocks=True))
    if name == "stream2d":
        return Partitioner(first_rows)
    if name == "patch":
        return Partitioner(partial(patches, budget=recomputed, grid=grid, layers=layers), is_given=bool(grid or layers))
    return None


class _Way(NamedTuple):
    """Who lies in whose bytes, which kernels are left, and per order of the ops what each step needs by itself."""

    shared: Aliases
    variants: tuple[str, ...]
    step_bytes: dict[tuple[int, ...], list[int]]
    kernels: Kernels

    def least_cost(self, order: tuple[int, ...]) -> tuple[int, int]:
        """Return the least cost of a draft that runs the ops one by one in this order."""
        return max(self.step_bytes[order]), calls(self.variants)


def _way(graph: Graph, shared: Aliases, sets: int, kernels: Kernels, streams: StreamedIO) -> _Way:
    """Return the way with the best order that `sets` sets of ops lead to, and the file's."""
    variants = variants_in(graph, shared, kernels)
    staying = tuple(name for name in graph.outputs if name not in streams.streamed_outputs)
    graph = replace(graph, outputs=staying)
    distance, scratch = distances(graph, variants, shared.owner, offset=shared.offset), scratch_of(graph, variants)
    saved = partial(saved_bytes, graph, shared.owner, distance)
    orders = best_order(graph, shared.owner, scratch, saved, sets=sets).ops, file_order(graph)
    step_bytes = {order: live_bytes(graph, order, shared.owner, scratch, saved) for order in orders}
    return _Way(shared, variants, step_bytes, kernels)


def _ways(graph: Graph, kernels: Kernels, *, streams: StreamedIO, fast: bool) -> list[_Way]:
    """Return the way with parts inside others, which saves code, but sometimes costs memory, and, the last one, that with parts
    apart."""
    filed, sets = file_order(graph), FEW_SETS if fast else MOST_SETS
    apart, inside = (shared_in(graph, filed, parts=parts) for parts in (False, True))
    ways = [_way(graph, inside, sets, kernels, streams)] if inside.free and not any(streams) else []
    if not (fast and ways):
        ways.append(_way(graph, apart, sets // 5 if ways else sets, kernels, streams))
    return ways


def _best(
    graph: Graph, ways: Sequence[_Way], memory: str, *, partitioner: Partitioner | None, streams: StreamedIO, fast: bool = False
) -> PlacedLayout:
    """Return the draft that costs least; what cannot cost less than one before it, by what its steps need, is not placed.

    partitioner: None where no stages are fused.
    """
    filed, best = file_order(graph), None
    apart = shared_in(graph, filed, parts=False)
    if partitioner is not None and (any(streams) or not fast):
        best = _fused(graph, ways[-1], memory, streams, partitioner)
    if best is not None and partitioner is not None and partitioner.is_given:
        return best
    options = [((max(live_bytes(graph, filed, apart.owner)), calls(ways[-1].variants)), filed, False, False)]
    options += [(way.least_cost(order), order, True, bool(way.shared.free)) for way in ways for order in way.step_bytes]
    for least_cost, order, overlap, parts in sorted(options, key=lambda option: option[0]) if not any(streams) else ():
        if best is None or least_cost < best.cost:
            best = _cheaper(best, _by_op(graph, order, memory, ways[0].kernels, overlap=overlap, parts=parts, fast=fast))
    if best is None:  # a schedule of others, whose fused stages come first, if there are any
        raise CompileError("this schedule finds no stages by rows, which streamed inputs need", "use --schedule best")
    return best


def _by_op(
    graph: Graph, order: tuple[int, ...], memory: str, kernels: Kernels, *, overlap: bool, parts: bool, fast: bool
) -> PlacedLayout:
    """Return the draft that runs the ops one by one, with `overlap` outputs over operands and moves between steps."""
    shared, max_distance = shared_in(graph, order, parts=parts), ANY_DISTANCE if overlap else NO_OVERLAP
    layout = lay_out(graph, one_by_one(order), shared, memory, max_distance=max_distance, kernels=kernels)
    return draft(layout, moves=overlap and not fast, tries=0 if fast else TRIES)


def _fused(
    graph: Graph, way: _Way, memory: str, streams: StreamedIO, partitioner: Partitioner, *, below: int = NEVER
) -> PlacedLayout | None:
    """Return the cheapest draft with fused stages; None where none needs less than the ops one by one, or than `below`
    bytes."""
    row_graph, best = RowGraph(graph, way.variants, streams.streamed_inputs, streamed_outputs=streams.streamed_outputs), None
    for order, step_bytes in way.step_bytes.items():
        byte_limit = below - (below < NEVER) if best is None else best.bytes - (best.cost[1] <= calls(way.variants))
        stages, tiles, _ = partitioner.partition(row_graph, order, way.shared.owner, step_bytes, byte_limit=byte_limit)
        if not stages and best is None and not streams.streamed_inputs:
            stages = one_by_one(order)  # in which an output can be handed out too
        if any(is_fused(row_graph, ops) for ops in stages):
            shared = shared_in(graph, order, parts=False)
            layout = lay_out(graph, stages, shared, memory, tiles=tiles, kernels=way.kernels, **streams._asdict())
            best = _cheaper(best, draft(layout))
    return best


def _cheaper(best: PlacedLayout | None, other: PlacedLayout) -> PlacedLayout:
    return other if best is None or other.cost < best.cost else best
