"""The independent check of a plan: run it symbolically and track which value every byte holds.

In: a Plan. Out: the plan, or an UnsoundPlanError that names the broken rule and its place. The check ignores lifetimes. It runs
the stages and lets each op overwrite the bytes of its output. Every operand must still be intact where it was written, and all
state at the end of the inference. A plan's offsets, sizes and row schedules are claims to be checked. The rows that an op reads
are derived from its window. Shared with the planner are the rows of the table of kernels (a kernel's requirements, scratch, and
whether it runs by rows) and the windows of ops.
"""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Op, itemsize
from ...kernels.access import overlap_distances
from ...kernels.table import BY_NAME, VIEWS, misfit
from ...ops import SPECS
from ..plan import Plan, copy_name, scratch_name
from .fused import Touched as Touched
from .fused import Watch, run_fused
from .regions import WORD, Region, activations, demand, disjoint, overwrite, region_of, scratch_of, spoil
from .regions import UnsoundPlanError as UnsoundPlanError

ALIGNMENTS = (WORD, 2 * WORD)  # of buffers; elements have at most 8 bytes


def check(plan: Plan, watch: Watch | None = None) -> Plan:
    """Return `plan` if every operand stays intact inside the claimed memory, else raise UnsoundPlanError.

    `watch` is called with each row that a fused stage reads or writes.
    """
    graph = plan.graph
    _check_steps(plan)
    _check_streams(plan)
    _check_extent(plan)
    held: dict[str, Region] = {}  # tensor -> the region of its value
    state = _state(graph)
    for name in (*state, *(name for name in graph.inputs if name not in plan.streamed_inputs)):
        overwrite(held, name, region_of(plan, name))
    for stage in plan.stages:
        if stage.schedule is not None:
            run_fused(plan, stage, stage.schedule, held, watch)
        else:
            _run(plan, stage.ops[0], held)
    for name in (*graph.outputs, *state):
        if graph.tensors[name].data is None and name not in plan.streamed_outputs:
            demand(plan, held, name, "the end of the network")
    _check_claims(plan)
    _check_copies(plan)
    return plan


def _check_steps(plan: Plan) -> None:
    graph = plan.graph
    order = [index for stage in plan.stages for index in stage.ops]
    if sorted(order) != list(range(len(graph.ops))):
        raise UnsoundPlanError(f"the stages run the ops {order}, not every op exactly once")
    if len(plan.variants) != len(order):
        raise UnsoundPlanError(f"there are {len(plan.variants)} kernels for {len(order)} ops")
    _check_kernels(plan)
    for stage in plan.stages:
        if (stage.tiles is None) != (stage.schedule is None):
            raise UnsoundPlanError(f"the stage of ops {stage.ops} is fused, but has no tiles or no row schedule")
        if stage.schedule is None and len(stage.ops) != 1:
            raise UnsoundPlanError(f"the stage of ops {stage.ops} is not fused, so only its first op would run")
    for name in _state(graph):
        touching = [index for index in order if name in (*graph.ops[index].inputs, *graph.ops[index].outputs)]
        if touching != sorted(touching):
            raise UnsoundPlanError(f"the ops that read and write the state '{name}' run in the order {touching}")


def _check_kernels(plan: Plan) -> None:
    """Raise UnsoundPlanError unless each kernel meets its own conditions on its op, and some core can run all kernels."""
    for op, variant in zip(plan.graph.ops, plan.variants, strict=True):
        if variant and (why := misfit(plan.graph, op, variant)):
            raise UnsoundPlanError(f"the kernel '{variant}' cannot run {op.name}: it {why}")
    special = {row.isa: row for row in (BY_NAME[variant] for variant in plan.variants if variant) if row.cores}.values()
    if special and not set.intersection(*(set(row.cores) for row in special)):
        raise UnsoundPlanError(f"no core has the instructions of {' and '.join(sorted(row.name for row in special))}")


def _check_streams(plan: Plan) -> None:
    graph = plan.graph
    bringing = [node for stage in plan.stages if stage.schedule for node in stage.schedule.timings if isinstance(node, str)]
    for name in plan.streamed_inputs:
        if name not in graph.inputs:
            raise UnsoundPlanError(f"'{name}' is streamed, but is no network input")
    if sorted(bringing) != sorted(plan.streamed_inputs):
        raise UnsoundPlanError(
            f"schedules stream in {sorted(bringing)}, but the streamed inputs are {sorted(plan.streamed_inputs)}"
        )
    for name in plan.streamed_outputs:
        if name not in graph.outputs or name not in graph.producer:
            raise UnsoundPlanError(f"'{name}' is a streamed output, but no output of the network that an op computes")
        if any(name in op.inputs for op in graph.ops):
            raise UnsoundPlanError(f"'{name}' is a streamed output, but an op reads it")
        stage = next(stage for stage in plan.stages if graph.producer[name] in stage.ops)
        if stage.schedule is None or stage.ops[-1] != graph.producer[name]:
            raise UnsoundPlanError(f"'{name}' is a streamed output, but no fused stage ends with it")


def _check_extent(plan: Plan) -> None:
    graph = plan.graph
    highest = dict.fromkeys(plan.arena, 0)
    for buffer in plan.buffers:
        offset = plan.offsets.get(buffer.name, -1)
        if offset < 0 or offset % buffer.align or buffer.align not in ALIGNMENTS or buffer.memory not in highest:
            raise UnsoundPlanError(f"the buffer '{buffer.name}' is at {offset} in '{buffer.memory}', aligned to {buffer.align}")
        highest[buffer.memory] = max(highest[buffer.memory], offset + buffer.bytes)
    if highest != dict(plan.arena):
        raise UnsoundPlanError(f"the arenas claimed are {dict(plan.arena)}, those used {highest}")
    extents = {b.name: (b.memory, plan.offsets[b.name], plan.offsets[b.name] + b.bytes) for b in plan.buffers}
    schedules = [stage.schedule for stage in plan.stages if stage.schedule is not None]
    by_rows = {name for schedule in schedules for name in (*schedule.line_buffers, *schedule.tiles)}  # see check_schedule
    used = {name for op in graph.ops for name in (*op.inputs, *op.outputs) if name is not None}
    for name in sorted(used.union(graph.inputs, graph.outputs)):
        tensor = graph.tensors[name]
        if tensor.data is not None:
            continue
        place = plan.places.get(name)
        if place is None or place.buffer not in extents:
            raise UnsoundPlanError(f"'{name}' is in no buffer")
        buffer, word = plan.buffer(place.buffer), max(WORD, itemsize(tensor.dtype))
        if plan.offset(name) % word or buffer.align % word:
            raise UnsoundPlanError(f"'{name}' is at {plan.offset(name)}, not at a multiple of {word} bytes")
        if place.offset < 0 or place.offset + (0 if name in by_rows else tensor.bytes) > buffer.bytes:
            raise UnsoundPlanError(f"'{name}' leaves its buffer '{buffer.name}'")
    for name in _state(graph):
        home = plan.places[name].buffer
        others = [other for other in extents if other != home and not disjoint(extents[home], extents[other])]
        if others:
            raise UnsoundPlanError(f"the state '{name}' shares bytes with {others}")


def _check_claims(plan: Plan) -> None:
    """Check the claims that only reports and pictures show: the most scratch of a call, and when each buffer is alive."""
    graph, last = plan.graph, len(plan.stages) - 1
    kernels = [(BY_NAME[variant], op) for op, variant in zip(graph.ops, plan.variants, strict=True) if variant]
    scratch = max((row.scratch(graph, op) for row, op in kernels), default=0)
    if plan.scratch != scratch:
        raise UnsoundPlanError(f"the scratch claimed is {plan.scratch} bytes, the most that a kernel uses is {scratch}")
    state, uses = _state(graph), list[tuple[str, int]]()  # tensor or scratch, step that uses it
    uses += [(name, 0) for name in (*graph.inputs, *state) if name not in plan.streamed_inputs]
    for step, stage in enumerate(plan.stages):
        for op in (graph.ops[index] for index in stage.ops):
            uses += [(name, step) for name in (scratch_name(op.name), *op.inputs, *op.outputs) if name is not None]
    uses += [(name, last) for name in (*graph.outputs, *state) if name not in plan.streamed_outputs]
    homes = {buffer.name: buffer.name for buffer in plan.buffers} | {name: place.buffer for name, place in plan.places.items()}
    for name, step in uses:
        buffer = plan.buffer(homes[name]) if name in homes else None
        if buffer and not buffer.start <= step < buffer.end <= last + 1:
            steps = f"{buffer.start} to {buffer.end}"
            raise UnsoundPlanError(
                f"the buffer '{buffer.name}' is claimed in the steps {steps} of {last + 1}, but used in {step}"
            )


def _check_copies(plan: Plan) -> None:
    """Check that nothing overwrites a copy of constants while kernels read it; sizes are checked with the C.

    `init` makes copies that are kept in all steps. A callback reads a copy before the step of its reader, or before an earlier
    step if it is claimed from there on. Other buffers are alive as claimed. `init` reads copies for functions besides `invoke`
    ("").
    """
    runs = {plan.graph.ops[i].name: step for step, stage in enumerate(plan.stages) for i in stage.ops if plan.variants[i]}
    extents = {b.name: (b.memory, plan.offsets[b.name], plan.offsets[b.name] + b.bytes) for b in plan.buffers}
    for array, readers in plan.copies.items():
        name = copy_name(array)
        if name not in extents:
            raise UnsoundPlanError(f"there is no buffer '{name}' for the copy of constants")
        buffer = plan.buffer(name)
        is_kept, wanted = not plan.fetches or readers == ("",), "one op that runs" if plan.fetches else "some ops that run"
        known = {*runs, ""} if plan.fetches else runs.keys()
        if not readers or len(set(readers)) < len(readers) or not known >= set(readers) or (plan.fetches and len(readers) > 1):
            raise UnsoundPlanError(f"the copy '{name}' is read by {readers}, not by {wanted} a kernel")
        step = 0 if is_kept else runs[readers[0]]
        steps = (0, len(plan.stages)) if is_kept else (max(0, min(buffer.start, step)), step + 1)
        if (buffer.start, buffer.end) != steps:
            kept = "kept in all" if is_kept else f"read for step {step}"
            raise UnsoundPlanError(f"the copy '{name}' is claimed in the steps {buffer.start} to {buffer.end}, but {kept}")
        alive = [b.name for b in plan.buffers if b.name != name and b.start < steps[1] and steps[0] < b.end]
        if shared := [other for other in alive if not disjoint(extents[name], extents[other])]:
            raise UnsoundPlanError(f"the copy '{name}' shares bytes with {shared}")


def _state(graph: Graph) -> list[str]:
    return [name for name, tensor in graph.tensors.items() if tensor.role == "state"]


def _run(plan: Plan, index: int, held: dict[str, Region]) -> None:
    """Simulate an unfused op: check its operands in `held` (tensor -> region), then overwrite scratch and outputs."""
    graph, op, variant = plan.graph, plan.graph.ops[index], plan.variants[index]
    operands = activations(graph, op)
    for name in operands:
        demand(plan, held, name, op.name)
    if not variant:
        _view(plan, op)
        held |= {name: region_of(plan, name) for name in op.outputs}
        return
    outputs = [region_of(plan, name) for name in op.outputs]
    if scratch := scratch_of(plan, index):
        if not all(disjoint(scratch, region_of(plan, name)) for name in (*operands, *op.outputs)):
            raise UnsoundPlanError(f"the scratch of {op.name} overlaps an operand")
        spoil(held, scratch)
    for number, (name, region) in enumerate(zip(op.outputs, outputs, strict=True)):
        # state that an op both reads and writes is one place; writes that trail the reads may overwrite an operand
        read = [(i, region_of(plan, n)) for i, n in enumerate(op.inputs) if n in operands and n != name]
        over = [(i, other) for i, other in read if not disjoint(region, other)]
        distances = overlap_distances(graph, op, variant) if over else {}
        for position, other in over if op.kind not in VIEWS else ():  # a copy to another place may overlap in any way
            if position not in distances or region[1] + distances[position] > other[1]:
                raise UnsoundPlanError(f"{op.name} writes over its own operand")
        if not all(disjoint(region, other) for other in outputs[:number]):
            raise UnsoundPlanError(f"{op.name} writes over its own output")
        overwrite(held, name, region)


def _view(plan: Plan, op: Op) -> None:
    """Check an op that runs no code: its outputs, or the inputs of a concatenation, must already be in place."""
    for output, operand, between in _same_bytes(plan.graph, op):
        (memory, begin, end), (home, first, last) = region_of(plan, output), region_of(plan, operand)
        nested = (first <= begin and end <= last) or (begin <= first and last <= end)
        if memory != home or first + between != begin or not nested:
            raise UnsoundPlanError(f"{op.name} moves its view")


def _same_bytes(graph: Graph, op: Op) -> list[tuple[str, str, int]]:
    """Return where the outputs of an op without code must lie, as (output, operand, offset after the operand's start).

    The op must only join, cut or reshape tensors. Its reference runs on numbered elements, which shows where each element of an
    output comes from. These elements must be contiguous.
    """
    if SPECS[op.kind].view:
        return [(op.outputs[0], graph.input(op).name, 0)]
    operands = activations(graph, op)
    only_copies = SPECS[op.kind].cuts or SPECS[op.kind].family == "join"
    if not only_copies or len(set(operands)) < len(operands):
        raise UnsoundPlanError(f"{op.name} is not a view and has no kernel")
    arrays, begins, count = [], {}, 0
    for name in op.inputs:
        tensor = None if name is None else graph.tensors[name]
        if tensor is None or tensor.data is not None:
            arrays.append(None if tensor is None else tensor.data)
            continue
        begins[tensor.name] = count
        arrays.append(np.arange(count, count + tensor.elements).reshape(tensor.shape))
        count += tensor.elements
    same = []
    for name, numbers in zip(op.outputs, SPECS[op.kind].reference(graph, op, arrays), strict=True):
        flat, size = numbers.ravel(), itemsize(graph.tensors[name].dtype)
        if not flat.size or (np.diff(flat) != 1).any():
            raise UnsoundPlanError(f"the elements of '{name}' are not contiguous, and {op.name} has no kernel")
        same += [(name, operand, (int(flat[0]) - begin) * size) for operand, begin in begins.items()]
    return same
