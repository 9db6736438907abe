"""Cycles of short sequences against what the manuals say of them, and of those that the manuals leave open as a range."""

from __future__ import annotations

import pytest

from tinyweave.simulate.instruction_timing import TIMINGS, Cycles, Instruction, block_timing, milliseconds, waiting


def program(*lines: str) -> list[Instruction]:
    """Lines of `name operands / registers read / written`."""
    found = []
    for line in lines:
        code, read, written = (part.strip() for part in line.split("/"))
        name, _, operands = code.partition(" ")
        found.append(Instruction(name, operands, frozenset(read.split()), frozenset(written.split())))
    return found


def likely(core: str, *lines: str) -> int:
    return block_timing(core, program(*lines)).cycles(1, 0).likely


LDR_0 = "ldr r0, [r1]/r1/r0"
ADD_0, ADD_1 = "adds r0, r2, r3/r2 r3/r0", "adds r1, r4, r5/r4 r5/r1"


# DDI 0337, Load/store timings, has the first four as examples
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
def test_cortex_m4(lines: tuple[str, ...], count: int):
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
def test_cortex_m0(line: str, m0plus: int, m0: int):
    taken = int(line[0] == "b" or "pc" in line)
    assert block_timing("cortex-m0plus", program(line)).cycles(1, taken).likely == m0plus
    assert block_timing("cortex-m0", program(line)).cycles(1, taken).likely == m0


def test_a_branch_costs_more_where_it_is_taken():
    loop = program("subs r0, #1/r0/r0", "bne #-2//")
    assert block_timing("cortex-m4", loop).cycles(1000, 999) == (2000 + 999, 2000 + 2 * 999, 2000 + 3 * 999)
    assert block_timing("cortex-m0plus", loop).cycles(1000, 999).likely == 2000 + 999


def test_two_at_a_time_on_a_cortex_m7():
    assert likely("cortex-m7", ADD_0, ADD_1) == 1
    assert likely("cortex-m7", ADD_0, "adds r1, r0, r5/r0 r5/r1") == 2
    assert likely("cortex-m7", LDR_0, ADD_1) == 1
    assert likely("cortex-m7", LDR_0, "ldr r2, [r3]/r3/r2") == 2
    assert likely("cortex-m7", LDR_0, "adds r1, r0, r5/r0 r5/r1") == 3, "a loaded value is there after two cycles"
    assert likely("cortex-m7", "smlad r0, r1, r2, r0/r0 r1 r2/r0", "smlad r3, r1, r2, r3/r3 r1 r2/r3") == 2
    loop = program("subs r0, #1/r0/r0", "bne #-2//")
    assert block_timing("cortex-m7", loop).cycles(1000, 999).most > block_timing("cortex-m7", loop).cycles(1000, 1000).most, (
        "the way out is guessed wrong"
    )


@pytest.mark.parametrize("core", TIMINGS)
def test_the_likely_lies_between_the_extremes(core: str):
    sequence = program(ADD_0, "ldr r2, [r0]/r0/r2", "str r2, [r1, r3]/r1 r2 r3/", "sdiv r0, r1, r2/r1 r2/r0", "bne #-8//")
    found = block_timing(core, sequence).cycles(10, 7)
    assert 0 < found.fewest <= found.likely <= found.most


def test_waiting_for_flash():
    found = waiting(Cycles(100, 110, 120), code=3, data=2, waits=5)
    assert found == (100 + 2 * 5, 110 + 5 * 5, 120 + 5 * 9)


def test_time():
    assert milliseconds(120_000, 120_000_000) == 1.0
