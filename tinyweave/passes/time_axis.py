"""Find the time axis of each tensor of a network on a sliding window of frames, and the rows that each op reads along it.

A row is the part of a tensor at one position of its time axis. It is *steady* if it depends only on frames, not on where the
window begins or ends, as rows that read padding do. Steady rows can be reused when the window advances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir import Graph, Op, Tensor
from ..ops import SPECS, data, spec_of
from ..ops.data_movement import axis_of, permutation, pieces
from ..ops.layout import concatenation_axis, paddings
from ..ops.reduce import axes
from ..ops.spec import windows_one_to_one
from ..ops.window import Window
from .attention.bands import Band

DIFFERS = "its constant operand differs between rows"


class TimeAxis(NamedTuple):
    """The time axis of a tensor, divided into rows, of which [first, after) are steady.

    Rows of attention scores with a `band` have only the columns that they can see, which move, so they are never reused.
    """

    axis: int  # the axis of the tensor that holds the rows
    unit: int  # elements along this axis per row; above 1 if rows are merged with other axes
    rows: int  # the extent of the axis divided by `unit`
    stride: int  # frames from one row to the next
    first: int  # the first steady row
    after: int  # the row after the last steady row
    band: Band | None = None  # None if the tensor has no attention scores

    @property
    def steady(self) -> int:
        """The number of steady rows, which do not depend on where the window begins or ends."""
        return max(self.after - self.first, 0)


class Reading(NamedTuple):
    """The input rows that an output row reads, the time axis of each output, and a product's second window, `seen`."""

    window: Window
    outputs: tuple[TimeAxis, ...]
    seen: Window | None = None

    def of(self, op: Op, name: str) -> Window:
        """Return the window of the rows of the operand `name` that a row of an output of `op` reads."""
        return self.window if self.seen is None or name == op.inputs[0] else self.seen


def window_of(graph: Graph) -> TimeAxis | str:
    """Return the time axis of the network's only input, the first longer than 1 after the batch, or why it has none."""
    if any(tensor.role == "state" for tensor in graph.tensors.values()):
        return "it already keeps state from one inference to the next"
    if len(graph.inputs) != 1:
        return f"it has {len(graph.inputs)} inputs; streaming in time supports one"
    x = graph.tensors[graph.inputs[0]]
    inner = [axis for axis in range(1, len(x.shape)) if x.shape[axis] > 1]
    if x.shape[:1] != (1,) or not inner:
        return f"its input {list(x.shape)} is not a window of frames"
    axis, rows = inner[0], x.shape[inner[0]]
    if len(inner) == 1:
        readers = [graph.ops[index] for index in graph.consumers.get(x.name, ())]
        shapes = [graph.output(op).shape for op in readers if spec_of(op).family == "view"]
        shaped = next((shape for shape in shapes if sum(extent > 1 for extent in shape[1:]) > 1), None)
        if shaped is None and axis == len(x.shape) - 1:
            return f"its input {list(x.shape)} has no time axis"
        rows = next(extent for extent in shaped[1:] if extent > 1) if shaped else rows
    return TimeAxis(axis, x.shape[axis] // rows, rows, 1, 0, rows)


def reading(graph: Graph, op: Op, times: Mapping[str, TimeAxis], band: Band | None = None) -> Reading | str:
    """Return how an op reads rows, or why its output has no time axis; `band` is for ops of an attention head."""
    for name in op.inputs:
        if name is not None and graph.tensors[name].data is None and name not in times:
            return "one of its inputs depends on the whole window"
    x = times.get(data(graph, op).name)
    if x is None:
        return "its input is constant"
    family = SPECS[op.kind].family
    if band is not None:
        return _attending(op, times, band) if family == "matmul" else Reading(Window(), (x,))
    if any(times[name].band for name in op.inputs if name in times and name is not None):
        return "it reads the scores of attention"
    if family in ("convolution", "pool"):
        return _windowed(graph, op, x)
    if family == "pad":
        return _padded(graph, op, x)
    if op.kind.endswith("slice"):
        return _sliced(graph, op, x)
    if family == "matmul" and x.axis >= len(data(graph, op).shape) - 2:
        return "it combines all rows of the window"
    of_several = family in ("binary", "matmul") or op.kind == "concatenation"
    moved = _of_several(graph, op, x, times) if of_several else _of_one(graph, op, x)
    return moved if isinstance(moved, str) else Reading(Window(), moved)


def _windowed(graph: Graph, op: Op, x: TimeAxis) -> Reading | str:
    windows = SPECS[op.kind].windows(graph, op)
    if windows is None or x.axis not in (1, 2) or x.unit != 1:
        return "its windows do not step along the time axis"
    if any(graph.tensors[name].data is None for name in op.inputs[1:] if name is not None):
        return "its weights are not constant"
    return _stepping(windows[x.axis - 1], x, graph.output(op).shape[x.axis])


def _attending(op: Op, times: Mapping[str, TimeAxis], band: Band) -> Reading | str:
    """Return how a product of an attention head reads rows, or why its output has no time axis."""
    (a, b), is_scores = (times[name] for name in op.inputs if name is not None), times[op.inputs[0] or ""].band is None
    are_rows = b.axis == 2 and op.attrs["adj_y"] == is_scores and not op.attrs["adj_x"]
    if (a.axis, a.unit, b.unit) != (1, 1, 1) or not are_rows or (a.rows, a.stride) != (b.rows, b.stride):
        return "the rows of its operands are at different times"
    first, after = (max(a.first, b.first + band.before), min(a.after, b.after - band.ahead)) if band.is_steady else (0, 0)
    out = a._replace(first=first, after=after, band=band if is_scores else None)
    return Reading(Window(), (out,), Window(extent=band.before + 1 + band.ahead, pad=band.before))


def taken(graph: Graph, op: Op) -> list[tuple[int, int]] | None:
    """Return (first index, number of indices) that a slice takes on each axis of its input; None if indices are skipped."""
    source, (axes,) = data(graph, op).shape, pieces(graph, op)
    steps = [prod(source[axis + 1 :]) for axis in range(len(source))]
    if len(axes) != len(source):
        return None
    spans = [(int(offsets[0]) // step, offsets.size) for offsets, step in zip(axes, steps, strict=True)]
    successive = (np.arange(begin, begin + size) * step for (begin, size), step in zip(spans, steps, strict=True))
    return spans if all(map(np.array_equal, axes, successive)) else None


def _sliced(graph: Graph, op: Op, x: TimeAxis) -> Reading | str:
    """Return how a slice reads rows, or, as a str, the reason why its output has no time axis."""
    spans, source, out = taken(graph, op), data(graph, op).shape, graph.output(op).shape
    if spans is None or any(edge % x.unit for edge in spans[x.axis]):
        return "it takes rows or channels in steps"
    begin, rows = (edge // x.unit for edge in spans[x.axis])
    if len(out) != len(source):  # axes of extent 1 are removed
        if rows > 1 or out[:1] != (1,) or prod(out) * x.rows != prod(source):
            return "its output has no time axis"
        x = x._replace(axis=0, unit=1)
    return _stepping(Window(pad=-begin), x, rows)


def _padded(graph: Graph, op: Op, x: TimeAxis) -> Reading | str:
    before, after = paddings(graph, op)[x.axis]
    if x.unit != 1 and (before or after):
        return "it pads parts of rows"
    return _stepping(Window(pad=before), x, x.rows + before + after)


def _stepping(window: Window, x: TimeAxis, rows: int) -> Reading:
    """Return the window of an op that slides along `x`, and its output's time axis; rows of steady rows are steady."""
    window = window._replace(stride=window.stride if rows > 1 else 1)  # a single window has no stride
    begin, end = rows_that_read(window, rows, x.rows)
    first = max(-(-(x.first + window.pad) // window.stride), begin + (begin > 0))  # a call computes a row that reads
    after = min((x.after - window.extent + window.pad) // window.stride + 1, end - (end < rows))
    return Reading(window, (x._replace(rows=rows, stride=x.stride * window.stride, first=first, after=after),))


def rows_that_read(window: Window, rows: int, size: int) -> tuple[int, int]:
    """Return the range (first, after) of the `rows` output rows that read some of the `size` input rows, not only padding."""
    return max((window.pad - window.extent) // window.stride + 1, 0), min((size - 1 + window.pad) // window.stride + 1, rows)


def _of_several(graph: Graph, op: Op, x: TimeAxis, times: Mapping[str, TimeAxis]) -> tuple[TimeAxis, ...] | str:
    """Return the output's time axis, in a tuple, or why it has none; other activations must have the times of `x`."""
    out = graph.output(op)
    if op.kind == "concatenation" and concatenation_axis(graph, op) == x.axis:
        return "it concatenates along the time axis"
    for tensor in graph.inputs_of(op):
        assert tensor is not None
        if tensor.data is not None:
            if op.kind == "concatenation" or not _is_the_same_in_time(tensor, out, x.axis):
                return DIFFERS
            continue
        other = times[tensor.name]
        if len(tensor.shape) != len(out.shape) or other[:4] != x[:4]:
            return "the rows of its operands are at different times"
        x = x._replace(first=max(x.first, other.first), after=min(x.after, other.after))
    return (x,)


def _is_the_same_in_time(constant: Tensor, out: Tensor, axis: int) -> bool:
    """Return whether a constant operand has the same value for all rows along the axis `axis` of the output `out`."""
    own = axis - (len(out.shape) - len(constant.shape))
    return own < 0 or constant.shape[own] == 1


def _of_one(graph: Graph, op: Op, x: TimeAxis) -> tuple[TimeAxis, ...] | str:
    """Return the time axis of each output of an op whose rows read one row of the data input each, or why not (str)."""
    source, last = data(graph, op), len(data(graph, op).shape) - 1
    family = SPECS[op.kind].family
    if family == "view":
        return _viewed(graph, op, x)
    if op.kind == "transpose":
        return (x._replace(axis=permutation(graph, op).index(x.axis)),)
    if op.kind.startswith("split"):
        return (x,) * len(op.outputs) if axis_of(graph, op) != x.axis else "it splits the time axis"
    if family == "softmax":
        return (x,) if x.axis != last else "it works along the time axis"
    if family == "reduction":
        reduced = axes(graph, op)
        if x.axis in reduced:
            return "it combines all rows of the window"
        return (x._replace(axis=x.axis - (0 if op.attrs["keep_dims"] else sum(axis < x.axis for axis in reduced))),)
    if family == "dense":
        out = graph.output(op).shape
        axis = x.axis if op.attrs["keep_num_dims"] else len(out) - 2
        is_by_row = x.axis < last and x.unit == 1 and len(out) > 1 and out[axis] == x.rows == prod(source.shape[:last])
        is_by_row &= (x.axis == last - 1 or x.rows > 1) and graph.input(op, 1).data is not None
        return (x._replace(axis=axis),) if is_by_row else "it combines all rows of the window"
    if SPECS[op.kind].windows is windows_one_to_one:
        others = [tensor for tensor in graph.inputs_of(op)[1:] if tensor is not None]
        if all(tensor.data is not None and _is_the_same_in_time(tensor, source, x.axis) for tensor in others):
            return (x,)
    return "tinyweave does not know which rows it reads"


def _viewed(graph: Graph, op: Op, x: TimeAxis) -> tuple[TimeAxis, ...] | str:
    """Return the time axis of a reshape's output, or why it has none; axes before it must have extent 1."""
    source, out = graph.input(op).shape, graph.output(op).shape
    axis = next((axis for axis, extent in enumerate(out) if extent > 1), len(out) - 1)
    if prod(source[: x.axis]) > 1 or not out or out[axis] % x.rows:
        return "its new shape has no time axis"
    return (x._replace(axis=axis, unit=out[axis] // x.rows),)


def resized(tensor: Tensor, time: TimeAxis, span: tuple[int, int], name: str) -> Tensor:
    """Return an activation called `name` for the rows `span`, (first, after), of the tensor, whose time axis is `time`."""
    shape = (*tensor.shape[: time.axis], (span[1] - span[0]) * time.unit, *tensor.shape[time.axis + 1 :])
    if time.band is not None:
        begin, end = time.band.columns(*span, time.rows)
        shape = (*shape[:-1], end - begin)
    return replace(tensor, name=name, shape=shape, data=None, role="activation")
