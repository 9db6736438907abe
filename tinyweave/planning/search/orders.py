"""The orders of a graph's ops that are worth searching, and the RAM and cycles of each op in one order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ...ir import Graph
from ...kernels.layer_cycles import cost_model_core
from ...kernels.table import BY_NAME, code_bytes
from ..alias.overlap import ANY_DISTANCE, distances, saved_bytes
from ..alias.subtensors import Aliases
from ..assemble import NO_OVERLAP
from ..fuse.row_access import WHOLE, StreamedIO, shared_row_graph
from ..kernel_choice import PORTABLE, KernelRule, scratch_of, variants_in
from ..order.order_search import best_order, file_order, live_bytes
from .problem import Kernel
from .stage_cycles import StageCycles


def stage_cycles_of(
    graph: Graph,
    order: tuple[int, ...],
    shared: Aliases,
    *,
    kernels: Sequence[KernelRule] = (PORTABLE,),
    streams: StreamedIO = WHOLE,
    overlap: bool = True,
    has_cycles: bool = True,
) -> StageCycles:
    """Return the kernels that each op of a graph may use in an order of the ops, with their RAM and cycles.

    Each of the rules `kernels`, that for portable ones first, gives each op one. `overlap`: whether outputs may overlap
    operands of their op. Without `has_cycles`, all cycles are 0.
    """
    portable = _with_streaming_kernels(graph, streams, kernels[0])
    not_streamed = _without_streamed_outputs(graph, streams)
    per_op: list[list[Kernel]] = [[] for _ in graph.ops]
    for each in (portable, *kernels[1:]):
        variants = variants_in(graph, shared, each)
        scratch = scratch_of(graph, variants)
        max_distance = ANY_DISTANCE if overlap else NO_OVERLAP
        distance = distances(not_streamed, variants, shared.owner, max_distance, shared.offset)
        saved = partial(saved_bytes, not_streamed, shared.owner, distance)
        for index, size in zip(order, live_bytes(not_streamed, order, shared.owner, scratch, saved), strict=True):
            if variants[index] not in [kernel.name for kernel in per_op[index]]:
                name = variants[index]
                flash = (BY_NAME[name].flash(graph, graph.ops[index]), code_bytes([name])) if name else (0, 0)
                per_op[index].append(Kernel(name, scratch[index], *flash, size))
    row_graph = shared_row_graph(graph, variants_in(graph, shared, portable), streams)
    fastest = kernels[-1]
    return StageCycles(row_graph, per_op, cost_model_core(fastest.core) if has_cycles else "", fastest.reads)


def orders_of(graph: Graph, shared: Aliases, sets: int, streams: StreamedIO) -> tuple[tuple[int, ...], ...]:
    """Return the order with the least peak RAM of a search over `sets` sets of ops, then the file's if that differs."""
    variants, not_streamed = variants_in(graph, shared), _without_streamed_outputs(graph, streams)
    distance, scratch = distances(not_streamed, variants, shared.owner, offset=shared.offset), scratch_of(graph, variants)
    saved = partial(saved_bytes, not_streamed, shared.owner, distance)
    return tuple(dict.fromkeys((best_order(not_streamed, shared.owner, scratch, saved, sets=sets).ops, file_order(graph))))


def _without_streamed_outputs(graph: Graph, streams: StreamedIO) -> Graph:
    if not streams.streamed_outputs:
        return graph  # with what it caches
    return replace(graph, outputs=tuple(name for name in graph.outputs if name not in streams.streamed_outputs))


def _with_streaming_kernels(graph: Graph, streams: StreamedIO, kernels: KernelRule) -> KernelRule:
    """Return `kernels`, changed to portable kernels for ops whose own kernel cannot stream a network output."""
    makers = [graph.ops[graph.producer[name]] for name in streams.streamed_outputs]
    whole = {op.name for op in makers if not BY_NAME[kernels.name(graph, op)].has_part}
    named = {each for each in kernels.named if each[0] not in whole} | {(op, "") for op in whole}
    return kernels._replace(named=frozenset(named))
