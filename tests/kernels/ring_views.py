"""Run every kernel that takes views on random row chunks and column strips, with line buffers of the least height.

`python -m kernels.ring_views LIBRARY SEED`, run in the folder of tests, raises if a byte differs from the kernel's run on whole
maps or if a byte outside of the output changes. It is a separate program so that the library can be built with sanitizers.
Parameter structs are read from the headers. The bytes around the data are random, so a kernel that reads them differs too.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kernels.ring_calls import Call, Operand, Rng, Shape, Span, Trial, build, check, conv, values

from tinyweave.kernels.geometry import repeated
from tinyweave.kernels.table import BY_NAME, FILES
from tinyweave.ops import resize


def operand(rng: Rng, shape: Shape, reads: Callable[[Span], Span] = lambda span: span) -> Operand:
    return Operand(shape, values(rng, shape).view(np.uint8), reads)


def quantised(rng: Rng) -> dict[str, int]:
    return {"in_zero": int(rng.integers(-128, 128)), "out_zero": int(rng.integers(-128, 128)), "out_min": -120, "out_max": 117}


def clipped(windows: tuple[int, int], size: int, *, stride: int, pad: int, extent: int) -> tuple[int, int]:
    """Return the input rows (or columns) that windows first .. end - 1 read."""
    first, end = windows
    low, high = max(first * stride - pad, 0), min((end - 1) * stride - pad + extent, size)
    return (low, high) if low < high else (0, 0)


Size = tuple[int, int]


def windowed(
    rng: Rng,
    c: int,
    dilated: bool,
    *,
    kernel: Size | None = None,
    stride: Size | None = None,
    room: int = 9,
    padded: bool = True,
    columns: int | None = None,
    beyond: int = 0,
) -> tuple[dict[str, Any], Shape, Shape, Callable[[Span], Span]]:
    """Return a random window, or one of the given kernel and stride.

    The map is larger than the window by less than `room`; with `columns` it has this many columns. Padding is less than the
    kernel plus `beyond`, so that whole windows of a convolution may be in the padding.
    """
    kernel, stride = (given or tuple(rng.integers(1, 5, 2).tolist()) for given in (kernel, stride))
    dilation = tuple(rng.integers(1, 3, 2).tolist()) if dilated else (1, 1)
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    most = kernel[0] + beyond, kernel[1] + (0 if columns else beyond)
    pad = tuple(int(rng.integers(0, k)) for k in most)
    h, w = (int(rng.integers(e, e + room)) for e in extent)
    w = columns or w
    after = tuple(int(rng.integers(0, k)) for k in most)
    pad, after = (pad, after) if padded else ((0, 0), (0, 0))
    out_h, out_w = ((s + p + a - e) // t + 1 for s, p, a, e, t in zip((h, w), pad, after, extent, stride, strict=True))

    def reads(span: Span) -> Span:
        axes = zip(((span.top, span.bottom), (span.left, span.right)), (h, w), stride, pad, extent, strict=True)
        rows, columns = (clipped(windows, size, stride=s, pad=p, extent=e) for windows, size, s, p, e in axes)
        return Span(*rows, *columns)

    geometry = {"kernel": kernel, "stride": stride, "pad": pad} | ({"dilation": dilation} if dilated else {})
    return geometry, (h, w, c), (out_h, out_w, 0), reads


def offset(rng: Rng, trial: Trial, inner: str) -> Trial:
    """Return a trial whose weights have a zero point."""
    (call,) = trial.calls
    params = build(f"{type(call.params).__name__}_offset", **{inner: call.params, "weights_zero": int(rng.integers(-128, 128))})
    return Trial([Call(f"{call.kernel}_offset", params, call.inputs)], trial.inputs, trial.out, trial.keep)


def convolution(rng: Rng, depthwise: bool, **chosen: Any) -> Trial:
    """Return a trial of a random convolution, or one of the given kernel and stride."""
    groups, group_in, group_out = (int(n) for n in rng.integers(1, (4, 7, 8)))
    groups, group_in = (groups * group_in, 1) if depthwise else (groups, group_in)
    if depthwise and rng.integers(2):
        group_out = 1
    geometry, inside, outside, reads = windowed(rng, groups * group_in, True, **chosen)
    out = (*outside[:2], groups * group_out)
    kernel = geometry["kernel"]
    weights = values(rng, (out[2] * kernel[0] * kernel[1] * group_in,))
    bias, multiplier = (
        rng.integers(-1000, 1000, out[2]).astype(np.int32),
        rng.integers(1 << 30, 1 << 31, out[2]).astype(np.int32),
    )
    shift = rng.integers(-9, 2, out[2]).astype(np.int8)
    keep = (weights, bias, multiplier, shift)
    tables = {"weights": weights, "bias": bias if rng.integers(4) else None, "multiplier": multiplier, "shift": shift}
    params = conv(groups, tables, **geometry, **quantised(rng), **{"in": inside, "out": out})
    name = "tw_depthwise_conv_2d_s8" if depthwise else "tw_conv_2d_s8"
    return Trial([Call(name, params, (0,))], [operand(rng, inside, reads)], out, keep)


def with_int4_weights(trial: Trial) -> Trial:
    """Return the trial with its weights read as two per byte; there are more weights than needed."""
    (call,) = trial.calls
    return Trial([Call(f"{call.kernel}_w4", call.params, call.inputs)], trial.inputs, trial.out, trial.keep)


def transpose_conv(rng: Rng) -> Trial:
    kernel, stride = (tuple(int(n) for n in rng.integers(1, 6, 2)) for _ in range(2))
    h, w, depth, channels = (int(n) for n in rng.integers(1, (7, 7, 6, 8)))
    pad = tuple(int(rng.integers(0, k)) for k in kernel)
    reach = [(e - 1) * s + k - p for e, s, k, p in zip((h, w), stride, kernel, pad, strict=True)]
    out = (*(max(1, extent + int(rng.integers(-1, 3))) for extent in reach), channels)

    def met(first: int, end: int, axis: int) -> tuple[int, int]:
        """The inputs whose windows reach the outputs first .. end - 1."""
        s, k, p = stride[axis], kernel[axis], pad[axis]
        reached = [i for i in range((h, w)[axis]) if i * s - p < end and first < i * s - p + k]
        return (reached[0], reached[-1] + 1) if reached else (0, 0)

    def reads(span: Span) -> Span:
        (top, bottom), (left, right) = met(span.top, span.bottom, 0), met(span.left, span.right, 1)
        return Span(top, bottom, left, right) if top < bottom and left < right else Span(0, 0, 0, 0)

    weights = values(rng, (channels * kernel[0] * kernel[1] * depth,))
    bias, multiplier = (rng.integers(low, high, channels).astype(np.int32) for low, high in ((-999, 999), (1 << 30, 1 << 31)))
    shift = rng.integers(-9, 2, channels).astype(np.int8)
    tables = {"weights": weights, "bias": bias if rng.integers(4) else None, "multiplier": multiplier, "shift": shift}
    geometry = {"kernel": kernel, "stride": stride, "pad": pad, "dilation": (1, 1)}
    params = conv(1, tables, **geometry, **quantised(rng), **{"in": (h, w, depth), "out": out})
    call = Call("tw_transpose_conv_s8", params, (0,))
    return Trial([call], [operand(rng, (h, w, depth), reads)], out, (weights, bias, multiplier, shift))


def resize_nearest(rng: Rng, channels: int = 0) -> Trial:
    """Return a trial of a random resize, or one of this number of channels."""
    inside, out = (tuple(int(n) for n in rng.integers(1, 12, 2)) for _ in range(2))
    channels = channels or int(rng.integers(1, 6))
    rows, cols = (np.sort(rng.integers(0, size, count)).astype(np.int32) for size, count in zip(inside, out, strict=True))

    def reads(span: Span) -> Span:
        shown = rows[span.top : span.bottom], cols[span.left : span.right]
        return Span(*(int(edge) for at in shown for edge in (at[0], at[-1] + 1)))

    params = build("tw_resize_nearest", row=rows, col=cols, **{"in": (*inside, channels), "out": (*out, channels)})
    call = Call("tw_resize_nearest_neighbor_s8", params, (0,))
    return Trial([call], [operand(rng, (*inside, channels), reads)], (*out, channels), (rows, cols))


def resize_bilinear(rng: Rng, name: str) -> Trial:
    inside, out = (tuple(int(n) for n in rng.integers(1, 12, 2)) for _ in range(2))
    channels, centers = int(rng.integers(1, 6)), bool(rng.integers(2))
    places = [resize.line(size, wanted, False, centers) for size, wanted in zip(inside, out, strict=True)]

    def reads(span: Span) -> Span:
        edges = []
        for (first, end), place, size in zip(((span.top, span.bottom), (span.left, span.right)), places, inside, strict=True):
            low, high = (max(index * place.scale + place.offset, 0) for index in (first, end - 1))
            edges += [low // 1024, min(-(-high // 1024), size - 1) + 1]
        return Span(*edges)

    shapes = {"in": (*inside, channels), "out": (*out, channels)}
    if name == "tw_resize_bilinear_s8":
        scale, offset = (tuple(values) for values in zip(*places, strict=True))
        params = build("tw_resize_bilinear", **shapes, scale=scale, offset=offset)
    else:  # the same positions, which floats hold exactly
        scales, first = [place.scale / 1024 for place in places], 0.5 if centers else 0.0
        params = build("tw_resize_bilinear_float", **shapes, scale_h=scales[0], scale_w=scales[1], first=first)
    call = Call(name, params, (0,))
    return Trial([call], [operand(rng, (*inside, channels), reads)], (*out, channels))


def pool(rng: Rng, kernel: str) -> Trial:
    channels = int(rng.integers(1, 7))
    geometry, inside, outside, reads = windowed(rng, channels, False)
    out = (*outside[:2], channels)
    params = build(
        "tw_pool",
        **geometry,
        **{"in": inside, "out": out, "out_min": -100, "out_max": 100, "away_from": -128 * int(rng.integers(2))},
    )
    # every window must contain a part of the map
    empty = any(
        (extent - 1) * stride - pad >= size
        for extent, stride, pad, size in zip(out[:2], geometry["stride"], geometry["pad"], inside[:2], strict=True)
    )
    return pool(rng, kernel) if empty else Trial([Call(kernel, params, (0,))], [operand(rng, inside, reads)], out)


def mean(rng: Rng, columns: int = 6, channels: int = 6) -> Trial:
    """Return a trial of a mean over the columns of each row, with at most `columns` columns and `channels` channels."""
    h, w, c = (int(n) for n in rng.integers(1, (7, columns + 1, channels + 1)))
    scaling = {"multiplier": int(rng.integers(1 << 30, 1 << 31)) // w, "shift": int(rng.integers(-1, 2))}
    zeros = {"in_zero": int(rng.integers(-128, 128)), "out_zero": int(rng.integers(-128, 128))}
    params = build("tw_mean", kept=(h, c, 1), reduced=(w, 1), **zeros, **scaling)

    def reads(span: Span) -> Span:
        return Span(span.top, span.bottom, 0, w if span.left < span.right else 0)

    return Trial([Call("tw_mean_s8", params, (0,))], [operand(rng, (h, w, c), reads)], (h, 1, c))


def fully_connected(rng: Rng) -> Trial:
    h, w, depth, units = (int(n) for n in rng.integers(1, (3, 4, 40, 11)))
    per_channel = int(rng.integers(2))
    weights, bias = values(rng, (units * depth,)), rng.integers(-1000, 1000, units).astype(np.int32)
    multiplier, shift = rng.integers(1 << 62, (1 << 63) - 1, units), rng.integers(-12, 0, units).astype(np.int8)
    rescale = {"multiplier": multiplier, "shift": shift, "per_channel": per_channel}
    layer = build("tw_dense", **{"in": (h, w, depth), "out": (h, w, units)}, **rescale, **quantised(rng))
    params = build("tw_fully_connected", layer=layer, weights=weights, bias=bias)
    keep = (weights, bias, multiplier, shift)
    return Trial([Call("tw_fully_connected_s8", params, (0,))], [operand(rng, (h, w, depth))], (h, w, units), keep)


def matmul(rng: Rng) -> Trial:
    """Return a trial of a product of each row with a matrix, which is the same for all rows or differs from row to row."""
    h, cols, depth = (int(n) for n in rng.integers(1, (7, 15, 40)))
    is_shared, turned = bool(rng.integers(2)), bool(rng.integers(2))
    matrices = 1 if is_shared else h
    params = build(
        "tw_batch_matmul",
        **{"rows": 1, "cols": cols, "depth": depth, "batch": (1, 1, h)},
        **{"a_batch": repeated((h,), depth), "b_batch": repeated((matrices,), depth * cols)},
        **{"a_row": depth, "a_step": 1, "b_col": depth if turned else 1, "b_step": 1 if turned else cols},
        **{f"{name}_zero": int(rng.integers(-128, 128)) for name in ("a", "b", "out")},
        **{"multiplier": int(rng.integers(1 << 30, 1 << 31)), "shift": -int(rng.integers(2, 12)), "once": 0},
    )
    whole = (lambda span: Span(0, 1, span.left, span.right)) if is_shared else (lambda span: span)
    inputs = [operand(rng, (h, 1, depth)), operand(rng, (matrices, 1, depth * cols), whole)]
    return Trial([Call("tw_batch_matmul_s8", params, (0, 1))], inputs, (h, 1, cols))


SLOPES = ("positive_multiplier", "positive_shift", "negative_multiplier", "negative_shift")


def binary(rng: Rng, name: str, channels: int = 6) -> Trial:
    """Return a trial of an op on two operands that broadcast, with at most `channels` channels."""
    out = tuple(int(n) for n in rng.integers(1, (2 if rng.integers(2) else 4, 7, 7, channels + 1)))
    sides = [tuple(1 if rng.integers(3) == 0 else extent for extent in out) for _ in range(2)]
    sides = [tuple(max(x, e if y == 1 else 1) for x, y, e in zip(sides[0], sides[1], out, strict=True)), sides[1]]

    def reads(shape: tuple[int, ...]) -> Callable[[Span], Span]:
        def rows(row: int) -> int:
            n, y = divmod(row, out[1])
            return min(n, shape[0] - 1) * shape[1] + min(y, shape[1] - 1)

        def span(wanted: Span) -> Span:
            touched = [rows(row) for row in range(wanted.top, wanted.bottom)]
            left, right = (wanted.left, wanted.right) if shape[2] > 1 else (0, 1)
            return Span(min(touched), max(touched) + 1, left, right)

        return span

    zeros = {f"{side}_zero": int(rng.integers(-128, 128)) for side in ("a", "b", "out")}
    common = {"a": sides[0], "b": sides[1], "out": out, "out_min": -128, "out_max": 100} | zeros
    if name == "tw_add_s8":
        scales = {f"{side}_multiplier": int(rng.integers(1 << 30, 1 << 31)) for side in ("a", "b", "out")} | {"b_sign": -1}
        shifts = {
            "a_shift": int(rng.integers(-3, 1)),
            "b_shift": int(rng.integers(-3, 1)),
            "out_shift": int(rng.integers(-20, -16)),
        }
        params = build("tw_add", **common, **scales, **shifts, left_shift=20)
    elif name == "tw_squared_difference_s8":
        scales = {f"{side}_multiplier": int(rng.integers(1 << 30, 1 << 31)) for side in ("a", "b", "out")}
        shifts = {f"{side}_shift": int(rng.integers(-3, 0)) for side in ("a", "b")} | {"out_shift": int(rng.integers(-28, 1))}
        params = build("tw_add", **common, **scales, **shifts, b_sign=1, left_shift=7)
    elif name == "tw_compare_s8":
        scales = {f"{side}_multiplier": int(rng.integers(1 << 30, 1 << 31)) for side in ("a", "b")}
        shifts = {f"{side}_shift": int(rng.integers(-9, 1)) for side in ("a", "b")}
        del zeros["out_zero"]
        shapes = {"a": sides[0], "b": sides[1], "out": out}
        params = build("tw_compare", **shapes, **zeros, **scales, **shifts, left_shift=8, holds=int(rng.integers(8)))
    elif name == "tw_extremum_s8":
        params = build("tw_extremum", a=sides[0], b=sides[1], out=out, larger=int(rng.integers(2)))
    elif name == "tw_prelu_s8":
        slopes = dict(zip(SLOPES, (1 << 30, 1, int(rng.integers(1 << 30, 1 << 31)), -6), strict=True))
        params = build("tw_prelu", a=sides[0], b=sides[1], out=out, **zeros, **slopes)
    else:
        params = build("tw_mul", **common, multiplier=int(rng.integers(1 << 30, 1 << 31)), shift=int(rng.integers(-9, 0)))
    inputs = [operand(rng, (s[0] * s[1], s[2], s[3]), reads(s)) for s in sides]
    return Trial([Call(name, params, (0, 1))], inputs, (out[0] * out[1], out[2], out[3]))


def elementwise(rng: Rng, name: str) -> Trial:
    h, w, c = (int(n) for n in rng.integers(1, 7, 3))
    in_bytes, out_bytes = (4 if "_f32_" in name else 1), (4 if name.endswith("_f32") else 1)
    if name.endswith("_s16"):
        in_bytes = out_bytes = 2
    shape, keep = {"shape": (h, w, c)}, ()
    if name in ("tw_lookup_s8", "tw_one_constant_s8"):
        table = values(rng, (256,))
        params, keep = build("tw_lookup", **shape, table=table), (table,)
    elif name == "tw_flip_signs":
        params = build("tw_flip", **shape)
    elif name == "tw_softmax_s8":
        params = build("tw_softmax", **shape, multiplier=1 << 30, left_shift=23, difference_min=-248)
    elif name == "tw_log_softmax_s8":
        scaling = {"multiplier": 1 << 30, "left_shift": 23, "reverse_multiplier": 1 << 30, "reverse_shift": -21}
        params = build("tw_log_softmax", **shape, **scaling, difference_min=-248)
    elif name == "tw_l2_normalization_s8":
        params = build("tw_l2_normalization", **shape, in_zero=int(rng.integers(-128, 128)))
    elif name in SIGMOIDS:
        table = np.sort(rng.integers(1 << 15, 1 << 16, 256)).astype(np.uint16)
        params, keep = build("tw_sigmoid_s16", **shape, table=table, multiplier=27307, shift=int(rng.integers(15))), (table,)
    elif name == "tw_leaky_relu_s16":
        slopes = dict(zip(SLOPES, (1 << 30, 1, int(rng.integers(1 << 30, 1 << 31)), -2), strict=True))
        params = build("tw_leaky_relu", **shape, in_zero=0, out_zero=0, **slopes)
    elif "requantize" in name:
        low = 0 if name.endswith("u8") else -128
        params = build(
            "tw_requantization", **shape, in_zero=3, out_zero=low + 100, out_min=low, out_max=low + 250,
            multiplier=int(rng.integers(1 << 30, 1 << 31)), shift=int(rng.integers(-2, 3)),
        )  # fmt: skip
    else:
        params = build("tw_quantization", **shape, scale=0.37, zero=-5 if "s8" in name else 5)
    source = operand(rng, (h, w, c * in_bytes))
    if in_bytes == 4:
        floats = rng.uniform(-60, 60, (h, w, c)).astype(np.float32)
        source = Operand(source.shape, floats.view(np.uint8), source.reads)
    return Trial([Call(name, params, (0,))], [source], (h, w, c * out_bytes), keep)


def inside(inner: tuple[int, ...], outer: tuple[int, ...], before: tuple[int, ...]) -> Callable[[Span], Span]:
    """Return a function from a range of the outer tensor to the part of the inner one at `before` that it needs."""

    def reads(span: Span) -> Span:
        rows = []
        for row in range(span.top, span.bottom):
            n, y = row // outer[1] - before[0], row % outer[1] - before[1]
            if 0 <= n < inner[0] and 0 <= y < inner[1]:
                rows.append(n * inner[1] + y)
        left, right = max(span.left - before[2], 0), min(span.right - before[2], inner[2])
        return Span(min(rows), max(rows) + 1, left, right) if rows and left < right else Span(0, 0, 0, 0)

    return reads


def pad(rng: Rng, channels: int = 0) -> Trial:
    """Return a trial of a random pad, or one of this number of channels."""
    inner = tuple(int(n) for n in rng.integers(1, (3, 6, 6, 5)))
    inner = (*inner[:3], channels or inner[3])
    before, after = (tuple(int(rng.integers(0, 3)) * int(rng.integers(2)) for _ in range(4)) for _ in range(2))
    outer = tuple(map(sum, zip(inner, before, after, strict=True)))
    params = build("tw_pad", **{"in": inner, "out": outer, "before": before, "value": int(rng.integers(-128, 128))})
    source = operand(rng, (inner[0] * inner[1], inner[2], inner[3]), inside(inner, outer, before))
    return Trial([Call("tw_pad_s8", params, (0,))], [source], (outer[0] * outer[1], outer[2], outer[3]))


def concatenation(rng: Rng) -> Trial:
    base, axis = [int(n) for n in rng.integers(1, (3, 5, 5, 5))], int(rng.integers(4))
    parts = [int(n) for n in rng.integers(1, 5, 3)]
    outer = tuple(sum(parts) if i == axis else extent for i, extent in enumerate(base))
    calls, inputs = [], []
    for index, extent in enumerate(parts):
        inner = tuple(extent if i == axis else e for i, e in enumerate(base))
        before = tuple(sum(parts[:index]) if i == axis else 0 for i in range(4))
        params = build("tw_concatenation", **{"in": inner, "out": outer, "before": before})
        calls.append(Call("tw_concatenation_s8", params, (index,)))
        inputs.append(operand(rng, (inner[0] * inner[1], inner[2], inner[3]), inside(inner, outer, before)))
    return Trial(calls, inputs, (outer[0] * outer[1], outer[2], outer[3]))


POOLS = ("tw_average_pool_2d_s8", "tw_max_pool_2d_s8")

BINARY = ("tw_add_s8", "tw_squared_difference_s8", "tw_mul_s8", "tw_div_s8", "tw_extremum_s8", "tw_compare_s8", "tw_prelu_s8")

CONVERSIONS = sorted(
    path.stem
    for path in FILES.values()
    if path.match("tw_requantize_*.c") or path.match("tw_*quantize_*f32*.c")
    if BY_NAME[path.stem].has_part and not BY_NAME[path.stem].cores
)

SIGMOIDS = ("tw_logistic_s16", "tw_tanh_s16")

ELEMENTWISE = (
    *("tw_lookup_s8", "tw_one_constant_s8", "tw_flip_signs", "tw_log_softmax_s8", "tw_leaky_relu_s16", "tw_softmax_s8"),
    *(*SIGMOIDS, "tw_l2_normalization_s8", *CONVERSIONS),
)


# kernel -> function that draws a trial of it, for each kernel that takes views
TRIALS: dict[str, Callable[[Rng], Trial]] = {
    "tw_conv_2d_s8": lambda rng: convolution(rng, False),
    "tw_depthwise_conv_2d_s8": lambda rng: convolution(rng, True),
    "tw_fully_connected_s8": fully_connected,
    "tw_batch_matmul_s8": matmul,
    "tw_conv_2d_s8_offset": lambda rng: offset(rng, convolution(rng, False), "conv"),
    "tw_depthwise_conv_2d_s8_offset": lambda rng: offset(rng, convolution(rng, True), "conv"),
    "tw_fully_connected_s8_offset": lambda rng: offset(rng, fully_connected(rng), "dense"),
    "tw_conv_2d_s8_w4": lambda rng: with_int4_weights(convolution(rng, False)),
    "tw_depthwise_conv_2d_s8_w4": lambda rng: with_int4_weights(convolution(rng, True)),
    "tw_fully_connected_s8_w4": lambda rng: with_int4_weights(fully_connected(rng)),
    **{name: partial(resize_bilinear, name=name) for name in ("tw_resize_bilinear_s8", "tw_resize_bilinear_s8_float")},
    "tw_resize_nearest_neighbor_s8": resize_nearest,
    "tw_transpose_conv_s8": transpose_conv,
    "tw_mean_s8": mean,
    "tw_pad_s8": pad,
    "tw_concatenation_s8": concatenation,
    **{name: partial(pool, kernel=name) for name in POOLS},
    **{name: partial(binary, name=name) for name in BINARY},
    **{name: partial(elementwise, name=name) for name in ELEMENTWISE},
}


def main(path: str, seed: int, count: int = 40) -> None:
    library = ctypes.CDLL(path)
    for name, draw in TRIALS.items():
        for number in range(count):
            rng = np.random.default_rng([seed, number])
            check(library, draw(rng), rng, f"{name}, seed {seed}, number {number}")


if __name__ == "__main__":
    main(str(Path(sys.argv[1])), int(sys.argv[2]))
