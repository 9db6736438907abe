"""Regions of memory, and the tensor whose value each of them holds; shared by the checks of unfused and of fused stages."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Graph, Op
from ...kernels.table import BY_NAME
from ..plan import Plan, scratch_name

Region = tuple[str, int, int]  # memory, begin, end
WORD = 4  # bytes; kernels load words


class UnsoundPlanError(Exception):
    """A plan that would compute wrong bytes or leave its memory: a fault of the planner, never of the user."""


def region_of(plan: Plan, name: str) -> Region:
    """Return the region (memory, begin, end) of a whole tensor, by the plan."""
    begin = plan.offset(name)
    return plan.memory(name), begin, begin + plan.graph.tensors[name].bytes


def disjoint(a: Region, b: Region) -> bool:
    """Return whether two regions share no byte."""
    return a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1]


def demand(plan: Plan, held: Mapping[str, Region], name: str, where: str) -> None:
    """Raise UnsoundPlanError, with the reader `where`, unless a tensor's value is intact: in its region of `held`."""
    if held.get(name) != region_of(plan, name):
        raise UnsoundPlanError(f"{where} reads '{name}', which is no longer intact")


def spoil(held: dict[str, Region], region: Region) -> None:
    """Remove from `held` (tensor -> region of its intact value) all tensors with a byte in `region`, which is overwritten."""
    for name in [name for name, other in held.items() if not disjoint(other, region)]:
        del held[name]


def overwrite(held: dict[str, Region], name: str, region: Region) -> None:
    """Record in `held` that `region` now holds the tensor's value, and that all other values with a byte in it are lost."""
    spoil(held, region)
    held[name] = region


def scratch_of(plan: Plan, index: int) -> Region | None:
    """Return the region of an op's scratch, in the scratch buffer of its stage; None if the kernel needs no scratch."""
    op, stage = plan.graph.ops[index], next(stage for stage in plan.stages if index in stage.ops)
    size = BY_NAME[plan.variants[index]].scratch(plan.graph, op)
    return area_of(plan, scratch_name(plan.graph.ops[stage.ops[0]].name), size, op) if size else None


def area_of(plan: Plan, name: str, size: int, op: Op) -> Region:
    """Return the first `size` bytes of the buffer `name`; raise UnsoundPlanError, with the reader `op`, if it has fewer."""
    buffer = next((buffer for buffer in plan.buffers if buffer.name == name), None)
    if buffer is None or buffer.bytes < size:
        raise UnsoundPlanError(f"{op.name} needs {size} bytes of scratch in a buffer '{name}'")
    return buffer.memory, plan.offsets[name], plan.offsets[name] + size


def activations(graph: Graph, op: Op) -> list[str]:
    """Return the names of an op's inputs that are not constants."""
    return [name for name in op.inputs if name is not None and graph.tensors[name].data is None]
