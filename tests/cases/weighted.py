"""Cases of ops with weights: convolutions, dense layers, matrix products, LSTM; their windows; and boxes with their anchors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyweave.ir import Quant, Tensor
from tinyweave.ops.recurrent import sequence
from tinyweave.ops.window import same_padding

from .draw import ACTIVATIONS, Drawn, Rng, activation, constant, integers, rescaled, scale, text


def _weights(rng: Rng, shape: tuple[int, ...], axis: int) -> Tensor:
    channels = shape[axis]
    data = rng.integers(-127, 128, shape).astype(np.int8)
    if rng.integers(4) == 0:
        data = rng.choice(np.array([-128, 127], np.int8), shape)
    if rng.integers(2):
        return constant("weights", data, Quant((scale(rng),), (0,)))
    base = scale(rng)
    scales = tuple(float(np.float32(base * factor)) for factor in rng.uniform(0.05, 1.0, channels))
    return constant("weights", data, Quant(scales, (0,) * channels, axis))


def _weighted(
    rng: Rng, x: Tensor, weights: Tensor, channels: int, fan_in: int, *, bias_is_optional: bool = True
) -> tuple[list[Tensor | None], Tensor]:
    """Return operands with or without a bias, and an output whose scale is 1/30 to 30 times the scale of the sums.

    In one of five cases the weights are small and all scales powers of two, so many outputs are halfway between two values.
    """
    spread = fan_in**0.5 * 75 * 75
    if rng.integers(5) == 0:
        x, weights = rescaled(x, 2.0**-4), rescaled(constant("weights", np.sign(weights.data), weights.quant), 2.0**-6)
        out = rescaled(activation("output", (), rng), 2.0 ** (-10 + rng.integers(1, 4)))
        spread = fan_in**0.5 * 75
    else:
        assert weights.quant is not None
        fitting = x.scale * max(weights.quant.scale) * spread / 60
        out = rescaled(activation("output", (), rng), fitting * np.exp(rng.uniform(-3.4, 3.4)))
    assert weights.quant is not None
    products = [float(np.float32(x.scale * s)) for s in weights.quant.scale]
    if bias_is_optional and rng.integers(4) == 0:
        return [x, weights], out
    axis = None if len(products) == 1 else 0
    data = rng.integers(int(-2 * spread), int(2 * spread), channels).astype(np.int32)
    bias = constant("bias", data, Quant(tuple(products), (0,) * len(products), axis))
    return [x, weights, bias], out


def windowed(rng: Rng, *, dilated: bool) -> tuple[tuple[int, int], dict[str, Any], str]:
    """Return (map size, attributes with SAME or VALID padding, kernel, description)."""
    kernel = tuple(int(k) for k in rng.choice([1, 2, 3, 3, 4, 5, 7], 2))
    stride = tuple(int(s) for s in rng.choice([1, 1, 2, 3], 2))
    dilation = tuple(int(d) for d in rng.choice([1, 2, 3], 2)) if dilated and rng.integers(3) == 0 else (1, 1)
    if dilation != (1, 1):
        stride = (1, 1)
    same = bool(rng.integers(2))
    least = [1 if same else (k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = tuple(int(rng.integers(low, low + 10)) for low in least)
    padding = tuple(same_padding(size[a], kernel[a], stride[a], dilation[a]) if same else (0, 0) for a in (0, 1))
    attrs = {"stride": stride, "padding": padding, "activation": str(rng.choice(ACTIVATIONS))}
    about = f"{kernel[0]}x{kernel[1]}/{stride[0]}x{stride[1]}{'-same' if same else '-valid'}-on-{size[0]}x{size[1]}"
    if dilated:
        attrs["dilation"] = dilation
        about += f"-d{dilation[0]}x{dilation[1]}"
    else:
        attrs["kernel"] = kernel
    return size, {**attrs, "_kernel": kernel}, about  # type: ignore[return-value]


def narrowed(drawn: Drawn) -> Drawn:
    """Return a case with int4 weights of about the same real values."""
    about, (x, weights, *bias), out, attrs = drawn
    assert weights is not None and weights.data is not None and weights.quant is not None
    fits = -8 <= weights.data.min() <= weights.data.max() <= 7
    by = 1 if fits else 16

    def coarser(tensor: Tensor) -> Tensor:
        assert tensor.quant is not None and tensor.data is not None
        scales = tuple(scale * by for scale in tensor.quant.scale)
        return replace(tensor, data=tensor.data // by, quant=replace(tensor.quant, scale=scales))

    operands = [x, replace(coarser(weights), dtype="int4"), *(b and coarser(b) for b in bias)]
    return f"int4-{about}", operands, out, attrs


def also_int4(draw: Callable[[Rng], Iterator[Drawn]]) -> Callable[[Rng], Iterator[Drawn]]:
    """Return a generator of the drawn cases, then half as many further cases with int4 weights."""

    def drawn(rng: Rng) -> Iterator[Drawn]:
        yield from draw(rng)
        yield from (narrowed(case) for case in itertools.islice(draw(rng), 0, None, 2) if case[1][0].dtype == "int8")  # type: ignore[union-attr]

    return drawn


@also_int4
def conv_2d(rng: Rng) -> Iterator[Drawn]:
    for number in range(120):
        size, attrs, about = windowed(rng, dilated=True)
        kernel = attrs.pop("_kernel")
        groups = int(rng.choice([1, 2, 3])) if number % 4 == 0 else 1
        group_in, out_c = int(rng.choice([1, 2, 3, 4, 5, 8, 16])), groups * int(rng.choice([1, 2, 3, 4, 8, 9]))
        x = activation("input", (2 if number % 8 == 5 else 1, *size, groups * group_in), rng)
        weights = _weights(rng, (out_c, *kernel, group_in), 0)
        operands, out = _weighted(rng, x, weights, out_c, kernel[0] * kernel[1] * group_in, bias_is_optional=False)
        yield f"{about}-{groups * group_in}to{out_c}-g{groups}", operands, out, attrs
    for depth, out_c in ((16, 4), (16, 8), (24, 32), (32, 7)):  # on one pixel, as in squeeze-and-excitation
        attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
        x, weights = activation("input", (1, 1, 1, depth), rng), _weights(rng, (out_c, 1, 1, depth), 0)
        operands, out = _weighted(rng, x, weights, out_c, depth, bias_is_optional=False)
        yield f"pixel-{depth}to{out_c}", operands, out, attrs
    yield from _conv_2d_int16(rng)
    for number in range(40):  # like those of residual networks, some on three channels like first layers
        kernel, same, size = (3, 3), number % 4 > 0, tuple(int(n) for n in rng.integers(3, 14, 2))
        depth, out_c = int(rng.choice([3, 4, 8, 12, 16, 20, 36])), int(rng.choice([1, 3, 4, 8, 9, 16]))
        stride = (2, 2) if depth == 3 else (1, 1)
        padding = tuple(same_padding(n, 3, stride[0]) if same else (0, 0) for n in size)
        attrs = {"stride": stride, "dilation": (1, 1), "padding": padding, "activation": str(rng.choice(ACTIVATIONS))}
        x, weights = activation("input", (1, *size, depth), rng), _weights(rng, (out_c, *kernel, depth), 0)
        operands, out = _weighted(rng, x, weights, out_c, 9 * depth, bias_is_optional=False)
        yield f"3x3/{stride[0]}-{'same' if same else 'valid'}-on-{size[0]}x{size[1]}-{depth}to{out_c}", operands, out, attrs
    for number in range(40):  # on pixels of whole words, to more channels
        depth, out_c, extent = 8, int(rng.choice([9, 12, 16, 24])), int(rng.choice([1, 3]))
        size = [int(n) for n in rng.integers(extent, extent + 8, 2)]
        padding = tuple(same_padding(n, extent, 1) if number % 2 else (0, 0) for n in size)
        attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": padding, "activation": "none"}
        x, weights = activation("input", (1, *size, depth), rng), _weights(rng, (out_c, extent, extent, depth), 0)
        operands, out = _weighted(rng, x, weights, out_c, extent * extent * depth, bias_is_optional=False)
        yield f"words-{number}-{extent}x{extent}-on-{size[0]}x{size[1]}-{depth}to{out_c}", operands, out, attrs
    # with int4 a tap of the second group starts in the middle of a byte, in the map and in the filter
    x, weights = activation("input", (1, 5, 6, 6), rng), _weights(rng, (8, 2, 3, 3), 0)
    operands, out = _weighted(rng, x, weights, 8, 18, bias_is_optional=False)
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 1), (1, 1)), "activation": "none"}
    yield "5x6-2x3-6to8-g2-odd", operands, out, attrs
    for depth, out_c in ((28, 1), (37, 2), (130, 2), (3, 1), (2, 3), (18, 3)):
        attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": str(rng.choice(ACTIVATIONS))}
        x, weights = activation("input", (1, 5, 4, depth), rng), _weights(rng, (out_c, 1, 1, depth), 0)
        operands, out = _weighted(rng, x, weights, out_c, depth, bias_is_optional=False)
        yield f"few-{depth}to{out_c}", operands, out, attrs
    for _ in range(12):  # a filter for each channel, as int16 depthwise convolutions become
        size, attrs, about = windowed(rng, dilated=True)
        kernel, channels = attrs.pop("_kernel"), int(rng.choice([2, 4, 5, 9]))
        x = activation("input", (1, *size, channels), rng, dtype="int16")
        weights = _weights(rng, (channels, *kernel, 1), 0)
        operands, out = weighted_int16(rng, x, weights, channels, kernel[0] * kernel[1], biases=("int64",))
        yield f"{about}-{channels}-channels-int16", operands, out, attrs


def weighted_int16(
    rng: Rng, x: Tensor, weights: Tensor, channels: int, fan_in: int, *, biases: Sequence[str] = ("int32", "int64")
) -> tuple[list[Tensor | None], Tensor]:
    """Return operands with a bias of a type in `biases`, and an output; with half of its scales some outputs saturate."""
    assert weights.quant is not None
    products = tuple(float(np.float32(x.scale * s)) for s in weights.quant.scale)
    spread = fan_in**0.5 * 75 * 19000
    out = rescaled(activation("output", (), rng, dtype="int16"), max(products) * spread / 19000 * rng.uniform(0.2, 3))
    bias = rng.integers(int(-2 * spread), int(2 * spread), channels)
    bias = bias.astype(biases[bias[0] % len(biases)])
    axis = None if len(products) == 1 else 0
    return [x, weights, constant("bias", bias, Quant(products, (0,) * len(products), axis))], out


def _conv_2d_int16(rng: Rng) -> Iterator[Drawn]:
    for number in range(40):
        size, attrs, about = windowed(rng, dilated=True)
        kernel, groups = attrs.pop("_kernel"), 2 if number % 5 == 0 else 1
        group_in, out_c = int(rng.choice([1, 3, 4, 16])), groups * int(rng.choice([1, 2, 5]))
        x, weights = (
            activation("input", (1, *size, groups * group_in), rng, dtype="int16"),
            _weights(rng, (out_c, *kernel, group_in), 0),
        )
        operands, out = weighted_int16(rng, x, weights, out_c, kernel[0] * kernel[1] * group_in)
        yield f"{about}-{groups * group_in}to{out_c}-g{groups}-int16", operands, out, attrs


@also_int4
def depthwise_conv_2d(rng: Rng) -> Iterator[Drawn]:
    for number in range(120):
        size, attrs, about = windowed(rng, dilated=True)
        kernel = attrs.pop("_kernel")
        if attrs["stride"][0] != attrs["stride"][1]:
            attrs["stride"] = (attrs["stride"][0],) * 2
            same = any(map(any, attrs["padding"])) or "-same" in about
            attrs["padding"] = tuple(
                same_padding(size[a], kernel[a], attrs["stride"][a], attrs["dilation"][a]) if same else (0, 0) for a in (0, 1)
            )
        channels, multiplier = int(rng.choice([1, 2, 3, 4, 5, 8, 17])), int(rng.choice([1, 1, 1, 2, 3]))
        x = activation("input", (3 if number % 8 == 5 else 1, *size, channels), rng)
        weights = _weights(rng, (1, *kernel, channels * multiplier), 3)
        operands, out = _weighted(rng, x, weights, channels * multiplier, kernel[0] * kernel[1])
        yield f"{about}-{channels}x{multiplier}", operands, out, attrs
    for number in range(40):  # like those of networks
        extent, stride, channels = int(rng.choice([3, 3, 5, 7])), int(rng.choice([1, 1, 2])), int(rng.choice([4, 6, 8, 17, 24]))
        size, kernel = [int(n) for n in rng.integers(extent, (12, 34))], (extent, extent)
        if number % 4 == 0:
            size, kernel = [size[1], 1], (extent + number % 3, 1)
            size[0] += 3
        padding = tuple(same_padding(n, k, stride) for n, k in zip(size, kernel, strict=True))
        x = activation("input", (1, *size, channels), rng)
        weights = _weights(rng, (1, *kernel, channels), 3)
        operands, out = _weighted(rng, x, weights, channels, kernel[0] * kernel[1])
        attrs = {"stride": (stride, stride), "padding": padding, "dilation": (1, 1), "activation": ACTIVATIONS[number % 3]}
        yield f"{kernel[0]}x{kernel[1]}/{stride}-same-on-{size[0]}x{size[1]}-{channels}", operands, out, attrs
    for number, channels in enumerate((4, 5, 7, 8, 12, 23)):  # of a column to one pixel, as in streaming calls that add a row
        height, left = int(rng.integers(1, 16)), number % 3
        x, weights = activation("input", (1, height + left, 1, channels), rng), _weights(rng, (1, height, 1, channels), 3)
        operands, out = _weighted(rng, x, weights, channels, height)
        attrs = {
            "stride": (left + 1, 1),
            "padding": ((0, 0), (0, 0)),
            "dilation": (1, 1),
            "activation": ACTIVATIONS[number % 3],
        }
        yield f"{height}x1-on-{height + left}x1-{channels}", operands, out, attrs


def transpose_conv(rng: Rng) -> Iterator[Drawn]:
    for number in range(100):
        kernel, stride = (tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5], 2)) for _ in range(2))
        h, w, depth, channels = (int(n) for n in rng.integers(1, (6, 6, 9, 10)))
        same = bool(rng.integers(2))
        size = [extent * s if same else (extent - 1) * s + k for extent, s, k in zip((h, w), stride, kernel, strict=True)]
        padding = tuple(same_padding(e, k, s) if same else (0, 0) for e, k, s in zip(size, kernel, stride, strict=True))
        batch = 2 if number % 8 == 5 else 1
        dtype = "int16" if number % 3 == 2 else "int8"
        x = activation("input", (batch, h, w, depth), rng, dtype=dtype)
        weighted = weighted_int16 if dtype == "int16" else _weighted
        operands, out = weighted(rng, x, _weights(rng, (channels, *kernel, depth), 0), channels, kernel[0] * kernel[1] * depth)
        if number % 12 == 11:
            operands.pop()
        attrs = {"stride": stride, "padding": padding, "activation": str(rng.choice(ACTIVATIONS))}
        about = f"{text(kernel)}-by{text(stride)}{'-same' if same else '-valid'}-on-{h}x{w}-{depth}to{channels}-{dtype}"
        yield about, [integers("shape", batch, *size, channels), operands[1], x, *operands[2:]], out, attrs


MATRICES = (
    ((1, 3, 5), (1, 5, 4)),
    ((4, 7), (7, 2)),
    ((2, 3, 4, 5), (2, 3, 5, 6)),
    ((2, 3, 4, 5), (1, 1, 5, 6)),
    ((3, 1, 5), (5, 6)),
    ((2, 1, 4, 33), (3, 33, 1)),
    ((1, 2, 2, 3, 4), (2, 1, 1, 4, 3)),
)


def batch_matmul(rng: Rng) -> Iterator[Drawn]:
    for (first, second), x, y, fixed in itertools.product(MATRICES, (False, True), (False, True), (False, True)):
        a = activation("a", (*first[:-2], *reversed(first[-2:])) if x else first, rng)
        b = activation("b", (*second[:-2], *reversed(second[-2:])) if y else second, rng)
        fitting = a.scale * b.scale * first[-1] ** 0.5 * 90
        out = rescaled(activation("output", (), rng), fitting * np.exp(rng.uniform(-2, 2)))
        if fixed:
            b = constant("b", rng.integers(-128, 128, b.shape).astype(np.int8), b.quant)
        about = f"{text(a.shape)}{'-turned' if x else ''}-by-{text(b.shape)}{'-turned' if y else ''}"
        yield about, [a, b], out, {"adj_x": x, "adj_y": y}


@also_int4
def fully_connected(rng: Rng) -> Iterator[Drawn]:
    for number in range(120):
        depth, units, batch = (
            int(rng.choice([1, 2, 5, 16, 33, 200])),
            int(rng.choice([1, 2, 7, 10])),
            int(rng.choice([1, 1, 3])),
        )
        keep = bool(rng.integers(2))
        shape = [(batch, depth), (1, batch, depth), (1, 1, batch, depth)][rng.integers(3)]
        if not keep and depth % 2 == 0 and number % 3 == 0:
            shape = (batch, 1, depth // 2, 2)
        x = activation("input", shape, rng)
        operands, out = _weighted(rng, x, _weights(rng, (units, depth), 0), units, depth)
        yield f"{batch}x{depth}to{units}", operands, out, {"activation": str(rng.choice(ACTIVATIONS)), "keep_num_dims": keep}
    for _ in range(30):  # more outputs than inputs
        depth, units, batch = (int(n) for n in rng.integers((2, 9, 1), (20, 40, 4)))
        x = activation("input", (batch, depth), rng)
        operands, out = _weighted(rng, x, _weights(rng, (units, depth), 0), units, depth)
        yield f"{batch}x{depth}to{units}", operands, out, {"activation": "none", "keep_num_dims": False}
    for number in range(9):  # sums that overflow the accumulator of two filters in a register
        depth, units, batch = 1200 + 101 * number, 8 + number, 1 + number % 3
        x = activation("input", (batch, depth), rng)
        operands, out = _weighted(rng, x, _weights(rng, (units, depth), 0), units, depth)
        yield f"long-{batch}x{depth}to{units}", operands, out, {"activation": "none", "keep_num_dims": False}
    for number in range(24):
        depth, units, batch = int(rng.choice([1, 2, 5, 33, 200])), int(rng.choice([1, 2, 7, 10])), int(rng.choice([1, 3]))
        x, weights = activation("input", (batch, depth), rng, dtype="int16"), _weights(rng, (units, depth), 0)
        operands, out = weighted_int16(rng, x, weights, units, depth)
        if number % 4 == 3:
            operands = operands[:2]
        attrs = {"activation": str(rng.choice(ACTIVATIONS)), "keep_num_dims": bool(number % 2)}
        yield f"{batch}x{depth}to{units}-int16", operands, out, attrs


def lstm(rng: Rng) -> Iterator[Drawn]:
    for number in range(26):
        depth, cells = int(rng.choice([1, 3, 8, 17])), int(rng.choice([1, 2, 5, 16]))
        batch, time, time_major = int(rng.choice([1, 1, 2])), int(rng.choice([1, 2, 7])), bool(rng.integers(2))
        x = activation("input", (time, batch, depth) if time_major else (batch, time, depth), rng)
        out = rescaled(activation("output", (), rng), 1 / 128 if number % 3 else rng.uniform(0.004, 0.02))
        spread = float(np.exp(rng.uniform(-1, 2)))  # spread of the gates' sums: from nearly linear to saturated

        def matrix(name: str, columns: int, source: Tensor, rows: int = cells, spread: float = spread) -> Tensor:
            scale = float(np.float32(spread / (source.scale * 75 * 75 * columns**0.5) * rng.uniform(0.5, 2)))
            return constant(name, rng.integers(-127, 128, (rows, columns)).astype(np.int8), Quant((scale,), (0,)))

        weights = [matrix(f"weights_{i}", depth, x) for i in range(4)]
        again = spread if number < 24 else 300.0  # in the last cases every step of a gate's recurrent sum changes the output
        recurrent = [matrix(f"recurrent_{i}", cells, out, spread=again) for i in range(4)]
        bias = [
            constant(f"bias_{i}", rng.integers(-9999, 9999, cells).astype(np.int32), Quant((x.scale * w.scale,), (0,)))
            for i, w in enumerate(weights)
        ]
        bias = [replace(b, quant=Quant((float(np.float32(b.scale)),), (0,))) for b in bias]
        hidden = Tensor("hidden", (batch, cells), "int8", out.quant, role="state")
        cell = Tensor("cell", (batch, cells), "int16", Quant((2.0 ** -int(rng.integers(9, 16)),), (0,)), role="state")
        operands = [x, *weights, *recurrent, None, None, None, *bias, None, None, hidden, cell, None, None, None, None]
        clip = float(rng.choice([0.0, 0.25, 10.0]))
        about = f"{batch}x{time}x{depth}to{cells}-clip{clip}{'-time-major' if time_major else ''}"
        yield about, operands, out, {"activation": "tanh", "cell_clip": clip, "time_major": time_major}


def from_initial_state(kind: str) -> Callable[[Rng], Iterator[Drawn]]:
    """Recurrent layers that start from an initial state: an input, a constant, or 0."""

    def drawn(rng: Rng) -> Iterator[Drawn]:
        gates = sequence.GATES[kind]
        for number in range(48):
            depth, cells, time = (
                int(rng.choice([1, 3, 8, 17])),
                int(rng.choice([1, 2, 4, 5, 8, 15])),
                int(rng.choice([1, 2, 7])),
            )
            attrs = {name: float(rng.integers(2)) for name in sequence.NUMBERS[kind]}
            x = activation("input", (1, time, depth), rng)
            out = rescaled(activation("output", (), rng), 1 / 128 if number % 3 else rng.uniform(0.002, 0.02))
            spread = float(np.exp(rng.uniform(-1, 2)))  # of the gates' sums: from nearly linear to saturated

            def matrix(name: str, columns: int, source: Tensor, cells: int = cells, spread: float = spread) -> Tensor:
                scales = spread / (source.scale * 75 * 75 * columns**0.5) * rng.uniform(0.2, 2, gates * cells)
                quant = Quant(tuple(map(float, scales.astype(np.float32))), (0,) * len(scales), 0)
                return constant(name, rng.integers(-127, 128, (len(scales), columns)).astype(np.int8), quant)

            again = 300.0 if number % 8 == 7 else spread  # every step of a gate's recurrent sum shows in the output
            matrices = matrix("weights", depth, x), matrix("recurrent", cells, out, spread=again)
            biases: list[Tensor | None] = []
            for name, weights, source in zip(("bias", "recurrent_bias"), matrices, (x, out), strict=True):
                assert weights.quant is not None
                scales = tuple(float(np.float32(source.scale * scale)) for scale in weights.quant.scale)
                data = rng.integers(-9999, 9999, len(scales)).astype(np.int32)
                biases.append(constant(name, data, Quant(scales, (0,) * len(scales), 0)))
            if rng.integers(2):
                biases[1] = None
            states = (
                Tensor("state", (1, cells), "int8", out.quant),
                constant("state", rng.integers(-128, 128, (1, cells)).astype(np.int8), out.quant),
                None,
            )
            cells_given: list[Tensor | None] = []
            outputs = [out]
            if kind == "stateless_lstm":
                quant = Quant((2.0 ** -int(rng.integers(9, 16)),), (0,))
                outputs.append(Tensor("cell", (1, cells), "int16", quant))
                first = rng.integers(-(2**15), 2**15, (1, cells)).astype(np.int16)
                cells_given = [
                    (Tensor("cell_0", (1, cells), "int16", quant), constant("cell_0", first, quant), None)[number % 3]
                ]
            flags = "".join(f"-{name}" for name, value in attrs.items() if value)
            about = f"{time}x{depth}to{cells}{flags}{('-state', '-constant-state', '')[number % 3]}"
            yield about, [x, *matrices, *biases, states[number % 3], *cells_given], outputs, attrs

    return drawn


def single(value: float) -> float:
    """Return the number rounded to float32, as custom options hold it."""
    return float(np.float32(value))


def anchors(rng: Rng, count: int, is_float: bool) -> Tensor:
    """Return random anchors [count, 4] of an image of side 1, as float32 or int8."""
    values = rng.uniform((0, 0, 0.05, 0.05), (1, 1, 0.5, 0.5), (count, 4)).astype(np.float32)
    if is_float:
        return constant("anchors", values)
    return constant("anchors", np.rint(values * 128 - 100).astype(np.int8), Quant((1 / 128,), (-100,)))


def _detection_postprocess(rng: Rng) -> Iterator[Drawn]:
    sizes = ((1, 1, 1), (7, 2, 3), (40, 3, 10), (90, 1, 100), (150, 5, 6))
    for (count, classes, most), by_class, is_float in itertools.product(sizes, (0.0, 1.0), (True, False)):
        columns, coordinates = classes + int(rng.integers(2)), 4 + int(rng.integers(2))
        boxes = Tensor(
            "boxes", (1, count, coordinates), "int8", Quant((single(rng.uniform(0.02, 0.2)),), (int(rng.integers(-9, 9)),))
        )
        scores = Tensor("scores", (1, count, columns), "int8", Quant((1 / 256,), (-128,)))
        outputs = [Tensor(name, (), "float32") for name in ("boxes_out", "classes_out", "scores_out", "count_out")]
        scales = {name: float(rng.choice((5, 10))) for name in ("y_scale", "x_scale", "h_scale", "w_scale")}
        attrs = {
            "max_detections": float(most),
            "max_classes_per_detection": 1.0,
            "detections_per_class": float(rng.choice((most // 2 + 1, most, 100))),
            "use_regular_nms": by_class,
            "nms_score_threshold": single(rng.choice((0, 0.3, 0.9, 2), p=(0.4, 0.3, 0.2, 0.1))),
            "nms_iou_threshold": single(rng.choice((0.1, 0.5, 0.8, 1))),
            "num_classes": float(classes),
            **scales,
        }
        about = f"{count}-anchors-{classes}-classes{'-each' * bool(by_class)}{'' if is_float else '-int8'}"
        yield about, [boxes, scores, anchors(rng, count, is_float)], outputs, attrs


GENERATORS: dict[str, Callable[[Rng], Iterator[Any]]] = {
    "batch_matmul": batch_matmul,
    "conv_2d": conv_2d,
    "depthwise_conv_2d": depthwise_conv_2d,
    "detection_postprocess": _detection_postprocess,
    "fully_connected": fully_connected,
    "gru": from_initial_state("gru"),
    "simple_rnn": from_initial_state("simple_rnn"),
    "stateless_lstm": from_initial_state("stateless_lstm"),
    "transpose_conv": transpose_conv,
    "unidirectional_sequence_lstm": lstm,
}
