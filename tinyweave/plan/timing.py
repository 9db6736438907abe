"""The calls of kernels that a plan makes, and the cycles that it takes by that.

In: a Plan. Out: per op how often its kernel is called for parts of so many rows and columns; cycles, estimated, on a core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from ..kernels.layer_cycles import Part, layer_cycles
from ..kernels.table import variant_for
from .plan import Plan, RowSchedule, Stage
from .rows import Spans, parts
from .streaming import rows_of

Call = tuple[int, Part, int]
"""An op, the part of its output that one call computes, and how many calls compute such a one."""


def plan_cycles(plan: Plan, core: str) -> int | None:
    """Of one inference, by the shapes that kernels work on. None where a kernel of it has no constants."""
    found = list(_per_part(plan, core))
    return None if None in found else round(sum(filter(None, found)))


def cycles_to_compare(plan: Plan, core: str, slow: Collection[str] = ()) -> float:
    """The same to choose between plans of one graph, without the kernels that have no constants. slow: names of ops that are to
    have the kernels for all cores."""
    return sum(filter(None, _per_part(plan, core, slow)))


def _per_part(plan: Plan, core: str, slow: Collection[str] = ()) -> Iterator[float | None]:
    for index, part, count in kernel_calls(plan):
        op, variant = plan.graph.ops[index], plan.variants[index]
        once = layer_cycles(plan.graph, op, variant_for(plan.graph, op).name if op.name in slow else variant, core, part)
        yield None if once is None else count * once


def kernel_calls(plan: Plan) -> Iterator[Call]:
    """Those of each op; all rows that it sums up as they come are one."""
    for stage in plan.stages:
        if stage.schedule is None:
            yield from ((index, None, 1) for index in stage.ops)
        else:
            yield from _in_stage(plan, stage, stage.schedule)


def _in_stage(plan: Plan, stage: Stage, schedule: RowSchedule) -> Iterator[Call]:
    net, paces = rows_of(plan), schedule.paces
    tiles = {index: tile for tile in stage.tiles or () for index in tile.ops}
    for index in stage.ops:
        tile = tiles.get(index)
        if net.sums[index]:
            yield index, None, 1
        elif tile is None:
            pace, cols = paces[index], plan.graph.output(plan.graph.ops[index]).shape[2]
            yield index, (1, cols), pace.rows
        else:
            down, across = parts(net, tile, 0, paces[tile.ops[-1]].rows)[0], parts(net, tile, 1)[0]
            for height, turns in _lengths(down[index]):
                yield from ((index, (height, width), turns * blocks) for width, blocks in _lengths(across[index]))


def _lengths(spans: Spans) -> list[tuple[int, int]]:
    """Lengths of spans that are not empty, and how many are so long."""
    begin, end = spans
    return sorted(Counter((end - begin)[end > begin].tolist()).items())
