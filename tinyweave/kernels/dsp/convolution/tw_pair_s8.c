/* tw_pair_s8.c - two pixels times four filters of int8 weights, with the Arm DSP extension. */
#include "tw_pair_s8.h"

#include "tw_dsp.h"

#define STEP_WORDS 2 /* of the stream, for two inputs */

#if TW_HAS_DSP

/* r2, r3: inputs of both pixels; r12, lr: weights of both pairs of filters. */
#define STEP(load, of_second)             \
    load                                  \
    "ldm.w r1!, {r12, lr}\n"              \
    "smlad r5, r2, r12, r5\n"             \
    of_second("smlad r9, r3, r12, r9\n")  \
    "sxtb16 r12, r12\n"                   \
    "smlad r7, r2, lr, r7\n"              \
    of_second("smlad r11, r3, lr, r11\n") \
    "sxtb16 lr, lr\n"                     \
    "smlad r4, r2, r12, r4\n"             \
    of_second("smlad r8, r3, r12, r8\n")  \
    "smlad r6, r2, lr, r6\n"              \
    of_second("smlad r10, r3, lr, r10\n")
#define QUAD_BYTES_2 "92"
#define QUAD_BYTES_1 "64"

#define BEGIN_2 TW_FOUR_MORE
#define BEGIN_1
#define SPLIT_2 "sub r5, r5, r4\nsub r9, r9, r8\nsub r7, r7, r6\nsub r11, r11, r10\n"
#define SPLIT_1 "sub r5, r5, r4\nsub r7, r7, r6\n"

/* The sum of the first filter of a word, by its doubled multiplier; 256 times that of the second. */
#define MULTIPLY_0(sum) "smmlar " sum ", " sum ", r2, " sum "\n"
#define MULTIPLY_1(sum) "asr " sum ", " sum ", #7\nsmmulr " sum ", " sum ", r2\n"
#define MULTIPLY_2 MULTIPLY_0
#define MULTIPLY_3 MULTIPLY_1

#else

static inline void begin(const uint32_t *stream, int32_t sum, int32_t *sums)
{
    (void)sum;
    TW_COPY(sums, stream, 4 * sizeof *sums);
}

static inline void add(uint32_t x, const uint32_t *stream, int32_t *sums)
{
    tw_add_two_s8(x, stream[0], sums);
    tw_add_two_s8(x, stream[1], sums + 2);
}

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
