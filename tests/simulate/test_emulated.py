"""Emitted C on an emulated core: outputs, instructions, stack and Flash."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from simulate.tiny_c import ARENA, DENSE, HANDED, INPUTS, NO_OUTPUT, REST, WEIGHTS, body, handing_out

from tinyweave.ir import CompileError
from tinyweave.simulate import emulated
from tinyweave.simulate.run import Exchange, Fault, touched
from tinyweave.support import toolchain
from tinyweave.support.installing import install

pytestmark = pytest.mark.emulator
pytest.importorskip("unicorn", reason="needs the emulator (pip install '.[verify]')")

Write = Callable[..., Path]
COMPILERS = pytest.mark.parametrize("compiler", ["", "zig"])
RELU = np.maximum(DENSE, 0).astype(np.int8).tobytes()


def run(
    folder: Path, *, core: str = "cortex-m4", trace: bool = False, arena: dict[str, int] = ARENA, **options: object
) -> emulated.Inference:
    return emulated.invoke(emulated.build(folder, "tiny", core, trace=trace), arena, INPUTS, [32], **options)


def use(monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    for variable in ("TINYWEAVE_ARM_CC", "TINYWEAVE_RISCV_CC"):
        monkeypatch.setenv(variable, compiler)


def assembly(*lines: str) -> str:
    """Return the C of a tiny_invoke of exactly these instructions."""
    text = "".join(f'"{line}\\n"\n' for line in lines)
    head = "__attribute__((naked)) int tiny_invoke(const tiny_memory *memory, const tiny_io *io)"
    return f"{head}\n{{\n__asm__ volatile(\n{text});\n}}\n"


@COMPILERS
@pytest.mark.parametrize("core", [name for name, core in emulated.CORES.items() if core.emulator == "unicorn"])
def test_outputs_instructions_and_sizes_of_a_run(
    write_model: Write, monkeypatch: pytest.MonkeyPatch, core: str, compiler: str
) -> None:
    use(monkeypatch, compiler)
    folder = write_model()
    firmware = emulated.build(folder, "tiny", core)
    runs = [emulated.invoke(firmware, ARENA, INPUTS, [32], fill=fill) for fill in (0, 1)]
    assert runs[0].outputs == runs[1].outputs == [RELU]
    assert touched(*runs) == ARENA
    assert runs[0].instructions == runs[1].instructions == sum(runs[0].functions.values())
    assert firmware.sizes["weights"] == WEIGHTS.size
    assert firmware.sizes["tables"] == 4 * 32
    assert firmware.sizes["static"] == 0
    used = emulated.COMPILERS[emulated.CORES[core].isa]().name
    assert ("zig" in firmware.compiler) == (used == "zig") and compiler in ("", used)

    traced = run(folder, core=core, trace=True, dump=[(0, "sram", 32, 32), (1, "sram", 96, 32)])
    assert traced.dumps == [DENSE.astype(np.int8).tobytes(), RELU]
    assert len(traced.per_step) == 2
    assert sum(traced.per_step) == traced.instructions
    assert traced.per_step[0] > 32 * 32 > traced.per_step[1]
    assert traced.functions["dense"] > 32 * 32
    with pytest.raises(ValueError, match="step 0 did not run"):
        emulated.invoke(firmware, ARENA, INPUTS, [32], dump=[(0, "sram", 0, 1)])
    with pytest.raises(ValueError, match="is not in"):
        emulated.invoke(firmware, ARENA, INPUTS, [32], dump=[(0, "flash", 0, 1)])


@COMPILERS
def test_instruction_counts_equal_those_counted_by_hand(
    write_model: Write, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    use(monkeypatch, compiler)
    loop = ("1: adds r2, r2, #1", "tst r2, #1", "ite eq", "addeq r4, r4, #1", "addne.w r4, r4, #2", "cmp r2, r3", "bne 1b")
    folder = write_model(assembly("push {r4, lr}", "movs r2, #0", "movw r3, #1000", *loop, "movs r0, #0", "pop {r4, pc}"))
    got = run(folder)
    assert got.instructions == 3 + 1000 * len(loop) + 2
    assert got.functions == {"tiny_invoke": got.instructions}
    assert got.stack == 8


def test_instructions_per_step_equal_those_counted_by_hand(write_model: Write) -> None:
    first = ("push {r4, lr}", "movs r0, #0", "bl tw_trace")
    second = ("movs r1, #10", "1: subs r1, #1", "bne 1b", "movs r0, #1", "bl tw_trace")
    got = run(write_model(assembly(*first, *second, "movs r0, #0", "pop {r4, pc}")), trace=True)
    assert got.per_step == [3, 1 + 10 * 2 + 2 + 2]
    assert got.instructions == sum(got.per_step)


LAYERS = """
__attribute__((used)) static const int32_t first_0[4] = {1, 2, 3, 4};
__attribute__((used)) static const int32_t second_1[2] = {5, 6};
__attribute__((naked, used)) static void helper(void) { __asm__ volatile("bx lr"); }
__attribute__((naked, used)) static void kernel(void)
{
    __asm__ volatile("push {r4, lr}\\n movs r4, #3\\n 1: subs r4, #1\\n bne 1b\\n bl helper\\n pop {r4, pc}");
}
"""


def test_kernel_calls_of_a_step_are_counted_by_layer(write_model: Write) -> None:
    """A loop calls one kernel for two layers, and a helper. The loop's instructions count for the step, not for a layer."""
    calls = ("1: ldr r0, =first_0 + 4", "bl kernel", "ldr r0, =second_1", "bl kernel", "movs r0, #0", "bl helper")
    loop = (*calls, "subs r4, #1", "bne 1b")
    ends = ("movs r0, #0", "bl tw_trace", "movs r0, #0", "pop {r4, pc}", ".ltorg")
    folder = write_model(LAYERS + assembly("push {r4, lr}", "movs r4, #5", *loop, *ends))
    got = run(folder, trace=True, layers={"first_0": 0, "second_1": 0, "missing_2": 0}, caches={"code": (32, 16, 1)})
    spent = got.per_part
    kernel = 2 + 3 * 2 + 1 + 1 + 1
    assert spent == {(0, "first_0"): 5 * kernel, (0, "second_1"): 5 * kernel, (0, ""): 2 + 5 * (len(loop) + 1) + 4}
    assert got.per_step == [got.instructions] == [sum(spent.values())]
    whole = run(folder, trace=True, caches={"code": (32, 16, 1)})
    assert whole.instructions == got.instructions and list(whole.blocks) == [(0, "")]
    by_layer, together = ([missed["code"] for missed in each.misses.values()] for each in (got, whole))
    assert [[sum(lines) for lines in zip(*by_layer, strict=True)]] == together and together[0][0] > 10
    assert all(lines for lines, _ in by_layer)


@pytest.mark.parametrize(
    ("lines", "depth"),
    [
        (("bx lr",), 0),
        (("push {r4, r5, lr}", "pop {r4, r5, pc}"), 12),
        (("stmdb sp!, {r4-r11, lr}", "ldmia sp!, {r4-r11, pc}"), 36),
        (("sub sp, #20", "add sp, #20", "bx lr"), 20),
        (("sub.w sp, sp, #1024", "add.w sp, sp, #1024", "bx lr"), 1024),
        (("subw sp, sp, #1000", "addw sp, sp, #1000", "bx lr"), 1000),
        (("vpush {d8, d9}", "vpush {s20}", "vpop {s20}", "vpop {d8, d9}", "bx lr"), 20),
        (("str r0, [sp, #-8]!", "ldr r0, [sp], #8", "bx lr"), 8),
        (("strd r0, r1, [sp, #-16]!", "ldrd r0, r1, [sp], #16", "bx lr"), 16),
        (("push {r4, lr}", "sub sp, #8", "vpush {d8}", "vpop {d8}", "add sp, #8", "push {r5}", "pop {r5}", "pop {r4, pc}"), 24),
        (("mov r3, #200", "sub.w sp, sp, r3", "b 1f", "1: add sp, r3", "bx lr"), 200),
        (("mov r2, sp", "sub sp, #40", "b 1f", "1: mov sp, r2", "bx lr"), 40),
    ],
)
def test_stack_use_of_instructions(write_model: Write, lines: tuple[str, ...], depth: int) -> None:
    assert run(write_model(assembly("movs r0, #0", *lines))).stack == depth


@pytest.mark.parametrize(
    ("lines", "depth"),
    [
        (("ret",), 0),
        (("addi sp, sp, -16", "sw ra, 12(sp)", "sw s0, 8(sp)", "lw ra, 12(sp)", "addi sp, sp, 16", "ret"), 16),
        (("addi sp, sp, -8", "addi sp, sp, -2000", "lbu a1, 0(sp)", "addi sp, sp, 2000", "addi sp, sp, 8", "ret"), 2008),
        (("li t0, -4096", "add sp, sp, t0", "j 1f", "1: li t0, 4096", "add sp, sp, t0", "ret"), 4096),
        (("mv t0, sp", "addi sp, sp, -48", "j 1f", "1: mv sp, t0", "ret"), 48),
        (("addi sp, sp, -32", "bltu sp, a0, 1f", "1: bne sp, a0, 1f", "1: addi sp, sp, 32", "ret"), 32),
    ],
)
@COMPILERS
def test_stack_use_of_riscv_instructions(
    write_model: Write, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], depth: int, compiler: str
) -> None:
    use(monkeypatch, compiler)
    got = run(write_model(assembly("li a0, 0", *lines)), core="rv32imc")
    assert got.stack == depth
    assert got.instructions is not None and got.instructions >= 1 + len(lines)


def test_riscv_instruction_counts_equal_those_counted_by_hand(write_model: Write) -> None:
    loop = ("1: addi a2, a2, 1", "mul a3, a2, a2", "bne a2, a1, 1b")
    lines = ("addi sp, sp, -16", "sw ra, 12(sp)", "li a2, 0", "li a1, 1000", *loop, "li a0, 3", "call tw_trace")
    got = run(write_model(assembly(*lines, "lw ra, 12(sp)", "li a0, 0", "addi sp, sp, 16", "ret")), core="rv32imc", trace=True)
    assert got.instructions in (4 + 3000 + 2 + 4, 4 + 3000 + 3 + 4)  # a call is one instruction or two
    assert got.per_step == [0, 0, 0, got.instructions]


def test_cycles_of_a_loop_on_two_risc_v_cores(write_model: Write) -> None:
    """The code runs on any RV32IMAC; each core has its own timings.

    Each instruction is listed after the cycle in which it starts. On an E31 the first block ends with the loop's first run:
    0 addi, 1 li, 2 lbu, 5 mul, 6 addi, 7 bnez; its product is ready at 10. Further runs: 0 lbu, 3 mul, 4 addi, 5 bnez; at 8.
    The last block: 0 addi, 1 li, 2 ret.
    """
    loop = ("1: lbu a2, 0(sp)", "mul a3, a2, a1", "addi a1, a1, -1", "bnez a1, 1b")
    folder = write_model(assembly("addi sp, sp, -16", "li a1, 100", *loop, "addi sp, sp, 16", "li a0, 0", "ret"))
    got = run(folder, core="sifive-e31")
    blocks = [(block.instructions, block.executions, block.taken) for block in got.blocks[-1, ""]]
    assert blocks == [(6, 1, 1), (4, 99, 98), (3, 1, 0)]
    whole, drained, taken = 8 + 99 * 6 + 3, 2 + 99 * 2, 1 + 98
    assert emulated.cycles("sifive-e31", got) == {(-1, ""): (whole, whole + 3, whole + drained + 3 * taken)}
    assert emulated.cycles("rv32imc", got) == emulated.cycles("rv32imac", got) == {}
    assert got.instructions == run(folder, core="rv32imc").instructions
    # ESP32-C3: 0 addi, 1 li, 2 lbu, 4 mul, 5 addi, 6 bnez; then 0 lbu, 2 mul, 3 addi, 4 bnez; a taken branch adds two cycles.
    # At most a byte is there after three cycles, and a taken branch adds three; at least it adds one.
    likely, branches = 7 + 99 * 5 + 3, 1 + 98
    most = likely + 1 + 99 + 3 * branches
    assert emulated.cycles("rv32imc-esp", got) == {(-1, ""): (likely + branches, likely + 2 * branches, most)}


def test_a_stack_that_cannot_be_measured_is_an_error(write_model: Write) -> None:
    lines = ("mov r3, #200", "sub.w sp, sp, r3", "push {r4}", "pop {r4}", "add sp, r3", "movs r0, #0", "bx lr")
    with pytest.raises(Fault, match="which is not supported"):
        run(write_model(assembly(*lines)))


CALLS = """
__attribute__((noinline)) static int32_t inner(const int8_t *from)
{
    volatile int32_t sums[25];
    for (int32_t i = 0; i < 25; ++i) sums[i] = from[i] * i;
    return sums[3] + sums[from[2] & 15];
}
__attribute__((noinline)) static int32_t outer(const int8_t *from)
{
    volatile int64_t held[7];
    for (int32_t i = 0; i < 7; ++i) held[i] = inner(from + i);
    return (int32_t)(held[2] / (held[3] | 1));
}
"""


def test_stack_use_equals_the_compiler_s_figures(write_model: Write, tmp_path: Path) -> None:
    compiler = toolchain.arm()
    if compiler.name != "gcc":
        pytest.skip("needs gcc's -fstack-usage")
    folder = write_model(
        CALLS.replace("held[2] / (held[3] | 1)", "held[2] + held[3]") + body("arena[96] = (int8_t)outer(arena);")
    )
    firmware = emulated.build(folder, "tiny", "cortex-m4")
    flags = firmware.compiler.removeprefix(compiler.version + ": ").split()
    subprocess.run([*compiler.command, *flags, "-fstack-usage", "-c", folder / "tiny.c", "-o", tmp_path / "tiny.o"], check=True)
    usage = {}
    for line in (tmp_path / "tiny.su").read_text().splitlines():
        where, count, kind = line.split("\t")
        assert kind == "static"
        usage[where.split(":")[-1].partition(".")[0]] = int(count)
    got = emulated.invoke(firmware, ARENA, INPUTS, [32])
    assert usage["inner"] > 100
    assert got.stack == usage["tiny_invoke"] + usage["outer"] + usage["inner"]


@COMPILERS
def test_runtime_functions_of_the_compiler_are_linked_and_counted(
    write_model: Write, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    use(monkeypatch, compiler)
    statements = """
        volatile int32_t n = 19;
        volatile float factor = 1.5f;
        memset(arena + 96, 7, (size_t)n + 13);
        memcpy(arena + 99, arena + 1, (size_t)n);
        arena[96] = (int8_t)outer(arena);
        arena[97] = (int8_t)((float)arena[3] * factor);
    """
    folder = write_model("#include <string.h>\n" + CALLS + body(statements))
    firmware = emulated.build(folder, "tiny", "cortex-m4")
    got = emulated.invoke(firmware, ARENA, INPUTS, [32])
    x = np.frombuffer(INPUTS[0], np.int8).astype(np.int64)
    held = [(x[i : i + 25] * np.arange(25))[[3, x[i + 2] & 15]].sum() for i in range(7)]
    expected = np.full(32, 7, np.int8)
    expected[3:22] = x[1:20]
    expected[0] = np.int64(int(held[2] / (held[3] | 1))).astype(np.int8)
    expected[1] = np.int64(x[3] * 1.5).astype(np.int8)
    assert got.outputs == [expected.tobytes()]
    assert any("memcpy" in name for name in got.functions)
    assert any("ldivmod" in name for name in got.functions)
    assert not any("fmul" in name for name in got.functions), "floats are computed by the core"
    assert firmware.sizes["code"] > emulated.build(write_model(), "tiny", "cortex-m4").sizes["code"]


MOVES = """
static uint8_t moved[120], expected[120];
static int32_t wrong(int32_t to, int32_t from, int32_t count)
{
    for (int32_t i = 0; i < 120; ++i)
        moved[i] = expected[i] = (uint8_t)(7 * i + 1);
    for (int32_t i = 0; i < count; ++i)
        expected[to + i] = (uint8_t)(7 * (from + i) + 1);
    memmove(moved + to, moved + from, (size_t)count);
    return memcmp(moved, expected, sizeof moved) != 0;
}
"""


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4", "rv32imc"])
def test_memmove_copies_regions_that_overlap(write_model: Write, core: str) -> None:
    statements = """
        int32_t failures = 0, trials = 0;
        for (int32_t to = 0; to <= 80; to += 3)
            for (int32_t count = 0; count <= 40; ++count, ++trials)
                failures += wrong(to, 40, count);
        arena[96] = (int8_t)(failures > 0), arena[97] = trials == 27 * 41;
    """
    got = run(write_model("#include <string.h>\n" + MOVES + body(statements)), core=core)
    assert got.outputs[0][:2] == bytes((0, 1))


def test_memmove_copies_words_in_both_directions(write_model: Write) -> None:
    """The regions have 100 bytes and overlap in all but one byte, then not at all, then in all but one byte again."""
    head = "#include <string.h>\nstatic int8_t bytes[1000];\n"
    for to in (501, 700, 499):
        got = run(write_model(head + body(f"volatile size_t n = 100;\nmemmove(bytes + {to}, bytes + 500, n);")))
        assert 50 < sum(got.functions.get(name, 0) for name in ("memmove", "copy_forward", "copy_backward")) < 150


def test_zig_compiles_no_support_library_for_code_without_calls_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, "zig")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path / "zig"))
    compiler, source, compiled = toolchain.arm(), tmp_path / "f.c", tmp_path / "f.o"
    source.write_text("int f(void) { return 1; }\n")
    flags = emulated.flags_for("cortex-m4", compiler)
    toolchain.compile_c(compiler, [*flags, "-c", source, "-o", compiled])
    emulated.link_all(compiler, [*flags, "-Wl,-e,f"], [compiled], tmp_path / "f.elf")
    assert (tmp_path / "f.elf").is_file() and not [*(tmp_path / "zig").rglob("*compiler_rt*")]


def test_static_data_is_counted_and_initialised_before_each_run(write_model: Write) -> None:
    folder = write_model(
        "static int32_t calls[3];\nstatic int32_t first = 77;\n" + body("arena[96] = (int8_t)(first++ + calls[2]++);")
    )
    firmware = emulated.build(folder, "tiny", "cortex-m4")
    assert firmware.sizes["static"] in (8, 16)  # the compiler may reduce `calls` to the used element
    assert [emulated.invoke(firmware, ARENA, INPUTS, [1]).outputs for _ in range(2)] == [[bytes([77])]] * 2


def test_a_reused_machine_is_reset(write_model: Write) -> None:
    """A run outputs the initial registers and stack, then changes them; the next run must see only its own initial values."""
    put = ("ldr r2, [r0]", "str r8, [r2, #96]", "vmov r3, s9", "str r3, [r2, #100]", "mov r8, #1", "vmov s9, r8")
    stack = ("ldr r3, [sp, #-16]", "str r3, [r2, #104]", "ldr r3, [r2, #64]", "str r3, [r2, #108]")
    folder = write_model(assembly(*put, *stack, "movs r0, #0", "bx lr"))
    firmware = emulated.build(folder, "tiny", "cortex-m4")
    first, other, again = (emulated.invoke(firmware, ARENA, INPUTS, [16], fill=fill).outputs[0] for fill in (0, 1, 0))
    assert first == again and first[:8] == other[:8] == bytes(8)
    assert all(a ^ b == 0xFF for a, b in zip(first[8:], other[8:], strict=True))


@pytest.mark.parametrize(
    ("statements", "arena", "said"),
    [
        ("*(volatile int8_t *)(arena - 1) ^= 1;", 128, "1 bytes before sram"),
        ("*(volatile int8_t *)(arena - 5000) = 1;", 128, r"write to 0x2fff\w+, 5000 bytes before sram, in tiny_invoke"),
        ("*(volatile int8_t *)(arena + 121) ^= 1;", 120, "1 bytes past the end of sram"),
        ("*(volatile int8_t *)(arena + 128) = 1;", 128, "write to 0x30001000, 0 bytes past the end of sram"),
        ("*(volatile int32_t *)(arena + 126) = 1;", 128, r"write to .* past the end of sram|[24] bytes past"),
        ("arena[96] = *(volatile int8_t *)(arena + 128);", 128, "read of 0x30001000, 0 bytes past the end of sram"),
        ("arena[96] = *(volatile int8_t *)(intptr_t)4;", 128, "read of 0x00000004"),
        ("*(volatile int8_t *)(intptr_t)tiny_invoke = 1;", 128, "write to 0x7000.*in Flash"),
        ("((void (*)(void))(intptr_t)0x12345678)();", 128, "jump to 0x12345678"),
        ("volatile int8_t huge[70000]; huge[arena[0] & 1] = 1; arena[96] = huge[0];", 128, "beyond the end of the stack"),
        ('__asm__ volatile("str %0, [sp, #-40]" : : "r"(0x1234));', 128, "below its stack pointer"),
        ("return 5;", 128, "tiny returned the error 5"),
    ],
)
def test_faults_are_detected(write_model: Write, statements: str, arena: int, said: str) -> None:
    with pytest.raises(Fault, match=said):
        emulated.invoke(emulated.build(write_model(body(statements)), "tiny", "cortex-m4"), {"sram": arena}, INPUTS, [24])


def test_a_fault_names_the_function_and_the_step(write_model: Write) -> None:
    lines = ("movs r0, #3", "bl tw_trace", "movs r0, #0", "movs r1, #1", "adds r1, #2", "str r1, [r0]")
    with pytest.raises(Fault, match=r"tiny_invoke after step 3: write to 0x00000000, in tiny_invoke \+ 12 "):
        run(write_model(assembly(*lines)), trace=True)


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m0plus", "cortex-m4", "rv32imc"])
@pytest.mark.parametrize(("bits", "offset"), [(32, 2), (16, 1), (16, 2), (32, 4), (8, 1)])
def test_unaligned_accesses_fault_on_cores_without_them(write_model: Write, core: str, bits: int, offset: int) -> None:
    folder = write_model(body(f"*(volatile int{bits}_t *)(arena + {offset}) += 1;"))
    if emulated.CORES[core].aligned and offset % (bits // 8):
        with pytest.raises(Fault, match=rf"unaligned access to 0x\w+, sram \+ {offset}, in tiny_invoke"):
            run(folder, core=core)
    else:
        run(folder, core=core)


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m33", "rv32imc"])
@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ("*(volatile int8_t *)(arena - 1) ^= 1;", "1 bytes before sram"),
        ("*(volatile int8_t *)(arena + 128) = 1;", "write to 0x30001000, 0 bytes past the end of sram .*, in tiny_invoke"),
        ("arena[96] = *(volatile int8_t *)(intptr_t)4;", "read of 0x00000004"),
        ("*(volatile int8_t *)(intptr_t)tiny_invoke = 1;", "write to 0x7000.*in Flash"),
        ("((void (*)(void))(intptr_t)0x12345679)();", "jump to 0x12345678"),
        ("volatile int8_t huge[70000]; huge[arena[0] & 1] = 1; arena[96] = huge[0];", "beyond the end of the stack"),
        ("return 5;", "tiny returned the error 5"),
    ],
)
def test_faults_are_detected_on_every_instruction_set(write_model: Write, core: str, statements: str, said: str) -> None:
    with pytest.raises(Fault, match=said):
        run(write_model(body(statements)), core=core)


def test_outputs_that_depend_on_uninitialised_memory_are_a_fault(write_model: Write) -> None:
    folder = write_model(body("for (int i = 0; i < 32; ++i) arena[96 + i] = arena[i];\narena[101] = (int8_t)(arena[70] & 8);"))
    with pytest.raises(Fault, match=r"output 0 depends on memory that was never written: byte 5 "):
        touched(run(folder, fill=0), run(folder, fill=1))
    folder = write_model(body("volatile int8_t local[64]; arena[96] = local[9];"))
    with pytest.raises(Fault, match=r"never written: byte 0 "):
        touched(
            *(emulated.invoke(emulated.build(folder, "tiny", "cortex-m4"), ARENA, INPUTS, [1], fill=fill) for fill in (0, 1)),
        )


def test_the_highest_written_byte_of_an_arena_is_measured(write_model: Write) -> None:
    folder = write_model(body("for (int i = 0; i < 32; ++i) arena[96 + i] = arena[i];\narena[140] = arena[3];"))
    assert touched(*(run(folder, fill=fill, arena={"sram": 200}) for fill in (6, 7))) == {"sram": 141}


def test_an_endless_loop_is_stopped_by_the_limits(write_model: Write) -> None:
    folder = write_model(assembly("1: b 1b"))
    with pytest.raises(Fault, match=r"did not end within 1000 instructions, in tiny_invoke \+ 0 "):
        run(folder, limit_instructions=1000)
    with pytest.raises(Fault, match=r"did not finish within 1 s"):
        run(folder, limit_s=1)
    assert run(write_model()).outputs == [RELU]


def test_a_model_with_two_memories(write_model: Write) -> None:
    folder = write_model(
        body("int8_t *fast = memory->fast.data; for (int i = 0; i < 32; ++i) arena[96 + i] = fast[i] = arena[i];"), REST
    )
    (folder / "tiny.h").write_text((folder / "tiny.h").read_text().replace("} sram;", "} fast, sram;"))
    runs = [run(folder, arena={"fast": 48, "sram": 128}, fill=fill) for fill in (0, 1)]
    assert runs[0].outputs == INPUTS
    assert touched(*runs) == {"fast": 32, "sram": 128}


def test_built_firmware_is_reused(write_model: Write) -> None:
    folder = write_model()
    first = emulated.build(folder, "tiny", "cortex-m4").path
    before = first.stat().st_mtime_ns
    assert emulated.build(folder, "tiny", "cortex-m4").path == first
    assert first.stat().st_mtime_ns == before
    assert emulated.build(folder, "tiny", "cortex-m7").path != first


def test_unknown_cores_and_missing_packages_are_refused(write_model: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    firmware = emulated.build(write_model(), "tiny", "cortex-m4")
    with pytest.raises(CompileError, match=r"no emulated core is called cortex-m1; known cores: .*cortex-m4, cortex-m7"):
        emulated.build(write_model(), "tiny", "cortex-m1")
    with pytest.raises(CompileError, match="larger than the"):
        emulated.invoke(firmware, {"sram": 1 << 30}, INPUTS, [32])
    monkeypatch.setattr(emulated.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match=re.escape(f"needs unicorn, which is not installed; {install('verify')}")):
        emulated.invoke(firmware, ARENA, INPUTS, [32])
    with pytest.raises(CompileError, match=re.escape(f"needs pyelftools, which is not installed; {install('verify')}")):
        emulated.elf(firmware.path)


def test_executions_and_taken_branches_of_basic_blocks_are_counted(write_model: Write) -> None:
    loop = ("1: adds r2, r2, #1", "cmp r2, r3", "bne 1b")
    got = run(write_model(assembly("push {r4, lr}", "movs r2, #0", "movs r3, #100", *loop, "movs r0, #0", "pop {r4, pc}")))
    found = [(block.instructions, block.executions, block.taken) for block in got.blocks[-1, ""]]
    assert found == [(3 + 3, 1, 1), (3, 99, 98), (2, 1, 0)], "the return goes out of what is counted"
    assert sum(block.instructions * block.executions for block in got.blocks[-1, ""]) == got.instructions
    taken = 1 + 98
    assert emulated.cycles("cortex-m4", got) == {
        (-1, ""): (3 + 2 + 300 + 1 + 3 + taken, 3 + 2 + 300 + 1 + 3 + 2 * taken, 309 + 3 * taken)
    }
    assert emulated.by_step(emulated.cycles("cortex-m4", got)) == [], "it was not traced"
    assert emulated.cycles("rv32imc", got) == {}


@pytest.mark.parametrize(("cache", "misses"), [((64, 16, 4), 4), ((32, 16, 2), 8), ((32, 16, 1), 8), ((128, 32, 4), 2)])
def test_cache_misses_equal_those_counted_by_hand(write_model: Write, cache: tuple[int, int, int], misses: int) -> None:
    """The code reads 64 bytes of constants twice with conditional loads, whose IT state Unicorn does not reset itself."""
    load = ("cmp r2, #128", "it ne", "ldrne r4, [r1, r2]", "adds r2, #4", "cmp r2, #64", "bne 1b")
    lines = (
        "push {r4, lr}",
        "movs r3, #2",
        "2: adr r1, 3f",
        "movs r2, #0",
        f"1: {load[0]}",
        *load[1:],
        "subs r3, #1",
        "bne 2b",
    )
    folder = write_model(assembly(*lines, "movs r0, #0", "pop {r4, pc}", ".balign 32", "3: .space 64, 7"))
    got = run(folder, caches={"data": cache})
    passes = misses * cache[1] // 64
    assert got.misses == {(-1, ""): {"data": [misses, misses - passes]}}, "all in sequence but the first of each pass"
    assert got.instructions == run(folder).instructions
    code, following = run(folder, caches={"code": (1024, 16, 64)}).misses[-1, ""]["code"]
    assert code in (2, 3) and following == code - 1, "lines of 28 bytes of code"
    unified = run(folder, caches={"unified": (1024, 16, 64)}).misses[-1, ""]
    assert unified["code"][0] == code and unified["data"][0] == 4
    assert unified["code"][1] + unified["data"][1] == code + 3, "the constants directly follow the code"


@pytest.mark.parametrize("core", ["cortex-m4", "rv32imc", "cortex-m55"])
@pytest.mark.parametrize(("calls", "said"), HANDED)
def test_streamed_rows_must_be_written_once_and_in_order(
    write_model: Write, core: str, calls: list[tuple[int, int]], said: str | None
) -> None:
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    folder = write_model(handing_out(calls), NO_OUTPUT)
    if said is None:
        assert run(folder, core=core, exchange=Exchange(streamed_outputs={0: 8})).outputs == INPUTS
        with pytest.raises(Fault, match="streams other outputs"):
            run(write_model(), core=core, exchange=Exchange(streamed_outputs={0: 8}))
        return
    with pytest.raises(Fault, match=said):
        run(folder, core=core, exchange=Exchange(streamed_outputs={0: 8}))
