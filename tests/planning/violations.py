"""The smallest violations of each rule that the check enforces: one byte, one word, one row, one step, one column.

For a sound plan, the functions yield plans that break one rule by as little as the alignment of buffers allows, each with a
pattern of the check's message and with plans that keep the rule with nothing to spare. Buffers that must touch are moved
above all others, so that they overlap nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from cases.tiny import activation
from planning.damage import moved, placed

from tinyweave.ir import Graph, Op, Tensor
from tinyweave.kernels.access import overlap_distances
from tinyweave.kernels.table import BY_NAME, VIEWS
from tinyweave.planning import Buffer, Place, Plan, Stage, copy_name, scratch_name
from tinyweave.planning.plan import RowSchedule

WORD = 4
ROOM = 256  # bytes between buffers moved above all others; a multiple of all alignments
BYSTANDER, OTHER_MEMORY = "bystander", "another memory"


class Violation(NamedTuple):
    """A plan that breaks `rule`. says: pattern of the message. sound: plans that keep the rule with nothing to spare."""

    rule: str
    plan: Plan
    says: str
    sound: tuple[Plan, ...] = ()


class Written(NamedTuple):
    """Bytes that a step writes, at an offset of a buffer."""

    what: str
    buffer: str
    begin: int
    bytes: int


def above(plan: Plan) -> int:
    """Return an offset above all buffers of all memories."""
    top = max((plan.offsets[buffer.name] + buffer.bytes for buffer in plan.buffers), default=0)
    return -(-top // ROOM) * ROOM + ROOM


def in_own_buffer(plan: Plan, tensor: str, size: int) -> Plan:
    """Return the plan with a tensor in its own buffer, above all others."""
    old = plan.buffer(plan.places[tensor].buffer)
    own = replace(old, name=f"{tensor}.own", bytes=size, align=max(WORD, old.align))
    plan = replace(plan, buffers=(*plan.buffers, own), offsets={**plan.offsets, own.name: above(plan)})
    return moved(placed(plan, **{tensor: Place(own.name)}))


def row_bytes(tensor: Tensor) -> int:
    return tensor.bytes // (tensor.shape[1] if len(tensor.shape) == 4 else 1)


def kept_bytes(plan: Plan, schedule: RowSchedule | None, name: str) -> int:
    """Return the bytes of a tensor in its buffer: whole, in a line buffer, or in a tile."""
    tensor = plan.graph.tensors[name]
    if schedule and name in schedule.tiles:
        rows, cols = schedule.tiles[name]
        return rows * cols * tensor.pixel_bytes
    return schedule.line_buffers[name] * row_bytes(tensor) if schedule and name in schedule.line_buffers else tensor.bytes


def activations(plan: Plan, op: Op) -> list[str]:
    return [name for name in op.inputs if name is not None and plan.graph.tensors[name].data is None]


def alone(plan: Plan, name: str) -> bool:
    """Return whether a tensor other than state fills a buffer without other tensors."""
    place = plan.places[name]
    others = [other for other, at in plan.places.items() if at.buffer == place.buffer]
    size = plan.buffer(place.buffer).bytes
    return others == [name] and plan.graph.tensors[name].role != "state" and 0 < plan.graph.tensors[name].bytes == size


def whole_ops(plan: Plan) -> Iterator[tuple[int, Op, str]]:
    """Yield (step, op, kernel) of the ops that run on whole tensors and have a kernel."""
    for step, stage in enumerate(plan.stages):
        if stage.schedule is None and plan.variants[stage.ops[0]]:
            yield step, plan.graph.ops[stage.ops[0]], plan.variants[stage.ops[0]]


def fused(plan: Plan) -> Iterator[tuple[int, Stage, RowSchedule]]:
    for step, stage in enumerate(plan.stages):
        if stage.schedule is not None:
            yield step, stage, stage.schedule


def last_step(plan: Plan, name: str) -> int:
    """Return the last step that reads a tensor; for an output, the number of steps."""
    graph = plan.graph
    steps = [step for step, stage in enumerate(plan.stages) for i in stage.ops if name in graph.ops[i].inputs]
    return len(plan.stages) if name in graph.outputs else max(steps, default=-1)


# two touching buffers


class Pair(NamedTuple):
    """Two buffers of one memory above all others: plans in which the upper one starts at or before the end of the lower one."""

    apart: Plan  # as close as alignment allows
    touching: Plan  # sharing as few bytes as alignment allows


def pair(plan: Plan, lower: str, upper: str) -> Pair:
    """Place one buffer directly above another one, above all others; then one word lower."""
    low, high = plan.buffer(lower), plan.buffer(upper)
    grain, base = max(low.align, high.align, WORD), above(plan)
    end = base + low.bytes
    return Pair(
        moved(plan, **{lower: base, upper: -(-end // grain) * grain}),
        moved(plan, **{lower: base, upper: (end - 1) // grain * grain}),
    )


def pairs(plan: Plan, one: str, other: str) -> Iterator[Pair]:
    """Yield both orders of two buffers, if they are in one memory and not empty."""
    a, b = plan.buffer(one), plan.buffer(other)
    if one != other and a.memory == b.memory and a.bytes and b.bytes:
        yield pair(plan, one, other)
        yield pair(plan, other, one)


# a bystander: a value that is alive during all steps


def written(plan: Plan) -> Iterator[tuple[Plan, Written]]:
    """Yield everything that a plan writes, each in a plan in which it fills its own buffer."""
    graph = plan.graph
    for name in graph.inputs:
        if name not in plan.streamed_inputs:
            place = plan.places[name]
            yield plan, Written("network input", place.buffer, place.offset, graph.tensors[name].bytes)
    for _, op, kernel in whole_ops(plan):
        for name in op.outputs:
            place = plan.places[name]
            yield plan, Written("output", place.buffer, place.offset, graph.tensors[name].bytes)
        if size := BY_NAME[kernel].scratch(graph, op):
            yield plan, Written("scratch", scratch_name(op.name), 0, size)
    for _, stage, schedule in fused(plan):
        for index in stage.ops:
            op, row = graph.ops[index], BY_NAME[plan.variants[index]]
            if size := row.scratch(graph, op) or row.sums(graph, op):
                first = graph.ops[stage.ops[0]] if row.scratch(graph, op) else op
                yield plan, Written("scratch of a stage", scratch_name(first.name), 0, size)
            name = op.outputs[0]
            size = kept_bytes(plan, schedule, name)
            what = "tile" if name in schedule.tiles else "ring" if name in schedule.line_buffers else "output of a stage"
            if what == "output of a stage":
                place = plan.places[name]
                yield plan, Written(what, place.buffer, place.offset, size)
            elif size:
                yield in_own_buffer(plan, name, size), Written(what, f"{name}.own", 0, size)
        for name in (name for name in schedule.timings if isinstance(name, str)):
            size = kept_bytes(plan, schedule, name)
            yield in_own_buffer(plan, name, size), Written("ring of an input", f"{name}.own", 0, size)


@cache
def graph_with_bystander(graph: Graph, size: int) -> Graph:
    """Return the graph with one more input, which no op reads and which is also an output."""
    tensors = {**graph.tensors, BYSTANDER: activation(BYSTANDER, (1, size))}
    return replace(graph, tensors=tensors, inputs=(BYSTANDER, *graph.inputs), outputs=(*graph.outputs, BYSTANDER))


def with_bystander(plan: Plan, memory: str, begin: int, size: int) -> Plan:
    """Return the plan with a value at these bytes that is alive during all steps."""
    buffers = (*plan.buffers, Buffer(BYSTANDER, size, 0, len(plan.stages), memory=memory))
    graph, arena = graph_with_bystander(plan.graph, size), {memory: 0, **plan.arena}
    plan = replace(plan, graph=graph, buffers=buffers, arena=arena)
    return moved(placed(plan, **{BYSTANDER: Place(BYSTANDER)}), **{BYSTANDER: begin})


def overwritten_live_bytes(plan: Plan) -> Iterator[Violation]:
    """Yield plans in which an always live value shares the first or the last byte of something that a step writes."""
    for old, (what, name, begin, size) in written(plan):
        if not size:
            continue
        buffer, base = old.buffer(name), above(old) + ROOM
        lifted = moved(old, **{name: base})
        rule = f"the {what} over what is alive"
        says = f"(the end of the network reads '{BYSTANDER}', which is no longer intact|shares bytes with)"
        if begin == 0:
            near, over = (with_bystander(lifted, buffer.memory, base - WORD, count) for count in (WORD, WORD + 1))
            elsewhere = with_bystander(lifted, OTHER_MEMORY, base, WORD)
            yield Violation(f"{rule}, its first byte", over, says, (near, elsewhere))
        if begin + size == buffer.bytes:
            end = base + buffer.bytes
            near = with_bystander(lifted, buffer.memory, -(-end // WORD) * WORD, 1)
            over = with_bystander(lifted, buffer.memory, (end - 1) // WORD * WORD, (end - 1) % WORD + 1)
            edge = "byte" if end % WORD == 1 else "word"
            yield Violation(f"{rule}, its last {edge}", over, says, (near,))


# ops on whole tensors


def outputs_closer_than_their_overlap_distance(plan: Plan) -> Iterator[Violation]:
    """Yield plans with an output one word closer than the distance, or one byte above the operand's end."""
    graph = plan.graph
    for step, op, kernel in whole_ops(plan):
        dying = [x for x in dict.fromkeys(activations(plan, op)) if last_step(plan, x) == step and alone(plan, x)]
        for y in (y for y in op.outputs if alone(plan, y) and op.kind not in VIEWS):
            for x in dying:
                above_it, below = pairs_of(plan, x, y)
                says = re.escape(f"{op.name} writes over its own operand")
                if above_it and plan.buffer(plan.places[x].buffer).bytes > WORD:  # else it starts at the operand's offset
                    yield Violation("an output in its operand's last bytes", above_it.touching, says, (above_it.apart,))
                apart = [overlap_distances(graph, op, kernel).get(i) for i, name in enumerate(op.inputs) if name == x]
                least = None if None in apart else max(apart)
                low, high = plan.buffer(plan.places[y].buffer), plan.buffer(plan.places[x].buffer)
                if below and least is None:
                    yield Violation(
                        "an output that must not overlap in its operand's first bytes", below.touching, says, (below.apart,)
                    )
                elif below and least is not None:
                    grain = max(low.align, high.align, WORD)
                    base = above(plan) + -(-least // grain) * grain + -(-low.bytes // ROOM) * ROOM
                    near = base - -(-least // grain) * grain
                    sound, wrong = (moved(plan, **{high.name: base, low.name: at}) for at in (near, near + grain))
                    if near + grain + low.bytes > base and near + grain < base + high.bytes:
                        exact = ", one byte" if least % grain == 1 else ""
                        yield Violation(f"an output nearer to its operand than its distance{exact}", wrong, says, (sound,))


def pairs_of(plan: Plan, lower: str, upper: str) -> tuple[Pair | None, Pair | None]:
    """Return the pairs of the buffers of two tensors; None if they are in different memories."""
    found = list(pairs(plan, plan.places[lower].buffer, plan.places[upper].buffer))
    return (found[0], found[1]) if found else (None, None)


def scratch_that_overlaps_operands_or_outputs(plan: Plan) -> Iterator[Violation]:
    for _, op, kernel in whole_ops(plan):
        if BY_NAME[kernel].scratch(plan.graph, op) != (size := getattr(buffer_of(plan, scratch_name(op.name)), "bytes", 0)):
            continue
        for name in (name for name in {*activations(plan, op), *op.outputs} if size and alone(plan, name)):
            for each in pairs(plan, scratch_name(op.name), plan.places[name].buffer):
                says = re.escape(f"the scratch of {op.name} overlaps an operand")
                yield Violation("scratch of an op over an operand or output", each.touching, says, (each.apart,))


def buffer_of(plan: Plan, name: str) -> Buffer | None:
    return next((buffer for buffer in plan.buffers if buffer.name == name), None)


def overlapping_outputs_of_an_op(plan: Plan) -> Iterator[Violation]:
    for _, op, _ in whole_ops(plan):
        names = [name for name in op.outputs if alone(plan, name)]
        for one, other in pairwise(names):
            for each in pairs_of(plan, one, other):
                if each:
                    says = re.escape(f"{op.name} writes over its own output")
                    yield Violation("an output over another one of its op", each.touching, says, (each.apart,))


def operands_freed_too_early(plan: Plan) -> Iterator[Violation]:
    """Yield plans that free a buffer one step early: the output of the step before its last reader overlaps its edge."""
    for step, op, _ in whole_ops(plan):
        for x in plan.places:
            ready = x in plan.graph.inputs or any(x in plan.graph.ops[i].outputs for s in plan.stages[:step] for i in s.ops)
            if x in op.inputs or not ready or not alone(plan, x) or last_step(plan, x) != step + 1:
                continue
            for y in (y for y in op.outputs if alone(plan, y)):
                for each in pairs(plan, plan.places[x].buffer, plan.places[y].buffer):
                    says = re.escape(f"reads '{x}', which is no longer intact")
                    yield Violation("a lifetime one step too short", each.touching, says, (each.apart,))


def views_away_from_their_operands(plan: Plan) -> Iterator[Violation]:
    """Yield plans with the output of a view one word after its operand, in a buffer that is large enough."""
    for stage in plan.stages:
        op = plan.graph.ops[stage.ops[0]]
        if stage.schedule is not None or plan.variants[stage.ops[0]]:
            continue
        for name in op.outputs:
            place = plan.places[name]
            if plan.graph.tensors[name].bytes and plan.graph.tensors[name].role != "state":
                grain = max(WORD, plan.buffer(place.buffer).align)
                buffers = tuple(replace(b, bytes=b.bytes + grain) if b.name == place.buffer else b for b in plan.buffers)
                base = {place.buffer: above(plan)}
                sound = moved(replace(plan, buffers=buffers), **base)
                wrong = placed(sound, **{name: replace(place, offset=place.offset + grain)})
                yield Violation("a view one word further on", wrong, re.escape(f"{op.name} moves its view"), (sound,))


# claims


def inexact_claims(plan: Plan) -> Iterator[Violation]:
    for memory, size in plan.arena.items():
        for claimed in (size - 1, size + 1):
            yield Violation(
                "an arena one byte off", replace(plan, arena={**plan.arena, memory: claimed}), "the arenas claimed are"
            )
    copies = set(map(copy_name, plan.copies))  # their sizes are those of arrays of the C, with which `emit` compares them
    for buffer in plan.buffers:
        for offset in (plan.offsets[buffer.name] + 1, -WORD):
            says = re.escape(f"the buffer '{buffer.name}' is at {offset}")
            yield Violation("an offset one byte off, or below the memory", moved(plan, **{buffer.name: offset}), says)
        other = replace(buffer, align=buffer.align + 1)
        aligned = replace(plan, buffers=tuple(other if b is buffer else b for b in plan.buffers))
        yield Violation("an alignment of no words", moved(aligned, **{buffer.name: 0}), f"aligned to {other.align}")
        if buffer.bytes and buffer.name not in copies:
            short = tuple(replace(b, bytes=b.bytes - 1) if b is buffer else b for b in plan.buffers)
            says = "(leaves its buffer|of scratch in a buffer|needs .* bytes, which its buffer|pixels, which its buffer does)"
            yield Violation("a buffer one byte too small", moved(replace(plan, buffers=short)), says)
    for name, place in plan.places.items():
        before = placed(plan, **{name: replace(place, offset=place.offset - 1)})
        yield Violation("a tensor one byte before its place", before, "(not at a multiple of|leaves its buffer|below)")


def overlapping_state(plan: Plan) -> Iterator[Violation]:
    for name, tensor in plan.graph.tensors.items():
        if tensor.role == "state":
            home = plan.places[name].buffer
            for other in plan.buffers:
                for each in pairs(plan, home, other.name):
                    says = (
                        re.escape(f"the state '{name}' shares bytes with") if not is_state(plan, other.name) else "shares bytes"
                    )
                    yield Violation("state over another buffer", each.touching, says, (each.apart,))


def is_state(plan: Plan, buffer: str) -> bool:
    return any(at.buffer == buffer and plan.graph.tensors[name].role == "state" for name, at in plan.places.items())


def steps_before_the_producer_of_their_input(plan: Plan) -> Iterator[Violation]:
    """Yield plans with two consecutive steps exchanged although the second reads the output of the first."""
    graph = plan.graph
    for step, (first, second) in enumerate(pairwise(plan.stages)):
        made = {name for i in first.ops for name in graph.ops[i].outputs if graph.tensors[name].role != "state"}
        if any(name in made for i in second.ops for name in graph.ops[i].inputs):
            stages = (*plan.stages[:step], second, first, *plan.stages[step + 2 :])
            yield Violation("two steps swapped", replace(plan, stages=stages), "(which is no longer intact|run in the order)")
    for step in range(len(plan.stages)):
        left = replace(plan, stages=plan.stages[:step] + plan.stages[step + 1 :])
        yield Violation("a step left out", left, "not every op exactly once")


RULES: tuple[Callable[[Plan], Iterator[Violation]], ...] = (
    overwritten_live_bytes,
    outputs_closer_than_their_overlap_distance,
    scratch_that_overlaps_operands_or_outputs,
    overlapping_outputs_of_an_op,
    operands_freed_too_early,
    views_away_from_their_operands,
    inexact_claims,
    overlapping_state,
    steps_before_the_producer_of_their_input,
)
