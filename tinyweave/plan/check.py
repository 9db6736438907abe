"""The independent check of a plan: run it symbolically and watch what every byte holds.

In: a Plan. Out: nothing, or an AssertionError that says which rule broke where. It does not look at lifetimes at all, but
walks the stages, lets each op overwrite its output's bytes, and demands that every operand still lies intact where it was
written, and all state at the end of the inference and of the ones that follow. It takes nothing from the planner but when the
rows of a fused stage run, which the emitted C takes from there too; whether they may run then, it sees for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ..ir import Graph, Op, itemsize
from ..kernels.table import BY_NAME
from ..ops import SPECS
from .plan import Plan, Stage, Tile, scratch_name
from .streaming import Streaming, streaming_of

Region = tuple[str, int, int]  # memory, begin, end
SUMS, SCRATCH, PARTLY = -2, -3, -4  # what a byte of sums holds, of scratch, of a row that is being written
CELL = 1 << 31  # a cell of a tile is marked by this, its row times the map's width, and its column
REPEATING = ("add", "sub", "mul", "minimum", "maximum", "prelu")  # kinds of which an operand may be one pixel for all
ONLY_COPIES = ("split", "split_v", "unpack", "slice", "strided_slice", "concatenation", "pack")


def check(plan: Plan) -> Plan:
    """Return `plan` when executing it keeps every operand intact inside the claimed memory, else raise AssertionError."""
    graph = plan.graph
    _check_stages(plan)
    _check_extent(plan)
    held: dict[str, Region] = {}  # tensor -> where its value lies now
    state = [name for name, tensor in graph.tensors.items() if tensor.role == "state"]
    for name in state:
        _write(held, name, _region(plan, name), f"state '{name}'")
    for name in (name for name in graph.inputs if name not in plan.streamed):
        _write(held, name, _region(plan, name), f"input '{name}'")
    for stage in plan.stages:
        if stage.tiles is not None:
            _run_fused(plan, stage, held)
            continue
        for index in stage.ops:
            _run(plan, graph.ops[index], plan.variants[index], held)
    for name in (*graph.outputs, *state):
        if graph.tensors[name].data is None and name not in plan.handed:
            _demand(plan, held, name, "the end of the network")
    return plan


def _check_stages(plan: Plan) -> None:
    order = [index for stage in plan.stages for index in stage.ops]
    assert sorted(order) == list(range(len(plan.graph.ops))), "every op runs exactly once"
    assert len(plan.variants) == len(order), "one kernel per op"
    for name in plan.handed:
        assert name in plan.graph.outputs and name in plan.graph.producer, f"'{name}' is no output that an op makes"
        assert not any(name in op.inputs for op in plan.graph.ops), f"'{name}' is read, and so must not be handed out by rows"
        stage = next(stage for stage in plan.stages if plan.graph.producer[name] in stage.ops)
        assert stage.tiles is not None and stage.ops[-1] == plan.graph.producer[name], f"no fused stage ends with '{name}'"
    for name in (n for n, tensor in plan.graph.tensors.items() if tensor.role == "state"):
        touching = [index for index in order if name in (*plan.graph.ops[index].inputs, *plan.graph.ops[index].outputs)]
        assert touching == sorted(touching), f"the ops that read and write the state '{name}' keep their order"


def _check_extent(plan: Plan) -> None:
    highest = dict.fromkeys(plan.arena, 0)
    for buffer in plan.buffers:
        offset = plan.offsets[buffer.name]
        assert offset >= 0 and offset % buffer.align == 0, f"{buffer.name} lies at {offset}, not a multiple of {buffer.align}"
        highest[buffer.memory] = max(highest[buffer.memory], offset + buffer.bytes)
    extents = {b.name: (b.memory, plan.offsets[b.name], plan.offsets[b.name] + b.bytes) for b in plan.buffers}
    for name in (name for name, tensor in plan.graph.tensors.items() if tensor.role == "state"):
        home = plan.places[name].buffer
        others = [other for other in extents if other != home and not _disjoint(extents[home], extents[other])]
        assert not others, f"the state '{name}' shares bytes with {others}"
    assert highest == dict(plan.arena), f"the arenas claimed are {dict(plan.arena)}, those used {highest}"
    streams = [streaming_of(plan, stage) for stage in plan.stages if stage.tiles is not None]
    rings = {name for stream in streams for name in (*stream.rings, *stream.tiles)}  # those who follow their rows see to them
    for name, place in plan.places.items():
        buffer = plan.buffer(place.buffer)
        end = place.offset + (0 if name in rings else plan.graph.tensors[name].bytes)
        assert place.offset >= 0 and end <= buffer.bytes, f"'{name}' leaves its buffer {buffer.name}"


def _region(plan: Plan, name: str) -> Region:
    begin = plan.offset(name)
    return plan.memory(name), begin, begin + plan.graph.tensors[name].bytes


def _disjoint(a: Region, b: Region) -> bool:
    return a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1]


def _demand(plan: Plan, held: dict[str, Region], name: str, where: str) -> None:
    assert held.get(name) == _region(plan, name), f"{where} reads '{name}', which is no longer intact"


def _write(held: dict[str, Region], name: str, region: Region, where: str) -> None:
    if region[1] % 4:
        raise AssertionError(f"{where}: '{name}' is not 4-aligned")
    for other in [n for n, r in held.items() if not _disjoint(r, region)]:
        del held[other]
    held[name] = region


def _run(plan: Plan, op: Op, variant: str, held: dict[str, Region]) -> None:
    graph = plan.graph
    operands = _activations(graph, op)
    for name in operands:
        _demand(plan, held, name, op.name)
    if not variant:
        # no code: the outputs must be the inputs' very bytes, and all stay intact
        for output, operand, distance in _same_bytes(graph, op):
            (memory, begin, end), (home, first, last) = _region(plan, output), _region(plan, operand)
            assert memory == home and first + distance == begin, f"{op.name} moves its view"
            assert (first <= begin and end <= last) or (begin <= first and last <= end), f"{op.name} moves its view"
            assert begin % 4 == 0 and first % 4 == 0, f"{op.name} has a part that is not 4-aligned"
        held |= {name: _region(plan, name) for name in op.outputs}
        return
    outputs = [_region(plan, name) for name in op.outputs]
    busy = [_region(plan, name) for name in operands] + outputs
    row = BY_NAME[variant]
    scratch = row.scratch(graph, op)
    if scratch:
        region = _scratch(plan, op, scratch)
        assert all(_disjoint(region, other) for other in busy), f"the scratch of {op.name} overlaps an operand"
        for other in [n for n, r in held.items() if not _disjoint(r, region)]:
            del held[other]
    only = [name for name in op.outputs if graph.tensors[name].role != "state"]
    for index, (name, region) in enumerate(zip(op.outputs, outputs, strict=True)):
        # state that an op both reads and writes is one place; writes that trail the reads may overwrite an operand
        lags = row.lag(graph, op) if [name] == only else {}
        moves = variant == "tw_move"  # overlaps as it likes
        read = [(lags.get(i), _region(plan, n)) for i, n in enumerate(op.inputs) if n in operands and n != name]
        others = [other for lag, other in read if not moves and not _trails(region, other, lag)] + outputs[:index]
        assert all(_disjoint(region, other) for other in others), f"{op.name} writes over its own operand"
        _write(held, name, region, op.name)


def _scratch(plan: Plan, op: Op, size: int) -> Region:
    """Where the scratch of an op lies."""
    buffer = plan.buffer(plan.scratch_of(plan.graph.ops.index(op)))
    assert buffer.bytes >= size, f"{op.name} needs {size} bytes of scratch"
    return buffer.memory, plan.offsets[buffer.name], plan.offsets[buffer.name] + size


@dataclass(frozen=True)
class _Fused:
    """A fused stage as it runs. holds: per byte of each memory, which row lies there. written: which bytes the stage wrote."""

    plan: Plan
    stream: Streaming
    number: Mapping[str, int]  # tensor -> what marks its row 0
    holds: Mapping[str, np.ndarray]
    written: Mapping[str, np.ndarray]
    first: dict[str, tuple[int, int]] = field(default_factory=dict)  # tensor in a tile -> the row and column at its start

    def height(self, name: str) -> int:
        shape = self.plan.graph.tensors[name].shape
        return shape[1] if len(shape) == 4 else 1

    def place(self, name: str, row: int) -> Region:
        """Where a row lies: in a ring at row % its rows."""
        plan, height = self.plan, self.height(name)
        size, rows = plan.graph.tensors[name].bytes // height, self.stream.rings.get(name, height)
        in_ring = name in self.stream.rings
        assert not in_ring or rows * size == plan.buffer(plan.places[name].buffer).bytes, f"the ring of '{name}'"
        begin = plan.offset(name) + row % rows * size
        return plan.memory(name), begin, begin + size

    def intact(self, name: str, row: int) -> bool:
        memory, begin, end = self.place(name, row)
        return bool((self.holds[memory][begin:end] == self.number[name] + row).all())

    def put(self, name: str, row: int) -> None:
        """A row that lay there before the stage."""
        memory, begin, end = self.place(name, row)
        self.holds[memory][begin:end] = self.number[name] + row

    def write(self, region: Region, what: int) -> None:
        memory, begin, end = region
        self.holds[memory][begin:end] = what
        self.written[memory][begin:end] = True


def _run_fused(plan: Plan, stage: Stage, held: dict[str, Region]) -> None:
    """Follow every row of a fused stage: what it reads must lie intact where it was written."""
    graph, stream = plan.graph, streaming_of(plan, stage)
    brought = [node for node in stream.paces if isinstance(node, str)]
    made = [*brought, *(graph.ops[index].outputs[0] for index in stage.ops)]
    tiles = {tile.ops[-1]: tile for tile in stage.tiles or ()}
    given = sorted({name for index in stage.ops for name in _activations(graph, graph.ops[index])} - set(made))
    number = {name: i << 32 for i, name in enumerate((*given, *made))}
    holds = {memory: np.full(size, -1, np.int64) for memory, size in plan.arena.items()}
    fused = _Fused(plan, stream, number, holds, {memory: np.zeros(size, bool) for memory, size in plan.arena.items()})
    for name in given:
        _demand(plan, held, name, f"the stage of {graph.ops[stage.ops[0]].name}")
        for row in range(fused.height(name)):
            fused.put(name, row)
    handed: list[int] = []  # rows of the last op's output
    for tick in range(stream.ticks):
        for node, pace in stream.paces.items():
            rows = pace.due(tick)
            if not rows:
                continue
            assert len(rows) == 1 or node in tiles, f"{node} computes several rows at once"
            row = rows[0]
            if isinstance(node, str):
                fused.write(fused.place(node, row), number[node] + row)
            elif node in tiles:
                _run_tile(fused, tiles[node], rows)
            elif sums := BY_NAME[plan.variants[node]].sums(graph, graph.ops[node]):
                _sum_row(fused, graph.ops[node], row, sums, last=row == pace.rows - 1)
            else:
                _run_row(fused, graph.ops[node], plan.variants[node], row)
            if node == stage.ops[-1] and (out := graph.ops[node].outputs[0]) in plan.handed:
                _hand_out(fused, out, rows)
                handed += rows
    if (out := graph.ops[stage.ops[-1]].outputs[0]) in plan.handed:
        assert handed == list(range(fused.height(out))), f"not every row of '{out}' is handed out once, in order"
    for name in [n for n, (memory, begin, end) in held.items() if fused.written[memory][begin:end].any()]:
        del held[name]
    for name in (name for name in made if name not in stream.rings and name not in stream.tiles):
        assert all(fused.intact(name, row) for row in range(fused.height(name))), f"the stage leaves '{name}' incomplete"
        held[name] = _region(plan, name)


def _run_tile(fused: _Fused, tile: Tile, rows: range) -> None:
    """Rows of the last op's output are computed, some columns at a time, by ops that run together."""
    graph, ops = fused.plan.graph, [fused.plan.graph.ops[index] for index in tile.ops]
    made = ops[-1].outputs[0]
    width, targets = graph.output(ops[-1]).shape[2], [fused.place(made, row) for row in rows]
    for target in targets:
        fused.write(target, PARTLY)
    assert len({target[1] for target in targets}) == len(rows) <= tile.rows, f"the ring of '{made}' has no room for a turn"
    ends = dict.fromkeys((op.outputs[0] for op in ops[:-1]), 0)  # columns before it are there
    for begin in range(0, width, tile.cols):
        parts = {made: (rows, range(begin, min(begin + tile.cols, width)))}
        for op in reversed(ops[:-1]):
            name = op.outputs[0]
            fields = [_field(fused, reader, name, parts[reader.outputs[0]]) for reader in ops if name in reader.inputs]
            if not tile.cached:
                ends[name] = 0
            parts[name], ends[name] = _slide(fused, name, fields, ends[name])
        for op, index in zip(ops, tile.ops, strict=True):
            name, part = op.outputs[0], parts[op.outputs[0]]
            regions = targets if op is ops[-1] else [_tile_region(fused, name)]
            if scratch := BY_NAME[fused.plan.variants[index]].scratch(graph, op):
                area = _scratch(fused.plan, op, scratch)
                assert all(_disjoint(area, region) for region in regions), f"the scratch of {op.name} overlaps its output"
                fused.write(area, SCRATCH)
            for operand in (n for n in _activations(graph, op) if n in fused.number):
                _read_part(fused, op, operand, part, regions)
            if op is not ops[-1]:
                _cells(fused, name)[_slots(fused, name, part)] = _marks(fused, name, part)[:, :, None]
                memory, first, end = regions[0]
                fused.written[memory][first:end] = True
    for row, target in zip(rows, targets, strict=True):
        fused.write(target, fused.number[made] + row)


def _hand_out(fused: _Fused, name: str, rows: range) -> None:
    """The rows of a turn must all be there, one after the other."""
    places = [fused.place(name, row) for row in rows]
    assert all(fused.intact(name, row) for row in rows), f"rows {rows} of '{name}' are handed out, and are not there"
    assert all(a[2] == b[1] for a, b in pairwise(places)), f"rows {rows} of '{name}' do not lie one after the other"


Part = tuple[range, range]  # rows and columns of a map


def _field(fused: _Fused, op: Op, name: str, part: Part) -> Part:
    """The rows and columns of an operand that a part of the output reads."""
    window = SPECS[op.kind].window(fused.plan.graph, op)
    assert window is not None
    if _repeats(fused.plan.graph, op, name):
        return range(1), range(1)
    spans = []
    for axis, span in enumerate(part):
        stride, pad, size = window.stride[axis], window.pad[axis], fused.plan.graph.tensors[name].shape[1 + axis]
        begin = min(max(span.start * stride - pad, 0), size)
        last = (span.stop - 1) * stride - pad + window.extent[axis] if span else begin
        spans.append(range(begin, min(max(last, begin), size)))
    return spans[0], spans[1]


def _slide(fused: _Fused, name: str, fields: Sequence[Part], end: int) -> tuple[Part, int]:
    """Moves a tile on to what its readers need: what is to be computed for that, and the column where it ends."""
    rows, cols = (
        range(min(span.start for span in spans), max(span.stop for span in spans)) for spans in zip(*fields, strict=True)
    )
    kept, cells = max(end - cols.start, 0), _cells(fused, name)
    assert len(rows) <= cells.shape[0] and max(len(cols), kept) <= cells.shape[1], f"the tile of '{name}' is too small"
    if kept:
        shift = cols.start - fused.first[name][1]
        cells[: len(rows), :kept] = cells[: len(rows), shift : shift + kept].copy()
    fused.first[name] = rows.start, cols.start
    end = max(cols.stop, cols.start + kept)
    return (rows, range(cols.start + kept, end)), end


def _tile_region(fused: _Fused, name: str) -> Region:
    plan, (rows, cols) = fused.plan, fused.stream.tiles[name]
    tensor, begin = plan.graph.tensors[name], plan.offset(name)
    size, buffer = rows * cols * tensor.pixel_bytes, plan.buffer(plan.places[name].buffer)
    assert plan.places[name].offset + size <= buffer.bytes and begin % 4 == 0, f"the tile of '{name}' leaves {buffer.name}"
    return plan.memory(name), begin, begin + size


def _cells(fused: _Fused, name: str) -> np.ndarray:
    """What the bytes of a tile hold, by row, column and byte of the pixel."""
    memory, begin, end = _tile_region(fused, name)
    return fused.holds[memory][begin:end].reshape(*fused.stream.tiles[name], -1)


def _slots(fused: _Fused, name: str, part: Part) -> tuple[slice, slice]:
    """Where in its tile a part of a map lies."""
    (rows, cols), (row, col) = part, fused.first[name]
    return slice(rows.start - row, rows.stop - row), slice(cols.start - col, cols.stop - col)


def _marks(fused: _Fused, name: str, part: Part) -> np.ndarray:
    rows, cols = (np.arange(span.start, span.stop, dtype=np.int64) for span in part)
    return fused.number[name] + CELL + rows[:, None] * fused.plan.graph.tensors[name].shape[2] + cols


def _read_part(fused: _Fused, op: Op, name: str, part: Part, targets: list[Region]) -> None:
    """What an op of a tile reads for a part of its output must be there, and where it writes, nothing of it."""
    seen = _field(fused, op, name, part)
    if name in fused.stream.tiles:
        cells, where = _cells(fused, name), f"{op.name} reads cells of '{name}' that are not there"
        assert (cells[_slots(fused, name, seen)] == _marks(fused, name, seen)[:, :, None]).all(), where
        assert all(_disjoint(target, _tile_region(fused, name)) for target in targets), f"{op.name} writes over its own operand"
        return
    for row in seen[0]:
        assert fused.intact(name, row), f"{op.name} reads row {row} of '{name}', which is not there"
        read = fused.place(name, row)
        assert all(_disjoint(target, read) for target in targets), f"{op.name} writes over its own operand"


def _sum_row(fused: _Fused, op: Op, row: int, sums: int, *, last: bool) -> None:
    """A row is added to sums of so many bytes in the op's scratch, which the last one turns into the output."""
    plan, source, out = fused.plan, fused.plan.graph.input(op).name, op.outputs[0]
    buffer = plan.buffer(scratch_name(op.name))
    area = (buffer.memory, plan.offsets[buffer.name], plan.offsets[buffer.name] + sums)
    assert buffer.bytes >= sums, f"{op.name} needs {sums} bytes for its sums"
    assert fused.intact(source, row), f"{op.name} reads row {row} of '{source}', which is not there"
    assert _disjoint(area, fused.place(source, row)), f"the sums of {op.name} overlap its operand"
    assert row == 0 or (fused.holds[area[0]][area[1] : area[2]] == SUMS).all(), f"the sums of {op.name} are overwritten"
    fused.write(area, SUMS)
    if last:
        assert _disjoint(area, fused.place(out, 0)), f"{op.name} writes over its sums"
        fused.write(fused.place(out, 0), fused.number[out])


def _run_row(fused: _Fused, op: Op, variant: str, row: int) -> None:
    """A row of the output is computed from the rows of its window."""
    graph, out = fused.plan.graph, op.outputs[0]
    region, window = fused.place(out, row), SPECS[op.kind].window(graph, op)
    lags, scratch = BY_NAME[variant].lag(graph, op), BY_NAME[variant].scratch(graph, op)
    if scratch:
        area = _scratch(fused.plan, op, scratch)
        assert _disjoint(area, region), f"the scratch of {op.name} overlaps its output"
        fused.write(area, SCRATCH)
    for position, name in ((i, n) for i, n in enumerate(op.inputs) if n is not None and n in fused.number):
        first, height = 0 if window is None else row * window.stride[0] - window.pad[0], fused.height(name)
        rows = range(max(first, 0), height if window is None else min(first + window.extent[0], height))
        for other in range(1) if _repeats(graph, op, name) else rows:
            assert fused.intact(name, other), f"row {row} of {op.name} reads row {other} of '{name}', which is not there"
            read = fused.place(name, other)
            same_row = window is not None and window.extent[0] == 1 and lags.get(position) == 0 and region[1] <= read[1]
            assert same_row or _disjoint(region, read), f"{op.name} writes over its own operand"
    fused.write(region, fused.number[out] + row)


def _repeats(graph: Graph, op: Op, name: str) -> bool:
    """Whether an operand is one pixel, which goes with each of a map."""
    return graph.tensors[name].elements == graph.tensors[name].shape[-1] < graph.output(op).elements and op.kind in REPEATING


def _same_bytes(graph: Graph, op: Op) -> list[tuple[str, str, int]]:
    """(output, operand, bytes from the operand's start to the output's) of an op that only joins, cuts or renames.

    Found by sending numbers through its reference: all elements must lie in a row, in the outputs or in the operands.
    """
    if SPECS[op.kind].view:
        assert op.inputs[0] is not None
        return [(op.outputs[0], op.inputs[0], 0)]
    arrays, begins, count = [], {}, 0
    for name in op.inputs:
        tensor = None if name is None else graph.tensors[name]
        if tensor is None or tensor.data is not None:
            arrays.append(None if tensor is None else tensor.data)
            continue
        assert tensor.name not in begins, f"{op.name} is not a view and has no kernel"
        begins[tensor.name] = count
        arrays.append(np.arange(count, count + tensor.elements).reshape(tensor.shape))
        count += tensor.elements
    assert op.kind in ONLY_COPIES, f"{op.name} is not a view and has no kernel"
    found = []
    for name, numbers in zip(op.outputs, SPECS[op.kind].reference(graph, op, arrays), strict=True):
        flat, size = numbers.ravel(), itemsize(graph.tensors[name].dtype)
        assert flat.size and (np.diff(flat) == 1).all(), f"the elements of '{name}' do not lie in a row"
        reach = [(x, b) for x, b in begins.items() if b < flat[-1] + 1 and flat[0] < b + graph.tensors[x].elements]
        found += [(name, operand, (int(flat[0]) - begin) * size) for operand, begin in reach]
    return found


def _trails(output: Region, operand: Region, lag: int | None) -> bool:
    """Whether the kernel has read each byte of the operand before its output gets there."""
    return lag is not None and output[0] == operand[0] and output[1] + lag <= operand[1]


def _activations(graph: Graph, op: Op) -> list[str]:
    return [name for name in op.inputs if name is not None and graph.tensors[name].data is None]
