"""Geometry of sliding windows over NHWC maps: extents, TFLite's SAME padding, and the taps of a window as arrays.

Sizes are (h, w), paddings ((top, bottom), (left, right)).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd, prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

# Bounds on what one op can make the references and the counts of positions allocate.
MOST_PADDED = 1 << 25  # elements of a map with its padding
MOST_POSITIONS = 1 << 24  # windows times taps along one axis
MOST_STEPS = 64  # ticks until rows of an output and of its input begin together again

IntOrInts = TypeVar("IntOrInts", int, NDArray[np.int64])
Size = tuple[int, int]
Padding = tuple[Size, Size]
Spans = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where spans of rows or columns begin and end, one after the other."""


class Window(NamedTuple):
    """What position i of an output reads along one axis of an input: `extent` positions from first(i) on.

    first(i) = (i * stride + phase) // up - pad: `up` positions of an output that is larger than the input go with `stride` of
    the input, which have no common divisor. With a stride of 0 all positions read the same. What lies outside the axis is not
    read.
    """

    extent: int = 1
    stride: int = 1
    pad: int = 0
    up: int = 1
    phase: int = 0

    @property
    def reach(self) -> int:
        """Return the last position that position 0 reads, or would if the axis were as long; `phase` apart."""
        return self.extent - 1 - self.pad

    def first(self, position: IntOrInts) -> IntOrInts:
        """Return the first position that an output's position reads, or would if the axis began earlier."""
        return (position * self.stride + self.phase) // self.up - self.pad

    def wait(self, ticks: int) -> int:
        """Return how long after position 0 of the input position 0 of the output may follow, where those of the input follow
        each other in so many ticks and those of the output as evenly; with `up` they can be divided by it."""
        return ticks * self.reach + ticks // self.up * self.phase

    def kept(self, ticks: int, waited: int) -> int:
        """Return how many positions of the input lie from the oldest that is read to the newest that is there, where those of
        the output wait so long."""
        return -((self.phase - waited // (ticks // self.up)) // self.up) + self.pad + 1

    def compose(self, inner: Window) -> Window:
        """Return what an output reads through a map whose own window on the input is `inner`; both step by whole positions."""
        return Window(
            (self.extent - 1) * inner.stride + inner.extent, self.stride * inner.stride, self.pad * inner.stride + inner.pad
        )

    def joined(self, other: Window) -> Window:
        """Return the least window that reads what two of the same stride read."""
        pad = max(self.pad, other.pad)
        return Window(pad + max(self.extent - self.pad, other.extent - other.pad), self.stride, pad)

    def read(self, spans: Spans, size: int) -> Spans:
        """Return what spans of positions read of an axis of `size` positions."""
        begin, end = spans
        first = np.minimum(np.maximum(self.first(begin), 0), size)  # np.clip takes ten times as long
        after = np.maximum(np.minimum(self.first(end - 1) + self.extent, size), first)
        return first, np.where(begin < end, after, first)


def window_around(first: NDArray[np.int64], last: NDArray[np.int64], stride: int, up: int) -> Window | None:
    """Return the least window in which output i of several reads positions first[i] to last[i] of the input, where `up` of the
    output go with `stride` of the input; None where that takes many steps (MOST_STEPS)."""
    divisor = gcd(stride, up)
    stride, up = stride // divisor, up // divisor
    if stride * up > MOST_STEPS:
        return None
    steps, found = np.arange(len(first)) * stride, list[Window]()
    for phase in range(up):
        base = (steps + phase) // up
        pad, reach = int((base - first).max()), int((last - base).max())
        found.append(Window(reach + pad + 1, stride, pad, up, phase))
    return min(found, key=lambda window: (window.extent, window.wait(up)))


Windows = tuple[Window, Window]
"""Of the rows and of the columns."""
ONE_TO_ONE: Windows = (Window(), Window())


def of_image(images: int, axes: Iterable[Window | None]) -> Windows | None:
    """Return the windows of rows and columns; None of several images, and where one of the two is not known."""
    rows, cols = axes
    return None if images != 1 or rows is None or cols is None else (rows, cols)


def extent(kernel: int, dilation: int) -> int:
    """Return rows (or columns) from a window's first tap to its last, both included."""
    return (kernel - 1) * dilation + 1


def output_size(size: int, kernel: int, stride: int, dilation: int, padding: Size) -> int:
    """Return how many windows fit along one axis."""
    return (size + sum(padding) - extent(kernel, dilation)) // stride + 1


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> Size:
    """Return the padding (before, after) of one axis that TFLite's SAME means: the odd one goes after."""
    needed = max((-(-size // stride) - 1) * stride + extent(kernel, dilation) - size, 0)
    return needed // 2, needed - needed // 2


def positions(size: int, out: int, *, kernel: int, stride: int, dilation: int = 1, before: int) -> NDArray[np.bool_]:
    """[out, kernel]: whether that tap of that window lies inside the axis."""
    at = np.arange(out)[:, None] * stride - before + np.arange(kernel)[None, :] * dilation
    return (at >= 0) & (at < size)


@lru_cache(maxsize=1 << 14)
def all_taps_inside(size: int, out: int, *, kernel: int, stride: int, dilation: int = 1, before: int) -> int:
    """Return how many taps of all windows lie inside the axis."""
    first_window = range(-before, kernel * dilation - before, dilation)
    return sum(max(0, min(out, (size - 1 - tap) // stride + 1) - max(0, -(tap // stride))) for tap in first_window)


def taps(
    x: NDArray[Any], *, kernel: Size, stride: Size, dilation: Size = (1, 1), padding: Padding, fill: float
) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """(ky, kx, values): per tap of the window what all windows see there, [n, out_h, out_w, c]; `fill` outside the map."""
    out_h, out_w = (output_size(x.shape[1 + a], kernel[a], stride[a], dilation[a], padding[a]) for a in (0, 1))
    padded = np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=fill)
    for ky in range(kernel[0]):
        rows = slice(ky * dilation[0], ky * dilation[0] + (out_h - 1) * stride[0] + 1, stride[0])
        for kx in range(kernel[1]):
            columns = slice(kx * dilation[1], kx * dilation[1] + (out_w - 1) * stride[1] + 1, stride[1])
            yield ky, kx, padded[:, rows, columns]


def window_is_valid(shape: tuple[int, ...], kernel: Size, attrs: Mapping[str, Any]) -> bool:
    """Return whether at least one window fits into a padded [n, h, w, c] map, and every number is in its range."""
    stride, dilation, padding = attrs["stride"], attrs.get("dilation", (1, 1)), attrs["padding"]
    is_in_range = min(*kernel, *stride, *dilation, *shape) >= 1 and min(*padding[0], *padding[1]) >= 0
    return is_in_range and all(output_size(shape[1 + a], kernel[a], stride[a], dilation[a], padding[a]) >= 1 for a in (0, 1))


def window_is_moderate(shape: tuple[int, ...], kernel: Size, out: Size, padding: Padding) -> bool:
    """Return whether an [n, h, w, c] map, padded, and its windows, as many as `out` has, stay within the bounds above."""
    padded = (shape[0], *(shape[1 + axis] + sum(padding[axis]) for axis in (0, 1)), shape[3])
    return prod(padded) <= MOST_PADDED and all(kernel[axis] * out[axis] <= MOST_POSITIONS for axis in (0, 1))
