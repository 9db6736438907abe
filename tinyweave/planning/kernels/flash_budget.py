"""Which kernels may keep more constants in Flash than others of their kind.

In: a graph, a core. Out: sets of kernels, from those with the fewest constants to all, and what a plan needs of Flash. No
set depends on how much Flash there is, so that more of it never gives a worse plan. Cycles are estimates from shapes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from ...ir import Graph, Op
from ...kernels.layer_cycles import FlashReads, cost_model_core, layer_cycles
from ...kernels.table import BY_NAME, code_bytes, variant_for
from ..alias.overlap import shared_in
from ..kernel_choice import FOR_ALL, Kernels, variants_in
from ..order.search import file_order
from ..plan import Plan

LAYER_BYTES = 100  # of code that calls a layer's kernel, and of its parameters
# what the code and parameters of real networks need at least and at most, see bench/code_size.py: per byte of its kernels'
# files, of which a linker keeps what is called, by whether the kernels are a core's own (files with many functions)
KEPT, OWN_KEPT = (0.8, 1.6), (0.45, 1.1)
PER_LAYER, PER_FUSED = (80, 120), (50, 220)  # bytes; for a layer in a fused stage more
# what they are likely to need: fitted to 17 networks of a search for images, built for a Cortex-M4, and 3 kB off at most there
LIKELY_KEPT, LIKELY_OF_SETS, LIKELY_PER_LAYER, LIKELY_PER_FUSED = 0.73, 0.26, 138, 399
SOFT_FLOATS = 6_000  # bytes of the compiler's library, on cores without floats in hardware
HARD_FLOATS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85", "xtensa-lx6", "xtensa-lx7")


def constant_bytes(graph: Graph, variants: Sequence[str]) -> int:
    """Return bytes that these kernels of the ops keep in Flash; what several ops read alike lies there once."""
    kept = {
        _reads(graph, op, name): BY_NAME[name].flash(graph, op) for op, name in zip(graph.ops, variants, strict=True) if name
    }
    return sum(kept.values())


def _reads(graph: Graph, op: Op, name: str) -> tuple[Hashable, ...]:
    """Return what is the same for two ops only where their kernels keep the same constants."""
    operands = [tensor for tensor in (*graph.inputs_of(op), *map(graph.tensors.__getitem__, op.outputs)) if tensor is not None]
    if all(tensor.data is None for tensor in operands):
        return (op.name,)
    window = op.attrs.get("stride"), op.attrs.get("dilation")
    return (name, window, *(tensor.quant if tensor.data is None else id(tensor.data) for tensor in operands))


class OtherFlash(NamedTuple):
    """Bytes of Flash besides the constants of kernels, measured of a program. kernels: those in it; None: all there are."""

    bytes: int
    kernels: frozenset[str] | None = None


class FlashLimit(NamedTuple):
    """Bytes of Flash. other: what lies there besides the constants of kernels, if that was measured."""

    bytes: int
    other: OtherFlash | None = None

    def holds(self, graph: Graph, variants: Sequence[str]) -> bool:
        """Return whether Flash has room for these kernels of the ops."""
        return self.need(graph, variants) <= self.bytes

    def need(self, graph: Graph, variants: Sequence[str]) -> int:
        """Return the bytes of Flash that these kernels of the ops need: their constants and all else.

        Code that was not measured is estimated as that of whole files, of which a linker leaves out much. So where nothing was
        measured, it only counts for plans with kernels that keep many more constants: no others are given up for its sake.
        """
        constants, names = constant_bytes(graph, variants), {*variants} - {""}
        if self.other is None:
            is_heavy = any(BY_NAME[name].flash_heavy for name in names)
            return constants + (code_bytes(names) + LAYER_BYTES * len(graph.ops) if is_heavy else 0)
        known = names if self.other.kernels is None else self.other.kernels
        return constants + self.other.bytes + code_bytes(names | known) - code_bytes(known)


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


def likely_code(plan: Plan) -> int:
    """Return the bytes of code and parameters that a plan is likely to need, to compare plans by."""
    names, fused = {*plan.variants} - {""}, sum(len(stage.ops) for stage in plan.stages if stage.tiles is not None)
    of_sets = code_bytes(names, of_sets=True)
    kernels = LIKELY_KEPT * (code_bytes(names) - of_sets) + LIKELY_OF_SETS * of_sets
    return round(kernels + LIKELY_PER_LAYER * len(plan.variants) + LIKELY_PER_FUSED * fused)


def trades_flash(graph: Graph, core: str) -> bool:
    """Whether some op can have a kernel that keeps more constants than others do."""
    return any(variant_for(graph, op, core, flash_heavy=True).flash_heavy for op in graph.ops)


def one_by_one(graph: Graph, kernels: Kernels) -> tuple[str, ...]:
    """Return the kernel's name per op where each runs by itself."""
    return variants_in(graph, shared_in(graph, file_order(graph), parts=True), kernels)


def kernel_ladder(graph: Graph, core: str, reads: FlashReads | None = None) -> list[list[Kernels]]:
    """Return the kernels that ops may have, as a ladder: each rung allows all that those below it allow, and the last one all.

    On the first rung ops have the kernel of `core` only where it keeps no more constants than the portable one does. Then, an
    op a rung, the others may have it, those first where it saves most cycles per byte. On the next one ops may do without
    scratch, or copy their weights to it where Flash waits; on those after it keep many more constants to be faster, again an op
    a rung and by cycles per byte. Without a core there is one rung. reads: as of Kernels.
    """
    if not core:
        return [[FOR_ALL]]
    fast = Kernels(core, reads=reads)
    usual, lean = one_by_one(graph, fast), without_scratch(graph, core)
    heavy = [_heavy(graph, op, name, core) for op, name in zip(graph.ops, usual, strict=True)]
    larger, paying = (
        _by_rate(graph, before, after, fast) for before, after in ((one_by_one(graph, FOR_ALL), usual), (usual, heavy))
    )
    sets = [[fast._replace(portable_ops=frozenset(larger[count:]))] for count in range(len(larger) + 1)]
    copying = frozenset(op.name for op in graph.ops if _copying_pays(graph, op, fast))
    last = [fast._replace(lean=lean)] if lean else []
    last += [fast._replace(copying=copying)] if copying else []
    sets += [[fast, *last]] if last else []
    sets += [[fast, fast._replace(flash_heavy=frozenset(paying[: count + 1])), *last] for count in range(len(paying))]
    return [[FOR_ALL, *each] for each in sets]


def most_constants(graph: Graph, kernels: Sequence[Kernels]) -> int:
    """Return the most bytes of constants that the ops of a graph may keep with one of these kernels each."""
    choices = zip(graph.ops, *(one_by_one(graph, each) for each in kernels), strict=True)
    return sum(max(BY_NAME[name].flash(graph, op) if name else 0 for name in names) for op, *names in choices)


def kept_kernels(graph: Graph, rung: Sequence[Kernels], chosen: Mapping[str, str]) -> list[str]:
    """Return the kernel of each op that is `chosen` (op name -> kernel) where a rung has it, else of the core's kernels there
    the one that keeps fewest constants."""
    kept = list[str]()
    for op, *names in zip(graph.ops, *(one_by_one(graph, each) for each in rung), strict=True):
        name = chosen.get(op.name, "")
        own = names[1:] or names
        kept.append(name if name in names else min(own, key=lambda name: BY_NAME[name].flash(graph, op) if name else 0))
    return kept


def without_scratch(graph: Graph, core: str) -> frozenset[str]:
    """Return the names of ops for which `core` has a kernel with scratch and one without, whose cycles are known."""
    names, model = set[str](), cost_model_core(core)
    for op, name in zip(graph.ops, one_by_one(graph, Kernels(core)), strict=True):
        lean = variant_for(graph, op, core, lean=True) if name and BY_NAME[name].scratch(graph, op) else None
        if lean is not None and lean.lean and layer_cycles(graph, op, lean.name, model) is not None:
            names.add(op.name)
    return frozenset(names)


def _copying_pays(graph: Graph, op: Op, kernels: Kernels) -> bool:
    """Return whether the device's Flash waits so long that an op takes fewer cycles once its weights are copied to scratch."""
    if kernels.reads is None:
        return False
    usual, other = (variant_for(graph, op, kernels.core, copying=copying) for copying in (False, True))
    return other.copying and _gain(graph, op, (usual.name, other.name), kernels) > 0


def _heavy(graph: Graph, op: Op, name: str, core: str) -> str:
    """Return the kernel that keeps many more constants than this one of the core, or this one where there is none."""
    heavy = variant_for(graph, op, core, flash_heavy=True) if name and BY_NAME[name].cores else None
    return heavy.name if heavy is not None and heavy.flash_heavy else name


def _by_rate(graph: Graph, names: Sequence[str], others: Sequence[str], kernels: Kernels) -> list[str]:
    """Return the names of the ops of which another kernel keeps more constants, those first where it saves most cycles per
    byte; of heavy kernels only what saves any."""
    rates = list[tuple[float, int, str]]()
    for op, name, other in zip(graph.ops, names, others, strict=True):
        more = BY_NAME[other].flash(graph, op) - BY_NAME[name].flash(graph, op) if name and other != name else 0
        rate = _gain(graph, op, (name, other), kernels) / more if more > 0 else 0.0
        if more > 0 and (rate > 0 or not BY_NAME[other].flash_heavy):
            rates.append((rate, more, op.name))
    return [name for _, _, name in sorted(rates, reverse=True)]


def _gain(graph: Graph, op: Op, names: tuple[str, str], kernels: Kernels) -> float:
    """Return cycles that the second of two kernels saves; 0 where those of one are not known."""
    core = cost_model_core(kernels.core)
    slow, fast = (layer_cycles(graph, op, name, core, reads=kernels.reads) for name in names)
    return 0.0 if slow is None or fast is None else slow - fast
