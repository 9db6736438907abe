"""Resize whole pictures in exact integers, with the bytes that tw_resizer.c computes line by line. In, out: pixels.

A shrinking axis takes means weighted by coverage, a growing axis interpolates linearly between pixel centres. Values are
rounded once, floor(sum / total + 1/2), so the order of the summation does not matter.
"""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError

MOST_SIDE, MOST_WEIGHTS = 4096, 1 << 24  # as in tw_resizer.h


def axis_weights(size: int, out: int) -> NDArray[np.int64]:
    """Return the weight [out, size] of each input pixel in each output pixel along an axis; all rows have the same sum."""
    step, units = size // gcd(size, out), out // gcd(size, out)
    index, pixel = np.arange(out)[:, None], np.arange(size)[None, :]
    if out > size:
        at = np.clip((2 * index + 1) * step - units, 0, 2 * units * (size - 1))
        return np.asarray(np.maximum(0, 2 * units - np.abs(at - 2 * units * pixel)), np.int64)
    begin, end = np.maximum(index * step, pixel * units), np.minimum((index + 1) * step, (pixel + 1) * units)
    return np.asarray(np.maximum(0, end - begin), np.int64)


def check_sizes(height: int, width: int, rows: int, columns: int) -> None:
    """Raise CompileError if sides exceed MOST_SIDE pixels, or an output's weights MOST_WEIGHTS, so that 32 bits suffice."""
    if not all(1 <= size <= MOST_SIDE for size in (height, width, rows, columns)):
        raise CompileError(
            f"{width} x {height} pixels cannot become {columns} x {rows}", f"sides must have 1 to {MOST_SIDE} pixels"
        )
    axes = ((height, rows), (width, columns))
    totals = [2 * out // gcd(size, out) if out > size else size // gcd(size, out) for size, out in axes]
    if totals[0] * totals[1] > MOST_WEIGHTS:
        raise CompileError(
            f"{width} x {height} pixels cannot become {columns} x {rows} in integers of 32 bits",
            "crop, so that the sizes have a common factor",
        )


def resized(pixels: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.uint8]:
    """Resize pixels [height, width, channels] to [rows, columns, channels]; raise CompileError as `check_sizes` does."""
    height, width, _ = pixels.shape
    check_sizes(height, width, rows, columns)
    down, across = axis_weights(height, rows), axis_weights(width, columns)
    total = int(down[0].sum()) * int(across[0].sum())
    # sums stay below 2^32, where doubles are exact; numpy multiplies them faster than integers
    sums = np.einsum("rh,hwc->rwc", down.astype(np.float64), pixels.astype(np.float64), optimize=True)
    sums = np.einsum("rwc,kw->rkc", sums, across.astype(np.float64), optimize=True)
    return np.asarray((sums.astype(np.int64) + total // 2) // total, np.uint8)
