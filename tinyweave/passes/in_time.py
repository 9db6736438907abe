"""How the tensors of a network over a window of frames lie in time, and which rows of their operands ops read there.

In: a graph with one input, the window. Out: per tensor that has an axis of time its rows; per op the window that a row of its
output reads along that axis, or why nobody can say. A row is *steady* when it depends on frames alone and not on where the
window begins or ends: as the window moves on by the stride of such rows, each takes the value of the one below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple

from ..ir import Graph, Op, Tensor
from ..ops import SPECS, data
from ..ops.data_movement import axis_of, permutation
from ..ops.layout import concatenation_axis, paddings
from ..ops.reduce import axes
from ..ops.spec import windows_one_to_one
from ..ops.window import Window

WINDOWED = ("conv_2d", "depthwise_conv_2d", "average_pool_2d", "max_pool_2d")
BINARY = ("add", "sub", "mul", "minimum", "maximum")
REDUCING = ("mean", "reduce_max", "reduce_min")
VIEWS = ("reshape", "squeeze", "expand_dims")
PADDING = ("pad", "padv2")


class InTime(NamedTuple):
    """Where the rows of a tensor are: along `axis`, each of `unit` elements of it, and `stride` frames after the one above it.

    Rows from `first` up to `after` are steady.
    """

    axis: int
    unit: int
    rows: int
    stride: int
    first: int
    after: int

    @property
    def steady(self) -> int:
        """Return how many rows are steady."""
        return max(self.after - self.first, 0)


class Reading(NamedTuple):
    """What an op does in time. window: of the rows of each operand. outputs: how the outputs lie in time."""

    window: Window
    outputs: tuple[InTime, ...]


def window_of(graph: Graph) -> InTime | str:
    """Return how the network's only input lies in time, or why it does not.

    Time is the first axis behind the batch that is longer than 1; of an input of one axis, that which a reshape gives it.
    """
    if any(tensor.role == "state" for tensor in graph.tensors.values()):
        return "it keeps state from call to call already"
    if len(graph.inputs) != 1:
        return f"it has {len(graph.inputs)} inputs, and the frames of one can be followed"
    x = graph.tensors[graph.inputs[0]]
    inner = [axis for axis in range(1, len(x.shape)) if x.shape[axis] > 1]
    if x.shape[:1] != (1,) or not inner:
        return f"its input {list(x.shape)} is no window of frames"
    axis, rows = inner[0], x.shape[inner[0]]
    if len(inner) == 1:
        shapes = [graph.output(op).shape for op in (graph.ops[i] for i in graph.consumers.get(x.name, ())) if op.kind in VIEWS]
        shaped = next((shape for shape in shapes if sum(extent > 1 for extent in shape[1:]) > 1), None)
        if shaped is None and axis == len(x.shape) - 1:
            return f"its input {list(x.shape)} has no axis of time"
        rows = next(extent for extent in shaped[1:] if extent > 1) if shaped else rows
    return InTime(axis, x.shape[axis] // rows, rows, 1, 0, rows)


def reading(graph: Graph, op: Op, times: Mapping[str, InTime]) -> Reading | str:
    """Return what an op reads in time, or why its output has no rows that move on with time.

    times: how tensors lie in time, those left out that do not.
    """
    for name in op.inputs:
        if name is not None and graph.tensors[name].data is None and name not in times:
            return "it reads what is made of the whole window"
    x = times.get(data(graph, op).name)
    if x is None:
        return "what it works on is constant"
    if op.kind in WINDOWED:
        return _windowed(graph, op, x)
    if op.kind in PADDING:
        return _padded(graph, op, x)
    moved = _of_one(graph, op, x) if op.kind not in (*BINARY, "concatenation") else _of_several(graph, op, x, times)
    return moved if isinstance(moved, str) else Reading(Window(), moved)


def _windowed(graph: Graph, op: Op, x: InTime) -> Reading | str:
    windows = SPECS[op.kind].windows(graph, op)
    if windows is None or x.axis not in (1, 2) or x.unit != 1:
        return "its windows do not step along the axis of time"
    if any(graph.tensors[name].data is None for name in op.inputs[1:] if name is not None):
        return "its weights are computed"
    return _stepping(windows[x.axis - 1], x, graph.output(op).shape[x.axis])


def _padded(graph: Graph, op: Op, x: InTime) -> Reading | str:
    before, after = paddings(graph, op)[x.axis]
    if x.unit != 1 and (before or after):
        return "it pads parts of rows"
    return _stepping(Window(pad=before), x, x.rows + before + after)


def _stepping(window: Window, x: InTime, rows: int) -> Reading:
    """Return the reading of windows that step in time; their rows are steady where they read nothing but steady rows."""
    window = window._replace(stride=window.stride if rows > 1 else 1)  # a single window does not step
    first = max(-(-(x.first + window.pad) // window.stride), 0)
    after = min((x.after - window.extent + window.pad) // window.stride + 1, rows)
    return Reading(window, (x._replace(rows=rows, stride=x.stride * window.stride, first=first, after=after),))


def _of_several(graph: Graph, op: Op, x: InTime, times: Mapping[str, InTime]) -> tuple[InTime, ...] | str:
    out = graph.output(op)
    if op.kind == "concatenation" and concatenation_axis(graph, op) == x.axis:
        return "it joins along the axis of time"
    for tensor in graph.inputs_of(op):
        assert tensor is not None
        if tensor.data is not None:
            if op.kind == "concatenation" or not _is_the_same_in_time(tensor, out, x.axis):
                return "its constant operand is another one for each row"
            continue
        other = times[tensor.name]
        if len(tensor.shape) != len(out.shape) or other[:4] != x[:4]:
            return "its operands do not lie in time alike"
        x = x._replace(first=max(x.first, other.first), after=min(x.after, other.after))
    return (x,)


def _is_the_same_in_time(constant: Tensor, out: Tensor, axis: int) -> bool:
    """Return whether a constant operand that broadcasts repeats along an axis of the output."""
    own = axis - (len(out.shape) - len(constant.shape))
    return own < 0 or constant.shape[own] == 1


def _of_one(graph: Graph, op: Op, x: InTime) -> tuple[InTime, ...] | str:
    """Return how the outputs of an op lie in time that makes each row of them of one row of its input."""
    source, last = data(graph, op), len(data(graph, op).shape) - 1
    if op.kind in VIEWS:
        return _viewed(graph, op, x)
    if op.kind == "transpose":
        return (x._replace(axis=permutation(graph, op).index(x.axis)),)
    if op.kind in ("split", "split_v"):
        return (x,) * len(op.outputs) if axis_of(graph, op) != x.axis else "it splits the axis of time"
    if op.kind in ("softmax", "log_softmax"):
        return (x,) if x.axis != last else "it works along the axis of time"
    if op.kind in REDUCING:
        reduced = axes(graph, op)
        if x.axis in reduced:
            return "it takes all rows of the window together"
        return (x._replace(axis=x.axis - (0 if op.attrs["keep_dims"] else sum(axis < x.axis for axis in reduced))),)
    if op.kind == "fully_connected":
        out = graph.output(op).shape
        is_by_row = x.axis == last - 1 and x.unit == 1 and len(out) > 1 and out[-2] == x.rows
        is_by_row &= prod(source.shape[: x.axis]) == 1 and graph.input(op, 1).data is not None
        return (x._replace(axis=len(out) - 2),) if is_by_row else "it takes all rows of the window together"
    if SPECS[op.kind].windows is windows_one_to_one:
        others = [tensor for tensor in graph.inputs_of(op)[1:] if tensor is not None]
        if all(tensor.data is not None and _is_the_same_in_time(tensor, source, x.axis) for tensor in others):
            return (x,)
    return "nobody has said which rows it reads"


def _viewed(graph: Graph, op: Op, x: InTime) -> tuple[InTime, ...] | str:
    """Return where the rows are in another shape: they stay together where nothing but 1s comes before them."""
    source, out = graph.input(op).shape, graph.output(op).shape
    axis = next((axis for axis, extent in enumerate(out) if extent > 1), len(out) - 1)
    if prod(source[: x.axis]) > 1 or not out or out[axis] % x.rows:
        return "its shape has no axis of time"
    return (x._replace(axis=axis, unit=out[axis] // x.rows),)


def resized(tensor: Tensor, time: InTime, rows: int, name: str) -> Tensor:
    """Return a tensor that is so many rows of another, under a name of its own."""
    shape = (*tensor.shape[: time.axis], rows * time.unit, *tensor.shape[time.axis + 1 :])
    return replace(tensor, name=name, shape=shape, data=None, role="activation")
