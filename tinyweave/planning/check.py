"""The independent check of a plan: run it symbolically and watch what every byte holds.

In: a Plan. Out: nothing, or an UnsoundPlanError that says which rule broke where. The check ignores lifetimes. It walks the
stages and lets each op overwrite its output's bytes. Every operand must still lie intact where it was written, and all state at
the end of the inference. What a plan says of itself is a claim: offsets and sizes, and of a fused stage when which rows are
computed and how many are kept. Which rows an op reads follows from its window. Nothing here comes from the planner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..ir import Graph, Op, itemsize
from ..kernels.access import distance
from ..kernels.table import ANY, BY_NAME, VIEWS
from ..ops import SPECS, data
from ..ops.window import Windows
from .plan import Plan, RowSchedule, Stage, Tile, scratch_name

Region = tuple[str, int, int]  # memory, begin, end
SUMS, SCRATCH, PARTLY = -2, -3, -4  # what a byte of sums holds, of scratch, of a row that is being written
CELL = 1 << 31  # a cell of a tile is marked by this, its row times the map's width, and its column
WORD = 4  # bytes; kernels load words
ONLY_COPIES = ("split", "split_v", "unpack", "slice", "strided_slice", "concatenation", "pack")


class Access(NamedTuple):
    """Some columns of a row, and where they lie, that an op of a fused stage reads or writes: "" is the caller; scratch has no
    tensor."""

    op: str
    tensor: str
    writes: bool
    row: int
    cols: range
    region: Region


class UnsoundPlanError(Exception):
    """A plan that would compute wrong bytes or leave its memory: the planner's mistake, never the user's."""


Watch = Callable[[Access], None]


def check(plan: Plan, watch: Watch | None = None) -> Plan:
    """Return `plan` when executing it keeps every operand intact inside the claimed memory, else raise UnsoundPlanError."""
    graph = plan.graph
    _check_steps(plan)
    _check_streams(plan)
    _check_extent(plan)
    held: dict[str, Region] = {}  # tensor -> where its value lies now
    state = _state(graph)
    for name in (*state, *(name for name in graph.inputs if name not in plan.streamed_inputs)):
        _write(held, name, _region(plan, name))
    for stage in plan.stages:
        if stage.schedule is not None:
            _run_fused(plan, stage, stage.schedule, held, watch)
        else:
            _run(plan, stage.ops[0], held)
    for name in (*graph.outputs, *state):
        if graph.tensors[name].data is None and name not in plan.streamed_outputs:
            _demand(plan, held, name, "the end of the network")
    return plan


def _check_steps(plan: Plan) -> None:
    graph = plan.graph
    order = [index for stage in plan.stages for index in stage.ops]
    if sorted(order) != list(range(len(graph.ops))):
        raise UnsoundPlanError(f"the stages run the ops {order}, not every op exactly once")
    if len(plan.variants) != len(order):
        raise UnsoundPlanError(f"there are {len(plan.variants)} kernels for {len(order)} ops")
    for op, variant in zip(graph.ops, plan.variants, strict=True):
        row, types = BY_NAME.get(variant), (data(graph, op).dtype, graph.output(op).dtype)
        if variant and (row is None or op.kind not in row.kinds or row.types not in (types, ANY)):
            raise UnsoundPlanError(f"{op.name} is {op.kind} on {' -> '.join(types)}, which the kernel '{variant}' does not run")
    for stage in plan.stages:
        if (stage.tiles is None) != (stage.schedule is None):
            raise UnsoundPlanError(f"the stage of ops {stage.ops} is fused, but has no tiles or no row schedule")
        if stage.schedule is None and len(stage.ops) != 1:
            raise UnsoundPlanError(f"the stage of ops {stage.ops} is not fused, so only its first op would run")
    for name in _state(graph):
        touching = [index for index in order if name in (*graph.ops[index].inputs, *graph.ops[index].outputs)]
        if touching != sorted(touching):
            raise UnsoundPlanError(f"the ops that read and write the state '{name}' run in the order {touching}")


def _check_streams(plan: Plan) -> None:
    graph = plan.graph
    bringing = [node for stage in plan.stages if stage.schedule for node in stage.schedule.timings if isinstance(node, str)]
    for name in plan.streamed_inputs:
        if name not in graph.inputs:
            raise UnsoundPlanError(f"'{name}' is to come by rows, but is no network input")
    if sorted(bringing) != sorted(plan.streamed_inputs):
        raise UnsoundPlanError(
            f"the rows of {sorted(bringing)} are asked for, those of {sorted(plan.streamed_inputs)} come, each once"
        )
    for name in plan.streamed_outputs:
        if name not in graph.outputs or name not in graph.producer:
            raise UnsoundPlanError(f"'{name}' is to be handed out, but is no output that an op makes")
        if any(name in op.inputs for op in graph.ops):
            raise UnsoundPlanError(f"'{name}' is read, and so must not be handed out by rows")
        stage = next(stage for stage in plan.stages if graph.producer[name] in stage.ops)
        if stage.schedule is None or stage.ops[-1] != graph.producer[name]:
            raise UnsoundPlanError(f"'{name}' is to be handed out, but no fused stage ends with it")


def _check_extent(plan: Plan) -> None:
    graph = plan.graph
    highest = dict.fromkeys(plan.arena, 0)
    for buffer in plan.buffers:
        offset = plan.offsets.get(buffer.name, -1)
        if offset < 0 or offset % buffer.align or buffer.align % WORD or buffer.memory not in highest:
            raise UnsoundPlanError(
                f"the buffer '{buffer.name}' lies at {offset} in '{buffer.memory}', aligned to {buffer.align}"
            )
        highest[buffer.memory] = max(highest[buffer.memory], offset + buffer.bytes)
    if highest != dict(plan.arena):
        raise UnsoundPlanError(f"the arenas claimed are {dict(plan.arena)}, those used {highest}")
    extents = {b.name: (b.memory, plan.offsets[b.name], plan.offsets[b.name] + b.bytes) for b in plan.buffers}
    schedules = [stage.schedule for stage in plan.stages if stage.schedule is not None]
    by_rows = {name for schedule in schedules for name in (*schedule.rings, *schedule.tiles)}  # see _check_schedule
    used = {name for op in graph.ops for name in (*op.inputs, *op.outputs) if name is not None}
    for name in sorted(used.union(graph.inputs, graph.outputs)):
        tensor = graph.tensors[name]
        if tensor.data is not None:
            continue
        place = plan.places.get(name)
        if place is None or place.buffer not in extents:
            raise UnsoundPlanError(f"'{name}' lies in no buffer")
        buffer, word = plan.buffer(place.buffer), max(WORD, itemsize(tensor.dtype))
        if plan.offset(name) % word or buffer.align % word:
            raise UnsoundPlanError(f"'{name}' lies at {plan.offset(name)}, not at a multiple of {word} bytes")
        if place.offset < 0 or place.offset + (0 if name in by_rows else tensor.bytes) > buffer.bytes:
            raise UnsoundPlanError(f"'{name}' leaves its buffer '{buffer.name}'")
    for name in _state(graph):
        home = plan.places[name].buffer
        others = [other for other in extents if other != home and not _disjoint(extents[home], extents[other])]
        if others:
            raise UnsoundPlanError(f"the state '{name}' shares bytes with {others}")


def _state(graph: Graph) -> list[str]:
    return [name for name, tensor in graph.tensors.items() if tensor.role == "state"]


def _region(plan: Plan, name: str) -> Region:
    begin = plan.offset(name)
    return plan.memory(name), begin, begin + plan.graph.tensors[name].bytes


def _disjoint(a: Region, b: Region) -> bool:
    return a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1]


def _demand(plan: Plan, held: Mapping[str, Region], name: str, where: str) -> None:
    if held.get(name) != _region(plan, name):
        raise UnsoundPlanError(f"{where} reads '{name}', which is no longer intact")


def _spoil(held: dict[str, Region], region: Region) -> None:
    """Forget every value that has a byte in a region."""
    for name in [name for name, other in held.items() if not _disjoint(other, region)]:
        del held[name]


def _write(held: dict[str, Region], name: str, region: Region) -> None:
    _spoil(held, region)
    held[name] = region


def _run(plan: Plan, index: int, held: dict[str, Region]) -> None:
    """Run an op on whole tensors."""
    graph, op, variant = plan.graph, plan.graph.ops[index], plan.variants[index]
    operands = _activations(graph, op)
    for name in operands:
        _demand(plan, held, name, op.name)
    if not variant:
        _view(plan, op)
        held |= {name: _region(plan, name) for name in op.outputs}
        return
    outputs = [_region(plan, name) for name in op.outputs]
    if scratch := _scratch(plan, index):
        if not all(_disjoint(scratch, _region(plan, name)) for name in (*operands, *op.outputs)):
            raise UnsoundPlanError(f"the scratch of {op.name} overlaps an operand")
        _spoil(held, scratch)
    only = [name for name in op.outputs if graph.tensors[name].role != "state"]
    for number, (name, region) in enumerate(zip(op.outputs, outputs, strict=True)):
        # state that an op both reads and writes is one place; writes that trail the reads may overwrite an operand
        read = [(i, _region(plan, n)) for i, n in enumerate(op.inputs) if n in operands and n != name]
        over = [(i, other) for i, other in read if not _disjoint(region, other)]
        distances = distance(graph, op, variant) if over and [name] == only else {}
        for position, other in over if op.kind not in VIEWS else ():  # a move overlaps as it likes
            if position not in distances or region[1] + distances[position] > other[1]:
                raise UnsoundPlanError(f"{op.name} writes over its own operand")
        if not all(_disjoint(region, other) for other in outputs[:number]):
            raise UnsoundPlanError(f"{op.name} writes over its own output")
        _write(held, name, region)


def _scratch(plan: Plan, index: int) -> Region | None:
    """Where the scratch of an op lies, if it needs any: in the buffer of its stage."""
    op, stage = plan.graph.ops[index], next(stage for stage in plan.stages if index in stage.ops)
    size = BY_NAME[plan.variants[index]].scratch(plan.graph, op)
    return _area(plan, scratch_name(plan.graph.ops[stage.ops[0]].name), size, op) if size else None


def _area(plan: Plan, name: str, size: int, op: Op) -> Region:
    buffer = next((buffer for buffer in plan.buffers if buffer.name == name), None)
    if buffer is None or buffer.bytes < size:
        raise UnsoundPlanError(f"{op.name} needs {size} bytes of scratch in a buffer '{name}'")
    return buffer.memory, plan.offsets[name], plan.offsets[name] + size


def _view(plan: Plan, op: Op) -> None:
    """An op without code: its outputs must be its inputs' very bytes, and all of them stay intact."""
    for output, operand, between in _same_bytes(plan.graph, op):
        (memory, begin, end), (home, first, last) = _region(plan, output), _region(plan, operand)
        nested = (first <= begin and end <= last) or (begin <= first and last <= end)
        if memory != home or first + between != begin or not nested:
            raise UnsoundPlanError(f"{op.name} moves its view")


def _same_bytes(graph: Graph, op: Op) -> list[tuple[str, str, int]]:
    """Return (output, operand, bytes from the operand's start to the output's) of an op that only joins, cuts or renames.

    Numbers sent through the op's reference show it: all elements must lie in a row, in the outputs or in the operands.
    """
    if SPECS[op.kind].view:
        return [(op.outputs[0], graph.input(op).name, 0)]
    operands = _activations(graph, op)
    if op.kind not in ONLY_COPIES or len(set(operands)) < len(operands):
        raise UnsoundPlanError(f"{op.name} is not a view and has no kernel")
    arrays, begins, count = [], {}, 0
    for name in op.inputs:
        tensor = None if name is None else graph.tensors[name]
        if tensor is None or tensor.data is not None:
            arrays.append(None if tensor is None else tensor.data)
            continue
        begins[tensor.name] = count
        arrays.append(np.arange(count, count + tensor.elements).reshape(tensor.shape))
        count += tensor.elements
    same = []
    for name, numbers in zip(op.outputs, SPECS[op.kind].reference(graph, op, arrays), strict=True):
        flat, size = numbers.ravel(), itemsize(graph.tensors[name].dtype)
        if not flat.size or (np.diff(flat) != 1).any():
            raise UnsoundPlanError(f"the elements of '{name}' do not lie in a row, and {op.name} has no kernel")
        reach = [(x, b) for x, b in begins.items() if b < flat[-1] + 1 and flat[0] < b + graph.tensors[x].elements]
        same += [(name, operand, (int(flat[0]) - begin) * size) for operand, begin in reach]
    return same


def _activations(graph: Graph, op: Op) -> list[str]:
    return [name for name in op.inputs if name is not None and graph.tensors[name].data is None]


@dataclass(frozen=True)
class _Fused:
    """A fused stage as it runs. holds: per byte of each memory, which row lies there. written: which bytes the stage wrote."""

    plan: Plan
    schedule: RowSchedule
    number: Mapping[str, int]  # tensor -> what marks its row 0
    holds: Mapping[str, np.ndarray]
    written: Mapping[str, np.ndarray]
    watch: Watch | None
    first: dict[str, tuple[int, int]] = field(default_factory=dict)  # tensor in a tile -> the row and column at its start

    def op(self, index: int) -> Op:
        return self.plan.graph.ops[index]

    def height(self, name: str) -> int:
        shape = self.plan.graph.tensors[name].shape
        return shape[1] if len(shape) == 4 else 1

    def width(self, name: str) -> int:
        shape = self.plan.graph.tensors[name].shape
        return shape[2] if len(shape) == 4 else 1

    def place(self, name: str, row: int) -> Region:
        """Where a row lies: in a ring at row % its rows."""
        plan, height = self.plan, self.height(name)
        size, rows = plan.graph.tensors[name].bytes // height, self.schedule.rings.get(name, height)
        begin = plan.offset(name) + row % rows * size
        return plan.memory(name), begin, begin + size

    def intact(self, name: str, row: int) -> bool:
        memory, begin, end = self.place(name, row)
        return bool((self.holds[memory][begin:end] == self.number[name] + row).all())

    def put(self, name: str, row: int) -> None:
        """Note a row that lay there before the stage."""
        memory, begin, end = self.place(name, row)
        self.holds[memory][begin:end] = self.number[name] + row

    def write(self, region: Region, what: int) -> None:
        memory, begin, end = region
        self.holds[memory][begin:end] = what
        self.written[memory][begin:end] = True

    def tell(self, op: Op | None, name: str, row: int, region: Region, *, writes: bool, cols: range | None = None) -> None:
        """Tell the watcher of a row, by default the whole of it."""
        if self.watch:
            cols = range(self.width(name) if name else 0) if cols is None else cols
            self.watch(Access(op.name if op else "", name, writes, row, cols, region))


def _check_schedule(plan: Plan, stage: Stage, schedule: RowSchedule) -> None:
    """What a fused stage claims must be possible at all; whether it is enough shows when its rows are followed."""
    graph, tiles = plan.graph, {tile.ops[-1]: tile for tile in stage.tiles or ()}
    nodes = [node for node in schedule.timings if isinstance(node, int)]
    if [index for node in nodes for index in (tiles[node].ops if node in tiles else (node,))] != list(stage.ops):
        raise UnsoundPlanError(f"the stage of ops {stage.ops} has a row schedule for other ops: {nodes}")
    for index in stage.ops:
        op, variant = graph.ops[index], plan.variants[index]
        if not variant or len(op.outputs) != 1 or not (BY_NAME[variant].has_part or BY_NAME[variant].sums(graph, op)):
            raise UnsoundPlanError(f"{op.name} cannot run by rows with the kernel '{variant}'")
    made = {graph.ops[index].outputs[0] for index in stage.ops}
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
    for name, rows in schedule.rings.items():
        tensor = graph.tensors[name]
        if name not in made.union(schedule.timings) or rows < 1:
            raise UnsoundPlanError(f"the stage of ops {stage.ops} keeps {rows} rows of '{name}'")
        size = plan.places[name].offset + rows * tensor.bytes // (tensor.shape[1] if len(tensor.shape) == 4 else 1)
        if size > plan.buffer(plan.places[name].buffer).bytes:
            raise UnsoundPlanError(f"the ring of '{name}' needs {size} bytes, which its buffer does not have")
    for name, (rows, cols) in schedule.tiles.items():
        size = plan.places[name].offset + rows * cols * graph.tensors[name].pixel_bytes
        if min(rows, cols) < 0 or size > plan.buffer(plan.places[name].buffer).bytes:
            raise UnsoundPlanError(f"the tile of '{name}' has {rows} x {cols} pixels, which its buffer does not hold")


def _run_fused(plan: Plan, stage: Stage, schedule: RowSchedule, held: dict[str, Region], watch: Watch | None) -> None:
    """Follow every row of a fused stage: what it reads must lie intact where it was written."""
    graph = plan.graph
    _check_schedule(plan, stage, schedule)
    brought = [node for node in schedule.timings if isinstance(node, str)]
    made = [*brought, *(graph.ops[index].outputs[0] for index in stage.ops)]
    tiles = {tile.ops[-1]: tile for tile in stage.tiles or ()}
    before = sorted({name for index in stage.ops for name in _activations(graph, graph.ops[index])} - set(made))
    number = {name: i << 32 for i, name in enumerate((*before, *made))}
    holds = {memory: np.full(size, -1, np.int64) for memory, size in plan.arena.items()}
    written = {memory: np.zeros(size, bool) for memory, size in plan.arena.items()}
    fused = _Fused(plan, schedule, number, holds, written, watch)
    for name in before:
        _demand(plan, held, name, f"the stage of {graph.ops[stage.ops[0]].name}")
        for row in range(fused.height(name)):
            fused.put(name, row)
    out = graph.ops[stage.ops[-1]].outputs[0]
    due, done = (
        {node: timing.first for node, timing in schedule.timings.items()},
        dict.fromkeys(schedule.timings, 0),
    )
    for tick in range(schedule.ticks):
        for node, timing in schedule.timings.items():
            if tick != due[node] or done[node] == timing.rows:
                continue
            rows = range(done[node], min(done[node] + timing.rows_per_iteration, timing.rows))
            due[node], done[node] = tick + timing.every, rows.stop
            if isinstance(node, str):
                _bring(fused, node, rows[0])
            elif node in tiles:
                _run_tile(fused, tiles[node], rows)
            elif sums := BY_NAME[plan.variants[node]].sums(graph, graph.ops[node]):
                _sum_row(fused, node, rows[0], sums)
            else:
                _run_row(fused, node, rows[0])
            if node == stage.ops[-1] and out in plan.streamed_outputs:
                _hand_out(fused, out, rows)
    if out in plan.streamed_outputs and done[stage.ops[-1]] != fused.height(out):
        raise UnsoundPlanError(f"only {done[stage.ops[-1]]} rows of '{out}' are handed out")
    for name in [n for n, (memory, begin, end) in held.items() if fused.written[memory][begin:end].any()]:
        del held[name]
    for name in (name for name in made if name not in schedule.rings and name not in schedule.tiles):
        if not all(fused.intact(name, row) for row in range(fused.height(name))):
            raise UnsoundPlanError(f"the stage leaves '{name}' incomplete")
        held[name] = _region(plan, name)


def _target(fused: _Fused, name: str, row: int) -> Region:
    """Where a row goes that is computed."""
    if row >= fused.height(name):
        raise UnsoundPlanError(f"row {row} of '{name}' is computed, which has {fused.height(name)}")
    return fused.place(name, row)


def _columns(fused: _Fused, name: str, row: Region, cols: range) -> Region:
    """Where some columns of a row lie."""
    memory, begin, _ = row
    pixel = fused.plan.graph.tensors[name].pixel_bytes
    return memory, begin + cols.start * pixel, begin + cols.stop * pixel


def _read(fused: _Fused, op: Op | None, name: str, row: int, cols: range | None = None) -> Region:
    """Where a row lies of which an op, or the caller, reads some columns."""
    region = fused.place(name, row)
    if not fused.intact(name, row):
        raise UnsoundPlanError(f"{op.name if op else 'the caller'} reads row {row} of '{name}', which is not there")
    fused.tell(op, name, row, region if cols is None else _columns(fused, name, region, cols), writes=False, cols=cols)
    return region


def _bring(fused: _Fused, name: str, row: int) -> None:
    region = _target(fused, name, row)
    fused.tell(None, name, row, region, writes=True)
    fused.write(region, fused.number[name] + row)


def _hand_out(fused: _Fused, name: str, rows: range) -> None:
    """Hand out the rows of an iteration, which must lie at the start of their ring, one after the other."""
    for position, row in enumerate(rows):
        _, begin, end = _read(fused, None, name, row)
        if begin != fused.plan.offset(name) + position * (end - begin):
            raise UnsoundPlanError(f"row {row} of '{name}' is handed out from elsewhere than where it lies")


def _run_row(fused: _Fused, index: int, row: int) -> None:
    """A row of the output is computed from the rows of its window."""
    graph, op, variant = fused.plan.graph, fused.op(index), fused.plan.variants[index]
    out, windows = op.outputs[0], SPECS[op.kind].windows(graph, op)
    region, only_row = _target(fused, out, row), windows is not None and windows[0].extent == 1
    if area := _scratch(fused.plan, index):
        if not _disjoint(area, region):
            raise UnsoundPlanError(f"the scratch of {op.name} overlaps its row")
        fused.tell(op, "", 0, area, writes=True)
        fused.write(area, SCRATCH)
    for position, name in ((i, n) for i, n in enumerate(op.inputs) if n is not None and n in fused.number):
        for other in _rows_read(fused, op, name, windows, row):
            read = _read(fused, op, name, other)
            in_place = only_row and region[1] <= read[1]  # then each byte must be read before the same one is written
            if not _disjoint(region, read) and not (in_place and distance(graph, op, variant).get(position) == 0):
                raise UnsoundPlanError(f"row {row} of {op.name} is written over row {other} of '{name}', which it reads")
    fused.tell(op, out, row, region, writes=True)
    fused.write(region, fused.number[out] + row)


def _rows_read(fused: _Fused, op: Op, name: str, windows: Windows | None, row: int) -> range:
    """The rows of an operand that a row of the output reads: all, where the op has no window."""
    if _repeats(fused.plan.graph, op, name):
        return range(1)
    if windows is None:
        return range(fused.height(name))
    first = row * windows[0].stride - windows[0].pad
    return range(max(first, 0), min(first + windows[0].extent, fused.height(name)))


def _sum_row(fused: _Fused, index: int, row: int, sums: int) -> None:
    """A row is added to sums of so many bytes in the op's scratch, which the last one turns into the output."""
    op = fused.op(index)
    source, out = fused.plan.graph.input(op).name, op.outputs[0]
    area = _area(fused.plan, scratch_name(op.name), sums, op)
    read = _read(fused, op, source, row)
    if not _disjoint(area, read):
        raise UnsoundPlanError(f"the sums of {op.name} overlap its operand")
    if row and not (fused.holds[area[0]][area[1] : area[2]] == SUMS).all():
        raise UnsoundPlanError(f"the sums of {op.name} are overwritten before row {row}")
    fused.tell(op, "", 0, area, writes=True)
    fused.write(area, SUMS)
    if row == fused.height(source) - 1:
        region = _target(fused, out, 0)
        if not _disjoint(area, region):
            raise UnsoundPlanError(f"{op.name} writes over its sums")
        fused.tell(op, out, 0, region, writes=True)
        fused.write(region, fused.number[out])


Part = tuple[range, range]  # rows and columns of a map


def _run_tile(fused: _Fused, tile: Tile, rows: range) -> None:
    """Rows of the last op's output are computed, some columns at a time, by ops that run together."""
    ops = [fused.op(index) for index in tile.ops]
    made = ops[-1].outputs[0]
    width, targets = fused.width(made), [_target(fused, made, row) for row in rows]
    for target in targets:
        fused.write(target, PARTLY)
    if len(set(targets)) < len(rows):
        raise UnsoundPlanError(f"the ring of '{made}' has no room for the rows of an iteration")
    ends = dict.fromkeys((op.outputs[0] for op in ops[:-1]), 0)  # columns before it are there
    for begin in range(0, width, tile.cols):
        parts = {made: (rows, range(begin, min(begin + tile.cols, width)))}
        for op in reversed(ops[:-1]):
            name = op.outputs[0]
            readers = [reader for reader in ops if name in reader.inputs and reader.outputs[0] in parts]
            if not readers or name not in fused.schedule.tiles:
                raise UnsoundPlanError(f"'{name}' is made in a tile, but no op after it reads it there")
            fields = [_field(fused, reader, name, parts[reader.outputs[0]]) for reader in readers]
            parts[name], ends[name] = _slide(fused, name, fields, ends[name] if tile.cached else 0)
        for index, op in zip(tile.ops, ops, strict=True):
            _run_part(fused, index, parts[op.outputs[0]], targets if op is ops[-1] else None)
    for row, target in zip(rows, targets, strict=True):
        fused.write(target, fused.number[made] + row)


def _run_part(fused: _Fused, index: int, part: Part, targets: list[Region] | None) -> None:
    """An op of a tile computes a part of its output, in its tile or, the last op, in the rows at `targets`."""
    op, name = fused.op(index), fused.op(index).outputs[0]
    regions = [_tile_region(fused, name)] if targets is None else targets
    if area := _scratch(fused.plan, index):
        if not all(_disjoint(area, region) for region in regions):
            raise UnsoundPlanError(f"the scratch of {op.name} overlaps its part")
        fused.tell(op, "", 0, area, writes=True)
        fused.write(area, SCRATCH)
    for operand in _activations(fused.plan.graph, op):
        _read_part(fused, op, operand, part, regions)
    rows, cols = part
    for position, row in enumerate(rows):
        region = _cell_row(fused, name, row, cols) if targets is None else _columns(fused, name, targets[position], cols)
        fused.tell(op, name, row, region, writes=True, cols=cols)
    if targets is None:
        _cells(fused, name)[_slots(fused, name, part)] = _marks(fused, name, part)[:, :, None]
        memory, begin, end = regions[0]
        fused.written[memory][begin:end] = True


def _field(fused: _Fused, op: Op, name: str, part: Part) -> Part:
    """The rows and columns of an operand that a part of the output reads."""
    windows = SPECS[op.kind].windows(fused.plan.graph, op)
    if windows is None:
        raise UnsoundPlanError(f"{op.name} has no window, and so cannot run in a tile")
    if _repeats(fused.plan.graph, op, name):
        return range(1), range(1)
    spans = []
    for (extent, stride, pad), size, span in zip(windows, fused.plan.graph.tensors[name].shape[1:3], part, strict=True):
        begin = min(max(span.start * stride - pad, 0), size)
        last = (span.stop - 1) * stride - pad + extent if span else begin
        spans.append(range(begin, min(max(last, begin), size)))
    return spans[0], spans[1]


def _slide(fused: _Fused, name: str, fields: Sequence[Part], end: int) -> tuple[Part, int]:
    """Move a tile on to what its readers need: what is to be computed for that, and the column where it ends."""
    rows, cols = (
        range(min(span.start for span in spans), max(span.stop for span in spans)) for spans in zip(*fields, strict=True)
    )
    kept, cells = max(end - cols.start, 0), _cells(fused, name)
    if len(rows) > cells.shape[0] or max(len(cols), kept) > cells.shape[1]:
        raise UnsoundPlanError(f"the tile of '{name}' has no room for {len(rows)} x {max(len(cols), kept)} pixels")
    if kept:
        shift = cols.start - fused.first[name][1]
        cells[: len(rows), :kept] = cells[: len(rows), shift : shift + kept].copy()
    fused.first[name] = rows.start, cols.start
    end = max(cols.stop, cols.start + kept)
    return (rows, range(cols.start + kept, end)), end


def _read_part(fused: _Fused, op: Op, name: str, part: Part, targets: Sequence[Region]) -> None:
    """What an op of a tile reads for a part of its output must be there, and where it writes, nothing of it."""
    rows, cols = seen = _field(fused, op, name, part)
    if name in fused.schedule.tiles:
        if not (_cells(fused, name)[_slots(fused, name, seen)] == _marks(fused, name, seen)[:, :, None]).all():
            raise UnsoundPlanError(f"{op.name} reads cells of '{name}' that are not there")
        if not all(_disjoint(target, _tile_region(fused, name)) for target in targets):
            raise UnsoundPlanError(f"{op.name} writes over the tile of '{name}', which it reads")
        for row in rows:
            fused.tell(op, name, row, _cell_row(fused, name, row, cols), writes=False, cols=cols)
        return
    for row in rows:
        read = _read(fused, op, name, row, cols)
        if not all(_disjoint(target, read) for target in targets):
            raise UnsoundPlanError(f"the part of {op.name} is written over row {row} of '{name}', which it reads")


def _tile_region(fused: _Fused, name: str) -> Region:
    (rows, cols), begin = fused.schedule.tiles[name], fused.plan.offset(name)
    return fused.plan.memory(name), begin, begin + rows * cols * fused.plan.graph.tensors[name].pixel_bytes


def _cell_row(fused: _Fused, name: str, row: int, cols: range) -> Region:
    """Where some columns of a row lie in a tile."""
    (_, width), (first, left), pixel = fused.schedule.tiles[name], fused.first[name], fused.plan.graph.tensors[name].pixel_bytes
    begin = fused.plan.offset(name) + ((row - first) * width + cols.start - left) * pixel
    return fused.plan.memory(name), begin, begin + len(cols) * pixel


def _cells(fused: _Fused, name: str) -> np.ndarray:
    """What the bytes of a tile hold, by row, column and byte of the pixel."""
    memory, begin, end = _tile_region(fused, name)
    return fused.holds[memory][begin:end].reshape(*fused.schedule.tiles[name], fused.plan.graph.tensors[name].pixel_bytes)


def _slots(fused: _Fused, name: str, part: Part) -> tuple[slice, slice]:
    """Where in its tile a part of a map lies."""
    (rows, cols), (row, col) = part, fused.first[name]
    return slice(rows.start - row, rows.stop - row), slice(cols.start - col, cols.stop - col)


def _marks(fused: _Fused, name: str, part: Part) -> np.ndarray:
    rows, cols = (np.arange(span.start, span.stop, dtype=np.int64) for span in part)
    return fused.number[name] + CELL + rows[:, None] * fused.width(name) + cols


def _repeats(graph: Graph, op: Op, name: str) -> bool:
    """Whether an operand is one pixel, which goes with each of a map: of ops that read the pixel at the place of their own."""
    windows, tensor = SPECS[op.kind].windows(graph, op), graph.tensors[name]
    is_pointwise = windows is not None and all(window[:2] == (1, 1) for window in windows)
    return is_pointwise and tensor.elements == tensor.shape[-1] < graph.output(op).elements
