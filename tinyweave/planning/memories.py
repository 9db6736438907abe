"""Distribute the buffers of a plan over several memories, the most used ones in the fastest memory.

In: a plan in one memory, and the capacity of each memory, fastest first. Out: the plan in these memories; everything is in
the first one if it fits. Outputs overlap operands only within one memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ops import SPECS
from .fuse.row_schedule import rules_of
from .place.place import NO_RULES, TRIES, Placement, Rules, place
from .plan import Buffer, Plan, scratch_name

TRIES_TO_CHOOSE = 10_000  # placements of one buffer per distribution; the chosen one gets the full number


def excess(arena: Mapping[str, int], memories: Mapping[str, int]) -> int:
    """Return by how many bytes arenas (memory -> bytes) exceed memories, of which one that is not listed has 0 bytes."""
    return sum(max(0, count - memories.get(name, 0)) for name, count in arena.items())


def distribute(plan: Plan, memories: Mapping[str, int], *, overlap: bool, least: bool = False) -> Plan:
    """Return `plan`, unchecked, distributed over several memories with the least excess, then the least slow traffic.

    All buffers are in the first memory if they fit there. `overlap`: whether outputs may overlap operands as the plan's rules
    allow. `least`: whether few bytes in all memories together matter more than little traffic to slow memories.
    """
    whole = sum(plan.arena.values())
    fastest, capacity = next(iter(memories.items()))
    if whole <= capacity or len(memories) == 1:
        return _renamed(plan, fastest)
    heat, allowed = traffic(plan), rules_of(plan) if overlap else NO_RULES
    homes_of = [_assigned(plan.buffers, allowed, memories, key) for key in _orders(heat)]
    plans = [_placed(plan, homes, allowed, memories) for homes in homes_of]
    plans += [_renamed(plan, name) for name in memories]
    rank = {name: number for number, name in enumerate(memories)}

    def cost(candidate: Plan) -> tuple[int, int, int]:
        need = sum(candidate.arena.values()) if least else 0
        return excess(candidate.arena, memories), need, sum(heat[b.name] * rank[b.memory] for b in candidate.buffers)

    best = min(plans, key=cost)
    if len(best.arena) > 1:
        smallest = dict.fromkeys(memories, 0)
        repacked = _placed(plan, {b.name: b.memory for b in best.buffers}, allowed, smallest, TRIES)
        best = min(repacked, best, key=cost)
    return best


def distribute_over_maps(plan: Plan, maps: Sequence[Mapping[str, int]], *, overlap: bool, least: bool = False) -> Plan:
    """Return `plan`, unchecked, over the first of the memory maps that holds it, or over the one with the least excess."""
    plans: list[Plan] = []
    for memories in maps:
        plans.append(distribute(plan, memories, overlap=overlap, least=least))
        if not excess(plans[-1].arena, memories):
            return plans[-1]
    over = [excess(each.arena, memories) for each, memories in zip(plans, maps, strict=True)]
    return plans[over.index(min(over))]


def traffic(plan: Plan) -> dict[str, int]:
    """Return, for each buffer, an estimate of the bytes that are read and written in it during one inference.

    An op accesses its data operand, and its scratch, once per multiply-accumulate (one byte each time), or all of their bytes
    once if that is more. It accesses all bytes of every other tensor once. The caller accesses the network's inputs and
    outputs once.
    """
    graph = plan.graph
    heat = dict.fromkeys((buffer.name for buffer in plan.buffers), 0)
    for edge in (*graph.inputs, *graph.outputs):  # written and read by the caller
        if edge in plan.places:
            heat[plan.places[edge].buffer] += graph.tensors[edge].bytes
    for op, variant in zip(graph.ops, plan.variants, strict=True):
        if not variant:
            continue
        spec = SPECS[op.kind]
        macs = spec.macs(graph, op, True)
        for index, name in enumerate(op.inputs):
            if name is not None and name in plan.places:
                read = max(graph.tensors[name].bytes, macs if index == spec.data else 0)
                heat[plan.places[name].buffer] += read
        for out in op.outputs:
            heat[plan.places[out].buffer] += graph.tensors[out].bytes
        if (scratch := scratch_name(op.name)) in heat:
            heat[scratch] += max(macs, plan.buffer(scratch).bytes)
    return heat


def _orders(heat: Mapping[str, int]) -> tuple[Callable[[Buffer], Any], ...]:
    """Return sort keys: the orders in which to offer buffers to the fastest memory, by traffic (`heat`), size or lifetime."""
    return (
        lambda b: (-heat[b.name] / max(b.bytes, 1), b.name),
        lambda b: (-heat[b.name], b.name),
        lambda b: (b.bytes, b.name),
        lambda b: (-b.bytes, b.name),
        lambda b: (b.start - b.end, -b.bytes, b.name),
    )


def _assigned(
    buffers: Sequence[Buffer], allowed: Rules, memories: Mapping[str, int], key: Callable[[Buffer], Any]
) -> dict[str, str]:
    """Return buffer -> memory. Each memory takes the buffers that still fit, in the order of `key`.

    A buffer that fits into no memory is assigned to the memory with the most free bytes. `allowed` are the rules by which
    buffers may overlap.
    """
    left, homes, room = sorted(buffers, key=key), dict[str, str](), dict(memories)
    for memory, capacity in memories.items():
        taken = _fill([], left, allowed, capacity)
        homes |= {b.name: memory for b in taken}
        room[memory] -= _place(taken, allowed, 0, capacity).bytes
        left = [b for b in left if b.name not in homes]
    for buffer in left:
        homes[buffer.name] = max(room, key=lambda memory: room[memory])
        room[homes[buffer.name]] -= buffer.bytes
    return homes


def _fill(chosen: list[Buffer], offered: list[Buffer], allowed: Rules, capacity: int) -> list[Buffer]:
    """Return `chosen` plus the `offered` buffers that can be placed in the same `capacity` bytes.

    `allowed` are the rules by which buffers may overlap. If not all offered buffers fit, the function calls itself for the
    first half of them, then for the second half.
    """
    if not offered or _place(chosen + offered, allowed, 0, capacity).bytes <= capacity:
        return chosen + offered
    if len(offered) == 1:
        return chosen
    half = len(offered) // 2
    return _fill(_fill(chosen, offered[:half], allowed, capacity), offered[half:], allowed, capacity)


def _place(buffers: Sequence[Buffer], allowed: Rules, tries: int, enough: int) -> Placement:
    names = {b.name for b in buffers}
    inside = {pair: distance for pair, distance in allowed.items() if names.issuperset(pair)}
    return place(buffers, inside, tries, enough)


def _placed(
    plan: Plan, homes: Mapping[str, str], allowed: Rules, enough: Mapping[str, int], tries: int = TRIES_TO_CHOOSE
) -> Plan:
    """Return the plan with each buffer placed in its memory of `homes` (buffer -> memory).

    In each memory, the search ends when the buffers need at most `enough` bytes (memory -> bytes), or after `tries` placements
    of single buffers.
    """
    buffers = tuple(replace(b, memory=homes[b.name]) for b in plan.buffers)
    parts = {name: [b for b in buffers if b.memory == name] for name in enough}
    placements = {name: _place(part, allowed, tries, enough[name]) for name, part in parts.items() if part}
    return replace(
        plan,
        buffers=buffers,
        offsets={name: offset for placed in placements.values() for name, offset in placed.offsets.items()},
        arena={name: placed.bytes for name, placed in placements.items()},
        lower_bound=sum(placed.lower_bound for placed in placements.values()),
    )


def _renamed(plan: Plan, memory: str) -> Plan:
    """Return the plan with all buffers in the memory called `memory`, at their old offsets."""
    return replace(
        plan, buffers=tuple(replace(b, memory=memory) for b in plan.buffers), arena={memory: sum(plan.arena.values())}
    )
