"""Rewrite a model so that an engine that runs op by op needs less RAM for it. The results stay equal.

TFLite Micro: pad ops are folded into the padding SAME, and the first ops may run patch by patch. The file says where its
tensors lie (metadata `OfflineMemoryAllocation`), because TFLite Micro's own planner places tensors by size only. Scratch of
kernels is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..exporters.tflite import PLACES, metadata_of, rewritten
from ..ir import CompileError, Graph
from ..ops import macs, spec_of
from ..passes.fuse_pad import MOST_ZEROS, pad_to_same
from ..passes.rewrite import each_op
from ..planning import Buffer
from ..planning.liveness import lifetimes
from ..planning.order.order_search import Order, best_order, file_order, live_bytes, without_views
from ..planning.place.place import arena_bytes, in_order, place
from .patchwork import patched, regions
from .results import Model, Reordering, Rewriting

ENGINES = ("tflm",)
MOST_TILED = 14  # ops that are computed patch by patch
GRIDS = tuple((rows, columns) for rows in range(1, 5) for columns in range(1, 5) if rows * columns > 1)
MOST_ZERO_BYTES = 4096  # of Flash for a kernel's zeros that save some 200 B of RAM
ALIGN = 16  # of tensors in TFLite Micro's arena


def rewrite_for(model: Model, engine: str, most_macs: float = 1.0) -> Reordering:
    """Rewrite a model's file for an engine, or leave it as it is if the engine would need no fewer bytes for activations.

    Args:
        most_macs: upper bound on the MACs as a multiple of the model's.
    """
    if engine not in ENGINES:
        raise CompileError(f"--engine {engine} is unknown", f"it is one of {', '.join(ENGINES)}")
    if not most_macs >= 1:
        raise CompileError(f"--max-mac-overhead {most_macs:g} is below 1", "give for example 1.05")
    given = model.original
    buffers, offsets = placed_by_tflm(given)
    before, most = arena_bytes(buffers, offsets), most_macs * macs(given)
    folded = _in_best_order(fold_pads(given, most))
    tiled = _tiled([folded, _in_best_order(fold_pads(given, macs(given)))], most) if most_macs > 1 else None
    graph = _in_best_order(tiled.graph) if tiled else folded
    places = place(tflm_buffers(graph))
    unchanged = "it already says where its tensors lie" if PLACES in metadata_of(model.file) else ""
    if places.bytes >= before:
        unchanged = unchanged or f"TFLite Micro needs no fewer than {before:,} B for its activations"
    if unchanged:
        graph, done, file = given, Rewriting(engine, before, before, unchanged=unchanged), model.file
    else:
        work, kinds = macs(graph) / macs(given) if macs(given) else 1.0, [spec_of(op).family for op in given.ops]
        pads = kinds.count("pad") - [spec_of(op).family for op in graph.ops].count("pad")
        done = Rewriting(engine, before, places.bytes, work, pads, tiled.ops if tiled else 0, tiled.grid if tiled else (1, 1))
        file = rewritten(model.file, graph, places.offsets)
    peak = max(live_bytes(graph, file_order(graph), without_views(graph)), default=0)
    bound = min(peak, best_order(graph, without_views(graph)).lower_bound)
    owner = without_views(given) | without_views(graph)
    return Reordering(model, "working_set", owner, Order(file_order(graph), peak, bound), file, graph, done)


def _in_best_order(graph: Graph) -> Graph:
    order = best_order(graph, without_views(graph))
    return replace(graph, ops=tuple(graph.ops[index] for index in order.ops))


class _Tiled(NamedTuple):
    """A graph of which the first `ops` ops are computed in a grid of patches, and TFLite Micro's bytes for it, estimated."""

    bytes: float
    graph: Graph
    ops: int
    grid: tuple[int, int]


def _tiled(graphs: Sequence[Graph], most_macs: float) -> _Tiled | None:
    """Return the graph in patches that needs the fewest bytes; None if the first of `graphs` as it is needs no more."""
    least = _Tiled(_tflm_bytes(graphs[0]), graphs[0], 0, (1, 1))
    for graph in graphs:
        for region in regions(graph, MOST_TILED):
            for grid in GRIDS:
                new = patched(graph, region, grid)
                if new is not None and macs(new) <= most_macs and (needed := _tflm_bytes(new)) < least.bytes:
                    least = _Tiled(needed, new, len(region.ops), grid)
    return least if least.ops else None


def _tflm_bytes(graph: Graph) -> float:
    """Estimate TFLite Micro's arena: the activations that are alive at the peak, and structures with pointers of 64 bits.

    The constants fit 60 models within 8 %, plus a tenth, so that patches that are worse are not taken for better.
    """
    filters = [graph.output(op).shape[-1] for op in graph.ops if spec_of(op).family == "convolution"]
    structures = 115 * len(graph.ops) + 67 * len(filters) + 8.6 * sum(filters) + 36 * len(graph.tensors)
    return place(tflm_buffers(graph), tries=0).lower_bound + structures


def fold_pads(graph: Graph, most_macs: float) -> Graph:
    """Fold pad ops into SAME. Extend kernels by zeros, up to `most_macs` in total, first where this lowers the peak.

    Elsewhere an extended kernel only saves the structures of the pad op, so it may need at most MOST_ZERO_BYTES more Flash.
    """
    graph = each_op(graph, lambda graph, op: pad_to_same(graph, op, 0))
    while True:
        buffers = tflm_buffers(graph)
        live = [[buffer for buffer in buffers if buffer.start <= step < buffer.end] for step, _ in enumerate(graph.ops)]
        at_peak = {buffer.name for buffer in max(live, key=lambda each: sum(buffer.bytes for buffer in each), default=[])}
        found = list[tuple[bool, int, Graph]]()
        for op in graph.ops:
            new = pad_to_same(graph, op, MOST_ZEROS) if spec_of(op).family == "pad" else graph
            aside = op.outputs[0] not in at_peak
            zeros = _constant_bytes(new) - _constant_bytes(graph)
            if new is not graph and macs(new) <= most_macs and not (aside and zeros > MOST_ZERO_BYTES):
                found.append((aside, macs(new), new))
        if not found:
            return graph
        graph = min(found, key=lambda each: each[:2])[2]


def _constant_bytes(graph: Graph) -> int:
    return sum(tensor.bytes for tensor in graph.tensors.values() if tensor.data is not None)


def tflm_buffers(graph: Graph) -> list[Buffer]:
    """Return the tensors that TFLite Micro places in its arena, in the order of the file; a view has memory of its own."""
    lives = lifetimes(graph, [(index,) for index, _ in enumerate(graph.ops)], without_views(graph))
    return [
        Buffer(name, -(-tensor.bytes // ALIGN) * ALIGN, max(life.begin, 0), life.end, ALIGN)
        for name, tensor in graph.tensors.items()
        if tensor.role == "activation" and (life := lives.get(name)) is not None
    ]


def placed_by_tflm(graph: Graph) -> tuple[list[Buffer], Mapping[str, int]]:
    """Return the buffers of a graph, and the offsets that TFLite Micro's greedy planner gives them.

    It places the largest tensor first; of equally large ones the last in the file.
    """
    buffers = tflm_buffers(graph)
    return buffers, in_order(buffers, sorted(range(len(buffers)), key=lambda x: (-buffers[x].bytes, -x)))
