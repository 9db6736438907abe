"""Kernels refuse to compile for big-endian targets, which load the int8 values of a word in another order, and for 16 bits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tinyweave.kernels import table
from tinyweave.support import toolchain

TW = next(path for path in table.FILES.values() if path.name == "tw.h")
REFUSED = "this target is big-endian, and the kernels of tinyweave read words of little-endian ones: compile for little-endian"
BIG = ("armeb-freestanding-eabi", "thumbeb-freestanding-eabi", "mips-freestanding-eabi", "powerpc-freestanding-eabi")
LITTLE = ("thumb-freestanding-eabi", "riscv32-freestanding", "mipsel-freestanding-eabi", "powerpc64le-freestanding")
NO_BYTE_ORDER = "-U__BYTE_ORDER__"


def compiler_output(command: list[str], folder: Path, *flags: str) -> str:
    """Return the compiler's output for a file that includes tw.h; a non-empty output must come with an error status."""
    (folder / "file.c").write_text('#include "tw.h"\nint least(int a);\nint least(int a) { return tw_min(a, 3); }\n')
    words = [*command, *flags, "-std=c99", "-Wall", "-Wextra", "-Wundef", "-Werror", "-I", str(TW.parent), "-c", "file.c"]
    done = subprocess.run([*words, "-o", "file.o"], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stderr == "") == (folder / "file.o").exists()
    return done.stderr


@pytest.mark.parametrize("target", [*BIG, *LITTLE])
def test_only_big_endian_targets_of_zig_are_refused(target: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="needs ziglang: pip install '.[verify]'")
    refused = compiler_output([sys.executable, "-m", "ziglang", "cc", f"--target={target}"], tmp_path)
    assert (f'error: "{REFUSED}"' in refused) == (target in BIG) == bool(refused)


@pytest.mark.parametrize("flags", [(), ("-mbig-endian",), (NO_BYTE_ORDER,), ("-mbig-endian", NO_BYTE_ORDER)], ids=" ".join)
def test_gcc_for_arm_is_refused_only_if_big_endian(flags: tuple[str, ...], tmp_path: Path) -> None:
    """The header also checks Arm's macros, for compilers without __BYTE_ORDER__."""
    if toolchain.which("arm-none-eabi-gcc") is None:
        pytest.skip("needs arm-none-eabi-gcc: apt-get install gcc-arm-none-eabi")
    refused = compiler_output(["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb"], tmp_path, *flags)
    assert (f'#error "{REFUSED}"' in refused) == ("-mbig-endian" in flags) == bool(refused)


@pytest.mark.parametrize(
    ("macros", "is_refused"),
    [
        ((), False),
        (("__ICCARM__=1", "__LITTLE_ENDIAN__=1"), False),
        (("__ICCARM__=1", "__LITTLE_ENDIAN__=0"), True),
        (("__BIG_ENDIAN__=1",), True),
        (("__MIPSEB__=1",), True),
    ],
)
def test_compilers_without_byte_order_are_checked_by_other_macros(
    macros: tuple[str, ...], is_refused: bool, tmp_path: Path
) -> None:
    compiler = toolchain.host()
    refused = compiler_output(list(compiler.command), tmp_path, NO_BYTE_ORDER, *(f"-D{macro}" for macro in macros))
    assert (REFUSED in refused) == is_refused == bool(refused)


def test_targets_whose_int_is_smaller_than_32_bits_are_refused(tmp_path: Path) -> None:
    smaller = ("-U__SIZEOF_INT__", "-D__SIZEOF_INT__=2")
    refused = compiler_output(list(toolchain.host().command), tmp_path, *smaller)
    assert "int has fewer than 32 bits on this target" in refused
