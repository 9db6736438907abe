"""Which kernels run, and whether op by op, by rows or in tiles: little memory at little more than the fewest cycles.

In: a graph, a core, how to make a plan with given kernels, and what it may need. Out: one of the plans. Fast kernels need
scratch, and stages call them for less at a time: either is a trade of bytes for cycles. The cycles are estimates from shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from ...ir import Graph
from ...kernels.layer_cycles import layer_cycles
from ...kernels.table import BY_NAME, cost_model_core
from ..fuse.stages import NEVER
from ..kernel_choice import Kernels
from ..plan import Plan
from .cycles import cycles_to_compare, kernel_calls
from .flash_budget import one_by_one, within_flash, worth_flash

Granularity = Literal["least", "once", "broad", "rows", "ops"]
"""What needs least memory; the same with no work done again; of such plans those whose tiles have several columns, which cost
fewer calls; those in stages of whole rows; op by op."""
GRANULARITIES: tuple[Granularity, ...] = ("least", "once", "broad", "rows", "ops")
Progress = Callable[[str, int, int], None]
"""Called while planning: what, how many of it are done, of how many in all; 0 where that is not known."""


class How(Protocol):
    """Makes the plan of a form with these kernels, if there is one that may need less than `below` bytes."""

    def __call__(self, kernels: Kernels, granularity: Granularity = "least", below: int = ...) -> Plan | None: ...


class _Tried(NamedTuple):
    bytes: int
    cycles: float
    plan: Plan

    @property
    def cost(self) -> float:
        """Return bytes x cycles: a tenth of the bytes is worth a tenth of the cycles."""
        return self.bytes * self.cycles


def pick(
    graph: Graph,
    core: str,
    how: How,
    granularities: Sequence[Granularity],
    *,
    ram_limit: int,
    flash: int,
    max_slowdown: float,
    progress: Progress | None = None,
) -> Plan | None:
    """Return the plan with the lowest bytes x cycles among those within `ram_limit` bytes and `max_slowdown` times the fastest
    plan's cycles, with kernels for `core`; where none needs so little, the smallest that was found.

    Where the fast kernels of a step need too much, or much for little, those for all cores take their place, the ones with most
    scratch first; likewise where their constants are more than `flash` bytes, while those that need more of these get what is
    left. None where `how` makes no plan. `progress` is told of each plan before it is made.
    """
    model_core, base = cost_model_core(core), within_flash(graph, core, flash)
    names = one_by_one(graph, base)
    whole = [(index, None, 1) for index, name in enumerate(names) if name]
    names = one_by_one(graph, base._replace(flash_heavy=worth_flash(graph, names, whole, core, flash)))
    fewest = sum(layer_cycles(graph, op, name, model_core) or 0 for op, name in zip(graph.ops, names, strict=True))
    tried: list[_Tried] = []

    def near(fewest: float) -> list[_Tried]:
        return [one for one in tried if one.bytes <= ram_limit and one.cycles <= max_slowdown * fewest]

    def planned(kernels: Kernels, granularity: Granularity, below: int = NEVER) -> _Tried | None:
        if progress:
            progress("plans compared", len(tried), 0)
        plan = how(kernels, granularity, below)
        return None if plan is None else _Tried(sum(plan.arena.values()), cycles_to_compare(plan, model_core), plan)

    for granularity in granularities:
        below = min((one.cost / fewest for one in near(fewest) if fewest), default=ram_limit + 1)
        starts = [base]
        for kernels in starts:
            while (now := planned(kernels, granularity, min(ram_limit + 1, math.ceil(below)))) is not None:
                tried.append(now)
                if len(tried) == 1 and now.bytes > ram_limit:
                    portable = planned(base._replace(portable_ops=frozenset(op.name for op in graph.ops)), granularity)
                    if portable is not None and portable.bytes > ram_limit:  # then nothing fits: what needs least is wanted
                        tried.append(portable)
                        ram_limit, granularities = portable.bytes, (granularity,)
                if kernels is base:
                    more = worth_flash(now.plan.graph, now.plan.variants, kernel_calls(now.plan), core, flash)
                    starts += [base._replace(flash_heavy=more)] if more else []
                dearest, scratch = _dearest(now.plan, ram_limit)
                kernels = kernels._replace(portable_ops=kernels.portable_ops | dearest)
                if not dearest:
                    break
                if now.bytes <= ram_limit:
                    slower = cycles_to_compare(now.plan, model_core, dearest)
                    least_cost = min((one.cost for one in near(fewest)), default=math.inf)
                    if slower > max_slowdown * fewest or (now.bytes - scratch) * slower >= least_cost:
                        break
        if len(granularities) == 1:  # also where nothing fits: the other granularities need no less
            break
    if not tried:
        return None
    fitting = [one for one in tried if one.bytes <= ram_limit]
    if not fitting:
        return min(tried, key=lambda one: one.bytes).plan
    comparable = near(fewest) or near(min(one.cycles for one in fitting))
    return min(comparable, key=lambda one: (one.cost, one.bytes)).plan


def _dearest(plan: Plan, ram_limit: int) -> tuple[frozenset[str], int]:
    """Return the names of the ops with most scratch in each of the busiest steps, and of those that need more than `ram_limit`
    bytes; and the bytes of the largest."""
    own = [[index for index in stage.ops if _is_of_core(plan, index)] for stage in plan.stages]
    live = [plan.live(step) if ops else 0 for step, ops in enumerate(own)]
    largest = max(live, default=0)
    over = [ops for ops, bytes_ in zip(own, live, strict=True) if ops and bytes_ > min(ram_limit, largest - 1)]
    scratch = {index: BY_NAME[plan.variants[index]].scratch(plan.graph, plan.graph.ops[index]) for ops in over for index in ops}
    dearest = [index for ops in over for index in ops if scratch[index] == max(scratch[other] for other in ops)]
    return frozenset(plan.graph.ops[index].name for index in dearest), max(scratch.values(), default=0)


def _is_of_core(plan: Plan, index: int) -> bool:
    """Whether the kernel of an op is not for all cores."""
    return bool(plan.variants[index] and BY_NAME[plan.variants[index]].cores)
