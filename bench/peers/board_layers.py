"""Do the cycle estimates of a Cortex-M55 agree with layers that were timed on a board?

In: a static library of CMSIS-NN v7.0.0 for the Cortex-M55 (--library; the figures in docs/TIME.md are of GCC 12.2, -Ofast) and
its folder Include (--include). Neither is part of this project. Out: for layers of MobileNetV2 with
CMSIS-NN, the instructions and estimated cycles on the emulated core, beside the cycles that a board took. The board had its
maps in SRAM behind a cache and its weights in MRAM; the estimates leave the time of these memories out. Exit code 1: the board
took fewer cycles than the range, or more for a 1x1 convolution, which reads its inputs from the cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from coremark import linked

from tinyweave.simulate import emulated

CORE = "cortex-m55"
COMMON = """#include <stdint.h>
#include "arm_nnfunctions.h"
typedef struct {{ struct {{ void *data; size_t bytes; }} sram; }} memory;
static int8_t weights[{weights}], scratch[1 << 16] __attribute__((aligned(16)));
static int32_t bias[{filters}], multiplier[{filters}], shift[{filters}];
int mark_init(const memory *m)
{{
    (void)m;
    for (int i = 0; i < {filters}; i++) multiplier[i] = 1 << 30, shift[i] = -6;
    for (int i = 0; i < {weights}; i++) weights[i] = (int8_t)(7 * i);
    return 0;
}}
void mark_reset(const memory *m) {{ (void)m; }}
void *mark_input(const memory *m, int i) {{ (void)i; return m->sram.data; }}
const void *mark_output(const memory *m, int i) {{ (void)i; return (char *)m->sram.data + {input}; }}
int mark_invoke(const memory *m, const void *io)
{{
    int8_t *in = m->sram.data, *out = in + {input};
    const cmsis_nn_context context = {{scratch, sizeof scratch}};
    const cmsis_nn_per_channel_quant_params scales = {{multiplier, shift}};
    const cmsis_nn_dims from = {{1, {side}, {side}, {channels}}}, to = {{1, {out_side}, {out_side}, {filters}}};
    const cmsis_nn_dims biases = {{1, 1, 1, {filters}}};
    (void)io;
    {call}
}}
"""
POINTWISE = """const cmsis_nn_conv_params p = {{128, -3, {{1, 1}}, {{0, 0}}, {{1, 1}}, {{-128, 127}}}};
    const cmsis_nn_dims kernel = {{{filters}, 1, 1, {channels}}};
    return arm_convolve_wrapper_s8(&context, &p, &scales, &from, in, &kernel, weights, &biases, bias, &to, out);"""
DEPTHWISE = """const cmsis_nn_dw_conv_params p = {{128, -3, 1, {{{stride}, {stride}}}, {{1, 1}}, {{1, 1}}, {{-128, 127}}}};
    const cmsis_nn_dims kernel = {{1, 3, 3, {channels}}};
    return arm_depthwise_conv_wrapper_s8(&context, &p, &scales, &from, in, &kernel, weights, &biases, bias, &to, out);"""


class Layer(NamedTuple):
    """A layer that was timed on a board; `filters` is 0 for a 3x3 depthwise convolution."""

    side: int
    channels: int
    filters: int
    stride: int
    cycles: int


# the first layers of torchvision's MobileNetV2 by ExecuTorch 1.1.0 with CMSIS-NN 7.0.0 on the Cortex-M55 HP of an Alif Ensemble
# E8: github.com/pytorch/executorch/issues/17651, comment of 3 March 2026
LAYERS = (
    Layer(112, 32, 0, 1, 13_715_766),
    Layer(112, 32, 16, 1, 4_915_937),
    Layer(112, 16, 96, 1, 24_249_462),
    Layer(112, 96, 0, 2, 10_286_711),
    Layer(56, 96, 24, 1, 2_791_555),
    Layer(56, 24, 144, 1, 10_329_014),
    Layer(56, 144, 0, 1, 15_319_785),
)


def run(layer: Layer, library: Path, include: Path, folder: Path) -> emulated.Inference:
    """Compile a layer into `folder`, link it with CMSIS-NN, and run it on the emulated core."""
    side, channels, out_side = layer.side, layer.channels, layer.side // layer.stride
    filters, weights = layer.filters or channels, channels * (layer.filters or 9)
    input_bytes, output_bytes = side * side * channels, out_side * out_side * filters
    sizes = {"side": side, "channels": channels, "out_side": out_side, "filters": filters, "stride": layer.stride}
    call = (POINTWISE if layer.filters else DEPTHWISE).format(**sizes)
    (folder / "mark.c").write_text(COMMON.format(weights=weights, input=input_bytes, call=call, **sizes))
    firmware = linked(CORE, folder, ("-Ofast", "-w"), [include], library)
    sample = bytes(i * 37 % 251 for i in range(input_bytes))
    return emulated.invoke(firmware, {"sram": input_bytes + output_bytes + 64}, [sample], [output_bytes])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--library", type=Path, required=True, help="CMSIS-NN v7.0.0 as a static library for the Cortex-M55")
    parser.add_argument("--include", type=Path, required=True, help="the folder Include of CMSIS-NN")
    options = parser.parse_args()
    wrong = 0
    print("| layer | instructions | estimated cycles | range | the board's cycles | estimate / board |")
    print("|---|---:|---:|---|---:|---:|")
    for layer in LAYERS:
        with tempfile.TemporaryDirectory() as folder:
            done = run(layer, options.library, options.include, Path(folder))
        low, likely, high = emulated.cycles(CORE, done)[-1, ""]
        wrong += layer.cycles < low or (layer.filters > 0 and layer.cycles > high)
        kind = f"1x1 {layer.channels}->{layer.filters}" if layer.filters else f"depthwise 3x3, {layer.channels} channels"
        cells = (
            f"{kind}, {layer.side}x{layer.side}, stride {layer.stride}",
            f"{done.instructions:,}",
            f"{likely:,}",
            f"{low:,} to {high:,}",
            f"{layer.cycles:,}",
            f"{likely / layer.cycles:.2f}",
        )
        print("| " + " | ".join(cells) + " |", flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
