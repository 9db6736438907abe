"""Rewrite a model so that an engine that runs op by op needs less RAM for it. The results stay equal.

TFLite Micro: pad ops are folded into the padding SAME, and the file says where each tensor lies (its metadata
`OfflineMemoryAllocation`), because TFLite Micro's own planner places tensors by size only. Kernels' scratch is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..exporters.tflite import PLACES, metadata_of, rewritten
from ..ir import CompileError, Graph
from ..ops import macs, spec_of
from ..passes.fuse_pad import MOST_ZEROS, pad_to_same
from ..passes.rewrite import each_op
from ..planning import Buffer
from ..planning.liveness import lifetimes
from ..planning.order.order_search import best_order, file_order, live_bytes, without_views
from ..planning.place.place import arena_bytes, in_order, place
from .results import Model, Reordering, Rewriting

ENGINES = ("tflm",)
MOST_ZERO_BYTES = 4096  # of Flash for a kernel's zeros that save some 200 B of RAM
ALIGN = 16  # of tensors in TFLite Micro's arena


def rewrite_for(model: Model, engine: str, most_macs: float = 1.0) -> Reordering:
    """Rewrite a model's file for an engine, or leave it as it is if the engine would need no fewer bytes for activations.

    Args:
        model: a model from `read`.
        engine: a name of ENGINES.
        most_macs: upper bound on the MACs as a multiple of the model's.
    """
    if engine not in ENGINES:
        raise CompileError(f"--engine {engine} is unknown", f"it is one of {', '.join(ENGINES)}")
    if not most_macs >= 1:
        raise CompileError(f"--max-mac-overhead {most_macs:g} is below 1", "give for example 1.05")
    given = model.original
    before = arena_bytes(*placed_by_tflm(given))
    folded = fold_pads(given, most_macs * macs(given))
    order = best_order(folded, without_views(folded))
    graph = replace(folded, ops=tuple(folded.ops[index] for index in order.ops))
    places = place(tflm_buffers(graph))
    unchanged = "it already says where its tensors lie" if PLACES in metadata_of(model.file) else ""
    if places.bytes >= before:
        unchanged = unchanged or f"TFLite Micro needs no fewer than {before:,} B for its activations"
    if unchanged:
        owner, done = without_views(given), Rewriting(engine, before, before, unchanged=unchanged)
        peak = max(live_bytes(given, file_order(given), owner), default=0)
        order = replace(best_order(given, owner), ops=file_order(given), peak=peak)
        return Reordering(model, "working_set", owner, order, model.file, given, done)
    work = macs(graph) / macs(given) if macs(given) else 1.0
    done = Rewriting(engine, before, places.bytes, work, len(given.ops) - len(graph.ops))
    order, owner = replace(order, ops=file_order(graph)), without_views(given) | without_views(graph)
    return Reordering(model, "working_set", owner, order, rewritten(model.file, graph, places.offsets), graph, done)


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
