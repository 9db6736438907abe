"""Runs every kernel for some cores only beside the portable one of its kind, on random shapes, offsets, multipliers, extremes.

`python -m kernels.twins LIBRARY SEED COUNT`, from the folder above, raises where a byte differs. Like rings.py, which it also
does for these kernels, it is a program of its own so that the library can be built with sanitizers.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np
from kernels import rings
from kernels.rings import Call, Rng, Span, Trial

from tinyweave.kernels import pairs

Twins = tuple[Trial, Trial]  # portable, and for some cores
RINGS_EVERY = 8


def weights(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """Any, as a rule not -128; or small; or of the largest magnitude."""
    kind = int(rng.integers(5))
    if kind == 0:
        return rng.choice(np.array([-127, 127], np.int8), shape)
    if kind == 1:
        return rng.integers(-2, 3, shape).astype(np.int8)
    return rng.integers(-128 if kind == 2 else -127, 128, shape).astype(np.int8)


def inputs(rng: Rng, operand: rings.Operand) -> rings.Operand:
    """Any, or of the largest magnitude."""
    if rng.integers(4) == 0:
        operand.data[...] = rng.choice(np.array([-128, 127], np.int8), operand.data.shape).view(np.uint8)
    return operand


def clamp(rng: Rng) -> dict[str, int]:
    """No activation, the least value as zero, or any clamp."""
    zero, kind = int(rng.integers(-128, 128)), int(rng.integers(4))
    if kind == 0:
        return {"out_zero": zero, "out_min": -128, "out_max": 127}
    if kind == 1:
        return {"out_zero": -128, "out_min": -128, "out_max": 127}
    low = zero if kind == 2 else int(rng.integers(-128, 1))
    return {"out_zero": zero, "out_min": low, "out_max": int(rng.integers(zero, 128))}


def rescales(rng: Rng, sums: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers and shifts that spread sums of about this size over int8, more or less; some of other sizes."""
    multiplier = rng.integers(1 << 30, 1 << 31, count)
    multiplier = np.where(rng.integers(8, size=count) == 0, rng.choice([0, 1 << 30, (1 << 31) - 1], count), multiplier)
    exponent = max(sums.bit_length() - 7, 2) + rng.integers(-2, 3, count)
    shift = -np.clip(np.where(rng.integers(8, size=count) == 0, rng.integers(1, 32, count), exponent), 2, 31)
    return multiplier.astype(np.int32), shift.astype(np.int8)


def convolution(rng: Rng, kernel: str, depthwise: bool) -> Twins | None:
    """None when what was drawn is not for the kernel."""
    depth, units = int(rng.integers(1, 41 if rng.integers(3) else 9)), int(rng.integers(1, 23))
    geometry, inside, outside, reads = rings.windowed(rng, depth, False)
    taps = int(np.prod(geometry["kernel"])) * (1 if depthwise else depth)
    units = depth if depthwise else units
    filters, most = weights(rng, (units, taps)), int(rng.choice([0, 1000, 1 << 21]))
    bias = rng.integers(-most, most + 1, units).astype(np.int32)
    multiplier, shift = rescales(rng, max(int(taps**0.5 * 5000), most), units)
    quantised = {"in_zero": int(rng.integers(-128, 128)), **clamp(rng)}
    flat, multipliers, shifts = (part.astype(np.int64) for part in (filters, multiplier, shift))
    given = pairs.Filters(flat, bias - quantised["in_zero"] * flat.sum(axis=1), multipliers, shifts)
    if not pairs.is_exact(given):
        return None
    shapes = {"in": inside, "out": (*outside[:2], units), "groups": depth if depthwise else 1, "dilation": (1, 1)}
    ordered = np.ascontiguousarray(filters.T if depthwise else filters)
    tables = {"weights": ordered, "bias": bias, "multiplier": multiplier, "shift": shift}
    portable = rings.build("tw_conv", **geometry, **shapes, **quantised, **tables)
    bare = rings.build("tw_conv", **geometry, **shapes, **quantised, **dict.fromkeys(tables))
    words = pairs.stream(given)
    sign = -int(quantised["out_min"] < quantised["out_zero"])
    fast = rings.build("tw_conv_dsp", conv=bare, stream=words, sign=sign)
    scratch = -(-taps // 4) * (16 if depth % 4 == 0 else 20)
    source = inputs(rng, rings.operand(rng, inside, reads))
    name = kernel.removesuffix("_dsp")
    return (
        Trial([Call(name, portable, (0,))], [source], shapes["out"], tuple(tables.values())),
        Trial([Call(kernel, fast, (0,), scratch)], [source], shapes["out"], (words,)),
    )


DRAWN: dict[str, Callable[[Rng], Twins | None]] = {
    "tw_conv_2d_s8_dsp": lambda rng: convolution(rng, "tw_conv_2d_s8_dsp", False),
}


def whole(library: ctypes.CDLL, trial: Trial) -> np.ndarray:
    """The output of a run over whole maps."""
    h, w, pixel = trial.out
    out = np.zeros((h, w, pixel), np.uint8)
    views = [rings.View(x.data.ctypes.data, x.shape[1] * x.shape[2], x.shape[0], 0, 0) for x in trial.inputs]
    rings.run(library, trial, views, rings.View(out.ctypes.data, w * pixel, h, 0, 0), Span(0, h, 0, w))
    return out


def main(path: str, seed: int, count: int) -> None:
    library = ctypes.CDLL(path)
    for name, draw in DRAWN.items():
        number = tried = 0
        while tried < count:
            rng = np.random.default_rng([seed, number])
            number += 1
            twins = draw(rng)
            if twins is None:
                continue
            tried += 1
            about = f"{name}, seed {seed}, number {number - 1}"
            expected, found = (whole(library, trial) for trial in twins)
            assert np.array_equal(expected, found), about
            if tried % RINGS_EVERY == 0:
                rings.check(library, twins[1], rng, about)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
