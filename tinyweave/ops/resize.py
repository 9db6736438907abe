"""resize_bilinear on int8 maps: each output pixel mixes the four input pixels around it.

Places are counted in 1024ths of a pixel; input and output share their quantisation.
Source: TFLite reference resize_bilinear.h, ResizeBilinearInteger.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .constraints import arity, input_is_int8, output_is_int8, same_quantisation
from .pieces import infer_resize, operands_are_constant, resize_is_spatial
from .spec import Arrays, OpSpec, OptionalArrays

ONE = 1 << 10


class Line(NamedTuple):
    """Where the outputs along one axis lie: output i at (i * scale + offset) / 1024 of the input."""

    scale: int
    offset: int


def line(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Line:
    """The places of `out` outputs among `size` inputs."""
    if align_corners and out > 1:
        size, out = size - 1, out - 1
    scale = (ONE * size + out // 2) // out
    return Line(scale, scale // 2 - ONE // 2 if half_pixel_centers else 0)


def lines(graph: Graph, op: Op) -> tuple[Line, Line]:
    """For rows and for columns."""
    shape, (out,) = graph.input(op).shape, infer_resize(graph, op)
    corners, centers = op.attrs["align_corners"], op.attrs["half_pixel_centers"]
    h, w = (line(shape[axis], out[axis], corners, centers) for axis in (1, 2))
    return h, w


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = arrays[0]
    assert x is not None
    (out,) = infer_resize(graph, op)
    mixed = x.astype(np.int64)
    for axis, where in zip((1, 2), lines(graph, op), strict=True):
        at = np.arange(out[axis], dtype=np.int64) * where.scale + where.offset
        low = np.maximum(at // ONE, 0)
        high = np.minimum((at + ONE - 1) // ONE, x.shape[axis] - 1)
        part = (at - low * ONE).reshape(-1, *(1,) * (3 - axis))
        mixed = mixed.take(low, axis) * (ONE - part) + mixed.take(high, axis) * part
    return [_rounded(mixed)]


def _rounded(mixed: NDArray[np.int64]) -> NDArray[np.int8]:
    """Divided by 2^20, rounded half away from zero."""
    return np.asarray(np.sign(mixed) * ((np.abs(mixed) + (1 << 19)) >> 20), np.int8)


def places_are_inside(graph: Graph, op: Op) -> bool:
    """the output must not be so much larger than the input that rounded places leave it"""
    shape, (out,) = graph.input(op).shape, infer_resize(graph, op)
    ends = zip((1, 2), lines(graph, op), strict=True)
    return all((out[axis] - 1) * where.scale + where.offset < shape[axis] * ONE for axis, where in ends)


CONSTRAINTS = (
    arity(2),
    input_is_int8,
    output_is_int8,
    same_quantisation,
    operands_are_constant,
    resize_is_spatial,
    places_are_inside,
)

SPECS = (OpSpec("resize_bilinear", infer_resize, reference, CONSTRAINTS),)
