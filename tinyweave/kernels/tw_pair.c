/* tw_pair.c - two pixels times four filters at a time, with the Arm DSP extension. */
#include "tw_pair.h"

#include "tw_dsp.h"

#define QUADS_UNROLLED 4
#define QUAD_CODE_BYTES 92

void tw_pair_inputs(tw_pair *pair, const uint32_t *x, int32_t quads)
{
    pair->x = x;
    pair->x_end = x + 4 * quads;
    /* the first round of the unrolled loop begins so late that the last one ends with it */
    pair->skip = (uint32_t)(-quads & (QUADS_UNROLLED - 1)) * QUAD_CODE_BYTES;
}

#if TW_HAS_DSP

/* All groups of four filters; returns where the stream goes on.
 *
 * The assembly needs all of r0 .. r12 and lr, more than a compiler gives that keeps a frame pointer; so it saves r4 .. r11
 * itself. It holds r0: inputs; r1: stream; r2, r3: inputs of both pixels; r12, lr: weights of both pairs of filters;
 * r4 .. r7: sums of pixel 0, r8 .. r11: of pixel 1. On the stack lies a tw_pair, `skip` turned into an address.
 * Of all instructions of a quad the size is given, since the loop is entered in its midst. */

#define STEP                       \
    "ldm r0!, {r2, r3}\n"          \
    "ldm.w r1!, {r12, lr}\n"       \
    "smlad r5, r2, r12, r5\n"      \
    "smlad r9, r3, r12, r9\n"      \
    "sxtb16 r12, r12\n"          \
    "smlad r7, r2, lr, r7\n"       \
    "smlad r11, r3, lr, r11\n"     \
    "sxtb16 lr, lr\n"            \
    "smlad r4, r2, r12, r4\n"      \
    "smlad r8, r3, r12, r8\n"      \
    "smlad r6, r2, lr, r6\n"       \
    "smlad r10, r3, lr, r10\n"
#define QUAD STEP STEP

#define NO_FIX(sum)
#define FIX(sum) "add " sum ", " sum ", " sum ", asr #31\n"

/* Rescales the sums of one filter, after `halve` has made doubled ones of them. */
#define FINISH(sum_0, sum_1, halve, fix, channel)  \
    "ldm r1!, {r2, r3}\n"                          \
    halve(sum_1)                                   \
    halve(sum_0)                                   \
    "smmulr " sum_1 ", " sum_1 ", r2\n"            \
    "smmulr " sum_0 ", " sum_0 ", r2\n"            \
    fix(sum_1)                                     \
    fix(sum_0)                                     \
    "smmlar " sum_1 ", " sum_1 ", r3, r12\n"       \
    "smmlar " sum_0 ", " sum_0 ", r3, r12\n"       \
    "ssat " sum_1 ", #8, " sum_1 "\n"              \
    "ssat " sum_0 ", #8, " sum_0 "\n"              \
    "strb " sum_1 ", [lr, #" channel "]\n"         \
    "strb " sum_0 ", [r0, #" channel "]\n"
#define LOW(sum) "lsl " sum ", " sum ", #1\n"
#define HIGH(sum) "asr " sum ", " sum ", #7\n"

#define PRODUCTS(fix)                              \
    "push {r4-r11}\n"                              \
    "ldm r0, {r2-r8}\n"                            \
    "adr r9, 2f\n"                                 \
    "add r7, r7, r9\n"                             \
    "orr r7, r7, #1\n"                             \
    "push {r2-r8}\n"                               \
    "mov r0, r5\n"                                 \
    "1:\n"                                         \
    "ldm r1!, {r4-r7}\n"                           \
    "mov r8, r4\n"                                 \
    "mov r9, r5\n"                                 \
    "mov r10, r6\n"                                \
    "mov r11, r7\n"                                \
    "ldr pc, [sp, #20]\n"                          \
    ".p2align 2\n"                                 \
    "2:\n"                                         \
    QUAD QUAD QUAD QUAD                            \
    "ldr r2, [sp, #16]\n"                          \
    "cmp r0, r2\n"                                 \
    "bne.w 2b\n"                                   \
    "sub r5, r5, r4\n"                             \
    "sub r9, r9, r8\n"                             \
    "sub r7, r7, r6\n"                             \
    "sub r11, r11, r10\n"                          \
    "ldrd r0, lr, [sp]\n"                          \
    "ldr r12, [sp, #8]\n"                          \
    FINISH("r4", "r8", LOW, fix, "0")              \
    FINISH("r5", "r9", HIGH, fix, "1")             \
    FINISH("r6", "r10", LOW, fix, "2")             \
    FINISH("r7", "r11", HIGH, fix, "3")            \
    "add r0, r0, #4\n"                             \
    "add lr, lr, #4\n"                             \
    "strd r0, lr, [sp]\n"                          \
    "ldr r2, [sp, #24]\n"                          \
    "cmp r0, r2\n"                                 \
    "ldr r0, [sp, #12]\n"                          \
    "bne.w 1b\n"                                   \
    "add sp, sp, #28\n"                            \
    "pop {r4-r11}\n"

static const uint32_t *products(const tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    register const tw_pair *frame __asm__("r0") = pair;
    register const uint32_t *words __asm__("r1") = stream;
    if (sign) {
        __asm__ volatile(PRODUCTS(FIX) : "+r"(frame), "+r"(words) : : "r2", "r3", "r12", "lr", "cc", "memory");
    } else {
        __asm__ volatile(PRODUCTS(NO_FIX) : "+r"(frame), "+r"(words) : : "r2", "r3", "r12", "lr", "cc", "memory");
    }
    return words;
}

#else

/* The sums of one pair of filters and one pixel; the second one holds 256 times its own plus the first. */
static void finish(int32_t *sums)
{
    const uint32_t both = (uint32_t)sums[1] - (uint32_t)sums[0];
    sums[0] = tw_shift_left(sums[0], 1);
    sums[1] = tw_signed(both) >> 7;
}

static const uint32_t *products(const tw_pair *pair, const uint32_t *stream, int32_t sign)
{
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
                for (int32_t pixel = 0; pixel < 2; ++pixel) {
                    sums[pixel][i] = tw_smlad(x[pixel], first, sums[pixel][i]);
                    sums[pixel][i + 1] = tw_smlad(x[pixel], both, sums[pixel][i + 1]);
                }
            }
        }
        for (int32_t pixel = 1; pixel >= 0; --pixel) {
            finish(sums[pixel]);
            finish(sums[pixel] + 2);
            for (int32_t i = 0; i < 4; ++i) {
                const int32_t multiplier = tw_signed(stream[2 * i]), power = tw_signed(stream[2 * i + 1]);
                to[pixel][i] = tw_rescale_doubled(sums[pixel][i], multiplier, power, pair->zero, sign);
            }
            to[pixel] += 4;
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
    part.to_1 = last_1;
    part.to_0_end = last_0 + 4;
    products(&part, stream, sign);
    for (int32_t i = 0; i < rest; ++i) {
        pair->to_1[fours + i] = last_1[i];
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
