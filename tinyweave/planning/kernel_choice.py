"""Kernel choice. In: a Graph, its aliases, rules on fast kernels of a core. Out: each op's kernel, and its scratch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..ir import Graph, Op
from ..kernels.layer_cycles import FlashReads
from ..kernels.table import BY_NAME, misfit, variant_for
from ..ops import SPECS
from .alias.subtensors import Aliases


class KernelRule(NamedTuple):
    """A rule that chooses a kernel for each op: the one that `named` gives it, else the usual fast kernel of `core`."""

    core: str = ""  # "" for portable kernels only
    named: frozenset[tuple[str, str]] = frozenset()  # (op, kernel): run this kernel if it can run the op; "": a portable one
    reads: FlashReads | None = None  # wait states and cache lines of Flash, for cycle estimates; None for zero wait states

    def name(self, graph: Graph, op: Op) -> str:
        """Return the name of the kernel that this rule chooses for an op."""
        named = _by_op(self.named).get(op.name)
        if named and not misfit(graph, op, named):
            return named
        return variant_for(graph, op, self.core if named is None or (named and BY_NAME[named].cores) else "").name


@lru_cache(maxsize=256)
def _by_op(named: frozenset[tuple[str, str]]) -> dict[str, str]:
    return dict(named)


PORTABLE = KernelRule()


def variants_in(graph: Graph, shared: Aliases, kernels: KernelRule = PORTABLE) -> tuple[str, ...]:
    """Return the name of each op's kernel, "" for views and other ops that need no code because their tensors share memory."""
    names = []
    for index, op in enumerate(graph.ops):
        source, target = op.inputs[0], op.outputs[0]
        is_view = SPECS[op.kind].view and source is not None and shared.owner.get(source) == shared.owner[target]
        names.append("" if is_view or index in shared.free else kernels.name(graph, op))
    return tuple(names)


def scratch_of(graph: Graph, variants: Sequence[str]) -> list[int]:
    """Return the scratch bytes that each op's kernel needs. `variants`: the kernels' names, "" for ops without code."""
    return [BY_NAME[name].scratch(graph, op) if name else 0 for name, op in zip(variants, graph.ops, strict=True)]
