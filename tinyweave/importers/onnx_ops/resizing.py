"""ONNX's Resize: where TFLite's resizing reads the same places, it is that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ops.resize import nearest
from ..aten import spatial
from ..aten.elementwise import constant
from ..channels_last import MOST_ELEMENTS, Builder, Map, Unsupported
from .maps import integers

Array = NDArray[Any]


def resize(
    b: Builder,
    x: Map,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    **_: Any,
) -> Map:
    if antialias or keep_aspect_ratio_policy != "stretch" or mode not in ("nearest", "linear"):
        raise Unsupported(f"its mode '{mode}' with these options is not TFLite's")
    rank = len(x.axes)
    chosen = list(axes) if axes else list(range(rank))
    if scales is not None and np.size(scales):
        factors = dict(zip(chosen, map(float, constant(scales, "scales")), strict=True))
        wanted = {axis: int(np.floor(x.shape[axis] * factor)) for axis, factor in factors.items()}
    else:
        wanted = dict(zip(chosen, integers(sizes, "sizes"), strict=True))
        factors = {axis: size / x.shape[axis] for axis, size in wanted.items()}
    if rank != 4 or any(wanted.get(axis, x.shape[axis]) != x.shape[axis] for axis in (0, 1)):
        raise Unsupported("only the rows and columns of maps [1, c, h, w] are resized")
    size = [wanted.get(axis, x.shape[axis]) for axis in (2, 3)]
    if not 0 < min(size) <= max(size) <= MOST_ELEMENTS:
        raise Unsupported(f"it makes {size[0]:,} rows of {size[1]:,}")
    how = coordinate_transformation_mode
    if mode == "linear":
        if any(wanted[axis] != x.shape[axis] * factors[axis] for axis in wanted):
            raise Unsupported("its factor is no quotient of the sizes; give sizes")
        if how not in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric") or (how[0] == "p" and 1 in size):
            raise Unsupported(f"its places '{how}' are not TFLite's")
        aligned, centred = how == "align_corners", how in ("half_pixel", "pytorch_half_pixel")
        return spatial.resized(b, "resize_bilinear", x, size, align_corners=aligned, half_pixel_centers=centred)
    places = [
        _nearest(e, out, factors.get(a, 1.0), how, nearest_mode) for a, e, out in zip((2, 3), x.shape[2:], size, strict=True)
    ]
    for aligned, centred in ((False, False), (False, True), (True, False)):
        attrs = {"align_corners": aligned, "half_pixel_centers": centred}
        ours = [nearest(e, out, attrs) for e, out in zip(x.shape[2:], size, strict=True)]
        if all(np.array_equal(one, two) for one, two in zip(places, ours, strict=True)):
            return spatial.resized(b, "resize_nearest_neighbor", x, size, **attrs)
    raise Unsupported(f"its places '{how}' with '{nearest_mode}' are not TFLite's for these sizes")


ROUNDED: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
}


def _half_pixel(at: Array, extent: int, out: int, factor: float) -> Array:
    return (at + 0.5) / factor - 0.5


# where rows of an output of so many lie in the input of this extent
PLACES: dict[str, Callable[[Array, int, int, float], Array]] = {
    "align_corners": lambda at, extent, out, factor: at * (extent - 1) / max(out - 1, 1),
    "asymmetric": lambda at, extent, out, factor: at / factor,
    "half_pixel": _half_pixel,
    # where the factor makes no whole number of rows, the rest is left out at both ends
    "half_pixel_symmetric": lambda at, extent, out, factor: (
        _half_pixel(at, extent, out, factor) + extent / 2 * (1 - out / (extent * factor))
    ),
    "pytorch_half_pixel": lambda at, extent, out, factor: _half_pixel(at, extent, out, factor) if out > 1 else 0 * at,
}


def _nearest(extent: int, out: int, factor: float, how: str, rounding: str) -> Array:
    """Return which rows of the input an output's rows are."""
    if how not in PLACES:
        raise Unsupported(f"its places '{how}' are not TFLite's")
    at = PLACES[how](np.arange(out, dtype=np.float64), extent, out, factor)
    return np.clip(ROUNDED[rounding](at), 0, extent - 1).astype(np.int64)
