"""Cycles of short instruction sequences equal those of the manuals; ranges cover what the manuals leave open."""

from __future__ import annotations

import pytest

from tinyweave.api.runs import flash_waits
from tinyweave.devices import find
from tinyweave.simulate.instruction_timing import TIMINGS, Cycles, Instruction, block_costs, block_cycles, milliseconds


def timed(core: str, block: list[Instruction], executions: int, taken: int) -> Cycles:
    return block_cycles(block_costs(core, block), executions, taken)


def program(*lines: str) -> list[Instruction]:
    """Return instructions from lines of `name operands / registers read / written`."""
    found = []
    for line in lines:
        code, read, written = (part.strip() for part in line.split("/"))
        name, _, operands = code.partition(" ")
        found.append(Instruction(name, operands, frozenset(read.split()), frozenset(written.split())))
    return found


def likely(core: str, *lines: str) -> int:
    return timed(core, program(*lines), 1, 0).likely


LDR_0 = "ldr r0, [r1]/r1/r0"
ADD_0, ADD_1 = "adds r0, r2, r3/r2 r3/r0", "adds r1, r4, r5/r4 r5/r1"


# the first four are examples of DDI 0337, Load/store timings
@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ((LDR_0, "ldr r1, [r2]/r2/r1"), 3),
        (("ldr r0, [r1, r2]/r1 r2/r0", "str r0, [r3, #20]/r0 r3/"), 3),
        (("ldr r0, [r1, r2]/r1 r2/r0", "str r1, [r3, r2]/r1 r3 r2/"), 3),
        (("ldr r0, [r1, r5]/r1 r5/r0", "ldr r1, [r2]/r2/r1", "ldr r2, [r3, #4]/r3/r2"), 4),
        ((LDR_0, "ldr r2, [r0]/r0/r2"), 4),
        (("ldrd r0, r1, [r2]/r2/r0 r1",), 3),
        (("ldm r0!, {r1, r2, r4 - r6}/r0/r0 r1 r2 r4 r5 r6",), 6),
        (("push {r4, lr}/sp r4 lr/sp",), 3),
        (("vpop {d8, s20}/sp/sp d8 s20",), 4),
        (("str r0, [r1, r2]/r0 r1 r2/",), 2),
        (("str r0, [r1, #4]/r0 r1/",), 1),
        ((ADD_0, "ldr r2, [r0]/r0/r2"), 4),
        (("smlad r0, r1, r2, r0/r0 r1 r2/r0",), 1),
        (("sdiv r0, r1, r2/r1 r2/r0",), 7),
        (("vdiv.f32 s0, s1, s2/s1 s2/s0",), 1),
        (("vdiv s0, s1, s2/s1 s2/s0",), 14),
        (("ite eq//", "add r0, r0, #1/r0/r0", "add r0, r0, #2/r0/r0"), 3),
    ],
)
def test_cycles_of_instructions_on_a_cortex_m4(lines: tuple[str, ...], count: int):
    assert likely("cortex-m4", *lines) == count


def test_multiplications_take_longer_on_a_cortex_m3():
    lines = ("mla r0, r1, r2, r0/r0 r1 r2/r0",), ("smull r0, r1, r2, r3/r2 r3/r0 r1",), ("mul r0, r1, r2/r1 r2/r0",)
    assert [likely("cortex-m3", *one) for one in lines] == [2, 4, 1]
    assert [likely("cortex-m4", *one) for one in lines] == [1, 1, 1]


# DDI 0484 and DDI 0432, Instruction set summary
@pytest.mark.parametrize(
    ("line", "m0plus", "m0"),
    [
        (LDR_0, 2, 2),
        ("str r0, [r1]/r0 r1/", 2, 2),
        ("push {r4, lr}/sp r4 lr/sp", 3, 3),
        ("muls r0, r1/r0 r1/r0", 1, 1),
        ("b #8//", 2, 3),
        ("bl #8//lr", 3, 4),
        ("bx lr/lr/", 2, 3),
        ("pop {r4, pc}/sp/sp r4 pc", 4, 5),
    ],
)
def test_cycles_of_instructions_on_cortex_m0_and_m0plus(line: str, m0plus: int, m0: int):
    taken = int(line[0] == "b" or "pc" in line)
    assert timed("cortex-m0plus", program(line), 1, taken).likely == m0plus
    assert timed("cortex-m0", program(line), 1, taken).likely == m0


def test_a_taken_branch_takes_more_cycles():
    loop = program("subs r0, #1/r0/r0", "bne #-2//")
    assert timed("cortex-m4", loop, 1000, 999) == (2000 + 999, 2000 + 2 * 999, 2000 + 3 * 999)
    assert timed("cortex-m0plus", loop, 1000, 999).likely == 2000 + 999


LDR_2, STR_0 = "ldr r2, [r3]/r3/r2", "str r0, [r3]/r0 r3/"
MUL_0, SMLAD_0 = "mul r0, r1, r2/r1 r2/r0", "smlad r0, r1, r2, r0/r0 r1 r2/r0"


# Each row is (fewest, likely, most); the rules are at M7 in instruction_timing.py. An instruction starts with the one before,
# or a cycle later, or when its operands are ready; the block ends a cycle after the start of the last one.
@pytest.mark.parametrize(
    ("lines", "counts"),
    [
        ((ADD_0, ADD_1), (1, 1, 1)),
        ((ADD_0, "adds r1, r0, r5/r0 r5/r1"), (2, 2, 2)),
        ((LDR_0, ADD_1), (1, 1, 1)),
        ((LDR_0, LDR_2), (1, 2, 2)),  # whether the banks differ is unknown,
        ((LDR_0, "ldr r2, [r1, #4]/r1/r2"), (1, 1, 2)),  # except for neighbouring words
        ((LDR_0, "ldr r2, [r1, #8]/r1/r2"), (1, 2, 2)),
        ((LDR_0, "ldrb r2, [r1, #4]/r1/r2"), (1, 2, 2)),
        ((LDR_0, "str r4, [r3]/r4 r3/"), (1, 1, 2)),  # a load and a store, but not two stores, nor a store and a product
        (("str r4, [r1]/r4 r1/", STR_0), (2, 2, 2)),
        ((MUL_0, "str r4, [r3]/r4 r3/"), (2, 2, 2)),
        ((LDR_0, STR_0), (1, 1, 2)),  # any value can be stored at once
        ((MUL_0, "adds r3, r4, r5/r4 r5/r3", STR_0), (2, 2, 2)),
        ((ADD_0, "str r4, [r0]/r4 r0/"), (2, 2, 2)),  # its address is needed before
        ((LDR_0, "ldr r2, [r0]/r0/r2"), (3, 4, 4)),
        ((MUL_0, "ldr r3, [r0]/r0/r3"), (3, 3, 3)),
        ((LDR_0, "adds r1, r0, r5/r0 r5/r1"), (2, 2, 2)),  # a word is there for arithmetic after one cycle,
        (("ldrb r0, [r1]/r1/r0", "adds r1, r0, r5/r0 r5/r1"), (3, 3, 3)),  # a byte after two,
        ((LDR_0, "sxtb16 r1, r0, ror #8/r0/r1"), (2, 2, 2)),
        ((LDR_0, "sxtab16 r1, r5, r0/r0 r5/r1"), (3, 3, 3)),  # for an operand that is needed early after two,
        ((LDR_0, "add r1, r5, r0, lsl #2/r0 r5/r1"), (3, 3, 3)),
        ((LDR_0, "smlad r3, r0, r2, r3/r0 r2 r3/r3"), (3, 3, 3)),  # for a product after two,
        ((LDR_0, "smlad r3, r4, r2, r0/r0 r2 r4/r3"), (2, 2, 2)),  # to be added to after one
        ((SMLAD_0, "smlad r0, r3, r4, r0/r0 r3 r4/r0"), (2, 2, 2)),  # so is a product: sums of products follow each other
        ((SMLAD_0, "smlad r3, r0, r2, r0/r0 r2/r3"), (3, 3, 3)),
        ((MUL_0, "smull r3, r4, r1, r0/r0 r1/r3 r4"), (3, 3, 3)),
        (("smull r0, r1, r2, r3/r2 r3/r0 r1", "smlal r0, r1, r4, r5/r0 r1 r4 r5/r0 r1"), (2, 2, 2)),
        ((SMLAD_0, "smlad r3, r1, r2, r3/r3 r1 r2/r3"), (2, 2, 2)),  # there is one multiplier
        ((ADD_1, "smlad r6, r2, r3, r6/r2 r3 r6/r6"), (1, 1, 1)),  # a product may start second, other DSP instructions may not
        ((ADD_1, "sxtb16 r6, r2/r2/r6"), (2, 2, 2)),
        (("ldm r0!, {r1, r2, r4 - r6}/r0/r0 r1 r2 r4 r5 r6",), (3, 3, 5)),  # two words per cycle
        (("ldrd r0, r1, [r2]/r2/r0 r1",), (1, 1, 2)),
    ],
)
def test_cycles_of_instructions_on_a_cortex_m7(lines: tuple[str, ...], counts: tuple[int, int, int]):
    assert timed("cortex-m7", program(*lines), 1, 0) == counts


def test_mispredicted_branches_on_a_cortex_m7():
    loop = program("subs r0, #1/r0/r0", "bne #-2//")
    assert timed("cortex-m7", loop, 1000, 999).most > timed("cortex-m7", loop, 1000, 1000).most, "the way out is guessed wrong"


E31 = "sifive-e31"
LB_0, LB_1 = "lb t0, 0(a0)/a0/t0", "lb t1, 0(a1)/a1/t1"
MUL_0 = "mul t0, t0, t1/t0 t1/t0"
SUM = "add a2, a2, t0/a2 t0/a2"
STEP_0, STEP_1 = "addi a0, 1/a0/a0", "addi a1, 1/a1/a1"


# Counts follow the manual's rules (see instruction_timing.py): an instruction starts one cycle after the preceding one, but
# not before the registers that it reads or overwrites are ready. Each instruction below is listed after the cycle in which it
# starts; the block takes one cycle more than the last one.
@pytest.mark.parametrize(
    ("lines", "count"),
    [
        # 0 addi, 1 add: a sum is ready after one cycle
        ((STEP_0, "add a2, a2, a0/a2 a0/a2"), 2),
        # 0 lw, 2 add: a word is ready after two cycles
        (("lw t0, 0(a0)/a0/t0", SUM), 3),
        # 0 lw, 1 addi, 2 add: the instruction between them fills the wait
        (("lw t0, 0(a0)/a0/t0", STEP_0, SUM), 3),
        # 0 lb, 3 add: a byte is ready after three cycles; likewise lhu
        ((LB_0, SUM), 4),
        (("lhu t0, 0(a0)/a0/t0", SUM), 4),
        # 0 lwsp, 2 add: a compressed load of a word from the stack
        (("lwsp t0, 8(sp)/sp/t0", SUM), 3),
        # 0 lb, 1 lb, 2 lb: loads follow each other
        ((LB_0, LB_1, "lb t2, 0(a2)/a2/t2"), 3),
        # 0 mul, 5 add: a product is ready after five cycles
        ((MUL_0, SUM), 6),
        # 0 mul, 5 mul: the multiplier computes one product at a time, even if neither reads the other
        ((MUL_0, "mulhu a4, a5, a6/a5 a6/a4"), 6),
        # 0 mul, 1 and 2 addi: other instructions do not wait
        ((MUL_0, STEP_0, STEP_1), 3),
        # 0 lb, 3 li: a register is not overwritten before its pending write
        ((LB_0, "li t0, 5//t0"), 4),
        # 0 lb, 1 lb, 2 and 3 addi, 4 mul, 9 add
        ((LB_0, LB_1, STEP_0, STEP_1, MUL_0, SUM), 10),
        # 0 sw, 1 sw: stores wait for nothing
        (("sw t0, 0(a0)/t0 a0/", "sw t1, 4(a0)/t1 a0/"), 2),
        # 0 lw, 2 sw: except for the stored register
        (("lw t0, 0(a0)/a0/t0", "sw t0, 4(a0)/t0 a0/"), 3),
        # 0 sw, 6 lw: the load waits five cycles for the store of the same word to leave its pipeline
        (("sw t0, 4(a0)/t0 a0/", "lw t1, 4(a0)/a0/t1"), 7),
        # 0 sw, 1 lw: it does not wait for the store of another word, nor 0 sw, 1 lw, 2 lw
        (("sw t0, 4(a0)/t0 a0/", "lw t1, 8(a0)/a0/t1"), 2),
        (("sw t0, 4(a0)/t0 a0/", "lw t1, 8(a0)/a0/t1", "lw t2, 0(a1)/a1/t2"), 3),
        # 0 sw, 1 addi, 2 lw: the store proceeds in the cycle in which no instruction uses the memory
        (("sw t0, 4(a0)/t0 a0/", STEP_1, "lw t1, 4(a0)/a0/t1"), 3),
    ],
)
def test_cycles_of_instructions_on_a_sifive_e31(lines: tuple[str, ...], count: int):
    assert likely(E31, *lines) == count


def test_a_division_takes_2_to_33_cycles_on_a_sifive_e31():
    """0 div, then add at 2 or 33; the likely count is the middle."""
    found = timed(E31, program("div t0, t0, t1/t0 t1/t0", SUM), 1, 0)
    assert found == (3, 18, 34)


def test_an_unfinished_product_widens_the_range_on_a_sifive_e31():
    """0 mul, 1 addi: the next block starts at cycle 2, or at 5 if its first instruction reads the product."""
    assert timed(E31, program(MUL_0, STEP_0), 1, 0) == (2, 2, 5)
    # 0 mul, then mul at 4 if 8 bits per cycle suffice for 32 bits, else at 5; its product is ready after five cycles
    assert timed(E31, program(MUL_0, "mul t2, a0, a1/a0 a1/t2"), 1, 0) == (5, 6, 10)


@pytest.mark.parametrize("branch", ["bne a0, a3, -20/a0 a3/", "bnez a0, -20/a0/", "bgeu a0, a3, -20/a0 a3/"])
def test_a_mispredicted_branch_costs_a_sifive_e31_three_cycles(branch: str):
    """0 lb, 1 lb, 2 and 3 addi, 4 mul, 9 add, 10 branch: 11 cycles.

    Fewest: all branches are predicted. Likely: only branches in their more frequent direction are. Most: no taken one is.
    """
    loop = program(LB_0, LB_1, STEP_0, STEP_1, MUL_0, SUM, branch)
    assert timed(E31, loop, 1000, 999) == (11_000, 11_000 + 3, 11_000 + 3 * 999)
    assert timed(E31, loop, 1000, 0) == (11_000, 11_000, 11_000)
    assert timed(E31, loop, 1000, 1) == (11_000, 11_003, 11_003)
    assert timed(E31, loop, 1000, 500) == (11_000, 12_500, 12_500)


@pytest.mark.parametrize("jump", ["j -20//", "jal 300//ra", "jalr a5/a5/ra", "jr ra/ra/"])
def test_a_predicted_jump_costs_a_sifive_e31_one_cycle(jump: str):
    assert timed(E31, program(jump), 100, 100) == (100, 100, 400)


# in the forms of GCC and zig; capstone does not give the registers that RISC-V instructions read and write
@pytest.mark.emulator
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("c848", "sw/a0, 0x14(s0)/a0 s0/"),
        ("4848", "lw/a0, 0x14(s0)/s0/a0"),
        ("4522", "lwsp/a0, 8(sp)/sp/a0"),
        ("c42a", "swsp/a0, 8(sp)/a0 sp/"),
        ("952e", "add/a0, a1/a0 a1/a0"),
        ("852e", "mv/a0, a1/a1/a0"),
        ("4515", "li/a0, 5//a0"),
        ("0505", "addi/a0, 1/a0/a0"),
        ("0808", "addi4spn/a0, sp, 0x10/sp/a0"),
        ("1101", "addi/sp, -0x20/sp/sp"),
        ("8082", "jr/ra/ra/"),
        ("9502", "jalr/a0/a0/ra"),
        ("c101", "beqz/a0, 0/a0/"),
        ("064fca03", "lbu/s4, 0x64(t6)/t6/s4"),
        ("00a58093", "addi/ra, a1, 0xa/a1/ra"),
        ("02c58533", "mul/a0, a1, a2/a1 a2/a0"),
        ("00b500a3", "sb/a1, 1(a0)/a1 a0/"),
        ("00b51063", "bne/a0, a1, 0/a0 a1/"),
        ("000000ef", "jal/0//ra"),
        ("40b00533", "sub/a0, a1/a1/a0"),
        ("8d0d", "sub/a0, a1/a0 a1/a0"),
        ("6541", "lui/a0, 0x10//a0"),
    ],
)
def test_registers_read_and_written_by_riscv_instructions(code: str, said: str):
    disassembly = pytest.importorskip("tinyweave.simulate.disassembly", reason="needs capstone")
    name, operands, read, written, size = disassembly.named("riscv", bytes.fromhex(code)[::-1]).split("\t")
    expected = said.split("/")
    assert [name, operands, sorted(read.split()), written] == [*expected[:2], sorted(expected[2].split()), expected[3]]
    assert int(size) == len(code) / 2


@pytest.mark.emulator
def test_vector_instructions_are_disassembled_among_others():
    disassembly = pytest.importorskip("tinyweave.simulate.disassembly", reason="needs capstone")
    halfwords = "f003 c015 ecb0 1e10 bf08 2001 1840 eef0 8f22 fb00 00f5 f01f c015".split()
    lines = disassembly.named("arm", b"".join(bytes.fromhex(half)[::-1] for half in halfwords)).split("\n")
    found = [tuple(line.split("\t")[::4]) for line in lines]
    names = "wls vload it mov add vmultiply unknown le"
    assert found == list(zip(names.split(), "44222444", strict=True))


M55 = "cortex-m55"
LOAD_0, LOAD_1 = "vload 1/r0/q0 r0", "vload 1/r1/q1 r1"
ADD_V, MUL_V, STORE_V = "valu 1/q0 q1/q2", "vmultiply 2/q2 q1/q3", "vstore 1/q3 r2/r2"


def short(*lines: str) -> list[Instruction]:
    """Return instructions of two bytes, from lines as `program` takes them."""
    return [one._replace(bytes=2) for one in program(*lines)]


# Each instruction is listed after the cycle in which it starts. The block takes the cycles from its start to that of an equal
# block behind it.
@pytest.mark.parametrize(
    ("lines", "count"),
    [
        # 0 load, 1 add, 2 multiply, 4 store (a product is ready after two cycles), then 6 load: stores use the same part
        ((LOAD_0, ADD_V, MUL_V, STORE_V), 6),
        # 0 load, 2 load: two loads do not overlap; 3 add
        ((LOAD_0, LOAD_1, ADD_V), 4),
        # 0 load, 1 multiply, 2 load, 3 multiply: 128 bits of each per two cycles
        ((LOAD_0, "vmultiply 2/r4 q0 q1/r4", LOAD_1, "vmultiply 2/r5 q0 q1/r5", "le/lr/lr"), 4),
        # 0 load, 2 store, then 4 load: the jump of a low-overhead loop takes no cycle
        ((LOAD_0, "vstore 1/q0 r2/r2", "le/lr/lr"), 4),
        # 0 ldr, 2 add: a loaded word is ready after two cycles, also a register of floats that is part of a vector
        ((LDR_0, "add r2, r0, r3/r0 r3/r2"), 3),
        (("vldr s5, [r1]/r1/s5", "valu 1/q1 q2/q0"), 3),
        # 0 mul, 2 add; 0 add with a shift, 2 add; 0 smlad, 1 smlad
        (("mul r0, r1, r2/r1 r2/r0", "add r2, r0, r3/r0 r3/r2"), 3),
        (("add r0, r1, r2, lsl #2/r1 r2/r0", "add r2, r0, r3/r0 r3/r2"), 3),
        (("smlad r0, r1, r2, r3/r1 r2 r3/r0", "smlad r4, r1, r2, r3/r1 r2 r3/r4"), 2),
        # 0 to 1: four registers, two per cycle; 0 ldrd
        (("ldm r0!, {r4, r5, r6, r7}/r0/r0 r4 r5 r6 r7",), 2),
        (("ldrd r4, r5, [r0]/r0/r4 r5",), 1),
        # 0 vidup, 5 gather: its addresses must be ready four cycles earlier
        (("valu 1/r0/q1", "vgather 2/r0 q1/q2"), 6),
        (("vcontrol 1//", "vstore 1/q0 r2/"), 2),
    ],
)
def test_cycles_of_instructions_on_a_cortex_m55(lines: tuple[str, ...], count: int):
    assert likely(M55, *lines) == count


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("adds r0, r1, r2/r1 r2/r0 cpsr", "mov r3, #1//r3", 1),
        ("adds r0, r1, r2/r1 r2/r0 cpsr", "mov r3, r0/r0/r3", 2),  # needs the sum
        ("ldr r0, [r1]/r1/r0", "add r3, #4/r3/r3 cpsr", 1),
        ("ldr r0, [r1]/r1/r0", "add r3, r3, r4/r3 r4/r3 cpsr", 2),  # a sum of registers does not pair
        ("cmp r0, r1/r0 r1/cpsr", "bne #-8/cpsr/pc", 1),
        ("bne #-8/cpsr/pc", "mov r3, #1//r3", 2),
        ("it eq//itstate", "ldr r0, [r1]/r1/r0", 1),
    ],
)
def test_two_short_instructions_may_start_together_on_a_cortex_m55(first: str, second: str, count: int):
    alone = program("smlad r5, r6, r7, r5/r5 r6 r7/r5")  # has four bytes
    assert timed(M55, [*alone, *short(first, second)], 1, 0).likely == 1 + count
    assert timed(M55, [*short(first), *program(second)], 1, 0).likely == 2, "the second has four bytes"


def test_a_low_overhead_loop_takes_cycles_only_to_enter_and_leave():
    loop = program(LOAD_0, "vstore 1/q0 r2/r2", "le/lr/lr")
    assert timed(M55, loop, 100, 99) == (4 * 100 + 1, 4 * 100 + 3, 4 * 100 + 6)
    assert timed(M55, program(LDR_0, "bne #-8/cpsr/pc"), 100, 99).likely == 2 * 100 + 3 * 99


@pytest.mark.parametrize("core", TIMINGS)
def test_the_likely_cycles_are_between_the_extremes(core: str):
    sequence = program(ADD_0, "ldr r2, [r0]/r0/r2", "str r2, [r1, r3]/r1 r2 r3/", "sdiv r0, r1, r2/r1 r2/r0", "bne #-8//")
    found = timed(core, sequence, 10, 7)
    assert 0 < found.fewest <= found.likely <= found.most


def test_flash_wait_states_add_cycles():
    waits = flash_waits("cortex-m4", find("stm32f446"))  # 5 wait states, on the chip
    assert waits is not None
    found = waits.added(Cycles(100, 110, 120), {"code": (3, 1), "data": (2, 2)})
    assert found == (100 + 2 * 5, 110 + 5 * 5, 120 + 5 * 9), "at best all code is prefetched"
    slower_bus = flash_waits("cortex-m7", find("stm32h743"))  # a clock of the bus is two cycles of the core
    assert slower_bus is not None
    assert slower_bus.added(Cycles(0, 0, 0), {"data": (1, 0)}) == (8, 8, 8 + 4 * 2 + 3)


def test_cycles_are_converted_to_milliseconds():
    assert milliseconds(120_000, 120_000_000) == 1.0
