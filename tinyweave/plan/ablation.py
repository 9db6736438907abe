"""What each technique of the planner saves. In: a Graph. Out: the arena with none of them, then with one more at a time.

The row of a technique is the least arena of the file's order and of the order that then needs least, or the row before it
when that is smaller: a planner would not use what does not help. The last row is what the planner itself did.
"""

from __future__ import annotations

from functools import partial

from ..ir import Graph
from . import plan, plan_in_order
from .order import best_order, each_its_own, file_order
from .overlap import ANY_LAG, lags, saved_bytes, views
from .plan import Plan


def ablation(graph: Graph, best: Plan | None = None, memory: str = "sram") -> dict[str, int]:
    """Technique -> bytes of the arena with it and all before it; the last is that of `best`, the plan of schedule best."""
    best = best or plan(graph, "best", memory)
    arenas = {"file order": plan_in_order(graph, file_order(graph), memory, share=False).arena[memory]}
    for name, share, most_lag in (
        ("best order", False, -1),
        ("+ views", True, -1),
        ("+ in-place", True, 0),
        ("+ overlap", True, ANY_LAG),
    ):
        made = _least(graph, memory, share=share, most_lag=most_lag)
        arenas[name] = min(made, *arenas.values())
    arenas["+ moves"] = min(plan(graph, "unfused", memory).arena[memory], *arenas.values())
    arenas["+ fusion"] = sum(best.arena.values())
    return arenas


def _least(graph: Graph, memory: str, *, share: bool, most_lag: int) -> int:
    """The arena in the better one of two orders."""
    as_filed = plan_in_order(graph, file_order(graph), memory, overlap=most_lag >= 0, most_lag=most_lag, share=share)
    owner = views(graph) if share else each_its_own(graph)
    lag = lags(graph, as_filed.variants, owner, most_lag)
    order = best_order(graph, owner, saved=partial(saved_bytes, graph, owner, lag)).ops
    if order == file_order(graph):
        return as_filed.arena[memory]
    made = plan_in_order(graph, order, memory, overlap=most_lag >= 0, most_lag=most_lag, share=share)
    return min(as_filed.arena[memory], made.arena[memory])
