"""Several memories: which buffers lie in which, the hot ones in the fast ones.

In: a plan in one memory, and the bytes of each memory, the fastest first. Out: the plan in these: all in the first one where
it holds that. Heat is estimated: bytes that the ops read and write (a read per multiplication) per byte that is held.
Outputs overlap operands only within one memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ops import SPECS
from .check import check
from .fuse.schedule import rules_of
from .place.place import Placement, Rule, place
from .plan import Buffer, Plan, scratch_name

TRIES_TO_CHOOSE = 10_000  # placements of one buffer tried for each way to divide; for the one that is taken, all


def excess(arena: Mapping[str, int], memories: Mapping[str, int]) -> int:
    """Return bytes that do not fit."""
    return sum(max(0, count - memories.get(name, 0)) for name, count in arena.items())


def spread(plan: Plan, memories: Mapping[str, int], *, overlap: bool, checked: bool = True) -> Plan:
    """Return `plan` with its buffers in `memories` (name -> bytes, the fastest first), all in the first one if that holds them.

    Where no division that was tried fits, the one that exceeds its memories by the fewest bytes. `overlap` as the plan had it.
    The plan that is returned is `checked`, or to be checked.
    """
    whole = sum(plan.arena.values())
    fastest, capacity = next(iter(memories.items()))
    if whole <= capacity or len(memories) == 1:
        renamed = _renamed(plan, fastest)
        return check(renamed) if checked else renamed
    heat, allowed = traffic(plan), rules_of(plan) if overlap else []
    ways: list[dict[str, str]] = [_divided(plan.buffers, allowed, memories, key) for key in _orders(heat)]
    plans = [_placed(plan, homes, allowed, memories, TRIES_TO_CHOOSE) for homes in ways]
    plans += [_renamed(plan, name) for name in memories]
    rank = {name: number for number, name in enumerate(memories)}

    def cost(candidate: Plan) -> tuple[int, int]:
        return excess(candidate.arena, memories), sum(heat[b.name] * rank[b.memory] for b in candidate.buffers)

    best = min(plans, key=cost)
    if len(best.arena) > 1:
        repacked = _placed(plan, {b.name: b.memory for b in best.buffers}, allowed, memories, None)
        best = min(repacked, best, key=cost)
    return check(best) if checked else best


def divided(plan: Plan, maps: Sequence[Mapping[str, int]], *, overlap: bool, checked: bool = True) -> Plan:
    """Return `plan` in the first of these maps (each as `spread` takes it) that holds it, or in the one that it exceeds by the
    fewest bytes."""
    spreads: list[Plan] = []
    for memories in maps:
        spreads.append(spread(plan, memories, overlap=overlap, checked=checked))
        if not excess(spreads[-1].arena, memories):
            return spreads[-1]
    over = [excess(candidate.arena, memories) for candidate, memories in zip(spreads, maps, strict=True)]
    return spreads[over.index(min(over))]


def traffic(plan: Plan) -> dict[str, int]:
    """Return buffer -> bytes that one inference reads and writes in it, estimated: a read per multiplication, else each byte
    once."""
    graph = plan.graph
    heat = dict.fromkeys((buffer.name for buffer in plan.buffers), 0)
    for edge in (*graph.inputs, *graph.outputs):  # by the caller
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
    """Return the orders in which buffers are offered to the fast memories: hot ones, or what leaves room elsewhere."""
    return (
        lambda b: (-heat[b.name] / max(b.bytes, 1), b.name),
        lambda b: (-heat[b.name], b.name),
        lambda b: (b.bytes, b.name),
        lambda b: (-b.bytes, b.name),
        lambda b: (b.start - b.end, -b.bytes, b.name),
    )


def _divided(
    buffers: Sequence[Buffer], allowed: Sequence[Rule], memories: Mapping[str, int], key: Callable[[Buffer], Any]
) -> dict[str, str]:
    """Return buffer -> memory: each memory takes in order what still fits; what none takes goes where most room is."""
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


def _fill(chosen: list[Buffer], offered: list[Buffer], allowed: Sequence[Rule], capacity: int) -> list[Buffer]:
    """Return `chosen` and what of `offered` fits beside it, half of them at a time where not all do."""
    if not offered or _place(chosen + offered, allowed, 0, capacity).bytes <= capacity:
        return chosen + offered
    if len(offered) == 1:
        return chosen
    half = len(offered) // 2
    return _fill(_fill(chosen, offered[:half], allowed, capacity), offered[half:], allowed, capacity)


def _place(buffers: Sequence[Buffer], allowed: Sequence[Rule], tries: int | None, enough: int) -> Placement:
    names = {b.name for b in buffers}
    inside = [rule for rule in allowed if rule.lower in names and rule.upper in names]
    return place(buffers, inside, enough=enough) if tries is None else place(buffers, inside, tries, enough)


def _placed(
    plan: Plan, homes: Mapping[str, str], allowed: Sequence[Rule], memories: Mapping[str, int], tries: int | None
) -> Plan:
    """Return the plan with its buffers divided like that; a memory that they fit into is used from its start, not packed
    further."""
    buffers = tuple(replace(b, memory=homes[b.name]) for b in plan.buffers)
    parts = {name: [b for b in buffers if b.memory == name] for name in memories}
    enough = {name: 0 if tries is None else memories[name] for name in memories}
    placements = {name: _place(part, allowed, tries, enough[name]) for name, part in parts.items() if part}
    return replace(
        plan,
        buffers=buffers,
        offsets={name: offset for placed in placements.values() for name, offset in placed.offsets.items()},
        arena={name: placed.bytes for name, placed in placements.items()},
        lower_bound=sum(placed.lower_bound for placed in placements.values()),
    )


def _renamed(plan: Plan, memory: str) -> Plan:
    """Return the plan with all of its one memory called `memory`."""
    return replace(
        plan,
        buffers=tuple(replace(b, memory=memory) for b in plan.buffers),
        arena={memory: sum(plan.arena.values())},
    )
