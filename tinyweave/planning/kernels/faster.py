"""The kernels of one core in a plan that was made with those for all cores.

In: a plan in one memory, a core. Out: the same order, stages and views, with the kernels that the core has; the scratch of a
stage, one area for all of its ops, lies in the arena during that stage only. The C stack would need the largest one all the
time, and no plan could count it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...kernels.table import BY_NAME, variant_for
from ..check import check
from ..fuse.schedule import rules_of
from ..place.place import TRIES, lower_bound, place
from ..plan import Buffer, Plan, scratch_name

GRAIN = 4  # scratch holds words


def with_kernels_of(plan: Plan, core: str) -> Plan:
    """`plan`, whose outputs may overlap operands that die, with the kernels of `core`; those of fused stages that cannot run by
    rows, or sum them up, stay."""
    graph = plan.graph
    fused = [stage for stage in plan.stages if stage.tiles is not None]
    kept = {stage.ops[-1] for stage in fused if _sums(plan, stage.ops[-1])}
    kept |= {index for stage in fused for index in stage.ops if not _runs_by_rows(plan, index, core)}
    variants = tuple(
        variant_for(graph, op, core).name if name and index not in kept else name
        for index, (op, name) in enumerate(zip(graph.ops, plan.variants, strict=True))
    )
    return plan if variants == plan.variants else check(_placed(plan, variants))


def _runs_by_rows(plan: Plan, index: int, core: str) -> bool:
    """Whether the core's kernel of an op of a fused stage has a form for rows."""
    return not plan.variants[index] or variant_for(plan.graph, plan.graph.ops[index], core).has_part


def _sums(plan: Plan, index: int) -> int:
    """Bytes of the sums in which an op that ends a fused stage collects its output."""
    return BY_NAME[plan.variants[index]].sums(plan.graph, plan.graph.ops[index])


def _placed(plan: Plan, variants: tuple[str, ...]) -> Plan:
    (memory,) = plan.arena
    added = tuple(_scratch(plan, variants, memory))
    made = replace(
        plan,
        variants=variants,
        buffers=(*plan.buffers, *added),
        scratch=max((buffer.bytes for buffer in added), default=plan.scratch),
    )
    rules = rules_of(made)
    apart = {(rule.lower, rule.upper): rule.distance for rule in rules}
    as_before = all(apart.get(rule[:2], rule.distance + 1) <= rule.distance for rule in rules_of(plan))
    known = _beside(made, added) if as_before else None
    found = place(made.buffers, rules, TRIES, known=known)
    return replace(made, offsets=found.offsets, arena={memory: found.bytes}, lower_bound=lower_bound(made.buffers, rules))


def _scratch(plan: Plan, variants: Sequence[str], memory: str) -> list[Buffer]:
    """A buffer for each stage whose ops need scratch."""
    found = []
    for step, stage in enumerate(plan.stages):
        needs = [BY_NAME[variants[i]].scratch(plan.graph, plan.graph.ops[i]) for i in stage.ops if variants[i]]
        if any(needs):
            name = scratch_name(plan.graph.ops[stage.ops[0]].name)
            found.append(Buffer(name, max(needs), step, step + 1, GRAIN, memory))
    return found


def _beside(plan: Plan, added: Sequence[Buffer]) -> Mapping[str, int]:
    """The offsets that the plan has, and for what is added the lowest gap of its step."""
    offsets = dict(plan.offsets)
    for buffer in added:
        top = 0
        for other in sorted((b for b in plan.buffers if b.name in offsets), key=lambda b: offsets[b.name]):
            alive = other.start < buffer.end and buffer.start < other.end
            if alive and offsets[other.name] < top + buffer.bytes:
                top = max(top, -(-(offsets[other.name] + other.bytes) // GRAIN) * GRAIN)
        offsets[buffer.name] = top
    return offsets
