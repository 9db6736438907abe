"""Planning. In: a Graph and a schedule's name. Out: a checked Plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..ir import CompileError, Graph, Op, itemsize
from ..kernels.table import BY_NAME, variant_for
from ..ops import SPECS
from .check import check
from .faster import with_kernels_of
from .fuse import Rows, best_stages, is_fused, lags_by_stage, row_bytes, streamings
from .layouts import Walk, find_walk
from .memories import excess, spread
from .moves import lone_tensors, with_moves
from .order import MOST_SETS, best_order, each_its_own, file_order, live_bytes
from .overlap import ANY_LAG, lags, rules, saved_bytes, views
from .parts import Shared, with_parts
from .place import TRIES, Placement, Rule, place
from .plan import Buffer, Place, Plan, Stage, Tile, from_json, scratch_name, to_json

SCHEDULES = ("best", "unfused", "layer")
FEW_SETS = 500  # of ops, looked at for an order in a few milliseconds
FEWER_TRIES = TRIES // 200  # to find a placement without moves where one with moves is known

__all__ = ["SCHEDULES", "Buffer", "Place", "Plan", "Stage", "Tile", "check", "from_json", "plan"]
__all__ += ["plan_in_order", "plan_in_stages", "scratch_name", "to_json"]


def plan(
    graph: Graph,
    schedule: str = "best",
    memory: str = "sram",
    *,
    maps: Sequence[Mapping[str, int]] = (),
    stream_inputs: bool = False,
    fast: bool = False,
    core: str = "",
    most: int | None = None,
) -> Plan:
    """The plan of `graph`, in which views lie in place.

    `best` lets outputs overlap operands that die, takes the order with the least peak under that, moves tensors between steps,
    and fuses ops into stages that run row by row, where each makes the arena smaller; nothing is computed twice. `unfused` does
    all but the last. `layer`, the baseline, keeps the file's order and operands apart from outputs.

    All lies in one `memory`; or in those of the first of `maps` (name -> bytes, the fastest first) that holds it, or of the
    one that is exceeded the least. With `stream_inputs`, which only `best` can do, a callback brings the network's inputs by
    rows, and none is ever whole. With `fast` the order comes from a short search, the placement in one memory from none, and
    nothing is fused, for those who plan thousands of networks.

    With a `core` the kernels are the fastest for it, whose scratch counts in the arena; those for all cores, which need none,
    run what would exceed `most` bytes, or the largest of `maps`, when that is what keeps the arena within.
    """
    made = _in_one_memory(graph, schedule, memory, stream_inputs=stream_inputs, fast=fast)
    if core:
        limits = [sum(memories.values()) for memories in maps] or ([most] if most is not None else [])
        made = with_kernels_of(made, core, overlap=schedule != "layer", most=max(limits, default=None))
    spreads: list[Plan] = []
    for memories in maps:
        spreads.append(spread(made, memories, overlap=schedule != "layer"))
        if not excess(spreads[-1].arena, memories):
            return spreads[-1]
    over = [excess(found.arena, memories) for found, memories in zip(spreads, maps, strict=True)]
    return spreads[over.index(min(over))] if over else made


def _in_one_memory(graph: Graph, schedule: str, memory: str, *, stream_inputs: bool, fast: bool) -> Plan:
    if schedule not in SCHEDULES:
        raise CompileError(f"unknown schedule '{schedule}'", f"schedules are: {', '.join(SCHEDULES)}")
    if stream_inputs and schedule != "best":
        raise CompileError(f"schedule {schedule} cannot stream inputs", "use --schedule best")
    for name in graph.outputs:
        data = graph.tensors[name].data
        if data is not None and not np.isfinite(data).all():
            raise CompileError("is a constant output that is not a number", "remove it from the model", tensor=name)
    if all(tensor.data is not None for tensor in graph.tensors.values()):
        raise CompileError(f"graph '{graph.name}' computes nothing: all of it is constant", "give a network with an input")
    layer = plan_in_order(graph, file_order(graph), memory, tries=TRIES if schedule == "layer" and not fast else 0)
    if schedule == "layer":
        return layer
    most, tries = (FEW_SETS, 0) if fast else (MOST_SETS, TRIES)
    plans = [] if stream_inputs else [layer]
    apart, inside = (_shared(graph, file_order(graph), parts=parts) for parts in (False, True))
    ways = [inside, apart] if inside.free and not stream_inputs else [apart]  # parts save code, but sometimes cost memory
    for shared in ways[:1] if fast else ways:
        variants = _variants(graph, shared)
        lag, scratch = lags(graph, variants, shared.owner, offset=shared.offset), _scratch(graph, variants)
        saved = partial(saved_bytes, graph, shared.owner, lag)
        found = best_order(graph, shared.owner, scratch, saved, sets=most if shared is ways[0] else most // 5)
        needs = {order: live_bytes(graph, order, shared.owner, scratch, saved) for order in (found.ops, file_order(graph))}
        for order, need in needs.items() if not stream_inputs else ():
            if len(plans) == 1 or max(need) <= min(made.arena[memory] for made in plans):
                parts = bool(shared.free)
                plans.append(plan_in_order(graph, order, memory, overlap=True, moves=not fast, parts=parts, tries=tries))
            if not plans[-1].gap:
                break
    if not stream_inputs and not fast and min(made.arena[memory] for made in plans) > layer.lower_bound:
        plans.append(plan_in_order(graph, file_order(graph), memory))
    if schedule == "best" and (stream_inputs or not fast):
        plans += _fused(Rows.of(graph, variants, graph.inputs if stream_inputs else ()), needs, apart.owner, memory)
    return min(plans, key=lambda made: (made.arena[memory], sum(map(bool, made.variants))))


def _fused(net: Rows, needs: Mapping[tuple[int, ...], Sequence[int]], owner: Mapping[str, str], memory: str) -> list[Plan]:
    """Plans with fused stages; needs: order -> bytes that each step needs by itself."""
    plans = []
    for order, alone in needs.items():
        stages = best_stages(net, order, owner, alone)
        if any(is_fused(net, ops) for ops in stages):
            plans.append(plan_in_stages(net.graph, stages, memory, tuple(net.streamed)))
    return plans


class _Laid(NamedTuple):
    """What is to be placed: the ops of a graph in stages, whose tensors lie in buffers, which overlap as rules allow."""

    graph: Graph
    stages: Sequence[tuple[int, ...]]
    streamed: tuple[str, ...]
    shared: Shared
    variants: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    rules: list[Rule]


def plan_in_order(
    graph: Graph,
    order: tuple[int, ...],
    memory: str = "sram",
    *,
    overlap: bool = False,
    most_lag: int = ANY_LAG,
    share: bool = True,
    moves: bool = False,
    parts: bool = False,
    tries: int = TRIES,
) -> Plan:
    """The plan that runs the ops one by one in `order`.

    With `overlap` an output may lie over operands that die with its op, if its kernel's lag is at most `most_lag`; without
    `share` every tensor has bytes of its own and what would be a view is a copy. With `moves` tensors move to other places
    between steps where only that makes the arena as small as the busiest step allows. With `parts` tensors lie in what they are
    cut from or joined to. `tries` as for `place`.
    """
    shared = _shared(graph, order, parts=parts) if share else Shared(each_its_own(graph), {}, frozenset())
    laid = _lay_out(graph, [(index,) for index in order], (), shared, memory=memory, most_lag=most_lag if overlap else -ANY_LAG)
    return _place(laid, memory, most_lag, moves=moves, tries=tries)


def plan_in_stages(
    graph: Graph, stages: Sequence[tuple[int, ...]], memory: str = "sram", streamed: tuple[str, ...] = ()
) -> Plan:
    """The plan that runs the ops in these stages, fused those of more than one op or that read a `streamed` network input."""
    shared = _shared(graph, tuple(index for ops in stages for index in ops), parts=False)
    laid = _lay_out(graph, stages, streamed, shared, memory=memory, most_lag=ANY_LAG)
    return _place(laid, memory, ANY_LAG, moves=True)


def _place(laid: _Laid, memory: str, most_lag: int, *, moves: bool, tries: int = TRIES) -> Plan:
    found = place(laid.buffers, laid.rules, tries=0)
    least = found.lower_bound
    if found.bytes > least and tries:
        walk = _walk(laid, least, found.bytes, moves=moves)
        known = None if walk is None or walk.moved else {name: at for name, (at,) in walk.offsets.items()}
        least_had = walk is not None and walk.bytes < least + max(b.align for b in laid.buffers)
        found = place(laid.buffers, laid.rules, min(tries, FEWER_TRIES) if least_had else tries, known=known)
        if walk is not None and walk.bytes < found.bytes:
            laid, known = _carry_out(laid, walk, memory, most_lag)
            found = place(laid.buffers, laid.rules, 0, known=known)
    made = _plan(laid, found, memory)
    return replace(made, lower_bound=least) if moves else made


def _shared(graph: Graph, order: tuple[int, ...], *, parts: bool) -> Shared:
    owner = views(graph, order)
    return with_parts(graph, owner, order) if parts else Shared(owner, {}, frozenset())


def _lay_out(
    graph: Graph,
    stages: Sequence[tuple[int, ...]],
    streamed: tuple[str, ...],
    shared: Shared,
    *,
    memory: str,
    most_lag: int,
) -> _Laid:
    owner, variants = shared.owner, _variants(graph, shared)
    net, scratch = Rows.of(graph, variants, streamed), _scratch(graph, variants)
    kept = [(name, rows) for stream in streamings(net, stages) if stream for name, rows in stream.rings.items()]
    rings = {name: rows * row_bytes(graph.tensors[name]) for name, rows in kept}
    for ops in stages:
        scratch[ops[-1]] += net.sums[ops[-1]] if is_fused(net, ops) else 0
    buffers = _buffers(graph, stages, owner, memory, rings) + tuple(
        Buffer(scratch_name(graph.ops[index].name), scratch[index], step, step + 1, memory=memory)
        for step, ops in enumerate(stages)
        for index in ops
        if scratch[index]
    )
    lag = lags_by_stage(net, stages, lags(graph, variants, owner, most_lag, shared.offset), owner)
    return _Laid(graph, stages, streamed, shared, variants, buffers, rules(graph, stages, owner, lag, buffers))


def _walk(laid: _Laid, least: int, most: int, *, moves: bool) -> Walk | None:
    """Layouts within `least`, or the least capacity of some between it and `most` where that cannot be had."""
    graph = laid.graph
    lone = lone_tensors(graph, laid.stages, laid.shared.owner) if moves else {}
    inputs = {laid.shared.owner[name] for name in graph.inputs if name not in laid.streamed}
    state = {name for name, tensor in graph.tensors.items() if tensor.role == "state"}
    grain = max(buffer.align for buffer in laid.buffers)
    steps = [least + (most - least) * part // 8 // grain * grain for part in (1, 2, 4)]
    for capacity in dict.fromkeys((least, -(-least // grain) * grain, *steps)):
        found = find_walk(laid.buffers, laid.rules, capacity, (state, inputs), lambda buffer, step: (buffer, step) in lone)
        if found is not None:
            return found
    return None


def _carry_out(laid: _Laid, moves: Walk, memory: str, most_lag: int) -> tuple[_Laid, dict[str, int]]:
    """What is to be placed when the graph holds the moves as ops, and the offsets that were found for it."""
    lone = lone_tensors(laid.graph, laid.stages, laid.shared.owner)
    steps: list[int | str] = []
    stages: list[tuple[int, ...]] = []
    for step, ops in enumerate(laid.stages):
        for name in (lone[buffer, step] for at, buffer in moves.moved if at == step):
            stages.append((len(steps),))
            steps.append(name)
        stages.append(tuple(range(len(steps), len(steps) + len(ops))))
        steps += ops
    graph, names = with_moves(laid.graph, steps)
    known = {names.get(buffer, [buffer])[0]: offsets[0] for buffer, offsets in moves.offsets.items()}
    left = {buffer: iter(offsets[1:]) for buffer, offsets in moves.offsets.items()}
    targets = [op.outputs[0] for op, step in zip(graph.ops, steps, strict=True) if isinstance(step, str)]
    known |= {target: next(left[buffer]) for target, (_, buffer) in zip(targets, moves.moved, strict=True)}
    shared = _shared(graph, file_order(graph), parts=bool(laid.shared.free))
    return _lay_out(graph, stages, laid.streamed, shared, memory=memory, most_lag=most_lag), known


def _plan(laid: _Laid, placed: Placement, memory: str) -> Plan:
    graph, net = laid.graph, Rows.of(laid.graph, laid.variants, laid.streamed)
    return check(
        Plan(
            graph=graph,
            stages=tuple(Stage(ops, _tile(graph, ops) if is_fused(net, ops) else None) for ops in laid.stages),
            variants=laid.variants,
            buffers=laid.buffers,
            places={name: Place(source, laid.shared.offset.get(name, 0)) for name, source in laid.shared.owner.items()},
            offsets=placed.offsets,
            arena={memory: placed.bytes},
            scratch=max(_scratch(graph, laid.variants), default=0),
            lower_bound=placed.lower_bound,
            streamed=laid.streamed,
        )
    )


def _tile(graph: Graph, ops: tuple[int, ...]) -> Tile:
    """A row of the last tensor at a time; all others keep the rows that are still to be read."""
    *_, w, c = (1, *graph.output(graph.ops[ops[-1]]).shape)
    return Tile(1, w, c, {graph.ops[index].outputs[0]: ("h", "w") for index in ops[:-1]})


def _variants(graph: Graph, shared: Shared) -> tuple[str, ...]:
    return tuple("" if i in shared.free else _variant(graph, op, shared.owner) for i, op in enumerate(graph.ops))


def _variant(graph: Graph, op: Op, owner: dict[str, str]) -> str:
    source, target = op.inputs[0], op.outputs[0]
    is_view = SPECS[op.kind].view and source is not None and owner.get(source) == owner[target]
    return "" if is_view else variant_for(graph, op).name


def _scratch(graph: Graph, variants: tuple[str, ...]) -> list[int]:
    return [BY_NAME[name].scratch(graph, op) if name else 0 for name, op in zip(variants, graph.ops, strict=True)]


def _buffers(
    graph: Graph, stages: Sequence[tuple[int, ...]], owner: dict[str, str], memory: str, rings: Mapping[str, int]
) -> tuple[Buffer, ...]:
    """One buffer per tensor that owns bytes, alive from its first write to the last read of any of its views; state always.

    rings: the bytes of what only one stage sees. All are aligned to words, which fast kernels load; bytes side by side would
    save the real networks no more than 6 bytes.
    """
    steps = max(1, len(stages))
    start = {owner[name]: 0 for name in graph.inputs}
    end = dict.fromkeys(start, 1)
    for step, ops in enumerate(stages):
        for name in (name for index in ops for name in (*graph.ops[index].inputs, *graph.ops[index].outputs)):
            if name in owner:
                start.setdefault(owner[name], step)
                end[owner[name]] = step + 1
    state = [name for name, tensor in graph.tensors.items() if tensor.role == "state"]
    start |= dict.fromkeys(state, 0)
    end |= dict.fromkeys((*state, *(owner[name] for name in graph.outputs if name in owner)), steps)
    return tuple(
        Buffer(name, rings.get(name, tensor.bytes), start[name], end[name], max(4, itemsize(tensor.dtype)), memory)
        for name, tensor in ((name, graph.tensors[name]) for name in start)
    )
