"""Import ATen's ops on rows and columns: convolutions, pooling. Maps [n, c, w], with one spatial axis, get h = 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.window import same_padding
from ..channels_last import Axes, Builder, Map, check_elements
from ..unsupported import Unsupported
from .axes import INDICES_READ, mean, mixed, pad, take
from .elementwise import binary, stored_constant

Ints = int | Sequence[int]
Pads = list[tuple[int, int]]
CONV = {"activation": "none"}
NO_PADDING = ((0, 0), (0, 0))


def pair(value: Ints, rank: int, first: int = 1) -> tuple[Any, ...]:
    """Return a number, or one per spatial axis, such as a stride, as (h, w); h is `first` if the map's rank is 3, [n, c, w]."""
    values = (value,) if isinstance(value, int) else tuple(value)
    values = values * (rank - 2) if len(values) == 1 else values
    return values if rank == 4 else (first, *values)


def image_axes(x: Map, what: str = "map") -> tuple[Axes, Axes, Axes]:
    """Return the axes c, h and w of a map (`what` in messages) [n, c, h, w] or [n, c, w]; raise Unsupported for others."""
    if len(x.axes) not in (3, 4):
        raise Unsupported(f"its {what} has {len(x.axes)} axes; it must be [n, c, h, w] or [n, c, w]")
    spatial = x.axes[2:] if len(x.axes) == 4 else ((), x.axes[2])
    return x.axes[1], spatial[0], spatial[1]


def as_nhwc(b: Builder, x: Map) -> str:
    """Return the name of a tensor [n, h, w, c] with the elements of a map."""
    c, h, w = image_axes(x)
    return b.tensor(x, (x.axes[0], h, w, c))


def image_layout(b: Builder, x: Map, size: Sequence[int], c: Axes) -> tuple[tuple[Axes, ...], tuple[Axes, ...]]:
    """Return the logical axes and the stored axes, [n, h, w, c], of a new map of size (h, w), with rank and batch of `x`."""
    n, (h, w) = x.axes[0], (b.new_axis(extent) for extent in size)
    return (n, c, *((h,) if len(x.axes) == 4 else ()), w), (n, h, w, c)


def _size(x: Map) -> tuple[int, int]:
    return (x.shape[2], x.shape[3]) if len(x.axes) == 4 else (1, x.shape[2])


def _check_filters(x: Map, rank: int, channels: int) -> None:
    """Raise Unsupported unless a map has the same rank as its filters, and as many channels as they read (`channels`)."""
    if len(x.axes) != rank:
        raise Unsupported(f"its map has {len(x.axes)} axes but its filters have {rank}; it must be [n, c, h, w] or [n, c, w]")
    image_axes(x)
    if x.shape[1] != channels:
        raise Unsupported(f"its filters read {channels} channels but the map has {x.shape[1]}")


def _windows(
    x: Map,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[Any],
    dilation: Sequence[int],
    ceil_mode: bool = False,
) -> tuple[list[int], Pads, bool]:
    """Return how windows cover a map: their number, the padding (before, after) that they read, whether that is TFLite's SAME.

    Each sequence has an entry for h and w; one of `padding` is a number or (before, after). With `ceil_mode`, the last window
    may reach beyond the padding if it begins inside the map or in the padding before it.
    """
    size, pads, same = [], [], True
    for extent, k, s, p, d in zip(_size(x), kernel, stride, padding, dilation, strict=True):
        before, after = p if isinstance(p, tuple) else (p, p)
        reach = d * (k - 1) + 1
        room = extent + before + after - reach
        count = room // s + 1
        count += ceil_mode and room % s > 0 and count * s < extent + before
        if count < 1:
            raise Unsupported("its window is larger than the padded map")
        needed = (before, max((count - 1) * s + reach - extent - before, 0))
        size.append(count)
        pads.append(needed)
        same &= needed == same_padding(extent, k, s, d)
    return size, pads, same


def _padded(b: Builder, x: Map, pads: Pads, inside: bool, *, repeat_edge: bool = False) -> tuple[str, tuple[Any, ...]]:
    """Return a map's tensor [n, h, w, c], padded by an op unless its reader pads (`inside`), and the reader's padding."""
    name = as_nhwc(b, x)
    if inside:
        return name, tuple(pads)
    if not any(map(any, pads)):
        return name, NO_PADDING
    rows = b.integers([(0, 0), *pads, (0, 0)], "pads")
    n, h, w, c = b.tensors[name].shape
    shape = (n, h + sum(pads[0]), w + sum(pads[1]), c)
    kind, attrs = ("mirror_pad", {"mode": "symmetric"}) if repeat_edge else ("pad", {})
    return b.op(kind, (name, rows), [shape], attrs, "padded")[0], NO_PADDING


def windowed(kernel: int, stride: int, dilation: int, count: int, before: int = 0) -> np.ndarray:
    """Return the indices that `count` windows read along an axis, [count, kernel]; negative in the `before` padding pixels."""
    check_elements(count, kernel)
    return np.arange(count)[:, None] * stride + np.arange(kernel) * dilation - before


def convolution(
    b: Builder, x: Map, weight: Any, bias: Any = None, stride: Ints = 1, padding: Any = 0, dilation: Ints = 1, groups: int = 1
) -> Map:
    """Import aten.conv1d or aten.conv2d, with a pad op if the padding (numbers, "same" or "valid") is not TFLite's SAME."""
    weight = stored_constant(weight, "weight")
    bias = np.zeros(len(weight)) if bias is None else stored_constant(bias, "bias")
    rank = weight.ndim
    _check_filters(x, rank, weight.shape[1] * groups)
    weight = weight if rank == 4 else weight[:, :, None]
    kernel, strides, dilations = weight.shape[2:], pair(stride, rank), pair(dilation, rank)
    if padding == "same":
        totals = (d * (k - 1) for k, d in zip(kernel, dilations, strict=True))
        paddings: Sequence[Any] = [(total // 2, total - total // 2) for total in totals]
    else:
        paddings = (0, 0) if padding == "valid" else pair(padding, rank, 0)
    size, pads, same = _windows(x, kernel, strides, paddings, dilations)
    name, inside = _padded(b, x, pads, same)
    depthwise = groups > 1 and groups == x.shape[1]
    filters = weight.transpose((1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
    attrs = CONV | {"stride": strides, "dilation": dilations, "padding": inside}
    axes, dims = image_layout(b, x, size, b.new_axis(len(weight)))
    operands = (name, b.constant(filters, "weight"), b.constant(bias, "bias"))
    return b.map("depthwise_conv_2d" if depthwise else "conv_2d", operands, axes, dims, attrs)


def transposed_convolution(
    b: Builder,
    x: Map,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Map:
    """Import aten.conv_transpose1d or aten.conv_transpose2d as transpose_conv, or, with groups or dilation, as a convolution.

    If the padding is not TFLite's SAME, a slice crops a larger output. `weight` is [c_in, c_out / groups, h, w], without h for
    conv_transpose1d.
    """
    weight = stored_constant(weight, "weight")
    rank = weight.ndim
    _check_filters(x, rank, weight.shape[0])
    weight = weight if rank == 4 else weight[:, :, None]
    outputs = weight.shape[1] * groups
    bias = np.zeros(outputs) if bias is None else stored_constant(bias, "bias")
    kernel, strides, dilations = weight.shape[2:], pair(stride, rank), pair(dilation, rank)
    crop, more = pair(padding, rank, 0), pair(output_padding, rank, 0)
    if groups != 1 or {*dilations} != {1}:
        return _spread_convolution(b, x, weight, bias, strides, crop, more, dilations, groups)
    size = [(extent - 1) * s - 2 * p + k + o for extent, s, p, k, o in zip(_size(x), strides, crop, kernel, more, strict=True)]
    if min(size) < 1:
        raise Unsupported("its padding leaves no output")
    same = tuple(same_padding(out, k, s) for out, k, s in zip(size, kernel, strides, strict=True))
    fits = tuple(before for before, _ in same) == crop and all(
        -(-out // s) == extent for out, s, extent in zip(size, strides, _size(x), strict=True)
    )
    reach = [(extent - 1) * s + k for extent, s, k in zip(_size(x), strides, kernel, strict=True)]
    whole = size if fits else [max(p + out, most) for p, out, most in zip(crop, size, reach, strict=True)]
    shape = (x.shape[0], *whole, outputs)
    attrs = CONV | {"stride": strides, "padding": same if fits else NO_PADDING}
    source = as_nhwc(b, x)
    operands = (
        b.integers(shape, "shape"),
        b.constant(weight.transpose(1, 2, 3, 0), "weight"),
        source,
        b.constant(bias, "bias"),
    )
    channels = b.new_axis(outputs)
    axes, dims = image_layout(b, x, whole, channels)
    y = b.map("transpose_conv", operands, axes, dims, attrs)
    if whole == size:
        return y
    axes, dims = image_layout(b, x, size, channels)
    begin, kept = b.integers((0, *crop, 0), "begin"), b.integers((x.shape[0], *size, outputs), "size")
    return b.map("slice", (y.tensor, begin, kept), axes, dims, suffix="cropped")


def _spread_convolution(
    b: Builder, x: Map, weight: Any, bias: Any, strides: Any, crop: Any, more: Any, dilations: Any, groups: int
) -> Map:
    """Add a transposed convolution with groups or dilation: a convolution of the map with zeros between its pixels."""
    name, (h, w), (n, inputs) = as_nhwc(b, x), _size(x), x.shape[:2]
    if max(strides) > 1:
        zeros = b.integers([(0, 0), (0, strides[0] - 1), (0, 0), (0, (strides[1] - 1) * inputs)], "pads")
        shape = (n * h, strides[0], w, strides[1] * inputs)
        (name,) = b.op("pad", (b.reshape(name, (n * h, 1, w, inputs)), zeros), [shape], {}, "spread")
        name = b.reshape(name, (n, h * strides[0], w * strides[1], inputs))
    axes, dims = image_layout(b, x, (h * strides[0], w * strides[1]), x.axes[1])
    margins = [
        (d * (k - 1) - p, d * (k - 1) - p + o - (s - 1))  # the spread map has s - 1 zeros after its last pixel
        for k, s, p, o, d in zip(weight.shape[2:], strides, crop, more, dilations, strict=True)
    ]
    spread = pad(b, Map(name, axes, dims), [min(each, 0) for margin in reversed(margins) for each in margin])
    paddings: Any = [(max(before, 0), max(after, 0)) for before, after in margins]
    parts = np.split(weight, groups)
    filters = np.concatenate([part.swapaxes(0, 1) for part in parts])[:, :, ::-1, ::-1]
    if len(x.axes) == 3:
        filters, paddings, dilations = filters[:, :, 0], paddings[1:], dilations[1:]
    return convolution(b, spread, filters, bias, 1, paddings, dilations, groups)


def _pool(b: Builder, kind: str, x: Map, name: str, size: Sequence[int], attrs: dict[str, Any]) -> Map:
    """Add a pooling op on the tensor `name`, [n, h, w, c], of the map `x`; `size` is the (h, w) of the output."""
    axes, dims = image_layout(b, x, size, x.axes[1])
    return b.map(kind, (name,), axes, dims, CONV | attrs)


def _pool_sizes(x: Map, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> tuple[Any, Any, Any, Any]:
    """Return kernel, stride, padding (before, after) and dilation of a pool for h and w; an empty stride means the kernel."""
    image_axes(x)
    rank = len(x.axes)
    kernels, dilations = pair(kernel, rank), pair(dilation, rank)
    strides = pair(stride, rank) if not isinstance(stride, Sequence) or stride else kernels
    paddings = [each if isinstance(each, tuple) else (each, each) for each in pair(padding, rank, 0)]
    return kernels, strides, paddings, dilations


def average_pool_depth(b: Builder, x: Map, kernel: Ints, stride: Ints = (), *more: Any, **named: Any) -> Map:
    """Import aten.avg_pool3d along the first of its spatial axes, as in nn.LocalResponseNorm, as a product with a constant."""
    sizes, strides = (
        [each] * 3 if isinstance(each, int) else [*each] * (3 // len(each)) for each in (kernel, stride or kernel)
    )
    if sizes[1:] != [1, 1] or strides[1:] != [1, 1] or any(np.ravel((*more, *named.values()))):
        raise Unsupported("at most two spatial axes are supported; make the third one part of the channels")
    count = (x.shape[-3] - sizes[0]) // strides[0] + 1
    check_elements(count, x.shape[-3])
    weights = np.zeros((count, x.shape[-3]), np.float32)
    weights[np.arange(count)[:, None], windowed(sizes[0], strides[0], 1, count)] = 1 / sizes[0]
    return mixed(b, x, -3, weights)


def average_pool(
    b: Builder,
    x: Map,
    kernel: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: Ints = 1,
) -> Map:
    """Import aten.avg_pool1d or 2d; other averages than TFLite's get a pad op and a product with a constant."""
    kernels, strides, paddings, dilations = _pool_sizes(x, kernel, stride, padding, dilation)
    size, pads, same = _windows(x, kernels, strides, paddings, dilations, ceil_mode)
    counts = []
    for extent, k, s, d, (before, after), n in zip(_size(x), kernels, strides, dilations, paddings, size, strict=True):
        at = windowed(k, s, d, n, before)
        first, end = (-before, extent + after) if count_include_pad else (0, extent)
        counts.append(((at >= first) & (at < end)).sum(1))
    check_elements(*size)
    divisors = np.outer(*counts) if divisor_override is None else np.full((1, 1), divisor_override)
    area = kernels[0] * kernels[1]
    if {*dilations} != {1}:
        check_elements(x.shape[1], area)
        filters = np.full((x.shape[1], 1, *kernels), 1 / area, np.float32)
        filters, chosen = (filters, slice(2)) if len(x.axes) == 4 else (filters[:, :, 0], slice(1, 2))
        y = convolution(b, x, filters, None, strides[chosen], pads[chosen], dilations[chosen], x.shape[1])
    else:
        inside = any(map(any, pads)) and same and not count_include_pad and divisor_override is None
        name, padding = _padded(b, x, pads, inside)
        y = _pool(b, "average_pool_2d", x, name, size, {"kernel": kernels, "stride": strides, "padding": padding})
        if inside:
            return y
    factors = np.broadcast_to(area / divisors, size).reshape(y.shape[2:])
    return y if (factors == 1).all() else binary("mul")(b, y, factors)


def max_pool(
    b: Builder, x: Map, kernel: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Map:
    """Import aten.max_pool1d or aten.max_pool2d.

    Padding that is not SAME repeats values of the window, so no maximum changes; for a dilated pool, gathers copy each window.
    """
    kernels, strides, paddings, dilations = _pool_sizes(x, kernel, stride, padding, dilation)
    size, pads, same = _windows(x, kernels, strides, paddings, dilations, ceil_mode)
    befores = [before for before, _ in pads]
    windows = list(map(_inside, map(windowed, kernels, strides, dilations, size, befores), _size(x)))
    if {*dilations} != {1}:
        return _gathered_max_pool(b, x, windows)
    if not same and any(2 * max(amounts) > k for amounts, k in zip(pads, kernels, strict=True)):
        x, pads, same = pad(b, x, [*pads[1], *pads[0]], "replicate"), [(0, 0), (0, 0)], True
    name, padding = _padded(b, x, pads, same, repeat_edge=True)
    return _pool(b, "max_pool_2d", x, name, size, {"kernel": kernels, "stride": strides, "padding": padding})


def _inside(windows: np.ndarray, extent: int) -> np.ndarray:
    """Replace indices beyond the axis by one of the same window; raise Unsupported if a window lies beyond it as a whole."""
    is_inside = (windows >= 0) & (windows < extent)
    if not is_inside.any(1).all():
        raise Unsupported("its padding is so large that a window lies in the padding alone")
    first = np.take_along_axis(windows, is_inside.argmax(1)[:, None], 1)
    return np.where(is_inside, windows, first)


def _gathered_max_pool(b: Builder, x: Map, windows: Sequence[np.ndarray]) -> Map:
    """Add a max pool of windows of any pixels, which gathers copy; `windows` has indices [windows, kernel] for h and w."""
    for dim, at in zip((-2, -1), windows, strict=True):
        if len(x.axes) + dim > 1:
            x = take(b, x, dim, at.ravel())
    kernels, size = tuple(at.shape[1] for at in windows), [len(at) for at in windows]
    attrs = {"kernel": kernels, "stride": kernels, "padding": NO_PADDING}
    return _pool(b, "max_pool_2d", x, as_nhwc(b, x), size, attrs)


def adaptive_average_pool(b: Builder, x: Map, output_size: Ints) -> Map:
    """Import aten.adaptive_avg_pool1d or 2d as an average pool, a mean, or products with constants if its windows differ."""
    wanted = _adaptive_size(x, output_size)
    if wanted == [1, 1]:
        return mean(b, x, range(2, len(x.axes)), keepdim=True)
    kernels = [extent // out if extent % out == 0 else 1 for extent, out in zip(_size(x), wanted, strict=True)]
    if max(kernels) > 1:
        x = average_pool(b, x, kernels if len(x.axes) == 4 else kernels[1:])
    for dim, extent, out in zip((-2, -1), _size(x), wanted, strict=True):
        if extent != out:
            check_elements(extent, out)
            windows = _adaptive_windows(extent, out)
            x = mixed(b, x, dim, np.array([np.bincount(at, minlength=extent) / len(at) for at in windows], np.float32))
    return x


def adaptive_max_pool(b: Builder, x: Map, output_size: Ints) -> list[Any]:
    """Import aten.adaptive_max_pool1d or 2d as a max pool; no op may read the second output, the indices."""
    wanted = _adaptive_size(x, output_size)
    if not any(extent % out for extent, out in zip(_size(x), wanted, strict=True)):
        kernels = [extent // out for extent, out in zip(_size(x), wanted, strict=True)]
        return [max_pool(b, x, kernels if len(x.axes) == 4 else kernels[1:]), INDICES_READ]
    windows = []
    check_elements(*wanted)
    for each in map(_adaptive_windows, _size(x), wanted):
        at = windowed(max(map(len, each)), 1, 1, 1) + np.array([[window.start] for window in each])
        windows.append(np.minimum(at, [[window.stop - 1] for window in each]))  # smaller windows repeat their last element
    return [_gathered_max_pool(b, x, windows), INDICES_READ]


def _adaptive_windows(extent: int, out: int) -> list[range]:
    """Return the indices of each of the `out` windows of an adaptive pool along an axis of this extent."""
    return [range(i * extent // out, -(-(i + 1) * extent // out)) for i in range(out)]


def _adaptive_size(x: Map, output_size: Ints) -> list[int]:
    """Return the output size (h, w) of an adaptive pool, in which None means the extent of the map."""
    image_axes(x)
    return [extent if out is None else out for out, extent in zip(pair(output_size, len(x.axes)), _size(x), strict=True)]
