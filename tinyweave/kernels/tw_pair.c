/* tw_pair.c - two pixels times four filters at a time, with the Arm DSP extension. */
#include "tw_pair.h"

#include "tw_dsp.h"

#define QUADS_UNROLLED 4

void tw_pair_inputs(tw_pair *pair, const uint32_t *x, int32_t quads)
{
    pair->x = x;
    pair->x_end = x + 4 * quads;
    /* the first round of the unrolled loop begins so late that the last one ends with it */
    pair->skip = (uint32_t)(-quads & (QUADS_UNROLLED - 1));
}

#if TW_HAS_DSP

/* The assembly needs all of r0 .. r12 and lr, more than a compiler gives that keeps a frame pointer; so it saves r4 .. r11
 * itself. It holds r0: inputs; r1: stream; r2, r3: inputs of both pixels; r12, lr: weights of both pairs of filters;
 * r4 .. r7: sums of pixel 0, r8 .. r11: of pixel 1. On the stack lies a tw_pair, `skip` turned into an address.
 * Of all instructions of a quad the size is given, since the loop is entered in its midst. What ends in 1 is for one pixel. */

#define STEP_2                     \
    "ldm r0!, {r2, r3}\n"          \
    "ldm.w r1!, {r12, lr}\n"       \
    "smlad r5, r2, r12, r5\n"      \
    "smlad r9, r3, r12, r9\n"      \
    "sxtb16 r12, r12\n"            \
    "smlad r7, r2, lr, r7\n"       \
    "smlad r11, r3, lr, r11\n"     \
    "sxtb16 lr, lr\n"              \
    "smlad r4, r2, r12, r4\n"      \
    "smlad r8, r3, r12, r8\n"      \
    "smlad r6, r2, lr, r6\n"       \
    "smlad r10, r3, lr, r10\n"
#define STEP_1                     \
    "ldr r2, [r0], #8\n"           \
    "ldm.w r1!, {r12, lr}\n"       \
    "smlad r5, r2, r12, r5\n"      \
    "sxtb16 r12, r12\n"            \
    "smlad r7, r2, lr, r7\n"       \
    "sxtb16 lr, lr\n"              \
    "smlad r4, r2, r12, r4\n"      \
    "smlad r6, r2, lr, r6\n"
#define QUAD_BYTES_2 "92"
#define QUAD_BYTES_1 "64"

#define BEGIN_2 "mov r8, r4\nmov r9, r5\nmov r10, r6\nmov r11, r7\n"
#define BEGIN_1
#define SPLIT_2 "sub r5, r5, r4\nsub r9, r9, r8\nsub r7, r7, r6\nsub r11, r11, r10\n"
#define SPLIT_1 "sub r5, r5, r4\nsub r7, r7, r6\n"

/* Rescales the sums of one filter: FIRST of a word those of the first filter, by its doubled multiplier; SECOND 256 times
 * those of the other. */
#define FIRST(sum) "smmlar " sum ", " sum ", r2, " sum "\n"
#define SECOND(sum) "asr " sum ", " sum ", #7\nsmmulr " sum ", " sum ", r2\n"
#define NO_FIX(sum)
#define FIX(sum) "add " sum ", " sum ", " sum ", asr #31\n"
#define RESCALE(sum, to, multiply, fix)        \
    multiply(sum)                              \
    fix(sum)                                   \
    "smmlar " sum ", " sum ", r3, r12\n"       \
    "ssat " sum ", #8, " sum "\n"              \
    "strb " sum ", [" to "], #1\n"
#define FINISH_2(sum_0, sum_1, multiply, fix) \
    "ldm r1!, {r2, r3}\n" RESCALE(sum_1, "lr", multiply, fix) RESCALE(sum_0, "r0", multiply, fix)
#define FINISH_1(sum_0, sum_1, multiply, fix) "ldm r1!, {r2, r3}\n" RESCALE(sum_0, "r0", multiply, fix)

#define PRODUCTS(pixels, fix)                        \
    "push {r4-r11}\n"                                \
    "ldm r0, {r2-r8}\n"                              \
    "adr r9, 2f\n"                                   \
    "mov r10, #" QUAD_BYTES_##pixels "\n"            \
    "mla r7, r7, r10, r9\n"                          \
    "orr r7, r7, #1\n"                               \
    "push {r2-r8}\n"                                 \
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
    FINISH_##pixels("r4", "r8", FIRST, fix)       \
    FINISH_##pixels("r5", "r9", SECOND, fix)      \
    FINISH_##pixels("r6", "r10", FIRST, fix)      \
    FINISH_##pixels("r7", "r11", SECOND, fix)     \
    "strd r0, lr, [sp]\n"                            \
    "ldr r2, [sp, #24]\n"                            \
    "cmp r0, r2\n"                                   \
    "ldr r0, [sp, #12]\n"                            \
    "bne.w 1b\n"                                     \
    "add sp, sp, #28\n"                              \
    "pop {r4-r11}\n"

#define RUN(code) __asm__ volatile(code : "+r"(frame), "+r"(words) : : "r2", "r3", "r12", "lr", "cc", "memory")

/* All groups of four filters; returns where the stream goes on. */
static const uint32_t *products(const tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    register const tw_pair *frame __asm__("r0") = pair;
    register const uint32_t *words __asm__("r1") = stream;
    if (pair->to_0 == pair->to_1) {
        if (sign) {
            RUN(PRODUCTS(1, FIX));
        } else {
            RUN(PRODUCTS(1, NO_FIX));
        }
    } else if (sign) {
        RUN(PRODUCTS(2, FIX));
    } else {
        RUN(PRODUCTS(2, NO_FIX));
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
        for (int32_t i = 0; i < 4; ++i) {
            sums[0][i] = sums[1][i] = tw_signed(stream[i]);
        }
        stream += 4;
        for (const uint32_t *x = pair->x; x != pair->x_end; x += 2) {
            for (int32_t i = 0; i < 4; i += 2) {
                const uint32_t both = *stream++, first = tw_sxtb16(both);
                for (int32_t pixel = 0; pixel < pixels; ++pixel) {
                    sums[pixel][i] = tw_smlad(x[pixel], first, sums[pixel][i]);
                    sums[pixel][i + 1] = tw_smlad(x[pixel], both, sums[pixel][i + 1]);
                }
            }
        }
        for (int32_t pixel = 0; pixel < pixels; ++pixel) {
            for (int32_t i = 0; i < 4; ++i) {
                const int32_t multiplier = tw_signed(stream[2 * i]), power = tw_signed(stream[2 * i + 1]);
                const int32_t first = sums[pixel][i & ~1], both = tw_signed((uint32_t)sums[pixel][i] - (uint32_t)first) >> 7;
                const int32_t high = i & 1 ? tw_smmulr(both, multiplier) : tw_smmlar(first, multiplier, first);
                *to[pixel]++ = (int8_t)tw_ssat8(tw_smmlar(high + ((high >> 31) & sign), power, pair->zero));
            }
        }
        stream += 8;
    }
    return stream;
}

#endif

/* The outputs of all groups of four filters and of the `rest` filters of the last group. */
static void products_and_rest(const tw_pair *pair, const uint32_t *stream, int32_t sign, int32_t rest)
{
    const int32_t fours = (int32_t)(pair->to_0_end - pair->to_0) - rest;
    tw_pair part = *pair;
    if (fours > 0) {
        part.to_0_end -= rest;
        stream = products(&part, stream, sign);
    }
    int8_t last_0[4], last_1[4];
    part.to_0 = last_0;
    part.to_1 = pair->to_1 == pair->to_0 ? last_0 : last_1;
    part.to_0_end = last_0 + 4;
    products(&part, stream, sign);
    for (int32_t i = 0; i < rest; ++i) {
        pair->to_1[fours + i] = part.to_1[i];
        pair->to_0[fours + i] = last_0[i];
    }
}

void tw_pair_products(const tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    const int32_t rest = (int32_t)(pair->to_0_end - pair->to_0) & 3;
    if (rest) {
        products_and_rest(pair, stream, sign, rest);
    } else {
        products(pair, stream, sign);
    }
}
