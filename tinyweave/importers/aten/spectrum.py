"""Import the discrete Fourier transform of a real signal: its real and imaginary parts are products with constant matrices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..channels_last import Builder, Map, check_elements
from ..unsupported import normalised_axis
from .axes import mixed, stack
from .elementwise import binary

EXPONENTS = {"backward": 0.0, "forward": 1.0, "ortho": 0.5}  # a norm divides the spectrum by the signal's length to this power


class Complex(NamedTuple):
    """A tensor of complex numbers. TFLite has no ops on them, so only their parts and magnitudes can be read."""

    real: Map
    imag: Map


def real_transform(b: Builder, x: Map, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    """Import aten.fft_rfft: the frequencies 0 to n / 2 of the signal along `dim`, cut or padded with zeros to `n` samples."""
    samples = x.shape[normalised_axis(len(x.axes), dim)]
    length = samples if n is None else n
    used, frequencies = np.arange(min(samples, length)), np.arange(length // 2 + 1)
    check_elements(len(frequencies), samples)
    angles = 2 * np.pi / length * (frequencies[:, None] * used % length)
    scale = length ** -EXPONENTS[norm or "backward"]
    real, imag = (
        mixed(b, x, dim, np.pad(scale * part, ((0, 0), (0, samples - len(used)))).astype(np.float32))
        for part in (np.cos(angles), -np.sin(angles))
    )
    return Complex(real, imag)


def magnitude(b: Builder, x: Map | Complex) -> Map:
    """Import aten.abs, of complex numbers as sqrt(real^2 + imag^2)."""
    if isinstance(x, Map):
        return b.like("abs", x)
    real, imag = (binary("mul")(b, part, part) for part in x)
    return b.like("sqrt", binary("add")(b, real, imag))


def parts(b: Builder, x: Complex) -> Map:
    """Import aten.view_as_real: the real and the imaginary parts along a new last axis."""
    return stack(b, list(x), -1)
