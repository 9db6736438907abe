"""The smallest violations of the rules of fused stages: one row, column or tick, one byte of a line buffer, tile or scratch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from planning.violations import Violation, activations, alone, buffer_of, fused, in_own_buffer, kept_bytes, pair, pairs

from tinyweave.kernels.table import BY_NAME
from tinyweave.ops import SPECS
from tinyweave.planning import Plan, scratch_name
from tinyweave.planning.plan import Node


def staged(plan: Plan, step: int, **changes: object) -> Plan:
    """Return the plan with another row schedule at a step."""
    stage = plan.stages[step]
    assert stage.schedule is not None
    stages = (*plan.stages[:step], replace(stage, schedule=replace(stage.schedule, **changes)), *plan.stages[step + 1 :])
    return replace(plan, stages=stages)


def with_timing(plan: Plan, step: int, node: Node, **values: int) -> Plan:
    """Return the plan with another timing of a node of a stage."""
    schedule = plan.stages[step].schedule
    assert schedule is not None
    return staged(plan, step, timings={**schedule.timings, node: schedule.timings[node]._replace(**values)})


def rows_dropped_before_they_are_read(plan: Plan) -> Iterator[Violation]:
    """Yield plans with line buffers or tiles of one row or column less.

    Line buffers of stages with tiles of several rows are left out, because they may have spare rows.
    """
    for step, stage, schedule in fused(plan):
        for name, rows in schedule.line_buffers.items():
            if rows == 1 or all(tile.rows == 1 for tile in stage.tiles or ()):
                shorter = staged(plan, step, line_buffers={**schedule.line_buffers, name: rows - 1})
                says = (
                    "keeps 0 rows"
                    if rows == 1
                    else "(which is not intact|has no room for the rows|is streamed out from|is written over)"
                )
                yield Violation("a ring of one row less", shorter, says)
        for name, (rows, cols) in schedule.tiles.items():
            for size in ((rows - 1, cols), (rows, cols - 1)):
                if rows and cols:
                    says = re.escape(f"the tile of '{name}' has no room for")
                    yield Violation(
                        "a tile of one row or column less", staged(plan, step, tiles={**schedule.tiles, name: size}), says
                    )


def rows_computed_twice_or_not_at_all(plan: Plan) -> Iterator[Violation]:
    for step, stage, schedule in fused(plan):
        for node, timing in schedule.timings.items():
            changed = partial(with_timing, plan, step, node)
            name = node if isinstance(node, str) else plan.graph.ops[node].outputs[0]
            sums = isinstance(node, int) and BY_NAME[plan.variants[node]].sums(plan.graph, plan.graph.ops[node])
            height = plan.graph.tensors[name].shape[1] if len(plan.graph.tensors[name].shape) == 4 else 1
            if timing.rows == height and not sums:
                says = f"row {height} of '{name}' is computed"
                yield Violation("a row more than the map has", changed(rows=timing.rows + 1), re.escape(says))
            if node == stage.ops[-1]:
                says = "(leaves '.*' incomplete|rows of '.*' are streamed out|impossible timing)"
                yield Violation("a row less than the map has", changed(rows=timing.rows - 1), says)
            says = re.escape(f"the node {node} ")
            yield Violation("an iteration of a row more", changed(rows_per_iteration=timing.rows_per_iteration + 1), says)
            if timing.first == 0:
                yield Violation("a node one tick before the stage", changed(first=-1), says)


def rows_computed_too_early_or_late(plan: Plan) -> Iterator[Violation]:
    """Yield plans in which a node starts one tick before its input rows are ready, or one tick after its reader needs it."""
    for step, stage, schedule in fused(plan):
        for node, timing in schedule.timings.items():
            name = node if isinstance(node, str) else plan.graph.ops[node].outputs[0]
            if timing.first:
                early = with_timing(plan, step, node, first=timing.first - 1)
                yield Violation("a node one tick too early", early, "not intact")
            if any(name in plan.graph.ops[index].inputs for index in stage.ops):
                late = with_timing(plan, step, node, first=timing.first + 1)
                yield Violation("a node one tick too late", late, "not intact")


def overlapping_buffers_of_a_stage(plan: Plan) -> Iterator[Violation]:
    """Yield plans in which scratch shares a byte with the written row, or sums share one with the summed row or the output."""
    graph = plan.graph
    for _, stage, schedule in fused(plan):
        for index in stage.ops:
            op, row = graph.ops[index], BY_NAME[plan.variants[index]]
            out, inside = op.outputs[0], any(index in tile.ops for tile in stage.tiles or ())
            first = graph.ops[stage.ops[0]] if row.scratch(graph, op) else op
            size = row.scratch(graph, op) or row.sums(graph, op)
            area = buffer_of(plan, scratch_name(first.name))
            if not size or area is None or area.bytes != size:
                continue
            for name in (out, *dict.fromkeys(activations(plan, op))):
                kept = kept_bytes(plan, schedule, name)
                if (
                    not kept
                    or plan.graph.tensors[name].role == "state"
                    or not (name in schedule.line_buffers or name in schedule.tiles or alone(plan, name))
                ):
                    continue
                own = in_own_buffer(plan, name, kept)
                says = "(overlaps its|overlap its|over its sums|are overwritten|is not intact|are not intact|incomplete)"
                for each in pairs(own, area.name, f"{name}.own"):
                    what = "tile" if inside else "row"
                    yield Violation(
                        f"scratch over an edge of a {what} that its op reads or writes", each.touching, says, (each.apart,)
                    )


def overlapping_tiles_of_a_stage(plan: Plan) -> Iterator[Violation]:
    """Yield plans in which the output of an op in a tile shares a byte with the tile of its input."""
    graph = plan.graph
    for _, stage, schedule in fused(plan):
        for tile in stage.tiles or ():
            for index in tile.ops:
                op = graph.ops[index]
                out = op.outputs[0]
                for name in (x for x in dict.fromkeys(activations(plan, op)) if x in schedule.tiles):
                    sizes = kept_bytes(plan, schedule, name), kept_bytes(plan, schedule, out)
                    if 0 in sizes or not (out in schedule.tiles or out in schedule.line_buffers or alone(plan, out)):
                        continue
                    own = in_own_buffer(in_own_buffer(plan, name, sizes[0]), out, sizes[1])
                    says = f"(writes over the tile of '{re.escape(name)}', which it reads|that are not intact|incomplete)"
                    for each in pairs(own, f"{name}.own", f"{out}.own"):
                        yield Violation("a tile over the tile that its op reads", each.touching, says, (each.apart,))


def stages_that_overwrite_their_input(plan: Plan) -> Iterator[Violation]:
    """Yield plans in which the first computed row of an op shares a byte with the last row of a whole map that it reads."""
    graph = plan.graph
    for _, stage, schedule in fused(plan):
        made = {*(graph.ops[i].outputs[0] for i in stage.ops), *schedule.timings}
        for index in stage.ops:
            op = graph.ops[index]
            out, windows = op.outputs[0], SPECS[op.kind].windows(graph, op)
            ends = windows is not None and all(window.stride == 1 and window.up == 1 for window in windows)
            for name in (x for x in dict.fromkeys(activations(plan, op)) if x not in made and alone(plan, x) and ends):
                if graph.tensors[name].shape[1:3] != graph.tensors[out].shape[1:3] or graph.tensors[out].shape[1] < 3:
                    continue
                kept = kept_bytes(plan, schedule, out)
                if not kept or not (out in schedule.tiles or out in schedule.line_buffers or alone(plan, out)):
                    continue
                own = in_own_buffer(plan, out, kept)
                each = pair(own, plan.places[name].buffer, f"{out}.own")
                yield Violation(
                    "a computed row over a whole map's last row",
                    each.touching,
                    "(which is not intact|which it reads)",
                    (each.apart,),
                )


ROW_RULES: tuple[Callable[[Plan], Iterator[Violation]], ...] = (
    rows_dropped_before_they_are_read,
    rows_computed_twice_or_not_at_all,
    rows_computed_too_early_or_late,
    overlapping_buffers_of_a_stage,
    overlapping_tiles_of_a_stage,
    stages_that_overwrite_their_input,
)
