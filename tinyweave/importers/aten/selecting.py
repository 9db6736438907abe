"""Import ATen's ops that copy elements in another order, most of them by `take`: indexing, flip, roll, repeat, unfold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ..channels_last import Builder, Map, Unavailable, check_elements, view
from ..unsupported import Unsupported, normalised_axis
from .axes import (
    concatenation,
    flatten,
    mean,
    movedim,
    ordered_tensor,
    pad,
    permute,
    reduce,
    slice_,
    sum_,
    take,
    take_all,
    unsqueeze,
)
from .elementwise import binary, constant, where
from .spatial import Ints, as_nhwc, image_layout, pair, windowed


def index_select(b: Builder, x: Map, dim: int, index: Any) -> Map:
    """Import aten.index_select."""
    return take_all(b, x, dim, index if isinstance(index, Map) else constant(index, "index").ravel())


def index(b: Builder, x: Map, indices: Sequence[Any]) -> Map:
    """Import aten.index, x[:, index], or x[rows[:, None], columns] with constants; `indices` has None for other axes."""
    given = [(dim, each) for dim, each in enumerate(indices) if each is not None]
    if len(given) == 1:
        ((dim, at),) = given
        return take_all(b, x, dim, at if isinstance(at, Map) else constant(at, "index"))
    (first, _), *_, (last, _) = given
    places = [constant(each, "index") for _, each in given]
    varying = [axis for each in places for axis in range(-each.ndim, 0) if each.shape[axis] > 1]
    if last - first >= len(given) or varying != sorted({*varying}):
        raise Unsupported("it has several index tensors that are no grid; index one axis after the other")
    for (dim, _), each in zip(given, places, strict=True):
        x = take(b, x, dim, each.ravel())
    return view(b, x, (*x.shape[:first], *np.broadcast_shapes(*(each.shape for each in places)), *x.shape[last + 1 :]))


def index_put(b: Builder, x: Map, indices: Sequence[Any], value: Any, accumulate: bool = False) -> Map:
    """Import aten.index_put, x[mask] = value, where the mask has the shape of the map, and the value is one number."""
    mask = indices[0] if len(indices) == 1 and not accumulate else None
    if getattr(mask, "shape", None) != x.shape or prod(getattr(value, "shape", ())) != 1:
        raise Unsupported("it writes to places that are not given by one mask, or several values; use where with a mask")
    return where(b, mask, value, x)


def flip(b: Builder, x: Map, dims: Sequence[int]) -> Map:
    """Import aten.flip: reverse the axes `dims`."""
    for dim in dims:
        x = take(b, x, dim, range(x.shape[normalised_axis(len(x.axes), dim)])[::-1])
    return x


def roll(b: Builder, x: Map, shifts: Ints, dims: Ints = ()) -> Map:
    """Import aten.roll: rotate the axes `dims` by `shifts` elements, or, if `dims` is empty, the flattened map."""
    shifts, dims = ([each] if isinstance(each, int) else list(each) for each in (shifts, dims))
    if not dims:
        return view(b, roll(b, flatten(b, x), shifts, 0), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = take(b, x, dim, np.roll(np.arange(x.shape[normalised_axis(len(x.axes), dim)]), shift))
    return x


def repeat(b: Builder, x: Map, repeats: Sequence[int]) -> Map:
    """Import aten.repeat as tile; `repeats` has one entry per axis. Additional first entries add axes in front."""
    while len(x.axes) < len(repeats):
        x = unsqueeze(b, x, 0)
    if len(x.axes) > len(repeats) or min(repeats, default=1) < 1:
        raise Unsupported(f"its repeats {list(repeats)} are not one positive number per axis")
    if {*repeats} <= {1}:
        return x
    order, name, _ = ordered_tensor(b, x)
    axes = [b.new_axis(extent * n) if n > 1 else group for extent, n, group in zip(x.shape, repeats, x.axes, strict=True)]
    return b.map("tile", (name, b.integers([repeats[a] for a in order], "repeats")), axes, [axes[a] for a in order])


def expand(b: Builder, x: Map, size: Sequence[int]) -> Map:
    """Import aten.expand: repeat axes of extent 1; an entry of -1 in `size` keeps the extent."""
    shape = (1,) * (len(size) - len(x.axes)) + x.shape
    wanted = [extent if n == -1 else n for extent, n in zip(shape, size, strict=True)]
    if any(extent not in (1, n) for extent, n in zip(shape, wanted, strict=True)):
        raise Unsupported(f"the map {list(x.shape)} does not expand to {list(size)}")
    return repeat(b, x, [n if extent == 1 else 1 for extent, n in zip(shape, wanted, strict=True)])


def repeat_interleave(b: Builder, x: Map, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Map:
    """Import aten.repeat_interleave: repeat each element of the axis `dim`, or of the flattened map."""
    if dim is None:
        x, dim = flatten(b, x), 0
    extent = x.shape[normalised_axis(len(x.axes), dim)]
    check_elements(extent, repeats if isinstance(repeats, int) else int(constant(repeats, "repeats").max()))
    return take(b, x, dim, np.repeat(np.arange(extent), repeats if isinstance(repeats, int) else constant(repeats, "repeats")))


def embedding_bag(
    b: Builder,
    table: Any,
    indices: Any,
    offsets: Any,
    _scaled: bool = False,
    mode: int = 0,
    _sparse: bool = False,
    weights: Any = None,
    ends: bool = False,
    padding: int | None = None,
) -> list[Any]:
    """Import aten.embedding_bag: the sum (mode 0), mean (1) or maximum (2) of the rows of `table` at the indices of each bag.

    `offsets`, a constant, has the start of each bag in the flat list of indices, and its end, too, if `ends` is set. `weights`
    has a factor per index. Only the first of the op's outputs is supported.
    """
    if padding is not None and padding >= 0 and (mode or np.any(constant(table, "table")[padding])):
        raise Unsupported("its padding_idx is left out of the mean or maximum; use mode 'sum' and a row of zeros")
    starts = [int(start) for start in constant(offsets, "offsets")]
    limits = starts if ends else [*starts, indices.shape[0]]
    if len(limits) < 2 or any(start >= end for start, end in pairwise(limits)):
        raise Unsupported("one of its bags is empty")
    rows = take_all(b, table, 0, indices)
    rows = (
        rows
        if weights is None
        else binary("mul")(b, rows, unsqueeze(b, weights, 1) if isinstance(weights, Map) else weights[:, None])
    )
    reduced = (sum_, mean, reduce("reduce_max"))[mode]
    lengths = {end - start for start, end in pairwise(limits)}
    if len(lengths) == 1:
        made = reduced(b, view(b, rows, (-1, *lengths, rows.shape[1])), 1)
    else:
        made = concatenation(b, [reduced(b, slice_(b, rows, 0, *bag), 0, True) for bag in pairwise(limits)], 0)
    return [made, *[Unavailable("only the first output of an embedding_bag is supported")] * 3]


def _image(x: Map) -> tuple[int, ...]:
    """Return the shape of a map [n, c, h, w]; raise Unsupported for other maps."""
    if len(x.axes) != 4:
        raise Unsupported(f"its map {list(x.shape)} must be [n, c, h, w]")
    return x.shape


def depth_to_space(b: Builder, x: Map, block: int) -> Map:
    """Add depth_to_space with blocks of `block` x `block` pixels; the block index is the outer part of the channels."""
    _, c, h, w = _image(x)
    axes, dims = image_layout(b, x, (h * block, w * block), b.new_axis(c // block**2))
    return b.map("depth_to_space", (as_nhwc(b, x),), axes, dims, {"block_size": block})


def space_to_depth(b: Builder, x: Map, block: int) -> Map:
    """Add space_to_depth with blocks of `block` x `block` pixels; the block index is the outer part of the channels."""
    _, c, h, w = _image(x)
    axes, dims = image_layout(b, x, (h // block, w // block), b.new_axis(c * block**2))
    return b.map("space_to_depth", (as_nhwc(b, x),), axes, dims, {"block_size": block})


def pixel_shuffle(b: Builder, x: Map, factor: int) -> Map:
    """Import aten.pixel_shuffle as depth_to_space; the block index is the inner part of the channels."""
    n, c, h, w = _image(x)
    apart = view(b, x, (n, c // factor**2, factor, factor, h, w))
    return depth_to_space(b, view(b, permute(b, apart, (0, 2, 3, 1, 4, 5)), (n, c, h, w)), factor)


def pixel_unshuffle(b: Builder, x: Map, factor: int) -> Map:
    """Import aten.pixel_unshuffle as space_to_depth; the block index is the inner part of the channels."""
    y = space_to_depth(b, x, factor)
    apart = view(b, y, (y.shape[0], factor, factor, x.shape[1], *y.shape[2:]))
    return view(b, permute(b, apart, (0, 3, 1, 2, 4, 5)), y.shape)


def unfold(b: Builder, x: Map, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Map:
    """Import aten.im2col, the windows of a map [n, c, h, w] as columns [n, c * kh * kw, windows]."""
    n, c, *_ = _image(x)
    kernels, dilations, paddings, strides = (pair(each, 4) for each in (kernel, dilation, padding, stride))
    x = pad(b, x, (paddings[1],) * 2 + (paddings[0],) * 2)
    counts = []
    for dim, k, d, s in zip((2, 3), kernels, dilations, strides, strict=True):
        counts.append((x.shape[dim] - d * (k - 1) - 1) // s + 1)
        x = take(b, x, dim, windowed(k, s, d, counts[-1]).T.ravel())
    apart = view(b, x, (n, c, kernels[0], counts[0], kernels[1], counts[1]))
    return view(b, permute(b, apart, (0, 1, 2, 4, 3, 5)), (n, c * prod(kernels), prod(counts)))


def windows(b: Builder, x: Map, dim: int, size: int, step: int) -> Map:
    """Import aten.unfold, x.unfold(dim, size, step): windows along an axis, whose elements become a new last axis."""
    dim = normalised_axis(len(x.axes), dim)
    count = (x.shape[dim] - size) // step + 1
    taken = take(b, x, dim, windowed(size, step, 1, count).ravel())
    return movedim(b, view(b, taken, (*x.shape[:dim], count, size, *x.shape[dim + 1 :])), dim + 1, -1)


def fold(b: Builder, x: Map, size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Map:
    """Import aten.col2im, columns [n, c * kh * kw, blocks] as a map [n, c, *size], if the blocks do not overlap and fill it."""
    (h, w), (kh, kw) = pair(size, 4), pair(kernel, 4)
    if pair(stride, 4) != (kh, kw) or pair(dilation, 4) != (1, 1) or pair(padding, 4) != (0, 0) or h % kh or w % kw:
        raise Unsupported("its blocks overlap, or leave out pixels; use a transposed convolution")
    n, columns, _ = x.shape
    apart = view(b, x, (n, columns // (kh * kw), kh, kw, h // kh, w // kw))
    return view(b, permute(b, apart, (0, 1, 4, 2, 5, 3)), (n, columns // (kh * kw), h, w))
