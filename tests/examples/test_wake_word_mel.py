"""The features of MLPerf Tiny's wake word differ by at most a step from its floats; test_features.py tests their C."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from wake_word_mel import WakeWordMel, wake_word_mel

from tinyweave.ir import CompileError

STEP = 0.0037  # nearly that of the benchmark's network


def mel(hertz: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return np.asarray(1127 * np.log1p(np.asarray(hertz) / 700))


def in_floats(sound: NDArray[np.int16]) -> NDArray[np.float64]:
    """Return (52 dB + 10 log10(power of each band)) / 64 per frame, neither clipped nor rounded."""
    values = sound / 32768 - 0.96875 * np.concatenate([[0], sound[:-1] / 32768])
    count = (len(sound) - 1024) // 512 + 1
    frames = values[512 * np.arange(count)[:, None] + np.arange(1024)] * np.hamming(1024)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2 / 1024
    edges, bins = np.linspace(0, mel(8000), 42), mel(np.linspace(0, 8000, 513))
    rising, falling = ((bins[:, None] - edges[None]) / (edges[1] - edges[0]) * sign for sign in (1, -1))
    weights = np.maximum(0, np.minimum(rising[:, :40], falling[:, 2:]))
    weights[0] = 0
    return (10 * np.log10(np.maximum(power @ weights, 1e-30)) + 52) / 64


def speech() -> NDArray[np.int16]:
    """Return noise and tones of all levels, some of them too loud, and silence."""
    rng, time = np.random.default_rng(5), np.arange(16_000)
    level = np.exp(np.interp(time, np.arange(0, 17_000, 1000), rng.uniform(0, 10, 17)))
    tones = sum(np.sin(2 * np.pi * rng.uniform(0, 0.5) * time + rng.uniform(0, 6)) for _ in range(5))
    noise = rng.normal(0, 1, len(time)) * (rng.uniform(size=len(time)) < 0.5)
    loud = [np.clip(level * each, -32768, 32767) for each in (tones, noise, tones + noise)]
    square = 32767 * np.sign(np.sin(2 * np.pi * time / 5.3))
    return np.concatenate([*loud, square, np.zeros(3000), loud[1] / 30]).astype(np.int16)


def test_features_are_those_of_the_benchmark_within_a_step() -> None:
    """The reference truncates toward 0, as a cast in C does, and saturates at the largest int8."""
    sound = speech()
    found, real = wake_word_mel(STEP).of(sound).astype(int), in_floats(sound) / STEP - 128
    wanted = np.trunc(np.clip(real, -128, None))
    assert (wanted > 127).any() and (wanted == -128).any() and len(np.unique(wanted)) > 256
    apart = np.abs(found - np.clip(wanted, None, 127))
    assert apart.max() <= 1 and apart.mean() < 0.03, "where a value lies between two steps, rounding decides"


def test_a_frame_depends_on_the_sample_before_it() -> None:
    features, sound = wake_word_mel(STEP), speech()[:2048]
    whole, later = features.of(sound), features.of(sound[512:])
    np.testing.assert_array_equal(whole[2], later[1])
    assert (whole[1] != later[0]).any(), "the first frame of a stream has silence before it"
    assert (features.silence == -128).all() and (features.of(np.zeros(1024, np.int16)) == -128).all()


def test_the_window_is_hamming_s_with_equal_ends() -> None:
    window = wake_word_mel(STEP).window
    assert window[0] == window[-1]
    np.testing.assert_allclose(window / 32767, np.hamming(1024), atol=0.5 / 32767 + 1e-9)


def test_weights_of_the_mel_bands_sum_to_1_at_each_frequency() -> None:
    features = wake_word_mel(STEP)
    shares = np.zeros(512)
    for first, weights in features.filters:
        shares[first : first + len(weights)] += weights
    assert len(features.filters) == 40 and shares[0] == 0
    middles = mel(8000) / 41, mel(8000) / 41 * 40  # of the first and of the last band
    inside = (mel(np.arange(512) * 15.625) > middles[0]) & (mel(np.arange(512) * 15.625) < middles[1])
    assert inside.sum() > 400 and np.abs(shares[inside] - 2**features.weight_bits).max() <= 1


@pytest.mark.parametrize("step", [0.0, 1.0, 1e-4, -0.5, float("nan")])
def test_a_scale_that_cannot_hold_the_features_is_refused(step: float) -> None:
    with pytest.raises(CompileError, match=r"does not fit log-mel features of 0 \.\. 1; give a network"):
        wake_word_mel(step)


def test_energies_of_the_loudest_sounds_fit_63_bits() -> None:
    """Parseval's theorem bounds the sum of all energies; the bound times the weights fits."""
    features = wake_word_mel(STEP)
    assert isinstance(features, WakeWordMel)
    loudest = 32768 * (2 - 2**-features.emphasis_bits)
    total = 4 * features.frame / 2 * (loudest * features.window / 2**15) @ (loudest * features.window / 2**15)
    assert total * 2**features.weight_bits < 2**63
    twice = 2 * loudest * 2**features.guard_bits * features.window.sum() / 2**15
    assert twice * 2**0.5 < 2**31, "the spectrum's turned products are of 32 bits"
