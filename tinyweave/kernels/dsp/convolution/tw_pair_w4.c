/* tw_pair_w4.c - two pixels times four filters of int4 weights, with the Arm DSP extension. */
#include "tw_pair_w4.h"

#include "tw_lanes_w4.h"

#define STEP_WORDS 1 /* of the stream, for two inputs */

#if TW_HAS_DSP

/* r2, r3: inputs of both pixels; r12: weights of all filters, lr: of some. Sums d, b, a, c. */
#define STEP(load, of_second)              \
    load                                   \
    "ldr r12, [r1], #4\n"                  \
    "smlad r7, r2, r12, r7\n"              \
    "uxtb16 lr, r12\n"                     \
    of_second("smlad r11, r3, r12, r11\n") \
    "smlad r5, r2, lr, r5\n"               \
    of_second("smlad r9, r3, lr, r9\n")    \
    "and lr, r12, #0x000F000F\n"           \
    "and r12, r12, #0x0F000F00\n"          \
    "smlad r4, r2, lr, r4\n"               \
    of_second("smlad r8, r3, lr, r8\n")    \
    "smlad r6, r2, r12, r6\n"              \
    of_second("smlad r10, r3, r12, r10\n")
#define QUAD_BYTES_2 "100"
#define QUAD_BYTES_1 "72"

/* -8 times the sum of the inputs of pixel 0 in r2, of pixel 1 in r3. */
#define BEGIN(load, of_second)             \
    load                                   \
    of_second("add r8, r4, r3\n")          \
    "add r4, r4, r2\n"                     \
    of_second("add r10, r6, r3, lsl #8\n") \
    "add r6, r6, r2, lsl #8\n"             \
    "add r12, r2, r2, lsl #4\n"            \
    of_second("add lr, r3, r3, lsl #4\n")  \
    of_second("add r9, r5, lr\n")          \
    "add r5, r5, r12\n"                    \
    "add r12, r12, r2, lsl #8\n"           \
    of_second("add lr, lr, r3, lsl #8\n")  \
    of_second("add r11, r7, lr\n")         \
    "add r7, r7, r12\n"
#define BEGIN_2 BEGIN("ldrd r2, r3, [sp, #28]\n", KEPT)
#define BEGIN_1 BEGIN("ldr r2, [sp, #28]\n", LEFT_OUT)
#define SPLIT_1                         \
    "sub r7, r7, r5\n"                  \
    "sub r5, r5, r4\n"                  \
    "sub r7, r7, r6\n"
#define SPLIT_2 SPLIT_1                 \
    "sub r11, r11, r9\n"                \
    "sub r9, r9, r8\n"                  \
    "sub r11, r11, r10\n"

/* The sum of filter 0, by its doubled multiplier; 16, 256, 4096 times those of the others, by halves of that. */
#define MULTIPLY_0(sum) "smmlar " sum ", " sum ", r2, " sum "\n"
#define MULTIPLY_1(sum) "asr " sum ", " sum ", #3\nsmmulr " sum ", " sum ", r2\n"
#define MULTIPLY_2(sum) "asr " sum ", " sum ", #7\nsmmulr " sum ", " sum ", r2\n"
#define MULTIPLY_3(sum) "asr " sum ", " sum ", #11\nsmmulr " sum ", " sum ", r2\n"

#else

static inline void begin(const uint32_t *stream, int32_t sum, int32_t *sums) { tw_begin_w4(stream, sum, sums); }

static inline void add(uint32_t x, const uint32_t *stream, int32_t *sums) { tw_add_w4(x, *stream, sums); }

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
