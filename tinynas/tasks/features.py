"""Log-mel features and MFCC of sound in integers, frame by frame, and C that computes the same bytes. In: samples. Out: int8.

Frames have a Hann window and a real FFT of 2n values by a complex one of n; the power is summed in triangular mel bands. A
feature is the logarithm in eighths of a doubling. MFCC (Davis and Mermelstein, 10.1109/TASSP.1980.1163420) are the first terms
of a cosine transform (DCT-II). No value needs more than 63 bits.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError

from .c_tables import Table, header, texts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
WINDOW_BITS, TWIDDLE_BITS = 15, 30
STEPS = 8  # feature steps per doubling of power
QUIETEST = 20 * STEPS  # the logarithm that maps to -128; 127 is 32 doublings (96 dB) louder
GAIN = 4  # factor on all MFCC but the first, which is the mean of the bands
HOP_MS = 20.0  # from one frame to the next, by default
BATCH = 4096  # frames per numpy call


@dataclass(frozen=True)
class LogMel:
    """Log-mel features or MFCC of sound: their settings, and their computation in integers."""

    rate: int  # samples per second
    frame: int  # samples per frame, a power of two up to 2048
    hop: int  # samples from one frame to the next
    bands: int  # number of mel bands
    lowest: float  # lower end of the bands in Hz
    highest: float  # upper end of the bands in Hz
    coefficients: int = 0  # MFCC per frame; 0 for log-mel bands

    weight_bits, log_bits = 8, 6  # fractional bits of filter weights; bits that index the table of logarithms
    emphasis_bits = 0  # pre-emphasis: subtract (1 - 2^-bits) of the previous sample; 0 for none
    fraction_bits = 0  # fractional bits of a feature, truncated toward 0
    doubling, quietest = STEPS, QUIETEST  # in feature steps: a doubling of power, and the logarithm that maps to -128

    @property
    def before(self) -> int:
        """Return the number of samples before a frame that pre-emphasis reads: 0 or 1."""
        return int(self.emphasis_bits > 0)

    @property
    def per_frame(self) -> int:
        """Return the number of features per frame."""
        return self.coefficients or self.bands

    @property
    def silence(self) -> Ints:
        """Return the features [per_frame] of silence: -128 for log-mel; for MFCC, -128 and then zeros."""
        return np.where(np.arange(self.per_frame) * self.coefficients, 0, -128)

    @property
    def cosine_bits(self) -> int:
        """Return the fractional bits of the cosine transform's coefficients: the most that fit 16-bit integers."""
        return (32767 * self.bands // GAIN).bit_length() - 1

    @cached_property
    def terms(self) -> Ints:
        """Return the transform [coefficients, bands], times GAIN but the mean, with `cosine_bits` fractional bits."""
        turns = np.arange(self.coefficients)[:, None] * (np.arange(self.bands) + 0.5) / self.bands
        gain = np.where(np.arange(self.coefficients) == 0, 1, GAIN)[:, None]
        return as_ints(gain * np.cos(np.pi * turns) / self.bands * 2**self.cosine_bits)

    @property
    def window_bits(self) -> int:
        """Return by how many bits the product of a sample and its window value is shifted right."""
        return WINDOW_BITS + self.emphasis_bits - self.guard_bits

    @property
    def guard_bits(self) -> int:
        """Return the fractional bits of the spectrum; short frames have some, which reduces rounding errors."""
        return max(0, 14 - self.frame.bit_length())

    def frames(self, samples: int) -> int:
        """Return the number of whole frames in a recording of `samples` samples."""
        return max(0, (samples - self.frame) // self.hop + 1)

    @cached_property
    def window(self) -> Ints:
        """Return the Hann window [frame] with WINDOW_BITS fractional bits."""
        phase = 2 * np.pi * (np.arange(self.frame) + 0.5) / self.frame
        return as_ints((0.5 - 0.5 * np.cos(phase)) * (2**WINDOW_BITS - 1))

    @cached_property
    def twiddles(self) -> tuple[Ints, Ints]:
        """Return the real and imaginary parts of exp(-2 pi i k / frame), k < frame / 2, with TWIDDLE_BITS fractional bits."""
        turns = np.exp(-2j * np.pi * np.arange(self.frame // 2) / self.frame) * 2**TWIDDLE_BITS
        return as_ints(turns.real), as_ints(turns.imag)

    @property
    def corners(self) -> tuple[Floats, Floats]:
        """Return the corners of the triangular filters [bands + 2] and the centres of the bins [frame / 2], in FFT bins."""
        hertz = 700 * (10 ** (np.linspace(mel(self.lowest), mel(self.highest), self.bands + 2) / 2595) - 1)
        return hertz * self.frame / self.rate, np.arange(self.frame / 2)

    @cached_property
    def filters(self) -> list[tuple[int, Ints]]:
        """Return (first FFT bin, weights) of each mel band; a band narrower than a bin gets the nearest bin."""
        edges, bins = self.corners
        filters = []
        for left, middle, right in zip(edges, edges[1:], edges[2:], strict=False):
            shape = np.minimum((bins - left) / (middle - left), (right - bins) / (right - middle))
            weights = np.round(np.clip(shape, 0, 1) * 2**self.weight_bits).astype(np.int64)
            used = np.flatnonzero(weights)
            if not used.size:
                filters.append((round(float(middle)), np.array([2**self.weight_bits])))
            else:
                filters.append((int(used[0]), weights[used[0] : used[-1] + 1]))
        return filters

    @cached_property
    def logarithms(self) -> Ints:
        """Return the table of `doubling` * log2(m) for mantissas m of 1 .. 2, indexed by their first log_bits bits."""
        mantissas = 1 + (np.arange(2**self.log_bits) + 0.5) / 2**self.log_bits
        return as_ints(self.doubling * np.log2(mantissas))

    def of(self, samples: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return the features [..., frames, per_frame] of recordings [..., samples]; raise CompileError for too short ones."""
        count = self.frames(samples.shape[-1])
        if not count:
            raise CompileError(f"{samples.shape[-1]} samples are shorter than a frame", f"give at least {self.frame}")
        starts, length = self.hop * np.arange(count), self.before + self.frame
        known = np.concatenate([np.zeros((*samples.shape[:-1], self.before), samples.dtype), samples], axis=-1)
        frames = known[..., starts[:, None] + np.arange(length)].reshape(-1, length)
        features = [self._features(frames[first : first + BATCH]) for first in range(0, len(frames), BATCH)]
        return np.concatenate(features).reshape(*samples.shape[:-1], count, self.per_frame)

    def _features(self, frames: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return the features [n, per_frame] of frames [n, before + frame]."""
        values = frames.astype(np.int64)
        if self.emphasis_bits:
            values = (values[:, 1:] << self.emphasis_bits) - values[:, :-1] * (2**self.emphasis_bits - 1)
        weighted = _rounded(values * self.window, self.window_bits)
        power = self._power(weighted) >> 2 * self.guard_bits
        energy = np.stack([power[:, first : first + len(w)] @ w for first, w in self.filters], axis=1)
        exponent = np.frexp(np.maximum(energy, 1).astype(np.float64))[1].astype(np.int64) - 1
        # the conversion to double may have rounded up to the next power of two
        exponent -= (np.left_shift(np.int64(1), exponent) > energy) & (energy > 0)
        below = np.maximum(exponent - self.log_bits, 0), np.maximum(self.log_bits - exponent, 0)
        mantissa = np.left_shift(np.right_shift(np.maximum(energy, 1), below[0]), below[1]) - 2**self.log_bits
        fractions = self.doubling * exponent + self.logarithms[mantissa] - self.quietest - (128 << self.fraction_bits)
        features = np.clip(np.sign(fractions) * (np.abs(fractions) >> self.fraction_bits), -128, 127)
        if self.coefficients:
            features = np.clip(_rounded(features @ self.terms.T, self.cosine_bits), -128, 127)
        return np.asarray(features, np.int8)

    def _power(self, values: Ints) -> Ints:
        """Return |2 * FFT|^2 [n, frame / 2] of values [n, frame], without the bin at half the sample rate."""
        half = self.frame // 2
        order = _bit_reversed(half)
        real, imaginary = values[:, 0::2][:, order], values[:, 1::2][:, order]
        cosines, sines = self.twiddles
        size = 1
        while size < half:
            turn = np.arange(size) * (self.frame // (2 * size))
            shape = (-1, half // (2 * size), 2, size)
            re, im = real.reshape(shape), imaginary.reshape(shape)
            turned = _turned(re[:, :, 1], im[:, :, 1], cosines[turn], sines[turn])
            real = np.stack((re[:, :, 0] + turned[0], re[:, :, 0] - turned[0]), axis=2).reshape(-1, half)
            imaginary = np.stack((im[:, :, 0] + turned[1], im[:, :, 0] - turned[1]), axis=2).reshape(-1, half)
            size *= 2
        mirror = -np.arange(half) % half
        even = real + real[:, mirror], imaginary - imaginary[:, mirror]
        odd = _turned(imaginary + imaginary[:, mirror], real[:, mirror] - real, cosines, sines)
        return np.asarray((even[0] + odd[0]) ** 2 + (even[1] + odd[1]) ** 2)

    def c_tables(self) -> str:
        """Return the header with the sizes and the tables of log_mel.c."""
        cosines, sines = self.twiddles
        firsts, weights = [first for first, _ in self.filters], np.concatenate([w for _, w in self.filters])
        sizes = {
            "RATE": self.rate,
            "FRAME": self.frame,
            "HOP": self.hop,
            "BANDS": self.bands,
            "SAMPLES": self.before + self.frame,
            "EMPHASIS_BITS": self.emphasis_bits,
            "WINDOW_BITS": self.window_bits,
            "GUARD_BITS": self.guard_bits,
            "TWIDDLE_BITS": TWIDDLE_BITS,
            "LOG_BITS": self.log_bits,
            "FRACTION_BITS": self.fraction_bits,
            "DOUBLING": self.doubling,
            "QUIETEST": self.quietest,
            "COEFFICIENTS": self.coefficients,
            "FEATURES": self.per_frame,
        }
        tables: tuple[Table, ...] = (
            ("int16_t", "window", self.window),
            ("int32_t", "cosines", cosines),
            ("int32_t", "sines", sines),
            ("uint16_t", "first_bins", np.array(firsts)),
            ("uint16_t", "bins", np.array([len(w) for _, w in self.filters])),
            ("uint16_t", "weights", weights),
            ("uint8_t" if self.doubling < 256 else "uint16_t", "logarithms", self.logarithms),
        )
        if self.coefficients:
            sizes["COSINE_BITS"] = self.cosine_bits
            tables = (*tables, ("int16_t", "terms", self.terms.reshape(-1)))
        return header("log_mel", self.text(), sizes, tables)

    def record(self) -> dict[str, float]:
        """Return the settings as JSON values; `coefficients` is omitted if 0, as in older files."""
        return {key: value for key, value in asdict(self).items() if key != "coefficients" or value}

    def c_files(self) -> dict[str, str]:
        """Return the C files that compute the features of one frame: file name -> text."""
        return texts("log_mel.c", "log_mel.h") | {"log_mel_tables.h": self.c_tables()}

    def text(self) -> str:
        """Return the settings as text for people."""
        return (f"{self.coefficients} MFCC of " if self.coefficients else "") + (
            f"{self.bands} log-mel bands of {self.lowest:g} .. {self.highest:g} Hz, "
            f"{1000 * self.frame / self.rate:g} ms each {1000 * self.hop / self.rate:g} ms at {self.rate} Hz"
        )


def log_mel(rate: int, bands: int = 40, frame_ms: float = 32, hop_ms: float = HOP_MS, coefficients: int = 0) -> LogMel:
    """Return the usual settings for speech: mel bands of 60 Hz to 7.6 kHz, and a frame of 2^k samples, about `frame_ms` long.

    The bands end at most at 95 % of half the `rate` in Hz. `coefficients` is the number of MFCC per frame, 0 for log-mel
    features.
    """
    frame = 1 << max(5, round(float(np.log2(rate * frame_ms / 1000))))
    return LogMel(rate, frame, round(rate * hop_ms / 1000), bands, 60.0, min(7600.0, 0.95 * rate / 2), coefficients)


def mel(hertz: float) -> float:
    """Convert a frequency in Hz to the mel scale."""
    return float(2595 * np.log10(1 + hertz / 700))


def as_ints(values: Floats) -> Ints:
    """Return values rounded to the nearest integer."""
    return np.asarray(np.round(values), np.int64)


def _rounded(values: Ints, bits: int) -> Ints:
    """Return values divided by 2^bits, rounded half up."""
    return (values + (1 << (bits - 1))) >> bits


def _turned(real: Ints, imaginary: Ints, cosine: Ints, sine: Ints) -> tuple[Ints, Ints]:
    """Multiply complex numbers by twiddle factors; each of the four real products is rounded, as in C."""
    return (
        _rounded(real * cosine, TWIDDLE_BITS) - _rounded(imaginary * sine, TWIDDLE_BITS),
        _rounded(real * sine, TWIDDLE_BITS) + _rounded(imaginary * cosine, TWIDDLE_BITS),
    )


def _bit_reversed(count: int) -> Ints:
    """Return the indices 0 to `count` - 1 (a power of two) in bit-reversed order, as an FFT needs them."""
    order = np.zeros(1, np.int64)
    while len(order) < count:
        order = np.concatenate((2 * order, 2 * order + 1))
    return order
