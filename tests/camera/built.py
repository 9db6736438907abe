"""The camera's C built for the host with sanitizers, and a program that feeds it pictures."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cases import strict
from numpy.typing import NDArray

from tinyweave.camera.pixels import FORMATS
from tinyweave.camera.row_source import HERE, RowSource, memory_bytes
from tinyweave.support import toolchain

SOURCES = sorted(HERE.glob("*.c"))
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tw_row_source.h"

static const uint8_t *lines;
static int32_t expected, line_bytes;

static int32_t read_line(void *user, int32_t line, uint8_t *destination)
{
    (void)user;
    if (line != expected++) {
        return -77;
    }
    memcpy(destination, lines + (size_t)line * (size_t)line_bytes, (size_t)line_bytes);
    return 0;
}

int main(void)
{
    int32_t head[12]; /* those of tw_picture, rows at once, bytes of memory */
    int8_t values[256];
    while (fread(head, sizeof head, 1, stdin) == 1 && fread(values, sizeof values, 1, stdin) == 1) {
        const tw_picture picture = {head[0], head[1], head[2], head[3], head[4], head[5], head[6],
                                    head[7], head[8], head[9], values};
        const size_t row = (size_t)head[8] * (size_t)head[9];
        line_bytes = TW_LINE_BYTES(head[0], head[2]);
        const size_t size = (size_t)head[1] * (size_t)line_bytes;
        uint8_t *data = malloc(size), *memory = malloc((size_t)head[11]);
        int8_t *out = malloc(row * (size_t)head[10]);
        tw_row_source source;
        int failed = fread(data, 1, size, stdin) != size;
        lines = data;
        failed |= tw_row_source_begin(&source, &picture, read_line, NULL, memory, head[11] - 1) != -1; /* too few */
        failed |= tw_row_source_begin(&source, &picture, read_line, NULL, memory, head[11]) != 0;
        expected = head[3];
        failed |= tw_row_source_rows(&source, 0, 1, 1, out) != -1;                   /* not in order */
        failed |= tw_row_source_rows(&source, 0, 0, head[7] + 1, out) != -1;         /* too many */
        failed |= failed || tw_row_source_rows(&source, 0, 0, 1, out) != 0;          /* row 0 begins anew below */
        for (int32_t first = 0; first < head[7] && !failed;) {
            const int32_t count = first + head[10] > head[7] ? head[7] - first : head[10];
            if (first == 0) {
                expected = head[3];
            }
            failed = tw_row_source_rows(&source, 0, first, count, out);
            fwrite(out, 1, row * (size_t)count, stdout);
            first += count;
        }
        free(data);
        free(memory);
        free(out);
        if (failed) {
            return 1;
        }
    }
    return 0;
}
"""

# prints for each tw_picture whether it is refused, given the bytes and the misalignment of its memory
BEGINS = r"""
#include <stdio.h>
#include "tw_row_source.h"

static int32_t read_line(void *user, int32_t line, uint8_t *destination)
{
    (void)user;
    (void)line;
    (void)destination;
    return -1;
}

int main(void)
{
    static uint32_t memory[1 << 16];
    static int8_t values[256];
    int32_t h[12];
    while (fread(h, sizeof h, 1, stdin) == 1) {
        const tw_picture picture = {h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], values};
        tw_row_source source;
        void *place = h[11] < 0 ? NULL : (uint8_t *)memory + h[11];
        printf("%d\n", (int)tw_row_source_begin(&source, &picture, read_line, NULL, place, h[10]));
    }
    return 0;
}
"""


def program(folder: Path, text: str, *, sanitizers: bool = True) -> Path:
    """Compile a main with the camera's C and sanitizers, so that undefined behaviour stops the program."""
    compiler = toolchain.host()
    flags = ["-std=c99", "-O1", "-g", *(strict.sanitizers(compiler.name) if sanitizers else ())]
    (folder / "main.c").write_text(text)
    objects = toolchain.objects(compiler, flags, [*SOURCES, *HERE.glob("*.h")])
    built = folder / "main"
    toolchain.compile_c(compiler, [*flags, f"-I{HERE}", folder / "main.c", *objects, "-o", built])
    return built


def request(
    source: RowSource, shape: tuple[int, int, int], values: NDArray[np.int8], picture: bytes, at_once: int = 1
) -> bytes:
    """Return the input of PROGRAM for one picture."""
    rows, columns, channels = shape
    head = [FORMATS.index(source.form), source.height, source.width, source.top, source.left, source.rows, source.columns]
    head += [rows, columns, channels, at_once, memory_bytes(source, shape)]
    return struct.pack("<12i", *head) + values.tobytes() + picture


def outputs_of(built: Path, requests: Sequence[bytes]) -> bytes:
    done = subprocess.run([built], input=b"".join(requests), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout
