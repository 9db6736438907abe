/* tw_pair_loop.h - what tw_pair_s8.c and tw_pair_w4.c make of the steps that they define; to be included once they are.
 *
 * STEP_WORDS: words of the stream for half of a quad of inputs.
 *
 * In assembly, for two pixels and for one. STEP(load, of_second): half of a quad, load: of the inputs; for one pixel without
 * what of_second is given; QUAD_BYTES_2, QUAD_BYTES_1: the code of a quad; BEGIN_2, BEGIN_1: from the four words of the
 * stream in r4 .. r7 to where sums begin; SPLIT_2, SPLIT_1: from sums to a multiple of those of each filter; MULTIPLY_0 ..
 * MULTIPLY_3: from such a multiple to its product with the multiplier in r2. In C. begin: where sums begin; add: half of a
 * quad; high_of: a product.
 *
 * The assembly needs all of r0 .. r12 and lr, more than a compiler gives that keeps a frame pointer; so it saves r4 .. r11
 * itself. It holds r0: inputs; r1: stream; r4 .. r7: sums of pixel 0, r8 .. r11: of pixel 1. On the stack lies a tw_pair,
 * `skip` turned into an address. Of all instructions of a quad the size is given, since the loop is entered in its midst.
 */
#ifndef TW_PAIR_LOOP_H
#define TW_PAIR_LOOP_H

#ifdef STEP_WORDS

#include "tw_dsp.h"
#include "tw_pair.h"

#if TW_HAS_DSP

#define KEPT(code) code
#define LEFT_OUT(code)
#define STEP_2 STEP("ldm r0!, {r2, r3}\n", KEPT)
#define STEP_1 STEP("ldr r2, [r0], #8\n", LEFT_OUT)

#define RESCALE(sum, to, multiply, fix) multiply(sum) TW_OUTPUT(sum, fix, "r3", "r12") "strb " sum ", [" to "], #1\n"
#define FINISH_2(sum_0, sum_1, multiply, fix) \
    "ldm r1!, {r2, r3}\n" RESCALE(sum_1, "lr", multiply, fix) RESCALE(sum_0, "r0", multiply, fix)
#define FINISH_1(sum_0, sum_1, multiply, fix) "ldm r1!, {r2, r3}\n" RESCALE(sum_0, "r0", multiply, fix)

#define PRODUCTS(pixels, fix)                        \
    "push {r4-r11}\n"                                \
    "ldm r0, {r2-r10}\n"                             \
    "adr r11, 2f\n"                                  \
    "mov r12, #" QUAD_BYTES_##pixels "\n"            \
    "mla r7, r7, r12, r11\n"                         \
    "orr r7, r7, #1\n"                               \
    "push {r2-r10}\n"                                \
    "mov r0, r5\n"                                   \
    "1:\n"                                           \
    "ldm r1!, {r4-r7}\n"                             \
    BEGIN_##pixels                                   \
    "ldr pc, [sp, #20]\n"                            \
    ".p2align 2\n"                                   \
    "2:\n"                                           \
    STEP_##pixels STEP_##pixels STEP_##pixels STEP_##pixels  \
    STEP_##pixels STEP_##pixels STEP_##pixels STEP_##pixels  \
    "ldr r2, [sp, #16]\n"                            \
    "cmp r0, r2\n"                                   \
    "bne.w 2b\n"                                     \
    SPLIT_##pixels                                   \
    "ldrd r0, lr, [sp]\n"                            \
    "ldr r12, [sp, #8]\n"                            \
    FINISH_##pixels("r4", "r8", MULTIPLY_0, fix)     \
    FINISH_##pixels("r5", "r9", MULTIPLY_1, fix)     \
    FINISH_##pixels("r6", "r10", MULTIPLY_2, fix)    \
    FINISH_##pixels("r7", "r11", MULTIPLY_3, fix)    \
    "strd r0, lr, [sp]\n"                            \
    "ldr r2, [sp, #24]\n"                            \
    "cmp r0, r2\n"                                   \
    "ldr r0, [sp, #12]\n"                            \
    "bne.w 1b\n"                                     \
    "add sp, sp, #36\n"                              \
    "pop {r4-r11}\n"

#define RUN(pixels, fix) \
    __asm__ volatile(PRODUCTS(pixels, fix) : "+r"(frame), "+r"(words) : : "r2", "r3", "r12", "lr", "cc", "memory")
#define RUN_2(fix) RUN(2, fix)
#define RUN_1(fix) RUN(1, fix)

/* All groups of four filters; returns where the stream goes on. */
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
