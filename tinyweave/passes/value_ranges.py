"""Compute the range of values that each channel of an int8 or uint8 tensor can hold for any network input.

The method is interval arithmetic with the numpy references: an op that is monotone in every operand takes its extremes at the
extremes of its operands. The graph must have passed `check_ops`. Channels count along the last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, limits
from ..ops import SPECS, activation_range, conv, fully_connected, mapped, reduce, spec_of
from ..ops.elementwise import mul_rescale
from ..ops.fixed_point import INT32_MAX
from ..ops.window import positions
from .effort import effort

BYTES = ("int8", "uint8")
MAX_EFFORT = 1 << 27  # multiply-accumulates of all monotone ops; beyond it outputs get the range of their type
TAME_BITS = 12  # with scale ratios below 2^12 no rescaled product of two bytes overflows int32


class Range(NamedTuple):
    """The least and the greatest value of each channel of a tensor, [channels], in the tensor's type."""

    low: NDArray[np.generic]
    high: NDArray[np.generic]

    @property
    def constant(self) -> NDArray[np.bool_]:
        """A mask of the channels that can hold only one value."""
        return np.asarray(self.low == self.high)


class Taps(NamedTuple):
    """Products that an output sums: weights[channel, h, w, i] * the input channel reads[channel, i], over window and i."""

    weights: NDArray[np.int64]  # [output channel, window h, window w, input]; their zero point is subtracted
    reads: NDArray[np.int64]  # [output channel, input] -> input channel
    always: NDArray[np.bool_]  # [window h, window w]: whether the position lies inside the map for all outputs
    never: NDArray[np.bool_]  # [window h, window w]: whether the position lies in the padding for all outputs


def value_ranges(graph: Graph) -> dict[str, Range]:
    """Return the Range of every int8 and uint8 tensor, by name."""
    known = {t.name: _at_first(t) for t in graph.tensors.values() if t.dtype in BYTES}
    left = MAX_EFFORT
    for op in graph.ops:
        rule = _rule(op)
        work = effort(graph, op) if rule is _monotone else 0
        if work > left:
            continue
        left -= work
        if rule is not None and all(t is None or t.data is not None or t.name in known for t in graph.inputs_of(op)):
            for tensor, bounds in zip(graph.outputs_of(op), rule(graph, op, known), strict=True):
                if tensor.name in known and tensor.role == "activation":
                    known[tensor.name] = bounds
    return known


def channels(tensor: Tensor) -> int:
    """Return the number of channels of a tensor, the extent of its last axis; 1 for a scalar."""
    return (1, *tensor.shape)[-1]


def taps(graph: Graph, op: Op) -> Taps:
    """Return the Taps of a conv_2d, depthwise_conv_2d or fully_connected with constant weights."""
    x, filters = graph.input(op), graph.input(op, 1)
    assert filters.data is not None
    zero = filters.quant.zero_point[0] if filters.quant is not None else 0  # the same for all channels
    weights, count = filters.data.astype(np.int64) - zero, channels(x)
    if op.kind == "fully_connected":
        units, depth = weights.shape
        inside = np.ones((1, 1), bool)
        reads = np.broadcast_to(np.arange(depth) % count, (units, depth))
        return Taps(weights.reshape(units, 1, 1, depth), reads, inside, ~inside)
    if op.kind == "depthwise_conv_2d":
        weights = weights.transpose(3, 1, 2, 0)
    out, in_group = weights.shape[0], weights.shape[3]
    reads = (np.arange(out) // (out * in_group // count))[:, None] * in_group + np.arange(in_group)
    rows, columns = (_inside(graph, op, axis) for axis in (0, 1))
    always = np.logical_and.outer(rows.all(axis=0), columns.all(axis=0))
    never = ~np.logical_and.outer(rows.any(axis=0), columns.any(axis=0))
    return Taps(weights, reads, always, never)


def _inside(graph: Graph, op: Op, axis: int) -> NDArray[np.bool_]:
    """Return a mask [output position, position in the window] of reads of the map, not padding, along rows (0) or columns."""
    stride, dilation, padding = (op.attrs[name][axis] for name in ("stride", "dilation", "padding"))
    size, out, kernel = (t.shape[1 + axis] for t in (graph.input(op), graph.output(op), graph.input(op, 1)))
    return positions(size, out, kernel=kernel, stride=stride, dilation=dilation, before=padding[0])


def _at_first(tensor: Tensor) -> Range:
    """Return the range that follows from the tensor alone: the values of a constant, or all values of the type."""
    if tensor.data is not None and tensor.elements:
        return _per_channel(tensor, tensor.data, tensor.data)
    return Range(*(np.full(channels(tensor), bound, tensor.dtype) for bound in limits(tensor.dtype)))


def _per_channel(tensor: Tensor, low: NDArray[np.generic], high: NDArray[np.generic]) -> Range:
    return Range(low.reshape(-1, channels(tensor)).min(axis=0), high.reshape(-1, channels(tensor)).max(axis=0))


Known = dict[str, Range]
Rule = Callable[[Graph, Op, Known], list[Range]]


def _elementwise(graph: Graph, op: Op, known: Known) -> list[Range]:
    """Return the range of an op that rises or falls with each operand, from its extremes; any value if it may overflow."""
    out = graph.output(op)
    if not _is_tame(graph, op):
        return [_at_first(out)]
    operands = [known[name] for name in op.inputs if name is not None]
    values = [SPECS[op.kind].reference(graph, op, list(corner))[0] for corner in product(*operands)]
    return [Range(*(np.broadcast_to(extreme(values, axis=0), channels(out)) for extreme in (np.min, np.max)))]


def _monotone(graph: Graph, op: Op, known: Known) -> list[Range]:
    """Return the ranges of an op that never falls when an operand rises; any value if a rescaling may overflow."""
    outputs = graph.outputs_of(op)
    if not all(t.elements for t in (*outputs, *graph.inputs_of(op)) if t is not None) or not _is_tame(graph, op):
        return [_at_first(t) for t in outputs]
    low, high = (
        SPECS[op.kind].reference(graph, op, [None if t is None else _filled(t, known, side) for t in graph.inputs_of(op)])
        for side in (0, 1)
    )
    return [_per_channel(t, a, b) for t, a, b in zip(outputs, low, high, strict=True)]


def _filled(tensor: Tensor, known: Known, side: int) -> NDArray[np.generic]:
    """Return a constant's data, or an array with each channel at the low (`side` 0) or high (1) end of its range."""
    if tensor.data is not None:
        return tensor.data
    return np.broadcast_to(known[tensor.name][side], tensor.shape or (1,)).reshape(tensor.shape)


def _is_tame(graph: Graph, op: Op) -> bool:
    """Return whether the rescaling of the op's results cannot overflow, since an overflow would not be monotone."""
    if spec_of(op).moves:
        return True
    if op.kind == "mul":
        return mul_rescale(graph, op).shift < TAME_BITS
    if op.kind == "mean":
        return reduce.count(graph, op) * 255 << max(reduce.requant(graph, op)[1], 0) <= INT32_MAX
    scales = [t.scale for t in (*graph.inputs_of(op), graph.output(op)) if t is not None and t.dtype in BYTES]
    return max(scales) < (1 << TAME_BITS) * min(scales)


def _sum(graph: Graph, op: Op, known: Known) -> list[Range]:
    """Return the range of a convolution or dense layer, from the extremes of each product; any value if a sum may overflow."""
    x, out = graph.input(op), graph.output(op)
    if x.elements == 0 or (channels(x) > 1 and op.kind == "fully_connected" and graph.input(op, 1).shape[1] % channels(x)):
        return [_at_first(out)]
    weights, reads, always, never = taps(graph, op)
    extremes = [weights * (side.astype(np.int64) - x.zero_point)[reads][:, None, None, :] for side in known[x.name]]
    seen, padded = ~never[None, :, :, None], ~always[None, :, :, None]
    sums = []
    for extreme in (np.minimum, np.maximum):
        products = extreme(*extremes)
        sums.append((seen * np.where(padded, extreme(products, 0), products)).sum(axis=(1, 2, 3)))
    bias, family = graph.optional_input(op, 2), fully_connected if op.kind == "fully_connected" else conv
    offset = np.zeros(len(weights), np.int64) if bias is None or bias.data is None else bias.data.astype(np.int64)
    low, high = family.finish(graph, op, np.stack(sums) + offset)
    shift = np.zeros(1, np.int64) if family is fully_connected else np.maximum(conv.requant(graph, op)[1].astype(np.int64), 0)
    exact = np.maximum(np.abs(sums[0] + offset), np.abs(sums[1] + offset)) <= INT32_MAX >> shift
    lowest, greatest = activation_range(op.attrs["activation"], out)
    return [Range(np.where(exact, low, np.int8(lowest)), np.where(exact, high, np.int8(greatest)))]


def _unary(graph: Graph, op: Op, known: Known) -> list[Range]:
    """Return the range of the output, as a list of one, of a unary op, from its results for all values of the input."""
    (x, out), bounds = (graph.input(op), graph.output(op)), known[graph.input(op).name]
    values = np.arange(int(bounds.low.min()), int(bounds.high.max()) + 1)
    table = mapped(graph, op, values.astype(x.dtype))
    lowest, highest = (bound.astype(np.int64) for bound in bounds)
    inside = (values[:, None] >= lowest) & (values[:, None] <= highest)
    least, greatest = limits(out.dtype)
    low = np.where(inside, table[:, None], greatest).min(axis=0)
    high = np.where(inside, table[:, None], least).max(axis=0)
    return [Range(low.astype(out.dtype), high.astype(out.dtype))]


def _rule(op: Op) -> Rule | None:
    """Return the function that computes the ranges of an op's outputs; None means that outputs can hold any value."""
    spec = spec_of(op)
    if spec.sums_windows:
        return _sum
    if spec.family == "unary":
        return _unary
    if (spec.arithmetic is not None and spec.family == "binary") or op.kind == "quantize":
        return _elementwise
    if spec.family == "pool" or op.kind == "mean" or spec.moves:
        return _monotone
    return None
