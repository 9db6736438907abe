"""The camera's C on an emulated Cortex-M4 gives the bytes of Python."""

from __future__ import annotations

import io
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from camera.built import request
from camera.jpeg_files import random_jpeg
from camera.test_row_source import random_trial
from jpeg_decoder import decode

from tinyweave.camera.row_source import HERE, input_of, memory_bytes
from tinyweave.simulate import emulated

BAND, CORE = 24 * 64, "cortex-m4"
PROGRAM = r"""
#include <string.h>
#include "tw_jpeg.h"
#include "tw_row_source.h"

/* What lies in memory: how many trials, then of each: bytes, bytes of the result, kind, and the trial itself. */
typedef struct { const uint8_t *data; int32_t at, size; } bytes;

static int32_t line_bytes;

static int32_t read_line(void *user, int32_t line, uint8_t *destination)
{
    memcpy(destination, (const uint8_t *)user + line * line_bytes, (size_t)line_bytes);
    return 0;
}

static int32_t read_bytes(void *user, uint8_t *destination, int32_t count)
{
    bytes *file = user;
    const int32_t most = file->size - file->at < count ? file->size - file->at : count;
    memcpy(destination, file->data + file->at, (size_t)most);
    file->at += most;
    return most;
}

static int32_t play_lines(uint8_t *trial, uint8_t *work, uint8_t *out)
{
    const int32_t *head = (const int32_t *)trial;
    const tw_picture picture = {head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7], head[8], head[9],
                                (const int8_t *)trial + 48};
    tw_row_source source;
    line_bytes = TW_LINE_BYTES(head[0], head[2]);
    if (tw_row_source_begin(&source, &picture, read_line, trial + 48 + 256, work, head[11]) != 0) {
        return -1;
    }
    return tw_row_source_rows(&source, 0, 0, head[7], out);
}

static int32_t play_file(const uint8_t *trial, int32_t size, uint8_t *work, uint8_t *out)
{
    bytes file = {trial, 0, size};
    static tw_jpeg decoder;
    int32_t failed = tw_jpeg_begin(&decoder, read_bytes, &file, 1 << 20, 3, work, BAND);
    for (int32_t line = 0; failed == 0 && line < decoder.height; ++line) {
        failed = tw_jpeg_line(&decoder, line, out + line * decoder.width * 3);
    }
    return failed;
}

int32_t trials_init(void *const *memory) { (void)memory; return 0; }
int32_t trials_reset(void *const *memory) { (void)memory; return 0; }
void *trials_input(void *const *memory, int32_t index) { (void)index; return *memory; }
void *trials_output(void *const *memory, int32_t index) { (void)index; return *memory; }

int32_t trials_invoke(void *const *memory, const void *io)
{
    uint8_t *at = *memory;
    const int32_t *all = *memory;
    uint8_t *work = at + all[1], *out = at + all[2];
    (void)io;
    at += 12;
    for (int32_t i = 0; i < all[0]; ++i) {
        const int32_t *head = (const int32_t *)at;
        int32_t failed = head[2] ? play_file(at + 12, head[0], work, out) : play_lines(at + 12, work, out);
        if (failed != 0) {
            return failed;
        }
        out += head[1];
        at += 12 + (head[0] + 3) / 4 * 4;
    }
    return 0;
}
"""


def file_trial(data: bytes, wanted: list[bytes]) -> bytes:
    """Return the trial of a file, and append its expected output to `wanted`."""
    wanted.append(decode(data).tobytes())
    return struct.pack("<3i", len(data), len(wanted[-1]), 1) + data


@pytest.mark.emulator
def test_an_emulated_core_gives_the_bytes_of_python(tmp_path: Path, emulator: None) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(4)
    trials, wanted, work = list[bytes](), list[bytes](), BAND
    for _ in range(150):
        source, shape, values, picture = random_trial(rng, 24)
        wanted.append(input_of(source, picture, shape, values).tobytes())
        data = request(source, shape, values, picture)
        work = max(work, memory_bytes(source, shape))
        trials.append(struct.pack("<3i", len(data), len(wanted[-1]), 0) + data)
    for number in range(12):
        pixels = rng.integers(0, 256, (int(rng.integers(1, 5)), int(rng.integers(1, 5)), 3), np.uint8)
        size = (int(rng.integers(1, 65)), int(rng.integers(1, 65)))
        options = {"quality": int(rng.integers(1, 101)), "subsampling": number % 3, "restart_marker_blocks": number % 4}
        image.fromarray(pixels).resize(size).save(stream := io.BytesIO(), "JPEG", **options)
        trials.append(file_trial(stream.getvalue(), wanted))
    for _ in range(12):  # values at the ends of the range of Huffman codes
        wild = random_jpeg((16, 16), [(2, 2), (1, 1), (1, 1)], rng, loud=10 ** rng.uniform(1, 6), quantiser=128)
        trials.append(file_trial(wild, wanted))
    body = b"".join(data + bytes(-len(data) % 4) for data in trials)
    outputs = b"".join(wanted)
    head = struct.pack("<3i", len(trials), 12 + len(body), 12 + len(body) + -(-work // 4) * 4)
    memory = head + body + bytes(-(-work // 4) * 4 + len(outputs))
    for path in (*HERE.glob("*.c"), *HERE.glob("*.h")):
        shutil.copy(path, tmp_path)
    (tmp_path / "trials.h").write_text("#include <stdint.h>\n")
    (tmp_path / "trials.c").write_text(f"#define BAND {BAND}\n{PROGRAM}")
    run = emulated.invoke(emulated.build(tmp_path, "trials", CORE), {"sram": len(memory)}, [memory], [len(memory)])
    assert run.outputs[0][-len(outputs) :] == outputs
    assert run.outputs[0][: 12 + len(body)] == head + body
