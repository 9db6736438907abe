"""A network over a window of frames becomes one that takes a hop of new frames and computes only what they change.

In: a graph whose one input is the window, and a hop. Out: a TimeStream, with the graph of one call. A map's steady rows (see
`in_time`) were there at the call before, further down: those that are needed again are kept as state, the newest are computed
(`time_rows`). What padding at the window's ends makes is computed anew at each call: rows at the top, in an op of their own,
and those at the bottom with the new rows. State begins as a window of zero points leaves it, so that every call equals the
network on its window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..ir import CompileError, Graph, Op, Tensor, array_type, rebuild, verify
from ..ops import check, macs, macs_per_op, run
from ..ops.layout import paddings
from .in_time import PADDING, VIEWS, WINDOWED, InTime, Reading, resized, window_of
from .rewrite import constant, integers, unused
from .time_rows import CallRows, Choices, Followed, choose, follow, read_rows, rows_of, suited_hop

WHOLE = "nothing can be kept from one call to the next"


@dataclass(frozen=True)
class StreamedLayer:
    """What becomes of one layer: of its `rows`, `top` and `new` are computed at each call, `kept` are in `bytes` of state.

    stride: frames from row to row. macs: of a call, and of the whole window. why: what keeps it from computing new rows alone;
    None where nothing does. rows and stride are None of a layer that has no rows in time.
    """

    name: str
    kind: str
    rows: int | None
    stride: int | None
    top: int
    new: int
    kept: int
    bytes: int
    macs: int
    macs_window: int
    why: str | None


@dataclass(frozen=True, eq=False)
class TimeStream:
    """A network that takes its window hop by hop. graph: of one call. window: of the whole window. time: how its input lies."""

    graph: Graph
    window: Graph
    time: InTime
    hop: int
    layers: tuple[StreamedLayer, ...]

    @property
    def frames(self) -> int:
        """Return how many frames the window has."""
        return self.time.rows

    @property
    def calls_until_full(self) -> int:
        """Return how many calls bring the frames of a whole window."""
        return -(-self.frames // self.hop)

    @property
    def state_bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.graph.tensors.values() if tensor.role == "state")

    def windows(self, calls: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Return the window that the network sees at each call, from the inputs of the calls one after the other."""
        axis, size = self.time.axis, self.frames * self.time.unit
        now, seen = silence(self.window), []
        for (new,) in calls:
            now = np.concatenate([now, new], axis)
            now = now[(slice(None),) * axis + (slice(now.shape[axis] - size, None),)]
            seen.append([np.ascontiguousarray(now)])
        return seen


def silence(graph: Graph) -> np.ndarray:
    """Return an input of zero points, of a float input of 0."""
    x = graph.tensors[graph.inputs[0]]
    is_quantised = x.quant is not None and x.dtype != "float32"
    return np.full(x.shape, x.zero_point if is_quantised else 0, array_type(x.dtype))


def stream_time(graph: Graph, hop: int | None = None) -> TimeStream:
    """Return the network that takes `hop` frames at a call; if left out, as many as its strides in time suggest.

    Raise CompileError where no layer's work becomes less, with the reason.
    """
    time = window_of(graph)
    if isinstance(time, str):
        raise CompileError(f"{WHOLE}: {time}", "leave out --stream-time")
    net = follow(graph, time, hop)
    if net.hop >= time.rows:
        what = f"with a hop of {net.hop} frames two windows of {time.rows} share none"
        raise CompileError(f"{WHOLE}: {what}", "give --stream-time fewer frames, or leave it out")
    chosen = choose(net)
    rows = rows_of(net, chosen)
    step = _rewritten(net, rows)
    layers = _layers(net, rows, chosen, step)
    if macs(step) >= macs(graph):
        raise _nothing_kept(net, layers)
    return TimeStream(step, graph, time, net.hop, layers)


def _nothing_kept(net: Followed, layers: Sequence[StreamedLayer]) -> CompileError:
    """Return the error for a network whose layers have no less to do."""
    suited = suited_hop(net.times)
    hint = f"give --stream-time {suited}, or leave it out" if net.hop % suited else "leave out --stream-time"
    if net.hop % suited == 0 and any(1 < time.steady <= net.shift(name) for name, time in net.times.items()):
        hint = "give --stream-time fewer frames, or leave it out"
    if {layer.why for layer in layers if layer.rows is not None and layer.macs_window} == {None}:
        return CompileError(
            f"{WHOLE}: after {net.hop} frames all rows of its layers are new", "give --stream-time fewer frames"
        )
    name, why = next(((layer.name, layer.why) for layer in layers if layer.why), (layers[0].name, "there is no work to save"))
    return CompileError(f"{WHOLE}: layer {name}: {why}", hint)


class _Step:
    """The graph of one call, as it grows: ops, tensors, and where the rows of each map of the window lie."""

    def __init__(self, net: Followed, rows: Mapping[str, CallRows]) -> None:
        self.net, self.graph, self.times, self.rows = net, net.graph, net.times, rows
        self.ops: list[Op] = []
        self.init: list[Op] = []
        self.tensors = dict(net.graph.tensors)
        self.pieces: dict[str, list[tuple[int, int, str]]] = {}
        self.quiet = run(net.graph, {net.graph.inputs[0]: silence(net.graph)}, keep=True)

    def add(self, op: Op, constants: Sequence[Tensor] = ()) -> None:
        self.ops.append(op)
        self.tensors |= {tensor.name: tensor for tensor in constants}

    def tensor(self, name: str, count: int, suffix: str) -> str:
        """Return the name of a new tensor of `count` rows of the map `name`; the map's own of all rows but old ones."""
        if count == self.rows[name].rows and suffix != "old":
            return name
        piece = unused(f"{name}:{suffix}", self.tensors)
        self.tensors[piece] = resized(self.graph.tensors[name], self.times[name], count, piece)
        return piece

    def label(self, name: str) -> str:
        """Return what ops for a map are called after: its op."""
        if name not in self.graph.producer:
            return "frames"
        op = self.graph.ops[self.graph.producer[name]]
        return op.name if len(op.outputs) == 1 else f"{op.name}_{op.outputs.index(name)}"

    def take(self, name: str, first: int, after: int) -> str:
        """Return a tensor of the rows [first, after) of a map."""
        holding = [p for p in self.pieces[name] if p[0] <= first and after <= p[1]]
        begin, end, piece = min(holding, key=lambda p: p[1] - p[0])
        if (begin, end) == (first, after):
            return piece
        cut = self.cut(piece, name, first - begin, (after - first, f"rows_{first}_{after}"))
        self.pieces[name].append((first, after, cut))
        return cut

    def cut(self, piece: str, name: str, first: int, part: tuple[int, str]) -> str:
        """Return a tensor of so many rows of a piece of a map, named so."""
        (count, suffix), time = part, self.times[name]
        out = self.tensor(name, count, suffix)
        op = Op(f"{self.label(name)}_{suffix}", "slice", (), (out,))
        begin = [first * time.unit if axis == time.axis else 0 for axis in range(len(self.tensors[out].shape))]
        where = integers(self.graph, op, "begin", begin), integers(self.graph, op, "size", self.tensors[out].shape)
        self.add(replace(op, inputs=(piece, *(tensor.name for tensor in where))), where)
        return out

    def is_moved_in_place(self, name: str) -> bool:
        """Return whether the state of a map has room for its new rows: they are then computed where the oldest were, once those
        that stay have moved down. Not where that would need much more state."""
        rows = self.rows[name]
        return name in self.graph.producer and not rows.top and rows.rows - rows.new <= rows.state

    def kept(self, name: str) -> str | None:
        """Return the rows of a map that come from the call before, read before new ones are computed; None without any."""
        rows, time, label = self.rows[name], self.times[name], self.label(name)
        if not rows.state:
            return None
        in_place, state = self.is_moved_in_place(name), f"{name}:state"
        old = self.tensor(name, rows.rows - rows.kept, "old") if in_place else self.tensor(name, rows.state, "kept")
        variable = replace(self.tensors[old], name=state, role="state")
        begin = Op(f"{label}_begin", "assign_variable", (), (state,))
        axis = (slice(None),) * time.axis
        steady = self.quiet[name][(*axis, slice(rows.kept * time.unit, (rows.kept + 1) * time.unit))]
        count = variable.shape[time.axis] // time.unit
        initial = constant(self.graph, begin, "initial", np.concatenate([steady] * count, time.axis), variable.quant)
        self.tensors |= {state: variable, initial.name: initial}
        self.init.append(replace(begin, inputs=(initial.name,)))
        self.add(Op(f"{label}_{'old' if in_place else 'kept'}", "read_variable", (state,), (old,)))
        return self.cut(old, name, self.net.shift(name), (rows.state, "kept")) if in_place else old

    def keep(self, name: str, kept: str | None, top: str | None, new: str) -> None:
        """Give a map its rows: those computed, joined with those kept; state takes what the next call needs of them."""
        rows, time, label = self.rows[name], self.times[name], self.label(name)
        self.pieces[name] = [(rows.new, rows.rows, new)] + ([(0, rows.top, top)] if top else [])
        if not kept:
            return
        parts = (top, kept, new) if top and rows.top == rows.kept else (kept, new)
        first = rows.kept if parts[0] == kept else 0
        joined = self.tensor(name, rows.rows - first, "joined")
        self.add(Op(f"{label}_joined", "concatenation", parts, (joined,), {"axis": time.axis, "activation": "none"}))
        self.pieces[name].append((first, rows.rows, joined))
        later = joined
        if not self.is_moved_in_place(name):
            later = self.cut(joined, name, rows.kept - first + self.net.shift(name), (rows.state, "later"))
        self.add(Op(f"{label}_keep", "assign_variable", (later,), (f"{name}:state",)))


def _rewritten(net: Followed, rows: Mapping[str, CallRows]) -> Graph:
    """Return the graph of one call."""
    step, graph, source = _Step(net, rows), net.graph, net.graph.inputs[0]
    new = f"{source}:new"
    step.tensors[new] = resized(graph.tensors[source], net.times[source], net.hop, new)
    step.keep(source, step.kept(source), None, new)
    for op in graph.ops:
        if isinstance(net.readings[op.name], str):
            inputs = (step.take(x, 0, rows[x].rows) if x is not None and x in rows else x for x in op.inputs)
            step.add(replace(op, inputs=tuple(inputs)))
            continue
        part, kept = rows[op.outputs[0]], [step.kept(name) for name in op.outputs]
        top = _part(step, op, (0, part.top), "top") if part.top else (None,) * len(op.outputs)
        newest = _part(step, op, (part.new, part.rows), "new")
        for name, old, above, below in zip(op.outputs, kept, top, newest, strict=True):
            step.keep(name, old, above, below)
    outputs = tuple(step.take(name, 0, rows[name].rows) if name in rows else name for name in graph.outputs)
    whole = replace(graph, tensors=step.tensors)
    return check(verify(rebuild(whole, inputs=(new,), outputs=outputs, ops=tuple(step.ops), init=tuple(step.init))))


def _part(step: _Step, op: Op, span: tuple[int, int], suffix: str) -> tuple[str, ...]:
    """Add the op for the rows `span` of its outputs, [first, after); return their names."""
    found, (first, after) = step.net.readings[op.name], span
    assert isinstance(found, Reading)
    window, axis = found.window, found.outputs[0].axis
    operands = [name for name in op.inputs if name is not None and name in step.times]
    size = step.times[operands[0]].rows
    taken = {name: step.take(name, *read_rows(window, first, after, size)) for name in operands}
    outputs = tuple(step.tensor(name, after - first, suffix) for name in op.outputs)
    inputs = tuple(name if name is None else taken.get(name, name) for name in op.inputs)
    part = replace(op, name=op.name if suffix == "new" else f"{op.name}_{suffix}", inputs=inputs, outputs=outputs)
    begin, end = first * window.stride - window.pad, (after - 1) * window.stride - window.pad + window.extent
    ends, constants = (max(-begin, 0), max(end - size, 0)), []
    is_whole = after - first == found.outputs[0].rows
    if not is_whole and op.kind in VIEWS:
        constants = [integers(step.graph, part, "shape", step.tensors[outputs[0]].shape)]
        part = replace(part, kind="reshape", inputs=(inputs[0], constants[0].name), attrs={"new_shape": None})
    elif not is_whole and op.kind in WINDOWED:
        padding = tuple(ends if i == axis - 1 else pair for i, pair in enumerate(op.attrs["padding"]))
        part = replace(part, attrs={**op.attrs, "padding": padding})
    elif not is_whole and op.kind in PADDING:
        pairs = [ends if i == axis else pair for i, pair in enumerate(paddings(step.graph, op))]
        constants = [integers(step.graph, part, "paddings", pairs)]
        part = replace(part, inputs=(inputs[0], constants[0].name, *inputs[2:]))
    step.add(part, constants)
    return outputs


def _layers(net: Followed, rows: Mapping[str, CallRows], chosen: Choices, step: Graph) -> tuple[StreamedLayer, ...]:
    """Return what became of each layer."""
    now = dict(zip((op.name for op in step.ops), macs_per_op(step, clipped=True), strict=True))
    layers = []
    for op, whole in zip(net.graph.ops, macs_per_op(net.graph, clipped=True), strict=True):
        taken, found, out = now[op.name] + now.get(f"{op.name}_top", 0), net.readings[op.name], op.outputs[0]
        if isinstance(found, str):
            layers.append(StreamedLayer(op.name, op.kind, None, None, 0, 0, 0, 0, taken, whole, found))
            continue
        part, stride = rows[out], net.times[out].stride
        size = sum(step.tensors[f"{name}:state"].bytes for name in op.outputs if rows[name].state)
        counts = part.top, part.rows - part.new, part.state, size
        layers.append(StreamedLayer(op.name, op.kind, part.rows, stride, *counts, taken, whole, _why(net, out, part, chosen)))
    return tuple(layers)


def _why(net: Followed, name: str, rows: CallRows, chosen: Choices) -> str | None:
    """Return why a layer computes more rows than are new, None where it does not."""
    time, shift = net.times[name], net.shift(name)
    if not shift:
        return f"its rows are {time.stride} frames apart: a hop of a multiple of {time.stride} frames would keep some"
    if rows.computed <= shift:
        return None
    if not time.steady:
        return "padding: all its rows depend on where the window lies"
    if time.steady <= shift:
        return f"a hop brings {shift} rows; only {time.steady} do not depend on where the window lies"
    if chosen.get(name) == "anew":
        return "what that would save is not worth its state"
    ends = time.rows - time.steady
    return f"padding: {ends} rows depend on where the window lies" if ends else "layers after it read these rows at both ends"
