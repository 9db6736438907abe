"""Random pairs of trials of elementwise kernels and pools for variant_pairs.py: of the portable and of another kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from kernels import ring_calls, ring_views
from kernels.ring_calls import Call, Rng, Span, Trial

from tinyweave.kernels.dsp.prelu import Prelu, lines
from tinyweave.ops.fixed_point import Rescale
from tinyweave.ops.fixed_point import requantize as requantize_exactly
from tinyweave.ops.normalization.softmax import counted, exponentials, of_differences

Twins = tuple[Trial, Trial]  # of the portable kernel, and of the kernel for some cores


def inputs(rng: Rng, operand: ring_calls.Operand) -> ring_calls.Operand:
    """Return the operand, in a quarter of the calls filled with values of the largest magnitude."""
    if rng.integers(4) == 0:
        operand.data[...] = rng.choice(np.array([-128, 127], np.int8), operand.data.shape).view(np.uint8)
    return operand


def clamp(rng: Rng) -> dict[str, int]:
    """Return a random clamp: none, one of relu, or any."""
    zero, kind = int(rng.integers(-128, 128)), int(rng.integers(4))
    if kind == 0:
        return {"out_zero": zero, "out_min": -128, "out_max": 127}
    if kind == 1:
        return {"out_zero": -128, "out_min": -128, "out_max": 127}
    low = zero if kind == 2 else int(rng.integers(-128, 1))
    return {"out_zero": zero, "out_min": low, "out_max": int(rng.integers(zero, 128))}


def extremum(rng: Rng, kernel: str) -> Twins:
    portable = ring_views.binary(rng, "tw_extremum_s8", 40 if rng.integers(2) else 6)
    (call,) = portable.calls
    return portable, replace(portable, calls=[replace(call, kernel=kernel)])


def mean(rng: Rng, kernel: str) -> Twins:
    """Return a pair of trials, a few with more values than a 16-bit lane can sum, and some over other axes than the columns."""
    other = rng.integers(2) == 0
    portable = any_mean(rng) if other else ring_views.mean(rng, *((700, 5) if rng.integers(4) == 0 else (40, 40)))
    (source,) = portable.inputs
    portable = replace(portable, inputs=[inputs(rng, source)])
    if rng.integers(4) == 0:
        source.data[...] = rng.choice([-128, 127]) & 0xFF  # for sums of the largest magnitude
    (call,) = portable.calls
    return portable, replace(portable, calls=[replace(call, kernel=kernel)])


def any_mean(rng: Rng) -> Trial:
    """Return a trial of a mean or sum over any axes. The sums wrap if the shift goes far to the left."""
    sizes = np.ones(5, np.int64)  # kept at even positions, reduced at odd ones
    sizes[rng.permutation(5)[:4]] = rng.integers(1, (3, 4, 20, 100))
    kept, reduced = tuple(sizes[::2].tolist()), tuple(sizes[1::2].tolist())
    bits = int(np.prod(reduced)).bit_length()
    shifts = [*range(-bits, 3 - bits), int(rng.integers(-31, 31))]
    scaling = {"multiplier": int(rng.integers(1 << 31)), "shift": int(rng.choice(shifts))}
    if rng.integers(4) == 0:
        scaling = {"multiplier": (1 << 31) - 1, "shift": 30}  # to the limits of int32, which the zero point would exceed
    zeros = {"in_zero": int(rng.integers(-128, 128)), "out_zero": int(rng.integers(-128, 128))}
    params = ring_calls.build("tw_mean", kept=kept, reduced=reduced, **zeros, **scaling)
    source = ring_views.operand(rng, (1, 1, int(sizes.prod())))
    return Trial([Call("tw_mean_s8", params, (0,), whole=True)], [source], (1, 1, int(np.prod(kept))))


def prelu(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials with a slope per channel; the portable kernel repeats the slopes for each pixel."""
    h, w, c = (int(n) for n in rng.integers(1, (4, 6, 14)))
    zeros = {f"{name}_zero": int(rng.integers(-128, 128)) for name in ("a", "b", "out")}
    rescales = (
        Rescale(int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(-4, 3))),
        Rescale(int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(-12, 2))),
    )
    slopes = inputs(rng, ring_views.operand(rng, (1, 1, c), lambda wanted: Span(0, 1, 0, 1)))
    given = slopes.data.view(np.int8).astype(np.int64).ravel() - zeros["b_zero"]
    found = lines(Prelu((zeros["a_zero"], zeros["out_zero"]), given, rescales))
    if found is None:
        return None
    factors = {
        f"{name}_{part}": value
        for name, rescale in zip(("positive", "negative"), rescales, strict=True)
        for part, value in rescale._asdict().items()
    }
    portable = ring_calls.build("tw_prelu", a=(1, h, w, c), b=(1, 1, 1, c), out=(1, h, w, c), **zeros, **factors)
    table = found.negative.astype(np.int32)
    own = {"in_zero": zeros["a_zero"], "shift": found.shift, "positive": tuple(found.positive.tolist())}
    fast = ring_calls.build("tw_prelu_dsp", shape=(h, w, c), **own, negative=table)
    source = inputs(rng, ring_views.operand(rng, (h, w, c)))
    return (
        Trial([Call("tw_prelu_s8", portable, (0, 1))], [source, slopes], (h, w, c)),
        Trial([Call(kernel, fast, (0,))], [source], (h, w, c), (table,)),
    )


def softmax(rng: Rng, kernel: str) -> Twins:
    """Return a pair of trials of maps of any size and of factors that leave from a few to all differences."""
    shape = tuple(int(n) for n in rng.integers(1, (5, 5, 30)))
    p = of_differences(float(2.0 ** rng.uniform(-12, 4)))
    portable = ring_calls.build("tw_softmax", shape=shape, **p._asdict())
    table = exponentials(p, counted(p)).astype(np.int32)
    fast = ring_calls.build("tw_softmax_table_dsp", softmax=portable, exponentials=table)
    source = inputs(rng, ring_views.operand(rng, shape))
    return (
        Trial([Call("tw_softmax_s8", portable, (0,))], [source], shape),
        Trial([Call(kernel, fast, (0,))], [source], shape, (table,)),
    )


def requantize(rng: Rng, kernel: str) -> Twins:
    """Return a pair of trials; the kernel's table has the portable kernel's output for each byte."""
    name = f"tw_requantize_{rng.choice(['s8_s8', 's8_u8', 'u8_s8', 'u8_u8'])}"
    trial = ring_views.elementwise(rng, name)
    (call,), (source,) = trial.calls, [inputs(rng, source) for source in trial.inputs]
    p, (low, high) = call.params, (-128, 128) if "_s8_" in name else (0, 256)
    values = np.roll(np.arange(low, high), 0 if low else 128)
    scaled = requantize_exactly(values - p.in_zero, p.multiplier, p.shift) + p.out_zero
    table = np.clip(scaled, p.out_min, p.out_max).astype(np.uint8 if name.endswith("u8") else np.int8).view(np.int8)
    fast = ring_calls.build("tw_lookup", shape=(p.shape.h, p.shape.w, p.shape.c), table=table)
    return (
        Trial([Call(name, p, (0,))], [source], trial.out),
        Trial([Call(kernel, fast, (0,))], [source], trial.out, (table,)),
    )


def average_pool(rng: Rng, kernel: str) -> Twins:
    """Return a pair of trials with windows of any size, a few with more values than a 16-bit lane can sum."""
    most = 2048 if kernel.endswith("_mve") else 300 * 17  # pixels of a window
    while True:
        channels, many = int(rng.integers(1, 40)), rng.integers(6) == 0
        chosen: dict[str, Any] = {"kernel": tuple(rng.choice([1, 16, 17, 100, 300], 2, replace=False).tolist())} if many else {}
        geometry, inside, outside, reads = ring_views.windowed(rng, channels, False, **chosen)
        begins = zip(outside[:2], geometry["stride"], geometry["pad"], inside[:2], strict=True)
        holds = all((extent - 1) * stride - pad < size for extent, stride, pad, size in begins)
        if holds and np.prod(geometry["kernel"]) <= most:
            break  # every window contains a part of the map
    limits = {name: value for name, value in clamp(rng).items() if name != "out_zero"}
    shapes = {"in": inside, "out": (*outside[:2], channels), "away_from": -128 * int(rng.integers(2))}
    params, source = (
        ring_calls.build("tw_pool", **geometry, **shapes, **limits),
        inputs(rng, ring_views.operand(rng, inside, reads)),
    )
    if many and rng.integers(2):
        source.data[...] = rng.choice([-128, 127]) & 0xFF  # for sums of the largest magnitude
    portable, fast = (Trial([Call(name, params, (0,))], [source], shapes["out"]) for name in ("tw_average_pool_2d_s8", kernel))
    return portable, fast


def max_pool(rng: Rng, kernel: str) -> Twins | None:
    channels = int(rng.integers(4, 40))
    geometry, inside, outside, reads = ring_views.windowed(rng, channels, False)
    begins = zip(outside[:2], geometry["stride"], geometry["pad"], inside[:2], strict=True)
    if any((extent - 1) * stride - pad >= size for extent, stride, pad, size in begins):
        return None  # every window must contain a part of the map
    limits = {name: value for name, value in clamp(rng).items() if name != "out_zero"}
    shapes = {"in": inside, "out": (*outside[:2], channels), "away_from": 0}
    params, source = ring_calls.build("tw_pool", **geometry, **shapes, **limits), ring_views.operand(rng, inside, reads)
    source = inputs(rng, source)
    portable, fast = (Trial([Call(name, params, (0,))], [source], shapes["out"]) for name in ("tw_max_pool_2d_s8", kernel))
    return portable, fast
