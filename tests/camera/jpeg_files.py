"""JPEG files for tests: an encoder for files that Pillow does not write, a program for the C decoder, and one for libjpeg."""

from __future__ import annotations

import io
import struct
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support import toolchain

Answer = tuple[int, NDArray[np.uint8]]
LARGE_BAND, NO_BUDGET = 1 << 22, 0xFFFFFFFF

PLAYER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tw_jpeg.h"

typedef struct { uint8_t *data; int32_t at, size, chunk; } file;

static int32_t read_bytes(void *user, uint8_t *destination, int32_t count)
{
    file *f = user;
    if (f->chunk < 0 && f->at > 300) {
        return f->chunk == -1 ? -1 : count + 1; /* fails, by a number below 0 or one that is too large */
    }
    int32_t most = f->size - f->at < count ? f->size - f->at : count;
    most = f->chunk > 0 && f->chunk < most ? f->chunk : most;
    memcpy(destination, f->data + f->at, (size_t)most);
    f->at += most;
    return most;
}

int main(void)
{
    int32_t head[6]; /* bytes, channels, budget, bytes of the band, bytes at once, every n-th line */
    while (fread(head, sizeof head, 1, stdin) == 1) {
        file f = {malloc((size_t)head[0] + 1), 0, head[0], head[4]};
        uint8_t *band = malloc((size_t)head[3]);
        tw_jpeg *decoder = malloc(sizeof *decoder);
        if (fread(f.data, 1, (size_t)head[0], stdin) != (size_t)head[0]) {
            return 1;
        }
        int32_t answer[3] = {tw_jpeg_begin(decoder, read_bytes, &f, (uint32_t)head[2], head[1], band, head[3]), 0, 0};
        size_t used = 0;
        uint8_t *lines = malloc(1), *line = NULL;
        if (answer[0] == 0) {
            const size_t bytes = (size_t)decoder->width * (size_t)head[1];
            line = malloc(bytes);
            answer[2] = decoder->width;
            for (int32_t y = head[5] - 1; y < decoder->height; y += head[5]) {
                answer[0] = tw_jpeg_line(decoder, y, line);
                if (answer[0] != 0) {
                    break;
                }
                lines = realloc(lines, used + bytes);
                memcpy(lines + used, line, bytes);
                used += bytes;
                answer[1]++;
            }
            if (answer[0] == 0 && tw_jpeg_line(decoder, decoder->height, line) != TW_JPEG_ORDER) {
                return 2;
            }
            if (answer[0] != 0 && tw_jpeg_line(decoder, 0, line) != answer[0]) {
                return 3;
            }
        }
        fwrite(answer, sizeof answer, 1, stdout);
        fwrite(lines, 1, used, stdout);
        free(f.data);
        free(band);
        free(decoder);
        free(line);
        free(lines);
    }
    return 0;
}
"""

LIBJPEG = r"""
#include <stdio.h>
#include <stdlib.h>
#include <jpeglib.h>
int main(void)
{
    int head[2];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        unsigned char *data = malloc((size_t)head[0]), *line;
        struct jpeg_decompress_struct info;
        struct jpeg_error_mgr errors;
        if (fread(data, 1, (size_t)head[0], stdin) != (size_t)head[0]) {
            return 1;
        }
        info.err = jpeg_std_error(&errors);
        jpeg_create_decompress(&info);
        jpeg_mem_src(&info, data, (unsigned long)head[0]);
        jpeg_read_header(&info, TRUE);
        info.out_color_space = head[1] == 1 ? JCS_GRAYSCALE : JCS_RGB;
        info.dct_method = JDCT_ISLOW;
        info.do_fancy_upsampling = FALSE;
        jpeg_start_decompress(&info);
        line = malloc((size_t)info.output_width * 3);
        while (info.output_scanline < info.output_height) {
            jpeg_read_scanlines(&info, &line, 1);
            fwrite(line, 1, (size_t)info.output_width * (size_t)head[1], stdout);
        }
        jpeg_finish_decompress(&info);
        jpeg_destroy_decompress(&info);
        free(line);
        free(data);
    }
    return 0;
}
"""


def decoded_in_c(
    player: Path,
    files: Sequence[bytes],
    channels: int = 3,
    *,
    budget: int = NO_BUDGET,
    band: int = LARGE_BAND,
    chunk: int = 0,
    every: int = 1,
) -> list[Answer]:
    """Return the C decoder's result for files: 0 or an error, and the decoded lines."""
    given = b"".join(struct.pack("<2iI3i", len(f), channels, budget, band, chunk, every) + f for f in files)
    done = subprocess.run([player], input=given, capture_output=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr.decode()[-2000:])
    answers, at = [], 0
    for _ in files:
        status, lines, width = struct.unpack_from("<3i", done.stdout, at)
        count = lines * width * channels
        pixels = np.frombuffer(done.stdout, np.uint8, count, at + 12).reshape(lines, width, channels)
        answers.append((status, pixels))
        at += 12 + count
    assert at == len(done.stdout)
    return answers


def libjpeg(folder: Path) -> Path | None:
    """Build a program that decodes with libjpeg without colour interpolation; None if its header is missing."""
    source, program = folder / "libjpeg.c", folder / "libjpeg"
    source.write_text(LIBJPEG)
    try:
        toolchain.compile_c(toolchain.host(), ["-fno-sanitize=undefined", source, "-ljpeg", "-o", program])
    except CompileError:
        return None
    return program


def by_libjpeg(program: Path, file: bytes, channels: int = 3) -> bytes:
    given = struct.pack("<2i", len(file), channels) + file
    return subprocess.run([program], input=given, capture_output=True, check=True).stdout


@lru_cache
def code_tables() -> list[tuple[int, bytes, bytes]]:
    """Return the standard Huffman tables from a file of Pillow: number, count of codes per length, symbols."""
    from PIL import Image

    Image.new("RGB", (8, 8)).save(stream := io.BytesIO(), "JPEG", optimize=False)
    data, tables = stream.getvalue(), []
    at = 2
    while data[at + 1] != 0xDA:
        length = struct.unpack_from(">H", data, at + 2)[0]
        segment = data[at + 4 : at + 2 + length]
        while data[at + 1] == 0xC4 and segment:
            count = sum(segment[1:17])
            tables.append((segment[0], segment[1:17], segment[17 : 17 + count]))
            segment = segment[17 + count :]
        at += 2 + length
    return tables


def random_jpeg(
    size: tuple[int, int],
    sampling: Sequence[tuple[int, int]],
    rng: np.random.Generator,
    *,
    restart: int = 0,
    adobe: int | None = None,
    ids: bytes = b"\x01\x02\x03",
    loud: float = 60,
    quantiser: int = 4,
    drift: int = 0,
) -> bytes:
    """Return a file of random coefficients. size: height, width; sampling: h, w per component; drift: DC step or random."""
    codes = {number: _codes(counts, symbols) for number, counts, symbols in code_tables()}
    h, w = (1, 1) if len(sampling) == 1 else (max(s[0] for s in sampling), max(s[1] for s in sampling))
    rows, columns = -(-size[0] // (8 * h)), -(-size[1] // (8 * w))
    scan, bits = bytearray(), ""
    predicted = [0] * len(sampling)
    for mcu in range(rows * columns):
        if restart and mcu and mcu % restart == 0:
            scan += _stuffed(bits) + bytes([0xFF, 0xD0 + (mcu // restart - 1) % 8])
            bits, predicted = "", [0] * len(sampling)
        for i, (down, across) in enumerate(sampling):
            for _ in range(1 if len(sampling) == 1 else down * across):
                sizes = loud / (1 + np.arange(64))
                block = np.clip(np.round(rng.normal(0, sizes)), -1023, 1023).astype(int)
                block[0] = predicted[i] + drift if drift else block[0]
                bits += _block(block, block[0] - predicted[i], codes[0], codes[16])
                predicted[i] = block[0]
    scan += _stuffed(bits)
    table = bytes([0, *np.clip(rng.integers(1, 2 * quantiser, 64), 1, 255)])
    sizes = struct.pack(">BHHB", 8, *size, len(sampling))
    frame = sizes + b"".join(bytes([ids[i], s[1] << 4 | s[0], 0]) for i, s in enumerate(sampling))
    head = bytes([len(sampling)]) + b"".join(bytes([ids[i], 0]) for i in range(len(sampling))) + bytes([0, 63, 0])
    file = b"\xff\xd8" + _segment(0xDB, table) + _segment(0xC0, frame)
    file += b"" if adobe is None else _segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([adobe]))
    file += b"".join(_segment(0xC4, bytes([n]) + counts + symbols) for n, counts, symbols in code_tables())
    file += _segment(0xDD, struct.pack(">H", restart)) if restart else b""
    return file + _segment(0xDA, head) + bytes(scan) + b"\xff\xd9"


def _codes(counts: bytes, symbols: bytes) -> dict[int, str]:
    code, at, found = 0, 0, {}
    for length, count in enumerate(counts, 1):
        code *= 2
        for _ in range(count):
            found[symbols[at]] = format(code, f"0{length}b")
            code, at = code + 1, at + 1
    return found


def _value(value: int) -> tuple[int, str]:
    size = abs(value).bit_length()
    return size, format(value if value > 0 else value + (1 << size) - 1, f"0{size}b") if size else ""


def _block(block: NDArray[np.int64], difference: int, dc: dict[int, str], ac: dict[int, str]) -> str:
    size, tail = _value(int(difference))
    bits, run = dc[size] + tail, 0
    for i in range(1, 64):
        value = int(block[i])
        if not block[i:].any():
            return bits + ac[0]
        if value == 0:
            run += 1
            continue
        bits += ac[0xF0] * (run // 16)
        size, tail = _value(value)
        bits, run = bits + ac[run % 16 * 16 + size] + tail, 0
    return bits


def _stuffed(bits: str) -> bytes:
    bits += "1" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\0")


def _segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content
