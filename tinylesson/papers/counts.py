"""RAM and MACs of a network by a paper's counting rule, for a plan and for the solutions that the paper's method finds.

In: a Plan and the network's chain. Out: a table with a Row for the plan and for each of the paper's solutions, with MACs as the
paper counts them, and as executed. A plan's own figures include buffers that the papers do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tinynas.published import patches as patch_paper
from tinynas.published.patches import macs
from tinyweave.ir import CompileError
from tinyweave.planning import Plan
from tinyweave.planning.fuse.row_schedule import plan_macs

from . import fusion as fusion_paper
from .chain import Chain, plan_bytes, scratch_names


class Row(NamedTuple):
    """RAM and MACs of one way to run a network: a plan, or a solution of a paper."""

    ram: int  # bytes by the paper's rule
    overhead: float | None  # MACs by the paper's rule, divided by the MACs of the chain; None for a plan
    exact: float  # executed MACs divided by the MACs of the chain; for a plan, of the whole network
    how: str  # description for the report, such as "3 blocks of 9 layers"


class Counted(NamedTuple):
    """A plan and the solutions of a paper, all measured by the paper's counting rule.

    Keys of `rows` are `plan`, `layer_by_layer`, `least_ram` (within the plan's limit on recomputation), `least_ram_any_work`
    (without it), and, with a RAM limit, `least_work` (fewest MACs). A row is None if no solution exists.
    """

    name: str  # of the counting rule, a key of COUNTS
    left_out: tuple[str, ...]  # ops that are not in the chain
    rows: dict[str, Row | None]


def counted(name: str, plan: Plan, chain: Chain, *, work: int, overhead: float, ram: int | None) -> Counted:
    """Measure a plan, and the paper's solutions for the same network, by a paper's counting rule.

    `name` is a key of COUNTS, `work` the MACs without recomputation. `overhead` limits the MACs of `least_ram`, as a factor on
    those of the chain; `ram`, in bytes, the RAM of `least_work`, left out for None. Raise CompileError for a map or kernel that
    is not square.
    """
    if not all(layer.is_square for layer in chain.layers):
        raise CompileError("the network's maps or windows are not square", "this count covers square ones only")
    own, ways = COUNTS[name](plan, chain, overhead, ram)
    exact = sum(plan_macs(plan)) / work if work else 1.0
    return Counted(name, chain.left_out, {"plan": Row(own, None, exact, "all layers"), **ways})


def by_fusion_paper(plan: Plan, chain: Chain, overhead: float, ram: int | None) -> tuple[int, dict[str, Row | None]]:
    """Measure a plan, and fused blocks of layers, by the rule of papers/fusion.py; limits are as for `counted`.

    Return the plan's RAM in bytes; and solution -> its Row, or None if no solution exists.
    """
    layers = chain.layers

    def row(cut: fusion_paper.FusionCut | None) -> Row | None:
        if cut is None:
            return None
        exact = fusion_paper.exact_macs(layers, cut) / macs(layers)
        return Row(cut.ram, cut.macs / macs(layers), exact, f"{len(cut.blocks)} blocks of {len(layers)} layers")

    return fusion_paper.plan_ram(plan), {
        "layer_by_layer": row(fusion_paper.unfused(layers)),
        "least_ram": row(fusion_paper.least_ram(layers, overhead)),
        "least_ram_any_work": row(fusion_paper.least_ram(layers)),
        **({} if ram is None else {"least_work": row(fusion_paper.least_macs(layers, ram))}),
    }


def by_patch_paper(plan: Plan, chain: Chain, overhead: float, ram: int | None) -> tuple[int, dict[str, Row | None]]:
    """Measure a plan, and patched first layers, by the rule of published/patches.py; limits are as for `counted`.

    Return the plan's RAM in bytes; and solution -> its Row, or None if no solution exists.
    """
    layers = chain.layers
    runs = patch_paper.all_patched(layers)
    whole = runs[0]

    def row(run: patch_paper.Patched | None) -> Row | None:
        if run is None:
            return None
        exact = patch_paper.patched_macs(layers, run.patched, run.patch, clipped=True) / whole.macs
        how = f"{run.patched} of {len(layers)} layers in patches of {run.patch} x {run.patch}" if run.patched else "no patches"
        return Row(run.ram, run.macs / whole.macs, exact, how)

    fits = [run for run in runs if ram is not None and run.ram <= ram]
    return plan_bytes(plan, scratch_names(plan)), {
        "layer_by_layer": row(whole),
        "least_ram": row(min((r for r in runs if r.macs <= overhead * whole.macs), key=lambda run: (run.ram, run.macs))),
        "least_ram_any_work": row(min(runs, key=lambda run: (run.ram, run.macs))),
        **({} if ram is None else {"least_work": row(min(fits, key=lambda run: (run.macs, run.ram), default=None))}),
    }


Count = Callable[[Plan, Chain, float, "int | None"], "tuple[int, dict[str, Row | None]]"]
COUNTS: dict[str, Count] = {"fusion_paper": by_fusion_paper, "patch_paper": by_patch_paper}
