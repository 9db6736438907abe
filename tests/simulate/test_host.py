"""Emitted C on the host: outputs, faults and observed steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from simulate.tiny_c import ARENA, DENSE, HANDED, INPUTS, NO_OUTPUT, REST, body, handing_out

from tinyweave.ir import CompileError
from tinyweave.simulate import host
from tinyweave.simulate.run import Exchange, Fault, touched
from tinyweave.support import toolchain

Write = Callable[..., Path]
COMPILERS = pytest.mark.parametrize("compiler", ["", "zig"])


def run(
    folder: Path, *, sanitize: bool = False, fill: int = 0, arena: dict[str, int] = ARENA, **options: object
) -> host.Inference:
    return host.invoke(host.build(folder, "tiny", sanitize=sanitize), arena, INPUTS, [32], fill=fill, **options)


@COMPILERS
@pytest.mark.parametrize("sanitize", [False, True])
def test_outputs_dumps_and_observed_steps_of_a_run(
    write_model: Write, monkeypatch: pytest.MonkeyPatch, compiler: str, sanitize: bool
) -> None:
    monkeypatch.setenv("TINYWEAVE_CC", compiler)
    program = host.build(write_model(), "tiny", sanitize=sanitize, trace=True)
    got = host.invoke(
        program,
        ARENA,
        INPUTS,
        [32],
        dump=[(1, "sram", 96, 32), (0, "sram", 32, 32), (1, "sram", 32, 32)],
    )
    dense = DENSE.astype(np.int8).tobytes()
    assert got.outputs == [np.maximum(DENSE, 0).astype(np.int8).tobytes()]
    assert got.dumps == [got.outputs[0], dense, dense]
    assert got.memory("sram")[32:64] == dense
    assert ("zig" in program.compiler) == (toolchain.host().name == "zig") and compiler in ("", toolchain.host().name)
    with pytest.raises(ValueError, match="step 2 did not run"):
        host.invoke(program, ARENA, INPUTS, [32], dump=[(2, "sram", 0, 1)])
    with pytest.raises(ValueError, match="is not in"):
        host.invoke(program, ARENA, INPUTS, [32], dump=[(0, "sram", 100, 29)])


def test_the_highest_written_byte_of_an_arena_is_measured(write_model: Write) -> None:
    folder = write_model(body("for (int i = 0; i < 32; ++i) arena[96 + i] = arena[i];\narena[140] = arena[3];"))
    arena = {"sram": 200}
    first, second = (run(folder, fill=fill, arena=arena) for fill in (6, 7))
    assert touched(first, second) == {"sram": 141}
    assert first.memory("sram")[141:] == bytes(b ^ 255 for b in second.memory("sram")[141:])
    assert run(folder, fill=8, arena=arena).memory("sram")[141:] != first.memory("sram")[141:]
    with pytest.raises(ValueError, match="complementary"):
        touched(first, run(folder, fill=8, arena=arena))


def test_outputs_that_depend_on_uninitialised_memory_are_a_fault(write_model: Write) -> None:
    folder = write_model(body("for (int i = 0; i < 32; ++i) arena[96 + i] = arena[i];\narena[101] = (int8_t)(arena[70] & 8);"))
    with pytest.raises(Fault, match=r"output 0 depends on memory that was never written: byte 5 "):
        touched(run(folder, fill=0), run(folder, fill=1))


@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize(
    ("offset", "arena", "said"),
    [
        (-1, 128, "1 bytes before sram"),
        (-5000, 128, "bytes before sram"),
        (128, 128, "0 bytes past the end of sram"),
        (121, 120, "1 bytes past the end of sram"),
        (5000, 128, "4872 bytes past the end of sram"),
    ],
)
def test_writes_outside_of_the_arena_are_a_fault(
    write_model: Write, offset: int, arena: int, said: str, sanitize: bool
) -> None:
    folder = write_model(body(f"volatile int8_t *to = arena; to += {offset}; *to ^= 0x55;"))
    with pytest.raises(Fault, match=said):
        host.invoke(host.build(folder, "tiny", sanitize=sanitize), {"sram": arena}, INPUTS, [24])


def test_a_fault_names_the_function_and_the_step(write_model: Write) -> None:
    hook = "#ifdef TW_TRACE\nvoid TW_TRACE(int32_t step, int32_t layer);\n#endif\n"
    statements = "TW_TRACE(4, -1); TW_TRACE(5, 0); *(volatile int8_t *)(arena + 128) = 1;"
    folder = write_model(hook + body(statements))
    program = host.build(folder, "tiny", trace=True)
    with pytest.raises(
        Fault, match="tiny_invoke after step 4: access outside of the model's memory, 0 bytes past the end of sram"
    ):
        host.invoke(program, ARENA, INPUTS, [32])


@COMPILERS
def test_undefined_behaviour_is_a_fault_in_a_sanitized_build(
    write_model: Write, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    monkeypatch.setenv("TINYWEAVE_CC", compiler)
    folder = write_model(body("volatile int32_t big = 2147483647; big = big + 1;"))
    run(folder)
    with pytest.raises(Fault, match=r"signed integer overflow|undefined behaviour"):
        run(folder, sanitize=True)


def test_reads_beyond_a_constant_are_a_fault_in_a_sanitized_build(write_model: Write) -> None:
    if "-fsanitize=address" not in host.build(write_model(), "tiny", sanitize=True).compiler:
        pytest.skip("this compiler has no AddressSanitizer")
    constant = "static const int8_t few[4] = {1, 2, 3, 4};\n"
    folder = write_model(constant + body("const int8_t *volatile from = few; arena[96] = from[6];"))
    with pytest.raises(Fault, match="global-buffer-overflow"):
        run(folder, sanitize=True)


def test_an_endless_loop_and_a_failing_init_are_faults(write_model: Write) -> None:
    program = host.build(write_model(body("volatile int i = 1; while (i) { }")), "tiny")
    with pytest.raises(Fault, match=r"did not finish within 0.5 s"):
        host.invoke(program, ARENA, INPUTS, [32], limit_s=0.5)
    with pytest.raises(Fault, match="returned the error 1"):
        run(write_model(body(""), REST.replace("memory->sram.data == 0", "1")))
    assert run(write_model()).outputs


def test_an_interrupted_run_leaves_a_working_program(write_model: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    program = host.build(write_model(), "tiny", trace=True)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(host, "arena_part", interrupted)
        host.invoke(program, ARENA, INPUTS, [32], dump=[(0, "sram", 0, 1)])
    assert host.invoke(program, ARENA, INPUTS, [32]).outputs == [np.maximum(DENSE, 0).astype(np.int8).tobytes()]


def test_builds_are_reused(write_model: Write) -> None:
    folder = write_model()
    first = host.build(folder, "tiny").path
    before = first.stat().st_mtime_ns
    assert host.build(folder, "tiny").path == first
    assert first.stat().st_mtime_ns == before
    assert host.build(folder, "tiny", optimize="-O1").path != first
    (folder / "tiny_weights.h").write_text((folder / "tiny_weights.h").read_text() + "\n")
    assert host.build(folder, "tiny").path != first


def test_a_compile_error_is_reported(write_model: Write) -> None:
    with pytest.raises(CompileError, match=r"could not build the C code.*no_such_thing"):
        host.build(write_model(body("no_such_thing = 3;")), "tiny")
    with pytest.raises(CompileError, match=r"there is no other\.h in "):
        host.build(write_model(), "other")


def test_a_model_with_two_memories(write_model: Write) -> None:
    folder = write_model("", REST)
    (folder / "tiny.h").write_text((folder / "tiny.h").read_text().replace("} sram;", "} fast, sram;"))
    (folder / "tiny.c").write_text(
        '#include "tiny.h"\n'
        + body("int8_t *fast = memory->fast.data; for (int i = 0; i < 32; ++i) arena[96 + i] = fast[i] = arena[i];")
        + REST
    )
    program = host.build(folder, "tiny")
    runs = [host.invoke(program, {"fast": 48, "sram": 128}, INPUTS, [32], fill=fill) for fill in (0, 1)]
    assert runs[0].outputs == INPUTS
    assert touched(*runs) == {"fast": 32, "sram": 128}
    with pytest.raises(Fault, match="another number of memories"):
        host.invoke(program, ARENA, INPUTS, [32])


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolchain, "import_folders", list)
    toolchain._find.cache_clear()
    try:
        for find, variable in ((toolchain.host, "TINYWEAVE_CC"), (toolchain.arm, "TINYWEAVE_ARM_CC")):
            with pytest.raises(CompileError, match=f"pip install ziglang.*{variable}"):
                find()
        monkeypatch.setenv("TINYWEAVE_CC", "no-such-compiler --flag")
        with pytest.raises(CompileError, match="no-such-compiler cannot be run"):
            toolchain.host()
        monkeypatch.setenv("TINYWEAVE_CC", "'open quote")
        with pytest.raises(CompileError, match="not a command line"):
            toolchain.host()
    finally:
        toolchain._find.cache_clear()


def test_builds_work_without_a_writable_cache_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, write_model: Write
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    toolchain.cache_folder.cache_clear()
    try:
        program = host.build(write_model(), "tiny")
        assert blocked not in program.path.parents
        assert host.invoke(program, ARENA, INPUTS, [32]).outputs
        monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(toolchain._zig_folders()[-1]))  # zig's libraries are built once
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        toolchain.cache_folder.cache_clear()
        assert (tmp_path / "cache" / "tinyweave") in host.build(write_model(), "tiny").path.parents
    finally:
        toolchain.cache_folder.cache_clear()
    assert os.environ["XDG_CACHE_HOME"]


@pytest.mark.parametrize(("calls", "said"), HANDED)
def test_streamed_rows_must_be_written_once_and_in_order(
    write_model: Write, calls: list[tuple[int, int]], said: str | None
) -> None:
    folder = write_model(handing_out(calls), NO_OUTPUT)
    if said is None:
        assert run(folder, exchange=Exchange(streamed_outputs={0: 8})).outputs == INPUTS
        with pytest.raises(Fault, match="streams other outputs"):
            run(write_model(), exchange=Exchange(streamed_outputs={0: 8}))
        return
    with pytest.raises(Fault, match=said):
        run(folder, exchange=Exchange(streamed_outputs={0: 8}))
