"""Ops that work on each element by itself, with broadcasting, and those on channels that are written as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..channels_last import Builder, Map, Unsupported, alike, arranged, extents, flat, placed
from ..steps import STEPS, real

Array = NDArray[Any]


def constant(value: Any, what: str) -> Array:
    """Return an argument that must be constant, as real numbers."""
    return real(with_steps(value, what))


def with_steps(value: Any, what: str) -> Array:
    """Return an argument that must be constant, with the steps that it may have."""
    if not isinstance(value, np.ndarray):
        raise Unsupported(f"its {what} is computed by the network and not constant")
    return value


def binary(kind: str) -> Callable[..., Map]:
    """Return the function of an op on two maps, or a map and a constant, with broadcasting."""

    def apply(b: Builder, x: Any, y: Any, alpha: float = 1) -> Map:
        if alpha != 1:
            y = y * alpha if not isinstance(y, Map) else binary("mul")(b, y, alpha)
        attrs = {} if kind in ("maximum", "minimum") else {"activation": "none"}
        if not isinstance(x, Map) or not isinstance(y, Map):
            known, other = (x, y) if isinstance(x, Map) else (y, x)
            operands = known.tensor, b.constant(_beside(known, other))
            return b.map(kind, operands if known is x else operands[::-1], known.axes, known.dims, attrs)
        if len(x.axes) == len(y.axes) and alike(x, y):
            return b.map(kind, (x.tensor, y.tensor), x.axes, x.dims, attrs)
        rank = max(len(x.axes), len(y.axes))
        x, y = (Map(m.tensor, ((),) * (rank - len(m.axes)) + m.axes, m.dims) for m in (x, y))
        order = arranged(x, y)
        dims = [[m.axes[axis] for axis in order] for m in (x, y)]
        axes = tuple(one or two for one, two in zip(x.axes, y.axes, strict=True))
        if len({*flat(axes)}) < len(flat(axes)):  # of an outer sum of a map and itself: rows and columns are not the same
            axes = tuple(b.fresh(extent) for extent in extents(axes))
        return b.map(kind, [b.tensor(m, d) for m, d in zip((x, y), dims, strict=True)], axes, [axes[a] for a in order], attrs)

    return apply


def _beside(x: Map, value: Any) -> Array:
    """Return a constant operand as it lies beside a map."""
    values = value if isinstance(value, np.ndarray) and value.dtype == STEPS else np.asarray(value, np.float32)
    if np.broadcast_shapes(values.shape, x.shape) != x.shape:
        raise Unsupported(f"a constant of shape {list(values.shape)} enlarges the map {list(x.shape)}")
    return placed(x, values)


def division(b: Builder, x: Any, y: Any) -> Map:
    if isinstance(y, Map):
        raise Unsupported("its divisor is computed by the network; only constant ones are supported")
    divisor = real(np.asarray(y)).astype(np.float64)
    if not divisor.all():
        raise Unsupported("it divides by 0")
    return binary("mul")(b, x, (1 / divisor).astype(np.float32))


def unary(kind: str, **attrs: Any) -> Callable[[Builder, Map], Map]:
    return lambda b, x: b.like(kind, x, **attrs)


def leaky_relu(b: Builder, x: Map, negative_slope: float = 0.01) -> Map:
    return b.like("leaky_relu", x, alpha=float(np.float32(negative_slope)))


def prelu(b: Builder, x: Map, weight: Any) -> Map:
    weight = constant(weight, "weight")
    slopes = weight.reshape(-1, *(1,) * (len(x.axes) - 2)) if len(x.axes) > 2 else weight
    return b.like("prelu", x, b.constant(_beside(x, slopes), "slope"))


INFINITE = 3.4e38  # limits beyond it clip nothing
CLAMPS = {(0, None): "relu", (0, 6): "relu6", (-1, 1): "relu_n1_to_1"}


def clamp(b: Builder, x: Map, low: float | None = None, high: float | None = None) -> Map:
    low = None if low is None or low < -INFINITE else low
    high = None if high is None or high > INFINITE else high
    if (low, high) in CLAMPS:
        return b.like(CLAMPS[low, high], x)
    x = x if low is None else binary("maximum")(b, x, low)
    return x if high is None else binary("minimum")(b, x, high)


def hard_sigmoid(b: Builder, x: Map, *, alpha: float = 0.2, beta: float = 0.5) -> Map:
    """max(0, min(1, alpha * x + beta)), as a sixth of a relu6."""
    x = x if abs(6 * alpha - 1) < 1e-6 else binary("mul")(b, x, 6 * alpha)
    return binary("mul")(b, b.like("relu6", binary("add")(b, x, 6 * beta)), np.float32(1 / 6))


def gelu(b: Builder, x: Map, approximate: str = "none") -> Map:
    return b.like("gelu", x, approximate=approximate == "tanh")


def elu(b: Builder, x: Map, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Map:
    if (alpha, scale, input_scale) != (1, 1, 1):
        raise Unsupported("its negative side is scaled; only alpha 1 is supported")
    return b.like("elu", x)


def power(b: Builder, x: Map, exponent: Any) -> Map:
    if exponent != 2:
        raise Unsupported("only squares are supported")
    return binary("mul")(b, x, x)


def batch_norm(
    b: Builder, x: Map, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, cudnn: bool
) -> Map:
    """A product and a sum per channel, which `fold` puts into the convolution before them."""
    if training or mean is None or var is None:
        raise Unsupported("it takes mean and variance of each batch; call eval() first, with running statistics")
    mean, var = constant(mean, "mean"), constant(var, "variance").astype(np.float64)
    one = np.ones(len(mean))
    scale = (one if weight is None else constant(weight, "weight")).astype(np.float64) / np.sqrt(var + eps)
    offset = (0 * one if bias is None else constant(bias, "bias")) - mean * scale
    shape = (-1, *(1,) * (len(x.axes) - 2))
    return binary("add")(b, binary("mul")(b, x, scale.reshape(shape)), offset.reshape(shape))
