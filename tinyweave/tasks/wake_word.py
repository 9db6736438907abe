"""The features of MLPerf Tiny's streaming wake word, in integers. In: 16 kHz samples. Out: int8 [frames, 40].

Every 32 ms they are the log-mel bands of the last 64 ms: (52 dB + 10 log10(power)) / 64, within 0 .. 1, with pre-emphasis by
1 - 2^-5 and a Hamming window, as github.com/mlcommons/tiny (benchmark/training/streaming_wakeword) computes them in floats.
That code casts values above 127 to int8, which C leaves open; here they are 127.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..ir import CompileError
from .features import WINDOW_BITS, Floats, Ints, LogMel, mel

RATE, FRAME, HOP, BANDS = 16_000, 1024, 512, 40
LOUDEST_DB, OFFSET_DB = 64.0, 52.0
FRACTION_BITS = 12
LARGEST_DOUBLING = 1 << 16  # fractions of steps, which the table of logarithms holds


@dataclass(frozen=True)
class WakeWordMel(LogMel):
    """step: what one step of the network's int8 input stands for."""

    step: float = 1 / 256

    weight_bits, log_bits, emphasis_bits, fraction_bits = 10, 8, 5, FRACTION_BITS

    @property
    def doubling(self) -> int:  # type: ignore[override]
        return round(self._steps(10 * np.log10(2)) * 2**FRACTION_BITS)

    @property
    def quietest(self) -> int:  # type: ignore[override]
        """Return the logarithm, in fractions of steps, of the integer energy that stands for a power of -52 dB.

        It is the power times the frame, 2^weight_bits of the filters, 2^30 of the samples and 4 of the doubled spectrum.
        """
        energy_bits = self.weight_bits + 2 + 2 * WINDOW_BITS + np.log2(self.frame)
        return round((self._steps(10 * np.log10(2)) * energy_bits - self._steps(OFFSET_DB)) * 2**FRACTION_BITS)

    def _steps(self, decibels: float) -> float:
        return float(decibels / LOUDEST_DB / self.step)

    @cached_property
    def window(self) -> Ints:
        """Return a symmetric Hamming window [frame], of WINDOW_BITS."""
        phase = 2 * np.pi * np.arange(self.frame) / (self.frame - 1)
        return np.round((0.54 - 0.46 * np.cos(phase)) * (2**WINDOW_BITS - 1)).astype(np.int64)

    @property
    def corners(self) -> tuple[Floats, Floats]:
        """Return the ends of the bands and the bins on the mel scale, on which the triangles are straight."""
        edges = np.linspace(mel(self.lowest), mel(self.highest), self.bands + 2)
        return edges, np.array([mel(k * self.rate / self.frame) for k in range(self.frame // 2)])


def wake_word_mel(step: float) -> WakeWordMel:
    """Return the features for a network whose input has the scale `step`; its zero point must be -128. Raise CompileError
    where the scale is no log-mel's."""
    features = WakeWordMel(RATE, FRAME, HOP, BANDS, 0.0, RATE / 2, step=step)
    if not 0 < step < 1 or features.doubling >= LARGEST_DOUBLING:
        raise CompileError(
            f"a network's input of {step:g} a step is no log-mel of 0 .. 1", "give a network that was trained on it"
        )
    return features
