"""Rewrite a model so that an engine that runs op by op needs less RAM for it. The results stay equal.

TFLite Micro and LiteRT: pad ops are folded into the padding SAME, and the first ops may run patch by patch. For TFLite Micro
the file says where its tensors lie (metadata `OfflineMemoryAllocation`), because its own planner places tensors by size only.
Scratch of kernels is not counted.

Vela runs rows one after the other already, so patches are columns or grids; Vela itself measures each file that is tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

from ..exporters.tflite import PLACES, metadata_of, rewritten, to_tflite
from ..ir import CompileError, Graph
from ..ops import macs, spec_of
from ..ops.window import Size
from ..passes.fuse_pad import MOST_ZEROS, pad_to_same
from ..passes.rewrite import each_op
from ..passes.strip_edges import strip_edges
from ..planning import Buffer
from ..planning.liveness import lifetimes
from ..planning.order.order_search import Order, best_order, file_order, live_bytes, without_views
from ..planning.place.place import arena_bytes, in_order, place
from ..support import vela
from ..support.progress import Progress, silent
from .patchwork import MODES, patched, regions
from .results import Model, Reordering, Rewriting

ENGINES = {"tflm": "TFLite Micro", "litert": "LiteRT", "vela": "Vela"}
MOST_TILED = 14  # ops that are computed patch by patch
GRIDS = tuple((rows, columns) for rows in range(1, 5) for columns in range(1, 5) if rows * columns > 1)
GRIDS_OF_VELA = ((1, 2), (1, 3), (2, 2), (3, 3), (4, 4))
MOST_ZERO_BYTES = 4096  # of Flash for a kernel's zeros that save some 200 B of RAM
ALIGNS = {"tflm": 16, "litert": 64}  # of tensors in an interpreter's arena
MOST_SETS = 40_000  # of ops that a search for an order visits; patches have many
IO = ("model", "int8")


def rewrite_for(
    model: Model, engine: str, most_macs: float = 1.0, *, io: str = "model", progress: Progress = silent
) -> Reordering:
    """Rewrite a model's file for an engine, or leave it as it is if the engine would need no fewer bytes for activations.

    Args:
        engine: a name of ENGINES; `vela:ethos-u55-128` for another accelerator than Vela's default.
        most_macs: upper bound on the MACs as a multiple of the model's, and on the cycles that Vela estimates.
        io: `int8` to remove conversions at inputs and outputs; `model` to keep them.
        progress: called before each file that Vela compiles.
    """
    name, _, accelerator = engine.partition(":")
    if name not in ENGINES or (accelerator and name != "vela"):
        raise CompileError(f"--engine {engine} is unknown", f"it is one of {', '.join(ENGINES)}")
    if not most_macs >= 1:
        raise CompileError(f"--max-mac-overhead {most_macs:g} is below 1", "give for example 1.05")
    if io not in IO:
        raise CompileError(f"--io {io} is unknown for a file", f"it is one of {', '.join(IO)}")
    given = strip_edges(model.original)[0] if io == "int8" else model.original
    offsets: Mapping[str, int] | None = None
    if name == "vela":
        estimate = partial(vela.estimate, accelerator=accelerator)
        before, tiled = estimate(model.file).sram, _for_vela(given, most_macs, estimate, progress)
        after = int(tiled.bytes)
    else:
        before, tiled = greedy_arena(model.original, name), _for_interpreter(given, most_macs, name)
        after = greedy_arena(tiled.graph, name)
        if name == "tflm":
            offsets, after, _ = place(arena_buffers(tiled.graph, name))
    unchanged = "it already says where its tensors lie" if PLACES in metadata_of(model.file) else ""
    if after >= before:
        limit = f"with up to {most_macs:g} times the MACs"
        unchanged = unchanged or f"{ENGINES[name]} needs no fewer than {before:,} B for its activations {limit}"
    graph = model.original if unchanged else tiled.graph
    if unchanged:
        done, file = Rewriting(engine, before, before, unchanged=unchanged), model.file
    else:
        work = macs(graph) / macs(given) if macs(given) else 1.0
        done = Rewriting(engine, before, after, work, tiled.pads, tiled.ops, tiled.grid)
        file = rewritten(model.file, graph, offsets)
    peak = max(live_bytes(graph, file_order(graph), without_views(graph)), default=0)
    bound = min(peak, best_order(graph, without_views(graph), sets=MOST_SETS).lower_bound)
    owner = without_views(model.original) | without_views(graph)
    return Reordering(model, "working_set", owner, Order(file_order(graph), peak, bound), file, graph, done)


def _in_best_order(graph: Graph) -> Graph:
    order = best_order(graph, without_views(graph), sets=MOST_SETS)
    return replace(graph, ops=tuple(graph.ops[index] for index in order.ops))


class _Tiled(NamedTuple):
    """A graph of which the first `ops` ops are computed in a grid of patches, and the engine's bytes for it."""

    bytes: float
    graph: Graph
    pads: int = 0  # ops that were folded
    ops: int = 0
    grid: tuple[int, int] = (1, 1)


def _for_interpreter(given: Graph, most_macs: float, name: str) -> _Tiled:
    """Return the graph that an interpreter is estimated to need the fewest bytes for: with pads folded, then in patches."""
    needed = _tflm_bytes if name == "tflm" else partial(greedy_arena, engine=name)
    folded = {macs(graph): graph for graph in (fold_pads(given, macs(given)), fold_pads(given, most_macs * macs(given)))}
    ordered = [_in_best_order(folded[count]) for count in sorted(folded, reverse=True)]
    graphs = [_Tiled(needed(graph), graph, _pads(given) - _pads(graph)) for graph in ordered]
    tiled = [
        each._replace(bytes=needed(new), graph=new, ops=ops, grid=grid)
        for each in graphs
        for new, ops, grid in _patchworks(each.graph, GRIDS, most_macs * macs(given))
    ]
    least = min((graphs[0], *tiled), key=lambda each: each.bytes)
    return least._replace(graph=_in_best_order(least.graph))


def _pads(graph: Graph) -> int:
    return sum(spec_of(op).family == "pad" for op in graph.ops)


def _patchworks(graph: Graph, grids: Sequence[Size], most_macs: float) -> Iterator[tuple[Graph, int, Size]]:
    """Yield graphs in patches with up to `most_macs` MACs, the ops in patches, and the grid.

    A region ends with a map that is no larger than those before, as its pieces and the whole are joined in RAM.
    """
    least = math.inf
    for region in regions(graph, MOST_TILED) if most_macs > macs(graph) else ():
        if graph.tensors[region.out].bytes > least:
            continue
        least = graph.tensors[region.out].bytes
        for grid, mode in product(grids, MODES):
            new = patched(graph, region, grid, mode)
            if new is not None and macs(new) <= most_macs:
                yield new, len(region.ops), grid


def _for_vela(given: Graph, most_macs: float, estimate: Callable[[bytes], vela.Estimate], progress: Progress) -> _Tiled:
    """Return the graph in patches for which Vela needs the least SRAM, within a multiple of the MACs and of Vela's cycles.

    This takes up to some 60 runs of Vela, of about a second each.
    """
    folded = each_op(given, lambda graph, op: pad_to_same(graph, op, 0))
    start, pads = estimate(to_tflite(given)), _pads(given) - _pads(folded)
    least = _Tiled(start.sram, given)
    tried = list(_patchworks(folded, GRIDS_OF_VELA, most_macs * macs(given)))
    for number, (graph, ops, grid) in enumerate(tried):
        progress("files in Vela", number, len(tried))
        try:
            said = estimate(to_tflite(graph))
        except CompileError:
            continue
        if said.sram < least.bytes and said.cycles <= most_macs * start.cycles:
            least = _Tiled(said.sram, graph, pads, ops, grid)
    return least


def _tflm_bytes(graph: Graph) -> float:
    """Estimate TFLite Micro's arena: the activations that are alive at the peak, and structures with pointers of 64 bits.

    The constants fit 60 models within 8 %, plus a tenth, so that patches that are worse are not taken for better.
    """
    filters = [graph.output(op).shape[-1] for op in graph.ops if spec_of(op).family == "convolution"]
    structures = 115 * len(graph.ops) + 67 * len(filters) + 8.6 * sum(filters) + 36 * len(graph.tensors)
    return place(arena_buffers(graph, "tflm"), tries=0).lower_bound + structures


def fold_pads(graph: Graph, most_macs: float) -> Graph:
    """Fold pad ops into SAME. Extend kernels by zeros, up to `most_macs` in total, first where this lowers the peak.

    Elsewhere an extended kernel only saves the structures of the pad op, so it may need at most MOST_ZERO_BYTES more Flash.
    """
    graph = each_op(graph, lambda graph, op: pad_to_same(graph, op, 0))
    while True:
        buffers = arena_buffers(graph, "tflm")
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


def tflm_gain(model: Model) -> dict[str, int] | None:
    """Return TFLite Micro's bytes for activations, `before` and at most `after` `rewrite_for`; None if the file has offsets."""
    if PLACES.encode() in model.file:
        return None
    folded = fold_pads(model.original, macs(model.original))
    return {"before": greedy_arena(model.original, "tflm"), "after": place(arena_buffers(folded, "tflm")).bytes}


def arena_buffers(graph: Graph, engine: str) -> list[Buffer]:
    """Return the tensors, views too, that an interpreter places in its arena, in the file's order."""
    align, steps, kept = ALIGNS[engine], len(graph.ops), graph.inputs if engine == "litert" else ()
    lives = lifetimes(graph, [(index,) for index, _ in enumerate(graph.ops)], without_views(graph))
    return [
        Buffer(name, -(-tensor.bytes // align) * align, max(life.begin, 0), steps if name in kept else life.end, align)
        for name, tensor in graph.tensors.items()
        if tensor.role == "activation" and (life := lives.get(name)) is not None
    ]


def greedy_arena(graph: Graph, engine: str) -> int:
    """Return the bytes of an arena that is filled with the largest tensor first, as the planners of the interpreters do.

    Of equal ones TFLite Micro places the last in the file first, LiteRT the first that is used. LiteRT's inputs come first.
    """
    buffers = arena_buffers(graph, engine)

    def rank(index: int) -> tuple[int, ...]:
        buffer = buffers[index]
        if engine == "tflm":
            return -buffer.bytes, -index
        return buffer.name not in graph.inputs, -graph.tensors[buffer.name].bytes, buffer.start, index

    return arena_bytes(buffers, in_order(buffers, sorted(range(len(buffers)), key=rank)))
