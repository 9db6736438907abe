/* tw_mve_dots.h - one run of bytes times four others with the Arm MVE extension. */
#ifndef TW_MVE_DOTS_H
#define TW_MVE_DOTS_H

#include "tw_mve.h"

/* Adds to sum_0 the products of `count` bytes at `one` with those at four_0, and so on, modulo 2^32; all are variables, and the
 * pointers may move. one_step, four_step: bytes from sixteen of these to the next sixteen, as literals.
 * Registers: [one]; [four_0] .. [four_3]; [sum_0] .. [sum_3]: sums, in even registers, which VMLADAVA needs; lr: bytes left; q0:
 * bytes of `one`; q1, q2: bytes of the others, alternately. No stack.
 * Order: one load of `one` per four products; each product has the load of the next one's bytes after it. WLSTP.8 and LETP
 * predicate the tail, so no byte beyond the last is read. */
#if TW_HAS_MVE
#define TW_MVE_DOTS(one, one_step, four_0, four_1, four_2, four_3, four_step, count, sum_0, sum_1, sum_2, sum_3)      \
    __asm__(                                                                                                          \
        "wlstp.8 lr, %[bytes], 2f\n"                                                                                  \
        "1:\n"                                                                                                        \
        "vldrb.8 q0, [%[x]], #" #one_step "\n"                                                                        \
        "vldrb.8 q1, [%[w_0]], #" #four_step "\n"                                                                     \
        "vmladava.s8 %[s_0], q0, q1\n"                                                                                \
        "vldrb.8 q2, [%[w_1]], #" #four_step "\n"                                                                     \
        "vmladava.s8 %[s_1], q0, q2\n"                                                                                \
        "vldrb.8 q1, [%[w_2]], #" #four_step "\n"                                                                     \
        "vmladava.s8 %[s_2], q0, q1\n"                                                                                \
        "vldrb.8 q2, [%[w_3]], #" #four_step "\n"                                                                     \
        "vmladava.s8 %[s_3], q0, q2\n"                                                                                \
        "letp lr, 1b\n"                                                                                               \
        "2:\n"                                                                                                        \
        : [x] "+r"(one), [w_0] "+r"(four_0), [w_1] "+r"(four_1), [w_2] "+r"(four_2), [w_3] "+r"(four_3),              \
          [s_0] "+Te"(sum_0), [s_1] "+Te"(sum_1), [s_2] "+Te"(sum_2), [s_3] "+Te"(sum_3)                              \
        : [bytes] "r"(count) : "lr", "d0", "d1", "d2", "d3", "d4", "d5", "memory")
#else
#define TW_MVE_DOTS(one, one_step, four_0, four_1, four_2, four_3, four_step, count, sum_0, sum_1, sum_2, sum_3)      \
    do {                                                                                                              \
        const int8_t *const runs[4] = {four_0, four_1, four_2, four_3};                                               \
        uint32_t dot_sums[4] = {(uint32_t)sum_0, (uint32_t)sum_1, (uint32_t)sum_2, (uint32_t)sum_3};                  \
        for (int32_t k = 0; k < (count); ++k) {                                                                       \
            const int32_t vector = k / TW_MVE_LANES, lane = k % TW_MVE_LANES;                                         \
            for (int run = 0; run < 4; ++run) {                                                                       \
                dot_sums[run] += (uint32_t)(one[vector * one_step + lane] * runs[run][vector * four_step + lane]);    \
            }                                                                                                         \
        }                                                                                                             \
        sum_0 = (int32_t)dot_sums[0];                                                                                 \
        sum_1 = (int32_t)dot_sums[1];                                                                                 \
        sum_2 = (int32_t)dot_sums[2];                                                                                 \
        sum_3 = (int32_t)dot_sums[3];                                                                                 \
    } while (0)
#endif

/* Sums of products with four filters. */
typedef struct { int32_t of[4]; } tw_mve_sums;

/* Returns the sums, modulo 2^32, of the products of `count` inputs with each of at most four filters, which follow each other.
 * With fewer than four `filters` the last one is repeated. */
static inline tw_mve_sums tw_mve_dots(const int8_t *x, const int8_t *weights, int32_t filters, int32_t count)
{
    const int8_t *w_0 = weights, *w_1 = filters > 1 ? w_0 + count : w_0;
    const int8_t *w_2 = filters > 2 ? w_1 + count : w_1, *w_3 = filters > 3 ? w_2 + count : w_2;
    tw_mve_sums sums;
    int32_t sum_0 = 0, sum_1 = 0, sum_2 = 0, sum_3 = 0;
    TW_MVE_DOTS(x, 16, w_0, w_1, w_2, w_3, 16, count, sum_0, sum_1, sum_2, sum_3);
    sums.of[0] = sum_0;
    sums.of[1] = sum_1;
    sums.of[2] = sum_2;
    sums.of[3] = sum_3;
    return sums;
}

#if TW_HAS_MVE

/* The sums as a vector. */
static inline int32x4_t tw_mve_vector(tw_mve_sums sums)
{
    return tw_mve_lanes(sums.of[0], sums.of[1], sums.of[2], sums.of[3]);
}

#endif

#endif
