"""The C of every op kind gives the numpy reference's bytes on all generated cases, without undefined behaviour."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from cases.ops import Case, cases

from tinyweave import ops
from tinyweave.codegen import Origin, emit
from tinyweave.ir import CompileError
from tinyweave.kernels.table import VARIANTS
from tinyweave.plan import Plan, plan
from tinyweave.simulate import toolchain

KINDS = sorted({kind for row in VARIANTS for kind in row.kinds if not ops.SPECS[kind].view})


def planned(case: Case) -> Plan | None:
    """The case's plan, or None where the table says that no kernel runs it."""
    try:
        return plan(case.graph)
    except CompileError as error:
        assert "no kernel runs it" in str(error)
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_emitted_c_equals_the_reference(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    drawn = [(case, planned(case)) for case in cases(kind)]
    models = {f"model_{number}": (case, made) for number, (case, made) in enumerate(drawn) if made is not None}
    assert 2 * len(models) > len(drawn), "most cases must have a kernel"
    for name, (_, made) in models.items():
        for file, text in emit(made, name, Origin("case.tflite", "0" * 64)).files.items():
            (tmp_path / file).write_text(text)
    library = ctypes.CDLL(str(built(tmp_path)))
    for name, (case, made) in models.items():
        for arrays in case.inputs:
            inputs = dict(zip(case.graph.inputs, arrays, strict=True))
            expected = list(ops.run(case.graph, inputs).values())
            got = invoke(library, name, sum(made.arena.values()), arrays, [array.nbytes for array in expected])
            assert got == [array.tobytes() for array in expected], case.id
    assert "runtime error" not in capfd.readouterr().err


def built(folder: Path) -> Path:
    """All C files of a folder as one library, which reports undefined behaviour to stderr where the compiler can."""
    path, compiler = folder / "library.so", toolchain.host()
    sanitizer = ["-fsanitize=undefined"] if compiler.name != "zig" else ["-fsanitize=undefined", "-fsanitize-trap=undefined"]
    toolchain.compile_c(compiler, ["-std=c99", "-O0", "-shared", "-fPIC", *sanitizer, "-o", path, *sorted(folder.glob("*.c"))])
    return path


def invoke(library: ctypes.CDLL, name: str, arena: int, arrays: list[np.ndarray], counts: list[int]) -> list[bytes]:
    """The outputs' bytes of one inference in an arena of noise."""
    memory = np.random.default_rng(len(arrays)).integers(0, 256, arena + 16, dtype=np.uint8)
    aligned = ctypes.pointer(ctypes.c_void_p(memory.ctypes.data + -memory.ctypes.data % 16))
    where = {word: getattr(library, f"{name}_{word}") for word in ("input", "output")}
    for function in where.values():
        function.restype = ctypes.c_void_p
    assert getattr(library, f"{name}_init")(aligned) == 0
    for index, array in enumerate(arrays):
        if array.nbytes:
            ctypes.memmove(where["input"](aligned, index), array.tobytes(), array.nbytes)
    assert getattr(library, f"{name}_invoke")(aligned, None) == 0
    return [ctypes.string_at(where["output"](aligned, index), count) for index, count in enumerate(counts)]
