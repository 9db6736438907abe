"""Import ONNX's Resize if one of TFLite's resize ops reads the same pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.resize import nearest
from ..aten import spatial
from ..aten.elementwise import constant
from ..channels_last import MAX_ELEMENTS, Builder, Map
from ..quantised_constants import Array
from ..unsupported import Unsupported
from .maps import constant_integers


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
    """Import ONNX's Resize of rows and columns, in mode nearest or linear; the output size is from `scales` or from `sizes`.

    Raise Unsupported if no TFLite resize op reads the same pixels.
    """
    if antialias or keep_aspect_ratio_policy != "stretch" or mode not in ("nearest", "linear"):
        raise Unsupported(f"its mode '{mode}' with these options is not supported; use nearest or linear without options")
    rank = len(x.axes)
    chosen = list(axes) if axes else list(range(rank))
    if scales is not None and np.size(scales):
        factors = dict(zip(chosen, map(float, constant(scales, "scales")), strict=True))
        wanted = {axis: int(np.floor(x.shape[axis] * factor)) for axis, factor in factors.items()}
    else:
        wanted = dict(zip(chosen, constant_integers(sizes, "sizes"), strict=True))
        factors = {axis: size / x.shape[axis] for axis, size in wanted.items()}
    if rank != 4 or any(wanted.get(axis, x.shape[axis]) != x.shape[axis] for axis in (0, 1)):
        raise Unsupported("it must resize the rows and columns of a map [1, c, h, w] only")
    size = [wanted.get(axis, x.shape[axis]) for axis in (2, 3)]
    if not 0 < min(size) <= max(size) <= MAX_ELEMENTS:
        raise Unsupported(f"its output size {size[0]:,} x {size[1]:,} is out of range")
    how = coordinate_transformation_mode
    if mode == "linear":
        if any(wanted[axis] != x.shape[axis] * factors[axis] for axis in wanted):
            raise Unsupported("its scale is not the ratio of the sizes; give sizes")
        if how not in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric") or (how[0] == "p" and 1 in size):
            raise Unsupported(f"TFLite has no coordinate transformation '{how}'; use half_pixel, align_corners or asymmetric")
        aligned, centred = how == "align_corners", how in ("half_pixel", "pytorch_half_pixel")
        return spatial.resized(b, "resize_bilinear", x, size, align_corners=aligned, half_pixel_centers=centred)
    positions = [
        _nearest(e, out, factors.get(a, 1.0), how, nearest_mode) for a, e, out in zip((2, 3), x.shape[2:], size, strict=True)
    ]
    for aligned, centred in ((False, False), (False, True), (True, False)):
        attrs = {"align_corners": aligned, "half_pixel_centers": centred}
        ours = [nearest(e, out, attrs) for e, out in zip(x.shape[2:], size, strict=True)]
        if all(np.array_equal(one, two) for one, two in zip(positions, ours, strict=True)):
            return spatial.resized(b, "resize_nearest_neighbor", x, size, **attrs)
    is_usual = how == "asymmetric" and nearest_mode == "floor" and sizes is not None
    advice = "resize to another size" if is_usual else "give sizes with 'asymmetric' and 'floor'"
    raise Unsupported(f"TFLite selects other pixels than '{how}' with '{nearest_mode}' for these sizes; {advice}")


ROUNDED: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
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
        _half_pixel(at, extent, out, factor) + extent / 2 * (1 - out / (extent * factor))
    ),
    "pytorch_half_pixel": lambda at, extent, out, factor: _half_pixel(at, extent, out, factor) if out > 1 else 0 * at,
}


def _nearest(extent: int, out: int, factor: float, how: str, rounding: str) -> Array:
    """Return for each of `out` output rows the number of the input row that it copies. For columns it works the same way.

    Args:
        extent: the number of input rows.
        out: the number of output rows.
        factor: output rows per input row.
        how: the node's coordinate_transformation_mode, a key of POSITIONS.
        rounding: the node's nearest_mode, a key of ROUNDED.
    """
    if how not in POSITIONS:
        raise Unsupported(f"TFLite has no coordinate transformation '{how}'; use half_pixel, align_corners or asymmetric")
    at = POSITIONS[how](np.arange(out, dtype=np.float64), extent, out, factor)
    return np.clip(ROUNDED[rounding](at), 0, extent - 1).astype(np.int64)
