"""Which kernel runs each op.

In: a Graph, who lies in whose bytes, and for which ops the fast kernels of a core are wanted. Out: the kernel's name per op,
and what these kernels need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..ir import Graph, Op
from ..kernels.layer_cycles import FlashReads
from ..kernels.table import BY_NAME, variant_for
from ..ops import SPECS
from .alias.subtensors import Aliases


class Kernels(NamedTuple):
    """The kernels of `core` besides the portable ones.

    portable_ops: names of ops that take a portable kernel all the same. flash_heavy: names of ops that may take a kernel that
    keeps many more constants to be faster. lean: names of ops that may take a kernel of `core` without scratch. copying: names
    of ops that may take one that copies its weights to scratch. reads: how the device reads its Flash, which is part of what
    kernels are compared by; None: it answers at once.
    """

    core: str = ""
    portable_ops: frozenset[str] = frozenset()
    flash_heavy: frozenset[str] = frozenset()
    lean: frozenset[str] = frozenset()
    copying: frozenset[str] = frozenset()
    reads: FlashReads | None = None

    def name(self, graph: Graph, op: Op) -> str:
        """Return the kernel of an op."""
        core = "" if op.name in self.portable_ops else self.core
        flash_heavy, lean, copying = op.name in self.flash_heavy, op.name in self.lean, op.name in self.copying
        return variant_for(graph, op, core, flash_heavy=flash_heavy, lean=lean, copying=copying).name


FOR_ALL = Kernels()


def variants_in(graph: Graph, shared: Aliases, kernels: Kernels = FOR_ALL) -> tuple[str, ...]:
    """Return the kernel's name per op; empty where no code runs."""
    return tuple("" if i in shared.free else _variant(graph, op, shared.owner, kernels) for i, op in enumerate(graph.ops))


def _variant(graph: Graph, op: Op, owner: Mapping[str, str], kernels: Kernels) -> str:
    source, target = op.inputs[0], op.outputs[0]
    is_view = SPECS[op.kind].view and source is not None and owner.get(source) == owner[target]
    return "" if is_view else kernels.name(graph, op)


def calls(variants: Sequence[str]) -> int:
    """Return how many ops have code."""
    return sum(map(bool, variants))


def scratch_of(graph: Graph, variants: Sequence[str]) -> list[int]:
    """Return per op the bytes of working memory that its kernel needs for a call."""
    return [BY_NAME[name].scratch(graph, op) if name else 0 for name, op in zip(variants, graph.ops, strict=True)]
