/* tw_pair_loop.h - the loop of tw_pair_s8.c and tw_pair_w4.c over groups of four filters and over quads of inputs.
 *
 * The including file defines STEP_WORDS, the words of the stream per half of a quad, and:
 * - with TW_HAS_DSP, each for 2 pixels and for 1: STEP_2, STEP_1: half of a quad; QUAD_BYTES_2, QUAD_BYTES_1: bytes of code
 *   of a quad; BEGIN_2, BEGIN_1: initial sums from the four words of the stream in r4 .. r7; SPLIT_2, SPLIT_1: from
 *   accumulators to a multiple of each filter's sum. MULTIPLY_0 .. MULTIPLY_3: from that multiple to its product with the
 *   multiplier in r2.
 * - otherwise the functions begin, add and high_of, which do the same for one pixel.
 */
#ifndef TW_PAIR_LOOP_H
#define TW_PAIR_LOOP_H

#ifdef STEP_WORDS

#include "tw_dsp.h"
#include "tw_pair.h"

#if TW_HAS_DSP

/* Rescales, clamps and stores the outputs of one filter: of pixel 1 first, since a single pixel is both. r2: multiplier, r3:
 * power, r12: zero point; lr, r0: where the outputs of pixel 1 and 0 go. */
#define FINISH_2(sum_0, sum_1, multiply, fix)                                            \
    "ldm r1!, {r2, r3}\n"                                                                \
    multiply(sum_1) TW_OUTPUT(sum_1, fix, "r3", "r12") "strb " sum_1 ", [lr], #1\n"      \
    multiply(sum_0) TW_OUTPUT(sum_0, fix, "r3", "r12") "strb " sum_0 ", [r0], #1\n"
#define FINISH_1(sum_0, sum_1, multiply, fix)                                            \
    "ldm r1!, {r2, r3}\n"                                                                \
    multiply(sum_0) TW_OUTPUT(sum_0, fix, "r3", "r12") "strb " sum_0 ", [r0], #1\n"

/* All groups of four filters, for 2 pixels or 1.
 * Registers: r0: inputs; r1: stream; r4 .. r7: sums of filters 0 .. 3 for pixel 0; r8 .. r11: for pixel 1; r2, r3, r12, lr:
 * inputs and weights of a step.
 * Stack, 68 bytes: r4 .. r11, saved here since the code needs all registers, more than a compiler gives an asm statement if it
 * keeps a frame pointer; below them the tw_pair: [sp] to_0, +4 to_1, +8 zero, +12 x, +16 x_end, +20 the loop's entry instead of
 * `skip`, +24 to_0_end, +28 sum_0, +32 sum_1.
 * Loop: four quads per round. The first round enters at label 2 + skip * QUAD_BYTES, so that any number of quads needs one
 * comparison per four. QUAD_BYTES must be the exact size of a quad's code.
 * Order: the stream is read with post-increment only, and each word of weights serves both pixels. Sums stay in registers from
 * the first input to the last; only pointers are reloaded, once per group of filters.
 * Equals products() below in plain C. */
#define PRODUCTS(pixels, fix)                                \
    "push {r4-r11}\n"                                        \
    "ldm r0, {r2-r10}\n"                                     \
    "adr r11, 2f\n"                                          \
    "mov r12, #" QUAD_BYTES_##pixels "\n"                    \
    "mla r7, r7, r12, r11\n"     /* the entry */             \
    "orr r7, r7, #1\n"           /* as a Thumb address */    \
    "push {r2-r10}\n"                                        \
    "mov r0, r5\n"                                           \
    "1:\n"                       /* a group of filters */    \
    "ldm r1!, {r4-r7}\n"                                     \
    BEGIN_##pixels                                           \
    "ldr pc, [sp, #20]\n"                                    \
    ".p2align 2\n"                                           \
    "2:\n"                       /* four quads of inputs */  \
    STEP_##pixels STEP_##pixels STEP_##pixels STEP_##pixels  \
    STEP_##pixels STEP_##pixels STEP_##pixels STEP_##pixels  \
    "ldr r2, [sp, #16]\n"                                    \
    "cmp r0, r2\n"                                           \
    "bne.w 2b\n"                                             \
    SPLIT_##pixels                                           \
    "ldrd r0, lr, [sp]\n"                                    \
    "ldr r12, [sp, #8]\n"                                    \
    FINISH_##pixels("r4", "r8", MULTIPLY_0, fix)             \
    FINISH_##pixels("r5", "r9", MULTIPLY_1, fix)             \
    FINISH_##pixels("r6", "r10", MULTIPLY_2, fix)            \
    FINISH_##pixels("r7", "r11", MULTIPLY_3, fix)            \
    "strd r0, lr, [sp]\n"                                    \
    "ldr r2, [sp, #24]\n"                                    \
    "cmp r0, r2\n"               /* more groups? */          \
    "ldr r0, [sp, #12]\n"                                    \
    "bne.w 1b\n"                                             \
    "add sp, sp, #36\n"                                      \
    "pop {r4-r11}\n"

#define RUN(pixels, fix) \
    __asm__ volatile(PRODUCTS(pixels, fix) : "+r"(frame), "+r"(words) : : "r2", "r3", "r12", "lr", "cc", "memory")
#define RUN_2(fix) RUN(2, fix)
#define RUN_1(fix) RUN(1, fix)

/* A tw_pair_fours. */
static const uint32_t *products(const tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    register const tw_pair *frame __asm__("r0") = pair;
    register const uint32_t *words __asm__("r1") = stream;
    if (pair->to_0 == pair->to_1) {
        TW_BY_SIGN(sign, RUN_1, TW_FIX, TW_NO_FIX);
    } else {
        TW_BY_SIGN(sign, RUN_2, TW_FIX, TW_NO_FIX);
    }
    return words;
}

#else

static const uint32_t *products(const tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    const int32_t pixels = pair->to_0 == pair->to_1 ? 1 : 2;
    int8_t *to[2] = {pair->to_0, pair->to_1};
    while (to[0] != pair->to_0_end) {
        int32_t sums[2][4];
        begin(stream, pair->sum_0, sums[0]);
        begin(stream, pair->sum_1, sums[1]);
        stream += 4;
        for (const uint32_t *x = pair->x; x != pair->x_end; x += 2) {
            for (int32_t pixel = 0; pixel < pixels; ++pixel) {
                add(x[pixel], stream, sums[pixel]);
            }
            stream += STEP_WORDS;
        }
        for (int32_t pixel = 0; pixel < pixels; ++pixel) {
            for (int32_t i = 0; i < 4; ++i) {
                const int32_t high = high_of(sums[pixel], i, tw_signed(stream[2 * i])), power = tw_signed(stream[2 * i + 1]);
                *to[pixel]++ = (int8_t)tw_ssat8(tw_smmlar(high + ((high >> 31) & sign), power, pair->zero));
            }
        }
        stream += 8;
    }
    return stream;
}

#endif

#endif
#endif
