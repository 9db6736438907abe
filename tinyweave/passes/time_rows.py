"""Which rows of each map a network that takes its window hop by hop computes at a call, and which it keeps.

In: a graph, how its tensors lie in time, a hop. Out: per map its CallRows, enough for every output. From outputs back, each op
says which rows it reads for those that it computes: at the top of the window, where padding is, and at the bottom, where
padding and the new rows are. What is not new and does not depend on where the window lies is state.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm
from typing import NamedTuple

from ..ir import Graph
from ..ops import macs_per_op
from ..ops.window import Window
from .in_time import InTime, Reading, reading

MOST_LOOKS = 1 << 16  # maps whose choice is tried, times ops: a file may hold very many
Choices = Mapping[str, str]
"""Tensor -> "long", all its steady rows are kept, those that the top reads too, or "anew", none are; else as few as do."""


class CallRows(NamedTuple):
    """Which rows of a map a call has: [0, top) computed for the window's top, [kept, new) of state, [new, rows) computed."""

    top: int
    kept: int
    new: int
    rows: int

    @property
    def computed(self) -> int:
        return self.top + self.rows - self.new

    @property
    def state(self) -> int:
        """Return how many rows are kept from one call to the next."""
        return self.new - self.kept


class Followed(NamedTuple):
    """A graph followed through time, for a hop of so many frames.

    times: how its tensors lie. readings: per op what it reads, or why that is unknown.
    """

    graph: Graph
    times: Mapping[str, InTime]
    readings: Mapping[str, Reading | str]
    hop: int

    def shift(self, name: str) -> int:
        """Return how many new rows of a map a call brings; 0 where that is no whole number."""
        stride = self.times[name].stride
        return 0 if self.hop % stride else self.hop // stride


def follow(graph: Graph, time: InTime, hop: int | None) -> Followed:
    """Return how the tensors of a graph lie in time, from its input on.

    hop: if left out, the product of the strides in time above layers that have rows to keep.
    """
    times, readings = {graph.inputs[0]: time}, dict[str, Reading | str]()
    for op in graph.ops:
        found = readings[op.name] = reading(graph, op, times)
        if isinstance(found, Reading):
            times |= dict(zip(op.outputs, found.outputs, strict=True))
    return Followed(graph, times, readings, hop or suited_hop(times))


def suited_hop(times: Mapping[str, InTime]) -> int:
    """Return the least hop with which no layer that has rows to keep must compute them all."""
    return lcm(*(time.stride for time in times.values() if time.steady > 1))


def rows_of(net: Followed, chosen: Choices) -> dict[str, CallRows]:
    """Return the rows of each map that a call has."""
    graph, times = net.graph, net.times
    top, bottom = dict.fromkeys(times, 0), {name: time.rows for name, time in times.items()}
    bottom |= {name: 0 for name in graph.outputs if name in times}
    rows: dict[str, CallRows] = {}
    for op in reversed(graph.ops):
        found, operands = net.readings[op.name], [name for name in op.inputs if name in times and name is not None]
        if isinstance(found, str):
            bottom |= dict.fromkeys(operands, 0)
            continue
        # of several outputs an op computes the same rows
        most, least = max(top[name] for name in op.outputs), min(bottom[name] for name in op.outputs)
        rows |= {name: _rows(net, name, most, least, chosen) for name in op.outputs}
        part = rows[op.outputs[0]]
        for name in operands:
            if part.top:
                top[name] = max(top[name], read_rows(found.window, 0, part.top, times[name].rows)[1])
            bottom[name] = min(bottom[name], read_rows(found.window, part.new, part.rows, times[name].rows)[0])
    name, count = graph.inputs[0], times[graph.inputs[0]].rows
    # frames come once, so those that the top reads are kept until they are there
    oldest = 0 if top[name] else min(bottom[name], count - net.hop)
    return rows | {name: CallRows(0, oldest, count - net.hop, count)}


def _rows(net: Followed, name: str, top: int, bottom: int, chosen: Choices) -> CallRows:
    """Return the rows of a map of which [0, top) and [bottom, rows) are needed."""
    time, shift, choice = net.times[name], net.shift(name), chosen.get(name)
    newest = time.after - shift
    if not shift or time.steady <= shift or choice == "anew":
        return CallRows(0, 0, 0, time.rows) if top >= bottom else CallRows(top, bottom, bottom, time.rows)
    if top >= bottom or (choice == "long" and top > time.first):
        return CallRows(time.first, time.first, newest, time.rows)
    # `bottom` is no less than `first`: rows that are new in a later map read none that depend on the window's top
    return CallRows(top, bottom, max(bottom, newest), time.rows)


def read_rows(window: Window, first: int, after: int, size: int) -> tuple[int, int]:
    """Return which of `size` rows the rows [first, after) of an output read."""
    return max(window.first(first), 0), min(window.first(after - 1) + window.extent, size)


def choose(net: Followed) -> dict[str, str]:
    """Return the choices with the least product of work and bytes that one change at a time leads to."""
    graph, work = net.graph, macs_per_op(net.graph, clipped=True)
    sizes = [sum(tensor.bytes for tensor in graph.outputs_of(op)) for op in graph.ops]

    def cost(chosen: Choices) -> int:
        rows = rows_of(net, chosen)
        parts = [rows.get(op.outputs[0], WHOLE) for op in graph.ops]
        effort = 1 + sum(count * part.computed // part.rows for count, part in zip(work, parts, strict=True))
        largest = max((size * part.computed // part.rows for size, part in zip(sizes, parts, strict=True)), default=0)
        return effort * (largest + sum(graph.tensors[name].bytes * part.state // part.rows for name, part in rows.items()))

    chosen: dict[str, str] = {}
    best, maps = cost(chosen), [name for op in graph.ops for name in op.outputs if name in net.times]
    for name in maps[: MOST_LOOKS // len(graph.ops)] * 2:
        for choice in ("long", "anew", ""):
            changed = {**chosen, name: choice}
            if (now := cost(changed)) < best:
                best, chosen = now, changed
    return {name: choice for name, choice in chosen.items() if choice}


WHOLE = CallRows(0, 0, 0, 1)
