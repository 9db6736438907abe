"""Planning. In: a Graph and a schedule's name. Out: a checked Plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ..ir import CompileError, Graph, Op, itemsize
from ..kernels.table import BY_NAME, variant_for
from ..ops import SPECS
from .check import check
from .fuse import Rows, best_stages, row_bytes, streaming
from .fuse import lags as stage_lags
from .order import best_order, each_its_own, file_order, live_bytes
from .overlap import ANY_LAG, lags, rules, saved_bytes, views
from .place import place
from .plan import Buffer, Place, Plan, Stage, Tile, from_json, scratch_name, to_json

SCHEDULES = ("layer", "best", "fuse")

__all__ = ["SCHEDULES", "Buffer", "Place", "Plan", "Stage", "Tile", "check", "from_json", "plan"]
__all__ += ["plan_in_order", "scratch_name", "to_json"]


def plan(graph: Graph, schedule: str = "layer", memory: str = "sram", *, stream_inputs: bool = False) -> Plan:
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
    if schedule == "fuse":
        streamed = graph.inputs if stream_inputs else ()
        net, scratch = Rows.of(graph, layer.variants, streamed), _scratch(graph, layer.variants)
        plans = [] if stream_inputs else plans
        for order in orders:
            alone = live_bytes(graph, order, owner, scratch, partial(saved_bytes, graph, owner, lag))
            stages = best_stages(net, order, owner, layer.variants, alone)
            plans.append(plan_in_stages(graph, stages, memory, streamed))
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
    return _planned(graph, [(index,) for index in order], memory, most_lag=most_lag if overlap else -1, share=share)


def plan_in_stages(
    graph: Graph, stages: Sequence[tuple[int, ...]], memory: str = "sram", streamed: tuple[str, ...] = ()
) -> Plan:
    """The plan that runs the ops in these stages, fused those of more than one op or that read a `streamed` network input."""
    return _planned(graph, stages, memory, most_lag=ANY_LAG, share=True, streamed=streamed)


def _planned(
    graph: Graph,
    stages: Sequence[tuple[int, ...]],
    memory: str,
    *,
    most_lag: int,
    share: bool,
    streamed: tuple[str, ...] = (),
) -> Plan:
    order = tuple(index for stage in stages for index in stage)
    owner = views(graph, order) if share else each_its_own(graph)
    variants = tuple(_variant(graph, op, owner) for op in graph.ops)
    net, alone = Rows.of(graph, variants, streamed), lags(graph, variants, owner, most_lag)
    streams = [streaming(net, ops) if _is_fused(graph, ops, streamed) else None for ops in stages]
    lag = [
        alone[ops[0]] if stream is None else stage_lags(net, stream, ops, variants[ops[-1]])
        for ops, stream in zip(stages, streams, strict=True)
    ]
    rings = {name: rows * row_bytes(graph.tensors[name]) for stream in streams if stream for name, rows in stream.rings.items()}
    buffers = _buffers(graph, stages, owner, memory, rings) + _scratch_buffers(graph, stages, variants, memory)
    placed = place(buffers, rules(graph, stages, owner, lag, buffers) if most_lag >= 0 else ())
    return check(
        Plan(
            graph=graph,
            stages=tuple(Stage(ops, _tile(graph, ops) if _is_fused(graph, ops, streamed) else None) for ops in stages),
            variants=variants,
            buffers=buffers,
            places={name: Place(source) for name, source in owner.items()},
            offsets=placed.offsets,
            arena={memory: placed.bytes},
            scratch=max(_scratch(graph, variants), default=0),
            lower_bound=placed.lower_bound,
            streamed=streamed,
        )
    )


def _is_fused(graph: Graph, ops: Sequence[int], streamed: Sequence[str]) -> bool:
    return len(ops) > 1 or not set(streamed).isdisjoint(filter(None, graph.ops[ops[0]].inputs))


def _tile(graph: Graph, ops: tuple[int, ...]) -> Tile:
    """A row of the last tensor at a time; all others keep the rows that are still to be read."""
    _, _, w, c = graph.output(graph.ops[ops[-1]]).shape
    return Tile(1, w, c, {graph.ops[index].outputs[0]: ("h", "w") for index in ops[:-1]})


def _scratch_buffers(
    graph: Graph, stages: Sequence[tuple[int, ...]], variants: tuple[str, ...], memory: str
) -> tuple[Buffer, ...]:
    scratch = _scratch(graph, variants)
    each = [(step, index) for step, ops in enumerate(stages) for index in ops if scratch[index]]
    return tuple(
        Buffer(scratch_name(graph.ops[index].name), scratch[index], step, step + 1, memory=memory) for step, index in each
    )


def _variant(graph: Graph, op: Op, owner: dict[str, str]) -> str:
    source, target = op.inputs[0], op.outputs[0]
    is_view = SPECS[op.kind].view and source is not None and owner.get(source) == owner[target]
    return "" if is_view else variant_for(graph, op).name


def _scratch(graph: Graph, variants: tuple[str, ...]) -> list[int]:
    return [BY_NAME[name].scratch(graph, op) if name else 0 for name, op in zip(variants, graph.ops, strict=True)]


def _buffers(
    graph: Graph, stages: Sequence[tuple[int, ...]], owner: dict[str, str], memory: str, rings: Mapping[str, int]
) -> tuple[Buffer, ...]:
    """One buffer per tensor that owns bytes, alive from its first write to the last read of any of its views; state always.

    rings: the bytes of what only one stage sees.
    """
    steps = max(1, len(stages))
    start = {owner[name]: 0 for name in graph.inputs}
    end = dict.fromkeys(start, 1)
    for step, ops in enumerate(stages):
        for name in (name for index in ops for name in (*graph.ops[index].inputs, *graph.ops[index].outputs)):
            if name in owner:
                start.setdefault(owner[name], step)
                end[owner[name]] = step + 1
    state = [name for name, tensor in graph.tensors.items() if tensor.role == "state"]
    start |= dict.fromkeys(state, 0)
    end |= dict.fromkeys((*state, *(owner[name] for name in graph.outputs if name in owner)), steps)
    return tuple(
        Buffer(name, rings.get(name, tensor.bytes), start[name], end[name], max(4, itemsize(tensor.dtype)), memory)
        for name, tensor in ((name, graph.tensors[name]) for name in start)
    )
