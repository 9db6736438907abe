"""Import layer norm and RMS norm over the last axes of a map, as in transformers.

The sum of squares is a batch_matmul of each row with itself: it accumulates in 32 bits and is rounded once. A mean of int8
squares would round each square. The division becomes a product with rsqrt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..channels_last import Builder, Map, flattened
from ..unsupported import Unsupported
from .axes import mean
from .elementwise import binary, constant

EPSILON = float(np.finfo(np.float32).eps)  # default of rms_norm


def layer_norm(
    b: Builder, x: Map, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True
) -> Map:
    """Import aten.layer_norm: subtract the mean over the last axes, whose extents are `shape`, then normalise like rms_norm."""
    centred = binary("sub")(b, x, mean(b, x, _normalised_axes(x, shape), keepdim=True))
    return _rms_normalised(b, centred, shape, weight, bias, eps)


def rms_norm(b: Builder, x: Map, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Map:
    """Import aten.rms_norm: x / sqrt(mean(x^2) + eps) * weight over the last axes, whose extents are `shape`."""
    return _rms_normalised(b, x, shape, weight, None, EPSILON if eps is None else eps)


def _normalised_axes(x: Map, shape: Sequence[int]) -> list[int]:
    """Return the axes to normalise over as negative numbers; raise Unsupported if the last extents of `x` are not `shape`."""
    if not 0 < len(shape) <= len(x.axes) or tuple(shape) != x.shape[-len(shape) :]:
        raise Unsupported(f"its normalised shape {list(shape)} is not the end of the map's shape {list(x.shape)}")
    return list(range(-len(shape), 0))


def _rms_normalised(b: Builder, x: Map, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Map:
    """Add the ops of x / sqrt(mean(x^2) + eps) * weight + bias, with the mean over the last axes, whose extents are `shape`.

    A weight of None is 1, a bias of None is left out.
    """
    count = len(_normalised_axes(x, shape))
    elements = np.float64(np.prod(shape))
    squares = binary("add")(b, _sum_of_squares(b, x, count), np.float32(eps * elements))
    normed = binary("mul")(b, x, b.like("rsqrt", squares))
    slope = constant(np.ones(shape, np.float32) if weight is None else weight, "weight").astype(np.float64)
    normed = binary("mul")(b, normed, (slope * np.sqrt(elements)).astype(np.float32))
    return normed if bias is None else binary("add")(b, normed, constant(bias, "bias"))


def _sum_of_squares(b: Builder, x: Map, count: int) -> Map:
    """Return the sum of squares over the last `count` axes, a batch_matmul of each row with itself. The axes keep extent 1."""
    last = flattened(x.axes[-count:])
    rows, inner = (tuple(axis for axis in x.order if (axis in last) == is_last) for is_last in (False, True))
    name = b.tensor(x, (rows, (), inner))
    axes = (*x.axes[:-count], *[()] * count)
    return b.map("batch_matmul", (name, name), axes, (rows, (), ()), {"adj_x": False, "adj_y": True}, suffix="squares")
