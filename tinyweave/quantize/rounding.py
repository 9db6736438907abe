"""Adaptive rounding: each weight is rounded up or down so that its layer gives what the float layer gives, by samples.

In: a float graph, the int8 graph made of it, samples. Out: the int8 graph with other integers in its weights; scales stay.
Layer by layer in their order, as the layers before it were rounded, the square error of the layer's output on what it will be
given is lowered by coordinate descent: one weight of every output channel at a time, to the better of its two neighbours, until
no change is left that lowers it. After Nagel et al., Up or Down? Adaptive Rounding (2020), which relaxes the same choice, and
Behdin et al., QuantEase (2023), which descends as we do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, limits
from ..ops.conv import groups, kernel_size
from ..ops.window import taps
from ..progress import Progress, silent
from .improve import Maps, as_shaped, layer_by_layer

Array = NDArray[Any]
SWEEPS = 20  # over all weights of a layer, at most
MOST_ROWS = 8192  # windows of a layer that are looked at, evenly spread
MOST_DEPTH = 4096  # weights of one output: their products are kept, squared
# of the mean power of an input: how much a weight's own error counts, so that few samples are not learned by heart
DAMPING = 0.01


def rounded(real: Graph, small: Graph, inputs: Mapping[str, Array], progress: Progress = silent) -> Graph:
    """Return the int8 graph with adaptively rounded weights; `inputs` are real numbers of few samples, as all maps are kept.

    Convolutions and dense layers whose weights are theirs alone are rounded anew; others stay as they are.
    """

    def mended(op: Op, given: Op, maps: Maps, constants: Mapping[str, Array]) -> Tensor | None:
        if not _is_roundable(real, op):
            return None
        return _layer(real, op, small.input(given, 1), *(values[op.inputs[0] or ""] for values in maps))

    return layer_by_layer(real, small, inputs, mended, lambda count: progress("rounding weights", count, len(real.ops)))


def _is_roundable(graph: Graph, op: Op) -> bool:
    if op.kind not in ("conv_2d", "depthwise_conv_2d", "fully_connected"):
        return False
    weights = graph.input(op, 1)
    depth = int(np.prod(weights.shape[1:3] if op.kind == "depthwise_conv_2d" else weights.shape[1:]))
    return len(graph.consumers[weights.name]) == 1 and depth <= MOST_DEPTH


def _layer(graph: Graph, op: Op, weights: Tensor, exact: Array, given: Array) -> Tensor:
    """Return the weights of one op, rounded for what it is given in place of the exact values."""
    real = graph.input(op, 1)
    assert weights.quant is not None and weights.data is not None and real.data is not None
    floats = _rows(op, real.data.astype(np.float64))
    ints = _rows(op, as_shaped(weights.data, real.shape, op).astype(np.float64))
    steps = floats / np.broadcast_to(weights.quant.scale, len(floats))[:, None]
    least, most = limits(weights.dtype)
    within = max(least, -127), most
    for channels, wanted, seen in _windows(graph, op, exact, given):
        ints[channels] = descended(ints[channels], steps[channels], wanted, seen, within)
    data = (ints.T if op.kind == "depthwise_conv_2d" else ints).reshape(real.shape)
    kept = data.transpose(3, 1, 2, 0) if op.kind == "depthwise_conv_2d" and weights.shape != real.shape else data
    return replace(weights, data=np.ascontiguousarray(kept.reshape(weights.shape)).astype(weights.data.dtype))


def _rows(op: Op, weights: Array) -> Array:
    """Return weights as the float op has them as [outputs, depth]."""
    return (
        weights.reshape(-1, weights.shape[3]).T.copy() if op.kind == "depthwise_conv_2d" else weights.reshape(len(weights), -1)
    )


def descended(start: Array, steps: Array, wanted: Array, seen: Array, within: tuple[int, int]) -> Array:
    """Return integers [outputs, depth] beside `steps`, weights in steps, so that `seen` @ them is near `wanted` @ `steps`.

    wanted, seen: [rows, depth], inputs of the float layer and of this one. Begins from `start` and never ends with a larger
    error, a little of which is each weight's own.
    """
    power = seen.T @ seen
    ridge = DAMPING * np.trace(power) / max(len(power), 1) + 1e-30
    power = power + ridge * np.eye(len(power))
    target = (seen.T @ wanted + ridge * np.eye(len(power))) @ steps.T  # [depth, outputs]
    low, high = np.clip(np.floor(steps), *within).T, np.clip(np.ceil(steps), *within).T
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


def _windows(graph: Graph, op: Op, exact: Array, given: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Yield (output channels, windows of the exact map, of the given one): a group of channels at a time, [rows, depth]."""
    weights = graph.input(op, 1)
    if op.kind == "fully_connected":
        yield slice(None), _spread(exact.reshape(-1, weights.shape[1])), _spread(given.reshape(-1, weights.shape[1]))
        return
    count = graph.input(op).shape[3] if op.kind == "depthwise_conv_2d" else groups(graph, op)
    outputs = graph.output(op).shape[3] // count
    both = [_seen(graph, op, values) for values in (exact, given)]
    width = both[0].shape[2] // count
    for group in range(count):
        part = slice(group * width, (group + 1) * width)
        wanted, seen = (a[:, :, part].reshape(len(a), -1).astype(np.float64) for a in both)
        yield slice(group * outputs, (group + 1) * outputs), wanted, seen


def _seen(graph: Graph, op: Op, values: Array) -> Array:
    """Return what the windows of a convolution see, [windows, taps, channels]."""
    where = {name: op.attrs[name] for name in ("stride", "dilation", "padding")}
    x = values.reshape(-1, *values.shape[2:])
    return np.stack(
        [_spread(a.reshape(-1, a.shape[3])) for *_, a in taps(x, kernel=kernel_size(graph, op), fill=0, **where)], 1
    )


def _spread(rows: Array) -> Array:
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(int)
    return np.asarray(rows[chosen], np.float64)
