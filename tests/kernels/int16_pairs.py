"""Random pairs of trials for variant_pairs.py: a portable kernel of int16 maps and a faster kernel, which take whole maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import ring_calls, ring_views
from kernels.elementwise_pairs import Twins
from kernels.product_pairs import weights_of
from kernels.ring_calls import Call, Rng, Trial

from tinyweave.kernels import int16
from tinyweave.kernels.table import BY_NAME


def map_s16(rng: Rng, shape: ring_calls.Shape) -> ring_calls.Operand:
    """Return a random int16 map, in a quarter of the calls of values of the largest magnitude."""
    h, w, c = shape
    drawn = rng.integers(-32768, 32768, shape) if rng.integers(4) else rng.choice([-32768, 32767], shape)
    return ring_calls.Operand((h, w, 2 * c), drawn.astype(np.int16).view(np.uint8), lambda span: span)


def clamp_s16(rng: Rng) -> dict[str, int]:
    """Return the clamp of int16, of relu, or any."""
    low, high = ((-32768, 32767), (0, 32767), (int(rng.integers(-32768, 1)), int(rng.integers(1, 32768))))[rng.integers(3)]
    return {"out_min": low, "out_max": high}


def convolution_s16(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials of a convolution with any groups and dilation; None if a sum may exceed an int32."""
    is_depthwise, groups = BY_NAME[kernel].weights is int16.by_tap, int(rng.choice([1, 1, 2, 5]))
    group_in, units = int(rng.integers(1, 40 if rng.integers(3) else 5)), groups * int(rng.integers(1, 14))
    if is_depthwise:
        groups, group_in = max(units, 4 if BY_NAME[kernel].isa == "dsp" else 2), 1
        units = groups
    geometry, inside, outside, _ = ring_views.windowed(
        rng, groups * group_in, not rng.integers(3), beyond=7 * (rng.integers(8) == 0)
    )
    taps = geometry["kernel"][0] * geometry["kernel"][1] * group_in
    weights, most = weights_of(rng, (units, taps)), int(rng.choice([0, 1 << 20, 1 << 29]))
    bias = rng.integers(-most, most + 1, units)
    if int16.largest(weights, bias).max() >= int16.MOST:
        return None
    exponent = int(32768 * 75 * taps**0.5).bit_length() + rng.integers(-2, 3, units)
    shift = np.where(rng.integers(8, size=units), np.clip(14 - exponent, -17, -1), rng.integers(-17, 0, units))
    multiplier = np.where(rng.integers(8, size=units), rng.integers(1 << 14, 1 << 15, units), rng.choice([0, 32767], units))
    sizes = {"dilation": (1, 1)} | geometry | {"in": inside, "out": (*outside[:2], units)}
    limits = clamp_s16(rng)
    base = ring_calls.build("tw_conv_s16_base", **sizes, **limits, groups=groups, weights=weights)
    tables = {"bias": bias, "multiplier": multiplier.astype(np.int16), "shift": shift.astype(np.int8)}
    plain = ring_calls.build("tw_conv_s16", base=base, **tables, narrow_bias=None, narrow_multiplier=None)
    own = {"bias": bias.astype(np.int32), "factor": (multiplier << (17 + shift)).astype(np.int32)}
    laid = weights.T.copy() if is_depthwise else weights
    word = ring_calls.build("tw_conv_s16_base", **sizes, **limits, groups=groups, weights=laid)
    fast = ring_calls.build("tw_conv_s16_word", base=word, **own)
    source, out = map_s16(rng, inside), (*outside[:2], 2 * units)
    calls = Call("tw_conv_2d_s16", plain, (0,)), Call(kernel, fast, (0,))
    first, second = (Trial([call], [source], out, (weights, laid, *tables.values(), *own.values())) for call in calls)
    return first, second


def fully_connected_s16(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials of a dense layer; None if a sum may exceed an int32."""
    rows, depth, units = (int(n) for n in rng.integers(1, (4, 300, 20)))
    weights, bias = weights_of(rng, (units, depth)), rng.integers(-(1 << 20), 1 << 20, units).astype(np.int32)
    if int16.largest(weights, bias).max() >= int16.MOST:
        return None
    multiplier = rng.integers(1 << 62, (1 << 63) - 1, units, endpoint=True)
    exponent = int(32768 * 75 * depth**0.5).bit_length() + rng.integers(-2, 3, units)
    shift = np.where(rng.integers(8, size=units), 15 - exponent, rng.integers(-32, 1, units)).astype(np.int8)
    common = {"in": (1, rows, depth), "out": (1, rows, units), "in_zero": 0, "out_zero": 0, **clamp_s16(rng)}
    factors = {"per_channel": int(rng.integers(2)), "multiplier": multiplier, "shift": shift}
    layer = ring_calls.build("tw_dense", **common, **factors)
    params = ring_calls.build("tw_fully_connected", layer=layer, weights=weights, bias=bias if rng.integers(4) else None)
    source, keep = map_s16(rng, (1, rows, depth)), (weights, bias, multiplier, shift)
    calls = (Call(name, params, (0,)) for name in ("tw_fully_connected_s16", kernel))
    first, second = (Trial([call], [source], (1, rows, 2 * units), keep) for call in calls)
    return first, second


def binary_s16(rng: Rng, kernel: str) -> Twins:
    """Return a pair of trials of a sum or product that broadcasts; zero points are 0."""
    drawn = ring_views.binary(rng, "tw_extremum_s8", 40 if rng.integers(2) else 6)
    (call,) = drawn.calls
    sizes = {name: tuple(getattr(getattr(call.params, name), axis) for axis in "nhwc") for name in ("a", "b", "out")}
    common = sizes | {f"{name}_zero": 0 for name in ("a", "b", "out")} | clamp_s16(rng)
    sources = [map_s16(rng, source.shape) for source in drawn.inputs]
    kind = "add" if "_add_" in kernel else "mul"
    fast = portable = _sum_s16(rng, common) if kind == "add" else _product_s16(rng, common, BY_NAME[kernel].isa)
    if BY_NAME[kernel].params == "tw_mul_dsp":
        own = {"power": 1 << (32 + portable.shift), "sign": -int(portable.out_min < 0)}
        fast = ring_calls.build("tw_mul_dsp", mul=portable, **own)
    h, w, c = drawn.out
    calls = Call(f"tw_{kind}_s16", portable, (0, 1)), Call(kernel, fast, (0, 1))
    first, second = (Trial([each], sources, (h, w, 2 * c)) for each in calls)
    return first, second


def _multiplier(rng: Rng) -> int:
    return int(rng.choice([1 << 30, (1 << 31) - 1, int(rng.integers(1 << 30, 1 << 31))]))


def _sum_s16(rng: Rng, common: dict[str, Any]) -> Any:
    """Return a tw_add; in half of the calls one operand is rescaled by a half, as that of the larger scale is."""
    scales = {f"{side}_multiplier": _multiplier(rng) for side in ("a", "b", "out")}
    scales |= {f"{side}_shift": -int(rng.integers(0, 6 if rng.integers(4) else 32)) for side in ("a", "b")}
    scales |= {"a_multiplier": 1 << 30, "a_shift": 0} if rng.integers(2) else {}
    shift = -int(rng.integers(10, 17) if rng.integers(4) else rng.integers(0, 32))
    return ring_calls.build("tw_add", **common, **scales, left_shift=15, b_sign=int(rng.choice([-1, 1])), out_shift=shift)


def _product_s16(rng: Rng, common: dict[str, Any], isa: str) -> Any:
    """Return a tw_mul with a shift that the instruction set's kernel takes."""
    least = 2 if isa == "dsp" else 0
    shift = -int(rng.integers(12, 18) if rng.integers(4) else rng.integers(least, 32))
    return ring_calls.build("tw_mul", **common, multiplier=_multiplier(rng), shift=shift)


def pool_s16(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials of a pool of at most 255 pixels; None if a window contains no part of the map."""
    row, channels, wide = BY_NAME[kernel], int(rng.integers(4, 40)), rng.integers(6) == 0
    if row.isa == "mve":
        channels = int(rng.integers(1, 40))
    chosen: dict[str, Any] = {"kernel": tuple(rng.choice([1, 3, 15, 16, 85], 2, replace=False).tolist())} if wide else {}
    geometry, inside, outside, _ = ring_views.windowed(rng, channels, False, **chosen)
    begins = zip(outside[:2], geometry["stride"], geometry["pad"], inside[:2], strict=True)
    empty = any((extent - 1) * stride - pad >= size for extent, stride, pad, size in begins)
    if empty or np.prod(geometry["kernel"]) > 255:
        return None
    sizes = geometry | {"in": inside, "out": (*outside[:2], channels), "away_from": 0} | clamp_s16(rng)
    params, source, out = ring_calls.build("tw_pool", **sizes), map_s16(rng, inside), (*outside[:2], 2 * channels)
    if rng.integers(4) == 0:  # sums of the largest magnitude
        source.data.view(np.int16)[...] = rng.choice([-32768, 32767])
    (kind,) = row.kinds
    first, second = (Trial([Call(name, params, (0,))], [source], out) for name in (f"tw_{kind}_s16", kernel))
    return first, second
