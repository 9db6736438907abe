"""Choose which rows of each map a network streamed in time computes at a call, and which it keeps as state.

From the outputs backwards, each op demands the input rows that its computed rows read: at the top of the window for padding, at
the bottom for new rows and padding. Rows in between, which are steady (see `time_axis`), are kept as state.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm
from typing import NamedTuple

from ..ir import Graph
from ..ops import SPECS, macs_per_op
from ..ops.window import Window
from .attention.bands import Band, attention_bands
from .time_axis import Reading, TimeAxis, reading, rows_that_read

MAX_TRIALS = 1 << 16  # limit of (maps whose choice is tried) * (ops of the graph); a file may have very many of both
# map -> "long" to keep all its steady rows, even rows that are needed at the top only, or "anew" to keep none and compute all;
# a map that is not listed keeps as few rows as possible
Choices = Mapping[str, str]


class CallRows(NamedTuple):
    """A call computes the rows [0, top) and [new, rows) of a map; rows [kept, new) are state, and others are not needed."""

    top: int
    kept: int
    new: int
    rows: int

    @property
    def computed(self) -> int:
        """The number of rows that a call computes."""
        return self.top + self.rows - self.new

    @property
    def state(self) -> int:
        """The number of rows that a call takes from the state of the previous call."""
        return self.new - self.kept


class Followed(NamedTuple):
    """A graph on a window of frames, analysed along the time axis, for calls that advance by `hop` frames.

    `readings` has how each op reads rows, or why that is unknown. `bands` has the rows that ops of attention heads see.
    """

    graph: Graph
    times: Mapping[str, TimeAxis]
    readings: Mapping[str, Reading | str]
    hop: int  # frames per call
    bands: Mapping[str, Band]

    def shift(self, name: str) -> int:
        """Return by how many rows the contents of the map `name` move towards its start per call; 0 if not by whole rows."""
        stride = self.times[name].stride
        return 0 if self.hop % stride else self.hop // stride

    def returned(self, name: str) -> tuple[int, int]:
        """Return the rows (first, after) of an output that a call returns: with attention the newest steady ones, else all.

        All are returned, too, of attention scores, and if every row is new, as in an output of only the last row.
        """
        time, shift = self.times[name], self.shift(name)
        is_whole = not self.bands or time.band is not None or time.rows <= shift
        return (0, time.rows) if is_whole else (time.after - shift, time.after)


def follow(graph: Graph, time: TimeAxis, hop: int | None) -> Followed:
    """Analyse a graph for calls that advance its input by `hop` frames; by default the smallest hop of whole rows."""
    times, readings, bands = {graph.inputs[0]: time}, dict[str, Reading | str](), attention_bands(graph)
    for op in graph.ops:
        found = readings[op.name] = reading(graph, op, times, bands.get(op.name))
        if isinstance(found, Reading):
            times |= dict(zip(op.outputs, found.outputs, strict=True))
    return Followed(graph, times, readings, hop or suited_hop(times), bands)


def suited_hop(times: Mapping[str, TimeAxis]) -> int:
    """Return the smallest hop, in frames, that moves every map with more than one steady (reusable) row by whole rows."""
    return lcm(*(time.stride for time in times.values() if time.steady > 1))


def rows_of(net: Followed, chosen: Choices) -> dict[str, CallRows]:
    """Return map name -> which rows of the map a call computes and which it keeps as state.

    `chosen` maps a map's name to "long" (keep all rows that the next call could reuse) or "anew" (keep none); others keep the
    rows that later ops read.
    """
    graph, times = net.graph, net.times
    top, bottom = dict.fromkeys(times, 0), {name: time.rows for name, time in times.items()}
    bottom |= {name: net.returned(name)[0] for name in graph.outputs if name in times}
    rows: dict[str, CallRows] = {}
    for op in reversed(graph.ops):
        found, operands = net.readings[op.name], [name for name in op.inputs if name in times and name is not None]
        if isinstance(found, str):
            bottom |= dict.fromkeys(operands, 0)
            continue
        # an op computes all of its outputs together: the same rows of each
        most, least = max(top[name] for name in op.outputs), min(bottom[name] for name in op.outputs)
        begin, end = rows_that_read(found.window, times[op.outputs[0]].rows, times[operands[0]].rows)
        most, least = max(most, begin + 1) if most else 0, min(least, end - 1)  # no part of padding only
        rows |= {name: _rows(net, name, most, least, chosen) for name in op.outputs}
        part = rows[op.outputs[0]]
        for name in operands:
            if part.top:
                top[name] = max(top[name], read_rows(found.of(op, name), 0, part.top, times[name].rows)[1])
            bottom[name] = min(bottom[name], read_rows(found.of(op, name), part.new, part.rows, times[name].rows)[0])
    name, count = graph.inputs[0], times[graph.inputs[0]].rows
    # each frame arrives once, so frames are kept until rows at the top have read them
    oldest = 0 if top[name] else min(bottom[name], count - net.hop)
    return rows | {name: CallRows(0, oldest, count - net.hop, count)}


def _rows(net: Followed, name: str, top: int, bottom: int, chosen: Choices) -> CallRows:
    """Return the CallRows of a map whose rows [0, top) and [bottom, rows) later ops read; `chosen` is as in `rows_of`."""
    time, shift, choice = net.times[name], net.shift(name), chosen.get(name)
    newest = time.after - shift
    if not shift or time.steady <= shift or time.band is not None or choice == "anew":
        return CallRows(0, 0, 0, time.rows) if top >= bottom else CallRows(top, bottom, bottom, time.rows)
    if top >= bottom or bottom < time.first or (choice == "long" and top > time.first):
        return CallRows(time.first, time.first, newest, time.rows)
    return CallRows(top, bottom, max(bottom, newest), time.rows)


def read_rows(window: Window, first: int, after: int, size: int) -> tuple[int, int]:
    """Return the range (first, after) of the `size` input rows that the output rows [first, after) read through `window`."""
    return max(window.first(first), 0), min(window.first(after - 1) + window.extent, size)


def choose(net: Followed) -> dict[str, str]:
    """Choose for each map of a streamed network how many rows are kept as state; return `chosen` for `rows_of`.

    A local search changes one choice at a time to lower the product of work per call and RAM (the largest map plus all state).
    """
    graph, work = net.graph, macs_per_op(net.graph, clipped=True)
    views = {op.outputs[0]: op.inputs[0] for op in graph.ops if SPECS[op.kind].family == "view"}
    sizes = [0 if op.outputs[0] in views else sum(tensor.bytes for tensor in graph.outputs_of(op)) for op in graph.ops]

    def cost(chosen: Choices) -> int:
        rows = rows_of(net, chosen)
        parts = [rows.get(op.outputs[0], WHOLE) for op in graph.ops]
        effort = 1 + sum(count * part.computed // part.rows for count, part in zip(work, parts, strict=True))
        largest = max((size * part.computed // part.rows for size, part in zip(sizes, parts, strict=True)), default=0)
        return effort * (largest + sum(graph.tensors[name].bytes * part.state // part.rows for name, part in rows.items()))

    chosen: dict[str, str] = {}
    best, maps = cost(chosen), [name for op in graph.ops for name in op.outputs if name in net.times]
    for name in maps[: MAX_TRIALS // len(graph.ops)] * 2:
        for choice in ("long", "anew", ""):
            changed = {**chosen, name: choice}
            if (now := cost(changed)) < best:
                best, chosen = now, changed
    # keep rows where they are computed, not in a view, so that new rows can be computed directly behind the kept ones
    for name in (name for name, source in views.items() if name in net.times and source in graph.producer):
        changed = {**chosen, name: "anew"}
        if (now := cost(changed)) <= best:
            best, chosen = now, changed
    return {name: choice for name, choice in chosen.items() if choice}


WHOLE = CallRows(0, 0, 0, 1)
