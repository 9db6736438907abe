"""The emitted C of every kernel's call also compiles as C++17, for projects that rename .c files to .cpp."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cases.rows import cases_of, core_of
from cases.strict import INCLUDE
from kernels.traces import apart

from tinyweave.codegen import Origin, emit
from tinyweave.kernels.table import VARIANTS

FLAGS = ("-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-DTW_PLAIN_C", "-fsyntax-only")
PLAIN = ("memcpy", "tw_move")  # they have no parameter struct
CORES = sorted({core_of(row) for row in VARIANTS})


@pytest.mark.parametrize("core", CORES)
def test_the_calls_of_all_kernels_compile_as_cpp(core: str, tmp_path: Path) -> None:
    """The parameters of each kernel: all members, in the order of their struct."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++: apt-get install g++")
    rows = [row for row in VARIANTS if core_of(row) == core and row.params not in PLAIN]
    chosen = [(next(case for case in cases_of(row) if len(case.graph.ops) == 1), row) for row in rows]
    source = emit(apart("cases", chosen), "cases", Origin("cases.tflite", "0" * 64))
    assert all(f"{row.name}(" in source.files["cases.c"] for row in rows)
    for name in source.own:
        (tmp_path / name).write_text(source.files[name])
    command = ["g++", *FLAGS, *INCLUDE, "cases.c"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
