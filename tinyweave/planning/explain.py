"""Explain why a tensor is placed where it is, and why an op runs on its kernel.

In: a Plan and a name. Out: the tensor's size and lifetime, and which buffers it overlaps or must not overlap. This module
only reads the plan: `alias/overlap.py` decides what may overlap, and the reasons against an overlap are found here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir import Graph, Op
from ..kernels.table import BY_NAME, ONLY_KERNEL, explain_kernel, variant_for
from .fuse.row_schedule import rules_of
from .plan import Buffer, Plan

FASTEST = "the fastest kernel for it"  # the reason for a portable kernel if no kernel of the core is faster


Touch = tuple[int, str]
"""A read or write of the explained buffer: the step, and the name of the op."""


@dataclass(frozen=True)
class Overlap:
    """How far, in bytes, an output overlaps an operand, and how far it may. One of the two is the explained buffer."""

    op: str
    kernel: str
    other: str  # the one of the two buffers that is not explained
    output: bool  # the explained buffer is the output
    overlap_distance: int | None  # by which the output must start below the operand; None if they must not overlap
    distance: int  # by which the output does start below the operand
    shared: int  # bytes that the two have in common
    possible: int  # bytes that they could have in common at the overlap distance
    why: str  # why they must not overlap, "" if they may


@dataclass(frozen=True)
class Explanation:
    """What `explain` reports: buffer, offset, the ops that use it, overlaps. It is alive in the steps [start, end)."""

    tensor: str
    buffer: str
    memory: str
    offset: int  # of the tensor in the memory
    bytes: int  # of the tensor
    start: int
    end: int
    views: tuple[str, ...]  # other tensors in the buffer
    writers: tuple[Touch, ...]
    readers: tuple[Touch, ...]
    persistent: tuple[str, ...]  # roles for which it is alive before its first writer or after its last reader
    waits: Touch | None  # the op that computes the latest other operand of the last reader; the tensor is kept until then
    overlaps: tuple[Overlap, ...]
    at_other_times: tuple[str, ...]  # buffers on the same bytes while this buffer is not alive
    peak: int  # bytes of the plan's largest step
    without: int  # bytes of the largest step if this buffer did not exist
    kernels: tuple[tuple[str, str], ...] = ()  # (kernel, reason) of rejected faster kernels, then of the plan's kernel


def explain(plan: Plan, tensor: str, core: str = "") -> Explanation:
    """Explain where an activation or buffer is, and if a core is given, why the op that writes it runs on its kernel.

    Raises:
        KeyError: the plan has no activation or buffer of this name.
    """
    graph = plan.graph
    home = plan.buffer(plan.places[tensor].buffer if tensor in plan.places else tensor)
    inside = [name for name, place in plan.places.items() if place.buffer == home.name]
    touches = [((step, graph.ops[i].name), graph.ops[i]) for step, stage in enumerate(plan.stages) for i in stage.ops]
    readers = [touch for touch, op in touches if set(inside).intersection(op.inputs)]
    writers = [touch for touch, op in touches if set(inside).intersection(op.outputs) and plan.variants[graph.ops.index(op)]]
    producer = graph.producer.get(tensor)
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
        kernels=_kernels(plan, producer, core) if core and producer is not None else (),
    )


def _kernels(plan: Plan, index: int, core: str) -> tuple[tuple[str, str], ...]:
    """Return (kernel, reason against it) of the faster kernels for op `index`, then (kernel of the plan, reason for it)."""
    name = plan.variants[index]
    tried = explain_kernel(plan.graph, plan.graph.ops[index], core) if name else []
    if name and tried[-1][0] != name:
        tried = [each for each in tried if each[0] != name] + [(name, kernel_reason(plan, index, core))]
    return tuple(tried)


def _persistent(graph: Graph, names: list[str]) -> tuple[str, ...]:
    roles = (("network input", graph.inputs), ("network output", graph.outputs))
    reasons = [role for role, wanted in roles if set(names).intersection(wanted)]
    return tuple(reasons + ["state"] * any(graph.tensors[name].role == "state" for name in names))


def _waits(plan: Plan, last: Touch, inside: list[str]) -> Touch | None:
    """Return the op for which the buffer's last reader waits, the last that computes another of its operands, or None."""
    graph = plan.graph
    op = next(op for op in graph.ops if op.name == last[1])
    step_of = {index: step for step, stage in enumerate(plan.stages) for index in stage.ops}
    others = [graph.producer[name] for name in op.inputs if name in graph.producer and name not in inside]
    latest = max(others, key=lambda index: step_of[index], default=None)
    return None if latest is None else (step_of[latest], graph.ops[latest].name)


def _overlaps(plan: Plan, home: Buffer) -> list[Overlap]:
    graph = plan.graph
    stages = [stage.ops for stage in plan.stages]
    owner = {name: place.buffer for name, place in plan.places.items()}
    allowed = rules_of(plan)
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
            if together and (operand, output) in allowed:  # a relocation may go up as well as down
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
        return f"the output is in {output.memory}, the operand in {operand.memory}"
    later = [
        f"{graph.ops[i].name} reads the operand later, in step {at + 1}"
        for at, stage in enumerate(plan.stages)
        for i in stage.ops
        if at > step and set(inside).intersection(graph.ops[i].inputs)
    ]
    if later:
        return later[-1]
    if output.start != step:
        return "the output's memory already holds a value before this step"
    return f"{plan.variants[graph.ops.index(op)]} may read the operand after any write"


def _shared(plan: Plan, a: Buffer, b: Buffer) -> int:
    """Return the bytes of memory that two different buffers both use, perhaps at different times."""
    if a.name == b.name or a.memory != b.memory:
        return 0
    begin, other = plan.offsets[a.name], plan.offsets[b.name]
    return max(0, min(begin + a.bytes, other + b.bytes) - max(begin, other))


def _without(plan: Plan, home: Buffer) -> int:
    """Return the bytes that the plan's largest step would need if the buffer `home` did not exist."""
    rest = replace(plan, buffers=tuple(b for b in plan.buffers if b.name != home.name))
    return max((rest.live(step) for step in range(len(plan.stages))), default=0)


def kernel_reason(plan: Plan, index: int, core: str) -> str:
    """Return why op `index` of the graph runs on its kernel in the plan and not on another kernel of `core`, as text."""
    graph, op, name = plan.graph, plan.graph.ops[index], plan.variants[index]
    if not name:
        return "no code: its output aliases its input"
    fastest, flash_heavy = variant_for(graph, op, core), variant_for(graph, op, core, "flash_heavy")
    more = flash_heavy.flash(graph, op) - fastest.flash(graph, op)
    if name == flash_heavy.name != fastest.name:
        return f"the fastest on a {core}, with {more:,} B more Flash than {fastest.name}"
    if BY_NAME[name].copying:
        return f"copies its weights to {BY_NAME[name].scratch(graph, op):,} B of scratch, since Flash has wait states"
    if BY_NAME[name].compact:
        return f"{fastest.name} is faster but has more code"
    if name != fastest.name:
        if any(index in stage.ops and stage.tiles is not None for stage in plan.stages) and not fastest.has_part:
            return f"{fastest.name} cannot run row by row"
        more, scratch = fastest.flash(graph, op) - BY_NAME[name].flash(graph, op), fastest.scratch(graph, op)
        if more > 0 and BY_NAME[name].cores and not BY_NAME[name].lean:
            return f"{fastest.name} is faster but would take {more:,} B more Flash"
        return f"{fastest.name} is faster but needs {scratch:,} B of scratch" if scratch else f"{fastest.name} is faster"
    if fastest.cores:
        heavier = f"; {flash_heavy.name} would take {more:,} B more Flash" if flash_heavy.flash_heavy else ""
        return f"the fastest on a {core}{heavier}"
    *passed, (_, reason) = explain_kernel(graph, op, core)
    return " ".join(passed[-1]) if passed else reason if reason == ONLY_KERNEL else FASTEST


def is_fast(plan: Plan, index: int, core: str) -> bool | None:
    """Return whether the kernel of op `index` uses instructions of `core` beyond plain C; None if the op runs no code."""
    name = plan.variants[index]
    return core in BY_NAME[name].cores if name else None


def why_portable(plan: Plan, index: int, core: str) -> str:
    """Return why op `index` runs on a portable kernel although `core` has faster ones for its kind; "" if it does not."""
    if not core or is_fast(plan, index, core) is not False:
        return ""
    reason = kernel_reason(plan, index, core)
    return "" if reason in (ONLY_KERNEL, FASTEST) else reason
