"""The counting rule `fusion_paper`: RAM and MACs of a chain that is cut into fused blocks, as in multi-stage fusion (msf-CNN).

In: ChainLayers. Out: blocks, and exact solutions of the paper's problems: P1, the least RAM within a limit on F, the MACs
divided by those of a layer-by-layer run, and P2, the least F within a limit on RAM. A block computes one row of its output at a
time, column by column; of each layer's tile (the input rows for this row) it keeps as many columns as the kernel is wide
(H-cache). The network's input and output and skip connections are not counted.

Source: arXiv 2505.11483, eq. 5 and 6 (RAM), 14 to 17 (MACs; the printed eq. 16 has c_out twice), 11 to 13 (P1). If the paper
and its published code differ, this module follows the code.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tinynas.published.patches import macs
from tinyweave.ops.window import ChainLayer
from tinyweave.planning import Plan

from .chain import plan_bytes, scratch_names


class FusionBlock(NamedTuple):
    """Layers [begin, end) that run fused, or a single unfused layer, with RAM in bytes and MACs by the paper's rule."""

    begin: int
    end: int
    ram: int
    macs: int


class FusionCut(NamedTuple):
    """A cut of a chain of layers into consecutive blocks that cover the chain. The layers of a block run fused."""

    blocks: tuple[FusionBlock, ...]

    @property
    def ram(self) -> int:
        """Return the RAM of the largest block (eq. 7)."""
        return max(block.ram for block in self.blocks)

    @property
    def macs(self) -> int:
        """Return the MACs of all blocks (eq. 8)."""
        return sum(block.macs for block in self.blocks)


def block(layers: Sequence[ChainLayer], begin: int, end: int) -> FusionBlock | None:
    """Return layers [begin, end) as a fused block with its RAM and MACs; a single layer is an unfused block.

    Return None if a row of its output needs more input rows than there are, as the paper does.
    """
    run = layers[begin:end]
    outside = (run[0].in_bytes if begin else 0) + (run[-1].out_bytes if end < len(layers) else 0)
    if len(run) == 1:
        return FusionBlock(begin, end, outside, run[0].macs)
    tiles, counted = _tiles(run), 0
    if tiles[0][0] > min(run[0].h, run[0].w):
        return None
    for layer, (rows, step) in zip(run, tiles, strict=True):
        steps = (layer.h + sum(layer.padding[0]) - rows) // step + 1  # the paper ignores the padding of the other layers
        counted += steps * ((rows - layer.kernel[0]) // layer.stride[0] + 1) * layer.w_out * layer.macs_per_pixel
    return FusionBlock(begin, end, outside + _buffers(run, *tiles[0]), counted)


def exact_macs(layers: Sequence[ChainLayer], cut: FusionCut) -> int:
    """Return the MACs that a cut of the chain into fused blocks executes. The paper's rule counts too few steps per block.

    A step computes one row of a block's output. Rows outside a map are not computed; taps on padding count.
    """
    total = 0
    for begin, end, *_ in cut.blocks:
        run = layers[begin:end]
        steps = [(row, row + 1) for row in range(run[-1].h_out)]  # output rows [begin, end) of a layer in each step
        for layer in reversed(run):
            total += sum(last - first for first, last in steps) * layer.w_out * layer.macs_per_pixel
            steps = [_read(layer, first, last) for first, last in steps]
    return total


def _tiles(run: Sequence[ChainLayer]) -> list[tuple[int, int]]:
    """Return (input rows for a row of the block's output, rows from one such tile to the next) of each layer."""
    tiles, rows, step = list[tuple[int, int]](), 1, 1
    for layer in reversed(run):
        rows, step = (rows - 1) * layer.stride[0] + layer.kernel[0], step * layer.stride[0]
        tiles.append((rows, step))
    return tiles[::-1]


def _read(layer: ChainLayer, begin: int, end: int) -> tuple[int, int]:
    """Return the input rows [begin, end) that a layer reads to compute its output rows [begin, end); padding is left out."""
    top = layer.padding[0][0]
    return max(begin * layer.stride[0] - top, 0), min((end - 1) * layer.stride[0] - top + layer.kernel[0], layer.h)


def _buffers(run: Sequence[ChainLayer], rows: int, step: int) -> int:
    """Return the bytes of a block's H-cache buffers: per layer, kernel width x tile rows x input channels.

    This is eq. 5 plus the buffer of the first layer, which only the paper's code counts. As there, the last tile of each map
    counts, with its padding, at a position derived from strides alone. `rows` and `step` are those of the first layer's tile.
    """
    place, total = (run[0].h - rows) // step * step, 0
    for layer in run:
        place //= layer.stride[0]
        total += layer.kernel[1] * rows * layer.c_in
        (top, bottom), at_end = layer.padding[0], place + rows >= layer.h
        rows = (rows - layer.kernel[0] + top * (place == 0) + bottom * at_end) // layer.stride[0] + 1
    return total


def unfused(layers: Sequence[ChainLayer]) -> FusionCut:
    """Return the cut in which each layer is an unfused block, which the paper calls "vanilla"."""
    return FusionCut(tuple(edge for at in range(len(layers)) if (edge := block(layers, at, at + 1))))


def plan_ram(plan: Plan) -> int:
    """Return the RAM of a plan by the paper's rule, in bytes: its line buffers, tiles and whole maps.

    Shared bytes count once. Network outputs, scratch, and network inputs that are not streamed are left out. The plan must use
    one memory only.
    """
    inputs = {name for name in plan.graph.inputs if name not in plan.streamed_inputs}
    return plan_bytes(plan, scratch_names(plan) | {plan.places[name].buffer for name in (*inputs, *plan.graph.outputs)})


def least_ram(layers: Sequence[ChainLayer], overhead: float | None = None) -> FusionCut | None:
    """Solve the paper's problem P1: return the cut with the least RAM, with at most `overhead` times the MACs unfused.

    MACs are counted by the paper's rule. Return None if no cut meets the limit.
    """
    limit = None if overhead is None else overhead * macs(layers)
    return _least(_edges(layers), lambda cut: limit is None or cut.macs <= limit)


def least_macs(layers: Sequence[ChainLayer], ram: int) -> FusionCut | None:
    """Solve the paper's P2: return the cut with the fewest MACs, then least RAM, in at most `ram` bytes, or None."""
    edges = _edges(layers)
    best = _cheapest(edges, ram)
    return None if best is None else _least(edges, lambda cut: cut.macs <= best.macs)


def _edges(layers: Sequence[ChainLayer]) -> list[list[FusionBlock]]:
    """Return for each layer all possible blocks that begin with it: edges of a graph whose paths are the cuts."""
    steps = range(len(layers))
    return [[edge for end in steps[at:] if (edge := block(layers, at, end + 1))] for at in steps]


def _least(edges: Sequence[Sequence[FusionBlock]], is_allowed: Callable[[FusionCut], bool]) -> FusionCut | None:
    """Return the cut with the least RAM that `is_allowed` accepts, or None, by bisection of the RAM limit.

    Only the cut of fewest MACs is tested for a limit, since a larger limit never needs more MACs.
    """

    def allows(ram: int) -> bool:
        cut = _cheapest(edges, ram)
        return cut is not None and is_allowed(cut)

    sizes = sorted({edge.ram for blocks in edges for edge in blocks})
    at = bisect_left(sizes, True, key=allows)
    return _cheapest(edges, sizes[at]) if at < len(sizes) else None


def _cheapest(edges: Sequence[Sequence[FusionBlock]], ram: int) -> FusionCut | None:
    """Return the cut with the fewest MACs, the shortest path over `_edges`, in blocks of at most `ram` bytes, or None.

    Break ties in favour of the longest last block.
    """
    best: list[int | None] = [0, *[None] * len(edges)]  # for each layer boundary, the fewest MACs of the layers before it
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
        last_block = last[end]
        if last_block is None:
            return None
        path.append(last_block)
        end = last_block.begin
    return FusionCut(tuple(reversed(path)))
