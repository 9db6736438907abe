"""Streamed sound: in any chunks the C computes the features of training at each hop and detects the words that Python does."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cases.strict import c99, sanitizers
from wake_word_mel import WakeWordMel, wake_word_mel

from tinynas.tasks.features import LogMel, log_mel
from tinynas.tasks.listening import c_files, detections, windows
from tinyweave.support import toolchain

FRAMES, STEPS = 7, 4
LISTEN = "#include <stdint.h>\nint32_t listen(const int16_t *, int32_t);\n"
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "log_mel_ring.h"
#include "smoothing.h"

int main(void)
{
    int32_t head[3]; /* threshold, pause, steps of scores of 3 classes */
    static int8_t features[FRAMES * LOG_MEL_FEATURES], window[FRAMES * LOG_MEL_FEATURES], last[STEPS * 3];
    static log_mel_ring ring;
    int32_t sums[3], count;
    smoothing state;
    if (fread(head, sizeof head, 1, stdin) != 1) {
        return 1;
    }
    smoothing_begin(&state, last, sums, 3, STEPS);
    for (int32_t i = 0; i < head[2]; ++i) {
        int8_t scores[3];
        if (fread(scores, sizeof scores, 1, stdin) != 1) {
            return 1;
        }
        const int8_t heard = (int8_t)smoothing_step(&state, scores, head[0], head[1]);
        fwrite(&heard, 1, 1, stdout);
    }
    log_mel_ring_begin(&ring, features, FRAMES);
    if (log_mel_ring_rows(&ring, 0, 1, FRAMES, window) != -1 || log_mel_ring_rows(&ring, 0, -1, 1, window) != -1) {
        return 2;
    }
    while (fread(&count, sizeof count, 1, stdin) == 1) {
        int16_t *samples = malloc((size_t)count * 2 + 1);
        if (fread(samples, 2, (size_t)count, stdin) != (size_t)count) {
            return 1;
        }
        for (int32_t taken = 0; taken < count;) {
            int32_t is_new;
            taken += log_mel_ring_push(&ring, samples + taken, count - taken, &is_new);
            if (is_new) {
                if (log_mel_ring_rows(&ring, 0, 0, 3, window) != 0 ||
                    log_mel_ring_rows(&ring, 0, 3, FRAMES - 3, window + 3 * LOG_MEL_FEATURES) != 0) {
                    return 3;
                }
                fwrite(window, sizeof window, 1, stdout);
            }
        }
        free(samples);
    }
    return 0;
}
"""


def scores_of(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return scores with detected words, and with ties."""
    scores = rng.integers(-128, 0, (count, 3))
    for at in range(5, count - 6, 17):
        scores[at : at + 5, at % 3] = rng.integers(40, 128)
    return np.where(rng.integers(0, 5, (count, 1)) == 0, scores[:, :1], scores).astype(np.int8)


RINGS = [
    log_mel(16000),
    LogMel(8000, 64, 64, 8, 0, 4000),
    LogMel(8000, 64, 100, 8, 0, 4000, 5),
    wake_word_mel(0.0037),
    WakeWordMel(8000, 256, 256, 8, 0, 4000),
    WakeWordMel(8000, 256, 300, 8, 0, 4000),
]


@pytest.mark.parametrize("setting", RINGS)
def test_feature_ring_and_smoothing_in_c_equal_those_of_python(setting: LogMel, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, text in {**setting.c_files(), **c_files(), "main.c": MAIN}.items():
        (tmp_path / name).write_text(text)
    compiler = toolchain.host()
    for name in c_files():
        if name.endswith(".c"):
            toolchain.compile_c(compiler, [*c99(compiler.name), "-c", tmp_path / name, "-o", tmp_path / "strict.o"])
    flags = ["-std=c99", "-O1", *sanitizers(compiler.name)]
    flags += [f"-DFRAMES={FRAMES}", f"-DSTEPS={STEPS}"]
    toolchain.compile_c(compiler, [*flags, *sorted(tmp_path.glob("*.c")), "-o", tmp_path / "main"])
    sound = (
        rng.normal(0, 3000, 40 * setting.hop + setting.frame + 3) * np.linspace(0, 1, 40 * setting.hop + setting.frame + 3)
    ) // 1
    samples = np.clip(sound, -32768, 32767).astype(np.int16)
    scores, given, at = scores_of(rng, 400), b"", 0
    while at < len(samples):
        part = samples[at : at + int(rng.integers(0, 3 * setting.frame))]
        given, at = given + struct.pack("<i", len(part)) + part.tobytes(), at + len(part)
    head = struct.pack("<3i", 30, 6, len(scores)) + scores.tobytes()
    done = subprocess.run([tmp_path / "main"], input=head + given, capture_output=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-1000:])
    heard = detections(scores, STEPS, 30, 6)
    assert {-1, 0, 1, 2} == set(heard)
    assert list(np.frombuffer(done.stdout[: len(scores)], np.int8)) == heard
    want = windows(setting, samples, FRAMES)
    assert done.stdout[len(scores) :] == want.tobytes() and len(want) == 41


def test_the_last_window_of_a_stream_equals_the_features_of_training() -> None:
    """The recording is as long as the network's window."""
    setting = log_mel(16000)
    sound = np.random.default_rng(1).normal(0, 2000, 16000).astype(np.int16)
    np.testing.assert_array_equal(windows(setting, sound, 49)[-1], setting.of(sound))


def test_the_c_of_the_firmware_page_compiles(tmp_path: Path) -> None:
    """The C of docs/FIRMWARE.md is compiled with the header of a keyword network."""
    page = (Path(__file__).parents[3] / "docs" / "FIRMWARE.md").read_text()
    (code,) = (text for text in re.findall(r"```c\n(.*?)```", page, re.DOTALL) if "log_mel_ring.h" in text)
    sizes = {"INPUT_0_DIM_1": 49, "OUTPUT_0_ELEMENTS": 12, "SRAM_BYTES": 100, "ALIGN": 16}
    defines = "\n".join(f"#define NETWORK_{name} {size}" for name, size in sizes.items())
    (tmp_path / "network.h").write_text(
        f"#include <stddef.h>\n#include <stdint.h>\n{defines}\n"
        "typedef struct { struct { void *base; size_t bytes; } sram; } network_memory;\n"
        "int network_init(const network_memory *);\n"
        "int8_t *network_input(const network_memory *, int32_t);\nint8_t *network_output(const network_memory *, int32_t);\n"
        "int network_invoke(const network_memory *, const void *);\n"
    )
    for name, text in {**log_mel(16000).c_files(), **c_files(), "main.c": "void begin(void);\n" + LISTEN + code}.items():
        (tmp_path / name).write_text(text)
    compiler = toolchain.host()
    toolchain.compile_c(
        compiler,
        [
            *c99(compiler.name),
            "-Wno-unused-const-variable",
            "-Wno-sign-conversion",
            "-c",
            tmp_path / "main.c",
            "-o",
            tmp_path / "main.o",
        ],
    )


def test_a_word_is_detected_once() -> None:
    scores = np.full((30, 2), -128, np.int8)
    scores[10:16, 1] = 127
    assert [at for at, heard in enumerate(detections(scores, 4, 64, 10)) if heard >= 0] == [13]
    assert [at for at, heard in enumerate(detections(scores, 4, 64, 0)) if heard >= 0] == [13, 14, 15]
    assert set(detections(scores, 4, 128, 0)) == {-1}
