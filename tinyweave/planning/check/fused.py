"""The check of a fused stage: run it row by row and track which row of which tensor each byte holds.

In memory, each byte has a mark, a number that says which row (or, in a tile, which pixel) of which tensor it holds. Ops check
the marks that they read and write those of their output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...ir import Op
from ...kernels.access import overlap_distances
from ...kernels.table import BY_NAME
from ...ops import SPECS
from ...ops.window import Windows
from ..plan import Plan, RowSchedule, Stage, Tile, scratch_name
from .regions import Region, UnsoundPlanError, activations, area_of, demand, disjoint, region_of, scratch_of
from .resampled import RESAMPLED

Rectangle = tuple[range, range]  # rows and columns of a map
SUMS = -2  # the mark of a byte of row-wise sums
SCRATCH = -3  # the mark of a byte of scratch
PARTLY = -4  # the mark of a byte of a row that is being written
CELL = 1 << 31  # the mark of a cell of a tile is this plus its row times the map's width plus its column


class Touched(NamedTuple):
    """A read or write in a fused stage: some columns of one row of a tensor, and the bytes that they occupy."""

    op: str  # "" for the caller
    tensor: str  # "" for scratch
    writes: bool
    row: int
    cols: range
    region: Region


Watch = Callable[[Touched], None]


@dataclass(frozen=True)
class _Fused:
    """A fused stage under simulation. Each byte of memory has a mark, a number that says which row or pixel it holds."""

    plan: Plan
    schedule: RowSchedule
    number: Mapping[str, int]  # tensor -> the mark of its row 0
    before: frozenset[str]  # tensors that were in memory, intact, when the stage began; views share bytes
    holds: Mapping[str, np.ndarray]  # memory -> the mark of each byte
    written: Mapping[str, np.ndarray]  # memory -> for each byte, whether the stage wrote it
    watch: Watch | None
    first: dict[str, tuple[int, int]] = field(default_factory=dict)  # tensor in a tile -> the row and column at its start
    known: dict[int, tuple[Windows | None, Sequence[range] | None]] = field(default_factory=dict)  # cache of `reach`
    repeated: dict[tuple[int, str], bool] = field(default_factory=dict)  # cache of `repeats`
    areas: dict[int, Region | None] = field(default_factory=dict)  # cache of `scratch`
    homes: dict[str, tuple[str, int, int, int]] = field(default_factory=dict)  # tensor -> memory, offset, bytes per row, rows
    followed: set[tuple[object, ...]] = field(default_factory=set)  # tile iterations that `_run_tile` has checked in full

    def op(self, index: int) -> Op:
        return self.plan.graph.ops[index]

    def reach(self, op: Op) -> tuple[Windows | None, Sequence[range] | None]:
        """Return an op's windows along rows and columns, or None; and the input rows per output row, for ops in RESAMPLED."""
        if id(op) not in self.known:
            graph, rows = self.plan.graph, RESAMPLED.get(op.kind)
            self.known[id(op)] = SPECS[op.kind].windows(graph, op), rows(graph, op) if rows else None
        return self.known[id(op)]

    def repeats(self, op: Op, name: str) -> bool:
        """Return whether all output rows read the same single row: a broadcast pixel, or the second matrix of a batch_matmul.

        The single row that a pad op pads is read once: no other operand has as many rows as the output.
        """
        if (id(op), name) not in self.repeated:
            (windows, _), graph = self.reach(op), self.plan.graph
            out, tensor = graph.output(op), graph.tensors[name]
            shapes = [graph.tensors[other].shape for other in activations(graph, op)]
            is_pointwise = windows is not None and all(window[:2] == (1, 1) for window in windows)
            is_pixel = out.shape in shapes and tensor.elements == tensor.shape[-1] < out.elements
            is_row = self.height(name) == 1 < self.height(out.name) and any(x[1] == out.shape[1] for x in shapes)
            self.repeated[id(op), name] = is_pointwise and (is_pixel or is_row)
        return self.repeated[id(op), name]

    def scratch(self, index: int) -> Region | None:
        """Return the region of the scratch of op `index`, or None if its kernel needs no scratch."""
        if index not in self.areas:
            self.areas[index] = scratch_of(self.plan, index)
        return self.areas[index]

    def height(self, name: str) -> int:
        shape = self.plan.graph.tensors[name].shape
        return shape[1] if len(shape) == 4 else 1

    def width(self, name: str) -> int:
        shape = self.plan.graph.tensors[name].shape
        return shape[2] if len(shape) == 4 else 1

    def place(self, name: str, row: int) -> Region:
        """Return the region of a row of a tensor; a line buffer of n rows holds row r at position r % n."""
        if name not in self.homes:
            plan, height = self.plan, self.height(name)
            size, rows = plan.graph.tensors[name].bytes // height, self.schedule.line_buffers.get(name, height)
            self.homes[name] = plan.memory(name), plan.offset(name), size, rows
        memory, offset, size, rows = self.homes[name]
        begin = offset + row % rows * size
        return memory, begin, begin + size

    def intact(self, name: str, row: int) -> bool:
        memory, begin, end = self.place(name, row)
        if name in self.before:
            return not self.written[memory][begin:end].any()
        return bool((self.holds[memory][begin:end] == self.number[name] + row).all())

    def write(self, region: Region, what: int) -> None:
        memory, begin, end = region
        self.holds[memory][begin:end] = what
        self.written[memory][begin:end] = True

    def report(self, op: Op | None, name: str, row: int, region: Region, *, writes: bool, cols: range | None = None) -> None:
        """Call `watch`, if there is one, with a read or write of a row.

        Args:
            name: the tensor; "" for scratch.
            cols: the columns of the row; None for all.
        """
        if self.watch:
            cols = range(self.width(name) if name else 0) if cols is None else cols
            self.watch(Touched(op.name if op else "", name, writes, row, cols, region))


def check_schedule(plan: Plan, stage: Stage, schedule: RowSchedule) -> None:
    """Raise UnsoundPlanError if the row schedule of a fused stage contradicts the stage, its kernels or its buffers."""
    graph, tiles = plan.graph, {tile.ops[-1]: tile for tile in stage.tiles or ()}
    nodes = [node for node in schedule.timings if isinstance(node, int)]
    if [index for node in nodes for index in (tiles[node].ops if node in tiles else (node,))] != list(stage.ops):
        raise UnsoundPlanError(f"the stage of ops {stage.ops} has a row schedule for other ops: {nodes}")
    for index in stage.ops:
        op, variant = graph.ops[index], plan.variants[index]
        if not variant or len(op.outputs) != 1 or not (BY_NAME[variant].has_part or BY_NAME[variant].sums(graph, op)):
            raise UnsoundPlanError(f"{op.name} cannot run by rows with the kernel '{variant}'")
    outputs = {graph.ops[index].outputs[0] for index in stage.ops}
    for node, timing in schedule.timings.items():
        if timing.first < 0 or min(timing.every, timing.rows_per_iteration, timing.rows) < 1:
            raise UnsoundPlanError(f"the node {node} has an impossible timing, {timing}")
        if timing.rows_per_iteration != (tiles[node].rows if node in tiles else 1):
            raise UnsoundPlanError(
                f"the node {node} computes {timing.rows_per_iteration} rows in an iteration, which is not what its tile says"
            )
    for tile in tiles.values():
        if tile.cols < 1:
            raise UnsoundPlanError(f"the tile of ops {tile.ops} is {tile.cols} columns wide")
    for name, rows in schedule.line_buffers.items():
        tensor = graph.tensors[name]
        if name not in outputs.union(schedule.timings) or rows < 1:
            raise UnsoundPlanError(f"the stage of ops {stage.ops} keeps {rows} rows of '{name}'")
        size = plan.places[name].offset + rows * tensor.bytes // (tensor.shape[1] if len(tensor.shape) == 4 else 1)
        if size > plan.buffer(plan.places[name].buffer).bytes:
            raise UnsoundPlanError(f"the ring of '{name}' needs {size} bytes, which its buffer does not have")
    for name, (rows, cols) in schedule.tiles.items():
        size = plan.places[name].offset + rows * cols * graph.tensors[name].pixel_bytes
        if min(rows, cols) < 0 or size > plan.buffer(plan.places[name].buffer).bytes:
            raise UnsoundPlanError(f"the tile of '{name}' has {rows} x {cols} pixels, which its buffer does not hold")


def run_fused(plan: Plan, stage: Stage, schedule: RowSchedule, held: dict[str, Region], watch: Watch | None) -> None:
    """Simulate a fused stage row by row and update `held`; raise UnsoundPlanError if it reads an overwritten row."""
    graph = plan.graph
    check_schedule(plan, stage, schedule)
    streamed = [node for node in schedule.timings if isinstance(node, str)]
    computed = [*streamed, *(graph.ops[index].outputs[0] for index in stage.ops)]
    tiles = {tile.ops[-1]: tile for tile in stage.tiles or ()}
    before = sorted({name for index in stage.ops for name in activations(graph, graph.ops[index])} - set(computed))
    number = {name: i << 32 for i, name in enumerate((*before, *computed))}
    holds = {memory: np.full(size, -1, np.int64) for memory, size in plan.arena.items()}
    written = {memory: np.zeros(size, bool) for memory, size in plan.arena.items()}
    fused = _Fused(plan, schedule, number, frozenset(before), holds, written, watch)
    for name in before:
        demand(plan, held, name, f"the stage of {graph.ops[stage.ops[0]].name}")
    out = graph.ops[stage.ops[-1]].outputs[0]
    due, done = ({node: timing.first for node, timing in schedule.timings.items()}, dict.fromkeys(schedule.timings, 0))
    for tick in range(schedule.ticks):
        for node, timing in schedule.timings.items():
            if tick != due[node] or done[node] == timing.rows:
                continue
            rows = range(done[node], min(done[node] + timing.rows_per_iteration, timing.rows))
            due[node], done[node] = tick + timing.every, rows.stop
            if isinstance(node, str):
                _stream_in(fused, node, rows[0])
            elif node in tiles:
                _run_tile(fused, tiles[node], rows)
            elif sums := BY_NAME[plan.variants[node]].sums(graph, graph.ops[node]):
                _sum_row(fused, node, rows[0], sums)
            else:
                _run_row(fused, node, rows[0])
            if node == stage.ops[-1] and out in plan.streamed_outputs:
                _stream_out(fused, out, rows)
    if out in plan.streamed_outputs and done[stage.ops[-1]] != fused.height(out):
        raise UnsoundPlanError(f"only {done[stage.ops[-1]]} rows of '{out}' are streamed out")
    for name in [n for n, (memory, begin, end) in held.items() if fused.written[memory][begin:end].any()]:
        del held[name]
    for name in (name for name in computed if name not in schedule.line_buffers and name not in schedule.tiles):
        if not all(fused.intact(name, row) for row in range(fused.height(name))):
            raise UnsoundPlanError(f"the stage leaves '{name}' incomplete")
        held[name] = region_of(plan, name)


def _target(fused: _Fused, name: str, row: int) -> Region:
    """Return the region to which row `row` of a tensor is written; raise UnsoundPlanError if the tensor has fewer rows."""
    if row >= fused.height(name):
        raise UnsoundPlanError(f"row {row} of '{name}' is computed, which has {fused.height(name)}")
    return fused.place(name, row)


def _columns(fused: _Fused, name: str, row: Region, cols: range) -> Region:
    """Return the region of the columns `cols` of a row of tensor `name`; `row` is the region of the whole row."""
    memory, begin, _ = row
    pixel = fused.plan.graph.tensors[name].pixel_bytes
    return memory, begin + cols.start * pixel, begin + cols.stop * pixel


def _read(fused: _Fused, op: Op | None, name: str, row: int, cols: range | None = None) -> Region:
    """Check that a row of a tensor is intact, report the read, and return the region of the whole row."""
    region = fused.place(name, row)
    if not fused.intact(name, row):
        raise UnsoundPlanError(f"{op.name if op else 'the caller'} reads row {row} of '{name}', which is not intact")
    fused.report(op, name, row, region if cols is None else _columns(fused, name, region, cols), writes=False, cols=cols)
    return region


def _stream_in(fused: _Fused, name: str, row: int) -> None:
    region = _target(fused, name, row)
    fused.report(None, name, row, region, writes=True)
    fused.write(region, fused.number[name] + row)


def _stream_out(fused: _Fused, name: str, rows: range) -> None:
    """Simulate the caller that reads rows of a streamed output: they must be contiguous at the start of their line buffer."""
    for position, row in enumerate(rows):
        _, begin, end = _read(fused, None, name, row)
        if begin != fused.plan.offset(name) + position * (end - begin):
            raise UnsoundPlanError(f"row {row} of '{name}' is streamed out from outside the start of its line buffer")


def _run_row(fused: _Fused, index: int, row: int) -> None:
    """Simulate one output row of an op: check the input rows that it reads, then mark its scratch and the row."""
    graph, op, variant = fused.plan.graph, fused.op(index), fused.plan.variants[index]
    out = op.outputs[0]
    region = _target(fused, out, row)
    if area := fused.scratch(index):
        if not disjoint(area, region):
            raise UnsoundPlanError(f"the scratch of {op.name} overlaps its row")
        fused.report(op, "", 0, area, writes=True)
        fused.write(area, SCRATCH)
    for position, name in ((i, n) for i, n in enumerate(op.inputs) if n is not None and n in fused.number):
        rows = _rows_read(fused, op, name, row)
        for other in rows:
            read = _read(fused, op, name, other)
            in_place = len(rows) == 1 and region[1] <= read[1]  # then each byte must be read before the same one is written
            if not disjoint(region, read) and not (in_place and overlap_distances(graph, op, variant).get(position) == 0):
                raise UnsoundPlanError(f"row {row} of {op.name} is written over row {other} of '{name}', which it reads")
    fused.report(op, out, row, region, writes=True)
    fused.write(region, fused.number[out] + row)


def _rows_read(fused: _Fused, op: Op, name: str, row: int) -> range:
    """Return the rows of operand `name` that output row `row` reads: all rows if the op has no window."""
    windows, resampled = fused.reach(op)
    if resampled is not None:
        return resampled[row]
    if fused.repeats(op, name):
        return range(1)
    if windows is None:
        return range(fused.height(name))
    first = row * windows[0].stride - windows[0].pad
    return range(max(first, 0), min(first + windows[0].extent, fused.height(name)))


def _sum_row(fused: _Fused, index: int, row: int, sums: int) -> None:
    """Add input row `row` to the accumulators of an op, `sums` bytes of scratch; the last row turns them into the output."""
    op = fused.op(index)
    source, out = fused.plan.graph.input(op).name, op.outputs[0]
    area = area_of(fused.plan, scratch_name(op.name), sums, op)
    read = _read(fused, op, source, row)
    if not disjoint(area, read):
        raise UnsoundPlanError(f"the sums of {op.name} overlap its operand")
    if row and not (fused.holds[area[0]][area[1] : area[2]] == SUMS).all():
        raise UnsoundPlanError(f"the sums of {op.name} are overwritten before row {row}")
    fused.report(op, "", 0, area, writes=True)
    fused.write(area, SUMS)
    if row == fused.height(source) - 1:
        region = _target(fused, out, 0)
        if not disjoint(area, region):
            raise UnsoundPlanError(f"{op.name} writes over its sums")
        fused.report(op, out, 0, region, writes=True)
        fused.write(region, fused.number[out])


def _run_tile(fused: _Fused, tile: Tile, rows: range) -> None:
    """Simulate one iteration of a tile: it computes `rows` of the tile's output, some columns at a time.

    The cells (pixels) of a tile's inner tensors are read only in the iteration that wrote them. So two iterations are alike if
    their ops read inner rows at equal distances, and overwrite no row from outside the tile. If an iteration like this one has
    been simulated before, only the rows read from outside the tile are checked (unless `watch` needs all accesses).
    """
    ops = [fused.op(index) for index in tile.ops]
    out = ops[-1].outputs[0]
    targets = [_target(fused, out, row) for row in rows]
    if len(set(targets)) < len(rows):
        raise UnsoundPlanError(f"the ring of '{out}' has no room for the rows of an iteration")
    outside, distances = _rows_of_tile(fused, tile, rows)
    own = [area for index in tile.ops if (area := fused.scratch(index))]
    own += [_tile_region(fused, op.outputs[0]) for op in ops[:-1]]
    read = [fused.place(name, row) for _, name, row in outside]
    is_apart = all(disjoint(a, b) for a in (*read, *targets) for b in own)
    is_apart = is_apart and all(disjoint(a, b) for a in read for b in targets)
    if is_apart and not fused.watch and (tile.ops, *distances) in fused.followed:
        for reader, name, row in outside:
            _read(fused, reader, name, row)
        for region in own:
            fused.write(region, PARTLY)
    else:
        for target in targets:
            fused.write(target, PARTLY)
        _run_columns(fused, tile, rows, targets)
        fused.followed.add((tile.ops, *distances))
    for row, target in zip(rows, targets, strict=True):
        fused.write(target, fused.number[out] + row)


def _rows_of_tile(fused: _Fused, tile: Tile, rows: range) -> tuple[list[tuple[Op, str, int]], list[tuple[int, int]]]:
    """Return (reading op, tensor, row) for each row that an iteration of a tile reads from outside, and inner reads.

    An inner read is (start, count); `start` is relative to the first row of the tensor in this iteration.
    """
    ops, inside = [fused.op(index) for index in tile.ops], {fused.op(index).outputs[0] for index in tile.ops[:-1]}
    computed, reads = {ops[-1].outputs[0]: rows}, list[tuple[Op, str, range]]()
    for op in reversed(ops):
        name = op.outputs[0]
        if name in inside:
            spans = [span for _, other, span in reads if other == name]
            if not spans or name not in fused.schedule.tiles:
                raise UnsoundPlanError(f"'{name}' is computed in a tile, but no later op of the tile reads it")
            computed[name] = range(min(span.start for span in spans), max(span.stop for span in spans))
        operands = activations(fused.plan.graph, op)
        reads += [(op, operand, _field(fused, op, operand, (computed[name], range(1)))[0]) for operand in operands]
    outside = [(op, name, row) for op, name, span in reads if name not in inside for row in span]
    return outside, [(span.start - computed[name].start, len(span)) for _, name, span in reads if name in inside]


def _run_columns(fused: _Fused, tile: Tile, rows: range, targets: list[Region]) -> None:
    """Simulate one iteration of a tile, some columns at a time, which computes `rows` of its output in `targets`."""
    ops = [fused.op(index) for index in tile.ops]
    out = ops[-1].outputs[0]
    width, ends = fused.width(out), dict.fromkeys((op.outputs[0] for op in ops[:-1]), 0)  # columns before it are computed
    for begin in range(0, width, tile.cols):
        parts = {out: (rows, range(begin, min(begin + tile.cols, width)))}
        for op in reversed(ops[:-1]):
            name = op.outputs[0]
            readers = [reader for reader in ops if name in reader.inputs and reader.outputs[0] in parts]
            fields = [_field(fused, reader, name, parts[reader.outputs[0]]) for reader in readers]
            parts[name], ends[name] = _slide(fused, name, fields, ends[name] if tile.cached else 0)
        for index, op in zip(tile.ops, ops, strict=True):
            _run_part(fused, index, parts[op.outputs[0]], targets if op is ops[-1] else None)


def _run_part(fused: _Fused, index: int, part: Rectangle, targets: list[Region] | None) -> None:
    """Simulate an op of a tile that computes a rectangle of its output: in `targets`, or None for the tile's own memory."""
    op, name = fused.op(index), fused.op(index).outputs[0]
    regions = [_tile_region(fused, name)] if targets is None else targets
    if area := fused.scratch(index):
        if not all(disjoint(area, region) for region in regions):
            raise UnsoundPlanError(f"the scratch of {op.name} overlaps its part")
        fused.report(op, "", 0, area, writes=True)
        fused.write(area, SCRATCH)
    for operand in activations(fused.plan.graph, op):
        _read_part(fused, op, operand, part, regions)
    rows, cols = part
    for position, row in enumerate(rows):
        region = _cell_row(fused, name, row, cols) if targets is None else _columns(fused, name, targets[position], cols)
        fused.report(op, name, row, region, writes=True, cols=cols)
    if targets is None:
        _cells(fused, name)[_slots(fused, name, part)] = _marks(fused, name, part)[:, :, None]
        memory, begin, end = regions[0]
        fused.written[memory][begin:end] = True


def _field(fused: _Fused, op: Op, name: str, part: Rectangle) -> Rectangle:
    """Return the receptive field: the rows and columns of operand `name` that the rectangle `part` of the output reads."""
    windows, _ = fused.reach(op)
    if windows is None or any(window.up > 1 for window in windows):
        raise UnsoundPlanError(f"{op.name} has no window that steps by whole pixels, and so cannot run in a tile")
    if fused.repeats(op, name):
        return range(1), range(fused.width(name))
    spans = []
    for (extent, stride, pad, *_), size, span in zip(windows, fused.plan.graph.tensors[name].shape[1:3], part, strict=True):
        begin = min(max(span.start * stride - pad, 0), size)
        last = (span.stop - 1) * stride - pad + extent if span else begin
        spans.append(range(begin, min(max(last, begin), size)))
    return spans[0], spans[1]


def _slide(fused: _Fused, name: str, fields: Sequence[Rectangle], end: int) -> tuple[Rectangle, int]:
    """Shift the columns of an inner tensor to those that the next block needs; return what is missing, and the new end."""
    rows, cols = (
        range(min(span.start for span in spans), max(span.stop for span in spans)) for spans in zip(*fields, strict=True)
    )
    # kept columns fit, as they did when computed: the first column that is needed never decreases
    staying, cells = max(end - cols.start, 0), _cells(fused, name)
    if len(rows) > cells.shape[0] or len(cols) > cells.shape[1]:
        raise UnsoundPlanError(f"the tile of '{name}' has no room for {len(rows)} x {len(cols)} pixels")
    if staying:
        shift = cols.start - fused.first[name][1]
        cells[: len(rows), :staying] = cells[: len(rows), shift : shift + staying].copy()
    fused.first[name] = rows.start, cols.start
    end = max(cols.stop, cols.start + staying)
    return (rows, range(cols.start + staying, end)), end


def _read_part(fused: _Fused, op: Op, name: str, part: Rectangle, targets: Sequence[Region]) -> None:
    """Check that the cells or rows of operand `name` that a rectangle of an output reads are intact, and not in `targets`."""
    rows, cols = seen = _field(fused, op, name, part)
    if name in fused.schedule.tiles:
        if not (_cells(fused, name)[_slots(fused, name, seen)] == _marks(fused, name, seen)[:, :, None]).all():
            raise UnsoundPlanError(f"{op.name} reads cells of '{name}' that are not intact")
        if not all(disjoint(target, _tile_region(fused, name)) for target in targets):
            raise UnsoundPlanError(f"{op.name} writes over the tile of '{name}', which it reads")
        for row in rows:
            fused.report(op, name, row, _cell_row(fused, name, row, cols), writes=False, cols=cols)
        return
    for row in rows:
        read = _read(fused, op, name, row, cols)
        if not all(disjoint(target, read) for target in targets):
            raise UnsoundPlanError(f"the part of {op.name} is written over row {row} of '{name}', which it reads")


def _tile_region(fused: _Fused, name: str) -> Region:
    (rows, cols), begin = fused.schedule.tiles[name], fused.plan.offset(name)
    return fused.plan.memory(name), begin, begin + rows * cols * fused.plan.graph.tensors[name].pixel_bytes


def _cell_row(fused: _Fused, name: str, row: int, cols: range) -> Region:
    """Return the region of the columns `cols` of row `row` of tensor `name`, in the memory that a tile reserves for it."""
    (_, width), (first, left), pixel = fused.schedule.tiles[name], fused.first[name], fused.plan.graph.tensors[name].pixel_bytes
    begin = fused.plan.offset(name) + ((row - first) * width + cols.start - left) * pixel
    return fused.plan.memory(name), begin, begin + len(cols) * pixel


def _cells(fused: _Fused, name: str) -> np.ndarray:
    """Return the marks of the bytes of tensor `name` in its tile, as a view [row, column, byte of the pixel] of `holds`."""
    memory, begin, end = _tile_region(fused, name)
    return fused.holds[memory][begin:end].reshape(*fused.schedule.tiles[name], fused.plan.graph.tensors[name].pixel_bytes)


def _slots(fused: _Fused, name: str, part: Rectangle) -> tuple[slice, slice]:
    """Return slices (rows, columns) of the array of `_cells`, which select the rectangle `part` of tensor `name`."""
    (rows, cols), (row, col) = part, fused.first[name]
    return slice(rows.start - row, rows.stop - row), slice(cols.start - col, cols.stop - col)


def _marks(fused: _Fused, name: str, part: Rectangle) -> np.ndarray:
    rows, cols = (np.arange(span.start, span.stop, dtype=np.int64) for span in part)
    return fused.number[name] + CELL + rows[:, None] * fused.width(name) + cols
