"""The problem of ordering ops: sets of ops that have run, each an int with one bit per op, and the bytes alive after each set.

In: a Graph, the owner of each tensor's memory, scratch, bytes saved by overlaps. Out: an OrderProblem; sequences of ops that
need not be separated; cuts, the sets that every order passes through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ...ir import Graph

Saved = Callable[[int, frozenset[str]], int]
"""Return the bytes that an op (by index) saves by overlapping its output with the owners whose last use is its step.

More owners never save less.
"""


def owners_of(graph: Graph, index: int, owner: Mapping[str, str]) -> list[str]:
    """Return the tensors that own the memory that op `index` reads and writes, each once. `owner`: tensor -> its owner."""
    names = (*graph.ops[index].inputs, *graph.ops[index].outputs)
    return list(dict.fromkeys(owner[name] for name in names if name is not None and name in owner))


@dataclass(frozen=True, eq=False)
class OpSequence:
    """Ops that run directly one after the other, as a tuple and as a bit mask; the other fields are bit masks of others."""

    ops: tuple[int, ...]
    mask: int
    predecessors: int  # other ops that must run before them
    successors: int  # other ops that must run after them
    relevant: int  # other ops that share owners of memory with them; only these change what the sequence needs
    effects: dict[int, tuple[int, int]] = field(default_factory=dict)  # cache of `effect_of`, by relevant ops that have run
    undone: dict[int, tuple[int, int]] = field(default_factory=dict)  # the same backward, by relevant ops taken back


class Twins(NamedTuple):
    """Interchangeable branches of a network. Each has the ops of the bit mask `branch`, moved by one of `shifts` places."""

    branch: int
    shifts: tuple[int, ...]

    def within(self, ops: int) -> Twins:
        """Return the twins that lie wholly in a set of ops (a bit mask)."""
        return self._replace(shifts=tuple(shift for shift in self.shifts if not self.branch << shift & ~ops))

    def canonical(self, ops: int) -> int:
        """Return the representative of all sets of ops that differ from `ops` only by an exchange of branches."""
        states = sorted(ops >> shift & self.branch for shift in self.shifts)
        for shift, state in zip(self.shifts, states, strict=True):
            ops = ops & ~(self.branch << shift) | state << shift
        return ops


@dataclass(eq=False)
class OrderProblem:
    """The ops to be ordered, the memory that each uses, and which ops must precede which.

    Sets of ops are ints with one bit per op. `states` counts the sets that the search has visited, up to `state_limit`.
    """

    owners: list[list[str]]  # per op
    size: dict[str, int]  # bytes of each owner
    users: dict[str, int]  # owner -> the ops that read or write it
    inputs: frozenset[str]
    outputs: frozenset[str]
    scratch: Sequence[int]  # bytes per op
    saved: Saved | None  # bytes that an op saves by overlapping its output with operands; None for no overlaps
    fixed_bytes: int  # of state, which is always alive
    predecessors: list[int]  # per op: the ops whose output it reads, or that use the same state before it
    successors: list[int]
    ancestors: list[int]  # predecessors, and the ancestors of these
    descendants: list[int]
    fixed_savings: bool = True  # the bytes that ops save do not depend on the order
    cuts: list[int] = field(default_factory=list)  # sets of ops that every order passes through
    sequences: list[OpSequence] = field(default_factory=list)  # all ops, merged into sequences that run without interruption
    twins: list[Twins] = field(default_factory=list)  # branches that can be exchanged
    states: int = 0  # sets of ops visited so far
    state_limit: float = math.inf

    @property
    def everything(self) -> int:
        """Return the set of all ops."""
        return (1 << len(self.owners)) - 1


def bits(mask: int) -> Iterator[int]:
    """Yield the indices of the bits in `mask`: the ops of a set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def order_problem(graph: Graph, owner: Mapping[str, str], scratch: Sequence[int], saved: Saved | None) -> OrderProblem:
    """Return the problem of ordering a graph's ops; its `sequences` are still empty."""
    count = len(graph.ops)
    state = {name for name in owner.values() if graph.tensors[name].role == "state"}
    owners: list[list[str]] = []
    users: dict[str, int] = {}
    predecessors, successors, ancestors, descendants = ([0] * count for _ in range(4))
    last_use_of_state: dict[str, int] = {}
    for index, op in enumerate(graph.ops):
        names = owners_of(graph, index, owner)
        for name in filter(None, op.inputs):
            if name in graph.producer and graph.tensors[name].role != "state":
                predecessors[index] |= 1 << graph.producer[name]
        for name in state.intersection(names):
            if name in last_use_of_state:
                predecessors[index] |= 1 << last_use_of_state[name]
            last_use_of_state[name] = index
        owners.append([name for name in names if name not in state])
        for name in owners[-1]:
            users[name] = users.get(name, 0) | 1 << index
    for index in range(count):
        for other in bits(predecessors[index]):
            ancestors[index] |= ancestors[other] | 1 << other
            successors[other] |= 1 << index
    for index in reversed(range(count)):
        for other in bits(successors[index]):
            descendants[index] |= descendants[other] | 1 << other
    for name in {owner[n] for n in graph.inputs} - state - set(users):
        users[name] = 0
    problem = OrderProblem(
        owners,
        {name: graph.tensors[name].bytes for name in users},
        users,
        frozenset(owner[n] for n in graph.inputs) - state,
        frozenset(owner[n] for n in graph.outputs if n in owner) - state,
        scratch or [0] * count,
        saved,
        sum(graph.tensors[name].bytes for name in state),
        predecessors,
        successors,
        ancestors,
        descendants,
    )
    if saved:
        problem.fixed_savings = all(
            saved_after(problem, index, ancestors[index]) == most_saved(problem, index) for index in range(count)
        )
    problem.cuts = _cuts(problem)
    return problem


def saved_after(problem: OrderProblem, index: int, done: int) -> int:
    """Return the bytes that op `index` saves by overlaps if exactly the ops of the set `done` have run before it."""
    if problem.saved is None:
        return 0
    done |= 1 << index
    return problem.saved(
        index, frozenset(n for n in problem.owners[index] if n not in problem.outputs and not problem.users[n] & ~done)
    )


def most_saved(problem: OrderProblem, index: int) -> int:
    """Return the most bytes that op `index` can save, in any order, by overlapping its output with operands.

    The saving is largest if all ops but its descendants have run before it: then most operands have no later reader.
    """
    return saved_after(problem, index, problem.everything & ~problem.descendants[index])


def _cuts(problem: OrderProblem) -> list[int]:
    """Return the sets of ops that every order passes through: before and after each op whose place among all ops is fixed."""
    cuts = {0, problem.everything}
    for index, (ancestors, descendants) in enumerate(zip(problem.ancestors, problem.descendants, strict=True)):
        if ancestors.bit_count() + descendants.bit_count() + 1 == len(problem.owners):
            cuts |= {ancestors, ancestors | 1 << index}
    return sorted(cuts, key=int.bit_count)


def live_after(problem: OrderProblem, done: int) -> int:
    """Return the bytes of the tensors that are alive after exactly the ops of the set `done` have run."""
    total = problem.fixed_bytes
    for name, mask in problem.users.items():
        if (name in problem.inputs or mask & done) and (name in problem.outputs or mask & ~done):
            total += problem.size[name]
    return total


def effect_of(problem: OrderProblem, sequence: OpSequence, done: int) -> tuple[int, int]:
    """Return how a sequence changes the live bytes if it runs after the set `done`: (peak, change).

    Both are relative to the live bytes before. The peak is the need of the largest step, with scratch and minus bytes saved by
    overlaps; the change may be negative.
    """
    key = done & sequence.relevant
    if (known := sequence.effects.get(key)) is not None:
        return known
    need, change = 0, 0
    for index in sequence.ops:
        bit = 1 << index
        born = freed = 0
        for name in problem.owners[index]:
            mask = problem.users[name]
            if name not in problem.inputs and not mask & done:
                born += problem.size[name]
            if name not in problem.outputs and not mask & ~(done | bit):
                freed += problem.size[name]
        need = max(need, change + born + problem.scratch[index] - saved_after(problem, index, done))
        change += born - freed
        done |= bit
    sequence.effects[key] = need, change
    return need, change


def sequence_of(problem: OrderProblem, ops: tuple[int, ...], predecessors: int, successors: int) -> OpSequence:
    """Return these ops as a sequence; `predecessors` and `successors` are the sets of ops that must run before and after it."""
    mask = sum(1 << index for index in ops)
    relevant = 0
    for index in ops:
        for name in problem.owners[index]:
            relevant |= problem.users[name]
    return OpSequence(ops, mask, predecessors, successors, relevant & ~mask)


def merged_sequences(problem: OrderProblem) -> list[OpSequence]:
    """Return all ops, merged into sequences that run without interruption, since no order gains from other ops in between."""
    sequences = {
        index: sequence_of(problem, (index,), problem.predecessors[index], problem.successors[index])
        for index in range(len(problem.owners))
    }
    section = {i: number for number, (low, high) in enumerate(pairwise(problem.cuts)) for i in bits(high & ~low)}
    home = list(sequences)  # op -> key of its sequence
    waiting = list(reversed(sequences))
    while waiting:
        key = waiting.pop()
        if key not in sequences:
            continue
        first = sequences[key]
        for other in sorted({home[index] for index in bits(first.successors)}):
            second = sequences[other]
            if section[first.ops[0]] != section[second.ops[0]] or not _can_merge(problem, first, second):
                continue
            outside = ~(first.mask | second.mask)
            merged = sequence_of(
                problem,
                first.ops + second.ops,
                (first.predecessors | second.predecessors) & outside,
                (first.successors | second.successors) & outside,
            )
            del sequences[other]
            sequences[key] = merged
            for index in second.ops:
                home[index] = key
            waiting += [key, *{home[index] for index in bits(merged.predecessors)}]
            break
    return sorted(sequences.values(), key=lambda sequence: sequence.ops[0])


def _can_merge(problem: OrderProblem, first: OpSequence, second: OpSequence) -> bool:
    """Return whether running `second` directly after `first` never raises the peak of an order.

    That holds if `second` can run and frees memory without a higher peak, or if nothing is lost by delaying `first` until
    `second`. Both tests bound what the sequences need in any order: an op needs less memory the more ops have run before it.
    """
    ancestors, second_ancestors = _union(problem.ancestors, first), _union(problem.ancestors, second) & ~second.mask
    others = problem.everything & ~_union(problem.descendants, first) & ~first.mask
    most_need, most_change = effect_of(problem, first, ancestors & ~first.mask)
    least_need, least_change = effect_of(problem, first, others)
    if not second_ancestors & ~(ancestors | first.mask):
        need, change = effect_of(problem, second, second_ancestors)
        if change <= 0 and most_change + need <= least_need:
            return True
    if first.successors & ~second.mask or least_change < 0:
        return False
    later = problem.everything & ~_union(problem.descendants, second) & ~second.mask
    if not problem.fixed_savings and first.relevant & later & ~ancestors:
        return False  # delaying `first` would keep bytes from other ops whose outputs overlap them
    return most_need <= least_change + effect_of(problem, second, later)[0]


def _union(relation: list[int], sequence: OpSequence) -> int:
    mask = 0
    for index in sequence.ops:
        mask |= relation[index]
    return mask


def least_step_bytes(problem: OrderProblem) -> list[int]:
    """Return a lower bound on the bytes of each op's step that holds for every order.

    It counts the op's scratch, and each tensor that the op or an ancestor uses and that the op or a descendant uses. Network
    inputs count as used by ancestors, network outputs as used by descendants. The bytes that overlaps can save are subtracted.
    """
    step_bytes = [problem.fixed_bytes + scratch for scratch in problem.scratch]
    for name, mask in problem.users.items():
        begun = problem.everything if name in problem.inputs else mask
        needed = problem.everything if name in problem.outputs else mask
        for index in bits(mask):
            begun |= problem.descendants[index]
            needed |= problem.ancestors[index]
        for index in bits(begun & needed):
            step_bytes[index] += problem.size[name]
    return [need - most_saved(problem, index) for index, need in enumerate(step_bytes)]
