"""Import ONNX's Resize: as one of TFLite's resizes if it reads the same pixels, else as gathers or products with constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..aten.elementwise import constant
from ..aten.resizing import check_size, copied, interpolated, positions
from ..channels_last import Builder, Map
from ..quantised_constants import Array
from ..unsupported import Unsupported, normalised_axis
from .maps import constant_integers

ROUNDED: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
}


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
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    extrapolation_value: float = 0.0,
) -> Map:
    """Import ONNX's Resize of any axes, in any mode, without antialias; the output size is from `scales` or from `sizes`."""
    if antialias or keep_aspect_ratio_policy != "stretch":
        raise Unsupported("it has antialias or a keep_aspect_ratio_policy; give the sizes, and blur the map by a convolution")
    if mode not in ("nearest", "linear", "cubic") or nearest_mode not in ROUNDED:
        raise Unsupported(f"its mode '{mode}' or its nearest_mode '{nearest_mode}' is unknown; the file may be damaged")
    rank = len(x.axes)
    chosen = [normalised_axis(rank, axis) for axis in axes] if axes else list(range(rank))
    if scales is not None and np.size(scales):
        factors = dict(zip(chosen, map(float, constant(scales, "scales")), strict=True))
        wanted = {axis: int(np.floor(x.shape[axis] * factor)) for axis, factor in factors.items()}
    else:
        wanted = dict(zip(chosen, constant_integers(sizes, "sizes"), strict=True))
        factors = {axis: size / x.shape[axis] for axis, size in wanted.items()}
    check_size(list(wanted.values()))
    how = coordinate_transformation_mode
    changed = [axis for axis, factor in factors.items() if factor != 1]
    places = {axis: positions(x.shape[axis], wanted[axis], factors[axis], how) for axis in changed}
    if mode == "nearest":
        rounded = {axis: ROUNDED[nearest_mode](at) for axis, at in places.items()}
        return copied(b, x, {axis: np.clip(at, 0, x.shape[axis] - 1).astype(int) for axis, at in rounded.items()})
    return interpolated(b, x, places, cubic_coeff_a if mode == "cubic" else None, outside=not exclude_outside)
