"""Geometry of sliding windows over NHWC maps: extents, TFLite's SAME padding, and the taps of a window as arrays.

Sizes are (h, w), paddings ((top, bottom), (left, right)). A tap is one position of a window (one weight of a kernel).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd, prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

# limits that bound the memory which the reference of an op allocates
MOST_PADDED = 1 << 25  # elements of a padded map
MOST_POSITIONS = 1 << 24  # number of windows times number of taps, along one axis
MOST_STEPS = 64  # largest stride * up of a Window

IntOrInts = TypeVar("IntOrInts", int, NDArray[np.int64])
Size = tuple[int, int]
Padding = tuple[Size, Size]
Spans = tuple[NDArray[np.int64], NDArray[np.int64]]  # begin and end of each span of rows or columns


class Window(NamedTuple):
    """A sliding window along one axis: output position i reads `extent` input positions from first(i) on.

    first(i) = (i * stride + phase) // up - pad. `up` is above 1 if the output has more rows than the input (resizing); `stride`
    and `up` are coprime. With stride 0 all outputs read the same positions. Positions outside the input are not read.
    """

    extent: int = 1
    stride: int = 1
    pad: int = 0
    up: int = 1
    phase: int = 0

    @property
    def reach(self) -> int:
        """Return the last input position that output 0 reads, if `phase` is 0."""
        return self.extent - 1 - self.pad

    def first(self, position: IntOrInts) -> IntOrInts:
        """Return the first input position that an output position reads; it is negative if the window begins in the padding."""
        return (position * self.stride + self.phase) // self.up - self.pad

    def wait(self, ticks: int) -> int:
        """Return the ticks from input row 0 to output row 0 of a fused stage; rows are `ticks`, a multiple of `up`, apart."""
        return ticks * self.reach + ticks // self.up * self.phase

    def kept(self, ticks: int, waited: int) -> int:
        """Return how many input rows, `ticks` apart, a line buffer holds if output row 0 is `waited` ticks after row 0."""
        return -((self.phase - waited // (ticks // self.up)) // self.up) + self.pad + 1

    def compose(self, inner: Window) -> Window:
        """Return the window from the output of this op to the input of the op before, `inner`; `up` must be 1 in both."""
        return Window(
            (self.extent - 1) * inner.stride + inner.extent, self.stride * inner.stride, self.pad * inner.stride + inner.pad
        )

    def joined(self, other: Window) -> Window:
        """Return the smallest window that contains this window and another one of equal stride; `up` must be 1 in both."""
        pad = max(self.pad, other.pad)
        return Window(pad + max(self.extent - self.pad, other.extent - other.pad), self.stride, pad)

    def read(self, spans: Spans, size: int) -> Spans:
        """Return (begins, ends) of input positions in [0, size) that spans of output positions read."""
        begin, end = spans
        first = np.minimum(np.maximum(self.first(begin), 0), size)  # np.clip is ten times slower
        after = np.maximum(np.minimum(self.first(end - 1) + self.extent, size), first)
        return first, np.where(begin < end, after, first)


def window_around(first: NDArray[np.int64], last: NDArray[np.int64], stride: int, up: int) -> Window | None:
    """Return the smallest window in which output i reads at least the input positions first[i] to last[i].

    stride / up is the step in input positions per output position. None: stride * up of the reduced fraction exceeds
    MOST_STEPS.
    """
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


Windows = tuple[Window, Window]  # along rows, along columns
ONE_TO_ONE: Windows = (Window(), Window())


def of_image(images: int, axes: Iterable[Window | None]) -> Windows | None:
    """Return the windows along rows and columns as a pair; None if one of them is None or the batch size `images` is not 1."""
    rows, cols = axes
    return None if images != 1 or rows is None or cols is None else (rows, cols)


def extent(kernel: int, dilation: int) -> int:
    """Return how many input positions a dilated kernel spans along an axis, from its first tap to its last."""
    return (kernel - 1) * dilation + 1


def output_size(size: int, kernel: int, stride: int, dilation: int, padding: Size) -> int:
    """Return the number of windows along one axis, which is the number of output positions."""
    return (size + sum(padding) - extent(kernel, dilation)) // stride + 1


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> Size:
    """Return TFLite's SAME padding (before, after) of one axis. If the total is odd, `after` is one larger."""
    needed = max((-(-size // stride) - 1) * stride + extent(kernel, dilation) - size, 0)
    return needed // 2, needed - needed // 2


def positions(size: int, out: int, *, kernel: int, stride: int, dilation: int = 1, before: int) -> NDArray[np.bool_]:
    """Return [out, kernel]: whether each tap of each window along an axis is in the input; `before` is the padding before."""
    at = np.arange(out)[:, None] * stride - before + np.arange(kernel)[None, :] * dilation
    return (at >= 0) & (at < size)


@lru_cache(maxsize=1 << 14)
def all_taps_inside(size: int, out: int, *, kernel: int, stride: int, dilation: int = 1, before: int) -> int:
    """Count the taps of all windows along an axis that are inside the input; arguments as for `positions`."""
    first_window = range(-before, kernel * dilation - before, dilation)
    return sum(max(0, min(out, (size - 1 - tap) // stride + 1) - max(0, -(tap // stride))) for tap in first_window)


def taps(
    x: NDArray[Any], *, kernel: Size, stride: Size, dilation: Size = (1, 1), padding: Padding, fill: float
) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Yield (ky, kx, values [n, out_h, out_w, c]) for each tap of a kernel: the values of `x`, with padding, that it reads."""
    out_h, out_w = (output_size(x.shape[1 + a], kernel[a], stride[a], dilation[a], padding[a]) for a in (0, 1))
    padded = np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=fill)
    for ky in range(kernel[0]):
        rows = slice(ky * dilation[0], ky * dilation[0] + (out_h - 1) * stride[0] + 1, stride[0])
        for kx in range(kernel[1]):
            columns = slice(kx * dilation[1], kx * dilation[1] + (out_w - 1) * stride[1] + 1, stride[1])
            yield ky, kx, padded[:, rows, columns]


def window_is_valid(shape: tuple[int, ...], kernel: Size, attrs: Mapping[str, Any]) -> bool:
    """Return whether a window fits into the padded map [n, h, w, c], and no stride, dilation or padding is out of range."""
    stride, dilation, padding = attrs["stride"], attrs.get("dilation", (1, 1)), attrs["padding"]
    is_in_range = min(*kernel, *stride, *dilation, *shape) >= 1 and min(*padding[0], *padding[1]) >= 0
    return is_in_range and all(output_size(shape[1 + a], kernel[a], stride[a], dilation[a], padding[a]) >= 1 for a in (0, 1))


def window_is_moderate(shape: tuple[int, ...], kernel: Size, out: Size, padding: Padding) -> bool:
    """Return whether the padded map [n, h, w, c] and the window positions are few enough for the numpy reference."""
    padded = (shape[0], *(shape[1 + axis] + sum(padding[axis]) for axis in (0, 1)), shape[3])
    return prod(padded) <= MOST_PADDED and all(kernel[axis] * out[axis] <= MOST_POSITIONS for axis in (0, 1))


class ChainLayer(NamedTuple):
    """The shape of an int8 convolution of one image. A chain of such layers describes a network."""

    h: int  # rows of the input
    w: int
    c_in: int
    c_out: int
    kernel: Size = (1, 1)
    stride: Size = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    depthwise: bool = False  # each output channel reads one input channel

    @property
    def h_out(self) -> int:
        return output_size(self.h, self.kernel[0], self.stride[0], 1, self.padding[0])

    @property
    def w_out(self) -> int:
        return output_size(self.w, self.kernel[1], self.stride[1], 1, self.padding[1])

    @property
    def in_bytes(self) -> int:
        return self.h * self.w * self.c_in

    @property
    def out_bytes(self) -> int:
        return self.h_out * self.w_out * self.c_out

    @property
    def is_square(self) -> bool:
        """Return whether map, kernel, stride and padding are the same for rows and columns."""
        return self.h == self.w and all(pair[0] == pair[1] for pair in (self.kernel, self.stride, self.padding))

    @property
    def macs_per_pixel(self) -> int:
        """Return the multiply-accumulates of all channels of one output pixel, including multiplications with padding."""
        return self.kernel[0] * self.kernel[1] * (1 if self.depthwise else self.c_in) * self.c_out

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of the layer, including multiplications with padding."""
        return self.h_out * self.w_out * self.macs_per_pixel
