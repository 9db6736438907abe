"""The independent check of a plan: run it symbolically and watch what every byte holds.

In: a Plan. Out: nothing, or an AssertionError that says which rule broke where. Shares no code with the planner: it does
not look at lifetimes at all, but walks the stages, lets each op overwrite its output's bytes, and demands that every
operand still lies intact where it was written, and all state at the end of the inference and of the ones that follow.
"""

from __future__ import annotations

from ..ir import Graph, Op
from ..kernels.table import BY_NAME
from ..ops import SPECS
from .plan import Plan, scratch_name

Region = tuple[str, int, int]  # memory, begin, end


def check(plan: Plan) -> Plan:
    """Return `plan` when executing it keeps every operand intact inside the claimed memory, else raise AssertionError."""
    graph = plan.graph
    _check_stages(plan)
    _check_extent(plan)
    held: dict[str, Region] = {}  # tensor -> where its value lies now
    state = [name for name, tensor in graph.tensors.items() if tensor.role == "state"]
    for name in state:
        _write(held, name, _region(plan, name), f"state '{name}'")
    for name in graph.inputs:
        _write(held, name, _region(plan, name), f"input '{name}'")
    for stage in plan.stages:
        for index in stage.ops:
            _run(plan, graph.ops[index], plan.variants[index], held)
    for name in (*graph.outputs, *state):
        if graph.tensors[name].data is None:
            _demand(plan, held, name, "the end of the network")
    return plan


def _check_stages(plan: Plan) -> None:
    order = [index for stage in plan.stages for index in stage.ops]
    assert sorted(order) == list(range(len(plan.graph.ops))), "every op runs exactly once"
    assert len(plan.variants) == len(order), "one kernel per op"
    for name in (n for n, tensor in plan.graph.tensors.items() if tensor.role == "state"):
        touching = [index for index in order if name in (*plan.graph.ops[index].inputs, *plan.graph.ops[index].outputs)]
        assert touching == sorted(touching), f"the ops that read and write the state '{name}' keep their order"


def _check_extent(plan: Plan) -> None:
    highest = dict.fromkeys(plan.arena, 0)
    for buffer in plan.buffers:
        offset = plan.offsets[buffer.name]
        assert offset >= 0 and offset % buffer.align == 0, f"{buffer.name} lies at {offset}, not a multiple of {buffer.align}"
        highest[buffer.memory] = max(highest[buffer.memory], offset + buffer.bytes)
    extents = {b.name: (b.memory, plan.offsets[b.name], plan.offsets[b.name] + b.bytes) for b in plan.buffers}
    for name in (name for name, tensor in plan.graph.tensors.items() if tensor.role == "state"):
        home = plan.places[name].buffer
        others = [other for other in extents if other != home and not _disjoint(extents[home], extents[other])]
        assert not others, f"the state '{name}' shares bytes with {others}"
    assert highest == dict(plan.arena), f"the arenas claimed are {dict(plan.arena)}, those used {highest}"
    for name, place in plan.places.items():
        buffer = plan.buffer(place.buffer)
        end = place.offset + plan.graph.tensors[name].bytes
        assert place.offset >= 0 and end <= buffer.bytes, f"'{name}' leaves its buffer {buffer.name}"


def _region(plan: Plan, name: str) -> Region:
    begin = plan.offset(name)
    return plan.memory(name), begin, begin + plan.graph.tensors[name].bytes


def _disjoint(a: Region, b: Region) -> bool:
    return a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1]


def _demand(plan: Plan, held: dict[str, Region], name: str, where: str) -> None:
    assert held.get(name) == _region(plan, name), f"{where} reads '{name}', which is no longer intact"


def _write(held: dict[str, Region], name: str, region: Region, where: str) -> None:
    if region[1] % 4:
        raise AssertionError(f"{where}: '{name}' is not 4-aligned")
    for other in [n for n, r in held.items() if not _disjoint(r, region)]:
        del held[other]
    held[name] = region


def _run(plan: Plan, op: Op, variant: str, held: dict[str, Region]) -> None:
    graph = plan.graph
    operands = _activations(graph, op)
    for name in operands:
        _demand(plan, held, name, op.name)
    if not variant:
        # no code: the output must be the input's very bytes, and both stay intact
        assert SPECS[op.kind].view, f"{op.name} is not a view and has no kernel"
        assert _region(plan, op.outputs[0]) == _region(plan, operands[0]), f"{op.name} moves its view"
        held[op.outputs[0]] = _region(plan, op.outputs[0])
        return
    outputs = [_region(plan, name) for name in op.outputs]
    busy = [_region(plan, name) for name in operands] + outputs
    row = BY_NAME[variant]
    scratch = row.scratch(graph, op)
    if scratch:
        buffer = plan.buffer(scratch_name(op.name))
        begin = plan.offsets[buffer.name]
        assert buffer.bytes >= scratch, f"{op.name} needs {scratch} bytes of scratch"
        region = (buffer.memory, begin, begin + scratch)
        assert all(_disjoint(region, other) for other in busy), f"the scratch of {op.name} overlaps an operand"
        for other in [n for n, r in held.items() if not _disjoint(r, region)]:
            del held[other]
    only = [name for name in op.outputs if graph.tensors[name].role != "state"]
    for index, (name, region) in enumerate(zip(op.outputs, outputs, strict=True)):
        # state that an op both reads and writes is one place; writes that trail the reads may overwrite an operand
        lags = row.lag(graph, op) if [name] == only else {}
        read = [(lags.get(i), _region(plan, n)) for i, n in enumerate(op.inputs) if n in operands and n != name]
        others = [other for lag, other in read if not _trails(region, other, lag)] + outputs[:index]
        assert all(_disjoint(region, other) for other in others), f"{op.name} writes over its own operand"
        _write(held, name, region, op.name)


def _trails(output: Region, operand: Region, lag: int | None) -> bool:
    """Whether the kernel has read each byte of the operand before its output gets there."""
    return lag is not None and output[0] == operand[0] and output[1] + lag <= operand[1]


def _activations(graph: Graph, op: Op) -> list[str]:
    return [name for name in op.inputs if name is not None and graph.tensors[name].data is None]
