"""Log-mel features and MFCC: close to a reference in floats; equal bytes in Python, in C on the host and on emulated cores."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.strict import sanitizers
from numpy.typing import NDArray
from wake_word_mel import wake_word_mel

from tinynas.tasks.features import QUIETEST, STEPS, LogMel, log_mel
from tinyweave.ir import CompileError
from tinyweave.simulate import emulated
from tinyweave.support import toolchain

MAIN = """
#include <stdio.h>
#include "log_mel.h"
int main(void)
{
    int16_t samples[LOG_MEL_SAMPLES];
    int32_t scratch[LOG_MEL_FRAME];
    int8_t features[LOG_MEL_FEATURES];
    while (fread(samples, sizeof samples, 1, stdin) == 1) {
        log_mel(samples, scratch, features);
        fwrite(features, sizeof features, 1, stdout);
    }
    return 0;
}
"""
ON_CORE = """
#include "log_mel.h"
#define BYTES (COUNT * 2 * LOG_MEL_FRAME)
int32_t sound_init(void *const *memory) { (void)memory; return 0; }
int32_t sound_reset(void *const *memory) { (void)memory; return 0; }
void *sound_input(void *const *memory, int32_t index) { (void)index; return *memory; }
void *sound_output(void *const *memory, int32_t index) { (void)index; return (uint8_t *)*memory + BYTES; }
int32_t sound_invoke(void *const *memory, const void *io)
{
    static int32_t scratch[LOG_MEL_FRAME];
    int8_t *features = sound_output(memory, 0);
    (void)io;
    for (int32_t i = 0; i < COUNT; i++, features += LOG_MEL_FEATURES)
        log_mel((const int16_t *)*memory + i * LOG_MEL_FRAME, scratch, features);
    return 0;
}
"""
MFCC = [log_mel(16000, coefficients=10), LogMel(8000, 64, 64, 24, 0, 4000, 24), LogMel(8000, 64, 64, 1, 0, 4000, 1)]
SETTINGS = [log_mel(16000), log_mel(8000, 32), LogMel(16000, 1024, 320, 10, 20, 4000), LogMel(8000, 64, 64, 24, 0, 4000)]


def sounds(frames: int, frame: int) -> NDArray[np.int16]:
    """Return noise of all levels, tones, silence, and full-scale sound."""
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
def test_features_differ_from_those_in_floats_by_less_than_3_steps(setting: LogMel) -> None:
    frames = sounds(200, setting.frame)
    apart = np.abs(setting.of(frames)[:, 0] - in_floats(setting, frames))
    assert apart.max() < 2.5 and apart.mean() < 0.25, "far below a loud tone the rounding of the window is heard"


@pytest.mark.parametrize("setting", MFCC, ids=LogMel.text)
def test_mfcc_are_the_cosine_transform_of_the_bands(setting: LogMel) -> None:
    """The DCT-II gives the mean of the bands and 4 times each cosine coefficient, rounded and clipped."""
    frames = sounds(200, setting.frame)
    bands = replace(setting, coefficients=0).of(frames)[:, 0].astype(np.float64)
    expected = np.empty((len(frames), setting.coefficients))
    for k in range(setting.coefficients):
        cosines = [np.cos(np.pi * k * (2 * band + 1) / (2 * setting.bands)) for band in range(setting.bands)]
        expected[:, k] = (4 if k else 1) * (bands * cosines).sum(axis=1) / setting.bands
    found = setting.of(frames)[:, 0]
    assert found.shape == expected.shape and setting.per_frame == setting.coefficients
    assert np.abs(found - np.clip(expected, -128, 127)).max() < 0.55, "half a step, and the rounding of the cosines"
    assert np.abs(setting.terms).max() < 2**15 and (setting.coefficients == 1 or np.abs(setting.terms).max() >= 2**14)
    silent = setting.of(np.zeros((1, setting.frame), np.int16))[0, 0]
    np.testing.assert_array_equal(silent, setting.silence)


@pytest.mark.emulator
@pytest.mark.parametrize(("setting", "core"), [(MFCC[0], "cortex-m4"), (MFCC[1], "cortex-m0plus"), (SETTINGS[3], "cortex-m4")])
def test_an_emulated_core_gives_the_bytes_of_python(setting: LogMel, core: str, tmp_path: Path, emulator: None) -> None:
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    frames = sounds(12, setting.frame)
    for file, text in {**setting.c_files(), "sound.c": ON_CORE, "sound.h": "#include <stdint.h>\n"}.items():
        (tmp_path / file).write_text(f"#define COUNT {len(frames)}\n{text}" if file == "sound.c" else text)
    size = len(frames) * setting.per_frame
    built = emulated.build(tmp_path, "sound", core)
    done = emulated.invoke(built, {"sram": frames.nbytes + size}, [frames.tobytes()], [size])
    assert done.outputs[0] == setting.of(frames)[:, 0].tobytes()


@pytest.mark.parametrize("setting", [*SETTINGS, *MFCC, wake_word_mel(0.0037)], ids=LogMel.text)
def test_c_gives_the_bytes_of_python(setting: LogMel, tmp_path: Path) -> None:
    for name, text in {**setting.c_files(), "main.c": MAIN}.items():
        (tmp_path / name).write_text(text)
    program = tmp_path / "main"
    flags = [
        "-std=c99",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Wno-sign-conversion",
        "-Wcast-qual",
        "-Werror",
        "-pedantic",
    ]
    compiler = toolchain.host()
    flags += sanitizers(compiler.name)
    toolchain.compile_c(compiler, [*flags, tmp_path / "main.c", tmp_path / "log_mel.c", "-o", program])
    frames = sounds(300, setting.frame)
    given = np.pad(frames, ((0, 0), (setting.before, 0)))
    done = subprocess.run([program], input=given.tobytes(), capture_output=True, check=True)
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.int8).reshape(len(frames), -1), setting.of(frames)[:, 0])


def test_frames_of_a_recording_start_a_hop_apart() -> None:
    setting = log_mel(16000)
    assert (setting.frame, setting.hop, setting.frames(16000)) == (512, 320, 49) and log_mel(8000).frames(8000) == 49
    sound = sounds(20, 16000)
    whole = setting.of(sound)
    assert whole.shape == (len(sound), 49, 40)
    np.testing.assert_array_equal(whole[3, 7], setting.of(sound[3, 7 * 320 : 7 * 320 + 512])[0])
    with pytest.raises(CompileError, match="511 samples are shorter than a frame; give at least 512"):
        setting.of(sound[0, :511])


def test_a_tone_is_loudest_in_its_mel_band() -> None:
    setting = log_mel(16000)
    centres = [float((first + np.arange(len(w))) @ w / w.sum()) * setting.rate / setting.frame for first, w in setting.filters]
    for band in (5, 20, 38):
        tone = 8000 * np.sin(2 * np.pi * centres[band] * np.arange(512) / setting.rate)
        assert abs(int(setting.of(tone.astype(np.int16))[0].argmax()) - band) <= 1
