"""Vector instructions and low-overhead loops of Armv8.1-M are decoded to parts of the core, latencies and registers."""

from __future__ import annotations

import pytest

from tinyweave.simulate.vectors import decode


# the comments are how binutils 2.40 disassembles the words, which GCC emitted for our kernels
@pytest.mark.parametrize(
    ("word", "said"),
    [
        (0xECB01E10, "vload/1/r0/q0 r0"),  # vldrb.u8 q0, [r0], #16
        (0xED916E80, "vload/1/r1/q3"),  # vldrb.s16 q3, [r1, #0]
        (0xECB26F04, "vload/1/r2/q3 r2"),  # vldrb.s32 q3, [r2], #4
        (0xED9A2F00, "vload/1/r2/q1"),  # vldrh.s32 q1, [r2, #0]: bit 19 belongs to the size
        (0xED965F00, "vload/1/r6/q2"),  # vldrw.u32 q2, [r6, #0]
        (0xFC91CF47, "vgather/2/r1 q3/q6"),  # vldrw.u32 q6, [r1, q3, uxtw #2]
        (0xFD129F6A, "vgather/2/q1/q4"),  # vldrd.u64 q4, [q1, #-848]
        (0xFC929F01, "vload/1/r2 q4 q5 q6 q7/q4 q5 q6 q7"),  # vld40.32 {q4, q5, q6, q7}, [r2]
        (0xFC867F61, "vstore/1/r6 q3 q4 q5 q6/"),  # vst43.32 {q3, q4, q5, q6}, [r6]
        (0xECA36F04, "vstore/1/r3 q3/r3"),  # vstrb.32 q3, [r3], #4
        (0xED821F00, "vstore/1/r2 q0/"),  # vstrw.32 q0, [r2, #0]
        (0xEEF08F22, "vmultiply/2/r8 q0 q1/r8"),  # vmlava.s8 r8, q0, q1
        (0xEEF1AF00, "vmultiply/2/q0/r10"),  # vaddv.s8 sl, q0
        (0xEED8AE24, "vmultiply/2/r10 r11 q4 q2/r10 r11"),  # vmlalva.s16 sl, fp, q4, q2
        (0xEE273E63, "vmultiply/2/q3 r3/q1"),  # vmul.i32 q1, q3, r3
        (0xFE27CE0D, "vmultiply/2/q3 q6/q6"),  # vmulh.u32 q6, q3, q6
        (0xEE178E00, "vmultiply/2/q3 q0/q4"),  # vmullb.s16 q4, q3, q0
        (0xEE266E6C, "vmultiply/2/q3 q3 r12/q3"),  # vqdmlah.s32 q3, q3, ip
        (0xFE276E65, "vmultiply/2/q3 r5/q3"),  # vqrdmulh.s32 q3, q3, r5
        (0xFF200B44, "vmultiply/2/q0 q2/q0"),  # vqrdmulh.s32 q0, q0, q2
        (0xFE270F63, "vmultiply/1/q3 r3/"),  # vcmp.u32 cs, q3, r3
        (0xEF266650, "valu/1/q3 q0/q3"),  # vmin.s32 q3, q3, q0
        (0xEF264848, "valu/1/q3 q4/q2"),  # vadd.i32 q2, q3, q4
        (0xEE076F43, "valu/1/q3 r3/q3"),  # vadd.i8 q3, q3, r3
        (0xEF226546, "valu/2/q1 q3/q3"),  # vrshl.s32 q3, q3, q1
        (0xEFB46556, "valu/1/q3/q3"),  # vshl.i32 q3, q3, #20
        (0xEEA22B10, "valu/1/r2/q1"),  # vdup.32 q1, r2
        (0xEEB06F44, "valu/1/q2/q3"),  # vmovlb.s16 q3, q2
        (0xFE317E85, "valu/3/q3 q2/q3"),  # vmovnt.i16 q3, q2
        (0xEE338E09, "valu/3/q4 q4/q4"),  # vqmovnb.s16 q4, q4
        (0xFE356F07, "valu/1/q2 q3/q3"),  # vpsel q3, q2, q3
        (0xFFB9C342, "valu/1/q1/q6"),  # vabs.s32 q6, q1
        (0xEC0ECF0C, "vmultiply/1/q6/r12 lr"),  # vmov ip, lr, q6[2], q6[0]
        (0xEC18AF10, "valu/1/q5 r0 r8/q5"),  # vmov q5[3], q5[1], r0, r8
        (0xFE710F4D, "vcontrol/1//"),  # vpst
        (0xEEED5A10, "vcontrol/1//"),  # vmsr p0, r5
        (0xF00FC017, "le//lr/lr"),  # le lr, ...
        (0xF01FC007, "le//lr/lr"),  # letp lr, ...
        (0xF04EC02D, "wls//lr/lr"),  # wls lr, lr, ...
        (0xF007C007, "wls//r7/lr"),  # wlstp.8 lr, r7, ...
        (0xF048E001, "dls//r8/lr"),  # dls lr, r8
        (0xF003E801, "vctp//r3/"),  # vctp.8 r3
        (0xEA520103 | 0x8000, "csel//r2 r3/r1"),  # csel r1, r2, r3, eq
    ],
)
def test_registers_and_latencies_of_vector_instructions(word: int, said: str) -> None:
    assert decode(word) == tuple(said.split("/"))


@pytest.mark.parametrize(
    "word",
    [
        0xEE377A05,  # vadd.f32 s14, s14, s10
        0xED9F6B59,  # vldr d6, [pc, #356]
        0xECBD8B08,  # vpop {d8-d11}
        0xEE369B10,  # vmov.32 r9, d6[1]
        0xE9D76402,  # ldrd r6, r4, [r7, #8]
        0xF000F800,  # bl
        0xFB010203,  # mla r2, r1, r3, r0
    ],
)
def test_instructions_of_older_architectures_are_left_to_capstone(word: int) -> None:
    assert decode(word) is None
