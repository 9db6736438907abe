"""Regions of memory, and which tensor's value lies where: what both ways to run a stage need."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Graph, Op
from ...kernels.table import BY_NAME
from ..plan import Plan, scratch_name

Region = tuple[str, int, int]  # memory, begin, end
WORD = 4  # bytes; kernels load words


class UnsoundPlanError(Exception):
    """A plan that would compute wrong bytes or leave its memory: the planner's mistake, never the user's."""


def region_of(plan: Plan, name: str) -> Region:
    begin = plan.offset(name)
    return plan.memory(name), begin, begin + plan.graph.tensors[name].bytes


def disjoint(a: Region, b: Region) -> bool:
    return a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1]


def demand(plan: Plan, held: Mapping[str, Region], name: str, where: str) -> None:
    if held.get(name) != region_of(plan, name):
        raise UnsoundPlanError(f"{where} reads '{name}', which is no longer intact")


def spoil(held: dict[str, Region], region: Region) -> None:
    """Forget every value that has a byte in a region."""
    for name in [name for name, other in held.items() if not disjoint(other, region)]:
        del held[name]


def overwrite(held: dict[str, Region], name: str, region: Region) -> None:
    spoil(held, region)
    held[name] = region


def scratch_of(plan: Plan, index: int) -> Region | None:
    """Return where the scratch of an op lies, if it needs any: in the buffer of its stage."""
    op, stage = plan.graph.ops[index], next(stage for stage in plan.stages if index in stage.ops)
    size = BY_NAME[plan.variants[index]].scratch(plan.graph, op)
    return area_of(plan, scratch_name(plan.graph.ops[stage.ops[0]].name), size, op) if size else None


def area_of(plan: Plan, name: str, size: int, op: Op) -> Region:
    buffer = next((buffer for buffer in plan.buffers if buffer.name == name), None)
    if buffer is None or buffer.bytes < size:
        raise UnsoundPlanError(f"{op.name} needs {size} bytes of scratch in a buffer '{name}'")
    return buffer.memory, plan.offsets[name], plan.offsets[name] + size


def activations(graph: Graph, op: Op) -> list[str]:
    return [name for name in op.inputs if name is not None and graph.tensors[name].data is None]
