"""Log-mel features: those of a reference in floats within a step, and the same bytes in C, on the host and with a sanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tinyweave import toolchain
from tinyweave.ir import CompileError
from tinyweave.tasks.features import QUIETEST, STEPS, LogMel, log_mel

MAIN = """
#include <stdio.h>
#include "log_mel.h"
int main(void)
{
    int16_t samples[LOG_MEL_FRAME];
    int32_t scratch[LOG_MEL_FRAME];
    int8_t features[LOG_MEL_BANDS];
    while (fread(samples, sizeof samples, 1, stdin) == 1) {
        log_mel(samples, scratch, features);
        fwrite(features, sizeof features, 1, stdout);
    }
    return 0;
}
"""
SETTINGS = [log_mel(16000), log_mel(8000, 32), LogMel(16000, 1024, 320, 10, 20, 4000), LogMel(8000, 64, 64, 24, 0, 4000)]


def sounds(frames: int, frame: int) -> NDArray[np.int16]:
    """Noise of all levels, tones, silence, and what is as loud as can be."""
    rng, time = np.random.default_rng(frame), np.arange(frame)
    noise = [rng.normal(0, 10 ** rng.uniform(-1, 4.6), frame) for _ in range(frames)]
    tones = [10 ** rng.uniform(0, 4.5) * np.sin(2 * np.pi * rng.uniform(0, 0.5) * time) for _ in range(frames)]
    square = np.where(time % 2, 32767, -32768), np.full(frame, -32768), np.full(frame, 32767), np.zeros(frame)
    return np.clip(np.round(np.array([*noise, *tones, *square])), -32768, 32767).astype(np.int16)


def in_floats(setting: LogMel, frames: NDArray[np.int16]) -> NDArray[np.float64]:
    spectrum = np.fft.rfft(frames * setting.window / 2**15, axis=1)[:, : setting.frame // 2]
    power = np.abs(2 * spectrum) ** 2
    energy = np.stack([power[:, first : first + len(w)] @ w for first, w in setting.filters], axis=1)
    features = STEPS * np.log2(np.maximum(energy, 1)) - QUIETEST - 128
    return np.clip(features, -128, 127)


@pytest.mark.parametrize("setting", SETTINGS, ids=LogMel.text)
def test_features_are_those_of_floats_within_steps(setting: LogMel) -> None:
    frames = sounds(200, setting.frame)
    apart = np.abs(setting.of(frames)[:, 0] - in_floats(setting, frames))
    assert apart.max() < 2.5 and apart.mean() < 0.25, "far below a loud tone the rounding of the window is heard"


@pytest.mark.parametrize("setting", SETTINGS, ids=LogMel.text)
def test_c_gives_the_same_bytes(setting: LogMel, tmp_path: Path) -> None:
    for name, text in {**setting.c_files(), "main.c": MAIN}.items():
        (tmp_path / name).write_text(text)
    program = tmp_path / "main"
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Werror", "-pedantic"]
    toolchain.compile_c(toolchain.host(), [*flags, tmp_path / "main.c", tmp_path / "log_mel.c", "-o", program])
    frames = sounds(300, setting.frame)
    done = subprocess.run([program], input=frames.tobytes(), capture_output=True, check=True)
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.int8).reshape(len(frames), -1), setting.of(frames)[:, 0])


def test_frames_of_a_recording() -> None:
    setting = log_mel(16000)
    assert (setting.frame, setting.hop, setting.frames(16000)) == (512, 320, 49) and log_mel(8000).frames(8000) == 49
    sound = sounds(20, 16000)
    whole = setting.of(sound)
    assert whole.shape == (len(sound), 49, 40)
    np.testing.assert_array_equal(whole[3, 7], setting.of(sound[3, 7 * 320 : 7 * 320 + 512])[0])
    with pytest.raises(CompileError, match="511 samples hold no frame; give at least 512"):
        setting.of(sound[0, :511])


def test_a_tone_is_loudest_in_its_band() -> None:
    setting = log_mel(16000)
    centres = [float((first + np.arange(len(w))) @ w / w.sum()) * setting.rate / setting.frame for first, w in setting.filters]
    for band in (5, 20, 38):
        tone = 8000 * np.sin(2 * np.pi * centres[band] * np.arange(512) / setting.rate)
        assert abs(int(setting.of(tone.astype(np.int16))[0].argmax()) - band) <= 1
