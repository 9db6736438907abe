"""Kernel sets: which kernels ops may use if Flash is limited, and how much Flash a plan needs.

In: a graph, a core. Out: kernel sets, from the set with the fewest constants to all kernels; bytes of Flash. The sets do not
depend on the Flash limit, so that a larger limit never gives a worse plan. Cycles are estimates from shapes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ...ir import Graph, Op
from ...kernels.layer_cycles import FlashReads, cost_model_core, layer_cycles
from ...kernels.table import BY_NAME, code_bytes, variant_for
from ..alias.overlap import shared_in
from ..alias.subtensors import Aliases
from ..kernel_choice import PORTABLE, KernelRule, variants_in
from ..order.order_search import file_order
from ..plan import Plan

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
    """A measurement of a linked program: its bytes of Flash besides the constants of kernels, and the kernels linked into it.

    `kernels` is None if the program has all kernels of the plan.
    """

    bytes: int
    kernels: frozenset[str] | None = None


def flash_bytes(graph: Graph, variants: Sequence[str], other: OtherFlash | None) -> int:
    """Return the bytes of Flash of a plan with these kernels: its constants, and all other bytes as measured or estimated.

    `other` is the measurement, None for an estimate. The estimate counts whole code files, of which a linker drops much. So the
    estimate is 0 unless some kernel keeps many more constants than usual (`flash_heavy`). In this way, no other kernel is
    rejected because of an estimate.
    """
    constants, names = constant_bytes(graph, variants), {*variants} - {""}
    if other is None:
        is_heavy = any(BY_NAME[name].flash_heavy for name in names)
        return constants + (code_bytes(names) + LAYER_BYTES * len(graph.ops) if is_heavy else 0)
    known = names if other.kernels is None else other.kernels
    return constants + other.bytes + code_bytes(names | known) - code_bytes(known)


def code_range(plan: Plan, core: str) -> tuple[int, int]:
    """Estimate the fewest and the most bytes of code and parameters of a plan on `core`, without constants."""
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


def likely_code(plan: Plan) -> int:
    """Estimate the bytes of code and parameters of a plan as one figure, to compare plans by."""
    fused = sum(len(stage.ops) for stage in plan.stages if stage.tiles is not None)
    return round(_unfused_code(plan.variants) + LIKELY_PER_FUSED * fused)


def _unfused_code(variants: Sequence[str]) -> float:
    """Estimate the bytes of code and parameters of a plan with these kernels and without fused stages."""
    names = {*variants} - {""}
    of_sets = code_bytes(names, of_sets=True)
    return LIKELY_KEPT * (code_bytes(names) - of_sets) + LIKELY_OF_SETS * of_sets + LIKELY_PER_LAYER * len(variants)


def trades_flash(graph: Graph, core: str) -> bool:
    """Return whether some op has a kernel that is faster than the usual one but keeps many more constants in Flash."""
    return any(variant_for(graph, op, core, flash_heavy=True).flash_heavy for op in graph.ops)


def unfused_kernels(graph: Graph, kernels: KernelRule) -> tuple[str, ...]:
    """Return the name of each op's kernel if no stage is fused; "" for ops without code."""
    if graph not in _KNOWN:
        _KNOWN[graph] = shared_in(graph, file_order(graph), parts=True), {}
    shared, known = _KNOWN[graph]
    if kernels not in known:
        known[kernels] = variants_in(graph, shared, kernels)
    return known[kernels]


def kernel_sets(graph: Graph, core: str, reads: FlashReads | None = None) -> list[list[KernelRule]]:
    """Return the kernel sets of a core, fastest last; each set has all kernels of the set before it.

    A set is a list of rules, each of which gives each op one kernel: the op may use any of them. The first set has the portable
    kernels, and the fastest kernels of `core` that keep no more constants than these. The next sets add the usual kernels
    of `core` for one more op at a time, most cycles saved per byte of Flash first. One set adds kernels without scratch, and
    kernels that copy weights from slow Flash. The last sets add kernels with many more constants for one more op at a time, in
    the same way. Without a core there is only one set, of portable kernels. `reads` are the wait states of Flash, None for zero
    wait states.
    """
    if not core:
        return [[PORTABLE]]
    fast = KernelRule(core, reads=reads)
    frugal = fast._replace(frugal=frozenset(op.name for op in graph.ops))
    usual, lean = unfused_kernels(graph, fast), without_scratch(graph, core)
    heavy = [_heavy(graph, op, name, core) for op, name in zip(graph.ops, usual, strict=True)]
    larger, paying = (
        _by_rate(graph, before, after, fast) for before, after in ((unfused_kernels(graph, frugal), usual), (usual, heavy))
    )
    sets = [[fast._replace(frugal=frozenset(larger[count:]))] for count in range(len(larger) + 1)]
    copying = frozenset(op.name for op in graph.ops if _copying_pays(graph, op, fast))
    last = [fast._replace(lean=lean)] if lean else []
    last += [fast._replace(copying=copying)] if copying else []
    sets += [[fast, *last]] if last else []
    sets += [[fast, fast._replace(flash_heavy=frozenset(paying[: count + 1])), *last] for count in range(len(paying))]
    return [[PORTABLE, *dict.fromkeys((frugal if larger else fast, *each))] for each in sets]


def compact_kernels(graph: Graph) -> list[KernelRule]:
    """Return the kernel set with the least code and constants."""
    return [KernelRule(compact=frozenset(op.name for op in graph.ops))]


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


def max_constant_bytes(graph: Graph, kernel_set: Sequence[KernelRule]) -> int:
    """Return the bytes of Flash constants if each op uses the kernel of the set that keeps the most."""
    choices = zip(graph.ops, *(unfused_kernels(graph, each) for each in kernel_set), strict=True)
    return sum(max(BY_NAME[name].flash(graph, op) if name else 0 for name in names) for op, *names in choices)


def predicted_kernels(graph: Graph, kernel_set: Sequence[KernelRule], chosen: Mapping[str, str]) -> list[str]:
    """Predict the kernel of each op: its `chosen` kernel if the kernel set has it, else the one with the fewest constants.

    `chosen` maps names of ops to names of kernels. The portable kernel, and the core's kernel with no more constants, are
    predicted only if they were chosen, or if the set has no other.
    """
    predicted = list[str]()
    for op, *names in zip(graph.ops, *(unfused_kernels(graph, each) for each in kernel_set), strict=True):
        name = chosen.get(op.name, "")
        own = names[2:] or names
        predicted.append(name if name in names else min(own, key=lambda name: BY_NAME[name].flash(graph, op) if name else 0))
    return predicted


def without_scratch(graph: Graph, core: str) -> frozenset[str]:
    """Return the names of the ops whose usual kernel on `core` needs scratch, but that also have a kernel without scratch.

    That other kernel must be one of `core`, and its cycles must be known.
    """
    names, model = set[str](), cost_model_core(core)
    for op, name in zip(graph.ops, unfused_kernels(graph, KernelRule(core)), strict=True):
        lean = variant_for(graph, op, core, lean=True) if name and BY_NAME[name].scratch(graph, op) else None
        if lean is not None and lean.lean and layer_cycles(graph, op, lean.name, model) is not None:
            names.add(op.name)
    return frozenset(names)


def _copying_pays(graph: Graph, op: Op, kernels: KernelRule) -> bool:
    """Return whether it saves cycles if an op's kernel first copies the weights from slow Flash to scratch."""
    if kernels.reads is None:
        return False
    usual, other = (variant_for(graph, op, kernels.core, copying=copying) for copying in (False, True))
    return other.copying and _gain(graph, op, (usual.name, other.name), kernels) > 0


def _heavy(graph: Graph, op: Op, name: str, core: str) -> str:
    """Return the op's kernel that keeps many more constants than `name`, or `name` if there is no such kernel.

    `name` is also returned if it is the portable kernel, or "" for an op without code.
    """
    heavy = variant_for(graph, op, core, flash_heavy=True) if name and BY_NAME[name].cores else None
    return heavy.name if heavy is not None and heavy.flash_heavy else name


def _by_rate(graph: Graph, names: Sequence[str], others: Sequence[str], kernels: KernelRule) -> list[str]:
    """Return the ops whose kernel in `others` keeps more constants than the one in `names`, most cycles saved per byte first.

    Kernels with many more constants that save no cycles are left out. `names` and `others` have a kernel per op. Cycles
    are estimated for the core and the wait states of `kernels`.
    """
    rates = list[tuple[float, int, str]]()
    for op, name, other in zip(graph.ops, names, others, strict=True):
        more = BY_NAME[other].flash(graph, op) - BY_NAME[name].flash(graph, op) if name and other != name else 0
        rate = _gain(graph, op, (name, other), kernels) / more if more > 0 else 0.0
        if more > 0 and (rate > 0 or not BY_NAME[other].flash_heavy):
            rates.append((rate, more, op.name))
    return [name for _, _, name in sorted(rates, reverse=True)]


def _gain(graph: Graph, op: Op, names: tuple[str, str], kernels: KernelRule) -> float:
    """Return the cycles that the second of two kernels saves over the first; 0 if the cycles of either are unknown."""
    core = cost_model_core(kernels.core)
    slow, fast = (layer_cycles(graph, op, name, core, reads=kernels.reads) for name in names)
    return 0.0 if slow is None or fast is None else slow - fast
