"""Do the cycle estimates agree with a published CoreMark run?

In: a checkout of EEMBC's CoreMark (--coremark) and a folder (--libraries) with a static library of it for each core below, such
as cortex-m55.a. Neither is part of this project, and nor is a script that builds the libraries: --port writes the headers with
which SOURCES are compiled, and prints the flags. Out: for each core, the instructions and estimated cycles of one iteration on
the emulated core, beside the cycles that a chip took; the checksums must be those of CoreMark. Exit code 1: a checksum is
wrong, or a chip took a number of cycles outside of the estimated range.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tinyweave.simulate import emulated
from tinyweave.simulate.cores import CORES
from tinyweave.simulate.run import FOLDER
from tinyweave.support import toolchain

FLAGS = ("-O3", "-fjump-tables", "-ftree-switch-conversion", "-w")
SOURCES = ("core_list_join.c", "core_matrix.c", "core_state.c", "core_util.c")
CHECKSUMS = (0xE714, 0x1FD7, 0x8E3A)  # of the list, the matrix and the state machine after one iteration


class Run(NamedTuple):
    """A published run of CoreMark."""

    chip: str
    clock_hz: float
    iterations_per_s: float


# core -> a run with code in RAM. ESP32-C3: printed in the example of Espressif's component `coremark` 1.1.0, by GCC 12.2
RUNS = {"rv32imc-esp": Run("ESP32-C3", 160e6, 409.249028), "cortex-m55": Run("Cortex-M55 r0p0", 1e6, 2.805)}

PORT = """#include <stddef.h>
#define HAS_FLOAT 0
#define HAS_TIME_H 0
#define USE_CLOCK 0
#define HAS_STDIO 0
#define HAS_PRINTF 0
#define MEM_LOCATION ""
#define COMPILER_VERSION ""
#define COMPILER_FLAGS ""
typedef short ee_s16;
typedef unsigned short ee_u16;
typedef int ee_s32;
typedef unsigned char ee_u8;
typedef unsigned ee_u32, ee_ptr_int, CORE_TICKS;
typedef size_t ee_size_t;
typedef struct { ee_u8 portable_id; } core_portable;
#define CORETIMETYPE ee_u32
#define align_mem(x) (void *)(4 + (((ee_ptr_int)(x) - 1) & ~3))
#define SEED_METHOD SEED_VOLATILE
#define MEM_METHOD MEM_STATIC
#define MULTITHREAD 1
#define MAIN_HAS_NOARGC 1
#define MAIN_HAS_NORETURN 0
#define CORE_DEBUG 0
#define PERFORMANCE_RUN 1
#define ee_printf(...) 0
extern ee_u32 default_num_contexts;
"""
# CoreMark with the functions of an emitted model: its input is the number of iterations, its output the checksums
MODEL = """#include "coremark.h"
typedef struct { struct { void *data; size_t bytes; } sram; } memory;
static ee_u8 block[2000];
static core_results r;
int mark_init(const memory *m) { (void)m; return 0; }
void mark_reset(const memory *m) { (void)m; }
void *mark_input(const memory *m, int i) { (void)i; return m->sram.data; }
const void *mark_output(const memory *m, int i) { (void)i; return (char *)m->sram.data + 16; }
int mark_invoke(const memory *m, const void *io)
{
    const int size = 666, count = *(const ee_u8 *)m->sram.data;
    ee_u16 *sums = (ee_u16 *)((char *)m->sram.data + 16);
    (void)io;
    r.seed1 = 0, r.seed2 = 0, r.seed3 = 0x66, r.size = size, r.execs = ALL_ALGORITHMS_MASK;
    r.crc = r.crclist = r.crcmatrix = r.crcstate = 0;
    r.list = core_list_init(size, (list_head *)block, r.seed1);
    core_init_matrix(size, block + size, r.seed1 | (r.seed2 << 16), &r.mat);
    core_init_state(size, r.seed1, block + 2 * size);
    r.memblock[3] = block + 2 * size;
    for (int i = 0; i < count; i++) {
        r.crc = crcu16(core_bench_list(&r, 1), r.crc);
        r.crc = crcu16(core_bench_list(&r, -1), r.crc);
        if (i == 0) r.crclist = r.crc;
    }
    sums[0] = r.crclist, sums[1] = r.crcmatrix, sums[2] = r.crcstate;
    return 0;
}
"""


def flags_of(core: str, flags: Sequence[str]) -> list[str | Path]:
    """Return the flags with which C is compiled for a core; `flags` begins with the optimisation, such as "-O2"."""
    return [*emulated.flags_for(core, emulated.COMPILERS[CORES[core].isa](), flags[0]), *flags[1:]]


def write_port(folder: Path) -> None:
    """Write the headers with which CoreMark is compiled into a folder."""
    for name, text in (("core_portme.h", PORT), ("stdio.h", ""), ("time.h", "")):
        (folder / name).write_text(text)


def build(coremark: Path, library: Path, core: str, folder: Path) -> emulated.Firmware:
    """Link a library of CoreMark, as a model for an emulated core, into `folder`."""
    write_port(folder)
    (folder / "mark.c").write_text(MODEL)
    return linked(core, folder, FLAGS, [folder, coremark], library)


def linked(core: str, folder: Path, flags: Sequence[str], includes: Sequence[Path], library: Path) -> emulated.Firmware:
    """Compile the file mark.c of a folder, which has the functions of a model `mark`, and link it with a static library.

    The arguments are the core, the folder, the flags of `flags_of`, folders of headers, and the library.
    """
    compiler, program = emulated.COMPILERS[CORES[core].isa](), folder / "mark.elf"
    linker = [f"-Wl,-T,{FOLDER / 'firmware.ld'}", "-nostdlib", "-Wl,--gc-sections", "-Wl,-e,mark_invoke"]
    linker += [f"-Wl,-u,mark_{name}" for name in emulated.FUNCTIONS]
    paths = [*(f"-I{each}" for each in includes), "-idirafter", str(FOLDER / "include")]
    words = [*flags_of(core, flags), *paths, *linker]
    toolchain.compile_c(compiler, [*words, folder / "mark.c", FOLDER / "runtime.c", library, "-lgcc", "-o", program])
    return emulated.Firmware(program, "mark", core, "", {})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--coremark", type=Path, required=True, help="a checkout of github.com/eembc/coremark")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--libraries", type=Path, metavar="FOLDER", help="a folder with CORE.a for each core")
    group.add_argument(
        "--port", type=Path, metavar="FOLDER", help="write the headers for compiling CoreMark into a folder; run nothing"
    )
    options = parser.parse_args()
    if options.port:
        options.port.mkdir(parents=True, exist_ok=True)
        write_port(options.port)
        for core in RUNS:
            print(f"{core}.a: {', '.join(SOURCES)}, compiled with {' '.join(map(str, flags_of(core, FLAGS)))}")
        return 0
    wrong = 0
    print("| core | chip | instructions | estimated cycles | range | the chip's cycles | estimate / chip |")
    print("|---|---|---:|---:|---|---:|---:|")
    for core, published in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            firmware = build(options.coremark, options.libraries / f"{core}.a", core, Path(folder))
            # the difference of 11 iterations and 1 leaves out the initialisation
            first, more = (emulated.invoke(firmware, {"sram": 64}, [bytes([count])], [6]) for count in (1, 11))
        low, likely, high = (
            (b - a) / 10 for a, b in zip(*(emulated.cycles(core, run)[-1, ""] for run in (first, more)), strict=True)
        )
        cycles = published.clock_hz / published.iterations_per_s
        wrong += tuple(np.frombuffer(first.outputs[0], "<u2")) != CHECKSUMS or not low <= cycles <= high
        instructions = (more.instructions - first.instructions) / 10
        cells = (
            f"{instructions:,.0f}",
            f"{likely:,.0f}",
            f"{low:,.0f} to {high:,.0f}",
            f"{cycles:,.0f}",
            f"{likely / cycles:.3f}",
        )
        print("| " + " | ".join((core, published.chip, *cells)) + " |")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
