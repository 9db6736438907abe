"""Import ATen's element-wise ops with broadcasting, activations and batch normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops import SPECS, functions
from ..channels_last import Builder, Map, flattened, in_layout, same_layout
from ..quantised_constants import QUANTISED_DTYPE, Array, dequantised
from ..unsupported import Unsupported


def constant(value: Any, what: str) -> Array:
    """Return an argument, `what` in messages, as an array, dequantised; raise Unsupported if the network computes it."""
    return dequantised(stored_constant(value, what))


def stored_constant(value: Any, what: str) -> Array:
    """Return an argument, `what` in messages, as the array that is stored; raise Unsupported if the network computes it."""
    if not isinstance(value, np.ndarray):
        raise Unsupported(f"its {what} is an input or computed by the network; it must be a constant of the model")
    return value


def binary(kind: str) -> Callable[..., Map]:
    """Return a function that imports the TFLite kind `kind`, x op (alpha * y), which broadcasts; x or y may be constant."""

    def apply(b: Builder, x: Any, y: Any, alpha: float = 1) -> Map:
        if alpha != 1:
            y = y * alpha if not isinstance(y, Map) else binary("mul")(b, y, alpha)
        masks = [each for each in (x, y) if isinstance(each, Map) and b.tensors[each.tensor].dtype == "bool"]
        if kind == "mul" and masks:
            return where(b, masks[0], y if masks[0] is x else x, 0.0) if len(masks) == 1 else binary("logical_and")(b, x, y)
        attrs = {"activation": "none"} if SPECS[kind].fuses_activation else {}
        m, other = (x, y) if isinstance(x, Map) else (y, x)
        if isinstance(other, Map):
            if len(m.axes) == len(other.axes) and same_layout(m, other):
                return b.map(kind, (m.tensor, other.tensor), m.axes, m.dims, attrs)
        elif np.broadcast_shapes(np.shape(other), m.shape) == m.shape:
            operands = m.tensor, b.constant(_broadcast_constant(m, other))
            return b.map(kind, operands if m is x else operands[::-1], m.axes, m.dims, attrs)
        whole, names = _broadcast_by(b, [x, y])
        return b.map(kind, names, whole.axes, whole.dims, attrs)

    return apply


def where(b: Builder, condition: Any, x: Any, y: Any) -> Map:
    """Import aten.where as select_v2: x where the condition is true, else y. Each of them may be constant."""
    given = zip((condition, x, y), (bool, np.float32, np.float32), strict=True)
    whole, names = _broadcast_by(b, [each if isinstance(each, Map) else np.asarray(each, dtype) for each, dtype in given])
    if isinstance(y, Map) and y.shape == whole.shape and isinstance(condition, np.ndarray) and not condition.any():
        return y
    return b.map("select_v2", names, whole.axes, whole.dims)


def _broadcast_by(b: Builder, operands: Sequence[Any]) -> tuple[Map, list[str]]:
    """Return the layout (a Map without a tensor) of the broadcast of maps and constants, and the name of a tensor of each."""
    shapes = [x.shape if isinstance(x, Map) else np.shape(x) for x in operands]
    shape = np.broadcast_shapes(*shapes)
    padded = {
        index: Map(x.tensor, ((),) * (len(shape) - len(x.axes)) + x.axes, x.dims)
        for index, x in enumerate(operands)
        if isinstance(x, Map)
    }
    axes = tuple(
        next((m.axes[axis] for m in padded.values() if m.axes[axis]), ()) or b.new_axis(extent)
        for axis, extent in enumerate(shape)
    )
    # in the outer sum of a map and itself an Axis would occur twice
    if len({*flattened(axes)}) < len(flattened(axes)):
        axes = tuple(map(b.new_axis, shape))
    order = b.common_order(*padded.values())
    whole = Map("", axes, tuple(axes[axis] for axis in order))
    names = []
    for index, x in enumerate(operands):
        if index in padded:
            names.append(b.tensor(padded[index], [padded[index].axes[axis] for axis in order]))
        else:
            values = _broadcast_constant(whole, x)
            names.append(b.constant(values, dtype="bool" if values.dtype == bool else "float32"))
    return whole, names


def masked_fill(b: Builder, x: Map, mask: Any, value: Any) -> Map:
    """Import aten.masked_fill as select_v2."""
    return where(b, mask, value if isinstance(value, Map) else np.float32(constant(np.asarray(value), "value")), x)


def as_floats(b: Builder, x: Map, scale: float = 1.0, zero: int = 0) -> Map:
    """Return bools as 0 and 1, and 8-bit integers as (x - zero) * scale, in float32; other maps are returned unchanged."""
    if b.is_byte(x.tensor):
        if (x.tensor, scale, zero) not in b.converted:
            y = b.like("dequantize", x)
            y = binary("sub")(b, y, zero) if zero else y
            b.converted[x.tensor, scale, zero] = (y if scale == 1 else binary("mul")(b, y, scale)).tensor
        return Map(b.converted[x.tensor, scale, zero], x.axes, x.dims)
    return where(b, x, 1.0, 0.0) if b.tensors[x.tensor].dtype == "bool" else x


def _broadcast_constant(x: Map, value: Any) -> Array:
    """Return a constant permuted to broadcast to the memory of the map `x`; raise Unsupported if it would enlarge the map."""
    kept = isinstance(value, np.ndarray) and value.dtype in (QUANTISED_DTYPE, bool)
    values = value if kept else np.asarray(value, np.float32)
    if np.broadcast_shapes(values.shape, x.shape) != x.shape:
        raise Unsupported(
            f"a constant of shape {list(values.shape)} would broadcast the map {list(x.shape)}; expand the map instead"
        )
    return in_layout(x, values)


def division(b: Builder, x: Any, y: Any) -> Map:
    """Import aten.div as a product with the reciprocal."""
    x, y = (as_floats(b, each) if isinstance(each, Map) else each for each in (x, y))
    if isinstance(y, Map):
        return binary("mul")(b, x, b.like("reciprocal", y))
    divisor = dequantised(np.asarray(y)).astype(np.float64)
    if not divisor.all():
        raise Unsupported("it divides by 0")
    return binary("mul")(b, x, (1 / divisor).astype(np.float32))


def remainder(b: Builder, x: Any, y: Any) -> Map:
    """Import aten.remainder, which has the sign of the divisor: frac(frac(x / y) + 1) * y."""
    fraction = binary("add")(b, b.like("frac", division(b, x, y)), 1)
    return binary("mul")(b, b.like("frac", fraction), y)


def fmod(b: Builder, x: Any, y: Any) -> Map:
    """Import aten.fmod, which has the sign of the dividend: frac(x / y) * y."""
    return binary("mul")(b, b.like("frac", division(b, x, y)), y)


def lerp(b: Builder, x: Map, end: Any, weight: Any) -> Map:
    """Import aten.lerp: x + weight * (end - x)."""
    return binary("add")(b, x, binary("mul")(b, binary("sub")(b, end, x), weight))


def addcmul(b: Builder, x: Any, one: Any, two: Any, *, value: float = 1) -> Map:
    """Import aten.addcmul: x + value * one * two."""
    product = binary("mul")(b, one, two) if isinstance(one, Map) or isinstance(two, Map) else one * two
    return binary("add")(b, x, product, value)


def unary(kind: str, **attrs: Any) -> Callable[[Builder, Map], Map]:
    """Return a function that imports an element-wise op with one operand as the TFLite kind `kind`."""
    return lambda b, x: b.like(kind, x, **attrs)


FUNCTIONS = {spec.kind: unary(spec.kind) for spec in functions.FUNCTIONS if not spec.numbers}
# ATen's name -> op kind
COMPARISONS = {"eq": "equal", "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less", "ne": "not_equal"}
OF_BATCH = "it uses the statistics of the batch; call eval() first, with running statistics"
SELU = 1.6732632423543772, 1.0507009873554805  # alpha and scale


def function(b: Builder, kind: str, x: Map, **numbers: float) -> Map:
    """Add the element-wise op `kind` on `x`; `numbers` are the op's attributes, which are rounded to float32."""
    return b.like(kind, x, **{name: float(np.float32(number)) for name, number in numbers.items()})


def leaky_relu(b: Builder, x: Map, negative_slope: float = 0.01) -> Map:
    """Import aten.leaky_relu."""
    return function(b, "leaky_relu", x, alpha=negative_slope)


def softplus(b: Builder, x: Map, beta: float = 1, threshold: float = 20) -> Map:
    """Import aten.softplus, log(1 + exp(beta * x)) / beta, which is x if beta * x exceeds the threshold."""
    return function(b, "softplus", x, beta=beta, threshold=threshold)


def shrink(b: Builder, x: Map, lambd: float = 0.5, bias: float = 0) -> Map:
    """Import aten.hardshrink or, if bias is lambd, aten.softshrink: 0 if |x| <= lambd, else x moved by `bias` towards 0."""
    return function(b, "shrink", x, lambd=lambd, bias=bias)


def threshold(b: Builder, x: Map, threshold: float, value: float) -> Map:
    """Import aten.threshold: x where it exceeds the threshold, else the value."""
    return function(b, "threshold", x, threshold=threshold, value=value)


def prelu(b: Builder, x: Map, weight: Any) -> Map:
    """Import aten.prelu; `weight` is one slope, or one per channel (axis 1)."""
    weight = constant(weight, "weight")
    slopes = weight.reshape(-1, *(1,) * (len(x.axes) - 2)) if len(x.axes) > 2 else weight
    return b.like("prelu", x, b.constant(_broadcast_constant(x, slopes), "slope"))


INFINITE = 3.4e38  # a limit beyond it has no effect
CLAMPS: dict[tuple[float | None, float | None], str] = {(0, None): "relu", (0, 6): "relu6", (-1, 1): "relu_n1_to_1"}


def clamp(b: Builder, x: Map, low: Any = None, high: Any = None) -> Map:
    """Import aten.clamp as a ReLU variant (relu, relu6, ...) if one has these limits, else as maximum and minimum.

    A limit is a number, a constant or a map. A limit of None, or beyond the range of float32, is left out.
    """
    low, high = (limit.item() if isinstance(limit, np.ndarray) and limit.size == 1 else limit for limit in (low, high))
    if not any(isinstance(limit, (Map, np.ndarray)) for limit in (low, high)):
        low = None if low is None or low < -INFINITE else low
        high = None if high is None or high > INFINITE else high
        if (low, high) in CLAMPS:
            return b.like(CLAMPS[low, high], x)
    x = x if low is None else binary("maximum")(b, x, low)
    return x if high is None else binary("minimum")(b, x, high)


def hard_sigmoid(b: Builder, x: Map, *, alpha: float = 0.2, beta: float = 0.5) -> Map:
    """Import a hard sigmoid, max(0, min(1, alpha * x + beta)), as relu6(6 * alpha * x + 6 * beta) / 6."""
    x = x if abs(6 * alpha - 1) < 1e-6 else binary("mul")(b, x, 6 * alpha)
    return binary("mul")(b, b.like("relu6", binary("add")(b, x, 6 * beta)), np.float32(1 / 6))


def gelu(b: Builder, x: Map, approximate: str = "none") -> Map:
    """Import aten.gelu, exact or with the tanh approximation."""
    return b.like("gelu", x, approximate=approximate == "tanh")


def elu(b: Builder, x: Map, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Map:
    """Import aten.elu, celu or selu as elu, or, if a factor is not 1, as the custom op scaled_elu, which TFLite lacks."""
    if (alpha, scale, input_scale) == (1, 1, 1):
        return b.like("elu", x)
    return function(b, "scaled_elu", x, alpha=alpha, scale=scale, input_scale=input_scale)


POWERS = {-1: "reciprocal", -0.5: "rsqrt", 0.5: "sqrt"}  # exponent -> kind of the same function


def power(b: Builder, x: Any, exponent: Any) -> Map:
    """Import aten.pow with one constant exponent (2 becomes x * x), or a positive constant base (by way of exp)."""
    if not isinstance(x, Map):
        base = constant(x, "base") if isinstance(x, np.ndarray) else np.asarray(x)
        if not (base > 0).all():
            raise Unsupported("its base is not positive; take the power of its absolute value")
        return b.like("exp", binary("mul")(b, exponent, np.log(base.astype(np.float64))))
    values = constant(exponent, "exponent") if isinstance(exponent, (Map, np.ndarray)) else np.asarray(exponent)
    if values.size != 1:
        raise Unsupported("it has several exponents; only one is supported")
    number = float(values.ravel()[0])
    if number == 2:
        return binary("mul")(b, x, x)
    return b.like(POWERS[number], x) if number in POWERS else function(b, "power", x, exponent=number)


def batch_norm(
    b: Builder, x: Map, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, cudnn: bool
) -> Map:
    """Import aten.batch_norm in evaluation mode as a product and a sum with constants, which `passes.fold_float` folds."""
    if training or mean is None or var is None:
        raise Unsupported(OF_BATCH)
    mean, var = constant(mean, "mean"), constant(var, "variance").astype(np.float64)
    if wrong := np.count_nonzero(~((var >= 0) & (var + eps > 0))):
        raise Unsupported(f"its variance is not positive in {wrong} of {var.size} channels; the file may be damaged")
    one = np.ones(len(mean))
    scale = (one if weight is None else constant(weight, "weight")).astype(np.float64) / np.sqrt(var + eps)
    offset = (0 * one if bias is None else constant(bias, "bias")) - mean * scale
    shape = (-1, *(1,) * (len(x.axes) - 2))
    return binary("add")(b, binary("mul")(b, x, scale.reshape(shape)), offset.reshape(shape))
