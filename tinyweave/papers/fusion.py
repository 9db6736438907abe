"""The count `fusion_paper`: RAM and multiply-accumulates of a chain cut into fused blocks, as multi-stage fusion counts them.

In: Layers. Out: Blocks, and the paper's two problems solved exactly: least RAM within an overhead F (P1), least F within so
much RAM (P2). A block computes one row of its output at a time, column by column, and keeps of each layer's input k columns of
its tile (H-cache). The network's own input and output are not counted, nor skips. Source: msf-CNN (arXiv 2505.11483): eq. 5
and 6 (RAM), 14 to 17 (MACs; the printed 16 has c_out twice), 11 to 13 (P1); where its text and its code differ, the code.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..planning import Plan
from .chain import ChainLayer, macs, plan_bytes, scratch_names


class FusionBlock(NamedTuple):
    """Layers [begin, end) that run fused, or one by itself, as the paper counts it."""

    begin: int
    end: int
    ram: int
    macs: int


class FusionCut(NamedTuple):
    """A chain cut into blocks."""

    blocks: tuple[FusionBlock, ...]

    @property
    def ram(self) -> int:
        """Eq. 7."""
        return max(block.ram for block in self.blocks)

    @property
    def macs(self) -> int:
        """Eq. 8."""
        return sum(block.macs for block in self.blocks)


def block(layers: Sequence[ChainLayer], begin: int, end: int) -> FusionBlock | None:
    """Layers [begin, end) as a block; None where its tile is larger than its input, which the paper excludes."""
    run = layers[begin:end]
    outside = (run[0].in_bytes if begin else 0) + (run[-1].out_bytes if end < len(layers) else 0)
    if len(run) == 1:
        return FusionBlock(begin, end, outside, run[0].macs)
    tiles, counted = _tiles(run), 0
    if tiles[0][0] > min(run[0].h, run[0].w):
        return None
    for layer, (rows, step) in zip(run, tiles, strict=True):
        steps = (layer.h + sum(layer.padding[0]) - rows) // step + 1  # only this layer's padding: too few
        counted += steps * ((rows - layer.kernel[0]) // layer.stride[0] + 1) * layer.w_out * layer.macs_per_pixel
    return FusionBlock(begin, end, outside + _buffers(run, *tiles[0]), counted)


def exact_macs(layers: Sequence[ChainLayer], cut: FusionCut) -> int:
    """Return what a cut executes (the paper counts too few row steps): rows outside a map are no work, padding inside is."""
    total = 0
    for begin, end, *_ in cut.blocks:
        run = layers[begin:end]
        steps = [(row, row + 1) for row in range(run[-1].h_out)]  # of each step, the rows that a layer computes
        for layer in reversed(run):
            total += sum(last - first for first, last in steps) * layer.w_out * layer.macs_per_pixel
            steps = [_read(layer, first, last) for first, last in steps]
    return total


def _tiles(run: Sequence[ChainLayer]) -> list[tuple[int, int]]:
    """Return per layer of a block the rows of its input for one row of the block's output, and how much lower the next lie."""
    tiles, rows, step = list[tuple[int, int]](), 1, 1
    for layer in reversed(run):
        rows, step = (rows - 1) * layer.stride[0] + layer.kernel[0], step * layer.stride[0]
        tiles.append((rows, step))
    return tiles[::-1]


def _read(layer: ChainLayer, begin: int, end: int) -> tuple[int, int]:
    """Return the rows of a layer's input that rows [begin, end) of its output read, those outside the map left out."""
    top = layer.padding[0][0]
    return max(begin * layer.stride[0] - top, 0), min((end - 1) * layer.stride[0] - top + layer.kernel[0], layer.h)


def _buffers(run: Sequence[ChainLayer], rows: int, step: int) -> int:
    """Eq. 5 for all layers, the first one too, which the text leaves out. The code takes the rows that it finds in its last
    tile, where padding can add some, and finds its place in a map from the strides alone."""
    place, total = (run[0].h - rows) // step * step, 0
    for layer in run:
        place //= layer.stride[0]
        total += layer.kernel[1] * rows * layer.c_in
        (top, bottom), at_end = layer.padding[0], place + rows >= layer.h
        rows = (rows - layer.kernel[0] + top * (place == 0) + bottom * at_end) // layer.stride[0] + 1
    return total


def unfused(layers: Sequence[ChainLayer]) -> FusionCut:
    """Return the paper's vanilla: each layer by itself."""
    return FusionCut(tuple(edge for at in range(len(layers)) if (edge := block(layers, at, at + 1))))


def plan_ram(plan: Plan) -> int:
    """Return what a plan in one memory needs by the same count: rings, tiles and whole maps, once where they overlap.

    Left out are network inputs that do not come by rows, outputs, and the working memory of kernels.
    """
    inputs = {name for name in plan.graph.inputs if name not in plan.streamed_inputs}
    return plan_bytes(plan, scratch_names(plan) | {plan.places[name].buffer for name in (*inputs, *plan.graph.outputs)})


def least_ram(layers: Sequence[ChainLayer], overhead: float | None = None) -> FusionCut | None:
    """P1: the least RAM with no more than `overhead` times the MACs of the chain, by the paper's count of both."""
    limit = None if overhead is None else overhead * macs(layers)
    return _least(_edges(layers), lambda cut: limit is None or cut.macs <= limit)


def least_macs(layers: Sequence[ChainLayer], ram: int) -> FusionCut | None:
    """P2: the fewest MACs in no more than `ram` bytes, and of those the least RAM."""
    edges = _edges(layers)
    best = _cheapest(edges, ram)
    return None if best is None else _least(edges, lambda cut: cut.macs <= best.macs)


def _edges(layers: Sequence[ChainLayer]) -> list[list[FusionBlock]]:
    """Return per layer all blocks that begin there."""
    steps = range(len(layers))
    return [[edge for end in steps[at:] if (edge := block(layers, at, end + 1))] for at in steps]


def _least(edges: Sequence[Sequence[FusionBlock]], is_allowed: Callable[[FusionCut], bool]) -> FusionCut | None:
    """Return the cheapest cut of the least RAM with which one is allowed: the more RAM, the cheaper is the cheapest."""

    def allows(ram: int) -> bool:
        cut = _cheapest(edges, ram)
        return cut is not None and is_allowed(cut)

    sizes = sorted({edge.ram for blocks in edges for edge in blocks})
    at = bisect_left(sizes, True, key=allows)
    return _cheapest(edges, sizes[at]) if at < len(sizes) else None


def _cheapest(edges: Sequence[Sequence[FusionBlock]], ram: int) -> FusionCut | None:
    """Return the cut into blocks of at most so much RAM with the fewest MACs: a shortest path over blocks as edges.

    Of equal ones the first found, which has the longest last block.
    """
    best: list[int | None] = [0, *[None] * len(edges)]  # per layer the MACs of those before it
    last: list[FusionBlock | None] = [None] * (len(edges) + 1)
    for at, blocks in enumerate(edges):
        before = best[at]
        if before is None:
            continue
        for edge in blocks:
            if edge.ram <= ram:
                cost, known = before + edge.macs, best[edge.end]
                if known is None or cost < known:
                    best[edge.end], last[edge.end] = cost, edge
    path, end = list[FusionBlock](), len(edges)
    while end:
        found_last = last[end]
        if found_last is None:
            return None
        path.append(found_last)
        end = found_last.begin
    return FusionCut(tuple(reversed(path)))
