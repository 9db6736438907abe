"""Spoken-digit audio to the int8 features that the network reads; numpy and the standard library only.

In: 8 kHz mono 16-bit WAV files. Out: int8 [49, 32, 1], a log-mel spectrogram of one second: 49 frames of 32 ms, one every
20 ms, 32 triangular bands from 60 Hz to 4 kHz, in quarters of a decibel below the loudest value of the recording.
Source: mel scale and triangles as in HTK (S. Young et al., The HTK Book, section 5.4); S. Davis and P. Mermelstein, 1980.
"""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

SAMPLE_RATE_HZ = 8000
SAMPLES = SAMPLE_RATE_HZ  # one second
FRAME = 256  # 32 ms, also the length of the FFT
HOP = 160  # 20 ms
FRAMES = 1 + (SAMPLES - FRAME) // HOP
BANDS = 32
LOW_HZ, HIGH_HZ = 60.0, 4000.0
RANGE_DB = 64.0

# real = SCALE * (int8 - ZERO_POINT) runs from 0 (RANGE_DB below the loudest, and silence) up to just below 1 (the loudest)
SCALE, ZERO_POINT = 1 / 256, -128


def read_wav(path: Path) -> np.ndarray:
    """The samples of a WAV file, float64 in [-1, 1)."""
    with wave.open(str(path), "rb") as file:
        layout = (file.getframerate(), file.getnchannels(), file.getsampwidth())
        if layout != (SAMPLE_RATE_HZ, 1, 2):
            raise ValueError(f"{path}: expected 8 kHz mono 16 bit, found rate, channels, bytes = {layout}")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float64) / 32768


def one_second(samples: np.ndarray, shift: int = 0) -> np.ndarray:
    """`samples` centred in one second, moved right by `shift`: silence around a short recording, the middle of a long one."""
    margin = SAMPLES + abs(shift)
    padded = np.pad(samples, margin)
    start = margin - (SAMPLES - len(samples)) // 2 - shift
    return padded[start : start + SAMPLES]


def mel_filters() -> np.ndarray:
    """[FRAME // 2 + 1, BANDS]: triangles whose corners are equally spaced in mel = 2595 log10(1 + f / 700)."""
    low, high = (2595 * np.log10(1 + f / 700) for f in (LOW_HZ, HIGH_HZ))
    corners = 700 * (10 ** (np.linspace(low, high, BANDS + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(FRAME, 1 / SAMPLE_RATE_HZ)[:, None]
    left, centre, right = corners[:-2], corners[1:-1], corners[2:]
    return np.clip(np.minimum((bins - left) / (centre - left), (right - bins) / (right - centre)), 0, None)


def log_mel(seconds: np.ndarray) -> np.ndarray:
    """[n, SAMPLES] audio -> int8 [n, FRAMES, BANDS, 1]; how loud the recording is as a whole makes no difference."""
    starts = np.arange(FRAMES) * HOP
    frames = seconds[:, starts[:, None] + np.arange(FRAME)] * np.hanning(FRAME)
    bands = (np.abs(np.fft.rfft(frames)) ** 2) @ mel_filters()
    decibel = 10 * np.log10(bands + 1e-12)
    below_loudest = decibel - decibel.max(axis=(1, 2), keepdims=True)
    real = np.maximum(1 + below_loudest / RANGE_DB, 0)
    return np.clip(np.rint(real / SCALE) + ZERO_POINT, -128, 127).astype(np.int8)[..., None]


def label(name: str) -> int:
    """The digit spoken in a file named digit_speaker_take.wav."""
    return int(name.split("_", maxsplit=1)[0])


def take(name: str) -> int:
    """The number of the recording in a file named digit_speaker_take.wav."""
    return int(Path(name).stem.split("_")[2])
