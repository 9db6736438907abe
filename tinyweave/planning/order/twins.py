"""Interchangeable branches of a network, such as the heads of an attention layer: symmetries of the search for an order.

In: an OrderProblem. Out: groups of branches that can be exchanged, with their tensors, without changing the problem. The search
then visits only one of all sets of ops that differ by such an exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from .op_sets import OrderProblem, Twins, bits, most_saved, saved_after

MOST_OWNERS = 6  # tensors of an op in a branch; the bytes saved by overlaps are compared for all sets of them


def twins_of(problem: OrderProblem) -> list[Twins]:
    """Return the groups of branches that can be exchanged.

    A branch is a connected component of a section, the ops between two neighbouring cuts. Each branch is compared with the last
    one before it whose ops have equal distances in the file and tensors of equal sizes.
    """
    groups = list[tuple[int, list[int]]]()  # the first branch of each group, and the shifts
    latest = dict[tuple[int, ...], tuple[int, list[int]]]()
    for start, goal in pairwise(problem.cuts):
        for branch in _branches(problem, goal & ~start):
            lowest = next(bits(branch))
            key = branch >> lowest, *(problem.size[name] for index in bits(branch) for name in problem.owners[index])
            first, shifts = latest.get(key, (0, [0]))
            shift = lowest - next(bits(first), 0)
            if first and _are_exchangeable(problem, first << shifts[-1], shift - shifts[-1]):
                shifts.append(shift)
            else:
                latest[key] = branch, [0]
                groups.append(latest[key])
    return [Twins(branch, tuple(shifts)) for branch, shifts in groups if len(shifts) > 1]


def _branches(problem: OrderProblem, section: int) -> Iterator[int]:
    """Yield the connected components of a section as bit masks, in the order of their first ops."""
    while section:
        branch, added = 0, section & -section
        while added:
            branch |= added
            near = 0
            for index in bits(added):
                near |= problem.predecessors[index] | problem.successors[index]
            added = near & section & ~branch
        yield branch
        section &= ~branch


def _are_exchangeable(problem: OrderProblem, branch: int, shift: int) -> bool:
    """Return whether the problem stays the same if each op i of `branch` and op i + `shift` are exchanged."""
    sequences = {tuple(index + shift for index in each.ops) for each in problem.sequences if each.mask & branch}
    if sequences != {each.ops for each in problem.sequences if each.mask & branch << shift}:
        return False
    other_of = dict[str, str]()  # owner of memory that the branch uses -> the owner that the twin uses in its place
    for index in bits(branch):
        ours, theirs = problem.owners[index], problem.owners[index + shift]
        if len(ours) != len(theirs) or any(other_of.setdefault(a, b) != b for a, b in zip(ours, theirs, strict=True)):
            return False
    own = {a: b for a, b in other_of.items() if a != b}

    def exchanged(ops: int) -> int:
        return ops & ~(branch | branch << shift) | (ops & branch) << shift | (ops >> shift) & branch

    def are_equal_ops(index: int) -> bool:
        """Return whether an op of the branch has the same neighbours, scratch and savings as the corresponding op."""
        other, owners, saved = index + shift, problem.owners[index], problem.saved or (lambda _, names: 0)
        subsets = (names for count in range(len(owners) + 1) for names in combinations(owners, count))
        return (
            problem.scratch[index] == problem.scratch[other]
            and exchanged(problem.predecessors[index]) == problem.predecessors[other]
            and exchanged(problem.successors[index]) == problem.successors[other]
            and len(owners) <= MOST_OWNERS
            and all(saved(index, frozenset(names)) == saved(other, frozenset(other_of[n] for n in names)) for names in subsets)
        )

    def are_equal_owners(one: str, other: str) -> bool:
        """Return whether owners of memory have the same bytes and users. Other users must save the same bytes in all orders."""
        return (
            problem.size[one] == problem.size[other]
            and exchanged(problem.users[one]) == problem.users[other]
            and (one in problem.inputs, one in problem.outputs) == (other in problem.inputs, other in problem.outputs)
            and all(
                saved_after(problem, index, problem.ancestors[index]) == most_saved(problem, index)
                for index in bits(problem.users[one] & ~branch)
            )
        )

    return (
        len(set(other_of.values())) == len(other_of)
        and own.keys().isdisjoint(own.values())
        and all(are_equal_ops(index) for index in bits(branch))
        and all(exchanged(problem.users[name]) == problem.users[name] for name in other_of.keys() - own)
        and all(are_equal_owners(one, other) for one, other in own.items())
    )
