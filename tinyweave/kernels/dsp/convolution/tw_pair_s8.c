/* tw_pair_s8.c - two pixels times four filters of int8 weights, with the Arm DSP extension. tw_pair_s8.h has the layers, the
 * layout of the weights and the cost; tw_pair_loop.h has the loop around the steps that are defined here. */
#include "tw_pair_s8.h"

#include "tw_dsp.h"

#define STEP_WORDS 2 /* of the stream, for two inputs */

#if TW_HAS_DSP

/* Half of a quad: two inputs of two pixels, or of one, times four filters.
 * Registers: r2, r3: the inputs of pixel 0 and 1; r12, lr: the weights of filters 0 and 1, of filters 2 and 3; sums in r4 ..
 * r11.
 * Order: SMLAD with a packed word adds to the odd filter of its pair, so the word is used before SXTB16 replaces it by the
 * weights of the even filter. No SMLAD uses an SXTB16 directly before it.
 * Equals add() below, for each pixel. */
#define STEP_2                  \
    "ldm r0!, {r2, r3}\n"       \
    "ldm.w r1!, {r12, lr}\n"    \
    "smlad r5, r2, r12, r5\n"   \
    "smlad r9, r3, r12, r9\n"   \
    "sxtb16 r12, r12\n"         \
    "smlad r7, r2, lr, r7\n"    \
    "smlad r11, r3, lr, r11\n"  \
    "sxtb16 lr, lr\n"           \
    "smlad r4, r2, r12, r4\n"   \
    "smlad r8, r3, r12, r8\n"   \
    "smlad r6, r2, lr, r6\n"    \
    "smlad r10, r3, lr, r10\n"
#define STEP_1                  \
    "ldr r2, [r0], #8\n"        \
    "ldm.w r1!, {r12, lr}\n"    \
    "smlad r5, r2, r12, r5\n"   \
    "sxtb16 r12, r12\n"         \
    "smlad r7, r2, lr, r7\n"    \
    "sxtb16 lr, lr\n"           \
    "smlad r4, r2, r12, r4\n"   \
    "smlad r6, r2, lr, r6\n"
#define QUAD_BYTES_2 "92" /* code of two STEP_2: LDM r0 takes two bytes, each other instruction four */
#define QUAD_BYTES_1 "64"

/* Both pixels begin with the sums of the stream. */
#define BEGIN_2 TW_FOUR_MORE
#define BEGIN_1
/* s0 + 256 * s1 less s0: the odd sums become 256 * s1, 256 * s3. */
#define SPLIT_2 "sub r5, r5, r4\nsub r9, r9, r8\nsub r7, r7, r6\nsub r11, r11, r10\n"
#define SPLIT_1 "sub r5, r5, r4\nsub r7, r7, r6\n"

/* sum * multiplier / 2^31. For an even filter r2 is 2 * multiplier - 2^32, as a signed word, so SMMLAR adds the sum once more.
 * For an odd filter 256 * sum is shifted to 2 * sum, which SMMULR takes. */
#define MULTIPLY_0(sum) "smmlar " sum ", " sum ", r2, " sum "\n"
#define MULTIPLY_1(sum) "asr " sum ", " sum ", #7\nsmmulr " sum ", " sum ", r2\n"
#define MULTIPLY_2 MULTIPLY_0
#define MULTIPLY_3 MULTIPLY_1

#else

/* Sets the initial sums. */
static inline void begin(const uint32_t *stream, int32_t sum, int32_t *sums)
{
    (void)sum;
    TW_COPY(sums, stream, 4 * sizeof *sums);
}

/* Adds the products of two inputs of a pixel with four filters. */
static inline void add(uint32_t x, const uint32_t *stream, int32_t *sums)
{
    tw_add_two_s8(x, stream[0], sums);
    tw_add_two_s8(x, stream[1], sums + 2);
}

/* Filter i's sum times its multiplier / 2^31. */
static inline int32_t high_of(const int32_t *sums, int32_t i, int32_t multiplier)
{
    return i & 1 ? tw_smmulr(tw_sum_s8(sums, i, 1), multiplier) : tw_smmlar(sums[i], multiplier, sums[i]);
}

#endif

#include "tw_pair_loop.h"

void tw_pair_products_s8(tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    tw_pair_all(pair, stream, sign, products);
}
