"""conv_2d and depthwise_conv_2d on int8 maps with int8 weights, whose scale is per tensor or per output channel.

The int32 sum of bias and (x - zero_point) * weight is rescaled with `requant`'s multiplier per channel, rounded twice and
clamped. If `unsigned` is set (uint8 in the file), weights may have a zero point, and scales are multiplied in float32. Source:
TFLite reference_integer_ops conv.h, depthwise_conv.h, reference conv.h, depthwiseconv_uint8.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, array_type
from .constraints import (
    BIAS,
    activation_is_known,
    arity,
    bias_is_constant,
    bias_is_constant_int32,
    bounds_fit,
    data,
    has_narrow_bias,
    input_is_int8,
    input_is_int8_or_int16,
    output_has_input_type,
    rank_is_4,
    weights_are_constant,
    weights_are_symmetric_int8,
)
from .fixed_point import quantize_multipliers, requantize, requantize_wide, wrap32
from .float32 import real_layer
from .spec import Arrays, Constraint, OpSpec, OptionalArrays, Shape, Weights, activation_range, biased, on_integers, operand
from .window import (
    Size,
    Window,
    Windows,
    all_taps_inside,
    extent,
    of_image,
    output_size,
    taps,
    window_is_moderate,
    window_is_valid,
)


def requant(graph: Graph, op: Op) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return the arrays of multipliers and shifts, per output channel: output = sum * multiplier * 2^(shift - 31)."""
    x, weights, out = data(graph, op), graph.input(op, 1), graph.output(op)
    assert weights.quant is not None
    channels = out.shape[-1]
    if op.attrs.get("unsigned"):
        return quantize_multipliers([float(np.float32(x.scale) * np.float32(weights.scale)) / out.scale] * channels)
    scales = weights.quant.scale if weights.quant.per_channel else weights.quant.scale * channels
    return quantize_multipliers(x.scale * np.array(scales) / out.scale)


def weights_zero(graph: Graph, op: Op) -> int:
    """Return the weights' zero point, which is 0 unless the op was uint8 in the model file."""
    quant = graph.input(op, 1).quant
    return 0 if quant is None else quant.zero_point[0]


def kernel_size(graph: Graph, op: Op) -> Size:
    """Return the rows and columns of a pooling window or of a convolution's filter, without dilation."""
    return cast(Size, op.attrs["kernel"] if "kernel" in op.attrs else graph.input(op, 1).shape[1:3])


def groups(graph: Graph, op: Op) -> int:
    """Return the number of groups into which a conv_2d splits its input channels."""
    return graph.input(op).shape[3] // graph.input(op, 1).shape[3]


def map_size(graph: Graph, op: Op) -> Size:
    """Return the rows and columns of the output of a convolution or pooling op."""
    x, kernel, stride, padding = graph.input(op).shape, kernel_size(graph, op), op.attrs["stride"], op.attrs["padding"]
    dilation = op.attrs.get("dilation", (1, 1))
    h, w = (output_size(x[1 + a], kernel[a], stride[a], dilation[a], padding[a]) for a in (0, 1))
    return h, w


def infer(graph: Graph, op: Op) -> list[Shape]:
    channels = graph.input(op, 1).shape[3 if op.kind == "depthwise_conv_2d" else 0]
    return [(graph.input(op).shape[0], *map_size(graph, op), channels)]


def reference_conv_2d(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    # float64 sums are exact below 2^53, and BLAS is fast
    total = dense_sums(graph, op, *_centred(graph, op, arrays, np.float64))
    return [finish(graph, op, biased(total.astype(np.int64), arrays))]


def reference_depthwise_conv_2d(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    total = depthwise_sums(graph, op, *_centred(graph, op, arrays, np.int32))
    return [finish(graph, op, biased(total.astype(np.int64), arrays))]


def _centred(graph: Graph, op: Op, arrays: OptionalArrays, kind: type[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return input and weights, each minus its zero point, both with the dtype `kind`."""
    x, weights = operand(arrays).astype(kind), operand(arrays, 1).astype(kind)
    return x - graph.input(op).zero_point, weights - weights_zero(graph, op)


def dense_sums(graph: Graph, op: Op, x: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of products of a conv_2d before the bias is added, in the shape of the output."""
    count, out_c, group_in, shape = groups(graph, op), weights.shape[0], weights.shape[3], infer(graph, op)[0]
    filters = weights.reshape(count, out_c // count, *weights.shape[1:]).transpose(2, 3, 0, 4, 1)  # [groups, in, out] per tap
    total = np.zeros((count, shape[0] * shape[1] * shape[2], out_c // count))
    for ky, kx, seen in window_taps(graph, op, x):
        total += seen.reshape(-1, count, group_in).transpose(1, 0, 2) @ filters[ky, kx]
    return np.asarray(total.transpose(1, 0, 2).reshape(shape))


def depthwise_sums(graph: Graph, op: Op, x: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of products of a depthwise_conv_2d before the bias is added, in the shape of the output."""
    shape = infer(graph, op)[0]
    filters = weights[0].reshape(*weights.shape[1:3], x.shape[3], -1)
    total = np.zeros((*shape[:3], *filters.shape[2:]), x.dtype)
    for ky, kx, seen in window_taps(graph, op, x):
        total += seen[..., None] * filters[ky, kx]
    return total.reshape(shape)


def window_taps(graph: Graph, op: Op, x: NDArray[Any], fill: float = 0) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Yield (ky, kx, values [n, out_h, out_w, c]) that each tap of a kernel reads in all windows; padding is `fill`."""
    where = {name: op.attrs[name] for name in ("stride", "dilation", "padding") if name in op.attrs}
    return taps(x, kernel=kernel_size(graph, op), fill=fill, **where)


def finish(graph: Graph, op: Op, total: NDArray[Any]) -> NDArray[np.int8]:
    """Rescale the sums of a convolution, bias included, to its quantised output, add the zero point and clamp."""
    out, (multiplier, shift) = graph.output(op), requant(graph, op)
    if sums_are_wide(graph, op):
        scaled = requantize_wide(total, multiplier, shift)
    else:
        scaled = requantize(wrap32(total), multiplier, shift) + out.zero_point
    return np.clip(scaled, *activation_range(op.attrs["activation"], out)).astype(array_type(out.dtype))


def sums_are_wide(graph: Graph, op: Op) -> bool:
    """Return whether a convolution adds in 64 bits, which LiteRT does for int16 data unless the bias is int32."""
    return graph.output(op).dtype == "int16" and not has_narrow_bias(graph, op)


def macs(graph: Graph, op: Op, clipped: bool) -> int:
    x, weights, out = graph.input(op), graph.input(op, 1), graph.output(op)
    stride, dilation, padding = op.attrs["stride"], op.attrs["dilation"], op.attrs["padding"]
    total = x.shape[0] * out.shape[3] * (1 if op.kind == "depthwise_conv_2d" else weights.shape[3])
    for a in (0, 1):
        size, kernel, steps = x.shape[1 + a], weights.shape[1 + a], out.shape[1 + a]
        inside = {"kernel": kernel, "stride": stride[a], "dilation": dilation[a], "before": padding[a][0]}
        total *= all_taps_inside(size, steps, **inside) if clipped else kernel * steps
    return total


def windows(graph: Graph, op: Op) -> Windows | None:
    """Return the sliding windows of a convolution or pooling op, or None if the batch size is not 1."""
    extents, before = map(extent, kernel_size(graph, op), op.attrs.get("dilation", (1, 1))), (b for b, _ in op.attrs["padding"])
    return of_image(graph.input(op).shape[0], map(Window, extents, op.attrs["stride"], before))


def filter_has_rank_4(graph: Graph, op: Op) -> bool:
    """the filter must have four axes, none of them empty"""
    shape = graph.input(op, 1).shape
    return len(shape) == 4 and min(shape) > 0


def conv_channels_match(graph: Graph, op: Op) -> bool:
    """the input channels must be a multiple of the filter's, and their ratio (the groups) must divide the output channels"""
    channels, (out_c, _, _, group_in) = graph.input(op).shape[3], graph.input(op, 1).shape
    return channels > 0 and channels % group_in == 0 and out_c % (channels // group_in) == 0


def depthwise_channels_match(graph: Graph, op: Op) -> bool:
    """the filter must have the shape [1, h, w, output channels], with output channels a multiple of the input channels"""
    channels, filters = graph.input(op).shape[3], graph.input(op, 1).shape
    return filters[0] == 1 and channels > 0 and filters[3] % channels == 0


def window_fits(graph: Graph, op: Op) -> bool:
    """strides and dilations must be at least 1, paddings at least 0, and the window must fit into the padded input"""
    return window_is_valid(graph.input(op).shape, kernel_size(graph, op), op.attrs)


def window_is_bounded(graph: Graph, op: Op) -> bool:
    """the padded input must have at most 2^25 elements, and output size times filter size at most 2^24 along each axis"""
    return window_is_moderate(graph.input(op).shape, kernel_size(graph, op), map_size(graph, op), op.attrs["padding"])


def wide_sums_fit(shift: NDArray[np.int8], bias: Tensor | None) -> bool:
    """Return whether LiteRT's rescaling of int16 sums is defined: shifts are below 15, biases below 2^46 in magnitude."""
    small = bias is None or bias.data is None or bool((np.abs(bias.data.astype(np.float64)) < 1 << 46).all())
    return int(shift.max()) < 15 and small


@on_integers
def sums_fit_int16(graph: Graph, op: Op) -> bool:
    """beside int64 biases, input scale * weight scale / output scale must be below 2^14, biases between -2^46 and 2^46"""
    bias = graph.optional_input(op, BIAS.get(op.kind, 2))
    return not sums_are_wide(graph, op) or wide_sums_fit(requant(graph, op)[1], bias)


@on_integers
def bias_beside_int16_is_int64(graph: Graph, op: Op) -> bool:
    """on int16, the bias must be int64: LiteRT's depthwise kernel reads an int32 bias as int64, too"""
    bias = graph.optional_input(op, 2)
    return graph.input(op).dtype != "int16" or bias is None or bias.dtype == "int64"


FIRST = (arity(2, 3), input_is_int8, output_has_input_type, rank_is_4, weights_are_constant, filter_has_rank_4)
LAST = (weights_are_symmetric_int8, bias_is_constant_int32, window_fits, window_is_bounded, activation_is_known, bounds_fit)

ALSO_INT16: dict[Constraint, Constraint] = {input_is_int8: input_is_int8_or_int16, bias_is_constant_int32: bias_is_constant}
CONV_2D = tuple(ALSO_INT16.get(constraint, constraint) for constraint in (*FIRST, conv_channels_match, *LAST, sums_fit_int16))
DEPTHWISE = (FIRST[0], bias_beside_int16_is_int64, *FIRST[1:], depthwise_channels_match, *LAST)

convolution = partial(
    OpSpec,
    infer=infer,
    macs=macs,
    windows=windows,
    family="convolution",
    rescale=requant,
    int16=True,
    batched=True,
    fuses_activation=True,
    uint8="unsigned",
    scale="own",
    rounds_twice=True,
)
SPECS = (
    convolution("conv_2d", reference=reference_conv_2d, constraints=CONV_2D, weights=Weights(0), real=real_layer(dense_sums)),
    convolution(
        "depthwise_conv_2d",
        reference=reference_depthwise_conv_2d,
        constraints=DEPTHWISE,
        weights=Weights(3),
        real=real_layer(depthwise_sums),
        channelwise=True,
    ),
)
