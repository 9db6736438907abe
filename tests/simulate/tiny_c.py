"""Small hand-written models with the API of emitted ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

HEADER = """
#ifndef TINY_H
#define TINY_H
#include <stddef.h>
#include <stdint.h>
typedef struct { struct { void *data; size_t bytes; } sram; } tiny_memory;
typedef struct {
    void *user;
    int (*read_rows)(void *user, int32_t input, int32_t first, int32_t count, void *destination);
    int (*write_rows)(void *user, int32_t output, int32_t first, int32_t count, const void *source);
} tiny_io;
int tiny_init(const tiny_memory *memory);
void tiny_reset(const tiny_memory *memory);
void *tiny_input(const tiny_memory *memory, int32_t index);
int tiny_invoke(const tiny_memory *memory, const tiny_io *io);
const void *tiny_output(const tiny_memory *memory, int32_t index);
#endif
"""
REST = """
int tiny_init(const tiny_memory *memory) { return memory->sram.data == 0; }
void tiny_reset(const tiny_memory *memory) { (void)memory; }
void *tiny_input(const tiny_memory *memory, int32_t index) { return (int8_t *)memory->sram.data + index; }
const void *tiny_output(const tiny_memory *memory, int32_t index) { return (int8_t *)memory->sram.data + index + 96; }
"""
# calls of write_rows (first row, rows) for an output of 4 rows of 8 bytes, and the fault; None: correct
NO_OUTPUT = REST.replace("return (int8_t *)memory->sram.data + index + 96;", "(void)memory; (void)index; return 0;")
HANDED = [
    ([(0, 1), (1, 2), (3, 1)], None),
    ([(0, 1), (2, 2)], "write_rows out of order"),
    ([(0, 4), (3, 1)], "write_rows out of order"),
    ([(0, 3)], "did not pass on all rows"),
    ([(0, 5)], "write_rows for rows .*do not exist"),
]
# input [0, 32), the dense layer's output [32, 64), unused [64, 96), output [96, 128)
TWO_LAYERS = """
#include "tiny.h"
#include "tiny_weights.h"
#ifndef TW_TRACE
#define TW_TRACE(step, layer) ((void)0)
#else
void TW_TRACE(int32_t step, int32_t layer);
#endif
__attribute__((noinline)) static void dense(const int8_t *in, int8_t *out)
{
    for (int32_t o = 0; o < 32; ++o) {
        int32_t sum = dense_0_bias[o];
        for (int32_t i = 0; i < 32; ++i) {
            sum += in[i] * dense_0_weights[o * 32 + i];
        }
        out[o] = (int8_t)(sum >> 10);
    }
}
int tiny_invoke(const tiny_memory *memory, const tiny_io *io)
{
    int8_t *arena = memory->sram.data;
    (void)io;
    dense(arena, arena + 32);
    TW_TRACE(0, -1);
    for (int32_t i = 0; i < 32; ++i) {
        arena[96 + i] = arena[32 + i] < 0 ? 0 : arena[32 + i];
    }
    TW_TRACE(1, -1);
    return 0;
}
"""
WEIGHTS = np.random.default_rng(5).integers(-127, 128, (32, 32))
BIAS = np.random.default_rng(6).integers(-9999, 9999, 32)
X = np.random.default_rng(7).integers(-128, 128, 32)
DENSE = (WEIGHTS @ X + BIAS) >> 10
ARENA = {"sram": 128}
INPUTS = [X.astype(np.int8).tobytes()]


def write(folder: Path, invoke: str, rest: str) -> None:
    def array(dtype: str, name: str, values: np.ndarray) -> str:
        return f"static const {dtype} {name}[{values.size}] = {{{', '.join(map(str, values.reshape(-1)))}}};\n"

    weights = array("int8_t", "dense_0_weights", WEIGHTS) + array("int32_t", "dense_0_bias", BIAS)
    (folder / "tiny.h").write_text(HEADER)
    (folder / "tiny_weights.h").write_text(weights)
    (folder / "tiny.c").write_text(f'#include "tiny.h"\n{invoke}\n{rest}')


def handing_out(calls: Sequence[tuple[int, int]]) -> str:
    """Return the C of a tiny_invoke that streams its input to the output in calls of (first row, rows)."""
    return body("".join(f"io->write_rows(io->user, 0, {row}, {rows}, arena + {8 * row});\n" for row, rows in calls))


def body(statements: str) -> str:
    """Return the C of a tiny_invoke of these statements; `arena` is the start of the memory."""
    head = "int tiny_invoke(const tiny_memory *memory, const tiny_io *io)\n{\n"
    head += "int8_t *arena = memory->sram.data; (void)arena; (void)io;\n"
    return f"{head}{statements}\nreturn 0;\n}}\n"
