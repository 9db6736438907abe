"""How much Flash do the real models need, code, tables and weights, beside TFLite Micro?

In: a folder of .tflite files (--models). Out: per model the code and all of the Flash of its ELF for a Cortex-M4 at --optimize
flash, size, balanced and speed, beside TFLite Micro with CMSIS-NN, as models.py has it: its code with int8 kernels only, and
with the file. Exit code 1 when balanced needs more code or Flash than that, when the code of vww_96 at size is 25,000 bytes or
more, or when what a build needs lies outside of the range that `plan` prints before it. With --write instead the code bytes of
each kernel file, to tinyweave/kernels/code_bytes.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import one_line  # noqa: F401

# isort: split
from elftools.elf.elffile import ELFFile
from models import ROOT, TFLITE_MICRO

from tinyweave import api
from tinyweave.api import results
from tinyweave.kernels.table import CODE_BYTES, FILES
from tinyweave.simulate import emulated
from tinyweave.support import toolchain

ALLOCATED = 2  # SHF_ALLOC

LEVELS = ("flash", "size", "balanced", "speed")
LEAST, LIMIT = "mlcommons__tiny__vww_96_int8", 25_000  # bytes of code at size


def sizes(model: results.Model, optimize: str) -> tuple[Mapping[str, int], results.FlashEstimate]:
    """Return the bytes by part of the ELF, and what `plan` says of them before the build."""
    plan = api.plan(model, optimize=optimize)
    with tempfile.TemporaryDirectory() as folder:
        api.write(api.emit_c(model, plan), Path(folder))
        return emulated.build(Path(folder), model.name, api.DEFAULT_CORE).sizes, api.estimate_flash(plan)


def flash(parts: Mapping[str, int]) -> int:
    return parts["weights"] + parts["tables"] + parts["code"]


def code_bytes() -> Mapping[str, int]:
    """Bytes of code and constants of each of the kernels' C files, of which a linker keeps what is called."""
    compiler, found = toolchain.arm(), dict[str, int]()
    flags = [*emulated.flags_for(api.DEFAULT_CORE, compiler), "-DTW_PLAIN_C", "-idirafter", str(emulated.FOLDER / "include")]
    flags += [f"-I{folder}" for folder in sorted({path.parent for path in FILES.values()})]
    with tempfile.TemporaryDirectory() as folder:
        for path in (path for path in FILES.values() if path.suffix == ".c"):
            made = Path(folder) / f"{path.stem}.o"
            toolchain.compile_c(compiler, [*flags, "-c", path, "-o", made])
            with made.open("rb") as stream:
                sections = list(ELFFile(stream).iter_sections())
            found[path.name] = sum(s["sh_size"] for s in sections if s["sh_flags"] & ALLOCATED and s["sh_type"] != "SHT_NOBITS")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--write", action="store_true", help="write the sizes of the kernels")
    options = parser.parse_args()
    if options.write:
        CODE_BYTES.write_text(json.dumps(code_bytes(), indent=1) + "\n")
        return 0
    chosen = [name for name in TFLITE_MICRO if not options.names or any(part in name for part in options.names)]
    columns = [
        "model",
        "code of TFLite Micro",
        "and the file",
        *(f"{what}, {level}" for level in LEVELS for what in ("code", "Flash")),
    ]
    print(f"| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}", flush=True)
    missed = []
    for name in chosen:
        model = api.load(options.models / f"{name}.tflite")
        theirs = TFLITE_MICRO[name][2], TFLITE_MICRO[name][2] + len(model.file)
        measured = {level: sizes(model, level) for level in LEVELS}
        ours = {level: (parts["code"], flash(parts)) for level, (parts, _) in measured.items()}
        missed += [
            f"{name}: {flash(parts):,} bytes at {level}, foreseen {need.lower_bound:,} to {need.upper_bound:,}"
            for level, (parts, need) in measured.items()
            if not need.lower_bound <= flash(parts) <= need.upper_bound
        ]
        print(f"| {name} | " + " | ".join(f"{n:,}" for pair in (theirs, *ours.values()) for n in pair) + " |", flush=True)
        missed += [
            f"{name}: {what} at balanced"
            for what, a, b in zip(("code", "Flash"), ours["balanced"], theirs, strict=True)
            if a > b
        ]
        if name == LEAST and ours["size"][0] >= LIMIT:
            missed.append(f"{name}: code at size is not below {LIMIT:,} bytes")
    print(f"\nmore than TFLite Micro, the limit or what was foreseen: {'; '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
