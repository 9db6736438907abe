"""Convert a network on a sliding window of frames, such as spectrogram frames, to one that computes only changed rows.

The new network takes a hop, the new frames. Rows along the time axis that only moved since the last call are kept as state, and
the newest are computed (`time_rows`); rows that depend on padding at the window's ends are recomputed at each call. The initial
state is that of a window of zero points, so every call returns what the original network returns on its window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..ir import CompileError, Graph, Op, Tensor, array_type, rebuild, verify
from ..ops import SPECS, check, macs, macs_per_op, run
from ..ops.layout import paddings
from .rewrite import constant, integers, unused
from .share_constants import share_constants
from .time_axis import DIFFERS, Reading, TimeAxis, resized, taken, window_of
from .time_rows import CallRows, Choices, Followed, choose, follow, read_rows, rows_of, suited_hop

NOTHING_KEPT = "no row can be kept from one call to the next"


@dataclass(frozen=True)
class StreamedLayer:
    """How a layer is streamed: of its `rows`, `top` and `new` (the bottom) are computed per call, `kept` rows are state."""

    name: str
    kind: str
    rows: int | None  # rows of the output; None if it has no time axis
    stride: int | None  # frames from one row to the next; None if the output has no time axis
    top: int
    new: int
    kept: int
    bytes: int  # size of its state
    macs: int  # multiply-accumulates of a call
    macs_window: int  # multiply-accumulates of the original network, on the whole window
    why: str | None  # why the layer computes more than its new rows; None if it computes only these


@dataclass(frozen=True, eq=False)
class TimeStream:
    """A network on a sliding window of frames that takes only the new frames, a hop, and keeps rows of its maps as state."""

    graph: Graph  # the network of one call: its input is a hop
    window: Graph  # the original network: its input is the whole window
    time: TimeAxis  # the time axis of the input of `window`
    hop: int  # frames per call
    layers: tuple[StreamedLayer, ...]
    returned: tuple[tuple[slice, ...], ...]  # for each output the part of the output of `window` that a call returns

    @property
    def frames(self) -> int:
        """The number of frames in the window."""
        return self.time.rows

    @property
    def calls_until_full(self) -> int:
        """The number of calls until the window holds no initial frames any more."""
        return -(-self.frames // self.hop)

    @property
    def state_bytes(self) -> int:
        """The total size of all state in bytes."""
        return sum(tensor.bytes for tensor in self.graph.tensors.values() if tensor.role == "state")

    def windows(self, calls: Sequence[Sequence[np.ndarray]], first: np.ndarray) -> list[list[np.ndarray]]:
        """Convert the inputs of successive calls to windows on which the original network agrees; before all is `first`."""
        axis, size = self.time.axis, self.frames * self.time.unit
        now, seen = first, []
        for (new,) in calls:
            now = np.concatenate([now, new], axis)
            now = now[(slice(None),) * axis + (slice(now.shape[axis] - size, None),)]
            seen.append([np.ascontiguousarray(now)])
        return seen

    @property
    def returns_new_rows(self) -> bool:
        """Whether an output has only the new rows of the original network's output."""
        return any(
            self.graph.tensors[name].shape != self.window.tensors[like].shape
            for name, like in zip(self.graph.outputs, self.window.outputs, strict=True)
        )

    def new_rows(self, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the part of each output of the original network that a call returns; with attention, its new rows."""
        return [np.ascontiguousarray(array[part]) for array, part in zip(outputs, self.returned, strict=True)]


def silence(graph: Graph) -> np.ndarray:
    """Return an input window filled with the zero point, or with 0 if the input is float."""
    x = graph.tensors[graph.inputs[0]]
    is_quantised = x.quant is not None and x.dtype != "float32"
    return np.full(x.shape, x.zero_point if is_quantised else 0, array_type(x.dtype))


def stream_time(graph: Graph, hop: int | None = None) -> TimeStream:
    """Convert a network on a window of frames to one that takes only the `hop` new frames per call and keeps rows as state.

    By default the hop is the smallest with which every layer that has reusable rows can keep them. Raise CompileError, with
    the reason, if no rows can be kept or if a call would need as many multiply-accumulates as the whole window.
    """
    time = window_of(graph)
    if isinstance(time, str):
        raise CompileError(f"{NOTHING_KEPT}: {time}", "leave out --stream-time")
    net = follow(graph, time, hop)
    if net.hop >= time.rows:
        what = f"with a hop of {net.hop} frames two windows of {time.rows} frames do not overlap"
        raise CompileError(f"{NOTHING_KEPT}: {what}", "give --stream-time fewer frames, or leave it out")
    _check_outputs(net)
    chosen = choose(net)
    rows = rows_of(net, chosen)
    step = _rewritten(net, rows)
    layers = _layers(net, rows, chosen, step)
    if macs(step) >= macs(graph):
        raise _nothing_kept(net, layers)
    return TimeStream(step, graph, time, net.hop, layers, tuple(_part_returned(net, name) for name in graph.outputs))


def _part_returned(net: Followed, name: str) -> tuple[slice, ...]:
    """Return the index of the part of an output of the original network that a call returns."""
    if name not in net.times:
        return ()
    time, (first, after) = net.times[name], net.returned(name)
    return (*(slice(None),) * time.axis, slice(first * time.unit, after * time.unit))


def _check_outputs(net: Followed) -> None:
    """Raise CompileError if a network with attention has an output of which a call cannot return whole, steady new rows."""
    for name in (name for name in net.graph.outputs if name in net.times and net.bands):
        time, shift = net.times[name], net.shift(name)
        if not shift:
            why = f"the rows of the output '{name}' are {time.stride} frames apart"
            raise CompileError(why, f"give --stream-time {time.stride} or a multiple of it")
        if net.returned(name) != (0, time.rows) and time.steady < shift:
            layer, band = max(net.bands.items(), key=lambda item: item[1].before + item[1].ahead)
            rows = f"{time.steady} of {time.rows} rows of the output '{name}' are independent of the position of the window"
            sees = f"attention in layer {layer} sees {band.before} rows before each row and {band.ahead} after it"
            what = "mask its scores with -inf, except for a band of few past rows, or export the network for more frames"
            raise CompileError(f"a call returns {shift} new row{'s' * (shift > 1)}, but {rows}, because {sees}", what)


def _nothing_kept(net: Followed, layers: Sequence[StreamedLayer]) -> CompileError:
    """Return the error for a network whose call needs as much work as the whole window, with a reason and another hop."""
    suited = suited_hop(net.times)
    hint = f"give --stream-time {suited}, or leave it out" if net.hop % suited else "leave out --stream-time"
    if net.hop % suited == 0 and any(1 < time.steady <= net.shift(name) for name, time in net.times.items()):
        hint = "give --stream-time fewer frames, or leave it out"
    if {layer.why for layer in layers if layer.rows is not None and layer.macs_window} == {None}:
        return CompileError(
            f"{NOTHING_KEPT}: {net.hop} frames change all rows of its layers", "give --stream-time fewer frames"
        )
    reasons = [(layer.name, layer.why) for layer in layers if layer.why]
    name, why = next(iter(reasons), (layers[0].name, "it has no work to save"))
    if positioned := [name for name, why in reasons if why == DIFFERS]:
        name, why = positioned[0], f"{DIFFERS}, as absolute positions do"
        hint = "add a bias to the scores that depends on the distance between two rows instead, or leave out --stream-time"
    return CompileError(f"{NOTHING_KEPT}: layer {name}: {why}", hint)


class _Step:
    """The graph of one call, one inference on a hop of new frames, while it is built op by op."""

    def __init__(self, net: Followed, rows: Mapping[str, CallRows]) -> None:
        self.net, self.graph, self.times, self.rows = net, net.graph, net.times, rows
        self.ops: list[Op] = []
        self.init: list[Op] = []
        self.tensors = dict(net.graph.tensors)
        # map -> tensors with some of its rows, each as (first row, row after the last, name of the tensor)
        self.pieces: dict[str, list[tuple[int, int, str]]] = {}
        # the values of all tensors for a window of zero points, which the initial state is taken from
        self.quiet = run(net.graph, {net.graph.inputs[0]: silence(net.graph)}, keep=True)

    def add(self, op: Op, constants: Sequence[Tensor] = ()) -> None:
        self.ops.append(op)
        self.tensors |= {tensor.name: tensor for tensor in constants}

    def tensor(self, name: str, span: tuple[int, int], suffix: str) -> str:
        """Add a tensor `<name>:<suffix>` for the rows `span`, and return its name; no tensor for all rows unless "old"."""
        if span == (0, self.rows[name].rows) and suffix != "old":
            return name
        piece = unused(f"{name}:{suffix}", self.tensors)
        self.tensors[piece] = resized(self.graph.tensors[name], self.times[name], span, piece)
        return piece

    def label(self, name: str) -> str:
        """Return the prefix for names of ops added for a map: the op that computes the map, or "frames" for the input."""
        if name not in self.graph.producer:
            return "frames"
        op = self.graph.ops[self.graph.producer[name]]
        return op.name if len(op.outputs) == 1 else f"{op.name}_{op.outputs.index(name)}"

    def take(self, name: str, first: int, after: int) -> str:
        """Return the name of a tensor with the rows [first, after) of the map `name`; add a slice if no such tensor exists."""
        holding = [p for p in self.pieces[name] if p[0] <= first and after <= p[1]]
        begin, end, piece = min(holding, key=lambda p: p[1] - p[0])
        if (begin, end) == (first, after):
            return piece
        cut = self.cut(piece, name, begin, (first, after, f"rows_{first}_{after}"))
        self.pieces[name].append((first, after, cut))
        return cut

    def cut(self, piece: str, name: str, origin: int, part: tuple[int, int, str]) -> str:
        """Slice `piece`, which holds rows from `origin` on; `part` is (first row, row after the last, suffix of the name)."""
        (first, after, suffix), time = part, self.times[name]
        out = self.tensor(name, (first, after), suffix)
        op = Op(f"{self.label(name)}_{suffix}", "slice", (), (out,))
        begin = [0] * len(self.tensors[out].shape)
        begin[time.axis] = (first - origin) * time.unit
        if time.band is not None:
            begin[-1] = time.band.columns(first, after, time.rows)[0] - time.band.columns(origin, after, time.rows)[0]
        where = integers(self.graph, op, "begin", begin), integers(self.graph, op, "size", self.tensors[out].shape)
        self.add(replace(op, inputs=(piece, *(tensor.name for tensor in where))), where)
        return out

    def is_moved_in_place(self, name: str) -> bool:
        """Return whether a map's state has space for new rows, so that rows move within it (at most twice as large)."""
        rows = self.rows[name]
        return name in self.graph.producer and not rows.top and rows.rows - rows.new <= rows.state

    def kept(self, name: str) -> str | None:
        """Add the state of the map `name`, its initial value and its read; return the tensor of the kept rows, or None."""
        rows, time, label = self.rows[name], self.times[name], self.label(name)
        if not rows.state:
            return None
        in_place, state = self.is_moved_in_place(name), f"{name}:state"
        old = self.tensor(name, *(((rows.kept, rows.rows), "old") if in_place else ((rows.kept, rows.new), "kept")))
        variable = replace(self.tensors[old], name=state, role="state")
        begin = Op(f"{label}_begin", "assign_variable", (), (state,))
        steady = self.quiet[name][(slice(None),) * time.axis + (slice(rows.kept * time.unit, (rows.kept + 1) * time.unit),)]
        count = variable.shape[time.axis] // time.unit
        initial = constant(self.graph, begin, "initial", np.concatenate([steady] * count, time.axis), variable.quant)
        self.tensors |= {state: variable, initial.name: initial}
        self.init.append(replace(begin, inputs=(initial.name,)))
        self.add(Op(f"{label}_{'old' if in_place else 'kept'}", "read_variable", (state,), (old,)))
        # the state has the rows [kept, rows) of the previous call, which have moved towards the start by `shift` rows
        return self.cut(old, name, rows.kept - self.net.shift(name), (rows.kept, rows.new, "kept")) if in_place else old

    def keep(self, name: str, kept: str | None, top: str | None, new: str) -> None:
        """Join the rows of the map `name`, in the tensors `kept`, `top` and `new`, and save those for the next call."""
        rows, time, label = self.rows[name], self.times[name], self.label(name)
        self.pieces[name] = [(rows.new, rows.rows, new)] + ([(0, rows.top, top)] if top else [])
        if not kept:
            return
        parts = (top, kept, new) if top and rows.top == rows.kept else (kept, new)
        first = rows.kept if parts[0] == kept else 0
        joined = self.tensor(name, (first, rows.rows), "joined")
        self.add(Op(f"{label}_joined", "concatenation", parts, (joined,), {"axis": time.axis, "activation": "none"}))
        self.pieces[name].append((first, rows.rows, joined))
        later = joined
        if not self.is_moved_in_place(name):
            later = self.cut(joined, name, first - self.net.shift(name), (rows.kept, rows.new, "later"))
        self.add(Op(f"{label}_keep", "assign_variable", (later,), (f"{name}:state",)))


def _rewritten(net: Followed, rows: Mapping[str, CallRows]) -> Graph:
    """Return the graph of one call, which computes, keeps or reads from state the rows of each map that `rows` lists."""
    step, graph, source = _Step(net, rows), net.graph, net.graph.inputs[0]
    new = f"{source}:new"
    step.tensors[new] = resized(graph.tensors[source], net.times[source], (0, net.hop), new)
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
    outputs = tuple(step.take(name, *net.returned(name)) if name in rows else name for name in graph.outputs)
    whole = replace(graph, tensors=step.tensors)
    step_graph = rebuild(whole, inputs=(new,), outputs=outputs, ops=tuple(step.ops), init=tuple(step.init))
    return check(verify(share_constants(step_graph)[0]))


def _part(step: _Step, op: Op, span: tuple[int, int], suffix: str) -> tuple[str, ...]:
    """Add a copy of `op` that computes only the rows `span` of its outputs, "top" or "new" ones; return the outputs' names."""
    found, (first, after) = step.net.readings[op.name], span
    assert isinstance(found, Reading)
    window, axis = found.window, found.outputs[0].axis
    operands = [name for name in op.inputs if name is not None and name in step.times]
    size = step.times[operands[0]].rows
    pieces = {name: step.take(name, *read_rows(found.of(op, name), first, after, step.times[name].rows)) for name in operands}
    outputs = tuple(step.tensor(name, span, suffix) for name in op.outputs)
    inputs = tuple(name if name is None else pieces.get(name, name) for name in op.inputs)
    part = replace(op, name=op.name if suffix == "new" else f"{op.name}_{suffix}", inputs=inputs, outputs=outputs)
    begin, end = first * window.stride - window.pad, (after - 1) * window.stride - window.pad + window.extent
    ends, constants = (max(-begin, 0), max(end - size, 0)), list[Tensor]()
    is_whole = after - first == found.outputs[0].rows
    family = SPECS[op.kind].family
    spans = taken(step.graph, op) if op.kind.endswith("slice") else None
    if spans is not None:
        part, constants = _slice(step, part, spans, axis)
    elif not is_whole and found.outputs[0].band is not None:
        part, constants = _masked(step, part, found.outputs[0], span)
    elif not is_whole and family == "view":
        constants = [integers(step.graph, part, "shape", step.tensors[outputs[0]].shape)]
        part = replace(part, kind="reshape", inputs=(inputs[0], constants[0].name), attrs={"new_shape": None})
    elif not is_whole and family in ("convolution", "pool"):
        padding = tuple(ends if i == axis - 1 else pair for i, pair in enumerate(op.attrs["padding"]))
        part = replace(part, attrs={**op.attrs, "padding": padding})
    elif not is_whole and family == "pad":
        pairs = [ends if i == axis else pair for i, pair in enumerate(paddings(step.graph, op))]
        constants = [integers(step.graph, part, "paddings", pairs)]
        part = replace(part, inputs=(inputs[0], constants[0].name, *inputs[2:]))
    step.add(part, constants)
    return outputs


def _slice(step: _Step, op: Op, spans: Sequence[tuple[int, int]], axis: int) -> tuple[Op, list[Tensor]]:
    """Return the op that replaces a slice in a call, whose operand has only the rows to take, and its constants.

    `spans` has for each axis the first index and the number of indices to take; `axis` is the time axis.
    """
    x, out = (step.tensors[name or ""] for name in (op.inputs[0], op.outputs[0]))
    if x.elements == out.elements:
        return replace(op, kind="reshape", inputs=(x.name,), attrs={"new_shape": None}), []
    begin = [0 if index == axis else first for index, (first, _) in enumerate(spans)]
    constants = [integers(step.graph, op, "begin", begin), integers(step.graph, op, "size", out.shape)]
    return replace(op, kind="slice", inputs=(x.name, *(each.name for each in constants)), attrs={}), constants


def _masked(step: _Step, op: Op, time: TimeAxis, span: tuple[int, int]) -> tuple[Op, list[Tensor]]:
    """Return `op`, with operands of `step`, and its constants cut to the rows `span` of the scores and their columns."""
    assert time.band is not None
    begin, end = time.band.columns(*span, time.rows)
    changed, constants = list(op.inputs), list[Tensor]()
    for index, name in enumerate(op.inputs):
        x = step.tensors[name or ""]
        if x.data is None or x.elements == 1 or SPECS[op.kind].family != "binary":
            continue
        where = [slice(None)] * len(x.shape)
        own = time.axis - (len(step.tensors[op.outputs[0]].shape) - len(x.shape))
        if own >= 0 and x.shape[own] > 1:
            where[own] = slice(*span)
        if x.shape[-1] > 1:
            where[-1] = slice(begin, end)
        constants.append(constant(step.graph, op, "mask", x.data[tuple(where)], x.quant))
        changed[index] = constants[-1].name
    return replace(op, inputs=tuple(changed)), constants


def _layers(net: Followed, rows: Mapping[str, CallRows], chosen: Choices, step: Graph) -> tuple[StreamedLayer, ...]:
    """Return a StreamedLayer for each op of the original network; `rows` and `chosen` are as in `rows_of`."""
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
    """Return why a layer computes more rows per call than a hop adds, or None; `chosen` is as in `rows_of`."""
    time, shift = net.times[name], net.shift(name)
    if not shift:
        return f"its rows are {time.stride} frames apart; choose a hop that is a multiple of {time.stride} frames"
    if rows.computed <= shift or SPECS[net.graph.ops[net.graph.producer[name]].kind].family == "view":
        return None
    cause = "padding or attention" if net.bands else "padding"
    if not time.steady:
        return f"{cause}: all its rows depend on the position of the window"
    if time.steady <= shift:
        return f"a hop brings {shift} new rows, but only {time.steady} rows are independent of the position of the window"
    if chosen.get(name) == "anew":
        return "keeping rows would cost more RAM than it saves work"
    ends = time.rows - time.steady
    return f"{cause}: {ends} rows depend on the position of the window" if ends else "later layers read these rows at both ends"
