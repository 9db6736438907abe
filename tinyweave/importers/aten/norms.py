"""Import norms: layer norm and RMS norm over the last axes of a map, group norm, standard deviation, vector norms.

The sum of squares is a batch_matmul of each row with itself: it accumulates in 32 bits and is rounded once. A mean of int8
squares would round each square. The division becomes a product with rsqrt.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

import numpy as np

from ..channels_last import Builder, Map, check_elements, flattened
from ..unsupported import Unsupported
from .axes import along_axis, axis_set, mean, mixed, reduce, squeeze, sum_
from .elementwise import batch_norm, binary, constant, power

EPSILON = float(np.finfo(np.float32).eps)  # default of rms_norm
TINY = 1e-12  # added to a sum of squares that may be 0
L2_AXES = 4  # most axes of an l2_normalization


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
    """Add x / sqrt(mean(x^2) + eps) * weight (None: 1) + bias, with the mean over the last axes, of extents `shape`."""
    count = len(_normalised_axes(x, shape))
    elements = np.float64(np.prod(shape))
    squares = binary("add")(b, _sum_of_squares(b, x, count), np.float32(eps * elements))
    normed = binary("mul")(b, x, b.like("rsqrt", squares))
    slope = constant(np.ones(shape, np.float32) if weight is None else weight, "weight").astype(np.float64)
    normed = binary("mul")(b, normed, (slope * np.sqrt(elements)).astype(np.float32))
    return normed if bias is None else binary("add")(b, normed, constant(bias, "bias"))


def _sum_of_squares(b: Builder, x: Map, count: int) -> Map:
    """Return the sum of squares over the last `count` axes, a batch_matmul of each row with itself; these axes get extent 1."""
    last = flattened(x.axes[-count:])
    rows, inner = (tuple(axis for axis in x.order if (axis in last) == is_last) for is_last in (False, True))
    name = b.tensor(x, (rows, (), inner))
    axes = (*x.axes[:-count], *[()] * count)
    return b.map("batch_matmul", (name, name), axes, (rows, (), ()), {"adj_x": False, "adj_y": True}, suffix="squares")


def sum_of_squares(b: Builder, x: Map, dim: Any = None, keepdim: bool = False) -> Map:
    """Return the sum of squares over the axes `dim`, by default all: a batch_matmul, or a mean if they are not innermost."""
    chosen = sorted(axis_set(x, dim))
    last = flattened(x.axes[axis] for axis in chosen)
    if chosen[0] != len(x.axes) - len(chosen) or {*last} != {*x.order[len(x.order) - len(last) :]}:
        return sum_(b, binary("mul")(b, x, x), chosen, keepdim)
    squares = _sum_of_squares(b, x, len(chosen))
    return squares if keepdim else squeeze(b, squares, chosen)


def root(b: Builder, x: Map) -> Map:
    """Return the square root of a map without negative elements, x * rsqrt(x); TINY keeps the root of 0 finite."""
    return binary("mul")(b, x, b.like("rsqrt", binary("add")(b, x, TINY)))


def variance(
    b: Builder, x: Map, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Map:
    """Import aten.var over the axes `dim`, by default all."""
    if isinstance(dim, bool):  # the form without axes
        dim, unbiased = None, dim
    chosen = axis_set(x, dim)
    count = prod(x.shape[axis] for axis in chosen)
    divisor = count - (unbiased if correction is None else correction)
    if divisor <= 0:
        raise Unsupported(f"its variance of {count} elements divides by 0; set the correction to 0")
    centred = binary("sub")(b, x, mean(b, x, chosen, keepdim=True))
    return binary("mul")(b, sum_of_squares(b, centred, chosen, keepdim), np.float32(1 / divisor))


def variance_and_mean(
    b: Builder, x: Map, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> list[Map]:
    """Import aten.var_mean: return [variance, mean]; the arguments are those of aten.var."""
    variances = variance(b, x, dim, unbiased, keepdim, correction=correction)
    return [variances, mean(b, x, None if isinstance(dim, bool) else dim, keepdim)]


def deviation(b: Builder, x: Map, *args: Any, **kwargs: Any) -> Map:
    """Import aten.std, the root of the variance; `args` and `kwargs` are the arguments of `variance` after the map."""
    return root(b, variance(b, x, *args, **kwargs))


def norm(b: Builder, x: Map, order: float = 2, dim: Any = None, keepdim: bool = False) -> Map:
    """Import aten.linalg_vector_norm of order 1, 2 or infinity over the axes `dim`, by default all."""
    if order == 2:
        return root(b, sum_of_squares(b, x, dim, keepdim))
    if order not in (1, inf):
        raise Unsupported(f"its order {order} is not supported; use 1, 2 or infinity")
    return (sum_ if order == 1 else reduce("reduce_max"))(b, b.like("abs", x), dim, keepdim)


def cosine_similarity(b: Builder, x: Map, y: Map, dim: int = 1, eps: float = 1e-8) -> Map:
    """Import aten.cosine_similarity along one axis."""
    product = sum_(b, binary("mul")(b, x, y), dim, True)
    for each in (x, y):
        squares = binary("maximum")(b, sum_of_squares(b, each, dim, True), max(eps**2, TINY))
        product = binary("mul")(b, product, b.like("rsqrt", squares))
    return squeeze(b, product, dim)


def pairwise_distance(b: Builder, x: Any, y: Any, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Map:
    """Import aten.pairwise_distance: the norm of order `p` of x - y + eps along the last axis."""
    return norm(b, binary("add")(b, binary("sub")(b, x, y), eps), p, -1, keepdim)


def normalised(b: Builder, x: Map, axis: int = -1, p: int = 2) -> Map:
    """Import ONNX's LpNormalization of order 2: divide by the norm along an axis."""
    if p != 2:
        raise Unsupported(f"its order {p} is not supported; use 2")
    if len(x.axes) <= L2_AXES:
        return along_axis(b, "l2_normalization", x, axis, {"activation": "none"})
    squares = binary("add")(b, sum_of_squares(b, x, axis, True), TINY)
    return binary("mul")(b, x, b.like("rsqrt", squares))


def group_norm(
    b: Builder, x: Map, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True
) -> Map:
    """Import aten.group_norm; means over pixels become means over groups by a product with a constant matrix."""
    channels = x.shape[1]
    if channels % groups:
        raise Unsupported(f"its {groups} groups do not divide the channels of a map {list(x.shape)}")
    each = channels // groups
    check_elements(channels, channels)
    matrix = np.kron(np.eye(groups), np.full((each, each), 1 / each)).astype(np.float32)

    def of_groups(y: Map) -> Map:
        y = mean(b, y, range(2, len(y.axes)), keepdim=True) if len(y.axes) > 2 else y
        return y if each == 1 else mixed(b, y, 1, matrix)

    centred = binary("sub")(b, x, of_groups(x))
    spread = binary("add")(b, of_groups(binary("mul")(b, centred, centred)), np.float32(eps))
    y = binary("mul")(b, centred, b.like("rsqrt", spread))
    for kind, values in (("mul", weight), ("add", bias)):
        if values is not None:
            y = binary(kind)(b, y, constant(values, "weight").reshape(-1, *(1,) * (len(x.axes) - 2)))
    return y


def instance_norm(
    b: Builder,
    x: Map,
    weight: Any = None,
    bias: Any = None,
    mean: Any = None,
    var: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn: bool = True,
) -> Map:
    """Import aten.instance_norm as a group norm per channel, or, without `use_input_stats`, as a batch norm."""
    if not use_input_stats:
        return batch_norm(b, x, weight, bias, mean, var, False, momentum, eps, cudnn)
    return group_norm(b, x, x.shape[1], weight, bias, eps)


def local_response_norm(b: Builder, x: Map, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Map:
    """Import ONNX's LRN, x / (bias + alpha / size * s)^beta, where s is the sum of squares of `size` neighbouring channels.

    The sum is a product with a constant matrix. The power is a product of inverse square roots if beta is 0.5, 0.75 or 1.
    """
    check_elements(x.shape[1], x.shape[1])
    at = np.arange(x.shape[1])
    distance = at - at[:, None]
    near = (distance >= -((size - 1) // 2)) & (distance <= size // 2)
    sums = mixed(b, binary("mul")(b, x, x), 1, (near * (alpha / size)).astype(np.float32))
    spread = binary("add")(b, sums, np.float32(bias))
    if beta not in (0.5, 0.75, 1):
        return binary("mul")(b, x, power(b, spread, -beta))
    inverse = b.like("rsqrt", spread)  # to the power of -1/2
    if beta == 0.75:  # times the power of -1/4
        inverse = binary("mul")(b, inverse, b.like("rsqrt", binary("mul")(b, spread, inverse)))
    return binary("mul")(b, binary("mul")(b, x, inverse) if beta == 1 else x, inverse)
