"""Adaptive rounding: round each weight up or down so as to minimise the square error of its layer's output, given int8 inputs.

Coordinate descent, layer by layer. Sources: Nagel et al., Up or Down? Adaptive Rounding (2020), which solves a relaxation;
Behdin et al., QuantEase (2023), for coordinate descent.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..ir import Graph, Op, Tensor, limits
from ..ops import SPECS, spec_of
from ..ops.conv import groups, kernel_size
from ..ops.window import taps
from ..support.progress import Progress, silent
from .evaluate import Array
from .layerwise import Maps, in_float_layout, layer_by_layer

SWEEPS = 20  # limit on sweeps over all weights of a layer
MOST_ROWS = 8192  # limit on windows per layer; they are evenly spaced over all windows
MOST_DEPTH = 4096  # limit on weights per output channel (depth): a matrix of depth x depth is kept in memory
DAMPING = 0.01  # ridge regularisation relative to the mean input power, against overfitting to few samples


def adaptively_rounded(
    real: Graph, small: Graph, inputs: Mapping[str, Array], progress: Progress = silent, *, ops: Container[str] | None = None
) -> Graph:
    """Return the int8 graph with adaptively rounded weights in the convolutions and dense layers `ops` (None: all)."""

    def improve(op: Op, int8_op: Op, maps: Maps, constants: Mapping[str, Array]) -> Tensor | None:
        if (ops is not None and op.name not in ops) or not _is_roundable(real, op):
            return None
        return _rounded(real, op, small.input(int8_op, 1), *(values[op.inputs[0] or ""] for values in maps))

    return layer_by_layer(real, small, inputs, improve, lambda count: progress("rounding weights", count, len(real.ops)))


def individually_rounded(
    real: Graph, small: Graph, narrow: Graph, inputs: Mapping[str, Array], progress: Progress = silent
) -> Graph:
    """Return the graph `narrow` with rounded int4 weights, each layer as if all others had the int8 weights of `small`."""
    taking = (op for op in narrow.ops if spec_of(op).takes_int4_weights)
    weights = {op.name: narrow.input(op, 1) for op in taking if narrow.input(op, 1).dtype == "int4"}
    rounded = dict[str, Tensor]()

    def improve(op: Op, int8_op: Op, maps: Maps, constants: Mapping[str, Array]) -> None:
        if op.name in weights and _is_roundable(real, op):
            new = _rounded(real, op, weights[op.name], *(values[op.inputs[0] or ""] for values in maps))
            rounded[new.name] = new

    layer_by_layer(real, small, inputs, improve, lambda count: progress("rounding weights", count, len(real.ops)))
    return replace(narrow, tensors={**narrow.tensors, **rounded})


def _is_roundable(graph: Graph, op: Op) -> bool:
    if not SPECS[op.kind].sums_windows:
        return False
    weights = graph.input(op, 1)
    depth = int(np.prod(weights.shape[1:3] if op.kind == "depthwise_conv_2d" else weights.shape[1:]))
    return len(graph.consumers[weights.name]) == 1 and depth <= MOST_DEPTH


def _rounded(graph: Graph, op: Op, weights: Tensor, exact: Array, actual: Array) -> Tensor:
    """Return the int8 `weights` of an op, rounded adaptively; `exact` and `actual` are its real inputs in both graphs."""
    real = graph.input(op, 1)
    assert weights.quant is not None and weights.data is not None and real.data is not None
    floats = _as_matrix(op, real.data.astype(np.float64))
    ints = _as_matrix(op, in_float_layout(weights.data, real.shape, op).astype(np.float64))
    steps = floats / np.broadcast_to(weights.quant.scale, len(floats))[:, None]
    least, most = limits(weights.dtype)
    for channels, exact_rows, actual_rows in _windows(graph, op, exact, actual):
        ints[channels] = descend(ints[channels], steps[channels], exact_rows, actual_rows, (max(least, -127), most))
    is_depthwise = op.kind == "depthwise_conv_2d"
    data = (ints.T if is_depthwise else ints).reshape(real.shape)
    data = data.transpose(3, 1, 2, 0) if is_depthwise and weights.shape != real.shape else data
    return replace(weights, data=np.ascontiguousarray(data.reshape(weights.shape)).astype(weights.data.dtype))


def _as_matrix(op: Op, weights: Array) -> Array:
    """Return the weights of a float op as a matrix [output channels, weights per output channel]."""
    is_depthwise = op.kind == "depthwise_conv_2d"
    return weights.reshape(-1, weights.shape[3]).T.copy() if is_depthwise else weights.reshape(len(weights), -1)


def descend(start: Array, steps: Array, exact: Array, actual: Array, limits: tuple[int, int]) -> Array:
    """Return integer weights W [outputs, depth] that minimise the square error of `actual @ W.T` against `exact @ steps.T`.

    `start` are the weights to start from; the result is never worse. `steps` are the real weights divided by their scales, each
    rounded up or down within `limits`. `exact` and `actual` are inputs of the float and the int8 layer, [rows, depth].
    """
    power = actual.T @ actual
    ridge = DAMPING * np.trace(power) / max(len(power), 1) + 1e-30
    power = power + ridge * np.eye(len(power))
    target = (actual.T @ exact + ridge * np.eye(len(power))) @ steps.T  # [depth, outputs]
    low, high = np.clip(np.floor(steps), *limits).T, np.clip(np.ceil(steps), *limits).T
    chosen = start.T.copy()
    slope = power @ chosen - target
    for _ in range(SWEEPS):
        changed = False
        for row in range(len(power)):
            best = np.rint(chosen[row] - slope[row] / power[row, row])
            moved = np.clip(best, low[row], high[row]) - chosen[row]
            if moved.any():
                changed = True
                chosen[row] += moved
                slope += np.outer(power[:, row], moved)
        if not changed:
            break
    return np.asarray(chosen.T)


def _windows(graph: Graph, op: Op, exact: Array, actual: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Yield (slice of output channels, float inputs, int8 inputs), each of [windows, depth], for each group of an op."""
    weights = graph.input(op, 1)
    if op.kind == "fully_connected":
        exact_rows, actual_rows = (_sampled(values.reshape(-1, weights.shape[1])) for values in (exact, actual))
        yield slice(None), exact_rows, actual_rows
        return
    count = graph.input(op).shape[3] if op.kind == "depthwise_conv_2d" else groups(graph, op)
    outputs = graph.output(op).shape[3] // count
    both = [_im2col(graph, op, values) for values in (exact, actual)]
    width = both[0].shape[2] // count
    for group in range(count):
        part = slice(group * width, (group + 1) * width)
        exact_rows, actual_rows = (a[:, :, part].reshape(len(a), -1).astype(np.float64) for a in both)
        yield slice(group * outputs, (group + 1) * outputs), exact_rows, actual_rows


def _im2col(graph: Graph, op: Op, values: Array) -> Array:
    """Return the inputs of at most MOST_ROWS windows as [windows, positions in the window, channels]; padding is 0."""
    where = {name: op.attrs[name] for name in ("stride", "dilation", "padding")}
    x = values.reshape(-1, *values.shape[2:])
    all_taps = taps(x, kernel=kernel_size(graph, op), fill=0, **where)
    return np.stack([_sampled(a.reshape(-1, a.shape[3])) for *_, a in all_taps], 1)


def _sampled(rows: Array) -> Array:
    """Return at most MOST_ROWS rows of an array, evenly spaced, in float64."""
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(int)
    return np.asarray(rows[chosen], np.float64)
