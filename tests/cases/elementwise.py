"""Generators of cases of elementwise ops, pools and reductions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from tinyweave.ir import Quant, Tensor
from tinyweave.ops import SPECS
from tinyweave.ops.extrema import COMPARISONS

from .copies import resize
from .draw import ACTIVATIONS, Drawn, Rng, activation, constant, integers, rescaled, text
from .weighted import windowed

SHAPE_PAIRS = (
    ((1, 4, 5, 3), (1, 4, 5, 3)),
    ((1, 4, 5, 3), (1, 1, 1, 3)),
    ((1, 1, 1, 3), (1, 4, 5, 3)),
    ((1, 4, 5, 3), (1, 4, 1, 3)),
    ((1, 4, 1, 3), (1, 1, 5, 1)),
    ((1, 4, 5, 3), (3,)),
    ((5, 1), (1, 4, 5, 3)),
    ((7, 6), (7, 6)),
    ((300,), (300,)),
    ((4, 5), (1,)),
    ((2, 1, 3, 1, 2), (2, 4, 1, 3, 2)),
)

ONE_CONSTANT = (1, 9, 10, 3), ()  # large enough for a table
FOUR_AXES = (2, 1, 5, 1), (1, 4, 1, 3)  # no axis can be merged with the next one


def _add(rng: Rng) -> Iterator[Drawn]:
    for number in range(90):
        first, second = SHAPE_PAIRS[number % len(SHAPE_PAIRS)] if number < 88 else ONE_CONSTANT
        a, b, out = activation("a", first, rng), activation("b", second, rng), activation("output", (), rng)
        if number % 3 == 0:
            out = rescaled(out, max(a.scale, b.scale) * rng.uniform(0.5, 3))
        if number % 3 == 1:  # the results are halfway between two values
            a, b, out = rescaled(a, 0.25), rescaled(b, 0.125), rescaled(out, 0.5)
        if number % 6 == 2:  # with a multiplier of few bits, rescaled values are halfway between two values
            a, b = rescaled(a, 0.03125), rescaled(b, float(np.float32(rng.uniform(0.002, 0.03))))
            out = rescaled(out, 0.03125 * 2.0 ** rng.integers(0, 3))
        if number % 5 == 1 or number >= 88:
            assert b.quant is not None
            b = constant("b", rng.integers(-128, 128, second).astype(np.int8), b.quant)
        if number % 11 == 7:
            b = a
        yield f"{text(a.shape)}-{text(b.shape)}", [a, b], out, {"activation": str(rng.choice(ACTIVATIONS))}


def _sum(rng: Rng) -> Iterator[Drawn]:
    yield from _add(rng)
    for first, second in (*SHAPE_PAIRS, FOUR_AXES, FOUR_AXES[::-1]) * 3:
        a, b, out = (
            activation(name, shape, rng, dtype="int16") for name, shape in (("a", first), ("b", second), ("output", ()))
        )
        if rng.integers(2):
            out = rescaled(out, max(a.scale, b.scale) * rng.uniform(0.5, 3))
        yield f"{text(first)}-{text(second)}-int16", [a, b], out, {"activation": str(rng.choice(ACTIVATIONS))}


def _mul(rng: Rng) -> Iterator[Drawn]:
    for about, (a, b), out, attrs in _add(rng):
        assert a is not None and b is not None
        factor = 2.0 ** rng.integers(0, 7) if rng.integers(3) == 0 else np.exp(rng.uniform(-1, 6))
        yield about, [a, b], rescaled(out, a.scale * b.scale * factor), attrs


def _product(rng: Rng) -> Iterator[Drawn]:
    yield from _mul(rng)
    for number, (first, second) in enumerate((*SHAPE_PAIRS, FOUR_AXES, FOUR_AXES[::-1]) * 2):
        a, b, out = (activation(n, s, rng, dtype="int16") for n, s in (("a", first), ("b", second), ("output", ())))
        factor = 2.0 ** rng.integers(8, 16) if number % 3 == 0 else np.exp(rng.uniform(6, 11))
        out = rescaled(out, a.scale * b.scale * factor)
        yield f"{text(first)}-{text(second)}-int16", [a, b], out, {"activation": str(rng.choice(ACTIVATIONS))}


def _div(rng: Rng) -> Iterator[Drawn]:
    for number, (about, (a, b), out, attrs) in enumerate(_add(rng)):
        assert a is not None and b is not None
        # the output's scale is 2^-9 to 7 times the quotient of the scales; for small ones LiteRT's shifts are defined
        factor = 2.0 ** rng.integers(-9, 3) if number % 3 == 0 else np.exp(rng.uniform(-6, 2))
        yield about, [a, b], rescaled(out, a.scale / b.scale * factor), attrs


def _squared_difference(rng: Rng) -> Iterator[Drawn]:
    for number, (about, (a, b), out, _) in enumerate(_add(rng)):
        assert a is not None and b is not None
        if number % 4 == 3 and b is not a:  # with ratios of few bits, rescaled values are halfway between two values
            a = rescaled(a, 0.25)
            b = rescaled(b, 0.25 * rng.integers(1, 1 << 7) / (1 << 7))
        # scales around the scale of the largest difference, and down to the smallest allowed scale
        largest = max(a.scale, b.scale) ** 2
        factor = 2.0 ** rng.integers(-11, 9) if number % 3 == 0 else np.exp(rng.uniform(1, 7))
        yield about, [a, b], rescaled(out, largest * factor), {}


def _pool(rng: Rng) -> Iterator[Drawn]:
    for number in range(100):
        size, attrs, about = windowed(rng, dilated=False)
        attrs.pop("_kernel")
        shape = (2 if number % 8 == 5 else 1, *size, int(rng.choice([1, 2, 3, 8, 17])))
        dtype = "int16" if number % 4 == 3 else "int8"
        x = activation("input", shape, rng, dtype=dtype)
        yield about, [x], activation("output", (), rng, dtype=dtype, quant=x.quant), attrs


def _mean(rng: Rng, dtypes: Iterable[str] = ("int8", "int16")) -> Iterator[Drawn]:
    chosen = [((1, 7, 7, 12), a) for a in ((1, 2), (2, 1), (1,), (2,), (3,), (1, 2, 3), (-1,), (-3, -2), (0,), (1, 1, 2))]
    chosen += [
        ((1, 3, 5, 4), (1, 2)),
        ((1, 16, 16, 3), (1, 2)),
        ((6, 9), (1,)),
        ((6, 9), (0,)),
        ((5, 4, 3), (0, 2)),
        ((50,), (0,)),
    ]
    chosen += [((1, 1, 1, 8), (1, 2)), ((2, 3, 4, 5, 2), (1, 3))]
    for (shape, axes), keep, dtype, factor in itertools.product(chosen, (False, True), dtypes, (1.0, None, None)):
        x, out = (activation(name, extents, rng, dtype=dtype) for name, extents in (("input", shape), ("output", ())))
        out = replace(out, quant=x.quant) if factor else rescaled(out, x.scale * np.exp(rng.uniform(-2, 2)))
        about = f"{text(shape)}-over-{'.'.join(map(str, axes))}{'-kept' if keep else ''}{'-int16' * (dtype == 'int16')}"
        yield about, [x, integers("axes", *axes)], out, {"keep_dims": keep}


def _totals(rng: Rng) -> Iterator[Drawn]:
    for about, (x, axes), out, attrs in _mean(rng, ["int8"]):
        assert x is not None and axes is not None and axes.data is not None
        elements = np.prod([x.shape[axis] for axis in {int(a) % len(x.shape) for a in axes.data}])
        yield about, [x, axes], rescaled(out, out.scale * elements ** rng.uniform(0.4, 1)), attrs


def _softmax(rng: Rng) -> Iterator[Drawn]:
    shapes = ((1, 2), (1, 10), (3, 7), (1, 1), (1, 4, 5, 3), (2, 3, 4), (12,), (1, 400), (1, 300), (1, 90, 12))
    for shape, beta, in_scale in itertools.product(shapes, (1.0, 0.3, 2.0), (None, 1e-3, 1.5, 0.25)):
        x = activation("input", shape, rng)
        x = x if in_scale is None else rescaled(x, in_scale)
        out = activation("output", (), rng, quant=Quant((1 / 256,), (-128,)))
        yield f"{text(shape)}-beta{beta}-scale{x.scale:.3g}", [x], out, {"beta": float(np.float32(beta))}
    for shape in shapes:
        out = activation("output", (), rng, dtype="int16", quant=Quant((2.0**-16,), (-32768,)))
        yield f"{text(shape)}-to-int16", [activation("input", shape, rng)], out, {"beta": 1.0}


def _wide_softmax(rng: Rng) -> Iterator[Drawn]:
    yield from _softmax(rng)
    for shape, beta, scale in itertools.product(
        ((1, 2), (1, 10), (1, 4, 5, 3), (12,), (1, 400)), (1.0, 0.3), (1e-4, 1e-3, 0.02)
    ):
        x = rescaled(activation("input", shape, rng, dtype="int16"), scale * rng.uniform(0.5, 2))
        out = activation("output", (), rng, dtype="int16", quant=Quant((2.0**-15,), (0,)))
        yield f"{text(shape)}-beta{beta}-scale{x.scale:.3g}-int16", [x], out, {"beta": float(np.float32(beta))}


def _sigmoid(quant: Quant | None = None) -> Callable[[Rng], Iterator[Drawn]]:
    """Return a generator of logistic or tanh: int8 with outputs of this scale, then int16 of any scale and of powers of 2."""

    def drawn(rng: Rng) -> Iterator[Drawn]:
        yield from _table(rng, quant)
        for number in range(24):
            scale = 2.0 ** (-9 - number % 6) if number % 2 else float(np.exp(rng.uniform(-12, -3)))
            x = rescaled(activation("input", (1, 16, 32), rng, dtype="int16"), scale)
            out = activation("output", (), rng, dtype="int16", quant=Quant((2.0**-15,), (0,)))
            yield f"scale{x.scale:.3g}-int16", [x], out, {}

    return drawn


def _log_softmax(rng: Rng) -> Iterator[Drawn]:
    shapes = ((1, 2), (1, 10), (3, 7), (1, 1), (1, 4, 5, 3), (2, 3, 4), (12,), (1, 400), (1, 300))
    for shape, in_scale in itertools.product(shapes, (None, None, None, 1e-3, 0.05, 0.1, 1.5, 0.25)):
        x = activation("input", shape, rng)
        x = x if in_scale is None else rescaled(x, in_scale)
        yield f"{text(shape)}-scale{x.scale:.3g}", [x], activation("output", (), rng, quant=Quant((1 / 16,), (127,))), {}


def _relu(rng: Rng) -> Iterator[Drawn]:
    for number in range(40):
        x, out = activation("input", (1, 4, 5, 13), rng), activation("output", (), rng)
        if number % 2:
            out = rescaled(out, x.scale * (2.0 ** rng.integers(-1, 3) if number % 4 == 1 else rng.uniform(0.3, 1.5)))
        yield f"{x.scale:.3g}to{out.scale:.3g}", [x], out, {}


def _table(rng: Rng, out_quant: Quant | None = None) -> Iterator[Drawn]:
    for _ in range(60):
        x = activation("input", (1, 16, 32), rng)
        out = activation("output", (), rng, quant=out_quant)
        yield f"scale{x.scale:.3g}", [x], out, {}


def _sqrt(rng: Rng) -> Iterator[Drawn]:
    for number, (about, (x,), out, attrs) in enumerate(_table(rng)):
        assert x is not None
        x = replace(x, quant=Quant((x.scale,), (-128,)))
        yield about, [x], rescaled(out, (255 * x.scale) ** 0.5 / 255 if number % 2 else out.scale), attrs


def _neg(rng: Rng) -> Iterator[Drawn]:
    for about, (x,), out, attrs in _table(rng):
        assert x is not None and x.quant is not None
        x = replace(x, quant=Quant(x.quant.scale, (max(x.zero_point, -127),)))
        yield f"{about}-{x.zero_point}", [x], replace(out, quant=Quant((x.scale,), (-x.zero_point,))), attrs


DOMAINS = {  # kind -> open interval outside of which it is infinite, undefined or very steep
    **dict.fromkeys(("acos", "asin", "atanh"), (-1.0, 1.0)),
    **dict.fromkeys(("cosh", "exp2", "expm1", "sinh"), (-4.0, 4.0)),
    **dict.fromkeys(("log", "log10", "log2", "power", "reciprocal", "rsqrt", "sqrt"), (0.0, inf)),
    "acosh": (1.0, inf),
    "log1p": (-1.0, inf),
    "sinc": (-inf, inf),
    "tan": (-1.5707, 1.5707),
}
# attributes of functions -> drawn values
NUMBERS: dict[str, tuple[float, ...]] = {
    "alpha": (0.3, 1.0, 1.6732632423543772),
    "beta": (0.5, 1.0, 3.0),
    "bias": (0.0, 0.5, 0.7),
    "exponent": (-2.0, -1.5, 0.25, 3.0, 4.0),
    "input_scale": (0.5, 1.0, 1.3),
    "lambd": (0.0, 0.5, 1.0),
    "scale": (1.0, 1.0507009873554805),
    "threshold": (-0.5, 0.1, 1.0, 20.0),
    "value": (-1.0, 0.0, 2.0),
}


def numbers(kind: str, rng: Rng) -> dict[str, float]:
    """Return attributes of a unary function."""
    return {name: float(np.float32(rng.choice(NUMBERS[name]))) for name in SPECS[kind].numbers}


def _function(kind: str) -> Callable[[Rng], Iterator[Drawn]]:
    def drawn(rng: Rng) -> Iterator[Drawn]:
        for about, operands, out, _ in _table(rng):
            attrs = numbers(kind, rng)
            yield "-".join([about, *(f"{value:.3g}" for value in attrs.values())]), operands, out, attrs

    return drawn


def _lookup(rng: Rng) -> Iterator[Drawn]:
    for about, (x,), out, attrs in _table(rng):
        yield about, [x, constant("table", rng.integers(-128, 128, 256).astype(np.int8))], out, attrs


def _gelu(rng: Rng) -> Iterator[Drawn]:
    for number, (about, operands, out, _) in enumerate(_table(rng)):
        yield f"{about}-{number % 2}", operands, out, {"approximate": bool(number % 2)}


def _rsqrt(rng: Rng) -> Iterator[Drawn]:
    for number, (about, (x,), out, attrs) in enumerate(_table(rng)):
        assert x is not None
        x = replace(x, quant=Quant((x.scale,), (-128,)))
        reach = rng.choice([1, 16, 255]) / 255  # fraction of the input's steps whose root is the largest output
        scale = (reach * x.scale) ** -0.5 / 255 if number % 4 else out.scale
        yield f"{about}to{scale:.3g}", [x], rescaled(out, scale), attrs


def _quantize(rng: Rng) -> Iterator[Drawn]:
    pairs = [("float32", "int8"), ("float32", "uint8"), ("float32", "int16"), ("int8", "uint8"), ("uint8", "int8")]
    pairs += [("int8", "int8"), ("uint8", "uint8"), ("int16", "int8"), ("int16", "int16"), ("int8", "int16")]
    for source, target in pairs:
        for number in range(12):
            x, out = activation("input", (1, 8, 9, 3), rng, dtype=source), activation("output", (), rng, dtype=target)
            if number == 0 and {source, target} == {"int8", "uint8"}:  # the usual change of sign
                x = replace(x, quant=Quant((0.5,), (-128 if source == "int8" else 0,)))
                out = replace(out, quant=Quant((0.5,), (-128 if target == "int8" else 0,)))
            yield f"{source}to{target}", [x], out, {}
    for source, target in (("int32", "int16"), ("int32", "int8"), ("int16", "int32")):
        for _ in range(8):
            x, out = activation("input", (1, 8, 9, 3), rng, dtype=source), activation("output", (), rng, dtype=target)
            # from wide to narrow by less than 1, since 32 bits may not overflow; from narrow to wide by more
            ratio = np.exp2(rng.uniform(-20, -1) if source == "int32" else rng.uniform(0, 14))
            yield f"{source}to{target}", [x], rescaled(out, x.scale / ratio), {}


def _cast(rng: Rng) -> Iterator[Drawn]:
    types = ("int8", "uint8", "int16", "int32", "int64", "float32")
    for source, target in itertools.product(types, (*types, "bool")):
        yield f"{source}to{target}", [Tensor("input", (1, 5, 7, 3), source)], Tensor("output", (), target), {}


def _dequantize(rng: Rng) -> Iterator[Drawn]:
    for source, _ in itertools.product(("int8", "uint8", "int16"), range(10)):
        yield source, [activation("input", (1, 8, 9, 3), rng, dtype=source)], Tensor("output", (), "float32"), {}


def _resize_bilinear(rng: Rng) -> Iterator[Drawn]:
    for _ in range(3):
        quant = activation("x", (), rng).quant
        yield from resize(rng, iter([lambda name, shape, quant=quant: Tensor(name, shape, "int8", quant)]))  # type: ignore[misc]


def _leaky_relu(rng: Rng) -> Iterator[Drawn]:
    for number in range(64):
        dtype = "int16" if number % 4 == 3 else "int8"
        x, out = activation("input", (1, 4, 5, 13), rng, dtype=dtype), activation("output", (), rng, dtype=dtype)
        if number % 2:
            out = rescaled(out, x.scale * (2.0 ** rng.integers(-1, 3) if number % 4 == 1 else rng.uniform(0.3, 1.5)))
        alpha = float(np.float32(rng.choice([0.1, 0.3, 0.01, 0.5, 1.0, 0.0, 2.0, -0.2])))
        yield f"{dtype}-{x.scale:.3g}to{out.scale:.3g}-alpha{alpha:.3g}", [x], out, {"alpha": alpha}
    for dtype in ("int8", "int8", "int8", "int16"):  # halves; LiteRT rounds halves of a negative slope down
        x = activation("input", (1, 4, 5, 13), rng, dtype=dtype)
        yield f"{dtype}-alpha-0.5", [x], rescaled(activation("output", (), rng, dtype=dtype), x.scale), {"alpha": -0.5}


def _prelu(rng: Rng) -> Iterator[Drawn]:
    pairs = [((1, 4, 5, 3), (1, 1, 3)), ((1, 4, 5, 3), (1, 1, 1, 3)), ((1, 4, 5, 3), (1,)), ((1, 4, 5, 3), (4, 5, 3))]
    pairs += [((1, 4, 5, 3), (1, 5, 1)), ((7, 6), (6,)), ((2, 3, 4), (1, 4)), ((30,), (30,))]
    for number in range(48):
        shape, slopes = pairs[number % len(pairs)]
        x, alpha, out = activation("input", shape, rng), activation("alpha", slopes, rng), activation("output", (), rng)
        if number % 3:
            out = rescaled(out, x.scale * (2.0 ** rng.integers(-1, 3) if number % 3 == 1 else rng.uniform(0.3, 1.5)))
        if number % 5:
            alpha = constant("alpha", rng.integers(-128, 128, slopes).astype(np.int8), alpha.quant)
        yield f"{text(shape)}-{text(slopes)}", [x, alpha], out, {}


def _hard_swish(rng: Rng) -> Iterator[Drawn]:
    for number in range(80):
        x, out = activation("input", (1, 16, 32), rng), activation("output", (), rng)
        if number % 2:
            out = rescaled(out, x.scale * rng.uniform(0.3, 1.5))
        out = rescaled(out, max(out.scale, x.scale / 100))
        yield f"{x.scale:.3g}to{out.scale:.3g}", [x], out, {}


def _extremum(rng: Rng) -> Iterator[Drawn]:
    for number in range(66):
        first, second = SHAPE_PAIRS[number % len(SHAPE_PAIRS)]
        a, out = activation("a", first, rng), activation("output", (), rng)
        b = replace(a, name="b", shape=second)
        if number % 3:
            b = constant("b", rng.integers(-128, 128, second).astype(np.int8), b.quant)
        if number % 11 == 7:
            b = a
        yield f"{text(a.shape)}-{text(b.shape)}", [a, b], replace(out, quant=a.quant), {}


def _reduce(rng: Rng) -> Iterator[Drawn]:
    for about, operands, out, attrs in _mean(rng, ["int8"]):
        assert operands[0] is not None
        yield about, operands, replace(out, quant=operands[0].quant), attrs


def _reduce_prod(rng: Rng) -> Iterator[Drawn]:
    """Scales of input and output for which some products are within the range, since the factors are about 1."""
    for number, (about, (x, axes), out, attrs) in enumerate(_mean(rng, ["int8"])):
        assert x is not None
        x = replace(x, quant=Quant((float(np.float32(rng.uniform(0.008, 0.03))),), (-128, 0, 60)[number % 3 : number % 3 + 1]))
        yield about, [x, axes], rescaled(out, rng.uniform(0.005, 0.1)), attrs


def _l2_normalization(rng: Rng) -> Iterator[Drawn]:
    for number, shape in enumerate(((1, 2), (1, 10), (3, 7), (1, 1), (1, 4, 5, 3), (2, 3, 4), (12,), (2, 400)) * 5):
        x = activation("input", shape, rng)
        out = activation("output", (), rng, quant=Quant((1 / 128,), (0,)))
        yield f"{text(shape)}-zero{x.zero_point}-{number}", [x], out, {"activation": "none"}


def _arg_max(rng: Rng) -> Iterator[Drawn]:
    chosen = [
        ((1, 4, 5, 3), (3, -1, 1, 2, 0)),
        ((1, 70), (1, 0)),
        ((33,), (0,)),
        ((1, 12, 10, 60), (-1, 2)),
        ((2, 90, 4), (1, -1)),
    ]
    for dtype in ("int32", "int64"):
        for shape, places in chosen:
            for axis in places:
                operands = [activation("input", shape, rng), constant("axis", np.array(axis, np.int32))]
                yield f"{text(shape)}-at{axis}-{dtype}", operands, Tensor("output", (), dtype), {}


def _topk_v2(rng: Rng) -> Iterator[Any]:
    """Rows with many equal elements, and k up to all of a row."""
    shapes = ((1, 70), (5,), (3, 1), (2, 4, 9), (1, 3, 4, 20), (1, 300))
    for shape, repeated in itertools.product(shapes, (False, True)):
        for k in {1, min(2, shape[-1]), shape[-1] // 2 + 1, shape[-1]}:
            x = activation("input", shape, rng)
            operands = [x, constant("k", np.array([k] if repeated else k, np.int32))]
            yield f"{k}-of-{text(shape)}", operands, [Tensor("values", (), "int8", x.quant), Tensor("indices", (), "int32")], {}


def _compare(rng: Rng) -> Iterator[Drawn]:
    """Scales above and below 1/256, equal ones, and the largest that are allowed; many operands have equal values."""
    for number, (about, (a, b), _, _) in enumerate(_add(rng)):
        assert a is not None and b is not None
        if number % 4 == 1 and b is not a and b.data is None:
            b = replace(b, quant=a.quant)
        if number % 4 == 2 and b is not a:
            a, b = rescaled(a, float(rng.uniform(0.5, 0.999))), rescaled(b, 2.0**-9)
        yield about, [a, b], Tensor("output", (), "bool"), {}


def _logical(rng: Rng) -> Iterator[Drawn]:
    for number, (first, second) in enumerate(SHAPE_PAIRS * 2):
        a, b = Tensor("a", first, "bool"), Tensor("b", second, "bool")
        if number % 3 == 1:
            b = constant("b", rng.integers(0, 2, second).astype(bool))
        yield f"{text(first)}-{text(second)}", [a, b], Tensor("output", (), "bool"), {}


def _logical_not(rng: Rng) -> Iterator[Drawn]:
    for shape in ((1, 4, 5, 3), (2, 3), (70,), (), (1, 9, 8, 1), (4, 4, 4), (1, 1), (2, 1, 3, 1, 2)):
        yield text(shape), [Tensor("input", shape, "bool")], Tensor("output", (), "bool"), {}


def _reduce_bools(rng: Rng) -> Iterator[Drawn]:
    for about, (x, axes), _, attrs in itertools.islice(_mean(rng, ["int8"]), 0, None, 3):
        assert x is not None
        yield about, [Tensor("input", x.shape, "bool"), axes], Tensor("output", (), "bool"), attrs


def _select(rng: Rng) -> Iterator[Drawn]:
    shapes = [((1, 4, 5, 3), (1, 4, 5, 3), (1, 4, 5, 3)), ((1, 4, 5, 1), (1, 4, 5, 3), (1, 1, 1, 3)), ((4, 1), (4, 6), (6,))]
    shapes += [((7,), (7,), (7,)), ((2, 1, 3, 1), (1, 4, 1, 5), (2, 4, 3, 5)), ((1,), (3, 4), (3, 4)), ((3, 4), (1, 1), (1,))]
    for dtype, (condition, first, second) in itertools.product(("int8", "int8", "float32", "bool", "int16"), shapes):
        quant = activation("a", (), rng, dtype=dtype).quant if dtype != "bool" else None
        a, b = (Tensor(name, shape, dtype, quant) for name, shape in (("a", first), ("b", second)))
        if dtype == "int8" and rng.integers(2):
            b = constant("b", rng.integers(-128, 128, second).astype(np.int8), quant)
        given = Tensor("condition", condition, "bool")
        if dtype == "float32":
            given = constant("condition", rng.integers(0, 2, condition).astype(bool))
        yield f"{text(condition)}-{text(first)}-{text(second)}-{dtype}", [given, a, b], Tensor("output", (), dtype, quant), {}
    quant = activation("a", (), rng).quant
    given, filled = (
        constant("condition", rng.integers(0, 2, (5, 3)).astype(bool)),
        constant("a", np.array([-7], np.int8), quant),
    )
    operands = [given, filled, Tensor("b", (1, 4, 5, 3), "int8", quant)]
    yield "constant-condition-and-value", operands, Tensor("output", (), "int8", quant), {}


FUNCTIONS = [kind for kind, spec in SPECS.items() if spec.family == "unary"]
GENERATORS: dict[str, Callable[[Rng], Iterator[Drawn]]] = {
    **{kind: _function(kind) for kind in FUNCTIONS},  # kinds with their own scales or attributes have a row below
    "add": _sum,
    **dict.fromkeys(COMPARISONS, _compare),
    "arg_max": _arg_max,
    "arg_min": _arg_max,
    "topk_v2": _topk_v2,
    "average_pool_2d": _pool,
    "cast": _cast,
    "dequantize": _dequantize,
    "div": _div,
    "gelu": _gelu,
    "hard_swish": _hard_swish,
    "l2_normalization": _l2_normalization,
    "leaky_relu": _leaky_relu,
    "logical_and": _logical,
    "logical_not": _logical_not,
    "logical_or": _logical,
    "log_softmax": _log_softmax,
    "lookup": _lookup,
    "logistic": _sigmoid(Quant((1 / 256,), (-128,))),
    "max_pool_2d": _pool,
    "maximum": _extremum,
    "mean": _mean,
    "minimum": _extremum,
    "mul": _product,
    "neg": _neg,
    "prelu": _prelu,
    "quantize": _quantize,
    "reduce_all": _reduce_bools,
    "reduce_any": _reduce_bools,
    "reduce_prod": _reduce_prod,
    "reduce_max": _reduce,
    "reduce_min": _reduce,
    "relu": _relu,
    "select_v2": _select,
    "relu6": _relu,
    "relu_n1_to_1": _relu,
    "resize_bilinear": _resize_bilinear,
    "rsqrt": _rsqrt,
    "softmax": _wide_softmax,
    "sqrt": _sqrt,
    "squared_difference": _squared_difference,
    "sub": _sum,
    "sum": _totals,
    "tanh": _sigmoid(),
}
