"""Ops on the rows and columns of maps: convolutions, pools, resizing. Maps of one spatial axis have height 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops import resize
from ...ops.window import same_padding
from ..channels_last import Axes, Builder, Map, Unread, Unsupported
from .axes import mean
from .elementwise import with_steps

Ints = int | Sequence[int]
Pads = list[tuple[int, int]]
CONV = {"activation": "none"}
NO_PADDING = ((0, 0), (0, 0))


def _pair(value: Ints, rank: int, first: int = 1) -> tuple[Any, ...]:
    """Return a size per spatial axis as (h, w); for h of a map of one spatial axis it is `first`."""
    values = (value,) if isinstance(value, int) else tuple(value)
    values = values * (rank - 2) if len(values) == 1 else values
    return values if rank == 4 else (first, *values)


def _image(x: Map, what: str = "map") -> tuple[Axes, Axes, Axes]:
    """Return the axes c, h, w of a map [1, c, h, w] or [1, c, w]."""
    if len(x.axes) not in (3, 4):
        raise Unsupported(f"its {what} has {len(x.axes)} axes; give it a batch of 1 and its channels")
    if x.axes[0]:
        raise Unsupported(f"its batch is {x.shape[0]}; export it with a batch of 1")
    spatial = x.axes[2:] if len(x.axes) == 4 else ((), x.axes[2])
    return x.axes[1], spatial[0], spatial[1]


def nhwc(b: Builder, x: Map) -> str:
    """Return a map as a tensor [1, h, w, c]."""
    c, h, w = _image(x)
    return b.tensor(x, ((), h, w, c))


def to_image(b: Builder, rank: int, size: Sequence[int], c: Axes) -> tuple[tuple[Axes, ...], tuple[Axes, ...]]:
    """Return (axes, dims) of a new map of this size [h, w]."""
    h, w = (b.fresh(extent) for extent in size)
    return ((), c, *((h,) if rank == 4 else ()), w), ((), h, w, c)


def _size(x: Map) -> tuple[int, int]:
    return (x.shape[2], x.shape[3]) if len(x.axes) == 4 else (1, x.shape[2])


# convolutions


def _check_filters(x: Map, rank: int, channels: int) -> None:
    """Raise Unsupported where filters of this rank, which read so many channels, are not for the map."""
    if len(x.axes) != rank:
        raise Unsupported(f"its map has {len(x.axes)} axes, its filters have {rank}; give it a batch of 1 and its channels")
    _image(x)
    if x.shape[1] != channels:
        raise Unsupported(f"its filters read {channels} channels, the map has {x.shape[1]}")


def _windows(
    x: Map, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[Any], dilation: Sequence[int]
) -> tuple[list[int], Pads, bool]:
    """Return the output's size, the padding that windows reach, and whether it is TFLite's SAME."""
    size, pads, same = [], [], True
    for extent, k, s, p, d in zip(_size(x), kernel, stride, padding, dilation, strict=True):
        before, after = p if isinstance(p, tuple) else (p, p)
        reach = d * (k - 1) + 1
        count = (extent + before + after - reach) // s + 1
        if count < 1:
            raise Unsupported("its window is larger than the padded map")
        needed = (before, max((count - 1) * s + reach - extent - before, 0))
        size.append(count)
        pads.append(needed)
        same &= needed == same_padding(extent, k, s, d)
    return size, pads, same


def _padded(b: Builder, x: Map, pads: Pads, inside: bool, *, mirrored: bool = False) -> tuple[str, tuple[Any, ...]]:
    """Return the map as a tensor, padded around rows and columns unless the op pads inside, and what the op pads."""
    name = nhwc(b, x)
    if inside:
        return name, tuple(pads)
    if not any(map(any, pads)):
        return name, NO_PADDING
    rows = b.integers([(0, 0), *pads, (0, 0)], "pads")
    n, h, w, c = b.tensors[name].shape
    shape = (n, h + sum(pads[0]), w + sum(pads[1]), c)
    kind, attrs = ("mirror_pad", {"mode": "symmetric"}) if mirrored else ("pad", {})
    return b.op(kind, (name, rows), [shape], attrs, "padded")[0], NO_PADDING


def convolution(
    b: Builder,
    x: Map,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Any = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Map:
    weight = with_steps(weight, "weight")
    bias = np.zeros(len(weight)) if bias is None else with_steps(bias, "bias")
    rank = weight.ndim
    _check_filters(x, rank, weight.shape[1] * groups)
    weight = weight if rank == 4 else weight[:, :, None]
    kernel, strides, dilations = weight.shape[2:], _pair(stride, rank), _pair(dilation, rank)
    if padding == "same":
        totals = (d * (k - 1) for k, d in zip(kernel, dilations, strict=True))
        paddings: Sequence[Any] = [(total // 2, total - total // 2) for total in totals]
    else:
        paddings = (0, 0) if padding == "valid" else _pair(padding, rank, 0)
    size, pads, same = _windows(x, kernel, strides, paddings, dilations)
    name, inside = _padded(b, x, pads, same)
    depthwise = groups > 1 and groups == x.shape[1]
    filters = weight.transpose((1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
    attrs = CONV | {"stride": strides, "dilation": dilations, "padding": inside}
    axes, dims = to_image(b, rank, size, b.fresh(len(weight)))
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
    weight = with_steps(weight, "weight")
    if groups != 1 or {*_pair(dilation, 4)} != {1}:
        raise Unsupported("TFLite's transposed convolution has neither groups nor dilation")
    _check_filters(x, weight.ndim, weight.shape[0])
    bias = np.zeros(weight.shape[1]) if bias is None else with_steps(bias, "bias")
    kernel, strides, crop, more = weight.shape[2:], _pair(stride, 4), _pair(padding, 4), _pair(output_padding, 4)
    size = [(extent - 1) * s - 2 * p + k + o for extent, s, p, k, o in zip(_size(x), strides, crop, kernel, more, strict=True)]
    same = tuple(same_padding(out, k, s) for out, k, s in zip(size, kernel, strides, strict=True))
    fits = tuple(before for before, _ in same) == crop and all(
        -(-out // s) == extent for out, s, extent in zip(size, strides, _size(x), strict=True)
    )
    reach = [(extent - 1) * s + k for extent, s, k in zip(_size(x), strides, kernel, strict=True)]
    whole = size if fits else [max(p + out, most) for p, out, most in zip(crop, size, reach, strict=True)]
    shape = (1, *whole, weight.shape[1])
    attrs = CONV | {"stride": strides, "padding": same if fits else NO_PADDING}
    source = nhwc(b, x)
    operands = (
        b.integers(shape, "shape"),
        b.constant(weight.transpose(1, 2, 3, 0), "weight"),
        source,
        b.constant(bias, "bias"),
    )
    channels = b.fresh(weight.shape[1])
    axes, dims = to_image(b, 4, whole, channels)
    y = b.map("transpose_conv", operands, axes, dims, attrs)
    if whole == size:
        return y
    axes, dims = to_image(b, 4, size, channels)
    begin, kept = b.integers((0, *crop, 0), "begin"), b.integers((1, *size, weight.shape[1]), "size")
    return b.map("slice", (y.tensor, begin, kept), axes, dims, suffix="cropped")


# pools


def _pool(b: Builder, kind: str, x: Map, name: str, size: Sequence[int], attrs: dict[str, Any]) -> Map:
    axes, dims = to_image(b, len(x.axes), size, x.axes[1])
    return b.map(kind, (name,), axes, dims, CONV | attrs)


def _pool_sizes(x: Map, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool) -> tuple[Any, Any, Any]:
    rank = len(x.axes)
    kernels, paddings = _pair(kernel, rank), _pair(padding, rank, 0)
    strides = _pair(stride, rank) if not isinstance(stride, Sequence) or stride else kernels
    if ceil_mode:
        for extent, k, s, p in zip(_size(x), kernels, strides, paddings, strict=True):
            if (extent + (sum(p) if isinstance(p, tuple) else 2 * p) - k) % s:
                raise Unsupported("with ceil_mode its last windows leave the map")
    return kernels, strides, paddings


def average_pool(
    b: Builder,
    x: Map,
    kernel: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Map:
    _image(x)
    if divisor_override is not None:
        raise Unsupported("it divides by a number of its own")
    kernels, strides, paddings = _pool_sizes(x, kernel, stride, padding, ceil_mode)
    size, pads, same = _windows(x, kernels, strides, paddings, (1, 1))
    inside = any(map(any, pads)) and not count_include_pad
    if inside and not same:
        raise Unsupported("it leaves out a padding that is not TFLite's SAME")
    name, padding = _padded(b, x, pads, inside)
    return _pool(b, "average_pool_2d", x, name, size, {"kernel": kernels, "stride": strides, "padding": padding})


def max_pool(
    b: Builder, x: Map, kernel: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Map:
    """Where the padding isn't SAME it repeats the values at the border, which the same windows see anyway."""
    _image(x)
    if {*_pair(dilation, 4)} != {1}:
        raise Unsupported("TFLite's pool has no dilation")
    kernels, strides, paddings = _pool_sizes(x, kernel, stride, padding, ceil_mode)
    size, pads, same = _windows(x, kernels, strides, paddings, (1, 1))
    if not same and any(2 * max(pad) > k for pad, k in zip(pads, kernels, strict=True)):
        raise Unsupported("its padding is more than half of its window")
    name, padding = _padded(b, x, pads, same, mirrored=True)
    return _pool(b, "max_pool_2d", x, name, size, {"kernel": kernels, "stride": strides, "padding": padding})


def adaptive_average_pool(b: Builder, x: Map, output_size: Ints) -> Map:
    window = _adaptive_window(x, output_size)
    if window == _size(x):
        return mean(b, x, range(2, len(x.axes)), keepdim=True)
    return average_pool(b, x, window if len(x.axes) == 4 else window[1:])


def adaptive_max_pool(b: Builder, x: Map, output_size: Ints) -> list[Any]:
    window = _adaptive_window(x, output_size)
    return [max_pool(b, x, window if len(x.axes) == 4 else window[1:]), Unread("the places of its maxima are read")]


def _adaptive_window(x: Map, output_size: Ints) -> tuple[int, int]:
    _image(x)
    wanted = [extent if out is None else out for out, extent in zip(_pair(output_size, len(x.axes)), _size(x), strict=True)]
    if any(extent % out for extent, out in zip(_size(x), wanted, strict=True)):
        raise Unsupported(f"its output {wanted} does not divide the map {list(_size(x))}: windows would differ in size")
    return _size(x)[0] // wanted[0], _size(x)[1] // wanted[1]


# larger maps


def nearest(b: Builder, x: Map, output_size: Any = None, scale_factors: Any = None) -> Map:
    size, scales = _resized(x, output_size, scale_factors)
    attrs = {"align_corners": False, "half_pixel_centers": False}
    for extent, out, scale in zip(_size(x), size, scales, strict=True):
        places = np.minimum(np.floor(np.arange(out, dtype=np.float32) * np.float32(scale)), extent - 1)
        if (places != resize.nearest(extent, out, attrs)).any():
            raise Unsupported("its factor rounds in another way than TFLite's")
    return resized(b, "resize_nearest_neighbor", x, size, **attrs)


def bilinear(b: Builder, x: Map, output_size: Any, align_corners: bool, scale_factors: Any = None) -> Map:
    size, scales = _resized(x, output_size, scale_factors)
    if not align_corners and any(e != out * scale for e, out, scale in zip(_size(x), size, scales, strict=True)):
        raise Unsupported("its factor is no quotient of the sizes; set recompute_scale_factor or give sizes")
    return resized(b, "resize_bilinear", x, size, align_corners=align_corners, half_pixel_centers=not align_corners)


def _resized(x: Map, output_size: Any, scale_factors: Any) -> tuple[list[int], list[float]]:
    """Return the size, and per axis how far apart the places of neighbours lie in the input."""
    _image(x)
    if len(x.axes) != 4:
        raise Unsupported("only maps [1, c, h, w] are resized")
    if output_size is not None:
        return list(output_size), [e / out for e, out in zip(_size(x), output_size, strict=True)]
    return [int(e * f) for e, f in zip(_size(x), scale_factors, strict=True)], [1 / f for f in scale_factors]


def resized(b: Builder, kind: str, x: Map, size: Sequence[int], **attrs: bool) -> Map:
    """Return the map resized to [h, w] by an op of TFLite."""
    axes, dims = to_image(b, 4, size, x.axes[1])
    return b.map(kind, (nhwc(b, x), b.integers(size, "size")), axes, dims, attrs)
