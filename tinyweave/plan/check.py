"""The independent check of a plan: run it symbolically and watch what every byte holds.

In: a Plan. Out: nothing, or an AssertionError that says which rule broke where. Shares no code with the planner: it does
not look at lifetimes at all, but walks the stages, lets each op overwrite its output's bytes, and demands that every
operand still lies intact where it was written, and all state at the end of the inference and of the ones that follow.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Op, itemsize
from ..kernels.table import BY_NAME
from ..ops import SPECS
from .plan import Plan, scratch_name

Region = tuple[str, int, int]  # memory, begin, end
ONLY_COPIES = ("split", "split_v", "unpack", "slice", "strided_slice", "concatenation", "pack")


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
        # no code: the outputs must be the inputs' very bytes, and all stay intact
        for output, operand, distance in _same_bytes(graph, op):
            (memory, begin, end), (home, first, last) = _region(plan, output), _region(plan, operand)
            assert memory == home and first + distance == begin, f"{op.name} moves its view"
            assert (first <= begin and end <= last) or (begin <= first and last <= end), f"{op.name} moves its view"
            assert begin % 4 == 0 and first % 4 == 0, f"{op.name} has a part that is not 4-aligned"
        held |= {name: _region(plan, name) for name in op.outputs}
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
        moves = variant == "tw_move"  # overlaps as it likes
        read = [(lags.get(i), _region(plan, n)) for i, n in enumerate(op.inputs) if n in operands and n != name]
        others = [other for lag, other in read if not moves and not _trails(region, other, lag)] + outputs[:index]
        assert all(_disjoint(region, other) for other in others), f"{op.name} writes over its own operand"
        _write(held, name, region, op.name)


def _same_bytes(graph: Graph, op: Op) -> list[tuple[str, str, int]]:
    """(output, operand, bytes from the operand's start to the output's) of an op that only joins, cuts or renames.

    Found by sending numbers through its reference: all elements must lie in a row, in the outputs or in the operands.
    """
    if SPECS[op.kind].view:
        assert op.inputs[0] is not None
        return [(op.outputs[0], op.inputs[0], 0)]
    arrays, begins, count = [], {}, 0
    for name in op.inputs:
        tensor = None if name is None else graph.tensors[name]
        if tensor is None or tensor.data is not None:
            arrays.append(None if tensor is None else tensor.data)
            continue
        assert tensor.name not in begins, f"{op.name} is not a view and has no kernel"
        begins[tensor.name] = count
        arrays.append(np.arange(count, count + tensor.elements).reshape(tensor.shape))
        count += tensor.elements
    assert op.kind in ONLY_COPIES, f"{op.name} is not a view and has no kernel"
    found = []
    for name, numbers in zip(op.outputs, SPECS[op.kind].reference(graph, op, arrays), strict=True):
        flat, size = numbers.ravel(), itemsize(graph.tensors[name].dtype)
        assert flat.size and (np.diff(flat) == 1).all(), f"the elements of '{name}' do not lie in a row"
        reach = [(x, b) for x, b in begins.items() if b < flat[-1] + 1 and flat[0] < b + graph.tensors[x].elements]
        found += [(name, operand, (int(flat[0]) - begin) * size) for operand, begin in reach]
    return found


def _trails(output: Region, operand: Region, lag: int | None) -> bool:
    """Whether the kernel has read each byte of the operand before its output gets there."""
    return lag is not None and output[0] == operand[0] and output[1] + lag <= operand[1]


def _activations(graph: Graph, op: Op) -> list[str]:
    return [name for name in op.inputs if name is not None and graph.tensors[name].data is None]
