"""Why a tensor lies where it lies. In: a Plan and a name. Out: its bytes, its life, and with whom it shares bytes or cannot.

And why an op runs on its kernel. Only reads the plan. `alias/overlap.py` says what may overlap; the reasons why something may
not are worked out here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..ir import Graph, Op
from ..kernels.table import BY_NAME, VARIANTS, variant_for
from .fuse.schedule import rules_of
from .plan import Buffer, Plan


class Touch(NamedTuple):
    """A step that reads or writes."""

    step: int
    op: str


@dataclass(frozen=True)
class Overlap:
    """An op's output beside one of its operands, of which one is the explained buffer and the other is `other`.

    output: whether the explained one is the output. overlap_distance: bytes that the output must begin below the operand at
    least; None where they must not overlap, and `why`. distance: by how much it does begin below. shared: bytes in both.
    possible: bytes that could be, at the overlap distance.
    """

    op: str
    kernel: str
    other: str
    output: bool
    overlap_distance: int | None
    distance: int
    shared: int
    possible: int
    why: str


@dataclass(frozen=True)
class Explanation:
    """The buffer that holds `tensor`, alive in the steps [start, end).

    persistent: why it lives from the first or to the last step though no op asks for it. waits: the last reader's other operand
    that is written last. at_other_times: buffers on the same bytes when this one is dead. peak: the most live bytes of a step
    of the plan; without: the same if this buffer had none.
    """

    tensor: str
    buffer: str
    memory: str
    offset: int
    bytes: int
    start: int
    end: int
    views: tuple[str, ...]
    writers: tuple[Touch, ...]
    readers: tuple[Touch, ...]
    persistent: tuple[str, ...]
    waits: Touch | None
    overlaps: tuple[Overlap, ...]
    at_other_times: tuple[str, ...]
    peak: int
    without: int


def explain(plan: Plan, tensor: str) -> Explanation:
    """Explain where an activation or an op's scratch lies; KeyError for any other name."""
    graph = plan.graph
    home = plan.buffer(plan.places[tensor].buffer if tensor in plan.places else tensor)
    inside = [name for name, place in plan.places.items() if place.buffer == home.name]
    touches = [(Touch(step, graph.ops[i].name), graph.ops[i]) for step, stage in enumerate(plan.stages) for i in stage.ops]
    readers = [touch for touch, op in touches if set(inside).intersection(op.inputs)]
    writers = [touch for touch, op in touches if set(inside).intersection(op.outputs) and plan.variants[graph.ops.index(op)]]
    return Explanation(
        tensor=tensor,
        buffer=home.name,
        memory=home.memory,
        offset=plan.offset(tensor) if tensor in plan.places else plan.offsets[home.name],
        bytes=min(graph.tensors[tensor].bytes, home.bytes) if tensor in plan.places else home.bytes,
        start=home.start,
        end=home.end,
        views=tuple(name for name in inside if name != tensor),
        writers=tuple(writers),
        readers=tuple(readers),
        persistent=_persistent(graph, inside),
        waits=_waits(plan, readers[-1], inside) if readers else None,
        overlaps=tuple(_overlaps(plan, home)),
        at_other_times=tuple(
            other.name
            for other in sorted(plan.buffers, key=lambda b: b.start)
            if _shared(plan, home, other) and max(home.start, other.start) >= min(home.end, other.end)
        ),
        peak=max(plan.live(step) for step in range(len(plan.stages))) if plan.stages else home.bytes,
        without=_without(plan, home),
    )


def _persistent(graph: Graph, names: list[str]) -> tuple[str, ...]:
    roles = (("network input", graph.inputs), ("network output", graph.outputs))
    reasons = [role for role, wanted in roles if set(names).intersection(wanted)]
    return tuple(reasons + ["state"] * any(graph.tensors[name].role == "state" for name in names))


def _waits(plan: Plan, last: Touch, inside: list[str]) -> Touch | None:
    """Return who writes the operand that the last reader has to wait for, when that is not the explained buffer itself."""
    graph = plan.graph
    op = next(op for op in graph.ops if op.name == last.op)
    step_of = {index: step for step, stage in enumerate(plan.stages) for index in stage.ops}
    others = [graph.producer[name] for name in op.inputs if name in graph.producer and name not in inside]
    latest = max(others, key=lambda index: step_of[index], default=None)
    return None if latest is None else Touch(step_of[latest], graph.ops[latest].name)


def _overlaps(plan: Plan, home: Buffer) -> list[Overlap]:
    graph = plan.graph
    stages = [stage.ops for stage in plan.stages]
    owner = {name: place.buffer for name, place in plan.places.items()}
    allowed = {(rule.lower, rule.upper): rule.distance for rule in rules_of(plan)}
    overlaps = []
    for step, ops in enumerate(stages):
        op, kernel = graph.ops[ops[-1]], plan.variants[ops[-1]]
        outputs = dict.fromkeys(owner[name] for name in op.outputs)
        inner = {name for index in ops for name in graph.ops[index].outputs}
        operands = dict.fromkeys(owner[n] for index in ops for n in graph.ops[index].inputs if n in owner and n not in inner)
        for output, operand in ((a, b) for a in outputs for b in operands if a != b and home.name in (a, b)):
            lower, upper = plan.buffer(output), plan.buffer(operand)
            together = lower.memory == upper.memory
            overlap_distance = allowed.get((output, operand)) if together else None
            if together and (operand, output) in allowed:  # a move goes up as well as down
                overlap_distance = -upper.bytes
            overlaps.append(
                Overlap(
                    op=op.name,
                    kernel=kernel,
                    other=operand if output == home.name else output,
                    output=output == home.name,
                    overlap_distance=overlap_distance,
                    distance=plan.offsets[operand] - plan.offsets[output],
                    shared=_shared(plan, lower, upper),
                    possible=0 if overlap_distance is None else max(0, min(upper.bytes, lower.bytes - overlap_distance)),
                    why="" if overlap_distance is not None else _why_not(plan, op, step, lower, upper),
                )
            )
    return overlaps


def _why_not(plan: Plan, op: Op, step: int, output: Buffer, operand: Buffer) -> str:
    graph = plan.graph
    inside = [name for name, place in plan.places.items() if place.buffer == operand.name]
    if persistent := [role for role in _persistent(graph, inside) if role != "network input"]:
        return f"the operand is {'kept between calls' if 'state' in persistent else 'a network output'}"
    if output.memory != operand.memory:
        return f"the output lies in {output.memory}, the operand in {operand.memory}"
    later = [
        f"{graph.ops[i].name} reads the operand later, in step {at + 1}"
        for at, stage in enumerate(plan.stages)
        for i in stage.ops
        if at > step and set(inside).intersection(graph.ops[i].inputs)
    ]
    if later:
        return later[-1]
    if output.start != step:
        return "the output's bytes hold a value already before"
    return f"{plan.variants[graph.ops.index(op)]} may read the operand after any write"


def _shared(plan: Plan, a: Buffer, b: Buffer) -> int:
    """Return bytes of the arena that two different buffers both cover, at whatever time."""
    if a.name == b.name or a.memory != b.memory:
        return 0
    begin, other = plan.offsets[a.name], plan.offsets[b.name]
    return max(0, min(begin + a.bytes, other + b.bytes) - max(begin, other))


def _without(plan: Plan, home: Buffer) -> int:
    """Return the most live bytes of a step if the buffer had none."""
    rest = replace(plan, buffers=tuple(b for b in plan.buffers if b.name != home.name))
    return max((rest.live(step) for step in range(len(plan.stages))), default=0)


def kernel_reason(plan: Plan, index: int, core: str) -> str:
    """Say why op `index` of the graph has its kernel, of those that run on `core`."""
    graph, op, name = plan.graph, plan.graph.ops[index], plan.variants[index]
    if not name:
        return "no code: what it makes lies where it must"
    fastest, flash_heavy = variant_for(graph, op, core), variant_for(graph, op, core, flash_heavy=True)
    more = flash_heavy.flash(graph, op) - fastest.flash(graph, op)
    if name == flash_heavy.name != fastest.name:
        return f"the fastest on a {core}, with {more:,} B more in Flash than {fastest.name}"
    if BY_NAME[name].copying:
        return f"copies its weights to {BY_NAME[name].scratch(graph, op):,} B of scratch, since Flash waits"
    if name != fastest.name:
        if any(index in stage.ops and stage.tiles is not None for stage in plan.stages) and not fastest.has_part:
            return f"{fastest.name} cannot run by rows"
        scratch = fastest.scratch(graph, op)
        return f"{fastest.name} is faster, with {scratch:,} B of scratch" if scratch else f"{fastest.name} is faster"
    if fastest.cores:
        return f"the fastest on a {core}" + (
            f"; {flash_heavy.name} would keep {more:,} B more in Flash" if flash_heavy.flash_heavy else ""
        )
    others = [row.name for row in VARIANTS if op.kind in row.kinds and core in row.cores]
    return f"{' and '.join(others)} cannot run it exactly" if others else "the only one"
