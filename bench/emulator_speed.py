"""How fast the emulated core runs with the counting hook on.

In: nothing. Out: instructions per second of processor time (measured) per compiler and core, for the C of the example network,
for plain loops of int8 multiply-adds, and for the worst case, a loop of two instructions, of which every pass calls the hook.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np

from tinyweave import api
from tinyweave.simulate import compare, emulated

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "keywords" / "digits.tflite"
MAP = 48 * 48 * 32
HEADER = """
#include <stddef.h>
#include <stdint.h>
typedef struct { struct { void *data; size_t bytes; } sram; } speed_memory;
typedef struct { int32_t unused; } speed_io;
"""
API = """
int speed_init(const speed_memory *memory) { return memory->sram.data == 0; }
void speed_reset(const speed_memory *memory) { (void)memory; }
void *speed_input(const speed_memory *memory, int32_t index) { return (int8_t *)memory->sram.data + index; }
const void *speed_output(const speed_memory *memory, int32_t index) { return (int8_t *)memory->sram.data + MAP + index; }
int speed_invoke(const speed_memory *memory, const speed_io *io)
"""
DENSE = """{
    const int8_t *in = memory->sram.data;
    int8_t *out = (int8_t *)memory->sram.data + MAP;
    (void)io;
    for (int32_t pixel = 0; pixel < 48 * 48; ++pixel) {
        for (int32_t channel = 0; channel < 32; ++channel) {
            int32_t sum = 0;
            for (int32_t again = 0; again < 8; ++again) {
                for (int32_t i = 0; i < 32; ++i) {
                    sum += (in[pixel * 32 + i] - 3) * weights[channel * 32 + i + again];
                }
            }
            *out++ = (int8_t)(sum >> 8);
        }
    }
    return 0;
}
"""
LOOP = """{
    int32_t passes = 50000000;
    (void)memory, (void)io;
#ifdef __riscv
    __asm__ volatile("1: addi %0, %0, -1\\n bnez %0, 1b" : "+r"(passes));
#else
    __asm__ volatile(".syntax unified\\n 1: subs %0, #1\\n bne 1b" : "+r"(passes) : : "cc");
#endif
    return 0;
}
"""


def write(folder: Path, body: str) -> None:
    """The model `speed` with this body of its invoke."""
    weights = np.random.default_rng(0).integers(-127, 128, 32 * 32 + 8)
    constants = f"#define MAP {MAP}\nstatic const int8_t weights[] = {{{', '.join(map(str, weights))}}};\n"
    (folder / "speed.h").write_text(HEADER)
    (folder / "speed.c").write_text(
        f'#include "speed.h"\n{constants if body is DENSE else ""}{API.replace("MAP", str(MAP))}{body}'
    )


def rate_of(
    firmware: emulated.Firmware, memories: dict[str, int], inputs: list[bytes], outputs: list[int]
) -> tuple[int, float]:
    """(instructions of an invoke, million instructions per second of processor time: the median of three)."""
    runs = [emulated.invoke(firmware, memories, inputs, outputs) for _ in range(3)]
    return runs[0].instructions, sorted(run.instructions / run.seconds / 1e6 for run in runs)[1]


def emitted(core: str) -> tuple[int, float]:
    """The C of the example network."""
    model = api.load(EXAMPLE)
    plan = api.plan(model, core)
    sample = compare.pack(model.graph, api.samples(model, 1, 0)[0])
    with tempfile.TemporaryDirectory() as folder:
        api.write(api.emit_c(model, plan), Path(folder))
        firmware = emulated.build(Path(folder), model.name, core)
    return rate_of(firmware, dict(plan.arena), sample, compare.output_bytes(model.graph))


def loops(core: str, body: str, data: bytes) -> tuple[int, float]:
    """One of the loops above."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), body)
        firmware = emulated.build(Path(folder), "speed", core)
    return rate_of(firmware, {"sram": 2 * MAP}, [data], [MAP])


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    data = np.random.default_rng(1).integers(-128, 128, MAP).astype(np.int8).tobytes()
    for compiler in ("gcc", "zig"):
        forced = compiler if compiler == "zig" else ""
        os.environ |= {"TINYWEAVE_ARM_CC": forced, "TINYWEAVE_RISCV_CC": forced}
        for core in emulated.CORES:
            for name, result in {
                "emitted C": emitted(core),
                "int8 loops": loops(core, DENSE, data),
                "worst case": loops(core, LOOP, data),
            }.items():
                count, rate = result
                print(f"{compiler:4} {core:13} {name:10} {count:12,} instructions {rate:6.0f} MIPS (median of 3)", flush=True)


if __name__ == "__main__":
    main()
