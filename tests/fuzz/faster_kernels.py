"""Replacement of a plan's portable kernels by those of one core.

Takes a plan in one memory and a core; returns a plan of the same order, stages and views with the core's kernels. The scratch
of a stage, shared by its ops, is in the arena during that stage only. On the C stack the largest scratch would be reserved all
the time, and no plan could count it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyweave.kernels.table import BY_NAME, variant_for
from tinyweave.planning.check import check
from tinyweave.planning.fuse.row_schedule import rules_of
from tinyweave.planning.place.place import TRIES, place
from tinyweave.planning.plan import Buffer, Plan, scratch_name

GRAIN = 4  # scratch consists of words


def with_kernels_of(plan: Plan, core: str) -> Plan:
    """Return `plan` with the kernels of `core`, in fused stages only those that run by rows.

    Outputs of the plan may overlap operands whose last use they are.
    """
    graph = plan.graph
    fused = [stage for stage in plan.stages if stage.tiles is not None]
    unchanged = {stage.ops[-1] for stage in fused if _sums(plan, stage.ops[-1])}
    unchanged |= {index for stage in fused for index in stage.ops if not _runs_by_rows(plan, index, core)}
    variants = tuple(
        variant_for(graph, op, core).name if name and index not in unchanged else name
        for index, (op, name) in enumerate(zip(graph.ops, plan.variants, strict=True))
    )
    return plan if variants == plan.variants else check(_placed(plan, variants))


def _runs_by_rows(plan: Plan, index: int, core: str) -> bool:
    """Return whether the core's kernel of an op in a fused stage can run by rows."""
    return not plan.variants[index] or variant_for(plan.graph, plan.graph.ops[index], core).has_part


def _sums(plan: Plan, index: int) -> int:
    """Return the bytes of the sums of an op with row-wise accumulation at the end of a fused stage."""
    return BY_NAME[plan.variants[index]].sums(plan.graph, plan.graph.ops[index])


def _placed(plan: Plan, variants: tuple[str, ...]) -> Plan:
    (memory,) = plan.arena
    added = tuple(_scratch(plan, variants, memory))
    with_scratch = replace(
        plan,
        variants=variants,
        buffers=(*plan.buffers, *added),
        scratch=max((buffer.bytes for buffer in added), default=plan.scratch),
    )
    rules = rules_of(with_scratch)
    as_before = all(rules.get(pair, distance + 1) <= distance for pair, distance in rules_of(plan).items())
    known = _beside(with_scratch, added) if as_before else None
    placement = place(with_scratch.buffers, rules, TRIES, known=known)
    return replace(
        with_scratch,
        offsets=placement.offsets,
        arena={memory: placement.bytes},
        lower_bound=place(with_scratch.buffers, rules, tries=0).lower_bound,
    )


def _scratch(plan: Plan, variants: Sequence[str], memory: str) -> list[Buffer]:
    """Return a buffer for each stage whose ops need scratch."""
    buffers = []
    for step, stage in enumerate(plan.stages):
        sizes = [BY_NAME[variants[i]].scratch(plan.graph, plan.graph.ops[i]) for i in stage.ops if variants[i]]
        if any(sizes):
            name = scratch_name(plan.graph.ops[stage.ops[0]].name)
            buffers.append(Buffer(name, max(sizes), step, step + 1, GRAIN, memory))
    return buffers


def _beside(plan: Plan, added: Sequence[Buffer]) -> Mapping[str, int]:
    """Return the offsets of the plan; each added buffer gets the lowest gap in its step."""
    offsets = dict(plan.offsets)
    for buffer in added:
        top = 0
        for other in sorted((b for b in plan.buffers if b.name in offsets), key=lambda b: offsets[b.name]):
            alive = other.start < buffer.end and buffer.start < other.end
            if alive and offsets[other.name] < top + buffer.bytes:
                top = max(top, -(-(offsets[other.name] + other.bytes) // GRAIN) * GRAIN)
        offsets[buffer.name] = top
    return offsets
