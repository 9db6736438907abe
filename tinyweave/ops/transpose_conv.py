"""transpose_conv on int8 or int16 maps: each input pixel adds a window of products to the output.

The op's inputs are the output's shape, the weights in OHWI, the map, and an optional bias. Sums are rescaled as in conv_2d.
Source: TFLite transpose_conv.cc, reference_integer_ops transpose_conv.h.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from . import conv
from .constraints import (
    activation_is_known,
    arity,
    bias_may_be_absent,
    bounds_fit,
    input_is_int8_or_int16,
    output_has_input_type,
    weights_are_constant,
    weights_are_symmetric_int8,
)
from .float32 import real_operand, real_outputs
from .spec import Arrays, OpSpec, OptionalArrays, Shape, Weights, biased, centred, operand
from .window import MOST_PADDED, MOST_POSITIONS, Window, Windows, of_image, window_around

DATA, BIAS = 2, 3


def infer(graph: Graph, op: Op) -> list[Shape]:
    """Return the output's shape: the value of the first input or, if that is not constant, the shape of the output tensor."""
    wanted = graph.input(op)
    return [graph.output(op).shape if wanted.data is None else tuple(int(extent) for extent in wanted.data.ravel())]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, weights = centred(arrays, DATA, graph, op).astype(np.float64), operand(arrays, 1).astype(np.float64)
    total = biased(sums(graph, op, x, weights).astype(np.int64), arrays, BIAS)  # float64 is exact below 2^53
    return [conv.finish(graph, op, total)]


def sums(graph: Graph, op: Op, x: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of products of a transpose_conv before the bias is added, in the shape of the output."""
    (out_shape,) = infer(graph, op)
    (stride_h, stride_w), ((top, _), (left, _)) = op.attrs["stride"], op.attrs["padding"]
    (_, h, w, _), (_, kernel_h, kernel_w, _) = x.shape, weights.shape
    total = np.zeros(_reach(graph, op))
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            rows = slice(ky, ky + (h - 1) * stride_h + 1, stride_h)
            cols = slice(kx, kx + (w - 1) * stride_w + 1, stride_w)
            total[:, rows, cols] += x @ weights[:, ky, kx].T
    return total[:, top : top + out_shape[1], left : left + out_shape[2]]


def _reach(graph: Graph, op: Op) -> Shape:
    """Return the shape [n, h, w, c] of the sums before they are cropped; at least the output plus the padding before it."""
    x, (channels, *kernel, _), (out,) = graph.input(op, DATA).shape, graph.input(op, 1).shape, infer(graph, op)
    stride, padding = op.attrs["stride"], op.attrs["padding"]
    extents = (max((x[1 + a] - 1) * stride[a] + kernel[a], padding[a][0] + out[1 + a]) for a in (0, 1))
    return (x[0], *extents, channels)


def macs(graph: Graph, op: Op, clipped: bool) -> int:
    x, weights = graph.input(op, DATA), graph.input(op, 1)
    total = x.shape[0] * weights.shape[0] * weights.shape[3]
    for axis in (0, 1):
        total *= int(taps_inside(graph, op, axis).sum()) if clipped else weights.shape[1 + axis] * x.shape[1 + axis]
    return total


def taps_inside(graph: Graph, op: Op, axis: int) -> NDArray[np.int64]:
    """Return for each output row (axis 0) or column (axis 1) the number of products (kernel taps) that are added to it."""
    steps, kernel, count = (t.shape[1 + axis] for t in (graph.input(op, DATA), graph.input(op, 1), graph.output(op)))
    begin = np.arange(steps) * op.attrs["stride"][axis] - op.attrs["padding"][axis][0]
    fall = (begin[:, None] + np.arange(kernel)).ravel()
    return np.bincount(fall[(fall >= 0) & (fall < count)], minlength=count)


def windows(graph: Graph, op: Op) -> Windows | None:
    """Return the input windows that add to an output position; None if the batch is not 1 or a stride exceeds MOST_STEPS."""
    before = (before for before, _ in op.attrs["padding"])
    return of_image(graph.input(op, DATA).shape[0], map(_window, op.attrs["stride"], graph.input(op, 1).shape[1:3], before))


def _window(stride: int, kernel: int, pad: int) -> Window | None:
    """Return the window of input positions along an axis that add to an output position; None if stride > MOST_STEPS."""
    at = np.arange(stride) + pad
    return window_around((at - kernel) // stride + 1, at // stride, 1, stride)


def shapes_match(graph: Graph, op: Op) -> bool:
    """input, filter and output must have four axes, none empty, and equal batches; the channels must be those of the filter"""
    x, weights, out = graph.input(op, DATA).shape, graph.input(op, 1).shape, graph.output(op).shape
    are_maps = len(x) == len(weights) == len(out) == 4 and min(*x, *weights, *out) >= 1
    return are_maps and x[0] == out[0] and x[3] == weights[3] and out[3] == weights[0]


def stride_is_positive(graph: Graph, op: Op) -> bool:
    """strides must be at least 1, and paddings at least 0 and smaller than the filter"""
    kernel, padding = graph.input(op, 1).shape[1:3], op.attrs["padding"]
    return min(op.attrs["stride"]) > 0 and all(0 <= p[0] < k for p, k in zip(padding, kernel, strict=True))


def window_is_bounded(graph: Graph, op: Op) -> bool:
    """the padded output must have at most 2^25 elements, and input size times filter size at most 2^24 along each axis"""
    x, weights = graph.input(op, DATA).shape, graph.input(op, 1).shape
    return prod(_reach(graph, op)) <= MOST_PADDED and all(x[a] * weights[a] <= MOST_POSITIONS for a in (1, 2))


CONSTRAINTS = (
    arity(3, 4),
    input_is_int8_or_int16,
    output_has_input_type,
    weights_are_constant,
    weights_are_symmetric_int8,
    shapes_match,
    stride_is_positive,
    window_is_bounded,
    bias_may_be_absent,
    activation_is_known,
    bounds_fit,
    conv.sums_fit_int16,
)


def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    total = sums(graph, op, real_operand(arrays, DATA), real_operand(arrays, 1))
    return real_outputs(biased(total, arrays, BIAS), op.attrs["activation"])


SPECS = (
    OpSpec(
        "transpose_conv",
        infer,
        reference,
        CONSTRAINTS,
        macs,
        windows,
        family="transposed",
        rescale=conv.requant,
        data=DATA,
        weights=Weights(0, bias=BIAS, int4=False),
        int16=True,
        resamples=True,
        fuses_activation=True,
        scale="own",
        real=real,
    ),
)
