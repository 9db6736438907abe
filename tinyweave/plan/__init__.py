"""Planning. In: a Graph and a schedule's name. Out: a checked Plan."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..ir import CompileError, Graph, Op, itemsize
from ..kernels.table import BY_NAME, variant_for
from ..ops import SPECS
from .check import check
from .order import best_order, each_its_own, file_order
from .overlap import ANY_LAG, lags, rules, saved_bytes, views
from .place import place
from .plan import Buffer, Place, Plan, Stage, Tile, from_json, scratch_name, to_json

SCHEDULES = ("layer", "best")

__all__ = ["SCHEDULES", "Buffer", "Place", "Plan", "Stage", "Tile", "check", "from_json", "plan"]
__all__ += ["plan_in_order", "scratch_name", "to_json"]


def plan(graph: Graph, schedule: str = "layer", memory: str = "sram") -> Plan:
    """The plan of `graph` in one memory, ops run one by one and views lie in place.

    `layer` keeps the file's order and all operands apart from outputs; `best` also lets outputs overlap operands that die,
    and takes the order with the least peak under that, where each makes the arena smaller.
    """
    if schedule not in SCHEDULES:
        raise CompileError(f"unknown schedule '{schedule}'", f"schedules are: {', '.join(SCHEDULES)}")
    for name in graph.outputs:
        data = graph.tensors[name].data
        if data is not None and not np.isfinite(data).all():
            raise CompileError("is a constant output that is not a number", "remove it from the model", tensor=name)
    if all(tensor.data is not None for tensor in graph.tensors.values()):
        raise CompileError(f"graph '{graph.name}' computes nothing: all of it is constant", "give a network with an input")
    layer = plan_in_order(graph, file_order(graph), memory)
    if schedule == "layer":
        return layer
    owner = views(graph)
    lag = lags(graph, layer.variants, owner)
    found = best_order(graph, owner, _scratch(graph, layer.variants), partial(saved_bytes, graph, owner, lag))
    orders = dict.fromkeys((file_order(graph), found.ops))
    plans = [layer, *(plan_in_order(graph, order, memory, overlap=True) for order in orders)]
    return min(plans, key=lambda made: made.arena[memory])


def plan_in_order(
    graph: Graph,
    order: tuple[int, ...],
    memory: str = "sram",
    *,
    overlap: bool = False,
    most_lag: int = ANY_LAG,
    share: bool = True,
) -> Plan:
    """The plan that runs the ops one by one in `order`.

    With `overlap` an output may lie over operands that die with its op, if its kernel's lag is at most `most_lag`; without
    `share` every tensor has bytes of its own and what would be a view is a copy.
    """
    owner = views(graph, order) if share else each_its_own(graph)
    variants = tuple(_variant(graph, op, owner) for op in graph.ops)
    scratch = _scratch(graph, variants)
    buffers = _buffers(graph, order, owner, memory) + tuple(
        Buffer(scratch_name(graph.ops[index].name), size, step, step + 1, memory=memory)
        for step, index in enumerate(order)
        if (size := scratch[index])
    )
    lag = lags(graph, variants, owner, most_lag)
    placed = place(buffers, rules(graph, order, owner, lag, buffers) if overlap else ())
    return check(
        Plan(
            graph=graph,
            stages=tuple(Stage((index,)) for index in order),
            variants=variants,
            buffers=buffers,
            places={name: Place(source) for name, source in owner.items()},
            offsets=placed.offsets,
            arena={memory: placed.bytes},
            scratch=max(scratch, default=0),
            lower_bound=placed.lower_bound,
        )
    )


def _variant(graph: Graph, op: Op, owner: dict[str, str]) -> str:
    source, target = op.inputs[0], op.outputs[0]
    is_view = SPECS[op.kind].view and source is not None and owner.get(source) == owner[target]
    return "" if is_view else variant_for(graph, op).name


def _scratch(graph: Graph, variants: tuple[str, ...]) -> list[int]:
    return [BY_NAME[name].scratch(graph, op) if name else 0 for name, op in zip(variants, graph.ops, strict=True)]


def _buffers(graph: Graph, order: tuple[int, ...], owner: dict[str, str], memory: str) -> tuple[Buffer, ...]:
    """One buffer per tensor that owns bytes, alive from its first write to the last read of any of its views; state always."""
    steps = max(1, len(order))
    start = {owner[name]: 0 for name in graph.inputs}
    end = dict.fromkeys(start, 1)
    for step, index in enumerate(order):
        op = graph.ops[index]
        for name in (*op.inputs, *op.outputs):
            if name in owner:
                start.setdefault(owner[name], step)
                end[owner[name]] = step + 1
    state = [name for name, tensor in graph.tensors.items() if tensor.role == "state"]
    start |= dict.fromkeys(state, 0)
    end |= dict.fromkeys((*state, *(owner[name] for name in graph.outputs if name in owner)), steps)
    return tuple(
        Buffer(name, tensor.bytes, start[name], end[name], max(4, itemsize(tensor.dtype)), memory)
        for name, tensor in ((name, graph.tensors[name]) for name in start)
    )
