"""A network as sets of ops that have run, each an int with a bit per op: the bytes alive after a set, and what an op changes.

In: a Graph, who shares bytes with whom, scratch, bytes saved. Out: a Network; its runs, ops that an order never gains from
parting; its cuts, sets that every order passes through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...ir import Graph

Saved = Callable[[int, frozenset[str]], int]
"""(op, owners of bytes that are dead after it) -> bytes that its step needs less than its live buffers and scratch together,
since its output overlaps inputs; never less when more of them die."""


def owners_of(graph: Graph, index: int, owner: Mapping[str, str]) -> list[str]:
    """Return the owners of the bytes that an op reads and writes."""
    names = (*graph.ops[index].inputs, *graph.ops[index].outputs)
    return list(dict.fromkeys(owner[name] for name in names if name is not None and name in owner))


@dataclass(frozen=True, eq=False)
class OpSequence:
    """Ops that run one after the other: `mask` of them, and what must have run before (or, backwards, after) them."""

    ops: tuple[int, ...]
    mask: int
    before: int
    after: int
    relevant: int  # the other ops that share bytes' owners with them: only these change what the run needs
    effects: dict[int, tuple[int, int]] = field(default_factory=dict)  # by the relevant ones that have run: need and change
    undone: dict[int, tuple[int, int]] = field(default_factory=dict)  # the same backward, by the relevant ones taken back


@dataclass(eq=False)
class Network:
    """touched: owner -> mask of the ops that touch it. before, after: op -> masks of the ops that must run before and after it,
    of which above and below hold all, not only the next. states: sets that were looked at, which `state_limit` and `deadline`
    end."""

    owners: list[list[str]]  # per op
    size: dict[str, int]
    touched: dict[str, int]
    inputs: frozenset[str]
    outputs: frozenset[str]
    scratch: Sequence[int]
    saved: Saved | None
    always: int  # bytes of state and of network inputs that are outputs too
    before: list[int]
    after: list[int]
    above: list[int]
    below: list[int]
    steady: bool = True  # what ops save does not depend on the order
    cuts: list[int] = field(default_factory=list)  # sets that every order passes through
    runs: list[OpSequence] = field(default_factory=list)
    states: int = 0
    state_limit: float = math.inf
    deadline: float = math.inf

    @property
    def everything(self) -> int:
        return (1 << len(self.owners)) - 1


def bits(mask: int) -> Iterator[int]:
    """Yield the ops of a set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def network_of(graph: Graph, owner: Mapping[str, str], scratch: Sequence[int], saved: Saved | None) -> Network:
    """Return the network, without its runs; arguments as for `best_order`."""
    count = len(graph.ops)
    constant_size = {name for name in owner.values() if graph.tensors[name].role == "state"}
    owners: list[list[str]] = []
    touched: dict[str, int] = {}
    before = [0] * count
    last_of_state: dict[str, int] = {}
    for index, op in enumerate(graph.ops):
        names = owners_of(graph, index, owner)
        for name in filter(None, op.inputs):
            if name in graph.producer and graph.tensors[name].role != "state":
                before[index] |= 1 << graph.producer[name]
        for name in constant_size.intersection(names):
            if name in last_of_state:
                before[index] |= 1 << last_of_state[name]
            last_of_state[name] = index
        owners.append([n for n in names if n not in constant_size])
        for name in owners[-1]:
            touched[name] = touched.get(name, 0) | 1 << index
    above, below, after = [0] * count, [0] * count, [0] * count
    for index in range(count):
        for other in bits(before[index]):
            above[index] |= above[other] | 1 << other
            after[other] |= 1 << index
    for index in reversed(range(count)):
        for other in bits(after[index]):
            below[index] |= below[other] | 1 << other
    for name in {owner[n] for n in graph.inputs} - constant_size - set(touched):
        touched[name] = 0
    net = Network(
        owners,
        {name: graph.tensors[name].bytes for name in touched},
        touched,
        frozenset(owner[n] for n in graph.inputs) - constant_size,
        frozenset(owner[n] for n in graph.outputs if n in owner) - constant_size,
        scratch or [0] * count,
        saved,
        sum(graph.tensors[name].bytes for name in constant_size),
        before,
        after,
        above,
        below,
    )
    if saved:
        net.steady = all(_saved(net, index, above[index]) == most_saved(net, index) for index in range(count))
    net.cuts = _cuts(net)
    return net


def _saved(net: Network, index: int, done: int) -> int:
    """Return bytes that the step of an op saves when exactly `done` has run before it."""
    if net.saved is None:
        return 0
    done |= 1 << index
    return net.saved(index, frozenset(n for n in net.owners[index] if n not in net.outputs and not net.touched[n] & ~done))


def most_saved(net: Network, index: int) -> int:
    """Return the bytes that the step of an op saves when all that may run before it has."""
    return _saved(net, index, net.everything & ~net.below[index])


def _cuts(net: Network) -> list[int]:
    """Return the sets that every order passes through: before and after each op that precedes or follows all others."""
    cuts = {0, net.everything}
    for index, (above, below) in enumerate(zip(net.above, net.below, strict=True)):
        if above.bit_count() + below.bit_count() + 1 == len(net.owners):
            cuts |= {above, above | 1 << index}
    return sorted(cuts, key=int.bit_count)


def live_after(net: Network, done: int) -> int:
    """Return bytes alive when exactly the ops in `done` have run."""
    total = net.always
    for name, mask in net.touched.items():
        if (name in net.inputs or mask & done) and (name in net.outputs or mask & ~done):
            total += net.size[name]
    return total


def effect_of(net: Network, run: OpSequence, done: int) -> tuple[int, int]:
    """Return what running `run` after `done` needs beyond the bytes alive before it, and by how much it changes them."""
    key = done & run.relevant
    if (known := run.effects.get(key)) is not None:
        return known
    need, change = 0, 0
    for index in run.ops:
        bit = 1 << index
        born = freed = 0
        for name in net.owners[index]:
            mask = net.touched[name]
            if name not in net.inputs and not mask & done:
                born += net.size[name]
            if name not in net.outputs and not mask & ~(done | bit):
                freed += net.size[name]
        need = max(need, change + born + net.scratch[index] - _saved(net, index, done))
        change += born - freed
        done |= bit
    run.effects[key] = need, change
    return need, change


def run_of(net: Network, ops: tuple[int, ...], before: int, after: int) -> OpSequence:
    mask = sum(1 << index for index in ops)
    relevant = 0
    for index in ops:
        for name in net.owners[index]:
            relevant |= net.touched[name]
    return OpSequence(ops, mask, before, after, relevant & ~mask)


def runs_of(net: Network) -> list[OpSequence]:
    """Return the ops, joined where an order never gains from running others between them."""
    runs = {index: run_of(net, (index,), net.before[index], net.after[index]) for index in range(len(net.owners))}
    part = {i: number for number, (low, high) in enumerate(pairwise(net.cuts)) for i in bits(high & ~low)}
    home = list(runs)  # op -> key of its run
    work = list(reversed(runs))
    while work:
        key = work.pop()
        if key not in runs:
            continue
        first = runs[key]
        for other in sorted({home[index] for index in bits(first.after)}):
            second = runs[other]
            if part[first.ops[0]] != part[second.ops[0]] or not _joins(net, first, second):
                continue
            mask = first.mask | second.mask
            joined = run_of(
                net, first.ops + second.ops, (first.before | second.before) & ~mask, (first.after | second.after) & ~mask
            )
            del runs[other]
            runs[key] = joined
            for index in second.ops:
                home[index] = key
            work += [key, *{home[index] for index in bits(joined.before)}]
            break
    return sorted(runs.values(), key=lambda run: run.ops[0])


def _joins(net: Network, first: OpSequence, second: OpSequence) -> bool:
    """Whether `second` may always follow `first` at once: it only lowers memory then, or `first` is best delayed until it.

    Needs and changes fall when more has run before: the least and the most that can have run give their limits.
    """
    above, above_second = _all(net.above, first), _all(net.above, second) & ~second.mask
    others = net.everything & ~_all(net.below, first) & ~first.mask
    most_need, most_change = effect_of(net, first, above & ~first.mask)
    least_need, least_change = effect_of(net, first, others)
    if not above_second & ~(above | first.mask):
        need, change = effect_of(net, second, above_second)
        if change <= 0 and most_change + need <= least_need:
            return True
    if first.after & ~second.mask or least_change < 0:
        return False
    if not net.steady and first.relevant & ~above & ~_all(net.below, second) & ~second.mask:
        return False  # delaying `first` would keep bytes from others that overlap them
    later = net.everything & ~_all(net.below, second) & ~second.mask
    return most_need <= least_change + effect_of(net, second, later)[0]


def _all(relation: list[int], run: OpSequence) -> int:
    mask = 0
    for index in run.ops:
        mask |= relation[index]
    return mask


def least_step_bytes(net: Network) -> list[int]:
    """Return per op the bytes that its step needs in every order: of owners that ops before it begin and ops after it touch."""
    step_bytes = [net.always + bytes_ for bytes_ in net.scratch]
    for name, mask in net.touched.items():
        begun = net.everything if name in net.inputs else mask
        wanted = net.everything if name in net.outputs else mask
        for index in bits(mask):
            begun |= net.below[index]
            wanted |= net.above[index]
        for index in bits(begun & wanted):
            step_bytes[index] += net.size[name]
    return [need - most_saved(net, index) for index, need in enumerate(step_bytes)]
