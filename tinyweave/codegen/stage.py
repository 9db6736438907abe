"""A fused stage as C: one loop over ticks, in which each op computes its next rows when they are due.

A fused stage is a run of ops that are executed together row by row. A view (tw_view) is a map or the rows of it that are kept;
a timing (tw_timing) holds when an op's next rows are due. A tile is a part of the columns in which some ops run together.

In: a Plan, one of its stages, and the C of each op. Out: lines of C.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from ..ir import Op
from ..kernels.table import BY_NAME
from ..ops import SPECS
from ..planning import Plan, Stage, Tile
from ..planning.fuse.row_access import row_bytes
from ..planning.plan import Node, RowSchedule, RowTiming
from . import c
from .layer import Code, shape_text

SHORT = 3  # most ops of a fused stage whose parameters are all on the stack, about 80 bytes each


def schedule_of(stage: Stage) -> RowSchedule:
    """Return the row schedule of a stage that must be fused: `stage.schedule`, typed as not None."""
    assert stage.schedule is not None
    return stage.schedule


def map_names(plan: Plan, stage: Stage, labels: Mapping[str, str]) -> dict[str, str]:
    """Return activation -> C expression of its view (tw_view), for all that a fused stage reads or writes."""
    names = [name for index in stage.ops for name in (*plan.graph.ops[index].inputs, *plan.graph.ops[index].outputs)]
    tiles = schedule_of(stage).tiles
    placed = [name for name in dict.fromkeys(names) if name is not None and name in plan.places]
    return {name: f"{labels[name]}_{'tile.map' if name in tiles else 'map'}" for name in placed}


def ranges(plan: Plan, stage: Stage) -> dict[int, str]:
    """Return op -> C expression of the rows and columns that its call computes (or reads, if it accumulates rows)."""
    expressions = {}
    for index in (node for node in schedule_of(stage).timings if isinstance(node, int)):
        op = plan.graph.ops[index]
        accumulates = BY_NAME[plan.variants[index]].sums(plan.graph, op)
        _, _, cols, _ = (plan.graph.input(op) if accumulates else plan.graph.output(op)).shape
        expressions[index] = f"tw_row(&{op.name}_timing, 0, {cols})"
    return expressions | {index: f"{plan.graph.ops[index].name}_part" for tile in stage.tiles or () for index in tile.ops}


def defines_per_call(plan: Plan, stage: Stage) -> bool:
    """Return whether a fused stage defines parameters from a file of weights at each call, not once before its loop.

    This takes some 25 instructions per call, but those of one op at a time are on the stack.
    """
    return plan.weights_file and len(stage.ops) > SHORT


def stage_lines(
    plan: Plan, step: int, at: Mapping[str, str], maps: Mapping[str, str], codes: Mapping[int, Code | None]
) -> list[str]:
    """Return the lines of C that run a fused stage; `maps` are the views of `map_names`."""
    stage = plan.stages[step]
    schedule = schedule_of(stage)
    views = [_view(plan, schedule, name, at[name], label) for name, label in maps.items() if name not in schedule.tiles]
    once = () if defines_per_call(plan, stage) else stage.ops
    in_ram = [line for index in once if (code := codes[index]) for line in code.in_ram]
    lines = ["{", *(f"    {line}" for lines in (in_ram, *views) for line in lines)]
    for node, timing in schedule.timings.items():
        rows = {"rows_per_iteration": timing.rows_per_iteration, "begin": 0, "end": 0, "rows": timing.rows}
        start = c.value({"due": timing.first, "every": timing.every, **rows})
        lines.append(f"    tw_timing {_timing(plan, maps, node)} = {start};")
    lines += ["", f"    for (int32_t tick = 0; tick < {schedule.ticks}; ++tick) {{"]
    tiles = {tile.ops[-1]: tile for tile in stage.tiles or ()}
    for node in schedule.timings:
        if isinstance(node, str):
            lines += [f"        {line}" for line in _read_row(plan, maps[node], node)]
            continue
        op = plan.graph.ops[node]
        body = _call(plan, codes, step, node)
        if node in tiles:
            calls = [line for index in tiles[node].ops for line in _call(plan, codes, step, index)]
            body = _tile(plan, schedule, tiles[node], at, maps=maps, calls=calls)
        lines.append(f"        if (tw_is_due(&{op.name}_timing, tick, &{maps[op.outputs[0]]})) {{")
        body += _write_rows(plan, op, maps, schedule.timings[node]) if op.outputs[0] in plan.streamed_outputs else []
        lines += [f"            {line}" for line in body]
        lines.append("        }")
    return [*lines, "    }", "}"]


def _call(plan: Plan, codes: Mapping[int, Code | None], step: int, index: int) -> list[str]:
    """Return the lines that call the kernel of a fused op, and the trace hook after it."""
    code = codes[index]
    assert code is not None
    call = c.block(code.in_ram if defines_per_call(plan, plan.stages[step]) else [], code.call.rstrip().split("\n"))
    return [*call, f"TW_TRACE({step}, {index});"]


def _tile(
    plan: Plan, schedule: RowSchedule, tile: Tile, at: Mapping[str, str], *, maps: Mapping[str, str], calls: list[str]
) -> list[str]:
    """Return the C loop of a tile: each pass computes, by `calls`, some columns of some rows of the last op's output."""
    graph, ops = plan.graph, [plan.graph.ops[index] for index in tile.ops]
    sizes, inner = schedule.tiles, [op.outputs[0] for op in ops[:-1]]
    fields, parts, tiles = list[str](), list[list[str]](), list[str]()
    for op in ops:
        if not set(inner).isdisjoint(op.inputs):
            windows, read = SPECS[op.kind].windows(graph, op), next(name for name in inner if name in op.inputs)
            assert windows is not None
            extent, stride, pad = zip(*(window[:3] for window in windows), strict=True)
            reads = {"extent": extent, "stride": stride, "pad": pad, "size": graph.tensors[read].shape[1:3]}
            fields.append(f"static const tw_field {op.name}_field = {c.value(reads)};")
    for op in ops[:-1]:
        tensor, (rows, cols) = graph.output(op), sizes[op.outputs[0]]
        name, pixel = maps[tensor.name].removesuffix(".map"), tensor.pixel_bytes
        members = ({"map": [_members(at[tensor.name], cols * pixel, rows)]}, {"end": 0, "pixel": pixel})
        tiles += c.struct("tw_tile", name, members).splitlines()
        needed = [f"tw_reads(&{reader.name}_field, {reader.name}_part)" for reader in ops if tensor.name in reader.inputs]
        call = reduce("tw_hull({}, {})".format, needed)
        parts.append([f"const tw_range {op.name}_part =", f"    tw_slide(&{name}, {call});"])
    last, (*_, cols, _) = ops[-1].name, graph.output(ops[-1]).shape
    part = f"const tw_range {last}_part = tw_row(&{last}_timing, col, tw_min(col + {tile.cols}, {cols}));"
    before, inside = (tiles, []) if tile.cached else ([], tiles)  # a patch keeps no columns of the patch before
    body = [*inside, part, *(line for lines in reversed(parts) for line in lines), *calls]
    return [*fields, *before, f"for (int32_t col = 0; col < {cols}; col += {tile.cols}) {{", *(f"    {x}" for x in body), "}"]


def _timing(plan: Plan, maps: Mapping[str, str], node: Node) -> str:
    """Return the name of the C variable with the timing of a node, which is an op's index or the name of a streamed input."""
    return f"{maps[node].removesuffix('_map') if isinstance(node, str) else plan.graph.ops[node].name}_timing"


def _read_row(plan: Plan, label: str, name: str) -> list[str]:
    """Return the lines that fetch the next row of a streamed input, whose view is the C expression `label`, when it is due."""
    timing, tensor = _timing(plan, {name: label}, name), plan.graph.tensors[name]
    row = f"{timing}.begin"
    return [
        f"if (tw_is_due(&{timing}, tick, &{label})) {{",
        f"    void *const row = tw_pixel(&{label}, {row}, 0, {tensor.pixel_bytes});",
        *(f"    {line}" for line in callback(f"io->read_rows(io->user, {plan.graph.inputs.index(name)}, {row}, 1, row)")),
        "}",
    ]


def _write_rows(plan: Plan, op: Op, maps: Mapping[str, str], timing: RowTiming) -> list[str]:
    """Return the lines that pass the newest rows of a streamed output to the model's caller, by its callback write_rows."""
    name, begin, end = op.outputs[0], f"{op.name}_timing.begin", f"{op.name}_timing.end"
    count = f"{end} - {begin}" if timing.rows_per_iteration > 1 else "1"
    return callback(f"io->write_rows(io->user, {plan.graph.outputs.index(name)}, {begin}, {count}, {maps[name]}.data)")


def callback(call: str) -> list[str]:
    """Return the lines that call a callback and leave invoke with its error, if it returns one."""
    return [f"const int error = {call};", "if (error != 0) {", "    return error;", "}"]


def stage_note(plan: Plan, stage: Stage) -> str:
    """Return one line that describes a fused stage: its ops, whether it runs row by row or patch by patch, and its shapes."""
    graph, ops = plan.graph, [plan.graph.ops[index] for index in stage.ops]
    title = f"{ops[0].name} to {ops[-1].name}" if len(ops) > 1 else ops[0].name
    written = {op.outputs[0] for op in ops}
    read = [name for op in ops for name in op.inputs if name is not None and name in plan.places]
    names = dict.fromkeys(name for name in read if name not in written)
    sources = " + ".join(shape_text(graph.tensors[name].shape) for name in names)
    how = "patch by patch" if any(not tile.cached for tile in stage.tiles or ()) else "row by row"
    return f"{title}, {how}: {sources} -> {shape_text(graph.output(ops[-1]).shape)}"


def ring_note(plan: Plan, stage: Stage, index: int) -> str:
    """Return the end of a layer's comment: the line buffer or tile that its output is kept in; "" if it is a whole map."""
    schedule, name = schedule_of(stage), plan.graph.ops[index].outputs[0]
    if name in schedule.tiles:
        return ", into a tile of " + " x ".join(map(str, schedule.tiles[name])) + " pixels"
    rows, end = schedule.line_buffers.get(name), ", streamed out" if name in plan.streamed_outputs else ""
    return "" if rows is None else f", into a line buffer of {rows} row{'s' if rows > 1 else ''}{end}"


def _view(plan: Plan, schedule: RowSchedule, name: str, at: str, label: str) -> list[str]:
    """Return the lines that define the C variable `label`, the view (tw_view) of map `name`, which is at address `at`."""
    tensor = plan.graph.tensors[name]
    rows = schedule.line_buffers.get(name, tensor.shape[1] if len(tensor.shape) == 4 else 1)
    written = (node if isinstance(node, str) else plan.graph.ops[node].outputs[0] for node in schedule.timings)
    const = "" if name in written else "const "
    members = _members(at, tensor.bytes if len(tensor.shape) != 4 else row_bytes(tensor), rows)
    return c.struct(f"{const}tw_view", label, [members]).splitlines()


def _members(at: str, row_stride: int, rows: int) -> dict[str, object]:
    """Return the members of a view (tw_view) that begins with row 0 and column 0."""
    return {"data": at, "row_stride": row_stride, "ring_height": rows, "first_row": 0, "first_col": 0}
