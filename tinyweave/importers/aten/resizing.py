"""Import ATen's resizing ops: one of TFLite's resizes if it reads the same pixels, else gathers or products with constants.

A resize along an axis is described by the positions of its outputs, in input pixels. `positions` has those of ONNX's coordinate
transformations, of which ATen uses align_corners, asymmetric, half_pixel and pytorch_half_pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops import resize
from ..channels_last import MAX_COMPUTED, Builder, Map, check_elements
from ..quantised_constants import Array
from ..unsupported import Unsupported
from .axes import mixed, take
from .spatial import as_nhwc, image_layout

EXACT = 1e-6  # of an input pixel: positions that differ by less are equal
# coordinate transformations of TFLite's resizes
TFLITE = {
    "asymmetric": {"align_corners": False, "half_pixel_centers": False},
    "half_pixel": {"align_corners": False, "half_pixel_centers": True},
    "align_corners": {"align_corners": True, "half_pixel_centers": False},
}


def _half_pixel(at: Array, extent: int, out: int, factor: float) -> Array:
    return (at + 0.5) / factor - 0.5


# (index of an output row, input extent, output extent, scale) -> its position in the input
POSITIONS: dict[str, Callable[[Array, int, int, float], Array]] = {
    "align_corners": lambda at, extent, out, factor: at * (extent - 1) / max(out - 1, 1),
    "asymmetric": lambda at, extent, out, factor: at / factor,
    "half_pixel": _half_pixel,
    # if the scaled extent is not an integer, both ends lose half of the fraction
    "half_pixel_symmetric": lambda at, extent, out, factor: (
        extent / 2 * (1 - out / (extent * factor)) + (at + 0.5) / factor - 0.5
    ),
    "pytorch_half_pixel": lambda at, extent, out, factor: _half_pixel(at, extent, out, factor) if out > 1 else 0 * at,
}


def positions(extent: int, out: int, factor: float, how: str) -> Array:
    """Return the positions of `out` rows among `extent` input rows, in float32 as ONNX Runtime; `how` is a key of POSITIONS."""
    if how not in POSITIONS:
        raise Unsupported(f"its coordinate transformation '{how}' is not supported; use one of {', '.join(POSITIONS)}")
    return POSITIONS[how](np.arange(out, dtype=np.float32), extent, out, float(np.float32(factor)))


def check_size(size: Sequence[int]) -> None:
    """Raise Unsupported if an extent of an output size is not in [1, MAX_COMPUTED]."""
    if not 0 < min(size) <= max(size) <= MAX_COMPUTED:
        raise Unsupported(f"its output size {' x '.join(f'{extent:,}' for extent in size)} is out of range")


def copied(b: Builder, x: Map, rows: Mapping[int, Array]) -> Map:
    """Return a map with the elements at rows[axis] along each axis, by resize_nearest_neighbor if possible, else gathers."""
    wanted = [rows.get(axis, np.arange(x.shape[axis])) for axis in range(len(x.axes))]
    if len(x.axes) == 4 and all(np.array_equal(wanted[axis], np.arange(x.shape[axis])) for axis in (0, 1)):
        for attrs in TFLITE.values():
            if all(np.array_equal(wanted[a], resize.nearest(x.shape[a], len(wanted[a]), attrs)) for a in (2, 3)):
                return _resized(b, "resize_nearest_neighbor", x, [len(wanted[2]), len(wanted[3])], attrs)
    for axis, indices in rows.items():
        x = take(b, x, axis, indices)
    return x


def interpolated(b: Builder, x: Map, places: Mapping[int, Array], cubic: float | None = None, *, outside: bool = True) -> Map:
    """Interpolate at positions along each axis of `places`: by TFLite's resize, else matrix products.

    `cubic` is the coefficient of a cubic interpolation; None interpolates linearly. `outside` counts pixels beyond the map,
    which repeat its edge, in cubic interpolation.
    """
    changed = {axis: at for axis, at in places.items() if not np.array_equal(at, np.arange(x.shape[axis]))}
    if cubic is None and len(x.axes) == 4 and {*changed} <= {2, 3}:
        pairs = [(x.shape[axis], places.get(axis, np.arange(x.shape[axis]))) for axis in (2, 3)]
        size = [len(at) for _, at in pairs]
        for how, attrs in TFLITE.items():
            if all(_equal(positions(extent, len(at), len(at) / extent, how), at, extent) for extent, at in pairs):
                return _resized(b, "resize_bilinear", x, size, attrs)
    for axis, at in changed.items():
        x = mixed(b, x, axis, weights(x.shape[axis], at, cubic, outside=outside))
    return x


def _equal(one: Array, two: Array, extent: int) -> bool:
    """Return whether linear interpolation between `extent` pixels gives the same results at both lists of positions."""
    return bool(np.allclose(np.clip(one, 0, extent - 1), np.clip(two, 0, extent - 1), rtol=0, atol=EXACT))


def weights(extent: int, at: Array, cubic: float | None, *, outside: bool) -> Array:
    """Return the matrix [outputs, extent] that interpolates an axis at the positions `at`; the others as for `interpolated`."""
    at = np.clip(at, 0, extent - 1) if cubic is None else at
    check_elements(len(at), extent)
    taps = np.floor(at).astype(int)[:, None] + (np.arange(2) if cubic is None else np.arange(-1, 3))
    distance = np.abs(at[:, None] - taps)
    factors = np.maximum(1 - distance, 0) if cubic is None else _cubic(distance, cubic)
    if not outside:
        factors = np.where((taps >= 0) & (taps < extent), factors, 0)
        factors /= factors.sum(1, keepdims=True)
    matrix = np.zeros((len(at), extent))
    np.add.at(matrix, (np.arange(len(at))[:, None], np.clip(taps, 0, extent - 1)), factors)
    return matrix.astype(np.float32)


def _cubic(distance: Array, a: float) -> Array:
    """Return the factors of pixels at these distances, up to 2, in cubic convolution with the coefficient `a` (Keys, 1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    return np.where(distance <= 1, near, a * (((distance - 5) * distance + 8) * distance - 4))


def _resized(b: Builder, kind: str, x: Map, size: Sequence[int], attrs: dict[str, bool]) -> Map:
    axes, dims = image_layout(b, x, size, x.axes[1])
    return b.map(kind, (as_nhwc(b, x), b.integers(size, "size")), axes, dims, attrs)


def _scaled(x: Map, output_size: Any, scale_factors: Any) -> list[tuple[int, int, int, float]]:
    """Return (axis, input extent, output extent, output pixels per input pixel) per spatial axis; one argument is None."""
    if len(x.axes) < 3:
        raise Unsupported(f"its map {list(x.shape)} must be [n, c, ...]")
    extents = x.shape[2:]
    if output_size is not None:
        factors = [out / extent for out, extent in zip(output_size, extents, strict=True)]
    else:
        factors, output_size = scale_factors, [int(e * f) for e, f in zip(extents, scale_factors, strict=True)]
    check_size(output_size)
    return list(zip(range(2, len(x.axes)), extents, output_size, factors, strict=True))


def nearest(b: Builder, x: Map, output_size: Any = None, scale_factors: Any = None, *, centre: float = 0.0) -> Map:
    """Import aten.upsample_nearest1d or 2d to a size or by a factor; `centre` is 0.5 for the variants nearest_exact.

    If the output has 1 or 2 times the input size, torch ignores the given factor, except in nearest_exact.
    """
    rows = {}
    for axis, extent, out, factor in _scaled(x, output_size, scale_factors):
        if not centre and out in (extent, 2 * extent):
            factor = out / extent
        step = np.float32(extent / out if output_size is not None else 1 / factor)
        rows[axis] = np.minimum(np.floor((np.arange(out, dtype=np.float32) + centre) * step), extent - 1).astype(int)
    return copied(b, x, rows)


def linear(b: Builder, x: Map, output_size: Any, align_corners: bool, scale_factors: Any = None) -> Map:
    """Import aten.upsample_linear1d or aten.upsample_bilinear2d; like torch, copy an axis whose size stays the same."""
    places = _places(x, output_size, align_corners, scale_factors)
    return interpolated(b, x, {axis: at for axis, at in places.items() if len(at) != x.shape[axis]})


def cubic(b: Builder, x: Map, output_size: Any, align_corners: bool, scale_factors: Any = None) -> Map:
    """Import aten.upsample_bicubic2d to a size or by a factor."""
    return interpolated(b, x, _places(x, output_size, align_corners, scale_factors), -0.75)


def _places(x: Map, output_size: Any, align_corners: bool, scale_factors: Any) -> dict[int, Array]:
    how = "align_corners" if align_corners else "half_pixel"
    return {axis: positions(e, out, factor, how) for axis, e, out, factor in _scaled(x, output_size, scale_factors)}
