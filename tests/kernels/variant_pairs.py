"""Compare every kernel for some cores only, and every compact one, with the portable kernel of its kind.

They run on random shapes, offsets, multipliers and extremes.

`python -m kernels.variant_pairs LIBRARY SEED COUNT [KERNEL ...]`, run from the folder above, raises if a byte differs; kernels
may be named. It also does for these kernels what ring_views.py does. Like that, it is a separate program so that the library
can be built with sanitizers.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from kernels import ring_calls, ring_views
from kernels.elementwise_pairs import (
    Twins,
    average_pool,
    clamp,
    extremum,
    inputs,
    max_pool,
    mean,
    prelu,
    requantize,
    softmax,
)
from kernels.int16_pairs import binary_s16, convolution_s16, fully_connected_s16, pool_s16
from kernels.product_pairs import lstm, matmul, recurrent, svdf
from kernels.ring_calls import Call, Rng, Span, Trial

from tinyweave.ir import packed
from tinyweave.kernels.dsp import dense, dense_w4, depthwise, sums, taps, winograd
from tinyweave.kernels.mve import weights as mve
from tinyweave.kernels.scalar import convolution as scalar
from tinyweave.ops.fixed_point import Rescale

RINGS_EVERY = 8
MOST_ROWS = 13  # of windows drawn for the dense kernel without scratch
STRIDES = (1, 2)  # column strides of depthwise kernels
PORTABLE = ("tw_conv_2d_s8", "tw_depthwise_conv_2d_s8")
SCALAR = ("tw_conv_2d_s8_scalar", "tw_depthwise_3x3_s8_scalar", EIGHTS := "tw_depthwise_conv_2d_s8_m3")
BY_RUNS = "tw_conv_2d_s8_lean_scalar"
FOURS = "tw_fully_connected_s8_scalar"
PIXEL = "tw_depthwise_pixel_s8_dsp"
RECURRENT = tuple(f"tw_{kind}_s8_{isa}" for kind in ("gru", "simple_rnn") for isa in ("dsp", "mve"))
LSTM = ("tw_unidirectional_sequence_lstm_s8_dsp", "tw_unidirectional_sequence_lstm_s8_mve")
SVDF = ("tw_svdf_s8_dsp", "tw_svdf_s8_mve")
MATMUL = "tw_batch_matmul_s8_dsp"
INT16: dict[str, Callable[[Rng, str], Twins | None]] = {
    f"tw_{kind}_{isa}": draw
    for kind, draw in (
        ("conv_2d_s16", convolution_s16),
        ("conv_2d_s16_channels", convolution_s16),
        ("fully_connected_s16", fully_connected_s16),
        ("mul_s16", binary_s16),
        ("max_pool_2d_s16", pool_s16),
    )
    for isa in ("dsp", "mve")
} | {"tw_add_s16_mve": binary_s16, "tw_average_pool_2d_s16_mve": pool_s16}
WHOLE = (PIXEL, *RECURRENT, *LSTM, *SVDF, *INT16)  # kernels that have no form for rows
COLUMN = ("tw_depthwise_column_s8_dsp", PIXEL)
LEAN = (
    "tw_conv_2d_s8_lean_dsp",
    *(f"tw_depthwise_{size}x{size}_s8_lean_{isa}" for size in taps.SIZES for isa in ("dsp", "m7")),
)


def weights(rng: Rng, shape: tuple[int, ...], *, int4: bool = False) -> np.ndarray:
    """Return random weights: of any value but usually not -128, small, or of the largest magnitude."""
    kind = int(rng.integers(5))
    if int4:
        return rng.choice(np.array([-8, 7], np.int8), shape) if kind == 0 else rng.integers(-8, 8, shape).astype(np.int8)
    if kind == 0:
        return rng.choice(np.array([-127, 127], np.int8), shape)
    if kind == 1:
        return rng.integers(-2, 3, shape).astype(np.int8)
    return rng.integers(-128 if kind == 2 else -127, 128, shape).astype(np.int8)


def rescales(rng: Rng, sums: int, count: int, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return multipliers and shifts that roughly spread sums of this size over int8; some are of other sizes."""
    multiplier = rng.integers(1 << 30, 1 << 31, count)
    multiplier = np.where(rng.integers(8, size=count) == 0, rng.choice([0, 1 << 30, (1 << 31) - 1], count), multiplier)
    exponent = max(sums.bit_length() - 7, 2) + rng.integers(-2, 3, count)
    shift = -np.clip(np.where(rng.integers(8, size=count) == 0, rng.integers(1, 32, count), exponent), least, 31)
    return multiplier.astype(np.int32), shift.astype(np.int8)


def meets(given: dense.Filters, requirements: Iterable[dense.FilterRequirement]) -> bool:
    """Return whether filters meet all of the requirements."""
    return all(requirement(given).met.all() for requirement in requirements)


def convolution(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials, or None if the drawn parameters are not for the kernel."""
    is_depthwise, tiled, int4, lean = (part in kernel for part in ("depthwise", "winograd", "_w4_", "_lean_"))
    of_core = "_m7" if kernel.endswith("_m7") else ""  # suffix of its functions' names
    depth, units = int(rng.integers(1, 41 if rng.integers(3) else 9)), int(rng.integers(1, 23))
    chosen: dict[str, Any] = {}
    if tiled:
        depth = -(-depth // 4) * 4
        chosen = {"kernel": (winograd.KERNEL, winograd.KERNEL), "stride": (1, 1)}
    elif not is_depthwise and rng.integers(8) == 0:
        depth, chosen = 3, {"kernel": (3, 3)}  # a first layer
    if lean:
        depth = -(-depth // 4) * 4 if not is_depthwise and rng.integers(3) == 0 else depth
        size = int(kernel.partition("x")[0][-1]) if is_depthwise else int(rng.integers(1, MOST_ROWS + 1))
        chosen = {"kernel": (size, size if is_depthwise or rng.integers(3) else int(rng.integers(1, 15)))}
    if is_depthwise and lean:
        units = depth = max(depth, taps.CHANNELS)
        chosen |= {"stride": (int(rng.integers(1, 4)), int(rng.choice(STRIDES))), "room": 9 if rng.integers(4) else 40}
    elif kernel in COLUMN:
        units = depth = max(depth, taps.CHANNELS)
        chosen = {"kernel": (int(rng.integers(1, 18)), 1), "stride": (int(rng.choice([1, 1, 2, 3])), 1)}
        chosen |= {"room": 9 if rng.integers(4) else 40, "columns": 1}
        chosen |= {"room": chosen["stride"][0], "padded": False} if kernel == PIXEL else {}
    elif is_depthwise:
        units = depth = max(depth, depthwise.PLANES)
        chosen = {"kernel": (int(rng.choice([3, int(rng.integers(1, 10))])), int(rng.choice([3, int(rng.integers(1, 18))])))}
        chosen |= {"kernel": (3, 3)} if "_3x3_" in kernel else {}
        chosen |= {"stride": (int(rng.integers(1, 4)), int(rng.integers(1, 3))), "room": 9 if rng.integers(4) else 70}
        if not depthwise.fits(*chosen["kernel"], chosen["stride"][1]):
            return None
    chosen["beyond"] = 7 * (rng.integers(8) == 0)
    geometry, inside, outside, reads = ring_views.windowed(rng, depth, False, **chosen)
    rows, cols = geometry["kernel"]
    sizes = zip(inside, outside[:2], geometry["kernel"], geometry["stride"], geometry["pad"], strict=False)
    axes = [dense.ConvolutionAxis(*of_axis) for of_axis in sizes]
    padded = any(pad > 0 or (steps - 1) * step - pad + extent > size for size, steps, extent, step, pad in axes)
    if lean and not is_depthwise and not dense.fits_lean(rows, depth, axes[1]):
        return None
    products, stride = rows * cols * (1 if is_depthwise else depth), geometry["stride"][1]
    filters, most = weights(rng, (units, products), int4=int4), int(rng.choice([0, 1000, 1 << (18 if int4 else 21)]))
    bias = rng.integers(-most, most + 1, units).astype(np.int32)
    multiplier, shift = rescales(rng, max(int(products**0.5 * (300 if int4 else 5000)), most), units)
    with_outliers = "_outliers_" in kernel
    if with_outliers and rng.integers(8):
        odd = rng.integers(4, size=units) == 0
        bias[odd] = rng.integers(-(1 << 30), 1 << 30, odd.sum())
        shift[odd] = rng.integers(-31, 31, odd.sum())
    quantised = {"in_zero": int(rng.integers(-128, 128)), **clamp(rng)}
    zero = 0 if int4 or rng.integers(2) else int(rng.integers(-128, 128))  # of the weights; those of uint8 models have one
    flat, multipliers, shifts = filters.astype(np.int64) - zero, *(part.astype(np.int64) for part in (multiplier, shift))
    given = dense.Filters(flat, bias - quantised["in_zero"] * flat.sum(axis=1), multipliers, shifts)
    paired = dense.PAIRS_EXACTLY
    exact = dense.RESCALES_EXACTLY if is_depthwise else dense_w4.EXACT if int4 else winograd.EXACT if tiled else paired
    if not with_outliers and not meets(given, exact):
        return None
    shapes = {"in": inside, "out": (*outside[:2], units), "dilation": (1, 1)}
    laid = filters.T.copy() if is_depthwise else packed(filters) if int4 else filters
    tables = {"weights": laid, "bias": bias, "multiplier": multiplier, "shift": shift}
    bare = ring_calls.build("tw_conv_shape", **geometry, **shapes, **quantised)
    portable = ring_calls.build("tw_conv", shape=bare, groups=depth if is_depthwise else 1, **tables)
    portable = ring_calls.build("tw_conv_offset", conv=portable, weights_zero=zero) if zero else portable
    if with_outliers:
        of = depthwise.stream_with_outliers
        words = of(given, rows, stride) if is_depthwise else dense.stream_with_outliers(dense.by_rows(given, rows))
    elif is_depthwise:
        words = taps.stream(given) if lean or kernel in COLUMN else depthwise.stream(given, rows, stride)
    elif lean:
        words = dense.lean_words(given, rows, cols, depth)
    else:
        words = winograd.stream(given) if tiled else (dense_w4 if int4 else dense).stream(dense.by_rows(given, rows))
    fast = ring_calls.build("tw_conv_dsp", conv=bare, stream=words, sign=-int(quantised["out_min"] < quantised["out_zero"]))
    scratch, functions = dense.scratch_of(rows, cols, depth, padded=padded), ()
    scratch = winograd.scratch_of(depth, units) if tiled else scratch
    padding: tuple[np.ndarray, ...] = ()
    if lean:
        padding = (np.full((1 if is_depthwise else cols) * depth, quantised["in_zero"], np.int8),)
        own = {"taps": None} if is_depthwise else {}
        name, scratch = "tw_depthwise_lean_dsp" if is_depthwise else "tw_conv_lean_dsp", 0
        fast = ring_calls.build(name, base=fast, **own, padding=padding[0] if padded else None)
        functions = (("taps", f"tw_taps_{rows}_{stride}{of_core}"),) if is_depthwise else ()
    elif kernel in COLUMN:
        scratch = 0
    elif is_depthwise:
        at_once = {"block": depthwise.block(outside[1], cols, stride), "rows": int(rng.integers(1, 8))}
        fast = ring_calls.build("tw_depthwise_dsp", base=fast, line=None, **at_once)
        scratch = depthwise.scratch_of(geometry["kernel"], geometry["stride"], at_once["block"], at_once["rows"])
        functions = (("line", depthwise.function(rows, cols, stride) + of_core),)
    source, plain = (
        inputs(rng, ring_views.operand(rng, inside, reads)),
        kernel.removesuffix("_dsp") if int4 else PORTABLE[is_depthwise] + "_offset" * bool(zero),
    )
    return (
        Trial([Call(plain, portable, (0,))], [source], shapes["out"], tuple(tables.values())),
        Trial([Call(kernel, fast, (0,), scratch, functions)], [source], shapes["out"], (words, *padding)),
    )


def vector_convolution(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials for MVE: sums may wrap, a multiplier of 0 has any shift, depthwise windows may be dilated."""
    is_depthwise = "depthwise" in kernel
    depth, units = int(rng.choice([1, 2, 4, 8, 16, 32, *rng.integers(1, 70, 6)])), int(rng.integers(1, 40))
    units = depth if is_depthwise else units
    chosen: dict[str, Any] = {"room": 9 if rng.integers(4) else 40}
    if rng.integers(2):
        chosen["kernel"] = (3, 3) if is_depthwise else (1, 1)
        chosen["stride"] = (1, 1) if rng.integers(2) else tuple(rng.integers(1, 3, 2).tolist())
    if rng.integers(8) == 0:
        chosen |= {"kernel": (int(rng.integers(1, 8)), 1), "columns": 1}
    chosen["padded"] = bool(rng.integers(2))
    chosen["beyond"] = 7 * (rng.integers(8) == 0)
    geometry, inside, outside, reads = ring_views.windowed(rng, depth, is_depthwise and not rng.integers(4), **chosen)
    rows, cols = geometry["kernel"]
    taps, stride = rows * cols * (1 if is_depthwise else depth), geometry["stride"][1]
    filters, most = weights(rng, (units, taps)), int(rng.choice([0, 1000, 1 << 21, (1 << 31) - 1]))
    bias = rng.integers(-most, most + 1, units).astype(np.int32)
    multiplier, shift = rescales(rng, max(int(taps**0.5 * 5000), most), units, 1)
    shift = np.where(multiplier == 0, rng.integers(-31, 2, units), shift).astype(np.int8)
    quantised = {"in_zero": int(rng.integers(-128, 128)), **clamp(rng)}
    sign = -int(quantised["out_min"] < quantised["out_zero"])
    shift = shift if sign else np.where(rng.integers(8, size=units) == 0, 0, shift).astype(np.int8)
    flat, multipliers, shifts = (part.astype(np.int64) for part in (filters, multiplier, shift))
    given = dense.Filters(flat, bias - quantised["in_zero"] * flat.sum(axis=1), multipliers, shifts)
    if is_depthwise and not mve.products_add_in_16_bits(given).met.all():
        return None
    shapes = {"in": inside, "out": (*outside[:2], units), "dilation": (1, 1)}
    tables = {"weights": filters.T.copy() if is_depthwise else filters, "bias": bias, "multiplier": multiplier, "shift": shift}
    bare = ring_calls.build("tw_conv_shape", **{**shapes, **geometry, **quantised})
    portable = ring_calls.build("tw_conv", shape=bare, groups=depth if is_depthwise else 1, **tables)
    if is_depthwise:
        words, scratch = mve.taps_stream(given, stride), mve.taps_scratch_of(rows, cols, depth)
        fast = ring_calls.build("tw_depthwise_mve", conv=bare, stream=words, sign=sign)
    else:
        words, scratch = mve.stream(given), mve.scratch_of(rows, cols, depth)
        fast = ring_calls.build(
            "tw_conv_mve", conv=bare, stream=words, sign=sign, windows=mve.windows_at_once(rows, cols, depth)
        )
    source = inputs(rng, ring_views.operand(rng, inside, reads))
    return (
        Trial([Call(kernel.removesuffix("_mve"), portable, (0,))], [source], shapes["out"], tuple(tables.values())),
        Trial([Call(kernel, fast, (0,), scratch)], [source], shapes["out"], (words,)),
    )


def leanest(geometry: dict[str, Any], inside: Sequence[int], outside: Sequence[int], depth: int) -> int:
    """Return the scratch of BY_RUNS: a list of rows of two windows, or of taps and zero points for windows in the padding."""
    sides = zip(inside, outside, geometry["kernel"], geometry["stride"], geometry["pad"], strict=False)
    if any(pad or (count - 1) * stride + size > extent for extent, count, size, stride, pad in sides):
        return 8 * int(np.prod(geometry["kernel"])) + depth
    return 8 * geometry["kernel"][0]


def scalar_convolution(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials for cores without DSP: sums may wrap, the bias may be missing."""
    is_depthwise, room = "depthwise" in kernel, 9 if rng.integers(4) else 40
    depth = int(rng.integers(1, 41 if rng.integers(3) else 9))
    depth = max(depth, scalar.CHANNELS) if kernel == EIGHTS else depth + depth % 2 * (kernel == BY_RUNS)
    units, chosen = depth if is_depthwise else int(rng.integers(1, 28)), dict[str, Any]()
    if is_depthwise and (kernel != EIGHTS or rng.integers(2)):
        chosen = {"kernel": (scalar.SIDE,) * 2, "stride": (int(rng.integers(1, 4)), int(rng.choice(STRIDES)))}
    elif rng.integers(3) == 0:
        chosen = {"kernel": (1, 1)}
    chosen["beyond"] = 7 * (rng.integers(8) == 0)
    geometry, inside, outside, reads = ring_views.windowed(rng, depth, False, room=room, **chosen)
    products, most = geometry["kernel"][0] * geometry["kernel"][1], int(rng.choice([0, 1000, 1 << 21, (1 << 31) - 1]))
    products *= 1 if is_depthwise else depth
    filters, bias = weights(rng, (units, products)), rng.integers(-most, most + 1, units).astype(np.int32)
    multiplier, shift = rescales(rng, max(int(products**0.5 * 5000), most), units, 1)
    shift = shift if kernel == SCALAR[1] else np.where(multiplier == 0, 0, shift).astype(np.int8)  # as of dead filters
    tables = {"weights": filters.T.copy() if is_depthwise else filters, "multiplier": multiplier, "shift": shift}
    tables |= {"bias": bias} if rng.integers(8) else {}
    shapes = {"in": inside, "out": (*outside[:2], units), "dilation": (1, 1)}
    quantised = {"in_zero": int(rng.integers(-128, 128)), **clamp(rng)}
    quantised |= {"out_min": -128} if rng.integers(4) == 0 else {}  # as relu6 often has
    plain = fast = ring_calls.conv(depth if is_depthwise else 1, {"bias": None} | tables, **geometry, **shapes, **quantised)
    words, scratch = np.zeros(0, np.uint32), 8 * -(-products // 2) if kernel == SCALAR[0] else 0
    scratch = leanest(geometry, inside, outside, depth) if kernel == BY_RUNS else scratch
    if scratch and scalar.largest_of_twos(filters).max() > scalar.MOST:
        return None
    if kernel != SCALAR[1]:
        flat, factors, shifts, offset = (x.astype(np.int64) for x in (filters, multiplier, shift, tables.get("bias", 0 * bias)))
        given = dense.Filters(flat, offset - quantised["in_zero"] * flat.sum(axis=1), factors, shifts)
        words = (scalar.eights if is_depthwise else scalar.stream)(given)
        bare = ring_calls.build("tw_conv_shape", **geometry, **shapes, **quantised)
        fast = ring_calls.build("tw_conv_scalar", conv=bare, stream=words)
    source, calls = (
        inputs(rng, ring_views.operand(rng, inside, reads)),
        ((PORTABLE[is_depthwise], plain, 0), (kernel, fast, scratch)),
    )
    portable, own = (
        Trial([Call(kernel, params, (0,), size)], [source], shapes["out"], (*tables.values(), words))
        for kernel, params, size in calls
    )
    return portable, own


def fully_connected(rng: Rng, kernel: str) -> Twins | None:
    h, w, depth, units = (int(n) for n in rng.integers(1, (3, 4, 90, 40)))
    int4, per_channel, segmented = "_w4_" in kernel, int(rng.integers(2)), "_segments_" in kernel
    few, raw, of_fours = "_few_" in kernel, "_raw_" in kernel, kernel == FOURS
    units = int(rng.integers(1, 5)) if few else units
    depth += int(rng.integers(2000)) if segmented and rng.integers(2) else 0
    filters, most = (
        weights(rng, (units, depth), int4=int4),
        int(rng.choice([0, 1000, 1 << (18 if int4 else 30 if segmented else 21)])),
    )
    bias = rng.integers(-most, most + 1, units).astype(np.int32)
    multiplier = rng.integers(1 << 62, (1 << 63) - 1, units, endpoint=True)
    bits = max(int(depth**0.5 * (300 if int4 else 5000)), most).bit_length() - 7
    shift = -np.clip(bits + rng.integers(-14 if raw or of_fours else -3, 4, units), -8 if raw or of_fours else 2, 32).astype(
        np.int8
    )
    quantised = {"in_zero": int(rng.integers(-128, 128)), **clamp(rng)}
    flat = filters.astype(np.int64)
    given = dense.Filters(flat, bias - quantised["in_zero"] * flat.sum(axis=1), multiplier, shift.astype(np.int64))
    vectors, any_weights = kernel.endswith("_mve"), few or raw or of_fours
    if of_fours and scalar.largest_of_quads(filters).max() > scalar.MOST:
        return None
    sums = (dense.weights_pack_in_pairs,) if segmented else (dense_w4.packed_sums_fit,) if int4 else dense.SUMS_EXACTLY
    if not vectors and not any_weights and not meets(given, sums):
        return None
    common = {"in": (h, w, depth), "out": (h, w, units), "per_channel": per_channel, "multiplier": multiplier, "shift": shift}
    laid = packed(filters) if int4 else filters
    layer = ring_calls.build("tw_dense", **common, **quantised)
    portable = ring_calls.build("tw_fully_connected", layer=layer, weights=laid, bias=bias)
    stream = (
        scalar.fours
        if of_fours
        else dense.few
        if few
        else dense.segments
        if segmented
        else (dense_w4 if int4 else dense).eight_at_a_time
    )
    stream = partial(stream, offset=dense.M7_OFFSET) if kernel.endswith("_m7") else stream
    words = mve.wrapped(given.bias) if vectors else stream(given)
    if vectors:
        layer = ring_calls.build("tw_dense", **{**common, **quantised, "in_zero": 0})
        fast = ring_calls.build("tw_fully_connected", layer=layer, weights=filters, bias=words)
    else:
        fast = portable if raw else ring_calls.build("tw_fully_connected_dsp", dense=layer, stream=words)
    scratch = 16 * -(-depth // 4) if of_fours else 0
    source, keep = inputs(rng, ring_views.operand(rng, (h, w, depth))), (laid, filters, bias, multiplier, shift, words)
    calls = (
        Call(re.sub("(_segments|_few|_raw)?_(dsp|m7|mve|scalar)$", "", kernel), portable, (0,)),
        Call(kernel, fast, (0,), scratch),
    )
    portable_trial, fast_trial = (Trial([call], [source], (h, w, units), keep) for call in calls)
    return portable_trial, fast_trial


def add(rng: Rng, kernel: str) -> Twins | None:
    shape = tuple(int(n) for n in rng.integers(1, (5, 9, 12)))
    half = {"multiplier": 1 << 30, "shift": 0}
    exponent = int(rng.choice([0, *range(1, 5), int(rng.integers(1, 32))]))
    other = {"multiplier": int(rng.integers(1 << 30, 1 << 31)) * int(rng.choice([-1, 1])), "shift": -exponent}
    other = half if exponent == 0 else other
    zeros = {name: int(rng.integers(-128, 128)) for name in ("a_zero", "b_zero")}
    (multiplier,), (shift,) = rescales(rng, 1 << int(rng.integers(22, 29)), 1)
    out = {"out_multiplier": int(multiplier), **clamp(rng)}
    sides = (other, half) if rng.integers(2) else (half, other)
    terms = {f"{side}_{key}": value for side, rescale in zip("ab", sides, strict=True) for key, value in rescale.items()}
    extents = dict.fromkeys(("a", "b", "out"), (1, *shape))
    sources, outside = [ring_views.operand(rng, shape) for _ in range(2)], shape
    if "_broadcast_" in kernel:
        drawn = ring_views.binary(rng, "tw_add_s8")
        extents = {name: getattr(drawn.calls[0].params, name) for name in extents}
        sources, outside = drawn.inputs, drawn.out
    sources = [inputs(rng, source) for source in sources]
    portable = ring_calls.build("tw_add", **extents, **zeros, **terms, **out, b_sign=1, left_shift=20, out_shift=int(shift))
    (a, b), output = (Rescale(**side) for side in sides), Rescale(int(multiplier), int(shift))
    limits, of = (out["out_min"], out["out_max"]), (zeros["a_zero"], zeros["b_zero"], out["out_zero"])
    line = sums.line(sums.Sum(a, b, output, of, 1, limits))
    if line is None:
        return None
    shapes = extents if "_broadcast_" in kernel else {"shape": shape}
    fast = ring_calls.build(kernel.replace("_s8", ""), **shapes, line=(*line, *limits))
    return (
        Trial([Call("tw_add_s8", portable, (0, 1))], sources, outside),
        Trial([Call(kernel, fast, (0, 1))], sources, outside),
    )


def mul(rng: Rng, kernel: str) -> Twins:
    trial = ring_views.binary(rng, "tw_mul_s8")
    (call,), sources = trial.calls, [inputs(rng, source) for source in trial.inputs]
    vectors = kernel.endswith("_mve")
    (multiplier,), (shift,) = rescales(rng, 1 << int(rng.integers(8, 17)), 1, least=0 if vectors else 2)
    given = {name: getattr(call.params, name) for name, _ in call.params._fields_}
    given |= {"multiplier": max(int(multiplier), 1 << 30), "shift": int(shift), **clamp(rng)}
    portable = ring_calls.build("tw_mul", **given)
    fast = portable
    if not vectors:
        own = {"power": 1 << (32 + int(shift)), "sign": -int(given["out_min"] < given["out_zero"])}
        fast = ring_calls.build("tw_mul_dsp", mul=portable, **own)
    return (
        Trial([Call("tw_mul_s8", portable, (0, 1))], sources, trial.out),
        Trial([Call(kernel, fast, (0, 1))], sources, trial.out),
    )


def compact(rng: Rng, name: str) -> Twins:
    """Return a trial of a portable kernel and the same trial of the compact kernel."""
    portable = ring_views.TRIALS[name](rng)
    (call,) = portable.calls
    return portable, replace(portable, calls=[replace(call, kernel=f"{name}_compact")])


DRAWN: dict[str, Callable[[Rng], Twins | None]] = {
    **{n: lambda rng, n=n: convolution(rng, n) for n in (f"{name}_dsp" for name in (*PORTABLE, "tw_conv_2d_s8_winograd"))},
    **{n: lambda rng, n=n: convolution(rng, n) for n in ("tw_conv_2d_s8_m7", "tw_depthwise_3x3_s8_m7")},
    **{n: lambda rng, n=n: convolution(rng, n) for n in (f"{name}_outliers_dsp" for name in PORTABLE)},
    **{
        n: lambda rng, n=n: fully_connected(rng, n)
        for n in (f"tw_fully_connected_s8_{form}_dsp" for form in ("segments", "few", "raw"))
    },
    **{n: lambda rng, n=n: convolution(rng, n) for n in (*LEAN, *COLUMN)},
    **{n: lambda rng, n=n: scalar_convolution(rng, n) for n in (*SCALAR, BY_RUNS)},
    "tw_conv_2d_s8_w4_dsp": lambda rng: convolution(rng, "tw_conv_2d_s8_w4_dsp"),
    **{n: lambda rng, n=n: vector_convolution(rng, n) for n in ("tw_conv_2d_s8_mve", "tw_depthwise_conv_2d_s8_mve")},
    **{
        n: lambda rng, n=n: fully_connected(rng, n)
        for n in (f"tw_fully_connected_s8_{form}" for form in ("dsp", "m7", "mve", "scalar"))
    },
    "tw_fully_connected_s8_w4_dsp": lambda rng: fully_connected(rng, "tw_fully_connected_s8_w4_dsp"),
    **{n: lambda rng, n=n: add(rng, n) for n in ("tw_add_s8_linear_dsp", "tw_add_s8_broadcast_dsp")},
    **{n: lambda rng, n=n: average_pool(rng, n) for n in (f"tw_average_pool_2d_s8_{isa}" for isa in ("dsp", "mve"))},
    **{n: lambda rng, n=n: extremum(rng, n) for n in ("tw_extremum_s8_dsp", "tw_extremum_s8_mve")},
    "tw_prelu_s8_dsp": lambda rng: prelu(rng, "tw_prelu_s8_dsp"),
    "tw_softmax_s8_table_dsp": lambda rng: softmax(rng, "tw_softmax_s8_table_dsp"),
    **{n: lambda rng, n=n: mul(rng, n) for n in ("tw_mul_s8_dsp", "tw_mul_s8_mve")},
    **{f"{n}_compact": lambda rng, n=n: compact(rng, n) for n in (*PORTABLE, "tw_fully_connected_s8", "tw_average_pool_2d_s8")},
    **{n: lambda rng, n=n: max_pool(rng, n) for n in (f"tw_max_pool_2d_s8_{isa}" for isa in ("dsp", "mve", "m3"))},
    "tw_requantize_table_dsp": lambda rng: requantize(rng, "tw_requantize_table_dsp"),
    **{n: lambda rng, n=n: recurrent(rng, n) for n in RECURRENT},
    **{n: lambda rng, n=n: lstm(rng, n) for n in LSTM},
    **{n: lambda rng, n=n: svdf(rng, n) for n in SVDF},
    **{n: lambda rng, n=n: mean(rng, n) for n in ("tw_mean_s8_dsp", "tw_mean_s8_mve")},
    MATMUL: lambda rng: matmul(rng, MATMUL),
    **{n: lambda rng, n=n, draw=draw: draw(rng, n) for n, draw in INT16.items()},
}


def whole(library: ctypes.CDLL, trial: Trial, *, parts: bool = True, columns: int | None = None) -> np.ndarray:
    """Return the output of a run on whole maps, or the bytes of output and new states.

    Compute that many `columns` at a time, by default all. Without `parts`, call the kernels' forms for whole maps.
    """
    h, w, pixel = trial.out
    out = np.zeros((h, w, pixel), np.uint8)
    sources = [x.data.copy() for x in trial.inputs]  # kernels replace states
    views = [
        ring_calls.View(data.ctypes.data, x.shape[1] * x.shape[2], x.shape[0], 0, 0)
        for x, data in zip(trial.inputs, sources, strict=True)
    ]
    target = ring_calls.View(out.ctypes.data, w * pixel, h, 0, 0)
    for left in range(0, w, columns or w):
        ring_calls.run(library, trial, views, target, Span(0, h, left, min(left + (columns or w), w)), parts=parts)
    return np.concatenate([each.ravel() for each in (out, *(sources[i] for i in trial.states))]) if trial.states else out


COPYING = {
    f"tw_conv_2d_s8_copying_{isa}": f"tw_conv_2d_s8_{isa}" for isa in ("dsp", "m7")
}  # for whole maps only, with their twins


def copied(library: ctypes.CDLL, kernel: str, trial: Trial) -> np.ndarray:
    """Run a kernel that copies its weight stream on a trial of its twin; return its output. It must stay within its scratch."""
    (call,), (source,), (stream, *_) = trial.calls, trial.inputs, trial.keep
    size, out = stream.nbytes + call.scratch, np.zeros(trial.out, np.uint8)
    scratch = np.random.default_rng(size).integers(0, 256, size + ring_calls.GUARD, np.uint8)
    after, places = scratch[size:].copy(), (source.data.ctypes.data, out.ctypes.data, scratch.ctypes.data)
    getattr(library, kernel)(ctypes.byref(call.params), *map(ctypes.c_void_p, places))
    assert np.array_equal(scratch[size:], after), f"{kernel} writes past its scratch"
    return out


def main(path: str, seed: int, count: int, only: Sequence[str] = ()) -> None:
    library = ctypes.CDLL(path)
    for name, draw in ((name, DRAWN[COPYING.get(name, name)]) for name in only or (*DRAWN, *COPYING)):
        number = tried = 0
        while tried < count:
            rng = np.random.default_rng([seed, number])
            number += 1
            twins = draw(rng)
            if twins is None:
                continue
            tried += 1
            about = f"{name}, seed {seed}, number {number - 1}"
            expected = whole(library, twins[0])
            found = copied(library, name, twins[1]) if name in COPYING else whole(library, twins[1])
            assert np.array_equal(expected, found), about
            if name not in COPYING:
                assert all(np.array_equal(expected, whole(library, twin, parts=False)) for twin in twins), (about, "whole maps")
            if tried % RINGS_EVERY == 0 and name not in (*COPYING, *WHOLE) and all(call.has_part for call in twins[1].calls):
                ring_calls.check(library, twins[1], rng, about)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
