"""Norms whose mean and variance the network computes while it runs: over the last axes of a map, such as a transformer's.

The sum of squares is a product of matrices, each row by itself: it adds up in 32 bits and is rounded once, where a mean of
squares of one byte would round each of them. What it is divided by becomes a factor, one over its root.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..channels_last import Builder, Map, Unsupported, flat
from .axes import mean
from .elementwise import binary, constant

EPSILON = float(np.finfo(np.float32).eps)  # of rms_norm where none is given


def layer_norm(
    b: Builder, x: Map, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True
) -> Map:
    centred = binary("sub")(b, x, mean(b, x, _last(x, shape), keepdim=True))
    return _scaled(b, centred, shape, weight, bias, eps)


def rms_norm(b: Builder, x: Map, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Map:
    return _scaled(b, x, shape, weight, None, EPSILON if eps is None else eps)


def _last(x: Map, shape: Sequence[int]) -> list[int]:
    """Return the axes that a norm goes over; raise Unsupported where the map does not end in them."""
    if not 0 < len(shape) <= len(x.axes) or tuple(shape) != x.shape[-len(shape) :]:
        raise Unsupported(f"it norms over {list(shape)}, in which the map {list(x.shape)} does not end")
    return list(range(-len(shape), 0))


def _scaled(b: Builder, x: Map, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Map:
    """Return x over the root of its mean square over the last axes, times weight plus bias."""
    count = len(_last(x, shape))
    elements = np.float64(np.prod(shape))
    squares = binary("add")(b, _sum_of_squares(b, x, count), np.float32(eps * elements))
    normed = binary("mul")(b, x, b.like("rsqrt", squares))
    slope = constant(np.ones(shape, np.float32) if weight is None else weight, "weight").astype(np.float64)
    normed = binary("mul")(b, normed, (slope * np.sqrt(elements)).astype(np.float32))
    return normed if bias is None else binary("add")(b, normed, constant(bias, "bias"))


def _sum_of_squares(b: Builder, x: Map, count: int) -> Map:
    """Return the sum of squares over the last `count` axes, which are kept with an extent of 1."""
    last = flat(x.axes[-count:])
    begin = len(x.order) - len(last)
    rows, inner = x.order[:begin], x.order[begin:]
    if set(inner) != set(last):
        raise Unsupported("the axes that it norms over do not lie last in memory: it would need a transpose")
    name = b.tensor(x, (rows, (), inner))
    axes = (*x.axes[:-count], *[()] * count)
    return b.map("batch_matmul", (name, name), axes, (rows, (), ()), {"adj_x": False, "adj_y": True}, suffix="squares")
