"""Which kernels may keep more constants in Flash than others of their kind.

In: a graph, a core, bytes of Flash for constants. Out: kernels. Of those that fit the choice is the one with most cycles saved
per byte; the cycles are estimates from shapes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ...ir import Graph, Op
from ...kernels.layer_cycles import Extent, cost_model_core, layer_cycles
from ...kernels.table import BY_NAME, code_bytes, variant_for
from ..alias.overlap import shared_in
from ..kernel_choice import Kernels, variants_in
from ..order.search import file_order
from ..plan import Plan
from .cycles import Call

LAYER_BYTES = 100  # of code that calls a layer's kernel, and of its parameters
# what the code and parameters of real networks need at least and at most, see bench/code_size.py: per byte of its kernels'
# files, of which a linker keeps what is called, by whether the kernels are a core's own (files with many functions)
KEPT, OWN_KEPT = (0.8, 1.6), (0.45, 1.1)
PER_LAYER, PER_FUSED = (80, 120), (50, 220)  # bytes; for a layer in a fused stage more
SOFT_FLOATS = 6_000  # bytes of the compiler's library, on cores without floats in hardware
HARD_FLOATS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85", "xtensa-lx6", "xtensa-lx7")


def constant_bytes(graph: Graph, variants: Sequence[str]) -> int:
    """Return bytes that these kernels of the ops keep in Flash."""
    return sum(BY_NAME[name].flash(graph, op) for op, name in zip(graph.ops, variants, strict=True) if name)


def for_constants(graph: Graph, core: str, flash: int, other: int | None) -> int:
    """Return bytes of `flash` that the constants of kernels for `core` may fill; other: what else lies there, if that was
    measured.

    The estimate takes all code of all kernels that the ops may get, of which a linker leaves out much. So no kernel is given up
    for its sake.
    """
    if other is not None:
        return flash - other
    names = {variant_for(graph, op, core, flash_heavy=flash_heavy).name for op in graph.ops for flash_heavy in (False, True)}
    left = flash - code_bytes(names) - LAYER_BYTES * len(graph.ops)
    return max(left, constant_bytes(graph, one_by_one(graph, Kernels(core))))


def code_to_add(plan: Plan, core: str) -> int:
    """Return bytes of the code of kernels that keep more constants, those that ops could have and none of them has;
    estimated."""
    names = {
        variant.name for op in plan.graph.ops if (variant := variant_for(plan.graph, op, core, flash_heavy=True)).flash_heavy
    }
    return code_bytes({*plan.variants, *names} - {""}) - code_bytes({*plan.variants} - {""})


def code_range(plan: Plan, core: str) -> tuple[int, int]:
    """Return the fewest and the most bytes of code and parameters that a plan is estimated to need on `core`.

    The constants of its layers are not among them, nor what else the firmware does.
    """
    variants = [BY_NAME[name] for name in plan.variants if name]
    fused = sum(len(stage.ops) for stage in plan.stages if stage.tiles is not None)
    floats = any("float32" in variant.types or variant.computes_in_float for variant in variants)
    low_share = (OWN_KEPT if any(variant.cores for variant in variants) else KEPT)[0]
    kernels = code_bytes({variant.name for variant in variants})
    portable = code_bytes({variant.name for variant in variants if not variant.cores})
    shares = low_share * kernels, KEPT[1] * portable + OWN_KEPT[1] * (kernels - portable)
    low, high = (
        round(share) + layer * len(variants) + more * fused
        for share, layer, more in zip(shares, PER_LAYER, PER_FUSED, strict=True)
    )
    return low, high + (SOFT_FLOATS if floats and core not in HARD_FLOATS else 0)


def trades_flash(graph: Graph, core: str) -> bool:
    """Whether some op can have a kernel that keeps more constants than others do."""
    return any(variant_for(graph, op, core, flash_heavy=True).flash_heavy for op in graph.ops)


def one_by_one(graph: Graph, kernels: Kernels) -> tuple[str, ...]:
    """Return the kernel's name per op where each runs by itself."""
    return variants_in(graph, shared_in(graph, file_order(graph), parts=True), kernels)


def kernels_within_flash(graph: Graph, wanted: Kernels, flash: int) -> list[Kernels]:
    """Return the kernels of a core whose constants fit into so many bytes, and after them, where there are such, those with
    which some ops keep more constants, and those with which some need no scratch."""
    kernels = within_flash(graph, wanted, flash)
    names = one_by_one(graph, kernels)
    heavy = worth_flash(graph, names, [(index, None, 1) for index, name in enumerate(names) if name], kernels, flash)
    found = [kernels, kernels._replace(flash_heavy=heavy)] if heavy else [kernels]
    lean = lean_within_flash(graph, kernels, flash)
    return [*found, kernels._replace(lean=lean)] if lean else found


def lean_within_flash(graph: Graph, kernels: Kernels, flash: int) -> frozenset[str]:
    """Return the names of ops that can do without scratch; none where `flash` has not room for all constants that any op may
    keep and for the code of these kernels, so that more Flash never takes another kernel away."""
    names, most, lean = one_by_one(graph, kernels), 0, dict[str, str]()
    for op, name in zip(graph.ops, names, strict=True):
        if not name:
            continue
        heavy, other = (variant_for(graph, op, kernels.core, **{which: True}) for which in ("flash_heavy", "lean"))
        most += max(row.flash(graph, op) for row in (BY_NAME[name], heavy, other))
        can = other.lean and op.name not in kernels.portable_ops and BY_NAME[name].scratch(graph, op) > 0
        if can and layer_cycles(graph, op, other.name, cost_model_core(kernels.core)) is not None:
            lean[op.name] = other.name
    most += code_bytes({*names, *lean.values()} - {""}) - code_bytes({*names} - {""})
    return frozenset(lean if most <= flash else ())


def within_flash(graph: Graph, kernels: Kernels, flash: int) -> Kernels:
    """Return these kernels of a core, but where their constants are too many: there those for all cores, where that costs
    least."""
    variants = one_by_one(graph, kernels)
    over = constant_bytes(graph, variants) - flash
    if over <= 0:
        return kernels
    rates, portable_ops = list[tuple[float, int, str]](), set[str]()
    for op, name, other in zip(graph.ops, variants, one_by_one(graph, Kernels()), strict=True):
        saved = BY_NAME[name].flash(graph, op) - BY_NAME[other].flash(graph, op) if name else 0
        if saved > 0:
            rates.append((_gain(graph, op, (other, name), kernels) / saved, saved, op.name))
    for _, saved, name in sorted(rates):
        if over > 0:
            portable_ops.add(name)
            over -= saved
    return kernels._replace(portable_ops=frozenset(portable_ops))


def worth_flash(graph: Graph, variants: Sequence[str], calls: Iterable[Call], kernels: Kernels, flash: int) -> frozenset[str]:
    """Return the names of the ops that get kernels with more constants, of which there may be `flash` bytes, instead of these,
    which make these calls."""
    spare = flash - constant_bytes(graph, variants)
    others: dict[int, str] = {}
    for index, (op, name) in enumerate(zip(graph.ops, variants, strict=True)):
        other = variant_for(graph, op, kernels.core, flash_heavy=True) if name and BY_NAME[name].cores else None
        if other is not None and other.flash_heavy and other.name != name:
            others[index] = other.name
    gains: dict[int, float] = defaultdict(float)
    for index, part, count in calls:
        if index in others:
            gains[index] += count * _gain(graph, graph.ops[index], (variants[index], others[index]), kernels, part)
    rates, chosen = list[tuple[float, int, str]](), set[str]()
    for index, gain in gains.items():
        op = graph.ops[index]
        more = BY_NAME[others[index]].flash(graph, op) - BY_NAME[variants[index]].flash(graph, op)
        rates.append((gain / more, more, op.name))
    for rate, more, name in sorted(rates, reverse=True):
        if rate > 0 and more <= spare:
            chosen.add(name)
            spare -= more
    return frozenset(chosen)


def _gain(graph: Graph, op: Op, names: tuple[str, str], kernels: Kernels, part: Extent = None) -> float:
    """Return cycles that the second of two kernels saves; 0 where those of one are not known."""
    core = cost_model_core(kernels.core)
    slow, fast = (layer_cycles(graph, op, name, core, part, reads=kernels.reads) for name in names)
    return 0.0 if slow is None or fast is None else slow - fast
