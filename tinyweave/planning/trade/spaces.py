"""The orders of a graph's ops that are worth a space, and the space of one. In: a Graph, who shares bytes with whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ...ir import Graph
from ...kernels.layer_cycles import cost_model_core
from ...kernels.table import BY_NAME
from ..alias.overlap import ANY_DISTANCE, distances, saved_bytes
from ..alias.subtensors import Aliases
from ..assemble import NO_OVERLAP
from ..fuse.access import RowGraph
from ..fuse.stages import Partition
from ..kernel_choice import FOR_ALL, Kernels, scratch_of, variants_in
from ..order.search import best_order, file_order, live_bytes
from .space import Space
from .stage_cycles import Kernel


class StreamedIO(NamedTuple):
    """Network inputs that come by rows, and outputs that are handed out by rows."""

    streamed_inputs: tuple[str, ...] = ()
    streamed_outputs: tuple[str, ...] = ()


WHOLE = StreamedIO()


def space_of(
    graph: Graph,
    order: tuple[int, ...],
    shared: Aliases,
    *,
    kernels: Sequence[Kernels] = (FOR_ALL,),
    streams: StreamedIO = WHOLE,
    budget: int,
    fuses: bool = True,
    blocks: bool = False,
    overlap: bool = True,
    partition: Partition | None = None,
    has_cycles: bool = True,
) -> Space:
    """Return the space of an order: the steps by themselves with each of these kernels, and with `fuses` its stages; `blocks`:
    each of these is one tile. Without `has_cycles` only bytes are of interest."""
    portable = _by_rows(graph, streams, kernels[0])
    staying = _staying(graph, streams)
    per_op: list[list[Kernel]] = [[] for _ in graph.ops]
    for each in (portable, *kernels[1:]):
        variants = variants_in(graph, shared, each)
        scratch = scratch_of(graph, variants)
        max_distance = ANY_DISTANCE if overlap else NO_OVERLAP
        distance = distances(staying, variants, shared.owner, max_distance, shared.offset)
        saved = partial(saved_bytes, staying, shared.owner, distance)
        for index, size in zip(order, live_bytes(staying, order, shared.owner, scratch, saved), strict=True):
            if variants[index] not in [kernel.name for kernel in per_op[index]]:
                per_op[index].append(Kernel(variants[index], scratch[index], size))
    row_graph = RowGraph(
        graph, variants_in(graph, shared, portable), streams.streamed_inputs, streamed_outputs=streams.streamed_outputs
    )
    fastest = kernels[-1]
    return Space(
        row_graph,
        order,
        shared.owner,
        per_op,
        cost_model_core(fastest.core) if has_cycles else "",
        reads=fastest.reads,
        budget=budget,
        fuses=fuses,
        blocks=blocks,
        partition=partition,
    )


def orders_of(graph: Graph, shared: Aliases, sets: int, streams: StreamedIO) -> tuple[tuple[int, ...], ...]:
    """Return the best order that `sets` sets of ops lead to, and the file's."""
    variants, staying = variants_in(graph, shared), _staying(graph, streams)
    distance, scratch = distances(staying, variants, shared.owner, offset=shared.offset), scratch_of(graph, variants)
    saved = partial(saved_bytes, staying, shared.owner, distance)
    return tuple(dict.fromkeys((best_order(staying, shared.owner, scratch, saved, sets=sets).ops, file_order(graph))))


def _staying(graph: Graph, streams: StreamedIO) -> Graph:
    """Return the graph without the outputs that are handed out by rows."""
    return replace(graph, outputs=tuple(name for name in graph.outputs if name not in streams.streamed_outputs))


def _by_rows(graph: Graph, streams: StreamedIO, kernels: Kernels) -> Kernels:
    """Return these kernels, but a portable one where only that can hand out an output by rows."""
    makers = [graph.ops[graph.producer[name]] for name in streams.streamed_outputs]
    return kernels._replace(
        portable_ops=kernels.portable_ops | {op.name for op in makers if not BY_NAME[kernels.name(graph, op)].has_part}
    )
