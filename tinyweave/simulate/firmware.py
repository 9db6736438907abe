"""Complete firmware, start-up code and linker script included, on a board that QEMU plays.

In: the files of a firmware, as text. Out: a linked program, and what it printed by semihosting.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from .. import toolchain
from ..ir import CompileError
from .emulated import flags_for
from .qemu import PROGRAM
from .run import FOLDER, Fault

DEFINED = ("-DTW_FIRMWARE", "-DTW_PRINT_OUTPUTS")


def is_qemu_there() -> bool:
    return toolchain.which(PROGRAM) is not None


def build(files: Mapping[str, str], folder: Path, core: str, *, plain: bool) -> tuple[Path, str]:
    """Write, compile and link a firmware in `folder`; return its file, and compiler and flags.

    files: names and contents of C files, headers, and one linker script, *.ld. plain: kernels for instructions that the core
    lacks become plain C.
    """
    compiler = toolchain.arm()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    flags = flags_for(core, compiler) + (["-DTW_PLAIN_C"] if plain else [])
    headers = sorted((FOLDER / "include").glob("*.h"))  # no C library is needed
    sources = [folder / name for name in files if not name.endswith(".ld")]
    files_of_all = [*sources, FOLDER / "runtime.c", *headers]
    compiled = toolchain.objects(compiler, [*flags, *DEFINED], files_of_all, ["-idirafter", str(FOLDER / "include")])
    script = next(folder / name for name in files if name.endswith(".ld"))
    libraries = [] if compiler.name == "zig" else ["-nostdlib", "-lgcc"]
    program = folder / "firmware.elf"
    link = [*flags, "-Wl,--gc-sections", "-Wl,-e,reset", f"-Wl,-T,{script}"]
    toolchain.compile_c(compiler, [*link, *compiled, *libraries, "-o", program])
    return program, f"{compiler.version}: {' '.join(flags)}"


def run(program: Path, board: str, limit_s: float) -> str:
    """Run a firmware on a board until it ends; return what it printed."""
    words = "-display none -monitor none -serial none -nodefaults -semihosting-config enable=on,target=native".split()
    command = [toolchain.which(PROGRAM) or PROGRAM, "-M", board, *words, "-kernel", str(program)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False)
    except OSError as error:
        raise CompileError(f"{PROGRAM} cannot be run: {error.strerror}", "install QEMU") from error
    except subprocess.TimeoutExpired as error:
        raise Fault(f"the firmware did not finish within {limit_s:g} s") from error
    return (done.stdout + done.stderr).decode("ascii", "replace")
