"""Ablation: the arena without the planner's techniques, then with one more technique at a time, up to the plan itself.

In: a Graph and its plan. Out: technique -> arena bytes, all with the kernels of the plan.

For each technique, two orders of the ops are planned: the file's order, and the order with the least peak RAM with this
technique. The smaller arena counts. No figure exceeds the one before it, since a planner does not use a technique that does not
help. Figures below the plan's own arena are left out; they occur if the plan spends bytes to save cycles.
"""

from __future__ import annotations

from functools import partial

from ..ir import Graph
from ..kernels.table import BY_NAME
from ..ops import macs
from .alias.overlap import ANY_DISTANCE, distances, saved_bytes, views
from .alias.subtensors import Aliases
from .assemble import NO_OVERLAP, plan_in_order
from .constants_in_ram import without_copies
from .fuse.row_schedule import plan_macs, rules_of
from .kernel_choice import KernelRule, scratch_of, variants_in
from .order.order_search import best_order, file_order, without_views
from .place.place import NO_RULES, place
from .plan import ONE_MEMORY, Plan
from .planner import plan, smallest_plan
from .request import Request

IN_ORDER = (  # technique, whether views alias, the largest overlap distance
    ("best order", False, NO_OVERLAP),
    ("+ views", True, NO_OVERLAP),
    ("+ in-place", True, 0),
    ("+ overlap", True, ANY_DISTANCE),
)


def ablation(graph: Graph, planned: Plan | None = None, strategy: str = "best") -> dict[str, int]:
    """Return technique -> arena bytes with this technique and all before it; the last value is the arena of the plan.

    Keys are "file order", "best order", "+ views", "+ in-place" and so on. All buffers count as if they were in one memory.
    """
    planned, name = planned or plan(graph, Request(strategy)), strategy.partition(":")[0]
    kernels, arenas = _kernels_of(graph, planned), dict[str, int]()

    def add(technique: str, arena: int) -> None:
        arenas[technique] = min(arena, *arenas.values()) if arenas else arena

    add("file order", plan_in_order(graph, file_order(graph), share=False, kernels=kernels).arena[ONE_MEMORY])
    last = "+ views"
    if name != "layer":
        for technique, share, max_distance in IN_ORDER:
            add(technique, _in_order(graph, kernels, share=share, max_distance=max_distance))
        last = "+ moves"
    if name not in ("layer", "unfused"):
        add(last, smallest_plan(graph, Request("unfused"), kernels).arena[ONE_MEMORY])
        last = "+ fusion" if name == "best" else f"+ {name}"
    inputs, outputs = bool(planned.streamed_inputs), bool(planned.streamed_outputs)
    if name == "best" and (inputs or outputs):
        add(last, smallest_plan(graph, Request(), kernels).arena[ONE_MEMORY])
        last = "+ streaming"
    if name == "best" and sum(plan_macs(planned)) > macs(graph):
        streamed = Request(stream_inputs=inputs, stream_outputs=outputs)
        add(last, smallest_plan(graph, streamed, kernels).arena[ONE_MEMORY])
        last = "+ work again"
    bare = without_copies(planned)
    whole = sum(bare.arena.values()) if len(bare.arena) == 1 else _in_one_memory(bare, overlap=name != "layer")
    kept = {technique: arena for technique, arena in arenas.items() if arena >= whole} | {last: whole}
    return kept | (
        {"+ constants in RAM": whole + sum(planned.arena.values()) - sum(bare.arena.values())} if planned.copies else {}
    )


def _in_order(graph: Graph, kernels: KernelRule, *, share: bool, max_distance: int) -> int:
    """Return the arena bytes of unfused ops: the smaller of the file's order and of the order with the least peak RAM.

    `share` says whether views share the memory of their input. `max_distance` is the largest overlap distance, in bytes, of an
    output to an operand; NO_OVERLAP lets no output overlap an operand.
    """
    how = partial(plan_in_order, max_distance=max_distance, share=share, kernels=kernels)
    as_filed = how(graph, file_order(graph))
    owner = views(graph) if share else without_views(graph)
    variants = variants_in(graph, Aliases(owner, {}, frozenset()), kernels)
    saved = partial(saved_bytes, graph, owner, distances(graph, variants, owner, max_distance))
    order = best_order(graph, owner, scratch_of(graph, variants), saved).ops
    if order == file_order(graph):
        return as_filed.arena[ONE_MEMORY]
    return min(as_filed.arena[ONE_MEMORY], how(graph, order).arena[ONE_MEMORY])


def _in_one_memory(plan: Plan, *, overlap: bool) -> int:
    return place(plan.buffers, rules_of(plan) if overlap else NO_RULES).bytes


def _kernels_of(graph: Graph, plan: Plan) -> KernelRule:
    """Return the kernel choice of a plan as a rule for the ops of `graph`, which has no relocations or recomputation."""
    names = {op.name: name for op, name in zip(plan.graph.ops, plan.variants, strict=True)}
    cores = [BY_NAME[name].cores for name in plan.variants if name and BY_NAME[name].cores]
    core = next(core for core in cores[0] if all(core in others for others in cores)) if cores else ""
    return KernelRule(core, frozenset((op.name, names.get(op.name, "")) for op in graph.ops))
