"""Which input rows each row of an op's output reads, for single ops and for ops that run together as a tile.

A tile computes a few rows and columns of its last op's output per iteration. The maps between its ops exist only as the rows
and columns that one iteration needs. Rows that the next iteration needs too are recomputed; columns are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ...ir import CompileError, Graph, Op, Tensor
from ...kernels.access import overlap_distances
from ...kernels.table import BY_NAME
from ...ops import SPECS, macs_per_op, transpose_conv
from ...ops.window import ONE_TO_ONE, Spans, Window, Windows, positions
from ..place.place import place
from ..plan import Buffer, Tile

WORD = 4  # alignment of tensors in a tile, in bytes
PATCH_TRIES = 1_000  # placement tries for the tensors of a patch; a search of patches places hundreds


Access = tuple[str, Window]
"""An input tensor of an op, and the window of input rows that each output row reads.

A window of stride 0 means that all output rows read the same input row.
"""


class StreamedIO(NamedTuple):
    """The names of the network inputs and outputs that are streamed row by row."""

    streamed_inputs: tuple[str, ...] = ()
    streamed_outputs: tuple[str, ...] = ()


WHOLE = StreamedIO()


def row_bytes(tensor: Tensor) -> int:
    """Return the bytes of one row of an NHWC feature map."""
    return tensor.shape[2] * tensor.pixel_bytes


def row_accesses(graph: Graph, op: Op, variant: str, *, last: bool = False) -> tuple[Access, ...] | None:
    """Return which rows of its inputs each output row of an op reads, or None if the op cannot run row by row.

    Args:
        variant: the name of its kernel, "" if it runs no code.
        last: whether the op's output is streamed out of the network. Then its first row may wait for the whole input.
    """
    windows = SPECS[op.kind].windows(graph, op)
    if not variant or len(op.outputs) != 1:
        return None
    if BY_NAME[variant].sums(graph, op):
        return ((graph.input(op).name, Window()),) if graph.input(op).data is None else None
    waits = last and SPECS[op.kind].resamples
    if not BY_NAME[variant].has_part or (windows is None and not waits):
        return None
    maps = [graph.output(op), *(t for t in graph.inputs_of(op) if t is not None and t.data is None)]
    if len(maps) < 2 or any(len(t.shape) != 4 or t.shape[0] != 1 or t.role == "state" for t in maps):
        return None
    out, *operands = {tensor.name: tensor for tensor in maps}.values()
    if windows is None:  # each output row reads the whole input
        above = out.shape[1] - 1
        return tuple((x.name, Window(above + x.shape[1], 1, above)) for x in operands)
    by_operand = (Window(stride=0) if windows == ONE_TO_ONE and _repeats(x, out, operands) else windows[0] for x in operands)
    return tuple((x.name, window) for x, window in zip(operands, by_operand, strict=True))


def _repeats(x: Tensor, out: Tensor, operands: Sequence[Tensor]) -> bool:
    """Return whether all output rows read the same single row of operand `x`.

    This is a pixel that is broadcast, or the second matrix of a batch_matmul. The input of a pad may also be a single row, but
    then no operand has as many rows as the output.
    """
    if x.shape[1:3] == (1, 1) != out.shape[1:3] and any(other.shape == out.shape for other in operands):
        return True
    return x.shape[1] == 1 != out.shape[1] and any(other.shape[1] == out.shape[1] for other in operands)


@dataclass(frozen=True, eq=False)
class RowGraph:
    """A graph together with the kernels, tiles and streams of a plan, and the input rows that each op then reads."""

    graph: Graph
    variants: Sequence[str]
    streamed_inputs: Collection[str] = ()
    tiles: Collection[Tile] = ()
    streamed_outputs: Collection[str] = ()

    @cached_property
    def accesses(self) -> list[tuple[Access, ...] | None]:
        """Return, for each op, which rows of its inputs each output row reads; None for ops that cannot be fused."""
        ops = zip(self.graph.ops, self.variants, strict=True)
        return [row_accesses(self.graph, op, variant, last=op.outputs[0] in self.streamed_outputs) for op, variant in ops]

    @cached_property
    def windows(self) -> list[Windows | None]:
        """Return the sliding windows (along rows, along columns) of each op, None for ops without windows."""
        return [SPECS[op.kind].windows(self.graph, op) for op in self.graph.ops]

    @cached_property
    def macs(self) -> list[int]:
        """Return the multiply-accumulates of each op, not counting products with padding."""
        return list(macs_per_op(self.graph, clipped=True))

    @cached_property
    def taps_before(self) -> list[tuple[NDArray[np.int64], ...]]:
        """Return how many window taps read inside the map (not padding) before each output row or column, per op and axis.

        These are prefix sums of length size + 1. The tuple of an op is empty if it has no windows or no multiply-accumulates.
        """
        return [
            tuple(_taps_before(self.graph, op, windows, axis) for axis in (0, 1)) if macs and windows is not None else ()
            for op, macs, windows in zip(self.graph.ops, self.macs, self.windows, strict=True)
        ]

    @cached_property
    def accumulator_bytes(self) -> list[int]:
        """Return the accumulator bytes of each op that accumulates its input row by row, as a mean does; 0 for other ops."""
        ops = zip(self.graph.ops, self.variants, self.accesses, strict=True)
        return [BY_NAME[variant].sums(self.graph, op) if reads else 0 for op, variant, reads in ops]

    @cached_property
    def rows(self) -> list[int]:
        """Return how many rows each op processes: its output rows or, if it accumulates row by row, its input rows."""
        ops = zip(self.graph.ops, self.accumulator_bytes, strict=True)
        return [self.height.get((op.inputs[0] or "") if sums else op.outputs[0], 1) for op, sums in ops]

    @cached_property
    def in_place(self) -> list[set[str]]:
        """Return, for each op, the inputs whose bytes it reads before it writes the output byte at the same offset.

        Only elementwise ops have any.
        """
        ops = zip(self.graph.ops, self.variants, self.accesses, strict=True)
        apart = [overlap_distances(self.graph, op, variant) if _is_elementwise(reads) else {} for op, variant, reads in ops]
        return [{op.inputs[i] or "" for i, by in of.items() if by == 0} for op, of in zip(self.graph.ops, apart, strict=True)]

    @cached_property
    def known_spans(self) -> dict[Any, tuple[dict[int, Spans], dict[str, int]]]:
        """Return a cache that `tile_spans` fills with its results, by its arguments."""
        return {}

    @cached_property
    def known_lengths(self) -> dict[Any, Any]:
        """Return a cache that StageCycles fills: the heights and widths that each op of a tile computes per kernel call."""
        return {}

    @cached_property
    def known_candidates(self) -> dict[Any, Any]:
        """Return a cache that `tile_candidates` fills with its results, by its arguments."""
        return {}

    @cached_property
    def readers(self) -> dict[str, set[int]]:
        """Return the ops that read each tensor. A network output has one more reader, -1."""
        users: dict[str, set[int]] = {name: set() for name in self.graph.tensors}
        for index, op in enumerate(self.graph.ops):
            for name in filter(None, op.inputs):
                users[name].add(index)
        for name in self.graph.outputs:
            users[name].add(-1)
        return users

    @cached_property
    def height(self) -> dict[str, int]:
        """Return the number of rows of each feature map (tensor of 4 dimensions)."""
        return {name: tensor.shape[1] for name, tensor in self.graph.tensors.items() if len(tensor.shape) == 4}


# row graphs in use: graph -> (kernels, streamed inputs and outputs) -> row graph
_IN_USE: WeakKeyDictionary[Graph, WeakValueDictionary[tuple[tuple[str, ...], StreamedIO], RowGraph]] = WeakKeyDictionary()


def shared_row_graph(graph: Graph, variants: tuple[str, ...], streams: StreamedIO) -> RowGraph:
    """Return a row graph without tiles; calls with equal arguments return the same object, with its caches, while in use."""
    in_use, key = _IN_USE.setdefault(graph, WeakValueDictionary()), (variants, streams)
    row_graph = in_use.get(key) or RowGraph(graph, variants, streams.streamed_inputs, (), streams.streamed_outputs)
    return in_use.setdefault(key, row_graph)


def streamable_outputs(row_graph: RowGraph) -> tuple[str, ...]:
    """Return the network outputs that can be streamed: maps of several rows that no op reads and one op computes by rows."""
    graph = row_graph.graph
    names = [name for name in graph.outputs if row_graph.height.get(name, 1) > 1 and row_graph.readers[name] == {-1}]
    makers = {name: graph.producer[name] for name in names if name in graph.producer and graph.outputs.count(name) == 1}
    return tuple(
        name for name, i in makers.items() if row_accesses(graph, graph.ops[i], row_graph.variants[i], last=True) is not None
    )


def _is_elementwise(accesses: tuple[Access, ...] | None) -> bool:
    return accesses is not None and all(window in (Window(), Window(stride=0)) for _, window in accesses)


def not_by_rows(row_graph: RowGraph, order: Sequence[int]) -> CompileError:
    """Return the error that no plan can stream the network inputs. It names the first op in `order` that reads one of them."""
    streamed = set(row_graph.streamed_inputs)
    op = next(row_graph.graph.ops[index] for index in order if not streamed.isdisjoint(row_graph.graph.ops[index].inputs))
    other = "put channels last with --layout nhwc, or plan" if op.kind == "transpose" else "plan"
    return CompileError("cannot take a network input row by row", f"{other} without streamed inputs", op=op)


def tile_accesses(row_graph: RowGraph, run: Sequence[int], rows: int = 1) -> tuple[Access, ...] | None:
    """Return which rows from outside a tile the ops `run` read to compute `rows` rows of the last op's output.

    None if the ops cannot form a tile, for example because another op reads a tensor between them, an op upsamples or has no
    window, or a tensor is read with different strides.
    """
    if len(run) == 1:
        return row_graph.accesses[run[0]]
    within = {row_graph.graph.ops[index].outputs[0] for index in run[:-1]}
    windows = {row_graph.graph.ops[run[-1]].outputs[0]: Window(rows, rows)}  # map -> rows of it that are read
    for index in reversed(run):
        accesses, name = row_graph.accesses[index], row_graph.graph.ops[index].outputs[0]
        if (
            accesses is None
            or row_graph.accumulator_bytes[index]
            or (windows_of := row_graph.windows[index]) is None
            or any(window.up > 1 for window in windows_of)
            or (name in within and not row_graph.readers[name].issubset(run))
        ):
            return None
        outer = windows.pop(name)
        for x, window in accesses:
            through = outer.compose(window)
            if not window.stride and x in within:
                return None
            if (other := windows.setdefault(x, through)) is not through:
                if other.stride != through.stride:
                    return None
                windows[x] = other.joined(through)
    return tuple(windows.items())


def tile_spans(row_graph: RowGraph, tile: Tile, axis: int, rows: int | None = None) -> tuple[dict[int, Spans], dict[str, int]]:
    """Return which rows (axis 0) or columns (axis 1) each op of a tile computes in each iteration.

    The first result is op -> (begins, ends), with one span per iteration for rows, and one per block of `tile.cols` columns for
    columns. The second is tensor inside the tile -> the most rows or columns of it that exist at a time.
    """
    graph, ops, step, slides = row_graph.graph, tile.ops, (tile.rows, tile.cols)[axis], axis and tile.cached
    known = row_graph.known_spans
    if (ops, axis, step, rows, slides) in known:
        return known[ops, axis, step, rows, slides]
    # what an op computes depends only on the ops after it, so start with the longest suffix that is in the cache
    last = next((at for at in range(1, len(ops)) if (ops[at:], axis, step, rows, slides) in known), len(ops) - 1)
    if (ops[last:], axis, step, rows, slides) in known:
        computed, largest = known[ops[last:], axis, step, rows, slides]
    else:
        count = graph.output(graph.ops[ops[-1]]).shape[1 + axis] if rows is None else rows
        begin = np.arange(0, count, step)
        computed, largest = {ops[-1]: (begin, np.minimum(begin + step, count))}, {}
    for at in range(last - 1, -1, -1):
        name = graph.ops[ops[at]].outputs[0]
        readers = [index for index in ops[at + 1 :] if index in row_graph.readers[name]]
        spans = [_read(row_graph, reader, name, axis, computed[reader]) for reader in readers]
        begin, end = spans[0]
        for other in spans[1:]:
            begin, end = np.minimum(begin, other[0]), np.maximum(end, other[1])
        needed, most = sliding_spans((begin, end)) if slides else ((begin, end), int((end - begin).max()))
        computed, largest = computed | {ops[at]: needed}, largest | {name: most}
    known[ops, axis, step, rows, slides] = computed, largest
    return computed, largest


def _read(row_graph: RowGraph, reader: int, name: str, axis: int, spans: Spans) -> Spans:
    """Return the rows (axis 0) or columns (axis 1) of input `name` that op `reader` reads to compute each of `spans`.

    `spans` are ranges of rows or columns of the output, as (begins, ends), and so is the result.
    """
    windows = row_graph.windows[reader]
    assert windows is not None
    return windows[axis].read(spans, row_graph.graph.tensors[name].shape[1 + axis])


def sliding_spans(spans: Spans) -> tuple[Spans, int]:
    """Return which columns of a tensor each block of a tile must still compute, and the most columns that exist at a time.

    A tile computes its output block by block, each of `tile.cols` columns. `spans` are the columns of the tensor that each
    block reads, as (begins, ends), and so is the first result. Columns that earlier blocks computed are still in memory, so
    each block computes only the columns beyond them.
    """
    begin, end = spans
    stop = np.maximum.accumulate(end)  # of all blocks so far
    there = np.concatenate((begin[:1], stop[:-1]))
    return (np.maximum(begin, there), stop), int((stop - begin).max())


def tile_sizes(row_graph: RowGraph, tile: Tile) -> dict[str, tuple[int, int]]:
    """Return, for each tensor inside a tile, the most rows and the most columns of it that exist at a time."""
    rows, cols = (tile_spans(row_graph, tile, axis)[1] for axis in (0, 1))
    return {name: (rows[name], cols[name]) for name in rows}


def tile_bytes(row_graph: RowGraph, tile: Tile) -> dict[str, int]:
    """Return the bytes that the tile's buffer holds of each tensor inside a tile."""
    tensors = row_graph.graph.tensors
    sizes = tile_sizes(row_graph, tile)
    return {x: rows * width * tensors[x].pixel_bytes for x, (rows, width) in sizes.items()}


def tile_offsets(row_graph: RowGraph, tile: Tile) -> tuple[dict[str, int], int]:
    """Return the offset of each tensor inside a tile in the tile's buffer, and the bytes of that buffer.

    Tensors of a cached tile do not overlap, since the next block needs their columns. A patch keeps nothing for the next patch,
    so a tensor may reuse the memory of tensors that all their readers have read (MCUNetV2, arXiv 2110.15352).
    """
    sizes = tile_bytes(row_graph, tile)
    if tile.cached:
        offsets, end = dict[str, int](), 0
        for name, size in sizes.items():
            offsets[name] = -(-end // WORD) * WORD if size else 0  # no padding for empty tensors
            end = max(end, offsets[name] + size)
        return offsets, end
    makers = {row_graph.graph.ops[index].outputs[0]: at for at, index in enumerate(tile.ops)}
    last_reads = {name: max(at for at, index in enumerate(tile.ops) if index in row_graph.readers[name]) for name in sizes}
    buffers = [Buffer(name, size, makers[name], last_reads[name] + 1) for name, size in sizes.items()]
    placed = place(buffers, tries=PATCH_TRIES)
    return placed.offsets, placed.bytes


def tile_buffer_bytes(row_graph: RowGraph, tile: Tile) -> int:
    """Return the bytes of the buffer for the tensors inside a tile, rounded up to words."""
    return -(-tile_offsets(row_graph, tile)[1] // WORD) * WORD


def recomputed_macs(row_graph: RowGraph, tile: Tile, rows: int | None = None) -> dict[int, int]:
    """Return, for each op of a tile, its multiply-accumulates minus those of computing each output element once.

    The figure is negative if the op skips rows that no later op needs.

    Args:
        rows: output rows that the tile computes. None for all; then the last op, which recomputes nothing, is left out.
    """
    across = tile_spans(row_graph, tile, 1)[0] if len(tile.ops) > 1 and not tile.cached else {}
    down = dict(tile_spans(row_graph, tile, 0, rows)[0])
    if rows is None:
        del down[tile.ops[-1]]
    return {index: _recomputed_macs(row_graph, index, spans, across.get(index)) for index, spans in down.items()}


def _recomputed_macs(row_graph: RowGraph, index: int, rows: Spans, cols: Spans | None) -> int:
    total = row_graph.macs[index]
    if not total or row_graph.windows[index] is None:  # ops without windows are never tiled
        return 0
    once = done = 1
    for axis, spans in ((0, rows), (1, cols)):
        if spans is not None:
            upto = row_graph.taps_before[index][axis]
            once, done = once * int(upto[-1]), done * int((upto[spans[1]] - upto[spans[0]]).sum())
    return total * done // once - total


def _taps_before(graph: Graph, op: Op, windows: Windows, axis: int) -> NDArray[np.int64]:
    """Return how many window taps read inside the map (not padding) in all output rows or columns before each one.

    `axis` is 0 for rows, 1 for columns. The result is a prefix sum of length size + 1.
    """
    if op.kind == "transpose_conv":
        return np.append(0, np.cumsum(transpose_conv.taps_inside(graph, op, axis)))
    extent, stride, pad, *_ = windows[axis]
    size, out = graph.input(op).shape[1 + axis], graph.output(op).shape[1 + axis]
    dilation = op.attrs.get("dilation", (1, 1))[axis]
    kernel = (extent - 1) // dilation + 1
    taps = positions(size, out, kernel=kernel, stride=stride, dilation=dilation, before=pad)
    return np.concatenate(([0], np.cumsum(taps.sum(axis=1, dtype=np.int64))))
