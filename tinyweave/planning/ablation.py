"""What each technique of the planner saves. In: a Graph and its plan. Out: the arena with none of them, then with one more at
a time, up to the plan itself; all with the kernels of the plan.

The row of a technique is the least arena of the file's order and of the order that then needs least, or the row before it
when that is smaller: a planner would not use what does not help. Where a plan needs more than techniques alone would, because
it takes less time so, the rows that are below it are left out.
"""

from __future__ import annotations

from functools import partial

from ..ir import Graph
from ..kernels.table import ASKED_FOR, BY_NAME
from ..ops import macs
from .alias.overlap import ANY_DISTANCE, distances, saved_bytes, views
from .alias.subtensors import Aliases
from .assemble import NO_OVERLAP, plan_in_order
from .fuse.schedule import plan_macs, rules_of
from .kernel_choice import FOR_ALL, Kernels, scratch_of, variants_in
from .order.search import best_order, each_its_own, file_order
from .place.place import place
from .plan import Plan
from .planner import plan, smallest_plan

IN_ORDER = (  # name, whether views share bytes, how far an output may lag behind operands that it overlaps
    ("best order", False, NO_OVERLAP),
    ("+ views", True, NO_OVERLAP),
    ("+ in-place", True, 0),
    ("+ overlap", True, ANY_DISTANCE),
)


def ablation(graph: Graph, planned: Plan | None = None, schedule: str = "best", memory: str = "sram") -> dict[str, int]:
    """Return technique -> bytes of the arena with it and all before it; the last is that of `planned`, the plan of `schedule`,
    which is planned if left out. Of a plan in several memories the arena is that of its buffers in one."""
    planned, name = planned or plan(graph, schedule, memory), schedule.partition(":")[0]
    kernels, arenas = _kernels_of(graph, planned), dict[str, int]()

    def add(technique: str, arena: int) -> None:
        arenas[technique] = min(arena, *arenas.values()) if arenas else arena

    add("file order", plan_in_order(graph, file_order(graph), memory, share=False, kernels=kernels).arena[memory])
    last = "+ views"
    if name != "layer":
        for technique, share, max_distance in IN_ORDER:
            add(technique, _in_order(graph, memory, kernels, share=share, max_distance=max_distance))
        last = "+ moves"
    if name not in ("layer", "unfused"):
        add(last, smallest_plan(graph, "unfused", memory, kernels).arena[memory])
        last = "+ fusion" if name == "best" else f"+ {name}"
    streams = {"stream_inputs": bool(planned.streamed_inputs), "stream_outputs": bool(planned.streamed_outputs)}
    if name == "best" and any(streams.values()):
        add(last, smallest_plan(graph, "best", memory, kernels).arena[memory])
        last = "+ streaming"
    if name == "best" and sum(plan_macs(planned)) > macs(graph):
        add(last, smallest_plan(graph, "best", memory, kernels, **streams).arena[memory])
        last = "+ work again"
    whole = sum(planned.arena.values()) if len(planned.arena) == 1 else _in_one_memory(planned, overlap=name != "layer")
    return {technique: arena for technique, arena in arenas.items() if arena >= whole} | {last: whole}


def _in_order(graph: Graph, memory: str, kernels: Kernels, *, share: bool, max_distance: int) -> int:
    """Return the arena in the better one of two orders."""
    how = partial(plan_in_order, overlap=max_distance >= 0, max_distance=max_distance, share=share, kernels=kernels)
    as_filed = how(graph, file_order(graph), memory)
    owner = views(graph) if share else each_its_own(graph)
    variants = variants_in(graph, Aliases(owner, {}, frozenset()), kernels)
    saved = partial(saved_bytes, graph, owner, distances(graph, variants, owner, max_distance))
    order = best_order(graph, owner, scratch_of(graph, variants), saved).ops
    if order == file_order(graph):
        return as_filed.arena[memory]
    return min(as_filed.arena[memory], how(graph, order, memory).arena[memory])


def _in_one_memory(plan: Plan, *, overlap: bool) -> int:
    return place(plan.buffers, rules_of(plan) if overlap else []).bytes


def _kernels_of(graph: Graph, plan: Plan) -> Kernels:
    """Return the kernels that a plan has, for the ops of its graph without moves and maps that are computed twice."""
    rows = {op.name: BY_NAME[variant] for op, variant in zip(plan.graph.ops, plan.variants, strict=True) if variant}
    cores = [row.cores for row in rows.values() if row.cores]
    if not cores:
        return FOR_ALL
    core = next(core for core in cores[0] if all(core in others for others in cores))
    portable_ops = frozenset(op.name for op in graph.ops if op.name not in rows or not rows[op.name].cores)
    flash_heavy, lean, copying = (frozenset(name for name, row in rows.items() if getattr(row, which)) for which in ASKED_FOR)
    return Kernels(core, portable_ops, flash_heavy, lean, copying)
