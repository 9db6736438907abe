"""bench/peers.py measures a convolution beside a stand-in for CMSIS-NN, whose types have members in the same order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cases.ops import cases

from tinyweave.exporters.tflite import to_tflite
from tinyweave.simulate import emulated
from tinyweave.support import toolchain

SCRIPT, CORE = Path(__file__).parents[2] / "bench" / "peers.py", "cortex-m3"
HEADER = """#include <stdint.h>
typedef struct { void *memory; int32_t bytes; } cmsis_nn_context;
typedef struct { int32_t x, y; } pair;
typedef struct { int32_t zero_in, zero_out; pair step, before, spread, clamp; } cmsis_nn_conv_params;
typedef struct { const int32_t *factor, *power; } cmsis_nn_per_channel_quant_params;
typedef struct { int32_t n, h, w, c; } cmsis_nn_dims;
typedef const cmsis_nn_dims *dims;
typedef const cmsis_nn_per_channel_quant_params *factors;
int arm_convolve_wrapper_s8(const cmsis_nn_context *m, const cmsis_nn_conv_params *p, factors q, dims i, const int8_t *x,
                            dims f, const int8_t *w, dims b, const int32_t *bias, dims o, int8_t *y);
int arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params *p, dims i, dims f, dims o);
"""
LIBRARY = """#include "arm_nnfunctions.h"
int arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params *p, dims i, dims f, dims o) { return BYTES; }
int arm_convolve_wrapper_s8(const cmsis_nn_context *m, const cmsis_nn_conv_params *p, factors q, dims i, const int8_t *x,
                            dims f, const int8_t *w, dims b, const int32_t *bias, dims o, int8_t *y)
{
    for (int32_t at = 0; at < COUNT; at++) {
        const int32_t c = at % o->c, column = at / o->c % o->w, row = at / o->c / o->w, size = f->h * f->w * f->c;
        int32_t sum = bias[c];
        for (int32_t tap = 0; tap < size; tap++) {
            const int32_t h = row * p->step.y - p->before.y + tap / f->c / f->w * p->spread.y;
            const int32_t v = column * p->step.x - p->before.x + tap / f->c % f->w * p->spread.x;
            if (h >= 0 && h < i->h && v >= 0 && v < i->w)
                sum += (x[(h * i->w + v) * i->c + tap % f->c] + p->zero_in) * w[c * size + tap];
        }
        const int32_t left = q->power[c] > 0 ? q->power[c] : 0, right = left - q->power[c], mask = (1 << right) - 1;
        const int32_t high = (int32_t)(((int64_t)(sum << left) * q->factor[c] + (1 << 30)) >> 31);
        const int32_t out = (high >> right) + ((high & mask) > (mask >> 1) + (high < 0)) + p->zero_out;
        y[at] = (int8_t)(out < p->clamp.x ? p->clamp.x : out > p->clamp.y ? p->clamp.y : out);
    }
    return 0;
}
"""


@pytest.mark.parametrize(("count", "size", "code"), [("o->h * o->w * o->c", "16", 0), ("1", "16", 1), ("1", "1 << 20", 2)])
def test_a_layer_is_measured_beside_a_library(count: str, size: str, code: int, tmp_path: Path, emulator: None) -> None:
    """The second library computes one value, and so is faster and wrong; the third asks for too much scratch."""
    compiler = emulated.COMPILERS["arm"]()
    if compiler.name == "zig":
        pytest.skip("needs arm-none-eabi-gcc")
    graph = next(case.graph for case in cases("conv_2d") if case.id.endswith("3x3/2-same-on-10x7-3to16"))
    (tmp_path / "net.tflite").write_bytes(to_tflite(graph))
    (tmp_path / "arm_nnfunctions.h").write_text(HEADER)
    (tmp_path / "library.c").write_text(LIBRARY)
    flags = [*emulated.flags_for(CORE, compiler), f"-DCOUNT={count}", f"-DBYTES={size}", "-c", "-w"]
    toolchain.compile_c(compiler, [*flags, tmp_path / "library.c", "-o", tmp_path / "library.o"])
    options = ["--cores", "m3", "--library", tmp_path / "library.o", "--include", tmp_path]
    command = [sys.executable, SCRIPT, tmp_path / "net.tflite", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| net | ")]
    assert done.returncode == code, done.stderr
    if "<<" in size:
        assert rows == [] and "CMSIS-NN's call failed: mark returned the error 1" in done.stderr
        return
    layer, total = rows
    assert layer[2:4] == ["cortex-m3", "1x10x7x3 * 16x3x3x3"] and total[2:5] == ["1", str(code), "-"], done.stderr
    assert layer[5:10] == total[5:], "the sums of one layer are its figures"
    assert (layer[10] == "0") == (float(layer[9]) > 1) == (code == 0)
    if code == 0:
        done = subprocess.run([*command, "--networks"], capture_output=True, text=True, check=True)
        theirs, *ours = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| net | ")]
        assert theirs[2:5] == ["CMSIS-NN", str(10 * 7 * 3 + 5 * 4 * 16), total[7]] and int(theirs[5].replace(",", "")) > 16 * 27
        assert [row[2] for row in ours if "--" not in row[2]] == ["flash", "balanced", "speed"]
