"""Kernel sets: which kernels ops may use if Flash is limited, and how much Flash a plan needs.

In: a graph, a core. Out: kernel sets, from the set with the fewest constants to all kernels; bytes of Flash. The sets do not
depend on the Flash limit, so that a larger limit never gives a worse plan. Cycles are estimates from shapes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...ir import Graph, Op
from ...kernels.layer_cycles import FlashReads, cost_model_core, layer_cycles
from ...kernels.table import BY_NAME, code_bytes, kernels_for, variant_for
from ..alias.overlap import shared_in
from ..alias.subtensors import Aliases
from ..kernel_choice import PORTABLE, KernelRule, variants_in
from ..order.order_search import file_order
from ..plan import Plan

PRICES = tuple(2.0**power for power in range(20, -4, -1))  # of a byte of Flash, in cycles
LAYER_BYTES = 100  # code that calls a layer's kernel, and its parameters
# lowest and highest share of its kernels' code files that a linker keeps in real networks (bench/code_size.py): of portable
# kernels, and of a core's own kernels, whose files have many functions
KEPT, OWN_KEPT = (0.8, 1.6), (0.45, 1.1)
PER_LAYER, PER_FUSED = (80, 120), (50, 220)  # lowest and highest bytes per layer, and more per layer of a fused stage
# the same for a likely size, fitted to 17 image networks on a Cortex-M4 with an error of at most 3 kB
LIKELY_KEPT, LIKELY_OF_SETS, LIKELY_PER_LAYER, LIKELY_PER_FUSED = 0.73, 0.26, 138, 399
SOFT_FLOATS = 6_000  # bytes of the compiler's library on cores without hardware floats
HARD_FLOATS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85", "xtensa-lx6", "xtensa-lx7")

# cache: graph -> tensors that share memory if no stage is fused, and kernel rule -> the name of each op's kernel
_KNOWN: WeakKeyDictionary[Graph, tuple[Aliases, dict[KernelRule, tuple[str, ...]]]] = WeakKeyDictionary()


def constant_bytes(graph: Graph, variants: Sequence[str]) -> int:
    """Return the bytes of Flash constants that the ops' kernels need; constants that several ops have in common count once.

    `variants` is the name of each op's kernel, "" for ops without code.
    """
    return sum(dict(_constants(graph, op, name) for op, name in zip(graph.ops, variants, strict=True) if name).values())


def _constants(graph: Graph, op: Op, name: str) -> tuple[tuple[Hashable, ...], int]:
    """Return (key, bytes) of the constants that an op's kernel keeps in Flash; ops with equal keys share one copy."""
    return _constants_key(graph, op, name), BY_NAME[name].flash(graph, op)


def _constants_key(graph: Graph, op: Op, name: str) -> tuple[Hashable, ...]:
    """Return a key that is equal for two ops only if their kernels keep the same constants."""
    operands = [tensor for tensor in (*graph.inputs_of(op), *map(graph.tensors.__getitem__, op.outputs)) if tensor is not None]
    if all(tensor.data is None for tensor in operands):
        return (op.name,)
    window = op.attrs.get("stride"), op.attrs.get("dilation")
    return (name, window, *(tensor.quant if tensor.data is None else id(tensor.data) for tensor in operands))


class OtherFlash(NamedTuple):
    """A measurement of a linked program: its bytes of Flash besides the constants of kernels, and what its code is of.

    `kernels` are those linked into it, `fused` is the number of its layers in fused stages. If `kernels` is None, the code of
    each plan takes as many bytes.
    """

    bytes: int
    kernels: frozenset[str] | None = None
    fused: int = 0


def flash_bytes(graph: Graph, variants: Sequence[str], measured: Sequence[OtherFlash], fused: int = 0) -> int:
    """Return the bytes of Flash of a plan with these kernels: its constants, and all other bytes as measured or estimated.

    `fused` is the number of layers in fused stages. Of `measured`, the program that shares most code with the plan counts, with
    an estimate of the code that differs. Without measurements the estimate counts whole code files, of which a linker drops
    much. So it is 0 unless some kernel keeps many more constants than usual (`flash_heavy`): no other kernel is rejected
    because of an estimate.
    """
    constants, names = constant_bytes(graph, variants), frozenset(variants) - {""}
    if not measured:
        is_heavy = any(BY_NAME[name].flash_heavy for name in names)
        return constants + (code_bytes(names) + LAYER_BYTES * len(graph.ops) if is_heavy else 0)

    def difference(other: OtherFlash) -> tuple[float, float]:
        linked, layers = names if other.kernels is None else other.kernels, fused if other.kernels is None else other.fused
        more = _kernel_code(names) - _kernel_code(linked) + LIKELY_PER_FUSED * (fused - layers)
        return _kernel_code(names ^ linked) + LIKELY_PER_FUSED * abs(fused - layers), other.bytes + more

    return constants + round(min(map(difference, measured))[1])


def fused_layers(plan: Plan) -> int:
    """Return the number of layers in fused stages."""
    return sum(len(stage.ops) for stage in plan.stages if stage.tiles is not None)


def code_range(plan: Plan, core: str) -> tuple[int, int]:
    """Estimate the fewest and the most bytes of code and parameters of a plan on `core`, without constants."""
    variants = [BY_NAME[name] for name in plan.variants if name]
    fused = fused_layers(plan)
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


def likely_code(plan: Plan) -> int:
    """Estimate the bytes of code and parameters of a plan as one figure, to compare plans by."""
    return round(_unfused_code(plan.variants) + LIKELY_PER_FUSED * fused_layers(plan))


def _unfused_code(variants: Sequence[str]) -> float:
    """Estimate the bytes of code and parameters of a plan with these kernels and without fused stages."""
    return _kernel_code({*variants} - {""}) + LIKELY_PER_LAYER * len(variants)


def _kernel_code(names: Iterable[str]) -> float:
    """Estimate the bytes of code that a linker keeps of these kernels."""
    names = [*names]
    of_sets = code_bytes(names, of_sets=True)
    return LIKELY_KEPT * (code_bytes(names) - of_sets) + LIKELY_OF_SETS * of_sets


def trades_flash(graph: Graph, core: str) -> bool:
    """Return whether some op has a kernel that is faster than the usual one but keeps many more constants in Flash."""
    return any(variant_for(graph, op, core, "flash_heavy").flash_heavy for op in graph.ops)


def unfused_kernels(graph: Graph, kernels: KernelRule) -> tuple[str, ...]:
    """Return the name of each op's kernel if no stage is fused; "" for ops without code."""
    if graph not in _KNOWN:
        _KNOWN[graph] = shared_in(graph, file_order(graph), parts=True), {}
    shared, known = _KNOWN[graph]
    if kernels not in known:
        known[kernels] = variants_in(graph, shared, kernels)
    return known[kernels]


def kernel_sets(graph: Graph, core: str, reads: FlashReads | None = None) -> list[list[KernelRule]]:
    """Return the kernel sets of a core from which plans are made if Flash suffices, fastest last.

    A set is a list of rules, each of which gives each op one kernel: the op may use any of them. All have the portable kernels,
    the usual kernels of `core`, kernels with less scratch, and kernels that copy weights from slow Flash. Each set has kernels
    with many more constants for one more op than the set before, most cycles saved per byte of Flash first. Without a core
    there is only one set, of portable kernels. `reads` are the wait states of Flash, None for zero wait states.
    """
    if not core:
        return [[PORTABLE]]
    fast, model = KernelRule(core, reads=reads), cost_model_core(core)
    lean, copying, rates = dict[str, str](), dict[str, str](), list[tuple[float, int, str, str]]()
    for op, usual in zip(graph.ops, unfused_kernels(graph, fast), strict=True):
        if not usual:
            continue
        by_flag = {which: variant_for(graph, op, core, which) for which in ("lean", "copying", "flash_heavy")}
        rows = {which: row for which, row in by_flag.items() if getattr(row, which)}
        names = usual, *(row.name for row in rows.values())
        cycles = {name: layer_cycles(graph, op, name, model, reads=reads) for name in names}
        saved = {
            which: before - after
            for which, row in rows.items()
            if (before := cycles[usual]) is not None and (after := cycles[row.name]) is not None
        }
        if "lean" in rows and BY_NAME[usual].scratch(graph, op) and cycles[rows["lean"].name] is not None:
            lean[op.name] = rows["lean"].name
        if reads is not None and saved.get("copying", 0) > 0:
            copying[op.name] = rows["copying"].name
        if BY_NAME[usual].cores and saved.get("flash_heavy", 0) > 0:
            more = rows["flash_heavy"].flash(graph, op) - BY_NAME[usual].flash(graph, op)
            rates.append((saved["flash_heavy"] / more, more, op.name, rows["flash_heavy"].name))
    heavy = [each[2:] for each in sorted(rates, reverse=True)]
    rules = [fast._replace(named=frozenset(named.items())) for named in (lean, copying) if named]
    heavier = ([fast._replace(named=frozenset(heavy[:count]))] * bool(count) for count in range(len(heavy) + 1))
    return [[PORTABLE, fast, *each, *rules] for each in heavier]


def sets_with_less_flash(graph: Graph, usual: Sequence[KernelRule]) -> list[list[KernelRule]]:
    """Return kernel sets that need less Flash than `usual`, the first of `kernel_sets`; the smallest first.

    A byte of Flash gets a price in cycles. At each of PRICES, the kernels to link are those for which a local search finds the
    least sum of cycles and price x Flash, if each op runs its best kernel of them: it adds or drops one kernel at a time. A set
    has these best kernels, of which none is faster than those of `usual`. Sets that save no cycles over a smaller
    one are left out, and so are kernels that copy weights: they take RAM.
    """
    core, reads = usual[-1].core, usual[-1].reads
    of_ops = zip(*(unfused_kernels(graph, rule) for rule in usual), strict=True)
    rivals = {op: names for op, names in zip(graph.ops, of_ops, strict=True) if any(names)}
    ops = list(rivals)
    menus = [[row for row in kernels_for(graph, op, core) if not (row.flash_heavy or row.copying)] for op in ops]
    names = list(dict.fromkeys(row.name for menu in menus for row in menu))
    column = {name: number for number, name in enumerate(names)}
    cycles, constants = (np.full((len(ops), len(names)), np.inf) for _ in range(2))
    model = cost_model_core(core)
    for number, (op, menu) in enumerate(zip(ops, menus, strict=True)):
        known = {row.name: layer_cycles(graph, op, row.name, model, reads=reads) for row in menu}
        fewest = min((took for name in rivals[op] if (took := known.get(name)) is not None), default=0.0)
        last = 0.0
        for row in menu:
            took = known[row.name]
            last = last if took is None else took
            if took is None or took >= fewest:  # else less Flash would give a faster plan
                cycles[number, column[row.name]], constants[number, column[row.name]] = last, row.flash(graph, op)

    @cache
    def code(linked: frozenset[int]) -> float:
        return _kernel_code([names[number] for number in linked])

    found, linked = dict[tuple[int, ...], tuple[float, float]](), frozenset(column.values())
    for price in PRICES:
        costs = cycles + price * constants

        def total(linked: frozenset[int], costs: np.ndarray = costs, price: float = price) -> float:
            return float(costs[:, [*linked]].min(axis=1, initial=np.inf).sum() + price * code(linked))

        while total(other := min((linked ^ {each} for each in column.values()), key=total, default=linked)) < total(linked):
            linked = other
        kept = sorted(linked)
        choice = tuple(kept[number] for number in costs[:, kept].argmin(axis=1))
        taken = range(len(ops)), choice
        found[choice] = float(constants[taken].sum() + code(linked)), float(cycles[taken].sum())
    sets, fewest = list[list[KernelRule]](), math.inf
    for choice, (_, took) in sorted(found.items(), key=lambda each: each[1]):
        if took < fewest:
            fewest = took
            named = frozenset((op.name, names[number]) for op, number in zip(ops, choice, strict=True))
            sets.append([KernelRule(core, named, reads)])
    return sets


def flash_and_cycles(
    graph: Graph, kernel_sets: Iterable[Sequence[KernelRule]], core: str, reads: FlashReads | None
) -> Iterator[tuple[float, float]]:
    """Yield, per kernel set, the Flash and the cycles of a plan without fused stages in which each op has its fastest kernel.

    Kernels of unknown cycles count 0.
    """
    model = cost_model_core(core)

    @cache
    def cycles(op: Op, name: str) -> float:
        return layer_cycles(graph, op, name, model, reads=reads) or 0.0

    @cache
    def fastest(op: Op, names: tuple[str, ...]) -> str:
        return min(names, key=partial(cycles, op))

    constants = cache(partial(_constants, graph))
    for kernel_set in kernel_sets:
        names = [*map(fastest, graph.ops, zip(*(unfused_kernels(graph, rule) for rule in kernel_set), strict=True))]
        kept = dict(constants(op, name) for op, name in zip(graph.ops, names, strict=True) if name)
        yield sum(kept.values()) + _unfused_code(names), sum(map(cycles, graph.ops, names))


def predicted_kernels(graph: Graph, kernel_set: Sequence[KernelRule], chosen: Mapping[str, str]) -> list[str]:
    """Predict the kernel of each op: its `chosen` kernel if the kernel set has it, else the one with the fewest constants.

    `chosen` maps names of ops to names of kernels. The kernel of the first rule is predicted only if it was chosen, or if the
    set has no other.
    """
    predicted = list[str]()
    for op, *names in zip(graph.ops, *(unfused_kernels(graph, each) for each in kernel_set), strict=True):
        name = chosen.get(op.name, "")
        own = names[1:] or names
        predicted.append(name if name in names else min(own, key=lambda name: BY_NAME[name].flash(graph, op) if name else 0))
    return predicted
