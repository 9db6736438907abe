"""What ONNX's ops on maps are in TFLite's. Most are PyTorch's with their arguments in another form; see `onnx_ops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from functools import reduce as accumulated
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import aten
from ..aten import axes, elementwise, norms, spatial
from ..channels_last import Builder, Map, Unread, Unsupported, viewed
from ..steps import SHIFT, real

Array = NDArray[Any]
Function = Callable[..., Any]
FLOAT = 1  # in TensorProto.DataType


def integers(value: Any, what: str) -> list[int]:
    """Return an input that must be constant as whole numbers."""
    return [int(each) for each in np.ravel(elementwise.constant(value, what))]


def plain(function: Function) -> Function:
    """Return an op without attributes as one that ignores those of another opset."""
    return lambda b, *inputs, **_: function(b, *inputs)


# windows


def _windows(
    x: Map,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    auto_pad: str,
    pads: Sequence[int] | None,
) -> tuple[Sequence[int], list[tuple[int, int]], Sequence[int]]:
    """Return per spatial axis the strides, the padding (before, after), and the dilations."""
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    if auto_pad not in ("NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID"):
        raise Unsupported(f"its padding '{auto_pad}' is unknown")
    if not auto_pad.startswith("SAME"):
        pads = pads if pads and auto_pad == "NOTSET" else [0] * (2 * rank)
        return strides, list(zip(pads[:rank], pads[rank:], strict=True)), dilations
    found = []
    for extent, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        total = max((ceil(extent / s) - 1) * s + d * (k - 1) + 1 - extent, 0)
        less, more = total // 2, total - total // 2
        found.append((less, more) if auto_pad == "SAME_UPPER" else (more, less))
    return strides, found, dilations


def convolution(
    b: Builder,
    x: Map,
    weight: Any,
    bias: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Map:
    kernel = elementwise.with_steps(weight, "weight").shape[2:]
    windows = _windows(x, kernel, strides, dilations, auto_pad, pads)
    return spatial.convolution(b, x, weight, bias, *windows, group)


def transposed_convolution(
    b: Builder,
    x: Map,
    weight: Any,
    bias: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Map:
    rank = elementwise.with_steps(weight, "weight").ndim - 2
    if rank != 2:
        raise Unsupported("only maps [1, c, h, w] are supported")
    pads, more = pads or [0] * (2 * rank), output_padding or [0] * rank
    if auto_pad not in ("NOTSET", "VALID") or output_shape:
        raise Unsupported("its padding follows from the size of its output; give pads")
    # what is cropped less after than before is as if the output were padded
    less = [before - after + extra for before, after, extra in zip(pads[:rank], pads[rank:], more, strict=True)]
    return spatial.transposed_convolution(b, x, weight, bias, strides or 1, pads[:rank], less, group, dilations or 1)


def pool(function: Function) -> Function:
    """Return the function of a pool with the arguments that ONNX gives it."""

    def apply(
        b: Builder,
        x: Map,
        *,
        kernel_shape: Sequence[int],
        auto_pad: str = "NOTSET",
        ceil_mode: int = 0,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        **more: Any,
    ) -> Any:
        if len(x.axes) != len(kernel_shape) + 2:
            raise Unsupported(f"its window has {len(kernel_shape)} axes, the map {len(x.axes)}")
        windows = _windows(x, kernel_shape, strides, dilations, auto_pad, pads)
        return function(b, x, kernel_shape, *windows, bool(ceil_mode), **more)

    return apply


def average_pool(
    b: Builder, x: Map, kernel: Any, strides: Any, padding: Any, dilations: Any, ceil_mode: bool, count_include_pad: int = 0
) -> Map:
    if {*dilations} != {1}:
        raise Unsupported("TFLite's pool has no dilation")
    return spatial.average_pool(b, x, kernel, strides, padding, ceil_mode, bool(count_include_pad))


def max_pool(
    b: Builder, x: Map, kernel: Any, strides: Any, padding: Any, dilations: Any, ceil_mode: bool, storage_order: int = 0
) -> list[Any]:
    return [spatial.max_pool(b, x, kernel, strides, padding, dilations, ceil_mode), Unread("the places of its maxima are read")]


def whole(kind: str) -> Function:
    """Return the function of an op over all rows and columns."""
    return lambda b, x: axes.reduce(kind)(b, x, range(2, len(x.axes)), True)


# products


def gemm(
    b: Builder,
    x: Map,
    weight: Any,
    bias: Any = None,
    *,
    alpha: float = 1,
    beta: float = 1,
    transA: int = 0,
    transB: int = 0,
) -> Map:
    weight = _times(elementwise.with_steps(weight, "weight"), alpha)
    weight = weight if transB else weight.T
    if bias is not None:
        bias = _times(elementwise.with_steps(bias, "bias"), beta)
        if bias.size not in (1, len(weight)) or bias.shape[-1:] not in ((), (1,), (len(weight),)):
            raise Unsupported(f"its bias of shape {list(bias.shape)} differs between rows")
        bias = np.broadcast_to(bias.ravel(), (len(weight),))
    x = axes.permute(b, x, (1, 0)) if transA else x
    return axes.linear(b, x, weight, bias)


def _times(values: Array, factor: float) -> Array:
    return values if factor == 1 else real(values) * np.float32(factor)


# element by element


def variadic(kind: str) -> Function:
    def apply(b: Builder, *inputs: Any) -> Map:
        return accumulated(partial(elementwise.binary(kind), b), sorted(inputs, key=lambda each: not isinstance(each, Map)))

    return apply


def average(b: Builder, *inputs: Any) -> Map:
    return elementwise.binary("mul")(b, variadic("add")(b, *inputs), np.float32(1 / len(inputs)))


def clip(b: Builder, x: Map, low: Any = None, high: Any = None) -> Map:
    limits = (None if limit is None else float(elementwise.constant(limit, "limit")) for limit in (low, high))
    return elementwise.clamp(b, x, *limits)


def prelu(b: Builder, x: Map, slope: Any) -> Map:
    slope = elementwise.constant(slope, "slope")
    along = [axis - slope.ndim for axis, extent in enumerate(slope.shape) if extent != 1]
    if along not in ([], [1 - len(x.axes)]) or slope.size not in (1, x.shape[1]):
        raise Unsupported(f"its slopes of shape {list(slope.shape)} are not one per channel")
    return elementwise.prelu(b, x, slope.ravel())


def normalised(
    b: Builder,
    x: Map,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Map:
    return elementwise.batch_norm(b, x, scale, bias, mean, variance, bool(training_mode), 0.0, epsilon, False)


def layer_normalised(
    b: Builder, x: Map, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> list[Any]:
    unread = Unread("the mean, or what it is divided by, of a layer norm is read")
    return [norms.layer_norm(b, x, _normed(x, axis), scale, bias, epsilon), unread, unread]


def rms_normalised(b: Builder, x: Map, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Map:
    return norms.rms_norm(b, x, _normed(x, axis), scale, epsilon)


def _normed(x: Map, axis: int) -> tuple[int, ...]:
    """Return the extents of the axes from `axis` on."""
    if not -len(x.shape) <= axis < len(x.shape):
        raise Unsupported(f"its axis {axis} is none of the map {list(x.shape)}")
    return x.shape[axis:]


def dropout(b: Builder, x: Map, ratio: Any = None, training: Any = None, *, seed: int = 0) -> list[Any]:
    if training is not None and np.any(elementwise.constant(training, "mode")):
        raise Unsupported("it is in training mode")
    return [x, Unread("the mask of its dropout is read")]


def cast(b: Builder, x: Map, *, to: int, **_: Any) -> Map:
    if to != FLOAT:
        raise Unsupported("it makes a map of another type")
    return x


def power(b: Builder, x: Map, exponent: Any) -> Map:
    exponent = elementwise.constant(exponent, "exponent")
    return elementwise.power(b, x, float(exponent.ravel()[0]) if exponent.size == 1 else None)


# along axes


def softmax(kind: str) -> Function:
    return lambda b, x, *, axis=-1: axes.softmax(b, x, axis, kind=kind)


def over_axes(kind: str) -> Function:
    """Return the function of a reduction; its axes are an input, or an attribute in older opsets."""

    def apply(
        b: Builder, x: Map, given: Any = None, *, axes_: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Map:
        chosen = axes_ if given is None else integers(given, "axes")
        if not chosen and noop_with_empty_axes:
            return x
        return axes.reduce(kind)(b, x, chosen or None, bool(keepdims))

    return lambda b, *inputs, axes=None, **attributes: apply(b, *inputs, axes_=axes, **attributes)


def split(b: Builder, x: Map, sizes: Any = None, *, axis: int = 0, num_outputs: int = 1) -> list[Any]:
    if sizes is not None:
        return axes.split_sizes(b, x, integers(sizes, "sizes"), axis)
    return axes.chunk(b, x, num_outputs, axis)


def slice_(b: Builder, x: Map, starts: Any, ends: Any, along: Any = None, steps: Any = None) -> Map:
    begin, end = integers(starts, "starts"), integers(ends, "ends")
    along = range(len(begin)) if along is None else integers(along, "axes")
    steps = [1] * len(begin) if steps is None else integers(steps, "steps")
    for first, last, axis, step in zip(begin, end, along, steps, strict=True):
        if step < 1:
            raise Unsupported("it runs backwards")
        x = axes.slice_(b, x, axis, first, last, step)
    return x


def gather(b: Builder, x: Map, indices: Any, *, axis: int = 0) -> Map:
    extent, indices = x.shape[axis], elementwise.constant(indices, "indices")
    if indices.size and not -extent <= indices.min() <= indices.max() < extent:
        raise Unsupported(f"it takes a place that is none of {extent}")
    places = [int(place) % extent for place in indices.ravel()]
    if indices.ndim == 0:
        return axes.select(b, x, axis, places[0])
    if indices.ndim > 1 or not places or places != list(range(places[0], places[0] + len(places))):
        raise Unsupported("only one place, or several that follow each other, are supported")
    return axes.slice_(b, x, axis, places[0], places[-1] + 1)


def pad(b: Builder, x: Map, pads: Any, value: Any = None, along: Any = None, *, mode: str = "constant") -> Map:
    amounts, rank = integers(pads, "pads"), len(x.axes)
    chosen = range(rank) if along is None else [axis % rank for axis in integers(along, "axes")]
    half = len(amounts) // 2
    by_axis = dict(zip(chosen, zip(amounts[:half], amounts[half:], strict=True), strict=True))
    backwards = [amount for axis in reversed(range(rank)) for amount in by_axis.get(axis, (0, 0))]
    filled = 0.0 if value is None else _filling(b, x, elementwise.constant(value, "value").ravel()[0])
    return axes.pad(b, x, backwards, {"edge": "replicate"}.get(mode, mode), filled)


def _filling(b: Builder, x: Map, value: Any) -> float:
    """Return what a map is filled with, which is a step of its scale where it is a map of integers."""
    if value.dtype not in (np.int8, np.uint8):
        return float(value)
    quant = b.tensors[x.tensor].quant
    if quant is None:
        raise Unsupported("it pads with integers a map whose scale is not known there")
    step = int(value) - (SHIFT if value.dtype == np.uint8 else 0)
    return float((step - quant.zero_point[0]) * quant.scale[0])


# views


def reshape(b: Builder, x: Map, shape: Any, *, allowzero: int = 0) -> Map:
    wanted = integers(shape, "shape")
    return viewed(b, x, [x.shape[i] if extent == 0 and not allowzero else extent for i, extent in enumerate(wanted)])


def flatten(b: Builder, x: Map, *, axis: int = 1) -> Map:
    axis %= len(x.axes) + 1 if axis >= 0 else len(x.axes)
    return viewed(b, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def transpose(b: Builder, x: Map, *, perm: Sequence[int] | None = None) -> Map:
    return axes.permute(b, x, perm or range(len(x.axes))[::-1])


def squeeze(b: Builder, x: Map, given: Any = None) -> Map:
    return axes.squeeze(b, x, None if given is None else integers(given, "axes"))


def unsqueeze(b: Builder, x: Map, given: Any) -> Map:
    places = integers(given, "axes")
    for axis in sorted(axis % (len(x.axes) + len(places)) for axis in places):
        x = axes.unsqueeze(b, x, axis)
    return x


def expand(b: Builder, x: Map, shape: Any) -> Map:
    if np.broadcast_shapes(x.shape, tuple(integers(shape, "shape"))) != x.shape:
        raise Unsupported("it repeats values; let the op that reads it broadcast")
    return x


def tile(b: Builder, x: Map, repeats: Any) -> Map:
    if {*integers(repeats, "repeats")} - {1}:
        raise Unsupported("it repeats values; let the op that reads it broadcast")
    return x


def shape_of(b: Builder, x: Any, *, start: int = 0, end: int | None = None) -> Array:
    return np.array(np.shape(x) if isinstance(x, np.ndarray) else x.shape, np.int64)[start:end]


def size_of(b: Builder, x: Any) -> Array:
    return np.array(prod(x.shape), np.int64)


def _blocks(b: Builder, x: Map, kind: str, size: Sequence[int], channels: int, block: int) -> Map:
    spatial_axes, dims = spatial.to_image(b, 4, size, b.fresh(channels))
    return b.map(kind, (spatial.nhwc(b, x),), spatial_axes, dims, {"block_size": block})


def depth_to_space(b: Builder, x: Map, *, blocksize: int, mode: str = "DCR") -> Map:
    n, c, h, w = x.shape
    depth = c // blocksize**2
    if mode == "CRD":  # the channels of a block lie together
        apart = viewed(b, x, (n, depth, blocksize, blocksize, h, w))
        x = viewed(b, axes.permute(b, apart, (0, 2, 3, 1, 4, 5)), (n, c, h, w))
    return _blocks(b, x, "depth_to_space", (h * blocksize, w * blocksize), depth, blocksize)


def space_to_depth(b: Builder, x: Map, *, blocksize: int, mode: str = "DCR") -> Map:
    if mode != "DCR":
        raise Unsupported(f"its mode '{mode}' is not TFLite's")
    _, c, h, w = x.shape
    return _blocks(b, x, "space_to_depth", (h // blocksize, w // blocksize), c * blocksize**2, blocksize)


# sequences


def recurrent(kind: str, gates: Sequence[int], usual: Sequence[str]) -> Function:
    """Return the function of an LSTM or a GRU. gates: in which order PyTorch has those of ONNX; usual: the activations."""

    def apply(
        b: Builder,
        x: Map,
        weights: Any,
        recurrences: Any,
        biases: Any = None,
        lengths: Any = None,
        *states: Any,
        hidden_size: int = 0,
        direction: str = "forward",
        layout: int = 0,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        linear_before_reset: int = 0,
        input_forget: int = 0,
    ) -> list[Any]:
        if direction != "forward" or layout or clip is not None or lengths is not None or input_forget:
            raise Unsupported("only the direction 'forward', layout 0 and no clipping are supported")
        if activations is not None and tuple(activations) != tuple(usual):
            raise Unsupported(f"its activations {', '.join(activations)} are not the usual ones")
        if kind == "gru" and not linear_before_reset:
            raise Unsupported("it resets before the product; set linear_before_reset, as PyTorch does")
        if any(state is not None and np.any(elementwise.constant(state, "first state")) for state in states):
            raise Unsupported("its first state is not 0")
        parts = [elementwise.constant(each, "weight")[0] for each in (weights, recurrences)]
        rows = len(gates) * parts[1].shape[1]
        both = np.zeros(2 * rows, np.float32) if biases is None else elementwise.constant(biases, "bias")[0]
        parts += [both[:rows], both[rows:]]
        ordered = [np.concatenate([np.split(part, len(gates))[gate] for gate in gates]) for part in parts]
        sequence, *last = aten.RECURRENT[kind](b, x, np.zeros(1), ordered, True, 1, 0.0, False, False, False)
        return [axes.unsqueeze(b, sequence, 1), *last]

    return apply


def constant(b: Builder, **given: Any) -> Array:
    ((name, value),) = given.items()
    if name not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        raise Unsupported("only numbers are supported")
    dtype = np.float32 if "float" in name else np.int64
    return np.asarray(value) if name == "value" else np.asarray(value, dtype)
