"""resize_bilinear, and the pixel positions that it shares with resize_nearest_neighbor.

Bilinear positions are in units of 1/1024 pixel. If the attribute `unsigned` is set (the op was uint8 in the model file), they
are float32, as in LiteRT. Input and output share their quantisation. Source: TFLite reference resize_bilinear.h.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .constraints import arity, input_is_int8_or_int16, operands_are_constant, output_has_input_type, same_quantisation
from .float32 import real_outputs
from .spec import Arrays, OpSpec, OptionalArrays, Shape, constant, on_integers, operand
from .window import Window, Windows, of_image, window_around

ONE = 1 << 10  # one pixel, in the units of positions


class Line(NamedTuple):
    """The positions of outputs along one axis: output i is at input position (i * scale + offset) / 1024."""

    scale: int
    offset: int


class FloatLine(NamedTuple):
    """The positions of outputs along one axis in float32: output i is at input position (i + first) * scale - first."""

    scale: np.float32
    first: np.float32


Numbers = NDArray[np.int64]
Mixture = tuple[Numbers, Numbers, NDArray[np.float32]]  # lower neighbour, upper neighbour, weight of the upper neighbour


def _size(graph: Graph, op: Op) -> list[int]:
    """Return the rows and columns of the output, which are the values of the size operand."""
    return [int(value) for value in constant(graph, op, 1).ravel()]


def infer_resize(graph: Graph, op: Op) -> list[Shape]:
    shape = graph.input(op).shape
    return [(shape[0], *_size(graph, op), shape[3])]


def resize_is_spatial(graph: Graph, op: Op) -> bool:
    """the input must have four axes (NHWC), none of them empty, and the new size must be two positive numbers"""
    shape, size = graph.input(op).shape, _size(graph, op)
    return len(shape) == 4 and len(size) == 2 and min(*shape, *size) > 0


def resize_ratio(size: int, out: int, *, align_corners: bool) -> tuple[int, int]:
    """Return two numbers whose ratio is the step: input and output rows, both minus 1 with `align_corners` unless one is 1."""
    return (size - 1, out - 1) if align_corners and min(size, out) > 1 else (size, out)


def nearest(size: int, out: int, attrs: dict[str, bool]) -> NDArray[np.int64]:
    """Return for each of `out` rows (or columns) the nearest of `size` inputs, in float32 as in LiteRT."""
    where = float_line(size, out, attrs["align_corners"], attrs["half_pixel_centers"])
    at = (np.arange(out, dtype=np.float32) + where.first) * where.scale
    chosen = np.floor(at.astype(np.float64) + (0.5 if attrs["align_corners"] else 0))
    return np.asarray(np.clip(chosen.astype(np.int64), 0, size - 1))


def nearest_neighbours(graph: Graph, op: Op) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each output row the input row that it copies, and for each output column the input column that it copies."""
    (_, h, w, _), (rows, cols), attrs = graph.input(op).shape, _size(graph, op), dict(op.attrs)
    return nearest(h, rows, attrs), nearest(w, cols, attrs)


def resize_windows(graph: Graph, op: Op) -> Windows | None:
    """Return the windows of resize_nearest_neighbor; None for a batch, or a ratio p / q of sizes with p * q > MOST_STEPS."""
    images, *sizes, _ = graph.input(op).shape
    axes = (
        window_around(at, at, *resize_ratio(size, len(at), align_corners=bool(op.attrs["align_corners"])))
        for size, at in zip(sizes, nearest_neighbours(graph, op), strict=True)
    )
    return of_image(images, axes)


def line(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Line:
    """Return the positions of `out` outputs among `size` inputs along one axis, in units of 1/1024."""
    if align_corners and out > 1:
        size, out = size - 1, out - 1
    scale = (ONE * size + out // 2) // out
    return Line(scale, scale // 2 - ONE // 2 if half_pixel_centers else 0)


def float_line(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> FloatLine:
    """Return the positions of `out` outputs among `size` inputs along one axis, in float32."""
    if align_corners and out > 1:
        size, out = size - 1, out - 1
    return FloatLine(np.float32(size) / np.float32(out), np.float32(0.5 if half_pixel_centers else 0))


def _extents(graph: Graph, op: Op) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (input rows, output rows) and (input columns, output columns)."""
    shape, (out,) = graph.input(op).shape, infer_resize(graph, op)
    return (shape[1], out[1]), (shape[2], out[2])


def lines(graph: Graph, op: Op) -> tuple[Line, Line]:
    """Return the positions of the output rows, and of the output columns, in units of 1/1024."""
    rows, columns = (line(*extents, *_how(op)[:2]) for extents in _extents(graph, op))
    return rows, columns


def float_lines(graph: Graph, op: Op) -> tuple[FloatLine, FloatLine]:
    """Return the positions of the output rows, and of the output columns, in float32."""
    rows, columns = (float_line(*extents, *_how(op)[:2]) for extents in _extents(graph, op))
    return rows, columns


def is_unsigned(op: Op) -> bool:
    """Return whether the op was uint8 in the model file, before a pass converted it to int8."""
    return bool(op.attrs.get("unsigned"))


def neighbours(graph: Graph, op: Op) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
    """Return (upper, lower) of the two input rows that each output row is interpolated from, and (left, right) columns."""
    rows, columns = (_of_axis(*extents, *_how(op)) for extents in _extents(graph, op))
    return rows, columns


def _how(op: Op) -> tuple[bool, bool, bool]:
    """Return the flags align_corners, half_pixel_centers and unsigned of an op."""
    return op.attrs["align_corners"], op.attrs["half_pixel_centers"], is_unsigned(op)


def _of_axis(size: int, out: int, align_corners: bool, half_pixel_centers: bool, unsigned: bool) -> tuple[Numbers, Numbers]:
    """Return the lower and the higher index of the two inputs that each output along an axis is interpolated from."""
    if unsigned:
        return _mixture((size, out), float_line(size, out, align_corners, half_pixel_centers))[:2]
    return _neighbours((size, out), line(size, out, align_corners, half_pixel_centers))[:2]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = operand(arrays)
    if is_unsigned(op):
        mixed = mixed_floats(graph, op, x.astype(np.float32) + np.float32(128))
        return [np.asarray((mixed + np.float32(0.5)).astype(np.int32) - 128, np.int8)]
    sums = x.astype(np.int64)
    for axis, (size, out), where in zip((1, 2), _extents(graph, op), lines(graph, op), strict=True):
        low, high, part = _neighbours((size, out), where)
        part = part.reshape(-1, *(1,) * (3 - axis))
        sums = sums.take(low, axis) * (ONE - part) + sums.take(high, axis) * part
    # divided by 2^20, rounded half away from zero
    return [np.asarray(np.sign(sums) * ((np.abs(sums) + (1 << 19)) >> 20), x.dtype)]


def _neighbours(extents: tuple[int, int], where: Line) -> tuple[Numbers, Numbers, Numbers]:
    """Return the two inputs that each output is interpolated from, and the weight of the second, in units of 1/1024."""
    size, out = extents
    at = np.arange(out, dtype=np.int64) * where.scale + where.offset
    low, high = np.maximum(at // ONE, 0), np.minimum((at + ONE - 1) // ONE, size - 1)
    return low, high, at - low * ONE


def mixed_floats(graph: Graph, op: Op, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Interpolate the map `x` of real numbers bilinearly to the output's size, in float32."""
    (top, bottom, dy), (left, right, dx) = map(_mixture, _extents(graph, op), float_lines(graph, op))
    dy, dx, one = dy[:, None, None], dx[:, None], np.float32(1)
    mixed = x[:, top][:, :, left] * (one - dy) * (one - dx)
    mixed += x[:, bottom][:, :, left] * dy * (one - dx)
    mixed += x[:, top][:, :, right] * (one - dy) * dx
    mixed += x[:, bottom][:, :, right] * dy * dx
    return np.asarray(mixed)


def _mixture(extents: tuple[int, int], where: FloatLine) -> Mixture:
    size, out = extents
    at = (np.arange(out, dtype=np.float32) + where.first) * where.scale - where.first
    low = np.maximum(np.floor(at).astype(np.int64), 0)
    return low, np.minimum(np.ceil(at).astype(np.int64), size - 1), at - low.astype(np.float32)


def windows(graph: Graph, op: Op) -> Windows | None:
    """Return the windows of resize_bilinear; None as for `resize_nearest_neighbor`."""
    return of_image(graph.input(op).shape[0], (_window(*extents, *_how(op)) for extents in _extents(graph, op)))


@lru_cache(maxsize=1 << 10)
def _window(size: int, out: int, align_corners: bool, half_pixel_centers: bool, unsigned: bool) -> Window | None:
    low, high = _of_axis(size, out, align_corners, half_pixel_centers, unsigned)
    return window_around(low, high, *resize_ratio(size, out, align_corners=align_corners))


@on_integers
def places_are_inside(graph: Graph, op: Op) -> bool:
    """the output must not be so much larger than the input that rounded positions lie outside the input"""
    if is_unsigned(op):
        return all(out < 1 << 20 for _, out in _extents(graph, op))
    axes = zip(_extents(graph, op), lines(graph, op), strict=True)
    return all((out - 1) * where.scale + where.offset < size * ONE for (size, out), where in axes)


CONSTRAINTS = (
    arity(2),
    input_is_int8_or_int16,
    output_has_input_type,
    same_quantisation,
    operands_are_constant,
    resize_is_spatial,
    places_are_inside,
)


def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return real_outputs(mixed_floats(graph, op, operand(arrays)))


SPECS = (
    OpSpec(
        "resize_bilinear",
        infer_resize,
        reference,
        CONSTRAINTS,
        windows=windows,
        family="resize",
        resamples=True,
        batched=True,
        channelwise=True,
        uint8="unsigned",
        scale="shared",
        real=real,
        averages=True,
    ),
)
