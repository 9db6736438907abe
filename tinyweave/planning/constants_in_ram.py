"""Constants in RAM: choose the arrays that `init` copies from Flash, and add their copies to the arena.

In: a plan, its arrays of constants, the bytes of RAM that are free. Out: the plan with copies. The cycles that a copy saves are
those of the model of Flash (`FlashReads`), which has no wait states for RAM. Constants that a callback reads are copies, too,
which are alive in the step that needs them, and from the step on in which their read begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..ir import Graph
from ..kernels.layer_cycles import FlashReads
from .fuse.rematerialise import reads_by_channel
from .fuse.row_schedule import rules_of
from .kernels.cycles import cycles_per_op
from .place.place import place
from .plan import Buffer, Plan, copy_name

MOST_COLUMNS = 1 << 16  # of the knapsack's table; with more free RAM, sizes are rounded up to a larger unit
AT_ONCE = 16  # channels; kernels compute 2, 4, 8 or 16 at a time
MOST_ARRAYS = 5  # of an op, the largest, of which all subsets are tried
FILE_HEAD = 64  # bytes of a file of weights before its arrays


class Constant(NamedTuple):
    """An array of constants that kernels read from Flash."""

    name: str  # of the C array
    bytes: int
    align: int  # bytes of an element, at least those of a word
    ops: tuple[str, ...]  # names of the ops whose kernels read it; "" stands for functions besides `invoke`


def with_copies(plan: Plan, constants: Sequence[Constant], memory: str) -> Plan:
    """Return an unchecked plan whose `memory` also holds copies of constants, above all other buffers.

    They are alive in all steps, so that no other place needs less RAM, except for the alignment.
    """
    align = max([b.align for b in plan.buffers] + [each.align for each in constants], default=1)
    end, offsets, last = plan.arena.get(memory, 0), dict[str, int](), len(plan.stages)
    for each in sorted(constants, key=lambda each: (each.bytes % align > 0, -each.bytes)):  # gaps only between the last
        offsets[copy_name(each.name)] = at = -(-end // align) * align
        end = at + each.bytes
    return replace(
        plan,
        buffers=(*plan.buffers, *(Buffer(copy_name(each.name), each.bytes, 0, last, align, memory) for each in constants)),
        offsets={**plan.offsets, **offsets},
        arena={**plan.arena, memory: end},
        lower_bound=plan.lower_bound + sum(each.bytes // align * align for each in constants),
        copies={each.name: each.ops for each in constants},
    )


def with_fetches(plan: Plan, constants: Sequence[Constant], memory: str, *, early: bool = False) -> Plan:
    """Return an unchecked plan in which a callback reads the constants of a file: those of a step into `memory` before it.

    If `early`, the read of a step begins in the step of the read before, and runs while layers compute.

    All buffers of the memory are placed again. The arrays of a step, in the order of the file, are one buffer for the
    placement, so that one call reads them. Arrays that functions besides `invoke` read are kept in all steps.
    """
    step_of = _steps(plan)
    groups: dict[int, list[Constant]] = {}
    for each in constants:
        groups.setdefault(-1 if "" in each.ops else step_of[each.ops[0]], []).append(each)
    joined, inside = list[Buffer](), dict[str, list[tuple[Constant, int]]]()
    for step, arrays in groups.items():
        name, end, align = copy_name(arrays[0].name), 0, max(each.align for each in arrays)
        inside[name] = []
        for each in arrays:
            inside[name].append((each, at := -(-end // each.align) * each.align))
            end = at + each.bytes
        before = max((other for other in groups if other < step), default=0) if early else step
        span = (0, len(plan.stages)) if step < 0 else (max(0, before), step + 1)
        joined.append(Buffer(name, end, *span, align, memory))
    there = {b.name: b for b in plan.buffers if b.memory == memory}
    placed = place(
        [*there.values(), *joined], {pair: least for pair, least in rules_of(plan).items() if {*pair} <= there.keys()}
    )
    offsets, copies = {**plan.offsets, **placed.offsets}, list[Buffer]()
    for block in joined:
        for each, at in inside[block.name]:
            offsets[copy_name(each.name)] = placed.offsets[block.name] + at
            copies.append(replace(block, name=copy_name(each.name), bytes=each.bytes, align=each.align))
    return replace(
        plan,
        buffers=(*plan.buffers, *copies),
        offsets=offsets,
        arena={**plan.arena, memory: placed.bytes},
        lower_bound=placed.lower_bound if there.keys() == plan.offsets.keys() else 0,
        copies={each.name: each.ops for each in constants},
        weights_file=True,
    )


def _steps(plan: Plan) -> dict[str, int]:
    """Return the step of each op, by name."""
    return {plan.graph.ops[index].name: step for step, stage in enumerate(plan.stages) for index in stage.ops}


def channels_at_once(plan: Plan, graph: Graph, room: int) -> dict[str, int]:
    """Return how many channels of which outputs of `graph` to compute at a time, if the constants of all exceed `room` bytes.

    `plan` reads them before the step, which runs one op. Its other buffers stay; pieces of a map are joined by a copy.
    """
    found = dict[str, int]()
    for step, stage in enumerate(plan.stages):
        op = plan.graph.ops[stage.ops[0]]
        over, out = plan.live(step) - room, plan.graph.tensors[op.outputs[0]]
        known = graph.producer.get(out.name)
        if over <= 0 or stage.schedule or known is None or not reads_by_channel(graph, graph.ops[known]):
            continue
        size, channels = plan.copied.get(stage.ops[0], 0), out.shape[-1]
        most = (size - over - out.bytes) * channels // max(size, 1) // AT_ONCE
        if most > 0:
            found[out.name] = -(-channels // -(-channels // (most * AT_ONCE)) // AT_ONCE) * AT_ONCE
    return {name: count for name, count in found.items() if count < graph.tensors[name].shape[-1]}


class Fetch(NamedTuple):
    """One call of the callback that reads a file of weights, to the copies of arrays that are neighbours."""

    arrays: tuple[str, ...]  # C names, in the order of the file
    offset: int  # in the file
    bytes: int
    start: int  # step before which the call begins, at the latest the step that reads the arrays


def fetches(plan: Plan) -> dict[int, list[Fetch]]:
    """Return the calls of the callback for each step that has constants, and under -1 those of `init`; {} without callback.

    One call reads the arrays of a step that are as far apart in RAM as in the file. Steps are in order of execution.
    """
    if not plan.fetches:
        return {}
    found: dict[int, list[Fetch]] = {}
    step_of = _steps(plan)
    copies = {name: plan.buffer(copy_name(name)) for name in plan.copies}
    places = file_offsets((name, copy.bytes, copy.align) for name, copy in copies.items())
    for name, copy in copies.items():
        offset, reads = places[name], found.setdefault(step_of.get(plan.copies[name][0], -1), [])
        if reads:
            last, before = reads[-1], copies[reads[-1].arrays[0]]
            apart = offset - last.offset  # fewer than 4 bytes between two arrays are padding, in which no buffer begins
            is_next = plan.offsets[copy.name] - plan.offsets[before.name] == apart < last.bytes + 4
            if is_next and (copy.memory, copy.start) == (before.memory, before.start):
                reads[-1] = last._replace(arrays=(*last.arrays, name), bytes=apart + copy.bytes)
                continue
        reads.append(Fetch((name,), offset, copy.bytes, copy.start))
    return dict(sorted(found.items()))


def read_sizes(plan: Plan) -> list[int]:
    """Return the bytes of each call of the callback in one inference."""
    return [read.bytes for step, reads in fetches(plan).items() if step >= 0 for read in reads]


def with_early_fetches(plan: Plan) -> Plan:
    """Return an unchecked plan whose reads of a file begin in earlier steps, while other layers compute, if RAM is free there.

    A read begins at the earliest in the step of the read before, which the model waits for. It moves to the lowest free place
    for its longer lifetime, if there is one below the end of the arena. Other buffers do not move.
    """
    buffers, offsets, before = {buffer.name: buffer for buffer in plan.buffers}, dict(plan.offsets), 0
    runs = [any(plan.variants[index] for index in stage.ops) for stage in plan.stages]
    for step, reads in fetches(plan).items():
        for read in reads:
            copies = [buffers[copy_name(array)] for array in read.arrays]
            first, align = offsets[copies[0].name], max(copy.align for copy in copies)
            memory = copies[0].memory
            others = [b for b in buffers.values() if b.memory == memory and b not in copies]
            for start in (start for start in range(before, read.start) if any(runs[start : read.start])):
                at = first % align
                for other in sorted((b for b in others if b.start <= step and start < b.end), key=lambda b: offsets[b.name]):
                    if at + read.bytes <= offsets[other.name]:
                        break
                    end = offsets[other.name] + other.bytes
                    at = max(at, end + (first - end) % align)
                if at + read.bytes <= plan.arena[memory]:
                    offsets |= {copy.name: offsets[copy.name] + at - first for copy in copies}
                    buffers |= {copy.name: replace(copy, start=start) for copy in copies}
                    break
        before = max(step, 0)
    return replace(plan, buffers=tuple(buffers.values()), offsets=offsets, arena=_ends(plan, plan.buffers, offsets))


def _ends(plan: Plan, buffers: Iterable[Buffer], offsets: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes of each memory of a plan up to the end of its last buffer."""
    return {each: max((offsets[b.name] + b.bytes for b in buffers if b.memory == each), default=0) for each in plan.arena}


def file_offsets(arrays: Iterable[tuple[str, int, int]]) -> dict[str, int]:
    """Return the offset in a file of weights of each array (name, bytes, alignment); the key "" has the bytes of the file."""
    found, end = dict[str, int](), FILE_HEAD
    for name, size, align in arrays:
        found[name] = end = -(-end // align) * align
        end += size
    return found | {"": -(-end // 4) * 4}


def without_copies(plan: Plan) -> Plan:
    """Return an unchecked plan in which all constants stay in Flash; its lower bound is unknown, 0."""
    if not plan.copies:
        return plan
    names = set(map(copy_name, plan.copies))
    buffers = tuple(buffer for buffer in plan.buffers if buffer.name not in names)
    offsets = {buffer.name: plan.offsets[buffer.name] for buffer in buffers}
    return replace(plan, buffers=buffers, offsets=offsets, arena=_ends(plan, buffers, offsets), lower_bound=0, copies={})


def worth_copying(
    plan: Plan, constants: Sequence[Constant], room: int | None, core: str, reads: FlashReads | None
) -> list[Constant]:
    """Return the constants whose copies save the most estimated cycles within `room` bytes of RAM; None is no limit.

    A knapsack is solved in which each op has one item per subset of its arrays, because the cache holds what is left in Flash
    if it is small. The ops' cycles are added, as if the constants of an op evicted those of another op from the cache as often
    as before. Arrays that several ops read follow while there is room, the most cycles per byte first. If all constants of a
    slow Flash fit, all are copied, also those that the model keeps in the cache: it does not know which code evicts them there
    (bench/flash_reads.py), and without them emulated runs were up to 10 % slower.
    """
    if reads is None:
        return []
    number = {op.name: index for index, op in enumerate(plan.graph.ops)}

    def cycles(chosen: Iterable[Constant]) -> dict[int, float]:
        copied = Counter[int]()
        for each in chosen:
            copied.update({number[name]: each.bytes for name in each.ops})
        return {index: count or 0.0 for index, count in cycles_per_op(plan, core, reads, copied).items()}

    before = cycles(())
    align = max([b.align for b in plan.buffers] + [each.align for each in constants], default=1)
    padded = {each: -(-each.bytes // align) * align for each in constants}
    total = sum(padded.values())
    room = total if room is None else max(0, room - align)  # the arena's end is not aligned
    if total <= room and reads.apart:
        return list(constants)
    own = _subsets([each for each in constants if len(each.ops) == 1])
    items: list[list[Item]] = [[(0, 0.0, ())] for _ in own]
    for subset_number in range(max(map(len, own), default=0)):
        subsets = [subsets[subset_number] if subset_number < len(subsets) else () for subsets in own]
        after = cycles(each for subset in subsets for each in subset)
        for choices, subset in zip(items, subsets, strict=True):
            if subset:
                at = number[subset[0].ops[0]]
                choices.append((sum(map(padded.__getitem__, subset)), before[at] - after[at], subset))
    chosen = _knapsack(items, room, align)
    whole, shared = sum(cycles(chosen).values()), [each for each in constants if len(each.ops) > 1]
    gains = [((whole - sum(cycles([*chosen, each]).values())) / each.bytes, each) for each in shared]
    left = room - sum(map(padded.__getitem__, chosen))
    for gain, each in sorted(gains, reverse=True):
        if gain > 0 and padded[each] <= left:
            chosen.append(each)
            left -= padded[each]
    return chosen


Item = tuple[int, float, tuple[Constant, ...]]
"""Bytes of RAM, cycles saved, and the constants of one op that are copied."""


def _subsets(constants: Sequence[Constant]) -> list[list[tuple[Constant, ...]]]:
    """Return, for each op that has constants of its own, the subsets of its largest ones that are not empty."""
    by_op: dict[str, list[Constant]] = {}
    for each in constants:
        by_op.setdefault(each.ops[0], []).append(each)
    largest = [sorted(arrays, key=lambda each: -each.bytes)[:MOST_ARRAYS] for arrays in by_op.values()]
    return [[subset for size in range(1, len(arrays) + 1) for subset in combinations(arrays, size)] for arrays in largest]


def _knapsack(ops: Sequence[Sequence[Item]], room: int, unit: int) -> list[Constant]:
    """Return the constants of the items, at most one per op, that save the most cycles within `room` bytes.

    Sizes are rounded up to multiples of `unit`, or of more if the table would have more than MOST_COLUMNS columns.
    """
    most = [max(items, key=lambda item: (item[1], -item[0])) for items in ops]
    if sum(size for size, _, _ in most) <= room:
        return [each for _, _, constants in most for each in constants]
    unit = max(unit, -(-room // MOST_COLUMNS))
    columns = room // unit + 1
    best, taken = np.zeros(columns), list[np.ndarray]()
    for items in ops:
        after, pick = best.copy(), np.zeros(columns, np.int8)
        for index, (size, gain, _) in enumerate(items):
            at = -(-size // unit)
            if at < columns:
                better = (other := best[: columns - at] + gain) > after[at:]
                after[at:][better], pick[at:][better] = other[better], index
        best = after
        taken.append(pick)
    column, chosen = columns - 1, list[Constant]()
    for items, pick in zip(reversed(ops), reversed(taken), strict=True):
        size, _, constants = items[pick[column]]
        column -= -(-size // unit)
        chosen += constants
    return chosen
