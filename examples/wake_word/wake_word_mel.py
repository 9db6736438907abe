"""Features of MLPerf Tiny's streaming wake word, in integers. In: 16 kHz samples. Out: int8 [frames, 40].

Every 32 ms from the last 64 ms, pre-emphasis by 1 - 2^-5, Hamming window; a feature is (52 + 10 log10(power)) / 64 of a mel
band, in 0 .. 1. github.com/mlcommons/tiny (benchmark/training/streaming_wakeword) computes it in floats, but casts values above
127 to int8, which C leaves undefined; here they are 127.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2, log10

import numpy as np

from tinynas.tasks.features import WINDOW_BITS, Floats, Ints, LogMel, as_ints, mel
from tinyweave.ir import CompileError

RATE, FRAME, HOP, BANDS = 16_000, 1024, 512, 40
LOUDEST_DB, OFFSET_DB = 64.0, 52.0
FRACTION_BITS = 12
LARGEST_DOUBLING = 1 << 16  # limit of the table of logarithms, which has 16 bits


@dataclass(frozen=True)
class WakeWordMel(LogMel):
    """The features of MLPerf Tiny's streaming wake word: their settings, and their computation in integers."""

    step: float = 1 / 256  # scale of the network's int8 input

    weight_bits, log_bits, emphasis_bits, fraction_bits = 10, 8, 5, FRACTION_BITS

    @property
    def doubling(self) -> int:  # type: ignore[override]
        """Return by how many feature steps a feature grows if the power doubles, with FRACTION_BITS fractional bits."""
        return round(self._steps(10 * log10(2)) * (1 << FRACTION_BITS))

    @property
    def quietest(self) -> int:  # type: ignore[override]
        """Return the logarithm of a band's integer energy at -52 dB, in feature steps with FRACTION_BITS fractional bits.

        The energy is the power times `frame`, 2^weight_bits (filters), 2^30 (samples) and 4 (the doubled spectrum).
        """
        energy_bits = self.weight_bits + 2 + 2 * WINDOW_BITS + log2(self.frame)
        return round((self._steps(10 * log10(2)) * energy_bits - self._steps(OFFSET_DB)) * (1 << FRACTION_BITS))

    def _steps(self, decibels: float) -> float:
        """Convert decibels to steps of a feature, which is an int8 input of the network with the scale `step`."""
        return float(decibels / LOUDEST_DB / self.step)

    @cached_property
    def window(self) -> Ints:
        """Return the symmetric Hamming window [frame] with WINDOW_BITS fractional bits."""
        phase = 2 * np.pi * np.arange(self.frame) / (self.frame - 1)
        return as_ints((0.54 - 0.46 * np.cos(phase)) * (2**WINDOW_BITS - 1))

    @property
    def corners(self) -> tuple[Floats, Floats]:
        """Return the corners of the triangular filters [bands + 2], and the centres of the bins [frame / 2], both in mel."""
        edges = np.linspace(mel(self.lowest), mel(self.highest), self.bands + 2)
        return edges, np.array([mel(k * self.rate / self.frame) for k in range(self.frame // 2)])


def wake_word_mel(step: float) -> WakeWordMel:
    """Return the features for an input of scale `step` and zero point -128; raise CompileError if it does not fit 0 .. 1."""
    features = WakeWordMel(RATE, FRAME, HOP, BANDS, 0.0, RATE / 2, step=step)
    if not 0 < step < 1 or features.doubling >= LARGEST_DOUBLING:
        raise CompileError(
            f"an input scale of {step:g} does not fit log-mel features of 0 .. 1", "give a network that was trained on them"
        )
    return features
