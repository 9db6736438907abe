/* tw_add_line.h - the sum of two int8 operands as a linear function, with the Arm DSP extension.
 *
 * SMLAW multiplies 32 by 16 bits and drops the low 16 bits of the product. A lane holds an operand in its high byte, so the
 * product loses 8 bits. Four neighbouring elements take 24 instructions: two loads, four masks, eight SMLAW, four SSAT, four
 * stores, two of the loop. */
#ifndef TW_ADD_LINE_H
#define TW_ADD_LINE_H

#include "tw_binary_dsp.h"
#include "tw_dsp.h"

/* A run of elements. The assembly loads the members in this order. */
typedef struct {
    const int8_t *a, *b;
    int8_t *to;
    const int8_t *end;  /* of the whole fours of a */
    int32_t a_factor, b_factor, constant;
    uint32_t high_bytes;
} tw_run;

#if TW_HAS_DSP

/* The whole fours of a run.
 * Registers: r0 .. r7: the members of a tw_run; r8, r9: words of a and b, then their bytes 1 and 3; r10, r11: bytes 0 and 2;
 * r12, lr, r10, r8: sums of elements 0 .. 3. Stack, 32 bytes: r4 .. r11, since the code needs all registers.
 * Order: the second load follows the first, which saves a cycle; no instruction uses the result of the one before it. */
#define ADD_FOURS                     \
    "push {r4-r11}\n"                 \
    "ldm r0, {r0-r7}\n"               \
    "1:\n"                            \
    "ldr r8, [r0], #4\n"              \
    "ldr r9, [r1], #4\n"              \
    "and r10, r7, r8, lsl #8\n"       \
    "and r8, r8, r7\n"                \
    "and r11, r7, r9, lsl #8\n"       \
    "and r9, r9, r7\n"                \
    "smlawb r12, r4, r10, r6\n"       \
    "smlawb lr, r4, r8, r6\n"         \
    "smlawt r10, r4, r10, r6\n"       \
    "smlawt r8, r4, r8, r6\n"         \
    "smlawb r12, r5, r11, r12\n"      \
    "smlawb lr, r5, r9, lr\n"         \
    "smlawt r10, r5, r11, r10\n"      \
    "smlawt r8, r5, r9, r8\n"         \
    "ssat r12, #8, r12, asr #20\n"    \
    "ssat lr, #8, lr, asr #20\n"      \
    "ssat r10, #8, r10, asr #20\n"    \
    "ssat r8, #8, r8, asr #20\n"      \
    "strb lr, [r2, #1]\n"             \
    "strb r10, [r2, #2]\n"            \
    "strb r8, [r2, #3]\n"             \
    "strb r12, [r2], #4\n"            \
    "cmp r0, r3\n"                    \
    "bne 1b\n"                        \
    "pop {r4-r11}\n"

#endif

/* The output of one element. */
static inline int8_t tw_add_one(const tw_add_line *line, int8_t a, int8_t b)
{
    const int32_t first = tw_smlawb(line->a_factor, (uint32_t)a << 8, line->constant);
    return (int8_t)tw_ssat8(tw_smlawb(line->b_factor, (uint32_t)b << 8, first) >> TW_ADD_LINEAR_SHIFT);
}

/* The outputs of `count` neighbouring elements. */
static inline void tw_add_run(const tw_add_line *line, const int8_t *a, const int8_t *b, int8_t *to, int32_t count)
{
    int32_t done = 0;
#if TW_HAS_DSP
    const tw_run run = {a, b, to, a + (count & ~3), line->a_factor, line->b_factor, line->constant, 0xFF00FF00u};
    if (count >= 4) {
        TW_RUN(ADD_FOURS, &run);
        done = count & ~3;
    }
#endif
    for (int32_t i = done; i < count; ++i) {
        to[i] = tw_add_one(line, a[i], b[i]);
    }
    tw_clamp_all(to, count, line->out_min, line->out_max);
}

#endif
