/* tw_pair_w4.c - two pixels times four filters of int4 weights, with the Arm DSP extension. tw_pair_w4.h has the layers, the
 * layout of the weights and the cost; tw_pair_loop.h has the loop around the steps that are defined here. */
#include "tw_pair_w4.h"

#include "tw_lanes_w4.h"

#define STEP_WORDS 1 /* of the stream, for two inputs */

#if TW_HAS_DSP

/* Half of a quad: two inputs of two pixels, or of one, times four filters.
 * Registers: r2, r3: the inputs of pixel 0 and 1; r12: the weights of all filters; lr: masked weights. r4 .. r7 hold the sums
 * a, b, c, d of tw_lanes_w4.h for pixel 0, r8 .. r11 for pixel 1.
 * Order: d takes the word as it is, b its UXTB16, a and c two masks. The last mask overwrites the word, so two registers
 * suffice. In STEP_2 no SMLAD uses a mask computed directly before it.
 * Equals add() below, for each pixel. */
#define STEP_2                   \
    "ldm r0!, {r2, r3}\n"        \
    "ldr r12, [r1], #4\n"        \
    "smlad r7, r2, r12, r7\n"    \
    "uxtb16 lr, r12\n"           \
    "smlad r11, r3, r12, r11\n"  \
    "smlad r5, r2, lr, r5\n"     \
    "smlad r9, r3, lr, r9\n"     \
    "and lr, r12, #0x000F000F\n" \
    "and r12, r12, #0x0F000F00\n" \
    "smlad r4, r2, lr, r4\n"     \
    "smlad r8, r3, lr, r8\n"     \
    "smlad r6, r2, r12, r6\n"    \
    "smlad r10, r3, r12, r10\n"
#define STEP_1                   \
    "ldr r2, [r0], #8\n"         \
    "ldr r12, [r1], #4\n"        \
    "smlad r7, r2, r12, r7\n"    \
    "uxtb16 lr, r12\n"           \
    "smlad r5, r2, lr, r5\n"     \
    "and lr, r12, #0x000F000F\n" \
    "and r12, r12, #0x0F000F00\n" \
    "smlad r4, r2, lr, r4\n"     \
    "smlad r6, r2, r12, r6\n"
#define QUAD_BYTES_2 "100" /* code of two STEP_2: LDM r0 takes two bytes, each other instruction four */
#define QUAD_BYTES_1 "72"

/* Adds the terms of t = -8 * (sum of the inputs) to the initial sums: a + t, b + 17 * t, c + 256 * t, d + 273 * t. t is in r2
 * for pixel 0, in r3 for pixel 1; r12, lr: multiples of t. Equals begin() below, for each pixel. */
#define BEGIN_2                     \
    "ldrd r2, r3, [sp, #28]\n"      \
    "add r8, r4, r3\n"              \
    "add r4, r4, r2\n"              \
    "add r10, r6, r3, lsl #8\n"     \
    "add r6, r6, r2, lsl #8\n"      \
    "add r12, r2, r2, lsl #4\n"     \
    "add lr, r3, r3, lsl #4\n"      \
    "add r9, r5, lr\n"              \
    "add r5, r5, r12\n"             \
    "add r12, r12, r2, lsl #8\n"    \
    "add lr, lr, r3, lsl #8\n"      \
    "add r11, r7, lr\n"             \
    "add r7, r7, r12\n"
#define BEGIN_1                     \
    "ldr r2, [sp, #28]\n"           \
    "add r4, r4, r2\n"              \
    "add r6, r6, r2, lsl #8\n"      \
    "add r12, r2, r2, lsl #4\n"     \
    "add r5, r5, r12\n"             \
    "add r12, r12, r2, lsl #8\n"    \
    "add r7, r7, r12\n"

/* a, b, c, d become s0, 16 * s1, 256 * s2, 4096 * s3. */
#define SPLIT_1                     \
    "sub r7, r7, r5\n"              \
    "sub r5, r5, r4\n"              \
    "sub r7, r7, r6\n"
#define SPLIT_2 SPLIT_1             \
    "sub r11, r11, r9\n"            \
    "sub r9, r9, r8\n"              \
    "sub r11, r11, r10\n"

/* sum * multiplier / 2^31, as in tw_pair_s8.c. The sums of filters 1, 2, 3 are shifted from 16, 256, 4096 times to twice. */
#define MULTIPLY_0(sum) "smmlar " sum ", " sum ", r2, " sum "\n"
#define MULTIPLY_1(sum) "asr " sum ", " sum ", #3\nsmmulr " sum ", " sum ", r2\n"
#define MULTIPLY_2(sum) "asr " sum ", " sum ", #7\nsmmulr " sum ", " sum ", r2\n"
#define MULTIPLY_3(sum) "asr " sum ", " sum ", #11\nsmmulr " sum ", " sum ", r2\n"

#else

/* Sets the initial sums; sum: -8 times the sum of the inputs. */
static inline void begin(const uint32_t *stream, int32_t sum, int32_t *sums) { tw_begin_w4(stream, sum, sums); }

/* Adds the products of two inputs of a pixel with four filters. */
static inline void add(uint32_t x, const uint32_t *stream, int32_t *sums) { tw_add_w4(x, *stream, sums); }

/* Filter i's sum times its multiplier / 2^31. */
static inline int32_t high_of(const int32_t *sums, int32_t i, int32_t multiplier)
{
    return i ? tw_smmulr(tw_sum_w4(sums, i, 1), multiplier) : tw_smmlar(sums[0], multiplier, sums[0]);
}

#endif

#include "tw_pair_loop.h"

void tw_pair_products_w4(tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    const uint32_t eight = tw_lanes(-8, -8);
    int32_t sum_0 = 0, sum_1 = 0;
    for (const uint32_t *x = pair->x; x != pair->x_end; x += 4) {
        sum_0 = tw_smlad(x[2], eight, tw_smlad(x[0], eight, sum_0));
        sum_1 = tw_smlad(x[3], eight, tw_smlad(x[1], eight, sum_1));
    }
    pair->sum_0 = sum_0;
    pair->sum_1 = sum_1;
    tw_pair_all(pair, stream, sign, products);
}
