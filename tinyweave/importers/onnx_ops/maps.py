"""Import ONNX ops of which at least one input is computed by the network, by functions of `importers/aten`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from functools import reduce as accumulated
from math import ceil, prod
from typing import Any

import numpy as np

from ..aten import axes, elementwise, norms, selecting, spatial
from ..aten.recurrent import GRU_BEFORE, RECURRENT
from ..channels_last import Builder, Map, Unavailable, check_elements, view
from ..quantised_constants import SHIFT, Array, dequantised
from ..unsupported import Unsupported, normalised_axis

Function = Callable[..., Any]
Ints = Sequence[int] | None
MEAN_VARIANCE_EPSILON = 1e-9  # as in the function body of ONNX's operator
FLOATS = (1, 10, 11, 16)  # TensorProto.FLOAT, FLOAT16, DOUBLE and BFLOAT16, all of which become float32
INTEGERS = (6, 7)  # TensorProto.INT32 and INT64


def constant_integers(value: Any, what: str) -> list[int]:
    """Return a constant input, `what` in messages, as integers; raise Unsupported if the network computes it."""
    return [int(each) for each in np.ravel(elementwise.constant(value, what))]


def ignoring_attributes(function: Function) -> Function:
    """Wrap an importer function so that it ignores the node's attributes, such as attributes of older opsets."""
    return lambda b, *inputs, **_: function(b, *inputs)


def _windows(
    x: Map, kernel: Sequence[int], *, strides: Ints = None, dilations: Ints = None, auto_pad: str = "NOTSET", pads: Ints = None
) -> tuple[Sequence[int], list[tuple[int, int]], Sequence[int]]:
    """Return strides, paddings (before, after; SAME resolved) and dilations per spatial axis, from a node's attributes."""
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    if auto_pad not in ("NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID"):
        raise Unsupported(f"its auto_pad '{auto_pad}' is unknown; NOTSET, VALID, SAME_UPPER and SAME_LOWER are supported")
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
    b: Builder, x: Map, weight: Any, bias: Any = None, *, group: int = 1, kernel_shape: Ints = None, **window: Any
) -> Map:
    """Import ONNX's Conv; `window` has the attributes strides, dilations, auto_pad and pads."""
    kernel = elementwise.stored_constant(weight, "weight").shape[2:]
    return spatial.convolution(b, x, weight, bias, *_windows(x, kernel, **window), group)


def transposed_convolution(
    b: Builder,
    x: Map,
    weight: Any,
    bias: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    output_padding: Ints = None,
    output_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Map:
    """Import ConvTranspose of a map [1, c, h, w] or [1, c, w]; auto_pad SAME or an output_shape decides the padding."""
    kernel = elementwise.stored_constant(weight, "weight").shape[2:]
    rank = len(kernel)
    if len(x.axes) != rank + 2:
        raise Unsupported(f"its filters have {rank} spatial axes but its map has {len(x.axes) - 2}")
    strides, dilations, more = strides or [1] * rank, dilations or [1] * rank, output_padding or [0] * rank
    pads = pads if pads and auto_pad == "NOTSET" else [0] * (2 * rank)
    is_same = auto_pad in ("SAME_LOWER", "SAME_UPPER")
    if output_shape or is_same:
        wanted = output_shape[-rank:] if output_shape else [extent * s for extent, s in zip(x.shape[2:], strides, strict=True)]
        whole = [s * (e - 1) + d * (k - 1) + 1 for e, s, d, k in zip(x.shape[2:], strides, dilations, kernel, strict=True)]
        totals = [max(size + extra - out, 0) for size, extra, out in zip(whole, more, wanted, strict=True)]
        more = [out - size + total for out, size, total in zip(wanted, whole, totals, strict=True)]
        before = [total // 2 if auto_pad == "SAME_UPPER" else total - total // 2 for total in totals]
        pads = [*before, *(total - first for total, first in zip(totals, before, strict=True))]
    # cropping less after than before equals output padding
    less = [before - after + extra for before, after, extra in zip(pads[:rank], pads[rank:], more, strict=True)]
    return spatial.transposed_convolution(b, x, weight, bias, strides, pads[:rank], less, group, dilations)


def pool(function: Function) -> Function:
    """Return an importer of a pooling op; `function` gets kernel, strides, paddings, dilations and ceil_mode in order."""

    def apply(b: Builder, x: Map, *, kernel_shape: Sequence[int], ceil_mode: int = 0, **given: Any) -> Any:
        if len(x.axes) != len(kernel_shape) + 2:
            raise Unsupported(f"its kernel has {len(kernel_shape)} axes but its map has {len(x.axes) - 2} spatial axes")
        window = {name: given.pop(name) for name in ("auto_pad", "dilations", "pads", "strides") if name in given}
        return function(b, x, kernel_shape, *_windows(x, kernel_shape, **window), bool(ceil_mode), **given)

    return apply


def average_pool(b: Builder, x: Map, *window: Any, count_include_pad: int = 0) -> Map:
    """Import ONNX's AveragePool; `window` is as for `pool`."""
    kernel, strides, padding, dilations, ceil_mode = window
    return spatial.average_pool(b, x, kernel, strides, padding, ceil_mode, bool(count_include_pad), dilation=dilations)


def max_pool(b: Builder, x: Map, *window: Any, storage_order: int = 0) -> list[Any]:
    """Import ONNX's MaxPool; `window` is as for `pool`. No op may read the second output, the indices."""
    return [spatial.max_pool(b, x, *window), axes.INDICES_READ]


def global_reduction(kind: str) -> Function:
    """Return a function that imports a reduction over all rows and columns; `kind` is the TFLite op kind."""
    return lambda b, x: axes.reduce(kind)(b, x, range(2, len(x.axes)), True)


def gemm(
    b: Builder, x: Map, weight: Any, bias: Any = None, *, alpha: float = 1, beta: float = 1, transA: int = 0, transB: int = 0
) -> Map:
    """Import ONNX's Gemm, alpha * x @ weight + beta * bias, with constant weights, as fully_connected."""
    weight = _multiplied(elementwise.stored_constant(weight, "weight"), alpha)
    weight = weight if transB else weight.T
    x = axes.permute(b, x, (1, 0)) if transA else x
    if bias is None:
        return axes.linear(b, x, weight)
    bias = _multiplied(elementwise.stored_constant(bias, "bias"), beta)
    if prod(bias.shape[:-1]) > 1:
        return elementwise.binary("add")(b, axes.linear(b, x, weight), bias)  # a value per row
    return axes.linear(b, x, weight, np.broadcast_to(bias.ravel(), (len(weight),)))


def _multiplied(values: Array, factor: float) -> Array:
    return values if factor == 1 else dequantised(values) * np.float32(factor)


def variadic(kind: str) -> Function:
    """Return a function that imports an op with any number of inputs, as a chain of binary ops of the TFLite kind `kind`."""

    def apply(b: Builder, *inputs: Any) -> Map:
        combine: Callable[[Any, Any], Map] = partial(elementwise.binary(kind), b)
        result: Map = accumulated(combine, sorted(inputs, key=lambda each: not isinstance(each, Map)))  # maps first
        return result

    return apply


def clip(b: Builder, x: Map, low: Any = None, high: Any = None) -> Map:
    """Import ONNX's Clip with constant limits; None means no limit."""
    limits = (None if limit is None else float(elementwise.constant(limit, "limit")) for limit in (low, high))
    return elementwise.clamp(b, x, *limits)


def prelu(b: Builder, x: Map, slope: Any) -> Map:
    """Import ONNX's PRelu with one slope, or one per channel."""
    slope = elementwise.constant(slope, "slope")
    along = [axis - slope.ndim for axis, extent in enumerate(slope.shape) if extent != 1]
    if along not in ([], [1 - len(x.axes)]) or slope.size not in (1, x.shape[1]):
        raise Unsupported(f"its slope of shape {list(slope.shape)} is not one value per channel")
    return elementwise.prelu(b, x, slope.ravel())


def batch_norm(
    b: Builder, x: Map, *parameters: Any, epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0
) -> Map:
    """Import ONNX's BatchNormalization in inference mode; the parameters are scale, bias, mean and variance."""
    scale, bias, mean, variance = parameters
    return elementwise.batch_norm(b, x, scale, bias, mean, variance, bool(training_mode), 0.0, epsilon, False)


def layer_norm(
    b: Builder, x: Map, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> list[Any]:
    """Import LayerNormalization over the axes from `axis` on; no op may read the outputs mean and inverse deviation."""
    unread = Unavailable("its mean or inverse deviation is read; only its normalised output is supported")
    return [norms.layer_norm(b, x, _normalised_shape(x, axis), scale, bias, epsilon), unread, unread]


def rms_norm(b: Builder, x: Map, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Map:
    """Import ONNX's RMSNormalization over the axes from `axis` on."""
    return norms.rms_norm(b, x, _normalised_shape(x, axis), scale, epsilon)


def _normalised_shape(x: Map, axis: int) -> tuple[int, ...]:
    return x.shape[normalised_axis(len(x.shape), axis) :]


def dropout(b: Builder, x: Map, ratio: Any = None, training: Any = None, *, seed: int = 0) -> list[Any]:
    """Import ONNX's Dropout in inference mode as the identity; no op may read the second output, the mask."""
    if training is not None and np.any(elementwise.constant(training, "mode")):
        raise Unsupported("it is in training mode; export the model for inference")
    return [x, Unavailable("its mask is read; only its output is supported")]


def cast(b: Builder, x: Map, *, to: int, **_: Any) -> Map:
    """Import ONNX's Cast of bools (0 or 1), 8-bit inputs and floats to float32; indices stay. Others are refused."""
    if to in INTEGERS and b.tensors[x.tensor].dtype == "int32":
        return x
    if to not in FLOATS:
        raise Unsupported("it converts to another dtype; only floats are supported")
    return elementwise.as_floats(b, x)


def cast_like(b: Builder, x: Any, like: Any, **_: Any) -> Any:
    """Import ONNX's CastLike of a map or a constant to the type of `like`."""
    dtype = np.dtype(b.tensors[like.tensor].dtype) if isinstance(like, Map) else like.dtype
    if not isinstance(x, Map):
        return x.astype(dtype)
    return cast(b, x, to=FLOATS[0] if dtype.kind == "f" else INTEGERS[0])


def branch(b: Builder, condition: Any, chosen: Sequence[Any], *_: Any, outputs: int = 1) -> Any:
    """Import ONNX's If with a constant condition; `chosen` are the values of the branch that it selects."""
    if isinstance(condition, Map):
        raise Unsupported("its condition is computed by the network; compute both branches and select with where (SELECT_V2)")
    return chosen[0] if outputs == 1 else list(chosen)


def softmax(kind: str) -> Function:
    """Return a function that imports Softmax or LogSoftmax; `kind` is the TFLite op kind."""
    return lambda b, x, *, axis=-1: axes.softmax(b, x, axis, kind=kind)


def reduction(function: Function) -> Function:
    """Return an importer of a reduction; `function` gets the builder, the map, the axes (or None) and keepdim."""

    def apply(
        b: Builder, x: Map, given: Any = None, *, axes_: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Map:
        chosen = axes_ if given is None else constant_integers(given, "axes")
        if not chosen and noop_with_empty_axes:  # each element alone, so that its norm is its magnitude
            x, chosen, keepdims = axes.unsqueeze(b, x, -1), [-1], 0
        result: Map = function(b, x, chosen or None, bool(keepdims))
        return result

    return lambda b, *inputs, axes=None, **attributes: apply(b, *inputs, axes_=axes, **attributes)


def cumsum(b: Builder, x: Map, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Map:
    """Import ONNX's CumSum along a constant axis."""
    (along,) = constant_integers(axis, "axis")
    return axes.cumsum(b, x, along, exclusive=bool(exclusive), reverse=bool(reverse))


def argmax(kind: str) -> Function:
    """Return a function that imports ONNX's ArgMax or ArgMin as the op kind `kind`; of equal elements the first one counts."""

    def apply(b: Builder, x: Map, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Map:
        if select_last_index:
            raise Unsupported(f"its select_last_index is set, but {kind} selects the first of equal ones; export it without")
        return axes.argmax(b, x, axis, bool(keepdims), kind=kind)

    return apply


def top(b: Builder, x: Map, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """Import ONNX's TopK with a constant k: return the extreme elements along `axis`, and their indices."""
    (count,) = constant_integers(k, "k")
    return axes.top(b, x, count, axis, bool(largest))


def group_norm(
    b: Builder, x: Map, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Map:
    """Import ONNX's GroupNormalization; scale and bias have a value per channel or, in opset 18, per group."""
    weight, offset = (elementwise.constant(values, "scale") for values in (scale, bias))
    each = x.shape[1] // weight.size
    return norms.group_norm(b, x, num_groups, np.repeat(weight, each), np.repeat(offset, each), epsilon)


def mean_variance_norm(b: Builder, x: Map, *, axes: Sequence[int] = (0, 2, 3)) -> Map:
    """Import ONNX's MeanVarianceNormalization over the pixels of each channel."""
    if {axis for axis in axes if x.shape[axis] > 1} != {axis for axis in range(2, len(x.axes)) if x.shape[axis] > 1}:
        raise Unsupported(f"its axes {list(axes)} are not those of the pixels; use GroupNormalization")
    return norms.instance_norm(b, x, eps=MEAN_VARIANCE_EPSILON)


def split(b: Builder, x: Map, sizes: Any = None, *, axis: int = 0, num_outputs: int = 1) -> list[Any]:
    """Import ONNX's Split into parts of the extents `sizes`, or, if they are absent, into at most `num_outputs` equal parts."""
    if sizes is not None:
        extents = constant_integers(sizes, "sizes")
        parts = iter(axes.split_sizes(b, x, [extent for extent in extents if extent], axis))
        nothing = np.zeros([0 if at == axis % len(x.axes) else extent for at, extent in enumerate(x.shape)], np.float32)
        return [next(parts) if extent else nothing for extent in extents]
    return axes.chunk(b, x, num_outputs, axis)


def concat(b: Builder, *parts: Any, axis: int) -> Any:
    """Import ONNX's Concat; parts without elements, as function bodies have them, are left out."""
    filled = [part for part in parts if 0 not in part.shape]
    return filled[0] if len(filled) == 1 else axes.concatenation(b, filled, axis)


def slice_(b: Builder, x: Map, starts: Any, ends: Any, along: Any = None, steps: Any = None) -> Map:
    """Import ONNX's Slice with constant bounds, per axis in `along` (default: the first axes); a negative step reverses."""
    begin, end = constant_integers(starts, "starts"), constant_integers(ends, "ends")
    along = range(len(begin)) if along is None else constant_integers(along, "axes")
    steps = [1] * len(begin) if steps is None else constant_integers(steps, "steps")
    for first, last, axis, step in zip(begin, end, along, steps, strict=True):
        x = axes.take(b, x, axis, range(x.shape[normalised_axis(len(x.axes), axis)])[first:last:step])
    return x


def gather(b: Builder, x: Any, indices: Any, *, axis: int = 0) -> Map:
    """Import ONNX's Gather; computed indices must not be negative."""
    if not isinstance(indices, Map):
        indices = elementwise.constant(indices, "indices").astype(int)
    return axes.take_all(b, x, axis, indices)


def one_hot(b: Builder, indices: Map, depth: Any, values: Any, *, axis: int = -1) -> Map:
    """Import ONNX's OneHot as a lookup in a matrix of `values` (off, on); computed indices must not be negative."""
    (classes,) = constant_integers(depth, "depth")
    off, on = elementwise.constant(values, "values").astype(np.float32)
    if classes < 1:
        raise Unsupported(f"its depth is {classes}; it must be positive")
    check_elements(classes, classes)
    found = axes.lookup(b, np.where(np.eye(classes + 1, classes, dtype=bool), on, off), 0, indices)
    rank = len(found.axes)
    order = list(range(rank - 1))
    order.insert(axis % rank, rank - 1)
    return axes.permute(b, found, order)


def pad(b: Builder, x: Map, pads: Any, value: Any = None, along: Any = None, *, mode: str = "constant") -> Map:
    """Import ONNX's Pad with constant amounts: all befores, then all afters, of the axes in `along` (None: all)."""
    amounts, rank = constant_integers(pads, "pads"), len(x.axes)
    chosen = range(rank) if along is None else [normalised_axis(rank, axis) for axis in constant_integers(along, "axes")]
    half = len(amounts) // 2
    by_axis = dict(zip(chosen, zip(amounts[:half], amounts[half:], strict=True), strict=True))
    backwards = [amount for axis in reversed(range(rank)) for amount in by_axis.get(axis, (0, 0))]
    filled = 0.0 if value is None else _pad_value(b, x, elementwise.constant(value, "value").ravel()[0])
    return axes.pad(b, x, backwards, {"edge": "replicate", "wrap": "circular"}.get(mode, mode), filled)


def _pad_value(b: Builder, x: Map, value: Any) -> float:
    """Return the padding value as a real number; an int8 or uint8 value is dequantised with the scale of the map."""
    if value.dtype not in (np.int8, np.uint8):
        return float(value)
    quant = b.tensors[x.tensor].quant
    if quant is None:
        raise Unsupported("it pads a map with an integer, but the map has no scale yet; quantise its input first")
    step = int(value) - (SHIFT if value.dtype == np.uint8 else 0)
    return float((step - quant.zero_point[0]) * quant.scale[0])


def reshape(b: Builder, x: Map, shape: Any, *, allowzero: int = 0) -> Map:
    """Import ONNX's Reshape; an extent of 0 in `shape` means the input's extent, unless `allowzero` is set."""
    wanted = constant_integers(shape, "shape")
    return view(b, x, [x.shape[i] if extent == 0 and not allowzero else extent for i, extent in enumerate(wanted)])


def flatten(b: Builder, x: Map, *, axis: int = 1) -> Map:
    """Import ONNX's Flatten: reshape to two axes, one for all axes before `axis` and one for the axes from `axis` on."""
    rank = len(x.axes)
    axis = rank if axis == rank else normalised_axis(rank, axis)
    return view(b, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def unsqueeze(b: Builder, x: Map, given: Any) -> Map:
    """Import ONNX's Unsqueeze: insert axes of extent 1 at the positions `given` of the output's axes."""
    positions = constant_integers(given, "axes")
    rank = len(x.axes) + len(positions)
    for axis in sorted(normalised_axis(rank, axis) for axis in positions):
        x = axes.unsqueeze(b, x, axis)
    return x


def expand(b: Builder, x: Map, shape: Any) -> Map:
    """Import ONNX's Expand, which broadcasts a map to a constant shape."""
    return selecting.expand(b, x, np.broadcast_shapes(x.shape, tuple(constant_integers(shape, "shape"))))


def shape_of(b: Builder, x: Any, *, start: int = 0, end: int | None = None) -> Array:
    """Import ONNX's Shape: return the extents of the axes [start, end) as a constant, since shapes are static."""
    return np.array(np.shape(x) if isinstance(x, np.ndarray) else x.shape, np.int64)[start:end]


def blocks(outer: Function, inner: Function) -> Function:
    """Return an importer of DepthToSpace or SpaceToDepth; the block index is the `outer` or `inner` part of the channels."""
    return lambda b, x, *, blocksize, mode="DCR": (inner if mode == "CRD" else outer)(b, x, blocksize)


def recurrent(kind: str, gates: Sequence[int], usual: tuple[str, ...]) -> Function:
    """Return a function that imports ONNX's LSTM, GRU or RNN (`kind`), with the `usual` activations, or Relu in an RNN.

    `gates` has the position in ONNX's order of each gate in PyTorch's order.
    """

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
        is_shorter = lengths is not None and constant_integers(lengths, "sequence_lens") != [x.shape[layout]]
        given = {"clip": clip is not None, "sequence_lens": is_shorter, "input_forget": input_forget}
        if unsupported := [name for name, is_given in given.items() if is_given]:
            raise Unsupported(f"it has {' and '.join(unsupported)}, which is not supported; export it without")
        if direction not in DIRECTIONS:
            raise Unsupported(f"its direction {direction} is unknown; {', '.join(DIRECTIONS)} are supported")
        reverses = DIRECTIONS[direction]
        functions = tuple(activations or usual * len(reverses))
        if functions != usual * len(reverses) and (kind != "rnn" or {*functions} != {"Relu"}):
            raise Unsupported(f"its activations are {', '.join(functions)}; only {', '.join(usual)} are supported")
        name = f"rnn_{functions[0].lower()}" if kind == "rnn" else kind
        importer = GRU_BEFORE if kind == "gru" and not linear_before_reset else RECURRENT[name]
        parameters = []
        for index in range(len(reverses)):
            parts = [elementwise.constant(each, "weight")[index] for each in (weights, recurrences)]
            rows = len(gates) * parts[1].shape[1]
            both = np.zeros(2 * rows, np.float32) if biases is None else elementwise.constant(biases, "bias")[index]
            parts += [both[:rows], both[rows:]]
            parameters += [np.concatenate([np.split(part, len(gates))[gate] for gate in gates]) for part in parts]
        if layout not in (0, 1):
            raise Unsupported(f"its layout {layout} is unknown; 0 and 1 are supported")
        first = [np.zeros(1) if state is None else state for state in (*states, None, None)]
        if any(np.any(elementwise.constant(peephole, "peephole")) for peephole in first[2:-2]):
            raise Unsupported("it has peephole weights, which are not supported; export it without")
        if layout:  # the batch is the first axis of the states, too
            first = [state if np.ndim(state) == 1 else _batch_second(b, state) for state in first]
        initial = first[:2] if kind == "lstm" else first[0]
        sequence, *last = importer(b, x, initial, parameters, True, 1, 0.0, False, False, bool(layout), reverses=reverses)
        *steps, cells = sequence.shape
        split = view(b, sequence, (*steps, len(reverses), cells // len(reverses)))
        if not layout:
            return [axes.permute(b, split, (0, 2, 1, 3)), *last]
        return [split, *(partial(lambda state: _batch_second(b, state()), each) if callable(each) else each for each in last)]

    return apply


def _batch_second(b: Builder, states: Any) -> Any:
    """Return the states, a map or a constant, with the first two axes (such as time and batch) swapped."""
    return axes.permute(b, states, (1, 0, 2)) if isinstance(states, Map) else np.swapaxes(states, 0, 1)


# ONNX's direction -> for each direction whether it goes from the last time step to the first
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def constant(b: Builder, **given: Any) -> Array:
    """Import ONNX's Constant: return its value as an array."""
    ((name, value),) = given.items()
    if name not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        raise Unsupported("its value is not numeric; only numbers are supported")
    dtype = np.float32 if "float" in name else np.int64
    return np.asarray(value) if name == "value" else np.asarray(value, dtype)
