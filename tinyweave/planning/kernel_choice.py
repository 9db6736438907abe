"""Kernel choice: which kernel runs each op.

In: a Graph, its aliases, and which ops may use the fast kernels of a core. Out: the name of each op's kernel, and its scratch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..ir import Graph, Op
from ..kernels.layer_cycles import FlashReads
from ..kernels.table import ASKED_FOR, BY_NAME, variant_for
from ..ops import SPECS
from .alias.subtensors import Aliases


class KernelRule(NamedTuple):
    """A rule that chooses a kernel for each op: the usual fast kernel of `core`, or another for the ops that a field lists.

    The sets hold names of ops.
    """

    core: str = ""  # "" for portable kernels only
    portable_ops: frozenset[str] = frozenset()  # run a portable kernel
    flash_heavy: frozenset[str] = frozenset()  # may run a faster kernel that keeps many more constants
    lean: frozenset[str] = frozenset()  # may run a kernel without scratch
    copying: frozenset[str] = frozenset()  # may run a kernel that copies its weights to scratch
    compact: frozenset[str] = frozenset()  # may run a portable kernel with less code
    frugal: frozenset[str] = frozenset()  # run the fastest kernel that keeps at most as many constants as the portable one
    reads: FlashReads | None = None  # wait states and cache lines of Flash, for cycle estimates; None for zero wait states

    def name(self, graph: Graph, op: Op) -> str:
        """Return the name of the kernel that this rule chooses for an op."""
        return variant_for(
            graph,
            op,
            "" if op.name in self.portable_ops else self.core,
            flash_heavy=op.name in self.flash_heavy,
            lean=op.name in self.lean,
            copying=op.name in self.copying,
            compact=op.name in self.compact,
            frugal=op.name in self.frugal,
        ).name


PORTABLE = KernelRule()


def named_kernels(graph: Graph, names: Mapping[str, str], kernels: KernelRule) -> KernelRule:
    """Return a rule that gives ops in `names` this kernel, and all other ops the usual kernel of `kernels.core`.

    `names` maps names of ops of `graph` to names of kernels. The kernel "" stands for an op that needs no code, such as a
    reshape. If it does need code in the graph to which the rule is applied, it runs a portable kernel.
    """
    rows = {op: BY_NAME[name] for op, name in names.items() if name}
    asked_for = {which: frozenset(op for op, row in rows.items() if getattr(row, which)) for which in ASKED_FOR}
    portable_ops = frozenset(op for op in names if op not in rows or not rows[op].cores)
    rule = KernelRule(kernels.core, portable_ops, reads=kernels.reads, **asked_for)
    frugal = frozenset(op.name for op in graph.ops if op.name in rows and rule.name(graph, op) != names[op.name])
    return rule._replace(frugal=frugal)


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
