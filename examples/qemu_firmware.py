"""Complete firmware, with start-up code and linker script, on a board that QEMU emulates; it prints by semihosting."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tinyweave.simulate import qemu
from tinyweave.simulate.emulated import IN_MEMORY, WRITTEN, elf, flags_for, link_all, objects
from tinyweave.simulate.qemu import PROGRAM
from tinyweave.simulate.run import FOLDER, Fault
from tinyweave.simulate.worker import guarded
from tinyweave.support import toolchain

DEFINED = ("-DTW_FIRMWARE", "-DTW_PRINT_OUTPUTS")


def is_qemu_there() -> bool:
    """Return whether qemu-system-arm is in PATH."""
    return toolchain.which(PROGRAM) is not None


def build(files: Mapping[str, str], folder: Path, core: str, *, plain: bool) -> tuple[Path, str]:
    """Write the files (C, headers, a *.ld) of a firmware to `folder`, compile and link; return (ELF file, compiler, flags)."""
    compiler = toolchain.arm()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    flags = flags_for(core, compiler) + (["-DTW_PLAIN_C"] if plain else [])
    sources = [folder / name for name in files if not name.endswith(".ld")]
    script, program = next(folder / name for name in files if name.endswith(".ld")), folder / "firmware.elf"
    compiled = objects(compiler, [*flags, *DEFINED], [*sources, FOLDER / "runtime.c"])
    link_all(compiler, [*flags, "-Wl,--gc-sections", "-Wl,-e,reset", f"-Wl,-T,{script}"], compiled, program)
    return program, f"{compiler.version}: {' '.join(flags)}"


def variables(program: Path) -> dict[str, int]:
    """Return variable -> bytes for all variables of an ELF file in RAM; the key "" has all other bytes except the stack."""
    file = elf(program)
    held = {
        number: section["sh_size"]
        for number, section in enumerate(file.iter_sections())
        if section["sh_flags"] & WRITTEN and section["sh_flags"] & IN_MEMORY and section.name != ".stack"
    }
    symbols = file.get_section_by_name(".symtab").iter_symbols()
    sizes = {s.name: s["st_size"] for s in symbols if s["st_shndx"] in held and s["st_info"]["type"] == "STT_OBJECT"}
    return sizes | {"": sum(held.values()) - sum(sizes.values())}


def run(program: Path, board: str, limit_s: float, file: Path | None = None) -> str:
    """Run a firmware on QEMU's `board` until it ends, and return what it printed; raise Fault after `limit_s` seconds."""
    words = "-display none -monitor none -serial none -nodefaults -semihosting-config".split()
    semihosting = "enable=on,target=native" + (f",arg=firmware,arg={file.name}" if file else "")
    folder = file.parent if file else None
    command = [qemu.program(), "-M", board, *words, semihosting, "-kernel", str(program.resolve())]
    try:
        with guarded(command) as (told, stdin):
            done = subprocess.run(told, stdin=stdin, capture_output=True, timeout=limit_s, check=False, cwd=folder)
    except subprocess.TimeoutExpired as error:
        raise Fault(f"the firmware did not finish within {limit_s:g} s") from error
    said = (done.stdout + done.stderr).decode("ascii", "replace").splitlines(keepends=True)
    return "".join(line for line in said if not line.startswith(f"{PROGRAM}: warning: "))
